// Each input row that is read is interpolated along its columns once per
// thread, into one of two rows that are kept; output rows are interpolated
// between these.
#include <algorithm>
#include <cstring>
#include <vector>

#include "base/parallel.h"
#include "kernels/image/resample.h"
#include "kernels/simd/cast.h"
#include "kernels/simd/target.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/image/bilinear.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::image {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

template <class D>
HWY_INLINE hn::Vec<D> Lerp(hn::Vec<D> a, hn::Vec<D> b, hn::Vec<D> by) {
  return hn::Add(a, hn::Mul(hn::Sub(b, a), by));
}

// Pixels of three channels, four elements at a time: the fourth is overwritten
// by the next pixel. `to` has one element more than the row. Returns how many
// pixels it has done; the last ones would be read past the row's end.
HWY_INLINE int64_t ThreeChannels(const float* from, int64_t elements,
                                 const Between* columns, int64_t width,
                                 float* to) {
  const hn::FixedTag<float, 4> d;
  int64_t x = 0;
  for (; x < width; ++x) {
    const int64_t lower = columns[x].lower * 3, upper = columns[x].upper * 3;
    if (upper + 4 > elements || lower + 4 > elements) break;
    hn::StoreU(Lerp<decltype(d)>(hn::LoadU(d, from + lower),
                                 hn::LoadU(d, from + upper),
                                 hn::Set(d, columns[x].lerp)),
               d, to + 3 * x);
  }
  return x;
}

void InterpolateColumns(const float* from, int64_t in_width, int64_t channels,
                        const Between* columns, int64_t width, float* to) {
  int64_t x = 0;
  if (channels == 3) x = ThreeChannels(from, in_width * 3, columns, width, to);
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (; x < width; ++x) {
    const float* a = from + columns[x].lower * channels;
    const float* b = from + columns[x].upper * channels;
    const float lerp = columns[x].lerp;
    float* out = to + x * channels;
    int64_t c = 0;
    for (; c + lanes <= channels; c += lanes)
      hn::StoreU(Lerp<decltype(d)>(hn::LoadU(d, a + c), hn::LoadU(d, b + c),
                                   hn::Set(d, lerp)),
                 d, out + c);
    for (; c < channels; ++c) out[c] = a[c] + (b[c] - a[c]) * lerp;
  }
}

void InterpolateRows(const float* a, const float* b, float lerp, int64_t n,
                     float* to) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto by = hn::Set(d, lerp);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    hn::StoreU(Lerp<decltype(d)>(hn::LoadU(d, a + i), hn::LoadU(d, b + i), by),
               d, to + i);
  for (; i < n; ++i) to[i] = a[i] + (b[i] - a[i]) * lerp;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace sluice::image
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::image {
namespace {

HWY_EXPORT(InterpolateColumns);
HWY_EXPORT(InterpolateRows);

}  // namespace

bool ResampleBilinear(DType t, const void* in, const ImageSize& size,
                      const std::vector<Between>& rows,
                      const std::vector<Between>& columns, float* out) {
  const simd::UnaryKernel to_float = t == DType::kFloat
                                         ? simd::UnaryKernel{}
                                         : simd::GetCast(t, DType::kFloat);
  if (t != DType::kFloat && to_float.fn == nullptr) return false;
  const int64_t c = size.channels, in_row = size.width * c;
  const auto height = static_cast<int64_t>(rows.size());
  const auto width = static_cast<int64_t>(columns.size());
  const int64_t out_row = width * c;
  const size_t element = DTypeSize(t);
  ParallelFor(
      size.batch * height, 16384 / std::max<int64_t>(out_row, 1) + 1,
      [&](int64_t begin, int64_t end) {
        std::vector<float> converted(
            t == DType::kFloat ? 0 : static_cast<size_t>(in_row));
        std::vector<float> kept[2] = {
            std::vector<float>(static_cast<size_t>(out_row) + 4),
            std::vector<float>(static_cast<size_t>(out_row) + 4)};
        int64_t kept_row[2] = {-1, -1};  // Counted over all images.
        const auto find = [&](int64_t row) {
          return kept_row[0] == row ? 0 : kept_row[1] == row ? 1 : -1;
        };
        // Interpolates an input row into the slot that is not `other`.
        const auto fill = [&](int64_t row, int other) {
          const int slot = other == 0 ? 1 : 0;
          const auto* from = static_cast<const char*>(in) +
                             static_cast<size_t>(row * in_row) * element;
          const float* floats = reinterpret_cast<const float*>(from);
          if (t != DType::kFloat) {
            to_float.fn(from, converted.data(), in_row);
            floats = converted.data();
          }
          HWY_DYNAMIC_DISPATCH(InterpolateColumns)
          (floats, size.width, c, columns.data(), width, kept[slot].data());
          kept_row[slot] = row;
          return slot;
        };
        for (int64_t o = begin; o < end; ++o) {
          const Between& y = rows[static_cast<size_t>(o % height)];
          const int64_t image = o / height * size.height;
          int lower = find(image + y.lower);
          if (lower < 0) lower = fill(image + y.lower, find(image + y.upper));
          int upper = find(image + y.upper);
          if (upper < 0) upper = fill(image + y.upper, lower);
          HWY_DYNAMIC_DISPATCH(InterpolateRows)
          (kept[lower].data(), kept[upper].data(), y.lerp, out_row,
           out + o * out_row);
        }
      });
  return true;
}

}  // namespace sluice::image
#endif  // HWY_ONCE
