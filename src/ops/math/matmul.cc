// Matrix products, single and in batches.
#include "kernels/dnn/matmul.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "exec/batching/batch_form.h"
#include "graph/deferred_sums.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "kernels/simd/cast.h"
#include "ops/common/dispatch.h"
#include "ops/common/epilogue.h"
#include "ops/common/grad_nodes.h"
#include "ops/common/matrix_batches.h"

namespace sluice {
namespace {

using dnn::Trans;
using grad::Conj;

// Below this number of multiplications a product finishes before another thread
// starts.
constexpr int64_t kCheapProduct = 16384;

Status Mismatch(const std::string& a, const std::string& b) {
  return InvalidArgument("matrices: expected inner dimensions that agree, got ",
                         a, " and ", b);
}

// True unless the known shapes imply few multiplications.
bool MayBeExpensive(const Node& n) {
  const PartialShape& out = n.output_shape(0);
  const PartialShape& a = n.input(0).shape();
  if (out.num_elements() < 0 || a.num_elements() < 0) return true;
  const int64_t columns = out.rank() > 0 ? out.dim(out.rank() - 1) : 1;
  const int64_t work = MultiplyOrNegative(a.num_elements(), columns);
  return work < 0 || work > kCheapProduct;
}

// Input i as `t`: the input itself, or a converted copy in `room`.
Result<const Tensor*> InputAs(KernelContext& ctx, int i, DType t,
                              Tensor* room) {
  const Tensor& x = ctx.input(i);
  if (x.dtype() == t) return &x;
  SLUICE_ASSIGN_OR_RETURN(*room, ctx.AllocateTemp(t, x.shape()));
  simd::GetCast(x.dtype(), t)(x.raw(), room->raw(), x.num_elements());
  return room;
}

// ---- MatMul -----------------------------------------------------------------

Status MatMulShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const PartialShape a, c.WithRank(0, 2));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape b, c.WithRank(1, 2));
  const int ta = c.node().BoolAttr("transpose_a") ? 1 : 0;
  const int tb = c.node().BoolAttr("transpose_b") ? 1 : 0;
  if (!MergeDim(a.dim(1 - ta), b.dim(tb)).ok())
    return Mismatch(a.ToString(), b.ToString());
  c.set_output(0, PartialShape({a.dim(ta), b.dim(1 - tb)}));
  return OkStatus();
}

// The transpositions of the factors of a node.
struct Transposes {
  explicit Transposes(const Node& n)
      : a(n.BoolAttr("transpose_a")), b(n.BoolAttr("transpose_b")) {}

  Result<dnn::GemmShape> Of(const Tensor& x, const Tensor& y) const {
    if (x.rank() != 2 || y.rank() != 2)
      return InvalidArgument("matrices: expected two of rank 2, got ",
                             x.shape().ToString(), " and ",
                             y.shape().ToString());
    dnn::GemmShape s;
    s.m = x.dim(a ? 1 : 0);
    s.k = x.dim(a ? 0 : 1);
    s.n = y.dim(b ? 0 : 1);
    if (s.k != y.dim(b ? 1 : 0))
      return Mismatch(x.shape().ToString(), y.shape().ToString());
    s.trans_a = a ? Trans::kTranspose : Trans::kNone;
    s.trans_b = b ? Trans::kTranspose : Trans::kNone;
    return s;
  }

  const bool a, b;
};

template <typename T>
class MatMul {
 public:
  explicit MatMul(const Node& n) : transposes_(n) {}

  Status Run(KernelContext& ctx) const {
    Tensor rooms[2];
    SLUICE_ASSIGN_OR_RETURN(const Tensor* a,
                            InputAs(ctx, 0, DTypeOf<T>(), &rooms[0]));
    SLUICE_ASSIGN_OR_RETURN(const Tensor* b,
                            InputAs(ctx, 1, DTypeOf<T>(), &rooms[1]));
    SLUICE_ASSIGN_OR_RETURN(const dnn::GemmShape s, transposes_.Of(*a, *b));
    const int64_t dims[] = {s.m, s.n};
    SLUICE_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DTypeOf<T>(), shape));
    dnn::Gemm<T>(s, a->raw<T>(), b->raw<T>(), ctx.output(0).raw<T>());
    return OkStatus();
  }

 private:
  const Transposes transposes_;
};

