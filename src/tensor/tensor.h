// Tensor: a typed, shaped value. What flows along every edge.
//
//   Tensor a = Tensor::Of<float>({2, 2}, {1, 2, 3, 4});
//   Tensor b(DType::kInt32, {3});  // Elements are not initialised.
//   std::iota(b.flat<int32_t>().begin(), b.flat<int32_t>().end(), 1);
//   std::cout << a.ToString() << " " << b.ToString() << "\n";
#ifndef SLUICE_TENSOR_TENSOR_H_
#define SLUICE_TENSOR_TENSOR_H_

#include <cstring>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "tensor/buffer.h"
#include "tensor/dtype.h"
#include "tensor/object.h"
#include "tensor/shape.h"

namespace sluice {

// A value type of one cache line. Plain elements of up to 8 bytes in all live
// inside it (a scalar costs no allocation); larger ones in a Buffer that copies
// share. Copying copies the handle. Not thread-safe itself; copies on different
// threads may share a buffer, which nobody writes while it is shared.
//
// Invariants: buffer_ is null exactly if the elements are plain and take at
// most 8 bytes, or there are none, or the tensor is invalid.
class Tensor {
 public:
  // Invalid: dtype() == kInvalid.
  Tensor() : buffer_(nullptr), bits_(0), dtype_(DType::kInvalid) {}

  // Elements of plain types are uninitialised, objects default-constructed.
  static Result<Tensor> Make(DType dtype, const Shape& shape,
                             Allocator* allocator = Allocator::Cpu());
  // As Make, for sizes that cannot fail but for want of memory, which aborts.
  Tensor(DType dtype, const Shape& shape);
  // A view of `buffer` (one reference is taken over) from `data` on.
  Tensor(DType dtype, const Shape& shape, Buffer* buffer, void* data)
      : buffer_(buffer), data_(data), shape_(shape), dtype_(dtype) {}

  template <typename T>
  static Tensor Scalar(T value) {
    if constexpr (std::is_trivially_copyable_v<T> && sizeof(T) <= 8) {
      Tensor t;
      t.SetScalar(value);
      return t;
    } else {
      Tensor t(DTypeOf<T>(), Shape());
      *t.data<T>() = std::move(value);
      return t;
    }
  }
  // Becomes a scalar, in place: what kernels of scalars do to their outputs.
  template <typename T>
  requires(std::is_trivially_copyable_v<T> &&
           sizeof(T) <= 8) void SetScalar(T value) {
    Release();
    buffer_ = nullptr;
    // All eight bytes in one store: a copy of the tensor loads them in one
    // load, which would have to wait for the cache behind a shorter store.
    uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof(T));
    std::memcpy(&bits_, &bits, sizeof(bits));
    shape_.MakeScalar();
    dtype_ = DTypeOf<T>();
  }
  // Vector([1,2,3]) of shape [3]; Of(shape, values) of any shape.
  // REQUIRES: the shape has as many elements as there are values.
  template <typename T>
  static Tensor Vector(std::span<const T> values) {
    return Of<T>(Shape({static_cast<int64_t>(values.size())}), values);
  }
  template <typename T>
  static Tensor Vector(std::initializer_list<T> values) {
    return Vector<T>(std::span<const T>(values.begin(), values.size()));
  }
  template <typename T>
  static Tensor Vector(const std::vector<T>& values) {
    return Vector<T>(std::span<const T>(values));
  }
  template <typename T>
  static Tensor Of(const Shape& shape, std::span<const T> values) {
    Tensor t(DTypeOf<T>(), shape);
    std::copy(values.begin(), values.end(), t.data<T>());
    return t;
  }
  template <typename T>
  static Tensor Of(const Shape& shape, std::initializer_list<T> values) {
    return Of<T>(shape, std::span<const T>(values.begin(), values.size()));
  }
  // Every element zero ("" for strings).
  static Result<Tensor> Zeros(DType dtype, const Shape& shape);

