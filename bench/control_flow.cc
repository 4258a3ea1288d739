// Loops and conditionals built from callables: the workloads of the peers'
// scripts.
#include <cmath>
#include <tuple>
#include <vector>

#include "bench.h"
#include "sluice/sluice.h"
#include "timing.h"

namespace sluice::bench {
namespace {

// Counts the multiples of 3, of 5 and of both below n, with three nested
// conditionals in every iteration.
Result<double> FizzBuzzUsPerIter(int n) {
  Graph g;
  WithGraph use(g);
  using Counts = std::tuple<Output, Output, Output>;
  const auto [i, a, b, c] = While(
      std::tuple{0, 0, 0, 0},
      [&](Output i, Output, Output, Output) { return i < n; },
      [](Output i, Output a, Output b, Output c) {
        const Output f3 = ops::Equal(ops::FloorMod(i, 3), 0);
        const Output f5 = ops::Equal(ops::FloorMod(i, 5), 0);
        const Counts next = Cond(
            ops::LogicalAnd(f3, f5),
            [&] {
              return Counts{a, b, c + 1};
            },
            [&] {
              return Cond(
                  f3,
                  [&] {
                    return Counts{a + 1, b, c};
                  },
                  [&] {
                    return Cond(
                        f5,
                        [&] {
                          return Counts{a, b + 1, c};
                        },
                        [&] {
                          return Counts{a, b, c};
                        });
                  });
            });
        return std::tuple_cat(std::tuple{i + 1}, next);
      },
      {.parallel_iterations = 10});
  Session session(g);
  SLUICE_ASSIGN_OR_RETURN(Session::Callable step,
                          session.MakeCallable({}, {i, a, b, c}));
  const int both = (n + 14) / 15;
  SLUICE_ASSIGN_OR_RETURN(
      const double s, Best(3, [&]() -> Status {
        SLUICE_ASSIGN_OR_RETURN(const std::vector<Tensor> out, step.Run());
        const bool right = out[0].scalar<int32_t>() == n &&
                           out[1].scalar<int32_t>() == (n + 2) / 3 - both &&
                           out[2].scalar<int32_t>() == (n + 4) / 5 - both &&
                           out[3].scalar<int32_t>() == both;
        return right ? OkStatus() : Internal("fizzbuzz: wrong counts");
      }));
  return s / n * 1e6;
}

SLUICE_BENCH("fizzbuzz.us_per_iter") { return FizzBuzzUsPerIter(20000); }
SLUICE_BENCH("fizzbuzz.n1000.us_per_iter") { return FizzBuzzUsPerIter(1000); }
SLUICE_BENCH("fizzbuzz.n200000.us_per_iter") {
  return FizzBuzzUsPerIter(200000);
}

// h = tanh(h / 2 + row) over the rows of a TensorArray, with every h written to
// another one; and the gradient with respect to the rows.
Result<double> TensorArrayLoopUsPerIter(int64_t rows, bool gradient) {
  constexpr int64_t kUnits = 8;
  Graph g;
  WithGraph use(g);
  const Output x = Placeholder<float>({rows, kUnits});
  const int n = static_cast<int>(rows);
  const TensorArray in = TensorArray(DType::kFloat, n).Unstack(x);
  const auto [t, h, out] = While(
      std::tuple{0, Zeros({kUnits}), TensorArray(DType::kFloat, n)},
      [&](Output t, Output, const TensorArray&) { return t < n; },
      [&](Output t, Output h, const TensorArray& out) {
        const Output next = ops::Tanh(h * 0.5f + in.Read(t));
        return std::tuple{t + 1, next, out.Write(t, next)};
      });
  const Output y = out.Stack();
  const Output result = gradient ? Grad(y, x) : y;
  SLUICE_RETURN_IF_ERROR(g.status());
  Session session(g);
  SLUICE_ASSIGN_OR_RETURN(Session::Callable step,
                          session.MakeCallable({x}, {result}));
  std::vector<float> values(static_cast<size_t>(rows * kUnits));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(i * 2654435761u % 1000) / 1000;
  SLUICE_ASSIGN_OR_RETURN(
      const Tensor fed, Tensor::Vector<float>(values).Reshaped({rows, kUnits}));
  SLUICE_ASSIGN_OR_RETURN(const double s, Best(3, [&]() -> Status {
                            return step.Run({fed}).status();
                          }));
  return s / static_cast<double>(rows) * 1e6;
}

SLUICE_BENCH("ta_loop_fwd.us_per_iter") {
  return TensorArrayLoopUsPerIter(2000, false);
}
// The time per iteration does not depend on the number of iterations.
SLUICE_BENCH("ta_loop_fwd.n10.us_per_iter") {
  return TensorArrayLoopUsPerIter(10, false);
}
SLUICE_BENCH("ta_loop_fwd.n100000.us_per_iter") {
  return TensorArrayLoopUsPerIter(100000, false);
}
SLUICE_BENCH("ta_loop_grad.us_per_iter") {
  return TensorArrayLoopUsPerIter(2000, true);
}
SLUICE_BENCH("ta_loop_grad.n10.us_per_iter") {
  return TensorArrayLoopUsPerIter(10, true);
}
SLUICE_BENCH("ta_loop_grad.n100000.us_per_iter") {
  return TensorArrayLoopUsPerIter(100000, true);
}

// 614 iterations of a loop with 60 scalar loop variables, and the gradient with
// respect to their factors.
Result<double> Scan60Ms(bool gradient) {
  constexpr int kCarries = 60, kSteps = 614;
  Graph g;
  WithGraph use(g);
  const Output p = Placeholder<float>({kCarries});
  const Output xs = Placeholder<float>({kSteps});
  const std::vector<Output> factors = ops::Unpack(p, kCarries);
  const TensorArray in = TensorArray(DType::kFloat, kSteps).Unstack(xs);
  const auto [t, carries, ys] = While(
      std::tuple{0, factors, TensorArray(DType::kFloat, kSteps)},
      [&](Output t, const std::vector<Output>&, const TensorArray&) {
        return t < kSteps;
      },
      [&](Output t, const std::vector<Output>& c, const TensorArray& ys) {
        const Output x = in.Read(t);
        std::vector<Output> next;
        for (size_t i = 0; i < kCarries; ++i)
          next.push_back(
              ops::Tanh(c[i] * factors[i] + c[(i + 1) % kCarries] * 0.1f + x));
        return std::tuple{t + 1, next, ys.Write(t, next[0])};
      });
  Output loss = ops::Sum(ys.Stack(), 0);
  for (const Output& c : carries) loss = loss + c;
  const Output result = gradient ? Grad(loss, p) : loss;
  SLUICE_RETURN_IF_ERROR(g.status());
  Session session(g);
  SLUICE_ASSIGN_OR_RETURN(Session::Callable step,
                          session.MakeCallable({p, xs}, {result}));
  std::vector<float> ps(kCarries), rows(kSteps);
  for (size_t i = 0; i < ps.size(); ++i)
    ps[i] = .1f + .8f * static_cast<float>(i) / (kCarries - 1);
  for (size_t i = 0; i < rows.size(); ++i)
    rows[i] = static_cast<float>(i) / (kSteps - 1);
  const std::vector<Tensor> fed = {Tensor::Vector<float>(ps),
                                   Tensor::Vector<float>(rows)};
  SLUICE_ASSIGN_OR_RETURN(const double s, Best(5, [&]() -> Status {
                            return step.Run(fed).status();
                          }));
  return s * 1e3;
}

SLUICE_BENCH("scan60.fwd_ms") { return Scan60Ms(false); }
SLUICE_BENCH("scan60.grad_ms") { return Scan60Ms(true); }

}  // namespace
}  // namespace sluice::bench