Status MakeMatMul(const Node& n, Kernel* k) {
  return CpuStateFor<MatMul, float, double, half, bfloat16, int32_t, int64_t,
                     uint8_t, uint16_t, uint32_t, uint64_t, complex64,
                     complex128>("T", MayBeExpensive(n))(n, k);
}

// The gradients of z = op(a) * op(b), where op is a transposition with or
// without conjugation, in terms of products of the same kind.
using Product = Output (*)(Output a, Output b, bool ta, bool tb);

void ProductGrad(Product multiply, Output a, Output b, Output dz, bool ta,
                 bool tb, Output* da, Output* db) {
  *da = ta ? multiply(b, dz, tb, true) : multiply(dz, b, false, !tb);
  *db = tb ? multiply(dz, a, true, ta) : multiply(a, dz, !ta, false);
}

Output MultiplyMatrices(Output a, Output b, bool ta, bool tb) {
  return Build("MatMul", {a, b}, {{"transpose_a", ta}, {"transpose_b", tb}});
}

Status MatMulGrad(GradContext& c) {
  Output da, db;
  ProductGrad(MultiplyMatrices, Conj(c.input(0)), Conj(c.input(1)), c.dy[0],
              c.op->BoolAttr("transpose_a"), c.op->BoolAttr("transpose_b"), &da,
              &db);
  c.grads[0] = da;
  c.grads[1] = db;
  return OkStatus();
}

SLUICE_OP(MatMul)
    .Input("a: T")
    .Input("b: T")
    .Output("product: T")
    .Attr("transpose_a: bool = false")
    .Attr("transpose_b: bool = false")
    .Attr(
        "T: {bfloat16, half, float, double, int32, int64, uint8, uint16, "
        "uint32, uint64, complex64, complex128}")
    .Attr("grad_a: bool = false")
    .Attr("grad_b: bool = false")
    .Kind(OpKind::kMatMul)
    .Family("math")
    .Shape(MatMulShape)
    .Kernel(MakeMatMul)
    .Grad(MatMulGrad)
    .Sample({{.shape = {2, 3}}, {.shape = {3, 4}}})
    .Sample({{.shape = {3, 2}}, {.shape = {4, 3}}},
            {{"transpose_a", true}, {"transpose_b", true}})
    .Doc("Multiplies two matrices, each optionally transposed.");

// Rows of different instances times the same matrix. (Products of a transposed
// `a` add over its rows, which must not be those of others.)
std::optional<BatchForm> RowsTimesMatrix(const Node& n) {
  if (n.BoolAttr("transpose_a")) return std::nullopt;
  return BatchForm{.shared = 1 << 1};
}
const BatchFormRegistrar matmul_batch("MatMul", RowsTimesMatrix);
const BatchFormRegistrar matmul_add_batch("MatMulAdd", RowsTimesMatrix);

// The gradients of weights, which are sums over calls and iterations.
const DeferredTermRegistrar matmul_terms(
    "MatMul", [](const Node& n) -> std::optional<Output> {
      const DType t = n.output_type(0);
      if ((t != DType::kFloat && t != DType::kDouble) ||
          !n.BoolAttr("transpose_a") || n.BoolAttr("transpose_b"))
        return std::nullopt;
      return Build("DeferredProduct", n.inputs(), {}, "", {});
    });

// ---- Fused with an epilogue -------------------------------------------------

template <typename T>
class FusedMatMul {
 public:
  explicit FusedMatMul(const Node& n) : transposes_(n) {}
  static Result<std::shared_ptr<FusedMatMul>> Make(const Node& n) {
    auto k = std::make_shared<FusedMatMul>(n);
    SLUICE_ASSIGN_OR_RETURN(k->epilogue_, Epilogue::Read(n));
    return k;
  }

