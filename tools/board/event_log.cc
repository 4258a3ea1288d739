#include "tools/board/event_log.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <set>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/wire.h"
#include "graph/tensor_proto.h"
#include "io/records.h"

namespace sluice::board {
namespace {

namespace fs = std::filesystem;

// Events that are read while other threads may read the log in between.
constexpr int kEventsAtOnce = 2000;
constexpr size_t kMostProblems = 20;  // Of a run.

constexpr const char* kKindNames[kTagKinds] = {
    "scalars", "histograms", "images", "audio", "text", "tensors", "profiles"};

// By the plugin that a tag's metadata name, as TensorFlow 2 writes them.
TagKind KindOfPlugin(const std::string& plugin) {
  if (plugin == "scalars") return TagKind::kScalars;
  if (plugin == "histograms") return TagKind::kHistograms;
  if (plugin == "images") return TagKind::kImages;
  if (plugin == "audio") return TagKind::kAudio;
  if (plugin == "text") return TagKind::kText;
  return TagKind::kTensors;
}

// The only element of a numeric tensor; NaN if there is none.
double ScalarOf(const proto::TensorProto& p) {
  // (The log is locked meanwhile: a few bytes must not become a large tensor.)
  TensorProtoLimits limits{.expansion_bytes = 64};
  const Result<Tensor> t = TensorFromProto(p, &limits);
  if (!t.ok() || t->num_elements() != 1) return std::nan("");
  switch (t->dtype()) {
    case DType::kFloat:
      return t->flat<float>()[0];
    case DType::kDouble:
      return t->flat<double>()[0];
    case DType::kInt32:
      return t->flat<int32_t>()[0];
    case DType::kInt64:
      return static_cast<double>(t->flat<int64_t>()[0]);
    default:
      return std::nan("");
  }
}

}  // namespace

const char* TagKindName(TagKind kind) {
  return kKindNames[static_cast<int>(kind)];
}

Result<TagKind> ParseTagKind(std::string_view name) {
  for (int i = 0; i < kTagKinds; ++i)
    if (name == kKindNames[i]) return static_cast<TagKind>(i);
  return InvalidArgument("kind: expected one of ",
                         absl::StrJoin(kKindNames, ", "), ", got '",
                         std::string(name), "'");
}

struct EventLog::File {
  explicit File(const std::string& path, int file_number)
      : name(std::make_shared<const std::string>(path)),
        number(file_number),
        reader(path) {}
  const std::shared_ptr<const std::string> name;
  const int number;  // In the order of the run's files.
  EventReader reader;
  bool failed = false;
};

struct EventLog::Tag {
  explicit Tag(size_t most_scalars, size_t most_values)
      : scalars(most_scalars), values(most_values) {}
  std::string display_name, description;
  uint64_t version = 0;
  int last_file = 0;  // The number of the last value's.
  Thinned<Scalar> scalars;
  Thinned<StoredValue> values;

  void DropFrom(int64_t step) {
    scalars.DropFrom(step);
    values.DropFrom(step);
  }
  // Of the last value that was added; -1 if there is none.
  int64_t last_step() const {
    const int64_t a = scalars.last() == nullptr ? -1 : scalars.last()->step;
    return values.last() == nullptr ? a : std::max(a, values.last()->step);
  }
};

struct EventLog::Run {
  std::string name;
  std::vector<std::unique_ptr<File>> files;  // By name.
  double first_wall_time = 0, last_wall_time = 0;
  int64_t last_step = 0;
  uint64_t graph_version = 0;
  StoredValue graph;
  std::map<std::pair<TagKind, std::string>, std::unique_ptr<Tag>> tags;
  // Set by the first value of each tag; later values lack it.
  std::map<std::string, TagKind> kinds_of_tensors;
  std::vector<std::string> problems;
  bool too_many_tags = false;

