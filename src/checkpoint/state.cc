#include "checkpoint/state.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include <filesystem>

#include "checkpoint/checkpoint_reader.h"
#include "checkpoint/pending_file.h"
#include "checkpoint/proto/checkpoint.pb.h"
#include "io/file.h"

namespace sluice {
namespace {

// Protobuf would print what is wrong with a text to standard error.
class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, int, const std::string& message) override {
    if (text.empty()) text = absl::StrCat("line ", line + 1, ": ", message);
  }
  std::string text;
};

std::string StateFile(const std::string& folder, const std::string& file) {
  return (std::filesystem::path(folder) / file).string();
}

}  // namespace

Result<CheckpointFolderState> ReadCheckpointState(const std::string& folder,
                                                  const std::string& file) {
  const std::string path = StateFile(folder, file);
  SLUICE_ASSIGN_OR_RETURN(const std::string text,
                          ReadFile(path, int64_t{1} << 28));
  proto::CheckpointState message;
  FirstError error;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  if (!parser.ParseFromString(text, &message) ||
      message.model_checkpoint_path().empty())
    return DataLoss(
        "file '", path,
        "': expected the state of a folder of checkpoints, got ",
        error.text.empty() ? "no model_checkpoint_path" : error.text);
  const auto absolute = [&](const std::string& p) {
    return (std::filesystem::path(folder) / p).string();
  };
  CheckpointFolderState state;
  state.latest = absolute(message.model_checkpoint_path());
  for (const std::string& p : message.all_model_checkpoint_paths())
    state.all.push_back(absolute(p));
  state.times.assign(message.all_model_checkpoint_timestamps().begin(),
                     message.all_model_checkpoint_timestamps().end());
  if (state.times.size() != state.all.size()) state.times.clear();
  state.last_preserved = message.last_preserved_timestamp();
  return state;
}

Status WriteCheckpointState(const std::string& folder,
                            const CheckpointFolderState& state, bool relative,
                            const std::string& file) {
  if (state.latest.empty())
    return InvalidArgument(
        "state: expected the path of a checkpoint, got \"\"");
  if (!state.times.empty() && state.times.size() != state.all.size())
    return InvalidArgument("state: expected as many times as checkpoints, got ",
                           state.times.size(), " and ", state.all.size());
  relative = relative || !std::filesystem::path(folder).is_absolute();
  const auto stored = [&](const std::string& p) {
    if (!relative) return p;
    const std::filesystem::path base = folder.empty()
                                           ? std::filesystem::path(".")
                                           : std::filesystem::path(folder);
    const std::string out =
        std::filesystem::path(p).lexically_relative(base).string();
    // (Of "x" in the folder "" or "." nothing is to be taken away.)
    return out.empty() ||
                   std::filesystem::path(p).is_absolute() != base.is_absolute()
               ? p
               : out;
  };
  proto::CheckpointState message;
  message.set_model_checkpoint_path(stored(state.latest));
  bool has_latest = false;
  for (const std::string& p : state.all) {
    message.add_all_model_checkpoint_paths(stored(p));
    has_latest = has_latest || p == state.latest;
  }
  if (!has_latest) message.add_all_model_checkpoint_paths(stored(state.latest));
  if (has_latest)
    for (const double t : state.times)
      message.add_all_model_checkpoint_timestamps(t);
  if (state.last_preserved != 0)
    message.set_last_preserved_timestamp(state.last_preserved);
  std::string text;
  if (!google::protobuf::TextFormat::PrintToString(message, &text))
    return Internal("state: it cannot be printed");
  return ReplaceFile(StateFile(folder, file), text);
}

Result<std::string> LatestCheckpoint(const std::string& folder,
                                     const std::string& file) {
  SLUICE_ASSIGN_OR_RETURN(const CheckpointFolderState state,
                          ReadCheckpointState(folder, file));
  if (CheckpointExists(state.latest)) return state.latest;
  return NotFound("file '", StateFile(folder, file),
                  "': expected a checkpoint '", state.latest,
                  "', of which there are no files");
}

}  // namespace sluice
