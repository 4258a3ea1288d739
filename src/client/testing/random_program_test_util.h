// Random programs of assignments, conditionals and loops, for tests: built into
// a graph, and run as plain code on numbers of any kind.
#ifndef SLUICE_CLIENT_TESTING_RANDOM_PROGRAM_TEST_UTIL_H_
#define SLUICE_CLIENT_TESTING_RANDOM_PROGRAM_TEST_UTIL_H_

#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "client/control/control_flow.h"
#include "client/control/functions.h"
#include "client/control/tensor_store.h"
#include "client/operators.h"
#include "sluice/ops.h"

namespace sluice::random_program {

// A number and its derivative in one direction; nested, a second derivative.
template <typename T>
struct Dual {
  T v{}, d{};
  Dual() = default;
  Dual(double x) : v(x), d(0.0) {}  // NOLINT
  Dual(T value, T derivative) : v(value), d(derivative) {}
  friend Dual operator+(const Dual& a, const Dual& b) {
    return {a.v + b.v, a.d + b.d};
  }
  friend Dual operator*(const Dual& a, const Dual& b) {
    return {a.v * b.v, a.d * b.v + a.v * b.d};
  }
};
inline double Real(double x) { return x; }
template <typename T>
double Real(const Dual<T>& x) {
  return Real(x.v);
}
inline double Sine(double x) { return std::sin(x); }
inline double Cosine(double x) { return std::cos(x); }
inline double Tanh(double x) { return std::tanh(x); }
template <typename T>
Dual<T> Sine(const Dual<T>& x) {
  return {Sine(x.v), Cosine(x.v) * x.d};
}
template <typename T>
Dual<T> Cosine(const Dual<T>& x) {
  return {Cosine(x.v), Sine(x.v) * x.d * T(-1.0)};
}
template <typename T>
Dual<T> Tanh(const Dual<T>& x) {
  const T t = Tanh(x.v);
  return {t, (T(1.0) + t * t * T(-1.0)) * x.d};
}

// All values are vectors of two.
template <typename T>
using Pair = std::array<T, 2>;

struct Expr {
  enum Kind { kVariable, kInput, kNumber, kAdd, kMul, kSin, kSum, kSwap };
  Kind kind = kNumber;
  int index = 0;  // The variable or input.
  double number = 0;
  std::vector<Expr> of;
};

struct Statement;
using Block = std::vector<Statement>;

struct Statement {
  enum Kind { kAssign, kIf, kFor, kWhile, kChain };
  Kind kind = kAssign;
  // kAssign: target = sin(expr), or tanh(expr), whose gradient needs the value
  // (UsesTanh). kWhile: the tested variable.
  int target = 0;
  Expr expr;
  int parity = -1;   // kIf: whether the innermost counter is even or odd; -1:
  double bound = 0;  //   whether the sum of expr is below bound, as in kWhile.
  int times = 0;     // kFor: iterations. kWhile: the most iterations.
  Block then, otherwise;  // kIf; loops use `then`.
  // kAssign: if not negative, the value is written to a store and read from it.
  // kChain: the target is the element 0 of a sequence in which each is the sine
  // of expr plus the next; the one after the last is the target's old value. A
  // loop computes the elements, the first ones first.
  int key = -1;
  // kAssign in a loop: expr plus what the statement of this key assigned in the
  // iteration before; before the first, the variable of this number modulo 3.
  int before = -1;
  std::vector<int> keys;  // Loops: those that may be read so.
};

inline bool UsesTanh(const Statement& assignment) {
  return assignment.target == 1;
}

struct Program {
  static constexpr int kInputs = 2;
  static constexpr int kVariables = 3;  // Initially in 0, in 1, in 0 * in 1.
  static constexpr int kMaxKeys = 4096;
  Block block;
};

// ---- Generation -------------------------------------------------------------

class Maker {
 public:
  // `stores`: some values go through a store.
  explicit Maker(uint64_t seed, bool stores = false)
      : random_(seed), stores_(stores) {}

