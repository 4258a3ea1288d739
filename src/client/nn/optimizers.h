// The optimizers whose update of a variable is one op. (Adam and its family:
// adam_optimizers.h; L-BFGS: lbfgs.h; what they share: optimizer.h.)
//
//   Node* train = MomentumOptimizer(0.01, 0.9).Minimize(loss);
//
// Formulas: w is the variable, g the gradient, everything elementwise. A sparse
// gradient (of rows of w) updates only these rows of w and of the slots; rows
// that occur repeatedly are added up first. Hyperparameters that may change
// from step to step are numbers or scalar outputs, such as the schedules of
// learning_rates.h.
#ifndef SLUICE_CLIENT_NN_OPTIMIZERS_H_
#define SLUICE_CLIENT_NN_OPTIMIZERS_H_

#include <string>
#include <utility>
#include <vector>

#include "client/nn/optimizer.h"

namespace sluice {

// w -= learning_rate * g.
class GradientDescentOptimizer : public Optimizer {
 public:
  explicit GradientDescentOptimizer(const Operand& learning_rate,
                                    std::string name = "GradientDescent")
      : Optimizer(std::move(name), {{"learning_rate", learning_rate}}) {}

 protected:
  Node* ApplyDense(Output grad, const Var& var) override;
  Node* ApplySparse(const Gradient& grad, const Var& var) override;
  bool AcceptsRepeatedIndices() const override { return true; }
};

// An optimizer whose update is one op with the variable, its slots, scalars and
// the gradient as inputs: "Apply<kind>" and "SparseApply<kind>", and the same
// for resources. Derived classes say which.
class OneOpOptimizer : public Optimizer {
 public:
  std::vector<std::string> SlotNames() const override;

 protected:
  struct Slot {
    std::string name;
    double initial = 0;
    std::string suffix = "";  // Instead of the optimizer's name.
  };
  // Which of the numbers precede the gradient in the op's inputs.
  enum class Order : uint8_t { kNumbersFirst, kGradientFirst, kMomentum };

  OneOpOptimizer(std::string name, std::string kind, std::vector<Slot> slots,
                 Numbers numbers, Order order, AttrMap attrs = {})
      : Optimizer(std::move(name), std::move(numbers)),
        kind_(std::move(kind)),
        slots_(std::move(slots)),
        order_(order),
        attrs_(std::move(attrs)) {}

  // The order of the op's inputs is that of `InputSlots`, if the slots are made
  // in another one.
  virtual std::vector<std::string> InputSlots() const { return SlotNames(); }
  // The type of number i as an input.
  virtual DType TypeOfNumber(size_t i, const Var& var) const {
    (void)i;
    return var.dtype();
  }
  void CreateSlots(const Var& var) override;
  Node* ApplyDense(Output grad, const Var& var) override;
  Node* ApplySparse(const Gradient& grad, const Var& var) override;

 private:
  Node* ApplyOne(const std::string& prefix, const Var& var,
                 const std::vector<Output>& gradient);

  const std::string kind_;
  const std::vector<Slot> slots_;
  const Order order_;
  const AttrMap attrs_;
};

// a = momentum * a + g, then w -= learning_rate * a; with nesterov
// w -= learning_rate * (g + momentum * a) (Sutskever, Martens, Dahl and Hinton,
// 2013). Slot "momentum": a.
class MomentumOptimizer : public OneOpOptimizer {
 public:
  MomentumOptimizer(const Operand& learning_rate, const Operand& momentum,
                    bool nesterov = false, std::string name = "Momentum");
};

// a += g^2; w -= learning_rate * g / sqrt(a) (Duchi, Hazan and Singer, 2011).
// Slot "accumulator": a, which starts at `initial_accumulator` > 0.
class AdagradOptimizer : public OneOpOptimizer {
 public:
  explicit AdagradOptimizer(const Operand& learning_rate,
                            double initial_accumulator = 0.1,
                            std::string name = "Adagrad");
};

struct AdagradDaOptions {
  double initial_squared_accumulator = 0.1;
  double l1 = 0, l2 = 0;
  std::string name = "AdagradDA";
};

// Adagrad with dual averaging (Duchi, Hazan and Singer, 2011), for sparse
// linear models: w is computed anew from the sums of all gradients (slot
// "gradient_accumulator", G) and of their squares (slot
// "gradient_squared_accumulator", S), in the step t = global_step + 1. With
// P = sign(G) max(|G| - l1 t, 0):
// w = -learning_rate P / (l2 t learning_rate + sqrt(S)).
class AdagradDaOptimizer : public OneOpOptimizer {
 public:
  AdagradDaOptimizer(const Operand& learning_rate, const Var& global_step,
                     const AdagradDaOptions& options = {});

