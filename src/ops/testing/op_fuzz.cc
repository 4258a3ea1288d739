// For any op that the input bytes select, with corrupted inputs and attributes
// (ops/testing/hostile_inputs_test_util.h), the result is an error or agrees
// with the declaration.
#include <cstdio>
#include <cstdlib>

#include "ops/testing/hostile_inputs_test_util.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using sluice::op_instances::Instance;
  static const auto* ops = [] {
    auto* all = new std::vector<std::vector<Instance>>;
    for (const sluice::OpDef* op : sluice::OpRegistry::Global()->All())
      if (auto victims = sluice::hostile::Victims(*op); !victims.empty())
        all->push_back(std::move(victims));
    return all;
  }();
  static const sluice::hostile::LittleMemory little;
  // Two bytes per number; zeros follow the last one.
  const sluice::hostile::Draw draw = [&](uint64_t n) -> uint64_t {
    uint64_t v = 0;
    for (int i = 0; i < 2 && size > 0; ++i, ++data, --size) v = v << 8 | *data;
    return v % n;
  };
  const std::string what =
      sluice::hostile::DrawAndTry((*ops)[draw(ops->size())], draw);
  if (!what.empty()) {
    std::fprintf(stderr, "%s\n", what.c_str());
    std::abort();
  }
  return 0;
}