  Program Make() {
    Program p;
    p.block = MakeBlock(0, false);
    // (Always something to differentiate.)
    p.block.push_back(MakeConstruct(1, false));
    return p;
  }

 private:
  int Below(int n) {
    return static_cast<int>(random_() % static_cast<unsigned>(n));
  }
  double Number() { return Below(200) / 100.0 - 1; }

  Expr MakeExpr(int depth) {
    Expr e;
    const int pick = Below(depth > 2 ? 4 : 10);
    if (pick < 2) {
      e.kind = Expr::kVariable;
      e.index = Below(Program::kVariables);
    } else if (pick == 2) {
      e.kind = Expr::kInput;
      e.index = Below(Program::kInputs);
    } else if (pick == 3) {
      e.number = Number();
    } else {
      constexpr Expr::Kind kKinds[] = {Expr::kAdd, Expr::kAdd, Expr::kMul,
                                       Expr::kMul, Expr::kSin, Expr::kSum,
                                       Expr::kSwap};
      e.kind = kKinds[Below(7)];
      const int n = e.kind == Expr::kAdd || e.kind == Expr::kMul ? 2 : 1;
      for (int i = 0; i < n; ++i) e.of.push_back(MakeExpr(depth + 1));
    }
    return e;
  }

  Statement MakeConstruct(int depth, bool in_loop) {
    Statement s;
    const int pick = Below(stores_ ? 4 : 3);
    s.expr = MakeExpr(1);
    s.bound = Number();
    if (pick == 3) {
      s.kind = Statement::kChain;
      s.times = Below(5);
      s.target = Below(Program::kVariables);
      s.key = next_key_++;
    } else if (pick == 0) {
      s.kind = Statement::kIf;
      if (in_loop && Below(2) == 0) s.parity = Below(2);
      s.then = MakeBlock(depth, in_loop);
      if (Below(4) != 0) s.otherwise = MakeBlock(depth, in_loop);
    } else {
      s.kind = pick == 1 ? Statement::kFor : Statement::kWhile;
      s.times = Below(4);
      s.target = Below(Program::kVariables);
      s.then = MakeBlock(depth, true);
      for (const Statement& t : s.then)
        if (t.kind == Statement::kAssign && t.key >= 0) s.keys.push_back(t.key);
      for (Statement& t : s.then)
        if (t.kind == Statement::kAssign && t.key >= 0 && Below(2) == 0)
          t.before = s.keys[static_cast<size_t>(
              Below(static_cast<int>(s.keys.size())))];
    }
    return s;
  }

  Block MakeBlock(int depth, bool in_loop) {
    Block b;
    const int n = 1 + Below(2);
    for (int i = 0; i < n; ++i) {
      if (depth < 4 && Below(5) < 2) {
        b.push_back(MakeConstruct(depth + 1, in_loop));
      } else {
        Statement s;
        s.target = Below(Program::kVariables);
        s.expr = MakeExpr(0);
        if (stores_ && next_key_ < Program::kMaxKeys / 2 && Below(2) == 0)
          s.key = next_key_++;
        b.push_back(s);
      }
    }
    return b;
  }

  std::mt19937_64 random_;
  const bool stores_;
  int next_key_ = 0;
};

// ---- As plain code ----------------------------------------------------------

template <typename T>
class Interpreter {
 public:
  explicit Interpreter(std::array<Pair<T>, Program::kInputs> inputs)
      : inputs_(inputs) {
    vars_[0] = inputs[0];
    vars_[1] = inputs[1];
    for (size_t k = 0; k < 2; ++k) vars_[2][k] = inputs[0][k] * inputs[1][k];
  }

  // The sum of the final values of all variables.
  T Run(const Program& p) {
    Execute(p.block, 0);
    T sum(0.0);
    for (const Pair<T>& v : vars_) sum = sum + v[0] + v[1];
    return sum;
  }

