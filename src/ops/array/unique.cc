// Values as a set: the distinct ones, those not in another list, counts.
#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "exec/core/kernel.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "ops/common/elements.h"
#include "ops/common/grad_nodes.h"

namespace sluice {
namespace {

using array::At;
using array::IntAt;
using array::Tag;

// ---- Keys -------------------------------------------------------------------

// Calls f(first, n, key), where key(i) is the hashable key of the i-th of n
// entries of `width` elements each; equal entries have equal keys. NaN is not
// equal to anything, including itself; -0 equals 0.
template <typename F>
void WithKeys(const Tensor& t, int64_t width, F&& f) {
  if (width != 1) {
    // Slices: their bytes, or for strings their contents with lengths.
    if (IsPlain(t.dtype())) {
      const size_t bytes = static_cast<size_t>(width) * DTypeSize(t.dtype());
      f([&t, bytes](int64_t i) {
        return absl::string_view(t.raw<char>() + static_cast<size_t>(i) * bytes,
                                 bytes);
      });
    } else {
      f([&t, width](int64_t i) {
        std::string key;
        for (int64_t k = 0; k < width; ++k) {
          const std::string& s = t.raw<std::string>()[i * width + k];
          absl::StrAppend(&key, s.size(), ":", s);
        }
        return key;
      });
    }
    return;
  }
  switch (t.dtype()) {
    case DType::kFloat:
      return f([&t](int64_t i) { return t.raw<float>()[i]; });
    case DType::kDouble:
      return f([&t](int64_t i) { return t.raw<double>()[i]; });
    case DType::kHalf:
      return f(
          [&t](int64_t i) { return static_cast<float>(t.raw<half>()[i]); });
    case DType::kBfloat16:
      return f(
          [&t](int64_t i) { return static_cast<float>(t.raw<bfloat16>()[i]); });
    case DType::kString:
      return f([&t](int64_t i) {
        return absl::string_view(t.raw<std::string>()[i]);
      });
    default:
      break;
  }
  switch (DTypeSize(t.dtype())) {  // Integers and bool: their bits.
    case 1:
      return f([&t](int64_t i) { return t.raw<uint8_t>()[i]; });
    case 2:
      return f([&t](int64_t i) { return t.raw<uint16_t>()[i]; });
    case 4:
      return f([&t](int64_t i) { return t.raw<uint32_t>()[i]; });
    default:
      return f([&t](int64_t i) { return t.raw<uint64_t>()[i]; });
  }
}

// Never inserted into a map, which requires keys that equal themselves.
template <typename K>
bool IsNan(const K& k) {
  if constexpr (std::is_floating_point_v<K>)
    return k != k;
  else
    return false;
}

// Numbers that were seen, and in which order. Memory for twice as many as there
// are: a probe finds its slot, or a free one, soon.
template <typename Key>
class NumberTable {
 public:
  using Bits = std::conditional_t<
      sizeof(Key) == 8, uint64_t,
      std::conditional_t<
          sizeof(Key) == 4, uint32_t,
          std::conditional_t<sizeof(Key) == 2, uint16_t, uint8_t>>>;

  NumberTable() { slots_.resize(size_t{1} << bits_); }

  // The slot of a number is on its way to the cache.
  void Prefetch(Key key) const {
    __builtin_prefetch(&slots_[SlotOf(BitsOf(key))], 1);
  }

  // The number of the key, which is `next` if it is new. (Not for NaN.)
  int64_t PlaceOf(Key key, int64_t next) {
    const Bits bits = BitsOf(key);
    const size_t mask = slots_.size() - 1;
    for (size_t i = SlotOf(bits);; i = (i + 1) & mask) {
      Slot& slot = slots_[i];
      if (slot.place == 0) {
        slot = {bits, static_cast<int32_t>(next + 1)};
        if (++used_ * 2 > slots_.size()) Grow();
        return next;
      }
      if (slot.key == bits) return slot.place - 1;
    }
  }

