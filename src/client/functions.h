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
#ifndef SLUICE_CLIENT_FUNCTIONS_H_
#define SLUICE_CLIENT_FUNCTIONS_H_

#include <functional>
#include <string>
#include <utility>
#include <vector>

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

// A name in a graph's library. Cheap to copy.
class Function {
 public:
  Function() = default;
  Function(std::string name, bool stateful,
           std::vector<PartialShape> result_shapes = {})
      : name_(std::move(name)),
        stateful_(stateful),
        result_shapes_(std::move(result_shapes)) {}

  const std::string& name() const { return name_; }
  // For attributes of functional ops.
  FunctionRef ref() const { return FunctionRef{name_, nullptr}; }

  // Calls it in the ambient graph, which must have it (the graph where it was
  // defined, or the body of another function there). One output per result;
  // null on errors, which are recorded in the graph.
  std::vector<Output> operator()(const std::vector<Output>& args,
                                 SourceLoc loc = CallerLoc()) const;

 private:
  std::string name_;
  bool stateful_ = false;
  std::vector<PartialShape> result_shapes_;
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
// its own, once, from the arguments it is given: whatever else it uses must be
// an argument too. Names are unique in a graph; errors are recorded in it.
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
// its body.
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
