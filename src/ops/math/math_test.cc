// Arithmetic, reductions and products against values recorded from TensorFlow
// 2.21, and gradients against finite differences.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <type_traits>
#include <vector>

#include "ops/math/test_util.h"

namespace sluice {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

Tensor Ints(std::initializer_list<int32_t> v) {
  return Tensor::Vector<int32_t>(v);
}
Tensor Doubles(const Shape& s, std::initializer_list<double> v) {
  return Tensor::Of<double>(s, v);
}

TEST(Binary, BroadcastsLikeNumpy) {
  ExpectOp<float>(
      "AddV2",
      {Tensor::Of<float>({2, 1}, {1, 2}), Tensor::Vector<float>({10, 20, 30})},
      {}, Shape({2, 3}), {11, 21, 31, 12, 22, 32});
  ExpectOp<int32_t>("Sub", {Ints({5, 7}), Tensor::Scalar<int32_t>(2)}, {},
                    Shape({2}), {3, 5});
  ExpectOp<float>(
      "Mul", {Tensor::Of<float>({0, 3}, {}), Tensor::Vector<float>({1, 2, 3})},
      {}, Shape({0, 3}), {});
  ExpectInvalid("AddV2", {Ints({1, 2}), Ints({1, 2, 3})}, {},
                "got [2] and [3]");
}

TEST(Binary, ScalarsMatchVectors) {
  for (const char* op :
       {"AddV2", "Sub", "Mul", "Maximum", "Minimum", "Less", "LessEqual",
        "Greater", "GreaterEqual", "Equal", "NotEqual"}) {
    for (const auto& [a, b] : std::vector<std::pair<float, float>>{
             {1, 2}, {2, 1}, {3, 3}, {kNan, 1}, {1, kNan}, {kInf, -kInf}}) {
      const auto s = RunOp(op, {Tensor::Scalar(a), Tensor::Scalar(b)});
      const auto v =
          RunOp(op, {Tensor::Vector<float>({a}), Tensor::Vector<float>({b})});
      ASSERT_TRUE(s.ok() && v.ok()) << op;
      EXPECT_EQ(s->Summarize(1), v->Summarize(1)) << op << a << ' ' << b;
    }
  }
}

TEST(Binary, IntegersDivideLikeTensorFlow) {
  const std::vector<Tensor> xy = {Ints({-7, 7, -7, 7}), Ints({2, 2, -2, -2})};
  ExpectOp<int32_t>("FloorDiv", xy, {}, Shape({4}), {-4, 3, 3, -4});
  ExpectOp<int32_t>("FloorMod", xy, {}, Shape({4}), {1, 1, -1, -1});
  ExpectOp<int32_t>("TruncateMod", xy, {}, Shape({4}), {-1, 1, -1, 1});
  ExpectOp<int32_t>("Div", xy, {}, Shape({4}), {-3, 3, 3, -3});
  for (const char* op :
       {"Div", "FloorDiv", "FloorMod", "TruncateDiv", "TruncateMod"}) {
    ExpectInvalid(op, {Ints({1, 2}), Ints({1, 0})}, {},
                  "Integer division by zero");
    ExpectInvalid(op, {Tensor::Scalar<int32_t>(1), Tensor::Scalar<int32_t>(0)},
                  {}, "Integer division by zero");
  }
}

// As in TensorFlow: a graph with them can be built.
TEST(Segment, SizesAreComparedWhenTheOpRuns) {
  Graph g;
  WithGraph use(g);
  const Output ids = Constant(Ints({0, 1}));
  for (const char* op : {"SegmentSum", "SegmentMean", "SegmentMax"})
    EXPECT_TRUE(
        Build(op, {Constant(Tensor::Vector<float>({1, 2, 3})), ids}).valid());
  EXPECT_TRUE(g.status().ok()) << g.status();
  ExpectInvalid("SegmentSum", {Tensor::Vector<float>({1, 2, 3}), Ints({0, 1})},
                {}, "segment_ids");
}

TEST(Binary, IntegersWrapAround) {
  const int32_t most = std::numeric_limits<int32_t>::max();
  ExpectOp<int32_t>("AddV2", {Tensor::Scalar(most), Tensor::Scalar<int32_t>(1)},
                    {}, Shape(), {std::numeric_limits<int32_t>::min()});
}

TEST(Binary, AddJoinsStrings) {
  ExpectOp<std::string>("Add",
                        {Tensor::Of<std::string>({2, 1}, {"a", "b"}),
                         Tensor::Vector<std::string>({"x", "y"})},
                        {}, Shape({2, 2}), {"ax", "ay", "bx", "by"});
}

TEST(Compare, EqualityHandlesStringsAndIncompatibleShapes) {
  ExpectOp<bool>("Equal",
                 {Tensor::Vector<std::string>({"a", "b"}),
                  Tensor::Scalar<std::string>("b")},
                 {}, Shape({2}), {false, true});
  ExpectInvalid("Equal", {Ints({1, 2}), Ints({1, 2, 3})}, {}, "broadcast");
  ExpectOp<bool>("Equal", {Ints({1, 2}), Ints({1, 2, 3})},
                 {{"incompatible_shape_error", false}}, Shape(), {false});
  ExpectOp<bool>("NotEqual", {Ints({1, 2}), Ints({1, 2, 3})},
                 {{"incompatible_shape_error", false}}, Shape(), {true});
}

TEST(Binary, InPlaceResultsDoNotAffectOtherReaders) {
  Graph g;
  WithGraph use(g);
  const Output x = Build("Placeholder", {}, {{"dtype", DType::kFloat}});
  const Output a = Build("Neg", {x});
  const Output b = Build("AddV2", {a, x});  // May write into a.
  const Output c = Build("Mul", {a, a});    // Still needs it.
  Session session(g);
  const auto r =
      session.Run({{x, Tensor::Vector<float>({1, 2, 3})}}, {b, c, x});
  ASSERT_TRUE(r.ok()) << r.status();
  EXPECT_EQ((*r)[0].ToVector<float>(), (std::vector<float>{0, 0, 0}));
  EXPECT_EQ((*r)[1].ToVector<float>(), (std::vector<float>{1, 4, 9}));
  EXPECT_EQ((*r)[2].ToVector<float>(), (std::vector<float>{1, 2, 3}));
}

TEST(Binary, GradientsSumOverBroadcastDimensions) {
  const Tensor x = Doubles({2, 1, 3}, {0.5, 1, 2, 1.5, 0.7, 3});
  const Tensor y = Doubles({2, 1}, {1.2, 0.8});
  for (bool unknown : {false, true})
    for (const char* op : {"AddV2", "Sub", "Mul", "RealDiv", "Pow", "Maximum",
                           "Minimum", "SquaredDifference", "Atan2", "Xlogy",
                           "Xlog1py", "Xdivy", "DivNoNan", "MulNoNan"})
      ExpectGradients(op, {x, y}, {}, unknown);
}

// d y / d x of a holomorphic y is the conjugate of its derivative; the fused
// ops do part of the conjugation and the gradients that build them the rest.
TEST(Complex, GradientsAreConjugatesOfDerivatives) {
  using C = complex128;
  const std::vector<C> x = {{0.3, 0.4}, {-0.7, 1.1}, {1.2, -0.5}};
  const struct {
    const char* op;
    C (*derivative)(C);
  } cases[] = {
      {"Tanh", [](C z) { return 1.0 - std::tanh(z) * std::tanh(z); }},
      {"Sigmoid",
       [](C z) { return std::exp(-z) / std::pow(1.0 + std::exp(-z), 2); }},
      {"Sqrt", [](C z) { return 0.5 / std::sqrt(z); }},
      {"Rsqrt", [](C z) { return -0.5 / (z * std::sqrt(z)); }},
      {"Reciprocal", [](C z) { return -1.0 / (z * z); }},
      {"Exp", [](C z) { return std::exp(z); }},
  };
  for (const auto& c : cases) {
    Graph g;
    WithGraph use(g);
    const Output in = Constant(Tensor::Vector<C>(x));
    GradientOptions ones;
    ones.grad_ys = {Constant(Tensor::Vector<C>({1, 1, 1}))};
    const Output slope = Grad(Build(c.op, {in}), in, ones);
    Session session(g);
    const Result<Tensor> got = session.Run(slope);
    ASSERT_TRUE(got.ok()) << c.op << ": " << got.status();
    for (size_t i = 0; i < x.size(); ++i)
      EXPECT_LT(std::abs(got->data<C>()[i] - std::conj(c.derivative(x[i]))),
                1e-12)
          << c.op << " at " << x[i] << ": " << got->data<C>()[i];
  }
}

TEST(Reduce, ReducesAnyAxes) {
  const Tensor x = Tensor::Of<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  ExpectOp<float>("Sum", {x, Ints({-1})}, {}, Shape({2}), {6, 15});
  ExpectOp<float>("Sum", {x, Ints({0})}, {{"keep_dims", true}}, Shape({1, 3}),
                  {5, 7, 9});
  ExpectOp<float>("Mean", {x, Ints({1, 0})}, {}, Shape(), {3.5});
  ExpectOp<float>("Max", {x, Ints({})}, {}, Shape({2, 3}), {1, 2, 3, 4, 5, 6});
  ExpectOp<float>("Prod", {x, Tensor::Scalar<int32_t>(0)}, {}, Shape({3}),
                  {4, 10, 18});
  ExpectInvalid("Sum", {x, Ints({0, -2})}, {}, "each dimension once");
  ExpectInvalid("Sum", {x, Ints({2})}, {}, "in [-2, 2), got 2");
}

TEST(Reduce, EmptyReductionGivesIdentity) {
  const Tensor none = Tensor::Of<float>({0, 2}, {});
  ExpectOp<float>("Sum", {none, Ints({0})}, {}, Shape({2}), {0, 0});
  ExpectOp<float>("Prod", {none, Ints({0})}, {}, Shape({2}), {1, 1});
  ExpectOp<float>("Max", {none, Ints({0})}, {}, Shape({2}), {-kInf, -kInf});
  ExpectOp<float>("Min", {none, Ints({0})}, {}, Shape({2}), {kInf, kInf});
  const auto mean = RunOp("Mean", {none, Ints({0})});
  ASSERT_TRUE(mean.ok());
  EXPECT_TRUE(std::isnan(mean->data<float>()[0]));
}

TEST(Reduce, GradientsMatchDifferences) {
  const Tensor x = Doubles(
      {2, 3, 2}, {0.5, 1, 2, 1.5, 0.7, 3, -1, 0.2, 0.9, -0.4, 1.1, 2.5});
  for (bool unknown : {false, true})
    for (const char* op :
         {"Sum", "Mean", "Prod", "Max", "Min", "EuclideanNorm"})
      for (const Tensor& axes :
           {Ints({1}), Ints({0, 2}), Ints({-1, 0, 1}), Ints({})})
        for (bool keep : {false, true})
          ExpectGradients(op, {x, axes}, {{"keep_dims", keep}}, unknown);
  // A product with zeros in it.
  ExpectGradients("Prod", {Doubles({2, 3}, {0, 2, 3, 0, 0, 4}), Ints({1})});
}

TEST(MatMul, TransposesAndChecksShapes) {
  const Tensor a = Tensor::Of<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  ExpectOp<float>("MatMul", {a, a}, {{"transpose_b", true}}, Shape({2, 2}),
                  {14, 32, 32, 77});
  ExpectOp<float>("MatMul", {a, a}, {{"transpose_a", true}}, Shape({3, 3}),
                  {17, 22, 27, 22, 29, 36, 27, 36, 45});
  ExpectInvalid("MatMul", {a, a}, {}, "got [2,3] and [2,3]");
  ExpectOp<float>(
      "MatMul", {Tensor::Of<float>({2, 0}, {}), Tensor::Of<float>({0, 2}, {})},
      {}, Shape({2, 2}), {0, 0, 0, 0});
}

TEST(MatMul, GradientsMatchDifferences) {
  const std::initializer_list<double> six = {1, -2, 0.5, 0.3, 2, -1};
  for (bool ta : {false, true})
    for (bool tb : {false, true}) {
      const Shape s23({2, 3}), s32({3, 2});
      ExpectGradients(
          "MatMul",
          {Doubles(ta ? s32 : s23, six), Doubles(tb ? s23 : s32, six)},
          {{"transpose_a", ta}, {"transpose_b", tb}});
      const Shape b23({1, 2, 3}), b32({1, 3, 2});
      for (bool unknown : {false, true})
        ExpectGradients(
            "BatchMatMulV2",
            {Doubles(ta ? b32 : b23, six), Doubles(tb ? s23 : s32, six)},
            {{"adj_x", ta}, {"adj_y", tb}}, unknown);
    }
}

TEST(Scan, RunsInBothDirections) {
  const Tensor x = Tensor::Of<int32_t>({2, 3}, {1, 2, 3, 4, 5, 6});
  const Tensor one = Tensor::Scalar<int32_t>(1);
  ExpectOp<int32_t>("Cumsum", {x, one},
                    {{"exclusive", true}, {"reverse", true}}, Shape({2, 3}),
                    {5, 3, 0, 11, 6, 0});
  ExpectOp<int32_t>("Cumprod", {x, one}, {}, Shape({2, 3}),
                    {1, 2, 6, 4, 20, 120});
}

TEST(Arg, FindsTheFirstExtremum) {
  const Tensor x = Tensor::Of<float>({2, 3}, {1, 3, 3, kNan, 2, 1});
  ExpectOp<int64_t>("ArgMax", {x, Tensor::Scalar<int32_t>(1)}, {}, Shape({2}),
                    {1, 1});
  ExpectInvalid("ArgMax",
                {Tensor::Of<float>({2, 0}, {}), Tensor::Scalar<int32_t>(-1)},
                {}, "not empty");
  const auto top = RunOpAll("TopKV2", {Tensor::Vector<float>({3, 1, 3, 2}),
                                       Tensor::Scalar<int32_t>(3)});
  ASSERT_TRUE(top.ok()) << top.status();
  EXPECT_EQ((*top)[1].ToVector<int32_t>(), (std::vector<int32_t>{0, 2, 3}));
}

// Against a full sort, with many ties and some NaN.
TEST(TopK, ReturnsStartOfSortedRow) {
  constexpr unsigned kSeed = 31;
  SCOPED_TRACE(kSeed);
  std::mt19937 rng(kSeed);
  for (int64_t columns : {1, 2, 9, 100, 1000, 3000}) {
    for (int64_t k : {int64_t{1}, columns / 2, columns - 1, columns}) {
      std::vector<float> row(static_cast<size_t>(columns));
      for (float& x : row)
        x = rng() % 20 == 0 ? kNan : static_cast<float>(rng() % 50) - 25;
      std::vector<int32_t> want(row.size());
      std::iota(want.begin(), want.end(), 0);
      std::stable_sort(want.begin(), want.end(), [&](int32_t a, int32_t b) {
        const float x = row[a], y = row[b];
        return std::isnan(x) != std::isnan(y) ? std::isnan(x) : x > y;
      });
      want.resize(static_cast<size_t>(k));
      const auto top =
          RunOpAll("TopKV2", {Tensor::Vector<float>(row),
                              Tensor::Scalar<int32_t>(static_cast<int>(k))});
      ASSERT_TRUE(top.ok()) << top.status();
      EXPECT_EQ((*top)[1].ToVector<int32_t>(), want) << columns << " " << k;
    }
  }
}

template <typename T>
class SortedTypesTest : public ::testing::Test {};
using SortedTypes =
    ::testing::Types<float, double, half, bfloat16, int8_t, int16_t, int32_t,
                     int64_t, uint8_t, uint16_t, uint32_t, uint64_t>;
TYPED_TEST_SUITE(SortedTypesTest, SortedTypes);

// Of all sizes of the type, with infinities and both zeros where it has them.
TYPED_TEST(SortedTypesTest, AllElementsAreInOrder) {
  using T = TypeParam;
  constexpr unsigned kSeed = 32;
  SCOPED_TRACE(kSeed);
  std::mt19937_64 rng(kSeed);
  for (const int64_t columns : {5, 900, 2500}) {
    std::vector<T> row(static_cast<size_t>(columns));
    for (T& x : row) {
      if constexpr (std::is_integral_v<T>) {
        // (As likely small as large.)
        x = static_cast<T>(rng() >> (rng() % 64));
        if (rng() % 16 == 0)
          x = rng() % 2 == 0 ? std::numeric_limits<T>::min()
                             : std::numeric_limits<T>::max();
      } else {
        constexpr double kInf = std::numeric_limits<double>::infinity();
        const double special[] = {0.0, -0.0, kInf, -kInf};
        const double size = std::exp2(static_cast<double>(rng() % 60) - 30) *
                            (static_cast<double>(rng() % 2001) - 1000);
        x = static_cast<T>(
            static_cast<float>(rng() % 8 == 0 ? special[rng() % 4] : size));
      }
    }
    std::vector<int32_t> want(row.size());
    std::iota(want.begin(), want.end(), 0);
    std::stable_sort(want.begin(), want.end(), [&row](int32_t a, int32_t b) {
      const T x = row[static_cast<size_t>(a)], y = row[static_cast<size_t>(b)];
      if constexpr (std::is_arithmetic_v<T>)
        return x > y;
      else
        return static_cast<float>(x) > static_cast<float>(y);
    });
    const auto top = RunOpAll(
        "TopKV2", {Tensor::Vector<T>(row),
                   Tensor::Scalar<int32_t>(static_cast<int>(columns))});
    ASSERT_TRUE(top.ok()) << top.status();
    ASSERT_EQ((*top)[1].template ToVector<int32_t>(), want) << columns;
    for (size_t i = 0; i < row.size(); ++i) {
      const T got = (*top)[0].template data<T>()[i];
      ASSERT_EQ(
          std::memcmp(&got, &row[static_cast<size_t>(want[i])], sizeof(T)), 0)
          << i;
    }
  }
}

TEST(Segment, FillsGapsWithNeutralValues) {
  const Tensor x = Tensor::Vector<double>({2, 3, 4, 5});
  ExpectOp<double>("SegmentProd", {x, Ints({0, 0, 2, 2})}, {}, Shape({3}),
                   {6, 1, 20});
  ExpectOp<double>("SegmentMax", {x, Ints({0, 0, 2, 2})}, {}, Shape({3}),
                   {3, 0, 5});
  ExpectOp<double>("UnsortedSegmentSum",
                   {x, Ints({2, 0, -1, 2}), Tensor::Scalar<int32_t>(3)}, {},
                   Shape({3}), {3, 0, 7});
  ExpectInvalid("SegmentSum", {x, Ints({1, 0, 2, 2})}, {}, "not decreasing");
  ExpectInvalid("UnsortedSegmentSum",
                {x, Ints({2, 0, 3, 2}), Tensor::Scalar<int32_t>(3)}, {},
                "below 3, got 3");
}

// Rows of one and of several elements, and types that are summed in others.
TEST(Segment, RowsOfAnyWidthAreReducedInOrder) {
  const Tensor ids = Ints({0, 0, 0, 2, 2, 3});
  const Tensor x = Tensor::Vector<float>({2, 3, 5, -4, 8, 1});
  ExpectOp<float>("SegmentSum", {x, ids}, {}, Shape({4}), {10, 0, 4, 1});
  ExpectOp<float>("SegmentMean", {x, ids}, {}, Shape({4}), {10.f / 3, 0, 2, 1});
  ExpectOp<float>("SegmentMin", {x, ids}, {}, Shape({4}), {2, 0, -4, 1});
  ExpectOp<int32_t>("SegmentMean", {Ints({2, 3, 6, -4, 8, 1}), ids}, {},
                    Shape({4}), {3, 0, 2, 1});
  const Tensor rows =
      Tensor::Of<float>(Shape({6, 2}), {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  ExpectOp<float>("SegmentMean", {rows, ids}, {}, Shape({4, 2}),
                  {3, 4, 0, 0, 8, 9, 11, 12});
  ExpectOp<float>("SegmentMax", {rows, ids}, {}, Shape({4, 2}),
                  {5, 6, 0, 0, 9, 10, 11, 12});
  Tensor narrow(DType::kBfloat16, Shape({3, 2}));
  for (int i = 0; i < 6; ++i)
    narrow.raw<bfloat16>()[i] = bfloat16(i < 2 ? 256.f : 0.75f);
  // (256 + 0.75 + 0.75 is rounded once, to 258.)
  ExpectOp<bfloat16>("SegmentSum", {narrow, Ints({0, 0, 0})}, {}, Shape({1, 2}),
                     {bfloat16(258.f), bfloat16(258.f)});
  ExpectOp<float>("SegmentSum",
                  {Tensor(DType::kFloat, Shape({3, 0})), Ints({0, 1, 1})}, {},
                  Shape({2, 0}), {});
}

TEST(Special, LimitsMatchRecordedValues) {
  const auto vec = [](std::initializer_list<double> v) {
    return Tensor::Vector<double>(v);
  };
  constexpr double kInf = std::numeric_limits<double>::infinity();
  ExpectNear<double>("Igamma", {vec({0, -2, 3}), vec({0, 0, 0})}, {}, {0, 0, 0},
                     0);
  ExpectNear<double>("Igammac", {vec({1e-30, 1}), vec({1, 1})}, {},
                     {2.193839343955203e-31, 0.36787944117144233}, 1e-14);
  ExpectNear<double>("Zeta", {vec({2, kInf, 2.5}), vec({kInf, 3, kInf})}, {},
                     {0, 0, 0}, 0);
  ExpectNear<double>("Polygamma", {vec({1, 3}), vec({kInf, kInf})}, {}, {0, 0},
                     0);
  // Where squares or powers overflow.
  const Tensor few = vec({.5, 1.5, 88.9}), many = vec({1e160, 1e300, 1e308});
  ExpectNear<double>("Igamma", {few, many}, {}, {1, 1, 1}, 0);
  ExpectNear<double>("Igammac", {few, many}, {}, {0, 0, 0}, 0);
  ExpectNear<double>("Zeta", {vec({1e300, 1e300}), vec({88.9, 1.5})}, {},
                     {0, 0}, 0);
  ExpectOp<double>("Zeta", {vec({710}), vec({-88.9})}, {}, Shape({1}), {kInf});
}

TEST(Special, ProbabilitiesLieBetweenZeroAndOne) {
  const Tensor a = Tensor::Vector<double>({1e-30, 1e-30, 1e-20});
  const Tensor x = Tensor::Vector<double>({.5, 1e-30, .9});
  const auto lower = RunOp("Igamma", {a, x}), upper = RunOp("Igammac", {a, x});
  ASSERT_TRUE(lower.ok() && upper.ok());
  for (const auto& t : {*lower, *upper})
    for (double p : t.flat<double>()) EXPECT_TRUE(p >= 0 && p <= 1) << p;
}

// Series are cut off earlier for floats, and their powers are products of
// logarithms.
TEST(Special, FloatsAreRoundedDoubles) {
  std::vector<float> a, x;
  for (const float i : {0.01f, 0.5f, 1.25f, 2.0f, 7.5f, 60.0f, 3000.0f})
    for (const float j : {1e-3f, 0.5f, 1.5f, 6.0f, 55.0f, 2950.0f, 3050.0f})
      a.push_back(i), x.push_back(j);
  const auto of = [](const std::vector<float>& v, auto like) {
    using T = decltype(like);
    const std::vector<T> values(v.begin(), v.end());
    return Tensor::Of<T>(Shape({static_cast<int64_t>(v.size())}),
                         std::span<const T>(values));
  };
  for (const char* op : {"Igamma", "Igammac", "IgammaGradA", "RandomGammaGrad",
                         "Zeta", "Polygamma"}) {
    const auto floats = RunOp(op, {of(a, 0.0f), of(x, 0.0f)});
    const auto doubles = RunOp(op, {of(a, 0.0), of(x, 0.0)});
    ASSERT_TRUE(floats.ok() && doubles.ok());
    for (size_t i = 0; i < a.size(); ++i) {
      const float got = floats->flat<float>()[i];
      const auto want = static_cast<float>(doubles->flat<double>()[i]);
      if (std::isnan(want) || std::isinf(want))
        EXPECT_EQ(std::to_string(got), std::to_string(want)) << op;
      else
        EXPECT_NEAR(got, want, 2e-7f * std::fabs(want) + 1e-45f)
            << op << " of " << a[i] << " and " << x[i];
    }
  }
}

TEST(Special, MatchesRecordedValues) {
  const auto vec = [](std::initializer_list<double> v) {
    return Tensor::Vector<double>(v);
  };
  const Tensor a = vec({.5, 2, 10}), x = vec({.3, 5, 7});
  ExpectNear<double>(
      "Igamma", {a, x}, {},
      {0.5614219739190001, 0.9595723180054873, 0.16950406276132612}, 1e-12);
  ExpectNear<double>(
      "Igammac", {a, x}, {},
      {0.43857802608099994, 0.04042768199451279, 0.8304959372386739}, 1e-12);
  ExpectNear<double>(
      "IgammaGradA", {a, x}, {},
      {-0.7705703513753518, -0.055859896052536745, -0.08580423750488861},
      1e-10);
  ExpectNear<double>(
      "Zeta", {vec({2, 3.5, 1.1}), vec({1, .5, 3})}, {},
      {1.6449340668482266, 11.620804663441898, 9.117931969182395}, 1e-12);
  ExpectNear<double>(
      "Polygamma", {vec({1, 2, 3}), vec({.5, 2, 5})}, {},
      {4.93480220054468, -0.4041138063191886, 0.02142782819275508}, 1e-12);
  ExpectNear<double>("Betainc", {a, vec({3, 1, 5}), vec({.3, .5, .7})}, {},
                     {0.8400694725735486, 0.25, 0.5842011862193505}, 1e-12);
  ExpectNear<double>(
      "BesselI0e", {vec({-.5, 3, 100})}, {},
      {0.6450352704491502, 0.24300035416182536, 0.03994437929909669}, 1e-12);
  ExpectNear<double>(
      "BesselI1e", {vec({-.5, 3, 100})}, {},
      {-0.15642080318487162, 0.19682671329730084, 0.039744153025130256}, 1e-12);
}

}  // namespace
}  // namespace sluice
