#include "client/testing/client_test_util.h"

namespace sluice {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using VarTest = ClientTest;
using InitializersTest = ClientTest;

TEST_F(VarTest, StartsWithInitialValueAndIsUpdated) {
  for (bool reference : {false, true}) {
    const Var v(Constant(Tensor::Vector<float>({1, 2})), "v",
                {.reference = reference});
    ASSERT_TRUE(v.valid()) << graph_.status();
    EXPECT_EQ(v.dtype(), DType::kFloat);
    EXPECT_EQ(v.shape(), (PartialShape{2}));
    EXPECT_EQ(v.is_reference(), reference);
    EXPECT_THAT(Values<bool>(v.IsInitialized()), ElementsAre(false));
    RunNode(v.initializer());
    EXPECT_THAT(Values<bool>(v.IsInitialized()), ElementsAre(true));
    EXPECT_THAT(Values<float>(v), ElementsAre(1, 2));
    RunNode(v.AssignAdd(Constant(Tensor::Vector<float>({1, 1}))));
    RunNode(v.AssignSub(Constant(Tensor::Vector<float>({0, 5}))));
    EXPECT_THAT(Values<float>(v * 2), ElementsAre(4, -4));
    RunNode(v.Assign(Tensor::Vector<float>({7, 8})));
    EXPECT_THAT(Values<float>(v.value()), ElementsAre(7, 8));
  }
}

TEST_F(InitializersTest, VariancesAreThoseOfTheirFans) {
  constexpr int64_t kSeed = 5;
  SCOPED_TRACE(kSeed);
  const Shape shape({3, 50, 80});  // Fans 150 and 240.
  const auto variance = [&](const InitializerFn& initializer) {
    double sum = 0, squares = 0;
    const std::vector<float> values =
        Values<float>(initializer(shape, DType::kFloat));
    for (float v : values) {
      sum += v;
      squares += static_cast<double>(v) * v;
    }
    const auto n = static_cast<double>(values.size());
    EXPECT_NEAR(sum / n, 0, 0.01);
    return squares / n;
  };
  EXPECT_NEAR(variance(init::GlorotUniform(kSeed)) * 195, 1, 0.05);
  EXPECT_NEAR(variance(init::GlorotNormal(kSeed)) * 195, 1, 0.05);
  EXPECT_NEAR(variance(init::HeUniform(kSeed)) * 75, 1, 0.05);
  EXPECT_NEAR(variance(init::HeNormal(kSeed)) * 75, 1, 0.05);
  EXPECT_NEAR(variance(init::LecunUniform(kSeed)) * 150, 1, 0.05);
  EXPECT_NEAR(variance(init::LecunNormal(kSeed)) * 150, 1, 0.05);
  EXPECT_NEAR(variance(init::VarianceScaling(
                  3, init::Fan::kOut, init::Distribution::kNormal, kSeed)) *
                  80,
              1, 0.05);
  EXPECT_FALSE(init::VarianceScaling(0)(shape, DType::kFloat).valid());
}

TEST_F(InitializersTest, OrthogonalMatricesAre) {
  for (const Shape& shape : {Shape({4, 6}), Shape({6, 4}), Shape({2, 3, 4})}) {
    SCOPED_TRACE(shape.ToString());
    const Output q =
        ops::Reshape(init::Orthogonal(2, 3)(shape, DType::kDouble),
                     {-1, static_cast<int>(shape.dim(shape.rank() - 1))});
    const bool wide = shape == Shape({4, 6});
    const Tensor product =
        Eval(ops::MatMul(q, q, {.transpose_a = !wide, .transpose_b = wide}));
    for (int64_t i = 0; i < 4; ++i)
      for (int64_t j = 0; j < 4; ++j)
        EXPECT_NEAR(product.data<double>()[4 * i + j], i == j ? 4 : 0, 1e-12);
  }
  EXPECT_THAT(Values<float>(init::Identity(3)(Shape({2, 3}), DType::kFloat)),
              ElementsAre(3, 0, 0, 0, 3, 0));
  EXPECT_FALSE(init::Orthogonal()(Shape({3}), DType::kFloat).valid());
  EXPECT_FALSE(init::Identity()(Shape({3}), DType::kFloat).valid());
}

TEST_F(VarTest, ReadBeforeInitializationNamesTheVariable) {
  const Var v(0.0, "lonely");
  const Status s = session_.Run(v).status();
  EXPECT_EQ(s.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(s.message()), HasSubstr("lonely"));
}

TEST_F(VarTest, NamesFollowScopesAndAreUnique) {
  const NameScope scope("layer");
  EXPECT_EQ(Var(1, "w").name(), "layer/w");
  EXPECT_EQ(Var(1, "w").name(), "layer/w_1");
  EXPECT_EQ(Var(1).name(), "layer/Variable");
  const Var w = Var::FromHandle(*graph_.FindOutput("layer/w"));
  EXPECT_EQ(w.initializer()->name(), "layer/w/Assign");
  EXPECT_EQ(w.value().node->name(), "layer/w/Read/ReadVariableOp");
}

TEST_F(VarTest, CollectionsKeepOrder) {
  const Var a(1, "a"), b(2, "b", {.trainable = false});
  const Var c(3, "c", {.trainable = false, .collections = {kLocalVariables}});
  const auto is = [](const Var& v) {
    return ::testing::Truly([v](const Var& got) { return got.SameAs(v); });
  };
  EXPECT_THAT(GlobalVariables(), ElementsAre(is(a), is(b)));
  EXPECT_THAT(TrainableVariables(), ElementsAre(is(a)));
  EXPECT_THAT(VariablesIn(kLocalVariables), ElementsAre(is(c)));
  EXPECT_TRUE(VariablesIn("none such").empty());
}

TEST_F(VarTest, GetVariableReturnsExistingVariable) {
  const Var a = GetVariable("w", {2, 3}, init::Ones());
  const Var b = GetVariable("w", {2, 3}, init::Zeros());
  EXPECT_TRUE(a.SameAs(b));
  EXPECT_EQ(GlobalVariables().size(), 1u);
  Initialize();
  EXPECT_THAT(Values<float>(b), Each(1));
  EXPECT_FALSE(GetVariable("w", {3, 2}).valid());
  EXPECT_THAT(std::string(graph_.status().message()),
              HasSubstr("expected float[2,3] as it was made, got float[3,2]"));
}

TEST_F(VarTest, IsNullWithoutInitialValue) {
  const Var v{Output()};
  EXPECT_FALSE(v.valid());
  EXPECT_FALSE((v.Read()).valid());
  EXPECT_EQ(v.Assign(1), nullptr);
  EXPECT_EQ(v.name(), "");
  EXPECT_FALSE(graph_.status().ok());
}

TEST_F(VarTest, PlaceholdersHaveTheShapeInBraces) {
  EXPECT_EQ(Placeholder<float>({-1, 784}).shape(), (PartialShape{-1, 784}));
  EXPECT_EQ(Placeholder<float>({}).shape(), PartialShape::Scalar());
  EXPECT_EQ(Placeholder(DType::kInt32, {}, "n").shape(),
            PartialShape::Scalar());
  EXPECT_FALSE(Placeholder<float>().shape().rank_known());
  EXPECT_EQ(Placeholder<float>(PartialShape::OfRank(2), "x").shape(),
            PartialShape::OfRank(2));
}

TEST_F(InitializersTest, FillTheRequestedShape) {
  EXPECT_THAT(Values<float>(Zeros({2, 2})), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(Values<int32_t>(Ones({3}, DType::kInt32)), ElementsAre(1, 1, 1));
  EXPECT_THAT(Values<double>(init::Constant(0.5)(Shape{2}, DType::kDouble)),
              ElementsAre(0.5, 0.5));
  EXPECT_EQ(Eval(Zeros({0, 4})).num_elements(), 0);
  EXPECT_THAT(Values<float>(Ones({})), ElementsAre(1));
}

TEST_F(InitializersTest, RandomValuesStayInRange) {
  SetRandomSeed(7);
  for (float v : Values<float>(RandomUniform({1000}, -2, 3))) {
    EXPECT_GE(v, -2);
    EXPECT_LT(v, 3);
  }
  for (float v : Values<float>(TruncatedNormal({1000}, 1, 0.5))) {
    EXPECT_GE(v, 0);
    EXPECT_LE(v, 2);
  }
  const float limit = std::sqrt(6.0f / (30 + 70));
  for (float v :
       Values<float>(init::GlorotUniform()(Shape{30, 70}, DType::kFloat)))
    EXPECT_LE(std::abs(v), limit);
  for (int32_t v :
       Values<int32_t>(RandomUniform({100}, 3, 9, {.dtype = DType::kInt32}))) {
    EXPECT_GE(v, 3);
    EXPECT_LT(v, 9);
  }
}

TEST_F(InitializersTest, SeedsMatchTensorFlow) {
  EXPECT_EQ(SeedsFor({}), std::make_pair(int64_t{0}, int64_t{0}));
  EXPECT_EQ(SeedsFor(5), std::make_pair(int64_t{87654321}, int64_t{5}));
  SetRandomSeed(11);
  EXPECT_EQ(SeedsFor(5), std::make_pair(int64_t{11}, int64_t{5}));
  for (const int64_t before : {0, 1, 2}) {
    Constant(1);  // (Only ops that take a seed are counted.)
    EXPECT_EQ(SeedsFor({}), std::make_pair(int64_t{11}, before));
  }
  SetRandomSeed(0);
  EXPECT_EQ(SeedsFor(0), std::make_pair(int64_t{0}, int64_t{INT32_MAX}));
}

TEST_F(InitializersTest, BuildersOfRandomOpsTakeTheGraphsSeed) {
  SetRandomSeed(11);
  const Output first = ops::RandomUniform({8}, DType::kFloat);
  const Output second = ops::RandomUniform({8}, DType::kFloat);
  const Output own =
      ops::RandomUniform({8}, DType::kFloat, {.seed = 11, .seed2 = 1});
  const std::vector<float> values = Values<float>(second);
  EXPECT_NE(values, Values<float>(first));
  EXPECT_EQ(values, Values<float>(own));
}

TEST_F(InitializersTest, EqualSeedsGiveEqualNumbers) {
  const Output a = RandomNormal({10}, 0, 1, {.seed = 3});
  const Output b = RandomNormal({10}, 0, 1, {.seed = 3});
  const Output c = RandomNormal({10}, 0, 1, {.seed = 4});
  const std::vector<float> first = Values<float>(a);
  EXPECT_EQ(first, Values<float>(b));
  EXPECT_NE(first, Values<float>(c));
}

}  // namespace
}  // namespace sluice
