// Graphs: their shapes, operations and messages.
#include "capi/c_ops.h"
#include "capi/handles.h"
#include "graph/function.h"
#include "graph/graphdef.h"
#include "graph/graphdef_messages.h"
#include "graph/graphdef_op.h"
#include "graph/shape_context.h"
#include "graph/valid_outputs.h"

namespace sluice::capi {

Status CheckOutput(const Graph& g, TF_Output o, const char* what) {
  SLUICE_RETURN_IF_ERROR(Given(o.oper, what));
  const Node* n = FromC(o.oper);
  if (n->graph() != &g)
    return InvalidArgument(what,
                           ": expected an output of this graph, got one "
                           "of another; ",
                           n->Describe());
  if (o.index < 0 || o.index >= n->num_outputs())
    return InvalidArgument(what, ": expected ", ValidOutputs(*n), " of '",
                           n->name(), "', got ", o.index);
  return OkStatus();
}

void Unref(TF_Graph* graph) {
  if (graph != nullptr && graph->users.fetch_sub(1) == 1) delete graph;
}

namespace {

using GraphLock = std::lock_guard<std::recursive_mutex>;

// Calls fn, which returns a Status, with the graph locked.
template <typename Fn>
bool ReportOf(TF_Graph* graph, TF_Status* status, Fn&& fn) {
  return Report(status, "graph", [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(Given(graph, "graph"));
    const GraphLock lock(graph->mutex());
    return fn(*graph);
  });
}

}  // namespace
}  // namespace sluice::capi

using namespace sluice;        // NOLINT
using namespace sluice::capi;  // NOLINT

extern "C" {

TF_Graph* TF_NewGraph(void) { return new TF_Graph; }
void TF_DeleteGraph(TF_Graph* graph) { Unref(graph); }

void TF_GraphSetTensorShape(TF_Graph* graph, TF_Output output,
                            const int64_t* dims, const int num_dims,
                            TF_Status* status) {
  ReportOf(graph, status, [&](Graph& g) -> Status {
    SLUICE_RETURN_IF_ERROR(CheckOutput(g, output, "output"));
    SLUICE_ASSIGN_OR_RETURN(const PartialShape shape,
                            PartialShapeOf(dims, num_dims));
    return g.SetShape(FromC(output), shape);
  });
}

int TF_GraphGetTensorNumDims(TF_Graph* graph, TF_Output output,
                             TF_Status* status) {
  int rank = -1;
  ReportOf(graph, status, [&](Graph& g) -> Status {
    SLUICE_RETURN_IF_ERROR(CheckOutput(g, output, "output"));
    rank = FromC(output).shape().rank();
    return OkStatus();
  });
  return rank;
}

void TF_GraphGetTensorShape(TF_Graph* graph, TF_Output output, int64_t* dims,
                            int num_dims, TF_Status* status) {
  ReportOf(graph, status, [&](Graph& g) -> Status {
    SLUICE_RETURN_IF_ERROR(CheckOutput(g, output, "output"));
    const PartialShape& shape = FromC(output).shape();
    if (num_dims != shape.rank())
      return InvalidArgument("dims: expected room for a rank of ", shape.rank(),
                             ", got ", num_dims);
    if (num_dims > 0) SLUICE_RETURN_IF_ERROR(Given(dims, "dims"));
    for (int i = 0; i < num_dims; ++i) dims[i] = shape.dim(i);
    return OkStatus();
  });
}

TF_Operation* TF_GraphOperationByName(TF_Graph* graph, const char* oper_name) {
  if (graph == nullptr || oper_name == nullptr) return nullptr;
  const GraphLock lock(graph->mutex());
  return ToC(graph->FindNode(oper_name));
}

TF_Operation* TF_GraphNextOperation(TF_Graph* graph, size_t* pos) {
  if (graph == nullptr || pos == nullptr) return nullptr;
  const GraphLock lock(graph->mutex());
  if (*pos >= graph->nodes().size()) return nullptr;
  return ToC(graph->nodes()[(*pos)++].get());
}

void TF_GraphToGraphDef(TF_Graph* graph, TF_Buffer* output_graph_def,
                        TF_Status* status) {
  ReportOf(graph, status, [&](Graph& g) -> Status {
    SLUICE_ASSIGN_OR_RETURN(const std::string bytes, ExportGraphDef(g));
    return Fill(output_graph_def, bytes);
  });
}

void TF_GraphGetOpDef(TF_Graph* graph, const char* op_name,
                      TF_Buffer* output_op_def, TF_Status* status) {
  ReportOf(graph, status, [&](Graph& g) -> Status {
    SLUICE_RETURN_IF_ERROR(Given(op_name, "name of an op"));
    const Result<const OpDef*> found = g.function_library().LookupOp(op_name);
    if (found.status().code() == StatusCode::kNotFound)
      return NotFound("Op type not registered '", op_name,
                      "' in binary: ", found.status().message());
    SLUICE_ASSIGN_OR_RETURN(const OpDef* const op, found);
    proto::OpDef def;
    SLUICE_RETURN_IF_ERROR(ToOpDef(*op, &def));
    SLUICE_ASSIGN_OR_RETURN(const std::string bytes, SerializeProto(def));
    return Fill(output_op_def, bytes);
  });
}

void TF_GraphVersions(TF_Graph* graph, TF_Buffer* output_version_def,
                      TF_Status* status) {
  ReportOf(graph, status, [&](Graph& g) -> Status {
    proto::VersionDef v;
    v.set_producer(g.producer_version != 0 ? g.producer_version
                                           : kGraphDefVersion);
    SLUICE_ASSIGN_OR_RETURN(const std::string bytes, SerializeProto(v));
    return Fill(output_version_def, bytes);
  });
}

unsigned char TF_TryEvaluateConstant(TF_Graph* graph, TF_Output output,
                                     TF_Tensor** result, TF_Status* status) {
  bool known = false;
  ReportOf(graph, status, [&](Graph& g) -> Status {
    SLUICE_RETURN_IF_ERROR(Given(result, "room for the result"));
    *result = nullptr;
    SLUICE_RETURN_IF_ERROR(CheckOutput(g, output, "output"));
    const std::optional<Tensor> value = ConstantValue(FromC(output));
    if (!value) return OkStatus();
    SLUICE_ASSIGN_OR_RETURN(*result, NewTensor(*value));
    known = true;
    return OkStatus();
  });
  return known ? 1 : 0;
}

void TF_UpdateEdge(TF_Graph* graph, TF_Output new_src, TF_Input dst,
                   TF_Status* status) {
  ReportOf(graph, status, [&](TF_Graph& g) -> Status {
    SLUICE_RETURN_IF_ERROR(CheckOutput(g, new_src, "new source"));
    SLUICE_RETURN_IF_ERROR(Given(dst.oper, "input"));
    Node* const n = FromC(dst.oper);
    if (n->graph() != &g)
      return InvalidArgument(
          "input: expected one of this graph, got one of "
          "another; ",
          n->Describe());
    if (dst.index < 0 || dst.index >= n->num_inputs())
      return OutOfRange("input: expected one of ", n->num_inputs(), " of '",
                        n->name(), "', got ", dst.index);
    g.ForgetReaders();
    SLUICE_RETURN_IF_ERROR(g.ReplaceInput(n, dst.index, FromC(new_src)));
    g.changed.emplace(n, dst.index);
    g.edits.fetch_add(1);
    return OkStatus();
  });
}

}  // extern "C"
