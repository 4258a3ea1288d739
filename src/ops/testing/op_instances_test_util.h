// Instances of ops, from the samples of their declarations: an op with types
// and attributes chosen, and inputs. The conformance tests run them, and the
// hostile-input tests corrupt them.
#ifndef SLUICE_OPS_TESTING_OP_INSTANCES_TEST_UTIL_H_
#define SLUICE_OPS_TESTING_OP_INSTANCES_TEST_UTIL_H_

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/builder.h"
#include "graph/op_def.h"
#include "tensor/tensor.h"

namespace sluice::op_instances {

inline constexpr uint32_t kInstanceSeed = 20240117;

inline const std::vector<DType>& ValueTypes() {
  static const auto* v = new std::vector<DType>{
      DType::kFloat, DType::kDouble,    DType::kHalf,       DType::kBfloat16,
      DType::kInt8,  DType::kInt16,     DType::kInt32,      DType::kInt64,
      DType::kUint8, DType::kUint16,    DType::kUint32,     DType::kUint64,
      DType::kBool,  DType::kComplex64, DType::kComplex128, DType::kString};
  return *v;
}

template <typename T>
T Number(double v) {
  if constexpr (std::is_same_v<T, bool>) {
    return v > 0;
  } else if constexpr (std::is_unsigned_v<T>) {
    return static_cast<T>(std::abs(v));
  } else if constexpr (std::is_same_v<T, half> || std::is_same_v<T, bfloat16>) {
    return T(static_cast<float>(v));
  } else {
    return static_cast<T>(v);
  }
}

template <typename T>
void Fill(Tensor* t, const std::vector<double>& v) {
  for (size_t i = 0; i < v.size(); ++i) t->data<T>()[i] = Number<T>(v[i]);
}

// A tensor of the given numbers; false for a type that has no numbers.
inline bool FromNumbers(DType type, const Shape& shape,
                        const std::vector<double>& v, Tensor* out) {
  *out = Tensor(type, shape);
  switch (type) {
    case DType::kFloat:
      Fill<float>(out, v);
      return true;
    case DType::kDouble:
      Fill<double>(out, v);
      return true;
    case DType::kHalf:
      Fill<half>(out, v);
      return true;
    case DType::kBfloat16:
      Fill<bfloat16>(out, v);
      return true;
    case DType::kInt8:
      Fill<int8_t>(out, v);
      return true;
    case DType::kInt16:
      Fill<int16_t>(out, v);
      return true;
    case DType::kInt32:
      Fill<int32_t>(out, v);
      return true;
    case DType::kInt64:
      Fill<int64_t>(out, v);
      return true;
    case DType::kUint8:
      Fill<uint8_t>(out, v);
      return true;
    case DType::kUint16:
      Fill<uint16_t>(out, v);
      return true;
    case DType::kUint32:
      Fill<uint32_t>(out, v);
      return true;
    case DType::kUint64:
      Fill<uint64_t>(out, v);
      return true;
    case DType::kBool:
      Fill<bool>(out, v);
      return true;
    case DType::kComplex64:
      Fill<complex64>(out, v);
      return true;
    case DType::kComplex128:
      Fill<complex128>(out, v);
      return true;
    case DType::kString:
      for (size_t i = 0; i < v.size(); ++i)
        out->data<std::string>()[i] = absl::StrCat(v[i]);
      return true;
    default:
      return false;
  }
}

// (Ops whose names begin with an underscore are created when a step is
// compiled, and get their kernels then.)
inline bool NeedsNoKernel(const OpDef& op) {
  return op.role != OpRole::kCompute || op.name[0] == '_';
}

// One op with types and attributes chosen, and its inputs.
struct Instance {
  const OpDef* op = nullptr;
  DType type = DType::kInvalid;  // The value of the varied attribute.
  AttrMap attrs;
  std::vector<Tensor> inputs;

