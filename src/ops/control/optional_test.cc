// Optionals, and sums and zeros of them.
#include "ops/tensor_array/optional.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/control/control_flow.h"
#include "client/operators.h"
#include "graph/builder.h"
#include "session/session.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class OptionalTest : public ::testing::Test {
 protected:
  OptionalTest() : use_(graph_) {}

  static Output Of(const std::vector<Output>& values) {
    return Build("OptionalFromValue", values);
  }
  static Output None() { return Build("OptionalNone", {}); }
  static Output Pair() {
    return Of({Constant(Tensor::Vector<float>({1, 2})), Constant(3)});
  }
  static Node* Get(Output optional) {
    return BuildNode(
        "OptionalGetValue", {optional},
        {{"output_types", AttrValue::Types{DType::kFloat, DType::kInt32}},
         {"output_shapes", AttrValue::Shapes(2)}});
  }
  Tensor Eval(Output o) {
    EXPECT_TRUE(graph_.status().ok()) << graph_.status();
    Result<Tensor> t = Session(graph_).Run(o);
    EXPECT_TRUE(t.ok()) << t.status();
    return t.ok() ? *t : Tensor();
  }
  bool Has(Output optional) {
    return Eval(Build("OptionalHasValue", {optional})).scalar<bool>();
  }

  Graph graph_;
  WithGraph use_;
};

TEST_F(OptionalTest, ZerosLikeKeepsTypesAndShapes) {
  Node* zeros = Get(Build("ZerosLike", {Pair()}));
  EXPECT_THAT(Eval(Output(zeros, 0)).ToVector<float>(), ElementsAre(0, 0));
  EXPECT_EQ(Eval(Output(zeros, 1)).scalar<int32_t>(), 0);
  EXPECT_FALSE(Has(Build("ZerosLike", {None()})));
}

TEST_F(OptionalTest, AddNSumsElementwise) {
  const Output pair = Pair();
  Node* sum = Get(Build("AddN", {pair, Pair(), pair}));
  EXPECT_THAT(Eval(Output(sum, 0)).ToVector<float>(), ElementsAre(3, 6));
  EXPECT_EQ(Eval(Output(sum, 1)).scalar<int32_t>(), 9);
  EXPECT_THAT(Eval(Output(Get(pair), 0)).ToVector<float>(), ElementsAre(1, 2));
  EXPECT_FALSE(Has(Build("AddN", {None(), None()})));
}

TEST_F(OptionalTest, AddNRequiresEqualStructure) {
  const auto error = [this](const std::vector<Output>& terms) {
    return std::string(
        Session(graph_).Run(Build("AddN", terms)).status().message());
  };
  EXPECT_THAT(error({Pair(), None()}), HasSubstr("got 2 and 0"));
  EXPECT_THAT(error({Of({Constant(1.f)}), Of({Constant(1)})}),
              HasSubstr("expected float of shape []"));
  const Output list = Build("EmptyTensorList", {Constant(-1), Constant(-1)},
                            {{"element_dtype", DType::kFloat}});
  EXPECT_THAT(error({list, Pair()}), HasSubstr("TensorList and Optional"));
  EXPECT_THAT(error({Pair(), list}), HasSubstr("Optional and TensorList"));
}

TEST_F(OptionalTest, DeepNestingIsSupported) {
  // Destroying them does not need a stack of their depth.
  const std::vector<Output> deep = While(
      std::vector<Output>{Constant(0), Of({Constant(1.f)})},
      [](const std::vector<Output>& v) { return v[0] < 200'000; },
      [](const std::vector<Output>& v) {
        return std::vector<Output>{v[0] + 1, Of({v[1]})};
      });
  EXPECT_TRUE(Has(deep[1]));
  EXPECT_THAT(std::string(Session(graph_)
                              .Run(Build("ZerosLike", {deep[1]}))
                              .status()
                              .message()),
              HasSubstr("levels of nesting"));
}

}  // namespace
}  // namespace sluice
