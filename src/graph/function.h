// Functions: named graphs with arguments and results, as TensorFlow's graphs
// have them. A FunctionDef is kept as it came, serialised; what a call needs of
// it is made from that on demand: its signature as an op, and its body as a
// graph (for each choice of attributes, if it is polymorphic).
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

// Of an argument (TellVariable): a list of one.
inline constexpr char kHandleTypes[] = "_handle_dtypes";
inline constexpr char kHandleShapes[] = "_handle_shapes";

// A function with its attributes bound. Immutable once made; owned by its
// library, which outlives whoever reads it.
struct FunctionBody {
  FunctionRef ref;
  std::unique_ptr<Graph> graph;
  std::vector<Node*> args;  // _Arg nodes, by index.
  std::vector<Output> results;
  std::vector<Node*> control_results;  // Run whenever the function does.
  // What results and control_results need (and all args), inputs first.
  std::vector<const Node*> order;

  std::vector<DType> arg_types() const;
  std::vector<DType> result_types() const;
};

// What an argument that is a variable's handle tells of the variable, in
// TensorFlow's attributes, which a FunctionDef keeps: its type (kInvalid: it
// tells nothing) and shape.
void TellVariable(Graph* graph, Node* arg, DType dtype,
                  const PartialShape& shape);
DType ToldVariableType(const Node& arg);
PartialShape ToldVariableShape(const Node& arg);

// Fills in control_results with the nodes that do something besides giving
// results, and order.
void FindEffects(FunctionBody* body);
Status FindOrder(FunctionBody* body);

// Adds control edges to a graph that is to be a body, for who expects what its
// nodes do in the order in which they were made: what uses a resource waits for
// what used it before, and what else shows for what showed before. Loops and
// branches do as nodes, and so do the nodes within each.
Status OrderEffects(Graph* graph);

// Of one graph and of the graphs that passes make from it, which share it.
// Guarded by that graph's mutex.
class FunctionLibrary {
 public:
  FunctionLibrary();
  ~FunctionLibrary();
  FunctionLibrary(const FunctionLibrary&) = delete;

  // Serialised FunctionDefs, by name.
  const std::map<std::string, std::string>& defs() const { return defs_; }
  // Adds a function, or replaces one that was only declared (has no results'
  // sources). InvalidArgument if another of that name is there.
  Status Define(const std::string& name, std::string bytes);
  // The function that computes another one's gradient, by that one's name.
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
  // that is one node of it. NotFound with the nearest names; whatever a
  // malformed body calls for.
  Result<const FunctionBody*> Instantiate(const FunctionRef& ref);
  // The gradient of a function f(x...) -> y...: g(x..., dy...) -> dx..., as
  // registered for it in the library, else built from its body.
  // Unimplemented where nothing can build one.
  Result<const FunctionBody*> InstantiateGradient(const FunctionRef& ref);

  // Types of arguments and results, without a body. Errors as Instantiate.
  Status Signature(const FunctionRef& ref, std::vector<DType>* args,
                   std::vector<DType>* results);
  // "f(x: float[2], n: int32) -> (float)", for messages, without the last
  // `captured` arguments, which a call adds by itself.
  std::string Describe(const FunctionRef& ref, size_t captured = 0);
  // Whether a function can be called with these arguments, which are not null:
  // as many as it declares, of those types and of shapes that fit what is known
  // of its own. Errors as Instantiate; they leave out the last `captured`
  // arguments, which the caller did not write.
  Status CheckArguments(const FunctionRef& ref, const std::vector<Output>& args,
                        size_t captured = 0);
  // Shapes of the results for those of the arguments; unknown where the body
  // cannot be made, or is being made.
  std::vector<PartialShape> ResultShapes(const FunctionRef& ref,
                                         const std::vector<PartialShape>& args,
                                         size_t num_results);
  // A copy of `s` that lives as long as the library.
  const char* Intern(const std::string& s);
  // True if the function can come to call itself.
  bool IsRecursive(const std::string& name);

  // How deep bodies may nest: each makes the next one on the stack.
  static constexpr int kMaxNesting = 200;

 private:
  struct Cache;
  Result<std::unique_ptr<FunctionBody>> Make(const FunctionRef& ref);
  Result<std::unique_ptr<FunctionBody>> MakeOfOp(const OpDef& op,
                                                 const FunctionRef& ref);
  const std::set<std::string>& Callees(const std::string& name);
  Result<std::vector<PartialShape>> ArgShapes(const FunctionRef& ref);

  std::map<std::string, std::string> defs_, gradients_;
  std::set<std::string> interned_;
  std::unique_ptr<Cache> cache_;
};

// What a graph may hold of a library. A body's graph does not own its library,
// which owns it.
std::shared_ptr<FunctionLibrary> Unowned(FunctionLibrary* library);

// The function whose gradient `ref` is, as {SymbolicGradient, f}; else null.
const FunctionRef* DifferentiatedBy(const FunctionRef& ref);

// Every function that an attribute names, those within its attributes included.
void ForEachFunction(const AttrValue& v,
                     const std::function<void(const FunctionRef&)>& fn);

// Builds the gradient of a body in `graph`, an empty one: fills in `out`, whose
// ref and graph are set. Installed by the client, which knows gradients.
using GradientBuilder = Status (*)(const FunctionBody& body, FunctionBody* out);
void SetGradientBuilder(GradientBuilder builder);

// ---- Functional nodes -------------------------------------------------------

// What a functional node does: which functions, with which arguments.
enum class CallKind : uint8_t {
  kNone,      // Not a functional node.
  kCall,      // PartitionedCall, a function by its own name, RemoteCall.
  kGradient,  // SymbolicGradient.
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
// What is known of the results' shapes, given those of the inputs.
std::vector<PartialShape> CallShapes(const Node& n,
                                     const std::vector<PartialShape>& inputs);

}  // namespace sluice

#endif  // SLUICE_GRAPH_FUNCTION_H_
