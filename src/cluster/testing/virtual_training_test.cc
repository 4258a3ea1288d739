// Three hundred seeded runs of small training jobs on a network that delays,
// reorders, drops and duplicates messages, while tasks are restarted, killed,
// suspended or cut off, and failpoints trigger in the transport, the master,
// the workers and checkpoints. Each job ends with the variables of one that
// nothing disturbs, bit for bit; a step that fails says why; none hangs, and
// none leaves anything behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <future>
#include <random>
#include <thread>

#include "base/failpoint.h"
#include "base/thread_count_test_util.h"
#include "checkpoint/checkpoint_reader.h"
#include "cluster/testing/child_process_test_util.h"
#include "cluster/testing/cluster_test_util.h"
#include "cluster/testing/test_scale_test_util.h"
#include "cluster/testing/virtual_network.h"
#include "sluice/sluice.h"

namespace sluice {
namespace {

using std::chrono::milliseconds;
using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr int kTasks = 3;
constexpr int64_t kBatch = 6, kWidth = 5, kLastStep = 9;
// A step that takes so long waits for something that never comes.
constexpr int64_t kForeverMs = 60'000;

// What ends in the variables of the job that nothing disturbs.
using Weights = std::map<std::string, std::vector<char>>;

std::vector<char> BytesOf(const Tensor& t) {
  const char* const from = t.raw<char>();
  return {from, from + t.bytes()};
}

// Two layers with slots for the optimizer, in the ambient graph. Their
// variables are on `state`.
struct SmallModel {
  SmallModel(const std::string& state, uint64_t seed) {
    SetRandomSeed(static_cast<int64_t>(seed));
    {
      const DeviceScope on(state);
      step = Var(Constant(Tensor::Scalar<int64_t>(0)), "global_step",
                 {.trainable = false});
      w1 = Var(RandomUniform({kWidth, kWidth}, -1, 1), "w1");
      w2 = Var(RandomUniform({kWidth, 1}, -1, 1), "w2");
    }
    x = Placeholder<float>({kBatch, kWidth}, "x");
    y = Placeholder<float>({kBatch, 1}, "y");
    const Output error = ops::MatMul(ops::Tanh(ops::MatMul(x, w1)), w2) - y;
    loss = ops::Mean(error * error, {0, 1});
  }
  // The batch of a member in a step, from these numbers alone.
  Feeds BatchOf(int64_t number, uint64_t member) const {
    std::mt19937_64 random(static_cast<uint64_t>(number) * 17 + member);
    std::uniform_real_distribution<float> values(-1, 1);
    Tensor features(DType::kFloat, Shape({kBatch, kWidth}));
    Tensor labels(DType::kFloat, Shape({kBatch, 1}));
    for (float& v : features.flat<float>()) v = values(random);
    for (float& v : labels.flat<float>()) v = values(random);
    return {{x, features}, {y, labels}};
  }
  Var step, w1, w2;
  Output x, y, loss;
};

enum class Trouble {
  kNone,
  kFailpoint,
  kFailpoints,  // Several, each now and then.
  kPause,       // Until after the task counts as lost.
  kCut,         // Two tasks lose contact for a while.
  kRestart,
  kKill,  // It ends without a word and is started again later.
};
constexpr int kNumTroubles = 7;

constexpr const char* kFailing[] = {
    "transport.connect",       "rendezvous.send",
    "rendezvous.recv",         "worker.create_session",
    "worker.register_step",    "worker.start_step",
    "worker.deliver",          "worker.end_step",
    "master.create_session",   "master.extend_graph",
    "master.prepare_step",     "master.run_step",
    "master.start_part",       "master.done",
    "checkpoint.write",        "checkpoint.flush",
    "checkpoint.flush_folder", "checkpoint.rename"};
constexpr const char* kLate[] = {"transport.lost", "master.step_known"};

// A job among three tasks, and what happens to it.
class TroubledJob {
 public:
  TroubledJob(uint64_t seed, Trouble trouble)
      : random_(seed), seed_(seed), trouble_(trouble) {
    VirtualNetworkOptions options;
    options.seed = seed;
    options.max_delay_us = 100 + Below(2000);
    if (Below(2) == 0) options.drop = 0.1 * Below(3);
    if (Below(2) == 0) options.duplicate = 0.1 * Below(3);
    options.reorder = Below(5) != 0;
    network_ = std::make_unique<VirtualNetwork>(options);
    cluster_ = std::make_unique<TestCluster>(
        std::vector<std::pair<std::string, int>>{{"w", kTasks}},
        [this](TransportOptions o) { return network_->Join(std::move(o)); });
    for (int t = 0; t < kTasks; ++t) {
      tasks_.push_back(absl::StrCat("/job:w/replica:0/task:", t));
      targets_.push_back(cluster_->target("w", t));
    }
    victim_ = Below(kTasks);
    at_step_ = 1 + Below(kLastStep - 1);
    folder_ = std::filesystem::temp_directory_path() /
              absl::StrCat("sluice_trouble_", getpid(), "_", seed);
    std::filesystem::create_directories(folder_);
  }
  virtual ~TroubledJob() { std::filesystem::remove_all(folder_); }

