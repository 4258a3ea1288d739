// Maps, folds and scans, run by a session.
#include "client/control/higher_order.h"

#include <tuple>

#include "client/control/control_flow.h"
#include "client/testing/client_test_util.h"
#include "exec/devices/emulated_device.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class HigherOrderTest : public ClientTest {
 protected:
  static Output Row(std::initializer_list<float> v) {
    return Constant(Tensor::Vector<float>(v));
  }
  std::string BuildErrorOf() { return std::string(graph_.status().message()); }
};

TEST_F(HigherOrderTest, AMapAppliesTheCallableToEveryRow) {
  const Output xs = Placeholder<float>({-1});
  const Output w = Constant(10.0f);
  const Output ys = MapFn([&](Output x) { return x * x + w; }, xs);
  EXPECT_EQ(ys.shape().rank(), 1);
  EXPECT_THAT(Values<float>(ys, {{xs, Tensor::Vector<float>({1, 2, 3})}}),
              ElementsAre(11, 14, 19));
  const Output matrix = MapFn([](Output row) { return ops::Sum(row, 0); },
                              ops::Reshape(Row({1, 2, 3, 4, 5, 6}), {3, 2}));
  EXPECT_EQ(matrix.shape().ToString(), "[3]");
  EXPECT_THAT(Values<float>(matrix), ElementsAre(3, 7, 11));
}

TEST_F(HigherOrderTest, MapTakesAndReturnsSeveralTensorsOfAnyType) {
  const Output xs = Row({1, 2, 3});
  const Output is = Constant(Tensor::Vector<int32_t>({4, 5, 6}));
  const auto [sum, large, list] = MapFn(
      [](Output x, Output i) {
        return std::tuple{x + ops::Cast(i, DType::kFloat), i > 4,
                          std::vector<Output>{-x}};
      },
      std::tuple{xs, is});
  EXPECT_THAT(Values<float>(sum), ElementsAre(5, 7, 9));
  EXPECT_THAT(Values<bool>(large), ElementsAre(false, true, true));
  ASSERT_EQ(list.size(), 1u);
  EXPECT_THAT(Values<float>(list[0]), ElementsAre(-1, -2, -3));
  const Output number = MapFn([](Output) { return 0.5; }, xs);
  EXPECT_THAT(Values<float>(number), ElementsAre(0.5f, 0.5f, 0.5f));
  const Output whole =
      MapFn([](Output) { return 2; }, xs, {.dtypes = {DType::kInt64}});
  EXPECT_THAT(Values<int64_t>(whole), ElementsAre(2, 2, 2));
}

TEST_F(HigherOrderTest, AMapOfNoRowsIsEmpty) {
  const Output xs = Placeholder<float>({-1, 2});
  const Output ys = MapFn([](Output row) { return row * 2; }, xs);
  EXPECT_EQ(
      Eval(ys, {{xs, *Tensor::Make(DType::kFloat, {0, 2})}}).shape().ToString(),
      "[0,2]");
}

TEST_F(HigherOrderTest, MapsMayNestAndContainConditionals) {
  const Output m = ops::Reshape(Row({1, -2, 3, -4}), {2, 2});
  const Output y = MapFn(
      [](Output row) {
        return MapFn(
            [](Output x) {
              return Cond(
                  x < 0, [&] { return -x; }, [&] { return x * 10; });
            },
            row);
      },
      m);
  EXPECT_EQ(y.shape().ToString(), "[2,2]");
  EXPECT_THAT(Values<float>(y), ElementsAre(10, 2, 30, 4));
}

TEST_F(HigherOrderTest, FoldsRunFromEitherEnd) {
  const Output xs = Row({1, 2, 3, 4});
  const auto join = [](Output a, Output x) { return a * 10 + x; };
  EXPECT_THAT(Values<float>(FoldL(join, xs)), ElementsAre(1234));
  EXPECT_THAT(Values<float>(FoldR(join, xs)), ElementsAre(4321));
  EXPECT_THAT(Values<float>(FoldL(join, xs, 5.0f)), ElementsAre(51234));
  EXPECT_THAT(Values<float>(FoldR(join, xs, 5.0f)), ElementsAre(54321));
}

TEST_F(HigherOrderTest, FoldStateMayDifferInStructureFromElements) {
  const Output xs = Row({1, 5, 3});
  const Output is = Constant(Tensor::Vector<int32_t>({1, 2, 3}));
  const auto [total, largest] = FoldL(
      [](std::pair<Output, Output> state, std::tuple<Output, Output> row) {
        const auto [x, i] = row;
        return std::pair{
            ops::AddV2(state.first, x * ops::Cast(i, DType::kFloat)),
            ops::Maximum(state.second, x)};
      },
      std::tuple{xs, is}, std::pair{0.0f, 0.0f});
  EXPECT_THAT(Values<float>(total), ElementsAre(20));
  EXPECT_THAT(Values<float>(largest), ElementsAre(5));
}

