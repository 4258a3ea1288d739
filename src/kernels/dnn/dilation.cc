#include "kernels/dnn/dilation.h"

#include "kernels/simd/target.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/dnn/dilation.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::dnn {
namespace HWY_NAMESPACE {

namespace {

void Raise(const float* x, const float* filter, int64_t n, int32_t tap,
           float* best, int32_t* at) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t c = 0;
  for (; c + lanes <= n; c += lanes) {
    const auto v = hn::Add(hn::LoadU(d, x + c), hn::LoadU(d, filter + c));
    const auto old = hn::LoadU(d, best + c);
    const auto more = hn::Gt(v, old);
    hn::StoreU(hn::IfThenElse(more, v, old), d, best + c);
    hn::StoreU(hn::IfThenElse(hn::RebindMask(di, more), hn::Set(di, tap),
                              hn::LoadU(di, at + c)),
               di, at + c);
  }
  for (; c < n; ++c) {
    const float v = x[c] + filter[c];
    if (v > best[c]) best[c] = v, at[c] = tap;
  }
}

}  // namespace

RaiseFn RaiseHere() { return Raise; }

}  // namespace HWY_NAMESPACE
}  // namespace sluice::dnn
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::dnn {
HWY_EXPORT(RaiseHere);
RaiseFn GetRaise() { return HWY_DYNAMIC_DISPATCH(RaiseHere)(); }
}  // namespace sluice::dnn
#endif
