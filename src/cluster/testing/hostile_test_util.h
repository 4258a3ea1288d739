// Sends invalid messages to a task, for tests and the fuzzer: the messages that
// masters, workers and clients send, mutated as directed by a byte string, in
// any order, while there are sessions and steps that they may affect.
#ifndef SLUICE_CLUSTER_TESTING_HOSTILE_TEST_UTIL_H_
#define SLUICE_CLUSTER_TESTING_HOSTILE_TEST_UTIL_H_

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "client/testing/random_program_test_util.h"
#include "cluster/common/cluster.h"
#include "cluster/server.h"
#include "cluster/services/step_values.h"
#include "cluster/testing/mutator_test_util.h"
#include "cluster/transport/transport_base.h"
#include "graph/graphdef.h"
#include "graph/tensor_proto.h"
#include "sluice/sluice.h"

namespace sluice::hostile {

// A CPU device with little memory, since the graphs' memory use is not under
// test.
class SmallDevice final : public Device {
 public:
  explicit SmallDevice(DeviceName name)
      : Device(name), cpu_(name), memory_(int64_t{16} << 20, 0) {}
  Allocator* allocator() override { return &memory_; }
  Status MakeKernel(const Node& node, Kernel* kernel) override {
    return cpu_.MakeKernel(node, kernel);
  }

 private:
  CpuDevice cpu_;
  HostAllocator memory_;
};

// Records the steps that a task is asked to register.
class Spy final : public WorkerStub {
 public:
  Spy(std::unique_ptr<WorkerStub> to,
      std::vector<proto::RegisterStepRequest>* seen)
      : to_(std::move(to)), seen_(seen) {}
  Status GetStatus(const proto::GetStatusRequest& q,
                   proto::GetStatusResponse* r) override {
    return to_->GetStatus(q, r);
  }
  Status CreateSession(const proto::CreateWorkerSessionRequest& q) override {
    return to_->CreateSession(q);
  }
  Status DeleteSession(const proto::DeleteWorkerSessionRequest& q) override {
    return to_->DeleteSession(q);
  }
  Status RegisterStep(const proto::RegisterStepRequest& q) override {
    if (seen_ != nullptr) seen_->push_back(q);
    return to_->RegisterStep(q);
  }
  Status DeregisterStep(const proto::DeregisterStepRequest& q) override {
    return to_->DeregisterStep(q);
  }
  Status Reset(const proto::ResetRequest& q) override { return to_->Reset(q); }

 private:
  const std::unique_ptr<WorkerStub> to_;
  std::vector<proto::RegisterStepRequest>* const seen_;
};

class Ignore final : public TransportHandler {
 public:
  void OnTokens(PeerId, uint64_t, uint32_t, std::span<TokenMessage>) override {}
  void OnControl(PeerId, uint8_t, std::string_view) override {}
  void OnPeerLost(PeerId, const Status&) override {}
};

// The task /job:w/task:0, a well-behaved second task, and a peer that is not a
// task.
class Victim {
 public:
  explicit Victim(uint64_t programs = 6) {
    // Parse errors are reported by a status, not on stderr.
    google::protobuf::SetLogHandler(nullptr);
    static int victims = 0;
    prefix_ = absl::StrCat("victim", victims++);
    for (const int task : {0, 1})
      (void)spec_.Add("w", task, absl::StrCat("nowhere:", task + 1));
    for (const int task : {1, 0}) servers_[task] = StartTask(task);
    MakePrograms(programs);
    TransportOptions evil;
    evil.task = "/job:evil/replica:0/task:0";
    hostile_ = std::make_unique<LocalTransport>(evil);
    (void)hostile_->Start(&ignore_);
    Transport& t = servers_[0]->transport();
    peer_ = *hostile_->Connect(
        {"/job:w/replica:0/task:0", t.address(), t.incarnation()});
  }
  ~Victim() { hostile_->Shutdown(); }

