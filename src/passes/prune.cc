#include <algorithm>
#include <map>
#include <unordered_map>

#include "graph/hidden_attributes.h"
#include "graph/liveness.h"
#include "graph/tensor_store_info.h"
#include "passes/passes.h"

namespace sluice {
namespace {

// Marks nodes, by id, and keeps a stack of those whose inputs have not been
// followed.
class Marks {
 public:
  explicit Marks(const Graph& graph) : marked_(graph.nodes().size(), 0) {}
  void Add(Node* n) {
    uint8_t& mark = marked_[static_cast<size_t>(n->id())];
    if (mark == 0) {
      mark = 1;
      stack_.push_back(n);
    }
  }
  bool Has(const Node* n) const {
    return marked_[static_cast<size_t>(n->id())] != 0;
  }
  Node* Pop() {  // Null at the end.
    if (stack_.empty()) return nullptr;
    Node* n = stack_.back();
    stack_.pop_back();
    return n;
  }
  const std::vector<uint8_t>& marked() const { return marked_; }

 private:
  std::vector<uint8_t> marked_;
  std::vector<Node*> stack_;
};

// Copies the needed part of a graph.
class Pruner {
 public:
  Pruner(const Graph& graph, const StepSignature& s)
      : graph_(graph),
        signature_(s),
        needed_(graph),
        feeds_of_(graph.nodes().size(), 0),
        copies_(graph.nodes().size(), nullptr),
        out_(new Graph) {}

  Result<std::unique_ptr<Graph>> Run() {
    SLUICE_RETURN_IF_ERROR(FindFeeds());
    SLUICE_RETURN_IF_ERROR(FindNeeded());
    SLUICE_ASSIGN_OR_RETURN(const std::vector<Node*> order,
                            TopologicalOrder(graph_, &needed_.marked()));
    out_->Reserve(order.size() + signature_.feeds.size() +
                  signature_.fetches.size());
    out_->producer_version = graph_.producer_version;
    out_->ShareLibrary(graph_);
    SLUICE_RETURN_IF_ERROR(MakeArgs());
    for (const Node* n : order) Copy(*n);
    for (const Node* n : open_) SLUICE_RETURN_IF_ERROR(CloseBackEdges(*n));
    SLUICE_RETURN_IF_ERROR(MakeRetvals());
    return std::move(out_);
  }

 private:
  Status FindFeeds() {
    for (size_t i = 0; i < signature_.feeds.size(); ++i) {
      const Output& o = signature_.feeds[i];
      if (!fed_.emplace(o, static_cast<int>(i)).second)
        return InvalidArgument("feeds: expected each edge once, got '",
                               o.name(), "' twice");
      feeds_of_[static_cast<size_t>(o.node->id())] = 1;
    }
    return OkStatus();
  }
  // The position among the feeds, or -1.
  int FeedOf(const Output& o) const {
    if (feeds_of_[static_cast<size_t>(o.node->id())] == 0) return -1;
    auto it = fed_.find(o);
    return it == fed_.end() ? -1 : it->second;
  }
  int FeedInPlaceOf(Node* n) const {
    return IsFedInPlace(*n) ? FeedOf(Output(n)) : -1;
  }

  // Backwards from the fetches and targets to the feeds.
  Status FindNeeded() {
    auto need_output = [this](const Output& o) {
      if (FeedOf(o) < 0) needed_.Add(o.node);
    };
    auto need_node = [this](Node* n) {
      if (FeedInPlaceOf(n) < 0) needed_.Add(n);
    };
    for (const Output& o : signature_.fetches) need_output(o);
    for (Node* n : signature_.targets) need_node(n);
    // No edge leads from a read of a TensorStore to the writes that it waits
    // for.
    Status status;
    const auto follow = [&] {
      while (Node* n = needed_.Pop()) {
        if (status.ok()) status = n->CheckNoPlaceholders();
        for (const Output& in : n->inputs()) {
          if (in.valid()) {
            need_output(in);
          } else if (status.ok()) {
            status = InvalidArgument(
                "input: expected an edge, got an open back edge "
                "(CloseMerge closes it); ",
                n->Describe());
          }
        }
        for (Node* c : n->control_inputs()) need_node(c);
      }
    };
    StoreWriters(graph_).Close([this](const Node* n) { return needed_.Has(n); },
                               follow, [this](Node* n) { needed_.Add(n); });
    return status;
  }

