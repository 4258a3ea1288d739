// Slices as checkpoints store them, and what two slices of a tensor share.
#ifndef SLUICE_CHECKPOINT_STORED_SLICE_H_
#define SLUICE_CHECKPOINT_STORED_SLICE_H_

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "checkpoint/tensor_slice.h"

namespace sluice {

namespace proto {
class TensorSliceProto;
}  // namespace proto

// InvalidArgument for negative extents.
Result<TensorSlice> SliceFromProto(const proto::TensorSliceProto& p);
void SliceToProto(const TensorSlice& slice, proto::TensorSliceProto* p);

// Elements that follow each other both in a tensor and in another of which it
// holds a part.
struct SliceRun {
  int64_t from = 0, to = 0;  // Numbers of the first element in each.
  int64_t count = 0;
};
// Calls fn for the elements that the slices `from` and `to` of a tensor share,
// as runs in the order of `from`; fn returns false to stop.
// REQUIRES: both fit `shape`.
void ForEachSharedRun(const Shape& shape, const TensorSlice& from,
                      const TensorSlice& to,
                      absl::FunctionRef<bool(const SliceRun&)> fn);
// How many elements they share.
int64_t SharedElements(const Shape& shape, const TensorSlice& from,
                       const TensorSlice& to);

// The key of a stored slice in both versions of checkpoints: sorted by name,
// then by position.
std::string SliceKey(const std::string& name, const TensorSlice& slice);

}  // namespace sluice

#endif  // SLUICE_CHECKPOINT_STORED_SLICE_H_
