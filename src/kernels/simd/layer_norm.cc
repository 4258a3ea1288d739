#include "kernels/simd/layer_norm.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/parallel.h"
#include "kernels/simd/target.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/layer_norm.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"
#include "kernels/simd/partial-inl.h"

// Only once, although this file is compiled once for each instruction set.
#ifndef SLUICE_KERNELS_SIMD_LAYER_NORM_ARGS_
#define SLUICE_KERNELS_SIMD_LAYER_NORM_ARGS_
namespace sluice::simd {

struct LayerNormArgs {
  const void *x, *gamma, *beta;
  void *y, *mean, *scale;
  double epsilon;
};

struct LayerNormGradArgs {
  const void *dy, *x, *gamma, *mean, *scale;
  void* dx;
};

}  // namespace sluice::simd
#endif

HWY_BEFORE_NAMESPACE();
namespace sluice::simd {
namespace HWY_NAMESPACE {
namespace {

// Long sums are of blocks, each in the type of the elements, and the blocks are
// added up in double.
constexpr int64_t kSumBlock = 4096;

// kSums sums over n elements. vectors(d, i) -> their terms for the vector at i,
// scalars(i) -> those of element i, each a std::array.
template <class T, size_t kSums, class Vectors, class Scalars>
HWY_INLINE std::array<double, kSums> Sums(int64_t n, const Vectors& vectors,
                                          const Scalars& scalars) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  std::array<double, kSums> all{};
  for (int64_t i = 0; i < n;) {
    const int64_t end = std::min(n, i + kSumBlock);
    // (Four sums of each, so that they do not wait for each other.)
    V sums[kSums][4];
    for (auto& s : sums)
      for (V& v : s) v = hn::Zero(d);
    for (; i + 4 * lanes <= end; i += 4 * lanes)
      for (int64_t u = 0; u < 4; ++u) {
        V terms[kSums];
        vectors(d, i + u * lanes, terms);
        for (size_t k = 0; k < kSums; ++k)
          sums[k][u] = hn::Add(sums[k][u], terms[k]);
      }
    for (; i + lanes <= end; i += lanes) {
      V terms[kSums];
      vectors(d, i, terms);
      for (size_t k = 0; k < kSums; ++k)
        sums[k][0] = hn::Add(sums[k][0], terms[k]);
    }
    for (size_t k = 0; k < kSums; ++k)
      all[k] += static_cast<double>(hn::GetLane(
          hn::SumOfLanes(d, hn::Add(hn::Add(sums[k][0], sums[k][1]),
                                    hn::Add(sums[k][2], sums[k][3])))));
    for (; i < end; ++i) {
      T terms[kSums];
      scalars(i, terms);
      for (size_t k = 0; k < kSums; ++k)
        all[k] += static_cast<double>(terms[k]);
    }
  }
  return all;
}

template <class T>
void Rows(int64_t begin, int64_t end, int64_t n, const LayerNormArgs& args) {
  const hn::ScalableTag<T> d;
  const T* gamma = static_cast<const T*>(args.gamma);
  const T* beta = static_cast<const T*>(args.beta);
  for (int64_t r = begin; r < end; ++r) {
    const T* x = static_cast<const T*>(args.x) + r * n;
    T* y = static_cast<T*>(args.y) + r * n;
    const auto count = static_cast<double>(n);
    // A mean of the elements' precision, from which the next pass measures: its
    // rounding error would count as variance.
    const T about =
        static_cast<T>(Sums<T, 1>(
                           n,
                           [x](auto d, int64_t i, auto* terms)
                               HWY_ATTR { terms[0] = hn::LoadU(d, x + i); },
                           [x](int64_t i, T* terms) { terms[0] = x[i]; })[0] /
                       count);
    const auto origin = hn::Set(d, about);
    const std::array<double, 2> moments = Sums<T, 2>(
        n,
        [x, origin](auto d, int64_t i, auto* terms) HWY_ATTR {
          terms[0] = hn::Sub(hn::LoadU(d, x + i), origin);
          terms[1] = hn::Mul(terms[0], terms[0]);
        },
        [x, about](int64_t i, T* terms) {
          terms[0] = x[i] - about;
          terms[1] = terms[0] * terms[0];
        });
    const double shift = moments[0] / count;
    double variance = moments[1] / count - shift * shift;
    if (variance < 0) variance = 0;  // (NaN stays.)
    const T mean = static_cast<T>(static_cast<double>(about) + shift);
    const auto center = hn::Set(d, mean);
    const T scale = static_cast<T>(1 / std::sqrt(variance + args.epsilon));
    static_cast<T*>(args.mean)[r] = mean;
    static_cast<T*>(args.scale)[r] = scale;
    const auto by = hn::Set(d, scale);
    ForVectors(d, n, [&](int64_t i, auto load, auto store) HWY_ATTR {
      const auto normal = hn::Mul(hn::Sub(load(x + i), center), by);
      store(hn::MulAdd(normal, load(gamma + i), load(beta + i)), y + i);
    });
  }
}

// dgamma and dbeta get the sums over these rows.
template <class T>
void GradRows(int64_t begin, int64_t end, int64_t n,
              const LayerNormGradArgs& args, T* dgamma, T* dbeta) {
  const hn::ScalableTag<T> d;
  std::fill_n(dgamma, n, T());
  std::fill_n(dbeta, n, T());
  const T* gamma = static_cast<const T*>(args.gamma);
  for (int64_t r = begin; r < end; ++r) {
    const T* dy = static_cast<const T*>(args.dy) + r * n;
    const T* x = static_cast<const T*>(args.x) + r * n;
    T* dx = static_cast<T*>(args.dx) + r * n;
    const T mean = static_cast<const T*>(args.mean)[r];
    const T scale = static_cast<const T*>(args.scale)[r];
    const auto center = hn::Set(d, mean), by = hn::Set(d, scale);
    // Of g and of g * n.
    const std::array<double, 2> sums = Sums<T, 2>(
        n,
        [=](auto d, int64_t i, auto* terms) HWY_ATTR {
          terms[0] = hn::Mul(hn::LoadU(d, dy + i), hn::LoadU(d, gamma + i));
          terms[1] = hn::Mul(terms[0],
                             hn::Mul(hn::Sub(hn::LoadU(d, x + i), center), by));
        },
        [=](int64_t i, T* terms) {
          terms[0] = dy[i] * gamma[i];
          terms[1] = terms[0] * ((x[i] - mean) * scale);
        });
    const auto level =
        hn::Set(d, static_cast<T>(sums[0] / static_cast<double>(n)));
    const auto along =
        hn::Set(d, static_cast<T>(sums[1] / static_cast<double>(n)));
    ForVectors(d, n, [&](int64_t i, auto load, auto store) HWY_ATTR {
      const auto slope = load(dy + i);
      const auto normal = hn::Mul(hn::Sub(load(x + i), center), by);
      store(hn::MulAdd(slope, normal, load(dgamma + i)), dgamma + i);
      store(hn::Add(slope, load(dbeta + i)), dbeta + i);
      const auto rest = hn::Sub(hn::Mul(slope, load(gamma + i)), level);
      store(hn::Mul(by, hn::NegMulAdd(normal, along, rest)), dx + i);
    });
  }
}

}  // namespace

void LayerNormRange(bool wide, int64_t begin, int64_t end, int64_t n,
                    const LayerNormArgs& args) {
  (wide ? Rows<double> : Rows<float>)(begin, end, n, args);
}
void LayerNormGradRangeOfFloats(int64_t begin, int64_t end, int64_t n,
                                const LayerNormGradArgs& args, float* dgamma,
                                float* dbeta) {
  GradRows(begin, end, n, args, dgamma, dbeta);
}
void LayerNormGradRangeOfDoubles(int64_t begin, int64_t end, int64_t n,
                                 const LayerNormGradArgs& args, double* dgamma,
                                 double* dbeta) {
  GradRows(begin, end, n, args, dgamma, dbeta);
}

}  // namespace HWY_NAMESPACE
}  // namespace sluice::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::simd {
HWY_EXPORT(LayerNormRange);
HWY_EXPORT(LayerNormGradRangeOfFloats);
HWY_EXPORT(LayerNormGradRangeOfDoubles);
namespace {

constexpr int64_t kWork = 16384;  // Elements worth a thread.

// The sums over rows are those of so many parts, of four rows or more, whatever
// the thread count.
int64_t SumParts(int64_t rows) {
  constexpr int64_t kMost = 16;
  return std::clamp<int64_t>(rows / 4, 1, kMost);
}

template <typename T>
void GradOf(RowsShape shape, const LayerNormGradArgs& args, T* dgamma, T* dbeta,
            T* sums) {
  const int64_t n = shape.columns;
  const int64_t parts = SumParts(shape.rows);
  const int64_t each = std::max<int64_t>(1, shape.rows * n / parts);
  ParallelFor(parts, std::max<int64_t>(1, kWork / each),
              [&](int64_t begin, int64_t end) {
                for (int64_t p = begin; p < end; ++p) {
                  T* const mine = sums + 2 * p * n;
                  const int64_t first = shape.rows * p / parts,
                                last = shape.rows * (p + 1) / parts;
                  if constexpr (sizeof(T) == 8) {
                    HWY_DYNAMIC_DISPATCH(LayerNormGradRangeOfDoubles)
                    (first, last, n, args, mine, mine + n);
                  } else {
                    HWY_DYNAMIC_DISPATCH(LayerNormGradRangeOfFloats)
                    (first, last, n, args, mine, mine + n);
                  }
                }
              });
  ParallelFor(n, std::max<int64_t>(1, kWork / (2 * parts)),
              [&](int64_t begin, int64_t end) {
                for (int64_t i = begin; i < end; ++i) {
                  double of_gamma = 0, of_beta = 0;
                  for (int64_t p = 0; p < parts; ++p) {
                    const T* const part = sums + 2 * p * n + i;
                    of_gamma += static_cast<double>(part[0]);
                    of_beta += static_cast<double>(part[n]);
                  }
                  dgamma[i] = static_cast<T>(of_gamma);
                  dbeta[i] = static_cast<T>(of_beta);
                }
              });
}

}  // namespace

