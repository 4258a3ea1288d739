#include "exec/batching/batch_requests.h"

#include <algorithm>
#include <atomic>
#include <vector>

#include "exec/batching/batch_objects.h"
#include "graph/frames.h"
#include "graph/graph.h"
#include "graph/hidden_attributes.h"

namespace sluice {
namespace {

std::atomic<int64_t> fewest_batched_elements{16};

// By frame: whether batching is requested for it.
std::vector<bool> RequestedFrames(const Graph& graph, const Frames& frames,
                                  bool everywhere) {
  std::vector<bool> requested(static_cast<size_t>(frames.size()), everywhere);
  requested[0] = false;
  const auto request = [&](int f) {
    const auto at = static_cast<size_t>(f);
    if (f <= 0 || requested[at]) return false;
    requested[at] = true;
    return true;
  };
  for (const auto& n : graph.nodes())
    if (n->AttrOr<bool>(kBatchAttr, false))
      request(n->op().role == OpRole::kEnter ? frames.output_frame(n.get())
                                             : frames.frame_of(n.get()));
  // (Functions call each other: until nothing changes.)
  for (bool changed = true; changed;) {
    changed = false;
    for (int f = 1; f < frames.size(); ++f) {
      const int parent = frames[f].parent;
      if (parent > 0 && requested[static_cast<size_t>(parent)])
        changed |= request(f);
      if (!requested[static_cast<size_t>(f)]) continue;
      for (const Node* n : frames[f].nodes)
        if (n->op().role == OpRole::kCall)
          changed |= request(frames.function_frame(FunctionOf(*n)));
    }
  }
  return requested;
}

bool IsRequested(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(),
                     [](const auto& n) {
                       return n->template AttrOr<bool>(kBatchAttr, false);
                     });
}

// Of ops on objects: whether they give floats, and shapes say how many. (Those
// that only keep values wait for what makes them.)
bool GivesFloats(const Node& n) {
  bool floats = false;
  int64_t elements = 0;
  for (int i = 0; i < n.num_outputs(); ++i) {
    floats = floats || IsFloating(n.output_type(i));
    const PartialShape& shape = n.output_shape(i);
    elements += shape.fully_known()
                    ? std::min<int64_t>(shape.num_elements(), INT32_MAX)
                    : INT32_MAX;
  }
  return floats && elements >= FewestBatchedElements();
}

// Whether the shapes say that its instances are too small.
bool IsKnownSmall(const Node& n, const BatchForm& form) {
  const int64_t fewest = FewestBatchedElements();
  int64_t elements = 0;
  for (int i = 0; i < n.num_inputs(); ++i) {
    if ((form.shared >> i & 1) != 0) continue;
    const PartialShape& shape = n.input(i).shape();
    if (!shape.rank_known()) return false;
    int64_t of_input = 1;
    for (const int64_t d : shape.dims()) {
      if (d < 0 || d >= fewest) return false;
      of_input = std::min(of_input * d, fewest);
    }
    elements += of_input;
  }
  return elements < fewest;
}

// Whether a result or an input that is not shared is of a floating type. What
// only has integers and bools is what control flow runs on.
bool ComputesOnFloats(const Node& n, const BatchForm& form) {
  bool floats = false;
  for (int i = 0; i < n.num_outputs(); ++i) {
    if (!IsPlain(n.output_type(i))) return false;
    floats = floats || IsFloating(n.output_type(i));
  }
  for (int i = 0; i < n.num_inputs(); ++i)
    floats = floats ||
             ((form.shared >> i & 1) == 0 && IsFloating(n.input(i).dtype()));
  return floats;
}

// Which values are surely others in each iteration of their loop: they depend
// on what it computes for the next one. (A loop constant, and a variable that
// is passed on, is the same in all; an argument of a function may be the same
// in all calls.) By node id.
std::vector<bool> VaryingNodes(const Graph& graph,
                               const std::vector<Node*>& order) {
  std::vector<bool> varies(static_cast<size_t>(graph.num_nodes()));
  const auto id = [](const Node* n) { return static_cast<size_t>(n->id()); };
  const auto passes_on = [](const Node& merge, const Node& next) {
    const Node* from = ResolveAlias(next.input(0)).node;
    if (from->op().role == OpRole::kSwitch)
      from = ResolveAlias(from->input(0)).node;
    return from == &merge;
  };
  for (const Node* n : order)
    for (const Output& in : n->inputs())
      if (IsBackEdge(*in.node, *n) ? !passes_on(*n, *in.node)
                                   : varies[id(in.node)])
        varies[id(n)] = n->op().role != OpRole::kEnter;
  return varies;
}

// Whether all instances would need another tensor where the form wants one for
// all. (Few elements are compared by value.)
bool NeedsOthers(const Node& n, const BatchForm& form,
                 const std::vector<bool>& varies) {
  for (int i = 0; i < n.num_inputs(); ++i)
    if ((form.shared >> i & 1) != 0 && IsFloating(n.input(i).dtype()) &&
        varies[static_cast<size_t>(n.input(i).node->id())])
      return true;
  return false;
}

bool ReadsReference(const Node& n) {
  for (int i = 0; i < n.num_inputs(); ++i)
    if (IsRef(n.input(i).dtype())) return true;
  return false;
}

}  // namespace

int64_t FewestBatchedElements() {
  return fewest_batched_elements.load(std::memory_order_relaxed);
}

ScopedFewestBatchedElements::ScopedFewestBatchedElements(int64_t elements)
    : before_(fewest_batched_elements.exchange(elements)) {}

ScopedFewestBatchedElements::~ScopedFewestBatchedElements() {
  fewest_batched_elements = before_;
}

Result<BatchForms> FindBatched(
    const Graph& graph, bool everywhere,
    const std::function<Result<std::shared_ptr<Kernel>>(const Node&)>&
        kernels) {
  BatchForms found;
  if (!everywhere && !IsRequested(graph)) return found;
  SLUICE_ASSIGN_OR_RETURN(const std::vector<Node*> order,
                          TopologicalOrder(graph));
  SLUICE_ASSIGN_OR_RETURN(const Frames frames, Frames::Of(graph, order));
  const std::vector<bool> requested =
      RequestedFrames(graph, frames, everywhere);
  const std::vector<bool> varies = VaryingNodes(graph, order);
  for (const Node* n : order) {
    if (n->op().role != OpRole::kCompute || n->num_inputs() == 0 ||
        n->num_inputs() > 32 || n->num_outputs() == 0 || ReadsReference(*n) ||
        !requested[static_cast<size_t>(frames.frame_of(n))])
      continue;
    const Result<std::shared_ptr<Kernel>> kernel = kernels(*n);
    if (!kernel.ok() || *kernel == nullptr || (*kernel)->run == nullptr)
      continue;
    if (FindObjectForm(*n).kernel != nullptr) {
      if (GivesFloats(*n)) found.emplace(n, BatchForm());
      continue;
    }
    const std::optional<BatchForm> form = FindBatchForm(*n, **kernel);
    if (form && ComputesOnFloats(*n, *form) &&
        !NeedsOthers(*n, *form, varies) &&
        ((*kernel)->expensive || !IsKnownSmall(*n, *form)))
      found.emplace(n, *form);
  }
  return found;
}

}  // namespace sluice
