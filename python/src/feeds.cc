#include "feeds.h"

#include <algorithm>
#include <string>
#include <unordered_set>

namespace sluice::python {
namespace {

// Ops whose outputs never share memory with an input that somebody else holds.
// (Kernels work in place only on what nobody else holds.)
bool MakesNewMemory(const std::string& op) {
  static const auto* const kOps =
      new std::unordered_set<std::string>{"MatMul",
                                          "BatchMatMul",
                                          "BatchMatMulV2",
                                          "Conv2D",
                                          "Conv3D",
                                          "DepthwiseConv2dNative",
                                          "Conv2DBackpropFilter",
                                          "Conv2DBackpropInput",
                                          "MaxPool",
                                          "AvgPool",
                                          "MaxPoolGrad",
                                          "BiasAddGrad",
                                          "FusedBatchNorm",
                                          "FusedBatchNormV3",
                                          "SoftmaxCrossEntropyWithLogits",
                                          "SparseSoftmaxCrossEntropyWithLogits",
                                          "ArgMax",
                                          "ArgMin",
                                          "GatherV2",
                                          "Gather",
                                          "OneHot",
                                          "Equal",
                                          "NotEqual",
                                          "Less",
                                          "LessEqual",
                                          "Greater",
                                          "GreaterEqual",
                                          "InTopK",
                                          "InTopKV2",
                                          "TopKV2",
                                          "Transpose",
                                          "ShapeN",
                                          "Shape",
                                          "Size",
                                          "Rank",
                                          "Range",
                                          "L2Loss",
                                          "ZerosLike",
                                          "OnesLike",
                                          "ReluGrad",
                                          "IsNan",
                                          "IsInf",
                                          "IsFinite"};
  return kOps->count(op) != 0;
}

}  // namespace

bool FeedSafety::MayShare(const Output& feed,
                          const std::vector<Output>& fetches) {
  if (std::find(fetches.begin(), fetches.end(), feed) != fetches.end())
    return false;
  const int nodes = feed.graph()->num_nodes();
  Known& known = known_[feed];
  if (known.nodes == nodes) return known.safe;
  known.nodes = nodes;
  known.safe = std::all_of(
      feed.graph()->nodes().begin(), feed.graph()->nodes().end(),
      [&feed](const std::unique_ptr<Node>& node) {
        return MakesNewMemory(node->op_name()) ||
               std::find(node->inputs().begin(), node->inputs().end(), feed) ==
                   node->inputs().end();
      });
  return known.safe;
}

}  // namespace sluice::python
