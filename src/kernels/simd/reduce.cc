#include "kernels/simd/reduce.h"

#include <algorithm>
#include <cstring>
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
// Adjacent rows shorter than this, of elements of at most kShortSize bytes, are
// transposed and reduced as columns.
constexpr int64_t kShortRow = 16;
constexpr int64_t kShortSize = 8;

// Four elements of each of four rows as four columns, of which `columns` are
// stored.
using Four [[gnu::vector_size(16)]] = uint32_t;
void TransposeFour(const uint32_t* in, int64_t length, int64_t columns,
                   uint32_t* out) {
  Four row[4];
  for (int64_t r = 0; r < 4; ++r)
    std::memcpy(&row[r], in + r * length, sizeof(Four));
  const Four low01 = __builtin_shufflevector(row[0], row[1], 0, 4, 1, 5);
  const Four low23 = __builtin_shufflevector(row[2], row[3], 0, 4, 1, 5);
  const Four high01 = __builtin_shufflevector(row[0], row[1], 2, 6, 3, 7);
  const Four high23 = __builtin_shufflevector(row[2], row[3], 2, 6, 3, 7);
  const Four column[4] = {__builtin_shufflevector(low01, low23, 0, 1, 4, 5),
                          __builtin_shufflevector(low01, low23, 2, 3, 6, 7),
                          __builtin_shufflevector(high01, high23, 0, 1, 4, 5),
                          __builtin_shufflevector(high01, high23, 2, 3, 6, 7)};
  for (int64_t j = 0; j < columns; ++j)
    std::memcpy(out + j * kReduceTile, &column[j], sizeof(Four));
}

// `rows` rows of `length` elements as columns kReduceTile apart.
template <class T>
void TransposeTile(const void* pin, int64_t rows, int64_t length, void* pout) {
  const T* in = static_cast<const T*>(pin);
  T* out = static_cast<T*>(pout);
  int64_t done = 0;
  if constexpr (sizeof(T) == 4)  // (Up to three elements more are read.)
    for (; done + 4 + 3 / length < rows; done += 4)
      for (int64_t j = 0; j < length; j += 4)
        TransposeFour(in + done * length + j, length,
                      std::min<int64_t>(4, length - j),
                      out + j * kReduceTile + done);
  for (int64_t j = 0; j < length; ++j, out += kReduceTile)
    for (int64_t r = done; r < rows; ++r) out[r] = in[r * length + j];
}
using TransposeFn = void (*)(const void*, int64_t, int64_t, void*);
TransposeFn TransposeOf(int64_t size) {
  return size == 1   ? TransposeTile<uint8_t>
         : size == 2 ? TransposeTile<uint16_t>
         : size == 4 ? TransposeTile<uint32_t>
                     : TransposeTile<uint64_t>;
}

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
    if (plan_.inner_reduced_ && plan_.reduced_outer_.rank == 0 && rows > 1 &&
        rows < kShortRow && k_.size <= kShortSize)
      return RunShortRows(begin, end, rows, acc);
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

  // (Rows are adjacent, since all outer dimensions are kept.)
  void RunShortRows(int64_t begin, int64_t end, int64_t length,
                    void* acc) const {
    alignas(64) char columns[kShortRow * kReduceTile * kShortSize];
    const TransposeFn transpose = TransposeOf(k_.size);
    for (int64_t u = begin; u < end; u += kReduceTile) {
      const int64_t n = std::min(kReduceTile, end - u);
      transpose(At(in_, u * length * k_.size), n, length, columns);
      k_.init(acc, n);
      k_.columns(columns, length, kReduceTile, n, acc);
      k_.finish(acc, n, plan_.reduced(), At(out_, u * k_.size));
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
