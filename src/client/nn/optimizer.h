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

#include <functional>
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
  // Hyperparameters that may change from step to step: TensorFlow's name of
  // each, and its value.
  using Numbers = std::vector<std::pair<const char*, Operand>>;
  // By the names of the variable and the slot.
  using Slots = std::map<std::pair<std::string, std::string>, Var>;

  explicit Optimizer(std::string name, Numbers numbers = {})
      : name_(std::move(name)),
        numbers_(std::move(numbers)),
        values_(numbers_.size()) {}
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
  // ---- The steps of ApplyGradients, in this order. They run under the scopes
  // that they need; variables and gradients are valid.

  // Creates what the optimizer keeps for these variables, unless it exists.
  virtual void CreateVariables(const std::vector<Var>& vars);
  // Creates the variables that all updates share (with MakeNonSlot), in the
  // caller's scopes. `first` is the variable of the lowest name.
  virtual void CreateNonSlots(const Var& first) { (void)first; }
  // Creates the slots of one variable (with MakeSlot); called once per
  // variable.
  virtual void CreateSlots(const Var& var) { (void)var; }
  // Builds what all updates share: the numbers as outputs.
  virtual void Prepare();
  virtual Node* ApplyDense(Output grad, const Var& var) = 0;
  // The indices are distinct, unless AcceptsRepeatedIndices.
  virtual Node* ApplySparse(const Gradient& grad, const Var& var) = 0;
  virtual bool AcceptsRepeatedIndices() const { return false; }
  // Builds what runs after the updates, such as a change of a non-slot
  // variable. New nodes already depend on all updates.
  virtual std::vector<Node*> Finish() { return {}; }
  // The node `name` that runs the updates and then what Finish builds.
  virtual Node* Finished(std::vector<Node*> updates, const std::string& name);

  // ---- For these steps.

  // Number i as an output of a type; between Prepare and the end of
  // ApplyGradients.
  Output Number(size_t i, DType dtype) const;
  // Other values for the numbers, from the next Prepare on. What is an output
  // counts at once.
  void SetNumbers(const std::vector<Operand>& values);
  const Numbers& numbers() const { return numbers_; }
  // Whether ops that update references take the variable's lock.
  void UseLocking(bool use) { use_locking_ = use; }

  // Creates a variable "<var>/<name>" for `var`, of the same shape, with every
  // element set to `initial`; not trainable. `suffix` replaces <name>.
  void MakeSlot(const Var& var, const std::string& slot, double initial,
                const std::string& suffix = "");
  // Creates a scalar float variable on the device of `near`.
  void MakeNonSlot(const std::string& name, const Operand& initial,
                   const Var& near);
  // What these two call for a new variable. Overridden where variables are more
  // than the library's, such as objects of another language. `initial` builds
  // the initial value.
  virtual Var NewSlot(const Var& var, const std::string& suffix,
                      const std::function<Output()>& initial);
  virtual Var NewNonSlot(const std::string& name, const Operand& initial,
                         const Var& near);
  const Slots& slots() const { return slots_; }
  // Makes known as a slot, or as a variable that all updates share, what a
  // derived class made in its own way.
  void AddSlot(const Var& var, const std::string& slot, const Var& made) {
    slots_[{var.name(), slot}] = made;
  }
  void AddNonSlot(const std::string& name, const Var& made) {
    non_slots_[name] = made;
  }
  // The output of a hyperparameter: a constant `name` if it is a number.
  static Output Hyperparameter(const Operand& value, const char* name);
  // A hyperparameter as an output of the variable's type.
  static Output As(const Output& value, DType dtype);
  // A node of `op`, with the prefix "Resource" if the variable is one.
  Node* UpdateOp(const char* op, const Var& var,
                 const std::vector<Output>& inputs,
                 const AttrMap& attrs = {}) const;
  // Updates of rows of a variable, and their values.
  Node* ScatterAdd(const Var& var, const Output& indices,
                   const Operand& rows) const;
  Node* ScatterSub(const Var& var, const Output& indices,
                   const Operand& rows) const;
  Node* ScatterUpdate(const Var& var, const Output& indices,
                      const Operand& rows) const;
  static Output GatherRows(const Var& var, const Output& indices);
  // var -= part * var; of rows, if the indices are not null.
  Node* Decay(const Var& var, const Output& part, const Output& indices) const;

 private:
  // The two halves; their errors do not name a line.
  Result<std::vector<GradAndVar>> Compute(Output loss,
                                          const MinimizeOptions& options,
                                          SourceLoc loc);
  Result<Node*> Apply(const std::vector<GradAndVar>& grads,
                      const MinimizeOptions& options, SourceLoc loc);
  Node* Update(const Gradient& grad, const Var& var);

  const std::string name_;
  Numbers numbers_;
  std::vector<Output> values_;  // Of the numbers, once prepared.
  bool use_locking_ = false;
  // The losses of the ComputeGradients since the last ApplyGradients, or before
  // it: those whose gradients the next one may apply.
  std::vector<Output> losses_;
  bool losses_applied_ = false;
  Status refused_;  // By Require.
  Slots slots_;
  std::map<std::string, Var> non_slots_;
};

}  // namespace sluice

#endif  // SLUICE_CLIENT_NN_OPTIMIZER_H_