  Status Run(KernelContext& ctx) const {
    return epilogue_.OfProduct(Multiply(ctx));
  }

 private:
  Status Multiply(KernelContext& ctx) const {
    const Tensor &a = ctx.input(0), &b = ctx.input(1);
    SLUICE_ASSIGN_OR_RETURN(const dnn::GemmShape s, transposes_.Of(a, b));
    const int64_t dims[] = {s.m, s.n};
    SLUICE_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
    SLUICE_RETURN_IF_ERROR(epilogue_.Check(ctx, shape, s.n));
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DTypeOf<T>(), shape));
    dnn::Gemm<T>(s, a.raw<T>(), b.raw<T>(), ctx.output(0).raw<T>());
    epilogue_.Run(ctx, s.m, s.n, 1);
    return OkStatus();
  }

  const Transposes transposes_;
  Epilogue epilogue_;
};

SLUICE_OP(_FusedMatMul)
    .Input("a: T")
    .Input("b: T")
    .Input("args: num_args * T")
    .Output("product: T")
    .Attr("transpose_a: bool = false")
    .Attr("transpose_b: bool = false")
    .Attr("T: {bfloat16, half, float, double}")
    .Attr("num_args: int >= 0")
    .Attr("fused_ops: list(string) = []")
    .Attr("epsilon: float = 0.0001")
    .Attr("leakyrelu_alpha: float = 0.2")
    .Family("math")
    .Shape(MatMulShape)
    .Kernel([](const Node& n, Kernel* k) {
      return CpuStateFor<FusedMatMul, float, double, half, bfloat16>(
          "T", MayBeExpensive(n))(n, k);
    })
    .NoGradient("a graph pass creates it after gradients are built")
    .Sample({{.shape = {2, 3}}, {.shape = {3, 4}}, {.shape = {4}}},
            {{"fused_ops", AttrValue::Strings{"BiasAdd", "Relu"}}})
    .Doc("A fused matrix product, bias and activation.");

// ---- A product that is added to a sum ---------------------------------------

Status MatMulAddShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(MatMulShape(c));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape sum, c.WithRank(2, 2));
  const auto merged = c.outputs()[0].MergeWith(sum);
  if (!merged.ok())
    return InvalidArgument("sum: expected the product's shape ",
                           c.outputs()[0].ToString(), ", got ", sum.ToString());
  c.set_output(0, *merged);
  return OkStatus();
}

// Adds to the sum in place if it has no other reader.
template <typename T>
class MatMulAdd {
 public:
  explicit MatMulAdd(const Node& n) : transposes_(n) {}

  Status Run(KernelContext& ctx) const {
    const Tensor &a = ctx.input(0), &b = ctx.input(1), &sum = ctx.input(2);
    SLUICE_ASSIGN_OR_RETURN(dnn::GemmShape s, transposes_.Of(a, b));
    if (sum.rank() != 2 || sum.dim(0) != s.m || sum.dim(1) != s.n)
      return InvalidArgument("sum: expected the product's shape [", s.m, ",",
                             s.n, "], got ", sum.shape().ToString());
    s.accumulate = true;
    const T *pa = a.raw<T>(), *pb = b.raw<T>(), *psum = sum.raw<T>();
    const Shape shape = sum.shape();
    SLUICE_RETURN_IF_ERROR(ctx.ForwardOrAllocate({2}, 0, DTypeOf<T>(), shape));
    T* out = ctx.output(0).raw<T>();
    if (out != psum) std::copy_n(psum, shape.num_elements(), out);
    // (If the inner dimension is empty there is nothing to add.)
    if (s.k > 0) dnn::Gemm<T>(s, pa, pb, out);
    return OkStatus();
  }

 private:
  const Transposes transposes_;
};

Status MakeMatMulAdd(const Node& n, Kernel* k) {
  return CpuStateFor<MatMulAdd, float, double>("T", MayBeExpensive(n))(n, k);
}

Status MatMulAddGrad(GradContext& c) {
  SLUICE_RETURN_IF_ERROR(MatMulGrad(c));
  c.grads[2] = c.dy[0];
  return OkStatus();
}

