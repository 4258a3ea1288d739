// Batches of training images for the demo's networks: fed, or made by a
// pipeline in the graph.
#ifndef SLUICE_TOOLS_SLUICE_DEMO_INPUT_H_
#define SLUICE_TOOLS_SLUICE_DEMO_INPUT_H_

#include <cstdint>

#include "sluice/sluice.h"
#include "tools/sluice/demo_data.h"
#include "tools/sluice/demo_models.h"

namespace sluice::demo {

// A batch in the format of the models' inputs.
struct Batch {
  Tensor images, labels;
};

// The images `rows[0]` to `rows[count - 1]` of a set.
Batch MakeBatch(const ImageSet& set, const int64_t* rows, int64_t count);

// Makes batches of all images of a set, each epoch in another order, beside the
// steps that take them. In the graph that is current when it is built. An empty
// one has no batches.
class BatchPipeline {
 public:
  BatchPipeline() = default;
  // `count`: of the images; those that do not fill a batch are left out.
  BatchPipeline(int64_t count, int batch, int64_t epochs, uint64_t seed);

  // The batch that a step takes. (Tests of the network feed their images here.)
  ModelInputs Next();
  // Starts with the images of `set`. REQUIRES: it has `count`.
  Status Start(Session& session, const ImageSet& set);
  void Stop() { batches_.Stop(); }

 private:
  Output pixels_, labels_;  // uint8 [count, 784] and [count].
  DatasetIterator batches_;
};

}  // namespace sluice::demo

#endif  // SLUICE_TOOLS_SLUICE_DEMO_INPUT_H_
