#include "client/reductions.h"

#include "client/testing/client_test_util.h"

namespace sluice {
namespace {

using AllAxesTest = ClientTest;

TEST_F(AllAxesTest, AreConstantsWhereTheRankIsKnown) {
  for (int rank = 0; rank < 5; ++rank) {
    const Output x =
        Placeholder<float>(PartialShape(std::vector<int64_t>(rank, -1)));
    const Output axes = AllAxes(x);
    EXPECT_EQ(axes.node->op().name, "Const");
    EXPECT_EQ(axes.shape(), PartialShape({rank}));
    EXPECT_EQ(ops::Sum(x, axes).shape(), PartialShape::Scalar());
  }
}

TEST_F(AllAxesTest, ReduceTensorsOfAnyRank) {
  const Output x = Placeholder<float>();
  const Output sum = ops::Sum(x, AllAxes(x)), slope = Grad(sum, x);
  Session session;
  for (int rank = 0; rank < 5; ++rank) {
    const Shape shape(std::vector<int64_t>(rank, 2));
    const Tensor ones = Tensor::Of<float>(
        shape, std::vector<float>(static_cast<size_t>(1) << rank, 1));
    const auto out = session.Run({{x, ones}}, {sum, slope});
    ASSERT_TRUE(out.ok()) << out.status();
    EXPECT_EQ((*out)[0].shape(), Shape({}));
    EXPECT_EQ((*out)[0].scalar<float>(), 1 << rank);
    EXPECT_EQ((*out)[1].shape(), shape);
  }
}

TEST_F(AllAxesTest, OfAFailedOutputFail) {
  const Output failed = ops::MatMul(Constant(1.f), Constant(1.f));
  EXPECT_FALSE(failed.valid());
  EXPECT_FALSE(AllAxes(failed).valid());
}

}  // namespace
}  // namespace sluice
