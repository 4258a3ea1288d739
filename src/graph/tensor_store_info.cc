#include "graph/tensor_store_info.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "graph/function.h"
#include "graph/hidden_attributes.h"

namespace sluice {
namespace {

std::atomic<uint64_t> store_writes_built{0};

// Adds what the functions of a node do. `known`: functions already looked at.
void AddStoreUse(const Node& n, std::set<std::string>* known, StoreUse* use) {
  const auto add = [&](const FunctionRef& f) {
    if (!known->insert(f.name).second) return;
    const auto body = n.graph()->function_library().Instantiate(f);
    if (!body.ok()) return;  // (It is reported where the node is lowered.)
    for (const auto& in : (*body)->graph->nodes()) {
      use->reads |= ReadsStore(*in);
      use->writes |= WritesStore(*in);
      if (in->op().role == OpRole::kFunctional) AddStoreUse(*in, known, use);
    }
  };
  int first = 0;
  if (KindOfCall(n) == CallKind::kCall) add(CalledFunction(n, &first));
  for (const auto& [name, value] : n.attrs()) ForEachFunction(value, add);
}

}  // namespace

uint64_t StoreWritesBuilt() {
  return store_writes_built.load(std::memory_order_relaxed);
}

void CountStoreWrite() {
  store_writes_built.fetch_add(1, std::memory_order_relaxed);
}

StoreUse UseOfStores(const Node& n) {
  StoreUse use;
  if (n.op().role != OpRole::kFunctional) return use;
  std::set<std::string> known;
  AddStoreUse(n, &known, &use);
  return use;
}

bool ReadsStore(const Node& n) {
  return n.kind() == OpKind::kTensorStoreRead ||
         n.kind() == OpKind::kTensorStoreSum;
}

bool WritesStore(const Node& n) {
  return n.kind() == OpKind::kTensorStoreWrite ||
         n.kind() == OpKind::kTensorStoreAdd;
}

bool TakesManyKeys(const Node& n) {
  return n.op().inputs[1].name == "keys" || n.BoolAttr("many");
}

namespace {

// The outputs that this one forwards: none for a maker.
std::vector<Output> ForwardedBy(const Output& o) {
  const Node& n = *o.node;
  switch (n.op().role) {
    case OpRole::kMerge:
      return n.inputs();
    case OpRole::kIdentity:
    case OpRole::kSwitch:
    case OpRole::kEnter:
    case OpRole::kExit:
    case OpRole::kNextIteration:
      if (n.num_inputs() > 0) return {n.input(0)};
      return {};
    default:
      break;
  }
  if (n.kind() == OpKind::kIdentityN && o.index < n.num_inputs())
    return {n.input(o.index)};
  if (n.kind() != OpKind::kTensorArrayRead) return {};
  const std::string saved = n.AttrOr<std::string>(kSavedValueAttr, "");
  if (saved.empty()) return {};
  const Result<Output> value = n.graph()->FindOutput(saved);
  return value.ok() ? std::vector<Output>{*value} : std::vector<Output>{};
}

// Without repeats, in the order of a depth-first search.
std::vector<Output> StoreMakers(const Output& handle) {
  std::vector<Output> makers, open = {handle};
  std::set<std::pair<const Node*, int>> seen;
  while (!open.empty()) {
    const Output o = open.back();
    open.pop_back();
    if (!o.valid() || !seen.insert({o.node, o.index}).second) continue;
    const std::vector<Output> from = ForwardedBy(o);
    if (from.empty()) makers.push_back(o);
    open.insert(open.end(), from.rbegin(), from.rend());
  }
  return makers;
}

}  // namespace

Output StoreMaker(Output handle) {
  const std::vector<Output> makers = StoreMakers(handle);
  return makers.empty() ? handle : makers[0];
}

bool StoreIdentity::operator<(const StoreIdentity& o) const {
  return std::tie(root, sources) < std::tie(o.root, o.sources);
}

bool StoreIdentity::local() const {
  return root != nullptr &&
         (root->kind() != OpKind::kTensorStore ||
          root->AttrOr<std::string>("shared_name", "") == "");
}

std::vector<StoreIdentity> IdentitiesOfStore(const Output& handle) {
  std::set<StoreIdentity> all;
  for (const Output& maker : StoreMakers(handle)) {
    if (maker.node->kind() != OpKind::kTensorStoreGrad) {
      StoreIdentity id;
      id.root = maker.node;
      all.insert(std::move(id));
      continue;
    }
    for (StoreIdentity id : IdentitiesOfStore(maker.node->input(0))) {
      id.sources.push_back(maker.node->AttrOr<std::string>("source", ""));
      all.insert(std::move(id));
    }
  }
  return {all.begin(), all.end()};
}

StoreIdentity IdentityOfStore(const Output& handle) {
  const std::vector<StoreIdentity> all = IdentitiesOfStore(handle);
  return all.empty() ? StoreIdentity() : all[0];
}

StoreWriters::StoreWriters(const Graph& graph) {
  // By identity, the number of a set of stores; sets that a handle joins have
  // the number of the first.
  std::map<StoreIdentity, size_t> numbers;
  std::vector<size_t> joined;
  const auto set_of = [&joined](size_t i) {
    while (joined[i] != i) i = joined[i] = joined[joined[i]];
    return i;
  };
  const auto number_of = [&](const StoreIdentity& id) {
    const auto [it, fresh] = numbers.emplace(id, joined.size());
    if (fresh) joined.push_back(it->second);
    return set_of(it->second);
  };
  struct User {
    Node* node;
    size_t store;
    bool reads, writes;
  };
  std::vector<User> users;
  const auto add = [&](Node* n, const std::vector<StoreIdentity>& ids,
                       bool reads, bool writes) {
    size_t store = SIZE_MAX;
    for (const StoreIdentity& id : ids) {
      if (!id.local()) continue;
      const size_t i = number_of(id);
      if (store == SIZE_MAX)
        store = i;
      else
        joined[i] = store = set_of(store);
    }
    if (store != SIZE_MAX) users.push_back({n, store, reads, writes});
  };
  for (const auto& n : graph.nodes()) {
    const bool reads = ReadsStore(*n), writes = WritesStore(*n);
    if (reads || writes)
      add(n.get(), IdentitiesOfStore(n->input(0)), reads, writes);
    if (n->op().role != OpRole::kFunctional) continue;
    std::vector<StoreIdentity> taken;
    for (const Output& in : n->inputs()) {
      if (!in.valid() || in.dtype() != DType::kResource) continue;
      for (StoreIdentity& id : IdentitiesOfStore(in))
        if (id.root->kind() == OpKind::kTensorStore)
          taken.push_back(std::move(id));
    }
    if (taken.empty()) continue;
    const StoreUse use = UseOfStores(*n);
    for (const StoreIdentity& id : taken)
      add(n.get(), {id}, use.reads, use.writes);
  }
  std::vector<Store> stores(joined.size());
  for (const User& u : users) {
    Store& s = stores[set_of(u.store)];
    if (u.reads) s.readers.push_back(u.node);
    if (u.writes) s.writers.push_back(u.node);
  }
  for (Store& s : stores)
    if (!s.readers.empty() && !s.writers.empty())
      stores_.push_back(std::move(s));
}

}  // namespace sluice