  // Performs the actions that the bytes encode, then closes all sessions. False
  // if a step is still running after 30 seconds.
  bool PerformActions(const uint8_t* bytes, size_t size) {
    Draws draws(bytes, size);
    OpenSessions();
    for (int i = 0; i < 40 && !draws.empty(); ++i) Act(&draws);
    return CloseSessions();
  }
  Server& server() { return *servers_[0]; }
  const std::vector<proto::RegisterStepRequest>& requests() const {
    return requests_;
  }
  uint64_t session() const { return session_; }
  PeerId peer() const { return peer_; }
  Transport& hostile() { return *hostile_; }
  void OpenSessions();
  bool CloseSessions();

 private:
  std::unique_ptr<Server> StartTask(int task);
  void MakePrograms(uint64_t programs);
  void Act(Draws* draws);
  void ActOnWorker(Draws* draws);
  void ActOnMaster(Draws* draws);
  void ActOnSteps(Draws* draws);

  std::string prefix_;
  ClusterSpec spec_;
  std::vector<proto::RegisterStepRequest> requests_;  // Valid ones.
  std::vector<std::string> graphs_;
  std::vector<proto::PrepareStepRequest> prepares_;
  std::vector<std::vector<std::string>> feeds_;
  std::unique_ptr<Server> servers_[2];
  Ignore ignore_;
  std::unique_ptr<LocalTransport> hostile_;
  PeerId peer_ = 0;
  uint64_t opened_ = 0, session_ = 0;  // The peer's, at the worker.
  uint64_t client_session_ = 0;        // At the master.
};

inline std::unique_ptr<Server> Victim::StartTask(int task) {
  ServerOptions options;
  options.cluster = spec_;
  options.job = "w";
  options.task = task;
  options.limits.early_bytes = 1 << 20;
  options.limits.early_expiry = std::chrono::milliseconds(100);
  options.more_devices = [](const DeviceName& self,
                            std::vector<std::unique_ptr<Device>>* devices) {
    DeviceName name = self;
    name.type = "CPU";
    name.number = 1;
    devices->push_back(std::make_unique<SmallDevice>(name));
    return OkStatus();
  };
  TransportOptions transport;
  transport.task = absl::StrCat("/job:w/replica:0/task:", task);
  ServerParts parts;
  parts.transport = std::make_unique<LocalTransport>(transport);
  parts.name = prefix_ + transport.task;
  parts.connect =
      [this](const ClusterTask& other) -> Result<std::unique_ptr<WorkerStub>> {
    SLUICE_ASSIGN_OR_RETURN(auto stub,
                            ConnectWorkerInProcess(prefix_ + other.name()));
    return std::unique_ptr<WorkerStub>(std::make_unique<Spy>(
        std::move(stub), other.task == 0 ? &requests_ : nullptr));
  };
  return *Server::Start(options, std::move(parts));
}

// Valid steps, half of each on the task: the second task, as their master,
// registers them there.
inline void Victim::MakePrograms(uint64_t programs) {
  for (uint64_t seed = 0; seed < programs; ++seed) {
    using random_program::GraphBuilder;
    using random_program::Maker;
    Graph graph;
    const WithGraph use(graph);
    const Output x0 = Placeholder<double>({2}), x1 = Placeholder<double>({2});
    const Output y = GraphBuilder({x0, x1}).Build(Maker(seed).Make());
    // (A feed and a fetch that use only this task.)
    const Output x2 = Placeholder<double>({2}), z = ops::Sin(x2);
    int i = 0;
    for (const auto& n : graph.nodes())
      graph.SetDevice(n.get(), absl::StrCat("/job:w/replica:0/task:",
                                            ++i * 7 / 3 % 2, "/device:CPU:1"));
    for (Node* n : {x2.node, z.node})
      graph.SetDevice(n, "/job:w/replica:0/task:0/device:CPU:1");
    const Tensor value = Tensor::Vector<double>({0.5, -1});
    Session session(servers_[1]->target(), graph);
    (void)session.Run({{x0, value}, {x1, value}, {x2, value}}, {y, z});
    graphs_.push_back(*ExportGraphDef(graph));
    proto::PrepareStepRequest prepare;
    for (const Output& x : {x0, x1, x2}) prepare.add_feed(x.name());
    for (const Output& f : {y, z}) prepare.add_fetch(f.name());
    prepares_.push_back(prepare);
    feeds_.push_back(std::vector<std::string>(3, *SerializeTensorProto(value)));
  }
}

inline void Victim::OpenSessions() {
  proto::CreateWorkerSessionRequest q;
  q.set_session(session_ = ++opened_ << 32 | 77);
  q.set_incarnation(server().transport().incarnation());
  q.mutable_master()->set_task("/job:evil/replica:0/task:0");
  q.mutable_master()->set_transport_address(hostile_->address());
  q.mutable_master()->set_incarnation(hostile_->incarnation());
  for (Server* s : {&server(), servers_[1].get()}) {
    proto::TaskAddress* a = q.add_task();
    a->set_task(s->worker().task());
    a->set_transport_address(s->transport().address());
    a->set_incarnation(s->transport().incarnation());
  }
  (void)server().worker().CreateSession(q);
  proto::CreateSessionResponse r;
  if (server().master().CreateSession({}, &r).ok())
    client_session_ = r.session();
}

inline bool Victim::CloseSessions() {
  server().master().CloseAll();
  // End the sessions and steps that the peer began.
  for (uint64_t session = 0; session <= 256; ++session) {
    proto::DeleteWorkerSessionRequest q;
    q.set_session(session < 256 ? session : session_);
    (void)server().worker().DeleteSession(q);
  }
  for (uint64_t run = 0; run < 16; ++run)
    server().worker().steps().Cancel(RunNumber(session_, run), Cancelled(""));
  for (int i = 0; i < 30000; ++i) {
    if (server().worker().steps().num_running() == 0 &&
        server().master().steps().num_running() == 0)
      return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

inline void Victim::Act(Draws* draws) {
  switch (draws->Below(3)) {
    case 0:
      return ActOnWorker(draws);
    case 1:
      return ActOnSteps(draws);
    default:
      return ActOnMaster(draws);
  }
}

inline void Victim::ActOnWorker(Draws* draws) {
  Worker& w = server().worker();
  switch (draws->Below(8)) {
    case 0: {
      proto::CreateWorkerSessionRequest q;
      q.set_session(draws->Number());
      q.set_incarnation(w.incarnation());
      Change(&q, draws);
      q.set_session(q.session() % 256);  // (So that CloseSessions finds it.)
      (void)w.CreateSession(q);
      return;
    }
    case 1: {
      proto::DeleteWorkerSessionRequest q;
      q.set_session(draws->Number());
      (void)w.DeleteSession(q);
      return;
    }
    case 2: {
      proto::DeregisterStepRequest q;
      q.set_session(session_);
      q.set_step(draws->Number());
      (void)w.DeregisterStep(q);
      return;
    }
    case 3: {
      proto::ResetRequest q;
      q.set_session(draws->Below(2) == 0 ? session_ : draws->Number());
      Change(&q, draws);
      (void)w.Reset(q);
      return;
    }
    default: {
      if (requests_.empty()) return;
      proto::RegisterStepRequest q = requests_[draws->Below(requests_.size())];
      q.set_session(session_);
      q.set_step(draws->Below(4));
      for (auto& p : *q.mutable_partition())
        ChangeGraph(p.mutable_graph_def(), draws);
      if (draws->Below(2) == 0) Change(&q, draws);
      (void)w.RegisterStep(q);
    }
  }
}

inline void Victim::ActOnSteps(Draws* draws) {
  const uint64_t run = RunNumber(session_, draws->Below(12));
  const auto send = [&](StepMessage kind, std::string bytes) {
    if (draws->Below(8) == 0) bytes = draws->Bytes(draws->Below(40));
    (void)hostile_->SendControl(peer_, static_cast<uint8_t>(kind), bytes);
  };
  const auto speak = [&](StepMessage kind, auto message) {
    message.set_run(run);
    Change(&message, draws);
    send(kind, message.SerializeAsString());
  };
  switch (draws->Below(10)) {
    case 0: {
      proto::StepStart start;
      start.set_session(session_);
      start.set_step(draws->Below(4));
      start.set_run(run);
      start.set_feeds(2);
      start.set_timeout_ms(3);
      start.set_traced(draws->Below(4) == 0);
      if (draws->Below(2) == 0) Change(&start, draws);
      start.set_run(RunNumber(session_, start.run() % 16));
      send(StepMessage::kStart, start.SerializeAsString());
      return;
    }
    case 1:
      return speak(StepMessage::kCancel, proto::StepCancel());
    case 2:
      return speak(StepMessage::kDone, proto::StepDone());
    case 4:
      return speak(StepMessage::kStuck, proto::StepStuck());
    case 5:
      return speak(StepMessage::kProbe, proto::StepProbe());
    case 6:
      return speak(StepMessage::kState, proto::StepState());
    case 3: {
      proto::CollectiveNote note;
      note.set_kind(draws->Below(4));
      note.set_group(draws->Below(3));
      note.set_member(draws->Bytes(draws->Below(3)));
      note.set_size(draws->Below(5));
      note.set_rank(static_cast<int64_t>(draws->Below(4)) - 1);
      note.set_nonce(draws->Below(6));
      note.set_epoch(draws->Below(3));
      for (uint64_t i = draws->Below(3); i > 0; --i)
        note.add_nonces(draws->Below(6));
      Change(&note, draws);
      return send(StepMessage::kCollective, note.SerializeAsString());
    }
    default: {
      TokenMessage m;
      m.edge = static_cast<uint32_t>(draws->Number());
      m.dead = draws->Below(4) == 0;
      m.group = m.dead && draws->Below(2) == 0;
      m.tag.frame = draws->Number();
      m.tag.iteration = static_cast<int64_t>(draws->Number());
      static constexpr DType kTypes[] = {DType::kDouble, DType::kDouble,
                                         DType::kBool,   DType::kInt32,
                                         DType::kString, DType::kInvalid};
      const DType t = kTypes[draws->Below(std::size(kTypes))];
      if (t != DType::kInvalid)
        m.value =
            *Tensor::Zeros(t, Shape({static_cast<int64_t>(draws->Below(4))}));
      const uint32_t partition = draws->Below(2) == 0 ? kFeedPartition
                                 : draws->Below(4) == 0
                                     ? kCollectivePartition
                                     : static_cast<uint32_t>(draws->Number());
      (void)hostile_->SendTokens(peer_, run, partition, {&m, 1});
    }
  }
}

inline void Victim::ActOnMaster(Draws* draws) {
  Master& master = server().master();
  const size_t i = draws->Below(graphs_.size());
  switch (draws->Below(8)) {
    case 0: {
      proto::CreateSessionRequest q;
      Change(&q, draws);
      proto::CreateSessionResponse r;
      if (master.CreateSession(q, &r).ok()) client_session_ = r.session();
      return;
    }
    case 1: {
      proto::CancelStepRequest q;
      q.set_session(client_session_);
      Change(&q, draws);
      (void)master.CancelStep(q);
      return;
    }
    case 2: {
      proto::ExtendGraphRequest q;
      q.set_session(client_session_);
      q.set_graph_def(draws->Bytes(draws->Below(64)));
      (void)master.ExtendGraph(q);
      return;
    }
    case 3: {
      proto::CloseSessionRequest q;
      q.set_session(draws->Below(2) == 0 ? client_session_ : draws->Number());
      (void)master.CloseSession(q);
      return;
    }
    default: {
      proto::ExtendGraphRequest extend;
      extend.set_session(client_session_);
      extend.set_graph_def(graphs_[i]);
      ChangeGraph(extend.mutable_graph_def(), draws);
      if (!master.ExtendGraph(extend).ok()) return;
      proto::PrepareStepRequest prepare = prepares_[i];
      prepare.set_session(client_session_);
      if (draws->Below(4) == 0) Change(&prepare, draws);
      proto::PrepareStepResponse prepared;
      if (!master.PrepareStep(prepare, &prepared).ok()) return;
      proto::RunStepRequest run;
      run.set_session(client_session_);
      run.set_step(prepared.step());
      for (const std::string& f : feeds_[i]) run.add_feed(f);
      run.set_request(1);
      if (draws->Below(4) == 0) Change(&run, draws);
      run.set_timeout_ms(3);
      const Result<std::vector<Tensor>> feeds =
          ReceivedValues().Take(run.feed());
      StepAnswer answer;
      if (feeds.ok()) (void)master.RunStep(run, *feeds, &answer, nullptr);
    }
  }
}

}  // namespace sluice::hostile

#endif  // SLUICE_CLUSTER_TESTING_HOSTILE_TEST_UTIL_H_
