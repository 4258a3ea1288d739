// Executor: runs one plan for one step. "One driver, many hands": the
// bookkeeping of the step (exec/frame.h) is done by one thread at a time, the
// driver, with no locks and no atomics on the token path.
//
//   - The caller's thread starts as the driver. It takes ready nodes, newest
//     first, and runs their kernels itself, so a small step never changes
//     threads.
//   - A kernel that takes long while other nodes are ready goes to the pool, if
//     there is one (by default there is none: a long kernel fills the cores
//     itself); an async kernel runs wherever it likes. Both post a completion to the
//     mailbox when they are done. If nobody drives at that moment, the thread
//     that posts becomes the driver.
//   - A driver with nothing ready gives up the role; the caller then sleeps
//     until the step is quiet: nothing ready, nothing in flight.
//   - The first error that is not itself a consequence stops the step: ready
//     nodes are dropped, blocked kernels are cancelled, and the step ends when
//     what is in flight has come back.
#ifndef SLUICE_EXEC_EXECUTOR_H_
#define SLUICE_EXEC_EXECUTOR_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "exec/frame.h"
#include "exec/plan.h"
#include "exec/trace.h"

namespace sluice {

struct ExecuteOptions {
  StepContext step;               // Cancellation and step_resources are filled
                                  // in by the execution.
  ThreadPool* pool = nullptr;     // Null: everything on the caller's thread.
  int intra_op_threads = 1;       // For a kernel that runs alone.
  std::optional<std::chrono::steady_clock::time_point> deadline;
  TraceCollector* trace = nullptr;
  uint32_t max_call_depth = UINT32_MAX;  // Calls of functions within each other.
  // Not 0: ready nodes are taken in a random order drawn from this seed.
  uint64_t scheduler_seed = 0;
};

// One step, from Start to the end; used again for later steps of the plan.
// Owned by whoever runs the step. Start, Run and Finish are called by one
// thread; Cancel by any.
class Execution {
 public:
  explicit Execution(std::shared_ptr<const Plan> plan);
  ~Execution();

  // Begins a step.
  void Start(const ExecuteOptions& options);
  // Gives fed edges their tokens and runs until nothing more can run. May be
  // called again with more feeds (a partial run). REQUIRES: started, the
  // arguments not fed before.
  Status Run(std::span<const uint32_t> args, std::span<const Tensor> values);
  // A fetched token; invalid if it has not come. Valid until Finish.
  Tensor& result(uint32_t index) { return results_[index]; }
  // Why fetch `index` has not come, after Run returned OK.
  Status MissingResult(uint32_t index) const;
  // Ends the step: frees everything that lives no longer than it.
  void Finish();

  // Makes the running step end soon with this error, if it has none yet.
  void Cancel(const Status& why);

  const Plan& plan() const { return *plan_; }

 private:
  struct Offloaded;
  struct Completion {
    Ready ready;
    Status status;
  };

  void Drive();
  Ready PopReady();
  // These return whether this thread still is the driver.
  bool Process(Ready r);
  bool RunKernel(Ready r);
  bool Offload(Ready r);
  bool StartAsync(Ready r);
  bool RunUnattended(Ready r);
  bool Done(Ready r, const Status& s);
  bool Fail(const Ready* r, const Status& s);

  Status FillReads(Ready r, Tensor* locals);
  void SetUp(Ready r, Tensor* locals, uint32_t* uses, KernelContext* ctx);
  Status Invoke(Ready r, KernelContext& ctx);
  Status InvokeTraced(Ready r, KernelContext& ctx);
  Status InvokeMeasured(Ready r, KernelContext& ctx);
  Status InvokeInline(Ready r);
  std::shared_ptr<Offloaded> TakeAway(Ready r);
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
  Status status_;      // The step's first root error.
  int in_flight_ = 0;  // Kernels whose completion has not been handled.
  uint32_t ticks_ = 0;
  std::mt19937_64 random_;

  std::atomic<bool> attention_{false};  // Mail has come, or a cancellation.
  std::mutex mu_;
  std::condition_variable quiet_cv_;
  std::vector<Completion> mailbox_;  // GUARDED_BY(mu_)
  std::vector<Completion> opened_;   // The driver's: mail being handled.
  bool driving_ = false;             // GUARDED_BY(mu_): some thread drives.
  bool quiet_ = true;                // GUARDED_BY(mu_)
  bool started_ = false;             // GUARDED_BY(mu_): until Finish.
  Status cancelled_;                 // GUARDED_BY(mu_)
};

}  // namespace sluice

#endif  // SLUICE_EXEC_EXECUTOR_H_
