#include "simulate/simulator.h"

#include <algorithm>
#include <deque>
#include <queue>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "exec/core/rendezvous.h"
#include "graph/device_name.h"

namespace sluice {
namespace {

constexpr double kOffloadAbove = 30'000;  // ns, as in the executor.
constexpr double kSmallMessage = 65'536;  // Bytes.
constexpr double kTokenBytes = 50;        // Of a token besides its value.
constexpr int kNoCause = -1;

}  // namespace

class Simulator::Impl {
 public:
  enum class PieceKind : uint8_t { kTurn, kKernel, kMessage };

  // Something that took time, and what it waited for.
  struct Piece {
    double ready = 0, start = 0, end = 0;
    double compute = 0;  // Within a turn: in kernels.
    int cause = kNoCause;
    PieceKind kind = PieceKind::kTurn;
    int where = 0, to = 0;       // Tasks; for a kernel its device.
    const Node* node = nullptr;  // The kernel, or the longest one of a turn.
    double node_ns = 0;
  };

  struct SimulatedStep;
  struct StepInTask;

  // The part of a step on one device.
  struct PartRun {
    PartRun(const SimulatedPart& p, StepInTask* o, int d)
        : part(&p), owner(o), device(d), tokens(*p.plan) {}
    const SimulatedPart* part;
    StepInTask* owner;
    int device;
    Tokens tokens;
    Rendezvous rendezvous;
    int running = 0;  // Kernels elsewhere.
  };

  struct Mail {
    enum Kind : uint8_t { kToken, kKernelDone, kBegin, kTaskDone };
    Kind kind = kToken;
    bool first_of_message = false;
    int part = 0;
    Ready ready;  // kKernelDone.
    TokenMessage token;
    double bytes = 0;  // That the receiver copies.
    int cause = kNoCause;
  };

  // The part of a step in one task: what one driver runs.
  struct StepInTask {
    SimulatedStep* step = nullptr;
    int task = 0;
    std::vector<int> parts;  // Of the step.
    std::vector<Mail> inbox;
    bool scheduled = false;  // It has a core, or waits for one.
    bool begun = false, ended = false;
    double ready_at = 0;
    int outgoing = -1;  // Place among the messages of the current turn.
  };

  struct SimulatedStep {
    Simulator::Start start;
    std::vector<std::unique_ptr<PartRun>> parts;
    std::vector<std::unique_ptr<StepInTask>> tasks;
    std::vector<int> task_of_part;  // Place in `tasks`.
    int tasks_left = 0;
    size_t number = 0;
  };

  struct Message {
    int from = 0, to = 0;  // Tasks.
    StepInTask* receiver = nullptr;
    double bytes = 0;
    std::vector<Mail> mail;
  };

  struct LongKernel {
    PartRun* run = nullptr;
    Ready ready;
    double ns = 0;
    int cause = kNoCause;
    double ready_at = 0;
  };

  Impl(ClusterModel cluster, SimulatorOptions options)
      : cluster_(std::move(cluster)),
        options_(options),
        machines_(cluster_.machines.size()),
        devices_(cluster_.devices.size()),
        bytes_sent_(cluster_.tasks.size()) {
    for (size_t m = 0; m < machines_.size(); ++m)
      machines_[m].idle = cluster_.machines[m].cores;
  }

  void StartStep(double at, Start start) {
    if (options_.critical_path) programs_.insert(start.program);
    auto shared = std::make_shared<Start>(std::move(start));
    At(at, [this, shared](double now) { Begin(now, std::move(*shared)); });
  }
  void At(double at, std::function<void(double)> call) {
    calls_.push_back(std::move(call));
    Post(std::max(at, now_), Event::kCall, calls_.size() - 1);
  }
  Status Run();

  ClusterModel cluster_;
  const SimulatorOptions options_;
  double now_ = 0;
  int64_t count_ = 0;
  int64_t transfers_ = 0;

