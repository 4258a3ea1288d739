#include "deploy/saved_model.h"

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <optional>
#include <set>

#include "absl/strings/str_join.h"
#include "checkpoint/checkpoint_reader.h"
#include "deploy/meta_graph_messages.h"
#include "graph/graphdef_needed.h"
#include "io/file.h"

namespace sluice {

// A value of a signature, or a part of a sparse one.
struct SignatureSlot {
  std::string key;
  Output output;
  DType dtype = DType::kInvalid;
  PartialShape shape;
};

namespace {

using Slot = SignatureSlot;

// Keys of signatures and outputs by which TensorFlow 2 names its initialiser.
constexpr char kInitOp[] = "__saved_model_init_op";
constexpr char kTrainOp[] = "__saved_model_train_op";

std::string InFolder(const std::string& folder, const std::string& name) {
  return (std::filesystem::path(LocalPath(folder)) / name).string();
}

bool Exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

Status ReadMessage(const std::string& folder, proto::SavedModel* model) {
  const std::string binary = InFolder(folder, "saved_model.pb");
  const std::string text = InFolder(folder, "saved_model.pbtxt");
  const bool is_binary = Exists(binary);
  const std::string& path = is_binary ? binary : text;
  if (!is_binary && !Exists(text))
    return NotFound("saved model '", folder,
                    "': expected saved_model.pb or saved_model.pbtxt in the "
                    "folder, got neither");
  SLUICE_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path, INT32_MAX));
  const Status s = is_binary ? ParseMessage(bytes, "SavedModel", model)
                             : ParseTextMessage(bytes, "SavedModel", model);
  if (!s.ok()) return DataLoss("file '", path, "': ", s.message());
  if (model->meta_graphs_size() == 0)
    return DataLoss("file '", path,
                    "': expected a SavedModel with a meta graph, got none");
  return OkStatus();
}

std::string Listed(const std::set<std::string>& tags) {
  return absl::StrCat("{", absl::StrJoin(tags, ", "), "}");
}

// Moves it out of the model.
Status TakeMetaGraph(const std::string& folder,
                     const std::vector<std::string>& tags,
                     proto::MetaGraphDef* def) {
  proto::SavedModel model;
  SLUICE_RETURN_IF_ERROR(ReadMessage(folder, &model));
  const std::set<std::string> wanted(tags.begin(), tags.end());
  std::vector<std::string> found;
  for (proto::MetaGraphDef& m : *model.mutable_meta_graphs()) {
    const auto& has = m.meta_info_def().tags();
    const std::set<std::string> these(has.begin(), has.end());
    if (these == wanted) {
      *def = std::move(m);
      return OkStatus();
    }
    found.push_back(Listed(these));
  }
  return NotFound("saved model '", folder,
                  "': expected a meta graph with exactly the tags ",
                  Listed(wanted), ", got only ", absl::StrJoin(found, ", "));
}

// The name of the node that initialises the model; "" if there is none.
std::string InitialiserOf(const MetaGraph& m) {
  if (const auto s = m.signatures.find(kInitOp); s != m.signatures.end())
    if (const auto o = s->second.outputs.find(kInitOp);
        o != s->second.outputs.end())
      return o->second.name;
  for (const char* const key : {kMainOpKey, kLegacyInitOpKey})
    if (const auto c = m.collections.find(key);
        c != m.collections.end() && !c->second.nodes.empty())
      return c->second.nodes[0];
  return "";
}

// Whether it is, or calls, one of these ops and functions.
bool Uses(const proto::NodeDef& n, const std::set<std::string>& ops) {
  if (ops.count(n.op()) > 0) return true;
  for (const auto& [name, value] : n.attr()) {
    if (value.has_func() && ops.count(value.func().name()) > 0) return true;
    for (const auto& f : value.list().func())
      if (ops.count(f.name()) > 0) return true;
  }
  return false;
}

std::string NodeOf(std::string name) {
  if (name.starts_with("^")) name.erase(0, 1);
  return name.substr(0, name.find(':'));
}

// The names of ops and functions that cannot run here: `unknown`, and the
// functions that use them.
std::set<std::string> Unusable(const proto::FunctionDefLibrary& library,
                               std::set<std::string> unknown) {
  const auto uses = [&](const proto::NodeDef& n) { return Uses(n, unknown); };
  bool grown = true;
  while (grown) {
    grown = false;
    for (const proto::FunctionDef& f : library.function())
      if (std::any_of(f.node_def().begin(), f.node_def().end(), uses))
        grown |= unknown.insert(f.signature().name()).second;
  }
  return unknown;
}

