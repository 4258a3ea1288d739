#include "exec/fusion/chain_program.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "base/parallel.h"
#include "exec/core/error_attribution.h"
#include "exec/core/kernel_runner.h"

namespace sluice {
namespace {

// Total size of the blocks of all values, which should fit in the L2 cache.
// (Ten cheap nodes on a million floats, one thread: 489 us with 16 kB, 474 with
// 32, 454 with 64, 577 with 128; node by node 620.)
constexpr size_t kCacheBytes = 64 << 10;
constexpr int64_t kMinElements = 1024, kMaxElements = 8192;

constexpr int kMaxValues =
    ChainProgram::kMaxChainNodes + ChainProgram::kMaxInputs;

// NumPy broadcasting. Null if the shapes do not fit.
std::unique_ptr<Shape> BroadcastOf(const Shape& a, const Shape& b) {
  const int rank = std::max(a.rank(), b.rank());
  int64_t dims[8];
  for (int i = 0; i < rank; ++i) {
    const int64_t x = i < a.rank() ? a.dim(a.rank() - 1 - i) : 1;
    const int64_t y = i < b.rank() ? b.dim(b.rank() - 1 - i) : 1;
    if (x != y && x != 1 && y != 1) return nullptr;
    dims[rank - 1 - i] = x == 1 ? y : x;
  }
  Result<Shape> s = Shape::Make({dims, static_cast<size_t>(rank)});
  return s.ok() ? std::make_unique<Shape>(*std::move(s)) : nullptr;
}

// Per-thread memory for the blocks of one run, reused.
char* ScratchOf(size_t bytes) {
  constexpr size_t kLine = 64;
  thread_local std::unique_ptr<char[]> memory;
  thread_local size_t size = 0;
  if (size < bytes + kLine) {
    memory = std::make_unique_for_overwrite<char[]>(bytes + kLine);
    size = bytes + kLine;
  }
  const auto at = reinterpret_cast<uintptr_t>(memory.get());
  return memory.get() + (kLine - at % kLine) % kLine;
}

}  // namespace

// One run over large arrays: the locations of all values.
class ChainRun {
 public:
  ChainRun(const ChainProgram& p, KernelContext& ctx) : p_(p), ctx_(ctx) {}

  // Returns false if it cannot run by blocks.
  bool Plan() {
    const int inputs = p_.num_inputs();
    for (int i = 0; i < inputs; ++i) shapes_[i] = &ctx_.input(i).shape();
    for (size_t i = 0; i < p_.instrs_.size(); ++i)
      if (!InferShape(static_cast<int>(i))) return false;
    const int values = inputs + static_cast<int>(p_.instrs_.size());
    all_ = shapes_[inputs];
    for (int v = inputs + 1; v < values; ++v)
      if (shapes_[v]->num_elements() > all_->num_elements()) all_ = shapes_[v];
    n_ = all_->num_elements();
    if (n_ == 0) return false;
    for (int v = 0; v < values; ++v) {
      whole_[v] = *shapes_[v] == *all_;
      places_[v].kind = Place::kUnknown;
    }
    // Values of another shape are computed first, if possible.
    for (size_t i = 0; i < p_.instrs_.size(); ++i) {
      const ChainProgram::Instr& instr = p_.instrs_[i];
      if (whole_[inputs + static_cast<int>(i)]) continue;
      if (instr.output >= 0) return false;
      for (int k = 0; k < instr.num_inputs; ++k)
        if (whole_[instr.in[k]]) return false;
      has_small_ = true;
    }
    shape_ = *all_;  // (A copy: an input's may be moved away.)
    return true;
  }

