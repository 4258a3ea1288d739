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

#include "exec/core/cancellation.h"
#include "exec/core/device.h"
#include "exec/core/resources.h"
#include "exec/core/trace.h"
#include "graph/builder.h"
#include "graph/graph.h"

namespace sluice {

struct SessionOptions {
  // Threads that run long kernels besides the caller's thread. -1: the number
  // of cores minus intra_op_threads, which is none by default, since one long
  // kernel on all cores is faster than two side by side (LeNet's step on two
  // cores: 25 ms against 41). 0: every kernel runs on the caller's thread.
  int inter_op_threads = -1;
  // Threads that one long kernel may use; 0: the number of cores.
  int intra_op_threads = 0;
  bool constant_folding = true;
  bool common_subexpressions = true;
  // Compiles runs of cheap nodes, and whole loops of them, into single nodes.
  // Always off in traced steps (which show every node), in partial runs, and if
  // scheduler_seed is set.
  bool regions = true;
  // Fuses matrix products with the bias and activation that follow, and runs
  // chains of elementwise nodes block by block, without storing intermediate
  // results.
  bool fusion = true;
  // Runs instances of one node, in different iterations of a loop and different
  // calls of a recursive function, as one kernel when they are ready together
  // and their shapes are equal: products with the same weights, elementwise
  // ops and others (docs/design/047-automatic-batching.md). The results are
  // equal within rounding. What is batched is not fused. In partial runs, on
  // devices with memory of their own and in sessions of clusters it does
  // nothing. WhileOptions::batch and FunctionOptions::batch ask for it in one
  // loop or function.
  bool batch_frames = false;
  // A bound on the memory of a batched recursion, which otherwise runs level by
  // level and opens all calls of its widest level. While so many frames (calls
  // and loops) are open, further calls wait until nothing else can run, and
  // then begin a sixteenth of this number at a time, the innermost first. 0: no
  // bound.
  int batch_open_frames = 4096;
  // The depth limit of recursive function calls (each level uses some memory
  // but no thread stack); a deeper call fails with ResourceExhausted.
  int max_call_depth = 200'000;
  // If not 0, ready nodes run in a random order drawn from this seed (for
  // tests).
  uint64_t scheduler_seed = 0;
  // The devices of this process; none: one CPU. Nodes are placed on the device
  // that they request (DeviceScope); others on the device of a node that they
  // are connected to, or on the first suitable one.
  std::vector<std::shared_ptr<Device>> devices = {};
  // Places a node that cannot run on its requested device on another device of
  // that task; without this it is an error.
  bool soft_placement = false;
  // Receives a table of the placement of each node, with the reason, when a
  // step is compiled.
  std::function<void(const std::string&)> placement_log = nullptr;
  // Variables and other state; null: the session owns its state and destroys
  // it.
  std::shared_ptr<ResourceManager> resources = nullptr;
  // In a cluster, variables live in the tasks, are found there by all sessions
  // by container and name, and outlive sessions. An isolated session has
  // containers of its own there, which are removed when it ends.
  bool isolated = false;
  // For a session with a target: the cluster with the task names to use,
  // whatever names the tasks were started with; in JSON, as in a cluster file
  // (docs/clusters.md). The target is one of the tasks. "": the names that they
  // were started with.
  std::string cluster;
  // For a session with a target: the tasks that it uses, by partial device
  // names such as "/job:ps" and "/job:worker/task:1"; the target is always one
  // of them (and must match if `cluster` names the tasks). Empty: all. The
  // others may be down, and their loss is not noticed: a replica that names the
  // tasks with its variables, and no other replica, does not depend on the
  // others.
  std::vector<std::string> device_filters = {};
  // Every this many runs of a step (with the same feeds, fetches and targets),
  // counted after the first cost_model_after runs, fill
  // RunMetadata::cost_graph. 0: never.
  int64_t cost_model_every = 0;
  int64_t cost_model_after = 0;
};

struct RunOptions {
  int64_t timeout_ms = 0;  // 0: none. A longer step fails: DeadlineExceeded.
  bool trace = false;      // Fill RunMetadata::events.
  // Fill RunMetadata::partition_graphs, which are rebuilt for each such run.
  bool partition_graphs = false;
  // Receives the output of Print; null: standard error.
  std::function<void(const std::string&)> log = nullptr;
  // Cancelling this ends the step with Cancelled. Must outlive the step.
  Cancellation* cancellation = nullptr;
};

// The cost of a step.
struct RunMetadata {
  int64_t wall_ns = 0;
  int64_t peak_bytes = 0;       // Peak of the device's live tensor memory
                                // during the step, all sessions included.
  int64_t step_peak_bytes = 0;  // The part of it above the live memory at the
                                // start of the step.
  int64_t live_bytes = 0;       // After the step.
  int64_t allocated_bytes = 0;  // By kernels of the step (if traced).
  std::vector<TraceEvent> events;
  std::vector<TraceTask> tasks;  // The tasks of a cluster, if traced.
  // If requested: what each device ran, as a serialised GraphDef per device.
  // Folded nodes are removed; fusion into single kernels comes later and is not
  // shown.
  std::vector<std::string> partition_graphs;
  // For a run that updates the cost model (such a run is traced): the cost of
  // each node of the partitions, the maximum over these runs so far, as a
  // serialised CostGraphDef. Else "".
  std::string cost_graph;
  // Events for chrome://tracing or ui.perfetto.dev.
  std::string ChromeTrace() const { return sluice::ChromeTrace(events, tasks); }
};

using Feeds = std::vector<std::pair<Output, Tensor>>;

// Runs steps of one graph, which it does not own. The graph should outlive the
// session: once it is destroyed, steps fail with FailedPrecondition. All
// methods are thread-safe. Cheap parts of a step run on the caller's thread.
// Plans are cached per signature (fed edges, fetched edges and target nodes).
// The graph may grow between steps, under its mutex.
class Session {
 public:
  explicit Session(Graph& graph = CurrentGraph(), SessionOptions options = {});
  // A client of the cluster that the task at "grpc://host:port" belongs to.
  // That task compiles and coordinates the steps, which run on the devices of
  // all tasks. If nothing answers at the address, the first step fails.
  explicit Session(const std::string& target, Graph& graph = CurrentGraph(),
                   SessionOptions options = {});
  // Closes, then waits until nothing of its steps and partial runs runs on any
  // thread, and every `done` of RunAsync has returned. (Within such a `done` it
  // closes, and does not wait.)
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Runs one step: the part of the graph that the fetches and targets need.
  // Returns the fetched values in order. Any edge may be fed (with a value of
  // its dtype and a compatible shape) and any edge fetched. A node without
  // outputs (an initializer, a training step, an assignment) may be listed as a
  // fetch: it runs, and its Tensor in the result is empty (not valid()).
  // Errors: the first error of the step, naming the node and the client's line;
  // InvalidArgument for invalid feeds and fetches, and for a fetch in a branch
  // that was not taken; any error that the graph's builders recorded.
  Result<std::vector<Tensor>> Run(const Feeds& feeds,
                                  const std::vector<Output>& fetches,
                                  const std::vector<Node*>& targets = {},
                                  const RunOptions& options = {},
                                  RunMetadata* metadata = nullptr);
  Result<std::vector<Tensor>> Run(const std::vector<Output>& fetches) {
    return Run({}, fetches);
  }
  // A single fetch: Run(loss), or Run(train) to run a node without outputs (for
  // a node with outputs: its first output). With targets: Run(feeds, loss,
  // {train}).
  Result<Tensor> Run(const Feeds& feeds, Output fetch);
  Result<Tensor> Run(Output fetch) { return Run(Feeds{}, fetch); }
  Result<Tensor> Run(const Feeds& feeds, Node* fetch) {
    return Run(feeds, Output(fetch));
  }
  Result<Tensor> Run(Node* fetch) { return Run(Output(fetch)); }
  template <std::same_as<Output> Fetch>  // (Excludes a braced list of one.)
  Result<Tensor> Run(const Feeds& feeds, Fetch fetch,
                     const std::vector<Node*>& targets) {
    auto out = Run(feeds, std::vector<Output>{fetch}, targets);
    if (!out.ok()) return out.status();
    return std::move((*out)[0]);
  }
  // Runs targets only.
  Status RunTargets(const std::vector<Node*>& targets, const Feeds& feeds = {});
  // The same by name: edges "x" or "x:0"; a fetch may name a node without
  // outputs, as above. NotFound suggests the nearest name.
  Result<std::vector<Tensor>> RunByName(
      const std::vector<std::pair<std::string, Tensor>>& feeds,
      const std::vector<std::string>& fetches,
      const std::vector<std::string>& targets = {},
      const RunOptions& options = {}, RunMetadata* metadata = nullptr);

