// One step of an LSTM layer (Hochreiter and Schmidhuber, 1997; optionally with
// peepholes) as one node, all steps of a sequence as one node, and the
// gradients of both.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "exec/batching/batch_form.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "ops/common/dispatch.h"
#include "ops/common/grad_nodes.h"
#include "ops/nn/block_cell.h"

namespace sluice {
namespace {

using block_cell::Floats;
using block_cell::RequireDims;
using block_cell::RequireRank;
using block_cell::Times;

// ---- One step ---------------------------------------------------------------

// The layer of a node. The gates are concatenated in the order i, c, f, o or,
// in BlockLSTMV2, i, f, c, o.
struct LstmLayer {
  int64_t batch = 0, inputs = 0, units = 0;
  int64_t c_gate = 1, f_gate = 2;
  float forget_bias = 0, cell_clip = 0;
  bool peephole = false;

  int64_t state() const { return batch * units; }
  // Element (row, unit) of gate g in a matrix [batch, 4 * units].
  int64_t gate(int64_t g, int64_t row, int64_t unit) const {
    return (row * 4 + g) * units + unit;
  }
};

struct LstmWeights {
  const float *w, *wci, *wcf, *wco, *b;
};

// The results of a step: each [batch, units].
struct LstmStep {
  float *i, *cs, *f, *o, *ci, *co, *h;
};

// `gates`: scratch of [batch, 4 * units].
void StepForward(const LstmLayer& l, const LstmWeights& p, const float* x,
                 const float* cs_prev, const float* h_prev, float* gates,
                 const LstmStep& to) {
  const int64_t n = l.units, all = l.state();
  Times(l.batch, 4 * n, l.inputs, x, p.w, gates, false);
  Times(l.batch, 4 * n, n, h_prev, p.w + l.inputs * 4 * n, gates, true);
  const auto with_bias = [&](int64_t g, int64_t row, int64_t k) {
    return gates[l.gate(g, row, k)] + p.b[g * n + k];
  };
  for (int64_t row = 0, at = 0; row < l.batch; ++row) {
    for (int64_t k = 0; k < n; ++k, ++at) {
      to.i[at] = with_bias(0, row, k);
      to.ci[at] = with_bias(l.c_gate, row, k);
      to.f[at] = with_bias(l.f_gate, row, k) + l.forget_bias;
      to.o[at] = with_bias(3, row, k);
      if (!l.peephole) continue;
      to.i[at] += cs_prev[at] * p.wci[k];
      to.f[at] += cs_prev[at] * p.wcf[k];
    }
  }
  block_cell::Sigmoid(to.i, all);
  block_cell::Sigmoid(to.f, all);
  block_cell::Tanh(to.ci, to.ci, all);
  for (int64_t at = 0; at < all; ++at) {
    to.cs[at] = to.i[at] * to.ci[at] + to.f[at] * cs_prev[at];
    if (l.cell_clip > 0)
      to.cs[at] = std::clamp(to.cs[at], -l.cell_clip, l.cell_clip);
    if (l.peephole) to.o[at] += to.cs[at] * p.wco[at % n];
  }
  block_cell::Sigmoid(to.o, all);
  block_cell::Tanh(to.cs, to.co, all);
  for (int64_t at = 0; at < all; ++at) to.h[at] = to.o[at] * to.co[at];
}

// The inputs of StepBackward, and its results: the gradients of the gates
// before their activations, in the layer's order, and of cs_prev.
struct LstmStepGrad {
  const float *i, *cs, *f, *o, *ci, *co, *cs_grad, *h_grad;
  float *gates, *cs_prev_grad;
  float *wci_grad, *wcf_grad, *wco_grad;  // Accumulated, with peepholes.
};

void StepBackward(const LstmLayer& l, const LstmWeights& p,
                  const float* cs_prev, const LstmStepGrad& g) {
  for (int64_t row = 0, at = 0; row < l.batch; ++row) {
    for (int64_t k = 0; k < l.units; ++k, ++at) {
      const float i = g.i[at], f = g.f[at], o = g.o[at];
      const float ci = g.ci[at], co = g.co[at], h_grad = g.h_grad[at];
      const float d_o = o * (1 - o) * h_grad * co;
      float d_cs = (1 - co * co) * h_grad * o + g.cs_grad[at];
      if (l.peephole) d_cs += d_o * p.wco[k];
      const float d_ci = (1 - ci * ci) * d_cs * i;
      const float d_f = f * (1 - f) * d_cs * cs_prev[at];
      const float d_i = i * (1 - i) * d_cs * ci;
      g.gates[l.gate(0, row, k)] = d_i;
      g.gates[l.gate(l.c_gate, row, k)] = d_ci;
      g.gates[l.gate(l.f_gate, row, k)] = d_f;
      g.gates[l.gate(3, row, k)] = d_o;
      g.cs_prev_grad[at] = d_cs * f;
      if (!l.peephole) continue;
      g.cs_prev_grad[at] += d_i * p.wci[k] + d_f * p.wcf[k];
      g.wci_grad[k] += d_i * cs_prev[at];
      g.wcf_grad[k] += d_f * cs_prev[at];
      g.wco_grad[k] += d_o * g.cs[at];
    }
  }
}

// ---- Inputs -----------------------------------------------------------------

// Sets `l` from `in`: x, cs_prev, h_prev, w, wci, wcf, wco and b, where x has
// rank 3 for a sequence.
Status CheckLstm(std::span<const Tensor> in, bool sequence, LstmLayer* l) {
  const int rank = sequence ? 3 : 2;
  SLUICE_RETURN_IF_ERROR(RequireRank("x", in[0], rank));
  SLUICE_RETURN_IF_ERROR(RequireRank("cs_prev", in[1], 2));
  l->batch = in[0].dim(rank - 2);
  l->inputs = in[0].dim(rank - 1);
  l->units = in[1].dim(1);
  const int64_t n = l->units;
  SLUICE_RETURN_IF_ERROR(block_cell::RequireModest(l->inputs, n));
  SLUICE_RETURN_IF_ERROR(RequireDims("cs_prev", in[1], {l->batch, n}));
  SLUICE_RETURN_IF_ERROR(RequireDims("h_prev", in[2], {l->batch, n}));
  SLUICE_RETURN_IF_ERROR(RequireDims("w", in[3], {l->inputs + n, 4 * n}));
  if (sequence || l->peephole) {  // (Otherwise a cell does not read them.)
    SLUICE_RETURN_IF_ERROR(RequireDims("wci", in[4], {n}));
    SLUICE_RETURN_IF_ERROR(RequireDims("wcf", in[5], {n}));
    SLUICE_RETURN_IF_ERROR(RequireDims("wco", in[6], {n}));
  }
  return RequireDims("b", in[7], {4 * n});
}

LstmWeights WeightsOf(std::span<const Tensor> in) {
  return {in[3].raw<float>(), in[4].raw<float>(), in[5].raw<float>(),
          in[6].raw<float>(), in[7].raw<float>()};
}

Result<int64_t> ReadSteps(const Tensor& seq_len_max, int64_t time) {
  SLUICE_RETURN_IF_ERROR(RequireRank("seq_len_max", seq_len_max, 0));
  const int64_t steps = *seq_len_max.raw<int64_t>();
  if (steps < 0 || steps > time)
    return InvalidArgument("seq_len_max: expected a value in [0, ", time,
                           "], got ", steps);
  return steps;
}

// ---- Kernels ----------------------------------------------------------------

using LstmFn = Status (*)(const KernelContext& ctx, LstmLayer l,
                          std::span<const Tensor> in, std::vector<Tensor>* out);

// Runs `kFn` for the layer that the attributes of a node describe, which `kFn`
// receives without sizes. Immutable.
template <LstmFn kFn>
class LstmKernel {
 public:
  explicit LstmKernel(const Node& n) {
    if (n.op_name().ends_with("V2")) layer_.c_gate = 2, layer_.f_gate = 1;
    layer_.forget_bias = n.AttrOr<float>("forget_bias", 0.0f);
    layer_.cell_clip = n.AttrOr<float>("cell_clip", 0.0f);
    layer_.peephole = n.BoolAttr("use_peephole");
  }
  Status Run(KernelContext& ctx) const {
    return block_cell::RunInFloat(
        ctx, [&](std::span<const Tensor> in, std::vector<Tensor>* out) {
          return kFn(ctx, layer_, in, out);
        });
  }

