// Import of GraphDefs.
#include <map>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "capi/handles.h"
#include "graph/graphdef_messages.h"

struct TF_ImportGraphDefOptions {
  sluice::ImportOptions options;
  bool unique_prefix = false;
  // Keys of input_map, and what the caller called them.
  std::map<std::string, std::pair<std::string, int>> mapped;
  // Return elements, by their order within their kind.
  std::vector<std::string> outputs, operations;
};

struct TF_ImportGraphDefResults {
  std::vector<TF_Output> outputs;
  std::vector<TF_Operation*> operations;
  std::vector<std::string> missing_names;
  std::vector<const char*> missing;
  std::vector<int> missing_indexes;
};

using namespace sluice;        // NOLINT
using namespace sluice::capi;  // NOLINT

namespace {

// Whether the GraphDef has this node with at least this many outputs;
// `imported` is what became of its nodes.
bool HasOutput(const proto::GraphDef& def, const ImportResults& imported,
               const std::string& name, int index) {
  for (int i = 0; i < def.node_size(); ++i)
    if (def.node(i).name() == name)
      return index < imported.nodes[static_cast<size_t>(i)]->num_outputs();
  return false;
}

Status Import(TF_Graph* graph, std::string_view bytes,
              const TF_ImportGraphDefOptions& given,
              TF_ImportGraphDefResults* results) {
  ImportOptions options = given.options;
  while (options.prefix.ends_with("/")) options.prefix.pop_back();
  for (const auto* list : {&given.outputs, &given.operations})
    for (const std::string& element : *list)
      options.return_elements.push_back(element);
  std::lock_guard<std::recursive_mutex> lock(graph->mutex());
  for (const Node* n : options.control_dependencies)
    if (n == nullptr || n->graph() != graph)
      return InvalidArgument(
          "control dependency: expected a node of the "
          "graph, got another");
  if (!options.prefix.empty() && given.unique_prefix)
    options.prefix = graph->UniqueScope(options.prefix);
  ImportResults imported;
  graph->ForgetReaders();
  Status s = ImportGraphDef(bytes, *graph, options, &imported);
  // (TensorFlow's codes.)
  if (s.code() == StatusCode::kAlreadyExists ||
      (s.code() == StatusCode::kNotFound &&
       s.message().find("return element") == 0))
    s = InvalidArgument(s.message());
  SLUICE_RETURN_IF_ERROR(s);
  for (const Output& o : imported.return_outputs)
    results->outputs.push_back(ToC(o));
  for (Node* n : imported.return_nodes) results->operations.push_back(ToC(n));
  proto::GraphDef def;
  if (!imported.unused_input_map_keys.empty())
    SLUICE_RETURN_IF_ERROR(ParseGraphDef(bytes, &def));
  for (const std::string& key : imported.unused_input_map_keys) {
    const auto& [name, index] = given.mapped.at(key);
    if (HasOutput(def, imported, name, index)) continue;
    results->missing_names.push_back(name);
    results->missing_indexes.push_back(index);
  }
  for (const std::string& name : results->missing_names)
    results->missing.push_back(name.c_str());
  return OkStatus();
}

}  // namespace

namespace sluice::capi {

Status Extend(TF_Graph* graph, std::string_view bytes) {
  proto::GraphDef def;
  SLUICE_RETURN_IF_ERROR(ParseGraphDef(bytes, &def));
  std::set<std::string> own;
  for (const proto::NodeDef& n : def.node()) own.insert(n.name());
  std::lock_guard<std::recursive_mutex> lock(graph->mutex());
  // Inputs from nodes that were there before.
  TF_ImportGraphDefOptions given;
  for (const proto::NodeDef& n : def.node())
    for (const std::string& input : n.input()) {
      const bool control = input.starts_with("^");
      const size_t colon = control ? input.npos : input.rfind(':');
      const std::string name = input.substr(
          control ? 1 : 0, colon == input.npos ? input.npos : colon);
      Node* const before = own.contains(name) ? nullptr : graph->FindNode(name);
      if (before == nullptr) continue;
      if (control) {
        given.options.control_input_map[name] = before;
        continue;
      }
      int index = 0;
      if (colon != input.npos &&
          !absl::SimpleAtoi(input.substr(colon + 1), &index))
        continue;  // (The import says what is wrong.)
      const std::string key = absl::StrCat(name, ":", index);
      given.options.input_map[key] = Output(before, index);
      given.mapped[key] = {name, index};
    }
  TF_ImportGraphDefResults unused;
  return Import(graph, bytes, given, &unused);
}

}  // namespace sluice::capi

