// x[begin:end:stride] with NumPy's extensions, given as bit masks: omitted
// begins and ends, an ellipsis, new axes, and single indices that remove their
// dimension.
#ifndef SLUICE_OPS_ARRAY_STRIDED_SLICE_H_
#define SLUICE_OPS_ARRAY_STRIDED_SLICE_H_

#include <optional>

#include "exec/core/kernel.h"
#include "ops/common/elements.h"

namespace sluice::array {

struct SliceMasks {
  SliceMasks() = default;
  explicit SliceMasks(const Node& n)
      : begin(n.IntAttr("begin_mask")),
        end(n.IntAttr("end_mask")),
        ellipsis(n.IntAttr("ellipsis_mask")),
        new_axis(n.IntAttr("new_axis_mask")),
        shrink(n.IntAttr("shrink_axis_mask")) {}
  int64_t begin = 0, end = 0, ellipsis = 0, new_axis = 0, shrink = 0;
};

// A slice in dense form: one entry per dimension of the sliced tensor.
struct SliceSpec {
  Dims begin, stride;   // If begin is unknown, so is size.
  Dims size;            // Number of entries taken; -1 if unknown.
  PartialShape result;  // With new axes, without removed dimensions.
  Dims result_from;     // Per result dimension: the input dimension, or -1.
  bool whole = false;   // Takes everything unchanged: a reshape.
};

// `begin` and `end` may be null: not known yet. InvalidArgument for everything
// that TensorFlow rejects. If the shape is fully known and both are given, the
// result is fully known.
Result<SliceSpec> MakeSliceSpec(const PartialShape& input, const Tensor* begin,
                                const Tensor* end, const Tensor& strides,
                                const SliceMasks& masks);

// The slice that a node takes: made once if its bounds and the shape of what it
// slices are known before a step. Shared by all steps; thread-safe.
class NodeSlice {
 public:
  // Input `bounds` and the two after it are begin, end and strides; `sliced`:
  // the known part of the shape.
  NodeSlice(const Node& n, int bounds, const PartialShape& sliced);
  // The slice of this shape, which is *made unless it was made before.
  Result<const SliceSpec*> Of(const Shape& sliced, const KernelContext& ctx,
                              SliceSpec* made) const;

 private:
  const SliceMasks masks_;
  const int bounds_;
  Shape known_shape_;
  std::optional<SliceSpec> known_;
};

// result = x[spec]. REQUIRES: a complete spec for x's shape.
void ReadSlice(const Tensor& x, const SliceSpec& spec, Tensor* result);
// x[spec] = value, which broadcasts to spec.result (InvalidArgument if not).
// REQUIRES: x has no other reader.
Status WriteSlice(const SliceSpec& spec, const Tensor& value, Tensor* x);

}  // namespace sluice::array

#endif  // SLUICE_OPS_ARRAY_STRIDED_SLICE_H_
