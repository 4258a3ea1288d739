// Building graphs: the ambient graph of a thread, its scopes, and the one
// function that every typed builder, gradient and library calls.
//
//   Graph g;
//   WithGraph use(g);
//   NameScope scope("layer1");
//   Output y = Build("MatMul", {x, w}, {{"transpose_b", true}});
#ifndef SLUICE_GRAPH_BUILDER_H_
#define SLUICE_GRAPH_BUILDER_H_

#include <concepts>
#include <initializer_list>
#include <map>
#include <string>
#include <type_traits>
#include <vector>

#include "graph/node.h"

namespace sluice {

class ControlFlowContext;

// The graph that this thread builds into: that of the innermost WithGraph, or
// a process-wide default graph.
Graph& CurrentGraph();

// RAII scope that affects what this thread builds, as are the classes below.
// Scopes nest and must be destroyed in reverse order (make them local
// variables).
class WithGraph {  // Starts with fresh scopes.
 public:
  explicit WithGraph(Graph& g);
  ~WithGraph();
  WithGraph(const WithGraph&) = delete;

 private:
  void* saved_;
};
class NameScope {  // "outer/name/...", made unique; "a/b/": that, once more.
 public:
  explicit NameScope(const std::string& name);
  // "within/name/...", whatever scope this is in. `within` is a prefix() or "".
  NameScope(const std::string& name, const std::string& within);
  ~NameScope();
  NameScope(const NameScope&) = delete;
  const std::string& prefix() const { return prefix_; }

 private:
  void Enter(const std::string& name);

  std::string saved_, prefix_;
};
// What the names of new nodes begin with: "outer/inner/", or "".
const std::string& CurrentNamePrefix();
class DeviceScope {  // Fills in missing parts of the device.
 public:
  explicit DeviceScope(const std::string& device);
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;

 private:
  std::string saved_;
  Output saved_failure_;
};
class ControlDependencies {  // New nodes run after these; none may be null.
 public:
  explicit ControlDependencies(std::vector<Node*> nodes);
  ~ControlDependencies();
  ControlDependencies(const ControlDependencies&) = delete;

 private:
  size_t saved_;
  Output saved_failure_;
};
class NoControlDependencies {  // Forgets the outer ones.
 public:
  NoControlDependencies();
  ~NoControlDependencies();
  NoControlDependencies(const NoControlDependencies&) = delete;

 private:
  std::vector<Node*> saved_;
  Output saved_failure_;
};
// New nodes belong to this branch or loop (graph/control_flow.h; null: none),
// and their inputs from outside are captured. Control dependencies of enclosing
// scopes do not apply inside; those set inside do.
class ContextScope {
 public:
  explicit ContextScope(ControlFlowContext* context, bool in_condition = false);
  ~ContextScope();
  ContextScope(const ContextScope&) = delete;

 private:
  ControlFlowContext* saved_;
  bool saved_in_condition_;
  const NoControlDependencies no_outer_ones_;
};
// The context of this thread's new nodes, and whether it is a loop's condition.
ControlFlowContext* CurrentContext();
bool InLoopCondition();
// The nodes that new nodes run after.
const std::vector<Node*>& CurrentControlDependencies();
class ColocateWith {  // New nodes share this node's device ("loc:@name").
 public:
  explicit ColocateWith(Node* node);
  ~ColocateWith();
  ColocateWith(const ColocateWith&) = delete;

 private:
  std::vector<std::string> saved_;
};
// Nodes of op `op` built in this scope use the gradient registered under `name`
// (attribute "_gradient_op_type").
class GradientOverride {
 public:
  GradientOverride(const std::string& op, const std::string& name);
  ~GradientOverride();
  GradientOverride(const GradientOverride&) = delete;

 private:
  std::map<std::string, std::string> saved_;
};
// Nodes built in this scope get this source line. Library functions use it to
// pass on their caller's line.
class AtLine {
 public:
  explicit AtLine(SourceLoc loc);
  ~AtLine();
  AtLine(const AtLine&) = delete;

