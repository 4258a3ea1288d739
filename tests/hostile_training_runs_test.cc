// Hostile calls of training runs and their hooks.
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "tests/hostile_calls_test_util.h"

namespace sluice {
namespace {

// Options of a run that says nothing.
TrainingOptions QuietRun() {
  TrainingOptions options;
  options.log = [](const std::string&) {};
  options.retry_seconds = 0;
  return options;
}

// The error of a run with this hook.
Status StartWith(const HookPtr& hook) {
  TrainingOptions options = QuietRun();
  options.hooks = {hook};
  return TrainingSession::Start(options).status();
}

HOSTILE(QueueRunners, "StartQueueRunner") {
  Graph g;
  const WithGraph use(g);
  const Var v(1.0, "v");
  Session session(g);
  Coordinator coordinator;
  ExpectRefused(StartQueueRunner({}, session, &coordinator), "nodes to run");
  ExpectRefused(StartQueueRunner({.enqueue = {nullptr}}, session, &coordinator),
                "null");
  ExpectRefused(
      StartQueueRunner({.enqueue = {v.initializer()}}, session, nullptr),
      "coordinator");
  // The node of another graph: an error of the thread.
  ASSERT_TRUE(
      StartQueueRunner({.enqueue = {Elsewhere().node}}, session, &coordinator)
          .ok());
  ExpectRefused(coordinator.Join(), "");
}

HOSTILE(Signals, "SignalStop::Install SignalStop::received SignalStop::name") {
  const auto first = SignalStop::Install();
  ASSERT_TRUE(first.ok());
  ExpectRefused(SignalStop::Install(), "another");
  EXPECT_EQ((*first)->received(), 0);
  EXPECT_EQ((*first)->name(), "");
}

HOSTILE(Hooks,
        "StopAtStepHook StopAfterStepsHook CheckpointHook LogHook "
        "StepCounterHook SummaryHook NanHook ProfileHook EarlyStoppingHook "
        "EvaluationHook ProgressHook") {
  Graph g;
  const WithGraph use(g);
  const Output one = Constant(1.0f);
  for (const int64_t bad : {int64_t{0}, int64_t{-1}, INT64_MIN}) {
    ExpectRefused(StartWith(StopAtStepHook(bad)), "steps above 0");
    ExpectRefused(StartWith(StopAfterStepsHook(bad)), "steps above 0");
    ExpectRefused(StartWith(ProgressHook(bad)), "last step");
  }
  ExpectRefused(StartWith(ProgressHook(9, {.seconds = NAN})), "interval");
  ExpectRefused(StartWith(CheckpointHook(nullptr, "")), "saver");
  ExpectRefused(StartWith(LogHook({{"x", Output()}})), "null output");
  ExpectRefused(StartWith(LogHook({}, {.steps = -1})), "interval");
  ExpectRefused(StartWith(StepCounterHook()), "folder");
  ExpectRefused(StartWith(SummaryHook(Output())), "summary");
  ExpectRefused(StartWith(SummaryHook(one)), "string");
  ExpectRefused(StartWith(NanHook(Output())), "null output");
  ExpectRefused(StartWith(NanHook(Elsewhere())), "graph");
  ExpectRefused(StartWith(NanHook(Constant(1))), "floating");
  ExpectRefused(StartWith(ProfileHook()), "folder");
  ExpectRefused(StartWith(ProfileHook({.steps = 0})), "steps");
  ExpectRefused(StartWith(EarlyStoppingHook(Output())), "metric");
  ExpectRefused(StartWith(EarlyStoppingHook(one, {.patience = 0})), "patience");
  ExpectRefused(StartWith(EarlyStoppingHook(one, {.min_delta = NAN})),
                "min_delta");
  ExpectRefused(StartWith(EvaluationHook(nullptr)), "function");
  // Metrics that are none are errors of the step.
  for (const Output& metric :
       {Constant(Tensor::Vector<float>({1, 2})),
        Constant(Tensor::Scalar<std::string>("x")), Elsewhere()}) {
    TrainingOptions options = QuietRun();
    options.hooks = {EarlyStoppingHook(metric)};
    auto run = TrainingSession::Start(options);
    ASSERT_TRUE(run.ok()) << run.status();
    ExpectRefused((*run)->RunStep({}), "");
  }
}

// Calls everything that a hook may, at the wrong time.
class HostileHook : public TrainingHook {
 public:
  std::string name() const override { return ""; }
  Status Begin(TrainingContext& context) override {
    ExpectRefused(context.session(), "none yet");
    EXPECT_EQ(context.events(), nullptr);
    EXPECT_EQ(context.folder(), "");
    EXPECT_EQ(context.restored_from(), "");
    EXPECT_TRUE(context.is_chief());
    EXPECT_FALSE(context.is_candidate());
    EXPECT_EQ(context.step(), 0);
    EXPECT_TRUE(context.feeds().empty());
    EXPECT_NULL(context.global_step());
    EXPECT_EQ(&context.graph(), &CurrentGraph());
    EXPECT_GE(context.Now(), 0);
    EXPECT_FALSE(context.saves_refused());
    context.RefuseSaves();
    EXPECT_TRUE(context.saves_refused());
    context.Log("");
    SLUICE_RETURN_IF_ERROR(TrainingHook::Begin(context));
    return OkStatus();
  }
  Status AfterCreateSession(TrainingContext& context) override {
    return TrainingHook::AfterCreateSession(context);
  }
  Status BeforeRun(TrainingContext& context, HookRequest* request) override {
    request->fetches = {Elsewhere(), Output()};
    request->feeds = {{Output(), Tensor()}};
    return TrainingHook::BeforeRun(context, request);
  }
  Status AfterRun(TrainingContext& context, const HookResult& r) override {
    return TrainingHook::AfterRun(context, r);
  }
  Status End(TrainingContext& context) override {
    context.RequestStop("");
    return TrainingHook::End(context);
  }
};

HOSTILE(TrainingRuns,
        "TrainingSession::Start TrainingSession::ShouldStop "
        "TrainingSession::Run TrainingSession::RunStep TrainingSession::Train "
        "TrainingSession::Close TrainingSession::RequestStop "
        "TrainingSession::stop_reason TrainingSession::stop_signal "
        "TrainingSession::step TrainingSession::restored_from "
        "TrainingSession::session TrainingContext::session "
        "TrainingContext::graph TrainingContext::step "
        "TrainingContext::global_step TrainingContext::feeds "
        "TrainingContext::folder TrainingContext::events "
        "TrainingContext::restored_from TrainingContext::RequestStop "
        "TrainingContext::RefuseSaves TrainingContext::saves_refused "
        "TrainingContext::coordinator TrainingContext::is_chief "
        "TrainingContext::is_candidate "
        "TrainingContext::Log TrainingContext::Now TrainingHook::name "
        "TrainingHook::Begin TrainingHook::AfterCreateSession "
        "TrainingHook::BeforeRun TrainingHook::AfterRun TrainingHook::End") {
  Graph g;
  const WithGraph use(g);
  const Var v(1.0, "v");
  const auto refused = [](const auto& change, const std::string& message) {
    TrainingOptions options = QuietRun();
    change(&options);
    ExpectRefused(TrainingSession::Start(options), message);
  };
  refused([](auto* o) { o->last_step = INT64_MIN; }, "last_step");
  refused([](auto* o) { o->max_wait_seconds = NAN; }, "max_wait_seconds");
  refused([](auto* o) { o->hooks = {nullptr}; }, "null");
  refused([](auto* o) { o->folder = "/dev/null/x"; }, "/dev/null");
  refused([](auto* o) { o->loss = Elsewhere(); }, "graph");
  refused([](auto* o) { o->init = Elsewhere().node; }, "");
  refused([](auto* o) { o->ready = Elsewhere(); }, "");
  refused([](auto* o) { o->checkpoint_name = ""; }, "checkpoint_name");
  refused(
      [](auto* o) {
        o->target = "nothing://there";
        o->max_wait_seconds = 0;
      },
      "");
  refused(
      [](auto* o) {
        o->init_function = [](Session&) -> Status { return NotFound("no"); };
      },
      "no");
  {
    TrainingOptions options = QuietRun();
    options.hooks = {std::make_shared<HostileHook>()};
    auto run = TrainingSession::Start(options);
    ASSERT_TRUE(run.ok()) << run.status();
    ExpectRefused((*run)->RunStep({}), "");
    EXPECT_TRUE((*run)->ShouldStop());
    ExpectRefused((*run)->Close(), "");
  }
  auto run = *TrainingSession::Start(QuietRun());
  EXPECT_EQ(run->restored_from(), "");
  EXPECT_EQ(run->stop_reason(), "");
  EXPECT_EQ(run->stop_signal(), 0);
  EXPECT_EQ(run->step(), 0);
  ExpectRefused(
      run->Train({}, [](int64_t) -> Result<Feeds> { return DataLoss("bad"); }),
      "bad");
  ExpectRefused(run->Run({}, {Output()}), "bad");
  ExpectRefused(run->session(), "none");
  run->RequestStop("");
  auto other = *TrainingSession::Start(QuietRun());
  ExpectRefused(other->Run({{Elsewhere(), Tensor()}}, {Elsewhere()}, {nullptr}),
                "");
}

HOSTILE(Replicas,
        "SyncReplicas::SyncReplicas SyncReplicas::Minimize "
        "SyncReplicas::ApplyGradients "
        "SyncReplicas::Hook SyncReplicas::PutTokens SyncReplicas::update "
        "SyncReplicas::update_runner SyncReplicas::chief_init "
        "SyncReplicas::local_init SyncReplicas::ready "
        "SyncReplicas::local_step SyncReplicas::present") {
  GradientDescentOptimizer sgd(0.1);
  const auto refused = [&](SyncReplicasOptions options, const char* message,
                           bool with_step = true) {
    ExpectRefused(
        RecordedBy([&] {
          const Var w(1.0f, "w");
          const Var step(Constant(Tensor::Scalar<int64_t>(0)), "s");
          SyncReplicas replicas(sgd, options);
          MinimizeOptions how;
          if (with_step) how.global_step = step;
          EXPECT_NULL(replicas.ApplyGradients({{Gradient(w.value()), w}}, how));
          EXPECT_NULL(replicas.update());
          EXPECT_NULL(replicas.chief_init());
          EXPECT_NULL(replicas.local_init());
          EXPECT_NULL(replicas.present());
        }),
        message);
  };
  refused({.replicas = 0}, "replica");
  refused({.replicas = kHuge}, "at most");
  refused({.to_aggregate = -kHuge}, "aggregate");
  refused({.elastic = ElasticOptions{.worker = -kHuge}}, "elastic.worker");
  refused({.elastic = ElasticOptions{.least = kHuge}}, "elastic.least");
  refused({.elastic = ElasticOptions{.lost_after_seconds = NAN}}, "lost_after");
  refused({.name = ""}, "name");
  refused({}, "global_step", false);
  ExpectRefused(RecordedBy([] {
                  SyncReplicas replicas(SyncReplicas::ApplyFn(), {});
                  EXPECT_NULL(replicas.Minimize(Output(), {}));
                }),
                "optimizer");
  ExpectRefused(RecordedBy([&] {
                  SyncReplicas replicas(sgd, {});
                  EXPECT_NULL(replicas.Minimize(Output(), {}));
                }),
                "loss");
  ExpectRefused(RecordedBy([&] {
                  SyncReplicas replicas(sgd, {});
                  EXPECT_NULL(replicas.ready());
                  EXPECT_NULL(replicas.local_step());
                  EXPECT_NULL(replicas.update_runner().enqueue[0]);
                  EXPECT_NULL(replicas.PutTokens(1));
                }),
                "before tokens");
  Graph g;
  const WithGraph use(g);
  SyncReplicas replicas(sgd, {});
  ExpectRefused(StartWith(replicas.Hook(true)), "gradients to be applied");
  ExpectRefused(StartWith(replicas.Hook(false, NAN)), "max_wait_seconds");
}

HOSTILE(Averaging,
        "PeriodicAveraging::PeriodicAveraging PeriodicAveraging::Hook "
        "PeriodicAveraging::averages "
        "PeriodicAveraging::rounds") {
  ExpectRefused(RecordedBy([] { PeriodicAveraging({}, {}, 1); }), "variables");
  ExpectRefused(RecordedBy([] {
                  const Var w(1.0f, "w");
                  PeriodicAveraging averaging({w}, {}, 0);
                  EXPECT_TRUE(averaging.averages().empty());
                  EXPECT_NULL(averaging.rounds());
                }),
                "every 0 steps");
  ExpectRefused(RecordedBy([] { PeriodicAveraging({Var()}, {}, 1); }), "");
  ExpectRefused(RecordedBy([] {
                  const Var w(1.0f, "w");
                  PeriodicAveraging({w}, {.replicas = -kHuge}, 1);
                }),
                "replica");
  Graph g;
  const WithGraph use(g);
  const Var w(1.0f, "w");
  PeriodicAveraging averaging({w}, {}, 1);
  ExpectRefused(StartWith(averaging.Hook(false, -1)), "max_wait_seconds");
}

}  // namespace
}  // namespace sluice
