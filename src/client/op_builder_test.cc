#include "client/testing/client_test_util.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using OperatorsTest = ClientTest;
using OpBuilderTest = ClientTest;

TEST_F(OperatorsTest, NumbersTakeTheTypeOfTheOtherOperand) {
  for (DType t : {DType::kDouble, DType::kHalf, DType::kInt64, DType::kInt32}) {
    const Output x = Placeholder(t, {});
    EXPECT_EQ((x + 1).dtype(), t);
    EXPECT_EQ((2 * x).dtype(), t);
    EXPECT_EQ((-x).dtype(), t);
  }
  const Output x = Placeholder<double>();
  EXPECT_EQ((x - 0.5f).dtype(), DType::kDouble);
  EXPECT_EQ((1 / x).dtype(), DType::kDouble);
  EXPECT_EQ((x < 1).dtype(), DType::kBool);
  EXPECT_TRUE(graph_.status().ok()) << graph_.status();
}

TEST_F(OperatorsTest, ComputeElementwiseResults) {
  const Output x = Constant(Tensor::Vector<float>({1, 2, -3}));
  EXPECT_THAT(Values<float>(2 * x + 1), ElementsAre(3, 5, -5));
  EXPECT_THAT(Values<float>((1 - x) / 2), ElementsAre(0, -0.5f, 2));
  EXPECT_THAT(Values<bool>(x >= 2), ElementsAre(false, true, false));
  const Output i = Constant(Tensor::Vector<int32_t>({7, -7}));
  EXPECT_THAT(Values<int32_t>(i / 2), ElementsAre(3, -3));
  EXPECT_THAT(Values<int32_t>(i % 4), ElementsAre(3, -3));
}

TEST_F(OperatorsTest, ErrorsNameTheLine) {
  const Output a = Constant(Tensor::Vector<float>({1, 2}));
  const Output b = Constant(Tensor::Vector<float>({1, 2, 3}));
  const Output c = a + b;
  const int line = __LINE__ - 1;
  EXPECT_FALSE(c.valid());
  EXPECT_THAT(std::string(graph_.status().message()),
              HasSubstr(Here(line, __FILE__)));
}

TEST_F(OpBuilderTest, ErrorsNameTheLineOfTheCall) {
  const Output a = Constant(Tensor(DType::kFloat, Shape({2, 3})));
  const Output bad = ops::MatMul(a, a);
  const int line = __LINE__ - 1;
  EXPECT_FALSE(bad.valid());
  EXPECT_THAT(std::string(graph_.status().message()),
              HasSubstr(Here(line, __FILE__)));
}

TEST_F(OpBuilderTest, NumberOutsideTheTypeIsAnError) {
  const Output x = Placeholder(DType::kUint8, {});
  EXPECT_FALSE((x + 300).valid());
  const int line = __LINE__ - 1;
  EXPECT_THAT(std::string(graph_.status().message()),
              HasSubstr("expected uint8, got"));
  EXPECT_THAT(std::string(graph_.status().message()),
              HasSubstr(Here(line, __FILE__)));
}

TEST_F(OpBuilderTest, AttributesAndNamesAreFields) {
  const Output a = Placeholder<float>({2, 3});
  const Output y = ops::MatMul(a, a, {.transpose_b = true, .name = "gram"});
  ASSERT_TRUE(y.valid()) << graph_.status();
  EXPECT_EQ(y.node->name(), "gram");
  EXPECT_TRUE(y.node->BoolAttr("transpose_b"));
  EXPECT_FALSE(y.node->BoolAttr("transpose_a"));
  EXPECT_EQ(y.shape(), (PartialShape{2, 2}));
}