// Drops the nodes of ops that this program lacks, and what depends on them. An
// error if loading or a signature needs one of these ops.
Status DropUnknown(const MetaGraph& m, proto::MetaGraphDef* def) {
  if (m.unknown_ops.empty()) return OkStatus();
  std::vector<std::string> results;
  const auto visit = [&](const std::string& name) { results.push_back(name); };
  for (const auto& [name, s] : m.signatures) {
    if (name == kTrainOp) continue;  // Loading for serving does not run it.
    for (const auto* const values : {&s.inputs, &s.outputs})
      for (const auto& [key, info] : *values)
        for (const TensorInfo::Part& part : info.Parts()) visit(part.name);
  }
  if (m.saver) {
    visit(m.saver->restore_op);
    visit(m.saver->filename_tensor);
  }
  for (const AssetInfo& a : m.assets) visit(a.tensor);
  visit(InitialiserOf(m));
  SLUICE_ASSIGN_OR_RETURN(const std::string bytes,
                          SerializeProto(def->graph_def()));
  SLUICE_ASSIGN_OR_RETURN(const std::set<std::string> needed,
                          NeededNodes(bytes, results));
  const std::set<std::string> unknown(m.unknown_ops.begin(),
                                      m.unknown_ops.end());
  const std::set<std::string> unusable =
      Unusable(def->graph_def().library(), unknown);
  std::set<std::string> missing, dropped;
  std::vector<std::string> left;
  std::map<std::string, std::vector<std::string>> users;
  for (const proto::NodeDef& n : def->graph_def().node()) {
    for (const std::string& in : n.input())
      users[NodeOf(in)].push_back(n.name());
    // (A function that is called may never come to its unknown op.)
    if (needed.count(n.name()) > 0) {
      if (unknown.count(n.op()) > 0) missing.insert(n.op());
    } else if (Uses(n, unusable) && dropped.insert(n.name()).second) {
      left.push_back(n.name());
    }
  }
  if (!missing.empty())
    return NotFound("expected ops that this program has, got ",
                    absl::StrJoin(missing, ", "));
  while (!left.empty()) {
    const std::string name = left.back();
    left.pop_back();
    for (const std::string& user : users[name])
      if (dropped.insert(user).second) left.push_back(user);
  }
  auto* const all = def->mutable_graph_def()->mutable_node();
  all->erase(std::remove_if(all->begin(), all->end(),
                            [&](const proto::NodeDef& n) {
                              return dropped.count(n.name()) > 0;
                            }),
             all->end());
  return OkStatus();
}

bool HasVariables(const Graph& g, const std::string& prefix) {
  return std::any_of(g.nodes().begin(), g.nodes().end(), [&](const auto& n) {
    return (n->kind() == OpKind::kVarHandle ||
            n->kind() == OpKind::kRefVariable) &&
           n->name().starts_with(prefix);
  });
}

// Without the prefix of a graph's nodes, that of the messages' names.
Status Restore(Session& session, const std::string& folder,
               const std::string& prefix, const MetaGraph& m) {
  Graph& g = session.graph();
  Feeds assets;
  for (const AssetInfo& a : m.assets) {
    // (A model reads no files outside of its folder.)
    const std::filesystem::path name(a.filename);
    if (name.empty() || name.is_absolute() ||
        std::find(name.begin(), name.end(), "..") != name.end())
      return DataLoss("asset: expected a file in the folder of assets, got '",
                      a.filename, "'");
    const std::string path = InFolder(InFolder(folder, "assets"), a.filename);
    if (!Exists(path))
      return NotFound("asset '", a.filename, "': expected the file '", path,
                      "', got none");
    SLUICE_ASSIGN_OR_RETURN(const Output tensor,
                            g.FindOutput(prefix + a.tensor));
    assets.emplace_back(tensor, Tensor::Scalar(path));
  }
  const std::string variables = SavedVariablesPath(folder);
  // (A model without variables may have a saver all the same, and no files.)
  if (m.saver && !m.saver->restore_op.empty() &&
      (CheckpointExists(variables) || HasVariables(g, prefix))) {
    if (!CheckpointExists(variables))
      return NotFound("variables: expected a checkpoint '", variables,
                      "', got none");
    SLUICE_ASSIGN_OR_RETURN(const Output filename,
                            g.FindOutput(prefix + m.saver->filename_tensor));
    SLUICE_ASSIGN_OR_RETURN(Node * restore,
                            g.LookupNode(prefix + m.saver->restore_op));
    Feeds feeds = assets;
    feeds.emplace_back(filename, Tensor::Scalar(variables));
    SLUICE_RETURN_IF_ERROR(
        Annotate(session.RunTargets({restore}, feeds), "restoring"));
  }
  if (const std::string init = NodeOf(InitialiserOf(m)); !init.empty()) {
    SLUICE_ASSIGN_OR_RETURN(Node * node, g.LookupNode(prefix + init));
    SLUICE_RETURN_IF_ERROR(
        Annotate(session.RunTargets({node}, assets), "initialising"));
  }
  return OkStatus();
}

