// Einsum against the sum written out, for every order of the labels.
#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "ops/math/test_util.h"

namespace sluice {
namespace {

using Sizes = std::map<char, int64_t>;

int64_t Offset(const std::string& labels, const Sizes& sizes,
               const std::map<char, int64_t>& at) {
  int64_t offset = 0;
  for (char l : labels) offset = offset * sizes.at(l) + at.at(l);
  return offset;
}

Shape ShapeOf(const std::string& labels, const Sizes& sizes) {
  std::vector<int64_t> dims;
  for (char l : labels) dims.push_back(sizes.at(l));
  return *Shape::Make(dims);
}

// The sum of a * b over all labels.
std::vector<double> PlainSum(const std::string& a, const std::string& b,
                             const std::string& out, const Sizes& sizes,
                             const Tensor& x, const Tensor& y) {
  std::vector<double> sum(
      static_cast<size_t>(ShapeOf(out, sizes).num_elements()));
  std::map<char, int64_t> at;
  const std::function<void(Sizes::const_iterator)> go =
      [&](Sizes::const_iterator label) {
        if (label == sizes.end()) {
          sum[static_cast<size_t>(Offset(out, sizes, at))] +=
              x.flat<double>()[static_cast<size_t>(Offset(a, sizes, at))] *
              y.flat<double>()[static_cast<size_t>(Offset(b, sizes, at))];
          return;
        }
        for (at[label->first] = 0; at[label->first] < label->second;
             ++at[label->first])
          go(std::next(label));
      };
  go(sizes.begin());
  return sum;
}

TEST(EinsumTest, MatchesTheSumForEveryOrderOfLabels) {
  constexpr unsigned kSeed = 31;
  SCOPED_TRACE(kSeed);
  std::mt19937 rng(kSeed);
  // Batches p and q, rows i and j, summed k and l, columns m; and without some.
  struct Case {
    std::string a, b, out;
  };
  for (const auto& [a0, b0, out0] :
       std::vector<Case>{{"ik", "km", "im"},
                         {"pik", "pkm", "pim"},
                         {"pk", "pkm", "pm"},
                         {"k", "km", "m"},
                         {"ik", "k", "i"},
                         {"i", "m", "im"},
                         {"pi", "pm", "pim"},
                         {"kl", "kl", ""},
                         {"p", "p", "p"},
                         {"pqijkl", "pqklm", "pqijm"},
                         {"ikx", "km", "im"}}) {
    std::string a = a0, b = b0, out = out0;
    for (int turn = 0; turn < 40; ++turn) {
      Sizes sizes;
      for (char l : a + b) sizes[l] = 1 + static_cast<int64_t>(rng() % 4);
      Tensor x(DType::kDouble, ShapeOf(a, sizes)),
          y(DType::kDouble, ShapeOf(b, sizes));
      for (Tensor* t : {&x, &y})
        for (double& v : t->flat<double>())
          v = static_cast<double>(rng() % 1000) / 500 - 1;
      const std::string equation = a + "," + b + "->" + out;
      SCOPED_TRACE(equation);
      const auto got =
          RunOp("Einsum", {x, y}, {{"equation", equation}, {"N", 2}});
      ASSERT_TRUE(got.ok()) << got.status();
      ASSERT_EQ(got->shape(), ShapeOf(out, sizes));
      const std::vector<double> want = PlainSum(a, b, out, sizes, x, y);
      for (size_t i = 0; i < want.size(); ++i)
        ASSERT_NEAR(got->flat<double>()[i], want[i], 1e-12);
      for (std::string* labels : {&a, &b, &out})
        std::shuffle(labels->begin(), labels->end(), rng);
    }
  }
}

TEST(EinsumTest, ErrorsNameTheSizesThatDiffer) {
  ExpectInvalid("Einsum",
                {Tensor::Of<float>({2, 3}, {1, 2, 3, 4, 5, 6}),
                 Tensor::Of<float>({2, 2}, {1, 2, 3, 4})},
                {{"equation", "ik,km->im"}, {"N", 2}},
                "expected one size for a label, got 3 and 2");
  ExpectInvalid("Einsum",
                {Tensor::Of<float>({2, 3}, {1, 2, 3, 4, 5, 6}),
                 Tensor::Vector<float>({1, 2})},
                {{"equation", "ik,km->im"}, {"N", 2}},
                "expected an input of rank 2, got 1");
}

}  // namespace
}  // namespace sluice
