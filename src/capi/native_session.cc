// The native C API: sessions, steps and saved models.
#include <algorithm>

#include "absl/container/inlined_vector.h"
#include "capi/native.h"
#include "deploy/saved_model.h"
#include "exec/core/cancellation.h"
#include "session/session_config.h"

struct sl_cancellation : sluice::capi::Tagged<7> {
  // Shared with asynchronous runs.
  const std::shared_ptr<sluice::Cancellation> cancellation =
      std::make_shared<sluice::Cancellation>();
};

// Thread-safe. Keeps its session and its graph.
struct sl_step : sluice::capi::Tagged<8> {
  const std::shared_ptr<sluice::Graph> graph;
  const std::shared_ptr<sluice::Session> session;
  const sluice::Session::Callable callable;
  const size_t num_feeds, num_fetches;
  sl_step(const sl_session& s, sluice::Session::Callable c, size_t feeds,
          size_t fetches)
      : graph(s.graph),
        session(s.session),
        callable(std::move(c)),
        num_feeds(feeds),
        num_fetches(fetches) {}
};

// The handles that it hands out keep the model.
struct sl_model : sluice::capi::Tagged<9> {
  const std::shared_ptr<sluice::SavedModel> model;
  sl_graph graph;
  sl_session session;
  explicit sl_model(const std::shared_ptr<sluice::SavedModel>& m)
      : model(m),
        graph(m->graph()),
        session(std::shared_ptr<sluice::Graph>(m, &m->graph()),
                std::shared_ptr<sluice::Session>(m, &m->session())) {
    session.of_model = true;
  }
};

