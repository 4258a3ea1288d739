// Describes the state of a step that was stopped, for messages.
#include <algorithm>

#include "absl/strings/str_join.h"
#include "exec/core/frame.h"

namespace sluice {
namespace {

// Maximum number of a node's missing inputs that are named.
constexpr size_t kMaxInputs = 3;

}  // namespace

std::string Tokens::Where(const Iteration& it) {
  const Frame& f = *it.frame;
  if (f.plan->is_root()) return "";
  if (f.plan->is_function)
    return absl::StrCat(", function '", f.plan->name, "' at call depth ",
                        f.depth);
  return absl::StrCat(", frame '", f.plan->name, "' iteration ", it.index);
}

// Walks the live frames once, from the root. Lives for one message.
class Tokens::Describer {
 public:
  Describer(const Tokens& tokens, int most, std::span<const Ready> running)
      : t_(tokens),
        plan_(tokens.plan_),
        most_(static_cast<size_t>(std::max(most, 0))),
        running_(running) {}

  std::string Describe() {
    for (const Ready& r : running_)
      if (AddLine(&nodes_))
        lines_.push_back(absl::StrCat(
            r.node->node->Describe(), Where(*r.iteration),
            (r.node->flags & PlanNode::kWaits) != 0 ? " still waits"
                                                    : " has not finished"));
    // (Calls nest deeper than a thread's stack.)
    std::vector<const Frame*> open = {t_.root_->frame};
    while (!open.empty()) {
      const Frame& f = *open.back();
      open.pop_back();
      AddFrame(f);
      const size_t first = open.size();
      for (const Iteration* it = f.oldest; it != nullptr; it = it->next) {
        AddNodes(*it);
        for (const Frame* child : it->children)
          if (child != nullptr) open.push_back(child);
      }
      std::reverse(open.begin() + static_cast<std::ptrdiff_t>(first),
                   open.end());  // The oldest comes first.
    }
    if (nodes_ > most_)
      lines_.push_back(absl::StrCat(nodes_ - most_, " more nodes"));
    if (frames_ > most_)
      lines_.push_back(absl::StrCat(frames_ - most_, " more frames"));
    return absl::StrJoin(lines_, "; ");
  }

 private:
  // Counts one more line; returns whether there is room for it.
  bool AddLine(size_t* count) { return ++*count <= most_; }

  void AddFrame(const Frame& f) {
    if (f.plan->is_root() || !AddLine(&frames_)) return;
    std::string line = Where(*f.oldest).substr(2);
    if (f.newest != f.oldest)  // A loop of several iterations at once.
      line = absl::StrCat("frame '", f.plan->name, "' iterations ",
                          f.oldest->index, " to ", f.newest->index);
    if (!f.waiting.empty())
      absl::StrAppend(&line, " (", f.waiting.size(),
                      f.waiting.size() == 1 ? " value waits" : " values wait",
                      " for the next)");
    const std::string within = Where(*f.parent);
    if (!within.empty() && !f.plan->is_function)
      absl::StrAppend(&line, " within ", within.substr(2));
    lines_.push_back(std::move(line));
  }

  // Adds the nodes that have some but not all of their tokens.
  void AddNodes(const Iteration& it) {
    const PlanFrame& f = *it.frame->plan;
    for (uint32_t i = 0; i < f.num_nodes; ++i) {
      const uint32_t waits = it.pending[i] & ~Iteration::kDead;
      if (waits == 0 || waits >= f.initial_pending[i] || !AddLine(&nodes_))
        continue;
      std::string line = absl::StrCat(
          plan_.node(f, i).node->Describe(),
          it.frame->oldest == it.frame->newest
              ? ""
              : absl::StrCat(", iteration ", it.index),
          " waits for ", waits, " of ", f.initial_pending[i], " inputs");
      std::vector<std::string> names = Missing(it, i);
      if (names.size() > kMaxInputs) {
        names.resize(kMaxInputs);
        names.emplace_back("...");
      }
      if (!names.empty())
        absl::StrAppend(&line, ": ", absl::StrJoin(names, ", "));
      lines_.push_back(std::move(line));
    }
  }

  // The nodes whose tokens for node `local` of `it` have not arrived.
  std::vector<std::string> Missing(const Iteration& it, uint32_t local) const {
    std::vector<std::string> names;
    const auto add_if_it_feeds = [&](const PlanNode& p) {
      const PlanEdge* const e = t_.EdgesOf(p);
      if (std::any_of(e, e + p.num_edges,
                      [local](const PlanEdge& x) { return x.dst == local; }))
        names.push_back(absl::StrCat("'", p.node->name(), "'"));
    };
    const PlanFrame& f = *it.frame->plan;
    for (uint32_t i = 0; i < f.num_nodes; ++i) {
      const PlanNode& p = plan_.node(f, i);
      // (The tokens of these three go elsewhere.)
      const bool here = p.role != OpRole::kEnter && p.role != OpRole::kExit &&
                        p.role != OpRole::kNextIteration;
      if (here && !HasSent(p, it)) add_if_it_feeds(p);
    }
    // From inner loops.
    for (size_t c = 0; c < f.children.size(); ++c) {
      const PlanFrame& loop = plan_.frames[static_cast<size_t>(f.children[c])];
      const Frame* child = it.children[c];
      if (child == nullptr && !HasToStart(f, c, it)) continue;
      for (const PlanNode* exit : loop.exits)
        if (child == nullptr || child->exited[exit->aux] == 0)
          add_if_it_feeds(*exit);
    }
    // From the enclosing frame.
    if (it.frame->parent != nullptr && !f.is_function)
      ForEnters(*it.frame->parent, it.frame->index, [&](const PlanNode& enter) {
        if (!HasSent(enter, *it.frame->parent)) add_if_it_feeds(enter);
      });
    return names;
  }

  template <typename Fn>
  void ForEnters(const Iteration& it, size_t child, const Fn& fn) const {
    const PlanFrame& f = *it.frame->plan;
    for (uint32_t i = 0; i < f.num_nodes; ++i) {
      const PlanNode& p = plan_.node(f, i);
      if (p.role == OpRole::kEnter && p.aux == child) fn(p);
    }
  }

  // Whether a loop that is not alive has yet to begin, as opposed to being
  // done.
  bool HasToStart(const PlanFrame& f, size_t child, const Iteration& it) const {
    if (plan_.frames[static_cast<size_t>(f.children[child])].is_function)
      return false;  // (Its Call is a node of this frame.)
    bool waits = false;
    ForEnters(it, child,
              [&](const PlanNode& enter) { waits |= !HasSent(enter, it); });
    return waits;
  }

  bool HasSent(const PlanNode& p, const Iteration& it) const {
    if ((it.pending[p.local] & ~Iteration::kDead) != 0) return false;
    if (p.role == OpRole::kArg) return it.slots[p.first_output].valid();
    if (p.role == OpRole::kCall && it.children[p.aux] != nullptr) return false;
    const auto is_it = [&](const Ready& r) {
      return r.node == &p && r.iteration == &it;
    };
    for (size_t i = 0; i < t_.ready_.size(); ++i)
      if (is_it(t_.ready_[i])) return false;
    return std::none_of(running_.begin(), running_.end(), is_it);
  }

  const Tokens& t_;
  const Plan& plan_;
  const size_t most_;
  const std::span<const Ready> running_;
  size_t nodes_ = 0, frames_ = 0;  // Including those without room.
  std::vector<std::string> lines_;
};

std::string Tokens::DescribeWaiting(int most,
                                    std::span<const Ready> running) const {
  return root_ == nullptr ? "" : Describer(*this, most, running).Describe();
}

}  // namespace sluice
