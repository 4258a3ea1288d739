// Training runs: how they begin, go on and end.
#include "train/training_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <filesystem>
#include <thread>

#include "base/failpoint.h"
#include "checkpoint/state.h"
#include "client/operators.h"
#include "data/dataset.h"
#include "data/queue.h"
#include "io/file.h"
#include "sluice/ops.h"
#include "train/run_lock.h"
#include "train/signal_stop.h"
#include "train/testing/other_run_test_util.h"
#include "train/testing/training_test_util.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TrainingSessionTest : public TrainingTest {};

TEST_F(TrainingSessionTest, ARunInitialisesTrainsSavesAndGoesOn) {
  {
    Counter model;
    auto training = TrainingSession::Start(Options({.last_step = 5}));
    ASSERT_TRUE(training.ok()) << training.status();
    EXPECT_EQ((*training)->restored_from(), "");
    EXPECT_TRUE((*training)->Train({model.add}).ok());
    EXPECT_EQ((*training)->stop_reason(), "the last step, 5");
    EXPECT_THAT(lines_, Contains("training: initialising"));
    EXPECT_THAT(lines_, Contains("saved " + Path("model.ckpt-0")));
    EXPECT_THAT(lines_, Contains("saved " + Path("model.ckpt-5")));
  }
  lines_.clear();
  const WithGraph use(other_);
  Counter model;
  auto training =
      TrainingSession::Start(Options({.last_step = 8}), CurrentGraph());
  ASSERT_TRUE(training.ok()) << training.status();
  EXPECT_EQ((*training)->restored_from(), Path("model.ckpt-5"));
  EXPECT_THAT(lines_, Contains("training: restored " + Path("model.ckpt-5")));
  EXPECT_EQ((*training)->step(), 5);
  Status status;
  std::vector<float> seen;
  while (!(*training)->ShouldStop()) {
    const auto out = (*training)->Run({}, {model.value}, {model.add});
    ASSERT_TRUE(out.ok()) << out.status();
    ASSERT_EQ(out->size(), 1u);
    seen.push_back((*out)[0].scalar<float>());
  }
  EXPECT_EQ(seen.size(), 3u);
  EXPECT_EQ((*training)->Run({}, {}, {model.add}).status().code(),
            StatusCode::kFailedPrecondition);
  EXPECT_TRUE((*training)->Close().ok());
  EXPECT_TRUE((*training)->Close().ok());
  EXPECT_FALSE((*training)->session().ok());
  EXPECT_EQ(Saved(Path("model.ckpt-8"), "value"), 8);
}

TEST_F(TrainingSessionTest, AFolderWithoutCheckpointIsWarnedOf) {
  ASSERT_TRUE(WriteFile(Path("notes.txt"), "x").ok());
  ASSERT_TRUE(WriteFile(Path("model.ckpt-7.index"), "x").ok());
  Counter model;
  auto training = TrainingSession::Start(Options({}));
  ASSERT_TRUE(training.ok()) << training.status();
  EXPECT_THAT(lines_,
              Contains(AllOf(HasSubstr("WARNING"),
                             HasSubstr("no checkpoint to go on from: "
                                       "model.ckpt-7.index, notes.txt;"),
                             HasSubstr("anew"))));
}

TEST_F(TrainingSessionTest, ACheckpointThatIsGoneIsAnError) {
  ASSERT_TRUE(
      WriteFile(Path("checkpoint"), "model_checkpoint_path: \"gone-7\"\n")
          .ok());
  Counter model;
  const Status s = TrainingSession::Start(Options({})).status();
  EXPECT_EQ(s.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(s.message()), HasSubstr("gone-7"));
}

TEST_F(TrainingSessionTest, ACheckpointOfAnotherModelIsAnError) {
  {
    Graph g;
    const WithGraph use(g);
    const Var v(Constant(Tensor::Vector<float>({1, 2})), "value");
    Saver saver;
    Session session(g);
    ASSERT_TRUE(session.RunTargets({GlobalVariablesInitializer()}).ok());
    ASSERT_TRUE(saver.Save(session, Path("model.ckpt"), 3).ok());
  }
  Counter model;
  const Status s = TrainingSession::Start(Options({})).status();
  EXPECT_EQ(s.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(s.message()), HasSubstr("'value': expected float"));
}

