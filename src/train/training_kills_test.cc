// A training run that is killed at any instant ends with the weights of one
// that is not.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>

#include "base/sanitizers.h"
#include "checkpoint/state.h"
#include "client/nn/adam_optimizers.h"
#include "client/operators.h"
#include "data/dataset.h"
#include "sluice/ops.h"
#include "train/testing/training_test_util.h"

namespace sluice {
namespace {

constexpr int64_t kExamples = 96, kFeatures = 8, kBatch = 16;

// The batch of a step: that of its place in its epoch's seeded order.
Feeds BatchOf(int64_t step, const Output& x, const Output& y) {
  constexpr int64_t kBatches = kExamples / kBatch;
  std::vector<int64_t> order(kExamples);
  std::iota(order.begin(), order.end(), 0);
  std::mt19937_64 random(static_cast<uint64_t>(step / kBatches));
  std::shuffle(order.begin(), order.end(), random);
  Tensor features(DType::kFloat, Shape({kBatch, kFeatures}));
  Tensor labels(DType::kFloat, Shape({kBatch, 1}));
  for (int64_t i = 0; i < kBatch; ++i) {
    const int64_t example =
        order[static_cast<size_t>(step % kBatches * kBatch + i)];
    float sum = 0;
    for (int64_t k = 0; k < kFeatures; ++k) {
      const float value =
          static_cast<float>((example * 31 + k * 17) % 23) / 23.f;
      features.data<float>()[i * kFeatures + k] = value;
      sum += value * static_cast<float>(k % 3);
    }
    labels.data<float>()[i] = sum;
  }
  return {{x, features}, {y, labels}};
}

// The same examples from a pipeline, in an order of its own.
DatasetIterator BatchesOfPipeline() {
  return Dataset::Range(kExamples)
      .Shuffle(40, /*seed=*/5)
      .Repeat()
      .Map([](Output example) {
        const Output features = ops::Range(
            Constant(int64_t{0}), Constant(kFeatures), Constant(int64_t{1}));
        const Output x = ops::Cast(ops::FloorMod(example * int64_t{31} +
                                                     features * int64_t{17},
                                                 int64_t{23}),
                                   DType::kFloat) /
                         23.f;
        const Output weights =
            ops::Cast(ops::FloorMod(features, int64_t{3}), DType::kFloat);
        return std::vector<Output>{
            x, ops::Sum(x * weights, 0, {.keep_dims = true})};
      })
      .Batch(kBatch)
      .Prefetch(4)
      .MakeIterator("input", {.saved = true});
}

// Tells the process that kills it that steps run.
class TellsFirstStep : public TrainingHook {
 public:
  explicit TellsFirstStep(int file) : file_(file) {}
  std::string name() const override { return "first step"; }
  Status AfterRun(TrainingContext&, const HookResult&) override {
    if (!told_ && write(file_, "s", 1) != 1) return Internal("pipe");
    told_ = true;
    return OkStatus();
  }

