#include "dist/grpc_control.h"

#include <climits>
#include <mutex>
#include <thread>

#include "dist/master.h"
#include "dist/proto/cluster.grpc.pb.h"
#include "dist/worker.h"

namespace sluice {
namespace {

// Errors of ours are fields of the answer.
template <typename Response>
grpc::Status Answer(const Status& s, Response* response) {
  StatusToProto(s, response->mutable_status());
  return grpc::Status::OK;
}

class MasterServiceImpl final : public proto::MasterService::Service {
 public:
  explicit MasterServiceImpl(Master* master) : master_(master) {}

  grpc::Status CreateSession(grpc::ServerContext*,
                             const proto::CreateSessionRequest* q,
                             proto::CreateSessionResponse* r) override {
    return Answer(master_->CreateSession(*q, r), r);
  }
  grpc::Status Attend(grpc::ServerContext* context,
                      const proto::AttendRequest* q,
                      proto::AttendResponse* r) override {
    return Answer(
        master_->Attend(*q, [context] { return context->IsCancelled(); }), r);
  }
  grpc::Status ExtendGraph(grpc::ServerContext*,
                           const proto::ExtendGraphRequest* q,
                           proto::ExtendGraphResponse* r) override {
    return Answer(master_->ExtendGraph(*q), r);
  }
  grpc::Status PrepareStep(grpc::ServerContext*,
                           const proto::PrepareStepRequest* q,
                           proto::PrepareStepResponse* r) override {
    return Answer(master_->PrepareStep(*q, r), r);
  }
  grpc::Status RunStep(grpc::ServerContext*, const proto::RunStepRequest* q,
                       proto::RunStepResponse* r) override {
    return Answer(master_->RunStep(*q, r), r);
  }
  grpc::Status CancelStep(grpc::ServerContext*,
                          const proto::CancelStepRequest* q,
                          proto::CancelStepResponse* r) override {
    return Answer(master_->CancelStep(*q), r);
  }
  grpc::Status ListDevices(grpc::ServerContext*,
                           const proto::ListDevicesRequest* q,
                           proto::ListDevicesResponse* r) override {
    return Answer(master_->ListDevices(*q, r), r);
  }
  grpc::Status ListTasks(grpc::ServerContext*, const proto::ListTasksRequest* q,
                         proto::ListTasksResponse* r) override {
    return Answer(master_->ListTasks(*q, r), r);
  }
  grpc::Status Reset(grpc::ServerContext*, const proto::ResetRequest* q,
                     proto::ResetResponse* r) override {
    return Answer(master_->Reset(*q), r);
  }
  grpc::Status CloseSession(grpc::ServerContext*,
                            const proto::CloseSessionRequest* q,
                            proto::CloseSessionResponse* r) override {
    return Answer(master_->CloseSession(*q), r);
  }

 private:
  Master* const master_;
};

class WorkerServiceImpl final : public proto::WorkerService::Service {
 public:
  explicit WorkerServiceImpl(Worker* worker) : worker_(worker) {}

  grpc::Status GetStatus(grpc::ServerContext*, const proto::GetStatusRequest* q,
                         proto::GetStatusResponse* r) override {
    worker_->GetStatus(*q, r);
    return grpc::Status::OK;
  }
  grpc::Status CreateSession(grpc::ServerContext*,
                             const proto::CreateWorkerSessionRequest* q,
                             proto::CreateWorkerSessionResponse* r) override {
    return Answer(worker_->CreateSession(*q), r);
  }
  grpc::Status DeleteSession(grpc::ServerContext*,
                             const proto::DeleteWorkerSessionRequest* q,
                             proto::DeleteWorkerSessionResponse* r) override {
    return Answer(worker_->DeleteSession(*q), r);
  }
  grpc::Status RegisterStep(grpc::ServerContext*,
                            const proto::RegisterStepRequest* q,
                            proto::RegisterStepResponse* r) override {
    return Answer(worker_->RegisterStep(*q), r);
  }
  grpc::Status DeregisterStep(grpc::ServerContext*,
                              const proto::DeregisterStepRequest* q,
                              proto::DeregisterStepResponse* r) override {
    return Answer(worker_->DeregisterStep(*q), r);
  }
  grpc::Status Reset(grpc::ServerContext*, const proto::ResetRequest* q,
                     proto::ResetResponse* r) override {
    return Answer(worker_->Reset(*q), r);
  }

