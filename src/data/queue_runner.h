// Threads that fill a queue by running steps.
//
//   const Queue queue = Queue::Fifo({{DType::kFloat, {}}}, {.capacity = 9});
//   QueueRunner runner{.enqueue = {queue.Enqueue({RandomUniform({})})},
//                      .close = queue.Close()};
//   Coordinator coordinator;
//   Status status = StartQueueRunner(runner, session, &coordinator);
//   if (status.ok()) status = session.Run(queue.Dequeue()[0]).status();
//   coordinator.RequestStop();
//   const Status first_error = coordinator.Join();
#ifndef SLUICE_DATA_QUEUE_RUNNER_H_
#define SLUICE_DATA_QUEUE_RUNNER_H_

#include <vector>

#include "data/coordinator.h"
#include "session/session.h"

namespace sluice {

struct QueueRunner {
  // Each is run again and again, on a thread of its own. The same node may be
  // listed several times.
  std::vector<Node*> enqueue = {};
  // Run when the last of them has come to the end of its data (OutOfRange), so
  // that readers of the queue see the end too. Null: nothing is run.
  Node* close = nullptr;
  // There is no end of data: OutOfRange is an error like others.
  bool endless = false;
};

// Starts the threads, which the coordinator owns: they end when it is asked to
// stop, which cancels what they wait for. Any error of them but OutOfRange
// (unless the runner is endless) stops the coordinator. The session outlives
// them. InvalidArgument if there is nothing to run.
Status StartQueueRunner(const QueueRunner& runner, Session& session,
                        Coordinator* coordinator);

}  // namespace sluice

#endif  // SLUICE_DATA_QUEUE_RUNNER_H_