 private:
  const int file_;
  bool told_ = false;
};

// The program of the processes below, which run it with arguments in their
// environment: where to train, how long, whom to tell, and whether the data
// comes from a pipeline.
TEST(TrainingProgram, DISABLED_Trains) {
  const char* const folder = std::getenv("SLUICE_TRAINED_FOLDER");
  const char* const last_step = std::getenv("SLUICE_TRAINED_STEPS");
  const char* const tell = std::getenv("SLUICE_TRAINED_PIPE");
  ASSERT_TRUE(folder != nullptr && last_step != nullptr && tell != nullptr);
  Graph g;
  const WithGraph use(g);
  SetRandomSeed(7);
  const Var step(Constant(Tensor::Scalar<int64_t>(0)), "global_step",
                 {.trainable = false});
  Output x = Placeholder<float>({-1, kFeatures});
  Output y = Placeholder<float>({-1, 1});
  TrainingOptions options;
  if (std::getenv("SLUICE_TRAINED_BY_PIPELINE") != nullptr) {
    options.inputs = {BatchesOfPipeline()};
    const std::vector<Output> batch = options.inputs[0].Next();
    x = ops::Reshape(batch[0], {kBatch, kFeatures});
    y = ops::Reshape(batch[1], {kBatch, int64_t{1}});
  }
  const Var w1(RandomNormal({kFeatures, 32}), "w1"), b1(Zeros({32}), "b1");
  const Var w2(RandomNormal({32, 1}), "w2"), b2(Zeros({1}), "b2");
  Output hidden = ops::Tanh(ops::MatMul(x, w1) + b1);
  // Dropout, whose numbers depend on the step alone.
  const Output kept = ops::StatelessRandomUniform(
      Constant(Tensor::Vector<int32_t>({kBatch, 32})),
      ops::Pack({step.Read(), Constant(Tensor::Scalar<int64_t>(5))}));
  hidden = hidden * ops::Cast(kept > 0.2f, DType::kFloat);
  const Output error = ops::MatMul(hidden, w2) + b2 - y;
  const Output loss = ops::Mean(error * error, {0, 1});
  AdamOptimizer optimizer(0.01f);
  Node* const train = optimizer.Minimize(loss, {.global_step = step});
  options.folder = folder;
  options.last_step = std::atoll(last_step);
  options.save = {.steps = 5};
  options.loss = loss;
  options.log_every = {.steps = 100'000};
  options.log = [](const std::string&) {};
  options.hooks = {std::make_shared<TellsFirstStep>(std::atoi(tell))};
  auto training = TrainingSession::Start(options);
  ASSERT_TRUE(training.ok()) << training.status();
  const bool fed = options.inputs.empty();
  const Status status = (*training)->Train(
      {train}, [&](int64_t at) { return fed ? BatchOf(at, x, y) : Feeds{}; });
  ASSERT_TRUE(status.ok()) << status;
}

// The parameter: whether the data comes from a pipeline.
class TrainingKillsTest : public TrainingTest,
                          public ::testing::WithParamInterface<bool> {
 protected:
  // A process that trains in the folder; `started` reads a byte when it has run
  // a step, and ends when it does.
  static pid_t StartProcess(const std::string& folder, int64_t last_step,
                            int* started) {
    int ends[2];
    if (pipe(ends) != 0) return -1;
    fcntl(ends[0], F_SETFD, FD_CLOEXEC);
    const std::string own[] = {"SLUICE_TRAINED_FOLDER=" + folder,
                               absl::StrCat("SLUICE_TRAINED_STEPS=", last_step),
                               absl::StrCat("SLUICE_TRAINED_PIPE=", ends[1])};
    std::vector<char*> environment;
    for (char** e = environ; *e != nullptr; ++e) environment.push_back(*e);
    for (const std::string& e : own)
      environment.push_back(const_cast<char*>(e.c_str()));
    char pipeline[] = "SLUICE_TRAINED_BY_PIPELINE=1";
    if (GetParam()) environment.push_back(pipeline);
    environment.push_back(nullptr);
    const char* const arguments[] = {
        "train_test", "--gtest_filter=TrainingProgram.DISABLED_Trains",
        "--gtest_also_run_disabled_tests", "--gtest_brief=1", nullptr};
    pid_t child = -1;
    if (posix_spawn(&child, "/proc/self/exe", nullptr, nullptr,
                    const_cast<char**>(arguments), environment.data()) != 0)
      child = -1;
    close(ends[1]);
    *started = ends[0];
    return child;
  }
  // Trains to the end.
  static void TrainTo(const std::string& folder, int64_t last_step) {
    int started = -1, status = 0;
    const pid_t child = StartProcess(folder, last_step, &started);
    ASSERT_GT(child, 0);
    ASSERT_EQ(waitpid(child, &status, 0), child);
    close(started);
    ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
  static int64_t SavedStep(const std::string& folder) {
    // (By its name: the process may run, and delete what is read.)
    const auto state = ReadCheckpointState(folder);
    if (!state.ok()) return 0;
    return std::atoll(
        state->latest.substr(state->latest.rfind('-') + 1).c_str());
  }
};

TEST_P(TrainingKillsTest, ARunKilledAtAnyInstantEndsWithTheSameWeights) {
  constexpr uint64_t kSeed = 22;
  const int kills = (kSanitized ? 10 : 50) / (GetParam() ? 2 : 1);
  std::mt19937_64 random(kSeed);
  const std::string killed = Path("killed"), whole = Path("whole");
  int lives_that_saved = 0;
  for (int kill_number = 0; kill_number < kills; ++kill_number) {
    const int64_t before = SavedStep(killed);
    int started = -1;
    const pid_t child = StartProcess(killed, int64_t{1} << 40, &started);
    ASSERT_GT(child, 0);
    // Most in the midst of steps and saves; some as it starts; some not before
    // there is a new checkpoint.
    char byte = 0;
    if (kill_number % 5 != 4) {
      ASSERT_EQ(read(started, &byte, 1), 1);
    }
    for (int i = 0; kill_number % 5 == 0 && i < 2000; ++i) {
      if (SavedStep(killed) > before) break;
      usleep(10'000);
    }
    usleep(static_cast<useconds_t>(random() % 80'000));
    kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    close(started);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
        << "status " << status << ", seed " << kSeed << ", kill "
        << kill_number;
    lives_that_saved += SavedStep(killed) > before ? 1 : 0;
  }
  EXPECT_GE(lives_that_saved, kills / 5) << "seed " << kSeed;
  const int64_t last = SavedStep(killed) + 50;
  TrainTo(killed, last);
  TrainTo(whole, last);
  const std::string saved = absl::StrCat("/model.ckpt-", last);
  const auto a = CheckpointReader::Open(killed + saved);
  const auto b = CheckpointReader::Open(whole + saved);
  ASSERT_TRUE(a.ok() && b.ok()) << a.status() << b.status();
  ASSERT_EQ(a->tensors().size(), b->tensors().size());
  ASSERT_GE(a->tensors().size(), 15u);  // Weights, slots, powers, step.
  for (const auto& [name, unused] : a->tensors()) {
    // (How many epochs have ended: the pipeline is ahead of the training.)
    if (name == "input/epochs") continue;
    const auto x = a->Read(name), y = b->Read(name);
    ASSERT_TRUE(x.ok() && y.ok()) << x.status() << y.status();
    ASSERT_EQ(x->bytes(), y->bytes());
    EXPECT_EQ(std::memcmp(x->raw<char>(), y->raw<char>(), x->bytes()), 0)
        << name << ", seed " << kSeed << ", step " << last;
  }
}

INSTANTIATE_TEST_SUITE_P(Data, TrainingKillsTest, ::testing::Bool(),
                         [](const auto& p) {
                           return p.param ? "OfAPipeline" : "OfTheClient";
                         });

}  // namespace
}  // namespace sluice