 private:
  Pair<T> Evaluate(const Expr& e) const {
    switch (e.kind) {
      case Expr::kVariable:
        return vars_[static_cast<size_t>(e.index)];
      case Expr::kInput:
        return inputs_[static_cast<size_t>(e.index)];
      case Expr::kNumber:
        return {T(e.number), T(e.number)};
      default:
        break;
    }
    const Pair<T> a = Evaluate(e.of[0]);
    const Pair<T> b = e.of.size() > 1 ? Evaluate(e.of[1]) : a;
    switch (e.kind) {
      case Expr::kAdd:
        return {a[0] + b[0], a[1] + b[1]};
      case Expr::kMul:
        return {a[0] * b[0], a[1] * b[1]};
      case Expr::kSin:
        return {Sine(a[0]), Sine(a[1])};
      case Expr::kSum:
        return {a[0] + a[1], a[0] + a[1]};
      default:
        return {a[1], a[0]};
    }
  }

  static Pair<T> Plus(const Pair<T>& a, const Pair<T>& b) {
    return {a[0] + b[0], a[1] + b[1]};
  }

  bool Below(const Expr& e, double bound) const {
    const Pair<T> v = Evaluate(e);
    return Real(v[0] + v[1]) < bound;
  }

  // What statements assigned in the last iterations of a loop, by key.
  struct Assigned {
    std::map<int, Pair<T>> before, now;
  };
  Assigned Begin(const Statement& loop) const {
    Assigned a;
    for (const int key : loop.keys)
      a.before[key] = vars_[static_cast<size_t>(key % Program::kVariables)];
    return a;
  }
  void Iterate(const Statement& loop, int counter, Assigned* assigned) {
    Execute(loop.then, counter, assigned);
    assigned->before.swap(assigned->now);
  }

  void Execute(const Block& block, int counter, Assigned* assigned = nullptr) {
    for (const Statement& s : block) {
      switch (s.kind) {
        case Statement::kAssign: {
          Pair<T> v = Evaluate(s.expr);
          if (s.before >= 0) v = Plus(v, assigned->before.at(s.before));
          for (T& x : v) x = UsesTanh(s) ? Tanh(x) : Sine(x);
          vars_[static_cast<size_t>(s.target)] = v;
          if (s.key >= 0 && assigned != nullptr) assigned->now[s.key] = v;
          break;
        }
        case Statement::kChain: {
          const Pair<T> term = Evaluate(s.expr);
          Pair<T>& v = vars_[static_cast<size_t>(s.target)];
          for (int i = 0; i < s.times; ++i) {
            v = Plus(term, v);
            v = {Sine(v[0]), Sine(v[1])};
          }
          break;
        }
        case Statement::kIf:
          Execute(
              (s.parity >= 0 ? counter % 2 == s.parity : Below(s.expr, s.bound))
                  ? s.then
                  : s.otherwise,
              counter);
          break;
        case Statement::kFor: {
          Assigned within = Begin(s);
          for (int i = 0; i < s.times; ++i) Iterate(s, i, &within);
          break;
        }
        case Statement::kWhile: {
          Expr tested;
          tested.kind = Expr::kVariable;
          tested.index = s.target;
          Assigned within = Begin(s);
          for (int i = 0; i < s.times && Below(tested, s.bound); ++i)
            Iterate(s, i, &within);
          break;
        }
      }
    }
  }

  const std::array<Pair<T>, Program::kInputs> inputs_;
  std::array<Pair<T>, Program::kVariables> vars_;
};

// ---- As a graph -------------------------------------------------------------

class GraphBuilder {
 public:
  // `assigned`: maps each assigned value to the value to use; null: the value.
  // `recursive`: every other loop is a function that calls itself.
  explicit GraphBuilder(std::array<Output, Program::kInputs> inputs,
                        std::function<Output(Output)> assigned = nullptr,
                        bool recursive = false)
      : inputs_(inputs),
        assigned_(std::move(assigned)),
        recursive_(recursive) {}

