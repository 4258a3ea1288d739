// What all optimizers share: gradients, slots, and the order of updates. The
// optimizers themselves are in optimizers.h and adam_optimizers.h; a new one is
// a class derived from Optimizer:
//
//   // Moves by a fixed distance, against the sign of the gradient.
//   class SignDescent : public Optimizer {
//    public:
//     explicit SignDescent(float rate)
//         : Optimizer("SignDescent"), rate_(rate) {}
//
//    protected:
//     Node* ApplyDense(Output grad, const Var& var) override {
//       return var.AssignSub(rate_ * ops::Sign(grad));
//     }
//     Node* ApplySparse(const Gradient& grad, const Var& var) override {
//       return ScatterAdd(var, grad.indices, -rate_ * ops::Sign(grad.values));
//     }
//
//    private:
//     const float rate_;
//   };
#ifndef SLUICE_CLIENT_NN_OPTIMIZER_H_
#define SLUICE_CLIENT_NN_OPTIMIZER_H_

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

// An optimizer belongs to the graph in which it is first used, and to the
// thread that builds it; destroying it leaves what it built. Each kind of
// optimizer is a derived class that defines its slots (additional variables per
// variable) and how it applies a gradient. Names of slots, of other variables
// and of nodes are TensorFlow's, so that checkpoints fit.
//
// An update runs after all reads of its variable by the loss and the gradients
// (GradientGate), so that a step computes with the values at its start.
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
  // InvalidArgument if no variable has a gradient, or if the optimizer was made
  // with hyperparameters that it cannot have.
  Result<Node*> ApplyGradients(const std::vector<GradAndVar>& grads,
                               const MinimizeOptions& options = {},
                               SourceLoc loc = CallerLoc());

  // The slot of a variable; null if it does not exist (yet).
  Var GetSlot(const Var& var, const std::string& slot) const;
  virtual std::vector<std::string> SlotNames() const { return {}; }
  // A variable that all updates share, such as "beta1_power"; null if it does
  // not exist (yet).
  Var GetNonSlot(const std::string& name) const;
  // All slots and other variables that exist so far, by name.
  std::vector<Var> Variables() const;
  const std::string& name() const { return name_; }

 protected:
  // For constructors: unless `holds`, ApplyGradients fails with
  // InvalidArgument. `rule` says what is expected: "an l1 of at least 0".
  void Require(bool holds, const char* rule, double got);
  // Creates the variables that all updates share (with MakeNonSlot), in the
  // caller's scopes. `first` is the variable of the lowest name.
  virtual void CreateNonSlots(const Var& first) { (void)first; }
  // Creates the slots of one variable (with MakeSlot); called once per
  // variable.
  virtual void CreateSlots(const Var& var) { (void)var; }
  // Builds what all variables share: the hyperparameters as outputs.
  virtual void Prepare() {}
  virtual Node* ApplyDense(Output grad, const Var& var) = 0;
  // The indices are distinct, unless AcceptsRepeatedIndices.
  virtual Node* ApplySparse(const Gradient& grad, const Var& var) = 0;
  virtual bool AcceptsRepeatedIndices() const { return false; }
  // Builds what runs after the updates, such as a change of a non-slot
  // variable. New nodes already depend on all updates.
  virtual std::vector<Node*> Finish() { return {}; }

  // Creates a variable "<var>/<name>" for `var`, of the same shape, with every
  // element set to `initial`; not trainable. `suffix` replaces <name>.
  void MakeSlot(const Var& var, const std::string& slot, double initial,
                const std::string& suffix = "");
  // Creates a scalar float variable on the device of `near`.
  void MakeNonSlot(const std::string& name, const Operand& initial,
                   const Var& near);
  // The output of a hyperparameter: a constant `name` if it is a number.
  static Output Hyperparameter(const Operand& value, const char* name);
  // A hyperparameter as an output of the variable's type.
  static Output As(const Output& value, DType dtype);
  // A node of `op`, with the prefix "Resource" if the variable is one.
  static Node* UpdateOp(const char* op, const Var& var,
                        const std::vector<Output>& inputs,
                        const AttrMap& attrs = {});
  // Updates of rows of a variable, and their values.
  static Node* ScatterAdd(const Var& var, const Output& indices,
                          const Operand& rows);
  static Node* ScatterUpdate(const Var& var, const Output& indices,
                             const Operand& rows);
  static Output GatherRows(const Var& var, const Output& indices);

 private:
  // The two halves; their errors do not name a line.
  Result<std::vector<GradAndVar>> Compute(Output loss,
                                          const MinimizeOptions& options,
                                          SourceLoc loc);
  Result<Node*> Apply(const std::vector<GradAndVar>& grads,
                      const MinimizeOptions& options, SourceLoc loc);
  Node* Update(const Gradient& grad, const Var& var);

  const std::string name_;
  // The losses of the ComputeGradients since the last ApplyGradients, or before
  // it: those whose gradients the next one may apply.
  std::vector<Output> losses_;
  bool losses_applied_ = false;
  Status refused_;  // By Require.
  // By the names of the variable and the slot.
  std::map<std::pair<std::string, std::string>, Var> slots_;
  std::map<std::string, Var> non_slots_;
};

}  // namespace sluice

#endif  // SLUICE_CLIENT_NN_OPTIMIZER_H_
