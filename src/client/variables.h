// Variables as users see them: a value that steps read and update.
//
//   Var w(RandomUniform({784, 100}), "w");
//   Var b = GetVariable("b", {100}, init::Zeros());
//   Output y = ops::MatMul(x, w) + b;
//   Status status = session.Run(GlobalVariablesInitializer()).status();
#ifndef SLUICE_CLIENT_VARIABLES_H_
#define SLUICE_CLIENT_VARIABLES_H_

#include <string>
#include <vector>

#include "client/initializers.h"
#include "graph/builder.h"

namespace sluice {

// Keys of Graph::collections(), as TensorFlow names them.
inline constexpr const char* kGlobalVariables = "variables";
inline constexpr const char* kTrainableVariables = "trainable_variables";
inline constexpr const char* kLocalVariables = "local_variables";

struct VarOptions {
  // In kTrainableVariables too: optimizers update it by default.
  bool trainable = true;
  // A VariableV2 with reference edges instead of a VarHandleOp.
  bool reference = false;
  // Collections instead of kGlobalVariables.
  std::vector<std::string> collections = {};
};

// A light handle: copies mean the same variable, which its graph owns. Null by
// default, and where building it failed (the graph has the error). Belongs to
// the thread that builds the graph.
class Var {
 public:
  Var() = default;
  // Makes a variable that starts as `initial`, in the ambient graph; of its
  // type (a bare number with a point is a float; Var(Constant(0.0)) is a
  // double) and (if known) shape. Named "Variable" if `name` is empty; made
  // unique. In the body of a function "f" it is made in the graph around, as
  // "f/<name>", and captured; `initial` must be from there.
  explicit Var(const Operand& initial, const std::string& name = "",
               const VarOptions& options = {}, SourceLoc loc = CallerLoc());
  // The variable behind a handle or reference; null if it is none.
  static Var FromHandle(Output handle);

  // False if null. (As an Output, a variable has no conversion to bool, and ==
  // compares values: `v == w` is a node.)
  bool valid() const { return handle_.valid(); }
  bool SameAs(const Var& o) const { return handle_.SameAs(o.handle_); }
  const std::string& name() const;
  DType dtype() const;
  PartialShape shape() const;
  bool is_reference() const;
  // The resource, or the reference.
  Output handle() const { return handle_; }
  // Assigns the initial value.
  Node* initializer() const { return initializer_; }
  Output initial_value() const { return initial_; }

  // The value when the node that this adds runs. Operands read in this way.
  Output Read(SourceLoc loc = CallerLoc()) const;
  // The value at some time in the step: one node per variable. What a fetch of
  // the variable means.
  Output value() const { return value_; }
  operator Output() const { return value_; }  // NOLINT

  // Run these as targets, or as control dependencies.
  Node* Assign(const Operand& value, SourceLoc loc = CallerLoc()) const;
  Node* AssignAdd(const Operand& delta, SourceLoc loc = CallerLoc()) const;
  Node* AssignSub(const Operand& delta, SourceLoc loc = CallerLoc()) const;
  // A bool: whether it has a value.
  Output IsInitialized(SourceLoc loc = CallerLoc()) const;

 private:
  Node* Update(const char* resource_op, const char* reference_op,
               const Operand& value, const std::string& name,
               SourceLoc loc) const;

  Output handle_, value_, initial_;
  Node* initializer_ = nullptr;
};

// The variable `name` of the current name scope: made if there is none, else
// the one there is. InvalidArgument if that has another shape or type. What the
// initializer builds is of no loop, conditional or function's body either.
Var GetVariable(const std::string& name, const Shape& shape,
                const InitializerFn& initializer = init::GlorotUniform(),
                DType dtype = DType::kFloat, const VarOptions& options = {},
                SourceLoc loc = CallerLoc());

// Those of the ambient graph, in the order they were made.
std::vector<Var> GlobalVariables();
std::vector<Var> TrainableVariables();
std::vector<Var> VariablesIn(const std::string& collection);

// Initialises all variables there are by now (or those given). A Session runs
// it before anything reads them.
Node* GlobalVariablesInitializer(SourceLoc loc = CallerLoc());
Node* VariablesInitializer(const std::vector<Var>& vars,
                           const std::string& name = "init",
                           SourceLoc loc = CallerLoc());

// A no-op after all of these: runs them together.
Node* Group(const std::vector<Node*>& nodes, const std::string& name = "group",
            SourceLoc loc = CallerLoc());

// A placeholder, to be fed. The shape is in braces, -1 for a dimension that may
// be anything:
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

// What a handle or a reference points to: the type and shape of the value,
// found by following Identity, Enter and Switch to the node that made it.
DType VariableType(Output handle);
PartialShape VariableShapeOf(Output handle);

}  // namespace sluice

#endif  // SLUICE_CLIENT_VARIABLES_H_
