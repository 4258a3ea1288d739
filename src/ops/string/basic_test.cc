// Text as formatted by TensorFlow 2.21.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdio>
#include <limits>
#include <random>
#include <vector>

#include "exec/core/kernel.h"
#include "graph/builder.h"
#include "graph/graph.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Result<std::vector<std::string>> TextOf(const Tensor& t, AttrMap attrs = {}) {
  Graph g;
  WithGraph use(g);
  const Output y = Build("AsString", {Constant(t)}, std::move(attrs));
  SLUICE_RETURN_IF_ERROR(g.status());
  SLUICE_ASSIGN_OR_RETURN(std::vector<Tensor> out, RunKernel(*y.node, {t}));
  return out[0].ToVector<std::string>();
}

TEST(AsString, FormatsNumbersAsPrintfDoes) {
  EXPECT_THAT(*TextOf(Tensor::Vector<float>(
                  {1.5f, -0.0f, 1e10f, 3.14159274f, NAN, INFINITY})),
              ElementsAre("1.500000", "-0.000000", "10000000000.000000",
                          "3.141593", "nan", "inf"));
  EXPECT_THAT(*TextOf(Tensor::Vector<double>({1e20})),
              ElementsAre("100000000000000000000.000000"));
  EXPECT_THAT(*TextOf(Tensor::Vector<int8_t>({-3})), ElementsAre("-3"));
  EXPECT_THAT(*TextOf(Tensor::Vector<uint64_t>({UINT64_MAX})),
              ElementsAre("18446744073709551615"));
  EXPECT_THAT(*TextOf(Tensor::Vector<bool>({true, false})),
              ElementsAre("true", "false"));
  EXPECT_THAT(*TextOf(Tensor::Vector<complex64>({{1, 2}})),
              ElementsAre("(1.000000,2.000000)"));
  const Tensor one = Tensor::Vector<float>({1.5f});
  EXPECT_THAT(*TextOf(one, {{"precision", 2}}), ElementsAre("1.50"));
  EXPECT_THAT(*TextOf(one, {{"scientific", true}}),
              ElementsAre("1.500000e+00"));
  EXPECT_THAT(*TextOf(one, {{"shortest", true}}), ElementsAre("1.5"));
  EXPECT_THAT(*TextOf(one, {{"width", 9}, {"precision", 1}, {"fill", "+"}}),
              ElementsAre("     +1.5"));
  const Tensor five = Tensor::Vector<int32_t>({5});
  EXPECT_THAT(*TextOf(five, {{"width", 4}, {"fill", "0"}}),
              ElementsAre("0005"));
  EXPECT_THAT(*TextOf(five, {{"width", 4}, {"fill", "-"}}),
              ElementsAre("5   "));
  EXPECT_THAT(*TextOf(Tensor::Vector<complex64>({{1, 2}}),
                      {{"precision", 2}, {"width", 7}}),
              ElementsAre("(   1.00,   2.00)"));
}

TEST(AsString, FormatsAnyDoubleAsPrintfDoes) {
  std::mt19937_64 rng(7);
  std::vector<double> v = {1e-320,
                           -std::nan(""),
                           INFINITY,
                           -INFINITY,
                           std::numeric_limits<double>::max(),
                           0.5,
                           2.5};
  for (int i = 0; i < 500; ++i) v.push_back(std::bit_cast<double>(rng()));
  for (int i = 0; i < 500; ++i)
    v.push_back(static_cast<double>(rng() % 20000) / 16 - 600);
  const Tensor t = Tensor::Of<double>(Shape({static_cast<int64_t>(v.size())}),
                                      std::span<const double>(v));
  for (const int precision : {-1, 0, 3, 17, 4096})
    for (const char* form : {"", "scientific", "shortest"}) {
      AttrMap attrs{{"precision", int64_t{precision}}};
      if (*form != 0) attrs[form] = true;
      const auto text = TextOf(t, attrs);
      ASSERT_TRUE(text.ok()) << text.status();
      const char* format = *form == 0                       ? "%.*f"
                           : *form == 's' && form[1] == 'c' ? "%.*e"
                                                            : "%.*g";
      for (size_t i = 0; i < v.size(); ++i) {
        char want[4500];
        std::snprintf(want, sizeof(want), format, precision < 0 ? 6 : precision,
                      v[i]);
        ASSERT_EQ((*text)[i], want);
      }
    }
}

TEST(AsString, RejectsInvalidFormats) {
  const Tensor one = Tensor::Vector<int32_t>({1});
  for (const AttrMap& attrs :
       {AttrMap{{"scientific", true}}, AttrMap{{"precision", 2}},
        AttrMap{{"fill", "ab"}}, AttrMap{{"fill", "%"}},
        AttrMap{{"width", 100000}}})
    EXPECT_EQ(TextOf(one, attrs).status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(TextOf(Tensor::Vector<float>({1}),
                                 {{"scientific", true}, {"shortest", true}})
                              .status()
                              .message()),
              HasSubstr("at most one"));
}

TEST(StringJoin, JoinsElementwiseAndBroadcastsScalars) {
  const Tensor ab = Tensor::Vector<std::string>({"a", "b"});
  const Tensor x = Tensor::Scalar<std::string>("x");
  Graph g;
  WithGraph use(g);
  const Output y =
      Build("StringJoin", {Constant(ab), Constant(x)}, {{"separator", "-"}});
  ASSERT_TRUE(g.status().ok()) << g.status();
  EXPECT_EQ(y.shape().ToString(), "[2]");
  const auto out = RunKernel(*y.node, {ab, x});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_THAT((*out)[0].ToVector<std::string>(), ElementsAre("a-x", "b-x"));
  const Tensor three = Tensor::Vector<std::string>({"1", "2", "3"});
  EXPECT_EQ(RunKernel(*y.node, {ab, three}).status().code(),
            StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace sluice
