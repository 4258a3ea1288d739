// Op declarations. One declaration holds an op's signature, shape function,
// kernels, gradient, sample inputs and documentation; everything else (C++
// builders, reference, conformance tests) is derived from the registry.
//
//   SLUICE_OP(Twice)
//       .Input("x: T")
//       .Output("y: T")
//       .Attr("T: {float, double} = DT_FLOAT")
//       .Shape(UnchangedShape)
//       .Kernel(CpuFor<TwiceKernel, float, double>("T"))  // exec/core/kernel.h
//       .Grad(TwiceGrad)
//       .Sample({{.shape = {2, 3}}})
//       .Doc("2 x, elementwise.");
#ifndef SLUICE_GRAPH_OP_DEF_H_
#define SLUICE_GRAPH_OP_DEF_H_

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/attr.h"
#include "graph/op_traits.h"

namespace sluice {

class Node;
class ShapeContext;  // graph/shape_context.h
struct GradContext;  // graph/grad.h
struct Kernel;       // exec/core/kernel.h

using ShapeFn = Status (*)(ShapeContext&);
// Builds an op's gradient in the ambient graph.
using GradFn = Status (*)(GradContext&);
// Fills in the kernel for a node, or returns an error if there is none (an
// unsupported dtype, an invalid attribute).
using KernelMaker = std::function<Status(const Node&, Kernel*)>;
// The host access of a node, as words that follow "which": "reads a file".
// Empty: none.
using HostReachFn = std::string (*)(const Node&);

// One input or output, or a sequence of them.
struct ArgDef {
  std::string name;
  DType type = DType::kInvalid;  // Fixed, or determined by one of:
  std::string type_attr;         // "T": the type of every element.
  std::string type_list_attr;    // "Tin": a list of types, one per element.
  std::string number_attr;       // "N": that many elements.
  bool is_ref = false;
  bool on_host = false;  // An input; see OpDefBuilder::HostInput.
};

struct AttrDef {
  std::string name;
  AttrKind kind = AttrKind::kNone;
  bool is_list = false;
  std::optional<AttrValue> default_value;
  std::vector<DType> allowed_types;          // Empty: any.
  std::vector<std::string> allowed_strings;  // Empty: any.
  std::optional<int64_t> minimum;            // Value of an int, size of a list.
};

// Inputs on which the conformance tests run an op.
struct SampleInput {
  Dims shape = {};
  std::vector<double> values = {};  // Empty: drawn from [low, high).
  double low = -1, high = 1;
  DType dtype = DType::kInvalid;  // kInvalid: as in the signature.
};
struct OpSample {
  std::vector<SampleInput> inputs;
  AttrMap attrs = {};
};

// Immutable once registered; lives for the whole process.
struct OpDef {
  std::string name;
  std::vector<ArgDef> inputs, outputs;
  std::vector<AttrDef> attrs;
  OpRole role = OpRole::kCompute;
  OpKind kind = OpKind::kOther;
  OpFacts facts;
  // TensorFlow's flag, which is exported with the graph's ops and functions and
  // shown. Passes ask for `facts`.
  bool stateful = false;
  bool commutative = false;
  // Makes or forwards tensors without touching their elements, so that the run
  // takes no time on a device with its own memory.
  bool touches_no_elements = false;
  // Has no kernel on devices with their own memory: it prints, or formats data.
  bool host_only = false;
  // Accepts a reference to a variable that has no value yet.
  bool allows_uninitialized_input = false;
  // Set for an op that accesses the files, functions or environment of the
  // process that runs it. A task runs such a node for other processes only if
  // it was started with that permission (docs/clusters.md), and the node is
  // never folded. Null: the op accesses only its inputs and the state of
  // sessions.
  HostReachFn host_reach = nullptr;
  // Declared by the library, whose tests cover it. The results of the functions
  // of all other ops are checked on every run.
  bool own = false;
  ShapeFn shape = nullptr;
  KernelMaker kernel;
  GradFn grad = nullptr;
  std::string no_grad_reason;  // Why `grad` is null.
  std::vector<OpSample> samples;
  std::string doc;     // One sentence.
  std::string family;  // As in the op reference: "math", "state".