Status AddSlot(const Graph& g, const std::string& key, const std::string& name,
               DType dtype, const PartialShape& shape,
               std::vector<Slot>* slots) {
  const Result<Output> o = g.FindOutput(name);
  if (!o.ok()) return Annotate(o.status(), absl::StrCat("'", key, "'"));
  // (A model may leave the type to the graph.)
  slots->push_back({key, *o,
                    dtype == DType::kInvalid ? RemoveRef(o->dtype()) : dtype,
                    shape});
  return OkStatus();
}

Result<std::vector<Slot>> SlotsOf(
    const Graph& g, const std::map<std::string, TensorInfo>& values) {
  std::vector<Slot> slots;
  for (const auto& [key, info] : values) {
    for (const TensorInfo::Part& part : info.Parts())
      SLUICE_RETURN_IF_ERROR(AddSlot(g, key + part.suffix, part.name,
                                     part.dtype, part.shape, &slots));
  }
  return slots;
}

std::string Described(const std::vector<Slot>& slots) {
  return absl::StrJoin(slots, ", ", [](std::string* out, const Slot& s) {
    absl::StrAppend(out, "'", s.key, "' ", DTypeName(s.dtype),
                    s.shape.ToString());
  });
}

std::map<std::string, Output> EdgesOf(const std::vector<Slot>& slots) {
  std::map<std::string, Output> edges;
  for (const Slot& s : slots) edges[s.key] = s.output;
  return edges;
}

}  // namespace

bool IsSavedModel(const std::string& folder) {
  return Exists(InFolder(folder, "saved_model.pb")) ||
         Exists(InFolder(folder, "saved_model.pbtxt"));
}

std::string SavedVariablesPath(const std::string& folder) {
  return InFolder(InFolder(folder, "variables"), "variables");
}

Result<std::vector<MetaGraph>> ReadSavedModel(const std::string& folder) {
  proto::SavedModel model;
  SLUICE_RETURN_IF_ERROR(ReadMessage(folder, &model));
  std::vector<MetaGraph> all;
  for (const proto::MetaGraphDef& def : model.meta_graphs()) {
    Result<MetaGraph> m = MetaGraphFromProto(def);
    if (!m.ok())
      return Annotate(m.status(), absl::StrCat("saved model '", folder, "'"));
    all.push_back(*std::move(m));
  }
  return all;
}

Result<std::string> FindMetaGraph(const std::string& folder,
                                  const std::vector<std::string>& tags) {
  proto::MetaGraphDef def;
  SLUICE_RETURN_IF_ERROR(TakeMetaGraph(folder, tags, &def));
  return SerializeProto(def);
}

Result<MetaGraph> LoadSavedModel(Session& session, const std::string& folder,
                                 const std::vector<std::string>& tags,
                                 const LoadSavedModelOptions& options) {
  proto::MetaGraphDef def;
  SLUICE_RETURN_IF_ERROR(TakeMetaGraph(folder, tags, &def));
  const auto load = [&]() -> Result<MetaGraph> {
    SLUICE_ASSIGN_OR_RETURN(const MetaGraph known, MetaGraphFromProto(def));
    SLUICE_RETURN_IF_ERROR(DropUnknown(known, &def));
    SLUICE_ASSIGN_OR_RETURN(
        MetaGraph about,
        ImportMetaGraph(&def, session.graph(),
                        {.prefix = options.prefix,
                         .clear_devices = options.clear_devices}));
    about.unknown_ops = known.unknown_ops;
    SLUICE_RETURN_IF_ERROR(
        Restore(session, folder,
                options.prefix.empty() ? "" : options.prefix + "/", about));
    return about;
  };
  Result<MetaGraph> about = load();
  if (!about.ok())
    return Annotate(about.status(), absl::StrCat("saved model '", folder, "'"));
  return about;
}

class SavedModel::Impl {
 public:
  explicit Impl(const SessionOptions& options) : session_(graph_, options) {}

  Status Load(const std::string& folder, const std::vector<std::string>& tags) {
    SLUICE_ASSIGN_OR_RETURN(about_, LoadSavedModel(session_, folder, tags));
    signatures_ = about_.signatures;
    signatures_.erase(kInitOp);
    signatures_.erase(kTrainOp);
    const std::lock_guard<std::recursive_mutex> lock(graph_.mutex());
    for (const auto& [name, s] : signatures_)
      resolved_.emplace(name, Resolve(name, s));
    return OkStatus();
  }

