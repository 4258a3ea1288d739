#include "client/nn/normalization.h"

#include <tuple>

#include "client/body_in_progress.h"
#include "client/control/control_flow.h"
#include "client/nn/layer_scope.h"
#include "client/nn/moving_averages.h"
#include "client/operators.h"
#include "client/types_and_shapes.h"
#include "graph/graph.h"
#include "sluice/ops.h"

namespace sluice {
namespace {

// Sums over a batch lose too much precision in 16 bits.
DType StatisticsType(DType t) {
  return t == DType::kHalf || t == DType::kBfloat16 ? DType::kFloat : t;
}

bool IsProbability(const char* layer, const char* what, double v) {
  if (v >= 0 && v <= 1) return true;
  BuildError(
      InvalidArgument(layer, ": expected a ", what, " in [0, 1], got ", v));
  return false;
}
bool IsEpsilon(const char* layer, double v) {
  if (v >= 0 && v < 1e30) return true;
  BuildError(InvalidArgument(
      layer, ": expected an epsilon that is finite and not negative, got ", v));
  return false;
}

struct Moments {
  Output mean, variance;
};

// Over some dimensions, which are kept with size 1.
Moments MomentsOf(const Output& x, const Output& axes) {
  Moments m;
  m.mean = ops::Mean(x, axes, {.keep_dims = true});
  m.variance = ops::Mean(ops::SquaredDifference(x, ops::StopGradient(m.mean)),
                         axes, {.keep_dims = true});
  return m;
}

// gamma (x - mean) / sqrt(variance + epsilon) + beta; gamma and beta may be
// null.
Output Normalized(const Output& x, const Moments& m, const Output& gamma,
                  const Output& beta, double epsilon) {
  Output by = ops::Rsqrt(m.variance + epsilon);
  if (gamma.valid()) by = by * gamma;
  Output plus = -m.mean * by;
  if (beta.valid()) plus = plus + beta;
  return x * by + plus;
}

// The variables of a batch normalisation.
struct BatchNormVariables {
  Var gamma, beta, mean, variance;  // The first two may be null.
  // Of renormalisation; null without.
  Var renorm_mean, renorm_mean_weight, renorm_stddev, renorm_stddev_weight;
};

// Moves the averages towards the moments, which are the averages themselves
// where a step does not train. (A decay of 1 would not do: moments that are not
// finite would make the averages so, too.) Returns y, or what has its value and
// moves the averages.
Output MoveAverages(const BatchNormVariables& v, const Moments& moments,
                    double momentum, const Output& y) {
  std::vector<Node*> updates;
  for (const auto& [average, value] :
       {std::pair(v.mean, moments.mean),
        std::pair(v.variance, moments.variance)}) {
    Node* const update =
        AssignMovingAverage(average, ops::StopGradient(value), momentum);
    if (update == nullptr) return CurrentGraph().Failure();
    updates.push_back(update);
  }
  if (CurrentBody() == nullptr && CurrentContext() == nullptr) {
    std::vector<Output>& all = CurrentGraph().collections()[kUpdateOps];
    all.insert(all.end(), updates.begin(), updates.end());
    return y;
  }
  // No step can run nodes of a function's body, a branch or a loop by
  // themselves.
  const ControlDependencies after(updates);
  return ops::Identity(y);
}

Output FusedBatchNorm(const Output& x, const BatchNormVariables& v,
                      const Training& training, const BatchNormOptions& o,
                      int axis) {
  const int64_t size = KnownDim(x, axis);
  const auto read = [&](const Var& var, double otherwise) {
    return var.valid() ? var.Read({}) : Filled({size}, otherwise);
  };
  const Output gamma = read(v.gamma, 1), beta = read(v.beta, 0);
  ops::FusedBatchNormV3Attrs attrs;
  attrs.epsilon = static_cast<float>(o.epsilon);
  attrs.data_format = axis == 1 ? "NCHW" : "NHWC";
  const auto run = [&](bool trains) {
    attrs.is_training = trains;
    const Output none = Constant(Tensor(DType::kFloat, {0}));
    if (trains) {
      const auto made =
          ops::FusedBatchNormV3(x, gamma, beta, none, none, attrs);
      return std::tuple{made.y, made.batch_mean, made.batch_variance};
    }
    const Output mean = v.mean.Read({}), variance = v.variance.Read({});
    return std::tuple{
        ops::FusedBatchNormV3(x, gamma, beta, mean, variance, attrs).y, mean,
        variance};
  };
  const auto [y, mean, variance] =
      training.known.has_value()
          ? run(*training.known)
          : Cond(
                training.decided, [&] { return run(true); },
                [&] { return run(false); });
  if (training.known == false) return y;
  return MoveAverages(v, {mean, variance}, o.momentum, y);
}

// `value` in steps that train, else `otherwise`. REQUIRES: the layer trains, or
// a step decides it.
Output InTraining(const Training& mode, const Output& value,
                  const Output& otherwise) {
  return mode.known.has_value() ? value
                                : ops::SelectV2(mode.decided, value, otherwise);
}

// An average of renormalisation, and its weight: how much of it is from batches
// rather than from its initial 0.
struct RenormAverage {
  Var average, weight;