 private:
  LstmLayer layer_;
};

// Runs the first `steps` steps of the sequence in[0]; in: as for CheckLstm. The
// seven results have the shape `dims`, [(time,) batch, units]; later steps
// produce zeros.
Status RunSteps(const KernelContext& ctx, const LstmLayer& l,
                std::span<const Tensor> in, int64_t steps,
                std::initializer_list<int64_t> dims, std::vector<Tensor>* out) {
  float* to[7];
  for (size_t k = 0; k < 7; ++k) {
    SLUICE_ASSIGN_OR_RETURN((*out)[k], Floats(dims));
    to[k] = (*out)[k].raw<float>();
  }
  SLUICE_ASSIGN_OR_RETURN(Tensor gates, Floats({l.batch, 4 * l.units}));
  if (l.state() == 0) return OkStatus();
  const LstmWeights weights = WeightsOf(in);
  const float *cs = in[1].raw<float>(), *h = in[2].raw<float>();
  for (int64_t t = 0; t < steps; ++t) {
    if (ctx.cancelled()) return Cancelled("the step was cancelled");
    const int64_t at = t * l.state();
    StepForward(l, weights, in[0].raw<float>() + t * l.batch * l.inputs, cs, h,
                gates.raw<float>(),
                {to[0] + at, to[1] + at, to[2] + at, to[3] + at, to[4] + at,
                 to[5] + at, to[6] + at});
    cs = to[1] + at, h = to[6] + at;
  }
  return OkStatus();
}

Status CellForward(const KernelContext& ctx, LstmLayer l,
                   std::span<const Tensor> in, std::vector<Tensor>* out) {
  SLUICE_RETURN_IF_ERROR(CheckLstm(in, false, &l));
  return RunSteps(ctx, l, in, 1, {l.batch, l.units}, out);
}

Status SequenceForward(const KernelContext& ctx, LstmLayer l,
                       std::span<const Tensor> in, std::vector<Tensor>* out) {
  SLUICE_RETURN_IF_ERROR(CheckLstm(in.subspan(1), true, &l));
  const int64_t time = in[1].dim(0);
  SLUICE_ASSIGN_OR_RETURN(const int64_t steps, ReadSteps(in[0], time));
  return RunSteps(ctx, l, in.subspan(1), steps, {time, l.batch, l.units}, out);
}

Status CellBackward(const KernelContext&, LstmLayer l,
                    std::span<const Tensor> in, std::vector<Tensor>* out) {
  SLUICE_RETURN_IF_ERROR(CheckLstm(in, false, &l));
  static constexpr const char* kNames[] = {"i",  "cs", "f",       "o",
                                           "ci", "co", "cs_grad", "h_grad"};
  const float* from[8];
  for (size_t k = 0; k < 8; ++k) {
    SLUICE_RETURN_IF_ERROR(
        RequireDims(kNames[k], in[8 + k], {l.batch, l.units}));
    from[k] = in[8 + k].raw<float>();
  }
  SLUICE_ASSIGN_OR_RETURN((*out)[0], Floats({l.batch, l.units}));
  SLUICE_ASSIGN_OR_RETURN((*out)[1], Floats({l.batch, 4 * l.units}));
  for (size_t k = 2; k < 5; ++k) {
    SLUICE_ASSIGN_OR_RETURN((*out)[k], Floats({l.units}));
  }
  StepBackward(
      l, WeightsOf(in), in[1].raw<float>(),
      {from[0], from[1], from[2], from[3], from[4], from[5], from[6], from[7],
       (*out)[1].raw<float>(), (*out)[0].raw<float>(), (*out)[2].raw<float>(),
       (*out)[3].raw<float>(), (*out)[4].raw<float>()});
  return OkStatus();
}

// in: seq_len_max, x, cs_prev, h_prev, w, wci, wcf, wco, b; i, cs, f, o, ci,
// co, h; cs_grad, h_grad. out: the gradients of x, cs_prev, h_prev, w, wci,
// wcf, wco, b.
Status SequenceBackward(const KernelContext& ctx, LstmLayer l,
                        std::span<const Tensor> in, std::vector<Tensor>* out) {
  SLUICE_RETURN_IF_ERROR(CheckLstm(in.subspan(1), true, &l));
  const int64_t time = in[1].dim(0), size = l.state(), n = l.units;
  SLUICE_ASSIGN_OR_RETURN(const int64_t steps, ReadSteps(in[0], time));
  static constexpr const char* kNames[] = {"i",  "cs", "f",       "o",     "ci",
                                           "co", "h",  "cs_grad", "h_grad"};
  const float* from[9];
  for (size_t k = 0; k < 9; ++k) {
    SLUICE_RETURN_IF_ERROR(
        RequireDims(kNames[k], in[9 + k], {time, l.batch, n}));
    from[k] = in[9 + k].raw<float>();
  }
  for (size_t k = 0; k < 8; ++k) {
    SLUICE_ASSIGN_OR_RETURN((*out)[k],
                            Tensor::Zeros(DType::kFloat, in[k + 1].shape()));
  }
  SLUICE_ASSIGN_OR_RETURN(Tensor gates, Floats({l.batch, 4 * n}));
  SLUICE_ASSIGN_OR_RETURN(Tensor cs_sum, Floats({l.batch, n}));
  SLUICE_ASSIGN_OR_RETURN(Tensor h_sum, Floats({l.batch, n}));
  if (size == 0) return OkStatus();
  const LstmWeights weights = WeightsOf(in.subspan(1));
  float* to[8];
  for (size_t k = 0; k < 8; ++k) to[k] = (*out)[k].raw<float>();
  float *dz = gates.raw<float>(), *w_grad = to[3];
  float *dcs = cs_sum.raw<float>(), *dh = h_sum.raw<float>();
  const int64_t row = l.batch * l.inputs;
  for (int64_t t = steps - 1; t >= 0; --t) {
    if (ctx.cancelled()) return Cancelled("the step was cancelled");
    const int64_t at = t * size;
    const float* cs = t == 0 ? in[2].raw<float>() : from[1] + at - size;
    const float* h = t == 0 ? in[3].raw<float>() : from[6] + at - size;
    // Gradients of this step's state: from the next step and from the
    // outputs.
    for (int64_t k = 0; k < size; ++k) {
      dcs[k] = to[1][k] + from[7][at + k];
      dh[k] = to[2][k] + from[8][at + k];
    }
    StepBackward(
        l, weights, cs,
        {from[0] + at, from[1] + at, from[2] + at, from[3] + at, from[4] + at,
         from[5] + at, dcs, dh, dz, to[1], to[4], to[5], to[6]});
    const float* x = in[1].raw<float>() + t * row;
    if (l.inputs > 0) {
      Times(l.batch, l.inputs, 4 * n, dz, weights.w, to[0] + t * row, false,
            false, true);
      Times(l.inputs, 4 * n, l.batch, x, dz, w_grad, true, true);
    }
    Times(l.batch, n, 4 * n, dz, weights.w + l.inputs * 4 * n, to[2], false,
          false, true);
    Times(n, 4 * n, l.batch, h, dz, w_grad + l.inputs * 4 * n, true, true);
    for (int64_t k = 0; k < l.batch * 4 * n; ++k) to[7][k % (4 * n)] += dz[k];
  }
  return OkStatus();
}

using LstmCell = LstmKernel<CellForward>;
using LstmCellGrad = LstmKernel<CellBackward>;
using LstmSequence = LstmKernel<SequenceForward>;
using LstmSequenceGrad = LstmKernel<SequenceBackward>;

// ---- Shapes -----------------------------------------------------------------

// x [(time,) batch, inputs] and cs_prev [batch, units], merged as far as known;
// `first`: the position of input x.
struct LstmShapes {
  PartialShape x;
  int64_t time, batch, units;
};
Result<LstmShapes> InferLstm(ShapeContext& c, int first, bool sequence) {
  const int rank = sequence ? 3 : 2;
  const int ranks[] = {rank, 2, 2, 2, 1, 1, 1, 1};
  const bool peephole = c.node().BoolAttr("use_peephole");
  for (int i = 0; i < 8; ++i)
    if (sequence || peephole || i < 4 || i > 6)
      SLUICE_RETURN_IF_ERROR(c.WithRank(first + i, ranks[i]).status());
  LstmShapes s;
  SLUICE_ASSIGN_OR_RETURN(s.x, c.WithRank(first, rank));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape cs, c.WithRank(first + 1, 2));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape b, c.WithRank(first + 7, 1));
  SLUICE_ASSIGN_OR_RETURN(s.batch, MergeDim(s.x.dim(rank - 2), cs.dim(0)));
  if (b.dim(0) >= 0 && b.dim(0) % 4 != 0)
    return InvalidArgument("b: expected four of one width, got shape ",
                           b.ToString());
  SLUICE_ASSIGN_OR_RETURN(
      s.units, MergeDim(cs.dim(1), b.dim(0) < 0 ? -1 : b.dim(0) / 4));
  s.time = sequence ? s.x.dim(0) : -1;
  return s;
}