  // Its variables at its end.
  Weights Run() {
    std::atomic<bool> stop{false};
    std::thread pump([&] {
      while (!stop)
        if (!network_->Step()) network_->AwaitEvent(milliseconds(1));
    });
    if (trouble_ == Trouble::kFailpoint || trouble_ == Trouble::kFailpoints)
      EnableSome();
    std::thread operator_thread([&] { MakeTrouble(); });
    auto job = std::async(std::launch::async, [this] { return Work(); });
    if (job.wait_for(std::chrono::minutes(4)) != std::future_status::ready) {
      ADD_FAILURE() << "it hangs\n" << log();
      over_ = true;
      DisableFailpoints();
      for (int t = 0; t < kTasks; ++t) cluster_->StopTask("w", t);
    }
    const Weights weights = job.get();
    over_ = true;
    operator_thread.join();
    DisableFailpoints();
    EXPECT_TRUE(cluster_->Quiet()) << log();
    cluster_.reset();
    stop = true;
    pump.join();
    network_.reset();
    return weights;
  }
  bool failed() const { return failures_ > 0; }
  std::string log() {
    std::lock_guard<std::mutex> lock(mu_);
    return absl::StrCat("trouble ", static_cast<int>(trouble_), " of task ",
                        victim_, " at step ", at_step_, " ", failpoints_, "\n",
                        log_);
  }

 protected:
  // Tries until the job is done.
  virtual Weights Work() = 0;

  int Below(int64_t n) {
    return static_cast<int>(random_() % static_cast<uint64_t>(n));
  }
  void Log(const std::string& line) {
    std::lock_guard<std::mutex> lock(mu_);
    absl::StrAppend(&log_, line, "\n");
  }
  // The job is about to try a step.
  void AtStep(int64_t step) {
    int64_t at = furthest_;
    while (at < step && !furthest_.compare_exchange_weak(at, step)) {
    }
  }
  // Something of it has failed.
  void Note(const Status& s) {
    Log(absl::StrCat("failed: ", s.ToString()));
    EXPECT_NE(s.code(), StatusCode::kDeadlineExceeded) << log();
    EXPECT_THAT(std::string(s.message()),
                AnyOf(HasSubstr("/job:w"), HasSubstr("injected"),
                      HasSubstr("inproc://")))
        << log();
    // The trouble ends at last.
    if (++failures_ > 30) DisableFailpoints();
  }

  const std::string& task(int t) const {
    return tasks_[static_cast<size_t>(t)];
  }
  const std::string& target(int t) const {
    return targets_[static_cast<size_t>(t)];
  }
  const std::filesystem::path& folder() const { return folder_; }

 private:
  void EnableSome() {
    const int n = trouble_ == Trouble::kFailpoint ? 1 : 3;
    for (int i = 0; i < n; ++i) {
      const auto [name, action] =
          Below(8) == 0
              ? std::pair(kLate[Below(std::size(kLate))],
                          absl::StrCat("delay(", 1 + Below(20), ")*20"))
              : std::pair(kFailing[Below(std::size(kFailing))],
                          absl::StrCat("error(injected)@", Below(30), "*",
                                       1 + Below(3)));
      absl::StrAppend(&failpoints_, i == 0 ? "" : "; ", name, "=", action,
                      n == 1 ? "" : "%30");
    }
    const Status s = EnableFailpoints(failpoints_, seed_);
    EXPECT_TRUE(s.ok()) << s;
  }
  // On a thread of its own, since the job may be in the midst of a step.
  void MakeTrouble() {
    const int64_t pause_us = Below(4000);
    const int other = (victim_ + 1 + Below(kTasks - 1)) % kTasks;
    const int64_t away_ms = Below(3) * 20;
    while (furthest_ < at_step_ && !over_)
      std::this_thread::sleep_for(milliseconds(1));
    if (over_) return;
    std::this_thread::sleep_for(std::chrono::microseconds(pause_us));
    switch (trouble_) {
      case Trouble::kPause:
        network_->Pause(task(victim_));
        std::this_thread::sleep_for(milliseconds(1 + away_ms));
        return network_->Resume(task(victim_));
      case Trouble::kCut:
        network_->Cut(task(victim_), task(other));
        std::this_thread::sleep_for(milliseconds(1 + away_ms));
        return network_->Heal(task(victim_), task(other));
      case Trouble::kKill:
        network_->Kill(task(victim_));
        std::this_thread::sleep_for(milliseconds(away_ms));
        [[fallthrough]];
      case Trouble::kRestart:
        cluster_->StopTask("w", victim_);
        return cluster_->StartTask("w", victim_);
      default:
        return;
    }
  }

