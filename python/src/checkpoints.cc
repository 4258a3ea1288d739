// Checkpoints: reading them, and the list of those that a saver keeps
// (sluice/training/saver.py, sluice/training/checkpoint_reader.py).
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint_reader.h"
#include "checkpoint/pending_file.h"
#include "py.h"
#include "train/checkpoint_difference.h"
#include "train/checkpoint_keeper.h"
#include "train/leftovers.h"
#include "train/run_lock.h"
#include "values.h"

namespace sluice::python {
namespace {

template <typename Fn>
auto Unlocked(const Fn& fn) {
  auto result = [&] {
    const OthersRun others_run;
    return fn();
  }();
  CheckRun(result.status(), py::none());
  return *std::move(result);
}

// A CheckpointReader, as TensorFlow's.
class PyCheckpointReader {
 public:
  explicit PyCheckpointReader(const std::string& prefix)
      : reader_(Unlocked([&] { return CheckpointReader::Open(prefix); })) {}

  // {name: (type, shape)}
  py::dict Tensors() const {
    py::dict out;
    for (const auto& [name, tensor] : reader_.tensors()) {
      py::list shape;
      for (const int64_t dim : tensor.shape.dims()) shape.append(dim);
      out[py::str(name)] =
          py::make_tuple(static_cast<int>(tensor.dtype), std::move(shape));
    }
    return out;
  }
  py::object Read(const std::string& name) const {
    return ToNumpy(Unlocked([&] { return reader_.Read(name); }));
  }

 private:
  const CheckpointReader reader_;
};

// A CheckpointKeeper with the options that it refers to. Of any thread: calls
// take turns.
class PyCheckpointKeeper {
 public:
  PyCheckpointKeeper(int max_to_keep, double every_n_hours,
                     bool relative_paths) {
    options_.max_to_keep = max_to_keep;
    options_.keep_every_n_hours = every_n_hours;
    options_.relative_paths = relative_paths;
    keeper_ = std::make_unique<CheckpointKeeper>(options_);
  }
  void Saved(const std::string& path, const std::string& state_file) {
    const Status status = [&] {
      const OthersRun others_run;
      const std::lock_guard<std::mutex> lock(mutex_);
      options_.state_file = state_file;
      return keeper_->Saved(path, std::nullopt);
    }();
    CheckRun(status, py::none());
  }
  // Returns the error, or "".
  std::string DeleteOld() {
    const OthersRun others_run;
    const std::lock_guard<std::mutex> lock(mutex_);
    const Status status = keeper_->DeleteOld();
    return status.ok() ? "" : std::string(status.message());
  }
  std::vector<std::string> Paths() {
    const OthersRun others_run;
    const std::lock_guard<std::mutex> lock(mutex_);
    return keeper_->paths();
  }
  void Set(const std::vector<std::string>& paths,
           const std::vector<double>& times) {
    const OthersRun others_run;
    const std::lock_guard<std::mutex> lock(mutex_);
    keeper_->set_paths(paths, times);
  }

 private:
  std::mutex mutex_;
  SaverOptions options_;
  std::unique_ptr<CheckpointKeeper> keeper_;
};

// A RunLock, which is held as long as the object lives. If this process did not
// hold the folder before, what killed saves to `prefix` left in it is removed.
class PyRunLock {
 public:
  PyRunLock(const std::string& prefix, const std::string& state_file)
      : lock_(Unlocked([&] {
          return RunLock::Take(FolderOf(prefix),
                               [&] { RemoveLeftovers(prefix, state_file); });
        })) {}

 private:
  const RunLock lock_;
};

// Lines for what is missing, and for what has another type or shape; how many
// are found by the full names of a checkpoint's objects. A shape is None if it
// does not matter.
using Wanted =
    std::tuple<std::string, int, std::optional<std::vector<int64_t>>>;
std::tuple<std::string, std::string, size_t> Differences(
    const std::string& prefix, const std::vector<Wanted>& wanted) {
  const CheckpointReader reader =
      Unlocked([&] { return CheckpointReader::Open(prefix); });
  std::vector<WantedTensor> tensors;
  for (const auto& [name, dtype, shape] : wanted)
    tensors.push_back({name, static_cast<DType>(dtype),
                       shape ? PartialShape(Dims(shape->begin(), shape->end()))
                             : PartialShape::Unknown()});
  const CheckpointDifference difference = CompareCheckpoint(reader, tensors);
  CheckpointDifference missing, other;
  missing.missing = difference.missing;
  other.other = difference.other;
  return {missing.ToString(), other.ToString(), difference.renamed.size()};
}

}  // namespace

void AddCheckpoints(py::module_& m) {
  py::class_<PyCheckpointReader>(m, "CheckpointReader")
      .def(py::init<std::string>(), py::arg("prefix"))
      .def("tensors", &PyCheckpointReader::Tensors)
      .def("read", &PyCheckpointReader::Read);
  py::class_<PyCheckpointKeeper>(m, "CheckpointKeeper")
      .def(py::init<int, double, bool>(), py::arg("max_to_keep"),
           py::arg("every_n_hours"), py::arg("relative_paths"))
      .def("saved", &PyCheckpointKeeper::Saved, py::arg("path"),
           py::arg("state_file"))
      .def("delete_old", &PyCheckpointKeeper::DeleteOld)
      .def("set", &PyCheckpointKeeper::Set, py::arg("paths"),
           py::arg("times") = std::vector<double>())
      .def_property_readonly("paths", &PyCheckpointKeeper::Paths);
  py::class_<PyRunLock>(m, "RunLock")
      .def(py::init<std::string, std::string>(), py::arg("prefix"),
           py::arg("state_file"));
  m.def("checkpoint_differences", &Differences, py::arg("prefix"),
        py::arg("wanted"));
}

}  // namespace sluice::python