 private:
  struct Slot {
    Bits key = 0;
    int32_t place = 0;  // Plus one; 0: free.
  };

  // -0 is 0.
  static Bits BitsOf(Key key) {
    if constexpr (std::is_floating_point_v<Key>)
      return key == 0 ? Bits{0} : std::bit_cast<Bits>(key);
    else
      return static_cast<Bits>(key);
  }
  size_t SlotOf(Bits key) const {
    uint64_t x = uint64_t{key} * 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 32)) * 0xD6E8FEB86659FD93u;
    return static_cast<size_t>(x >> (64 - bits_));
  }
  void Grow() {
    std::vector<Slot> old = std::move(slots_);
    bits_ += 2;
    slots_.clear();
    slots_.resize(size_t{1} << bits_);
    const size_t mask = slots_.size() - 1;
    for (const Slot& slot : old) {
      if (slot.place == 0) continue;
      size_t i = SlotOf(slot.key);
      while (slots_[i].place != 0) i = (i + 1) & mask;
      slots_[i] = slot;
    }
  }

  std::vector<Slot> slots_;
  int bits_ = 10;
  size_t used_ = 0;
};

// Calls take(i, place) for n numbers in order; a place is that of the first
// equal number among the distinct ones.
template <typename Key, typename KeyOf, typename Take>
void PlacesOfNumbers(int64_t n, const KeyOf& key, const Take& take) {
  constexpr int64_t kAhead = 16;
  NumberTable<Key> table;
  int64_t next = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (i + kAhead < n) table.Prefetch(key(i + kAhead));
    const Key k = key(i);
    const int64_t at = IsNan(k) ? next : table.PlaceOf(k, next);
    next += at == next;
    take(i, at);
  }
}

// The elements of x at `from`.
template <typename T>
void CopyNumbers(const Tensor& x, const std::vector<int64_t>& from, Tensor* y) {
  const T* in = static_cast<const T*>(x.raw());
  T* out = static_cast<T*>(y->raw());
  for (const int64_t i : from) *out++ = in[i];
}

Status CheckHashable(const Node& n) {
  const DType t = n.TypeAttr("T");
  if (IsComplex(t) || IsQuantized(t) || t == DType::kResource ||
      t == DType::kVariant)
    return NoKernelFor(n, t);
  return OkStatus();
}

// The first `n` entries of `values` as an index tensor of type int32 or int64.
Result<Tensor> Indices(DType type, const std::vector<int64_t>& values) {
  return array::IntTensor(type, values);
}

// ---- Unique, UniqueV2, and with counts --------------------------------------

// Dimension `axis` moved to the front (or back), so that entries are rows.
Result<Tensor> AxisFirst(const Tensor& x, int axis, int64_t entries,
                         bool back) {
  // As [before, entries, after] -> [entries, before, after].
  const Shape& s = x.shape();
  int64_t before = 1, after = 1;
  for (int i = 0; i < s.rank(); ++i) {
    if (i < axis) before *= s[i];
    if (i > axis) after *= s[i];
  }
  SLUICE_ASSIGN_OR_RETURN(Tensor out, Tensor::Make(x.dtype(), s));
  const int64_t dims[] = {before, entries, after};
  const int64_t split[] = {entries * after, after, 1};
  const int64_t first[] = {after, before * after, 1};
  if (x.num_elements() > 0)
    array::CopyStrided(x.dtype(), dims, x.raw(), back ? first : split,
                       out.raw(), back ? split : first);
  return out;
}

