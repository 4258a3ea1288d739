// Layers for the image networks of bench/networks, NHWC. Each call creates the
// weights of its layer.
//
//   Layers net({.batch = 16, .size = 224});
//   Output h = net.ConvRelu(net.images(), 64, {3, 3});
//   h = net.MaxPool(h, 2, 2);
//   return net.Finish(net.Dense(net.Flat(h), 1000));
#ifndef SLUICE_BENCH_NETWORKS_LAYERS_H_
#define SLUICE_BENCH_NETWORKS_LAYERS_H_

#include <string>
#include <utility>
#include <vector>

#include "sluice/sluice.h"

namespace sluice::bench {

struct NetworkOptions {
  int64_t batch = 1;
  int64_t size = 0;  // Image size; 0: as published.
  int64_t channels = 0;
  int64_t classes = 0;
  // Multiplies every number of channels except the last, for small networks of
  // the same structure.
  double width = 1;
  // Batch normalisation uses the moments of the batch and updates their moving
  // averages; else it uses the averages.
  bool training = true;
  // Adds Inception-v3's auxiliary classifier, which is also trained.
  bool auxiliary = false;
};

// A network in the ambient graph.
struct Network {
  Output images;  // float [batch, size, size, channels], a feed.
  Output labels;  // int32 [batch], a feed.
  Output logits;  // [batch, classes].
  Output loss;    // Softmax cross-entropy, mean over the batch.
  // Each layer's name and output, in order.
  std::vector<std::pair<std::string, Output>> layers;
  // Updates of moving averages, run by a training step.
  std::vector<Node*> averages;

  // One step of gradient descent.
  Node* Train(double learning_rate) const;
};

// The number of trainable parameters in the ambient graph.
int64_t TrainableParameters();

struct Window {
  int64_t height, width;
};
// Padding of images: "SAME", "VALID", or a number of pixels on every side.
struct Padding {
  Padding(const char* name) : name(name) {}                      // NOLINT
  Padding(int64_t pixels) : name("EXPLICIT"), pixels(pixels) {}  // NOLINT
  std::string name;
  int64_t pixels = 0;
};

// Builds one network, layer by layer, on one thread. After an error, which is
// recorded in the graph, outputs are null.
class Layers {
 public:
  // Takes defaults from `published`.
  Layers(NetworkOptions options, const NetworkOptions& published);

  Output images() const { return net_.images; }

  // Creates a filter with He initialization, and a bias if `bias`.
  Output Conv(const Output& x, int64_t channels, Window window,
              int64_t stride = 1, const Padding& padding = "SAME",
              bool bias = true);
  Output ConvRelu(const Output& x, int64_t channels, Window window,
                  int64_t stride = 1, const Padding& padding = "SAME");
  // Without a bias; the normalisation's offset replaces it.
  Output ConvNorm(const Output& x, int64_t channels, Window window,
                  int64_t stride = 1, const Padding& padding = "SAME");
  Output ConvNormRelu(const Output& x, int64_t channels, Window window,
                      int64_t stride = 1, const Padding& padding = "SAME");
  Output Relu(const Output& x);
  Output MaxPool(const Output& x, int64_t window, int64_t stride,
                 const Padding& padding = "VALID");
  Output AvgPool(const Output& x, int64_t window, int64_t stride,
                 const Padding& padding = "VALID");
  // The mean of each channel: [batch, channels].
  Output GlobalPool(const Output& x);
  Output Concat(const std::vector<Output>& xs);
  Output Flat(const Output& x);
  // `width` does not apply to the last layer.
  Output Dense(const Output& x, int64_t units, bool last = false);
  Output Logits(const Output& x) { return Dense(x, options_.classes, true); }
  Output Loss(const Output& logits);

  // Records x in the layers under this name.
  Output Named(const std::string& name, const Output& x);
  Network Finish(const Output& logits);
  Network Finish(const Output& logits, const Output& loss);

  const NetworkOptions& options() const { return options_; }

 private:
  int64_t Scaled(int64_t channels) const;
  Output Normalize(const Output& x);

  NetworkOptions options_;
  Network net_;
};

}  // namespace sluice::bench

#endif  // SLUICE_BENCH_NETWORKS_LAYERS_H_
