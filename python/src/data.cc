// Datasets and their iterators: the C++ library's, with functions of elements
// that are Python's. They take and give lists of tensors;
// sluice/data/dataset.py knows their structure.
#include "data/dataset.h"
#include "data/dataset_iterator.h"
#include "flow.h"
#include "objects.h"
#include "ops.h"
#include "scopes.h"

namespace sluice::python {
namespace {

using Element = Dataset::Element;

// fn(list) -> list, called while the iterator is built.
auto ElementFunction(py::object fn) {
  return [fn = Share(std::move(fn))](const Element& x) {
    return CallForOutputs(*fn, x);
  };
}

// fn(list) -> Dataset.
auto DatasetFunction(py::object fn, SourceLoc loc) {
  return [fn = Share(std::move(fn)), loc](const Element& x) {
    std::optional<Dataset> inner;
    FromLibrary([&] {
      const ScopeState scopes;
      const absl::Cleanup back = [&scopes] { scopes.Restore(); };
      inner = py::cast<Dataset>((*fn)(x));
    });
    if (inner) return *inner;
    return Dataset::Range(
        BuildError(InvalidArgument("expected a dataset"), loc), loc);
  };
}

// Every source is a tensor or several.
Operand AsOperand(const Output& o, SourceLoc loc) {
  return Operand(o, loc.file, loc.line);
}

DatasetIterator MakeIterator(const Dataset& dataset, const std::string& name,
                             bool saved) {
  PyGraph& g = TargetGraph();
  const Building here(g);
  DatasetIterator made =
      dataset.MakeIterator(name, {.saved = saved}, UserLine());
  CheckBuilt(g);
  return made;
}

std::vector<Output> Next(const DatasetIterator& iterator) {
  PyGraph& g = TargetGraph();
  const Building here(g);
  std::vector<Output> next = iterator.Next(UserLine());
  CheckBuilt(g);
  return next;
}

// What a checkpoint holds of an iterator whose position is saved.
std::vector<Output> Position(const DatasetIterator& iterator) {
  PyGraph& g = TargetGraph();
  const Building here(g);
  const SavedPosition position = iterator.position();
  std::vector<Output> values = {position.taken.Read(UserLine()),
                                position.epochs.Read(UserLine())};
  CheckBuilt(g);
  return values;
}

// Whether it has a value: a bool.
Output HasPosition(const DatasetIterator& iterator) {
  PyGraph& g = TargetGraph();
  const Building here(g);
  const Output has = iterator.position().taken.IsInitialized(UserLine());
  CheckBuilt(g);
  return has;
}

Node* RestorePosition(const DatasetIterator& iterator,
                      const std::vector<Output>& values) {
  PyGraph& g = TargetGraph();
  const Building here(g);
  const SavedPosition position = iterator.position();
  Node* const restored =
      Group({position.taken.Assign(values.at(0), UserLine()),
             position.epochs.Assign(values.at(1), UserLine())},
            "restore", UserLine());
  CheckBuilt(g);
  return restored;
}

}  // namespace

void AddDatasets(py::module_& m) {
  py::class_<Dataset>(m, "Dataset")
      .def_static("range",
                  [](const Output& limit) {
                    const SourceLoc loc = UserLine();
                    return Dataset::Range(AsOperand(limit, loc), loc);
                  })
      .def_static("rows",
                  [](const std::vector<Output>& tensors) {
                    const Building here(TargetGraph());
                    Dataset made = Dataset::FromTensors(tensors, UserLine());
                    CheckBuilt(TargetGraph());
                    return made;
                  })
      .def_static("files",
                  [](const Output& patterns) {
                    const SourceLoc loc = UserLine();
                    return Dataset::FromFiles(AsOperand(patterns, loc), loc);
                  })
      .def_static("records",
                  [](const Output& file, const std::string& compression,
                     bool ignore_errors) {
                    const SourceLoc loc = UserLine();
                    return Dataset::TfRecords(AsOperand(file, loc),
                                              {compression, ignore_errors},
                                              loc);
                  })
      .def_static("lines",
                  [](const Output& file) {
                    const SourceLoc loc = UserLine();
                    return Dataset::TextLines(AsOperand(file, loc), 0, loc);
                  })
      .def_static("fixed_length_records",
                  [](const Output& file, int64_t record_bytes, int64_t header,
                     int64_t footer, const std::string& compression) {
                    const SourceLoc loc = UserLine();
                    return Dataset::FixedLengthRecords(
                        AsOperand(file, loc), record_bytes,
                        {header, footer, compression}, loc);
                  })
      // `parts`: the type and shape of each component.
      .def_static("from_queue",
                  [](const Output& handle,
                     const std::vector<std::pair<DType, PartialShape>>& parts) {
                    std::vector<Component> components;
                    for (const auto& [type, shape] : parts)
                      components.emplace_back(type, shape);
                    return Dataset::FromQueue(
                        Queue::Of(handle, std::move(components)), UserLine());
                  })
      .def_static("zip",
                  [](const Dataset& a, const Dataset& b) {
                    return Dataset::Zip(a, b, UserLine());
                  })
      .def("map",
           [](const Dataset& d, py::object fn, int parallel) {
             return d.Map(ElementFunction(std::move(fn)), {parallel},
                          UserLine());
           })
      .def("filter",
           [](const Dataset& d, py::object fn) {
             return d.Filter(ElementFunction(std::move(fn)), UserLine());
           })
      .def("take_while",
           [](const Dataset& d, py::object fn) {
             return d.TakeWhile(ElementFunction(std::move(fn)), UserLine());
           })
      // fn(state, element) -> [next state] + [new element].
      .def("scan",
           [](const Dataset& d, const std::vector<Output>& initial,
              py::object fn) {
             const size_t n = initial.size();
             return d.Scan(
                 initial,
                 [fn = Share(std::move(fn)), n](const Element& state,
                                                const Element& x) {
                   Element both = CallForOutputs(*fn, state, x);
                   const auto at = both.begin() + static_cast<std::ptrdiff_t>(
                                                      std::min(n, both.size()));
                   return std::pair{Element(both.begin(), at),
                                    Element(at, both.end())};
                 },
                 UserLine());
           })
      .def("flat_map",
           [](const Dataset& d, py::object fn) {
             const SourceLoc loc = UserLine();
             return d.FlatMap(DatasetFunction(std::move(fn), loc), loc);
           })
      .def("interleave",
           [](const Dataset& d, py::object fn, int cycle) {
             const SourceLoc loc = UserLine();
             return d.Interleave(DatasetFunction(std::move(fn), loc), cycle,
                                 loc);
           })
      .def("enumerate",
           [](const Dataset& d) { return d.Enumerate(UserLine()); })
      .def("ignore_errors",
           [](const Dataset& d) { return d.IgnoreErrors(UserLine()); })
      .def("repeat", [](const Dataset& d,
                        int64_t count) { return d.Repeat(count, UserLine()); })
      .def("take", [](const Dataset& d,
                      int64_t count) { return d.Take(count, UserLine()); })
      .def("skip", [](const Dataset& d,
                      int64_t count) { return d.Skip(count, UserLine()); })
      .def("concatenate",
           [](const Dataset& d, const Dataset& next) {
             return d.Concatenate(next, UserLine());
           })
      .def("shuffle",
           [](const Dataset& d, int64_t buffer, int64_t seed) {
             return d.Shuffle(buffer, seed, UserLine());
           })
      .def(
          "batch",
          [](const Dataset& d, int64_t size, bool drop_remainder, bool padded) {
            return d.Batch(size, {drop_remainder, padded}, UserLine());
          })
      .def("bucket_by_length",
           [](const Dataset& d, py::object length,
              std::vector<int64_t> boundaries, std::vector<int64_t> sizes,
              bool drop_remainder) {
             return d.BucketByLength(ElementFunction(std::move(length)),
                                     std::move(boundaries), std::move(sizes),
                                     drop_remainder, UserLine());
           })
      .def("prefetch",
           [](const Dataset& d, int64_t count) {
             return d.Prefetch(count, UserLine());
           })
      .def("make_iterator", &MakeIterator);
  py::class_<DatasetIterator>(m, "DatasetIterator")
      .def("next", &Next)
      .def("position", &Position)
      .def("has_position", &HasPosition)
      .def("restore_position", &RestorePosition)
      .def("stop",
           [](DatasetIterator& it) {
             const OthersRun others_run;
             it.Stop();
           })
      .def_property_readonly("ignored_errors",
                             &DatasetIterator::ignored_errors);
}

}  // namespace sluice::python
