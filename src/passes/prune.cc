#include "passes/passes.h"
#include "passes/rewrite.h"

namespace sluice {

Result<std::unique_ptr<Graph>> Prune(const Graph& graph, const StepSignature& s) {
  std::unordered_map<Output, int, OutputHash> fed;
  for (size_t i = 0; i < s.feeds.size(); ++i)
    if (!fed.emplace(s.feeds[i], static_cast<int>(i)).second)
      return InvalidArgument("feeds: expected each edge once, got '",
                             s.feeds[i].name(), "' twice");

  // What is needed: backwards from the fetches and targets to the feeds.
  std::vector<uint8_t> needed(graph.nodes().size(), 0);
  std::vector<Node*> stack;
  auto need = [&](Node* n) {
    uint8_t& mark = needed[static_cast<size_t>(n->id())];
    if (mark == 0) {
      mark = 1;
      stack.push_back(n);
    }
  };
  auto need_output = [&](const Output& o) {
    if (!fed.count(o)) need(o.node);
  };
  // What waits for a placeholder waits for its feed: without one it would fail.
  auto is_feed = [&](Node* n) {
    return (n->op_name() == "Placeholder" || n->op_name() == "PlaceholderV2") &&
           fed.count(Output(n)) > 0;
  };
  auto need_node = [&](Node* n) {
    if (!is_feed(n)) need(n);
  };
  for (const Output& o : s.fetches) need_output(o);
  for (Node* n : s.targets) need_node(n);
  while (!stack.empty()) {
    Node* n = stack.back();
    stack.pop_back();
    for (const Output& in : n->inputs()) {
      if (!in)
        return InvalidArgument("input: expected an edge, got an open back edge "
                               "(CloseMerge closes it); ",
                               n->Describe());
      need_output(in);
    }
    for (Node* c : n->control_inputs()) need_node(c);
  }

  auto out = std::make_unique<Graph>();
  out->producer_version = graph.producer_version;
  out->functions() = graph.functions();
  GraphRewriter rewriter(graph, out.get());
  for (size_t i = 0; i < s.feeds.size(); ++i) {
    const Output& o = s.feeds[i];
    NodeSpec arg;
    arg.op = "_Arg";
    arg.name = out->UniqueName(graph.FindNode(absl::StrCat("_arg_", i))
                                   ? absl::StrCat("_arg_fed_", i)
                                   : absl::StrCat("_arg_", i));
    arg.attrs = {{"T", RemoveRef(o.dtype())},
                 {"index", static_cast<int64_t>(i)},
                 {"_output_shapes", AttrValue::Shapes{o.shape()}}};
    arg.loc = o.node->loc();
    SLUICE_ASSIGN_OR_RETURN(Node * node, out->AddNode(std::move(arg)));
    rewriter.Replace(*o.node, o.index, Output(node));
    if (is_feed(o.node)) rewriter.ReplaceControl(*o.node, node);
  }
  SLUICE_RETURN_IF_ERROR(rewriter.Run([&](const Node& n) {
    if (needed[static_cast<size_t>(n.id())] == 0) return OkStatus();
    // The node runs for its other outputs, or as a target; its fed ones stay
    // what was fed.
    std::vector<std::pair<int, Output>> keep;
    for (int i = 0; i < n.num_outputs(); ++i) {
      const Output o(const_cast<Node*>(&n), i);
      if (fed.count(o)) keep.emplace_back(i, rewriter.Map(o));
    }
    rewriter.Copy(n);
    for (const auto& [i, o] : keep) rewriter.Replace(n, i, o);
    return OkStatus();
  }));
  for (size_t i = 0; i < s.fetches.size(); ++i) {
    const Output o = rewriter.Map(s.fetches[i]);
    NodeSpec retval;
    retval.op = "_Retval";
    retval.name = out->UniqueName(absl::StrCat("_retval_", i));
    retval.inputs = {o};
    retval.attrs = {{"T", RemoveRef(o.dtype())}, {"index", static_cast<int64_t>(i)}};
    retval.loc = s.fetches[i].node->loc();
    SLUICE_RETURN_IF_ERROR(out->AddNode(std::move(retval)).status());
  }
  return out;
}

}  // namespace sluice
