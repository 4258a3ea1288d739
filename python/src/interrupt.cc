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
std::atomic<uint32_t> steps = 0;    // How many the main thread began.
// Our thread looks every 10 ms whether our handler still is where it was put.
std::atomic<bool> looking = false;
sem_t awake;            // Our thread: something has changed.
bool watching = false;  // There is one.

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
  sem_post(&awake);
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

// REQUIRES: the interpreter's lock; who sets a handler in Python has it.
void StandBefore() {
  if (CurrentHandler() != pythons_handler) return;
  struct sigaction ours = {};
  ours.sa_handler = OnSignal;
  ours.sa_flags = SA_ONSTACK;
  sigaction(SIGINT, &ours, nullptr);
}

// Whoever sets a handler in Python displaces ours, so somebody must look. A
// step that did would take half as long again, by the system's call; so our
// thread does as long as one step follows another, and the first after a while
// before it begins.
void LookAgain() {
  static uint32_t before = 0;
  const uint32_t now = steps;
  if (now == before) {
    looking = false;
    if (now != steps) looking = true;
  }
  before = now;
  if (CurrentHandler() != pythons_handler) return;
  const PythonLock lock;
  StandBefore();
}

// True if nothing has changed for 10 ms of looking.
bool IsTimeToLook() {
  if (!looking) {
    sem_wait(&awake);
    return false;
  }
  timespec until = {};
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_nsec += 10'000'000;
  if (until.tv_nsec >= 1'000'000'000) {
    until.tv_nsec -= 1'000'000'000;
    ++until.tv_sec;
  }
  return sem_clockwait(&awake, CLOCK_MONOTONIC, &until) != 0 &&
         errno == ETIMEDOUT;
}

// A child has no thread but the one that forked, which is its main one.
void FollowForks() {
  pthread_atfork(nullptr, nullptr, [] {
    main_thread = pthread_self();
    watching = looking = false;
  });
}

}  // namespace

void MainThreadStep::Watch(uint32_t told) {
  for (;;) {
    if (IsTimeToLook()) LookAgain();
    const uint32_t now = signals;
    if (std::exchange(told, now) == now) continue;
    std::vector<std::shared_ptr<Cancellation>> ended;
    {
      const PythonLock lock;
      if (!RaisesKeyboardInterrupt()) continue;
      // (One that began after the signal has nothing to do with it: it may save
      // what was learnt, in the handler of KeyboardInterrupt.)
      for (const MainThreadStep* s = innermost; s != nullptr; s = s->outer_)
        if (static_cast<int32_t>(now - s->since_) > 0)
          ended.push_back(s->cancellation_);
    }
    for (const auto& step : ended) step->Cancel();
  }
}

MainThreadStep::MainThreadStep() {
  if (pythons_handler == nullptr ||
      pthread_equal(pthread_self(), main_thread) == 0)
    return;
  ++steps;
  if (!looking) {
    StandBefore();
    if (!watching) {
      sem_init(&awake, 0, 0);
      // (A signal that comes before it runs is news to it.)
      std::thread(Watch, signals.load()).detach();
      watching = true;
    }
    looking = true;
    sem_post(&awake);
  }
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
