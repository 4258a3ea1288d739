#include <algorithm>
#include <cstring>
#include <unordered_set>

#include "graph/builder.h"
#include "graph/hidden_attributes.h"
#include "passes/passes.h"

namespace sluice {
namespace {

// Adam's update of a variable for a gradient of some rows, as TensorFlow builds
// it:
//
//   kept_m = Assign(m, m * beta1)
//   added_m = ScatterAdd(m, indices, g * (1 - beta1))   after kept_m
//   kept_v = Assign(v, v * beta2)
//   added_v = ScatterAdd(v, indices, (g * g) * (1 - beta2))   after kept_v
//   root = AssignSub(var, rate * m / (sqrt(v) + epsilon))   of later reads
//
// where rate = lr * sqrt(1 - beta2_power) / (1 - beta1_power).
struct SparseAdamUpdate {
  Output var, m, v, beta1_power, beta2_power, lr, beta1, beta2, epsilon;
  Output gradient, indices;
  std::vector<Node*> nodes;  // It consists of them.
  // Those that write a variable, or have a value that exists only after that:
  // the values must have no other readers.
  std::unordered_set<const Node*> late;
  std::vector<Node*> reads;  // Of the moments before the update.
};

// Recognises the update that ends in a node, from the end to the beginning.
// Functions return whether their part has the form.
class SparseAdamMatcher {
 public:
  explicit SparseAdamMatcher(Node* root) : root_(root) {}

  bool Match() {
    if (root_->kind() != OpKind::kAssignSub || root_->num_inputs() != 2)
      return false;
    found_.var = root_->input(0);
    Late(root_);
    const Node* const step = Late(root_->input(1), OpKind::kDiv);
    if (step == nullptr) return false;
    const Node* const moved = Late(step->input(0), OpKind::kMul);
    const Node* const divisor = Late(step->input(1), OpKind::kAdd);
    if (moved == nullptr || divisor == nullptr) return false;
    const Node* const root_of_v = Late(divisor->input(0), OpKind::kSqrt);
    if (root_of_v == nullptr || !Rate(moved->input(0))) return false;
    found_.epsilon = divisor->input(1);
    const Node* const added_m = Added(moved->input(1));
    const Node* const added_v = Added(root_of_v->input(0));
    if (added_m == nullptr || added_v == nullptr) return false;
    found_.m = added_m->input(0);
    found_.v = added_v->input(0);
    found_.indices = added_m->input(1);
    const Node* const part_of_m = Take(added_m->input(2), OpKind::kMul);
    const Node* const part_of_v = Take(added_v->input(2), OpKind::kMul);
    if (part_of_m == nullptr || part_of_v == nullptr) return false;
    const Node* const square = Take(part_of_v->input(0), OpKind::kMul);
    found_.gradient = part_of_m->input(0);
    if (square == nullptr || !square->input(0).SameAs(found_.gradient) ||
        !square->input(1).SameAs(found_.gradient) ||
        !added_v->input(1).SameAs(found_.indices) ||
        !OneMinus(part_of_m->input(1), &found_.beta1) ||
        !OneMinus(part_of_v->input(1), &found_.beta2) ||
        !Kept(*added_m, found_.beta1) || !Kept(*added_v, found_.beta2) ||
        !FitsOneOp())
      return false;
    SkipSums();
    return true;
  }

  const SparseAdamUpdate& found() const { return found_; }

 private:
  void Late(Node* n) {
    found_.nodes.push_back(n);
    found_.late.insert(n);
  }
  // The node of a value, which becomes part of the update; null if it is of
  // another kind.
  Node* Take(const Output& value, OpKind kind) {
    if (!value.valid() || value.node->kind() != kind) return nullptr;
    found_.nodes.push_back(value.node);
    return value.node;
  }
  Node* Late(const Output& value, OpKind kind) {
    Node* const n = Take(value, kind);
    if (n != nullptr) found_.late.insert(n);
    return n;
  }

  static bool IsRead(const Node* n) {
    return n->num_inputs() == 1 && (n->kind() == OpKind::kReadVariable ||
                                    n->kind() == OpKind::kIdentity);
  }
  static bool IsAssignmentOf(const Node* n, const Output& moment) {
    return n->kind() == OpKind::kAssign && n->num_inputs() == 2 &&
           n->input(0).SameAs(moment);
  }

  static bool IsOne(const Output& value) {
    if (!value.valid() || value.node->op().role != OpRole::kConst) return false;
    const Tensor t = value.node->AttrOr<Tensor>("value", Tensor());
    if (!t.valid() || t.rank() != 0) return false;
    const Result<Tensor> one = ScalarTensor(t.dtype(), 1);
    return one.ok() && std::memcmp(t.raw(), one->raw(), t.bytes()) == 0;
  }

