// The overhead of steps with negligible kernels: scalars in a chain, in
// parallel, and in a loop; and of a single step. Same workloads as the peers'
// scripts.
#include "bench.h"
#include "sluice/sluice.h"
#include "timing.h"

namespace sluice::bench {
namespace {

Result<double> ChainNsPerOp(int n) {
  Graph g;
  WithGraph use(g);
  Output x = Placeholder<float>(PartialShape::Scalar());
  Output y = x;
  for (int i = 0; i < n; ++i) y = y + x;
  Session session(g);
  SLUICE_ASSIGN_OR_RETURN(Session::Callable step,
                          session.MakeCallable({x}, {y}));
  SLUICE_ASSIGN_OR_RETURN(const double s, Best(5, [&] {
                            return step.Run({Tensor::Scalar(1.f)}).status();
                          }));
  return s / n * 1e9;
}

// while (i < n) i = i + 1, on an int32.
Result<double> LoopItersPerS(int parallel, int n) {
  Graph g;
  WithGraph use(g);
  const Output end = While(
      Constant(int32_t{0}), [&](Output i) { return i < n; },
      [](Output i) { return i + 1; }, {.parallel_iterations = parallel});
  Session session(g);
  SLUICE_ASSIGN_OR_RETURN(Session::Callable step,
                          session.MakeCallable({}, {end}));
  SLUICE_ASSIGN_OR_RETURN(const double s, Best(5, [&]() -> Status {
                            SLUICE_ASSIGN_OR_RETURN(std::vector<Tensor> out,
                                                    step.Run());
                            if (out[0].scalar<int32_t>() != n)
                              return Internal("wrong count");
                            return OkStatus();
                          }));
  return n / s;
}

// The same built from the five primitives.
Result<double> RawLoopItersPerS(int64_t parallel, int n) {
  Graph g;
  WithGraph use(g);
  Output enter =
      Build("Enter", {Constant(int32_t{0})},
            {{"frame_name", "loop"}, {"parallel_iterations", parallel}});
  Output merge = OpenMerge(enter);
  Output limit, one;
  {
    ControlDependencies in_loop({merge.node});
    limit = Constant(int32_t{n});
  }
  Output go = Build("LoopCond", {merge < limit});
  Node* sw = BuildNode("Switch", {merge, go});
  Output i = Build("Identity", {Output(sw, 1)});
  {
    ControlDependencies in_body({i.node});
    one = Constant(int32_t{1});
  }
  CloseMerge(merge, Build("NextIteration", {i + one}));
  Output exit = Build("Exit", {Output(sw, 0)});
  Session session(g);
  SLUICE_ASSIGN_OR_RETURN(Session::Callable step,
                          session.MakeCallable({}, {exit}));
  SLUICE_ASSIGN_OR_RETURN(const double s, Best(5, [&]() -> Status {
                            SLUICE_ASSIGN_OR_RETURN(std::vector<Tensor> out,
                                                    step.Run());
                            if (out[0].scalar<int32_t>() != n)
                              return Internal("wrong count");
                            return OkStatus();
                          }));
  return n / s;
}

SLUICE_BENCH("chain_scalar_add.ns_per_op") { return ChainNsPerOp(10000); }
// The cost per op does not depend on the number of ops...
SLUICE_BENCH("chain_scalar_add.n100.ns_per_op") { return ChainNsPerOp(100); }
SLUICE_BENCH("chain_scalar_add.n100000.ns_per_op") {
  return ChainNsPerOp(100000);
}

SLUICE_BENCH("wide_scalar_add.ns_per_op") {
  constexpr int kOps = 10000;
  Graph g;
  WithGraph use(g);
  Output x = Placeholder<float>(PartialShape::Scalar());
  std::vector<Node*> sums;
  for (int k = 0; k < kOps; ++k)
    sums.push_back((x + static_cast<float>(k)).node);
  Node* all;
  {
    ControlDependencies after(sums);
    all = BuildNode("NoOp", {});
  }
  Session session(g);
  SLUICE_ASSIGN_OR_RETURN(Session::Callable step,
                          session.MakeCallable({x}, {}, {all}));
  SLUICE_ASSIGN_OR_RETURN(const double s, Best(5, [&] {
                            return step.Run({Tensor::Scalar(1.f)}).status();
                          }));
  return s / kOps * 1e9;
}

// x + 1: the fixed cost of a step.
SLUICE_BENCH("step_callable.us") {
  Graph g;
  WithGraph use(g);
  Output x = Placeholder<float>(PartialShape::Scalar());
  Session session(g);
  SLUICE_ASSIGN_OR_RETURN(Session::Callable step,
                          session.MakeCallable({x}, {x + 1.f}));
  SLUICE_ASSIGN_OR_RETURN(
      const double s, Best(5, [&]() -> Status {
        for (int i = 0; i < 2000; ++i)
          SLUICE_RETURN_IF_ERROR(step.Run({Tensor::Scalar(1.f)}).status());
        return OkStatus();
      }));
  return s / 2000 * 1e6;
}

SLUICE_BENCH("step_run.us") {
  Graph g;
  WithGraph use(g);
  Output x = Placeholder<float>(PartialShape::Scalar());
  Output y = x + 1.f;
  Session session(g);
  SLUICE_ASSIGN_OR_RETURN(
      const double s, Best(5, [&]() -> Status {
        for (int i = 0; i < 1000; ++i)
          SLUICE_RETURN_IF_ERROR(
              session.Run({{x, Tensor::Scalar(1.f)}}, y).status());
        return OkStatus();
      }));
  return s / 1000 * 1e6;
}

SLUICE_BENCH("loop_scalar.raw.par32.iters_per_s") {
  return RawLoopItersPerS(32, 50000);
}
SLUICE_BENCH("loop_scalar.par1.iters_per_s") { return LoopItersPerS(1, 50000); }
SLUICE_BENCH("loop_scalar.par10.iters_per_s") {
  return LoopItersPerS(10, 50000);
}
SLUICE_BENCH("loop_scalar.par32.iters_per_s") {
  return LoopItersPerS(32, 50000);
}
// ... nor on the number of iterations.
SLUICE_BENCH("loop_scalar.n1000.iters_per_s") {
  return LoopItersPerS(32, 1000);
}
SLUICE_BENCH("loop_scalar.n1000000.iters_per_s") {
  return LoopItersPerS(32, 1000000);
}

}  // namespace
}  // namespace sluice::bench
