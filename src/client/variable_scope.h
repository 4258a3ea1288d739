// Variable scopes: how parts of a model name and share their variables.
//
//   const auto model = [](Output x) {
//     const VariableScope scope("model", {.reuse = Reuse::kAuto});
//     Var w = GetVariable("w", {4, 2});  // Always the same "model/w".
//     return ops::MatMul(x, w);
//   };
//   Output training = model(examples), evaluation = model(tests);
//
// Names are those of TensorFlow's variable scopes, so that checkpoints fit:
// layers (client/nn/layers.h), recurrent networks and cells (client/nn/rnn.h)
// open scopes of their own within one. Name scopes have no effect on the names
// of a variable scope's variables.
#ifndef SLUICE_CLIENT_VARIABLE_SCOPE_H_
#define SLUICE_CLIENT_VARIABLE_SCOPE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "client/partitioned_variables.h"
#include "client/variables.h"

namespace sluice {

// Whether a variable that GetVariable is asked for exists already.
enum class Reuse : uint8_t {
  kInherit,  // As in the scope around; kNever in the outermost one.
  kNever,    // It must not.
  kAuto,     // It may: it is made if it does not.
  kAlways,   // It must.
};

// What GetVariable was asked for.
struct VariableRequest {
  std::string name;  // With the scopes: "model/dense/kernel".
  Shape shape;
  InitializerFn initializer;
  DType dtype = DType::kFloat;
  VarOptions options;
};

// Called instead of GetVariable, which is `next`: may change the request, or
// return another variable.
using VariableGetter =
    std::function<Var(const VariableRequest& request,
                      const std::function<Var(const VariableRequest&)>& next)>;

// Null, kInherit and kInvalid: as in the scope around.
struct VariableScopeOptions {
  Reuse reuse = Reuse::kInherit;
  // Defaults of GetVariable.
  InitializerFn initializer = nullptr;
  DType dtype = DType::kInvalid;
  Regularizer regularizer = nullptr;
  // Those of the scopes around are called by its `next`.
  VariableGetter getter = nullptr;
  // The default of GetPartitionedVariable. (GetVariable makes whole variables.)
  VariablePartitioner partitioner = nullptr;
  // If another scope of this name was opened in the scope around, this is
  // "name_1", "name_2" and so on. (The count starts again whenever the scope
  // around is opened, so that a model built twice names its layers alike.)
  bool unique = false;
};

// RAII scope in which GetVariable's variables, of the ambient graph, are called
// "outer/name/...", also in the bodies of functions that are defined in it. New
// nodes get a name scope of the same name, which is made unique. An empty name
// changes only the options. Scopes nest, belong to one thread, and must be
// destroyed in reverse order (make them local variables).
class VariableScope {
 public:
  explicit VariableScope(const std::string& name,
                         VariableScopeOptions options = {});
  ~VariableScope();
  VariableScope(const VariableScope&) = delete;

  // "outer/name", after which its variables are named; "" if all names around
  // are empty.
  const std::string& name() const { return name_; }
  // Not kInherit.
  Reuse reuse() const { return options_.reuse; }
  const VariablePartitioner& partitioner() const {
    return options_.partitioner;
  }

  // For GetVariable: completes the name and what the request leaves open; calls
  // the getters, the innermost first, around `make`. A getter that returns a
  // null variable without an error is one, InvalidArgument.
  void FillIn(VariableRequest* request) const;
  Var Get(const VariableRequest& request,
          const std::function<Var(const VariableRequest&)>& make,
          SourceLoc loc = CallerLoc()) const;

 private:
  Graph* const graph_;                 // Not a function's body.
  const VariableScope* const before_;  // Of this thread, of any graph.
  const VariableScope* const outer_;   // Of the same graph; null: none.
  VariableScopeOptions options_;       // With what it inherits.
  std::string name_;
  std::string saved_prefix_;
  std::optional<NameScope> names_;
  // How many scopes of each name were opened in this one.
  mutable std::map<std::string, int> opened_;

  friend const VariableScope* CurrentVariableScope();
};

// The innermost scope of this thread for the ambient graph; null: none.
const VariableScope* CurrentVariableScope();

// The losses of all regularized variables of the ambient graph.
std::vector<Output> RegularizationLosses();
// Their sum, 0 if there are none, of the given floating type; kInvalid: that of
// the first loss, or float. In a function's body it is 0: the losses belong to
// the graph around.
Output RegularizationLoss(DType dtype = DType::kInvalid,
                          SourceLoc loc = CallerLoc());

// The nodes of kUpdateOps in the ambient graph. A training step that runs them:
//   AdamOptimizer adam(1e-3);
//   Node* train = Group({adam.Minimize(loss), Group(UpdateOps())});
std::vector<Node*> UpdateOps();

}  // namespace sluice

#endif  // SLUICE_CLIENT_VARIABLE_SCOPE_H_