  Status Run() {
    if (has_small_) SLUICE_RETURN_IF_ERROR(RunSmall());
    bool blocks = true;
    for (size_t i = 0; i < p_.instrs_.size() && blocks; ++i) {
      const ChainProgram::Instr& instr = p_.instrs_[i];
      if (!whole_[ValueOf(i)]) continue;
      big_[num_big_++] = static_cast<int>(i);
      for (int k = 0; k < instr.num_inputs && blocks; ++k)
        blocks = Locate(instr.in[k]);
    }
    if (!blocks) return p_.RunOneByOne(ctx_);
    SLUICE_RETURN_IF_ERROR(AllocateOutputs());
    double cost = 0;
    for (int i = 0; i < num_big_; ++i)
      cost += 1.0 / std::max(1, At(i).form.grain);
    std::atomic<bool> ok = true;
    const int64_t blocks_in_all = (n_ + p_.block_ - 1) / p_.block_;
    const auto grain = static_cast<int64_t>(1 / cost) / p_.block_;
    ParallelFor(
        blocks_in_all, std::max<int64_t>(1, grain),
        [&](int64_t begin, int64_t end) {
          if (!RunBlocks(begin * p_.block_, std::min(n_, end * p_.block_)))
            ok = false;
        });
    // If a node fails, its kernel reports the error.
    return ok ? OkStatus() : p_.RunOneByOne(ctx_);
  }

 private:
  // The location of the elements of a value.
  struct Place {
    enum Kind : uint8_t {
      kUnknown,
      kMemory,   // At data, one per element.
      kScratch,  // In the block of that number.
      kSingle,   // At data, one for all elements.
      kTile,     // At data, `count` elements, repeated.
      kSpread,   // At data, `count` elements, each `repeat` times, repeated:
                 // expanded into a block.
    };
    Kind kind;
    int scratch;
    const char* data;
    int64_t count, repeat;
  };

  const ChainProgram::Instr& At(int big) const {
    return p_.instrs_[static_cast<size_t>(big_[big])];
  }
  int ValueOf(size_t instr) const {
    return p_.num_inputs() + static_cast<int>(instr);
  }

  bool InferShape(int i) {
    const ChainProgram::Instr& instr = p_.instrs_[static_cast<size_t>(i)];
    const Shape* s = shapes_[instr.in[0]];
    for (int k = 1; k < instr.num_inputs; ++k) {
      const Shape& other = *shapes_[instr.in[k]];
      if (instr.form.shapes == BlockForm::kChannels) {
        if (other.rank() != 1 || s->rank() < 2 ||
            s->dim(s->rank() - 1) != other.dim(0))
          return false;
      } else if (!(*s == other)) {
        if (instr.form.shapes == BlockForm::kSame) return false;
        if (other.num_elements() == 1 && other.rank() <= s->rank()) continue;
        if (s->num_elements() == 1 && s->rank() <= other.rank()) {
          s = &other;
          continue;
        }
        made_.push_back(BroadcastOf(*s, other));
        s = made_.back().get();
        if (s == nullptr) return false;
      }
    }
    shapes_[ValueOf(static_cast<size_t>(i))] = s;
    return true;
  }

  Status RunSmall() {
    small_.resize(p_.instrs_.size());
    for (size_t i = 0; i < p_.instrs_.size(); ++i) {
      const ChainProgram::Instr& instr = p_.instrs_[i];
      if (whole_[ValueOf(i)]) continue;
      std::vector<Tensor> in;
      for (int k = 0; k < instr.num_inputs; ++k)
        in.push_back(TensorOf(instr.in[k]));
      SLUICE_RETURN_IF_ERROR(
          AttributedTo(KernelRunner::RunOn(ctx_, *instr.kernel, *instr.node,
                                           std::move(in), &small_[i]),
                       instr.node->Describe()));
    }
    return OkStatus();
  }

  const Tensor& TensorOf(int value) const {
    return value < p_.num_inputs()
               ? ctx_.input(value)
               : small_[static_cast<size_t>(value - p_.num_inputs())];
  }

