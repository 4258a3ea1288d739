// The arithmetic of the optimizers: how one element of the gradient changes one
// element of a variable and of its slots. The formulas and the order of their
// operations are TensorFlow's.
//
// A rule is constructed once per step from its scalars (in the order of the
// op's inputs) and is then applied to every element. x[0] is the variable,
// x[1..] are its slots, g is the gradient. Fused runs the vectorised loop over
// n elements; it returns false if there is none for the type.
#ifndef SLUICE_OPS_TRAINING_RULES_H_
#define SLUICE_OPS_TRAINING_RULES_H_

#include <cmath>
#include <complex>
#include <cstdint>

#include "kernels/simd/update.h"

namespace sluice::training {

// The node attributes that a rule may use besides its scalars.
struct Options {
  bool use_nesterov = false;
  bool update_slots = true;
  bool multiply_linear_by_lr = false;
  bool lazy = false;
};

// The scalar inputs, in the variable's type, and the step that one op counts.
template <typename T>
struct Scalars {
  const T* values;
  int64_t global_step;
  T operator[](int i) const { return values[i]; }
};

template <typename T>
T Sign(T x) {
  return x > T(0) ? T(1) : x < T(0) ? T(-1) : x;
}

template <typename T>
struct GradientDescent {
  static constexpr int kVariables = 1, kScalars = 1;
  GradientDescent(const Scalars<T>& s, const Options&) : alpha(s[0]) {}
  void operator()(T* x, T g) const { x[0] -= g * alpha; }
  bool Fused(DType t, void* const* x, const void* g, int64_t n) const {
    return simd::Axpy(t, -alpha, g, x[0], n);
  }
  T alpha;
};

template <typename T>
struct Momentum {
  static constexpr int kVariables = 2, kScalars = 2;
  Momentum(const Scalars<T>& s, const Options& o)
      : lr(s[0]), momentum(s[1]), nesterov(o.use_nesterov) {}
  void operator()(T* x, T g) const {
    x[1] = x[1] * momentum + g;
    if (nesterov) {
      x[0] -= g * lr + x[1] * momentum * lr;
    } else {
      x[0] -= x[1] * lr;
    }
  }
  bool Fused(DType t, void* const* x, const void* g, int64_t n) const {
    return simd::MomentumUpdate(t, lr, momentum, nesterov, g, x[1], x[0], n);
  }
  T lr, momentum;
  bool nesterov;
};

template <typename T>
struct Adagrad {
  static constexpr int kVariables = 2, kScalars = 1;
  Adagrad(const Scalars<T>& s, const Options& o)
      : lr(s[0]), update_slots(o.update_slots) {}
  void operator()(T* x, T g) const {
    using std::sqrt;
    if (update_slots) x[1] += g * g;
    x[0] -= g * lr * (T(1) / sqrt(x[1]));
  }
  bool Fused(DType t, void* const* x, const void* g, int64_t n) const {
    return simd::AdagradUpdate(t, lr, 0, update_slots, g, x[1], x[0], n);
  }
  T lr;
  bool update_slots;
};

template <typename T>
struct AdagradV2 {
  static constexpr int kVariables = 2, kScalars = 2;
  AdagradV2(const Scalars<T>& s, const Options& o)
      : lr(s[0]), epsilon(s[1]), update_slots(o.update_slots) {}
  void operator()(T* x, T g) const {
    using std::sqrt;
    if (update_slots) x[1] += g * g;
    x[0] -= g * lr / (sqrt(x[1]) + epsilon);
  }
  bool Fused(DType t, void* const* x, const void* g, int64_t n) const {
    return simd::AdagradUpdate(t, lr, epsilon, update_slots, g, x[1], x[0], n);
  }
  T lr, epsilon;
  bool update_slots;
};

template <typename T>
struct Adadelta {
  static constexpr int kVariables = 3, kScalars = 3;
  Adadelta(const Scalars<T>& s, const Options&)
      : lr(s[0]), rho(s[1]), epsilon(s[2]) {}
  void operator()(T* x, T g) const {
    using std::sqrt;
    x[1] = x[1] * rho + g * g * (T(1) - rho);
    const T update = sqrt(x[2] + epsilon) * (T(1) / sqrt(x[1] + epsilon)) * g;
    x[0] -= update * lr;
    x[2] = x[2] * rho + update * update * (T(1) - rho);
  }
  T lr, rho, epsilon;
};

template <typename T>
struct RmsProp {
  static constexpr int kVariables = 3, kScalars = 4;
  RmsProp(const Scalars<T>& s, const Options&)
      : lr(s[0]), rho(s[1]), momentum(s[2]), epsilon(s[3]) {}
  void operator()(T* x, T g) const {
    using std::sqrt;
    x[1] += (g * g - x[1]) * (T(1) - rho);
    x[2] = x[2] * momentum + g * lr / sqrt(x[1] + epsilon);
    x[0] -= x[2];
  }
  T lr, rho, momentum, epsilon;
};

// Variables: var, mg (mean of the gradient), ms (of its square), mom.
template <typename T>
struct CenteredRmsProp {
  static constexpr int kVariables = 4, kScalars = 4;
  CenteredRmsProp(const Scalars<T>& s, const Options&)
      : lr(s[0]), rho(s[1]), momentum(s[2]), epsilon(s[3]) {}
  void operator()(T* x, T g) const {
    using std::sqrt;
    x[2] += (g * g - x[2]) * (T(1) - rho);
    x[1] += (g - x[1]) * (T(1) - rho);
    const T denominator = (x[2] - x[1] * x[1]) + epsilon;
    x[3] = x[3] * momentum + g * lr / sqrt(denominator);
    x[0] -= x[3];
  }
  T lr, rho, momentum, epsilon;
};

template <typename T>
struct Adam {
  static constexpr int kVariables = 3, kScalars = 6;
  Adam(const Scalars<T>& s, const Options& o)
      : alpha(s[2] * Root(T(1) - s[1]) / (T(1) - s[0])),
        beta1(s[3]),
        beta2(s[4]),
        epsilon(s[5]),
        nesterov(o.use_nesterov) {}
  void operator()(T* x, T g) const {
    using std::sqrt;
    x[1] += (g - x[1]) * (T(1) - beta1);
    x[2] += (g * g - x[2]) * (T(1) - beta2);
    const T m = nesterov ? g * (T(1) - beta1) + beta1 * x[1] : x[1];
    x[0] -= m * alpha / (sqrt(x[2]) + epsilon);
  }
  bool Fused(DType t, void* const* x, const void* g, int64_t n) const {
    return simd::AdamUpdate(t, alpha, beta1, beta2, epsilon, nesterov, g, x[1],
                            x[2], x[0], n);
  }
  static T Root(T x) {
    using std::sqrt;
    return sqrt(x);
  }
  T alpha, beta1, beta2, epsilon;
  bool nesterov;
};

// Variables: var, m, v, and the largest v so far.
template <typename T>
struct AmsGrad {
  static constexpr int kVariables = 4, kScalars = 6;
  AmsGrad(const Scalars<T>& s, const Options&)
      : alpha(s[2] * Adam<T>::Root(T(1) - s[1]) / (T(1) - s[0])),
        beta1(s[3]),
        beta2(s[4]),
        epsilon(s[5]) {}
  void operator()(T* x, T g) const {
    x[1] += (g - x[1]) * (T(1) - beta1);
    x[2] += (g * g - x[2]) * (T(1) - beta2);
    x[3] = x[3] < x[2] ? x[2] : x[3];
    x[0] -= x[1] * alpha / (std::sqrt(x[3]) + epsilon);
  }
  T alpha, beta1, beta2, epsilon;
};

template <typename T>
struct AdaMax {
  static constexpr int kVariables = 3, kScalars = 5;
  AdaMax(const Scalars<T>& s, const Options&)
      : rate(s[1] / (T(1) - s[0])), beta1(s[2]), beta2(s[3]), epsilon(s[4]) {}
  void operator()(T* x, T g) const {
    x[1] += (g - x[1]) * (T(1) - beta1);
    const T decayed = beta2 * x[2], size = std::abs(g);
    x[2] = decayed < size ? size : decayed;
    x[0] -= rate * (x[1] / (x[2] + epsilon));
  }
  T rate, beta1, beta2, epsilon;
};

// Scalars: lr, l1, l2, and with shrinkage l2_shrinkage, then lr_power.
template <typename T, bool kShrink>
struct FtrlRule {
  static constexpr int kVariables = 3, kScalars = kShrink ? 5 : 4;
  FtrlRule(const Scalars<T>& s, const Options& o)
      : lr(s[0]),
        l1(s[1]),
        l2(s[2]),
        shrinkage(kShrink ? s[3] : T(0)),
        power(s[kShrink ? 4 : 3]),
        by_lr(o.multiply_linear_by_lr) {}
  T Power(T accum) const {
    return power == T(-0.5) ? std::sqrt(accum) : std::pow(accum, -power);
  }
  void operator()(T* x, T g) const {
    const T shrunk = kShrink ? g + T(2) * shrinkage * x[0] : g;
    const T new_accum = x[1] + g * g;
    const T now = Power(new_accum), before = Power(x[1]);
    // The linear term is stored either as it is or multiplied by the learning
    // rate.
    const T unit = by_lr ? lr : T(1), per = by_lr ? T(1) : lr;
    x[2] += shrunk * unit - (now - before) / per * x[0];
    const T bound = l1 * unit;
    const T pull = bound * Sign(x[2]) - x[2];
    const T stiffness = now / per + T(2) * l2 * unit;
    x[0] = std::abs(x[2]) > bound ? pull / stiffness : T(0);
    x[1] = new_accum;
  }
  T lr, l1, l2, shrinkage, power;
  bool by_lr;
};
template <typename T>
using Ftrl = FtrlRule<T, false>;
template <typename T>
using FtrlV2 = FtrlRule<T, true>;

// sign(v) * max(|v| - rate * l1, 0) / (1 + l2 * rate).
template <typename T>
T Proximal(T v, T rate, T l1, T l2) {
  if (l1 > T(0)) {
    const T left = std::abs(v) - rate * l1;
    v = Sign(v) * (left < T(0) ? T(0) : left);
  }
  return v / (T(1) + l2 * rate);
}

template <typename T>
struct ProximalGradientDescent {
  static constexpr int kVariables = 1, kScalars = 3;
  ProximalGradientDescent(const Scalars<T>& s, const Options&)
      : alpha(s[0]), l1(s[1]), l2(s[2]) {}
  void operator()(T* x, T g) const {
    x[0] = Proximal(x[0] - g * alpha, alpha, l1, l2);
  }
  T alpha, l1, l2;
};

template <typename T>
struct ProximalAdagrad {
  static constexpr int kVariables = 2, kScalars = 3;
  ProximalAdagrad(const Scalars<T>& s, const Options&)
      : lr(s[0]), l1(s[1]), l2(s[2]) {}
  void operator()(T* x, T g) const {
    x[1] += g * g;
    const T rate = lr * (T(1) / std::sqrt(x[1]));
    x[0] = Proximal(x[0] - g * rate, rate, l1, l2);
  }
  T lr, l1, l2;
};

// Variables: var, the sum of the gradients, the sum of their squares.
template <typename T>
struct AdagradDa {
  static constexpr int kVariables = 3, kScalars = 3;
  AdagradDa(const Scalars<T>& s, const Options&)
      : lr(s[0]), l1(s[1]), l2(s[2]), step(static_cast<T>(s.global_step)) {}
  void operator()(T* x, T g) const {
    x[1] += g;
    x[2] += g * g;
    const T left = std::abs(x[1]) - step * l1;
    const T pull = l1 > T(0) ? Sign(x[1]) * (left < T(0) ? T(0) : left) : x[1];
    x[0] = lr * T(-1) * pull / (l2 * (step * lr) + std::sqrt(x[2]));
  }
  T lr, l1, l2, step;
};

template <typename T>
struct AddSign {
  static constexpr int kVariables = 2, kScalars = 4;
  AddSign(const Scalars<T>& s, const Options&)
      : lr(s[0]), alpha(s[1]), decay(s[2]), beta(s[3]) {}
  void operator()(T* x, T g) const {
    x[1] = x[1] * beta + g * (T(1) - beta);
    x[0] -= lr * (alpha + decay * (Sign(g) * Sign(x[1]))) * g;
  }
  T lr, alpha, decay, beta;
};

template <typename T>
struct PowerSign {
  static constexpr int kVariables = 2, kScalars = 4;
  PowerSign(const Scalars<T>& s, const Options&)
      : lr(s[0]), logbase(s[1]), decay(s[2]), beta(s[3]) {}
  void operator()(T* x, T g) const {
    x[1] = x[1] * beta + g * (T(1) - beta);
    x[0] -= lr * std::exp(logbase * decay * (Sign(g) * Sign(x[1]))) * g;
  }
  T lr, logbase, decay, beta;
};

}  // namespace sluice::training

#endif  // SLUICE_OPS_TRAINING_RULES_H_
