#include "exec/trace.h"

#include <algorithm>
#include <atomic>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace sluice {
namespace {

std::string Quote(const std::string& s) {
  std::string out = "\"";
  for (char c : s) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      absl::StrAppendFormat(&out, "\\u%04x", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out + "\"";
}

}  // namespace

int TraceThreadId() {
  static std::atomic<int> next{0};
  thread_local const int id = next.fetch_add(1);
  return id;
}

std::string ChromeTrace(const std::vector<TraceEvent>& events) {
  int64_t origin = INT64_MAX;
  std::set<int> threads;
  for (const TraceEvent& e : events) {
    origin = std::min(origin, e.start_ns);
    threads.insert(e.thread);
  }
  std::string out = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n";
  absl::StrAppend(&out,
                  "{\"ph\":\"M\",\"pid\":0,\"name\":\"process_name\",\"args\":{"
                  "\"name\":\"/device:CPU:0\"}}");
  for (int t : threads)
    absl::StrAppend(&out, ",\n{\"ph\":\"M\",\"pid\":0,\"tid\":", t,
                    ",\"name\":\"thread_name\",\"args\":{\"name\":\"thread ", t,
                    "\"}}");
  for (const TraceEvent& e : events) {
    absl::StrAppendFormat(
        &out,
        ",\n{\"ph\":\"X\",\"pid\":0,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f,\"name\":"
        "%s,\"args\":{\"node\":%s,\"outputs\":%s,\"allocated_bytes\":%d",
        e.thread, static_cast<double>(e.start_ns - origin) / 1e3,
        static_cast<double>(e.end_ns - e.start_ns) / 1e3, Quote(e.op),
        Quote(e.node), Quote(e.shapes), e.allocated_bytes);
    if (!e.frame.empty())
      absl::StrAppend(&out, ",\"frame\":", Quote(e.frame),
                      ",\"iteration\":", e.iteration);
    out += "}}";
  }
  return out + "\n]}\n";
}

}  // namespace sluice
