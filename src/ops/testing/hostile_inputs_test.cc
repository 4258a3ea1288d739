// Wrong ranks, zero and huge sizes, negative and overflowing attributes,
// indices out of range, mismatched types: every op with samples returns an
// error, or a result that agrees with its declaration. op_fuzz.cc draws the
// same from bytes.
#include <gtest/gtest.h>

#include <cstdlib>

#include "ops/testing/hostile_inputs_test_util.h"

namespace sluice {
namespace {

constexpr int kTries = 60;

TEST(HostileInputs, GiveErrorsOrDeclaredOutputs) {
  const char* given = std::getenv("SLUICE_SEED");
  const uint64_t seed = given ? std::strtoull(given, nullptr, 10) : 20261122;
  const char* only = std::getenv("SLUICE_OP");
  RecordProperty("seed", std::to_string(seed));
  const hostile::LittleMemory little;
  for (const OpDef* op : OpRegistry::Global()->All()) {
    if (only != nullptr && op->name != only) continue;
    const std::vector<op_instances::Instance> all = hostile::Victims(*op);
    if (all.empty()) continue;
    if (given != nullptr) std::fprintf(stderr, "%s\n", op->name.c_str());
    std::mt19937_64 random(seed);
    const hostile::Draw draw = [&](uint64_t n) { return random() % n; };
    for (int i = 0; i < kTries; ++i) {
      const std::string what = hostile::DrawAndTry(all, draw);
      EXPECT_EQ(what, "") << "try " << i << " of seed " << seed;
      if (!what.empty()) break;
    }
  }
}

}  // namespace
}  // namespace sluice
