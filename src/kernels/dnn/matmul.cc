#include "kernels/dnn/matmul.h"

#include <algorithm>
#include <complex>
#include <memory>
#include <optional>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/parallel.h"
#include "kernels/dnn/gemm_onednn.h"
#include "kernels/dnn/gemm_simd.h"
#include "kernels/dnn/matmul_bf16.h"
#include "tensor/dtype.h"
#include "tensor/half.h"

namespace sluice::dnn {
namespace {

template <typename T>
using Buffer = std::unique_ptr<T[]>;

template <typename T>
Buffer<T> NewBuffer(int64_t n) {
  return std::make_unique_for_overwrite<T[]>(static_cast<size_t>(n));
}

template <typename T>
MatrixView<T> ViewA(const GemmShape& s, const T* a) {
  return s.trans_a == Trans::kNone ? MatrixView<T>{a, s.k, 1}
                                   : MatrixView<T>{a, 1, s.m};
}
template <typename T>
MatrixView<T> ViewB(const GemmShape& s, const T* b) {
  return s.trans_b == Trans::kNone ? MatrixView<T>{b, s.n, 1}
                                   : MatrixView<T>{b, 1, s.k};
}

// Up to this size our own loop beats oneDNN, whose calls cost 0.3 us at least
// (measured on AVX-512: 2x2x2 0.03 us against 0.27, 16x16x16 0.10 against 0.39,
// 32x32x32 0.60 against 0.86, 64x10x100 2.0 against 2.8). A transposed b must
// be packed first, at the expense of the product. Columns are counted in whole
// vectors.
bool IsTiny(const GemmShape& s) {
  const int64_t limit = s.trans_b == Trans::kNone ? 128 * 1024 : 16 * 16 * 16;
  return s.k * s.n <= kTinyFactor &&
         s.m * ((s.n + 15) / 16 * 16) * s.k <= limit;
}

constexpr int64_t kWork = 64 * 64 * 64;  // Multiplications worth a thread.

// row[k] times the matrix [k, n], or [n, k] if it is transposed. Returns false
// if oneDNN is faster: it divides large matrices among the threads.
template <typename T>
bool RowTimes(int64_t n, int64_t k, const T* row, const T* matrix,
              bool transposed, T* c, bool accumulate) {
  constexpr int64_t kManyElements = 64 * 1024;
  constexpr int64_t kNarrow = 64;  // Its sums fit in registers: GemmTiny.
  if (transposed || n == 1) {
    if (n * k >= kWork) return false;
    GemmDots<T>(n, k, row, matrix, c, accumulate);
    return true;
  }
  if (n < kNarrow || n * k > kManyElements) return false;
  GemmThin<T>(1, n, k, {row, k, 1}, matrix, n, c, n, accumulate);
  return true;
}

// A row times a small matrix, a small matrix times a column, and a column times
// a row: the products of a recurrent layer's steps, forwards and backwards, and
// of iterations on a vector. Returns true if the product is one of these.
// (Measured on AVX-512: 1x256x64 0.63 us against 0.75 for oneDNN, the sum of a
// product 64x256x1 1.1 against 1.5, a dot product of 1000 0.1 against 4; on
// AVX2 200x1x200 3.2 us against 4.9. For matrices larger than the second-level
// cache, oneDNN is as fast, and divides them among threads.)
template <typename T>
bool GemmOfThin(const GemmShape& s, const T* a, const T* b, T* c) {
  constexpr int64_t kNarrow = 64;
  if (s.m == 1 && s.k > 1)
    return RowTimes<T>(s.n, s.k, a, b, s.trans_b != Trans::kNone, c,
                       s.accumulate);
  if (s.n == 1 && s.k > 1)
    return RowTimes<T>(s.m, s.k, b, a, s.trans_a == Trans::kNone, c,
                       s.accumulate);
  if (s.k > 1 || s.n < kNarrow) return false;
  ParallelFor(s.m, std::max<int64_t>(1, kWork / s.n),
              [&](int64_t begin, int64_t end) {
                GemmThin<T>(end - begin, s.n, 1, {a + begin, 1, 1}, b, s.n,
                            c + begin * s.n, s.n, s.accumulate);
              });
  return true;
}

// The thin and the tiny products, for which packing costs more than it gains.
// Returns true if the product is one of these.
template <typename T>
bool GemmSmall(const GemmShape& s, const T* a, const T* b, T* c) {
  if (GemmOfThin(s, a, b, c)) return true;
  if (!IsTiny(s)) return false;
  GemmTiny<T>(s.m, s.n, s.k, ViewA(s, a), ViewB(s, b), c, s.n, s.accumulate);
  return true;
}

// A row, or a column, times a matrix of any size, which is read once: without a
// copy in panels. Returns true if the product is one of these.
template <typename T>
bool GemmOfVector(const GemmShape& s, const T* a, const T* b, T* c) {
  if (s.m != 1 && s.n != 1) return false;
  const bool is_row = s.m == 1;
  const int64_t n = is_row ? s.n : s.m;
  const T *const vector = is_row ? a : b, *const matrix = is_row ? b : a;
  const bool transposed =
      is_row ? s.trans_b != Trans::kNone : s.trans_a == Trans::kNone;
  ParallelFor(n, std::max<int64_t>(1, kWork / s.k),
              [&](int64_t begin, int64_t end) {
                if (transposed)
                  GemmDots<T>(end - begin, s.k, vector, matrix + begin * s.k,
                              c + begin, s.accumulate);
                else
                  GemmThin<T>(1, end - begin, s.k, {vector, s.k, 1},
                              matrix + begin, n, c + begin, n, s.accumulate);
              });
  return true;
}

// Splits c by rows or columns over the threads, each with its own packed
// product.
template <typename T>
void GemmOwn(const GemmShape& s, const T* a, const T* b, T* c) {
  if (GemmSmall(s, a, b, c) || GemmOfVector(s, a, b, c)) return;
  const MatrixView<T> va = ViewA(s, a), vb = ViewB(s, b);
  if (s.m >= s.n) {
    const int64_t grain = std::max<int64_t>(4, kWork / (s.n * s.k));
    ParallelFor(s.m, grain, [&](int64_t begin, int64_t end) {
      GemmBlocked<T>(end - begin, s.n, s.k,
                     {va.data + begin * va.row, va.row, va.col}, vb,
                     c + begin * s.n, s.n, s.accumulate);
    });
  } else {
    const int64_t grain = std::max<int64_t>(16, kWork / (s.m * s.k));
    ParallelFor(s.n, grain, [&](int64_t begin, int64_t end) {
      GemmBlocked<T>(s.m, end - begin, s.k, va,
                     {vb.data + begin * vb.col, vb.row, vb.col}, c + begin, s.n,
                     s.accumulate);
    });
  }
}

void GemmFloat(const GemmShape& s, const float* a, const float* b, float* c) {
  if (GemmSmall(s, a, b, c)) return;
  // oneDNN divides even a row times a small matrix among the threads, whose
  // synchronisation takes longer than the product (1x256x64: 14 us instead of
  // 2).
  std::optional<ScopedIntraOpThreads> alone;
  if (s.m * s.n * s.k < kWork) alone.emplace(1);
  if (!GemmByOnednn(s, a, b, c)) GemmOwn(s, a, b, c);
}

// Computes in W and converts each element on input and output.
template <typename W, typename T, typename Multiply>
void GemmThrough(const GemmShape& s, const T* a, const T* b, T* c,
                 Multiply multiply) {
  const Buffer<W> wa = NewBuffer<W>(s.m * s.k), wb = NewBuffer<W>(s.k * s.n),
                  wc = NewBuffer<W>(s.m * s.n);
  const auto in = [](const T* from, W* to, int64_t n) {
    ParallelFor(n, 16384, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) to[i] = static_cast<W>(from[i]);
    });
  };
  in(a, wa.get(), s.m * s.k);
  in(b, wb.get(), s.k * s.n);
  if (s.accumulate) in(c, wc.get(), s.m * s.n);
  multiply(s, wa.get(), wb.get(), wc.get());
  ParallelFor(s.m * s.n, 16384, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) c[i] = static_cast<T>(wc[i]);
  });
}

