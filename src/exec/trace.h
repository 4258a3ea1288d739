// What a traced step records: one event per node that ran.
//
//   RunOptions options;
//   options.trace = true;
//   RunMetadata metadata;
//   auto out = session.Run({}, {y}, {}, options, &metadata);
//   for (const TraceEvent& event : metadata.events)
//     std::cout << event.node << " " << event.end_ns - event.start_ns << "\n";
#ifndef SLUICE_EXEC_TRACE_H_
#define SLUICE_EXEC_TRACE_H_

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graphdef_costs.h"

namespace sluice {

inline int64_t NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// A value that a kernel made, or that crosses between devices.
using TraceOutput = NodeCost::Output;

// A kernel's run, or an end of a transfer between devices. Times are of the
// steady clock, in ns: of the master's, in a step over several tasks.
struct TraceEvent {
  enum Kind { kKernel, kSend, kReceive };

  std::string node;
  std::string op;
  // By number; of a transfer, what crosses, if anything does.
  std::vector<TraceOutput> outputs;
  std::string device;  // As the node has it: complete, where there are several.
  int thread = 0;      // Small number, by order of appearance.
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  int64_t allocated_bytes = 0;  // By the kernel, on its thread.
  int64_t iteration = 0;
  std::string frame;
  // Of transfers. Both ends of one have the same number, which no other of the
  // step has (but by a chance of 2^-64).
  Kind kind = kKernel;
  uint64_t transfer = 0;
  std::string tensor;  // "node:0", or "^node" where only the order crosses.
  std::string peer;    // The other device.

  std::string Shapes() const;  // Of the outputs: "float[2] int32[]".
  int64_t OutputBytes() const;
};

// What one task did in a step, and how far its clock can be trusted.
struct TraceTask {
  std::string name;  // "/job:worker/replica:0/task:1".
  int64_t start_ns = 0, end_ns = 0;
  // What was added to its clock's times, and by how much that may be wrong.
  int64_t clock_offset_ns = 0, clock_error_ns = 0;
  int64_t events_left_out = 0;  // There were too many for a message.
};

// The number of a transfer: the same in every process.
uint64_t TransferNumber(std::string_view to_device, uint32_t edge,
                        uint64_t frame, int64_t iteration);

// Collects events of one step. Thread-safe.
class TraceCollector {
 public:
  void Add(TraceEvent e) {
    std::lock_guard<std::mutex> lock(mu_);
    events_.push_back(std::move(e));
  }
  std::vector<TraceEvent> Take() {
    std::lock_guard<std::mutex> lock(mu_);
    return std::move(events_);
  }

 private:
  std::mutex mu_;
  std::vector<TraceEvent> events_;  // GUARDED_BY(mu_)
};

// The events in the Chrome/Perfetto trace format (JSON): a process for each
// task with its name, in it a thread for each device (more where kernels ran at
// the same time), slices with what is known of them, and an arrow for each
// transfer both of whose ends are there.
std::string ChromeTrace(const std::vector<TraceEvent>& events,
                        const std::vector<TraceTask>& tasks = {});

// A small number for the calling thread.
int TraceThreadId();

}  // namespace sluice

#endif  // SLUICE_EXEC_TRACE_H_
