// Tensor: a typed, shaped value, which flows along the edges of a graph.
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

// A value type of one cache line. In host memory, plain elements of up to 8
// bytes in total live inside it (a scalar costs no allocation); all others live
// in a Buffer that copies share. Copying copies the handle. A Tensor is not
// thread-safe; copies on different threads may share a buffer, which is never
// written while it is shared.
//
// Functions that make tensors come in two forms. Make... and Zeros return a
// Result. Constructors, Of, Vector, Rows and BitcastTo return a tensor, which
// is invalid if they fail: status() holds the reason, and so does the error of
// any use of the tensor (as a feed, a constant, an attribute).
//
// Element accessors check type and count in every build and also come in two
// forms. Try... return a Result; use them for tensors whose type or shape is
// external input. The others end the process when misused, as `*result` does
// for a Result that holds an error, with a message that names the request, the
// tensor and the caller's line. Only raw... do not check: they are for kernels,
// whose op declarations guarantee the types of the inputs.
//
// Invariants: buffer_ is null exactly if the elements are plain, take at most 8
// bytes and are in host memory, or there are no elements, or the tensor is
// invalid without a known reason.
class Tensor {
 public:
  // Invalid: dtype() == kInvalid.
  Tensor() : buffer_(nullptr), bits_(0), dtype_(DType::kInvalid) {}
  // Invalid, with this as status() (which is not OK).
  static Tensor Invalid(const Status& why);

  // Elements of plain types are uninitialised; objects are default-constructed.
  // Plain elements are in the allocator's memory, objects on the host.
  // InvalidArgument if the shape is not valid() or the type has no elements.
  static Result<Tensor> Make(DType dtype, const Shape& shape,
                             Allocator* allocator = Allocator::Cpu());
  Tensor(DType dtype, const Shape& shape, const char* file = __builtin_FILE(),
         int line = __builtin_LINE());
  // A view of `buffer` that starts at `data`; takes over one reference, on
  // errors too. InvalidArgument if not all elements are in the buffer.
  static Result<Tensor> MakeView(DType dtype, const Shape& shape,
                                 Buffer* buffer, void* data);
  Tensor(DType dtype, const Shape& shape, Buffer* buffer, void* data);

