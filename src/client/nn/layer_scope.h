// Of layers: their scopes, variables and inputs. Internal.
#ifndef SLUICE_CLIENT_NN_LAYER_SCOPE_H_
#define SLUICE_CLIENT_NN_LAYER_SCOPE_H_

#include <optional>
#include <string>
#include <vector>

#include "client/nn/constraints.h"
#include "client/variable_scope.h"
#include "graph/builder.h"

namespace sluice {

// RAII scope in which a layer builds: errors have the user's line, and
// variables and nodes are named after it. Lives for the call of the layer.
class LayerScope {
 public:
  // `name`: the user's, or "" for that of the kind of layer, made unique.
  LayerScope(const std::string& name, const char* preset, SourceLoc loc)
      : at_(loc),
        scope_(name.empty() ? preset : name, {.unique = name.empty()}) {}

 private:
  const AtLine at_;
  const VariableScope scope_;
};

// RAII scope of what names its weights after name scopes: within a variable
// scope, whose variables do not see name scopes, it is a variable scope, too.
class WeightScope {
 public:
  // `unique`: see VariableScopeOptions. (Name scopes always are.)
  WeightScope(const std::string& name, bool unique) {
    if (CurrentVariableScope() != nullptr)
      variables_.emplace(name, VariableScopeOptions{.unique = unique});
    else
      names_.emplace(name);
    prefix_ = CurrentNamePrefix();
    if (prefix_.ends_with("/")) prefix_.pop_back();
  }

  // "outer/name", with which the names of nodes begin.
  const std::string& prefix() const { return prefix_; }

 private:
  std::optional<VariableScope> variables_;
  std::optional<NameScope> names_;
  std::string prefix_;
};

struct WeightOptions {
  InitializerFn initializer = nullptr;
  Regularizer regularizer = nullptr;
  bool trainable = true;
  // Of a new variable: one that another layer made keeps its own, or none.
  Constraint constraint = nullptr;
};
// A variable of the layer; null after an error.
Var Weight(const std::string& name, const Shape& shape, DType dtype,
           const WeightOptions& options);

// The input of a layer, bare numbers as floats. Null, with the error recorded,
// unless it has a floating type and a rank in the range.
Output LayerInput(const char* layer, const Operand& x, int min_rank,
                  int max_rank);
// The extent of a dimension (from the end if negative), which has to be known;
// -1, with the error recorded, if it is not. REQUIRES: the dimension exists.
int64_t KnownSize(const char* layer, const Output& x, int axis);
// Whether `size` is positive and small enough for the shapes that layers
// compute; else an error is recorded.
bool PositiveSize(const char* layer, const char* what, int64_t size);
// A shape as an int64 or int32 vector: a constant if it is known, else
// computed. `dims`: sizes, or -1 for that dimension of x. For a Reshape, which
// can infer one size, a single unknown one stays -1.
Output ShapeFrom(const Output& x, const std::vector<int64_t>& dims,
                 bool for_reshape = true);

// Whether a layer builds what only training does: known, or decided in a step.
struct Training {
  bool valid = false;  // Else the error is recorded.
  std::optional<bool> known;
  Output decided;  // A bool scalar, if it is not known.
};
Training ReadTraining(const char* layer, const Operand& training);

}  // namespace sluice

#endif  // SLUICE_CLIENT_NN_LAYER_SCOPE_H_
