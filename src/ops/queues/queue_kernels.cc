#include "ops/queues/queue_kernels.h"

#include <string_view>

#include "ops/queues/batch.h"

namespace sluice::queues {

Status CheckTimeout(const Node& n) {
  const int64_t timeout = n.AttrOr<int64_t>("timeout_ms", -1);
  if (timeout == -1) return OkStatus();
  return InvalidArgument(
      "timeout_ms: expected -1 (a step has a deadline), got ", timeout);
}

Status SetBatchOutputs(KernelContext* ctx, const std::vector<Element>& elements,
                       const QueueOptions& options) {
  const bool padded = options.kind == std::string_view("PaddingFIFOQueue");
  for (int i = 0; i < ctx->num_outputs(); ++i) {
    const auto c = static_cast<size_t>(i);
    SLUICE_ASSIGN_OR_RETURN(
        ctx->output(i),
        JoinComponent(elements, c, options.types[c], options.shapes[c], padded,
                      ctx->step().allocator));
  }
  return OkStatus();
}

}  // namespace sluice::queues
