// Tasks of clusters in a Python program.
#include "base/cluster_library.h"
#include "cluster/worker_main.h"
#include "py.h"

namespace sluice::python {
namespace {

// A task that runs until this is let go, or stopped. Of Python's, under the
// interpreter's lock; the task has threads of its own.
class RunningTask {
 public:
  RunningTask(std::string cluster, std::string job, int task,
              std::string devices, std::string transport,
              bool plain_beyond_loopback, bool allow_host_access,
              bool allow_reset, int64_t step_timeout_ms) {
    TaskServerOptions options;
    options.cluster = std::move(cluster);
    options.job = std::move(job);
    options.task = task;
    options.devices = std::move(devices);
    options.transport = std::move(transport);
    options.plain_beyond_loopback = plain_beyond_loopback;
    options.allow_host_access = allow_host_access;
    options.allow_reset = allow_reset;
    options.step_timeout_ms = step_timeout_ms;
    CheckRun(Start(options), py::none());
  }
  ~RunningTask() { Stop(); }
  RunningTask(const RunningTask&) = delete;
  RunningTask& operator=(const RunningTask&) = delete;

  void Stop() {
    std::shared_ptr<void> task = std::move(task_);
    if (task == nullptr) return;
    const OthersRun others_run;  // (What it runs may wait for the lock.)
    task.reset();
  }

 private:
  Status Start(const TaskServerOptions& options) {
    const OthersRun others_run;
    SLUICE_ASSIGN_OR_RETURN(void* const start, DistSymbol("sluice_start_task"));
    Status status;
    reinterpret_cast<decltype(&sluice_start_task)>(start)(&options, &task_,
                                                          &status);
    return status;
  }

  std::shared_ptr<void> task_;
};

}  // namespace

void AddServers(py::module_& m) {
  py::class_<RunningTask>(m, "RunningTask")
      .def(py::init<std::string, std::string, int, std::string, std::string,
                    bool, bool, bool, int64_t>(),
           py::arg("cluster"), py::arg("job"), py::arg("task"),
           py::arg("devices"), py::arg("transport"),
           py::arg("plain_beyond_loopback"), py::arg("allow_host_access"),
           py::arg("allow_reset"), py::arg("step_timeout_ms"))
      .def("stop", &RunningTask::Stop);
}

}  // namespace sluice::python