SLUICE_OP(MatMulAdd)
    .Input("a: T")
    .Input("b: T")
    .Input("sum: T")
    .Output("result: T")
    .Attr("transpose_a: bool = false")
    .Attr("transpose_b: bool = false")
    .Attr("T: {float, double}")
    .Kind(OpKind::kMatMulAdd)
    .Family("math")
    .Shape(MatMulAddShape)
    .Kernel(MakeMatMulAdd)
    .Grad(MatMulAddGrad)
    .Sample({{.shape = {2, 3}}, {.shape = {3, 4}}, {.shape = {2, 4}}})
    .Sample({{.shape = {3, 2}}, {.shape = {4, 3}}, {.shape = {2, 4}}},
            {{"transpose_a", true}, {"transpose_b", true}})
    .Doc(
        "Multiplies two matrices, each optionally transposed, and adds the "
        "product to a sum; used by gradients of loops.");

// ---- A product by weights that loops use ------------------------------------

Status MatMulBothWaysShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(MatMulShape(c));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape b, c.WithRank(1, 2));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape turned, c.WithRank(2, 2));
  if (b.rank_known() && turned.rank_known() &&
      !turned.CompatibleWith(PartialShape({b.dim(1), b.dim(0)})))
    return InvalidArgument("b_transposed: expected b, ", b.ToString(),
                           ", transposed, got ", turned.ToString());
  return OkStatus();
}

Status MatMulBothWaysGrad(GradContext& c) {
  c.grads[0] = Build("MatMul", {c.dy[0], c.input(2)});
  c.grads[1] = MultiplyMatrices(c.input(0), c.dy[0], true, false);
  return OkStatus();
}

SLUICE_OP(MatMulBothWays)
    .Input("a: T")
    .Input("b: T")
    .Input("b_transposed: T")
    .Output("product: T")
    .Attr("T: {float, double}")
    .Family("math")
    .Shape(MatMulBothWaysShape)
    .Kernel(MakeMatMul)
    .Grad(MatMulBothWaysGrad)
    .Sample({{.shape = {3, 2}},
             {.shape = {2, 2}, .values = {1, 2, 3, 4}},
             {.shape = {2, 2}, .values = {1, 3, 2, 4}}})
    .Doc(
        "The product of a and b. The gradient with respect to a multiplies by "
        "b_transposed, which is b transposed once if b is used in many steps "
        "of a loop.");

// Sparsity hints are ignored: our dense product is faster except for nearly
// empty matrices.
Output MultiplySparse(Output a, Output b, bool ta, bool tb) {
  return Build("SparseMatMul", {a, b},
               {{"transpose_a", ta}, {"transpose_b", tb}});
}

Status SparseMatMulGrad(GradContext& c) {
  Output da, db;
  ProductGrad(MultiplySparse, c.input(0), c.input(1), c.dy[0],
              c.op->BoolAttr("transpose_a"), c.op->BoolAttr("transpose_b"), &da,
              &db);
  c.grads[0] = grad::Cast(da, grad::TypeOf(c.input(0)));
  c.grads[1] = grad::Cast(db, grad::TypeOf(c.input(1)));
  return OkStatus();
}

SLUICE_OP(SparseMatMul)
    .Input("a: Ta")
    .Input("b: Tb")
    .Output("product: float")
    .Attr("transpose_a: bool = false")
    .Attr("transpose_b: bool = false")
    .Attr("a_is_sparse: bool = false")
    .Attr("b_is_sparse: bool = false")
    .Attr("Ta: {float, bfloat16} = DT_FLOAT")
    .Attr("Tb: {float, bfloat16} = DT_FLOAT")
    .Family("math")
    .Shape(MatMulShape)
    .Kernel(CpuState<MatMul<float>>(/*expensive=*/true))
    .Grad(SparseMatMulGrad)
    .Sample({{.shape = {2, 3}}, {.shape = {3, 4}}})
    .Doc("Multiplies two matrices that may have many zero elements.");

