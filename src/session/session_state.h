// The internals of a session, for the files that implement it.
#ifndef SLUICE_SESSION_SESSION_STATE_H_
#define SLUICE_SESSION_SESSION_STATE_H_

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/thread_pool.h"
#include "exec/core/device.h"
#include "graph/tensor_store_info.h"
#include "session/backend.h"
#include "session/compile.h"
#include "session/cost_model.h"
#include "session/session.h"
#include "session/step.h"

namespace sluice {

// The kind of step that a plan is compiled for.
enum class Session::Purpose : uint8_t {
  kRun,
  kTraced,  // Shows every node.
  kStaged,  // Fed in stages.
};

// A compiled step signature. Shared by the cache and callables; thread-safe.
struct Session::Compiled {
  // Constant once compiled.
  Purpose purpose = Purpose::kRun;
  std::vector<BuiltPlan> built;      // Empty if the steps run elsewhere:
  uint64_t remote = 0;               // then this is the backend's handle.
  std::vector<PartitionPlan> parts;  // One per device.
  StepSignature asked;      // The client's; may fetch nodes without outputs.
  StepSignature signature;  // What runs: these are targets.
  std::vector<size_t> without_value;  // Positions of such fetches in `asked`.
  std::vector<uint32_t> args;         // 0, 1, 2, ...
  std::vector<DType> feed_types;
  std::vector<PartialShape> feed_shapes;
  // By fetch; only for a step that is fed in stages.
  std::vector<std::vector<size_t>> feeds_needed;
  // The stores of one step that it reads, as the client's graph has them.
  std::set<StoreIdentity> stores_read;

  // For a step that reads stores, how much of the graph has been searched for
  // writes that it lacks (State::IsCurrent): StoreWritesBuilt(), and the nodes.
  std::atomic<uint64_t> writes_seen{0};
  int nodes_seen = 0;  // GUARDED_BY(graph.mutex())

  // For a session that builds cost models: the number of runs of the step and,
  // in the traced plan, the costs of its nodes.
  std::atomic<int64_t> runs{0};
  CostModel costs;

  // Steps for reuse. GUARDED_BY(the session's running_mu)
  std::vector<std::shared_ptr<Step>> idle;

  Status CheckFeed(size_t i, const Tensor& t) const {
    if (t.dtype() == feed_types[i] &&
        (t.rank() == 0
             ? feed_shapes[i].rank() <= 0
             : feed_shapes[i].CompatibleWith(PartialShape(t.shape()))))
      return OkStatus();
    const Output& o = signature.feeds[i];
    if (!t.valid())
      return InvalidArgument("feed '", o.name(), "': ", t.status().message(),
                             "; ", o.node->Describe());
    return InvalidArgument("feed '", o.name(), "': expected ",
                           DTypeName(feed_types[i]), feed_shapes[i].ToString(),
                           ", got ", DTypeName(t.dtype()), t.shape().ToString(),
                           "; ", o.node->Describe());
  }
  Status CheckFeeds(std::span<const Tensor> feeds) const {
    if (feeds.size() != args.size())
      return InvalidArgument("feeds: expected ", args.size(), ", got ",
                             feeds.size());
    for (size_t i = 0; i < feeds.size(); ++i)
      SLUICE_RETURN_IF_ERROR(CheckFeed(i, feeds[i]));
    return OkStatus();
  }
  // Moves the values of a step that ended well, unless one is missing.
  Status TakeResults(Step& e, std::span<Tensor> results) const {
    for (uint32_t i = 0; i < signature.fetches.size(); ++i)
      if (e.result(i) == nullptr) return e.MissingResult(i);
    Return(results, [&e](size_t i) -> Tensor&& {
      return std::move(*e.result(static_cast<uint32_t>(i)));
    });
    return OkStatus();
  }
  // Moves the fetched values, value(0), value(1) and so on, to the positions of
  // the client's fetches.
  template <typename Fn>
  void Return(std::span<Tensor> results, Fn&& value) const {
    size_t without = 0;
    for (size_t i = 0; i < results.size(); ++i)
      if (without < without_value.size() && without_value[without] == i) {
        results[i] = Tensor();
        ++without;
      } else {
        results[i] = value(i - without);
      }
  }
  // Checks a value from another process before readers rely on its declared
  // type.
  Status CheckFetch(size_t i, const Tensor& t) const {
    const Output& o = signature.fetches[i];
    const DType want = RemoveRef(o.dtype());
    if (t.valid() && t.dtype() == want) return OkStatus();
    return DataLoss("fetch '", o.name(), "': expected ", DTypeName(want),
                    ", got ", t.valid() ? DTypeName(t.dtype()) : "none", "; ",
                    o.node->Describe());
  }
};

// The shared state of a session, its callables and its partial runs.
struct Session::State {
  Graph& graph;
  const std::weak_ptr<const void> graph_alive;
  const SessionOptions options;
  const std::shared_ptr<ResourceManager> resources;
  const std::vector<std::shared_ptr<Device>> devices;  // At least one.
  const int intra_op_threads;
  std::unique_ptr<ThreadPool> pool;  // Null if no threads were asked for.
  // Runs the steps; null: they run in this process.
  std::unique_ptr<SessionBackend> backend;
  // The error if the options are invalid or the backend could not be created.
  Status connected;
  std::atomic<int64_t> next_step_id{1};

