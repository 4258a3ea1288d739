// Adam for gradients of some rows, in one pass over the variable and its
// moments. TensorFlow builds the same step from some ten ops, each of which
// reads and writes arrays as large as the variable.
#include <algorithm>
#include <vector>

#include "base/parallel.h"
#include "ops/training/kernel.h"

namespace sluice::training {

template <typename C>
struct SparseAdam : Adam<C> {
  SparseAdam(const Scalars<C>& s, const Options& o)
      : Adam<C>(s, o), lazy(o.lazy) {}

  // x: arrays of `count` rows of n elements; g: a row for each element of
  // `rows`. Slices of one row are added up, in their order.
  template <typename T>
  void UpdateRows(const std::array<T*, kMaxVariables>& x, int64_t count,
                  int64_t n, const std::vector<int64_t>& rows,
                  const T* g) const {
    std::vector<std::pair<int64_t, int64_t>> slices;  // Row, position in g.
    slices.reserve(rows.size());
    for (int64_t row : rows)
      slices.emplace_back(row, static_cast<int64_t>(slices.size()));
    std::sort(slices.begin(), slices.end());
    const int64_t grain = std::max<int64_t>(1, kGrain / n);
    ParallelFor(count, grain, [&](int64_t begin, int64_t end) {
      const ScopedIntraOpThreads this_one(1);
      std::vector<T> sum;
      auto slice = std::lower_bound(slices.begin(), slices.end(),
                                    std::pair<int64_t, int64_t>(begin, 0));
      int64_t done = begin;
      while (slice != slices.end() && slice->first < end) {
        const int64_t row = slice->first;
        Decay(x, done * n, (row - done) * n);
        const T* grad = g + slice->second * n;
        if (++slice != slices.end() && slice->first == row) {
          sum.assign(grad, grad + n);
          for (; slice != slices.end() && slice->first == row; ++slice)
            for (int64_t i = 0; i < n; ++i) {
              const auto k = static_cast<size_t>(i);
              sum[k] = static_cast<T>(static_cast<C>(sum[k]) +
                                      static_cast<C>(g[slice->second * n + i]));
            }
          grad = sum.data();
        }
        Update(static_cast<const Adam<C>&>(*this), x, row * n, grad, n);
        done = row + 1;
      }
      Decay(x, done * n, (end - done) * n);
    });
  }

  // What a gradient of zero does to n elements from `at` on.
  template <typename T>
  void Decay(const std::array<T*, kMaxVariables>& x, int64_t at,
             int64_t n) const {
    if (lazy || n == 0) return;
    simd::AdamDecay(DTypeOf<T>(), this->alpha, this->beta1, this->beta2,
                    this->epsilon, this->nesterov, x[1] + at, x[2] + at,
                    x[0] + at, n);
  }

  bool lazy;
};

namespace {

[[maybe_unused]] const bool sparse_adam_declared = Declare({
    {"SparseApplyAdam", "var m v",
     "beta1_power beta2_power lr beta1 beta2 epsilon grad indices",
     "use_nesterov lazy", RealTraining<SparseAdam>(),
     "ApplyAdam with a gradient that is zero but in the rows selected by "
     "indices, where repeated ones add up: all rows of m and v decay, and all "
     "of var move. If lazy, rows that are not selected stay as they are."},
});

}  // namespace
}  // namespace sluice::training