template <bool kCounts>
class UniqueKernel {
 public:
  static Result<std::shared_ptr<UniqueKernel>> Make(const Node& n) {
    SLUICE_RETURN_IF_ERROR(CheckHashable(n));
    auto k = std::make_shared<UniqueKernel>();
    k->index_ = n.TypeAttr("out_idx");
    return k;
  }
  Status Run(KernelContext& ctx) {
    Tensor x = ctx.input(0);
    int axis = 0;
    if (ctx.num_inputs() > 1 && ctx.input(1).num_elements() > 0) {
      const Tensor& a = ctx.input(1);
      if (a.rank() != 1 || a.num_elements() != 1)
        return InvalidArgument("axis: expected at most one, got shape ",
                               a.shape().ToString());
      SLUICE_ASSIGN_OR_RETURN(axis, CanonicalAxis(IntAt(a, 0), x.rank()));
    } else if (x.rank() != 1) {
      return InvalidArgument("x: expected a vector, got shape ",
                             x.shape().ToString());
    }
    const Shape shape = x.shape();
    const int64_t n = shape[axis];
    int64_t width = 1;
    for (int i = 0; i < shape.rank(); ++i)
      if (i != axis) width *= shape[i];
    if (axis != 0) {
      SLUICE_ASSIGN_OR_RETURN(x, AxisFirst(x, axis, n, false));
    }
    std::vector<int64_t> place(static_cast<size_t>(n)), first, counts;
    if (width == 0) {
      // All entries without elements are equal.
      if (n > 0) {
        first.push_back(0);
        counts.push_back(n);
      }
    } else {
      WithKeys(x, width, [&](auto key) {
        using Key = decltype(key(0));
        const auto take = [&](int64_t i, int64_t at) {
          if (at == static_cast<int64_t>(first.size())) {
            first.push_back(i);
            if (kCounts) counts.push_back(0);
          }
          place[static_cast<size_t>(i)] = at;
          if (kCounts) ++counts[static_cast<size_t>(at)];
        };
        if constexpr (std::is_arithmetic_v<Key>) {
          if (n < INT32_MAX) return PlacesOfNumbers<Key>(n, key, take);
        }
        absl::flat_hash_map<Key, int64_t> seen;
        seen.reserve(static_cast<size_t>(n));
        for (int64_t i = 0; i < n; ++i) {
          const auto next = static_cast<int64_t>(first.size());
          const auto k = key(i);
          take(i, IsNan(k) ? next : seen.try_emplace(k, next).first->second);
        }
      });
    }
    Dims dims = array::DimsOf(shape);
    const auto unique = static_cast<int64_t>(first.size());
    dims[static_cast<size_t>(axis)] = unique;
    SLUICE_ASSIGN_OR_RETURN(const Shape out_shape, array::MakeShape(dims));
    const DType type = x.dtype();
    SLUICE_ASSIGN_OR_RETURN(Tensor y, ctx.AllocateTemp(type, out_shape));
    if (width == 1 && IsPlain(type) && DTypeSize(type) == 4) {
      CopyNumbers<uint32_t>(x, first, &y);
    } else if (width == 1 && IsPlain(type) && DTypeSize(type) == 8) {
      CopyNumbers<uint64_t>(x, first, &y);
    } else {
      for (int64_t i = 0; i < unique && width > 0; ++i)
        array::CopyRun(type,
                       At(type, std::as_const(x).raw(),
                          first[static_cast<size_t>(i)] * width),
                       At(type, y.raw(), i * width), width);
    }
    if (axis != 0) {
      SLUICE_ASSIGN_OR_RETURN(y, AxisFirst(y, axis, unique, true));
    }
    ctx.set_output(0, std::move(y));
    SLUICE_ASSIGN_OR_RETURN(Tensor idx, Indices(index_, place));
    ctx.set_output(1, std::move(idx));
    if (kCounts) {
      SLUICE_ASSIGN_OR_RETURN(Tensor count, Indices(index_, counts));
      ctx.set_output(2, std::move(count));
    }
    return OkStatus();
  }

 private:
  DType index_ = DType::kInt32;
};

