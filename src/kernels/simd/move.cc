#include "kernels/simd/move.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>

#include "absl/base/attributes.h"
#include "base/parallel.h"

namespace sluice::simd {
namespace {

// Below this number of elements per thread, starting a thread costs more than
// it saves.
constexpr int64_t kGrain = 32768;
// Side of the squares of a blocked transposition: this many cache lines on
// either side stay in the first-level cache.
constexpr int64_t kSquare = 16;
// Outputs of at least this size exceed the caches: they are written with
// non-temporal stores, so that no cache line is fetched only to be overwritten.
constexpr int64_t kPastCaches = 16 << 20;

struct Bytes16 {
  uint64_t lo, hi;
};

struct Loop {
  int64_t dim;
  int64_t in;   // Stride.
  int64_t out;  // Stride.
};

// The loops of a copy, outermost first, merged; rank >= 1.
struct Nest {
  int rank = 0;
  Loop loops[kMaxCopyRank];

  // Removes loops of length one, orders by output stride, merges contiguous
  // loops.
  void Simplify() {
    int kept = 0;
    for (int i = 0; i < rank; ++i)
      if (loops[i].dim != 1) loops[kept++] = loops[i];
    rank = kept;
    // Outermost first; stable, to keep the caller's order on ties.
    std::stable_sort(loops, loops + rank, [](const Loop& a, const Loop& b) {
      return std::abs(a.out) > std::abs(b.out);
    });
    int merged = 0;
    for (int i = 0; i < rank; ++i) {
      Loop& last = loops[std::max(0, merged - 1)];
      const Loop& next = loops[i];
      if (merged > 0 && last.in == next.in * next.dim &&
          last.out == next.out * next.dim) {
        last = {last.dim * next.dim, next.in, next.out};
      } else {
        loops[merged++] = next;
      }
    }
    rank = merged;
    if (rank == 0) loops[rank++] = {1, 1, 1};
  }