  // Determines how a value is read. False if blocks do not support it.
  bool Locate(int v) {
    Place& place = places_[v];
    if (place.kind != Place::kUnknown) return true;
    if (whole_[v] && v >= p_.num_inputs()) return true;  // AllocateOutputs.
    const Tensor& t = TensorOf(v);
    place.data = static_cast<const char*>(t.raw());
    if (whole_[v] || n_ == 1) {
      place.kind = Place::kMemory;
      return true;
    }
    if (t.num_elements() == 1) {
      place.kind = Place::kSingle;
      return true;
    }
    // Ones, then the dimensions of the full shape, then ones.
    const int ahead = shape_.rank() - t.rank();
    if (ahead < 0) return false;
    place.count = place.repeat = 1;
    bool begun = false;
    for (int d = 0; d < shape_.rank(); ++d) {
      const int64_t all = shape_.dim(d), own = d < ahead ? 1 : t.dim(d - ahead);
      if (all == 1) continue;
      if (own == all) {
        if (place.repeat > 1) return false;
        begun = true;
        place.count *= all;
      } else if (begun) {
        place.repeat *= all;
      }
    }
    if (place.repeat == 1 && place.count < p_.block_) {
      Tile(v);
    } else {
      if (num_spread_ == 64) return false;
      place.kind = Place::kSpread;
      place.scratch = p_.num_scratch_ + num_spread_++;
    }
    return true;
  }

  // Repeats a short row until a block can begin anywhere in it.
  void Tile(int v) {
    Place& place = places_[v];
    const size_t bytes = p_.SizeOf(v) * static_cast<size_t>(place.count);
    const auto copies =
        static_cast<size_t>((p_.block_ + place.count - 1) / place.count) + 1;
    std::vector<char>& tile = tiles_.emplace_back(bytes * copies);
    for (size_t i = 0; i < copies; ++i)
      std::memcpy(&tile[i * bytes], place.data, bytes);
    place.kind = Place::kTile;
    place.data = tile.data();
  }

  Status AllocateOutputs() {
    uint64_t forwarded = 0;
    bool may_fail = false;
    for (int i = 0; i < num_big_; ++i)
      may_fail = may_fail || At(i).form.may_fail;
    for (size_t o = 0; o < p_.outputs_.size(); ++o) {
      const int v = p_.outputs_[o];
      const DType type =
          p_.instrs_[static_cast<size_t>(v - p_.num_inputs())].type;
      const int out = static_cast<int>(o);
      int from = -1;  // An input whose memory can be reused.
      for (int i : p_.forwards_[o]) {
        const bool taken = (forwarded >> i & 1) != 0;
        if (!may_fail && !taken && whole_[i] && ctx_.CanForward(i)) from = i;
      }
      if (from >= 0) forwarded |= uint64_t{1} << from;
      SLUICE_RETURN_IF_ERROR(
          from < 0 ? ctx_.Allocate(out, type, shape_)
                   : ctx_.ForwardOrAllocate({from}, out, type, shape_));
      places_[v].kind = Place::kMemory;
      places_[v].data = static_cast<const char*>(ctx_.output(out).raw());
    }
    for (int i = 0; i < num_big_; ++i) {
      if (At(i).scratch < 0) continue;
      Place& place = places_[ValueOf(static_cast<size_t>(big_[i]))];
      place.kind = Place::kScratch;
      place.scratch = At(i).scratch;
    }
    return OkStatus();
  }

