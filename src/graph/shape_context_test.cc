#include "graph/shape_context.h"

#include "gmock/gmock.h"
#include "graph/builder.h"
#include "graph/graph.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

Output Fed(const PartialShape& shape, DType dtype = DType::kFloat) {
  return Build("Placeholder", {}, {{"dtype", dtype}, {"shape", shape}});
}

Output ShapeOf(Output x) { return Build("Shape", {x}); }

Output Slice1(Output x, int begin, int end, int begin_mask = 0,
              int end_mask = 0) {
  return Build("StridedSlice",
               {x, IntVector({begin}), IntVector({end}), IntVector({1})},
               {{"begin_mask", begin_mask}, {"end_mask", end_mask}});
}

Output Element(Output x, int i) {
  return Build("StridedSlice",
               {x, IntVector({i}), IntVector({i + 1}), IntVector({1})},
               {{"shrink_axis_mask", 1}});
}

std::string AsShape(Output o) {
  const Result<PartialShape> s = ConstantAsShape(o);
  return s.ok() ? s->ToString() : std::string(s.status().message());
}

class ConstantValueTest : public testing::Test {
 protected:
  Graph graph_;
  WithGraph use_{graph_};
};

TEST_F(ConstantValueTest, UnknownBatchIsKeptBySlicesAndConcat) {
  const Output shape = ShapeOf(Fed({-1, 28, 28}));
  EXPECT_EQ(AsShape(shape), "[?,28,28]");
  const Output tail = Slice1(shape, 1, 0, 0, 1);
  EXPECT_EQ(AsShape(tail), "[28,28]");
  const Output joined =
      Build("ConcatV2", {Slice1(shape, 0, 1), tail, Constant(int32_t{0})},
            {{"N", 2}});
  EXPECT_EQ(AsShape(joined), "[?,28,28]");
  const Output pixels = Build("Prod", {tail, IntVector({0})});
  const Output flat = Build("Pack", {Element(shape, 0), pixels}, {{"N", 2}});
  EXPECT_EQ(AsShape(flat), "[?,784]");
  EXPECT_FALSE(ConstantValue(flat).has_value());
  ASSERT_TRUE(ConstantValue(pixels).has_value());
  EXPECT_EQ(ConstantValue(pixels)->scalar<int32_t>(), 784);
}

TEST_F(ConstantValueTest, PackIsPartlyKnownWithInputsOfUnknownShape) {
  const Output n = Build("Placeholder", {}, {{"dtype", DType::kInt32}});
  const auto pack = [](const Output& a, const Output& b) {
    return Build("Pack", {a, b}, {{"N", 2}});
  };
  EXPECT_EQ(AsShape(pack(Constant(int32_t{16}), n)), "[16,?]");
  EXPECT_EQ(AsShape(pack(n, n)), "<unknown>");
}

TEST_F(ConstantValueTest, ShapeThatOverflowsItsTypeIsNotConstant) {
  const Output x = Fed({int64_t{1} << 31, 3});
  EXPECT_FALSE(ConstantValue(ShapeOf(x)).has_value());
  const Output wide = Build("Shape", {x}, {{"out_type", DType::kInt64}});
  ASSERT_TRUE(ConstantValue(wide).has_value());
  EXPECT_EQ(ConstantValue(wide)->data<int64_t>()[0], int64_t{1} << 31);
}

TEST_F(ConstantValueTest, ReshapeInfersThroughArithmetic) {
  const Output x = Fed({-1, 4, 6});
  const Output n =
      Build("Mul", {Element(ShapeOf(x), 1), Element(ShapeOf(x), 2)});
  const Output y = Build(
      "Reshape", {x, Build("Pack", {Constant(int32_t{-1}), n}, {{"N", 2}})});
  EXPECT_EQ(y.shape().ToString(), "[?,24]");
}

