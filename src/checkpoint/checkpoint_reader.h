// Reads checkpoints: what BundleWriter, the saving ops and TensorFlow write, in
// both versions of the format.
//
//   Result<CheckpointReader> reader = CheckpointReader::Open(prefix);
//   if (!reader.ok()) return reader.status();
//   for (const auto& [name, tensor] : reader->tensors())
//     std::cout << name << " " << DTypeName(tensor.dtype)
//               << tensor.shape.ToString() << "\n";
//   Result<Tensor> bias = reader->Read("dense/bias");
//
// In checkpoints of objects (TensorFlow 2's tf.train.Checkpoint) the keys are
// paths through objects, such as "model/layer/.ATTRIBUTES/VARIABLE_VALUE".
// Their variables are found by their full names as well, by which TensorFlow
// 1's savers know them: a name that is no key stands for the variable of that
// name.
#ifndef SLUICE_CHECKPOINT_CHECKPOINT_READER_H_
#define SLUICE_CHECKPOINT_CHECKPOINT_READER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "base/status.h"
#include "checkpoint/tensor_slice.h"
#include "tensor/tensor.h"

namespace sluice {

// A tensor of a checkpoint, as its index describes it.
struct SavedTensor {
  DType dtype = DType::kInvalid;
  Shape shape;
  // The parts in which it is stored; one that is all of it, if it is whole.
  std::vector<TensorSlice> slices;
};

// An open checkpoint. Holds the index; elements are read when they are asked
// for, straight into the tensors that are returned, and checked against their
// checksums. Every error names the file and the tensor: DataLoss for contents
// that are corrupt or cut off, NotFound for a name that is not in the index,
// with the nearest ones. A checkpoint that is replaced meanwhile (by a writer
// of this library) is read on as it was. Copies share the files. Thread-safe.
class CheckpointReader {
 public:
  // `prefix`: the path that was given to the saver, without ".index". For
  // version 1 also a pattern that matches several files. NotFound if there is
  // neither "<prefix>.index" nor a file of version 1.
  static Result<CheckpointReader> Open(const std::string& prefix);
  ~CheckpointReader();
  CheckpointReader(const CheckpointReader&);
  CheckpointReader& operator=(const CheckpointReader&);

  const std::string& prefix() const;
  int version() const;  // 1 or 2
  const std::map<std::string, SavedTensor>& tensors() const;
  bool Has(const std::string& name) const;
  // The keys of tensors() by the full names of the variables; empty if the
  // checkpoint is not one of objects. (Names that several variables have are
  // left out.) DataLoss if its objects cannot be read.
  Result<std::map<std::string, std::string>> FullNames() const;
  // Valid as long as the reader or a copy of it. InvalidArgument for a full
  // name that several variables have.
  Result<const SavedTensor*> Find(const std::string& name) const;

  // The whole tensor; its parts are put together. InvalidArgument, as in
  // TensorFlow, if some elements are in none of them.
  Result<Tensor> Read(const std::string& name) const;
  // A part of it, however it is stored. InvalidArgument if the slice does not
  // fit the tensor.
  Result<Tensor> ReadSlice(const std::string& name,
                           const TensorSlice& slice) const;
  struct Request {
    std::string name;
    TensorSlice slice = TensorSlice();
    bool whole = true;  // `slice` does not count.
  };
  // All of these, on up to `threads` threads (0: as many as there are cores).
  Result<std::vector<Tensor>> ReadMany(const std::vector<Request>& requests,
                                       int threads = 0) const;

  // Calls fn with the bytes of each part of a tensor of plain elements, in
  // pieces of whole elements: tensors larger than memory can be looked at. For
  // strings there is an InvalidArgument.
  Status ForEachPiece(const std::string& name,
                      absl::FunctionRef<Status(std::string_view)> fn) const;
  // Reads everything, to find what is corrupt or missing.
  Status Verify() const;

 private:
  class Impl;
  explicit CheckpointReader(std::shared_ptr<const Impl> impl);
  std::shared_ptr<const Impl> impl_;
};

// Whether there is a checkpoint of either version at `prefix`. (A folder of
// that name is none.)
bool CheckpointExists(const std::string& prefix);

}  // namespace sluice

#endif  // SLUICE_CHECKPOINT_CHECKPOINT_READER_H_
