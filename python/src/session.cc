// _core.Session: runs steps, with fetches and feeds as Python has them.
//
// A fetch is a Tensor, an Operation (whose value is None), or lists, tuples,
// named tuples and dicts of fetches; what else it may be (names, variables,
// sparse tensors) a hook turns into these. Arrays that are fed are not copied
// where nothing that the step leaves behind can share their memory
// (feeds.h).
#include "session/session.h"

#include <chrono>
#include <optional>

#include "feeds.h"
#include "objects.h"
#include "values.h"

namespace sluice::py {
namespace {

struct SessionObject {
  PyObject_HEAD GraphObject* graph;  // Owned.
  Session* session;
  FeedSafety* safety;
};

// ---- Fetches ----------------------------------------------------------------

// What a step is asked for, in the order of the structure's leaves.
struct Fetches {
  std::vector<Output> outputs;
  std::vector<Node*> targets;
  // How the values make up what was asked for: a leaf each.
  struct Part {
    enum Kind { kValue, kNone, kList, kTuple, kNamedTuple, kDict, kExpanded };
    Kind kind;
    size_t index = 0;         // Of the value.
    std::vector<Part> parts;  // Of a container.
    Ref like;                 // The type, the keys, or the function.
  };
  Part root;
};

bool Collect(GraphObject* graph, PyObject* fetch, Fetches* all,
             Fetches::Part* part) {
  using Part = Fetches::Part;
  if (IsTensor(fetch)) {
    if (AsTensor(fetch)->graph != graph) {
      PyErr_Format(PyExc_ValueError,
                   "Fetch argument %R cannot be interpreted as a Tensor. "
                   "(Tensor %R is not an element of this graph.)",
                   fetch, fetch);
      return false;
    }
    part->kind = Part::kValue;
    part->index = all->outputs.size();
    all->outputs.push_back(OutputOf(fetch));
    return true;
  }
  if (IsOperation(fetch)) {
    if (AsOperation(fetch)->graph != graph) {
      PyErr_Format(PyExc_ValueError,
                   "Fetch argument %R cannot be interpreted as a Tensor. "
                   "(Operation %R is not an element of this graph.)",
                   fetch, fetch);
      return false;
    }
    part->kind = Part::kNone;
    all->targets.push_back(AsOperation(fetch)->node);
    return true;
  }
  const auto each = [&](PyObject* items) {
    const Py_ssize_t n = PySequence_Fast_GET_SIZE(items);
    part->parts.resize(static_cast<size_t>(n));
    for (Py_ssize_t i = 0; i < n; ++i)
      if (!Collect(graph, PySequence_Fast_GET_ITEM(items, i), all,
                   &part->parts[static_cast<size_t>(i)]))
        return false;
    return true;
  };
  if (PyList_Check(fetch)) {
    part->kind = Part::kList;
    return each(fetch);
  }
  if (PyTuple_CheckExact(fetch)) {
    part->kind = Part::kTuple;
    return each(fetch);
  }
  if (PyTuple_Check(fetch) && PyObject_HasAttrString(fetch, "_fields")) {
    part->kind = Part::kNamedTuple;
    part->like = Ref::Borrow(reinterpret_cast<PyObject*>(Py_TYPE(fetch)));
    return each(fetch);
  }
  if (PyDict_Check(fetch)) {
    part->kind = Part::kDict;
    part->like = Ref::Borrow(fetch);
    const Ref values(PyDict_Values(fetch));
    return values && each(values.get());
  }
  const Ref expanded(PyObject_CallFunctionObjArgs(
      GetHooks().expand_fetch, fetch, reinterpret_cast<PyObject*>(graph),
      nullptr));
  PyObject *parts = nullptr, *fn = nullptr;
  if (!expanded || !PyArg_ParseTuple(expanded.get(), "OO", &parts, &fn))
    return false;
  if (fn == Py_None) {  // One part, which stands for it.
    const Ref items(PySequence_Fast(parts, "expected a list"));
    return items &&
           Collect(graph, PySequence_Fast_GET_ITEM(items.get(), 0), all, part);
  }
  part->kind = Part::kExpanded;
  part->like = Ref::Borrow(fn);
  const Ref items(PySequence_Fast(parts, "expected a list"));
  return items && each(items.get());
}

PyObject* Assemble(const Fetches::Part& part, const std::vector<Ref>& values) {
  using Part = Fetches::Part;
  const auto n = static_cast<Py_ssize_t>(part.parts.size());
  switch (part.kind) {
    case Part::kValue:
      return Ref::Borrow(values[part.index].get()).release();
    case Part::kNone:
      Py_RETURN_NONE;
    case Part::kList:
    case Part::kExpanded: {
      Ref list(PyList_New(n));
      for (Py_ssize_t i = 0; i < n; ++i) {
        PyObject* const one =
            Assemble(part.parts[static_cast<size_t>(i)], values);
        if (one == nullptr) return nullptr;
        PyList_SET_ITEM(list.get(), i, one);
      }
      if (part.kind == Part::kList) return list.release();
      return PyObject_CallOneArg(part.like.get(), list.get());
    }
    case Part::kTuple:
    case Part::kNamedTuple: {
      Ref tuple(PyTuple_New(n));
      for (Py_ssize_t i = 0; i < n; ++i) {
        PyObject* const one =
            Assemble(part.parts[static_cast<size_t>(i)], values);
        if (one == nullptr) return nullptr;
        PyTuple_SET_ITEM(tuple.get(), i, one);
      }
      if (part.kind == Part::kTuple) return tuple.release();
      return PyObject_CallObject(part.like.get(), tuple.get());
    }
    case Part::kDict: {
      const auto* const type =
          reinterpret_cast<PyObject*>(Py_TYPE(part.like.get()));
      Ref dict(PyDict_CheckExact(part.like.get())
                   ? PyDict_New()
                   : PyObject_CallNoArgs(const_cast<PyObject*>(type)));
      const Ref keys(PyDict_Keys(part.like.get()));
      if (!dict || !keys) return nullptr;
      for (Py_ssize_t i = 0; i < n; ++i) {
        const Ref one(Assemble(part.parts[static_cast<size_t>(i)], values));
        if (!one || PyObject_SetItem(dict.get(), PyList_GET_ITEM(keys.get(), i),
                                     one.get()) < 0)
          return nullptr;
      }
      return dict.release();
    }
  }
  Py_RETURN_NONE;
}

PyObject* Values(const Fetches& fetches, std::vector<Tensor> tensors) {
  // Views of what is about to go: the arrays become the only owners.
  std::vector<Ref> values;
  values.reserve(tensors.size());
  for (Tensor& t : tensors) {
    values.emplace_back(ToNumpy(std::move(t)));
    if (!values.back()) return nullptr;
  }
  return Assemble(fetches.root, values);
}

// ---- Feeds ------------------------------------------------------------------

bool AddFeed(SessionObject* self, PyObject* key, PyObject* value,
             std::vector<PyObject*>* values, std::vector<Output>* outputs,
             std::vector<Ref>* held) {
  if (IsTensor(key)) {
    if (AsTensor(key)->graph != self->graph) {
      PyErr_Format(PyExc_TypeError,
                   "Cannot interpret feed_dict key as Tensor: Tensor %R is not "
                   "an element of this graph.",
                   key);
      return false;
    }
    outputs->push_back(OutputOf(key));
    values->push_back(value);
    return true;
  }
  Ref pairs(PyObject_CallFunctionObjArgs(
      GetHooks().expand_feed, key, value,
      reinterpret_cast<PyObject*>(self->graph), nullptr));
  if (!pairs) return false;
  PyObject *k = nullptr, *v = nullptr;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(pairs.get()); ++i) {
    if (!PyArg_ParseTuple(PyList_GET_ITEM(pairs.get(), i), "OO", &k, &v) ||
        !AddFeed(self, k, v, values, outputs, held))
      return false;
  }
  held->push_back(std::move(pairs));
  return true;
}

bool FeedValue(const Output& o, PyObject* value, bool share, Tensor* out) {
  if (IsTensor(value)) {
    PyErr_Format(PyExc_TypeError,
                 "The value of a feed cannot be a tf.Tensor object. Acceptable "
                 "feed values include Python scalars, strings, lists, numpy "
                 "ndarrays, or TensorHandles. For reference, the tensor object "
                 "was %R which was passed to the feed with key %s.",
                 value, o.name().c_str());
    return false;
  }
  if (!ToTensor(value, RemoveRef(o.dtype()), share, out)) return false;
  if (o.shape().CompatibleWith(PartialShape(out->shape()))) return true;
  const Ref have(FromShape(PartialShape(out->shape())));
  PyErr_Format(PyExc_ValueError,
               "Cannot feed value of shape %R for Tensor %s, which has shape "
               "%s; %s",
               have.get(), o.name().c_str(), o.shape().ToString().c_str(),
               o.node->Describe().c_str());
  return false;
}

// ---- A step -----------------------------------------------------------------

// RunOptions and RunMetadata of Python, as far as they are given.
struct Extras {
  RunOptions options;
  RunMetadata metadata;
  PyObject* python_metadata = nullptr;
};

bool ReadExtras(PyObject* options, PyObject* metadata, Extras* extras) {
  if (options != nullptr && options != Py_None) {
    const Ref timeout(PyObject_GetAttrString(options, "timeout_in_ms"));
    const Ref trace(PyObject_GetAttrString(options, "trace_level"));
    if (!timeout || !trace) return false;
    extras->options.timeout_ms = PyLong_AsLongLong(timeout.get());
    const long level = PyLong_AsLong(trace.get());
    if (PyErr_Occurred()) return false;
    extras->options.trace =
        level > 0 && metadata != nullptr && metadata != Py_None;
  }
  if (metadata != nullptr && metadata != Py_None)
    extras->python_metadata = metadata;
  return true;
}

bool WriteExtras(const Extras& extras) {
  if (extras.python_metadata == nullptr) return true;
  const RunMetadata& m = extras.metadata;
  const Ref done(
      PyObject_CallMethod(extras.python_metadata, "_fill", "LLLs",
                          static_cast<long long>(m.wall_ns),
                          static_cast<long long>(m.step_peak_bytes),
                          static_cast<long long>(m.live_bytes),
                          m.events.empty() ? "" : m.ChromeTrace().c_str()));
  return static_cast<bool>(done);
}

PyObject* Closed() {
  PyErr_SetString(PyExc_RuntimeError, "Attempted to use a closed Session.");
  return nullptr;
}

// run(fetches, feed_dict=None, options=None, run_metadata=None)
PyObject* SessionRun(PyObject* o, PyObject* const* args, Py_ssize_t n) {
  auto* const self = reinterpret_cast<SessionObject*>(o);
  if (self->session == nullptr) return Closed();
  if (n < 1 || n > 4) {
    PyErr_SetString(PyExc_TypeError, "run: expected 1 to 4 arguments");
    return nullptr;
  }
  Fetches fetches;
  if (!Collect(self->graph, args[0], &fetches, &fetches.root)) return nullptr;
  std::vector<PyObject*> values;
  std::vector<Output> outputs;
  std::vector<Ref> held;
  if (n > 1 && args[1] != Py_None) {
    if (!PyDict_Check(args[1]))
      return PyErr_Format(PyExc_TypeError,
                          "feed_dict: expected a dict, got %R of type %s",
                          args[1], Py_TYPE(args[1])->tp_name);
    PyObject *key = nullptr, *value = nullptr;
    for (Py_ssize_t at = 0; PyDict_Next(args[1], &at, &key, &value);)
      if (!AddFeed(self, key, value, &values, &outputs, &held)) return nullptr;
  }
  Feeds feeds;
  feeds.reserve(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    const bool share = self->safety->MayShare(outputs[i], fetches.outputs);
    feeds.emplace_back(outputs[i], Tensor());
    if (!FeedValue(outputs[i], values[i], share, &feeds.back().second))
      return nullptr;
  }
  Extras extras;
  if (!ReadExtras(n > 2 ? args[2] : nullptr, n > 3 ? args[3] : nullptr,
                  &extras))
    return nullptr;
  const Ref keep = Ref::Borrow(o);
  std::optional<Result<std::vector<Tensor>>> result;
  {
    const WithoutGil others_run;
    result.emplace(self->session->Run(
        feeds, fetches.outputs, fetches.targets, extras.options,
        extras.python_metadata == nullptr ? nullptr : &extras.metadata));
  }
  if (!result->ok())
    return RunFailed(result->status(),
                     reinterpret_cast<PyObject*>(self->graph));
  if (!WriteExtras(extras)) return nullptr;
  feeds.clear();
  return Values(fetches, *std::move(*result));
}

// ---- Callables --------------------------------------------------------------

struct CallableObject {
  PyObject_HEAD vectorcallfunc call;
  SessionObject* session;  // Owned.
  struct State {
    Session::Callable callable;
    std::vector<Output> feeds;
    std::vector<char> share;
    Fetches fetches;
  };
  State* state;
};

PyObject* CallStep(PyObject* o, PyObject* const* args, size_t nargsf,
                   PyObject* keywords) {
  auto* const self = reinterpret_cast<CallableObject*>(o);
  const auto n = static_cast<size_t>(PyVectorcall_NARGS(nargsf));
  CallableObject::State& s = *self->state;
  if (self->session->session == nullptr) return Closed();
  Extras extras;
  if (keywords != nullptr) {
    PyObject *options = nullptr, *metadata = nullptr;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(keywords); ++i) {
      PyObject* const key = PyTuple_GET_ITEM(keywords, i);
      if (PyUnicode_CompareWithASCIIString(key, "options") == 0)
        options = args[n + static_cast<size_t>(i)];
      else if (PyUnicode_CompareWithASCIIString(key, "run_metadata") == 0)
        metadata = args[n + static_cast<size_t>(i)];
      else
        return PyErr_Format(PyExc_TypeError, "unexpected keyword argument %R",
                            key);
    }
    if (!ReadExtras(options, metadata, &extras)) return nullptr;
  }
  if (n != s.feeds.size())
    return PyErr_Format(PyExc_TypeError,
                        "callable: expected %zu values for its feeds, got %zu",
                        s.feeds.size(), n);
  std::vector<Tensor> feeds(n);
  for (size_t i = 0; i < n; ++i)
    if (!FeedValue(s.feeds[i], args[i], s.share[i] != 0, &feeds[i]))
      return nullptr;
  const Ref keep = Ref::Borrow(o);
  std::optional<Result<std::vector<Tensor>>> result;
  {
    const WithoutGil others_run;
    result.emplace(s.callable.Run(
        std::span<const Tensor>(feeds), extras.options,
        extras.python_metadata == nullptr ? nullptr : &extras.metadata));
  }
  if (!result->ok())
    return RunFailed(result->status(),
                     reinterpret_cast<PyObject*>(self->session->graph));
  if (!WriteExtras(extras)) return nullptr;
  feeds.clear();
  if (s.fetches.root.kind == Fetches::Part::kValue)
    return ToNumpy(std::move((**result)[0]));
  return Values(s.fetches, *std::move(*result));
}