// ---- Batches ----------------------------------------------------------------

Status BatchMatMulShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const PartialShape a, c.WithRankAtLeast(0, 2));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape b, c.WithRankAtLeast(1, 2));
  if (!a.rank_known() || !b.rank_known()) return OkStatus();
  const bool adj_x = c.node().BoolAttr("adj_x");
  const bool adj_y = c.node().BoolAttr("adj_y");
  const int ra = a.rank(), rb = b.rank();
  if (!MergeDim(a.dim(adj_x ? ra - 2 : ra - 1), b.dim(adj_y ? rb - 1 : rb - 2))
           .ok())
    return Mismatch(a.ToString(), b.ToString());
  const auto batch = [](const PartialShape& s) {
    return PartialShape(std::span<const int64_t>(
        s.dims().data(), static_cast<size_t>(s.rank() - 2)));
  };
  PartialShape out;
  if (c.node().op_name() == "BatchMatMul") {
    SLUICE_ASSIGN_OR_RETURN(out, batch(a).MergeWith(batch(b)));
  } else {
    SLUICE_ASSIGN_OR_RETURN(out, BroadcastShapes(batch(a), batch(b)));
  }
  if (!out.rank_known()) return OkStatus();
  out.add_dim(a.dim(adj_x ? ra - 1 : ra - 2));
  out.add_dim(b.dim(adj_y ? rb - 2 : rb - 1));
  c.set_output(0, std::move(out));
  return OkStatus();
}

template <typename T>
class BatchMatMul {
 public:
  explicit BatchMatMul(const Node& n)
      : adj_x_(n.BoolAttr("adj_x") ? Trans::kAdjoint : Trans::kNone),
        adj_y_(n.BoolAttr("adj_y") ? Trans::kAdjoint : Trans::kNone),
        broadcasts_(n.op_name() != "BatchMatMul") {}

  Status Run(KernelContext& ctx) const {
    Tensor rooms[2];
    SLUICE_ASSIGN_OR_RETURN(const Tensor* px,
                            InputAs(ctx, 0, DTypeOf<T>(), &rooms[0]));
    SLUICE_ASSIGN_OR_RETURN(const Tensor* py,
                            InputAs(ctx, 1, DTypeOf<T>(), &rooms[1]));
    const Tensor &x = *px, &y = *py;
    const std::span<const int64_t> dx = x.shape().dims(), dy = y.shape().dims();
    if (!broadcasts_ &&
        (x.rank() != y.rank() || x.rank() < 2 ||
         !std::equal(dx.begin(), dx.end() - 2, dy.begin(), dy.end() - 2)))
      return InvalidArgument("matrices: expected equal batch dimensions, got ",
                             x.shape().ToString(), " and ",
                             y.shape().ToString());
    SLUICE_ASSIGN_OR_RETURN(
        const dnn::BatchMatMulShape s,
        dnn::BatchMatMulShape::Make(dx.data(), x.rank(), dy.data(), y.rank(),
                                    adj_x_, adj_y_));
    Dims dims;
    for (int i = 0; i < s.rank(); ++i) dims.push_back(s.dim(i));
    SLUICE_ASSIGN_OR_RETURN(const Shape shape,
                            Shape::Make({dims.data(), dims.size()}));
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DTypeOf<T>(), shape));
    dnn::BatchMatMul<T>(s, x.raw<T>(), y.raw<T>(), ctx.output(0).raw<T>());
    return OkStatus();
  }

 private:
  const Trans adj_x_, adj_y_;
  const bool broadcasts_;
};

Status MakeBatchMatMul(const Node& n, Kernel* k) {
  return CpuStateFor<BatchMatMul, float, double, half, bfloat16, int16_t,
                     int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t,
                     complex64, complex128>("T", MayBeExpensive(n))(n, k);
}

// Mixed types are multiplied in the type of the result.
Status MakeBatchMatMulV3(const Node& n, Kernel* k) {
  return CpuStateFor<BatchMatMul, float, double, half, bfloat16, int16_t,
                     int32_t, int64_t, complex64, complex128>(
      "Tout", MayBeExpensive(n))(n, k);
}

