#include "cluster/worker/local_stub.h"

#include "cluster/worker/worker.h"

namespace sluice {
namespace {

class LocalStub final : public WorkerStub {
 public:
  explicit LocalStub(Worker* worker) : worker_(worker) {}
  Status GetStatus(const proto::GetStatusRequest& request,
                   proto::GetStatusResponse* response) override {
    worker_->GetStatus(request, response);
    return OkStatus();
  }
  Status CreateSession(
      const proto::CreateWorkerSessionRequest& request) override {
    return worker_->CreateSession(request);
  }
  Status DeleteSession(
      const proto::DeleteWorkerSessionRequest& request) override {
    return worker_->DeleteSession(request);
  }
  Status RegisterStep(const proto::RegisterStepRequest& request) override {
    return worker_->RegisterStep(request);
  }
  Status DeregisterStep(const proto::DeregisterStepRequest& request) override {
    return worker_->DeregisterStep(request);
  }
  Status Reset(const proto::ResetRequest& request) override {
    return worker_->Reset(request);
  }

 private:
  Worker* const worker_;
};

}  // namespace

std::unique_ptr<WorkerStub> LocalWorkerStub(Worker* worker) {
  return std::make_unique<LocalStub>(worker);
}

}  // namespace sluice
