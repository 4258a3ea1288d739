#include "cluster/worker_main.h"

#include <malloc.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <mutex>

#include "cluster/transport/grpc/connection_listener.h"

extern "C" int sluice_worker_main(const sluice::WorkerFlags* flags,
                                  std::string* error) {
  // These shut the task down cleanly: all threads block them, for sigwait.
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
