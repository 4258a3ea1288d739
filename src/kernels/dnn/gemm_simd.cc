#include "kernels/dnn/gemm_simd.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <new>

#include "kernels/simd/target.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/dnn/gemm_simd.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"
#include "kernels/dnn/gemm-inl.h"
#include "kernels/simd/partial-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::dnn {
namespace HWY_NAMESPACE {
namespace {

// Rows i..i+kRows of c, columns j..j+width, width <= Lanes(d).
template <int kRows, class D, class T = hn::TFromD<D>>
HWY_INLINE void TinyTile(D d, int64_t i, int64_t j, int64_t width, int64_t k,
                         const MatrixView<T>& a, const T* b, int64_t ldb, T* c,
                         int64_t ldc, bool accumulate) {
  static_assert(kRows == 1 || kRows == 4);
  using V = hn::Vec<D>;
  const bool whole = width == static_cast<int64_t>(hn::Lanes(d));
  const auto mask = hn::FirstN(d, static_cast<size_t>(width));
  V c0 = hn::Zero(d), c1 = c0, c2 = c0, c3 = c0;
  const T* pa = a.data + i * a.row;
  const T* pb = b + j;
  for (int64_t p = 0; p < k; ++p, pa += a.col, pb += ldb) {
    const V x =
        whole ? hn::LoadU(d, pb) : simd::HWY_NAMESPACE::LoadFirst(mask, d, pb);
    c0 = MulAdd(hn::Set(d, pa[0]), x, c0);
    if constexpr (kRows == 4) {
      c1 = MulAdd(hn::Set(d, pa[a.row]), x, c1);
      c2 = MulAdd(hn::Set(d, pa[2 * a.row]), x, c2);
      c3 = MulAdd(hn::Set(d, pa[3 * a.row]), x, c3);
    }
  }
  T* pc = c + i * ldc + j;
  const auto store = [&](V v, T* at) HWY_ATTR {
    if (whole) {
      hn::StoreU(accumulate ? hn::Add(v, hn::LoadU(d, at)) : v, d, at);
    } else {
      if (accumulate)
        v = hn::Add(v, simd::HWY_NAMESPACE::LoadFirst(mask, d, at));
      simd::HWY_NAMESPACE::StoreFirst(v, mask, d, at);
    }
  };
  store(c0, pc);
  if constexpr (kRows == 4) {
    store(c1, pc + ldc);
    store(c2, pc + 2 * ldc);
    store(c3, pc + 3 * ldc);
  }
}

template <typename T>
void Tiny(int64_t m, int64_t n, int64_t k, MatrixView<T> a, MatrixView<T> b,
          T* c, int64_t ldc, bool accumulate) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  T packed[kTinyFactor];
  const T* pb = b.data;
  int64_t ldb = b.row;
  if (b.col != 1) {
    for (int64_t p = 0; p < k; ++p)
      for (int64_t j = 0; j < n; ++j) packed[p * n + j] = b.at(p, j);
    pb = packed;
    ldb = n;
  }
  for (int64_t j = 0; j < n; j += lanes) {
    const int64_t width = std::min(lanes, n - j);
    int64_t i = 0;
    for (; i + 4 <= m; i += 4)
      TinyTile<4>(d, i, j, width, k, a, pb, ldb, c, ldc, accumulate);
    for (; i < m; ++i)
      TinyTile<1>(d, i, j, width, k, a, pb, ldb, c, ldc, accumulate);
  }
}

// The register tile: 4 rows by 3 vectors, 12 sums in flight, which hides the
// latency of the multiply-add on every machine and fits 16 registers.
constexpr int64_t kTileRows = 4;
constexpr int64_t kTileVectors = 3;
constexpr int64_t kBlockK = 256;   // A panel of b stays in the first cache,
constexpr int64_t kBlockM = 64;    // a block of a in the second,
constexpr int64_t kBlockN = 1024;  // a block of b in the last.

// a's panel: [k][4], b's panel: [k][3 vectors]; both aligned.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE void Tile(D d, int64_t k, const T* HWY_RESTRICT a,
                     const T* HWY_RESTRICT b, T* HWY_RESTRICT out, int64_t ldo,
                     bool add) {
  using V = hn::Vec<D>;
  const int64_t n = static_cast<int64_t>(hn::Lanes(d));
  V c00 = hn::Zero(d), c01 = c00, c02 = c00;
  V c10 = c00, c11 = c00, c12 = c00;
  V c20 = c00, c21 = c00, c22 = c00;
  V c30 = c00, c31 = c00, c32 = c00;
  for (int64_t p = 0; p < k; ++p, a += kTileRows, b += kTileVectors * n) {
    const V b0 = hn::Load(d, b);
    const V b1 = hn::Load(d, b + n);
    const V b2 = hn::Load(d, b + 2 * n);
    V x = hn::Set(d, a[0]);
    c00 = MulAdd(x, b0, c00);
    c01 = MulAdd(x, b1, c01);
    c02 = MulAdd(x, b2, c02);
    x = hn::Set(d, a[1]);
    c10 = MulAdd(x, b0, c10);
    c11 = MulAdd(x, b1, c11);
    c12 = MulAdd(x, b2, c12);
    x = hn::Set(d, a[2]);
    c20 = MulAdd(x, b0, c20);
    c21 = MulAdd(x, b1, c21);
    c22 = MulAdd(x, b2, c22);
    x = hn::Set(d, a[3]);
    c30 = MulAdd(x, b0, c30);
    c31 = MulAdd(x, b1, c31);
    c32 = MulAdd(x, b2, c32);
  }
  const auto row = [&](V v0, V v1, V v2, T* at) HWY_ATTR {
    if (add) {
      v0 = hn::Add(v0, hn::LoadU(d, at));
      v1 = hn::Add(v1, hn::LoadU(d, at + n));
      v2 = hn::Add(v2, hn::LoadU(d, at + 2 * n));
    }
    hn::StoreU(v0, d, at);
    hn::StoreU(v1, d, at + n);
    hn::StoreU(v2, d, at + 2 * n);
  };
  row(c00, c01, c02, out);
  row(c10, c11, c12, out + ldo);
  row(c20, c21, c22, out + 2 * ldo);
  row(c30, c31, c32, out + 3 * ldo);
}

