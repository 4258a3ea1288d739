#include "data/queue.h"

#include <utility>

#include "graph/graph.h"
#include "sluice/ops.h"

namespace sluice {

std::vector<DType> Queue::types() const {
  std::vector<DType> types;
  for (const Component& c : components_) types.push_back(c.dtype);
  return types;
}

std::vector<PartialShape> Queue::shapes() const {
  std::vector<PartialShape> shapes;
  for (const Component& c : components_) shapes.push_back(c.shape);
  return shapes;
}

// ---- Making queues ----------------------------------------------------------

Queue Queue::Make(const char* op, std::vector<Component> components,
                  AttrMap attrs, const QueueOptions& options, SourceLoc loc) {
  Queue q;
  q.components_ = std::move(components);
  for (const Component& c : q.components_)
    if (c.dtype == DType::kInvalid) {
      q.handle_ = BuildError(
          InvalidArgument(op, ": expected components with a type, got none"),
          loc);
      return q;
    }
  attrs.try_emplace("component_types", q.types());
  attrs.try_emplace("shapes", q.ShapesOrNone());
  attrs.try_emplace("capacity", options.capacity);
  attrs.try_emplace("shared_name", options.shared_name);
  q.handle_ = Build(op, {}, std::move(attrs), options.name, loc);
  return q;
}

// A queue knows all dimensions of the shapes of all components, or nothing.
AttrValue Queue::ShapesOrNone() const {
  for (const Component& c : components_)
    if (!c.shape.fully_known()) return AttrValue::Shapes();
  return shapes();
}

void Queue::Widen(const std::vector<Component>& components) {
  for (size_t i = 0; i < components_.size() && i < components.size(); ++i) {
    PartialShape& mine = components_[i].shape;
    const PartialShape& other = components[i].shape;
    if (!mine.rank_known()) continue;
    if (!other.rank_known() || other.rank() != mine.rank()) {
      mine = PartialShape();
      continue;
    }
    for (int d = 0; d < mine.rank(); ++d)
      if (mine.dim(d) != other.dim(d)) mine.set_dim(d, -1);
  }
  if (handle_.valid())
    CurrentGraph().SetAttr(handle_.node, "shapes", ShapesOrNone());
}

Queue Queue::Failed(const Output& error) {
  Queue q;
  q.handle_ = error;
  return q;
}

Queue Queue::Fifo(const std::vector<Component>& components,
                  const QueueOptions& options, SourceLoc loc) {
  return Make("FIFOQueueV2", components, {}, options, loc);
}

Queue Queue::Padding(const std::vector<Component>& components,
                     const QueueOptions& options, SourceLoc loc) {
  std::vector<PartialShape> shapes;
  for (const Component& c : components) shapes.push_back(c.shape);
  return Make("PaddingFIFOQueueV2", components, {{"shapes", shapes}}, options,
              loc);
}

Queue Queue::Shuffling(const std::vector<Component>& components,
                       const QueueOptions& options, SourceLoc loc) {
  return Make("RandomShuffleQueueV2", components,
              {{"min_after_dequeue", options.min_after_dequeue},
               {"seed", options.seed},
               {"seed2", options.seed}},
              options, loc);
}

Queue Queue::Priority(const std::vector<Component>& components,
                      const QueueOptions& options, SourceLoc loc) {
  AttrValue::Types types;
  AttrValue::Shapes shapes;
  for (const Component& c : components) {
    types.push_back(c.dtype);
    shapes.push_back(c.shape);
  }
  std::vector<Component> all = components;
  all.insert(all.begin(), Component(DType::kInt64, {}));
  return Make("PriorityQueueV2", std::move(all),
              {{"component_types", types}, {"shapes", shapes}}, options, loc);
}

// ---- Operations -------------------------------------------------------------

Node* Queue::EnqueueWith(const char* op, const Operands& values,
                         SourceLoc loc) const {
  if (values.items().size() != components_.size()) {
    BuildError(InvalidArgument(op, ": expected ", components_.size(),
                               " components, got ", values.items().size()),
               loc);
    return nullptr;
  }
  std::vector<Output> inputs = {handle_};
  for (size_t i = 0; i < components_.size(); ++i)
    inputs.push_back(values.items()[i].Get(components_[i].dtype));
  for (size_t i = 0; i < components_.size(); ++i) {
    const Output& x = inputs[i + 1];
    if (!x.valid() || RemoveRef(x.dtype()) == components_[i].dtype) continue;
    BuildError(InvalidArgument(op, ": expected component ", i, " of type ",
                               DTypeName(components_[i].dtype), ", got ",
                               DTypeName(x.dtype())),
               loc);
    return nullptr;
  }
  const ColocateWith queue(handle_.node);
  return BuildNode(op, std::move(inputs), {{"Tcomponents", types()}}, "", loc);
}

Node* Queue::Enqueue(const Operands& element, SourceLoc loc) const {
  return EnqueueWith("QueueEnqueueV2", element, loc);
}

Node* Queue::EnqueueMany(const Operands& rows, SourceLoc loc) const {
  return EnqueueWith("QueueEnqueueManyV2", rows, loc);
}

std::vector<Output> Queue::Dequeue(SourceLoc loc) const {
  const ColocateWith queue(handle_.node);
  std::vector<Output> element = ops::QueueDequeueV2(handle_, types(), {}, loc);
  // A queue that does not know all dimensions of all shapes knows none.
  for (size_t i = 0; i < element.size(); ++i)
    if (element[i].valid() && !components_[i].shape.fully_known() &&
        components_[i].shape.rank_known())
      element[i] = ops::EnsureShape(element[i], components_[i].shape, {}, loc);
  return element;
}

std::vector<Output> Queue::DequeueMany(const Operand& n, SourceLoc loc) const {
  const ColocateWith queue(handle_.node);
  return ops::QueueDequeueManyV2(handle_, n, types(), {}, loc);
}

std::vector<Output> Queue::DequeueUpTo(const Operand& n, SourceLoc loc) const {
  const ColocateWith queue(handle_.node);
  return ops::QueueDequeueUpToV2(handle_, n, types(), {}, loc);
}

Queue::Maybe Queue::Next(SourceLoc loc) const {
  const ColocateWith queue(handle_.node);
  const auto next = ops::QueueNext(handle_, types(), shapes(), {}, loc);
  return {next.has_value, next.components};
}

Queue::MaybeBatch Queue::NextBatch(const Operand& n, bool padded,
                                   SourceLoc loc) const {
  const ColocateWith queue(handle_.node);
  const auto next = ops::QueueNextBatch(handle_, n, types(), shapes(),
                                        {.padded = padded}, loc);
  return {next.count, next.components};
}

Node* Queue::Close(bool cancel_pending, SourceLoc loc) const {
  const ColocateWith queue(handle_.node);
  return ops::QueueCloseV2(handle_, {.cancel_pending_enqueues = cancel_pending},
                           loc);
}

Output Queue::IsClosed(SourceLoc loc) const {
  const ColocateWith queue(handle_.node);
  return ops::QueueIsClosedV2(handle_, {}, loc);
}

Output Queue::Size(SourceLoc loc) const {
  const ColocateWith queue(handle_.node);
  return ops::QueueSizeV2(handle_, {}, loc);
}

}  // namespace sluice
