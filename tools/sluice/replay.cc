// sluice replay: runs recorded cases and compares the results.
#include <stdlib.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <climits>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <random>
#include <regex>
#include <thread>

#include "checkpoint/checkpoint_reader.h"
#include "deploy/saved_model.h"
#include "graph/device_name.h"
#include "graph/hidden_attributes.h"
#include "session/session.h"
#include "tools/sluice/cli.h"
#include "tools/sluice/replay_case.h"

namespace sluice::cli {
namespace {

namespace fs = std::filesystem;

struct ReplayOptions {
  std::vector<std::string> dirs;
  std::string filter;
  int jobs = 1, devices = 0;
  std::string target;
  uint64_t seed = 0;
  int64_t timeout_ms = 120000;
  bool quiet = false;
};

// RAII: a temporary folder.
class TempDir {
 public:
  TempDir() {
    std::error_code ignored;
    std::string path =
        (fs::temp_directory_path(ignored) / "sluice_replay_XXXXXX").string();
    if (::mkdtemp(path.data()) != nullptr) path_ = path;
  }
  ~TempDir() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Converts a value to the edge's type, as the Python client converts feeds.
Result<Tensor> ConvertTo(DType dtype, const Tensor& t) {
  dtype = RemoveRef(dtype);
  if (t.dtype() == dtype) return t;
  if (IsQuantized(dtype) && DTypeSize(dtype) == DTypeSize(t.dtype()))
    return t.BitcastTo(dtype);
  Graph g;
  SLUICE_ASSIGN_OR_RETURN(Node * in, g.AddNode({.op = "Placeholder",
                                                .name = "x",
                                                .inputs = {},
                                                .control_inputs = {},
                                                .attrs = {{"dtype", t.dtype()}},
                                                .device = "",
                                                .loc = {},
                                                .pending_input_types = {}}));
  SLUICE_ASSIGN_OR_RETURN(
      Node * cast, g.AddNode({.op = "Cast",
                              .name = "y",
                              .inputs = {Output(in)},
                              .control_inputs = {},
                              .attrs = {{"SrcT", t.dtype()}, {"DstT", dtype}},
                              .device = "",
                              .loc = {},
                              .pending_input_types = {}}));
  Session session(g);
  return session.Run({{Output(in), t}}, Output(cast));
}

// Places the graph on `devices`: "/cpu:1" is the second of them, and nodes
// without a device are placed at random. Nodes that share a resource or a
// colocation group stay together; half of the others are left to placement.
Status Spread(const std::vector<std::string>& devices, uint64_t seed,
              Graph* graph) {
  std::vector<int> up(graph->nodes().size());
  std::iota(up.begin(), up.end(), 0);
  const auto group = [&](const Node* n) {
    int id = n->id();
    while (up[static_cast<size_t>(id)] != id) id = up[static_cast<size_t>(id)];
    return id;
  };
  std::vector<bool> together(up.size());
  const auto join = [&](const Node* a, const Node* b) {
    together[static_cast<size_t>(group(a))] = true;
    together[static_cast<size_t>(group(b))] = true;
    up[static_cast<size_t>(group(a))] = group(b);
  };
  std::map<std::string, const Node*> by_name;  // Of a resource.
  for (const auto& n : graph->nodes()) {
    if (const std::string name = n->AttrOr<std::string>("shared_name", "");
        !name.empty())
      if (const auto [it, fresh] = by_name.try_emplace(name, n.get()); !fresh)
        join(n.get(), it->second);
    for (int i = 0; i < n->num_inputs(); ++i)
      if (n->input(i).dtype() == DType::kResource || IsRef(n->input_type(i)))
        join(n.get(), n->input(i).node);
    const AttrValue* const attr = n->FindAttr(kColocationAttr);
    const auto* const names =
        attr == nullptr ? nullptr : attr->get<AttrValue::Strings>();
    if (names == nullptr) continue;
    for (const std::string& name : *names)
      if (const Node* leader = graph->FindNode(name.substr(name.find('@') + 1)))
        join(n.get(), leader);
  }
  std::map<int, std::string> of_group;
  for (const auto& n : graph->nodes()) {
    SLUICE_ASSIGN_OR_RETURN(const DeviceName asked,
                            DeviceName::Parse(n->device()));
    if (asked.type == "CPU" && asked.number >= 0)
      of_group[group(n.get())] =
          devices[static_cast<size_t>(asked.number) % devices.size()];
  }
  std::mt19937_64 random(seed);
  for (const auto& n : graph->nodes()) {
    const int g = group(n.get());
    const auto [it, fresh] = of_group.try_emplace(g);
    if (fresh && (together[static_cast<size_t>(g)] || random() % 2 == 0))
      it->second = devices[random() % devices.size()];
    graph->SetDevice(n.get(), it->second);
  }
  return OkStatus();
}

// Runs one case on one of its graphs, step by step.
class Replayer {
 public:
  Replayer(const RecordedCase& c, const ReplayOptions& options)
      : case_(c), options_(options) {}