extern "C" {

TF_ImportGraphDefOptions* TF_NewImportGraphDefOptions(void) {
  return new TF_ImportGraphDefOptions;
}
void TF_DeleteImportGraphDefOptions(TF_ImportGraphDefOptions* opts) {
  delete opts;
}
void TF_ImportGraphDefOptionsSetPrefix(TF_ImportGraphDefOptions* opts,
                                       const char* prefix) {
  opts->options.prefix = View(prefix);
}
void TF_ImportGraphDefOptionsSetDefaultDevice(TF_ImportGraphDefOptions* opts,
                                              const char* device) {
  opts->options.default_device = View(device);
}
void TF_ImportGraphDefOptionsSetUniquifyNames(TF_ImportGraphDefOptions* opts,
                                              unsigned char uniquify_names) {
  opts->options.unique_names = uniquify_names != 0;
}
void TF_ImportGraphDefOptionsSetUniquifyPrefix(TF_ImportGraphDefOptions* opts,
                                               unsigned char uniquify_prefix) {
  opts->unique_prefix = uniquify_prefix != 0;
}
void TF_ImportGraphDefOptionsAddInputMapping(TF_ImportGraphDefOptions* opts,
                                             const char* src_name,
                                             int src_index, TF_Output dst) {
  const std::string name(View(src_name));
  if (src_index < 0) {
    opts->options.control_input_map[name] = FromC(dst.oper);
    return;
  }
  const std::string key = absl::StrCat(name, ":", src_index);
  opts->options.input_map[key] = FromC(dst);
  opts->mapped[key] = {name, src_index};
}
void TF_ImportGraphDefOptionsRemapControlDependency(
    TF_ImportGraphDefOptions* opts, const char* src_name, TF_Operation* dst) {
  opts->options.control_input_map[std::string(View(src_name))] = FromC(dst);
}
void TF_ImportGraphDefOptionsAddControlDependency(
    TF_ImportGraphDefOptions* opts, TF_Operation* oper) {
  opts->options.control_dependencies.push_back(FromC(oper));
}
void TF_ImportGraphDefOptionsAddReturnOutput(TF_ImportGraphDefOptions* opts,
                                             const char* oper_name, int index) {
  opts->outputs.push_back(absl::StrCat(View(oper_name), ":", index));
}
int TF_ImportGraphDefOptionsNumReturnOutputs(
    const TF_ImportGraphDefOptions* opts) {
  return static_cast<int>(opts->outputs.size());
}
void TF_ImportGraphDefOptionsAddReturnOperation(TF_ImportGraphDefOptions* opts,
                                                const char* oper_name) {
  opts->operations.emplace_back(View(oper_name));
}
int TF_ImportGraphDefOptionsNumReturnOperations(
    const TF_ImportGraphDefOptions* opts) {
  return static_cast<int>(opts->operations.size());
}

void TF_ImportGraphDefResultsReturnOutputs(TF_ImportGraphDefResults* results,
                                           int* num_outputs,
                                           TF_Output** outputs) {
  *num_outputs = static_cast<int>(results->outputs.size());
  *outputs = results->outputs.data();
}
void TF_ImportGraphDefResultsReturnOperations(TF_ImportGraphDefResults* results,
                                              int* num_opers,
                                              TF_Operation*** opers) {
  *num_opers = static_cast<int>(results->operations.size());
  *opers = results->operations.data();
}
void TF_ImportGraphDefResultsMissingUnusedInputMappings(
    TF_ImportGraphDefResults* results, int* num_missing_unused_input_mappings,
    const char*** src_names, int** src_indexes) {
  *num_missing_unused_input_mappings =
      static_cast<int>(results->missing.size());
  *src_names = results->missing.data();
  *src_indexes = results->missing_indexes.data();
}
void TF_DeleteImportGraphDefResults(TF_ImportGraphDefResults* results) {
  delete results;
}

TF_ImportGraphDefResults* TF_GraphImportGraphDefWithResults(
    TF_Graph* graph, const TF_Buffer* graph_def,
    const TF_ImportGraphDefOptions* options, TF_Status* status) {
  auto results = std::make_unique<TF_ImportGraphDefResults>();
  const bool ok = Report(status, "import", [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(Given(graph, "graph"));
    SLUICE_RETURN_IF_ERROR(Given(graph_def, "GraphDef"));
    const TF_ImportGraphDefOptions defaults;
    return Import(graph, Bytes(graph_def),
                  options != nullptr ? *options : defaults, results.get());
  });
  return ok ? results.release() : nullptr;
}

void TF_GraphImportGraphDefWithReturnOutputs(
    TF_Graph* graph, const TF_Buffer* graph_def,
    const TF_ImportGraphDefOptions* options, TF_Output* return_outputs,
    int num_return_outputs, TF_Status* status) {
  const int asked = options == nullptr
                        ? 0
                        : TF_ImportGraphDefOptionsNumReturnOutputs(options);
  if (num_return_outputs != asked || (asked > 0 && return_outputs == nullptr)) {
    SetStatus(status, InvalidArgument("return outputs: expected room for ",
                                      asked, ", got ", num_return_outputs));
    return;
  }
  const std::unique_ptr<TF_ImportGraphDefResults> results(
      TF_GraphImportGraphDefWithResults(graph, graph_def, options, status));
  if (results != nullptr)
    std::copy(results->outputs.begin(), results->outputs.end(), return_outputs);
}

void TF_GraphImportGraphDef(TF_Graph* graph, const TF_Buffer* graph_def,
                            const TF_ImportGraphDefOptions* options,
                            TF_Status* status) {
  TF_DeleteImportGraphDefResults(
      TF_GraphImportGraphDefWithResults(graph, graph_def, options, status));
}

}  // extern "C"
