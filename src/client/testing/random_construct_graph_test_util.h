// The random programs of random_construct_test_util.h as graphs.
#ifndef SLUICE_CLIENT_TESTING_RANDOM_CONSTRUCT_GRAPH_TEST_UTIL_H_
#define SLUICE_CLIENT_TESTING_RANDOM_CONSTRUCT_GRAPH_TEST_UTIL_H_

#include <array>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "client/autodiff/gradients.h"
#include "client/control/control_flow.h"
#include "client/control/functions.h"
#include "client/control/higher_order.h"
#include "client/control/scheduled.h"
#include "client/control/tensor_array.h"
#include "client/operators.h"
#include "client/testing/random_construct_test_util.h"
#include "sluice/ops.h"

namespace sluice::random_construct {

class GraphBuilder {
 public:
  // With devices, each assignment is placed on one of them when it runs.
  explicit GraphBuilder(const Program& p, std::vector<std::string> devices = {})
      : program_(p), devices_(std::move(devices)) {}

  // The sum, a scalar of the current graph. (Its library gets the functions.)
  Output Build(const std::array<Output, kInputs>& inputs) {
    for (const FunctionOf& f : program_.functions) Define(f);
    Place p;
    p.inputs = {inputs[0], inputs[1]};
    p.counter = Constant(0);
    const Vars vars =
        Add(program_.block, {inputs[0], inputs[1], inputs[0] * inputs[1]}, p);
    return ops::Sum(vars[0] + vars[1] + vars[2], {0});
  }

 private:
  using Vars = std::vector<Output>;

  // What is in scope besides the variables.
  struct Place {
    Vars inputs;
    Output counter;
    std::function<Output()> row;
    Output kept;
    Output watched, wrt;
  };

  static Output Zeros() { return Constant(Tensor::Vector<double>({0.0, 0.0})); }
  static Output Derivative(const Output& y, const Output& x) {
    GradientOptions options;
    options.unconnected = Unconnected::kZero;
    return Grad(y, x, options);
  }
  Output Sine(const Output& x) const {
    if (devices_.empty()) return ops::Sin(x);
    return Scheduled(devices_, x, [](Output x) { return ops::Sin(x); },
                     {.policy = "least_loaded"});
  }
  static Output SumRows(const Output& o) { return ops::Sum(o, {0}); }

  Output Evaluate(const Expr& e, const Vars& vars, const Place& p) const {
    switch (e.kind) {
      case Expr::kVariable:
        return vars[static_cast<size_t>(e.index)];
      case Expr::kInput:
        return p.inputs[static_cast<size_t>(e.index)];
      case Expr::kNumber:
        return Constant(Tensor::Vector<double>({e.number, e.number}));
      case Expr::kRow:
        return p.row();
      case Expr::kKept:
        return p.kept;
      default:
        break;
    }
    const Output a = Evaluate(e.of[0], vars, p);
    switch (e.kind) {
      case Expr::kAround:
        // (grad_ys from within a loop that is inside the context of the ys are
        // rejected.)
        return Derivative(SumRows(p.watched * ops::StopGradient(a)), p.wrt);
      case Expr::kAdd:
        return a + Evaluate(e.of[1], vars, p);
      case Expr::kMul:
        return a * Evaluate(e.of[1], vars, p);
      case Expr::kSin:
        return ops::Sin(a);
      case Expr::kSum:
        return ops::Sum(a, {0}) + Zeros();
      default:
        return ops::ReverseV2(a, {0});
    }
  }

  static Vars With(Vars vars, const std::set<int>& targets,
                   const std::vector<Output>& values, size_t first = 0) {
    for (const int t : targets) vars[static_cast<size_t>(t)] = values[first++];
    return vars;
  }
  static std::vector<Output> Only(const Vars& vars,
                                  const std::set<int>& targets) {
    std::vector<Output> some;
    for (const int t : targets) some.push_back(vars[static_cast<size_t>(t)]);
    return some;
  }

