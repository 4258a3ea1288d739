// Arrays of tensors inside the graph, from which loops read rows and to which
// they write results.
//
//   TensorArray rows = TensorArray(DType::kFloat, n).Unstack(x);
//   TensorArray out(DType::kFloat, n);
//   auto [i, filled] = While(
//       std::tuple{0, out}, [&](Output i, TensorArray) { return i < n; },
//       [&](Output i, TensorArray out) {
//         return std::tuple{i + 1, out.Write(i, rows.Read(i) * 2.0f)};
//       });
//   Output y = filled.Stack();
#ifndef SLUICE_CLIENT_CONTROL_TENSOR_ARRAY_H_
#define SLUICE_CLIENT_CONTROL_TENSOR_ARRAY_H_

#include <memory>
#include <string>
#include <vector>

#include "graph/builder.h"

namespace sluice {

struct TensorArrayOptions {
  // A write past the end extends the array.
  bool dynamic_size = false;
  // A read frees the element: each element can be read once.
  bool clear_after_read = true;
  // All elements have the same shape, which is inferred from the first write of
  // known shape.
  bool infer_shape = true;
  // The known shape of the elements.
  PartialShape element_shape = {};
  std::string name = "TensorArray";  // A unique name is derived from it.
};

// An array of `size` tensors of one type, each written once. Its lifetime is
// one step: every step starts with an empty array.
//
// It has value semantics: a writing method returns the array after the write,
// and ops on the returned value are ordered after the write. (All these values
// share the one array of the step; the flow that each carries orders the ops on
// it.) In loops and conditionals only the flow is a loop variable; the array
// itself is a loop constant. Null by default, and if building it failed (the
// graph has the error). Belongs to the thread that builds the graph.
class TensorArray {
 public:
  TensorArray() = default;
  TensorArray(DType dtype, const Operand& size,
              const TensorArrayOptions& options = {},
              SourceLoc loc = CallerLoc());
  // The array behind a handle, after the ops that `flow` depends on. `dtype` is
  // needed if the node that made the handle is unknown.
  static TensorArray FromHandle(Output handle, Output flow,
                                DType dtype = DType::kInvalid);

  explicit operator bool() const { return flow_.valid(); }
  Output handle() const;
  Output flow() const { return flow_; }
  DType dtype() const;
  // The shape of the elements as far as it is known so far.
  PartialShape element_shape() const;

  // The element at `index`, an int32 scalar.
  Output Read(const Operand& index, SourceLoc loc = CallerLoc()) const;
  [[nodiscard]] TensorArray Write(const Operand& index, const Operand& value,
                                  SourceLoc loc = CallerLoc()) const;

  // All elements, or those at `indices`, stacked along a new first dimension.
  Output Stack(SourceLoc loc = CallerLoc()) const;
  Output Gather(const Operand& indices, SourceLoc loc = CallerLoc()) const;
  // Writes the rows of `value` to elements 0, 1, ..., or to `indices`.
  [[nodiscard]] TensorArray Unstack(const Operand& value,
                                    SourceLoc loc = CallerLoc()) const;
  [[nodiscard]] TensorArray Scatter(const Operand& indices,
                                    const Operand& value,
                                    SourceLoc loc = CallerLoc()) const;

  // All elements concatenated along their first dimension. `lengths`, if not
  // null, is set to the length of each element.
  Output Concat(Output* lengths = nullptr, SourceLoc loc = CallerLoc()) const;
  // Element i becomes the next lengths[i] rows of `value`.
  [[nodiscard]] TensorArray Split(const Operand& value, const Operand& lengths,
                                  SourceLoc loc = CallerLoc()) const;

  // An int32 scalar.
  Output Size(SourceLoc loc = CallerLoc()) const;
  // The same array, ordered after the current control dependencies.
  TensorArray Identity(SourceLoc loc = CallerLoc()) const;
  // The array that holds the gradients of the elements for `source`; values
  // written to the same element are added. (Gradients creates and uses such
  // arrays itself.)
  TensorArray Grad(const std::string& source,
                   SourceLoc loc = CallerLoc()) const;
  // A node that frees the elements before the step ends; later uses fail.
  Node* Close(SourceLoc loc = CallerLoc()) const;

  // As a loop variable, or a result of a branch, it is represented by its flow.
  void Flatten(std::vector<Operand>* out) const { out->push_back(flow_); }
  TensorArray Unflatten(const Output*& next) const { return WithFlow(*next++); }

 private:
  // Shared by all values of one array. Records the element shape as writes are
  // built.
  struct Array {
    std::string name;
    Output handle;
    DType dtype = DType::kInvalid;
    bool infer_shape = true;
    PartialShape element_shape;
    Output fixed_size;  // Null if the array may grow.
  };
  TensorArray WithFlow(Output flow) const {
    TensorArray t = *this;
    t.flow_ = flow;
    return t;
  }
  Output Value(const Operand& value, SourceLoc loc) const;
  bool Narrow(const PartialShape& shape, SourceLoc loc) const;

  std::shared_ptr<Array> array_;
  Output flow_;
};

}  // namespace sluice

#endif  // SLUICE_CLIENT_CONTROL_TENSOR_ARRAY_H_