 private:
  SourceLoc saved_;
};

inline SourceLoc CallerLoc(const char* file = __builtin_FILE(),
                           int line = __builtin_LINE()) {
  return {file, line};
}

// An argument of a builder or an operator: an output, or a number or string
// that becomes a constant (of the type that the op requires, if it is used
// together with an output; a number does not convert to a boolean, nor a C++
// bool to a number). On its own, as the initial value of a variable or a loop,
// 1 is an int32 and 1.0 a float; Constant(1.0) is a double. Records the line
// where it was written, from which operators and builders know the user's
// line.
class Operand {
 public:
  Operand(Output o, const char* file = __builtin_FILE(),  // NOLINT
          int line = __builtin_LINE())
      : output(o), loc{file, line} {}
  Operand(Node* n, const char* file = __builtin_FILE(),  // NOLINT
          int line = __builtin_LINE())
      : output(n), loc{file, line} {}
  template <typename T>
  requires std::is_arithmetic_v<T> Operand(
      T v, const char* file = __builtin_FILE(),  // NOLINT
      int line = __builtin_LINE())
      : literal(Tensor::Scalar<
                std::conditional_t<std::is_same_v<T, long long>, int64_t, T>>(
            v)),
        weak(true),
        loc{file, line} {}
  // A small vector, such as a shape or axes: Reshape(x, {-1, 784}).
  Operand(std::initializer_list<int> v,  // NOLINT
          const char* file = __builtin_FILE(), int line = __builtin_LINE())
      : literal(Tensor::Vector<int>(v)), weak(true), loc{file, line} {}
  Operand(std::initializer_list<int64_t> v,  // NOLINT
          const char* file = __builtin_FILE(), int line = __builtin_LINE())
      : literal(Tensor::Vector<int64_t>(v)), weak(true), loc{file, line} {}
  Operand(std::initializer_list<float> v,  // NOLINT
          const char* file = __builtin_FILE(), int line = __builtin_LINE())
      : literal(Tensor::Vector<float>(v)), weak(true), loc{file, line} {}
  Operand(std::initializer_list<double> v,  // NOLINT
          const char* file = __builtin_FILE(), int line = __builtin_LINE())
      : literal(Tensor::Vector<double>(v)), weak(true), loc{file, line} {}
  // Anything that can be read as an output (a variable of the client). Every
  // use adds its own read, so that control dependencies order it.
  template <typename V>
  requires requires(const V& v, SourceLoc at) {
    { v.Read(at) } -> std::same_as<Output>;
  }
  Operand(const V& v, const char* file = __builtin_FILE(),  // NOLINT
          int line = __builtin_LINE())
      : output(v.Read(SourceLoc{file, line})), loc{file, line} {}
  // An invalid tensor makes building with it fail.
  Operand(Tensor t, const char* file = __builtin_FILE(),  // NOLINT
          int line = __builtin_LINE())
      : literal(std::move(t)), loc{file, line} {
    if (!literal.valid()) literal_error = literal.status();
  }
  Operand(const char* s, const char* file = __builtin_FILE(),  // NOLINT
          int line = __builtin_LINE())
      : literal(Tensor::Scalar<std::string>(s == nullptr ? "" : s)),
        loc{file, line} {}

  // The output, captured if the ambient graph is the body of a function and the
  // output belongs to another graph. A literal becomes a Const, of type `want`
  // if it is weak (a bare number) and `want` is not kInvalid. InvalidArgument
  // is recorded if `want` cannot hold it: 1.5 as an integer, 300 as uint8, 1 as
  // a boolean.
  Output Get(DType want = DType::kInvalid) const;

  Output output;
  Tensor literal;        // Valid exactly if output is null and not missing.
  Status literal_error;  // Why the given literal is invalid.
  bool weak = false;     // Bare numbers take their neighbours' type.
  SourceLoc loc;
};

// Adds a node to the ambient graph under the ambient scopes. Errors are
// recorded in the graph and null is returned. If an input is null, or a scope
// failed, the result is null with the same error. `name` is made unique; ""
// uses the op's name.
Node* BuildNode(const std::string& op, std::vector<Output> inputs,
                AttrMap attrs = {}, const std::string& name = "",
                SourceLoc loc = {});
// As BuildNode, but returns the first output; null on error (see
// Output::error).
Output Build(const std::string& op, std::vector<Output> inputs,
             AttrMap attrs = {}, const std::string& name = "",
             SourceLoc loc = CallerLoc());

// The first output of a node that was just built; the failure if it is null.
Output OrFailure(Node* node);

// Records an error of a library function in the ambient graph; returns a null
// output.
Output BuildError(const Status& s, SourceLoc loc = {});

// A Const node.
Output Constant(Tensor value, const std::string& name = "",
                SourceLoc loc = CallerLoc());
template <typename T>
requires std::is_arithmetic_v<T> Output Constant(T v,
                                                 SourceLoc loc = CallerLoc()) {
  return Constant(Tensor::Scalar<T>(v), "", loc);
}
// A scalar constant of the given type. v must be representable.
Output ScalarOf(DType dtype, double v, SourceLoc loc = CallerLoc());
// A vector of int32 (axes, shapes, permutations).
Output IntVector(std::initializer_list<int32_t> v);
Output IntVector(const std::vector<int32_t>& v);

// A scalar Tensor with value v; InvalidArgument if `dtype` cannot hold it.
Result<Tensor> ScalarTensor(DType dtype, double v);

// "/job:ps/task:0" with the parts that `spec` lacks taken from `defaults`.
Result<std::string> MergeDevices(const std::string& spec,
                                 const std::string& defaults);

}  // namespace sluice

#endif  // SLUICE_GRAPH_BUILDER_H_