Status CellShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const LstmShapes s, InferLstm(c, 0, false));
  c.set_all_outputs(PartialShape({s.batch, s.units}));
  return OkStatus();
}

Status CellGradShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const LstmShapes s, InferLstm(c, 0, false));
  c.set_all_outputs(PartialShape({s.units}));
  c.set_output(0, PartialShape({s.batch, s.units}));
  c.set_output(
      1, PartialShape(
             {s.batch, s.units < 0 ? -1 : MultiplyOrNegative(4, s.units)}));
  return OkStatus();
}

Status SequenceShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.RequireScalar(0));
  SLUICE_ASSIGN_OR_RETURN(const LstmShapes s, InferLstm(c, 1, true));
  c.set_all_outputs(PartialShape({s.time, s.batch, s.units}));
  return OkStatus();
}

Status SequenceGradShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.RequireScalar(0));
  SLUICE_RETURN_IF_ERROR(InferLstm(c, 1, true).status());
  for (int i = 0; i < 8; ++i) c.set_output(i, c.input(i + 1));
  return OkStatus();
}

// ---- Gradients and declarations ---------------------------------------------

// Only cs and h can have gradients: the other outputs are saved for the
// gradient op.
Status BlockLstmGrad(GradContext& c) {
  for (const int i : {0, 2, 3, 4, 5})
    if (c.dy[static_cast<size_t>(i)].node != nullptr)
      return Unimplemented("gradient of ", c.op->op_name(),
                           ": expected cs and h to be used, got output ", i);
  std::vector<Output> in;
  for (int i = 0; i < c.op->num_inputs(); ++i) in.push_back(c.input(i));
  for (int i = 0; i < 7; ++i) in.push_back(Output(c.op, i));
  for (const int i : {1, 6}) {
    const Output dy = c.dy[static_cast<size_t>(i)];
    in.push_back(dy.node != nullptr ? dy : grad::ZerosLike(Output(c.op, i)));
  }
  const char* name =
      c.op->op_name().ends_with("V2") ? "BlockLSTMGradV2" : "BlockLSTMGrad";
  Node* node =
      BuildNode(name, in, {{"use_peephole", c.op->BoolAttr("use_peephole")}});
  if (node == nullptr) return OkStatus();
  for (int i = 0; i < 8; ++i)
    c.grads[static_cast<size_t>(i + 1)] = Output(node, i);
  return OkStatus();
}

