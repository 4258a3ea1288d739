// _core.Session: runs steps, with fetches and feeds as Python has them.
//
// A fetch is a Tensor, an Operation (whose value is None), or lists, tuples,
// named tuples and dicts of fetches; what else it may be (names, variables,
// sparse tensors) a hook turns into these. Arrays that are fed are lent to the
// step, not copied.
#include "session/session.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <mutex>

#include "data/dataset_iterator.h"
#include "deploy/quantize.h"
#include "graph/graphdef.h"
#include "interrupt.h"
#include "objects.h"
#include "session/session_config.h"
#include "session/step_stats.h"
#include "values.h"

namespace sluice::python {
namespace {

// ---- Fetches ----------------------------------------------------------------

[[noreturn]] void NotOfThisGraph(py::handle fetch, const char* kind) {
  const std::string shown = Repr(fetch);
  Raise(PyExc_ValueError,
        absl::StrCat("Fetch argument ", shown,
                     " cannot be interpreted as a Tensor. (", kind, " ", shown,
                     " is not an element of this graph.)"));
}

void CheckFetchable(Node* node) {
  if (!GraphOf(node).Fetchable(node))
    Raise(PyExc_ValueError,
          absl::StrCat("Operation ", node->name(),
                       " has been marked as not fetchable. Typically this "
                       "happens when it is defined in another function or code "
                       "block. Use return values, explicit Python locals or "
                       "TensorFlow collections to access it."));
}

void CheckFeedable(const Output& o) {
  if (!GraphOf(o.node).Feedable(o))
    Raise(PyExc_ValueError,
          absl::StrCat("Tensor ", o.name(), " may not be fed."));
}

class PySession;
const py::object& GraphOfSession(const PySession& session);
bool IsClosed(const PySession& session);
// The function that makes what was asked for of [a handle that `output` gives].
py::object MakesHandles(const PySession& session, const Output& output);

// What a step is asked for, in the order of the structure's leaves, and how the
// values make up what was asked for.
class Fetches {
 public:
  Fetches(const PySession& session, py::handle fetch)
      : session_(session), root_(Collect(GraphOfSession(session), fetch)) {}

  const std::vector<Output>& outputs() const { return outputs_; }
  const std::vector<Node*>& targets() const { return targets_; }

  int Traverse(visitproc visit, void* arg) const {
    return root_.Traverse(visit, arg);
  }

  // The tensors are taken over: their arrays become the only owners.
  py::object Assemble(std::vector<Tensor> tensors) const {
    return Assemble(root_, tensors);
  }

 private:
  struct Part {
    enum Kind { kValue, kNone, kList, kTuple, kDict, kCall };
    Kind kind;
    size_t index = 0;              // Of the value, which is of no other part.
    std::vector<Part> parts = {};  // Of a container.
    py::object like = {};          // The type, or what is called with a list.
    py::object keys = {};          // Of a dict.

    int Traverse(visitproc visit, void* arg) const {
      Py_VISIT(like.ptr());
      Py_VISIT(keys.ptr());
      for (const Part& part : parts)
        if (const int stop = part.Traverse(visit, arg)) return stop;
      return 0;
    }
  };

  Part Collect(const py::object& graph, py::handle fetch) {
    if (const TensorHandle* const tensor = AsTensor(fetch)) {
      if (!tensor->graph.is(graph)) NotOfThisGraph(fetch, "Tensor");
      CheckFetchable(tensor->output.node);
      outputs_.push_back(tensor->output);
      Part value = {.kind = Part::kValue, .index = outputs_.size() - 1};
      if (tensor->output.node->kind() != OpKind::kGetSessionHandle)
        return value;
      return {.kind = Part::kCall,
              .parts = {std::move(value)},
              .like = MakesHandles(session_, tensor->output)};
    }
    if (const OperationHandle* const op = AsOperation(fetch)) {
      if (!op->graph.is(graph)) NotOfThisGraph(fetch, "Operation");
      CheckFetchable(op->output.node);
      targets_.push_back(op->output.node);
      return {.kind = Part::kNone};
    }
    if (py::isinstance<py::list>(fetch))
      return {.kind = Part::kList, .parts = CollectAll(graph, fetch)};
    if (PyTuple_CheckExact(fetch.ptr()) ||
        (py::isinstance<py::tuple>(fetch) && py::hasattr(fetch, "_fields")))
      return {.kind = Part::kTuple,
              .parts = CollectAll(graph, fetch),
              .like = py::type::of(fetch)};
    if (py::isinstance<py::dict>(fetch))
      return {.kind = Part::kDict,
              .parts = CollectAll(graph, fetch.attr("values")()),
              .like = py::type::of(fetch),
              .keys = py::list(fetch.attr("keys")())};
    const auto [parts, fn] = py::cast<std::pair<py::list, py::object>>(
        GetHooks().expand_fetch(fetch, graph));
    if (fn.is_none()) return Collect(graph, parts[0]);  // It stands for that.
    return {.kind = Part::kCall, .parts = CollectAll(graph, parts), .like = fn};
  }

