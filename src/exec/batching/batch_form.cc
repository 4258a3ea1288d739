#include "exec/batching/batch_form.h"

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

bool LeavesOutFirstAxis(const Tensor& axes, int rank) {
  const auto inner = [rank](int64_t axis) {
    return axis < 0 ? axis > -rank : axis > 0;
  };
  for (int64_t i = 0; i < axes.num_elements(); ++i) {
    if (axes.dtype() == DType::kInt32
            ? !inner(axes.raw<int32_t>()[i])
            : axes.dtype() != DType::kInt64 || !inner(axes.raw<int64_t>()[i]))
      return false;
  }
  return true;
}

}  // namespace sluice