OpDefBuilder LstmOp(const char* name, bool sequence) {
  OpDefBuilder b(name);
  if (sequence) b.Input("seq_len_max: int64");
  for (const char* arg : {"x: T", "cs_prev: T", "h_prev: T", "w: T", "wci: T",
                          "wcf: T", "wco: T", "b: T"})
    b.Input(arg);
  b.Family("nn");
  return b;
}

constexpr const char* kLstmOutputs[] = {"i: T",  "cs: T", "f: T", "o: T",
                                        "ci: T", "co: T", "h: T"};

OpDefBuilder LstmForwardOp(const char* name, bool sequence) {
  OpDefBuilder b = LstmOp(name, sequence);
  for (const char* arg : kLstmOutputs) b.Output(arg);
  return b;
}

// For LSTMBlockCellGrad, which does not receive h.
OpDefBuilder LstmCellGradOp() {
  OpDefBuilder b = LstmOp("LSTMBlockCellGrad", false);
  for (size_t i = 0; i < 6; ++i) b.Input(kLstmOutputs[i]);
  b.Input("cs_grad: T").Input("h_grad: T");
  for (const char* arg : {"cs_prev_grad: T", "dicfo: T", "wci_grad: T",
                          "wcf_grad: T", "wco_grad: T"})
    b.Output(arg);
  return b;
}

