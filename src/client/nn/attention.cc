#include "client/nn/attention.h"

#include <cmath>

#include "client/nn/layer_scope.h"
#include "client/operators.h"
#include "client/types_and_shapes.h"
#include "graph/graph.h"
#include "sluice/ops.h"

namespace sluice {
namespace {

constexpr const char kAttention[] = "MultiHeadAttention";

// A linear function of the last dimension: [..., rows] to [..., columns], with
// a kernel and bias of other shapes with as many elements.
Output Linear(const char* name, const Output& x, const Shape& kernel_shape,
              const Shape& bias_shape, const MultiHeadAttentionOptions& o) {
  const VariableScope scope(name);
  const DType t = RemoveRef(x.dtype());
  const int64_t columns = bias_shape.num_elements();
  const int64_t rows = kernel_shape.num_elements() / columns;
  const Var kernel =
      Weight("kernel", kernel_shape, t,
             {o.kernel_initializer, o.kernel_regularizer, o.trainable});
  if (!kernel.valid()) return CurrentGraph().Failure();
  Output y = ops::MatMul(ops::Reshape(x, {int64_t{-1}, rows}),
                         ops::Reshape(kernel, {rows, columns}));
  if (!o.use_bias) return y;
  const Var bias =
      Weight("bias", bias_shape, t, {o.bias_initializer, nullptr, o.trainable});
  if (!bias.valid()) return CurrentGraph().Failure();
  return ops::BiasAdd(y, ops::Reshape(bias, {columns}));
}

// [batch * length, heads * size] to [batch, heads, length, size]; `x` is
// [batch, length, any].
Output SplitHeads(const Output& rows, const Output& x, int64_t heads,
                  int64_t size) {
  Output shape;
  const int64_t batch = KnownDim(x, 0), length = KnownDim(x, 1);
  if (batch >= 0 || length >= 0)
    shape = Constant(Tensor::Vector<int64_t>({batch, length, heads, size}));
  else
    shape =
        ops::Pack({DimOf(x, 0, {}), DimOf(x, 1, {}),
                   static_cast<int32_t>(heads), static_cast<int32_t>(size)});
  return ops::Transpose(ops::Reshape(rows, shape), IntVector({0, 2, 1, 3}));
}

// [t, s], true where s <= t.
Output NoLater(const Output& query, const Output& value) {
  const Output t = ops::Range(0, DimOf(query, 1, {}), 1);
  const Output s = ops::Range(0, DimOf(value, 1, {}), 1);
  return ops::LessEqual(s, ops::ExpandDims(t, 1));
}

// The mask with the rank of the scores; null if everything is seen, or after an
// error, which *valid tells.
Output MaskOf(const MultiHeadAttentionOptions& o, const Output& query,
              const Output& value, int64_t heads, bool* valid) {
  Output mask;
  *valid = true;
  if (o.mask.valid()) {
    const PartialShape shape = o.mask.shape();
    *valid = RemoveRef(o.mask.dtype()) == DType::kBool && shape.rank_known() &&
             shape.rank() >= 2 && shape.rank() <= 4;
    if (!*valid)
      return BuildError(InvalidArgument(
          kAttention, ": expected a mask of type bool and rank 2 to 4, got ",
          DTypeName(RemoveRef(o.mask.dtype())), shape.ToString()));
    const int rank = shape.rank();
    const std::vector<int64_t> of_scores = {
        KnownDim(query, 0), heads, KnownDim(query, 1), KnownDim(value, 1)};
    for (int i = 0; i < rank; ++i) {
      // (A mask of rank 3 is that of all heads.)
      const int at = rank == 3 && i == 0 ? 0 : 4 - rank + i;
      const int64_t want = of_scores[static_cast<size_t>(at)];
      const int64_t got = shape.dim(i);
      if (got < 0 || got == 1 || want < 0 || got == want) continue;
      *valid = false;
      return BuildError(InvalidArgument(
          kAttention, ": expected a mask that broadcasts to the scores, ",
          PartialShape(of_scores).ToString(), ", got ", shape.ToString()));
    }
    mask = rank == 3 ? ops::ExpandDims(o.mask, 1) : o.mask;
  } else if (o.mask.error() >= 0) {  // Of its builder.
    *valid = false;
    return ops::Identity(o.mask);
  }
  if (o.causal) {
    const Output earlier = NoLater(query, value);
    mask = mask.valid() ? ops::LogicalAnd(mask, earlier) : earlier;
  }
  return mask;
}

}  // namespace

Output MultiHeadAttention(const Operand& query, int64_t heads, int64_t key_size,
                          const MultiHeadAttentionOptions& o, SourceLoc loc) {
  const AtLine at(loc);
  const Output q = LayerInput(kAttention, query, 3, 3);
  if (!q.valid()) return q;
  Output v = q;
  if (o.value.valid() || o.value.error() >= 0)
    v = LayerInput(kAttention, o.value, 3, 3);
  Output k = v;
  if (o.key.valid() || o.key.error() >= 0)
    k = LayerInput(kAttention, o.key, 3, 3);
  if (!v.valid() || !k.valid()) return CurrentGraph().Failure();
  const DType t = RemoveRef(q.dtype());
  for (const Output& other : {v, k})
    if (RemoveRef(other.dtype()) != t)
      return BuildError(InvalidArgument(
          kAttention, ": expected query, key and value of one type, got ",
          DTypeName(t), " and ", DTypeName(RemoveRef(other.dtype()))));
  const auto same = [](const Output& a, const Output& b, int axis) {
    const int64_t m = KnownDim(a, axis), n = KnownDim(b, axis);
    return m < 0 || n < 0 || m == n;
  };
  if (!same(q, k, 0) || !same(q, v, 0) || !same(k, v, 0) || !same(k, v, 1))
    return BuildError(InvalidArgument(
        kAttention,
        ": expected query, key and value of one batch, and as many positions "
        "of key and value, got ",
        q.shape().ToString(), ", ", k.shape().ToString(), " and ",
        v.shape().ToString()));
  const int64_t value_size = o.value_size == 0 ? key_size : o.value_size;
  const int64_t q_size = KnownSize(kAttention, q, 2),
                k_size = KnownSize(kAttention, k, 2),
                v_size = KnownSize(kAttention, v, 2);
  const int64_t output_size = o.output_size == 0 ? q_size : o.output_size;
  if (q_size < 0 || k_size < 0 || v_size < 0 ||
      !PositiveSize(kAttention, "heads", heads) ||
      !PositiveSize(kAttention, "a key size", key_size) ||
      !PositiveSize(kAttention, "a value size", value_size) ||
      !PositiveSize(kAttention, "an output size", output_size))
    return CurrentGraph().Failure();
  // (Products of the sizes are sizes, too.)
  for (const auto& [a, b] :
       {std::pair(key_size, q_size), std::pair(key_size, k_size),
        std::pair(value_size, v_size), std::pair(value_size, output_size)})
    if (a > INT32_MAX / heads || b > INT64_MAX / 8 / (heads * a))
      return BuildError(InvalidArgument(
          kAttention, ": expected kernels of at most 2^60 elements, got [", b,
          ",", heads, ",", a, "]"));
  bool valid = true;
  const LayerScope scope(o.name, "multi_head_attention", loc);
  const Output mask = MaskOf(o, q, v, heads, &valid);
  if (!valid) return CurrentGraph().Failure();
  const auto project = [&](const char* name, const Output& x, int64_t from,
                           int64_t size) {
    const Output rows = Linear(name, x, {from, heads, size}, {heads, size}, o);
    return rows.valid() ? SplitHeads(rows, x, heads, size) : rows;
  };
  const Output qs = project("query", q, q_size, key_size);
  const Output ks = project("key", k, k_size, key_size);
  const Output vs = project("value", v, v_size, value_size);
  if (!qs.valid() || !ks.valid() || !vs.valid())
    return CurrentGraph().Failure();
  Output scores = ops::BatchMatMulV2(
      qs * (1 / std::sqrt(static_cast<double>(key_size))), ks, {.adj_y = true});
  // Hidden scores become so low that their exponential is zero beside any
  // other. (Keras adds this number, so that they differ a little where a
  // position sees nothing; here all weights are then alike.)
  if (mask.valid())
    scores = ops::SelectV2(mask, scores,
                           ScalarOf(t, t == DType::kHalf ? -3e4 : -1e9));
  Output weights = ops::Softmax(scores);
  weights = Dropout(weights, o.dropout, o.training, {.seed = o.dropout_seed});
  const Output seen =
      ops::Transpose(ops::BatchMatMulV2(weights, vs), IntVector({0, 2, 1, 3}));
  const Output result =
      Linear("attention_output", seen, {heads, value_size, output_size},
             {output_size}, o);
  if (!result.valid()) return result;
  // (No size is inferred: what broadcast to another batch than the query's
  // fails here.)
  return Shaped(ops::Reshape(result, ShapeFrom(q, {-1, -1, output_size},
                                               /*for_reshape=*/false)),
                {KnownDim(q, 0), KnownDim(q, 1), output_size}, {});
}

}  // namespace sluice
