#include "exec/core/blame.h"

#include "absl/strings/cord.h"

namespace sluice {
namespace {

constexpr const char* kBlamed = "sluice/blamed";

}  // namespace

Status BlamedOn(Status s, const std::string& described) {
  if (!s.ok() && !s.GetPayload(kBlamed))
    s.SetPayload(kBlamed, absl::Cord(described));
  return s;
}

std::string DescribeBlamed(const Status& s, const Node& ran) {
  const auto blamed = s.GetPayload(kBlamed);
  return blamed ? std::string(*blamed) : ran.Describe();
}

}  // namespace sluice
