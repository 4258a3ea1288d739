// The native C API: loops, conditionals, functions and gradients.
#include <algorithm>
#include <mutex>
#include <set>

#include "capi/native.h"
#include "client/autodiff/gradients.h"
#include "client/body_in_progress.h"
#include "client/control/control_flow.h"
#include "graph/op_library.h"

namespace sluice::capi {
namespace {

Status GivenBody(sl_body body, const char* what) {
  return body != nullptr
             ? OkStatus()
             : InvalidArgument(what, ": expected a function, got null");
}

std::vector<sl_output> AllToNative(const std::vector<Output>& list) {
  std::vector<sl_output> all;
  all.reserve(list.size());
  for (const Output& o : list) all.push_back(ToNative(o));
  return all;
}

// Calls a body in the ambient graph; its n outputs.
std::vector<Output> CallBody(sl_graph* graph, sl_body body,
                             const std::vector<Output>& in, size_t n,
                             void* data, SourceLoc loc) {
  const std::vector<sl_output> given = AllToNative(in);
  std::vector<sl_output> made(n, sl_output{nullptr, 0});
  body(graph, given.data(), made.data(), data);
  std::vector<Output> outputs;
  for (const sl_output& o : made) {
    outputs.push_back(FromNative(o));
    if (const Status s = CheckHas(outputs.back(), "output of a body"); !s.ok())
      outputs.back() = BuildError(s, loc);
  }
  return outputs;
}

std::vector<Operand> AsOperands(const std::vector<Output>& outputs,
                                SourceLoc loc) {
  std::vector<Operand> all;
  for (const Output& o : outputs) all.emplace_back(o, loc.file, loc.line);
  return all;
}

// Stores the n results of a construct; the error of one that is null. (One more
// than n is the failure of a construct without results.)
Status StoreResults(Graph& g, const std::vector<Output>& made, size_t n,
                    sl_output* results) {
  const std::lock_guard<std::recursive_mutex> lock(g.mutex());
  for (size_t i = 0; i < std::max(n, made.size()); ++i) {
    const Output o = i < made.size() ? made[i] : g.Failure();
    if (i < n) results[i] = ToNative(o);
    if (!o.valid())
      return WhyFailed(g, o, "result: expected one that was built, got none");
  }
  return OkStatus();
}

// The outputs that a construct is built of. It may store its results in the
// same array.
struct GivenOutputs {
  const sl_output* list;
  size_t n;
  const char* what;
};

// Calls fn(graph, line, outputs given), which builds n results, in the graph.
// Errors are the graph's, too.
template <typename Fn>
sl_status* BuiltResults(sl_graph* graph, const sl_loc& at, const char* what,
                        const GivenOutputs& given, sl_output* results, size_t n,
                        Fn&& fn) {
  return Outcome(what, [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(GivenList(results, n, "room for the results"));
    const Result<std::vector<Output>> in =
        OutputsFromNative(given.list, given.n, given.what);
    for (size_t i = 0; i < n; ++i) results[i] = {nullptr, 0};
    SLUICE_RETURN_IF_ERROR(GivenHandle(graph, "graph"));
    Graph& g = *graph->graph;
    const NativeScope here(*graph);
    const SourceLoc loc = LineFrom(g, at);
    const Result<std::vector<Output>> made =
        in.ok() ? fn(g, loc, *in) : Result<std::vector<Output>>(in.status());
    if (made.ok()) return StoreResults(g, *made, n, results);
    const Output failed = BuildError(made.status(), loc);
    for (size_t i = 0; i < n; ++i) results[i] = ToNative(failed);
    return WhyFailed(g, failed, what);
  });
}

Status ReadWhileOptions(const sl_while_options* given, size_t n,
                        WhileOptions* options) {
  sl_while_options o;
  SLUICE_RETURN_IF_ERROR(ReadSpec(given, "options of a loop", &o));
  if (o.name != nullptr) options->name = o.name;
  if (o.parallel_iterations != 0)
    options->parallel_iterations = o.parallel_iterations;
  options->back_prop = o.no_gradients == 0;
  options->batch = o.batch != 0;
  for (size_t i = 0; o.shapes != nullptr && i < n; ++i) {
    SLUICE_ASSIGN_OR_RETURN(
        PartialShape s, PartialFromNative(o.shapes[i].dims, o.shapes[i].rank));
    options->shape_invariants.push_back(std::move(s));
  }
  return OkStatus();
}

Result<std::vector<DType>> TypesFrom(const sl_dtype* list, size_t n,
                                     const char* what) {
  SLUICE_RETURN_IF_ERROR(GivenList(list, n, what));
  std::vector<DType> types;
  for (size_t i = 0; i < n; ++i) {
    types.push_back(TypeFromNative(list[i]));
    if (types.back() == DType::kInvalid)
      return InvalidArgument(what, "[", i,
                             "]: expected one of the sl_dtypes, got ", list[i]);
  }
  return types;
}

// Calls a function. If it fails, one of the outputs is null: a call without
// results shows its error only in the graph.
Result<std::vector<Output>> CallFunction(Graph& g, const Function& f,
                                         const std::vector<Output>& args,
                                         size_t num_results, SourceLoc loc) {
  const std::lock_guard<std::recursive_mutex> lock(g.mutex());
  const size_t errors = g.errors().size(), nodes = g.nodes().size();
  std::vector<Output> made = f(args, loc);
  if (!made.empty() && made.size() != num_results)
    return InvalidArgument("results: expected room for ", made.size(),
                           " of function '", f.name(), "', got ", num_results);
  if (!made.empty()) return made;
  const std::vector<Output> failed = {g.Failure()};
  if (g.errors().size() > errors) return failed;
  for (const Output& o : args)  // (Its error is of an earlier call.)
    if (!o.valid()) return std::vector<Output>{o};
  if (g.nodes().size() == nodes) return failed;  // (kMaxErrors are kept.)
  if (num_results == 0) return made;
  return InvalidArgument("results: expected room for 0 of function '", f.name(),
                         "', got ", num_results);
}

// Whether `inner` is the graph, or the body of a function that is being defined
// within it, whose nodes may use the graph's.
bool IsWithin(const Graph* inner, const Graph* graph) {
  for (const BodyInProgress* b = CurrentBody(); b != nullptr; b = b->outer)
    if (inner != graph && b->body == inner) inner = b->owner;
  return inner == graph;
}

// InvalidArgument for a node that gradients in `home` cannot use.
Status CheckWithin(const Graph* home, const std::vector<Output>& list,
                   const char* what) {
  for (size_t i = 0; i < list.size(); ++i)
    if (list[i].valid() && !IsWithin(home, list[i].graph()))
      return InvalidArgument(what, "[", i,
                             "]: expected a node of this graph, got ",
                             list[i].node->Describe(), " of another");
  return OkStatus();
}

// The graph of the ys, in which gradients are built.
Result<const Graph*> HomeOf(const Graph& g, const std::vector<Output>& ys) {
  SLUICE_RETURN_IF_ERROR(CheckWithin(&g, ys, "ys"));
  const Graph* const home = ys.empty() || !ys[0].valid() ? &g : ys[0].graph();
  for (size_t i = 0; i < ys.size(); ++i)
    if (ys[i].valid() && ys[i].graph() != home)
      return InvalidArgument("ys[", i, "]: expected a node of the graph of '",
                             ys[0].node->name(), "', got ",
                             ys[i].node->Describe(), " of another");
  return home;
}

// The ops that sl_register_gradient gave a gradient. Thread-safe.
struct OpsWithGradientInC {
  std::mutex mu;
  std::set<std::string> names;  // GUARDED_BY(mu)
};
OpsWithGradientInC& GradientsInC() {
  static OpsWithGradientInC* const ops = new OpsWithGradientInC();
  return *ops;
}

// Defines `made`; the first error of the graph that it adds.
Status DefineIn(Graph& g, const std::string& name,
                const std::vector<DType>& arguments,
                const std::vector<DType>& results, sl_body body, void* data,
                SourceLoc loc, sl_function* made) {
  const std::lock_guard<std::recursive_mutex> lock(g.mutex());
  const size_t errors = g.errors().size();
  made->function = DefineFunction(
      name, arguments, results,
      [&](const Function& self, const std::vector<Output>& args) {
        made->function = self;
        sl_graph inside(CurrentGraph());
        return FunctionResults(
            CallBody(&inside, body, args, results.size(), data, loc));
      },
      {}, loc);
  if (g.errors().size() > errors) return g.errors()[errors];
  if (errors >= Graph::kMaxErrors) return g.errors().back();
  return OkStatus();
}

// Adds the gradients, and calls store(gradient, x, dx), which returns its
// output, for each; `none` is what failed ones stay.
template <typename Slope, typename Fn>
sl_status* BuiltGradients(sl_graph* graph, const sl_loc& at,
                          const GivenOutputs& ys, const GivenOutputs& xs,
                          const GivenOutputs& dys, Slope* dxs,
                          const Slope& none, Fn&& store) {
  return Outcome("gradients", [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(GivenList(dxs, xs.n, "room for the gradients"));
    // (The results may be stored in the array of one of them.)
    const Result<std::vector<Output>> y =
        OutputsFromNative(ys.list, ys.n, ys.what);
    const Result<std::vector<Output>> x =
        OutputsFromNative(xs.list, xs.n, xs.what);
    const Result<std::vector<Output>> dy =
        OutputsFromNative(dys.list, dys.n, dys.what);
    for (size_t i = 0; i < xs.n; ++i) dxs[i] = none;
    SLUICE_RETURN_IF_ERROR(GivenHandle(graph, "graph"));
    Graph& g = *graph->graph;
    const std::lock_guard<std::recursive_mutex> lock(g.mutex());
    const NativeScope here(*graph);
    const SourceLoc loc = LineFrom(g, at);
    SLUICE_RETURN_IF_ERROR(y.status());
    SLUICE_RETURN_IF_ERROR(x.status());
    SLUICE_RETURN_IF_ERROR(dy.status());
    SLUICE_ASSIGN_OR_RETURN(const Graph* const home, HomeOf(g, *y));
    SLUICE_RETURN_IF_ERROR(CheckWithin(home, *x, "xs"));
    SLUICE_RETURN_IF_ERROR(CheckWithin(home, *dy, "dys"));
    // (For Gradients a null one stands for ones.)
    for (size_t i = 0; i < dy->size(); ++i)
      if (!(*dy)[i].valid())
        return WhyFailed(
            g, (*dy)[i],
            absl::StrCat("dys[", i, "]: expected an output, got none").c_str());
    GradientOptions options;
    options.grad_ys.assign(dy->begin(), dy->end());
    SLUICE_ASSIGN_OR_RETURN(
        const std::vector<Gradient> made,
        Gradients(*y, {x->begin(), x->end()}, options, loc));
    for (size_t i = 0; i < made.size(); ++i) {
      const Output dx = store(made[i], (*x)[i], &dxs[i]);
      if (!dx.valid() && dx.error() >= 0)
        return WhyFailed(g, dx, "gradient: expected an output, got none");
    }
    return OkStatus();
  });
}

// Calls a gradient function in C.
Status CallGradientInC(sl_gradient fn, void* data, GradContext& c) {
  sl_graph graph(CurrentGraph());
  const std::vector<sl_output> dy = AllToNative(c.dy);
  std::vector<sl_output> dx(c.grads.size(), sl_output{nullptr, 0});
  SLUICE_RETURN_IF_ERROR(
      TakeStatus(fn(&graph, ToNative(c.op), dy.data(), dx.data(), data)));
  for (size_t i = 0; i < dx.size(); ++i) {
    const Output o = FromNative(dx[i]);
    SLUICE_RETURN_IF_ERROR(CheckHas(o, absl::StrCat("dx[", i, "]").c_str()));
    if (!o.valid() && o.error() >= 0)
      return WhyFailed(*graph.graph, o, "dx: expected an output, got none");
    if (o.valid()) c.grads[i] = o;
  }
  return OkStatus();
}

}  // namespace

bool HasGradientInC(const std::string& op) {
  OpsWithGradientInC& all = GradientsInC();
  const std::lock_guard<std::mutex> lock(all.mu);
  return all.names.count(op) > 0;
}

}  // namespace sluice::capi

