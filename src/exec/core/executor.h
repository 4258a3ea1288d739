// Executor: runs one plan for one step. The bookkeeping of the step
// (exec/core/frame.h) is done by one thread at a time, the driver, with no
// locks and no atomics on the token path.
//
//   - The caller's thread starts as the driver. It takes ready nodes, newest
//     first, and runs their kernels itself, so a small step never changes
//     threads.
//   - A long-running kernel goes to the pool, if there is one, while other
//     nodes are ready (by default there is none: a long kernel uses all cores
//     itself); an async kernel runs on any thread. Both post a completion to
//     the mailbox when they are done. If there is no driver at that moment, the
//     posting thread becomes the driver.
//   - A driver with nothing ready gives up the role; the caller then sleeps
//     until the step is quiet: nothing ready, nothing in flight.
//   - A kernel that only waits (OpFacts::waits) is in flight, but does not run:
//     a stage of a partial run is over without it. When it completes, between
//     the stages, the thread that completes it becomes the driver.
//   - So that steps that wake each other, as those of a pipeline, run at the
//     same time, a thread that completes such a kernel leaves the step to its
//     caller, which sleeps, if driving it has taken long on average.
//   - A step in which nothing is left but kernels that wait for other nodes of
//     the step itself (Kernel::needs) fails at once. Over several partitions
//     of one process their StepGroup finds that out.
//   - Tokens from other partitions of the step also arrive in the mailbox, and
//     the thread that delivers them to an execution without a driver becomes
//     its driver. A thread that becomes a driver while it drives another
//     execution queues the second on its DriveQueue, so that calls do not nest:
//     partitions take turns on one thread without a thread switch, and one that
//     always has ready nodes yields to the next after some nodes. A Recv whose
//     token has not arrived counts as in flight.
//   - The first root error stops the step: ready nodes are dropped, blocked
//     kernels are cancelled, and the step ends when everything in flight has
//     completed.
#ifndef SLUICE_EXEC_CORE_EXECUTOR_H_
#define SLUICE_EXEC_CORE_EXECUTOR_H_

#include <atomic>
#include <chrono>
#include <climits>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "exec/core/drive_queue.h"
#include "exec/core/frame.h"
#include "exec/core/plan.h"
#include "exec/core/ready_stage.h"
#include "exec/core/rendezvous.h"
#include "exec/core/trace.h"

namespace sluice {

// The error of every step that exceeds its deadline.
Status PastDeadline();
// The error of a step in which nothing can provide what is left needs.
Status StuckOn(const std::vector<std::string>& needs);

struct ExecuteOptions {
  StepContext step;            // Cancellation and step_resources are filled
                               // in by the execution.
  ThreadPool* pool = nullptr;  // Null: everything on the caller's thread.
  int intra_op_threads = 1;    // For a kernel that runs alone.
  std::optional<std::chrono::steady_clock::time_point> deadline;
  TraceCollector* trace = nullptr;
  uint32_t max_call_depth = UINT32_MAX;  // Maximum nesting of function calls.
  // Of a plan with a stage, which delays what ends frames: while so many are
  // alive, calls wait until nothing else is ready.
  int most_frames = INT_MAX;
  // If not 0: ready nodes run in a random order drawn from this seed.
  uint64_t scheduler_seed = 0;
  // Nodes of earlier iterations run first: for a device whose kernels return
  // when they are issued. It executes them in the order of issue, and others
  // wait for their results. (Otherwise the newest node runs first, whose inputs
  // are in the cache.)
  bool oldest_first = false;
  // Where the tokens of Sends go; null if the plan has none.
  Outbox* outbox = nullptr;
};

// One step, from Start to Finish; reused for later steps of the plan. Owned by
// the runner of the step. Start, Run and Finish are called by one thread;
// Receive and Cancel by any.
class Execution {
 public:
  using Deadline = std::optional<std::chrono::steady_clock::time_point>;

  explicit Execution(std::shared_ptr<const Plan> plan);
  ~Execution();

