// Clusters over gRPC: tasks in separate processes, which are killed and
// suspended, and clients that disappear.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <map>
#include <numeric>
#include <random>
#include <sstream>
#include <thread>

#include "absl/cleanup/cleanup.h"
#include "cluster/server.h"
#include "cluster/testing/child_process_test_util.h"
#include "cluster/testing/process_test_util.h"
#include "cluster/testing/test_scale_test_util.h"
#include "cluster/transport/ucx/transport.h"
#include "cluster/worker_main.h"
#include "sluice/sluice.h"

namespace sluice {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr char kPs0[] = "/job:ps/replica:0/task:0";

// Endless, over the two tasks.
Output EndlessLoop() {
  return While(
      Output(Constant(int32_t{1})),
      [](Output i) {
        DeviceScope on("/job:worker/task:0");
        return i > 0;
      },
      [](Output i) {
        DeviceScope on("/job:ps/task:0");
        return Output(ops::Maximum(i, Constant(int32_t{1})));
      });
}

// A queue of the ps with room for four numbers, which clients share.
struct SharedNumbers {
  SharedNumbers() {
    const DeviceScope ps("/job:ps/task:0");
    queue = Queue::Fifo({{DType::kInt64, {}}},
                        {.capacity = 4, .shared_name = "numbers"});
    values = Placeholder<int64_t>({-1});
    put = queue.EnqueueMany({values});
    take = queue.Dequeue()[0];
    take_ten = queue.DequeueMany(10)[0];
    size = queue.Size();
  }
  Queue queue;
  Output values, take, take_ten, size;
  Node* put;
};

// A client that waits in a step, or takes numbers one by one and writes those
// that it has got into a file.
void UseNumbers(const std::string& role) {
  Graph graph;
  const WithGraph use(graph);
  const SharedNumbers numbers;
  Session session(std::getenv("SLUICE_TEST_TARGET"), graph);
  if (role == "puts_ten") {
    std::vector<int64_t> ten(10);
    std::iota(ten.begin(), ten.end(), 0);
    (void)session.RunTargets({numbers.put},
                             {{numbers.values, Tensor::Vector<int64_t>(ten)}});
  } else if (role == "takes_ten") {
    (void)session.Run(numbers.take_ten);
  }
  std::ofstream got(std::getenv("SLUICE_TEST_FILE"));
  for (;;) {
    const Result<Tensor> x = session.Run(numbers.take);
    if (!x.ok()) _exit(0);
    got << x->scalar<int64_t>() << std::endl;
  }
}

// Runs this program as a task or a client of one, if the environment says so.
// (Before main, so that the test framework is not involved.)
const bool is_child = [] {
  const char* role = std::getenv("SLUICE_TEST_CHILD");
  if (role == nullptr) return false;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (std::string(role) == "staged") {
    Graph graph;
    WithGraph use(graph);
    Output x = Placeholder<float>({}), y;
    {
      DeviceScope on("/job:ps/task:0");
      y = x + 1.0f;
    }
    Session session(std::getenv("SLUICE_TEST_TARGET"), graph);
    const auto run = session.StartPartialRun({x}, {y});
    for (;;) pause();
  }
  for (const char* uses : {"puts_ten", "takes_ten", "takes"})
    if (std::string(role) == uses) UseNumbers(role);
  if (std::string(role) == "client") {
    Graph graph;
    WithGraph use(graph);
    Output endless = EndlessLoop();
    Session session(std::getenv("SLUICE_TEST_TARGET"), graph);
    const Status s = session.Run(endless).status();
    std::fprintf(stderr, "client: %s\n", s.ToString().c_str());
    _exit(0);
  }
  // (Killed however the test ends.)
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  WorkerFlags flags;
  flags.cluster = std::getenv("SLUICE_TEST_CLUSTER");
  flags.job = role;
  const char* timeout = std::getenv("SLUICE_TEST_TIMEOUT_MS");
  flags.peer_timeout_ms =
      timeout == nullptr ? kProcessTimeout.count() : std::atoi(timeout);
  if (const char* transport = std::getenv("SLUICE_TEST_TRANSPORT"))
    flags.transport = transport;
  flags.allow_host_access = std::getenv("SLUICE_TEST_HOST_ACCESS") != nullptr;
  flags.no_shared_memory = std::getenv("SLUICE_TEST_NO_MEMORY") != nullptr;
  if (const char* devices = std::getenv("SLUICE_TEST_DEVICES"))
    flags.devices = devices;
  if (const char* dir = std::getenv("SLUICE_TEST_TLS")) {
    flags.tls_authority = std::string(dir) + "/ca.pem";
    flags.tls_certificate = std::string(dir) + "/task.pem";
    flags.tls_key = std::string(dir) + "/task.key";
  }
  if (const char* files = std::getenv("SLUICE_TEST_OPEN_FILES")) {
    const auto n = static_cast<rlim_t>(std::atoi(files));
    const rlimit limit = {n / 2, n};  // (Raised by the worker.)
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) _exit(1);
  }
  std::string error;
  const int code = sluice_worker_main(&flags, &error);
  if (code != 0) std::fprintf(stderr, "%s: %s\n", role, error.c_str());
  _exit(code);
}();