  // Returns the differences; empty if there are none.
  std::vector<std::string> Run(const std::string& graph) {
    const Status s = RunAll(graph);
    if (!s.ok()) differences_.emplace_back(s.message());
    return std::move(differences_);
  }

 private:
  Status RunAll(const std::string& graph) {
    if (tmp_.path().empty())
      return FailedPrecondition("expected a temporary folder, got none");
    SLUICE_RETURN_IF_ERROR(ImportGraphDefFile(case_.dir + "/" + graph, graph_));
    SessionOptions session_options;
    session_options.scheduler_seed = options_.seed;
    session_options.soft_placement = true;
    std::unique_ptr<Session> session;
    if (options_.target.empty()) {
      session_options.devices =
          CpuDevices(std::max(case_.devices, options_.devices));
      session = std::make_unique<Session>(graph_, session_options);
    } else {
      session_options.isolated = true;
      session =
          std::make_unique<Session>(options_.target, graph_, session_options);
    }
    if (options_.devices > 0) {
      SLUICE_ASSIGN_OR_RETURN(std::vector<std::string> devices,
                              session->ListDevices());
      if (devices.size() < static_cast<size_t>(options_.devices))
        return FailedPrecondition("--devices: expected at most the ",
                                  devices.size(), " that there are, got ",
                                  options_.devices);
      devices.resize(static_cast<size_t>(options_.devices));
      SLUICE_RETURN_IF_ERROR(Spread(devices, options_.seed, &graph_));
    }
    session_ = session.get();
    for (size_t i = 0; i < case_.steps.size(); ++i) {
      const CaseStep& step = case_.steps[i];
      label_ = absl::StrCat("step ", i);
      switch (step.kind) {
        case CaseStep::kRun:
          Check(step.steps[0], RunOne(step.steps[0]));
          break;
        case CaseStep::kParallel:
          RunParallel(step);
          break;
        case CaseStep::kPartial:
          RunPartial(step);
          break;
      }
      // (A later step may write another one there.)
      if (const auto& w = case_.writes_checkpoint;
          w.has_value() && w->after_step == i)
        if (const Status s = CheckCheckpoint(*w); !s.ok())
          Differs(absl::StrCat("checkpoint '", w->path,
                               "': ", std::string(s.message())));
      // Later steps would only repeat the same differences.
      if (differences_.size() >= 4) break;
    }
    session_ = nullptr;
    label_ = "saved model";
    if (case_.saved_model.has_value() && differences_.empty())
      if (const Status s = CheckModel(*case_.saved_model); !s.ok())
        Differs(std::string(s.message()));
    return OkStatus();
  }

  using Values = Result<std::vector<Tensor>>;

  // A step's feeds, fetches and targets, resolved in the graph.
  struct Resolved {
    Feeds feeds;
    std::vector<Output> fetches;
    std::vector<Node*> targets;
  };

  Result<Tensor> FeedTensor(const Output& to, const FeedValue& v) {
    if (v.kind == FeedValue::kArray) {
      SLUICE_ASSIGN_OR_RETURN(const Tensor t,
                              DecodeArray(case_.feeds, v.array));
      return ConvertTo(to.dtype(), t);
    }
    const bool tmp = v.kind == FeedValue::kTmpPath;
    const fs::path path = fs::path(tmp ? tmp_.path() : case_.dir) / v.path;
    std::error_code error;
    if (tmp) fs::create_directories(path.parent_path(), error);
    if (error)
      return FailedPrecondition("making '", path.parent_path().string(),
                                "': ", error.message());
    return Tensor::Scalar<std::string>(path.string());
  }