  // Begins a step.
  void Start(const ExecuteOptions& options);
  // Delivers the feeds and runs until nothing more can run. REQUIRES: started.
  Status Run(std::span<const uint32_t> args, std::span<const Tensor> values);
  // One stage of a step in stages: delivers its feeds and runs until nothing
  // more can run or until everything in flight only waits and the fetches
  // `awaited` have arrived, dead or alive. What waits continues when it can,
  // between the stages too. Then calls `collect`, on any thread, to read
  // results and the reasons of missing ones, while no other thread changes
  // them; returns its status. Past the deadline, which is for this stage, the
  // step fails. An error ends the step: all later stages return it. REQUIRES:
  // started without an outbox; the arguments not fed before; Stop follows.
  Status RunStage(std::span<const uint32_t> args,
                  std::span<const Tensor> values,
                  std::span<const uint32_t> awaited, Deadline deadline,
                  const std::function<Status()>& collect);
  // Ends what still waits after the last stage, with this error, and waits
  // until nothing of the step runs. REQUIRES: no RunStage in progress.
  void Stop(const Status& why);
  // Waits until nothing of the step runs or waits, after Cancel. Callable from
  // any thread.
  void AwaitEnd();
  // Run without waiting: the last driver calls `quiet` once with the
  // step's status, possibly before this returns. `quiet` may finish and destroy
  // the execution.
  void RunAsync(std::span<const uint32_t> args, std::span<const Tensor> values,
                std::function<void(Status)> quiet);
  // Delivers tokens from other partitions; takes the values. Callable from any
  // thread after Start.
  void Receive(std::span<TokenMessage> batch);
  // A fetched token; invalid if it has not arrived. Available until Finish; for
  // a step in stages, see RunStage.
  Tensor& result(uint32_t index) { return results_[index]; }
  // The reason why fetch `index` has not arrived, after Run returned OK.
  Status MissingResult(uint32_t index) const;
  // The number of tokens that arrived but were never consumed, when the step is
  // quiet: 0 if the graph was partitioned correctly.
  size_t UnconsumedTokens();
  // Ends the step: frees everything that belongs to it. REQUIRES: it is quiet,
  // or was stopped.
  void Finish();

  // For a StepGroup, which asks whether its step is stuck, while it holds the
  // locks of all its executions.
  std::unique_lock<std::mutex> LockToCheck() {
    return std::unique_lock<std::mutex>(mu_);
  }
  // Nothing of this execution runs, nothing that has arrived is to be handled,
  // and all kernels in flight wait for something.
  bool IsIdle() const;
  // Of an idle one: adds what each kernel in flight needs (Kernel::needs);
  // false if one of them may complete without another node of this step.
  bool AddNeeds(std::vector<std::string>* needs) const;
  // The tokens received from other partitions in this step.
  uint64_t received() const { return received_; }

  // Makes the running step end soon with this error, if it has none yet.
  void Cancel(const Status& why);

  const Plan& plan() const { return *plan_; }

 private:
  friend void DriveWaiting();
  struct Async;
  struct Stage;

  void Begin(std::span<const uint32_t> args, std::span<const Tensor> values);
  // Cancel, with `lock` on mu_, which it releases.
  void CancelAndUnlock(const Status& why, std::unique_lock<std::mutex> lock);
  // Waits for a state that the driver announces by quiet_cv_. Past the deadline
  // the step fails, unless it is in that state. `lock` is on mu_.
  template <typename Holds>
  void Await(std::unique_lock<std::mutex>& lock, Deadline deadline,
             Holds holds);
  void Drive();
  // These return whether the step has become quiet on this thread.
  bool DriveThis();
  bool Rest(std::unique_lock<std::mutex> lock);
  bool GoesOn(std::unique_lock<std::mutex>& lock);  // More to do: unlocked.
  bool IsQuiet() const;
  // REQUIRES: mu_ held.
  bool NothingRuns() const { return !driving_ && running_.empty(); }
  // Whether no kernel outside of the driver runs: those in flight only wait.
  bool NoneRuns() const { return running_.size() == waiting_; }
  Ready PopReady();
  void PickReady();
  // These return whether this thread still is the driver.
  bool RunReady();
  bool Process(Ready r);
  bool RunKernel(Ready r);
  void RunHeld();
  void StartPostponed();
  // Whether other nodes could run meanwhile.
  bool OthersAreReady() {
    return !tokens_.ready().empty() ||
           (stage_ != nullptr && (!stage_->empty() || tokens_.has_postponed()));
  }
  bool Offload(Ready r);
  bool StartAsync(Ready r);
  bool StartLongAsync(Ready r);
  static void Launch(Async* async);
  bool RunUnattended(Ready r);
  bool Done(Ready r, const Status& s);
  bool Fail(const Ready* r, Status s);
  void Send(Ready r, bool dead, const Tensor* read);
  bool Recv(Ready r);
  bool Received(Ready r, TokenMessage& m);
  void Arrived(TokenMessage& m);
  void ArrivedAt(uint32_t edge, TokenMessage& m);
  std::string DescribeWaiting() const;

