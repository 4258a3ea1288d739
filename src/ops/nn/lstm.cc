// The elementwise part of an LSTM step as one node; RNN cells
// (client/nn/rnn_cells.h) consist of it and the matrix products.
#include "kernels/simd/lstm.h"

#include <utility>
#include <vector>

#include "exec/core/kernel.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "ops/common/grad_nodes.h"

namespace sluice {
namespace {

using grad::Add;
using grad::Mul;
using grad::Number;
using grad::Square;
using grad::Sub;

// ---- Shapes and kernels -----------------------------------------------------

// [rows, units] from what is known of the gates and the state.
Result<PartialShape> StateShape(const PartialShape& gates,
                                const PartialShape& state) {
  PartialShape s = PartialShape::OfRank(2);
  if (gates.rank_known()) {
    const int64_t wide = gates.dim(1);
    if (wide >= 0 && wide % 4 != 0)
      return InvalidArgument("gates: expected four of one width, got shape ",
                             gates.ToString());
    s = PartialShape({gates.dim(0), wide < 0 ? -1 : wide / 4});
  }
  const auto merged = s.MergeWith(state);
  if (!merged.ok())
    return InvalidArgument("c_prev: expected shape ", s.ToString(),
                           ", a quarter of the gates, got ", state.ToString());
  return merged;
}

PartialShape GatesShape(const PartialShape& state) {
  return PartialShape({state.dim(0), state.dim(1) < 0 ? -1 : 4 * state.dim(1)});
}

Status LstmGatesShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(PartialShape gates, c.WithRank(0, 2));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape other, c.WithRankAtLeast(1, 1));
  SLUICE_RETURN_IF_ERROR(c.WithRankAtMost(1, 2).status());
  if (other.rank_known()) {
    if (!gates.rank_known()) gates = PartialShape({-1, -1});
    SLUICE_ASSIGN_OR_RETURN(
        const int64_t wide,
        MergeDim(gates.dim(1), other.dim(other.rank() - 1)));
    gates.set_dim(1, wide);
    if (other.rank() == 2) {
      SLUICE_ASSIGN_OR_RETURN(const int64_t rows,
                              MergeDim(gates.dim(0), other.dim(0)));
      gates.set_dim(0, rows);
    }
  }
  SLUICE_ASSIGN_OR_RETURN(const PartialShape c_prev, c.WithRank(2, 2));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape state, StateShape(gates, c_prev));
  c.set_output(0, GatesShape(state));
  c.set_output(1, state);
  c.set_output(2, state);
  return OkStatus();
}

Status LstmGatesGradShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const PartialShape gates, c.WithRank(0, 2));
  PartialShape state = PartialShape::OfRank(2);
  for (int i = 1; i < 4; ++i) {
    SLUICE_ASSIGN_OR_RETURN(const PartialShape s, c.WithRank(i, 2));
    SLUICE_ASSIGN_OR_RETURN(state, state.MergeWith(s));
  }
  SLUICE_ASSIGN_OR_RETURN(state, StateShape(gates, state));
  c.set_output(0, GatesShape(state));
  c.set_output(1, state);
  return OkStatus();
}

Status CheckState(const Shape& gates, const Shape& state, const char* what) {
  if (state.rank() == 2 && gates.rank() == 2 && gates.dim(0) == state.dim(0) &&
      gates.dim(1) == 4 * state.dim(1))
    return OkStatus();
  return InvalidArgument(what, ": expected a quarter of the gates' shape ",
                         gates.ToString(), ", got ", state.ToString());
}

// Immutable.
class LstmGates {
 public:
  explicit LstmGates(const Node& n)
      : forget_bias_(n.AttrOr<float>("forget_bias", 1.0f)) {}

