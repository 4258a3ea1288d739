// Optimizers whose state is a moving average or a sum, for dense gradients and
// for gradients of some rows.
#include "ops/training/kernel.h"

namespace sluice::training {
namespace {

[[maybe_unused]] const bool declared = Declare({
    {"ApplyGradientDescent", "var", "alpha delta", "",
     ComplexTraining<GradientDescent>(), "var -= alpha * delta."},
    {"ApplyMomentum", "var accum", "lr grad momentum", "use_nesterov",
     ComplexTraining<Momentum>(),
     "accum = accum * momentum + grad; var -= lr * accum, or one step ahead of "
     "it with use_nesterov."},
    {"SparseApplyMomentum", "var accum", "lr grad indices momentum",
     "use_nesterov", ComplexTraining<Momentum>(),
     "ApplyMomentum on the rows selected by indices."},
    {"ApplyAdagrad", "var accum", "lr grad", "update_slots",
     ComplexTraining<Adagrad>(),
     "accum += grad^2; var -= lr * grad / sqrt(accum)."},
    {"SparseApplyAdagrad", "var accum", "lr grad indices", "update_slots",
     ComplexTraining<Adagrad>(),
     "ApplyAdagrad on the rows selected by indices."},
    {"ApplyAdagradV2", "var accum", "lr epsilon grad", "update_slots",
     ComplexTraining<AdagradV2>(),
     "accum += grad^2; var -= lr * grad / (sqrt(accum) + epsilon)."},
    {"SparseApplyAdagradV2", "var accum", "lr epsilon grad indices",
     "update_slots", ComplexTraining<AdagradV2>(),
     "ApplyAdagradV2 on the rows selected by indices."},
    {"ApplyRMSProp", "var ms mom", "lr rho momentum epsilon grad", "",
     ComplexTraining<RmsProp>(),
     "ms = rho * ms + (1 - rho) * grad^2; mom = momentum * mom + lr * grad / "
     "sqrt(ms + epsilon); var -= mom."},
    {"SparseApplyRMSProp", "var ms mom", "lr rho momentum epsilon grad indices",
     "", ComplexTraining<RmsProp>(),
     "ApplyRMSProp on the rows selected by indices."},
    {"ApplyAdam", "var m v",
     "beta1_power beta2_power lr beta1 beta2 epsilon grad", "use_nesterov",
     ComplexTraining<Adam>(),
     "m = beta1 * m + (1 - beta1) * grad; v = beta2 * v + (1 - beta2) * "
     "grad^2; var -= lr * sqrt(1 - beta2_power) / (1 - beta1_power) * m / "
     "(sqrt(v) + epsilon), with beta1 * m + (1 - beta1) * grad in place of m "
     "if use_nesterov."},
});

}  // namespace
}  // namespace sluice::training
