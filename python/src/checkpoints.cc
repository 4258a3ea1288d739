// Checkpoints: the nodes of savers, the list of those that a saver keeps, and
// reading them (sluice/training/saver.py,
// sluice/training/checkpoint_readers.py); and what the paths of all files mean.
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "checkpoint/checkpoint_reader.h"
#include "checkpoint/pending_file.h"
#include "io/file.h"
#include "library_calls.h"
#include "objects.h"
#include "py.h"
#include "train/checkpoint_difference.h"
#include "train/checkpoint_keeper.h"
#include "train/leftovers.h"
#include "train/run_lock.h"
#include "train/saver_nodes.h"
#include "train/warm_start.h"
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

// What `call` builds within the scopes that the library is in; whatever it did
// to these is undone. Null if Python raised.
template <typename Call>
auto Built(const Call& call) {
  return FromLibrary([&] {
    const ScopeState scopes;
    const absl::Cleanup back = [&scopes] { scopes.Restore(); };
    return call();
  });
}

// Returns the tensor to feed with the path, the tensor with the path after
// saving, and the operation that restores. A saveable is ([(name, slice, DType,
// function that gives the tensor)], device, function of the list of tensors
// that were saved, which gives an operation).
using PySpec = std::tuple<std::string, std::string, DType, py::object>;
using PySaveable = std::tuple<std::vector<PySpec>, std::string, py::object>;
std::tuple<Output, Output, py::object> SaverNodesOf(
    const std::string& scope, const std::vector<PySaveable>& saveables,
    const std::string& filename, bool sharded, bool old_format) {
  PyGraph& g = TargetGraph();
  const Building here(g);
  std::vector<ItemToSave> items;
  for (const auto& [specs, device, restore] : saveables) {
    ItemToSave item;
    item.device = device;
    for (const auto& [name, slice, dtype, tensor] : specs)
      item.tensors.push_back({name, slice, dtype, [&fn = tensor] {
                                return Built([&] {
                                  return ToOutput(TargetGraph(), fn(),
                                                  DType::kInvalid, true,
                                                  "Const", UserLine());
                                });
                              }});
    item.restore = [&fn = restore](const std::vector<Output>& saved) {
      return Built([&] {
        const py::object made = fn(saved);
        py::detail::make_caster<Node> node;
        if (!node.load(made, false))
          Raise(PyExc_TypeError,
                absl::StrCat("restore: expected an Operation or a Tensor, ",
                             Got(made)));
        return node.node;
      });
    };
    items.push_back(std::move(item));
  }
  const SaverNodes nodes = AddSaverNodes(items,
                                         {.name = scope,
                                          .filename = filename,
                                          .sharded = sharded,
                                          .old_format = old_format},
                                         UserLine());
  CheckBuilt(g);
  return {nodes.filename, nodes.save_tensor,
          HandleOf({nodes.restore, kOperation})};
}

// A vocabulary is (new file, new size, other rows, old file, old size, axis,
// function of a shape and a DType, or None).
using PyVocabulary = std::tuple<std::string, int64_t, int64_t, std::string,
                                int64_t, int, py::object>;
Output ValueInCheckpoint(const std::string& path, const Output& handle,
                         const std::string& name, const std::string& slice,
                         const std::optional<PyVocabulary>& vocabulary) {
  PyGraph& g = GraphOf(handle.node);
  const Building here(g);
  std::optional<VocabularyChange> change;
  if (vocabulary.has_value()) {
    const auto& [file, size, others, old_file, old_size, axis, fn] =
        *vocabulary;
    change = {.new_vocabulary = file,
              .new_size = size,
              .oov_rows = others,
              .old_vocabulary = old_file,
              .old_size = old_size,
              .axis = axis};
    if (!fn.is_none())
      change->other_values = [&make = fn](const Shape& shape, DType dtype) {
        return Built([&] {
          return py::cast<Output>(
              make(FromShape(PartialShape(shape)), FromDType(dtype)));
        });
      };
  }
  const Output value = SavedValue(path, Var::FromHandle(handle), name, slice,
                                  change, UserLine());
  CheckBuilt(g);
  return value;
}

// What a path means on this machine, as a str; see LocalPath. It may be an
// os.PathLike.
std::string LocalPathOf(const py::object& given) {
  const auto path = py::reinterpret_steal<py::object>(PyOS_FSPath(given.ptr()));
  if (!path) throw py::error_already_set();
  return LocalPath(py::cast<std::string>(path));
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
  m.def("local_path", &LocalPathOf);
  m.def("saver_nodes", SaverNodesOf);
  m.def("saved_value", ValueInCheckpoint);
  m.def("checkpoint_differences", &Differences, py::arg("prefix"),
        py::arg("wanted"));
}

}  // namespace sluice::python
