// Sequences of calls of the C API: each gives a status, and nothing crashes.
//
// The bytes choose functions and their arguments (capi/testing/c_calls.h).
#include <cstddef>
#include <cstdint>

#include "capi/testing/c_calls.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using sluice::CFunction;
  const uint8_t* const end = data + size;
  // (Zeros when there are no more.)
  const auto next = [&data, end]() -> uint8_t {
    return data == end ? 0 : *data++;
  };
  constexpr int kMaxCalls = 200;
  sluice::CallWorld world(next);
  const std::vector<CFunction>& all = sluice::CFunctions();
  for (int calls = 0; data != end && calls < kMaxCalls; ++calls) {
    const size_t which = next() + size_t{256} * (next() % 2u);
    all[which % all.size()].call(world);
  }
  return 0;
}
