// Queues, in which concurrent steps meet: some enqueue tensors, others wait for
// them (OSDI'16, section 3.1).
//
//   Queue queue = Queue::Fifo({{DType::kFloat, {784}}, {DType::kInt32, {}}},
//                             {.capacity = 100});
//   Node* put = queue.Enqueue({image, label});
//   std::vector<Output> batch = queue.DequeueMany(32);
//
// An element is a tuple of tensors, the queue's components. A step that waits
// for a queue ends with Cancelled when it is cancelled and with
// DeadlineExceeded at its deadline; no element is lost then. Queues belong to
// their task and have a name there, as variables have: steps and sessions that
// share the state share them.
#ifndef SLUICE_DATA_QUEUE_H_
#define SLUICE_DATA_QUEUE_H_

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "client/op_builder.h"
#include "graph/builder.h"

namespace sluice {

// The type and the shape of one tensor of an element: {DType::kFloat, {}} is a
// scalar, {DType::kFloat} of any shape.
struct Component {
  Component(DType type, PartialShape s = PartialShape())  // NOLINT
      : dtype(type), shape(std::move(s)) {}
  Component(DType type, std::initializer_list<int64_t> dims)
      : dtype(type), shape(dims) {}
  DType dtype;
  PartialShape shape;
};

struct QueueOptions {
  // The maximum number of elements: enqueues wait while there are as many.
  // Negative: no limit.
  int64_t capacity = -1;
  // For a shuffling queue: how many elements it keeps until it is closed, and
  // the seed of its order; 0: another order every time.
  int64_t min_after_dequeue = 0;
  int64_t seed = 0;
  // Queues with the same name are one, which must be declared alike. "": the
  // name of the node.
  std::string shared_name = "";
  std::string name = "queue";
};

// Adds nodes to the ambient graph that use one queue, on its device, whatever
// the device scope. Errors are recorded in the graph. A value: copies use the
// same queue.
class Queue {
 public:
  Queue() = default;  // Null.
  // The queue of a handle (a resource) that was made otherwise.
  static Queue Of(const Output& handle, std::vector<Component> components) {
    Queue queue;
    queue.handle_ = handle;
    queue.components_ = std::move(components);
    return queue;
  }
  // A null queue, from the null output of a builder that failed.
  static Queue Failed(const Output& error);
  // Elements leave in the order in which they came. Shapes may be unknown, but
  // then DequeueMany and DequeueUpTo are not possible.
  static Queue Fifo(const std::vector<Component>& components,
                    const QueueOptions& options = {},
                    SourceLoc loc = CallerLoc());
  // Likewise. Dimensions may be unknown; DequeueMany and DequeueUpTo fill
  // elements with zeros up to the largest.
  static Queue Padding(const std::vector<Component>& components,
                       const QueueOptions& options = {},
                       SourceLoc loc = CallerLoc());
  // Elements leave in a random order.
  static Queue Shuffling(const std::vector<Component>& components,
                         const QueueOptions& options = {},
                         SourceLoc loc = CallerLoc());
  // The elements with the least priority leave first. The priority, an int64
  // scalar, is the first component, before those given here.
  static Queue Priority(const std::vector<Component>& components,
                        const QueueOptions& options = {},
                        SourceLoc loc = CallerLoc());

  // Waits until there is room, and enters an element: one value for each
  // component, of its type. Cancelled if the queue is closed.
  Node* Enqueue(const Operands& element, SourceLoc loc = CallerLoc()) const;
  // Enters the rows of the values, which have the same first dimension.
  Node* EnqueueMany(const Operands& rows, SourceLoc loc = CallerLoc()) const;

  // Waits for an element, and takes it. OutOfRange once the queue is closed and
  // empty.
  std::vector<Output> Dequeue(SourceLoc loc = CallerLoc()) const;
  // Waits for n elements (int32), and takes them along a new first dimension.
  // OutOfRange if the queue is closed with fewer.
  std::vector<Output> DequeueMany(const Operand& n,
                                  SourceLoc loc = CallerLoc()) const;
  // Likewise, but takes what a closed queue has, at least one.
  std::vector<Output> DequeueUpTo(const Operand& n,
                                  SourceLoc loc = CallerLoc()) const;
  // Waits for an element or for the end of the queue, which is not an error:
  // for loops over all elements.
  struct Maybe {
    Output has_value;             // Boolean; false at the end.
    std::vector<Output> element;  // At the end: values that mean nothing.
  };
  Maybe Next(SourceLoc loc = CallerLoc()) const;

  // Likewise for up to n elements (int32) along a new first dimension: fewer
  // only at the end of the queue. `padded`: shorter ones are filled with zeros,
  // where elements of different shapes are otherwise an error.
  struct MaybeBatch {
    Output count;                 // int32; 0 at the end.
    std::vector<Output> element;  // At the end: values that mean nothing.
  };
  MaybeBatch NextBatch(const Operand& n, bool padded = false,
                       SourceLoc loc = CallerLoc()) const;

  // Closes the queue once the enqueues that wait have entered; or, if
  // cancel_pending, at once: these end with Cancelled.
  Node* Close(bool cancel_pending = false, SourceLoc loc = CallerLoc()) const;
  Output IsClosed(SourceLoc loc = CallerLoc()) const;
  Output Size(SourceLoc loc = CallerLoc()) const;  // int32.

  const Output& handle() const { return handle_; }
  // With the priority, if any.
  const std::vector<Component>& components() const { return components_; }
  // For Dataset: lets elements of these shapes enter a queue of Fifo or
  // Shuffling, too. To be called before what is dequeued is used.
  void Widen(const std::vector<Component>& components);

 private:
  AttrValue ShapesOrNone() const;
  static Queue Make(const char* op, std::vector<Component> components,
                    AttrMap attrs, const QueueOptions& options, SourceLoc loc);
  std::vector<DType> types() const;
  std::vector<PartialShape> shapes() const;
  Node* EnqueueWith(const char* op, const Operands& values,
                    SourceLoc loc) const;

  Output handle_;
  std::vector<Component> components_;
};

}  // namespace sluice

#endif  // SLUICE_DATA_QUEUE_H_