using namespace sluice;        // NOLINT
using namespace sluice::capi;  // NOLINT

extern "C" {

sl_status* sl_while(sl_graph* graph, sl_loc at, const sl_output* init, size_t n,
                    sl_body condition, sl_body body, void* data,
                    const sl_while_options* options, sl_output* results) {
  return BuiltResults(
      graph, at, "loop", {init, n, "init"}, results, n,
      [&](Graph&, SourceLoc loc,
          const std::vector<Output>& values) -> Result<std::vector<Output>> {
        SLUICE_RETURN_IF_ERROR(GivenBody(condition, "condition of a loop"));
        SLUICE_RETURN_IF_ERROR(GivenBody(body, "body of a loop"));
        if (n == 0)
          return InvalidArgument("loop: expected a variable, got none");
        WhileOptions read;
        SLUICE_RETURN_IF_ERROR(ReadWhileOptions(options, n, &read));
        const auto part = [&](sl_body fn, size_t outputs) {
          return [&, fn, outputs](const std::vector<Output>& variables) {
            return AsOperands(
                CallBody(graph, fn, variables, outputs, data, loc), loc);
          };
        };
        return sluice::internal::BuildWhile(AsOperands(values, loc),
                                            part(condition, 1), part(body, n),
                                            read, loc);
      });
}

sl_status* sl_cond(sl_graph* graph, sl_loc at, sl_output condition,
                   sl_body then, sl_body otherwise, void* data,
                   sl_output* results, size_t n) {
  return BuiltResults(
      graph, at, "conditional", {&condition, 1, "condition"}, results, n,
      [&](Graph&, SourceLoc loc,
          const std::vector<Output>& given) -> Result<std::vector<Output>> {
        SLUICE_RETURN_IF_ERROR(GivenBody(then, "branch"));
        SLUICE_RETURN_IF_ERROR(GivenBody(otherwise, "other branch"));
        if (n == 0)
          return InvalidArgument("conditional: expected a result, got none");
        const auto branch = [&](sl_body fn) {
          return [&, fn] {
            return AsOperands(CallBody(graph, fn, {}, n, data, loc), loc);
          };
        };
        return sluice::internal::BuildCond(
            Operand(given[0], loc.file, loc.line), branch(then),
            branch(otherwise), "cond", loc);
      });
}

sl_status* sl_function_define(sl_graph* graph, sl_loc at, const char* name,
                              const sl_dtype* arguments, size_t num_arguments,
                              const sl_dtype* results, size_t num_results,
                              sl_body body, void* data, sl_function** made) {
  return Outcome("function", [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(GivenRoom(made));
    SLUICE_RETURN_IF_ERROR(GivenHandle(graph, "graph"));
    SLUICE_RETURN_IF_ERROR(GivenList(name, 1, "name of a function"));
    SLUICE_RETURN_IF_ERROR(GivenBody(body, "body of a function"));
    SLUICE_ASSIGN_OR_RETURN(
        const std::vector<DType> in,
        TypesFrom(arguments, num_arguments, "types of arguments"));
    SLUICE_ASSIGN_OR_RETURN(
        const std::vector<DType> out,
        TypesFrom(results, num_results, "types of results"));
    const NativeScope here(*graph);
    *made = new sl_function;
    const Status s = WithoutThrowing("function", [&] {
      return DefineIn(*graph->graph, name, in, out, body, data,
                      LineFrom(*graph->graph, at), *made);
    });
    if (!s.ok()) {
      delete *made;
      *made = nullptr;
    }
    return s;
  });
}

sl_status* sl_function_call(sl_graph* graph, sl_loc at,
                            const sl_function* function,
                            const sl_output* arguments, size_t num_arguments,
                            sl_output* results, size_t num_results) {
  return BuiltResults(
      graph, at, "call", {arguments, num_arguments, "arguments"}, results,
      num_results,
      [&](Graph& g, SourceLoc loc,
          const std::vector<Output>& args) -> Result<std::vector<Output>> {
        SLUICE_RETURN_IF_ERROR(GivenHandle(function, "function"));
        return CallFunction(g, function->function, args, num_results, loc);
      });
}

const char* sl_function_name(const sl_function* function) {
  return GivenHandle(function, "function").ok()
             ? function->function.name().c_str()
             : nullptr;
}
void sl_function_free(sl_function* function) {
  if (GivenHandle(function, "function").ok()) delete function;
}

// ---- Gradients --------------------------------------------------------------

sl_status* sl_gradients(sl_graph* graph, sl_loc at, const sl_output* ys,
                        size_t num_ys, const sl_output* xs, size_t num_xs,
                        const sl_output* dys, sl_output* dxs) {
  return BuiltGradients(graph, at, {ys, num_ys, "ys"}, {xs, num_xs, "xs"},
                        {dys, dys == nullptr ? 0 : num_ys, "dys"}, dxs,
                        sl_output{nullptr, 0},
                        [](const Gradient& g, const Output& x, sl_output* dx) {
                          const Output dense = Densify(g, x);
                          *dx = ToNative(dense);
                          return dense;
                        });
}

sl_status* sl_sparse_gradients(sl_graph* graph, sl_loc at, const sl_output* ys,
                               size_t num_ys, const sl_output* xs,
                               size_t num_xs, const sl_output* dys,
                               sl_slope* dxs) {
  return BuiltGradients(graph, at, {ys, num_ys, "ys"}, {xs, num_xs, "xs"},
                        {dys, dys == nullptr ? 0 : num_ys, "dys"}, dxs,
                        sl_slope{{nullptr, 0}, {nullptr, 0}},
                        [](const Gradient& g, const Output&, sl_slope* dx) {
                          const Output& values =
                              g.is_sparse() ? g.values : g.dense;
                          dx->values = ToNative(values);
                          if (g.is_sparse()) dx->indices = ToNative(g.indices);
                          return values;
                        });
}

sl_status* sl_register_gradient(const char* op, sl_gradient gradient,
                                void* data) {
  return Outcome("gradient", [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(GivenList(op, 1, "name of an op"));
    if (gradient == nullptr)
      return InvalidArgument("gradient '", op,
                             "': expected a function, got null");
    const Status s = RegisterGradient(op, [gradient, data](GradContext& c) {
      return CallGradientInC(gradient, data, c);
    });
    if (!s.ok()) {
      (void)sluice::internal::FailLoad(s);
      return s;
    }
    const std::string name = op;
    {
      OpsWithGradientInC& all = GradientsInC();
      const std::lock_guard<std::mutex> lock(all.mu);
      all.names.insert(name);
    }
    (void)sluice::internal::UndoUnlessLoaded([name] {
      OpsWithGradientInC& all = GradientsInC();
      const std::lock_guard<std::mutex> lock(all.mu);
      all.names.erase(name);
    });
    return OkStatus();
  });
}

}  // extern "C"
