#include "train/checkpoint_keeper.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "checkpoint/bundle_writer.h"
#include "checkpoint/pending_file.h"
#include "checkpoint/state.h"
#include "io/file.h"

namespace sluice {

CheckpointKeeper::CheckpointKeeper(const SaverOptions& options)
    : options_(options), last_preserved_(Now()) {}

double CheckpointKeeper::Now() const {
  return options_.clock
             ? options_.clock()
             : absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch());
}

bool CheckpointKeeper::Better(double a, double b) const {
  return options_.lower_is_better ? a < b : a > b;
}

bool CheckpointKeeper::Listed(const std::string& path) const {
  const auto is = [&](const auto& k) { return k.path == path; };
  return std::any_of(latest_.begin(), latest_.end(), is) ||
         std::any_of(best_.begin(), best_.end(), is);
}

std::vector<std::string> CheckpointKeeper::paths() const {
  std::vector<std::string> out;
  for (const Kept& k : latest_) out.push_back(k.path);
  return out;
}

void CheckpointKeeper::set_paths(const std::vector<std::string>& paths,
                                 const std::vector<double>& times) {
  latest_.clear();
  for (size_t i = 0; i < paths.size(); ++i)
    latest_.push_back({paths[i], i < times.size() ? times[i] : Now()});
}

Status CheckpointKeeper::Saved(const std::string& path,
                               std::optional<double> metric) {
  const auto same = [&](const auto& k) { return k.path == path; };
  latest_.erase(std::remove_if(latest_.begin(), latest_.end(), same),
                latest_.end());
  best_.erase(std::remove_if(best_.begin(), best_.end(), same), best_.end());
  latest_.push_back({path, Now()});
  while (options_.max_to_keep > 0 &&
         latest_.size() > static_cast<size_t>(options_.max_to_keep)) {
    const Kept oldest = latest_.front();
    latest_.erase(latest_.begin());
    if (oldest.time > last_preserved_ + options_.keep_every_n_hours * 3600) {
      last_preserved_ += options_.keep_every_n_hours * 3600;
      for (Best& b : best_) b.preserved = b.preserved || b.path == oldest.path;
    } else {
      to_delete_.push_back(oldest.path);
    }
  }
  // (A metric that is not a number is not the best of any.)
  if (options_.keep_best > 0 && metric.has_value() && !std::isnan(*metric)) {
    const auto at =
        std::find_if(best_.begin(), best_.end(),
                     [&](const Best& b) { return Better(*metric, b.metric); });
    best_.insert(at, {path, *metric});
    if (best_.size() > static_cast<size_t>(options_.keep_best)) {
      if (!best_.back().preserved) to_delete_.push_back(best_.back().path);
      best_.pop_back();
    }
  }
  // (What is still in a list is added again when it leaves that.)
  std::erase_if(to_delete_, [&](const auto& old) { return Listed(old); });
  const std::string folder = FolderOf(path);
  // (Before the state file: if the process ends between the two, what the old
  // one names is not deleted. An error only means that a kill leaves files.)
  folder_ = folder;
  (void)WriteObsolete(folder);
  CheckpointFolderState state;
  state.latest = path;
  for (const Kept& k : latest_) {
    state.all.push_back(k.path);
    state.times.push_back(k.time);
  }
  state.last_preserved = last_preserved_;
  SLUICE_RETURN_IF_ERROR(WriteCheckpointState(
      folder, state, options_.relative_paths, options_.state_file));
  return options_.keep_best > 0 ? WriteBest(folder) : OkStatus();
}

Status CheckpointKeeper::DeleteOld() {
  Status first_error;
  std::erase_if(to_delete_, [&](const std::string& old) {
    const Status s = DeleteCheckpoint(old);
    if (first_error.ok()) first_error = s;
    return s.ok();
  });
  if (folder_.empty()) return first_error;
  const Status s = WriteObsolete(folder_);
  return first_error.ok() ? s : first_error;
}

std::string CheckpointKeeper::ObsoleteFile(const std::string& folder) const {
  return (std::filesystem::path(folder) / (options_.state_file + ".obsolete"))
      .string();
}

