#include "kernels/simd/lstm.h"

#include <algorithm>

#include "base/parallel.h"
#include "kernels/simd/target.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/lstm.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "kernels/simd/math-inl.h"

// Only once, although this file is compiled once for each instruction set.
#ifndef SLUICE_KERNELS_SIMD_LSTM_ARGS_
#define SLUICE_KERNELS_SIMD_LSTM_ARGS_
namespace sluice::simd {

struct LstmForwardArgs {
  const void *a, *b;
  bool one_b;
  const void* c_prev;
  void *gates, *c, *h;
  double forget_bias;
};

struct LstmBackwardArgs {
  const void *gates, *c_prev, *dc, *dh;
  void *dz, *dc_prev;
};

}  // namespace sluice::simd
#endif

HWY_BEFORE_NAMESPACE();
namespace sluice::simd {
namespace HWY_NAMESPACE {
namespace {

template <class D, class V>
HWY_INLINE V Logistic(D d, V x) {
  const V one = hn::Set(d, hn::TFromD<D>(1));
  const V e = ExpNonPositive(d, hn::Neg(hn::Abs(x)));
  const V top = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), e, one);
  return hn::IfThenElse(IsNumber(d, x), hn::Div(top, hn::Add(one, e)), x);
}

// The arrays that one loop reads and writes at one position. Inputs come first.
template <class T, int kIn, int kOut>
struct Streams {
  const T* in[kIn];
  T* out[kOut];
};

// Calls body(d, inputs, outputs) for all n elements; the last ones go through a
// buffer, so that memory past the end is not accessed.
template <class T, int kIn, int kOut, class Body>
HWY_INLINE void ForEach(const Streams<T, kIn, kOut>& s, int64_t n,
                        const Body& body) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t k = 0;
  for (; k + lanes <= n; k += lanes) {
    const T* in[kIn];
    T* out[kOut];
    for (int i = 0; i < kIn; ++i) in[i] = s.in[i] + k;
    for (int i = 0; i < kOut; ++i) out[i] = s.out[i] + k;
    body(d, in, out);
  }
  if (k == n) return;
  alignas(HWY_MAX_BYTES) T in_buffer[kIn][HWY_MAX_BYTES / sizeof(T)] = {};
  alignas(HWY_MAX_BYTES) T out_buffer[kOut][HWY_MAX_BYTES / sizeof(T)];
  const T* in[kIn];
  T* out[kOut];
  for (int i = 0; i < kIn; ++i) {
    std::copy(s.in[i] + k, s.in[i] + n, in_buffer[i]);
    in[i] = in_buffer[i];
  }
  for (int i = 0; i < kOut; ++i) out[i] = out_buffer[i];
  body(d, in, out);
  for (int i = 0; i < kOut; ++i)
    std::copy(out_buffer[i], out_buffer[i] + (n - k), s.out[i] + k);
}

template <class T>
void ForwardRows(int64_t begin, int64_t end, int64_t units,
                 const LstmForwardArgs& args) {
  const hn::ScalableTag<T> d;
  const auto bias = hn::Set(d, static_cast<T>(args.forget_bias));
  for (int64_t r = begin; r < end; ++r) {
    const T* a = static_cast<const T*>(args.a) + r * 4 * units;
    const T* b =
        static_cast<const T*>(args.b) + (args.one_b ? 0 : r * 4 * units);
    T* gates = static_cast<T*>(args.gates) + r * 4 * units;
    Streams<T, 9, 6> s;
    for (int i = 0; i < 4; ++i) {
      s.in[i] = a + i * units;
      s.in[4 + i] = b + i * units;
      s.out[i] = gates + i * units;
    }
    s.in[8] = static_cast<const T*>(args.c_prev) + r * units;
    s.out[4] = static_cast<T*>(args.c) + r * units;
    s.out[5] = static_cast<T*>(args.h) + r * units;
    ForEach(s, units, [&bias](auto d, const T* const* in, T* const* out) {
      const auto z = [&](int g) {
        return hn::Add(hn::LoadU(d, in[g]), hn::LoadU(d, in[4 + g]));
      };
      const auto i = Logistic(d, z(0));
      const auto j = Tanh::F(d, z(1));
      const auto f = Logistic(d, hn::Add(z(2), bias));
      const auto o = Logistic(d, z(3));
      const auto c = hn::MulAdd(f, hn::LoadU(d, in[8]), hn::Mul(i, j));
      hn::StoreU(i, d, out[0]);
      hn::StoreU(j, d, out[1]);
      hn::StoreU(f, d, out[2]);
      hn::StoreU(o, d, out[3]);
      hn::StoreU(c, d, out[4]);
      hn::StoreU(hn::Mul(o, Tanh::F(d, c)), d, out[5]);
    });
  }
}