 private:
  Worker* const worker_;
};

// What a call said, or what became of it.
template <typename Response>
Status Outcome(const grpc::Status& called, const std::string& who,
               const Response& response) {
  if (called.ok()) return StatusFromProto(response.status());
  // gRPC's codes are Abseil's.
  return Status(static_cast<StatusCode>(called.error_code()),
                absl::StrCat(who, ": ", called.error_message()));
}

using Milliseconds = std::chrono::milliseconds;

template <typename Stub, typename Request, typename Response>
using Method = grpc::Status (Stub::*)(grpc::ClientContext*, const Request&,
                                      Response*);

// One call; errors name `whom`. With `patience` it waits so long for a task
// that is not up yet, without it for as long as the call takes.
template <typename Stub, typename Request, typename Response>
Status CallTask(Stub& stub, Method<Stub, Request, Response> method,
                const Request& q, Response* r, const std::string& whom,
                Milliseconds patience) {
  grpc::ClientContext context;
  if (patience.count() > 0) {
    context.set_wait_for_ready(true);
    context.set_deadline(std::chrono::system_clock::now() + patience);
  }
  return Outcome((stub.*method)(&context, q, r), whom, *r);
}

class GrpcWorker final : public WorkerStub {
 public:
  GrpcWorker(const std::shared_ptr<grpc::Channel>& channel,
             Milliseconds patience)
      : stub_(proto::WorkerService::NewStub(channel)), patience_(patience) {}

  Status GetStatus(const proto::GetStatusRequest& q,
                   proto::GetStatusResponse* r) override {
    return CallTask(
        *stub_, &Stub::GetStatus, q, r, "task",
        q.patience_ms() > 0 ? Milliseconds(q.patience_ms()) : patience_);
  }
  Status CreateSession(const proto::CreateWorkerSessionRequest& q) override {
    proto::CreateWorkerSessionResponse r;
    return Call(&Stub::CreateSession, q, &r, true);
  }
  Status DeleteSession(const proto::DeleteWorkerSessionRequest& q) override {
    proto::DeleteWorkerSessionResponse r;
    return Call(&Stub::DeleteSession, q, &r, false);
  }
  Status RegisterStep(const proto::RegisterStepRequest& q) override {
    proto::RegisterStepResponse r;
    return Call(&Stub::RegisterStep, q, &r, false);
  }
  Status DeregisterStep(const proto::DeregisterStepRequest& q) override {
    proto::DeregisterStepResponse r;
    return Call(&Stub::DeregisterStep, q, &r, false);
  }
  Status Reset(const proto::ResetRequest& q) override {
    proto::ResetResponse r;
    return Call(&Stub::Reset, q, &r, false);
  }

 private:
  using Stub = proto::WorkerService::Stub;
  template <typename Request, typename Response>
  Status Call(Method<Stub, Request, Response> method, const Request& q,
              Response* r, bool wait) {
    return CallTask(*stub_, method, q, r, "task",
                    wait ? patience_ : Milliseconds(0));
  }
  const std::unique_ptr<Stub> stub_;
  const Milliseconds patience_;
};

class GrpcMaster final : public MasterStub {
 public:
  GrpcMaster(const std::shared_ptr<grpc::Channel>& channel, std::string target,
             Milliseconds patience)
      : stub_(proto::MasterService::NewStub(channel)),
        target_(std::move(target)),
        patience_(patience) {}
  ~GrpcMaster() override {
    attend_.TryCancel();
    if (attending_.joinable()) attending_.join();
  }

