// The examples in the headers for defining ops.
#include <algorithm>
#include <atomic>
#include <filesystem>

#include "sluice/op.h"
#include "tests/snippets/snippets_test_util.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;

Tensor Vector(std::initializer_list<float> values) {
  return Tensor::Vector<float>(values);
}

// ---- A complete op ----------------------------------------------------------

Status RunMirror(KernelContext& ctx) {
  SLUICE_RETURN_IF_ERROR(
      ctx.Allocate(0, ctx.input(0).dtype(), ctx.input(0).shape()));
  const auto from = ctx.input(0).flat<float>();
  std::copy(from.rbegin(), from.rend(), ctx.output(0).flat<float>().begin());
  return OkStatus();
}
Status MirrorGrad(GradContext& c) {
  c.grads[0] = Build("Mirror", {c.dy[0]});
  return OkStatus();
}
#include "snippets/include/sluice/op.h/1.inc"

TEST_F(SnippetTest, CompleteOp) {
  Output x = Constant(Vector({1, 2, 3}));
  EXPECT_THAT(Value(Build("Mirror", {x})).ToVector<float>(),
              ElementsAre(3, 2, 1));
}

template <typename T>
struct TwiceKernel {
  static Status Run(KernelContext& ctx) {
    const Tensor& x = ctx.input(0);
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, x.dtype(), x.shape()));
    std::transform(x.flat<T>().begin(), x.flat<T>().end(),
                   ctx.output(0).flat<T>().begin(), [](T v) { return 2 * v; });
    return OkStatus();
  }
};
Status TwiceGrad(GradContext& c) {
  c.grads[0] = grad::Mul(grad::Number(c.dy[0], 2), c.dy[0]);
  return OkStatus();
}
#include "snippets/src/graph/op_def.h/1.inc"

TEST_F(SnippetTest, OpDeclarations) {
  Output x = Constant(Vector({1, 2}));
  Output y = Build("Twice", {x});
  EXPECT_THAT(Value(y).ToVector<float>(), ElementsAre(2, 4));
  EXPECT_THAT(Value(Grad(y, x)).ToVector<float>(), ElementsAre(2, 2));
}

class TicksKernel {
 public:
  explicit TicksKernel(const Node&) {}
  Status Run(KernelContext& ctx) {
    ctx.set_output(0, Tensor::Scalar<int64_t>(++ticks_));
    return OkStatus();
  }

 private:
  std::atomic<int64_t> ticks_{0};
};
#include "snippets/src/graph/op_traits.h/1.inc"

TEST_F(SnippetTest, OpTraits) {
  const Output ticks = Build("Ticks", {}), others = Build("Ticks", {});
  Session session(graph);
  for (int64_t tick = 1; tick <= 2; ++tick)
    EXPECT_EQ((*session.Run(ticks)).scalar<int64_t>(), tick);
  const auto both = session.Run({}, {ticks, others});
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_EQ((*both)[0].scalar<int64_t>(), 3);
  EXPECT_EQ((*both)[1].scalar<int64_t>(), 1);
}

TEST_F(SnippetTest, OpLibraries) {
  // The library is in a separate folder beside the program.
  std::error_code error;
  const auto before = std::filesystem::current_path();
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  std::filesystem::current_path(program.parent_path().parent_path() / "lib");
  Output x = Constant(Vector({1, 2, 3}));
  const auto load = [&]() -> Status {
#include "snippets/src/graph/op_library.h/1.inc"
    EXPECT_THAT(Value(y).ToVector<float>(), ElementsAre(3, 2, 1));
    return OkStatus();
  };
  const Status status = load();
  std::filesystem::current_path(before);
  EXPECT_TRUE(status.ok()) << status;
}

// ---- Its parts --------------------------------------------------------------

#include "snippets/src/exec/core/kernel.h/1.inc"

SLUICE_OP(TwiceOfFloats)
    .Input("x: float")
    .Output("y: float")
    .Shape(UnchangedShape)
    .Kernel(Cpu(RunTwice))
    .Doc("2 x.");

template <typename T>
struct FillKernel {
  static Status Run(KernelContext& ctx) {
    SLUICE_RETURN_IF_ERROR(
        ctx.Allocate(0, ctx.input(0).dtype(), ctx.input(0).shape()));
    std::ranges::fill(ctx.output(0).flat<T>(), T{7});
    return OkStatus();
  }
};
SLUICE_OP(FillWithSeven)
    .Input("x: T")
    .Output("y: T")
    .Attr("T: {float, double, int32}")
    .Shape(UnchangedShape)
#include "snippets/src/exec/core/kernel.h/2.inc"
    .Doc("As many sevens.");

TEST_F(SnippetTest, Kernels) {
  Output x = Constant(Vector({1, 2}));
  EXPECT_THAT(Value(Build("TwiceOfFloats", {x})).ToVector<float>(),
              ElementsAre(2, 4));
  EXPECT_THAT(Value(Build("FillWithSeven", {x})).ToVector<float>(),
              ElementsAre(7, 7));
}

#include "snippets/src/graph/shape_context.h/1.inc"

Status NeverRuns(KernelContext&) { return Unimplemented("for its shape only"); }
SLUICE_OP(MatVecOfFloats)
    .Input("matrix: float")
    .Input("vector: float")
    .Output("product: float")
    .Shape(MatVecShape)
    .Kernel(Cpu(NeverRuns))
    .Doc("A matrix times a vector.");

TEST_F(SnippetTest, ShapeFunctions) {
  Output y = Build("MatVecOfFloats",
                   {Placeholder<float>({5, -1}), Placeholder<float>({3})});
  EXPECT_EQ(y.shape(), PartialShape({5}));
  Graph other;
  const WithGraph use(other);
  Build("MatVecOfFloats",
        {Placeholder<float>({5, 4}), Placeholder<float>({3})});
  EXPECT_FALSE(other.status().ok());
}

#include "snippets/src/graph/grad.h/1.inc"
#include "snippets/src/ops/common/grad_nodes.h/1.inc"

TEST_F(SnippetTest, GradientFunctions) {
  ASSERT_TRUE(RegisterGradient("SnippetSquare", SquareGrad).ok());
  ASSERT_TRUE(RegisterGradient("SnippetProduct", ProductGrad).ok());
  Output a = Constant(Vector({1, 2, 3})), b = Constant(2.0f), square, product;
  {
    const GradientOverride of_square("Square", "SnippetSquare");
    const GradientOverride of_product("Mul", "SnippetProduct");
    square = ops::Square(a);
    product = ops::Mul(a, b);
  }
  EXPECT_THAT(Value(Grad(square, a)).ToVector<float>(), ElementsAre(2, 4, 6));
  EXPECT_THAT(Value(Grad(product, a)).ToVector<float>(), ElementsAre(2, 2, 2));
  EXPECT_EQ(Number(Grad(product, b)), 6);
}

}  // namespace
}  // namespace sluice