  // Where the average lacks weight, the batch's value.
  Output Mixed(const Output& value) const {
    return average.Read({}) + (1 - weight.Read({})) * value;
  }
  // Moves both in training, and returns the average without its bias towards
  // the initial 0. Null after an error.
  Output Move(const Output& value, double momentum,
              const Training& mode) const {
    const Output before = weight.Read({});
    const std::vector<Node*> updates = {
        AssignMovingAverage(average, InTraining(mode, value, average.Read({})),
                            momentum),
        AssignMovingAverage(
            weight, InTraining(mode, ops::OnesLike(before), before), momentum)};
    if (updates[0] == nullptr || updates[1] == nullptr)
      return CurrentGraph().Failure();
    const ControlDependencies after(updates);
    return average.Read({}) / weight.Read({});
  }
};

// What renormalisation makes of a batch: the correction x r + d, and the
// moments that the moving averages follow.
struct Renormed {
  Output r, d;
  Moments follows;
};
// `moments`: vectors of features.
Renormed Renorm(const BatchNormVariables& v, const Moments& moments,
                const RenormOptions& o, double epsilon, const Training& mode) {
  const RenormAverage means = {v.renorm_mean, v.renorm_mean_weight};
  const RenormAverage deviations = {v.renorm_stddev, v.renorm_stddev_weight};
  const Output mean = ops::StopGradient(moments.mean);
  const Output deviation =
      ops::Sqrt(ops::StopGradient(moments.variance) + epsilon);
  const Output mixed = deviations.Mixed(deviation);
  Renormed out;
  out.r = deviation / mixed;
  out.d = (mean - means.Mixed(mean)) / mixed;
  {
    // They are computed of the averages before this batch.
    const ControlDependencies read({out.r.node, out.d.node});
    const Output moved = deviations.Move(deviation, o.momentum, mode);
    out.follows.mean =
        InTraining(mode, means.Move(mean, o.momentum, mode), v.mean.Read({}));
    out.follows.variance =
        InTraining(mode, ops::Square(moved) - epsilon, v.variance.Read({}));
  }
  if (o.min_r) out.r = ops::Maximum(out.r, *o.min_r);
  if (o.max_r) out.r = ops::Minimum(out.r, *o.max_r);
  if (o.max_d) out.d = ops::Maximum(ops::Minimum(out.d, *o.max_d), -*o.max_d);
  out.r = InTraining(mode, out.r, ops::OnesLike(out.r));
  out.d = InTraining(mode, out.d, ops::ZerosLike(out.d));
  return out;
}

bool CheckRenorm(const char* layer, const RenormOptions& o) {
  if (!IsProbability(layer, "momentum of renorm", o.momentum)) return false;
  for (const auto& [what, limit] :
       {std::pair("min_r", o.min_r), {"max_r", o.max_r}, {"max_d", o.max_d}})
    if (limit && !(*limit >= 0 && *limit < 1e30)) {
      BuildError(InvalidArgument(layer, ": expected a ", what,
                                 " of renorm that is finite and not negative, "
                                 "got ",
                                 *limit));
      return false;
    }
  if (!o.min_r || !o.max_r || *o.min_r <= *o.max_r) return true;
  BuildError(InvalidArgument(
      layer, ": expected limits of renorm with min_r <= max_r, got ", *o.min_r,
      " and ", *o.max_r));
  return false;
}

}  // namespace

Output BatchNorm(const Operand& input, const Operand& training,
                 const BatchNormOptions& o, SourceLoc loc) {
  const AtLine at(loc);
  const char* const layer = "BatchNorm";
  const Output x = LayerInput(layer, input, 2, kMaxRank);
  if (!x.valid()) return x;
  const int rank = x.shape().rank();
  if (o.axis < -rank || o.axis >= rank)
    return BuildError(InvalidArgument(layer, ": expected an axis from ", -rank,
                                      " to ", rank - 1, ", got ", o.axis));
  const int axis = o.axis < 0 ? o.axis + rank : o.axis;
  const int64_t size = KnownSize(layer, x, axis);
  const Training mode = ReadTraining(layer, training);
  if (size < 0 || !mode.valid || !IsEpsilon(layer, o.epsilon) ||
      !IsProbability(layer, "momentum", o.momentum) ||
      (o.renorm && !CheckRenorm(layer, *o.renorm)))
    return CurrentGraph().Failure();
  const LayerScope scope(o.name, "batch_normalization", loc);
  const DType t = RemoveRef(x.dtype()), s = StatisticsType(t);
  BatchNormVariables v;
  if (o.scale)
    v.gamma = Weight("gamma", {size}, s,
                     {o.gamma_initializer, o.gamma_regularizer, o.trainable,
                      o.gamma_constraint});
  if (o.center)
    v.beta = Weight("beta", {size}, s,
                    {o.beta_initializer, o.beta_regularizer, o.trainable,
                     o.beta_constraint});
  // (A regularizer of the scope is for what is trained.)
  const Regularizer none = [](Output) { return Output(); };
  v.mean = Weight("moving_mean", {size}, s, {init::Zeros(), none, false});
  v.variance =
      Weight("moving_variance", {size}, s, {init::Ones(), none, false});
  if ((o.scale && !v.gamma.valid()) || (o.center && !v.beta.valid()) ||
      !v.mean.valid() || !v.variance.valid())
    return CurrentGraph().Failure();
  if (o.renorm) {
    const auto average = [&](const char* name, const Shape& shape) {
      return Weight(name, shape, s, {init::Zeros(), none, false});
    };
    v.renorm_mean = average("renorm_mean", {size});
    v.renorm_mean_weight = average("renorm_mean_weight", {});
    v.renorm_stddev = average("renorm_stddev", {size});
    v.renorm_stddev_weight = average("renorm_stddev_weight", {});
    for (const Var& made : {v.renorm_mean, v.renorm_mean_weight,
                            v.renorm_stddev, v.renorm_stddev_weight})
      if (!made.valid()) return CurrentGraph().Failure();
  }
  if (rank == 4 && (axis == 1 || axis == 3) && s == DType::kFloat && !o.renorm)
    return FusedBatchNorm(x, v, mode, o, axis);

  const Output wide_x = InType(x, s);
  // A vector of features, or a null one, that broadcasts to x.
  std::vector<int64_t> wide_shape(static_cast<size_t>(rank), 1);
  wide_shape[static_cast<size_t>(axis)] = size;
  const auto wide = [&](const Output& features) {
    return axis == rank - 1 || !features.valid()
               ? features
               : ops::Reshape(features, Constant(Tensor::Vector(wide_shape)));
  };
  const auto read = [&](const Var& var) {
    return var.valid() ? wide(var.Read({})) : Output();
  };
  std::vector<int32_t> others;
  for (int i = 0; i < rank; ++i)
    if (i != axis) others.push_back(i);
  const auto result = [&](const Moments& used) {
    return InType(
        Normalized(wide_x, used, read(v.gamma), read(v.beta), o.epsilon), t);
  };
  if (mode.known == false) return result({read(v.mean), read(v.variance)});
  Moments used = MomentsOf(wide_x, IntVector(others));
  const Output vector = Constant(Tensor::Vector<int64_t>({size}));
  std::optional<Renormed> renormed;
  if (o.renorm)
    renormed = Renorm(
        v,
        {ops::Reshape(used.mean, vector), ops::Reshape(used.variance, vector)},
        *o.renorm, o.epsilon, mode);
  if (!mode.known.has_value()) {
    // (Moving averages that broadcast like the moments.)
    const Output kept = Constant(Tensor::Vector(wide_shape));
    used.mean = ops::SelectV2(mode.decided, used.mean,
                              ops::Reshape(v.mean.Read({}), kept));
    used.variance = ops::SelectV2(mode.decided, used.variance,
                                  ops::Reshape(v.variance.Read({}), kept));
  }
  if (renormed) {
    // gamma (x r + d) + beta.
    const Output gamma = read(v.gamma), beta = read(v.beta);
    Output by = wide(renormed->r), plus = wide(renormed->d);
    if (gamma.valid()) {
      by = by * gamma;
      plus = plus * gamma;
    }
    if (beta.valid()) plus = plus + beta;
    return MoveAverages(
        v, renormed->follows, o.momentum,
        InType(Normalized(wide_x, used, by, plus, o.epsilon), t));
  }
  return MoveAverages(
      v, {ops::Reshape(used.mean, vector), ops::Reshape(used.variance, vector)},
      o.momentum, result(used));
}

Output LayerNorm(const Operand& input, const LayerNormOptions& o,
                 SourceLoc loc) {
  const AtLine at(loc);
  const char* const layer = "LayerNorm";
  const Output x = LayerInput(layer, input, 1, kMaxRank);
  if (!x.valid()) return x;
  const int rank = x.shape().rank();
  if (o.first_axis < -rank || o.first_axis >= rank)
    return BuildError(InvalidArgument(layer, ": expected a first axis from ",
                                      -rank, " to ", rank - 1, ", got ",
                                      o.first_axis));
  if (!IsEpsilon(layer, o.epsilon)) return CurrentGraph().Failure();
  std::vector<int64_t> sizes;
  std::vector<int32_t> axes;
  for (int i = (o.first_axis + rank) % rank; i < rank; ++i) {
    sizes.push_back(KnownSize(layer, x, i));
    if (sizes.back() < 0) return CurrentGraph().Failure();
    axes.push_back(i);
  }
  const LayerScope scope(o.name, "layer_normalization", loc);
  const DType t = RemoveRef(x.dtype()), s = StatisticsType(t);
  Var gamma, beta;
  if (o.scale)
    gamma = Weight("gamma", Shape(sizes), s,
                   {o.gamma_initializer, o.gamma_regularizer, o.trainable});
  if (o.center)
    beta = Weight("beta", Shape(sizes), s,
                  {o.beta_initializer, o.beta_regularizer, o.trainable});
  if ((o.scale && !gamma.valid()) || (o.center && !beta.valid()))
    return CurrentGraph().Failure();
  const auto read = [](const Var& v) {
    return v.valid() ? v.Read({}) : Output();
  };
  const Output wide_x = InType(x, s);
  if (!o.fused || s == DType::kDouble)
    return InType(Normalized(wide_x, MomentsOf(wide_x, IntVector(axes)),
                             read(gamma), read(beta), o.epsilon),
                  t);
  // (The op requires gamma and beta.)
  const auto full = [&](const Output& v, double otherwise) {
    return v.valid() ? v
                     : ops::Fill(Constant(Tensor::Vector<int64_t>(sizes)),
                                 ScalarOf(s, otherwise));
  };
  return InType(
      ops::LayerNorm(wide_x, full(read(gamma), 1), full(read(beta), 0),
                     {.dims = static_cast<int64_t>(sizes.size()),
                      .epsilon = static_cast<float>(o.epsilon)})
          .y,
      t);
}

}  // namespace sluice
