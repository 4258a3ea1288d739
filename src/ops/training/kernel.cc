#include "ops/training/kernel.h"

#include <algorithm>
#include <deque>
#include <mutex>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "graph/op_def.h"

namespace sluice::training {
namespace {

// Locks variables[k..] and then runs fn.
Status Hold(const std::vector<std::pair<Variable*, int>>& variables, size_t k,
            Writes writes, Values* values,
            absl::FunctionRef<Status(const Values&)> fn) {
  if (k == variables.size()) return fn(*values);
  const auto go_on = [&](const Tensor& from, Tensor& to) {
    const auto i = static_cast<size_t>(variables[k].second);
    values->from[i] = &from;
    values->to[i] = &to;
    return Hold(variables, k + 1, writes, values, fn);
  };
  if (writes == Writes::kAll) return variables[k].first->Rewrite(go_on);
  return variables[k].first->Update([&](Tensor& t) { return go_on(t, t); });
}

}  // namespace

Layout::Layout(const Node& n) {
  const std::vector<ArgDef>& args = n.op().inputs;
  for (int i = 0; i < static_cast<int>(args.size()); ++i) {
    const ArgDef& a = args[static_cast<size_t>(i)];
    if (a.is_ref || a.type == DType::kResource) continue;
    if (a.name == "grad" || a.name == "delta") {
      grad = i;
    } else if (a.name == "indices") {
      indices = i;
    } else if (a.name == "global_step") {
      global_step = i;
    } else {
      scalars.push_back(i);
    }
  }
  options.use_nesterov = n.BoolAttr("use_nesterov");
  options.update_slots = n.AttrOr<bool>("update_slots", true);
  options.multiply_linear_by_lr = n.BoolAttr("multiply_linear_by_lr");
  options.lazy = n.BoolAttr("lazy");
}

Status UpdateTogether(KernelContext& ctx, int count, DType dtype, Writes writes,
                      absl::FunctionRef<Status(const Values&)> fn) {
  std::vector<std::pair<Variable*, int>> variables;
  for (int i = 0; i < count; ++i) {
    SLUICE_ASSIGN_OR_RETURN(Variable * v, state::VariableInput(ctx, i, dtype));
    variables.emplace_back(v, i);
  }
  // Ops that lock several variables lock them in address order, to avoid
  // deadlock.
  std::sort(variables.begin(), variables.end());
  for (size_t i = 1; i < variables.size(); ++i)
    if (variables[i].first == variables[i - 1].first)
      return InvalidArgument("variables: expected different ones, got '",
                             variables[i].first->name(), "' twice");
  Values values{};
  SLUICE_RETURN_IF_ERROR(state::OfUse(
      ctx,
      Hold(variables, 0, writes, &values, [&](const Values& held) -> Status {
        const Shape& first = held.from[0]->shape();
        for (int i = 1; i < count; ++i) {
          const Shape& slot = held.from[static_cast<size_t>(i)]->shape();
          if (!(slot == first))
            return InvalidArgument(
                ctx.node().op().inputs[static_cast<size_t>(i)].name,
                ": expected the shape of the variable, ", first.ToString(),
                ", got ", slot.ToString());
        }
        return fn(held);
      })));
  state::ForwardReference(ctx);
  return OkStatus();
}

Status CheckGradient(const KernelContext& ctx, const Layout& layout,
                     const Shape& variable) {
  const Shape& grad = ctx.input(layout.grad).shape();
  if (layout.indices < 0) {
    if (!(grad == variable))
      return InvalidArgument("grad: expected the shape of the variable, ",
                             variable.ToString(), ", got ", grad.ToString());
    return OkStatus();
  }
  const Shape& indices = ctx.input(layout.indices).shape();
  if (variable.rank() == 0)
    return InvalidArgument("variable: expected rank at least 1, got a scalar");
  if (indices.rank() != 1)
    return InvalidArgument("indices: expected a vector, got shape ",
                           indices.ToString());
  Dims expected(variable.dims().begin(), variable.dims().end());
  expected[0] = indices.dim(0);
  if (!std::equal(expected.begin(), expected.end(), grad.dims().begin(),
                  grad.dims().end()))
    return InvalidArgument(
        "grad: expected a row for each index, ",
        PartialShape({expected.data(), expected.size()}).ToString(), ", got ",
        grad.ToString());
  return OkStatus();
}

Result<std::vector<int64_t>> RowIndices(const Tensor& indices, int64_t rows) {
  std::vector<int64_t> out = state::ToInt64s(indices);
  for (size_t i = 0; i < out.size(); ++i)
    if (out[i] < 0 || out[i] >= rows)
      return InvalidArgument("Index ", out[i], " at offset ", i,
                             " in indices is out of range: expected [0, ", rows,
                             ")");
  return out;
}

// ---- Declarations -----------------------------------------------------------

namespace {

Status TrainingShape(ShapeContext& c) {
  const std::vector<ArgDef>& args = c.node().op().inputs;
  const bool sparse = c.node().op().FindAttr("Tindices") != nullptr;
  PartialShape variable = state::VariableShapeOf(c, 0);
  PartialShape indices;
  for (int i = 0; i < c.num_inputs(); ++i) {
    const ArgDef& a = args[static_cast<size_t>(i)];
    if (a.is_ref || a.type == DType::kResource) {
      SLUICE_ASSIGN_OR_RETURN(variable,
                              variable.MergeWith(state::VariableShapeOf(c, i)));
    } else if (a.name == "indices") {
      SLUICE_ASSIGN_OR_RETURN(indices, c.WithRank(i, 1));
    } else if (a.name != "grad" && a.name != "delta") {
      SLUICE_RETURN_IF_ERROR(c.RequireScalar(i));
    } else if (!sparse) {
      SLUICE_ASSIGN_OR_RETURN(variable, variable.MergeWith(c.input(i)));
    } else {
      SLUICE_ASSIGN_OR_RETURN(PartialShape rows, c.WithRankAtLeast(i, 1));
      PartialShape any = variable;
      if (any.rank() > 0) any.set_dim(0, -1);
      SLUICE_RETURN_IF_ERROR(rows.MergeWith(any).status());
    }
  }
  if (c.num_outputs() > 0) c.set_output(0, std::move(variable));
  return OkStatus();
}

// A string that is never freed, as declarations need.
const char* Keep(std::string s) {
  static std::deque<std::string>* kept = new std::deque<std::string>();
  return kept->emplace_back(std::move(s)).c_str();
}

std::string InputSpec(const std::string& name) {
  if (name == "indices") return "indices: Tindices";
  if (name == "global_step") return "global_step: int64";
  return name + ": T";
}

OpDefBuilder Build(const Declaration& d, bool resource) {
  OpDefBuilder b(resource ? Keep(absl::StrCat("Resource", d.name)) : d.name);
  bool sparse = false;
  for (const std::string& v : std::vector<std::string>(
           absl::StrSplit(d.variables, ' ', absl::SkipEmpty())))
    b.Input(Keep(v + (resource ? ": resource" : ": Ref(T)")));
  for (const std::string& i : std::vector<std::string>(
           absl::StrSplit(d.inputs, ' ', absl::SkipEmpty()))) {
    b.Input(Keep(InputSpec(i)));
    sparse = sparse || i == "indices";
  }
  if (!resource) b.Output("out: Ref(T)");
  b.Attr("T: numbertype");
  if (sparse) b.Attr("Tindices: {int32, int64}");
  b.Attr("use_locking: bool = false");
  for (const std::string& o : std::vector<std::string>(
           absl::StrSplit(d.options, ' ', absl::SkipEmpty())))
    b.Attr(Keep(o + ": bool = " + (o == "update_slots" ? "true" : "false")));
  if (resource) b.Stateful();
  b.Family("training")
      .Shape(TrainingShape)
      .Kernel(d.kernel)
      .NoGradient(state::kUpdates)
      .Doc(d.doc);
  return b;
}

}  // namespace

bool Declare(const std::vector<Declaration>& ops) {
  for (const Declaration& d : ops) {
    if (!d.resource_only) (void)OpRegistrar(Build(d, /*resource=*/false));
    (void)OpRegistrar(Build(d, /*resource=*/true));
  }
  return true;
}

}  // namespace sluice::training
