#include "client/autodiff/cond_gradient.h"

#include <utility>
#include <vector>

#include "client/autodiff/gradient_errors.h"
#include "client/autodiff/gradients.h"
#include "graph/builder.h"
#include "graph/control_flow.h"
#include "graph/graph.h"

namespace sluice {
namespace {

// The branch of `cond` that the value belongs to; -1 for neither.
int BranchOf(const Output& value, const Conditional* cond) {
  for (ControlFlowContext* c = ContextOf(value); c != nullptr; c = c->outer())
    if (c->AsCond() != nullptr && c->AsCond()->conditional() == cond)
      return c->AsCond()->branch();
  return -1;
}

Result<Output> MergeDense(Node* node, Conditional* cond,
                          const std::vector<Gradient>& dy) {
  Output side[2];
  for (int i = 0; i < 2; ++i) {
    const ContextScope in_branch(cond->branch(i));
    const Output value(node, i);
    const Gradient& g = dy[static_cast<size_t>(i)];
    side[i] = g ? Densify(g, value) : ZerosFor(value);
    SLUICE_RETURN_IF_ERROR(Built(side[i]).status());
  }
  Node* const merge = cond->AddMerge(side[0], side[1], node->loc());
  return Built(Output(merge));
}

// Slices from either branch; no slices if the branch has no gradient.
Result<Gradient> MergeSparse(Node* node, Conditional* cond,
                             const std::vector<Gradient>& dy) {
  const Gradient& some = dy[0] ? dy[0] : dy[1];
  const DType type =
      dy[0] && dy[1] && dy[0].indices.dtype() != dy[1].indices.dtype()
          ? DType::kInt64
          : some.indices.dtype();
  Output indices[2], values[2];
  for (int i = 0; i < 2; ++i) {
    const ContextScope in_branch(cond->branch(i));
    const Gradient& g = dy[static_cast<size_t>(i)];
    if (g) {
      values[i] = g.values;
      indices[i] = g.indices.dtype() == type
                       ? g.indices
                       : Build("Cast", {g.indices}, {{"DstT", type}}, "", {});
    } else {
      SLUICE_ASSIGN_OR_RETURN(const Gradient none,
                              NoSlices(Output(node, i), type));
      indices[i] = none.indices;
      values[i] = none.values;
    }
    SLUICE_RETURN_IF_ERROR(Built(indices[i]).status());
    SLUICE_RETURN_IF_ERROR(Built(values[i]).status());
  }
  const Output all_indices(cond->AddMerge(indices[0], indices[1], node->loc()));
  const Output all_values(cond->AddMerge(values[0], values[1], node->loc()));
  SLUICE_RETURN_IF_ERROR(Built(all_indices).status());
  SLUICE_RETURN_IF_ERROR(Built(all_values).status());
  const ContextScope around(cond->outer());
  SLUICE_ASSIGN_OR_RETURN(const Output shape,
                          DenseShapeOf(node->input(0), some));
  return Gradient::Slices(all_indices, all_values, shape);
}

Result<Gradient> MergeBranches(Node* node, Conditional* cond,
                               const std::vector<Gradient>& dy) {
  bool sparse = true;
  for (const Gradient& g : dy) sparse = sparse && (!g || g.is_sparse());
  if (sparse) return MergeSparse(node, cond, dy);
  SLUICE_ASSIGN_OR_RETURN(const Output dense, MergeDense(node, cond, dy));
  return Gradient(dense);
}

}  // namespace

Status CondGradient::OfMerge(Node* node, GradientLevel& level) {
  Conditional* const cond = paths_.graph()->control_flow().ConditionalOf(node);
  if (cond == nullptr)
    return InvalidArgument(
        "gradients: expected a Merge of a conditional or of a loop, got ",
        node->Describe(), "; path: ", PathThrough(paths_, node));
  SLUICE_ASSIGN_OR_RETURN(const Gradient dy, sums_.Total(Output(node), level));
  if (!dy) return OkStatus();
  Conditional* const here = level.Mirror(cond);
  SLUICE_RETURN_IF_ERROR(errors_.First());
  const ContextScope there(level.Mirror(ContextOf(node)));
  const NameScope scope(node->name() + "_grad");
  const AtLine at(node->loc());
  for (int i = 0; i < node->num_inputs(); ++i) {
    const Output& in = node->input(i);
    if (!paths_.Between(in.node) || !IsDifferentiable(in.dtype())) continue;
    const int known = BranchOf(in, cond);
    const int branch = known >= 0 ? known : i;
    const auto take = [&](const Output& o) -> Result<Output> {
      const Result<Output> in_branch =
          Capture(here->branch(branch), o, scope.prefix());
      return in_branch.ok() ? in_branch : in_branch.status();
    };
    Gradient g;
    if (dy.is_sparse()) {
      SLUICE_ASSIGN_OR_RETURN(g.indices, take(dy.indices));
      SLUICE_ASSIGN_OR_RETURN(g.values, take(dy.values));
      if (dy.dense_shape.valid()) {
        SLUICE_ASSIGN_OR_RETURN(g.dense_shape, take(dy.dense_shape));
      }
    } else {
      SLUICE_ASSIGN_OR_RETURN(g.dense, take(dy.dense));
      SLUICE_RETURN_IF_ERROR(CheckGradient(*node, in, g));
    }
    sums_.Add(in, g);
  }
  return OkStatus();
}

Status CondGradient::OfSwitch(Node* node, GradientLevel& level) {
  Conditional* const cond = paths_.graph()->control_flow().ConditionalOf(node);
  if (cond == nullptr)
    return InvalidArgument(
        "gradients: expected a Switch of a conditional or of a loop, got ",
        node->Describe(), "; path: ", PathThrough(paths_, node));
  SLUICE_ASSIGN_OR_RETURN(const std::vector<Gradient> dy,
                          sums_.Totals(node, level));
  Conditional* const here = level.Mirror(cond);
  SLUICE_RETURN_IF_ERROR(errors_.First());
  const NameScope scope(node->name() + "_grad");
  const AtLine at(node->loc());
  SLUICE_ASSIGN_OR_RETURN(const Gradient g, MergeBranches(node, here, dy));
  const Output& in = node->input(0);
  SLUICE_RETURN_IF_ERROR(CheckGradient(*node, in, g));
  sums_.Add(in, g);
  return OkStatus();
}

}  // namespace sluice
