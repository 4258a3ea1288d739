#include "data/barrier.h"

#include "sluice/ops.h"

namespace sluice {

Barrier Barrier::Make(const std::vector<Component>& components,
                      const QueueOptions& options, SourceLoc loc) {
  Barrier barrier;
  barrier.components_ = components;
  AttrValue::Types types;
  AttrValue::Shapes shapes;
  for (const Component& c : components) {
    types.push_back(c.dtype);
    shapes.push_back(c.shape);
    if (c.dtype != DType::kInvalid) continue;
    barrier.handle_ = BuildError(
        InvalidArgument("Barrier: expected components with a type, got none"),
        loc);
    return barrier;
  }
  barrier.handle_ = ops::Barrier(types,
                                 {.shapes = shapes,
                                  .capacity = options.capacity,
                                  .shared_name = options.shared_name,
                                  .name = options.name},
                                 loc);
  return barrier;
}

Node* Barrier::Insert(const Operand& keys, int component, const Operand& values,
                      SourceLoc loc) const {
  const ColocateWith barrier(handle_.node);
  const auto c = static_cast<size_t>(component);
  if (c >= components_.size()) {
    BuildError(InvalidArgument("Barrier: expected a component from 0 to ",
                               static_cast<int>(components_.size()) - 1,
                               ", got ", component),
               loc);
    return nullptr;
  }
  return ops::BarrierInsertMany(handle_, keys.Get(DType::kString),
                                values.Get(components_[c].dtype), component, {},
                                loc);
}

Barrier::Taken Barrier::Take(const Operand& n, bool or_fewer,
                             SourceLoc loc) const {
  const ColocateWith barrier(handle_.node);
  AttrValue::Types types;
  for (const Component& c : components_) types.push_back(c.dtype);
  auto taken = ops::BarrierTakeMany(handle_, n, types,
                                    {.allow_small_batch = or_fewer}, loc);
  for (size_t i = 0; i < taken.values.size(); ++i)
    if (taken.values[i].valid()) {
      PartialShape rows({-1});
      for (const int64_t d : components_[i].shape.dims()) rows.add_dim(d);
      taken.values[i] = ops::EnsureShape(taken.values[i], rows, {}, loc);
    }
  return {taken.indices, taken.keys, taken.values};
}

Node* Barrier::Close(bool cancel_pending, SourceLoc loc) const {
  const ColocateWith barrier(handle_.node);
  return ops::BarrierClose(handle_, {.cancel_pending_enqueues = cancel_pending},
                           loc);
}

Output Barrier::ReadySize(SourceLoc loc) const {
  const ColocateWith barrier(handle_.node);
  return ops::BarrierReadySize(handle_, {}, loc);
}

Output Barrier::IncompleteSize(SourceLoc loc) const {
  const ColocateWith barrier(handle_.node);
  return ops::BarrierIncompleteSize(handle_, {}, loc);
}

}  // namespace sluice
