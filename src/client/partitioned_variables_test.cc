#include "client/partitioned_variables.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sluice/sluice.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<float> Floats(const Tensor& t) {
  const auto flat = t.flat<float>();
  return {flat.begin(), flat.end()};
}

TEST(PartitionersTest, CountsAreTensorFlows) {
  // Recorded from tf.compat.v1 2.21.
  const Shape shape({100, 8});
  EXPECT_THAT(FixedSizePartitioner(3)(shape, DType::kFloat), ElementsAre(3, 1));
  EXPECT_THAT(FixedSizePartitioner(20, 1)(shape, DType::kFloat),
              ElementsAre(1, 8));
  // 32 bytes a row: 31 rows in 1000 bytes.
  EXPECT_THAT(VariableAxisSizePartitioner(1000)(shape, DType::kFloat),
              ElementsAre(4, 1));
  EXPECT_THAT(VariableAxisSizePartitioner(1)(shape, DType::kFloat),
              ElementsAre(100, 1));
  EXPECT_THAT(VariableAxisSizePartitioner(1000, 0, 16, 2)(shape, DType::kFloat),
              ElementsAre(2, 1));
  EXPECT_THAT(VariableAxisSizePartitioner(1000, 0, 10)(shape, DType::kString),
              ElementsAre(9, 1));
  // 3200 bytes.
  EXPECT_THAT(MinMaxVariablePartitioner(10, 0, 1000)(shape, DType::kFloat),
              ElementsAre(4, 1));
  EXPECT_THAT(MinMaxVariablePartitioner(3, 0, 1000)(shape, DType::kFloat),
              ElementsAre(3, 1));
  EXPECT_THAT(MinMaxVariablePartitioner(3)(shape, DType::kFloat),
              ElementsAre(1, 1));
}

class PartitionedVarTest : public ::testing::Test {
 protected:
  std::vector<float> Run(const Output& y) {
    const Result<Tensor> out = session_.Run({}, y);
    EXPECT_TRUE(out.ok()) << out.status();
    return out.ok() ? Floats(*out) : std::vector<float>();
  }
  void Initialize() {
    const Status s = session_.RunTargets({GlobalVariablesInitializer()});
    EXPECT_TRUE(s.ok()) << s;
  }
  // The error of a variable whose partitioner returns `counts`.
  std::string ErrorOf(const std::vector<int64_t>& counts, const Shape& shape) {
    Graph g;
    const WithGraph use(g);
    const PartitionedVar v = GetPartitionedVariable(
        "v", shape, [=](const Shape&, DType) { return counts; }, init::Zeros());
    EXPECT_FALSE(v.valid());
    return g.status().ToString();
  }

  Graph graph_;
  const WithGraph use_{graph_};
  Session session_{graph_};
};

TEST_F(PartitionedVarTest, FirstPartsAreLongerByOne) {
  const PartitionedVar v = GetPartitionedVariable(
      "v", {2, 7}, FixedSizePartitioner(3, 1), init::Zeros());
  ASSERT_TRUE(v.valid()) << graph_.status();
  ASSERT_EQ(v.parts().size(), 3u);
  EXPECT_EQ(v.axis(), 1);
  EXPECT_THAT(v.offsets(), ElementsAre(0, 3, 5, 7));
  EXPECT_EQ(v.parts()[0].name(), "v/part_0");
  EXPECT_EQ(v.parts()[2].name(), "v/part_2");
  EXPECT_EQ(v.parts()[1].shape(), PartialShape({2, 2}));
  EXPECT_EQ(PartOf(v.parts()[0])->ShapeAndSlice(), "2 7 -:0,3");
  EXPECT_EQ(PartOf(v.parts()[1])->ShapeAndSlice(), "2 7 -:3,2");
  EXPECT_EQ(PartOf(v.parts()[1])->name, "v");
  EXPECT_EQ(TrainableVariables().size(), 3u);
}

TEST_F(PartitionedVarTest, ReadsAndAssignsAsOneTensor) {
  for (const int axis : {0, 1}) {
    SCOPED_TRACE(axis);
    const PartitionedVar v =
        GetPartitionedVariable(axis == 0 ? "a" : "b", {3, 3},
                               FixedSizePartitioner(2, axis), init::Ones());
    ASSERT_TRUE(v.valid()) << graph_.status();
    const Tensor whole = Tensor::Of<float>({3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9});
    Node* const assign = v.Assign(whole);
    Node* const add = v.AssignAdd(whole);
    Node* const sub = v.AssignSub(Constant(whole) * 3.0f);
    ASSERT_NE(assign, nullptr) << graph_.status();
    ASSERT_TRUE(session_.RunTargets({v.initializer()}).ok());
    EXPECT_THAT(Run(v * 2.0f), ElementsAre(2, 2, 2, 2, 2, 2, 2, 2, 2));
    ASSERT_TRUE(session_.RunTargets({assign}).ok());
    EXPECT_THAT(Run(v), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9));
    ASSERT_TRUE(session_.RunTargets({add}).ok());
    EXPECT_THAT(Run(v), ElementsAre(2, 4, 6, 8, 10, 12, 14, 16, 18));
    ASSERT_TRUE(session_.RunTargets({sub}).ok());
    EXPECT_THAT(Run(v), ElementsAre(-1, -2, -3, -4, -5, -6, -7, -8, -9));
  }
}

