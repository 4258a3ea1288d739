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
#include <string>
#include <type_traits>
#include <vector>

#include "graph/graph.h"

namespace sluice {

class ControlFlowContext;

// The graph that this thread builds into: that of the innermost WithGraph, or
// a process-wide default graph.
Graph& CurrentGraph();

// While one of these lives, this thread builds accordingly. They nest, and must
// be destroyed in the reverse order (be local variables).
class WithGraph {  // Starts with fresh scopes.
 public:
  explicit WithGraph(Graph& g);
  ~WithGraph();
  WithGraph(const WithGraph&) = delete;

 private:
  void* saved_;
};
class NameScope {  // Names become "outer/name/..."; made unique.
 public:
  explicit NameScope(const std::string& name);
  ~NameScope();
  NameScope(const NameScope&) = delete;
  const std::string& prefix() const { return prefix_; }

 private:
  std::string saved_, prefix_;
};
// What the names of new nodes begin with: "outer/inner/", or "".
const std::string& CurrentNamePrefix();
class DeviceScope {  // Fills in the parts of the device that are not named.
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
// New nodes belong to this branch or loop (graph/control_flow.h), null for
// none: what they take from outside is captured. Control dependencies from
// around the scope end here; those made within hold.
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
// Where new nodes of this thread go, and whether that is a loop's condition.
ControlFlowContext* CurrentContext();
bool InLoopCondition();
// What new nodes are made to run after.
const std::vector<Node*>& CurrentControlDependencies();
class ColocateWith {  // New nodes share this node's device ("loc:@name").
 public:
  explicit ColocateWith(Node* node);
  ~ColocateWith();
  ColocateWith(const ColocateWith&) = delete;

 private:
  std::vector<std::string> saved_;
};
// Nodes of op `op` built meanwhile use the gradient registered under `name`
// (attribute "_gradient_op_type").
class GradientOverride {
 public:
  GradientOverride(const std::string& op, const std::string& name);
  ~GradientOverride();
  GradientOverride(const GradientOverride&) = delete;

 private:
  std::map<std::string, std::string> saved_;
};
// Nodes built meanwhile, wherever, are said to come from this line: a library
// function passes its caller's on.
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

// An argument of a builder: an output, or a number or string that becomes a
// constant (of the type that the op asks for, where it is written beside an
// output; a number is no boolean, and a C++ bool no number). By itself, as what
// a variable or a loop starts with, 1 is an int32 and 1.0 a float;
// Constant(1.0) is a double. Remembers the line where it was written, which is
// how operators and builders know the user's line.
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
  // Whatever can be read as an output (a variable of the client): every use is
  // a read of its own, so that control dependencies order it.
  template <typename V>
  requires requires(const V& v, SourceLoc at) {
    { v.Read(at) } -> std::same_as<Output>;
  }
  Operand(const V& v, const char* file = __builtin_FILE(),  // NOLINT
          int line = __builtin_LINE())
      : output(v.Read(SourceLoc{file, line})), loc{file, line} {}
  // An invalid tensor is an error of what is built with it.
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
  // output is not of it. A literal becomes a Const of type `want` if it is weak
  // (bare numbers) and `want` is not kInvalid. InvalidArgument is recorded if
  // `want` cannot hold it: 1.5 as an integer, 300 as uint8, 1 as a boolean.
  Output Get(DType want = DType::kInvalid) const;

  Output output;
  Tensor literal;        // Valid exactly if output is null and not missing.
  Status literal_error;  // Why a literal that was given is not valid.
  bool weak = false;     // Bare numbers: take the type of their neighbours.
  SourceLoc loc;
};

// Adds a node to the ambient graph under the ambient scopes. On error records
// it in the graph and returns null. A null input, or one of the scopes' that
// failed, makes it null for the same error. `name` is made unique; "" takes the
// op's.
Node* BuildNode(const std::string& op, std::vector<Output> inputs,
                AttrMap attrs = {}, const std::string& name = "",
                SourceLoc loc = {});
// Its first output; on error null (Output::error tells which).
Output Build(const std::string& op, std::vector<Output> inputs,
             AttrMap attrs = {}, const std::string& name = "",
             SourceLoc loc = CallerLoc());

// The first output of a node that was just built; the failure if it is null.
Output OrFailure(Node* node);

// Records an error of a library function in the ambient graph; null output.
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

// A scalar Tensor of `dtype` with value v, converted as by Cast.
Result<Tensor> ScalarTensor(DType dtype, double v);

// "/job:ps/task:0" with the parts that `spec` lacks taken from `defaults`.
Result<std::string> MergeDevices(const std::string& spec,
                                 const std::string& defaults);

}  // namespace sluice

#endif  // SLUICE_GRAPH_BUILDER_H_
