// The loops of the peers' multi-process script (tf_dist.py), over devices of
// one process or tasks of a cluster.
#ifndef SLUICE_BENCH_DEVICE_LOOPS_H_
#define SLUICE_BENCH_DEVICE_LOOPS_H_

#include <string>
#include <vector>

#include "sluice/sluice.h"
#include "timing.h"

namespace sluice::bench {

struct LoopOverDevices {
  Graph graph;
  std::vector<Output> results;
};

// while (i < n): each device adds 1 to its own value. With a barrier, the first
// device then sums all values, and each device adds the sum to its own.
inline void BuildLoop(const std::vector<std::string>& names, int iterations,
                      bool barrier, LoopOverDevices* loop) {
  WithGraph use(loop->graph);
  DeviceScope first(names[0]);
  std::vector<Output> init = {Constant(int32_t{0})};
  for (size_t d = 0; d < names.size(); ++d) init.push_back(Constant(0.0f));
  loop->results = While(
      init, [&](const std::vector<Output>& v) { return v[0] < iterations; },
      [&](const std::vector<Output>& v) {
        std::vector<Output> next = {v[0] + 1}, own;
        for (size_t d = 0; d < names.size(); ++d) {
          DeviceScope there(names[d]);
          own.push_back(v[d + 1] + 1.0f);
        }
        if (!barrier) {
          next.insert(next.end(), own.begin(), own.end());
          return next;
        }
        const Output sum = ops::AddN(own);
        for (size_t d = 0; d < names.size(); ++d) {
          DeviceScope there(names[d]);
          next.push_back(v[d + 1] + sum);
        }
        return next;
      },
      {.parallel_iterations = 32});
}

// Iterations per second of such a loop in a session that runs it.
inline Result<double> LoopItersPerS(Session& session,
                                    const LoopOverDevices& loop,
                                    int iterations) {
  std::vector<Node*> all;
  for (const Output& o : loop.results) all.push_back(o.node);
  SLUICE_ASSIGN_OR_RETURN(Session::Callable step,
                          session.MakeCallable({}, {loop.results[0]}, all));
  SLUICE_ASSIGN_OR_RETURN(const double s, Best(5, [&]() -> Status {
                            SLUICE_ASSIGN_OR_RETURN(std::vector<Tensor> out,
                                                    step.Run());
                            if (out[0].scalar<int32_t>() != iterations)
                              return Internal("wrong count");
                            return OkStatus();
                          }));
  return iterations / s;
}

}  // namespace sluice::bench

#endif  // SLUICE_BENCH_DEVICE_LOOPS_H_