// out[p * width + 0..3] = row 0..3 of `from` at p, p < k. Rows are `row` apart.
template <typename T>
HWY_INLINE void PackFourRows(const T* from, int64_t row, int64_t k,
                             int64_t width, T* HWY_RESTRICT out) {
  int64_t p = 0;
  if constexpr (sizeof(T) == 4) {
    const hn::FixedTag<T, 4> d;
    for (; p + 4 <= k; p += 4) {
      const auto v0 = hn::LoadU(d, from + p);
      const auto v1 = hn::LoadU(d, from + row + p);
      const auto v2 = hn::LoadU(d, from + 2 * row + p);
      const auto v3 = hn::LoadU(d, from + 3 * row + p);
      const auto even0 = hn::InterleaveLower(d, v0, v2);
      const auto odd0 = hn::InterleaveLower(d, v1, v3);
      const auto even1 = hn::InterleaveUpper(d, v0, v2);
      const auto odd1 = hn::InterleaveUpper(d, v1, v3);
      T* const to = out + p * width;
      hn::StoreU(hn::InterleaveLower(d, even0, odd0), d, to);
      hn::StoreU(hn::InterleaveUpper(d, even0, odd0), d, to + width);
      hn::StoreU(hn::InterleaveLower(d, even1, odd1), d, to + 2 * width);
      hn::StoreU(hn::InterleaveUpper(d, even1, odd1), d, to + 3 * width);
    }
  }
  for (; p < k; ++p)
    for (int64_t i = 0; i < 4; ++i) out[p * width + i] = from[i * row + p];
}

// Panels of `width` rows of v's transpose side by side: out[panel][p][width],
// padded with zeros. v is read as v.at(i, p), i < extent, p < k, and
// consecutive in one of the two. REQUIRES: width is a multiple of 16 bytes.
template <typename T>
void Pack(MatrixView<T> v, int64_t extent, int64_t k, int64_t width, T* out) {
  constexpr int64_t kChunk = 16 / sizeof(T);
  int64_t i0 = 0;
  if (v.row == 1) {
    // Several at a time, because a panel's row ends within a cache line.
    for (int64_t panels = 0;
         (panels = std::min<int64_t>(4, (extent - i0) / width)) > 0;) {
      for (int64_t p = 0; p < k; ++p) {
        const T* from = v.data + i0 + p * v.col;
        T* to = out + p * width;
        for (int64_t panel = 0; panel < panels; ++panel, to += width * k)
          for (int64_t i = 0; i < width; i += kChunk, from += kChunk)
            std::memcpy(to + i, from, 16);
      }
      i0 += panels * width;
      out += panels * width * k;
    }
  }
  for (; i0 < extent; i0 += width, out += width * k) {
    const int64_t rows = std::min(width, extent - i0);
    const T* from = v.data + i0 * v.row;
    int64_t i = 0;
    if (v.col == 1)
      for (; i + 4 <= rows; i += 4)
        PackFourRows(from + i * v.row, v.row, k, width, out + i);
    for (; i < rows; ++i)
      for (int64_t p = 0; p < k; ++p)
        out[p * width + i] = from[i * v.row + p * v.col];
    for (; i < width; ++i)
      for (int64_t p = 0; p < k; ++p) out[p * width + i] = T();
  }
}

// (Not Highway's, whose library Debian has only as a shared one.)
constexpr std::align_val_t kLine{64};
struct FreeAligned {
  void operator()(void* memory) const { ::operator delete(memory, kLine); }
};
template <typename T>
using Aligned = std::unique_ptr<T[], FreeAligned>;

