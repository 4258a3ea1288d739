// Sessions, their options, partial runs and devices.
#include "session/session.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <shared_mutex>

#include "absl/container/flat_hash_set.h"
#include "absl/container/inlined_vector.h"
#include "capi/handles.h"
#include "deploy/saved_model.h"
#include "graph/device_name.h"
#include "graph/graphdef_messages.h"
#include "session/proto/config.pb.h"
#include "session/session_config.h"
#include "session/step_stats.h"

namespace sluice::capi {

// The arguments of a step.
struct StepArguments {
  const TF_Output* inputs;
  int ninputs;
  const TF_Output* outputs;
  int noutputs;
  const TF_Operation* const* targets;
  int ntargets;

  Status Check() const {
    if (ninputs < 0 || (ninputs > 0 && inputs == nullptr))
      return GivenArray(inputs, ninputs, "inputs");
    if (noutputs < 0 || (noutputs > 0 && outputs == nullptr))
      return GivenArray(outputs, noutputs, "outputs");
    return GivenArray(targets, ntargets, "targets");
  }
  std::vector<Output> Feeds() const { return ListOf(inputs, ninputs); }
  std::vector<Output> Fetches() const { return ListOf(outputs, noutputs); }
  std::vector<Node*> Targets() const {
    std::vector<Node*> list;
    for (int i = 0; i < ntargets; ++i) list.push_back(FromC(targets[i]));
    return list;
  }
  size_t Hash() const {
    size_t h = static_cast<size_t>(ninputs);
    const auto mix = [&h](const void* p, size_t n) {
      constexpr size_t kOdd = 0x9e3779b97f4a7c15;
      h = (h ^ (reinterpret_cast<uintptr_t>(p) + n)) * kOdd;
      h ^= h >> 32;
    };
    for (int i = 0; i < ninputs; ++i)
      mix(inputs[i].oper, static_cast<size_t>(inputs[i].index));
    for (int i = 0; i < noutputs; ++i)
      mix(outputs[i].oper, static_cast<size_t>(outputs[i].index));
    for (int i = 0; i < ntargets; ++i) mix(targets[i], 0);
    return h;
  }
  bool operator==(const StepArguments& o) const {
    const auto same = [](const TF_Output& a, const TF_Output& b) {
      return a.oper == b.oper && a.index == b.index;
    };
    return std::equal(inputs, inputs + ninputs, o.inputs, o.inputs + o.ninputs,
                      same) &&
           std::equal(outputs, outputs + noutputs, o.outputs,
                      o.outputs + o.noutputs, same) &&
           std::equal(targets, targets + ntargets, o.targets,
                      o.targets + o.ntargets);
  }

 private:
  static std::vector<Output> ListOf(const TF_Output* list, int n) {
    std::vector<Output> all;
    for (int i = 0; i < n; ++i) all.push_back(FromC(list[i]));
    return all;
  }
};

// A step that was prepared, with its arguments. Immutable.
struct Prepared {
  const std::vector<TF_Output> inputs, outputs;
  const std::vector<const TF_Operation*> targets;
  const Session::Callable step;

  Prepared(const StepArguments& a, Session::Callable s)
      : inputs(a.inputs, a.inputs + a.ninputs),
        outputs(a.outputs, a.outputs + a.noutputs),
        targets(a.targets, a.targets + a.ntargets),
        step(std::move(s)) {}
  StepArguments Arguments() const {
    return {inputs.data(),  static_cast<int>(inputs.size()),
            outputs.data(), static_cast<int>(outputs.size()),
            targets.data(), static_cast<int>(targets.size())};
  }
};

// Prepared steps are found by their arguments.
struct HashStep {
  using is_transparent = void;
  size_t operator()(const StepArguments& a) const { return a.Hash(); }
  size_t operator()(const std::unique_ptr<Prepared>& p) const {
    return p->Arguments().Hash();
  }
};
struct SameStep {
  using is_transparent = void;
  static StepArguments Of(const StepArguments& a) { return a; }
  static StepArguments Of(const std::unique_ptr<Prepared>& p) {
    return p->Arguments();
  }
  template <typename A, typename B>
  bool operator()(const A& a, const B& b) const {
    return Of(a) == Of(b);
  }
};
using PreparedSteps =
    absl::flat_hash_set<std::unique_ptr<Prepared>, HashStep, SameStep>;

}  // namespace sluice::capi

