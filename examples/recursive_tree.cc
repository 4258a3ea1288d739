// A recursive network over trees: a function calls itself for the children of a
// node, to the depth of the tree, and is trained through the recursion.
#include <cstdio>

#include "sluice/sluice.h"

using namespace sluice;

int main() {
  // A tree is three columns: the two children of node i, or -1, and its value.
  const DType i32 = DType::kInt32, f32 = DType::kFloat;
  Output left = Placeholder<int32_t>({-1}, "left");
  Output right = Placeholder<int32_t>({-1}, "right");
  Output leaf = Placeholder<float>({-1, 4}, "leaf");
  Output want = Placeholder<float>({4}, "want");

  // A leaf evaluates to its value; an inner node to a layer over its two
  // children.
  Function tree = DefineFunction(
      "tree", {i32, i32, i32, f32, f32}, {f32},
      [](const Function& self, const std::vector<Output>& args) {
        Output node = args[0], left = args[1], right = args[2];
        Output leaf = args[3], w = args[4];
        Output child = ops::GatherV2(left, node, 0);
        return Cond(
            child < 0, [&] { return ops::GatherV2(leaf, node, 0); },
            [&] {
              // The two calls run in parallel.
              Output a = self({child, left, right, leaf, w})[0];
              Output b = self(
                  {ops::GatherV2(right, node, 0), left, right, leaf, w})[0];
              Output both = ops::ExpandDims(ops::ConcatV2({a, b}, 0), 0);
              return ops::Tanh(ops::Squeeze(ops::MatMul(both, w)));
            });
      });

  Var w(RandomUniform(Shape({8, 4}), -0.5, 0.5));
  Output root = tree({Constant(0), left, right, leaf, w})[0];
  Output error = root - want;
  Output loss = ops::Sum(error * error, 0);
  Output step = Grad(loss, w);
  Node* update = ops::AssignSubVariableOp(w.handle(), step * 0.2);

  // ((a b) (c (d e))): node 0 is the root.
  const Feeds feeds = {
      {left, Tensor::Vector<int32_t>({1, 3, 5, -1, -1, -1, 7, -1, -1})},
      {right, Tensor::Vector<int32_t>({2, 4, 6, -1, -1, -1, 8, -1, -1})},
      {leaf, Tensor::Of<float>(Shape({9, 4}), std::vector<float>(36, 0.3f))},
      {want, Tensor::Vector<float>({0.5f, -0.5f, 0.2f, 0.1f})}};
  Session session;
  if (Status s = session.RunTargets({GlobalVariablesInitializer()}); !s.ok()) {
    std::fprintf(stderr, "%s\n", s.ToString().c_str());
    return 1;
  }
  for (int i = 0; i <= 60; ++i) {
    const auto result = session.Run(feeds, {loss}, {update});
    if (!result.ok()) {
      std::fprintf(stderr, "%s\n", result.status().ToString().c_str());
      return 1;
    }
    if (i % 20 == 0)
      std::printf("step %2d: loss %.5f\n", i, (*result)[0].scalar<float>());
  }
  return 0;
}
