// Attributes of nodes, as the functions of operations and of kernels read them.
#ifndef SLUICE_CAPI_ATTRIBUTES_H_
#define SLUICE_CAPI_ATTRIBUTES_H_

#include <algorithm>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "capi/handles.h"

namespace sluice::capi {

inline bool IsEmptyList(const AttrValue& v) {
  return v.get<AttrValue::EmptyList>() != nullptr;
}

inline Status OtherKind(const char* wanted, const AttrValue& got) {
  return InvalidArgument("expected ", wanted, ", got ", got.ToString());
}

// Calls fn(attribute) and adds to its error which one it is. InvalidArgument,
// in TensorFlow's words, if the node has none of this name.
template <typename Fn>
Status WithAttributeOf(const Node& n, const char* name, Fn&& fn) {
  SLUICE_RETURN_IF_ERROR(Given(name, "name of an attribute"));
  const AttrValue* v = n.FindAttr(name);
  if (v == nullptr)
    return InvalidArgument("Operation '", n.name(), "' has no attr named '",
                           name, "'.");
  const Status s = fn(*v);
  if (s.ok()) return s;
  return Status(s.code(), absl::StrCat("attribute '", name, "': ", s.message(),
                                       "; ", n.Describe()));
}

// Stores an element; InvalidArgument for an integer that Out cannot hold.
template <typename T, typename Out>
Status StoreElement(const T& from, Out* to) {
  if constexpr (std::is_same_v<T, int64_t> && sizeof(Out) < sizeof(T))
    if (from < std::numeric_limits<Out>::min() ||
        from > std::numeric_limits<Out>::max())
      return InvalidArgument("expected an integer of ", 8 * sizeof(Out),
                             " bits, got ", from);
  *to = static_cast<Out>(from);
  return OkStatus();
}

// The one value of an attribute.
template <typename T, typename Out>
Status StoreOne(const AttrValue& v, const char* kind, Out* value) {
  SLUICE_RETURN_IF_ERROR(Given(value, "room for the value"));
  const T* found = v.get<T>();
  if (found == nullptr) return OtherKind(kind, v);
  return StoreElement(*found, value);
}

// The first elements of a list.
template <typename T, typename Out>
Status StoreList(const AttrValue& v, const char* kind, Out* values,
                 int max_values) {
  SLUICE_RETURN_IF_ERROR(GivenArray(values, max_values, "values"));
  if (IsEmptyList(v)) return OkStatus();
  const auto* found = v.get<std::vector<T>>();
  if (found == nullptr) return OtherKind(kind, v);
  const size_t n = std::min(found->size(), static_cast<size_t>(max_values));
  for (size_t i = 0; i < n; ++i) {
    const T element = (*found)[i];  // (Of a vector<bool>, too.)
    SLUICE_RETURN_IF_ERROR(StoreElement(element, &values[i]));
  }
  return OkStatus();
}

// The first bytes of a string.
Status StoreString(const AttrValue& v, void* value, size_t max_length);
// The first strings of a list, one after the other in `storage`.
Status StoreStrings(const AttrValue& v, void** values, size_t* lengths,
                    int max_values, void* storage, size_t storage_size);

// `declared` tells the kind of an empty list; may be null.
TF_AttrMetadata MetadataOf(const AttrValue& v, const AttrDef* declared);

}  // namespace sluice::capi

#endif  // SLUICE_CAPI_ATTRIBUTES_H_
