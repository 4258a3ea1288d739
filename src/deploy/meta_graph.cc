#include "deploy/meta_graph.h"

#include <algorithm>
#include <mutex>
#include <set>
#include <span>

#include "client/partitioned_variables.h"
#include "deploy/meta_graph_messages.h"
#include "graph/builder.h"
#include "graph/control_flow_recovery.h"
#include "graph/function.h"
#include "graph/graphdef_contexts.h"
#include "graph/graphdef_op.h"
#include "graph/tensor_proto.h"
#include "io/file.h"

namespace sluice {
namespace {

// ---- Signatures

Result<TensorInfo::Composite> CompositeFromProto(
    const proto::TensorInfo::CompositeTensor& p) {
  TensorInfo::Composite made;
  made.type_spec = p.type_spec().SerializeAsString();
  const bool ragged = p.type_spec().type_spec_class() ==
                      proto::TypeSpecProto::RAGGED_TENSOR_SPEC;
  for (const proto::TensorInfo& c : p.components()) {
    if (c.has_coo_sparse() || c.has_composite_tensor())
      return InvalidArgument(
          "signature: expected components that are tensors, got one that "
          "consists of several");
    const size_t i = made.parts.size();
    TensorInfo::Part part;
    part.suffix = !ragged  ? absl::StrCat("/", i)
                  : i == 0 ? "/values"
                           : absl::StrCat("/row_splits_", i - 1);
    part.name = c.name();
    if (c.dtype() != 0) {
      SLUICE_ASSIGN_OR_RETURN(part.dtype, DTypeFromProto(c.dtype()));
    }
    if (c.has_tensor_shape()) {
      SLUICE_ASSIGN_OR_RETURN(part.shape, ShapeFromProto(c.tensor_shape()));
    }
    made.parts.push_back(std::move(part));
  }
  return made;
}

Result<TensorInfo> InfoFromProto(const proto::TensorInfo& p) {
  TensorInfo info;
  if (p.dtype() != 0) {
    SLUICE_ASSIGN_OR_RETURN(info.dtype, DTypeFromProto(p.dtype()));
  }
  if (p.has_tensor_shape()) {
    SLUICE_ASSIGN_OR_RETURN(info.shape, ShapeFromProto(p.tensor_shape()));
  }
  if (p.has_coo_sparse()) {
    const auto& parts = p.coo_sparse();
    info.sparse = TensorInfo::Sparse{parts.values_tensor_name(),
                                     parts.indices_tensor_name(),
                                     parts.dense_shape_tensor_name()};
  } else if (p.has_composite_tensor()) {
    SLUICE_ASSIGN_OR_RETURN(info.composite,
                            CompositeFromProto(p.composite_tensor()));
  } else {
    info.name = p.name();
  }
  return info;
}

void InfoToProto(const TensorInfo& info, proto::TensorInfo* p) {
  if (info.composite) {
    // (As in TensorFlow, the value itself has no type or shape.)
    auto* const composite = p->mutable_composite_tensor();
    (void)composite->mutable_type_spec()->ParseFromString(
        info.composite->type_spec);
    for (const TensorInfo::Part& part : info.composite->parts) {
      proto::TensorInfo* const c = composite->add_components();
      c->set_name(part.name);
      c->set_dtype(static_cast<proto::DataType>(part.dtype));
      ShapeToProto(part.shape, c->mutable_tensor_shape());
    }
    return;
  }
  p->set_dtype(static_cast<proto::DataType>(info.dtype));
  ShapeToProto(info.shape, p->mutable_tensor_shape());
  if (info.sparse) {
    p->mutable_coo_sparse()->set_values_tensor_name(info.sparse->values);
    p->mutable_coo_sparse()->set_indices_tensor_name(info.sparse->indices);
    p->mutable_coo_sparse()->set_dense_shape_tensor_name(
        info.sparse->dense_shape);
  } else {
    p->set_name(info.name);
  }
}

Result<Signature> SignatureFromProto(const proto::SignatureDef& p,
                                     TensorProtoLimits* limits) {
  Signature s;
  s.method = p.method_name();
  for (const auto& [key, info] : p.inputs()) {
    SLUICE_ASSIGN_OR_RETURN(s.inputs[key], InfoFromProto(info));
  }
  for (const auto& [key, info] : p.outputs()) {
    SLUICE_ASSIGN_OR_RETURN(s.outputs[key], InfoFromProto(info));
  }
  for (const auto& [key, value] : p.defaults()) {
    SLUICE_ASSIGN_OR_RETURN(s.defaults[key], TensorFromProto(value, limits));
  }
  return s;
}

Status SignatureToProto(const Signature& s, proto::SignatureDef* p) {
  p->set_method_name(s.method);
  for (const auto& [key, info] : s.inputs)
    InfoToProto(info, &(*p->mutable_inputs())[key]);
  for (const auto& [key, info] : s.outputs)
    InfoToProto(info, &(*p->mutable_outputs())[key]);
  for (const auto& [key, value] : s.defaults)
    SLUICE_RETURN_IF_ERROR(
        TensorToProto(value, &(*p->mutable_defaults())[key]));
  return OkStatus();
}

// ---- Collections

Collection CollectionFromProto(const proto::CollectionDef& p) {
  Collection c;
  c.nodes = {p.node_list().value().begin(), p.node_list().value().end()};
  c.bytes = {p.bytes_list().value().begin(), p.bytes_list().value().end()};
  c.ints = {p.int64_list().value().begin(), p.int64_list().value().end()};
  c.floats = {p.float_list().value().begin(), p.float_list().value().end()};
  for (const auto& any : p.any_list().value()) c.bytes.push_back(any.value());
  return c;
}

Status CollectionToProto(const std::string& key, const Collection& c,
                         proto::CollectionDef* p) {
  const int kinds = (c.nodes.empty() ? 0 : 1) + (c.bytes.empty() ? 0 : 1) +
                    (c.ints.empty() ? 0 : 1) + (c.floats.empty() ? 0 : 1);
  if (kinds > 1)
    return InvalidArgument("collection '", key,
                           "': expected items of one kind, got ", kinds,
                           " kinds");
  for (const std::string& n : c.nodes) p->mutable_node_list()->add_value(n);
  for (const std::string& b : c.bytes) p->mutable_bytes_list()->add_value(b);
  for (const int64_t i : c.ints) p->mutable_int64_list()->add_value(i);
  for (const float f : c.floats) p->mutable_float_list()->add_value(f);
  return OkStatus();
}

void VariableToProto(const Var& v, bool trainable, proto::VariableDef* p) {
  p->set_variable_name(v.handle().name());
  if (v.initializer() != nullptr)
    p->set_initializer_name(v.initializer()->name());
  p->set_snapshot_name(v.value().name());
  p->set_is_resource(!v.is_reference());
  if (v.initial_value().valid())
    p->set_initial_value_name(v.initial_value().name());
  p->set_trainable(trainable);
  if (const std::optional<VariablePart> part = PartOf(v)) {
    proto::SaveSliceInfoDef* const slice = p->mutable_save_slice_info_def();
    slice->set_full_name(part->name);
    for (const int64_t d : part->whole.dims()) slice->add_full_shape(d);
    for (const int64_t at : part->offset) slice->add_var_offset(at);
    for (const int64_t d : part->shape.dims()) slice->add_var_shape(d);
  }
}

bool IsVariable(const Output& o) {
  return o.valid() && (o.node->kind() == OpKind::kVarHandle ||
                       o.node->kind() == OpKind::kRefVariable);
}

// The graph's own collections.
void AddCollections(Graph& g, proto::MetaGraphDef* def) {
  const WithGraph use(g);  // (A variable without a read gets one.)
  const auto trainable = g.collections().find(kTrainableVariables);
  for (const auto& [key, items] : g.collections()) {
    if (items.empty()) continue;
    proto::CollectionDef& c = (*def->mutable_collection_def())[key];
    if (std::all_of(items.begin(), items.end(), IsVariable)) {
      for (const Output& item : items) {
        proto::VariableDef variable;
        VariableToProto(Var::FromHandle(item),
                        trainable != g.collections().end() &&
                            Contains(trainable->second, item),
                        &variable);
        c.mutable_bytes_list()->add_value(variable.SerializeAsString());
      }
      continue;
    }
    for (const Output& item : items)
      if (item.valid())
        c.mutable_node_list()->add_value(
            item.node->num_outputs() == 0 ? item.node->name() : item.name());
  }
}

// ---- Ops

// The ops that the nodes and the functions that they call use.
std::set<std::string> OpsOf(const proto::GraphDef& def) {
  std::map<std::string, const proto::FunctionDef*> functions;
  for (const proto::FunctionDef& f : def.library().function())
    functions[f.signature().name()] = &f;
  std::set<std::string> seen, ops;
  std::vector<const proto::FunctionDef*> left;
  const auto visit = [&](const std::string& op) {
    if (!seen.insert(op).second) return;
    const auto it = functions.find(op);
    if (it != functions.end())
      left.push_back(it->second);
    else
      ops.insert(op);
  };
  const auto visit_node = [&](const proto::NodeDef& n) {
    visit(n.op());
    for (const auto& [name, value] : n.attr()) {
      if (value.has_func()) visit(value.func().name());
      for (const auto& f : value.list().func()) visit(f.name());
    }
  };
  for (const proto::NodeDef& n : def.node()) visit_node(n);
  while (!left.empty()) {
    const proto::FunctionDef* const f = left.back();
    left.pop_back();
    for (const proto::NodeDef& n : f->node_def()) visit_node(n);
  }
  return ops;
}

Status AddOps(proto::MetaGraphDef* def) {
  proto::OpList* const list =
      def->mutable_meta_info_def()->mutable_stripped_op_list();
  for (const std::string& name : OpsOf(def->graph_def())) {
    const OpDef* const op = OpRegistry::Global()->Find(name);
    if (op == nullptr) continue;
    SLUICE_ASSIGN_OR_RETURN(const std::string bytes, ExportOpDef(*op));
    if (!list->add_op()->ParseFromString(bytes))
      return Internal("op '", name, "': expected an OpDef");
  }
  return OkStatus();
}

Status StripDefaults(proto::NodeDef* n) {
  const OpDef* const op = OpRegistry::Global()->Find(n->op());
  if (op == nullptr) return OkStatus();
  for (const AttrDef& attr : op->attrs) {
    const auto it = n->attr().find(attr.name);
    if (it == n->attr().end() || !attr.default_value) continue;
    proto::AttrValue value;
    SLUICE_RETURN_IF_ERROR(AttrToProto(*attr.default_value, &value));
    if (value.SerializeAsString() == it->second.SerializeAsString())
      n->mutable_attr()->erase(attr.name);
  }
  return OkStatus();
}

Status StripDefaults(proto::GraphDef* def) {
  for (proto::NodeDef& n : *def->mutable_node())
    SLUICE_RETURN_IF_ERROR(StripDefaults(&n));
  for (proto::FunctionDef& f : *def->mutable_library()->mutable_function())
    for (proto::NodeDef& n : *f.mutable_node_def())
      SLUICE_RETURN_IF_ERROR(StripDefaults(&n));
  return OkStatus();
}

void ClearDevices(proto::GraphDef* def) {
  for (proto::NodeDef& n : *def->mutable_node()) n.clear_device();
  for (proto::FunctionDef& f : *def->mutable_library()->mutable_function())
    for (proto::NodeDef& n : *f.mutable_node_def()) n.clear_device();
}

// ---- Checks

Status CheckOutput(const Graph& g, const std::string& what,
                   const std::string& name) {
  return Annotate(g.FindOutput(name).status(), what);
}

Status CheckInfo(const Graph& g, const std::string& what,
                 const TensorInfo& info) {
  // (TensorFlow 2 names its initialiser, a node without outputs, as a value.)
  if (const Node* const n = g.FindNode(info.name);
      n != nullptr && n->num_outputs() == 0)
    return OkStatus();
  for (const TensorInfo::Part& part : info.Parts())
    SLUICE_RETURN_IF_ERROR(CheckOutput(g, what, part.name));
  return OkStatus();
}

Status CheckNames(const Graph& g, const MetaGraph& about) {
  for (const auto& [name, s] : about.signatures) {
    for (const auto* const values : {&s.inputs, &s.outputs})
      for (const auto& [key, info] : *values)
        SLUICE_RETURN_IF_ERROR(CheckInfo(
            g, absl::StrCat("signature '", name, "', '", key, "'"), info));
  }
  if (about.saver) {
    SLUICE_RETURN_IF_ERROR(
        CheckOutput(g, "saver", about.saver->filename_tensor));
    SLUICE_RETURN_IF_ERROR(CheckOutput(g, "saver", about.saver->save_tensor));
    SLUICE_RETURN_IF_ERROR(
        Annotate(g.LookupNode(about.saver->restore_op).status(), "saver"));
  }
  for (const AssetInfo& a : about.assets)
    SLUICE_RETURN_IF_ERROR(
        CheckOutput(g, absl::StrCat("asset '", a.filename, "'"), a.tensor));
  return OkStatus();
}

// ---- Import

// The node of a collection's item; null if there is none.
Output ItemOf(const Graph& g, const std::string& name) {
  const Result<Output> found = g.FindOutput(name);
  if (found.ok()) return *found;
  return Output(g.FindNode(name));
}

Shape ShapeOf(const google::protobuf::RepeatedField<int64_t>& dims) {
  return Shape(
      std::span<const int64_t>(dims.data(), static_cast<size_t>(dims.size())));
}

// Which part of a larger variable it is, for savers.
Status TakePart(const proto::VariableDef& def, const std::string& prefix,
                const Output& handle) {
  if (!def.has_save_slice_info_def()) return OkStatus();
  const proto::SaveSliceInfoDef& slice = def.save_slice_info_def();
  VariablePart part;
  part.name = prefix + slice.full_name();
  part.whole = ShapeOf(slice.full_shape());
  part.offset = {slice.var_offset().begin(), slice.var_offset().end()};
  part.shape = ShapeOf(slice.var_shape());
  return SetPartOf(Var::FromHandle(handle), part);
}

// Variables and nodes, as the graph keeps them.
Status TakeCollections(const proto::MetaGraphDef& def,
                       const std::string& prefix, Graph* g) {
  for (const auto& [key, collection] : def.collection_def()) {
    std::vector<Output> items;
    for (const std::string& name : collection.node_list().value())
      items.push_back(ItemOf(*g, prefix + name));
    for (const std::string& bytes : collection.bytes_list().value()) {
      proto::VariableDef variable;
      if (!ParseMessage(bytes, "VariableDef", &variable).ok() ||
          variable.variable_name().empty())
        continue;
      const Output handle = ItemOf(*g, prefix + variable.variable_name());
      // (It may be of an op that this program lacks.)
      if (!IsVariable(handle)) continue;
      SLUICE_RETURN_IF_ERROR(TakePart(variable, prefix, handle));
      items.push_back(handle);
    }
    for (const Output& item : items)
      if (item.valid()) g->collections()[key].push_back(item);
  }
  return OkStatus();
}

}  // namespace

SaverInfo SaverInfo::Of(const Saver& saver) {
  SaverInfo info;
  if (!saver.status().ok()) return info;
  info.filename_tensor = saver.filename().name();
  info.save_tensor = saver.save_tensor().name();
  info.restore_op = saver.restore_op()->name();
  return info;
}

void AssetsToProto(const std::vector<AssetInfo>& assets,
                   proto::MetaGraphDef* def) {
  if (assets.empty()) return;
  proto::CollectionDef& collection =
      (*def->mutable_collection_def())[kAssetsKey];
  for (const AssetInfo& a : assets) {
    proto::AssetFileDef* const asset = def->add_asset_file_def();
    asset->mutable_tensor_info()->set_name(a.tensor);
    asset->set_filename(a.filename);
    // (Where TensorFlow 1 looks.)
    auto* const any = collection.mutable_any_list()->add_value();
    any->set_type_url("type.googleapis.com/tensorflow.AssetFileDef");
    any->set_value(asset->SerializeAsString());
  }
}

Result<MetaGraph> MetaGraphFromProto(const proto::MetaGraphDef& def,
                                     TensorProtoLimits limits) {
  MetaGraph m;
  const auto& info = def.meta_info_def();
  m.tags = {info.tags().begin(), info.tags().end()};
  m.version = info.tensorflow_version();
  m.stripped_default_attrs = info.stripped_default_attrs();
  for (const auto& [name, signature] : def.signature_def()) {
    const Result<Signature> s = SignatureFromProto(signature, &limits);
    if (!s.ok())
      return Annotate(s.status(), absl::StrCat("signature '", name, "'"));
    m.signatures[name] = *s;
  }
  for (const auto& [key, collection] : def.collection_def())
    m.collections[key] = CollectionFromProto(collection);
  if (def.has_saver_def()) {
    const proto::SaverDef& s = def.saver_def();
    m.saver = SaverInfo{s.filename_tensor_name(),
                        s.save_tensor_name(),
                        s.restore_op_name(),
                        s.max_to_keep(),
                        s.sharded(),
                        s.keep_checkpoint_every_n_hours(),
                        s.version()};
  }
  const auto add_asset = [&m](const proto::AssetFileDef& a) {
    // (TensorFlow lists a file for each collection that it found it in.)
    const std::string& tensor = a.tensor_info().name();
    if (std::none_of(m.assets.begin(), m.assets.end(),
                     [&](const AssetInfo& b) { return b.tensor == tensor; }))
      m.assets.push_back({tensor, a.filename()});
  };
  for (const proto::AssetFileDef& a : def.asset_file_def()) add_asset(a);
  const auto it = def.collection_def().find(kAssetsKey);
  if (m.assets.empty() && it != def.collection_def().end())
    for (const auto& any : it->second.any_list().value()) {
      proto::AssetFileDef a;
      if (!ParseMessage(any.value(), "AssetFileDef", &a).ok())
        return InvalidArgument(
            "assets: expected AssetFileDefs, got malformed bytes");
      add_asset(a);
    }
  for (const std::string& op : OpsOf(def.graph_def()))
    if (OpRegistry::Global()->Find(op) == nullptr) m.unknown_ops.push_back(op);
  return m;
}

Status ExportMetaGraph(Graph& g, const MetaGraph& about,
                       const ExportMetaGraphOptions& options,
                       proto::MetaGraphDef* def) {
  const std::lock_guard<std::recursive_mutex> lock(g.mutex());
  SLUICE_RETURN_IF_ERROR(CheckNames(g, about));
  AddCollections(g, def);
  // (An unusual graph is exported without contexts.)
  const bool contexts = RecoverControlFlow(&g).ok();
  SLUICE_ASSIGN_OR_RETURN(const std::string bytes, ExportGraphDef(g));
  SLUICE_RETURN_IF_ERROR(ParseGraphDef(bytes, def->mutable_graph_def()));
  if (contexts) AddContexts(g, "", def);
  if (options.clear_devices) ClearDevices(def->mutable_graph_def());
  SLUICE_RETURN_IF_ERROR(AddOps(def));
  auto* const info = def->mutable_meta_info_def();
  if (options.strip_default_attrs) {
    SLUICE_RETURN_IF_ERROR(StripDefaults(def->mutable_graph_def()));
    info->set_stripped_default_attrs(true);
  }
  // (The version whose ops and formats these are.)
  info->set_tensorflow_version("2.21.0");
  for (const std::string& tag : about.tags) info->add_tags(tag);
  for (const auto& [name, s] : about.signatures)
    SLUICE_RETURN_IF_ERROR(
        SignatureToProto(s, &(*def->mutable_signature_def())[name]));
  for (const auto& [key, collection] : about.collections) {
    proto::CollectionDef& p = (*def->mutable_collection_def())[key];
    p.Clear();
    SLUICE_RETURN_IF_ERROR(CollectionToProto(key, collection, &p));
  }
  if (about.saver) {
    proto::SaverDef* const s = def->mutable_saver_def();
    s->set_filename_tensor_name(about.saver->filename_tensor);
    s->set_save_tensor_name(about.saver->save_tensor);
    s->set_restore_op_name(about.saver->restore_op);
    s->set_max_to_keep(about.saver->max_to_keep);
    s->set_sharded(about.saver->sharded);
    s->set_keep_checkpoint_every_n_hours(about.saver->keep_every_n_hours);
    s->set_version(static_cast<proto::SaverDef::CheckpointFormatVersion>(
        about.saver->version));
  }
  AssetsToProto(about.assets, def);
  return OkStatus();
}

Result<std::string> ExportMetaGraph(Graph& g, const MetaGraph& about,
                                    const ExportMetaGraphOptions& options) {
  proto::MetaGraphDef def;
  SLUICE_RETURN_IF_ERROR(ExportMetaGraph(g, about, options, &def));
  return SerializeProto(def);
}

Result<MetaGraph> ImportMetaGraph(proto::MetaGraphDef* def, Graph& g,
                                  const ImportMetaGraphOptions& options) {
  SLUICE_ASSIGN_OR_RETURN(MetaGraph about,
                          MetaGraphFromProto(*def, options.tensor_limits));
  const std::lock_guard<std::recursive_mutex> lock(g.mutex());
  if (options.clear_devices) ClearDevices(def->mutable_graph_def());
  ImportOptions import;
  import.prefix = options.prefix;
  import.tensor_limits = options.tensor_limits;
  ImportResults results;
  SLUICE_RETURN_IF_ERROR(ImportParsed(def->graph_def(), g, import, &results));
  def->clear_graph_def();
  const std::string prefix = options.prefix.empty() ? "" : options.prefix + "/";
  SLUICE_RETURN_IF_ERROR(TakeCollections(*def, prefix, &g));
  ApplyContexts(*def, prefix, &g);
  return about;
}

Result<MetaGraph> ImportMetaGraph(std::string_view bytes, Graph& g,
                                  const ImportMetaGraphOptions& options) {
  proto::MetaGraphDef def;
  SLUICE_RETURN_IF_ERROR(ParseMessage(bytes, "MetaGraphDef", &def));
  return ImportMetaGraph(&def, g, options);
}

Result<MetaGraph> ReadMetaGraph(std::string_view bytes) {
  proto::MetaGraphDef def;
  SLUICE_RETURN_IF_ERROR(ParseMessage(bytes, "MetaGraphDef", &def));
  return MetaGraphFromProto(def);
}

Result<std::string> ReadMetaGraphFile(const std::string& path) {
  SLUICE_ASSIGN_OR_RETURN(std::string bytes, ReadFile(path, INT32_MAX));
  proto::MetaGraphDef def;
  if (ParseMessage(bytes, "MetaGraphDef", &def).ok() &&
      (def.has_graph_def() || def.has_meta_info_def()))
    return bytes;
  const Status text = ParseTextMessage(bytes, "MetaGraphDef", &def);
  if (text.ok()) return SerializeProto(def);
  return InvalidArgument("file '", path,
                         "': expected a MetaGraphDef, got neither a binary one "
                         "nor a text (",
                         text.message(), ")");
}

Result<std::string> PrintTextMetaGraph(std::string_view bytes) {
  proto::MetaGraphDef def;
  SLUICE_RETURN_IF_ERROR(ParseMessage(bytes, "MetaGraphDef", &def));
  return PrintTextMessage(def);
}

}  // namespace sluice
