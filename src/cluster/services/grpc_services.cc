// The server side.
#include "cluster/services/grpc_services.h"

#include <grpcpp/impl/codegen/proto_utils.h>

#include <algorithm>
#include <deque>
#include <map>
#include <type_traits>
#include <utility>
#include <vector>

#include "cluster/master/master.h"
#include "cluster/services/step_values.h"
#include "cluster/worker/worker.h"

namespace sluice {
namespace {

// How often to poll for clients that disconnected before they called Attend,
// for which there is no event.
constexpr std::chrono::milliseconds kLookInterval{100};

grpc::Status TheEnd() {
  return grpc::Status(grpc::StatusCode::UNAVAILABLE, "the task shuts down");
}

template <typename Message>
Status Parse(grpc::ByteBuffer* bytes, Message* message) {
  const grpc::Status s =
      grpc::SerializationTraits<Message>::Deserialize(bytes, message);
  if (s.ok()) return OkStatus();
  return InvalidArgument("message: expected a ",
                         message->GetDescriptor()->name(),
                         ", got bytes that do not parse");
}

template <typename Message>
grpc::ByteBuffer BytesOf(const Message& message) {
  grpc::ByteBuffer bytes;
  bool own = false;
  (void)grpc::SerializationTraits<Message>::Serialize(message, &bytes, &own);
  return bytes;
}

}  // namespace

// A pending call. Stopping the services ends it, even if work for it is still
// running.
class ControlServices::OpenCall {
 public:
  virtual ~OpenCall() = default;
  // Completes the call with `why`, unless it was answered. Thread-safe.
  virtual void Close(const grpc::Status& why) = 0;
  virtual bool HasUnsent() { return false; }
};

void ControlServices::Open(const std::shared_ptr<OpenCall>& call) {
  {
    std::lock_guard<std::mutex> lock(mu_);
    calls_.insert(call);
    if (!stopped_) return;
  }
  call->Close(TheEnd());
}

void ControlServices::Forget(const std::shared_ptr<OpenCall>& call) {
  std::lock_guard<std::mutex> lock(mu_);
  calls_.erase(call);
}

// A unary call. Owned by its read and by the thread that handles it, which may
// outlive the port and then makes no gRPC calls.
class ControlServices::UnaryCall final
    : public OpenCall,
      public std::enable_shared_from_this<UnaryCall> {
 public:
  UnaryCall(ControlServices* owner, std::unique_ptr<GrpcCall> call,
            const Method* method, TaskThreads* threads)
      : owner_(owner),
        method_(method),
        threads_(threads),
        peer_(call->context.peer()),
        call_(std::move(call)) {}

  void Begin() {
    owner_->Open(shared_from_this());
    std::lock_guard<std::mutex> lock(mu_);
    if (call_ == nullptr) return;
    call_->io.Read(&request_,
                   GrpcOneEvent::Of([self = shared_from_this(), call = call_](
                                        bool ok) { self->OnRead(ok); }));
  }
  void Close(const grpc::Status& why) override {
    End([&why](GrpcCall& call, void* tag) { call.io.Finish(why, tag); });
  }

 private:
  void OnRead(bool ok) {
    if (!ok) return Close(grpc::Status::CANCELLED);
    threads_->Schedule([self = shared_from_this()] { self->Answer(); });
  }
  void Answer() {
    grpc::ByteBuffer answer;
    const Status s = (*method_)(peer_, &request_, &answer);
    if (!s.ok())
      return Close(grpc::Status(s.code() == StatusCode::kNotFound
                                    ? grpc::StatusCode::NOT_FOUND
                                    : grpc::StatusCode::INVALID_ARGUMENT,
                                std::string(s.message())));
    End([&answer](GrpcCall& call, void* tag) {
      call.io.WriteAndFinish(answer, grpc::WriteOptions(), grpc::Status::OK,
                             tag);
    });
  }
  // Called once; afterwards only gRPC's events own the call.
  template <typename Fn>
  void End(Fn finish) {
    {
      std::lock_guard<std::mutex> lock(mu_);
      if (call_ == nullptr) return;
      const std::shared_ptr<GrpcCall> call = std::exchange(call_, nullptr);
      finish(*call, GrpcOneEvent::Of([call](bool) {}));
    }
    owner_->Forget(shared_from_this());
  }

  ControlServices* const owner_;
  const Method* const method_;
  TaskThreads* const threads_;
  const std::string peer_;
  grpc::ByteBuffer request_;
  std::mutex mu_;
  std::shared_ptr<GrpcCall> call_;  // GUARDED_BY(mu_); null: answered.
};

// A client's stream of steps (StepsRequest). Owned by its pending operations
// and running steps, which may outlive the services; it is closed before they
// are destroyed and does not use them afterwards. Thread-safe.
class ControlServices::StepsCall final
    : public OpenCall,
      public std::enable_shared_from_this<StepsCall> {
 public:
  StepsCall(ControlServices* owner, std::unique_ptr<GrpcCall> call)
      : owner_(owner), call_(std::move(call)) {}

  void Begin() {
    owner_->Open(shared_from_this());
    std::lock_guard<std::mutex> lock(mu_);
    if (!closed_) StartRead();
  }
  void Close(const grpc::Status& why) override {
    {
      std::lock_guard<std::mutex> lock(mu_);
      if (std::exchange(closed_, true)) return;
      out_.clear();
      call_->io.Finish(why,
                       GrpcOneEvent::Of([self = shared_from_this()](bool) {}));
    }
    owner_->Forget(shared_from_this());
  }
  bool HasUnsent() override {
    std::lock_guard<std::mutex> lock(mu_);
    return !closed_ && (writing_ || !out_.empty());
  }

 private:
  // REQUIRES: mu_ held, not closed.
  void StartRead() {
    call_->io.Read(&in_, GrpcOneEvent::Of([self = shared_from_this()](bool ok) {
      self->OnRead(ok);
    }));
  }
  void OnRead(bool ok) {
    proto::StepsRequest request;
    Status s = ok ? Parse(&in_, &request) : OkStatus();
    if (!ok || !s.ok()) {
      // The client is gone, so close the session.
      if (session_ != 0)
        owner_->threads_.Schedule([master = owner_->master_, id = session_] {
          proto::CloseSessionRequest close;
          close.set_session(id);
          (void)master->CloseSession(close);
        });
      Close(s.ok() ? grpc::Status::OK
                   : grpc::Status(grpc::StatusCode::INVALID_ARGUMENT,
                                  std::string(s.message())));
      return;
    }
    if (request.has_attend()) {
      session_ = request.attend().session();
      owner_->Attended(session_);
      Send({BytesOf(proto::StepsResponse())});
    }
    Result<std::vector<Tensor>> feeds{std::vector<Tensor>()};
    if (request.has_part()) {
      feeds_[request.call()].Add(request.part());
    } else if (request.has_run()) {
      feeds = feeds_[request.call()].Take(request.run().feed());
      feeds_.erase(request.call());
    }
    // (From here on another thread may handle the next message.)
    owner_->port_->Defer(
        GrpcEvent::OfTag(GrpcOneEvent::Of([self = shared_from_this()](bool) {
          std::lock_guard<std::mutex> lock(self->mu_);
          if (!self->closed_) self->StartRead();
        })));
    if (!request.has_run()) return;
    auto answer = [self = shared_from_this(), call = request.call()](
                      StepAnswer a) { self->Answer(call, std::move(a)); };
    if (!feeds.ok()) {
      StepAnswer refused;
      StatusToProto(Annotate(feeds.status(), "feeds"),
                    refused.response.mutable_status());
      return answer(std::move(refused));
    }
    request.mutable_run()->clear_feed();
    auto log = [self = shared_from_this(),
                call = request.call()](const std::string& text) {
      proto::StepsResponse response;
      response.set_call(call);
      response.set_log(text);
      self->Send({BytesOf(response)});
    };
    if (!request.run().traced())
      return owner_->master_->StartStep(request.run(), *feeds,
                                        std::move(answer), std::move(log));
    // (Blocks: it reads the tasks' clocks.)
    owner_->threads_.Schedule([master = owner_->master_, run = request.run(),
                               feeds = *std::move(feeds),
                               answer = std::move(answer),
                               log = std::move(log)] {
      StepAnswer a;
      // (Run first: it replaces the status that the response points to.)
      const Status s = master->RunStep(run, feeds, &a, log);
      StatusToProto(s, a.response.mutable_status());
      answer(std::move(a));
    });
  }
  struct Outgoing {
    grpc::ByteBuffer message;
    uint64_t call = 0;
    SentValues values = {};  // Sent before the message.
  };
  void Answer(uint64_t call, StepAnswer answer) {
    proto::StepsResponse response;
    response.set_call(call);
    proto::RunStepResponse* const result = response.mutable_result();
    result->Swap(&answer.response);
    Outgoing out;
    out.call = call;
    Status s = Annotate(out.values.Add(answer.fetches, result->mutable_fetch()),
                        "fetches");
    if (s.ok()) s = CheckMessage("fetches", response);
    if (!s.ok()) {
      out.values = SentValues();
      result->Clear();
      StatusToProto(s, result->mutable_status());
    }
    out.message = BytesOf(response);
    Send(std::move(out));
  }
  void Send(Outgoing message) {
    std::lock_guard<std::mutex> lock(mu_);
    if (closed_) return;
    out_.push_back(std::move(message));
    Flush();
  }
  // REQUIRES: mu_ held.
  void Flush() {
    if (writing_ || closed_ || out_.empty()) return;
    writing_ = true;
    void* const written = GrpcOneEvent::Of([self = shared_from_this()](bool) {
      std::lock_guard<std::mutex> lock(self->mu_);
      self->writing_ = false;
      self->Flush();
    });
    Outgoing& next = out_.front();
    proto::StepsResponse part;
    if (next.values.Next(part.mutable_part())) {
      part.set_call(next.call);
      call_->io.Write(BytesOf(part), written);
      return;
    }
    call_->io.Write(next.message, written);
    out_.pop_front();
  }

  ControlServices* const owner_;
  const std::unique_ptr<GrpcCall> call_;
  grpc::ByteBuffer in_;   // For the pending read.
  uint64_t session_ = 0;  // Likewise.
  // By call: what has come of its feeds. Likewise.
  std::map<uint64_t, ReceivedValues> feeds_;
  std::mutex mu_;
  std::deque<Outgoing> out_;  // GUARDED_BY(mu_)
  bool writing_ = false;      // GUARDED_BY(mu_)
  bool closed_ = false;       // GUARDED_BY(mu_)
};

template <typename Request, typename Response, typename Fn>
void ControlServices::Add(const std::string& name, Fn fn) {
  methods_["/sluice.proto." + name] = [fn](const std::string& peer,
                                           grpc::ByteBuffer* in,
                                           grpc::ByteBuffer* out) {
    Request request;
    SLUICE_RETURN_IF_ERROR(Parse(in, &request));
    Response response;
    // Our own errors are fields of the response.
    Status s;
    if constexpr (std::is_invocable_v<Fn, const Request&, Response*,
                                      const std::string&>)
      s = fn(request, &response, peer);
    else
      s = fn(request, &response);
    StatusToProto(s, response.mutable_status());
    *out = BytesOf(response);
    return OkStatus();
  };
}

ControlServices::ControlServices(Master* master, Worker* worker,
                                 std::string steps_address,
                                 std::chrono::milliseconds patience)
    : master_(master),
      steps_address_(std::move(steps_address)),
      patience_(patience) {
  using namespace proto;  // NOLINT: used throughout the table.
  Add<CreateSessionRequest, CreateSessionResponse>(
      "MasterService/CreateSession",
      [this](const CreateSessionRequest& q, CreateSessionResponse* r,
             const std::string& peer) {
        // (The client may disconnect before the session exists.)
        const bool seen = port_->IsConnected(peer);
        r->set_address(steps_address_);
        SLUICE_RETURN_IF_ERROR(master_->CreateSession(q, r, PeerHost(peer)));
        Await(r->session(), seen ? peer : "");
        return OkStatus();
      });
  Add<ExtendGraphRequest, ExtendGraphResponse>(
      "MasterService/ExtendGraph",
      [master](const auto& q, auto*) { return master->ExtendGraph(q); });
  Add<PrepareStepRequest, PrepareStepResponse>(
      "MasterService/PrepareStep",
      [master](const auto& q, auto* r) { return master->PrepareStep(q, r); });
  Add<BeginPartialRunRequest, BeginPartialRunResponse>(
      "MasterService/BeginPartialRun", [master](const auto& q, auto* r) {
        return master->BeginPartialRun(q, r);
      });
  Add<PartialRunRequest, PartialRunResponse>(
      "MasterService/PartialRun",
      [master](const auto& q, auto* r) { return master->PartialRun(q, r); });
  Add<EndPartialRunRequest, EndPartialRunResponse>(
      "MasterService/EndPartialRun",
      [master](const auto& q, auto*) { return master->EndPartialRun(q); });
  Add<CancelStepRequest, CancelStepResponse>(
      "MasterService/CancelStep",
      [master](const auto& q, auto*) { return master->CancelStep(q); });
  Add<ListDevicesRequest, ListDevicesResponse>(
      "MasterService/ListDevices",
      [master](const auto& q, auto* r) { return master->ListDevices(q, r); });
  Add<ListTasksRequest, ListTasksResponse>(
      "MasterService/ListTasks",
      [master](const auto& q, auto* r) { return master->ListTasks(q, r); });
  Add<ResetRequest, ResetResponse>(
      "MasterService/Reset",
      [master](const auto& q, auto*) { return master->Reset(q); });
  Add<CloseSessionRequest, CloseSessionResponse>(
      "MasterService/CloseSession", [this](const auto& q, auto*) {
        Attended(q.session());
        return master_->CloseSession(q);
      });
  Add<GetStatusRequest, GetStatusResponse>("WorkerService/GetStatus",
                                           [worker](const auto& q, auto* r) {
                                             worker->GetStatus(q, r);
                                             return OkStatus();
                                           });
  Add<CreateWorkerSessionRequest, CreateWorkerSessionResponse>(
      "WorkerService/CreateSession",
      [worker](const auto& q, auto*) { return worker->CreateSession(q); });
  Add<DeleteWorkerSessionRequest, DeleteWorkerSessionResponse>(
      "WorkerService/DeleteSession",
      [worker](const auto& q, auto*) { return worker->DeleteSession(q); });
  Add<RegisterStepRequest, RegisterStepResponse>(
      "WorkerService/RegisterStep",
      [worker](const auto& q, auto*) { return worker->RegisterStep(q); });
  Add<DeregisterStepRequest, DeregisterStepResponse>(
      "WorkerService/DeregisterStep",
      [worker](const auto& q, auto*) { return worker->DeregisterStep(q); });
  Add<ResetRequest, ResetResponse>(
      "WorkerService/Reset",
      [worker](const auto& q, auto*) { return worker->Reset(q); });
  AddHealth();
}

ControlServices::~ControlServices() = default;

void ControlServices::AddHealth() {
  methods_["/grpc.health.v1.Health/Check"] =
      [this](const std::string&, grpc::ByteBuffer* in,
             grpc::ByteBuffer* out) -> Status {
    proto::HealthCheckRequest request;
    SLUICE_RETURN_IF_ERROR(Parse(in, &request));
    const std::string& service = request.service();
    if (!service.empty() && service != "sluice.proto.MasterService" &&
        service != "sluice.proto.WorkerService")
      return NotFound("health: expected a service of this task, got '", service,
                      "'");
    proto::HealthCheckResponse response;
    response.set_status(master_->draining()
                            ? proto::HealthCheckResponse::NOT_SERVING
                            : proto::HealthCheckResponse::SERVING);
    *out = BytesOf(response);
    return OkStatus();
  };
}

// ---- Sessions without a client ----------------------------------------------

// (The client may have died, or not have waited for the response.)
void ControlServices::Await(uint64_t session, const std::string& peer) {
  Unattended u;
  u.until = std::chrono::steady_clock::now() + patience_;
  u.peer = peer;
  std::lock_guard<std::mutex> lock(mu_);
  unattended_[session] = std::move(u);
  if (!std::exchange(watching_, true))
    threads_.Schedule([this] { WatchUnattended(); });
}

void ControlServices::Attended(uint64_t session) {
  std::lock_guard<std::mutex> lock(mu_);
  unattended_.erase(session);
  if (unattended_.empty()) unattended_changed_.notify_all();
}

void ControlServices::WatchUnattended() {
  std::unique_lock<std::mutex> lock(mu_);
  while (!stopped_ && !unattended_.empty()) {
    const auto now = std::chrono::steady_clock::now();
    std::vector<uint64_t> dead;
    for (const auto& [session, u] : unattended_)
      if (now >= u.until || (!u.peer.empty() && !port_->IsConnected(u.peer)))
        dead.push_back(session);
    for (const uint64_t session : dead) unattended_.erase(session);
    if (dead.empty()) {
      unattended_changed_.wait_for(lock, kLookInterval);
      continue;
    }
    lock.unlock();
    for (const uint64_t session : dead) {
      proto::CloseSessionRequest close;
      close.set_session(session);
      (void)master_->CloseSession(close);
    }
    lock.lock();
  }
  watching_ = false;
}

TaskThreads& ControlServices::ThreadsOf(const std::string& method) {
  const auto is = [&method](const char* what) {
    return method == std::string("/sluice.proto.MasterService/") + what;
  };
  if (is("CreateSession")) return opening_;
  // (A stage waits for its values; the end of a run or step must get through.)
  if (is("PartialRun") || is("EndPartialRun") || is("CancelStep"))
    return threads_;
  return method.starts_with("/sluice.proto.MasterService/") ? control_
                                                            : working_;
}

void ControlServices::Register(GrpcPort* port) {
  port_ = port;
  for (const auto& [name, method] : methods_)
    port->Handle(name, [this, m = &method,
                        t = &ThreadsOf(name)](std::unique_ptr<GrpcCall> call) {
      std::make_shared<UnaryCall>(this, std::move(call), m, t)->Begin();
    });
  port->Handle("/sluice.proto.MasterService/Steps",
               [this](std::unique_ptr<GrpcCall> call) {
                 std::make_shared<StepsCall>(this, std::move(call))->Begin();
               });
}

bool ControlServices::HasUnsent() {
  std::lock_guard<std::mutex> lock(mu_);
  return std::any_of(calls_.begin(), calls_.end(),
                     [](const auto& call) { return call->HasUnsent(); });
}

void ControlServices::Stop() {
  std::set<std::shared_ptr<OpenCall>> calls;
  {
    std::lock_guard<std::mutex> lock(mu_);
    stopped_ = true;
    unattended_changed_.notify_all();
    calls = calls_;
  }
  for (const auto& c : calls) c->Close(TheEnd());
}

}  // namespace sluice
