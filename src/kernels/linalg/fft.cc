// Transforms of several lines at a time, one in each lane of a vector; single
// lines go through the same passes, element by element of the line. Parts that
// are real and imaginary are apart, so no pass moves data between lanes.
#include "kernels/linalg/fft.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/parallel.h"
#include "kernels/linalg/fft_plan.h"
#include "kernels/simd/target.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/linalg/fft.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

// What a kernel of one instruction set offers, for one type.
#ifndef SLUICE_KERNELS_LINALG_FFT_LINES_
#define SLUICE_KERNELS_LINALG_FFT_LINES_
namespace sluice::linalg {
namespace {
// `count` lines, at most as many as there are lanes: element k of line i is at
// i * line + k * step, counted in the elements of the side, real or complex.
template <typename T>
struct FftLines {
  const T* in;
  T* out;
  int64_t count;
  int64_t in_line, in_step, out_line, out_step;
};
enum class FftKind { kComplex, kInverse, kReal, kInverseReal };
template <typename T>
struct FftLoops {
  int64_t lanes;
  void (*run)(const FftPlan<T>&, FftKind, const FftLines<T>&, T* work);
};
struct AllFftLoops {
  FftLoops<float> f;
  FftLoops<double> d;
};
}  // namespace
}  // namespace sluice::linalg
#endif

