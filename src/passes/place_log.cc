// Placement: the readable log.
#include <algorithm>

#include "graph/graph.h"
#include "passes/placer.h"

namespace sluice {
namespace {

constexpr char kNotPossible[] = "no requested device is possible";

}  // namespace

std::string Placer::Reason(const Node& n, const Node& decider) {
  const size_t i = Index(&n);
  const size_t root = Root(i);
  if (&n != &decider) {
    if (!n.device().empty() && !own_[i].softened &&
        own_[i].may == sets_.Single(device_[root]))
      return "requested";
    if (with_[i] != nullptr)
      return absl::StrCat("shares ", Shared(share_[i]), " with '",
                          with_[i]->name(), "'");
    return absl::StrCat("in the group of '", decider.name(), "'");
  }
  const auto of = [&](const char* what) {
    return absl::StrCat(what, " '", by_[root]->name(), "'");
  };
  switch (why_[root]) {
    case Why::kAsked:
      return "requested";
    case Why::kKernel:
      return "the only device with a kernel";
    case Why::kSoft:
      return kNotPossible;
    case Why::kState:
      return "placed there by an earlier step";
    case Why::kGroup:
      return "the only possible device of its group";
    case Why::kFirst:
      return absl::StrCat("the first of ", sets_.size(choice_[root].may),
                          " possible devices");
    case Why::kInput:
      return of("with its input");
    case Why::kReader:
      return of("with its reader");
    case Why::kControl:
      return of("after");
    case Why::kDefault:
      break;
  }
  return "default";
}

void Placer::Log() {
  options_.log->clear();
  for (const auto& n : graph_.nodes()) {
    const size_t root = Root(n.get());
    const Node* decider = decider_[root];
    std::string reason = Reason(*n, *decider);
    // (Its device may have another reason; this is the reason why it is not the
    // requested one.)
    if (own_[Index(n.get())].softened && reason != kNotPossible)
      absl::StrAppend(&reason, "; ", kNotPossible);
    options_.log->push_back({n->name(), n->op_name(), n->device(),
                             DeviceText(device_[root]), std::move(reason)});
  }
}

std::string FormatPlacements(const std::vector<Placement>& log) {
  size_t width[3] = {4, 2, 6};
  for (const Placement& p : log) {
    width[0] = std::max(width[0], p.node.size());
    width[1] = std::max(width[1], p.op.size());
    width[2] = std::max(width[2], p.device.size());
  }
  std::string table;
  const auto line = [&](const std::string& node, const std::string& op,
                        const std::string& device, const std::string& reason) {
    const std::string* cells[3] = {&node, &op, &device};
    for (size_t i = 0; i < 3; ++i)
      absl::StrAppend(&table, *cells[i],
                      std::string(width[i] - cells[i]->size() + 2, ' '));
    absl::StrAppend(&table, reason, "\n");
  };
  line("node", "op", "device", "reason");
  for (const Placement& p : log)
    line(p.node, p.op, p.device,
         p.asked.empty() || p.asked == p.device
             ? p.reason
             : absl::StrCat(p.reason, " (of '", p.asked, "')"));
  return table;
}

}  // namespace sluice
