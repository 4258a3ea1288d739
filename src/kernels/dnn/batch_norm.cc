#include "kernels/dnn/batch_norm.h"

#include <algorithm>
#include <vector>

#include "base/parallel.h"
#include "kernels/simd/target.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/dnn/batch_norm.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"
#include "kernels/simd/partial-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::dnn {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using F = hn::ScalableTag<float>;
using V = hn::Vec<F>;

template <class Body>
HWY_INLINE void ForChannels(int64_t channels, Body body) {
  simd::HWY_NAMESPACE::ForVectors(F(), channels, body);
}

// The sum of term(row's first element) over the rows, with four partial sums.
template <class Term>
HWY_INLINE V SumRows(int64_t rows, int64_t channels, Term term) {
  const F d;
  V s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  int64_t r = 0, at = 0;
  for (; r + 4 <= rows; r += 4, at += 4 * channels) {
    s0 = hn::Add(s0, term(at));
    s1 = hn::Add(s1, term(at + channels));
    s2 = hn::Add(s2, term(at + 2 * channels));
    s3 = hn::Add(s3, term(at + 3 * channels));
  }
  for (; r < rows; ++r, at += channels) s0 = hn::Add(s0, term(at));
  return hn::Add(hn::Add(s0, s1), hn::Add(s2, s3));
}

// For a few rows that stay in the cache: sums, and sums of squares about their
// mean.
void BlockMoments(const NormShape& s, const float* x, float* mean,
                  float* squares) {
  const F d;
  const V share = hn::Set(d, 1.0f / static_cast<float>(s.rows));
  ForChannels(s.channels, [&](int64_t c, auto load, auto store) HWY_ATTR {
    const float* from = x + c;
    const V m = hn::Mul(
        share, SumRows(s.rows, s.channels,
                       [&](int64_t at) HWY_ATTR { return load(from + at); }));
    const V sq = SumRows(s.rows, s.channels, [&](int64_t at) HWY_ATTR {
      const V off = hn::Sub(load(from + at), m);
      return hn::Mul(off, off);
    });
    store(m, mean + c);
    store(sq, squares + c);
  });
}

void BlockNormalize(const NormShape& s, const float* x, const float* mean,
                    const float* slope, const float* offset, float* y) {
  for (int64_t r = 0; r < s.rows; ++r) {
    const int64_t at = r * s.channels;
    ForChannels(s.channels, [&](int64_t c, auto load, auto store) HWY_ATTR {
      const V off = hn::Sub(load(x + at + c), load(mean + c));
      store(hn::MulAdd(off, load(slope + c), load(offset + c)), y + at + c);
    });
  }
}

void BlockGradSums(const NormShape& s, const float* dy, const float* x,
                   const float* mean, float* sum, float* product_sum) {
  ForChannels(s.channels, [&](int64_t c, auto load, auto store) HWY_ATTR {
    const V m = load(mean + c);
    store(SumRows(s.rows, s.channels,
                  [&](int64_t at) HWY_ATTR { return load(dy + c + at); }),
          sum + c);
    store(SumRows(s.rows, s.channels,
                  [&](int64_t at) HWY_ATTR {
                    return hn::Mul(load(dy + c + at),
                                   hn::Sub(load(x + c + at), m));
                  }),
          product_sum + c);
  });
}