template <class T>
void BackwardRows(int64_t begin, int64_t end, int64_t units,
                  const LstmBackwardArgs& args) {
  for (int64_t r = begin; r < end; ++r) {
    const int64_t at = r * units;
    Streams<T, 7, 5> s;
    for (int i = 0; i < 4; ++i) {
      s.in[i] = static_cast<const T*>(args.gates) + (4 * at + i * units);
      s.out[i] = static_cast<T*>(args.dz) + (4 * at + i * units);
    }
    s.in[4] = static_cast<const T*>(args.c_prev) + at;
    s.in[5] = static_cast<const T*>(args.dc) + at;
    s.in[6] = static_cast<const T*>(args.dh) + at;
    s.out[4] = static_cast<T*>(args.dc_prev) + at;
    ForEach(s, units, [](auto d, const T* const* in, T* const* out) {
      const auto one = hn::Set(d, T(1));
      // The slopes of the logistic function and of tanh, from their values.
      const auto slope = [&](auto y) { return hn::NegMulAdd(y, y, y); };
      const auto steep = [&](auto y) { return hn::NegMulAdd(y, y, one); };
      const auto i = hn::LoadU(d, in[0]), j = hn::LoadU(d, in[1]);
      const auto f = hn::LoadU(d, in[2]), o = hn::LoadU(d, in[3]);
      const auto before = hn::LoadU(d, in[4]), dh = hn::LoadU(d, in[6]);
      const auto t = Tanh::F(d, hn::MulAdd(f, before, hn::Mul(i, j)));
      const auto dc = hn::MulAdd(hn::Mul(dh, o), steep(t), hn::LoadU(d, in[5]));
      hn::StoreU(hn::Mul(hn::Mul(dc, j), slope(i)), d, out[0]);
      hn::StoreU(hn::Mul(hn::Mul(dc, i), steep(j)), d, out[1]);
      hn::StoreU(hn::Mul(hn::Mul(dc, before), slope(f)), d, out[2]);
      hn::StoreU(hn::Mul(hn::Mul(dh, t), slope(o)), d, out[3]);
      hn::StoreU(hn::Mul(dc, f), d, out[4]);
    });
  }
}

}  // namespace

void LstmForwardRange(bool wide, int64_t begin, int64_t end, int64_t units,
                      const LstmForwardArgs& args) {
  (wide ? ForwardRows<double> : ForwardRows<float>)(begin, end, units, args);
}
void LstmBackwardRange(bool wide, int64_t begin, int64_t end, int64_t units,
                       const LstmBackwardArgs& args) {
  (wide ? BackwardRows<double> : BackwardRows<float>)(begin, end, units, args);
}

}  // namespace HWY_NAMESPACE
}  // namespace sluice::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::simd {
HWY_EXPORT(LstmForwardRange);
HWY_EXPORT(LstmBackwardRange);
namespace {

// The number of rows that is worth starting a thread.
int64_t Grain(int64_t units) {
  return std::max<int64_t>(1, 2048 / std::max<int64_t>(1, units));
}

bool HasLstm(DType t) { return t == DType::kFloat || t == DType::kDouble; }

}  // namespace

bool LstmForward(DType t, LstmShape shape, double forget_bias, const void* a,
                 const void* b, bool one_b, const void* c_prev, void* gates,
                 void* c, void* h) {
  if (!HasLstm(t)) return false;
  const LstmForwardArgs args = {a, b, one_b, c_prev, gates, c, h, forget_bias};
  ParallelFor(shape.rows, Grain(shape.units), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(LstmForwardRange)
    (t == DType::kDouble, begin, end, shape.units, args);
  });
  return true;
}

bool LstmBackward(DType t, LstmShape shape, const void* gates,
                  const void* c_prev, const void* dc, const void* dh, void* dz,
                  void* dc_prev) {
  if (!HasLstm(t)) return false;
  const LstmBackwardArgs args = {gates, c_prev, dc, dh, dz, dc_prev};
  ParallelFor(shape.rows, Grain(shape.units), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(LstmBackwardRange)
    (t == DType::kDouble, begin, end, shape.units, args);
  });
  return true;
}

}  // namespace sluice::simd
#endif