  // Held only briefly, never while a step is compiled: that happens under the
  // graph's mutex, while already compiled steps continue to run.
  std::mutex mu;
  std::unordered_map<std::string, std::shared_ptr<Compiled>>
      plans;  // GUARDED_BY(mu)
  StatefulKernels kernels;
  StateDevices state_devices;  // GUARDED_BY(graph.mutex())
  std::mutex running_mu;
  std::condition_variable idle_cv;
  std::vector<Step*> running;  // GUARDED_BY(running_mu); few.
  // How many `done` of asynchronous runs are being called, or will be by a
  // thread that waits for a task. GUARDED_BY(running_mu)
  size_t calling = 0;
  // Between stages. ~Session keeps those that it waits for.
  absl::flat_hash_map<Step*, std::shared_ptr<Step>>
      resting;                      // GUARDED_BY(running_mu)
  std::atomic<bool> closed{false};  // Written under running_mu.

  State(Graph& g, SessionOptions o);
  // For steps that run elsewhere.
  State(const std::string& target, Graph& g, SessionOptions o);

  Device& FindDevice(const std::string& name) const;
  Result<std::vector<StepPart>> Cut(OptimizedStep step, bool tell);
  Result<std::vector<std::string>> PartitionGraphs(const StepSignature& s);
  Result<std::shared_ptr<Compiled>> Compile(StepSignature s, Purpose purpose);
  Status Check(const StepSignature& s, Purpose purpose) const;
  Status CheckEdge(const Output& o, const char* list, size_t i,
                   bool or_node) const;
  Status WhyNull(const Output& null, std::string what) const;
  std::shared_ptr<Compiled> FindPlan(const std::string& key) {
    std::lock_guard<std::mutex> lock(mu);
    const auto it = plans.find(key);
    return it == plans.end() ? nullptr : it->second;
  }
  Result<std::shared_ptr<Compiled>> Cached(const StepSignature& s,
                                           Purpose purpose);
  // Whether the step runs all writes that its graph has now of the stores that
  // it reads.
  bool IsCurrent(Compiled& c) {
    return c.stores_read.empty() ||
           c.writes_seen.load(std::memory_order_relaxed) ==
               StoreWritesBuilt() ||
           LacksNoWrite(c);
  }
  bool LacksNoWrite(Compiled& c);
  // Notes which stores a step reads. `step`: its pruned graph; null if it is
  // not known here.
  void NoteStores(const Graph* step, Compiled* c);
  Result<std::shared_ptr<Step>> Begin(Compiled& c, const RunOptions& run,
                                      TraceCollector* trace);
  // `calls_done`: the caller calls the `done` of an asynchronous run next.
  void End(Compiled& c, std::shared_ptr<Step>& e, bool calls_done);
  // Whether this thread is in a `done` of the session.
  bool InDone() const;
  // Whether the session can be used; called first by every method except Close.
  Status CheckOpen() const {
    if (closed.load(std::memory_order_acquire)) [[unlikely]]
      return FailedPrecondition(
          "session: expected an open one, got a closed one");
    return connected;
  }
  // The same, and whether the graph still exists.
  Status CheckReady() const {
    SLUICE_RETURN_IF_ERROR(CheckOpen());
    if (graph_alive.expired())
      return FailedPrecondition(
          "session: expected a graph that outlives it, got one that was "
          "destroyed");
    return OkStatus();
  }
  // A partial run counts as running only while a stage of it runs; it rests
  // between stages, where ops of it may wait.
  Status Resume(Step* e) {
    std::lock_guard<std::mutex> lock(running_mu);
    SLUICE_RETURN_IF_ERROR(CheckOpen());
    resting.erase(e);
    running.push_back(e);
    return OkStatus();
  }
  static std::optional<std::chrono::steady_clock::time_point> DeadlineOf(
      const RunOptions& run) {
    if (run.timeout_ms <= 0) return std::nullopt;
    // (A longer timeout is no timeout, and would overflow the clock.)
    constexpr int64_t kMax = int64_t{1} << 40;
    return std::chrono::steady_clock::now() +
           std::chrono::milliseconds(std::min(run.timeout_ms, kMax));
  }
  static Status CancelledByCaller() {
    return Cancelled("step: expected to run to its end, got cancelled");
  }
  void Rest(const std::shared_ptr<Step>& e) {
    std::lock_guard<std::mutex> lock(running_mu);
    Remove(e.get());
    resting[e.get()] = e;
  }
  void Remove(Step* e) {  // REQUIRES(running_mu)
    if (!resting.empty()) resting.erase(e);
    std::erase(running, e);
    NotifyIfIdle();
  }
  bool NothingRuns() const {  // REQUIRES(running_mu)
    return running.empty() && calling == 0;
  }
  void NotifyIfIdle() {  // REQUIRES(running_mu)
    // (~Session, which waits for this, has closed it.)
    if (closed.load(std::memory_order_relaxed) && NothingRuns())
      idle_cv.notify_all();
  }
  // `results` has room for the client's fetches; unchanged on an error.
  // REQUIRES: CheckReady().
  Status RunStep(Compiled& c, std::span<const Tensor> feeds,
                 std::span<Tensor> results, const RunOptions& run,
                 RunMetadata* metadata);
  // The same, with the plan that the options of `run` need; `c` is for kRun.
  Status RunAsAsked(Compiled& c, std::span<const Tensor> feeds,
                    std::span<Tensor> results, const RunOptions& run,
                    RunMetadata* metadata);
};

}  // namespace sluice

#endif  // SLUICE_SESSION_SESSION_STATE_H_
