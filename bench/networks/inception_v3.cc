// Inception-v3: blocks of branches, in which larger filters are factorized into
// smaller ones.
#include "bench/networks/networks.h"

namespace sluice::bench {
namespace {

struct Step {
  int64_t channels;
  Window window;
  int64_t stride = 1;
  const char* padding = "SAME";
};

Output Chain(Layers& net, Output x, std::initializer_list<Step> steps) {
  for (const Step& s : steps)
    x = net.ConvNormRelu(x, s.channels, s.window, s.stride, s.padding);
  return x;
}

// 35 x 35.
Output BlockA(Layers& net, const Output& x, int64_t pooled) {
  return net.Concat(
      {Chain(net, x, {{64, {1, 1}}}),
       Chain(net, x, {{48, {1, 1}}, {64, {5, 5}}}),
       Chain(net, x, {{64, {1, 1}}, {96, {3, 3}}, {96, {3, 3}}}),
       Chain(net, net.AvgPool(x, 3, 1, "SAME"), {{pooled, {1, 1}}})});
}

// To 17 x 17.
Output ReduceA(Layers& net, const Output& x) {
  return net.Concat(
      {Chain(net, x, {{384, {3, 3}, 2, "VALID"}}),
       Chain(net, x, {{64, {1, 1}}, {96, {3, 3}}, {96, {3, 3}, 2, "VALID"}}),
       net.MaxPool(x, 3, 2)});
}

// 17 x 17; c channels within.
Output BlockB(Layers& net, const Output& x, int64_t c) {
  return net.Concat(
      {Chain(net, x, {{192, {1, 1}}}),
       Chain(net, x, {{c, {1, 1}}, {c, {1, 7}}, {192, {7, 1}}}),
       Chain(
           net, x,
           {{c, {1, 1}}, {c, {7, 1}}, {c, {1, 7}}, {c, {7, 1}}, {192, {1, 7}}}),
       Chain(net, net.AvgPool(x, 3, 1, "SAME"), {{192, {1, 1}}})});
}

// To 8 x 8.
Output ReduceB(Layers& net, const Output& x) {
  return net.Concat({Chain(net, x, {{192, {1, 1}}, {320, {3, 3}, 2, "VALID"}}),
                     Chain(net, x,
                           {{192, {1, 1}},
                            {192, {1, 7}},
                            {192, {7, 1}},
                            {192, {3, 3}, 2, "VALID"}}),
                     net.MaxPool(x, 3, 2)});
}

// 8 x 8: the last filters side by side.
Output BlockC(Layers& net, const Output& x) {
  const Output a = Chain(net, x, {{384, {1, 1}}});
  const Output b = Chain(net, x, {{448, {1, 1}}, {384, {3, 3}}});
  return net.Concat(
      {Chain(net, x, {{320, {1, 1}}}), Chain(net, a, {{384, {1, 3}}}),
       Chain(net, a, {{384, {3, 1}}}), Chain(net, b, {{384, {1, 3}}}),
       Chain(net, b, {{384, {3, 1}}}),
       Chain(net, net.AvgPool(x, 3, 1, "SAME"), {{192, {1, 1}}})});
}

Output AuxiliaryLogits(Layers& net, const Output& x) {
  const NameScope scope("auxiliary");
  Output h = net.AvgPool(x, 5, 3);
  h = Chain(net, h, {{128, {1, 1}}, {768, {5, 5}, 1, "VALID"}});
  return net.Logits(net.GlobalPool(h));
}

}  // namespace

Network InceptionV3(const NetworkOptions& options) {
  Layers net(options, {.size = 299, .channels = 3, .classes = 1000});
  Output h = net.images();
  h = net.Named("conv1", Chain(net, h, {{32, {3, 3}, 2, "VALID"}}));
  h = net.Named("conv2", Chain(net, h, {{32, {3, 3}, 1, "VALID"}}));
  h = net.Named("conv3", Chain(net, h, {{64, {3, 3}}}));
  h = net.Named("pool1", net.MaxPool(h, 3, 2));
  h = net.Named("conv4", Chain(net, h, {{80, {1, 1}}}));
  h = net.Named("conv5", Chain(net, h, {{192, {3, 3}, 1, "VALID"}}));
  h = net.Named("pool2", net.MaxPool(h, 3, 2));
  h = net.Named("5b", BlockA(net, h, 32));
  h = net.Named("5c", BlockA(net, h, 64));
  h = net.Named("5d", BlockA(net, h, 64));
  h = net.Named("6a", ReduceA(net, h));
  h = net.Named("6b", BlockB(net, h, 128));
  h = net.Named("6c", BlockB(net, h, 160));
  h = net.Named("6d", BlockB(net, h, 160));
  h = net.Named("6e", BlockB(net, h, 192));
  Output auxiliary;
  if (net.options().auxiliary) auxiliary = AuxiliaryLogits(net, h);
  h = net.Named("7a", ReduceB(net, h));
  h = net.Named("7b", BlockC(net, h));
  h = net.Named("7c", BlockC(net, h));
  h = net.Named("pool3", net.GlobalPool(h));
  const Output logits = net.Logits(h);
  Output loss = net.Loss(logits);
  if (auxiliary.valid()) loss = loss + 0.4f * net.Loss(auxiliary);
  return net.Finish(logits, loss);
}

}  // namespace sluice::bench
