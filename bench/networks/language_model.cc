#include "bench/networks/language_model.h"

#include "client/nn/large_softmax.h"

namespace sluice::bench {

Node* LanguageModelNetwork::Train(double learning_rate) const {
  return AdagradOptimizer(learning_rate).Minimize(objective);
}

LanguageModelNetwork LanguageModel(const LanguageModelOptions& o) {
  LanguageModelNetwork net;
  net.words = Placeholder<int32_t>({o.batch, o.steps + 1}, "words");
  const Var embedding = GetVariable("embedding", {o.vocabulary, o.embedding},
                                    init::RandomUniform(-0.1, 0.1));
  const Var weights = GetVariable("softmax/weights", {o.vocabulary, o.units},
                                  init::RandomUniform(-0.1, 0.1));
  const Var bias = GetVariable("softmax/bias", {o.vocabulary}, init::Zeros());

  // Time-major, so that a step of the loop reads contiguous memory.
  const Output by_step = ops::Transpose(net.words, {1, 0});
  const auto steps = static_cast<int>(o.steps);
  const Output from = ops::Slice(by_step, {0, 0}, {steps, -1});
  const Output to =
      ops::Reshape(ops::Slice(by_step, {1, 0}, {steps, -1}), {-1});
  net.hidden = DynamicRnn(LstmCell(o.units), ops::GatherV2(embedding, from, 0),
                          {.time_major = true})
                   .outputs;
  const Output h = ops::Reshape(net.hidden, {-1, static_cast<int>(o.units)});
  const Output scores =
      ops::BiasAdd(ops::MatMul(h, weights, {.transpose_b = true}), bias);
  net.loss =
      ops::Mean(ops::SparseSoftmaxCrossEntropyWithLogits(scores, to).loss, 0);
  net.objective = net.loss;
  if (o.sampled > 0) {
    net.objective =
        ops::Mean(SampledSoftmaxLoss(weights, bias, to, h, o.sampled), 0);
  }
  return net;
}

}  // namespace sluice::bench