TEST_F(TrainingSessionTest, WhatTheSaverDoesNotSaveIsInitialised) {
  for (const int last : {2, 4}) {
    Graph g;
    const WithGraph use(g);
    Counter model;
    const Var more(Constant(7.f), "more");
    const Var local(Constant(3.f), "local", {.collections = {kLocalVariables}});
    Saver saver(
        {.variables = {{"value", model.value}, {"global_step", model.step}}});
    TrainingOptions options = Options({.last_step = last});
    options.saver = &saver;
    auto training = TrainingSession::Start(options, g);
    ASSERT_TRUE(training.ok()) << training.status();
    const auto out = (*training)->Run({}, {more, local}, {model.add});
    ASSERT_TRUE(out.ok()) << out.status();
    EXPECT_EQ((*out)[0].scalar<float>(), 7);
    EXPECT_EQ((*out)[1].scalar<float>(), 3);
    EXPECT_TRUE((*training)->Train({model.add}).ok());
  }
  EXPECT_THAT(lines_, Contains("training: initialising what is not in the "
                               "checkpoint: more"));
}

TEST_F(TrainingSessionTest, AWarmStartRunsOnlyWithoutCheckpoint) {
  int starts = 0;
  for (const int last : {1, 2}) {
    Graph g;
    const WithGraph use(g);
    Counter model;
    Node* const warm = model.value.Assign(Constant(10.f));
    TrainingOptions options = Options({.last_step = last});
    options.init_function = [&](Session& session) {
      ++starts;
      return session.RunTargets({warm});
    };
    auto training = TrainingSession::Start(options, g);
    ASSERT_TRUE(training.ok()) << training.status();
    EXPECT_TRUE((*training)->Train({model.add}).ok());
  }
  EXPECT_EQ(starts, 1);
  EXPECT_EQ(Saved(Path("model.ckpt-2"), "value"), 12);
}

TEST_F(TrainingSessionTest, WhatInitLeavesOutIsNamed) {
  Counter model;
  const Var other(Constant(1.f), "forgotten");
  TrainingOptions options = Options({});
  options.init = VariablesInitializer({model.value, model.step});
  const Status s = TrainingSession::Start(options).status();
  EXPECT_EQ(s.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(s.message()), HasSubstr("none of forgotten"));
}

TEST_F(TrainingSessionTest, RunsWithoutFolderOrCounterWorkToo) {
  const Var v(Constant(0.f), "v");
  Node* const add = v.AssignAdd(Constant(1.f));
  TrainingOptions options;
  options.last_step = 3;
  options.log = [](const std::string&) {};
  auto training = TrainingSession::Start(options);
  ASSERT_TRUE(training.ok()) << training.status();
  EXPECT_TRUE((*training)->Train({add}).ok());
  EXPECT_EQ((*training)->step(), 3);
}

// ---- Hooks ------------------------------------------------------------------

// Notes its calls.
class Recorder : public TrainingHook {
 public:
  Recorder(std::string name, std::vector<std::string>* calls)
      : name_(std::move(name)), calls_(calls) {}
  std::string name() const override { return name_; }
  Status Begin(TrainingContext& context) override {
    EXPECT_FALSE(context.session().ok());
    return Note("begin");
  }
  Status AfterCreateSession(TrainingContext& context) override {
    EXPECT_TRUE(context.session().ok());
    return Note("session");
  }
  Status BeforeRun(TrainingContext&, HookRequest* request) override {
    request->fetches = fetches;
    request->feeds = feeds;
    return Note("before");
  }
  Status AfterRun(TrainingContext&, const HookResult& result) override {
    EXPECT_EQ(result.values.size(), fetches.size());
    values = result.values;
    return Note("after");
  }
  Status End(TrainingContext&) override { return Note("end"); }

