// Asynchronous training: two parameter servers keep the variables of a
// classifier, three workers read and update them, without waiting for each
// other. The images are Fashion-MNIST's if the Debian package
// dataset-fashion-mnist is installed, else synthetic. All tasks run in this
// program and communicate over loopback.
#include <cstdio>
#include <random>
#include <thread>

#include "sluice/cluster.h"
#include "sluice/sluice.h"

using namespace sluice;

namespace {

constexpr int kPs = 2, kWorkers = 3, kBatch = 50, kSteps = 150;
constexpr int64_t kPixels = 784;

struct Images {
  std::vector<uint8_t> pixels, labels;
};

// The bytes after the header of a gzip'ed file; empty if the file does not
// exist.
std::vector<uint8_t> Read(const std::string& name, size_t head) {
  std::vector<uint8_t> bytes;
  FILE* file = popen(
      ("gzip -dc /usr/share/datasets/fashion-mnist/" + name + " 2>/dev/null")
          .c_str(),
      "r");
  if (file == nullptr) return bytes;
  uint8_t buffer[1 << 14];
  for (size_t n; (n = fread(buffer, 1, sizeof(buffer), file)) > 0;)
    bytes.insert(bytes.end(), buffer, buffer + n);
  pclose(file);
  if (bytes.size() < head) return {};
  return {bytes.begin() + static_cast<ptrdiff_t>(head), bytes.end()};
}

Images Load() {
  Images all = {Read("train-images-idx3-ubyte.gz", 16),
                Read("train-labels-idx1-ubyte.gz", 8)};
  if (!all.labels.empty() && all.pixels.size() == all.labels.size() * kPixels)
    return all;
  std::printf("no Fashion-MNIST: the images are made up\n");
  all = {};
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    all.labels.push_back(static_cast<uint8_t>(i % 10));
    for (int p = 0; p < kPixels; ++p)  // Noise, with a brighter tenth.
      all.pixels.push_back(
          static_cast<uint8_t>(random() % 128 + (p / 79 == i % 10 ? 80 : 0)));
  }
  return all;
}

// One worker, with its own graph, client and loop.
Status Train(const LocalCluster& cluster, const Images& all, int worker) {
  Graph graph;
  const WithGraph use(graph);
  const DeviceFunctionScope devices(ReplicaDeviceSetter(
      {.ps_tasks = kPs,
       .worker_device = absl::StrCat("/job:worker/task:", worker)}));
  Output x = Placeholder<float>({kBatch, kPixels});
  Output y = Placeholder<int32_t>({kBatch});
  Var w1(RandomUniform({kPixels, 64}, -0.1, 0.1), "w1"), b1(Zeros({64}), "b1");
  Var w2(RandomUniform({64, 10}, -0.1, 0.1), "w2"), b2(Zeros({10}), "b2");
  Output logits = ops::MatMul(ops::Relu(ops::MatMul(x, w1) + b1), w2) + b2;
  Output loss =
      ops::Mean(ops::SparseSoftmaxCrossEntropyWithLogits(logits, y).loss, 0);
  Node* train = GradientDescentOptimizer(0.05).Minimize(loss);
  Session session(cluster.target("worker", worker), graph);
  // (The first worker runs this before the others start.)
  if (worker == 0)
    SLUICE_RETURN_IF_ERROR(session.RunTargets({GlobalVariablesInitializer()}));
  if (all.labels.empty()) return OkStatus();
  std::mt19937 random(static_cast<unsigned>(worker) + 1);
  float sum = 0;
  for (int step = 1; step <= kSteps; ++step) {
    Tensor images(DType::kFloat, {kBatch, kPixels});
    Tensor labels(DType::kInt32, {kBatch});
    for (int i = 0; i < kBatch; ++i) {
      const size_t k = random() % all.labels.size();
      labels.data<int32_t>()[i] = all.labels[k];
      for (size_t p = 0; p < kPixels; ++p)
        images.data<float>()[static_cast<size_t>(i) * kPixels + p] =
            static_cast<float>(all.pixels[k * kPixels + p]) / 255;
    }
    SLUICE_ASSIGN_OR_RETURN(
        const std::vector<Tensor> out,
        session.Run({{x, images}, {y, labels}}, {loss}, {train}));
    sum += out[0].scalar<float>();
    if (step % 50 != 0) continue;
    std::printf("worker %d, step %3d: loss %.3f\n", worker, step, sum / 50);
    sum = 0;
  }
  return OkStatus();
}

}  // namespace

int main() {
  auto cluster = LocalCluster::Start({{"ps", kPs}, {"worker", kWorkers}});
  Status status = cluster.status();
  if (status.ok()) status = Train(**cluster, {}, 0);  // Initializes.
  const Images all = Load();
  std::vector<std::thread> workers;
  std::vector<Status> results(kWorkers);
  for (int w = 0; w < kWorkers && status.ok(); ++w)
    workers.emplace_back(
        [&, w] { results[static_cast<size_t>(w)] = Train(**cluster, all, w); });
  for (std::thread& t : workers) t.join();
  for (const Status& s : results)
    if (status.ok()) status = s;
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
