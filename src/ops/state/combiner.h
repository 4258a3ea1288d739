// How an op that updates parts of a variable combines old and new elements.
#ifndef SLUICE_OPS_STATE_COMBINER_H_
#define SLUICE_OPS_STATE_COMBINER_H_

#include <optional>

#include "exec/core/kernel.h"
#include "kernels/simd/binary.h"

namespace sluice::state {

// Replaces elements of a variable, or combines them with the updates by an op.
// A value type; immutable once made.
class Combiner {
 public:
  // For a node whose input 2 holds the updates; nullopt: they replace the
  // elements. For bool, which has no sum and no difference, kAdd is the logical
  // or, and kSub the logical exclusive or. NoKernelFor types that do not
  // support the op.
  static Result<Combiner> Make(const Node& n, std::optional<simd::BinaryOp> op);

  // Of the updates, and so of the variable.
  DType dtype() const { return dtype_; }

  // Combines elements [from, from + n) of `updates`, or its only element if it
  // is a scalar, into elements [at, at + n) of `target`. False: an integer was
  // divided by zero. REQUIRES: both have type dtype() and hold the elements.
  bool Run(const Tensor& updates, int64_t from, int64_t n, Tensor& target,
           int64_t at) const;

 private:
  DType dtype_ = DType::kInvalid;
  simd::BinaryKernel op_;  // Invalid: elements are replaced.
};

}  // namespace sluice::state

#endif  // SLUICE_OPS_STATE_COMBINER_H_
