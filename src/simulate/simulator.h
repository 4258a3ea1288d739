// Simulator: runs steps in virtual time.
//
// What is real: the plans of the partitions, the rules by which tokens move
// through frames (exec/core/frame.h), how receives meet tokens
// (exec/core/rendezvous.h), and with them the control loops, the windows and
// the dead tokens of distributed loops. Small integers and predicates are
// computed by their kernels. What is modelled: how long things take, the
// cores, devices and networks that they wait for, and the messages that begin
// and end a step.
//
// Of each step, the part in one task is driven by one thread at a time, as in
// the executor: the driver takes a core of its machine, handles what has
// arrived, runs what is ready, and gives the core back. A kernel above 30 us
// goes to another thread if more is ready. Tokens for one task that one turn of
// the driver makes leave as one message.
//
// A message costs its sender's and its receiver's core, and time between: on
// one machine RuntimeCosts::hop_ns; else also the network interfaces of both,
// which serve messages one after the other (those below 64 kB do not wait), and
// the latency.
//
// Deterministic: equal input gives equal times. Used by one thread.
#ifndef SLUICE_SIMULATE_SIMULATOR_H_
#define SLUICE_SIMULATE_SIMULATOR_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "exec/core/trace.h"
#include "simulate/step_program.h"

namespace sluice {

// What the critical path of a step consists of, in ns.
struct CriticalPath {
  double compute = 0;   // Kernels.
  double runtime = 0;   // Nodes without kernels, tokens, messages, steps.
  double transfer = 0;  // Messages between tasks.
  double waiting = 0;   // For a core, a device or a network interface.
  // The longest pieces: "MatMul_1 on /job:worker/...", "ps:0 -> worker:3".
  std::vector<std::pair<std::string, double>> longest;
};

struct SimulatorOptions {
  bool trace = false;          // Record TraceEvents.
  bool critical_path = false;  // Record the causes of everything.
  // Fails with ResourceExhausted after that many events.
  int64_t max_events = 200'000'000;
};

class Simulator {
 public:
  // The cluster is copied. REQUIRES: ClusterModel::Check is OK.
  explicit Simulator(ClusterModel cluster, SimulatorOptions options = {});
  ~Simulator();
  Simulator(const Simulator&) = delete;
  Simulator& operator=(const Simulator&) = delete;

  // One run of a program.
  struct Start {
    std::shared_ptr<const StepProgram> program;
    // The devices that the parts run on instead of the compiled ones; empty:
    // those.
    std::vector<int> devices;
    int master = 0;       // The task that the client is connected to, on the
                          // machine where the client runs.
    double slowdown = 1;  // Multiplies the times of its kernels.
    // Of the task that `slowdown` applies to; -1: all.
    int slow_task = -1;
    std::function<void(double now_ns)> done;  // May start steps.
  };
  // At a virtual time that has not passed.
  void StartStep(double at_ns, Start start);
  void At(double at_ns, std::function<void(double now_ns)> call);
  // Until nothing is left. Internal, with what waits, if a step cannot end.
  Status Run();

  double now() const;
  int64_t events() const;
  int64_t transfers() const;  // Live tokens sent between partitions.
  // Since the beginning, in ns.
  double DeviceBusy(int device) const;    // In kernels.
  double CoresBusy(int machine) const;    // Summed over its cores.
  double NetworkBusy(int machine) const;  // The busier direction.
  double BytesSent(int task) const;       // To other tasks.
  // Of the step that ended last. REQUIRES: SimulatorOptions::critical_path.
  CriticalPath LastCriticalPath() const;
  std::vector<TraceEvent> TakeTrace();

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace sluice

#endif  // SLUICE_SIMULATE_SIMULATOR_H_