Output MultiplyBatches(Output a, Output b, bool adj_a, bool adj_b) {
  return Build("BatchMatMulV2", {a, b}, {{"adj_x", adj_a}, {"adj_y", adj_b}});
}

Status BatchMatMulGrad(GradContext& c) {
  const Output x = c.input(0), y = c.input(1);
  const DType t = grad::TypeOf(c.output(0));
  Output dx, dy;
  ProductGrad(MultiplyBatches, grad::Cast(x, t), grad::Cast(y, t), c.dy[0],
              c.op->BoolAttr("adj_x"), c.op->BoolAttr("adj_y"), &dx, &dy);
  c.grads[0] = grad::Cast(linalg::SumRepeated(dx, x, y), grad::TypeOf(x));
  c.grads[1] = grad::Cast(linalg::SumRepeated(dy, y, x), grad::TypeOf(y));
  return OkStatus();
}

OpDefBuilder Batch(const char* name, const char* types) {
  OpDefBuilder b(name);
  b.Input("x: T")
      .Input("y: T")
      .Output("output: T")
      .Attr(types)
      .Attr("adj_x: bool = false")
      .Attr("adj_y: bool = false")
      .Attr("grad_x: bool = false")
      .Attr("grad_y: bool = false")
      .Family("math")
      .Shape(BatchMatMulShape)
      .Kernel(MakeBatchMatMul)
      .Grad(BatchMatMulGrad)
      .Sample({{.shape = {2, 2, 3}}, {.shape = {2, 3, 4}}})
      .Sample({{.shape = {2, 3, 2}}, {.shape = {2, 4, 3}}},
              {{"adj_x", true}, {"adj_y", true}});
  return b;
}

const OpRegistrar kBatches[] = {
    Batch("BatchMatMul",
          "T: {bfloat16, half, float, double, int32, int64, complex64, "
          "complex128}")
        .Kind(OpKind::kBatchMatMul)
        .Doc("Multiplies batches of matrices with equal batch dimensions."),
    Batch("BatchMatMulV2",
          "T: {bfloat16, half, float, double, int16, int32, int64, uint8, "
          "uint16, uint32, uint64, complex64, complex128}")
        .Kind(OpKind::kBatchMatMul)
        .Sample({{.shape = {3, 1, 2, 3}}, {.shape = {2, 3, 2}}})
        .Doc("Multiplies batches of matrices with broadcasting of the batch "
             "dimensions."),
};

SLUICE_OP(BatchMatMulV3)
    .Input("x: Ta")
    .Input("y: Tb")
    .Output("output: Tout")
    .Attr(
        "Ta: {bfloat16, half, float, double, uint8, int8, int16, int32, int64, "
        "complex64, complex128}")
    .Attr(
        "Tb: {bfloat16, half, float, double, uint8, int8, int16, int32, int64, "
        "complex64, complex128}")
    .Attr(
        "Tout: {bfloat16, half, float, double, int16, int32, int64, complex64, "
        "complex128}")
    .Attr("adj_x: bool = false")
    .Attr("adj_y: bool = false")
    .Attr("grad_x: bool = false")
    .Attr("grad_y: bool = false")
    .Kind(OpKind::kBatchMatMul)
    .Family("math")
    .Shape(BatchMatMulShape)
    .Kernel(MakeBatchMatMulV3)
    .Grad(BatchMatMulGrad)
    .Sample({{.shape = {2, 2, 3}, .dtype = DType::kFloat},
             {.shape = {2, 3, 4}, .dtype = DType::kFloat}},
            {{"Tout", DType::kFloat}})
    .Doc("Multiplies batches of matrices, with a choice of the result's type.");

const BatchFormRegistrar batch_matmul_batch("BatchMatMul", PartByPart<2>);
const BatchFormRegistrar batch_matmul_v2_batch("BatchMatMulV2",
                                               BroadcastParts<2>);

}  // namespace
}  // namespace sluice