void CallableDealloc(PyObject* o) {
  PyObject_GC_UnTrack(o);
  auto* const self = reinterpret_cast<CallableObject*>(o);
  delete self->state;
  Py_XDECREF(self->session);
  Py_TYPE(o)->tp_free(o);
}
int CallableTraverse(PyObject* o, visitproc visit, void* arg) {
  Py_VISIT(reinterpret_cast<CallableObject*>(o)->session);
  return 0;
}

PyTypeObject MakeCallableType() {
  PyTypeObject t = {PyVarObject_HEAD_INIT(nullptr, 0)};
  t.tp_name = "sluice._core.Callable";
  t.tp_basicsize = sizeof(CallableObject);
  t.tp_flags =
      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_HAVE_GC;
  t.tp_vectorcall_offset = offsetof(CallableObject, call);
  t.tp_call = PyVectorcall_Call;
  t.tp_dealloc = CallableDealloc;
  t.tp_traverse = CallableTraverse;
  return t;
}
PyTypeObject CallableType = MakeCallableType();

// make_callable(fetches, feed_tensors) -> callable of values
PyObject* SessionMakeCallable(PyObject* o, PyObject* const* args,
                              Py_ssize_t n) {
  auto* const self = reinterpret_cast<SessionObject*>(o);
  if (self->session == nullptr) return Closed();
  if (n != 2) {
    PyErr_SetString(PyExc_TypeError, "make_callable: expected 2 arguments");
    return nullptr;
  }
  auto state = std::make_unique<CallableObject::State>();
  Fetches& f = state->fetches;
  if (!Collect(self->graph, args[0], &f, &f.root) ||
      !ToOutputs(args[1], &state->feeds))
    return nullptr;
  for (const Output& feed : state->feeds)
    state->share.push_back(self->safety->MayShare(feed, f.outputs) ? 1 : 0);
  std::optional<Result<Session::Callable>> made;
  {
    const WithoutGil others_run;
    made.emplace(
        self->session->MakeCallable(state->feeds, f.outputs, f.targets));
  }
  if (!made->ok())
    return RunFailed(made->status(), reinterpret_cast<PyObject*>(self->graph));
  state->callable = **made;
  auto* const callable = reinterpret_cast<CallableObject*>(
      CallableType.tp_alloc(&CallableType, 0));
  if (callable == nullptr) return nullptr;
  callable->call = CallStep;
  Py_INCREF(self);
  callable->session = self;
  callable->state = state.release();
  return reinterpret_cast<PyObject*>(callable);
}