HWY_BEFORE_NAMESPACE();
namespace sluice::linalg {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// ---- One butterfly: a transform of P elements in registers ------------------

template <int P>
struct Butterfly;

template <>
struct Butterfly<2> {
  template <class V>
  static HWY_INLINE void Run(V* re, V* im) {
    const V r = re[0], i = im[0];
    re[0] = hn::Add(r, re[1]);
    im[0] = hn::Add(i, im[1]);
    re[1] = hn::Sub(r, re[1]);
    im[1] = hn::Sub(i, im[1]);
  }
};

template <>
struct Butterfly<4> {
  template <class V>
  static HWY_INLINE void Run(V* re, V* im) {
    const V ar = hn::Add(re[0], re[2]), ai = hn::Add(im[0], im[2]);
    const V br = hn::Sub(re[0], re[2]), bi = hn::Sub(im[0], im[2]);
    const V cr = hn::Add(re[1], re[3]), ci = hn::Add(im[1], im[3]);
    const V dr = hn::Sub(re[1], re[3]), di = hn::Sub(im[1], im[3]);
    re[0] = hn::Add(ar, cr);
    im[0] = hn::Add(ai, ci);
    re[2] = hn::Sub(ar, cr);
    im[2] = hn::Sub(ai, ci);
    re[1] = hn::Add(br, di);
    im[1] = hn::Sub(bi, dr);
    re[3] = hn::Sub(br, di);
    im[3] = hn::Add(bi, dr);
  }
};

// Elements r and P - r of the result are c - i s and c + i s.
template <class V>
HWY_INLINE void SetPair(V cr, V ci, V sr, V si, V* re, V* im, V* other_re,
                        V* other_im) {
  *re = hn::Add(cr, si);
  *im = hn::Sub(ci, sr);
  *other_re = hn::Sub(cr, si);
  *other_im = hn::Add(ci, sr);
}

template <>
struct Butterfly<3> {
  template <class V>
  static HWY_INLINE void Run(V* re, V* im) {
    using D = hn::DFromV<V>;
    using T = hn::TFromD<D>;
    const V half = hn::Set(D(), T(-0.5));
    const V sine = hn::Set(D(), T(0.86602540378443864676));
    const V tr = hn::Add(re[1], re[2]), ti = hn::Add(im[1], im[2]);
    const V sr = hn::Mul(sine, hn::Sub(re[1], re[2]));
    const V si = hn::Mul(sine, hn::Sub(im[1], im[2]));
    const V cr = hn::MulAdd(half, tr, re[0]), ci = hn::MulAdd(half, ti, im[0]);
    re[0] = hn::Add(re[0], tr);
    im[0] = hn::Add(im[0], ti);
    SetPair(cr, ci, sr, si, &re[1], &im[1], &re[2], &im[2]);
  }
};

template <>
struct Butterfly<5> {
  template <class V>
  static HWY_INLINE void Run(V* re, V* im) {
    using D = hn::DFromV<V>;
    using T = hn::TFromD<D>;
    const V c1 = hn::Set(D(), T(0.30901699437494742410));
    const V c2 = hn::Set(D(), T(-0.80901699437494742410));
    const V s1 = hn::Set(D(), T(0.95105651629515357212));
    const V s2 = hn::Set(D(), T(0.58778525229247312917));
    const V t1r = hn::Add(re[1], re[4]), t1i = hn::Add(im[1], im[4]);
    const V d1r = hn::Sub(re[1], re[4]), d1i = hn::Sub(im[1], im[4]);
    const V t2r = hn::Add(re[2], re[3]), t2i = hn::Add(im[2], im[3]);
    const V d2r = hn::Sub(re[2], re[3]), d2i = hn::Sub(im[2], im[3]);
    const V r = re[0], i = im[0];
    re[0] = hn::Add(r, hn::Add(t1r, t2r));
    im[0] = hn::Add(i, hn::Add(t1i, t2i));
    SetPair(hn::MulAdd(c2, t2r, hn::MulAdd(c1, t1r, r)),
            hn::MulAdd(c2, t2i, hn::MulAdd(c1, t1i, i)),
            hn::MulAdd(s2, d2r, hn::Mul(s1, d1r)),
            hn::MulAdd(s2, d2i, hn::Mul(s1, d1i)), &re[1], &im[1], &re[4],
            &im[4]);
    SetPair(hn::MulAdd(c1, t2r, hn::MulAdd(c2, t1r, r)),
            hn::MulAdd(c1, t2i, hn::MulAdd(c2, t1i, i)),
            hn::NegMulAdd(s1, d2r, hn::Mul(s2, d1r)),
            hn::NegMulAdd(s1, d2i, hn::Mul(s2, d1i)), &re[2], &im[2], &re[3],
            &im[3]);
  }
};

// For any odd factor up to kLargestFftFactor, with the cosines and sines of its
// multiples of a turn / p.
template <class V, class T>
HWY_INLINE void OddButterfly(int64_t p, const T* cosines, const T* sines, V* re,
                             V* im) {
  const hn::DFromV<V> d;
  const int64_t half = (p - 1) / 2;
  V tr[kLargestFftFactor / 2], ti[kLargestFftFactor / 2];
  V dr[kLargestFftFactor / 2], di[kLargestFftFactor / 2];
  const V r0 = re[0], i0 = im[0];
  for (int64_t j = 0; j < half; ++j) {
    const V ar = re[1 + j], ai = im[1 + j];
    const V br = re[p - 1 - j], bi = im[p - 1 - j];
    tr[j] = hn::Add(ar, br);
    ti[j] = hn::Add(ai, bi);
    dr[j] = hn::Sub(ar, br);
    di[j] = hn::Sub(ai, bi);
    re[0] = hn::Add(re[0], tr[j]);
    im[0] = hn::Add(im[0], ti[j]);
  }
  for (int64_t r = 1; r <= half; ++r) {
    V cr = r0, ci = i0, sr = hn::Zero(d), si = hn::Zero(d);
    int64_t turn = 0;
    for (int64_t j = 0; j < half; ++j) {
      turn += r;
      if (turn >= p) turn -= p;
      const V c = hn::Set(d, cosines[turn]), s = hn::Set(d, sines[turn]);
      cr = hn::MulAdd(c, tr[j], cr);
      ci = hn::MulAdd(c, ti[j], ci);
      sr = hn::MulAdd(s, dr[j], sr);
      si = hn::MulAdd(s, di[j], si);
    }
    SetPair(cr, ci, sr, si, &re[r], &im[r], &re[p - r], &im[p - r]);
  }
}

// ---- A pass over the lines --------------------------------------------------

// An array of numbers whose parts are apart.
template <typename T>
struct Split {
  T* re;
  T* im;
};

template <class V>
HWY_INLINE void Twist(V wr, V wi, V* re, V* im) {
  const V r = *re;
  *re = hn::NegMulAdd(*im, wi, hn::Mul(r, wr));
  *im = hn::MulAdd(*im, wr, hn::Mul(r, wi));
}

// Elements [q, end) of one column k of the pass, as many as whole vectors of D
// hold; returns where it stopped. P = 0: any odd factor.
template <int P, class D, typename T>
HWY_INLINE int64_t Column(D d, const FftPass<T>& pass, int64_t k, int64_t s,
                          int64_t q, const Split<T>& x, const Split<T>& y) {
  using V = hn::Vec<D>;
  constexpr int kSize = P == 0 ? kLargestFftFactor : P;
  const int64_t p = P == 0 ? pass.factor : P, m = pass.columns;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const T* wr = pass.twist_re.data() + k;
  const T* wi = pass.twist_im.data() + k;
  V ur[kSize], ui[kSize];
  if constexpr (P != 0)
    for (int64_t r = 1; r < P; ++r) {
      ur[r] = hn::Set(d, wr[(r - 1) * m]);
      ui[r] = hn::Set(d, wi[(r - 1) * m]);
    }
  for (; q + lanes <= s; q += lanes) {
    V re[kSize], im[kSize];
    for (int64_t j = 0; j < p; ++j) {
      re[j] = hn::LoadU(d, x.re + (k + j * m) * s + q);
      im[j] = hn::LoadU(d, x.im + (k + j * m) * s + q);
    }
    if constexpr (P == 0)
      OddButterfly(p, pass.cosines.data(), pass.sines.data(), re, im);
    else
      Butterfly<P>::Run(re, im);
    if (m > 1) {
      for (int64_t r = 1; r < p; ++r) {
        if constexpr (P == 0)
          Twist(hn::Set(d, wr[(r - 1) * m]), hn::Set(d, wi[(r - 1) * m]),
                &re[r], &im[r]);
        else
          Twist(ur[r], ui[r], &re[r], &im[r]);
      }
    }
    for (int64_t r = 0; r < p; ++r) {
      hn::StoreU(re[r], d, y.re + (k * p + r) * s + q);
      hn::StoreU(im[r], d, y.im + (k * p + r) * s + q);
    }
  }
  return q;
}

// The first pass of a single line, whose columns are adjacent.
template <int P, class D, typename T>
HWY_INLINE int64_t AdjacentColumns(D d, const FftPass<T>& pass, int64_t k,
                                   const Split<T>& x, const Split<T>& y) {
  using V = hn::Vec<D>;
  const int64_t m = pass.columns;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (; k + lanes <= m; k += lanes) {
    V re[P], im[P];
    for (int64_t j = 0; j < P; ++j) {
      re[j] = hn::LoadU(d, x.re + k + j * m);
      im[j] = hn::LoadU(d, x.im + k + j * m);
    }
    Butterfly<P>::Run(re, im);
    for (int64_t r = 1; r < P; ++r)
      Twist(hn::LoadU(d, pass.twist_re.data() + (r - 1) * m + k),
            hn::LoadU(d, pass.twist_im.data() + (r - 1) * m + k), &re[r],
            &im[r]);
    for (const auto& [part, to] :
         {std::pair{re, y.re + k * P}, std::pair{im, y.im + k * P}}) {
      if constexpr (P == 2)
        hn::StoreInterleaved2(part[0], part[1], d, to);
      else if constexpr (P == 3)
        hn::StoreInterleaved3(part[0], part[1], part[2], d, to);
      else
        hn::StoreInterleaved4(part[0], part[1], part[2], part[3], d, to);
    }
  }
  return k;
}

// `s`: how many lines, times the factors of the passes before.
template <int P, typename T>
HWY_NOINLINE void RunPass(const FftPass<T>& pass, int64_t s, const Split<T>& x,
                          const Split<T>& y) {
  int64_t k = 0;
  if constexpr (P == 2 || P == 3 || P == 4) {
    if (s == 1) k = AdjacentColumns<P>(hn::ScalableTag<T>(), pass, k, x, y);
  }
  for (; k < pass.columns; ++k) {
    int64_t q = Column<P>(hn::ScalableTag<T>(), pass, k, s, 0, x, y);
    if (q == s) continue;
    q = Column<P>(hn::CappedTag<T, 4>(), pass, k, s, q, x, y);
    if (q < s) Column<P>(hn::CappedTag<T, 1>(), pass, k, s, q, x, y);
  }
}

// Transforms `lines` interleaved lines from `x`, by turns into `y` and `x`;
// returns the one with the result.
template <typename T>
Split<T> RunPasses(const FftPlan<T>& plan, int64_t lines, Split<T> x,
                   Split<T> y) {
  int64_t s = lines;
  for (const FftPass<T>& pass : plan.passes) {
    switch (pass.factor) {
      case 2:
        RunPass<2>(pass, s, x, y);
        break;
      case 3:
        RunPass<3>(pass, s, x, y);
        break;
      case 4:
        RunPass<4>(pass, s, x, y);
        break;
      case 5:
        RunPass<5>(pass, s, x, y);
        break;
      default:
        RunPass<0>(pass, s, x, y);
        break;
    }
    s *= pass.factor;
    std::swap(x, y);
  }
  return x;
}

// ---- Elements of all lines with one factor ----------------------------------

// Calls f(d, i) for positions of n numbers, in vectors as long as fit.
template <typename T, class F>
HWY_INLINE void ForVectors(int64_t n, F&& f) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) f(d, i);
  for (; i < n; ++i) f(hn::CappedTag<T, 1>(), i);
}

