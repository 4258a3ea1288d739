// Session: runs steps of a graph, and holds its mutable state.
//
//   Session session(graph);
//   const Feeds feeds = {{x, Tensor::Vector<float>({1, 2})}};
//   Result<Tensor> one = session.Run(feeds, y);
//   Result<std::vector<Tensor>> two = session.Run(feeds, {x, y});
#ifndef SLUICE_SESSION_SESSION_H_
#define SLUICE_SESSION_SESSION_H_

#include <concepts>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "exec/cancellation.h"
#include "exec/device.h"
#include "exec/resources.h"
#include "exec/trace.h"
#include "graph/builder.h"
#include "graph/graph.h"

namespace sluice {

struct SessionOptions {
  // Threads that run long kernels beside the caller's. -1: as many as there are
  // cores that intra_op_threads leaves: none by default, since a long kernel
  // over all cores is ahead of two side by side (LeNet's step on two cores: 25
  // ms against 41). 0: every kernel runs on the caller's thread.
  int inter_op_threads = -1;
  // Threads that one long kernel may use; 0: as many as there are cores.
  int intra_op_threads = 0;
  bool constant_folding = true;
  bool common_subexpressions = true;
  // Runs of cheap nodes, and whole loops of them, become one node each. Off in
  // steps that are traced, which show every node, in partial runs, and where
  // scheduler_seed is set.
  bool regions = true;
  // Products take a bias and an activation along; chains of elementwise nodes
  // run block by block, without writing what is between to memory.
  bool fusion = true;
  // How many calls of functions that call themselves may be within each other
  // (each takes some memory, no thread's stack); one more is ResourceExhausted.
  int max_call_depth = 200'000;
  // Not 0: ready nodes run in a random order drawn from this seed (tests).
  uint64_t scheduler_seed = 0;
  // The devices of this process; none: one CPU. Nodes go where they ask to
  // (DeviceScope); others to the device of a node that they are connected to,
  // or to the first that fits.
  std::vector<std::shared_ptr<Device>> devices = {};
  // A node that cannot be where it asks to be goes to another device of that
  // task; without this it is an error.
  bool soft_placement = false;
  // Gets a table of which node went where and why, when a step is compiled.
  std::function<void(const std::string&)> placement_log = nullptr;
  // Variables and other state; null: the session's own, which die with it.
  std::shared_ptr<ResourceManager> resources = nullptr;
  // In a cluster variables live in its tasks, where all sessions find them by
  // container and name, and stay when sessions end. An isolated session has
  // containers of its own there, which end with it.
  bool isolated = false;
  // Of a session with a target: the cluster as it names its tasks, whatever
  // names these were started with; in JSON, as a cluster's file has it
  // (docs/clusters.md). The target is one of them. "": as they were started.
  std::string cluster;
  // Each so many runs of a step (of the same feeds, fetches and targets),
  // counted from after the first cost_model_after, fill
  // RunMetadata::cost_graph. 0: none.
  int64_t cost_model_every = 0;
  int64_t cost_model_after = 0;
};

struct RunOptions {
  int64_t timeout_ms = 0;  // 0: none. A step past it fails: DeadlineExceeded.
  bool trace = false;      // Fill RunMetadata::events.
  // Fill RunMetadata::partition_graphs: they are made for that, each time.
  bool partition_graphs = false;
  // Where Print writes; null: standard error.
  std::function<void(const std::string&)> log = nullptr;
  // Whoever cancels this ends the step: Cancelled. Outlives the step.
  Cancellation* cancellation = nullptr;
};

// What a step cost.
struct RunMetadata {
  int64_t wall_ns = 0;
  int64_t peak_bytes = 0;       // Live tensor memory of the device at its most
                                // during the step (all sessions counted).
  int64_t step_peak_bytes = 0;  // Of these, what came on top of what was live
                                // when the step began.
  int64_t live_bytes = 0;       // After the step.
  int64_t allocated_bytes = 0;  // By kernels of the step (if traced).
  std::vector<TraceEvent> events;
  std::vector<TraceTask> tasks;  // Of a cluster, if traced.
  // If asked for, what each device ran: the step's part of the graph, without
  // what was folded, as a serialised GraphDef. (Not what then became one
  // kernel.)
  std::vector<std::string> partition_graphs;
  // Of a run that builds a cost model, which is traced: what each node of the
  // partitions took, at its most in the runs so far that did, as a serialised
  // CostGraphDef. Else "".
  std::string cost_graph;
  // Events for chrome://tracing or ui.perfetto.dev.
  std::string ChromeTrace() const { return sluice::ChromeTrace(events, tasks); }
};

using Feeds = std::vector<std::pair<Output, Tensor>>;

// Runs steps of one graph, which it does not own. The graph is to outlive the
// session: once it is destroyed, steps fail with FailedPrecondition. All
// methods may be called by any number of threads at once. A step runs on the
// caller's thread as far as it is cheap. Plans are cached per signature (which
// edges are fed and fetched, which nodes are targets). The graph may grow
// between steps, under its mutex.
class Session {
 public:
  explicit Session(Graph& graph = CurrentGraph(), SessionOptions options = {});
  // A client of the cluster that a task belongs to: "grpc://host:port". Steps
  // are compiled and coordinated by that task and run on the devices of all. An
  // address at which nobody answers is an error of the first step.
  explicit Session(const std::string& target, Graph& graph = CurrentGraph(),
                   SessionOptions options = {});
  ~Session();  // Closes, then waits for running steps.
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Runs one step: the part of the graph that fetches and targets need. Returns
  // the fetched values in order. Any edge may be fed (a value of its dtype and
  // of a shape that fits what is known of it), any edge fetched. A node without
  // outputs (an initializer, a training step, an assignment) may stand among
  // the fetches: it runs, and the Tensor in its place is empty (not valid()).
  // Errors: the first one of the step, naming the node and the client's line;
  // InvalidArgument for feeds and fetches that make no sense, and for a fetch
  // in a branch that was not taken; whatever the graph's builders recorded.
  Result<std::vector<Tensor>> Run(const Feeds& feeds,
                                  const std::vector<Output>& fetches,
                                  const std::vector<Node*>& targets = {},
                                  const RunOptions& options = {},
                                  RunMetadata* metadata = nullptr);
  Result<std::vector<Tensor>> Run(const std::vector<Output>& fetches) {
    return Run({}, fetches);
  }
  // One fetch: Run(loss), or Run(train) to run a node without outputs (of a
  // node that has outputs this is the first). Beside targets: Run(feeds, loss,
  // {train}).
  Result<Tensor> Run(const Feeds& feeds, Output fetch);
  Result<Tensor> Run(Output fetch) { return Run(Feeds{}, fetch); }
  Result<Tensor> Run(const Feeds& feeds, Node* fetch) {
    return Run(feeds, Output(fetch));
  }
  Result<Tensor> Run(Node* fetch) { return Run(Output(fetch)); }
  template <std::same_as<Output> Fetch>  // (No list of one in braces.)
  Result<Tensor> Run(const Feeds& feeds, Fetch fetch,
                     const std::vector<Node*>& targets) {
    auto out = Run(feeds, std::vector<Output>{fetch}, targets);
    if (!out.ok()) return out.status();
    return std::move((*out)[0]);
  }
  // Targets only.
  Status RunTargets(const std::vector<Node*>& targets, const Feeds& feeds = {});
  // By name: edges "x" or "x:0"; a fetch may name a node without outputs, as
  // above. NotFound names the nearest.
  Result<std::vector<Tensor>> RunByName(
      const std::vector<std::pair<std::string, Tensor>>& feeds,
      const std::vector<std::string>& fetches,
      const std::vector<std::string>& targets = {},
      const RunOptions& options = {}, RunMetadata* metadata = nullptr);