// The CPU time of a process, all threads, in milliseconds.
int64_t CpuMs(pid_t pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
  std::string stat((std::istreambuf_iterator<char>(in)), {});
  std::istringstream fields(stat.substr(stat.rfind(')') + 2));
  std::string skipped;
  for (int i = 0; i < 11; ++i) fields >> skipped;
  int64_t user = 0, system = 0;
  fields >> user >> system;
  return (user + system) * 1000 / sysconf(_SC_CLK_TCK);
}

// A cluster of a ps and a worker.
class ProcessTest : public ::testing::Test {
 protected:
  ProcessTest() : use_(graph_), cluster_({"ps", "worker"}) {}

  void Spawn(const std::string& role) { cluster_.Spawn(role, target()); }
  void Signal(const std::string& role, int signal) {
    cluster_.Signal(role, signal);
  }
  std::unique_ptr<Server> StartHere(const std::string& job) {
    ServerOptions options;
    options.cluster = cluster_.spec();
    options.job = job;
    options.peer_timeout = kProcessTimeout;
    Result<std::unique_ptr<Server>> s = Server::Start(options);
    EXPECT_TRUE(s.ok()) << s.status();
    return s.ok() ? *std::move(s) : nullptr;
  }
  std::string target() const { return cluster_.target("worker"); }
  // 2 (x + 1), the sum on the ps and the product on the worker.
  Output BothTasks(Output x) {
    Output y;
    {
      DeviceScope on("/job:ps/task:0");
      y = x + 1.0f;
    }
    DeviceScope on("/job:worker/task:0");
    return y * 2.0f;
  }

  Graph graph_;
  WithGraph use_;
  ProcessCluster cluster_;
};

TEST_F(ProcessTest, AcceleratorsOfTwoProcessesShareALoop) {
  for (const std::string role : {"ps", "worker"})
    cluster_.Spawn(
        role, "", {"SLUICE_TEST_DEVICES=cpu=1,emu=2(memory=64M,kernel_us=20)"});
  const auto layer = [](Output x, const char* device) {
    DeviceScope on(device);
    return ops::Tanh(ops::MatMul(x, x)) * 0.5f;
  };
  Tensor start(DType::kFloat, Shape({2, 2}));
  const float values[] = {0.5f, 1, -1, 0.25f};
  std::copy_n(values, 4, start.data<float>());
  const auto build = [&](const std::vector<const char*>& devices) {
    Output x = Constant(start);
    auto [n, out] = While(
        std::tuple(Output(Constant(int32_t{0})), x),
        [](Output i, Output) { return i < 20; },
        [&](Output i, Output v) {
          for (const char* d : devices) v = layer(v, d);
          return std::tuple(Output(i + 1), v);
        });
    return out;
  };
  Output on_four =
      build({"/job:ps/task:0/device:EMU:0", "/job:worker/task:0/device:EMU:1",
             "/job:ps/task:0/device:EMU:1", "/job:worker/task:0/device:CPU:0"});
  Graph plain;
  Tensor want;
  {
    WithGraph use(plain);
    Output here = build({"", "", "", ""});
    Session session(plain);
    want = *session.Run(here);
  }
  Session session(target(), graph_);
  const auto devices = session.ListDevices();
  ASSERT_TRUE(devices.ok()) << devices.status();
  EXPECT_EQ(devices->size(), 6u);
  for (int i = 0; i < 3; ++i) {
    const auto got = session.Run(on_four);
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(got->ToString(), want.ToString());
  }
  // Its memory limit applies there too.
  Output large;
  {
    DeviceScope on("/job:ps/task:0/device:EMU:0");
    large = ops::Fill(Constant(Tensor::Vector<int32_t>({32 << 20})),
                      Constant(1.0f)) +
            1.0f;
  }
  const Status s = session.Run(large).status();
  EXPECT_EQ(s.code(), StatusCode::kResourceExhausted) << s;
  EXPECT_THAT(std::string(s.message()), HasSubstr("EMU:0"));
}