  std::vector<Part> CollectAll(const py::object& graph, py::handle fetches) {
    std::vector<Part> parts;
    for (const py::handle fetch : fetches)
      parts.push_back(Collect(graph, fetch));
    return parts;
  }

  static py::object Assemble(const Part& part, std::vector<Tensor>& values) {
    if (part.kind == Part::kValue)
      return ToNumpy(std::move(values[part.index]));
    if (part.kind == Part::kNone) return py::none();
    py::list list;
    for (const Part& one : part.parts) list.append(Assemble(one, values));
    if (part.kind == Part::kList) return list;
    if (part.kind == Part::kCall) return part.like(list);
    if (part.kind == Part::kTuple)
      return py::hasattr(part.like, "_fields") ? part.like(*list)
                                               : py::tuple(list);
    py::object dict = part.like();
    size_t i = 0;
    for (const py::handle key : part.keys) dict[key] = list[i++];
    return dict;
  }

  const PySession& session_;
  std::vector<Output> outputs_;
  std::vector<Node*> targets_;
  Part root_;  // (Last: making it fills the others.)
};

// ---- Feeds ------------------------------------------------------------------

// A value's text, which may be long, as far as errors show it.
std::string Beginning(py::handle value) {
  constexpr size_t kMax = 200;
  std::string text = Repr(value);
  if (text.size() <= kMax) return text;
  size_t end = kMax;  // (Not within a character of UTF-8.)
  while (end > 0 && (text[end] & 0xc0) == 0x80) --end;
  return text.substr(0, end) + "...";
}

Tensor FeedValue(const Output& o, py::handle value, bool share) {
  if (AsTensor(value) != nullptr)
    Raise(PyExc_TypeError,
          absl::StrCat(
              "The value of a feed cannot be a tf.Tensor object. Acceptable "
              "feed values include Python scalars, strings, lists, numpy "
              "ndarrays, or TensorHandles. For reference, the tensor object "
              "was ",
              Beginning(value), " which was passed to the feed with key ",
              o.name(), "."));
  Tensor t;
  try {
    t = ToTensor(value, o.dtype(), share, Numbers::kCast);
  } catch (const py::error_already_set& e) {
    if (e.matches(PyExc_ValueError))
      Raise(PyExc_ValueError,
            absl::StrCat(std::string(py::str(e.value())), "; feed ", o.name()));
    if (!e.matches(PyExc_TypeError)) throw;
    Raise(
        PyExc_TypeError,
        absl::StrCat(std::string(py::str(e.value())), " Type of feed value ",
                     Beginning(value), " with type ", Repr(py::type::of(value)),
                     " is not compatible with Tensor type ",
                     PythonTypeName(o.dtype()), "; feed ", o.name()));
  }
  if (!o.shape().CompatibleWith(PartialShape(t.shape())))
    Raise(PyExc_ValueError,
          absl::StrCat("Cannot feed value of shape ",
                       Repr(FromShape(PartialShape(t.shape()))), " for Tensor ",
                       o.name(), ", which has shape ", o.shape().ToString(),
                       "; ", o.node->Describe()));
  return t;
}

// RunOptions and RunMetadata of Python, as far as they are given.
class Extras {
 public:
  // `session`: Python's, with the timeout that holds where there is no other.
  Extras(const PySession& session, const py::object& options,
         const py::object& metadata, int64_t timeout_ms)
      : python_metadata_(metadata) {
    options_.timeout_ms = timeout_ms;
    if (options.is_none() && metadata.is_none()) return;
    py::cast(&session, py::return_value_policy::reference)
        .attr("_check_options")(options, metadata);
    if (!metadata.is_none()) metadata_.emplace();
    if (options.is_none()) return;
    if (const auto ms = py::cast<int64_t>(options.attr("timeout_in_ms")))
      options_.timeout_ms = ms;
    options_.trace =
        py::cast<int>(options.attr("trace_level")) > 0 && !metadata.is_none();
    options_.partition_graphs =
        py::cast<bool>(options.attr("output_partition_graphs"));
  }

