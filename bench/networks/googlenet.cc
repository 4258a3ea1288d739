// GoogLeNet, the first Inception network.
#include "bench/networks/networks.h"

namespace sluice::bench {
namespace {

// Channels of the four branches: 1 x 1; 1 x 1 then 3 x 3; 1 x 1 then 5 x 5;
// pooling then 1 x 1.
struct Inception {
  const char* name;
  int64_t one, three_in, three, five_in, five, pool;
};

Output Block(Layers& net, const Output& x, const Inception& c) {
  const NameScope scope(c.name);
  const Output three = net.ConvRelu(x, c.three_in, {1, 1});
  const Output five = net.ConvRelu(x, c.five_in, {1, 1});
  const Output pool = net.MaxPool(x, 3, 1, "SAME");
  return net.Named(c.name, net.Concat({net.ConvRelu(x, c.one, {1, 1}),
                                       net.ConvRelu(three, c.three, {3, 3}),
                                       net.ConvRelu(five, c.five, {5, 5}),
                                       net.ConvRelu(pool, c.pool, {1, 1})}));
}

}  // namespace

Network GoogLeNet(const NetworkOptions& options) {
  Layers net(options, {.size = 224, .channels = 3, .classes = 1000});
  Output h = net.Named("conv1", net.ConvRelu(net.images(), 64, {7, 7}, 2));
  h = net.Named("pool1", net.MaxPool(h, 3, 2, "SAME"));
  h = net.Named("conv2", net.ConvRelu(h, 64, {1, 1}));
  h = net.Named("conv3", net.ConvRelu(h, 192, {3, 3}));
  h = net.Named("pool3", net.MaxPool(h, 3, 2, "SAME"));
  h = Block(net, h, {"3a", 64, 96, 128, 16, 32, 32});
  h = Block(net, h, {"3b", 128, 128, 192, 32, 96, 64});
  h = net.Named("pool4", net.MaxPool(h, 3, 2, "SAME"));
  h = Block(net, h, {"4a", 192, 96, 208, 16, 48, 64});
  h = Block(net, h, {"4b", 160, 112, 224, 24, 64, 64});
  h = Block(net, h, {"4c", 128, 128, 256, 24, 64, 64});
  h = Block(net, h, {"4d", 112, 144, 288, 32, 64, 64});
  h = Block(net, h, {"4e", 256, 160, 320, 32, 128, 128});
  h = net.Named("pool5", net.MaxPool(h, 3, 2, "SAME"));
  h = Block(net, h, {"5a", 256, 160, 320, 32, 128, 128});
  h = Block(net, h, {"5b", 384, 192, 384, 48, 128, 128});
  h = net.Named("pool6", net.GlobalPool(h));
  return net.Finish(net.Logits(h));
}

}  // namespace sluice::bench