TEST_F(ProcessTest, ProgramMayServeAsTaskAndCallItDirectly) {
  const std::string file =
      ::testing::TempDir() + "task_server" + std::to_string(getpid()) + ".json";
  ClusterSpec alone;
  ASSERT_TRUE(
      alone.Add("worker", 0, cluster_.spec().Find("worker", 0)->address).ok());
  std::ofstream(file) << alone.ToJson();
  TaskServerOptions options;
  options.cluster = file;
  options.job = "worker";
  options.max_message_mb = 1;
  auto task = TaskServer::Start(options);
  ASSERT_TRUE(task.ok()) << task.status();
  EXPECT_EQ((*task)->task(), "/job:worker/replica:0/task:0");
  Output x = Placeholder<float>({-1});
  Output sum = ops::Sum(x, Constant(Tensor::Vector<int32_t>({0})));
  {
    Session session((*task)->target(), graph_);
    Tensor small(DType::kFloat, Shape({1000}));
    std::fill_n(small.data<float>(), 1000, 2.0f);
    const auto out = session.Run({{x, small}}, sum);
    ASSERT_TRUE(out.ok()) << out.status();
    EXPECT_EQ(out->scalar<float>(), 2000);
    // This would not fit into a message. (Equal values would be sent as one.)
    Tensor large(DType::kFloat, Shape({1 << 20}));
    std::iota(large.data<float>(), large.data<float>() + (1 << 20), 0.0f);
    const auto direct = session.Run({{x, large}}, sum);
    ASSERT_TRUE(direct.ok()) << direct.status();
    EXPECT_NEAR(direct->scalar<float>(), 0x1p39f, 0x1p25f);
    (*task)->Stop();
    EXPECT_EQ(session.Run({{x, small}}, sum).status().code(),
              StatusCode::kUnavailable);
    // Another server with the same target does not have the session.
    task = TaskServer::Start(options);
    ASSERT_TRUE(task.ok()) << task.status();
    EXPECT_EQ(session.Run({{x, small}}, sum).status().code(),
              StatusCode::kUnavailable);
  }
  Session again((*task)->target(), graph_);
  EXPECT_TRUE(again.Run({{x, Tensor(DType::kFloat, Shape({0}))}}, sum).ok());
  unlink(file.c_str());
  options.cluster = "no such file";
  EXPECT_EQ(TaskServer::Start(options).status().code(), StatusCode::kNotFound)
      << TaskServer::Start(options).status();
  (*task)->Stop();
}

TEST_F(ProcessTest, MessagesLargerThanTheLimitAreAnError) {
  ServerOptions options;
  const std::string address = cluster_.spec().Find("worker", 0)->address;
  ASSERT_TRUE(options.cluster.Add("worker", 0, address).ok());
  options.job = "worker";
  options.max_message_bytes = 1 << 20;
  const auto server = Server::Start(options);
  ASSERT_TRUE(server.ok()) << server.status();
  Output x = Placeholder<float>({-1});
  Output sum = ops::Sum(x, Constant(Tensor::Vector<int32_t>({0})));
  Session session((*server)->target(), graph_);
  Tensor large(DType::kFloat, Shape({1 << 20}));
  std::iota(large.data<float>(), large.data<float>() + (1 << 20), 0.0f);
  const Status s = session.Run({{x, large}}, sum).status();
  EXPECT_THAT(std::string(s.message()), HasSubstr("larger than max"));
}

// Some in the step's own messages, the large ones in parts before those, while
// another thread's steps use the same connection.
TEST_F(ProcessTest, LargeFeedsAndFetchesAreSentInParts) {
  // (A busy machine needs more than the usual second for 20 MB.)
  for (const std::string role : {"ps", "worker"})
    cluster_.Spawn(role, target(), {"SLUICE_TEST_TIMEOUT_MS=60000"});
  constexpr int64_t kLarge = 5 << 20;  // 20 MB of floats.
  Output x = Placeholder<float>({-1}), word = Placeholder<std::string>({});
  Output even = Placeholder<bool>({-1});
  const std::vector<Output> fetches = {BothTasks(x), ops::Identity(word),
                                       ops::LogicalNot(even), ops::Size(x)};
  Session session(target(), graph_);
  Tensor numbers(DType::kFloat, Shape({kLarge}));
  std::iota(numbers.data<float>(), numbers.data<float>() + kLarge, 0.0f);
  Tensor flags(DType::kBool, Shape({4 * kLarge}));
  for (int64_t i = 0; i < 4 * kLarge; ++i) flags.data<bool>()[i] = i % 2 == 0;
  std::atomic<bool> over{false};
  const Output y = x * 2.0f;
  std::thread other([&] {
    while (!over) {
      const auto six = session.Run({{x, Tensor::Vector<float>({3})}}, y);
      ASSERT_TRUE(six.ok()) << six.status();
      ASSERT_EQ(six->ToVector<float>(), std::vector<float>{6});
    }
  });
  const absl::Cleanup ends = [&] {
    over = true;
    other.join();
  };
  for (int i = 0; i < 2; ++i) {
    const auto out = session.Run(
        {{x, numbers}, {word, Tensor::Scalar<std::string>("w")}, {even, flags}},
        fetches);
    ASSERT_TRUE(out.ok()) << out.status();
    int64_t wrong = 0;
    const float* const got = (*out)[0].data<float>();
    for (int64_t k = 0; k < kLarge; ++k)
      wrong += got[k] != 2 * (static_cast<float>(k) + 1);
    const bool* const odd = (*out)[2].data<bool>();
    for (int64_t k = 0; k < 4 * kLarge; ++k) wrong += odd[k] != (k % 2 != 0);
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ((*out)[1].scalar<std::string>(), "w");
    EXPECT_EQ((*out)[3].scalar<int32_t>(), kLarge);
  }
}

