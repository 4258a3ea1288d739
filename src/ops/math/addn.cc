// Sums of many arrays of one shape, and L2Loss.
#include <algorithm>
#include <vector>

#include "base/parallel.h"
#include "exec/fusion/block_form.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "kernels/simd/reduce.h"
#include "ops/common/carrier_type.h"
#include "ops/common/elements.h"
#include "ops/common/grad_nodes.h"
#include "ops/math/elementwise.h"
#include "ops/tensor_array/tensor_list.h"

namespace sluice {
namespace {

struct AddNState {
  simd::BinaryKernel add;
};

Status RunAddN(KernelContext& ctx) {
  const simd::BinaryKernel& add = ctx.state<AddNState>().add;
  const int count = ctx.num_inputs();
  if (count == 1) {
    ctx.set_output(0, ctx.TakeInput(0));
    return OkStatus();
  }
  for (int i = 1; i < count; ++i)
    SLUICE_RETURN_IF_ERROR(RequireEqualShapes(ctx, 0, i));
  const DType t = ctx.input(0).dtype();
  const Shape shape = ctx.input(0).shape();
  const int64_t n = shape.num_elements();
  const void* first = ctx.input(0).raw();
  const void* second = ctx.input(1).raw();
  SLUICE_RETURN_IF_ERROR(ctx.ForwardOrAllocate({0, 1}, 0, t, shape));
  void* out = ctx.output(0).raw();
  if (count == 2) {
    add(first, second, out, n);
    return OkStatus();
  }
  // Piece by piece, so that the sum stays in the nearest cache.
  constexpr int64_t kPiece = 2048;
  ParallelFor(
      n, std::max<int64_t>(kPiece, add.grain), [&](int64_t begin, int64_t end) {
        for (; begin < end; begin += kPiece) {
          const int64_t m = std::min(kPiece, end - begin);
          void* const sum = array::At(t, out, begin);
          add.fn(simd::Operands::kVectorVector, array::At(t, first, begin),
                 array::At(t, second, begin), sum, m);
          for (int i = 2; i < count; ++i)
            add.fn(simd::Operands::kVectorVector, sum,
                   array::At(t, ctx.input(i).raw(), begin), sum, m);
        }
      });
  return OkStatus();
}

Status RunAddVariants(KernelContext& ctx) {
  Tensor sum = ctx.TakeInput(0);
  for (int i = 1; i < ctx.num_inputs(); ++i)
    SLUICE_RETURN_IF_ERROR(AddToTensor(ctx.input(i), &sum));
  ctx.set_output(0, std::move(sum));
  return OkStatus();
}

template <int N>
bool AddNBlock(const void* state, const void* const* in, uint32_t, void* out,
               int64_t n) {
  const simd::BinaryFn add = static_cast<const AddNState*>(state)->add.fn;
  add(simd::Operands::kVectorVector, in[0], in[1], out, n);
  if (N == 3) add(simd::Operands::kVectorVector, out, in[2], out, n);
  return true;
}

const BlockFormRegistrar addn_form(
    [](const Node& n, const Kernel& k) -> std::optional<BlockForm> {
      if (k.run != RunAddN || n.num_inputs() < 2 || n.num_inputs() > 3)
        return std::nullopt;
      return BlockForm{.fn = n.num_inputs() == 2 ? AddNBlock<2> : AddNBlock<3>};
    });

template <int N>
bool ScalarAddN(uint64_t* registers, Tensor*, const ScalarPlaces& at) {
  const simd::BinaryFn add = static_cast<const AddNState*>(at.state)->add.fn;
  uint64_t sum = registers[at.in[0]];
  for (int i = 1; i < N; ++i)
    add(simd::Operands::kVectorVector, &sum, &registers[at.in[i]], &sum, 1);
  registers[at.out] = sum;
  return true;
}

Status MakeAddN(const Node& n, Kernel* k) {
  const DType t = n.TypeAttr("T");
  if (t == DType::kVariant) {
    k->run = RunAddVariants;
    k->expensive = true;
    return OkStatus();
  }
  auto s = std::make_shared<AddNState>();
  s->add = simd::GetBinary(simd::BinaryOp::kAdd, CarrierType(t));
  if (!s->add) return NoKernelFor(n, t);
  k->state = std::move(s);
  k->run = RunAddN;
  if (DTypeSize(t) <= 8)
    k->scalar = n.num_inputs() == 2   ? ScalarAddN<2>
                : n.num_inputs() == 3 ? ScalarAddN<3>
                                      : nullptr;
  k->expensive = LooksBig(n);
  return OkStatus();
}

Status AddNShape(ShapeContext& c) {
  PartialShape all = c.input(0);
  for (int i = 1; i < c.num_inputs(); ++i) {
    SLUICE_ASSIGN_OR_RETURN(all, all.MergeWith(c.input(i)));
  }
  c.set_output(0, std::move(all));
  return OkStatus();
}

Status AddNGrad(GradContext& c) {
  for (Gradient& g : c.grads) g = c.dy[0];
  return OkStatus();
}

SLUICE_OP(AddN)
    .Input("inputs: N * T")
    .Output("sum: T")
    .Attr("N: int >= 1")
    .Attr(
        "T: {float, double, int32, uint8, int16, int8, complex64, int64, "
        "qint8, quint8, qint32, bfloat16, qint16, quint16, uint16, complex128, "
        "half, uint32, uint64, variant}")
    .Kind(OpKind::kAddN)
    .Family("math")
    .Commutative()
    .Shape(AddNShape)
    .Kernel(MakeAddN)
    .Grad(AddNGrad)
    .Sample({{.shape = {2, 3}}, {.shape = {2, 3}}, {.shape = {2, 3}}},
            {{"N", 3}})
    .Doc("Adds tensors of the same shape elementwise.");

SLUICE_OP(AccumulateNV2)
    .Input("inputs: N * T")
    .Output("sum: T")
    .Attr("N: int >= 1")
    .Attr(
        "T: {float, double, int32, uint8, int16, int8, complex64, int64, "
        "qint8, quint8, qint32, bfloat16, qint16, quint16, uint16, complex128, "
        "half, uint32, uint64}")
    .Attr("shape: shape")
    .Family("math")
    .Commutative()
    .Shape(AddNShape)
    .Kernel(MakeAddN)
    .Grad(AddNGrad)
    .Sample({{.shape = {2, 3}}, {.shape = {2, 3}}},
            {{"N", 2}, {"shape", PartialShape({2, 3})}})
    .Doc("Adds tensors of a declared shape elementwise.");

// ---- L2Loss -----------------------------------------------------------------

template <typename T>
void Halve(T* x) {
  *x = T(*x / 2);
}

Status RunL2Loss(KernelContext& ctx) {
  const Tensor& t = ctx.input(0);
  SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, t.dtype(), Shape()));
  const int64_t dims[] = {t.num_elements()};
  const bool reduced[] = {true};
  Tensor& out = ctx.output(0);
  if (!simd::Reduce(simd::ReduceOp::kSumSquares, t.dtype(), dims, reduced,
                    t.raw(), out.raw()))
    return NoKernelFor(ctx.node(), t.dtype());
  switch (t.dtype()) {
    case DType::kFloat:
      Halve(out.raw<float>());
      break;
    case DType::kDouble:
      Halve(out.raw<double>());
      break;
    case DType::kHalf:
      Halve(out.raw<half>());
      break;
    case DType::kBfloat16:
      Halve(out.raw<bfloat16>());
      break;
    default:
      return NoKernelFor(ctx.node(), t.dtype());
  }
  return OkStatus();
}

Status L2LossGrad(GradContext& c) {
  c.grads[0] = grad::Mul(c.input(0), c.dy[0]);
  return OkStatus();
}

SLUICE_OP(L2Loss)
    .Input("t: T")
    .Output("output: T")
    .Attr("T: {half, bfloat16, float, double}")
    .Family("math")
    .Shape(ScalarShape)
    .Kernel(Cpu(RunL2Loss, /*expensive=*/true))
    .Grad(L2LossGrad)
    .Sample({{.shape = {2, 3}}})
    .Doc("Returns half the sum of the squares of all elements.");

}  // namespace
}  // namespace sluice
