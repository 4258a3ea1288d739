#include "client/nn/constraints.h"

#include <algorithm>
#include <cmath>
#include <mutex>

#include "client/control/functions.h"
#include "client/operators.h"
#include "client/types_and_shapes.h"
#include "graph/exact_line.h"
#include "graph/function.h"
#include "sluice/ops.h"

namespace sluice {
namespace {

// string, on a variable: the function that is its constraint. Exports keep it.
constexpr const char* kConstraintAttr = "_constraint";
// Added to norms, so that none is divided by 0.
constexpr double kNormEpsilon = 1e-7;

Output NormsOf(const Output& w, const std::vector<int>& axes) {
  const PartialShape shape = w.shape();
  std::vector<int32_t> over(axes.begin(), axes.end());
  for (const int32_t a : over)
    if (shape.rank_known() && (a < -shape.rank() || a >= shape.rank()))
      return BuildError(InvalidArgument(
          "constraint: expected axes from ", -shape.rank(), " to ",
          shape.rank() - 1, ", got ", a, " for ", shape.ToString()));
  return ops::Sqrt(ops::Sum(ops::Square(w),
                            Constant(Tensor::Vector<int32_t>(over)),
                            {.keep_dims = true}));
}

// `w` with the norms that `wanted` makes of its norms.
template <typename Wanted>
Output WithNorms(const Output& w, const std::vector<int>& axes,
                 const Wanted& wanted) {
  const Output norms = NormsOf(w, axes);
  return w * (wanted(norms) / (norms + kNormEpsilon));
}

const std::string* ConstraintOf(const Var& variable) {
  if (!variable.valid()) return nullptr;
  const AttrValue* const attr =
      variable.handle().node->FindAttr(kConstraintAttr);
  return attr == nullptr ? nullptr : attr->get<std::string>();
}

}  // namespace

Constraint MaxNorm(double max, const std::vector<int>& axes) {
  return [=](const Output& w) {
    if (!std::isfinite(max) || max < 0)
      return BuildError(InvalidArgument(
          "constraint: expected a finite norm of 0 or more, got ", max));
    return WithNorms(
        w, axes, [&](const Output& norms) { return ops::Minimum(norms, max); });
  };
}

Constraint UnitNorm(const std::vector<int>& axes) {
  return [=](const Output& w) { return w / (NormsOf(w, axes) + kNormEpsilon); };
}

Constraint MinMaxNorm(double min, double max, double rate,
                      const std::vector<int>& axes) {
  return [=](const Output& w) {
    if (!std::isfinite(max) || !(min >= 0) || min > max)
      return BuildError(InvalidArgument(
          "constraint: expected finite norms with 0 <= min <= max, got ", min,
          " and ", max));
    if (!(rate >= 0 && rate <= 1))
      return BuildError(
          InvalidArgument("constraint: expected a rate in [0, 1], got ", rate));
    return WithNorms(w, axes, [&](const Output& norms) {
      return rate * ops::Minimum(ops::Maximum(norms, min), max) +
             (1 - rate) * norms;
    });
  };
}

Constraint NonNegative() {
  return [](const Output& w) { return ops::Relu(w); };
}

Status SetConstraint(const Var& variable, const Constraint& constraint,
                     SourceLoc loc) {
  if (!variable.valid() || constraint == nullptr)
    return InvalidArgument("constraint: expected a variable and a constraint, ",
                           "got ",
                           variable.valid() ? "no constraint" : "no variable");
  Graph& g = CurrentGraph();
  const auto wrong = [&](const auto&... what) {
    return WithLine(InvalidArgument("constraint of variable '", variable.name(),
                                    "': expected ", what...),
                    loc);
  };
  if (variable.handle().graph() != &g)
    return wrong("a variable of the current graph, got one of another");
  std::lock_guard<std::recursive_mutex> lock(g.mutex());
  std::string base = variable.name() + "_constraint";
  std::replace(base.begin(), base.end(), '/', '_');
  std::string name = base;
  for (int i = 1; g.function_library().FindOp(name) != nullptr; ++i)
    name = absl::StrCat(base, "_", i);
  const DType t = variable.dtype();
  PartialShape shape;
  // In a graph of its own, from which the functions are taken once all is well:
  // one that is refused leaves nothing. What is around it is of another graph
  // there, which is an error.
  Graph apart;
  FunctionLibrary& library = apart.function_library();
  for (const auto& [known, bytes] : g.functions())
    SLUICE_RETURN_IF_ERROR(library.Define(known, bytes));
  {
    const WithGraph use(apart);
    DefineFunction(
        name, {t},
        [&](const std::vector<Output>& args) -> FunctionResults {
          const Output value = constraint(args[0]);
          if (value.valid()) shape = value.shape();
          return value;
        },
        {.arg_shapes = {variable.shape()}}, loc);
  }
  if (!apart.status().ok())
    return Annotate(apart.status(), absl::StrCat("constraint of variable '",
                                                 variable.name(), "'"));
  std::vector<DType> takes, gives;
  SLUICE_RETURN_IF_ERROR(
      library.Signature(FunctionRef{name, nullptr}, &takes, &gives));
  if (gives != std::vector<DType>{t} || !shape.CompatibleWith(variable.shape()))
    return wrong("a value of type and shape ", DTypeName(t),
                 variable.shape().ToString(), ", got ",
                 gives.empty() ? "none" : DTypeName(gives[0]),
                 shape.ToString());
  for (const auto& [defined, bytes] : library.defs())
    SLUICE_RETURN_IF_ERROR(g.function_library().Define(defined, bytes));
  g.SetAttr(variable.handle().node, kConstraintAttr, name);
  return OkStatus();
}

bool HasConstraint(const Var& variable) {
  return ConstraintOf(variable) != nullptr;
}

Node* ApplyConstraint(const Var& variable, SourceLoc loc) {
  const std::string* const name = ConstraintOf(variable);
  if (name == nullptr) return nullptr;
  const AtLine at(loc);
  const OpDef* const op = CurrentGraph().function_library().FindOp(*name);
  const Function function(*name, op != nullptr && op->stateful);
  const ColocateWith same_device(variable.handle().node);
  return variable.Assign(function({variable.Read(loc)}, loc)[0], loc);
}

}  // namespace sluice
