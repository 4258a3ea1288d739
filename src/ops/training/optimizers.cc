// The update ops of all optimizers, for dense gradients and for gradients of
// some rows.
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
    {"ApplyAdamWithAmsgrad", "var m v vhat",
     "beta1_power beta2_power lr beta1 beta2 epsilon grad", "",
     RealTraining<AmsGrad>(),
     "ApplyAdam with the largest v so far, vhat = max(vhat, v), in place of v.",
     /*resource_only=*/true},
    {"ApplyAdadelta", "var accum accum_update", "lr rho epsilon grad", "",
     ComplexTraining<Adadelta>(),
     "accum = rho * accum + (1 - rho) * grad^2; update = sqrt(accum_update + "
     "epsilon) / sqrt(accum + epsilon) * grad; var -= lr * update; "
     "accum_update = rho * accum_update + (1 - rho) * update^2."},
    {"SparseApplyAdadelta", "var accum accum_update",
     "lr rho epsilon grad indices", "", ComplexTraining<Adadelta>(),
     "ApplyAdadelta on the rows selected by indices."},
    {"ApplyCenteredRMSProp", "var mg ms mom", "lr rho momentum epsilon grad",
     "", ComplexTraining<CenteredRmsProp>(),
     "RMSProp with the variance of the gradient: ms - mg^2 in place of ms."},
    {"SparseApplyCenteredRMSProp", "var mg ms mom",
     "lr rho momentum epsilon grad indices", "",
     ComplexTraining<CenteredRmsProp>(),
     "ApplyCenteredRMSProp on the rows selected by indices."},
    {"ApplyAdaMax", "var m v", "beta1_power lr beta1 beta2 epsilon grad", "",
     RealTraining<AdaMax>(),
     "m = beta1 * m + (1 - beta1) * grad; v = max(beta2 * v, |grad|); var -= "
     "lr / (1 - beta1_power) * m / (v + epsilon)."},
    {"ApplyFtrl", "var accum linear", "grad lr l1 l2 lr_power",
     "multiply_linear_by_lr", RealTraining<Ftrl>(),
     "Follow the regularised leader (FTRL-Proximal)."},
    {"SparseApplyFtrl", "var accum linear", "grad indices lr l1 l2 lr_power",
     "multiply_linear_by_lr", RealTraining<Ftrl>(),
     "ApplyFtrl on the rows selected by indices."},
    {"ApplyFtrlV2", "var accum linear", "grad lr l1 l2 l2_shrinkage lr_power",
     "multiply_linear_by_lr", RealTraining<FtrlV2>(),
     "ApplyFtrl with 2 * l2_shrinkage * var added to the gradient."},
    {"SparseApplyFtrlV2", "var accum linear",
     "grad indices lr l1 l2 l2_shrinkage lr_power", "multiply_linear_by_lr",
     RealTraining<FtrlV2>(), "ApplyFtrlV2 on the rows selected by indices."},
    {"ApplyProximalGradientDescent", "var", "alpha l1 l2 delta", "",
     RealTraining<ProximalGradientDescent>(),
     "Gradient descent with L1 and L2 shrinkage (FOBOS)."},
    {"SparseApplyProximalGradientDescent", "var", "alpha l1 l2 grad indices",
     "", RealTraining<ProximalGradientDescent>(),
     "ApplyProximalGradientDescent on the rows selected by indices."},
    {"ApplyProximalAdagrad", "var accum", "lr l1 l2 grad", "",
     RealTraining<ProximalAdagrad>(),
     "Adagrad with L1 and L2 shrinkage (FOBOS)."},
    {"SparseApplyProximalAdagrad", "var accum", "lr l1 l2 grad indices", "",
     RealTraining<ProximalAdagrad>(),
     "ApplyProximalAdagrad on the rows selected by indices."},
    {"ApplyAdagradDA", "var gradient_accumulator gradient_squared_accumulator",
     "grad lr l1 l2 global_step", "", RealTraining<AdagradDa>(),
     "Adagrad with dual averaging (AdagradDA)."},
    {"SparseApplyAdagradDA",
     "var gradient_accumulator gradient_squared_accumulator",
     "grad indices lr l1 l2 global_step", "", RealTraining<AdagradDa>(),
     "ApplyAdagradDA on the rows selected by indices."},
    {"ApplyAddSign", "var m", "lr alpha sign_decay beta grad", "",
     RealTraining<AddSign>(),
     "m = beta * m + (1 - beta) * grad; var -= lr * (alpha + sign_decay * "
     "sign(grad) * sign(m)) * grad."},
    {"ApplyPowerSign", "var m", "lr logbase sign_decay beta grad", "",
     RealTraining<PowerSign>(),
     "m = beta * m + (1 - beta) * grad; var -= lr * exp(logbase * sign_decay * "
     "sign(grad) * sign(m)) * grad."},
});

}  // namespace
}  // namespace sluice::training
