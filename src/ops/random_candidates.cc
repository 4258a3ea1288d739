// Sampled softmax: candidates that are drawn in place of all classes.
#include <limits>
#include <unordered_map>
#include <vector>

#include "exec/kernel.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"

namespace sluice {
namespace {

// State: num_true.
Status RunAccidentalHits(KernelContext& ctx) {
  const Tensor& classes = ctx.input(0);
  const Tensor& sampled = ctx.input(1);
  const int64_t num_true = ctx.state<int64_t>();
  if (classes.rank() != 2 || classes.dim(1) != num_true)
    return InvalidArgument("true_classes: expected shape [?,", num_true,
                           "], got ", classes.shape().ToString());
  if (sampled.rank() != 1)
    return InvalidArgument("sampled_candidates: expected a vector, got shape ",
                           sampled.shape().ToString());
  std::unordered_map<int64_t, int64_t> place;  // The last, if there are more.
  for (int64_t i = 0; i < sampled.num_elements(); ++i)
    place[sampled.data<int64_t>()[i]] = i;
  std::vector<int32_t> indices;
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < classes.num_elements(); ++i) {
    auto it = place.find(classes.data<int64_t>()[i]);
    if (it == place.end()) continue;
    indices.push_back(static_cast<int32_t>(i / num_true));
    ids.push_back(it->second);
  }
  // Added to the logits of the hits, it takes them out of the softmax.
  const std::vector<float> weights(indices.size(),
                                   -std::numeric_limits<float>::max());
  ctx.set_output(0, Tensor::Vector<int32_t>(indices));
  ctx.set_output(1, Tensor::Vector<int64_t>(ids));
  ctx.set_output(2, Tensor::Vector<float>(weights));
  return OkStatus();
}

Status MakeAccidentalHits(const Node& n, Kernel* k) {
  k->state = std::make_shared<int64_t>(n.IntAttr("num_true"));
  k->run = RunAccidentalHits;
  return OkStatus();
}

Status AccidentalHitsShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const PartialShape classes, c.WithRank(0, 2));
  SLUICE_RETURN_IF_ERROR(
      MergeDim(classes.dim(1), c.node().IntAttr("num_true")).status());
  SLUICE_RETURN_IF_ERROR(c.WithRank(1, 1).status());
  c.set_all_outputs(PartialShape({-1}));
  return OkStatus();
}

SLUICE_OP(ComputeAccidentalHits)
    .Input("true_classes: int64")
    .Input("sampled_candidates: int64")
    .Output("indices: int32")
    .Output("ids: int64")
    .Output("weights: float")
    .Attr("num_true: int")
    .Attr("seed: int = 0")
    .Attr("seed2: int = 0")
    .Family("random")
    .Shape(AccidentalHitsShape)
    .Kernel(MakeAccidentalHits)
    .NoGradient("finds equal integers")
    .Sample({{.shape = {2, 2}, .values = {1, 2, 3, 4}},
             {.shape = {3}, .values = {4, 9, 1}}},
            {{"num_true", 2}})
    .Doc(
        "Where sampled candidates are true classes: row, place among the "
        "candidates, and the weight that masks it.");

}  // namespace
}  // namespace sluice
