// Compares runs of a random graph in several kinds of sessions with the
// reference interpreter. Shared by the test and the fuzzer.
#ifndef SLUICE_EXEC_TESTING_RANDOM_GRAPH_TEST_UTIL_H_
#define SLUICE_EXEC_TESTING_RANDOM_GRAPH_TEST_UTIL_H_

#include <pthread.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "exec/testing/random_graph.h"
#include "exec/testing/reference_interpreter.h"
#include "session/session.h"

namespace sluice {

// Equality in which all NaNs are equal, and so are both zeros.
inline bool SameNumbers(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  if (a.dtype() != DType::kFloat) return a.Identical(b);
  for (int64_t i = 0; i < a.num_elements(); ++i) {
    const float x = a.data<float>()[i], y = b.data<float>()[i];
    if (!(x == y || (std::isnan(x) && std::isnan(y)))) return false;
  }
  return true;
}

// Calls fn on a thread with enough stack for the interpreter's recursion, whose
// frames are large in unoptimised builds with sanitizers.
inline void OnDeepStack(std::function<void()> fn) {
  pthread_attr_t attr;
  pthread_attr_init(&attr);
  pthread_attr_setstacksize(&attr, size_t{1} << 29);
  pthread_t thread;
  auto run = [](void* f) -> void* {
    (*static_cast<std::function<void()>*>(f))();
    return nullptr;
  };
  if (pthread_create(&thread, &attr, run, &fn) == 0)
    pthread_join(thread, nullptr);
  else
    fn();
  pthread_attr_destroy(&attr);
}

// Describes the difference, or "".
inline std::string DifferenceHere(const RandomGraph& g, Session& session) {
  ReferenceInterpreter reference(g.feeds);
  std::vector<Output> live, dead;
  std::vector<Tensor> want;
  for (const Output& o : g.fetches) {
    if (const auto t = reference.Value(o)) {
      live.push_back(o);
      want.push_back(*t);
    } else {
      dead.push_back(o);
    }
  }
  uint32_t count = 0;
  std::vector<Node*> targets;
  for (const CounterAdd& a : g.adds) {
    count += reference.Total(a.node, a.loops);
    targets.push_back(a.node);
  }
  if (const Status s = session.RunTargets({g.init_counter}); !s.ok())
    return "the counter: " + s.ToString();
  const auto got = session.Run(g.feeds, live, targets);
  if (!got.ok()) return "expected values, got " + got.status().ToString();
  for (size_t i = 0; i < live.size(); ++i)
    if (!SameNumbers((*got)[i], want[i]))
      return live[i].name() + ": expected " + want[i].ToString() + ", got " +
             (*got)[i].ToString();
  const auto counted = session.Run(g.counter);
  if (!counted.ok()) return "the counter: " + counted.status().ToString();
  if (const Tensor sum = Tensor::Scalar(static_cast<int32_t>(count));
      !counted->Identical(sum))
    return "the counter: expected " + sum.ToString() + ", got " +
           counted->ToString();
  for (size_t i = 0; i < std::min<size_t>(dead.size(), 3); ++i) {
    const auto none = session.Run(g.feeds, dead[i]);
    if (none.ok() || none.status().code() != StatusCode::kInvalidArgument)
      return dead[i].name() + ": expected a dead value, got " +
             (none.ok() ? none->ToString() : none.status().ToString());
  }
  return "";
}

inline std::string Difference(const RandomGraph& g, Session& session) {
  std::string out;
  OnDeepStack([&] { out = DifferenceHere(g, session); });
  return out;
}

// Describes the difference in some kind of session, or "".
inline std::string CheckRandomGraph(const uint8_t* bytes, size_t size,
                                    uint64_t seed) {
  RandomGraph g;
  RandomGraphMaker(bytes, size, &g).Make();
  if (!g.graph.status().ok()) return "building: " + g.graph.status().ToString();
  for (int kind = 0; kind < 5; ++kind) {
    SessionOptions options;
    options.inter_op_threads = kind == 3 ? 2 : 0;
    options.constant_folding = kind % 2 == 0;
    options.common_subexpressions = kind != 1;
    // The first and the last run whole regions, the others token by token.
    const bool in_order = kind == 0 || kind == 4;
    options.scheduler_seed = in_order ? 0 : seed + static_cast<uint64_t>(kind);
    if (kind == 4) options.constant_folding = false;
    Session session(g.graph, options);
    const std::string what = Difference(g, session);
    if (!what.empty())
      return "session " + std::to_string(kind) + ", scheduler seed " +
             std::to_string(options.scheduler_seed) + ": " + what;
  }
  return "";
}

}  // namespace sluice

#endif  // SLUICE_EXEC_TESTING_RANDOM_GRAPH_TEST_UTIL_H_
