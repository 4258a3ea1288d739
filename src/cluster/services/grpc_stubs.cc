// The client side.
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "cluster/proto/cluster.grpc.pb.h"
#include "cluster/services/grpc_services.h"
#include "cluster/services/step_values.h"
#include "exec/core/on_cancel.h"

namespace sluice {
namespace {

// The status in the response, or else the status of the call.
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

// Polls a task until it is up. Thread-safe.
class TaskAtChannel {
 public:
  TaskAtChannel(std::shared_ptr<grpc::Channel> channel, Milliseconds patience,
                std::shared_ptr<Cancellation> ending)
      : channel_(std::move(channel)),
        asks_(proto::WorkerService::NewStub(channel_)),
        patience_(patience),
        ending_(std::move(ending)) {}

  Milliseconds patience() const { return patience_; }
  // RAII: while it lives, cancelling `ending_` cancels the call.
  OnCancel EndWithUs(grpc::ClientContext* context) const {
    return OnCancel(ending_.get(), [context] { context->TryCancel(); });
  }

  // Waits until the task answers, so that the caller can make its call just
  // once: a call without a response may still have been executed. Else returns
  // what was seen: no listener; a listener that accepts connections and is
  // silent, as that of a stopped process; or one that closes each connection,
  // for example because TLS or an accepted certificate is missing. Only the
  // first is retried until the timeout.
  Status Await(const std::string& whom, Milliseconds at_most) {
    proto::GetStatusResponse answer;
    return Ask({}, &answer, whom, std::min(at_most, patience_));
  }
  Status Ask(const proto::GetStatusRequest& q, proto::GetStatusResponse* r,
             const std::string& whom, Milliseconds patience) {
    const auto begin = std::chrono::steady_clock::now();
    const auto end = begin + patience;
    // When the present row of closed or of silent connections began.
    auto closed_since = end, silent_since = begin;
    std::string last;  // The last connection error.
    End how = End::kNobody;
    for (;;) {
      grpc::ClientContext context;
      context.set_deadline(std::chrono::system_clock::now() +
                           (end - std::chrono::steady_clock::now()));
      const OnCancel ends = EndWithUs(&context);
      const auto asked = std::chrono::steady_clock::now();
      const grpc::Status s = asks_->GetStatus(&context, q, r);
      if (s.ok()) return StatusFromProto(r->status());
      const auto now = std::chrono::steady_clock::now();
      if (s.error_code() == grpc::StatusCode::UNAVAILABLE)
        last = s.error_message();
      if (s.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED || now >= end) {
        const bool connected =
            channel_->GetState(false) == GRPC_CHANNEL_READY ||
            how == End::kSilent;
        return Unavailable(whom, ": expected an answer within ",
                           patience.count(), " ms, got none",
                           connected ? kAccepted : "", last.empty() ? "" : ": ",
                           last);
      }
      if (s.error_code() != grpc::StatusCode::UNAVAILABLE)
        return Status(static_cast<StatusCode>(s.error_code()),
                      absl::StrCat(whom, ": ", s.error_message()));
      // (Between attempts gRPC repeats the error of the latest one at once.)
      if (const End now_how = EndOf(s.error_message());
          now_how != End::kNoAnswerToTls)
        how = now_how;
      else if (now - asked > kAtOnce)
        how = End::kSilent;
      else if (how != End::kSilent)
        how = End::kHangsUp;
      if (how != End::kSilent) silent_since = now;
      if (how == End::kSilent && now - silent_since >= kSilence)
        return Unavailable(
            whom, ": expected an answer within ",
            std::chrono::duration_cast<Milliseconds>(now - silent_since)
                .count(),
            " ms, got none", kAccepted, ": ", s.error_message());
      if (how != End::kHangsUp && how != End::kHandshake) {
        closed_since = end;
      } else {
        closed_since = std::min(closed_since, now);
        if (how == End::kHandshake || now - closed_since > kRefusals)
          return Unavailable(
              whom, ": expected a task, got one that ends the connection: ",
              s.error_message(),
              " (the handshake failed: does one side speak TLS and the other "
              "not, or has one of them no certificate that the other takes?)");
      }
      channel_->WaitForStateChange(
          channel_->GetState(true),
          std::chrono::system_clock::now() + kAskInterval);
    }
  }