  bool OneMinus(const Output& value, Output* x) {
    const Node* const n = Take(value, OpKind::kSub);
    if (n == nullptr || !IsOne(n->input(0))) return false;
    *x = n->input(1);
    return true;
  }

  bool Rate(const Output& value) {
    const Node* const quotient = Take(value, OpKind::kDiv);
    if (quotient == nullptr) return false;
    const Node* const product = Take(quotient->input(0), OpKind::kMul);
    if (product == nullptr) return false;
    const Node* const root = Take(product->input(1), OpKind::kSqrt);
    found_.lr = product->input(0);
    return root != nullptr && OneMinus(root->input(0), &found_.beta2_power) &&
           OneMinus(quotient->input(1), &found_.beta1_power);
  }

  // The ScatterAdd whose result a moment is: its output, or a read behind it.
  Node* Added(const Output& moment) {
    if (!moment.valid()) return nullptr;
    Node* added =
        moment.node->kind() == OpKind::kScatterAdd ? moment.node : nullptr;
    if (added == nullptr && IsRead(moment.node)) {
      const Output& read = moment.node->input(0);
      if (read.node->kind() == OpKind::kScatterAdd) added = read.node;
      for (Node* c : moment.node->control_inputs())
        if (c->kind() == OpKind::kScatterAdd && c->input(0).SameAs(read))
          added = c;
      if (added != nullptr) Late(moment.node);
    }
    if (added != nullptr) Late(added);
    return added;
  }

  // Whether the moment of a ScatterAdd decays before it.
  bool Kept(const Node& added, const Output& beta) {
    const Output moment = added.input(0);
    Node* kept = nullptr;
    for (Node* c : added.control_inputs()) {
      Node* assign = IsAssignmentOf(c, moment) ? c : nullptr;
      // (TensorFlow waits for a read behind the assignment.)
      if (IsRead(c) && c->input(0).SameAs(moment))
        for (Node* before : c->control_inputs())
          if (IsAssignmentOf(before, moment)) assign = before;
      if (assign == nullptr) continue;
      if (kept != nullptr) return false;
      kept = assign;
      Late(kept);
      if (c != kept) Late(c);
    }
    if (kept == nullptr) return false;
    const Node* const product = Take(kept->input(1), OpKind::kMul);
    if (product == nullptr || !product->input(1).SameAs(beta)) return false;
    Node* const read = product->input(0).node;
    if (!IsRead(read) || !read->input(0).SameAs(moment)) return false;
    found_.reads.push_back(read);
    return true;
  }

  // Three arrays, scalars, and a vector of indices.
  bool FitsOneOp() const {
    const SparseAdamUpdate& f = found_;
    if (f.var.SameAs(f.m) || f.var.SameAs(f.v) || f.m.SameAs(f.v)) return false;
    for (const Output& o :
         {f.beta1_power, f.beta2_power, f.lr, f.beta1, f.beta2, f.epsilon})
      if (!o.shape().rank_known() || o.shape().rank() != 0) return false;
    return f.indices.shape().rank_known() && f.indices.shape().rank() == 1;
  }

  // The one op adds up repeated rows by itself.
  void SkipSums() {
    Node* const sums = found_.gradient.node;
    Node* const unique = found_.indices.node;
    if (found_.indices.index != 0 || sums->num_inputs() != 3 ||
        sums->kind() != OpKind::kUnsortedSegmentSum ||
        unique->kind() != OpKind::kUnique ||
        !sums->input(1).SameAs(Output(found_.indices.node, 1)))
      return;
    // The number of sums is that of the distinct indices.
    Node* const count = sums->input(2).node;
    if (count->kind() != OpKind::kStridedSlice) return;
    const Node* const shape = count->input(0).node;
    if (shape->kind() != OpKind::kShape ||
        !shape->input(0).SameAs(found_.indices) ||
        count->output_shape(0).rank() != 0)
      return;
    for (Node* n : {sums, unique, count}) found_.nodes.push_back(n);
    found_.gradient = sums->input(0);
    found_.indices = unique->input(0);
  }

  Node* const root_;
  SparseAdamUpdate found_;
};

class SparseAdamFuser {
 public:
  SparseAdamFuser(Graph* graph, const std::vector<Node*>& keep)
      : graph_(graph), keep_(keep.begin(), keep.end()) {
    readers_.resize(graph->nodes().size());
    for (const auto& n : graph->nodes()) {
      for (const Output& in : n->inputs())
        if (in.valid()) readers_[Id(in.node)].push_back({n.get(), false});
      for (const Node* c : n->control_inputs())
        readers_[Id(c)].push_back({n.get(), true});
    }
  }

