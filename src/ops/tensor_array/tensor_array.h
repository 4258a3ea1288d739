// The state behind a TensorArray handle.
#ifndef SLUICE_OPS_TENSOR_ARRAY_TENSOR_ARRAY_H_
#define SLUICE_OPS_TENSOR_ARRAY_TENSOR_ARRAY_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "exec/core/resources.h"
#include "kernels/simd/binary.h"
#include "ops/common/element_chunks.h"
#include "ops/common/row_group.h"
#include "tensor/shape.h"
#include "tensor/tensor.h"

namespace sluice {

// The declaration of a TensorArrayV3 node. Created once per node, shared by the
// arrays of all its runs.
struct TensorArrayDecl {
  std::string name;  // For messages.
  DType dtype = DType::kInvalid;
  PartialShape element_shape;
  bool dynamic_size = false;
  bool clear_after_read = true;
  bool identical_element_shapes = false;
  // For a gradient array: an element of the forward array may be read several
  // times, so its gradients are added up.
  bool may_sum = false;
};

// An array of tensors, each written once and then read, and the gradient arrays
// that belong to it. Every run of a TensorArrayV3 creates a new one. Its owners
// are the tokens of its handle (and, for a gradient array, its forward array).
// It is in no table, so it is destroyed with the last token of its step,
// however the step ends. Thread-safe; each method takes the array's single lock
// once. Elements of one small shape are copied in and out, and are stored
// contiguously; larger tensors are moved in and, if reads clear them, moved
// out, and are copied only by concatenation.
//
// A gradient array adds values written to the same index, has zeros where
// nothing was written, and has the size that its forward array had when it was
// created; from then on the forward array cannot grow.
class TensorArrayState final : public Resource {
 public:
  // Where elements that were allocated by other nodes are stored.
  enum class Memory : uint8_t {
    kHost,
    kDevice,  // The device accounts for and moves them; only words are copied.
  };
  // REQUIRES: CheckSize(size).
  TensorArrayState(std::shared_ptr<const TensorArrayDecl> options, int64_t size,
                   Memory memory = Memory::kHost, bool is_gradient = false);
  // InvalidArgument or ResourceExhausted if no array can have this size.
  static Status CheckSize(int64_t size);

  std::string TypeName() const override { return "TensorArray"; }
  const std::string& name() const { return options_->name; }
  DType dtype() const { return options_->dtype; }
  // InvalidArgument unless the elements have type t.
  Status CheckType(DType t) const {
    return t == options_->dtype ? OkStatus() : WrongType(t);
  }

  Status Write(int64_t index, Tensor value);
  Status Read(int64_t index, Tensor* value);
  // The same for a scalar of at most eight bytes, the low ones of `bits`.
  // Returns false without any effect if Write or Read must be used instead,
  // possibly to report an error.
  bool WriteScalar(int64_t index, DType dtype, uint64_t bits);
  bool ReadScalar(int64_t index, DType dtype, uint64_t* bits);
  // The elements at `indices`, all of one shape that fits `element_shape`,
  // stacked along a new first dimension.
  Status Gather(std::span<const int32_t> indices,
                const PartialShape& element_shape, Allocator* allocator,
                Tensor* out);
  // Row i of `value` becomes element indices[i].
  Status Scatter(std::span<const int32_t> indices, Tensor value);
  // All elements concatenated along their first dimension, and the length of
  // each.
  Status Concat(const PartialShape& element_shape_except0, Allocator* allocator,
                Tensor* out, Tensor* lengths);
  // The first lengths[0] rows of `value` become element 0, and so on.
  Status Split(const Tensor& value, std::span<const int64_t> lengths);
  Status Size(int32_t* size);
  // Frees all elements; later calls fail with InvalidArgument.
  Status Close();

  // A handle to the gradient array of `source` (a call of Gradients), created
  // at the first request, with `prepend` prepended to the shapes of its
  // elements.
  Status Gradient(const std::string& source, const Shape* prepend,
                  Tensor* handle);

 private:
  enum State : uint8_t {
    kWritten = 1,
    kRead = 2,
    kCleared = 4,
    kShapeOnly = 8,  // Written as zeros of its shape.
    kInRows = 16,    // Packed, and still part of rows_.
  };
  enum class Layout : uint8_t {
    kNone,     // No element was written yet.
    kPacked,   // All have common_shape_, and are in packed_ or rows_.
    kTensors,  // They are in values_, or in rows_ until they are read.
  };

