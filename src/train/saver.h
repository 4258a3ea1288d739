// Saves and restores variables: checkpoints that TensorFlow reads and writes.
//
//   Var w(Zeros({784, 10}), "w");
//   Saver saver;  // Of all variables so far.
//   Session session;
//   Status status = session.RunTargets({GlobalVariablesInitializer()});
//   Result<std::string> path = saver.Save(session, "model/ckpt", 100);
//   // Later, or in another program that builds the same variables:
//   Result<std::string> latest = LatestCheckpoint("model");
//   if (latest.ok()) status = saver.Restore(session, *latest);
#ifndef SLUICE_TRAIN_SAVER_H_
#define SLUICE_TRAIN_SAVER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint_reader.h"
#include "client/variables.h"
#include "session/session.h"
#include "train/checkpoint_difference.h"

namespace sluice {

// A variable and its name in checkpoints, which may be another than in the
// graph: a model that renamed its variables is warm-started this way.
struct SavedVariable {
  std::string name;
  Var variable;
  // For a part of a larger variable, as ParseShapeAndSlice reads it ("10 20
  // 0,4:-"); "": all of it.
  std::string shape_and_slice = "";
};

struct SaverOptions {
  // None: all global variables of the ambient graph, under their names; parts
  // of a partitioned variable (PartOf) as slices of one tensor.
  std::vector<SavedVariable> variables = {};
  std::string name = "save";  // Of the nodes.
  // Each device writes a data file of its own.
  bool sharded = false;
  // A saved tensor may have another shape than its variable, with as many
  // elements.
  bool reshape = false;
  // How many of the latest checkpoints are kept; 0: all.
  int max_to_keep = 5;
  // Beside them one is kept for good each time so many hours have passed.
  double keep_every_n_hours = 10000;
  // And this many of those with the best metric (SaveOptions::metric).
  int keep_best = 0;
  bool lower_is_better = true;
  // The state file has paths relative to its folder (state.h).
  bool relative_paths = false;
  std::string state_file = "checkpoint";
  // Saving fails with FailedPrecondition if another process saves to the folder
  // (RunLock).
  bool detect_other_runs = true;
  // Called after each SaveAsync, on its thread, with the path or the error.
  // There SaveAsync and WaitForSaves fail with FailedPrecondition: they would
  // wait for the thread that calls them. For the same reason the saver is not
  // to be destroyed there.
  std::function<void(const Result<std::string>&)> on_saved = nullptr;
  // What the threads that train hold while they run a step (std::shared_lock).
  // SaveAsync takes its snapshot while none of them does. Null: see SaveAsync.
  // Outlives the saver.
  std::shared_mutex* updates = nullptr;
  // Lines for the user; null: to standard error.
  std::function<void(const std::string&)> log = nullptr;
  // Seconds since 1970, for tests; null: the system's clock.
  std::function<double()> clock = nullptr;
};

struct SaveOptions {
  // Added to the path: "ckpt-100".
  std::optional<int64_t> step = std::nullopt;
  std::optional<double> metric = std::nullopt;
  // Whether the state file is written and old checkpoints are deleted.
  bool write_state = true;
};

// Adds the nodes that save and restore variables to the ambient graph when it
// is made (with TensorFlow's names: "save/Const", "save/SaveV2",
// "save/restore_all"), and manages the checkpoints of a folder. Errors of
// building are in status(), which every function returns. Thread-safe once
// made, except that saves wait for each other. The graph outlives it.
//
// A checkpoint is complete, and on disk, before its name appears; then the
// state file is replaced; then old checkpoints are deleted: whatever ends the
// process, the checkpoint that the state file names is whole. A failed save
// leaves everything as it was.
class Saver {
 public:
  explicit Saver(SaverOptions options = {}, SourceLoc loc = CallerLoc());
  // Waits for SaveAsync.
  ~Saver();
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;

  Status status() const;

  // Runs a step that saves to `prefix`, with "-<step>" if there is one, and
  // returns that path. The files are written where the nodes run: in a cluster,
  // by the tasks.
  Result<std::string> Save(Session& session, const std::string& prefix,
                           const SaveOptions& options = {});
  Result<std::string> Save(Session& session, const std::string& prefix,
                           int64_t step) {
    return Save(session, prefix, SaveOptions{.step = step});
  }
  // Takes a snapshot of the variables, and returns; a thread of the saver
  // writes it to files of this process, while training goes on. Waits for the
  // SaveAsync before, if it is still writing. An error is of the snapshot; one
  // of writing is given to `on_saved` and returned by WaitForSaves.
  //
  // What the snapshot holds: each variable as it was between two of its
  // updates. If no other thread runs steps meanwhile, or all hold `updates`
  // while they do, the variables are those between two steps. Otherwise they
  // may be from the midst of asynchronous updates, some before and some after
  // one, as when parameter servers are saved while workers train.
  //
  // What it costs: nothing is copied at once. The first update of a variable
  // while its snapshot is being written writes its result to other memory; one
  // that changes only some rows copies the variable before. Up to twice the
  // memory of the variables is in use until the snapshot is written; a gigabyte
  // of it is kept by the allocator, so that the next one finds it.
  Status SaveAsync(Session& session, const std::string& prefix,
                   const SaveOptions& options = {});
  Status SaveAsync(Session& session, const std::string& prefix, int64_t step) {
    return SaveAsync(session, prefix, SaveOptions{.step = step});
  }
  // Waits until nothing is being written, and returns the path of the latest
  // SaveAsync, or its error. FailedPrecondition if there was none.
  Result<std::string> WaitForSaves();
  // Does not wait: the path of a SaveAsync that has been written, or its error.
  // Each result is returned once; nullopt if there is none yet. (Only the
  // latest is kept.)
  std::optional<Result<std::string>> FinishedSave();

  // Assigns the saved values to the variables. From a checkpoint of objects
  // (tf.train.Checkpoint) too, by the full names of its variables
  // (checkpoint_reader.h); the log then says so. InvalidArgument, before
  // anything is assigned, if the checkpoint is that of another model: the
  // message lists the variables that are missing, with the nearest names, and
  // those of another type or shape. Surplus tensors do not matter.
  Status Restore(Session& session, const std::string& path);
  Result<CheckpointDifference> Compare(const CheckpointReader& reader) const;

  // The paths of the checkpoints that it keeps, oldest first; to go on with
  // those of an earlier run, set them (from the state file).
  std::vector<std::string> last_checkpoints() const;
  void set_last_checkpoints(const std::vector<std::string>& paths);
  // Takes over what the folder's state file says, for a run that goes on.
  // NotFound if there is none.
  Status RecoverLastCheckpoints(const std::string& folder);

  // The nodes, for graphs that are exported (a SaverDef): what to feed with the
  // path, the path that saving returns, and the node that restores.
  Output filename() const;
  Output save_tensor() const;
  Node* restore_op() const;

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

// Deletes the files of a checkpoint of either version, and its meta graph.
// Fails with the first error.
Status DeleteCheckpoint(const std::string& path);

}  // namespace sluice

#endif  // SLUICE_TRAIN_SAVER_H_
