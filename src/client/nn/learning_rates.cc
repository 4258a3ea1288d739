#include "client/nn/learning_rates.h"

#include <numbers>

#include "client/control/control_flow.h"
#include "client/operators.h"
#include "client/tensorflow_names.h"
#include "client/types_and_shapes.h"
#include "sluice/ops.h"

namespace sluice {
namespace {

// A schedule while it is built: its scope, and its arguments in the type of its
// rate. Nodes are built in TensorFlow's order, which decides their names.
struct Schedule {
  Schedule(const std::string& name, const char* usual, const Operand& initial,
           const Operand& now, const Operand& period, SourceLoc loc)
      : at(loc),
        scope(name.empty() ? usual : name),
        rate(initial.Get(initial.weak ? DType::kFloat : DType::kInvalid)),
        dtype(rate.valid() ? RemoveRef(rate.dtype()) : DType::kFloat),
        step(Of(now)),
        steps(Of(period)) {}

  Output Of(const Operand& x) const { return InType(x, dtype); }
  // The number of periods.
  Output Passed(bool whole = false) const {
    const Output p = step / steps;
    return whole ? ops::Floor(p) : p;
  }
  // The part of the only period.
  Output Part() const {
    const Output until = ops::Minimum(step, steps);
    return until / steps;
  }
  // a op b, which has the name of the scope.
  Output Whole(const char* op, const Output& a, const Output& b) const {
    return Build(op, {a, b}, {}, scope.prefix() + "/");
  }

