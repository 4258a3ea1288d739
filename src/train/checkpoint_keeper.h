// Which checkpoints of a folder are kept.
#ifndef SLUICE_TRAIN_CHECKPOINT_KEEPER_H_
#define SLUICE_TRAIN_CHECKPOINT_KEEPER_H_

#include <optional>
#include <string>
#include <vector>

#include "train/saver.h"

namespace sluice {

// The checkpoints of a saver: the latest, those with the best metrics, and, no
// longer in its lists, those kept for good. Not thread-safe.
class CheckpointKeeper {
 public:
  explicit CheckpointKeeper(const SaverOptions& options);

  // Lists a checkpoint that was saved, and replaces the state file.
  Status Saved(const std::string& path, std::optional<double> metric);
  // Deletes the checkpoints that are no longer to be kept. What fails is tried
  // again the next time, in this process or in the next one that recovers; the
  // first error is returned.
  Status DeleteOld();
  // Takes over the folder's state file, its list of the best, and what another
  // process was to delete.
  Status Recover(const std::string& folder);
  std::vector<std::string> paths() const;
  // `times`: when each was saved, in seconds since 1970; empty: now.
  void set_paths(const std::vector<std::string>& paths,
                 const std::vector<double>& times = {});

 private:
  struct Kept {
    std::string path;
    double time = 0;
  };
  struct Best {
    std::string path;
    double metric = 0;
    bool preserved = false;  // Kept for good, also when others are better.
  };
  double Now() const;
  bool Better(double a, double b) const;
  bool Listed(const std::string& path) const;
  std::string BestFile(const std::string& folder) const;
  Status ReadBest(const std::string& folder);
  Status WriteBest(const std::string& folder) const;
  // The list of what is to be deleted, which a killed process leaves.
  std::string ObsoleteFile(const std::string& folder) const;
  Status ReadObsolete(const std::string& folder);
  Status WriteObsolete(const std::string& folder) const;

  const SaverOptions& options_;
  std::vector<Kept> latest_;  // Oldest first.
  std::vector<Best> best_;    // Best first.
  std::vector<std::string> to_delete_;
  std::string folder_;  // Of the latest checkpoint; its file lists to_delete_.
  double last_preserved_;
};

}  // namespace sluice

#endif  // SLUICE_TRAIN_CHECKPOINT_KEEPER_H_
