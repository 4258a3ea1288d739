// The workloads of `sluice bench`. Each is a function that sets up its graph,
// runs long enough to be measured and returns one number; its name describes
// the number:
//
//   SLUICE_BENCH("chain_scalar_add.ns_per_op") {
//     ...
//     return seconds / ops * 1e9;
//   }
#ifndef SLUICE_BENCH_BENCH_H_
#define SLUICE_BENCH_BENCH_H_

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"

namespace sluice::bench {

struct Bench {
  std::string name;  // Printed as "sluice.<name>".
  std::function<Result<double>()> fn;
};

// In the order of registration; filled by static initialisers.
inline std::vector<Bench>& Benches() {
  static auto* benches = new std::vector<Bench>;
  return *benches;
}

struct Registrar {
  Registrar(const char* name, Result<double> (*fn)()) {
    Benches().push_back({name, fn});
  }
};

// What `sluice bench --process NAME ARGUMENT...` runs: the part of a workload
// that needs a process of its own. The workload starts it (Process, process.h).
using ProcessMain = Status (*)(const std::vector<std::string>& arguments);
inline std::map<std::string, ProcessMain>& ProcessMains() {
  static auto* mains = new std::map<std::string, ProcessMain>;
  return *mains;
}
struct ProcessRegistrar {
  ProcessRegistrar(const char* name, ProcessMain fn) {
    ProcessMains()[name] = fn;
  }
};

}  // namespace sluice::bench

#define SLUICE_BENCH(name) SLUICE_BENCH_(name, __COUNTER__)
#define SLUICE_BENCH_(name, n) SLUICE_BENCH_2_(name, n)
#define SLUICE_BENCH_2_(name, n)                                            \
  static ::sluice::Result<double> SluiceBench##n();                         \
  static const ::sluice::bench::Registrar sluice_bench_##n(name,            \
                                                           SluiceBench##n); \
  static ::sluice::Result<double> SluiceBench##n()

#endif  // SLUICE_BENCH_BENCH_H_
