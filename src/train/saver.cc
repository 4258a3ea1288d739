#include "train/saver.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>
#include <string_view>
#include <thread>

#include "checkpoint/bundle_writer.h"
#include "checkpoint/pending_file.h"
#include "checkpoint/state.h"
#include "client/partitioned_variables.h"
#include "graph/op_def.h"
#include "io/file.h"
#include "train/checkpoint_keeper.h"
#include "train/leftovers.h"
#include "train/run_lock.h"
#include "train/saver_nodes.h"

namespace sluice {
namespace {

Status CheckVariables(const std::vector<SavedVariable>& variables,
                      const SaverOptions& options) {
  if (variables.empty())
    return InvalidArgument("saver: expected variables, got none");
  std::set<std::string> names;
  for (const SavedVariable& v : variables) {
    if (!v.variable.valid())
      return InvalidArgument("saver: expected a variable as '", v.name,
                             "', got none");
    if (v.variable.handle().graph() != &CurrentGraph())
      return InvalidArgument(
          "saver: expected variables of the current graph, "
          "got '",
          v.variable.name(), "' of another");
    if (v.name.empty() || v.name[0] == '\0')
      return InvalidArgument("saver: expected a name for variable '",
                             v.variable.name(), "', got '", v.name, "'");
    if (!v.shape_and_slice.empty())
      SLUICE_RETURN_IF_ERROR(
          Annotate(ParseShapeAndSlice(v.shape_and_slice).status(),
                   absl::StrCat("saver: '", v.name, "'")));
    // (Parts of one variable share its name.)
    else if (!names.insert(v.name).second)
      return InvalidArgument("saver: expected each name once, got '", v.name,
                             "' twice");
  }
  if (options.max_to_keep < 0 || options.keep_best < 0)
    return InvalidArgument(
        "saver: expected no negative max_to_keep and "
        "keep_best, got ",
        options.max_to_keep, " and ", options.keep_best);
  if (!(options.keep_every_n_hours > 0))
    return InvalidArgument("saver: expected keep_every_n_hours > 0, got ",
                           options.keep_every_n_hours);
  if (options.state_file.empty() ||
      options.state_file.find('/') != std::string::npos)
    return InvalidArgument(
        "saver: expected the name of a file in the folder "
        "as state_file, got '",
        options.state_file, "'");
  return OkStatus();
}

// Lets the threads that train go first where there is a core for one of them
// only: this thread, and those that it starts, get a tenth as much time as one
// that trains. (On Linux niceness is of a thread; lowering it needs no right.)
void YieldToTraining() {
  constexpr int kNice = 10;
  (void)setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kNice);
}

bool IsLocal(const Session& session) {
  return session.options().resources != nullptr;
}

}  // namespace

class Saver::Impl {
 public:
  Impl(SaverOptions options, SourceLoc loc)
      : options_(std::move(options)), keeper_(options_) {
    variables_ = options_.variables;
    if (variables_.empty())
      for (const Var& v : GlobalVariables()) {
        const std::optional<VariablePart> part = PartOf(v);
        if (part.has_value())
          variables_.push_back({part->name, v, part->ShapeAndSlice()});
        else
          variables_.push_back({v.name(), v});
      }
    status_ = CheckVariables(variables_, options_);
    if (!status_.ok()) {
      BuildError(status_, loc);
      return;
    }
    nodes_ = AddSaverNodes(variables_, options_, loc);
    if (nodes_.restore != nullptr && nodes_.save_tensor.valid()) return;
    const Output failed = nodes_.restore == nullptr ? CurrentGraph().Failure()
                                                    : nodes_.save_tensor;
    const Status* const why = CurrentGraph().ErrorOf(failed);
    status_ =
        why != nullptr ? *why : Internal("saver: its nodes could not be built");
  }
  ~Impl() { Join(); }

