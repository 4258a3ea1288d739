// The native C API: the registry of ops, for generators of bindings.
#include "capi/native.h"
#include "graph/grad.h"
#include "graph/graphdef_op.h"
#include "graph/op_library.h"

namespace sluice::capi {
namespace {

const OpDef* OpOf(const sl_op_def* op) {
  return reinterpret_cast<const OpDef*>(op);
}
const sl_op_def* HandleOfOp(const OpDef* op) {
  return reinterpret_cast<const sl_op_def*>(op);
}

// InvalidArgument if there is no i-th of these, or no room for what is known.
template <typename T, typename Info>
Status CheckListed(const sl_op_def* op, const std::vector<T> OpDef::*list,
                   int32_t i, const char* what, Info* info) {
  SLUICE_RETURN_IF_ERROR(GivenList(op, 1, "op"));
  SLUICE_RETURN_IF_ERROR(GivenList(info, 1, "room for the answer"));
  *info = Info();
  const size_t n = (OpOf(op)->*list).size();
  if (i < 0 || static_cast<size_t>(i) >= n)
    return InvalidArgument(what, ": expected one of ", n, " of op '",
                           OpOf(op)->name, "', got ", i);
  return OkStatus();
}

sl_status* DescribeArg(const sl_op_def* op, std::vector<ArgDef> OpDef::*list,
                       int32_t i, const char* what, sl_arg_info* info) {
  return Outcome(what, [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(CheckListed<ArgDef>(op, list, i, what, info));
    const ArgDef& arg = (OpOf(op)->*list)[static_cast<size_t>(i)];
    *info = {arg.name.c_str(),        static_cast<sl_dtype>(arg.type),
             arg.type_attr.c_str(),   arg.type_list_attr.c_str(),
             arg.number_attr.c_str(), arg.is_ref ? 1 : 0};
    return OkStatus();
  });
}

}  // namespace
}  // namespace sluice::capi

using namespace sluice;        // NOLINT
using namespace sluice::capi;  // NOLINT

extern "C" {

sl_status* sl_load_library(const char* path) {
  return Outcome("library", [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(GivenList(path, 1, "name of a library"));
    return LoadOpLibrary(path).status();
  });
}

const sl_op_def* sl_op_def_find(const char* name) {
  const OpDef* found = nullptr;
  if (name != nullptr)
    (void)WithoutThrowing("op", [&] {
      found = OpRegistry::Global()->Find(name);
      return OkStatus();
    });
  return HandleOfOp(found);
}

void sl_op_def_each(void (*each)(const sl_op_def* op, void* data), void* data) {
  if (each == nullptr) return;
  (void)WithoutThrowing("ops", [&] {
    for (const OpDef* op : OpRegistry::Global()->All())
      each(HandleOfOp(op), data);
    return OkStatus();
  });
}

sl_status* sl_op_def_info(const sl_op_def* op, sl_op_info* info) {
  return Outcome("op", [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(GivenList(op, 1, "op"));
    SLUICE_RETURN_IF_ERROR(GivenList(info, 1, "room for the answer"));
    const OpDef& def = *OpOf(op);
    *info = {def.name.c_str(),
             def.family.c_str(),
             def.doc.c_str(),
             static_cast<int32_t>(def.inputs.size()),
             static_cast<int32_t>(def.outputs.size()),
             static_cast<int32_t>(def.attrs.size()),
             def.stateful ? 1 : 0,
             grad::HasGradient(def) || HasGradientInC(def.name) ? 1 : 0};
    return OkStatus();
  });
}

sl_status* sl_op_def_input(const sl_op_def* op, int32_t i, sl_arg_info* info) {
  return DescribeArg(op, &OpDef::inputs, i, "input", info);
}
sl_status* sl_op_def_output(const sl_op_def* op, int32_t i, sl_arg_info* info) {
  return DescribeArg(op, &OpDef::outputs, i, "output", info);
}

sl_status* sl_op_def_attr(const sl_op_def* op, int32_t i, sl_attr_info* info) {
  return Outcome("attribute", [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(
        CheckListed<AttrDef>(op, &OpDef::attrs, i, "attribute", info));
    const AttrDef& a = OpOf(op)->attrs[static_cast<size_t>(i)];
    info->name = a.name.c_str();
    info->kind = static_cast<int32_t>(a.kind) | (a.is_list ? SL_KIND_LIST : 0);
    info->has_default = a.default_value.has_value() ? 1 : 0;
    for (const DType t : a.allowed_types)
      info->allowed_types |= uint64_t{1} << static_cast<int>(t);
    info->has_minimum = a.minimum.has_value() ? 1 : 0;
    info->minimum = a.minimum.value_or(0);
    return OkStatus();
  });
}

sl_status* sl_op_def_proto(const sl_op_def* op, sl_buffer** made) {
  return Outcome("op", [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(GivenRoom(made));
    SLUICE_RETURN_IF_ERROR(GivenList(op, 1, "op"));
    SLUICE_ASSIGN_OR_RETURN(std::string bytes, ExportOpDef(*OpOf(op)));
    *made = NewNativeBuffer(std::move(bytes));
    return OkStatus();
  });
}

}  // extern "C"
