#include "ops/tables/table.h"

#include "ops/common/elements.h"

namespace sluice::tables {
namespace {

std::string Types(DType key, DType value) {
  return absl::StrCat(DTypeName(key), "->",
                      value == DType::kInvalid ? "" : DTypeName(value));
}

}  // namespace

Status Table::CheckTypes(DType keys, DType values) const {
  if (keys == options_.key_type &&
      (values == options_.value_type || values == DType::kInvalid)) [[likely]]
    return OkStatus();
  return InvalidArgument("table '", options_.name, "': expected types ",
                         Types(options_.key_type, options_.value_type),
                         ", got ", Types(keys, values),
                         " (signature mismatch)");
}

Status Table::Initialize(const Tensor&, const Tensor&) {
  return InvalidArgument("table '", options_.name,
                         "': expected one that is initialised once, got a ",
                         TypeName(), " (it is not initializable)");
}

Status Table::CheckValues(const Shape& keys, const Shape& values) const {
  Dims want = array::DimsOf(keys);
  want.insert(want.end(), options_.value_shape.dims().begin(),
              options_.value_shape.dims().end());
  SLUICE_ASSIGN_OR_RETURN(const Shape shape, array::MakeShape(want));
  if (values == shape) return OkStatus();
  return InvalidArgument("values: expected shape ", shape.ToString(),
                         ", one value for each key, got ", values.ToString());
}

Result<Shape> Table::FoundShape(const Shape& keys, const Shape& missing,
                                bool* each) const {
  const Shape& value = options_.value_shape;
  if (value.rank() == 0) {
    *each = !(missing == value);
    if (!*each || missing == keys) return keys;
  }
  Dims dims = array::DimsOf(keys);
  dims.insert(dims.end(), value.dims().begin(), value.dims().end());
  SLUICE_ASSIGN_OR_RETURN(Shape found, array::MakeShape(dims));
  *each = !(missing == value);
  if (*each && !(missing == found))
    return InvalidArgument("default_value: expected shape ", value.ToString(),
                           " or ", found.ToString(), ", got ",
                           missing.ToString());
  return found;
}

Result<Table*> TableInput(const KernelContext& ctx) {
  SLUICE_ASSIGN_OR_RETURN(const ResourceHandle* h, ctx.handle(0));
  Table* const table = dynamic_cast<Table*>(h->resource.get());
  if (table == nullptr)
    return InvalidArgument("table_handle: expected a table, got ",
                           h->resource ? h->resource->TypeName() : "nothing",
                           " '", h->name, "'");
  return table;
}

TableOptions OptionsOf(const Node& n) {
  TableOptions options;
  options.name = state::ResourceName(n).name;
  options.key_type = n.TypeAttr("key_dtype");
  options.value_type = n.TypeAttr("value_dtype");
  const auto shape =
      n.AttrOr<PartialShape>("value_shape", PartialShape::Scalar()).ToShape();
  if (shape.ok()) options.value_shape = *shape;
  return options;
}

Status CheckKernelTypes(const Node& n) {
  const DType key = n.TypeAttr("key_dtype"), value = n.TypeAttr("value_dtype");
  if (ByTableTypes(key, value, [](const auto&, const auto&) {}))
    return OkStatus();
  return Unimplemented(
      n.op_name(), ": expected keys of int32, int64 or string and values of ",
      "bool, int32, int64, float, double or string, got ", Types(key, value));
}

Status TableHandle::CheckShared(const Table& found) const {
  const TableOptions& o = found.options();
  if (found.TypeName() == kind_ && o.key_type == options_.key_type &&
      o.value_type == options_.value_type &&
      o.value_shape == options_.value_shape)
    return OkStatus();
  const auto describe = [](const std::string& kind, const TableOptions& t) {
    return absl::StrCat(kind, " ", Types(t.key_type, t.value_type),
                        t.value_shape.ToString());
  };
  return InvalidArgument("table '", options_.name, "': expected ",
                         describe(kind_, options_), ", got ",
                         describe(found.TypeName(), o), " of the same name");
}

}  // namespace sluice::tables
