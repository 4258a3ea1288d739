// The file "checkpoint" of a folder, in TensorFlow's text format: which
// checkpoint is the latest, and which others there are.
//
//   Result<std::string> latest = LatestCheckpoint("model");
//   if (!latest.ok()) return latest.status();  // NotFound: there is none yet.
//   Result<CheckpointReader> reader = CheckpointReader::Open(*latest);
#ifndef SLUICE_CHECKPOINT_STATE_H_
#define SLUICE_CHECKPOINT_STATE_H_

#include <string>
#include <vector>

#include "base/status.h"

namespace sluice {

// Paths are prefixes of checkpoints.
struct CheckpointFolderState {
  std::string latest = {};            // "": none.
  std::vector<std::string> all = {};  // Oldest first.
  std::vector<double> times = {};  // Of `all`, in seconds since 1970; or empty.
  double last_preserved = 0;       // When one was last kept for good.
};

// Paths that are relative in the file are taken as relative to the folder.
// NotFound if there is no such file, DataLoss if it is malformed.
Result<CheckpointFolderState> ReadCheckpointState(
    const std::string& folder, const std::string& file = "checkpoint");
// Replaces the file at one instant. `relative`: paths within the folder are
// written relative to it, so that the folder can be moved; they are also if the
// folder is relative.
Status WriteCheckpointState(const std::string& folder,
                            const CheckpointFolderState& state,
                            bool relative = false,
                            const std::string& file = "checkpoint");

// The path of the latest checkpoint in a folder. NotFound if the folder has
// none, or if the files of the one that is named are missing.
Result<std::string> LatestCheckpoint(const std::string& folder,
                                     const std::string& file = "checkpoint");

}  // namespace sluice

#endif  // SLUICE_CHECKPOINT_STATE_H_