  Status AddNames(const std::vector<std::string>& names, Resolved* r) {
    for (const std::string& name : names) {
      if (name.find(':') == std::string::npos) {
        SLUICE_ASSIGN_OR_RETURN(Node * n, graph_.LookupNode(name));
        r->targets.push_back(n);
      } else {
        SLUICE_ASSIGN_OR_RETURN(const Output o, graph_.FindOutput(name));
        r->fetches.push_back(o);
      }
    }
    return OkStatus();
  }

  Result<Resolved> Resolve(const RunStep& step) {
    Resolved r;
    for (const auto& [name, value] : step.feeds) {
      SLUICE_ASSIGN_OR_RETURN(const Output to, graph_.FindOutput(name));
      SLUICE_ASSIGN_OR_RETURN(Tensor t, FeedTensor(to, value));
      r.feeds.emplace_back(to, std::move(t));
    }
    SLUICE_RETURN_IF_ERROR(AddNames(step.run, &r));
    return r;
  }

  Values RunOne(const RunStep& step) {
    SLUICE_ASSIGN_OR_RETURN(const Resolved r, Resolve(step));
    RunOptions o;
    o.timeout_ms = step.timeout_ms > 0 ? step.timeout_ms : options_.timeout_ms;
    if (options_.quiet) o.log = [](const std::string&) {};
    return session_->Run(r.feeds, r.fetches, r.targets, o);
  }

  void RunParallel(const CaseStep& step) {
    std::vector<Values> results(step.steps.size(), Values(OkResult()));
    std::vector<std::thread> threads;
    for (size_t k = 0; k < step.steps.size(); ++k) {
      threads.emplace_back([&, k] { results[k] = RunOne(step.steps[k]); });
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
    }
    for (std::thread& t : threads) t.join();
    const std::string label = label_;
    for (size_t k = 0; k < step.steps.size(); ++k) {
      label_ = absl::StrCat(label, " (", k, " of those at once)");
      Check(step.steps[k], results[k]);
    }
  }

  void RunPartial(const CaseStep& step) {
    const Status s = TryPartial(step);
    if (!s.ok()) Differs(std::string(s.message()));
  }

  Status TryPartial(const CaseStep& step) {
    Resolved setup;
    SLUICE_RETURN_IF_ERROR(AddNames(step.setup_fetches, &setup));
    std::vector<Output> feeds;
    for (const std::string& name : step.setup_feeds) {
      SLUICE_ASSIGN_OR_RETURN(const Output o, graph_.FindOutput(name));
      feeds.push_back(o);
    }
    SLUICE_ASSIGN_OR_RETURN(
        const std::unique_ptr<Session::PartialRun> partial,
        session_->StartPartialRun(feeds, setup.fetches, setup.targets));
    const std::string label = label_;
    for (size_t k = 0; k < step.steps.size(); ++k) {
      label_ = absl::StrCat(label, " (stage ", k, ")");
      const Result<Resolved> r = Resolve(step.steps[k]);
      Check(step.steps[k],
            r.ok() ? partial->Run(r->feeds, r->fetches) : Values(r.status()));
    }
    return OkStatus();
  }

  static std::vector<Tensor> OkResult() { return {}; }

  void Differs(const std::string& what) {
    differences_.push_back(absl::StrCat(label_, ": ", what));
  }

  void Check(const RunStep& step, const Values& got) {
    const std::string name = PythonErrorName(got.status().code());
    if (!got.ok() || !step.error.empty()) {
      if (step.error != (got.ok() ? "" : name))
        Differs(absl::StrCat(
            step.error.empty() ? ""
                               : absl::StrCat("want ", step.error, ", got "),
            name, got.ok() ? "" : ": ", std::string(got.status().message())));
      return;
    }
    size_t k = 0;  // Counts edges, which have values.
    for (size_t i = 0; i < step.run.size(); ++i) {
      if (step.run[i].find(':') == std::string::npos) continue;
      const Tensor& value = (*got)[k++];
      if (!step.expect[i].key.empty())
        Compare(step.run[i], step.expect[i], value);
    }
  }

  void Compare(const std::string& name, const ArrayDesc& desc,
               const Tensor& value) {
    const Result<Tensor> want = DecodeArray(case_.expected, desc);
    const std::string difference = want.ok()
                                       ? Difference(desc, value, *want)
                                       : std::string(want.status().message());
    if (!difference.empty()) Differs(absl::StrCat(name, ": ", difference));
  }

