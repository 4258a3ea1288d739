#include "exec/batching/batch_objects.h"

#include <cstring>
#include <map>
#include <string_view>

#include "graph/node.h"

namespace sluice {
namespace {

// Filled by static initialisers, in any order.
std::map<std::string_view, ObjectForm>& ObjectForms() {
  static auto* forms = new std::map<std::string_view, ObjectForm>;
  return *forms;
}

}  // namespace

BatchKernelRegistrar::BatchKernelRegistrar(const char* op, ObjectForm form) {
  ObjectForms().emplace(op, form);
}

ObjectForm FindObjectForm(const Node& n) {
  const auto it = ObjectForms().find(n.op_name());
  return it == ObjectForms().end() ? ObjectForm() : it->second;
}

bool SameTensor(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || !(a.shape() == b.shape())) return false;
  if (a.has_buffer() && a.buffer() == b.buffer() && a.raw() == b.raw())
    return true;
  return IsPlain(a.dtype()) && a.bytes() <= kComparedBytes &&
         std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}

void BatchValue::Clear() {
  if (is_shared) shared = Tensor();
  if (is_stacked) stacked = Tensor();
  if (is_each) each.clear();
  is_shared = is_stacked = is_each = false;
}

// (The parts of a buffer have more than eight bytes, as Tensor requires:
// smaller ones are copied.)
Tensor PartsOf::operator[](size_t i) const {
  const char* const from =
      static_cast<const char*>(stacked_.raw()) + i * bytes_;
  if (bytes_ <= 8) {
    Tensor t(stacked_.dtype(), shape_);
    if (bytes_ > 0) std::memcpy(t.raw(), from, bytes_);
    return t;
  }
  stacked_.buffer()->Ref();
  return Tensor(stacked_.dtype(), shape_, stacked_.buffer(),
                const_cast<char*>(from));
}

}  // namespace sluice
