// Hostile calls of what trains: optimizers, learning rates, clipping, averages.
#include <climits>
#include <limits>
#include <memory>

#include "tests/hostile_calls_test_util.h"

namespace sluice {
namespace {

constexpr double kNanRate = std::numeric_limits<double>::quiet_NaN();

using MakeHostileOptimizer = std::function<std::unique_ptr<Optimizer>()>;

template <typename T, typename... Args>
std::unique_ptr<Optimizer> New(Args&&... args) {
  return std::make_unique<T>(std::forward<Args>(args)...);
}

std::vector<MakeHostileOptimizer> HostileOptimizers() {
  return {
      [] { return New<GradientDescentOptimizer>(0.1); },
      [] { return New<GradientDescentOptimizer>(Output()); },
      [] { return New<GradientDescentOptimizer>(Tensor()); },
      [] { return New<GradientDescentOptimizer>("text", ""); },
      [] { return New<AdagradOptimizer>(kNanRate, kNanRate); },
      [] { return New<AdagradOptimizer>(Elsewhere(), -1.0); },
      [] { return New<AdagradOptimizer>(0.1, 0.1, "a b"); },
      [] {
        return New<MomentumOptimizer>(Tensor::Vector<float>({1, 2}), true);
      },
      [] { return New<MomentumOptimizer>("text", Output(), true, "\n"); },
      [] { return New<AdagradDaOptimizer>(0.1, Var()); },
      [] {
        return New<AdagradDaOptimizer>(
            0.1, Var("text", "text", {.trainable = false}),
            AdagradDaOptions{.initial_squared_accumulator = -1});
      },
      [] { return New<AdadeltaOptimizer>(Elsewhere(), -1.0, -1.0); },
      [] {
        return New<RmsPropOptimizer>(
            -1, RmsPropOptions{.momentum = Tensor(), .centered = true});
      },
      [] {
        return New<FtrlOptimizer>(0.1, FtrlOptions{.learning_rate_power = 3,
                                                   .initial_accumulator = -1});
      },
      [] { return New<FtrlOptimizer>(0, FtrlOptions{.l2_shrinkage = 1e300}); },
      [] {
        return New<ProximalGradientDescentOptimizer>(0.1, kNanRate, 1e300);
      },
      [] { return New<ProximalAdagradOptimizer>(Output()); },
      [] { return New<AdamOptimizer>(Output()); },
      [] {
        return New<AdamOptimizer>(
            "text", AdamOptions{.beta1 = Tensor(), .beta2 = Elsewhere()});
      },
      [] {
        return New<AdamOptimizer>(
            0.1, AdamOptions{.beta1 = 1.0, .epsilon = kNanRate, .name = ""});
      },
      [] {
        return New<AmsGradOptimizer>(Tensor::Vector<float>({1, 2}));
      },
      [] {
        return New<AdaMaxOptimizer>(
            0.1, AdamOptions{.beta1 = Tensor::Vector<float>({1, 2})});
      },
      [] {
        return New<AdamWOptimizer>(0.1, AdamWOptions{.weight_decay = "text"});
      },
      [] { return New<AdamWOptimizer>(0.1, AdamWOptions{.decayed = {Var()}}); },
  };
}

HOSTILE(OptimizersOfNothing,
        "Optimizer::Optimizer Optimizer::Minimize Optimizer::ComputeGradients "
        "Optimizer::ApplyGradients Optimizer::GetSlot Optimizer::SlotNames "
        "Optimizer::name Optimizer::GetNonSlot Optimizer::Variables "
        "GradientDescentOptimizer::GradientDescentOptimizer "
        "OneOpOptimizer::SlotNames AdagradOptimizer::AdagradOptimizer "
        "MomentumOptimizer::MomentumOptimizer "
        "AdagradDaOptimizer::AdagradDaOptimizer "
        "AdadeltaOptimizer::AdadeltaOptimizer "
        "RmsPropOptimizer::RmsPropOptimizer FtrlOptimizer::FtrlOptimizer "
        "ProximalGradientDescentOptimizer::ProximalGradientDescentOptimizer "
        "ProximalAdagradOptimizer::ProximalAdagradOptimizer "
        "AdamOptimizer::AdamOptimizer AdamOptimizer::SlotNames "
        "AmsGradOptimizer::AmsGradOptimizer AmsGradOptimizer::SlotNames "
        "AdaMaxOptimizer::AdaMaxOptimizer AdamWOptimizer::AdamWOptimizer") {
  const auto with = [](const std::function<void(Optimizer&)>& use) {
    for (const auto& make : HostileOptimizers())
      (void)RecordedBy([&] { use(*make()); });
  };
  with([](Optimizer& o) {
    EXPECT_EQ(o.Minimize(Output()), nullptr);
    EXPECT_FALSE(o.ComputeGradients(Output()).ok());
    EXPECT_FALSE(o.ComputeGradients(Constant(1.0f)).ok());
    EXPECT_FALSE(o.ComputeGradients(Constant(int32_t{1})).ok());
    EXPECT_FALSE(o.ComputeGradients(Output(Constant(1.0f).node, 8)).ok());
    EXPECT_FALSE(o.ApplyGradients({}).ok());
    EXPECT_FALSE(o.ApplyGradients({{Gradient(), Var()}}).ok());
    EXPECT_FALSE(o.ApplyGradients({{Constant(1.0f), Var()}}).ok());
    EXPECT_NULL(o.GetSlot(Var(), ""));
    EXPECT_LE(o.SlotNames().size(), 3u);
    EXPECT_NULL(o.GetNonSlot(""));
    EXPECT_NULL(o.GetNonSlot("no_such"));
    EXPECT_TRUE(o.Variables().empty());
    (void)o.name();
  });
  with([](Optimizer& o) {
    const Var v(Tensor::Vector<float>({1, 2}), "v");
    EXPECT_NULL(o.GetSlot(v, "no_such"));
    EXPECT_EQ(o.Minimize(v.Read(), {.variables = {Var()}}), nullptr);
    (void)o.Minimize(ops::Sum(v, 0), {.name = "\n"});
    (void)o.Minimize(ops::Sum(v, 0), {.grad_loss = Elsewhere()});
    (void)o.Minimize(ops::Sum(v, 0), {.global_step = Var("text", "step")});
  });
  with([](Optimizer& o) {
    const Var v(Tensor::Vector<float>({1, 2}), "v");
    const Output one = Constant(1.0f);
    (void)o.ApplyGradients({{Gradient::Slices(Output(), one, Output()), v}})
        .status();
    (void)o.ApplyGradients({{Elsewhere(), v}}).status();
    (void)o.ApplyGradients({{Output(one.node, 9), v}}).status();
    (void)o.ApplyGradients({{one, v}, {one, v}}).status();
  });
}

// Numbers with which training would compute NaN, or which TensorFlow refuses.
HOSTILE(HyperparametersThatAreRefused,
        "AdagradOptimizer::AdagradOptimizer "
        "AdagradDaOptimizer::AdagradDaOptimizer FtrlOptimizer::FtrlOptimizer "
        "ProximalAdagradOptimizer::ProximalAdagradOptimizer") {
  const auto ftrl = [](const FtrlOptions& options) {
    return [options] { return New<FtrlOptimizer>(0.1, options); };
  };
  const std::vector<std::pair<std::string, MakeHostileOptimizer>> refused = {
      {"an initial accumulator above 0, got 0",
       [] { return New<AdagradOptimizer>(0.1, 0.0); }},
      {"an initial accumulator above 0, got -1",
       [] { return New<AdagradOptimizer>(0.1, -1.0); }},
      {"an initial accumulator above 0, got nan",
       [] { return New<AdagradOptimizer>(0.1, kNanRate); }},
      {"an initial squared accumulator above 0, got 0",
       [] {
         return New<AdagradDaOptimizer>(
             0.1, Var(0, "step", {.trainable = false}),
             AdagradDaOptions{.initial_squared_accumulator = 0});
       }},
      {"an initial accumulator above 0, got 0",
       [] {
         return New<ProximalAdagradOptimizer>(
             0.1, ProximalAdagradOptions{.initial_accumulator = 0});
       }},
      {"a learning_rate_power of at most 0, got 0.5",
       ftrl({.learning_rate_power = 0.5})},
      {"an initial accumulator of at least 0, got -1",
       ftrl({.initial_accumulator = -1})},
      {"an l1 of at least 0, got -1", ftrl({.l1 = -1})},
      {"an l2 of at least 0, got -1", ftrl({.l2 = -1})},
      {"an l2_shrinkage of at least 0, got -1", ftrl({.l2_shrinkage = -1})}};
  for (const auto& [message, make] : refused) {
    ExpectRecorded("expected " + message, [&, make = make] {
      const Var v(Tensor::Vector<float>({1, 2}), "v");
      const auto optimizer = make();
      EXPECT_EQ(optimizer->Minimize(ops::Sum(v, 0)), nullptr);
      ExpectRefused(optimizer->ApplyGradients({{ops::OnesLike(v), v}}),
                    "optimizer " + optimizer->name() + ": expected ");
      EXPECT_TRUE(optimizer->Variables().empty());
    });
  }
}

// Rows that are wrong, in each way that an update of rows may use them.
HOSTILE(SlicesOfNoVariable, "Optimizer::ApplyGradients") {
  for (const auto& make : HostileOptimizers())
    (void)RecordedBy([&] {
      const Var v(Tensor::Of<float>({2, 1}, {1, 2}), "v");
      const Output ids = Constant(Tensor::Vector<int32_t>({0, 1}));
      const auto optimizer = make();
      for (const Output& rows :
           {Constant(Tensor::Of<float>({2, 1}, {1, 1})), Constant(1.0f),
            Constant(Tensor::Vector<int32_t>({1, 1})), Elsewhere(), Output()})
        (void)optimizer
            ->ApplyGradients(
                {{Gradient::Slices(ids, rows, IntVector({2, 1})), v},
                 {Gradient::Slices(rows, rows, Output()), v}})
            .status();
    });
}

// ---- Learning rates ---------------------------------------------------------

HOSTILE(RatesOfNothing,
        "ExponentialDecay NaturalExpDecay InverseTimeDecay PolynomialDecay "
        "CosineDecay CosineDecayRestarts LinearCosineDecay PiecewiseConstant "
        "WarmUp") {
  using Rate =
      std::function<Output(const Operand&, const Operand&, const Operand&)>;
  const std::vector<Rate> rates = {
      [](const auto& r, const auto& s, const auto& n) {
        return ExponentialDecay(r, s, n, n, {.staircase = true});
      },
      [](const auto& r, const auto& s, const auto& n) {
        return NaturalExpDecay(r, s, n, n);
      },
      [](const auto& r, const auto& s, const auto& n) {
        return InverseTimeDecay(r, s, n, n);
      },
      [](const auto& r, const auto& s, const auto& n) {
        return PolynomialDecay(r, s, n, {.power = kNanRate});
      },
      [](const auto& r, const auto& s, const auto& n) {
        return PolynomialDecay(r, s, n, {.end = 1e300, .cycle = true});
      },
      [](const auto& r, const auto& s, const auto& n) {
        return CosineDecay(r, s, n, {.alpha = kNanRate});
      },
      [](const auto& r, const auto& s, const auto& n) {
        return CosineDecayRestarts(r, s, n, {.period_factor = -1});
      },
      [](const auto& r, const auto& s, const auto& n) {
        return LinearCosineDecay(r, s, n, {.periods = kNanRate});
      },
      [](const auto& r, const auto& s, const auto& n) {
        return LinearCosineDecay(
            r, s, n, {.noisy = true, .sample = [](DType) { return Output(); }});
      },
      [](const auto& r, const auto& s, const auto& n) {
        return WarmUp(r, s, n, -1e300);
      }};
  for (const Rate& rate : rates) {
    (void)RecordedBy([&] { EXPECT_NULL(rate(Output(), 1, 2)); });
    (void)RecordedBy([&] { EXPECT_NULL(rate(0.1, Output(), 2)); });
    (void)RecordedBy([&] { EXPECT_NULL(rate(0.1, 1, Output())); });
    ExpectRecorded("", [&] { EXPECT_NULL(rate(Tensor(), 1, 2)); });
    ExpectRecorded("", [&] { EXPECT_NULL(rate("text", 1, 2)); });
    ExpectRecorded("", [&] { EXPECT_NULL(rate(0.1, "text", 2)); });
    ExpectRecorded("", [&] { EXPECT_NULL(rate(Elsewhere(), 1, 2)); });
    (void)RecordedBy([&] {
      Session session(CurrentGraph());
      const Output odd = rate(0.1, -7, 0);
      if (odd.valid()) (void)session.Run(odd).status();
    });
  }
  ExpectRecorded("one value more",
                 [] { EXPECT_NULL(PiecewiseConstant(1, {}, {})); });
  ExpectRecorded("", [] { EXPECT_NULL(PiecewiseConstant("a", {1}, {1, 2})); });
  ExpectRecorded("", [] {
    EXPECT_NULL(PiecewiseConstant(Constant(1.0f), {Tensor()}, {"b", 2}));
  });
  (void)RecordedBy([] {
    EXPECT_NULL(PiecewiseConstant(Output(), {1}, {0.1, 0.2}));
    (void)PiecewiseConstant(1, {1.5}, {0.1, Output()});
  });
}

// ---- Losses -----------------------------------------------------------------

HOSTILE(LossesOfNothing,
        "WeightedLoss AbsoluteDifference MeanSquaredError HuberLoss LogLoss "
        "HingeLoss CosineDistance SigmoidCrossEntropy SoftmaxCrossEntropy "
        "SparseSoftmaxCrossEntropy MeanPairwiseSquaredError Losses TotalLoss "
        "init::GlorotNormal init::HeUniform "
        "init::HeNormal init::LecunUniform init::LecunNormal "
        "init::VarianceScaling init::Orthogonal init::Identity") {
  using Loss =
      std::function<Output(const Operand&, const Operand&, const LossOptions&)>;
  const std::vector<Loss> losses = {
      [](const auto& l, const auto& p, const auto& o) {
        return AbsoluteDifference(l, p, o);
      },
      [](const auto& l, const auto& p, const auto& o) {
        return MeanSquaredError(l, p, o);
      },
      [](const auto& l, const auto& p, const auto& o) {
        return HuberLoss(l, p, o);
      },
      [](const auto& l, const auto& p, const auto& o) {
        return LogLoss(l, p, o);
      },
      [](const auto& l, const auto& p, const auto& o) {
        return HingeLoss(l, p, o);
      },
      [](const auto& l, const auto& p, const auto& o) {
        return CosineDistance(l, p, INT_MIN, o);
      },
      [](const auto& l, const auto& p, const auto& o) {
        return SigmoidCrossEntropy(l, p, o);
      },
      [](const auto& l, const auto& p, const auto& o) {
        return SoftmaxCrossEntropy(l, p, o);
      },
      [](const auto& l, const auto& p, const auto& o) {
        return SparseSoftmaxCrossEntropy(l, p, o);
      },
      [](const auto& l, const auto& p, const auto& o) {
        return MeanPairwiseSquaredError(l, p, o);
      },
      [](const auto& l, const auto&, const auto& o) {
        return WeightedLoss(l, o);
      }};
  ExpectRecorded("expected losses, got none",
                 [] { EXPECT_NULL(TotalLoss(true, "\n")); });
  EXPECT_TRUE(Losses("/", "\n").empty());
  const LossOptions odd = {
      .delta = kNanRate, .epsilon = -1e300, .label_smoothing = kNanRate};
  for (const Loss& loss : losses) {
    (void)RecordedBy([&] { EXPECT_NULL(loss(Output(), Output(), {})); });
    ExpectRecorded("", [&] { EXPECT_NULL(loss("a", "b", {})); });
    ExpectRecorded("", [&] { EXPECT_NULL(loss(Tensor(), Tensor(), odd)); });
    (void)RecordedBy([&] {
      (void)loss(Elsewhere(), 1.0, odd);
      (void)loss(1.0, Tensor::Vector<float>({1, 2}), odd);
    });
    for (const Operand& weights :
         {Operand("text"), Operand(Tensor()), Operand(Elsewhere()),
          Operand(Tensor::Vector<float>({1, 2, 3})),
          Operand(Tensor::Of<float>({1, 1, 1}, {1}))})
      ExpectRecorded("", [&] {
        const Output x = Constant(Tensor::Of<float>({1, 2}, {1, 2}));
        EXPECT_NULL(loss(x, x, {.weights = weights}));
      });
  }
  for (const InitializerFn& made :
       {init::GlorotNormal(), init::HeUniform(), init::HeNormal(),
        init::LecunUniform(), init::LecunNormal(),
        init::VarianceScaling(kNanRate), init::VarianceScaling(-1),
        init::Orthogonal(kNanRate), init::Identity(kNanRate)})
    for (const Shape& shape : {Shape(), Shape({0, 0}), Shape({-3, 2}),
                               Shape({2, 2}), Shape({kHuge, kHuge})})
      for (const DType t : {DType::kInvalid, DType::kString, DType::kBool})
        (void)RecordedBy([&] { (void)made(shape, t); });
}

HOSTILE(MetricsOfNothing,
        "StreamingMean StreamingMeanTensor PercentageBelow "
        "StreamingMeanAbsoluteError StreamingMeanSquaredError "
        "StreamingRootMeanSquaredError StreamingMeanRelativeError "
        "StreamingMeanCosineDistance Accuracy CountOf Precision Recall "
        "CountAtThresholds PrecisionAtThresholds RecallAtThresholds Auc "
        "SensitivityAtSpecificity SpecificityAtSensitivity MeanIou "
        "MeanPerClassAccuracy PrecisionAtK RecallAtK AveragePrecisionAtK "
        "PrecisionAtTopK RecallAtTopK AveragePrecisionAtTopK "
        "ClassLabels::ClassLabels "
        "MetricsInitializer") {
  using Measure = std::function<Metric(const Operand&, const Operand&,
                                       const MetricOptions&)>;
  const std::vector<Measure> metrics = {
      [](const auto& l, const auto&, const auto& o) {
        return StreamingMean(l, o);
      },
      [](const auto& l, const auto& p, const auto& o) {
        return Accuracy(l, p, o);
      },
      [](const auto& l, const auto& p, const auto& o) {
        return Precision(l, p, o);
      },
      [](const auto& l, const auto& p, const auto& o) {
        return Recall(l, p, o);
      },
      [](const auto& l, const auto& p, const auto& o) {
        return Auc(l, p, 3, o);
      },
      [](const auto& l, const auto& p, const auto& o) {
        return StreamingMeanAbsoluteError(l, p, o);
      },
      [](const auto& l, const auto& p, const auto& o) {
        return StreamingMeanSquaredError(l, p, o);
      },
      [](const auto& l, const auto& p, const auto& o) {
        return StreamingRootMeanSquaredError(l, p, o);
      },
      [](const auto& l, const auto& p, const auto& o) {
        return StreamingMeanRelativeError(l, p, p, o);
      },
      [](const auto& l, const auto& p, const auto& o) {
        return StreamingMeanCosineDistance(l, p, INT_MIN, o);
      },
      [](const auto& l, const auto& p, const auto& o) {
        return PercentageBelow(l, p, o);
      },
      [](const auto& l, const auto& p, const auto& o) {
        return CountOf(Outcome::kFalseNegative, l, p, o);
      },
      [](const auto& l, const auto& p, const auto& o) {
        return CountAtThresholds(Outcome::kTrueNegative, l, p, {kNanRate}, o);
      },
      [](const auto& l, const auto& p, const auto& o) {
        return PrecisionAtThresholds(l, p, {-1, 2}, o);
      },
      [](const auto& l, const auto& p, const auto& o) {
        return RecallAtThresholds(l, p, {0.5}, o);
      },
      [](const auto& l, const auto& p, const auto& o) {
        return SensitivityAtSpecificity(l, p, 0.5, 3, o);
      },
      [](const auto& l, const auto& p, const auto& o) {
        return SpecificityAtSensitivity(l, p, 0.5, 3, o);
      },
      [](const auto& l, const auto& p, const auto& o) {
        return MeanPerClassAccuracy(l, p, 3, o);
      },
      [](const auto& l, const auto&, const auto& o) {
        return StreamingMeanTensor(l, o);
      },
      [](const auto& l, const auto& p, const auto& o) {
        return MeanIou(l, p, 3, o);
      }};
  for (const Measure& measure : metrics) {
    (void)RecordedBy([&] {
      EXPECT_EQ(measure(Output(), Output(), {}).update, nullptr);
      EXPECT_EQ(measure(Tensor(), Tensor(), {.name = "\n"}).update, nullptr);
      EXPECT_EQ(measure(Elsewhere(), Elsewhere(), {}).update, nullptr);
      (void)measure("a", "b", {});
      (void)MetricsInitializer();
    });
    for (const Operand& weights : {Operand("text"), Operand(Elsewhere()),
                                   Operand(Tensor::Vector<float>({1, 2, 3}))})
      ExpectRecorded("", [&] {
        const Output x = Constant(Tensor::Vector<int32_t>({1, 2}));
        EXPECT_EQ(measure(x, x, {.weights = weights}).update, nullptr);
      });
  }
  for (const int64_t n : {INT64_MIN, int64_t{0}, INT64_MAX})
    ExpectRecorded("expected", [&] {
      const Output x = Constant(int32_t{0});
      EXPECT_EQ(Auc(x, x, n).update, nullptr);
      EXPECT_EQ(MeanIou(x, x, n).update, nullptr);
      EXPECT_EQ(MeanPerClassAccuracy(x, x, n).update, nullptr);
      EXPECT_EQ(PrecisionAtK(x, x, n).update, nullptr);
      EXPECT_EQ(RecallAtK(x, x, n).update, nullptr);
      EXPECT_EQ(AveragePrecisionAtK(x, x, n).update, nullptr);
    });
  ExpectRecorded("expected", [] {
    const Output x = Constant(int32_t{0});
    const auto no_outcome = static_cast<Outcome>(99);
    EXPECT_EQ(CountOf(no_outcome, x, x).update, nullptr);
    EXPECT_EQ(CountAtThresholds(no_outcome, x, x, {0.5}).update, nullptr);
    EXPECT_EQ(PrecisionAtThresholds(x, x, {}).update, nullptr);
    EXPECT_EQ(RecallAtThresholds(x, x, {}).update, nullptr);
    for (const double target : {-1.0, 2.0, kNanRate}) {
      EXPECT_EQ(SensitivityAtSpecificity(x, x, target).update, nullptr);
      EXPECT_EQ(SpecificityAtSensitivity(x, x, target).update, nullptr);
    }
    EXPECT_EQ(
        Auc(x, x, {.summation = AucSummation::kCarefulInterpolation}).update,
        nullptr);
    EXPECT_EQ(StreamingMeanTensor(Placeholder<float>()).update, nullptr);
  });
  const std::vector<ClassLabels> labels = {
      ClassLabels(Output()), ClassLabels(Tensor()), ClassLabels("text"),
      ClassLabels(SparseOutput{}),
      ClassLabels(SparseOutput{Constant(1.0f), Elsewhere(), Constant(2)})};
  for (const ClassLabels& l : labels)
    for (const Output& scores :
         {Output(), Elsewhere(), Constant(Tensor::Vector<float>({1, 2, 3}))})
      (void)RecordedBy([&] {
        const AtKOptions at = {.class_id = INT64_MIN};
        EXPECT_EQ(PrecisionAtK(l, scores, 2, at).update, nullptr);
        EXPECT_EQ(RecallAtK(l, scores, 2).update, nullptr);
        EXPECT_EQ(AveragePrecisionAtK(l, scores, 2).update, nullptr);
        EXPECT_EQ(PrecisionAtTopK(l, scores, INT64_MIN).update, nullptr);
        EXPECT_EQ(RecallAtTopK(l, scores, 0, at).update, nullptr);
        EXPECT_EQ(AveragePrecisionAtTopK(l, scores).update, nullptr);
      });
}

// ---- Variable scopes and layers ---------------------------------------------

HOSTILE(VariableScopesOfNothing,
        "VariableScope::VariableScope VariableScope::name VariableScope::reuse "
        "VariableScope::partitioner VariableScope::FillIn VariableScope::Get "
        "CurrentVariableScope RegularizationLosses RegularizationLoss "
        "UpdateOps L1Regularizer L2Regularizer L1L2Regularizer") {
  for (const std::string name : {"", "/", "a b", "\n", "a//b", "../x"})
    for (const bool unique : {false, true})
      (void)RecordedBy([&] {
        const VariableScope scope(
            name, {.reuse = static_cast<Reuse>(99), .unique = unique});
        const VariableScope inner(name, {.unique = unique});
        (void)scope.name();
        (void)scope.reuse();
        EXPECT_EQ(scope.partitioner(), nullptr);
        (void)GetVariable(name, {2});
        (void)GetVariable(name, {2});
        (void)GetVariable("w", Shape({kHuge, kHuge}));
        EXPECT_NE(CurrentVariableScope(), nullptr);
      });
  ExpectRecorded("", [] {
    const VariableScope scope("s", {.dtype = static_cast<DType>(200)});
    EXPECT_NULL(GetVariable("w", {2}));
  });
  // Getters that return nothing, or ask for it.
  (void)RecordedBy([] {
    const VariableScope scope(
        "s",
        {.getter = [](const VariableRequest&, const auto&) { return Var(); }});
    EXPECT_NULL(GetVariable("w", {2}));
    EXPECT_NULL(Dense(Ones({2, 3}), 4));
  });
  (void)RecordedBy([] {
    const VariableScope scope(
        "s", {.getter = [](const VariableRequest&, const auto& next) {
          return next(VariableRequest());
        }});
    (void)GetVariable("w", {2});
    VariableRequest nothing;
    scope.FillIn(&nothing);
    (void)scope.Get(nothing, [](const VariableRequest&) { return Var(); });
  });
  for (const Regularizer& odd :
       {L1Regularizer(-1), L2Regularizer(kNanRate),
        L1L2Regularizer(1, std::numeric_limits<double>::infinity()),
        Regularizer([](Output) { return Output(); }),
        Regularizer([](Output w) { return ops::MatMul(w, w); })})
    (void)RecordedBy([&] {
      VarOptions options;
      options.regularizer = odd;
      (void)GetVariable("w", {2}, nullptr, DType::kInvalid, options);
      (void)RegularizationLosses();
      (void)RegularizationLoss();
      (void)RegularizationLoss(DType::kString);
      EXPECT_TRUE(UpdateOps().empty());
    });
  ExpectRecorded("finite scale of 0 or more",
                 [] { EXPECT_NULL(L1Regularizer(-1)(Constant(1.0f))); });
}

HOSTILE(Constraints,
        "MaxNorm UnitNorm MinMaxNorm NonNegative SetConstraint HasConstraint "
        "ApplyConstraint") {
  const double inf = std::numeric_limits<double>::infinity();
  for (const Constraint& odd :
       {MaxNorm(-1), MaxNorm(kNanRate), MaxNorm(inf), UnitNorm({2}),
        UnitNorm({INT_MIN}), MinMaxNorm(2, 1), MinMaxNorm(0, 1, 2),
        MinMaxNorm(kNanRate, 1), MaxNorm(1, {-2}),
        Constraint([](Output) { return Output(); }),
        Constraint([](Output w) { return ops::MatMul(w, w); }),
        Constraint([](Output w) { return ops::Cast(w, DType::kInt32); }),
        Constraint([](Output w) {
          return ops::Concat(0, {w, w});
        })})
    (void)RecordedBy([&] {
      const Var v = GetVariable("w", {2});
      ExpectRefused(SetConstraint(v, odd), "");
      EXPECT_FALSE(HasConstraint(v));
    });
  (void)RecordedBy([&] {
    const Var v = GetVariable("w", {2});
    const Output outside = Constant(Tensor::Vector<float>({1, 2}));
    ExpectRefused(SetConstraint(v, [&](Output w) { return w + outside; }),
                  "got one of another graph");
    ExpectRefused(SetConstraint(Var(), NonNegative()), "no variable");
    ExpectRefused(SetConstraint(v, nullptr), "no constraint");
    EXPECT_FALSE(HasConstraint(Var()));
    EXPECT_EQ(ApplyConstraint(Var()), nullptr);
    EXPECT_EQ(ApplyConstraint(v), nullptr);
    Graph other;
    const WithGraph use(other);
    ExpectRefused(SetConstraint(v, NonNegative()), "of another");
  });
}

HOSTILE(LayersOfNothing,
        "Dense Dropout Embedding Flatten Conv1D Conv2D Conv3D Conv2DTranspose "
        "DepthwiseConv1D DepthwiseConv2D SeparableConv1D SeparableConv2D "
        "Conv3DTranspose Extents::Extents MaxPooling AveragePooling "
        "GlobalMaxPooling GlobalAveragePooling BatchNorm LayerNorm "
        "MultiHeadAttention Gelu Activation::Activation Activation::OrIdentity "
        "Activation::operator() Activation::is_op") {
  using Layer = std::function<Output(const Operand& x, int64_t n)>;
  const InitializerFn nothing = [](const Shape&, DType) { return Output(); };
  const Activation null_function = [](Output) { return Output(); };
  EXPECT_NULL(Activation().OrIdentity(Output()));
  EXPECT_NULL(null_function(Output()));
  const std::vector<Layer> layers = {
      [](const Operand& x, int64_t n) { return Dense(x, n); },
      [&](const Operand& x, int64_t n) {
        return Dense(x, n, {.activation = null_function, .name = "a b"});
      },
      [&](const Operand& x, int64_t n) {
        return Dense(x, n, {.kernel_initializer = nothing});
      },
      [](const Operand& x, int64_t n) {
        return Dropout(x, static_cast<double>(n), true);
      },
      [](const Operand& x, int64_t) { return Dropout(x, kNanRate, "text"); },
      [](const Operand& x, int64_t n) {
        return Dropout(x, 0.5, Elsewhere(), {.noise_shape = {n, n}});
      },
      [](const Operand& x, int64_t n) { return Embedding(x, n, n); },
      [](const Operand& x, int64_t n) {
        return Embedding(x, 2, 2, {.dtype = static_cast<DType>(n)});
      },
      [](const Operand& x, int64_t n) {
        return Flatten(x, static_cast<DataFormat>(n));
      },
      [](const Operand& x, int64_t n) { return Conv1D(x, n, n); },
      [](const Operand& x, int64_t n) {
        return Conv2D(x, 2, 2, {.strides = n, .dilations = {n, n}});
      },
      [](const Operand& x, int64_t n) {
        return Conv2D(x, n, {}, {.padding = static_cast<Padding>(n)});
      },
      [](const Operand& x, int64_t n) {
        return Conv3D(x, n, {n, n});
      },
      [](const Operand& x, int64_t n) {
        return Conv2DTranspose(x, 2, n, {.strides = n});
      },
      [](const Operand& x, int64_t n) {
        return Conv3DTranspose(x, n, {n, 1, n}, {.dilations = n});
      },
      [](const Operand& x, int64_t n) {
        return DepthwiseConv1D(x, n, {.depth_multiplier = n});
      },
      [](const Operand& x, int64_t n) {
        return DepthwiseConv2D(x, {n, 1}, {.strides = {1, 2}});
      },
      [](const Operand& x, int64_t n) {
        return SeparableConv1D(x, n, n, {.depth_multiplier = n});
      },
      [](const Operand& x, int64_t n) {
        return SeparableConv2D(x, n, 1, {.depth_multiplier = kHuge});
      },
      [](const Operand& x, int64_t n) {
        return BatchNorm(
            x, true,
            {.renorm = RenormOptions{.momentum = static_cast<double>(n),
                                     .min_r = kNanRate}});
      },
      [](const Operand& x, int64_t n) {
        return MaxPooling(x, n, {.strides = {n, 1, n, 1}});
      },
      [](const Operand& x, int64_t n) {
        return AveragePooling(x, std::vector<int64_t>{}, {.strides = n});
      },
      [](const Operand& x, int64_t n) {
        return GlobalMaxPooling(x, static_cast<DataFormat>(n));
      },
      [](const Operand& x, int64_t) { return GlobalAveragePooling(x); },
      [](const Operand& x, int64_t n) {
        return BatchNorm(x, Tensor(),
                         {.axis = static_cast<int>(n), .momentum = kNanRate});
      },
      [](const Operand& x, int64_t) {
        return BatchNorm(x, true, {.axis = INT_MIN, .epsilon = -1});
      },
      [](const Operand& x, int64_t) {
        return LayerNorm(x, {.first_axis = INT_MAX, .epsilon = kNanRate});
      },
      [](const Operand& x, int64_t n) { return MultiHeadAttention(x, n, n); },
      [](const Operand& x, int64_t n) {
        return MultiHeadAttention(x, 2, 2,
                                  {.value = Elsewhere(),
                                   .mask = Elsewhere(),
                                   .value_size = n,
                                   .output_size = n,
                                   .dropout = kNanRate,
                                   .training = "text"});
      },
      [](const Operand& x, int64_t) { return Gelu(x); }};
  for (size_t i = 0; i < layers.size(); ++i) {
    SCOPED_TRACE(i);
    (void)RecordedBy([&] { EXPECT_NULL(layers[i](Output(), 2)); });
    ExpectRecorded("", [&] { EXPECT_NULL(layers[i](Tensor(), 2)); });
    (void)RecordedBy([&] { (void)layers[i]("text", 2); });
    (void)RecordedBy([&] { (void)layers[i](Elsewhere(), 2); });
    for (const int64_t n :
         {INT64_MIN, int64_t{-1}, int64_t{0}, int64_t{3}, kHuge, INT64_MAX})
      for (const Shape& shape :
           {Shape(), Shape({0}), Shape({2, 3}), Shape({2, 0, 3}),
            Shape({0, 2, 2, 1}), Shape({1, 2, 2, 2, 0}), Shape({kHuge, 1})})
        for (const DType t : {DType::kFloat, DType::kInt32, DType::kString})
          (void)RecordedBy(
              [&] { (void)layers[i](Placeholder(t, PartialShape(shape)), n); });
    (void)RecordedBy([&] { (void)layers[i](Placeholder<float>(), 2); });
  }
}

// ---- Clipping ---------------------------------------------------------------

HOSTILE(ClippedNothing,
        "ClipByValue ClipByNorm ClipByAverageNorm GlobalNorm "
        "ClipByGlobalNorm") {
  (void)RecordedBy([] {
    EXPECT_NULL(ClipByValue(Output(), 0, 1));
    EXPECT_NULL(ClipByNorm(Output(), 1));
    EXPECT_NULL(ClipByAverageNorm(Output(), 1));
    EXPECT_NULL(ClipByValue(Gradient(), 0, 1));
    EXPECT_NULL(ClipByNorm(Gradient(), 1));
    EXPECT_NULL(ClipByAverageNorm(Gradient(), 1));
    EXPECT_NULL(GlobalNorm({}));
    EXPECT_NULL(GlobalNorm({Gradient()}));
    EXPECT_TRUE(ClipByGlobalNorm(std::vector<Gradient>(), 1).empty());
    EXPECT_NULL(ClipByGlobalNorm(std::vector<Gradient>{Gradient()}, 1)[0]);
    EXPECT_NULL(
        ClipByGlobalNorm(std::vector<GradAndVar>{GradAndVar()}, 1)[0].gradient);
  });
  ExpectRecorded("", [] {
    EXPECT_NULL(ClipByNorm(Constant(Tensor::Vector<float>({1, 2})), 1, {7}));
  });
  for (const Operand& limit :
       {Operand(Tensor()), Operand("text"), Operand(Elsewhere())})
    ExpectRecorded("", [&] {
      const Output x = Constant(Tensor::Vector<float>({1, 2}));
      EXPECT_NULL(ClipByValue(x, limit, 1));
      EXPECT_NULL(ClipByNorm(x, limit));
      EXPECT_NULL(ClipByAverageNorm(x, limit));
      EXPECT_NULL(
          ClipByGlobalNorm(std::vector<Gradient>{Gradient(x)}, limit)[0]);
    });
  ExpectRecorded("", [] {
    EXPECT_NULL(GlobalNorm({Gradient(Constant(Tensor::Scalar<bool>(true)))}));
  });
  (void)RecordedBy([] {
    const Output x = Constant(Tensor::Vector<float>({1, 2}));
    (void)ClipByGlobalNorm(std::vector<Gradient>{Gradient(x)}, 0.0);
    (void)ClipByGlobalNorm(std::vector<Gradient>{Gradient(x)}, kNanRate,
                           Elsewhere());
    (void)ClipByNorm(Gradient::Slices(Output(), x, Output()), -1.0);
  });
}

// ---- Moving averages, accumulation, loss scaling, L-BFGS --------------------

HOSTILE(AveragesOfNothing,
        "ExponentialMovingAverage::ExponentialMovingAverage "
        "ExponentialMovingAverage::Apply ExponentialMovingAverage::Average "
        "ExponentialMovingAverage::AverageName "
        "ExponentialMovingAverage::VariablesToRestore AssignMovingAverage") {
  for (const Operand& decay :
       {Operand(0.5), Operand(kNanRate), Operand(Tensor()), Operand("text"),
        Operand(Elsewhere()), Operand(Output())})
    (void)RecordedBy([&] {
      ExponentialMovingAverage averages(
          decay, {.num_updates = Elsewhere(), .zero_debias = true, .name = ""});
      (void)averages.Apply();
      EXPECT_EQ(averages.Apply({Var()}), nullptr);
      EXPECT_EQ(averages.Apply({}, {Output()}), nullptr);
      EXPECT_EQ(averages.Apply({Var("text", "text")}), nullptr);
      (void)averages.Apply({Var(1.0, "v")},
                           {Elsewhere(), Placeholder<float>()});
      EXPECT_NULL(averages.Average(Var()));
      EXPECT_NULL(averages.Average(Output()));
      (void)averages.AverageName(Var());
      (void)averages.VariablesToRestore();
      EXPECT_LE(averages.VariablesToRestore({Var()}).size(), 9u);
    });
  (void)RecordedBy([] {
    EXPECT_EQ(AssignMovingAverage(Var(), 1.0, 0.5), nullptr);
    const Var v(1.0, "v");
    EXPECT_EQ(AssignMovingAverage(v, "text", 0.5), nullptr);
    EXPECT_EQ(AssignMovingAverage(v, Output(), 0.5, true), nullptr);
    EXPECT_EQ(AssignMovingAverage(v, 1.0, "text"), nullptr);
  });
}

HOSTILE(AccumulatedNothing,
        "GradientAccumulator::GradientAccumulator "
        "GradientAccumulator::Minimize GradientAccumulator::ApplyGradients "
        "GradientAccumulator::Sum GradientAccumulator::count "
        "MinimizeInMicroBatches") {
  for (const int64_t every : {INT64_MIN, int64_t{0}, int64_t{2}, INT64_MAX})
    (void)RecordedBy([&] {
      AdamOptimizer adam(0.1);
      GradientAccumulator accumulator(adam, every);
      EXPECT_NULL(accumulator.Sum(Var()));
      EXPECT_NULL(accumulator.count());
      EXPECT_EQ(accumulator.Minimize(Output()), nullptr);
      EXPECT_EQ(accumulator.Minimize(Constant(1.0f)), nullptr);
      EXPECT_EQ(accumulator.ApplyGradients({}), nullptr);
      EXPECT_EQ(accumulator.ApplyGradients({{Gradient(), Var()}}), nullptr);
      EXPECT_EQ(accumulator.ApplyGradients({{Constant(1.0f), Var()}}), nullptr);
      const Var v(1.0, "v");
      EXPECT_EQ(accumulator.ApplyGradients({{Elsewhere(), v}}), nullptr);
      EXPECT_EQ(accumulator.ApplyGradients({{Gradient(), v}}), nullptr);
    });
  (void)RecordedBy([] {
    AdamOptimizer adam(0.1);
    EXPECT_EQ(MinimizeInMicroBatches(adam, 2, nullptr).train, nullptr);
    EXPECT_EQ(
        MinimizeInMicroBatches(adam, 2, [](Output) { return Output(); }).train,
        nullptr);
    const Var v(1.0, "v");
    const auto loss = [&](Output) { return v * v; };
    EXPECT_EQ(MinimizeInMicroBatches(adam, "text", loss).train, nullptr);
    EXPECT_EQ(
        MinimizeInMicroBatches(adam, 2, loss, {.variables = {Var()}}).train,
        nullptr);
    EXPECT_EQ(MinimizeInMicroBatches(adam, 2, [](Output i) { return i; }).train,
              nullptr);
  });
}

HOSTILE(ReducedNothing,
        "AllReduce AllGather ReduceScatter Broadcast AllReduceGradients "
        "AllReduceOptimizer::AllReduceOptimizer AllReduceOptimizer::Minimize "
        "AllReduceOptimizer::ApplyGradients "
        "AllReduceOptimizer::BroadcastVariables") {
  for (const int64_t bad : {INT64_MIN, int64_t{-1}, int64_t{0}, INT64_MAX})
    (void)RecordedBy([&] {
      const CollectiveOptions o = {
          .group = {.size = bad, .key = bad, .rank = bad},
          .instance = bad,
          .algorithm = "none"};
      for (const Operand& x : {Operand(Output()), Operand("text"),
                               Operand(Elsewhere()), Operand(1.0f)}) {
        (void)AllReduce(x, static_cast<Reduction>(77), o);
        (void)AllGather(x, o);
        (void)ReduceScatter(x, Reduction::kMean, o);
        (void)Broadcast(x, true, o);
        (void)Broadcast(x, false, o);
      }
      GradientDescentOptimizer sgd(0.1);
      AllReduceOptimizer mean(sgd, {.group = o.group, .bucket_bytes = bad});
      EXPECT_EQ(mean.Minimize(Output()), nullptr);
      EXPECT_EQ(mean.ApplyGradients({}), nullptr);
      EXPECT_EQ(mean.ApplyGradients({{Gradient(), Var()}}), nullptr);
      EXPECT_EQ(mean.ApplyGradients({{Constant(1.0f), Var()}}), nullptr);
      EXPECT_EQ(mean.BroadcastVariables(true, {Var()}), nullptr);
      const Var v(1.0, "v");
      EXPECT_EQ(mean.ApplyGradients({{Elsewhere(), v}}), nullptr);
      EXPECT_EQ(mean.ApplyGradients({{Gradient(), v}}), nullptr);
      EXPECT_FALSE(AllReduceGradients({{Constant(1.0f), Var()}}, {}).ok());
      EXPECT_FALSE(
          AllReduceGradients({{Gradient(Constant(int32_t{1})), v}}, {}).ok());
    });
}

HOSTILE(ScaledNothing,
        "LossScaling::LossScaling LossScaling::Minimize "
        "LossScaling::ComputeGradients LossScaling::ApplyGradients "
        "LossScaling::scale LossScaling::good_steps") {
  for (const LossScalingOptions& options :
       {LossScalingOptions{}, LossScalingOptions{.initial = kNanRate},
        LossScalingOptions{.growth_steps = INT64_MIN},
        LossScalingOptions{.factor = kNanRate}})
    (void)RecordedBy([&] {
      AdamOptimizer adam(0.1);
      LossScaling scaling(options);
      EXPECT_NULL(scaling.scale());
      EXPECT_NULL(scaling.good_steps());
      EXPECT_EQ(scaling.Minimize(adam, Output()), nullptr);
      EXPECT_EQ(scaling.Minimize(adam, Constant(int32_t{1})), nullptr);
      EXPECT_FALSE(scaling.ComputeGradients(adam, Elsewhere()).ok());
      EXPECT_EQ(scaling.ApplyGradients(adam, {}), nullptr);
      EXPECT_EQ(scaling.ApplyGradients(adam, {{Constant(1.0f), Var()}}),
                nullptr);
      const Var v(1.0, "v");
      EXPECT_EQ(scaling.ApplyGradients(adam, {{Elsewhere(), v}}), nullptr);
      (void)scaling.Minimize(adam, v * v, {.grad_loss = Elsewhere()});
    });
}

HOSTILE(LbfgsOfNothing, "Lbfgs") {
  const auto first = [](const std::vector<Output>& at) { return at[0]; };
  ExpectRecorded("expected variables, got none",
                 [&] { EXPECT_EQ(Lbfgs({}, first).train, nullptr); });
  ExpectRecorded("expected a variable, got none",
                 [&] { EXPECT_EQ(Lbfgs({Var()}, first).train, nullptr); });
  ExpectRecorded("expected a function", [] {
    EXPECT_EQ(Lbfgs({Var(1.0, "v")}, nullptr).train, nullptr);
  });
  for (const int n : {INT_MIN, 0, INT_MAX})
    ExpectRecorded("in [1, 100000]", [&] {
      EXPECT_EQ(Lbfgs({Var(1.0, "v")}, first, {.max_search = n}).train,
                nullptr);
    });
  (void)RecordedBy([] {
    EXPECT_EQ(
        Lbfgs({Var(1.0, "v")}, [](const auto&) { return Output(); }).train,
        nullptr);
    EXPECT_EQ(
        Lbfgs({Var(1.0, "v")}, [](const auto&) { return Elsewhere(); }).train,
        nullptr);
  });
  ExpectRecorded("expected a scalar loss", [] {
    EXPECT_EQ(
        Lbfgs({Var(1.0, "v")}, [](const auto&) { return Constant(int32_t{1}); })
            .train,
        nullptr);
  });
}

}  // namespace
}  // namespace sluice
