#include "ops/array_util.h"

#include <algorithm>
#include <limits>

#include "base/parallel.h"

namespace sluice::array {
namespace {

constexpr int kMostDims = 24;
// Elements that one thread should have to move.
constexpr int64_t kGrain = 32768;

// A strided copy with its loops put in order: no dimension of size 1, adjacent
// ones that are one run merged.
struct Loops {
  int rank = 0;
  int64_t dims[kMostDims], from[kMostDims], to[kMostDims];

  void MoveBeforeLast(int k) {
    const int last = rank - 1;
    std::rotate(dims + k, dims + k + 1, dims + last);
    std::rotate(from + k, from + k + 1, from + last);
    std::rotate(to + k, to + k + 1, to + last);
  }
};

Loops Simplify(std::span<const int64_t> dims, std::span<const int64_t> from,
               std::span<const int64_t> to) {
  Loops l;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 1) continue;
    const int last = l.rank - 1;
    if (last >= 0 && l.from[last] == from[i] * dims[i] &&
        l.to[last] == to[i] * dims[i]) {
      l.dims[last] *= dims[i];
      l.from[last] = from[i];
      l.to[last] = to[i];
      continue;
    }
    l.dims[l.rank] = dims[i];
    l.from[l.rank] = from[i];
    l.to[l.rank] = to[i];
    ++l.rank;
  }
  return l;
}

template <typename T>
void CopyRow(const T* src, int64_t from, T* dst, int64_t to, int64_t n) {
  if (from == 1 && to == 1) {
    if constexpr (std::is_trivially_copyable_v<T>)
      std::memcpy(dst, src, static_cast<size_t>(n) * sizeof(T));
    else
      std::copy_n(src, n, dst);
  } else if (to == 1) {
    for (int64_t i = 0; i < n; ++i) dst[i] = src[i * from];
  } else {
    for (int64_t i = 0; i < n; ++i) dst[i * to] = src[i * from];
  }
}

// Rows of dst are columns of src: in square tiles, so that both stay in cache.
template <typename T>
void CopyTransposed(const T* src, int64_t src_inner, T* dst, int64_t dst_outer,
                    int64_t rows, int64_t columns) {
  constexpr int64_t kTile = 16;
  for (int64_t r0 = 0; r0 < rows; r0 += kTile) {
    const int64_t r1 = std::min(rows, r0 + kTile);
    for (int64_t c0 = 0; c0 < columns; c0 += kTile) {
      const int64_t c1 = std::min(columns, c0 + kTile);
      for (int64_t r = r0; r < r1; ++r)
        for (int64_t c = c0; c < c1; ++c)
          dst[r * dst_outer + c] = src[r + c * src_inner];
    }
  }
}

template <typename T>
void RunLoops(Loops l, const T* src, T* dst) {
  if (l.rank == 0) {
    *dst = *src;
    return;
  }
  const int last = l.rank - 1;
  bool tiled = false;
  if (l.to[last] == 1 && l.from[last] != 1 && l.from[last] != 0) {
    for (int k = 0; k < last && !tiled; ++k) {
      if (l.from[k] != 1) continue;
      l.MoveBeforeLast(k);
      tiled = true;
    }
  }
  const int outer_rank = tiled ? l.rank - 2 : l.rank - 1;
  int64_t outer = 1;
  for (int i = 0; i < outer_rank; ++i) outer *= l.dims[i];
  const int64_t n = l.dims[last];
  const auto copy = [&](int64_t begin, int64_t end) {
    int64_t at[kMostDims];
    int64_t s = 0, d = 0, rest = begin;
    for (int i = outer_rank - 1; i >= 0; --i) {
      at[i] = rest % l.dims[i];
      rest /= l.dims[i];
      s += at[i] * l.from[i];
      d += at[i] * l.to[i];
    }
    for (int64_t o = begin; o < end; ++o) {
      if (tiled)
        CopyTransposed(src + s, l.from[last], dst + d, l.to[last - 1],
                       l.dims[last - 1], n);
      else
        CopyRow(src + s, l.from[last], dst + d, l.to[last], n);
      for (int i = outer_rank - 1; i >= 0; --i) {
        s += l.from[i];
        d += l.to[i];
        if (++at[i] < l.dims[i]) break;
        s -= l.from[i] * l.dims[i];
        d -= l.to[i] * l.dims[i];
        at[i] = 0;
      }
    }
  };
  const int64_t inner = tiled ? n * l.dims[last - 1] : n;
  if (outer == 1 && !tiled) {  // One long row: split that.
    ParallelFor(n, kGrain, [&](int64_t begin, int64_t end) {
      CopyRow(src + begin * l.from[0], l.from[0], dst + begin * l.to[0],
              l.to[0], end - begin);
    });
  } else {
    ParallelFor(outer, std::max<int64_t>(1, kGrain / inner), copy);
  }
}

}  // namespace

size_t ElementStride(DType t) {
  switch (t) {
    case DType::kString:
      return sizeof(std::string);
    case DType::kResource:
      return sizeof(ResourceHandle);
    case DType::kVariant:
      return sizeof(Variant);
    default:
      return DTypeSize(t);
  }
}

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
  ByElement(t, [&]<typename T>(Tag<T>) {
    const T v = *static_cast<const T*>(value);
    std::fill_n(static_cast<T*>(dst), n, v);
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
  const Loops loops = Simplify(dims, src_strides, dst_strides);
  ByElement(t, [&]<typename T>(Tag<T>) {
    RunLoops(loops, static_cast<const T*>(src), static_cast<T*>(dst));
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
                  // Piece by piece: one source streams at a time.
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
      return t.data<int32_t>()[i];
    case DType::kInt64:
      return t.data<int64_t>()[i];
    case DType::kInt16:
      return t.data<int16_t>()[i];
    case DType::kInt8:
      return t.data<int8_t>()[i];
    case DType::kUint8:
      return t.data<uint8_t>()[i];
    case DType::kUint16:
      return t.data<uint16_t>()[i];
    case DType::kUint32:
      return t.data<uint32_t>()[i];
    case DType::kBool:
      return t.data<bool>()[i];
    default:
      return static_cast<int64_t>(t.data<uint64_t>()[i]);
  }
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
      out.data<int64_t>()[i] = values[i];
    } else if (values[i] > std::numeric_limits<int32_t>::max() ||
               values[i] < std::numeric_limits<int32_t>::min()) {
      return InvalidArgument("value: expected one that fits int32, got ",
                             values[i]);
    } else {
      out.data<int32_t>()[i] = static_cast<int32_t>(values[i]);
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
