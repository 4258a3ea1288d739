#include "session/session.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <numeric>
#include <thread>
#include <unordered_map>

#include "base/thread_pool.h"
#include "exec/device.h"
#include "exec/on_cancel.h"
#include "graph/graphdef.h"
#include "passes/passes.h"
#include "passes/stage.h"
#include "session/backend.h"
#include "session/compile.h"
#include "session/step.h"

namespace sluice {
namespace {

int Cores() {
  static const int cores =
      std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  return cores;
}

}  // namespace

// What a plan is for.
enum class Session::Purpose : uint8_t {
  kRun,
  kTraced,  // Shows every node.
  kStaged,  // Is fed in stages.
};

// A step signature, compiled. Shared by the cache and callables; thread-safe.
struct Session::Compiled {
  // Constant once compiled.
  std::vector<BuiltPlan> built;      // None if the steps run elsewhere:
  uint64_t remote = 0;               // what the session's backend knows it by.
  std::vector<PartitionPlan> parts;  // One per device.
  StepSignature signature;
  std::vector<uint32_t> args;  // 0, 1, 2, ...
  std::vector<DType> feed_types;
  std::vector<PartialShape> feed_shapes;
  // By fetch; of a step that runs elsewhere and is fed in stages.
  std::vector<std::vector<size_t>> feeds_needed;

  // Those to be used again. GUARDED_BY(the session's running_mu)
  std::vector<std::unique_ptr<Step>> idle;

  Status CheckFeed(size_t i, const Tensor& t) const {
    if (t.dtype() == feed_types[i] &&
        (t.rank() == 0
             ? feed_shapes[i].rank() <= 0
             : feed_shapes[i].CompatibleWith(PartialShape(t.shape()))))
      return OkStatus();
    const Output& o = signature.feeds[i];
    return InvalidArgument("feed '", o.name(), "': expected ",
                           DTypeName(feed_types[i]), feed_shapes[i].ToString(),
                           ", got ", DTypeName(t.dtype()), t.shape().ToString(),
                           "; ", o.node->Describe());
  }
  // What another process gave: whoever reads it takes it for what was built.
  Status CheckFetch(size_t i, const Tensor& t) const {
    const Output& o = signature.fetches[i];
    const DType want = RemoveRef(o.dtype());
    if (t.valid() && t.dtype() == want) return OkStatus();
    return DataLoss("fetch '", o.name(), "': expected ", DTypeName(want),
                    ", got ", t.valid() ? DTypeName(t.dtype()) : "none", "; ",
                    o.node->Describe());
  }
};

// Everything behind a session; callables and partial runs share it.
struct Session::State {
  Graph& graph;
  const SessionOptions options;
  const std::shared_ptr<ResourceManager> resources;
  const std::vector<std::shared_ptr<Device>> devices;  // At least one.
  const int intra_op_threads;
  std::unique_ptr<ThreadPool> pool;  // Null if no threads were asked for.
  // Runs the steps, unless null: then they run here.
  std::unique_ptr<SessionBackend> backend;
  Status connected;  // Whether there is a backend, if there should be one.
  std::atomic<int64_t> next_step_id{1};

  // Held for a look, never while a step is compiled: that is done under the
  // graph's mutex, and steps that were compiled before go on meanwhile.
  std::mutex mu;
  std::unordered_map<std::string, std::shared_ptr<Compiled>>
      plans;  // GUARDED_BY(mu)
  StatefulKernels kernels;
  StateDevices state_devices;  // GUARDED_BY(graph.mutex())
  std::mutex running_mu;
  std::condition_variable idle_cv;
  std::vector<Step*> running;  // GUARDED_BY(running_mu); few.
  bool closed = false;         // GUARDED_BY(running_mu)

