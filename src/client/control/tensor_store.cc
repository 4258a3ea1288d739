#include "client/control/tensor_store.h"

#include <utility>

#include "client/op_builder.h"
#include "client/types_and_shapes.h"
#include "graph/device_scope.h"
#include "graph/graph.h"

namespace sluice {

TensorStore::TensorStore(DType dtype, const TensorStoreOptions& options,
                         SourceLoc loc)
    : dtype_(RemoveRef(dtype)),
      key_dtype_(options.key_dtype),
      element_shape_(options.element_shape) {
  handle_ = OpCall("TensorStore", options.name, loc)
                .Attr("dtype", dtype_)
                .Attr("key_dtype", key_dtype_)
                .Attr("element_shape", element_shape_)
                .Attr("container", options.container)
                .Attr("shared_name", options.shared_name)
                .Out();
}

TensorStore TensorStore::FromHandle(Output handle, DType dtype,
                                    const TensorStoreOptions& options) {
  TensorStore s;
  s.handle_ = handle;
  s.dtype_ = RemoveRef(dtype);
  s.key_dtype_ = options.key_dtype;
  s.element_shape_ = options.element_shape;
  return s;
}

// Converts int32 keys to int64.
Output TensorStore::Key(const Operand& key, SourceLoc loc) const {
  const Output k = key.Get(key_dtype_);
  if (!k.valid() || RemoveRef(k.dtype()) != DType::kInt32 ||
      key_dtype_ != DType::kInt64)
    return k;
  return Build("Cast", {k}, {{"DstT", DType::kInt64}}, "", loc);
}

Output TensorStore::Write(const Operand& key, const Operand& value,
                          SourceLoc loc) const {
  const std::lock_guard<std::recursive_mutex> lock(CurrentGraph().mutex());
  const Output v = value.Get(dtype_);
  if (v.valid() && handle_.valid() && RemoveRef(v.dtype()) != dtype_)
    return BuildError(
        InvalidArgument("TensorStore: expected a value of type ",
                        DTypeName(dtype_), ", got ", DTypeName(v.dtype())),
        loc);
  const Output k = Key(key, loc);
  const NoDeviceScope at_home;
  return OpCall("TensorStoreWrite", "", loc).In(handle_).In(k).In(v).Out();
}

Output TensorStore::Read(const Operand& key, SourceLoc loc) const {
  const std::lock_guard<std::recursive_mutex> lock(CurrentGraph().mutex());
  const Output k = Key(key, loc);
  const NoDeviceScope at_home;
  return OpCall("TensorStoreRead", "", loc)
      .In(handle_)
      .In(k)
      .Attr("dtype", dtype_)
      .Attr("element_shape", element_shape_)
      .Out();
}

Output TensorStore::ReadMany(const Operand& keys, SourceLoc loc) const {
  const std::lock_guard<std::recursive_mutex> lock(CurrentGraph().mutex());
  const Output k = Key(keys, loc);
  const NoDeviceScope at_home;
  return OpCall("TensorStoreReadMany", "", loc)
      .In(handle_)
      .In(k)
      .Attr("dtype", dtype_)
      .Attr("element_shape", element_shape_)
      .Out();
}

Output TensorStore::Has(const Operand& key, SourceLoc loc) const {
  const std::lock_guard<std::recursive_mutex> lock(CurrentGraph().mutex());
  const Output k = Key(key, loc);
  const NoDeviceScope at_home;
  return OpCall("TensorStoreHas", "", loc).In(handle_).In(k).Out();
}

Output TensorStore::Size(SourceLoc loc) const {
  const NoDeviceScope at_home;
  return OpCall("TensorStoreSize", "", loc).In(handle_).Out();
}

Output TensorStore::Keys(SourceLoc loc) const {
  const NoDeviceScope at_home;
  return OpCall("TensorStoreKeys", "", loc)
      .In(handle_)
      .Attr("Tkey", key_dtype_)
      .Out();
}

}  // namespace sluice
