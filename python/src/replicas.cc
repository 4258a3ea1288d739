// Synchronous replicas, which the library builds around an optimizer.
#include "flow.h"
#include "ops.h"
#include "scopes.h"
#include "train/sync_replicas.h"
#include "values.h"

namespace sluice::python {
namespace {

struct Replicas {
  std::unique_ptr<SyncReplicas> built;
  Node* train = nullptr;  // A worker's step.
};

// `apply` gets the means of the gradients, in their order, and returns the
// operation that applies them; `after_update` (or None) returns an operation.
std::shared_ptr<Replicas> MakeReplicas(const py::list& gradients,
                                       const std::vector<Output>& variables,
                                       const Output& global_step,
                                       int64_t replicas, int64_t to_aggregate,
                                       const py::function& apply,
                                       const py::object& after_update) {
  PyGraph& g = TargetGraph();
  const Building here(g);
  std::vector<GradAndVar> grads;
  for (size_t i = 0; i < variables.size(); ++i)
    grads.push_back(
        {ToGradient(g, gradients[i]), Var::FromHandle(variables[i])});
  // Calls one of the functions, in the scopes of the library.
  const auto call = [](const auto& fn) {
    return FromLibrary([&]() -> Node* {
      const ScopeState scopes;
      const absl::Cleanup back = [&scopes] { scopes.Restore(); };
      const py::object made = fn();
      py::detail::make_caster<Node*> node;
      if (!node.load(made, /*convert=*/true))
        Raise(PyExc_TypeError, "expected an Operation, " + Got(made));
      return py::detail::cast_op<Node*>(node);
    });
  };
  SyncReplicasOptions options;
  options.replicas = replicas;
  options.to_aggregate = to_aggregate;
  options.discard_old_tokens = false;
  if (!after_update.is_none())
    options.after_update = [&] { return call([&] { return after_update(); }); };
  auto made = std::make_shared<Replicas>();
  made->built = std::make_unique<SyncReplicas>(
      [&](const std::vector<GradAndVar>& means,
          const MinimizeOptions&) -> Result<Node*> {
        Node* const applied = call([&] {
          py::list list;
          for (const GradAndVar& mean : means)
            list.append(FromGradient(mean.gradient));
          return apply(list);
        });
        if (applied == nullptr)
          return Cancelled(
              "sync_replicas: expected gradients to be applied, "
              "got an exception");
        return applied;
      },
      options);
  made->train = made->built->ApplyGradients(
      grads, {.global_step = Var::FromHandle(global_step)}, UserLine());
  CheckBuilt(g);
  return made;
}

}  // namespace

void AddReplicas(py::module_& m) {
  py::class_<Replicas, std::shared_ptr<Replicas>>(m, "SyncReplicas")
      .def(py::init(&MakeReplicas))
      .def_readonly("train", &Replicas::train)
      .def_property_readonly(
          "update", [](const Replicas& r) { return r.built->update(); })
      .def_property_readonly(
          "chief_init", [](const Replicas& r) { return r.built->chief_init(); })
      .def_property_readonly(
          "local_init", [](const Replicas& r) { return r.built->local_init(); })
      .def_property_readonly("ready",
                             [](const Replicas& r) {
                               const Output& handle = r.built->ready().handle();
                               PyGraph& g = GraphOf(handle.node);
                               const Building here(g);
                               return r.built->ready().IsInitialized();
                             })
      // Puts so many tokens into the queue.
      .def("put_tokens", [](const Replicas& r, int64_t count) {
        PyGraph& g = GraphOf(r.train);
        const Building here(g);
        Node* const put = r.built->PutTokens(
            Constant(static_cast<int32_t>(count)), UserLine());
        CheckBuilt(g);
        return put;
      });
}

}  // namespace sluice::python
