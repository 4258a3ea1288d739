#include "client/autodiff/loop_products.h"

#include <algorithm>
#include <string>

#include "graph/frames.h"
#include "graph/graph.h"
#include "graph/tensor_array_info.h"

namespace sluice {
namespace {

bool IsColumns(const Node& product) {
  return !product.BoolAttr("transpose_a") && product.BoolAttr("transpose_b");
}

// The sum of such products touches the whole sum in every iteration, with as
// many multiplications per element as there are rows. True if the factors have
// at most 1 / `times` as many elements as the sum. (Columns are rows as they
// are stored only if they are single ones.)
bool IsThinProduct(const Node& n, int64_t times) {
  if (n.kind() != OpKind::kMatMul) return false;
  const DType t = n.output_type(0);
  const PartialShape &a = n.input(0).shape(), &b = n.input(1).shape();
  if ((t != DType::kFloat && t != DType::kDouble) || !a.fully_known() ||
      !b.fully_known() || a.rank() != 2 || b.rank() != 2)
    return false;
  if (IsColumns(n))
    return a.dim(1) == 1 && times <= std::min(a.dim(0), b.dim(0));
  return n.BoolAttr("transpose_a") && !n.BoolAttr("transpose_b") &&
         a.dim(0) * times <= std::min(a.dim(1), b.dim(1));
}

}  // namespace

// ---- Arrays -----------------------------------------------------------------

bool ArrayUses::HoldsRowsReadOnce(const Output& handle) {
  const Node* const array = TensorArrayBehind(handle);
  if (array == nullptr || array->kind() != OpKind::kTensorArray) return false;
  if (!indexed_) Index();
  const auto it = uses_.find(array);
  return it != uses_.end() && it->second.reads == 1 &&
         it->second.scatters == 1 && it->second.others == 0;
}

void ArrayUses::Index() {
  indexed_ = true;
  for (int i = 0; i < num_nodes_; ++i) {
    ++num_visits_;
    const Node* const n = graph_->nodes()[static_cast<size_t>(i)].get();
    const OpKind kind = n->kind();
    if (!IsContainer(kind) || n->num_inputs() == 0 ||
        n->input(0).dtype() != DType::kResource ||
        kind == OpKind::kTensorArraySize || kind == OpKind::kTensorArrayGrad)
      continue;
    const Node* const array = TensorArrayBehind(n->input(0));
    if (array == nullptr) continue;  // A stack.
    Uses& uses = uses_[array];
    ++(kind == OpKind::kTensorArrayRead      ? uses.reads
       : kind == OpKind::kTensorArrayScatter ? uses.scatters
                                             : uses.others);
  }
}

// ---- Products ---------------------------------------------------------------

LoopProducts::LoopProducts(const LoopMember& loop,
                           const std::vector<LoopSum>& sums, ArrayUses* uses)
    : loop_(loop), uses_(uses) {
  // The gradient of a read is a write to the gradient array: its flow is then
  // the whole gradient of the array's flow, a loop constant.
  for (size_t i = 0; i < sums.size(); ++i) {
    const Node* const write = sums[i].term.dense.node;
    if (write == nullptr || write->kind() != OpKind::kTensorArrayWrite ||
        ContextOf(write) != loop.loop() ||
        !write->input(1).SameAs(loop.index()))
      continue;
    const Node* const grad = write->input(0).node;
    if (grad->kind() != OpKind::kTensorArrayGrad ||
        ContextOf(grad) != loop.loop() ||
        !IsConstantEnter(*grad->input(0).node))
      continue;
    written_.emplace(write->input(2),
                     LoopProduct::Rows{grad->input(0).node->input(0), i});
  }
}

std::vector<LoopProduct> LoopProducts::ProductsOf(const LoopSum& sum) const {
  if (sum.term.is_sparse() || !sum.term) return {};
  const Output& term = sum.term.dense;
  const bool several = term.node->kind() == OpKind::kAddN;
  if (ContextOf(term) != loop_.loop()) return {};
  std::vector<LoopProduct> products;
  for (int i = 0; i < (several ? term.node->num_inputs() : 1); ++i) {
    const auto product = ProductOf(several ? term.node->input(i) : term);
    if (!product.has_value()) return {};
    products.push_back(*product);
  }
  return products;
}

std::optional<LoopProduct> LoopProducts::ProductOf(const Output& term) const {
  const Node& n = *term.node;
  if (ContextOf(term) != loop_.loop() || !IsThinProduct(n, 1))
    return std::nullopt;
  LoopProduct product{n.input(0), n.input(1), IsColumns(n), {}};
  if (!product.columns) product.rows = WrittenRows(n.input(1));
  if (!product.rows.has_value() && !IsThinProduct(n, 16)) return std::nullopt;
  return product;
}

std::optional<LoopProduct::Rows> LoopProducts::WrittenRows(
    const Output& value) const {
  const auto it = written_.find(value);
  if (it == written_.end() || !uses_->HoldsRowsReadOnce(it->second.array))
    return std::nullopt;
  return it->second;
}

}  // namespace sluice
