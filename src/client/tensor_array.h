// Arrays of tensors inside the graph: what loops read their rows from and write
// their results to.
//
//   TensorArray rows = TensorArray(DType::kFloat, n).Unstack(x);
//   TensorArray out(DType::kFloat, n);
//   auto [i, filled] = While(
//       std::tuple{0, out}, [&](Output i, TensorArray) { return i < n; },
//       [&](Output i, TensorArray out) {
//         return std::tuple{i + 1, out.Write(i, rows.Read(i) * 2.0f)};
//       });
//   Output y = filled.Stack();
#ifndef SLUICE_CLIENT_TENSOR_ARRAY_H_
#define SLUICE_CLIENT_TENSOR_ARRAY_H_

#include <memory>
#include <string>
#include <vector>

#include "graph/builder.h"

namespace sluice {

struct TensorArrayOptions {
  // A write beyond the end makes the array longer.
  bool dynamic_size = false;
  // A read frees the element: it can be read once.
  bool clear_after_read = true;
  // All elements have one shape, which the first write to tell it decides.
  bool infer_shape = true;
  // What is known of the elements' shapes.
  PartialShape element_shape = {};
  std::string name = "TensorArray";  // Made unique.
};

// An array of `size` tensors of one type, each written once. It lives for one
// step: every step starts with an empty one.
//
// A value: what writes returns the array as it is afterwards, and what is done
// to that comes after the write. (All of these values share the one array of
// the step; the flow that each carries is what orders the ops on it.) In loops
// and conditionals only the flow is a loop variable; the array itself is a
// constant of the loop. Null by default, and where building it failed (the
// graph has the error). Belongs to the thread that builds the graph.
class TensorArray {
 public:
  TensorArray() = default;
  TensorArray(DType dtype, const Operand& size,
              const TensorArrayOptions& options = {},
              SourceLoc loc = CallerLoc());
  // The array behind a handle, after what `flow` comes after. `dtype`: where
  // the graph does not tell what made the handle.
  static TensorArray FromHandle(Output handle, Output flow,
                                DType dtype = DType::kInvalid);

  explicit operator bool() const { return flow_.valid(); }
  Output handle() const;
  Output flow() const { return flow_; }
  DType dtype() const;
  // As far as it is known by now.
  PartialShape element_shape() const;

  // The element at `index`, an int32 scalar.
  Output Read(const Operand& index, SourceLoc loc = CallerLoc()) const;
  [[nodiscard]] TensorArray Write(const Operand& index, const Operand& value,
                                  SourceLoc loc = CallerLoc()) const;

  // All elements, or those at `indices`, along a new first dimension.
  Output Stack(SourceLoc loc = CallerLoc()) const;
  Output Gather(const Operand& indices, SourceLoc loc = CallerLoc()) const;
  // Writes the rows of `value` to the elements 0, 1, ..., or to `indices`.
  [[nodiscard]] TensorArray Unstack(const Operand& value,
                                    SourceLoc loc = CallerLoc()) const;
  [[nodiscard]] TensorArray Scatter(const Operand& indices,
                                    const Operand& value,
                                    SourceLoc loc = CallerLoc()) const;

  // All elements joined along their first dimension. `lengths`, if not null,
  // becomes how long each is.
  Output Concat(Output* lengths = nullptr, SourceLoc loc = CallerLoc()) const;
  // Element i becomes the next lengths[i] rows of `value`.
  [[nodiscard]] TensorArray Split(const Operand& value, const Operand& lengths,
                                  SourceLoc loc = CallerLoc()) const;

  // An int32 scalar.
  Output Size(SourceLoc loc = CallerLoc()) const;
  // The same, after the current control dependencies.
  TensorArray Identity(SourceLoc loc = CallerLoc()) const;
  // The array that holds the gradients of the elements for `source`; what is
  // written to it adds up. (Gradients makes and uses these by itself.)
  TensorArray Grad(const std::string& source,
                   SourceLoc loc = CallerLoc()) const;
  // Run it to free the elements before the step ends; later uses fail.
  Node* Close(SourceLoc loc = CallerLoc()) const;

  // As a loop variable, or a result of a branch: the flow.
  void Flatten(std::vector<Operand>* out) const { out->push_back(flow_); }
  TensorArray Unflatten(const Output*& next) const { return WithFlow(*next++); }

 private:
  // What all values of one array share. Learns the shape as writes are built.
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

#endif  // SLUICE_CLIENT_TENSOR_ARRAY_H_
