// One step of a GRU layer as one node, and its gradient.
#include <algorithm>
#include <vector>

#include "exec/batching/batch_form.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "ops/common/grad_nodes.h"
#include "ops/nn/block_cell.h"

namespace sluice {
namespace {

using block_cell::Floats;
using block_cell::RequireDims;
using block_cell::RequireRank;
using block_cell::Times;

struct GruSizes {
  int64_t batch, inputs, units;
};

// The sizes from x, h_prev, w_ru, w_c, b_ru and b_c.
Result<GruSizes> CheckGru(std::span<const Tensor> in) {
  SLUICE_RETURN_IF_ERROR(RequireRank("x", in[0], 2));
  SLUICE_RETURN_IF_ERROR(RequireRank("h_prev", in[1], 2));
  const GruSizes s{in[0].dim(0), in[0].dim(1), in[1].dim(1)};
  SLUICE_RETURN_IF_ERROR(block_cell::RequireModest(s.inputs, s.units));
  SLUICE_RETURN_IF_ERROR(RequireDims("h_prev", in[1], {s.batch, s.units}));
  SLUICE_RETURN_IF_ERROR(
      RequireDims("w_ru", in[2], {s.inputs + s.units, 2 * s.units}));
  SLUICE_RETURN_IF_ERROR(
      RequireDims("w_c", in[3], {s.inputs + s.units, s.units}));
  SLUICE_RETURN_IF_ERROR(RequireDims("b_ru", in[4], {2 * s.units}));
  SLUICE_RETURN_IF_ERROR(RequireDims("b_c", in[5], {s.units}));
  return s;
}

Status GruForward(std::span<const Tensor> in, std::vector<Tensor>* out) {
  SLUICE_ASSIGN_OR_RETURN(const GruSizes s, CheckGru(in));
  const int64_t n = s.units, all = s.batch * n;
  for (Tensor& t : *out) {
    SLUICE_ASSIGN_OR_RETURN(t, Floats({s.batch, n}));
  }
  SLUICE_ASSIGN_OR_RETURN(Tensor gates, Floats({s.batch, 2 * n}));
  SLUICE_ASSIGN_OR_RETURN(Tensor reset, Floats({s.batch, n}));
  if (all == 0) return OkStatus();
  const float *x = in[0].raw<float>(), *h_prev = in[1].raw<float>();
  const float *w_ru = in[2].raw<float>(), *w_c = in[3].raw<float>();
  const float *b_ru = in[4].raw<float>(), *b_c = in[5].raw<float>();
  float* g = gates.raw<float>();
  Times(s.batch, 2 * n, s.inputs, x, w_ru, g, false);
  Times(s.batch, 2 * n, n, h_prev, w_ru + s.inputs * 2 * n, g, true);
  float *r = (*out)[0].raw<float>(), *u = (*out)[1].raw<float>();
  float *c = (*out)[2].raw<float>(), *h = (*out)[3].raw<float>();
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t i = 0; i < n; ++i) {
      r[b * n + i] = g[b * 2 * n + i] + b_ru[i];
      u[b * n + i] = g[b * 2 * n + n + i] + b_ru[n + i];
    }
  }
  block_cell::Sigmoid(r, all);
  block_cell::Sigmoid(u, all);
  float* hr = reset.raw<float>();
  for (int64_t i = 0; i < all; ++i) hr[i] = h_prev[i] * r[i];
  Times(s.batch, n, s.inputs, x, w_c, c, false);
  Times(s.batch, n, n, hr, w_c + s.inputs * n, c, true);
  for (int64_t i = 0; i < all; ++i) c[i] += b_c[i % n];
  block_cell::Tanh(c, c, all);
  for (int64_t i = 0; i < all; ++i) h[i] = u[i] * (h_prev[i] - c[i]) + c[i];
  return OkStatus();
}

