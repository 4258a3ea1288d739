#include <unordered_map>

#include "graph/graph.h"
#include "graph/graphdef_messages.h"

namespace sluice {
namespace {

// Frames of TensorFlow's own client, which its users did not write.
bool IsLibraryFile(std::string_view file) {
  return file.find("tensorflow/python/") != std::string_view::npos ||
         file.find("/keras/src/") != std::string_view::npos;
}

}  // namespace

LineTable::LineTable(const proto::GraphDebugInfo& info, Graph& g)
    : info_(info) {
  for (const std::string& file : info.files()) files_.push_back(g.Intern(file));
}

const proto::GraphDebugInfo::StackTrace* LineTable::TraceOf(
    const std::string& name) const {
  if (auto it = info_.traces().find(name); it != info_.traces().end())
    return &it->second;
  auto id = info_.name_to_trace_id().find(name);
  if (id == info_.name_to_trace_id().end()) return nullptr;
  auto it = info_.traces_by_id().find(id->second);
  return it == info_.traces_by_id().end() ? nullptr : &it->second;
}

SourceLoc LineTable::Of(const std::string& node) const {
  const auto* trace = TraceOf(node);
  // "node@function", as one front end writes it, with an empty function.
  if (trace == nullptr) trace = TraceOf(node + "@");
  if (trace == nullptr) return {};
  // The innermost frame outside the library, or just the innermost.
  SourceLoc innermost, found;
  auto see = [&](const proto::GraphDebugInfo::FileLineCol& frame) {
    if (frame.file_index() < 0 ||
        frame.file_index() >= static_cast<int>(files_.size()))
      return;
    innermost = {files_[static_cast<size_t>(frame.file_index())], frame.line()};
    if (innermost.known() && !IsLibraryFile(innermost.file)) found = innermost;
  };
  for (const auto& frame : trace->file_line_cols()) see(frame);
  for (const uint64_t id : trace->frame_id())
    if (auto it = info_.frames_by_id().find(id);
        it != info_.frames_by_id().end())
      see(it->second);
  return found.known() ? found : innermost;
}

void LinesToProto(const Graph& g, proto::GraphDebugInfo* info) {
  std::unordered_map<std::string_view, int> files;
  for (const auto& node : g.nodes()) {
    const SourceLoc& loc = node->loc();
    if (!loc.known()) continue;
    auto [it, fresh] = files.try_emplace(loc.file, info->files_size());
    if (fresh) info->add_files(loc.file);
    auto* frame = (*info->mutable_traces())[node->name()].add_file_line_cols();
    frame->set_file_index(it->second);
    frame->set_line(loc.line);
  }
}

}  // namespace sluice
