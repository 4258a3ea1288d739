// The hooks of training runs.
#include "train/training_hooks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "checkpoint/state.h"
#include "client/control/control_flow.h"
#include "client/control/tensor_store.h"
#include "client/operators.h"
#include "graph/graphdef.h"
#include "io/file.h"
#include "sluice/ops.h"
#include "summary/event_reader.h"
#include "summary/proto/summary.pb.h"
#include "train/step_timer.h"
#include "train/testing/training_test_util.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

class TrainingHooksTest : public TrainingTest {
 protected:
  // Starts a run that counts, with these hooks.
  std::unique_ptr<TrainingSession> Start(const TrainingOptions& options,
                                         const std::vector<HookPtr>& hooks) {
    TrainingOptions all = Options(options);
    all.hooks = hooks;
    auto training = TrainingSession::Start(all);
    EXPECT_TRUE(training.ok()) << training.status();
    return training.ok() ? *std::move(training) : nullptr;
  }
  std::vector<proto::Event> Events() const {
    std::vector<proto::Event> out;
    for (const auto& e : std::filesystem::directory_iterator(folder_)) {
      if (e.path().filename().string().find("tfevents") == std::string::npos)
        continue;
      EventReader file(e.path().string());
      std::string_view bytes;
      while (file.Read(&bytes).ok()) {
        proto::Event event;
        EXPECT_TRUE(
            event.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())));
        out.push_back(event);
      }
    }
    return out;
  }
  Counter model_;
};

TEST_F(TrainingHooksTest, StopsAtAStepAndAfterSteps) {
  auto first = Start({.last_step = 4}, {});
  EXPECT_TRUE(first->Train({model_.add}).ok());
  EXPECT_EQ(first->step(), 4);
  auto second = Start({}, {StopAfterStepsHook(3)});
  EXPECT_TRUE(second->Train({model_.add}).ok());
  EXPECT_EQ(second->step(), 7);
  // It has been reached: no step runs.
  auto third = Start({.last_step = 7}, {});
  EXPECT_TRUE(third->ShouldStop());
  EXPECT_TRUE(third->Close().ok());
}

TEST_F(TrainingHooksTest, TheBestCheckpointsByMetricAreKept) {
  TrainingOptions options = {.last_step = 6};
  options.saver_options = {.max_to_keep = 1, .keep_best = 1};
  options.save = {.steps = 1};
  options.wait_for_saves = true;
  // Best in step 3, which begins with 2.
  options.metric = ops::Abs(model_.value - 2.f);
  auto run = Start(options, {});
  EXPECT_TRUE(run->Train({model_.add}).ok());
  EXPECT_TRUE(CheckpointExists(Path("model.ckpt-6")));
  int kept = 0;
  for (int i = 0; i <= 6; ++i)
    kept += CheckpointExists(Path(absl::StrCat("model.ckpt-", i))) ? 1 : 0;
  EXPECT_EQ(kept, 2);
  // (The value is read before or after the step adds to it.)
  EXPECT_TRUE(CheckpointExists(Path("model.ckpt-3")) ||
              CheckpointExists(Path("model.ckpt-2")));
}

TEST_F(TrainingHooksTest, TheLastCheckpointHasNoMetricOfAnEarlierStep) {
  TrainingOptions options = {.last_step = 5};
  options.saver_options = {.keep_best = 9};
  options.save = {.steps = 2};
  options.wait_for_saves = true;
  options.metric = ops::Identity(model_.value);
  auto run = Start(options, {});
  EXPECT_TRUE(run->Train({model_.add}).ok());
  EXPECT_THAT(*ReadFile(Path("checkpoint.best")),
              AllOf(HasSubstr("model.ckpt-4"), Not(HasSubstr("model.ckpt-5"))));
}