namespace sluice::capi {

Result<SessionOptions> OptionsFrom(const sl_session_options* given) {
  sl_session_options o;
  SLUICE_RETURN_IF_ERROR(ReadSpec(given, "options of a session", &o));
  SLUICE_RETURN_IF_ERROR(GivenList(o.config, o.config_size, "ConfigProto"));
  SLUICE_ASSIGN_OR_RETURN(
      ConfiguredSession configured,
      SessionFromConfig({static_cast<const char*>(o.config), o.config_size}));
  SessionOptions options = std::move(configured.options);
  if (o.inter_op_threads != 0)
    options.inter_op_threads = std::max(o.inter_op_threads, 0);
  if (o.intra_op_threads != 0) options.intra_op_threads = o.intra_op_threads;
  if (o.max_call_depth != 0) options.max_call_depth = o.max_call_depth;
  if (o.soft_placement != 0) options.soft_placement = true;
  if (o.batch != 0) options.batch_frames = true;
  if (o.as_built != 0)
    options.constant_folding = options.common_subexpressions = options.regions =
        options.fusion = false;
  if (o.share != nullptr) {
    SLUICE_RETURN_IF_ERROR(GivenHandle(o.share, "session to share with"));
    options.resources = o.share->session->options().resources;
  }
  return options;
}

namespace {

using NativeValues = absl::InlinedVector<Tensor, 4>;
using NewTensors = absl::InlinedVector<std::unique_ptr<sl_tensor>, 4>;

// Options of a run. Without any it costs nothing. `kept` gets the cancellation
// for a run that lasts longer than the call.
Status ReadRun(const sl_run_options* given, RunOptions* options,
               std::shared_ptr<Cancellation>* kept = nullptr) {
  if (given == nullptr) return OkStatus();
  sl_run_options o;
  SLUICE_RETURN_IF_ERROR(ReadSpec(given, "options of a run", &o));
  options->timeout_ms = o.timeout_ms;
  if (o.cancellation != nullptr) {
    SLUICE_RETURN_IF_ERROR(GivenHandle(o.cancellation, "cancellation"));
    options->cancellation = o.cancellation->cancellation.get();
    if (kept != nullptr) *kept = o.cancellation->cancellation;
  }
  if (o.log != nullptr)
    options->log = [log = o.log, data = o.log_data](const std::string& text) {
      log(text.data(), text.size(), data);
    };
  return OkStatus();
}

// Checks the caller's tensors for results, and makes those that it lacks.
Status PrepareResults(sl_tensor* const* results, size_t n, NewTensors* made) {
  SLUICE_RETURN_IF_ERROR(GivenList(results, n, "room for the results"));
  made->resize(n);
  for (size_t i = 0; i < n; ++i)
    if (results[i] == nullptr)
      (*made)[i] = std::make_unique<sl_tensor>();
    else
      SLUICE_RETURN_IF_ERROR(GivenHandle(results[i], "result"));
  return OkStatus();
}

// Stores the values, which a step made.
void StoreValues(NativeValues* values, NewTensors* made, sl_tensor** results) {
  for (size_t i = 0; i < values->size(); ++i) {
    Tensor& value = (*values)[i];
    if (!value.valid()) continue;  // Of a node without outputs.
    if (results[i] == nullptr) results[i] = (*made)[i].release();
    results[i]->value = std::move(value);
    results[i]->lent = nullptr;
    results[i]->copies = false;
  }
}

// Copies a value in lent memory: an input that is fetched unchanged.
Status KeepFetched(Tensor* value) {
  if (!value->borrowed()) return OkStatus();
  SLUICE_ASSIGN_OR_RETURN(*value, value->Clone());
  return OkStatus();
}

// Runs a step with these fed values.
Status RunCallable(const Session::Callable& callable,
                   const NativeValues& values, size_t num_fetches,
                   sl_tensor** results, const sl_run_options* given) {
  RunOptions options;
  SLUICE_RETURN_IF_ERROR(ReadRun(given, &options));
  NewTensors made;
  SLUICE_RETURN_IF_ERROR(PrepareResults(results, num_fetches, &made));
  NativeValues fetched(num_fetches);
  SLUICE_RETURN_IF_ERROR(callable.RunInto({values.data(), values.size()},
                                          {fetched.data(), fetched.size()},
                                          options));
  for (Tensor& value : fetched) SLUICE_RETURN_IF_ERROR(KeepFetched(&value));
  StoreValues(&fetched, &made, results);
  return OkStatus();
}

Status AddFed(const sl_tensor* value, size_t i, NativeValues* values) {
  Result<Tensor> t = FedValue(value);
  if (!t.ok()) return Annotate(t.status(), absl::StrCat("feeds[", i, "]"));
  values->push_back(*std::move(t));
  return OkStatus();
}

// The values of a step.
Status FedValues(const sl_step& step, sl_tensor* const* values,
                 NativeValues* fed) {
  SLUICE_RETURN_IF_ERROR(GivenList(values, step.num_feeds, "values"));
  for (size_t i = 0; i < step.num_feeds; ++i)
    SLUICE_RETURN_IF_ERROR(AddFed(values[i], i, fed));
  return OkStatus();
}

// Tells the end of a run.
void CallDoneInC(sl_done done, void* data,
                 Result<std::vector<Tensor>> fetched) {
  NewTensors made;
  sl_status* const failed = Outcome("step", [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(fetched.status());
    made.resize(fetched->size());
    for (size_t i = 0; i < made.size(); ++i) {
      Tensor& value = (*fetched)[i];
      if (!value.valid()) continue;  // Of a node without outputs.
      SLUICE_RETURN_IF_ERROR(KeepFetched(&value));
      made[i] = std::make_unique<sl_tensor>();
      made[i]->value = std::move(value);
    }
    return OkStatus();
  });
  if (failed != nullptr) return done(failed, nullptr, 0, data);
  absl::InlinedVector<sl_tensor*, 4> results;
  for (auto& t : made) results.push_back(t.release());
  done(nullptr, results.data(), results.size(), data);
}

// Edges of a step, which the session checks.
Result<std::vector<Output>> Edges(const sl_output* list, size_t n,
                                  const char* what) {
  SLUICE_RETURN_IF_ERROR(GivenList(list, n, what));
  std::vector<Output> edges;
  for (size_t i = 0; i < n; ++i) edges.push_back(FromNative(list[i]));
  return edges;
}

Status FindInSignature(sl_model* model, const char* signature, const char* name,
                       bool input, sl_output* found) {
  SLUICE_RETURN_IF_ERROR(GivenList(found, 1, "room for the output"));
  *found = {nullptr, 0};
  SLUICE_RETURN_IF_ERROR(GivenHandle(model, "saved model"));
  SLUICE_RETURN_IF_ERROR(GivenList(name, 1, "name"));
  const std::string of = signature == nullptr ? kDefaultSignature : signature;
  SLUICE_ASSIGN_OR_RETURN(const auto edges, input ? model->model->Inputs(of)
                                                  : model->model->Outputs(of));
  const auto it = edges.find(name);
  if (it != edges.end()) {
    *found = ToNative(it->second);
    return OkStatus();
  }
  std::string known;
  for (const auto& [key, edge] : edges)
    absl::StrAppend(&known, known.empty() ? "'" : ", '", key, "'");
  return NotFound("signature '", of, "': expected one of ",
                  known.empty() ? "none" : known, ", got '", name, "'");
}

}  // namespace
}  // namespace sluice::capi