  Status FillReads(Ready r, Tensor* locals);
  void SetUp(Ready r, Tensor* locals, uint32_t* uses, KernelContext* ctx);
  Status Invoke(Ready r, KernelContext& ctx);
  Status InvokeTraced(Ready r, KernelContext& ctx);
  // The memory of the elements of an input.
  struct InputMemory {
    int input;
    const std::byte* begin;
    size_t bytes;
  };
  void AddEvent(Ready r, int64_t start_ns, int64_t allocated_bytes,
                const std::vector<InputMemory>& inputs, int64_t instances = 1);
  void AddTransfer(TraceEvent::Kind kind, Ready r, uint32_t edge,
                   const Tensor& value);
  Status InvokeMeasured(Ready r, KernelContext& ctx);
  void AddCost(const PlanNode& n, int64_t ns);  // By the driver.
  Status InvokeInline(Ready r);
  Async* BeginAsync(Ready r);
  void EndAsync(Async* async);
  Status InvokeAsync(Async& async, int threads);
  void Post(Async* async, Status s);
  void HandleMail();
  std::atomic<uint32_t>& CostOf(const PlanNode& n) const {
    return plan_->cost[static_cast<size_t>(&n - plan_->nodes.data())];
  }

  // Constant after construction.
  const std::shared_ptr<const Plan> plan_;
  // Constant during a step.
  ExecuteOptions options_;
  StepContext step_;
  std::shared_ptr<Cancellation> cancellation_;
  ResourceManager step_resources_;
  // The driver's own.
  Tokens tokens_;
  const std::unique_ptr<ReadyStage> stage_;  // Null if no node is held.
  std::vector<Tensor> results_;
  std::vector<uint8_t> dead_results_;
  std::vector<Tensor> locals_;
  Status status_;  // The step's first root error.
  // Kernels outside of the driver whose completion has not been handled, those
  // that wait to be reused, and the owner of both.
  std::vector<Async*> running_, idle_;
  std::vector<std::unique_ptr<Async>> asyncs_;
  size_t waiting_ = 0;  // Of running_: those that only wait.
  // All kernels of the step ran on this thread so far, and there are no other
  // partitions: no other thread looks, except one that cancels the step.
  bool alone_ = false;
  bool picks_ = false;    // The newest node is not always next.
  size_t heap_size_ = 0;  // For oldest_first: the first nodes are a heap.
  uint32_t ticks_ = 0;
  Rendezvous rendezvous_;
  std::mt19937_64 random_;

  std::atomic<bool> attention_{false};  // New mail, or a cancellation.
  std::mutex mu_;
  std::condition_variable quiet_cv_;
  std::vector<Async*> mailbox_;      // GUARDED_BY(mu_): completed kernels.
  std::vector<TokenMessage> inbox_;  // GUARDED_BY(mu_)
  uint64_t received_ = 0;            // GUARDED_BY(mu_)
  std::vector<Async*> completed_;    // The driver's: mail being handled.
  std::vector<TokenMessage> arrived_;
  bool driving_ = false;  // GUARDED_BY(mu_): some thread drives, or is called.
  bool quiet_ = true;     // GUARDED_BY(mu_)
  // The thread that called Run can be called to drive; it has been called.
  bool caller_sleeps_ = false, called_ = false;  // GUARDED_BY(mu_)
  // The driver's: whether a wait has ended for this turn, which is timed; and
  // how long such turns take on average, over all steps.
  bool times_turn_ = false;
  std::atomic<uint32_t> turn_ns_{0};
  // Written under mu_, read by drivers: the step runs in stages.
  bool staged_ = false;
  Stage* run_stage_ = nullptr;  // GUARDED_BY(mu_): the one in progress.
  std::function<void(Status)> on_quiet_;  // GUARDED_BY(mu_)
  // From Start, which publishes what Cancel reads, until Finish. Cleared and
  // read under mu_.
  std::atomic<bool> started_{false};
  Status cancelled_;  // GUARDED_BY(mu_)
};

}  // namespace sluice

#endif  // SLUICE_EXEC_CORE_EXECUTOR_H_
