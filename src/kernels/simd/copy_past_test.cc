#include "kernels/simd/copy_past.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

namespace sluice::simd {
namespace {

TEST(CopyPastTest, CopiesBetweenAnyAddresses) {
  std::vector<char> in(1'000), out(1'000);
  std::iota(in.begin(), in.end(), char{0});
  for (const size_t bytes : {0, 1, 15, 63, 64, 65, 200, 900}) {
    for (size_t shift = 0; shift < 70; ++shift) {
      std::fill(out.begin(), out.end(), 'x');
      CopyPast(&out[shift], &in[70 - shift], bytes);
      EXPECT_EQ(std::memcmp(&out[shift], &in[70 - shift], bytes), 0);
      EXPECT_EQ(std::count(out.begin(),
                           out.begin() + static_cast<ptrdiff_t>(shift), 'x'),
                static_cast<ptrdiff_t>(shift));
      EXPECT_EQ(out[shift + bytes], 'x');
    }
  }
}

}  // namespace
}  // namespace sluice::simd