  Status CreateSession(const proto::CreateSessionRequest& q,
                       proto::CreateSessionResponse* r) override {
    return Call(&Stub::CreateSession, q, r, true);
  }
  // On a thread that waits: the call ends with the session, or with us.
  Status Attend(const proto::AttendRequest& q) override {
    attending_ = std::thread([this, q] {
      proto::AttendResponse r;
      (void)stub_->Attend(&attend_, q, &r);
    });
    return OkStatus();
  }
  Status ExtendGraph(const proto::ExtendGraphRequest& q) override {
    proto::ExtendGraphResponse r;
    return Call(&Stub::ExtendGraph, q, &r, false);
  }
  Status PrepareStep(const proto::PrepareStepRequest& q,
                     proto::PrepareStepResponse* r) override {
    return Call(&Stub::PrepareStep, q, r, false);
  }
  Status RunStep(const proto::RunStepRequest& q,
                 proto::RunStepResponse* r) override {
    return Call(&Stub::RunStep, q, r, false);
  }
  Status CancelStep(const proto::CancelStepRequest& q) override {
    proto::CancelStepResponse r;
    return Call(&Stub::CancelStep, q, &r, false);
  }
  Status ListDevices(const proto::ListDevicesRequest& q,
                     proto::ListDevicesResponse* r) override {
    return Call(&Stub::ListDevices, q, r, false);
  }
  Status ListTasks(const proto::ListTasksRequest& q,
                   proto::ListTasksResponse* r) override {
    // (As long as the master waits for tasks, and a little more.)
    return CallTask(*stub_, &Stub::ListTasks, q, r, target_,
                    Milliseconds(2 * q.patience_ms() + 1000));
  }
  Status Reset(const proto::ResetRequest& q) override {
    proto::ResetResponse r;
    return Call(&Stub::Reset, q, &r, false);
  }
  Status CloseSession(const proto::CloseSessionRequest& q) override {
    proto::CloseSessionResponse r;
    return Call(&Stub::CloseSession, q, &r, false);
  }

 private:
  using Stub = proto::MasterService::Stub;
  template <typename Request, typename Response>
  Status Call(Method<Stub, Request, Response> method, const Request& q,
              Response* r, bool wait) {
    // (The master in turn waits for the tasks of the cluster.)
    return CallTask(*stub_, method, q, r, target_,
                    wait ? 2 * patience_ : Milliseconds(0));
  }
  const std::unique_ptr<Stub> stub_;
  const std::string target_;
  const Milliseconds patience_;
  grpc::ClientContext attend_;
  std::thread attending_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeMasterService(Master* master) {
  return std::make_unique<MasterServiceImpl>(master);
}
std::unique_ptr<grpc::Service> MakeWorkerService(Worker* worker) {
  return std::make_unique<WorkerServiceImpl>(worker);
}

grpc::ChannelArguments ControlChannelArguments(Milliseconds peer_timeout) {
  grpc::ChannelArguments args;
  args.SetMaxReceiveMessageSize(INT_MAX);
  args.SetMaxSendMessageSize(INT_MAX);
  const int ms = static_cast<int>(peer_timeout.count());
  args.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, ms / 2);
  args.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, ms - ms / 2);
  args.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 0);
  args.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  args.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 500);
  args.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 100);
  args.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  // Channels to the tasks of a test must not be shared with those before it.
  args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return args;
}

void SetControlServerOptions(grpc::ServerBuilder* builder,
                             Milliseconds peer_timeout) {
  const int ms = static_cast<int>(peer_timeout.count());
  builder->SetMaxReceiveMessageSize(INT_MAX);
  builder->SetMaxSendMessageSize(INT_MAX);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, ms / 2);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, ms - ms / 2);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder->AddChannelArgument(
      GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, ms / 4);
  builder->AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
}

std::unique_ptr<WorkerStub> MakeGrpcWorkerStub(
    std::shared_ptr<grpc::Channel> channel, Milliseconds connect_timeout) {
  return std::make_unique<GrpcWorker>(channel, connect_timeout);
}
std::unique_ptr<MasterStub> MakeGrpcMasterStub(
    std::shared_ptr<grpc::Channel> channel, std::string target,
    Milliseconds connect_timeout) {
  return std::make_unique<GrpcMaster>(channel, std::move(target),
                                      connect_timeout);
}

}  // namespace sluice
