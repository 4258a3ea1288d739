#include "ops/common/elements.h"

#include <algorithm>
#include <limits>

#include "base/parallel.h"
#include "kernels/simd/move.h"

namespace sluice::array {
namespace {

absl::Span<const int64_t> Span(std::span<const int64_t> s) {
  return absl::MakeConstSpan(s.data(), s.size());
}

// Objects, copied one by one: the innermost dimension changes fastest.
template <typename T>
void CopyObjects(std::span<const int64_t> dims, const T* src,
                 std::span<const int64_t> src_strides, T* dst,
                 std::span<const int64_t> dst_strides) {
  Dims at(dims.size(), 0);
  for (;;) {
    *dst = *src;
    size_t d = dims.size();
    for (;; at[d] = 0) {
      if (d-- == 0) return;
      src += src_strides[d];
      dst += dst_strides[d];
      if (++at[d] < dims[d]) break;
      src -= src_strides[d] * dims[d];
      dst -= dst_strides[d] * dims[d];
    }
  }
}

}  // namespace

void CopyRun(DType t, const void* src, void* dst, int64_t n) {
  if (n == 0) return;
  const size_t size = DTypeSize(t);
  if (size != 0) {
    std::memcpy(dst, src, static_cast<size_t>(n) * size);
    return;
  }
  ByElement(t, [&]<typename T>(Tag<T>) {
    std::copy_n(static_cast<const T*>(src), n, static_cast<T*>(dst));
  });
}

void FillRun(DType t, const void* value, void* dst, int64_t n) {
  if (IsPlain(t)) {
    simd::Fill(DTypeSize(t), value, dst, n);
    return;
  }
  ByElement(t, [&]<typename T>(Tag<T>) {
    std::fill_n(static_cast<T*>(dst), n, *static_cast<const T*>(value));
  });
}

void ZeroRun(DType t, void* dst, int64_t n) {
  if (n == 0) return;
  if (IsPlain(t)) {
    std::memset(dst, 0, static_cast<size_t>(n) * DTypeSize(t));
    return;
  }
  ByElement(t, [&]<typename T>(Tag<T>) {
    std::fill_n(static_cast<T*>(dst), n, T());
  });
}

void CopyStrided(DType t, std::span<const int64_t> dims, const void* src,
                 std::span<const int64_t> src_strides, void* dst,
                 std::span<const int64_t> dst_strides) {
  for (int64_t d : dims)
    if (d == 0) return;
  if (IsPlain(t)) {
    simd::StridedCopy(DTypeSize(t), Span(dims), src, Span(src_strides), dst,
                      Span(dst_strides));
    return;
  }
  ByElement(t, [&]<typename T>(Tag<T>) {
    if constexpr (!std::is_trivially_copyable_v<T>)
      CopyObjects(dims, static_cast<const T*>(src), src_strides,
                  static_cast<T*>(dst), dst_strides);
  });
}

void JoinBlocks(DType type, std::span<const Piece> pieces, int64_t outer,
                void* out) {
  int64_t row = 0;
  for (const Piece& p : pieces) row += p.block;
  if (row == 0) return;
  ParallelFor(outer, std::max<int64_t>(1, 32768 / row),
              [&](int64_t begin, int64_t end) {
                int64_t offset = 0;
                for (const Piece& p : pieces) {
                  // One piece at a time, so that only one source is streamed.
                  if (p.block == 1 && IsPlain(type) && end - begin > 1) {
                    const int64_t dims[] = {end - begin}, from[] = {1},
                                  to[] = {row};
                    CopyStrided(type, dims, At(type, p.data, begin), from,
                                At(type, out, begin * row + offset), to);
                  } else {
                    for (int64_t o = begin; o < end; ++o)
                      CopyRun(type, At(type, p.data, o * p.block),
                              At(type, out, o * row + offset), p.block);
                  }
                  offset += p.block;
                }
              });
}

Dims DenseStrides(std::span<const int64_t> dims) {
  Dims out(dims.size());
  int64_t stride = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    out[i] = stride;
    stride *= std::max<int64_t>(1, dims[i]);
  }
  return out;
}

Result<Tensor> MakeZeros(DType t, const Shape& shape, Allocator* allocator) {
  SLUICE_ASSIGN_OR_RETURN(Tensor out, Tensor::Make(t, shape, allocator));
  if (IsPlain(t)) ZeroRun(t, out.raw(), out.num_elements());
  return out;
}

