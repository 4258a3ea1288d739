// Invariants of every trace, which viewers depend on.
#ifndef SLUICE_EXEC_TESTING_TRACE_TEST_UTIL_H_
#define SLUICE_EXEC_TESTING_TRACE_TEST_UTIL_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

namespace sluice {

// The contents of a well-formed trace, for tests.
struct SeenTrace {
  struct Arrow {
    std::string from, to;  // Processes.
    std::string tensor;
    int64_t bytes = 0;
  };
  std::set<std::string> processes;
  std::set<std::string> threads;      // "PROCESS THREAD"
  std::map<std::string, int> slices;  // By name, how often.
  std::vector<Arrow> arrows;
};

// Checks the document against the format: times do not decrease, slices of a
// thread do not overlap, everything has a name, each arrow leads from a send to
// its receive, which is not earlier than the clocks' errors allow.
inline SeenTrace CheckTrace(const std::string& text) {
  using Json = nlohmann::json;
  SeenTrace seen;
  const Json trace = Json::parse(text, nullptr, false);
  if (!trace.is_object() || !trace.contains("traceEvents")) {
    ADD_FAILURE() << "no trace: " << text.substr(0, 200);
    return seen;
  }
  using Thread = std::pair<int, int>;
  struct Slice {
    double start, end;
    std::string category;
  };
  std::map<int, std::string> process;
  std::map<Thread, std::string> thread;
  std::map<Thread, std::vector<Slice>> slices;
  std::map<int64_t, std::vector<Json>> flows;
  double last = 0;
  for (const Json& e : trace["traceEvents"]) {
    const std::string phase = e.at("ph");
    const int pid = e.at("pid");
    if (phase == "M") {
      if (e.at("name") == "process_name")
        process[pid] = e.at("args").at("name");
      if (e.at("name") == "thread_name")
        thread[{pid, e.at("tid")}] = e.at("args").at("name");
      continue;
    }
    const Thread where{pid, e.at("tid")};
    const double at = e.at("ts");
    EXPECT_GE(at, last) << e;
    last = at;
    EXPECT_FALSE(std::string(e.at("name")).empty()) << e;
    EXPECT_TRUE(e.contains("cat")) << e;
    EXPECT_TRUE(thread.contains(where)) << e;
    EXPECT_TRUE(process.contains(pid)) << e;
    if (phase == "X") {
      const double duration = e.at("dur");
      EXPECT_GT(duration, 0) << e;
      slices[where].push_back({at, at + duration, e.at("cat")});
      ++seen.slices[e.at("name")];
    } else if (phase == "s" || phase == "f") {
      flows[e.at("id")].push_back(e);
    } else {
      ADD_FAILURE() << "no such phase: " << e;
    }
  }
  constexpr double kRound = 0.0011;  // Times are written in thousandths.
  for (auto& [where, all] : slices)
    for (size_t i = 1; i < all.size(); ++i)
      EXPECT_GE(all[i].start, all[i - 1].end - kRound) << thread[where];
  const auto in = [&](const Json& e, const std::string& category) {
    const auto& all = slices[{e.at("pid"), e.at("tid")}];
    const double at = e.at("ts");
    return std::any_of(all.begin(), all.end(), [&](const Slice& s) {
      return s.category == category && s.start <= at + kRound &&
             at <= s.end + kRound;
    });
  };
  const auto error_us = [&](int pid) {
    const Json& clocks = trace.at("otherData").at("clocks");
    const auto it = clocks.find(process[pid]);
    return it == clocks.end() ? 0.0 : it->at("error_ns").get<double>() / 1e3;
  };
  for (const auto& [id, ends] : flows) {
    EXPECT_EQ(ends.size(), 2u) << "arrow " << id;
    if (ends.size() != 2) continue;
    const bool in_order = ends[0].at("ph") == "s";
    const Json& s = ends[in_order ? 0 : 1];
    const Json& f = ends[in_order ? 1 : 0];
    EXPECT_EQ(s.at("ph"), "s");
    EXPECT_EQ(f.at("ph"), "f");
    EXPECT_EQ(f.at("bp"), "e");
    EXPECT_TRUE(in(s, "send")) << s;
    EXPECT_TRUE(in(f, "receive")) << f;
    EXPECT_EQ(s.at("args"), f.at("args"));
    EXPECT_EQ(s.at("name"), f.at("name"));
    EXPECT_GE(f.at("ts").get<double>(), s.at("ts").get<double>() -
                                            error_us(s.at("pid")) -
                                            error_us(f.at("pid")) - kRound)
        << s << f;
    seen.arrows.push_back({process[s.at("pid")], process[f.at("pid")],
                           s.at("args").at("tensor"),
                           s.at("args").at("bytes")});
  }
  for (const auto& [pid, name] : process) seen.processes.insert(name);
  for (const auto& [where, name] : thread)
    seen.threads.insert(process[where.first] + " " + name);
  return seen;
}

}  // namespace sluice

#endif  // SLUICE_EXEC_TESTING_TRACE_TEST_UTIL_H_