  // The variables, the inputs, the counter, and how deep a recursion goes.
  void Define(const FunctionOf& f) {
    const std::string name = "f" + std::to_string(functions_.size());
    std::vector<DType> types(kVariables + kInputs, DType::kDouble);
    types.push_back(DType::kInt32);
    const std::vector<DType> results(kVariables, DType::kDouble);
    const PartialShape two({2});
    FunctionOptions options;
    options.arg_shapes.assign(kVariables + kInputs, two);
    options.arg_shapes.push_back(PartialShape::Scalar());
    options.result_shapes.assign(kVariables, two);
    const auto body = [&](const std::vector<Output>& a) {
      Place p;
      p.inputs = {a[kVariables], a[kVariables + 1]};
      p.counter = a[kVariables + kInputs];
      return Add(f.block, Vars(a.begin(), a.begin() + kVariables), p);
    };
    if (!f.recursive) {
      functions_.push_back(DefineFunction(name, types, body, options));
      return;
    }
    types.push_back(DType::kInt32);
    options.arg_shapes.push_back(PartialShape::Scalar());
    const size_t depth = types.size() - 1;
    functions_.push_back(DefineFunction(
        name, types, results,
        [&](const Function& self, const std::vector<Output>& a) {
          return Cond(
              a[depth] <= 0,
              [&] { return Vars(a.begin(), a.begin() + kVariables); },
              [&] {
                const Vars v = body(a);
                std::vector<Output> args = v;
                args.insert(args.end(), a.begin() + kVariables, a.end());
                args.back() = a[depth] - 1;
                Vars r = self(args);
                r[0] = ops::Sin(r[0] * v[1]);
                return r;
              });
        },
        options));
  }

  Vars Call(const Statement& s, const Vars& vars, const Place& p) const {
    std::vector<Output> args = vars;
    args.insert(args.end(), p.inputs.begin(), p.inputs.end());
    args.push_back(p.counter);
    const auto f = static_cast<size_t>(s.function);
    if (program_.functions[f].recursive) args.push_back(Constant(s.times));
    return functions_[f](args);
  }

  Output RowsOf(const Statement& s, const Vars& vars, const Place& p) const {
    std::vector<Operand> two;
    for (const Expr& e : s.rows) two.emplace_back(Evaluate(e, vars, p));
    return ops::Gather(ops::Pack(two), Constant(Tensor::Vector<int>(s.order)));
  }

  Vars Add(const Block& block, Vars vars, const Place& p) const {
    for (const Statement& s : block) vars = Add(s, vars, p);
    return vars;
  }

  Vars Add(const Statement& s, Vars vars, const Place& p) const {
    const auto t = static_cast<size_t>(s.target);
    const auto x = static_cast<size_t>(s.wrt);
    switch (s.kind) {
      case Statement::kAssign:
        vars[t] = Sine(Evaluate(s.expr, vars, p));
        return vars;
      case Statement::kIf:
        return AddIf(s, vars, p);
      case Statement::kWhile:
        return AddWhile(s, vars, p);
      case Statement::kMap:
        vars[t] = ops::Sin(SumRows(MapFn(
            [&](Output row) {
              Place inside = p;
              inside.row = [&] { return row; };
              return Add(s.then, vars, inside)[t];
            },
            RowsOf(s, vars, p))));
        return vars;
      case Statement::kFold:
        return AddFold(s, vars, p);
      case Statement::kArray:
        return AddArray(s, vars, p);
      case Statement::kCall:
        return Call(s, vars, p);
      case Statement::kGrad: {
        Vars inside = vars;
        inside[x] = ops::Identity(inside[x]);
        vars[t] = ops::Sin(Derivative(Add(s.then, inside, p)[t], inside[x]));
        return vars;
      }
      case Statement::kWatch: {
        Place around = p;
        around.wrt = vars[x] = ops::Identity(vars[x]);
        vars = Add(s.then, vars, p);
        around.watched = vars[t];
        return Add(s.otherwise, vars, around);
      }
    }
    return vars;
  }

  Vars AddIf(const Statement& s, const Vars& vars, const Place& p) const {
    std::set<int> targets;
    FindTargets(s.then, &targets);
    FindTargets(s.otherwise, &targets);
    const Output holds = s.parity >= 0
                             ? ops::Equal(p.counter % 2, s.parity)
                             : SumRows(Evaluate(s.expr, vars, p)) < s.bound;
    return With(vars, targets,
                Cond(
                    holds, [&] { return Only(Add(s.then, vars, p), targets); },
                    [&] { return Only(Add(s.otherwise, vars, p), targets); }));
  }