  RunOptions& options() { return options_; }
  RunMetadata* metadata() { return metadata_ ? &*metadata_ : nullptr; }
  void Fill() const {
    if (!metadata_) return;
    py::object events = py::none();
    if (options_.trace || !metadata_->cost_graph.empty()) events = py::list();
    for (const TraceEvent& e : metadata_->events)
      events.attr("append")(py::make_tuple(
          e.device, e.node, TimelineLabel(e), e.thread, e.start_ns, e.end_ns,
          e.allocated_bytes,
          e.kind == TraceEvent::kSend ? py::list() : Outputs(e)));
    py::list graphs;
    for (const std::string& graph : metadata_->partition_graphs)
      graphs.append(py::bytes(graph));
    python_metadata_.attr("_fill")(
        metadata_->wall_ns, metadata_->step_peak_bytes, metadata_->live_bytes,
        metadata_->events.empty() ? "" : metadata_->ChromeTrace(), events,
        graphs, py::bytes(metadata_->cost_graph));
  }

 private:
  // (type, dimensions, bytes) of each.
  static py::list Outputs(const TraceEvent& e) {
    py::list outputs;
    for (const TraceOutput& o : e.outputs) {
      py::list dims;
      for (int i = 0; i < o.shape.rank(); ++i) dims.append(o.shape.dim(i));
      outputs.append(py::make_tuple(static_cast<int>(o.dtype), dims, o.bytes));
    }
    return outputs;
  }

  RunOptions options_;
  std::optional<RunMetadata> metadata_;  // None: nobody asks for it.
  const py::object& python_metadata_;
};

// Runs `fn`, which waits for other threads, while other Python threads run.
template <typename Fn>
auto WithoutLock(const Fn& fn) {
  const OthersRun others_run;
  return fn();
}

// Runs a step, or a stage of one: `fn` of what cancels it.
template <typename Fn>
std::vector<Tensor> RunStep(const PySession& session, const Fn& fn) {
  const MainThreadStep interrupts;
  Result<std::vector<Tensor>> result =
      WithoutLock([&]() -> Result<std::vector<Tensor>> {
        SLUICE_ASSIGN_OR_RETURN(std::vector<Tensor> values,
                                fn(interrupts.cancellation()));
        SLUICE_RETURN_IF_ERROR(MakeOwn(&values));
        return values;
      });
  if (!result.ok()) {
    interrupts.Check();
    // (By their code threads know that they are to end.)
    if (IsClosed(session) &&
        result.status().code() == StatusCode::kFailedPrecondition)
      result = Cancelled("Session has been closed.");
  }
  CheckRun(result.status(), GraphOfSession(session));
  return *std::move(result);
}

// ---- Sessions ---------------------------------------------------------------

class Callable;
class PyPartialRun;

class PySession {
 public:
  // `timeout_ms` is that of steps that say nothing of it.
  PySession(const py::object& graph, const std::string& target,
            const SessionOptions& options, int64_t timeout_ms)
      : graph(graph), timeout_ms(timeout_ms) {
    Graph& g = py::cast<PyGraph&>(graph);
    if (target.empty())
      session_ = std::make_unique<Session>(g, options);
    else
      session_ = WithoutLock(
          [&] { return std::make_unique<Session>(target, g, options); });
  }
  ~PySession() {
    WithoutLock([this] {
      StopPipelines();
      session_.reset();
    });
  }

  py::object Run(const py::object& fetch,
                 const std::optional<py::dict>& feed_dict,
                 const py::object& options, const py::object& metadata) {
    const Fetches fetches(*this, fetch);
    Feeds feeds = MakeFeeds(feed_dict, /*share=*/true);
    Extras extras(*this, options, metadata, timeout_ms);
    std::vector<Tensor> values = RunStep(*this, [&](Cancellation* cancel) {
      extras.options().cancellation = cancel;
      return session_->Run(feeds, fetches.outputs(), fetches.targets(),
                           extras.options(), extras.metadata());
    });
    extras.Fill();
    feeds.clear();
    return fetches.Assemble(std::move(values));
  }