// y = x w for n elements of each line, with one factor for all lines.
template <typename T>
void TwistLines(const T* wr, const T* wi, int64_t n, int64_t lines,
                const Split<T>& x, const Split<T>& y) {
  if (lines == 1) {
    ForVectors<T>(n, [&](auto d, int64_t i) HWY_ATTR {
      auto re = hn::LoadU(d, x.re + i), im = hn::LoadU(d, x.im + i);
      Twist(hn::LoadU(d, wr + i), hn::LoadU(d, wi + i), &re, &im);
      hn::StoreU(re, d, y.re + i);
      hn::StoreU(im, d, y.im + i);
    });
    return;
  }
  for (int64_t k = 0; k < n; ++k) {
    const int64_t at = k * lines;
    ForVectors<T>(lines, [&](auto d, int64_t i) HWY_ATTR {
      auto re = hn::LoadU(d, x.re + at + i), im = hn::LoadU(d, x.im + at + i);
      Twist(hn::Set(d, wr[k]), hn::Set(d, wi[k]), &re, &im);
      hn::StoreU(re, d, y.re + at + i);
      hn::StoreU(im, d, y.im + at + i);
    });
  }
}

// A transform of any length as a convolution with a chirp w (Bluestein): x w,
// convolved with the conjugate of w, times w.
template <typename T>
Split<T> RunChirp(const FftPlan<T>& plan, int64_t lines, Split<T> x,
                  Split<T> y) {
  const FftPlan<T>& longer = *plan.convolution;
  const int64_t n = plan.n, size = longer.n;
  TwistLines(plan.chirp_re.data(), plan.chirp_im.data(), n, lines, x, x);
  std::fill(x.re + n * lines, x.re + size * lines, T(0));
  std::fill(x.im + n * lines, x.im + size * lines, T(0));
  Split<T> at = RunPasses(longer, lines, x, y);
  Split<T> other = at.re == x.re ? y : x;
  TwistLines(plan.filter_re.data(), plan.filter_im.data(), size, lines, at, at);
  // The inverse is the transform with the parts exchanged.
  at = RunPasses(longer, lines, {at.im, at.re}, {other.im, other.re});
  std::swap(at.re, at.im);
  TwistLines(plan.chirp_re.data(), plan.chirp_im.data(), n, lines, at, at);
  return at;
}

