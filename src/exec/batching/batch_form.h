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

// For BatchForm::accepts: whether the axes in an input of type int32 or int64
// leave out dimension 0 of a tensor of this rank.
bool LeavesOutFirstAxis(const Tensor& axes, int rank);

}  // namespace sluice

#endif  // SLUICE_EXEC_BATCHING_BATCH_FORM_H_
