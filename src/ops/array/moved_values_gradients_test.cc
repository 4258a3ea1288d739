// Gradients of ops that pass some of their values on, for cases that samples do
// not cover: repeated and negative indices, omitted values; and gradients that
// are rejected.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/autodiff/gradients.h"
#include "graph/builder.h"
#include "session/session.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class MovedValuesGradTest : public ::testing::Test {
 protected:
  MovedValuesGradTest() : use_(graph_) {}
  // d sum(w y) / dx.
  std::vector<float> GradOf(Output y, Output x, std::vector<float> w) {
    GradientOptions options;
    const Shape shape = *y.shape().ToShape();
    options.grad_ys = {
        Constant(Tensor::Of<float>(shape, std::span<const float>(w)))};
    const Output g = Grad(y, x, options);
    if (!g.valid()) return {};
    const Result<Tensor> t = Session(graph_).Run(g);
    EXPECT_TRUE(t.ok()) << t.status();
    return t.ok() ? t->ToVector<float>() : std::vector<float>();
  }
  Graph graph_;
  WithGraph use_;
  Output x_ = Constant(Tensor::Vector<float>({1, 2, 3}));
  Output v_ = Constant(Tensor::Vector<float>({7, 8, 9}));
};

TEST_F(MovedValuesGradTest, LastReplacementOfARowGetsTheGradient) {
  const Output y = Build(
      "InplaceUpdate", {x_, Constant(Tensor::Vector<int32_t>({2, -1, 0})), v_});
  EXPECT_THAT(GradOf(y, x_, {1, 10, 100}), ElementsAre(0, 10, 0));
  EXPECT_THAT(GradOf(y, v_, {1, 10, 100}), ElementsAre(0, 100, 1));
}

TEST_F(MovedValuesGradTest, EveryAdditionToARowGetsTheGradient) {
  const Output i = Constant(Tensor::Vector<int32_t>({2, -1, 0}));
  const Output sum = Build("InplaceAdd", {x_, i, v_});
  EXPECT_THAT(GradOf(sum, x_, {1, 10, 100}), ElementsAre(1, 10, 100));
  EXPECT_THAT(GradOf(sum, v_, {1, 10, 100}), ElementsAre(100, 100, 1));
  const Output difference = Build("InplaceSub", {x_, i, v_});
  EXPECT_THAT(GradOf(difference, v_, {1, 10, 100}),
              ElementsAre(-100, -100, -1));
}

TEST_F(MovedValuesGradTest, ScalarIndexSelectsOneRow) {
  const Output v = Constant(5.0f);
  const Output y = Build("InplaceUpdate", {x_, Constant<int32_t>(1), v});
  EXPECT_THAT(GradOf(y, x_, {1, 10, 100}), ElementsAre(1, 0, 100));
  EXPECT_THAT(GradOf(y, v, {1, 10, 100}), ElementsAre(10));
}

TEST_F(MovedValuesGradTest, OmittedElementsGetZero) {
  Node* n =
      BuildNode("ListDiff", {x_, Constant(Tensor::Vector<float>({2, 9}))});
  ASSERT_TRUE(graph_.SetShape(Output(n, 0), {2}).ok());
  EXPECT_THAT(GradOf(Output(n, 0), x_, {1, 10}), ElementsAre(1, 0, 10));
}

TEST_F(MovedValuesGradTest, DeepCopyAndGuaranteeConstPassGradients) {
  for (const char* op : {"DeepCopy", "GuaranteeConst"})
    EXPECT_THAT(GradOf(Build(op, {x_}), x_, {1, 10, 100}),
                ElementsAre(1, 10, 100))
        << op;
}

TEST_F(MovedValuesGradTest, MissingGradientIsAnErrorNotZero) {
  const Output bits =
      Build("Bitcast", {Build("Bitcast", {x_}, {{"type", DType::kHalf}})},
            {{"type", DType::kFloat}});
  for (const Output& y : {Build("Unique", {x_}), bits}) {
    const Status s = Gradients({y}, {x_}).status();
    EXPECT_EQ(s.code(), StatusCode::kUnimplemented) << s;
    EXPECT_THAT(std::string(s.message()), HasSubstr("expected an op that has"));
  }
}

}  // namespace
}  // namespace sluice
