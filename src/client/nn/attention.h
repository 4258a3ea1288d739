// Attention, of which transformers are made.
//
//   Output h = MultiHeadAttention(x, 4, 16, {.causal = true});  // Of x itself.
//   h = LayerNorm(x + h);
//   h = MultiHeadAttention(h, 4, 16, {.value = memory});        // Of another.
//
// As in client/nn/layers.h, variables have Keras's names and shapes.
#ifndef SLUICE_CLIENT_NN_ATTENTION_H_
#define SLUICE_CLIENT_NN_ATTENTION_H_

#include <cstdint>
#include <optional>
#include <string>

#include "client/nn/layers.h"

namespace sluice {

struct MultiHeadAttentionOptions {
  // What the weights are for, [batch, s, size]; null: the query. And what they
  // are computed from, [batch, s, key size]; null: the value.
  Output value = {};
  Output key = {};
  // Bool, true where position t of the query may see position s of the value:
  // a shape that broadcasts to [batch, t, s] or [batch, heads, t, s]. Null:
  // everywhere. Where it may see nothing, all weights are alike.
  Output mask = {};
  bool causal = false;      // Positions see no later ones; beside the mask.
  int64_t value_size = 0;   // Of each head; 0: the key size.
  int64_t output_size = 0;  // 0: the last dimension of the query.
  double dropout = 0;       // The rate of dropped weights in training.
  std::optional<int64_t> dropout_seed = {};
  Operand training = false;  // See Dropout.
  bool use_bias = true;
  InitializerFn kernel_initializer = nullptr;  // The scope's, or Glorot's.
  InitializerFn bias_initializer = init::Zeros();
  Regularizer kernel_regularizer = nullptr;
  bool trainable = true;
  std::string name = "";  // "": "multi_head_attention".
};

// softmax(q k^T / sqrt(key_size)) v for each head, where q, k and v are linear
// functions of query, key and value, and a linear function of the results
// (Vaswani et al., 2017). query: [batch, t, size]; the result [batch, t,
// output_size]. Last dimensions must be known. Variables: "query/kernel" [size,
// heads, key_size], "query/bias" [heads, key_size], likewise "key", "value" and
// "attention_output" [heads, value_size, output_size].
Output MultiHeadAttention(const Operand& query, int64_t heads, int64_t key_size,
                          const MultiHeadAttentionOptions& options = {},
                          SourceLoc loc = CallerLoc());

}  // namespace sluice

#endif  // SLUICE_CLIENT_NN_ATTENTION_H_
