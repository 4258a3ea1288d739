// How ops on objects (Optionals) run for all instances of a batch. Objects
// cannot be stacked, so these ops have no BatchForm: they read and make values
// in the forms that a batch has them. An op registers it beside its kernel:
//
//   const BatchKernelRegistrar pack_all("OptionalFromValue", {PackAll});
#ifndef SLUICE_EXEC_BATCHING_BATCH_OBJECTS_H_
#define SLUICE_EXEC_BATCHING_BATCH_OBJECTS_H_

#include <cstddef>
#include <span>
#include <vector>

#include "exec/core/kernel.h"

namespace sluice {

// What all instances of a node read or make, in one or more of three forms.
struct BatchValue {
  bool is_shared = false, is_stacked = false, is_each = false;
  Tensor shared;             // The same for all instances.
  Tensor stacked;            // [k, ...]: one after the other.
  std::vector<Tensor> each;  // One by one.
  void Clear();
};

// The values of the instances in `stacked`, which outlives it: views.
class PartsOf {
 public:
  explicit PartsOf(const Tensor& stacked)
      : stacked_(stacked),
        shape_(stacked.shape().dims().subspan(1)),
        bytes_(stacked.bytes() / static_cast<size_t>(stacked.dim(0))) {}
  Tensor operator[](size_t i) const;

 private:
  const Tensor& stacked_;
  const Shape shape_;
  const size_t bytes_;
};

// One run for all instances.
struct BatchCall {
  const Node& node;
  const Kernel& kernel;  // That of one instance.
  size_t count;          // Of the instances.
  Allocator* allocator;
  std::span<BatchValue* const> inputs;
  const std::vector<bool>& last_read;  // By input: it may take the tensors.
  std::span<BatchValue> outputs;       // Empty; each gets a form.
};

// After an error nothing was taken, and the instances run one by one.
using BatchKernel = Status (*)(BatchCall&);

// How an op on objects runs. A value type.
struct ObjectForm {
  BatchKernel kernel = nullptr;  // Null: it has none.
  // Whether two instances with these objects as input 0 belong together: what
  // batches share in them (weights) is the same. Null: always.
  bool (*fits)(const Tensor& a, const Tensor& b) = nullptr;
  // Where the elements that input 0 stands for begin; null if they are in no
  // common buffer. Null: never are.
  const void* (*place)(const Tensor& object) = nullptr;
};

// Static initialisers only; `op` has static lifetime.
struct BatchKernelRegistrar {
  BatchKernelRegistrar(const char* op, ObjectForm form);
};

ObjectForm FindObjectForm(const Node& n);

// Tensors of at most so many bytes are compared by value (axes, sizes).
constexpr size_t kComparedBytes = 64;

// Whether both are the same elements: in the same place, or few and equal.
bool SameTensor(const Tensor& a, const Tensor& b);

}  // namespace sluice

#endif  // SLUICE_EXEC_BATCHING_BATCH_OBJECTS_H_