TEST_F(ProcessTest, FeedsLargerThanAMessageAreSent) {
  if (!FullTests()) GTEST_SKIP() << "it takes 5 GB; SLUICE_TEST_FULL=1 runs it";
  Spawn("ps");
  Spawn("worker");
  Output x = Placeholder<float>({-1}), y = Placeholder<float>({-1});
  Output both;
  {
    // (Of the client's own task: others take up to 1 GB.)
    const DeviceScope here("/job:worker/task:0");
    both = ops::Cast(ops::Size(x) + ops::Size(y), DType::kFloat);
  }
  Session session(target(), graph_);
  Tensor large(DType::kFloat, Shape({300 << 20}));
  std::iota(large.data<float>(), large.data<float>() + (300 << 20), 0.0f);
  const auto out = session.Run({{x, large}, {y, large}}, both);
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ(out->scalar<float>(), 2.0f * (300 << 20));
}

// Between tasks, by either way, and to the client.
TEST_F(ProcessTest, TensorsLargerThanAMessageAreSentAndFetched) {
  if (!FullTests()) GTEST_SKIP() << "it takes 8 GB; SLUICE_TEST_FULL=1 runs it";
  constexpr int32_t kCount = 600'000'000;  // 2.4 GB.
  const Output n = Placeholder<int32_t>({});
  Output values, last;
  {
    DeviceScope on("/job:ps/task:0");
    values = ops::Range(Constant(0), n, Constant(1)) * 3;
  }
  {
    DeviceScope on("/job:worker/task:0");
    last = ops::Max(values, Constant(Tensor::Vector<int32_t>({0})));
  }
  for (const char* way : {"memory", "grpc"}) {
    SCOPED_TRACE(way);
    std::vector<std::string> more = {"SLUICE_TEST_TIMEOUT_MS=30000"};
    if (std::string(way) == "grpc") more.push_back("SLUICE_TEST_NO_MEMORY=1");
    for (const char* role : {"ps", "worker"}) cluster_.Spawn(role, "", more);
    Session session(target(), graph_);
    const auto out = session.Run({{n, Tensor::Scalar(kCount)}}, last);
    ASSERT_TRUE(out.ok()) << out.status();
    EXPECT_EQ(out->scalar<int32_t>(), 3 * (kCount - 1));
    const auto all = session.Run({{n, Tensor::Scalar(kCount)}}, values);
    ASSERT_TRUE(all.ok()) << all.status();
    ASSERT_EQ(all->num_elements(), kCount);
    for (int32_t i = 0; i < kCount; ++i)
      ASSERT_EQ(all->data<int32_t>()[i], 3 * i);
    for (const char* role : {"ps", "worker"}) Signal(role, SIGKILL);
  }
}

TEST_F(ProcessTest, StepRunsOverTwoProcesses) {
  Spawn("ps");
  Spawn("worker");
  Output x = Placeholder<float>({-1});
  Output y = BothTasks(x);
  Var v;
  {
    DeviceScope on("/job:ps/task:0");
    v = Var(Constant(5.0f), "v");
  }
  {
    Session session(target(), graph_);
    ASSERT_TRUE(session.RunTargets({v.initializer()}).ok());
    // Small ones, and one that is sent beside its message.
    for (const int64_t n : {0, 1, 3, 100000}) {
      Tensor in(DType::kFloat, Shape({n}));
      for (int64_t i = 0; i < n; ++i)
        in.data<float>()[i] = static_cast<float>(i);
      auto out = session.Run({{x, in}}, y);
      ASSERT_TRUE(out.ok()) << out.status();
      ASSERT_EQ(out->num_elements(), n);
      for (int64_t i = 0; i < n; ++i)
        ASSERT_EQ(out->data<float>()[i], 2.0f * (i + 1));
    }
  }
  // A client of the other task finds the variable.
  Session other(cluster_.target("ps"), graph_);
  auto value = other.Run(v.value());
  ASSERT_TRUE(value.ok()) << value.status();
  EXPECT_EQ(value->scalar<float>(), 5);
}