  class Callable;
  // A step prepared once, for the lowest overhead. Fetches are as in Run.
  // Outlived by the session.
  Result<Callable> MakeCallable(const std::vector<Output>& feeds,
                                const std::vector<Output>& fetches,
                                const std::vector<Node*>& targets = {});

  class PartialRun;
  // A step that is fed in stages. `feeds` and `fetches` are all that any stage
  // will give and ask for. A node without outputs is a target, not a fetch: no
  // stage could tell that it has run.
  Result<std::unique_ptr<PartialRun>> StartPartialRun(
      const std::vector<Output>& feeds, const std::vector<Output>& fetches,
      const std::vector<Node*>& targets = {});

  // Running steps end with Cancelled. Whatever is asked of the session later,
  // or of its callables and partial runs, fails with FailedPrecondition;
  // another Close does nothing.
  Status Close();

  // Forgets the state in these containers, in all tasks; without any, all
  // state.
  Status Reset(const std::vector<std::string>& containers = {});
  // Full names of the devices that steps may use.
  Result<std::vector<std::string>> ListDevices();

  Graph& graph() const;
  // What is held in this process; empty if steps run elsewhere.
  ResourceManager& resources() const;

 private:
  friend class Callable;
  friend class PartialRun;
  struct State;
  enum class Purpose : uint8_t;
  struct Compiled;
  std::shared_ptr<State> state_;
};

// Thread-safe; cheap to copy. Empty by default: it runs nothing.
class Session::Callable {
 public:
  // `feeds` in the order given to MakeCallable.
  Result<std::vector<Tensor>> Run(std::span<const Tensor> feeds,
                                  const RunOptions& options = {},
                                  RunMetadata* metadata = nullptr) const;
  Result<std::vector<Tensor>> Run(
      std::initializer_list<Tensor> feeds = {}) const {
    return Run(std::span<const Tensor>(feeds.begin(), feeds.size()));
  }

 private:
  friend class Session;
  std::shared_ptr<State> state_;
  std::shared_ptr<Compiled> compiled_;
};

// One step in stages. Not thread-safe. The step's state dies with the object.
class Session::PartialRun {
 public:
  ~PartialRun();
  // Feeds more edges and runs what can run. InvalidArgument if an edge is not
  // one of the declared, was fed before, or a fetch was fetched before or
  // cannot be computed from what has been fed. Of the options a stage takes the
  // timeout, which is its own, and the cancellation: either ends the whole
  // step.
  Result<std::vector<Tensor>> Run(const Feeds& feeds,
                                  const std::vector<Output>& fetches,
                                  const RunOptions& options = {});

 private:
  friend class Session;
  struct Stage;
  PartialRun() = default;
  std::shared_ptr<State> state_;
  std::unique_ptr<Stage> stage_;
};

}  // namespace sluice

#endif  // SLUICE_SESSION_SESSION_H_
