// Optimizers: user-level code on gradients, variables and the update ops.
//
//   Node* train = AdagradOptimizer(0.01).Minimize(loss);
#ifndef SLUICE_CLIENT_NN_OPTIMIZERS_H_
#define SLUICE_CLIENT_NN_OPTIMIZERS_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "client/autodiff/gradients.h"
#include "client/variables.h"

namespace sluice {

struct GradAndVar {
  Gradient gradient;  // May be missing.
  Var var;
};

// What the update of a variable waits for, besides its gradient.
enum class GradientGate : uint8_t {
  // All uses of the variable's value in the loss and the gradients: the step
  // computes with the values at its start, and updates are in place.
  kReads,
  kNone,
  kOp,     // The gradients of each op are ready together.
  kGraph,  // All gradients are ready before any is used.
};

struct MinimizeOptions {
  Var global_step = {};             // Incremented by each step.
  std::vector<Var> variables = {};  // Empty: all trainable ones.
  Output grad_loss = {};            // The gradient of the loss; null: one.
  GradientGate gate = GradientGate::kReads;
  bool colocate = false;  // Gradients on the devices of their ops.
  std::string name = "";  // The name of the training node.
};

// An optimizer belongs to the graph in which it is first used. Each kind of
// optimizer is a derived class that defines its slots (additional variables per
// variable) and how it applies a gradient.
class Optimizer {
 public:
  explicit Optimizer(std::string name) : name_(std::move(name)) {}
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;

  // A node that runs one training step. As in builders: null on error, which is
  // recorded in the graph.
  Node* Minimize(Output loss, const MinimizeOptions& options = {},
                 SourceLoc loc = CallerLoc());

  // The two halves of Minimize, for inspecting or changing gradients in
  // between.
  Result<std::vector<GradAndVar>> ComputeGradients(
      Output loss, const MinimizeOptions& options = {},
      SourceLoc loc = CallerLoc());
  // InvalidArgument if no variable has a gradient.
  Result<Node*> ApplyGradients(const std::vector<GradAndVar>& grads,
                               const MinimizeOptions& options = {},
                               SourceLoc loc = CallerLoc());

  // The slot of a variable; null if it does not exist (yet).
  Var GetSlot(const Var& var, const std::string& slot) const;
  virtual std::vector<std::string> SlotNames() const { return {}; }
  const std::string& name() const { return name_; }

 protected:
  // Creates the slots of one variable (with MakeSlot); called once per
  // variable.
  virtual void CreateSlots(const Var& var) { (void)var; }
  // Builds what all variables share: the hyperparameters as outputs.
  virtual void Prepare() {}
  virtual Node* ApplyDense(Output grad, const Var& var) = 0;
  // The indices are distinct, unless AcceptsRepeatedIndices.
  virtual Node* ApplySparse(const Gradient& grad, const Var& var) = 0;
  virtual bool AcceptsRepeatedIndices() const { return false; }

  // Creates a variable "<var>/<name>" for `var`, of the same shape, with every
  // element set to `initial`; not trainable.
  void MakeSlot(const Var& var, const std::string& slot, double initial);
  // A hyperparameter as an output of the variable's type.
  static Output As(const Output& value, DType dtype);

 private:
  // The two halves; their errors do not name a line.
  Result<std::vector<GradAndVar>> Compute(Output loss,
                                          const MinimizeOptions& options,
                                          SourceLoc loc);
  Result<Node*> Apply(const std::vector<GradAndVar>& grads,
                      const MinimizeOptions& options, SourceLoc loc);
  Node* Update(const Gradient& grad, const Var& var);

  const std::string name_;
  Output loss_;  // The loss of the last ComputeGradients.
  // By the names of the variable and the slot.
  std::map<std::pair<std::string, std::string>, Var> slots_;
};

// var -= learning_rate * gradient.
class GradientDescentOptimizer : public Optimizer {
 public:
  explicit GradientDescentOptimizer(const Operand& learning_rate,
                                    std::string name = "GradientDescent")
      : Optimizer(std::move(name)), learning_rate_(learning_rate) {}

 protected:
  void Prepare() override;
  Node* ApplyDense(Output grad, const Var& var) override;
  Node* ApplySparse(const Gradient& grad, const Var& var) override;
  bool AcceptsRepeatedIndices() const override { return true; }

 private:
  const Operand learning_rate_;
  Output rate_;
};

// Duchi, Hazan and Singer (2011): slot "accumulator" sums squared gradients;
// var -= learning_rate * gradient / sqrt(accumulator).
class AdagradOptimizer : public Optimizer {
 public:
  explicit AdagradOptimizer(const Operand& learning_rate,
                            double initial_accumulator = 0.1,
                            std::string name = "Adagrad")
      : Optimizer(std::move(name)),
        learning_rate_(learning_rate),
        initial_accumulator_(initial_accumulator) {}
  std::vector<std::string> SlotNames() const override {
    return {"accumulator"};
  }

 protected:
  void CreateSlots(const Var& var) override;
  void Prepare() override;
  Node* ApplyDense(Output grad, const Var& var) override;
  Node* ApplySparse(const Gradient& grad, const Var& var) override;

 private:
  const Operand learning_rate_;
  const double initial_accumulator_;
  Output rate_;
};

}  // namespace sluice

#endif  // SLUICE_CLIENT_NN_OPTIMIZERS_H_