// Nor a task that has just worked, over either network.
TEST_F(ProcessTest, IdleTaskUsesNoCpu) {
  if (kSanitized) GTEST_SKIP() << "sanitizers have threads of their own";
  for (const char* transport : {"grpc", "ucx"}) {
    if (std::string(transport) == "ucx" && !HaveUcx()) continue;
    SCOPED_TRACE(transport);
    for (const char* role : {"ps", "worker"})
      cluster_.Spawn(role, "",
                     {absl::StrCat("SLUICE_TEST_TRANSPORT=", transport)});
    const Output x = Placeholder<float>({});
    const Output y = BothTasks(x);
    Session session(target(), graph_);
    for (int i = 0; i < 20; ++i) {
      const auto out = session.Run({{x, Tensor::Scalar<float>(1)}}, y);
      ASSERT_TRUE(out.ok()) << out.status();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    std::map<std::string, int64_t> before;
    for (const char* role : {"ps", "worker"})
      before[role] = CpuMs(cluster_.pid(role));
    std::this_thread::sleep_for(std::chrono::milliseconds(2000));
    for (const char* role : {"ps", "worker"}) {
      EXPECT_LT(CpuMs(cluster_.pid(role)) - before[role], 100) << role;
      EXPECT_GT(before[role], 0);
      Signal(role, SIGKILL);
    }
  }
}

TEST_F(ProcessTest, KilledClientsLeaveNoNumberHalfTakenOrHalfPut) {
  const auto ps = StartHere("ps"), worker = StartHere("worker");
  ASSERT_TRUE(ps && worker);
  const SharedNumbers numbers;
  Session session(target(), graph_);
  const auto size = [&] {
    const auto n = session.Run(numbers.size);
    return n.ok() ? n->scalar<int32_t>() : -1;
  };
  const auto put = [&](std::vector<int64_t> v) {
    return session.RunTargets({numbers.put},
                              {{numbers.values, Tensor::Vector<int64_t>(v)}});
  };
  const auto take = [&] {
    RunOptions soon;
    soon.timeout_ms = 30000;
    const auto x = session.Run({}, {numbers.take}, {}, soon);
    EXPECT_TRUE(x.ok()) << x.status();
    return x.ok() ? (*x)[0].scalar<int64_t>() : -1;
  };
  const auto kill_client = [&](const char* role) {
    Signal(role, SIGKILL);
    return BecomesTrue([&] {
      return ps->worker().steps().num_running() == 0 &&
             worker->master().steps().num_running() == 0;
    });
  };
  // Killed with four of its ten in the queue: these stay, the others never
  // come.
  Spawn("puts_ten");
  ASSERT_TRUE(BecomesTrue([&] { return size() == 4; }));
  ASSERT_TRUE(kill_client("puts_ten"));
  for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(take(), i);
  EXPECT_EQ(size(), 0);

  // Killed while it holds six of ten, which go back to the front.
  Spawn("takes_ten");
  ASSERT_TRUE(
      BecomesTrue([&] { return ps->worker().steps().num_running() > 0; }));
  ASSERT_TRUE(put({0, 1, 2, 3, 4, 5}).ok());
  EXPECT_EQ(size(), 0);
  ASSERT_TRUE(kill_client("takes_ten"));
  for (int64_t i = 0; i < 6; ++i) EXPECT_EQ(take(), i);
  EXPECT_EQ(size(), 0);
}

// A number that was taken is gone with the client that has not got it yet; all
// others are taken once.
TEST_F(ProcessTest, ClientsThatAreKilledAnyTimeTakeNoNumberTwice) {
  Spawn("ps");
  Spawn("worker");
  const SharedNumbers numbers;
  Session session(target(), graph_);
  constexpr unsigned kSeed = 7;
  SCOPED_TRACE(absl::StrCat("seed ", kSeed));
  std::mt19937 random(kSeed);
  const std::string file =
      ::testing::TempDir() + "taken" + std::to_string(getpid());
  constexpr int kClients = 4;
  constexpr int64_t kNumbers = 2000;
  std::atomic<bool> all_put = false;
  std::thread putter([&] {
    for (int64_t i = 0; i < kNumbers; i += 10) {
      std::vector<int64_t> ten(10);
      std::iota(ten.begin(), ten.end(), i);
      const Status s = session.RunTargets(
          {numbers.put}, {{numbers.values, Tensor::Vector<int64_t>(ten)}});
      EXPECT_TRUE(s.ok()) << s;
    }
    all_put = true;
  });
  std::vector<int64_t> got;
  for (int c = 0; c < kClients; ++c) {
    cluster_.Spawn("takes", target(), {"SLUICE_TEST_FILE=" + file});
    const auto lines = [&] {
      std::ifstream in(file);
      return std::count(std::istreambuf_iterator<char>(in), {}, '\n');
    };
    const int64_t wanted = 1 + static_cast<int64_t>(random() % 200);
    EXPECT_TRUE(BecomesTrue([&] { return lines() >= wanted; }));
    Signal("takes", SIGKILL);
    std::ifstream in(file);
    for (std::string line; std::getline(in, line) && !in.eof();)
      got.push_back(std::stoll(line));
    unlink(file.c_str());
  }
  const size_t by_clients = got.size();
  for (;;) {
    RunOptions options;
    options.timeout_ms = all_put ? 5000 : 30000;
    const auto x = session.Run({}, {numbers.take}, {}, options);
    if (!x.ok()) {
      EXPECT_EQ(x.status().code(), StatusCode::kDeadlineExceeded) << x.status();
      break;
    }
    got.push_back((*x)[0].scalar<int64_t>());
    if (got.back() == kNumbers - 1) break;
  }
  putter.join();
  EXPECT_GE(by_clients, size_t{kClients});
  // In order, with at most one number lost for each client, which had taken it.
  EXPECT_TRUE(std::is_sorted(got.begin(), got.end()));
  EXPECT_EQ(std::adjacent_find(got.begin(), got.end()), got.end());
  EXPECT_GE(got.size(), static_cast<size_t>(kNumbers - kClients));
}

TEST_F(ProcessTest, AKilledTaskEndsTheStepsThatWaitForItsQueue) {
  Spawn("ps");
  Spawn("worker");
  const SharedNumbers numbers;
  Session session(target(), graph_);
  const std::vector<int64_t> six = {1, 2, 3, 4, 5, 6};
  const Feeds feeds = {{numbers.values, Tensor::Vector<int64_t>(six)}};
  std::atomic<bool> waits = true;
  Status put;
  std::thread putter([&] {
    put = session.RunTargets({numbers.put}, feeds);
    waits = false;
  });
  ASSERT_TRUE(BecomesTrue([&] {
    const auto n = session.Run(numbers.size);
    return n.ok() && n->scalar<int32_t>() == 4;
  }));
  EXPECT_TRUE(waits);
  Signal("ps", SIGKILL);
  putter.join();
  EXPECT_THAT(put.code(), AnyOf(StatusCode::kUnavailable, StatusCode::kAborted))
      << put;
  EXPECT_THAT(std::string(put.message()), HasSubstr(kPs0));
  const Status take = session.Run(numbers.take).status();
  EXPECT_THAT(take.code(),
              AnyOf(StatusCode::kUnavailable, StatusCode::kAborted))
      << take;
  EXPECT_THAT(std::string(take.message()), HasSubstr(kPs0));
  // The queue of a new one is a new one.
  Spawn("ps");
  Session again(target(), graph_);
  ASSERT_TRUE(BecomesTrue([&] {
    const auto n = again.Run(numbers.size);
    return n.ok() && n->scalar<int32_t>() == 0;
  }));
}

TEST_F(ProcessTest, KilledTaskFailsStepAndMayRestart) {
  Spawn("ps");
  Spawn("worker");
  Output x = Placeholder<float>({});
  Output y = BothTasks(x);
  Output endless = EndlessLoop();
  auto session = std::make_unique<Session>(target(), graph_);
  const Feeds feeds = {{x, Tensor::Scalar<float>(1)}};
  ASSERT_TRUE(session->Run(feeds, y).ok());
  std::chrono::steady_clock::time_point since;
  std::thread killer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    since = std::chrono::steady_clock::now();
    Signal("ps", SIGKILL);
  });
  Status s = session->Run(endless).status();
  const auto end = std::chrono::steady_clock::now();
  killer.join();
  EXPECT_THAT(std::string(s.message()), HasSubstr(kPs0)) << s;
  EXPECT_LT(end - since, 3 * kProcessTimeout);
  // The session stays broken and returns the error.
  s = session->Run(feeds, y).status();
  EXPECT_THAT(std::string(s.message()), HasSubstr(kPs0)) << s;
  // The same for a step that is not prepared yet.
  s = session->Run(feeds, BothTasks(x) + y).status();
  EXPECT_THAT(std::string(s.message()), HasSubstr(kPs0)) << s;
  Spawn("ps");
  s = session->Run(feeds, y).status();
  EXPECT_THAT(std::string(s.message()), HasSubstr(kPs0)) << s;
  session = std::make_unique<Session>(target(), graph_);
  auto out = session->Run(feeds, y);
  EXPECT_TRUE(out.ok()) << out.status();
}

