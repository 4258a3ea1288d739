// Choice of boxes that overlap little.
#include <algorithm>
#include <numeric>
#include <vector>

#include "exec/core/kernel.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"

namespace sluice {
namespace {

struct ScoredBox {
  float top, left, bottom, right;

  template <typename T>
  explicit ScoredBox(const T* v)
      : top(std::min<float>(v[0], v[2])),
        left(std::min<float>(v[1], v[3])),
        bottom(std::max<float>(v[0], v[2])),
        right(std::max<float>(v[1], v[3])) {}
  float area() const { return (bottom - top) * (right - left); }
};

// Intersection over union.
float Overlap(const ScoredBox& a, const ScoredBox& b) {
  const float area_a = a.area(), area_b = b.area();
  if (area_a <= 0 || area_b <= 0) return 0;
  const float height = std::min(a.bottom, b.bottom) - std::max(a.top, b.top);
  const float width = std::min(a.right, b.right) - std::max(a.left, b.left);
  const float both = std::max(height, 0.0f) * std::max(width, 0.0f);
  return both / (area_a + area_b - both);
}

// A scalar of type half or float.
Result<float> ReadThreshold(const KernelContext& ctx, int i, const char* name) {
  const Tensor& t = ctx.input(i);
  if (t.rank() != 0)
    return InvalidArgument(name, ": expected a scalar, got shape ",
                           t.shape().ToString());
  return t.dtype() == DType::kHalf ? static_cast<float>(t.raw_scalar<half>())
                                   : t.raw_scalar<float>();
}

template <typename T>
struct NonMaxSuppression {
  static Status Run(KernelContext& ctx) {
    const Tensor& boxes = ctx.input(0);
    const Tensor& scores = ctx.input(1);
    const Tensor& most = ctx.input(2);
    if (boxes.rank() != 2 || boxes.dim(1) != 4)
      return InvalidArgument("boxes: expected [boxes, 4], got shape ",
                             boxes.shape().ToString());
    if (scores.rank() != 1 || scores.dim(0) != boxes.dim(0))
      return InvalidArgument("scores: expected one for each of ", boxes.dim(0),
                             " boxes, got shape ", scores.shape().ToString());
    if (most.rank() != 0 || most.raw_scalar<int32_t>() < 0)
      return InvalidArgument(
          "max_output_size: expected a scalar of 0 or more, got ",
          most.ToString());
    SLUICE_ASSIGN_OR_RETURN(const float threshold,
                            ReadThreshold(ctx, 3, "iou_threshold"));
    if (!(threshold >= 0 && threshold <= 1))
      return InvalidArgument("iou_threshold: expected a number in [0, 1], got ",
                             threshold);
    SLUICE_ASSIGN_OR_RETURN(const float least,
                            ReadThreshold(ctx, 4, "score_threshold"));
    const std::vector<int32_t> chosen = Choose(
        boxes, scores.raw<T>(), static_cast<size_t>(most.raw_scalar<int32_t>()),
        threshold, least);
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(
        0, DType::kInt32, Shape({static_cast<int64_t>(chosen.size())})));
    std::copy(chosen.begin(), chosen.end(), ctx.output(0).raw<int32_t>());
    return OkStatus();
  }

  static std::vector<int32_t> Choose(const Tensor& boxes, const T* scores,
                                     size_t most, float threshold,
                                     float least) {
    std::vector<int32_t> order;
    for (int64_t i = 0; i < boxes.dim(0); ++i)
      if (scores[i] > T(least)) order.push_back(static_cast<int32_t>(i));
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      return scores[a] > scores[b];
    });
    std::vector<int32_t> chosen;
    std::vector<ScoredBox> kept;
    for (const int32_t i : order) {
      if (chosen.size() == most) break;
      const ScoredBox box(boxes.raw<T>() + 4 * int64_t{i});
      // (The last ones first: equal scores are often those of neighbours.)
      if (std::any_of(kept.rbegin(), kept.rend(), [&](const ScoredBox& k) {
            return T(Overlap(box, k)) > T(threshold);
          }))
        continue;
      chosen.push_back(i);
      kept.push_back(box);
    }
    return chosen;
  }
};

Status SuppressionShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const PartialShape boxes, c.WithRank(0, 2));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape scores, c.WithRank(1, 1));
  SLUICE_RETURN_IF_ERROR(MergeDim(boxes.dim(0), scores.dim(0)).status());
  SLUICE_RETURN_IF_ERROR(MergeDim(boxes.dim(1), 4).status());
  for (int i = 2; i < 5; ++i) SLUICE_RETURN_IF_ERROR(c.RequireScalar(i));
  c.set_output(0, PartialShape::OfRank(1));
  return OkStatus();
}

SLUICE_OP(NonMaxSuppressionV3)
    .Input("boxes: T")
    .Input("scores: T")
    .Input("max_output_size: int32")
    .Input("iou_threshold: T_threshold")
    .Input("score_threshold: T_threshold")
    .Output("selected_indices: int32")
    .Attr("T: {half, float} = DT_FLOAT")
    .Attr("T_threshold: {half, float} = DT_FLOAT")
    .Family("image")
    .Shape(SuppressionShape)
    .Kernel(CpuFor<NonMaxSuppression, half, float>("T", /*expensive=*/true))
    .NoGradient("the result is a list of indices")
    .Sample({{.shape = {4, 4},
              .values = {0, 0, 1, 1, 0, 0.1, 1, 1.1, 0, 3, 1, 4, 0, 3.1, 1, 4}},
             {.shape = {4}, .values = {0.5, 0.9, 0.6, 0.2}},
             {.shape = {}, .values = {3}},
             {.shape = {}, .values = {0.5}},
             {.shape = {}, .values = {0.1}}})
    .Doc(
        "Chooses boxes by descending score, leaving out those that overlap a "
        "chosen one by more than iou_threshold.");

}  // namespace
}  // namespace sluice
