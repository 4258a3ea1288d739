// Functions that layers and cells apply to their outputs.
//
//   Output h = Dense(x, 100, {.activation = ops::Relu});
//   Output g = Dense(h, 10, {.activation = [](Output x) { return x * x; }});
#ifndef SLUICE_CLIENT_NN_ACTIVATION_H_
#define SLUICE_CLIENT_NN_ACTIVATION_H_

#include <concepts>
#include <cstddef>
#include <functional>
#include <utility>

#include "graph/builder.h"

namespace sluice {

// A function of one output, or null, which stands for the identity or the
// default of a cell. An op with one input is one, with its default attributes.
// A function gets the output as the layer returns it. An op may get it with its
// first dimensions in another arrangement ([rows, units] of a Dense layer), in
// which it is fused with what comes before.
class Activation {
 public:
  Activation() = default;
  Activation(std::nullptr_t) {}  // NOLINT
  template <typename F>
  requires std::is_invocable_r_v<Output, const F&, Output> Activation(
      F function)  // NOLINT
      : function_(std::move(function)) {}
  template <typename Attrs>
  Activation(Output (*op)(const Operand&, const Attrs&, SourceLoc))  // NOLINT
      : function_([op](Output x) { return op(x, Attrs(), SourceLoc()); }),
        is_op_(true) {}
  Activation(Output (*builder)(const Operand&, SourceLoc))  // NOLINT
      : function_([builder](Output x) { return builder(x, SourceLoc()); }),
        is_op_(true) {}

  explicit operator bool() const { return function_ != nullptr; }
  bool is_op() const { return is_op_; }
  // REQUIRES: not null.
  Output operator()(Output x) const { return function_(x); }
  // x itself if it is null.
  Output OrIdentity(Output x) const { return function_ ? function_(x) : x; }

 private:
  std::function<Output(Output)> function_;
  bool is_op_ = false;
};

// x Phi(x), where Phi is the normal distribution's function (Hendrycks and
// Gimpel, 2016), elementwise, of floats.
Output Gelu(const Operand& x, SourceLoc loc = CallerLoc());

}  // namespace sluice

#endif  // SLUICE_CLIENT_NN_ACTIVATION_H_