using namespace sluice;        // NOLINT
using namespace sluice::capi;  // NOLINT

extern "C" {

sl_status* sl_session_new(sl_graph* graph, const sl_session_options* options,
                          sl_session** made) {
  return Outcome("session", [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(GivenRoom(made));
    SLUICE_RETURN_IF_ERROR(GivenHandle(graph, "graph"));
    if (graph->owned == nullptr)
      return InvalidArgument(
          "graph: expected one of sl_graph_new, got that of a callback or of a "
          "model");
    SLUICE_ASSIGN_OR_RETURN(SessionOptions read, OptionsFrom(options));
    sl_session_options o;
    SLUICE_RETURN_IF_ERROR(ReadSpec(options, "options of a session", &o));
    const std::string target = TextOf(o.target);
    auto session =
        target.empty() || target == "local"
            ? std::make_shared<Session>(*graph->owned, std::move(read))
            : std::make_shared<Session>(target, *graph->owned, std::move(read));
    // (Options that are wrong.)
    SLUICE_RETURN_IF_ERROR(session->RunTargets({}));
    *made = new sl_session(graph->owned, std::move(session));
    return OkStatus();
  });
}

sl_status* sl_session_close(sl_session* session) {
  return Outcome("session", [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(GivenHandle(session, "session"));
    return session->session->Close();
  });
}

void sl_session_free(sl_session* session) {
  if (!GivenHandle(session, "session").ok() || session->of_model) return;
  (void)WithoutThrowing("session", [&] { return session->session->Close(); });
  delete session;
}

sl_status* sl_session_run(sl_session* session, const sl_feed* feeds,
                          size_t num_feeds, const sl_output* fetches,
                          size_t num_fetches, sl_tensor** results,
                          const sl_run_options* options) {
  return Outcome("step", [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(GivenHandle(session, "session"));
    SLUICE_RETURN_IF_ERROR(GivenList(feeds, num_feeds, "feeds"));
    SLUICE_ASSIGN_OR_RETURN(const std::vector<Output> fetched,
                            Edges(fetches, num_fetches, "fetches"));
    std::vector<Output> fed;
    NativeValues values;
    for (size_t i = 0; i < num_feeds; ++i) {
      fed.push_back(FromNative(feeds[i].output));
      SLUICE_RETURN_IF_ERROR(AddFed(feeds[i].value, i, &values));
    }
    SLUICE_ASSIGN_OR_RETURN(const Session::Callable callable,
                            session->session->MakeCallable(fed, fetched));
    return RunCallable(callable, values, num_fetches, results, options);
  });
}

sl_status* sl_session_devices(sl_session* session,
                              void (*each)(const char* name, void* data),
                              void* data) {
  return Outcome("devices", [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(GivenHandle(session, "session"));
    SLUICE_RETURN_IF_ERROR(GivenEach(each));
    SLUICE_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                            session->session->ListDevices());
    for (const std::string& name : names) each(name.c_str(), data);
    return OkStatus();
  });
}

sl_status* sl_cancellation_new(sl_cancellation** made) {
  return Outcome("cancellation", [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(GivenRoom(made));
    *made = new sl_cancellation;
    return OkStatus();
  });
}
void sl_cancel(sl_cancellation* cancellation) {
  if (!GivenHandle(cancellation, "cancellation").ok()) return;
  (void)WithoutThrowing("cancellation", [&] {
    cancellation->cancellation->Cancel();
    return OkStatus();
  });
}
void sl_cancellation_free(sl_cancellation* cancellation) {
  if (GivenHandle(cancellation, "cancellation").ok()) delete cancellation;
}

sl_status* sl_step_new(sl_session* session, const sl_output* feeds,
                       size_t num_feeds, const sl_output* fetches,
                       size_t num_fetches, sl_step** made) {
  return Outcome("step", [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(GivenRoom(made));
    SLUICE_RETURN_IF_ERROR(GivenHandle(session, "session"));
    SLUICE_ASSIGN_OR_RETURN(const std::vector<Output> fed,
                            Edges(feeds, num_feeds, "feeds"));
    SLUICE_ASSIGN_OR_RETURN(const std::vector<Output> fetched,
                            Edges(fetches, num_fetches, "fetches"));
    SLUICE_ASSIGN_OR_RETURN(Session::Callable callable,
                            session->session->MakeCallable(fed, fetched));
    *made = new sl_step(*session, std::move(callable), num_feeds, num_fetches);
    return OkStatus();
  });
}

