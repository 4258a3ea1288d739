// Tokens: the evaluation rules of dataflow with frames (EuroSys'18, section
// 4.1, Figure 5), for one step of one plan.
//
// A token is a value or "dead". Every token lives in an iteration of a frame:
// the pair is its tag. The rules, in the words of the figure:
//   Switch(p, d)     the live token goes to the output that p selects, a dead
//                    one to the other.
//   Merge(d1, d2)    fires on the first live input; dead if all are dead.
//   Enter(d, frame)  makes d available in iteration 0 of the child frame, or in
//                    every iteration if it is a loop constant.
//   Exit(d)          makes d available in the parent; a dead d is held back
//                    and sent only if no live one arrives (below).
//   NextIteration(d) makes d available in the next iteration; a dead d stops.
//   Call(d..., f)    with all inputs live: starts a frame of f's body with them
//                    as arguments. Done when that frame is: live if all
//                    results are live, else dead. While very many frames are
//                    alive it may be postponed (Start's `most_frames`).
//   any other op     dead if any input is dead, data or control.
//
// An iteration is done when nothing in it is ready or running, it has no live
// child frame, the previous iteration is done, and (for the first) every Enter
// has delivered its token. A frame is done when its last iteration is done and
// no NextIteration waits; then each Exit that never fired live sends one dead
// token to the parent, or the Call that made the frame is done. At most
// parallel_iterations iterations of a frame exist at once; tokens for the next
// one wait in the frame.
//
// There are no threads and no kernels here: the driver takes a node from
// ready(), does the work, and calls Complete. Tests push tokens and read the
// ready list.
#ifndef SLUICE_EXEC_CORE_FRAME_H_
#define SLUICE_EXEC_CORE_FRAME_H_

#include <climits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/numeric/int128.h"
#include "exec/core/plan.h"

namespace sluice {

struct Frame;

// Identifies a token of an edge: the dynamic frame and its iteration. The
// number of the root frame is 0; other numbers are computed by FrameTag from
// the tag of the parent iteration and the hash of the name of the loop or call,
// and so are the same in every partition of a step.
//
// Partitions that meet a frame for the first time agree on its number without a
// message, so the number is a hash. It has 128 bits so that it identifies the
// frame: the iterations of one frame never collide within a loop or call, and
// among n other frames a collision has a probability of about n^2 / 2^129
// (1.5e-21 for 10^9 frames that are alive at once).
struct TokenTag {
  absl::uint128 frame = 0;
  int64_t iteration = 0;
  bool operator==(const TokenTag&) const = default;
};
absl::uint128 FrameTag(const TokenTag& parent, absl::uint128 name_hash);

// One iteration of one frame: counts and values of its nodes. Owned by Tokens,
// which recycles it.
struct Iteration {
  static constexpr uint32_t kDead = 1u << 31;  // A dead input has arrived.

