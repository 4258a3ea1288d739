// Training runs that lose their tasks: processes are killed in the midst of
// steps and saves and started again, and the run goes on by itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/sanitizers.h"
#include "checkpoint/checkpoint_reader.h"
#include "cluster/testing/process_test_util.h"
#include "sluice/sluice.h"

namespace sluice {
namespace {

using std::chrono::milliseconds;
using ::testing::Contains;
using ::testing::HasSubstr;

constexpr int64_t kBatchRows = 16, kInputs = 8, kHidden = 32;

// The batch of a step, from its number alone.
std::pair<Tensor, Tensor> BatchOfStep(int64_t step) {
  std::mt19937_64 random(static_cast<uint64_t>(step));
  std::uniform_real_distribution<float> values(-1, 1);
  Tensor x(DType::kFloat, Shape({kBatchRows, kInputs}));
  Tensor y(DType::kFloat, Shape({kBatchRows, 1}));
  for (float& v : x.flat<float>()) v = values(random);
  for (float& v : y.flat<float>()) v = values(random);
  return {x, y};
}

// A perceptron whose variables and slots are the ps's and whose products are
// the worker's, in a folder that is removed.
class TrainingLossesTest : public ::testing::Test {
 protected:
  TrainingLossesTest()
      : folder_(std::filesystem::temp_directory_path() /
                ("sluice_losses_" + std::to_string(getpid()))),
        cluster_({"ps", "worker"}) {
    std::filesystem::create_directories(folder_);
    for (const char* role : {"ps", "worker"}) Spawn(role);
  }
  ~TrainingLossesTest() override { std::filesystem::remove_all(folder_); }

  // Trains to the end in the folder `name`. `at_step` is called before each try
  // of a step, with its number.
  void TrainIn(const std::string& name, int64_t last_step, bool sharded,
               const std::function<void(int64_t)>& at_step) {
    Graph graph;
    const WithGraph use(graph);
    SetRandomSeed(7);
    Var step, w1, w2;
    {
      const DeviceScope on("/job:ps/task:0");
      step = Var(Constant(Tensor::Scalar<int64_t>(0)), "global_step",
                 {.trainable = false});
      w1 = Var(RandomNormal({kInputs, kHidden}), "w1");
      w2 = Var(RandomNormal({kHidden, 1}), "w2");
    }
    const DeviceScope on("/job:worker/task:0");
    const Output x = Placeholder<float>({kBatchRows, kInputs});
    const Output y = Placeholder<float>({kBatchRows, 1});
    const Output error = ops::MatMul(ops::Tanh(ops::MatMul(x, w1)), w2) - y;
    AdamOptimizer optimizer(0.01f);
    Node* const train = optimizer.Minimize(ops::Mean(error * error, {0, 1}),
                                           {.global_step = step});
    TrainingOptions options;
    options.folder = (folder_ / name).string();
    options.last_step = last_step;
    options.target = cluster_.target("worker");
    options.save = {.steps = 5};
    options.saver_options = {.sharded = sharded};
    options.retry_seconds = 0.1;
    options.max_retries = 50;
    options.max_wait_seconds = 120;
    options.log = [this](const std::string& line) { lines_.push_back(line); };
    auto training = TrainingSession::Start(options);
    ASSERT_TRUE(training.ok()) << training.status();
    const Status s =
        (*training)->Train({train}, [&](int64_t number) -> Result<Feeds> {
          at_step(number);
          const auto [features, labels] = BatchOfStep(number);
          return Feeds{{x, features}, {y, labels}};
        });
    EXPECT_TRUE(s.ok()) << s;
    EXPECT_EQ((*training)->step(), last_step);
  }

  // Both runs end with the same weights, slots and step, bit for bit.
  void ExpectSameEnd(const std::string& a, const std::string& b,
                     int64_t last_step) const {
    const std::string saved = absl::StrCat("model.ckpt-", last_step);
    const auto left = CheckpointReader::Open((folder_ / a / saved).string());
    const auto right = CheckpointReader::Open((folder_ / b / saved).string());
    ASSERT_TRUE(left.ok() && right.ok()) << left.status() << right.status();
    ASSERT_EQ(left->tensors().size(), right->tensors().size());
    ASSERT_GE(left->tensors().size(), 9u);  // Weights, slots, powers, step.
    for (const auto& [name, unused] : left->tensors()) {
      const auto x = left->Read(name), y = right->Read(name);
      ASSERT_TRUE(x.ok() && y.ok()) << x.status() << y.status();
      ASSERT_EQ(x->bytes(), y->bytes());
      EXPECT_EQ(std::memcmp(x->raw<char>(), y->raw<char>(), x->bytes()), 0)
          << name;
    }
  }

