// Invalid messages, and messages that no correct task sends, cause an error,
// and the task continues.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <random>
#include <tuple>

#include "cluster/testing/hostile_test_util.h"
#include "cluster/testing/test_scale_test_util.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

TEST(HostileMessages, DoNotStopTheTask) {
  hostile::Victim victim;
  const uint64_t rounds = FullTests() ? 3000 : kSanitized ? 10 : 150;
  for (uint64_t seed = 1; seed <= rounds; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937_64 random(seed);
    std::vector<uint8_t> bytes(random() % 400);
    for (uint8_t& b : bytes) b = static_cast<uint8_t>(random());
    ASSERT_TRUE(victim.PerformActions(bytes.data(), bytes.size()));
  }
}

// Sends one message that is invalid in one way.
class HostileMessage : public ::testing::Test {
 protected:
  HostileMessage() : victim_(2) { victim_.OpenSessions(); }
  ~HostileMessage() override { EXPECT_TRUE(victim_.CloseSessions()); }

  Worker& worker() { return victim_.server().worker(); }
  // The first valid request, with this attribute of the op's first node changed
  // to `value`.
  proto::RegisterStepRequest With(const std::string& op,
                                  const std::string& attr, int64_t value) {
    for (proto::RegisterStepRequest q : victim_.requests()) {
      q.set_session(victim_.session());
      q.set_step(9);
      for (auto& p : *q.mutable_partition()) {
        proto::GraphDef g;
        EXPECT_TRUE(g.ParseFromString(p.graph_def()));
        for (proto::NodeDef& n : *g.mutable_node()) {
          if (n.op() != op) continue;
          (*n.mutable_attr())[attr].set_i(value);
          p.set_graph_def(g.SerializeAsString());
          return q;
        }
      }
    }
    ADD_FAILURE() << "no " << op;
    return {};
  }
  // Runs the step registered as 9 with these feeds; returns its status.
  Status Run(const std::vector<std::pair<uint32_t, Tensor>>& feeds) {
    auto step = worker().FindStep(victim_.session(), 9);
    if (!step.ok()) return step.status();
    StepRequest request;
    request.run = ++runs_;
    request.step = *step;
    request.deadline =
        std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
    for (const auto& [arg, value] : feeds) {
      request.args.push_back(arg);
      request.values.push_back(value);
    }
    std::mutex mu;
    std::condition_variable cv;
    bool done = false;
    Status status;
    request.done = [&](StepOutcome o) {
      std::lock_guard<std::mutex> lock(mu);
      status = o.status;
      done = true;
      cv.notify_all();
    };
    worker().steps().Start(std::move(request));
    std::unique_lock<std::mutex> lock(mu);
    cv.wait(lock, [&] { return done; });
    return status;
  }

  hostile::Victim victim_;
  uint64_t runs_ = 1000;
};

TEST_F(HostileMessage, NumbersInAPartitionAreBounded) {
  const std::tuple<const char*, const char*, int64_t> cases[] = {
      {"_Recv", "group", int64_t{1} << 40},
      {"_Recv", "group", INT32_MAX},
      {"_Recv", "edge", int64_t{1} << 40},
      {"_Recv", "edge", UINT32_MAX},
      {"_Send", "destination", UINT32_MAX},
      {"_Send", "edge", -1},
      {"_Arg", "index", INT32_MAX},
      {"_Retval", "index", int64_t{1} << 33},
  };
  for (const auto& [op, attr, value] : cases) {
    SCOPED_TRACE(absl::StrCat(op, " ", attr, " ", value));
    const Status s = worker().RegisterStep(With(op, attr, value));
    EXPECT_EQ(s.code(), StatusCode::kInvalidArgument) << s;
    EXPECT_THAT(std::string(s.message()), HasSubstr(attr));
  }
}

TEST_F(HostileMessage, TokensForMissingPartitionsAreAnError) {
  ASSERT_TRUE(worker().RegisterStep(With("_Send", "destination", 99)).ok());
  const Tensor x = Tensor::Vector<double>({1, 2});
  EXPECT_FALSE(Run({{0, x}, {1, x}}).ok());
}

TEST_F(HostileMessage, FeedsOfAnotherTypeAreAnError) {
  proto::RegisterStepRequest q = With("_Arg", "index", 2);
  ASSERT_TRUE(worker().RegisterStep(q).ok());
  Tensor text(DType::kString, Shape({2}));
  for (const Tensor& t : {Tensor::Vector<float>({1, 2}), text, Tensor()}) {
    const Status s = Run({{2, t}});
    EXPECT_EQ(s.code(), StatusCode::kInvalidArgument) << s;
    EXPECT_THAT(std::string(s.message()), HasSubstr("feed 2"));
  }
  const Tensor x = Tensor::Vector<double>({1, 2});
  EXPECT_THAT(std::string(Run({{2, x}, {2, x}}).message()), HasSubstr("once"));
}

TEST_F(HostileMessage, FetchWithoutSourceIsAnError) {
  proto::RegisterStepRequest q;
  q.set_session(victim_.session());
  q.set_step(9);
  q.add_fetch(7);
  q.add_fetch(UINT32_MAX);
  ASSERT_TRUE(worker().RegisterStep(q).ok());
  EXPECT_THAT(std::string(Run({}).message()), HasSubstr("fetch"));
}

TEST_F(HostileMessage, ExtremeTimeoutsMeanNoDeadline) {
  proto::RegisterStepRequest q;
  q.set_session(victim_.session());
  q.set_step(9);
  ASSERT_TRUE(worker().RegisterStep(q).ok());
  proto::StepStart start;
  start.set_session(victim_.session());
  start.set_step(9);
  for (const int64_t ms : {INT64_MAX, INT64_MIN, int64_t{-1}}) {
    start.set_run(++runs_);
    start.set_timeout_ms(ms);
    EXPECT_TRUE(victim_.hostile()
                    .SendControl(victim_.peer(),
                                 static_cast<uint8_t>(StepMessage::kStart),
                                 start.SerializeAsString())
                    .ok());
  }
}

TEST_F(HostileMessage, UnstartedStepsStayWithinTheByteLimit) {
  TokenMessage dead;
  dead.dead = true;
  for (uint64_t run = 1; run < 20'000; ++run)
    EXPECT_TRUE(
        victim_.hostile().SendTokens(victim_.peer(), run, 0, {&dead, 1}).ok());
  EXPECT_LE(worker().steps().early_bytes(), size_t{1} << 20);
}

}  // namespace
}  // namespace sluice