  Frame* frame = nullptr;
  const PlanNode* nodes = nullptr;  // Of the frame, by PlanNode::local.
  int64_t index = 0;
  uint32_t active = 0;        // Nodes ready or running, frames alive within.
  int32_t held = 0;           // Slots that hold a buffer.
  Iteration* next = nullptr;  // The next iteration, if it exists.
  std::vector<uint32_t> pending;   // By node: missing tokens; kDead.
  std::vector<MergeState> merges;  // By Merge.
  std::vector<uint32_t> uses;      // By slot: readers left, if it has a buffer.
  std::vector<Tensor> slots;
  std::vector<Frame*> children;  // Alive frames, by index_in_parent.
  Tensor* tables[3] = {};        // By InputRef::Table.
};

struct FramePool;

// One dynamic frame: its identity is (parent iteration, Enters or Call). Owned
// by Tokens, which recycles it. The members from `seed_pending` on are of
// loops.
struct Frame {
  const PlanFrame* plan = nullptr;
  FramePool* pool = nullptr;
  Iteration* parent = nullptr;     // Null for the root.
  uint32_t index = 0;              // Among the parent's children.
  absl::uint128 tag = 0;           // TokenTag::frame; 0 if !Tokens::tagged_.
  const PlanNode* call = nullptr;  // For functions: the Call in the parent.
  uint32_t returns_left = 0;       // Results that have not arrived.
  uint32_t depth = 0;              // Number of enclosing Calls.
  uint32_t enters_left = 0;
  uint32_t alive = 0;      // Iterations that exist.
  int64_t next_index = 0;  // Index of the next iteration.
  Iteration* oldest = nullptr;
  Iteration* newest = nullptr;
  // What all iterations read, or all calls of a recursion: those that this
  // frame owns, and where it reads them (a call within a recursion: in the
  // outermost one).
  std::vector<Tensor> constants;
  Tensor* constant_table = nullptr;
  // The initial state of the next iteration: the initial counts minus the loop
  // constants that have arrived, and the nodes that these alone make ready.
  std::vector<uint32_t> seed_pending;
  std::vector<MergeState> seed_merges;
  std::vector<uint32_t> seed_ready;
  struct Waiting {
    const PlanNode* node;  // The NextIteration.
    Tensor token;
  };
  std::vector<Waiting> waiting;  // For the iteration after the window.
  std::vector<uint8_t> exited;   // By Exit: a live token has left.
};

// The frames and iterations of one static frame, and those that are idle.
struct FramePool {
  std::vector<std::unique_ptr<Frame>> all_frames;
  std::vector<Frame*> frames;
  std::vector<std::unique_ptr<Iteration>> all_iterations;
  std::vector<Iteration*> iterations;
};

// A node whose tokens have all arrived.
struct Ready {
  const PlanNode* node = nullptr;
  Iteration* iteration = nullptr;
};

// The nodes that may run now, newest last.
class ReadyList {
 public:
  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }
  Ready& operator[](size_t i) { return items_[i]; }
  const Ready& operator[](size_t i) const { return items_[i]; }
  Ready& back() { return items_[size_ - 1]; }
  void pop_back() { --size_; }
  void push_back(Ready r) {
    *Room(1) = r;
    ++size_;
  }
  void clear() { size_ = 0; }
  // Space for up to `n` more; Added sets the number actually written.
  Ready* Room(size_t n) {
    if (size_ + n > items_.size()) [[unlikely]]
      Grow(n);
    return items_.data() + size_;
  }
  void Added(size_t n) { size_ += n; }

 private:
  void Grow(size_t n);

  std::vector<Ready> items_;
  size_t size_ = 0;
};

// The state of one step. Owned and used by one execution; used by one thread at
// a time (the driver). The plan outlives it.
class Tokens {
 public:
  explicit Tokens(const Plan& plan);
  ~Tokens();
  Tokens(const Tokens&) = delete;
  Tokens& operator=(const Tokens&) = delete;

  // Makes the root iteration; nodes without inputs become ready.
  // A Call within `max_call_depth` others fails. While `most_frames` or more
  // are alive, Calls are postponed until StartPostponed.
  // REQUIRES: Clear() since the last step, or a fresh object.
  void Start(uint32_t max_call_depth = UINT32_MAX, int most_frames = INT_MAX);
  bool has_postponed() const { return !postponed_.empty(); }
  // Starts some of the postponed Calls, the newest: those within the frames
  // that were made last, so that these can end. REQUIRES: has_postponed(). On
  // an error `*at` is the Call.
  Status StartPostponed(Ready* at);
  // For a step that has failed.
  void DropPostponed() { postponed_.clear(); }
  // Delivers the token of a feed. At most once per step and argument.
  void Feed(uint32_t arg, Tensor value);
  // The nodes that may run now. The driver takes from it in any order.
  ReadyList& ready() { return ready_; }

