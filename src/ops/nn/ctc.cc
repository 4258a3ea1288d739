// The CTC loss (connectionist temporal classification, Graves et al., 2006; the
// equations are those of Graves' thesis, chapter 7): the negative
// log-probability of a label sequence, summed over its alignments in time.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "base/parallel.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "ops/common/dispatch.h"
#include "ops/common/grad_nodes.h"
#include "ops/nn/ctc_labels.h"

namespace sluice {
namespace {

// ---- Shapes and inputs ------------------------------------------------------

Status CtcLossShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(PartialShape inputs, c.WithRank(0, 3));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape indices, c.WithRank(1, 2));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape values, c.WithRank(2, 1));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape lengths, c.WithRank(3, 1));
  SLUICE_RETURN_IF_ERROR(MergeDim(indices.dim(0), values.dim(0)).status());
  SLUICE_RETURN_IF_ERROR(MergeDim(indices.dim(1), 2).status());
  SLUICE_ASSIGN_OR_RETURN(const int64_t batch,
                          MergeDim(inputs.dim(1), lengths.dim(0)));
  if (!inputs.rank_known()) inputs = PartialShape::OfRank(3);
  inputs.set_dim(1, batch);
  c.set_output(0, PartialShape({batch}));
  c.set_output(1, std::move(inputs));
  return OkStatus();
}

struct CtcOptions {
  bool collapse_repeated, merge_repeated, ignore_longer;
};

// The labels of each batch element: a sparse matrix [batch, any].
Result<std::vector<std::vector<int32_t>>> ReadLabels(const Tensor& indices,
                                                     const Tensor& values,
                                                     int64_t batch) {
  if (indices.rank() != 2 || indices.dim(1) != 2 || values.rank() != 1 ||
      indices.dim(0) != values.dim(0))
    return InvalidArgument(
        "labels_indices: expected a matrix of two columns with a row for each "
        "of labels_values, a vector, got shapes ",
        indices.shape().ToString(), " and ", values.shape().ToString());
  std::vector<std::vector<int32_t>> labels(static_cast<size_t>(batch));
  const int64_t* at = indices.raw<int64_t>();
  for (int64_t i = 0; i < values.dim(0); ++i) {
    const std::pair now(at[2 * i], at[2 * i + 1]);
    if (now.first < 0 || now.first >= batch || now.second < 0)
      return InvalidArgument("labels_indices: expected a row in [0, ", batch,
                             ") and a column >= 0, got (", now.first, ", ",
                             now.second, ") at ", i);
    if (i > 0 && std::pair(at[2 * i - 2], at[2 * i - 1]) >= now)
      return InvalidArgument("labels_indices: expected rising positions, got (",
                             now.first, ", ", now.second, ") at ", i);
    labels[static_cast<size_t>(now.first)].push_back(values.raw<int32_t>()[i]);
  }
  return labels;
}

// The sequence l': the labels with a blank before each and one at the end.
// `time`: the number of available time steps.
Result<std::vector<int>> WithBlanks(const std::vector<int32_t>& labels,
                                    int64_t time, int64_t classes, int64_t b,
                                    CtcOptions o) {
  const int blank = static_cast<int>(classes - 1);
  if (labels.empty())
    return InvalidArgument("labels: expected at least one in batch element ",
                           b);
  std::vector<int> with;
  bool ended = false;
  for (size_t i = 0; i < labels.size(); ++i) {
    if (i > 0 && o.collapse_repeated && labels[i] == labels[i - 1]) continue;
    if (labels[i] >= blank) {  // Allowed only at the end.
      ended = true;
      continue;
    }
    if (ended || labels[i] < 0)
      return InvalidArgument("labels: expected values in [0, ", blank,
                             "), blanks at the end only, got ", labels[i],
                             " in batch element ", b);
    with.push_back(blank);
    with.push_back(labels[i]);
  }
  if (!o.ignore_longer && static_cast<int64_t>(labels.size()) > time)
    return InvalidArgument("sequence_length: expected time for ", labels.size(),
                           " labels, got ", time, " steps in batch element ",
                           b);
  with.push_back(blank);
  return with;
}