OpDefBuilder LstmSequenceGradOp(const char* name) {
  OpDefBuilder b = LstmOp(name, true);
  for (const char* arg : kLstmOutputs) b.Input(arg);
  b.Input("cs_grad: T").Input("h_grad: T");
  for (const char* arg :
       {"x_grad: T", "cs_prev_grad: T", "h_prev_grad: T", "w_grad: T",
        "wci_grad: T", "wcf_grad: T", "wco_grad: T", "b_grad: T"})
    b.Output(arg);
  return b;
}

// Two rows of three inputs and two units, for two steps.
std::vector<SampleInput> LstmSample(bool sequence, int more) {
  std::vector<SampleInput> in;
  if (sequence) in.push_back({.shape = {}, .values = {2}});
  in.push_back({.shape = sequence ? Dims{2, 2, 3} : Dims{2, 3}});
  for (const Dims& dims :
       {Dims{2, 2}, Dims{2, 2}, Dims{5, 8}, Dims{2}, Dims{2}, Dims{2}, Dims{8}})
    in.push_back({.shape = dims});
  for (int i = 0; i < more; ++i)
    in.push_back({.shape = sequence ? Dims{2, 2, 2} : Dims{2, 2}});
  return in;
}

constexpr char kLstmTypes[] = "T: {half, float}";