  Feeds MakeFeeds(const std::optional<py::dict>& feed_dict, bool share) {
    Feeds feeds;
    if (feed_dict)
      for (const auto& [key, value] : *feed_dict)
        AddFeed(key, value, share, &feeds);
    return feeds;
  }

  // Runs the pipeline until it ends, or the session is closed.
  void StartPipeline(DatasetIterator pipeline,
                     const std::optional<py::dict>& feed_dict, int threads) {
    const Feeds feeds = MakeFeeds(feed_dict, /*share=*/false);
    CheckRun(
        WithoutLock([&] { return pipeline.Start(*session_, feeds, threads); }),
        graph);
    // Those that have ended release what they hold.
    std::vector<DatasetIterator> ended;
    std::erase_if(pipelines_, [&](const DatasetIterator& p) {
      if (p == pipeline) return true;
      if (p.Running(*session_)) return false;
      ended.push_back(p);
      return true;
    });
    pipelines_.push_back(std::move(pipeline));
    WithoutLock([&] {
      for (DatasetIterator& p : ended) p.Stop(*session_);
      ended.clear();
    });
  }

  std::string PipelineStatus(const DatasetIterator& pipeline) {
    return WithoutLock([&] { return pipeline.StatusLine(*session_); });
  }

  std::unique_ptr<Callable> MakeCallable(const py::object& fetch,
                                         std::vector<Output> feeds);
  std::unique_ptr<PyPartialRun> StartPartialRun(
      const py::object& fetch, const std::vector<Output>& feeds);

  // The part that computes `fetches`, in int8: its GraphDef, the names of what
  // to feed and to fetch there, the layers that are int8, and those that are
  // not, with why. `steps`: values of the feeds, for the ranges.
  py::tuple Quantize(const std::vector<Output>& feeds,
                     const std::vector<Output>& fetches,
                     const std::vector<std::vector<py::object>>& steps,
                     const QuantizeOptions& options) {
    std::vector<std::vector<Tensor>> calibration;
    for (const std::vector<py::object>& step : steps) {
      if (step.size() != feeds.size())
        Raise(PyExc_ValueError,
              absl::StrCat("calibration: expected ", feeds.size(),
                           " values a step, got ", step.size()));
      std::vector<Tensor>& values = calibration.emplace_back();
      for (size_t i = 0; i < feeds.size(); ++i)
        values.push_back(FeedValue(feeds[i], step[i], /*share=*/false));
    }
    std::string bytes;
    Result<QuantizedGraph> made = WithoutLock([&]() -> Result<QuantizedGraph> {
      SLUICE_ASSIGN_OR_RETURN(const InferenceGraph frozen,
                              Freeze(*session_, feeds, fetches));
      SLUICE_ASSIGN_OR_RETURN(QuantizedGraph small,
                              sluice::Quantize(frozen, calibration, options));
      SLUICE_ASSIGN_OR_RETURN(bytes, ExportGraphDef(*small.graph));
      return small;
    });
    CheckRun(made.status(), graph);
    const auto names = [](const std::vector<Output>& edges) {
      std::vector<std::string> all;
      for (const Output& o : edges)
        all.push_back(absl::StrCat(o.node->name(), ":", o.index));
      return all;
    };
    return py::make_tuple(py::bytes(bytes), names(made->feeds),
                          names(made->fetches), made->quantized, made->kept);
  }

  void Close() {
    closed_ = true;
    WithoutLock([this] {
      StopPipelines();
      (void)session_->Close();
    });
  }
  bool closed() const { return closed_; }

  void Reset(const std::vector<std::string>& containers) {
    CheckRun(WithoutLock([&] { return session_->Reset(containers); }), graph);
  }

  std::vector<std::string> Devices() {
    Result<std::vector<std::string>> names =
        WithoutLock([this] { return session_->ListDevices(); });
    CheckRun(names.status(), graph);
    return *std::move(names);
  }

  const py::object graph;
  const int64_t timeout_ms;

 private:
  void AddFeed(py::handle key, py::handle value, bool share, Feeds* feeds) {
    const TensorHandle* const tensor = AsTensor(key);
    if (tensor == nullptr) {
      const py::object pairs = GetHooks().expand_feed(key, value, graph);
      for (const py::handle pair : pairs) {
        const auto [k, v] = py::cast<std::pair<py::object, py::object>>(pair);
        AddFeed(k, v, share, feeds);
      }
      return;
    }
    if (!tensor->graph.is(graph))
      Raise(PyExc_TypeError,
            absl::StrCat("Cannot interpret feed_dict key as Tensor: Tensor ",
                         Repr(key), " is not an element of this graph."));
    const Output& o = tensor->output;
    CheckFeedable(o);
    feeds->emplace_back(o, FeedValue(o, value, share));
  }

