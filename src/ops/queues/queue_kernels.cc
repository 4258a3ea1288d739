#include "ops/queues/queue_kernels.h"

#include "absl/strings/str_join.h"
#include "ops/queues/batch.h"

namespace sluice::queues {

Status CheckTimeout(const Node& n) {
  const int64_t timeout = n.AttrOr<int64_t>("timeout_ms", -1);
  if (timeout == -1) return OkStatus();
  return InvalidArgument(
      "timeout_ms: expected -1 (a step has a deadline), got ", timeout);
}

std::string TypesText(const std::vector<DType>& types) {
  return absl::StrCat("[",
                      absl::StrJoin(types, ",",
                                    [](std::string* out, DType t) {
                                      out->append(DTypeName(t));
                                    }),
                      "]");
}

Status CheckComponentTypes(const std::vector<DType>& types,
                           const Queue& queue) {
  const QueueOptions& o = queue.options();
  if (types == o.types) return OkStatus();
  return InvalidArgument("component_types: expected ", TypesText(o.types),
                         " of ", o.kind, " '", o.name, "', got ",
                         TypesText(types));
}

Status SetBatchOutputs(KernelContext* ctx, int first,
                       const std::vector<Element>& elements, bool padded,
                       const std::vector<DType>& types,
                       const std::vector<PartialShape>& shapes) {
  for (int i = first; i < ctx->num_outputs(); ++i) {
    const auto c = static_cast<size_t>(i - first);
    SLUICE_ASSIGN_OR_RETURN(
        ctx->output(i), JoinComponent(elements, c, types[c], shapes[c], padded,
                                      ctx->step().allocator));
  }
  return OkStatus();
}

}  // namespace sluice::queues