// ---- Between lines in memory and interleaved ones ---------------------------

// As many numbers as one block of 128 bits holds.
template <typename T>
using Block = hn::FixedTag<T, 16 / sizeof(T)>;

// Exchanges rows and columns of kSize vectors.
template <class V>
HWY_INLINE void TransposeBlock(V* v) {
  const hn::DFromV<V> d;
  using T = hn::TFromV<V>;
  if constexpr (sizeof(T) == 8) {
    const V a = v[0];
    v[0] = hn::InterleaveLower(d, a, v[1]);
    v[1] = hn::InterleaveUpper(d, a, v[1]);
  } else {
    const hn::RepartitionToWide<decltype(hn::RebindToUnsigned<decltype(d)>())>
        wide;
    const auto pair_lower = [&](V a, V b) HWY_ATTR {
      return hn::BitCast(d, hn::InterleaveLower(wide, hn::BitCast(wide, a),
                                                hn::BitCast(wide, b)));
    };
    const auto pair_upper = [&](V a, V b) HWY_ATTR {
      return hn::BitCast(d, hn::InterleaveUpper(wide, hn::BitCast(wide, a),
                                                hn::BitCast(wide, b)));
    };
    const V a = hn::InterleaveLower(d, v[0], v[1]);
    const V b = hn::InterleaveUpper(d, v[0], v[1]);
    const V c = hn::InterleaveLower(d, v[2], v[3]);
    const V e = hn::InterleaveUpper(d, v[2], v[3]);
    v[0] = pair_lower(a, c);
    v[1] = pair_upper(a, c);
    v[2] = pair_lower(b, e);
    v[3] = pair_upper(b, e);
  }
}

// Reads n complex elements of `count` lines into `to`, `lines` of them
// interleaved; those above count are zeros.
template <typename T>
void ReadLines(const T* in, int64_t line, int64_t step, int64_t count,
               int64_t lines, int64_t n, const Split<T>& to) {
  if (lines == 1 && step == 1) {
    ForVectors<T>(n, [&](auto d, int64_t i) HWY_ATTR {
      if (hn::Lanes(d) == 1) {
        to.re[i] = in[2 * i];
        to.im[i] = in[2 * i + 1];
        return;
      }
      hn::Vec<decltype(d)> re, im;
      hn::LoadInterleaved2(d, in + 2 * i, re, im);
      hn::StoreU(re, d, to.re + i);
      hn::StoreU(im, d, to.im + i);
    });
    return;
  }
  if (line == 1 && count == lines && lines > 1) {
    const hn::ScalableTag<T> d;  // (Of `lines` lanes.)
    for (int64_t k = 0; k < n; ++k) {
      hn::Vec<decltype(d)> re, im;
      hn::LoadInterleaved2(d, in + 2 * k * step, re, im);
      hn::StoreU(re, d, to.re + k * lines);
      hn::StoreU(im, d, to.im + k * lines);
    }
    return;
  }
  constexpr int64_t kBlock = 16 / sizeof(T);
  const Block<T> d;
  int64_t i = 0;
  for (; step == 1 && i + kBlock <= count; i += kBlock) {
    const T* from = in + 2 * i * line;
    int64_t k = 0;
    for (; k + kBlock <= n; k += kBlock) {
      hn::Vec<Block<T>> re[kBlock], im[kBlock];
      for (int64_t j = 0; j < kBlock; ++j)
        hn::LoadInterleaved2(d, from + 2 * (j * line + k), re[j], im[j]);
      TransposeBlock(re);
      TransposeBlock(im);
      for (int64_t j = 0; j < kBlock; ++j) {
        hn::StoreU(re[j], d, to.re + (k + j) * lines + i);
        hn::StoreU(im[j], d, to.im + (k + j) * lines + i);
      }
    }
    for (; k < n; ++k)
      for (int64_t j = 0; j < kBlock; ++j) {
        to.re[k * lines + i + j] = from[2 * (j * line + k)];
        to.im[k * lines + i + j] = from[2 * (j * line + k) + 1];
      }
  }
  for (; i < count; ++i)
    for (int64_t k = 0; k < n; ++k) {
      to.re[k * lines + i] = in[2 * (i * line + k * step)];
      to.im[k * lines + i] = in[2 * (i * line + k * step) + 1];
    }
  for (; i < lines; ++i)
    for (int64_t k = 0; k < n; ++k)
      to.re[k * lines + i] = to.im[k * lines + i] = T(0);
}

