// Adam and its relatives. (Others: optimizers.h.)
//
//   Node* train = AdamOptimizer(1e-3).Minimize(loss);
//   Node* decayed = AdamWOptimizer(1e-3, {.weight_decay = 1e-4})
//                       .Minimize(loss, {.variables = {w}});
//
// Formulas: w is the variable, g the gradient, t the number of the step from 1
// on, everything elementwise; m = beta1 m + (1 - beta1) g and
// v = beta2 v + (1 - beta2) g^2 are the slots "m" and "v", and
// rate = learning_rate sqrt(1 - beta2^t) / (1 - beta1^t)
// corrects both for their initial zeros. The powers of the betas are the
// variables "beta1_power" and "beta2_power", which all variables share. All of
// it is computed from values in the variable's type, as in TensorFlow: in
// bfloat16 a beta2 of 0.999 is 1, and nothing moves. Train variables of type
// float, and cast them.
#ifndef SLUICE_CLIENT_NN_ADAM_OPTIMIZERS_H_
#define SLUICE_CLIENT_NN_ADAM_OPTIMIZERS_H_

#include <string>
#include <utility>
#include <vector>

#include "client/nn/optimizer.h"

namespace sluice {

// What Adam does with a sparse gradient.
enum class AdamRows : uint8_t {
  // As with a dense gradient that is zero in the other rows: their moments
  // decay, and they move on by them. One op, SparseApplyAdam, which TensorFlow
  // lacks; rows that never had a gradient cost a look at their moments.
  kAll,
  // The same from TensorFlow's ops, for graphs that TensorFlow will import.
  // Sessions run them as that one op (passes.h, FuseSparseAdam), unless
  // something else reads the moments between, or nesterov is set.
  kAllByTensorFlowOps,
  // Only rows with a gradient change ("lazy" Adam): the cost does not depend on
  // the number of rows, the numbers differ.
  kLazy,
  // The same from TensorFlow's ops.
  kLazyByTensorFlowOps,
  // The moments of all rows decay, but only rows with a gradient move, which is
  // what TensorFlow's NAdam does.
  kMomentsOfAll,
};

struct AdamOptions {
  Operand beta1 = 0.9, beta2 = 0.999;
  double epsilon = 1e-8;  // Outside of the root: "epsilon hat" of the paper.
  // beta1 m + (1 - beta1) g in place of m (NAdam: Dozat, 2016).
  bool nesterov = false;
  AdamRows rows = AdamRows::kAll;
  std::string name = "Adam";
};

// w -= rate m / (sqrt(v) + epsilon) (Kingma and Ba, 2015).
class AdamOptimizer : public Optimizer {
 public:
  explicit AdamOptimizer(const Operand& learning_rate = 0.001,
                         const AdamOptions& options = {})
      : Optimizer(options.name, {{"learning_rate", learning_rate},
                                 {"beta1", options.beta1},
                                 {"beta2", options.beta2},
                                 {"epsilon", options.epsilon}}),
        nesterov_(options.nesterov),
        rows_(options.rows) {}
  std::vector<std::string> SlotNames() const override { return {"m", "v"}; }

 protected:
  void CreateNonSlots(const Var& first) override;
  void CreateSlots(const Var& var) override;
  Node* ApplyDense(Output grad, const Var& var) override;
  Node* ApplySparse(const Gradient& grad, const Var& var) override;
  bool AcceptsRepeatedIndices() const override;
  std::vector<Node*> Finish() override;

  // What an update of `var` uses, in its type.
  struct Values {
    Output power1, power2;  // Null for optimizers without such a variable.
    Output learning_rate, beta1, beta2, epsilon;
    Output CorrectedRate() const;  // `rate` above.
  };
  Values ValuesFor(const Var& var) const;
  // Decays a slot and adds to some of its rows; returns the new value of all
  // and the node that made it.
  std::pair<Output, Node*> DecayedAndAdded(const Var& slot, Output decay,
                                           Output rows, Output indices) const;

 private:
  const bool nesterov_;
  const AdamRows rows_;
};

// Adam with the largest v so far (slot "vhat") in place of v, so that the rate
// of no element grows (Reddi, Kale and Kumar, 2018). A sparse gradient changes
// all rows. `options.nesterov` and `.rows` are not used.
class AmsGradOptimizer : public AdamOptimizer {
 public:
  explicit AmsGradOptimizer(const Operand& learning_rate = 0.001,
                            const AdamOptions& options = {.name = "AMSGrad"})
      : AdamOptimizer(learning_rate, options) {}
  std::vector<std::string> SlotNames() const override {
    return {"m", "v", "vhat"};
  }

 protected:
  void CreateSlots(const Var& var) override;
  Node* ApplyDense(Output grad, const Var& var) override;
  Node* ApplySparse(const Gradient& grad, const Var& var) override;
  bool AcceptsRepeatedIndices() const override { return false; }

 private:
  Node* Step(const Var& var, Output m, Output v) const;
};

// u = max(beta2 u, |g|) (slot "v"); w -= learning_rate / (1 - beta1^t) m /
// (u + epsilon): Adam with the infinity norm (Kingma and Ba, 2015, section 7).
// A sparse gradient changes only its rows. `options.beta2`'s power is not
// needed; `options.nesterov` and `.rows` are not used.
class AdaMaxOptimizer : public AdamOptimizer {
 public:
  explicit AdaMaxOptimizer(const Operand& learning_rate = 0.001,
                           const AdamOptions& options = {.name = "AdaMax"})
      : AdamOptimizer(learning_rate, options) {}

 protected:
  void CreateNonSlots(const Var& first) override;
  Node* ApplyDense(Output grad, const Var& var) override;
  Node* ApplySparse(const Gradient& grad, const Var& var) override;
  bool AcceptsRepeatedIndices() const override { return false; }
};

struct AdamWOptions {
  // The part of a variable that is subtracted per step. (Papers and libraries
  // that multiply it by the learning rate: pass the product.)
  Operand weight_decay = 0.01;
  // Only these variables decay; empty: all.
  std::vector<Var> decayed = {};
  AdamOptions adam = {.name = "AdamW"};
};

// w -= weight_decay w before Adam's step: decay apart from the moments
// (Loshchilov and Hutter, 2019). A sparse gradient lets only its rows decay.
class AdamWOptimizer : public AdamOptimizer {
 public:
  explicit AdamWOptimizer(const Operand& learning_rate = 0.001,
                          const AdamWOptions& options = {})
      : AdamOptimizer(learning_rate, options.adam),
        weight_decay_(options.weight_decay),
        decayed_(options.decayed) {}

 protected:
  void Prepare() override;
  Node* ApplyDense(Output grad, const Var& var) override;
  Node* ApplySparse(const Gradient& grad, const Var& var) override;
  // (A row that occurs twice decays once.)
  bool AcceptsRepeatedIndices() const override { return false; }

 private:
  bool Decays(const Var& var) const;

  const Operand weight_decay_;
  const std::vector<Var> decayed_;
  Output part_;  // The weight decay, once prepared.
};

}  // namespace sluice

#endif  // SLUICE_CLIENT_NN_ADAM_OPTIMIZERS_H_