  void AddProblem(std::string problem) {
    if (problems.size() < kMostProblems) problems.push_back(std::move(problem));
  }
};

EventLog::EventLog(std::string folder, EventLogLimits limits)
    : folder_(std::move(folder)), limits_(limits) {}
EventLog::~EventLog() = default;

void EventLog::Stop() { stopped_ = true; }

void EventLog::Changed(Tag* tag) { tag->version = ++version_; }

// ---- Reading ----------------------------------------------------------------

void EventLog::Refresh() {
  std::lock_guard<std::mutex> refresh(refresh_mu_);
  Scan();
  // Each run and the file to read next. (Only this thread removes runs.)
  std::vector<std::pair<Run*, size_t>> left;
  {
    std::lock_guard<std::mutex> lock(mu_);
    for (const auto& [name, run] : runs_) left.emplace_back(run.get(), 0);
  }
  // The runs take turns, so that all are seen early.
  while (!left.empty()) {
    for (auto& [run, file] : left) {
      if (stopped_) return;
      while (file < run->files.size() && !ReadSome(run, run->files[file].get()))
        ++file;
    }
    std::erase_if(
        left, [](const auto& l) { return l.second >= l.first->files.size(); });
  }
  std::lock_guard<std::mutex> lock(mu_);
  if (loading_) ++version_;
  loading_ = false;
}

// Finds new files, and forgets runs whose files were removed.
void EventLog::Scan() {
  std::map<std::string, std::set<std::string>> found;  // Paths by run.
  std::error_code error;
  std::string problem;
  bool complete = true;  // All that is there was found.
  if (const fs::file_status status = fs::status(folder_, error);
      !fs::exists(status))
    problem = absl::StrCat("'", folder_, "': expected a folder, found nothing");
  else if (!fs::is_directory(status))
    problem = absl::StrCat("'", folder_, "': expected a folder, found a file");
  if (problem.empty()) {
    std::vector<fs::path> left = {folder_};
    while (!left.empty() && !stopped_) {
      const fs::path folder = std::move(left.back());
      left.pop_back();
      auto it = fs::directory_iterator(
          folder, fs::directory_options::skip_permission_denied, error);
      for (; !error && it != fs::directory_iterator() && !stopped_;
           it.increment(error)) {
        std::error_code ignored;
        if (it->is_directory(ignored) && !it->is_symlink(ignored))
          left.push_back(it->path());
        if (it->path().filename().string().find("tfevents") ==
                std::string::npos ||
            !it->is_regular_file(ignored))
          continue;
        found[folder.lexically_relative(folder_).string()].insert(
            it->path().string());
      }
      // (Programs that save checkpoints remove temporary folders at any time.)
      if (!error || (error == std::errc::no_such_file_or_directory &&
                     folder != fs::path(folder_)))
        continue;
      problem = absl::StrCat("'", folder.string(), "': ", error.message());
      complete = false;
    }
    if (stopped_) complete = false;
  }

  std::lock_guard<std::mutex> lock(mu_);
  if (problem != problem_) {
    problem_ = problem;
    ++version_;
  }
  for (auto it = runs_.begin(); complete && it != runs_.end();) {
    const auto now = found.find(it->first);
    const bool whole = now != found.end() &&
                       std::all_of(it->second->files.begin(),
                                   it->second->files.end(), [&](const auto& f) {
                                     return now->second.contains(*f->name);
                                   });
    if (!whole) ++version_;
    it = whole ? std::next(it) : runs_.erase(it);
  }
  for (const auto& [name, paths] : found) {
    std::unique_ptr<Run>& run = runs_[name];
    if (run == nullptr) {
      run = std::make_unique<Run>();
      run->name = name;
    }
    for (const std::string& path : paths) {
      if (std::any_of(run->files.begin(), run->files.end(),
                      [&](const auto& f) { return *f->name == path; }))
        continue;
      run->files.push_back(
          std::make_unique<File>(path, static_cast<int>(run->files.size())));
      ++version_;
    }
  }
}

// Returns whether there may be more.
bool EventLog::ReadSome(Run* run, File* file) {
  if (file->failed) return false;
  std::vector<std::pair<proto::Event, int64_t>> events;
  Status s;
  int64_t bytes = 0;
  while (events.size() < kEventsAtOnce && bytes < (int64_t{16} << 20)) {
    const int64_t offset = file->reader.offset();
    std::string_view bytes_of_event;
    s = file->reader.Read(&bytes_of_event);
    if (!s.ok()) break;
    proto::Event event;
    if (!event.ParseFromArray(bytes_of_event.data(),
                              static_cast<int>(bytes_of_event.size()))) {
      s = DataLoss("file '", *file->name, "' at byte ", offset,
                   ": expected an Event, got bytes that cannot be parsed");
      break;
    }
    bytes += static_cast<int64_t>(bytes_of_event.size());
    events.emplace_back(std::move(event), offset);
  }
  std::lock_guard<std::mutex> lock(mu_);
  for (const auto& [event, offset] : events) Take(run, file, event, offset);
  if (!events.empty()) ++version_;
  if (s.ok()) return true;
  if (s.code() != StatusCode::kOutOfRange &&
      s.code() != StatusCode::kNotFound) {
    file->failed = true;
    run->AddProblem(std::string(s.message()));
    ++version_;
  }
  return false;
}

void EventLog::Take(Run* run, File* file, const proto::Event& event,
                    int64_t offset) {
  if (run->first_wall_time == 0) run->first_wall_time = event.wall_time();
  run->last_wall_time = std::max(run->last_wall_time, event.wall_time());
  run->last_step = std::max(run->last_step, event.step());
  const StoredValue here{.step = event.step(),
                         .wall_time = event.wall_time(),
                         .file = file->name,
                         .offset = offset};
  switch (event.what_case()) {
    case proto::Event::kSummary:
      for (const proto::Summary::Value& v : event.summary().value())
        TakeValue(run, file, event, v, offset);
      break;
    case proto::Event::kSessionLog:
      if (event.session_log().status() != proto::SessionLog::START) break;
      for (const auto& [key, tag] : run->tags)
        if (tag->last_step() >= event.step()) {
          tag->DropFrom(event.step());
          Changed(tag.get());
        }
      break;
    case proto::Event::kGraphDef:
    case proto::Event::kMetaGraphDef:
      // (A meta graph is written beside its graph; it only counts alone.)
      if (event.what_case() == proto::Event::kMetaGraphDef &&
          run->graph_version != 0)
        break;
      run->graph = here;
      run->graph_version = ++version_;
      break;
    case proto::Event::kTaggedRunMetadata:
      if (Tag* tag = FindOrAdd(run, TagKind::kProfiles,
                               event.tagged_run_metadata().tag())) {
        tag->values.Add(here);
        Changed(tag);
      }
      break;
    default:
      break;
  }
}

void EventLog::TakeValue(Run* run, File* file, const proto::Event& event,
                         const proto::Summary::Value& value, int64_t offset) {
  TagKind kind = TagKind::kTensors;
  double scalar = 0;
  switch (value.value_case()) {
    case proto::Summary::Value::kSimpleValue:
      kind = TagKind::kScalars;
      scalar = value.simple_value();
      break;
    case proto::Summary::Value::kHisto:
      kind = TagKind::kHistograms;
      break;
    case proto::Summary::Value::kImage:
      kind = TagKind::kImages;
      break;
    case proto::Summary::Value::kAudio:
      kind = TagKind::kAudio;
      break;
    case proto::Summary::Value::kTensor: {
      const std::string& plugin = value.metadata().plugin_data().plugin_name();
      if (!plugin.empty())
        run->kinds_of_tensors[value.tag()] = KindOfPlugin(plugin);
      const auto known = run->kinds_of_tensors.find(value.tag());
      if (known != run->kinds_of_tensors.end()) kind = known->second;
      if (kind == TagKind::kScalars) scalar = ScalarOf(value.tensor());
      break;
    }
    default:
      return;
  }
  Tag* const tag = FindOrAdd(run, kind, value.tag());
  if (tag == nullptr) return;
  if (value.has_metadata()) {
    tag->display_name = value.metadata().display_name();
    tag->description = value.metadata().summary_description();
  }
  if (file->number > tag->last_file && event.step() <= tag->last_step())
    tag->DropFrom(event.step());
  tag->last_file = std::max(tag->last_file, file->number);
  if (kind == TagKind::kScalars)
    tag->scalars.Add({event.step(), event.wall_time(), scalar});
  else
    tag->values.Add({.step = event.step(),
                     .wall_time = event.wall_time(),
                     .file = file->name,
                     .offset = offset});
  Changed(tag);
}

// Null if there are too many.
EventLog::Tag* EventLog::FindOrAdd(Run* run, TagKind kind,
                                   const std::string& name) {
  const auto key = std::make_pair(kind, name);
  const auto it = run->tags.find(key);
  if (it != run->tags.end()) return it->second.get();
  if (run->tags.size() >= limits_.tags_per_run) {
    if (!run->too_many_tags)
      run->AddProblem(absl::StrCat("run '", run->name, "': expected at most ",
                                   limits_.tags_per_run,
                                   " tags; later ones are left out"));
    run->too_many_tags = true;
    return nullptr;
  }
  return run->tags
      .emplace(key, std::make_unique<Tag>(limits_.scalars,
                                          kind == TagKind::kHistograms
                                              ? limits_.histograms
                                              : limits_.others))
      .first->second.get();
}

// ---- What was read ----------------------------------------------------------

LogState EventLog::State() const {
  std::lock_guard<std::mutex> lock(mu_);
  LogState state;
  state.version = version_;
  state.loading = loading_;
  state.problem = problem_;
  for (const auto& [name, run] : runs_) {
    RunState& r = state.runs.emplace_back();
    r.name = name;
    r.files = static_cast<int>(run->files.size());
    r.first_wall_time = run->first_wall_time;
    r.last_wall_time = run->last_wall_time;
    r.last_step = run->last_step;
    r.graph_version = run->graph_version;
    r.problems = run->problems;
    for (const auto& [key, tag] : run->tags)
      r.tags.push_back({.kind = key.first,
                        .name = key.second,
                        .display_name = tag->display_name,
                        .description = tag->description,
                        .version = tag->version,
                        .values = tag->scalars.seen() + tag->values.seen()});
  }
  return state;
}

uint64_t EventLog::version() const {
  std::lock_guard<std::mutex> lock(mu_);
  return version_;
}

Result<const EventLog::Run*> EventLog::FindRun(const std::string& run) const {
  const auto it = runs_.find(run);
  if (it == runs_.end())
    return NotFound("run: expected one of the log's ", runs_.size(),
                    " runs, got '", run, "'");
  return it->second.get();
}

Result<const EventLog::Tag*> EventLog::Find(TagKind kind,
                                            const std::string& run,
                                            const std::string& tag) const {
  SLUICE_ASSIGN_OR_RETURN(const Run* r, FindRun(run));
  const auto it = r->tags.find({kind, tag});
  if (it == r->tags.end())
    return NotFound("tag: expected one of the ", TagKindName(kind), " of run '",
                    run, "', got '", tag, "'");
  return it->second.get();
}

Result<std::vector<Scalar>> EventLog::Scalars(const std::string& run,
                                              const std::string& tag) const {
  std::lock_guard<std::mutex> lock(mu_);
  SLUICE_ASSIGN_OR_RETURN(const Tag* t, Find(TagKind::kScalars, run, tag));
  return t->scalars.Points();
}

Result<std::vector<StoredValue>> EventLog::Values(
    TagKind kind, const std::string& run, const std::string& tag) const {
  std::lock_guard<std::mutex> lock(mu_);
  SLUICE_ASSIGN_OR_RETURN(const Tag* t, Find(kind, run, tag));
  return t->values.Points();
}

Result<std::string> EventLog::Graph(const std::string& run) const {
  StoredValue at;
  {
    std::lock_guard<std::mutex> lock(mu_);
    SLUICE_ASSIGN_OR_RETURN(const Run* r, FindRun(run));
    if (r->graph_version == 0)
      return NotFound("run '", run, "': expected a graph, found none");
    at = r->graph;
  }
  std::string graph;
  SLUICE_RETURN_IF_ERROR(
      ReadEvents({at}, [&](const StoredValue&, const proto::Event& event) {
        if (event.what_case() == proto::Event::kGraphDef) {
          graph = event.graph_def();
          return OkStatus();
        }
        FieldReader meta(event.meta_graph_def());
        WireTag tag;
        std::string_view bytes;  // MetaGraphDef.graph_def is field 2.
        while (meta.ReadTag(&tag)) {
          const bool is_graph = tag.Is(2, WireType::kBytes);
          if (!(is_graph ? meta.ReadBytes(&bytes) : meta.Skip(tag))) break;
          if (is_graph) graph = std::string(bytes);
        }
        return OkStatus();
      }));
  return graph;
}

Status ReadEvents(
    const std::vector<StoredValue>& values,
    const std::function<Status(const StoredValue&, const proto::Event&)>& use) {
  std::unique_ptr<RecordReader> reader;
  const std::string* open = nullptr;
  for (const StoredValue& v : values) {
    if (reader == nullptr || *open != *v.file || v.offset < reader->offset()) {
      SLUICE_ASSIGN_OR_RETURN(reader, RecordReader::Open(*v.file));
      open = v.file.get();
    }
    SLUICE_RETURN_IF_ERROR(reader->SkipTo(v.offset));
    std::string_view bytes;
    SLUICE_RETURN_IF_ERROR(reader->Read(&bytes));
    proto::Event event;
    if (!event.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
      return DataLoss("file '", *v.file, "' at byte ", v.offset,
                      ": expected an Event, got other bytes");
    SLUICE_RETURN_IF_ERROR(use(v, event));
  }
  return OkStatus();
}

Result<const proto::Summary::Value*> FindValue(const proto::Event& event,
                                               const std::string& tag) {
  for (const proto::Summary::Value& v : event.summary().value())
    if (v.tag() == tag) return &v;
  return Internal("tag '", tag, "': expected a value in its event, got none");
}

}  // namespace sluice::board
