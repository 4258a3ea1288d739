// A malicious task that does not run its part of the steps but sends arbitrary
// messages: its master and clients continue.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "base/failpoint.h"
#include "cluster/server.h"
#include "cluster/transport/transport_base.h"
#include "sluice/sluice.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

constexpr char kHonest[] = "/job:w/replica:0/task:0";
constexpr char kHostile[] = "/job:w/replica:0/task:1";

// Claims to be a task of the cluster, with a CPU, and accepts every call.
class HostileStub final : public WorkerStub {
 public:
  explicit HostileStub(const Transport& t) : transport_(t) {}
  Status GetStatus(const proto::GetStatusRequest&,
                   proto::GetStatusResponse* r) override {
    r->set_task(kHostile);
    r->set_incarnation(transport_.incarnation());
    r->set_transport_address(transport_.address());
    proto::DeviceProto* d = r->add_device();
    d->set_name(absl::StrCat(kHostile, "/device:CPU:0"));
    d->set_host_memory(true);
    return OkStatus();
  }
  Status CreateSession(const proto::CreateWorkerSessionRequest&) override {
    return OkStatus();
  }
  Status DeleteSession(const proto::DeleteWorkerSessionRequest&) override {
    return OkStatus();
  }
  Status RegisterStep(const proto::RegisterStepRequest&) override {
    return OkStatus();
  }
  Status DeregisterStep(const proto::DeregisterStepRequest&) override {
    return OkStatus();
  }
  Status Reset(const proto::ResetRequest&) override { return OkStatus(); }

 private:
  const Transport& transport_;
};

// Task 0 of job w is correct, and the master; task 1 is not. When told to start
// a step, it responds as the test says.
class HostileTask : public ::testing::Test, public TransportHandler {
 protected:
  HostileTask() : use_(graph_) {
    for (const int task : {0, 1})
      EXPECT_TRUE(
          spec_.Add("w", task, absl::StrCat("nowhere:", task + 1)).ok());
    TransportOptions options;
    options.task = kHostile;
    hostile_ = std::make_unique<LocalTransport>(options);
    EXPECT_TRUE(hostile_->Start(this).ok());
    ServerOptions server;
    server.cluster = spec_;
    server.job = "w";
    server.peer_timeout = std::chrono::milliseconds(500);
    options.task = kHonest;
    ServerParts parts;
    parts.transport = std::make_unique<LocalTransport>(options);
    parts.name = "honest";
    parts.connect =
        [this](const ClusterTask&) -> Result<std::unique_ptr<WorkerStub>> {
      return std::unique_ptr<WorkerStub>(
          std::make_unique<HostileStub>(*hostile_));
    };
    auto s = Server::Start(server, std::move(parts));
    EXPECT_TRUE(s.ok()) << s.status();
    server_ = *std::move(s);
    // A float on each task.
    x_ = Placeholder<float>({2});
    const auto on = [this](const char* task) {
      DeviceScope scope(task);
      return x_ * 2.0f;
    };
    honest_ = on(kHonest);
    claimed_ = on(kHostile);
  }
  // (Not in the destructor, because messages arrive until here.)
  void TearDown() override {
    server_.reset();
    hostile_->Shutdown();
  }