  void StopPipelines() {
    for (DatasetIterator& p : pipelines_) p.Stop(*session_);
    pipelines_.clear();
  }

  std::unique_ptr<Session> session_;
  std::vector<DatasetIterator> pipelines_;  // Those that were started.
  bool closed_ = false;  // GUARDED_BY(the interpreter's lock)
};

const py::object& GraphOfSession(const PySession& session) {
  return session.graph;
}

bool IsClosed(const PySession& session) { return session.closed(); }

py::object MakesHandles(const PySession& session, const Output& output) {
  return GetHooks().session_handle(
      py::cast(&session, py::return_value_policy::reference),
      output.node->TypeAttr("T"));
}

// A step prepared once: a function of the values of its feeds.
class Callable {
 public:
  py::object operator()(const py::tuple& values, const py::object& options,
                        const py::object& metadata) const {
    if (values.size() != feeds_.size())
      Raise(PyExc_TypeError,
            absl::StrCat("callable: expected ", feeds_.size(),
                         " values for its feeds, got ", values.size()));
    std::vector<Tensor> feeds;
    feeds.reserve(feeds_.size());
    for (size_t i = 0; i < feeds_.size(); ++i)
      feeds.push_back(FeedValue(feeds_[i], values[i], /*share=*/true));
    Extras extras(session_, options, metadata, session_.timeout_ms);
    std::vector<Tensor> made = RunStep(session_, [&](Cancellation* cancel) {
      extras.options().cancellation = cancel;
      return callable_.Run(std::span<const Tensor>(feeds), extras.options(),
                           extras.metadata());
    });
    extras.Fill();
    feeds.clear();
    return fetches_.Assemble(std::move(made));
  }

  Callable(PySession& session, Fetches fetches, std::vector<Output> feeds,
           Session::Callable callable)
      : session(py::cast(&session, py::return_value_policy::reference)),
        session_(session),
        fetches_(std::move(fetches)),
        feeds_(std::move(feeds)),
        callable_(std::move(callable)) {}

  // What it calls with values may hold it in turn.
  int Traverse(visitproc visit, void* arg) const {
    return fetches_.Traverse(visit, arg);
  }

  const py::object session;  // Which is to outlive it.

 private:
  const PySession& session_;
  const Fetches fetches_;
  const std::vector<Output> feeds_;
  const Session::Callable callable_;
};

// Calls one from Python: f(*values, options=None, run_metadata=None).
PyObject* CallCallable(PyObject* self, PyObject* args, PyObject* kwargs) {
  const auto call = [&] {
    py::object options = py::none(), metadata = py::none();
    if (kwargs != nullptr)
      for (const auto& [key, value] :
           py::reinterpret_borrow<py::dict>(kwargs)) {
        const std::string name = py::str(key);
        if (name != "options" && name != "run_metadata")
          Raise(PyExc_TypeError,
                absl::StrCat("callable: expected no other names than options "
                             "and run_metadata, got ",
                             name));
        (name == "options" ? options : metadata) =
            py::reinterpret_borrow<py::object>(value);
      }
    const Callable* const callable = PartOf<Callable>(self);
    if (callable == nullptr)
      Raise(PyExc_TypeError,
            "callable: expected one that make_callable gave, got one that was "
            "made by its class");
    return (*callable)(py::reinterpret_borrow<py::tuple>(args), options,
                       metadata);
  };
  return FromLibrary(call).release().ptr();
}

// (The slot itself: a function of pybind11's, which finds out which of its
// overloads fits, would take a quarter of a small step.)
py::custom_type_setup SetUpCallable() {
  return py::custom_type_setup([](PyHeapTypeObject* heap) {
    Holds<Callable, &Callable::session>().value(heap);
    heap->ht_type.tp_call = CallCallable;
  });
}

std::unique_ptr<Callable> PySession::MakeCallable(const py::object& fetch,
                                                  std::vector<Output> feeds) {
  Fetches fetches(*this, fetch);
  for (const Output& o : feeds) CheckFeedable(o);
  Result<Session::Callable> callable = WithoutLock([&] {
    return session_->MakeCallable(feeds, fetches.outputs(), fetches.targets());
  });
  CheckRun(callable.status(), graph);
  return std::make_unique<Callable>(*this, std::move(fetches), std::move(feeds),
                                    *std::move(callable));
}

// A step that is fed in stages.
class PyPartialRun {
 public:
  PyPartialRun(PySession& session, std::unique_ptr<Session::PartialRun> run)
      : session(py::cast(&session, py::return_value_policy::reference)),
        session_(session),
        run_(std::move(run)) {}
  ~PyPartialRun() {
    WithoutLock([this] { run_.reset(); });
  }