  // The colocation groups of the _Arg for an edge of `n`: those of `n`, and its
  // own, which others may name.
  static AttrValue GroupsOf(const Node& n) {
    AttrValue::Strings groups = {absl::StrCat("loc:@", n.name())};
    if (const AttrValue* a = n.FindAttr(kColocationAttr))
      if (const auto* more = a->get<AttrValue::Strings>())
        groups.insert(groups.end(), more->begin(), more->end());
    return AttrValue(std::move(groups));
  }

  Status MakeArgs() {
    for (size_t i = 0; i < signature_.feeds.size(); ++i) {
      const Output& o = signature_.feeds[i];
      NodeSpec arg;
      arg.op = "_Arg";
      arg.name =
          out_->UniqueName(graph_.FindNode(absl::StrCat("_arg_", i)) != nullptr
                               ? absl::StrCat("_arg_fed_", i)
                               : absl::StrCat("_arg_", i));
      arg.attrs = {{"T", RemoveRef(o.dtype())},
                   {"index", static_cast<int64_t>(i)},
                   {kFedEdgeAttr, o.name()},  // For messages, as is the next.
                   {kFedNodeAttr, o.node->Describe()},
                   {kColocationAttr, GroupsOf(*o.node)},
                   {kOutputShapesAttr, AttrValue::Shapes{o.shape()}}};
      arg.device = o.node->device();
      arg.loc = o.node->loc();
      SLUICE_ASSIGN_OR_RETURN(Node * node, out_->AddNode(std::move(arg)));
      args_.push_back(node);
    }
    return OkStatus();
  }

  // The copy of an edge; null if its node is copied later. Fed edges of a node
  // that runs, for its other outputs or as a target, keep the fed value.
  Output Map(const Output& o) const {
    if (const int feed = FeedOf(o); feed >= 0)
      return Output(args_[static_cast<size_t>(feed)]);
    Node* copy = copies_[static_cast<size_t>(o.node->id())];
    return copy == nullptr ? Output() : Output(copy, o.index);
  }

  void Copy(const Node& n) {
    std::vector<Output> inputs;
    inputs.reserve(n.inputs().size());
    bool open = false;
    for (const Output& in : n.inputs()) {
      inputs.push_back(Map(in));
      open |= !inputs.back().valid();
    }
    if (open) open_.push_back(&n);
    std::vector<Node*> control;
    control.reserve(n.control_inputs().size());
    for (Node* c : n.control_inputs()) {
      const int feed = FeedInPlaceOf(c);
      control.push_back(feed >= 0 ? args_[static_cast<size_t>(feed)]
                                  : copies_[static_cast<size_t>(c->id())]);
    }
    copies_[static_cast<size_t>(n.id())] =
        out_->CopyNode(n, std::move(inputs), std::move(control));
  }

  Status CloseBackEdges(const Node& n) {
    Node* copy = copies_[static_cast<size_t>(n.id())];
    for (int i = 0; i < n.num_inputs(); ++i)
      if (!copy->input(i).valid())
        SLUICE_RETURN_IF_ERROR(out_->SetBackEdge(copy, i, Map(n.input(i))));
    return OkStatus();
  }

  Status MakeRetvals() {
    for (size_t i = 0; i < signature_.fetches.size(); ++i) {
      const Output o = Map(signature_.fetches[i]);
      NodeSpec retval;
      retval.op = "_Retval";
      retval.name = out_->UniqueName(absl::StrCat("_retval_", i));
      retval.inputs = {o};
      retval.attrs = {{"T", RemoveRef(o.dtype())},
                      {"index", static_cast<int64_t>(i)}};
      // (A pass may replace the node that is read here.)
      retval.attrs[kFetchedAttr] = signature_.fetches[i].name();
      retval.attrs[kFetchedNodeAttr] = signature_.fetches[i].node->Describe();
      retval.loc = signature_.fetches[i].node->loc();
      SLUICE_RETURN_IF_ERROR(out_->AddNode(std::move(retval)).status());
    }
    return OkStatus();
  }

  const Graph& graph_;
  const StepSignature& signature_;
  OutputMap<int> fed_;
  Marks needed_;
  std::vector<uint8_t> feeds_of_;  // By id: some output is fed.
  std::vector<Node*> copies_;      // By id.
  std::vector<Node*> args_;
  std::vector<const Node*> open_;  // Copied before the source of a back edge.
  std::unique_ptr<Graph> out_;
};

}  // namespace

namespace {

// (In a partition a call may run for its body alone, whose values are sent.)
bool IsBoundary(const Node& n) {
  const OpRole role = n.op().role;
  return role == OpRole::kRetval || role == OpRole::kArg ||
         role == OpRole::kSend || role == OpRole::kRecv ||
         role == OpRole::kCall;
}

// Marks what is needed if results of functions that no call's readers need are
// left out.
class ResultMarks {
 public:
  ResultMarks(const Graph& graph, const Frames& frames,
              const Liveness& liveness)
      : graph_(graph), frames_(frames), liveness_(liveness), needed_(graph) {
    returns_.resize(static_cast<size_t>(frames.size()));
    for (const auto& n : graph.nodes())
      if (IsReturn(*n))
        returns_[FrameOf(*n)].emplace(n->IntAttr("index"), n.get());
  }

