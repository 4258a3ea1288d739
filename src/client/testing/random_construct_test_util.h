// Random programs of constructs based on conditionals and loops, for tests:
// maps, folds and scans, arrays that loops read and write, values from a loop's
// condition, calls of functions (including recursive ones), gradients within
// bodies. (random_program_test_util.h has the nests of plain conditionals and
// loops.) Built into a graph, and run as plain code on numbers of any type.
#ifndef SLUICE_CLIENT_TESTING_RANDOM_CONSTRUCT_TEST_UTIL_H_
#define SLUICE_CLIENT_TESTING_RANDOM_CONSTRUCT_TEST_UTIL_H_

#include <cstdint>
#include <random>
#include <set>
#include <vector>

namespace sluice::random_construct {

constexpr int kInputs = 2;
constexpr int kVariables = 3;  // Initially in 0, in 1, in 0 * in 1.

struct Expr {
  enum Kind {
    kVariable,
    kInput,
    kNumber,
    kRow,     // The current row of the innermost array or map.
    kKept,    // The value from the innermost loop's condition.
    kAround,  // The innermost kWatch's Jacobian, transposed, times `of`.
    kAdd,
    kMul,
    kSin,
    kSum,
    kSwap
  };
  Kind kind = kNumber;
  int index = 0;
  double number = 0;
  std::vector<Expr> of;
};

struct Statement;
using Block = std::vector<Statement>;

struct Statement {
  enum Kind {
    kAssign,  // target = sin(expr)
    kIf,      // The counter's parity, or the sum of expr is below bound.
    kWhile,   // At most `times`; tests the sum of kept = sin(expr) if `mode`.
    kMap,     // target = sin(sum of target after `then`, over the rows)
    kFold,    // mode: 0, 1 fold from the left, right; 2, 3 scan likewise.
    kArray,   // A loop that reads rows and writes target, as `mode` says.
    kCall,    // All variables = function(them); `times`: how deep it recurs.
    kGrad,    // target = sin(d sum(target after `then`) / d wrt)
    kWatch,   // `then`, then `otherwise`, which differentiates target by wrt.
  };
  Kind kind = kAssign;
  int target = 0, wrt = 0, mode = 0, times = 0, function = 0;
  int parity = -1;
  double bound = 0;
  Expr expr;
  std::vector<Expr> rows;
  std::vector<int> order;  // The order of the rows.
  Block then, otherwise;
};

struct FunctionOf {
  Block block;
  bool recursive = false, has_grad = false;
};

struct Program {
  std::vector<FunctionOf> functions;  // Each may call those before it.
  Block block;
  // Whether loops differentiate values around them. (Such a body has no
  // gradient: docs/design/016.)
  bool watches = false;
};

// The variables that a statement may assign to.
inline void FindTargets(const Block& block, std::set<int>* targets) {
  for (const Statement& s : block) {
    targets->insert(s.target);
    if (s.kind == Statement::kCall) *targets = {0, 1, 2};
    if (s.kind == Statement::kWatch) targets->insert(s.wrt);
    if (s.kind == Statement::kMap || s.kind == Statement::kGrad) continue;
    FindTargets(s.then, targets);
    FindTargets(s.otherwise, targets);
  }
}
inline std::set<int> TargetsOf(const Statement& s) {
  std::set<int> targets;
  FindTargets({s}, &targets);
  return targets;
}

// ---- Generation -------------------------------------------------------------

class Maker {
 public:
  explicit Maker(uint64_t seed) : random_(seed) {}

  Program Make() {
    program_.watches = Below(4) == 0;
    for (int i = Below(3); i > 0; --i) {
      FunctionOf f;
      f.recursive = Below(3) == 0;
      left_ = 3;
      has_grad_ = false;
      Scope scope;
      scope.depth = 1;
      f.block = MakeBlock(scope);
      f.has_grad = has_grad_;
      program_.functions.push_back(f);
    }
    left_ = 6;
    Scope scope;
    program_.block = MakeBlock(scope);
    program_.block.push_back(MakeConstruct(scope));
    if (program_.watches) program_.block.push_back(MakeWatch(scope));
    return program_;
  }

 private:
  // What is in scope at a place.
  struct Scope {
    int depth = 0;
    bool row = false, kept = false, around = false;
    bool in_grad = false;
  };

  int Below(int n) {
    return static_cast<int>(random_() % static_cast<unsigned>(n));
  }
  double Number() { return Below(200) / 100.0 - 1; }

