// The implementation of passes/partition.h.
#ifndef SLUICE_PASSES_PARTITIONER_H_
#define SLUICE_PASSES_PARTITIONER_H_

#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "graph/liveness.h"
#include "passes/partition.h"
#include "passes/partition_properties.h"
#include "passes/properties.h"

namespace sluice {

// Cuts one graph. Lives for one call, on one thread.
//
// Every node has a home partition. Nodes that cost nothing to replicate
// (constants, Enters, pivots) are in the partitions that read them instead.
// Nodes are copied in topological order; at that point an edge from another
// partition becomes a _Send and a _Recv. The nodes that start a _Recv in each
// iteration of its frame are added at the end, when it is known which partition
// runs which nodes.
//
// Run executes the phases in the order in which they are declared. "Needs" and
// "leaves" name members that are complete, and properties of
// passes/properties.h and partition_properties.h, which builds with assertions
// check after the phase; a phase keeps what it needs.
class Partitioner {
 public:
  Partitioner(const Graph& graph, const PartitionOptions& options,
              Frames frames, std::vector<Node*> order)
      : graph_(graph),
        options_(options),
        frames_(std::move(frames)),
        liveness_(Liveness::Of(graph, order, frames_)),
        order_(std::move(order)) {}

  Result<Partitions> Run();

 private:
  // A value or a signal that is transferred.
  struct Transfer {
    int from = 0, to = 0;
    int frame = 0;               // The frame of its _Recv.
    int condition = 0;           // Under which it is alive.
    bool once = false;           // In the frame's first iteration only.
    std::string name;            // Name of the edge, for messages.
    const Node* node = nullptr;  // The user's node that produces it.
    PartialShape shape = PartialShape::Unknown();
  };
  // A node that starts in each iteration of a frame, or (once) in its first.
  struct Start {
    Node* node;
    int frame, part;
    bool once;
  };
  // The control nodes of a frame in one partition. Null: not made (yet).
  struct Control {
    Node* enter = nullptr;  // Fires in the first iteration.
    Node* each = nullptr;   // Fires in each.
    Node* pivot = nullptr;  // Alive while the loop continues.
  };
  // The memory in which a node needs an input.
  enum class Wanted { kOnHost, kOnDevice, kAnywhere };
  using FramePart = std::pair<int, int>;

  size_t Id(const Node* n) const { return static_cast<size_t>(n->id()); }
  // -1: on a device without a partition of its own; copies are in the
  // partitions that read it.
  int home(const Node* n) const { return home_[Id(n)]; }
  Graph& out(int p) { return *out_[static_cast<size_t>(p)]; }
  Node*& copy(const Node* n, int p) {
    return copies_[static_cast<size_t>(p)][Id(n)];
  }
  bool HasOwnMemory(int p) const {
    return p >= 0 && own_memory_[static_cast<size_t>(p)] != 0;
  }

  // ---- Phases: assignment of nodes to partitions (partition.cc).
  // Needs: order_ is topological. Leaves: it still is, and the Exits of a loop
  // come after its Enters, or groups_hold_ is false.
  void OrderExitsLast();
  // Needs: placed. Leaves: home_, the same for a NextIteration and its Merge,
  // for an Exit and its input, and for all nodes that FunctionOf gives one
  // name; loop_merges_; function_starts_.
  void FindHomes();
  // Needs: home_. Leaves: parts_, none empty. A node is in its home only, or,
  // if IsRepeated, in the partitions of its readers.
  void FindParts();
  // Needs: parts_. Leaves: every partition has a node. The numbers of
  // partitions are final.
  void DropEmptyParts();
  // Needs: parts_. Leaves: runners_ and changers_. A partition that runs a part
  // of a frame also runs the frames around it and those that call it.
  void FindRunners();
  // Leaves: orders_.
  void FindOrdering();
  // Needs: runners_. Leaves: a loop that repeats and that several partitions
  // run has exactly one LoopCond; if not, an error.
  Status CheckLoops() const;