TEST_F(HigherOrderTest, FoldOfNoRowsReturnsInitialState) {
  const Output xs = Placeholder<float>({-1});
  const auto join = [](Output a, Output x) { return a * 10 + x; };
  const Feeds none = {{xs, *Tensor::Make(DType::kFloat, {0})}};
  EXPECT_THAT(Values<float>(FoldL(join, xs, 7.0f), none), ElementsAre(7));
  EXPECT_THAT(Values<float>(FoldR(join, xs, 7.0f), none), ElementsAre(7));
  // Without an initial value there is nothing to return.
  const Result<Tensor> r = session_.Run(none, FoldL(join, xs));
  EXPECT_FALSE(r.ok());
}

TEST_F(HigherOrderTest, ScanReturnsEveryState) {
  const Output xs = Row({1, 2, 3, 4});
  const auto join = [](Output a, Output x) { return a * 10 + x; };
  const Output plain = Scan(join, xs);
  EXPECT_EQ(plain.shape().ToString(), "[4]");
  EXPECT_THAT(Values<float>(plain), ElementsAre(1, 12, 123, 1234));
  EXPECT_THAT(Values<float>(Scan(join, xs, 5.0f)),
              ElementsAre(51, 512, 5123, 51234));
  EXPECT_THAT(Values<float>(Scan(join, xs, {.reverse = true})),
              ElementsAre(4321, 432, 43, 4));
  EXPECT_THAT(Values<float>(Scan(join, xs, 5.0f, {.reverse = true})),
              ElementsAre(54321, 5432, 543, 54));
}

TEST_F(HigherOrderTest, ScanOfUnknownLengthMayCarrySeveralValues) {
  const Output xs = Placeholder<float>({-1, 2});
  // Fibonacci numbers and the running sum of rows.
  const auto [a, b, sum] = Scan(
      [](std::tuple<Output, Output, Output> s, Output row) {
        const auto [a, b, sum] = s;
        return std::tuple{b, ops::AddV2(a, b), sum + row};
      },
      xs, std::tuple{0, 1, Row({0, 0})});
  const Feeds feeds = {
      {xs, *Tensor::Vector<float>({1, 2, 3, 4, 5, 6}).Reshaped({3, 2})}};
  EXPECT_THAT(Values<int>(a, feeds), ElementsAre(1, 1, 2));
  EXPECT_THAT(Values<int>(b, feeds), ElementsAre(1, 2, 3));
  EXPECT_THAT(Values<float>(sum, feeds), ElementsAre(1, 2, 4, 6, 9, 12));
  EXPECT_EQ(sum.shape().dim(1), 2);
}

TEST_F(HigherOrderTest, GradientsFlowBackToEveryRowAndToCaptures) {
  const Output xs = Row({1, 2, 3}), w = Constant(3.0f);
  const auto add = [](Output a, Output x) { return a + x; };
  const auto times = [](Output a, Output x) { return a * x; };
  const Output squares = MapFn([&](Output x) { return w * x * x; }, xs);
  EXPECT_THAT(Values<float>(Grad(squares, xs)), ElementsAre(6, 12, 18));
  EXPECT_THAT(Values<float>(Grad(squares, w)), ElementsAre(14));
  EXPECT_THAT(Values<float>(Grad(Scan(add, xs), xs)), ElementsAre(3, 2, 1));
  EXPECT_THAT(Values<float>(Grad(Scan(add, xs, {.reverse = true}), xs)),
              ElementsAre(1, 2, 3));
  EXPECT_THAT(Values<float>(Grad(FoldL(times, xs, w), xs)),
              ElementsAre(18, 9, 6));
  EXPECT_THAT(Values<float>(Grad(FoldR(times, xs), xs)), ElementsAre(6, 3, 2));
  // The gradient of a gradient: each slope of the product is 18 / row.
  const Output slope = Grad(FoldL(times, xs, w), xs);
  EXPECT_THAT(Values<float>(Grad(slope, xs)), ElementsAre(15, 12, 9));
}

