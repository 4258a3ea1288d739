// Executor: runs one plan for one step. "One driver, many hands": the
// bookkeeping of the step (exec/frame.h) is done by one thread at a time, the
// driver, with no locks and no atomics on the token path.
//
//   - The caller's thread starts as the driver. It takes ready nodes, newest
//     first, and runs their kernels itself, so a small step never changes
//     threads.
//   - A kernel that takes long while other nodes are ready goes to the pool, if
//     there is one (by default there is none: a long kernel fills the cores
//     itself); an async kernel runs wherever it likes. Both post a completion
//     to the mailbox when they are done. If nobody drives at that moment, the
//     thread that posts becomes the driver.
//   - A driver with nothing ready gives up the role; the caller then sleeps
//     until the step is quiet: nothing ready, nothing in flight.
//   - Tokens from other partitions of the step come into the mailbox too, and
//     whoever brings them to an execution that nobody drives becomes its
//     driver. A thread that drives one already puts the other on its agenda:
//     partitions take turns on one thread, with no hand-over, and one that
//     always has something ready makes way for the next after some nodes. A
//     Recv whose token has not come counts as in flight.
//   - The first error that is not itself a consequence stops the step: ready
//     nodes are dropped, blocked kernels are cancelled, and the step ends when
//     what is in flight has come back.
#ifndef SLUICE_EXEC_EXECUTOR_H_
#define SLUICE_EXEC_EXECUTOR_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "exec/agenda.h"
#include "exec/frame.h"
#include "exec/plan.h"
#include "exec/rendezvous.h"
#include "exec/trace.h"

namespace sluice {

// How every step that is too late ends.
Status PastDeadline();

struct ExecuteOptions {
  StepContext step;            // Cancellation and step_resources are filled
                               // in by the execution.
  ThreadPool* pool = nullptr;  // Null: everything on the caller's thread.
  int intra_op_threads = 1;    // For a kernel that runs alone.
  std::optional<std::chrono::steady_clock::time_point> deadline;
  TraceCollector* trace = nullptr;
  uint32_t max_call_depth =
      UINT32_MAX;  // Calls of functions within each other.
  // Not 0: ready nodes are taken in a random order drawn from this seed.
  uint64_t scheduler_seed = 0;
  // Nodes of earlier iterations go first: for a device whose kernels are over
  // when they are issued, so that the order in which they are is that in which
  // they are done, and others wait for what they give. (Elsewhere the newest
  // goes first, whose inputs are at hand.)
  bool oldest_first = false;
  // Where the tokens of Sends go; null if the plan has none.
  Outbox* outbox = nullptr;
};

// One step, from Start to the end; used again for later steps of the plan.
// Owned by whoever runs the step. Start, Run and Finish are called by one
// thread; Receive and Cancel by any.
class Execution {
 public:
  explicit Execution(std::shared_ptr<const Plan> plan);
  ~Execution();

  // Begins a step.
  void Start(const ExecuteOptions& options);
  // From the next Run on. REQUIRES: started, and no Run under way.
  void SetDeadline(
      std::optional<std::chrono::steady_clock::time_point> deadline) {
    options_.deadline = step_.deadline = deadline;
  }
  // Gives fed edges their tokens and runs until nothing more can run. May be
  // called again with more feeds (a partial run). REQUIRES: started, the
  // arguments not fed before.
  Status Run(std::span<const uint32_t> args, std::span<const Tensor> values);
  // The same without waiting: `quiet` is called once with the step's status,
  // maybe before this returns, by whichever thread drives last. It may finish
  // and destroy the execution.
  void RunAsync(std::span<const uint32_t> args, std::span<const Tensor> values,
                std::function<void(Status)> quiet);
  // Tokens from other partitions; takes the values. By any thread, from Start
  // on.
  void Receive(std::span<TokenMessage> batch);
  // A fetched token; invalid if it has not come. Valid until Finish.
  Tensor& result(uint32_t index) { return results_[index]; }
  // Why fetch `index` has not come, after Run returned OK.
  Status MissingResult(uint32_t index) const;
  // Tokens that came and nobody took, of a step that has come to rest: none, if
  // the graph was cut well.
  size_t UntakenTokens();
  // Ends the step: frees everything that lives no longer than it.
  void Finish();

  // Makes the running step end soon with this error, if it has none yet.
  void Cancel(const Status& why);

  const Plan& plan() const { return *plan_; }

 private:
  friend class HeldAgenda;
  struct Offloaded;
  struct Completion {
    Ready ready;
    Status status;
  };

  void Begin(std::span<const uint32_t> args, std::span<const Tensor> values);
  // These return whether the step has come to rest on this thread.
  bool Drive();
  bool DriveThis();
  Ready PopReady();
  void PickReady();
  // These return whether this thread still is the driver.
  bool Process(Ready r);
  bool RunKernel(Ready r);
  bool Offload(Ready r);
  bool StartAsync(Ready r);
  bool RunUnattended(Ready r);
  bool Done(Ready r, const Status& s);
  bool Fail(const Ready* r, Status s);
  void Send(Ready r, bool dead, const Tensor* read);
  bool Recv(Ready r);
  bool Received(Ready r, TokenMessage& m);
  void Arrived(TokenMessage& m);
  std::string DescribeWaiting() const;

  Status FillReads(Ready r, Tensor* locals);
  void SetUp(Ready r, Tensor* locals, uint32_t* uses, KernelContext* ctx);
  Status Invoke(Ready r, KernelContext& ctx);
  Status InvokeTraced(Ready r, KernelContext& ctx);
  // Where the elements of an input lie.
  struct InputMemory {
    int input;
    const std::byte* begin;
    size_t bytes;
  };
  void AddEvent(Ready r, int64_t start_ns, int64_t allocated_bytes,
                const std::vector<InputMemory>& inputs);
  void AddTransfer(TraceEvent::Kind kind, Ready r, uint32_t edge,
                   const Tensor& value);
  Status InvokeMeasured(Ready r, KernelContext& ctx);
  Status InvokeInline(Ready r);
  std::shared_ptr<Offloaded> TakeAway(Ready r);
  void ComeBack(Ready r);
  Status InvokeAway(Offloaded& task);
  void Post(Ready r, Status s);
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
  std::vector<Tensor> results_;
  std::vector<uint8_t> dead_results_;
  std::vector<Tensor> locals_;
  Status status_;            // The step's first root error.
  int in_flight_ = 0;        // Kernels whose completion has not been handled.
  std::vector<Ready> away_;  // The nodes of these.
  bool picks_ = false;       // The newest node is not always next.
  uint32_t ticks_ = 0;
  Rendezvous rendezvous_;
  std::mt19937_64 random_;

  std::atomic<bool> attention_{false};  // Mail has come, or a cancellation.
  std::mutex mu_;
  std::condition_variable quiet_cv_;
  std::vector<Completion> mailbox_;  // GUARDED_BY(mu_)
  std::vector<TokenMessage> inbox_;  // GUARDED_BY(mu_)
  std::vector<Completion> opened_;   // The driver's: mail being handled.
  std::vector<TokenMessage> opened_tokens_;
  bool driving_ = false;  // GUARDED_BY(mu_): some thread drives.
  bool quiet_ = true;     // GUARDED_BY(mu_)
  std::function<void(Status)> on_quiet_;  // GUARDED_BY(mu_)
  bool started_ = false;                  // GUARDED_BY(mu_): until Finish.
  Status cancelled_;                      // GUARDED_BY(mu_)
};

}  // namespace sluice

#endif  // SLUICE_EXEC_EXECUTOR_H_