 private:
  static constexpr Milliseconds kAskInterval{100};
  // A task that is starting or has just died closes connections for a shorter
  // time than this.
  static constexpr Milliseconds kRefusals{2000};
  // As long as a task is silent by default before it counts as lost. (A
  // process that starts on a busy machine may listen before it answers.)
  static constexpr Milliseconds kSilence{4500};
  static constexpr char kAccepted[] =
      ", although the connection was accepted (is its process stopped, or "
      "another program listening there?)";
  // Longer than a connection takes to be closed.
  static constexpr Milliseconds kAtOnce{250};
  enum class End { kNobody, kSilent, kHangsUp, kHandshake, kNoAnswerToTls };
  static End EndOf(const std::string& why) {
    const auto says = [&why](const char* what) {
      return why.find(what) != std::string::npos;
    };
    if (says("timed out before receiving SETTINGS")) return End::kSilent;
    // (Of a handshake that timed out, or whose connection was closed.)
    if (says("Handshake read failed")) return End::kNoAnswerToTls;
    if (says("andshake failed") || says("SSL_ERROR") || says("Peer name") ||
        says("CERTIFICATE"))
      return End::kHandshake;
    if (says("closed") || says("reset by peer") || says("Broken pipe") ||
        says("SETTINGS"))
      return End::kHangsUp;
    return End::kNobody;
  }

  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<proto::WorkerService::Stub> asks_;
  const Milliseconds patience_;
  const std::shared_ptr<Cancellation> ending_;
};

// One call; errors name `whom`. With `patience` it waits for the task to be up,
// and then for at most that long for the answer.
template <typename Stub, typename Request, typename Response>
Status CallTask(TaskAtChannel& task, Stub& stub,
                Method<Stub, Request, Response> method, const Request& q,
                Response* r, const std::string& whom, Milliseconds patience) {
  grpc::ClientContext context;
  if (patience.count() > 0) {
    SLUICE_RETURN_IF_ERROR(task.Await(whom, patience));
    context.set_deadline(std::chrono::system_clock::now() + patience);
  }
  const OnCancel ends = task.EndWithUs(&context);
  const grpc::Status s = (stub.*method)(&context, q, r);
  if (patience.count() > 0 && s.error_code() == grpc::DEADLINE_EXCEEDED)
    return Unavailable(whom, ": expected an answer within ", patience.count(),
                       " ms, got none, though the task is up");
  return Outcome(s, whom, *r);
}

class GrpcWorker final : public WorkerStub {
 public:
  GrpcWorker(const std::shared_ptr<grpc::Channel>& channel,
             Milliseconds patience, std::shared_ptr<Cancellation> ending)
      : task_(channel, patience, std::move(ending)),
        stub_(proto::WorkerService::NewStub(channel)) {}