// The opposite, times `scale`.
template <typename T>
void WriteLines(const Split<T>& from, int64_t line, int64_t step, int64_t count,
                int64_t lines, int64_t n, T scale, T* out) {
  if (lines == 1 && step == 1) {
    ForVectors<T>(n, [&](auto d, int64_t i) HWY_ATTR {
      if (hn::Lanes(d) == 1) {
        out[2 * i] = from.re[i] * scale;
        out[2 * i + 1] = from.im[i] * scale;
        return;
      }
      const auto by = hn::Set(d, scale);
      hn::StoreInterleaved2(hn::Mul(by, hn::LoadU(d, from.re + i)),
                            hn::Mul(by, hn::LoadU(d, from.im + i)), d,
                            out + 2 * i);
    });
    return;
  }
  if (line == 1 && count == lines && lines > 1) {
    const hn::ScalableTag<T> d;
    const auto by = hn::Set(d, scale);
    for (int64_t k = 0; k < n; ++k)
      hn::StoreInterleaved2(hn::Mul(by, hn::LoadU(d, from.re + k * lines)),
                            hn::Mul(by, hn::LoadU(d, from.im + k * lines)), d,
                            out + 2 * k * step);
    return;
  }
  constexpr int64_t kBlock = 16 / sizeof(T);
  const Block<T> d;
  const auto by = hn::Set(d, scale);
  int64_t i = 0;
  for (; step == 1 && i + kBlock <= count; i += kBlock) {
    T* to = out + 2 * i * line;
    int64_t k = 0;
    for (; k + kBlock <= n; k += kBlock) {
      hn::Vec<Block<T>> re[kBlock], im[kBlock];
      for (int64_t j = 0; j < kBlock; ++j) {
        re[j] = hn::Mul(by, hn::LoadU(d, from.re + (k + j) * lines + i));
        im[j] = hn::Mul(by, hn::LoadU(d, from.im + (k + j) * lines + i));
      }
      TransposeBlock(re);
      TransposeBlock(im);
      for (int64_t j = 0; j < kBlock; ++j)
        hn::StoreInterleaved2(re[j], im[j], d, to + 2 * (j * line + k));
    }
    for (; k < n; ++k)
      for (int64_t j = 0; j < kBlock; ++j) {
        to[2 * (j * line + k)] = from.re[k * lines + i + j] * scale;
        to[2 * (j * line + k) + 1] = from.im[k * lines + i + j] * scale;
      }
  }
  for (; i < count; ++i)
    for (int64_t k = 0; k < n; ++k) {
      out[2 * (i * line + k * step)] = from.re[k * lines + i] * scale;
      out[2 * (i * line + k * step) + 1] = from.im[k * lines + i] * scale;
    }
}

// The same for real lines, which are contiguous.
template <typename T>
void ReadRealLines(const T* in, int64_t line, int64_t count, int64_t lines,
                   int64_t n, T* to) {
  if (lines == 1) {
    std::copy_n(in, n, to);
    return;
  }
  constexpr int64_t kBlock = 16 / sizeof(T);
  const Block<T> d;
  int64_t i = 0;
  for (; i + kBlock <= count; i += kBlock) {
    const T* from = in + i * line;
    int64_t k = 0;
    for (; k + kBlock <= n; k += kBlock) {
      hn::Vec<Block<T>> v[kBlock];
      for (int64_t j = 0; j < kBlock; ++j)
        v[j] = hn::LoadU(d, from + j * line + k);
      TransposeBlock(v);
      for (int64_t j = 0; j < kBlock; ++j)
        hn::StoreU(v[j], d, to + (k + j) * lines + i);
    }
    for (; k < n; ++k)
      for (int64_t j = 0; j < kBlock; ++j)
        to[k * lines + i + j] = from[j * line + k];
  }
  for (; i < lines; ++i)
    for (int64_t k = 0; k < n; ++k)
      to[k * lines + i] = i < count ? in[i * line + k] : T(0);
}