TEST_F(HigherOrderTest, ElementsOfDifferentLengthsAreNamedInAStep) {
  const Output a = Placeholder<float>({-1}), b = Placeholder<float>({-1});
  const auto sum = [](Output x, Output y) { return x + y; };
  const Output mapped = MapFn(sum, std::pair{a, b});
  const Output scanned =
      Scan([](Output s,
              std::pair<Output, Output> e) { return s + e.first * e.second; },
           std::pair{Row({1, 2, 3}), b}, 0.0f);
  const auto row = [](std::vector<float> v) { return Tensor::Vector(v); };
  EXPECT_THAT(Values<float>(mapped, {{a, row({1, 2})}, {b, row({3, 4})}}),
              ElementsAre(4, 6));
  EXPECT_THAT(
      Values<float>(Grad(mapped, b), {{a, row({1, 2})}, {b, row({3, 4})}}),
      ElementsAre(1, 1));
  EXPECT_THAT(Values<float>(scanned, {{b, row({3, 4, 5})}}),
              ElementsAre(3, 11, 26));
  const std::string expected =
      absl::StrCat("elements: expected one length (first dimension) in ",
                   a.node->name(), " and ", b.node->name(), ", got] [2] ");
  for (const std::vector<float>& other :
       {std::vector<float>{1}, std::vector<float>{1, 2, 3}})
    EXPECT_THAT(session_.Run({{a, row({1, 2})}, {b, row(other)}}, mapped)
                    .status()
                    .ToString(),
                AllOf(HasSubstr(absl::StrCat(expected, "[", other.size(), "]")),
                      HasSubstr("node 'map/")));
  EXPECT_THAT(session_.Run({{b, row({1, 2})}}, scanned).status().ToString(),
              AllOf(HasSubstr(b.node->name() + ", got] [3] [2]"),
                    HasSubstr("node 'scan/")));
}

TEST_F(HigherOrderTest, LengthsAreCheckedOnTheHostOfAMapOnADevice) {
  const Output a = Placeholder<float>({-1}), b = Placeholder<float>({-1});
  Output sums;
  {
    const DeviceScope on_device("/device:EMU:0");
    sums = MapFn([](Output x, Output y) { return x + y; }, std::pair{a, b});
  }
  SessionOptions options;
  options.devices = EmulatedDevices(1);
  Session session(graph_, options);
  const auto row = [](std::vector<float> v) { return Tensor::Vector(v); };
  const Result<Tensor> got =
      session.Run({{a, row({1, 2})}, {b, row({3, 4})}}, sums);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_THAT(got->ToVector<float>(), ElementsAre(4, 6));
  EXPECT_THAT(
      session.Run({{a, row({1, 2})}, {b, row({3})}}, sums).status().ToString(),
      HasSubstr("expected one length (first dimension)"));
}

TEST_F(HigherOrderTest, WrongElementsAndResultsReportTheUsersLine) {
  const Output xs = Row({1, 2, 3}), ys = Row({1, 2}), x = Constant(1.0f);
  const auto same = [](Output x) { return x; };
  const auto add = [](Output a, Output x) { return a + x; };
  int line = 0;
  struct Wrong {
    std::function<Output()> build;
    std::vector<std::string> says;
  };
  const Wrong wrongs[] = {
      {[&] {
         line = __LINE__ + 1;
         return MapFn(same, x);
       },
       {"map 'map", "expected elements of at least one dimension"}},
      {[&] {
         line = __LINE__ + 1;
         return MapFn([](Output x, Output) { return x; }, std::pair{xs, ys});
       },
       {"map 'map",
        "expected elements of one length (first dimension), got 3 of '" +
            xs.node->name() + "' (shape [3]) and 2 of '" + ys.node->name() +
            "' (shape [2])"}},
      {[&] {
         line = __LINE__ + 1;
         return MapFn(same, xs, {.dtypes = {DType::kInt32}});
       },
       {"map 'map", "expected int32 as value 0, got float"}},
      {[&] {
         line = __LINE__ + 1;
         return MapFn(same, xs, {.dtypes = {DType::kFloat, DType::kFloat}});
       },
       {"map 'map", "expected 2 values as there are dtypes, got 1"}},
      {[&] {
         line = __LINE__ + 1;
         return FoldL(add, x, 0.0f);
       },
       {"fold 'foldl", "expected elements of at least one dimension"}},
      {[&] {
         line = __LINE__ + 1;
         return FoldR([&](Output, Output) { return Constant(1); }, xs, 0.0f);
       },
       {"fold 'foldr", "expected float as value 0, got int32"}},
      {[&] {
         line = __LINE__ + 1;
         return Scan([&](Output, Output) { return xs; }, xs, 0.0f);
       },
       {"scan", "expected shape []", "got [3]"}},
      {[&] {
         line = __LINE__ + 1;
         return Scan([&](Output, Output) { return Output(); }, xs, 0.0f);
       },
       {"scan 'scan", "expected an output as value 0, got none"}},
  };
  for (const Wrong& w : wrongs) {
    const Output failed = w.build();
    EXPECT_FALSE(failed.valid());
    ops::MatMul(xs, xs);  // An error that the result has no part in.
    for (const std::string& s : w.says) {
      EXPECT_THAT(BuildErrorOf(), HasSubstr(s));
      EXPECT_THAT(session_.Run(failed + 1).status().ToString(),
                  AllOf(HasSubstr(s), Not(HasSubstr("MatMul"))));
    }
    EXPECT_THAT(BuildErrorOf(), HasSubstr(Here(line, __FILE__)));
    graph_.ClearErrors();
  }
}

}  // namespace
}  // namespace sluice