TEST_F(PartitionedVarTest, SecondUseGivesTheSameParts) {
  for (int i = 0; i < 2; ++i) {
    const PartitionedVar v = GetPartitionedVariable(
        "layer/v", {6, 2}, FixedSizePartitioner(2), init::Zeros());
    ASSERT_TRUE(v.valid()) << graph_.status();
  }
  EXPECT_EQ(GlobalVariables().size(), 2u);
  EXPECT_EQ(PartOf(GlobalVariables()[0])->name, "layer/v");
  const PartitionedVar again(GlobalVariables());
  ASSERT_TRUE(again.valid());
  EXPECT_EQ(again.name(), "layer/v");
  EXPECT_EQ(again.shape(), Shape({6, 2}));
}

TEST_F(PartitionedVarTest, OtherPartsThanMadeAreAnError) {
  ASSERT_TRUE(GetPartitionedVariable("v", {4, 2}, FixedSizePartitioner(2),
                                     init::Zeros())
                  .valid());
  // The first part has the same shape as before, of a larger whole.
  EXPECT_FALSE(GetPartitionedVariable("v", {6, 2}, FixedSizePartitioner(3),
                                      init::Zeros())
                   .valid());
  EXPECT_THAT(graph_.status().ToString(),
              HasSubstr("variable 'v': expected parts as they were made, "
                        "'v/part_0' being 4 2 0,2:-, got 6 2 0,2:-"));
}

TEST_F(PartitionedVarTest, FansAreThoseOfTheWhole) {
  // sqrt(6 / (3000 + 3000)) = 0.0316; that of a part would be 0.0443.
  const PartitionedVar v =
      GetPartitionedVariable("v", {3000, 3000}, FixedSizePartitioner(30),
                             init::GlorotUniform(/*seed=*/3));
  ASSERT_TRUE(session_.RunTargets({v.parts()[0].initializer()}).ok());
  float most = 0;
  for (const float x : Run(v.parts()[0])) most = std::max(most, std::abs(x));
  EXPECT_GT(most, 0.031f);
  EXPECT_LT(most, 0.0317f);
}

TEST_F(PartitionedVarTest, PartsOfIdentityHaveTheDiagonalOfTheWhole) {
  for (const int axis : {0, 1}) {
    const PartitionedVar v = GetPartitionedVariable(
        axis == 0 ? "a" : "b", {3, 4}, FixedSizePartitioner(2, axis),
        init::Identity(2));
    ASSERT_TRUE(session_.RunTargets({v.initializer()}).ok());
    EXPECT_THAT(Run(v), ElementsAre(2, 0, 0, 0, 0, 2, 0, 0, 0, 0, 2, 0));
  }
}

TEST_F(PartitionedVarTest, PartsTakeTurnsOnTheDevices) {
  const PartitionedVar v = GetPartitionedVariable(
      "v", {6}, FixedSizePartitioner(3), init::Zeros(), DType::kFloat,
      {.devices = {"/device:CPU:0", "/device:CPU:1"}});
  ASSERT_TRUE(v.valid()) << graph_.status();
  std::vector<std::string> devices;
  for (const Var& p : v.parts()) devices.push_back(p.handle().node->device());
  EXPECT_THAT(devices,
              ElementsAre("/device:CPU:0", "/device:CPU:1", "/device:CPU:0"));
}

TEST_F(PartitionedVarTest, PartsOfAFunctionsBodyAreMadeOutside) {
  const Function f =
      DefineFunction("f", {DType::kFloat}, [](const std::vector<Output>& x) {
        const PartitionedVar v = GetPartitionedVariable(
            "v", {4}, FixedSizePartitioner(2), init::Ones());
        return v + x[0];
      });
  const Output sum = f({Constant(2.0f)})[0];
  ASSERT_TRUE(sum.valid()) << graph_.status();
  Initialize();
  EXPECT_THAT(Run(sum), ElementsAre(3, 3, 3, 3));
  ASSERT_EQ(GlobalVariables().size(), 2u);
  EXPECT_EQ(PartOf(GlobalVariables()[1])->name, "f/v");
}

TEST_F(PartitionedVarTest, SlotsOfPartsArePartsOfASlot) {
  const PartitionedVar v = GetPartitionedVariable(
      "v", {5, 2}, FixedSizePartitioner(2), init::Ones());
  MomentumOptimizer momentum(0.1, 0.9);
  ASSERT_NE(momentum.Minimize(ops::Sum(ops::Square(v), {0, 1})), nullptr)
      << graph_.status();
  const Var slot = momentum.GetSlot(v.parts()[1], "momentum");
  ASSERT_TRUE(slot.valid());
  ASSERT_TRUE(PartOf(slot).has_value());
  EXPECT_EQ(PartOf(slot)->name, "v/Momentum");
  EXPECT_EQ(PartOf(slot)->ShapeAndSlice(), "5 2 3,2:-");

  ExponentialMovingAverage average(0.9);
  ASSERT_NE(average.Apply({v.parts()[1]}), nullptr) << graph_.status();
  EXPECT_EQ(PartOf(average.Average(v.parts()[1]))->name,
            "v/ExponentialMovingAverage");
}

