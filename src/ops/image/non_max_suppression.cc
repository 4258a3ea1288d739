// Choice of boxes that overlap little.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <queue>
#include <type_traits>
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
Result<float> ReadNumber(const KernelContext& ctx, int i, const char* name) {
  const Tensor& t = ctx.input(i);
  if (t.rank() != 0)
    return InvalidArgument(name, ": expected a scalar, got shape ",
                           t.shape().ToString());
  return t.dtype() == DType::kHalf ? static_cast<float>(t.raw_scalar<half>())
                                   : t.raw_scalar<float>();
}

// Likewise, in [0, 1].
Result<float> ReadOverlap(const KernelContext& ctx, int i, const char* name) {
  SLUICE_ASSIGN_OR_RETURN(const float v, ReadNumber(ctx, i, name));
  if (!(v >= 0 && v <= 1))
    return InvalidArgument(name, ": expected a number in [0, 1], got ", v);
  return v;
}

// An int32 scalar of `least` or more.
Result<int64_t> ReadCount(const KernelContext& ctx, int i, const char* name,
                          int32_t least) {
  const Tensor& t = ctx.input(i);
  if (t.rank() != 0 || t.raw_scalar<int32_t>() < least)
    return InvalidArgument(name, ": expected a scalar of ", least,
                           " or more, got ", t.ToString());
  return int64_t{t.raw_scalar<int32_t>()};
}

Status CheckScores(const Tensor& scores, int64_t boxes) {
  if (scores.rank() == 1 && scores.dim(0) == boxes) return OkStatus();
  return InvalidArgument("scores: expected one for each of ", boxes,
                         " boxes, got shape ", scores.shape().ToString());
}

// ---- One list of boxes ------------------------------------------------------

struct SuppressionOptions {
  int64_t most = 0;     // How many boxes are chosen at most.
  float overlap = 0;    // A box that overlaps a chosen one by more is left out.
  float least = 0;      // Scores up to this one are left out.
  float sigma = 0;      // > 0: overlaps reduce scores instead (Soft-NMS).
  bool padded = false;  // The results have `most` elements.
};

template <typename T>
struct Chosen {
  std::vector<int32_t> boxes;
  std::vector<T> scores;
};

// Chooses by descending score, among equal ones the first box.
// overlap(a, b): how much two boxes overlap. With a sigma, Gaussian Soft-NMS
// (Bodla et al., "Soft-NMS", 2017): each chosen box multiplies the scores of
// the others by exp(-overlap^2 / (2 sigma)). All is computed in T, as
// TensorFlow does.
template <typename T, typename OverlapFn>
Chosen<T> Choose(const T* scores, int64_t count, const SuppressionOptions& o,
                 const OverlapFn& overlap) {
  struct Candidate {
    T score;
    int32_t box;
    size_t compared;  // With how many of the chosen ones.
    bool operator<(const Candidate& b) const {
      return score < b.score || (score == b.score && box > b.box);
    }
  };
  const T least(o.least), most_overlap(o.overlap);
  const bool soft = o.sigma > 0;
  const T scale(soft ? T(-0.5f) / T(o.sigma) : T(0.0f));
  std::priority_queue<Candidate> candidates;
  for (int64_t i = 0; i < count; ++i)
    if (scores[i] > least)
      candidates.push({scores[i], static_cast<int32_t>(i), 0});
  Chosen<T> chosen;
  while (static_cast<int64_t>(chosen.boxes.size()) < o.most &&
         !candidates.empty()) {
    Candidate c = candidates.top();
    candidates.pop();
    const T before = c.score;
    bool left_out = false;
    // (The last ones first: equal scores are often those of neighbours.)
    for (size_t j = chosen.boxes.size(); j-- > c.compared && !left_out;) {
      const T shared(overlap(c.box, chosen.boxes[j]));
      if (!soft) {
        left_out = shared > most_overlap;
        continue;
      }
      c.score = T(c.score *
                  T(std::exp(static_cast<float>(T(scale * shared) * shared))));
      left_out = !(c.score > least);
    }
    if (left_out) continue;
    c.compared = chosen.boxes.size();
    if (c.score == before) {
      chosen.boxes.push_back(c.box);
      chosen.scores.push_back(before);
    } else {
      candidates.push(c);
    }
  }
  return chosen;
}

// Sets output i to the values, with zeros up to `size` elements.
template <typename T>
Status SetPadded(KernelContext& ctx, int i, const std::vector<T>& values,
                 int64_t size) {
  SLUICE_RETURN_IF_ERROR(ctx.Allocate(i, DTypeOf<T>(), Shape({size})));
  std::fill_n(
      std::copy(values.begin(), values.end(), ctx.output(i).template raw<T>()),
      size - static_cast<int64_t>(values.size()), T(0));
  return OkStatus();
}