// A loop whose body has two terms, each placed on either task when it runs.
TEST_F(ProcessTest, BodiesAreScheduledOnTasksThatMayBeKilled) {
  Spawn("ps");
  Spawn("worker");
  const std::vector<std::string> tasks = {"/job:ps/task:0/device:CPU:0",
                                          "/job:worker/task:0/device:CPU:0"};
  const Output n = Placeholder<int32_t>({}, "n");
  const Output x = Placeholder<float>({2}, "x");
  const auto loop = [&](bool scheduled) {
    const DeviceScope on("/job:worker/task:0");
    const auto [i, v] = While(
        std::tuple{0, x}, [&](Output i, Output) { return i < n; },
        [&](Output i, Output v) {
          const auto sine = [](Output v) { return ops::Sin(v * 2.0f); };
          const auto term = [&](Output v) {
            return scheduled
                       ? Scheduled(tasks, v, sine, {.policy = "least_loaded"})
                       : sine(v);
          };
          return std::tuple{i + 1, term(v) + term(v + 1.0f)};
        });
    return v;
  };
  const Output y = loop(true), plain = loop(false);
  const Output dy = Grad(y, x), plain_dy = Grad(plain, x);
  const auto feeds = [&](int32_t times) {
    return Feeds{{n, Tensor::Scalar(times)},
                 {x, Tensor::Vector<float>({0.5f, -0.25f})}};
  };
  auto session = std::make_unique<Session>(target(), graph_);
  RunOptions traced;
  traced.trace = true;
  RunMetadata metadata;
  const auto out =
      session->Run(feeds(6), {y, plain, dy, plain_dy}, {}, traced, &metadata);
  ASSERT_TRUE(out.ok()) << out.status();
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_NEAR((*out)[0].data<float>()[i], (*out)[1].data<float>()[i], 1e-5);
    EXPECT_NEAR((*out)[2].data<float>()[i], (*out)[3].data<float>()[i], 1e-3);
  }
  std::map<std::string, int> decided;
  for (const TraceEvent& e : metadata.events)
    if (e.op == "Schedule") ++decided[e.peer];
  EXPECT_EQ(decided.size(), 2u);
  std::thread killer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    Signal("ps", SIGKILL);
  });
  const Status s = session->Run(feeds(INT32_MAX), y).status();
  killer.join();
  EXPECT_THAT(s.code(), AnyOf(StatusCode::kUnavailable, StatusCode::kAborted));
  EXPECT_THAT(std::string(s.message()), HasSubstr(kPs0)) << s;
  Spawn("ps");
  session = std::make_unique<Session>(target(), graph_);
  EXPECT_TRUE(session->Run(feeds(6), y).ok());
}