int64_t IntAt(const Tensor& t, int64_t i) {
  switch (t.dtype()) {
    case DType::kInt32:
      return t.raw<int32_t>()[i];
    case DType::kInt64:
      return t.raw<int64_t>()[i];
    case DType::kInt16:
      return t.raw<int16_t>()[i];
    case DType::kInt8:
      return t.raw<int8_t>()[i];
    case DType::kUint8:
      return t.raw<uint8_t>()[i];
    case DType::kUint16:
      return t.raw<uint16_t>()[i];
    case DType::kUint32:
      return t.raw<uint32_t>()[i];
    case DType::kBool:
      return t.raw<bool>()[i];
    default:
      return static_cast<int64_t>(t.raw<uint64_t>()[i]);
  }
}

std::string IndexName(const Shape& shape, int64_t flat) {
  std::string out = "]";
  for (int d = shape.rank() - 1; d >= 0; --d) {
    out = absl::StrCat(flat % shape[d], out);
    if (d > 0) out = "," + out;
    flat /= shape[d];
  }
  return "[" + out;
}

Result<int64_t> IntScalar(const Tensor& t, const char* what) {
  if (t.num_elements() != 1 || t.rank() > 1)
    return InvalidArgument(what, ": expected a scalar, got shape ",
                           t.shape().ToString());
  return IntAt(t, 0);
}

Result<Dims> IntVectorOf(const Tensor& t, const char* what) {
  if (t.rank() != 1)
    return InvalidArgument(what, ": expected a vector, got shape ",
                           t.shape().ToString());
  Dims out(static_cast<size_t>(t.num_elements()));
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = IntAt(t, static_cast<int64_t>(i));
  return out;
}

Result<Shape> ShapeFrom(const Tensor& t, const char* what) {
  if (t.rank() != 1)
    return InvalidArgument(what, ": expected a vector, got shape ",
                           t.shape().ToString());
  if (t.num_elements() > kMaxRank)
    return InvalidArgument(what, ": expected at most ", kMaxRank,
                           " dimensions, got ", t.num_elements());
  int64_t dims[kMaxRank];
  const auto n = static_cast<size_t>(t.num_elements());
  for (size_t i = 0; i < n; ++i) dims[i] = IntAt(t, static_cast<int64_t>(i));
  Result<Shape> s = Shape::Make({dims, n});
  if (!s.ok()) return Annotate(s.status(), what);
  return s;
}

Result<Tensor> IntTensor(DType t, std::span<const int64_t> values) {
  SLUICE_ASSIGN_OR_RETURN(
      Tensor out,
      Tensor::Make(t, Shape({static_cast<int64_t>(values.size())})));
  for (size_t i = 0; i < values.size(); ++i) {
    if (t == DType::kInt64) {
      out.raw<int64_t>()[i] = values[i];
    } else if (values[i] > std::numeric_limits<int32_t>::max() ||
               values[i] < std::numeric_limits<int32_t>::min()) {
      return InvalidArgument("value: expected one that fits int32, got ",
                             values[i]);
    } else {
      out.raw<int32_t>()[i] = static_cast<int32_t>(values[i]);
    }
  }
  return out;
}

int64_t Product(std::span<const int64_t> dims, int from, int to) {
  int64_t n = 1;
  for (int i = from; i < to; ++i) n *= dims[static_cast<size_t>(i)];
  return n;
}

PartialShape SubShape(const PartialShape& s, int from, int to) {
  PartialShape out = PartialShape::Scalar();
  for (int i = from; i < to; ++i) out.add_dim(s.dim(i));
  return out;
}

PartialShape JoinShapes(const PartialShape& a, const PartialShape& b) {
  if (!a.rank_known() || !b.rank_known()) return PartialShape();
  PartialShape out = a;
  for (int64_t d : b.dims()) out.add_dim(d);
  return out;
}

Result<int64_t> AddDims(int64_t a, int64_t b) {
  if (a < 0 || b < 0) return -1;
  int64_t sum;
  if (__builtin_add_overflow(a, b, &sum))
    return InvalidArgument("dimension: expected fewer than 2^63 elements, got ",
                           a, " + ", b);
  return sum;
}

Result<int64_t> MultiplyDims(int64_t a, int64_t b) {
  if (a == 0 || b == 0) return 0;
  if (a < 0 || b < 0) return -1;
  const int64_t product = MultiplyOrNegative(a, b);
  if (product < 0)
    return InvalidArgument("dimension: expected fewer than 2^63 elements, got ",
                           a, " * ", b);
  return product;
}

}  // namespace sluice::array