  Status CheckCheckpoint(const WrittenCheckpoint& w) {
    SLUICE_ASSIGN_OR_RETURN(
        const CheckpointReader reader,
        CheckpointReader::Open((fs::path(tmp_.path()) / w.path).string()));
    const RunStep& like = case_.steps[w.equals_step].steps[0];
    for (size_t i = 0; i < w.names.size(); ++i) {
      if (like.expect[i].key.empty()) continue;
      SLUICE_ASSIGN_OR_RETURN(const Tensor saved, reader.Read(w.names[i]));
      Compare(absl::StrCat(w.names[i], " in the checkpoint"), like.expect[i],
              saved);
    }
    return OkStatus();
  }

  // Runs the model in this process, by its signature.
  Status CheckModel(const RecordedModel& m) {
    SLUICE_ASSIGN_OR_RETURN(
        const SavedModel model,
        SavedModel::Load((fs::path(case_.dir) / m.dir).string(), m.tags));
    SLUICE_ASSIGN_OR_RETURN(const auto edges, model.Inputs(m.signature));
    const RunStep& like = case_.steps[m.like_step].steps[0];
    std::map<std::string, Tensor> inputs;
    for (const auto& input : m.inputs) {
      const std::string &name = input.first, &tensor = input.second;
      const auto feed =
          std::find_if(like.feeds.begin(), like.feeds.end(),
                       [&](const auto& f) { return f.first == tensor; });
      const auto edge = edges.find(name);
      if (feed == like.feeds.end() || edge == edges.end())
        return InvalidArgument("input '", name,
                               "': expected it in the signature, and '", tensor,
                               "' among the feeds of step ", m.like_step);
      SLUICE_ASSIGN_OR_RETURN(inputs[name],
                              FeedTensor(edge->second, feed->second));
    }
    SLUICE_ASSIGN_OR_RETURN(const auto got, model.Run(inputs, m.signature));
    for (const auto& [name, tensor] : m.outputs) {
      const auto at = std::find(like.run.begin(), like.run.end(), tensor);
      const auto value = got.find(name);
      if (at == like.run.end() || value == got.end())
        return InvalidArgument("output '", name,
                               "': expected it in the signature, and '", tensor,
                               "' among the fetches of step ", m.like_step);
      const ArrayDesc& desc =
          like.expect[static_cast<size_t>(at - like.run.begin())];
      if (!desc.key.empty()) Compare(name, desc, value->second);
    }
    return OkStatus();
  }