Status GruBackward(std::span<const Tensor> in, std::vector<Tensor>* out) {
  SLUICE_ASSIGN_OR_RETURN(const GruSizes s, CheckGru(in));
  const int64_t n = s.units, all = s.batch * n;
  static constexpr const char* kNames[] = {"r", "u", "c", "d_h"};
  for (size_t i = 0; i < 4; ++i)
    SLUICE_RETURN_IF_ERROR(RequireDims(kNames[i], in[6 + i], {s.batch, n}));
  SLUICE_ASSIGN_OR_RETURN((*out)[0], Floats({s.batch, s.inputs}));
  SLUICE_ASSIGN_OR_RETURN((*out)[1], Floats({s.batch, n}));
  SLUICE_ASSIGN_OR_RETURN((*out)[2], Floats({s.batch, n}));
  SLUICE_ASSIGN_OR_RETURN((*out)[3], Floats({s.batch, 2 * n}));
  SLUICE_ASSIGN_OR_RETURN(Tensor through_reset, Floats({s.batch, n}));
  if (all == 0) return OkStatus();
  const float* h_prev = in[1].raw<float>();
  const float *w_ru = in[2].raw<float>(), *w_c = in[3].raw<float>();
  const float *r = in[6].raw<float>(), *u = in[7].raw<float>();
  const float *c = in[8].raw<float>(), *dh = in[9].raw<float>();
  float *dx = (*out)[0].raw<float>(), *dh_prev = (*out)[1].raw<float>();
  float *dc = (*out)[2].raw<float>(), *dru = (*out)[3].raw<float>();
  float* dhr = through_reset.raw<float>();
  for (int64_t i = 0; i < all; ++i)
    dc[i] = dh[i] * (1 - u[i]) * (1 - c[i] * c[i]);
  Times(s.batch, n, n, dc, w_c + s.inputs * n, dhr, false, false, true);
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t k = 0; k < n; ++k) {
      const int64_t i = b * n + k;
      dru[b * 2 * n + k] = dhr[i] * h_prev[i] * r[i] * (1 - r[i]);
      dru[b * 2 * n + n + k] = dh[i] * (h_prev[i] - c[i]) * u[i] * (1 - u[i]);
    }
  }
  if (s.inputs > 0) {
    Times(s.batch, s.inputs, 2 * n, dru, w_ru, dx, false, false, true);
    Times(s.batch, s.inputs, n, dc, w_c, dx, true, false, true);
  }
  Times(s.batch, n, 2 * n, dru, w_ru + s.inputs * 2 * n, dh_prev, false, false,
        true);
  for (int64_t i = 0; i < all; ++i) dh_prev[i] += dhr[i] * r[i] + dh[i] * u[i];
  return OkStatus();
}

// x [batch, inputs], h_prev [batch, units], as far as they are known.
Status GruShape(ShapeContext& c) {
  static constexpr int kRanks[] = {2, 2, 2, 2, 1, 1, 2, 2, 2, 2};
  for (int i = 0; i < c.num_inputs(); ++i)
    SLUICE_RETURN_IF_ERROR(c.WithRank(i, kRanks[i]).status());
  SLUICE_ASSIGN_OR_RETURN(const PartialShape x, c.WithRank(0, 2));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape h, c.WithRank(1, 2));
  SLUICE_ASSIGN_OR_RETURN(const int64_t batch, MergeDim(x.dim(0), h.dim(0)));
  const int64_t units = h.dim(1);
  c.set_all_outputs(PartialShape({batch, units}));
  if (c.num_inputs() > 6) {
    c.set_output(0, PartialShape({batch, x.dim(1)}));
    c.set_output(
        3,
        PartialShape({batch, units < 0 ? -1 : MultiplyOrNegative(2, units)}));
  }
  return OkStatus();
}

Status RunGru(KernelContext& ctx) {
  return block_cell::RunInFloat(ctx, GruForward);
}
Status RunGruGrad(KernelContext& ctx) {
  return block_cell::RunInFloat(ctx, GruBackward);
}

SLUICE_OP(GRUBlockCell)
    .Input("x: T")
    .Input("h_prev: T")
    .Input("w_ru: T")
    .Input("w_c: T")
    .Input("b_ru: T")
    .Input("b_c: T")
    .Output("r: T")
    .Output("u: T")
    .Output("c: T")
    .Output("h: T")
    .Attr("T: {float}")
    .Family("nn")
    .Shape(GruShape)
    .Kernel(Cpu(RunGru, /*expensive=*/true))
    .Grad(grad::Undefined)
    .Sample({{.shape = {2, 3}},
             {.shape = {2, 2}},
             {.shape = {5, 4}},
             {.shape = {5, 2}},
             {.shape = {4}},
             {.shape = {2}}})
    .Doc(
        "One step of a gated recurrent unit (GRU): the reset and update "
        "gates, the candidate and the new state.");

SLUICE_OP(GRUBlockCellGrad)
    .Input("x: T")
    .Input("h_prev: T")
    .Input("w_ru: T")
    .Input("w_c: T")
    .Input("b_ru: T")
    .Input("b_c: T")
    .Input("r: T")
    .Input("u: T")
    .Input("c: T")
    .Input("d_h: T")
    .Output("d_x: T")
    .Output("d_h_prev: T")
    .Output("d_c_bar: T")
    .Output("d_r_bar_u_bar: T")
    .Attr("T: {float}")
    .Family("nn")
    .Shape(GruShape)
    .Kernel(Cpu(RunGruGrad, /*expensive=*/true))
    .Grad(grad::Undefined)
    .Sample({{.shape = {2, 3}},
             {.shape = {2, 2}},
             {.shape = {5, 4}},
             {.shape = {5, 2}},
             {.shape = {4}},
             {.shape = {2}},
             {.shape = {2, 2}},
             {.shape = {2, 2}},
             {.shape = {2, 2}},
             {.shape = {2, 2}}})
    .Doc(
        "The gradients of GRUBlockCell, including those of the gates before "
        "their activations.");

// (The weights and biases are shared.)
const BatchFormRegistrar gru_cell_batch("GRUBlockCell", RowByRow<0x3c>);

}  // namespace
}  // namespace sluice