  // ---- Phases: construction of the graphs.
  // Needs: devices_. Leaves: out_, an empty graph for each; own_memory_.
  void MakeGraphs();
  // Needs: home_, own_memory_. Leaves: on_device_node_, so that LiesOnDevice
  // and WantedBy hold for all nodes of the whole graph (partition_memory.cc).
  void FindPlaces();
  // Needs: all of the above. Leaves: lowered, placed, one device (and
  // connected, but for back edges); complete, paired.
  Status CopyNodes();
  // Needs: copies of all nodes. Leaves: connected.
  Status CloseBackEdges();
  // Needs: connected. Leaves: each partition that runs a part of a loop that
  // repeats has its LoopCond or a control loop (partition_loops.cc).
  Status AddControlLoops();
  // Needs: all transfers of values, in crosses_. Leaves: the owner of a loop's
  // predicate receives something from all other runners in each iteration
  // (partition_loops.cc).
  Status AddWindows();
  // Needs: copies of all nodes. Leaves: a partition with its own memory is done
  // when its device is (partition_memory.cc).
  Status AwaitDevices();
  // Needs: all _Recvs, in starts_. Leaves: each runs in the frame of its _Send,
  // which completes the previous phases: same frame, in step, windowed
  // (partition_loops.cc).
  Status StartAll();

  Status CheckAfterPhase(const char* phase, StepProperties each,
                         PartitionProperties together) const;

  // ---- Parts of the above (partition.cc).
  bool IsRepeated(const Node& n) const;
  void Need(const Node* n, int p);
  bool Runs(int frame, int p) const {
    return runners_[static_cast<size_t>(frame)][static_cast<size_t>(p)] != 0;
  }
  Status CopyTo(const Node& n, int p);

  // ---- Edges (partition_edges.cc).
  // The source of input `i` of `n` in partition `p`.
  Result<Output> Input(const Node& n, int i, int p);
  // Adds the equivalent of the control edge from `c` to `n` in partition `p`.
  Status AddControl(const Node* c, const Node& n, int p,
                    std::vector<Node*>* controls);
  // `o` in partition `p`, for a reader there.
  Result<Output> Here(const Output& o, int p, Wanted wanted);
  Result<Output> ReadAfter(const Output& ref, const Node& n, int p);
  // The node in `t.to` that has the value of `from` in `t.from`. `direct`: not
  // through the host.
  Result<Node*> Send(const Transfer& t, Output from, bool direct);
  // The _RecvSignal in `t.to` of a _SendSignal after `after`.
  Result<Node*> Signal(const Transfer& t, std::vector<Node*> after);
  Result<Node*> Connect(const Transfer& t, NodeSpec send, NodeSpec recv);

  // ---- Devices with their own memory (partition_memory.cc).
  // In the whole graph: whether a device that makes or forwards `o` has it in
  // its memory, and where input i of n, on such a device, must be.
  bool LiesOnDevice(const Output& o) const;
  Wanted WantedBy(const Node& n, int i) const;
  // Records where the outputs of a new node are: as those of `n`, which it
  // replaces, or according to the type.
  void PlaceCopy(const Node& n, Node* made, int p);
  void PlaceByType(const Output& made, int p);
  static bool IsFedHere(const Node& n);
  // A tensor of partition `p` on the host (device), copied if necessary.
  Result<Output> OnHost(const Output& o, int p);
  Result<Output> OnDevice(const Output& o, int p);
  void MarkParameter(const Node& n, int i, const Output& there, int p);
  Result<Output> WhereWanted(const Node& n, int i, const Output& here, int p);
  Result<Output> Moved(const char* op, const Output& o, int p);
  // Whether partition `to` can copy `o` from the memory of partition `from`.
  bool CanGoDirectly(const Output& o, int from, int to) const;

