// Plan: the immutable, compiled form of the part of a graph that one device
// runs for one step signature. Flat arrays of plain numbers: nothing is looked
// up by name, hashed or allocated while a step runs.
//
// Storage of values. Every output of every node has one slot, a Tensor, in the
// table where its consumers read it:
//   - most nodes: the iteration in which the node runs;
//   - NextIteration: the following iteration; Exit: the parent's iteration;
//   - Enter: iteration 0 of the child frame, or, if is_constant, the child
//     frame itself, where every iteration reads it;
//   - an argument that each call of a function within itself passes on as it is
//     (weights of a recursive model): the frame of the outermost call, where
//     those within read it;
//   - a result of a function: the caller's iteration, where the call's own
//     outputs are;
//   - Const: the plan, where every step reads it.
// A consumer refers to a slot by InputRef (exec/core/kernel.h). Identity,
// LoopCond and similar ops have no slot and do not run: consumers read their
// input's slot.
#ifndef SLUICE_EXEC_CORE_PLAN_H_
#define SLUICE_EXEC_CORE_PLAN_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/numeric/int128.h"
#include "exec/core/kernel.h"
#include "graph/node.h"

namespace sluice {

// Hash of a frame's name; the same in every process (FNV-1a of 128 bits).
absl::uint128 NameHash(std::string_view name);

// An edge out of a node, as seen by the producer.
struct PlanEdge {
  uint32_t dst;  // PlanNode::local of the consumer, in the frame that the
                 // token goes to.
  int32_t port;  // From a Switch: which output (the other one carries a dead
                 // token). -1: always as live or dead as the node.
  int32_t merge_input;  // Into a data input of a Merge: which; else -1, or
                        // kMergeControl for a control input of a Merge.
  static constexpr int32_t kMergeControl = -2;
};

// One node, one cache line.
struct PlanNode {
  enum Flags : uint8_t {
    kExpensive = 1,     // Kernel::expensive.
    kAsync = 2,         // Kernel::run_async.
    kConstant = 4,      // Enter with is_constant. Arg that each call of the
                        // function within itself passes on as it is.
    kNeverDead = 8,     // ControlTrigger: fires after dead inputs too.
    kFeedsMerge = 16,   // A Merge is among its consumers.
    kWaits = 32,        // OpFacts::waits.
    kWaitsInStep = 64,  // Kernel::try_run or Kernel::needs.
    kHeld = 128,        // Passes through the plan's stage.
  };

  union {
    Status (*run)(KernelContext&);
    void (*run_async)(KernelContext&, DoneFn);
  };
  void* state;
  const Node* node;
  uint32_t first_input;  // In Plan::inputs.
  uint32_t num_inputs;
  uint32_t first_output;  // Slot of output 0, in the table that consumers read.
  uint32_t num_outputs;
  uint32_t first_edge;  // In Plan::edges.
  uint32_t num_edges;
  uint32_t local;       // Number within its frame.
  uint32_t aux;         // Merge: number among the frame's. Enter: number of
                        // the child frame among the frame's children;
                        // the same for Call. Exit: number among the
                        // frame's. Arg, Retval, Return: index.
                        // Const: slot in Plan::constants. Send: place in
                        // Plan::sends. Recv: the edge. With
                        // kWaitsInStep: in Plan::waiting_kernels.
  uint32_t first_read;  // In Plan::reads: reference inputs to be read.
  uint16_t num_reads;
  OpRole role;
  uint8_t flags;
};
static_assert(sizeof(PlanNode) == 64);

// The destination of a Send's token; see the attributes of _Send.
struct PlanSend {
  uint32_t destination;
  uint32_t edge;
  uint32_t group;
  bool leads_group;
};

// The state of a Merge in one iteration.
struct MergeState {
  int32_t chosen = -1;     // The data input that fired it.
  uint32_t dead_left = 0;  // Dead data inputs until the Merge itself is dead.
};

// The static part of a frame: one loop (for all entries), one function (for all
// calls), or the root.
struct PlanFrame {
  std::string name;  // "" for the root.
  int parent = -1;   // For loops.
  bool is_function = false;
  bool is_root() const { return parent < 0 && !is_function; }
  uint32_t index_in_parent = 0;  // For loops.
  uint32_t num_children = 0;
  std::vector<int> children;  // Frame ids: loops within, functions called.
  std::vector<absl::uint128> child_hashes;  // Name hashes for their tags.
  uint32_t parallel_iterations = 1;
  uint32_t first_node = 0;  // In Plan::nodes.
  uint32_t num_nodes = 0;
  uint32_t num_slots = 0;
  uint32_t num_constant_slots = 0;
  uint32_t num_enters = 0;
  std::vector<const PlanNode*> exits;
  // For functions.
  std::vector<const PlanNode*> args;  // By index; null if unused.
  uint32_t num_returns = 0;
  // Initial state of an iteration: the tokens that each node waits for, Merges.
  // A function's first_pending, initial_merges and sources are those after its
  // arguments have come, which come together.
  std::vector<uint32_t> initial_pending;
  std::vector<uint32_t> first_pending;     // For iteration 0.
  std::vector<MergeState> initial_merges;  // For iteration 0...
  std::vector<MergeState> later_merges;    // ...and for the others.
  std::vector<uint32_t> sources;           // Nodes that wait for no token.
  std::vector<uint32_t> slot_uses;         // Readers of each slot.
};

class ReadyStageMaker;

// Immutable after Build; shared by any number of steps on any threads.
class Plan {
 public:
  // Returns the kernel of a node; the session keeps those of ops with
  // has_identity.
  using KernelProvider =
      std::function<Status(const Node&, std::shared_ptr<Kernel>*)>;

  // `graph` is the pruned graph, whose feeds and fetches are _Arg and _Retval
  // nodes; the plan keeps it alive. InvalidArgument for malformed control flow:
  // a node with inputs from different frames, an Exit outside a frame, ...
  // `stage`: see exec/core/ready_stage.h; null for none.
  static Result<std::shared_ptr<const Plan>> Build(
      std::shared_ptr<const Graph> graph, const KernelProvider& kernels,
      std::shared_ptr<ReadyStageMaker> stage = nullptr);

  const PlanNode& node(const PlanFrame& f, uint32_t local) const {
    return nodes[f.first_node + local];
  }

  std::vector<PlanNode> nodes;  // By frame, then in topological order.
  std::vector<PlanEdge> edges;
  std::vector<InputRef> inputs;
  std::vector<InputRef> reads;  // Sources of the kLocal inputs.
  std::vector<Tensor> constants;
  std::vector<PlanFrame> frames;         // [0] is the root.
  std::vector<const PlanNode*> args;     // By index; null if unused.
  std::vector<const PlanNode*> retvals;  // By index.
  std::vector<PlanSend> sends;
  // Kernels of nodes with kWaitsInStep; owned by kernels_.
  std::vector<const Kernel*> waiting_kernels;
  uint32_t num_edges_in = 0;  // More than any Recv's number.
  std::vector<std::vector<uint32_t>> dead_groups;  // The edges in of each.
  bool has_control_flow = false;
  // Measured run time of each expensive node, a moving average in ns.
  std::unique_ptr<std::atomic<uint32_t>[]> cost;
  std::shared_ptr<const ReadyStageMaker> stage;  // Null if no node is held.

 private:
  friend class PlanBuilder;
  Plan() = default;
  std::shared_ptr<const Graph> graph_;
  std::vector<std::shared_ptr<Kernel>> kernels_;
};

}  // namespace sluice

#endif  // SLUICE_EXEC_CORE_PLAN_H_