  State(Graph& g, SessionOptions o)
      : graph(g),
        options(o),
        resources(o.resources ? o.resources
                              : std::make_shared<ResourceManager>()),
        devices(o.devices.empty() ? CpuDevices(1) : o.devices),
        intra_op_threads(o.intra_op_threads > 0 ? o.intra_op_threads
                                                : Cores()) {
    // (Several devices run side by side.)
    const int others = std::min(Cores(), static_cast<int>(devices.size())) - 1;
    const int threads = o.inter_op_threads < 0
                            ? std::max(Cores() / intra_op_threads - 1, others)
                            : o.inter_op_threads;
    if (threads > 0) pool = std::make_unique<ThreadPool>(threads);
  }
  State(const std::string& target, Graph& g, SessionOptions o)
      : graph(g),
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

  Device& FindDevice(const std::string& name) const;
  Result<std::vector<StepPart>> Cut(OptimizedStep step, bool tell);
  Result<std::vector<std::string>> PartitionGraphs(const StepSignature& s);
  Result<std::shared_ptr<Compiled>> Compile(StepSignature s, Purpose purpose);
  Status Check(const StepSignature& s) const;
  Status CheckEdge(const Output& o, const char* list, size_t i) const;
  std::shared_ptr<Compiled> FindPlan(const std::string& key) {
    std::lock_guard<std::mutex> lock(mu);
    const auto it = plans.find(key);
    return it == plans.end() ? nullptr : it->second;
  }
  Result<std::shared_ptr<Compiled>> Cached(const StepSignature& s,
                                           Purpose purpose);
  Result<std::unique_ptr<Step>> Begin(Compiled& c, const RunOptions& run,
                                      TraceCollector* trace);
  void End(Compiled& c, std::unique_ptr<Step> e);
  // What the graph's builders recorded. While another thread builds or compiles
  // nothing is told: the next step does, and this one need not wait.
  Status GraphStatus() {
    SLUICE_RETURN_IF_ERROR(connected);
    std::unique_lock<std::recursive_mutex> lock(graph.mutex(),
                                                std::try_to_lock);
    return lock.owns_lock() ? graph.status() : OkStatus();
  }
  // A partial run counts as running only while a stage of it runs.
  Status Resume(Step* e) {
    std::lock_guard<std::mutex> lock(running_mu);
    if (closed)
      return FailedPrecondition(
          "session: expected an open one, got a closed one");
    running.push_back(e);
    return OkStatus();
  }
  static std::optional<std::chrono::steady_clock::time_point> DeadlineOf(
      const RunOptions& run) {
    if (run.timeout_ms <= 0) return std::nullopt;
    return std::chrono::steady_clock::now() +
           std::chrono::milliseconds(run.timeout_ms);
  }
  static Status CancelledByCaller() {
    return Cancelled("step: expected to run to its end, got cancelled");
  }
  void Rest(Step* e) {
    std::lock_guard<std::mutex> lock(running_mu);
    Remove(e);
  }
  void Remove(Step* e) {  // REQUIRES(running_mu)
    std::erase(running, e);
    if (running.empty()) idle_cv.notify_all();
  }
  Result<std::vector<Tensor>> RunStep(Compiled& c,
                                      std::span<const Tensor> feeds,
                                      const RunOptions& run,
                                      RunMetadata* metadata);
};

// ---- Compiling --------------------------------------------------------------

Device& Session::State::FindDevice(const std::string& name) const {
  for (const auto& d : devices)
    if (d->name().ToString() == name) return *d;
  return *devices[0];
}

// `tell`: the log, where the nodes go.
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
  SLUICE_ASSIGN_OR_RETURN(std::vector<StepPart> parts,
                          PlaceAndCut(std::move(step), placement, partition));
  if (tell) options.placement_log(FormatPlacements(log));
  return parts;
}

