#include "kernels/image/resample.h"

#include <algorithm>

#include "base/parallel.h"
#include "tensor/half.h"

namespace sluice::image {
namespace {

// Elements that one thread computes at least.
constexpr int64_t kGrain = 16384;

template <typename T>
void ResampleAs(const T* in, const ImageSize& size, const Taps& rows,
                const Taps& columns, float* out) {
  const int64_t c = size.channels, in_row = size.width * c;
  const int64_t height = rows.outputs(), out_row = columns.outputs() * c;
  const int64_t cost = std::max<int64_t>(1, std::max(in_row, out_row));
  ParallelFor(
      size.batch * height, kGrain / cost + 1, [&](int64_t begin, int64_t end) {
        std::vector<float> row(static_cast<size_t>(in_row));
        float* const sum = row.data();
        for (int64_t o = begin; o < end; ++o) {
          const auto y = static_cast<size_t>(o % height);
          const T* image = in + o / height * size.height * in_row;
          std::fill(row.begin(), row.end(), 0.0f);
          for (int64_t k = rows.first[y]; k < rows.first[y + 1]; ++k) {
            const T* from = image + rows.index[static_cast<size_t>(k)] * in_row;
            const float w = rows.weight[static_cast<size_t>(k)];
#pragma omp simd
            for (int64_t i = 0; i < in_row; ++i)
              sum[i] += w * static_cast<float>(from[i]);
          }
          float* to = out + o * out_row;
          std::fill(to, to + out_row, 0.0f);
          for (size_t x = 0; x < static_cast<size_t>(columns.outputs());
               ++x, to += c)
            for (int64_t k = columns.first[x]; k < columns.first[x + 1]; ++k) {
              const float* from =
                  sum + columns.index[static_cast<size_t>(k)] * c;
              const float w = columns.weight[static_cast<size_t>(k)];
              for (int64_t i = 0; i < c; ++i) to[i] += w * from[i];
            }
        }
      });
}

}  // namespace

bool Resample(DType t, const void* in, const ImageSize& size, const Taps& rows,
              const Taps& columns, float* out) {
  const auto run = [&](auto* typed) {
    ResampleAs(typed, size, rows, columns, out);
    return true;
  };
  switch (t) {
    case DType::kFloat:
      return run(static_cast<const float*>(in));
    case DType::kDouble:
      return run(static_cast<const double*>(in));
    case DType::kHalf:
      return run(static_cast<const half*>(in));
    case DType::kBfloat16:
      return run(static_cast<const bfloat16*>(in));
    case DType::kInt8:
      return run(static_cast<const int8_t*>(in));
    case DType::kInt16:
      return run(static_cast<const int16_t*>(in));
    case DType::kInt32:
      return run(static_cast<const int32_t*>(in));
    case DType::kInt64:
      return run(static_cast<const int64_t*>(in));
    case DType::kUint8:
      return run(static_cast<const uint8_t*>(in));
    case DType::kUint16:
      return run(static_cast<const uint16_t*>(in));
    default:
      return false;
  }
}

}  // namespace sluice::image
