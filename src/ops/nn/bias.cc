// Adding a bias to each channel.
#include <optional>
#include <vector>

#include "exec/fusion/block_form.h"
#include "graph/deferred_sums.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "kernels/simd/reduce.h"
#include "ops/common/carrier_type.h"
#include "ops/common/grad_nodes.h"
#include "ops/common/type_lists.h"
#include "ops/math/elementwise.h"

namespace sluice {
namespace {

constexpr char kFormats[] = "data_format: {'NHWC', 'NCHW'} = 'NHWC'";

bool ChannelsFirst(const Node& n) {
  return n.AttrOr<std::string>("data_format", "NHWC") == "NCHW";
}

// An array viewed as [before, channels, after].
struct Channels {
  int64_t before = 1, channels = 1, after = 1;
};

Status SplitChannels(const Shape& s, bool first, Channels* out) {
  if (s.rank() < 2)
    return InvalidArgument("value: expected rank 2 or more, got shape ",
                           s.ToString());
  const int channel = first ? 1 : s.rank() - 1;
  out->channels = s.dim(channel);
  for (int d = 0; d < channel; ++d) out->before *= s.dim(d);
  for (int d = channel + 1; d < s.rank(); ++d) out->after *= s.dim(d);
  return OkStatus();
}

// Immutable.
struct BiasState {
  simd::BinaryKernel add;
  DType type;
  bool channels_first;
};

Status RunBiasAdd(KernelContext& ctx) {
  const BiasState& s = ctx.state<BiasState>();
  const Shape shape = ctx.input(0).shape();
  const Tensor& bias = ctx.input(1);
  Channels c;
  SLUICE_RETURN_IF_ERROR(SplitChannels(shape, s.channels_first, &c));
  if (bias.rank() != 1 || bias.dim(0) != c.channels)
    return InvalidArgument("bias: expected a vector of ", c.channels,
                           " elements, one a channel, got shape ",
                           bias.shape().ToString());
  const void* value = ctx.input(0).raw();
  const void* b = bias.raw();
  const DType t = ctx.input(0).dtype();
  SLUICE_RETURN_IF_ERROR(ctx.ForwardOrAllocate({0}, 0, t, shape));
  const int64_t value_dims[] = {c.before, c.channels, c.after};
  const int64_t bias_dims[] = {c.channels, 1};
  simd::BroadcastBinary(s.add, value_dims, bias_dims, value, b,
                        ctx.output(0).raw());
  return OkStatus();
}

bool BiasBlock(const void* state, const void* const* in, uint32_t single,
               void* out, int64_t n) {
  return static_cast<const BiasState*>(state)->add.fn(
      single == 0 ? simd::Operands::kVectorVector
                  : simd::Operands::kVectorScalar,
      in[0], in[1], out, n);
}

const BlockFormRegistrar bias_form(
    [](const Node& n, const Kernel& k) -> std::optional<BlockForm> {
      if (k.run != RunBiasAdd || ChannelsFirst(n)) return std::nullopt;
      return BlockForm{.fn = BiasBlock, .shapes = BlockForm::kChannels};
    });

Status RunBiasAddGrad(KernelContext& ctx) {
  const BiasState& s = ctx.state<BiasState>();
  const Tensor& dy = ctx.input(0);
  Channels c;
  SLUICE_RETURN_IF_ERROR(SplitChannels(dy.shape(), s.channels_first, &c));
  SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, dy.dtype(), Shape({c.channels})));
  const int64_t dims[] = {c.before, c.channels, c.after};
  const bool reduced[] = {true, false, true};
  simd::Reduce(simd::ReduceOp::kSum, s.type, dims, reduced, dy.raw(),
               ctx.output(0).raw());
  return OkStatus();
}

Status MakeBias(const Node& n, Kernel* k) {
  auto s = std::make_shared<BiasState>();
  s->type = CarrierType(n.input_type(0));
  s->add = simd::GetBinary(simd::BinaryOp::kAdd, s->type);
  if (!s->add) return NoKernelFor(n, s->type);
  s->channels_first = ChannelsFirst(n);
  k->state = std::move(s);
  k->expensive = LooksBig(n);
  k->run = RunBiasAdd;
  return OkStatus();
}