Status UniqueShape(ShapeContext& c) {
  const bool has_axis = c.num_inputs() > 1;
  const PartialShape& x = c.input(0);
  const Tensor* axis = has_axis ? c.constant(1) : nullptr;
  PartialShape y = {-1}, idx = {-1};
  if (!has_axis || (axis != nullptr && axis->num_elements() == 0)) {
    SLUICE_ASSIGN_OR_RETURN(idx, c.WithRank(0, 1));
  } else if (axis != nullptr && axis->num_elements() == 1 && x.rank_known()) {
    SLUICE_ASSIGN_OR_RETURN(const int d,
                            CanonicalAxis(IntAt(*axis, 0), x.rank()));
    y = x;
    y.set_dim(d, -1);
    idx = {x.dim(d)};
  } else {
    y = x.rank_known() ? PartialShape::OfRank(x.rank()) : PartialShape();
  }
  c.set_output(0, y);
  c.set_output(1, idx);
  if (c.num_outputs() > 2) c.set_output(2, {-1});
  return OkStatus();
}

// ---- ListDiff ---------------------------------------------------------------

class ListDiffKernel {
 public:
  static Result<std::shared_ptr<ListDiffKernel>> Make(const Node& n) {
    SLUICE_RETURN_IF_ERROR(CheckHashable(n));
    auto k = std::make_shared<ListDiffKernel>();
    k->index_ = n.TypeAttr("out_idx");
    return k;
  }
  Status Run(KernelContext& ctx) {
    const Tensor &x = ctx.input(0), &y = ctx.input(1);
    if (x.rank() != 1 || y.rank() != 1)
      return InvalidArgument("x and y: expected vectors, got shapes ",
                             x.shape().ToString(), " and ",
                             y.shape().ToString());
    std::vector<int64_t> left;
    WithKeys(y, 1, [&](auto key_y) {
      absl::flat_hash_map<decltype(key_y(0)), bool> in_y;
      for (int64_t i = 0; i < y.num_elements(); ++i)
        if (!IsNan(key_y(i))) in_y[key_y(i)] = true;
      WithKeys(x, 1, [&](auto key_x) {
        if constexpr (std::is_same_v<decltype(key_x(0)), decltype(key_y(0))>)
          for (int64_t i = 0; i < x.num_elements(); ++i)
            if (IsNan(key_x(i)) || !in_y.contains(key_x(i))) left.push_back(i);
      });
    });
    const DType type = x.dtype();
    const auto n = static_cast<int64_t>(left.size());
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, type, Shape({n})));
    for (int64_t i = 0; i < n; ++i)
      array::CopyRun(type, At(type, x.raw(), left[static_cast<size_t>(i)]),
                     At(type, ctx.output(0).raw(), i), 1);
    SLUICE_ASSIGN_OR_RETURN(Tensor idx, Indices(index_, left));
    ctx.set_output(1, std::move(idx));
    return OkStatus();
  }

 private:
  DType index_ = DType::kInt32;
};

Status ListDiffShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.WithRank(0, 1).status());
  SLUICE_RETURN_IF_ERROR(c.WithRank(1, 1).status());
  c.set_all_outputs({-1});
  return OkStatus();
}

// The gradient of the remaining elements goes back to their positions in x.
Status ListDiffGrad(GradContext& c) {
  if (!c.dy[0].valid()) return OkStatus();
  c.grads[0] = Build("UnsortedSegmentSum",
                     {c.dy[0], c.output(1), grad::SizeOf(c.input(0))});
  return OkStatus();
}

// ---- Bincount, UnravelIndex -------------------------------------------------

