// Misuse that must not compile (tools/check_misuse.py). Each line that ends
// with `// error: REGEX` must cause a matching error, and no other line may
// cause one.
#include "sluice/sluice.h"
// clang-format off

using namespace sluice;

void Predicates(Output x, Var v, bool flag) {
  // (A compiler reports each instantiation once.)
  const auto f = [&] { return x; };
  const auto g = [&] { return x; };
  Cond(flag, f, f);       // error: write an if, or Constant\(value\)
  Cond(true, f, g);       // error: write an if, or Constant\(value\)
  Cond(1, f, f);          // error: write an if, or Constant\(value\)
  Cond(x.valid(), g, f);  // error: write an if, or Constant\(value\)
  Cond(x > 0 && !(v == v), f, f);
  While(x, [](Output) { return true; }, [](Output y) { return y; });  // error: same in every iteration
  While(x, [](Output y) { return y > 0; }, [](Output y) { return y; });
  if (x > 0) Constant(1);  // error: could not convert .*Output.* to .*bool
  if (v == v) Constant(1);  // error: could not convert .*Output.* to .*bool
  while (v) Constant(1);   // error: could not convert .*Var.* to .*bool
  const bool b = x == x;   // error: cannot convert .*Output.* to .*bool
  Case<Output>({{flag, f}});  // error: no matching function
}

void Outputs(Output x) {
  const Output none = 0;  // error: use of deleted function
  Build("Neg", {x}, {{"T", &x}});  // error: could not convert|no matching function
}