Status MakeBiasGrad(const Node& n, Kernel* k) {
  SLUICE_RETURN_IF_ERROR(MakeBias(n, k));
  k->expensive = true;
  k->run = RunBiasAddGrad;
  return OkStatus();
}

// Merges the channels of the value and the bias.
Status BiasAddShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(PartialShape value, c.WithRankAtLeast(0, 2));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape bias, c.WithRank(1, 1));
  if (value.rank_known()) {
    const int channel = ChannelsFirst(c.node()) ? 1 : value.rank() - 1;
    SLUICE_ASSIGN_OR_RETURN(const int64_t n,
                            MergeDim(value.dim(channel), bias.dim(0)));
    value.set_dim(channel, n);
  }
  c.set_output(0, std::move(value));
  return OkStatus();
}

Status BiasAddGradShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const PartialShape dy, c.WithRankAtLeast(0, 2));
  const int channel = ChannelsFirst(c.node()) ? 1 : dy.rank() - 1;
  c.set_output(0, PartialShape({dy.rank_known() ? dy.dim(channel) : -1}));
  return OkStatus();
}

AttrMap FormatOf(const GradContext& c) {
  return {{"data_format", ChannelsFirst(*c.op) ? "NCHW" : "NHWC"}};
}

Status BiasAddGradient(GradContext& c) {
  c.grads[0] = c.dy[0];
  c.grads[1] = Build("BiasAddGrad", {c.dy[0]}, FormatOf(c));
  return OkStatus();
}

// The gradient of a sum over all but the channels is broadcast over them.
Status BiasAddGradGradient(GradContext& c) {
  c.grads[0] =
      Build("BiasAdd", {grad::ZerosLike(c.input(0)), c.dy[0]}, FormatOf(c));
  return OkStatus();
}

SLUICE_OP(BiasAdd)
    .Input("value: T")
    .Input("bias: T")
    .Output("output: T")
    .Attr(kNumberTypes)
    .Attr(kFormats)
    .Kind(OpKind::kBiasAdd)
    .Family("nn")
    .Shape(BiasAddShape)
    .Kernel(MakeBias)
    .Grad(BiasAddGradient)
    .Sample({{.shape = {2, 3}}, {.shape = {3}}})
    .Sample({{.shape = {2, 3, 2, 2}}, {.shape = {3}}},
            {{"data_format", "NCHW"}})
    .Doc("Adds a vector to the channels of an array.");

SLUICE_OP(BiasAddV1)
    .Input("value: T")
    .Input("bias: T")
    .Output("output: T")
    .Attr(kNumberTypes)
    .Kind(OpKind::kBiasAdd)
    .Family("nn")
    .Shape(BiasAddShape)
    .Kernel(MakeBias)
    .Grad(BiasAddGradient)
    .Sample({{.shape = {2, 3}}, {.shape = {3}}})
    .Doc("Adds a vector to the last dimension of an array.");

SLUICE_OP(BiasAddGrad)
    .Input("out_backprop: T")
    .Output("output: T")
    .Attr(kNumberTypes)
    .Attr(kFormats)
    .Family("nn")
    .Shape(BiasAddGradShape)
    .Kernel(MakeBiasGrad)
    .Grad(BiasAddGradGradient)
    .Sample({{.shape = {2, 3}}})
    .Sample({{.shape = {2, 3, 2, 2}}}, {{"data_format", "NCHW"}})
    .Doc(
        "The gradient of the bias: the sum over all dimensions except the "
        "channels.");

const DeferredTermRegistrar bias_terms(
    "BiasAddGrad", [](const Node& n) -> std::optional<Output> {
      const DType t = n.output_type(0);
      if ((t != DType::kFloat && t != DType::kDouble) || ChannelsFirst(n))
        return std::nullopt;
      return Build("DeferredColumnSum", {n.input(0)}, {}, "", {});
    });

}  // namespace
}  // namespace sluice
