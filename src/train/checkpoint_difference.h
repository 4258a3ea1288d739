// How a checkpoint differs from a model.
//
//   Result<CheckpointReader> reader = CheckpointReader::Open(prefix);
//   if (!reader.ok()) return reader.status();
//   const CheckpointDifference difference = CompareCheckpoint(
//       *reader, {{"dense/kernel", DType::kFloat, {784, 10}}});
//   if (!difference.restorable()) std::cerr << difference.ToString();
#ifndef SLUICE_TRAIN_CHECKPOINT_DIFFERENCE_H_
#define SLUICE_TRAIN_CHECKPOINT_DIFFERENCE_H_

#include <string>
#include <vector>

#include "checkpoint/checkpoint_reader.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace sluice {

// How a checkpoint differs from what is to be restored from it.
struct CheckpointDifference {
  struct Missing {
    std::string name;
    // In the checkpoint; of the first kListed only, since it takes long.
    std::vector<std::string> nearest;
  };
  struct Other {  // Of another type or shape.
    std::string name;
    DType wanted_dtype = DType::kInvalid, saved_dtype = DType::kInvalid;
    PartialShape wanted_shape;
    Shape saved_shape;
  };
  // In a checkpoint of objects, found by the full name of a variable.
  struct Renamed {
    std::string name, key;
  };
  std::vector<Missing> missing;      // Not in the checkpoint.
  std::vector<Other> other;          // Cannot be restored.
  std::vector<Renamed> renamed;      // Under another name; no obstacle.
  std::vector<std::string> surplus;  // Only in the checkpoint; no obstacle.
  bool restorable() const { return missing.empty() && other.empty(); }
  // A line for each, of the first kListed of each list but `renamed`.
  std::string ToString() const;
  static constexpr size_t kListed = 20;
};

// What is to be restored under a name of a checkpoint.
struct WantedTensor {
  std::string name;
  DType dtype = DType::kInvalid;
  PartialShape shape = PartialShape::Unknown();
};

// `reshape`: a saved tensor may have another shape, with as many elements.
CheckpointDifference CompareCheckpoint(const CheckpointReader& reader,
                                       const std::vector<WantedTensor>& wanted,
                                       bool reshape = false);

}  // namespace sluice

#endif  // SLUICE_TRAIN_CHECKPOINT_DIFFERENCE_H_
