#include "graph/tensor_store_info.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "graph/hidden_attributes.h"

namespace sluice {
namespace {

// More than a graph nests loops, conditionals and gradients.
constexpr int kMaxStoreHops = 10'000;

}  // namespace

bool ReadsStore(const Node& n) {
  return n.kind() == OpKind::kTensorStoreRead ||
         n.kind() == OpKind::kTensorStoreSum;
}

bool WritesStore(const Node& n) {
  return n.kind() == OpKind::kTensorStoreWrite ||
         n.kind() == OpKind::kTensorStoreAdd;
}

Output StoreMaker(Output handle) {
  for (int hop = 0; hop < kMaxStoreHops && handle.valid(); ++hop) {
    const Node& n = *handle.node;
    switch (n.op().role) {
      case OpRole::kIdentity:
      case OpRole::kSwitch:
      case OpRole::kMerge:
      case OpRole::kEnter:
      case OpRole::kExit:
      case OpRole::kNextIteration:
        if (n.num_inputs() == 0 || !n.input(0).valid()) return handle;
        handle = n.input(0);
        continue;
      default:
        break;
    }
    if (n.kind() != OpKind::kTensorArrayRead) return handle;
    const std::string saved = n.AttrOr<std::string>(kSavedValueAttr, "");
    if (saved.empty()) return handle;
    const Result<Output> value = n.graph()->FindOutput(saved);
    if (!value.ok()) return handle;
    handle = *value;
  }
  return handle;
}

bool StoreIdentity::operator<(const StoreIdentity& o) const {
  return std::tie(root, sources) < std::tie(o.root, o.sources);
}

bool StoreIdentity::local() const {
  return root != nullptr &&
         (root->kind() != OpKind::kTensorStore ||
          root->AttrOr<std::string>("shared_name", "") == "");
}

StoreIdentity IdentityOfStore(const Output& handle) {
  StoreIdentity id;
  Output at = StoreMaker(handle);
  while (at.valid() && at.node->kind() == OpKind::kTensorStoreGrad) {
    id.sources.push_back(at.node->AttrOr<std::string>("source", ""));
    at = StoreMaker(at.node->input(0));
  }
  std::reverse(id.sources.begin(), id.sources.end());
  id.root = at.node;
  return id;
}

StoreWriters::StoreWriters(const Graph& graph) {
  std::map<StoreIdentity, Store> stores;
  for (const auto& n : graph.nodes()) {
    const bool reads = ReadsStore(*n), writes = WritesStore(*n);
    if (!reads && !writes) continue;
    const StoreIdentity id = IdentityOfStore(n->input(0));
    if (!id.local()) continue;
    Store& s = stores[id];
    if (reads) s.readers.push_back(n.get());
    if (writes) s.writers.push_back(n.get());
  }
  for (auto& [id, s] : stores)
    if (!s.readers.empty() && !s.writers.empty())
      stores_.push_back(std::move(s));
}

}  // namespace sluice
