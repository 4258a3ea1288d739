// Checks that each op can be called as the reference (docs/ops) says. Results
// are tested elsewhere, so the calls are only compiled.
#include "tests/snippets/snippets_test_util.h"

namespace sluice {
namespace {

// Converts to an attribute value of any kind.
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
