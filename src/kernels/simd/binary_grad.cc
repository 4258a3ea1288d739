// Gradients of the elementwise functions, computed as in TensorFlow
// (multiplying by 0 or 1 where it does, so that NaN propagates in the same
// way).
#include "kernels/simd/binary.h"
#include "kernels/simd/target.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/binary_grad.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "kernels/simd/binary-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::simd {
namespace HWY_NAMESPACE {
namespace {

struct ReluGrad {
  template <class T>
  static T F(T dy, T x) {
    return dy * (x > T(0) ? T(1) : T(0));
  }
};
struct Relu6Grad {
  template <class T>
  static T F(T dy, T x) {
    return dy * (((x > T(0)) & (x < T(6))) ? T(1) : T(0));
  }
};
struct EluGrad {
  template <class T>
  static T F(T dy, T y) {
    const T below = (y + T(1)) * dy;
    return y < T(0) ? below : dy;
  }
};
struct SeluGrad {
  template <class T>
  static T F(T dy, T y) {
    const T scale = T(1.0507009873554804934193349852946);
    const T scale_alpha = T(1.7580993408473768599402175208123);
    const T below = dy * (y + scale_alpha);
    const T above = dy * scale;
    return y < T(0) ? below : above;
  }
};
struct SoftsignGrad {
  template <class T>
  static T F(T dy, T x) {
    const T s = T(1) + (x < T(0) ? -x : x);
    return dy / (s * s);
  }
};
struct TanhGrad {
  template <class T>
  static T F(T y, T dy) {
    return dy * (T(1) - y * y);
  }
};
struct SigmoidGrad {
  template <class T>
  static T F(T y, T dy) {
    return dy * (T(1) - y) * y;
  }
};
// As in TensorFlow, a dy of zero gives zero even if the slope is infinite:
// masked values stay masked.
struct SqrtGrad {
  template <class T>
  static T F(T y, T dy) {
    const T dx = dy * T(0.5) / y;
    return dy == T(0) ? T(0) : dx;
  }
};
struct RsqrtGrad {
  template <class T>
  static T F(T y, T dy) {
    const T dx = dy * (T(-0.5) * y) * (y * y);
    return dy == T(0) ? T(0) : dx;
  }
};
struct ReciprocalGrad {
  template <class T>
  static T F(T y, T dy) {
    const T dx = -dy * y * y;
    return dy == T(0) ? T(0) : dx;
  }
};

// For complex numbers these conjugate y first; TanhGrad and SigmoidGrad leave
// that to the gradient functions that build them.
template <class Op>
struct Conjugated {
  template <class T>
  static T F(T y, T dy) {
    return Op::template F<T>(std::conj(y), dy);
  }
};

template <class Op, class ComplexOp = Conjugated<Op>>
BinaryFn Pick(DType t) {
  return IsComplex(t) ? PickComplex<ComplexOp>(t) : PickFloats<Op>(t);
}

}  // namespace

BinaryFn GradFn(BinaryOp op, DType t) {
  switch (op) {
    case BinaryOp::kReluGrad:
      return PickFloats<ReluGrad>(t);
    case BinaryOp::kRelu6Grad:
      return PickFloats<Relu6Grad>(t);
    case BinaryOp::kEluGrad:
      return PickFloats<EluGrad>(t);
    case BinaryOp::kSeluGrad:
      return PickFloats<SeluGrad>(t);
    case BinaryOp::kSoftsignGrad:
      return PickFloats<SoftsignGrad>(t);
    case BinaryOp::kTanhGrad:
      return Pick<TanhGrad, TanhGrad>(t);
    case BinaryOp::kSigmoidGrad:
      return Pick<SigmoidGrad, SigmoidGrad>(t);
    case BinaryOp::kSqrtGrad:
      return Pick<SqrtGrad>(t);
    case BinaryOp::kRsqrtGrad:
      return Pick<RsqrtGrad>(t);
    case BinaryOp::kReciprocalGrad:
      return Pick<ReciprocalGrad>(t);
    default:
      return nullptr;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace sluice::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::simd {
HWY_EXPORT(GradFn);
BinaryFn GetBinaryGrad(BinaryOp op, DType t) {
  return HWY_DYNAMIC_DISPATCH(GradFn)(op, t);
}
}  // namespace sluice::simd
#endif