  std::vector<Output> fetches;
  Feeds feeds;
  std::vector<Tensor> values;
  std::string fails_at;
  Status error = DataLoss("refused");
  int times = 1 << 30;

 private:
  Status Note(const std::string& what) {
    calls_->push_back(name_ + " " + what);
    return what == fails_at && times-- > 0 ? error : OkStatus();
  }

  const std::string name_;
  std::vector<std::string>* const calls_;
};

TEST_F(TrainingSessionTest, HooksAreCalledInOrder) {
  Counter model;
  std::vector<std::string> calls;
  const auto a = std::make_shared<Recorder>("a", &calls);
  const auto b = std::make_shared<Recorder>("b", &calls);
  const Output fed = Placeholder<float>({});
  a->feeds = {{fed, Tensor::Scalar(4.f)}};
  b->fetches = {fed * 2.f, model.value};
  TrainingOptions options = Options({.last_step = 2});
  options.hooks = {a, b};
  auto training = TrainingSession::Start(options);
  ASSERT_TRUE(training.ok()) << training.status();
  EXPECT_TRUE((*training)->Train({model.add}).ok());
  EXPECT_THAT(calls, ElementsAre("a begin", "b begin", "a session", "b session",
                                 "a before", "b before", "a after", "b after",
                                 "a before", "b before", "a after", "b after",
                                 "a end", "b end"));
  EXPECT_EQ(b->values[0].scalar<float>(), 8);
}

TEST_F(TrainingSessionTest, AnErrorOfAHookEndsTheRunAndSavesNothing) {
  for (const std::string where :
       {"begin", "session", "before", "after", "end"}) {
    SCOPED_TRACE(where);
    Graph g;
    const WithGraph use(g);
    Counter model;
    std::vector<std::string> calls;
    const auto hook = std::make_shared<Recorder>("strict", &calls);
    hook->fails_at = where;
    TrainingOptions options = Options({.last_step = 2});
    options.folder = Path(where);
    options.save = {.steps = 1};
    options.wait_for_saves = true;
    options.hooks = {hook};
    auto training = TrainingSession::Start(options, g);
    if (where == "begin" || where == "session") {
      EXPECT_EQ(training.status().message(), "hook 'strict': refused");
      continue;
    }
    ASSERT_TRUE(training.ok()) << training.status();
    const Status s = (*training)->Train({model.add});
    EXPECT_EQ(s.message(), "hook 'strict': refused");
    EXPECT_EQ(s.code(), StatusCode::kDataLoss);
    EXPECT_TRUE((*training)->ShouldStop());
    const bool at_end = where == "end";
    EXPECT_EQ(std::count(calls.begin(), calls.end(), "strict end"),
              at_end ? 1 : 0);
    EXPECT_EQ(*LatestCheckpoint(Path(where)),
              Path(where + (at_end ? "/model.ckpt-2" : "/model.ckpt-0")));
  }
}

TEST_F(TrainingSessionTest, WhatTwoFeedIsAnError) {
  Counter model;
  std::vector<std::string> calls;
  const auto hook = std::make_shared<Recorder>("feeder", &calls);
  const Output fed = Placeholder<float>({});
  hook->feeds = {{fed, Tensor::Scalar(4.f)}};
  TrainingOptions options = Options({});
  options.hooks = {hook};
  auto training = TrainingSession::Start(options);
  ASSERT_TRUE(training.ok()) << training.status();
  const Status s =
      (*training)->RunStep({model.add}, {{fed, Tensor::Scalar(1.f)}});
  EXPECT_EQ(s.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(s.message()), HasSubstr("hook 'feeder'"));
}

// ---- What goes wrong --------------------------------------------------------

// Fails after steps, as often as its `times` is set to.
std::shared_ptr<Recorder> LosesATask(std::vector<std::string>* calls) {
  const auto hook = std::make_shared<Recorder>("shaky", calls);
  hook->fails_at = "after";
  hook->error = Aborted("a task was lost");
  hook->times = 0;
  return hook;
}

