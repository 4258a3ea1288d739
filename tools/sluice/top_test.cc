// sluice top: rates, lost tasks and stragglers, as text and as JSON.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "tools/sluice/top_table.h"

namespace sluice::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TaskState TopTask(const std::string& job, int number, int64_t p50_ms = 10) {
  TaskState t;
  t.task = absl::StrCat("/job:", job, "/replica:0/task:", number);
  t.address = "h:1";
  t.incarnation = 0x1234567890abcdef;
  t.devices = 1;
  t.clock_ns = 5'000'000'000;
  t.started_ns = 1'000'000'000;
  t.steps = t.recent_steps = 100;
  t.step_p50_ns = p50_ms * 1'000'000;
  t.step_p95_ns = 2 * t.step_p50_ns;
  return t;
}

TEST(Top, RatesUseTheTaskClock) {
  TaskState before = TopTask("worker", 0), now = before;
  now.clock_ns += 500'000'000;
  now.steps += 50;
  now.bytes_sent += 1'000'000;
  now.bytes_received += 3'000'000;
  now.cpu_ns += 250'000'000;
  const auto rows = TopRows({before}, {now});
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].state, TopRow::kUp);
  EXPECT_DOUBLE_EQ(rows[0].steps_per_s, 100);
  EXPECT_DOUBLE_EQ(rows[0].sent_per_s, 2e6);
  EXPECT_DOUBLE_EQ(rows[0].received_per_s, 6e6);
  EXPECT_DOUBLE_EQ(rows[0].cores, 0.5);
  // The first sample, and one taken too soon after it.
  EXPECT_EQ(TopRows({}, {now})[0].steps_per_s, 0);
  EXPECT_EQ(TopRows({now}, {now})[0].steps_per_s, 0);
}

TEST(Top, LostAndRestartedTasksAreMarked) {
  TaskState silent = TopTask("ps", 0);
  silent.error = "task: no answer";
  TaskState fresh = TopTask("worker", 2);
  fresh.incarnation = 7;
  fresh.steps = 1;
  const auto rows =
      TopRows({TopTask("worker", 10), TopTask("worker", 2), TopTask("ps", 0)},
              {fresh, silent});
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].seen.task, "/job:ps/replica:0/task:0");
  EXPECT_EQ(rows[0].state, TopRow::kLost);
  EXPECT_EQ(rows[1].state, TopRow::kRestarted);
  EXPECT_EQ(rows[1].steps_per_s, 0);
  EXPECT_EQ(rows[2].seen.task, "/job:worker/replica:0/task:10");
  EXPECT_EQ(rows[2].state, TopRow::kLost);
  const std::string table = TopTable(rows, false);
  EXPECT_THAT(table, HasSubstr("task: no answer"));
  EXPECT_THAT(table, HasSubstr("no longer registered"));
  EXPECT_THAT(table, HasSubstr("worker:2 "));
  EXPECT_THAT(table, Not(HasSubstr("\x1b")));
  EXPECT_THAT(TopTable(rows, true), HasSubstr("\x1b[31m"));
}

TEST(Top, StragglersAreMarkedWithinTheirJob) {
  const auto marked = [](std::vector<TaskState> tasks,
                         std::vector<double> cores = {}) {
    std::vector<TopRow> rows = TopRows({}, tasks);
    for (size_t i = 0; i < cores.size(); ++i) rows[i].cores = cores[i];
    MarkStragglers(&rows);
    std::vector<std::string> notes;
    for (const TopRow& r : rows) notes.push_back(r.straggler);
    return notes;
  };
  // (A ps does other work and is the only one.)
  auto notes = marked({TopTask("ps", 0, 100), TopTask("worker", 0),
                       TopTask("worker", 1, 31), TopTask("worker", 2, 11)});
  EXPECT_EQ(notes[0], "");
  EXPECT_EQ(notes[1], "");
  EXPECT_THAT(notes[2], HasSubstr("slow: steps take 3.0 times"));
  EXPECT_EQ(notes[3], "");
  // Two: the slower one.
  notes = marked({TopTask("worker", 0, 20), TopTask("worker", 1, 10)});
  EXPECT_THAT(notes[0], HasSubstr("2.0 times"));
  EXPECT_EQ(notes[1], "");
  // It has too few steps.
  TaskState young = TopTask("worker", 1, 90);
  young.recent_steps = kEnoughSteps - 1;
  notes = marked({TopTask("worker", 0), young});
  EXPECT_EQ(notes[1], "");
  // Only sometimes slow.
  TaskState uneven = TopTask("worker", 1);
  uneven.step_p95_ns *= 4;
  notes = marked({TopTask("worker", 0), uneven});
  EXPECT_THAT(notes[1], HasSubstr("uneven: p95 is 4.0 times"));
  // All wait for one task.
  notes =
      marked({TopTask("worker", 0), TopTask("worker", 1), TopTask("worker", 2)},
             {0.2, 0.98, 0.3});
  EXPECT_EQ(notes[0], "");
  EXPECT_THAT(notes[1], HasSubstr("busy: 1.0 cores"));
}

