// Compares ops with what TensorFlow computed for the same inputs:
// tests/cases/*_ops.txt, made by the scripts there.
#include <algorithm>
#include <cmath>
#include <type_traits>

#include "gtest/gtest.h"
#include "ops/array_test_util.h"

namespace sluice {
namespace {

// What elements may be off by, relative to themselves, or to the largest of the
// tensor where sums of products cancel.
struct Tolerance {
  double error = 0;
  bool of_largest = false;
};

// What the numbers of a type are compared in.
template <typename T>
using Wide = std::conditional_t<std::is_same_v<T, complex64> ||
                                    std::is_same_v<T, complex128>,
                                complex128, double>;

template <typename T>
bool NearlyEqual(const Tensor& want, const Tensor& got, double error,
                 bool of_largest) {
  double largest = 0;
  for (int64_t i = 0; i < want.num_elements(); ++i) {
    const double w = std::abs(static_cast<Wide<T>>(want.data<T>()[i]));
    if (of_largest && std::isfinite(w)) largest = std::max(largest, w);
  }
  for (int64_t i = 0; i < want.num_elements(); ++i) {
    const auto w = static_cast<Wide<T>>(want.data<T>()[i]);
    const auto g = static_cast<Wide<T>>(got.data<T>()[i]);
    if (w == g || (std::isnan(std::abs(w)) && std::isnan(std::abs(g))))
      continue;
    if (!(std::abs(w - g) <= error * std::max(largest, std::abs(w))))
      return false;
  }
  return true;
}

// Equal, but for what is added up in another order.
bool EqualTensors(const Tensor& want, const Tensor& got, Tolerance t) {
  if (want.dtype() != got.dtype() || !(want.shape() == got.shape()))
    return false;
  switch (want.dtype()) {
    case DType::kFloat:
      return NearlyEqual<float>(want, got, t.error, t.of_largest);
    case DType::kDouble:
      return NearlyEqual<double>(want, got, t.error, t.of_largest);
    case DType::kComplex64:
      return NearlyEqual<complex64>(want, got, t.error, t.of_largest);
    case DType::kComplex128:
      return NearlyEqual<complex128>(want, got, t.error, t.of_largest);
    case DType::kHalf:
      return NearlyEqual<half>(want, got, 8e3 * t.error, t.of_largest);
    case DType::kBfloat16:
      return NearlyEqual<bfloat16>(want, got, 6e4 * t.error, t.of_largest);
    default:
      return want.Identical(got);
  }
}

// Runs all cases of a record. `min`: how many there are at least.
void CompareWithRecord(const std::string& path, size_t min,
                       Tolerance tolerance) {
  const std::vector<RecordedCase> cases = ReadCases(path);
  ASSERT_GT(cases.size(), min);
  for (const RecordedCase& c : cases) {
    const std::string where = absl::StrCat(path, ":", c.line, ": ", c.op);
    const Result<std::vector<Tensor>> got =
        RunRecorded(c.op, c.inputs, c.attrs);
    if (c.error) {
      EXPECT_FALSE(got.ok())
          << where << ": TensorFlow refuses this; got " << (*got)[0].ToString();
      EXPECT_NE(got.status().code(), StatusCode::kInternal)
          << where << ": " << got.status();
      continue;
    }
    if (!got.ok()) {
      ADD_FAILURE() << where << ": " << got.status();
      continue;
    }
    ASSERT_EQ(got->size(), c.outputs.size()) << where;
    for (size_t i = 0; i < got->size(); ++i)
      EXPECT_TRUE(EqualTensors(c.outputs[i], (*got)[i], tolerance))
          << where << ": output " << i << ": expected "
          << c.outputs[i].ToString(40) << ", got " << (*got)[i].ToString(40);
  }
}

TEST(RecordedOps, StringsAndEncodingsAreTensorFlows) {
  CompareWithRecord("tests/cases/string_ops.txt", 600, {});
}

TEST(RecordedOps, SparseTensorsAreTensorFlows) {
  CompareWithRecord("tests/cases/sparse_ops.txt", 500, {2e-7});
}

TEST(RecordedOps, NeuralNetworksAreTensorFlows) {
  CompareWithRecord("tests/cases/nn_ops.txt", 450, {1e-6, true});
}

TEST(RecordedOps, QuantizedArithmeticIsTensorFlows) {
  CompareWithRecord("tests/cases/quantized_ops.txt", 1150, {4e-7});
}

TEST(RecordedOps, DistancesAndSamplesAreTensorFlows) {
  CompareWithRecord("tests/cases/misc_ops.txt", 150, {2e-6});
}

TEST(RecordedOps, ArithmeticAndWindowsAreTensorFlows) {
  CompareWithRecord("tests/cases/math_ops.txt", 500, {2e-6, true});
}

}  // namespace
}  // namespace sluice
