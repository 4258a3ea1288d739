// Traces in the form that viewers read.
#include "exec/core/trace.h"

#include <gmock/gmock.h>

#include "exec/testing/trace_test_util.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TraceEvent KernelEvent(const std::string& device, int64_t start, int64_t end) {
  TraceEvent e;
  e.node = "node";
  e.op = "Op";
  e.device = device;
  e.start_ns = start;
  e.end_ns = end;
  return e;
}

TraceEvent TransferEnd(TraceEvent::Kind kind, const std::string& device,
                       const std::string& peer, uint64_t transfer,
                       int64_t start) {
  TraceEvent e = KernelEvent(device, start, start + 10);
  e.kind = kind;
  e.peer = peer;
  e.transfer = transfer;
  e.tensor = "x:0";
  e.outputs = {{DType::kFloat, Shape({3}), 12}};
  return e;
}

constexpr char kA[] = "/job:a/replica:0/task:0/device:CPU:0";
constexpr char kB[] = "/job:b/replica:0/task:3/device:CPU:1";

TEST(ChromeTrace, ShowsTasksAsProcessesAndDevicesAsThreads) {
  const SeenTrace seen = CheckTrace(
      ChromeTrace({KernelEvent(kB, 2000, 3000), KernelEvent(kA, 1000, 2000)},
                  {{"/job:b/replica:0/task:3", 900, 3100, -500, 20, 0}}));
  EXPECT_THAT(seen.processes, ElementsAre("/job:a/replica:0/task:0",
                                          "/job:b/replica:0/task:3"));
  EXPECT_THAT(seen.threads, ElementsAre("/job:a/replica:0/task:0 /device:CPU:0",
                                        "/job:b/replica:0/task:3 /device:CPU:1",
                                        "/job:b/replica:0/task:3 step"));
  EXPECT_EQ(seen.slices.at("Op"), 2);
}

TEST(ChromeTrace, OverlappingEventsHaveSeparateThreads) {
  std::vector<TraceEvent> events;
  for (int i = 0; i < 20; ++i)
    events.push_back(KernelEvent(kA, 100 * i, 100 * i + 250));
  events.push_back(KernelEvent(kA, 0, 1900));
  events.push_back(KernelEvent(kA, 500, 500));  // Zero duration.
  const SeenTrace seen = CheckTrace(ChromeTrace(events));
  EXPECT_EQ(seen.slices.at("Op"), 22);
  EXPECT_EQ(seen.threads.size(), 5u);
}

TEST(ChromeTrace, ArrowsNeedBothEnds) {
  std::vector<TraceEvent> events = {
      TransferEnd(TraceEvent::kSend, kA, kB, 7, 100),
      TransferEnd(TraceEvent::kReceive, kB, kA, 7, 400),
      TransferEnd(TraceEvent::kSend, kA, kB, 8, 200),  // Never received.
      TransferEnd(TraceEvent::kReceive, kB, kA, 9,
                  500)};  // Its other end was omitted.
  SeenTrace seen = CheckTrace(ChromeTrace(events));
  ASSERT_EQ(seen.arrows.size(), 1u);
  EXPECT_EQ(seen.arrows[0].from, "/job:a/replica:0/task:0");
  EXPECT_EQ(seen.arrows[0].to, "/job:b/replica:0/task:3");
  EXPECT_EQ(seen.arrows[0].tensor, "x:0");
  EXPECT_EQ(seen.arrows[0].bytes, 12);
  // A clock error within its bound may reverse an arrow.
  events[1].start_ns = 60;
  events[1].end_ns = 70;
  seen = CheckTrace(
      ChromeTrace(events, {{"/job:b/replica:0/task:3", 0, 1000, 0, 50, 0}}));
  EXPECT_EQ(seen.arrows.size(), 1u);
}

TEST(ChromeTrace, NamesMayContainAnyCharacters) {
  TraceEvent odd = KernelEvent("", 0, 10);
  odd.op = "a\"b\\c\n\x01";
  const SeenTrace seen = CheckTrace(ChromeTrace({odd}));
  EXPECT_EQ(seen.slices.at("a\"b\\c\n\x01"), 1);
  EXPECT_THAT(seen.processes, ElementsAre("this process"));
  EXPECT_THAT(ChromeTrace({}), HasSubstr("traceEvents"));
  CheckTrace(ChromeTrace({}));
}

TEST(TransferNumber, DependsOnEveryArgument) {
  std::set<uint64_t> numbers;
  for (const char* device : {kA, kB})
    for (uint32_t edge = 0; edge < 20; ++edge)
      for (uint64_t frame = 0; frame < 20; ++frame)
        for (int64_t iteration = 0; iteration < 20; ++iteration)
          numbers.insert(TransferNumber(device, edge, frame, iteration));
  EXPECT_EQ(numbers.size(), 2u * 20 * 20 * 20);
  EXPECT_NE(TransferNumber("d", 1, absl::MakeUint128(1, 2), 3),
            TransferNumber("d", 1, 2, 3));
  // The same in every process.
  EXPECT_EQ(TransferNumber("d", 1, 2, 3), TransferNumber("d", 1, 2, 3));
}

}  // namespace
}  // namespace sluice