  template <typename T>
  static Tensor Scalar(T value) {
    if constexpr (std::is_trivially_copyable_v<T> && sizeof(T) <= 8) {
      Tensor t;
      t.SetScalar(value);
      return t;
    } else {
      Tensor t(DTypeOf<T>(), Shape());
      if (t.valid()) *t.raw<T>() = std::move(value);
      return t;
    }
  }
  // Makes this a scalar in place; scalar kernels write their outputs with it.
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
  // Vector({1, 2, 3}) has shape [3]; Of(shape, values) has any shape with as
  // many elements as there are values.
  template <typename T>
  static Result<Tensor> MakeOf(const Shape& shape, std::span<const T> values) {
    SLUICE_RETURN_IF_ERROR(CheckCount(shape, values.size()));
    SLUICE_ASSIGN_OR_RETURN(Tensor t, Make(DTypeOf<T>(), shape));
    std::copy(values.begin(), values.end(), t.raw<T>());
    return t;
  }
  template <typename T>
  static Result<Tensor> MakeVector(std::span<const T> values) {
    return MakeOf(Shape({static_cast<int64_t>(values.size())}), values);
  }
  template <typename T>
  static Tensor Of(const Shape& shape, std::span<const T> values,
                   const char* file = __builtin_FILE(),
                   int line = __builtin_LINE()) {
    return OrInvalid(MakeOf(shape, values), file, line);
  }
  template <typename T>
  static Tensor Of(const Shape& shape, std::initializer_list<T> values,
                   const char* file = __builtin_FILE(),
                   int line = __builtin_LINE()) {
    return Of<T>(shape, std::span<const T>(values.begin(), values.size()), file,
                 line);
  }
  template <typename T>
  static Tensor Vector(std::span<const T> values,
                       const char* file = __builtin_FILE(),
                       int line = __builtin_LINE()) {
    return Of<T>(Shape({static_cast<int64_t>(values.size())}), values, file,
                 line);
  }
  template <typename T>
  static Tensor Vector(std::initializer_list<T> values,
                       const char* file = __builtin_FILE(),
                       int line = __builtin_LINE()) {
    return Vector<T>(std::span<const T>(values.begin(), values.size()), file,
                     line);
  }
  template <typename T>
  static Tensor Vector(const std::vector<T>& values,
                       const char* file = __builtin_FILE(),
                       int line = __builtin_LINE()) {
    return Vector<T>(std::span<const T>(values), file, line);
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
  // OK if valid(), else why it is not.
  Status status() const;
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  int rank() const { return shape_.rank(); }
  // -1 if there is no dimension i.
  int64_t dim(int i) const { return shape_.dim(i); }
  int64_t num_elements() const { return shape_.num_elements(); }
  // Size of plain elements in bytes; for objects, of their handles.
  size_t bytes() const;

  // The elements as T, which must be the C++ type of dtype().
  template <typename T>
  const T* data(const char* file = __builtin_FILE(),
                int line = __builtin_LINE()) const {
    RequireType<T>("data", file, line);
    return raw<T>();
  }
  // REQUIRES: no other tensor reads the buffer (unique(), or freshly made).
  template <typename T>
  T* data(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    RequireType<T>("data", file, line);
    return raw<T>();
  }
  template <typename T>
  std::span<const T> flat(const char* file = __builtin_FILE(),
                          int line = __builtin_LINE()) const {
    RequireType<T>("flat", file, line);
    return raw_flat<T>();
  }
  template <typename T>
  std::span<T> flat(const char* file = __builtin_FILE(),
                    int line = __builtin_LINE()) {
    RequireType<T>("flat", file, line);
    return raw_flat<T>();
  }
  template <typename T>
  std::vector<T> ToVector(const char* file = __builtin_FILE(),
                          int line = __builtin_LINE()) const {
    RequireType<T>("ToVector", file, line);
    return std::vector<T>(raw<T>(), raw<T>() + num_elements());
  }
  // The first element. REQUIRES: there is one.
  template <typename T>
  const T& scalar(const char* file = __builtin_FILE(),
                  int line = __builtin_LINE()) const {
    if (dtype_ != DTypeOf<T>() || num_elements() < 1) [[unlikely]]
      Misused("scalar", CheckScalar(DTypeOf<T>()), file, line);
    return *raw<T>();
  }

  // The same for tensors whose type or shape is external input. InvalidArgument
  // if they do not match the request.
  template <typename T>
  Result<std::span<const T>> TryFlat() const {
    SLUICE_RETURN_IF_ERROR(CheckType(DTypeOf<T>()));
    return raw_flat<T>();
  }
  template <typename T>
  Result<std::vector<T>> TryToVector() const {
    SLUICE_RETURN_IF_ERROR(CheckType(DTypeOf<T>()));
    return std::vector<T>(raw<T>(), raw<T>() + num_elements());
  }
  template <typename T>
  Result<T> TryScalar() const {
    SLUICE_RETURN_IF_ERROR(CheckScalar(DTypeOf<T>()));
    return *raw<T>();
  }

  // Unchecked accessors for kernels. REQUIRES: T is the C++ type of dtype(), or
  // a type of the same size for raw moves; raw_scalar: num_elements() >= 1;
  // writes: no other tensor reads the buffer.
  const void* raw() const { return buffer_ != nullptr ? data_ : &bits_; }
  void* raw() { return buffer_ != nullptr ? data_ : &bits_; }
  template <typename T>
  const T* raw() const {
    return static_cast<const T*>(raw());
  }
  template <typename T>
  T* raw() {
    return static_cast<T*>(raw());
  }
  template <typename T>
  std::span<const T> raw_flat() const {
    return {raw<T>(), static_cast<size_t>(num_elements())};
  }
  template <typename T>
  std::span<T> raw_flat() {
    return {raw<T>(), static_cast<size_t>(num_elements())};
  }
  template <typename T>
  const T& raw_scalar() const {
    return *raw<T>();
  }

  // True if no other reference would see a write.
  bool unique() const { return buffer_ == nullptr || buffer_->unique(); }
  bool has_buffer() const { return buffer_ != nullptr; }
  // Null if there is none. Shared with other tensors; this one owns a
  // reference.
  Buffer* buffer() const { return buffer_; }
  // False if only kernels of a device may read the elements.
  bool in_host_memory() const {
    return buffer_ == nullptr || buffer_->host_memory();
  }
  // True if values that outlive the step must not share the memory (Buffer).
  bool borrowed() const { return buffer_ != nullptr && buffer_->borrowed(); }
  bool SharesBufferWith(const Tensor& o) const {
    return buffer_ != nullptr && buffer_ == o.buffer_;
  }

  // The same elements in another shape, sharing the buffer.
  // InvalidArgument if the number of elements differs.
  Result<Tensor> Reshaped(const Shape& shape) const;
  // Rows [begin, end) of the first dimension, sharing the buffer. Invalid
  // unless rank >= 1 and 0 <= begin <= end <= dim(0).
  Tensor Rows(int64_t begin, int64_t end) const;
  // The same bytes under another dtype; invalid unless its elements are plain
  // and of the same size.
  Tensor BitcastTo(DType dtype) const;
  // A copy in host memory that shares nothing. REQUIRES: the host may read the
  // elements.
  Result<Tensor> Clone() const;

  // Same dtype, shape and elements, bit for bit (resources and variants:
  // the same objects).
  bool Identical(const Tensor& o) const;
  // "float[2,3] 1 2 3 ...", or "invalid", with at most `max_elements` elements.
  std::string ToString(int max_elements = 10) const;
  // Elements only, as TensorFlow's Print shows them: "1 2 3...".
  std::string Summarize(int max_elements) const;

 private:
  // The checks of an accessor of T. InvalidArgument describes the tensor.
  Status CheckType(DType asked) const;
  Status CheckScalar(DType asked) const;
  static Status CheckCount(const Shape& shape, size_t values);
  template <typename T>
  void RequireType(const char* accessor, const char* file, int line) const {
    if (dtype_ != DTypeOf<T>()) [[unlikely]]
      Misused(accessor, CheckType(DTypeOf<T>()), file, line);
  }
  // Ends the process.
  [[noreturn]] static void Misused(const char* accessor, const Status& why,
                                   const char* file, int line);
  // The value, or an invalid tensor with the error at the caller's line.
  static Tensor OrInvalid(Result<Tensor> made, const char* file, int line);
  // Elements of any type are written into bits_ through raw(). If bits_ were
  // copied as an integer, the compiler could treat such a write and the copy as
  // independent (strict aliasing) and swap them.
  void CopyBits(const Tensor& o) {
    std::memcpy(&bits_, &o.bits_, sizeof(bits_));
  }
  void Release() {
    if (buffer_ != nullptr) buffer_->Unref();
  }

  Buffer* buffer_;  // Owns one reference.
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
