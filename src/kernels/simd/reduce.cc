#include "kernels/simd/reduce.h"

#include <algorithm>
#include <vector>

#include "base/parallel.h"

namespace sluice::simd {
namespace {

// Below this number of input elements per thread, starting a thread costs more
// than it saves.
constexpr int64_t kGrain = 32768;
// Accumulators are at most complex128.
constexpr int64_t kMaxAccBytes = 16;
// Rows whose results are finished together.
constexpr int64_t kRowBatch = 64;

const char* At(const void* p, int64_t bytes) {
  return static_cast<const char*>(p) + bytes;
}
char* At(void* p, int64_t bytes) { return static_cast<char*>(p) + bytes; }

}  // namespace

void ReducePlan::Nest::Add(int64_t dim, int64_t stride) {
  dims[rank] = dim;
  strides[rank] = stride;
  ++rank;
  count *= dim;
}

int64_t ReducePlan::Nest::Offset(int64_t index) const {
  if (rank == 1) return index * strides[0];
  int64_t offset = 0;
  for (int i = rank - 1; i >= 0; --i) {
    offset += index % dims[i] * strides[i];
    index /= dims[i];
  }
  return offset;
}

bool ReducePlan::Build(absl::Span<const int64_t> shape,
                       absl::Span<const bool> reduced) {
  if (shape.size() > kMaxRank || shape.size() != reduced.size()) return false;
  *this = ReducePlan();
  outputs_ = 1;
  reduced_ = 1;
  // Merged dimensions, outermost first.
  int64_t dims[kMaxRank];
  bool flags[kMaxRank];
  int rank = 0;
  for (size_t i = 0; i < shape.size(); ++i) {
    (reduced[i] ? reduced_ : outputs_) *= shape[i];
    if (shape[i] == 1) continue;
    if (rank > 0 && flags[rank - 1] == reduced[i]) {
      dims[rank - 1] *= shape[i];
    } else {
      dims[rank] = shape[i];
      flags[rank] = reduced[i];
      ++rank;
    }
  }
  if (rank == 0) return true;
  --rank;
  inner_ = dims[rank];
  inner_reduced_ = flags[rank];
  int64_t stride = inner_;
  if (!inner_reduced_ && rank > 0) {
    --rank;
    rows_ = dims[rank];
    row_stride_ = stride;
    stride *= rows_;
  }
  int64_t strides[kMaxRank];
  for (int i = rank - 1; i >= 0; --i) {
    strides[i] = stride;
    stride *= dims[i];
  }
  for (int i = 0; i < rank; ++i)
    (flags[i] ? reduced_outer_ : kept_).Add(dims[i], strides[i]);
  return true;
}

// One call of Reduce. Lives on the caller's stack; its const members are used
// by all threads of the call.
class Reducer {
 public:
  Reducer(const ReduceKernel& kernel, const ReducePlan& plan, const void* in,
          void* out)
      : k_(kernel), plan_(plan), in_(in), out_(out) {}

  void Run() const {
    if (plan_.outputs() == 0) return;
    if (plan_.reduced() == 0) return FinishNothing();
    const int64_t work = plan_.outputs() * plan_.reduced();
    const int64_t units = Units();
    const int threads = work < 2 * kGrain ? 1 : IntraOpThreads();
    if (threads > 1 && units < threads) {
      for (int64_t u = 0; u < units; ++u) SplitUnit(u, threads);
    } else if (threads == 1) {
      RunUnits(0, units);
    } else {
      const int64_t grain = std::max<int64_t>(1, kGrain / (work / units));
      ParallelFor(units, grain,
                  [this](int64_t begin, int64_t end) { RunUnits(begin, end); });
    }
  }

 private:
  // A unit is one result or, if the innermost dimension is kept, a tile of
  // adjacent results.
  int64_t Tiles() const {
    return (plan_.inner_ + kReduceTile - 1) / kReduceTile;
  }
  int64_t Units() const {
    return plan_.inner_reduced_ ? plan_.kept_.count
                                : plan_.kept_.count * Tiles();
  }

  struct Tile {
    int64_t in;     // Offset of its first input element.
    int64_t out;    // Offset of its first result.
    int64_t width;  // Results.
  };
  Tile TileOf(int64_t unit) const {
    if (plan_.inner_reduced_) return {plan_.kept_.Offset(unit), unit, 1};
    const int64_t tiles = Tiles();
    const int64_t kept = unit / tiles;
    const int64_t first = unit % tiles * kReduceTile;
    return {plan_.kept_.Offset(kept) + first, kept * plan_.inner_ + first,
            std::min(kReduceTile, plan_.inner_ - first)};
  }