  Tensor(const Tensor& o)
      : buffer_(o.buffer_), shape_(o.shape_), dtype_(o.dtype_) {
    CopyBits(o);
    if (buffer_ != nullptr) buffer_->Ref();
  }
  Tensor(Tensor&& o) noexcept
      : buffer_(std::exchange(o.buffer_, nullptr)),
        shape_(std::move(o.shape_)),
        dtype_(std::exchange(o.dtype_, DType::kInvalid)) {
    CopyBits(o);
  }
  Tensor& operator=(const Tensor& o) {
    if (o.buffer_ != nullptr) o.buffer_->Ref();
    Release();
    buffer_ = o.buffer_;
    CopyBits(o);
    shape_ = o.shape_;
    dtype_ = o.dtype_;
    return *this;
  }
  Tensor& operator=(Tensor&& o) noexcept {
    if (this == &o) return *this;
    Release();
    buffer_ = std::exchange(o.buffer_, nullptr);
    CopyBits(o);
    shape_ = std::move(o.shape_);
    dtype_ = std::exchange(o.dtype_, DType::kInvalid);
    return *this;
  }
  ~Tensor() { Release(); }

  bool valid() const { return dtype_ != DType::kInvalid; }
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  int rank() const { return shape_.rank(); }
  int64_t dim(int i) const { return shape_.dim(i); }
  int64_t num_elements() const { return shape_.num_elements(); }
  // Bytes of plain elements; for objects, of their handles.
  size_t bytes() const;

  const void* raw() const { return buffer_ != nullptr ? data_ : &bits_; }
  // REQUIRES: nobody else reads the buffer (unique(), or freshly made).
  void* raw() { return buffer_ != nullptr ? data_ : &bits_; }
  // REQUIRES: T is the C++ type of dtype(), or of its size for raw moves.
  template <typename T>
  const T* data() const {
    return static_cast<const T*>(raw());
  }
  template <typename T>
  T* data() {
    return static_cast<T*>(raw());
  }
  template <typename T>
  std::span<const T> flat() const {
    return {data<T>(), static_cast<size_t>(num_elements())};
  }
  template <typename T>
  std::span<T> flat() {
    return {data<T>(), static_cast<size_t>(num_elements())};
  }
  // The first element. REQUIRES: num_elements() >= 1.
  template <typename T>
  const T& scalar() const {
    return *data<T>();
  }
  template <typename T>
  std::vector<T> ToVector() const {
    return std::vector<T>(data<T>(), data<T>() + num_elements());
  }

  // True if a write would be seen by nobody else.
  bool unique() const { return buffer_ == nullptr || buffer_->unique(); }
  bool has_buffer() const { return buffer_ != nullptr; }
  // True if what outlives the step must not share the memory (Buffer).
  bool borrowed() const { return buffer_ != nullptr && buffer_->borrowed(); }
  bool SharesBufferWith(const Tensor& o) const {
    return buffer_ != nullptr && buffer_ == o.buffer_;
  }

  // The same elements in another shape, sharing the buffer.
  // InvalidArgument if the number of elements differs.
  Result<Tensor> Reshaped(const Shape& shape) const;
  // Rows [begin, end) of the first dimension, sharing the buffer. REQUIRES:
  // rank >= 1, 0 <= begin <= end <= dim(0).
  Tensor Rows(int64_t begin, int64_t end) const;
  // The same bytes under another dtype of the same element size.
  Tensor BitcastTo(DType dtype) const;
  // A copy that shares nothing.
  Result<Tensor> Clone() const;

  // Same dtype, shape and elements, bit for bit (resources and variants:
  // the same objects).
  bool Identical(const Tensor& o) const;
  // "float[2,3] 1 2 3 ..." with at most `max_elements` elements.
  std::string ToString(int max_elements = 10) const;
  // Elements only, as TensorFlow's Print shows them: "1 2 3...".
  std::string Summarize(int max_elements) const;

 private:
  // Elements of any type are written into bits_ through raw(). Copied as an
  // integer, the compiler would take such a write and the copy for independent
  // (strict aliasing) and swap them.
  void CopyBits(const Tensor& o) {
    std::memcpy(&bits_, &o.bits_, sizeof(bits_));
  }
  void Release() {
    if (buffer_ != nullptr) buffer_->Unref();
  }

  Buffer* buffer_;  // One reference is ours.
  union {
    void* data_;
    uint64_t bits_;
  };
  [[no_unique_address]] Shape shape_;
  DType dtype_;
};

static_assert(sizeof(Tensor) == 64);

}  // namespace sluice

#endif  // SLUICE_TENSOR_TENSOR_H_
