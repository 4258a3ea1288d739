// What is done with tables, of any kind.
#include <optional>
#include <string>

#include "graph/op_def.h"
#include "ops/tables/table.h"

namespace sluice {
namespace {

using tables::Table;
using tables::TableInput;

Status RunFind(KernelContext& ctx) {
  SLUICE_ASSIGN_OR_RETURN(const Table* table, TableInput(ctx));
  const Tensor& missing = ctx.input(2);
  SLUICE_RETURN_IF_ERROR(
      table->CheckTypes(ctx.input(1).dtype(), missing.dtype()));
  SLUICE_ASSIGN_OR_RETURN(ctx.output(0), table->Find(ctx.input(1), missing));
  return OkStatus();
}

template <Status (Table::*kChange)(const Tensor&, const Tensor&)>
Status RunWithValues(KernelContext& ctx) {
  SLUICE_ASSIGN_OR_RETURN(Table * table, TableInput(ctx));
  const Tensor& keys = ctx.input(1);
  const Tensor& values = ctx.input(2);
  SLUICE_RETURN_IF_ERROR(table->CheckTypes(keys.dtype(), values.dtype()));
  return (table->*kChange)(keys, values);
}

Status RunInitialize(KernelContext& ctx) {
  if (ctx.input(1).rank() != 1)
    return InvalidArgument("keys: expected a vector, got shape ",
                           ctx.input(1).shape().ToString());
  return RunWithValues<&Table::Initialize>(ctx);
}

Status RunRemove(KernelContext& ctx) {
  SLUICE_ASSIGN_OR_RETURN(Table * table, TableInput(ctx));
  SLUICE_RETURN_IF_ERROR(
      table->CheckTypes(ctx.input(1).dtype(), DType::kInvalid));
  return table->Remove(ctx.input(1));
}

Status RunTableSize(KernelContext& ctx) {
  SLUICE_ASSIGN_OR_RETURN(const Table* table, TableInput(ctx));
  ctx.set_output(0, Tensor::Scalar(table->size()));
  return OkStatus();
}

class ExportKernel {
 public:
  explicit ExportKernel(const Node& n)
      : keys_(n.TypeAttr("Tkeys")), values_(n.TypeAttr("Tvalues")) {}
  Status Run(KernelContext& ctx) const {
    SLUICE_ASSIGN_OR_RETURN(const Table* table, TableInput(ctx));
    SLUICE_RETURN_IF_ERROR(table->CheckTypes(keys_, values_));
    return table->Export(&ctx.output(0), &ctx.output(1));
  }

 private:
  const DType keys_, values_;
};

// ---- Shapes -----------------------------------------------------------------

// The shape of one key and one value of the table of input 0; none if the node
// that made it is not known.
struct EntryShapes {
  PartialShape key, value;
  bool dense = false;  // Exports with the rank of its buckets.
};

std::optional<EntryShapes> EntryShapesOf(const ShapeContext& c) {
  Output handle = c.node().input(0);
  for (int depth = 0; depth < 100 && handle.valid(); ++depth) {
    const Node& n = *handle.node;
    if (n.FindAttr("key_dtype") != nullptr &&
        n.FindAttr("value_dtype") != nullptr) {
      EntryShapes out;
      out.dense = n.num_inputs() > 0;
      out.key = out.dense ? n.input(0).node->output_shape(n.input(0).index)
                          : PartialShape::Scalar();
      out.value = n.AttrOr<PartialShape>("value_shape", PartialShape::Scalar());
      return out;
    }
    if (n.kind() != OpKind::kIdentity && n.op().role != OpRole::kIdentity &&
        n.op().role != OpRole::kEnter && n.op().role != OpRole::kSwitch)
      break;
    handle = n.input(0);
  }
  return std::nullopt;
}

Status FindShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(state::RequireHandle(c, 0));
  const std::optional<EntryShapes> entry = EntryShapesOf(c);
  const PartialShape& keys = c.input(1);
  if (!entry.has_value() || !keys.rank_known() || !entry->key.rank_known() ||
      !entry->value.rank_known())
    return OkStatus();
  const int outer = keys.rank() - entry->key.rank();
  if (outer < 0)
    return InvalidArgument("keys: expected keys of shape ",
                           entry->key.ToString(), ", got shape ",
                           keys.ToString());
  PartialShape out = PartialShape::Scalar();
  for (int d = 0; d < outer; ++d) out.add_dim(keys.dim(d));
  for (int d = 0; d < entry->value.rank(); ++d)
    out.add_dim(entry->value.dim(d));
  c.set_output(0, std::move(out));
  return OkStatus();
}

Status ExportShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(state::RequireHandle(c, 0));
  const std::optional<EntryShapes> entry = EntryShapesOf(c);
  if (!entry.has_value()) return OkStatus();
  if (entry->dense) {
    c.set_output(0, PartialShape({-1, entry->key.num_elements()}));
    return OkStatus();
  }
  c.set_output(0, PartialShape({-1}));
  if (!entry->value.rank_known()) return OkStatus();
  PartialShape values({-1});
  for (int d = 0; d < entry->value.rank(); ++d)
    values.add_dim(entry->value.dim(d));
  c.set_output(1, std::move(values));
  return OkStatus();
}

