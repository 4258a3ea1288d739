// Deferred sums: what they compute, in which order, and what they keep.
#include "graph/deferred_sums.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "client/autodiff/gradients.h"
#include "client/control/control_flow.h"
#include "client/operators.h"
#include "graph/builder.h"
#include "ops/tensor_array/deferred_sum.h"
#include "session/session.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class DeferredSumsTest : public ::testing::Test {
 protected:
  DeferredSumsTest() : use_(graph_) {}

  static Output Matrix(int64_t rows, int64_t columns, double first) {
    Tensor t(DType::kDouble, Shape({rows, columns}));
    for (double& v : t.flat<double>()) v = first, first += 0.5;
    return Constant(t);
  }
  static Output Add(std::vector<Output> sums) {
    return Build("DeferredAdd", std::move(sums));
  }
  static Output Value(Output sum, std::vector<int64_t> shape,
                      DType t = DType::kDouble) {
    return Build("DeferredValue", {sum, Constant(Tensor::Vector(shape))},
                 {{"T", t}});
  }
  Result<Tensor> Run(Output o) {
    EXPECT_TRUE(graph_.status().ok()) << graph_.status();
    return Session(graph_).Run(o);
  }
  std::vector<double> Eval(Output o) {
    const Result<Tensor> t = Run(o);
    EXPECT_TRUE(t.ok()) << t.status();
    return t.ok() ? t->ToVector<double>() : std::vector<double>();
  }

  Graph graph_;
  WithGraph use_;
};

TEST_F(DeferredSumsTest, AddsTermsOfAllKinds) {
  const Output a = Matrix(3, 2, 1), b = Matrix(3, 4, -2);
  const Output more_a = Matrix(1, 2, 5), more_b = Matrix(1, 4, 3);
  const Output dense = Matrix(2, 4, 10);
  const Output rows = Matrix(3, 4, 7);
  const Output ids = Constant(Tensor::Vector<int32_t>({1, -1, 1}));
  const Output sum =
      Add({Build("DeferredProduct", {a, b}), Build("DeferredSum", {dense}),
           Build("DeferredNone", {}),
           Build("DeferredSegmentSum", {rows, ids, Constant(2)}),
           Build("DeferredProduct", {more_a, more_b})});
  const AttrMap ta = {{"transpose_a", true}};
  const Output want =
      Build("AddN", {Build("MatMul", {a, b}, ta), dense,
                     Build("UnsortedSegmentSum", {rows, ids, Constant(2)}),
                     Build("MatMul", {more_a, more_b}, ta)});
  EXPECT_EQ(Eval(Value(sum, {2, 4})), Eval(want));
  EXPECT_EQ(Eval(Value(Build("DeferredColumnSum", {b}), {4})),
            Eval(Build("BiasAddGrad", {b})));
}

TEST_F(DeferredSumsTest, SumOfNothingIsZeros) {
  const Output none = Build("DeferredNone", {});
  EXPECT_THAT(Eval(Value(Add({none, none}), {3})), ElementsAre(0, 0, 0));
  const Output some = Build("DeferredColumnSum", {Matrix(2, 2, 1)});
  EXPECT_THAT(Eval(Value(Add({none, some, none}), {2})), ElementsAre(3, 4));
}

TEST_F(DeferredSumsTest, SharedSumsDoNotChange) {
  const Output a = Build("DeferredColumnSum", {Matrix(2, 2, 1)});  // 3, 4
  const Output b =
      Build("DeferredSum", {Constant(Tensor::Vector<double>({10, 20}))});
  const Output twice = Add({a, a}), both = Add({a, b});
  const Output all =
      Build("ConcatV2", {Value(a, {2}), Value(twice, {2}), Value(both, {2}),
                         Value(b, {2}), Constant(0)});
  EXPECT_THAT(Eval(all), ElementsAre(3, 4, 6, 8, 13, 24, 10, 20));
}

TEST_F(DeferredSumsTest, ErrorsNameWhatDiffers) {
  const auto error = [&](Output o) {
    return std::string(Run(o).status().message());
  };
  const Output two = Build("DeferredColumnSum", {Matrix(2, 2, 1)});
  const Output three = Build("DeferredColumnSum", {Matrix(2, 3, 1)});
  EXPECT_THAT(
      error(Value(Add({two, three}), {2})),
      HasSubstr("expected double of shape [2], got double of shape [3]"));
  EXPECT_THAT(error(Value(two, {3})), HasSubstr("of shape [3]"));
  EXPECT_THAT(error(Value(two, {2}, DType::kFloat)), HasSubstr("got float"));
  EXPECT_THAT(error(Value(Build("OptionalNone", {}), {2})),
              HasSubstr("expected a scalar DeferredSum"));
  EXPECT_THAT(
      error(Value(Build("DeferredSegmentSum",
                        {Matrix(1, 2, 1),
                         Constant(Tensor::Vector<int32_t>({2})), Constant(2)}),
                  {2, 2})),
      HasSubstr("expected ids below 2, got 2"));
}