// A session of a graph, which it keeps alive. Thread-safe.
struct TF_Session {
  // A session with the steps that were prepared for it. Plans do not see
  // changes of edges that existed (TF_UpdateEdge): after one, another takes
  // over, which shares the resources. The old one lives as long as its steps.
  struct Era {
    sluice::Session session;
    const int64_t edits;                   // Of the graph, when it began.
    sluice::capi::PreparedSteps prepared;  // GUARDED_BY(TF_Session::mu)
    // The one that ran last: many programs run one step over and over.
    std::atomic<const sluice::capi::Prepared*> latest{nullptr};
    template <typename... Args>
    explicit Era(int64_t e, Args&&... args)
        : session(std::forward<Args>(args)...), edits(e) {}
  };
  TF_Graph* const graph;
  const int64_t timeout_ms;
  const bool local;
  bool closed = false;  // GUARDED_BY(mu)
  std::shared_mutex mu;
  std::shared_ptr<Era> era;                // GUARDED_BY(mu)
  std::vector<std::weak_ptr<Era>> before;  // GUARDED_BY(mu)

  TF_Session(TF_Graph* g, const TF_SessionOptions& o)
      : graph(g),
        timeout_ms(o.timeout_ms),
        local(o.target.empty() || o.target == "local"),
        era(local ? std::make_shared<Era>(g->edits.load(), *g, o.options)
                  : std::make_shared<Era>(g->edits.load(), o.target, *g,
                                          o.options)) {
    g->users.fetch_add(1);
  }
  ~TF_Session();

  // Whether the steps that begin now belong to `era`. REQUIRES: mu.
  bool IsCurrent() const { return !local || era->edits == graph->edits.load(); }
  // The one for a step that begins now.
  std::shared_ptr<Era> Current() {
    {
      std::shared_lock<std::shared_mutex> lock(mu);
      if (IsCurrent()) return era;
    }
    std::lock_guard<std::shared_mutex> lock(mu);
    const int64_t edits = graph->edits.load();
    if (closed || era->edits == edits) return era;
    auto next = std::make_shared<Era>(edits, *graph, era->session.options());
    std::erase_if(before, [](const auto& e) { return e.expired(); });
    before.push_back(era);
    era = std::move(next);
    return era;
  }
  sluice::Status Close() {
    std::lock_guard<std::shared_mutex> lock(mu);
    closed = true;
    for (const std::weak_ptr<Era>& e : before)
      if (const std::shared_ptr<Era> old = e.lock()) (void)old->session.Close();
    return era->session.Close();
  }
};

struct TF_DeprecatedSession {
  TF_Graph* graph;
  TF_Session* session;
};

struct TF_DeviceList {
  struct Device {
    std::string name, type;
    int64_t memory;
    uint64_t incarnation;
  };
  std::vector<Device> devices;
};

using namespace sluice;        // NOLINT
using namespace sluice::capi;  // NOLINT

