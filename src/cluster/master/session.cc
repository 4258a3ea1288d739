#include "cluster/master/session.h"

#include <algorithm>
#include <set>
#include <thread>

#include "base/failpoint.h"
#include "cluster/worker/local_stub.h"
#include "exec/core/device.h"
#include "graph/frames.h"
#include "graph/graphdef.h"
#include "passes/properties.h"
#include "session/compile.h"

namespace sluice {
namespace {

// Exchanges with a clock per reading. The best of a few is rarely delayed.
constexpr int kClockExchanges = 8;
constexpr int64_t kClockPatienceMs = 1000;
// After a task has not answered for this long, check whether it has moved. (If
// the connection is refused, this happens sooner.)
constexpr std::chrono::milliseconds kMovePatience{3000};
// The limit for a cluster named by a client: each task takes a thread while it
// is queried.
constexpr int kMaxTasks = 1024;

Result<ClusterSpec> ClusterOf(const proto::CreateSessionRequest& request) {
  if (request.task_size() > kMaxTasks)
    return InvalidArgument("cluster: expected at most ", kMaxTasks,
                           " tasks of a session's own, got ",
                           request.task_size());
  ClusterSpec cluster;
  for (const proto::SessionTask& t : request.task())
    SLUICE_RETURN_IF_ERROR(cluster.Add(t.job(), t.number(), t.address()));
  return cluster;
}

// The device's name with another task's name.
Result<std::string> WithTask(const std::string& device,
                             const std::string& task) {
  SLUICE_ASSIGN_OR_RETURN(DeviceName name, DeviceName::Parse(device));
  SLUICE_ASSIGN_OR_RETURN(const DeviceName of, DeviceName::Parse(task));
  name.job = of.job;
  name.replica = of.replica;
  name.task = of.task;
  return name.ToString();
}

}  // namespace

Status ForAllTasks(size_t n, const std::function<Status(size_t)>& fn) {
  std::vector<Status> results(n);
  std::vector<std::thread> threads;
  for (size_t i = 1; i < n; ++i)
    threads.emplace_back([&results, &fn, i] { results[i] = fn(i); });
  if (n > 0) results[0] = fn(0);
  for (std::thread& t : threads) t.join();
  for (const Status& s : results) SLUICE_RETURN_IF_ERROR(s);
  return OkStatus();
}

MasterSession::MasterSession(const MasterContext* context, uint64_t id,
                             const proto::CreateSessionRequest& options,
                             const std::string& host)
    : context_(context), id_(id), options_(options), host_(host) {}

MasterSession::~MasterSession() = default;

Status MasterSession::Open() {
  SLUICE_ASSIGN_OR_RETURN(const TaskFilter uses, UsedTasks());
  SLUICE_ASSIGN_OR_RETURN(
      const ClusterSpec cluster,
      own_cluster() ? ClusterOf(options_) : context_->Members(uses));
  for (const ClusterTask& t : cluster.tasks()) {
    if (!uses(t.job, t.task)) continue;
    Task task;
    task.where = t;
    if (!own_cluster() && t.name() == context_->worker->task()) {
      task.stub = LocalWorkerStub(context_->worker);
    } else {
      SLUICE_ASSIGN_OR_RETURN(task.stub, context_->connect(t));
    }
    tasks_.push_back(std::move(task));
  }
  SLUICE_RETURN_IF_ERROR(ForAllTasks(tasks_.size(), [this](size_t i) {
    Task& t = tasks_[i];
    const Status s = QueryStatus(&t);
    if (!s.ok())
      return Annotate(
          s, absl::StrCat("task ", t.where.name(), " at ", t.where.address));
    if (!own_cluster() && t.status.task() != t.where.name())
      return FailedPrecondition("address ", t.where.address, ": expected task ",
                                t.where.name(), ", got ", t.status.task());
    return OkStatus();
  }));
  SLUICE_RETURN_IF_ERROR(FindThisTask());
  clocks_.resize(tasks_.size());
  proto::CreateWorkerSessionRequest request;
  request.set_session(id_);
  request.set_isolated(options_.isolated());
  for (const Task& t : tasks_) {
    proto::TaskAddress* a = request.add_task();
    a->set_task(t.status.task());
    a->set_transport_address(t.status.transport_address());
    a->set_incarnation(t.status.incarnation());
    if (IsHere(t)) *request.mutable_master() = *a;
  }
  for (Task& t : tasks_) {
    if (!IsHere(t)) {
      SLUICE_ASSIGN_OR_RETURN(
          t.peer, context_->transport->Connect({t.status.task(),
                                                t.status.transport_address(),
                                                t.status.incarnation()}));
    }
    for (proto::DeviceProto& d : *t.status.mutable_device()) {
      SLUICE_ASSIGN_OR_RETURN(*d.mutable_name(),
                              WithTask(d.name(), t.where.name()));
      PlaceableDevice p;
      SLUICE_ASSIGN_OR_RETURN(p.name, DeviceName::Parse(d.name()));
      p.has_kernel = [type = p.name.type, worker = context_->worker,
                      host_memory = d.host_memory()](const Node& node) {
        // (Checking would create the kernel here, and a kernel that accesses
        // the host may only be created where that is allowed. The task that
        // runs it decides.)
        const HostReachFn reach = node.op().host_reach;
        if (reach != nullptr && !worker->allows_host_access() &&
            !reach(node).empty())
          return host_memory && node.op().kernel
                     ? OkStatus()
                     : Unimplemented("no kernel: expected an op that ", type,
                                     " devices compute, got ", node.op_name());
        return HasKernel(type, node);
      };
      devices_.push_back(std::move(p));
    }
  }
  return ForAllTasks(tasks_.size(), [&](size_t i) {
    proto::CreateWorkerSessionRequest mine = request;
    mine.set_incarnation(tasks_[i].status.incarnation());
    mine.set_name(tasks_[i].where.name());
    return Annotate(tasks_[i].stub->CreateSession(mine),
                    tasks_[i].where.name());
  });
}

Result<TaskFilter> MasterSession::UsedTasks() const {
  if (options_.device_filter().empty()) return TaskFilter(AllTasks);
  std::vector<DeviceName> filters;
  for (const std::string& text : options_.device_filter()) {
    Result<DeviceName> filter = DeviceName::Parse(text);
    if (!filter.ok()) return Annotate(filter.status(), "device filter");
    filters.push_back(filter->Task());
  }
  // (A session's own names: which of them is this task's is not known yet.)
  if (!own_cluster()) {
    SLUICE_ASSIGN_OR_RETURN(const DeviceName here,
                            DeviceName::Parse(context_->worker->task()));
    filters.push_back(here.Task());
  }
  return TaskFilter([filters](const std::string& job, int task) {
    DeviceName name;
    name.job = job;
    name.replica = 0;
    name.task = task;
    return std::any_of(filters.begin(), filters.end(),
                       [&](const DeviceName& f) { return f.Matches(name); });
  });
}

bool MasterSession::IsHere(const Task& task) const {
  return task.status.incarnation() == context_->worker->incarnation();
}

Status MasterSession::FindThisTask() {
  std::map<uint64_t, const Task*> by_incarnation;
  for (Task& t : tasks_) {
    const auto [it, alone] = by_incarnation.emplace(t.status.incarnation(), &t);
    if (!alone)
      return InvalidArgument("cluster: expected a server for each task, got ",
                             "one for ", it->second->where.name(), " at ",
                             it->second->where.address, " and ", t.where.name(),
                             " at ", t.where.address);
    if (!IsHere(t)) continue;
    this_task_ = t.where.name();
    t.stub = LocalWorkerStub(context_->worker);
  }
  if (!this_task_.empty()) return OkStatus();
  std::string names;
  for (const Task& t : tasks_)
    if (names.size() < 300)
      absl::StrAppend(&names, names.empty() ? "" : ", ", t.where.name(), " at ",
                      t.where.address);
  return InvalidArgument(
      "cluster: expected the server that the session connects to among its "
      "tasks",
      options_.device_filter().empty() ? "" : " and device filters", ", got ",
      names);
}

Status MasterSession::QueryStatus(Task* task) {
  using Clock = std::chrono::steady_clock;
  if (!context_->members || own_cluster() ||
      task->where.name() == context_->worker->task())
    return task->stub->GetStatus({}, &task->status);
  const auto end = Clock::now() + context_->connect_timeout;
  const std::chrono::milliseconds patience =
      std::min(context_->connect_timeout, kMovePatience);
  proto::GetStatusRequest ask;
  ask.set_patience_ms(std::max<int64_t>(patience.count(), 1));
  for (;;) {
    const auto began = Clock::now();
    const Status s = task->stub->GetStatus(ask, &task->status);
    const auto now = Clock::now();
    // (An error before the timeout is not silence.)
    if (s.ok() || now - began < patience * 9 / 10) return s;
    if (now >= end)
      return Unavailable("expected an answer within ",
                         context_->connect_timeout.count(),
                         " ms, got none; at last: ", s.message());
    // A dead task is listed until its lease expires; then another may take its
    // place.
    const Result<ClusterSpec> members = context_->Members(nullptr);
    if (!members.ok()) continue;
    const auto there = members->Find(task->where.job, task->where.task);
    if (!there.ok() || there->address == task->where.address) continue;
    task->where = *there;
    SLUICE_ASSIGN_OR_RETURN(task->stub, context_->connect(*there));
  }
}

Status MasterSession::Extend(std::string_view graph_def) {
  std::lock_guard<std::mutex> lock(mu_);
  return graph_.Extend(graph_def);
}

int MasterSession::TaskOf(const std::string& device) const {
  const Result<DeviceName> name = DeviceName::Parse(device);
  if (!name.ok()) return -1;
  for (size_t i = 0; i < tasks_.size(); ++i)
    if (name->Task().ToString() == tasks_[i].where.name())
      return static_cast<int>(i);
  return -1;
}

Result<Partitions> MasterSession::Split(const Graph& graph,
                                        const StepSignature& signature,
                                        bool staged,
                                        std::vector<std::string>* targets,
                                        std::vector<Placement>* log) {
  SLUICE_ASSIGN_OR_RETURN(
      OptimizedStep step,
      OptimizeStep(graph, signature, options_.constant_folding(),
                   options_.common_subexpressions()));
  for (const Node* n : step.targets) targets->push_back(n->name());
  PlacementOptions placement;
  placement.devices = devices_;
  SLUICE_ASSIGN_OR_RETURN(placement.default_device,
                          DeviceName::Parse(this_task_));
  placement.soft_placement = options_.soft_placement();
  placement.state = &state_devices_;
  placement.whole = &graph;
  placement.log = log;
  SLUICE_RETURN_IF_ERROR(Place(step.graph.get(), placement));
  SLUICE_RETURN_IF_ERROR(
      CheckAfter("Place", *step.graph, kConnected | kLowered | kPlaced));
  std::set<std::string> own_memory;
  for (const Task& t : tasks_)
    for (const proto::DeviceProto& d : t.status.device())
      if (!d.host_memory()) own_memory.insert(d.name());
  PartitionOptions partition;
  partition.staged = staged;
  partition.has_own_memory = [&own_memory](const std::string& device) {
    return own_memory.contains(device);
  };
  return Partition(*step.graph, partition);
}

Status MasterSession::Register(const Partitions& parts,
                               const std::vector<std::string>& targets,
                               bool traced, const OpenEnds* ends,
                               PreparedStep* step) {
  std::vector<proto::RegisterStepRequest> requests(tasks_.size());
  std::vector<uint32_t> task_of;
  std::map<size_t, PreparedStep::Part> by_task;
  for (size_t i = 0; i < parts.graphs.size(); ++i) {
    const int task = TaskOf(parts.devices[i]);
    if (task < 0)
      return Internal("partition: expected a device of a task, got '",
                      parts.devices[i], "'");
    const auto t = static_cast<size_t>(task);
    task_of.push_back(static_cast<uint32_t>(t));
    const Graph& g = *parts.graphs[i];
    auto* p = requests[t].add_partition();
    p->set_number(static_cast<uint32_t>(i));
    SLUICE_ASSIGN_OR_RETURN(
        *p->mutable_device(),
        WithTask(parts.devices[i], tasks_[t].status.task()));
    SLUICE_ASSIGN_OR_RETURN(*p->mutable_graph_def(), ExportGraphDef(g));
    for (const std::string& name : targets)
      if (g.FindNode(name) != nullptr) p->add_target(name);
    PreparedStep::Part& mine = by_task[t];
    mine.task = tasks_[t].where.name();
    mine.peer = tasks_[t].peer;
    if (ends != nullptr) {
      for (size_t f = 0; f < ends->fetches.size(); ++f)
        if (ends->fetches[f] == i)
          mine.fetches.push_back(static_cast<uint32_t>(f));
      continue;
    }
    for (const auto& n : g.nodes()) {
      if (!FunctionOf(*n).empty()) continue;  // Not the step's.
      if (n->op().role == OpRole::kArg)
        mine.args.push_back(static_cast<uint32_t>(n->IntAttr("index")));
      if (n->op().role == OpRole::kRetval) {
        mine.fetches.push_back(static_cast<uint32_t>(n->IntAttr("index")));
        requests[t].add_fetch(mine.fetches.back());
      }
    }
    std::sort(mine.args.begin(), mine.args.end());
    mine.args.erase(std::unique(mine.args.begin(), mine.args.end()),
                    mine.args.end());
  }
  std::vector<size_t> involved;
  if (ends != nullptr)
    for (const OpenEnds::Entry& e : ends->feeds) {
      if (e.partition == OpenEnds::kNowhere) {
        step->entries.emplace_back();
        continue;
      }
      const auto part =
          std::distance(by_task.begin(), by_task.find(task_of[e.partition]));
      step->entries.push_back({static_cast<int>(part), e.partition, e.edge});
    }
  for (const auto& [t, part] : by_task) {
    involved.push_back(t);
    step->parts.push_back(part);
    proto::RegisterStepRequest& r = requests[t];
    r.set_session(id_);
    r.set_step(step->step);
    r.mutable_task()->Assign(task_of.begin(), task_of.end());
    r.set_staged(step->staged);
    r.set_fusion(options_.fusion() && !step->staged);
    r.set_regions(options_.regions() && !traced && !step->staged &&
                  options_.scheduler_seed() == 0);
    r.set_max_call_depth(options_.max_call_depth());
    r.set_scheduler_seed(options_.scheduler_seed());
  }
  std::vector<uint8_t> knows(involved.size(), 0);
  const Status registered = ForAllTasks(involved.size(), [&](size_t i) {
    const Task& task = tasks_[involved[i]];
    Status s = task.peer == kThisTask ? OkStatus()
                                      : context_->transport->Lost(task.peer);
    if (s.ok()) s = task.stub->RegisterStep(requests[involved[i]]);
    knows[i] = s.ok();
    // (Errors of the step name the node; errors of the task must name the
    // task.)
    return s.code() == StatusCode::kUnavailable
               ? Annotate(s, "task " + task.where.name())
               : s;
  });
  if (registered.ok()) return OkStatus();
  // (A task that did not answer would cost another timeout.)
  (void)ForAllTasks(involved.size(), [&](size_t i) {
    return knows[i] != 0 ? Deregister(step->step, involved[i]) : OkStatus();
  });
  return registered;
}

Status MasterSession::Show(const Partitions& parts,
                           proto::PrepareStepResponse* response) {
  for (size_t i = 0; i < parts.graphs.size(); ++i) {
    for (const auto& n : parts.graphs[i]->nodes())
      parts.graphs[i]->SetDevice(n.get(), parts.devices[i]);
    SLUICE_ASSIGN_OR_RETURN(*response->add_graph(),
                            ExportGraphDef(*parts.graphs[i]));
  }
  const Status fits = CheckMessage("partition graphs", *response);
  if (!fits.ok()) response->clear_graph();
  return fits;
}

Status MasterSession::Deregister(uint64_t step, size_t task) {
  proto::DeregisterStepRequest request;
  request.set_session(id_);
  request.set_step(step);
  return tasks_[task].stub->DeregisterStep(request);
}

Status MasterSession::Prepare(const proto::PrepareStepRequest& request,
                              proto::PrepareStepResponse* response) {
  SLUICE_RETURN_IF_ERROR(SLUICE_FAILPOINT("master.prepare_step").error);
  std::lock_guard<std::mutex> lock(mu_);
  SLUICE_ASSIGN_OR_RETURN(const std::shared_ptr<const Graph> graph,
                          graph_.graph());
  StepSignature s;
  for (const std::string& name : request.feed()) {
    SLUICE_ASSIGN_OR_RETURN(const Output o, graph->FindOutput(name));
    s.feeds.push_back(o);
  }
  for (const std::string& name : request.fetch()) {
    SLUICE_ASSIGN_OR_RETURN(const Output o, graph->FindOutput(name));
    s.fetches.push_back(o);
  }
  for (const std::string& name : request.target()) {
    SLUICE_ASSIGN_OR_RETURN(Node * n, graph->LookupNode(name));
    s.targets.push_back(n);
  }
  auto step = std::make_shared<PreparedStep>();
  step->session = id_;
  step->step = next_step_++;
  for (const Output& o : s.feeds)
    step->feeds.push_back({o.name(), RemoveRef(o.dtype()), o.shape()});
  step->num_fetches = s.fetches.size();
  step->staged = request.staged();
  std::vector<std::string> targets;
  std::vector<Placement> log;
  SLUICE_ASSIGN_OR_RETURN(Partitions parts,
                          Split(*graph, s, step->staged, &targets,
                                request.placements() ? &log : nullptr));
  if (request.graphs()) return Show(parts, response);
  OpenEnds ends;
  if (step->staged) {
    SLUICE_ASSIGN_OR_RETURN(
        ends, OpenTheEnds(&parts, step->feeds.size(), step->num_fetches));
  }
  SLUICE_RETURN_IF_ERROR(Register(parts, targets, request.traced(),
                                  step->staged ? &ends : nullptr, step.get()));
  if (request.placements()) response->set_placements(FormatPlacements(log));
  response->set_step(step->step);
  std::vector<std::shared_ptr<const PreparedStep>> gone;
  {
    std::lock_guard<std::mutex> steps_lock(steps_mu_);
    if (steps_.size() >= context_->prepared_steps) {
      const auto oldest = std::min_element(
          steps_.begin(), steps_.end(), [](const auto& a, const auto& b) {
            return a.second.used < b.second.used;
          });
      dropped_.push_back(std::move(oldest->second.step));
      steps_.erase(oldest);
    }
    steps_[step->step] = {step, ++uses_};
    // (They can no longer be found, so those with one reference are unused.)
    const auto unused = std::partition(
        dropped_.begin(), dropped_.end(),
        [](const auto& dropped) { return dropped.use_count() > 1; });
    gone.assign(std::move_iterator(unused), std::move_iterator(dropped_.end()));
    dropped_.erase(unused, dropped_.end());
  }
  for (const auto& dropped : gone)
    // (Ignores errors: an unreachable worker fails elsewhere.)
    (void)ForAllTasks(dropped->parts.size(), [&](size_t i) {
      for (size_t t = 0; t < tasks_.size(); ++t)
        if (tasks_[t].where.name() == dropped->parts[i].task)
          return Deregister(dropped->step, t);
      return OkStatus();
    });
  return OkStatus();
}

Result<std::shared_ptr<const PreparedStep>> MasterSession::Find(uint64_t step) {
  std::lock_guard<std::mutex> lock(steps_mu_);
  auto it = steps_.find(step);
  if (it == steps_.end())
    return NotFound("step: expected one that was prepared, got number ", step);
  it->second.used = ++uses_;
  return it->second.step;
}

void MasterSession::ListDevices(proto::ListDevicesResponse* response) {
  for (const Task& t : tasks_)
    for (const proto::DeviceProto& d : t.status.device())
      *response->add_device() = d;
}

void MasterSession::ReadClocks(const PreparedStep& step) {
  std::vector<size_t> others;
  for (const PreparedStep::Part& p : step.parts)
    for (size_t i = 0; i < tasks_.size(); ++i)
      if (tasks_[i].where.name() == p.task && p.peer != kThisTask)
        others.push_back(i);
  (void)ForAllTasks(others.size(), [&](size_t k) {
    const size_t i = others[k];
    proto::GetStatusRequest ask;
    ask.set_patience_ms(kClockPatienceMs);
    for (int n = 0; n < kClockExchanges; ++n) {
      proto::GetStatusResponse answer;
      ClockReading r;
      r.sent_ns = NowNs();
      SLUICE_RETURN_IF_ERROR(tasks_[i].stub->GetStatus(ask, &answer));
      r.received_ns = NowNs();
      r.peer_ns = answer.clock_ns();
      std::lock_guard<std::mutex> lock(clocks_mu_);
      clocks_[i].Add(r);
    }
    return OkStatus();
  });
}

void MasterSession::AlignClocks(int64_t begin_ns,
                                std::vector<proto::TaskStats>* stats) {
  const int64_t end_ns = NowNs();
  std::lock_guard<std::mutex> lock(clocks_mu_);
  for (proto::TaskStats& s : *stats)
    for (size_t i = 0; i < tasks_.size(); ++i) {
      if (tasks_[i].where.name() != s.task() || tasks_[i].peer == kThisTask)
        continue;
      const ClockOffset o = clocks_[i].OffsetWithin(begin_ns, end_ns);
      s.set_clock_offset_ns(o.offset_ns);
      s.set_clock_error_ns(o.error_ns);
    }
}

PeerId MasterSession::PeerOf(const std::string& task,
                             uint64_t incarnation) const {
  for (const Task& t : tasks_)
    if (t.status.task() == task && t.status.incarnation() == incarnation)
      return t.peer;
  return kThisTask;
}

Status MasterSession::Reset(const proto::ResetRequest& request) {
  const auto reset = [&](size_t i, bool own) {
    if (own != (tasks_[i].peer == kThisTask)) return OkStatus();
    return Annotate(tasks_[i].stub->Reset(request), tasks_[i].where.name());
  };
  // First this task, which refuses what it does not allow. The others were
  // probably started with the same flags, so then nothing is reset anywhere.
  for (const bool own : {true, false})
    SLUICE_RETURN_IF_ERROR(
        ForAllTasks(tasks_.size(), [&](size_t i) { return reset(i, own); }));
  return OkStatus();
}

std::map<std::string, uint64_t> MasterSession::Incarnations() const {
  std::map<std::string, uint64_t> all;
  for (const Task& t : tasks_) all[t.where.name()] = t.status.incarnation();
  return all;
}

bool MasterSession::Close() {
  std::vector<size_t> there;
  for (size_t i = 0; i < tasks_.size(); ++i) {
    const PeerId peer = tasks_[i].peer;
    const bool lost =
        peer != kThisTask && !context_->transport->Lost(peer).ok();
    (lost ? lost_ : there).push_back(i);
  }
  Delete(there);
  return !lost_.empty();
}

void MasterSession::CloseLost() { Delete(lost_); }

void MasterSession::Delete(const std::vector<size_t>& tasks) {
  proto::DeleteWorkerSessionRequest request;
  request.set_session(id_);
  (void)ForAllTasks(tasks.size(), [&](size_t i) {
    return tasks_[tasks[i]].stub->DeleteSession(request);
  });
}

}  // namespace sluice