TEST_F(TrainingSessionTest, AnAbortedStepIsRunAgainFromTheLastCheckpoint) {
  Counter model;
  std::vector<std::string> calls;
  const auto hook = LosesATask(&calls);
  TrainingOptions options = Options({.last_step = 10});
  options.save = {.steps = 3};
  options.wait_for_saves = true;
  options.hooks = {hook};
  auto training = TrainingSession::Start(options);
  ASSERT_TRUE(training.ok()) << training.status();
  for (int i = 0; i < 5; ++i)
    ASSERT_TRUE((*training)->RunStep({model.add}).ok());
  hook->times = 2;  // The sixth step, and its repetition.
  ASSERT_TRUE((*training)->RunStep({model.add}).ok());
  // Step 3 was saved last.
  EXPECT_EQ((*training)->step(), 4);
  EXPECT_THAT(lines_, Contains(AllOf(HasSubstr("run again in a new session"),
                                     HasSubstr("a task was lost"))));
  EXPECT_THAT(lines_,
              Contains("training: restored " + Path("model.ckpt-3")).Times(2));
  EXPECT_EQ(std::count(calls.begin(), calls.end(), "shaky session"), 3);
  EXPECT_TRUE((*training)->Train({model.add}).ok());
  EXPECT_EQ(Saved(Path("model.ckpt-10"), "value"), 10);
}

TEST_F(TrainingSessionTest, ALastStepThatIsAbortedAfterTheStopIsRunAgain) {
  Counter model;
  std::vector<std::string> calls;
  const auto hook = LosesATask(&calls);
  TrainingOptions options = Options({.last_step = 10});
  options.save = {.steps = 4};
  options.wait_for_saves = true;
  options.hooks = {hook};
  auto training = TrainingSession::Start(options);
  ASSERT_TRUE(training.ok()) << training.status();
  for (int i = 0; i < 9; ++i)
    ASSERT_TRUE((*training)->RunStep({model.add}).ok());
  hook->times = 1;
  EXPECT_TRUE((*training)->Train({model.add}).ok());
  EXPECT_THAT(lines_,
              Contains("training: restored " + Path("model.ckpt-8")).Times(1));
  EXPECT_EQ(Saved(Path("model.ckpt-10"), "value"), 10);
}

TEST_F(TrainingSessionTest, AStepThatIsRunAgainGetsTheFeedsOfItsNewNumber) {
  Counter model;
  const Output fed = Placeholder<float>({});
  Node* train = nullptr;
  {
    const ControlDependencies before({model.value.AssignAdd(fed)});
    train = model.step.AssignAdd(Constant(Tensor::Scalar<int64_t>(1)));
  }
  std::vector<std::string> calls;
  const auto hook = LosesATask(&calls);
  TrainingOptions options = Options({.last_step = 8});
  options.save = {.steps = 3};
  options.wait_for_saves = true;
  options.hooks = {hook};
  auto training = TrainingSession::Start(options);
  ASSERT_TRUE(training.ok()) << training.status();
  std::vector<int64_t> asked;
  const Status s = (*training)->Train({train}, [&](int64_t step) {
    asked.push_back(step);
    if (asked.size() == 6) hook->times = 1;  // The sixth step.
    return Feeds{
        {fed, Tensor::Scalar<float>(std::exp2f(static_cast<float>(step)))}};
  });
  ASSERT_TRUE(s.ok()) << s;
  EXPECT_THAT(asked, ElementsAre(0, 1, 2, 3, 4, 5, 3, 4, 5, 6, 7));
  // Each number was added once.
  EXPECT_EQ(Saved(Path("model.ckpt-8"), "value"), 255);
}