// Sets the outputs that the op has: indices, scores, and how many are valid.
template <typename T>
Status SetChosen(KernelContext& ctx, const Chosen<T>& chosen,
                 const SuppressionOptions& o) {
  const auto valid = static_cast<int32_t>(chosen.boxes.size());
  const int64_t size = o.padded ? o.most : valid;
  SLUICE_RETURN_IF_ERROR(SetPadded(ctx, 0, chosen.boxes, size));
  if (ctx.num_outputs() == 3)
    SLUICE_RETURN_IF_ERROR(SetPadded(ctx, 1, chosen.scores, size));
  if (ctx.num_outputs() > 1)
    ctx.set_output(ctx.num_outputs() - 1, Tensor::Scalar(valid));
  return OkStatus();
}

// V2, without a least score, to V5, which differ in their last inputs.
class NonMaxSuppression {
 public:
  explicit NonMaxSuppression(const Node& n)
      : type_(n.TypeAttr("T")),
        padded_(n.AttrOr<bool>("pad_to_max_output_size", false)) {}
  Status Run(KernelContext& ctx) const {
    return type_ == DType::kHalf ? RunFor<half>(ctx) : RunFor<float>(ctx);
  }

 private:
  template <typename T>
  Status RunFor(KernelContext& ctx) const {
    const Tensor& boxes = ctx.input(0);
    const Tensor& scores = ctx.input(1);
    if (boxes.rank() != 2 || boxes.dim(1) != 4)
      return InvalidArgument("boxes: expected [boxes, 4], got shape ",
                             boxes.shape().ToString());
    SLUICE_RETURN_IF_ERROR(CheckScores(scores, boxes.dim(0)));
    SuppressionOptions o;
    SLUICE_ASSIGN_OR_RETURN(o.most, ReadCount(ctx, 2, "max_output_size", 0));
    SLUICE_ASSIGN_OR_RETURN(o.overlap, ReadOverlap(ctx, 3, "iou_threshold"));
    o.least = std::is_same_v<T, half> ? -65504.0f  // The least of all.
                                      : std::numeric_limits<float>::lowest();
    if (ctx.num_inputs() > 4) {
      SLUICE_ASSIGN_OR_RETURN(o.least, ReadNumber(ctx, 4, "score_threshold"));
    }
    if (ctx.num_inputs() > 5) {
      SLUICE_ASSIGN_OR_RETURN(o.sigma, ReadNumber(ctx, 5, "soft_nms_sigma"));
      if (!(o.sigma >= 0))
        return InvalidArgument("soft_nms_sigma: expected 0 or more, got ",
                               o.sigma);
    }
    o.padded = padded_;
    std::vector<ScoredBox> corners;
    for (int64_t i = 0; i < boxes.dim(0); ++i)
      corners.emplace_back(boxes.raw<T>() + 4 * i);
    return SetChosen(ctx,
                     Choose(scores.raw<T>(), boxes.dim(0), o,
                            [&](int32_t a, int32_t b) {
                              return Overlap(corners[static_cast<size_t>(a)],
                                             corners[static_cast<size_t>(b)]);
                            }),
                     o);
  }

  const DType type_;
  const bool padded_;
};

Status RunWithOverlaps(KernelContext& ctx) {
  const Tensor& overlaps = ctx.input(0);
  if (overlaps.rank() != 2 || overlaps.dim(0) != overlaps.dim(1))
    return InvalidArgument("overlaps: expected [boxes, boxes], got shape ",
                           overlaps.shape().ToString());
  const int64_t n = overlaps.dim(0);
  SLUICE_RETURN_IF_ERROR(CheckScores(ctx.input(1), n));
  SuppressionOptions o;
  SLUICE_ASSIGN_OR_RETURN(o.most, ReadCount(ctx, 2, "max_output_size", 0));
  SLUICE_ASSIGN_OR_RETURN(o.overlap, ReadNumber(ctx, 3, "overlap_threshold"));
  SLUICE_ASSIGN_OR_RETURN(o.least, ReadNumber(ctx, 4, "score_threshold"));
  const float* const v = overlaps.raw<float>();
  return SetChosen(ctx,
                   Choose(ctx.input(1).raw<float>(), n, o,
                          [&](int32_t a, int32_t b) { return v[a * n + b]; }),
                   o);
}

// ---- Batches of boxes with several classes ----------------------------------

