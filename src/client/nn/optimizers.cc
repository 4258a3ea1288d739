#include "client/nn/optimizers.h"

#include "absl/strings/str_cat.h"
#include "client/operators.h"

namespace sluice {

Node* GradientDescentOptimizer::ApplyDense(Output grad, const Var& var) {
  return UpdateOp("ApplyGradientDescent", var,
                  {var.handle(), Number(0, var.dtype()), grad});
}

Node* GradientDescentOptimizer::ApplySparse(const Gradient& grad,
                                            const Var& var) {
  return ScatterSub(var, grad.indices, grad.values * Number(0, var.dtype()));
}

std::vector<std::string> OneOpOptimizer::SlotNames() const {
  std::vector<std::string> names;
  for (const Slot& s : slots_) names.push_back(s.name);
  return names;
}

void OneOpOptimizer::CreateSlots(const Var& var) {
  for (const Slot& s : slots_) MakeSlot(var, s.name, s.initial, s.suffix);
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
  const size_t count = numbers().size();
  const size_t before = order_ == Order::kGradientFirst ? 0
                        : order_ == Order::kMomentum    ? 1
                                                        : count;
  for (size_t i = 0; i < before; ++i)
    inputs.push_back(Number(i, TypeOfNumber(i, var)));
  inputs.insert(inputs.end(), gradient.begin(), gradient.end());
  for (size_t i = before; i < count; ++i)
    inputs.push_back(Number(i, TypeOfNumber(i, var)));
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
                      {"l1_regularization_strength", options.l1},
                      {"l2_regularization_strength", options.l2},
                      {"global_step", Output()}},
                     Order::kGradientFirst),
      global_step_(global_step) {
  Require(options.initial_squared_accumulator > 0,
          "an initial squared accumulator above 0",
          options.initial_squared_accumulator);
}

void AdagradDaOptimizer::Prepare() {
  std::vector<Operand> values;
  for (const auto& [name, value] : numbers()) values.push_back(value);
  values.back() = As(global_step_.Read({}), DType::kInt64) + 1;
  SetNumbers(values);
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
    : OneOpOptimizer(
          options.name, options.l2_shrinkage > 0 ? "FtrlV2" : "Ftrl",
          {{"accum", options.initial_accumulator, options.accum_name},
           {"linear", 0, options.linear_name}},
          FtrlNumbers(learning_rate, options), Order::kGradientFirst) {
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
