#include <algorithm>

#include "passes/passes.h"

namespace sluice {
namespace {

bool Mergeable(const Node& n) {
  const OpFacts& facts = n.op().facts;
  if (facts.not_mergeable || facts.has_effects || facts.has_identity ||
      facts.waits || n.num_outputs() == 0)
    return false;
  switch (n.op().role) {
    case OpRole::kCompute:
    case OpRole::kConst:
    case OpRole::kIdentity:
      break;
    default:
      return false;
  }
  // An error of a Placeholder that is not fed must name that node.
  if (n.num_inputs() == 0 && n.op().role != OpRole::kConst) return false;
  for (int i = 0; i < n.num_outputs(); ++i)
    if (IsRef(n.output_type(i)) || n.output_type(i) == DType::kResource)
      return false;
  for (const Output& in : n.inputs())  // The value of a reference may change.
    if (IsRef(in.dtype())) return false;
  return true;
}

// ---- Hashes: equal for equal nodes, and cheap -------------------------------

uint64_t Mix(uint64_t h) {
  h *= 0x9e3779b97f4a7c15u;
  return h ^ (h >> 32);
}
uint64_t Mix(uint64_t h, uint64_t v) { return Mix(h + Mix(v + 1)); }
uint64_t HashBytes(const void* data, size_t size) {
  return std::hash<std::string_view>()(
      std::string_view(static_cast<const char*>(data), size));
}

struct AttrHash {
  uint64_t operator()(const std::string& s) const {
    return HashBytes(s.data(), s.size());
  }
  uint64_t operator()(const Tensor& t) const {
    uint64_t h = static_cast<uint64_t>(t.dtype());
    for (const int64_t d : t.shape().dims())
      h = Mix(h, static_cast<uint64_t>(d));
    if (!IsPlain(t.dtype())) return h;
    // Hashes both ends of a large tensor; other differences are found by
    // comparison.
    constexpr size_t kEnd = 32 << 10;
    const auto* data = static_cast<const char*>(t.raw());
    const size_t size = t.bytes();
    if (size <= 2 * kEnd) return Mix(h, HashBytes(data, size));
    return Mix(Mix(h, HashBytes(data, kEnd)),
               HashBytes(data + size - kEnd, kEnd));
  }
  uint64_t operator()(const PartialShape& s) const {
    uint64_t h = s.rank_known();
    for (const int64_t d : s.dims()) h = Mix(h, static_cast<uint64_t>(d));
    return h;
  }
  uint64_t operator()(const FunctionRef& f) const { return (*this)(f.name); }
  uint64_t operator()(float v) const {  // 0 and -0 may be equal.
    return std::hash<float>()(v);
  }
  template <typename T>
  uint64_t operator()(const std::vector<T>& list) const {
    uint64_t h = list.size();
    for (const auto& v : list) h = Mix(h, (*this)(static_cast<const T&>(v)));
    return h;
  }
  template <typename T>
  uint64_t operator()(const T& v) const {
    if constexpr (std::is_integral_v<T> || std::is_enum_v<T>)
      return static_cast<uint64_t>(v);
    else
      return 0;  // Empty lists, placeholders, nothing.
  }
};

// The order of control inputs, and of the inputs of a commutative op, is
// ignored.
uint64_t Hash(const Node& n) {
  uint64_t h = reinterpret_cast<uintptr_t>(&n.op());
  h = Mix(h, AttrHash()(n.device()));
  uint64_t set = 0;
  for (const Output& o : n.inputs()) {
    const auto edge = Mix((static_cast<uint64_t>(o.node->id()) << 24) +
                          static_cast<uint64_t>(o.index));
    if (n.op().commutative)
      set += edge;
    else
      h = Mix(h, edge);
  }
  for (const Node* c : n.control_inputs())
    set += Mix(~static_cast<uint64_t>(c->id()));
  h = Mix(h, set);
  for (const auto& [name, v] : n.attrs())
    h = Mix(h, std::visit(AttrHash(), v.value()));
  return h;
}

bool Same(const Node& a, const Node& b) {
  if (&a.op() != &b.op() || a.device() != b.device()) return false;
  const auto &x = a.inputs(), &y = b.inputs();
  const auto &c = a.control_inputs(), &d = b.control_inputs();
  if (!std::equal(x.begin(), x.end(), y.begin(), y.end(), SameOutput()) &&
      !(a.op().commutative && std::is_permutation(x.begin(), x.end(), y.begin(),
                                                  y.end(), SameOutput())))
    return false;
  if (c.size() != d.size() ||
      !std::is_permutation(c.begin(), c.end(), d.begin()))
    return false;
  return a.SharesAttrs(b) || a.attrs() == b.attrs();
}

// A hash table of nodes: chains through arrays, with one entry per node.
class SeenNodes {
 public:
  explicit SeenNodes(const Graph& graph)
      : graph_(graph),
        next_(graph.nodes().size()),
        hash_(graph.nodes().size()) {
    size_t n = 16;
    while (n < next_.size()) n *= 2;
    first_.resize(n, -1);
  }
  // An earlier node that computes the same; null if none, and then adds `n`.
  Node* FindOrAdd(const Node& n) {
    const auto id = static_cast<size_t>(n.id());
    hash_[id] = Hash(n);
    int& first = first_[hash_[id] & (first_.size() - 1)];
    for (int i = first; i >= 0; i = next_[static_cast<size_t>(i)]) {
      const auto other = static_cast<size_t>(i);
      if (hash_[other] == hash_[id] && Same(*graph_.nodes()[other], n))
        return graph_.nodes()[other].get();
    }
    next_[id] = std::exchange(first, n.id());
    return nullptr;
  }

 private:
  const Graph& graph_;
  std::vector<int> first_;      // By hash: an id, or -1.
  std::vector<int> next_;       // By id.
  std::vector<uint64_t> hash_;  // By id.
};

}  // namespace

Status MergeCommonSubexpressions(Graph* graph) {
  SLUICE_ASSIGN_OR_RETURN(const std::vector<Node*> order,
                          TopologicalOrder(*graph));
  // By id: the node that replaces it, or null.
  std::vector<Node*> merged(order.size(), nullptr);
  auto instead = [&](const Node* n) {
    return merged[static_cast<size_t>(n->id())];
  };
  SeenNodes seen(*graph);
  for (Node* n : order) {
    for (int i = 0; i < n->num_inputs(); ++i)
      if (Node* other = instead(n->input(i).node))
        SLUICE_RETURN_IF_ERROR(
            graph->ReplaceInput(n, i, Output(other, n->input(i).index)));
    if (std::any_of(n->control_inputs().begin(), n->control_inputs().end(),
                    instead)) {
      std::vector<Node*> control;
      std::unordered_set<const Node*> have;
      for (Node* c : n->control_inputs()) {
        if (Node* other = instead(c)) c = other;
        if (have.insert(c).second) control.push_back(c);
      }
      graph->SetControlInputs(n, std::move(control));
    }
    if (Mergeable(*n))
      merged[static_cast<size_t>(n->id())] = seen.FindOrAdd(*n);
  }
  return OkStatus();
}

}  // namespace sluice
