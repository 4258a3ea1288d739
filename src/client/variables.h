// Variables as seen by users: values that steps read and update.
//
//   Var w(RandomUniform({784, 100}), "w");
//   Var b = GetVariable("b", {100}, init::Zeros());
//   Output y = ops::MatMul(x, w) + b;
//   Status status = session.Run(GlobalVariablesInitializer()).status();
#ifndef SLUICE_CLIENT_VARIABLES_H_
#define SLUICE_CLIENT_VARIABLES_H_

#include <functional>
#include <string>
#include <vector>

#include "client/initializers.h"
#include "graph/builder.h"

namespace sluice {

// Keys of Graph::collections(), as TensorFlow names them.
inline constexpr const char* kGlobalVariables = "variables";
inline constexpr const char* kTrainableVariables = "trainable_variables";
inline constexpr const char* kLocalVariables = "local_variables";
inline constexpr const char* kRegularizationLosses = "regularization_losses";
// Nodes that a training step has to run beside its optimizer, such as those
// that move the averages of a batch normalisation.
inline constexpr const char* kUpdateOps = "update_ops";

// Builds a scalar, which is added to the loss, of the value of a variable.
// (client/nn/regularizers.h has some.) Null: none.
using Regularizer = std::function<Output(Output value)>;

struct VarOptions {
  // Also added to kTrainableVariables: optimizers update it by default.
  bool trainable = true;
  // Creates a VariableV2 with reference edges instead of a VarHandleOp.
  bool reference = false;
  // Collections instead of kGlobalVariables.
  std::vector<std::string> collections = {};
  // Its loss of the new variable is added to kRegularizationLosses.
  Regularizer regularizer = nullptr;
};

// A light handle: copies refer to the same variable, which its graph owns. Null
// by default, and if building it failed (the graph has the error). Belongs to
// the thread that builds the graph.
class Var {
 public:
  Var() = default;
  // Creates a variable in the ambient graph with the initial value `initial`,
  // of its type (a number with a decimal point is a float, Var(Constant(0.0)) a
  // double) and (if known) shape. Named "Variable" if `name` is empty; the name
  // is made unique. In the body of a function "f" it is created in the graph
  // around, as "f/<name>", on the device of the scopes in the body and around
  // its definition, and captured; `initial` must be from there.
  explicit Var(const Operand& initial, const std::string& name = "",
               const VarOptions& options = {}, SourceLoc loc = CallerLoc());
  // The variable behind a handle or reference; null if there is none.
  static Var FromHandle(Output handle);

  // False if null. (As an Output, a variable has no conversion to bool, and ==
  // compares values: `v == w` is a node.)
  bool valid() const { return handle_.valid(); }
  bool SameAs(const Var& o) const { return handle_.SameAs(o.handle_); }
  const std::string& name() const;
  DType dtype() const;
  PartialShape shape() const;
  bool is_reference() const;
  // The resource handle, or the reference.
  Output handle() const { return handle_; }
  // Assigns the initial value.
  Node* initializer() const { return initializer_; }
  Output initial_value() const { return initial_; }

  // The value at the time when the node that this adds runs. Operands use this
  // read.
  Output Read(SourceLoc loc = CallerLoc()) const;
  // The value at an unspecified time in the step: one node per variable. To
  // fetch or feed the variable is to fetch or feed this, and no other read.
  Output value() const { return value_; }
  operator Output() const { return value_; }  // NOLINT

  // Run these nodes as targets, or use them as control dependencies.
  Node* Assign(const Operand& value, SourceLoc loc = CallerLoc()) const;
  Node* AssignAdd(const Operand& delta, SourceLoc loc = CallerLoc()) const;
  Node* AssignSub(const Operand& delta, SourceLoc loc = CallerLoc()) const;
  // A bool scalar: whether the variable has a value.
  Output IsInitialized(SourceLoc loc = CallerLoc()) const;

 private:
  Node* Update(const char* resource_op, const char* reference_op,
               const Operand& value, const std::string& name,
               SourceLoc loc) const;

  Output handle_, value_, initial_;
  Node* initializer_ = nullptr;
};

// The variable `name` of the current variable scope (client/variable_scope.h),
// which says whether it may exist already; without such a scope, that of the
// current name scope, created if it does not exist. A null initializer is the
// scope's, or Glorot's for floating and zeros for other types; kInvalid is the
// scope's type, or float. InvalidArgument if the existing variable has another
// shape or type. The nodes of the initializer belong to no loop, conditional or
// function body, and have no control dependencies of the scopes around. If
// something else in the graph has the name, the variable's node gets another
// one ("name_1"), and GetVariable still finds it by `name`.
Var GetVariable(const std::string& name, const Shape& shape,
                const InitializerFn& initializer = nullptr,
                DType dtype = DType::kInvalid, const VarOptions& options = {},
                SourceLoc loc = CallerLoc());

// The variables of the ambient graph, in the order of their creation; with a
// scope, only those that are named "<scope>/...".
std::vector<Var> GlobalVariables(const std::string& scope = "");
std::vector<Var> TrainableVariables(const std::string& scope = "");
std::vector<Var> VariablesIn(const std::string& collection,
                             const std::string& scope = "");

// Initialises all variables that exist so far (or the given ones). Run it in a
// session before any read.
Node* GlobalVariablesInitializer(SourceLoc loc = CallerLoc());
Node* VariablesInitializer(const std::vector<Var>& vars,
                           const std::string& name = "init",
                           SourceLoc loc = CallerLoc());

// A no-op that depends on all of these: running it runs them all.
Node* Group(const std::vector<Node*>& nodes, const std::string& name = "group",
            SourceLoc loc = CallerLoc());

// A placeholder, whose value is fed. The shape is in braces, with -1 for a
// dimension of any size:
//   Output rows = Placeholder<float>({-1, 784});
//   Output scalar = Placeholder<float>({});
//   Output any = Placeholder<float>();  // What is built on it checks less.
Output Placeholder(DType dtype, const PartialShape& shape = PartialShape(),
                   const std::string& name = "", SourceLoc loc = CallerLoc());
inline Output Placeholder(DType dtype, std::initializer_list<int64_t> shape,
                          const std::string& name = "",
                          SourceLoc loc = CallerLoc()) {
  return Placeholder(dtype, PartialShape(shape), name, loc);
}
template <typename T>
Output Placeholder(const PartialShape& shape = PartialShape(),
                   const std::string& name = "", SourceLoc loc = CallerLoc()) {
  return Placeholder(DTypeOf<T>(), shape, name, loc);
}
template <typename T>
Output Placeholder(std::initializer_list<int64_t> shape,
                   const std::string& name = "", SourceLoc loc = CallerLoc()) {
  return Placeholder(DTypeOf<T>(), PartialShape(shape), name, loc);
}

// The type and shape of the value behind a handle or a reference, found by
// following Identity, Enter and Switch to the node that made it.
DType VariableType(Output handle);
PartialShape VariableShapeOf(Output handle);

}  // namespace sluice

#endif  // SLUICE_CLIENT_VARIABLES_H_
