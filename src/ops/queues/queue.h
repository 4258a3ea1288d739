// Queues of tensors, which steps share: elements wait in them, and steps wait
// for elements or for room (docs/design/032-queues.md).
#ifndef SLUICE_OPS_QUEUES_QUEUE_H_
#define SLUICE_OPS_QUEUES_QUEUE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "exec/core/pipeline_stages.h"
#include "ops/queues/attempts.h"
#include "tensor/tensor.h"

namespace sluice::queues {

// One element of a queue: a tensor for each component.
using Element = absl::InlinedVector<Tensor, 1>;

// The elements of a queue and the order in which they leave. Not synchronised;
// owned by a Queue, which locks.
class ElementStore {
 public:
  virtual ~ElementStore() = default;
  virtual int64_t size() const = 0;
  // How many elements may leave now. A closed queue keeps none back.
  virtual int64_t available(bool closed) const {
    (void)closed;
    return size();
  }
  virtual void Push(Element element) = 0;
  // REQUIRES: size() > 0.
  virtual Element Pop() = 0;
  // Appends that many to `to`. REQUIRES: size() >= count.
  virtual void PopTo(int64_t count, std::vector<Element>* to) {
    for (; count > 0; --count) to->push_back(Pop());
  }
  // Whether elements leave in the order in which they came.
  virtual bool in_order() const { return false; }
  // Whether an element may leave before those that came earlier, so that what
  // the first n are is not known before they are taken.
  virtual bool by_priority() const { return false; }
  // Returns elements that were popped and not delivered, in the order in which
  // they left, such that they leave before all others if the store has an
  // order.
  virtual void PutBack(std::vector<Element> elements) = 0;
  // Begins the order of epoch `number`, which depends on nothing that has
  // happened before, unless the store is seeded at random. A new store is in
  // epoch 0. REQUIRES: size() == 0.
  virtual void BeginEpoch(int64_t number) { (void)number; }
};

// What the node of a queue declares.
struct QueueOptions {
  std::string name;                  // For messages.
  const char* kind = "Queue";        // For messages: "FIFOQueue".
  std::vector<DType> types;          // Of the components.
  std::vector<PartialShape> shapes;  // Of the components; empty: any.
  int64_t capacity = -1;  // Maximum number of elements; < 0: no limit.
  // Of a queue that shuffles: MakeShuffleStore.
  int64_t min_after_dequeue = 0, seed = 0, seed2 = 0;
  // The pipeline that it is part of ("": none). Nothing is dequeued before the
  // pipeline starts, which opens it (Reopen).
  std::string pipeline;
  // The number of the stage that fills it, and those of the stages that this
  // takes elements from; empty: it is not between stages.
  std::vector<int64_t> stage;
};

// A bounded queue. Operations that cannot complete wait without a thread until
// others make them possible, the queue is closed, or their step is cancelled.
//
// The attempts of each side are served in the order in which they came. One
// that waits for several elements takes them as they come (so it may ask for
// more than the capacity), or by priority: as many at once as it asks for and
// the queue holds. No later one is served before it. If it ends
// without all of them, they go back to the front: no element is lost, doubled,
// or seen out of order. An enqueue of several elements may have entered some of
// them when it is cancelled or the queue is closed; they stay.
class Queue : public Shared, public StageQueue {
 public:
  using Done = std::function<void(Status)>;
  using Dequeued = std::function<void(Result<std::vector<Element>>)>;

  Queue(QueueOptions options, std::unique_ptr<ElementStore> store)
      : Shared({true, true}),
        options_(std::move(options)),
        store_(std::move(store)) {}
  std::string TypeName() const override { return options_.kind; }
  const QueueOptions& options() const { return options_; }

  // InvalidArgument unless `element` has the components' types and shapes.
  Status Check(const Element& element) const;
  // The same for a batch: the components of several elements, along a first
  // dimension of the same size.
  Status CheckBatch(const Element& batch) const;

