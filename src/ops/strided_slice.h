// x[begin:end:stride] with numpy's extras, given as bit masks: which begins and
// ends are left out, where an ellipsis or a new axis stands, which entries are
// single indices that drop their dimension.
#ifndef SLUICE_OPS_STRIDED_SLICE_H_
#define SLUICE_OPS_STRIDED_SLICE_H_

#include "ops/array_util.h"

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

// A slice made dense: one entry per dimension of the sliced tensor.
struct SliceSpec {
  Dims begin, stride;   // Where begin is unknown, so is size.
  Dims size;            // Entries taken; -1 if unknown.
  PartialShape result;  // With new axes, without dropped dimensions.
  Dims result_from;     // Per result dimension: of the tensor, or -1.
  bool whole = false;   // Takes everything as it is: a reshape.
};

// `begin` and `end` may be null: not known yet. InvalidArgument for whatever
// TensorFlow refuses. With a fully known shape and both given, all is known.
Result<SliceSpec> MakeSliceSpec(const PartialShape& input, const Tensor* begin,
                                const Tensor* end, const Tensor& strides,
                                const SliceMasks& masks);

// result = x[spec]. REQUIRES: a complete spec for x's shape.
void ReadSlice(const Tensor& x, const SliceSpec& spec, Tensor* result);
// x[spec] = value, which broadcasts to spec.result (InvalidArgument if not).
// REQUIRES: nobody else reads x.
Status WriteSlice(const SliceSpec& spec, const Tensor& value, Tensor* x);

}  // namespace sluice::array

#endif  // SLUICE_OPS_STRIDED_SLICE_H_
