#include "exec/core/error_attribution.h"

#include "absl/strings/cord.h"

namespace sluice {
namespace {

constexpr const char* kAttributedTo = "sluice/attributed_to";

}  // namespace

Status AttributedTo(Status s, const std::string& described) {
  if (!s.ok() && !s.GetPayload(kAttributedTo))
    s.SetPayload(kAttributedTo, absl::Cord(described));
  return s;
}

std::string DescribeAttributed(const Status& s, const Node& ran) {
  const auto attributed = s.GetPayload(kAttributedTo);
  return attributed ? std::string(*attributed) : ran.Describe();
}

}  // namespace sluice