  py::object Run(const py::object& fetch,
                 const std::optional<py::dict>& feed_dict) {
    const Fetches fetches(session_, fetch);
    // (Later stages read them, too.)
    Feeds feeds = session_.MakeFeeds(feed_dict, /*share=*/false);
    std::vector<Tensor> values = RunStep(session_, [&](Cancellation* cancel) {
      RunOptions options;
      options.timeout_ms = session_.timeout_ms;
      options.cancellation = cancel;
      const std::lock_guard<std::mutex> lock(mu_);
      return run_->Run(feeds, fetches.outputs(), options);
    });
    return fetches.Assemble(std::move(values));
  }

  const py::object session;  // Which is to outlive it.

 private:
  PySession& session_;
  std::mutex mu_;  // Threads take turns. Held without the interpreter's lock.
  std::unique_ptr<Session::PartialRun> run_;
};

std::unique_ptr<PyPartialRun> PySession::StartPartialRun(
    const py::object& fetch, const std::vector<Output>& feeds) {
  const Fetches fetches(*this, fetch);
  for (const Output& o : feeds) CheckFeedable(o);
  Result<std::unique_ptr<Session::PartialRun>> run = WithoutLock([&] {
    return session_->StartPartialRun(feeds, fetches.outputs(),
                                     fetches.targets());
  });
  CheckRun(run.status(), graph);
  return std::make_unique<PyPartialRun>(*this, *std::move(run));
}

}  // namespace

void AddSessions(py::module_& m) {
  py::class_<SessionOptions>(m, "SessionOptions")
      .def(py::init<>())
      // Of a serialised ConfigProto.
      .def_static(
          "from_config",
          [](const py::bytes& config) {
            return Checked(SessionFromConfig(std::string(config))).options;
          })
      .def_readwrite("inter_op_threads", &SessionOptions::inter_op_threads)
      .def_readwrite("intra_op_threads", &SessionOptions::intra_op_threads)
      .def_readwrite("constant_folding", &SessionOptions::constant_folding)
      .def_readwrite("common_subexpressions",
                     &SessionOptions::common_subexpressions)
      .def_readwrite("fusion", &SessionOptions::fusion)
      .def_readwrite("regions", &SessionOptions::regions)
      .def_readwrite("batch_frames", &SessionOptions::batch_frames)
      .def_readwrite("batch_open_frames", &SessionOptions::batch_open_frames);
  py::class_<PySession>(m, "Session", Holds<PySession, &PySession::graph>())
      .def(py::init<py::object, std::string, SessionOptions, int64_t>())
      .def("_run", &PySession::Run, py::arg(), py::arg() = py::none(),
           py::arg() = py::none(), py::arg() = py::none())
      .def("_make_callable", &PySession::MakeCallable)
      .def("_start_partial_run", &PySession::StartPartialRun)
      .def("_quantize",
           [](PySession& s, const std::vector<Output>& feeds,
              const std::vector<Output>& fetches,
              const std::vector<std::vector<py::object>>& steps,
              double percentile, std::vector<std::string> keep_float) {
             return s.Quantize(feeds, fetches, steps,
                               {percentile, std::move(keep_float)});
           })
      .def("_start_pipeline", &PySession::StartPipeline)
      .def("_pipeline_status",
           [](PySession& s, DatasetIterator& pipeline) {
             return s.PipelineStatus(pipeline);
           })
      .def("_close", &PySession::Close)
      .def("_reset", &PySession::Reset)
      .def("_devices", &PySession::Devices);
  py::class_<Callable>(m, "Callable", SetUpCallable());
  py::class_<PyPartialRun>(m, "PartialRun",
                           Holds<PyPartialRun, &PyPartialRun::session>())
      .def_readonly("session", &PyPartialRun::session)
      .def("_run", &PyPartialRun::Run);
}

}  // namespace sluice::python