template <typename R>
void GemmReal(const GemmShape& s, const R* a, const R* b, R* c) {
  if constexpr (std::is_same_v<R, float>) {
    GemmFloat(s, a, b, c);
  } else {
    GemmOwn(s, a, b, c);
  }
}

// Small products by the plain sum; larger ones as four real products of the
// real and imaginary parts.
template <typename R>
void GemmComplex(const GemmShape& s, const std::complex<R>* a,
                 const std::complex<R>* b, std::complex<R>* c) {
  const MatrixView<std::complex<R>> va = ViewA(s, a), vb = ViewB(s, b);
  const R sign_a = s.trans_a == Trans::kAdjoint ? R(-1) : R(1);
  const R sign_b = s.trans_b == Trans::kAdjoint ? R(-1) : R(1);
  if (s.m * s.n * s.k <= 512) {
    for (int64_t i = 0; i < s.m; ++i) {
      for (int64_t j = 0; j < s.n; ++j) {
        R re = 0, im = 0;
        for (int64_t p = 0; p < s.k; ++p) {
          const std::complex<R> x = va.at(i, p), y = vb.at(p, j);
          const R xi = sign_a * x.imag(), yi = sign_b * y.imag();
          re += x.real() * y.real() - xi * yi;
          im += x.real() * yi + xi * y.real();
        }
        const std::complex<R> sum(re, im);
        c[i * s.n + j] = s.accumulate ? c[i * s.n + j] + sum : sum;
      }
    }
    return;
  }
  const int64_t na = s.m * s.k, nb = s.k * s.n, nc = s.m * s.n;
  const Buffer<R> parts = NewBuffer<R>(3 * na + 2 * nb + 2 * nc);
  R* ar = parts.get();
  R* ai = ar + na;
  R* minus_ai = ai + na;
  R* br = minus_ai + na;
  R* bi = br + nb;
  R* cr = bi + nb;
  R* ci = cr + nc;
  for (int64_t i = 0; i < na; ++i) {
    ar[i] = a[i].real();
    ai[i] = sign_a * a[i].imag();
    minus_ai[i] = -ai[i];
  }
  for (int64_t i = 0; i < nb; ++i) {
    br[i] = b[i].real();
    bi[i] = sign_b * b[i].imag();
  }
  if (s.accumulate) {
    for (int64_t i = 0; i < nc; ++i) {
      cr[i] = c[i].real();
      ci[i] = c[i].imag();
    }
  }
  GemmShape add = s;
  add.accumulate = true;
  GemmReal<R>(s, ar, br, cr);
  GemmReal<R>(add, minus_ai, bi, cr);
  GemmReal<R>(s, ar, bi, ci);
  GemmReal<R>(add, ai, br, ci);
  for (int64_t i = 0; i < nc; ++i) c[i] = std::complex<R>(cr[i], ci[i]);
}

}  // namespace

