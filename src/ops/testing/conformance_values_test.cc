// Kernels against a plain reference: each elementwise op, conversion,
// reduction, cumulative op and matrix product of the registry, for all its
// types, with sizes around the widths of vectors, values at the ends of their
// range, and broadcast operands. TensorFlow's details are covered by
// recorded_ops_test.cc; this is op x type x size.
#include <gtest/gtest.h>

#include <random>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/sanitizers.h"
#include "exec/core/kernel.h"
#include "graph/builder.h"
#include "graph/graph.h"
#include "graph/shape_context.h"
#include "ops/common/elements.h"
#include "ops/testing/op_instances_test_util.h"
#include "ops/testing/plain_reference_test_util.h"

namespace sluice::conformance_values {
namespace {

using array::Tag;
using plain::Exact;
using plain::Narrow;
using plain::Widen;

constexpr uint32_t kValuesSeed = 20240606;
// Around one and several vectors of any type, and more than one thread's part;
// fewer under sanitizers, which are slow here.
std::vector<int64_t> Sizes() {
  if (kSanitized) return {0, 1, 9, 33};
  return {0, 1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 33, 130, 40001};
}

// ---- Values -----------------------------------------------------------------

enum class Range : uint8_t {
  kAll,       // With the ends of the range, infinities and NaN.
  kModerate,  // Values whose sums and products are meaningful.
  kPositive,  // Moderate and nonzero: divisors, exponents of integers.
};

template <typename T>
T Draw(Range range, std::mt19937* rng) {
  const auto pick = [rng](int n) {
    return static_cast<int>((*rng)() % static_cast<unsigned>(n));
  };
  if constexpr (std::is_same_v<T, bool>) {
    return range == Range::kPositive || pick(2) == 1;
  } else if constexpr (plain::kIsComplex<T>) {
    const auto part = [&] {
      return static_cast<typename T::value_type>(pick(65) - 32) / 16;
    };
    const T v(part(), part());
    return range == Range::kPositive && v == T(0) ? T(1) : v;
  } else if constexpr (plain::kIsFloat<T>) {
    using Limits = std::numeric_limits<float>;
    constexpr float kOdd[] = {0,
                              -0.f,
                              1,
                              -1,
                              .5f,
                              -2.5f,
                              1e-7f,
                              -88,
                              88.7f,
                              300,
                              Limits::infinity(),
                              -Limits::infinity(),
                              Limits::quiet_NaN(),
                              60000,
                              -60000};
    if (range == Range::kAll && pick(3) == 0)
      return static_cast<T>(kOdd[pick(static_cast<int>(std::size(kOdd)))]);
    const float v = static_cast<float>(pick(4097) - 2048) / 256;
    return static_cast<T>(range == Range::kPositive ? std::abs(v) + .25f : v);
  } else {
    using Limits = std::numeric_limits<T>;
    constexpr bool kSigned = Limits::is_signed;
    if (range == Range::kPositive) return static_cast<T>(1 + pick(6));
    if (range == Range::kAll && pick(3) == 0)
      return pick(2) ? Limits::max() : Limits::min();
    return static_cast<T>(kSigned ? pick(21) - 10 : pick(20));
  }
}

template <typename T>
Tensor Random(const Shape& shape, Range range, std::mt19937* rng) {
  // One element more, so that the tensor starts at an unaligned address.
  Tensor whole(DTypeOf<T>(), Shape({shape.num_elements() + 1}));
  // A large one repeats its first values, whose number is prime, so that each
  // is at any place of a vector.
  constexpr int64_t kDrawn = 1009;
  T* const values = whole.data<T>();
  const int64_t n = whole.num_elements();
  for (int64_t i = 0; i < std::min(n, kDrawn); ++i)
    values[i] = Draw<T>(range, rng);
  for (int64_t at = kDrawn; at < n; at += kDrawn)
    std::copy_n(values, std::min(kDrawn, n - at), values + at);
  return *whole.Rows(1, whole.num_elements()).Reshaped(shape);
}

// ---- Comparing --------------------------------------------------------------

// Equal, or within `ulps` of the larger of the expected value and `scale` (if
// terms of that size cancel).
template <typename T>
bool Near(Exact<T> want, T got, double ulps, plain::Real scale = 0) {
  if constexpr (!plain::kIsFloat<T> && !plain::kIsComplex<T>) {
    return Narrow<T>(want) == got;
  } else {
    const Exact<T> w = Widen<T>(Narrow<T>(want)), g = Widen<T>(got);
    const auto same = [](plain::Real a, plain::Real b) {
      return a == b || (std::isnan(a) && std::isnan(b));
    };
    if (same(std::real(w), std::real(g)) && same(std::imag(w), std::imag(g)))
      return true;
    return std::abs(want - g) <=
           static_cast<plain::Real>(ulps) * plain::Epsilon<T>() *
               std::max({std::abs(want), scale, plain::LeastNormal<T>()});
  }
}

template <typename T>
std::string Text(Exact<T> v) {
  if constexpr (plain::kIsComplex<T>)
    return absl::StrCat(static_cast<double>(v.real()), "+",
                        static_cast<double>(v.imag()), "i");
  else
    return absl::StrCat(static_cast<double>(v));
}

// The first output, computed by the kernel; invalid if there is no kernel for
// the type.
Tensor Compute(const std::string& op, const std::vector<Tensor>& inputs,
               const AttrMap& attrs) {
  Graph g;
  WithGraph use(g);
  std::vector<Output> args;
  for (const Tensor& t : inputs)
    args.push_back(Build("Placeholder", {}, {{"dtype", t.dtype()}}));
  Node* n = BuildNode(op, args, attrs);
  EXPECT_NE(n, nullptr) << g.status();
  if (n == nullptr) return Tensor();
  Result<std::vector<Tensor>> out = RunKernel(*n, inputs);
  if (out.status().code() == StatusCode::kUnimplemented) return Tensor();
  EXPECT_TRUE(out.ok()) << out.status();
  return out.ok() ? (*out)[0] : Tensor();
}

// The numeric types of an attribute.
std::vector<DType> NumberTypes(const OpDef& op, const char* attr = "T") {
  std::vector<DType> types;
  const AttrDef* a = op.FindAttr(attr);
  for (DType t : op_instances::ValueTypes())
    if (t != DType::kString &&
        (a == nullptr ? t == DType::kBool
                      : a->allowed_types.empty() ||
                            std::count(a->allowed_types.begin(),
                                       a->allowed_types.end(), t)))
      types.push_back(t);
  return types;
}

template <typename F>
void ForTypes(const OpDef& op, const F& f) {
  for (DType t : NumberTypes(op)) {
    SCOPED_TRACE(absl::StrCat(op.name, ":", DTypeName(t)));
    if (t == DType::kBool)
      f(Tag<bool>());
    else
      array::ByNumber(t, f);
  }
}

AttrMap TypeOf(const OpDef& op, DType t) {
  return op.FindAttr("T") == nullptr ? AttrMap() : AttrMap{{"T", t}};
}

// Compares element by element, for large tensors only both ends and some in
// between; `want(i)` is the reference. False if there is none for the op.
template <typename T, typename F>
bool Compare(const Tensor& out, double ulps, const F& want) {
  const int64_t n = out.num_elements();
  for (int64_t i = 0; i < n; i += i >= 200 && i < n - 300 ? 97 : 1) {
    const std::optional<Exact<T>> w = want(i);
    if (!w.has_value()) return false;
    bool same = true;
    if (out.dtype() == DTypeOf<T>()) {
      same = Near<T>(*w, out.data<T>()[i], ulps);
    } else if (out.dtype() == DType::kBool) {
      same = (*w != Exact<T>(0)) == out.data<bool>()[i];
    } else {
      EXPECT_EQ(out.dtype(), DType::kUint8);
      same = *w == Exact<T>(out.data<uint8_t>()[i]);
    }
    if (same) continue;
    std::string got;
    if (out.dtype() == DTypeOf<T>())
      got = Text<T>(Widen<T>(out.data<T>()[i]));
    else if (out.dtype() == DType::kBool)
      got = absl::StrCat(out.data<bool>()[i]);
    else
      got = absl::StrCat(out.data<uint8_t>()[i]);
    ADD_FAILURE() << "element " << i << " of " << out.num_elements()
                  << ": expected " << Text<T>(*w) << ", got " << got;
    break;
  }
  return true;
}

// ---- Elementwise ------------------------------------------------------------

// The tolerance, if larger than usual.
double Ulps(const std::string& op, DType t) {
  if (op == "Digamma") return 1 << 12;  // Near its roots.
  // Computed in double from terms that cancel.
  static const std::set<std::string> kSeries = {
      "Erfinv", "Igamma",    "IgammaGradA",     "Igammac",
      "Ndtri",  "Polygamma", "RandomGammaGrad", "Zeta"};
  if (t == DType::kDouble && kSeries.count(op)) return 1 << 30;
  return IsComplex(t) ? 64 : 4;
}

// `without`: the ops that turned out to have no reference.
void ExpectNone(const std::set<std::string>& without) {
  EXPECT_TRUE(without.empty())
      << "no reference: " << absl::StrJoin(without, " ");
}

TEST(ConformanceValues, UnaryFunctionsMatchReference) {
  std::set<std::string> without;
  for (const OpDef* op : OpRegistry::Global()->All()) {
    if (op->shape != UnchangedShape || op->inputs.size() != 1 ||
        (op->inputs[0].type_attr != "T" &&
         op->inputs[0].type != DType::kBool) ||
        op->name == "Bucketize" ||  // (Its bounds are an attribute.)
        op->outputs.size() != 1 || op->outputs[0].type_attr == "Tout" ||
        (op->family != "math" && op->family != "nn"))
      continue;
    ForTypes(*op, [&]<typename T>(Tag<T>) {
      std::mt19937 rng(kValuesSeed);
      for (int64_t n : Sizes()) {
        const Tensor x = Random<T>(Shape({n}), Range::kAll, &rng);
        const Tensor y = Compute(op->name, {x}, TypeOf(*op, DTypeOf<T>()));
        if (!y.valid()) return;
        ASSERT_TRUE(y.shape() == x.shape());
        if (!Compare<T>(y, Ulps(op->name, DTypeOf<T>()), [&](int64_t i) {
              return plain::Unary<T>(op->name, Widen<T>(x.data<T>()[i]));
            })) {
          without.insert(op->name);
          return;
        }
      }
    });
  }
  ExpectNone(without);
}

// The element of a broadcast operand for element i of the result.
int64_t Source(int64_t i, const Shape& out, const Shape& in) {
  int64_t at = 0, stride = 1;
  for (int d = out.rank() - 1, k = in.rank() - 1; k >= 0; --d, --k) {
    if (in.dim(k) > 1) at += i % out.dim(d) * stride;
    i /= out.dim(d);
    stride *= in.dim(k);
  }
  return at;
}

struct Operands {
  Shape x, y, out;
};
std::vector<Operands> OperandShapes() {
  std::vector<Operands> all;
  for (int64_t n : Sizes()) {
    const Shape row({n});
    all.push_back({row, row, row});
    all.push_back({row, Shape(), row});
    all.push_back({Shape(), row, row});
    if (n > 1000) continue;
    const Shape rows({3, n});
    all.push_back({rows, row, rows});
    all.push_back({rows, Shape({3, 1}), rows});
    all.push_back({Shape({3, 1}), row, rows});
    all.push_back({Shape({2, 1, n}), Shape({3, 1}), Shape({2, 3, n})});
    all.push_back({Shape({n, 1}), Shape({1, 5}), Shape({n, 5})});
  }
  return all;
}

TEST(ConformanceValues, BinaryFunctionsMatchReference) {
  std::set<std::string> without;
  for (const OpDef* op : OpRegistry::Global()->All()) {
    const bool equality = op->name == "Equal" || op->name == "NotEqual";
    if (op->inputs.size() != 2 || op->outputs.size() != 1 ||
        op->outputs[0].type_attr == "Tout" ||
        (op->shape != BroadcastBinaryShape && !equality))
      continue;
    const bool divides =
        op->name[0] == 'X' || op->name.find("Div") != std::string::npos ||
        op->name.find("Mod") != std::string::npos || op->name == "Pow";
    ForTypes(*op, [&]<typename T>(Tag<T>) {
      const bool moderate = !plain::kIsFloat<T> && divides;
      std::mt19937 rng(kValuesSeed);
      for (const Operands& o : OperandShapes()) {
        const Tensor x =
            Random<T>(o.x, moderate ? Range::kModerate : Range::kAll, &rng);
        const Tensor y =
            Random<T>(o.y, moderate ? Range::kPositive : Range::kAll, &rng);
        const Tensor out = Compute(op->name, {x, y}, TypeOf(*op, DTypeOf<T>()));
        if (!out.valid()) return;
        ASSERT_TRUE(out.shape() == o.out) << out.shape().ToString();
        if (!Compare<T>(out, Ulps(op->name, DTypeOf<T>()), [&](int64_t i) {
              return plain::Binary<T>(
                  op->name, Widen<T>(x.data<T>()[Source(i, o.out, o.x)]),
                  Widen<T>(y.data<T>()[Source(i, o.out, o.y)]));
            })) {
          without.insert(op->name);
          return;
        }
      }
    });
  }
  ExpectNone(without);
}

TEST(ConformanceValues, ComplexPartsMatchReference) {
  const auto check = [&]<typename R>(Tag<R>) {
    using C = std::complex<R>;
    const DType real = DTypeOf<R>(), complex = DTypeOf<C>();
    std::mt19937 rng(kValuesSeed);
    for (const Operands& o : OperandShapes()) {
      const Tensor x = Random<R>(o.x, Range::kAll, &rng);
      const Tensor y = Random<R>(o.y, Range::kAll, &rng);
      const Tensor z =
          Compute("Complex", {x, y}, {{"T", real}, {"Tout", complex}});
      ASSERT_TRUE(z.shape() == o.out) << z.shape().ToString();
      const auto x_of = [&](int64_t i) {
        return Widen<R>(x.data<R>()[Source(i, o.out, o.x)]);
      };
      const auto y_of = [&](int64_t i) {
        return Widen<R>(y.data<R>()[Source(i, o.out, o.y)]);
      };
      const auto part = [&](const char* op, double ulps, const auto& want) {
        SCOPED_TRACE(op);
        const Tensor p = Compute(op, {z}, {{"T", complex}, {"Tout", real}});
        ASSERT_TRUE(p.shape() == o.out);
        Compare<R>(p, ulps, [&](int64_t i) {
          return std::optional<Exact<R>>(want(x_of(i), y_of(i)));
        });
      };
      using Real = plain::Real;
      part("Real", 0, [](Real re, Real) { return re; });
      part("Imag", 0, [](Real, Real im) { return im; });
      part("Angle", 4, [](Real re, Real im) { return std::atan2(im, re); });
      part("ComplexAbs", 4,
           [](Real re, Real im) { return std::hypot(re, im); });
    }
  };
  check(Tag<float>());
  check(Tag<double>());
}

// ---- Conversions ------------------------------------------------------------

// Towards zero, and to the real part.
template <typename To, typename From>
Exact<To> Convert(Exact<From> v) {
  if constexpr (std::is_same_v<To, bool>)
    return v != Exact<From>(0);
  else if constexpr (plain::kIsComplex<From> && !plain::kIsComplex<To>)
    return static_cast<Exact<To>>(v.real());
  else if constexpr (plain::kIsComplex<From>)
    return v;
  else
    return Exact<To>(
        static_cast<
            std::conditional_t<plain::kIsComplex<To>, plain::Real, Exact<To>>>(
            v));
}

TEST(ConformanceValues, ConversionsMatchReference) {
  const OpDef* op = OpRegistry::Global()->Find("Cast");
  std::mt19937 rng(kValuesSeed);
  const auto check = [&]<typename From, typename To>(Tag<From>, Tag<To>) {
    // (The conversion of a negative fraction to an unsigned type is undefined.)
    constexpr bool kUnsigned =
        std::is_unsigned_v<To> && !std::is_integral_v<From>;
    if (kUnsigned && plain::kIsComplex<From>) return;
    SCOPED_TRACE(absl::StrCat(DTypeName(DTypeOf<From>()), " to ",
                              DTypeName(DTypeOf<To>())));
    for (int64_t n : Sizes()) {
      const Tensor x = Random<From>(
          Shape({n}), kUnsigned ? Range::kPositive : Range::kModerate, &rng);
      const Tensor y = Compute(
          "Cast", {x}, {{"SrcT", DTypeOf<From>()}, {"DstT", DTypeOf<To>()}});
      ASSERT_EQ(y.num_elements(), n);
      Compare<To>(y, 0.5, [&](int64_t i) {
        return std::optional<Exact<To>>(
            Convert<To, From>(Widen<From>(x.data<From>()[i])));
      });
    }
  };
  const auto from = [&]<typename From>(Tag<From> t) {
    check(t, Tag<bool>());
    for (DType to : NumberTypes(*op, "DstT"))
      array::ByNumber(to, [&](auto other) { check(t, other); });
  };
  from(Tag<bool>());
  for (DType t : NumberTypes(*op, "SrcT")) array::ByNumber(t, from);
}

// ---- Reductions -------------------------------------------------------------

// The numbers of one group, in order, and the scale of rounding errors.
template <typename T>
struct Group {
  std::vector<Exact<T>> values;

