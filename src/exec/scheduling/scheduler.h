// Scheduler: decides on which device each scheduled body runs.
#ifndef SLUICE_EXEC_SCHEDULING_SCHEDULER_H_
#define SLUICE_EXEC_SCHEDULING_SCHEDULER_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "exec/core/kernel.h"
#include "exec/core/resources.h"
#include "exec/scheduling/parameter_cache.h"
#include "exec/scheduling/schedule_policy.h"

namespace sluice {

// The policy of this name, which is never removed. NotFound names the nearest.
Result<const SchedulePolicy*> FindSchedulePolicy(const std::string& name);

// What a Schedule node says of its body. Made with its kernel, then constant.
struct ScheduledBody {
  static Result<std::shared_ptr<ScheduledBody>> Make(const Node& node);

  std::string name;
  int number = 0;                    // The same for all bodies of this name.
  std::vector<std::string> devices;  // As the program named them.
  std::vector<int> device_numbers;   // ScheduledDeviceNumber of each.
  const SchedulePolicy* policy = nullptr;
  std::string policy_name;
  std::vector<int64_t> element_bytes;  // By input.
  std::vector<int> parameters;         // ParameterNumber of each.
  int64_t parameter_bytes = 0;
  double ns_per_row = 0;  // Declared; 0: measured.
  double bytes_per_s = 0;
  // Whether it waits for room on a device. (Not if it may wait for others.)
  bool limited = true;
};

// A body that is to be scheduled, and what was decided.
struct Decision {
  const ScheduledBody* body = nullptr;
  int64_t rows = 1;
  int64_t input_bytes = 0;
  double work_ns = 0;
  double copy_ns = 0;           // Of the inputs and of what the device lacks.
  int choice = -1;              // -1: the device has no room now.
  int64_t ticket = 0;           // Names the decision until the body is done.
  double load_ns = 0;           // Of the chosen device, before.
  int64_t parameter_bytes = 0;  // Of the body's parameters there.

  // The rows and bytes of the inputs, from their shapes. (The kernel's inputs
  // are vectors of int32.)
  Status ReadShapes(std::span<const Tensor* const> shapes);
  // "least_loaded: 12 rows, work 40 us; load 80 us; parameters 0 of 512 bytes".
  std::string Reason() const;
};

// What is assigned to each device and is not done, over all steps of a session,
// and how long bodies take. Owned by the session's resources. Thread-safe.
//
// Each decision that was made is ended once: by Done, or with its step.
// Each task of a cluster has its own, which knows what it decided itself.
class Scheduler final : public Resource {
 public:
  // The decisions of one step that are not done; ends them when it is
  // destroyed. Owned by the resources of the step.
  class Step final : public Resource {
   public:
    explicit Step(std::shared_ptr<Scheduler> scheduler)
        : scheduler_(std::move(scheduler)) {}
    ~Step() override { scheduler_->Abandon(this); }
    std::string TypeName() const override { return "ScheduledStep"; }
    Scheduler& scheduler() const { return *scheduler_; }
    // How many of its bodies are done.
    int64_t done() const { return done_.load(std::memory_order_relaxed); }

   private:
    friend class Scheduler;
    mutable std::atomic<int64_t> done_{0};
    // Those that are not done, by their place in open_. Guarded by the
    // scheduler's mutex.
    mutable std::vector<uint32_t> open_;
    const std::shared_ptr<Scheduler> scheduler_;
  };

  std::string TypeName() const override { return "Scheduler"; }
  // The session's.
  static Result<std::shared_ptr<Scheduler>> Of(ResourceManager* resources);
  // That of a step, which is made with its first decision.
  static Result<std::shared_ptr<Step>> OfStep(StepContext* step);

  // Decides all of them, the largest work first; fills in the choices. One
  // whose device has no room beside other bodies of the step gets none, unless
  // `all` are to run. It has to be decided again when one of them is done.
  Status Decide(std::span<Decision> decisions, const Step* step,
                bool all = false);
  // The body is done. Returns the rows of its first input. FailedPrecondition
  // if its ticket is not known, or is that of another step.
  Result<int64_t> Done(int64_t ticket, const Step* step);
  // The cache of a device's parameters, asked for what is there.
  void SetCache(int device_number, std::shared_ptr<ParameterCache> cache);
  std::shared_ptr<ParameterCache> Cache(int device_number) const;
  // A parameter's value, as all caches hold it that have a copy of it.
  std::shared_ptr<const Tensor> HeldValue(int parameter, const Tensor& value);
  // What is assigned to a device and not done.
  double LoadNs(int device_number) const;

 private:
  struct OfDevice {
    double load_ns = 0;
    int bodies = 0;
    int64_t last_done_ns = 0;
    std::shared_ptr<ParameterCache> cache;
    // The limited bodies that run there, with what they need together.
    struct Running {
      const Step* step;
      int body, times;
    };
    std::vector<Running> running;
    int64_t bytes = 0;
  };
  struct Open {
    const Step* step = nullptr;  // Null: free.
    uint32_t generation = 0;
    uint32_t at_of_step = 0;  // Its place in the step's list.
    int device = 0, body = 0;
    int64_t rows = 0, since_ns = 0;
    double work_ns = 0, copy_ns = 0;
    bool limited = false;
    int64_t input_bytes = 0, parameter_bytes = 0;
  };
  // How long bodies took; recent ones count more.
  struct Measured {
    double ns = 0, rows = 0;
    void Add(double more_ns, double more_rows);
  };
  // These REQUIRE mu_ held.
  Status DecideOne(Decision* d, const Step* step, int64_t now_ns, bool all);
  bool HasRoom(const OfDevice& device, int number, const Decision& d,
               const Step* step) const;
  static OfDevice::Running* FindRunning(OfDevice* device, const Step* step,
                                        int body);
  void End(Open* open);
  // Measured for the body; or for all bodies, before it has run.
  double NsPerRow(int body) const;
  OfDevice& Device(int number);

  void Abandon(const Step* step);

  mutable std::mutex mu_;
  std::vector<OfDevice> devices_;   // By number. GUARDED_BY(mu_)
  std::vector<Measured> measured_;  // By body. GUARDED_BY(mu_)
  Measured all_measured_;           // GUARDED_BY(mu_)
  std::vector<Open> open_;          // GUARDED_BY(mu_)
  std::vector<uint32_t> free_;      // In open_. GUARDED_BY(mu_)
  // The newest value of each parameter. GUARDED_BY(mu_)
  std::vector<std::weak_ptr<const Tensor>> held_;
  std::vector<ScheduleCandidate> candidates_;  // GUARDED_BY(mu_): reused.
  std::vector<uint32_t> order_;                // GUARDED_BY(mu_): reused.
};

// The kernels of Schedule and ScheduleDone.
Status RunSchedule(KernelContext& ctx);      // State: a ScheduledBody.
Status RunScheduleDone(KernelContext& ctx);  // State: a ScheduledResults.

// What a ScheduleDone node says of the results.
struct ScheduledResults {
  bool have_rows = false;  // Each has as many rows as the first input.
};

}  // namespace sluice

#endif  // SLUICE_EXEC_SCHEDULING_SCHEDULER_H_