template <typename T>
void Gemm(const GemmShape& s, const T* a, const T* b, T* c) {
  if (s.m <= 0 || s.n <= 0) return;
  if (s.k <= 0) {
    if (!s.accumulate) std::fill(c, c + s.m * s.n, T());
    return;
  }
  if constexpr (std::is_same_v<T, float>) {
    GemmFloat(s, a, b, c);
  } else if constexpr (std::is_same_v<T, double>) {
    GemmOwn<double>(s, a, b, c);
  } else if constexpr (std::is_same_v<T, complex64> ||
                       std::is_same_v<T, complex128>) {
    GemmComplex(s, a, b, c);
  } else if constexpr (std::is_same_v<T, half> || std::is_same_v<T, bfloat16>) {
    if constexpr (std::is_same_v<T, bfloat16>)
      if (GemmByBf16(s, a, b, c)) return;
    GemmThrough<float>(s, a, b, c, GemmFloat);
  } else if constexpr (sizeof(T) == 8) {
    GemmOwn<uint64_t>(s, reinterpret_cast<const uint64_t*>(a),
                      reinterpret_cast<const uint64_t*>(b),
                      reinterpret_cast<uint64_t*>(c));
  } else if constexpr (sizeof(T) == 4) {
    GemmOwn<uint32_t>(s, reinterpret_cast<const uint32_t*>(a),
                      reinterpret_cast<const uint32_t*>(b),
                      reinterpret_cast<uint32_t*>(c));
  } else {
    GemmThrough<uint32_t>(s, a, b, c, GemmOwn<uint32_t>);
  }
}

