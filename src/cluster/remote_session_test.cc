// How long the client side of a session keeps its connection to the master.
#include "cluster/remote_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "sluice/sluice.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

// What a master was asked; outlives the stubs that lead to it.
struct Asked {
  std::atomic<int> connections{0}, closed_sessions{0}, devices{0};
  std::mutex mu;
  std::condition_variable changed;
  bool runs = false, may_end = false;  // GUARDED_BY(mu)
};

// A connection to a master that knows one session and has no devices. A step
// ends once it may.
class CountedMaster final : public MasterStub {
 public:
  explicit CountedMaster(Asked* asked) : asked_(*asked) {
    ++asked_.connections;
  }
  ~CountedMaster() override { --asked_.connections; }

  Status CreateSession(const proto::CreateSessionRequest&,
                       proto::CreateSessionResponse* response) override {
    response->set_session(1);
    return OkStatus();
  }
  Status Attend(const proto::AttendRequest&) override { return OkStatus(); }
  Status ExtendGraph(const proto::ExtendGraphRequest&) override {
    return OkStatus();
  }
  Status PrepareStep(const proto::PrepareStepRequest&,
                     proto::PrepareStepResponse*) override {
    return OkStatus();
  }
  Status RunStep(const proto::RunStepRequest&, std::span<const Tensor>,
                 StepAnswer*, const StepLog&) override {
    std::unique_lock<std::mutex> lock(asked_.mu);
    asked_.runs = true;
    asked_.changed.notify_all();
    asked_.changed.wait(lock, [this] { return asked_.may_end; });
    return FailedPrecondition("session: expected one that is known");
  }
  Status BeginPartialRun(const proto::BeginPartialRunRequest&,
                         proto::BeginPartialRunResponse*) override {
    return OkStatus();
  }
  Status PartialRun(const proto::PartialRunRequest&,
                    proto::PartialRunResponse*) override {
    return OkStatus();
  }
  Status EndPartialRun(const proto::EndPartialRunRequest&) override {
    return OkStatus();
  }
  Status CancelStep(const proto::CancelStepRequest&) override {
    return OkStatus();
  }
  Status ListDevices(const proto::ListDevicesRequest&,
                     proto::ListDevicesResponse*) override {
    ++asked_.devices;
    return OkStatus();
  }
  Status ListTasks(const proto::ListTasksRequest&,
                   proto::ListTasksResponse*) override {
    return OkStatus();
  }
  Status Reset(const proto::ResetRequest&) override { return OkStatus(); }
  Status CloseSession(const proto::CloseSessionRequest&) override {
    ++asked_.closed_sessions;
    return OkStatus();
  }

 private:
  Asked& asked_;
};

class RemoteSessionTest : public ::testing::Test {
 protected:
  RemoteSessionTest() : use_(graph_) {
    auto session =
        OpenRemoteSession(std::make_unique<CountedMaster>(&asked_), {});
    EXPECT_TRUE(session.ok()) << session.status();
    session_ = *std::move(session);
  }
  static void ExpectClosed(const Status& s) {
    EXPECT_EQ(s.code(), StatusCode::kFailedPrecondition) << s;
    EXPECT_THAT(std::string(s.message()),
                HasSubstr("session: expected an open one, got a closed one"));
  }

  Graph graph_;
  WithGraph use_;
  Asked asked_;
  std::unique_ptr<SessionBackend> session_;
};

TEST_F(RemoteSessionTest, CloseEndsTheConnection) {
  EXPECT_EQ(asked_.connections, 1);
  EXPECT_TRUE(session_->Close().ok());
  EXPECT_EQ(asked_.connections, 0);
  EXPECT_TRUE(session_->Close().ok());
  session_ = nullptr;
  EXPECT_EQ(asked_.closed_sessions, 1);
}

TEST_F(RemoteSessionTest, CallsAfterCloseSayThatItIsClosed) {
  StepSignature signature;
  signature.fetches = {Constant(1.0f)};
  const auto step = session_->Prepare(graph_, signature, StepKind::kWhole);
  const auto staged = session_->Prepare(graph_, signature, StepKind::kStaged);
  ASSERT_TRUE(step.ok() && staged.ok()) << step.status() << staged.status();
  auto partial = session_->StartPartialRun(*staged);
  ASSERT_TRUE(partial.ok()) << partial.status();
  ASSERT_TRUE(session_->Close().ok());
  ExpectClosed(session_->Prepare(graph_, signature, StepKind::kWhole).status());
  ExpectClosed(session_->PartitionGraphs(graph_, signature).status());
  ExpectClosed(session_->Run(*step, {}, {}, nullptr).status());
  ExpectClosed(session_->StartPartialRun(*staged).status());
  ExpectClosed((*partial)->Run({}, {}, {}, {}).status());
  ExpectClosed(session_->ListDevices().status());
  ExpectClosed(session_->Reset({}));
}

TEST_F(RemoteSessionTest, TheConnectionLastsUntilAStepHasReturned) {
  StepSignature signature;
  signature.fetches = {Constant(1.0f)};
  const auto step = session_->Prepare(graph_, signature, StepKind::kWhole);
  ASSERT_TRUE(step.ok()) << step.status();
  std::thread runner([&] {
    const Status s = session_->Run(*step, {}, {}, nullptr).status();
    EXPECT_EQ(s.code(), StatusCode::kCancelled) << s;
  });
  {
    std::unique_lock<std::mutex> lock(asked_.mu);
    asked_.changed.wait(lock, [this] { return asked_.runs; });
  }
  EXPECT_TRUE(session_->Close().ok());
  EXPECT_EQ(asked_.connections, 1);
  {
    const std::lock_guard<std::mutex> lock(asked_.mu);
    asked_.may_end = true;
  }
  asked_.changed.notify_all();
  runner.join();
  EXPECT_EQ(asked_.connections, 0);
}

TEST_F(RemoteSessionTest, CloseMayComeDuringOtherCalls) {
  for (int round = 0; round < 200; ++round) {
    Asked asked;
    auto opened =
        OpenRemoteSession(std::make_unique<CountedMaster>(&asked), {});
    ASSERT_TRUE(opened.ok()) << opened.status();
    SessionBackend& session = **opened;
    std::vector<std::thread> callers;
    for (int t = 0; t < 2; ++t)
      callers.emplace_back([&session] {
        for (Status s; s.ok();) {
          s = session.ListDevices().status();
          if (!s.ok()) ExpectClosed(s);
        }
      });
    while (asked.devices < round % 8) std::this_thread::yield();
    EXPECT_TRUE(session.Close().ok());
    for (std::thread& t : callers) t.join();
    EXPECT_EQ(asked.connections, 0);
  }
}

}  // namespace
}  // namespace sluice