  struct Machine {
    int idle = 0;
    double busy = 0;
    // Waiting for a core: drivers, and kernels on threads of their own.
    std::deque<std::pair<StepInTask*, size_t>> queue;
    double out_free = 0, in_free = 0, out_busy = 0, in_busy = 0;
  };
  struct DeviceState {
    double free = 0, busy = 0;
  };
  std::vector<TraceEvent> trace_;
  std::vector<Machine> machines_;
  std::vector<DeviceState> devices_;
  std::vector<double> bytes_sent_;
  std::vector<Piece> pieces_;
  // Hold the nodes of the pieces.
  std::unordered_set<std::shared_ptr<const StepProgram>> programs_;
  int last_piece_ = kNoCause;

 private:
  struct Event {
    enum Kind : uint8_t {
      kCall,
      kTurnEnds,
      kKernelEnds,
      kLeaves,
      kArrives,
    };
    double at;
    uint64_t order;
    size_t index;
    StepInTask* task;
    Kind kind;
    bool operator>(const Event& o) const {
      return at != o.at ? at > o.at : order > o.order;
    }
  };
  void Post(double at, Event::Kind kind, size_t index,
            StepInTask* task = nullptr) {
    events_.push({at, order_++, index, task, kind});
  }
  const RuntimeCosts& costs() const { return cluster_.costs; }
  Machine& MachineOf(int task) {
    return machines_[static_cast<size_t>(
        cluster_.tasks[static_cast<size_t>(task)].machine)];
  }
  const DeviceModel& Model(int device) const {
    return cluster_.devices[static_cast<size_t>(device)];
  }
  int AddPiece(Piece p) {
    if (!options_.critical_path) return kNoCause;
    pieces_.push_back(p);
    return static_cast<int>(pieces_.size()) - 1;
  }

  void Begin(double now, Start start);
  void Wake(StepInTask* t, double now);
  void GiveCores(Machine& m, double now);
  void Turn(StepInTask* t, double now);
  void Handle(Mail& m, StepInTask* t);
  void RunReady(PartRun& run);
  void RunNode(PartRun& run, Ready r);
  void Compute(PartRun& run, Ready r);
  double KernelNs(const PartRun& run, const PlanNode& n,
                  const SimulatedNode& s) const;
  void SetOutputs(const PartRun& run, Ready r, const SimulatedNode& s);
  void Send(PartRun& run, Ready r, bool dead);
  void Deliver(PartRun& run, Ready r, TokenMessage& m);
  void Arrived(PartRun& run, TokenMessage& m);
  void Flush();
  void Queue(StepInTask* to, Mail mail);
  void FinishTask(StepInTask* t);
  void Leave(size_t message, double now);
  void Arrive(size_t message, double now);
  void KernelEnds(size_t kernel, double now);
  void Trace(const PartRun& run, Ready r, double start, double end);
  void Fail(Status s) {
    if (status_.ok()) status_ = std::move(s);
  }

  Status status_;
  uint64_t order_ = 0;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::vector<std::function<void(double)>> calls_;
  std::vector<std::unique_ptr<SimulatedStep>> steps_;
  size_t steps_alive_ = 0;
  std::vector<Message> messages_;
  std::vector<size_t> free_messages_;
  std::vector<LongKernel> kernels_;
  std::vector<Tensor> no_reads_ = std::vector<Tensor>(64);

  // The current turn of a driver.
  StepInTask* turn_ = nullptr;
  SimulatedStep* ended_ = nullptr;  // In this turn.
  double turn_start_ = 0;
  double spent_ = 0;         // So far.
  double turn_compute_ = 0;  // Of it, in kernels.
  const Node* turn_node_ = nullptr;
  double turn_node_ns_ = 0;
  int turn_piece_ = kNoCause;
  std::vector<std::pair<StepInTask*, std::vector<Mail>>> outgoing_;
  std::vector<Mail> local_;
  std::vector<std::pair<double, size_t>> leaving_;

