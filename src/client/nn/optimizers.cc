#include "client/nn/optimizers.h"

#include "absl/strings/str_cat.h"
#include "client/operators.h"

namespace sluice {

void GradientDescentOptimizer::Prepare() {
  rate_ = Hyperparameter(learning_rate_, "learning_rate");
}

Node* GradientDescentOptimizer::ApplyDense(Output grad, const Var& var) {
  return UpdateOp("ApplyGradientDescent", var,
                  {var.handle(), As(rate_, var.dtype()), grad});
}

Node* GradientDescentOptimizer::ApplySparse(const Gradient& grad,
                                            const Var& var) {
  const Output delta =
      Build("Mul", {grad.values, As(rate_, var.dtype())}, {}, "", {});
  return UpdateOp("ScatterSub", var, {var.handle(), grad.indices, delta});
}

std::vector<std::string> OneOpOptimizer::SlotNames() const {
  std::vector<std::string> names;
  for (const Slot& s : slots_) names.push_back(s.name);
  return names;
}

void OneOpOptimizer::CreateSlots(const Var& var) {
  for (const Slot& s : slots_) MakeSlot(var, s.name, s.initial, s.suffix);
}

void OneOpOptimizer::Prepare() {
  values_.clear();
  for (const auto& [name, value] : numbers_)
    values_.push_back(Hyperparameter(value, name));
  last_ = LastInput();
}

Node* OneOpOptimizer::ApplyDense(Output grad, const Var& var) {
  return ApplyOne("Apply", var, {grad});
}

Node* OneOpOptimizer::ApplySparse(const Gradient& grad, const Var& var) {
  return ApplyOne("SparseApply", var, {grad.values, grad.indices});
}

Node* OneOpOptimizer::ApplyOne(const std::string& prefix, const Var& var,
                               const std::vector<Output>& gradient) {
  std::vector<Output> inputs = {var.handle()};
  for (const std::string& slot : InputSlots())
    inputs.push_back(GetSlot(var, slot).handle());
  const size_t before = order_ == Order::kGradientFirst ? 0
                        : order_ == Order::kMomentum    ? 1
                                                        : values_.size();
  for (size_t i = 0; i < before; ++i)
    inputs.push_back(As(values_[i], var.dtype()));
  inputs.insert(inputs.end(), gradient.begin(), gradient.end());
  for (size_t i = before; i < values_.size(); ++i)
    inputs.push_back(As(values_[i], var.dtype()));
  if (last_.valid()) inputs.push_back(last_);
  return UpdateOp((prefix + kind_).c_str(), var, inputs, attrs_);
}

MomentumOptimizer::MomentumOptimizer(const Operand& learning_rate,
                                     const Operand& momentum, bool nesterov,
                                     std::string name)
    : OneOpOptimizer(std::move(name), "Momentum", {{"momentum"}},
                     {{"learning_rate", learning_rate}, {"momentum", momentum}},
                     Order::kMomentum, {{"use_nesterov", nesterov}}) {}

AdagradOptimizer::AdagradOptimizer(const Operand& learning_rate,
                                   double initial_accumulator, std::string name)
    : OneOpOptimizer(std::move(name), "Adagrad",
                     {{"accumulator", initial_accumulator}},
                     {{"learning_rate", learning_rate}}, Order::kNumbersFirst) {
  Require(initial_accumulator > 0, "an initial accumulator above 0",
          initial_accumulator);
}

AdagradDaOptimizer::AdagradDaOptimizer(const Operand& learning_rate,
                                       const Var& global_step,
                                       const AdagradDaOptions& options)
    : OneOpOptimizer(options.name, "AdagradDA",
                     {{"gradient_accumulator"},
                      {"gradient_squared_accumulator",
                       options.initial_squared_accumulator}},
                     {{"learning_rate", learning_rate},
                      {"l1", options.l1},
                      {"l2", options.l2}},
                     Order::kGradientFirst),
      global_step_(global_step) {
  Require(options.initial_squared_accumulator > 0,
          "an initial squared accumulator above 0",
          options.initial_squared_accumulator);
}

void AdagradDaOptimizer::Prepare() {
  step_ = As(global_step_.Read({}), DType::kInt64) + 1;
  OneOpOptimizer::Prepare();
}

AdadeltaOptimizer::AdadeltaOptimizer(const Operand& learning_rate, double rho,
                                     double epsilon, std::string name)
    : OneOpOptimizer(
          std::move(name), "Adadelta", {{"accum"}, {"accum_update"}},
          {{"lr", learning_rate}, {"rho", rho}, {"epsilon", epsilon}},
          Order::kNumbersFirst) {}

RmsPropOptimizer::RmsPropOptimizer(const Operand& learning_rate,
                                   const RmsPropOptions& options)
    : OneOpOptimizer(
          options.name, options.centered ? "CenteredRMSProp" : "RMSProp",
          options.centered ? std::vector<Slot>{{"rms", 1}, {"mg"}, {"momentum"}}
                           : std::vector<Slot>{{"rms", 1}, {"momentum"}},
          {{"learning_rate", learning_rate},
           {"decay", options.decay},
           {"momentum", options.momentum},
           {"epsilon", options.epsilon}},
          Order::kNumbersFirst) {}

std::vector<std::string> RmsPropOptimizer::InputSlots() const {
  std::vector<std::string> names = SlotNames();
  if (names.size() == 3) std::swap(names[0], names[1]);  // The mean first.
  return names;
}

namespace {

std::vector<std::pair<const char*, Operand>> FtrlNumbers(
    const Operand& learning_rate, const FtrlOptions& options) {
  std::vector<std::pair<const char*, Operand>> numbers = {
      {"learning_rate", learning_rate},
      {"l1_regularization_strength", options.l1},
      {"l2_regularization_strength", options.l2}};
  if (options.l2_shrinkage > 0)
    numbers.emplace_back("l2_shrinkage_regularization_strength",
                         options.l2_shrinkage);
  numbers.emplace_back("learning_rate_power", options.learning_rate_power);
  return numbers;
}

}  // namespace

FtrlOptimizer::FtrlOptimizer(const Operand& learning_rate,
                             const FtrlOptions& options)
    : OneOpOptimizer(options.name, options.l2_shrinkage > 0 ? "FtrlV2" : "Ftrl",
                     {{"accum", options.initial_accumulator}, {"linear"}},
                     FtrlNumbers(learning_rate, options),
                     Order::kGradientFirst) {
  Require(options.learning_rate_power <= 0,
          "a learning_rate_power of at most 0", options.learning_rate_power);
  Require(options.initial_accumulator >= 0,
          "an initial accumulator of at least 0", options.initial_accumulator);
  Require(options.l1 >= 0, "an l1 of at least 0", options.l1);
  Require(options.l2 >= 0, "an l2 of at least 0", options.l2);
  Require(options.l2_shrinkage >= 0, "an l2_shrinkage of at least 0",
          options.l2_shrinkage);
}

ProximalGradientDescentOptimizer::ProximalGradientDescentOptimizer(
    const Operand& learning_rate, double l1, double l2, std::string name)
    : OneOpOptimizer(std::move(name), "ProximalGradientDescent", {},
                     {{"learning_rate", learning_rate},
                      {"l1_regularization_strength", l1},
                      {"l2_regularization_strength", l2}},
                     Order::kNumbersFirst) {}

ProximalAdagradOptimizer::ProximalAdagradOptimizer(
    const Operand& learning_rate, const ProximalAdagradOptions& options)
    : OneOpOptimizer(options.name, "ProximalAdagrad",
                     {{"accumulator", options.initial_accumulator}},
                     {{"learning_rate", learning_rate},
                      {"l1_regularization_strength", options.l1},
                      {"l2_regularization_strength", options.l2}},
                     Order::kNumbersFirst) {
  Require(options.initial_accumulator > 0, "an initial accumulator above 0",
          options.initial_accumulator);
}

}  // namespace sluice
