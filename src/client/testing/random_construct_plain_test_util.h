// The random programs of random_construct_test_util.h as plain code, on numbers
// of any type.
#ifndef SLUICE_CLIENT_TESTING_RANDOM_CONSTRUCT_PLAIN_TEST_UTIL_H_
#define SLUICE_CLIENT_TESTING_RANDOM_CONSTRUCT_PLAIN_TEST_UTIL_H_

#include <array>
#include <set>
#include <vector>

#include "client/testing/random_construct_test_util.h"
#include "client/testing/random_program_test_util.h"
#include "gtest/gtest.h"

namespace sluice::random_construct {

using random_program::Dual;
using random_program::Pair;

template <typename T>
struct Values {
  std::array<Pair<T>, kInputs> inputs;
  std::array<Pair<T>, kVariables> vars;
  int counter = 0;
  Pair<T> row, kept;
  std::array<Pair<T>, 2> jacobian;  // [i][j]: element i by element j.

  // The same as constants with respect to a new variable.
  Values<Dual<T>> Lifted() const {
    const auto lift = [](const Pair<T>& p) {
      return Pair<Dual<T>>{Dual<T>(p[0], T(0.0)), Dual<T>(p[1], T(0.0))};
    };
    Values<Dual<T>> v;
    for (size_t i = 0; i < kInputs; ++i) v.inputs[i] = lift(inputs[i]);
    for (size_t i = 0; i < kVariables; ++i) v.vars[i] = lift(vars[i]);
    for (size_t i = 0; i < 2; ++i) v.jacobian[i] = lift(jacobian[i]);
    v.counter = counter;
    v.row = lift(row);
    v.kept = lift(kept);
    return v;
  }
};

template <typename T>
constexpr int kOrder = 0;
template <typename T>
constexpr int kOrder<Dual<T>> = 1 + kOrder<T>;
constexpr int kMaxOrder = 3;

class Interpreter {
 public:
  explicit Interpreter(const Program& p) : program_(p) {}

  // The sum of the final values of all variables.
  template <typename T>
  T Run(const std::array<Pair<T>, kInputs>& inputs) const {
    Values<T> v;
    v.inputs = inputs;
    v.vars = {inputs[0], inputs[1]};
    for (size_t k = 0; k < 2; ++k) v.vars[2][k] = inputs[0][k] * inputs[1][k];
    Execute(program_.block, v);
    T sum(0.0);
    for (const Pair<T>& p : v.vars) sum = sum + p[0] + p[1];
    return sum;
  }

 private:
  template <typename T>
  static Pair<T> Sin(const Pair<T>& p) {
    return {random_program::Sine(p[0]), random_program::Sine(p[1])};
  }
  template <typename T>
  static Pair<T> Plus(const Pair<T>& a, const Pair<T>& b) {
    return {a[0] + b[0], a[1] + b[1]};
  }
  template <typename T>
  static bool IsBelow(const Pair<T>& p, double bound) {
    return random_program::Real(p[0] + p[1]) < bound;
  }

  template <typename T>
  Pair<T> Evaluate(const Expr& e, const Values<T>& v) const {
    switch (e.kind) {
      case Expr::kVariable:
        return v.vars[static_cast<size_t>(e.index)];
      case Expr::kInput:
        return v.inputs[static_cast<size_t>(e.index)];
      case Expr::kNumber:
        return {T(e.number), T(e.number)};
      case Expr::kRow:
        return v.row;
      case Expr::kKept:
        return v.kept;
      default:
        break;
    }
    const Pair<T> a = Evaluate(e.of[0], v);
    if (e.kind == Expr::kAround) {
      const auto& j = v.jacobian;
      return {j[0][0] * a[0] + j[1][0] * a[1], j[0][1] * a[0] + j[1][1] * a[1]};
    }
    const Pair<T> b = e.of.size() > 1 ? Evaluate(e.of[1], v) : a;
    switch (e.kind) {
      case Expr::kAdd:
        return Plus(a, b);
      case Expr::kMul:
        return {a[0] * b[0], a[1] * b[1]};
      case Expr::kSin:
        return Sin(a);
      case Expr::kSum:
        return {a[0] + a[1], a[0] + a[1]};
      default:
        return {a[1], a[0]};
    }
  }

  // The derivative of `target` after the block by `wrt` before it: [i][j].
  template <typename T>
  std::array<Pair<T>, 2> Jacobian(const Statement& s,
                                  const Values<T>& v) const {
    std::array<Pair<T>, 2> result;
    if constexpr (kOrder<T> < kMaxOrder) {
      for (size_t j = 0; j < 2; ++j) {
        Values<Dual<T>> moved = v.Lifted();
        moved.vars[static_cast<size_t>(s.wrt)][j].d = T(1.0);
        Execute(s.then, moved);
        for (size_t i = 0; i < 2; ++i)
          result[i][j] = moved.vars[static_cast<size_t>(s.target)][i].d;
      }
    } else {
      ADD_FAILURE() << "the program differentiates too often";
    }
    return result;
  }