TEST(Top, TableHasAColumnForEachMetric) {
  const TaskState first = TopTask("worker", 0), second = TopTask("worker", 1);
  TaskState fast = first, slow = second, lost = TopTask("ps", 0);
  fast.clock_ns += 2'000'000'000;
  fast.steps += 250;
  fast.bytes_sent += 3'000'000;
  fast.bytes_received += 2'048;
  fast.cpu_ns += 400'000'000;
  fast.live_bytes = 123'456'789;
  fast.sessions = 2;
  fast.running_steps = 1;
  slow.clock_ns += 3'600'000'000'000;
  slow.steps += 3'600;
  slow.failed_steps = 7;
  slow.step_p50_ns = 1'500'000'000;
  slow.step_p95_ns = 2'500'000'000;
  lost.error = "no answer";
  std::vector<TopRow> rows = TopRows({first, second}, {slow, lost, fast});
  MarkStragglers(&rows);
  EXPECT_EQ(
      TopTable(rows, false),
      "TASK      STATE  INCARNATION     AGE  SESS  RUN  STEPS/S      P50      "
      "P95    IN/S   OUT/S  MEMORY  CORES  STEPS  FAILED\n"
      "ps:0      lost   12345678     no answer\n"
      "worker:0  up     12345678        6 s     2    1      125  10.0 ms  20.0 "
      "ms  1.0 kB  1.5 MB  123 MB   0.20    350       0\n"
      "worker:1  up     12345678     1 h 00     0    0      1.0    1.5 s    "
      "2.5 s     0 B     0 B     0 B   0.00   3700       7  "
      "slow: steps take 150.0 times the others'\n");
}

TEST(Top, PipelinesShowRatesQueuesAndTheSlowestStage) {
  const auto stage = [](const char* name, int64_t number, int64_t elements,
                        int64_t ready, int64_t full_ms, int64_t starving_ms) {
    return StageCounters{.pipeline = "input",
                         .stage = name,
                         .number = number,
                         .inputs = number == 0
                                       ? std::vector<int64_t>{}
                                       : std::vector<int64_t>{number - 1},
                         .elements = elements,
                         .ready = ready,
                         .capacity = 32,
                         .full_ns = full_ms * 1'000'000,
                         .starving_ns = starving_ms * 1'000'000};
  };
  TaskState before = TopTask("worker", 0), now = before;
  EXPECT_EQ(PipelineTable(TopRows({before}, {now}), false), "");
  now.clock_ns += 2'000'000'000;
  before.stages = {stage("records", 0, 0, 0, 0, 0),
                   stage("map", 1, 0, 0, 0, 0)};
  now.stages = {stage("records", 0, 2500, 32, 1900, 0),
                stage("map\x1b", 1, 2470, 2, 10, 1800)};
  before.stages[1].stage = now.stages[1].stage;
  auto rows = TopRows({before}, {now});
  EXPECT_EQ(
      PipelineTable(rows, false),
      "PIPELINE  TASK      STAGE    ELEMENTS/S  QUEUE               FULL  "
      "STARVED  ELEMENTS\n"
      "input     worker:0  records        1250  [##########] 32/32   95%  "
      "     0%      2500\n"
      "                    map?           1235  [#.........] 2/32     0%  "
      "    90%      2470  slowest\n");
  EXPECT_THAT(PipelineTable(rows, true), HasSubstr("\x1b[33m"));
  const auto json = nlohmann::json::parse(TopJson(rows), nullptr, false);
  const auto& pipeline = json["tasks"][0]["pipelines"][0];
  EXPECT_EQ(pipeline["slowest"], "map\x1b");
  EXPECT_EQ(pipeline["stages"][0]["elements_per_s"], 1250);
  EXPECT_EQ(pipeline["stages"][0]["capacity"], 32);
  // Nothing holds up the last stage but what takes its elements.
  std::swap(now.stages[1].full_ns, now.stages[1].starving_ns);
  rows = TopRows({before}, {now});
  EXPECT_THAT(PipelineTable(rows, false),
              HasSubstr("2470  slowest: what takes these\n"));
  EXPECT_TRUE(
      nlohmann::json::parse(TopJson(rows), nullptr,
                            false)["tasks"][0]["pipelines"][0]["slowest"]
          .is_null());
  // Names that are no text.
  now.stages[0].pipeline = "\xff";
  EXPECT_THAT(TopJson(TopRows({before}, {now})), HasSubstr("pipelines"));
}

TEST(Top, OutputIsCutToTheScreenSize) {
  EXPECT_EQ(FitScreen("abc\nabcd\n\n\x1b[31mabcde\x1b[0m\nx\n", 4, 5),
            "abc\nabcd\n\n\x1b[31mabcd\x1b[0m\nx");
  EXPECT_EQ(FitScreen("a\nb\nc\nd\ne\n", 80, 4), "a\nb\nc\nand 2 more");
  EXPECT_EQ(FitScreen("äöü", 2, 1), "äö");
  EXPECT_EQ(FitScreen("", 80, 24), "");
}

TEST(Top, JsonContainsAllFields) {
  TaskState lost = TopTask("ps", 0);
  lost.error = "gone \"so\"";
  std::vector<TopRow> rows =
      TopRows({}, {lost, TopTask("worker", 0, 10), TopTask("worker", 1, 40)});
  MarkStragglers(&rows);
  const std::string text = TopJson(rows);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
  const auto json = nlohmann::json::parse(text, nullptr, false);
  ASSERT_EQ(json["tasks"].size(), 3u);
  EXPECT_EQ(json["tasks"][0]["state"], "lost");
  EXPECT_EQ(json["tasks"][0]["error"], "gone \"so\"");
  EXPECT_EQ(json["tasks"][1]["state"], "up");
  EXPECT_EQ(json["tasks"][1]["incarnation"], "1234567890abcdef");
  EXPECT_EQ(json["tasks"][1]["age_s"], 4.0);
  EXPECT_EQ(json["tasks"][2]["step_p50_s"], 0.04);
  EXPECT_TRUE(json["tasks"][2].contains("straggler"));
  EXPECT_FALSE(json["tasks"][1].contains("straggler"));
}

}  // namespace
}  // namespace sluice::cli
