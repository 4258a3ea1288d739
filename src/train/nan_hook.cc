// The hook that stops a run whose loss is not finite, and says where that
// began.
#include <cmath>
#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "client/reductions.h"
#include "graph/control_flow.h"
#include "graph/control_flow_recovery.h"
#include "graph/device_scope.h"
#include "graph/tensor_store_info.h"
#include "sluice/ops.h"
#include "train/patience.h"
#include "train/training_hooks.h"

namespace sluice {
namespace {

template <typename T>
bool AllFinite(const Tensor& t) {
  for (const T x : t.flat<T>())
    if (!std::isfinite(static_cast<float>(x))) return false;
  return true;
}
bool IsAllFinite(const Tensor& t) {
  switch (t.dtype()) {
    case DType::kFloat:
      return AllFinite<float>(t);
    case DType::kDouble:
      for (const double x : t.flat<double>())
        if (!std::isfinite(x)) return false;
      return true;
    case DType::kHalf:
      return AllFinite<half>(t);
    case DType::kBfloat16:
      return AllFinite<bfloat16>(t);
    default:
      return true;
  }
}

class NanGuard : public TrainingHook {
 public:
  NanGuard(const Output& loss, const NanHookOptions& options)
      : loss_(loss), options_(options) {}
  std::string name() const override { return "nan"; }

  Status Begin(TrainingContext& context) override {
    if (!loss_.valid() || loss_.graph() != &context.graph() ||
        !IsFloating(loss_.dtype()))
      return InvalidArgument(
          "expected a loss of floating type and of the run's graph, got ",
          loss_.valid() ? loss_.name() : "a null output");
    SLUICE_RETURN_IF_ERROR(FindTensors(context.graph()));
    return options_.in_step ? AddChecks() : OkStatus();
  }
  Status BeforeRun(TrainingContext&, HookRequest* request) override {
    request->fetches = {loss_};
    if (options_.in_step) request->fetches.push_back(finite_);
    return OkStatus();
  }
  Status AfterRun(TrainingContext& context, const HookResult& result) override {
    if (IsAllFinite(result.values[0])) return OkStatus();
    const std::string text = absl::StrCat(
        "loss '", loss_.name(), "': expected finite values, got ",
        result.values[0].Summarize(3), " in step ", context.step(), "; ",
        options_.in_step ? InStep(result.values[1]) : Afterwards(context));
    if (options_.fail) return InvalidArgument(text);
    context.Log("WARNING: " + text);
    context.RefuseSaves();
    context.RequestStop("the loss is not finite");
    return OkStatus();
  }

 private:
  Status FindTensors(Graph& graph);
  Status AddChecks();
  std::string InStep(const Tensor& finite) const;
  std::string Afterwards(TrainingContext& context) const;
  static std::string Described(const Output& o) {
    return absl::StrCat("'", o.name(), "' (", DTypeName(o.dtype()),
                        o.shape().ToString(), "), ", o.node->Describe());
  }

