// The nodes of a saver.
#ifndef SLUICE_TRAIN_SAVER_NODES_H_
#define SLUICE_TRAIN_SAVER_NODES_H_

#include <string>
#include <vector>

#include "train/saver.h"

namespace sluice {

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

// Adds them to the ambient graph. Errors are recorded there.
SaverNodes AddSaverNodes(const std::vector<SavedVariable>& variables,
                         const SaverOptions& options, SourceLoc loc);

}  // namespace sluice

#endif  // SLUICE_TRAIN_SAVER_NODES_H_