// What the gradient of a gradient needs: that of each op, against the plain op.
TEST_F(DeferredSumsTest, GradientsAreThoseOfThePlainOps) {
  const Output a = Matrix(3, 2, 1), b = Matrix(3, 4, -2),
               rows = Matrix(3, 4, 7);
  const Output ids = Constant(Tensor::Vector<int32_t>({1, -1, 0}));
  const Output dense = Matrix(2, 4, 10);
  const Output sum = Value(
      Add({Build("DeferredProduct", {a, b}), Build("DeferredSum", {dense}),
           Build("DeferredSegmentSum", {rows, ids, Constant(2)})}),
      {2, 4});
  const Output plain =
      Build("AddN", {Build("MatMul", {a, b}, {{"transpose_a", true}}), dense,
                     Build("UnsortedSegmentSum", {rows, ids, Constant(2)})});
  const Output columns = Value(Build("DeferredColumnSum", {b}), {4});
  const Output plain_columns = Build("BiasAddGrad", {b});
  const std::vector<GradTarget> xs = {a, b, rows, dense};
  const auto got =
      Grad({Build("Square", {sum}), Build("Square", {columns})}, xs);
  const auto want =
      Grad({Build("Square", {plain}), Build("Square", {plain_columns})}, xs);
  for (size_t i = 0; i < xs.size(); ++i)
    EXPECT_EQ(Eval(got[i]), Eval(want[i])) << "input " << i;
}

TEST_F(DeferredSumsTest, AddNAndZerosLikeTakeThem) {
  const Output a = Build("DeferredColumnSum", {Matrix(2, 2, 1)});
  EXPECT_THAT(Eval(Value(Build("AddN", {a, a, a}), {2})), ElementsAre(9, 12));
  EXPECT_THAT(Eval(Value(Build("ZerosLike", {a}), {2})), ElementsAre(0, 0));
  EXPECT_THAT(
      std::string(Run(Value(Build("AddN", {a, Build("OptionalNone", {})}), {2}))
                      .status()
                      .message()),
      HasSubstr("sum: expected"));
}

// The terms of a long sum take no more memory than the array, and its value
// does not depend on how many were added at a time.
TEST(DeferredSumValue, AddsTermsBeforeTheyTakeMoreThanTheArray) {
  constexpr int64_t kRows = 40'000, kIn = 24, kOut = 40;
  const Shape shape({kIn, kOut});
  std::vector<double> want(kIn * kOut);
  DeferredSumValue sum;
  const int64_t before = Allocator::Cpu()->stats().live_bytes;
  int64_t most = 0;
  for (int64_t r = 0; r < kRows; ++r) {
    DeferredTerm term;
    term.a = Tensor(DType::kDouble, Shape({1, kIn}));
    term.b = Tensor(DType::kDouble, Shape({1, kOut}));
    for (int64_t i = 0; i < kIn; ++i)
      term.a.raw<double>()[i] = std::sin(static_cast<double>(r + i));
    for (int64_t j = 0; j < kOut; ++j)
      term.b.raw<double>()[j] = std::cos(static_cast<double>(r - j));
    for (int64_t i = 0; i < kIn; ++i)
      for (int64_t j = 0; j < kOut; ++j)
        want[static_cast<size_t>(i * kOut + j)] +=
            term.a.raw<double>()[i] * term.b.raw<double>()[j];
    ASSERT_TRUE(sum.Add(std::move(term), shape).ok());
    most = std::max(most, Allocator::Cpu()->stats().live_bytes - before);
  }
  // All rows take 20 MB.
  EXPECT_LT(most, 3 * DeferredSumValue::kRoom);
  const Result<Tensor> got = sum.Take(DType::kDouble, shape, Allocator::Cpu());
  ASSERT_TRUE(got.ok()) << got.status();
  for (size_t i = 0; i < want.size(); ++i)
    ASSERT_NEAR(got->flat<double>()[i], want[i], 1e-9);
}

}  // namespace
}  // namespace sluice