  Status GetStatus(const proto::GetStatusRequest& q,
                   proto::GetStatusResponse* r) override {
    return task_.Ask(
        q, r, "task",
        q.patience_ms() > 0 ? Milliseconds(q.patience_ms()) : task_.patience());
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
    return CallTask(task_, *stub_, method, q, r, "task",
                    wait ? task_.patience() : Milliseconds(0));
  }
  TaskAtChannel task_;
  const std::unique_ptr<Stub> stub_;
};

// The client's stream of a session's steps (StepsRequest). A thread that waits
// for an answer polls for it, and for the answers of other waiting threads, so
// that a step needs no thread switch. When no thread waits, a background thread
// polls from time to time, because gRPC answers pings only while a thread
// polls. Thread-safe.
class StepStream {
 public:
  // `until_attended` is released once the master has acknowledged the Attend.
  StepStream(const std::shared_ptr<grpc::Channel>& channel, uint64_t session,
             std::string target, std::shared_ptr<void> until_attended)
      : stub_(proto::MasterService::NewStub(channel)),
        target_(std::move(target)),
        until_attended_(std::move(until_attended)) {
    proto::StepsRequest attend;
    attend.mutable_attend()->set_session(session);
    out_.push_back({std::move(attend), {}});
    writing_ = true;  // Until the call begins.
    ++under_way_;
    io_ = stub_->AsyncSteps(&context_, &queue_, Tag(&begun_));
    caretaker_ = std::thread([this] { TakeCare(); });
  }
  // REQUIRES: no thread waits in Run.
  ~StepStream() {
    context_.TryCancel();
    {
      std::lock_guard<std::mutex> lock(mu_);
      stop_ = true;
    }
    changed_.notify_all();
    caretaker_.join();
    std::unique_lock<std::mutex> lock(mu_);
    while (under_way_ > 0) Poll(lock);
    queue_.Shutdown();
    void* tag;
    bool ok;
    while (queue_.Next(&tag, &ok)) {
    }
  }

  Status Run(const proto::RunStepRequest& q, std::span<const Tensor> feeds,
             StepAnswer* r, const StepLog& log) {
    Outgoing request;
    *request.message.mutable_run() = q;
    SLUICE_RETURN_IF_ERROR(
        Annotate(request.values.Add(
                     feeds, request.message.mutable_run()->mutable_feed()),
                 "feeds"));
    SLUICE_RETURN_IF_ERROR(CheckMessage("feeds", request.message));
    std::unique_lock<std::mutex> lock(mu_);
    if (!broken_.ok()) return broken_;
    const uint64_t id = next_call_++;
    request.message.set_call(id);
    out_.push_back(std::move(request));
    Flush();
    Answer answer;
    answers_[id] = &answer;
    for (;;) {
      if (!answer.log.empty()) {
        const std::vector<std::string> texts = std::exchange(answer.log, {});
        changed_.notify_all();  // (Another waiting thread must poll.)
        lock.unlock();
        for (const std::string& text : texts)
          if (log) log(text);
        lock.lock();
      } else if (answer.come || !broken_.ok()) {
        break;
      } else if (polling_)
        changed_.wait(lock);
      else
        Poll(lock);
    }
    answers_.erase(id);
    // Another waiting thread, if any, has to poll now.
    if (!answers_.empty()) changed_.notify_all();
    if (!answer.come) return broken_;
    lock.unlock();
    r->response = std::move(answer.response);
    SLUICE_RETURN_IF_ERROR(StatusFromProto(r->response.status()));
    Result<std::vector<Tensor>> fetches =
        answer.values.Take(r->response.fetch());
    SLUICE_RETURN_IF_ERROR(Annotate(fetches.status(), "fetches"));
    r->fetches = *std::move(fetches);
    r->response.clear_fetch();
    return OkStatus();
  }

 private:
  struct Outgoing {
    proto::StepsRequest message;
    SentValues values;  // Sent before the message.
  };
  struct Answer {
    bool come = false;
    proto::RunStepResponse response;
    ReceivedValues values;
    std::vector<std::string> log;  // Not yet passed on.
  };
  using Event = void (StepStream::*)(bool);
  static void* Tag(Event* event) { return event; }

  // Waits for one event and handles it. REQUIRES: mu_ is held, !polling_.
  void Poll(std::unique_lock<std::mutex>& lock) {
    polling_ = true;
    lock.unlock();
    void* tag = nullptr;
    bool ok = false;
    const bool got = queue_.Next(&tag, &ok);
    lock.lock();
    polling_ = false;
    if (got) Handle(tag, ok);
  }
  // The same with a timeout: false if there was no event.
  bool Look(std::unique_lock<std::mutex>& lock, Milliseconds patience) {
    polling_ = true;
    lock.unlock();
    void* tag = nullptr;
    bool ok = false;
    const auto got = queue_.AsyncNext(
        &tag, &ok, std::chrono::system_clock::now() + patience);
    lock.lock();
    polling_ = false;
    if (got == grpc::CompletionQueue::GOT_EVENT) Handle(tag, ok);
    changed_.notify_all();
    return got == grpc::CompletionQueue::GOT_EVENT;
  }
  void TakeCare() {
    std::unique_lock<std::mutex> lock(mu_);
    // The master waits for our Attend.
    while (!stop_ && !attends_ && !finishing_) {
      if (polling_)
        changed_.wait_for(lock, kFirstLook);
      else
        Look(lock, kFirstLook);
    }
    lock.unlock();
    until_attended_.reset();
    lock.lock();
    while (!stop_) {
      changed_.wait_for(lock, kLookInterval, [this] { return stop_; });
      while (!stop_ && !polling_ && Look(lock, Milliseconds(0))) {
      }
    }
  }

