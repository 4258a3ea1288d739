// Steps for which no thread waits.
#include <system_error>
#include <thread>
#include <utility>

#include "base/timer.h"
#include "exec/core/drive_queue.h"
#include "session/session_state.h"

namespace sluice {
namespace {

// The sessions for whose `done` this thread was called, innermost first.
struct DoneOnThread {
  const void* state;
  const DoneOnThread* outer;
};
thread_local const DoneOnThread* done_on_thread = nullptr;

}  // namespace

bool Session::State::InDone() const {
  for (const DoneOnThread* d = done_on_thread; d != nullptr; d = d->outer)
    if (d->state == this) return true;
  return false;
}

// One run. Kept by those that may end it: the execution that it waits for, the
// timer of its deadline, and the caller's cancellation.
struct Session::AsyncRun : std::enable_shared_from_this<AsyncRun> {
  // Constant once it has begun.
  const std::shared_ptr<State> state;
  const std::shared_ptr<Compiled> compiled;
  const RunOptions options;  // (The step's log points to it.)
  Done done;
  std::optional<Timer::Alarm> deadline;
  int64_t on_cancel = -1;
  // Null when it has ended. GUARDED_BY(state->running_mu)
  std::shared_ptr<Step> step;

  AsyncRun(std::shared_ptr<State> s, std::shared_ptr<Compiled> c,
           const RunOptions& o, Done d)
      : state(std::move(s)),
        compiled(std::move(c)),
        options(o),
        done(std::move(d)) {}

  // Calls `done`, of which State::calling counts one.
  void CallDone(Result<std::vector<Tensor>> results) {
    {
      const DoneOnThread here{state.get(), done_on_thread};
      done_on_thread = &here;
      std::exchange(done, nullptr)(std::move(results));
      done_on_thread = here.outer;
    }
    std::lock_guard<std::mutex> lock(state->running_mu);
    --state->calling;
    state->NotifyIfIdle();
  }

  void Cancel(const Status& why) {
    // What a cancellation lets run starts without the lock.
    const HeldDriveScope drives_at_its_end;
    std::lock_guard<std::mutex> lock(state->running_mu);
    if (step != nullptr) step->Cancel(why);
  }

  // The step is quiet.
  void End(Status status) {
    if (deadline) Timer::OfProcess().Forget(*deadline);
    if (on_cancel >= 0) (void)options.cancellation->Deregister(on_cancel);
    std::vector<Tensor> results(compiled->asked.fetches.size());
    if (status.ok()) status = compiled->TakeResults(*step, results);
    state->End(*compiled, step, /*calls_done=*/true);
    if (status.ok())
      CallDone(std::move(results));
    else
      CallDone(std::move(status));
  }

  // Runs as far as this thread can. On an error it has not begun.
  Status Run(std::span<const Tensor> feeds) {
    SLUICE_RETURN_IF_ERROR(compiled->CheckFeeds(feeds));
    if (state->backend != nullptr) return RunElsewhere(feeds);
    SLUICE_ASSIGN_OR_RETURN(std::shared_ptr<Step> begun,
                            state->Begin(*compiled, options, nullptr));
    Step* const s = begun.get();
    {
      std::lock_guard<std::mutex> lock(state->running_mu);
      step = std::move(begun);
    }
    const std::shared_ptr<AsyncRun> self = shared_from_this();
    // (Until the step runs, a cancellation is only noted.)
    if (const auto when = State::DeadlineOf(options)) {
      const Result<Timer::Alarm> set = Timer::OfProcess().At(
          *when, [self] { self->Cancel(PastDeadline()); });
      if (!set.ok()) {
        state->End(*compiled, step, /*calls_done=*/false);
        return set.status();
      }
      deadline = *set;
    }
    if (options.cancellation != nullptr) {
      on_cancel = options.cancellation->Register(
          [self] { self->Cancel(State::CancelledByCaller()); });
      if (on_cancel < 0) Cancel(State::CancelledByCaller());
    }
    s->RunAsync(compiled->args, feeds,
                [self](Status status) { self->End(std::move(status)); });
    return OkStatus();
  }

  Status RunElsewhere(std::span<const Tensor> feeds) {
    std::unique_lock<std::mutex> lock(state->running_mu);
    SLUICE_RETURN_IF_ERROR(state->CheckOpen());
    try {
      std::thread([self = shared_from_this(),
                   values = std::vector<Tensor>(feeds.begin(), feeds.end())] {
        std::vector<Tensor> results(self->compiled->asked.fetches.size());
        Status status = self->state->RunStep(*self->compiled, values, results,
                                             self->options, nullptr);
        if (status.ok())
          self->CallDone(std::move(results));
        else
          self->CallDone(std::move(status));
      }).detach();
    } catch (const std::system_error& e) {
      return ResourceExhausted("step: expected a thread, got ", e.what());
    }
    ++state->calling;
    return OkStatus();
  }
};

void Session::Callable::RunAsync(std::span<const Tensor> feeds, Done done,
                                 const RunOptions& options) const {
  if (done == nullptr) done = [](const Result<std::vector<Tensor>>&) {};
  std::shared_ptr<AsyncRun> run;
  const Status begun = [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(CheckReady());
    SLUICE_ASSIGN_OR_RETURN(std::shared_ptr<Compiled> now, Current());
    run = std::make_shared<AsyncRun>(state_, std::move(now), options,
                                     std::move(done));
    return run->Run(feeds);
  }();
  if (!begun.ok()) (run == nullptr ? done : run->done)(begun);
}

void Session::RunAsync(const Feeds& feeds, const std::vector<Output>& fetches,
                       const std::vector<Node*>& targets, Done done,
                       const RunOptions& options) {
  std::vector<Output> edges;
  std::vector<Tensor> values;
  for (const auto& [edge, value] : feeds) {
    edges.push_back(edge);
    values.push_back(value);
  }
  const Result<Callable> step = MakeCallable(edges, fetches, targets);
  if (!step.ok() && done == nullptr) return;
  if (!step.ok()) return done(step.status());
  step->RunAsync(values, std::move(done), options);
}

}  // namespace sluice