TEST_F(TrainingSessionTest, AStepThatIsAbortedAgainAndAgainEndsTheRun) {
  Counter model;
  std::vector<std::string> calls;
  const auto hook = std::make_shared<Recorder>("shaky", &calls);
  hook->fails_at = "before";
  hook->error = Unavailable("no task");
  TrainingOptions options = Options({});
  options.hooks = {hook};
  options.max_retries = 3;
  auto training = TrainingSession::Start(options);
  ASSERT_TRUE(training.ok()) << training.status();
  const Status s = (*training)->Train({model.add});
  EXPECT_EQ(s.code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(s.message()), HasSubstr("giving up after 4 tries"));
  EXPECT_EQ(std::count(calls.begin(), calls.end(), "shaky before"), 4);
}

TEST_F(TrainingSessionTest, WithoutCheckpointAnAbortedRunBeginsAnewLoudly) {
  Counter model;
  std::vector<std::string> calls;
  const auto hook = std::make_shared<Recorder>("shaky", &calls);
  hook->fails_at = "after";
  hook->error = Aborted("lost");
  hook->times = 0;
  TrainingOptions options = Options({.last_step = 4});
  options.folder = "";
  options.hooks = {hook};
  auto training = TrainingSession::Start(options);
  ASSERT_TRUE(training.ok()) << training.status();
  ASSERT_TRUE((*training)->RunStep({model.add}).ok());
  hook->times = 1;
  ASSERT_TRUE((*training)->RunStep({model.add}).ok());
  EXPECT_EQ((*training)->step(), 1);
  EXPECT_THAT(lines_, Contains(AllOf(HasSubstr("WARNING"), HasSubstr("value"),
                                     HasSubstr("anew"))));
}

