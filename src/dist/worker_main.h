// Tasks for programs that load this library when they need it
// (base/dist_library.h): what `sluice worker` does, and servers of Python.
#ifndef SLUICE_DIST_WORKER_MAIN_H_
#define SLUICE_DIST_WORKER_MAIN_H_

#include <memory>
#include <string>

#include "dist/task_server.h"

namespace sluice {

using WorkerFlags = TaskServerOptions;

}  // namespace sluice

// Runs a task until SIGINT or SIGTERM. 0, or 1 if it cannot run, or 2 for a
// mistake in the flags, with what is wrong in `*error`.
extern "C" int sluice_worker_main(const sluice::WorkerFlags* flags,
                                  std::string* error);

// Starts a task; it runs until `*task` is let go.
extern "C" void sluice_start_task(const sluice::TaskServerOptions* options,
                                  std::shared_ptr<void>* task,
                                  sluice::Status* status);

#endif  // SLUICE_DIST_WORKER_MAIN_H_