  Result<std::string> Save(Session& session, const std::string& prefix,
                           const SaveOptions& options);
  Status SaveAsync(Session& session, const std::string& prefix,
                   const SaveOptions& options);
  Result<std::string> WaitForSaves();
  std::optional<Result<std::string>> FinishedSave() {
    const std::lock_guard<std::mutex> lock(finished_mu_);
    return std::exchange(finished_, std::nullopt);
  }
  Status Restore(Session& session, const std::string& path);
  Result<CheckpointDifference> Compare(const CheckpointReader& reader) const;

  const Status& status() const { return status_; }
  const SaverNodes& nodes() const { return nodes_; }
  template <typename Fn>
  auto WithKeeper(const Fn& fn) {
    const std::lock_guard<std::mutex> lock(saving_);
    return fn(keeper_);
  }

 private:
  Result<std::string> PathOf(const std::string& prefix,
                             const SaveOptions& options) const;
  Status TakeFolder(const std::string& prefix);
  // REQUIRES: saving_ is held.
  Status DeleteOld(const std::string& path) {
    return Annotate(keeper_.DeleteOld(),
                    absl::StrCat("'", path,
                                 "' is saved, but an old checkpoint "
                                 "could not be deleted"));
  }
  // Gives each value back once it is written.
  Status WriteSnapshot(const std::string& path,
                       std::vector<Tensor> values) const;
  // Not on the writer's thread, which cannot wait for itself.
  Status CheckCaller(const char* function) const {
    if (reporting_ != std::this_thread::get_id()) return OkStatus();
    return FailedPrecondition("saver: expected no ", function,
                              " in on_saved, got one");
  }
  void Join();
  void Log(const std::string& line) const {
    if (options_.log != nullptr)
      options_.log(line);
    else
      std::fprintf(stderr, "%s\n", line.c_str());
  }

  const SaverOptions options_;
  std::vector<SavedVariable> variables_;
  Status status_;
  SaverNodes nodes_;
  std::mutex saving_;                     // Held while files are written.
  CheckpointKeeper keeper_;               // GUARDED_BY(saving_)
  std::map<std::string, RunLock> locks_;  // GUARDED_BY(saving_)
  std::mutex writer_mu_;
  std::thread writer_;                               // GUARDED_BY(writer_mu_)
  std::optional<Result<std::string>> last_written_;  // As writer_.
  std::atomic<std::thread::id> reporting_{};  // The thread that is in on_saved.
  std::mutex finished_mu_;
  std::optional<Result<std::string>> finished_;  // GUARDED_BY(finished_mu_)
};

Result<std::string> Saver::Impl::PathOf(const std::string& given,
                                        const SaveOptions& options) const {
  SLUICE_RETURN_IF_ERROR(status_);
  const std::string prefix = LocalPath(given);
  const std::string base = std::filesystem::path(prefix).filename().string();
  if (base.empty() || base == "." || base == "..")
    return InvalidArgument("save: expected the path of a file, got '", prefix,
                           "'");
  if (base == options_.state_file && !options.step.has_value())
    return InvalidArgument(
        "save: expected another path than that of the state "
        "file, got '",
        prefix, "'");
  if (options.step.has_value() && *options.step < 0)
    return InvalidArgument("save: expected a step of at least 0, got ",
                           *options.step);
  return options.step.has_value() ? absl::StrCat(prefix, "-", *options.step)
                                  : prefix;
}

// REQUIRES: saving_ is held.
Status Saver::Impl::TakeFolder(const std::string& given) {
  const std::string prefix = LocalPath(given);
  const std::string folder = FolderOf(prefix);
  if (!options_.detect_other_runs || locks_.count(folder) != 0)
    return OkStatus();
  SLUICE_ASSIGN_OR_RETURN(RunLock lock, RunLock::Take(folder, [&] {
                            RemoveLeftovers(prefix, options_.state_file);
                          }));
  locks_.emplace(folder, std::move(lock));
  return OkStatus();
}

