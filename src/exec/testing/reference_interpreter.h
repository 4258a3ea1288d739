// The semantics of graphs with control flow, as simply as possible: every
// output is a function of its tag (the iteration of each enclosing loop),
// computed on demand. For tests; slow, and supports only the ops of
// random_graph.h.
#ifndef SLUICE_EXEC_TESTING_REFERENCE_INTERPRETER_H_
#define SLUICE_EXEC_TESTING_REFERENCE_INTERPRETER_H_

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "exec/testing/reference_ops.h"
#include "graph/node.h"

namespace sluice {

class ReferenceInterpreter {
 public:
  using Tag = std::vector<int>;
  using Token = std::optional<Tensor>;  // Null: dead.

  explicit ReferenceInterpreter(
      const std::vector<std::pair<Output, Tensor>>& feeds) {
    for (const auto& [o, t] : feeds) fed_.emplace(o.node, t);
  }

  Token Value(Output o, const Tag& tag = {}) {
    return Run(o.node, tag)[static_cast<size_t>(o.index)];
  }

  // The sum that a node which adds input 1 to a counter adds in all iterations
  // of `loops`, wrapping.
  uint32_t Total(const Node* n, const std::vector<Node*>& loops, Tag tag = {}) {
    if (tag.size() == loops.size()) {
      const Token t = Live(n, tag) ? Value(n->input(1), tag) : Token();
      return t ? static_cast<uint32_t>(t->raw_scalar<int32_t>()) : 0;
    }
    uint32_t sum = 0;
    const Node* cond = loops[tag.size()];
    tag.push_back(0);
    for (bool go = true; go; ++tag.back()) {
      const Token t = Value(Output(const_cast<Node*>(cond)), tag);
      go = t && t->raw_scalar<bool>();
      sum += Total(n, loops, tag);
    }
    return sum;
  }

 private:
  using Tokens = std::vector<Token>;

  // Whether the node runs: none of its inputs is dead.
  bool Live(const Node* n, const Tag& tag) {
    for (const Node* c : n->control_inputs())
      if (!Lives(c, tag)) return false;
    for (const Output& in : n->inputs())
      if (!Value(in, tag)) return false;
    return true;
  }
  // The same for the source of a control edge, which may only move tokens.
  bool Lives(const Node* n, const Tag& tag) {
    if (n->op().role == OpRole::kSwitch) return Live(n, tag);
    return Run(n, tag)[0].has_value();
  }

  Tokens Run(const Node* n, const Tag& tag) {
    const auto key = std::make_pair(n, tag);
    if (auto it = memo_.find(key); it != memo_.end()) return it->second;
    Tokens out = Compute(n, tag);
    memo_.emplace(key, out);
    return out;
  }

  Tokens Compute(const Node* n, Tag tag) {
    Tokens out(static_cast<size_t>(n->num_outputs()));
    if (auto it = fed_.find(n); it != fed_.end()) return {it->second};
    switch (n->op().role) {
      case OpRole::kMerge: {
        // A loop's Merge: from Enter first, then from the previous iteration.
        const bool loop = n->input(1).node->op().role == OpRole::kNextIteration;
        for (int i = 0; i < n->num_inputs(); ++i) {
          if (loop && i != (tag.back() > 0)) continue;
          if (const Token t = Value(n->input(i), tag))
            out = {t, Tensor::Scalar<int32_t>(i)};
        }
        return out;
      }
      case OpRole::kNextIteration:
        --tag.back();
        break;
      case OpRole::kEnter:
        // Into the first iteration, or as a constant into each.
        if (!n->BoolAttr("is_constant") && tag.back() != 0) return out;
        tag.pop_back();
        break;
      case OpRole::kExit: {
        // Out of the iteration in which the loop's condition is false.
        const Output cond = n->input(0).node->input(1);
        tag.push_back(0);
        for (Token t; (t = Value(cond, tag)); ++tag.back())
          if (!t->raw_scalar<bool>()) return {Value(n->input(0), tag)};
        return out;
      }
      default:
        break;
    }
    if (!Live(n, tag)) return out;
    std::vector<Tensor> in;
    for (const Output& o : n->inputs()) in.push_back(*Value(o, tag));
    switch (n->op().role) {
      case OpRole::kConst:
        return {*n->Attr<Tensor>("value")};
      case OpRole::kSwitch:
        out[in[1].raw_scalar<bool>()] = in[0];
        return out;
      case OpRole::kCompute:
        return {ReferenceOps::Compute(*n, in)};
      default:
        return {in[0]};
    }
  }

  std::map<const Node*, Tensor> fed_;
  std::map<std::pair<const Node*, Tag>, Tokens> memo_;
};

}  // namespace sluice

#endif  // SLUICE_EXEC_TESTING_REFERENCE_INTERPRETER_H_
