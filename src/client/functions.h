// Functions of a graph: parts that are built once and called wherever they are
// needed, also by themselves. They live in the graph's library (ToGraphDef and
// ImportGraphDef carry them), and calls are differentiable.
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
// What a body uses from outside (outputs, variables) is captured, as in loops:
// it becomes a further argument, which every call adds by itself.
#ifndef SLUICE_CLIENT_FUNCTIONS_H_
#define SLUICE_CLIENT_FUNCTIONS_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/structure.h"
#include "graph/builder.h"

namespace sluice {

class Function;

// What a body gives: one output, or several.
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

// What a call gives, one output per result. An index past the end gives a null
// output, and is recorded as an error of the ambient graph; of a call that
// failed before it was known how many results there are, any index is past the
// end, and the null output tells why the call failed.
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
  // What the body uses from outside: outputs of the graph where it was defined.
  const std::vector<Output>& captures() const;

  // Calls it in the ambient graph, which must have it (the graph where it was
  // defined, or the body of another function there). One output per result;
  // null on errors, which are recorded in the graph.
  CallResults operator()(const std::vector<Output>& args,
                         SourceLoc loc = CallerLoc()) const;

 private:
  friend class FunctionDefiner;
  struct State;  // Shared by copies: what is known once it is defined.
  std::shared_ptr<State> state_;
};

struct FunctionOptions {
  // What is known of the arguments' shapes beforehand; may be short.
  std::vector<PartialShape> arg_shapes = {};
  // What the results' shapes will be: inference does not see through a call of
  // a function by itself. Checked when the call has run. May be short.
  std::vector<PartialShape> result_shapes = {};
  // Says beforehand that a declared function will have effects beside its
  // results (an assignment). Found out from the body otherwise.
  bool stateful = false;
};

// Defines a function of the ambient graph. `build` makes the body in a graph of
// its own, once, from the arguments it is given; what else it uses is captured
// (a reference variable: its value, which the body cannot assign). Names are
// unique in a graph; errors are recorded in it, and calls give as many null
// outputs as the function has results.
Function DefineFunction(const std::string& name,
                        const std::vector<DType>& arg_types,
                        const FunctionBuilder& build,
                        const FunctionOptions& options = {},
                        SourceLoc loc = CallerLoc());
// A function that may call itself: so its results' types are said beforehand.
Function DefineFunction(const std::string& name,
                        const std::vector<DType>& arg_types,
                        const std::vector<DType>& result_types,
                        const RecursiveBuilder& build,
                        const FunctionOptions& options = {},
                        SourceLoc loc = CallerLoc());

// In two steps, for functions that call each other: declare all, then give each
// its body. A body may capture only if no other body calls its function yet;
// else what it uses must be an argument.
Function DeclareFunction(const std::string& name,
                         const std::vector<DType>& arg_types,
                         const std::vector<DType>& result_types,
                         const FunctionOptions& options = {},
                         SourceLoc loc = CallerLoc());
void DefineBody(const Function& declared, const FunctionBuilder& build,
                const FunctionOptions& options = {},
                SourceLoc loc = CallerLoc());

}  // namespace sluice

#endif  // SLUICE_CLIENT_FUNCTIONS_H_