// ---- The kernel -------------------------------------------------------------

// One batch element. Columns are time steps, rows the U positions of l'.
template <typename T>
class CtcAlignment {
 public:
  // `inputs`: row t is at t * stride. `room`: scratch for 2 * time * places
  // elements.
  CtcAlignment(const std::vector<int>& labels, const T* inputs, int64_t stride,
               int64_t time, int64_t classes, bool merge_repeated, T* room)
      : labels_(labels),
        places_(static_cast<int64_t>(labels.size())),
        time_(time),
        classes_(classes),
        merge_(merge_repeated),
        probability_(static_cast<size_t>(time * classes)),
        alpha_(room),
        beta_(room + time * places_) {
    std::fill_n(room, 2 * time * places_, kLogZero<T>);
    for (int64_t t = 0; t < time; ++t) {
      const T* in = inputs + t * stride;
      T* out = &probability_[static_cast<size_t>(t * classes)];
      const T most = *std::max_element(in, in + classes);
      T sum = 0;
      for (int64_t i = 0; i < classes; ++i)
        sum += out[i] = std::exp(in[i] - most);
      for (int64_t i = 0; i < classes; ++i) out[i] /= sum;
    }
    Forward();
    Backward();
  }

  // log p(z|x), equation 7.26 at the first step.
  T LogProbability() const {
    T p = kLogZero<T>;
    for (int64_t u = 0; u < places_; ++u) p = LogSum(p, Both(u, 0));
    return p;
  }

  // Equation 7.34: the gradient of the loss with respect to the inputs of all
  // steps.
  void Gradient(T log_p, T* gradient, int64_t stride) const {
    std::vector<T> sums(static_cast<size_t>(classes_));
    for (int64_t t = 0; t < time_; ++t) {
      const T* y = &probability_[static_cast<size_t>(t * classes_)];
      T* out = gradient + t * stride;
      if (log_p == kLogZero<T>) {  // There is no path.
        std::copy_n(y, classes_, out);
        continue;
      }
      std::fill(sums.begin(), sums.end(), kLogZero<T>);
      for (int64_t u = 0; u < places_; ++u) {
        T& sum = sums[static_cast<size_t>(labels_[static_cast<size_t>(u)])];
        sum = LogSum(sum, Both(u, t));
      }
      for (int64_t i = 0; i < classes_; ++i)
        out[i] = y[i] - std::exp(sums[static_cast<size_t>(i)] - log_p);
    }
  }

 private:
  int label(int64_t u) const { return labels_[static_cast<size_t>(u)]; }
  int blank() const { return static_cast<int>(classes_ - 1); }
  int64_t at(int64_t u, int64_t t) const { return t * places_ + u; }
  T LogY(int64_t u, int64_t t) const {
    return std::log(probability_[static_cast<size_t>(t * classes_ + label(u))]);
  }
  T Both(int64_t u, int64_t t) const {
    return alpha_[at(u, t)] + beta_[at(u, t)];
  }
  // The positions that are reachable from the start by step t and from which
  // the end is reachable.
  int64_t first(int64_t t) const {
    return std::max<int64_t>(0, places_ - 2 * (time_ - t));
  }
  int64_t last(int64_t t) const { return std::min(places_, 2 * (t + 1)); }
  bool MayStay(int64_t u) const { return merge_ || label(u) == blank(); }
  // Whether a path may go from position u to u + 2, skipping a blank.
  bool MaySkip(int64_t u) const {
    return label(u + 2) != blank() && !(merge_ && label(u) == label(u + 2));
  }

