#include "graph/tensor_array_info.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "graph/shape_context.h"

namespace sluice {
namespace {

constexpr int kMostHops = 200;

// The output behind a chain of nodes that pass input 0 on. The Merge of a
// conditional passes on what either branch made: `either` follows one of them.
Output Behind(Output o, bool either) {
  for (int depth = 0; depth < kMostHops && o; ++depth) {
    switch (o.node->op().role) {
      case OpRole::kIdentity:
      case OpRole::kSwitch:
      case OpRole::kMerge:
      case OpRole::kEnter:
      case OpRole::kExit:
      case OpRole::kNextIteration:
        if (o.index > 1 || o.node->num_inputs() == 0) return o;
        if (o.node->op().role == OpRole::kMerge &&
            (o.index == 1 ||
             (!either && o.node->input(0).node->op().role != OpRole::kEnter)))
          return o;
        o = o.node->input(0);
        break;
      default:
        return o;
    }
  }
  return Output();
}

}  // namespace

const Node* TensorArrayBehind(const Output& handle) {
  const Output made = Behind(handle, /*either=*/false);
  if (!made || made.index != 0) return nullptr;
  const std::string& op = made.node->op_name();
  return op == "TensorArrayV3" || op == "TensorArrayGradV3" ||
                 op == "TensorArrayGradWithShape"
             ? made.node
             : nullptr;
}

PartialShape TensorArrayElementShape(const Output& handle) {
  const Node* n = TensorArrayBehind(handle);
  if (n == nullptr) return PartialShape();
  if (n->op_name() == "TensorArrayV3")
    return n->AttrOr<PartialShape>("element_shape", PartialShape());
  const PartialShape forward = TensorArrayElementShape(n->input(0));
  if (n->op_name() == "TensorArrayGradV3") return forward;
  const Result<PartialShape> first = ConstantAsShape(n->input(2));
  if (!first.ok() || !first->rank_known() || !forward.rank_known())
    return PartialShape();
  PartialShape joined = *first;
  for (const int64_t d : forward.dims()) joined.add_dim(d);
  return joined;
}

bool IsTensorArrayFlow(const Output& o) {
  if (!o || o.dtype() != DType::kFloat) return false;
  const Output made = Behind(o, /*either=*/true);
  if (!made) return false;
  const std::string& op = made.node->op_name();
  if (op == "TensorArrayV3" || op == "TensorArrayGradV3" ||
      op == "TensorArrayGradWithShape")
    return made.index == 1;
  constexpr std::string_view kWriters[] = {
      "TensorArrayWriteV3", "TensorArrayScatterV3", "TensorArraySplitV3"};
  return std::find(std::begin(kWriters), std::end(kWriters), op) !=
         std::end(kWriters);
}

}  // namespace sluice