  // The sum, a scalar of the current graph.
  Output Build(const Program& p) {
    std::vector<Output> vars = {inputs_[0], inputs_[1],
                                inputs_[0] * inputs_[1]};
    if (UsesStore(p.block))
      store_ = TensorStore(DType::kDouble, {.element_shape = {2}});
    vars = Add(p.block, vars, Output(), {Constant(int64_t{1}), Output()});
    return ops::Sum(vars[0] + vars[1] + vars[2], {0});
  }

 private:
  using Vars = std::vector<Output>;

  Output Evaluate(const Expr& e, const Vars& vars) const {
    switch (e.kind) {
      case Expr::kVariable:
        return vars[static_cast<size_t>(e.index)];
      case Expr::kInput:
        return inputs_[static_cast<size_t>(e.index)];
      case Expr::kNumber:
        return Constant(Tensor::Vector<double>({e.number, e.number}));
      default:
        break;
    }
    const Output a = Evaluate(e.of[0], vars);
    switch (e.kind) {
      case Expr::kAdd:
        return a + Evaluate(e.of[1], vars);
      case Expr::kMul:
        return a * Evaluate(e.of[1], vars);
      case Expr::kSin:
        return ops::Sin(a);
      case Expr::kSum:  // Broadcasts.
        return ops::Sum(a, {0}) + Constant(Tensor::Vector<double>({0.0, 0.0}));
      default:
        return ops::ReverseV2(a, {0});
    }
  }

  // The variables that a block may assign to.
  static void FindTargets(const Block& block, std::set<int>* targets) {
    for (const Statement& s : block) {
      if (s.kind == Statement::kAssign || s.kind == Statement::kChain)
        targets->insert(s.target);
      FindTargets(s.then, targets);
      FindTargets(s.otherwise, targets);
    }
  }

  static Vars With(Vars vars, const std::set<int>& targets,
                   const std::vector<Output>& values, size_t first) {
    for (const int t : targets) vars[static_cast<size_t>(t)] = values[first++];
    return vars;
  }
  static std::vector<Output> Only(const Vars& vars,
                                  const std::set<int>& targets) {
    std::vector<Output> some;
    for (const int t : targets) some.push_back(vars[static_cast<size_t>(t)]);
    return some;
  }

  Output IsBelow(const Output& v, double bound) const {
    return ops::Sum(v, {0}) < bound;
  }

  // Where a statement runs: the loops around it and their iterations.
  struct Where {
    // One number for all of them, and that of the previous iteration of the
    // innermost loop.
    Output here, before;
  };
  static Where Iteration(const Where& around, const Output& i) {
    const Output before =
        around.here * int64_t{8} + ops::Cast(i, DType::kInt64);
    return {before + int64_t{1}, before};
  }
  static Output Key(const Output& where, int key) {
    return where * int64_t{Program::kMaxKeys} + int64_t{key};
  }
  static bool UsesStore(const Block& block) {
    for (const Statement& s : block)
      if (s.key >= 0 || UsesStore(s.then) || UsesStore(s.otherwise))
        return true;
    return false;
  }

  // A sequence of elements that a loop computes in the opposite order of their
  // dependences.
  Output Chain(const Statement& s, const Vars& vars, const Where& where) {
    const Output term = Evaluate(s.expr, vars);
    const auto key = [&](const Output& i) {
      return Key(Iteration(where, i).before, s.key);
    };
    While(
        std::vector<Output>{Constant(0)},
        [&](std::vector<Output> v) { return v[0] < s.times; },
        [&](std::vector<Output> v) {
          store_.Write(key(v[0]), ops::Sin(term + store_.Read(key(v[0] + 1))));
          return std::vector<Output>{v[0] + 1};
        });
    store_.Write(key(Constant(s.times)), vars[static_cast<size_t>(s.target)]);
    return store_.Read(key(Constant(0)));
  }

