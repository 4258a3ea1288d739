#include "ops/random/generator.h"

namespace sluice::random {

Result<Shape> ShapeInput(const KernelContext& ctx, int i) {
  const Tensor& t = ctx.input(i);
  if (t.rank() != 1)
    return InvalidArgument("shape: expected a vector, got shape ",
                           t.shape().ToString());
  Dims dims(static_cast<size_t>(t.num_elements()));
  for (size_t k = 0; k < dims.size(); ++k)
    dims[k] =
        t.dtype() == DType::kInt32 ? t.raw<int32_t>()[k] : t.raw<int64_t>()[k];
  return Shape::Make({dims.data(), dims.size()});
}

Result<Philox> SeedInput(const KernelContext& ctx, int i) {
  const Tensor& t = ctx.input(i);
  if (t.rank() != 1 || t.num_elements() != 2)
    return InvalidArgument("seed: expected shape [2], got ",
                           t.shape().ToString());
  if (t.dtype() == DType::kInt32)
    return StatelessPhilox(t.raw<int32_t>()[0], t.raw<int32_t>()[1]);
  return StatelessPhilox(t.raw<int64_t>()[0], t.raw<int64_t>()[1]);
}

Result<Philox> KeyCounterInput(const KernelContext& ctx, int i) {
  const Tensor& key = ctx.input(i);
  const Tensor& counter = ctx.input(i + 1);
  const Tensor& alg = ctx.input(i + 2);
  if (key.rank() != 1 || key.num_elements() != 1)
    return InvalidArgument("key: expected shape [1], got ",
                           key.shape().ToString());
  if (counter.rank() != 1 || counter.num_elements() < 2)
    return InvalidArgument(
        "counter: expected a vector of at least 2 elements, got shape ",
        counter.shape().ToString());
  if (alg.rank() != 0)
    return InvalidArgument("alg: expected a scalar, got shape ",
                           alg.shape().ToString());
  const int32_t algorithm = alg.raw_scalar<int32_t>();
  if (algorithm != 1 && algorithm != 3)  // Philox, or "choose".
    return InvalidArgument("alg: expected 1 (Philox) or 3 (automatic), got ",
                           algorithm);
  return Philox::FromMemory(counter.raw<uint64_t>(), key.raw<uint64_t>());
}

Status ScalarInputs(const KernelContext& ctx, int begin, int end) {
  for (int i = begin; i < end; ++i)
    if (ctx.input(i).rank() != 0)
      return InvalidArgument("input ", i, ": expected a scalar, got shape ",
                             ctx.input(i).shape().ToString());
  return OkStatus();
}

Status ShapeFromInput0(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.WithRank(0, 1).status());
  SLUICE_ASSIGN_OR_RETURN(PartialShape s, c.InputAsShape(0));
  c.set_output(0, std::move(s));
  return OkStatus();
}

}  // namespace sluice::random