Result<std::string> Saver::Impl::Save(Session& session,
                                      const std::string& prefix,
                                      const SaveOptions& options) {
  SLUICE_ASSIGN_OR_RETURN(const std::string path, PathOf(prefix, options));
  const std::lock_guard<std::mutex> lock(saving_);
  const bool local = IsLocal(session);
  if (local) SLUICE_RETURN_IF_ERROR(TakeFolder(prefix));
  const Result<Tensor> saved = session.Run(
      {{nodes_.filename, Tensor::Scalar(path)}}, nodes_.save_tensor);
  if (!saved.ok()) {
    std::error_code ignored;
    if (local && !nodes_.temporary_suffix.empty())
      std::filesystem::remove_all(path + nodes_.temporary_suffix, ignored);
    return saved.status();
  }
  if (options.write_state)
    SLUICE_RETURN_IF_ERROR(keeper_.Saved(path, options.metric));
  SLUICE_RETURN_IF_ERROR(DeleteOld(path));
  return path;
}

Status Saver::Impl::WriteSnapshot(const std::string& path,
                                  std::vector<Tensor> values) const {
  SLUICE_ASSIGN_OR_RETURN(const auto writer, BundleWriter::Open(path));
  for (size_t i = 0; i < values.size(); ++i) {
    const SavedVariable& v = variables_[i];
    // (From then on the variable is updated in place again.)
    const Tensor value = std::move(values[i]);
    if (v.shape_and_slice.empty()) {
      SLUICE_RETURN_IF_ERROR(writer->Add(v.name, value));
      continue;
    }
    SLUICE_ASSIGN_OR_RETURN(const ShapeAndSlice part,
                            ParseShapeAndSlice(v.shape_and_slice));
    SLUICE_RETURN_IF_ERROR(
        writer->AddSlice(v.name, part.shape, part.slice, value));
  }
  return writer->Finish();
}

void Saver::Impl::Join() {
  const std::lock_guard<std::mutex> lock(writer_mu_);
  if (writer_.joinable()) writer_.join();
}

Status Saver::Impl::SaveAsync(Session& session, const std::string& prefix,
                              const SaveOptions& options) {
  SLUICE_RETURN_IF_ERROR(CheckCaller("SaveAsync"));
  SLUICE_ASSIGN_OR_RETURN(const std::string path, PathOf(prefix, options));
  const std::lock_guard<std::mutex> lock(writer_mu_);
  if (writer_.joinable()) writer_.join();
  std::vector<Tensor> values;
  {
    std::unique_lock<std::shared_mutex> quiet;
    if (options_.updates != nullptr)
      quiet = std::unique_lock<std::shared_mutex>(*options_.updates);
    SLUICE_ASSIGN_OR_RETURN(values, session.Run(nodes_.values));
  }
  const auto write = [this, prefix, path, options,
                      values = std::move(values)]() mutable {
    YieldToTraining();
    Result<std::string> result = [&]() -> Result<std::string> {
      const std::lock_guard<std::mutex> saving(saving_);
      SLUICE_RETURN_IF_ERROR(TakeFolder(prefix));
      SLUICE_RETURN_IF_ERROR(WriteSnapshot(path, std::move(values)));
      if (options.write_state)
        SLUICE_RETURN_IF_ERROR(keeper_.Saved(path, options.metric));
      SLUICE_RETURN_IF_ERROR(DeleteOld(path));
      return path;
    }();
    values.clear();  // (Still there after an error before the first.)
    if (options_.on_saved) {
      reporting_ = std::this_thread::get_id();
      options_.on_saved(result);
      reporting_ = std::thread::id();
    }
    {
      const std::lock_guard<std::mutex> finished(finished_mu_);
      finished_ = result;
    }
    last_written_ = std::move(result);
  };
  {
    // What FinishedSave returns from now on is of this save.
    const std::lock_guard<std::mutex> finished(finished_mu_);
    finished_.reset();
  }
  writer_ = std::thread(std::move(write));
  return OkStatus();
}

