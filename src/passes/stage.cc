#include "passes/stage.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "graph/frames.h"
#include "graph/hidden_attributes.h"
#include "passes/properties.h"

namespace sluice {
namespace {

// The feeds that one fetch needs, found as in Prune.
class Search {
 public:
  Search(const Graph& graph, const StepSignature& s)
      : seen_(graph.nodes().size(), 0), needed_(s.feeds.size(), 0) {
    for (size_t i = 0; i < s.feeds.size(); ++i) feeds_.emplace(s.feeds[i], i);
  }

  std::vector<size_t> Behind(const Output& fetch) {
    std::fill(seen_.begin(), seen_.end(), 0);
    std::fill(needed_.begin(), needed_.end(), 0);
    Visit(fetch);
    while (!stack_.empty()) {
      const Node* n = stack_.back();
      stack_.pop_back();
      for (const Output& in : n->inputs())
        if (in.valid()) Visit(in);
      for (Node* c : n->control_inputs()) {
        IsFedInPlace(*c) ? Visit(Output(c)) : Visit(c);
      }
    }
    std::vector<size_t> feeds;
    for (size_t i = 0; i < needed_.size(); ++i)
      if (needed_[i] != 0) feeds.push_back(i);
    return feeds;
  }

 private:
  void Visit(const Output& o) {
    if (const auto it = feeds_.find(o); it != feeds_.end())
      needed_[it->second] = 1;
    else
      Visit(o.node);
  }
  void Visit(const Node* n) {
    uint8_t& seen = seen_[static_cast<size_t>(n->id())];
    if (seen == 0) stack_.push_back(n);
    seen = 1;
  }

  OutputMap<size_t> feeds_;
  std::vector<uint8_t> seen_;    // By id.
  std::vector<uint8_t> needed_;  // By feed.
  std::vector<const Node*> stack_;
};

// The nodes of one partition.
class Opener {
 public:
  Opener(Partitions* parts, size_t partition, OpenEnds* ends)
      : graph_(parts->graphs[partition].get()),
        device_(parts->devices[partition]),
        partition_(partition),
        outside_(static_cast<int64_t>(parts->graphs.size())),
        ends_(ends) {}

  Status Run() {
    std::vector<Node*> args, retvals;
    for (const auto& n : graph_->nodes()) {
      if (n->op().role == OpRole::kRecv) {
        edge_ = std::max(edge_, n->IntAttr("edge") + 1);
        group_ = std::max(group_, n->IntAttr("group") + 1);
      }
      if (!FunctionOf(*n).empty()) continue;
      if (n->op().role == OpRole::kArg) args.push_back(n.get());
      if (n->op().role == OpRole::kRetval) retvals.push_back(n.get());
    }
    for (const Node* n : retvals) SLUICE_RETURN_IF_ERROR(Leave(*n));
    std::unordered_map<const Node*, Node*> entered;
    for (const Node* n : args) {
      SLUICE_ASSIGN_OR_RETURN(entered[n], Enter(*n));
    }
    for (const auto& n : graph_->nodes()) {
      for (int i = 0; i < n->num_inputs(); ++i)
        if (const auto it = entered.find(n->input(i).node); it != entered.end())
          SLUICE_RETURN_IF_ERROR(
              graph_->ReplaceInput(n.get(), i, Output(it->second)));
      const std::vector<Node*> controls = n->control_inputs();
      for (const Node* c : controls)
        if (const auto it = entered.find(c); it != entered.end())
          graph_->ReplaceControlInput(n.get(), c, it->second);
    }
    std::vector<uint8_t> keep(graph_->nodes().size(), 1);
    for (const auto* gone : {&args, &retvals})
      for (const Node* n : *gone) keep[static_cast<size_t>(n->id())] = 0;
    graph_->Retain(keep);
    return OkStatus();
  }

 private:
  Status Leave(const Node& retval) {
    const int64_t fetch = retval.IntAttr("index");
    if (fetch < 0 || static_cast<size_t>(fetch) >= ends_->fetches.size())
      return Internal("fetch: expected one of ", ends_->fetches.size(),
                      ", got number ", fetch);
    NodeSpec send = Transfer("_Send", retval);
    send.inputs = {retval.input(0)};
    send.attrs["tensor_name"] = retval.input(0).name();
    send.attrs["edge"] = fetch;
    send.attrs["group"] = fetch;
    send.attrs["destination"] = outside_;
    send.attrs["leads_group"] = true;
    SLUICE_RETURN_IF_ERROR(graph_->AddNode(std::move(send)).status());
    ends_->fetches[static_cast<size_t>(fetch)] =
        static_cast<uint32_t>(partition_);
    return OkStatus();
  }
  Result<Node*> Enter(const Node& arg) {
    const int64_t feed = arg.IntAttr("index");
    if (feed < 0 || static_cast<size_t>(feed) >= ends_->feeds.size())
      return Internal("feed: expected one of ", ends_->feeds.size(),
                      ", got number ", feed);
    NodeSpec recv = Transfer("_Recv", arg);
    recv.attrs["tensor_name"] =
        arg.AttrOr<std::string>(kFedEdgeAttr, arg.name());
    recv.attrs["edge"] = edge_;
    recv.attrs["group"] = group_++;
    SLUICE_ASSIGN_OR_RETURN(Node * node, graph_->AddNode(std::move(recv)));
    SLUICE_RETURN_IF_ERROR(graph_->SetShape(Output(node), arg.output_shape(0)));
    ends_->feeds[static_cast<size_t>(feed)] = {
        static_cast<uint32_t>(partition_), static_cast<uint32_t>(edge_++)};
    return node;
  }
  // The attributes that both ends for `n` share.
  NodeSpec Transfer(const char* op, const Node& n) const {
    NodeSpec spec;
    spec.op = op;
    spec.name = graph_->UniqueName(absl::StrCat(n.name(), "/_open"));
    spec.control_inputs = n.control_inputs();
    spec.attrs["T"] = n.TypeAttr("T");
    spec.attrs["send_device"] = device_;
    spec.attrs["recv_device"] = device_;
    spec.device = device_;
    spec.loc = n.loc();
    return spec;
  }

  Graph* const graph_;
  const std::string device_;
  const size_t partition_;
  const int64_t outside_;
  OpenEnds* const ends_;
  int64_t edge_ = 0, group_ = 0;  // Next numbers.
};

}  // namespace

std::vector<std::vector<size_t>> FeedsNeeded(const Graph& graph,
                                             const StepSignature& s) {
  Search search(graph, s);
  std::vector<std::vector<size_t>> feeds;
  for (const Output& fetch : s.fetches) feeds.push_back(search.Behind(fetch));
  return feeds;
}

Result<OpenEnds> OpenTheEnds(Partitions* parts, size_t feeds, size_t fetches) {
  OpenEnds ends;
  ends.feeds.resize(feeds);
  ends.fetches.resize(fetches);
  for (size_t p = 0; p < parts->graphs.size(); ++p) {
    SLUICE_RETURN_IF_ERROR(Opener(parts, p, &ends).Run());
    SLUICE_RETURN_IF_ERROR(
        CheckAfter("OpenTheEnds", *parts->graphs[p],
                   kConnected | kLowered | kPlaced | kOneDevice | kOpenEnds));
  }
  return ends;
}

}  // namespace sluice