  std::string Name() const {
    return type == DType::kInvalid ? op->name
                                   : op->name + ":" + DTypeName(type);
  }
};

// The shape and numbers of one input of a sample.
struct Numbers {
  Shape shape;
  std::vector<double> values;
};

inline Numbers Draw(const SampleInput& s, DType type, std::mt19937* rng) {
  Numbers n;
  n.shape = Shape({s.shape.data(), s.shape.size()});
  n.values = s.values;
  if (n.values.empty()) {
    std::uniform_real_distribution<double> draw(s.low, s.high);
    for (int64_t i = 0; i < n.shape.num_elements(); ++i)
      n.values.push_back(draw(*rng));
    // A range meant for fractions would give integers that are mostly zero.
    if (IsInteger(type) && s.high - s.low <= 2)
      for (double& v : n.values) v = 1 + std::floor(std::abs(v) * 2.99);
  }
  // Fractions must not be truncated to zero either, since a sample might divide
  // by them.
  if (IsInteger(type))
    for (double& v : n.values) v = v < 0 ? std::floor(v) : std::ceil(v);
  return n;
}

// For each input of the sample, the argument of the declaration that it belongs
// to: repeated arguments take the remaining inputs.
inline std::vector<const ArgDef*> ArgsOf(const OpDef& op, const OpSample& s) {
  std::vector<const ArgDef*> out;
  int repeated = 0;
  for (const ArgDef& a : op.inputs)
    repeated += !a.number_attr.empty() || !a.type_list_attr.empty();
  const auto number = [&](const ArgDef& a) -> int64_t {
    const std::string& attr =
        a.number_attr.empty() ? a.type_list_attr : a.number_attr;
    if (auto it = s.attrs.find(attr); it != s.attrs.end()) {
      if (const auto* n = it->second.get<int64_t>()) return *n;
      if (const auto* t = it->second.get<AttrValue::Types>())
        return static_cast<int64_t>(t->size());
    }
    if (repeated == 1)
      return static_cast<int64_t>(s.inputs.size()) -
             static_cast<int64_t>(op.inputs.size()) + 1;
    return 1;
  };
  for (const ArgDef& a : op.inputs) {
    const bool many = !a.number_attr.empty() || !a.type_list_attr.empty();
    for (int64_t i = 0; i < (many ? number(a) : 1); ++i) out.push_back(&a);
  }
  return out;
}

// The type attributes of inputs that the sample leaves unset.
inline std::vector<std::string> OpenTypes(
    const OpSample& s, const std::vector<const ArgDef*>& args) {
  std::vector<std::string> out;
  std::set<std::string> fixed;
  for (size_t i = 0; i < args.size() && i < s.inputs.size(); ++i)
    if (s.inputs[i].dtype != DType::kInvalid) fixed.insert(args[i]->type_attr);
  for (const ArgDef* a : args)
    if (!a->type_attr.empty() && !fixed.count(a->type_attr) &&
        !s.attrs.count(a->type_attr) &&
        std::find(out.begin(), out.end(), a->type_attr) == out.end())
      out.push_back(a->type_attr);
  return out;
}

inline DType PickType(const AttrDef& a) {
  if (a.default_value)
    if (const DType* t = a.default_value->get<DType>()) return *t;
  for (DType t : {DType::kFloat, DType::kInt32})
    if (a.allowed_types.empty() ||
        std::count(a.allowed_types.begin(), a.allowed_types.end(), t))
      return t;
  return a.allowed_types[0];
}

// The instance of a sample with `type` for the attribute `vary`.
inline std::optional<Instance> Make(const OpDef& op, const OpSample& s,
                                    const std::string& vary, DType type) {
  const std::vector<const ArgDef*> args = ArgsOf(op, s);
  if (args.size() != s.inputs.size()) return std::nullopt;
  Instance in;
  in.op = &op;
  in.attrs = s.attrs;
  if (!vary.empty()) in.type = type;
  std::mt19937 rng(kInstanceSeed);
  std::map<std::string, DType> types;
  if (!vary.empty()) types[vary] = type;
  for (size_t i = 0; i < args.size(); ++i)
    if (!args[i]->type_attr.empty() && s.inputs[i].dtype != DType::kInvalid)
      types[args[i]->type_attr] = s.inputs[i].dtype;
  for (size_t i = 0; i < args.size(); ++i) {
    const ArgDef& a = *args[i];
    DType t = a.type;
    if (!a.type_attr.empty()) {
      if (auto it = s.attrs.find(a.type_attr); it != s.attrs.end()) {
        if (const DType* d = it->second.get<DType>()) t = *d;
      } else if (auto known = types.find(a.type_attr); known != types.end()) {
        t = known->second;
      } else {
        t = types[a.type_attr] = PickType(*op.FindAttr(a.type_attr));
      }
    } else if (!a.type_list_attr.empty()) {
      t = s.inputs[i].dtype != DType::kInvalid ? s.inputs[i].dtype
                                               : DType::kFloat;
      if (auto it = s.attrs.find(a.type_list_attr); it != s.attrs.end()) {
        const auto* list = it->second.get<AttrValue::Types>();
        size_t at = 0;
        while (at < i && args[i - at - 1] == &a) ++at;
        if (list != nullptr && at < list->size()) t = (*list)[at];
      }
    }
    const Numbers n = Draw(s.inputs[i], t, &rng);
    Tensor tensor;
    if (!FromNumbers(t, n.shape, n.values, &tensor)) return std::nullopt;
    in.inputs.push_back(std::move(tensor));
  }
  for (const auto& [attr, t] : types) in.attrs[attr] = t;
  return in;
}

// The instances of an op: each sample with each type its declaration allows, at
// most `most`.
inline std::vector<Instance> InstancesOf(
    const OpDef& op, size_t most = std::numeric_limits<size_t>::max()) {
  std::vector<Instance> out;
  const auto add = [&](std::optional<Instance> in) {
    if (in) out.push_back(*std::move(in));
  };
  for (const OpSample& s : op.samples) {
    const std::vector<std::string> open = OpenTypes(s, ArgsOf(op, s));
    if (open.empty()) {
      if (out.size() < most) add(Make(op, s, "", DType::kInvalid));
      continue;
    }
    const AttrDef* a = op.FindAttr(open[0]);
    for (DType t : a->allowed_types.empty() ? ValueTypes() : a->allowed_types)
      if (out.size() < most) add(Make(op, s, open[0], t));
  }
  return out;
}

// An input with a known value (a constant) or with only a known shape.
inline Output InputNode(const Tensor& t, bool constant) {
  if (constant) return Constant(t);
  return Build("Placeholder", {},
               {{"dtype", t.dtype()}, {"shape", PartialShape(t.shape())}});
}

}  // namespace sluice::op_instances

#endif  // SLUICE_OPS_TESTING_OP_INSTANCES_TEST_UTIL_H_
