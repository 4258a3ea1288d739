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

// Calls fn(f, first_input, first_arg) for each function that a functional node
// gives its inputs to, from first_input on, as arguments from first_arg on.
template <typename Fn>
void ForEachCallee(const Node& n, Fn&& fn) {
  const auto named = [&n](const char* attr) {
    return n.AttrOr<FunctionRef>(attr, FunctionRef{});
  };
  switch (KindOfCall(n)) {
    case CallKind::kCall: {
      int first = 0;
      const FunctionRef f = CalledFunction(n, &first);
      fn(f, first, 0);
      break;
    }
    case CallKind::kSavingCall:
      fn(named("f"), 0, 0);
      break;
    case CallKind::kIf:
      fn(named("then_branch"), 1, 0);
      fn(named("else_branch"), 1, 0);
      break;
    case CallKind::kCase:
      for (const FunctionRef& f :
           n.AttrOr<AttrValue::Functions>("branches", {}))
        fn(f, 1, 0);
      break;
    case CallKind::kWhile:
      fn(named("cond"), 0, 0);
      fn(named("body"), 0, 0);
      break;
    case CallKind::kFor:
      fn(named("body"), 3, 1);
      break;
    default:
      break;
  }
}

}  // namespace

std::vector<bool> StoreArguments(FunctionLibrary& library,
                                 const FunctionRef& f) {
  using Argument = std::pair<std::string, int64_t>;
  std::set<Argument> found;
  std::map<Argument, std::vector<Argument>> passed_from;
  std::vector<FunctionRef> open = {f};
  std::set<std::string> seen = {f.name};
  size_t count = 0;
  while (!open.empty()) {
    const FunctionRef at = std::move(open.back());
    open.pop_back();
    const Result<const FunctionBody*> body = library.Instantiate(at);
    if (!body.ok()) continue;
    if (at.name == f.name) count = (*body)->args.size();
    const auto arguments = [&](const Output& handle) {
      std::vector<Argument> args;
      if (handle.valid() && RemoveRef(handle.dtype()) == DType::kResource)
        for (const Output& maker : StoreMakers(handle))
          if (maker.node->op().role == OpRole::kArg)
            args.emplace_back(at.name, maker.node->IntAttr("index"));
      return args;
    };
    for (const auto& n : (*body)->graph->nodes()) {
      if (ReadsStore(*n) || WritesStore(*n) ||
          n->kind() == OpKind::kTensorStoreGrad)
        for (Argument& a : arguments(n->input(0))) found.insert(std::move(a));
      if (n->op().role != OpRole::kFunctional) continue;
      ForEachCallee(*n, [&](const FunctionRef& callee, int input, int arg) {
        for (int i = input; i < n->num_inputs(); ++i)
          for (Argument& a : arguments(n->input(i)))
            passed_from[{callee.name, arg + i - input}].push_back(std::move(a));
        if (seen.insert(callee.name).second) open.push_back(callee);
      });
    }
  }
  std::vector<Argument> next(found.begin(), found.end());
  while (!next.empty()) {
    const Argument to = std::move(next.back());
    next.pop_back();
    for (const Argument& from : passed_from[to])
      if (found.insert(from).second) next.push_back(from);
  }
  std::vector<bool> result(count, false);
  for (const auto& [name, i] : found)
    if (name == f.name && i >= 0 && static_cast<size_t>(i) < count)
      result[static_cast<size_t>(i)] = true;
  return result;
}

int NumStoresOfGradients(const Node& call) {
  const CallKind kind = KindOfCall(call);
  if (kind != CallKind::kSavingCall && kind != CallKind::kSavedGradient)
    return 0;
  std::vector<DType> args, results;
  const Status known = call.graph()->function_library().Signature(
      call.AttrOr<FunctionRef>("f", FunctionRef{}), &args, &results);
  if (!known.ok()) return 0;  // (It is reported where the call is checked.)
  const size_t others =
      kind == CallKind::kSavingCall
          ? args.size()
          : 1 + call.AttrOr<AttrValue::Types>("Tin", {}).size() +
                results.size();
  return std::max(0, call.num_inputs() - static_cast<int>(others));
}