template <typename T>
void WriteRealLines(const T* from, int64_t line, int64_t count, int64_t lines,
                    int64_t n, T scale, T* out) {
  constexpr int64_t kBlock = 16 / sizeof(T);
  const Block<T> d;
  const auto by = hn::Set(d, scale);
  int64_t i = 0;
  for (; lines > 1 && i + kBlock <= count; i += kBlock) {
    T* to = out + i * line;
    int64_t k = 0;
    for (; k + kBlock <= n; k += kBlock) {
      hn::Vec<Block<T>> v[kBlock];
      for (int64_t j = 0; j < kBlock; ++j)
        v[j] = hn::Mul(by, hn::LoadU(d, from + (k + j) * lines + i));
      TransposeBlock(v);
      for (int64_t j = 0; j < kBlock; ++j)
        hn::StoreU(v[j], d, to + j * line + k);
    }
    for (; k < n; ++k)
      for (int64_t j = 0; j < kBlock; ++j)
        to[j * line + k] = from[k * lines + i + j] * scale;
  }
  for (; i < count; ++i)
    for (int64_t k = 0; k < n; ++k)
      out[i * line + k] = from[k * lines + i] * scale;
}

// ---- Real lines of even length ----------------------------------------------

// A line of 2h real numbers is transformed as one of h complex numbers z, whose
// parts are the even and the odd elements. From the transform of z, which is
// that of the even ones plus i times that of the odd ones: the first h + 1
// frequencies of the real line.
template <typename T>
void SeparateHalves(const FftPlan<T>& plan, int64_t lines, const Split<T>& z,
                    const Split<T>& out) {
  const int64_t h = plan.n;
  for (int64_t k = 0; k <= h; ++k) {
    const int64_t a = (k == h ? 0 : k) * lines;
    const int64_t b = (k == 0 ? 0 : h - k) * lines;
    ForVectors<T>(lines, [&](auto d, int64_t i) HWY_ATTR {
      const auto half = hn::Set(d, T(0.5));
      const auto ar = hn::Mul(half, hn::LoadU(d, z.re + a + i));
      const auto ai = hn::Mul(half, hn::LoadU(d, z.im + a + i));
      const auto br = hn::Mul(half, hn::LoadU(d, z.re + b + i));
      const auto bi = hn::Mul(half, hn::LoadU(d, z.im + b + i));
      // The odd elements: (z_k - conj z_-k) / 2i.
      auto odd_re = hn::Add(ai, bi), odd_im = hn::Sub(br, ar);
      Twist(hn::Set(d, plan.half_re[static_cast<size_t>(k)]),
            hn::Set(d, plan.half_im[static_cast<size_t>(k)]), &odd_re, &odd_im);
      hn::StoreU(hn::Add(hn::Add(ar, br), odd_re), d, out.re + k * lines + i);
      hn::StoreU(hn::Add(hn::Sub(ai, bi), odd_im), d, out.im + k * lines + i);
    });
  }
}

// The opposite, times 2, as the inverse transform needs it.
template <typename T>
void JoinHalves(const FftPlan<T>& plan, int64_t lines, const Split<T>& x,
                const Split<T>& z) {
  const int64_t h = plan.n;
  for (int64_t k = 0; k < h; ++k) {
    const int64_t a = k * lines, b = (h - k) * lines;
    ForVectors<T>(lines, [&](auto d, int64_t i) HWY_ATTR {
      const auto ar = hn::LoadU(d, x.re + a + i);
      const auto ai = hn::LoadU(d, x.im + a + i);
      const auto br = hn::LoadU(d, x.re + b + i);
      const auto bi = hn::LoadU(d, x.im + b + i);
      auto odd_re = hn::Sub(ar, br), odd_im = hn::Add(ai, bi);
      Twist(hn::Set(d, plan.half_re[static_cast<size_t>(k)]),
            hn::Neg(hn::Set(d, plan.half_im[static_cast<size_t>(k)])), &odd_re,
            &odd_im);
      hn::StoreU(hn::Sub(hn::Add(ar, br), odd_im), d, z.re + a + i);
      hn::StoreU(hn::Add(hn::Sub(ai, bi), odd_re), d, z.im + a + i);
    });
  }
}

// ---- A group of lines -------------------------------------------------------

template <typename T>
Split<T> Transform(const FftPlan<T>& plan, int64_t lines, const Split<T>& x,
                   const Split<T>& y) {
  return plan.convolution != nullptr ? RunChirp(plan, lines, x, y)
                                     : RunPasses(plan, lines, x, y);
}

