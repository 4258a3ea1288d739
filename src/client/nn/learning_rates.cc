#include "client/nn/learning_rates.h"

#include <numbers>

#include "client/operators.h"
#include "client/types_and_shapes.h"
#include "sluice/ops.h"

namespace sluice {
namespace {

// The arguments of a schedule in the type of its rate.
struct Progress {
  Progress(const Operand& initial, const Operand& now, const Operand& period)
      : rate(initial.Get(initial.weak ? DType::kFloat : DType::kInvalid)),
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
  Output Part() const { return ops::Minimum(step, steps) / steps; }

  Output rate;
  DType dtype;
  Output step, steps;
};

// (1 + cos(pi x)) / 2.
Output HalfCosine(const Output& x) {
  return 0.5 * (1.0 + ops::Cos(std::numbers::pi * x));
}

}  // namespace

Output ExponentialDecay(const Operand& rate, const Operand& step,
                        const Operand& steps, const Operand& decay,
                        const DecayOptions& options, SourceLoc loc) {
  const AtLine at(loc);
  const NameScope scope("ExponentialDecay");
  const Progress p(rate, step, steps);
  return p.rate * ops::Pow(p.Of(decay), p.Passed(options.staircase));
}

Output NaturalExpDecay(const Operand& rate, const Operand& step,
                       const Operand& steps, const Operand& decay,
                       const DecayOptions& options, SourceLoc loc) {
  const AtLine at(loc);
  const NameScope scope("NaturalExpDecay");
  const Progress p(rate, step, steps);
  return p.rate * ops::Exp(-p.Of(decay) * p.Passed(options.staircase));
}

Output InverseTimeDecay(const Operand& rate, const Operand& step,
                        const Operand& steps, const Operand& decay,
                        const DecayOptions& options, SourceLoc loc) {
  const AtLine at(loc);
  const NameScope scope("InverseTimeDecay");
  const Progress p(rate, step, steps);
  return p.rate / (1 + p.Of(decay) * p.Passed(options.staircase));
}

Output PolynomialDecay(const Operand& rate, const Operand& step,
                       const Operand& steps,
                       const PolynomialDecayOptions& options, SourceLoc loc) {
  const AtLine at(loc);
  const NameScope scope("PolynomialDecay");
  const Progress p(rate, step, steps);
  Output part;
  if (options.cycle) {
    // The first period has begun in step 0.
    const Output periods = ops::Maximum(ops::Ceil(p.step / p.steps), 1);
    part = p.step / (p.steps * periods);
  } else {
    part = p.Part();
  }
  const Output end = p.Of(options.end);
  return (p.rate - end) * ops::Pow(1 - part, p.Of(options.power)) + end;
}

Output CosineDecay(const Operand& rate, const Operand& step,
                   const Operand& steps, double alpha, SourceLoc loc) {
  const AtLine at(loc);
  const NameScope scope("CosineDecay");
  const Progress p(rate, step, steps);
  return p.rate * ((1 - alpha) * HalfCosine(p.Part()) + alpha);
}

Output CosineDecayRestarts(const Operand& rate, const Operand& step,
                           const Operand& steps,
                           const CosineRestartOptions& options, SourceLoc loc) {
  const AtLine at(loc);
  const NameScope scope("SGDRDecay");
  const Progress p(rate, step, steps);
  const Output passed = p.Passed();
  const double factor = options.period_factor;
  Output period, part;  // The number of the period, and how much is over.
  if (factor == 1) {
    period = ops::Floor(passed);
    part = passed - period;
  } else {
    const Output by = p.Of(factor);
    period = ops::Floor(ops::Log(1 - passed * (1 - by)) / ops::Log(by));
    const Output length = ops::Pow(by, period);
    part = (passed - (1 - length) / (1 - by)) / length;
  }
  const Output height = ops::Pow(p.Of(options.height_factor), period);
  return p.rate *
         ((1 - options.alpha) * (height * HalfCosine(part)) + options.alpha);
}

Output LinearCosineDecay(const Operand& rate, const Operand& step,
                         const Operand& steps,
                         const LinearCosineOptions& options, SourceLoc loc) {
  const AtLine at(loc);
  const NameScope scope("LinearCosineDecay");
  const Progress p(rate, step, steps);
  const Output part = p.Part();
  return p.rate * ((options.alpha + (1 - part)) *
                       HalfCosine(2 * options.periods * part) +
                   options.beta);
}

Output PiecewiseConstant(const Operand& step,
                         const std::vector<Operand>& boundaries,
                         const std::vector<Operand>& values, SourceLoc loc) {
  const AtLine at(loc);
  const NameScope scope("PiecewiseConstant");
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
    result = ops::SelectV2(x <= bound, value(values[i - 1]), result);
  }
  return result;
}

Output WarmUp(const Operand& rate, const Operand& step, const Operand& steps,
              double start, SourceLoc loc) {
  const AtLine at(loc);
  const NameScope scope("WarmUp");
  const Progress p(rate, step, steps);
  return p.rate * (start + (1 - start) * p.Part());
}

}  // namespace sluice