  const Output loss_;
  const NanHookOptions options_;
  // What the loss depends on, in a topological order; and those of them that
  // can be computed again without effects.
  std::vector<Output> tensors_, again_;
  Output finite_;  // bool, of each tensor.
};

// Whether a run of the node differs from the one before by the values of its
// inputs and of variables only.
bool RunsAlike(const Node& n) {
  switch (n.kind()) {
    case OpKind::kVarHandle:
    case OpKind::kRefVariable:
    case OpKind::kReadVariable:
      return true;
    default:
      return n.op().facts.pure();
  }
}

// A topological order in which nodes that write a store, and what they depend
// on, come before those that read it, as far as they do not depend on these.
std::vector<Node*> WritesBeforeReads(const std::vector<Node*>& order,
                                     const StoreWriters& stores) {
  if (stores.stores().empty()) return order;
  std::unordered_map<const Node*, std::vector<Node*>> writers;  // By reader.
  for (const StoreWriters::Store& s : stores.stores())
    for (const Node* reader : s.readers) {
      std::vector<Node*>& all = writers[reader];
      all.insert(all.end(), s.writers.begin(), s.writers.end());
    }
  std::vector<Node*> sorted;
  std::unordered_set<const Node*> seen;
  struct Visit {
    Node* node;
    std::vector<Node*> before;
  };
  std::vector<Visit> open;
  const auto enter = [&](Node* n) {
    if (!seen.insert(n).second) return;
    Visit v{n, {}};
    for (const Output& in : n->inputs())
      if (in.valid()) v.before.push_back(in.node);
    v.before.insert(v.before.end(), n->control_inputs().begin(),
                    n->control_inputs().end());
    if (const auto it = writers.find(n); it != writers.end())
      v.before.insert(v.before.end(), it->second.begin(), it->second.end());
    open.push_back(std::move(v));
  };
  for (Node* n : order) {
    enter(n);
    while (!open.empty()) {
      if (open.back().before.empty()) {
        sorted.push_back(open.back().node);
        open.pop_back();
      } else {
        Node* const next = open.back().before.back();
        open.back().before.pop_back();
        enter(next);
      }
    }
  }
  return sorted;
}

Status NanGuard::FindTensors(Graph& graph) {
  const std::lock_guard<std::recursive_mutex> lock(graph.mutex());
  // Imported nodes know nothing of their loops. (In an unusual graph, where
  // this fails, tensors within loops may be named too.)
  (void)RecoverControlFlow(&graph);
  SLUICE_ASSIGN_OR_RETURN(const std::vector<Node*> order,
                          TopologicalOrder(graph));
  std::vector<uint8_t> needed(static_cast<size_t>(graph.num_nodes()));
  const auto at = [&](const Node* n) -> uint8_t& {
    return needed[static_cast<size_t>(n->id())];
  };
  std::vector<Node*> open = {loss_.node};
  at(loss_.node) = 1;
  const auto need = [&](Node* n) {
    if (at(n) == 0) open.push_back(n);
    at(n) = 1;
  };
  const auto follow = [&] {
    while (!open.empty()) {
      const Node* const n = open.back();
      open.pop_back();
      for (const Output& o : n->inputs())
        if (o.valid()) need(o.node);
    }
  };
  // (What is written to a store is a value that the loss may depend on.)
  const StoreWriters stores(graph);
  stores.Close([&](const Node* n) { return at(n) != 0; }, follow, need);
  std::vector<uint8_t> alike(needed.size(), 1);
  for (Node* const n : WritesBeforeReads(order, stores)) {
    uint8_t& same = alike[static_cast<size_t>(n->id())];
    same = RunsAlike(*n) ? 1 : 0;
    for (const Output& o : n->inputs())
      if (o.valid() && alike[static_cast<size_t>(o.node->id())] == 0) same = 0;
    for (const Node* c : n->control_inputs())
      if (alike[static_cast<size_t>(c->id())] == 0) same = 0;
    if (at(n) == 0 || n->op().role == OpRole::kConst) continue;
    for (int i = 0; i < n->num_outputs(); ++i) {
      const Output o(n, i);
      if (!IsFloating(o.dtype()) || ContextOf(o) != nullptr) continue;
      tensors_.push_back(o);
      if (same != 0) again_.push_back(o);
    }
  }
  return OkStatus();
}

Status NanGuard::AddChecks() {
  const NoControlDependencies alone;
  const NameScope scope("nan_guard");
  std::vector<Operand> finite;
  for (const Output& o : tensors_) {
    const ColocateWith there(o.node);
    const Output each = ops::IsFinite(o);
    finite.emplace_back(ops::All(each, AllAxes(each)));
  }
  finite_ = ops::Pack(finite);
  if (finite_.valid()) return OkStatus();
  const Status* const why = loss_.graph()->ErrorOf(finite_);
  return why != nullptr ? *why : Internal("no checks could be built");
}

std::string NanGuard::InStep(const Tensor& finite) const {
  for (size_t i = 0; i < tensors_.size(); ++i)
    if (!finite.data<bool>()[i])
      return "the first tensor that was not finite is " +
             Described(tensors_[i]);
  return "each tensor that it depends on was finite";
}

std::string NanGuard::Afterwards(TrainingContext& context) const {
  const Result<Session*> session = context.session();
  const auto values = session.ok()
                          ? (*session)->Run(context.feeds(), again_)
                          : Result<std::vector<Tensor>>(session.status());
  if (!values.ok())
    return absl::StrCat("computing it again to find out why: ",
                        values.status().message());
  std::string first, variables;
  for (size_t i = 0; i < again_.size(); ++i) {
    if (IsAllFinite((*values)[i])) continue;
    const Output& o = again_[i];
    if (first.empty()) first = Described(o);
    if (o.node->kind() == OpKind::kReadVariable ||
        o.node->kind() == OpKind::kRefVariable) {
      const Var v = Var::FromHandle(
          o.node->kind() == OpKind::kRefVariable ? o : o.node->input(0));
      absl::StrAppend(&variables, variables.empty() ? "" : ", ", "'",
                      v.valid() ? v.name() : o.name(), "'");
    }
  }
  std::string text =
      first.empty()
          ? "computed again with the same feeds, nothing is other than finite"
          : "computed again with the same feeds, the first tensor that is not "
            "finite is " +
                first;
  if (!variables.empty())
    absl::StrAppend(
        &text, "; variables that are not finite after the step: ", variables,
        " (NanHookOptions::in_step finds the first in the step)");
  if (again_.size() < tensors_.size())
    absl::StrAppend(&text, "; ", tensors_.size() - again_.size(),
                    " tensors that depend on state were not computed again");
  return text;
}

}  // namespace

HookPtr NanHook(const Output& loss, const NanHookOptions& options) {
  return std::make_shared<NanGuard>(loss, options);
}

}  // namespace sluice
