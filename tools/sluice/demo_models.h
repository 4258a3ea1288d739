// The two networks of the demo, written as a user of the library would.
#ifndef SLUICE_TOOLS_SLUICE_DEMO_MODELS_H_
#define SLUICE_TOOLS_SLUICE_DEMO_MODELS_H_

#include "sluice/sluice.h"

namespace sluice::demo {

// What a network computes on: outputs of the ambient graph that may be fed.
struct ModelInputs {
  Output images;  // float [batch, 784], from 0 to 1.
  Output labels;  // int32 [batch].
};

// Values that each step feeds.
ModelInputs FedInputs();

// A network in its graph: its feeds, fetches and targets.
struct Model {
  Output images;  // As its ModelInputs.
  Output labels;
  Output loss;           // Mean over the batch.
  Output accuracy;       // The fraction of the batch that is right.
  Output probabilities;  // float [batch, 10].
  Node* train = nullptr;
  Node* initialize = nullptr;
};

// Figure 1 of the OSDI'16 paper: 784-100-10, ReLU, softmax cross-entropy,
// Adagrad.
Model BuildClassifier(const ModelInputs& inputs);

// Two convolutions with pooling, then two dense layers.
Model BuildConvNet(const ModelInputs& inputs);

}  // namespace sluice::demo

#endif  // SLUICE_TOOLS_SLUICE_DEMO_MODELS_H_