  void Forward() {  // Equation 7.9.
    for (int64_t u = 0; u < std::min<int64_t>(2, places_); ++u)
      alpha_[at(u, 0)] = LogY(u, 0);
    for (int64_t t = 1; t < time_; ++t) {
      for (int64_t u = first(t); u < last(t); ++u) {
        T sum = MayStay(u) ? alpha_[at(u, t - 1)] : kLogZero<T>;
        if (u > 0) sum = LogSum(sum, alpha_[at(u - 1, t - 1)]);
        if (u > 1 && MaySkip(u - 2))
          sum = LogSum(sum, alpha_[at(u - 2, t - 1)]);
        alpha_[at(u, t)] = LogY(u, t) + sum;
      }
    }
  }
  void Backward() {  // Equation 7.15.
    for (int64_t u = std::max<int64_t>(0, places_ - 2); u < places_; ++u)
      beta_[at(u, time_ - 1)] = 0;
    for (int64_t t = time_ - 2; t >= 0; --t) {
      for (int64_t u = first(t); u < last(t); ++u) {
        T sum = kLogZero<T>;
        if (MayStay(u)) sum = LogSum(sum, beta_[at(u, t + 1)] + LogY(u, t + 1));
        if (u + 1 < places_)
          sum = LogSum(sum, beta_[at(u + 1, t + 1)] + LogY(u + 1, t + 1));
        if (u + 2 < places_ && MaySkip(u))
          sum = LogSum(sum, beta_[at(u + 2, t + 1)] + LogY(u + 2, t + 1));
        beta_[at(u, t)] = sum;
      }
    }
  }

  const std::vector<int>& labels_;
  const int64_t places_, time_, classes_;
  const bool merge_;
  std::vector<T> probability_;    // [time, classes]
  T *const alpha_, *const beta_;  // [time, places], logarithms.
};

// Immutable.
template <typename T>
class CtcLoss {
 public:
  explicit CtcLoss(const Node& n)
      : options_{n.BoolAttr("preprocess_collapse_repeated"),
                 n.BoolAttr("ctc_merge_repeated"),
                 n.BoolAttr("ignore_longer_outputs_than_inputs")} {}

