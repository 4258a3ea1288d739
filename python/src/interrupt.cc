#include "interrupt.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
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
std::atomic<uint32_t> signals = 0;  // How many there were.
sem_t signalled;

// The steps that the main thread is in, within each other.
struct Running {
  std::shared_ptr<Cancellation> step;
  uint32_t since;  // How many signals there were when it began.
};
struct Steps {
  std::mutex mu;
  std::vector<Running> all;  // GUARDED_BY(mu)
};
Steps& TheSteps() {
  static auto* const steps = new Steps();
  return *steps;
}

void OnSignal(int signal) {
  const int saved = errno;
  pythons_handler(signal);
  ++signals;
  sem_post(&signalled);
  errno = saved;
}

Handler CurrentHandler() {
  struct sigaction now = {};
  sigaction(SIGINT, nullptr, &now);
  return (now.sa_flags & SA_SIGINFO) == 0 ? now.sa_handler : nullptr;
}

// (Of C functions, looked up once: a thread of ours asks, which the interpreter
// may not end meanwhile.)
bool RaisesKeyboardInterrupt() {
  static const auto* const signal =
      new py::module_(py::module_::import("_signal"));
  static const auto* const get = new py::object(signal->attr("getsignal"));
  static const auto* const preset =
      new py::object(signal->attr("default_int_handler"));
  return (*get)(SIGINT).is(*preset);
}

void CancelWhenSignalled() {
  for (;;) {
    while (sem_wait(&signalled) != 0) {
    }
    {
      const PythonLock lock;
      if (!RaisesKeyboardInterrupt()) continue;
    }
    std::vector<Running> steps;
    {
      const std::lock_guard<std::mutex> lock(TheSteps().mu);
      steps = TheSteps().all;
    }
    // (One that began after the signal has nothing to do with it: it may save
    // what was learnt, in the handler of KeyboardInterrupt.)
    const uint32_t now = signals;
    for (const Running& one : steps)
      if (one.since != now) one.step->Cancel();
  }
}

bool watching = false;  // Of the main thread.

void Watch() {
  sem_init(&signalled, 0, 0);
  std::thread(CancelWhenSignalled).detach();
  watching = true;
}

// A child has no thread but the one that forked, which is its main one.
void FollowForks() {
  pthread_atfork([] { TheSteps().mu.lock(); }, [] { TheSteps().mu.unlock(); },
                 [] {
                   TheSteps().mu.unlock();
                   main_thread = pthread_self();
                   watching = false;
                 });
}

// Whoever sets a handler in Python sets Python's there, so each step looks.
void StandBefore() {
  if (!watching) Watch();
  if (CurrentHandler() != pythons_handler) return;
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
    TheSteps().all.push_back({cancellation_, signals});
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
    if (!RaisesKeyboardInterrupt()) return;
    pythons_handler = CurrentHandler();
    FollowForks();
  });
}

}  // namespace sluice::python