std::vector<int> StoreInputs(const Node& call) {
  std::vector<int> inputs;
  switch (KindOfCall(call)) {
    case CallKind::kCall:
    case CallKind::kSavingCall:
      ForEachCallee(call, [&](const FunctionRef& f, int first, int) {
        const std::vector<bool> stores =
            StoreArguments(call.graph()->function_library(), f);
        for (size_t i = 0; i < stores.size(); ++i)
          if (const int at = first + static_cast<int>(i);
              stores[i] && at < call.num_inputs())
            inputs.push_back(at);
      });
      break;
    case CallKind::kSavedGradient:
      for (int i = call.num_inputs() - NumStoresOfGradients(call);
           i < call.num_inputs(); ++i)
        inputs.push_back(i);
      break;
    default:
      break;
  }
  return inputs;
}

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
  if (KindOfCall(n) == CallKind::kSavedGradient)
    std::swap(use.reads, use.writes);
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
  // (An op that takes and returns handles, such as Select, chooses one; a read
  // from an array gives what was saved there.)
  if (n.op().role == OpRole::kCompute && o.dtype() == DType::kResource &&
      n.kind() != OpKind::kTensorStoreGrad &&
      n.kind() != OpKind::kTensorArrayRead) {
    std::vector<Output> handles;
    for (const Output& in : n.inputs())
      if (in.valid() && in.dtype() == DType::kResource) handles.push_back(in);
    if (!handles.empty()) return handles;
  }
  if (n.kind() != OpKind::kTensorArrayRead) return {};
  const std::string saved = n.AttrOr<std::string>(kSavedValueAttr, "");
  if (saved.empty()) return {};
  const Result<Output> value = n.graph()->FindOutput(saved);
  return value.ok() ? std::vector<Output>{*value} : std::vector<Output>{};
}

}  // namespace

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

Output StoreMaker(Output handle) {
  const std::vector<Output> makers = StoreMakers(handle);
  return makers.empty() ? handle : makers[0];
}

bool StoreIdentity::operator<(const StoreIdentity& o) const {
  return std::tie(root, sources) < std::tie(o.root, o.sources);
}

bool StoreIdentity::local() const {
  return root != nullptr &&
         (!sources.empty() || root->kind() != OpKind::kTensorStore ||
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
    // (Like the source of another: that has one, or is an argument.)
    std::string source = maker.node->AttrOr<std::string>("source", "");
    if (maker.node->num_inputs() > 1) {
      const StoreIdentity like = IdentityOfStore(maker.node->input(1));
      if (!like.sources.empty()) source = like.sources.back();
    }
    for (StoreIdentity id : IdentitiesOfStore(maker.node->input(0))) {
      id.sources.push_back(source);
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
    const CallKind kind = KindOfCall(*n);
    const bool one_function = kind == CallKind::kCall ||
                              kind == CallKind::kSavingCall ||
                              kind == CallKind::kSavedGradient;
    const bool any_resource = std::any_of(
        n->inputs().begin(), n->inputs().end(), [](const Output& in) {
          return in.valid() && in.dtype() == DType::kResource;
        });
    if (!any_resource) continue;
    if (one_function) {
      for (const int i : StoreInputs(*n))
        for (StoreIdentity& id : IdentitiesOfStore(n->input(i)))
          taken.push_back(std::move(id));
    } else {
      for (const Output& in : n->inputs()) {
        if (!in.valid() || in.dtype() != DType::kResource) continue;
        for (StoreIdentity& id : IdentitiesOfStore(in))
          if (id.root->kind() == OpKind::kTensorStore)
            taken.push_back(std::move(id));
      }
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