namespace {

// ---- Steps ------------------------------------------------------------------

// A prepared step, and what keeps it alive.
struct StepToRun {
  std::shared_ptr<TF_Session::Era> era;
  const Session::Callable* step = nullptr;
};

Status Prepare(TF_Session& s, const StepArguments& step, StepToRun* found) {
  {
    std::shared_lock<std::shared_mutex> lock(s.mu);
    if (s.IsCurrent()) {
      const Prepared* known = s.era->latest.load(std::memory_order_relaxed);
      if (known == nullptr || !(known->Arguments() == step)) {
        const auto it = s.era->prepared.find(step);
        known = it == s.era->prepared.end() ? nullptr : it->get();
        if (known != nullptr)
          s.era->latest.store(known, std::memory_order_relaxed);
      }
      if (known != nullptr) {
        *found = {s.era, &known->step};
        return OkStatus();
      }
    }
  }
  std::shared_ptr<TF_Session::Era> era = s.Current();
  SLUICE_ASSIGN_OR_RETURN(
      Session::Callable made,
      era->session.MakeCallable(step.Feeds(), step.Fetches(), step.Targets()));
  auto prepared = std::make_unique<Prepared>(step, std::move(made));
  std::lock_guard<std::shared_mutex> lock(s.mu);
  const auto it = era->prepared.insert(std::move(prepared)).first;
  found->step = &(*it)->step;
  found->era = std::move(era);
  return OkStatus();
}

using Values = absl::InlinedVector<Tensor, 4>;

Status ReadValues(TF_Tensor* const* values, int n, Values* list) {
  list->reserve(static_cast<size_t>(n));
  for (int i = 0; i < n; ++i) {
    const TF_Tensor* const v = values[i];
    if (v != nullptr && v->strings == nullptr && v->value().valid()) {
      list->push_back(v->value());
      continue;
    }
    Result<Tensor> t = ToTensor(v);
    if (!t.ok()) return Annotate(t.status(), absl::StrCat("input ", i));
    list->push_back(*std::move(t));
  }
  return OkStatus();
}

// Hands results to the caller: all, or on an error none.
Status Return(std::span<Tensor> results, TF_Tensor** output_values) {
  for (size_t i = 0; i < results.size(); ++i) {
    Result<TF_Tensor*> made = NewTensor(std::move(results[i]));
    if (!made.ok()) {
      for (size_t k = 0; k < i; ++k) {
        TF_DeleteTensor(output_values[k]);
        output_values[k] = nullptr;
      }
      return made.status();
    }
    output_values[i] = *made;
  }
  return OkStatus();
}

Status ReadRunOptions(const TF_Buffer* bytes, RunOptions* options) {
  if (bytes == nullptr) return OkStatus();
  proto::RunOptions p;
  SLUICE_RETURN_IF_ERROR(ParseMessage(Bytes(bytes), "RunOptions", &p));
  if (p.timeout_in_ms() > 0) options->timeout_ms = p.timeout_in_ms();
  options->trace = p.trace_level() != proto::RunOptions::NO_TRACE;
  options->partition_graphs = p.output_partition_graphs();
  return OkStatus();
}

// Serialised, with the partition graphs.
Result<std::string> MetadataBytes(const RunMetadata& m) {
  proto::RunMetadata p;
  SLUICE_RETURN_IF_ERROR(
      ParseMessage(SerializeRunMetadata(m), "RunMetadata", &p));
  for (const std::string& graph : m.partition_graphs)
    SLUICE_RETURN_IF_ERROR(
        ParseMessage(graph, "GraphDef", p.add_partition_graphs()));
  return SerializeProto(p);
}

// What a failed call leaves.
void Clear(TF_Tensor** values, int n) {
  for (int i = 0; values != nullptr && i < n; ++i) values[i] = nullptr;
}

Status RunStep(TF_Session* s, const TF_Buffer* run_options,
               const StepArguments& step, TF_Tensor* const* input_values,
               TF_Tensor** output_values, TF_Buffer* run_metadata) {
  Clear(output_values, step.noutputs);
  SLUICE_RETURN_IF_ERROR(Given(s, "session"));
  SLUICE_RETURN_IF_ERROR(step.Check());
  SLUICE_RETURN_IF_ERROR(GivenArray(input_values, step.ninputs, "values"));
  SLUICE_RETURN_IF_ERROR(
      GivenArray(output_values, step.noutputs, "room for the values"));
  SLUICE_RETURN_IF_ERROR(GivenEmpty(run_metadata, "run metadata"));
  RunOptions options;
  options.timeout_ms = s->timeout_ms;
  if (run_options != nullptr)
    SLUICE_RETURN_IF_ERROR(ReadRunOptions(run_options, &options));
  Values feeds;
  SLUICE_RETURN_IF_ERROR(ReadValues(input_values, step.ninputs, &feeds));
  StepToRun prepared;
  SLUICE_RETURN_IF_ERROR(Prepare(*s, step, &prepared));
  std::optional<RunMetadata> metadata;
  if (run_metadata != nullptr) metadata.emplace();
  Values out(static_cast<size_t>(step.noutputs));
  SLUICE_RETURN_IF_ERROR(prepared.step->RunInto(
      {feeds.data(), feeds.size()}, {out.data(), out.size()}, options,
      metadata ? &*metadata : nullptr));
  if (metadata) {
    SLUICE_ASSIGN_OR_RETURN(const std::string bytes, MetadataBytes(*metadata));
    SLUICE_RETURN_IF_ERROR(Fill(run_metadata, bytes));
  }
  return Return({out.data(), out.size()}, output_values);
}

// ---- Partial runs -----------------------------------------------------------

// A step in stages; one stage at a time.
struct Staged {
  TF_Session* session;
  std::shared_ptr<TF_Session::Era> era;
  std::vector<Node*> targets;
  std::mutex mu;
  std::unique_ptr<Session::PartialRun> run;  // Null once it has ended.
};

// Those of all sessions, by their handles.
struct StagedSteps {
  std::mutex mu;
  std::map<std::string, std::shared_ptr<Staged>> steps;
  uint64_t next = 0;