  std::mt19937_64 random_;
  const uint64_t seed_;
  const Trouble trouble_;
  std::unique_ptr<VirtualNetwork> network_;
  std::unique_ptr<TestCluster> cluster_;
  std::vector<std::string> tasks_, targets_;
  int victim_ = 0;
  int64_t at_step_ = 0;
  std::string failpoints_;
  std::filesystem::path folder_;
  std::atomic<int64_t> furthest_{-1};
  std::atomic<int> failures_{0};
  std::atomic<bool> over_{false};
  std::mutex mu_;
  std::string log_;  // GUARDED_BY(mu_)
};

// One client, whose session is at task 0, with variables on task 1 and products
// on task 2. It saves, and goes on with what was saved.
class JobWithServer final : public TroubledJob {
 public:
  using TroubledJob::TroubledJob;

 private:
  Weights Work() override {
    while (true) {
      const Status s = Train();
      if (s.ok()) break;
      Note(s);
      if (::testing::Test::HasFailure()) return {};
    }
    const auto saved = CheckpointReader::Open(
        (folder() / absl::StrCat("model.ckpt-", kLastStep)).string());
    EXPECT_TRUE(saved.ok()) << saved.status() << log();
    if (!saved.ok()) return {};
    Weights weights;
    for (const auto& [name, unused] : saved->tensors()) {
      const auto value = saved->Read(name);
      EXPECT_TRUE(value.ok()) << value.status();
      if (value.ok()) weights[name] = BytesOf(*value);
    }
    return weights;
  }
  // As the program of a user that is started again when it has failed.
  Status Train() {
    Graph graph;
    const WithGraph use(graph);
    const DeviceScope on(task(2));
    const SmallModel model(task(1), 5);
    AdamOptimizer adam(0.01f);
    Node* const train = adam.Minimize(model.loss, {.global_step = model.step});
    TrainingOptions options;
    options.folder = folder().string();
    options.last_step = kLastStep;
    options.target = target(0);
    options.save = {.steps = 3};
    options.retry_seconds = 0.002;
    options.max_retries = 10;
    options.max_wait_seconds = 100;
    options.log = [this](const std::string& line) { Log(line); };
    SLUICE_ASSIGN_OR_RETURN(const auto training,
                            TrainingSession::Start(options));
    return training->Train({train}, [&](int64_t step) -> Result<Feeds> {
      AtStep(step);
      return model.BatchOf(step, 0);
    });
  }
};

// Three clients, each with a session and a copy of the variables at its task,
// which apply the mean of their gradients. The first one's copy is kept after
// each step.
class JobOfCopies final : public TroubledJob {
 public:
  using TroubledJob::TroubledJob;

 private:
  // What a client has, but for its session.
  struct Copy {
    Copy(const std::string& device, int number)
        : use(graph),
          on(device),
          model(device, number == 0 ? 5 : 100 + number),
          momentum(0.05, 0.9),
          mean(momentum, {.group = {.size = kTasks}, .bucket_bytes = 64}) {
      train = mean.Minimize(model.loss, {.global_step = model.step});
      same = mean.BroadcastVariables(number == 0);
      init = GlobalVariablesInitializer();
      std::vector<Node*> assigns;
      for (const Var& v : GlobalVariables()) {
        values.push_back(v.Read());
        names.push_back(v.name());
        given.push_back(Build("Placeholder", {}, {{"dtype", v.dtype()}}));
        assigns.push_back(v.Assign(given.back()));
      }
      restore = Group(assigns);
      step = model.step.Read();
    }
    Graph graph;
    WithGraph use;
    DeviceScope on;
    SmallModel model;
    MomentumOptimizer momentum;
    AllReduceOptimizer mean;
    Node *train, *same, *init, *restore;
    std::vector<Output> values, given;
    Output step;
    std::vector<std::string> names;
  };