  // A loop: a While, or a function that calls itself.
  std::vector<Output> Repeat(
      const std::vector<Output>& init,
      const std::function<Output(std::vector<Output>)>& condition,
      const std::function<std::vector<Output>(std::vector<Output>)>& body) {
    if (!recursive_ || ++loops_ % 2 == 0) return While(init, condition, body);
    std::vector<DType> types;
    std::vector<PartialShape> shapes;
    for (const Output& v : init) {
      types.push_back(v.dtype());
      shapes.push_back(v.shape());
    }
    const Function loop = DefineFunction(
        "loop" + std::to_string(functions_++), types, types,
        [&](const Function& self, const std::vector<Output>& v) {
          return Cond(
              condition(v), [&] { return self(body(v)); }, [&] { return v; });
        },
        {.arg_shapes = shapes, .result_shapes = shapes});
    return loop(init);
  }

  Vars Add(const Block& block, Vars vars, const Output& counter,
           const Where& where) {
    for (const Statement& s : block) {
      if (s.kind == Statement::kAssign) {
        Output value = Evaluate(s.expr, vars);
        if (s.before >= 0)
          value = value + store_.Read(Key(where.before, s.before));
        value = UsesTanh(s) ? ops::Tanh(value) : ops::Sin(value);
        if (assigned_) value = assigned_(value);
        if (s.key >= 0) {
          store_.Write(Key(where.here, s.key), value);
          value = store_.Read(Key(where.here, s.key));
        }
        vars[static_cast<size_t>(s.target)] = value;
        continue;
      }
      if (s.kind == Statement::kChain) {
        vars[static_cast<size_t>(s.target)] = Chain(s, vars, where);
        continue;
      }
      std::set<int> targets;
      FindTargets(s.then, &targets);
      FindTargets(s.otherwise, &targets);
      if (s.kind == Statement::kIf) {
        const Output holds = s.parity >= 0
                                 ? ops::Equal(counter % 2, s.parity)
                                 : IsBelow(Evaluate(s.expr, vars), s.bound);
        const Vars before = vars;
        vars = With(before, targets,
                    Cond(
                        holds,
                        [&] {
                          return Only(Add(s.then, before, counter, where),
                                      targets);
                        },
                        [&] {
                          return Only(Add(s.otherwise, before, counter, where),
                                      targets);
                        }),
                    0);
        continue;
      }
      // Variables that the loop does not assign are captured by its body.
      std::set<int> carried = targets;
      if (s.kind == Statement::kWhile) carried.insert(s.target);
      const Vars before = vars;
      for (const int key : s.keys)
        store_.Write(Key(where.here * int64_t{8}, key),
                     before[static_cast<size_t>(key % Program::kVariables)]);
      std::vector<Output> init = Only(before, carried);
      init.insert(init.begin(), Constant(0));
      vars = With(
          before, carried,
          Repeat(
              init,
              [&](std::vector<Output> v) {
                const Output more = v[0] < s.times;
                return s.kind == Statement::kFor
                           ? more
                           : ops::LogicalAnd(
                                 more,
                                 IsBelow(With(before, carried, v,
                                              1)[static_cast<size_t>(s.target)],
                                         s.bound));
              },
              [&](std::vector<Output> v) {
                std::vector<Output> next =
                    Only(Add(s.then, With(before, carried, v, 1), v[0],
                             Iteration(where, v[0])),
                         carried);
                next.insert(next.begin(), v[0] + 1);
                return next;
              }),
          1);
    }
    return vars;
  }

  const std::array<Output, Program::kInputs> inputs_;
  const std::function<Output(Output)> assigned_;
  const bool recursive_;
  int loops_ = 0, functions_ = 0;
  TensorStore store_;  // Null if the program uses none.
};

}  // namespace sluice::random_program

#endif  // SLUICE_CLIENT_TESTING_RANDOM_PROGRAM_TEST_UTIL_H_