  // Computes elements [begin, end) of all full-size values on this thread.
  bool RunBlocks(int64_t begin, int64_t end) const {
    const size_t block_bytes =
        p_.widest_ * static_cast<size_t>(std::min(p_.block_, n_));
    char* const scratch = ScratchOf(
        block_bytes * static_cast<size_t>(p_.num_scratch_ + num_spread_));
    bool ok = true;
    for (int64_t at = begin; at < end; at += p_.block_) {
      const int64_t n = std::min(p_.block_, end - at);
      uint64_t spread = 0;  // Scratch blocks that are already expanded.
      for (int i = 0; i < num_big_; ++i) {
        const ChainProgram::Instr& instr = At(i);
        const void* in[3] = {};
        uint32_t single = 0;
        for (int k = 0; k < instr.num_inputs; ++k) {
          const int v = instr.in[k];
          const Place& place = places_[v];
          const size_t size = p_.SizeOf(v);
          switch (place.kind) {
            case Place::kMemory:
              in[k] = place.data + static_cast<size_t>(at) * size;
              break;
            case Place::kScratch:
              in[k] =
                  scratch + static_cast<size_t>(place.scratch) * block_bytes;
              break;
            case Place::kTile:
              in[k] = place.data + static_cast<size_t>(at % place.count) * size;
              break;
            case Place::kSpread: {
              char* to =
                  scratch + static_cast<size_t>(place.scratch) * block_bytes;
              const uint64_t bit = uint64_t{1}
                                   << (place.scratch - p_.num_scratch_);
              if ((spread & bit) == 0) Spread(place, size, at, n, to);
              spread |= bit;
              in[k] = to;
              break;
            }
            default:
              in[k] = place.data;
              single |= 1u << k;
          }
        }
        const int v = ValueOf(static_cast<size_t>(big_[i]));
        const Place& place = places_[v];
        char* const out =
            place.kind == Place::kScratch
                ? scratch + static_cast<size_t>(place.scratch) * block_bytes
                : const_cast<char*>(place.data) +
                      static_cast<size_t>(at) * p_.SizeOf(v);
        ok = instr.form.fn(instr.state, in, single, out, n) && ok;
      }
    }
    return ok;
  }

  static void Spread(const Place& place, size_t size, int64_t at, int64_t n,
                     char* to) {
    switch (size) {
      case 1:
        return SpreadAs<uint8_t>(place, at, n, to);
      case 2:
        return SpreadAs<uint16_t>(place, at, n, to);
      case 4:
        return SpreadAs<uint32_t>(place, at, n, to);
      case 8:
        return SpreadAs<uint64_t>(place, at, n, to);
      default:
        struct Sixteen {
          uint64_t a, b;
        };
        return SpreadAs<Sixteen>(place, at, n, to);
    }
  }
  template <typename T>
  static void SpreadAs(const Place& place, int64_t at, int64_t n, char* pto) {
    const T* const from = reinterpret_cast<const T*>(place.data);
    T* to = reinterpret_cast<T*>(pto);
    int64_t i = at / place.repeat % place.count, skip = at % place.repeat;
    while (n > 0) {
      if (place.repeat == 1) {
        const int64_t run = std::min(n, place.count - i);
        to = std::copy_n(from + i, run, to);
        i = 0, n -= run;
        continue;
      }
      const int64_t run = std::min(n, place.repeat - skip);
      to = std::fill_n(to, run, from[i]);
      skip = 0, n -= run;
      if (++i == place.count) i = 0;
    }
  }