TEST_F(ProcessTest, StoppedTaskFailsStepAndIsNamed) {
  Spawn("ps");
  auto worker = StartHere("worker");
  ASSERT_NE(worker, nullptr);
  Output endless = EndlessLoop();
  Session session(target(), graph_);
  std::chrono::steady_clock::time_point since;
  std::thread stopper([&] {
    EXPECT_TRUE(BecomesTrue(
        [&] { return worker->worker().steps().num_running() > 0; }));
    since = std::chrono::steady_clock::now();
    Signal("ps", SIGSTOP);
  });
  const Status s = session.Run(endless).status();
  const auto end = std::chrono::steady_clock::now();
  stopper.join();
  EXPECT_THAT(std::string(s.message()), HasSubstr(kPs0)) << s;
  EXPECT_LT(end - since, 3 * kProcessTimeout);
  EXPECT_EQ(worker->worker().steps().num_running(), 0u);
  Signal("ps", SIGCONT);
}

TEST_F(ProcessTest, KilledMasterLeavesNothingInWorkers) {
  auto ps = StartHere("ps");
  ASSERT_NE(ps, nullptr);
  Spawn("worker");
  Output endless = EndlessLoop();
  Session session(target(), graph_);
  std::thread killer([&] {
    EXPECT_TRUE(
        BecomesTrue([&] { return ps->worker().steps().num_running() > 0; }));
    Signal("worker", SIGKILL);
  });
  const Status s = session.Run(endless).status();
  killer.join();
  EXPECT_FALSE(s.ok());
  EXPECT_TRUE(BecomesTrue([&] {
    return ps->worker().steps().num_running() == 0 &&
           ps->worker().num_sessions() == 0;
  }));
}

// A suspended process keeps its connections, so only its silence reveals it.
TEST_F(ProcessTest, StoppedMasterFailsClientCallsAndIsNamed) {
  auto ps = StartHere("ps");
  ASSERT_NE(ps, nullptr);
  Spawn("worker");
  Output endless = EndlessLoop();
  Output x = Placeholder<float>({});
  Output y = BothTasks(x), other = y + 1.0f;
  const Feeds feeds = {{x, Tensor::Scalar<float>(1)}};
  Session session(target(), graph_);
  ASSERT_TRUE(session.Run(feeds, y).ok());
  using Clock = std::chrono::steady_clock;
  const auto fails_within = [&](Clock::duration limit, Clock::time_point since,
                                const Status& s) {
    const Clock::duration took = Clock::now() - since;
    EXPECT_EQ(s.code(), StatusCode::kUnavailable) << s;
    EXPECT_THAT(std::string(s.message()), HasSubstr(target())) << s;
    EXPECT_LT(took, limit) << s;
  };
  // A running step fails after the timeout that the client got from the master.
  // (Twice as long, for a busy machine.)
  Clock::time_point since;
  std::thread stopper([&] {
    EXPECT_TRUE(
        BecomesTrue([&] { return ps->worker().steps().num_running() > 0; }));
    Signal("worker", SIGSTOP);
    since = Clock::now();
  });
  Status s = session.Run(endless).status();
  stopper.join();
  fails_within(2 * kProcessTimeout, since, s);
  // A later step; and calls other than steps, for which the client has its own
  // timeout: preparing a new step, and closing.
  constexpr std::chrono::seconds kCallTimeout{5};
  since = Clock::now();
  s = session.Run(feeds, y).status();
  fails_within(2 * kProcessTimeout, since, s);
  since = Clock::now();
  s = session.Run(feeds, other).status();
  fails_within(kCallTimeout + kProcessTimeout, since, s);
  since = Clock::now();
  (void)session.Close();
  EXPECT_LT(Clock::now() - since, kCallTimeout + kProcessTimeout);
  // The task that it used has noticed too.
  EXPECT_TRUE(BecomesTrue([&] {
    return ps->worker().steps().num_running() == 0 &&
           ps->worker().num_sessions() == 0;
  }));
  Signal("worker", SIGCONT);
}

