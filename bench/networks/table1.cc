// LeNet and the three sequential networks of OSDI'16, Table 1.
#include "bench/networks/networks.h"

namespace sluice::bench {

Network LeNet(const NetworkOptions& options) {
  Layers net(options, {.size = 28, .channels = 1, .classes = 10});
  Output h = net.Named("conv1", net.ConvRelu(net.images(), 32, {5, 5}));
  h = net.Named("pool1", net.MaxPool(h, 2, 2));
  h = net.Named("conv2", net.ConvRelu(h, 64, {5, 5}));
  h = net.Named("pool2", net.MaxPool(h, 2, 2));
  h = net.Named("dense1", net.Relu(net.Dense(net.Flat(h), 512)));
  return net.Finish(net.Logits(h));
}

Network AlexNet(const NetworkOptions& options) {
  Layers net(options, {.size = 224, .channels = 3, .classes = 1000});
  Output h = net.Named("conv1", net.ConvRelu(net.images(), 64, {11, 11}, 4, 2));
  h = net.Named("pool1", net.MaxPool(h, 3, 2));
  h = net.Named("conv2", net.ConvRelu(h, 192, {5, 5}));
  h = net.Named("pool2", net.MaxPool(h, 3, 2));
  h = net.Named("conv3", net.ConvRelu(h, 384, {3, 3}));
  h = net.Named("conv4", net.ConvRelu(h, 256, {3, 3}));
  h = net.Named("conv5", net.ConvRelu(h, 256, {3, 3}));
  h = net.Named("pool5", net.MaxPool(h, 3, 2));
  h = net.Named("dense1", net.Relu(net.Dense(net.Flat(h), 4096)));
  h = net.Named("dense2", net.Relu(net.Dense(h, 4096)));
  return net.Finish(net.Logits(h));
}

Network Overfeat(const NetworkOptions& options) {
  Layers net(options, {.size = 231, .channels = 3, .classes = 1000});
  Output h =
      net.Named("conv1", net.ConvRelu(net.images(), 96, {11, 11}, 4, "VALID"));
  h = net.Named("pool1", net.MaxPool(h, 2, 2));
  h = net.Named("conv2", net.ConvRelu(h, 256, {5, 5}, 1, "VALID"));
  h = net.Named("pool2", net.MaxPool(h, 2, 2));
  h = net.Named("conv3", net.ConvRelu(h, 512, {3, 3}));
  h = net.Named("conv4", net.ConvRelu(h, 1024, {3, 3}));
  h = net.Named("conv5", net.ConvRelu(h, 1024, {3, 3}));
  h = net.Named("pool5", net.MaxPool(h, 2, 2));
  h = net.Named("dense1", net.Relu(net.Dense(net.Flat(h), 3072)));
  h = net.Named("dense2", net.Relu(net.Dense(h, 4096)));
  return net.Finish(net.Logits(h));
}

Network VggA(const NetworkOptions& options) {
  Layers net(options, {.size = 224, .channels = 3, .classes = 1000});
  Output h = net.images();
  int layer = 1, pool = 1;
  struct Stage {
    int64_t channels;
    int times;
  };
  for (const Stage& s :
       {Stage{64, 1}, {128, 1}, {256, 2}, {512, 2}, {512, 2}}) {
    for (int i = 0; i < s.times; ++i)
      h = net.Named(absl::StrCat("conv", layer++),
                    net.ConvRelu(h, s.channels, {3, 3}));
    h = net.Named(absl::StrCat("pool", pool++), net.MaxPool(h, 2, 2));
  }
  h = net.Named("dense1", net.Relu(net.Dense(net.Flat(h), 4096)));
  h = net.Named("dense2", net.Relu(net.Dense(h, 4096)));
  return net.Finish(net.Logits(h));
}

}  // namespace sluice::bench
