#include "client/nn/layer_scope.h"

#include "client/types_and_shapes.h"
#include "graph/graph.h"
#include "sluice/ops.h"

namespace sluice {

Var Weight(const std::string& name, const Shape& shape, DType dtype,
           const WeightOptions& options) {
  VarOptions o;
  o.trainable = options.trainable;
  o.regularizer = options.regularizer;
  const int before = CurrentGraph().num_nodes();
  const Var made = GetVariable(name, shape, options.initializer, dtype, o);
  if (options.constraint == nullptr || !made.valid()) return made;
  if (made.handle().graph() == &CurrentGraph() &&
      made.handle().node->id() < before)
    return made;
  const Status s = SetConstraint(made, options.constraint);
  return s.ok() ? made : Var::FromHandle(BuildError(s));
}

Output LayerInput(const char* layer, const Operand& x, int min_rank,
                  int max_rank) {
  const Output in = x.Get(x.weak ? DType::kFloat : DType::kInvalid);
  if (!in.valid()) return ops::Identity(in);  // The error.
  const DType t = RemoveRef(in.dtype());
  if (!IsFloating(t))
    return BuildError(InvalidArgument(
        layer, ": expected an input of a floating type, got ", DTypeName(t)));
  const PartialShape shape = in.shape();
  const auto rule = [&] {
    return min_rank == max_rank
               ? absl::StrCat("of rank ", min_rank)
               : absl::StrCat("of rank ", min_rank, " to ", max_rank);
  };
  if (!shape.rank_known() || shape.rank() < min_rank || shape.rank() > max_rank)
    return BuildError(InvalidArgument(layer, ": expected an input ", rule(),
                                      ", got ", DTypeName(t),
                                      shape.ToString()));
  return in;
}

int64_t KnownSize(const char* layer, const Output& x, int axis) {
  const int i = axis < 0 ? axis + x.shape().rank() : axis;
  const int64_t size = KnownDim(x, i);
  if (size < 0)
    BuildError(InvalidArgument(layer, ": expected an input whose dimension ", i,
                               " is known when the graph is built, got ",
                               x.shape().ToString()));
  return size;
}

bool PositiveSize(const char* layer, const char* what, int64_t size) {
  constexpr int64_t kMaxSize = INT32_MAX;
  if (size > 0 && size <= kMaxSize) return true;
  BuildError(InvalidArgument(layer, ": expected ", what, " from 1 to ",
                             kMaxSize, ", got ", size));
  return false;
}

Output ShapeFrom(const Output& x, const std::vector<int64_t>& dims,
                 bool for_reshape) {
  std::vector<int64_t> known;
  int unknown = 0;
  for (size_t i = 0; i < dims.size(); ++i) {
    known.push_back(dims[i] >= 0 ? dims[i] : KnownDim(x, static_cast<int>(i)));
    if (known.back() < 0) ++unknown;
  }
  if (unknown <= (for_reshape ? 1 : 0)) {
    Tensor shape(DType::kInt64, {static_cast<int64_t>(known.size())});
    for (size_t i = 0; i < known.size(); ++i)
      shape.flat<int64_t>()[i] = known[i];
    return Constant(shape);
  }
  std::vector<Operand> parts;
  for (size_t i = 0; i < known.size(); ++i)
    parts.push_back(known[i] >= 0 ? Operand(static_cast<int32_t>(known[i]))
                                  : Operand(DimOf(x, static_cast<int>(i), {})));
  return ops::Pack(parts);
}

Training ReadTraining(const char* layer, const Operand& training) {
  Training t;
  const Tensor& literal = training.literal;
  if (!training.output.valid() && literal.valid() &&
      literal.dtype() == DType::kBool && literal.rank() == 0) {
    t.valid = true;
    t.known = literal.scalar<bool>();
    return t;
  }
  const Output o = training.Get();
  if (!o.valid()) {
    (void)ops::Identity(o);
    return t;
  }
  if (RemoveRef(o.dtype()) != DType::kBool ||
      (o.shape().rank_known() && o.shape().rank() != 0)) {
    BuildError(InvalidArgument(
        layer, ": expected `training` to be a bool scalar, got ",
        DTypeName(RemoveRef(o.dtype())), o.shape().ToString()));
    return t;
  }
  t.valid = true;
  t.decided = o;
  return t;
}

}  // namespace sluice
