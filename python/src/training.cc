// Training: schedules of learning rates and clipping, which the library builds.
#include <functional>

#include "client/nn/clip_gradients.h"
#include "client/nn/learning_rates.h"
#include "flow.h"
#include "library_calls.h"

namespace sluice::python {
namespace {

// ---- Learning rates ---------------------------------------------------------

// `scope` is the name of one that was entered, "ExponentialDecay/".
template <auto kDecay>
Output Decay(const std::string& scope, const py::object& rate,
             const py::object& step, const py::object& steps,
             const py::object& decay, bool staircase) {
  return Made({rate, step, steps, decay}, [&](const auto& in, SourceLoc loc) {
    return kDecay(in(rate), in(step), in(steps), in(decay),
                  {.staircase = staircase, .name = scope}, loc);
  });
}

Output Polynomial(const std::string& scope, const py::object& rate,
                  const py::object& step, const py::object& steps,
                  const py::object& end, const py::object& power, bool cycle) {
  return Made(
      {rate, step, steps, end, power}, [&](const auto& in, SourceLoc loc) {
        return PolynomialDecay(
            in(rate), in(step), in(steps),
            {.end = in(end), .power = in(power), .cycle = cycle, .name = scope},
            loc);
      });
}

Output Cosine(const std::string& scope, const py::object& rate,
              const py::object& step, const py::object& steps,
              const py::object& alpha) {
  return Made({rate, step, steps, alpha}, [&](const auto& in, SourceLoc loc) {
    return CosineDecay(in(rate), in(step), in(steps),
                       {.alpha = in(alpha), .name = scope}, loc);
  });
}

Output CosineRestarts(const std::string& scope, const py::object& rate,
                      const py::object& step, const py::object& steps,
                      const py::object& period_factor,
                      const py::object& height_factor,
                      const py::object& alpha) {
  return Made({rate, step, steps, period_factor, height_factor, alpha},
              [&](const auto& in, SourceLoc loc) {
                return CosineDecayRestarts(in(rate), in(step), in(steps),
                                           {.period_factor = in(period_factor),
                                            .height_factor = in(height_factor),
                                            .alpha = in(alpha),
                                            .name = scope},
                                           loc);
              });
}

// `sample` is a function of a DType, or None where there is no noise.
Output LinearCosine(const std::string& scope, const py::object& rate,
                    const py::object& step, const py::object& steps,
                    const py::object& periods, const py::object& alpha,
                    const py::object& beta, const py::object& initial_variance,
                    const py::object& variance_decay,
                    const py::object& sample) {
  return Made({rate, step, steps, periods, alpha, beta, initial_variance,
               variance_decay},
              [&](const auto& in, SourceLoc loc) {
                LinearCosineOptions options;
                options.periods = in(periods);
                options.alpha = in(alpha);
                options.beta = in(beta);
                options.noisy = !sample.is_none();
                options.initial_variance = in(initial_variance);
                options.variance_decay = in(variance_decay);
                options.sample = [&sample](DType t) {
                  return FromLibrary(
                      [&] { return py::cast<Output>(sample(FromDType(t))); });
                };
                options.name = scope;
                return LinearCosineDecay(in(rate), in(step), in(steps), options,
                                         loc);
              });
}

Output Piecewise(const std::string& scope, const py::object& x,
                 const py::list& boundaries, const py::list& values) {
  return Made({x, boundaries, values}, [&](const auto& in, SourceLoc loc) {
    const auto all = [&in](const py::list& list) {
      std::vector<Operand> operands;
      for (const py::handle o : list) operands.push_back(in(o));
      return operands;
    };
    return PiecewiseConstant(in(x), all(boundaries), all(values), scope, loc);
  });
}

// ---- Clipping ---------------------------------------------------------------

// A gradient, and limits of its type. (They are made in the scope that was
// entered, where `name` is what TensorFlow calls them.)
struct Clipped {
  explicit Clipped(py::handle t)
      : gradient(ToGradient(TargetGraph(), t)),
        values(gradient.is_sparse() ? gradient.values : gradient.dense) {}
  Operand Limit(const py::object& o, const char* name) const {
    const SourceLoc loc = UserLine();
    return Operand(ToOutput(TargetGraph(), o, values.dtype(), false, name, loc),
                   loc.file, loc.line);
  }
  const Gradient gradient;
  const Output values;
};

py::object ByValue(const std::string& scope, const py::object& t,
                   const py::object& low, const py::object& high) {
  return Made({t, low, high}, [&](const auto&, SourceLoc loc) {
    const Clipped x(t);
    const Operand to = x.Limit(high, "Minimum/y"), from = x.Limit(low, "y");
    return FromGradient(ClipByValue(x.gradient, from, to, scope, loc));
  });
}

py::object ByNorm(const std::string& scope, const py::object& t,
                  const py::object& limit, const py::object& axes) {
  return Made({t, limit, axes}, [&](const auto&, SourceLoc loc) {
    const Clipped x(t);
    const Operand clip = x.Limit(limit, "clip_norm");
    const Output along = axes.is_none()
                             ? Output()
                             : ToOutput(TargetGraph(), axes, DType::kInvalid,
                                        false, "Sum/reduction_indices", loc);
    return FromGradient(ClipByNorm(x.gradient, clip, along, scope, loc));
  });
}

py::object ByAverageNorm(const std::string& scope, const py::object& t,
                         const py::object& limit) {
  return Made({t, limit}, [&](const auto&, SourceLoc loc) {
    const Clipped x(t);
    return FromGradient(
        ClipByAverageNorm(x.gradient, x.Limit(limit, "clip_norm"), scope, loc));
  });
}

std::vector<Gradient> ToGradients(const py::list& tensors) {
  std::vector<Gradient> grads;
  for (const py::handle t : tensors)
    grads.push_back(ToGradient(TargetGraph(), t));
  return grads;
}

Output NormOfAll(const std::string& scope, const py::list& tensors) {
  return Made({tensors}, [&](const auto&, SourceLoc loc) {
    return GlobalNorm(ToGradients(tensors), scope, loc);
  });
}

py::list ByGlobalNorm(const std::string& scope, const py::list& tensors,
                      const py::object& limit, const py::object& norm) {
  return Made({tensors, limit, norm}, [&](const auto&, SourceLoc loc) {
    const Clipped by(norm);
    return FromGradients(ClipByGlobalNorm(ToGradients(tensors),
                                          by.Limit(limit, "clip_norm"),
                                          by.values, scope, loc));
  });
}

}  // namespace

void AddTraining(py::module_& m) {
  m.def("exponential_decay", Decay<ExponentialDecay>);
  m.def("natural_exp_decay", Decay<NaturalExpDecay>);
  m.def("inverse_time_decay", Decay<InverseTimeDecay>);
  m.def("polynomial_decay", Polynomial);
  m.def("cosine_decay", Cosine);
  m.def("cosine_decay_restarts", CosineRestarts);
  m.def("linear_cosine_decay", LinearCosine);
  m.def("piecewise_constant", Piecewise);
  m.def("clip_by_value", ByValue);
  m.def("clip_by_norm", ByNorm);
  m.def("clip_by_average_norm", ByAverageNorm);
  m.def("global_norm", NormOfAll);
  m.def("clip_by_global_norm", ByGlobalNorm);
}

}  // namespace sluice::python
