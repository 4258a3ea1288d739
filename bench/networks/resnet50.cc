// ResNet-50: bottleneck blocks with shortcuts.
#include "bench/networks/networks.h"

namespace sluice::bench {
namespace {

// 1 x 1, 3 x 3 and 1 x 1 convolutions, to four times the channels, plus a
// shortcut: the input, or a 1 x 1 convolution of it if the shapes differ.
Output Bottleneck(Layers& net, const Output& x, int64_t channels,
                  int64_t stride, bool project) {
  const NameScope scope("block");
  Output h = net.ConvNormRelu(x, channels, {1, 1});
  h = net.ConvNormRelu(h, channels, {3, 3}, stride, 1);
  h = net.ConvNorm(h, 4 * channels, {1, 1});
  const Output shortcut =
      project ? net.ConvNorm(x, 4 * channels, {1, 1}, stride) : x;
  return net.Relu(h + shortcut);
}

}  // namespace

Network ResNet50(const NetworkOptions& options) {
  Layers net(options, {.size = 224, .channels = 3, .classes = 1000});
  Output h = net.ConvNormRelu(net.images(), 64, {7, 7}, 2, 3);
  h = net.Named("conv1", h);
  h = net.Named("pool1", net.MaxPool(h, 3, 2, 1));
  int stage = 2;
  struct Stage {
    int64_t channels;
    int blocks;
  };
  for (const Stage& s : {Stage{64, 3}, {128, 4}, {256, 6}, {512, 3}}) {
    for (int i = 0; i < s.blocks; ++i)
      h = Bottleneck(net, h, s.channels, i == 0 && stage > 2 ? 2 : 1, i == 0);
    h = net.Named(absl::StrCat("stage", stage++), h);
  }
  h = net.Named("pool5", net.GlobalPool(h));
  return net.Finish(net.Logits(h));
}

}  // namespace sluice::bench
