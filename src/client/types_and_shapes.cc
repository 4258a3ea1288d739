#include "client/types_and_shapes.h"

#include <limits>

#include "graph/graph.h"

namespace sluice {

DType NaturalType(const Operand& x) {
  if (x.output.valid()) return RemoveRef(x.output.dtype());
  if (!x.literal.valid()) return DType::kInvalid;
  const DType t = x.literal.dtype();
  return x.weak && t == DType::kDouble ? DType::kFloat : t;
}

Output InType(const Operand& x, DType t) {
  const Output v = x.Get(t);
  if (!v.valid() || RemoveRef(v.dtype()) == t) return v;
  switch (RemoveRef(v.dtype())) {
    case DType::kString:
    case DType::kResource:
    case DType::kVariant:
      return BuildError(
          InvalidArgument("expected a tensor of numbers, got ",
                          DTypeName(v.dtype()), " '", v.name(), "'"),
          x.loc);
    default:
      return Build("Cast", {v}, {{"DstT", t}}, "", x.loc);
  }
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
