// Steps over three processes with failures in between (errors, deadlines,
// sessions that end and begin, a task that is killed and restarted) do not leak
// memory, threads or files in the client, the master or the workers. Runs
// 100,000 steps with SLUICE_TEST_FULL=1.
#include <gtest/gtest.h>
#include <malloc.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "cluster/testing/process_test_util.h"
#include "cluster/testing/test_scale_test_util.h"
#include "sluice/sluice.h"

namespace sluice {
namespace {

// The resources of a process.
struct Holdings {
  int64_t resident_kb = 0, threads = 0, files = 0;
};

Holdings Look(pid_t pid) {
  Holdings h;
  const std::string dir = "/proc/" + std::to_string(pid);
  std::ifstream status(dir + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("VmRSS:", 0) == 0)
      h.resident_kb = std::stoll(line.substr(6));
    if (line.rfind("Threads:", 0) == 0) h.threads = std::stoll(line.substr(8));
  }
  std::error_code gone;
  for ([[maybe_unused]] const auto& f :
       std::filesystem::directory_iterator(dir + "/fd", gone))
    ++h.files;
  return h;
}

class FlatMemory : public ::testing::Test {
 protected:
  FlatMemory() : use_(graph_), cluster_({"ps", "worker", "extra"}) {
    for (const char* job : {"ps", "worker", "extra"})
      cluster_.Spawn(job, "", {"SLUICE_TEST_TIMEOUT_MS=20000"});
    x_ = Placeholder<float>({-1}, "x");
    n_ = Placeholder<int32_t>({}, "n");
    Output shifted;
    {
      DeviceScope on("/job:ps/task:0");
      v_ = Var(Constant(1.0f), "v");
      shifted = x_ + v_.value();
      bad_ = ops::Reshape(shifted, Constant(Tensor::Vector<int32_t>({7})));
    }
    {
      DeviceScope on("/job:worker/task:0");
      y_ = shifted * 2.0f;
    }
    loop_ = Loop(n_);
    endless_ = Loop(Constant(INT32_MAX));
    Connect();
    EXPECT_TRUE(session_->RunTargets({v_.initializer()}).ok());
  }

  // Counts to n, with a part of each iteration on each task.
  static Output Loop(Output n) {
    return While(
        Output(Constant(0)),
        [&](Output i) {
          DeviceScope on("/job:worker/task:0");
          return i < n;
        },
        [](Output i) {
          DeviceScope on("/job:ps/task:0");
          return i + 1;
        });
  }
  void Connect() {
    session_ = nullptr;
    session_ = std::make_unique<Session>(cluster_.target("worker"), graph_);
  }