int64_t LayerNormGradRoom(RowsShape shape) {
  return 2 * SumParts(shape.rows) * shape.columns;
}

bool LayerNorm(DType t, RowsShape shape, double epsilon, const void* x,
               const void* gamma, const void* beta, void* y, void* mean,
               void* scale) {
  if (t != DType::kFloat && t != DType::kDouble) return false;
  const LayerNormArgs args = {x, gamma, beta, y, mean, scale, epsilon};
  const int64_t grain =
      std::max<int64_t>(1, kWork / std::max<int64_t>(1, shape.columns));
  ParallelFor(shape.rows, grain, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(LayerNormRange)
    (t == DType::kDouble, begin, end, shape.columns, args);
  });
  return true;
}

bool LayerNormGrad(DType t, RowsShape shape, const void* dy, const void* x,
                   const void* gamma, const void* mean, const void* scale,
                   void* dx, void* dgamma, void* dbeta, void* room) {
  const LayerNormGradArgs args = {dy, x, gamma, mean, scale, dx};
  if (t == DType::kFloat) {
    GradOf(shape, args, static_cast<float*>(dgamma), static_cast<float*>(dbeta),
           static_cast<float*>(room));
  } else if (t == DType::kDouble) {
    GradOf(shape, args, static_cast<double*>(dgamma),
           static_cast<double*>(dbeta), static_cast<double*>(room));
  } else {
    return false;
  }
  return true;
}

}  // namespace sluice::simd
#endif  // HWY_ONCE