TEST_F(TrainingHooksTest, StepsThatDoNotCountAreSavedWithAWarning) {
  double now = 0;
  Node* const add = model_.value.AssignAdd(Constant(1.f));
  TrainingOptions options;
  options.save = {.seconds = 10};
  options.wait_for_saves = true;
  options.clock = [&] { return now; };
  auto run = Start(options, {});
  ASSERT_TRUE(run->RunStep({add}).ok());
  now = 11;
  ASSERT_TRUE(run->RunStep({add}).ok());
  EXPECT_EQ(Saved(Path("model.ckpt-0"), "value"), 2);
  ASSERT_TRUE(run->RunStep({add}).ok());
  EXPECT_TRUE(run->Close().ok());
  EXPECT_EQ(Saved(Path("model.ckpt-0"), "value"), 3);
  EXPECT_EQ(std::count_if(lines_.begin(), lines_.end(),
                          [](const std::string& line) {
                            return line.find("raise the global step") !=
                                   std::string::npos;
                          }),
            1);
}

// Closes the run's event file after the first step: then no write succeeds.
class EventsEnd : public TrainingHook {
 public:
  std::string name() const override { return "events end"; }
  Status AfterRun(TrainingContext& context, const HookResult&) override {
    return context.step() == 1 ? context.events()->Close() : OkStatus();
  }
};

TEST_F(TrainingHooksTest, ErrorsOfEventFilesEndNothing) {
  TrainingOptions options = {.last_step = 5};
  options.summary = ops::ScalarSummary(
      Constant(Tensor::Scalar<std::string>("five")), Constant(5.f));
  options.summary_every = {.steps = 1};
  options.log_every = {.steps = 1};
  options.wait_for_saves = true;
  auto run =
      Start(options, {std::make_shared<EventsEnd>(),
                      EvaluationHook([](Session&, int64_t) { return 1.0; },
                                     {.every = {.steps = 1}})});
  const Status s = run->Train({model_.add});
  EXPECT_EQ(run->step(), 5);
  EXPECT_EQ(Saved(Path("model.ckpt-5"), "value"), 5);
  EXPECT_THAT(lines_, Contains(HasSubstr("WARNING: events: not written")));
  // It is reported when the run has ended.
  EXPECT_FALSE(s.ok());
}

TEST(StepTimerTest, IsDueWhenStepsAreRunAgain) {
  StepTimer timer({.steps = 100});
  timer.Done(150, 0);
  EXPECT_FALSE(timer.Due(151, 1));
  EXPECT_TRUE(timer.Due(101, 1));
}

TEST_F(TrainingHooksTest, EarlyStoppingWaitsForItsPatience) {
  const Output metric = Placeholder<float>({});
  const float values[] = {5, 4, 4.5, NAN, 3, 3, 2.95, 9};
  auto run = Start(
      {},
      {EarlyStoppingHook(
          metric, {.every = {.steps = 1}, .patience = 3, .min_delta = 0.1})});
  Status s;
  int steps = 0;
  while (!run->ShouldStop() && s.ok())
    s = run->RunStep({model_.add}, {{metric, Tensor::Scalar(values[steps++])}});
  EXPECT_TRUE(s.ok()) << s;
  EXPECT_EQ(steps, 8);  // 3, 2.95 and 9 are no gain over 3.
  EXPECT_THAT(run->stop_reason(),
              HasSubstr("has not been better than 3 for 3 looks"));
  EXPECT_TRUE(run->Close().ok());
}

TEST_F(TrainingHooksTest, EvaluationsAreLoggedWrittenAndStopTheRun) {
  std::vector<int64_t> at;
  EvaluationHookOptions options;
  options.name = "accuracy";
  options.every = {.steps = 2};
  options.stop = EarlyStoppingOptions{.patience = 2, .lower_is_better = false};
  auto run = Start({}, {EvaluationHook(
                           [&](Session& session, int64_t step) {
                             EXPECT_TRUE(session.Run(model_.value).ok());
                             at.push_back(step);
                             return Result<double>(step == 2 ? 0.5 : 0.25);
                           },
                           options)});
  EXPECT_TRUE(run->Train({model_.add}).ok());
  EXPECT_THAT(at, ElementsAre(2, 4, 6));
  EXPECT_THAT(lines_, Contains("accuracy at step 2: 0.5"));
  int written = 0;
  for (const proto::Event& e : Events())
    for (const auto& v : e.summary().value())
      written += v.tag() == "accuracy" ? 1 : 0;
  EXPECT_EQ(written, 3);
}