// How many boxes are chosen of an image at most. (There may be any number of
// classes if there are no boxes.)
int64_t MostOfAll(int64_t total, int64_t most_per_class, int64_t classes) {
  int64_t most;
  if (__builtin_mul_overflow(most_per_class, classes, &most)) return total;
  return std::min(total, most);
}

// Chooses for each class of each image, and then the best of an image.
class CombinedNonMaxSuppression {
 public:
  explicit CombinedNonMaxSuppression(const Node& n)
      : per_class_(n.BoolAttr("pad_per_class")),
        clip_(n.BoolAttr("clip_boxes")) {}
  Status Run(KernelContext& ctx) const {
    const Tensor& boxes = ctx.input(0);
    const Tensor& scores = ctx.input(1);
    if (scores.rank() != 3)
      return InvalidArgument(
          "scores: expected [batch, boxes, classes], got shape ",
          scores.shape().ToString());
    const int64_t batch = scores.dim(0), classes = scores.dim(2);
    if (boxes.rank() != 4 || boxes.dim(0) != batch ||
        boxes.dim(1) != scores.dim(1) ||
        (boxes.dim(2) != 1 && boxes.dim(2) != classes) || boxes.dim(3) != 4)
      return InvalidArgument("boxes: expected [", batch, ", ", scores.dim(1),
                             ", 1 or ", classes, ", 4], got shape ",
                             boxes.shape().ToString());
    SuppressionOptions o;
    SLUICE_ASSIGN_OR_RETURN(o.most,
                            ReadCount(ctx, 2, "max_output_size_per_class", 1));
    SLUICE_ASSIGN_OR_RETURN(int64_t total,
                            ReadCount(ctx, 3, "max_total_size", 1));
    SLUICE_ASSIGN_OR_RETURN(o.overlap, ReadOverlap(ctx, 4, "iou_threshold"));
    SLUICE_ASSIGN_OR_RETURN(o.least, ReadNumber(ctx, 5, "score_threshold"));
    if (per_class_) total = MostOfAll(total, o.most, classes);
    SLUICE_RETURN_IF_ERROR(
        ctx.Allocate(0, DType::kFloat, Shape({batch, total, 4})));
    for (const int i : {1, 2})
      SLUICE_RETURN_IF_ERROR(
          ctx.Allocate(i, DType::kFloat, Shape({batch, total})));
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(3, DType::kInt32, Shape({batch})));
    for (const int i : {0, 1, 2})
      std::fill_n(ctx.output(i).raw<float>(), ctx.output(i).num_elements(),
                  0.0f);
    for (int64_t b = 0; b < batch; ++b) {
      const std::vector<Detection> found = Detect(boxes, scores, b, o);
      const int64_t valid = std::min(total, static_cast<int64_t>(found.size()));
      for (int64_t i = 0; i < valid; ++i) {
        const Detection& d = found[static_cast<size_t>(i)];
        const int64_t at = b * total + i;
        for (int c = 0; c < 4; ++c)
          ctx.output(0).raw<float>()[at * 4 + c] =
              clip_ ? std::max(std::min(d.box[c], 1.0f), 0.0f) : d.box[c];
        ctx.output(1).raw<float>()[at] = d.score;
        ctx.output(2).raw<float>()[at] = static_cast<float>(d.kind);
      }
      ctx.output(3).raw<int32_t>()[b] = static_cast<int32_t>(valid);
    }
    return OkStatus();
  }

 private:
  struct Detection {
    float score;
    int64_t kind;
    const float* box;
  };

  // The boxes that are chosen for the classes of image b, the best first.
  static std::vector<Detection> Detect(const Tensor& boxes,
                                       const Tensor& scores, int64_t b,
                                       const SuppressionOptions& o) {
    const int64_t count = scores.dim(1), classes = scores.dim(2);
    const int64_t kinds = boxes.dim(2);  // Boxes of all classes, or of each.
    std::vector<Detection> found;
    if (count == 0) return found;
    std::vector<float> of_class(static_cast<size_t>(count));
    for (int64_t k = 0; k < classes; ++k) {
      const auto box = [&](int64_t i) {
        return boxes.raw<float>() +
               ((b * count + i) * kinds + (kinds > 1 ? k : 0)) * 4;
      };
      std::vector<ScoredBox> corners;
      for (int64_t i = 0; i < count; ++i) {
        corners.emplace_back(box(i));
        of_class[static_cast<size_t>(i)] =
            scores.raw<float>()[(b * count + i) * classes + k];
      }
      const Chosen<float> chosen =
          Choose(of_class.data(), count, o, [&](int32_t i, int32_t j) {
            return Overlap(corners[static_cast<size_t>(i)],
                           corners[static_cast<size_t>(j)]);
          });
      for (size_t i = 0; i < chosen.boxes.size(); ++i)
        found.push_back({chosen.scores[i], k, box(chosen.boxes[i])});
    }
    std::stable_sort(found.begin(), found.end(),
                     [](const Detection& x, const Detection& y) {
                       return x.score > y.score;
                     });
    return found;
  }

  const bool per_class_, clip_;
};

