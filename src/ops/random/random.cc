// Uniform and normal numbers, and permutations. Equal seeds give the same bits
// as TensorFlow; the stream belongs to the node, so that every step gets new
// numbers.
#include <limits>
#include <vector>

#include "graph/op_def.h"
#include "kernels/random/fill.h"
#include "ops/random/generator.h"

namespace sluice {
namespace {

using namespace random;  // NOLINT: the vocabulary of this file.

// ---- Distributions ----------------------------------------------------------

template <typename T>
struct Uniform {
  static void Fill(Philox gen, T* out, int64_t n) { FillUniform(gen, out, n); }
};
template <typename T>
struct Normal {
  static void Fill(Philox gen, T* out, int64_t n) { FillNormal(gen, out, n); }
};
template <typename T>
struct Truncated {
  static void Fill(Philox gen, T* out, int64_t n) {
    FillTruncatedNormal(gen, out, n);
  }
};

// Fills output 0 with the shape given by input 0. `reserve(n)` returns the
// stream.
template <template <typename> class D, typename T, typename Reserve>
Status FillOutput(KernelContext& ctx, Reserve&& reserve) {
  SLUICE_ASSIGN_OR_RETURN(const Shape shape, ShapeInput(ctx, 0));
  SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DTypeOf<T>(), shape));
  const int64_t n = shape.num_elements();
  SLUICE_ASSIGN_OR_RETURN(const Philox gen, reserve(n));
  if (n > 0) D<T>::Fill(gen, ctx.output(0).template raw<T>(), n);
  return OkStatus();
}

template <template <typename> class D>
struct StatefulFill {
  template <typename T>
  struct For {
    static Status Run(KernelContext& ctx) {
      return FillOutput<D, T>(ctx, [&ctx](int64_t n) -> Result<Philox> {
        // An empty output takes nothing from the stream.
        if (n == 0) return Philox();
        return ctx.state<SeededKernel>().generator().ReserveOutputs(n);
      });
    }
  };
};
template <template <typename> class D>
struct StatelessFill {
  template <typename T>
  struct For {
    static Status Run(KernelContext& ctx) {
      return FillOutput<D, T>(ctx,
                              [&ctx](int64_t) { return SeedInput(ctx, 1); });
    }
  };
};
template <template <typename> class D>
struct KeyedFill {
  template <typename T>
  struct For {
    static Status Run(KernelContext& ctx) {
      return FillOutput<D, T>(
          ctx, [&ctx](int64_t) { return KeyCounterInput(ctx, 1); });
    }
  };
};

template <template <typename> class K>
KernelMaker ForFloats() {
  return CpuFor<K, float, double, half, bfloat16>("dtype", /*expensive=*/true);
}

// The same with a generator as the kernel's state.
KernelMaker Seeded(KernelMaker maker) {
  return [maker = std::move(maker)](const Node& n, Kernel* k) {
    k->state = std::make_shared<SeededKernel>(n);
    return maker(n, k);
  };
}

// ---- Integers ---------------------------------------------------------------

// Output 0 in [minval, maxval), given by scalar inputs `bounds` and bounds + 1.
template <typename T, typename Reserve>
Status FillInts(KernelContext& ctx, int bounds, Reserve&& reserve) {
  SLUICE_RETURN_IF_ERROR(ScalarInputs(ctx, bounds, bounds + 2));
  SLUICE_ASSIGN_OR_RETURN(const Shape shape, ShapeInput(ctx, 0));
  SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DTypeOf<T>(), shape));
  const int64_t n = shape.num_elements();
  const T lo = ctx.input(bounds).template raw_scalar<T>();
  const T hi = ctx.input(bounds + 1).template raw_scalar<T>();
  if (n == 0) return OkStatus();
  if (lo >= hi)
    return InvalidArgument("Need minval < maxval, got ", lo, " >= ", hi);
  SLUICE_ASSIGN_OR_RETURN(const Philox gen, reserve(n));
  FillUniformInt(gen, lo, hi, ctx.output(0).template raw<T>(), n);
  return OkStatus();
}

template <typename T>
struct StatefulInt {
  static Status Run(KernelContext& ctx) {
    return FillInts<T>(ctx, 1, [&ctx](int64_t n) -> Result<Philox> {
      return ctx.state<SeededKernel>().generator().ReserveOutputs(n);
    });
  }
};
template <typename T>
struct StatelessInt {
  static Status Run(KernelContext& ctx) {
    return FillInts<T>(ctx, 2, [&ctx](int64_t) { return SeedInput(ctx, 1); });
  }
};
template <typename T>
struct KeyedInt {
  static Status Run(KernelContext& ctx) {
    return FillInts<T>(ctx, 4,
                       [&ctx](int64_t) { return KeyCounterInput(ctx, 1); });
  }
};