  const std::vector<uint8_t>& Find(const std::vector<Node*>& targets) {
    for (const auto& n : graph_.nodes())
      if (!IsReturn(*n) && (IsBoundary(*n) || StartsFunction(*n)))
        needed_.Add(n.get());
    for (Node* n : targets) needed_.Add(n);
    // A call is dead if one result is: where that may happen, all stay.
    for (int f = 0; f < frames_.size(); ++f)
      if (!liveness_.is_regular(f)) NeedAllOf(static_cast<size_t>(f));
    Follow();
    // A call ends with its results, so one of them stays.
    for (size_t f = 0; f < returns_.size(); ++f) {
      const auto is_needed = [this](const auto& r) {
        return needed_.Has(r.second);
      };
      if (std::none_of(returns_[f].begin(), returns_[f].end(), is_needed))
        NeedAllOf(f);
      Follow();
    }
    return needed_.marked();
  }

 private:
  size_t FrameOf(const Node& n) const {
    return static_cast<size_t>(frames_.frame_of(&n));
  }
  static bool StartsFunction(const Node& n) {
    return n.op().role != OpRole::kCall && !FunctionOf(n).empty();
  }
  bool IsReturn(const Node& n) const {
    return n.op().role == OpRole::kRetval &&
           frames_[frames_.frame_of(&n)].is_function();
  }
  void NeedAllOf(size_t f) {
    for (const auto& [index, n] : returns_[f]) needed_.Add(n);
  }
  void Follow() {
    while (Node* n = needed_.Pop()) {
      for (const Output& in : n->inputs()) {
        needed_.Add(in.node);
        if (in.node->op().role != OpRole::kCall) continue;
        const int f = frames_.function_frame(FunctionOf(*in.node));
        const auto& returns = returns_[static_cast<size_t>(f)];
        if (const auto it = returns.find(in.index); it != returns.end())
          needed_.Add(it->second);
      }
      for (Node* c : n->control_inputs()) needed_.Add(c);
    }
  }

  const Graph& graph_;
  const Frames& frames_;
  const Liveness& liveness_;
  Marks needed_;
  std::vector<std::map<int64_t, Node*>> returns_;  // By frame.
};

}  // namespace

Result<std::vector<std::unique_ptr<Node>>> DropUnreadResults(
    Graph* graph, const std::vector<Node*>& targets) {
  std::vector<std::unique_ptr<Node>> none;
  if (std::none_of(graph->nodes().begin(), graph->nodes().end(),
                   [](const auto& n) { return n->op().role == OpRole::kCall; }))
    return none;
  SLUICE_ASSIGN_OR_RETURN(const std::vector<Node*> order,
                          TopologicalOrder(*graph));
  SLUICE_ASSIGN_OR_RETURN(const Frames frames, Frames::Of(*graph, order));
  const Liveness liveness = Liveness::Of(*graph, order, frames);
  ResultMarks marks(*graph, frames, liveness);
  const std::vector<uint8_t>& needed = marks.Find(targets);
  for (const auto& n : graph->nodes())
    if (needed[static_cast<size_t>(n->id())] == 0 &&
        n->op().role != OpRole::kRetval && n->op().facts.has_effects)
      return none;  // It runs with its function, also if nothing reads its
                    // result.
  return graph->Retain(needed);
}

bool IsFedInPlace(const Node& n) { return n.kind() == OpKind::kPlaceholder; }

Result<std::unique_ptr<Graph>> Prune(const Graph& graph,
                                     const StepSignature& s) {
  return Pruner(graph, s).Run();
}

std::vector<std::unique_ptr<Node>> DropUnread(
    Graph* graph, const std::vector<Node*>& targets) {
  Marks needed(*graph);
  for (const auto& n : graph->nodes())
    if (IsBoundary(*n)) needed.Add(n.get());
  for (Node* n : targets) needed.Add(n);
  while (Node* n = needed.Pop()) {
    for (const Output& in : n->inputs()) needed.Add(in.node);
    for (Node* c : n->control_inputs()) needed.Add(c);
  }
  return graph->Retain(needed.marked());
}

}  // namespace sluice
