#include "kernels/image/resample.h"

#include <algorithm>
#include <cstring>

#include "base/parallel.h"
#include "tensor/half.h"

namespace sluice::image {
namespace {

// Elements that one thread computes at least.
constexpr int64_t kGrain = 16384;

// Four channels of a pixel at a time; of three, the fourth is overwritten by
// the next pixel. `from` has four elements more than the row.
using Four [[gnu::vector_size(16)]] = float;
void WeighPixels(const float* from, const Taps& columns, int64_t c, float* to) {
  const int64_t width = columns.outputs();
  const float* const weight = columns.weight.data();
  const int64_t* const index = columns.index.data();
  for (int64_t x = 0; x < width; ++x, to += c) {
    const int64_t first = columns.first[static_cast<size_t>(x)];
    const int64_t last = columns.first[static_cast<size_t>(x) + 1];
    int64_t i = 0;
    for (; i + 4 <= c || (c == 3 && i == 0 && x + 1 < width); i += 4) {
      Four sum = {};
      for (int64_t k = first; k < last; ++k) {
        Four v;
        std::memcpy(&v, from + index[k] * c + i, sizeof(v));
        sum += weight[k] * v;
      }
      std::memcpy(to + i, &sum, sizeof(sum));
    }
    for (; i < c; ++i) {
      float sum = 0;
      for (int64_t k = first; k < last; ++k)
        sum += weight[k] * from[index[k] * c + i];
      to[i] = sum;
    }
  }
}

template <typename T>
void ResampleAs(const T* in, const ImageSize& size, const Taps& rows,
                const Taps& columns, float* out) {
  const int64_t c = size.channels, in_row = size.width * c;
  const int64_t height = rows.outputs(), out_row = columns.outputs() * c;
  const int64_t cost = std::max<int64_t>(1, std::max(in_row, out_row));
  ParallelFor(
      size.batch * height, kGrain / cost + 1, [&](int64_t begin, int64_t end) {
        std::vector<float> row(static_cast<size_t>(in_row) + 4);
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
          WeighPixels(sum, columns, c, out + o * out_row);
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
