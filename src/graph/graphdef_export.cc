#include <algorithm>

#include "graph/call_hook.h"
#include "graph/graph.h"
#include "graph/graphdef_messages.h"

namespace sluice {
Status NodeToProto(const Node& node, proto::NodeDef* def) {
  def->set_name(node.name());
  def->set_op(node.op_name());
  def->set_device(node.device());
  for (const auto& [name, value] : node.attrs()) {
    const Status s = AttrToProto(value, &(*def->mutable_attr())[name]);
    if (!s.ok())
      return Status(s.code(), absl::StrCat("attribute '", name, "': ",
                                           s.message(), "; ", node.Describe()));
  }
  return OkStatus();
}

namespace {

Status InputsToProto(const Node& node, proto::NodeDef* def) {
  for (int i = 0; i < node.num_inputs(); ++i) {
    const Output& in = node.input(i);
    if (in.node == nullptr)
      return FailedPrecondition(
          "export: expected all back edges to be closed, "
          "got input ",
          i, " open; ", node.Describe());
    def->add_input(in.index == 0 ? in.node->name() : in.name());
  }
  for (const Node* c : node.control_inputs()) def->add_input("^" + c->name());
  const auto& original = node.graph()->original_names();
  if (auto it = original.find(node.name());
      it != original.end() &&
      !def->mutable_experimental_debug_info()->ParseFromString(it->second))
    return Internal("original names: expected an ExperimentalDebugInfo; ",
                    node.Describe());
  return OkStatus();
}

// By id: the nodes that a failed builder left unfinished, such as a loop whose
// body is an error, and their consumers.
std::vector<uint8_t> UnfinishedNodes(const Graph& g) {
  std::vector<uint8_t> unfinished(static_cast<size_t>(g.num_nodes()));
  if (g.errors().empty()) return unfinished;
  const auto is = [&](const Node* n) {
    return n == nullptr || unfinished[static_cast<size_t>(n->id())] != 0;
  };
  for (bool more = true; more;) {
    more = false;
    for (const auto& n : g.nodes()) {
      if (is(n.get())) continue;
      const bool reads =
          std::any_of(n->inputs().begin(), n->inputs().end(),
                      [&](const Output& in) { return is(in.node); }) ||
          std::any_of(n->control_inputs().begin(), n->control_inputs().end(),
                      is);
      if (!reads) continue;
      unfinished[static_cast<size_t>(n->id())] = 1;
      more = true;
    }
  }
  return unfinished;
}

}  // namespace

Result<std::string> ExportGraphDef(const Graph& g, bool text) {
  proto::GraphDef def;
  const std::vector<uint8_t> unfinished = UnfinishedNodes(g);
  for (const auto& node : g.nodes()) {
    if (unfinished[static_cast<size_t>(node->id())] != 0) continue;
    proto::NodeDef* n = def.add_node();
    SLUICE_RETURN_IF_ERROR(NodeToProto(*node, n));
    SLUICE_RETURN_IF_ERROR(InputsToProto(*node, n));
  }
  for (const auto& [name, bytes] : g.functions()) {
    proto::FunctionDef* const f = def.mutable_library()->add_function();
    if (!f->ParseFromString(bytes))
      return Internal("export: function '", name,
                      "': expected a serialised FunctionDef");
    // (Its calls are inlined, and no other program knows the op.)
    if (std::any_of(f->node_def().begin(), f->node_def().end(),
                    [](const auto& n) { return n.op() == kGradientOutsideOp; }))
      def.mutable_library()->mutable_function()->RemoveLast();
  }
  for (const auto& [name, gradient] : g.function_gradients()) {
    proto::GradientDef* d = def.mutable_library()->add_gradient();
    d->set_function_name(name);
    d->set_gradient_func(gradient);
  }
  def.mutable_versions()->set_producer(
      g.producer_version > 0 ? g.producer_version : kGraphDefVersion);
  LinesToProto(g, def.mutable_debug_info());
  if (def.debug_info().files_size() == 0) def.clear_debug_info();
  SLUICE_ASSIGN_OR_RETURN(std::string bytes, SerializeProto(def));
  if (!text) return bytes;
  return PrintTextGraphDef(bytes);
}

Result<std::string> ExportNodeDef(const Node& node) {
  proto::NodeDef def;
  SLUICE_RETURN_IF_ERROR(NodeToProto(node, &def));
  SLUICE_RETURN_IF_ERROR(InputsToProto(node, &def));
  return SerializeProto(def);
}

}  // namespace sluice
