// The state behind a TensorArray handle.
#ifndef SLUICE_OPS_TENSOR_ARRAY_H_
#define SLUICE_OPS_TENSOR_ARRAY_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "exec/resources.h"
#include "kernels/simd/binary.h"
#include "ops/element_chunks.h"
#include "ops/row_group.h"
#include "tensor/shape.h"
#include "tensor/tensor.h"

namespace sluice {

// What a TensorArrayV3 node declares. Made once per node, shared by the arrays
// of all its runs.
struct TensorArrayDecl {
  std::string name;  // For messages.
  DType dtype = DType::kInvalid;
  PartialShape element_shape;
  bool dynamic_size = false;
  bool clear_after_read = true;
  bool identical_element_shapes = false;
  // Of a gradient array: the reads of one element may be many, whose gradients
  // it adds up.
  bool may_sum = false;
};

// An array of tensors, each written once and then read, and the gradient arrays
// that belong to it. Every run of a TensorArrayV3 makes a new one. Its owners
// are the tokens of its handle (and, for a gradient array, the array that it is
// the gradient of): no table names it, so that it dies with the last token of
// its step, however the step ends. Any thread may call any method; each takes
// the array's one lock once. Elements of one small shape are copied in and out,
// and lie one behind the other; larger tensors move in and, where they are
// cleared by the read, out, and nothing of them is copied but what is joined.
//
// A gradient array sums what is written to one index, has zeros where nothing
// was, and has the size that its forward array had when it was made; from then
// on that one does not grow.
class TensorArrayState final : public Resource {
 public:
  // Where the elements are, whose tensors others made.
  enum class Memory : uint8_t {
    kHost,
    kDevice,  // A device counts them, and moves them: only words are copied.
  };
  // REQUIRES: CheckSize(size).
  TensorArrayState(std::shared_ptr<const TensorArrayDecl> options, int64_t size,
                   Memory memory = Memory::kHost, bool is_gradient = false);
  // InvalidArgument or ResourceExhausted if no array can be as long.
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
  // False, and nothing done: this is a matter for Write or Read, if only for
  // its error.
  bool WriteScalar(int64_t index, DType dtype, uint64_t bits);
  bool ReadScalar(int64_t index, DType dtype, uint64_t* bits);
  // The elements at `indices`, all of one shape that fits `element_shape`,
  // along a new first dimension.
  Status Gather(std::span<const int32_t> indices,
                const PartialShape& element_shape, Allocator* allocator,
                Tensor* out);
  // Row i of `value` becomes element indices[i].
  Status Scatter(std::span<const int32_t> indices, Tensor value);
  // All elements joined along their first dimension, and how long each is.
  Status Concat(const PartialShape& element_shape_except0, Allocator* allocator,
                Tensor* out, Tensor* lengths);
  // The first lengths[0] rows of `value` become element 0, and so on.
  Status Split(const Tensor& value, std::span<const int64_t> lengths);
  Status Size(int32_t* size);
  // Forgets all elements; InvalidArgument from then on.
  Status Close();

  // A handle to the gradient array of `source` (a call of Gradients), made at
  // the first request, with `prepend` before the shapes of its elements.
  Status Gradient(const std::string& source, const Shape* prepend,
                  Tensor* handle);

 private:
  enum State : uint8_t {
    kWritten = 1,
    kRead = 2,
    kCleared = 4,
    kShapeOnly = 8,  // Written, and stands for zeros of its shape.
    kInRows = 16,    // Packed, and still part of rows_.
  };
  enum class Layout : uint8_t {
    kNone,     // No element came yet.
    kPacked,   // All have common_shape_, and lie in packed_ or rows_.
    kTensors,  // They are values_, or will be, from rows_.
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
  // REQUIRES, four of them: packed, element i is written and not cleared.
  const char* PackedAt(size_t i) const;
  Tensor Element(size_t i) const;  // Invalid for want of memory.
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

  // Errors, away from the paths that run often.
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
  // GUARDED_BY(mu_), all of them.
  std::mutex mu_;
  bool closed_ = false;
  bool dynamic_size_;
  bool clear_after_read_;
  bool summed_ = false;         // Some element was written twice.
  PartialShape element_shape_;  // What is asked of the elements' shapes.
  bool exact_ = false;          // It is fully known:
  Shape exact_shape_;
  // The elements.
  Layout layout_ = Layout::kNone;
  uint8_t scalar_bytes_ = 0;  // Of packed scalars of at most eight bytes.
  ElementChunks packed_;
  std::vector<Tensor> values_;
  // Rows that make up all elements, written at once. Row i is element i until
  // it is read, or added to; or until it becomes values_[i] when it is first
  // wanted. None when the last one has.
  Tensor rows_;
  size_t rows_left_ = 0;
  // What gives them if nobody else had the tensor; of a gradient array, what
  // gave those of the forward array.
  std::shared_ptr<RowGroup> row_group_;
  // Of a gradient array, its first elements, if they were stacked: several may
  // want them, and the array is gone with the last who does.
  Tensor stacked_;
  std::vector<uint8_t> states_;  // Of State; as long as the array.
  // Shapes of what was written, also after it was read: one for all as long as
  // they are the same, else shapes_ as long as the array.
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

#endif  // SLUICE_OPS_TENSOR_ARRAY_H_
