#include "graph/tensor_array_info.h"

#include "graph/shape_context.h"

namespace sluice {
namespace {

constexpr int kMaxHops = 200;

// The output behind a chain of nodes that forward input 0. The Merge of a
// conditional forwards the value of either branch: `either` follows one of
// them.
Output Behind(Output o, bool either) {
  for (int depth = 0; depth < kMaxHops && o.valid(); ++depth) {
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

bool MakesArray(const Node& n) {
  return n.kind() == OpKind::kTensorArray ||
         n.kind() == OpKind::kTensorArrayGrad ||
         n.kind() == OpKind::kTensorArrayGradWithShape;
}

bool WritesArray(const Node& n) {
  return n.kind() == OpKind::kTensorArrayWrite ||
         n.kind() == OpKind::kTensorArrayScatter ||
         n.kind() == OpKind::kTensorArraySplit;
}

}  // namespace

const Node* TensorArrayBehind(const Output& handle) {
  const Output made = Behind(handle, /*either=*/false);
  return made.valid() && made.index == 0 && MakesArray(*made.node) ? made.node
                                                                   : nullptr;
}

PartialShape TensorArrayElementShape(const Output& handle) {
  const Node* n = TensorArrayBehind(handle);
  if (n == nullptr) return PartialShape();
  if (n->kind() == OpKind::kTensorArray)
    return n->AttrOr<PartialShape>("element_shape", PartialShape());
  const PartialShape forward = TensorArrayElementShape(n->input(0));
  if (n->kind() == OpKind::kTensorArrayGrad) return forward;
  const Result<PartialShape> first = ConstantAsShape(n->input(2));
  if (!first.ok() || !first->rank_known() || !forward.rank_known())
    return PartialShape();
  PartialShape joined = *first;
  for (const int64_t d : forward.dims()) joined.add_dim(d);
  return joined;
}

bool IsTensorArrayFlow(const Output& o) {
  if (!o.valid() || o.dtype() != DType::kFloat) return false;
  const Output made = Behind(o, /*either=*/true);
  return made.valid() && ((made.index == 1 && MakesArray(*made.node)) ||
                          WritesArray(*made.node));
}

const Node* TensorArrayOfFlow(const Output& flow) {
  if (!IsTensorArrayFlow(flow)) return nullptr;
  const Node* n = Behind(flow, /*either=*/true).node;
  if (WritesArray(*n)) n = TensorArrayBehind(n->input(0));
  // (Gradient arrays made by different nodes may be the same.)
  return n != nullptr && n->kind() == OpKind::kTensorArray ? n : nullptr;
}

}  // namespace sluice