template <typename T>
struct BincountKernel {
  static Status Run(KernelContext& ctx) {
    const Tensor &values = ctx.input(0), &weights = ctx.input(2);
    SLUICE_ASSIGN_OR_RETURN(const int64_t size,
                            array::IntScalar(ctx.input(1), "size"));
    if (size < 0)
      return InvalidArgument("size: expected at least 0, got ", size);
    const bool weighted = weights.num_elements() > 0;
    if (weighted && !(weights.shape() == values.shape()))
      return InvalidArgument("weights: expected shape ",
                             values.shape().ToString(), " or none, got ",
                             weights.shape().ToString());
    SLUICE_ASSIGN_OR_RETURN(
        Tensor bins,
        array::MakeZeros(DTypeOf<T>(), Shape({size}), ctx.step().allocator));
    for (int64_t i = 0; i < values.num_elements(); ++i) {
      const int32_t v = values.raw<int32_t>()[i];
      if (v < 0) return InvalidArgument("arr: expected values >= 0, got ", v);
      if (v >= size) continue;
      T& bin = bins.raw<T>()[v];
      bin = array::WrapAdd(bin, weighted ? weights.raw<T>()[i] : T(1));
    }
    ctx.set_output(0, std::move(bins));
    return OkStatus();
  }
};

Status BincountShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.RequireScalar(1));
  const std::optional<int64_t> size = c.ConstantInt(1);
  if (size && *size < 0)
    return InvalidArgument("size: expected at least 0, got ", *size);
  c.set_output(0, {size.value_or(-1)});
  return OkStatus();
}

Status UnravelIndexKernel(KernelContext& ctx) {
  const Tensor& indices = ctx.input(0);
  SLUICE_ASSIGN_OR_RETURN(const Dims dims,
                          array::IntVectorOf(ctx.input(1), "dims"));
  if (indices.rank() > 1)
    return InvalidArgument("indices: expected a scalar or a vector, got shape ",
                           indices.shape().ToString());
  int64_t size = 1;
  for (int64_t d : dims) {
    if (d <= 0) return InvalidArgument("dims: expected sizes > 0, got ", d);
    size = MultiplyOrNegative(size, d);
    if (size < 0 || (indices.dtype() == DType::kInt32 && size > INT32_MAX))
      return InvalidArgument("dims: expected a product that ",
                             DTypeName(indices.dtype()),
                             " can hold, got at least ", dims[0], " * ...");
  }
  const int64_t n = indices.num_elements();
  const auto rank = static_cast<int64_t>(dims.size());
  std::vector<int64_t> out(static_cast<size_t>(n * rank));
  for (int64_t i = 0; i < n; ++i) {
    int64_t at = IntAt(indices, i);
    if (at < 0 || at >= size)
      return InvalidArgument("indices: expected values in [0, ", size,
                             "), got ", at);
    for (int64_t d = rank - 1; d >= 0; --d) {
      out[static_cast<size_t>(d * n + i)] = at % dims[static_cast<size_t>(d)];
      at /= dims[static_cast<size_t>(d)];
    }
  }
  SLUICE_ASSIGN_OR_RETURN(Tensor t, array::IntTensor(indices.dtype(), out));
  SLUICE_ASSIGN_OR_RETURN(
      t, t.Reshaped(indices.rank() == 0 ? Shape({rank}) : Shape({rank, n})));
  ctx.set_output(0, std::move(t));
  return OkStatus();
}

Status UnravelIndexShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const PartialShape in, c.WithRankAtMost(0, 1));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape dims, c.WithRank(1, 1));
  if (in.rank_known()) c.set_output(0, array::JoinShapes(dims, in));
  return OkStatus();
}

// ---- Declarations -----------------------------------------------------------

SLUICE_OP(Unique)
    .Kind(OpKind::kUnique)
    .Input("x: T")
    .Output("y: T")
    .Output("idx: out_idx")
    .Attr("T: type")
    .Attr("out_idx: {int32, int64} = DT_INT32")
    .Shape(UniqueShape)
    .Kernel(CpuState<UniqueKernel<false>>(true))
    .Grad(grad::Undefined)
    .Sample({{.shape = {5}, .values = {3, 1, 3, 2, 1}}})
    .Doc(
        "Returns the distinct values in order of first occurrence, and the "
        "index of each element among them.")
    .Family("array");

