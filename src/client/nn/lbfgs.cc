#include "client/nn/lbfgs.h"

#include <algorithm>
#include <array>
#include <limits>
#include <mutex>

#include "client/autodiff/gradients.h"
#include "client/control/control_flow.h"
#include "client/operators.h"
#include "graph/graph.h"
#include "sluice/ops.h"

namespace sluice {
namespace {

using LossOf = std::function<Output(const std::vector<Output>&)>;

constexpr double kEnoughDecrease = 1e-4, kEnoughCurvature = 0.9;

Output Dot(const Output& a, const Output& b) { return ops::Sum(a * b, 0); }
Output Largest(const Output& x) { return ops::Max(ops::Abs(x), 0); }

// The variables as one vector.
class Flat {
 public:
  explicit Flat(const std::vector<Var>& vars) {
    for (const Var& v : vars) {
      const Result<Shape> shape = v.shape().ToShape();
      shapes_.push_back(shape.ok() ? *shape : Shape());
      size_ += shapes_.back().num_elements();
    }
  }
  int64_t size() const { return size_; }

  static Output Join(const std::vector<Output>& values) {
    std::vector<Output> parts;
    for (const Output& v : values) parts.push_back(ops::Reshape(v, {-1}));
    return parts.size() == 1 ? parts[0] : ops::ConcatV2(parts, 0);
  }
  std::vector<Output> Split(const Output& x) const {
    std::vector<int64_t> sizes;
    for (const Shape& s : shapes_) sizes.push_back(s.num_elements());
    std::vector<Output> parts = {x};
    if (sizes.size() > 1)
      parts = ops::SplitV(x, Constant(Tensor::Vector<int64_t>(sizes)), 0,
                          static_cast<int64_t>(sizes.size()));
    for (size_t i = 0; i < parts.size(); ++i) {
      const auto dims = shapes_[i].dims();
      parts[i] = ops::Reshape(
          parts[i], Constant(Tensor::Vector<int64_t>(
                        std::vector<int64_t>(dims.begin(), dims.end()))));
    }
    return parts;
  }
  // The loss at x, and its gradient.
  std::pair<Output, Output> Evaluate(const LossOf& loss,
                                     const Output& x) const {
    // (Splitting a node of its own, so that x has no other gradient.)
    const Output at = ops::Identity(x);
    const Output f = loss(Split(at));
    GradientOptions how;
    how.unconnected = Unconnected::kZero;
    return {f, Grad(f, at, how)};
  }

 private:
  std::vector<Shape> shapes_;
  int64_t size_ = 0;
};

// The last pairs of steps and changes of the gradient, oldest first: matrices
// [history, size], and the inverses of their products, zero where there is none
// yet.
struct History {
  Output steps, changes, inverses;
  Output scale;  // s.y / y.y of the newest: the scale of the inverse Hessian.

