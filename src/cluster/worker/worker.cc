#include "cluster/worker/worker.h"

#include <algorithm>
#include <atomic>
#include <ctime>
#include <map>
#include <set>
#include <thread>
#include <tuple>

#include "base/failpoint.h"
#include "cluster/common/messages.h"
#include "cluster/worker/collective_network.h"
#include "exec/core/pipeline_stages.h"
#include "graph/graphdef.h"
#include "ops/collectives/hub.h"

namespace sluice {
namespace {

// The memories of a task's devices.
std::vector<Allocator*> MemoriesOf(
    const std::vector<std::unique_ptr<Device>>& devices) {
  std::set<Allocator*> memories;
  for (const auto& d : devices) memories.insert(d->allocator());
  return {memories.begin(), memories.end()};
}

// The limit on what one peer can make us keep.
constexpr size_t kMaxSteps = 65536;
constexpr size_t kNotToBegin = 256;
// What an answer may say of pipelines.
constexpr size_t kMaxStages = 1000;
constexpr size_t kMaxStageName = 200;  // Bytes; clients choose names.

// The task of this process that reports the pipelines of local sessions; null
// until one is asked.
std::atomic<const Worker*>& TheReporter() {
  static std::atomic<const Worker*> reporter{nullptr};
  return reporter;
}

// At most so much of a name, as text.
std::string Clipped(const std::string& name) {
  const auto cut = [](std::string s) {
    size_t end = std::min(s.size(), kMaxStageName);
    // (Not within a character.)
    while (end > 0 && end < s.size() && (s[end] & 0xc0) == 0x80) --end;
    s.resize(end);
    return s;
  };
  return cut(ValidUtf8(cut(name)));
}

}  // namespace

// A master's session. Thread-safe.
struct Worker::Session {
  // Constant.
  uint64_t id = 0;
  std::string task;  // Its name for this worker.
  PeerId master = kThisTask;
  std::shared_ptr<ResourceManager> resources;
  std::vector<PeerId> peers;  // By task of the session.