TEST_F(ProcessTest, KilledClientLeavesNothing) {
  auto ps = StartHere("ps");
  auto worker = StartHere("worker");
  ASSERT_NE(ps, nullptr);
  ASSERT_NE(worker, nullptr);
  for (const char* role : {"client", "staged"}) {
    Spawn(role);
    ASSERT_TRUE(
        BecomesTrue([&] { return ps->worker().steps().num_running() > 0; }));
    Signal(role, SIGKILL);
    EXPECT_TRUE(BecomesTrue([&] {
      return ps->worker().steps().num_running() == 0 &&
             ps->worker().num_sessions() == 0 &&
             worker->master().num_sessions() == 0 &&
             worker->master().steps().num_running() == 0 &&
             worker->master().steps().num_staged() == 0;
    }));
  }
}

TEST_F(ProcessTest, MissingTaskIsNamedInError) {
  ServerOptions options;
  options.cluster = cluster_.spec();
  options.job = "worker";
  options.connect_timeout = std::chrono::milliseconds(200);
  auto worker = Server::Start(options);
  ASSERT_TRUE(worker.ok()) << worker.status();
  Output x = Placeholder<float>({});
  Output y = BothTasks(x);
  Session session(target(), graph_);
  const Status s = session.Run({{x, Tensor::Scalar<float>(1)}}, y).status();
  EXPECT_THAT(std::string(s.message()), HasSubstr(kPs0)) << s;
}

TEST_F(ProcessTest, AddressInUseIsAnError) {
  auto one = StartHere("worker");
  ServerOptions options;
  options.cluster = cluster_.spec();
  options.job = "worker";
  const auto two = Server::Start(options);
  ASSERT_FALSE(two.ok());
  EXPECT_THAT(std::string(two.status().message()), HasSubstr("127.0.0.1"));
  options.cluster = *ClusterSpec::Parse(R"({"worker": ["0.0.0.0:4441"]})");
  const auto open = Server::Start(options);
  EXPECT_FALSE(open.ok());
}

// A step that runs when its task is asked to end returns what it fetches, also
// if that takes a while to send.
TEST_F(ProcessTest, SigtermLetsAStepAndItsResultsEnd) {
  for (const std::string role : {"ps", "worker"})
    cluster_.Spawn(role, target(), {"SLUICE_TEST_TIMEOUT_MS=30000"});
  std::optional<Var> begun;
  Output result;
  {
    DeviceScope on("/job:ps/task:0");
    begun.emplace(Constant(0.0f), "begun");
    ControlDependencies begin({begun->Assign(Constant(1.0f))});
    const auto [i, x] = While(
        std::tuple(Output(Constant(int32_t{0})),
                   Output(ops::Fill({256, 256}, 0.01f))),
        [](Output n, Output) { return n < 600; },
        [](Output n, Output y) {
          return std::tuple(Output(n + 1),
                            Output(ops::Tanh(ops::MatMul(y, y))));
        });
    result = ops::Fill(Constant(Tensor::Vector<int32_t>({10'000'000})),
                       ops::Sum(x, {0, 1}));
  }
  // (Of a constant, it would be computed before the step, by one task.)
  const Output one = Placeholder<float>({});
  const Output both = BothTasks(one);
  const auto run_both = [&](Session& session) {
    return session.Run({{one, Tensor::Scalar<float>(1)}}, both).status();
  };
  Session session(target(), graph_);
  ASSERT_TRUE(run_both(session).ok());
  Result<Tensor> fetched = NotFound("");
  std::thread step([&] { fetched = session.Run(result); });
  EXPECT_TRUE(BecomesTrue([&] {
    const auto value = session.Run(begun->Read());
    return value.ok() && value->scalar<float>() == 1;
  }));
  Signal("ps", SIGTERM);
  step.join();
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  EXPECT_EQ(fetched->num_elements(), 10'000'000);
  EXPECT_TRUE(BecomesTrue([&] { return !run_both(session).ok(); }));
}

}  // namespace
}  // namespace sluice
