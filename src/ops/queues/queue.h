// Queues of tensors, which steps share: elements wait in them, and steps wait
// for elements or for room (docs/design/032-queues.md).
#ifndef SLUICE_OPS_QUEUES_QUEUE_H_
#define SLUICE_OPS_QUEUES_QUEUE_H_

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "exec/core/cancellation.h"
#include "tensor/object.h"
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
  // Returns elements that were popped and not delivered, in the order in which
  // they left, such that they leave before all others if the store has an
  // order.
  virtual void PutBack(std::vector<Element> elements) = 0;
};

// What the node of a queue declares.
struct QueueOptions {
  std::string name;                  // For messages.
  const char* kind = "Queue";        // For messages: "FIFOQueue".
  std::vector<DType> types;          // Of the components.
  std::vector<PartialShape> shapes;  // Of the components; empty: any.
  int64_t capacity = -1;  // Maximum number of elements; < 0: no limit.
};

// A bounded queue. Operations that cannot complete wait without a thread: an
// attempt is kept until others make it possible, the queue is closed, or its
// step is cancelled.
//
// The attempts of each side are served in the order in which they came. One
// that waits for several elements takes them as they come (so it may ask for
// more than the capacity), and no later one is served before it. If it ends
// without all of them, they go back to the front: no element is lost, doubled,
// or seen out of order. An enqueue of several elements may have entered some of
// them when it is cancelled or the queue is closed; they stay.
//
// Thread-safe. No function is called with the queue's lock held: completions
// run after the change that made them possible, on the thread that made it.
class Queue : public Resource, public std::enable_shared_from_this<Queue> {
 public:
  using Done = std::function<void(Status)>;
  using Dequeued = std::function<void(Result<std::vector<Element>>)>;

  Queue(QueueOptions options, std::unique_ptr<ElementStore> store)
      : options_(std::move(options)), store_(std::move(store)) {}
  std::string TypeName() const override { return options_.kind; }
  const QueueOptions& options() const { return options_; }

  // InvalidArgument unless `element` has the components' types and shapes.
  Status Check(const Element& element) const;

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
  // enqueues that wait already have ended; with it they end with Cancelled now.
  // Cancelled if the queue is closed already.
  void Close(bool cancel_pending, Cancellation* cancellation, Done done);

  int64_t size() const;
  bool closed() const;

 private:
  // One operation. Owned by the list in which it waits; when it is over, by the
  // thread that completes it.
  struct Attempt {
    enum class What { kEnqueue, kDequeue, kClose };
    What what = What::kEnqueue;
    bool up_to = false;
    int64_t wanted = 0;             // Elements left to enter or to take.
    std::vector<Element> elements;  // To enter, or taken so far.
    size_t next = 0;                // Of `elements`, for an enqueue.
    Done done;                      // Of an enqueue or a close.
    Dequeued dequeued;
    Cancellation* cancellation = nullptr;  // Valid until it has completed.
    int64_t callback = -1;
    bool over = false;  // GUARDED_BY(Queue::mu_): completed or cancelled.
    Status status;      // Of a completed attempt.
  };
  using AttemptPtr = std::shared_ptr<Attempt>;
  using Attempts = std::list<AttemptPtr>;

  // Registers the attempt with its step's cancellation and serves both sides.
  void Begin(AttemptPtr attempt);
  void Cancel(const AttemptPtr& attempt);
  // For these, mu_ is held. Attempts that end are added to `completed`.
  Attempts& SideOf(const Attempt& a) {
    return a.what == Attempt::What::kDequeue ? dequeues_ : enqueues_;
  }
  void Withdraw(const AttemptPtr& attempt, std::vector<AttemptPtr>* completed);
  void Serve(std::vector<AttemptPtr>* completed);
  bool ServeFirst(Attempts* side, std::vector<AttemptPtr>* completed);
  bool TryEnqueue(Attempt* a);
  bool TryDequeue(Attempt* a);
  bool TryClose(Attempt* a);
  void End(Attempt* a, Status status);
  bool HasRoom() const {
    return options_.capacity < 0 || store_->size() < options_.capacity;
  }
  // Without the lock.
  static void Complete(const std::vector<AttemptPtr>& completed);

  const QueueOptions options_;
  mutable std::mutex mu_;
  const std::unique_ptr<ElementStore> store_;  // GUARDED_BY(mu_)
  Attempts enqueues_;    // GUARDED_BY(mu_): with closes, in their order.
  Attempts dequeues_;    // GUARDED_BY(mu_)
  bool closed_ = false;  // GUARDED_BY(mu_)
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