  Status Run(KernelContext& ctx) const {
    const Tensor &a = ctx.input(0), &b = ctx.input(1), &c_prev = ctx.input(2);
    const Shape gates = a.shape(), state = c_prev.shape();
    SLUICE_RETURN_IF_ERROR(CheckState(gates, state, "c_prev"));
    const bool one_b = b.rank() == 1 && b.dim(0) == gates.dim(1);
    if (!one_b && b.shape() != gates)
      return InvalidArgument("b: expected the shape of a, ", gates.ToString(),
                             ", or one row of it, got ", b.shape().ToString());
    const DType t = a.dtype();
    const void *pa = a.raw(), *pb = b.raw(), *pc = c_prev.raw();
    // (b comes from outside the loop: a row that stays in memory as long as the
    // loop; a is the step's own product.)
    SLUICE_RETURN_IF_ERROR(ctx.ForwardOrAllocate({1, 0}, 0, t, gates));
    SLUICE_RETURN_IF_ERROR(ctx.ForwardOrAllocate({2}, 1, t, state));
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(2, t, state));
    simd::LstmForward(t, {state.dim(0), state.dim(1)}, forget_bias_, pa, pb,
                      one_b, pc, ctx.output(0).raw(), ctx.output(1).raw(),
                      ctx.output(2).raw());
    return OkStatus();
  }

 private:
  const double forget_bias_;
};

Status RunLstmGatesGrad(KernelContext& ctx) {
  static constexpr const char* kNames[] = {"gates", "c_prev", "dc", "dh"};
  const Shape gates = ctx.input(0).shape(), state = ctx.input(1).shape();
  const DType t = ctx.input(0).dtype();
  const void* in[4];
  for (int i = 0; i < 4; ++i) {
    in[i] = ctx.input(i).raw();
    if (i > 0)
      SLUICE_RETURN_IF_ERROR(
          CheckState(gates, ctx.input(i).shape(), kNames[i]));
  }
  SLUICE_RETURN_IF_ERROR(ctx.ForwardOrAllocate({0}, 0, t, gates));
  SLUICE_RETURN_IF_ERROR(ctx.ForwardOrAllocate({2, 3, 1}, 1, t, state));
  simd::LstmBackward(t, {state.dim(0), state.dim(1)}, in[0], in[1], in[2],
                     in[3], ctx.output(0).raw(), ctx.output(1).raw());
  return OkStatus();
}

// True unless the shapes imply that a step finishes before another thread
// starts.
bool LongStep(const Node& n) {
  const int64_t elements = n.input(2).shape().num_elements();
  return elements < 0 || elements > 4096;
}

Status MakeLstmGates(const Node& n, Kernel* k) {
  return CpuState<LstmGates>(LongStep(n))(n, k);
}
Status MakeLstmGatesGrad(const Node& n, Kernel* k) {
  return Cpu(RunLstmGatesGrad, LongStep(n))(n, k);
}

// ---- Gradients --------------------------------------------------------------

// Splits the four concatenated gates, and concatenates them.
std::vector<Output> Quarters(Output gates) {
  Node* n =
      BuildNode("Split", {Constant(int32_t{1}), gates}, {{"num_split", 4}});
  std::vector<Output> parts(4);
  for (int i = 0; n != nullptr && i < 4; ++i)
    parts[static_cast<size_t>(i)] = Output(n, i);
  return parts;
}
Output Join(Output i, Output j, Output f, Output o) {
  return Build("ConcatV2", {i, j, f, o, Constant(int32_t{1})});
}

Output OneMinus(Output x) { return Sub(Number(x, 1), x); }
Output Slope(Output y) { return Mul(y, OneMinus(y)); }  // Sigmoid's.
Output Steep(Output y) { return OneMinus(Square(y)); }  // Tanh's.

Status LstmGatesGradient(GradContext& c) {
  const Output gates = c.output(0);
  Node* n = BuildNode("LstmGatesGrad",
                      {gates, c.input(2), c.DyOrZeros(1), c.DyOrZeros(2)});
  if (n == nullptr) return OkStatus();
  Output dz(n, 0);
  // The gates are outputs too, for second derivatives.
  if (c.dy[0].valid()) {
    const std::vector<Output> g = Quarters(gates);
    dz = Add(dz, Mul(c.dy[0],
                     Join(Slope(g[0]), Steep(g[1]), Slope(g[2]), Slope(g[3]))));
  }
  c.grads[0] = dz;
  c.grads[1] = grad::SumToShape(dz, c.input(1), c.input(0));
  c.grads[2] = Output(n, 1);
  return OkStatus();
}