Result<BatchMatMulShape> BatchMatMulShape::Make(const int64_t* a_dims,
                                                int a_rank,
                                                const int64_t* b_dims,
                                                int b_rank, Trans trans_a,
                                                Trans trans_b) {
  if (a_rank < 2 || b_rank < 2 || a_rank > kMaxBatchRank + 2 ||
      b_rank > kMaxBatchRank + 2) {
    return InvalidArgument("rank of a matrix product's factors: expected 2 to ",
                           kMaxBatchRank + 2, ", got ", a_rank, " and ",
                           b_rank);
  }
  BatchMatMulShape s;
  const int64_t* am = a_dims + a_rank - 2;
  const int64_t* bm = b_dims + b_rank - 2;
  const bool ta = trans_a != Trans::kNone, tb = trans_b != Trans::kNone;
  const int64_t k = am[ta ? 0 : 1], bk = bm[tb ? 1 : 0];
  if (k != bk) {
    const auto shape = [](const int64_t* dims, int rank) {
      return absl::StrCat("[", absl::StrJoin(dims, dims + rank, ","), "]");
    };
    return InvalidArgument(
        "matrices: expected inner dimensions that agree, got ",
        shape(a_dims, a_rank), " and ", shape(b_dims, b_rank));
  }
  s.gemm_ = {am[ta ? 1 : 0], bm[tb ? 0 : 1], k, trans_a, trans_b, false};
  const int ra = a_rank - 2, rb = b_rank - 2;
  s.batch_rank_ = std::max(ra, rb);
  int64_t a_step = 1, b_step = 1;
  for (int i = s.batch_rank_ - 1, x = ra - 1, y = rb - 1; i >= 0;
       --i, --x, --y) {
    const int64_t da = x >= 0 ? a_dims[x] : 1, db = y >= 0 ? b_dims[y] : 1;
    if (da != db && da != 1 && db != 1) {
      return InvalidArgument(
          "batch dimensions of a matrix product: expected equal ones or 1, "
          "got ",
          da, " and ", db);
    }
    const int64_t d = da == 1 ? db : da;
    s.batch_[i] = d;
    s.a_stride_[i] = da == 1 ? 0 : a_step;
    s.b_stride_[i] = db == 1 ? 0 : b_step;
    s.plain_ = s.plain_ && da == db;
    a_step *= da;
    b_step *= db;
    s.count_ *= d;
  }
  return s;
}

void BatchMatMulShape::Locate(int64_t i, int64_t* a_index,
                              int64_t* b_index) const {
  if (plain_) {
    *a_index = *b_index = i;
    return;
  }
  int64_t ai = 0, bi = 0;
  for (int d = batch_rank_ - 1; d >= 0; --d) {
    const int64_t at = i % batch_[d];
    i /= batch_[d];
    ai += at * a_stride_[d];
    bi += at * b_stride_[d];
  }
  *a_index = ai;
  *b_index = bi;
}

template <typename T>
void BatchMatMul(const BatchMatMulShape& shape, const T* a, const T* b, T* c) {
  const GemmShape& s = shape.gemm();
  const int64_t count = shape.batch_count();
  if (count == 0 || s.m == 0 || s.n == 0) return;
  const auto run = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      int64_t x, y;
      shape.Locate(i, &x, &y);
      Gemm<T>(s, a + x * s.m * s.k, b + y * s.k * s.n, c + i * s.m * s.n);
    }
  };
  // Each thread gets whole products while there are enough of them; otherwise
  // the threads share each product.
  const int64_t work = std::max<int64_t>(1, s.m * s.n * s.k);
  if (count >= 2 * IntraOpThreads() && count * work >= 64 * 64 * 64) {
    ParallelFor(count, std::max<int64_t>(1, 64 * 64 * 32 / work),
                [&](int64_t begin, int64_t end) {
                  ScopedIntraOpThreads one(1);
                  run(begin, end);
                });
  } else {
    run(0, count);
  }
}

#define SLUICE_GEMM(T)                                             \
  template void Gemm<T>(const GemmShape&, const T*, const T*, T*); \
  template void BatchMatMul<T>(const BatchMatMulShape&, const T*, const T*, T*);
SLUICE_GEMM(float)
SLUICE_GEMM(double)
SLUICE_GEMM(half)
SLUICE_GEMM(bfloat16)
SLUICE_GEMM(int8_t)
SLUICE_GEMM(int16_t)
SLUICE_GEMM(int32_t)
SLUICE_GEMM(int64_t)
SLUICE_GEMM(uint8_t)
SLUICE_GEMM(uint16_t)
SLUICE_GEMM(uint32_t)
SLUICE_GEMM(uint64_t)
SLUICE_GEMM(complex64)
SLUICE_GEMM(complex128)
#undef SLUICE_GEMM

}  // namespace sluice::dnn
