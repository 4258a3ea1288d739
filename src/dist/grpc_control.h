// The control plane over gRPC: the services of a task, and stubs for those of
// others (dist/proto/cluster.proto).
#ifndef SLUICE_DIST_GRPC_CONTROL_H_
#define SLUICE_DIST_GRPC_CONTROL_H_

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "dist/stubs.h"

namespace sluice {

class Master;
class Worker;

// To be registered with a grpc::ServerBuilder; master and worker outlive the
// server that it builds.
std::unique_ptr<grpc::Service> MakeMasterService(Master* master);
std::unique_ptr<grpc::Service> MakeWorkerService(Worker* worker);

// What all channels of a cluster have in common: messages of any size, and
// pings that find a peer that died or was stopped within `peer_timeout`.
grpc::ChannelArguments ControlChannelArguments(
    std::chrono::milliseconds peer_timeout);
void SetControlServerOptions(grpc::ServerBuilder* builder,
                             std::chrono::milliseconds peer_timeout);

// Calls of GetStatus and CreateSession wait up to `connect_timeout` for the
// other to be up.
std::unique_ptr<WorkerStub> MakeGrpcWorkerStub(
    std::shared_ptr<grpc::Channel> channel,
    std::chrono::milliseconds connect_timeout);
std::unique_ptr<MasterStub> MakeGrpcMasterStub(
    std::shared_ptr<grpc::Channel> channel, std::string target,
    std::chrono::milliseconds connect_timeout);

}  // namespace sluice

#endif  // SLUICE_DIST_GRPC_CONTROL_H_
