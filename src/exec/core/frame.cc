#include "exec/core/frame.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_join.h"

namespace sluice {
namespace {

// For vectors of the same size. (Shorter than what an assignment becomes.)
template <typename T>
void CopyInto(std::vector<T>* to, const std::vector<T>& from) {
  if (!from.empty())
    std::memcpy(to->data(), from.data(), from.size() * sizeof(T));
}

}  // namespace

// Every step is a bijection, of `h` and of `part`, so tags that differ in one
// of the three arguments differ (but for 0, which is the root's and becomes 1).
absl::uint128 FrameTag(const TokenTag& parent, absl::uint128 name_hash) {
  // (The multiplier of PCG's generators of 128 bits.)
  constexpr absl::uint128 kFactor =
      absl::MakeUint128(0x2360ed051fc65da4u, 0x4385df649fccf645u);
  absl::uint128 h = parent.frame;
  for (const absl::uint128 part :
       {absl::uint128(static_cast<uint64_t>(parent.iteration)), name_hash}) {
    h = (h ^ part ^ (h >> 64)) * kFactor;
    h = (h ^ (h >> 64)) * kFactor;
  }
  h ^= h >> 64;
  return h == 0 ? 1 : h;  // 0 is the root.
}

void ReadyList::Grow(size_t n) { items_.resize(2 * (size_ + n)); }

Tokens::Tokens(const Plan& plan)
    : plan_(plan),
      tagged_(!plan.sends.empty() || plan.num_edges_in > 0),
      pools_(plan.frames.size()) {}
Tokens::~Tokens() = default;

// ---- Delivering tokens ------------------------------------------------------

// One token arrives along `e`. True if it makes the consumer ready.
inline bool Tokens::Activate(const PlanNode* nodes, const PlanEdge& e,
                             bool dead, uint32_t* pending, MergeState* merges) {
  uint32_t& p = pending[e.dst];
  if (e.merge_input >= 0) [[unlikely]] {  // Data into a Merge.
    MergeState& m = merges[nodes[e.dst].aux];
    if (m.chosen >= 0) return false;  // Only the first live one is used.
    if (dead) {
      if (m.dead_left == 0 || --m.dead_left > 0) return false;
      p |= Iteration::kDead;
    } else {
      m.chosen = e.merge_input;
      p &= ~Iteration::kDead;
    }
  } else if (dead && e.merge_input != PlanEdge::kMergeControl) {
    p |= Iteration::kDead;
  }
  return (--p & ~Iteration::kDead) == 0;
}

// Sends the live tokens of `from` to its consumers in `to`.
inline void Tokens::Deliver(const PlanNode& from, Iteration* to) {
  if ((from.flags & PlanNode::kFeedsMerge) != 0) [[unlikely]]
    return DeliverAny(from, to, false);
  const PlanNode* const nodes = to->nodes;
  uint32_t* const pending = to->pending.data();
  Ready* const first = ready_.Room(from.num_edges);
  Ready* ready = first;
  const PlanEdge* e = EdgesOf(from);
  for (const PlanEdge* const end = e + from.num_edges; e != end; ++e)
    if ((--pending[e->dst] & ~Iteration::kDead) == 0)
      *ready++ = {nodes + e->dst, to};
  const auto count = static_cast<uint32_t>(ready - first);
  ready_.Added(count);
  to->active += count;
}

// Sends tokens of any kind. For a Switch, the edges of port `live_port` are
// live and the others dead; -1: all are as `dead`.
void Tokens::DeliverAny(const PlanNode& from, Iteration* to, bool dead,
                        int live_port) {
  const PlanNode* const nodes = to->nodes;
  uint32_t* const pending = to->pending.data();
  MergeState* const merges = to->merges.data();
  Ready* const first = ready_.Room(from.num_edges);
  Ready* ready = first;
  const PlanEdge* e = EdgesOf(from);
  for (const PlanEdge* const end = e + from.num_edges; e != end; ++e) {
    const bool d =
        dead || (live_port >= 0 && e->port >= 0 && e->port != live_port);
    if (Activate(nodes, *e, d, pending, merges))
      *ready++ = {nodes + e->dst, to};
    else if (e->merge_input >= 0 && !d)
      DropSpare(*e, to);
  }
  const auto count = static_cast<uint32_t>(ready - first);
  ready_.Added(count);
  to->active += count;
}

// Drops a live token to a Merge that already has its first one.
void Tokens::DropSpare(const PlanEdge& e, Iteration* it) {
  const PlanNode& merge = plan_.node(*it->frame->plan, e.dst);
  if (it->merges[merge.aux].chosen == e.merge_input) return;
  const InputRef ref =
      plan_.inputs[merge.first_input + static_cast<uint32_t>(e.merge_input)];
  if (ref.table == InputRef::kIteration) ReleaseSlot(it, ref.index);
}

// A slot of `it` has been filled. Only values with a buffer are tracked.
inline void Tokens::Publish(Iteration* it, uint32_t slot) {
  Tensor& t = it->slots[slot];
  if (!t.has_buffer()) [[likely]]
    return;
  const uint32_t uses = it->frame->plan->slot_uses[slot];
  if (uses == 0) {
    t = Tensor();
  } else {
    it->uses[slot] = uses;
    ++it->held;
  }
}

// The only output of `n` is in its slot in `to`.
inline void Tokens::Sent(const PlanNode& n, Iteration* to) {
  Publish(to, n.first_output);
  Deliver(n, to);
}

// One reader of a slot is done.
inline void Tokens::ReleaseSlot(Iteration* it, uint32_t slot) {
  Tensor& t = it->slots[slot];
  if (t.has_buffer() && --it->uses[slot] == 0) {
    t = Tensor();
    --it->held;
  }
}

inline void Tokens::ReleaseInputs(Ready r) {
  if (r.iteration->held == 0) return;
  const InputRef* ref = plan_.inputs.data() + r.node->first_input;
  for (const InputRef* end = ref + r.node->num_inputs; ref != end; ++ref)
    if (ref->table == InputRef::kIteration)
      ReleaseSlot(r.iteration, ref->index);
  ref = plan_.reads.data() + r.node->first_read;
  for (const InputRef* end = ref + r.node->num_reads; ref != end; ++ref)
    if (ref->table == InputRef::kIteration)
      ReleaseSlot(r.iteration, ref->index);
}

// Forwards the token of an input to another slot: moved by its last reader, or
// copied from `reads` if it was read from a variable.
inline void Tokens::Forward(Ready r, uint32_t input, const Tensor* reads,
                            Tensor* to) {
  const InputRef ref = plan_.inputs[r.node->first_input + input];
  if (ref.table == InputRef::kLocal) [[unlikely]] {
    *to = reads[ref.index];
    const InputRef variable = plan_.reads[r.node->first_read + ref.index];
    if (variable.table == InputRef::kIteration)
      ReleaseSlot(r.iteration, variable.index);
    return;
  }
  Tensor& from = r.iteration->tables[ref.table][ref.index];
  if (ref.table == InputRef::kIteration && from.has_buffer() &&
      --r.iteration->uses[ref.index] == 0) {
    --r.iteration->held;
    *to = std::move(from);
  } else {
    *to = from;
  }
}

// A node of `it` is done.
inline void Tokens::Finish(Iteration* it) {
  if (--it->active == 0) Retire(it->frame);
}

// ---- Nodes ------------------------------------------------------------------

void Tokens::Start(uint32_t max_call_depth, int most_frames) {
  max_call_depth_ = max_call_depth;
  most_frames_ = most_frames;
  root_ = NewFrame(0, nullptr, 0)->oldest;
  ++root_->active;  // Held by the step: the root ends with Clear.
}

void Tokens::Feed(uint32_t arg, Tensor value) {
  const PlanNode& n = *plan_.args[arg];
  Slot(n, root_) = std::move(value);
  Sent(n, root_);
}

void Tokens::Complete(Ready r) {
  const uint32_t first = r.node->first_output;
  for (uint32_t s = first; s < first + r.node->num_outputs; ++s)
    Publish(r.iteration, s);
  Deliver(*r.node, r.iteration);
  ReleaseInputs(r);
  Finish(r.iteration);
}

void Tokens::CompleteDead(Ready r) {
  DeliverAny(*r.node, r.iteration, true);
  ReleaseInputs(r);
  Finish(r.iteration);
}

Status Tokens::Move(Ready r, const Tensor* reads) {
  const PlanNode& n = *r.node;
  Iteration* it = r.iteration;
  const bool dead = IsDead(r);
  switch (n.role) {
    case OpRole::kSwitch: {
      if (dead) break;
      const Tensor& p = Input(r, 1, reads);
      if (p.dtype() != DType::kBool || p.num_elements() != 1)
        return InvalidArgument("predicate: expected a bool scalar, got ",
                               p.ToString());
      const int port = p.raw_scalar<bool>() ? 1 : 0;
      const uint32_t slot = n.first_output + static_cast<uint32_t>(port);
      Forward(r, 0, reads, &it->slots[slot]);
      Publish(it, slot);
      DeliverAny(n, it, false, port);
      Finish(it);
      return OkStatus();
    }
    case OpRole::kMerge: {
      if (dead) break;
      const int chosen = it->merges[n.aux].chosen;
      if (it->frame->plan->slot_uses[n.first_output + 1] > 0)
        it->slots[n.first_output + 1] = Tensor::Scalar<int32_t>(chosen);
      Forward(r, static_cast<uint32_t>(chosen), nullptr, &Slot(n, it));
      Sent(n, it);
      Finish(it);
      return OkStatus();
    }
    case OpRole::kEnter:
      EnterFrame(r, dead, reads);
      Finish(it);
      return OkStatus();
    case OpRole::kExit:
      SLUICE_RETURN_IF_ERROR(LeaveFrame(r, dead, reads));
      Finish(it);
      return OkStatus();
    case OpRole::kCall:
      if (dead) break;
      if (frames_alive_ >= most_frames_ && n.num_reads == 0) [[unlikely]] {
        postponed_.push_back(r);
        return OkStatus();
      }
      SLUICE_RETURN_IF_ERROR(Call(r, reads));
      Finish(it);
      return OkStatus();
    case OpRole::kReturn:
      Return(r, dead, reads);
      Finish(it);
      return OkStatus();
    case OpRole::kNextIteration:
      NextIteration(r, dead, reads);
      Finish(it);
      return OkStatus();
    case OpRole::kLoopCond:
    case OpRole::kIdentity:
      if (dead) break;
      Forward(r, 0, reads, &Slot(n, it));
      Sent(n, it);
      Finish(it);
      return OkStatus();
    case OpRole::kConst:
      if (dead) break;
      Slot(n, it) = plan_.constants[n.aux];
      Sent(n, it);
      Finish(it);
      return OkStatus();
    case OpRole::kNoOp:
      DeliverAny(n, it, dead && (n.flags & PlanNode::kNeverDead) == 0);
      Finish(it);
      return OkStatus();
    case OpRole::kArg:
    case OpRole::kRetval:
    case OpRole::kCompute:
    case OpRole::kSend:
    case OpRole::kRecv:
    case OpRole::kFunctional:
      return Internal("tokens: expected a node that only moves tokens, got ",
                      n.node->Describe());
  }
  CompleteDead(r);
  return OkStatus();
}

// ---- Frames -----------------------------------------------------------------

Frame* Tokens::NewFrame(size_t id, Iteration* parent, uint32_t index) {
  const PlanFrame& plan = plan_.frames[id];
  FramePool& pool = pools_[id];
  if (pool.frames.empty()) [[unlikely]] {
    pool.all_frames.push_back(std::make_unique<Frame>());
    pool.frames.push_back(pool.all_frames.back().get());
  }
  Frame* f = pool.frames.back();
  pool.frames.pop_back();
  f->plan = &plan;
  f->pool = &pool;
  f->parent = parent;
  f->index = index;
  f->depth = parent == nullptr ? 0 : parent->frame->depth;
  f->tag = !tagged_ || parent == nullptr
               ? 0
               : FrameTag({parent->frame->tag, parent->index},
                          parent->frame->plan->child_hashes[index]);
  f->enters_left = plan.num_enters;
  f->next_index = 0;
  if (plan.parent >= 0) {  // A loop: there may be more iterations.
    f->seed_pending = plan.initial_pending;
    f->seed_merges = plan.later_merges;
    f->seed_ready = plan.sources;
    f->exited.assign(plan.exits.size(), 0);
  }
  // (A call of a function within itself reads those of the call around it.)
  const bool shares = plan.is_function && parent->frame->plan == &plan;
  if (!shares) f->constants.resize(plan.num_constant_slots);
  f->constant_table =
      shares ? parent->tables[InputRef::kFrame] : f->constants.data();
  ++frames_alive_;
  NewIteration(f);
  return f;
}

// Makes the child frame `index` of an iteration.
inline Frame* Tokens::NewChild(Iteration* parent, uint32_t index) {
  const int id = parent->frame->plan->children[index];
  Frame* const child = NewFrame(static_cast<size_t>(id), parent, index);
  parent->children[index] = child;
  ++parent->active;
  return child;
}

void Tokens::EnterFrame(Ready r, bool dead, const Tensor* reads) {
  const PlanNode& n = *r.node;
  Frame* f = r.iteration->children[n.aux];
  if (f == nullptr) f = NewChild(r.iteration, n.aux);  // The first Enter.
  if ((n.flags & PlanNode::kConstant) != 0) {
    if (!dead) Forward(r, 0, reads, &f->constants[n.first_output]);
    // To the existing iterations, and to the initial state of later ones.
    for (Iteration* it = f->oldest; it != nullptr; it = it->next)
      DeliverAny(n, it, dead);
    const PlanEdge* e = EdgesOf(n);
    for (const PlanEdge* end = e + n.num_edges; e != end; ++e)
      if (Activate(f->oldest->nodes, *e, dead, f->seed_pending.data(),
                   f->seed_merges.data()))
        f->seed_ready.push_back(e->dst);
  } else if (dead) {
    // Iteration 0 still exists: it waits for every Enter.
    DeliverAny(n, f->oldest, true);
  } else {
    Forward(r, 0, reads, &Slot(n, f->oldest));
    Sent(n, f->oldest);
  }
  if (dead) ReleaseInputs(r);
  if (--f->enters_left == 0) Retire(f);
}

Status Tokens::LeaveFrame(Ready r, bool dead, const Tensor* reads) {
  if (dead) {
    ReleaseInputs(r);
    return OkStatus();
  }
  Frame* f = r.iteration->frame;
  if (f->exited[r.node->aux] != 0)
    return InvalidArgument(
        "Exit: expected one live token from its frame, got a "
        "second in iteration ",
        r.iteration->index);
  f->exited[r.node->aux] = 1;
  Forward(r, 0, reads, &Slot(*r.node, f->parent));
  Sent(*r.node, f->parent);
  return OkStatus();
}

Status Tokens::Call(Ready r, const Tensor* reads) {
  const PlanNode& n = *r.node;
  const uint32_t depth = r.iteration->frame->depth + 1;
  if (depth > max_call_depth_) {
    const auto& children = r.iteration->frame->plan->children;
    return ResourceExhausted(
        "call depth: expected at most ", max_call_depth_,
        " nested calls (SessionOptions::max_call_depth), got one more, of "
        "function '",
        plan_.frames[static_cast<size_t>(children[n.aux])].name, "'");
  }
  Frame* f = NewChild(r.iteration, n.aux);
  f->call = &n;
  f->depth = depth;
  f->returns_left = f->plan->num_returns;
  // (PlanFrame::first_pending counts the tokens of all arguments.)
  const std::vector<const PlanNode*>& args = f->plan->args;
  const bool shares = r.iteration->frame->plan == f->plan;
  for (uint32_t i = 0; i < n.num_inputs; ++i) {
    const PlanNode* const arg = i < args.size() ? args[i] : nullptr;
    if (arg != nullptr && (arg->flags & PlanNode::kConstant) != 0) {
      if (!shares) Forward(r, i, reads, &f->constants[arg->first_output]);
    } else if (arg == nullptr) {
      Tensor unused;
      Forward(r, i, reads, &unused);
    } else {
      Forward(r, i, reads, &Slot(*arg, f->oldest));
      Publish(f->oldest, arg->first_output);
    }
  }
  f->enters_left = 0;
  Retire(f);
  return OkStatus();
}

// The share of the most frames that starts at a time: enough of them that
// batches pay, and few beside those that are alive.
constexpr int kPostponedShare = 16;

Status Tokens::StartPostponed(Ready* at) {
  const auto most =
      static_cast<size_t>(std::max(1, most_frames_ / kPostponedShare));
  const size_t kept = postponed_.size() - std::min(postponed_.size(), most);
  // (A Call that is started may end at once, but postpones no others.)
  while (postponed_.size() > kept) {
    *at = postponed_.back();
    postponed_.pop_back();
    SLUICE_RETURN_IF_ERROR(Call(*at, nullptr));
    Finish(at->iteration);
  }
  return OkStatus();
}

void Tokens::Return(Ready r, bool dead, const Tensor* reads) {
  if (dead) {
    ReleaseInputs(r);
    return;
  }
  Frame* f = r.iteration->frame;
  Forward(r, 0, reads, &f->parent->slots[f->call->first_output + r.node->aux]);
  --f->returns_left;
}

void Tokens::NextIteration(Ready r, bool dead, const Tensor* reads) {
  if (dead) {
    ReleaseInputs(r);
    return;
  }
  Frame* f = r.iteration->frame;
  if (r.iteration->next == nullptr) {
    if (f->alive >= f->plan->parallel_iterations) {
      f->waiting.push_back({r.node, Tensor()});
      Forward(r, 0, reads, &f->waiting.back().token);
      return;
    }
    NewIteration(f);
  }
  Forward(r, 0, reads, &Slot(*r.node, r.iteration->next));
  Sent(*r.node, r.iteration->next);
}

Iteration* Tokens::MakeIteration(const PlanFrame& plan) {
  FramePool& pool = pools_[static_cast<size_t>(&plan - plan_.frames.data())];
  pool.all_iterations.push_back(std::make_unique<Iteration>());
  Iteration* it = pool.all_iterations.back().get();
  it->nodes = plan_.nodes.data() + plan.first_node;
  it->pending.resize(plan.num_nodes);
  it->merges.resize(plan.initial_merges.size());
  it->uses.resize(plan.num_slots);
  it->slots.resize(plan.num_slots);
  it->children.resize(plan.num_children);
  it->tables[InputRef::kIteration] = it->slots.data();
  it->tables[InputRef::kPlan] = const_cast<Tensor*>(plan_.constants.data());
  return it;
}

// Appends an iteration to the frame.
Iteration* Tokens::NewIteration(Frame* f) {
  const PlanFrame& plan = *f->plan;
  std::vector<Iteration*>& idle = f->pool->iterations;
  if (idle.empty()) [[unlikely]]
    idle.push_back(MakeIteration(plan));
  Iteration* it = idle.back();
  idle.pop_back();
  it->frame = f;
  it->index = f->next_index++;
  it->next = nullptr;
  const bool first = it->index == 0;
  CopyInto(&it->pending, first ? plan.first_pending : f->seed_pending);
  CopyInto(&it->merges, first ? plan.initial_merges : f->seed_merges);
  it->tables[InputRef::kFrame] = f->constant_table;
  (f->oldest == nullptr ? f->oldest : f->newest->next) = it;
  f->newest = it;
  ++f->alive;
  ++iterations_alive_;
  const std::vector<uint32_t>& sources = first ? plan.sources : f->seed_ready;
  Ready* ready = ready_.Room(sources.size());
  for (const uint32_t local : sources) *ready++ = {it->nodes + local, it};
  ready_.Added(sources.size());
  it->active = static_cast<uint32_t>(sources.size());
  return it;
}

// Ends the iterations that are done, oldest first, then the frame if none is
// left, and continues in the parent.
void Tokens::Retire(Frame* f) {
  for (;;) {
    Iteration* it = f->oldest;
    if (it->active > 0 || f->enters_left > 0) return;
    if (it->held > 0)  // Tokens whose consumers never became ready.
      for (Tensor& t : it->slots)
        if (t.has_buffer()) t = Tensor();
    it->held = 0;
    f->oldest = it->next;
    --f->alive;
    --iterations_alive_;
    f->pool->iterations.push_back(it);
    if (!f->waiting.empty()) {  // There is room for them now.
      Iteration* to = NewIteration(f);
      for (Frame::Waiting& w : f->waiting) {
        Slot(*w.node, to) = std::move(w.token);
        Sent(*w.node, to);
      }
      f->waiting.clear();
    }
    if (f->oldest != nullptr) continue;
    Iteration* parent = EndFrame(f);
    if (--parent->active > 0) return;
    f = parent->frame;
  }
}

inline Iteration* Tokens::EndFrame(Frame* f) {
  Iteration* const parent = f->parent;
  if (f->call != nullptr)
    EndCall(f);
  else
    EndLoop(f);
  parent->children[f->index] = nullptr;
  f->pool->frames.push_back(f);
  --frames_alive_;
  return parent;
}

// The call is done: its results are in the parent's slots, if all came.
inline void Tokens::EndCall(Frame* f) {
  Iteration* const parent = f->parent;
  const PlanNode& call = *f->call;
  const uint32_t first = call.first_output;
  const bool dead = f->returns_left > 0;
  for (uint32_t s = first; s < first + call.num_outputs; ++s)
    if (dead)
      parent->slots[s] = Tensor();
    else
      Publish(parent, s);
  if (dead)
    DeliverAny(call, parent, true);
  else
    Deliver(call, parent);
  f->call = nullptr;
  if (!f->constants.empty()) f->constants.clear();
}

void Tokens::EndLoop(Frame* f) {
  for (const PlanNode* exit : f->plan->exits)
    if (f->exited[exit->aux] == 0) DeliverAny(*exit, f->parent, true);
  for (Tensor& t : f->constants) t = Tensor();
}

void Tokens::Clear(bool complete) {
  // Frames kept per static frame; a deep recursion's extra frames are freed.
  constexpr size_t kKeptFrames = 1 << 14;
  ready_.clear();
  postponed_.clear();
  if (root_ == nullptr) return;
  if (complete && iterations_alive_ == 1 && root_->held == 0) {
    Frame* root = root_->frame;
    root->pool->iterations.push_back(root_);
    root->pool->frames.push_back(root);
    root->oldest = nullptr;
    root->alive = 0;
  } else {
    for (FramePool& pool : pools_) {
      pool.frames.clear();
      pool.iterations.clear();
      for (auto& it : pool.all_iterations) {
        for (Tensor& t : it->slots) t = Tensor();
        it->children.assign(it->children.size(), nullptr);
        it->held = 0;
        it->active = 0;
        pool.iterations.push_back(it.get());
      }
      for (auto& f : pool.all_frames) {
        *f = Frame();
        pool.frames.push_back(f.get());
      }
    }
  }
  for (size_t f = 1; f < pools_.size(); ++f)
    if (pools_[f].all_frames.size() > kKeptFrames) pools_[f] = FramePool();
  // Release the step's hold on the root.
  root_->active = 0;
  root_ = nullptr;
  frames_alive_ = iterations_alive_ = 0;
}

}  // namespace sluice
