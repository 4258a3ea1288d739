// Stubs through which masters call workers and clients call masters: directly
// in the same process, otherwise over gRPC (cluster/services/grpc_services.h).
#ifndef SLUICE_CLUSTER_COMMON_STUBS_H_
#define SLUICE_CLUSTER_COMMON_STUBS_H_

#include <functional>
#include <memory>
#include <span>

#include "cluster/common/cluster.h"
#include "cluster/common/messages.h"

namespace sluice {

// Thread-safe; calls block. The status does not distinguish errors of the call
// itself (Unavailable if the peer does not answer) from errors that the peer
// returned.
class WorkerStub {
 public:
  virtual ~WorkerStub() = default;
  virtual Status GetStatus(const proto::GetStatusRequest& request,
                           proto::GetStatusResponse* response) = 0;
  virtual Status CreateSession(
      const proto::CreateWorkerSessionRequest& request) = 0;
  virtual Status DeleteSession(
      const proto::DeleteWorkerSessionRequest& request) = 0;
  virtual Status RegisterStep(const proto::RegisterStepRequest& request) = 0;
  virtual Status DeregisterStep(
      const proto::DeregisterStepRequest& request) = 0;
  virtual Status Reset(const proto::ResetRequest& request) = 0;
};

// Like WorkerStub.
class MasterStub {
 public:
  virtual ~MasterStub() = default;
  virtual Status CreateSession(const proto::CreateSessionRequest& request,
                               proto::CreateSessionResponse* response) = 0;
  // Tells the master that the client is alive until the stub is destroyed.
  virtual Status Attend(const proto::AttendRequest& request) = 0;
  virtual Status ExtendGraph(const proto::ExtendGraphRequest& request) = 0;
  virtual Status PrepareStep(const proto::PrepareStepRequest& request,
                             proto::PrepareStepResponse* response) = 0;
  // The request's own feeds are empty. If it asks for logs, `log` may be called
  // until this returns.
  virtual Status RunStep(const proto::RunStepRequest& request,
                         std::span<const Tensor> feeds, StepAnswer* answer,
                         const StepLog& log) = 0;
  virtual Status BeginPartialRun(const proto::BeginPartialRunRequest& request,
                                 proto::BeginPartialRunResponse* response) = 0;
  virtual Status PartialRun(const proto::PartialRunRequest& request,
                            proto::PartialRunResponse* response) = 0;
  virtual Status EndPartialRun(const proto::EndPartialRunRequest& request) = 0;
  virtual Status CancelStep(const proto::CancelStepRequest& request) = 0;
  virtual Status ListDevices(const proto::ListDevicesRequest& request,
                             proto::ListDevicesResponse* response) = 0;
  // Needs no session.
  virtual Status ListTasks(const proto::ListTasksRequest& request,
                           proto::ListTasksResponse* response) = 0;
  virtual Status Reset(const proto::ResetRequest& request) = 0;
  virtual Status CloseSession(const proto::CloseSessionRequest& request) = 0;
};

// Connects to a task. Does not wait for it to be up: the first call does.
using WorkerConnector =
    std::function<Result<std::unique_ptr<WorkerStub>>(const ClusterTask&)>;

}  // namespace sluice

#endif  // SLUICE_CLUSTER_COMMON_STUBS_H_