TEST_F(TrainingHooksTest, AnErrorOfAnEvaluationEndsTheRun) {
  auto run = Start(
      {},
      {EvaluationHook(
          [](Session&, int64_t) { return Result<double>(NotFound("no data")); },
          {.every = {.steps = 1}})});
  EXPECT_EQ(run->Train({model_.add}).message(), "hook 'evaluation': no data");
}

TEST_F(TrainingHooksTest, TensorsAreLoggedWithTheirRate) {
  double now = 100;
  TrainingOptions options = {.last_step = 5};
  options.clock = [&] { return now += 0.125; };
  options.log_tensors = {{"twice", ops::Identity(model_.value) * 0.f + 2.f}};
  options.log_every = {.steps = 2};
  auto run = Start(options, {});
  EXPECT_TRUE(run->Train({model_.add}).ok());
  EXPECT_THAT(lines_, Contains("step 1: twice = 2"));
  EXPECT_THAT(lines_,
              Contains(MatchesRegex("step 3: twice = 2 .[0-9.]+ steps/s.")));
  EXPECT_THAT(lines_, Contains(HasSubstr("step 5: twice = 2")));
  EXPECT_THAT(lines_, Not(Contains(HasSubstr("step 2:"))));
}

TEST_F(TrainingHooksTest, SummariesAndRatesAreWritten) {
  TrainingOptions options = {.last_step = 5};
  options.summary = ops::ScalarSummary(
      Constant(Tensor::Scalar<std::string>("five")), Constant(5.f));
  options.summary_every = {.steps = 3};
  options.log_every = {.steps = 2};
  auto run = Start(options, {});
  EXPECT_TRUE(run->Train({model_.add}).ok());
  std::vector<int64_t> five, rates, starts, checkpoints;
  for (const proto::Event& e : Events()) {
    for (const auto& v : e.summary().value())
      (v.tag() == "five" ? five : rates).push_back(e.step());
    if (e.session_log().status() == proto::SessionLog::START)
      starts.push_back(e.step());
    if (e.session_log().status() == proto::SessionLog::CHECKPOINT)
      checkpoints.push_back(e.step());
  }
  EXPECT_THAT(five, ElementsAre(1, 4));
  EXPECT_THAT(rates, ElementsAre(2, 4));
  EXPECT_THAT(starts, ElementsAre(0));
  EXPECT_THAT(checkpoints, Contains(5));
}

TEST_F(TrainingHooksTest, ProfiledStepsAreWritten) {
  TrainingOptions options = {.last_step = 8};
  auto run =
      Start(options, {ProfileHook({.first = 2, .steps = 2, .every = 4})});
  EXPECT_TRUE(run->Train({model_.add}).ok());
  for (int i = 1; i <= 8; ++i)
    EXPECT_EQ(std::filesystem::exists(Path(absl::StrCat("trace-", i, ".json"))),
              i == 3 || i == 4 || i == 7 || i == 8)
        << i;
  EXPECT_THAT(*ReadFile(Path("trace-3.json")), HasSubstr("AssignAdd"));
  std::vector<std::string> tags;
  for (const proto::Event& e : Events())
    if (e.has_tagged_run_metadata())
      tags.push_back(e.tagged_run_metadata().tag());
  EXPECT_THAT(tags, ElementsAre("step 3", "step 4", "step 7", "step 8"));
}

