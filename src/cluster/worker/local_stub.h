// Calls of a worker in the same process.
#ifndef SLUICE_CLUSTER_WORKER_LOCAL_STUB_H_
#define SLUICE_CLUSTER_WORKER_LOCAL_STUB_H_

#include <memory>

#include "cluster/common/stubs.h"

namespace sluice {

class Worker;

// A stub for a worker in this process, which outlives the stub.
std::unique_ptr<WorkerStub> LocalWorkerStub(Worker* worker);

}  // namespace sluice

#endif  // SLUICE_CLUSTER_WORKER_LOCAL_STUB_H_