SLUICE_OP(UniqueV2)
    .Input("x: T")
    .Input("axis: Taxis")
    .Output("y: T")
    .Output("idx: out_idx")
    .Attr("T: type")
    .Attr("Taxis: {int32, int64} = DT_INT64")
    .Attr("out_idx: {int32, int64} = DT_INT32")
    .Shape(UniqueShape)
    .Kernel(CpuState<UniqueKernel<false>>(true))
    .Grad(grad::Undefined)
    .Sample({{.shape = {3, 2}, .values = {1, 2, 3, 4, 1, 2}},
             {.shape = {1}, .values = {0}}})
    .Doc(
        "Returns the distinct slices along an axis, and the index of each "
        "slice among them.")
    .Family("array");

SLUICE_OP(UniqueWithCounts)
    .Input("x: T")
    .Output("y: T")
    .Output("idx: out_idx")
    .Output("count: out_idx")
    .Attr("T: type")
    .Attr("out_idx: {int32, int64} = DT_INT32")
    .Shape(UniqueShape)
    .Kernel(CpuState<UniqueKernel<true>>(true))
    .Grad(grad::Undefined)
    .Sample({{.shape = {5}, .values = {3, 1, 3, 2, 1}}})
    .Doc("Unique, with the number of occurrences of each value.")
    .Family("array");

SLUICE_OP(UniqueWithCountsV2)
    .Input("x: T")
    .Input("axis: Taxis")
    .Output("y: T")
    .Output("idx: out_idx")
    .Output("count: out_idx")
    .Attr("T: type")
    .Attr("Taxis: {int32, int64} = DT_INT64")
    .Attr("out_idx: {int32, int64} = DT_INT32")
    .Shape(UniqueShape)
    .Kernel(CpuState<UniqueKernel<true>>(true))
    .Grad(grad::Undefined)
    .Sample({{.shape = {3, 2}, .values = {1, 2, 3, 4, 1, 2}},
             {.shape = {1}, .values = {0}}})
    .Doc("UniqueV2, with the number of occurrences of each slice.")
    .Family("array");

SLUICE_OP(ListDiff)
    .Input("x: T")
    .Input("y: T")
    .Output("out: T")
    .Output("idx: out_idx")
    .Attr("T: type")
    .Attr("out_idx: {int32, int64} = DT_INT32")
    .Shape(ListDiffShape)
    .Kernel(CpuState<ListDiffKernel>(true))
    .Grad(ListDiffGrad)
    .Sample({{.shape = {4}, .values = {1, 2, 3, 2}},
             {.shape = {2}, .values = {2, 5}}})
    .Doc("Returns the values of x that are not in y, and their positions.")
    .Family("array");

SLUICE_OP(Bincount)
    .Input("arr: int32")
    .Input("size: int32")
    .Input("weights: T")
    .Output("bins: T")
    .Attr("T: {int32, int64, float, double}")
    .Shape(BincountShape)
    .Kernel(CpuFor<BincountKernel, int32_t, int64_t, float, double>("T", true))
    .NoGradient("counts are integers")
    .Sample({{.shape = {4}, .values = {0, 2, 2, 5}},
             {.shape = {}, .values = {4}},
             {.shape = {0}, .dtype = DType::kFloat}})
    .Doc(
        "Counts the occurrences (or adds up the weights) of each value below "
        "size.")
    .Family("math");

SLUICE_OP(UnravelIndex)
    .Input("indices: Tidx")
    .Input("dims: Tidx")
    .Output("output: Tidx")
    .Attr("Tidx: {int32, int64} = DT_INT32")
    .Shape(UnravelIndexShape)
    .Kernel(Cpu(UnravelIndexKernel))
    .NoGradient("indices have no derivative")
    .Sample({{.shape = {2}, .values = {5, 2}},
             {.shape = {2}, .values = {2, 3}}})
    .Doc(
        "Converts flat indices to coordinates in a shape, one row per "
        "dimension.")
    .Family("array");

}  // namespace
}  // namespace sluice
