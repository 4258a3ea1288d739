#include "graph/graphdef_needed.h"

#include <algorithm>
#include <map>
#include <utility>

#include "graph/graphdef_messages.h"
#include "graph/tensor_store_info.h"

namespace sluice {
namespace {

bool IsStoreOp(const proto::NodeDef& n) {
  return n.op().starts_with("TensorStore");
}

bool HasStores(const proto::GraphDef& def) {
  const auto any = [](const auto& nodes) {
    return std::any_of(nodes.begin(), nodes.end(), IsStoreOp);
  };
  return any(def.node()) ||
         std::any_of(def.library().function().begin(),
                     def.library().function().end(),
                     [&](const auto& f) { return any(f.node_def()); });
}

std::string NodeNamed(const std::string& input) {
  const Result<InputName> name = ParseInputName(input);
  return name.ok() ? std::string(name->node) : input;
}

bool IsKnownOp(const std::string& op, const std::set<std::string>& functions) {
  return functions.count(op) != 0 || OpRegistry::Global()->Find(op) != nullptr;
}

// Calls `fn` with each name of a function that the node may call.
template <typename Fn>
void ForEachCallee(const proto::NodeDef& n, const Fn& fn) {
  fn(n.op());
  for (const auto& [name, value] : n.attr()) {
    if (value.has_func()) fn(value.func().name());
    for (const auto& f : value.list().func()) fn(f.name());
  }
}

bool CallsOneOf(const proto::NodeDef& n, const std::set<std::string>& these) {
  bool any = false;
  ForEachCallee(
      n, [&](const std::string& f) { any = any || these.count(f) != 0; });
  return any;
}

// The functions that have an unknown op, or call one that has, and so on.
std::set<std::string> UnusableFunctions(
    const proto::FunctionDefLibrary& library,
    const std::set<std::string>& functions) {
  std::map<std::string, std::vector<std::string>> callers;
  std::set<std::string> unusable;
  std::vector<std::string> open;
  const auto add = [&](const std::string& name) {
    if (unusable.insert(name).second) open.push_back(name);
  };
  for (const proto::FunctionDef& f : library.function()) {
    const std::string& caller = f.signature().name();
    for (const proto::NodeDef& n : f.node_def()) {
      if (!IsKnownOp(n.op(), functions)) add(caller);
      ForEachCallee(n, [&](const std::string& callee) {
        if (functions.count(callee) != 0) callers[callee].push_back(caller);
      });
    }
  }
  while (!open.empty()) {
    const std::string name = std::move(open.back());
    open.pop_back();
    for (const std::string& caller : callers[name]) add(caller);
  }
  return unusable;
}

// Leaves the nodes that can be imported: of known ops, and with inputs of them.
// Returns the names of the others that are ops on stores.
std::vector<std::string> KeepKnown(proto::GraphDef* def) {
  std::set<std::string> functions;
  for (const proto::FunctionDef& f : def->library().function())
    functions.insert(f.signature().name());
  const std::set<std::string> unusable =
      UnusableFunctions(def->library(), functions);
  const auto usable = [&](const proto::NodeDef& n) {
    return IsKnownOp(n.op(), functions) && !CallsOneOf(n, unusable);
  };
  std::map<std::string, std::vector<std::string>> users;
  std::set<std::string> dropped;
  std::vector<std::string> open;
  const auto drop = [&](const std::string& name) {
    if (dropped.insert(name).second) open.push_back(name);
  };
  std::set<std::string> exist;
  for (const proto::NodeDef& n : def->node()) exist.insert(n.name());
  for (const proto::NodeDef& n : def->node()) {
    if (!usable(n)) drop(n.name());
    for (const std::string& in : n.input()) {
      users[NodeNamed(in)].push_back(n.name());
      if (exist.count(NodeNamed(in)) == 0) drop(n.name());
    }
  }
  while (!open.empty()) {
    const std::string name = std::move(open.back());
    open.pop_back();
    for (const std::string& user : users[name]) drop(user);
  }
  std::vector<std::string> stores;
  auto* const all = def->mutable_node();
  for (const proto::NodeDef& n : *all)
    if (dropped.count(n.name()) != 0 && IsStoreOp(n))
      stores.push_back(n.name());
  all->erase(std::remove_if(all->begin(), all->end(),
                            [&](const proto::NodeDef& n) {
                              return dropped.count(n.name()) != 0;
                            }),
             all->end());
  // (Functions that cannot be made are never asked for.)
  return stores;
}

}  // namespace

Result<std::set<std::string>> NeededNodes(
    std::string_view graph_def, const std::vector<std::string>& results) {
  proto::GraphDef def;
  SLUICE_RETURN_IF_ERROR(ParseGraphDef(graph_def, &def));
  std::map<std::string, std::vector<std::string>> inputs;
  std::set<std::string> store_ops;
  for (const proto::NodeDef& n : def.node()) {
    for (const std::string& in : n.input())
      inputs[n.name()].push_back(NodeNamed(in));
    inputs[n.name()];
    if (IsStoreOp(n)) store_ops.insert(n.name());
  }
  std::set<std::string> needed;
  std::vector<std::string> open;
  const auto visit = [&](const std::string& name) {
    if (inputs.count(name) != 0 && needed.insert(name).second)
      open.push_back(name);
  };
  const auto follow = [&] {
    while (!open.empty()) {
      const std::string name = std::move(open.back());
      open.pop_back();
      for (const std::string& in : inputs[name]) visit(in);
    }
  };
  for (const std::string& r : results) visit(NodeNamed(r));
  follow();
  if (!HasStores(def)) return needed;
  Graph known;
  const std::vector<std::string> other = KeepKnown(&def);
  SLUICE_ASSIGN_OR_RETURN(const std::string bytes, SerializeProto(def));
  SLUICE_RETURN_IF_ERROR(ImportGraphDef(bytes, known));
  const auto reads_some = [&] {
    return std::any_of(needed.begin(), needed.end(), [&](const auto& name) {
      return store_ops.count(name) != 0;
    });
  };
  if (!other.empty() && reads_some())
    for (const std::string& name : other) visit(name);
  StoreWriters(known).Close(
      [&](const Node* n) { return needed.count(n->name()) != 0; }, follow,
      [&](const Node* n) { visit(n->name()); });
  return needed;
}

}  // namespace sluice
