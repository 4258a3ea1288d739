#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "graph/builder.h"
#include "session/session.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Result<Tensor> SumOfCopies(const Tensor& x, const std::vector<int32_t>& by) {
  Graph g;
  const WithGraph use(g);
  return Session(g).Run(
      Build("TileGrad", {Constant(x), Constant(Tensor::Vector(by))}));
}

TEST(TileGrad, SumsTheCopies) {
  const Tensor x = Tensor::Of<float>({2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
  const Result<Tensor> columns = SumOfCopies(x, {1, 2});
  ASSERT_TRUE(columns.ok()) << columns.status();
  EXPECT_EQ(columns->shape(), Shape({2, 2}));
  EXPECT_THAT(columns->ToVector<float>(), ElementsAre(4, 6, 12, 14));
  const Result<Tensor> all = SumOfCopies(x, {2, 4});
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_THAT(all->ToVector<float>(), ElementsAre(36));
  const int32_t most = std::numeric_limits<int32_t>::max();
  const Result<Tensor> wraps =
      SumOfCopies(Tensor::Of<int32_t>({2}, {most, 1}), {2});
  ASSERT_TRUE(wraps.ok()) << wraps.status();
  EXPECT_EQ(wraps->data<int32_t>()[0], std::numeric_limits<int32_t>::min());
  const Result<Tensor> none =
      SumOfCopies(Tensor(DType::kFloat, {0, 4}), {3, 2});
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_EQ(none->shape(), Shape({0, 2}));
  const Result<Tensor> scalar = SumOfCopies(Tensor::Scalar<int64_t>(3), {});
  ASSERT_TRUE(scalar.ok()) << scalar.status();
  EXPECT_EQ(scalar->scalar<int64_t>(), 3);
}

TEST(TileGrad, RejectsInvalidMultiples) {
  const Tensor x = Tensor::Of<float>({4}, {1, 2, 3, 4});
  for (const std::vector<int32_t>& by :
       {std::vector<int32_t>{3}, {0}, {-2}, {1, 1}, {}})
    EXPECT_THAT(std::string(SumOfCopies(x, by).status().message()),
                HasSubstr("expected "));
}

}  // namespace
}  // namespace sluice