TEST_F(TrainingSessionTest, AFullDiskDoesNotEndTraining) {
  Counter model;
  TrainingOptions options = Options({.last_step = 10'000});
  options.save = {.steps = 2};
  auto training = TrainingSession::Start(options);
  ASSERT_TRUE(training.ok()) << training.status();
  // Until a save beside training has failed.
  ASSERT_TRUE(WaitForFile("checkpoint"));
  ASSERT_TRUE(EnableFailpoints("checkpoint.write=error(no space left)").ok());
  const auto warned = [&] {
    return std::any_of(lines_.begin(), lines_.end(), [](const auto& line) {
      return line.find(
                 "WARNING: checkpoint: an error of saving, training goes on") ==
                 0 &&
             line.find("no space left") != std::string::npos;
    });
  };
  for (int i = 0; i < 2000 && !warned(); ++i) {
    ASSERT_TRUE((*training)->RunStep({model.add}).ok());
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_TRUE(warned());
  EXPECT_EQ(*LatestCheckpoint(folder_.string()), Path("model.ckpt-0"));
  // At the end it is an error of the run.
  EXPECT_THAT(std::string((*training)->Close().message()),
              HasSubstr("no space left"));
  EXPECT_EQ(*LatestCheckpoint(folder_.string()), Path("model.ckpt-0"));
}

TEST_F(TrainingSessionTest, TheEndOfTheDataEndsTheRunWithACheckpoint) {
  Counter model;
  const Queue queue = Queue::Fifo({{DType::kFloat, {}}});
  // The third element is the last.
  const Var left(Constant(3.f), "left");
  Node* const less = left.AssignSub(Constant(1.f));
  Node* put = nullptr;
  {
    const ControlDependencies after({less});
    put = queue.Enqueue({left.Read()});
  }
  const DatasetIterator input = Dataset::Range(3).MakeIterator();
  const Output number = input.Next()[0];
  TrainingOptions options = Options({});
  options.inputs = {input};
  options.queue_runners = {{.enqueue = {put}}};
  auto training = TrainingSession::Start(options);
  ASSERT_TRUE(training.ok()) << training.status();
  const Output from_queue = queue.Dequeue()[0];
  int steps = 0;
  Status status;
  while (!(*training)->ShouldStop()) {
    const auto out = (*training)->Run({}, {number, from_queue}, {model.add});
    status = out.status();
    if (!out.ok()) break;
    EXPECT_EQ((*out)[0].scalar<int64_t>(), steps++);
  }
  EXPECT_EQ(status.code(), StatusCode::kOutOfRange) << status;
  EXPECT_EQ(steps, 3);
  EXPECT_EQ((*training)->stop_reason(), "the data has ended");
  EXPECT_TRUE((*training)->Close().ok());
}

TEST_F(TrainingSessionTest, AnErrorOfAQueueRunnerIsTheCause) {
  Counter model;
  const Queue queue = Queue::Fifo({{DType::kFloat, {}}});
  const Output bad =
      ops::CheckNumerics(ops::Log(model.value - 1.f), "nothing to read");
  TrainingOptions options = Options({});
  options.queue_runners = {{.enqueue = {queue.Enqueue({bad})}}};
  const Output from_queue = queue.Dequeue()[0];
  auto training = TrainingSession::Start(options);
  ASSERT_TRUE(training.ok()) << training.status();
  const Status s = (*training)->Run({}, {from_queue}, {model.add}).status();
  EXPECT_THAT(std::string(s.message()),
              AllOf(HasSubstr("queue runner"), HasSubstr("nothing to read")));
  EXPECT_EQ((*training)->Close(), s);
}

TEST_F(TrainingSessionTest, AQueueRunnersErrorOfClosingIsIgnored) {
  Counter model;
  const Queue queue = Queue::Fifo({{DType::kFloat, {}}});
  const DatasetIterator input = Dataset::Range(2).MakeIterator();
  const Output bad =
      ops::CheckNumerics(ops::Log(model.value - 1.f), "cannot close");
  TrainingOptions options = Options({});
  options.inputs = {input};
  options.queue_runners = {
      {.enqueue = {queue.Enqueue({ops::Cast(input.Next()[0], DType::kFloat)})},
       .close = bad.node}};
  const Output from_queue = queue.Dequeue()[0];
  auto training = TrainingSession::Start(options);
  ASSERT_TRUE(training.ok()) << training.status();
  for (int i = 0; i < 2; ++i)
    EXPECT_TRUE((*training)->Run({}, {from_queue}, {model.add}).ok());
  EXPECT_TRUE((*training)->Close().ok());
}

TEST_F(TrainingSessionTest, MisuseIsAnError) {
  Counter model;
  const auto refused = [&](const auto& change, const std::string& text) {
    TrainingOptions options = Options({});
    change(&options);
    const Status s = TrainingSession::Start(options).status();
    EXPECT_FALSE(s.ok());
    EXPECT_THAT(std::string(s.message()), HasSubstr(text));
  };
  const Var vector(Constant(Tensor::Vector<int64_t>({1, 2})), "vector");
  refused([&](auto* o) { o->global_step = vector; }, "scalar integer");
  refused([&](auto* o) { o->last_step = -1; }, "last_step");
  refused([&](auto* o) { o->hooks = {nullptr}; }, "null");
  refused([&](auto* o) { o->progress = true; }, "last_step");
  refused([&](auto* o) { o->checkpoint_name = "a/b"; }, "checkpoint_name");
  refused([&](auto* o) { o->save = {.steps = -1}; }, "interval");
  refused([&](auto* o) { o->summary = model.value; }, "string");
  refused([&](auto* o) { o->folder = "/dev/null/x"; }, "/dev/null");
  refused([&](auto* o) { o->retry_seconds = NAN; }, "retry_seconds");
  refused([&](auto* o) { o->ready = model.value; }, "strings");
}

// ---- Other processes and signals --------------------------------------------

TEST_F(TrainingSessionTest, TwoRunsInAFolderAreDetected) {
  OtherRun other(folder_.string());
  Counter model;
  const Status s = TrainingSession::Start(Options({})).status();
  EXPECT_EQ(s.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(s.message()),
              HasSubstr(absl::StrCat("process ", other.pid(), " on ")));
  other.Kill();
  EXPECT_TRUE(TrainingSession::Start(Options({})).ok());
}

TEST_F(TrainingSessionTest, ASignalEndsTheRunWithACheckpoint) {
  for (const int number : {SIGTERM, SIGINT}) {
    Graph g;
    const WithGraph use(g);
    Counter model;
    TrainingOptions options = Options({});
    options.folder = Path(absl::StrCat("signal", number));
    options.stop_on_signals = true;
    auto training = TrainingSession::Start(options, g);
    ASSERT_TRUE(training.ok()) << training.status();
    for (int i = 0; i < 3; ++i)
      ASSERT_TRUE((*training)->RunStep({model.add}).ok());
    EXPECT_FALSE((*training)->ShouldStop());
    ASSERT_EQ(raise(number), 0);
    EXPECT_TRUE((*training)->ShouldStop());
    EXPECT_EQ((*training)->stop_signal(), number);
    EXPECT_EQ((*training)->stop_reason(),
              number == SIGTERM ? "signal SIGTERM" : "signal SIGINT");
    EXPECT_TRUE((*training)->Close().ok());
    EXPECT_EQ(*LatestCheckpoint(options.folder),
              options.folder + "/model.ckpt-3");
  }
}

TEST_F(TrainingSessionTest, ASignalEndsTheWaitForTheChief) {
  Counter model;
  TrainingOptions options = Options({});
  options.is_chief = false;
  options.stop_on_signals = true;
  options.retry_seconds = 3600;
  std::atomic<bool> waits = true;
  // Until it is seen: the handler is installed in Start.
  struct sigaction ignored = {}, before = {};
  ignored.sa_handler = SIG_IGN;
  ASSERT_EQ(sigaction(SIGTERM, &ignored, &before), 0);
  std::thread sender([&] {
    while (waits) {
      kill(getpid(), SIGTERM);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  });
  const Status s = TrainingSession::Start(options).status();
  waits = false;
  sender.join();
  sigaction(SIGTERM, &before, nullptr);
  EXPECT_EQ(s.code(), StatusCode::kCancelled) << s;
  EXPECT_THAT(std::string(s.message()), HasSubstr("SIGTERM"));
}

TEST_F(TrainingSessionTest, AFirstSaveThatIsAbortedIsTriedAgain) {
  Counter model;
  TrainingOptions options = Options({});
  options.wait_for_saves = true;
  // (Unavailable: as if a task was lost.)
  ASSERT_TRUE(EnableFailpoints("checkpoint.write=error(lost)*1").ok());
  auto training = TrainingSession::Start(options);
  ASSERT_TRUE(training.ok()) << training.status();
  EXPECT_TRUE(CheckpointExists(Path("model.ckpt-0")));
}

TEST_F(TrainingSessionTest, FormerHandlersOfSignalsComeBack) {
  static int handled;
  handled = 0;
  struct sigaction own = {}, before = {};
  own.sa_handler = [](int) { ++handled; };
  ASSERT_EQ(sigaction(SIGTERM, &own, &before), 0);
  {
    const auto stop = SignalStop::Install();
    ASSERT_TRUE(stop.ok());
    EXPECT_EQ(SignalStop::Install().status().code(),
              StatusCode::kFailedPrecondition);
    ASSERT_EQ(raise(SIGTERM), 0);
    ASSERT_EQ(raise(SIGTERM), 0);
    EXPECT_EQ((*stop)->received(), SIGTERM);
    EXPECT_EQ((*stop)->name(), "SIGTERM");
    EXPECT_EQ(handled, 0);
  }
  ASSERT_EQ(raise(SIGTERM), 0);
  EXPECT_EQ(handled, 1);
  sigaction(SIGTERM, &before, nullptr);
}

TEST_F(TrainingSessionTest, TheSecondInterruptEndsTheProcess) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto stop = SignalStop::Install();
    raise(SIGINT);
    if ((*stop)->received() != SIGINT) _exit(1);
    raise(SIGINT);
    _exit(2);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status)) << WEXITSTATUS(status);
  EXPECT_EQ(WTERMSIG(status), SIGINT);
}

}  // namespace
}  // namespace sluice