  // ---- Loops and calls (partition_loops.cc).
  Result<Node*> EnterOf(int frame, int p);
  Result<Node*> EachOf(int frame, int p);
  Result<Node*> PivotOf(int frame, int p);
  Result<Node*> FunctionStart(int frame, int p);
  // A loop Merge of the whole graph whose back edge is in `p` and which the
  // predicate waits for; null if there is none.
  const Node* OwnMerge(int frame, int p);
  // True if the predicate of the frame waits for the node in each iteration.
  bool IsBeforePredicate(int frame, const Node* n);
  bool IsPivot(const Node* c, int* frame);
  // By partition: whether each iteration of the frame in `owner` has to wait
  // for a node that runs there in the same iteration.
  std::vector<uint8_t> WaitedFor(int frame, int owner) const;
  // Whether the copies of `n` wait for its control input `c`.
  bool KeepsControl(const Node& n, const Node* c) const;
  Status BeginCalls(const Node& call);
  // A node in partition `p` that is done when all of `n` is.
  Node* Done(const Node* n, int p);
  Output Given(const Output& o, int p);

  Result<Node*> Add(int p, NodeSpec spec, const std::string& base,
                    const Node* near);

  const Graph& graph_;
  const PartitionOptions& options_;
  const Frames frames_;
  const Liveness liveness_;
  std::vector<Node*> order_;
  bool groups_hold_ = true;

  std::vector<std::string> devices_;
  std::vector<uint8_t> own_memory_;
  std::vector<int> home_;                      // By node.
  std::vector<std::vector<int>> parts_;        // By node: where it is.
  std::vector<std::vector<uint8_t>> runners_;  // By frame, partition.
  // The same: whether it runs a node with side effects there.
  std::vector<std::vector<uint8_t>> changers_;
  // By node: whether it accesses state, or waits for a node that does, so that
  // waiting for it matters beyond its liveness.
  std::vector<uint8_t> orders_;
  std::vector<std::unique_ptr<Graph>> out_;
  std::vector<std::vector<Node*>> copies_;         // By partition, node.
  std::vector<std::pair<const Node*, int>> open_;  // Merges with back edges.

  // What receives an output (of the whole graph, or of an added node), by
  // receiving partition: its _Recv, or the copy after that.
  absl::flat_hash_map<std::pair<const Node*, int>, std::map<int, Node*>>
      received_, received_directly_;
  // By from (-1: any), to, frame, condition, once.
  std::map<std::tuple<int, int, int, int, bool>, Node*> alike_;
  std::map<std::tuple<int, int, int, int, bool>, int> groups_;
  std::vector<int> next_edge_, next_group_;  // By destination.
  std::map<std::tuple<int, int, std::vector<int>>, Node*> reads_;  // By ids.
  std::vector<uint8_t> on_device_node_;  // By node: see FindPlaces.
  absl::flat_hash_set<Output, OutputHash, SameOutput>
      lie_on_device_;  // For new nodes.
  absl::flat_hash_map<Output, Output, OutputHash, SameOutput> on_host_,
      on_device_;
  // By call whose function has side effects in other partitions: the nodes that
  // replace its outputs when these are done (the last one is for its control
  // edges).
  absl::flat_hash_map<const Node*, std::vector<Node*>> call_ends_;
  std::vector<Start> starts_;
  std::map<FramePart, Control> controls_;
  // By frame, from and to, if a token is transferred in each iteration: the
  // producers of the tokens that are alive as long as the loop continues.
  std::map<std::tuple<int, int, int>, std::vector<const Node*>> crosses_;
  std::map<int, absl::flat_hash_set<const Node*>> before_predicate_;
  std::map<int, std::vector<const Node*>> loop_merges_;  // By frame.
  std::map<int, const Node*> function_starts_;           // By frame.
};

}  // namespace sluice

#endif  // SLUICE_PASSES_PARTITIONER_H_