// ---- Shapes -----------------------------------------------------------------

// The outputs, once the boxes and scores have been checked.
Status SetChosenShapes(ShapeContext& c) {
  for (int i = 2; i < c.num_inputs(); ++i)
    SLUICE_RETURN_IF_ERROR(c.RequireScalar(i));
  const bool padded = c.node().AttrOr<bool>("pad_to_max_output_size", false);
  const std::optional<int64_t> most =
      padded ? c.ConstantInt(2) : std::optional<int64_t>();
  for (int i = 0; i < std::max(1, c.num_outputs() - 1); ++i)
    c.set_output(i, {most && *most >= 0 ? *most : -1});
  if (c.num_outputs() > 1)
    c.set_output(c.num_outputs() - 1, PartialShape::Scalar());
  return OkStatus();
}

Status SuppressionShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const PartialShape boxes, c.WithRank(0, 2));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape scores, c.WithRank(1, 1));
  SLUICE_RETURN_IF_ERROR(MergeDim(boxes.dim(0), scores.dim(0)).status());
  SLUICE_RETURN_IF_ERROR(MergeDim(boxes.dim(1), 4).status());
  return SetChosenShapes(c);
}

Status OverlapsShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const PartialShape overlaps, c.WithRank(0, 2));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape scores, c.WithRank(1, 1));
  SLUICE_ASSIGN_OR_RETURN(const int64_t n,
                          MergeDim(overlaps.dim(0), overlaps.dim(1)));
  SLUICE_RETURN_IF_ERROR(MergeDim(n, scores.dim(0)).status());
  return SetChosenShapes(c);
}

Status CombinedShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const PartialShape boxes, c.WithRank(0, 4));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape scores, c.WithRank(1, 3));
  for (int i = 2; i < 6; ++i) SLUICE_RETURN_IF_ERROR(c.RequireScalar(i));
  SLUICE_RETURN_IF_ERROR(MergeDim(boxes.dim(3), 4).status());
  SLUICE_RETURN_IF_ERROR(MergeDim(boxes.dim(1), scores.dim(1)).status());
  if (boxes.dim(2) != 1)
    SLUICE_RETURN_IF_ERROR(MergeDim(boxes.dim(2), scores.dim(2)).status());
  SLUICE_ASSIGN_OR_RETURN(const int64_t batch,
                          MergeDim(boxes.dim(0), scores.dim(0)));
  int64_t total = c.ConstantInt(3).value_or(-1);
  if (c.node().BoolAttr("pad_per_class")) {
    const int64_t most = c.ConstantInt(2).value_or(-1);
    total = total < 0 || most < 0 || scores.dim(2) < 0
                ? -1
                : MostOfAll(total, most, scores.dim(2));
  }
  total = std::max<int64_t>(total, -1);
  c.set_output(0, {batch, total, 4});
  c.set_output(1, {batch, total});
  c.set_output(2, {batch, total});
  c.set_output(3, {batch});
  return OkStatus();
}

// ---- Declarations -----------------------------------------------------------

constexpr const char* kChooses = "the result is a list of indices";

// The versions: `more` are the inputs after the first four and the outputs
// after the first; `numbers` are samples of those inputs.
#define SLUICE_SUPPRESSION(Name, threshold, more, numbers, doc)                \
  SLUICE_OP(Name)                                                              \
      .Input("boxes: T")                                                       \
      .Input("scores: T")                                                      \
      .Input("max_output_size: int32")                                         \
      .Input("iou_threshold: " threshold)                                      \
      .Output("selected_indices: int32")                                       \
      .Attr("T: {half, float} = DT_FLOAT") more.Family("image")                \
      .Shape(SuppressionShape)                                                 \
      .Kernel(CpuState<NonMaxSuppression>(/*expensive=*/true))                 \
      .NoGradient(kChooses)                                                    \
      .Sample(                                                                 \
          {{.shape = {4, 4},                                                   \
            .values = {0, 0, 1, 1, 0, 0.1, 1, 1.1, 0, 3, 1, 4, 0, 3.1, 1, 4}}, \
           {.shape = {4}, .values = {0.5, 0.9, 0.6, 0.2}},                     \
           {.shape = {}, .values = {3}},                                       \
           {.shape = {}, .values = {0.5}} numbers})                            \
      .Doc(doc)
