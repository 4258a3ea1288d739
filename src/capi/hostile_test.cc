// Every function of the C API with hostile arguments.
#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <set>
#include <sstream>

#include "capi/testing/c_calls.h"

namespace sluice {
namespace {

// Printed at once: the test may crash.
uint32_t HostileSeed() {
  const char* const given = std::getenv("SLUICE_SEED");
  const uint32_t seed =
      given != nullptr ? static_cast<uint32_t>(std::strtoul(given, nullptr, 10))
                       : std::random_device()();
  std::printf("SLUICE_SEED=%u\n", seed);
  std::fflush(stdout);
  return seed;
}

// Nulls, indices and numbers out of range, names that do not exist: statuses,
// and nothing else. (The address sanitizer's tier runs this too.)
TEST(CHostileTest, EveryFunctionReportsWhatIsWrong) {
  const uint32_t seed = HostileSeed();
  std::mt19937 random(seed);
  for (const CFunction& f : CFunctions()) {
    SCOPED_TRACE(f.name);
    CallWorld world([&random] { return static_cast<uint8_t>(random()); });
    for (int i = 0; i < 50; ++i) f.call(world);
  }
}

TEST(CHostileTest, SequencesOfCalls) {
  const uint32_t seed = HostileSeed();
  std::mt19937 random(seed);
  const std::vector<CFunction>& all = CFunctions();
  for (int i = 0; i < 20; ++i) {
    CallWorld world([&random] { return static_cast<uint8_t>(random()); });
    for (int k = 0; k < 200; ++k) all[random() % all.size()].call(world);
  }
}

// The list of functions is that of the recorded ABI.
TEST(CHostileTest, NoFunctionIsMissing) {
  std::ifstream recorded("packaging/libsluice_c.abi.txt");
  ASSERT_TRUE(recorded.good()) << "run from the root of the sources";
  std::set<std::string> declared, listed;
  for (std::string line; std::getline(recorded, line);) {
    std::istringstream words(line);
    std::string first;
    words >> first;
    if (first != "DECLARED") continue;
    const size_t open = line.find('(');
    const size_t begin = line.find_last_of(" *", open) + 1;
    declared.insert(line.substr(begin, open - begin));
  }
#define F(NAME) listed.insert(#NAME);
#include "capi/testing/functions.inc"
#include "capi/testing/system_functions.inc"
#undef F
  EXPECT_EQ(declared, listed);
  EXPECT_GT(declared.size(), 250u);
}

}  // namespace
}  // namespace sluice