  Weights Work() override {
    std::vector<std::thread> clients;
    for (int i = 0; i < kTasks; ++i)
      clients.emplace_back([this, i] { Supervise(i); });
    for (std::thread& t : clients) t.join();
    Weights weights;
    for (size_t i = 0; i < kept_.size(); ++i)
      weights[names_[i]] = BytesOf(kept_[i]);
    return weights;
  }
  // Runs a client until all have come to the end. (One that has, takes part
  // again if another begins anew: that one needs the values.)
  void Supervise(int number) {
    while (!::testing::Test::HasFailure()) {
      int known = 0;
      const Status s =
          Client(number, number == 0 ? kept_ : std::vector<Tensor>(), &known);
      if (s.ok()) {
        ++ended_;
        while (ended_ < kTasks && anew_ == known &&
               !::testing::Test::HasFailure())
          std::this_thread::sleep_for(milliseconds(1));
        if (ended_ == kTasks) return;
        --ended_;
      } else {
        Note(s);
      }
      ++anew_;
    }
  }
  // Trains from these values, or from initial ones, to the end or an error.
  // `known`: those who have begun anew before its last step, with the sessions
  // that take part in it.
  Status Client(int number, const std::vector<Tensor>& from, int* known) {
    Copy copy(task(number), number);
    SLUICE_RETURN_IF_ERROR(copy.graph.status());
    RunOptions bound;
    bound.timeout_ms = kForeverMs;
    // (Its end tells the others that it makes no more calls.)
    Session session(target(number), copy.graph);
    const auto run = [&](const Feeds& feeds, Node* node) {
      return session.Run(feeds, {}, {node}, bound).status();
    };
    Feeds values;
    if (number == 0)
      for (size_t i = 0; i < from.size(); ++i)
        values.push_back({copy.given[i], from[i]});
    SLUICE_RETURN_IF_ERROR(values.empty() ? run({}, copy.init)
                                          : run(values, copy.restore));
    SLUICE_RETURN_IF_ERROR(run({}, copy.same));
    SLUICE_ASSIGN_OR_RETURN(std::vector<Tensor> now,
                            session.Run({}, {copy.step}, {}, bound));
    for (int64_t step = now[0].scalar<int64_t>(); step < kLastStep; ++step) {
      AtStep(step);
      SLUICE_RETURN_IF_ERROR(run(
          copy.model.BatchOf(step, static_cast<uint64_t>(number)), copy.train));
      if (number != 0) continue;
      SLUICE_ASSIGN_OR_RETURN(now, session.Run({}, copy.values, {}, bound));
      kept_ = now;
      names_ = copy.names;
    }
    *known = anew_;
    return run({}, copy.same);
  }

  // Used by the first client, and after all have ended.
  std::vector<Tensor> kept_;
  std::vector<std::string> names_;
  std::atomic<int> anew_{0};  // Times that a client has begun again.
  std::atomic<int> ended_{0};
};

std::unique_ptr<TroubledJob> JobOf(uint64_t seed, Trouble trouble) {
  if (seed % 2 == 0) return std::make_unique<JobWithServer>(seed, trouble);
  return std::make_unique<JobOfCopies>(seed, trouble);
}

TEST(VirtualTrainingTest, JobsInTroubleEndInTheRightWeights) {
  const Weights want[] = {JobOf(0, Trouble::kNone)->Run(),
                          JobOf(1, Trouble::kNone)->Run()};
  for (const Weights& w : want) ASSERT_GE(w.size(), 5u);
  const uint64_t runs = FullTests() ? 300 : kSanitized ? 2 * kNumTroubles : 60;
  size_t threads = 0;
  uint64_t failed = 0;
  for (uint64_t seed = 2; seed < runs + 2; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    const int64_t live = Allocator::Cpu()->stats().live_bytes;
    {
      const auto job =
          JobOf(seed, static_cast<Trouble>(seed / 2 % kNumTroubles));
      const Weights got = job->Run();
      EXPECT_TRUE(got == want[seed % 2]) << job->log();
      failed += job->failed();
    }
    // (`live` may still count the last state of the run before this one.)
    EXPECT_TRUE(BecomesTrue(
        [&] { return Allocator::Cpu()->stats().live_bytes <= live; }));
    if (threads == 0) threads = NumThreads();
    EXPECT_TRUE(BecomesTrue([&] { return NumThreads() <= threads; }))
        << NumThreads() << " threads, were " << threads;
    if (::testing::Test::HasFailure()) break;
  }
  EXPECT_GT(failed, runs / 10);
}

}  // namespace
}  // namespace sluice
