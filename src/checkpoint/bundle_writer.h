// Writes checkpoints of version 2, TensorFlow's "tensor bundles":
// "<prefix>.index", a sorted table that says where each tensor is, and
// "<prefix>.data-00000-of-00001", the elements.
//
//   SLUICE_ASSIGN_OR_RETURN(auto writer, BundleWriter::Open("model/ckpt-10"));
//   SLUICE_RETURN_IF_ERROR(writer->Add("weights", weights));
//   SLUICE_RETURN_IF_ERROR(writer->Finish());
#ifndef SLUICE_CHECKPOINT_BUNDLE_WRITER_H_
#define SLUICE_CHECKPOINT_BUNDLE_WRITER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "checkpoint/pending_file.h"
#include "checkpoint/tensor_slice.h"
#include "tensor/tensor.h"

namespace sluice {

namespace proto {
class BundleEntryProto;
}  // namespace proto

// How many data files a bundle can have; TensorFlow gives their numbers five
// digits.
inline constexpr int kMaxBundleShards = 1 << 16;

struct BundleWriterOptions {
  // Wait until the disk has everything before a name is given, so that a loss
  // of power cannot leave a checkpoint without its contents.
  bool sync = true;
  // With more than one, a second thread computes the checksum of a large tensor
  // while it is being written. 0: IntraOpThreads(), which is 1 outside of
  // kernels.
  int threads = 0;
};

// Writes one bundle. Nothing is at `prefix` until Finish has written, flushed
// and renamed the data and then the index; whatever happens before leaves a
// bundle that was there as it was. (If there was one, the new data gets another
// name, "...-of-00002", to which the new index refers: its renaming is the one
// instant at which the bundle changes.) After an error all functions return it.
// Not thread-safe.
class BundleWriter {
 public:
  static Result<std::unique_ptr<BundleWriter>> Open(
      const std::string& prefix, const BundleWriterOptions& options = {});
  // Removes what was written, unless Finish was OK.
  ~BundleWriter();
  BundleWriter(const BundleWriter&) = delete;

  // Writes a tensor in host memory. InvalidArgument if the key is empty or was
  // added before; Unimplemented for resources and variants, which have no
  // meaning outside of their process.
  Status Add(const std::string& key, const Tensor& tensor);
  // Writes a part of the tensor `key`, whose whole shape is `shape`.
  // InvalidArgument if the part does not fit it, or another part has another
  // type or shape.
  Status AddSlice(const std::string& key, const Shape& shape,
                  const TensorSlice& slice, const Tensor& part);
  // A tensor of plain elements that is never in memory as a whole: Begin, then
  // pieces of its bytes in order, then End. InvalidArgument if the bytes are
  // not as many as the shape needs.
  Status BeginTensor(const std::string& key, DType dtype, const Shape& shape);
  Status AppendBytes(std::string_view bytes);
  Status EndTensor();

  Status Finish();

 private:
  BundleWriter(std::string prefix, const BundleWriterOptions& options,
               std::unique_ptr<PendingFile> data);
  Status CheckOpen() const;
  // Also that the key is new.
  Status CheckKey(const std::string& key) const;
  Status WriteStrings(const Tensor& tensor, uint32_t* crc);
  void AddEntry(const std::string& key, DType dtype, const Shape& shape,
                int64_t offset, uint32_t crc);
  // Calls fn unless there was an error, and keeps its error.
  template <typename Fn>
  Status Keep(const Fn& fn) {
    if (status_.ok()) status_ = fn();
    return status_;
  }

  const std::string prefix_;
  const BundleWriterOptions options_;
  std::unique_ptr<PendingFile> data_;
  Status status_;
  bool finished_ = false;
  // Serialised entries, and those of tensors that are stored in parts.
  std::map<std::string, std::string> entries_;
  std::map<std::string, std::unique_ptr<proto::BundleEntryProto>> divided_;
  struct Begun {
    std::string key;
    DType dtype = DType::kInvalid;
    Shape shape;
    int64_t offset = 0, left = 0;
    uint32_t crc = 0;
  };
  std::unique_ptr<Begun> begun_;
};

// Makes one bundle of several, whose data files are renamed, not copied; the
// indices of the parts are removed. A tensor may have parts in each of them.
// The bundle appears, or replaces another, at one instant, as with
// BundleWriter; after an error before that the parts are as they were.
// InvalidArgument if two parts have the same tensor, or there is no part;
// `allow_missing`: prefixes without a bundle are skipped.
Status MergeBundles(const std::vector<std::string>& prefixes,
                    const std::string& merged, bool allow_missing = false,
                    const BundleWriterOptions& options = {});

// The names of a bundle's files.
std::string BundleIndexName(const std::string& prefix);
std::string BundleDataName(const std::string& prefix, int shard, int shards);
// The files of a checkpoint of either version that exist, sorted.
Result<std::vector<std::string>> CheckpointFiles(const std::string& prefix);

}  // namespace sluice

#endif  // SLUICE_CHECKPOINT_BUNDLE_WRITER_H_
