#include "cluster/common/messages.h"

#include <gtest/gtest.h>

#include <string>

namespace sluice {
namespace {

TEST(BoundedLogTest, LinesCountWithWhatTheyOccupy) {
  EXPECT_EQ(BoundedLog(nullptr), nullptr);
  for (const size_t size : {size_t{0}, size_t{1}, size_t{1} << 20}) {
    SCOPED_TRACE(size);
    size_t lines = 0, bytes = 0;
    std::string last;
    const StepLog log = BoundedLog([&](const std::string& text) {
      ++lines;
      bytes += text.size();
      last = text;
    });
    const std::string line(size, 'x');
    for (int i = 0; i < (size > 1 ? 64 : 400'000); ++i) log(line);
    // As many as fit into 8 MB, each with 64 bytes of overhead, and one that
    // says so.
    EXPECT_EQ(lines, (8 << 20) / (size + 64) + 1);
    EXPECT_EQ(bytes, (lines - 1) * size + last.size());
    EXPECT_EQ(last, "(further output of the step is left out)\n");
  }
}

}  // namespace
}  // namespace sluice
