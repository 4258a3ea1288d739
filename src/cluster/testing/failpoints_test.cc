// Triggers every failpoint of this program, one at a time: sessions, steps and
// memberships end with the right result or an error that says what happened,
// none hangs, nothing is left behind, and the next one succeeds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <thread>

#include "base/failpoint.h"
#include "cluster/membership/etcd_membership.h"
#include "cluster/testing/cluster_test_util.h"
#include "cluster/testing/etcd_test_util.h"
#include "cluster/transport/grpc/transport.h"
#include "cluster/transport/ucx/transport.h"

namespace sluice {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr milliseconds kPeerTimeout{1000};
// The deadline that ends a step after a silent loss.
constexpr int64_t kStepTimeoutMs = 4000;

template <typename TransportType, typename Options>
std::unique_ptr<Transport> OverNetwork(TransportOptions o) {
  Options options;
  options.task = o.task;
  options.peer_timeout = kPeerTimeout;
  options.local_shortcut = false;
  if constexpr (std::is_same_v<TransportType, GrpcTransport>)
    return std::make_unique<GrpcTransport>(options);
  else
    return MakeUcxTransport(options);
}
std::unique_ptr<Transport> WithinProcess(TransportOptions o) {
  return std::make_unique<LocalTransport>(std::move(o));
}

// Steps of two tasks, whole and as partial runs, with small and large values.
class Steps {
 public:
  explicit Steps(const MakeTransport& transport)
      : use_(graph_),
        cluster_({{"ps", 1}, {"worker", 1}}, transport, [](ServerOptions* o) {
          o->peer_timeout = kPeerTimeout;
          o->connect_timeout = milliseconds(5000);
        }) {
    x_ = Placeholder<float>({-1}, "x");
    Output there;
    {
      const DeviceScope on("/job:ps/task:0");
      there = x_ + 1.0f;
    }
    const DeviceScope on("/job:worker/task:0");
    sum_ = ops::Sum(there, Constant(0));
    const auto [count, total] =
        CountAndSum(Output(Constant(5)), "/job:worker/task:0");
    total_ = total + count;
  }

  // `idle`: pause for longer than peer_timeout in between.
  Status Run(bool idle) {
    Session session(cluster_.target("worker", 0), graph_);
    RunOptions options;
    options.timeout_ms = kStepTimeoutMs;
    for (const int64_t floats : {10, 100'000}) {
      Tensor in(DType::kFloat, {floats});
      std::fill_n(in.data<float>(), floats, 1.0f);
      SLUICE_ASSIGN_OR_RETURN(
          const auto out, session.Run({{x_, in}}, {sum_, total_}, {}, options));
      EXPECT_EQ(out[0].scalar<float>(), 2.0f * static_cast<float>(floats));
      EXPECT_EQ(out[1].scalar<int32_t>(), 15);
      if (idle) std::this_thread::sleep_for(2 * kPeerTimeout);
    }
    SLUICE_ASSIGN_OR_RETURN(const auto run,
                            session.StartPartialRun({x_}, {sum_, total_}));
    SLUICE_ASSIGN_OR_RETURN(const auto early, run->Run({}, {total_}, options));
    EXPECT_EQ(early[0].scalar<int32_t>(), 15);
    SLUICE_ASSIGN_OR_RETURN(
        const auto late,
        run->Run({{x_, Tensor::Vector<float>({1, 2})}}, {sum_}, options));
    EXPECT_EQ(late[0].scalar<float>(), 5);
    return OkStatus();
  }

  void Expect(const std::string& name, const std::string& action, bool idle) {
    const std::string spec = absl::StrCat(name, "=", action);
    SCOPED_TRACE(spec);
    ASSERT_TRUE(EnableFailpoints(spec).ok());
    const auto begin = std::chrono::steady_clock::now();
    const Status s = Run(idle);
    EXPECT_TRUE(BecomesTrue([&] { return FailpointHits(name) > 0; }));
    EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(30));
    DisableFailpoints();
    if (!s.ok()) {
      EXPECT_THAT(std::string(s.message()),
                  AnyOf(HasSubstr("injected"), HasSubstr("/job:")))
          << s;
    }
    EXPECT_TRUE(cluster_.Quiet());
    // (A loss may be reported late, even to a new session.)
    Status next = Unavailable("not run");
    for (int i = 0; i < 10 && !next.ok(); ++i) next = Run(false);
    EXPECT_TRUE(next.ok()) << next;
  }