// ---- Sessions ---------------------------------------------------------------

// Session(graph, target, options): options is a dict of SessionOptions' fields.
PyObject* SessionNew(PyTypeObject* type, PyObject* args, PyObject* keywords) {
  PyObject *graph = nullptr, *fields = nullptr;
  const char* target = "";
  static const char* names[] = {"graph", "target", "options", nullptr};
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "O!|sO!",
                                   const_cast<char**>(names), &GraphType,
                                   &graph, &target, &PyDict_Type, &fields))
    return nullptr;
  SessionOptions options;
  PyObject *key = nullptr, *value = nullptr;
  for (Py_ssize_t at = 0;
       fields != nullptr && PyDict_Next(fields, &at, &key, &value);) {
    const long number = PyLong_AsLong(value);
    if (number == -1 && PyErr_Occurred()) return nullptr;
    const auto is = [key](const char* name) {
      return PyUnicode_CompareWithASCIIString(key, name) == 0;
    };
    if (is("inter_op_threads"))
      options.inter_op_threads = static_cast<int>(number);
    else if (is("intra_op_threads"))
      options.intra_op_threads = static_cast<int>(number);
    else if (is("constant_folding"))
      options.constant_folding = number != 0;
    else if (is("common_subexpressions"))
      options.common_subexpressions = number != 0;
    else if (is("fusion"))
      options.fusion = number != 0;
    else if (is("regions"))
      options.regions = number != 0;
    else if (is("soft_placement"))
      options.soft_placement = number != 0;
    else if (is("isolated"))
      options.isolated = number != 0;
    else if (is("cpus"))
      options.devices = CpuDevices(static_cast<int>(number));
    else
      return PyErr_Format(PyExc_TypeError, "Session: no option %R", key);
  }
  auto* const self = reinterpret_cast<SessionObject*>(type->tp_alloc(type, 0));
  if (self == nullptr) return nullptr;
  Py_INCREF(graph);
  self->graph = AsGraph(graph);
  self->safety = new FeedSafety();
  Graph& g = self->graph->state->graph;
  if (*target == '\0') {
    self->session = new Session(g, options);
  } else {
    const WithoutGil others_run;
    self->session = new Session(std::string(target), g, options);
  }
  return reinterpret_cast<PyObject*>(self);
}

