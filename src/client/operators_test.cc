#include "client/operators.h"

#include <type_traits>

#include "client/control/control_flow.h"
#include "client/testing/client_test_util.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// An output does not convert to bool, and only operands convert to outputs.
static_assert(!std::is_constructible_v<bool, Output>);
static_assert(!std::is_constructible_v<bool, Var>);
static_assert(!std::is_convertible_v<int, Output>);
static_assert(!std::is_convertible_v<Node*, AttrValue>);
static_assert(!std::is_convertible_v<std::nullptr_t, AttrValue>);
template <typename A, typename B>
using Equal = decltype(std::declval<A>() == std::declval<B>());
template <typename A, typename B>
using And = decltype(std::declval<A>() && std::declval<B>());
static_assert(std::is_same_v<Equal<Output, Output>, Output>);
static_assert(std::is_same_v<Equal<Var, Var>, Output>);
static_assert(std::is_same_v<Equal<Var, float>, Output>);
static_assert(std::is_same_v<And<Output, Output>, Output>);
static_assert(std::is_same_v<And<Var, Output>, Output>);
static_assert(std::is_same_v<And<Var, Var>, Output>);
static_assert(std::is_same_v<decltype(!std::declval<Output>()), Output>);
static_assert(std::is_same_v<decltype(!std::declval<Var>()), Output>);

class OutputLogicTest : public ClientTest {
 protected:
  // Which branch a conditional takes where x is fed with `v`: 1 or 0.
  int Taken(const Operand& pred, float v) {
    const Output y = Cond(
        pred, [] { return Constant(1); }, [] { return Constant(0); });
    const std::vector<int> taken =
        Values<int32_t>(y, {{x_, Tensor::Scalar(v)}});
    return taken.size() == 1 ? taken[0] : -1;
  }

  Output x_ = Placeholder<float>({});
};

TEST_F(OutputLogicTest, ComparisonLogicControlsConditionals) {
  for (const float v : {-1.f, 0.5f, 5.f}) {
    const bool positive = v > 0, below = v < 1;
    EXPECT_EQ(Taken((x_ > 0) && (x_ < 1), v), positive && below) << v;
    EXPECT_EQ(Taken(x_ > 0 || x_ < 1, v), positive || below) << v;
    EXPECT_EQ(Taken(!(x_ < 1), v), !below) << v;
    EXPECT_EQ(Taken(!(x_ < 1) && !(x_ > 0), v), 0) << v;
    EXPECT_EQ(Taken(x_ == Constant(5.f), v), v == 5) << v;
    EXPECT_EQ(Taken(x_ == 5, v), v == 5) << v;
    EXPECT_EQ(Taken(5 != x_, v), v != 5) << v;
  }
}

TEST_F(OutputLogicTest, LoopEndsWhenOneSideOfAndIsFalse) {
  const auto [i, x] = While(
      std::tuple{0, x_}, [](Output i, Output x) { return (i < 3) && (x > 0); },
      [](Output i, Output x) {
        return std::tuple{i + 1, x - 1};
      });
  EXPECT_THAT(Values<int32_t>(i, {{x_, Tensor::Scalar(9.f)}}), ElementsAre(3));
  EXPECT_THAT(Values<int32_t>(i, {{x_, Tensor::Scalar(2.f)}}), ElementsAre(2));
}

TEST_F(OutputLogicTest, EqualityIsElementwiseForEveryOperandKind) {
  const Output a = Constant(Tensor::Vector<int32_t>({1, 2, 3}));
  const Output b = Constant(Tensor::Vector<int32_t>({1, 0, 3}));
  EXPECT_THAT(Values<bool>(a == b), ElementsAre(true, false, true));
  EXPECT_THAT(Values<bool>(a != b), ElementsAre(false, true, false));
  EXPECT_THAT(Values<bool>(a == 2), ElementsAre(false, true, false));
  const Var v(3, "v"), w(3, "w");
  Initialize();
  EXPECT_THAT(Values<bool>(v == w), ElementsAre(true));
  EXPECT_THAT(Values<bool>(v == v), ElementsAre(true));
  EXPECT_THAT(Values<bool>(w != 3), ElementsAre(false));
  EXPECT_THAT(
      Values<bool>(Constant(Tensor::Scalar<std::string>("yes")) == "yes"),
      ElementsAre(true));
  EXPECT_TRUE(v.SameAs(v));
  EXPECT_FALSE(v.SameAs(w));
}

TEST_F(OutputLogicTest, LogicOnNumbersReportsTheLine) {
  EXPECT_FALSE((x_ && (x_ > 0)).valid());
  EXPECT_THAT(std::string(graph_.status().message()),
              HasSubstr(Here(__LINE__ - 2, __FILE__)));
}

// Bare numbers become constants of the other operand's type, if they fit:
// numbers are not booleans, and booleans are not numbers.
TEST_F(OutputLogicTest, LiteralsMustFitTheOtherOperandsType) {
  const Output i = Constant(int64_t{1}), p = x_ > 0;
  const Output u = Constant(uint64_t{1});
  const std::vector<Output> bad = {x_ * true, p && 1,           p == 2,
                                   i + 1.5,   i + ~uint64_t{0}, u + -1};
  EXPECT_EQ(graph_.errors().size(), bad.size());
  for (const Output& o : bad) {
    EXPECT_FALSE(o.valid());
    EXPECT_THAT(std::string(session_.Run(o).status().message()),
                HasSubstr("constant: expected "));
  }
  EXPECT_THAT(Values<bool>(p && true, {{x_, Tensor::Scalar(1.f)}}),
              ElementsAre(true));
}

}  // namespace
}  // namespace sluice
