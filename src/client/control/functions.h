// Functions of a graph: subgraphs that are built once and called from several
// places, including recursively. They are stored in the graph's library
// (ToGraphDef and ImportGraphDef preserve them), and calls are differentiable.
//
//   Function fib = DefineFunction(
//       "fib", {DType::kInt32}, {DType::kInt32},
//       [](const Function& fib, const std::vector<Output>& args) {
//         Output n = args[0];
//         return Cond(n < 2, [&] { return n; },
//                     [&] { return fib({n - 1})[0] + fib({n - 2})[0]; });
//       });
//   Output y = fib({Constant(20)})[0];
//
// Outer values that a body uses (outputs, variables) are captured, as in loops:
// each becomes an additional argument that every call passes automatically.
#ifndef SLUICE_CLIENT_CONTROL_FUNCTIONS_H_
#define SLUICE_CLIENT_CONTROL_FUNCTIONS_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/control/structure.h"
#include "graph/builder.h"

namespace sluice {

class Function;

// The results of a body: one output, or several.
class FunctionResults {
 public:
  FunctionResults(Output o) : outputs(1, o) {}  // NOLINT
  FunctionResults(std::vector<Output> o)        // NOLINT
      : outputs(std::move(o)) {}
  FunctionResults(std::initializer_list<Output> o) : outputs(o) {}
  std::vector<Output> outputs;
};
using FunctionBuilder =
    std::function<FunctionResults(const std::vector<Output>& args)>;
using RecursiveBuilder = std::function<FunctionResults(
    const Function& self, const std::vector<Output>& args)>;

// The results of a call, one output each. An index past the end returns a null
// output, and is recorded as an error of the ambient graph. If the call failed
// before the number of results was known, every index is past the end, and the
// null output has the call's error.
class CallResults : public std::vector<Output> {
 public:
  CallResults(std::vector<Output> outputs, std::string function, SourceLoc loc,
              Output failure = {})
      : std::vector<Output>(std::move(outputs)),
        function_(std::move(function)),
        loc_(loc),
        failure_(failure) {}
  Output operator[](size_t i) const;

 private:
  std::string function_;
  SourceLoc loc_;
  Output failure_;  // Null without a reason if the call did not fail.
};
template <>
struct Structure<CallResults> : Structure<std::vector<Output>> {};

// A name in a graph's library. Cheap to copy. Belongs to the thread that builds
// the graph.
class Function {
 public:
  Function() = default;
  Function(std::string name, bool stateful,
           std::vector<PartialShape> result_shapes = {});

  const std::string& name() const;
  // For attributes of functional ops, whose arguments end with captures().
  FunctionRef ref() const { return FunctionRef{name(), nullptr}; }
  // The outer values that the body uses: outputs of the graph that defined it.
  const std::vector<Output>& captures() const;

  // Calls the function in the ambient graph, which must contain it (the graph
  // that defined it, or the body of another function there). One output per
  // result; null on errors, which are recorded in the graph.
  CallResults operator()(const std::vector<Output>& args,
                         SourceLoc loc = CallerLoc()) const;

 private:
  friend class FunctionDefiner;
  struct State;  // Shared by copies; filled in when the function is defined.
  std::shared_ptr<State> state_;
};

struct FunctionOptions {
  // Known shapes of the arguments; may be shorter than the argument list.
  std::vector<PartialShape> arg_shapes = {};
  // Shapes of the results, for recursive functions: inference cannot see
  // through a call of the function within its own body. Checked after the call
  // has run. May be shorter than the result list.
  std::vector<PartialShape> result_shapes = {};
  // For DeclareFunction: the body will have effects besides its results (such
  // as an assignment). Without this it is determined from the body.
  bool stateful = false;
  // For recursive functions: gradients of calls compute the values of a call
  // again from its arguments, instead of keeping all values of all calls until
  // then. Needs less memory, and time that grows with the depth of the calls.
  bool recompute_in_gradient = false;
  // For recursive functions: whether instances of the same op in different
  // calls, and in loops and functions within, run as one where they can; those
  // of the gradient too. Results are equal within rounding.
  // (SessionOptions::batch_frames asks for it everywhere.)
  bool batch = false;
};

// Defines a function of the ambient graph. `build` is called once and builds
// the body in a graph of its own from the given arguments; other values that it
// uses are captured (for a reference variable its value, which the body cannot
// assign). Names are unique in a graph. Errors are recorded in it; calls then
// return as many null outputs as the function has results.
Function DefineFunction(const std::string& name,
                        const std::vector<DType>& arg_types,
                        const FunctionBuilder& build,
                        const FunctionOptions& options = {},
                        SourceLoc loc = CallerLoc());
// A function that may call itself; its result types are therefore given.
Function DefineFunction(const std::string& name,
                        const std::vector<DType>& arg_types,
                        const std::vector<DType>& result_types,
                        const RecursiveBuilder& build,
                        const FunctionOptions& options = {},
                        SourceLoc loc = CallerLoc());

// Two-step definition, for functions that call each other: declare all of them,
// then define each body. A body may capture values only if no body that calls
// the function has been built yet; afterwards pass them as arguments.
Function DeclareFunction(const std::string& name,
                         const std::vector<DType>& arg_types,
                         const std::vector<DType>& result_types,
                         const FunctionOptions& options = {},
                         SourceLoc loc = CallerLoc());
void DefineBody(const Function& declared, const FunctionBuilder& build,
                const FunctionOptions& options = {},
                SourceLoc loc = CallerLoc());

}  // namespace sluice

#endif  // SLUICE_CLIENT_CONTROL_FUNCTIONS_H_