TEST_F(OpBuilderTest, BracedListsBecomeVectors) {
  const Output x =
      Constant(Tensor::Of<float>(Shape({2, 3}), {1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(ops::Reshape(x, {-1, 2}).shape(), (PartialShape{3, 2}));
  EXPECT_THAT(Values<float>(ops::Sum(x, {0, 1})), ElementsAre(21));
  EXPECT_THAT(Values<float>(ops::Sum(x, 0)), ElementsAre(5, 7, 9));
}

TEST_F(OpBuilderTest, NumbersWithoutTensorOperandAreIntOrFloat) {
  EXPECT_EQ(ops::Maximum(1, 2).dtype(), DType::kInt32);
  EXPECT_EQ(ops::Maximum(1, 2.5).dtype(), DType::kFloat);
  EXPECT_EQ(ops::Sqrt(4).dtype(), DType::kFloat);
  EXPECT_EQ(ops::Cast(1.5, DType::kInt64).dtype(), DType::kInt64);
}

TEST_F(OpBuilderTest, TakesAndReturnsLists) {
  const Output x = Constant(Tensor::Vector<float>({1, 2, 3, 4}));
  const std::vector<Output> parts = ops::Split(0, x, 2);
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_THAT(Values<float>(parts[1]), ElementsAre(3, 4));
  EXPECT_THAT(Values<float>(ops::ConcatV2({parts[1], parts[0]}, 0)),
              ElementsAre(3, 4, 1, 2));
  EXPECT_THAT(Values<float>(ops::ConcatV2(parts, 0)), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(Values<float>(ops::Pack({1, 2.5})), ElementsAre(1, 2.5f));
}

TEST_F(OpBuilderTest, SeveralListsHaveTheLengthsGiven) {
  const Output serialized = Constant(Tensor::Vector<std::string>({""}));
  const auto key = [](const char* k) { return Tensor::Scalar<std::string>(k); };
  const Tensor none = *Tensor::Zeros(DType::kString, {0});
  const auto parsed =
      ops::ParseExample(serialized, none, {key("a"), key("b")}, {key("c")},
                        {Tensor::Vector<float>({5})},
                        {DType::kInt64, DType::kString}, {PartialShape({1})});
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  EXPECT_EQ(parsed.sparse_values.size(), 2U);
  EXPECT_EQ(parsed.sparse_values[1].dtype(), DType::kString);
  ASSERT_EQ(parsed.dense_values.size(), 1U);
  EXPECT_THAT(Values<float>(parsed.dense_values[0]), ElementsAre(5));
}

TEST_F(OpBuilderTest, SeveralListsHaveTheTypesGiven) {
  const Output at = Constant(Tensor::Of<int64_t>({1, 2}, {0, 0}));
  const Output size = Constant(Tensor::Vector<int64_t>({1, 1}));
  const auto crossed = ops::SparseCross(
      {at, at},
      {Constant(Tensor::Vector<std::string>({"a"})),
       Constant(Tensor::Vector<std::string>({"b"}))},
      {size, size}, {}, /*hashed_output=*/false, /*num_buckets=*/0,
      /*hash_key=*/1, DType::kString, DType::kString);
  ASSERT_TRUE(crossed.output_values.valid()) << graph_.status();
  EXPECT_THAT(Values<std::string>(crossed.output_values), ElementsAre("a_X_b"));
}

TEST_F(OpBuilderTest, FailedCallReturnsListsOfTheirLength) {
  const std::vector<Output> parts =
      ops::Split(0, Constant(Tensor::Scalar<float>(1)), 3);
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_FALSE(parts[2].valid());
  EXPECT_FALSE(ops::Relu(parts[2]).valid());
  EXPECT_FALSE(graph_.status().ok());
}

TEST_F(OpBuilderTest, SeveralOutputsAreAStruct) {
  const Output logits = Placeholder<float>({4, 10});
  const auto [loss, backprop] =
      ops::SoftmaxCrossEntropyWithLogits(logits, Placeholder<float>({4, 10}));
  EXPECT_EQ(loss.shape(), (PartialShape{4}));
  EXPECT_EQ(backprop.shape(), (PartialShape{4, 10}));
}

TEST_F(OpBuilderTest, OpsWithoutOutputsReturnTheirNode) {
  Node* n = ops::NoOp({.name = "done"});
  ASSERT_NE(n, nullptr);
  EXPECT_EQ(n->name(), "done");
  RunNode(n);
}

TEST_F(OpBuilderTest, VariableIsReadAtEachUse) {
  const Var v(1.0, "v");
  Initialize();
  Node* add = v.AssignAdd(10);
  Output before = v + 0, after;
  {
    const ControlDependencies then({add});
    after = v + 0;
  }
  EXPECT_THAT(Values<float>(after), ElementsAre(11));
  EXPECT_FALSE(before.node->input(0).SameAs(after.node->input(0)));
}

}  // namespace
}  // namespace sluice