 private:
  Graph graph_;
  WithGraph use_;
  TestCluster cluster_;
  Output x_, sum_, total_;
};

// One membership registers in etcd under a failpoint; another observes it.
void KeepPlace(const std::string& name, const std::string& action) {
  if (std::system("command -v etcd >/dev/null") != 0)
    GTEST_SKIP() << "expected the program etcd (Debian's etcd-server)";
  TestEtcd etcd;
  ASSERT_FALSE(etcd.endpoint().empty()) << etcd.log();
  EtcdOptions options;
  options.endpoints = {etcd.endpoint()};
  options.name = "failpoints";
  options.lease = seconds(2);
  options.call_patience = milliseconds(500);
  std::atomic<int> lost{0};
  auto looks = EtcdMembership::Open(options);
  auto task = EtcdMembership::Open(options);
  ASSERT_TRUE(looks.ok() && task.ok()) << looks.status() << task.status();
  (*looks)->OnLost(
      [&](const std::string& who, uint64_t incarnation, const Status& why) {
        EXPECT_EQ(incarnation, 7u);
        EXPECT_THAT(std::string(why.message()), HasSubstr(who));
        ++lost;
      });
  ASSERT_TRUE(EnableFailpoints(absl::StrCat(name, "=", action)).ok());
  const Status joined =
      (*task)->Join({"ps", 0, "10.0.0.1:1"}, 7, [](const Status&) {});
  const auto there = [&] {
    const auto now = (*looks)->Present();
    return now.ok() && now->tasks().size() == 1;
  };
  if (joined.ok()) {
    EXPECT_TRUE(BecomesTrue(there));
    EXPECT_TRUE(BecomesTrue([&] { return FailpointHits(name) > 0; }));
    // A registration that is not renewed is lost, and made again.
    if (name == "etcd.keep_alive" && action.find('*') == action.npos) {
      EXPECT_TRUE(BecomesTrue([&] { return lost > 0; }));
    }
  } else {
    EXPECT_THAT(std::string(joined.message()), HasSubstr("injected"));
  }
  EXPECT_GT(FailpointHits(name), 0);
  DisableFailpoints();
  if (!joined.ok()) {
    EXPECT_TRUE(
        (*task)->Join({"ps", 0, "10.0.0.1:1"}, 7, [](const Status&) {}).ok());
  }
  EXPECT_TRUE(BecomesTrue(there));
}

const std::vector<std::string> kOnce = {"error(injected)*1"};
// The failpoints of sending and receiving, which also support delays and drops.
const std::vector<std::string> kMessages = {
    "error(injected)*1", "error(injected)@3*1", "drop*1", "drop@4*1"};
const std::vector<std::string> kSilent = {"drop", "error(injected)"};

// The actions for each failpoint.
const std::map<std::string, std::vector<std::string>>& Actions() {
  static const auto& actions =
      *new std::map<std::string, std::vector<std::string>>{
          {"etcd.keep_alive", {"error(injected)", "error(injected)*1"}},
          {"etcd.take", {"error(injected)", "error(injected)*2"}},
          {"grpc.accept", kOnce},
          {"grpc.accept_memory", {"error(injected)*1", "drop*1"}},
          {"grpc.close", {"delay(100); grpc.read=error(injected)@5*1"}},
          {"grpc.connect", kOnce},
          {"grpc.heartbeat", kSilent},
          {"grpc.offer_memory", {"error(injected)*1", "drop*1"}},
          {"grpc.read", kMessages},
          {"grpc.write", kMessages},
          {"local.control", kMessages},
          {"local.send", kMessages},
          {"master.create_session", kOnce},
          {"master.done", kOnce},
          {"master.extend_graph", kOnce},
          {"master.partial_run", kOnce},
          {"master.prepare_step", kOnce},
          {"master.run_step", kOnce},
          {"master.start_part", kOnce},
          {"master.step_known", {"delay(100)*3"}},
          {"rendezvous.recv", kOnce},
          {"rendezvous.send", kOnce},
          {"transport.connect", kOnce},
          {"transport.lost", {"delay(100); grpc.read=error(injected)@5*1"}},
          {"ucx.accept", {"error(injected)*1", "drop*1"}},
          {"ucx.close", {"delay(100); ucx.read=error(injected)@5*1"}},
          {"ucx.connect", kOnce},
          {"ucx.heartbeat", kSilent},
          {"ucx.read", kMessages},
          {"ucx.write", kMessages},
          {"worker.create_session", kOnce},
          {"worker.deliver", kOnce},
          {"worker.end_step", kOnce},
          {"worker.register_step", kOnce},
          {"worker.start_step", kOnce},
      };
  return actions;
}

TEST(FailpointsTest, EveryFailpointHasTestedActions) {
  std::vector<std::string> named;
  for (const auto& [name, actions] : Actions())
    if (HaveUcx() || !name.starts_with("ucx.")) named.push_back(name);
  std::vector<std::string> here = FailpointNames();
  // (src/checkpoint, src/train and thread pools have tests of their own,
  // elections have chief_election_test.cc, and answers to a link that is
  // disconnected have transport_test.cc.)
  std::erase_if(here, [](const std::string& name) {
    return name.starts_with("checkpoint.") || name.starts_with("election.") ||
           name.starts_with("thread_pool.") || name == "ucx.answered";
  });
  EXPECT_EQ(here, named);
}

class EachFailpoint : public ::testing::TestWithParam<std::string> {
 protected:
  ~EachFailpoint() override { DisableFailpoints(); }
};

TEST_P(EachFailpoint, StepsSucceedOrFailCleanly) {
  const std::string& name = GetParam();
  if (!HaveUcx() && name.starts_with("ucx."))
    GTEST_SKIP() << "this build is without UCX";
  const std::string kind = name.substr(0, name.find('.'));
  if (kind == "etcd") {
    for (const std::string& action : Actions().at(name)) {
      SCOPED_TRACE(action);
      KeepPlace(name, action);
    }
    return;
  }
  const MakeTransport transport =
      kind == "grpc" || name == "transport.lost"
          ? OverNetwork<GrpcTransport, GrpcTransportOptions>
      : kind == "ucx" ? OverNetwork<Transport, UcxTransportOptions>
                      : WithinProcess;
  for (const std::string& action : Actions().at(name)) {
    Steps steps(transport);
    // (The end of a connection also ends the steps.)
    steps.Expect(name, action, name.ends_with(".heartbeat"));
    if (HasFailure()) return;
  }
}

std::vector<std::string> Names() {
  std::vector<std::string> names;
  for (const auto& [name, actions] : Actions()) names.push_back(name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(All, EachFailpoint, ::testing::ValuesIn(Names()),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

}  // namespace
}  // namespace sluice
