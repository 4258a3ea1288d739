// Stores of tensors by key, whose reads wait for the writes of their keys.
//
//   TensorStore h(DType::kFloat, {.element_shape = {8}});
//   While(std::tuple{0}, [&](Output i) { return i < n; },
//         [&](Output i) {
//           Output before = ops::Sum(h.ReadMany(Predecessors(i)), 0);
//           Output state = ops::Tanh(before + w);
//           h.Write(i, state);
//           return std::tuple{i + 1};
//         },
//         {.parallel_iterations = 1000});
//   Output y = h.Read(last);
#ifndef SLUICE_CLIENT_CONTROL_TENSOR_STORE_H_
#define SLUICE_CLIENT_CONTROL_TENSOR_STORE_H_

#include <string>

#include "graph/builder.h"

namespace sluice {

struct TensorStoreOptions {
  DType key_dtype = DType::kInt64;  // Or kString.
  // The known shape of all elements.
  PartialShape element_shape = {};
  // With a name, the store outlives the step: all stores of this name in this
  // container are one. What the step writes has a gradient, and is written in
  // each step that computes it; what other steps have written is constant.
  std::string container = "";
  std::string shared_name = "";
  std::string name = "TensorStore";  // A unique name is derived from it.
};

// Tensors of one type by key, each written once and read any number of times. A
// read waits for the element of its own key, without a thread; other reads and
// writes need not come in any order. A step that reads an element runs all
// writes of the store that its graph has. A step in which nothing is left but
// reads that no node can serve fails at once, in a cluster within a fraction of
// a second, and names the keys and the nodes. (Not for a store that steps
// share, and not in a partial run over a cluster: there reads wait until the
// step's deadline.)
//
// Its ops run on the host of the device that the store is made on, whatever
// device scopes they are built in; values go to and from other devices.
//
// A loop may read in one iteration what any other writes; parallel_iterations
// must be at least the distance between the two, plus one.
//
// Copies stand for the same store. Gradients flow through it, of any order,
// also in calls of functions, and of first order in recursive ones that take it
// from outside (a second gradient through such a call is an error).
// Null by default, and if building it failed (the graph has the error). Belongs
// to the thread that builds the graph.
class TensorStore {
 public:
  TensorStore() = default;
  explicit TensorStore(DType dtype, const TensorStoreOptions& options = {},
                       SourceLoc loc = CallerLoc());
  // The store behind a handle.
  static TensorStore FromHandle(Output handle, DType dtype,
                                const TensorStoreOptions& options = {});

  explicit operator bool() const { return handle_.valid(); }
  Output handle() const { return handle_; }
  DType dtype() const { return dtype_; }

  // Writes the element at `key`, a scalar (numbers become int64). An element is
  // written once: a second write fails the step and names both writers. The
  // output, a zero, is there when the element has been written.
  Output Write(const Operand& key, const Operand& value,
               SourceLoc loc = CallerLoc()) const;
  // The element at `key`, when it has been written.
  Output Read(const Operand& key, SourceLoc loc = CallerLoc()) const;
  // The elements at a vector of keys, stacked along a new first dimension, when
  // all have been written.
  Output ReadMany(const Operand& keys, SourceLoc loc = CallerLoc()) const;

  // What has been written so far: whether `key` has, the number of keys (an
  // int64 scalar), and the keys in ascending order. Control dependencies on
  // writes say what that includes.
  Output Has(const Operand& key, SourceLoc loc = CallerLoc()) const;
  Output Size(SourceLoc loc = CallerLoc()) const;
  Output Keys(SourceLoc loc = CallerLoc()) const;

 private:
  Output Key(const Operand& key, SourceLoc loc) const;

  Output handle_;
  DType dtype_ = DType::kInvalid;
  DType key_dtype_ = DType::kInt64;
  PartialShape element_shape_;
};

}  // namespace sluice

#endif  // SLUICE_CLIENT_CONTROL_TENSOR_STORE_H_
