// The elementwise ops of random_graph.h, one expression each, with
// broadcasting. For tests.
#ifndef SLUICE_EXEC_TESTING_REFERENCE_OPS_H_
#define SLUICE_EXEC_TESTING_REFERENCE_OPS_H_

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "graph/node.h"

namespace sluice {

class ReferenceOps {
 public:
  static Tensor Compute(const Node& n, const std::vector<Tensor>& in) {
    if (n.op_name() == "VarHandleOp") return Tensor::Scalar<bool>(true);
    const Rule& rule = RuleOf(n);
    Dims dims;
    for (const Tensor& t : in)
      for (int i = 1; i <= t.rank(); ++i) {
        if (static_cast<int>(dims.size()) < i) dims.insert(dims.begin(), 1);
        int64_t& d = dims[dims.size() - static_cast<size_t>(i)];
        if (d == 1) d = t.dim(t.rank() - i);
      }
    Tensor out(n.output_type(0), Shape({dims.data(), dims.size()}));
    for (int64_t k = 0; k < out.num_elements(); ++k) {
      float f[3] = {};
      uint32_t i[3] = {};
      for (size_t a = 0; a < in.size(); ++a) {
        const double e = Element(in[a], Index(in[a], out.shape(), k));
        f[a] = static_cast<float>(e);
        if (in[a].dtype() != DType::kFloat)
          i[a] = static_cast<uint32_t>(static_cast<int32_t>(e));
      }
      const DType from = in.back().dtype(), to = out.dtype();
      const float x = rule.f(f[0], f[1], f[2]);
      const uint32_t y = rule.i(i[0], i[1], i[2]);
      if (to == DType::kFloat)
        out.raw<float>()[k] = x;
      else if (to == DType::kInt32)
        out.raw<int32_t>()[k] = S(y);
      else
        out.raw<bool>()[k] = from == DType::kFloat ? x != 0 : y != 0;
    }
    return out;
  }

 private:
  // An op as two expressions: on floats and on wrapping integers.
  struct Rule {
    float (*f)(float a, float b, float c);
    uint32_t (*i)(uint32_t a, uint32_t b, uint32_t c);
  };
  static int32_t S(uint32_t a) { return static_cast<int32_t>(a); }
  static const Rule& RuleOf(const Node& n) {
    // clang-format off
#define RULE(op, on_floats, on_integers) {op, { \
    []([[maybe_unused]] float a, [[maybe_unused]] float b, [[maybe_unused]] float c) -> float { return on_floats; }, \
    []([[maybe_unused]] uint32_t a, [[maybe_unused]] uint32_t b, [[maybe_unused]] uint32_t c) -> uint32_t { return on_integers; }}}
    static const auto* rules = new std::map<std::string, Rule>{
        RULE("AddV2", a + b, a + b), RULE("Sub", a - b, a - b),
        RULE("Mul", a * b, a * b), RULE("Square", a * a, a * a),
        RULE("Neg", -a, 0 - a), RULE("Identity", a, a),
        RULE("Maximum", a != a || b != b ? a + b : std::max(a, b), S(a) > S(b) ? a : b),
        RULE("Minimum", a != a || b != b ? a + b : std::min(a, b), S(a) < S(b) ? a : b),
        RULE("Less", a < b, S(a) < S(b)), RULE("GreaterEqual", a >= b, S(a) >= S(b)),
        RULE("Equal", a == b, a == b), RULE("LogicalNot", 0, !a),
        RULE("LogicalAnd", 0, a & b), RULE("LogicalOr", 0, a | b),
        RULE("SelectV2", a != 0 ? b : c, a != 0 ? b : c), RULE("Cast", a, a)};
#undef RULE
    // clang-format on
    return rules->at(n.op_name());
  }
  static double Element(const Tensor& t, int64_t k) {
    if (t.dtype() == DType::kFloat) return t.raw<float>()[k];
    if (t.dtype() == DType::kBool) return t.raw<bool>()[k];
    return t.raw<int32_t>()[k];
  }

  // The position in `t` of element `k` of a broadcast shape.
  static int64_t Index(const Tensor& t, const Shape& shape, int64_t k) {
    int64_t at = 0, stride = 1;
    for (int i = 1; i <= shape.rank(); ++i) {
      const int64_t d = shape.dim(shape.rank() - i), pos = k % d;
      k /= d;
      if (i > t.rank()) continue;
      const int64_t own = t.dim(t.rank() - i);
      if (own != 1) at += pos * stride;
      stride *= own;
    }
    return at;
  }
};

}  // namespace sluice

#endif  // SLUICE_EXEC_TESTING_REFERENCE_OPS_H_