  // Enters the elements in their order, each as soon as there is room, and
  // calls `done` once: Cancelled if the queue is or gets closed, or if
  // `cancellation` is cancelled. REQUIRES: Check accepts each.
  void Enqueue(std::vector<Element> elements, Cancellation* cancellation,
               Done done);
  // Takes `count` elements and calls `done` once. If the queue is closed and
  // has fewer: with all it has if `up_to` and it has any, else OutOfRange.
  // Cancelled if `cancellation` is cancelled. REQUIRES: count >= 0.
  void Dequeue(int64_t count, bool up_to, Cancellation* cancellation,
               Dequeued done);
  // No element enters any more. Without `cancel_pending` it waits until the
  // enqueues that wait already have ended (Cancelled if the queue is closed by
  // then); with it these end with Cancelled now, and so do closes that wait.
  void Close(bool cancel_pending, Cancellation* cancellation, Done done);

  // Ends the queue with an error: as Close with `cancel_pending`, but what
  // waits or comes later fails with `error` once the elements have left. Later
  // errors are dropped. REQUIRES: !error.ok(), and not OutOfRange.
  void Fail(const Status& error);
  // Ends an epoch of a queue with one reader: once the elements before it have
  // left, one dequeue fails with OutOfRange, as of a closed queue. Later
  // enqueues wait until that has happened, and so does this: it then calls
  // `done`.
  void EndEpoch(Cancellation* cancellation, Done done);
  // For the reader, which has not seen the end of the epoch and does not want
  // the rest of it: drops the elements that are here, and those that come
  // before the epoch ends, which then needs no dequeue.
  void SkipEpoch();
  // False after SkipEpoch, until the epoch ends.
  bool wanted() const;
  // Removes all elements, errors and ends, and what waits to enter (Cancelled):
  // the queue is as new. A pipeline has started.
  void Reopen();

  bool in_order() const { return store_->in_order(); }
  int64_t size() const;
  bool closed() const;
  // What has happened in a queue so far, and what waits.
  struct Stats {
    int64_t size, capacity;  // capacity < 0: no limit.
    int64_t entered, left;   // Elements. Those given back have not left.
    int64_t waiting_enqueues, waiting_dequeues;  // Operations.
    int64_t full_ns, starving_ns;  // How long any enqueue, any dequeue waited.
  };
  Stats stats() const;
  bool Count(StageCounters* counters) const override;

 protected:
  // For these, mu_ is held.
  // How many elements may still come into a closed queue.
  virtual int64_t to_come() const { return 0; }
  // The error of a dequeue that a closed queue cannot satisfy.
  virtual Status Insufficient(int64_t requested) const;
  ElementStore& store() { return *store_; }
  const ElementStore& store() const { return *store_; }

  bool closed_ = false;                          // GUARDED_BY(mu_)
  enum Lanes : size_t { kEnqueues, kDequeues };  // Closes: among enqueues.

 private:
  class EnqueueAttempt;
  class DequeueAttempt;
  class CloseAttempt;
  class EndEpochAttempt;

  Status CheckTypes(const Element& components) const;
  // For these, mu_ is held.
  void Clear();
  void BeginEpoch(int64_t number);
  // Whether no element comes any more, in this epoch at least.
  bool ended() const { return closed_ || epoch_ended_; }
  // How many elements fit.
  int64_t Room() const {
    return options_.capacity < 0 ? INT64_MAX
                                 : options_.capacity - store_->size();
  }

  const QueueOptions options_;
  const std::unique_ptr<ElementStore> store_;  // GUARDED_BY(mu_)
  bool epoch_ended_ = false;                   // GUARDED_BY(mu_)
  bool skipping_ = false;                      // GUARDED_BY(mu_)
  int64_t epoch_ = 0;                          // GUARDED_BY(mu_)
  bool opened_ = false;                        // GUARDED_BY(mu_)
  Status failure_;                             // GUARDED_BY(mu_)
  int64_t entered_ = 0, left_ = 0;             // GUARDED_BY(mu_)
};

// Elements leave in the order in which they came.
std::unique_ptr<ElementStore> MakeFifoStore();
// Any element may leave, drawn with TensorFlow's generator for the seeds (both
// 0: seeded at random); `min_after_dequeue` are kept back until the queue is
// closed.
std::unique_ptr<ElementStore> MakeShuffleStore(int64_t min_after_dequeue,
                                               int64_t seed, int64_t seed2);
// The element with the least first component, an int64 scalar, leaves first;
// among equal ones the oldest.
std::unique_ptr<ElementStore> MakePriorityStore();

}  // namespace sluice::queues

#endif  // SLUICE_OPS_QUEUES_QUEUE_H_
