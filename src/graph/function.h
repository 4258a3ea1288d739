// Functions: named graphs with arguments and results, as in TensorFlow's
// graphs. A FunctionDef is kept serialised, as it was received. What calls need
// is made from it on demand: its signature as an op, and its body as a graph
// (one for each choice of attributes, if it is polymorphic).
#ifndef SLUICE_GRAPH_FUNCTION_H_
#define SLUICE_GRAPH_FUNCTION_H_

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace sluice {

// Attributes of an argument (TellVariable): lists of one element.
inline constexpr char kHandleTypes[] = "_handle_dtypes";
inline constexpr char kHandleShapes[] = "_handle_shapes";

// What a frame or an inlined body computes: a function f(x...) -> y..., or one
// that is made from it.
enum class FunctionPart : uint8_t {
  kBody,      // f.
  kGradient,  // (x..., dy...) -> dx...
  // The gradient in two parts (graph/gradient_parts.h), so that calls compute
  // nothing twice:
  kSaving,     // (x...) -> y..., saved.
  kFromSaved,  // (saved, dy...) -> dx...
};

// A flag among a FunctionDef's attributes.
inline constexpr char kRecomputeAttr[] = "_recompute_in_gradient";

// A function with its attributes bound. Immutable once made; owned by its
// library, which outlives all readers.
struct FunctionBody {
  FunctionRef ref;
  std::unique_ptr<Graph> graph;
  std::vector<Node*> args;  // _Arg nodes, by index.
  std::vector<Output> results;
  std::vector<Node*> control_results;  // Run whenever the function does.
  // All args and what the results need, in topological order.
  std::vector<const Node*> order;
  // In the gradient of a function: the function's own results and control
  // results, which the body computes too.
  std::vector<Output> forward_results;
  std::vector<Node*> forward_effects;

  std::vector<DType> arg_types() const;
  std::vector<DType> result_types() const;
};

// The type and shape of a variable whose handle is an argument, stored in
// TensorFlow's attributes, which a FunctionDef keeps. A type of kInvalid means
// unknown.
void TellVariable(Graph* graph, Node* arg, DType dtype,
                  const PartialShape& shape);
DType ToldVariableType(const Node& arg);
PartialShape ToldVariableShape(const Node& arg);

// FindEffects fills in control_results with the nodes that have side effects;
// FindOrder fills in order.
void FindEffects(FunctionBody* body);
Status FindOrder(FunctionBody* body);
// The nodes that these need, inputs first.
Result<std::vector<const Node*>> OrderOf(
    const Graph& graph, const std::vector<Node*>& args,
    const std::vector<Output>& results,
    const std::vector<Node*>& control_results);

// Adds control edges to a graph that becomes a function body, so that side
// effects happen in the order in which nodes were created: each use of a
// resource waits for the previous one, and each other visible effect for the
// previous visible effect. Loops and branches are ordered as single nodes, and
// so are the nodes within each.
Status OrderEffects(Graph* graph);

// The functions of one graph, shared with the graphs that passes make from it.
// Guarded by that graph's mutex.
class FunctionLibrary {
 public:
  FunctionLibrary();
  ~FunctionLibrary();
  FunctionLibrary(const FunctionLibrary&) = delete;

  // Serialised FunctionDefs, by name.
  const std::map<std::string, std::string>& defs() const { return defs_; }
  // Adds a function, or replaces one that was only declared (its results have
  // no sources). InvalidArgument if a different one of that name exists.
  Status Define(const std::string& name, std::string bytes);
  // Maps a function's name to the function that computes its gradient.
  std::map<std::string, std::string>& gradients() { return gradients_; }
  const std::map<std::string, std::string>& gradients() const {
    return gradients_;
  }

  // The signature of a function as an op, for nodes that call it by its name;
  // null if there is no such function. Lives as long as the library.
  const OpDef* FindOp(std::string_view name);
  // The op, or the function, or NotFound with the nearest names.
  Result<const OpDef*> LookupOp(std::string_view name);

  // The body of a function, made once; the name of an op stands for a function
  // that consists of one node of it. NotFound with the nearest names; other
  // errors if the body is malformed.
  Result<const FunctionBody*> Instantiate(const FunctionRef& ref);
  // The gradient of a function f(x...) -> y...: g(x..., dy...) -> dx..., as
  // registered for it in the library, else built from its body.
  // Unimplemented where nothing can build one.
  Result<const FunctionBody*> InstantiateGradient(const FunctionRef& ref);

  // Any part. The errors are those of Instantiate and InstantiateGradient.
  Result<const FunctionBody*> InstantiatePart(const FunctionRef& ref,
                                              FunctionPart part);

  // Types of arguments and results, without a body. Errors as Instantiate.
  Status Signature(const FunctionRef& ref, std::vector<DType>* args,
                   std::vector<DType>* results);
  // "f(x: float[2], n: int32) -> (float)", for messages, without the last
  // `captured` arguments, which a call adds by itself.
  std::string Describe(const FunctionRef& ref, size_t captured = 0);
  // Checks that a function can be called with these non-null arguments: their
  // number and types are as declared, and their shapes compatible with what is
  // known about the declared ones. Errors as Instantiate; they leave out the
  // last `captured` arguments, which the caller did not write.
  Status CheckArguments(const FunctionRef& ref, const std::vector<Output>& args,
                        size_t captured = 0);
  // Shapes of the results, given those of the arguments; unknown if the body
  // cannot be made, or is being made.
  std::vector<PartialShape> ResultShapes(const FunctionRef& ref,
                                         const std::vector<PartialShape>& args,
                                         size_t num_results);
  // A copy of `s` that lives as long as the library.
  const char* Intern(const std::string& s);
  // True if gradients of calls compute the function again instead of saving
  // its values (kRecomputeAttr).
  bool RecomputesInGradient(const std::string& name) const;
  // True if the function may call itself, directly or indirectly.
  bool IsRecursive(const std::string& name);

  // Maximum nesting of bodies: each makes the next one recursively on the
  // stack.
  static constexpr int kMaxNesting = 200;

 private:
  struct Cache;
  Result<std::unique_ptr<FunctionBody>> Make(const FunctionRef& ref);
  Result<std::unique_ptr<FunctionBody>> MakeOfOp(const OpDef& op,
                                                 const FunctionRef& ref);
  Status MakeGradientParts(const FunctionRef& ref);
  const std::set<std::string>& Callees(const std::string& name);
  Result<std::vector<PartialShape>> ArgShapes(const FunctionRef& ref);

  std::map<std::string, std::string> defs_, gradients_;
  std::set<std::string> interned_;
  std::unique_ptr<Cache> cache_;
};

// A non-owning pointer for a body's graph, which its library owns.
std::shared_ptr<FunctionLibrary> Unowned(FunctionLibrary* library);

// The function whose gradient `ref` is, as {SymbolicGradient, f}; else null.
const FunctionRef* DifferentiatedBy(const FunctionRef& ref);

// Calls `fn` for every function that an attribute names, including those in the
// attributes of these.
void ForEachFunction(const AttrValue& v,
                     const std::function<void(const FunctionRef&)>& fn);

// Builds the gradient of a body in out->graph, which is empty; out->ref is set,
// and the builder fills in the rest. Installed by the client, which implements
// gradients.
using GradientBuilder = Status (*)(const FunctionBody& body, FunctionBody* out);
void SetGradientBuilder(GradientBuilder builder);

// ---- Functional nodes -------------------------------------------------------

// What a functional node does: which functions, with which arguments.
enum class CallKind : uint8_t {
  kNone,           // Not a functional node.
  kCall,           // PartitionedCall, a function by its own name, RemoteCall.
  kGradient,       // SymbolicGradient.
  kSavingCall,     // SavingCall: a call that saves values for its gradient.
  kSavedGradient,  // SavedGradient: its gradient.
  kIf,
  kCase,
  kWhile,
  kFor,
};
CallKind KindOfCall(const Node& n);
// The function that a kCall calls; its first argument's input.
FunctionRef CalledFunction(const Node& n, int* first_arg);

// Checks that the functions of a functional node exist and fit its types.
Status CheckCall(const Node& n);
// What is known about the results' shapes, given those of the inputs.
std::vector<PartialShape> CallShapes(const Node& n,
                                     const std::vector<PartialShape>& inputs);

}  // namespace sluice

#endif  // SLUICE_GRAPH_FUNCTION_H_