template <typename T>
Aligned<T> NewAligned(int64_t n) {
  return Aligned<T>(static_cast<T*>(
      ::operator new(static_cast<size_t>(n) * sizeof(T), kLine)));
}

template <typename T>
void Blocked(int64_t m, int64_t n, int64_t k, MatrixView<T> a, MatrixView<T> b,
             T* c, int64_t ldc, bool accumulate) {
  const hn::ScalableTag<T> d;
  const int64_t width = kTileVectors * static_cast<int64_t>(hn::Lanes(d));
  const auto round_up = [](int64_t x, int64_t to) {
    return (x + to - 1) / to * to;
  };
  // With few rows a is packed once, and a few panels of b are used up at once.
  const bool few_rows = m <= kBlockM;
  const int64_t block_k = std::min(k, kBlockK);
  const int64_t block_n =
      round_up(std::min(n, few_rows ? 4 * width : kBlockN), width);
  const Aligned<T> packed_b = NewAligned<T>(block_k * block_n);
  const Aligned<T> packed_a = NewAligned<T>(block_k * kBlockM);
  const Aligned<T> edge = NewAligned<T>(kTileRows * width);
  const auto pack_a = [&](int64_t i0, int64_t mb, int64_t p0, int64_t kb) {
    Pack<T>({a.data + i0 * a.row + p0 * a.col, a.row, a.col}, mb, kb, kTileRows,
            packed_a.get());
  };
  for (int64_t p0 = 0; p0 < k; p0 += kBlockK) {
    const int64_t kb = std::min(kBlockK, k - p0);
    const bool add = accumulate || p0 > 0;
    if (few_rows) pack_a(0, m, p0, kb);
    for (int64_t j0 = 0; j0 < n; j0 += block_n) {
      const int64_t nb = std::min(block_n, n - j0);
      Pack<T>({b.data + p0 * b.row + j0 * b.col, b.col, b.row}, nb, kb, width,
              packed_b.get());
      for (int64_t i0 = 0; i0 < m; i0 += kBlockM) {
        const int64_t mb = std::min(kBlockM, m - i0);
        if (!few_rows) pack_a(i0, mb, p0, kb);
        for (int64_t j = 0; j < nb; j += width) {
          const T* pb = packed_b.get() + j * kb;
          for (int64_t i = 0; i < mb; i += kTileRows) {
            const T* pa = packed_a.get() + i * kb;
            T* out = c + (i0 + i) * ldc + j0 + j;
            const int64_t rows = std::min(kTileRows, mb - i);
            const int64_t cols = std::min(width, nb - j);
            if (rows == kTileRows && cols == width) {
              Tile(d, kb, pa, pb, out, ldc, add);
              continue;
            }
            Tile(d, kb, pa, pb, edge.get(), width, false);
            for (int64_t r = 0; r < rows; ++r)
              for (int64_t x = 0; x < cols; ++x) {
                const T v = edge[r * width + x];
                out[r * ldc + x] = add ? out[r * ldc + x] + v : v;
              }
          }
        }
      }
    }
  }
}

#define SLUICE_GEMM_TYPE(T, Name)                                           \
  void Tiny##Name(int64_t m, int64_t n, int64_t k, MatrixView<T> a,         \
                  MatrixView<T> b, T* c, int64_t ldc, bool accumulate) {    \
    Tiny<T>(m, n, k, a, b, c, ldc, accumulate);                             \
  }                                                                         \
  void Blocked##Name(int64_t m, int64_t n, int64_t k, MatrixView<T> a,      \
                     MatrixView<T> b, T* c, int64_t ldc, bool accumulate) { \
    Blocked<T>(m, n, k, a, b, c, ldc, accumulate);                          \
  }
SLUICE_GEMM_TYPES(SLUICE_GEMM_TYPE)
#undef SLUICE_GEMM_TYPE

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace sluice::dnn
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::dnn {

#define SLUICE_GEMM_TYPE(T, Name)                                             \
  HWY_EXPORT(Tiny##Name);                                                     \
  HWY_EXPORT(Blocked##Name);                                                  \
  template <>                                                                 \
  void GemmTiny<T>(int64_t m, int64_t n, int64_t k, MatrixView<T> a,          \
                   MatrixView<T> b, T * c, int64_t ldc, bool accumulate) {    \
    HWY_DYNAMIC_DISPATCH(Tiny##Name)(m, n, k, a, b, c, ldc, accumulate);      \
  }                                                                           \
  template <>                                                                 \
  void GemmBlocked<T>(int64_t m, int64_t n, int64_t k, MatrixView<T> a,       \
                      MatrixView<T> b, T * c, int64_t ldc, bool accumulate) { \
    HWY_DYNAMIC_DISPATCH(Blocked##Name)(m, n, k, a, b, c, ldc, accumulate);   \
  }
SLUICE_GEMM_TYPES(SLUICE_GEMM_TYPE)
#undef SLUICE_GEMM_TYPE

}  // namespace sluice::dnn
#endif  // HWY_ONCE