const OpRegistrar kBlockLstms[] = {
    LstmForwardOp("LSTMBlockCell", false)
        .Attr("forget_bias: float = 1")
        .Attr("cell_clip: float = 3")
        .Attr("use_peephole: bool = false")
        .Attr(kLstmTypes)
        .Shape(CellShape)
        .Kernel(CpuState<LstmCell>(/*expensive=*/true))
        .Grad(grad::Undefined)
        .Sample(LstmSample(false, 0), {{"use_peephole", true}})
        .Doc("One step of an LSTM: gates, cell state and output."),
    LstmCellGradOp()
        .Attr("use_peephole: bool")
        .Attr(kLstmTypes)
        .Shape(CellGradShape)
        .Kernel(CpuState<LstmCellGrad>(/*expensive=*/true))
        .Grad(grad::Undefined)
        .Sample(LstmSample(false, 8), {{"use_peephole", true}})
        .Doc("The gradients of LSTMBlockCell, including those of the gates "
             "before their activations."),
    LstmForwardOp("BlockLSTM", true)
        .Attr("forget_bias: float = 1")
        .Attr("cell_clip: float = 3")
        .Attr("use_peephole: bool = false")
        .Attr(kLstmTypes)
        .Shape(SequenceShape)
        .Kernel(CpuState<LstmSequence>(/*expensive=*/true))
        .Grad(BlockLstmGrad)
        .Sample(LstmSample(true, 0), {{"use_peephole", true}})
        .Doc("All steps of an LSTM over a batch of sequences."),
    LstmForwardOp("BlockLSTMV2", true)
        .Attr("cell_clip: float = 0")
        .Attr("use_peephole: bool = false")
        .Attr(kLstmTypes)
        .Shape(SequenceShape)
        .Kernel(CpuState<LstmSequence>(/*expensive=*/true))
        .Grad(BlockLstmGrad)
        .Sample(LstmSample(true, 0), {{"use_peephole", true}})
        .Doc("BlockLSTM with the gates in the order i, f, c, o."),
    LstmSequenceGradOp("BlockLSTMGrad")
        .Attr("use_peephole: bool")
        .Attr(kLstmTypes)
        .Shape(SequenceGradShape)
        .Kernel(CpuState<LstmSequenceGrad>(/*expensive=*/true))
        .Grad(grad::Undefined)
        .Sample(LstmSample(true, 9), {{"use_peephole", true}})
        .Doc("The gradient of BlockLSTM."),
    LstmSequenceGradOp("BlockLSTMGradV2")
        .Attr("use_peephole: bool")
        .Attr(kLstmTypes)
        .Shape(SequenceGradShape)
        .Kernel(CpuState<LstmSequenceGrad>(/*expensive=*/true))
        .Grad(grad::Undefined)
        .Sample(LstmSample(true, 9), {{"use_peephole", true}})
        .Doc("The gradient of BlockLSTMV2."),
};

// (The weights, peepholes and bias are shared.)
const BatchFormRegistrar lstm_cell_batch("LSTMBlockCell", RowByRow<0xf8>);

}  // namespace
}  // namespace sluice
