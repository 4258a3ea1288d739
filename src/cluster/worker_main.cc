#include "cluster/worker_main.h"

#include <malloc.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <mutex>
#include <utility>

#include "cluster/transport/grpc/connection_listener.h"

namespace sluice {
namespace {

// Waits until no step runs, for the time of the flags, or for another signal.
void Drain(const WorkerFlags& flags, const sigset_t& signals,
           TaskServer* task) {
  constexpr timespec kLookAgain = {0, 20'000'000}, kLinger = {0, 200'000'000};
  task->Drain();
  const auto end = std::chrono::steady_clock::now() +
                   std::chrono::duration<double>(flags.drain_seconds);
  bool told = false;
  while (!task->idle() && std::chrono::steady_clock::now() < end) {
    if (!std::exchange(told, true))
      std::fprintf(stderr,
                   "sluice worker: SIGTERM: waiting up to %g s for running "
                   "steps; no new ones start\n",
                   flags.drain_seconds);
    if (sigtimedwait(&signals, nullptr, &kLookAgain) > 0) return;
  }
  // (What was written is on its way through gRPC and the system.)
  (void)sigtimedwait(&signals, nullptr, &kLinger);
}

}  // namespace
}  // namespace sluice

extern "C" int sluice_worker_main(const sluice::WorkerFlags* flags,
                                  std::string* error) {
  // These shut the task down cleanly: all threads block them, for sigwait. The
  // first SIGTERM lets running steps end.
  sigset_t signals, before;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, &before);
  // Keeps freed buffers of large values in the heap: returning them to the
  // system and faulting them in again for each value would cost more than the
  // copies.
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
  if (const std::string raised = sluice::RaiseOpenFilesLimit(); !raised.empty())
    std::fprintf(stderr, "sluice worker: %s\n", raised.c_str());
  std::mutex mu;
  sluice::Status evicted;  // GUARDED_BY(mu)
  auto task = sluice::TaskServer::Start(
      *flags, [&mu, &evicted](const sluice::Status& why) {
        std::lock_guard<std::mutex> lock(mu);
        evicted = why;
        kill(getpid(), SIGTERM);
      });
  if (!task.ok()) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    *error = std::string(task.status().message());
    switch (task.status().code()) {
      case sluice::StatusCode::kUnavailable:
      case sluice::StatusCode::kAlreadyExists:
      case sluice::StatusCode::kAborted:
      case sluice::StatusCode::kCancelled:
        return 1;
      default:
        return 2;
    }
  }
  std::printf("%s at %s\n", (*task)->task().c_str(), (*task)->target().c_str());
  std::fflush(stdout);
  int signal = 0;
  sigwait(&signals, &signal);
  const auto was_evicted = [&mu, &evicted] {
    std::lock_guard<std::mutex> lock(mu);
    return !evicted.ok();
  };
  if (signal == SIGTERM && !was_evicted())
    sluice::Drain(*flags, signals, task->get());
  (*task)->Stop();
  std::lock_guard<std::mutex> lock(mu);
  *error = std::string(evicted.message());
  return evicted.ok() ? 0 : 1;
}

extern "C" void sluice_start_task(const sluice::TaskServerOptions* options,
                                  std::shared_ptr<void>* task,
                                  sluice::Status* status) {
  auto started = sluice::TaskServer::Start(*options);
  *status = started.status();
  if (started.ok()) *task = *std::move(started);
}