  void Restart(const std::string& role, milliseconds pause) {
    cluster_.Signal(role, SIGKILL);
    std::this_thread::sleep_for(pause);
    Spawn(role);
  }
  // (Saving needs access to the task's files.)
  void Spawn(const std::string& role) {
    cluster_.Spawn(role, "", {"SLUICE_TEST_HOST_ACCESS=1"});
  }

  const std::filesystem::path folder_;
  ProcessCluster cluster_;
  std::vector<std::string> lines_;
};

// Each task is lost once, between two steps: the one with the variables, and
// the one through which the client runs its steps.
TEST_F(TrainingLossesTest, ATaskThatIsLostBetweenStepsCostsTheStepsSinceASave) {
  constexpr int64_t kSteps = 30;
  for (const bool sharded : {false, true}) {
    SCOPED_TRACE(sharded ? "sharded" : "in one file");
    const std::string kind = sharded ? "sharded" : "single";
    TrainIn(kind + "_whole", kSteps, sharded, [](int64_t) {});
    lines_.clear();
    std::vector<std::pair<int64_t, std::string>> losses = {{17, "worker"},
                                                           {8, "ps"}};
    std::vector<int64_t> tried;
    TrainIn(kind + "_lossy", kSteps, sharded, [&](int64_t step) {
      tried.push_back(step);
      if (losses.empty() || losses.back().first != step) return;
      const std::string role = losses.back().second;
      losses.pop_back();
      Restart(role, milliseconds(0));
    });
    EXPECT_TRUE(losses.empty());
    for (const char* from : {"model.ckpt-5", "model.ckpt-15"})
      EXPECT_THAT(lines_, Contains(HasSubstr(from))) << from;
    EXPECT_THAT(lines_, Contains(HasSubstr("run again in a new session")));
    // Nothing began anew.
    EXPECT_EQ(std::count(tried.begin(), tried.end(), 0), 1);
    ExpectSameEnd(kind + "_whole", kind + "_lossy", kSteps);
  }
}

// Tasks are killed at seeded instants, in the midst of steps, saves, restores
// and each other's starts, and stay away for a while.
TEST_F(TrainingLossesTest, TasksThatAreLostAtAnyInstantCostNoUpdate) {
  constexpr uint64_t kSeed = 5;
  SCOPED_TRACE(absl::StrCat("seed ", kSeed));
  constexpr int64_t kSteps = 200;
  constexpr int kLosses = kSanitized ? 3 : 8;
  TrainIn("whole", kSteps, /*sharded=*/false, [](int64_t) {});
  lines_.clear();
  std::atomic<int64_t> furthest{0};
  std::atomic<bool> ended{false};
  std::atomic<int> losses{0};
  // (Processes end with the thread that started them: the training has the
  // other one.)
  std::thread training([&] {
    TrainIn("lossy", kSteps, /*sharded=*/false, [&](int64_t step) {
      furthest = std::max<int64_t>(furthest, step);
      std::this_thread::sleep_for(milliseconds(2));
    });
    ended = true;
  });
  std::mt19937_64 random(kSeed);
  for (int i = 0; i < kLosses; ++i) {
    // Each after some progress, but for those that follow at once.
    const int64_t next =
        i % 3 == 2 ? furthest.load() : kSteps * (i + 1) / (kLosses + 2);
    while (furthest < next && !ended)
      std::this_thread::sleep_for(milliseconds(1));
    std::this_thread::sleep_for(milliseconds(random() % 30));
    if (ended) break;
    ++losses;
    Restart(random() % 2 == 0 ? "ps" : "worker",
            milliseconds(random() % 3 * 400));
  }
  training.join();
  EXPECT_EQ(losses, kLosses);
  EXPECT_THAT(lines_, Contains(HasSubstr("run again in a new session")));
  ExpectSameEnd("whole", "lossy", kSteps);
  if (HasFailure())
    for (const std::string& line : lines_) ADD_FAILURE() << line;
}

}  // namespace
}  // namespace sluice