// A line for each, relative to the folder if it is there. There is no file if
// there is nothing to delete. It is not flushed to the disk: what a power
// failure leaves of it is whole lines, which are right, and part of one, which
// is ignored.
Status CheckpointKeeper::WriteObsolete(const std::string& folder) const {
  std::string text;
  for (const std::string& path : to_delete_) {
    if (path.find('\n') != std::string::npos) continue;
    const bool inside = FolderOf(path) == folder;
    absl::StrAppend(
        &text,
        inside
            ? std::filesystem::path(path).filename().string()
            : std::filesystem::absolute(std::filesystem::path(path)).string(),
        "\n");
  }
  const std::string file = ObsoleteFile(folder);
  if (!text.empty()) return ReplaceFile(file, text, /*sync=*/false);
  std::error_code failed;
  std::filesystem::remove(file, failed);
  if (failed)
    return FailedPrecondition("deleting '", file, "': ", failed.message());
  return OkStatus();
}

Status CheckpointKeeper::ReadObsolete(const std::string& folder) {
  const Result<std::string> text = ReadFile(ObsoleteFile(folder));
  if (text.status().code() == StatusCode::kNotFound) return OkStatus();
  SLUICE_RETURN_IF_ERROR(text.status());
  std::vector<std::string> lines = absl::StrSplit(*text, '\n');
  lines.pop_back();  // What has no end is not whole.
  for (const std::string& line : lines) {
    const std::string path = (std::filesystem::path(folder) / line).string();
    if (!line.empty() && !Listed(path)) to_delete_.push_back(path);
  }
  return OkStatus();
}

std::string CheckpointKeeper::BestFile(const std::string& folder) const {
  return (std::filesystem::path(folder) / (options_.state_file + ".best"))
      .string();
}

// A line for each: its metric, with a star if it is kept for good, and its
// path.
Status CheckpointKeeper::WriteBest(const std::string& folder) const {
  std::string text;
  for (const Best& b : best_)
    absl::StrAppend(&text, absl::StrFormat("%.17g", b.metric),
                    b.preserved ? "* " : " ", b.path, "\n");
  return ReplaceFile(BestFile(folder), text);
}

Status CheckpointKeeper::ReadBest(const std::string& folder) {
  const Result<std::string> text = ReadFile(BestFile(folder));
  if (text.status().code() == StatusCode::kNotFound) return OkStatus();
  SLUICE_RETURN_IF_ERROR(text.status());
  best_.clear();
  for (const absl::string_view line : absl::StrSplit(*text, '\n')) {
    if (line.empty()) continue;
    std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(line, absl::MaxSplits(' ', 1));
    Best b;
    b.preserved = absl::ConsumeSuffix(&parts.first, "*");
    b.path = std::string(parts.second);
    if (!absl::SimpleAtod(parts.first, &b.metric) || b.path.empty())
      return DataLoss("file '", BestFile(folder),
                      "': expected lines of a metric and a path, got '",
                      std::string(line), "'");
    best_.push_back(std::move(b));
  }
  return OkStatus();
}

Status CheckpointKeeper::Recover(const std::string& folder) {
  SLUICE_ASSIGN_OR_RETURN(const CheckpointFolderState state,
                          ReadCheckpointState(folder, options_.state_file));
  latest_.clear();
  for (size_t i = 0; i < state.all.size(); ++i)
    if (CheckpointExists(state.all[i]))
      latest_.push_back(
          {state.all[i], state.times.empty() ? Now() : state.times[i]});
  if (state.last_preserved != 0) last_preserved_ = state.last_preserved;
  SLUICE_RETURN_IF_ERROR(ReadBest(folder));
  to_delete_.clear();
  folder_ = folder;
  return ReadObsolete(folder);
}

// The index first: what is left after a kill is no checkpoint.
Status DeleteCheckpoint(const std::string& path) {
  SLUICE_ASSIGN_OR_RETURN(std::vector<std::string> files,
                          CheckpointFiles(path));
  std::stable_partition(files.begin(), files.end(), [&](const auto& f) {
    return f == BundleIndexName(path);
  });
  files.push_back(path + ".meta");
  for (const std::string& f : files) {
    std::error_code failed;
    std::filesystem::remove(f, failed);
    if (failed)
      return FailedPrecondition("deleting '", f, "': ", failed.message());
  }
  return OkStatus();
}

}  // namespace sluice
