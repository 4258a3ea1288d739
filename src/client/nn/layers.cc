#include "client/nn/layers.h"

#include <cmath>
#include <numbers>
#include <numeric>

#include "client/control/control_flow.h"
#include "client/nn/embedding.h"
#include "client/nn/layer_scope.h"
#include "client/operators.h"
#include "client/types_and_shapes.h"
#include "graph/graph.h"
#include "sluice/ops.h"

namespace sluice {

Output Gelu(const Operand& x, SourceLoc loc) {
  const AtLine at(loc);
  const NameScope scope("gelu");
  const Output v = LayerInput("Gelu", x, 0, kMaxRank);
  if (!v.valid()) return v;
  return 0.5 * v * (1 + ops::Erf(v * (1 / std::numbers::sqrt2)));
}

Output Dense(const Operand& x, int64_t units, const DenseOptions& options,
             SourceLoc loc) {
  const AtLine at(loc);
  const Output in = LayerInput("Dense", x, 2, kMaxRank);
  if (!in.valid()) return in;
  const int rank = in.shape().rank();
  const int64_t size = KnownSize("Dense", in, -1);
  if (size < 0 || !PositiveSize("Dense", "units", units))
    return CurrentGraph().Failure();
  const LayerScope scope(options.name, "dense", loc);
  const DType t = RemoveRef(in.dtype());
  const Var kernel =
      Weight("kernel", {size, units}, t,
             {options.kernel_initializer, options.kernel_regularizer,
              options.trainable, options.kernel_constraint});
  if (!kernel.valid()) return CurrentGraph().Failure();
  // (The bias and an op are applied to the matrix, with which they are fused.)
  Output rows = in;
  if (rank > 2) rows = ops::Reshape(in, {int64_t{-1}, size});
  Output y = ops::MatMul(rows, kernel);
  if (options.use_bias) {
    const Var bias = Weight("bias", {units}, t,
                            {options.bias_initializer, options.bias_regularizer,
                             options.trainable, options.bias_constraint});
    if (!bias.valid()) return CurrentGraph().Failure();
    y = ops::BiasAdd(y, bias);
  }
  if (rank == 2) return options.activation.OrIdentity(y);
  if (options.activation.is_op()) y = options.activation(y);
  std::vector<int64_t> dims(static_cast<size_t>(rank), -1);
  dims.back() = units;
  y = ops::Reshape(y, ShapeFrom(in, dims));
  return options.activation.is_op() ? y : options.activation.OrIdentity(y);
}

Output Dropout(const Operand& x, double rate, const Operand& training,
               const DropoutLayerOptions& options, SourceLoc loc) {
  const AtLine at(loc);
  const Output in = LayerInput("Dropout", x, 0, kMaxRank);
  if (!in.valid()) return in;
  if (!(rate >= 0 && rate < 1))
    return BuildError(
        InvalidArgument("Dropout: expected a rate in [0, 1), got ", rate));
  const std::vector<int64_t>& noise = options.noise_shape;
  if (!noise.empty() && noise.size() != static_cast<size_t>(in.shape().rank()))
    return BuildError(
        InvalidArgument("Dropout: expected a noise shape of rank ",
                        in.shape().rank(), ", got rank ", noise.size()));
  for (size_t i = 0; i < noise.size(); ++i)
    if (noise[i] != -1 && noise[i] != 1 &&
        noise[i] != KnownDim(in, static_cast<int>(i)))
      return BuildError(InvalidArgument(
          "Dropout: expected a noise shape of sizes that are 1, -1 or those "
          "of the input ",
          in.shape().ToString(), ", got ", noise[i], " in dimension ", i));
  const Training mode = ReadTraining("Dropout", training);
  if (!mode.valid) return CurrentGraph().Failure();
  const NameScope scope("dropout");
  const auto dropped = [&] {
    const DType t = RemoveRef(in.dtype());
    const auto [seed, seed2] = SeedsFor(options.seed);
    const Output shape =
        noise.empty() ? ops::Shape(in) : ShapeFrom(in, noise, false);
    const Output kept = ops::Cast(
        ops::RandomUniform(shape, t, {.seed = seed, .seed2 = seed2}) >= rate,
        t);
    return in * (1 / (1 - rate)) * kept;
  };
  if (rate == 0 || mode.known == false) return ops::Identity(in);
  if (mode.known == true) return dropped();
  return Cond(mode.decided, dropped, [&] { return ops::Identity(in); });
}

Output Embedding(const Operand& ids, int64_t rows, int64_t units,
                 const EmbeddingLayerOptions& options, SourceLoc loc) {
  const AtLine at(loc);
  const Output i = ids.Get(ids.weak ? DType::kInt32 : DType::kInvalid);
  if (!i.valid()) return ops::Identity(i);
  const DType t = RemoveRef(i.dtype());
  if (t != DType::kInt32 && t != DType::kInt64)
    return BuildError(InvalidArgument(
        "Embedding: expected ids of type int32 or int64, got ", DTypeName(t)));
  if (!IsFloating(options.dtype))
    return BuildError(
        InvalidArgument("Embedding: expected a floating type, "
                        "got ",
                        DTypeName(options.dtype)));
  if (rows <= 0)
    return BuildError(
        InvalidArgument("Embedding: expected rows from 1 on, got ", rows));
  if (!PositiveSize("Embedding", "units", units))
    return CurrentGraph().Failure();
  const LayerScope scope(options.name, "embedding", loc);
  const Var table =
      Weight("embeddings", {rows, units}, options.dtype,
             {options.initializer, options.regularizer, options.trainable});
  if (!table.valid()) return CurrentGraph().Failure();
  return EmbeddingLookup(table, i, {}, loc);
}

Output Flatten(const Operand& x, DataFormat format, SourceLoc loc) {
  const AtLine at(loc);
  Output in = x.Get();
  if (!in.valid()) return ops::Identity(in);
  const int rank = in.shape().rank();
  if (!in.shape().rank_known() || rank < 1)
    return BuildError(InvalidArgument(
        "Flatten: expected an input of known rank from 1 on, got ",
        in.shape().ToString()));
  const NameScope scope("flatten");
  if (format == DataFormat::kChannelsFirst && rank > 2) {
    std::vector<int32_t> order(static_cast<size_t>(rank));
    std::iota(order.begin() + 1, order.end() - 1, 2);
    order.back() = 1;
    in = ops::Transpose(in, IntVector(order));
  }
  int64_t size = 1;
  for (int d = 1; d < rank && size >= 0; ++d)
    size = KnownDim(in, d) < 0 ? -1 : MultiplyOrNegative(size, KnownDim(in, d));
  if (size >= 0) return ops::Reshape(in, ShapeFrom(in, {-1, size}));
  const Output rows = DimOf(in, 0, {});
  return ops::Reshape(in, ops::Pack({rows, -1}));
}

}  // namespace sluice
