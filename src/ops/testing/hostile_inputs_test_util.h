// One op with corrupted inputs: an instance whose shapes, values, dtypes,
// attributes or number of inputs have been changed to invalid or extreme ones.
#ifndef SLUICE_OPS_TESTING_HOSTILE_INPUTS_TEST_UTIL_H_
#define SLUICE_OPS_TESTING_HOSTILE_INPUTS_TEST_UTIL_H_

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "exec/core/kernel.h"
#include "graph/graph.h"
#include "ops/testing/op_instances_test_util.h"

namespace sluice::hostile {

using op_instances::Instance;

// Returns a number below its argument, which is positive.
using Draw = std::function<uint64_t(uint64_t)>;

// A limit so low that tensors of hostile sizes are rejected before they are
// filled.
struct LittleMemory {
  LittleMemory() {
    Allocator::Cpu()->set_max_bytes(Allocator::Cpu()->stats().live_bytes +
                                    (int64_t{64} << 20));
  }
  ~LittleMemory() { Allocator::Cpu()->set_max_bytes(INT64_MAX); }
};

// Numbers for corrupting sizes, indices and attributes. Sizes that would fit in
// memory are used only under sanitizers, where allocations have a limit.
inline int64_t HostileInt(const Draw& draw) {
  static const std::vector<int64_t> ints = {
      -1,
      0,
      1,
      2,
      3,
      7,
      -2,
      -7,
      40,
      -129,
      std::numeric_limits<int32_t>::min(),
      std::numeric_limits<int64_t>::min(),
      std::numeric_limits<int64_t>::max(),
      std::numeric_limits<int64_t>::max() - 1,
      int64_t{1} << 62,
      int64_t{1} << 48,
#ifdef SLUICE_SANITIZED
      255,
      int64_t{1} << 15,
      int64_t{1} << 20,
      std::numeric_limits<int32_t>::max(),
      int64_t{1} << 31,
      int64_t{1} << 32,
#endif
  };
  return ints[draw(ints.size())];
}

inline double HostileNumber(const Draw& draw) {
  static const std::vector<double> numbers = {
      0,     -0.0,  1,     -1,     0.5,      -1.5,      1e-40, 1e30,
      -1e30, 1e300, 65504, 2.5e-8, HUGE_VAL, -HUGE_VAL, NAN};
  return numbers[draw(numbers.size())];
}

inline std::string HostileString(const Draw& draw) {
  static const std::vector<std::string> strings = {"",
                                                   "bogus",
                                                   "SAME",
                                                   "VALID",
                                                   "NHWC",
                                                   "NCHW",
                                                   "EXPLICIT",
                                                   "sum",
                                                   "%d",
                                                   "(",
                                                   "[a-",
                                                   "\\",
                                                   "1e999",
                                                   "-7",
                                                   "\xff\xfe",
                                                   std::string(300, 'x'),
                                                   std::string("a\0b", 3),
                                                   "UTF-8",
                                                   "ij,jk->ik",
                                                   "...",
                                                   "reflect"};
  return strings[draw(strings.size())];
}

inline PartialShape HostileShape(const Draw& draw) {
  if (draw(6) == 0) return PartialShape::Unknown();
  PartialShape s = PartialShape::Scalar();
  for (uint64_t rank = draw(5); rank > 0; --rank)
    s.add_dim(draw(3) > 0 ? static_cast<int64_t>(draw(4))
                          : std::max<int64_t>(-1, HostileInt(draw)));
  return s;
}

// Replaces an element of any type with a drawn one; false for types without
// numbers.
inline void SpoilElement(Tensor* t, int64_t i, const Draw& draw) {
  const auto integer = [&](auto tag) {
    using T = decltype(tag);
    t->data<T>()[i] = static_cast<T>(HostileInt(draw));
  };
  const auto real = [&](auto tag) {
    using T = decltype(tag);
    t->data<T>()[i] = T(static_cast<float>(HostileNumber(draw)));
  };
  switch (t->dtype()) {
    case DType::kFloat:
      return real(float{});
    case DType::kHalf:
      return real(half{});
    case DType::kBfloat16:
      return real(bfloat16{});
    case DType::kDouble:
      t->data<double>()[i] = HostileNumber(draw);
      return;
    case DType::kInt8:
      return integer(int8_t{});
    case DType::kInt16:
      return integer(int16_t{});
    case DType::kInt32:
      return integer(int32_t{});
    case DType::kInt64:
      return integer(int64_t{});
    case DType::kUint8:
      return integer(uint8_t{});
    case DType::kUint16:
      return integer(uint16_t{});
    case DType::kUint32:
      return integer(uint32_t{});
    case DType::kUint64:
      return integer(uint64_t{});
    case DType::kBool:
      t->data<bool>()[i] = draw(2) == 1;
      return;
    case DType::kString:
      t->data<std::string>()[i] = HostileString(draw);
      return;
    default:
      return;
  }
}

// A tensor of another shape that repeats the elements of `t`.
inline Tensor Reshaped(const Tensor& t, const Draw& draw) {
  Dims dims(t.shape().dims().begin(), t.shape().dims().end());
  static const std::vector<int64_t> sizes = {0, 1, 2, 3, 5, 8};
  const auto any = [&] { return sizes[draw(sizes.size())]; };
  switch (draw(5)) {
    case 0:
      dims.clear();
      for (uint64_t rank = draw(6); rank > 0; --rank) dims.push_back(any());
      break;
    case 1:
      dims.push_back(any());
      break;
    case 2:
      if (!dims.empty()) dims.pop_back();
      break;
    case 3:
      if (!dims.empty()) dims.erase(dims.begin());
      break;
    default:
      if (!dims.empty()) dims[draw(dims.size())] = any();
      break;
  }
  const Result<Shape> shape = Shape::Make({dims.data(), dims.size()});
  if (!shape.ok() || shape->num_elements() > 4096) return t;
  std::vector<double> zeros(static_cast<size_t>(shape->num_elements()), 0);
  Tensor out;
  if (!op_instances::FromNumbers(t.dtype(), *shape, zeros, &out)) return t;
  const int64_t n = t.num_elements();
  for (int64_t i = 0; i < out.num_elements() && n > 0; ++i) {
    if (t.dtype() == DType::kString) {
      out.data<std::string>()[i] = t.data<std::string>()[i % n];
      continue;
    }
    const size_t size = DTypeSize(t.dtype());
    std::memcpy(out.raw<char>() + static_cast<size_t>(i) * size,
                t.raw<char>() + static_cast<size_t>(i % n) * size, size);
  }
  return out;
}

inline AttrValue HostileAttr(const AttrDef& a, const Draw& draw) {
  const auto list = [&](auto element) {
    std::vector<decltype(element())> out;
    for (uint64_t n = draw(6); n > 0; --n) out.push_back(element());
    return out;
  };
  const auto type = [&] {
    const auto& types = !a.allowed_types.empty() && draw(4) > 0
                            ? a.allowed_types
                            : op_instances::ValueTypes();
    return types[draw(types.size())];
  };
  const auto string = [&] {
    return !a.allowed_strings.empty() && draw(4) > 0
               ? a.allowed_strings[draw(a.allowed_strings.size())]
               : HostileString(draw);
  };
  const auto number = [&] { return static_cast<float>(HostileNumber(draw)); };
  const auto integer = [&] { return HostileInt(draw); };
  switch (a.kind) {
    case AttrKind::kInt:
      return a.is_list ? AttrValue(list(integer)) : AttrValue(integer());
    case AttrKind::kFloat:
      return a.is_list ? AttrValue(list(number)) : AttrValue(number());
    case AttrKind::kBool:
      return draw(2) == 1;
    case AttrKind::kString:
      return a.is_list ? AttrValue(list(string)) : AttrValue(string());
    case AttrKind::kType:
      return a.is_list ? AttrValue(list(type)) : AttrValue(type());
    case AttrKind::kShape:
      return a.is_list ? AttrValue(list([&] { return HostileShape(draw); }))
                       : AttrValue(HostileShape(draw));
    default:
      return static_cast<int64_t>(draw(3));
  }
}

// Changes one property of the instance.
inline void Spoil(Instance* in, const Draw& draw) {
  const bool attribute =
      in->inputs.empty() || (!in->op->attrs.empty() && draw(3) == 0);
  if (attribute) {
    if (in->op->attrs.empty()) return;
    const AttrDef& a = in->op->attrs[draw(in->op->attrs.size())];
    if (draw(8) == 0)
      in->attrs.erase(a.name);
    else
      in->attrs[a.name] = HostileAttr(a, draw);
    return;
  }
  const size_t at = draw(in->inputs.size());
  Tensor& t = in->inputs[at];
  switch (draw(8)) {
    case 0:
    case 1:
    case 2:
      t = Reshaped(t, draw);
      return;
    case 3: {
      const auto& types = op_instances::ValueTypes();
      Tensor other;
      if (op_instances::FromNumbers(
              types[draw(types.size())], t.shape(),
              std::vector<double>(static_cast<size_t>(t.num_elements()), 1),
              &other))
        t = other;
      return;
    }
    case 4:
      if (draw(2) == 0)
        in->inputs.erase(in->inputs.begin() + static_cast<int64_t>(at));
      else
        in->inputs.push_back(t);
      return;
    default: {
      Result<Tensor> copy = t.Clone();
      if (!copy.ok() || copy->num_elements() == 0) return;
      t = *std::move(copy);
      for (uint64_t n = 1 + draw(3); n > 0; --n)
        SpoilElement(
            &t,
            static_cast<int64_t>(draw(static_cast<uint64_t>(t.num_elements()))),
            draw);
      return;
    }
  }
}

// "MatMul(float[2,3], float[3,2]) {transpose_a: true}"
inline std::string Describe(const Instance& in) {
  std::string s = in.op->name + "(";
  for (size_t i = 0; i < in.inputs.size(); ++i) {
    const Tensor& t = in.inputs[i];
    absl::StrAppend(&s, i == 0 ? "" : ", ", t.ToString());
  }
  s += ") {";
  for (const auto& [name, value] : in.attrs)
    absl::StrAppend(&s, s.back() == '{' ? "" : ", ", name, ": ",
                    value.ToString());
  return s + "}";
}

// Builds the node and runs its kernel. Returns "" if the result is an error of
// the user, or agrees with the signature and the shape function.
inline std::string Try(const Instance& in, const Draw& draw) {
  Graph g;
  WithGraph use(g);
  std::vector<Output> inputs;
  for (const Tensor& t : in.inputs) {
    switch (draw(3)) {
      case 0:
        inputs.push_back(op_instances::InputNode(t, /*constant=*/true));
        break;
      case 1:
        inputs.push_back(op_instances::InputNode(t, false));
        break;
      default:
        inputs.push_back(
            Build("Placeholder", {},
                  {{"dtype", t.dtype()}, {"shape", PartialShape::Unknown()}}));
    }
  }
  const auto ours = [](const Status& s) {
    return s.code() == StatusCode::kInternal ||
           s.code() == StatusCode::kUnknown || s.message().empty();
  };
  Node* n = BuildNode(in.op->name, inputs, in.attrs);
  if (n == nullptr)
    return ours(g.status()) ? "building: " + g.status().ToString() : "";
  const Result<std::vector<Tensor>> out = RunKernel(*n, in.inputs);
  if (!out.ok())
    return ours(out.status()) ? "running: " + out.status().ToString() : "";
  if (static_cast<int>(out->size()) != n->num_outputs())
    return absl::StrCat(out->size(), " outputs");
  for (int i = 0; i < n->num_outputs(); ++i) {
    const Tensor& t = (*out)[static_cast<size_t>(i)];
    if (t.dtype() != n->output_type(i) ||
        !n->output_shape(i).CompatibleWith(t.shape()))
      return absl::StrCat("output ", i, ": inferred ",
                          DTypeName(n->output_type(i)),
                          n->output_shape(i).ToString(), ", computed ",
                          DTypeName(t.dtype()), t.shape().ToString());
  }
  return "";
}

// Draws an op of the registry that has a kernel and samples, corrupts it and
// tries it.
inline std::string DrawAndTry(const std::vector<Instance>& all,
                              const Draw& draw) {
  Instance in = all[draw(all.size())];
  for (uint64_t n = 1 + draw(3); n > 0; --n) Spoil(&in, draw);
  const std::string what = Try(in, draw);
  return what.empty() ? "" : what + "; " + Describe(in);
}

// The instances of one op that can be corrupted.
inline std::vector<Instance> Victims(const OpDef& op) {
  if (op.role != OpRole::kCompute || op.name[0] == '_') return {};
  return op_instances::InstancesOf(op);
}

}  // namespace sluice::hostile

#endif  // SLUICE_OPS_TESTING_HOSTILE_INPUTS_TEST_UTIL_H_