  class Callable;
  // Prepares a step once, for the lowest overhead per run. Fetches are as in
  // Run. The session must outlive the callable.
  Result<Callable> MakeCallable(const std::vector<Output>& feeds,
                                const std::vector<Output>& fetches,
                                const std::vector<Node*>& targets = {});

  // Called once with the fetched values of a step, or its error. Null: nobody
  // is told.
  using Done = std::function<void(Result<std::vector<Tensor>>)>;
  // Begins a step for which no thread waits. This thread runs what can run at
  // once, and returns when the rest waits for something, such as an element of
  // a queue or another device; the thread that ends that wait goes on. So
  // `done` is called on this thread before this returns, which it always is
  // for an error in the arguments, or later on any thread, also one that is
  // running another step, or closing the session. No lock is held. It may begin
  // steps and close the session, but must not throw, or wait for another step
  // to end. (In a session with a target, a thread of its own waits for the
  // task's answer.) Of the options, all but `trace` and `partition_graphs`
  // apply.
  void RunAsync(const Feeds& feeds, const std::vector<Output>& fetches,
                const std::vector<Node*>& targets, Done done,
                const RunOptions& options = {});

  class PartialRun;
  // A step that is fed in stages. `feeds` and `fetches` list everything that
  // any stage will feed or fetch. A node without outputs must be a target, not
  // a fetch, since no stage could report that it has run.
  Result<std::unique_ptr<PartialRun>> StartPartialRun(
      const std::vector<Output>& feeds, const std::vector<Output>& fetches,
      const std::vector<Node*>& targets = {});