  // Accumulates into `acc` the outer reduced indices [q0, q1) and, for each of
  // them, the part [r0, r1) of the row or rows.
  void Accumulate(const Tile& tile, int64_t q0, int64_t q1, int64_t r0,
                  int64_t r1, void* acc) const {
    for (int64_t q = q0; q < q1; ++q) {
      const int64_t at = tile.in + plan_.reduced_outer_.Offset(q);
      if (plan_.inner_reduced_) {
        k_.row(At(in_, (at + r0) * k_.size), r1 - r0, acc);
      } else {
        k_.columns(At(in_, (at + r0 * plan_.row_stride_) * k_.size), r1 - r0,
                   plan_.row_stride_, tile.width, acc);
      }
    }
  }

  int64_t Rows() const {
    return plan_.inner_reduced_ ? plan_.inner_ : plan_.rows_;
  }

  void RunUnits(int64_t begin, int64_t end) const {
    alignas(64) char acc[kReduceTile * kMaxAccBytes];
    const int64_t rows = Rows();
    const int64_t outer = plan_.reduced_outer_.count;
    if (plan_.inner_reduced_) {
      for (int64_t u = begin; u < end; u += kRowBatch) {
        const int64_t n = std::min(kRowBatch, end - u);
        k_.init(acc, n);
        for (int64_t i = 0; i < n; ++i)
          Accumulate(TileOf(u + i), 0, outer, 0, rows, acc + i * k_.acc_size);
        k_.finish(acc, n, plan_.reduced(), At(out_, u * k_.size));
      }
      return;
    }
    for (int64_t u = begin; u < end; ++u) {
      const Tile tile = TileOf(u);
      k_.init(acc, tile.width);
      Accumulate(tile, 0, outer, 0, rows, acc);
      k_.finish(acc, tile.width, plan_.reduced(), At(out_, tile.out * k_.size));
    }
  }

  // Fewer results than threads: the threads share the input of each result.
  void SplitUnit(int64_t unit, int threads) const {
    const Tile tile = TileOf(unit);
    const int64_t outer = plan_.reduced_outer_.count;
    const int64_t rows = Rows();
    const bool split_outer = outer >= threads;
    const int64_t length = split_outer ? outer : rows;
    const int64_t parts = std::min<int64_t>(threads, length);
    const int64_t bytes = tile.width * k_.acc_size;
    std::vector<char> acc(static_cast<size_t>(parts * bytes + 64));
    ParallelFor(parts, 1, [&](int64_t p0, int64_t p1) {
      for (int64_t p = p0; p < p1; ++p) {
        char* mine = acc.data() + p * bytes;
        const int64_t begin = length * p / parts;
        const int64_t end = length * (p + 1) / parts;
        k_.init(mine, tile.width);
        if (split_outer) {
          Accumulate(tile, begin, end, 0, rows, mine);
        } else {
          Accumulate(tile, 0, outer, begin, end, mine);
        }
      }
    });
    for (int64_t p = 1; p < parts; ++p)
      k_.merge(acc.data(), acc.data() + p * bytes, tile.width);
    k_.finish(acc.data(), tile.width, plan_.reduced(),
              At(out_, tile.out * k_.size));
  }

  void FinishNothing() const {
    alignas(64) char acc[kReduceTile * kMaxAccBytes];
    for (int64_t u = 0; u < plan_.outputs(); u += kReduceTile) {
      const int64_t n = std::min(kReduceTile, plan_.outputs() - u);
      k_.init(acc, n);
      k_.finish(acc, n, 0, At(out_, u * k_.size));
    }
  }

  const ReduceKernel& k_;
  const ReducePlan& plan_;
  const void* in_;
  void* out_;
};

bool Reduce(ReduceOp op, DType t, const ReducePlan& plan, const void* in,
            void* out) {
  ReduceKernel kernel = GetReduceSum(op, t);
  if (kernel.row == nullptr) kernel = GetReduceOrder(op, t);
  if (kernel.row == nullptr) return false;
  Reducer(kernel, plan, in, out).Run();
  return true;
}

bool Reduce(ReduceOp op, DType t, absl::Span<const int64_t> shape,
            absl::Span<const bool> reduced, const void* in, void* out) {
  ReducePlan plan;
  return plan.Build(shape, reduced) && Reduce(op, t, plan, in, out);
}

}  // namespace sluice::simd
