#include "client/nn/collectives.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>

#include "client/nn/in_graph_of.h"
#include "client/nn/optimizer_wrapper.h"
#include "client/operators.h"
#include "graph/graph.h"
#include "sluice/ops.h"

namespace sluice {
namespace {

// Instances beyond this are those of gradients.
constexpr int64_t kInstances = 1 << 24;

// The instance of a new node: the next one of its member.
int64_t NextInstance(const Node& node) {
  const auto rank = [](const Node& n) { return n.AttrOr<int64_t>("rank", -1); };
  int64_t last = 0;
  for (const auto& n : node.graph()->nodes())
    if (n.get() != &node && n->FindAttr("instance_key") != nullptr &&
        n->IntAttr("group_key") == node.IntAttr("group_key") &&
        rank(*n) == rank(node) && n->device() == node.device() &&
        n->IntAttr("instance_key") < kInstances)
      last = std::max(last, n->IntAttr("instance_key"));
  return last + 1;
}

// Numbers what was built, unless the user has: the scopes have given it its
// device only now.
Output Numbered(Output built, const CollectiveOptions& o) {
  if (built.node != nullptr && o.instance == 0)
    CurrentGraph().SetAttr(built.node, "instance_key",
                           NextInstance(*built.node));
  return built;
}

AttrMap GroupAttrs(const CollectiveOptions& o) {
  return {{"group_size", o.group.size},
          {"group_key", o.group.key},
          {"instance_key", o.instance},
          {"communication_hint", o.algorithm},
          {"rank", o.group.rank}};
}

void AddReduction(Reduction how, AttrMap* attrs) {
  const char* merge = "Add";
  if (how == Reduction::kProduct) merge = "Mul";
  if (how == Reduction::kMin) merge = "Min";
  if (how == Reduction::kMax) merge = "Max";
  (*attrs)["merge_op"] = std::string(merge);
  (*attrs)["final_op"] = std::string(how == Reduction::kMean ? "Div" : "Id");
}

Output BuildCollective(const char* op, const Operand& x,
                       const CollectiveOptions& options, const Reduction* how,
                       SourceLoc loc) {
  const Output input = x.Get();
  const std::optional<WithGraph> there = InGraphOf(input);
  std::lock_guard<std::recursive_mutex> lock(CurrentGraph().mutex());
  AttrMap attrs = GroupAttrs(options);
  if (how != nullptr) AddReduction(*how, &attrs);
  return Numbered(Build(op, {input}, std::move(attrs), "", loc), options);
}

// Why a builder returned null.
Status FailureOf(const Graph& g) {
  const Status s = g.status();
  return s.ok() ? InvalidArgument("gradient: expected one of this graph, got ",
                                  "one of another")
                : s;
}

// Gradients that are reduced as one.
struct Bucket {
  std::vector<size_t> members;
  DType dtype = DType::kInvalid;
  int64_t bytes = 0;
  bool closed = false;  // Its gradient is of unknown size, and so alone.
};

}  // namespace

Output AllReduce(const Operand& x, Reduction how,
                 const CollectiveOptions& options, SourceLoc loc) {
  return BuildCollective("CollectiveReduce", x, options, &how, loc);
}

Output AllGather(const Operand& x, const CollectiveOptions& options,
                 SourceLoc loc) {
  return BuildCollective("CollectiveGather", x, options, nullptr, loc);
}

Output ReduceScatter(const Operand& x, Reduction how,
                     const CollectiveOptions& options, SourceLoc loc) {
  return BuildCollective("CollectiveReduceScatter", x, options, &how, loc);
}

Output Broadcast(const Operand& x, bool root, const CollectiveOptions& options,
                 SourceLoc loc) {
  const Output like = x.Get();
  if (like.node == nullptr) return like;
  const std::optional<WithGraph> there = InGraphOf(like);
  std::lock_guard<std::recursive_mutex> lock(CurrentGraph().mutex());
  AttrMap attrs = GroupAttrs(options);
  attrs["shape"] = like.shape();
  if (root)
    return Numbered(
        Build("CollectiveBcastSend", {like}, std::move(attrs), "", loc),
        options);
  attrs["T"] = RemoveRef(like.dtype());
  return Numbered(Build("CollectiveBcastRecv", {}, std::move(attrs), "", loc),
                  options);
}

Result<std::vector<GradAndVar>> AllReduceGradients(
    const std::vector<GradAndVar>& grads, const AllReduceOptions& options,
    SourceLoc loc) {
  const std::optional<WithGraph> there =
      InGraphOf(grads.empty() ? Output() : grads[0].var.handle());
  Graph& g = CurrentGraph();
  std::lock_guard<std::recursive_mutex> lock(g.mutex());
  const AtLine at(loc);
  const NameScope scope("AllReduceGradients");
  std::vector<GradAndVar> means = grads;
  // By the numbers of nodes, which the backward pass makes in the order in
  // which it will compute them.
  std::vector<std::pair<int, size_t>> order;
  for (size_t i = 0; i < grads.size(); ++i) {
    if (!grads[i].var.valid())
      return InvalidArgument("AllReduceGradients: expected a variable with ",
                             "each gradient, got a null one");
    if (!grads[i].gradient) continue;
    Gradient& own = means[i].gradient;
    if (own.is_sparse()) own = Densify(own);
    if (own.dense.node == nullptr) return FailureOf(g);
    const DType t = own.dense.dtype();
    if (!IsFloating(t))
      return InvalidArgument("gradient of '", grads[i].var.name(),
                             "': expected a type that can be reduced, got ",
                             DTypeName(t));
    order.emplace_back(own.dense.node->id(), i);
  }
  std::sort(order.begin(), order.end());
  std::vector<Bucket> buckets;
  for (const auto& [number, i] : order) {
    const Output dense = means[i].gradient.dense;
    const PartialShape shape = means[i].var.shape();
    // (One of unknown size is alone.)
    const bool known = shape.fully_known();
    const int64_t bytes =
        known ? shape.ToShape()->num_elements() *
                    static_cast<int64_t>(DTypeSize(dense.dtype()))
              : options.bucket_bytes;
    const auto fits = [&](const Bucket& b) {
      return !b.closed && b.dtype == dense.dtype() &&
             b.bytes + bytes <= options.bucket_bytes;
    };
    if (buckets.empty() || !known || !fits(buckets.back()))
      buckets.push_back({{}, dense.dtype(), 0, !known});
    buckets.back().members.push_back(i);
    buckets.back().bytes += bytes;
  }
  const CollectiveOptions call = {.group = options.group,
                                  .algorithm = options.algorithm};
  for (const Bucket& b : buckets) {
    if (b.members.size() == 1) {
      Gradient& only = means[b.members[0]].gradient;
      only = AllReduce(only.dense, Reduction::kMean, call, loc);
      if (only.dense.node == nullptr) return FailureOf(g);
      continue;
    }
    std::vector<Output> flat;
    std::vector<int64_t> sizes;
    for (const size_t i : b.members) {
      flat.push_back(ops::Reshape(means[i].gradient.dense, {-1}));
      sizes.push_back(means[i].var.shape().ToShape()->num_elements());
    }
    const Output mean = AllReduce(ops::ConcatV2(flat, Constant(int32_t{0})),
                                  Reduction::kMean, call, loc);
    int64_t begin = 0;
    for (size_t k = 0; k < b.members.size(); ++k) {
      const Tensor from = Tensor::Vector<int64_t>({begin});
      const Tensor size = Tensor::Vector<int64_t>({sizes[k]});
      const Dims dims = means[b.members[k]].var.shape().dims();
      const Tensor shape = Tensor::Vector<int64_t>(
          std::vector<int64_t>(dims.begin(), dims.end()));
      Gradient& part = means[b.members[k]].gradient;
      part = ops::Reshape(ops::Slice(mean, Constant(from), Constant(size)),
                          Constant(shape));
      if (part.dense.node == nullptr) return FailureOf(g);
      begin += sizes[k];
    }
  }
  return means;
}

Node* AllReduceOptimizer::Minimize(Output loss, const MinimizeOptions& options,
                                   SourceLoc loc) {
  return MinimizeThrough(*this, optimizer_, loss, options, loc);
}

Node* AllReduceOptimizer::ApplyGradients(const std::vector<GradAndVar>& grads,
                                         const MinimizeOptions& options,
                                         SourceLoc loc) {
  const std::optional<WithGraph> there =
      InGraphOf(grads.empty() ? Output() : grads[0].var.handle());
  Result<std::vector<GradAndVar>> means =
      AllReduceGradients(grads, options_, loc);
  Status s = means.status();
  if (s.ok()) {
    const Result<Node*> applied =
        optimizer_.ApplyGradients(*means, options, loc);
    if (applied.ok()) return *applied;
    s = applied.status();
  }
  BuildError(s, loc);
  return nullptr;
}

Node* AllReduceOptimizer::BroadcastVariables(bool root,
                                             std::vector<Var> variables,
                                             SourceLoc loc) {
  const std::optional<WithGraph> there =
      InGraphOf(variables.empty() ? Output() : variables[0].handle());
  Graph& g = CurrentGraph();
  std::lock_guard<std::recursive_mutex> lock(g.mutex());
  const AtLine at(loc);
  if (variables.empty()) variables = GlobalVariables();
  const NameScope scope("BroadcastVariables");
  std::vector<Node*> assigned;
  for (const Var& v : variables) {
    if (!v.valid()) {
      BuildError(InvalidArgument("BroadcastVariables: expected variables that ",
                                 "exist, got a null one"),
                 loc);
      return nullptr;
    }
    const Output value = Broadcast(
        v.Read(loc), root,
        {.group = options_.group, .algorithm = options_.algorithm}, loc);
    Node* const done = root ? value.node : v.Assign(value, loc);
    if (done == nullptr) return nullptr;
    assigned.push_back(done);
  }
  return Group(assigned);
}

}  // namespace sluice