  // Running steps end with Cancelled. Later calls on the session, its callables
  // and its partial runs fail with FailedPrecondition; another Close has no
  // effect.
  Status Close();

  // Removes the state in these containers, in all tasks; without arguments, all
  // state.
  Status Reset(const std::vector<std::string>& containers = {});
  // Full names of the devices that steps may use.
  Result<std::vector<std::string>> ListDevices();

  Graph& graph() const;
  // The options, with what they stood for: another session with these shares
  // the state of this one, if it is held in this process (else `resources` is
  // null).
  SessionOptions options() const;
  // The state held in this process; empty if steps run elsewhere.
  ResourceManager& resources() const;

 private:
  friend class Callable;
  friend class PartialRun;
  struct State;
  enum class Purpose : uint8_t;
  struct Compiled;
  struct AsyncRun;
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
  // The same without a new vector: replaces `results`, one for each fetch. They
  // are unchanged on an error; InvalidArgument for another number of them.
  Status RunInto(std::span<const Tensor> feeds, std::span<Tensor> results,
                 const RunOptions& options = {},
                 RunMetadata* metadata = nullptr) const;
  // As Session::RunAsync; the callable may be destroyed meanwhile.
  void RunAsync(std::span<const Tensor> feeds, Done done,
                const RunOptions& options = {}) const;

 private:
  friend class Session;
  // OK, or why no step can begin.
  Status CheckReady() const;
  // What to run now.
  Result<std::shared_ptr<Compiled>> Current() const;
  std::shared_ptr<State> state_;
  std::shared_ptr<Compiled> compiled_;
};

// One step, fed in stages. Not thread-safe. Destroying it ends the step and
// cancels ops of it that wait.
class Session::PartialRun {
 public:
  ~PartialRun();
  // Feeds more edges and runs what has become ready. Ops that wait for
  // something outside of the step, such as a MutexLock, are awaited only for a
  // fetch that needs them; they and what depends on them go on after this
  // returns. InvalidArgument if an edge was not declared or was fed before, or
  // if a fetch was fetched before or cannot be computed from the feeds so far.
  // Of the options, only the timeout (which is for this stage) and the
  // cancellation apply; either ends the whole step.
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
