#include "ops/state/combiner.h"

#include "ops/common/elements.h"

namespace sluice::state {

using simd::BinaryOp;

Result<Combiner> Combiner::Make(const Node& n, std::optional<BinaryOp> op) {
  Combiner c;
  c.dtype_ = RemoveRef(n.input_type(2));
  if (!op.has_value()) return c;
  if (c.dtype_ == DType::kBool && *op == BinaryOp::kAdd)
    op = BinaryOp::kLogicalOr;
  if (c.dtype_ == DType::kBool && *op == BinaryOp::kSub)
    op = BinaryOp::kNotEqual;
  c.op_ = simd::GetBinary(*op, c.dtype_);
  if (!c.op_) return NoKernelFor(n, c.dtype_);
  return c;
}

bool Combiner::Run(const Tensor& updates, int64_t from, int64_t n,
                   Tensor& target, int64_t at) const {
  const bool scalar = updates.rank() == 0;
  const void* in = array::At(dtype_, updates.raw(), scalar ? 0 : from);
  void* to = array::At(dtype_, target.raw(), at);
  if (op_)
    return op_.fn(
        scalar ? simd::Operands::kVectorScalar : simd::Operands::kVectorVector,
        to, in, to, n);
  if (scalar)
    array::FillRun(dtype_, in, to, n);
  else
    array::CopyRun(dtype_, in, to, n);
  return true;
}

}  // namespace sluice::state
