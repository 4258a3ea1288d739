#include "client/variable_scope.h"

#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/body_in_progress.h"
#include "client/types_and_shapes.h"
#include "graph/graph.h"
#include "graph/repeated_names.h"
#include "graph/scope_state.h"
#include "sluice/ops.h"

namespace sluice {
namespace {

thread_local const VariableScope* innermost_variable_scope = nullptr;

// The ambient graph, or if it is a function's body, the graph that holds its
// variables.
Graph* GraphOfVariables() {
  Graph* graph = &CurrentGraph();
  for (const BodyInProgress* b = CurrentBody(); b != nullptr; b = b->outer)
    if (b->body == graph) graph = b->owner;
  return graph;
}

}  // namespace

const VariableScope* CurrentVariableScope() {
  const Graph* const graph = GraphOfVariables();
  const VariableScope* s = innermost_variable_scope;
  while (s != nullptr && s->graph_ != graph) s = s->before_;
  return s;
}

VariableScope::VariableScope(const std::string& name,
                             VariableScopeOptions options)
    : graph_(GraphOfVariables()),
      before_(innermost_variable_scope),
      outer_(CurrentVariableScope()),
      options_(std::move(options)),
      saved_prefix_(CurrentNamePrefix()) {
  Graph& g = *graph_;
  std::lock_guard<std::recursive_mutex> lock(g.mutex());
  std::string local = name;
  if (outer_ == nullptr) {
    if (options_.reuse == Reuse::kInherit) options_.reuse = Reuse::kNever;
    // Without a scope around, the names of the graph say which are in use. The
    // name scope of an outermost name is that of the variables, if it is free.
    const std::string free =
        name.empty() ? name : RepeatedNames::Get("variables " + name, [&] {
          return g.UniqueName(name);
        });
    if (options_.unique) local = free;
    const bool reserved = local == free && !local.empty();
    if (reserved && !RepeatedNames::Repeating()) g.UniqueScope(local);
    if (reserved && saved_prefix_.empty() && &g == &CurrentGraph())
      SetNamePrefix(local + "/");
    else if (!name.empty())
      names_.emplace(name);
    name_ = local;
  } else {
    const VariableScopeOptions& o = outer_->options_;
    if (options_.reuse == Reuse::kInherit) options_.reuse = o.reuse;
    if (options_.initializer == nullptr) options_.initializer = o.initializer;
    if (options_.dtype == DType::kInvalid) options_.dtype = o.dtype;
    if (options_.regularizer == nullptr) options_.regularizer = o.regularizer;
    if (options_.partitioner == nullptr) options_.partitioner = o.partitioner;
    if (options_.unique)
      local = RepeatedNames::Get(
          absl::StrCat("variables ", outer_->name_, "/", name), [&] {
            std::string unique = name;
            for (int i = 1; outer_->opened_[unique] > 0; ++i)
              unique = absl::StrCat(name, "_", i);
            return unique;
          });
    ++outer_->opened_[local];
    if (!name.empty()) names_.emplace(name);
    name_ = outer_->name_.empty() || local.empty()
                ? outer_->name_ + local
                : absl::StrCat(outer_->name_, "/", local);
  }
  innermost_variable_scope = this;
}

VariableScope::~VariableScope() {
  innermost_variable_scope = before_;
  names_.reset();
  SetNamePrefix(saved_prefix_);
}

void VariableScope::FillIn(VariableRequest* r) const {
  if (!name_.empty()) r->name = absl::StrCat(name_, "/", r->name);
  if (r->initializer == nullptr) r->initializer = options_.initializer;
  if (r->dtype == DType::kInvalid) r->dtype = options_.dtype;
  if (r->options.regularizer == nullptr)
    r->options.regularizer = options_.regularizer;
}

Var VariableScope::Get(const VariableRequest& request,
                       const std::function<Var(const VariableRequest&)>& make,
                       SourceLoc loc) const {
  const std::function<Var(const VariableRequest&)> next =
      outer_ == nullptr ? make : [&](const VariableRequest& r) {
        return outer_->Get(r, make, loc);
      };
  if (options_.getter == nullptr) return next(request);
  Var got = options_.getter(request, next);
  if (got.valid() || CurrentGraph().ErrorOf(got.handle()) != nullptr)
    return got;
  return Var::FromHandle(
      BuildError(InvalidArgument("getter of variable scope '", name_,
                                 "': expected a variable, got none; variable '",
                                 request.name, "'"),
                 loc));
}

std::vector<Output> RegularizationLosses() {
  Graph& g = CurrentGraph();
  std::lock_guard<std::recursive_mutex> lock(g.mutex());
  const auto it = g.collections().find(kRegularizationLosses);
  return it == g.collections().end() ? std::vector<Output>() : it->second;
}

Output RegularizationLoss(DType dtype, SourceLoc loc) {
  const AtLine at(loc);
  if (dtype != DType::kInvalid && !IsFloating(dtype))
    return BuildError(
        InvalidArgument("RegularizationLoss: expected a floating type, got ",
                        DTypeName(dtype)));
  std::vector<Output> losses = RegularizationLosses();
  if (dtype == DType::kInvalid)
    dtype = losses.empty() ? DType::kFloat : RemoveRef(losses[0].dtype());
  if (losses.empty()) return ScalarOf(dtype, 0);
  for (Output& loss : losses) loss = InType(loss, dtype);
  return losses.size() == 1 ? losses[0] : ops::AddN(losses);
}

std::vector<Node*> UpdateOps() {
  Graph& g = CurrentGraph();
  std::lock_guard<std::recursive_mutex> lock(g.mutex());
  std::vector<Node*> nodes;
  const auto it = g.collections().find(kUpdateOps);
  if (it == g.collections().end()) return nodes;
  for (const Output& o : it->second) nodes.push_back(o.node);
  return nodes;
}

}  // namespace sluice