  Status Fuse(Node* root) {
    SparseAdamMatcher matcher(root);
    if (!matcher.Match()) return OkStatus();
    const SparseAdamUpdate& f = matcher.found();
    for (const Node* n : f.late) {
      if (keep_.count(n) != 0 || n->device() != DeviceOf(n, root))
        return OkStatus();
      for (const Reader& r : readers_[Id(n)])
        if (!r.control && f.late.count(r.node) == 0) return OkStatus();
    }
    NodeSpec spec;
    spec.op =
        IsRef(f.var.dtype()) ? "SparseApplyAdam" : "ResourceSparseApplyAdam";
    spec.name = graph_->UniqueName(root->name() + "/" + spec.op);
    spec.device = root->device();
    spec.loc = root->loc();
    spec.inputs = {f.var,         f.m,        f.v,      f.beta1_power,
                   f.beta2_power, f.lr,       f.beta1,  f.beta2,
                   f.epsilon,     f.gradient, f.indices};
    spec.attrs["T"] = RemoveRef(f.gradient.dtype());
    spec.attrs["Tindices"] = f.indices.dtype();
    if (const AttrValue* a = root->FindAttr(kColocationAttr))
      spec.attrs[kColocationAttr] = *a;
    AttrValue::Strings from;
    const std::unordered_set<const Node*> nodes(f.nodes.begin(), f.nodes.end());
    std::vector<Node*>& waits = spec.control_inputs;
    for (Node* n : f.nodes) {
      if (f.late.count(n) != 0) from.push_back(n->Describe());
      for (Node* c : n->control_inputs())
        if (nodes.count(c) == 0) waits.push_back(c);
    }
    // Who else reads the moments does so before the update.
    for (Node* n : f.reads) {
      for (Node* c : n->control_inputs())
        if (nodes.count(c) == 0) waits.push_back(c);
      if (readers_[Id(n)].size() > 1) waits.push_back(n);
    }
    std::sort(waits.begin(), waits.end(),
              [](const Node* a, const Node* b) { return a->id() < b->id(); });
    waits.erase(std::unique(waits.begin(), waits.end()), waits.end());
    spec.attrs[kFusedFromAttr] = std::move(from);
    if (WaitForUpdate(spec, f)) return OkStatus();
    Result<Node*> added = graph_->AddNode(std::move(spec));
    if (!added.ok()) return OkStatus();
    readers_.resize(graph_->nodes().size());
    for (const Output& in : (*added)->inputs())
      readers_[Id(in.node)].push_back({*added, false});
    for (const Node* c : (*added)->control_inputs())
      readers_[Id(c)].push_back({*added, true});
    for (const Node* n : f.late)
      for (const Reader& r : readers_[Id(n)])
        if (r.control && f.late.count(r.node) == 0) {
          graph_->ReplaceControlInput(r.node, n, *added);
          readers_[Id(*added)].push_back(r);
        }
    return OkStatus();
  }

 private:
  struct Reader {
    Node* node;
    bool control;
  };
  static size_t Id(const Node* n) { return static_cast<size_t>(n->id()); }

  // What the device of a node has to be: writers are where the root is.
  static const std::string& DeviceOf(const Node* n, const Node* root) {
    const bool writes = n->kind() == OpKind::kAssign ||
                        n->kind() == OpKind::kScatterAdd ||
                        n->kind() == OpKind::kAssignSub;
    return writes ? root->device() : n->device();
  }

  // Whether an input of the one op would wait for a part of the update.
  static bool WaitForUpdate(const NodeSpec& spec, const SparseAdamUpdate& f) {
    std::unordered_set<const Node*> seen;
    std::vector<const Node*> open(spec.control_inputs.begin(),
                                  spec.control_inputs.end());
    for (const Output& in : spec.inputs) open.push_back(in.node);
    while (!open.empty()) {
      const Node* const n = open.back();
      open.pop_back();
      // (What an earlier iteration did is done.)
      if (n->op().role == OpRole::kNextIteration || !seen.insert(n).second)
        continue;
      if (f.late.count(n) != 0) return true;
      for (const Output& in : n->inputs())
        if (in.valid()) open.push_back(in.node);
      for (const Node* c : n->control_inputs()) open.push_back(c);
    }
    return false;
  }

  Graph* const graph_;
  const std::unordered_set<const Node*> keep_;
  std::vector<std::vector<Reader>> readers_;  // By id.
};

}  // namespace

Status FuseSparseAdam(Graph* graph, const std::vector<Node*>& keep) {
  std::vector<Node*> roots;
  for (const auto& n : graph->nodes())
    if (n->kind() == OpKind::kAssignSub) roots.push_back(n.get());
  if (roots.empty()) return OkStatus();
  SparseAdamFuser fuser(graph, keep);
  for (Node* n : roots) SLUICE_RETURN_IF_ERROR(fuser.Fuse(n));
  return OkStatus();
}

}  // namespace sluice