  Status Run(KernelContext& ctx) const {
    const Tensor &inputs = ctx.input(0), &lengths = ctx.input(3);
    if (inputs.rank() != 3 || inputs.num_elements() == 0)
      return InvalidArgument(
          "inputs: expected a shape [time, batch, classes] without zeros, got ",
          inputs.shape().ToString());
    const int64_t time = inputs.dim(0), batch = inputs.dim(1);
    const int64_t classes = inputs.dim(2);
    if (lengths.rank() != 1 || lengths.dim(0) != batch)
      return InvalidArgument("sequence_length: expected shape [", batch,
                             "], got ", lengths.shape().ToString());
    if (classes > std::numeric_limits<int>::max())
      return InvalidArgument("inputs: expected less than 2^31 classes, got ",
                             classes);
    SLUICE_ASSIGN_OR_RETURN(const auto labels,
                            ReadLabels(ctx.input(1), ctx.input(2), batch));
    const auto skipped = [&](int64_t b) {
      const int64_t steps = lengths.raw<int32_t>()[b];
      const auto count =
          static_cast<int64_t>(labels[static_cast<size_t>(b)].size());
      return steps == 0 || (options_.ignore_longer && count > steps);
    };
    std::vector<std::vector<int>> places(static_cast<size_t>(batch));
    // Each thread has scratch memory for the largest of its batch elements:
    // every slabs-th one. Small inputs can require much memory, so it comes
    // from the step's allocator: bad_alloc would end the process.
    const int64_t slabs = std::min<int64_t>(batch, IntraOpThreads());
    std::vector<int64_t> sizes(static_cast<size_t>(slabs));
    for (int64_t b = 0; b < batch; ++b) {
      const int64_t steps = lengths.raw<int32_t>()[b];
      if (steps < 0 || steps > time)
        return InvalidArgument("sequence_length: expected values in [0, ", time,
                               "], got ", steps, " at ", b);
      const auto at = static_cast<size_t>(b);
      SLUICE_ASSIGN_OR_RETURN(
          places[at], WithBlanks(labels[at], steps, classes, b, options_));
      if (skipped(b)) continue;
      const auto count = static_cast<int64_t>(places[at].size());
      const int64_t most =
          std::numeric_limits<int64_t>::max() / (2 * slabs * steps);
      if (count > most)
        return ResourceExhausted("labels: expected at most ", most,
                                 " with the blanks between them, got ", count,
                                 " in batch element ", b);
      int64_t& size = sizes[static_cast<size_t>(b % slabs)];
      size = std::max(size, 2 * steps * count);
    }
    const int64_t all = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
    SLUICE_ASSIGN_OR_RETURN(Tensor room,
                            ctx.AllocateTemp(DTypeOf<T>(), Shape({all})));
    SLUICE_ASSIGN_OR_RETURN(ctx.output(0),
                            Tensor::Zeros(DTypeOf<T>(), lengths.shape()));
    SLUICE_ASSIGN_OR_RETURN(ctx.output(1),
                            Tensor::Zeros(DTypeOf<T>(), inputs.shape()));
    const int64_t row = batch * classes;
    std::vector<T*> rooms{room.raw<T>()};
    for (int64_t size : sizes) rooms.push_back(rooms.back() + size);
    ParallelFor(slabs, 1, [&](int64_t begin, int64_t end) {
      for (int64_t slab = begin; slab < end; ++slab) {
        for (int64_t b = slab; b < batch; b += slabs) {
          if (skipped(b)) continue;
          const CtcAlignment<T> a(
              places[static_cast<size_t>(b)], inputs.raw<T>() + b * classes,
              row, lengths.raw<int32_t>()[b], classes, options_.merge_repeated,
              rooms[static_cast<size_t>(slab)]);
          const T log_p = a.LogProbability();
          ctx.output(0).template raw<T>()[b] = -log_p;
          a.Gradient(log_p, ctx.output(1).template raw<T>() + b * classes, row);
        }
      }
    });
    return OkStatus();
  }

 private:
  const CtcOptions options_;
};

Status CtcLossGrad(GradContext& c) {
  if (c.dy[0].node == nullptr) return OkStatus();
  const Output gradient =
      Build("PreventGradient", {Output(c.op, 1)},
            {{"message",
              "CTCLoss has no second derivative: its gradient is computed "
              "together with the loss"}});
  c.grads[0] = grad::Mul(grad::ExpandDims(c.dy[0], -1), gradient);
  return OkStatus();
}

SLUICE_OP(CTCLoss)
    .Input("inputs: T")
    .Input("labels_indices: int64")
    .Input("labels_values: int32")
    .Input("sequence_length: int32")
    .Output("loss: T")
    .Output("gradient: T")
    .Attr("preprocess_collapse_repeated: bool = false")
    .Attr("ctc_merge_repeated: bool = true")
    .Attr("ignore_longer_outputs_than_inputs: bool = false")
    .Attr("T: {float, double} = DT_FLOAT")
    .Family("nn")
    .Shape(CtcLossShape)
    .Kernel(CpuStateFor<CtcLoss, float, double>("T", /*expensive=*/true))
    .Grad(CtcLossGrad)
    .Sample({{.shape = {5, 2, 4}},
             {.shape = {5, 2}, .values = {0, 0, 0, 1, 1, 0, 1, 1, 1, 2}},
             {.shape = {5}, .values = {0, 1, 2, 2, 0}},
             {.shape = {2}, .values = {5, 4}}})
    .Doc(
        "The CTC loss: the negative log-probability of a label sequence, "
        "summed over all alignments in time, and its gradient.");

}  // namespace
}  // namespace sluice
