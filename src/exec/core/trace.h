// Events of a traced step: one per node that ran.
//
//   RunOptions options;
//   options.trace = true;
//   RunMetadata metadata;
//   auto out = session.Run({}, {y}, {}, options, &metadata);
//   for (const TraceEvent& event : metadata.events)
//     std::cout << event.node << " " << event.end_ns - event.start_ns << "\n";
#ifndef SLUICE_EXEC_CORE_TRACE_H_
#define SLUICE_EXEC_CORE_TRACE_H_

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/numeric/int128.h"
#include "graph/graphdef_costs.h"

namespace sluice {

inline int64_t NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// A value that a kernel made, or that is transferred between devices.
using TraceOutput = NodeCost::Output;

// A run of a kernel, or one end of a transfer between devices. Times are of the
// steady clock, in ns; in a step over several tasks, of the master's clock.
struct TraceEvent {
  enum Kind { kKernel, kSend, kReceive };

  std::string node;
  std::string op;
  // By output number; for transfers, the transferred value, if any.
  std::vector<TraceOutput> outputs;
  std::string device;  // As in the node: complete, if there are several.
  int thread = 0;      // Small number, by order of appearance.
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  int64_t allocated_bytes = 0;  // By the kernel, on its thread.
  int64_t iteration = 0;
  std::string frame;
  // How many instances of the node the run was for (SessionOptions::
  // batch_frames); frame, iteration and outputs are those of the first.
  int64_t instances = 1;
  // For transfers. Both ends have the same number, which is unique in the step
  // (except with probability 2^-64).
  Kind kind = kKernel;
  uint64_t transfer = 0;
  std::string tensor;  // "node:0", or "^node" for a control edge.
  std::string peer;    // The other device. (Of a decision: device and reason.)

  std::string Shapes() const;  // Output shapes: "float[2] int32[]".
  int64_t OutputBytes() const;
};

// One task of a step, with the accuracy of its clock.
struct TraceTask {
  std::string name;  // "/job:worker/replica:0/task:1".
  int64_t start_ns = 0, end_ns = 0;
  // The offset added to its clock's times, and the maximum error of the offset.
  int64_t clock_offset_ns = 0, clock_error_ns = 0;
  int64_t events_left_out = 0;  // Too many for one message.
};

// The number of a transfer: the same in every process.
uint64_t TransferNumber(std::string_view to_device, uint32_t edge,
                        absl::uint128 frame, int64_t iteration);

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
// task with its name, in it a thread for each device (several if kernels ran
// concurrently), slices with their details, and an arrow for each transfer with
// both ends recorded.
std::string ChromeTrace(const std::vector<TraceEvent>& events,
                        const std::vector<TraceTask>& tasks = {});

// A small number for the calling thread.
int TraceThreadId();

}  // namespace sluice

#endif  // SLUICE_EXEC_CORE_TRACE_H_
