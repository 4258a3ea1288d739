// The nodes of a saver: one place for C++'s savers and Python's.
//
// A saver saves items: a variable, or anything else that gives tensors and
// takes them back. The values of an item are in one data file.
#ifndef SLUICE_TRAIN_SAVER_NODES_H_
#define SLUICE_TRAIN_SAVER_NODES_H_

#include <functional>
#include <string>
#include <vector>

#include "train/saver.h"

namespace sluice {

struct TensorToSave {
  std::string name;
  std::string shape_and_slice;
  DType dtype = DType::kInvalid;
  // What the save op takes: of a reference variable, the reference. Called
  // once, in the scopes of the save.
  std::function<Output()> value;
};

struct ItemToSave {
  std::vector<TensorToSave> tensors;
  std::string device;  // Whose task writes the data file, if they are several.
  // Called once, with what was saved: builds what restores it. Null, with the
  // error in the graph, if that failed.
  std::function<Node*(const std::vector<Output>& saved)> restore;
};

struct SaverNodeOptions {
  std::string name = "save";       // Of the scope.
  std::string filename = "model";  // If none is fed.
  // Each device writes a data file of its own.
  bool sharded = false;
  // TensorFlow's old format (SaveSlices), whose files are not merged.
  bool old_format = false;
};

struct SaverNodes {
  Output filename;     // A scalar string, to be fed.
  Output save_tensor;  // The path, after saving.
  Node* restore = nullptr;
  // The variables' values, for snapshots.
  std::vector<Output> values;
  // What a sharded save adds to the path of its temporary folder; "" if it is
  // not sharded.
  std::string temporary_suffix;
};

// Adds them to the ambient graph, with TensorFlow's names. Errors are recorded
// there.
SaverNodes AddSaverNodes(const std::vector<ItemToSave>& items,
                         const SaverNodeOptions& options, SourceLoc loc);
// Those of variables.
SaverNodes AddSaverNodes(const std::vector<SavedVariable>& variables,
                         const SaverOptions& options, SourceLoc loc);

}  // namespace sluice

#endif  // SLUICE_TRAIN_SAVER_NODES_H_