 protected:
  void Prepare() override;
  // The last number is t.
  DType TypeOfNumber(size_t i, const Var& var) const override {
    return i == 3 ? DType::kInt64 : var.dtype();
  }

 private:
  const Var global_step_;
};

// a = rho a + (1 - rho) g^2; d = g sqrt(u + epsilon) / sqrt(a + epsilon);
// w -= learning_rate * d; u = rho u + (1 - rho) d^2 (Zeiler, 2012). Slots
// "accum": a, "accum_update": u.
class AdadeltaOptimizer : public OneOpOptimizer {
 public:
  explicit AdadeltaOptimizer(const Operand& learning_rate = 0.001,
                             double rho = 0.95, double epsilon = 1e-8,
                             std::string name = "Adadelta");
};

struct RmsPropOptions {
  double decay = 0.9;
  Operand momentum = 0.0;
  double epsilon = 1e-10;
  // Divides by the standard deviation of the gradients instead of their root
  // mean square.
  bool centered = false;
  std::string name = "RMSProp";
};

// s = decay s + (1 - decay) g^2; p = momentum p + learning_rate g /
// sqrt(s + epsilon); w -= p (Tieleman and Hinton, 2012). If centered, with
// m = decay m + (1 - decay) g, s - m^2 takes the place of s (Graves, 2013).
// Slots "rms": s, which starts at 1, "momentum": p, and "mg": m.
class RmsPropOptimizer : public OneOpOptimizer {
 public:
  explicit RmsPropOptimizer(const Operand& learning_rate,
                            const RmsPropOptions& options = {});

 protected:
  std::vector<std::string> InputSlots() const override;
};

struct FtrlOptions {
  double learning_rate_power = -0.5;  // At most 0.
  double initial_accumulator = 0.1;
  double l1 = 0, l2 = 0;
  // Added to the gradient as 2 l2_shrinkage w, which, unlike l2, shrinks w only
  // in steps that have a gradient.
  double l2_shrinkage = 0;
  std::string name = "Ftrl";
  // Of the slots' variables, after "<var>/"; empty: the optimizer's name.
  std::string accum_name = "", linear_name = "";
};

// FTRL-Proximal (McMahan et al., "Ad Click Prediction", 2013), with p the
// learning_rate_power:
// n' = n + g^2; z += g - (n'^-p - n^-p) / learning_rate * w;
// w = |z| > l1 ? (sign(z) l1 - z) / (n'^-p / learning_rate + 2 l2) : 0.
// Slots "accum": n, "linear": z.
class FtrlOptimizer : public OneOpOptimizer {
 public:
  explicit FtrlOptimizer(const Operand& learning_rate,
                         const FtrlOptions& options = {});
};

// Gradient descent followed by shrinkage (FOBOS: Duchi and Singer, 2009):
// v = w - learning_rate g;
// w = sign(v) max(|v| - learning_rate l1, 0) / (1 + learning_rate l2).
class ProximalGradientDescentOptimizer : public OneOpOptimizer {
 public:
  explicit ProximalGradientDescentOptimizer(
      const Operand& learning_rate, double l1 = 0, double l2 = 0,
      std::string name = "ProximalGradientDescent");
};

struct ProximalAdagradOptions {
  double initial_accumulator = 0.1;
  double l1 = 0, l2 = 0;
  std::string name = "ProximalAdagrad";
};

// The same with Adagrad's rate, learning_rate / sqrt(a). Slot "accumulator": a.
class ProximalAdagradOptimizer : public OneOpOptimizer {
 public:
  explicit ProximalAdagradOptimizer(const Operand& learning_rate,
                                    const ProximalAdagradOptions& options = {});
};

}  // namespace sluice

#endif  // SLUICE_CLIENT_NN_OPTIMIZERS_H_