TEST_F(TrainingHooksTest, ProgressIsABarOnATerminalAndLinesElsewhere) {
  for (const bool terminal : {true, false}) {
    Graph g;
    const WithGraph use(g);
    Counter model;
    double now = 0;
    std::vector<std::string> written;
    TrainingOptions options = Options({});
    options.folder = Path(terminal ? "bar" : "lines");
    options.clock = [&] { return now; };
    options.hooks = {ProgressHook(
        100, {.write = [&](const std::string& s) { written.push_back(s); },
              .terminal = terminal,
              .seconds = 10})};
    auto run = TrainingSession::Start(options, g);
    ASSERT_TRUE(run.ok()) << run.status();
    for (int i = 0; i < 50; ++i) {
      now += 0.5;
      ASSERT_TRUE((*run)->RunStep({model.add}).ok());
    }
    EXPECT_EQ(written.size(), terminal ? 50u : 2u);
    const std::string half =
        "[==========>         ] 50/100, 2.0 steps/s, 0:25 left";
    if (terminal) {
      EXPECT_EQ(written.back(), "\r" + half + "\x1b[K");
    }
    written.clear();
    ASSERT_TRUE((*run)->Close().ok());
    EXPECT_THAT(written,
                ElementsAre(terminal ? "\r" + half + "\x1b[K\n" : half + "\n"));
  }
}

// ---- NaN --------------------------------------------------------------------

// x -> log(x) -> * 2 -> mean; 0 * log(0) is NaN.
struct Logarithm {
  Logarithm()
      : x(Placeholder<float>({-1}, "x")),
        scale(Constant(Tensor::Vector<float>({0, 1})), "scale"),
        logs(ops::Log(x, {.name = "logs"})),
        scaled(ops::Mul(logs, scale.Read(), {.name = "scaled"})),
        loss(ops::Sum(scaled, 0, {.name = "loss"})) {}
  const Output x;
  const Var scale;
  const Output logs, scaled, loss;
};

TEST_F(TrainingHooksTest, ANanLossEndsTheRunWithTheFirstTensor) {
  for (const bool in_step : {false, true}) {
    SCOPED_TRACE(in_step);
    Graph g;
    const WithGraph use(g);
    Counter model;
    Logarithm net;
    TrainingOptions options = Options({});
    options.folder = Path(in_step ? "in_step" : "after");
    options.save = {.steps = 1};
    options.wait_for_saves = true;
    options.loss = net.loss;
    options.nan.in_step = in_step;
    auto run = TrainingSession::Start(options, g);
    ASSERT_TRUE(run.ok()) << run.status();
    const auto feed = [&](float a) {
      return Feeds{{net.x, Tensor::Vector<float>({a, 1})}};
    };
    ASSERT_TRUE((*run)->RunStep({model.add}, feed(1)).ok());
    const Status s = (*run)->RunStep({model.add}, feed(0));
    EXPECT_EQ(s.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(s.message()),
                AllOf(HasSubstr("hook 'nan'"), HasSubstr("in step 2"),
                      HasSubstr("'loss:0'"), HasSubstr("'logs:0' (float[?])"),
                      HasSubstr("training_hooks_test.cc:")));
    EXPECT_EQ((*run)->Close(), s);
    // What came before is kept, and what the step left is not saved.
    EXPECT_EQ(*LatestCheckpoint(options.folder),
              options.folder + "/model.ckpt-1");
  }
}

TEST_F(TrainingHooksTest, ANanIsFoundBehindATensorStore) {
  Graph g;
  const WithGraph use(g);
  Counter model;
  const Output x = Placeholder<float>({-1}, "x");
  const TensorStore store(DType::kFloat);
  const Output read = store.Read(3);
  const Output loss = ops::Sum(read * 2.0f, 0, {.name = "loss"});
  store.Write(3, ops::Log(x, {.name = "logs"}));
  TrainingOptions options = Options({});
  options.loss = loss;
  options.nan.in_step = true;
  auto run = TrainingSession::Start(options, g);
  ASSERT_TRUE(run.ok()) << run.status();
  ASSERT_TRUE(
      (*run)->RunStep({model.add}, {{x, Tensor::Vector<float>({1})}}).ok());
  const Status s =
      (*run)->RunStep({model.add}, {{x, Tensor::Vector<float>({-1})}});
  EXPECT_THAT(std::string(s.message()), HasSubstr("'logs:0'"));
}