  // The rest REQUIRES: mu_ is held.
  void Handle(void* tag, bool ok) {
    --under_way_;
    (this->**static_cast<Event*>(tag))(ok);
  }
  void OnBegun(bool ok) {
    writing_ = false;
    if (!ok) return Finish();
    StartRead();
    Flush();
  }
  void OnRead(bool ok) {
    if (!ok) return Finish();
    attends_ = true;
    if (auto it = answers_.find(in_.call()); it != answers_.end()) {
      if (!in_.log().empty())
        it->second->log.push_back(std::move(*in_.mutable_log()));
      if (in_.has_part()) it->second->values.Add(in_.part());
      if (in_.has_result()) {
        it->second->come = true;
        it->second->response.Swap(in_.mutable_result());
      }
      if (answers_.size() > 1) changed_.notify_all();
    }
    StartRead();
  }
  void OnWritten(bool) {
    writing_ = false;
    Flush();
  }
  void OnFinished(bool) {
    broken_ = Unavailable(target_, ": the session's connection broke",
                          status_.error_message().empty() ? "" : ": ",
                          status_.error_message());
    changed_.notify_all();
  }
  void StartRead() {
    ++under_way_;
    io_->Read(&in_, Tag(&read_));
  }
  void Flush() {
    if (writing_ || finishing_ || out_.empty()) return;
    writing_ = true;
    ++under_way_;
    Outgoing& next = out_.front();
    proto::StepsRequest part;
    if (next.values.Next(part.mutable_part())) {
      part.set_call(next.message.call());
      io_->Write(part, Tag(&written_));
      return;
    }
    io_->Write(next.message, Tag(&written_));
    out_.pop_front();
  }
  void Finish() {
    if (std::exchange(finishing_, true)) return;
    ++under_way_;
    io_->Finish(&status_, Tag(&finished_));
  }

  static constexpr Milliseconds kLookInterval{200}, kFirstLook{10};

  const std::unique_ptr<proto::MasterService::Stub> stub_;
  const std::string target_;
  std::shared_ptr<void> until_attended_;  // Used by its thread.
  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  Event begun_ = &StepStream::OnBegun, read_ = &StepStream::OnRead,
        written_ = &StepStream::OnWritten, finished_ = &StepStream::OnFinished;
  std::mutex mu_;
  std::condition_variable changed_;
  // All GUARDED_BY(mu_).
  std::unique_ptr<
      grpc::ClientAsyncReaderWriter<proto::StepsRequest, proto::StepsResponse>>
      io_;
  std::map<uint64_t, Answer*> answers_;  // By call.
  std::deque<Outgoing> out_;
  proto::StepsResponse in_;
  grpc::Status status_;
  Status broken_;  // Not OK: it has ended.
  uint64_t next_call_ = 1;
  int under_way_ = 0;     // Operations.
  bool attends_ = false;  // The master has acknowledged the Attend.
  bool polling_ = false, writing_ = false, finishing_ = false, stop_ = false;
  std::thread caretaker_;
};

using ChannelMaker = std::function<std::shared_ptr<grpc::Channel>(
    const std::string&, Milliseconds peer_timeout)>;

class GrpcMaster final : public MasterStub {
 public:
  GrpcMaster(std::shared_ptr<grpc::Channel> channel, ChannelMaker connect,
             std::string target, Milliseconds patience)
      : connect_(std::move(connect)),
        patience_(patience),
        target_(std::move(target)) {
    Use(std::move(channel));
  }

