// The parts of a checkpoint's tensors, by where they are: the interface between
// the reader and the two versions of the format.
#ifndef SLUICE_CHECKPOINT_SAVED_PARTS_H_
#define SLUICE_CHECKPOINT_SAVED_PARTS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "base/status.h"
#include "checkpoint/checkpoint_reader.h"
#include "tensor/tensor.h"

namespace sluice {

// A part of a tensor.
struct SavedPart {
  Shape shape;
  int file = 0;
  // Version 2: where its bytes are, and their checksum.
  int64_t offset = 0, size = 0;
  uint32_t masked_crc = 0;
  // Version 1: its key in the table.
  std::string key;
};

struct SavedParts {
  std::map<std::string, SavedTensor> tensors;
  std::map<std::string, std::vector<SavedPart>> parts;  // As their slices.
};

// The files of an open checkpoint. Immutable; thread-safe.
class SavedFiles {
 public:
  virtual ~SavedFiles() = default;
  // Whether bytes of parts can be read one by one: plain elements of version 2.
  virtual bool HasBytes(DType dtype) const = 0;
  // An error if the part's file cannot be read or is too short for the elements
  // that the index says it has: then nothing is to be allocated for them.
  virtual Status CheckPart(const std::string& name,
                           const SavedPart& part) const = 0;
  // Reads `n` bytes of a part from byte `begin` on; does not check them.
  // REQUIRES: HasBytes, and that the part has them.
  virtual Status ReadBytes(const std::string& name, const SavedPart& part,
                           int64_t begin, size_t n, char* to) const = 0;
  // The part as a tensor, checked.
  virtual Result<Tensor> ReadPart(const std::string& name, DType dtype,
                                  const SavedPart& part) const = 0;
  // The name of the file that a part is in.
  virtual std::string FileOf(const SavedPart& part) const = 0;
};

// What they found is left in `found`.
Result<std::unique_ptr<SavedFiles>> OpenBundle(const std::string& prefix,
                                               SavedParts* found);
Result<std::unique_ptr<SavedFiles>> OpenVersion1(
    const std::vector<std::string>& paths, SavedParts* found);

// Adds a tensor with its parts. DataLoss if a part does not fit its shape, or
// two have an element in common.
Status AddTensor(const std::string& file, const std::string& name,
                 SavedTensor tensor, std::vector<SavedPart> parts,
                 SavedParts* to);

}  // namespace sluice

#endif  // SLUICE_CHECKPOINT_SAVED_PARTS_H_
