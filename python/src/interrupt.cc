#include "interrupt.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>

#include <cerrno>
#include <mutex>
#include <thread>
#include <vector>

namespace sluice::python {
namespace {

using Handler = void (*)(int);

pthread_t main_thread;
// Python's own, which notes the signal; null: SIGINT was not Python's when the
// module was loaded, and is left alone.
Handler pythons_handler = nullptr;
sem_t signalled;

// The steps that the main thread is in, within each other.
struct Steps {
  std::mutex mu;
  std::vector<std::shared_ptr<Cancellation>> all;  // GUARDED_BY(mu)
};
Steps& TheSteps() {
  static auto* const steps = new Steps();
  return *steps;
}

void OnSignal(int signal) {
  const int saved = errno;
  pythons_handler(signal);
  sem_post(&signalled);
  errno = saved;
}

Handler CurrentHandler() {
  struct sigaction now = {};
  sigaction(SIGINT, nullptr, &now);
  return (now.sa_flags & SA_SIGINFO) == 0 ? now.sa_handler : nullptr;
}

bool RaisesKeyboardInterrupt() {
  const py::module_ signal = py::module_::import("signal");
  return signal.attr("getsignal")(SIGINT).is(
      signal.attr("default_int_handler"));
}

void CancelWhenSignalled() {
  for (;;) {
    while (sem_wait(&signalled) != 0) {
    }
    if (InterpreterIsGoing()) return;
    {
      const py::gil_scoped_acquire lock;
      if (!RaisesKeyboardInterrupt()) continue;
    }
    std::vector<std::shared_ptr<Cancellation>> steps;
    {
      const std::lock_guard<std::mutex> lock(TheSteps().mu);
      steps = TheSteps().all;
    }
    for (const auto& step : steps) step->Cancel();
  }
}

// Whoever sets a handler in Python sets Python's there, so each step looks.
void StandBefore() {
  if (CurrentHandler() != pythons_handler) return;
  static const bool started = [] {
    sem_init(&signalled, 0, 0);
    std::thread(CancelWhenSignalled).detach();
    return true;
  }();
  (void)started;
  struct sigaction ours = {};
  ours.sa_handler = OnSignal;
  ours.sa_flags = SA_ONSTACK;
  sigaction(SIGINT, &ours, nullptr);
}

}  // namespace

MainThreadStep::MainThreadStep() {
  if (pythons_handler == nullptr ||
      pthread_equal(pthread_self(), main_thread) == 0)
    return;
  StandBefore();
  cancellation_ = std::make_shared<Cancellation>();
  {
    const std::lock_guard<std::mutex> lock(TheSteps().mu);
    TheSteps().all.push_back(cancellation_);
  }
  // What came before that has cancelled nothing.
  if (PyErr_CheckSignals() == 0) return;
  const std::lock_guard<std::mutex> lock(TheSteps().mu);
  TheSteps().all.pop_back();
  throw py::error_already_set();
}

MainThreadStep::~MainThreadStep() {
  if (cancellation_ == nullptr) return;
  const std::lock_guard<std::mutex> lock(TheSteps().mu);
  TheSteps().all.pop_back();
}

void MainThreadStep::Check() const {
  if (cancellation_ == nullptr) return;
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  // (The signal may have been looked at already: by a function within the
  // step.)
  if (cancellation_->cancelled()) Raise(PyExc_KeyboardInterrupt, "");
}

void AddInterrupts(py::module_& m) {
  // Called once, as the package is loaded, with threading.main_thread().ident.
  m.def("watch_interrupts", [](uintptr_t thread) {
    main_thread = static_cast<pthread_t>(thread);
    if (RaisesKeyboardInterrupt()) pythons_handler = CurrentHandler();
  });
}

}  // namespace sluice::python
