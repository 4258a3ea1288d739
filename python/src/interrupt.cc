#include "interrupt.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <thread>
#include <utility>
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

// The innermost step that the main thread is in. GUARDED_BY(the interpreter's
// lock), as are all that it is within.
MainThreadStep* innermost = nullptr;
// What the next step may use: one does for all but those that it has ended.
std::shared_ptr<Cancellation>& Spare() {
  static auto* const spare = new std::shared_ptr<Cancellation>();
  return *spare;
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

bool watching = false;  // Of the main thread.

void Watch() {
  sem_init(&signalled, 0, 0);
  std::thread(MainThreadStep::CancelWhenSignalled).detach();
  watching = true;
}

// A child has no thread but the one that forked, which is its main one.
void FollowForks() {
  pthread_atfork(nullptr, nullptr, [] {
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

void MainThreadStep::CancelWhenSignalled() {
  for (;;) {
    while (sem_wait(&signalled) != 0) {
    }
    std::vector<std::shared_ptr<Cancellation>> steps;
    {
      const PythonLock lock;
      if (!RaisesKeyboardInterrupt()) continue;
      // (One that began after the signal has nothing to do with it: it may save
      // what was learnt, in the handler of KeyboardInterrupt.)
      const uint32_t now = signals;
      for (const MainThreadStep* s = innermost; s != nullptr; s = s->outer_)
        if (s->since_ != now) steps.push_back(s->cancellation_);
    }
    for (const auto& step : steps) step->Cancel();
  }
}

MainThreadStep::MainThreadStep() {
  if (pythons_handler == nullptr ||
      pthread_equal(pthread_self(), main_thread) == 0)
    return;
  StandBefore();
  cancellation_ = std::move(Spare());
  if (cancellation_ == nullptr || cancellation_.use_count() > 1 ||
      cancellation_->cancelled())
    cancellation_ = std::make_shared<Cancellation>();
  since_ = signals;
  outer_ = std::exchange(innermost, this);
  // What came before that has cancelled nothing.
  if (PyErr_CheckSignals() == 0) return;
  Leave();
  throw py::error_already_set();
}

MainThreadStep::~MainThreadStep() {
  if (cancellation_ != nullptr) Leave();
}

void MainThreadStep::Leave() {
  innermost = outer_;
  Spare() = std::move(cancellation_);
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