template <typename T>
Split<T> Swapped(const Split<T>& x) {
  return {x.im, x.re};
}

// `work`: 4 * FftWorkSize(plan, length) * lines numbers.
template <typename T>
void RunGroup(const FftPlan<T>& plan, FftKind kind, const FftLines<T>& g,
              T* work) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  const int64_t lines = g.count == 1 ? 1 : lanes, length = plan.length;
  const int64_t size = FftWorkSize(plan) * lines;
  const Split<T> x = {work, work + size};
  const Split<T> y = {work + 2 * size, work + 3 * size};
  const T* in = g.in;
  T* out = g.out;
  const T scale = T(1) / static_cast<T>(length);
  const int64_t half = length / 2 + 1;
  const bool packed = plan.n != length;
  switch (kind) {
    case FftKind::kComplex: {
      ReadLines(in, g.in_line, g.in_step, g.count, lines, length, x);
      WriteLines(Transform(plan, lines, x, y), g.out_line, g.out_step, g.count,
                 lines, length, T(1), out);
      return;
    }
    case FftKind::kInverse: {
      ReadLines(in, g.in_line, g.in_step, g.count, lines, length, Swapped(x));
      WriteLines(Swapped(Transform(plan, lines, x, y)), g.out_line, g.out_step,
                 g.count, lines, length, scale, out);
      return;
    }
    case FftKind::kReal: {
      Split<T> at;
      if (packed) {
        ReadLines(in, g.in_line / 2, 1, g.count, lines, plan.n, x);
        at = Transform(plan, lines, x, y);
        const Split<T> other = at.re == x.re ? y : x;
        SeparateHalves(plan, lines, at, other);
        at = other;
      } else {
        ReadRealLines(in, g.in_line, g.count, lines, length, x.re);
        std::fill_n(x.im, length * lines, T(0));
        at = Transform(plan, lines, x, y);
      }
      WriteLines(at, g.out_line, 1, g.count, lines, half, T(1), out);
      return;
    }
    case FftKind::kInverseReal: {
      ReadLines(in, g.in_line, 1, g.count, lines, half, y);
      std::fill_n(y.im, lines, T(0));
      if (length % 2 == 0) std::fill_n(y.im + (half - 1) * lines, lines, T(0));
      if (packed) {
        JoinHalves(plan, lines, y, x);
        const Split<T> at = Swapped(Transform(plan, lines, Swapped(x), y));
        WriteLines(at, g.out_line / 2, 1, g.count, lines, plan.n, scale, out);
        return;
      }
      for (int64_t k = 0; k < length; ++k) {
        const bool whole = k < half;
        const int64_t from = (whole ? k : length - k) * lines;
        std::copy_n(y.re + from, lines, x.re + k * lines);
        for (int64_t i = 0; i < lines; ++i)
          x.im[k * lines + i] = whole ? y.im[from + i] : -y.im[from + i];
      }
      const Split<T> at = Swapped(Transform(plan, lines, Swapped(x), y));
      WriteRealLines(at.re, g.out_line, g.count, lines, length, scale, out);
      return;
    }
  }
}

template <typename T>
FftLoops<T> FftLoopsFor() {
  return {static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>())), RunGroup<T>};
}

}  // namespace