  const AttrDef* FindAttr(std::string_view attr) const;
  // "AddV2(x: T, y: T) -> (z: T)", with attributes.
  std::string Signature() const;
};

// The type of each tensor that the arguments stand for, given the attributes.
Result<std::vector<DType>> TypesOf(const std::vector<ArgDef>& args,
                                   const AttrMap& attrs);

// Fluent construction, in the syntax of TensorFlow's REGISTER_OP. Strings are
// parsed when the op is first looked up. A mistake aborts then if the op is the
// library's own; for any other op the look-up fails.
class OpDefBuilder {
 public:
  explicit OpDefBuilder(const char* name) { def_.name = name; }
  // "x: T", "values: N * T", "components: Tcomponents", "ref: Ref(T)".
  OpDefBuilder& Input(const char* spec) {
    inputs_.push_back(spec);
    return *this;
  }
  OpDefBuilder& Output(const char* spec) {
    outputs_.push_back(spec);
    return *this;
  }
  // "T: {float, double} = DT_FLOAT", "N: int >= 1", "padding:
  // {'SAME','VALID'}", "shape: shape = { unknown_rank: true }", "T:
  // numbertype", "dims: list(int)".
  OpDefBuilder& Attr(const char* spec) {
    attrs_.push_back(spec);
    return *this;
  }
  OpDefBuilder& Role(OpRole role) {
    def_.role = role;
    return *this;
  }
  OpDefBuilder& Kind(OpKind kind) {
    def_.kind = kind;
    return *this;
  }
  // TensorFlow calls the op stateful; `facts` say in which sense.
  OpDefBuilder& Stateful(OpFacts facts = kUsesState) {
    def_.stateful = true;
    facts.waits |= def_.facts.waits;
    def_.facts = facts;
    return *this;
  }
  OpDefBuilder& Waits() {
    def_.facts.waits = true;
    return *this;
  }
  OpDefBuilder& Commutative() {
    def_.commutative = true;
    return *this;
  }
  OpDefBuilder& AllowsUninitializedInput() {
    def_.allows_uninitialized_input = true;
    return *this;
  }
  // The input argument of this name holds sizes, positions or axes, which a
  // kernel on a device takes from host memory with its launch.
  OpDefBuilder& HostInput(const char* name) {
    host_inputs_.push_back(name);
    return *this;
  }
  OpDefBuilder& TouchesNoElements() {
    def_.touches_no_elements = true;
    return *this;
  }
  OpDefBuilder& HostOnly() {
    def_.host_only = true;
    return *this;
  }
  // Required for every op that accesses files, functions or the environment of
  // the process.
  OpDefBuilder& ReachesHost(HostReachFn fn) {
    def_.host_reach = fn;
    return *this;
  }
  OpDefBuilder& Shape(ShapeFn fn) {
    def_.shape = fn;
    return *this;
  }
  OpDefBuilder& Kernel(KernelMaker maker) {
    def_.kernel = std::move(maker);
    return *this;
  }
  OpDefBuilder& Grad(GradFn fn) {
    def_.grad = fn;
    return *this;
  }
  // No input has a gradient, by the nature of the op.
  OpDefBuilder& NoGradient(const char* why) {
    def_.no_grad_reason = why;
    return *this;
  }
  // May be repeated.
  OpDefBuilder& Sample(std::vector<SampleInput> inputs, AttrMap attrs = {}) {
    def_.samples.push_back({std::move(inputs), std::move(attrs)});
    return *this;
  }
  OpDefBuilder& Doc(const char* doc) {
    def_.doc = doc;
    return *this;
  }
  OpDefBuilder& Family(const char* f) {
    def_.family = f;
    return *this;
  }
  OpDefBuilder& Own() {
    def_.own = true;
    return *this;
  }

  const std::string& name() const { return def_.name; }
  bool own() const { return def_.own; }
  Result<OpDef> Finish() const;

 private:
  OpDef def_;
  std::vector<const char*> inputs_, outputs_, attrs_, host_inputs_;
};

// All ops of the process. Filled by static initialisers; an op is immutable
// after its first look-up. Thread-safe.
class OpRegistry {
 public:
  static OpRegistry* Global();
  // A duplicate name is reported by Lookup and LoadOpLibrary. (It aborts if
  // both ops are the library's own.)
  void Register(OpDefBuilder builder);
  // Null if there is no such op, or its declaration is invalid. If there are
  // several, the first.
  const OpDef* Find(std::string_view name) const;
  // NotFound, with the nearest names; InvalidArgument if the declaration is
  // invalid; AlreadyExists if it is declared more than once.
  Result<const OpDef*> Lookup(std::string_view name) const;
  // Sorted by name.
  std::vector<const OpDef*> All() const;

 private:
  struct State;
  OpRegistry();
  State* state_;
};

// The names in `candidates` nearest to `name` by edit distance, best first.
std::vector<std::string> NearestNames(
    std::string_view name, const std::vector<std::string>& candidates,
    size_t max_names = 3);

// A static object that registers an op from its declaration.
struct OpRegistrarOfProgram {
  OpRegistrarOfProgram(const OpDefBuilder& b) {  // NOLINT: converts one.
    OpRegistry::Global()->Register(b);
  }
};
struct OpRegistrarOfLibrary {
  OpRegistrarOfLibrary(OpDefBuilder b) {  // NOLINT: converts one.
    OpRegistry::Global()->Register(b.Own());
  }
};
// Defined while the library's own ops are compiled, and nowhere else.
#ifdef SLUICE_OWN_OPS
using OpRegistrar = OpRegistrarOfLibrary;
#else
using OpRegistrar = OpRegistrarOfProgram;
#endif

}  // namespace sluice

#define SLUICE_OP(Name)                                                  \
  [[maybe_unused]] static const ::sluice::OpRegistrar sluice_op_##Name = \
      ::sluice::OpDefBuilder(#Name)

#endif  // SLUICE_GRAPH_OP_DEF_H_
