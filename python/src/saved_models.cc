// Saved models and the contexts of meta graphs (sluice/framework/meta_graph.py,
// sluice/compat/training/saved_model.py).
#include <mutex>
#include <string>
#include <vector>

#include "deploy/saved_model.h"
#include "deploy/saved_model_builder.h"
#include "graph/control_flow_recovery.h"
#include "graph/graphdef_contexts.h"
#include "objects.h"
#include "py.h"
#include "values.h"

namespace sluice::python {
namespace {

// Recovers the contexts, which may add nodes; whether that was possible.
bool RecoverContexts(PyGraph& g) {
  const GraphLock lock(g);  // (Also a finalized graph is exported.)
  return RecoverControlFlow(&g).ok();
}

py::bytes AddContextsTo(PyGraph& g, const std::string& scope,
                        const py::bytes& meta_graph) {
  const GraphLock lock(g);
  return Checked(WithContexts(g, scope, std::string(meta_graph)));
}

void TakeContexts(PyGraph& g, const std::string& prefix,
                  const py::bytes& meta_graph) {
  const GraphLock lock(g);
  Check(ApplyContexts(std::string(meta_graph), prefix, &g));
}

py::bytes Found(const std::string& folder,
                const std::vector<std::string>& tags) {
  const Result<std::string> bytes = [&] {
    const OthersRun others_run;
    return FindMetaGraph(folder, tags);
  }();
  CheckRun(bytes.status(), py::none());
  return *bytes;
}

// A SavedModelBuilder. Its errors are the library's.
class PySavedModelBuilder {
 public:
  explicit PySavedModelBuilder(const std::string& folder) : builder_(folder) {}
  std::string VariablesPath() {
    return Done([&] { return builder_.VariablesPath(); });
  }
  std::string AddAsset(const std::string& path) {
    return Done([&] { return builder_.AddAsset(path); });
  }
  void Add(const py::bytes& meta_graph) {
    const std::string bytes = meta_graph;
    CheckRun(builder_.AddMetaGraphDef(bytes), py::none());
  }
  std::string Save(bool text) {
    return Done([&] { return builder_.Save(text); });
  }

 private:
  template <typename Fn>
  static std::string Done(const Fn& fn) {
    const Result<std::string> result = [&] {
      const OthersRun others_run;
      return fn();
    }();
    CheckRun(result.status(), py::none());
    return *result;
  }
  SavedModelBuilder builder_;
};

}  // namespace

void AddSavedModels(py::module_& m) {
  m.def("recover_contexts", &RecoverContexts, py::arg("graph"));
  m.def("add_contexts", &AddContextsTo, py::arg("graph"), py::arg("scope"),
        py::arg("meta_graph"));
  m.def("take_contexts", &TakeContexts, py::arg("graph"), py::arg("prefix"),
        py::arg("meta_graph"));
  m.def("find_meta_graph", &Found, py::arg("folder"), py::arg("tags"));
  m.def("is_saved_model", &IsSavedModel, py::arg("folder"));
  py::class_<PySavedModelBuilder>(m, "SavedModelBuilder")
      .def(py::init<std::string>(), py::arg("folder"))
      .def("variables_path", &PySavedModelBuilder::VariablesPath)
      .def("add_asset", &PySavedModelBuilder::AddAsset, py::arg("path"))
      .def("add_meta_graph", &PySavedModelBuilder::Add, py::arg("meta_graph"))
      .def("save", &PySavedModelBuilder::Save, py::arg("text"));
}

}  // namespace sluice::python
