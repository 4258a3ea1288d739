// How an op's kernel computes several instances of a node in one call, for
// automatic batching (exec/batching/batch_stage.h). An op registers its form
// beside its kernel:
//
//   const BatchFormRegistrar softmax_batch("Softmax", [](const Node&) {
//     return std::optional(BatchForm{});  // Each row for itself.
//   });
//
// Elementwise ops have one already: that of their BlockForm.
#ifndef SLUICE_EXEC_BATCHING_BATCH_FORM_H_
#define SLUICE_EXEC_BATCHING_BATCH_FORM_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "exec/core/kernel.h"

namespace sluice {

// A value type. The inputs of k instances, which have the same shapes, become
// one input each: their elements one after the other. The kernel's outputs are
// those of the instances, in the same order.
struct BatchForm {
  enum Axis : uint8_t {
    kRows,  // Along dimension 0: [r, ...] of each becomes [k * r, ...], and
            // each output is k times as long in its dimension 0.
    kNew,   // Along a new dimension 0: [...] becomes [k, ...], and so do the
            // outputs.
  };
  Axis axis = kRows;
  // Bit i: input i is not stacked, and must be the same tensor, or have equal
  // elements, in all instances.
  uint32_t shared = 0;
  // The kernel broadcasts its inputs by NumPy's rules (only with kNew).
  bool broadcasts = false;
  // Checks the inputs of one instance, where the form depends on more than the
  // node, and may change shared ones for the batch. False: the instances run
  // one by one. Null: no check.
  bool (*accepts)(std::span<Tensor> inputs) = nullptr;
};

// Returns the form of a node; none if its attributes do not allow one.
using BatchFormFinder = std::optional<BatchForm> (*)(const Node&);

// Static initialisers only; `op` has static lifetime.
struct BatchFormRegistrar {
  BatchFormRegistrar(const char* op, BatchFormFinder finder);
};

// The registered form, or that of the node's BlockForm; else none.
std::optional<BatchForm> FindBatchForm(const Node& n, const Kernel& k);

// The names of the ops with a registered form, in alphabetic order.
std::vector<std::string> OpsWithBatchForm();

// ---- For BatchForm::accepts -------------------------------------------------

// Each changes an input of type int32 or int64 that says what to do with the
// dimensions of another, so that it holds for one with a new dimension 0. False
// if it is not valid for the instance.

// Axes of a tensor of this rank.
bool MoveAxes(Tensor* axes, int rank);
// One element, or row of elements, for each dimension: puts one for the new
// dimension, whose elements are all `value`, in front.
bool PutFirst(Tensor* per_dimension, int64_t value);

// ---- Common forms -----------------------------------------------------------

// `kShared` as BatchForm::shared.

// Each row, along dimension 0, for itself.
template <uint32_t kShared = 0>
std::optional<BatchForm> RowByRow(const Node&) {
  return BatchForm{.shared = kShared};
}

// The last `kRank` dimensions of the stacked inputs belong together; any number
// may be in front of them, and are treated alike.
template <int kRank, uint32_t kShared = 0>
std::optional<BatchForm> PartByPart(const Node&) {
  return BatchForm{.axis = BatchForm::kNew,
                   .shared = kShared,
                   .accepts = [](std::span<Tensor> inputs) {
                     for (size_t i = 0; i < inputs.size(); ++i)
                       if ((kShared >> i & 1) == 0 && inputs[i].rank() < kRank)
                         return false;
                     return true;
                   }};
}

// The same of ops that broadcast the dimensions in front by NumPy's rules.
template <int kRank>
std::optional<BatchForm> BroadcastParts(const Node& n) {
  std::optional<BatchForm> form = PartByPart<kRank>(n);
  form->broadcasts = true;
  return form;
}

// Along the axes in input kAxes, which are those of input 0, or of input 1 if
// kAxes is 0.
template <int kAxes, uint32_t kShared = 1u << kAxes>
std::optional<BatchForm> AlongAxes(const Node&) {
  return BatchForm{.axis = BatchForm::kNew,
                   .shared = kShared,
                   .accepts = [](std::span<Tensor> inputs) {
                     return MoveAxes(&inputs[kAxes],
                                     inputs[kAxes == 0 ? 1 : 0].rank());
                   }};
}

// Input kParameters has an element or row for each dimension of input 0; that
// for the new one is `kValue`.
template <int kParameters, int64_t kValue, uint32_t kShared = 1u << kParameters>
std::optional<BatchForm> ByDimension(const Node&) {
  return BatchForm{.axis = BatchForm::kNew,
                   .shared = kShared,
                   .accepts = [](std::span<Tensor> inputs) {
                     return PutFirst(&inputs[kParameters], kValue);
                   }};
}

}  // namespace sluice

#endif  // SLUICE_EXEC_BATCHING_BATCH_FORM_H_