  friend class Simulator;
};

// ---- Steps ------------------------------------------------------------------

// The client's request and the master's work take a core of the master's
// machine; then the master sends a message to every task of the step.
void Simulator::Impl::Begin(double now, Start start) {
  auto owned = std::make_unique<SimulatedStep>();
  SimulatedStep& step = *owned;
  step.start = std::move(start);
  step.number = steps_.size();
  const StepProgram& program = *step.start.program;
  std::unordered_map<int, int> places;
  const auto place_of = [&](int task) {
    const auto [it, fresh] =
        places.try_emplace(task, static_cast<int>(step.tasks.size()));
    if (fresh) {
      auto t = std::make_unique<StepInTask>();
      t->step = &step;
      t->task = task;
      step.tasks.push_back(std::move(t));
    }
    return it->second;
  };
  place_of(step.start.master);
  for (size_t p = 0; p < program.parts.size(); ++p) {
    const SimulatedPart& part = program.parts[p];
    const int device =
        step.start.devices.empty() ? part.device : step.start.devices[p];
    const int place = place_of(Model(device).task);
    StepInTask* const t = step.tasks[static_cast<size_t>(place)].get();
    t->parts.push_back(static_cast<int>(p));
    step.task_of_part.push_back(place);
    step.parts.push_back(std::make_unique<PartRun>(part, t, device));
  }
  step.tasks_left = static_cast<int>(step.tasks.size());
  steps_.push_back(std::move(owned));
  ++steps_alive_;
  Mail begin;
  begin.kind = Mail::kBegin;
  StepInTask* const master = step.tasks[0].get();
  master->inbox.push_back(std::move(begin));
  Wake(master, now);
}

void Simulator::Impl::FinishTask(StepInTask* t) {
  if (t->ended || !t->begun) return;
  for (const int p : t->parts) {
    const PartRun& run = *t->step->parts[static_cast<size_t>(p)];
    if (run.running > 0 || run.rendezvous.waiting() > 0) return;
  }
  t->ended = true;
  Mail done;
  done.kind = Mail::kTaskDone;
  StepInTask* const master = t->step->tasks[0].get();
  if (master == t) {
    local_.push_back(std::move(done));
  } else {
    Queue(master, std::move(done));
  }
}

// ---- Cores ------------------------------------------------------------------

void Simulator::Impl::Wake(StepInTask* t, double now) {
  if (t->scheduled) return;
  t->scheduled = true;
  t->ready_at = now;
  Machine& m = MachineOf(t->task);
  m.queue.emplace_back(t, 0);
  GiveCores(m, now);
}

void Simulator::Impl::GiveCores(Machine& m, double now) {
  while (m.idle > 0 && !m.queue.empty()) {
    const auto [t, kernel] = m.queue.front();
    m.queue.pop_front();
    --m.idle;
    if (t != nullptr) {
      Turn(t, now);
      continue;
    }
    const LongKernel& k = kernels_[kernel];
    // (Its driver may not have come to it yet.)
    const double begin = std::max(now, k.ready_at);
    m.busy += k.ns;
    devices_[static_cast<size_t>(k.run->device)].busy += k.ns;
    kernels_[kernel].cause = AddPiece({.ready = k.ready_at,
                                       .start = begin,
                                       .end = begin + k.ns,
                                       .compute = k.ns,
                                       .cause = k.cause,
                                       .kind = PieceKind::kKernel,
                                       .where = k.run->device,
                                       .node = k.ready.node->node,
                                       .node_ns = k.ns});
    Trace(*k.run, k.ready, begin, begin + k.ns);
    Post(begin + k.ns, Event::kKernelEnds, kernel);
  }
}

// Everything that the driver does while it has the core; the time it takes is
// known at the end.
void Simulator::Impl::Turn(StepInTask* t, double now) {
  turn_ = t;
  turn_start_ = now;
  spent_ = turn_compute_ = turn_node_ns_ = 0;
  turn_node_ = nullptr;
  const int cause = t->inbox.empty() ? kNoCause : t->inbox[0].cause;
  turn_piece_ = AddPiece({.ready = t->ready_at,
                          .start = now,
                          .cause = cause,
                          .where = t->task,
                          .to = t->task});
  std::vector<Mail> mail;
  while (status_.ok()) {
    mail.clear();
    std::swap(mail, t->inbox);
    if (mail.empty()) std::swap(mail, local_);
    if (mail.empty()) {
      FinishTask(t);
      if (local_.empty()) break;
      continue;
    }
    for (Mail& m : mail) Handle(m, t);
    for (const int p : t->parts)
      if (t->begun) RunReady(*t->step->parts[static_cast<size_t>(p)]);
  }
  Flush();
  const double end = now + spent_;
  if (turn_piece_ != kNoCause) {
    Piece& piece = pieces_[static_cast<size_t>(turn_piece_)];
    piece.end = end;
    piece.compute = turn_compute_;
    piece.node = turn_node_;
    piece.node_ns = turn_node_ns_;
  }
  MachineOf(t->task).busy += spent_;
  for (const auto& [at, message] : leaving_) Post(at, Event::kLeaves, message);
  leaving_.clear();
  Post(end, Event::kTurnEnds, 0, t);
  turn_ = nullptr;
  if (SimulatedStep* const step = std::exchange(ended_, nullptr))
    At(end, [this, step](double at) {  // After the end of this turn.
      const std::function<void(double)> done = std::move(step->start.done);
      steps_[step->number] = nullptr;  // Destroys it.
      if (done) done(at);
    });
}

void Simulator::Impl::Handle(Mail& m, StepInTask* t) {
  SimulatedStep& step = *t->step;
  if (m.first_of_message) spent_ += costs().receive_ns;
  spent_ += m.bytes / costs().copy_bytes_per_s * 1e9;
  switch (m.kind) {
    case Mail::kBegin:
      if (t == step.tasks[0].get()) {
        spent_ += costs().step_ns;
        for (size_t i = 1; i < step.tasks.size(); ++i) {
          Mail begin;
          begin.kind = Mail::kBegin;
          Queue(step.tasks[i].get(), std::move(begin));
        }
        Flush();
      }
      spent_ += costs().task_ns;
      t->begun = true;
      for (const int p : t->parts) {
        PartRun& run = *step.parts[static_cast<size_t>(p)];
        run.tokens.Start();
        for (const PlanNode* arg : run.part->plan->args)
          if (arg != nullptr) run.tokens.Feed(arg->aux, Tensor());
      }
      return;
    case Mail::kTaskDone:
      if (--step.tasks_left > 0) return;
      --steps_alive_;
      last_piece_ = turn_piece_;
      ended_ = &step;
      return;
    case Mail::kKernelDone: {
      PartRun& run = *step.parts[static_cast<size_t>(m.part)];
      --run.running;
      run.tokens.Complete(m.ready);
      return;
    }
    case Mail::kToken:
      spent_ += costs().token_ns;
      Arrived(*step.parts[static_cast<size_t>(m.part)], m.token);
      return;
  }
}

// ---- Nodes ------------------------------------------------------------------

void Simulator::Impl::RunReady(PartRun& run) {
  ReadyList& ready = run.tokens.ready();
  while (!ready.empty() && status_.ok()) {
    const Ready r = ready.back();
    ready.pop_back();
    ++count_;
    RunNode(run, r);
  }
}

void Simulator::Impl::RunNode(PartRun& run, Ready r) {
  const PlanNode& n = *r.node;
  const bool dead = Tokens::IsDead(r);
  spent_ += costs().node_ns;
  switch (n.role) {
    case OpRole::kCompute:
      if (dead)
        run.tokens.CompleteDead(r);
      else
        Compute(run, r);
      return;
    case OpRole::kRetval:
      run.tokens.Complete(r);
      return;
    case OpRole::kSend:
      Send(run, r, dead);
      return;
    case OpRole::kRecv: {
      TokenMessage m;
      const auto outcome = run.rendezvous.Await(n.aux, Tokens::TagOf(r), r, &m);
      if (outcome == Rendezvous::Outcome::kMatched) Deliver(run, r, m);
      if (outcome == Rendezvous::Outcome::kRepeated)
        Fail(Internal("simulation: expected one Recv of a token, got two; ",
                      n.node->Describe()));
      return;
    }
    default:
      break;
  }
  if (n.num_reads > no_reads_.size()) no_reads_.resize(n.num_reads);
  if (n.role == OpRole::kSwitch && !dead) {
    // A predicate that is not known.
    const InputRef ref = run.part->plan->inputs[n.first_input + 1];
    if (ref.table == InputRef::kLocal) {
      for (size_t i = 0; i < n.num_reads; ++i)
        no_reads_[i] = Tensor::Scalar(true);
    } else if (Tensor& p = r.iteration->tables[ref.table][ref.index];
               p.dtype() != DType::kBool || p.num_elements() != 1) {
      p = Tensor::Scalar(true);
    }
  }
  if (const Status s = run.tokens.Move(r, no_reads_.data()); !s.ok()) Fail(s);
}

double Simulator::Impl::KernelNs(const PartRun& run, const PlanNode& n,
                                 const SimulatedNode& s) const {
  const DeviceModel& device = Model(run.device);
  double ns;
  switch (n.node->kind()) {
    case OpKind::kCopyFromDevice:
    case OpKind::kCopyToDevice:
    case OpKind::kCopyFromPeer:
      ns = s.out_bytes / device.peer_bytes_per_s * 1e9;
      break;
    default:
      ns = s.work.NsOn(device);
  }
  if (!device.is_cpu()) ns += device.launch_ns;
  const Start& start = run.owner->step->start;
  if (start.slow_task < 0 || start.slow_task == run.owner->task)
    ns *= start.slowdown;
  return ns;
}

void Simulator::Impl::Compute(PartRun& run, Ready r) {
  const PlanNode& n = *r.node;
  const SimulatedNode& s =
      run.part
          ->nodes[static_cast<size_t>(r.node - run.part->plan->nodes.data())];
  SetOutputs(run, r, s);
  const double ns = KernelNs(run, n, s);
  const DeviceModel& device = Model(run.device);
  spent_ += costs().kernel_ns;
  LongKernel kernel{&run, r, ns, turn_piece_, turn_start_ + spent_};
  if (!device.is_cpu() && ns > 0) {
    // The device takes it when it is free.
    DeviceState& state = devices_[static_cast<size_t>(run.device)];
    const double start = std::max(state.free, kernel.ready_at);
    state.free = start + ns;
    state.busy += ns;
    kernel.cause = AddPiece({.ready = kernel.ready_at,
                             .start = start,
                             .end = state.free,
                             .compute = ns,
                             .cause = turn_piece_,
                             .kind = PieceKind::kKernel,
                             .where = run.device,
                             .node = n.node,
                             .node_ns = ns});
    Trace(run, r, start, state.free);
    ++run.running;
    kernels_.push_back(kernel);
    Post(state.free, Event::kKernelEnds, kernels_.size() - 1);
    return;
  }
  if (ns > kOffloadAbove) {
    Flush();
    Machine& m = MachineOf(run.owner->task);
    if (!run.tokens.ready().empty()) {
      ++run.running;
      kernels_.push_back(kernel);
      m.queue.emplace_back(nullptr, kernels_.size() - 1);
      // (It may begin when this turn has come that far; a core that is idle
      // takes it at the end of the event.)
      Post(kernel.ready_at, Event::kTurnEnds, 1, run.owner);
      return;
    }
  }
  Trace(run, r, turn_start_ + spent_, turn_start_ + spent_ + ns);
  spent_ += ns;
  turn_compute_ += ns;
  if (ns > turn_node_ns_) {
    turn_node_ns_ = ns;
    turn_node_ = n.node;
  }
  devices_[static_cast<size_t>(run.device)].busy += ns;
  run.tokens.Complete(r);
}

void Simulator::Impl::SetOutputs(const PartRun& run, Ready r,
                                 const SimulatedNode& s) {
  const PlanNode& n = *r.node;
  Tensor* const out = Tokens::OutputSlots(r);
  for (uint32_t i = 0; i < n.num_outputs; ++i) out[i] = Tensor();
  if (s.evaluate) {
    std::vector<Tensor> inputs;
    bool known = true;
    for (uint32_t i = 0; i < n.num_inputs && known; ++i) {
      const InputRef ref = run.part->plan->inputs[n.first_input + i];
      known = ref.table != InputRef::kLocal;
      if (!known) break;
      const Tensor& t = r.iteration->tables[ref.table][ref.index];
      known = t.valid() && t.dtype() == n.node->input_type(static_cast<int>(i));
      if (known) inputs.push_back(t);
    }
    if (known) {
      Result<std::vector<Tensor>> made = RunKernel(*n.node, std::move(inputs));
      if (made.ok() && made->size() == n.num_outputs) {
        for (uint32_t i = 0; i < n.num_outputs; ++i)
          out[i] = std::move((*made)[i]);
        return;
      }
    }
  }
  if (s.iterations >= 0)
    out[0] = Tensor::Scalar(r.iteration->index < s.iterations);
}

// ---- Tokens -----------------------------------------------------------------

void Simulator::Impl::Send(PartRun& run, Ready r, bool dead) {
  const PlanNode& n = *r.node;
  const PlanSend to = run.part->plan->sends[n.aux];
  Mail mail;
  mail.token.tag = Tokens::TagOf(r);
  mail.token.dead = mail.token.group = dead;
  mail.token.edge = dead ? to.group : to.edge;
  mail.part = static_cast<int>(to.destination);
  mail.cause = turn_piece_;
  if (!dead && n.num_inputs > 0) {
    const InputRef ref = run.part->plan->inputs[n.first_input];
    if (ref.table != InputRef::kLocal)
      mail.token.value = r.iteration->tables[ref.table][ref.index];
    mail.bytes =
        run.part
            ->nodes[static_cast<size_t>(r.node - run.part->plan->nodes.data())]
            .out_bytes;
  }
  run.tokens.Complete(r);
  if (dead && !to.leads_group) return;
  transfers_ += !dead;
  spent_ += costs().token_ns;
  SimulatedStep& step = *run.owner->step;
  if (to.destination >= step.parts.size()) return;  // A staged fetch.
  StepInTask* const receiver = step.parts[to.destination]->owner;
  if (receiver == run.owner) {
    mail.bytes = 0;  // Passed on as it is.
    local_.push_back(std::move(mail));
  } else {
    Queue(receiver, std::move(mail));
  }
}

void Simulator::Impl::Deliver(PartRun& run, Ready r, TokenMessage& m) {
  if (m.dead) {
    run.tokens.CompleteDead(r);
    return;
  }
  if (r.node->num_outputs > 0) *Tokens::OutputSlots(r) = std::move(m.value);
  run.tokens.Complete(r);
}

void Simulator::Impl::Arrived(PartRun& run, TokenMessage& m) {
  const auto one = [&](uint32_t edge) {
    Ready r;
    if (run.rendezvous.Arrive(edge, m, &r) == Rendezvous::Outcome::kMatched)
      Deliver(run, r, m);
  };
  if (!m.group) {
    one(m.edge);
    return;
  }
  const auto& groups = run.part->plan->dead_groups;
  if (m.edge < groups.size())
    for (const uint32_t edge : groups[m.edge]) one(edge);
}

// ---- Messages ---------------------------------------------------------------

void Simulator::Impl::Queue(StepInTask* to, Mail mail) {
  if (to->outgoing < 0) {
    to->outgoing = static_cast<int>(outgoing_.size());
    outgoing_.emplace_back(to, std::vector<Mail>());
  }
  outgoing_[static_cast<size_t>(to->outgoing)].second.push_back(
      std::move(mail));
}

// The messages of the turn leave.
void Simulator::Impl::Flush() {
  for (auto& [to, mail] : outgoing_) {
    to->outgoing = -1;
    size_t slot;
    if (free_messages_.empty()) {
      slot = messages_.size();
      messages_.emplace_back();
    } else {
      slot = free_messages_.back();
      free_messages_.pop_back();
    }
    Message& m = messages_[slot];
    m.from = turn_->task;
    m.to = to->task;
    m.receiver = to;
    m.bytes = 0;
    for (const Mail& one : mail) m.bytes += kTokenBytes + one.bytes;
    mail[0].first_of_message = true;
    m.mail = std::move(mail);
    spent_ += costs().send_ns + m.bytes / costs().copy_bytes_per_s * 1e9;
    bytes_sent_[static_cast<size_t>(m.from)] += m.bytes;
    leaving_.emplace_back(turn_start_ + spent_, slot);
  }
  outgoing_.clear();
}

void Simulator::Impl::Leave(size_t slot, double now) {
  Message& m = messages_[slot];
  double start = now, arrives = now + costs().hop_ns;
  const int from = cluster_.tasks[static_cast<size_t>(m.from)].machine;
  const int to = cluster_.tasks[static_cast<size_t>(m.to)].machine;
  if (from != to) {
    Machine& a = machines_[static_cast<size_t>(from)];
    Machine& b = machines_[static_cast<size_t>(to)];
    const MachineModel& sender = cluster_.machines[static_cast<size_t>(from)];
    const MachineModel& receiver = cluster_.machines[static_cast<size_t>(to)];
    const double out = m.bytes / sender.bytes_per_s * 1e9;
    const double in = m.bytes / receiver.bytes_per_s * 1e9;
    const double apart = costs().hop_ns + sender.latency_ns;
    a.out_busy += out;
    b.in_busy += in;
    if (m.bytes >= kSmallMessage) start = std::max(now, a.out_free);
    a.out_free = std::max(a.out_free, start) + out;
    // The receiver's interface takes it while the sender's sends it.
    double begins = start + apart;
    if (m.bytes >= kSmallMessage) begins = std::max(begins, b.in_free);
    b.in_free = std::max(b.in_free, begins) + in;
    arrives = std::max(start + out + apart, begins + in);
  }
  if (options_.critical_path) {
    const int cause = AddPiece({.ready = now,
                                .start = start,
                                .end = arrives,
                                .cause = m.mail[0].cause,
                                .kind = PieceKind::kMessage,
                                .where = m.from,
                                .to = m.to});
    for (Mail& one : m.mail) one.cause = cause;
  }
  Post(arrives, Event::kArrives, slot);
}

void Simulator::Impl::Arrive(size_t slot, double now) {
  StepInTask* const t = messages_[slot].receiver;
  for (Mail& one : messages_[slot].mail) t->inbox.push_back(std::move(one));
  messages_[slot].mail.clear();
  free_messages_.push_back(slot);
  Wake(t, now);
}

void Simulator::Impl::KernelEnds(size_t index, double now) {
  const LongKernel& k = kernels_[index];
  StepInTask* const t = k.run->owner;
  Mail done;
  done.kind = Mail::kKernelDone;
  done.part =
      static_cast<int>(k.run->part - t->step->start.program->parts.data());
  done.ready = k.ready;
  done.cause = k.cause;
  t->inbox.push_back(std::move(done));
  if (Model(k.run->device).is_cpu()) {
    Machine& m = MachineOf(t->task);
    ++m.idle;
    GiveCores(m, now);
  }
  Wake(t, now);
}

Status Simulator::Impl::Run() {
  while (!events_.empty() && status_.ok()) {
    if (++count_ > options_.max_events)
      return ResourceExhausted("simulation: expected at most ",
                               options_.max_events, " events, got more");
    const Event e = events_.top();
    events_.pop();
    now_ = e.at;
    switch (e.kind) {
      case Event::kCall: {
        const std::function<void(double)> call = std::move(calls_[e.index]);
        call(e.at);
        break;
      }
      case Event::kTurnEnds: {
        Machine& m = MachineOf(e.task->task);
        if (e.index == 0) {
          ++m.idle;
          e.task->scheduled = false;
          if (!e.task->inbox.empty()) Wake(e.task, e.at);
        }
        GiveCores(m, e.at);
        break;
      }
      case Event::kKernelEnds:
        KernelEnds(e.index, e.at);
        break;
      case Event::kLeaves:
        Leave(e.index, e.at);
        break;
      case Event::kArrives:
        Arrive(e.index, e.at);
        break;
    }
  }
  if (status_.ok() && steps_alive_ > 0) {
    std::string waits;
    for (const auto& step : steps_) {
      if (step == nullptr) continue;
      for (const auto& run : step->parts) {
        absl::StrAppend(&waits, "; on ", Model(run->device).name.ToString(),
                        ": ", run->rendezvous.Describe(3),
                        run->tokens.DescribeWaiting(3));
        if (waits.size() > 2000) break;
      }
    }
    return Internal("simulation: expected every step to end, got ",
                    steps_alive_, " that wait", waits);
  }
  return status_;
}

void Simulator::Impl::Trace(const PartRun& run, Ready r, double start,
                            double end) {
  if (!options_.trace || end <= start) return;
  TraceEvent e;
  e.node = r.node->node->name();
  e.op = r.node->node->op_name();
  e.device = Model(run.device).name.ToString();
  e.start_ns = static_cast<int64_t>(start);
  e.end_ns = static_cast<int64_t>(end);
  e.iteration = r.iteration->index;
  e.frame = r.iteration->frame->plan->name;
  trace_.push_back(std::move(e));
}

// ---- Interface --------------------------------------------------------------

Simulator::Simulator(ClusterModel cluster, SimulatorOptions options)
    : impl_(std::make_unique<Impl>(std::move(cluster), options)) {}
Simulator::~Simulator() = default;

void Simulator::StartStep(double at_ns, Start start) {
  impl_->StartStep(at_ns, std::move(start));
}
void Simulator::At(double at_ns, std::function<void(double)> call) {
  impl_->At(at_ns, std::move(call));
}
Status Simulator::Run() { return impl_->Run(); }
double Simulator::now() const { return impl_->now_; }
int64_t Simulator::events() const { return impl_->count_; }
int64_t Simulator::transfers() const { return impl_->transfers_; }
double Simulator::DeviceBusy(int device) const {
  return impl_->devices_[static_cast<size_t>(device)].busy;
}
double Simulator::CoresBusy(int machine) const {
  return impl_->machines_[static_cast<size_t>(machine)].busy;
}
double Simulator::NetworkBusy(int machine) const {
  const auto& m = impl_->machines_[static_cast<size_t>(machine)];
  return std::max(m.out_busy, m.in_busy);
}
double Simulator::BytesSent(int task) const {
  return impl_->bytes_sent_[static_cast<size_t>(task)];
}
std::vector<TraceEvent> Simulator::TakeTrace() {
  return std::move(impl_->trace_);
}

CriticalPath Simulator::LastCriticalPath() const {
  using Piece = Impl::Piece;
  using PieceKind = Impl::PieceKind;
  CriticalPath path;
  const auto& all = impl_->pieces_;
  const auto task_name = [&](int t) {
    const TaskModel& task = impl_->cluster_.tasks[static_cast<size_t>(t)];
    return absl::StrCat(task.job, ":", task.task);
  };
  std::unordered_map<std::string, double> sums;
  double later = 0;  // When the piece that this one caused became ready.
  for (int at = impl_->last_piece_; at != kNoCause;) {
    const Piece& p = all[static_cast<size_t>(at)];
    const double end = later > 0 ? std::min(p.end, later) : p.end;
    const double length = std::max(0.0, end - p.start);
    path.waiting += p.start - p.ready;
    if (p.kind == PieceKind::kMessage) {
      path.transfer += length;
      sums[absl::StrCat("transfer ", task_name(p.where), " -> ",
                        task_name(p.to))] += length;
    } else {
      const double compute = std::min(p.compute, length);
      path.compute += compute;
      path.runtime += length - compute;
      if (p.node != nullptr)
        sums[absl::StrCat("kernel ", p.node->name(), " (", p.node->op_name(),
                          ")")] += std::min(p.node_ns, compute);
      if (p.kind == PieceKind::kTurn)
        sums[absl::StrCat("runtime of ", task_name(p.where))] +=
            length - compute;
    }
    later = p.ready;
    at = p.cause;
  }
  path.longest.assign(sums.begin(), sums.end());
  std::sort(path.longest.begin(), path.longest.end(),
            [](const auto& a, const auto& b) {
              return a.second != b.second ? a.second > b.second
                                          : a.first < b.first;
            });
  if (path.longest.size() > 8) path.longest.resize(8);
  return path;
}

}  // namespace sluice