// ---- RandomShuffle ----------------------------------------------------------

// Copies rows of `in` to `out` in the given order.
template <typename T>
void PermuteObjects(const Tensor& in, const std::vector<int64_t>& order,
                    Tensor* out) {
  const auto rows = static_cast<int64_t>(order.size());
  const int64_t n = in.num_elements() / rows;
  for (int64_t i = 0; i < rows; ++i)
    std::copy_n(in.raw<T>() + order[static_cast<size_t>(i)] * n, n,
                out->raw<T>() + i * n);
}

void PermuteBytes(const Tensor& in, const std::vector<int64_t>& order,
                  Tensor* out) {
  const size_t row = in.bytes() / order.size();
  const char* from = static_cast<const char*>(in.raw());
  char* to = static_cast<char*>(out->raw());
  for (size_t i = 0; i < order.size(); ++i)
    std::memcpy(to + i * row, from + static_cast<size_t>(order[i]) * row, row);
}

// Rows that are as large as a number T are exchanged without a list of their
// order.
template <typename T>
Status ShuffleNumbers(KernelContext& ctx, const Philox& gen) {
  const Tensor& in = ctx.input(0);
  const void* from = in.raw();
  const Shape shape = in.shape();
  const size_t bytes = in.bytes();
  SLUICE_RETURN_IF_ERROR(ctx.ForwardOrAllocate({0}, 0, in.dtype(), shape));
  void* to = ctx.output(0).raw();
  if (to != from) std::memcpy(to, from, bytes);
  Shuffle(gen, static_cast<T*>(to), shape.dim(0));
  return OkStatus();
}

Status RunShuffle(KernelContext& ctx) {
  const Tensor& in = ctx.input(0);
  if (in.num_elements() <= 1 || in.rank() == 0 || in.dim(0) <= 1) {
    ctx.set_output(0, in);
    return OkStatus();
  }
  const Philox gen =
      ctx.state<SeededKernel>().generator().ReserveWords(in.dim(0) - 1);
  if (IsPlain(in.dtype())) {
    const size_t row = in.bytes() / static_cast<size_t>(in.dim(0));
    if (row == 1) return ShuffleNumbers<uint8_t>(ctx, gen);
    if (row == 2) return ShuffleNumbers<uint16_t>(ctx, gen);
    if (row == 4) return ShuffleNumbers<uint32_t>(ctx, gen);
    if (row == 8) return ShuffleNumbers<uint64_t>(ctx, gen);
  }
  std::vector<int64_t> order(static_cast<size_t>(in.dim(0)));
  FillShuffle(gen, order.data(), in.dim(0));
  SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, in.dtype(), in.shape()));
  Tensor* out = &ctx.output(0);
  if (IsPlain(in.dtype())) {
    PermuteBytes(in, order, out);
  } else if (in.dtype() == DType::kString) {
    PermuteObjects<std::string>(in, order, out);
  } else if (in.dtype() == DType::kResource) {
    PermuteObjects<ResourceHandle>(in, order, out);
  } else {
    PermuteObjects<Variant>(in, order, out);
  }
  return OkStatus();
}

// ---- Keys and counters ------------------------------------------------------

Status RunGetKeyCounter(KernelContext& ctx) {
  const Tensor& seed = ctx.input(0);
  if (seed.rank() != 1 || seed.num_elements() != 2)
    return InvalidArgument("seed: expected shape [2], got ",
                           seed.shape().ToString());
  const bool narrow = seed.dtype() == DType::kInt32;
  const int64_t s0 = narrow ? seed.raw<int32_t>()[0] : seed.raw<int64_t>()[0];
  const int64_t s1 = narrow ? seed.raw<int32_t>()[1] : seed.raw<int64_t>()[1];
  uint64_t key, counter[2];
  StatelessSeedToKeyCounter(s0, s1, &key, counter);
  ctx.set_output(0, Tensor::Vector<uint64_t>({key}));
  ctx.set_output(1, Tensor::Vector<uint64_t>({counter[0], counter[1]}));
  if (ctx.num_outputs() > 2) ctx.set_output(2, Tensor::Scalar<int32_t>(1));
  return OkStatus();
}

Status GetKeyCounterShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.input(0).MergeWith(PartialShape({2})).status());
  c.set_output(0, PartialShape({1}));
  c.set_output(1, PartialShape({2}));
  if (c.num_outputs() > 2) c.set_output(2, PartialShape::Scalar());
  return OkStatus();
}

Status RunGetAlg(KernelContext& ctx) {
  ctx.set_output(0, Tensor::Scalar<int32_t>(1));  // Philox.
  return OkStatus();
}

Status StatelessShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.input(1).MergeWith(PartialShape({2})).status());
  return ShapeFromInput0(c);
}