  const AtLine at;
  const NameScope scope;
  const TensorFlowNames names;
  const Output rate;
  const DType dtype;
  const Output step, steps;
};

const double* NumberOf(const Operand& x) {
  return !x.output.valid() && x.weak && x.literal.valid() &&
                 x.literal.rank() == 0 && x.literal.dtype() == DType::kDouble
             ? &x.literal.scalar<double>()
             : nullptr;
}

// Of a number as doubles, as Python computes before TensorFlow sees it.
Operand OneMinus(const Operand& x) {
  if (const double* const v = NumberOf(x)) return 1 - *v;
  return 1.0 - x;
}

// (1 + cos(pi x)) / 2.
Output HalfCosine(const Output& x) {
  return 0.5 * (1.0 + ops::Cos(std::numbers::pi * x));
}

}  // namespace

Output ExponentialDecay(const Operand& rate, const Operand& step,
                        const Operand& steps, const Operand& decay,
                        const DecayOptions& options, SourceLoc loc) {
  const Schedule s(options.name, "ExponentialDecay", rate, step, steps, loc);
  const Output base = s.Of(decay);
  return s.Whole("Mul", s.rate, ops::Pow(base, s.Passed(options.staircase)));
}

Output NaturalExpDecay(const Operand& rate, const Operand& step,
                       const Operand& steps, const Operand& decay,
                       const DecayOptions& options, SourceLoc loc) {
  const Schedule s(options.name, "NaturalExpDecay", rate, step, steps, loc);
  const Output falling = -s.Of(decay);
  return s.Whole("Mul", s.rate,
                 ops::Exp(falling * s.Passed(options.staircase)));
}

Output InverseTimeDecay(const Operand& rate, const Operand& step,
                        const Operand& steps, const Operand& decay,
                        const DecayOptions& options, SourceLoc loc) {
  const Schedule s(options.name, "InverseTimeDecay", rate, step, steps, loc);
  const Output per_period = s.Of(decay);
  return s.Whole("RealDiv", s.rate,
                 1.0 + per_period * s.Passed(options.staircase));
}

Output PolynomialDecay(const Operand& rate, const Operand& step,
                       const Operand& steps,
                       const PolynomialDecayOptions& options, SourceLoc loc) {
  const Schedule s(options.name, "PolynomialDecay", rate, step, steps, loc);
  const Output end = s.Of(options.end);
  Output part;
  if (options.cycle) {
    // The first period has begun in step 0.
    const Output periods = ops::Maximum(ops::Ceil(s.Passed()), 1);
    part = s.step / (s.steps * periods);
  } else {
    part = s.Part();
  }
  const Output left = 1.0 - part;
  const Output factor = ops::Pow(left, s.Of(options.power));
  return s.Whole("AddV2", (s.rate - end) * factor, end);
}

Output CosineDecay(const Operand& rate, const Operand& step,
                   const Operand& steps, const CosineDecayOptions& options,
                   SourceLoc loc) {
  const Schedule s(options.name, "CosineDecay", rate, step, steps, loc);
  const Output falling = HalfCosine(s.Part());
  return s.rate * (OneMinus(options.alpha) * falling + options.alpha);
}

Output CosineDecayRestarts(const Operand& rate, const Operand& step,
                           const Operand& steps,
                           const CosineRestartOptions& options, SourceLoc loc) {
  const Schedule s(options.name, "SGDRDecay", rate, step, steps, loc);
  const Output by = s.Of(options.period_factor),
               higher = s.Of(options.height_factor), passed = s.Passed();
  // The number of the period, and how much of it is over.
  using Where = std::vector<Output>;
  const auto equal = [&]() -> Where {
    const Output period = ops::Floor(passed);
    return {period, passed - period};
  };
  const auto growing = [&]() -> Where {
    const Output shrink = 1.0 - by;
    const Output period =
        ops::Floor(ops::Log(1.0 - passed * shrink) / ops::Log(by));
    const Output length = ops::Pow(by, period);
    return {period, (passed - (1.0 - length) / shrink) / length};
  };
  const double* const known = NumberOf(options.period_factor);
  const Where where = known == nullptr ? Cond(by == 1.0, equal, growing)
                      : *known == 1    ? equal()
                                       : growing();
  const Output height = ops::Pow(higher, where[0]);
  const Output falling = HalfCosine(where[1]);
  const Output part = OneMinus(options.alpha) * height * falling;
  return s.Whole("Mul", s.rate, part + options.alpha);
}

Output LinearCosineDecay(const Operand& rate, const Operand& step,
                         const Operand& steps,
                         const LinearCosineOptions& options, SourceLoc loc) {
  const Schedule s(
      options.name,
      options.noisy ? "NoisyLinearCosineDecay" : "LinearCosineDecay", rate,
      step, steps, loc);
  const Output until = ops::Minimum(s.step, s.steps);
  const Output part = until / s.steps;
  Output linear;
  if (const double* const alpha = NumberOf(options.alpha))
    linear = (*alpha + 1) - part;
  else
    linear = (options.alpha + 1.0) - part;
  if (options.noisy) {
    const Output since = 1.0 + until;
    const Output spread =
        ops::Sqrt(s.Of(options.initial_variance) /
                  ops::Pow(since, s.Of(options.variance_decay)));
    const Output sample =
        options.sample ? options.sample(s.dtype)
                       : ops::RandomStandardNormal(
                             Constant(Tensor::Vector<int32_t>({})), s.dtype);
    linear = linear + sample * spread;
  }
  const double* const periods = NumberOf(options.periods);
  const Output angle =
      periods != nullptr ? (2 * *periods) * part : 2.0 * options.periods * part;
  const Output wave = HalfCosine(angle);
  return s.Whole("Mul", s.rate, linear * wave + options.beta);
}

Output PiecewiseConstant(const Operand& step,
                         const std::vector<Operand>& boundaries,
                         const std::vector<Operand>& values,
                         const std::string& name, SourceLoc loc) {
  const AtLine at(loc);
  const NameScope scope(name.empty() ? "PiecewiseConstant" : name);
  if (values.size() != boundaries.size() + 1)
    return BuildError(
        InvalidArgument("PiecewiseConstant: expected one value more than "
                        "boundaries, got ",
                        values.size(), " and ", boundaries.size()),
        loc);
  const Output x = step.Get();
  const DType x_type = x.valid() ? RemoveRef(x.dtype()) : DType::kInvalid;
  const auto value = [](const Operand& v) {
    return v.Get(v.weak ? DType::kFloat : DType::kInvalid);
  };
  Output result = value(values.back());
  for (size_t i = boundaries.size(); i > 0; --i) {
    Output bound = boundaries[i - 1].Get(x_type);
    if (bound.valid() && RemoveRef(bound.dtype()) != x_type &&
        x_type != DType::kInvalid)
      bound = ops::Cast(bound, x_type);
    const Output below = x <= bound, here = value(values[i - 1]);
    result = x.valid() && x.shape().rank() == 0
                 ? ops::Select(below, here, result)
                 : ops::SelectV2(below, here, result);
  }
  return result;
}

Output WarmUp(const Operand& rate, const Operand& step, const Operand& steps,
              double start, SourceLoc loc) {
  const Schedule s({}, "WarmUp", rate, step, steps, loc);
  return s.rate * (start + (1 - start) * s.Part());
}

}  // namespace sluice