  static StagedSteps& All() {
    static auto* all = new StagedSteps;
    return *all;
  }
  std::shared_ptr<Staged> Find(const std::string& handle) {
    std::lock_guard<std::mutex> lock(mu);
    const auto it = steps.find(handle);
    return it == steps.end() ? nullptr : it->second;
  }
  std::string Add(std::shared_ptr<Staged> step) {
    std::lock_guard<std::mutex> lock(mu);
    std::string handle = absl::StrCat("prun_", next++);
    steps.emplace(handle, std::move(step));
    return handle;
  }
  void Remove(const std::string& handle) {
    std::shared_ptr<Staged> step;
    std::lock_guard<std::mutex> lock(mu);
    const auto it = steps.find(handle);
    if (it == steps.end()) return;
    step = std::move(it->second);
    steps.erase(it);
  }
  // Those of a session, which is being deleted.
  void RemoveOf(const TF_Session* session) {
    std::vector<std::shared_ptr<Staged>> gone;
    std::lock_guard<std::mutex> lock(mu);
    for (auto it = steps.begin(); it != steps.end();)
      if (it->second->session == session) {
        gone.push_back(std::move(it->second));
        it = steps.erase(it);
      } else {
        ++it;
      }
  }
};

Status Setup(TF_Session* s, const StepArguments& step, const char** handle) {
  SLUICE_RETURN_IF_ERROR(Given(handle, "room for the handle"));
  *handle = nullptr;
  SLUICE_RETURN_IF_ERROR(Given(s, "session"));
  SLUICE_RETURN_IF_ERROR(step.Check());
  auto staged = std::make_shared<Staged>();
  staged->session = s;
  staged->era = s->Current();
  staged->targets = step.Targets();
  SLUICE_ASSIGN_OR_RETURN(staged->run,
                          staged->era->session.StartPartialRun(
                              step.Feeds(), step.Fetches(), staged->targets));
  const std::string text = StagedSteps::All().Add(std::move(staged));
  char* copy = new char[text.size() + 1];
  std::copy(text.c_str(), text.c_str() + text.size() + 1, copy);
  *handle = copy;
  return OkStatus();
}

Status RunStage(TF_Session* s, const char* handle, const StepArguments& step,
                TF_Tensor* const* input_values, TF_Tensor** output_values) {
  Clear(output_values, step.noutputs);
  SLUICE_RETURN_IF_ERROR(Given(s, "session"));
  SLUICE_RETURN_IF_ERROR(Given(handle, "handle"));
  SLUICE_RETURN_IF_ERROR(step.Check());
  SLUICE_RETURN_IF_ERROR(GivenArray(input_values, step.ninputs, "values"));
  SLUICE_RETURN_IF_ERROR(
      GivenArray(output_values, step.noutputs, "room for the values"));
  const std::shared_ptr<Staged> staged = StagedSteps::All().Find(handle);
  if (staged == nullptr || staged->session != s)
    return InvalidArgument(
        "handle: expected one of a partial run of the "
        "session, got '",
        handle, "'");
  for (Node* target : step.Targets())
    if (std::find(staged->targets.begin(), staged->targets.end(), target) ==
        staged->targets.end())
      return InvalidArgument(
          "partial run: expected targets of its setup, got "
          "another");
  Values values;
  SLUICE_RETURN_IF_ERROR(ReadValues(input_values, step.ninputs, &values));
  Feeds feeds;
  const std::vector<Output> fed = step.Feeds();
  for (size_t i = 0; i < fed.size(); ++i) feeds.emplace_back(fed[i], values[i]);
  std::lock_guard<std::mutex> lock(staged->mu);
  SLUICE_ASSIGN_OR_RETURN(
      std::vector<Tensor> out,
      staged->run->Run(feeds, step.Fetches(), {.timeout_ms = s->timeout_ms}));
  return Return(out, output_values);
}

// ---- By names ---------------------------------------------------------------

// The arguments of a step that are given by their names.
struct NamedStep {
  std::vector<TF_Output> inputs, outputs;
  std::vector<TF_Operation*> targets;
  StepArguments Arguments() const {
    return {inputs.data(),  static_cast<int>(inputs.size()),
            outputs.data(), static_cast<int>(outputs.size()),
            targets.data(), static_cast<int>(targets.size())};
  }
};

// `call`: what TensorFlow's error for a session without a graph names.
Result<NamedStep> Named(TF_DeprecatedSession* s, const char* call,
                        const char** inputs, int ninputs, const char** outputs,
                        int noutputs, const char** targets, int ntargets) {
  SLUICE_RETURN_IF_ERROR(Given(s, "session"));
  SLUICE_RETURN_IF_ERROR(GivenArray(inputs, ninputs, "inputs"));
  SLUICE_RETURN_IF_ERROR(GivenArray(outputs, noutputs, "outputs"));
  SLUICE_RETURN_IF_ERROR(GivenArray(targets, ntargets, "targets"));
  std::lock_guard<std::recursive_mutex> lock(s->graph->mutex());
  if (s->graph->nodes().empty())
    return InvalidArgument("Session was not created with a graph before ", call,
                           "!");
  NamedStep step;
  for (int i = 0; i < ninputs; ++i) {
    SLUICE_ASSIGN_OR_RETURN(const Output o,
                            s->graph->FindOutput(View(inputs[i])));
    step.inputs.push_back(ToC(o));
  }
  for (int i = 0; i < noutputs; ++i) {
    SLUICE_ASSIGN_OR_RETURN(const Output o,
                            s->graph->FindOutput(View(outputs[i])));
    step.outputs.push_back(ToC(o));
  }
  for (int i = 0; i < ntargets; ++i) {
    SLUICE_ASSIGN_OR_RETURN(Node* const n,
                            s->graph->LookupNode(View(targets[i])));
    step.targets.push_back(ToC(n));
  }
  return step;
}

// ---- Devices ----------------------------------------------------------------

Result<TF_DeviceList*> ListDevices(TF_Session* s) {
  SLUICE_RETURN_IF_ERROR(Given(s, "session"));
  SLUICE_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                          s->Current()->session.ListDevices());
  static const uint64_t process = std::random_device()();
  auto list = std::make_unique<TF_DeviceList>();
  for (const std::string& name : names) {
    SLUICE_ASSIGN_OR_RETURN(const DeviceName parsed, DeviceName::Parse(name));
    // (Of tasks elsewhere nothing more is known.)
    const bool here = parsed.job == "localhost" && parsed.type == "CPU";
    const int64_t memory =
        here ? int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE) : 0;
    const uint64_t incarnation =
        (process << 32 ^ std::hash<std::string>()(name)) | 1;
    list->devices.push_back({name, parsed.type, memory, incarnation});
  }
  return list.release();
}