  struct Resolved {
    std::vector<SignatureSlot> inputs, outputs;
    const Signature* signature = nullptr;
  };
  Result<const Resolved*> Find(const std::string& name) const {
    const auto it = resolved_.find(name);
    if (it == resolved_.end()) {
      std::vector<std::string> names;
      for (const auto& [key, value] : resolved_) names.push_back(key);
      return NotFound("signature: expected one of ", absl::StrJoin(names, ", "),
                      ", got '", name, "'");
    }
    SLUICE_RETURN_IF_ERROR(it->second.status());
    return &*it->second;
  }
  Result<std::map<std::string, Tensor>> Run(
      const std::map<std::string, Tensor>& inputs, const std::string& name);

  const std::map<std::string, Signature>& signatures() const {
    return signatures_;
  }
  const MetaGraph& about() const { return about_; }
  Graph& graph() { return graph_; }
  Session& session() { return session_; }

 private:
  Result<Resolved> Resolve(const std::string& name, const Signature& s) {
    Resolved r;
    const auto resolve = [&]() -> Status {
      SLUICE_ASSIGN_OR_RETURN(r.inputs, SlotsOf(graph_, s.inputs));
      SLUICE_ASSIGN_OR_RETURN(r.outputs, SlotsOf(graph_, s.outputs));
      return OkStatus();
    };
    SLUICE_RETURN_IF_ERROR(
        Annotate(resolve(), absl::StrCat("signature '", name, "'")));
    r.signature = &s;
    return r;
  }

  Graph graph_;
  Session session_;
  MetaGraph about_;
  std::map<std::string, Signature> signatures_;
  std::map<std::string, Result<Resolved>> resolved_;
};

Result<std::map<std::string, Tensor>> SavedModel::Impl::Run(
    const std::map<std::string, Tensor>& inputs, const std::string& name) {
  SLUICE_ASSIGN_OR_RETURN(const Resolved* r, Find(name));
  Feeds feeds;
  const auto wrong = [&](const auto&... what) {
    return InvalidArgument("signature '", name, "': expected the inputs ",
                           Described(r->inputs), ", got ", what...);
  };
  for (const Slot& slot : r->inputs) {
    const auto it = inputs.find(slot.key);
    const auto fallback = r->signature->defaults.find(slot.key);
    if (it == inputs.end() && fallback == r->signature->defaults.end())
      return wrong("none for '", slot.key, "'");
    const Tensor& value = it == inputs.end() ? fallback->second : it->second;
    if (!value.valid()) return wrong("an empty tensor for '", slot.key, "'");
    if (value.dtype() != slot.dtype ||
        !slot.shape.CompatibleWith(value.shape()))
      return wrong(DTypeName(value.dtype()), value.shape().ToString(), " for '",
                   slot.key, "'");
    feeds.emplace_back(slot.output, value);
  }
  for (const auto& input : inputs)
    if (std::none_of(r->inputs.begin(), r->inputs.end(),
                     [&](const Slot& s) { return s.key == input.first; }))
      return wrong("'", input.first, "'");
  std::vector<Output> fetches;
  for (const Slot& slot : r->outputs) fetches.push_back(slot.output);
  SLUICE_ASSIGN_OR_RETURN(std::vector<Tensor> values,
                          session_.Run(feeds, fetches));
  std::map<std::string, Tensor> out;
  for (size_t i = 0; i < values.size(); ++i)
    out[r->outputs[i].key] = std::move(values[i]);
  return out;
}

Result<SavedModel> SavedModel::Load(const std::string& folder,
                                    const std::vector<std::string>& tags,
                                    const SessionOptions& options) {
  auto impl = std::make_unique<Impl>(options);
  SLUICE_RETURN_IF_ERROR(impl->Load(folder, tags));
  return SavedModel(std::move(impl));
}

SavedModel::SavedModel(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SavedModel::~SavedModel() = default;
SavedModel::SavedModel(SavedModel&&) noexcept = default;
SavedModel& SavedModel::operator=(SavedModel&&) noexcept = default;

const std::map<std::string, Signature>& SavedModel::signatures() const {
  return impl_->signatures();
}
const MetaGraph& SavedModel::about() const { return impl_->about(); }
Graph& SavedModel::graph() const { return impl_->graph(); }
Session& SavedModel::session() const { return impl_->session(); }
Result<std::map<std::string, Tensor>> SavedModel::Run(
    const std::map<std::string, Tensor>& inputs,
    const std::string& signature) const {
  return impl_->Run(inputs, signature);
}
Result<std::map<std::string, Output>> SavedModel::Inputs(
    const std::string& signature) const {
  SLUICE_ASSIGN_OR_RETURN(const auto* r, impl_->Find(signature));
  return EdgesOf(r->inputs);
}
Result<std::map<std::string, Output>> SavedModel::Outputs(
    const std::string& signature) const {
  SLUICE_ASSIGN_OR_RETURN(const auto* r, impl_->Find(signature));
  return EdgesOf(r->outputs);
}

}  // namespace sluice
