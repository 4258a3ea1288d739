// That each op is called as the reference (docs/ops) says. What the ops compute
// is tested elsewhere, so the calls are compiled and not made.
#include "tests/snippets/snippets_test_util.h"

namespace sluice {
namespace {

// A value of whatever kind an attribute has.
struct Any {
  template <typename T>
  operator T() const {  // NOLINT
    return T();
  }
};

[[maybe_unused]] void Calls(const Any& any, Output output,
                            const std::vector<Output>& outputs) {
#include "snippets/docs/ops/calls.inc"
}

}  // namespace
}  // namespace sluice