  Vars AddWhile(const Statement& s, const Vars& vars, const Place& p) const {
    // Variables that the loop does not assign are captured by its body.
    std::set<int> carried;
    FindTargets(s.then, &carried);
    std::vector<Output> init = Only(vars, carried);
    init.insert(init.begin(), Constant(0));
    Place inside = p;
    const std::vector<Output> end = While(
        init,
        [&](std::vector<Output> v) {
          inside.kept =
              ops::Sin(Evaluate(s.expr, With(vars, carried, v, 1), p));
          const Output more = v[0] < s.times;
          return s.mode == 0 ? more
                             : ops::LogicalAnd(
                                   more, SumRows(inside.kept) < s.bound + 1);
        },
        [&](std::vector<Output> v) {
          inside.counter = v[0];
          std::vector<Output> next =
              Only(Add(s.then, With(vars, carried, v, 1), inside), carried);
          next.insert(next.begin(), v[0] + 1);
          return next;
        });
    return With(vars, carried, end, 1);
  }

  Vars AddFold(const Statement& s, const Vars& vars, const Place& p) const {
    const std::set<int> carried = TargetsOf(s);
    const Output rows = RowsOf(s, vars, p);
    const std::vector<Output> init = Only(vars, carried);
    const auto step = [&](const std::vector<Output>& v, Output row) {
      Place inside = p;
      inside.row = [&] { return row; };
      return Only(Add(s.then, With(vars, carried, v), inside), carried);
    };
    if (s.mode == 0) return With(vars, carried, FoldL(step, rows, init));
    if (s.mode == 1) return With(vars, carried, FoldR(step, rows, init));
    std::vector<Output> end = Scan(step, rows, init, {.reverse = s.mode == 3});
    for (Output& o : end) o = ops::Sin(SumRows(o));
    return With(vars, carried, end);
  }

  Vars AddArray(const Statement& s, Vars vars, const Place& p) const {
    const auto t = static_cast<size_t>(s.target);
    const std::set<int> carried = TargetsOf(s);
    const int n = static_cast<int>(s.order.size());
    const TensorArrayOptions options = {.clear_after_read = false};
    // Rows are read where they are used: in conditionals and loops of the body,
    // many times or never.
    const TensorArray rows =
        TensorArray(DType::kDouble, n, options).Unstack(RowsOf(s, vars, p));
    const TensorArray out =
        TensorArray(DType::kDouble, n + 1, options).Write(0, vars[t]);
    const Vars before = vars;
    const auto [i, end, filled] = While(
        std::tuple{Constant(0), Only(vars, carried), out},
        [&](Output i, const std::vector<Output>&, const TensorArray&) {
          return i < n;
        },
        [&](Output i, const std::vector<Output>& v, TensorArray written) {
          Vars now = With(before, carried, v);
          if (s.mode & 1) now[t] = written.Read(i);
          Place inside = p;
          inside.counter = i;
          inside.row = [&] { return rows.Read(s.mode & 2 ? n - 1 - i : i); };
          now = Add(s.then, now, inside);
          written = s.mode & 8
                        ? Cond(
                              ops::Equal(i % 2, 0),
                              [&] {
                                return written.Write(
                                    i + 1, ops::ReverseV2(now[t], {0}));
                              },
                              [&] { return written.Write(i + 1, now[t]); })
                        : written.Write(i + 1, now[t]);
          return std::tuple{i + 1, Only(now, carried), written};
        });
    vars = With(vars, carried, end);
    vars[t] = ops::Sin(s.mode & 4 ? SumRows(filled.Stack())
                                  : filled.Read(0) + filled.Read(n));
    return vars;
  }

  const Program& program_;
  const std::vector<std::string> devices_;
  std::vector<Function> functions_;
};

}  // namespace sluice::random_construct

#endif  // SLUICE_CLIENT_TESTING_RANDOM_CONSTRUCT_GRAPH_TEST_UTIL_H_
