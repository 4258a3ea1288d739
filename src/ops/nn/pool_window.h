// Shared by the pooling ops: their shapes, attributes, and the description of
// the image for the kernels.
#ifndef SLUICE_OPS_NN_POOL_WINDOW_H_
#define SLUICE_OPS_NN_POOL_WINDOW_H_

#include <memory>

#include "exec/core/kernel.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "kernels/dnn/pool.h"
#include "ops/common/window.h"

namespace sluice::pooling {

// ---- Declarations -----------------------------------------------------------

inline constexpr char kPadding[] = "padding: {'SAME', 'VALID'}";

// Adds attributes ksize and strides for images.
void AddWindow(OpDefBuilder& b);
// The attributes of an op's samples.
AttrMap SampleAttrs();
// The attributes of a node that its gradient node copies.
AttrMap WindowOf(const Node& n);

// The shape function of pooling with window `w`, which does not pool channels.
Status PooledShape(ShapeContext& c, const WindowAttrs& w);
Status PoolShape(ShapeContext& c);
// The shape function of MaxPoolGrad: the shape of the image.
Status ImageShape(ShapeContext& c);

// ---- Kernels ----------------------------------------------------------------

// A pooling of an image, and the shape of its result.
struct Pooling {
  dnn::PoolGeometry s;
  Shape out;
};
Result<Pooling> PoolingOf(const WindowAttrs& w, const Shape& image);

Status RequireShape(const char* what, const Tensor& t, const Shape& expected);

// True if the windows cover no element; `out` is then set to zeros.
bool Empty(const dnn::PoolGeometry& s, Tensor& out);

// The state that all pooling kernels share. Immutable.
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

#endif  // SLUICE_OPS_NN_POOL_WINDOW_H_