  // -H g.
  Output Direction(const Output& g, int count) const {
    const std::vector<Output> s = ops::Unpack(steps, count),
                              y = ops::Unpack(changes, count),
                              rho = ops::Unpack(inverses, count);
    std::vector<Output> a(s.size());
    Output q = g;
    for (size_t i = s.size(); i-- > 0;) {
      a[i] = rho[i] * Dot(s[i], q);
      q = q - a[i] * y[i];
    }
    q = scale * q;
    for (size_t i = 0; i < s.size(); ++i)
      q = q + s[i] * (a[i] - rho[i] * Dot(y[i], q));
    return -q;
  }
  // Without the oldest and with a new pair, if its curvature is positive.
  History With(const Output& step, const Output& change) const {
    const Output sy = Dot(step, change), yy = Dot(change, change);
    const Output fits = sy > 1e-10 * yy;
    const auto pushed = [&](const Output& all, const Output& one) {
      const Output rest =
          ops::StridedSlice(all, {1}, {0}, {1}, {.end_mask = 1});
      return ops::SelectV2(
          fits, ops::ConcatV2({rest, ops::ExpandDims(one, 0)}, 0), all);
    };
    return {pushed(steps, step), pushed(changes, change),
            pushed(inverses, 1 / sy), ops::SelectV2(fits, sy / yy, scale)};
  }
};

struct Found {
  Output evaluations, t, f, g;
  Output last_f;  // After the last step that was tried.
};

// The step t along d after which the loss has fallen enough and is less steep;
// if there is none within the allowed evaluations, the one after which the loss
// is lowest, or 0 if it is never lower.
Found Search(const Flat& flat, const LossOf& loss, const Output& x,
             const Output& f, const Output& g, const Output& d,
             const Output& start, int max_search, SourceLoc loc) {
  const DType t_type = RemoveRef(f.dtype());
  const double infinite = std::numeric_limits<double>::infinity();
  const Output slope = Dot(g, d);
  WhileOptions how;
  how.parallel_iterations = 1;
  how.back_prop = false;
  how.name = "line_search";
  enum Part : size_t { kN, kNext, kLow, kHigh, kT, kF, kG, kLastF, kOk };
  using State = std::vector<Output>;
  const std::vector<Operand> begin = {Constant(int32_t{0}),
                                      start,
                                      ScalarOf(t_type, 0),
                                      ScalarOf(t_type, infinite),
                                      ScalarOf(t_type, 0),
                                      f,
                                      g,
                                      f,
                                      Constant(Tensor::Scalar(false))};
  const State end = While(
      begin, [&](const State& s) { return s[kN] < max_search && !s[kOk]; },
      [&](const State& s) {
        const Output& t = s[kNext];
        const auto [ft, gt] = flat.Evaluate(loss, x + t * d);
        // (Both are false for a NaN, which shortens the step.)
        const Output fell = ft <= f + kEnoughDecrease * t * slope;
        const Output flatter = Dot(gt, d) >= kEnoughCurvature * slope;
        const Output ok = fell && flatter;
        const Output take = ok || ft < s[kF];
        State next(s.size());
        next[kN] = s[kN] + 1;
        next[kHigh] = ops::SelectV2(fell, s[kHigh], t);
        next[kLow] = ops::SelectV2(fell, t, s[kLow]);
        next[kNext] =
            ops::SelectV2(ops::IsFinite(next[kHigh]),
                          0.5 * (next[kLow] + next[kHigh]), 2 * next[kLow]);
        next[kT] = ops::SelectV2(take, t, s[kT]);
        next[kF] = ops::SelectV2(take, ft, s[kF]);
        next[kG] = ops::SelectV2(take, gt, s[kG]);
        next[kLastF] = ft;
        next[kOk] = ok;
        return next;
      },
      how, loc);
  return {end[kN], end[kT], end[kF], end[kG], end[kLastF]};
}

Status CheckVariables(const std::vector<Var>& variables, const LossOf& loss,
                      const LbfgsOptions& options) {
  if (variables.empty())
    return InvalidArgument("L-BFGS: expected variables, got none");
  if (!loss)
    return InvalidArgument("L-BFGS: expected a function, got an empty one");
  const auto positive = [](const char* what, int v) {
    return v > 0 && v <= 100000 ? OkStatus()
                                : InvalidArgument("L-BFGS: expected ", what,
                                                  " in [1, 100000], got ", v);
  };
  SLUICE_RETURN_IF_ERROR(positive("max_iterations", options.max_iterations));
  SLUICE_RETURN_IF_ERROR(positive("history", options.history));
  SLUICE_RETURN_IF_ERROR(positive("max_search", options.max_search));
  for (const Var& v : variables) {
    if (!v.valid())
      return InvalidArgument("L-BFGS: expected a variable, got none");
    if (v.dtype() != DType::kFloat && v.dtype() != DType::kDouble)
      return InvalidArgument("L-BFGS: expected float or double, got ",
                             DTypeName(v.dtype()), "; variable '", v.name(),
                             "'");
    if (v.dtype() != variables[0].dtype())
      return InvalidArgument("L-BFGS: expected variables of one type, ",
                             DTypeName(variables[0].dtype()), ", got ",
                             DTypeName(v.dtype()), "; variable '", v.name(),
                             "'");
    if (!v.shape().fully_known())
      return InvalidArgument("L-BFGS: expected a known shape, got ",
                             v.shape().ToString(), "; variable '", v.name(),
                             "'");
  }
  return OkStatus();
}

}  // namespace

LbfgsResult Lbfgs(const std::vector<Var>& variables, const LossOf& loss,
                  const LbfgsOptions& options, SourceLoc loc) {
  Graph& graph = CurrentGraph();
  std::lock_guard<std::recursive_mutex> lock(graph.mutex());
  const AtLine at(loc);
  const Status checked = CheckVariables(variables, loss, options);
  if (!checked.ok()) {
    BuildError(checked, loc);
    return {};
  }
  const NameScope scope(options.name);
  const Flat flat(variables);
  const DType type = variables[0].dtype();
  std::vector<Output> values;
  for (const Var& v : variables) values.push_back(v.Read(loc));
  const Output x0 = Flat::Join(values);
  const auto [f0, g0] = flat.Evaluate(loss, x0);
  if (!f0.valid() || RemoveRef(f0.dtype()) != type ||
      (f0.shape().rank_known() && f0.shape().rank() != 0)) {
    if (f0.valid())
      BuildError(InvalidArgument("L-BFGS: expected a scalar loss of type ",
                                 DTypeName(type), ", got ",
                                 DTypeName(RemoveRef(f0.dtype())), " ",
                                 f0.shape().ToString()),
                 loc);
    return {};
  }
  const Output all = Constant(
      Tensor::Vector<int64_t>({int64_t{options.history}, flat.size()}));
  const Output zero = ScalarOf(type, 0, loc), one = ScalarOf(type, 1, loc);
  WhileOptions how;
  how.parallel_iterations = 1;
  how.back_prop = false;
  how.name = "iterations";
  using State = std::vector<Output>;
  enum Part : size_t {
    kIterations,
    kEvaluations,
    kX,
    kF,
    kG,
    kSteps,
    kChanges,
    kInverses,
    kScale,
    kConverged,
    kEnded,
  };
  const Output at_minimum = Largest(g0) <= options.gradient_tolerance;
  const std::vector<Operand> start = {Constant(int32_t{0}),
                                      Constant(int32_t{1}),
                                      x0,
                                      f0,
                                      g0,
                                      ops::Fill(all, zero),
                                      ops::Fill(all, zero),
                                      ops::Fill({options.history}, zero),
                                      one,
                                      at_minimum,
                                      at_minimum};
  const State end = While(
      start,
      [&](const State& s) {
        return s[kIterations] < options.max_iterations && !s[kEnded];
      },
      [&](const State& s) {
        const History history = {s[kSteps], s[kChanges], s[kInverses],
                                 s[kScale]};
        const Output d = history.Direction(s[kG], options.history);
        // Before anything is known of the curvature, a step of length 1 at
        // most.
        const Output first =
            ops::Minimum(1 / ops::Sum(ops::Abs(s[kG]), 0), one);
        const Output t0 = ops::SelectV2(s[kIterations] < 1, first, one);
        const Found found = Search(flat, loss, s[kX], s[kF], s[kG], d, t0,
                                   options.max_search, loc);
        const Output lower = found.f < s[kF];
        const Output step = found.t * d;
        const History longer = history.With(step, found.g - s[kG]);
        const Output now = ops::SelectV2(lower, found.f, found.last_f);
        const Output fell = s[kF] - now;
        const Output size =
            ops::Maximum(ops::Maximum(ops::Abs(s[kF]), ops::Abs(now)), one);
        const Output converged =
            (lower && Largest(found.g) <= options.gradient_tolerance) ||
            ops::Abs(fell) <= options.loss_tolerance * size;
        const auto if_lower = [&](const Output& now, Part before) {
          return ops::SelectV2(lower, now, s[before]);
        };
        State next(s.size());
        next[kIterations] = s[kIterations] + 1;
        next[kEvaluations] = s[kEvaluations] + found.evaluations;
        next[kX] = if_lower(s[kX] + step, kX);
        next[kF] = if_lower(found.f, kF);
        next[kG] = if_lower(found.g, kG);
        next[kSteps] = if_lower(longer.steps, kSteps);
        next[kChanges] = if_lower(longer.changes, kChanges);
        next[kInverses] = if_lower(longer.inverses, kInverses);
        next[kScale] = if_lower(longer.scale, kScale);
        next[kConverged] = converged;
        next[kEnded] = converged || !lower;
        return next;
      },
      how, loc);
  const std::vector<Output> minimum = flat.Split(end[kX]);
  std::vector<Node*> assigned;
  for (size_t i = 0; i < variables.size(); ++i) {
    assigned.push_back(variables[i].Assign(minimum[i], loc));
    if (assigned.back() == nullptr) return {};
  }
  LbfgsResult result;
  result.train = Group(assigned, "train", loc);
  result.loss = end[kF];
  result.iterations = end[kIterations];
  result.evaluations = end[kEvaluations];
  result.converged = end[kConverged];
  return result;
}

}  // namespace sluice