Result<std::shared_ptr<Session::Compiled>> Session::State::Compile(
    StepSignature s, Purpose purpose) {
  auto c = std::make_shared<Compiled>();
  for (size_t i = 0; i < s.feeds.size(); ++i) {
    c->args.push_back(static_cast<uint32_t>(i));
    c->feed_types.push_back(RemoveRef(s.feeds[i].dtype()));
    c->feed_shapes.push_back(s.feeds[i].shape());
  }
  c->signature = std::move(s);
  if (backend != nullptr) {
    SLUICE_ASSIGN_OR_RETURN(
        c->remote,
        backend->Prepare(graph, c->signature,
                         purpose == Purpose::kTraced   ? StepKind::kTraced
                         : purpose == Purpose::kStaged ? StepKind::kStaged
                                                       : StepKind::kWhole));
    if (purpose == Purpose::kStaged)
      c->feeds_needed = FeedsNeeded(graph, c->signature);
    return c;
  }
  SLUICE_ASSIGN_OR_RETURN(
      OptimizedStep step,
      OptimizeStep(graph, c->signature, options.constant_folding,
                   options.common_subexpressions));
  const bool regions = options.regions && options.scheduler_seed == 0 &&
                       purpose == Purpose::kRun;
  std::vector<StepPart> parts;
  if (purpose == Purpose::kStaged) {
    // (What waits for later feeds would keep the others from coming to rest.)
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
    Result<BuiltPlan> built =
        BuildPlan(std::move(part.graph), part.targets,
                  {.fusion = options.fusion && purpose != Purpose::kStaged &&
                             device.host_memory(),
                   .regions = regions && device.host_memory()},
                  [&](const Node& n, std::shared_ptr<Kernel>* k) {
                    return kernels.Get(n, make, k);
                  });
    // What is wrong is told of the nodes that the user knows, not of regions.
    if (!built.ok() && regions) return Compile(c->signature, Purpose::kTraced);
    SLUICE_RETURN_IF_ERROR(built.status());
    c->parts.push_back({built->plan, &device});
    c->built.push_back(*std::move(built));
  }
  return c;
}