// Reports what fn returns of a device.
template <typename Fn>
void OfDevice(const TF_DeviceList* list, int index, TF_Status* status,
              Fn&& fn) {
  Report(status, "device", [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(Given(list, "device list"));
    if (index < 0 || static_cast<size_t>(index) >= list->devices.size())
      return InvalidArgument("device: expected one of ", list->devices.size(),
                             ", got ", index);
    fn(list->devices[static_cast<size_t>(index)]);
    return OkStatus();
  });
}

}  // namespace

TF_Session::~TF_Session() {
  (void)Close();
  StagedSteps::All().RemoveOf(this);
}

extern "C" {

TF_SessionOptions* TF_NewSessionOptions(void) { return new TF_SessionOptions; }
void TF_DeleteSessionOptions(TF_SessionOptions* options) { delete options; }

void TF_SetTarget(TF_SessionOptions* options, const char* target) {
  options->target = View(target);
}

void TF_SetConfig(TF_SessionOptions* options, const void* proto,
                  size_t proto_len, TF_Status* status) {
  Report(status, "config", [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(Given(options, "options"));
    if (proto_len > 0) SLUICE_RETURN_IF_ERROR(Given(proto, "ConfigProto"));
    SLUICE_ASSIGN_OR_RETURN(
        ConfiguredSession configured,
        SessionFromConfig({static_cast<const char*>(proto), proto_len},
                          options->options));
    options->options = std::move(configured.options);
    options->timeout_ms = configured.operation_timeout_ms;
    return OkStatus();
  });
}

TF_Session* TF_NewSession(TF_Graph* graph, const TF_SessionOptions* opts,
                          TF_Status* status) {
  TF_Session* made = nullptr;
  Report(status, "session", [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(Given(graph, "graph"));
    const TF_SessionOptions defaults;
    made = new TF_Session(graph, opts != nullptr ? *opts : defaults);
    return OkStatus();
  });
  return made;
}

TF_Session* TF_LoadSessionFromSavedModel(
    const TF_SessionOptions* session_options, const TF_Buffer* /*run_options*/,
    const char* export_dir, const char* const* tags, int tags_len,
    TF_Graph* graph, TF_Buffer* meta_graph_def, TF_Status* status) {
  TF_Session* made = nullptr;
  Report(status, "saved model", [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(Given(export_dir, "folder"));
    SLUICE_RETURN_IF_ERROR(GivenArray(tags, tags_len, "tags"));
    SLUICE_RETURN_IF_ERROR(Given(graph, "graph"));
    SLUICE_RETURN_IF_ERROR(GivenEmpty(meta_graph_def, "meta graph"));
    std::vector<std::string> wanted;
    for (int i = 0; i < tags_len; ++i) wanted.emplace_back(View(tags[i]));
    std::string bytes;
    if (meta_graph_def != nullptr) {
      SLUICE_ASSIGN_OR_RETURN(bytes, FindMetaGraph(export_dir, wanted));
    }
    const TF_SessionOptions defaults;
    std::unique_ptr<TF_Session, void (*)(TF_Session*)> session(
        new TF_Session(
            graph, session_options != nullptr ? *session_options : defaults),
        [](TF_Session* s) { TF_DeleteSession(s, nullptr); });
    {
      std::lock_guard<std::recursive_mutex> lock(graph->mutex());
      graph->ForgetReaders();
    }
    SLUICE_RETURN_IF_ERROR(
        LoadSavedModel(session->Current()->session, export_dir, wanted)
            .status());
    if (meta_graph_def != nullptr)
      SLUICE_RETURN_IF_ERROR(Fill(meta_graph_def, bytes));
    made = session.release();
    return OkStatus();
  });
  return made;
}

void TF_CloseSession(TF_Session* session, TF_Status* status) {
  Report(status, "session", [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(Given(session, "session"));
    return session->Close();
  });
}

void TF_DeleteSession(TF_Session* session, TF_Status* status) {
  Report(status, "session", [&] {
    if (session == nullptr) return OkStatus();
    TF_Graph* const graph = session->graph;
    delete session;
    Unref(graph);
    return OkStatus();
  });
}

void TF_SessionRun(TF_Session* session, const TF_Buffer* run_options,
                   const TF_Output* inputs, TF_Tensor* const* input_values,
                   int ninputs, const TF_Output* outputs,
                   TF_Tensor** output_values, int noutputs,
                   const TF_Operation* const* target_opers, int ntargets,
                   TF_Buffer* run_metadata, TF_Status* status) {
  Report(status, "step", [&] {
    return RunStep(session, run_options,
                   {inputs, ninputs, outputs, noutputs, target_opers, ntargets},
                   input_values, output_values, run_metadata);
  });
}

void TF_SessionPRunSetup(TF_Session* session, const TF_Output* inputs,
                         int ninputs, const TF_Output* outputs, int noutputs,
                         const TF_Operation* const* target_opers, int ntargets,
                         const char** handle, TF_Status* status) {
  Report(status, "partial run", [&] {
    return Setup(session,
                 {inputs, ninputs, outputs, noutputs, target_opers, ntargets},
                 handle);
  });
}

void TF_SessionPRun(TF_Session* session, const char* handle,
                    const TF_Output* inputs, TF_Tensor* const* input_values,
                    int ninputs, const TF_Output* outputs,
                    TF_Tensor** output_values, int noutputs,
                    const TF_Operation* const* target_opers, int ntargets,
                    TF_Status* status) {
  Report(status, "partial run", [&] {
    return RunStage(
        session, handle,
        {inputs, ninputs, outputs, noutputs, target_opers, ntargets},
        input_values, output_values);
  });
}

void TF_DeletePRunHandle(const char* handle) {
  if (handle == nullptr) return;
  StagedSteps::All().Remove(handle);
  delete[] handle;
}

// ---- By names ---------------------------------------------------------------

TF_DeprecatedSession* TF_NewDeprecatedSession(const TF_SessionOptions* options,
                                              TF_Status* status) {
  TF_Graph* const graph = TF_NewGraph();
  TF_Session* const session = TF_NewSession(graph, options, status);
  Unref(graph);
  return session == nullptr ? nullptr
                            : new TF_DeprecatedSession{graph, session};
}

void TF_CloseDeprecatedSession(TF_DeprecatedSession* session,
                               TF_Status* status) {
  TF_CloseSession(session == nullptr ? nullptr : session->session, status);
}

void TF_DeleteDeprecatedSession(TF_DeprecatedSession* session,
                                TF_Status* status) {
  TF_DeleteSession(session == nullptr ? nullptr : session->session, status);
  delete session;
}

void TF_Reset(const TF_SessionOptions* opt, const char** containers,
              int ncontainers, TF_Status* status) {
  Report(status, "reset", [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(Given(opt, "options"));
    SLUICE_RETURN_IF_ERROR(GivenArray(containers, ncontainers, "containers"));
    if (opt->target.empty() || opt->target == "local")
      return InvalidArgument(
          "reset: expected a target, got none: sessions in "
          "this process have states of their own");
    std::vector<std::string> names;
    for (int i = 0; i < ncontainers; ++i)
      names.emplace_back(View(containers[i]));
    Graph empty;
    return Session(opt->target, empty, opt->options).Reset(names);
  });
}

void TF_ExtendGraph(TF_DeprecatedSession* session, const void* proto,
                    size_t proto_len, TF_Status* status) {
  Report(status, "graph", [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(Given(session, "session"));
    if (proto_len > 0) SLUICE_RETURN_IF_ERROR(Given(proto, "GraphDef"));
    return Extend(session->graph, {static_cast<const char*>(proto), proto_len});
  });
}

void TF_Run(TF_DeprecatedSession* session, const TF_Buffer* run_options,
            const char** input_names, TF_Tensor** inputs, int ninputs,
            const char** output_names, TF_Tensor** outputs, int noutputs,
            const char** target_oper_names, int ntargets,
            TF_Buffer* run_metadata, TF_Status* status) {
  Report(status, "step", [&]() -> Status {
    Clear(outputs, noutputs);
    SLUICE_ASSIGN_OR_RETURN(
        const NamedStep step,
        Named(session, "Run()", input_names, ninputs, output_names, noutputs,
              target_oper_names, ntargets));
    return RunStep(session->session, run_options, step.Arguments(), inputs,
                   outputs, run_metadata);
  });
}

void TF_PRunSetup(TF_DeprecatedSession* session, const char** input_names,
                  int ninputs, const char** output_names, int noutputs,
                  const char** target_oper_names, int ntargets,
                  const char** handle, TF_Status* status) {
  Report(status, "partial run", [&]() -> Status {
    if (handle != nullptr) *handle = nullptr;
    SLUICE_ASSIGN_OR_RETURN(
        const NamedStep step,
        Named(session, "PRunSetup()", input_names, ninputs, output_names,
              noutputs, target_oper_names, ntargets));
    return Setup(session->session, step.Arguments(), handle);
  });
}

void TF_PRun(TF_DeprecatedSession* session, const char* handle,
             const char** input_names, TF_Tensor** inputs, int ninputs,
             const char** output_names, TF_Tensor** outputs, int noutputs,
             const char** target_oper_names, int ntargets, TF_Status* status) {
  Report(status, "partial run", [&]() -> Status {
    Clear(outputs, noutputs);
    SLUICE_ASSIGN_OR_RETURN(
        const NamedStep step,
        Named(session, "PRun()", input_names, ninputs, output_names, noutputs,
              target_oper_names, ntargets));
    return RunStage(session->session, handle, step.Arguments(), inputs,
                    outputs);
  });
}

// ---- Devices ----------------------------------------------------------------

TF_DeviceList* TF_SessionListDevices(TF_Session* session, TF_Status* status) {
  TF_DeviceList* list = nullptr;
  Report(status, "devices", [&]() -> Status {
    SLUICE_ASSIGN_OR_RETURN(list, ListDevices(session));
    return OkStatus();
  });
  return list;
}

TF_DeviceList* TF_DeprecatedSessionListDevices(TF_DeprecatedSession* session,
                                               TF_Status* status) {
  return TF_SessionListDevices(session == nullptr ? nullptr : session->session,
                               status);
}

void TF_DeleteDeviceList(TF_DeviceList* list) { delete list; }
int TF_DeviceListCount(const TF_DeviceList* list) {
  return list == nullptr ? 0 : static_cast<int>(list->devices.size());
}
const char* TF_DeviceListName(const TF_DeviceList* list, int index,
                              TF_Status* status) {
  const char* name = nullptr;
  OfDevice(list, index, status,
           [&](const TF_DeviceList::Device& d) { name = d.name.c_str(); });
  return name;
}
const char* TF_DeviceListType(const TF_DeviceList* list, int index,
                              TF_Status* status) {
  const char* type = nullptr;
  OfDevice(list, index, status,
           [&](const TF_DeviceList::Device& d) { type = d.type.c_str(); });
  return type;
}
int64_t TF_DeviceListMemoryBytes(const TF_DeviceList* list, int index,
                                 TF_Status* status) {
  int64_t bytes = -1;
  OfDevice(list, index, status,
           [&](const TF_DeviceList::Device& d) { bytes = d.memory; });
  return bytes;
}
uint64_t TF_DeviceListIncarnation(const TF_DeviceList* list, int index,
                                  TF_Status* status) {
  uint64_t incarnation = 0;
  OfDevice(list, index, status, [&](const TF_DeviceList::Device& d) {
    incarnation = d.incarnation;
  });
  return incarnation;
}

}  // extern "C"
