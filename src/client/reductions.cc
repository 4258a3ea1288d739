#include "client/reductions.h"

#include <numeric>
#include <vector>

#include "sluice/ops.h"

namespace sluice {

Output AllAxes(const Output& x) {
  const PartialShape shape = x.valid() ? x.shape() : PartialShape();
  if (!shape.rank_known()) return ops::Range(0, ops::Rank(x), 1);
  std::vector<int32_t> axes(static_cast<size_t>(shape.rank()));
  std::iota(axes.begin(), axes.end(), 0);
  return IntVector(axes);
}

}  // namespace sluice
