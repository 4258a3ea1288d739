// Which nodes of a step's graph are batched: those with a BatchForm in the
// loops and functions for which it is requested, and those that take floats out
// of objects (batch_objects.h).
#ifndef SLUICE_EXEC_BATCHING_BATCH_REQUESTS_H_
#define SLUICE_EXEC_BATCHING_BATCH_REQUESTS_H_

#include <functional>
#include <memory>
#include <unordered_map>

#include "exec/batching/batch_form.h"

namespace sluice {

// (For an op on objects, the form has no meaning.)
using BatchForms = std::unordered_map<const Node*, BatchForm>;

// The nodes whose instances are to run together. A request is kBatchAttr on a
// loop's Enter or on a _Retval of a function's frame. It holds for the
// loops within and for the functions called there. `everywhere`: as if all
// loops and functions had it. Without any request nothing is analysed.
//
// Not batched: nodes of the root frame, which have one instance; those that
// compute only on integers and bools, which control flow runs on: held back,
// they would hold back the company of others; those known to be too small
// (FewestBatchedElements).
//
// `kernels` returns the kernel of a node, or null or an error if there is none.
// Errors: those of Frames.
Result<BatchForms> FindBatched(
    const Graph& graph, bool everywhere,
    const std::function<Result<std::shared_ptr<Kernel>>(const Node&)>& kernels);

// Cheap kernels on fewer elements run at once: holding a node costs more.
int64_t FewestBatchedElements();

// Another number while it lives, for tests on small values. Thread-safe, but
// only one may live at a time.
class ScopedFewestBatchedElements {
 public:
  explicit ScopedFewestBatchedElements(int64_t elements);
  ~ScopedFewestBatchedElements();
  ScopedFewestBatchedElements(const ScopedFewestBatchedElements&) = delete;

 private:
  const int64_t before_;
};

}  // namespace sluice

#endif  // SLUICE_EXEC_BATCHING_BATCH_REQUESTS_H_
