// Barriers, in which the components of elements meet: they come one by one,
// from several steps, under a key, and leave together when an element is
// complete (OSDI'16, section 4.4: what several workers contribute to one
// result).
//
//   const Barrier barrier =
//       Barrier::Make({{DType::kFloat, {2}}, {DType::kInt32, {}}});
//   const Tensor key = Tensor::Vector<std::string>({"a"});
//   Node* const image =
//       barrier.Insert(key, 0, Tensor::Of<float>({1, 2}, {0.5f, 1.5f}));
//   Node* const label = barrier.Insert(key, 1, {3});
//   const Barrier::Taken first = barrier.Take(1);
#ifndef SLUICE_DATA_BARRIER_H_
#define SLUICE_DATA_BARRIER_H_

#include <string>
#include <vector>

#include "data/queue.h"

namespace sluice {

// Adds nodes to the ambient graph that use one barrier, on its device, whatever
// the device scope. Errors are recorded in the graph. A value: copies use the
// same barrier. Belongs to its task, as queues do.
class Barrier {
 public:
  Barrier() = default;  // Null.
  // Shapes are fully known. Of the options, `shared_name` and `name` count;
  // InvalidArgument in steps if there is a capacity.
  static Barrier Make(const std::vector<Component>& components,
                      const QueueOptions& options = {},
                      SourceLoc loc = CallerLoc());

  // Sets component `component` of the elements of these keys (strings) to the
  // rows of `values`: all or none. InvalidArgument if an element has it
  // already. Cancelled if the barrier is closed and a key is new.
  Node* Insert(const Operand& keys, int component, const Operand& values,
               SourceLoc loc = CallerLoc()) const;

  // Waits for n complete elements (int32), and takes them, those first that
  // were begun first. OutOfRange if the barrier is closed and there will be
  // fewer; with `or_fewer`, only if there is none.
  struct Taken {
    Output indices;              // int64: ascend with the insertions.
    Output keys;                 // Strings.
    std::vector<Output> values;  // Along a new first dimension.
  };
  Taken Take(const Operand& n, bool or_fewer = false,
             SourceLoc loc = CallerLoc()) const;

  // Refuses new keys; and with `cancel_pending` drops incomplete elements and
  // refuses components too.
  Node* Close(bool cancel_pending = false, SourceLoc loc = CallerLoc()) const;
  // How many elements are complete, and are not; int32.
  Output ReadySize(SourceLoc loc = CallerLoc()) const;
  Output IncompleteSize(SourceLoc loc = CallerLoc()) const;

  const Output& handle() const { return handle_; }
  const std::vector<Component>& components() const { return components_; }

 private:
  Output handle_;
  std::vector<Component> components_;
};

}  // namespace sluice

#endif  // SLUICE_DATA_BARRIER_H_