void SessionDealloc(PyObject* o) {
  PyObject_GC_UnTrack(o);
  auto* const self = reinterpret_cast<SessionObject*>(o);
  if (self->session != nullptr) {
    const WithoutGil
        others_run;  // It waits for threads that may want the lock.
    delete self->session;
  }
  delete self->safety;
  Py_XDECREF(self->graph);
  Py_TYPE(o)->tp_free(o);
}
int SessionTraverse(PyObject* o, visitproc visit, void* arg) {
  Py_VISIT(reinterpret_cast<SessionObject*>(o)->graph);
  return 0;
}

PyObject* SessionClose(PyObject* o, PyObject*) {
  auto* const self = reinterpret_cast<SessionObject*>(o);
  if (self->session == nullptr) Py_RETURN_NONE;
  {
    const WithoutGil others_run;
    (void)self->session->Close();
  }
  Py_RETURN_NONE;
}

PyObject* SessionDevices(PyObject* o, PyObject*) {
  auto* const self = reinterpret_cast<SessionObject*>(o);
  if (self->session == nullptr) return Closed();
  std::optional<Result<std::vector<std::string>>> names;
  {
    const WithoutGil others_run;
    names.emplace(self->session->ListDevices());
  }
  if (!names->ok())
    return RunFailed(names->status(), reinterpret_cast<PyObject*>(self->graph));
  Ref list(PyList_New(0));
  for (const std::string& name : **names) {
    const Ref one(FromString(name));
    if (!one || PyList_Append(list.get(), one.get()) < 0) return nullptr;
  }
  return list.release();
}

PyMethodDef session_methods[] = {
    {"_run", Fast(SessionRun), METH_FASTCALL, nullptr},
    {"_make_callable", Fast(SessionMakeCallable), METH_FASTCALL, nullptr},
    {"_close", SessionClose, METH_NOARGS, nullptr},
    {"_devices", SessionDevices, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};

PyTypeObject MakeSessionType() {
  PyTypeObject t = {PyVarObject_HEAD_INIT(nullptr, 0)};
  t.tp_name = "sluice._core.Session";
  t.tp_basicsize = sizeof(SessionObject);
  t.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC;
  t.tp_new = SessionNew;
  t.tp_dealloc = SessionDealloc;
  t.tp_traverse = SessionTraverse;
  t.tp_methods = session_methods;
  return t;
}
PyTypeObject SessionType = MakeSessionType();

}  // namespace

bool AddSessionTypes(PyObject* module) {
  return PyModule_AddType(module, &SessionType) == 0 &&
         PyModule_AddType(module, &CallableType) == 0;
}

}  // namespace sluice::py
