// sluice demo-cluster: trains the classifier of Figure 1 (OSDI'16) with its
// parameters on ps tasks and steps by all workers, asynchronous or synchronous,
// as a client of a running cluster (scripts/demo-cluster starts one).
#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <thread>

#include "client/device_placement.h"
#include "io/file.h"
#include "sluice/sluice.h"
#include "tools/sluice/cli.h"
#include "tools/sluice/demo_data.h"

namespace sluice::cli {
namespace {

using demo::ImageSet;
using demo::kClasses;
using demo::kPixels;

constexpr int kBatch = 100;

struct Args {
  std::vector<std::string> workers;
  int ps = 2, steps = 1000;
  std::string data = demo::kFashionMnistDir, trace = "demo-cluster-trace.json";
  bool sync = false;
  int backups = 1;     // With sync.
  std::string folder;  // With sync: of the checkpoints.
};

// One worker's graph. The variables are placed on the ps tasks in round-robin
// order, and so have the same names and places in all workers' graphs.
struct Network {
  Output images, labels, loss, accuracy;
  Node* train = nullptr;  // Null: the caller trains.
  Node* initialize = nullptr;
};

DeviceFunction DevicesOf(int worker, int ps) {
  return ReplicaDeviceSetter(
      {.ps_tasks = ps,
       .worker_device = absl::StrCat("/job:worker/task:", worker)});
}

Network Build(int worker, int ps, bool trains = true) {
  const DeviceFunctionScope devices(DevicesOf(worker, ps));
  Network n;
  n.images = Placeholder<float>({-1, kPixels}, "images");
  n.labels = Placeholder<int32_t>({-1}, "labels");
  const Var w1 = GetVariable("w1", {kPixels, 100}, init::GlorotUniform());
  const Var w2 = GetVariable("w2", {100, kClasses}, init::GlorotUniform());
  const Var b1 = GetVariable("b1", {100}, init::Zeros());
  const Var b2 = GetVariable("b2", {kClasses}, init::Zeros());
  const Output hidden = ops::Relu(ops::MatMul(n.images, w1) + b1);
  const Output logits = ops::MatMul(hidden, w2) + b2;
  const Output wanted = ops::OneHot(n.labels, kClasses, 1.0f, 0.0f);
  n.loss =
      ops::Mean(ops::SoftmaxCrossEntropyWithLogits(logits, wanted).loss, 0);
  const Output guess = ops::ArgMax(logits, 1, {.output_type = DType::kInt32});
  n.accuracy =
      ops::Mean(ops::Cast(ops::Equal(guess, n.labels), DType::kFloat), 0);
  if (trains) {
    n.train = GradientDescentOptimizer(0.1).Minimize(n.loss);
    n.initialize = GlobalVariablesInitializer();
  }
  return n;
}

Feeds Batch(const Network& n, const ImageSet& set, std::mt19937* random,
            int64_t count) {
  Tensor images(DType::kFloat, Shape({count, kPixels}));
  Tensor labels(DType::kInt32, Shape({count}));
  std::uniform_int_distribution<int64_t> any(0, set.count() - 1);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t k = any(*random);
    labels.data<int32_t>()[i] = set.labels[static_cast<size_t>(k)];
    for (int p = 0; p < kPixels; ++p)
      images.data<float>()[i * kPixels + p] =
          static_cast<float>(set.image(k)[p]) / 255.0f;
  }
  return {{n.images, images}, {n.labels, labels}};
}

// Runs one worker's steps; returns its steps per second.
Result<double> Train(const Args& a, const demo::ImageData& data, int worker) {
  Graph graph;
  const WithGraph use(graph);
  const Network n = Build(worker, a.ps);
  Session session(a.workers[static_cast<size_t>(worker)], graph);
  std::mt19937 random(static_cast<unsigned>(worker + 1));
  const auto start = std::chrono::steady_clock::now();
  for (int step = 1; step <= a.steps; ++step) {
    SLUICE_ASSIGN_OR_RETURN(const std::vector<Tensor> out,
                            session.Run(Batch(n, data.train, &random, kBatch),
                                        {n.loss}, {n.train}));
    if (step % std::max(1, a.steps / 5) == 0)
      std::printf("worker %d, step %d: loss %.3f\n", worker, step,
                  static_cast<double>(out[0].scalar<float>()));
  }
  const std::chrono::duration<double> took =
      std::chrono::steady_clock::now() - start;
  return a.steps / took.count();
}

// Runs one worker of a synchronous run to the end, through losses of tasks.
// `accuracy`: for the chief.
Status TrainInSync(const Args& a, const demo::ImageData& data, int worker,
                   double* accuracy) {
  Graph graph;
  const WithGraph use(graph);
  const Network n = Build(worker, a.ps, /*trains=*/false);
  const DeviceFunctionScope devices(DevicesOf(worker, a.ps));
  VarOptions counter;
  counter.trainable = false;
  const Var step(Constant(Tensor::Scalar<int64_t>(0)), "global_step", counter);
  GradientDescentOptimizer sgd(0.1);
  const int workers = static_cast<int>(a.workers.size());
  SyncReplicas replicas(
      sgd,
      {.replicas = workers, .to_aggregate = std::max(1, workers - a.backups)});
  Node* const train = replicas.Minimize(n.loss, {.global_step = step});

  TrainingOptions options;
  options.target = a.workers[static_cast<size_t>(worker)];
  options.session_options.device_filters = {
      "/job:ps", absl::StrCat("/job:worker/task:", worker)};
  options.is_chief = worker == 0;
  options.last_step = a.steps;
  options.max_retries = 1000;
  options.hooks = {replicas.Hook(options.is_chief)};
  options.log = [worker](const std::string& line) {
    std::printf("worker %d: %s\n", worker, line.c_str());
    std::fflush(stdout);
  };
  if (options.is_chief) {
    options.folder = a.folder;
    options.save = {.steps = std::max(1, a.steps / 20)};
    options.log_tensors = {{"loss", n.loss}};
    options.log_every = {.steps = std::max(1, a.steps / 10)};
  }
  SLUICE_ASSIGN_OR_RETURN(auto training,
                          TrainingSession::Start(options, graph));
  std::mt19937 random(static_cast<unsigned>(worker + 1));
  while (!training->ShouldStop())
    if (!training->RunStep({train}, Batch(n, data.train, &random, kBatch)).ok())
      break;
  if (options.is_chief && training->step() >= a.steps) {
    SLUICE_ASSIGN_OR_RETURN(Session* const session, training->session());
    const int64_t tested = std::min<int64_t>(data.test.count(), 2000);
    SLUICE_ASSIGN_OR_RETURN(
        const Tensor right,
        session->Run(Batch(n, data.test, &random, tested), n.accuracy));
    *accuracy = static_cast<double>(right.scalar<float>());
  }
  return training->Close();
}

int RunInSync(const Args& a, const demo::ImageData& data) {
  std::vector<Status> status(a.workers.size());
  double accuracy = 0;
  std::vector<std::thread> clients;
  const auto start = std::chrono::steady_clock::now();
  for (size_t w = 0; w < a.workers.size(); ++w)
    clients.emplace_back([&, w] {
      status[w] = TrainInSync(a, data, static_cast<int>(w), &accuracy);
      if (status[w].ok()) return;
      // (The others would wait for this one.)
      std::_Exit(Fail(kRunFailed, status[w]));
    });
  for (std::thread& t : clients) t.join();
  const std::chrono::duration<double> took =
      std::chrono::steady_clock::now() - start;
  std::printf("%d updates in %.1f s; accuracy on %s's test images: %.3f\n",
              a.steps, took.count(), data.name.c_str(), accuracy);
  return 0;
}

// Traces one step in which all workers train at once, so that all tasks take
// part.
Status Trace(const Args& a, const demo::ImageData& data) {
  Graph graph;
  const WithGraph use(graph);
  std::mt19937 random(1);
  Feeds feeds;
  std::vector<Output> losses;
  std::vector<Node*> training;
  for (size_t w = 0; w < a.workers.size(); ++w) {
    const Network n = Build(static_cast<int>(w), a.ps);
    for (auto& feed : Batch(n, data.train, &random, kBatch))
      feeds.push_back(std::move(feed));
    losses.push_back(n.loss);
    training.push_back(n.train);
  }
  Session session(a.workers[0], graph);
  RunOptions traced;
  traced.trace = true;
  RunMetadata metadata;
  for (int i = 0; i < 2; ++i)  // (The first one waits for connections.)
    SLUICE_RETURN_IF_ERROR(
        session.Run(feeds, losses, training, traced, &metadata).status());
  return WriteFile(a.trace, metadata.ChromeTrace());
}

int RunDemo(const Args& a) {
  Result<demo::ImageData> data = demo::LoadFashionMnist(a.data);
  if (!data.ok()) {
    std::printf("%s; using synthetic images instead\n",
                std::string(data.status().message()).c_str());
    data = demo::MakeImages(1);
  }
  if (a.sync) return RunInSync(a, *data);
  Graph graph;
  const WithGraph use(graph);
  const Network n = Build(0, a.ps);
  Session session(a.workers[0], graph);
  if (const Status s = session.RunTargets({n.initialize}); !s.ok())
    return Fail(kRunFailed, s);
  std::vector<Result<double>> rates(a.workers.size(), 0.0);
  std::vector<std::thread> clients;
  for (size_t w = 0; w < a.workers.size(); ++w)
    clients.emplace_back(
        [&, w] { rates[w] = Train(a, *data, static_cast<int>(w)); });
  for (std::thread& t : clients) t.join();
  for (size_t w = 0; w < rates.size(); ++w) {
    if (!rates[w].ok()) return Fail(kRunFailed, rates[w].status());
    std::printf("worker %zu: %.1f steps/s\n", w, *rates[w]);
  }
  std::mt19937 random(7);
  const int64_t tested = std::min<int64_t>(data->test.count(), 2000);
  const auto accuracy =
      session.Run(Batch(n, data->test, &random, tested), n.accuracy);
  if (!accuracy.ok()) return Fail(kRunFailed, accuracy.status());
  std::printf("accuracy on %s's test images: %.3f\n", data->name.c_str(),
              static_cast<double>(accuracy->scalar<float>()));
  if (const Status s = Trace(a, *data); !s.ok()) return Fail(kRunFailed, s);
  std::printf("trace of a step of all workers: %s\n", a.trace.c_str());
  return 0;
}

}  // namespace

void AddClusterDemo(CLI::App& app, std::function<int()>* run) {
  auto a = std::make_shared<Args>();
  CLI::App* sub = app.add_subcommand(
      "demo-cluster", "Train a classifier with all workers of a cluster");
  sub->add_option("--worker", a->workers,
                  "Each worker, by number: grpc://host:port")
      ->required()
      ->check(IsTarget);
  sub->add_option("--ps", a->ps, "Number of ps tasks")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  sub->add_option("--steps", a->steps, "Steps of each worker")
      ->check(CLI::Range(1, INT_MAX))
      ->capture_default_str();
  sub->add_option("--data", a->data, "Folder with the images")
      ->capture_default_str();
  sub->add_option("--trace", a->trace, "File for the trace of a step")
      ->capture_default_str();
  sub->add_flag("--sync", a->sync,
                "Synchronous updates, through losses of tasks, instead of "
                "asynchronous ones");
  sub->add_option("--backups", a->backups,
                  "With --sync: the number of workers that no update waits for")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  sub->add_option("--folder", a->folder, "With --sync: where checkpoints go");
  sub->callback([a, run] { *run = [a] { return RunDemo(*a); }; });
}

}  // namespace sluice::cli
