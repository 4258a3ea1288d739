#include "client/nn/regularizers.h"

#include <cmath>

#include "client/operators.h"
#include "client/reductions.h"
#include "client/types_and_shapes.h"
#include "sluice/ops.h"

namespace sluice {

Regularizer L1L2Regularizer(double l1, double l2) {
  return [l1, l2](const Output& w) {
    for (const double scale : {l1, l2})
      if (!std::isfinite(scale) || scale < 0)
        return BuildError(InvalidArgument(
            "regularizer: expected a finite scale of 0 or more, got ", scale));
    if (!w.valid() || (l1 == 0 && l2 == 0)) return Output();
    const Output all = AllAxes(w);
    Output loss;
    if (l1 != 0) loss = ops::Sum(ops::Abs(w), all) * l1;
    if (l2 == 0) return loss;
    const Output squares = ops::Sum(ops::Square(w), all) * l2;
    return loss.valid() ? loss + squares : squares;
  };
}

Regularizer L1Regularizer(double scale) { return L1L2Regularizer(scale, 0); }
Regularizer L2Regularizer(double scale) { return L1L2Regularizer(0, scale); }

}  // namespace sluice
