// Clipping of tensors and gradients.
//
//   AdamOptimizer adam(1e-3);
//   Result<std::vector<GradAndVar>> grads = adam.ComputeGradients(loss);
//   Result<Node*> train = adam.ApplyGradients(ClipByGlobalNorm(*grads, 5.0));
//
// A sparse gradient stays sparse: its rows are clipped. As in TensorFlow,
// repeated rows are not added up first, so that its norm is an estimate. A
// missing gradient stays missing. Numbers and names are those of
// tf.clip_by_...; `name` is that of the scope, by default "clip_by_value" and
// so on.
#ifndef SLUICE_CLIENT_NN_CLIP_GRADIENTS_H_
#define SLUICE_CLIENT_NN_CLIP_GRADIENTS_H_

#include <string>
#include <utility>
#include <vector>

#include "client/nn/optimizer.h"

namespace sluice {

// Elementwise between `low` and `high`, which broadcast to the shape of x.
Output ClipByValue(const Output& x, const Operand& low, const Operand& high,
                   const std::string& name = {}, SourceLoc loc = CallerLoc());
Gradient ClipByValue(const Gradient& g, const Operand& low, const Operand& high,
                     const std::string& name = {}, SourceLoc loc = CallerLoc());

// x * clip / max(|x|, clip), with |x| the Euclidean norm, of the whole tensor
// or along `axes` (null: all): each norm is at most `clip`, which broadcasts to
// the shape of x.
Output ClipByNorm(const Output& x, const Operand& clip,
                  const Operand& axes = Output(), const std::string& name = {},
                  SourceLoc loc = CallerLoc());
Gradient ClipByNorm(const Gradient& g, const Operand& clip,
                    const Operand& axes = Output(),
                    const std::string& name = {}, SourceLoc loc = CallerLoc());

// The same with |x| divided by the number of elements.
Output ClipByAverageNorm(const Output& x, const Operand& clip,
                         const std::string& name = {},
                         SourceLoc loc = CallerLoc());
Gradient ClipByAverageNorm(const Gradient& g, const Operand& clip,
                           const std::string& name = {},
                           SourceLoc loc = CallerLoc());

// The Euclidean norm of all gradients as one vector. Null if there are none.
Output GlobalNorm(const std::vector<Gradient>& gradients,
                  const std::string& name = {}, SourceLoc loc = CallerLoc());

// All gradients multiplied by clip / max(norm, clip), with `norm` their global
// norm: their directions stay (Pascanu, Mikolov and Bengio, 2012). If the norm
// is not finite, all elements become NaN, for a guard to find. `norm` may be
// given if it is known; a null output means that it is not.
std::vector<Gradient> ClipByGlobalNorm(const std::vector<Gradient>& gradients,
                                       const Operand& clip, Output norm = {},
                                       const std::string& name = {},
                                       SourceLoc loc = CallerLoc());
std::vector<GradAndVar> ClipByGlobalNorm(const std::vector<GradAndVar>& grads,
                                         const Operand& clip, Output norm = {},
                                         const std::string& name = {},
                                         SourceLoc loc = CallerLoc());

}  // namespace sluice

#endif  // SLUICE_CLIENT_NN_CLIP_GRADIENTS_H_
