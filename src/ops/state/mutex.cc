// Critical sections in a graph: a step waits for a mutex without blocking a
// thread.
#include <atomic>
#include <deque>

#include "graph/op_def.h"
#include "ops/state/lookup.h"

namespace sluice {
namespace {

using state::SharedHandle;

// Held by one MutexLock at a time; the others wait in FIFO order. Thread-safe;
// makes no calls while holding its own lock.
class Mutex : public Resource {
 public:
  // Called once when the waiter gets the mutex; returns false if it no longer
  // wants it.
  using Granted = std::function<bool()>;

  std::string TypeName() const override { return "Mutex"; }

  // Acquires the mutex if it is free (true), else enters the queue.
  bool AcquireOrWait(Granted granted) {
    std::lock_guard<std::mutex> lock(mu_);
    if (!held_) {
      held_ = true;
      return true;
    }
    waiting_.push_back(std::move(granted));
    return false;
  }
  // Passes the mutex to the first waiter in the queue that still wants it.
  void Release() {
    for (;;) {
      Granted next;
      {
        std::lock_guard<std::mutex> lock(mu_);
        if (waiting_.empty()) {
          held_ = false;
          return;
        }
        next = std::move(waiting_.front());
        waiting_.pop_front();
      }
      if (next()) return;
    }
  }

 private:
  std::mutex mu_;
  bool held_ = false;            // GUARDED_BY(mu_)
  std::deque<Granted> waiting_;  // GUARDED_BY(mu_)
};

// The output of MutexLock: the mutex is held until this is consumed or
// destroyed.
class Lock : public Variant::Value {
 public:
  explicit Lock(std::shared_ptr<Mutex> mutex) : mutex_(std::move(mutex)) {}
  ~Lock() override { Consume(); }
  std::string TypeName() const override { return "MutexLock"; }
  // Returns false if it was already consumed.
  bool Consume() const {
    if (consumed_.exchange(true)) return false;
    mutex_->Release();
    return true;
  }

 private:
  const std::shared_ptr<Mutex> mutex_;
  mutable std::atomic<bool> consumed_{false};
};

class MutexKernel {
 public:
  explicit MutexKernel(const Node& n) : handle_(n) {}
  Status Run(KernelContext& ctx) {
    SLUICE_ASSIGN_OR_RETURN(ctx.output(0),
                            handle_.Get(
                                ctx, [] { return std::make_shared<Mutex>(); },
                                [](const Mutex&) { return OkStatus(); }));
    return OkStatus();
  }

 private:
  SharedHandle<Mutex> handle_;
};

// A waiting MutexLock. It is either granted the mutex or cancelled, whichever
// happens first; shared by the two callbacks. A cancelled waiter stays in the
// queue and declines the mutex at its turn.
struct Wait {
  std::atomic<bool> decided{false};
  DoneFn done;
  KernelContext* ctx = nullptr;  // Valid until done is called.
  std::shared_ptr<Mutex> mutex;
  int64_t callback = -1;  // In the step's cancellation.

  bool Grant() {
    if (decided.exchange(true)) return false;
    ctx->step().cancellation->Deregister(callback);
    auto lock = std::make_shared<const Lock>(mutex);
    ctx->set_output(0, Tensor::Scalar<Variant>(Variant(std::move(lock))));
    done(OkStatus());
    return true;
  }
  void Cancel() {
    if (decided.exchange(true)) return;
    done(Cancelled("the step was cancelled while it waited for a mutex"));
  }
};

void RunMutexLock(KernelContext& ctx, DoneFn done) {
  Result<std::shared_ptr<Mutex>> mutex = ctx.resource<Mutex>(0);
  if (!mutex.ok()) return done(mutex.status());
  Cancellation* cancellation = ctx.step().cancellation;
  auto wait = std::make_shared<Wait>();
  wait->done = std::move(done);
  wait->ctx = &ctx;
  wait->mutex = *std::move(mutex);
  wait->callback = cancellation->Register([weak = std::weak_ptr<Wait>(wait)] {
    if (std::shared_ptr<Wait> w = weak.lock()) w->Cancel();
  });
  if (wait->callback < 0) return wait->Cancel();
  if (wait->mutex->AcquireOrWait([wait] { return wait->Grant(); }) &&
      !wait->Grant())
    wait->mutex->Release();
}

Status RunConsumeMutexLock(KernelContext& ctx) {
  const Tensor t = ctx.TakeInput(0);
  const Lock* lock =
      t.num_elements() == 1 ? t.raw_scalar<Variant>().get<Lock>() : nullptr;
  if (lock == nullptr)
    return InvalidArgument(
        "mutex_lock: expected the output of a MutexLock, got ", t.ToString());
  if (!lock->Consume())
    return FailedPrecondition(
        "mutex_lock: expected a lock that is held, got one that was consumed");
  return OkStatus();
}

constexpr const char* kMutexGradient = "its output has no numeric value";

SLUICE_OP(MutexV2)
    .Output("resource: resource")
    .Attr("container: string = ''")
    .Attr("shared_name: string = ''")
    .Stateful(kOwnsState)
    .Family("state")
    .Shape(ScalarShape)
    .Kernel(CpuState<MutexKernel>())
    .NoGradient(kMutexGradient)
    .Doc("Returns a handle to a mutex.");

SLUICE_OP(MutexLock)
    .Input("mutex: resource")
    .Output("mutex_lock: variant")
    .Stateful()
    .Waits()
    .Family("state")
    .Shape(ScalarShape)
    .Kernel([](const Node&, Kernel* k) {
      k->run_async = RunMutexLock;
      return OkStatus();
    })
    .NoGradient(kMutexGradient)
    .Doc(
        "Locks a mutex and holds it until its output is consumed or "
        "destroyed.");

SLUICE_OP(ConsumeMutexLock)
    .Input("mutex_lock: variant")
    .Stateful()
    .Family("state")
    .Shape(NoOutputs)
    .Kernel(Cpu(RunConsumeMutexLock))
    .NoGradient(kMutexGradient)
    .Doc("Releases the mutex that a MutexLock holds.");

}  // namespace
}  // namespace sluice