  void Step(int i) {
    Tensor in(DType::kFloat, {1 + i % 3 * 10'000});
    std::fill_n(in.data<float>(), in.num_elements(), 1.5f);
    const Feeds feeds = {{x_, in}};
    const auto out = session_->Run(feeds, y_);
    ASSERT_TRUE(out.ok()) << "step " << i << ": " << out.status();
    ASSERT_EQ(out->data<float>()[0], 5);
    if (i % 7 == 3) {
      EXPECT_FALSE(session_->Run(feeds, bad_).ok());
    }
    if (i % 10 == 1) {
      const auto count = session_->Run({{n_, Tensor::Scalar(20)}}, loop_);
      ASSERT_TRUE(count.ok()) << count.status();
    }
    if (i % 20 == 9) {  // Every other one is not finished.
      const auto run = session_->StartPartialRun({x_, n_}, {y_, loop_});
      ASSERT_TRUE(run.ok()) << run.status();
      const auto first = (*run)->Run(feeds, {y_});
      ASSERT_TRUE(first.ok()) << first.status();
      if (i % 40 == 9) {
        EXPECT_TRUE((*run)->Run({{n_, Tensor::Scalar(2)}}, {loop_}).ok());
      }
    }
    if (i % 200 == 57) {
      RunOptions soon;
      soon.timeout_ms = 2;
      EXPECT_FALSE(session_->Run({}, {endless_}, {}, soon).ok());
    }
    if (i % 100 == 23) Connect();
  }
  // The third task dies; sessions are reopened after its restart.
  void Restart() {
    cluster_.Signal("extra", SIGKILL);
    cluster_.Spawn("extra", "", {"SLUICE_TEST_TIMEOUT_MS=20000"});
    Connect();
  }
  std::map<std::string, Holdings> LookAtAll() {
    malloc_trim(0);
    return {{"client", Look(getpid())},
            {"master", Look(cluster_.pid("worker"))},
            {"ps", Look(cluster_.pid("ps"))}};
  }

  Graph graph_;
  WithGraph use_;
  ProcessCluster cluster_;
  Output x_, n_, y_, bad_, loop_, endless_;
  Var v_;
  std::unique_ptr<Session> session_;
};

TEST_F(FlatMemory, DoesNotGrowOverStepsWithFailures) {
  const int steps = FullTests() ? 100'000 : kSanitized ? 400 : 2'000;
  const int warm = steps / 4;
  std::map<std::string, Holdings> before;
  for (int i = 0; i < steps; ++i) {
    if (i == warm) before = LookAtAll();
    if (i % (steps / 8) == steps / 16) Restart();
    Step(i);
    if (HasFatalFailure()) return;
  }
  for (const auto& [who, now] : LookAtAll()) {
    const Holdings& was = before[who];
    SCOPED_TRACE(who);
    RecordProperty(who + "_kb", std::to_string(was.resident_kb) + " -> " +
                                    std::to_string(now.resident_kb));
    // The allocator's free memory varies; growth per step would be more.
    // (Sanitizers do not return freed memory.)
    if (!kSanitized) {
      EXPECT_LE(now.resident_kb, was.resident_kb + 12'000);
    }
    EXPECT_LE(now.threads, was.threads + 8);
    EXPECT_LE(now.files, was.files + 8);
    if (FullTests())
      std::printf("%s: %ld -> %ld kB, %ld -> %ld threads, %ld -> %ld files\n",
                  who.c_str(), was.resident_kb, now.resident_kb, was.threads,
                  now.threads, was.files, now.files);
  }
}

// What a session's steps had, its tasks give back when it has ended, also while
// another is open.
TEST(MemoryOfASession, IsReleasedWhenItEnds) {
  if (kSanitized) GTEST_SKIP() << "sanitizers do not return freed memory";
  ProcessCluster cluster({"ps", "worker"});
  for (const char* job : {"ps", "worker"})
    cluster.Spawn(job, "", {"SLUICE_TEST_TIMEOUT_MS=20000"});
  Graph graph;
  const WithGraph use(graph);
  const Output n = Placeholder<float>({}, "n");
  Output values;
  {
    DeviceScope on("/job:ps/task:0");
    values = ops::Range(Constant(0.0f), n, Constant(1.0f)) + 1.0f;
  }
  Session other(cluster.target("worker"), graph);
  ASSERT_TRUE(other.Run({{n, Tensor::Scalar(10.0f)}}, values).ok());
  const auto resident = [&cluster] {
    return std::max(Look(cluster.pid("ps")).resident_kb,
                    Look(cluster.pid("worker")).resident_kb);
  };
  const int64_t before = resident();
  constexpr float kCount = 100'000'000;  // 400 MB.
  {
    Session session(cluster.target("worker"), graph);
    const auto out = session.Run({{n, Tensor::Scalar(kCount)}}, values);
    ASSERT_TRUE(out.ok()) << out.status();
    ASSERT_EQ(out->num_elements(), static_cast<int64_t>(kCount));
  }
  bool released = false;
  for (int i = 0; i < 6000 && !released; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    released = resident() < before + 150'000;
  }
  EXPECT_TRUE(released) << before << " kB before, " << resident() << " after";
  EXPECT_TRUE(other.Run({{n, Tensor::Scalar(10.0f)}}, values).ok());
}

}  // namespace
}  // namespace sluice