sl_status* sl_step_run(const sl_step* step, sl_tensor* const* values,
                       sl_tensor** results, const sl_run_options* options) {
  return Outcome("step", [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(GivenHandle(step, "step"));
    NativeValues fed;
    SLUICE_RETURN_IF_ERROR(FedValues(*step, values, &fed));
    return RunCallable(step->callable, fed, step->num_fetches, results,
                       options);
  });
}

sl_status* sl_step_run_async(const sl_step* step, sl_tensor* const* values,
                             sl_done done, void* data,
                             const sl_run_options* options) {
  return Outcome("step", [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(GivenHandle(step, "step"));
    if (done == nullptr)
      return InvalidArgument("done: expected a function, got null");
    NativeValues fed;
    SLUICE_RETURN_IF_ERROR(FedValues(*step, values, &fed));
    RunOptions read;
    std::shared_ptr<Cancellation> cancellation;
    SLUICE_RETURN_IF_ERROR(ReadRun(options, &read, &cancellation));
    // (The lines that errors name are in the graph.)
    step->callable.RunAsync(
        {fed.data(), fed.size()},
        [done, data, cancellation = std::move(cancellation),
         graph = step->graph](Result<std::vector<Tensor>> fetched) {
          CallDoneInC(done, data, std::move(fetched));
        },
        read);
    return OkStatus();
  });
}

void sl_step_free(sl_step* step) {
  if (GivenHandle(step, "step").ok()) delete step;
}

// ---- Saved models -----------------------------------------------------------

sl_status* sl_model_load(const char* folder, const char* const* tags,
                         size_t num_tags, const sl_session_options* options,
                         sl_model** made) {
  return Outcome("saved model", [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(GivenRoom(made));
    SLUICE_RETURN_IF_ERROR(GivenList(folder, 1, "folder"));
    SLUICE_RETURN_IF_ERROR(GivenList(tags, num_tags, "tags"));
    std::vector<std::string> wanted;
    for (size_t i = 0; i < num_tags; ++i) wanted.push_back(TextOf(tags[i]));
    if (wanted.empty()) wanted = {kServeTag};
    SLUICE_ASSIGN_OR_RETURN(const SessionOptions read, OptionsFrom(options));
    SLUICE_ASSIGN_OR_RETURN(SavedModel model,
                            SavedModel::Load(folder, wanted, read));
    *made = new sl_model(std::make_shared<SavedModel>(std::move(model)));
    return OkStatus();
  });
}

sl_graph* sl_model_graph(sl_model* model) {
  return GivenHandle(model, "saved model").ok() ? &model->graph : nullptr;
}
sl_session* sl_model_session(sl_model* model) {
  return GivenHandle(model, "saved model").ok() ? &model->session : nullptr;
}

sl_status* sl_model_signatures(sl_model* model,
                               void (*each)(const char* name,
                                            const char* method, void* data),
                               void* data) {
  return Outcome("saved model", [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(GivenHandle(model, "saved model"));
    SLUICE_RETURN_IF_ERROR(GivenEach(each));
    for (const auto& [name, signature] : model->model->signatures())
      each(name.c_str(), signature.method.c_str(), data);
    return OkStatus();
  });
}

sl_status* sl_model_values(sl_model* model, const char* signature,
                           void (*each)(const sl_value_info* value, void* data),
                           void* data) {
  return Outcome("saved model", [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(GivenHandle(model, "saved model"));
    SLUICE_RETURN_IF_ERROR(GivenEach(each));
    const std::string of = signature == nullptr ? kDefaultSignature : signature;
    for (const bool is_output : {false, true}) {
      SLUICE_ASSIGN_OR_RETURN(const auto edges, is_output
                                                    ? model->model->Outputs(of)
                                                    : model->model->Inputs(of));
      for (const auto& [name, edge] : edges) {
        const PartialShape shape = edge.shape();
        const sl_value_info info = {
            name.c_str(), is_output ? 1 : 0, ToNative(edge),
            static_cast<sl_dtype>(edge.dtype()), ShapeToNative(shape)};
        each(&info, data);
      }
    }
    return OkStatus();
  });
}

sl_status* sl_model_input(sl_model* model, const char* signature,
                          const char* name, sl_output* found) {
  return Outcome("saved model", [&] {
    return FindInSignature(model, signature, name, true, found);
  });
}
sl_status* sl_model_output(sl_model* model, const char* signature,
                           const char* name, sl_output* found) {
  return Outcome("saved model", [&] {
    return FindInSignature(model, signature, name, false, found);
  });
}

void sl_model_free(sl_model* model) {
  if (GivenHandle(model, "saved model").ok()) delete model;
}

}  // extern "C"