  // The product of the first `n` dimensions.
  int64_t Count(int n) const {
    int64_t count = 1;
    for (int i = 0; i < n; ++i) count *= loops[i].dim;
    return count;
  }
};

// Calls fn(input offset, output offset) for [begin, end) of the indices over
// the first `depth` loops.
template <class F>
void Walk(const Nest& nest, int depth, int64_t begin, int64_t end, F fn) {
  int64_t index[kMaxCopyRank] = {};
  int64_t in = 0;
  int64_t out = 0;
  int64_t rest = begin;
  for (int i = depth - 1; i >= 0; --i) {
    const Loop& l = nest.loops[i];
    index[i] = rest % l.dim;
    rest /= l.dim;
    in += index[i] * l.in;
    out += index[i] * l.out;
  }
  for (int64_t k = begin; k < end; ++k) {
    fn(in, out);
    for (int i = depth - 1; i >= 0; --i) {
      const Loop& l = nest.loops[i];
      in += l.in;
      out += l.out;
      if (++index[i] < l.dim) break;
      in -= l.dim * l.in;
      out -= l.dim * l.out;
      index[i] = 0;
    }
  }
}

template <class T>
void CopyLine(const T* in, int64_t in_stride, T* out, int64_t out_stride,
              int64_t n) {
  if (in_stride == 1 && out_stride == 1) {
    if (n >= 16) {
      std::memcpy(out, in, static_cast<size_t>(n) * sizeof(T));
    } else {
      for (int64_t i = 0; i < n; ++i) out[i] = in[i];
    }
  } else if (in_stride == 0 && out_stride == 1) {
    const T x = *in;
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) out[i] = x;
  } else if (out_stride == 1) {
    for (int64_t i = 0; i < n; ++i) out[i] = in[i * in_stride];
  } else {
    for (int64_t i = 0; i < n; ++i) out[i * out_stride] = in[i * in_stride];
  }
}

// square[r][c] = in[c * stride + r].
template <class T>
void TurnSquare(const T* in, int64_t stride, T (*square)[kSquare]) {
  for (int64_t c = 0; c < kSquare; ++c)
    for (int64_t r = 0; r < kSquare; ++r) square[r][c] = in[c * stride + r];
}

// Four by four elements of four bytes at a time: four loads, eight shuffles.
ABSL_ATTRIBUTE_ALWAYS_INLINE inline void TurnSquare(
    const uint32_t* in, int64_t stride, uint32_t (*square)[kSquare]) {
  using V = uint32_t __attribute__((vector_size(16)));
  for (int64_t c = 0; c < kSquare; c += 4) {
    for (int64_t r = 0; r < kSquare; r += 4) {
      V x[4];
      for (int64_t k = 0; k < 4; ++k)
        std::memcpy(&x[k], in + (c + k) * stride + r, sizeof(V));
      const V a = __builtin_shufflevector(x[0], x[1], 0, 4, 1, 5);
      const V b = __builtin_shufflevector(x[2], x[3], 0, 4, 1, 5);
      const V d = __builtin_shufflevector(x[0], x[1], 2, 6, 3, 7);
      const V e = __builtin_shufflevector(x[2], x[3], 2, 6, 3, 7);
      const V y[4] = {__builtin_shufflevector(a, b, 0, 1, 4, 5),
                      __builtin_shufflevector(a, b, 2, 3, 6, 7),
                      __builtin_shufflevector(d, e, 0, 1, 4, 5),
                      __builtin_shufflevector(d, e, 2, 3, 6, 7)};
      for (int64_t k = 0; k < 4; ++k)
        std::memcpy(&square[r + k][c], &y[k], sizeof(V));
    }
  }
}

// kPast: with non-temporal stores, if available; WrittenPast() must be called
// last.
template <bool kPast, class T>
inline void WriteRow(const T (&row)[kSquare], T* to) {
#if defined(__SSE2__)
  if (kPast && reinterpret_cast<uintptr_t>(to) % sizeof(__m128i) == 0) {
    constexpr size_t kBytes = kSquare * sizeof(T);
    for (size_t k = 0; k < kBytes / sizeof(__m128i); ++k)
      _mm_stream_si128(
          reinterpret_cast<__m128i*>(to) + k,
          _mm_loadu_si128(reinterpret_cast<const __m128i*>(row) + k));
    return;
  }
#endif
  std::memcpy(to, row, sizeof(row));
}

void WrittenPast() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

// A part of at most kSquare by kSquare.
template <bool kPast, class T>
ABSL_ATTRIBUTE_ALWAYS_INLINE inline void CopySquare(const T* in, T* out,
                                                    int64_t in_stride,
                                                    int64_t out_stride,
                                                    int64_t columns,
                                                    int64_t rows) {
  if (rows == kSquare && columns == kSquare) {
    // Read along the input, then write along the output.
    alignas(64) T square[kSquare][kSquare];
    TurnSquare(in, in_stride, square);
    for (int64_t r = 0; r < kSquare; ++r)
      WriteRow<kPast>(square[r], out + r * out_stride);
  } else {
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c)
        out[r * out_stride + c] = in[r + c * in_stride];
  }
}

// The output advances along `a` (its stride there is 1), the input along `b`.
template <bool kPast, class T>
void CopySquares(const T* in, T* out, const Loop& a, const Loop& b) {
  constexpr int64_t kStrip = kPast ? 4 * kSquare : kSquare;
  for (int64_t strip = 0; strip < b.dim; strip += kStrip) {
    const int64_t end = std::min(b.dim, strip + kStrip);
    for (int64_t j = 0; j < a.dim; j += kSquare)
      for (int64_t i = strip; i < end; i += kSquare)
        CopySquare<kPast>(in + i + j * a.in, out + i * b.out + j, a.in, b.out,
                          std::min(kSquare, a.dim - j),
                          std::min(kSquare, end - i));
  }
  if (kPast) WrittenPast();
}

