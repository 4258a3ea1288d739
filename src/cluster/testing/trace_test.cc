// Traces of steps over several tasks: one clock, and arrows between the tasks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "cluster/testing/cluster_test_util.h"
#include "exec/core/device.h"
#include "exec/testing/trace_test_util.h"
#include "sluice/sluice.h"

namespace sluice {
namespace {

using ::testing::IsSupersetOf;

constexpr char kPs[] = "/job:ps/replica:0/task:0";
constexpr char kWorker[] = "/job:worker/replica:0/task:0";

TEST(MergedTrace, StepOverTasksHasOneClockAndTransferArrows) {
  Graph graph;
  WithGraph use(graph);
  TestCluster cluster({{"ps", 1}, {"worker", 1}});
  Output n = Placeholder<int32_t>({});
  Output sum = std::get<1>(CountAndSum(n, "/job:worker/task:0"));
  Session session(cluster.target("worker", 0), graph);
  RunOptions traced;
  traced.trace = true;
  RunMetadata m;
  auto out =
      session.Run({{n, Tensor::Scalar<int32_t>(10)}}, {sum}, {}, traced, &m);
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ((*out)[0].scalar<int32_t>(), 45);
  const SeenTrace seen = CheckTrace(m.ChromeTrace());
  EXPECT_THAT(seen.processes,
              IsSupersetOf({std::string(kPs), std::string(kWorker)}));
  EXPECT_THAT(seen.threads,
              IsSupersetOf({std::string(kPs) + " /device:CPU:0",
                            std::string(kWorker) + " /device:CPU:0"}));
  // The variable and the predicate of each iteration.
  int to_ps = 0, to_worker = 0;
  for (const SeenTrace::Arrow& a : seen.arrows) {
    to_ps += a.to == kPs ? 1 : 0;
    to_worker += a.to == kWorker ? 1 : 0;
    EXPECT_NE(a.from, a.to);
  }
  EXPECT_GE(to_ps, 20);
  EXPECT_GE(to_worker, 1);
  ASSERT_EQ(m.tasks.size(), 2u);
  for (const TraceTask& t : m.tasks) {
    EXPECT_LT(t.clock_error_ns, 1000000000) << t.name;
    EXPECT_LE(std::abs(t.clock_offset_ns), t.clock_error_ns) << t.name;
    EXPECT_LE(t.start_ns, t.end_ns);
  }
}

// Makes a worker's clock appear to be ahead.
class SkewedStub final : public WorkerStub {
 public:
  SkewedStub(std::unique_ptr<WorkerStub> inner, int64_t ahead_ns)
      : inner_(std::move(inner)), ahead_ns_(ahead_ns) {}
  Status GetStatus(const proto::GetStatusRequest& q,
                   proto::GetStatusResponse* r) override {
    const Status s = inner_->GetStatus(q, r);
    r->set_clock_ns(r->clock_ns() + ahead_ns_);
    return s;
  }
  Status CreateSession(const proto::CreateWorkerSessionRequest& q) override {
    return inner_->CreateSession(q);
  }
  Status DeleteSession(const proto::DeleteWorkerSessionRequest& q) override {
    return inner_->DeleteSession(q);
  }
  Status RegisterStep(const proto::RegisterStepRequest& q) override {
    return inner_->RegisterStep(q);
  }
  Status DeregisterStep(const proto::DeregisterStepRequest& q) override {
    return inner_->DeregisterStep(q);
  }
  Status Reset(const proto::ResetRequest& q) override {
    return inner_->Reset(q);
  }