  void OnTokens(PeerId, uint64_t, uint32_t, std::span<TokenMessage>) override {}
  void OnPeerLost(PeerId, const Status&) override {}
  void OnControl(PeerId from, uint8_t kind, std::string_view bytes) override {
    proto::StepStart start;
    if (static_cast<StepMessage>(kind) != StepMessage::kStart ||
        !start.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
      return;
    master_ = from;
    run_ = start.run();
    std::lock_guard<std::mutex> lock(mu_);
    behave_();
  }
  // Sets what it does when told to start a step.
  void Behave(std::function<void()> how) {
    std::lock_guard<std::mutex> lock(mu_);
    behave_ = std::move(how);
  }
  void Fetch(uint32_t number, Tensor value) {
    TokenMessage m;
    m.edge = number;
    m.value = std::move(value);
    (void)hostile_->SendTokens(master_, run_, kFetchPartition, {&m, 1});
  }
  void Log(const std::string& text) {
    proto::StepLog log;
    log.set_run(run_);
    log.set_text(text);
    Say(StepMessage::kLog, log.SerializeAsString());
  }
  void Done() {
    proto::StepDone done;
    done.set_run(run_);
    Say(StepMessage::kDone, done.SerializeAsString());
  }
  void Say(StepMessage kind, const std::string& bytes) {
    (void)hostile_->SendControl(master_, static_cast<uint8_t>(kind), bytes);
  }

  const Tensor two_ = Tensor::Vector<float>({1, 2});
  Graph graph_;
  WithGraph use_;
  ClusterSpec spec_;
  std::unique_ptr<LocalTransport> hostile_;
  std::unique_ptr<Server> server_;
  Output x_, honest_, claimed_;
  std::mutex mu_;
  std::function<void()> behave_;  // GUARDED_BY(mu_), also while running.
  PeerId master_ = 0;             // For the started step, like run_.
  uint64_t run_ = 0;
};

TEST_F(HostileTask, CorrectAnswersAreAccepted) {
  Behave([this] {
    Fetch(1, two_);
    Done();
  });
  Session session(server_->target(), graph_);
  const auto out = session.Run({{x_, two_}}, {honest_, claimed_});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ((*out)[1].ToString(), two_.ToString());
}

// (Also if its lines are very short: messages_test.cc.)
TEST_F(HostileTask, EndlessLogIsTruncated) {
  const std::string line(1 << 20, 'x');
  Behave([&] {
    for (int i = 0; i < 64; ++i) Log(line);
    Fetch(1, two_);
    Done();
  });
  Session session(server_->target(), graph_);
  std::atomic<int64_t> bytes{0}, lines{0};
  RunOptions options;
  options.log = [&](const std::string& text) {
    bytes += static_cast<int64_t>(text.size());
    ++lines;
  };
  const auto out = session.Run({{x_, two_}}, {honest_, claimed_}, {}, options);
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_LE(bytes, (8 << 20) + 100);
  EXPECT_LE(lines, 9);
}

// The client relies on the dtype of the fetch in its graph.
TEST_F(HostileTask, AFetchOfAnotherTypeIsAnError) {
  Session session(server_->target(), graph_);
  Tensor text(DType::kString, Shape({2}));
  for (const Tensor& t : {*Tensor::Zeros(DType::kBool, Shape({2})), text}) {
    Behave([&] {
      Fetch(1, t);
      Done();
    });
    const Status s = session.Run({{x_, two_}}, {honest_, claimed_}).status();
    EXPECT_EQ(s.code(), StatusCode::kDataLoss) << s;
    EXPECT_THAT(std::string(s.message()), HasSubstr(claimed_.name()));
  }
  for (const Tensor& t : {*Tensor::Zeros(DType::kBool, Shape({2})), text}) {
    Behave([&] {
      Fetch(1, t);
      Done();
    });
    auto run = session.StartPartialRun({x_}, {honest_, claimed_});
    ASSERT_TRUE(run.ok()) << run.status();
    const Status s = (*run)->Run({{x_, two_}}, {honest_, claimed_}).status();
    EXPECT_EQ(s.code(), StatusCode::kDataLoss) << s;
  }
}

// Messages for a step that is ending are dropped.
TEST_F(HostileTask, LateFetchesAreDropped) {
  Output slow;  // Ends while they arrive.
  {
    DeviceScope scope(kHonest);
    slow = ops::Sum(ops::RandomUniform({8000}, DType::kFloat), {0});
  }
  Session session(server_->target(), graph_);
  Behave([&] {
    Fetch(1, two_);
    Done();
    for (int i = 0; i < 300; ++i) Fetch(1, two_);
  });
  for (int i = 0; i < 1000; ++i) {
    const auto out = session.Run({{x_, two_}}, {slow, claimed_});
    ASSERT_TRUE(out.ok()) << out.status();
  }
}

// A master that is lost before its session is created here is not waited for.
TEST_F(HostileTask, MasterLostDuringSessionStartLeavesNoSession) {
  TransportOptions options;
  options.task = "/job:w/replica:0/task:2";
  LocalTransport dying(options);
  ASSERT_TRUE(dying.Start(this).ok());
  proto::CreateWorkerSessionRequest q;
  q.set_session(uint64_t{5} << 32 | 1);
  q.set_incarnation(server_->transport().incarnation());
  for (Transport* t : {static_cast<Transport*>(&dying),
                       static_cast<Transport*>(hostile_.get())}) {
    proto::TaskAddress* a = q.add_task();
    a->set_task(t == &dying ? options.task : kHostile);
    a->set_transport_address(t->address());
    a->set_incarnation(t->incarnation());
  }
  *q.mutable_master() = q.task(0);
  // The connection exists; the rest takes long.
  ASSERT_TRUE(EnableFailpoints("transport.connect=delay(300)@2").ok());
  std::thread death([&] {
    while (FailpointHits("transport.connect") < 3)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    dying.Shutdown();
  });
  const Status s = server_->worker().CreateSession(q);
  death.join();
  DisableFailpoints();
  EXPECT_FALSE(s.ok());
  EXPECT_EQ(server_->worker().num_sessions(), 0u);
}

}  // namespace
}  // namespace sluice
