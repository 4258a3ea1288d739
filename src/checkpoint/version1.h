// Checkpoints of version 1: tables of TensorFlow's SavedTensorSlices,
// compressed by snappy. They are read like those of version 2
// (checkpoint_reader.h); the ops Save and SaveSlices write them.
#ifndef SLUICE_CHECKPOINT_VERSION1_H_
#define SLUICE_CHECKPOINT_VERSION1_H_

#include <string>
#include <vector>

#include "base/status.h"
#include "checkpoint/tensor_slice.h"
#include "tensor/tensor.h"

namespace sluice {

struct Version1Tensor {
  std::string name;
  Shape shape;  // Of the whole.
  TensorSlice slice;
  Tensor value;  // Of the slice.
};
// Replaces or creates the file, at one instant. The whole file is in memory
// several times; InvalidArgument for a tensor that takes more than 2 GB, the
// limit of a message, and for types that the format does not have.
Status WriteVersion1(const std::string& path,
                     const std::vector<Version1Tensor>& tensors);

}  // namespace sluice

#endif  // SLUICE_CHECKPOINT_VERSION1_H_
