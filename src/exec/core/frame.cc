#include "exec/core/frame.h"

#include "absl/strings/str_join.h"

namespace sluice {

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

Tokens::Tokens(const Plan& plan) : plan_(plan), pools_(plan.frames.size()) {}
Tokens::~Tokens() = default;

// ---- Delivering tokens ------------------------------------------------------

// One token arrives along `e`. True if it makes the consumer ready.
inline bool Tokens::Activate(const PlanFrame& f, const PlanEdge& e, bool dead,
                             uint32_t* pending, MergeState* merges) {
  uint32_t& p = pending[e.dst];
  if (e.merge_input >= 0) [[unlikely]] {  // Data into a Merge.
    MergeState& m = merges[plan_.node(f, e.dst).aux];
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

// Sends the tokens of `from` to its consumers in `to`. For a Switch, the edges
// of port `live_port` are live and the others dead; -1: all are as `dead`.
void Tokens::Deliver(const PlanNode& from, Iteration* to, bool dead,
                     int live_port) {
  const PlanFrame& f = *to->frame->plan;
  const PlanNode* nodes = plan_.nodes.data() + f.first_node;
  uint32_t* pending = to->pending.data();
  const PlanEdge* e = EdgesOf(from);
  const PlanEdge* const end = e + from.num_edges;
  Ready* const first = ready_.Room(from.num_edges);
  Ready* ready = first;
  if (!dead && live_port < 0 && (from.flags & PlanNode::kFeedsMerge) == 0) {
    // Common case: live tokens to plain nodes.
    for (; e != end; ++e)
      if ((--pending[e->dst] & ~Iteration::kDead) == 0)
        *ready++ = {nodes + e->dst, to};
  } else {
    for (; e != end; ++e) {
      const bool d =
          dead || (live_port >= 0 && e->port >= 0 && e->port != live_port);
      if (Activate(f, *e, d, pending, to->merges.data()))
        *ready++ = {nodes + e->dst, to};
      else if (e->merge_input >= 0 && !d)
        DropSpare(*e, to);
    }
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
  Deliver(n, to, false, -1);
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

void Tokens::Start(uint32_t max_call_depth) {
  max_call_depth_ = max_call_depth;
  root_ = NewFrame(plan_.frames[0], nullptr, 0)->oldest;
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
  Deliver(*r.node, r.iteration, false, -1);
  ReleaseInputs(r);
  Finish(r.iteration);
}

void Tokens::CompleteDead(Ready r) {
  Deliver(*r.node, r.iteration, true, -1);
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
      Deliver(n, it, false, port);
      Finish(it);
      return OkStatus();
    }
    case OpRole::kMerge: {
      if (dead) break;
      const int chosen = it->merges[n.aux].chosen;
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
      Deliver(n, it, dead && (n.flags & PlanNode::kNeverDead) == 0, -1);
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

Frame* Tokens::NewFrame(const PlanFrame& plan, Iteration* parent,
                        uint32_t index) {
  Pool& pool = PoolOf(&plan);
  if (pool.frames.empty()) {
    pool.all_frames.push_back(std::make_unique<Frame>());
    pool.frames.push_back(pool.all_frames.back().get());
  }
  Frame* f = pool.frames.back();
  pool.frames.pop_back();
  f->plan = &plan;
  f->parent = parent;
  f->index = index;
  f->depth = parent == nullptr ? 0 : parent->frame->depth;
  f->tag = parent == nullptr
               ? 0
               : FrameTag({parent->frame->tag, parent->index},
                          parent->frame->plan->child_hashes[index]);
  f->enters_left = plan.num_enters;
  f->next_index = 0;
  if (plan.parent >= 0) {  // A loop: there may be more iterations.
    f->seed_pending = plan.initial_pending;
    f->seed_merges = plan.later_merges;
    f->seed_ready = plan.sources;
  }
  f->constants.resize(plan.num_constant_slots);
  f->exited.assign(plan.exits.size(), 0);
  ++frames_alive_;
  NewIteration(f);
  return f;
}

// The child frame `index` of an iteration, made by its Call or by the first
// Enter.
Frame* Tokens::ChildOf(Iteration* parent, uint32_t index) {
  Frame*& child = parent->children[index];
  if (child == nullptr) {
    const int id = parent->frame->plan->children[index];
    child = NewFrame(plan_.frames[static_cast<size_t>(id)], parent, index);
    ++parent->active;
  }
  return child;
}

void Tokens::EnterFrame(Ready r, bool dead, const Tensor* reads) {
  const PlanNode& n = *r.node;
  Frame* f = ChildOf(r.iteration, n.aux);
  if ((n.flags & PlanNode::kConstantEnter) != 0) {
    if (!dead) Forward(r, 0, reads, &f->constants[n.first_output]);
    // To the existing iterations, and to the initial state of later ones.
    for (Iteration* it = f->oldest; it != nullptr; it = it->next)
      Deliver(n, it, dead, -1);
    const PlanEdge* e = EdgesOf(n);
    for (const PlanEdge* end = e + n.num_edges; e != end; ++e)
      if (Activate(*f->plan, *e, dead, f->seed_pending.data(),
                   f->seed_merges.data()))
        f->seed_ready.push_back(e->dst);
  } else if (dead) {
    // Iteration 0 still exists: it waits for every Enter.
    Deliver(n, f->oldest, true, -1);
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
  Frame* f = ChildOf(r.iteration, n.aux);
  f->call = &n;
  f->depth = depth;
  f->returns_left = f->plan->num_returns;
  for (uint32_t i = 0; i < n.num_inputs; ++i) {
    const PlanNode* arg = i < f->plan->args.size() ? f->plan->args[i] : nullptr;
    Tensor unused;
    Forward(r, i, reads, arg == nullptr ? &unused : &Slot(*arg, f->oldest));
    if (arg != nullptr) Sent(*arg, f->oldest);
  }
  f->enters_left = 0;
  Retire(f);
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

// Appends an iteration to the frame.
Iteration* Tokens::NewIteration(Frame* f) {
  const PlanFrame& plan = *f->plan;
  Pool& pool = PoolOf(&plan);
  if (pool.iterations.empty()) {
    pool.all_iterations.push_back(std::make_unique<Iteration>());
    Iteration* fresh = pool.all_iterations.back().get();
    fresh->uses.resize(plan.num_slots);
    fresh->slots.resize(plan.num_slots);
    fresh->children.resize(plan.num_children);
    fresh->tables[InputRef::kIteration] = fresh->slots.data();
    fresh->tables[InputRef::kPlan] =
        const_cast<Tensor*>(plan_.constants.data());
    pool.iterations.push_back(fresh);
  }
  Iteration* it = pool.iterations.back();
  pool.iterations.pop_back();
  it->frame = f;
  it->index = f->next_index++;
  it->next = nullptr;
  const bool first = it->index == 0;
  it->pending = first ? plan.initial_pending : f->seed_pending;
  it->merges = first ? plan.initial_merges : f->seed_merges;
  it->tables[InputRef::kFrame] = f->constants.data();
  (f->oldest == nullptr ? f->oldest : f->newest->next) = it;
  f->newest = it;
  ++f->alive;
  ++iterations_alive_;
  for (uint32_t local : first ? plan.sources : f->seed_ready) {
    ++it->active;
    ready_.push_back({&plan_.node(plan, local), it});
  }
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
    PoolOf(f->plan).iterations.push_back(it);
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

Iteration* Tokens::EndFrame(Frame* f) {
  Iteration* parent = f->parent;
  for (const PlanNode* exit : f->plan->exits)
    if (f->exited[exit->aux] == 0) Deliver(*exit, parent, true, -1);
  if (f->call != nullptr) {
    const bool dead = f->returns_left > 0;
    const uint32_t first = f->call->first_output;
    for (uint32_t s = first; s < first + f->call->num_outputs; ++s)
      if (dead)
        parent->slots[s] = Tensor();
      else
        Publish(parent, s);
    Deliver(*f->call, parent, dead, -1);
    f->call = nullptr;
  }
  for (Tensor& t : f->constants) t = Tensor();
  parent->children[f->index] = nullptr;
  PoolOf(f->plan).frames.push_back(f);
  --frames_alive_;
  return parent;
}

void Tokens::Clear(bool complete) {
  // Frames kept per static frame; a deep recursion's extra frames are freed.
  constexpr size_t kKeptFrames = 1 << 14;
  ready_.clear();
  if (root_ == nullptr) return;
  if (complete && iterations_alive_ == 1 && root_->held == 0) {
    Frame* root = root_->frame;
    PoolOf(root->plan).iterations.push_back(root_);
    PoolOf(root->plan).frames.push_back(root);
    root->oldest = nullptr;
    root->alive = 0;
  } else {
    for (Pool& pool : pools_) {
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
    if (pools_[f].all_frames.size() > kKeptFrames) pools_[f] = Pool();
  // Release the step's hold on the root.
  root_->active = 0;
  root_ = nullptr;
  frames_alive_ = iterations_alive_ = 0;
}

}  // namespace sluice
