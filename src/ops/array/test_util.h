// Runs one op in tests and checks its shape function along the way; reads the
// cases that TensorFlow computed.
#ifndef SLUICE_OPS_ARRAY_TEST_UTIL_H_
#define SLUICE_OPS_ARRAY_TEST_UTIL_H_

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_split.h"
#include "exec/core/kernel.h"
#include "graph/builder.h"
#include "graph/graph.h"
#include "gtest/gtest.h"
#include "ops/common/elements.h"

namespace sluice {

// Adds `op` to the ambient graph: on constants, or on placeholders of which
// only the type is known.
inline Result<Node*> AddOp(const std::string& op,
                           const std::vector<Tensor>& inputs,
                           const AttrMap& attrs, bool constants) {
  Graph& g = CurrentGraph();
  std::vector<Output> outputs;
  for (const Tensor& t : inputs)
    outputs.push_back(constants
                          ? Constant(t)
                          : Build("Placeholder", {}, {{"dtype", t.dtype()}}));
  Node* node = BuildNode(op, outputs, attrs);
  if (node == nullptr) return g.status();
  return node;
}

// The outputs of `op`. An error says whether it was reported while building on
// fully known inputs, or by the kernel. Internal if the shapes inferred with or
// without the inputs' values do not match the computed ones.
inline Result<std::vector<Tensor>> RunRecorded(
    const std::string& op, const std::vector<Tensor>& inputs,
    const AttrMap& attrs = {}) {
  Graph g;
  WithGraph use(g);
  SLUICE_ASSIGN_OR_RETURN(Node * unknown, AddOp(op, inputs, attrs, false));
  SLUICE_ASSIGN_OR_RETURN(std::vector<Tensor> out, RunKernel(*unknown, inputs));
  SLUICE_ASSIGN_OR_RETURN(Node * known, AddOp(op, inputs, attrs, true));
  for (const Node* n : {unknown, known}) {
    for (int i = 0; i < n->num_outputs(); ++i) {
      const Tensor& t = out[static_cast<size_t>(i)];
      if (!t.valid()) return Internal(op, ": output ", i, " was not set");
      if (t.dtype() != n->output_type(i))
        return Internal(op, ": output ", i, ": expected ",
                        DTypeName(n->output_type(i)), ", got ",
                        DTypeName(t.dtype()));
      if (!n->output_shape(i).CompatibleWith(t.shape()))
        return Internal(op, ": inferred shape: expected one that fits ",
                        t.shape().ToString(), ", got ",
                        n->output_shape(i).ToString());
    }
  }
  return out;
}

// One case of tests/cases/*_ops.txt, which TensorFlow computed.
struct RecordedCase {
  int line = 0;
  std::string op;
  AttrMap attrs;
  std::vector<Tensor> inputs, outputs;
  // The first inputs, if they are variables: values before and after the op.
  std::vector<Tensor> variables, variables_after;
  bool error = false;
};

inline double ParseNumber(const std::string& s) {
  return std::strtod(s.c_str(), nullptr);
}

inline Tensor ParseTensor(std::istream& in) {
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
  if (IsQuantized(dtype)) {
    array::ByElement(dtype, [&]<typename T>(array::Tag<T>) {
      if constexpr (std::is_integral_v<T>) {
        for (int64_t i = 0; i < t.num_elements(); ++i) {
          int64_t v = 0;
          in >> v;
          static_cast<T*>(t.raw())[i] = static_cast<T>(v);
        }
      }
    });
    return t;
  }
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
            complex64(static_cast<float>(ParseNumber(v)),
                      static_cast<float>(ParseNumber(imaginary)));
      else
        t.data<complex128>()[i] =
            complex128(ParseNumber(v), ParseNumber(imaginary));
    } else {
      array::ByNumber(dtype, [&]<typename T>(array::Tag<T>) {
        if constexpr (std::is_unsigned_v<T>)
          t.data<T>()[i] = static_cast<T>(std::stoull(v));
        else if constexpr (std::is_integral_v<T>)
          t.data<T>()[i] = static_cast<T>(std::stoll(v));
        else if constexpr (std::is_same_v<T, double>)
          t.data<T>()[i] = ParseNumber(v);
        else if constexpr (!std::is_same_v<T, complex64> &&
                           !std::is_same_v<T, complex128>)
          t.data<T>()[i] = T(static_cast<float>(ParseNumber(v)));
      });
    }
  }
  return t;
}

inline AttrValue ParseAttr(const std::string& text) {
  const std::string rest = text.substr(1);
  switch (text[0]) {
    case 'b':
      return AttrValue(rest == "1");
    case 'i':
      return AttrValue(static_cast<int64_t>(std::stoll(rest)));
    case 'f':
      return AttrValue(static_cast<float>(ParseNumber(rest)));
    case 'F': {
      AttrValue::Floats list;
      for (absl::string_view v : absl::StrSplit(rest, ',', absl::SkipEmpty()))
        list.push_back(static_cast<float>(ParseNumber(std::string(v))));
      return AttrValue(list);
    }
    case 's':
      return AttrValue(rest);
    case 'x':
      return AttrValue(absl::HexStringToBytes(rest));
    case 't':
      return AttrValue(*ParseDType(rest));
    case 'y': {
      AttrValue::Types types;
      for (absl::string_view t : absl::StrSplit(rest, ',', absl::SkipEmpty()))
        types.push_back(*ParseDType(std::string(t)));
      return AttrValue(types);
    }
    case 'S': {
      AttrValue::Strings strings;
      for (absl::string_view v : absl::StrSplit(rest, ';'))
        strings.push_back(absl::HexStringToBytes(v));
      return AttrValue(strings);
    }
    case 'P': {
      AttrValue::Shapes shapes;
      for (absl::string_view v : absl::StrSplit(rest, ';'))
        shapes.push_back(*ParseAttr(absl::StrCat("p", v)).get<PartialShape>());
      return AttrValue(shapes);
    }
    default:
      break;
  }
  if (rest.empty() && text[0] == 'l') return AttrValue(AttrValue::EmptyList());
  AttrValue::Ints list;
  for (absl::string_view v : absl::StrSplit(rest, ',', absl::SkipEmpty()))
    list.push_back(std::stoll(std::string(v)));
  if (text[0] == 'p')
    return AttrValue(PartialShape(Dims(list.begin(), list.end())));
  return AttrValue(list);
}

inline std::vector<RecordedCase> ReadCases(
    const std::string& path = "tests/cases/array_ops.txt") {
  std::vector<RecordedCase> cases;
  std::ifstream file(path);
  std::string text;
  for (int line = 1; std::getline(file, text); ++line) {
    std::istringstream in(text);
    std::string word;
    in >> word;
    if (word == "case") {
      RecordedCase c;
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
    } else if (word == "var") {
      cases.back().variables.push_back(ParseTensor(in));
    } else if (word == "now") {
      cases.back().variables_after.push_back(ParseTensor(in));
    } else {
      EXPECT_EQ(word, "error") << path << ":" << line;
      cases.back().error = true;
    }
  }
  return cases;
}

}  // namespace sluice

#endif  // SLUICE_OPS_ARRAY_TEST_UTIL_H_