template <class T>
void Run(Nest nest, const void* pin, void* pout) {
  const T* in = static_cast<const T*>(pin);
  T* out = static_cast<T*>(pout);
  const Loop inner = nest.loops[nest.rank - 1];
  int partner = -1;
  if (inner.out == 1 && inner.in != 1 && inner.in != 0) {
    for (int i = 0; i + 1 < nest.rank; ++i)
      if (nest.loops[i].in == 1) partner = i;
  }
  if (partner >= 0 && inner.dim >= 4 && nest.loops[partner].dim >= 4) {
    // The partner becomes the second innermost; its squares are the work.
    const Loop across = nest.loops[partner];
    std::rotate(nest.loops + partner, nest.loops + partner + 1,
                nest.loops + nest.rank - 1);
    const int depth = nest.rank - 2;
    const int64_t strips = (across.dim + kSquare - 1) / kSquare;
    const int64_t grain = std::max<int64_t>(1, kGrain / (inner.dim * kSquare));
    const bool past =
        nest.Count(nest.rank) * static_cast<int64_t>(sizeof(T)) >= kPastCaches;
    ParallelFor(
        nest.Count(depth) * strips, grain, [&](int64_t begin, int64_t end) {
          while (begin < end) {
            const int64_t outer = begin / strips;
            const int64_t first = begin % strips;
            const int64_t count = std::min(strips - first, end - begin);
            const int64_t row = first * kSquare;
            const Loop part = {std::min(count * kSquare, across.dim - row), 1,
                               across.out};
            Walk(nest, depth, outer, outer + 1, [&](int64_t i, int64_t o) {
              const auto copy =
                  past ? CopySquares<true, T> : CopySquares<false, T>;
              copy(in + i + row, out + o + row * across.out, inner, part);
            });
            begin += count;
          }
        });
    return;
  }
  const int depth = nest.rank - 1;
  const int64_t lines = nest.Count(depth);
  if (lines == 1) {
    ParallelFor(inner.dim, kGrain, [&](int64_t begin, int64_t end) {
      CopyLine(in + begin * inner.in, inner.in, out + begin * inner.out,
               inner.out, end - begin);
    });
    return;
  }
  const int64_t grain = std::max<int64_t>(1, kGrain / inner.dim);
  ParallelFor(lines, grain, [&](int64_t begin, int64_t end) {
    Walk(nest, depth, begin, end, [&](int64_t i, int64_t o) {
      CopyLine(in + i, inner.in, out + o, inner.out, inner.dim);
    });
  });
}

bool RunNest(size_t element_size, Nest& nest, const void* in, void* out) {
  for (int i = 0; i < nest.rank; ++i)
    if (nest.loops[i].dim == 0) return true;
  nest.Simplify();
  switch (element_size) {
    case 1:
      Run<uint8_t>(nest, in, out);
      return true;
    case 2:
      Run<uint16_t>(nest, in, out);
      return true;
    case 4:
      Run<uint32_t>(nest, in, out);
      return true;
    case 8:
      Run<uint64_t>(nest, in, out);
      return true;
    case 16:
      Run<Bytes16>(nest, in, out);
      return true;
    default:
      return false;
  }
}

// Strides of a dense array.
void DenseStrides(absl::Span<const int64_t> shape, int64_t* strides) {
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= shape[i];
  }
}

// The box within an array as a nest; `at` is the offset of its first corner.
bool BoxNest(absl::Span<const int64_t> shape, absl::Span<const int64_t> begin,
             absl::Span<const int64_t> steps, absl::Span<const int64_t> dims,
             bool box_is_input, Nest* nest, int64_t* at) {
  if (shape.size() > kMaxCopyRank) return false;
  int64_t whole[kMaxCopyRank];
  int64_t dense[kMaxCopyRank];
  DenseStrides(shape, whole);
  DenseStrides(dims, dense);
  *at = 0;
  for (size_t i = 0; i < shape.size(); ++i) {
    *at += begin[i] * whole[i];
    const int64_t box = steps[i] * whole[i];
    nest->loops[nest->rank++] = box_is_input ? Loop{dims[i], box, dense[i]}
                                             : Loop{dims[i], dense[i], box};
  }
  return true;
}

