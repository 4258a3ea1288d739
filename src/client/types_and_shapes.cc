#include "client/types_and_shapes.h"

#include <limits>

namespace sluice {

DType NaturalType(const Operand& x) {
  if (x.output.valid()) return RemoveRef(x.output.dtype());
  if (!x.literal.valid()) return DType::kInvalid;
  const DType t = x.literal.dtype();
  return x.weak && t == DType::kDouble ? DType::kFloat : t;
}

Output Shaped(Output o, const PartialShape& shape, SourceLoc loc) {
  if (!o.valid() || !shape.rank_known()) return o;
  const Status s = o.graph()->SetShape(o, shape);
  return s.ok() ? o : BuildError(s, loc);
}

int64_t KnownDim(const Output& x, int i) {
  return x.shape().rank() > i ? x.shape().dim(i) : -1;
}

Output DimOf(const Output& x, int i, SourceLoc loc) {
  const AtLine at(loc);
  const int64_t known = KnownDim(x, i);
  if (known >= 0 && known <= std::numeric_limits<int32_t>::max())
    return Constant(static_cast<int32_t>(known));
  return Build(
      "StridedSlice",
      {Build("Shape", {x}), IntVector({i}), IntVector({i + 1}), IntVector({1})},
      {{"shrink_axis_mask", 1}});
}

}  // namespace sluice