AllFftLoops GetFftLoops() {
  return {FftLoopsFor<float>(), FftLoopsFor<double>()};
}

}  // namespace HWY_NAMESPACE
}  // namespace sluice::linalg
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::linalg {
namespace {

HWY_EXPORT(GetFftLoops);
template <typename T>
const FftLoops<T>& FftLoopsOf() {
  static const AllFftLoops all = HWY_DYNAMIC_DISPATCH(GetFftLoops)();
  if constexpr (sizeof(T) == 4)
    return all.f;
  else
    return all.d;
}

// Below this number of elements a transform finishes before another thread
// starts.
constexpr int64_t kElementsPerThread = 8192;

int64_t CountOf(std::span<const int64_t> dims) {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  return n;
}

// A range of lines of several blocks: line i of block b begins at
// b * block + i * line, in numbers (complex ones count as one, or two halves).
struct Layout {
  int64_t block, line, step;
};

// Transforms `blocks` blocks of `lines` lines. A group of as many lines as a
// vector has lanes never crosses blocks, so that the groups, and with them the
// results, do not depend on the number of threads. InScale and OutScale: the
// numbers of T that one unit of a layout has.
template <typename T>
void ForGroups(int64_t n, FftKind kind, int64_t blocks, int64_t lines,
               const T* in, const Layout& from, int64_t in_scale, T* out,
               const Layout& to, int64_t out_scale) {
  const FftLoops<T>& loops = FftLoopsOf<T>();
  const bool real = kind == FftKind::kReal || kind == FftKind::kInverseReal;
  const std::shared_ptr<const FftPlan<T>> plan = PlanFft<T>(n, real);
  // One or two lines left are quicker alone than beside empty lanes.
  const int64_t full = lines / loops.lanes, rest = lines % loops.lanes;
  const int64_t groups = full + (rest > 2 ? 1 : rest);
  const int64_t grain =
      std::max<int64_t>(1, kElementsPerThread / (n * loops.lanes));
  ParallelFor(blocks * groups, grain, [&](int64_t first, int64_t last) {
    // (Aligned to a line of the cache, and not set to zeros.)
    const int64_t together = full > 0 || rest > 2 ? loops.lanes : 1;
    const int64_t size = 4 * FftWorkSize(*plan) * together;
    const auto memory =
        std::make_unique_for_overwrite<T[]>(static_cast<size_t>(size + 16));
    T* work = memory.get();
    work += (64 - reinterpret_cast<uintptr_t>(work) % 64) % 64 / sizeof(T);
    for (int64_t i = first; i < last; ++i) {
      const int64_t b = i / groups, g = i % groups;
      const int64_t line =
          g <= full ? g * loops.lanes : full * loops.lanes + (g - full);
      const int64_t count = g < full ? loops.lanes : rest > 2 ? rest : 1;
      const FftLines<T> part = {
          in + (b * from.block + line * from.line) * in_scale,
          out + (b * to.block + line * to.line) * out_scale,
          count,
          from.line,
          from.step,
          to.line,
          to.step};
      loops.run(*plan, kind, part, work);
    }
  });
}

// Lines of n elements, `stride` apart, in blocks of n * stride elements.
template <typename T>
void AlongAxis(int64_t n, int64_t stride, int64_t blocks, bool inverse,
               std::complex<T>* data) {
  T* x = reinterpret_cast<T*>(data);
  const FftKind kind = inverse ? FftKind::kInverse : FftKind::kComplex;
  if (stride == 1) {
    const Layout rows = {0, n, 1};
    ForGroups(n, kind, 1, blocks, x, rows, 2, x, rows, 2);
    return;
  }
  const Layout columns = {n * stride, 1, stride};
  ForGroups(n, kind, blocks, stride, x, columns, 2, x, columns, 2);
}

// All axes of blocks of `dims` except the last, whose extent is `last`.
template <typename T>
void OuterAxes(std::span<const int64_t> dims, int64_t last, int64_t batch,
               bool inverse, std::complex<T>* data) {
  int64_t stride = last;
  for (size_t i = dims.size() - 1; i-- > 0;) {
    AlongAxis(dims[i], stride, batch * CountOf(dims.first(i)), inverse, data);
    stride *= dims[i];
  }
}

}  // namespace

template <typename T>
void Fft(std::span<const int64_t> dims, int64_t batch, bool inverse,
         std::complex<T>* data) {
  if (batch * CountOf(dims) == 0) return;
  AlongAxis(dims.back(), 1, batch * CountOf(dims.first(dims.size() - 1)),
            inverse, data);
  OuterAxes(dims, dims.back(), batch, inverse, data);
}

template <typename T>
void RealFft(std::span<const int64_t> dims, int64_t batch, const T* in,
             std::complex<T>* out) {
  const int64_t n = dims.back(), half = n / 2 + 1;
  if (batch * CountOf(dims) == 0) return;
  ForGroups(n, FftKind::kReal, 1, batch * CountOf(dims.first(dims.size() - 1)),
            in, {0, n, 1}, 1, reinterpret_cast<T*>(out), {0, half, 1}, 2);
  OuterAxes(dims, half, batch, false, out);
}

template <typename T>
void InverseRealFft(std::span<const int64_t> dims, int64_t batch,
                    std::complex<T>* in, T* out) {
  const int64_t n = dims.back(), half = n / 2 + 1;
  if (batch * CountOf(dims) == 0) return;
  OuterAxes(dims, half, batch, true, in);
  ForGroups(n, FftKind::kInverseReal, 1,
            batch * CountOf(dims.first(dims.size() - 1)),
            reinterpret_cast<const T*>(in), {0, half, 1}, 2, out, {0, n, 1}, 1);
}

#define SLUICE_INSTANTIATE(T)                                        \
  template void Fft(std::span<const int64_t>, int64_t, bool,         \
                    std::complex<T>*);                               \
  template void RealFft(std::span<const int64_t>, int64_t, const T*, \
                        std::complex<T>*);                           \
  template void InverseRealFft(std::span<const int64_t>, int64_t,    \
                               std::complex<T>*, T*);
SLUICE_INSTANTIATE(float)
SLUICE_INSTANTIATE(double)
#undef SLUICE_INSTANTIATE

}  // namespace sluice::linalg
#endif