// Mostly uses the C library's copy, which has the fastest stores for each
// processor.
template <class T>
void FillWith(const void* value, void* pout, int64_t n) {
  constexpr int64_t kPattern = 8192 / static_cast<int64_t>(sizeof(T));
  T v;
  std::memcpy(&v, value, sizeof(T));
  char bytes[sizeof(T)];
  std::memset(bytes, *static_cast<const char*>(value), sizeof(T));
  const bool even = std::memcmp(bytes, value, sizeof(T)) == 0;
  T* out = static_cast<T*>(pout);
  ParallelFor(n, kGrain, [&](int64_t begin, int64_t end) {
    if (even) {
      std::memset(out + begin, bytes[0],
                  static_cast<size_t>(end - begin) * sizeof(T));
      return;
    }
    const int64_t pattern = std::min(end, begin + kPattern);
    std::fill(out + begin, out + pattern, v);
    for (int64_t i = pattern; i < end; i += kPattern)
      std::memcpy(out + i, out + begin,
                  static_cast<size_t>(std::min(kPattern, end - i)) * sizeof(T));
  });
}

template <class I>
int64_t Gather(int64_t row_bytes, const I* indices, int64_t n, int64_t in_rows,
               const void* in, void* out) {
  std::atomic<int64_t> bad{-1};
  const int64_t grain =
      std::max<int64_t>(1, kGrain * 4 / std::max<int64_t>(1, row_bytes));
  ParallelFor(n, grain, [&](int64_t begin, int64_t end) {
    const char* from = static_cast<const char*>(in);
    char* to = static_cast<char*>(out) + begin * row_bytes;
    const size_t bytes = static_cast<size_t>(row_bytes);
    for (int64_t i = begin; i < end; ++i, to += row_bytes) {
      const int64_t row = static_cast<int64_t>(indices[i]);
      if (row < 0 || row >= in_rows) {
        bad.store(i, std::memory_order_relaxed);
        if (bytes > 0) std::memset(to, 0, bytes);
      } else if (bytes == 4) {
        std::memcpy(to, from + row * 4, 4);
      } else if (bytes > 0) {
        std::memcpy(to, from + row * row_bytes, bytes);
      }
    }
  });
  return bad.load(std::memory_order_relaxed);
}

}  // namespace

bool StridedCopy(size_t element_size, absl::Span<const int64_t> dims,
                 const void* in, absl::Span<const int64_t> in_strides,
                 void* out, absl::Span<const int64_t> out_strides) {
  if (dims.size() > kMaxCopyRank) return false;
  Nest nest;
  for (size_t i = 0; i < dims.size(); ++i)
    nest.loops[nest.rank++] = {dims[i], in_strides[i], out_strides[i]};
  return RunNest(element_size, nest, in, out);
}

bool Transpose(size_t element_size, absl::Span<const int64_t> shape,
               absl::Span<const int> perm, const void* in, void* out) {
  if (shape.size() > kMaxCopyRank || perm.size() != shape.size()) return false;
  int64_t strides[kMaxCopyRank];
  DenseStrides(shape, strides);
  Nest nest;
  nest.rank = static_cast<int>(shape.size());
  int64_t out_stride = 1;
  for (int d = nest.rank - 1; d >= 0; --d) {
    const size_t p = static_cast<size_t>(perm[static_cast<size_t>(d)]);
    nest.loops[d] = {shape[p], strides[p], out_stride};
    out_stride *= shape[p];
  }
  return RunNest(element_size, nest, in, out);
}

bool Slice(size_t element_size, absl::Span<const int64_t> shape,
           absl::Span<const int64_t> begin, absl::Span<const int64_t> steps,
           absl::Span<const int64_t> dims, const void* in, void* out) {
  Nest nest;
  int64_t at = 0;
  if (!BoxNest(shape, begin, steps, dims, true, &nest, &at)) return false;
  const char* from = static_cast<const char*>(in);
  return RunNest(element_size, nest,
                 from + at * static_cast<int64_t>(element_size), out);
}

bool AssignSlice(size_t element_size, absl::Span<const int64_t> shape,
                 absl::Span<const int64_t> begin,
                 absl::Span<const int64_t> steps,
                 absl::Span<const int64_t> dims, const void* in, void* out) {
  Nest nest;
  int64_t at = 0;
  if (!BoxNest(shape, begin, steps, dims, false, &nest, &at)) return false;
  char* to = static_cast<char*>(out);
  return RunNest(element_size, nest, in,
                 to + at * static_cast<int64_t>(element_size));
}