  int64_t size() const { return static_cast<int64_t>(values.size()); }
  plain::Real Scale() const {
    plain::Real sum = 0;
    if constexpr (!std::is_same_v<Exact<T>, plain::Integer>)
      for (const Exact<T>& v : values) sum += std::abs(v);
    return sum;
  }
  // `step`(sum so far, element), truncated to the type for integers.
  template <typename F>
  Exact<T> Fold(Exact<T> start, const F& step) const {
    for (const Exact<T>& v : values) {
      start = step(start, v);
      if constexpr (std::is_same_v<Exact<T>, plain::Integer>)
        start = Widen<T>(Narrow<T>(start));
    }
    return start;
  }
};

template <typename T>
std::optional<Exact<T>> Reduce(const std::string& op, const Group<T>& g) {
  using E = Exact<T>;
  const auto sum = [](E a, E b) { return a + b; };
  if (op == "Sum") return g.Fold(E(0), sum);
  if (op == "Mean") return g.Fold(E(0), sum) / E(g.size());
  if (op == "Prod") return g.Fold(E(1), plain::Times<E>);
  if constexpr (!plain::kIsFloat<T> && !plain::kIsComplex<T>) {
    if (op == "All") return g.Fold(1, [](E a, E b) { return E(a && b); });
    if (op == "Any") return g.Fold(0, [](E a, E b) { return E(a || b); });
  } else if (op == "EuclideanNorm") {
    return std::sqrt(g.Fold(
        E(0), [](E a, E b) { return a + E(std::abs(b) * std::abs(b)); }));
  }
  if constexpr (!plain::kIsComplex<T>) {
    if (op != "Max" && op != "Min") return std::nullopt;
    const bool max = op == "Max";
    E start = 0;
    if constexpr (plain::kIsFloat<T>)
      start = max ? -INFINITY : INFINITY;
    else
      start =
          max ? std::numeric_limits<T>::min() : std::numeric_limits<T>::max();
    return g.Fold(start, [max](E a, E b) {
      return b != b || (max ? b > a : b < a) ? b : a;
    });
  }
  return std::nullopt;
}

// The groups of a reduction of x over `axes`, by element of the result.
template <typename T>
std::vector<Group<T>> Groups(const Tensor& x, const std::vector<int>& axes) {
  int64_t groups = 1;
  for (int d = 0; d < x.rank(); ++d)
    if (!std::count(axes.begin(), axes.end(), d)) groups *= x.dim(d);
  std::vector<Group<T>> all(static_cast<size_t>(groups));
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    int64_t rest = i, at = 0, stride = 1;
    for (int d = x.rank() - 1; d >= 0; rest /= x.dim(d--)) {
      if (std::count(axes.begin(), axes.end(), d)) continue;
      at += rest % x.dim(d) * stride;
      stride *= x.dim(d);
    }
    all[static_cast<size_t>(at)].values.push_back(Widen<T>(x.data<T>()[i]));
  }
  return all;
}

// The input of a reduction: few elements if results would not fit the type.
template <typename T>
std::vector<Shape> ReducedShapes(const std::string& op) {
  const bool integer = !plain::kIsFloat<T> && !plain::kIsComplex<T>;
  std::vector<Shape> shapes;
  for (int64_t n : Sizes()) {
    if ((op == "Prod" && n > 9) || (op == "Mean" && integer && n > 2)) break;
    if (n < 1000) shapes.push_back(Shape({2, n, 3}));
    shapes.push_back(Shape({n}));
  }
  return shapes;
}

TEST(ConformanceValues, ReductionsMatchReference) {
  std::set<std::string> without;
  for (const OpDef* op : OpRegistry::Global()->All()) {
    if (op->shape != ReductionShape) continue;
    ForTypes(*op, [&]<typename T>(Tag<T>) {
      const bool integer = !plain::kIsFloat<T> && !plain::kIsComplex<T>;
      if (integer && op->name == "EuclideanNorm") return;
      const bool orders = op->name == "Max" || op->name == "Min";
      std::mt19937 rng(kValuesSeed);
      for (const Shape& shape : ReducedShapes<T>(op->name)) {
        const Tensor x = Random<T>(shape,
                                   orders               ? Range::kAll
                                   : op->name == "Prod" ? Range::kPositive
                                                        : Range::kModerate,
                                   &rng);
        for (const std::vector<int>& axes : std::vector<std::vector<int>>{
                 {0}, {1}, {2}, {0, 2}, {1, 2}, {0, 1, 2}, {}}) {
          if (!axes.empty() && axes.back() >= shape.rank()) continue;
          const Tensor out =
              Compute(op->name, {x, Tensor::Vector<int32_t>(axes)},
                      TypeOf(*op, DTypeOf<T>()));
          if (!out.valid()) return;
          const std::vector<Group<T>> groups = Groups<T>(x, axes);
          ASSERT_EQ(out.num_elements(), static_cast<int64_t>(groups.size()));
          for (size_t i = 0; i < groups.size(); ++i) {
            const Group<T>& g = groups[i];
            if (op->name == "Mean" && g.size() == 0) continue;  // 0 / 0.
            const std::optional<Exact<T>> want = Reduce<T>(op->name, g);
            if (!want.has_value()) {
              without.insert(op->name);
              return;
            }
            const plain::Real scale = op->name == "Sum" ? g.Scale()
                                      : op->name == "Mean"
                                          ? g.Scale() / g.size()
                                          : 0;
            EXPECT_TRUE(Near<T>(*want, out.data<T>()[i],
                                4 + static_cast<double>(g.size()) / 8, scale))
                << "shape " << shape.ToString() << ", " << axes.size()
                << " axes: expected " << Text<T>(*want) << ", got "
                << Text<T>(Widen<T>(out.data<T>()[i]));
          }
        }
      }
    });
  }
  ExpectNone(without);
}

TEST(ConformanceValues, ArgmaxAndArgminMatchReference) {
  for (const char* name : {"ArgMax", "ArgMin"}) {
    const OpDef* op = OpRegistry::Global()->Find(name);
    ForTypes(*op, [&]<typename T>(Tag<T>) {
      if constexpr (!plain::kIsComplex<T>) {
        const bool max = op->name == "ArgMax";
        std::mt19937 rng(kValuesSeed);
        for (const Shape& shape : ReducedShapes<T>("")) {
          if (shape.num_elements() == 0) continue;
          const Tensor x = Random<T>(shape, Range::kModerate, &rng);
          for (int axis = 0; axis < shape.rank(); ++axis) {
            const Tensor out =
                Compute(op->name, {x, Tensor::Scalar<int32_t>(axis)},
                        TypeOf(*op, DTypeOf<T>()));
            if (!out.valid()) return;
            const std::vector<Group<T>> groups = Groups<T>(x, {axis});
            for (size_t i = 0; i < groups.size(); ++i) {
              const auto& v = groups[i].values;
              const auto at = max ? std::max_element(v.begin(), v.end())
                                  : std::min_element(v.begin(), v.end());
              ASSERT_EQ(out.data<int64_t>()[i], at - v.begin())
                  << shape.ToString() << ", axis " << axis;
            }
          }
        }
      }
    });
  }
}

// ---- Cumulative ops ---------------------------------------------------------

TEST(ConformanceValues, CumulativeSumsAndProductsMatchReference) {
  for (const char* name : {"Cumsum", "Cumprod"}) {
    const OpDef* op = OpRegistry::Global()->Find(name);
    ForTypes(*op, [&]<typename T>(Tag<T>) {
      using E = Exact<T>;
      const bool sums = op->name == "Cumsum";
      std::mt19937 rng(kValuesSeed);
      for (const Shape& shape : ReducedShapes<T>(sums ? "" : "Prod")) {
        const Tensor x =
            Random<T>(shape, sums ? Range::kModerate : Range::kPositive, &rng);
        for (int choice = 0; choice < 4 * shape.rank(); ++choice) {
          const int axis = choice / 4;
          const bool exclusive = choice & 1, reverse = choice & 2;
          AttrMap attrs = TypeOf(*op, DTypeOf<T>());
          attrs["exclusive"] = exclusive;
          attrs["reverse"] = reverse;
          const Tensor out =
              Compute(op->name, {x, Tensor::Scalar<int32_t>(axis)}, attrs);
          if (!out.valid()) return;
          const std::vector<Group<T>> in = Groups<T>(x, {axis});
          const std::vector<Group<T>> got = Groups<T>(out, {axis});
          for (size_t i = 0; i < in.size(); ++i) {
            const plain::Real scale = sums ? in[i].Scale() : 0;
            const int64_t n = in[i].size();
            E all(sums ? 0 : 1);
            for (int64_t k = 0; k < n; ++k) {
              const auto at = static_cast<size_t>(reverse ? n - 1 - k : k);
              const E v = in[i].values[at];
              const E next = sums ? all + v : plain::Times(all, v);
              const E want = exclusive ? all : next;
              ASSERT_TRUE(Near<T>(want, Narrow<T>(got[i].values[at]),
                                  4 + static_cast<double>(n) / 8, scale))
                  << shape.ToString() << ", axis " << axis << ", element " << at
                  << ": expected " << Text<T>(want) << ", got "
                  << Text<T>(got[i].values[at]);
              all = next;
              if constexpr (std::is_same_v<E, plain::Integer>)
                all = Widen<T>(Narrow<T>(all));
            }
          }
        }
      }
    });
  }
}

// ---- Products of matrices ---------------------------------------------------

struct Product {
  const char *op, *transpose_a, *transpose_b;
  int64_t batch;  // 0: none.
};

template <typename T>
void CheckProduct(const Product& p, const AttrMap& types, int64_t m, int64_t k,
                  int64_t n, std::mt19937* rng) {
  using E = Exact<T>;
  for (int choice = 0; choice < 4; ++choice) {
    const bool ta = choice & 1, tb = choice & 2;
    Dims da = {m, k}, db = {k, n};
    if (ta) std::swap(da[0], da[1]);
    if (tb) std::swap(db[0], db[1]);
    if (p.batch > 0) {
      da = {p.batch, da[0], da[1]};
      db = {p.batch, db[0], db[1]};
    }
    const Tensor a = Random<T>(*array::MakeShape(da), Range::kModerate, rng);
    const Tensor b = Random<T>(*array::MakeShape(db), Range::kModerate, rng);
    AttrMap attrs = types;
    attrs[p.transpose_a] = ta;
    attrs[p.transpose_b] = tb;
    const Tensor out = Compute(p.op, {a, b}, attrs);
    if (!out.valid()) return;
    // The factors of element (row, column): row `row` of a, column `column` of
    // b. (An adjoint is conjugated too; a transposed matrix is not.)
    const int64_t batches = std::max<int64_t>(p.batch, 1);
    const auto lines = [&](const Tensor& t, int64_t count, bool along) {
      std::vector<E> all;
      const T* v = t.data<T>();
      for (int64_t batch = 0; batch < batches; ++batch, v += count * k) {
        for (int64_t line = 0; line < count; ++line) {
          for (int64_t j = 0; j < k; ++j) {
            E e = Widen<T>(v[along ? line * k + j : j * count + line]);
            if constexpr (plain::kIsComplex<T>)
              if (p.batch > 0 && (&t == &a ? ta : tb)) e = std::conj(e);
            all.push_back(e);
          }
        }
      }
      return all;
    };
    const std::vector<E> rows = lines(a, m, !ta), columns = lines(b, n, tb);
    const auto sizes = [](const std::vector<E>& of) {
      std::vector<plain::Real> all;
      if constexpr (!std::is_same_v<E, plain::Integer>)
        for (const E& e : of) all.push_back(std::abs(e));
      return all;
    };
    const std::vector<plain::Real> row_sizes = sizes(rows),
                                   column_sizes = sizes(columns);
    for (int64_t i = 0; i < out.num_elements(); ++i) {
      const int64_t batch = i / (m * n), row = i / n % m, column = i % n;
      const auto x = static_cast<size_t>((batch * m + row) * k);
      const auto y = static_cast<size_t>((batch * n + column) * k);
      E want(0);
      plain::Real scale = 0;
      for (size_t j = 0; j < static_cast<size_t>(k); ++j) {
        want += plain::Times(rows[x + j], columns[y + j]);
        if constexpr (!std::is_same_v<E, plain::Integer>)
          scale += row_sizes[x + j] * column_sizes[y + j];
      }
      ASSERT_TRUE(Near<T>(want, out.data<T>()[i], 4, scale))
          << m << "x" << k << "x" << n << ", transposed " << choice
          << ", element " << i << ": expected " << Text<T>(want) << ", got "
          << Text<T>(Widen<T>(out.data<T>()[i]));
    }
  }
}

TEST(ConformanceValues, MatrixProductsMatchReference) {
  for (const Product& p : {Product{"MatMul", "transpose_a", "transpose_b", 0},
                           Product{"BatchMatMul", "adj_x", "adj_y", 3},
                           Product{"BatchMatMulV2", "adj_x", "adj_y", 3}}) {
    const OpDef* op = OpRegistry::Global()->Find(p.op);
    ForTypes(*op, [&]<typename T>(Tag<T>) {
      std::mt19937 rng(kValuesSeed);
      for (int64_t m : {0, 1, 3, 17, 40})
        for (int64_t k : {0, 1, 8, 33})
          for (int64_t n : kSanitized ? std::vector<int64_t>{5}
                                      : std::vector<int64_t>{1, 5, 16, 35})
            CheckProduct<T>(p, TypeOf(*op, DTypeOf<T>()), m, k, n, &rng);
    });
  }
}

}  // namespace
}  // namespace sluice::conformance_values
