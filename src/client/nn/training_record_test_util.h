// What TensorFlow computed: tests/cases/training.tsv and layers.tsv, made by
// record_training.py and record_layers.py there.
#ifndef SLUICE_CLIENT_NN_TRAINING_RECORD_TEST_UTIL_H_
#define SLUICE_CLIENT_NN_TRAINING_RECORD_TEST_UTIL_H_

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "client/testing/client_test_util.h"

namespace sluice {

using Numbers = std::vector<double>;
// The lines of one name, in their order.
using Record = std::vector<std::pair<std::string, Numbers>>;

inline const std::map<std::string, Record>& TrainingRecords() {
  static const auto* const records = [] {
    auto* all = new std::map<std::string, Record>();
    for (const char* path :
         {"tests/cases/training.tsv", "tests/cases/layers.tsv"}) {
      std::ifstream file(path);
      for (std::string line; std::getline(file, line);) {
        std::istringstream fields(line);
        std::string name, key, number;
        std::getline(fields, name, '\t');
        std::getline(fields, key, '\t');
        Numbers numbers;
        while (std::getline(fields, number, '\t'))
          numbers.push_back(std::strtod(number.c_str(), nullptr));
        (*all)[name].emplace_back(key, std::move(numbers));
      }
    }
    return all;
  }();
  return *records;
}

// One line; empty, with a failure, if there is none.
inline Numbers Recorded(const std::string& name, const std::string& key) {
  const auto found = TrainingRecords().find(name);
  if (found != TrainingRecords().end())
    for (const auto& [k, numbers] : found->second)
      if (k == key) return numbers;
  ADD_FAILURE() << "tests/cases/*.tsv: expected " << name << " " << key
                << ", got no such line (tests run in the repository's root)";
  return {};
}

// `count` numbers from `from` on, as a tensor of float, double or int32.
inline Tensor TensorOf(DType dtype, const Shape& shape, const Numbers& numbers,
                       size_t from = 0) {
  Tensor t(dtype, shape);
  const auto count = static_cast<size_t>(shape.num_elements());
  if (numbers.size() < from + count) {
    ADD_FAILURE() << "expected " << from + count << " numbers, got "
                  << numbers.size();
    return *Tensor::Zeros(dtype, shape);
  }
  for (size_t i = 0; i < count; ++i) {
    const double v = numbers[from + i];
    if (dtype == DType::kFloat) t.flat<float>()[i] = static_cast<float>(v);
    if (dtype == DType::kDouble) t.flat<double>()[i] = v;
    if (dtype == DType::kInt32) t.flat<int32_t>()[i] = static_cast<int32_t>(v);
  }
  return t;
}

inline Numbers NumbersOf(const Tensor& t) {
  Numbers numbers;
  if (t.dtype() == DType::kFloat)
    for (float v : t.ToVector<float>()) numbers.push_back(v);
  if (t.dtype() == DType::kDouble) numbers = t.ToVector<double>();
  return numbers;
}

// Each within `tolerance`, relative to the expected number but at least to
// `scale`.
inline void ExpectNear(const Numbers& got, const Numbers& expected,
                       double tolerance, double scale = 1) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], expected[i],
                tolerance * std::max(scale, std::fabs(expected[i])))
        << "element " << i;
}

}  // namespace sluice

#endif  // SLUICE_CLIENT_NN_TRAINING_RECORD_TEST_UTIL_H_