bool Tile(size_t element_size, absl::Span<const int64_t> shape,
          absl::Span<const int64_t> multiples, const void* in, void* out) {
  if (shape.size() * 2 > kMaxCopyRank) return false;
  int64_t strides[kMaxCopyRank];
  DenseStrides(shape, strides);
  Nest nest;
  nest.rank = static_cast<int>(shape.size()) * 2;
  int64_t out_stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    nest.loops[2 * i + 1] = {shape[i], strides[i], out_stride};
    out_stride *= shape[i];
    nest.loops[2 * i] = {multiples[i], 0, out_stride};
    out_stride *= multiples[i];
  }
  return RunNest(element_size, nest, in, out);
}

bool Pad(size_t element_size, absl::Span<const int64_t> shape,
         absl::Span<const int64_t> before, absl::Span<const int64_t> after,
         const void* value, const void* in, void* out) {
  if (shape.size() > kMaxCopyRank) return false;
  int64_t padded[kMaxCopyRank];
  int64_t ones[kMaxCopyRank];
  int64_t total = 1;
  int64_t inside = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    padded[i] = before[i] + shape[i] + after[i];
    ones[i] = 1;
    total *= padded[i];
    inside *= shape[i];
  }
  if (total != inside && !Fill(element_size, value, out, total)) return false;
  const size_t rank = shape.size();
  return AssignSlice(element_size, absl::MakeConstSpan(padded, rank), before,
                     absl::MakeConstSpan(ones, rank), shape, in, out);
}

bool BroadcastTo(size_t element_size, absl::Span<const int64_t> in_shape,
                 absl::Span<const int64_t> out_shape, const void* in,
                 void* out) {
  if (out_shape.size() > kMaxCopyRank || in_shape.size() > out_shape.size())
    return false;
  int64_t strides[kMaxCopyRank];
  DenseStrides(in_shape, strides);
  const size_t lead = out_shape.size() - in_shape.size();
  Nest nest;
  nest.rank = static_cast<int>(out_shape.size());
  int64_t out_stride = 1;
  for (size_t i = out_shape.size(); i-- > 0;) {
    const bool repeated = i < lead || in_shape[i - lead] == 1;
    nest.loops[i] = {out_shape[i], repeated ? 0 : strides[i - lead],
                     out_stride};
    out_stride *= out_shape[i];
  }
  return RunNest(element_size, nest, in, out);
}

bool Fill(size_t element_size, const void* value, void* out, int64_t n) {
  switch (element_size) {
    case 1:
      FillWith<uint8_t>(value, out, n);
      return true;
    case 2:
      FillWith<uint16_t>(value, out, n);
      return true;
    case 4:
      FillWith<uint32_t>(value, out, n);
      return true;
    case 8:
      FillWith<uint64_t>(value, out, n);
      return true;
    case 16:
      FillWith<Bytes16>(value, out, n);
      return true;
    default:
      return false;
  }
}

void CopyRows(int64_t rows, int64_t row_bytes, const void* in,
              int64_t in_stride, void* out, int64_t out_stride) {
  if (row_bytes == 0) return;
  const char* from = static_cast<const char*>(in);
  char* to = static_cast<char*>(out);
  if (in_stride == row_bytes && out_stride == row_bytes) {
    ParallelFor(rows * row_bytes, kGrain * 4, [&](int64_t begin, int64_t end) {
      std::memcpy(to + begin, from + begin, static_cast<size_t>(end - begin));
    });
    return;
  }
  const int64_t grain = std::max<int64_t>(1, kGrain * 4 / row_bytes);
  ParallelFor(rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      std::memcpy(to + r * out_stride, from + r * in_stride,
                  static_cast<size_t>(row_bytes));
  });
}

int64_t GatherRows(int64_t row_bytes, const int32_t* indices, int64_t n,
                   int64_t in_rows, const void* in, void* out) {
  return Gather(row_bytes, indices, n, in_rows, in, out);
}

int64_t GatherRows(int64_t row_bytes, const int64_t* indices, int64_t n,
                   int64_t in_rows, const void* in, void* out) {
  return Gather(row_bytes, indices, n, in_rows, in, out);
}

}  // namespace sluice::simd
