#include "client/autodiff/loop_sums.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "client/autodiff/gradient_values.h"
#include "graph/builder.h"
#include "graph/control_flow.h"
#include "graph/deferred_sums.h"
#include "graph/gradient_scope.h"
#include "graph/graph.h"
#include "graph/tensor_array_info.h"

namespace sluice {
namespace {

// Lives for the sums of one loop.
class LoopSumBuilder {
 public:
  LoopSumBuilder(LoopMember* member, const std::vector<LoopSum>& sums,
                 ArrayUses* uses)
      : member_(member),
        loop_(member->loop()),
        around_(loop_->outer()),
        sums_(sums),
        products_(*member, sums, uses),
        totals_(sums.size()) {}

  Result<std::vector<Gradient>> BuildAll();

 private:
  Status BuildTotal(size_t i);
  Result<Gradient> TotalOf(const LoopSum& sum);
  Result<Output> InLoop(const Output& x, const Output& g);
  Result<Output> Deferred(const Output& x, const Output& g);
  Result<Output> AfterLoop(const std::vector<LoopProduct>& products);
  Result<Output> AfterLoop(const LoopProduct& product);
  Result<Output> Collect(const Output& rows, bool columns);
  Result<Output> Stack(const Output& array, const Output& flow,
                       const Output& like);
  Result<Gradient> OfSlices(const Output& x, const Gradient& g);