  const RecordedCase& case_;
  const ReplayOptions& options_;
  const TempDir tmp_;
  Graph graph_;
  Session* session_ = nullptr;
  std::string label_;
  std::vector<std::string> differences_;
};

// The differences, and whether they are failures.
struct Verdict {
  std::vector<std::string> differences;
  bool optional = false;
  int64_t ms = 0;
};

Verdict RunCase(const std::string& dir, const ReplayOptions& options) {
  const int64_t start = NowNs();
  Verdict v;
  const Result<RecordedCase> c = LoadCase(dir);
  if (!c.ok()) {
    v.differences.emplace_back(c.status().message());
    return v;
  }
  v.optional = c->optional;
  for (const std::string& graph : c->graphs) {
    for (std::string& d : Replayer(*c, options).Run(graph))
      v.differences.push_back(
          graph == "graph.pb" ? std::move(d) : absl::StrCat(graph, ": ", d));
  }
  v.ms = (NowNs() - start) / 1000000;
  return v;
}

// A folder is a case or contains cases.
Result<std::vector<std::string>> FindCases(const ReplayOptions& o) {
  std::vector<std::string> cases;
  for (const std::string& dir : o.dirs) {
    std::error_code error;
    if (fs::exists(fs::path(dir) / "meta.json", error)) {
      cases.push_back(dir);
      continue;
    }
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(dir, error))
      if (fs::exists(entry.path() / "meta.json", error))
        found.push_back(entry.path().string());
    if (found.empty())
      return InvalidArgument(
          "expected a case (a folder with meta.json) or a "
          "folder of cases, got '",
          dir, "'");
    std::sort(found.begin(), found.end());
    cases.insert(cases.end(), found.begin(), found.end());
  }
  return cases;
}

std::string NameOf(std::string dir) {
  while (dir.size() > 1 && dir.back() == '/') dir.pop_back();
  return dir.substr(dir.rfind('/') + 1);
}

void Print(const std::string& name, const Verdict& v) {
  if (v.differences.empty()) {
    std::printf("pass  %s (%lld ms)\n", name.c_str(),
                static_cast<long long>(v.ms));
  } else {
    std::string line = v.differences[0];
    std::replace(line.begin(), line.end(), '\n', ' ');
    std::printf(
        "FAIL  %s%s: %s%s\n", name.c_str(), v.optional ? " (optional)" : "",
        line.c_str(),
        v.differences.size() > 1
            ? absl::StrCat(" (and ", v.differences.size() - 1, " more)").c_str()
            : "");
  }
  std::fflush(stdout);
}

int Replay(const ReplayOptions& o) {
  Result<std::vector<std::string>> all = FindCases(o);
  if (!all.ok()) return Fail(kUsage, all.status());
  std::vector<std::string> dirs;
  try {
    const std::regex filter(o.filter);
    for (const std::string& dir : *all)
      if (std::regex_search(NameOf(dir), filter)) dirs.push_back(dir);
  } catch (const std::regex_error&) {
    return Fail(kUsage, absl::StrCat("--filter: expected a regular expression, "
                                     "got '",
                                     o.filter, "'"));
  }
  if (dirs.empty())
    return Fail(kUsage, absl::StrCat("--filter: expected to match a case, got "
                                     "none for '",
                                     o.filter, "'"));
  std::vector<std::unique_ptr<Verdict>> verdicts(dirs.size());
  std::atomic<size_t> next{0};
  size_t printed = 0;
  std::mutex mu;  // Guards verdicts and printed.
  auto work = [&] {
    for (size_t i; (i = next++) < dirs.size();) {
      auto v = std::make_unique<Verdict>(RunCase(dirs[i], o));
      std::lock_guard<std::mutex> lock(mu);
      verdicts[i] = std::move(v);
      for (; printed < dirs.size() && verdicts[printed]; ++printed)
        Print(NameOf(dirs[printed]), *verdicts[printed]);
    }
  };
  std::vector<std::thread> threads;
  for (int i = 1; i < o.jobs; ++i) threads.emplace_back(work);
  work();
  for (std::thread& t : threads) t.join();
  const auto passed =
      std::count_if(verdicts.begin(), verdicts.end(),
                    [](const auto& v) { return v->differences.empty(); });
  std::printf("%zu of %zu cases pass\n", static_cast<size_t>(passed),
              dirs.size());
  return static_cast<size_t>(passed) == dirs.size() ? 0 : kRunFailed;
}

}  // namespace

void AddReplay(CLI::App& app, std::function<int()>* run) {
  auto o = std::make_shared<ReplayOptions>();
  CLI::App* sub = app.add_subcommand(
      "replay", "Run recorded cases and compare with the recorded results");
  sub->add_option("DIR", o->dirs, "Case, or folder of cases")
      ->required()
      ->check([](const std::string& dir) -> std::string {
        std::error_code error;
        if (fs::is_directory(dir, error)) return "";
        return absl::StrCat(
            "expected a case (a folder with meta.json) or a "
            "folder of cases, got '",
            dir, "', ",
            fs::exists(dir, error) ? "a file" : "which does not exist");
      });
  sub->add_option("--filter", o->filter,
                  "Only cases whose name matches this regular expression");
  sub->add_option("--jobs", o->jobs, "Cases at once")
      ->check(CLI::Range(1, 256));
  sub->add_option(
         "--devices", o->devices,
         "Place the nodes on this many CPU devices, at random (--seed) "
         "where the case does not say")
      ->check(CLI::Range(1, 64));
  sub->add_option("--target", o->target,
                  "Run the steps on the cluster of this task, grpc://host:port")
      ->check(IsTarget);
  sub->add_option("--seed", o->seed,
                  "Run ready nodes in a random order drawn from this (not 0)")
      ->check(CLI::NonNegativeNumber);
  sub->add_option("--timeout-ms", o->timeout_ms,
                  "Timeout of steps that do not set one")
      ->check(CLI::Range(1, INT_MAX));
  sub->add_flag("--quiet", o->quiet, "Do not show what the graphs print");
  sub->callback([o, run] { *run = [o] { return Replay(*o); }; });
}

}  // namespace sluice::cli
