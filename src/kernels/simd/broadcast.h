// NumPy-style broadcasting of N operands as a short loop nest: dimensions that
// every operand treats alike are merged, so that most cases become one or two
// loops for any rank.
#ifndef SLUICE_KERNELS_SIMD_BROADCAST_H_
#define SLUICE_KERNELS_SIMD_BROADCAST_H_

#include <algorithm>
#include <array>
#include <cstdint>

#include "absl/types/span.h"

namespace sluice::simd {

// The maximum rank of a shape.
inline constexpr int kMaxRank = 8;

// The plan for N operands. Plain data, immutable once built, may be kept and
// used by any threads. Invariants after Build has returned true: rank() >= 1;
// strides count elements; the last dimension has stride 0 or 1 for every
// operand.
template <int N>
class Broadcast {
 public:
  using Offsets = std::array<int64_t, N>;

  // False if the shapes are incompatible or a rank exceeds kMaxRank.
  bool Build(const std::array<absl::Span<const int64_t>, N>& shapes);

  // The broadcast shape, as the caller sees it (before merging).
  absl::Span<const int64_t> shape() const {
    return absl::MakeConstSpan(shape_, shape_rank_);
  }
  int64_t num_elements() const { return num_elements_; }

  // The merged loop nest, outermost first.
  int rank() const { return rank_; }
  int64_t dim(int i) const { return dims_[i]; }
  int64_t stride(int operand, int i) const { return strides_[i][operand]; }

  // The length of the inner loop, and the number of inner loops.
  int64_t inner() const { return dims_[rank_ - 1]; }
  int64_t outer() const { return outer_; }

  // Calls fn(output offset, operand offsets) once for each inner loop in
  // [begin, end) of [0, outer()).
  template <typename F>
  void ForEachInner(int64_t begin, int64_t end, F&& fn) const;

 private:
  int64_t shape_[kMaxRank] = {};
  int shape_rank_ = 0;
  int rank_ = 0;
  int64_t num_elements_ = 0;
  int64_t outer_ = 0;
  int64_t dims_[kMaxRank] = {};
  Offsets strides_[kMaxRank] = {};
};

template <int N>
bool Broadcast<N>::Build(
    const std::array<absl::Span<const int64_t>, N>& shapes) {
  size_t rank = 0;
  for (const auto& s : shapes) rank = std::max(rank, s.size());
  if (rank > kMaxRank) return false;
  shape_rank_ = static_cast<int>(rank);
  num_elements_ = 1;

  // Inner to outer, merging as we go; reversed at the end.
  int64_t running[N];
  for (int k = 0; k < N; ++k) running[k] = 1;
  int merged = 0;
  for (size_t i = 0; i < rank; ++i) {
    int64_t d = 1;
    int64_t size[N];
    for (int k = 0; k < N; ++k) {
      size[k] = i < shapes[k].size() ? shapes[k][shapes[k].size() - 1 - i] : 1;
      if (size[k] == 1) continue;
      if (d != 1 && d != size[k]) return false;
      d = size[k];
    }
    shape_[rank - 1 - i] = d;
    num_elements_ *= d;
    if (d == 1) continue;
    Offsets stride;
    bool mergeable = merged > 0;
    for (int k = 0; k < N; ++k) {
      stride[k] = size[k] == 1 ? 0 : running[k];
      running[k] *= size[k];
      mergeable =
          mergeable && stride[k] == strides_[merged - 1][k] * dims_[merged - 1];
    }
    if (mergeable) {
      dims_[merged - 1] *= d;
    } else {
      dims_[merged] = d;
      strides_[merged] = stride;
      ++merged;
    }
  }
  if (merged == 0) {
    dims_[0] = 1;
    for (int k = 0; k < N; ++k) strides_[0][k] = 1;
    merged = 1;
  }
  std::reverse(dims_, dims_ + merged);
  std::reverse(strides_, strides_ + merged);
  rank_ = merged;
  outer_ = 1;
  for (int i = 0; i + 1 < rank_; ++i) outer_ *= dims_[i];
  if (num_elements_ == 0) outer_ = 0;
  return true;
}

template <int N>
template <typename F>
void Broadcast<N>::ForEachInner(int64_t begin, int64_t end, F&& fn) const {
  if (begin >= end) return;
  const int last = rank_ - 2;  // Innermost of the outer dimensions.
  int64_t index[kMaxRank] = {};
  Offsets offsets{};
  int64_t rest = begin;
  for (int i = last; i >= 0; --i) {
    index[i] = rest % dims_[i];
    rest /= dims_[i];
    for (int k = 0; k < N; ++k) offsets[k] += index[i] * strides_[i][k];
  }
  const int64_t step = dims_[rank_ - 1];
  int64_t out = begin * step;
  for (int64_t o = begin; o < end; ++o, out += step) {
    fn(out, offsets);
    for (int i = last; i >= 0; --i) {
      for (int k = 0; k < N; ++k) offsets[k] += strides_[i][k];
      if (++index[i] < dims_[i]) break;
      for (int k = 0; k < N; ++k) offsets[k] -= dims_[i] * strides_[i][k];
      index[i] = 0;
    }
  }
}

}  // namespace sluice::simd

#endif  // SLUICE_KERNELS_SIMD_BROADCAST_H_