Status ChangeShape(ShapeContext& c) { return state::RequireHandle(c, 0); }

Status InitializeShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(state::RequireHandle(c, 0));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape keys, c.WithRank(1, 1));
  return MergeDim(keys.dim(0), c.input(2).rank() == 1 ? c.input(2).dim(0) : -1)
      .status();
}

Status TableSizeShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(state::RequireHandle(c, 0));
  c.set_output(0, PartialShape::Scalar());
  return OkStatus();
}

// ---- Declarations -----------------------------------------------------------

constexpr const char* kLooksUp = "a table has no derivative";

// Both versions of an op: `Name` with a reference, `Name`V2 with a resource.
// (Only the second is stateful in TensorFlow.)
#define SLUICE_TABLE_OP(Name, facts, more)                         \
  SLUICE_OP(Name)                                                  \
      .Input("table_handle: Ref(string)") more.Family("data_flow") \
      .NoGradient(kLooksUp);                                       \
  SLUICE_OP(Name##V2)                                              \
      .Input("table_handle: resource") more.Stateful(facts)        \
      .Family("data_flow")                                         \
      .NoGradient(kLooksUp)

SLUICE_TABLE_OP(InitializeTable, kUsesState,
                .Input("keys: Tkey")
                    .Input("values: Tval")
                    .Attr("Tkey: type")
                    .Attr("Tval: type")
                    .Shape(InitializeShape)
                    .Kernel(Cpu(RunInitialize))
                    .Doc("Fills a table that is initialised once."));

SLUICE_TABLE_OP(LookupTableFind, kDiffersEachTime,
                .Input("keys: Tin")
                    .Input("default_value: Tout")
                    .Output("values: Tout")
                    .Attr("Tin: type")
                    .Attr("Tout: type")
                    .Shape(FindShape)
                    .Kernel(Cpu(RunFind))
                    .Doc("Returns the value of each key, or the default."));

SLUICE_TABLE_OP(LookupTableInsert, kUsesState,
                .Input("keys: Tin")
                    .Input("values: Tout")
                    .Attr("Tin: type")
                    .Attr("Tout: type")
                    .Shape(ChangeShape)
                    .Kernel(Cpu(RunWithValues<&Table::Insert>))
                    .Doc("Adds keys to a table, or replaces their values."));

SLUICE_TABLE_OP(LookupTableSize, kDiffersEachTime,
                .Output("size: int64")
                    .Shape(TableSizeShape)
                    .Kernel(Cpu(RunTableSize))
                    .Doc("Returns the number of keys in a table."));

SLUICE_TABLE_OP(LookupTableExport, kDiffersEachTime,
                .Output("keys: Tkeys")
                    .Output("values: Tvalues")
                    .Attr("Tkeys: type")
                    .Attr("Tvalues: type")
                    .Shape(ExportShape)
                    .Kernel(CpuState<ExportKernel>())
                    .Doc("Returns all keys and values of a table."));

SLUICE_TABLE_OP(LookupTableImport, kUsesState,
                .Input("keys: Tin")
                    .Input("values: Tout")
                    .Attr("Tin: type")
                    .Attr("Tout: type")
                    .Shape(ChangeShape)
                    .Kernel(Cpu(RunWithValues<&Table::Import>))
                    .Doc("Replaces the contents of a table."));

#undef SLUICE_TABLE_OP

SLUICE_OP(LookupTableRemoveV2)
    .Input("table_handle: resource")
    .Input("keys: Tin")
    .Attr("Tin: type")
    .Stateful()
    .Family("data_flow")
    .Shape(ChangeShape)
    .Kernel(Cpu(RunRemove))
    .NoGradient(kLooksUp)
    .Doc("Removes keys from a table.");

}  // namespace
}  // namespace sluice