  LoopMember* const member_;
  WhileContext* const loop_;
  ControlFlowContext* const around_;
  const std::vector<LoopSum>& sums_;
  const LoopProducts products_;
  std::vector<Gradient> totals_;
};

Result<std::vector<Gradient>> LoopSumBuilder::BuildAll() {
  // Flows first: the arrays written through them are used for the others.
  for (const bool flows : {true, false})
    for (size_t i = 0; i < sums_.size(); ++i)
      if (IsTensorArrayFlow(sums_[i].x) == flows)
        SLUICE_RETURN_IF_ERROR(BuildTotal(i));
  return totals_;
}

Status LoopSumBuilder::BuildTotal(size_t i) {
  if (!totals_[i]) {
    SLUICE_ASSIGN_OR_RETURN(totals_[i], TotalOf(sums_[i]));
  }
  return OkStatus();
}

Result<Gradient> LoopSumBuilder::TotalOf(const LoopSum& sum) {
  const Output& x = sum.x;
  const AtLine at(x.node->loc());
  if (sum.term.is_sparse()) return OfSlices(x, sum.term);
  const std::vector<LoopProduct> products = products_.ProductsOf(sum);
  SLUICE_ASSIGN_OR_RETURN(const Output total, !products.empty()
                                                  ? AfterLoop(products)
                                              : HasDeferredTerm(sum.term.dense)
                                                  ? Deferred(x, sum.term.dense)
                                                  : InLoop(x, sum.term.dense));
  if (RemoveRef(x.dtype()) != DType::kResource)
    SLUICE_RETURN_IF_ERROR(x.graph()->SetShape(total, x.shape()));
  return Gradient(total);
}

// The matrix products that g adds, or g itself if it is one; empty if it has
// other terms.
std::vector<Output> ProductsIn(const Output& g) {
  const bool several = g.node->kind() == OpKind::kAddN;
  std::vector<Output> products;
  for (int i = 0; i < (several ? g.node->num_inputs() : 1); ++i) {
    products.push_back(several ? g.node->input(i) : g);
    if (products.back().node->kind() != OpKind::kMatMul) return {};
  }
  return products;
}

Result<Output> LoopSumBuilder::InLoop(const Output& x, const Output& g) {
  const NameScope scope(x.node->name() + "_sum");
  Output zeros;
  {
    const ContextScope there(around_);
    zeros = ZerosFor(x);
  }
  SLUICE_RETURN_IF_ERROR(Built(zeros).status());
  const int v = loop_->OpenVariable(zeros, "sum for " + x.name());
  if (v < 0) return Built(Output()).status();
  Output sum;
  {
    const ContextScope in_body(loop_);
    const Output so_far = loop_->variable(v).body_value;
    // (The sum of products is computed in the buffer of the running sum:
    // passes.h, AccumulateProducts.)
    const bool variant = RemoveRef(g.dtype()) == DType::kVariant;
    const std::vector<Output> products = ProductsIn(g);
    std::vector<Output> terms = {so_far};
    if (products.empty())
      terms.push_back(g);
    else
      terms.insert(terms.end(), products.begin(), products.end());
    sum = Build(variant || !products.empty() ? "AddN" : "AddV2", terms, {},
                "sum", {});
    if (sum.valid() && !variant)
      SLUICE_RETURN_IF_ERROR(x.graph()->SetShape(sum, zeros.shape()));
  }
  SLUICE_RETURN_IF_ERROR(Built(sum).status());
  if (!loop_->CloseVariable(v, sum)) return Built(Output()).status();
  return Output(loop_->variable(v).exit);
}

// The gradients of calls are deferred sums: their sum is one, too, which is
// computed after the loop.
Result<Output> LoopSumBuilder::Deferred(const Output& x, const Output& g) {
  const NameScope scope(x.node->name() + "_sum");
  const ContextScope there(around_);
  const Output none = Build("DeferredNone", {}, {}, "none", {});
  SLUICE_RETURN_IF_ERROR(Built(none).status());
  const int v = loop_->OpenVariable(none, "sum for " + x.name());
  if (v < 0) return Built(Output()).status();
  Output sum;
  {
    const ContextScope in_body(loop_);
    sum = Build("DeferredAdd",
                {loop_->variable(v).body_value, DeferredSums().Of(g)}, {},
                "sum", {});
  }
  SLUICE_RETURN_IF_ERROR(Built(sum).status());
  if (!loop_->CloseVariable(v, sum)) return Built(Output()).status();
  return Built(DeferredValueOf(Output(loop_->variable(v).exit), x));
}

Result<Output> LoopSumBuilder::AfterLoop(
    const std::vector<LoopProduct>& products) {
  std::vector<Output> sums;
  for (const LoopProduct& p : products) {
    SLUICE_ASSIGN_OR_RETURN(sums.emplace_back(), AfterLoop(p));
  }
  if (sums.size() == 1) return sums[0];
  const ContextScope there(around_);
  return Built(Build("AddN", sums, {}, "sum", {}));
}

// Collects the factors of all iterations: a layer's inputs and the gradients of
// its outputs, which need less memory than the weights if there are few. Their
// stacked rows are two factors, whose single product is the sum.
Result<Output> LoopSumBuilder::AfterLoop(const LoopProduct& product) {
  const ContextScope there(around_);
  SLUICE_ASSIGN_OR_RETURN(const Output a, Collect(product.a, product.columns));
  Output b;
  if (product.rows.has_value()) {
    // (The flow may have passed through nodes by which it is not recognised.)
    const size_t flow = product.rows->flow;
    SLUICE_RETURN_IF_ERROR(BuildTotal(flow));
    SLUICE_ASSIGN_OR_RETURN(
        b, Stack(product.rows->array, totals_[flow].dense, product.b));
  } else {
    SLUICE_ASSIGN_OR_RETURN(b, Collect(product.b, product.columns));
  }
  return Built(Build("MatMul", {a, b}, {{"transpose_a", true}}, "sum", {}));
}

// [n, rows, width] as [n * rows, width].
Result<Output> Joined(const Output& stacked, int64_t width) {
  SLUICE_RETURN_IF_ERROR(Built(stacked).status());
  return Built(Build("Reshape",
                     {stacked, IntVector({-1, static_cast<int32_t>(width)})},
                     {}, "", {}));
}

// The elements of an array's gradient array, one per iteration, stacked.
// `flow`: that of the gradient array when all are written.
Result<Output> LoopSumBuilder::Stack(const Output& array, const Output& flow,
                                     const Output& like) {
  const Output handle =
      Build("TensorArrayGradV3", {array, flow},
            {{"source", AttrValue(CurrentGradientScope())}}, "rows", {});
  SLUICE_RETURN_IF_ERROR(Built(handle).status());
  const Output all =
      Build("Range",
            {ScalarOf(DType::kInt32, 0), member_->family()->count(),
             ScalarOf(DType::kInt32, 1)},
            {}, "", {});
  return Joined(Build("TensorArrayGatherV3", {handle, all, flow},
                      {{"dtype", like.dtype()},
                       {"element_shape", AttrValue(like.shape())}},
                      "", {}),
                like.shape().dim(1));
}

// The rows of a matrix per iteration, or its one column as a row, stacked.
Result<Output> LoopSumBuilder::Collect(const Output& rows, bool columns) {
  const AttrMap attrs = {{"dtype", rows.dtype()},
                         {"element_shape", AttrValue(rows.shape())}};
  AttrMap growing = attrs;
  growing["dynamic_size"] = AttrValue(true);
  Node* const array = BuildNode("TensorArrayV3", {ScalarOf(DType::kInt32, 0)},
                                growing, "rows", {});
  if (array == nullptr) return Built(Output()).status();
  const Output handle(array, 0);
  const int v = loop_->OpenVariable(Output(array, 1), "rows");
  if (v < 0) return Built(Output()).status();
  Output written;
  {
    const ContextScope in_body(loop_);
    written =
        Build("TensorArrayWriteV3",
              {handle, member_->index(), rows, loop_->variable(v).body_value},
              {}, "", {});
  }
  SLUICE_RETURN_IF_ERROR(Built(written).status());
  if (!loop_->CloseVariable(v, written)) return Built(Output()).status();
  const Output flow(loop_->variable(v).exit);
  const Output size = Build("TensorArraySizeV3", {handle, flow}, {}, "", {});
  const Output all = Build(
      "Range", {ScalarOf(DType::kInt32, 0), size, ScalarOf(DType::kInt32, 1)},
      {}, "", {});
  return Joined(
      Build("TensorArrayGatherV3", {handle, all, flow}, attrs, "", {}),
      rows.shape().dim(columns ? 0 : 1));
}

// Collects slices in one array for the indices and one for the values, and
// concatenates them after the loop.
Result<Gradient> LoopSumBuilder::OfSlices(const Output& x, const Gradient& g) {
  const NameScope scope(x.node->name() + "_slices");
  const ContextScope there(around_);
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
    const int v = loop_->OpenVariable(begun, name);
    if (v < 0) return Built(Output()).status();
    Output written;
    {
      const ContextScope in_body(loop_);
      const Output place = Build(
          "AddV2", {member_->index(), ScalarOf(DType::kInt32, 1)}, {}, "", {});
      written =
          Build("TensorArrayWriteV3",
                {Output(array, 0), place, part, loop_->variable(v).body_value},
                {}, "", {});
    }
    SLUICE_RETURN_IF_ERROR(Built(written).status());
    if (!loop_->CloseVariable(v, written)) return Built(Output()).status();
    PartialShape rows = first.shape();
    AttrMap attrs = {{"dtype", part.dtype()}};
    if (rows.rank() >= 1)
      attrs["element_shape_except0"] =
          AttrValue(PartialShape(std::span<const int64_t>(
              rows.dims().begin() + 1, rows.dims().end())));
    return Built(Build("TensorArrayConcatV3",
                       {Output(array, 0), Output(loop_->variable(v).exit)},
                       attrs, "", {}));
  };
  SLUICE_ASSIGN_OR_RETURN(const Output indices,
                          collect(g.indices, none.indices, "indices"));
  SLUICE_ASSIGN_OR_RETURN(const Output values,
                          collect(g.values, none.values, "values"));
  SLUICE_ASSIGN_OR_RETURN(const Output shape, DenseShapeOf(x, g));
  return Gradient::Slices(indices, values, shape);
}

}  // namespace

Result<std::vector<Gradient>> BuildLoopSums(LoopMember* loop,
                                            const std::vector<LoopSum>& sums,
                                            ArrayUses* uses) {
  return LoopSumBuilder(loop, sums, uses).BuildAll();
}

}  // namespace sluice
