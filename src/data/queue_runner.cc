#include "data/queue_runner.h"

#include <atomic>
#include <memory>

namespace sluice {

Status StartQueueRunner(const QueueRunner& runner, Session& session,
                        Coordinator* coordinator) {
  if (coordinator == nullptr)
    return InvalidArgument("queue runner: expected a coordinator, got none");
  if (runner.enqueue.empty())
    return InvalidArgument("queue runner: expected nodes to run, got none");
  for (const Node* n : runner.enqueue)
    if (n == nullptr)
      return InvalidArgument(
          "queue runner: expected nodes to run, got a null one");
  const auto running =
      std::make_shared<std::atomic<size_t>>(runner.enqueue.size());
  Node* const close = runner.close;
  const bool endless = runner.endless;
  for (Node* const enqueue : runner.enqueue) {
    const auto work = [=, &session]() -> Status {
      RunOptions options;
      options.cancellation = coordinator->cancellation();
      Status status;
      while (status.ok() && !coordinator->ShouldStop())
        status = session.Run({}, {}, {enqueue}, options).status();
      const bool last = running->fetch_sub(1) == 1;
      if (coordinator->ShouldStop()) return OkStatus();
      if (status.code() != StatusCode::kOutOfRange) return status;
      // (OutOfRange would end a training run in order.)
      if (endless)
        return FailedPrecondition("expected no end, got: ", status.message());
      // (Another runner may have closed the queue already.)
      if (last && close != nullptr) (void)session.RunTargets({close});
      return OkStatus();
    };
    SLUICE_RETURN_IF_ERROR(coordinator->Start(work));
  }
  return OkStatus();
}

}  // namespace sluice