TEST_F(TrainingHooksTest, ANanOfTheUpdateIsToldFromOneOfTheStep) {
  for (const bool in_step : {false, true}) {
    SCOPED_TRACE(in_step);
    Graph g;
    const WithGraph use(g);
    Counter model;
    Logarithm net;
    // The step computes with the old value; then its update spoils it.
    Node* spoil = nullptr;
    {
      const ControlDependencies after({net.loss.node});
      spoil = net.scale.Assign(Constant(Tensor::Vector<float>({NAN, 1})));
    }
    TrainingOptions options = Options({});
    options.folder = Path(in_step ? "in_step" : "after");
    options.loss = net.loss;
    options.nan.in_step = in_step;
    auto run = TrainingSession::Start(options, g);
    ASSERT_TRUE(run.ok()) << run.status();
    const Status s = (*run)->RunStep({spoil, model.add},
                                     {{net.x, Tensor::Vector<float>({0, 1})}});
    const std::string text(s.message());
    if (in_step) {
      EXPECT_THAT(text, HasSubstr("was not finite is 'logs:0'"));
    } else {
      EXPECT_THAT(text, HasSubstr("not finite after the step: 'scale'"));
    }
  }
}

TEST_F(TrainingHooksTest, WhatDependsOnStateIsNotComputedAgain) {
  Logarithm net;
  const Var count(Constant(0.f), "count");
  Node* const counted = count.AssignAdd(Constant(1.f));
  Output loss;
  {
    const ControlDependencies after({counted});
    loss = ops::Add(net.loss, count.Read(), {.name = "with_state"});
  }
  TrainingOptions options = {};
  options.loss = loss;
  auto run = Start(options, {});
  const Status s =
      run->RunStep({model_.add}, {{net.x, Tensor::Vector<float>({0, 1})}});
  EXPECT_THAT(std::string(s.message()),
              AllOf(HasSubstr("first tensor that is not finite is 'logs:0'"),
                    HasSubstr("tensors that depend on state were not")));
  // The count is that of one step.
  EXPECT_EQ((*run->session())->Run(count)->scalar<float>(), 1);
}

TEST_F(TrainingHooksTest, ANanLossCanStopWithoutError) {
  Logarithm net;
  auto run = Start({}, {NanHook(net.loss, {.fail = false})});
  EXPECT_TRUE(
      run->RunStep({model_.add}, {{net.x, Tensor::Vector<float>({-1, 1})}})
          .ok());
  EXPECT_TRUE(run->ShouldStop());
  EXPECT_THAT(lines_, Contains(HasSubstr("WARNING: loss 'loss:0'")));
  EXPECT_TRUE(run->Close().ok());
  // What the step left is not saved at the end either.
  EXPECT_EQ(*LatestCheckpoint(folder_.string()), Path("model.ckpt-0"));
}

TEST_F(TrainingHooksTest, TensorsInImportedLoopsAreNotLookedAt) {
  std::string bytes;
  {
    Graph g;
    const WithGraph use(g);
    const Output x = Placeholder<float>({}, "x");
    ops::Identity(Cond(
                      x > 0.f, [&]() -> Output { return ops::Log(x); },
                      [&]() -> Output { return ops::Square(x); }),
                  {.name = "loss"});
    bytes = *ExportGraphDef(g);
  }
  const Status imported = ImportGraphDef(bytes, g_, {.prefix = "in"});
  ASSERT_TRUE(imported.ok()) << imported;
  const Output loss = *g_.FindOutput("in/loss:0"), x = *g_.FindOutput("in/x:0");
  TrainingOptions options = {};
  options.loss = loss;
  options.nan.in_step = true;
  auto run = Start(options, {});
  ASSERT_NE(run, nullptr);
  // Each branch runs: the tensors of the other one have no values.
  for (const float at : {2.f, -2.f}) {
    const Status s = run->RunStep({model_.add}, {{x, Tensor::Scalar(at)}});
    EXPECT_TRUE(s.ok()) << s;
  }
}

}  // namespace
}  // namespace sluice