TEST_F(ConstantValueTest, IntegerFoldingMatchesKernels) {
  const auto value = [](Output o) {
    const std::optional<Tensor> t = ConstantValue(o);
    return t ? t->Summarize(-1) : std::string("unknown");
  };
  const Output a = IntVector({-7, 8, 3}), b = IntVector({2, -3, 1});
  EXPECT_EQ(value(Build("AddV2", {a, b})), "-5 5 4");
  EXPECT_EQ(value(Build("Sub", {a, b})), "-9 11 2");
  EXPECT_EQ(value(Build("FloorDiv", {a, b})), "-4 -3 3");
  EXPECT_EQ(value(Build("FloorMod", {a, b})), "1 -1 0");
  EXPECT_EQ(value(Build("Maximum", {a, b})), "2 8 3");
  EXPECT_EQ(value(Build("Range", {Constant(1), Constant(8), Constant(3)})),
            "1 4 7");
  EXPECT_EQ(value(Build("Fill", {IntVector({2}), Constant(5)})), "5 5");
  EXPECT_EQ(value(Build("GatherV2", {a, IntVector({2, 0}), Constant(0)},
                        {{"batch_dims", 0}})),
            "3 -7");
  EXPECT_EQ(value(Build("Slice", {a, IntVector({1}), IntVector({-1})})), "8 3");
  EXPECT_EQ(value(Build("Mul", {Constant(1 << 30), Constant(4)})), "0");
  EXPECT_EQ(value(Build("FloorDiv", {Constant(1), Constant(0)})), "unknown");
}

TEST_F(ConstantValueTest, FedValuesAreUnknownButTheirLengthGivesTheRank) {
  EXPECT_EQ(AsShape(Fed({3}, DType::kInt32)), "[?,?,?]");
  EXPECT_EQ(AsShape(Fed({-1}, DType::kInt32)), "<unknown>");
  EXPECT_EQ(AsShape(Constant(int32_t{-1})), "<unknown>");
  EXPECT_THAT(AsShape(IntVector({2, -2})), testing::HasSubstr(">= -1"));
  EXPECT_THAT(AsShape(Fed({2, 2}, DType::kInt32)),
              testing::HasSubstr("expected a vector"));
  const Output with_default =
      Build("PlaceholderWithDefault", {IntVector({2, 3})},
            {{"shape", PartialShape({2})}});
  EXPECT_FALSE(ConstantValue(with_default).has_value());
}

// Doubling a value n times visits 2^n paths unless the search is bounded.
TEST_F(ConstantValueTest, CostIsBoundedInDeepAndWideGraphs) {
  Output x = Fed({}, DType::kInt32);
  for (int i = 0; i < 200; ++i) x = Build("Mul", {x, x});
  EXPECT_FALSE(ConstantValue(x).has_value());
  Output y = Constant(int32_t{1});
  for (int i = 0; i < 100000; ++i) y = Build("Identity", {y});
  ConstantValue(y);
}

TEST(ShapeArithmeticTest, WindowSizesFollowPadding) {
  int64_t before = -1, after = -1;
  EXPECT_EQ(*WindowOutputSize(7, 3, 1, 2, "SAME", &before, &after), 4);
  EXPECT_EQ(before, 1);
  EXPECT_EQ(after, 1);
  EXPECT_EQ(*WindowOutputSize(7, 3, 2, 1, "VALID", &before, &after), 3);
  EXPECT_EQ(before, 0);
  before = 2, after = 1;
  EXPECT_EQ(*WindowOutputSize(7, 3, 1, 1, "EXPLICIT", &before, &after), 8);
  EXPECT_EQ(*WindowOutputSize(-1, 3, 1, 1, "VALID", &before, &after), -1);
  EXPECT_FALSE(WindowOutputSize(2, 9, 1, 1, "VALID", &before, &after).ok());
  EXPECT_FALSE(WindowOutputSize(2, 1, 1, 0, "VALID", &before, &after).ok());
  EXPECT_FALSE(
      WindowOutputSize(2, INT64_MAX, 9, 1, "VALID", &before, &after).ok());
  EXPECT_FALSE(
      WindowOutputSize(3, INT64_MAX, 1, 1, "SAME", &before, &after).ok());
}

TEST(ShapeArithmeticTest, BroadcastingKeepsKnownDimensions) {
  EXPECT_EQ(BroadcastShapes({-1, 3}, {1})->ToString(), "[?,3]");
  EXPECT_EQ(BroadcastShapes({-1}, {5})->ToString(), "[5]");
  EXPECT_EQ(BroadcastShapes({-1}, {1})->ToString(), "[?]");
  EXPECT_EQ(BroadcastShapes({0}, {1})->ToString(), "[0]");
  EXPECT_EQ(BroadcastShapes(PartialShape(), {1})->ToString(), "<unknown>");
  EXPECT_FALSE(BroadcastShapes({2}, {3}).ok());
  EXPECT_FALSE(CanonicalAxis(2, 2).ok());
  EXPECT_EQ(*CanonicalAxis(-2, 2), 0);
  EXPECT_FALSE(MergeDim(2, 3).ok());
}

}  // namespace
}  // namespace sluice