 private:
  const std::unique_ptr<WorkerStub> inner_;
  const int64_t ahead_ns_;
};

TEST(MergedTrace, ClockOffsetOfOtherTaskIsRemoved) {
  Graph graph;
  WithGraph use(graph);
  static constexpr int64_t kAhead = 3600ll * 1000000000;  // An hour.
  ClusterSpec spec;
  ASSERT_TRUE(spec.Add("ps", 0, "nowhere:1").ok());
  ASSERT_TRUE(spec.Add("worker", 0, "nowhere:2").ok());
  std::map<std::string, std::unique_ptr<Server>> servers;
  for (const ClusterTask& t : spec.tasks()) {
    ServerOptions options;
    options.cluster = spec;
    options.job = t.job;
    TransportOptions transport;
    transport.task = t.name();
    ServerParts parts;
    parts.transport = std::make_unique<LocalTransport>(transport);
    parts.name = "skewed" + t.name();
    parts.connect =
        [](const ClusterTask& other) -> Result<std::unique_ptr<WorkerStub>> {
      SLUICE_ASSIGN_OR_RETURN(auto stub,
                              ConnectWorkerInProcess("skewed" + other.name()));
      return std::unique_ptr<WorkerStub>(
          std::make_unique<SkewedStub>(std::move(stub), kAhead));
    };
    auto server = Server::Start(options, std::move(parts));
    ASSERT_TRUE(server.ok()) << server.status();
    servers[t.job] = *std::move(server);
  }
  Output n = Placeholder<int32_t>({});
  Output sum = std::get<1>(CountAndSum(n, "/job:worker/task:0"));
  RunMetadata m;
  RunOptions traced;
  traced.trace = true;
  {
    Session session(servers["worker"]->target(), graph);
    const int64_t before = NowNs();
    ASSERT_TRUE(
        session.Run({{n, Tensor::Scalar<int32_t>(3)}}, {sum}, {}, traced, &m)
            .ok());
    const int64_t after = NowNs();
    for (const TraceTask& t : m.tasks) {
      const int64_t real = t.name == kPs ? -kAhead : 0;
      EXPECT_LE(std::abs(t.clock_offset_ns - real), t.clock_error_ns) << t.name;
    }
    int of_ps = 0;
    for (const TraceEvent& e : m.events) {
      // (Its events have the true time, so the added offset is visible.)
      const bool ps = e.device.find(kPs) == 0;
      const int64_t moved = ps ? kAhead : 0;
      const int64_t slack =
          ps ? m.tasks[0].clock_error_ns + m.tasks[1].clock_error_ns : 0;
      EXPECT_GE(e.start_ns + moved, before - slack) << e.node;
      EXPECT_LE(e.end_ns + moved, after + slack) << e.node;
      of_ps += ps ? 1 : 0;
    }
    EXPECT_GT(of_ps, 0);
  }
}

TEST(MergedTrace, LongTraceDropsLastEvents) {
  proto::TaskStats stats;
  std::vector<TraceEvent> events(1000);
  for (size_t i = 0; i < events.size(); ++i) {
    events[i].node = std::string(100, 'n');
    events[i].start_ns = static_cast<int64_t>(i);
  }
  TraceToProto(events, &stats);
  const size_t whole = stats.ByteSizeLong();
  FitTrace(2 * whole, 0, &stats);
  EXPECT_EQ(stats.event_size(), 1000);
  FitTrace(whole / 2, 100, &stats);
  EXPECT_LT(stats.ByteSizeLong(), whole / 2);
  EXPECT_GT(stats.event_size(), 400);
  EXPECT_EQ(stats.event_size() + stats.events_left_out(), 1000);
  EXPECT_EQ(stats.event(stats.event_size() - 1).start_ns(),
            stats.event_size() - 1);
  FitTrace(10, 100, &stats);
  EXPECT_EQ(stats.event_size(), 0);
  EXPECT_EQ(TraceTaskFromProto(stats).events_left_out, 1000);
}

TEST(MergedTrace, NamesOfAnyBytesAreSent) {
  TraceEvent e;
  e.node = "n\xff";
  e.op = "Op\xfe";
  e.frame = "while\xc3/frame";
  e.device = "/device:CPU:0";
  e.tensor = "t\x80:0";
  e.peer = "p\xe2\x82";
  proto::TaskStats stats, received;
  TraceToProto({e}, &stats);
  ASSERT_TRUE(received.ParseFromString(stats.SerializeAsString()));
  const TraceEvent got = TraceFromProto(received)[0];
  EXPECT_EQ(got.node, "n\uFFFD");
  EXPECT_EQ(got.op, "Op\uFFFD");
  EXPECT_EQ(got.frame, "while\uFFFD/frame");
  EXPECT_EQ(got.device, "/device:CPU:0");
  EXPECT_EQ(got.tensor, "t\uFFFD:0");
  EXPECT_EQ(got.peer, "p\uFFFD\uFFFD");
}

TEST(MergedTrace, DevicesOfOneProcessHaveTransferArrows) {
  Graph graph;
  WithGraph use(graph);
  SessionOptions options;
  options.devices = CpuDevices(3);
  Output x = Placeholder<float>({-1});
  Output y = x;
  for (int i = 0; i < 6; ++i) {
    DeviceScope on("/device:CPU:" + std::to_string(i % 3));
    y = Output(y) * 2.0f;
  }
  Session session(graph, options);
  RunOptions traced;
  traced.trace = true;
  RunMetadata m;
  auto out =
      session.Run({{x, Tensor::Vector<float>({1, 2, 3})}}, {y}, {}, traced, &m);
  ASSERT_TRUE(out.ok()) << out.status();
  const SeenTrace seen = CheckTrace(m.ChromeTrace());
  EXPECT_EQ(seen.processes.size(), 1u);
  EXPECT_GE(seen.arrows.size(), 5u);
  int of_values = 0;
  for (const SeenTrace::Arrow& a : seen.arrows)
    of_values += a.bytes == 12 ? 1 : 0;
  EXPECT_GE(of_values, 5);
}

}  // namespace
}  // namespace sluice
