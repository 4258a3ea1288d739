// What the image networks of bench/networks are made of: layers whose weights
// are made as they are used, NHWC.
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
  int64_t size = 0;  // Of the images; 0: as published.
  int64_t channels = 0;
  int64_t classes = 0;
  // Every number of channels but the last is multiplied by this: small networks
  // of the same form.
  double width = 1;
  // Batch normalisation by the moments of the batch, whose averages are kept;
  // else by these averages.
  bool training = true;
  // Inception-v3's second classifier, which its training looks at as well.
  bool auxiliary = false;
};

// A network in the ambient graph.
struct Network {
  Output images;  // float [batch, size, size, channels], to be fed.
  Output labels;  // int32 [batch], to be fed.
  Output logits;  // [batch, classes].
  Output loss;    // Softmax cross-entropy, mean over the batch.
  // Each layer's output by its name, in order.
  std::vector<std::pair<std::string, Output>> layers;
  // What a training step runs beside the updates: moving averages.
  std::vector<Node*> averages;

  // One step of gradient descent.
  Node* Train(double learning_rate) const;
};

// Numbers in the variables that are trained, of the ambient graph.
int64_t TrainableParameters();

struct Window {
  int64_t height, width;
};
// How images are padded: "SAME", "VALID", or so many pixels on every side.
struct Padding {
  Padding(const char* name) : name(name) {}                      // NOLINT
  Padding(int64_t pixels) : name("EXPLICIT"), pixels(pixels) {}  // NOLINT
  std::string name;
  int64_t pixels = 0;
};

// Builds one network, layer by layer. Lives on the thread that builds. After an
// error, which the graph has, outputs are null.
class Layers {
 public:
  // The options with `published` where they say nothing.
  Layers(NetworkOptions options, const NetworkOptions& published);

  Output images() const { return net_.images; }

  // A filter of its own, He's initial values; with a bias if `bias`.
  Output Conv(const Output& x, int64_t channels, Window window,
              int64_t stride = 1, const Padding& padding = "SAME",
              bool bias = true);
  Output ConvRelu(const Output& x, int64_t channels, Window window,
                  int64_t stride = 1, const Padding& padding = "SAME");
  // Without a bias, which the normalisation's offset is.
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

  // Gives x a name among the layers.
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