// L = <dz, a> + <dc_prev, p> for the cotangents a and p: by hand, with
// s = dc + dh o (1 - t^2) and t = tanh(c), c = f c_prev + i j.
Status LstmGatesGradGradient(GradContext& context) {
  const std::vector<Output> gates = Quarters(context.input(0));
  const std::vector<Output> as = Quarters(context.DyOrZeros(0));
  const Output i = gates[0], j = gates[1], f = gates[2], o = gates[3];
  const Output ai = as[0], aj = as[1], af = as[2], ao = as[3];
  const Output p = context.DyOrZeros(1);
  const Output c_prev = context.input(1);
  const Output dc = context.input(2), dh = context.input(3);
  const Output t = Build("Tanh", {Add(Mul(f, c_prev), Mul(i, j))});
  const Output o_steep = Mul(o, Steep(t));
  const Output s = Add(dc, Mul(dh, o_steep));
  const auto twice = [](Output x) { return Mul(Number(x, 2), x); };

  // Of s.
  const Output q =
      Add(Add(Mul(ai, Mul(j, Slope(i))), Mul(aj, Mul(i, Steep(j)))),
          Add(Mul(af, Mul(c_prev, Slope(f))), Mul(p, f)));
  // Of t, then of c.
  const Output dt = Mul(dh, Sub(Mul(ao, Slope(o)), Mul(twice(q), Mul(o, t))));
  const Output k = Mul(dt, Steep(t));
  const Output di =
      Add(Mul(k, j),
          Mul(s, Add(Mul(Mul(ai, j), OneMinus(twice(i))), Mul(aj, Steep(j)))));
  const Output dj =
      Add(Mul(k, i), Mul(s, Sub(Mul(ai, Slope(i)), Mul(twice(aj), Mul(i, j)))));
  const Output df = Add(
      Mul(k, c_prev), Mul(s, Add(Mul(Mul(af, c_prev), OneMinus(twice(f))), p)));
  const Output dout =
      Mul(dh, Add(Mul(q, Steep(t)), Mul(Mul(ao, t), OneMinus(twice(o)))));
  context.grads[0] = Join(di, dj, df, dout);
  context.grads[1] = Add(Mul(k, f), Mul(s, Mul(af, Slope(f))));
  context.grads[2] = q;
  context.grads[3] = Add(Mul(q, o_steep), Mul(Mul(ao, t), Slope(o)));
  return OkStatus();
}

// ---- Declarations -----------------------------------------------------------

SLUICE_OP(LstmGates)
    .Input("a: T")
    .Input("b: T")
    .Input("c_prev: T")
    .Output("gates: T")
    .Output("c: T")
    .Output("h: T")
    .Attr("forget_bias: float = 1.0")
    .Attr("T: {float, double}")
    .Family("nn")
    .Shape(LstmGatesShape)
    .Kernel(MakeLstmGates)
    .Grad(LstmGatesGradient)
    .Sample({{.shape = {2, 12}}, {.shape = {2, 12}}, {.shape = {2, 3}}})
    .Sample({{.shape = {3, 4}}, {.shape = {4}}, {.shape = {3, 1}}},
            {{"forget_bias", 0.5f}})
    .Doc(
        "The elementwise part of an LSTM step. [zi, zj, zf, zo] = a + b, by "
        "columns; i = sigmoid(zi), j = tanh(zj), f = sigmoid(zf + "
        "forget_bias) and o = sigmoid(zo) are concatenated in gates; c = f * "
        "c_prev + i * j and h = o * tanh(c).");

SLUICE_OP(LstmGatesGrad)
    .Input("gates: T")
    .Input("c_prev: T")
    .Input("dc: T")
    .Input("dh: T")
    .Output("dz: T")
    .Output("dc_prev: T")
    .Attr("T: {float, double}")
    .Family("nn")
    .Shape(LstmGatesGradShape)
    .Kernel(MakeLstmGatesGrad)
    .Grad(LstmGatesGradGradient)
    .Sample({{.shape = {2, 12}},
             {.shape = {2, 3}},
             {.shape = {2, 3}},
             {.shape = {2, 3}}})
    .Doc(
        "The gradients of LstmGates: dz with respect to the sum of its first "
        "two inputs, and dc_prev with respect to c_prev, given the gradients "
        "dc and dh of its results.");

}  // namespace
}  // namespace sluice