void BlockGrad(const NormShape& s, const float* dy, const float* x,
               const float* mean, const float* slope, const float* level,
               const float* along, float* dx) {
  for (int64_t r = 0; r < s.rows; ++r) {
    const int64_t at = r * s.channels;
    ForChannels(s.channels, [&](int64_t c, auto load, auto store) HWY_ATTR {
      const V off = hn::Sub(load(x + at + c), load(mean + c));
      const V g = hn::Sub(load(dy + at + c), load(level + c));
      store(hn::Mul(load(slope + c), hn::NegMulAdd(off, load(along + c), g)),
            dx + at + c);
    });
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace sluice::dnn
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::dnn {

HWY_EXPORT(BlockMoments);
HWY_EXPORT(BlockNormalize);
HWY_EXPORT(BlockGradSums);
HWY_EXPORT(BlockGrad);

namespace {

// The number of rows that are read twice in a row: half of a first-level cache.
int64_t BlockRows(const NormShape& s) {
  constexpr int64_t kFloats = 4096;
  return std::max<int64_t>(8, kFloats / std::max<int64_t>(1, s.channels));
}

// Rows [first, last) in parts, whose number does not depend on the thread
// count: the sums of the parts are added in order.
constexpr int64_t kParts = 16;

template <typename Fn>
void ForParts(const NormShape& s, Fn fn) {
  const int64_t parts = std::min(kParts, s.rows);
  const int64_t work = s.rows * s.channels / std::max<int64_t>(1, parts);
  ParallelFor(parts, std::max<int64_t>(1, 16384 / std::max<int64_t>(1, work)),
              [&](int64_t begin, int64_t end) {
                for (int64_t p = begin; p < end; ++p)
                  fn(p, s.rows * p / parts, s.rows * (p + 1) / parts);
              });
}

// Calls fn(first row, rows) for blocks of [first, last).
template <typename Fn>
void ForBlocks(const NormShape& s, int64_t first, int64_t last, Fn fn) {
  const int64_t step = BlockRows(s);
  for (; first < last; first += step) fn(first, std::min(step, last - first));
}

// The moments of some rows; the squares are about their mean.
struct Moments {
  int64_t rows = 0;
  std::vector<double> mean, squares;
  // (Chan, Golub and LeVeque's formula for combining the moments of two
  // samples.)
  template <typename T>
  void Add(int64_t n, const T* m, const T* sq) {
    const double all = static_cast<double>(rows + n);
    const double share = static_cast<double>(n) / all;
    for (size_t c = 0; c < mean.size(); ++c) {
      const double off = m[c] - mean[c];
      mean[c] += off * share;
      squares[c] += sq[c] + off * off * share * static_cast<double>(rows);
    }
    rows += n;
  }
};

}  // namespace

void ChannelMoments(const NormShape& s, const float* x, float* mean,
                    float* variance) {
  const auto channels = static_cast<size_t>(s.channels);
  std::vector<Moments> parts(kParts);
  ForParts(s, [&](int64_t p, int64_t first, int64_t last) {
    Moments& mine = parts[static_cast<size_t>(p)];
    mine.mean.assign(channels, 0);
    mine.squares.assign(channels, 0);
    std::vector<float> m(channels), sq(channels);
    ForBlocks(s, first, last, [&](int64_t row, int64_t rows) {
      HWY_DYNAMIC_DISPATCH(BlockMoments)
      ({rows, s.channels}, x + row * s.channels, m.data(), sq.data());
      mine.Add(rows, m.data(), sq.data());
    });
  });
  Moments& all = parts[0];
  for (size_t p = 1; p < parts.size(); ++p)
    if (parts[p].rows > 0)
      all.Add(parts[p].rows, parts[p].mean.data(), parts[p].squares.data());
  for (size_t c = 0; c < channels; ++c) {
    mean[c] = static_cast<float>(all.mean[c]);
    variance[c] =
        static_cast<float>(all.squares[c] / static_cast<double>(s.rows));
  }
}

void Normalize(const NormShape& s, const float* x, const float* mean,
               const float* slope, const float* offset, float* y) {
  ForParts(s, [&](int64_t, int64_t first, int64_t last) {
    HWY_DYNAMIC_DISPATCH(BlockNormalize)
    ({last - first, s.channels}, x + first * s.channels, mean, slope, offset,
     y + first * s.channels);
  });
}

void NormalizeGradSums(const NormShape& s, const float* dy, const float* x,
                       const float* mean, float* sum, float* product_sum) {
  const auto channels = static_cast<size_t>(s.channels);
  const auto parts = static_cast<size_t>(std::min(kParts, s.rows));
  std::vector<double> sums(2 * parts * channels, 0.0);
  ForParts(s, [&](int64_t p, int64_t first, int64_t last) {
    double* mine = &sums[2 * static_cast<size_t>(p) * channels];
    std::vector<float> a(channels), b(channels);
    ForBlocks(s, first, last, [&](int64_t row, int64_t rows) {
      const int64_t at = row * s.channels;
      HWY_DYNAMIC_DISPATCH(BlockGradSums)
      ({rows, s.channels}, dy + at, x + at, mean, a.data(), b.data());
      for (size_t c = 0; c < channels; ++c) {
        mine[c] += static_cast<double>(a[c]);
        mine[channels + c] += static_cast<double>(b[c]);
      }
    });
  });
  for (size_t c = 0; c < channels; ++c) {
    double a = 0, b = 0;
    for (size_t p = 0; p < parts; ++p) {
      a += sums[2 * p * channels + c];
      b += sums[(2 * p + 1) * channels + c];
    }
    sum[c] = static_cast<float>(a);
    product_sum[c] = static_cast<float>(b);
  }
}

void NormalizeGrad(const NormShape& s, const float* dy, const float* x,
                   const float* mean, const float* slope, const float* level,
                   const float* along, float* dx) {
  ForParts(s, [&](int64_t, int64_t first, int64_t last) {
    const int64_t at = first * s.channels;
    HWY_DYNAMIC_DISPATCH(BlockGrad)
    ({last - first, s.channels}, dy + at, x + at, mean, slope, level, along,
     dx + at);
  });
}

}  // namespace sluice::dnn
#endif  // HWY_ONCE
