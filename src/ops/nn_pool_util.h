// What pooling ops share: their shapes, attributes, and what a kernel is told
// of the image.
#ifndef SLUICE_OPS_NN_POOL_UTIL_H_
#define SLUICE_OPS_NN_POOL_UTIL_H_

#include <memory>

#include "exec/kernel.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "kernels/dnn/pool.h"
#include "ops/nn_window.h"

namespace sluice::pooling {

// ---- Declarations -----------------------------------------------------------

inline constexpr char kPadding[] = "padding: {'SAME', 'VALID'}";

// Attributes ksize and strides of images.
void AddWindow(OpDefBuilder& b);
// Those of an op's samples.
AttrMap SampleAttrs();
// The attributes of a node that its gradient takes over.
AttrMap WindowOf(const Node& n);

// Of what pools as `w` says, and as the node says (never channels).
Status PooledShape(ShapeContext& c, const WindowAttrs& w);
Status PoolShape(ShapeContext& c);
// MaxPoolGrad: the shape of the image.
Status ImageShape(ShapeContext& c);

// ---- Kernels ----------------------------------------------------------------

// A pooling of an image, and the shape that comes of it.
struct Pooling {
  dnn::PoolGeometry s;
  Shape out;
};
Result<Pooling> PoolingOf(const WindowAttrs& w, const Shape& image);

Status RequireShape(const char* what, const Tensor& t, const Shape& expected);

// True if no window covers anything; `out` is zeros then.
bool Empty(const dnn::PoolGeometry& s, Tensor& out);

// What all pooling kernels keep. Immutable.
struct PoolBase {
  template <typename K>
  static Result<std::shared_ptr<K>> MakeOf(const Node& n,
                                           bool pools_channels = false) {
    auto k = std::make_shared<K>();
    SLUICE_ASSIGN_OR_RETURN(k->window, WindowAttrs::Read(n, pools_channels));
    if (n.FindAttr("TInput") && n.TypeAttr("TInput") != n.TypeAttr("T"))
      return NoKernelFor(n, n.TypeAttr("TInput"));
    return k;
  }
  WindowAttrs window;
};

}  // namespace sluice::pooling

#endif  // SLUICE_OPS_NN_POOL_UTIL_H_
