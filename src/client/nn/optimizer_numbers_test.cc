// Every optimizer, 20 steps, against TensorFlow's numbers and names.
#include <functional>
#include <memory>
#include <set>

#include "client/nn/adam_optimizers.h"
#include "client/nn/optimizers.h"
#include "client/nn/training_record_test_util.h"

namespace sluice {
namespace {

using MakeOptimizer =
    std::function<std::unique_ptr<Optimizer>(const Var& global_step)>;

AdamOptions RecordedAdam(const std::string& name) {
  return {.beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-4, .name = name};
}
AdamOptions RecordedAdam(AdamRows rows) {
  AdamOptions o = RecordedAdam("Adam");
  o.rows = rows;
  return o;
}
AdamOptions RecordedNadam(AdamRows rows) {
  AdamOptions o = RecordedAdam(rows);
  o.nesterov = true;
  return o;
}

template <typename T, typename... Args>
MakeOptimizer Makes(const Args&... args) {
  return [args...](const Var&) { return std::make_unique<T>(args...); };
}

struct RecordedOptimizer {
  std::string name;  // In the record.
  MakeOptimizer make;
  bool for_references = true;  // Also compared with reference variables.
};

std::vector<RecordedOptimizer> AllOptimizers() {
  return {
      {"sgd", Makes<GradientDescentOptimizer>(0.1)},
      {"momentum", Makes<MomentumOptimizer>(0.1, 0.9)},
      {"nesterov", Makes<MomentumOptimizer>(0.1, 0.9, true)},
      {"adagrad", Makes<AdagradOptimizer>(0.3, 0.2)},
      {"adagrad_da",
       [](const Var& step) {
         return std::make_unique<AdagradDaOptimizer>(
             0.3, step,
             AdagradDaOptions{
                 .initial_squared_accumulator = 0.2, .l1 = 0.01, .l2 = 0.02});
       }},
      {"adadelta", Makes<AdadeltaOptimizer>(1.0, 0.9, 1e-4)},
      {"rmsprop",
       Makes<RmsPropOptimizer>(
           0.05,
           RmsPropOptions{.decay = 0.8, .momentum = 0.5, .epsilon = 1e-4})},
      {"rmsprop_centered",
       Makes<RmsPropOptimizer>(0.05, RmsPropOptions{.decay = 0.8,
                                                    .momentum = 0.5,
                                                    .epsilon = 1e-1,
                                                    .centered = true})},
      {"adam", Makes<AdamOptimizer>(0.05, RecordedAdam("Adam"))},
      {"adam",
       Makes<AdamOptimizer>(0.05, RecordedAdam(AdamRows::kAllByTensorFlowOps))},
      {"ftrl", Makes<FtrlOptimizer>(0.3, FtrlOptions{.l1 = 0.01, .l2 = 0.02})},
      {"ftrl_shrinkage",
       Makes<FtrlOptimizer>(0.3, FtrlOptions{.learning_rate_power = -0.6,
                                             .initial_accumulator = 0.2,
                                             .l1 = 0.01,
                                             .l2 = 0.02,
                                             .l2_shrinkage = 0.03})},
      {"proximal_sgd",
       Makes<ProximalGradientDescentOptimizer>(0.1, 0.02, 0.03)},
      {"proximal_adagrad",
       Makes<ProximalAdagradOptimizer>(
           0.3,
           ProximalAdagradOptions{
               .initial_accumulator = 0.2, .l1 = 0.02, .l2 = 0.03})},
      {"amsgrad", Makes<AmsGradOptimizer>(0.05, RecordedAdam("AMSGrad"))},
      {"adamax", Makes<AdaMaxOptimizer>(0.05, RecordedAdam("AdaMax"))},
      {"adamw", Makes<AdamWOptimizer>(
                    0.05, AdamWOptions{.weight_decay = 0.02,
                                       .adam = RecordedAdam("AdamW")})},
      {"nadam", Makes<AdamOptimizer>(0.05, RecordedNadam(AdamRows::kAll))},
      {"nadam", Makes<AdamOptimizer>(
                    0.05, RecordedNadam(AdamRows::kAllByTensorFlowOps))},
      {"lazy_adam", Makes<AdamOptimizer>(0.05, RecordedAdam(AdamRows::kLazy))},
      {"lazy_adam", Makes<AdamOptimizer>(
                        0.05, RecordedAdam(AdamRows::kLazyByTensorFlowOps))}};
}

// Runs 20 steps and compares the values that the record has; returns their
// number.
int CompareSteps(const RecordedOptimizer& optimizer, bool sparse, DType dtype,
                 bool reference) {
  const std::string name =
      absl::StrCat(optimizer.name, sparse ? ".sparse." : ".dense.",
                   dtype == DType::kFloat ? "float32" : "float64");
  const auto record = TrainingRecords().find(name);
  if (record == TrainingRecords().end()) return 0;
  SCOPED_TRACE(absl::StrCat(name, reference ? ", references" : ", resources"));
  const double tolerance = dtype == DType::kFloat ? 4e-6 : 2e-8;
  const auto problem = [](const char* key) { return Recorded("problem", key); };
  Graph graph;
  const WithGraph use(graph);
  const Var step(Constant(Tensor::Scalar<int64_t>(0)), "global_step",
                 {.trainable = false, .reference = reference});
  const Var w(TensorOf(dtype, {6, 3}, problem("w")), "net/w",
              {.reference = reference});
  const Var b(TensorOf(dtype, {3}, problem("b")), "b",
              {.reference = reference});
  const Output bias = Placeholder(dtype, {3}),
               dense = Placeholder(dtype, {6, 3}),
               rows = Placeholder(dtype, {4, 3}),
               ids = Placeholder<int32_t>({4});
  const Gradient of_w =
      sparse ? Gradient::Slices(ids, rows, IntVector({6, 3})) : dense;
  const std::unique_ptr<Optimizer> made = optimizer.make(step);
  const Result<Node*> train =
      made->ApplyGradients({{of_w, w}, {bias, b}}, {.global_step = step});
  EXPECT_TRUE(train.ok()) << train.status();
  if (!train.ok()) return 0;
  EXPECT_EQ((*train)->name(), made->name());
  Session session(graph);
  EXPECT_TRUE(session.RunTargets({GlobalVariablesInitializer()}).ok());
  int compared = 0;
  for (size_t i = 0; i < 20; ++i) {
    const Feeds feeds = {
        {bias, TensorOf(dtype, {3}, problem("bias"), 3 * i)},
        {dense, TensorOf(dtype, {6, 3}, problem("dense"), 18 * i)},
        {rows, TensorOf(dtype, {4, 3}, problem("rows"), 12 * i)},
        {ids, TensorOf(DType::kInt32, {4}, problem("ids"), 4 * i)}};
    const Status ran = session.RunTargets({*train}, feeds);
    EXPECT_TRUE(ran.ok()) << ran;
    if (!ran.ok()) return 0;
    for (const auto& [key, numbers] : record->second)
      if (key == absl::StrCat("step", i + 1)) {
        SCOPED_TRACE(key);
        ExpectNear(NumbersOf(*session.Run(w)), numbers, tolerance);
        ++compared;
      }
  }
  std::set<std::string> names = {"global_step"};
  for (const auto& [key, numbers] : record->second) {
    if (!key.starts_with("var:")) continue;
    const std::string variable = key.substr(4);
    SCOPED_TRACE(key);
    names.insert(variable);
    Node* handle = graph.FindNode(variable);
    EXPECT_NE(handle, nullptr) << "no such variable";
    if (handle == nullptr) continue;
    const Var v = Var::FromHandle(Output(handle));
    EXPECT_FALSE(v.dtype() == DType::kFloat && dtype == DType::kDouble &&
                 variable.starts_with("net"));
    if (variable == "global_step") {
      EXPECT_EQ(session.Run(v)->scalar<int64_t>(), 20);
    } else {
      ExpectNear(NumbersOf(*session.Run(v)), numbers,
                 v.dtype() == DType::kFloat ? 4e-6 : tolerance);
    }
    ++compared;
  }
  // And no other variable, if the record has them all.
  if (names.size() > 1) {
    for (const Var& v : GlobalVariables())
      EXPECT_TRUE(names.count(v.name())) << "unexpected variable " << v.name();
  }
  return compared;
}

TEST(OptimizerNumbers, TwentyStepsAreTensorFlows) {
  for (const RecordedOptimizer& optimizer : AllOptimizers())
    for (const bool reference : {false, true}) {
      int compared = 0;
      for (const bool sparse : {false, true})
        for (const DType dtype : {DType::kFloat, DType::kDouble})
          compared += CompareSteps(optimizer, sparse, dtype, reference);
      EXPECT_GE(compared, 5) << optimizer.name;
    }
}

// Each line of the record is of an optimizer above.
TEST(OptimizerNumbers, AllRecordedOptimizersAreCompared) {
  std::set<std::string> known;
  for (const RecordedOptimizer& o : AllOptimizers()) known.insert(o.name);
  for (const auto& [name, lines] : TrainingRecords())
    if (name.find(".dense.") != std::string::npos ||
        name.find(".sparse.") != std::string::npos) {
      EXPECT_TRUE(known.count(name.substr(0, name.find('.')))) << name;
    }
}

}  // namespace
}  // namespace sluice
