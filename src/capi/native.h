// What the handles of the native C API (sluice/c_api.h) are, and how its
// functions report errors.
#ifndef SLUICE_CAPI_NATIVE_H_
#define SLUICE_CAPI_NATIVE_H_

#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/without_throwing.h"
#include "client/control/functions.h"
#include "graph/builder.h"
#include "graph/graph.h"
#include "session/session.h"
#include "sluice/c_api.h"
#include "tensor/tensor.h"

namespace sluice::capi {

// Begins every handle, so that a function can refuse one of another kind.
template <uint32_t kKind>
struct Tagged {
  static constexpr uint32_t kTag = 0x5c1ce000 + kKind;
  volatile uint32_t tag = kTag;
  Tagged() = default;
  Tagged(const Tagged&) = delete;
  ~Tagged() { tag = 0; }
};

}  // namespace sluice::capi

// The caller's; immutable.
struct sl_status : sluice::capi::Tagged<1> {
  sluice::StatusCode code = sluice::StatusCode::kUnknown;
  std::string message;
};

// The caller's; one thread at a time. Always has a valid value.
struct sl_tensor : sluice::capi::Tagged<2> {
  sluice::Tensor value;
  // Memory that is lent for one step at a time; null: none is. If `copies`, its
  // elements are copied for each step, else `value` shows them.
  const void* lent = nullptr;
  bool copies = false;
};

struct sl_buffer : sluice::capi::Tagged<3> {
  std::string bytes;
};

// A graph, or the one that a callback builds into (which then lives longer).
struct sl_graph : sluice::capi::Tagged<4> {
  sluice::Graph* graph;
  std::shared_ptr<sluice::Graph> owned;  // Null for that of a callback.
  explicit sl_graph(std::shared_ptr<sluice::Graph> g)
      : graph(g.get()), owned(std::move(g)) {}
  explicit sl_graph(sluice::Graph& g) : graph(&g) {}
};

struct sl_function : sluice::capi::Tagged<5> {
  sluice::Function function;
};

// Thread-safe. Keeps its graph.
struct sl_session : sluice::capi::Tagged<6> {
  const std::shared_ptr<sluice::Graph> graph;
  const std::shared_ptr<sluice::Session> session;
  bool of_model = false;  // A part of a model, which frees it.
  sl_session(std::shared_ptr<sluice::Graph> g,
             std::shared_ptr<sluice::Session> s)
      : graph(std::move(g)), session(std::move(s)) {}
};

namespace sluice::capi {

// Takes over a status of a callback.
Status TakeStatus(sl_status* status);
// A new status; null if `s` is OK. Does not throw.
sl_status* NativeStatus(const Status& s) noexcept;

// Calls fn, which returns a Status, and reports its outcome.
template <typename Fn>
sl_status* Outcome(const char* what, Fn&& fn) {
  return NativeStatus(WithoutThrowing(what, std::forward<Fn>(fn)));
}

// InvalidArgument if it is null, or a handle of another kind.
template <typename H>
Status GivenHandle(const H* handle, const char* what) {
  if (handle == nullptr)
    return InvalidArgument(what, ": expected one, got null");
  if (handle->tag != H::kTag)
    return InvalidArgument(what,
                           ": expected one, got a handle of another kind "
                           "or one that was freed");
  return OkStatus();
}
// InvalidArgument if it is null; else the result is null until it is made.
template <typename T>
Status GivenRoom(T** made) {
  if (made == nullptr)
    return InvalidArgument("room for the result: expected some, got null");
  *made = nullptr;
  return OkStatus();
}
// InvalidArgument if there are elements, but no array of them.
inline Status GivenList(const void* list, size_t n, const char* what) {
  if (n > 0 && list == nullptr)
    return InvalidArgument(what, ": expected an array of ", n, ", got null");
  constexpr size_t kMost = size_t{1} << 31;
  if (n > kMost)
    return InvalidArgument(what, ": expected at most ", kMost, ", got ", n);
  return OkStatus();
}

// A struct that begins with its size, as the caller's version of the header has
// it; zeros where that is shorter, or for null.
template <typename T>
Status ReadSpec(const T* given, const char* what, T* spec) {
  *spec = T();
  if (given == nullptr) return OkStatus();
  if (given->struct_size < sizeof(size_t))
    return InvalidArgument(what, ": expected struct_size = sizeof, got ",
                           given->struct_size);
  std::memcpy(spec, given, std::min(given->struct_size, sizeof(T)));
  return OkStatus();
}

inline sl_node* ToNative(Node* n) { return reinterpret_cast<sl_node*>(n); }
inline Node* FromNative(const sl_node* n) {
  return reinterpret_cast<Node*>(const_cast<sl_node*>(n));
}
inline sl_output ToNative(const Output& o) {
  return {ToNative(o.node), o.index};
}
inline Output FromNative(const sl_output& o) {
  Output made;
  made.node = FromNative(o.node);
  made.index = o.index;
  return made;
}
inline DType TypeFromNative(sl_dtype t) {
  return IsValidDType(t) ? static_cast<DType>(t) : DType::kInvalid;
}
inline std::string TextOf(const char* s) { return s == nullptr ? "" : s; }

// InvalidArgument if the node has no such output. (A null one passes: what is
// built from it has its error.)
Status CheckHas(const Output& o, const char* what);
// The list, checked in this way.
Result<std::vector<Output>> OutputsFromNative(const sl_output* list, size_t n,
                                              const char* what);
// The error behind a null output; `otherwise` if none is known.
Status WhyFailed(const Graph& g, const Output& null, const char* otherwise);

// This thread builds into the graph while this lives. Inside of a callback of
// the graph its scopes stay: what is built belongs to the loop or branch.
class NativeScope {
 public:
  explicit NativeScope(const sl_graph& g) {
    if (&CurrentGraph() != g.graph) use_.emplace(*g.graph);
  }
  NativeScope(const NativeScope&) = delete;

 private:
  std::optional<WithGraph> use_;
};

// Whether sl_register_gradient gave the op a gradient. Thread-safe.
bool HasGradientInC(const std::string& op);

// The caller's line, which the graph keeps.
SourceLoc LineFrom(Graph& g, const sl_loc& at);

// InvalidArgument if there is no function to call for each of something.
template <typename Fn>
Status GivenEach(Fn* each) {
  return each != nullptr
             ? OkStatus()
             : InvalidArgument("each: expected a function, got null");
}

// Points into the shape.
inline sl_shape ShapeToNative(const PartialShape& s) {
  if (!s.rank_known()) return {nullptr, -1};
  return {s.dims().data(), s.rank()};
}
Result<Shape> ShapeFromNative(const int64_t* dims, int32_t rank);
Result<PartialShape> PartialFromNative(const int64_t* dims, int64_t rank);

// The text, which is copied.
Result<std::string> TextFromNative(const sl_string& s);
// A tensor of strings, which are copied.
Result<Tensor> StringsFromNative(const int64_t* dims, int32_t rank,
                                 const sl_string* strings);

// A value that is to be fed.
Result<Tensor> FedValue(const sl_tensor* t);
// A value that outlives the call: nothing of it is lent.
Result<Tensor> KeptValue(const sl_tensor* t);

sl_buffer* NewNativeBuffer(std::string bytes);

Result<SessionOptions> OptionsFrom(const sl_session_options* options);

}  // namespace sluice::capi

#endif  // SLUICE_CAPI_NATIVE_H_
