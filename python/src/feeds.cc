#include "feeds.h"

#include <algorithm>
#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_split.h"

namespace sluice::python {
namespace {

// Ops whose outputs never share memory with an input that somebody else holds.
// (Kernels work in place only on what nobody else holds.)
bool MakesNewMemory(const std::string& op) {
  static const auto* const kOps =
      new absl::flat_hash_set<std::string>(absl::StrSplit(
          "ArgMax ArgMin AvgPool BatchMatMul BatchMatMulV2 "
          "BiasAddGrad Conv2D Conv2DBackpropFilter "
          "Conv2DBackpropInput Conv3D DepthwiseConv2dNative Equal "
          "FusedBatchNorm FusedBatchNormV3 Gather GatherV2 Greater "
          "GreaterEqual InTopK InTopKV2 IsFinite IsInf IsNan L2Loss "
          "Less LessEqual MatMul MaxPool MaxPoolGrad NotEqual OneHot "
          "OnesLike Range Rank ReluGrad Shape ShapeN Size "
          "SoftmaxCrossEntropyWithLogits "
          "SparseSoftmaxCrossEntropyWithLogits TopKV2 ZerosLike",
          ' '));
  return kOps->contains(op);
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