#define SLUICE_NUMBER(v)         \
  , {                            \
    .shape = {}, .values = { v } \
  }

SLUICE_SUPPRESSION(NonMaxSuppressionV2, "T_threshold",
                   .Attr("T_threshold: {half, float} = DT_FLOAT"), ,
                   "Chooses boxes by descending score, leaving out those that "
                   "overlap a chosen one by more than iou_threshold.");

SLUICE_SUPPRESSION(NonMaxSuppressionV3, "T_threshold",
                   .Input("score_threshold: T_threshold")
                       .Attr("T_threshold: {half, float} = DT_FLOAT"),
                   SLUICE_NUMBER(0.1),
                   "Chooses boxes by descending score, leaving out those that "
                   "overlap a chosen one by more than iou_threshold, and those "
                   "with no more than score_threshold.");

SLUICE_SUPPRESSION(NonMaxSuppressionV4, "T_threshold",
                   .Input("score_threshold: T_threshold")
                       .Output("valid_outputs: int32")
                       .Attr("T_threshold: {half, float} = DT_FLOAT")
                       .Attr("pad_to_max_output_size: bool = false"),
                   SLUICE_NUMBER(0.1),
                   "As NonMaxSuppressionV3; also returns how many boxes were "
                   "chosen, and can fill the list with zeros.");

SLUICE_SUPPRESSION(NonMaxSuppressionV5, "T",
                   .Input("score_threshold: T")
                       .Input("soft_nms_sigma: T")
                       .Output("selected_scores: T")
                       .Output("valid_outputs: int32")
                       .Attr("pad_to_max_output_size: bool = false"),
                   SLUICE_NUMBER(0.1) SLUICE_NUMBER(0.5),
                   "As NonMaxSuppressionV4; also returns the scores. With a "
                   "soft_nms_sigma, boxes that overlap a chosen one get lower "
                   "scores instead of being left out.");

#undef SLUICE_NUMBER
#undef SLUICE_SUPPRESSION

SLUICE_OP(NonMaxSuppressionWithOverlaps)
    .Input("overlaps: float")
    .Input("scores: float")
    .Input("max_output_size: int32")
    .Input("overlap_threshold: float")
    .Input("score_threshold: float")
    .Output("selected_indices: int32")
    .Family("image")
    .Shape(OverlapsShape)
    .Kernel(Cpu(RunWithOverlaps, /*expensive=*/true))
    .NoGradient(kChooses)
    .Sample({{.shape = {3, 3}, .values = {1, 0.6, 0, 0.6, 1, 0.2, 0, 0.2, 1}},
             {.shape = {3}, .values = {0.5, 0.9, 0.6}},
             {.shape = {}, .values = {3}},
             {.shape = {}, .values = {0.5}},
             {.shape = {}, .values = {0.1}}})
    .Doc(
        "Chooses boxes as NonMaxSuppressionV3 does, given how much each two of "
        "them overlap.");

SLUICE_OP(CombinedNonMaxSuppression)
    .Input("boxes: float")
    .Input("scores: float")
    .Input("max_output_size_per_class: int32")
    .Input("max_total_size: int32")
    .Input("iou_threshold: float")
    .Input("score_threshold: float")
    .Output("nmsed_boxes: float")
    .Output("nmsed_scores: float")
    .Output("nmsed_classes: float")
    .Output("valid_detections: int32")
    .Attr("pad_per_class: bool = false")
    .Attr("clip_boxes: bool = true")
    .Family("image")
    .Shape(CombinedShape)
    .Kernel(CpuState<CombinedNonMaxSuppression>(/*expensive=*/true))
    .NoGradient("TensorFlow gives none for chosen boxes")
    .Sample({{.shape = {1, 3, 1, 4},
              .values = {0, 0, 0.5, 0.5, 0, 0.1, 0.5, 0.6, 0.5, 0.5, 1, 1.5}},
             {.shape = {1, 3, 2}, .values = {0.5, 0.1, 0.9, 0.7, 0.6, 0.3}},
             {.shape = {}, .values = {2}},
             {.shape = {}, .values = {3}},
             {.shape = {}, .values = {0.5}},
             {.shape = {}, .values = {0.2}}})
    .Doc(
        "Chooses boxes for each class of each image, and of these the best of "
        "the image; fills the rest with zeros.");

}  // namespace
}  // namespace sluice
