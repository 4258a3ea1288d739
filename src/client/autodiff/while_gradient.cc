// Gradients of loops: a loop over the same iterations in reverse order, whose
// variables are the gradients of the loop variables.
#include <algorithm>
#include <optional>

#include "client/autodiff/backprop.h"
#include "graph/frames.h"
#include "graph/gradient_scope.h"
#include "graph/shape_context.h"
#include "graph/tensor_array_info.h"

namespace sluice {
namespace {

// Gradients of resource variables have the type of their values, and are summed
// like those of constants.
bool IsCarried(const LoopVariable& v) {
  return RemoveRef(v.merge->output_type(0)) != DType::kResource;
}

// The sum of such products touches the whole sum in every iteration, with as
// many multiplications per element as there are rows. True if the factors have
// at most 1 / `times` as many elements as the sum.
bool IsThinProduct(const Node& n, int64_t times) {
  if (n.op_name() != "MatMul" || !n.BoolAttr("transpose_a") ||
      n.BoolAttr("transpose_b"))
    return false;
  const DType t = n.output_type(0);
  const PartialShape &a = n.input(0).shape(), &b = n.input(1).shape();
  return (t == DType::kFloat || t == DType::kDouble) && a.fully_known() &&
         b.fully_known() && a.rank() == 2 && b.rank() == 2 &&
         a.dim(0) * times <= std::min(a.dim(1), b.dim(1));
}

}  // namespace

Status Backprop::VisitLoop(WhileContext* loop, Level& outer) {
  bool any = HasGradientWithin(loop);
  for (const LoopVariable& v : loop->variables())
    any = any || (v.exit != nullptr && HasGradient(Output(v.exit)));
  if (!any || !loop->back_prop) return OkStatus();
  crossed_.push_back(loop);
  for (const LoopVariable& v : loop->variables())
    if (v.next == nullptr || v.switch_node == nullptr)
      return InvalidArgument(
          "gradients: expected a loop that is complete, got "
          "'",
          loop->name(), "', whose variable '", v.name,
          "' has no value for the next iteration yet");
  ControlFlowContext* const around = Mirror(loop->outer(), outer);
  SLUICE_RETURN_IF_ERROR(BuildStatus());
  const NameScope scope(loop->name() + "_grad");
  LoopMember* const forward = LoopFamily::Of(loop);
  if (forward == nullptr) return Built(Output()).status();
  Level inner;
  inner.loop = loop;
  inner.member = LoopFamily::NewReverse(forward, around);
  if (inner.member == nullptr) return Built(Output()).status();
  std::map<int, int> opened;  // New loop's variables, by this loop's.
  SLUICE_RETURN_IF_ERROR(OpenVariables(loop, outer, inner, &opened));
  SLUICE_RETURN_IF_ERROR(Walk(inner));
  SLUICE_RETURN_IF_ERROR(CloseVariables(loop, inner, opened));
  // Loop constants: the gradients of the iterations are added up. (Flows first:
  // the arrays written through them are used for the others.)
  const std::vector<Node*> constants = ConstantsOf(loop);
  for (const bool flows : {true, false})
    for (Node* const n : constants) {
      if (IsTensorArrayFlow(Output(n)) != flows) continue;
      SLUICE_ASSIGN_OR_RETURN(const Gradient g, Total(Output(n), inner));
      if (g && Between(n->input(0).node))
        SLUICE_RETURN_IF_ERROR(Accumulate(n->input(0), g, inner));
    }
  return OkStatus();
}

bool Backprop::HasGradientWithin(const WhileContext* loop) const {
  const auto it = units_on_.find(loop);
  if (it == units_on_.end()) return false;
  const std::vector<WhileContext*>& loops = graph_->control_flow().loops();
  return std::any_of(
      it->second.begin(), it->second.end(), [&](const size_t unit) {
        return unit < between_.size()
                   ? grads_.count(graph_->nodes()[unit].get()) != 0
                   : HasGradientWithin(loops[unit - between_.size()]);
      });
}

std::vector<Node*> Backprop::ConstantsOf(const WhileContext* loop) const {
  std::vector<Node*> constants;
  const auto it = units_on_.find(loop);
  if (it == units_on_.end()) return constants;
  for (auto unit = it->second.rbegin(); unit != it->second.rend(); ++unit) {
    if (*unit >= between_.size()) continue;
    Node* const n = graph_->nodes()[*unit].get();
    if (IsConstantEnter(*n)) constants.push_back(n);
  }
  return constants;
}

Status Backprop::OpenVariables(WhileContext* loop, Level& outer, Level& inner,
                               std::map<int, int>* opened) {
  WhileContext* const back = inner.member->loop();
  const ContextScope around(back->outer());
  for (size_t i = 0; i < loop->variables().size(); ++i) {
    const LoopVariable& v = loop->variables()[i];
    if (!Between(v.merge) || !IsDifferentiable(v.merge->output_type(0)) ||
        !IsCarried(v))
      continue;
    const AtLine at(v.merge->loc());
    if (v.exit == nullptr && !v.merge->output_shape(0).fully_known() &&
        loop->AddExit(static_cast<int>(i)) == nullptr)
      return Built(Output()).status();
    Output last;
    if (v.exit != nullptr) {
      SLUICE_ASSIGN_OR_RETURN(const Gradient g, Total(Output(v.exit), outer));
      last = Densify(g, Output(v.exit));
      if (g && !last.valid()) return Built(last).status();
    }
    if (!last.valid()) {
      last = ZerosFor(Output(v.exit == nullptr ? v.merge : v.exit));
      SLUICE_RETURN_IF_ERROR(Built(last).status());
    }
    const int mine =
        back->OpenVariable(last, v.name + "_grad", v.merge->output_shape(0));
    if (mine < 0) return Built(Output()).status();
    (*opened)[static_cast<int>(i)] = mine;
    Add(v.next->input(0), back->variable(mine).body_value);
  }
  return OkStatus();
}

Status Backprop::CloseVariables(WhileContext* loop, Level& inner,
                                const std::map<int, int>& opened) {
  WhileContext* const back = inner.member->loop();
  for (size_t i = 0; i < loop->variables().size(); ++i) {
    const LoopVariable v = loop->variables()[i];
    if (!Between(v.merge)) continue;
    const Output value(v.switch_node, 1);
    const AtLine at(v.merge->loc());
    // Uses of the condition's nodes in the body read the value there.
    if (HasGradient(Output(v.merge))) {
      SLUICE_ASSIGN_OR_RETURN(const Gradient there,
                              Total(Output(v.merge), inner));
      Add(value, there);
    }
    SLUICE_ASSIGN_OR_RETURN(const Gradient g, Total(value, inner));
    const Output& begin = v.enter->input(0);
    if (!IsCarried(v)) {
      if (g && Between(begin.node))
        SLUICE_RETURN_IF_ERROR(Accumulate(begin, g, inner));
      continue;
    }
    const auto it = opened.find(static_cast<int>(i));
    if (it == opened.end()) continue;
    const int mine = it->second;
    Output next;
    {
      const ContextScope in_body(back);
      // (A flow without a gradient imposes no order that matters here.)
      next = g                          ? Densify(g, value)
             : IsTensorArrayFlow(value) ? back->variable(mine).body_value
                                        : ZerosFor(value);
    }
    SLUICE_RETURN_IF_ERROR(Built(next).status());
    if (!back->CloseVariable(mine, next)) return Built(Output()).status();
    if (Between(begin.node)) {
      const Output total(back->variable(mine).exit);
      SLUICE_RETURN_IF_ERROR(Check(*v.enter, begin, total));
      Add(begin, total);
    }
  }
  return OkStatus();
}

// The gradient of `x`, a value around the loop: the sum of one summand per
// iteration.
Status Backprop::Accumulate(Output x, const Gradient& g, Level& inner) {
  WhileContext* const back = inner.member->loop();
  const AtLine at(x.node->loc());
  if (g.is_sparse()) {
    SLUICE_ASSIGN_OR_RETURN(
        const Gradient total,
        AccumulateSparse(x, g, inner.member, back->outer()));
    Add(x, total);
    return OkStatus();
  }
  const Node& product = *g.dense.node;
  const bool after =
      ContextOf(g.dense) == back &&
      (IsThinProduct(product, 16) ||
       (IsThinProduct(product, 1) && WrittenRows(product.input(1), inner)));
  SLUICE_ASSIGN_OR_RETURN(
      const Output total,
      after ? ProductAfterLoop(product, inner, back->outer())
            : AccumulateDense(x, g.dense, back, back->outer()));
  if (RemoveRef(x.dtype()) != DType::kResource)
    SLUICE_RETURN_IF_ERROR(graph_->SetShape(total, x.shape()));
  Add(x, total);
  return OkStatus();
}

Result<Output> Backprop::AccumulateDense(Output x, Output g, WhileContext* loop,
                                         ControlFlowContext* around) {
  const NameScope scope(x.node->name() + "_sum");
  Output zeros;
  {
    const ContextScope there(around);
    zeros = ZerosFor(x);
  }
  SLUICE_RETURN_IF_ERROR(Built(zeros).status());
  const int v = loop->OpenVariable(zeros, "sum for " + x.name());
  if (v < 0) return Built(Output()).status();
  Output sum;
  {
    const ContextScope in_body(loop);
    const Output so_far = loop->variable(v).body_value;
    // (The sum of a product is computed in the buffer of the running sum:
    // passes.h, AccumulateProducts.)
    const bool variant = RemoveRef(g.dtype()) == DType::kVariant;
    sum = Build(variant || g.node->op_name() == "MatMul" ? "AddN" : "AddV2",
                {so_far, g}, {}, "sum", {});
    if (sum.valid() && !variant)
      SLUICE_RETURN_IF_ERROR(graph_->SetShape(sum, zeros.shape()));
  }
  SLUICE_RETURN_IF_ERROR(Built(sum).status());
  if (!loop->CloseVariable(v, sum)) return Built(Output()).status();
  return Output(loop->variable(v).exit);
}

// Collects the factors of all iterations: a layer's inputs and the gradients of
// its outputs, which need less memory than the weights if there are few. Their
// stacked rows are two factors, whose single product is the sum.
Result<Output> Backprop::ProductAfterLoop(const Node& product, Level& inner,
                                          ControlFlowContext* around) {
  const ContextScope there(around);
  SLUICE_ASSIGN_OR_RETURN(const Output a,
                          Collect(product.input(0), inner.member));
  Output b;
  if (const Rows written = WrittenRows(product.input(1), inner)) {
    SLUICE_ASSIGN_OR_RETURN(b, Stack(written, product.input(1), inner));
  } else {
    SLUICE_ASSIGN_OR_RETURN(b, Collect(product.input(1), inner.member));
  }
  return Built(Build("MatMul", {a, b}, {{"transpose_a", true}}, "sum", {}));
}

// Where the gradient loop writes `value` already, at the iteration number and
// only there: the gradient array of an array whose elements the forward loop
// reads once per iteration. Null if it does not.
Backprop::Rows Backprop::WrittenRows(const Output& value, Level& inner) {
  WhileContext* const back = inner.member->loop();
  for (; indexed_ < graph_->nodes().size(); ++indexed_) {
    const Node* const n = graph_->nodes()[indexed_].get();
    if (n->op_name() == "TensorArrayWriteV3") writes_[n->input(2)].push_back(n);
  }
  const std::vector<const Node*>& writes = writes_[value];
  const auto found =
      std::find_if(writes.begin(), writes.end(), [&](const Node* n) {
        return n->input(1).SameAs(inner.member->index()) &&
               ContextOf(n) == back;
      });
  if (found == writes.end()) return {};
  const Node* const write = *found;
  const Node* const grad = write->input(0).node;
  if (grad->op_name() != "TensorArrayGradV3" || ContextOf(grad) != back ||
      !IsConstantEnter(*grad->input(0).node))
    return {};
  Rows rows;
  rows.array = grad->input(0).node->input(0);
  for (const LoopVariable& v : back->variables()) {
    if (v.next == nullptr || v.exit == nullptr) continue;
    const Node* const sum = v.next->input(0).node;
    if (sum->op_name() == "AddV2" &&
        sum->input(1).SameAs(Output(const_cast<Node*>(write), 0)))
      rows.flow = Output(v.exit);
  }
  return rows.flow.valid() && IsReadOnceByNumber(rows.array) ? rows : Rows();
}

// True if the array's elements are the rows of one tensor, and are read by one
// node.
bool Backprop::IsReadOnceByNumber(const Output& handle) {
  const Node* const array = TensorArrayBehind(handle);
  if (array == nullptr || array->op_name() != "TensorArrayV3") return false;
  if (array_uses_.empty()) FindArrayUses();
  const ArrayUses uses = array_uses_[array];
  return uses.reads == 1 && uses.scatters == 1 && uses.others == 0;
}

void Backprop::FindArrayUses() {
  for (size_t i = 0; i < between_.size(); ++i) {
    const Node* const n = graph_->nodes()[i].get();
    const std::string& op = n->op_name();
    if (op.rfind("TensorArray", 0) != 0 || n->num_inputs() == 0 ||
        n->input(0).dtype() != DType::kResource || op == "TensorArraySizeV3" ||
        op == "TensorArrayGradV3")
      continue;
    ArrayUses& uses = array_uses_[TensorArrayBehind(n->input(0))];
    ++(op == "TensorArrayReadV3"      ? uses.reads
       : op == "TensorArrayScatterV3" ? uses.scatters
                                      : uses.others);
  }
}

// The rows of one element per iteration, stacked.
Result<Output> Backprop::Stack(const Rows& rows, const Output& like,
                               Level& inner) {
  const Output handle =
      Build("TensorArrayGradV3", {rows.array, rows.flow},
            {{"source", AttrValue(CurrentGradientScope())}}, "rows", {});
  SLUICE_RETURN_IF_ERROR(Built(handle).status());
  const Output all =
      Build("Range",
            {ScalarOf(DType::kInt32, 0), inner.member->family()->count(),
             ScalarOf(DType::kInt32, 1)},
            {}, "", {});
  return Joined(Build("TensorArrayGatherV3", {handle, all, rows.flow},
                      {{"dtype", like.dtype()},
                       {"element_shape", AttrValue(like.shape())}},
                      "", {}),
                like);
}

// [n, rows, width] as [n * rows, width].
Result<Output> Backprop::Joined(const Output& stacked, const Output& like) {
  SLUICE_RETURN_IF_ERROR(Built(stacked).status());
  return Built(Build(
      "Reshape",
      {stacked, IntVector({-1, static_cast<int32_t>(like.shape().dim(1))})}, {},
      "", {}));
}

// One matrix row per iteration, stacked.
Result<Output> Backprop::Collect(Output rows, LoopMember* member) {
  WhileContext* const loop = member->loop();
  const AttrMap attrs = {{"dtype", rows.dtype()},
                         {"element_shape", AttrValue(rows.shape())}};
  AttrMap growing = attrs;
  growing["dynamic_size"] = AttrValue(true);
  Node* const array = BuildNode("TensorArrayV3", {ScalarOf(DType::kInt32, 0)},
                                growing, "rows", {});
  if (array == nullptr) return Built(Output()).status();
  const Output handle(array, 0);
  const int v = loop->OpenVariable(Output(array, 1), "rows");
  if (v < 0) return Built(Output()).status();
  Output written;
  {
    const ContextScope in_body(loop);
    written =
        Build("TensorArrayWriteV3",
              {handle, member->index(), rows, loop->variable(v).body_value}, {},
              "", {});
  }
  SLUICE_RETURN_IF_ERROR(Built(written).status());
  if (!loop->CloseVariable(v, written)) return Built(Output()).status();
  const Output flow(loop->variable(v).exit);
  const Output size = Build("TensorArraySizeV3", {handle, flow}, {}, "", {});
  const Output all = Build(
      "Range", {ScalarOf(DType::kInt32, 0), size, ScalarOf(DType::kInt32, 1)},
      {}, "", {});
  return Joined(
      Build("TensorArrayGatherV3", {handle, all, flow}, attrs, "", {}), rows);
}

// Collects slices in one array for the indices and one for the values, and
// concatenates them after the loop.
Result<Gradient> Backprop::AccumulateSparse(Output x, const Gradient& g,
                                            LoopMember* member,
                                            ControlFlowContext* around) {
  WhileContext* const loop = member->loop();
  const NameScope scope(x.node->name() + "_slices");
  const ContextScope there(around);
  SLUICE_ASSIGN_OR_RETURN(const Gradient none, NoSlices(x, g.indices.dtype()));
  const auto collect = [&](const Output& part, const Output& first,
                           const std::string& name) -> Result<Output> {
    Node* const array =
        BuildNode("TensorArrayV3", {ScalarOf(DType::kInt32, 1)},
                  {{"dtype", part.dtype()}, {"dynamic_size", true}}, name, {});
    if (array == nullptr) return Built(Output()).status();
    // Starts with no slices, so that there is always something to concatenate.
    const Output begun = Build(
        "TensorArrayWriteV3",
        {Output(array, 0), ScalarOf(DType::kInt32, 0), first, Output(array, 1)},
        {}, "", {});
    SLUICE_RETURN_IF_ERROR(Built(begun).status());
    const int v = loop->OpenVariable(begun, name);
    if (v < 0) return Built(Output()).status();
    Output written;
    {
      const ContextScope in_body(loop);
      const Output place = Build(
          "AddV2", {member->index(), ScalarOf(DType::kInt32, 1)}, {}, "", {});
      written =
          Build("TensorArrayWriteV3",
                {Output(array, 0), place, part, loop->variable(v).body_value},
                {}, "", {});
    }
    SLUICE_RETURN_IF_ERROR(Built(written).status());
    if (!loop->CloseVariable(v, written)) return Built(Output()).status();
    PartialShape rows = first.shape();
    AttrMap attrs = {{"dtype", part.dtype()}};
    if (rows.rank() >= 1)
      attrs["element_shape_except0"] =
          AttrValue(PartialShape(std::span<const int64_t>(
              rows.dims().begin() + 1, rows.dims().end())));
    return Built(Build("TensorArrayConcatV3",
                       {Output(array, 0), Output(loop->variable(v).exit)},
                       attrs, "", {}));
  };
  SLUICE_ASSIGN_OR_RETURN(const Output indices,
                          collect(g.indices, none.indices, "indices"));
  SLUICE_ASSIGN_OR_RETURN(const Output values,
                          collect(g.values, none.values, "values"));
  SLUICE_ASSIGN_OR_RETURN(const Output shape, DenseShapeOf(x, g));
  return Gradient::Slices(indices, values, shape);
}

}  // namespace sluice
