#include <unordered_map>

#include "graph/hidden_attributes.h"
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

bool IsFedInPlace(const Node& n) { return n.kind() == OpKind::kPlaceholder; }

Result<std::unique_ptr<Graph>> Prune(const Graph& graph,
                                     const StepSignature& s) {
  return Pruner(graph, s).Run();
}

std::vector<std::unique_ptr<Node>> DropUnread(
    Graph* graph, const std::vector<Node*>& targets) {
  Marks needed(*graph);
  for (const auto& n : graph->nodes()) switch (n->op().role) {
      case OpRole::kRetval:
      case OpRole::kArg:
      case OpRole::kSend:
      case OpRole::kRecv:
        needed.Add(n.get());
        break;
      default:
        break;
    }
  for (Node* n : targets) needed.Add(n);
  while (Node* n = needed.Pop()) {
    for (const Output& in : n->inputs()) needed.Add(in.node);
    for (Node* c : n->control_inputs()) needed.Add(c);
  }
  return graph->Retain(needed.marked());
}

}  // namespace sluice
