#include "cluster/master/graph_copy.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <functional>
#include <utility>

#include "graph/graphdef.h"

namespace sluice {
namespace {

// Serializes maps in key order, so that equal messages give equal bytes.
std::string Bytes(const google::protobuf::MessageLite& message) {
  std::string out;
  {
    google::protobuf::io::StringOutputStream stream(&out);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    message.SerializeToCodedStream(&coded);
  }
  return out;
}

// The entry for `name`: a new one, or the existing one to be replaced.
template <typename T>
void Replace(google::protobuf::RepeatedPtrField<T>* all,
             std::unordered_map<std::string, int>* index,
             const std::string& name, T* entry) {
  auto [it, fresh] = index->try_emplace(name, all->size());
  (fresh ? all->Add() : all->Mutable(it->second))->Swap(entry);
}

}  // namespace

Status GraphCopy::Extend(std::string_view graph_def) {
  proto::GraphDef part;
  if (graph_def.size() > INT32_MAX ||
      !part.ParseFromArray(graph_def.data(),
                           static_cast<int>(graph_def.size())))
    return InvalidArgument("graph: expected a GraphDef, got ", graph_def.size(),
                           " malformed bytes");
  // (An upper bound, as earlier parts may have been replaced; computed exactly
  // only when it exceeds the limit.)
  bytes_ += graph_def.size();
  if (bytes_ > INT32_MAX) bytes_ = whole_.ByteSizeLong() + graph_def.size();
  if (bytes_ > INT32_MAX) {
    const size_t bytes = std::exchange(bytes_, bytes_ - graph_def.size());
    return ResourceExhausted("graph: expected less than 2 GiB, got ", bytes,
                             " bytes");
  }
  graph_ = nullptr;
  for (proto::NodeDef& n : *part.mutable_node()) {
    const std::string name = n.name();
    Replace(whole_.mutable_node(), &nodes_, name, &n);
  }
  proto::FunctionDefLibrary* library = whole_.mutable_library();
  for (auto& f : *part.mutable_library()->mutable_function()) {
    const std::string name = f.signature().name();
    Replace(library->mutable_function(), &functions_, name, &f);
  }
  for (auto& g : *part.mutable_library()->mutable_gradient()) {
    const std::string name = g.function_name();
    Replace(library->mutable_gradient(), &gradients_, name, &g);
  }
  *whole_.mutable_versions() = part.versions();
  // Source lines: renumber the files.
  proto::GraphDebugInfo* lines = whole_.mutable_debug_info();
  std::vector<int> numbers;
  for (const std::string& file : part.debug_info().files()) {
    auto [it, fresh] = files_.try_emplace(file, lines->files_size());
    if (fresh) lines->add_files(file);
    numbers.push_back(it->second);
  }
  for (auto& [name, trace] : *part.mutable_debug_info()->mutable_traces()) {
    for (auto& frame : *trace.mutable_file_line_cols()) {
      const int i = frame.file_index();
      frame.set_file_index(i < 0 || i >= static_cast<int>(numbers.size())
                               ? -1
                               : numbers[static_cast<size_t>(i)]);
    }
    (*lines->mutable_traces())[name].Swap(&trace);
  }
  return OkStatus();
}

Result<std::shared_ptr<const Graph>> GraphCopy::graph() {
  if (graph_ != nullptr) return graph_;
  auto graph = std::make_shared<Graph>();
  if (whole_.node_size() > 0 || whole_.library().function_size() > 0) {
    SLUICE_RETURN_IF_ERROR(ImportGraphDef(whole_.SerializeAsString(), *graph));
  }
  graph_ = std::move(graph);
  return graph_;
}

Result<std::string> GraphSender::Changes(const Graph& graph) {
  SLUICE_ASSIGN_OR_RETURN(const std::string bytes, ExportGraphDef(graph));
  proto::GraphDef whole;
  if (!whole.ParseFromString(bytes))
    return Internal("export: expected a GraphDef");
  proto::GraphDef part;
  auto changed = [this](const std::string& key, const std::string& value) {
    const size_t hash = std::hash<std::string>()(value) | 1;
    size_t& known = sent_[key];
    const bool differs = known != hash;
    known = hash;
    return differs;
  };
  const auto& traces = whole.debug_info().traces();
  for (proto::NodeDef& n : *whole.mutable_node()) {
    if (!changed("n" + n.name(), Bytes(n))) continue;
    if (auto t = traces.find(n.name()); t != traces.end())
      (*part.mutable_debug_info()->mutable_traces())[n.name()] = t->second;
    part.add_node()->Swap(&n);
  }
  for (auto& f : *whole.mutable_library()->mutable_function())
    if (changed("f" + f.signature().name(), Bytes(f)))
      part.mutable_library()->add_function()->Swap(&f);
  for (auto& g : *whole.mutable_library()->mutable_gradient())
    if (changed("g" + g.function_name(), Bytes(g)))
      part.mutable_library()->add_gradient()->Swap(&g);
  if (part.node_size() == 0 && !part.has_library()) return std::string();
  *part.mutable_versions() = whole.versions();
  if (part.has_debug_info())
    *part.mutable_debug_info()->mutable_files() = whole.debug_info().files();
  return part.SerializeAsString();
}

}  // namespace sluice
