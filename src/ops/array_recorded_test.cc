// Compares the ops that move elements with what TensorFlow computed for the
// same inputs: tests/cases/array_ops.txt, made by record_array_ops.py there.
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/array_test_util.h"
#include "ops/array_util.h"

namespace sluice {
namespace {

struct Case {
  int line = 0;
  std::string op;
  AttrMap attrs;
  std::vector<Tensor> inputs, outputs;
  bool error = false;
};

double Number(const std::string& s) {
  if (s == "nan") return std::nan("");
  return std::stod(s);
}

Tensor ParseTensor(std::istream& in) {
  std::string type, dims_text;
  in >> type >> dims_text;
  const DType dtype = ParseDType(type).value_or(DType::kInvalid);
  EXPECT_NE(dtype, DType::kInvalid) << type;
  Dims dims;
  for (absl::string_view d : absl::StrSplit(
           absl::string_view(dims_text).substr(1, dims_text.size() - 2), ',',
           absl::SkipEmpty()))
    dims.push_back(std::stoll(std::string(d)));
  Tensor t(dtype, *array::MakeShape(dims));
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    std::string v;
    in >> v;
    if (dtype == DType::kString) {
      t.data<std::string>()[i] = absl::HexStringToBytes(v.substr(1));
    } else if (dtype == DType::kBool) {
      t.data<bool>()[i] = v == "1";
    } else if (IsComplex(dtype)) {
      std::string imaginary;
      in >> imaginary;
      if (dtype == DType::kComplex64)
        t.data<complex64>()[i] =
            complex64(static_cast<float>(Number(v)),
                      static_cast<float>(Number(imaginary)));
      else
        t.data<complex128>()[i] = complex128(Number(v), Number(imaginary));
    } else {
      array::ByNumber(dtype, [&]<typename T>(array::Tag<T>) {
        if constexpr (std::is_integral_v<T>)
          t.data<T>()[i] = static_cast<T>(std::stoll(v));
        else if constexpr (std::is_same_v<T, double>)
          t.data<T>()[i] = Number(v);
        else if constexpr (!std::is_same_v<T, complex64> &&
                           !std::is_same_v<T, complex128>)
          t.data<T>()[i] = T(static_cast<float>(Number(v)));
      });
    }
  }
  return t;
}

AttrValue ParseAttr(const std::string& text) {
  const std::string rest = text.substr(1);
  switch (text[0]) {
    case 'b':
      return AttrValue(rest == "1");
    case 'i':
      return AttrValue(static_cast<int64_t>(std::stoll(rest)));
    case 's':
      return AttrValue(rest);
    case 't':
      return AttrValue(*ParseDType(rest));
    default:
      break;
  }
  AttrValue::Ints list;
  for (absl::string_view v : absl::StrSplit(rest, ',', absl::SkipEmpty()))
    list.push_back(std::stoll(std::string(v)));
  return AttrValue(list);
}

std::vector<Case> ReadCases() {
  std::vector<Case> cases;
  std::ifstream file("tests/cases/array_ops.txt");
  std::string text;
  for (int line = 1; std::getline(file, text); ++line) {
    std::istringstream in(text);
    std::string word;
    in >> word;
    if (word == "case") {
      Case c;
      c.line = line;
      in >> c.op;
      while (in >> word) {
        const size_t equals = word.find('=');
        std::string name = word.substr(0, equals);
        if (c.op == "Squeeze" && name == "axis") name = "squeeze_dims";
        c.attrs[name] = ParseAttr(word.substr(equals + 1));
      }
      cases.push_back(std::move(c));
    } else if (word == "in") {
      cases.back().inputs.push_back(ParseTensor(in));
    } else if (word == "out") {
      cases.back().outputs.push_back(ParseTensor(in));
    } else {
      cases.back().error = true;
    }
  }
  return cases;
}

// Equal elements; NaN equals NaN, and floats may differ in the last bit.
bool Same(const Tensor& want, const Tensor& got) {
  if (want.dtype() != got.dtype() || !(want.shape() == got.shape()))
    return false;
  if (want.dtype() != DType::kFloat) return want.Identical(got);
  for (int64_t i = 0; i < want.num_elements(); ++i) {
    const float w = want.data<float>()[i], g = got.data<float>()[i];
    if (std::isnan(w) != std::isnan(g) ||
        (!std::isnan(w) && std::abs(w - g) > 1e-6f * std::abs(w)))
      return false;
  }
  return true;
}

TEST(ArrayOps, ComputeWhatTensorFlowRecorded) {
  const std::vector<Case> cases = ReadCases();
  ASSERT_GT(cases.size(), 300u);
  for (const Case& c : cases) {
    const std::string where =
        absl::StrCat("tests/cases/array_ops.txt:", c.line, ": ", c.op);
    const Result<std::vector<Tensor>> got = RunOp(c.op, c.inputs, c.attrs);
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
      EXPECT_TRUE(Same(c.outputs[i], (*got)[i]))
          << where << ": output " << i << ": expected "
          << c.outputs[i].ToString(40) << ", got " << (*got)[i].ToString(40);
  }
}

// What is wrong is found while building wherever the inputs are constants.
TEST(ArrayOps, InferredShapesAreExactForConstants) {
  // Results whose size depends on the values themselves.
  const std::vector<std::string> by_value = {"Where",
                                             "Unique",
                                             "UniqueV2",
                                             "UniqueWithCounts",
                                             "UniqueWithCountsV2",
                                             "ListDiff",
                                             "DynamicPartition",
                                             "BroadcastGradientArgs"};
  for (const Case& c : ReadCases()) {
    if (c.error || std::count(by_value.begin(), by_value.end(), c.op)) continue;
    Graph g;
    WithGraph use(g);
    const Result<Node*> node = AddOp(c.op, c.inputs, c.attrs, true);
    ASSERT_TRUE(node.ok()) << c.line << ": " << node.status();
    for (int i = 0; i < (*node)->num_outputs(); ++i)
      EXPECT_EQ((*node)->output_shape(i).ToString(),
                c.outputs[static_cast<size_t>(i)].shape().ToString())
          << "tests/cases/array_ops.txt:" << c.line << ": " << c.op;
  }
}

}  // namespace
}  // namespace sluice
