#include "exec/batching/batch_form.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <string_view>

#include "exec/fusion/block_form.h"

namespace sluice {
namespace {

// Filled by static initialisers, in any order.
std::map<std::string_view, BatchFormFinder>& BatchFormFinders() {
  static auto* finders = new std::map<std::string_view, BatchFormFinder>;
  return *finders;
}

}  // namespace

BatchFormRegistrar::BatchFormRegistrar(const char* op, BatchFormFinder finder) {
  BatchFormFinders().emplace(op, finder);
}

std::optional<BatchForm> FindBatchForm(const Node& n, const Kernel& k) {
  const auto it = BatchFormFinders().find(n.op_name());
  if (it != BatchFormFinders().end()) return it->second(n);
  const std::optional<BlockForm> block = FindBlockForm(n, k);
  if (!block) return std::nullopt;
  BatchForm form;
  if (block->shapes == BlockForm::kChannels) {
    form.shared = 1 << 1;
  } else {
    form.axis = BatchForm::kNew;
    form.broadcasts = block->shapes == BlockForm::kBroadcast;
  }
  return form;
}

std::vector<std::string> OpsWithBatchForm() {
  std::vector<std::string> ops;
  for (const auto& [op, finder] : BatchFormFinders()) ops.emplace_back(op);
  return ops;
}

namespace {

template <typename T>
bool MoveAxesOf(Tensor* axes, int rank) {
  const std::span<T> to = axes->flat<T>();
  return std::all_of(to.begin(), to.end(), [rank](T& axis) {
    if (axis < -rank || axis >= rank) return false;
    axis += axis >= 0 ? 1 : 0;
    return true;
  });
}

}  // namespace

bool MoveAxes(Tensor* axes, int rank) {
  Result<Tensor> moved = axes->Clone();
  if (!moved.ok()) return false;
  *axes = *std::move(moved);
  switch (axes->dtype()) {
    case DType::kInt16:
      return MoveAxesOf<int16_t>(axes, rank);
    case DType::kInt32:
      return MoveAxesOf<int32_t>(axes, rank);
    case DType::kInt64:
      return MoveAxesOf<int64_t>(axes, rank);
    default:
      return false;
  }
}

bool PutFirst(Tensor* per_dimension, int64_t value) {
  const Tensor& old = *per_dimension;
  if (old.rank() == 0) return false;
  std::vector<int64_t> dims(old.shape().dims().begin(),
                            old.shape().dims().end());
  ++dims[0];
  Result<Shape> shape = Shape::Make(dims);
  if (!shape.ok()) return false;
  Tensor longer(old.dtype(), *shape);
  const size_t added = longer.bytes() - old.bytes();
  if (old.dtype() == DType::kInt32) {
    std::fill_n(longer.raw<int32_t>(), added / sizeof(int32_t),
                static_cast<int32_t>(value));
  } else if (old.dtype() == DType::kInt64) {
    std::fill_n(longer.raw<int64_t>(), added / sizeof(int64_t), value);
  } else {
    return false;
  }
  if (old.bytes() > 0)
    std::memcpy(longer.raw<char>() + added, old.raw(), old.bytes());
  *per_dimension = std::move(longer);
  return true;
}

}  // namespace sluice
