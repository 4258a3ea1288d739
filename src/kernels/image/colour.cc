#include "kernels/image/colour.h"

#include <algorithm>

#include "kernels/simd/target.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/image/colour.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::image {
namespace HWY_NAMESPACE {

// A channel rises and falls by a ramp of the hue (A. R. Smith, "Color gamut
// transform pairs", 1978), from value * (1 - saturation) to value.
void HsvPixels(const float* in, int64_t n, float* out) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const V one = hn::Set(d, 1.0f), two = hn::Set(d, 2.0f);
  const auto convert = [&](const float* from, float* to) HWY_ATTR {
    V hue, saturation, value;
    hn::LoadInterleaved3(d, from, hue, saturation, value);
    const V h = hn::Mul(hue, hn::Set(d, 6.0f));
    const auto far = [&](float from_hue) HWY_ATTR {
      return hn::Abs(hn::Sub(h, hn::Set(d, from_hue)));
    };
    const auto channel = [&](V ramp) HWY_ATTR {
      ramp = hn::Min(one, hn::Max(hn::Zero(d), ramp));
      return hn::Mul(
          hn::Add(hn::Sub(one, saturation), hn::Mul(saturation, ramp)), value);
    };
    hn::StoreInterleaved3(channel(hn::Sub(far(3), one)),
                          channel(hn::Sub(two, far(2))),
                          channel(hn::Sub(two, far(4))), d, to);
  };
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) convert(in + 3 * i, out + 3 * i);
  if (i == n) return;
  float some[3 * HWY_MAX_BYTES / sizeof(float)] = {};
  std::copy(in + 3 * i, in + 3 * n, some);
  convert(some, some);
  std::copy(some, some + 3 * (n - i), out + 3 * i);
}

}  // namespace HWY_NAMESPACE
}  // namespace sluice::image
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::image {
HWY_EXPORT(HsvPixels);
void HsvToRgb(const float* in, int64_t n, float* out) {
  HWY_DYNAMIC_DISPATCH(HsvPixels)(in, n, out);
}
}  // namespace sluice::image
#endif
