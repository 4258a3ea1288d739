// What a traced step records: one event per node that ran.
#ifndef SLUICE_EXEC_TRACE_H_
#define SLUICE_EXEC_TRACE_H_

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace sluice {

inline int64_t NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// A kernel's run. Times are of the steady clock, in ns.
struct TraceEvent {
  std::string node;
  std::string op;
  std::string shapes;  // Of the outputs.
  int thread = 0;      // Small number, by order of appearance.
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  int64_t allocated_bytes = 0;  // By the kernel, on its thread.
  int64_t iteration = 0;
  std::string frame;
};

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

// The events in the Chrome/Perfetto trace format (JSON).
std::string ChromeTrace(const std::vector<TraceEvent>& events);

// A small number for the calling thread.
int TraceThreadId();

}  // namespace sluice

#endif  // SLUICE_EXEC_TRACE_H_