  template <typename T>
  void Call(const Statement& s, int times, Values<T>& v) const {
    const FunctionOf& f = program_.functions[static_cast<size_t>(s.function)];
    if (f.recursive && times <= 0) return;
    Values<T> inside;
    inside.inputs = v.inputs;
    inside.vars = v.vars;
    inside.counter = v.counter;
    Execute(f.block, inside);
    v.vars = inside.vars;
    if (!f.recursive) return;
    Call(s, times - 1, v);
    for (size_t k = 0; k < 2; ++k)
      v.vars[0][k] = random_program::Sine(v.vars[0][k] * inside.vars[1][k]);
  }

  template <typename T>
  void Execute(const Block& block, Values<T>& v) const {
    for (const Statement& s : block) Execute(s, v);
  }

  // Runs a loop's body and restores the enclosing scope.
  template <typename T>
  void Iterate(const Statement& s, int counter, const Pair<T>* row,
               const Pair<T>* kept, Values<T>& v) const {
    Values<T> inside = v;
    inside.counter = counter;
    if (row != nullptr) inside.row = *row;
    if (kept != nullptr) inside.kept = *kept;
    Execute(s.then, inside);
    v.vars = inside.vars;
  }

  template <typename T>
  void Execute(const Statement& s, Values<T>& v) const {
    Pair<T>& target = v.vars[static_cast<size_t>(s.target)];
    const int n = static_cast<int>(s.order.size());
    std::vector<Pair<T>> rows;
    for (const int i : s.order)
      rows.push_back(Evaluate(s.rows[static_cast<size_t>(i)], v));
    const auto row = [&](int i) -> const Pair<T>* {
      return &rows[static_cast<size_t>(i)];
    };
    switch (s.kind) {
      case Statement::kAssign:
        target = Sin(Evaluate(s.expr, v));
        break;
      case Statement::kIf:
        Execute((s.parity >= 0 ? v.counter % 2 == s.parity
                               : IsBelow(Evaluate(s.expr, v), s.bound))
                    ? s.then
                    : s.otherwise,
                v);
        break;
      case Statement::kWhile:
        for (int i = 0; i < s.times; ++i) {
          const Pair<T> kept = Sin(Evaluate(s.expr, v));
          if (s.mode > 0 && !IsBelow(kept, s.bound + 1)) break;
          Iterate<T>(s, i, nullptr, &kept, v);
        }
        break;
      case Statement::kMap: {
        Pair<T> sum{};
        for (int i = 0; i < n; ++i) {
          Values<T> one = v;
          Iterate<T>(s, v.counter, row(i), nullptr, one);
          sum = Plus(sum, one.vars[static_cast<size_t>(s.target)]);
        }
        target = Sin(sum);
        break;
      }
      case Statement::kFold: {
        std::array<Pair<T>, kVariables> sums{};
        for (int i = 0; i < n; ++i) {
          Iterate<T>(s, v.counter, row(s.mode % 2 == 0 ? i : n - 1 - i),
                     nullptr, v);
          for (size_t k = 0; k < kVariables; ++k)
            sums[k] = Plus(sums[k], v.vars[k]);
        }
        if (s.mode >= 2)
          for (const int t : TargetsOf(s))
            v.vars[static_cast<size_t>(t)] = Sin(sums[static_cast<size_t>(t)]);
        break;
      }
      case Statement::kArray: {
        std::vector<Pair<T>> out = {target};
        for (int i = 0; i < n; ++i) {
          if (s.mode & 1) target = out.back();
          Iterate<T>(s, i, row(s.mode & 2 ? n - 1 - i : i), nullptr, v);
          Pair<T> written = target;
          if ((s.mode & 8) && i % 2 == 0) written = {target[1], target[0]};
          out.push_back(written);
        }
        Pair<T> sum = Plus(out[0], out.back());
        if (s.mode & 4) {
          sum = {};
          for (const Pair<T>& o : out) sum = Plus(sum, o);
        }
        target = Sin(sum);
        break;
      }
      case Statement::kCall:
        Call(s, s.times, v);
        break;
      case Statement::kGrad: {
        const auto j = Jacobian(s, v);
        target = Sin(Plus(j[0], j[1]));
        break;
      }
      case Statement::kWatch: {
        const std::array<Pair<T>, 2> around = v.jacobian;
        const std::array<Pair<T>, 2> j = Jacobian(s, v);
        Execute(s.then, v);
        v.jacobian = j;
        Execute(s.otherwise, v);
        v.jacobian = around;
        break;
      }
    }
  }

  const Program& program_;
};

}  // namespace sluice::random_construct

#endif  // SLUICE_CLIENT_TESTING_RANDOM_CONSTRUCT_PLAIN_TEST_UTIL_H_