TEST_F(PartitionedVarTest, PartsStayPartsInAnExportedGraph) {
  (void)GetPartitionedVariable("v", {5, 2}, FixedSizePartitioner(2),
                               init::Ones());
  const Result<std::string> bytes = ExportGraphDef(graph_);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  Graph g;
  ASSERT_TRUE(ImportGraphDef(*bytes, g).ok());
  const Var part = Var::FromHandle(Output(g.FindNode("v/part_1")));
  ASSERT_TRUE(PartOf(part).has_value());
  EXPECT_EQ(PartOf(part)->ShapeAndSlice(), "5 2 3,2:-");
}

TEST_F(PartitionedVarTest, PartitionersMustReturnPartsOfOneDimension) {
  EXPECT_THAT(ErrorOf({2}, {4, 4}),
              HasSubstr("variable 'v': partitioner: expected a number of parts "
                        "for each dimension, got [2] for shape [4,4]"));
  EXPECT_THAT(ErrorOf({2, 2}, {4, 4}),
              HasSubstr("expected parts along one dimension, got [2,2]"));
  EXPECT_THAT(ErrorOf({0, 1}, {4, 4}),
              HasSubstr("expected at least one part, got [0,1]"));
  EXPECT_THAT(
      ErrorOf({5, 1}, {4, 4}),
      HasSubstr("expected at most as many parts as elements, got [5,1]"));
  EXPECT_THAT(ErrorOf({}, {}),
              HasSubstr("expected a shape that can be cut, got a scalar"));
}

TEST_F(PartitionedVarTest, PartsMustBeThoseOfOneVariable) {
  const PartitionedVar a =
      GetPartitionedVariable("a", {4}, FixedSizePartitioner(2), init::Zeros());
  const PartitionedVar b =
      GetPartitionedVariable("b", {4}, FixedSizePartitioner(2), init::Zeros());
  const Var c(Zeros({4}), "c");
  EXPECT_FALSE(PartOf(c).has_value());
  EXPECT_FALSE(PartitionedVar({a.parts()[0], b.parts()[1]}).valid());
  EXPECT_THAT(
      graph_.status().ToString(),
      HasSubstr("expected parts of 'a' [4], got 'b/part_1' of 'b' [4]"));
  EXPECT_FALSE(PartitionedVar({a.parts()[0]}).valid());
  EXPECT_FALSE(PartitionedVar({a.parts()[0], c}).valid());
  EXPECT_TRUE(PartitionedVar({a.parts()[1], a.parts()[0]}).valid());
  EXPECT_FALSE(SetPartOf(c, {"d", Shape({4}), {1}, Shape({4})}).ok());
  EXPECT_FALSE(SetPartOf(c, {"d", Shape({6}), {-1}, Shape({4})}).ok());
  EXPECT_FALSE(SetPartOf(c, {"d", Shape({6}), {0}, Shape({3})}).ok());
  EXPECT_TRUE(SetPartOf(c, {"d", Shape({6}), {2}, Shape({4})}).ok());
}

TEST_F(PartitionedVarTest, PartsOfOneSeedDiffer) {
  const PartitionedVar v =
      GetPartitionedVariable("v", {4, 3}, FixedSizePartitioner(2),
                             init::RandomNormal(0, 1, /*seed=*/5));
  const Var whole = GetVariable("w", {2, 3}, init::RandomNormal(0, 1, 5));
  Initialize();
  EXPECT_NE(Run(v.parts()[0]), Run(v.parts()[1]));
  EXPECT_EQ(Run(v.parts()[0]), Run(whole));
}

TEST_F(PartitionedVarTest, VariablesThatAGetterMakesAreNoParts) {
  std::vector<Var> made;
  const VariableScope scope(
      "m", {.getter = [&](const VariableRequest& r, const auto& next) {
        VariableRequest own = r;
        own.name = absl::StrCat("own_", made.size());
        own.shape = Shape({2, 2});
        own.initializer = init::Identity();
        made.push_back(next(own));
        return next(r);
      }});
  const PartitionedVar v = GetPartitionedVariable(
      "v", {4, 2}, FixedSizePartitioner(2), init::Identity());
  ASSERT_TRUE(v.valid()) << graph_.status();
  Initialize();
  ASSERT_EQ(made.size(), 2u);
  EXPECT_THAT(Run(made[1]), ElementsAre(1, 0, 0, 1));
  EXPECT_THAT(Run(v), ElementsAre(1, 0, 0, 1, 0, 0, 0, 0));
}

}  // namespace
}  // namespace sluice