// ---- Declarations -----------------------------------------------------------

#define SLUICE_RANDOM_FLOAT(Name, D, doc)                                 \
  SLUICE_OP(Name)                                                         \
      .Input("shape: T")                                                  \
      .Output("output: dtype")                                            \
      .Attr("seed: int = 0")                                              \
      .Attr("seed2: int = 0")                                             \
      .Attr("dtype: {half, bfloat16, float, double}")                     \
      .Attr("T: {int32, int64}")                                          \
      .HostInput("shape")                                                 \
      .Stateful(kOwnsState)                                               \
      .Family("random")                                                   \
      .Shape(ShapeFromInput0)                                             \
      .Kernel(Seeded(ForFloats<StatefulFill<D>::For>()))                  \
      .NoGradient(kNoGradient)                                            \
      .Sample({{.shape = {2}, .values = {3, 5}, .dtype = DType::kInt32}}, \
              {{"dtype", DType::kFloat}, {"seed", 7}})                    \
      .Doc(doc)

#define SLUICE_STATELESS_FLOAT(Name, D, doc)                              \
  SLUICE_OP(Name)                                                         \
      .Input("shape: T")                                                  \
      .Input("seed: Tseed")                                               \
      .Output("output: dtype")                                            \
      .Attr("dtype: {half, bfloat16, float, double} = DT_FLOAT")          \
      .Attr("T: {int32, int64} = DT_INT32")                               \
      .Attr("Tseed: {int32, int64} = DT_INT64")                           \
      .Family("random")                                                   \
      .Shape(StatelessShape)                                              \
      .Kernel(ForFloats<StatelessFill<D>::For>())                         \
      .NoGradient(kNoGradient)                                            \
      .Sample({{.shape = {2}, .values = {3, 5}, .dtype = DType::kInt32},  \
               {.shape = {2}, .values = {1, 2}, .dtype = DType::kInt64}}) \
      .Doc(doc)

#define SLUICE_KEYED_FLOAT(Name, D, doc)                                 \
  SLUICE_OP(Name)                                                        \
      .Input("shape: Tshape")                                            \
      .Input("key: uint64")                                              \
      .Input("counter: uint64")                                          \
      .Input("alg: int32")                                               \
      .Output("output: dtype")                                           \
      .Attr("dtype: {half, bfloat16, float, double} = DT_FLOAT")         \
      .Attr("Tshape: {int32, int64} = DT_INT32")                         \
      .Family("random")                                                  \
      .Shape(ShapeFromInput0)                                            \
      .Kernel(ForFloats<KeyedFill<D>::For>())                            \
      .NoGradient(kNoGradient)                                           \
      .Sample({{.shape = {2}, .values = {3, 5}, .dtype = DType::kInt32}, \
               {.shape = {1}, .values = {7}},                            \
               {.shape = {2}, .values = {0, 0}},                         \
               {.shape = {}, .values = {1}}})                            \
      .Doc(doc)

SLUICE_RANDOM_FLOAT(RandomUniform, Uniform,
                    "Draws numbers uniformly from [0, 1).");
SLUICE_RANDOM_FLOAT(RandomStandardNormal, Normal,
                    "Draws numbers from the standard normal distribution.");
SLUICE_RANDOM_FLOAT(TruncatedNormal, Truncated,
                    "Draws numbers from the standard normal distribution "
                    "truncated to (-2, 2).");
SLUICE_STATELESS_FLOAT(
    StatelessRandomUniform, Uniform,
    "Draws numbers uniformly from [0, 1), determined by the seed.");
SLUICE_STATELESS_FLOAT(
    StatelessRandomNormal, Normal,
    "Draws standard normal numbers, determined by the seed.");
SLUICE_STATELESS_FLOAT(StatelessTruncatedNormal, Truncated,
                       "Draws standard normal numbers truncated to (-2, 2), "
                       "determined by the seed.");
SLUICE_KEYED_FLOAT(
    StatelessRandomUniformV2, Uniform,
    "Draws numbers uniformly from [0, 1), determined by key and counter.");
SLUICE_KEYED_FLOAT(
    StatelessRandomNormalV2, Normal,
    "Draws standard normal numbers, determined by key and counter.");
SLUICE_KEYED_FLOAT(StatelessTruncatedNormalV2, Truncated,
                   "Draws standard normal numbers truncated to (-2, 2), "
                   "determined by key and counter.");