Result<std::string> Saver::Impl::WaitForSaves() {
  SLUICE_RETURN_IF_ERROR(CheckCaller("WaitForSaves"));
  const std::lock_guard<std::mutex> lock(writer_mu_);
  if (writer_.joinable()) writer_.join();
  if (!last_written_.has_value())
    return FailedPrecondition("saver: expected a SaveAsync before, got none");
  return *last_written_;
}

Result<CheckpointDifference> Saver::Impl::Compare(
    const CheckpointReader& reader) const {
  SLUICE_RETURN_IF_ERROR(status_);
  std::vector<WantedTensor> wanted;
  for (const SavedVariable& v : variables_) {
    PartialShape shape = v.variable.shape();
    if (!v.shape_and_slice.empty()) {
      SLUICE_ASSIGN_OR_RETURN(const ShapeAndSlice part,
                              ParseShapeAndSlice(v.shape_and_slice));
      shape = part.shape;
    }
    wanted.push_back({v.name, v.variable.dtype(), shape});
  }
  return CompareCheckpoint(reader, wanted, options_.reshape);
}

Status Saver::Impl::Restore(Session& session, const std::string& path) {
  SLUICE_RETURN_IF_ERROR(status_);
  const Result<CheckpointReader> reader = CheckpointReader::Open(path);
  // (The files of a cluster may be where this process cannot read them.)
  if (!reader.ok() && IsLocal(session)) return reader.status();
  if (reader.ok()) {
    SLUICE_ASSIGN_OR_RETURN(const CheckpointDifference difference,
                            Compare(*reader));
    if (!difference.restorable())
      return InvalidArgument(
          "restoring '", path,
          "': expected a checkpoint of this model, got one that differs:\n",
          difference.ToString());
    if (!difference.renamed.empty())
      Log(absl::StrCat("saver: '", path,
                       "' is a checkpoint of objects: restoring ",
                       difference.renamed.size(), " of ", variables_.size(),
                       " variables by their full names, such as '",
                       difference.renamed[0].name, "' from '",
                       difference.renamed[0].key, "'"));
  }
  return session.RunTargets({nodes_.restore},
                            {{nodes_.filename, Tensor::Scalar(path)}});
}

Saver::Saver(SaverOptions options, SourceLoc loc)
    : impl_(std::make_unique<Impl>(std::move(options), loc)) {}
Saver::~Saver() = default;

Status Saver::status() const { return impl_->status(); }
Result<std::string> Saver::Save(Session& session, const std::string& prefix,
                                const SaveOptions& options) {
  return impl_->Save(session, prefix, options);
}
Status Saver::SaveAsync(Session& session, const std::string& prefix,
                        const SaveOptions& options) {
  return impl_->SaveAsync(session, prefix, options);
}
Result<std::string> Saver::WaitForSaves() { return impl_->WaitForSaves(); }
std::optional<Result<std::string>> Saver::FinishedSave() {
  return impl_->FinishedSave();
}
Status Saver::Restore(Session& session, const std::string& path) {
  return impl_->Restore(session, path);
}
Result<CheckpointDifference> Saver::Compare(
    const CheckpointReader& reader) const {
  return impl_->Compare(reader);
}
std::vector<std::string> Saver::last_checkpoints() const {
  return impl_->WithKeeper([](CheckpointKeeper& k) { return k.paths(); });
}
void Saver::set_last_checkpoints(const std::vector<std::string>& paths) {
  impl_->WithKeeper([&](CheckpointKeeper& k) { k.set_paths(paths); });
}
Status Saver::RecoverLastCheckpoints(const std::string& folder) {
  return impl_->WithKeeper(
      [&](CheckpointKeeper& k) { return k.Recover(folder); });
}
Output Saver::filename() const { return impl_->nodes().filename; }
Output Saver::save_tensor() const { return impl_->nodes().save_tensor; }
Node* Saver::restore_op() const { return impl_->nodes().restore; }

}  // namespace sluice
