// Checks the output of the cluster examples and of scripts/demo-cluster.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <regex>
#include <set>

#include "cluster/testing/child_process_test_util.h"
#include "exec/testing/trace_test_util.h"
#include "io/file.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

class ClusterExamples : public ::testing::Test {
 protected:
  ClusterExamples() { std::filesystem::create_directories(dir_); }
  ~ClusterExamples() override {
    std::error_code ignored;
    std::filesystem::remove_all(dir_, ignored);
  }
  // The path of a built program.
  static std::string Program(const std::string& name) {
    std::error_code ignored;
    return std::filesystem::read_symlink("/proc/self/exe", ignored)
               .parent_path() /
           name;
  }
  void Run(const std::string& program,
           const std::vector<std::string>& arguments = {},
           const std::vector<std::string>& environment = {}) {
    ChildProcess child(program, arguments, environment, dir_ + "/out");
    const int code = child.Wait();
    said_ = ReadFile(dir_ + "/out").value_or("");
    EXPECT_EQ(code, 0) << said_;
  }
  // The groups of all matches of the expression in the output.
  std::vector<std::vector<std::string>> All(const std::string& expression) {
    std::vector<std::vector<std::string>> all;
    const std::regex regex(expression);
    for (std::sregex_iterator it(said_.begin(), said_.end(), regex), end;
         it != end; ++it)
      all.emplace_back(++it->begin(), it->end());
    EXPECT_FALSE(all.empty()) << "no " << expression << " in " << said_;
    return all;
  }
  std::vector<double> Numbers(const std::string& expression) {
    std::vector<double> numbers;
    for (const auto& groups : All(expression))
      numbers.push_back(std::atof(groups[0].c_str()));
    return numbers;
  }
  // The losses that each worker prints, in order.
  std::map<std::string, std::vector<double>> LossesByWorker() {
    std::map<std::string, std::vector<double>> losses;
    for (const auto& g : All("worker (\\d), step +\\d+: loss ([0-9.]+)\n"))
      losses[g[0]].push_back(std::atof(g[1].c_str()));
    return losses;
  }

  const std::string dir_ =
      ::testing::TempDir() + "sluice_examples_" + std::to_string(getpid());
  std::string said_;
};

TEST_F(ClusterExamples, AsynchronousWorkersAllLearn) {
  Run(Program("example_cluster_async_sgd"));
  const auto losses = LossesByWorker();
  EXPECT_EQ(losses.size(), 3u) << said_;
  for (const auto& [worker, all] : losses) {
    EXPECT_EQ(all.size(), 3u) << said_;
    EXPECT_LT(all.back(), 0.8 * all.front()) << said_;
  }
}

TEST_F(ClusterExamples, WorkersWithCopiesStayTheSame) {
  Run(Program("example_cluster_all_reduce"));
  const auto losses = LossesByWorker();
  EXPECT_EQ(losses.size(), 2u) << said_;
  for (const auto& [worker, all] : losses) {
    EXPECT_EQ(all.size(), 3u) << said_;
    EXPECT_LT(all.back(), 0.8 * all.front()) << said_;
  }
  EXPECT_THAT(said_, HasSubstr("the weights are the same"));
}

TEST_F(ClusterExamples, EightLayersOnEightDevicesLearnFaster) {
  Run(Program("example_model_parallel_lstm"));
  const std::vector<double> losses = Numbers("step +\\d+: loss ([0-9.]+)\n");
  EXPECT_LT(losses.back(), 0.5 * losses.front()) << said_;
  const auto times =
      All("takes (\\d+) ms on one device, (\\d+) ms on 8\n").at(0);
  // (Four times less on an idle machine.)
  EXPECT_LT(1.5 * std::atof(times[1].c_str()), std::atof(times[0].c_str()))
      << said_;
}

TEST_F(ClusterExamples, ExpertsOnSeparateTasksLearn) {
  Run(Program("example_cluster_experts"));
  const std::vector<double> errors =
      Numbers("step +\\d+: mean squared error ([0-9.]+)\n");
  EXPECT_LT(errors.back(), 0.5 * errors.front()) << said_;
  const std::vector<double> products =
      Numbers("/job:expert/replica:0/task:\\d: (\\d+) products");
  ASSERT_EQ(products.size(), 4u) << said_;
  // Not every expert runs for each element, so their numbers of runs differ.
  EXPECT_GE(std::count_if(products.begin(), products.end(),
                          [](double n) { return n > 0; }),
            2)
      << said_;
  EXPECT_GT(std::set<double>(products.begin(), products.end()).size(), 1u)
      << said_;
}