  Expr MakeExpr(const Scope& scope, int depth = 0) {
    Expr e;
    if (scope.row && Below(4) == 0) {
      e.kind = Expr::kRow;
      return e;
    }
    if (scope.kept && Below(4) == 0) {
      e.kind = Expr::kKept;
      return e;
    }
    if (scope.around && !scope.in_grad && Below(5) == 0) {
      e.kind = Expr::kAround;
      Scope plain = scope;
      plain.around = false;
      e.of.push_back(MakeExpr(plain, depth + 1));
      return e;
    }
    const int pick = Below(depth > 1 ? 4 : 10);
    if (pick < 2) {
      e.kind = Expr::kVariable;
      e.index = Below(kVariables);
    } else if (pick == 2) {
      e.kind = Expr::kInput;
      e.index = Below(kInputs);
    } else if (pick == 3) {
      e.number = Number();
    } else {
      constexpr Expr::Kind kKinds[] = {Expr::kAdd, Expr::kMul, Expr::kMul,
                                       Expr::kSin, Expr::kSum, Expr::kSwap};
      e.kind = kKinds[Below(6)];
      const int n = e.kind == Expr::kAdd || e.kind == Expr::kMul ? 2 : 1;
      for (int i = 0; i < n; ++i) e.of.push_back(MakeExpr(scope, depth + 1));
    }
    return e;
  }

  void MakeRows(const Scope& scope, int n, Statement* s) {
    for (int i = 0; i < 2; ++i) s->rows.push_back(MakeExpr(scope));
    for (int i = 0; i < n; ++i) s->order.push_back(Below(2));
  }

  Statement MakeWatch(Scope scope) {
    Statement s;
    s.kind = Statement::kWatch;
    s.target = Below(kVariables);
    s.wrt = Below(kVariables);
    ++scope.depth;
    scope.in_grad = true;
    left_ += 2;
    s.then = MakeBlock(scope);
    scope.in_grad = false;
    scope.around = true;
    left_ += 2;
    s.otherwise = MakeBlock(scope);
    s.otherwise.push_back(MakeConstruct(scope));
    return s;
  }

  Statement MakeConstruct(Scope scope) {
    --left_;
    ++scope.depth;
    Statement s;
    s.target = Below(kVariables);
    s.wrt = Below(kVariables);
    s.bound = Number();
    s.mode = Below(16);
    const int pick = Below(8);
    if (pick == 0) {
      s.kind = Statement::kIf;
      s.expr = MakeExpr(scope);
      if (Below(2) == 0) s.parity = Below(2);
      s.then = MakeBlock(scope);
      s.otherwise = MakeBlock(scope);
    } else if (pick == 1) {
      s.kind = Statement::kWhile;
      s.times = Below(4);
      s.mode %= 3;
      s.expr = MakeExpr(scope);
      scope.kept = true;
      s.then = MakeBlock(scope);
    } else if (pick < 4) {
      s.kind = pick == 2 ? Statement::kMap : Statement::kFold;
      s.mode %= 4;
      MakeRows(scope, Below(4), &s);
      scope.row = true;
      s.then = MakeBlock(scope);
    } else if (pick == 4) {
      s.kind = Statement::kArray;
      MakeRows(scope, 1 + Below(3), &s);
      scope.row = true;
      s.then = MakeBlock(scope);
    } else if (pick == 5 && !program_.functions.empty()) {
      s.kind = Statement::kCall;
      s.function = Below(static_cast<int>(program_.functions.size()));
      s.times = Below(3);
      if (program_.functions[static_cast<size_t>(s.function)].has_grad) {
        if (scope.in_grad) return MakeAssign(scope);
        has_grad_ = true;
      }
    } else {
      if (scope.in_grad) return MakeAssign(scope);
      s.kind = Statement::kGrad;
      has_grad_ = true;
      scope.in_grad = true;
      s.then = MakeBlock(scope);
    }
    return s;
  }

  Statement MakeAssign(const Scope& scope) {
    Statement s;
    s.target = Below(kVariables);
    s.expr = MakeExpr(scope);
    return s;
  }

  Block MakeBlock(const Scope& scope) {
    Block b;
    const int n = 1 + Below(2);
    for (int i = 0; i < n; ++i)
      b.push_back(left_ > 0 && scope.depth < 4 && Below(2) == 0
                      ? MakeConstruct(scope)
                      : MakeAssign(scope));
    return b;
  }

  std::mt19937_64 random_;
  Program program_;
  int left_ = 0;  // The approximate number of further constructs.
  bool has_grad_ = false;
};

}  // namespace sluice::random_construct

#endif  // SLUICE_CLIENT_TESTING_RANDOM_CONSTRUCT_TEST_UTIL_H_