Result<std::vector<std::string>> Session::State::PartitionGraphs(
    const StepSignature& s) {
  std::lock_guard<std::recursive_mutex> graph_lock(graph.mutex());
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

// Feeds, fetches and targets that a step may have.
Status Session::State::Check(const StepSignature& s) const {
  for (size_t i = 0; i < s.feeds.size(); ++i)
    SLUICE_RETURN_IF_ERROR(CheckEdge(s.feeds[i], "feeds", i));
  for (size_t i = 0; i < s.fetches.size(); ++i)
    SLUICE_RETURN_IF_ERROR(CheckEdge(s.fetches[i], "fetches", i));
  for (size_t i = 0; i < s.targets.size(); ++i) {
    const Node* n = s.targets[i];
    if (n == nullptr)
      return InvalidArgument("targets[", i, "]: expected a node, got none");
    if (n->graph() != &graph)
      return InvalidArgument("targets[", i,
                             "]: expected a node of the session's graph, got "
                             "one of another; ",
                             n->Describe());
  }
  return OkStatus();
}

// Whether a step may feed or fetch this edge, number `i` of a list.
Status Session::State::CheckEdge(const Output& o, const char* list,
                                 size_t i) const {
  if (!o)
    return InvalidArgument(list, "[", i,
                           "]: expected an output, got none; hint: a gradient "
                           "is none where y does not depend on x");
  if (o.graph() != &graph)
    return InvalidArgument(
        list, "[", i, "]: expected an output of the session's graph, got '",
        o.name(), "' of another; ", o.node->Describe());
  if (o.index < 0 || o.index >= o.node->num_outputs())
    return InvalidArgument(list, "[", i, "]: expected one of ",
                           o.node->num_outputs(), " outputs, got '", o.name(),
                           "'",
                           o.node->num_outputs() == 0 ? " (a target?)" : "",
                           "; ", o.node->Describe());
  return OkStatus();
}

Result<std::shared_ptr<Session::Compiled>> Session::State::Cached(
    const StepSignature& s, Purpose purpose) {
  std::string key;
  auto add = [&key](int64_t v) {
    key.append(reinterpret_cast<const char*>(&v), sizeof(v));
  };
  // Others may be building: without the graph's mutex nothing is read of a node
  // but what never changes.
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
    if (std::shared_ptr<Compiled> c = FindPlan(key)) return c;
  std::lock_guard<std::recursive_mutex> graph_lock(graph.mutex());
  SLUICE_RETURN_IF_ERROR(graph.status());
  SLUICE_RETURN_IF_ERROR(Check(s));
  if (std::shared_ptr<Compiled> c = FindPlan(key)) return c;
  SLUICE_ASSIGN_OR_RETURN(std::shared_ptr<Compiled> c, Compile(s, purpose));
  std::lock_guard<std::mutex> lock(mu);
  plans.emplace(std::move(key), c);
  return c;
}

// ---- Running ----------------------------------------------------------------

// A step that has started, and counts as running until Rest or End.
Result<std::unique_ptr<Step>> Session::State::Begin(Compiled& c,
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
  o.scheduler_seed = options.scheduler_seed == 0
                         ? 0
                         : options.scheduler_seed +
                               static_cast<uint64_t>(o.step.step_id) * 7919;
  o.deadline = DeadlineOf(run);
  std::unique_ptr<Step> e;
  std::unique_lock<std::mutex> lock(running_mu);
  if (c.idle.empty()) {
    lock.unlock();
    e = std::make_unique<Step>(c.parts);
    lock.lock();
  } else {
    e = std::move(c.idle.back());
    c.idle.pop_back();
  }
  if (closed)
    return FailedPrecondition(
        "session: expected an open one, got a closed one");
  e->Start(o);
  running.push_back(e.get());
  return e;
}

void Session::State::End(Compiled& c, std::unique_ptr<Step> e) {
  e->Finish();
  std::lock_guard<std::mutex> lock(running_mu);
  Remove(e.get());
  c.idle.push_back(std::move(e));
}

Result<std::vector<Tensor>> Session::State::RunStep(
    Compiled& c, std::span<const Tensor> feeds, const RunOptions& run,
    RunMetadata* metadata) {
  if (feeds.size() != c.args.size())
    return InvalidArgument("feeds: expected ", c.args.size(), ", got ",
                           feeds.size());
  for (size_t i = 0; i < feeds.size(); ++i)
    SLUICE_RETURN_IF_ERROR(c.CheckFeed(i, feeds[i]));
  const bool measured = metadata != nullptr;
  const bool shown = measured && run.partition_graphs;
  if (backend != nullptr) {
    if (shown)
      return Unimplemented(
          "partition graphs: expected a session of this process, got one of a "
          "cluster");
    SLUICE_ASSIGN_OR_RETURN(std::vector<Tensor> out,
                            backend->Run(c.remote, feeds, run, metadata));
    if (out.size() != c.signature.fetches.size())
      return DataLoss("fetches: expected ", c.signature.fetches.size(),
                      " from the cluster, got ", out.size());
    for (size_t i = 0; i < out.size(); ++i)
      SLUICE_RETURN_IF_ERROR(c.CheckFetch(i, out[i]));
    return out;
  }
  std::vector<std::string> graphs;
  if (shown) {
    SLUICE_ASSIGN_OR_RETURN(graphs, PartitionGraphs(c.signature));
  }
  TraceCollector trace;
  const int64_t start = measured ? NowNs() : 0;
  if (measured) Allocator::Cpu()->ResetPeak();
  const int64_t live = measured ? Allocator::Cpu()->stats().live_bytes : 0;

  SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<Step> e,
                          Begin(c, run, run.trace ? &trace : nullptr));
  Status status;
  {
    const OnCancel on_cancel(run.cancellation,
                             [&e] { e->Cancel(CancelledByCaller()); });
    status = e->Run(c.args, feeds);
  }
  std::vector<Tensor> out;
  const size_t fetches = c.signature.fetches.size();
  out.reserve(fetches);
  for (uint32_t i = 0; status.ok() && i < fetches; ++i) {
    Tensor* value = e->result(i);
    if (value == nullptr) {
      status = e->MissingResult(i);
      break;
    }
    out.push_back(std::move(*value));
  }
  End(c, std::move(e));

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
  if (!status.ok()) return status;
  return out;
}