TEST_F(ClusterExamples, InGraphLoopsContinueWithoutTheirClients) {
  Run(Program("example_cluster_training_loops"));
  const auto calls = All("worker (\\d): (\\d+) iterations in one call");
  EXPECT_EQ(calls.size(), 3u) << said_;
  for (const auto& call : calls) EXPECT_EQ(call[1], "20000") << said_;
  // An observer sees all workers make progress and finish.
  const std::vector<double> seen = Numbers("after +(\\d+) iterations");
  EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end())) << said_;
  EXPECT_TRUE(std::any_of(seen.begin(), seen.end(), [](double n) {
    return n > 0 && n < 60000;
  })) << said_;
  EXPECT_EQ(seen.back(), 60000) << said_;
  EXPECT_THAT(said_, HasSubstr("after 60000 iterations: y = 3.000 x -1.000"));
}

TEST_F(ClusterExamples, SynchronousDemoSurvivesTheLossOfTasks) {
  Run("scripts/demo-cluster", {"--sync", "--steps=400"},
      {"SLUICE_PROGRAM=" + Program("sluice"),
       "SLUICE_DEMO_PORT=" + std::to_string(UnusedPort())});
  EXPECT_THAT(said_, HasSubstr("== killing worker:2"));
  EXPECT_THAT(said_, HasSubstr("== killing ps:1"));
  EXPECT_THAT(said_, HasSubstr("worker 0: training: restored"));
  const std::vector<double> right = Numbers("test images: ([0-9.]+)\n");
  ASSERT_EQ(right.size(), 2u) << said_;
  EXPECT_NEAR(right[0], right[1], 0.1) << said_;
  EXPECT_GT(right[1], 0.5) << said_;
}

TEST_F(ClusterExamples, DemoTrainsReportsSpeedAndWritesTrace) {
  const std::string trace = dir_ + "/trace.json";
  const int port = UnusedPort();
  Run("scripts/demo-cluster", {"--steps", "200", "--trace", trace},
      {"SLUICE_PROGRAM=" + Program("sluice"),
       "SLUICE_DEMO_PORT=" + std::to_string(port)});
  const auto losses = LossesByWorker();
  EXPECT_EQ(losses.size(), 2u) << said_;
  // (The loss of one batch varies by more than what the last steps gain.)
  double first = 0, least = HUGE_VAL;
  for (const auto& [worker, all] : losses) {
    first = std::max(first, all.front());
    least = std::min(least, *std::min_element(all.begin(), all.end()));
  }
  EXPECT_LT(least, 0.8 * first) << said_;
  for (const char* worker : {"0", "1"})
    EXPECT_GT(Numbers(std::string("worker ") + worker + ": ([0-9.]+) steps/s\n")
                  .at(0),
              1);
  EXPECT_GT(Numbers("test images: ([0-9.]+)\n").at(0), 0.5);
  EXPECT_THAT(said_, HasSubstr("trace of a step of all workers: " + trace));

  // (With flow arrows: each has both ends, and they are transfers.)
  const SeenTrace seen = CheckTrace(ReadFile(trace).value_or(""));
  std::set<std::string> sent, received;
  EXPECT_EQ(seen.processes.size(), 4u)
      << ::testing::PrintToString(seen.processes);
  for (const SeenTrace::Arrow& a : seen.arrows) {
    sent.insert(a.from);
    received.insert(a.to);
  }
  EXPECT_EQ(sent.size(), 4u) << ::testing::PrintToString(sent);
  EXPECT_EQ(received.size(), 4u) << ::testing::PrintToString(received);
  for (int i = 0; i < 4; ++i) {  // And no process is left.
    const int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in a{};
    a.sin_family = AF_INET;
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    a.sin_port = htons(static_cast<uint16_t>(port + i));
    EXPECT_NE(connect(s, reinterpret_cast<sockaddr*>(&a), sizeof(a)), 0);
    close(s);
  }
}

}  // namespace
}  // namespace sluice