  // Below, REQUIRES: mu_ held.
  Status CheckOpen() const { return closed_ ? Closed() : OkStatus(); }
  Status Put(int64_t index, Tensor&& value);
  Status Sum(size_t i, Tensor&& value);
  Status Take(int64_t index, Tensor* value);
  void FetchNext(size_t i);
  Status MakeZeros(size_t i);
  Status Lay(const Shape& first);
  bool LayScalars();
  Status FitElementShape(int64_t index, const Shape& shape);
  Status Narrow(const PartialShape& shape);
  size_t length() const { return states_.size(); }
  // REQUIRES for these four: packed, element i is written and not cleared.
  const char* PackedAt(size_t i) const;
  Tensor Element(size_t i) const;  // Invalid if out of memory.
  void MarkRead(size_t i);
  Status PackRow(size_t i);
  Status SetElement(size_t i, Tensor&& value);
  bool ScatterAll(std::span<const int32_t> indices, Tensor* value,
                  const Shape& element);
  void TakeRow(size_t i);
  Status Unpack();
  Status GrowTo(int64_t size);
  void Resize(size_t size);
  void SetShape(size_t i, const Shape& shape);
  const Shape& ShapeOf(size_t i) const {
    return shapes_.empty() ? common_shape_ : shapes_[i];
  }
  static Result<Shape> PrependDims(std::span<const int64_t> first,
                                   const Shape& rest);
  Status CopyShapes(const TensorArrayState& forward, const Shape* prepend);
  Status StackTaken(std::span<const int32_t> indices, Allocator* allocator,
                    std::vector<Tensor>* parts, Tensor* out);
  Status CopyTaken(std::span<const int32_t> indices, char* to);
  Status JoinTaken(std::span<const int32_t> indices, const Shape& element,
                   const Tensor& first, Tensor* out);

  // Error paths, kept out of the frequently run code.
  Status WrongType(DType t) const;
  Status Closed() const;
  Status NoMemory() const;
  template <typename... Args>
  Status Error(const Args&... args) const {
    return InvalidArgument("TensorArray '", name(), "': ", args...);
  }

  const std::shared_ptr<const TensorArrayDecl> options_;
  const Memory memory_;
  const bool is_gradient_;
  // All of the following: GUARDED_BY(mu_).
  std::mutex mu_;
  bool closed_ = false;
  bool dynamic_size_;
  bool clear_after_read_;
  bool summed_ = false;         // Some element was written twice.
  PartialShape element_shape_;  // The required shape of the elements.
  bool exact_ = false;          // It is fully known:
  Shape exact_shape_;
  // The elements.
  Layout layout_ = Layout::kNone;
  uint8_t scalar_bytes_ = 0;  // For packed scalars of at most eight bytes.
  ElementChunks packed_;
  std::vector<Tensor> values_;
  // A tensor whose rows are all elements, written at once. Row i is element i
  // until it is read or added to, or until it becomes values_[i] on its first
  // use. Invalid once the last row is used.
  Tensor rows_;
  size_t rows_left_ = 0;
  // The source of separate rows if the tensor had no other owner; for a
  // gradient array, that of the forward array.
  std::shared_ptr<RowGroup> row_group_;
  // For a gradient array: its first elements, if they were stacked. Several
  // nodes may read them, and the array is destroyed with the last one.
  Tensor stacked_;
  std::vector<uint8_t> states_;  // State flags; as long as the array.
  // Shapes of the written elements, kept after reads: one shape while all are
  // equal, else shapes_, as long as the array.
  bool has_common_shape_ = false;
  Shape common_shape_;
  std::vector<Shape> shapes_;
  std::vector<std::pair<std::string, Tensor>> gradients_;  // Source, handle.
  size_t last_read_ = 0;
  simd::BinaryKernel add_;  // Looked up when first needed.
};

inline const char* TensorArrayState::PackedAt(size_t i) const {
  if (states_[i] & kInRows)
    return static_cast<const char*>(rows_.raw()) + i * packed_.bytes();
  return packed_.At(i);
}

inline void TensorArrayState::MarkRead(size_t i) {
  if (!clear_after_read_) {
    states_[i] |= kRead;
    return;
  }
  if (states_[i] & kInRows) [[unlikely]] {
    if (--rows_left_ == 0) rows_ = Tensor();
  } else {
    packed_.Drop(i);
  }
  states_[i] |= kRead | kCleared;
}

}  // namespace sluice

#endif  // SLUICE_OPS_TENSOR_ARRAY_TENSOR_ARRAY_H_