  StatefulKernels kernels;
  std::mutex mu;
  std::map<uint64_t, std::shared_ptr<RegisteredStep>> steps;  // GUARDED_BY(mu)
};

Worker::Worker(WorkerOptions options, Transport* transport)
    : options_(std::move(options)),
      transport_(transport),
      shared_(std::make_shared<ResourceManager>()),
      collectives_(std::make_shared<collectives::Hub>(
          MakeCollectiveNetwork(options_.task, transport))),
      steps_(options_.task, options_.limits, transport),
      idle_memory_(MemoriesOf(options_.devices)) {
  AddCollectives(shared_.get());
  const auto cores = std::thread::hardware_concurrency();
  if (cores > 1)
    pool_ = std::make_unique<ThreadPool>(static_cast<int>(cores) - 1);
}

Worker::~Worker() {
  const Worker* self = this;
  TheReporter().compare_exchange_strong(self, nullptr);
}

void Worker::AddCollectives(ResourceManager* resources) const {
  (void)resources->Create(collectives::Hub::kContainer, collectives::Hub::kName,
                          collectives_);
}

void Worker::GetStatus(const proto::GetStatusRequest& request,
                       proto::GetStatusResponse* response) {
  response->set_task(options_.task);
  response->set_incarnation(transport_->incarnation());
  response->set_transport_address(transport_->address());
  if (request.counters()) Count(response->mutable_counters());
  for (const auto& d : options_.devices) {
    proto::DeviceProto* p = response->add_device();
    p->set_name(d->name().ToString());
    p->set_host_memory(d->host_memory());
  }
  response->set_clock_ns(NowNs());
}

void Worker::Count(proto::TaskCounters* counters) {
  StepCounters steps = steps_.counters();
  counters->set_steps(steps.succeeded);
  counters->set_failed_steps(steps.failed);
  counters->set_running_steps(static_cast<int64_t>(steps_.num_running()));
  counters->set_sessions(static_cast<int64_t>(num_sessions()));
  std::vector<int64_t>& took = steps.recent_ns;
  std::sort(took.begin(), took.end());
  counters->set_recent_steps(static_cast<int64_t>(took.size()));
  if (!took.empty()) {
    counters->set_step_p50_ns(took[took.size() / 2]);
    counters->set_step_p95_ns(took[took.size() * 95 / 100]);
  }
  const TransportStats t = transport_->stats();
  counters->set_bytes_sent(t.bytes_sent);
  counters->set_bytes_received(t.bytes_received);
  counters->set_tokens_sent(t.tokens_sent);
  counters->set_tokens_received(t.tokens_received);
  counters->set_peers_lost(t.peers_lost);
  for (const Allocator* m : MemoriesOf(options_.devices)) {
    const AllocatorStats s = m->stats();
    counters->set_live_bytes(counters->live_bytes() + s.live_bytes);
    counters->set_peak_bytes(counters->peak_bytes() + s.peak_bytes);
  }
  timespec cpu{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
  counters->set_cpu_ns(int64_t{cpu.tv_sec} * 1000000000 + cpu.tv_nsec);
  counters->set_started_ns(started_ns_);
  CountStages(counters);
}

void Worker::CountStages(proto::TaskCounters* counters) {
  std::vector<std::vector<StageCounters>> states;  // Of each its stages.
  states.push_back(shared_->PipelineStages());
  std::vector<std::shared_ptr<Session>> sessions;
  {
    std::lock_guard<std::mutex> lock(mu_);
    for (const auto& [id, session] : sessions_)
      if (session->resources != shared_) sessions.push_back(session);
  }
  for (const auto& session : sessions)
    states.push_back(session->resources->PipelineStages());
  const Worker* reporter = nullptr;
  if (TheReporter().compare_exchange_strong(reporter, this) || reporter == this)
    for (std::vector<StageCounters>& stages : LocalPipelineStages())
      states.push_back(std::move(stages));
  // Each state may have a pipeline of the same name, containers of one too.
  std::set<std::string> names;
  std::vector<StageCounters> all;
  for (std::vector<StageCounters>& stages : states) {
    std::map<std::tuple<std::string, int64_t, std::string>, int> copies;
    std::map<std::pair<std::string, int>, std::string> name_of;
    for (StageCounters& c : stages) {
      if (all.size() >= kMaxStages) break;
      c.pipeline = Clipped(c.pipeline);
      c.stage = Clipped(c.stage);
      const int copy = ++copies[{c.pipeline, c.number, c.stage}];
      const auto [name, first] =
          name_of.try_emplace({c.pipeline, copy}, c.pipeline);
      for (int n = 2; first && !names.insert(name->second).second; ++n)
        name->second = c.pipeline + " #" + std::to_string(n);
      c.pipeline = name->second;
      all.push_back(std::move(c));
    }
  }
  for (const StageCounters& c : all) {
    proto::PipelineStageCounters* s = counters->add_stage();
    s->set_pipeline(c.pipeline);
    s->set_stage(c.stage);
    s->set_number(c.number);
    for (const int64_t i : c.inputs) s->add_input(i);
    s->set_elements(c.elements);
    s->set_ready(c.ready);
    s->set_capacity(c.capacity);
    s->set_full_ns(c.full_ns);
    s->set_starving_ns(c.starving_ns);
  }
}

Status Worker::CreateSession(const proto::CreateWorkerSessionRequest& request) {
  SLUICE_RETURN_IF_ERROR(SLUICE_FAILPOINT("worker.create_session").error);
  if (request.incarnation() != transport_->incarnation())
    return Aborted("task ", options_.task,
                   ": expected the one that the master knew, got one that was "
                   "started since");
  auto session = std::make_shared<Session>();
  session->id = request.session();
  session->task = request.name().empty() ? options_.task : request.name();
  session->resources =
      request.isolated() ? std::make_shared<ResourceManager>() : shared_;
  if (request.isolated()) AddCollectives(session->resources.get());
  auto connect = [&](const proto::TaskAddress& a) -> Result<PeerId> {
    // (Not by name: several tasks of a session may have the same own name.)
    if (a.incarnation() == transport_->incarnation()) return kThisTask;
    return transport_->Connect(
        {a.task(), a.transport_address(), a.incarnation()});
  };
  SLUICE_ASSIGN_OR_RETURN(session->master, connect(request.master()));
  for (const proto::TaskAddress& a : request.task()) {
    SLUICE_ASSIGN_OR_RETURN(const PeerId peer, connect(a));
    session->peers.push_back(peer);
  }
  SLUICE_RETURN_IF_ERROR(Admit(session));
  collectives_->OpenSession(CollectiveSession(session->id), session->peers);
  // (It may have been deleted meanwhile.)
  if (!FindSession(session->id).ok())
    collectives_->CloseSession(CollectiveSession(session->id));
  return OkStatus();
}

Status Worker::Admit(const std::shared_ptr<Session>& session) {
  std::lock_guard<std::mutex> lock(mu_);
  if (sessions_.size() >= options_.max_sessions)
    return ResourceExhausted("sessions: expected at most ",
                             options_.max_sessions, " in task ", options_.task,
                             ", got more (--max-sessions of `sluice worker` "
                             "sets the limit)");
  if (std::find(not_to_begin_.begin(), not_to_begin_.end(), session->id) !=
      not_to_begin_.end())
    return Aborted("session: expected a master that waits for it, got one in ",
                   "task ", options_.task, " that was given up meanwhile");
  if (session->master != kThisTask && !transport_->Lost(session->master).ok())
    return Aborted("session: expected a master that lives, got one in task ",
                   options_.task, " whose master was lost meanwhile");
  if (!sessions_.emplace(session->id, session).second)
    return AlreadyExists("session: expected an unused number, got ",
                         session->id, " again");
  return OkStatus();
}

Status Worker::DeleteSession(const proto::DeleteWorkerSessionRequest& request) {
  std::shared_ptr<Session> session;
  {
    std::lock_guard<std::mutex> lock(mu_);
    auto it = sessions_.find(request.session());
    if (it == sessions_.end()) {  // Already deleted.
      not_to_begin_.push_back(request.session());
      if (not_to_begin_.size() > kNotToBegin) not_to_begin_.pop_front();
      return OkStatus();
    }
    session = std::move(it->second);
    sessions_.erase(it);
  }
  steps_.CancelSession(
      session->id,
      Cancelled("step: expected an open session, got one that was closed"));
  collectives_->CloseSession(CollectiveSession(session->id));
  session.reset();
  idle_memory_.SessionEnded(/*last=*/num_sessions() == 0);
  return OkStatus();
}

Result<std::shared_ptr<Worker::Session>> Worker::FindSession(uint64_t session) {
  std::lock_guard<std::mutex> lock(mu_);
  auto it = sessions_.find(session);
  if (it == sessions_.end())
    return Aborted(
        "task ", options_.task,
        ": expected a session that it knows, got one that was closed "
        "or was begun before the task was started; make a new "
        "session");
  return it->second;
}

Device* Worker::FindDevice(const std::string& name) {
  for (const auto& d : options_.devices)
    if (d->name().ToString() == name) return d.get();
  return nullptr;
}

Status Worker::CheckHostReach(const Node& node) const {
  if (options_.allow_host_access || node.op().host_reach == nullptr)
    return OkStatus();
  const std::string what = node.op().host_reach(node);
  if (what.empty()) return OkStatus();
  return Status(
      StatusCode::kPermissionDenied,
      absl::StrCat("host access: expected a node that does not access the host "
                   "of task ",
                   options_.task,
                   ", which was started without "
                   "--allow-host-access, got one that ",
                   what));
}

Status Worker::BuildPartition(
    const proto::RegisterStepRequest::Partition& partition, bool fusion,
    bool regions, Session& session, RegisteredStep* step) {
  if (partition.number() >= step->partitions.size())
    return InvalidArgument("partition: expected one of ",
                           step->partitions.size(), ", got number ",
                           partition.number());
  PartitionPlan& plan = step->partitions[partition.number()];
  plan.device = FindDevice(partition.device());
  if (plan.device == nullptr)
    return InvalidArgument("partition: expected a device of task ",
                           options_.task, ", got '", partition.device(), "'");
  auto graph = std::make_unique<Graph>();
  ImportOptions import;
  import.internal_ops = true;
  SLUICE_RETURN_IF_ERROR(ImportGraphDef(partition.graph_def(), *graph, import));
  std::vector<Node*> targets;
  for (const std::string& name : partition.target()) {
    SLUICE_ASSIGN_OR_RETURN(Node * n, graph->LookupNode(name));
    targets.push_back(n);
  }
  Device* const device = plan.device;
  auto make = [this, device](const Node& n, Kernel* k) {
    SLUICE_RETURN_IF_ERROR(CheckHostReach(n));
    return device->MakeKernel(n, k);
  };
  SLUICE_ASSIGN_OR_RETURN(
      BuiltPlan built,
      BuildPlan(std::move(graph), targets,
                {.fusion = fusion && device->host_memory(),
                 .regions = regions && device->host_memory()},
                [&](const Node& n, std::shared_ptr<Kernel>* k) {
                  return session.kernels.Get(n, make, k);
                }));
  plan.plan = built.plan;
  step->built.push_back(std::move(built));
  return OkStatus();
}

Status Worker::RegisterStep(const proto::RegisterStepRequest& request) {
  SLUICE_RETURN_IF_ERROR(SLUICE_FAILPOINT("worker.register_step").error);
  SLUICE_ASSIGN_OR_RETURN(std::shared_ptr<Session> session,
                          FindSession(request.session()));
  auto step = std::make_shared<RegisteredStep>();
  step->session = session->id;
  step->task = session->task;
  step->resources = session->resources;
  step->pool = pool_.get();
  step->max_call_depth = request.max_call_depth();
  step->scheduler_seed = request.scheduler_seed();
  step->staged = request.staged();
  step->fetches.assign(request.fetch().begin(), request.fetch().end());
  step->partitions.resize(static_cast<size_t>(request.task_size()));
  for (const uint32_t task : request.task()) {
    if (task >= session->peers.size())
      return InvalidArgument("partition: expected one of ",
                             session->peers.size(), " tasks, got number ",
                             task);
    step->peers.push_back(session->peers[task]);
  }
  for (const auto& p : request.partition())
    SLUICE_RETURN_IF_ERROR(BuildPartition(
        p, request.fusion(), request.regions(), *session, step.get()));
  std::lock_guard<std::mutex> lock(session->mu);
  if (session->steps.size() >= kMaxSteps)
    return ResourceExhausted("steps: expected at most ", kMaxSteps,
                             " of a session in task ", options_.task,
                             ", got more");
  if (!session->steps.emplace(request.step(), std::move(step)).second)
    return AlreadyExists("step: expected an unused number, got ",
                         request.step(), " again");
  return OkStatus();
}

Status Worker::DeregisterStep(const proto::DeregisterStepRequest& request) {
  SLUICE_ASSIGN_OR_RETURN(std::shared_ptr<Session> session,
                          FindSession(request.session()));
  std::lock_guard<std::mutex> lock(session->mu);
  session->steps.erase(request.step());
  return OkStatus();
}

Status Worker::Reset(const proto::ResetRequest& request) {
  std::shared_ptr<ResourceManager> resources = shared_;
  if (request.session() != 0) {
    SLUICE_ASSIGN_OR_RETURN(std::shared_ptr<Session> session,
                            FindSession(request.session()));
    resources = session->resources;
  }
  if (resources == shared_ && !options_.allow_reset) {
    const auto& named = request.container();
    const bool of_all =
        named.empty() || std::any_of(named.begin(), named.end(), [](auto& c) {
          return c.empty() || c == ResourceManager::kDefaultContainer;
        });
    if (of_all)
      return Status(
          StatusCode::kPermissionDenied,
          absl::StrCat("reset: expected the names of containers other than the "
                       "default one, as task ",
                       options_.task,
                       " was started without --allow-reset, got ",
                       named.empty() ? "none, which stands for all containers"
                                     : "the default one"));
  }
  for (const std::string& c : request.container()) resources->ClearContainer(c);
  if (request.container().empty()) resources->Clear();
  return OkStatus();
}

Result<std::shared_ptr<RegisteredStep>> Worker::FindStep(uint64_t session,
                                                         uint64_t step) {
  SLUICE_ASSIGN_OR_RETURN(std::shared_ptr<Session> s, FindSession(session));
  std::lock_guard<std::mutex> lock(s->mu);
  auto it = s->steps.find(step);
  if (it == s->steps.end())
    return FailedPrecondition("step: expected one that task ", options_.task,
                              " has registered, got number ", step);
  return it->second;
}

void Worker::OnPeerLost(PeerId peer, const Status& why) {
  std::vector<std::shared_ptr<Session>> orphans;
  {
    std::lock_guard<std::mutex> lock(mu_);
    for (auto it = sessions_.begin(); it != sessions_.end();) {
      if (it->second->master != peer) {
        ++it;
        continue;
      }
      orphans.push_back(std::move(it->second));
      it = sessions_.erase(it);
    }
  }
  for (const auto& session : orphans) {
    steps_.CancelSession(session->id, why);
    collectives_->CloseSession(CollectiveSession(session->id));
  }
  collectives_->OnPeerLost(peer, why);
  steps_.OnPeerLost(peer, why);
  if (orphans.empty()) return;
  orphans.clear();
  idle_memory_.SessionEnded(/*last=*/num_sessions() == 0);
}

size_t Worker::num_steps() {
  std::lock_guard<std::mutex> lock(mu_);
  size_t n = 0;
  for (const auto& [id, session] : sessions_) {
    std::lock_guard<std::mutex> session_lock(session->mu);
    n += session->steps.size();
  }
  return n;
}

size_t Worker::num_sessions() {
  std::lock_guard<std::mutex> lock(mu_);
  return sessions_.size();
}

}  // namespace sluice