  Status CreateSession(const proto::CreateSessionRequest& q,
                       proto::CreateSessionResponse* r) override {
    SLUICE_RETURN_IF_ERROR(Call(&Stub::CreateSession, q, r, true));
    who_ = absl::StrCat("task ", r->task(), " at ", target_);
    if (r->address().empty()) return OkStatus();
    // From here on everything uses the one connection. (The master considers a
    // client dead if its connection ends before it calls Attend.)
    auto channel =
        connect_(r->address(), TimeoutFromProto(r->peer_timeout_ms()));
    if (channel == nullptr) return OkStatus();
    first_ = channel_;
    Use(std::move(channel));
    return OkStatus();
  }
  Status Attend(const proto::AttendRequest& q) override {
    steps_ = std::make_unique<StepStream>(channel_, q.session(), who_,
                                          std::exchange(first_, nullptr));
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
  Status RunStep(const proto::RunStepRequest& q, std::span<const Tensor> feeds,
                 StepAnswer* r, const StepLog& log) override {
    return steps_->Run(q, feeds, r, log);
  }
  Status BeginPartialRun(const proto::BeginPartialRunRequest& q,
                         proto::BeginPartialRunResponse* r) override {
    return Call(&Stub::BeginPartialRun, q, r, false);
  }
  Status PartialRun(const proto::PartialRunRequest& q,
                    proto::PartialRunResponse* r) override {
    return Call(&Stub::PartialRun, q, r, false);
  }
  Status EndPartialRun(const proto::EndPartialRunRequest& q) override {
    proto::EndPartialRunResponse r;
    return Call(&Stub::EndPartialRun, q, &r, false);
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
    // (Slightly longer than the master waits for tasks.)
    return CallTask(*task_, *stub_, &Stub::ListTasks, q, r, target_,
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
    // (The master itself waits for the tasks of the cluster.)
    return CallTask(*task_, *stub_, method, q, r, target_,
                    wait ? 2 * patience_ : Milliseconds(0));
  }
  void Use(std::shared_ptr<grpc::Channel> channel) {
    channel_ = std::move(channel);
    task_ = std::make_unique<TaskAtChannel>(channel_, patience_, nullptr);
    stub_ = proto::MasterService::NewStub(channel_);
  }

  const ChannelMaker connect_;
  const Milliseconds patience_;
  const std::string target_;
  // Constant once the session exists.
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<TaskAtChannel> task_;
  std::unique_ptr<Stub> stub_;
  std::shared_ptr<grpc::Channel> first_;  // Created the session.
  std::string who_;  // Includes the task's name once known.
  std::unique_ptr<StepStream> steps_;
};

}  // namespace

grpc::ChannelArguments ControlChannelArguments(const TlsFiles& tls,
                                               Milliseconds peer_timeout) {
  grpc::ChannelArguments args = CommonChannelArguments(tls);
  const int ms = static_cast<int>(peer_timeout.count());
  args.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, ms / 2);
  args.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, ms - ms / 2);
  args.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 0);
  args.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  args.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 500);
  args.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, ms);  // For one attempt.
  args.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  return args;
}

std::unique_ptr<WorkerStub> MakeGrpcWorkerStub(
    std::shared_ptr<grpc::Channel> channel, Milliseconds connect_timeout,
    std::shared_ptr<Cancellation> ending) {
  return std::make_unique<GrpcWorker>(channel, connect_timeout,
                                      std::move(ending));
}
std::unique_ptr<MasterStub> MakeGrpcMasterStub(
    std::shared_ptr<grpc::Channel> channel, ChannelMaker connect,
    std::string target, Milliseconds connect_timeout) {
  return std::make_unique<GrpcMaster>(std::move(channel), std::move(connect),
                                      std::move(target), connect_timeout);
}

}  // namespace sluice
