// Which stage of a pipeline holds up the others.
#include "exec/core/pipeline_stages.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>
#include <utility>

namespace sluice {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

// A chain of stages after one second in which each was full and starved its
// reader for these percentages.
std::vector<StageCounters> Chain(
    std::initializer_list<std::pair<int, int>> shares) {
  std::vector<StageCounters> all;
  for (const auto& [full, starving] : shares) {
    StageCounters& c = all.emplace_back();
    c.pipeline = "input";
    c.number = static_cast<int64_t>(all.size()) - 1;
    c.stage = "s" + std::to_string(c.number);
    if (c.number > 0) c.inputs = {c.number - 1};
    c.elements = 100 * (c.number + 1);
    c.capacity = 4;
    c.full_ns = kSecond / 100 * full;
    c.starving_ns = kSecond / 100 * starving;
  }
  return all;
}
std::vector<StageCounters> Before(std::vector<StageCounters> now) {
  for (StageCounters& c : now) c.elements = c.full_ns = c.starving_ns = 0;
  return now;
}
int SlowestOf(const std::vector<StageCounters>& now) {
  return PipelineLoads(Before(now), now, 1).at(0).slowest;
}

TEST(PipelineLoads, RatesAndSharesAreThoseOfTheTimeBetween) {
  auto before = Chain({{10, 20}}), now = before;
  now[0].elements += 30;
  now[0].full_ns += kSecond;
  now[0].starving_ns += kSecond / 2;
  const StageLoad load = PipelineLoads(before, now, 2)[0].stages[0];
  EXPECT_DOUBLE_EQ(load.per_second, 15);
  EXPECT_DOUBLE_EQ(load.full, 0.5);
  EXPECT_DOUBLE_EQ(load.starving, 0.25);
  // The first sample; a pipeline that has been made anew.
  EXPECT_EQ(PipelineLoads({}, now, 2)[0].stages[0].per_second, 0);
  EXPECT_EQ(PipelineLoads(before, now, 0)[0].stages[0].per_second, 0);
  now[0].elements = 1;
  EXPECT_EQ(PipelineLoads(before, now, 2)[0].stages[0].per_second, 0);
  EXPECT_EQ(PipelineLoads(before, now, 2)[0].slowest, PipelineLoad::kUnknown);
}

TEST(PipelineLoads, TheSlowestStageIsFullBeforeAndStarvesBehind) {
  EXPECT_EQ(SlowestOf(Chain({{0, 95}, {0, 99}, {1, 98}})), 0);
  EXPECT_EQ(SlowestOf(Chain({{90, 0}, {0, 99}, {1, 98}})), 1);
  EXPECT_EQ(SlowestOf(Chain({{90, 0}, {80, 3}, {1, 98}})), 2);
  // All are full: what takes the elements is slow.
  EXPECT_EQ(SlowestOf(Chain({{90, 0}, {80, 3}, {70, 2}})), 3);
  // A hold-up in the middle that the end does not feel.
  EXPECT_EQ(SlowestOf(Chain({{90, 0}, {0, 99}, {70, 2}})), 3);
  // Nothing moves, or nothing waits.
  EXPECT_EQ(SlowestOf(Chain({{0, 0}, {0, 0}})), PipelineLoad::kUnknown);
}

TEST(PipelineLoads, TheEmptierOfTwoInputsIsFollowed) {
  auto zip = Chain({{0, 20}, {0, 70}, {0, 95}});
  zip[1].inputs = {};
  zip[2].inputs = {0, 1};
  EXPECT_EQ(SlowestOf(zip), 1);
  zip[1].full_ns = kSecond;
  zip[1].starving_ns = 0;
  EXPECT_EQ(SlowestOf(zip), 0);
}

TEST(PipelineLoads, CountersOfAnotherTaskMayBeNonsense) {
  auto round = Chain({{0, 90}, {0, 90}});
  round[0].inputs = {1, 0, -7, 99};
  round[1].inputs = {0};
  EXPECT_GE(SlowestOf(round), 0);
  round[0].elements = INT64_MAX;
  round[0].full_ns = INT64_MIN;
  round[0].starving_ns = INT64_MAX;
  auto before = Before(round);
  before[0].elements = INT64_MIN;
  before[0].starving_ns = INT64_MIN;
  const StageLoad load = PipelineLoads(before, round, 1)[0].stages[0];
  EXPECT_GE(load.full, 0);
  EXPECT_LE(load.starving, 1);
}

TEST(PipelineLoads, PipelinesAndStagesHaveAnOrder) {
  auto now = Chain({{0, 0}, {0, 0}});
  std::swap(now[0], now[1]);
  now.push_back(now[0]);
  now.back().pipeline = "a";
  const auto loads = PipelineLoads({}, now, 0);
  ASSERT_EQ(loads.size(), 2u);
  EXPECT_EQ(loads[0].name, "a");
  EXPECT_EQ(loads[1].name, "input");
  EXPECT_EQ(loads[1].stages[0].now.stage, "s0");
  EXPECT_EQ(loads[1].stages[1].now.stage, "s1");
}

}  // namespace
}  // namespace sluice
