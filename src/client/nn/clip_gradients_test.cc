#include "client/nn/clip_gradients.h"

#include <limits>

#include "client/nn/optimizers.h"
#include "client/nn/training_record_test_util.h"

namespace sluice {
namespace {

class ClipTest : public ClientTest {
 protected:
  ClipTest()
      : x_(Constant(TensorOf(DType::kFloat, {4, 3}, Recorded("clip", "x")))),
        y_(Constant(TensorOf(DType::kFloat, {5}, Recorded("clip", "y")))) {}

  void Compare(const std::string& name, const std::vector<Output>& got) {
    for (size_t i = 0; i < got.size(); ++i) {
      SCOPED_TRACE(absl::StrCat(name, " ", i));
      ExpectNear(NumbersOf(Eval(got[i])),
                 Recorded("clip." + name, std::to_string(i)), 1e-6, 0.1);
    }
  }

  const Output x_, y_;
};

TEST_F(ClipTest, NumbersAreTensorFlows) {
  Compare("value", {ClipByValue(x_, -0.5, 0.4)});
  Compare("norm", {ClipByNorm(x_, 1.5), ClipByNorm(y_, 100.0),
                   ClipByNorm(0 * x_, 1.5)});
  Compare("norm_axes", {ClipByNorm(x_, 0.9, {1})});
  Compare("average", {ClipByAverageNorm(x_, 0.05), ClipByAverageNorm(y_, 7.0)});
  const Output ids = Constant(Tensor::Vector<int32_t>({0, 2, 2, 5}));
  const Gradient rows = Gradient::Slices(ids, x_, IntVector({7, 3}));
  const std::vector<Gradient> all = {y_, rows, Gradient()};
  for (const auto& [name, limit] :
       {std::pair("global_tight", 0.8), std::pair("global_loose", 80.0)}) {
    const std::vector<Gradient> got = ClipByGlobalNorm(all, limit);
    ASSERT_EQ(got.size(), 3u);
    EXPECT_TRUE(got[1].is_sparse());
    EXPECT_TRUE(got[1].indices.SameAs(ids));
    EXPECT_FALSE(got[2]);
    Compare(name, {got[0].dense, got[1].values, GlobalNorm(all)});
  }
}

TEST_F(ClipTest, NodesHaveTensorFlowsNames) {
  EXPECT_EQ(ClipByValue(x_, 0, 1).node->name(), "clip_by_value");
  EXPECT_EQ(ClipByNorm(x_, 1, {1}, "clipped").node->name(), "clipped");
  EXPECT_EQ(ClipByAverageNorm(x_, 1).node->name(), "clip_by_average_norm");
  const std::vector<Gradient> got =
      ClipByGlobalNorm(std::vector<Gradient>{Gradient(), Gradient(x_)}, 1);
  EXPECT_EQ(got[1].dense.node->name(),
            "clip_by_global_norm/clip_by_global_norm/_1");
  EXPECT_EQ(GlobalNorm({Gradient(x_)}).node->name(),
            "global_norm_1/global_norm");
}

TEST_F(ClipTest, LimitsMustNotEnlargeTheTensor) {
  const Output one = Constant(1.0f);
  const Operand limits({1.0f, 2.0f});
  EXPECT_FALSE(ClipByValue(one, 0.0, limits).valid());
  EXPECT_FALSE(ClipByValue(one, limits, 3.0).valid());
  EXPECT_FALSE(ClipByNorm(one, limits).valid());
  EXPECT_FALSE(ClipByAverageNorm(one, limits).valid());
  EXPECT_THAT(std::string(graph_.status().message()),
              ::testing::HasSubstr("expected limits that broadcast"));
}

TEST_F(ClipTest, SparseGradientsStaySparse) {
  const Output ids = Constant(Tensor::Vector<int32_t>({0, 2, 2, 5}));
  const Gradient rows = Gradient::Slices(ids, x_, IntVector({7, 3}));
  for (const Gradient& g : {ClipByValue(rows, -0.5, 0.4), ClipByNorm(rows, 1.5),
                            ClipByAverageNorm(rows, 0.05)}) {
    EXPECT_TRUE(g.is_sparse());
    EXPECT_TRUE(g.indices.SameAs(ids));
    EXPECT_TRUE(g.dense_shape.SameAs(rows.dense_shape));
  }
  Compare("value", {ClipByValue(rows, -0.5, 0.4).values});
  EXPECT_FALSE(ClipByNorm(Gradient(), 1.0));
}

TEST_F(ClipTest, InfiniteNormsMakeEverythingNan) {
  const Output bad = Constant(
      Tensor::Vector<float>({1, std::numeric_limits<float>::infinity()}));
  const std::vector<Gradient> got =
      ClipByGlobalNorm(std::vector<Gradient>{Gradient(bad), Gradient(y_)}, 1.0);
  for (float v : Values<float>(got[1].dense)) EXPECT_TRUE(std::isnan(v));
}

TEST_F(ClipTest, ClippedGradientsAreApplied) {
  const Var v(Constant(Tensor::Vector<float>({3, 4})), "v"), w(0.0, "w");
  GradientDescentOptimizer sgd(1.0);
  const auto grads =
      sgd.ComputeGradients(ops::Sum(v * v, 0) / 2, {.variables = {v, w}});
  ASSERT_TRUE(grads.ok()) << grads.status();
  const auto train = sgd.ApplyGradients(ClipByGlobalNorm(*grads, 0.5));
  ASSERT_TRUE(train.ok()) << train.status();
  Initialize();
  RunNode(*train);
  EXPECT_THAT(Values<float>(v),
              ::testing::ElementsAre(::testing::FloatNear(2.7f, 1e-6f),
                                     ::testing::FloatNear(3.6f, 1e-6f)));
}

}  // namespace
}  // namespace sluice
