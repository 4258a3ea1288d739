// What the handles of the C API are, and how its functions report errors.
#ifndef SLUICE_CAPI_HANDLES_H_
#define SLUICE_CAPI_HANDLES_H_

#include <atomic>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/without_throwing.h"
#include "graph/graph.h"
#include "session/session.h"
#include "tensor/tensor.h"
#include "tensorflow/c/c_api.h"

// The caller's; one thread at a time. `message` is "" exactly if OK.
struct TF_Status {
  TF_Code code = TF_OK;
  std::string message;
};

namespace sluice::capi {

// The TF_TStrings of a TF_STRING tensor. Shared by tensors; `release` runs with
// the last one. Immutable while it is shared.
class StringArray {
 public:
  StringArray(TF_TString* strings, std::function<void()> release)
      : strings_(strings), release_(std::move(release)) {}
  ~StringArray() {
    if (release_) release_();
  }
  StringArray(const StringArray&) = delete;
  TF_TString* strings() const { return strings_; }

 private:
  TF_TString* strings_;
  std::function<void()> release_;
};

}  // namespace sluice::capi

// The caller's. Strings are in `strings`, all other elements in value().
struct TF_Tensor {
  sluice::DType dtype = sluice::DType::kInvalid;
  sluice::Shape shape;
  sluice::Tensor tensor;
  std::shared_ptr<sluice::capi::StringArray> strings;
  // Set if `tensor` is not: a value that is shared with the context of a
  // kernel's run. It is an output (small ones have no buffer that could be
  // shared), or an input in memory that is lent for the run.
  std::shared_ptr<sluice::Tensor> cell;
  // `tensor` shows memory of the caller, who may still use it.
  bool shows_callers = false;
  const sluice::Tensor& value() const {
    return cell != nullptr ? *cell : tensor;
  }
};

namespace sluice::capi {
struct BuiltLoop;  // gradients.cc
}

// The graph, with what the C API keeps about it. Counted: by its creator and by
// each session. Guarded by the graph's mutex, except the count.
struct TF_Graph : sluice::Graph {
  std::atomic<int> users{1};
  // The consumers of each node's outputs and its control consumers, by id, for
  // the first `indexed` nodes.
  struct Readers {
    std::vector<TF_Input> inputs;  // `index` of the reader.
    std::vector<int> outputs;      // Which output it reads; parallel.
    std::vector<TF_Operation*> controls;
  };
  std::vector<Readers> readers;
  size_t indexed = 0;
  // Of a condition or body of TF_NewWhile, which will be copied: the loops that
  // were built in it.
  bool part_of_loop = false;
  std::vector<std::shared_ptr<const sluice::capi::BuiltLoop>> loops;
  // Inputs whose edges were changed.
  std::set<std::pair<const sluice::Node*, int>> changed;
  // How often an edge was changed; readable without the mutex.
  std::atomic<int64_t> edits{0};
  // For what changes the edges of nodes that exist.
  void ForgetReaders() {
    readers.clear();
    indexed = 0;
  }
};

struct TF_SessionOptions {
  std::string target;
  sluice::SessionOptions options;
  int64_t timeout_ms = 0;  // Of steps that have none of their own.
};

struct TF_Function {
  std::string name;
  std::string bytes;  // A serialised FunctionDef.
};

namespace sluice::capi {

inline TF_Operation* ToC(Node* n) { return reinterpret_cast<TF_Operation*>(n); }
inline Node* FromC(const TF_Operation* op) {
  return reinterpret_cast<Node*>(const_cast<TF_Operation*>(op));
}
inline TF_Output ToC(const Output& o) {
  return {ToC(o.node), o.valid() ? o.index : -1};
}
inline Output FromC(TF_Output o) { return {FromC(o.oper), o.index}; }
inline TF_DataType ToC(DType t) { return static_cast<TF_DataType>(t); }
inline DType FromC(TF_DataType t) {
  return IsValidDType(static_cast<int>(t)) ? static_cast<DType>(t)
                                           : DType::kInvalid;
}
inline TF_Graph* GraphOf(const Node* n) {
  return static_cast<TF_Graph*>(n->graph());
}
// The text of an argument; "" for null.
inline std::string View(const char* s) { return s == nullptr ? "" : s; }

void SetStatus(TF_Status* status, const Status& s);  // Null: does nothing.
Status FromC(const TF_Status& status);

// Calls fn, which returns a Status, and reports its outcome.
template <typename Fn>
bool Report(TF_Status* status, const char* what, Fn&& fn) {
  const Status s = WithoutThrowing(what, std::forward<Fn>(fn));
  SetStatus(status, s);
  return s.ok();
}

// InvalidArgument if it is null.
inline Status Given(const void* p, const char* what) {
  return p != nullptr ? OkStatus()
                      : InvalidArgument(what, ": expected one, got null");
}
// InvalidArgument if there are fewer than none, or some but no array.
inline Status GivenArray(const void* p, int n, const char* what) {
  if (n < 0)
    return InvalidArgument(what, ": expected a number of at least 0, got ", n);
  return n == 0 ? OkStatus() : Given(p, what);
}
// InvalidArgument if there is a buffer and it has bytes already.
inline Status GivenEmpty(const TF_Buffer* buffer, const char* what) {
  if (buffer != nullptr && buffer->data != nullptr)
    return InvalidArgument(what, ": expected an empty buffer, got one of ",
                           buffer->length, " bytes");
  return OkStatus();
}
// InvalidArgument if it is no output of this graph.
Status CheckOutput(const Graph& g, TF_Output o, const char* what);

// Replaces what is in the buffer, which must have no deallocator's data.
Status Fill(TF_Buffer* buffer, std::string_view bytes);
std::string_view Bytes(const TF_Buffer* buffer);

// The value of a TF_Tensor, sharing its memory; strings are copied.
Result<Tensor> ToTensor(const TF_Tensor* t);
Result<Tensor> ToStrings(const StringArray& from, const Shape& shape);
// An array of n empty strings in at least `bytes` bytes; null without memory.
// With it are freed the strings that `owned` says, counted from the first.
std::shared_ptr<StringArray> NewStrings(int64_t n, size_t bytes, int64_t owned);
// A new TF_Tensor; null without memory for it.
Result<TF_Tensor*> NewTensor(Tensor t);
// As above, for arguments: dims of num_dims sizes.
Result<Shape> ShapeOf(const int64_t* dims, int num_dims);
Result<PartialShape> PartialShapeOf(const int64_t* dims, int num_dims);

void Unref(TF_Graph* graph);

// An imported GraphDef with options of the C API.
Status Extend(TF_Graph* graph, std::string_view bytes);

}  // namespace sluice::capi

#endif  // SLUICE_CAPI_HANDLES_H_
