#include "session/session.h"

#include <algorithm>
#include <thread>

#include "exec/core/drive_queue.h"
#include "exec/core/on_cancel.h"
#include "graph/graphdef.h"
#include "graph/none_output.h"
#include "passes/passes.h"
#include "passes/stage.h"
#include "session/session_state.h"

namespace sluice {
namespace {

int Cores() {
  static const int cores =
      std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  return cores;
}

Status CheckOptions(const SessionOptions& o) {
  for (size_t i = 0; i < o.devices.size(); ++i)
    if (o.devices[i] == nullptr)
      return InvalidArgument("session: devices[", i,
                             "]: expected a device, got none");
  constexpr int kMaxThreads = 4096;
  for (const int n : {o.inter_op_threads, o.intra_op_threads})
    if (n > kMaxThreads)
      return InvalidArgument("session: expected at most ", kMaxThreads,
                             " threads, got ", n);
  return OkStatus();
}

}  // namespace

Session::State::State(Graph& g, SessionOptions o)
    : graph(g),
      graph_alive(g.alive()),
      options(o),
      resources(o.resources ? o.resources
                            : std::make_shared<ResourceManager>()),
      devices(o.devices.empty() ? CpuDevices(1) : o.devices),
      intra_op_threads(o.intra_op_threads > 0 ? o.intra_op_threads : Cores()) {
  // (Several devices run concurrently.)
  const int others = std::min(Cores(), static_cast<int>(devices.size())) - 1;
  const int threads = o.inter_op_threads < 0
                          ? std::max(Cores() / intra_op_threads - 1, others)
                          : o.inter_op_threads;
  if (threads > 0) pool = std::make_unique<ThreadPool>(threads);
}

Session::State::State(const std::string& target, Graph& g, SessionOptions o)
    : graph(g),
      graph_alive(g.alive()),
      options(std::move(o)),
      resources(std::make_shared<ResourceManager>()),
      intra_op_threads(1) {
  Result<std::unique_ptr<SessionBackend>> b =
      ConnectSessionBackend(target, options);
  if (b.ok())
    backend = *std::move(b);
  else
    connected = b.status();
}

// ---- Compiling --------------------------------------------------------------

Device& Session::State::FindDevice(const std::string& name) const {
  for (const auto& d : devices)
    if (d->name().ToString() == name) return *d;
  return *devices[0];
}

// `tell`: logs the placement.
Result<std::vector<StepPart>> Session::State::Cut(OptimizedStep step,
                                                  bool tell) {
  PlacementOptions placement;
  for (const auto& d : devices)
    placement.devices.push_back({d->name(), [d = d.get()](const Node& n) {
                                   Kernel unused;
                                   return d->MakeKernel(n, &unused);
                                 }});
  placement.default_device = devices[0]->name();
  placement.soft_placement = options.soft_placement;
  placement.state = &state_devices;
  placement.whole = &graph;
  std::vector<Placement> log;
  tell = tell && options.placement_log != nullptr;
  if (tell) placement.log = &log;
  PartitionOptions partition;
  partition.has_own_memory = [this](const std::string& name) {
    return !FindDevice(name).host_memory();
  };
  partition.can_copy = [this](const std::string& from, const std::string& to) {
    return FindDevice(to).CanCopyFrom(FindDevice(from));
  };
  SLUICE_ASSIGN_OR_RETURN(std::vector<StepPart> parts,
                          PlaceAndCut(std::move(step), placement, partition));
  if (tell) options.placement_log(FormatPlacements(log));
  return parts;
}

Result<std::shared_ptr<Session::Compiled>> Session::State::Compile(
    StepSignature s, Purpose purpose) {
  auto c = std::make_shared<Compiled>();
  c->purpose = purpose;
  for (size_t i = 0; i < s.feeds.size(); ++i) {
    c->args.push_back(static_cast<uint32_t>(i));
    c->feed_types.push_back(RemoveRef(s.feeds[i].dtype()));
    c->feed_shapes.push_back(s.feeds[i].shape());
  }
  c->signature = {s.feeds, {}, s.targets};
  for (size_t i = 0; i < s.fetches.size(); ++i) {
    if (s.fetches[i].node->num_outputs() > 0) {
      c->signature.fetches.push_back(s.fetches[i]);
      continue;
    }
    c->signature.targets.push_back(s.fetches[i].node);
    c->without_value.push_back(i);
  }
  c->asked = std::move(s);
  if (purpose == Purpose::kStaged)
    c->feeds_needed = FeedsNeeded(graph, c->signature);
  if (backend != nullptr) {
    NoteStores(nullptr, c.get());
    SLUICE_ASSIGN_OR_RETURN(
        c->remote,
        backend->Prepare(graph, c->signature,
                         purpose == Purpose::kTraced   ? StepKind::kTraced
                         : purpose == Purpose::kStaged ? StepKind::kStaged
                                                       : StepKind::kWhole));
    return c;
  }
  SLUICE_ASSIGN_OR_RETURN(
      OptimizedStep step,
      OptimizeStep(graph, c->signature, options.constant_folding,
                   options.common_subexpressions));
  NoteStores(step.graph.get(), c.get());
  const bool regions = options.regions && options.scheduler_seed == 0 &&
                       purpose == Purpose::kRun;
  std::vector<StepPart> parts;
  if (purpose == Purpose::kStaged) {
    // (Nodes that wait for later feeds would keep the others from becoming
    // idle.)
    const auto host =
        std::find_if(devices.begin(), devices.end(),
                     [](const auto& d) { return d->host_memory(); });
    if (host == devices.end())
      return Unimplemented(
          "partial run: expected a device in the host's memory, got none; run "
          "the stages as steps of their own");
    parts.push_back({std::move(step.graph), (*host)->name().ToString(),
                     std::move(step.targets)});
  } else {
    SLUICE_ASSIGN_OR_RETURN(parts, Cut(std::move(step), /*tell=*/true));
  }
  for (StepPart& part : parts) {
    Device& device = FindDevice(part.device);
    auto make = [&device](const Node& n, Kernel* k) {
      return device.MakeKernel(n, k);
    };
    Result<BuiltPlan> built = BuildPlan(
        std::move(part.graph), part.targets,
        {.fusion = options.fusion && purpose != Purpose::kStaged &&
                   device.host_memory(),
         .regions = regions && device.host_memory(),
         .batch_frames = purpose == Purpose::kStaged || !device.host_memory()
                             ? BatchFrames::kNever
                         : options.batch_frames ? BatchFrames::kAll
                                                : BatchFrames::kRequested},
        [&](const Node& n, std::shared_ptr<Kernel>* k) {
          return kernels.Get(n, make, k);
        });
    // Errors are reported for the user's nodes, not for regions.
    if (!built.ok() && regions) return Compile(c->asked, Purpose::kTraced);
    SLUICE_RETURN_IF_ERROR(built.status());
    c->parts.push_back({built->plan, &device});
    c->built.push_back(*std::move(built));
  }
  return c;
}

Result<std::vector<std::string>> Session::State::PartitionGraphs(
    const StepSignature& s) {
  std::lock_guard<std::recursive_mutex> graph_lock(graph.mutex());
  if (backend != nullptr) return backend->PartitionGraphs(graph, s);
  SLUICE_ASSIGN_OR_RETURN(OptimizedStep step,
                          OptimizeStep(graph, s, options.constant_folding,
                                       options.common_subexpressions));
  SLUICE_ASSIGN_OR_RETURN(const std::vector<StepPart> parts,
                          Cut(std::move(step), /*tell=*/false));
  std::vector<std::string> graphs;
  for (const StepPart& part : parts) {
    for (const auto& n : part.graph->nodes())
      part.graph->SetDevice(n.get(), part.device);
    SLUICE_ASSIGN_OR_RETURN(graphs.emplace_back(), ExportGraphDef(*part.graph));
  }
  return graphs;
}

namespace {

// Calls fn(store) for each store of one step whose handle the node takes.
template <typename Fn>
void ForEachStoreOf(const Node& n, Fn&& fn) {
  if (!ReadsStore(n) && !WritesStore(n) && n.op().role != OpRole::kFunctional)
    return;
  for (const Output& in : n.inputs()) {
    if (!in.valid() || in.dtype() != DType::kResource) continue;
    for (const StoreIdentity& id : IdentitiesOfStore(in))
      if (id.root->kind() == OpKind::kTensorStore && id.local()) fn(id);
  }
}

}  // namespace

void Session::State::NoteStores(const Graph* step, Compiled* c) {
  for (const auto& n : graph.nodes())
    ForEachStoreOf(*n, [&](const StoreIdentity& id) {
      if (!WritesStore(*n) &&
          (step == nullptr || step->FindNode(n->name()) != nullptr))
        c->stores_read.insert(id);
    });
  c->nodes_seen = graph.num_nodes();
  c->writes_seen.store(StoreWritesBuilt(), std::memory_order_relaxed);
}

bool Session::State::LacksNoWrite(Compiled& c) {
  std::lock_guard<std::recursive_mutex> graph_lock(graph.mutex());
  const uint64_t built = StoreWritesBuilt();
  for (; c.nodes_seen < graph.num_nodes(); ++c.nodes_seen) {
    const Node& n = *graph.nodes()[static_cast<size_t>(c.nodes_seen)];
    bool known = false;
    ForEachStoreOf(n, [&](const StoreIdentity& id) {
      known = known || (!ReadsStore(n) && c.stores_read.contains(id));
    });
    if (known) return false;
  }
  c.writes_seen.store(built, std::memory_order_relaxed);
  return true;
}

// Checks the feeds, fetches and targets of a step.
Status Session::State::Check(const StepSignature& s, Purpose purpose) const {
  for (size_t i = 0; i < s.feeds.size(); ++i)
    SLUICE_RETURN_IF_ERROR(CheckEdge(s.feeds[i], "feeds", i, false));
  for (size_t i = 0; i < s.fetches.size(); ++i)
    SLUICE_RETURN_IF_ERROR(
        CheckEdge(s.fetches[i], "fetches", i, purpose != Purpose::kStaged));
  for (size_t i = 0; i < s.targets.size(); ++i) {
    const Node* n = s.targets[i];
    if (n == nullptr)
      return WhyNull(Output(), absl::StrCat("targets[", i,
                                            "]: expected a node, got none"));
    if (n->graph() != &graph)
      return InvalidArgument("targets[", i,
                             "]: expected a node of the session's graph, got "
                             "one of another; ",
                             n->Describe());
  }
  return OkStatus();
}

// The error that made an output null; `what` if no builder recorded one.
Status Session::State::WhyNull(const Output& null, std::string what) const {
  if (const Status* const error = graph.ErrorOf(null)) return *error;
  if (null.reason() >= 0 || graph.errors().empty())
    return InvalidArgument(what);
  // A Node* does not record which error made it null: the likely ones first.
  constexpr size_t kShown = 5;
  const std::vector<Status> errors = graph.ErrorsOfNullNodes();
  for (size_t i = 0; i < std::min(kShown, errors.size()); ++i)
    absl::StrAppend(&what, i == 0 ? "; while the graph was built: " : "; ",
                    errors[i].message());
  if (errors.size() > kShown)
    absl::StrAppend(&what, "; and ", errors.size() - kShown, " more");
  return Status(errors[0].code(), what);
}

// Checks whether a step may feed or fetch this edge, number `i` of a list.
// `or_node`: it may be a node without outputs.
Status Session::State::CheckEdge(const Output& o, const char* list, size_t i,
                                 bool or_node) const {
  if (!o.valid())
    return WhyNull(o,
                   absl::StrCat(list, "[", i, "]: expected an output, got none",
                                WhyNone(o)));
  if (o.graph() != &graph)
    return InvalidArgument(
        list, "[", i, "]: expected an output of the session's graph, got '",
        o.name(), "' of another; ", o.node->Describe());
  const int outputs = o.node->num_outputs();
  if (outputs == 0 && o.index == 0) {
    if (or_node) return OkStatus();
    return InvalidArgument(list, "[", i, "]: expected an output, got '",
                           o.node->name(), "', which has none; ",
                           o.node->Describe());
  }
  if (o.index < 0 || o.index >= outputs)
    return InvalidArgument(list, "[", i, "]: expected one of ", outputs,
                           " outputs, got '", o.name(), "'; ",
                           o.node->Describe());
  return OkStatus();
}

Result<std::shared_ptr<Session::Compiled>> Session::State::Cached(
    const StepSignature& s, Purpose purpose) {
  std::string key;
  auto add = [&key](int64_t v) {
    key.append(reinterpret_cast<const char*>(&v), sizeof(v));
  };
  // Other threads may be building: without the graph's mutex, only the constant
  // properties of a node may be read.
  bool known = true;
  auto add_node = [&](const Node* n) {
    known = known && n != nullptr && n->graph() == &graph;
    if (known) add(n->id());
  };
  add(static_cast<int64_t>(purpose));
  for (const auto* list : {&s.feeds, &s.fetches}) {
    for (const Output& o : *list) {
      add_node(o.node);
      add(o.index);
    }
    add(-1);
  }
  for (const Node* n : s.targets) add_node(n);
  if (known)
    if (std::shared_ptr<Compiled> c = FindPlan(key);
        c != nullptr && IsCurrent(*c))
      return c;
  std::lock_guard<std::recursive_mutex> graph_lock(graph.mutex());
  SLUICE_RETURN_IF_ERROR(Check(s, purpose));
  if (std::shared_ptr<Compiled> c = FindPlan(key);
      c != nullptr && IsCurrent(*c))
    return c;
  SLUICE_ASSIGN_OR_RETURN(std::shared_ptr<Compiled> c, Compile(s, purpose));
  std::lock_guard<std::mutex> lock(mu);
  plans.insert_or_assign(std::move(key), c);
  return c;
}

// ---- Execution --------------------------------------------------------------

// Starts a step, which counts as running until Rest or End.
Result<std::shared_ptr<Step>> Session::State::Begin(Compiled& c,
                                                    const RunOptions& run,
                                                    TraceCollector* trace) {
  ExecuteOptions o;
  o.step.step_id = next_step_id.fetch_add(1, std::memory_order_relaxed);
  o.step.resources = resources.get();
  o.step.log = run.log ? &run.log : nullptr;
  o.pool = pool.get();
  o.intra_op_threads = intra_op_threads;
  o.trace = trace;
  o.max_call_depth = static_cast<uint32_t>(std::max(0, options.max_call_depth));
  if (options.batch_open_frames > 0) o.most_frames = options.batch_open_frames;
  o.scheduler_seed = options.scheduler_seed == 0
                         ? 0
                         : options.scheduler_seed +
                               static_cast<uint64_t>(o.step.step_id) * 7919;
  o.deadline = DeadlineOf(run);
  std::shared_ptr<Step> e;
  std::unique_lock<std::mutex> lock(running_mu);
  if (c.idle.empty()) {
    lock.unlock();
    e = std::make_shared<Step>(c.parts);
    lock.lock();
  } else {
    e = std::move(c.idle.back());
    c.idle.pop_back();
  }
  SLUICE_RETURN_IF_ERROR(CheckOpen());
  e->Start(o);
  running.push_back(e.get());
  return e;
}

void Session::State::End(Compiled& c, std::shared_ptr<Step>& e,
                         bool calls_done) {
  e->Finish();
  std::lock_guard<std::mutex> lock(running_mu);
  calling += calls_done ? 1 : 0;
  Remove(e.get());
  c.idle.push_back(std::exchange(e, nullptr));
}

Status Session::State::RunStep(Compiled& c, std::span<const Tensor> feeds,
                               std::span<Tensor> results, const RunOptions& run,
                               RunMetadata* metadata) {
  SLUICE_RETURN_IF_ERROR(c.CheckFeeds(feeds));
  const bool measured = metadata != nullptr;
  const bool shown = measured && run.partition_graphs;
  std::vector<std::string> graphs;
  if (shown) {
    SLUICE_ASSIGN_OR_RETURN(graphs, PartitionGraphs(c.signature));
  }
  if (backend != nullptr) {
    SLUICE_ASSIGN_OR_RETURN(std::vector<Tensor> out,
                            backend->Run(c.remote, feeds, run, metadata));
    if (out.size() != c.signature.fetches.size())
      return DataLoss("fetches: expected ", c.signature.fetches.size(),
                      " from the cluster, got ", out.size());
    for (size_t i = 0; i < out.size(); ++i)
      SLUICE_RETURN_IF_ERROR(c.CheckFetch(i, out[i]));
    if (measured) metadata->partition_graphs = std::move(graphs);
    c.Return(results,
             [&out](size_t i) -> Tensor&& { return std::move(out[i]); });
    return OkStatus();
  }
  TraceCollector trace;
  const int64_t start = measured ? NowNs() : 0;
  if (measured) Allocator::Cpu()->ResetPeak();
  const int64_t live = measured ? Allocator::Cpu()->stats().live_bytes : 0;

  SLUICE_ASSIGN_OR_RETURN(std::shared_ptr<Step> e,
                          Begin(c, run, run.trace ? &trace : nullptr));
  Status status;
  {
    std::optional<OnCancel> on_cancel;
    if (run.cancellation != nullptr)
      on_cancel.emplace(run.cancellation,
                        [&e] { e->Cancel(CancelledByCaller()); });
    status = e->Run(c.args, feeds);
  }
  if (status.ok()) status = c.TakeResults(*e, results);
  End(c, e, /*calls_done=*/false);

  if (measured) {
    *metadata = RunMetadata();
    metadata->wall_ns = NowNs() - start;
    const AllocatorStats stats = Allocator::Cpu()->stats();
    metadata->peak_bytes = stats.peak_bytes;
    metadata->step_peak_bytes = std::max<int64_t>(stats.peak_bytes - live, 0);
    metadata->live_bytes = stats.live_bytes;
    metadata->partition_graphs = std::move(graphs);
    metadata->events = trace.Take();
    for (const TraceEvent& event : metadata->events)
      metadata->allocated_bytes += event.allocated_bytes;
  }
  return status;
}

Status Session::State::RunAsAsked(Compiled& c, std::span<const Tensor> feeds,
                                  std::span<Tensor> results,
                                  const RunOptions& run,
                                  RunMetadata* metadata) {
  bool costs = false;
  if (options.cost_model_every > 0) {
    const int64_t counted = c.runs.fetch_add(1, std::memory_order_relaxed) -
                            std::max<int64_t>(options.cost_model_after, 0);
    costs = metadata != nullptr && counted >= 0 &&
            (counted + 1) % options.cost_model_every == 0;
  }
  if (!costs && (!run.trace || c.purpose == Purpose::kTraced))
    return RunStep(c, feeds, results, run, metadata);
  SLUICE_ASSIGN_OR_RETURN(std::shared_ptr<Compiled> traced,
                          Cached(c.asked, Purpose::kTraced));
  if (!costs) return RunStep(*traced, feeds, results, run, metadata);
  SLUICE_ASSIGN_OR_RETURN(const std::vector<std::string> partitions,
                          PartitionGraphs(c.signature));
  RunOptions measured = run;
  measured.trace = true;
  SLUICE_RETURN_IF_ERROR(RunStep(*traced, feeds, results, measured, metadata));
  SLUICE_ASSIGN_OR_RETURN(metadata->cost_graph,
                          traced->costs.Update(metadata->events, partitions));
  return OkStatus();
}

Session::Session(Graph& graph, SessionOptions options) {
  Status s = CheckOptions(options);
  if (!s.ok()) options = SessionOptions();
  state_ = std::make_shared<State>(graph, std::move(options));
  state_->connected = std::move(s);
}

Session::Session(const std::string& target, Graph& graph,
                 SessionOptions options)
    : state_(std::make_shared<State>(target, graph, std::move(options))) {}

Session::~Session() {
  (void)Close();
  if (state_->InDone()) return;
  DriveWaiting();
  std::unique_lock<std::mutex> lock(state_->running_mu);
  state_->idle_cv.wait(lock, [this] { return state_->NothingRuns(); });
  // (The caller may destroy a partial run meanwhile, in another thread.)
  const absl::flat_hash_map<Step*, std::shared_ptr<Step>> resting =
      state_->resting;
  lock.unlock();
  for (const auto& [key, step] : resting) step->AwaitEnd();
}

Graph& Session::graph() const { return state_->graph; }
SessionOptions Session::options() const {
  SessionOptions o = state_->options;
  o.resources = state_->backend == nullptr ? state_->resources : nullptr;
  o.devices = state_->devices;
  return o;
}
ResourceManager& Session::resources() const { return *state_->resources; }

Result<std::vector<Tensor>> Session::Run(const Feeds& feeds,
                                         const std::vector<Output>& fetches,
                                         const std::vector<Node*>& targets,
                                         const RunOptions& options,
                                         RunMetadata* metadata) {
  SLUICE_RETURN_IF_ERROR(state_->CheckReady());
  StepSignature s;
  std::vector<Tensor> values;
  for (const auto& [o, t] : feeds) {
    s.feeds.push_back(o);
    values.push_back(t);
  }
  s.fetches = fetches;
  s.targets = targets;
  // (Runs are counted whether they are traced or not.)
  const bool traced = options.trace && state_->options.cost_model_every <= 0;
  SLUICE_ASSIGN_OR_RETURN(
      std::shared_ptr<Compiled> c,
      state_->Cached(s, traced ? Purpose::kTraced : Purpose::kRun));
  std::vector<Tensor> results(fetches.size());
  SLUICE_RETURN_IF_ERROR(
      state_->RunAsAsked(*c, values, results, options, metadata));
  return results;
}

Result<Tensor> Session::Run(const Feeds& feeds, Output fetch) {
  SLUICE_ASSIGN_OR_RETURN(std::vector<Tensor> out,
                          Run(feeds, std::vector<Output>{fetch}));
  return std::move(out[0]);
}

Status Session::RunTargets(const std::vector<Node*>& targets,
                           const Feeds& feeds) {
  return Run(feeds, std::vector<Output>{}, targets).status();
}

Result<std::vector<Tensor>> Session::RunByName(
    const std::vector<std::pair<std::string, Tensor>>& feeds,
    const std::vector<std::string>& fetches,
    const std::vector<std::string>& targets, const RunOptions& options,
    RunMetadata* metadata) {
  SLUICE_RETURN_IF_ERROR(state_->CheckReady());
  Feeds f;
  std::vector<Output> outputs;
  std::vector<Node*> nodes;
  {
    std::lock_guard<std::recursive_mutex> lock(state_->graph.mutex());
    for (const auto& [name, t] : feeds) {
      SLUICE_ASSIGN_OR_RETURN(const Output o, state_->graph.FindOutput(name));
      f.emplace_back(o, t);
    }
    for (const std::string& name : fetches) {
      if (Node* n = state_->graph.FindNode(name);
          n != nullptr && n->num_outputs() == 0) {
        outputs.emplace_back(n);
        continue;
      }
      SLUICE_ASSIGN_OR_RETURN(const Output o, state_->graph.FindOutput(name));
      outputs.push_back(o);
    }
    for (const std::string& name : targets) {
      SLUICE_ASSIGN_OR_RETURN(Node * n, state_->graph.LookupNode(name));
      nodes.push_back(n);
    }
  }
  return Run(f, outputs, nodes, options, metadata);
}

Status Session::Close() {
  {
    // What a cancellation lets run starts without the lock.
    const HeldDriveScope drives_at_its_end;
    std::lock_guard<std::mutex> lock(state_->running_mu);
    state_->closed.store(true, std::memory_order_release);
    const Status why =
        Cancelled("step: expected an open session, got one that was closed");
    for (Step* e : state_->running) e->Cancel(why);
    for (const auto& [key, e] : state_->resting) e->Cancel(why);
  }
  return state_->backend != nullptr ? state_->backend->Close() : OkStatus();
}

Status Session::Reset(const std::vector<std::string>& containers) {
  SLUICE_RETURN_IF_ERROR(state_->CheckOpen());
  if (state_->backend != nullptr) return state_->backend->Reset(containers);
  for (const std::string& c : containers) state_->resources->ClearContainer(c);
  if (containers.empty()) state_->resources->Clear();
  return OkStatus();
}

Result<std::vector<std::string>> Session::ListDevices() {
  SLUICE_RETURN_IF_ERROR(state_->CheckOpen());
  if (state_->backend != nullptr) return state_->backend->ListDevices();
  std::vector<std::string> names;
  for (const auto& d : state_->devices) names.push_back(d->name().ToString());
  return names;
}

Result<Session::Callable> Session::MakeCallable(
    const std::vector<Output>& feeds, const std::vector<Output>& fetches,
    const std::vector<Node*>& targets) {
  SLUICE_RETURN_IF_ERROR(state_->CheckReady());
  Callable callable;
  callable.state_ = state_;
  SLUICE_ASSIGN_OR_RETURN(
      callable.compiled_,
      state_->Cached({feeds, fetches, targets}, Purpose::kRun));
  return callable;
}

Status Session::Callable::CheckReady() const {
  if (compiled_ == nullptr)
    return FailedPrecondition(
        "callable: expected one made by MakeCallable, got an empty one");
  return state_->CheckReady();
}

Result<std::shared_ptr<Session::Compiled>> Session::Callable::Current() const {
  if (state_->IsCurrent(*compiled_)) return compiled_;
  return state_->Cached(compiled_->asked, compiled_->purpose);
}

Result<std::vector<Tensor>> Session::Callable::Run(
    std::span<const Tensor> feeds, const RunOptions& options,
    RunMetadata* metadata) const {
  std::vector<Tensor> results(
      compiled_ == nullptr ? 0 : compiled_->asked.fetches.size());
  SLUICE_RETURN_IF_ERROR(RunInto(feeds, results, options, metadata));
  return results;
}

Status Session::Callable::RunInto(std::span<const Tensor> feeds,
                                  std::span<Tensor> results,
                                  const RunOptions& options,
                                  RunMetadata* metadata) const {
  SLUICE_RETURN_IF_ERROR(CheckReady());
  if (results.size() != compiled_->asked.fetches.size())
    return InvalidArgument("results: expected room for ",
                           compiled_->asked.fetches.size(), ", got ",
                           results.size());
  if (!state_->IsCurrent(*compiled_)) [[unlikely]] {
    SLUICE_ASSIGN_OR_RETURN(const std::shared_ptr<Compiled> now, Current());
    return state_->RunAsAsked(*now, feeds, results, options, metadata);
  }
  return state_->RunAsAsked(*compiled_, feeds, results, options, metadata);
}

}  // namespace sluice