SLUICE_OP(RandomUniformInt)
    .Input("shape: T")
    .Input("minval: Tout")
    .Input("maxval: Tout")
    .Output("output: Tout")
    .Attr("seed: int = 0")
    .Attr("seed2: int = 0")
    .Attr("Tout: {int32, int64}")
    .Attr("T: {int32, int64}")
    .HostInput("shape")
    .HostInput("minval")
    .HostInput("maxval")
    .Stateful(kOwnsState)
    .Family("random")
    .Shape(ShapeFromInput0)
    .Kernel(Seeded(CpuFor<StatefulInt, int32_t, int64_t>("Tout", true)))
    .NoGradient(kNoGradient)
    .Sample({{.shape = {2}, .values = {3, 5}, .dtype = DType::kInt32},
             {.values = {-3}, .dtype = DType::kInt64},
             {.values = {9}, .dtype = DType::kInt64}},
            {{"seed", 7}})
    .Doc("Draws integers uniformly from [minval, maxval).");

SLUICE_OP(StatelessRandomUniformInt)
    .Input("shape: T")
    .Input("seed: Tseed")
    .Input("minval: dtype")
    .Input("maxval: dtype")
    .Output("output: dtype")
    .Attr("dtype: {int32, int64}")
    .Attr("T: {int32, int64}")
    .Attr("Tseed: {int32, int64} = DT_INT64")
    .Family("random")
    .Shape(StatelessShape)
    .Kernel(CpuFor<StatelessInt, int32_t, int64_t>("dtype", true))
    .NoGradient(kNoGradient)
    .Sample({{.shape = {2}, .values = {3, 5}, .dtype = DType::kInt32},
             {.shape = {2}, .values = {1, 2}, .dtype = DType::kInt64},
             {.values = {-3}, .dtype = DType::kInt32},
             {.values = {9}, .dtype = DType::kInt32}})
    .Doc(
        "Draws integers uniformly from [minval, maxval), determined by the "
        "seed.");

SLUICE_OP(StatelessRandomUniformIntV2)
    .Input("shape: Tshape")
    .Input("key: uint64")
    .Input("counter: uint64")
    .Input("alg: int32")
    .Input("minval: dtype")
    .Input("maxval: dtype")
    .Output("output: dtype")
    .Attr("dtype: {int32, int64, uint32, uint64}")
    .Attr("Tshape: {int32, int64} = DT_INT32")
    .Family("random")
    .Shape(ShapeFromInput0)
    .Kernel(CpuFor<KeyedInt, int32_t, int64_t, uint32_t, uint64_t>("dtype",
                                                                   true))
    .NoGradient(kNoGradient)
    .Sample({{.shape = {2}, .values = {3, 5}, .dtype = DType::kInt32},
             {.shape = {1}, .values = {7}},
             {.shape = {2}, .values = {0, 0}},
             {.values = {1}},
             {.values = {3}, .dtype = DType::kInt32},
             {.values = {9}, .dtype = DType::kInt32}})
    .Doc(
        "Draws integers uniformly from [minval, maxval), determined by key "
        "and counter.");

SLUICE_OP(RandomShuffle)
    .Input("value: T")
    .Output("output: T")
    .Attr("seed: int = 0")
    .Attr("seed2: int = 0")
    .Attr("T: type")
    .Stateful(kOwnsState)
    .Family("random")
    .Shape(UnchangedShape)
    .Kernel(Seeded(Cpu(RunShuffle, /*expensive=*/true)))
    .NoGradient(kNoGradient)
    .Sample({{.shape = {5, 2}, .dtype = DType::kFloat}}, {{"seed", 7}})
    .Doc("Shuffles the rows of a tensor.");

SLUICE_OP(StatelessRandomGetKeyCounter)
    .Input("seed: Tseed")
    .Output("key: uint64")
    .Output("counter: uint64")
    .Attr("Tseed: {int32, int64} = DT_INT64")
    .Family("random")
    .Shape(GetKeyCounterShape)
    .Kernel(Cpu(RunGetKeyCounter))
    .NoGradient(kNoGradient)
    .Sample({{.shape = {2}, .values = {1, 2}, .dtype = DType::kInt64}})
    .Doc("Returns the key and counter for a seed.");

SLUICE_OP(StatelessRandomGetKeyCounterAlg)
    .Input("seed: Tseed")
    .Output("key: uint64")
    .Output("counter: uint64")
    .Output("alg: int32")
    .Attr("Tseed: {int32, int64} = DT_INT64")
    .Family("random")
    .Shape(GetKeyCounterShape)
    .Kernel(Cpu(RunGetKeyCounter))
    .NoGradient(kNoGradient)
    .Sample({{.shape = {2}, .values = {1, 2}, .dtype = DType::kInt64}})
    .Doc("Returns the key and counter for a seed, and the algorithm.");

SLUICE_OP(StatelessRandomGetAlg)
    .Output("alg: int32")
    .Stateful({})
    .Family("random")
    .Shape(ScalarShape)
    .Kernel(Cpu(RunGetAlg))
    .NoGradient("it has no inputs")
    .Doc("Returns the best algorithm for this device.");

}  // namespace
}  // namespace sluice
