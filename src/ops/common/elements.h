// Shared by the ops that move elements: reading index tensors, and copying runs
// and strided blocks of elements of any type. Plain elements are copied by
// size, objects (strings, resources, variants) by assignment.
#ifndef SLUICE_OPS_COMMON_ELEMENTS_H_
#define SLUICE_OPS_COMMON_ELEMENTS_H_

#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "graph/shape_context.h"
#include "tensor/element_bytes.h"
#include "tensor/tensor.h"

namespace sluice::array {

// ---- Dispatch ---------------------------------------------------------------

// Represents plain elements of 16 bytes.
struct Bytes16 {
  uint64_t low, high;
};

template <typename T>
struct Tag {
  using type = T;
};

// Calls f(Tag<T>()) with a T of the element size of `t`, or its object type.
// REQUIRES: t is a valid value type.
template <typename F>
void ByElement(DType t, F&& f) {
  switch (DTypeSize(t)) {
    case 1:
      return f(Tag<uint8_t>());
    case 2:
      return f(Tag<uint16_t>());
    case 4:
      return f(Tag<uint32_t>());
    case 8:
      return f(Tag<uint64_t>());
    case 16:
      return f(Tag<Bytes16>());
    default:
      break;
  }
  if (t == DType::kString) return f(Tag<std::string>());
  if (t == DType::kResource) return f(Tag<ResourceHandle>());
  if (t == DType::kVariant) return f(Tag<Variant>());
}

// Calls f(Tag<T>()) with the C++ type of a numeric `t` (not quantised, not
// bool); returns false for other types.
template <typename F>
bool ByNumber(DType t, F&& f) {
  switch (t) {
    case DType::kFloat:
      f(Tag<float>());
      return true;
    case DType::kDouble:
      f(Tag<double>());
      return true;
    case DType::kHalf:
      f(Tag<half>());
      return true;
    case DType::kBfloat16:
      f(Tag<bfloat16>());
      return true;
    case DType::kInt8:
      f(Tag<int8_t>());
      return true;
    case DType::kInt16:
      f(Tag<int16_t>());
      return true;
    case DType::kInt32:
      f(Tag<int32_t>());
      return true;
    case DType::kInt64:
      f(Tag<int64_t>());
      return true;
    case DType::kUint8:
      f(Tag<uint8_t>());
      return true;
    case DType::kUint16:
      f(Tag<uint16_t>());
      return true;
    case DType::kUint32:
      f(Tag<uint32_t>());
      return true;
    case DType::kUint64:
      f(Tag<uint64_t>());
      return true;
    case DType::kComplex64:
      f(Tag<complex64>());
      return true;
    case DType::kComplex128:
      f(Tag<complex128>());
      return true;
    default:
      return false;
  }
}

// a + b, a - b and a * b: integers wrap, 16-bit floats are rounded once.
template <typename T>
T WrapAdd(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  else
    return static_cast<T>(a + b);
}
template <typename T>
T WrapSub(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
  else
    return static_cast<T>(a - b);
}

template <typename T>
T WrapMul(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  else
    return static_cast<T>(a * b);
}

inline const void* At(DType t, const void* base, int64_t element) {
  return static_cast<const char*>(base) +
         element * static_cast<int64_t>(ElementBytes(t));
}
inline void* At(DType t, void* base, int64_t element) {
  return static_cast<char*>(base) +
         element * static_cast<int64_t>(ElementBytes(t));
}

// ---- Moving elements --------------------------------------------------------

// dst[0, n) = src[0, n). They must not overlap.
void CopyRun(DType t, const void* src, void* dst, int64_t n);
// dst[0, n) = *value.
void FillRun(DType t, const void* value, void* dst, int64_t n);
// dst[0, n) = zero, "" or an empty object.
void ZeroRun(DType t, void* dst, int64_t n);

// For every index i below dims: dst[i . dst_strides] = src[i . src_strides].
// Strides count elements; they may be negative, and source strides may be zero.
// At most 16 dimensions. Destination elements must be distinct and must not
// overlap the source. Uses the kernel's threads if the size justifies it.
void CopyStrided(DType t, std::span<const int64_t> dims, const void* src,
                 std::span<const int64_t> src_strides, void* dst,
                 std::span<const int64_t> dst_strides);

// One input of a join: `block` elements at a time, contiguous.
struct Piece {
  const void* data;
  int64_t block;
};

// Writes one block of each piece in turn, `outer` times.
void JoinBlocks(DType t, std::span<const Piece> pieces, int64_t outer,
                void* out);

// Strides of a dense tensor, in elements.
Dims DenseStrides(std::span<const int64_t> dims);

// A tensor of `shape` with all elements zero.
Result<Tensor> MakeZeros(DType t, const Shape& shape, Allocator* allocator);

// ---- Index tensors ----------------------------------------------------------

// Element i of an integer (or bool) tensor. REQUIRES: such a dtype.
int64_t IntAt(const Tensor& t, int64_t i);
// The multi-dimensional index of a flat position, for messages.
std::string IndexName(const Shape& shape, int64_t flat);
// The single element of a scalar (or of a vector with one element, which
// TensorFlow's older ops accept too). `what` names it in messages.
Result<int64_t> IntScalar(const Tensor& t, const char* what);
// All elements of a vector.
Result<Dims> IntVectorOf(const Tensor& t, const char* what);
// Interprets a vector as a shape.
Result<Shape> ShapeFrom(const Tensor& t, const char* what);
// An integer vector of dtype int32 or int64; InvalidArgument if a value does
// not fit.
Result<Tensor> IntTensor(DType t, std::span<const int64_t> values);

// ---- Shapes -----------------------------------------------------------------

inline std::span<const int64_t> SpanOf(const Dims& d) {
  return {d.data(), d.size()};
}
inline Result<Shape> MakeShape(const Dims& d) { return Shape::Make(SpanOf(d)); }
inline Dims DimsOf(const Shape& s) {
  return Dims(s.dims().begin(), s.dims().end());
}
// Product of dims[from, to). Cannot overflow for the dims of a Shape.
int64_t Product(std::span<const int64_t> dims, int from, int to);

// Dimensions [from, to) of a shape of known rank.
PartialShape SubShape(const PartialShape& s, int from, int to);
// a followed by b; unknown if either rank is.
PartialShape JoinShapes(const PartialShape& a, const PartialShape& b);
// a + b or a * b, -1 if one is unknown; InvalidArgument on overflow.
Result<int64_t> AddDims(int64_t a, int64_t b);
Result<int64_t> MultiplyDims(int64_t a, int64_t b);

}  // namespace sluice::array

#endif  // SLUICE_OPS_COMMON_ELEMENTS_H_
