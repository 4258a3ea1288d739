// Entry points for programs that load this library on demand
// (base/cluster_library.h): `sluice worker` and Python's servers.
#ifndef SLUICE_CLUSTER_WORKER_MAIN_H_
#define SLUICE_CLUSTER_WORKER_MAIN_H_

#include <memory>
#include <string>

#include "cluster/task_server.h"

namespace sluice {

using WorkerFlags = TaskServerOptions;

}  // namespace sluice

// Runs a task until SIGINT or SIGTERM. Returns 0; 1 if it cannot run; 2 if the
// flags are invalid. `*error` describes the error.
extern "C" int sluice_worker_main(const sluice::WorkerFlags* flags,
                                  std::string* error);

// Starts a task, which runs until `*task` is released.
extern "C" void sluice_start_task(const sluice::TaskServerOptions* options,
                                  std::shared_ptr<void>* task,
                                  sluice::Status* status);

#endif  // SLUICE_CLUSTER_WORKER_MAIN_H_