  static bool IsDead(Ready r) {
    return (r.iteration->pending[r.node->local] & Iteration::kDead) != 0;
  }
  static TokenTag TagOf(Ready r) {
    return {r.iteration->frame->tag, r.iteration->index};
  }
  // `reads`: as in Move.
  const Tensor& Input(Ready r, uint32_t i,
                      const Tensor* reads = nullptr) const {
    const InputRef ref = plan_.inputs[r.node->first_input + i];
    return ref.table == InputRef::kLocal
               ? reads[ref.index]
               : r.iteration->tables[ref.table][ref.index];
  }
  // The output slots of a compute node (any node whose consumers are in its own
  // iteration).
  static Tensor* OutputSlots(Ready r) {
    return r.iteration->slots.data() + r.node->first_output;
  }
  // A compute node is done; its outputs are in its slots.
  void Complete(Ready r);
  // Skips a dead node: its outputs are dead.
  void CompleteDead(Ready r);
  // Executes a node that only moves tokens (every role but kCompute and
  // kRetval), dead or alive. `reads`: the values of inputs that are read from
  // variables, if there are any and the node is alive.
  Status Move(Ready r, const Tensor* reads);
  // Drops everything, in any state of the step; then Start may be called. Cheap
  // if the step ran to its end. `complete`: no kernel failed or was abandoned,
  // so the slots hold only tokens.
  void Clear(bool complete = true);
  // ", frame 'loop' iteration 3": the position of a node, for messages; "" in
  // the root.
  static std::string Where(const Iteration& it);
  // Describes, for messages, the live frames with their iterations, their
  // waiting nodes with the missing inputs, and the nodes that run elsewhere
  // (`running`); at most `most` of each.
  std::string DescribeWaiting(int most,
                              std::span<const Ready> running = {}) const;
  // Frames and iterations alive, the root's included (for tests).
  int frames_alive() const { return frames_alive_; }
  int iterations_alive() const { return iterations_alive_; }
  // Frames and iterations allocated, idle ones included (for tests).
  size_t frames_and_iterations_made() const {
    size_t n = 0;
    for (const FramePool& p : pools_)
      n += p.all_frames.size() + p.all_iterations.size();
    return n;
  }

 private:
  const PlanEdge* EdgesOf(const PlanNode& n) const {
    return plan_.edges.data() + n.first_edge;
  }
  void Deliver(const PlanNode& from, Iteration* to);
  void DeliverAny(const PlanNode& from, Iteration* to, bool dead,
                  int live_port = -1);
  static bool Activate(const PlanNode* nodes, const PlanEdge& e, bool dead,
                       uint32_t* pending, MergeState* merges);
  void DropSpare(const PlanEdge& e, Iteration* it);
  void Publish(Iteration* it, uint32_t slot);
  void Sent(const PlanNode& n, Iteration* to);
  Tensor& Slot(const PlanNode& n, Iteration* it) {
    return it->slots[n.first_output];
  }
  void Forward(Ready r, uint32_t input, const Tensor* reads, Tensor* to);
  void ReleaseInputs(Ready r);
  void ReleaseSlot(Iteration* it, uint32_t slot);
  void Finish(Iteration* it);

  Frame* NewFrame(size_t id, Iteration* parent, uint32_t index);
  Frame* NewChild(Iteration* parent, uint32_t index);
  void EnterFrame(Ready r, bool dead, const Tensor* reads);
  Status LeaveFrame(Ready r, bool dead, const Tensor* reads);
  Status Call(Ready r, const Tensor* reads);
  void Return(Ready r, bool dead, const Tensor* reads);
  void NextIteration(Ready r, bool dead, const Tensor* reads);
  Iteration* NewIteration(Frame* f);
  Iteration* MakeIteration(const PlanFrame& plan);
  void Retire(Frame* f);
  Iteration* EndFrame(Frame* f);
  void EndLoop(Frame* f);
  void EndCall(Frame* f);

  class Describer;  // frame_describe.cc

  const Plan& plan_;
  // Whether frames need tags: some tokens come from or go to other partitions.
  const bool tagged_;
  ReadyList ready_;
  std::vector<FramePool> pools_;  // By static frame.
  Iteration* root_ = nullptr;
  int frames_alive_ = 0;
  int iterations_alive_ = 0;
  uint32_t max_call_depth_ = UINT32_MAX;
  int most_frames_ = INT_MAX;
  std::vector<Ready> postponed_;  // Calls that are ready, newest last.
};

}  // namespace sluice

#endif  // SLUICE_EXEC_CORE_FRAME_H_