Session::Session(Graph& graph, SessionOptions options)
    : state_(std::make_shared<State>(graph, std::move(options))) {}

Session::Session(const std::string& target, Graph& graph,
                 SessionOptions options)
    : state_(std::make_shared<State>(target, graph, std::move(options))) {}

Session::~Session() {
  (void)Close();
  std::unique_lock<std::mutex> lock(state_->running_mu);
  state_->idle_cv.wait(lock, [this] { return state_->running.empty(); });
}

Graph& Session::graph() const { return state_->graph; }
ResourceManager& Session::resources() const { return *state_->resources; }

Result<std::vector<Tensor>> Session::Run(const Feeds& feeds,
                                         const std::vector<Output>& fetches,
                                         const std::vector<Node*>& targets,
                                         const RunOptions& options,
                                         RunMetadata* metadata) {
  SLUICE_RETURN_IF_ERROR(state_->GraphStatus());
  StepSignature s;
  std::vector<Tensor> values;
  for (const auto& [o, t] : feeds) {
    s.feeds.push_back(o);
    values.push_back(t);
  }
  s.fetches = fetches;
  s.targets = targets;
  SLUICE_ASSIGN_OR_RETURN(
      std::shared_ptr<Compiled> c,
      state_->Cached(s, options.trace ? Purpose::kTraced : Purpose::kRun));
  return state_->RunStep(*c, values, options, metadata);
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
      Node* n = state_->graph.FindNode(name);
      if (n != nullptr && n->num_outputs() == 0) {
        nodes.push_back(n);
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
  if (state_->backend != nullptr) return state_->backend->Close();
  std::lock_guard<std::mutex> lock(state_->running_mu);
  state_->closed = true;
  for (Step* e : state_->running)
    e->Cancel(
        Cancelled("step: expected an open session, got one that was closed"));
  return OkStatus();
}

Status Session::Reset(const std::vector<std::string>& containers) {
  SLUICE_RETURN_IF_ERROR(state_->connected);
  if (state_->backend != nullptr) return state_->backend->Reset(containers);
  for (const std::string& c : containers) state_->resources->ClearContainer(c);
  if (containers.empty()) state_->resources->Clear();
  return OkStatus();
}

Result<std::vector<std::string>> Session::ListDevices() {
  SLUICE_RETURN_IF_ERROR(state_->connected);
  if (state_->backend != nullptr) return state_->backend->ListDevices();
  std::vector<std::string> names;
  for (const auto& d : state_->devices) names.push_back(d->name().ToString());
  return names;
}

Result<Session::Callable> Session::MakeCallable(
    const std::vector<Output>& feeds, const std::vector<Output>& fetches,
    const std::vector<Node*>& targets) {
  SLUICE_RETURN_IF_ERROR(state_->GraphStatus());
  Callable callable;
  callable.state_ = state_;
  SLUICE_ASSIGN_OR_RETURN(
      callable.compiled_,
      state_->Cached({feeds, fetches, targets}, Purpose::kRun));
  return callable;
}

Result<std::vector<Tensor>> Session::Callable::Run(
    std::span<const Tensor> feeds, const RunOptions& options,
    RunMetadata* metadata) const {
  if (compiled_ == nullptr)
    return FailedPrecondition(
        "callable: expected one that MakeCallable gave, got an empty one");
  if (!options.trace)
    return state_->RunStep(*compiled_, feeds, options, metadata);
  SLUICE_ASSIGN_OR_RETURN(
      std::shared_ptr<Compiled> traced,
      state_->Cached(compiled_->signature, Purpose::kTraced));
  return state_->RunStep(*traced, feeds, options, metadata);
}

// ---- Partial runs -----------------------------------------------------------

struct Session::PartialRun::Stage {
  std::shared_ptr<Compiled> compiled;
  std::unique_ptr<Step> execution;            // Or, if the step runs elsewhere,
  std::unique_ptr<BackendPartialRun> remote;  // this.
  RunOptions options;
  std::vector<uint8_t> fed, fetched;
  // Of a step that runs elsewhere, which gives each fetch once: those that came
  // with one that is dead, and, without a value, the dead.
  std::map<uint32_t, std::optional<Tensor>> kept;
  Status failed;

  // Why a fetch cannot be given, if the feeds `among` that have not been given
  // are why; OK otherwise.
  Status Missing(uint32_t fetch, const std::vector<size_t>& among) const {
    const StepSignature& sig = compiled->signature;
    std::string names;
    for (const size_t f : among)
      if (fed[f] == 0)
        absl::StrAppend(&names, names.empty() ? "'" : ", '",
                        sig.feeds[f].name(), "'");
    if (names.empty()) return OkStatus();
    return InvalidArgument("partial run: expected '", sig.fetches[fetch].name(),
                           "' to depend on what has been fed, got feeds "
                           "missing among ",
                           names);
  }
  Result<std::vector<Tensor>> RunElsewhere(const std::vector<uint32_t>& args,
                                           const std::vector<Tensor>& values,
                                           const std::vector<uint32_t>& wanted,
                                           const RunOptions& options);
};

Result<std::unique_ptr<Session::PartialRun>> Session::StartPartialRun(
    const std::vector<Output>& feeds, const std::vector<Output>& fetches,
    const std::vector<Node*>& targets) {
  SLUICE_RETURN_IF_ERROR(state_->GraphStatus());
  SLUICE_ASSIGN_OR_RETURN(
      std::shared_ptr<Compiled> c,
      state_->Cached({feeds, fetches, targets}, Purpose::kStaged));
  std::unique_ptr<PartialRun> run(new PartialRun);
  run->state_ = state_;
  run->stage_ = std::make_unique<PartialRun::Stage>();
  PartialRun::Stage& stage = *run->stage_;
  stage.compiled = c;
  stage.fed.resize(feeds.size());
  stage.fetched.resize(fetches.size());
  if (state_->backend != nullptr) {
    SLUICE_ASSIGN_OR_RETURN(stage.remote,
                            state_->backend->StartPartialRun(c->remote));
    return run;
  }
  SLUICE_ASSIGN_OR_RETURN(stage.execution,
                          state_->Begin(*c, stage.options, nullptr));
  state_->Rest(stage.execution.get());
  return run;
}

Session::PartialRun::~PartialRun() {
  if (stage_ == nullptr || stage_->execution == nullptr) return;
  state_->End(*stage_->compiled, std::move(stage_->execution));
}

Result<std::vector<Tensor>> Session::PartialRun::Run(
    const Feeds& feeds, const std::vector<Output>& fetches,
    const RunOptions& options) {
  Stage& s = *stage_;
  SLUICE_RETURN_IF_ERROR(s.failed);
  if (options.trace || options.log)
    return InvalidArgument(
        "partial run: expected a timeout and a cancellation as options of a "
        "stage, got a ",
        options.trace ? "trace" : "log");
  const StepSignature& sig = s.compiled->signature;
  std::vector<uint32_t> args;
  std::vector<Tensor> values;
  for (const auto& [o, t] : feeds) {
    const auto i = static_cast<size_t>(
        std::find(sig.feeds.begin(), sig.feeds.end(), o) - sig.feeds.begin());
    if (i == sig.feeds.size())
      return InvalidArgument("partial run: expected a declared feed, got '",
                             o.name(), "'");
    const bool again = std::find(args.begin(), args.end(),
                                 static_cast<uint32_t>(i)) != args.end();
    if (s.fed[i] != 0 || again)
      return InvalidArgument("partial run: expected each edge fed once, got '",
                             o.name(), "' again");
    SLUICE_RETURN_IF_ERROR(s.compiled->CheckFeed(i, t));
    args.push_back(static_cast<uint32_t>(i));
    values.push_back(t);
  }
  std::vector<uint32_t> wanted;
  for (const Output& o : fetches) {
    size_t i = 0;
    auto taken = [&](size_t f) {
      return s.fetched[f] != 0 ||
             std::find(wanted.begin(), wanted.end(), f) != wanted.end();
    };
    while (i < sig.fetches.size() && (!(sig.fetches[i] == o) || taken(i))) ++i;
    if (i == sig.fetches.size()) {
      const bool again = std::find(sig.fetches.begin(), sig.fetches.end(), o) !=
                         sig.fetches.end();
      return InvalidArgument(
          again ? "partial run: expected each edge fetched once, got '"
                : "partial run: expected a declared fetch, got '",
          o.name(), again ? "' again" : "'");
    }
    wanted.push_back(static_cast<uint32_t>(i));
  }
  if (s.remote != nullptr) return s.RunElsewhere(args, values, wanted, options);
  SLUICE_RETURN_IF_ERROR(state_->Resume(s.execution.get()));
  for (uint32_t a : args) s.fed[a] = 1;
  s.execution->SetDeadline(State::DeadlineOf(options));
  {
    const OnCancel on_cancel(options.cancellation, [&s] {
      s.execution->Cancel(State::CancelledByCaller());
    });
    s.failed = s.execution->Run(args, values);
  }
  state_->Rest(s.execution.get());
  SLUICE_RETURN_IF_ERROR(s.failed);
  std::vector<Tensor> out;
  for (uint32_t i : wanted) {
    const Tensor* value = s.execution->result(i);
    if (value == nullptr) {
      std::vector<size_t> all(s.fed.size());
      std::iota(all.begin(), all.end(), size_t{0});
      SLUICE_RETURN_IF_ERROR(s.Missing(i, all));
      return s.execution->MissingResult(i);
    }
    out.push_back(*value);
  }
  for (uint32_t i : wanted) s.fetched[i] = 1;
  return out;
}

// Whoever runs the step waits for what is fetched: it is asked for nothing that
// may never come.
Result<std::vector<Tensor>> Session::PartialRun::Stage::RunElsewhere(
    const std::vector<uint32_t>& args, const std::vector<Tensor>& values,
    const std::vector<uint32_t>& wanted, const RunOptions& options) {
  const std::vector<uint8_t> fed_before = fed;
  for (const uint32_t a : args) fed[a] = 1;
  for (const uint32_t i : wanted)
    if (Status missing = Missing(i, compiled->feeds_needed[i]); !missing.ok()) {
      fed = fed_before;
      return missing;
    }
  std::vector<uint32_t> asked;
  for (const uint32_t i : wanted)
    if (!kept.contains(i)) asked.push_back(i);
  if (!asked.empty() || !args.empty() || wanted.empty()) {
    Result<std::vector<std::optional<Tensor>>> got =
        remote->Run(args, values, asked, options);
    failed = got.status();
    SLUICE_RETURN_IF_ERROR(failed);
    for (size_t i = 0; i < asked.size(); ++i) {
      if (const std::optional<Tensor>& t = (*got)[i]; t && failed.ok())
        failed = compiled->CheckFetch(asked[i], *t);
      kept[asked[i]] = std::move((*got)[i]);
    }
    SLUICE_RETURN_IF_ERROR(failed);
  }
  for (const uint32_t i : wanted) {
    const Output& fetch = compiled->signature.fetches[i];
    if (!kept[i])
      return InvalidArgument("fetch: expected a value, got none from '",
                             fetch.name(),
                             "', which lies in a branch that was not taken; ",
                             fetch.node->Describe());
  }
  std::vector<Tensor> out;
  for (const uint32_t i : wanted) {
    out.push_back(*std::move(kept[i]));
    kept.erase(i);
    fetched[i] = 1;
  }
  return out;
}

}  // namespace sluice
