// What `sluice worker` does.
#ifndef SLUICE_DIST_WORKER_MAIN_H_
#define SLUICE_DIST_WORKER_MAIN_H_

#include "dist/task_server.h"

namespace sluice {

using WorkerFlags = TaskServerOptions;

}  // namespace sluice

// Runs a task until SIGINT or SIGTERM. 0, or 1 if it cannot run, or 2 for a
// mistake in the flags, with what is wrong in `*error`. Found by its name
// (base/dist_library.h).
extern "C" int sluice_worker_main(const sluice::WorkerFlags* flags,
                                  std::string* error);

#endif  // SLUICE_DIST_WORKER_MAIN_H_