  const ChainProgram& p_;
  KernelContext& ctx_;
  const Shape* shapes_[kMaxValues];
  bool whole_[kMaxValues];  // Whether it has the blocks' shape.
  Place places_[kMaxValues];
  int big_[ChainProgram::kMaxChainNodes];  // Instructions that run by blocks.
  int num_big_ = 0;
  int num_spread_ = 0;
  const Shape* all_ = nullptr;
  Shape shape_;
  int64_t n_ = 0;
  bool has_small_ = false;
  std::vector<std::unique_ptr<Shape>> made_;
  std::vector<Tensor> small_;  // By instruction.
  std::vector<std::vector<char>> tiles_;
};

ChainProgram::ChainProgram(std::vector<Instr> instrs,
                           std::vector<DType> input_types,
                           std::vector<int> outputs)
    : instrs_(std::move(instrs)),
      input_types_(std::move(input_types)),
      outputs_(std::move(outputs)),
      last_read_(input_types_.size() + instrs_.size(), -1) {
  for (size_t i = 0; i < instrs_.size(); ++i)
    for (int k = 0; k < instrs_[i].num_inputs; ++k)
      last_read_[static_cast<size_t>(instrs_[i].in[k])] = static_cast<int>(i);
  for (size_t o = 0; o < outputs_.size(); ++o)
    instrs_[static_cast<size_t>(outputs_[o] - num_inputs())].output =
        static_cast<int>(o);
  PlaceBlocks();
  FindForwards();
}

size_t ChainProgram::SizeOf(int value) const {
  const int i = value - num_inputs();
  return DTypeSize(i < 0 ? input_types_[static_cast<size_t>(value)]
                         : instrs_[static_cast<size_t>(i)].type);
}

// Reuses blocks after their last read.
void ChainProgram::PlaceBlocks() {
  std::vector<int> free;
  for (size_t i = 0; i < instrs_.size(); ++i) {
    Instr& instr = instrs_[i];
    std::vector<int> released;
    for (int k = 0; k < instr.num_inputs; ++k) {
      const int v = instr.in[k];
      bool again = false;  // For an input that is read twice.
      for (int j = 0; j < k; ++j) again = again || instr.in[j] == v;
      if (v < num_inputs() || again ||
          last_read_[static_cast<size_t>(v)] != static_cast<int>(i))
        continue;
      const Instr& from = instrs_[static_cast<size_t>(v - num_inputs())];
      if (from.scratch < 0) continue;
      // In place if the form allows it.
      const bool in_place =
          instr.num_inputs < 3 && DTypeSize(from.type) == DTypeSize(instr.type);
      (in_place ? free : released).push_back(from.scratch);
    }
    if (instr.output < 0) {
      if (free.empty()) free.push_back(num_scratch_++);
      instr.scratch = free.back();
      free.pop_back();
    }
    free.insert(free.end(), released.begin(), released.end());
    widest_ = std::max(widest_, DTypeSize(instr.type));
  }
  for (int v = 0; v < num_inputs(); ++v) widest_ = std::max(widest_, SizeOf(v));
  const size_t values =
      static_cast<size_t>(num_scratch_) + outputs_.size() + input_types_.size();
  const auto fit = static_cast<int64_t>(kCacheBytes / (values * widest_));
  block_ = std::clamp(fit / 64 * 64, kMinElements, kMaxElements);
}

void ChainProgram::FindForwards() {
  for (const int v : outputs_) {
    const int i = v - num_inputs();
    const Instr& instr = instrs_[static_cast<size_t>(i)];
    std::vector<int>& from = forwards_.emplace_back();
    for (int in = 0; in < num_inputs(); ++in) {
      const int last = last_read_[static_cast<size_t>(in)];
      if ((last < i || (last == i && instr.num_inputs < 3)) &&
          SizeOf(in) == DTypeSize(instr.type))
        from.push_back(in);
    }
  }
}

Status ChainProgram::Run(KernelContext& ctx) const {
  {
    ChainRun run(*this, ctx);
    if (run.Plan()) return run.Run();
  }
  return RunOneByOne(ctx);
}

Status ChainProgram::RunOneByOne(KernelContext& ctx) const {
  std::vector<Tensor> values(last_read_.size());
  for (size_t i = 0; i < instrs_.size(); ++i) {
    const Instr& instr = instrs_[i];
    std::vector<Tensor> in;
    for (int k = 0; k < instr.num_inputs; ++k) {
      const int v = instr.in[k];
      const auto at = static_cast<size_t>(v);
      bool again = false;
      for (int j = k + 1; j < instr.num_inputs; ++j)
        again = again || instr.in[j] == v;
      if (v < num_inputs())
        in.push_back(ctx.input(v));
      else if (again || last_read_[at] != static_cast<int>(i) ||
               instrs_[at - input_types_.size()].output >= 0)
        in.push_back(values[at]);
      else
        in.push_back(std::move(values[at]));
    }
    SLUICE_RETURN_IF_ERROR(AttributedTo(
        KernelRunner::RunOn(ctx, *instr.kernel, *instr.node, std::move(in),
                            &values[input_types_.size() + i]),
        instr.node->Describe()));
  }
  for (size_t o = 0; o < outputs_.size(); ++o)
    ctx.set_output(static_cast<int>(o),
                   std::move(values[static_cast<size_t>(outputs_[o])]));
  return OkStatus();
}

}  // namespace sluice
