#include "tools/board/event_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <thread>

#include "io/proto/step_stats.pb.h"
#include "summary/event_writer.h"
#include "tools/board/answers.h"
#include "tools/board/projection.h"
#include "tools/board/timeline.h"

namespace sluice::board {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A folder that is removed again, and a log of it.
class EventLogTest : public ::testing::Test {
 protected:
  EventLogTest()
      : folder_((std::filesystem::temp_directory_path() /
                 ("sluice_board_log_" + std::to_string(getpid())))
                    .string()) {
    std::filesystem::create_directories(folder_);
  }
  ~EventLogTest() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<EventWriter> Open(const std::string& run) {
    auto writer = EventWriter::Open(folder_ + "/" + run);
    EXPECT_TRUE(writer.ok()) << writer.status();
    return *std::move(writer);
  }
  std::vector<int64_t> Steps(const std::string& run, const std::string& tag) {
    const auto points = log().Scalars(run, tag);
    EXPECT_TRUE(points.ok()) << points.status();
    std::vector<int64_t> steps;
    if (points.ok())
      for (const Scalar& p : *points) steps.push_back(p.step);
    return steps;
  }
  EventLog& log() {
    if (log_ == nullptr) log_ = std::make_unique<EventLog>(folder_, limits_);
    return *log_;
  }

  const std::string folder_;
  EventLogLimits limits_;
  std::unique_ptr<EventLog> log_;
};

TEST_F(EventLogTest, ReadsWhatIsAddedWhileItIsOpen) {
  const auto writer = Open("train");
  ASSERT_TRUE(writer->AddScalar("loss", 0.5, 1).ok());
  ASSERT_TRUE(writer->Flush().ok());
  log().Refresh();
  EXPECT_THAT(Steps("train", "loss"), ElementsAre(1));
  const uint64_t before = log().version();
  log().Refresh();
  EXPECT_EQ(log().version(), before);  // Nothing was added.
  ASSERT_TRUE(writer->AddScalar("loss", 0.25, 2).ok());
  ASSERT_TRUE(writer->Flush().ok());
  const auto other = Open("deep/eval");
  ASSERT_TRUE(other->AddScalar("loss", 0.75, 7).ok());
  ASSERT_TRUE(other->Flush().ok());
  log().Refresh();
  EXPECT_THAT(Steps("train", "loss"), ElementsAre(1, 2));
  EXPECT_THAT(Steps("deep/eval", "loss"), ElementsAre(7));
  const LogState state = log().State();
  EXPECT_GT(state.version, before);
  ASSERT_EQ(state.runs.size(), 2u);
  EXPECT_EQ(state.runs[0].name, "deep/eval");
  EXPECT_EQ(state.runs[1].last_step, 2);
  EXPECT_EQ(log().Scalars("train", "loss")->back().value, 0.25);
}

TEST_F(EventLogTest, CallsTheFolderItselfARun) {
  const auto writer = EventWriter::Open(folder_);
  ASSERT_TRUE((*writer)->AddScalar("loss", 1, 1).ok());
  ASSERT_TRUE((*writer)->Close().ok());
  log().Refresh();
  EXPECT_THAT(Steps(".", "loss"), ElementsAre(1));
}

TEST_F(EventLogTest, KnowsAllKindsOfValues) {
  const auto writer = Open("r");
  EXPECT_TRUE(writer->AddHistogram("h", Tensor::Vector({1.0f, 2.0f}), 1).ok());
  EXPECT_TRUE(
      writer->AddImages("i", *Tensor::Zeros(DType::kUint8, {1, 2, 2, 3}), 1, 1)
          .ok());
  EXPECT_TRUE(
      writer->AddAudio("a", *Tensor::Zeros(DType::kFloat, {1, 4}), 8000, 1, 1)
          .ok());
  EXPECT_TRUE(writer->AddText("t", Tensor::Scalar<std::string>("hi"), 1).ok());
  EXPECT_TRUE(writer->AddText("t", Tensor::Scalar<std::string>("ho"), 2).ok());
  EXPECT_TRUE(writer->AddRunMetadata("p", "", 1).ok());
  EXPECT_TRUE(writer->AddGraph("graph").ok());
  // As TensorFlow 2 writes scalars.
  proto::Summary two;
  proto::Summary::Value* v = two.add_value();
  v->set_tag("s2");
  v->mutable_metadata()->mutable_plugin_data()->set_plugin_name("scalars");
  v->mutable_tensor()->set_dtype(proto::DT_FLOAT);
  v->mutable_tensor()->add_float_val(3.5f);
  EXPECT_TRUE(writer->AddSummary(two.SerializeAsString(), 1).ok());
  EXPECT_TRUE(writer->Close().ok());
  log().Refresh();
  for (const auto& [kind, tag] : std::vector<std::pair<TagKind, std::string>>{
           {TagKind::kHistograms, "h"},
           {TagKind::kImages, "i/image"},
           {TagKind::kAudio, "a/audio"},
           {TagKind::kText, "t"},
           {TagKind::kProfiles, "p"}})
    EXPECT_TRUE(log().Values(kind, "r", tag).ok()) << tag;
  EXPECT_EQ(log().Values(TagKind::kText, "r", "t")->size(), 2u);
  EXPECT_EQ(log().Scalars("r", "s2")->at(0).value, 3.5);
  EXPECT_EQ(*log().Graph("r"), "graph");
}

TEST_F(EventLogTest, KeepsEvenlySpacedPointsAndTheLastOne) {
  limits_.scalars = 100;
  const auto writer = Open("r");
  for (int64_t step = 0; step < 12345; ++step)
    ASSERT_TRUE(writer->AddScalar("loss", 1, step).ok());
  ASSERT_TRUE(writer->Close().ok());
  log().Refresh();
  const std::vector<int64_t> steps = Steps("r", "loss");
  EXPECT_GE(steps.size(), 50u);
  EXPECT_LE(steps.size(), 101u);
  EXPECT_EQ(steps.front(), 0);
  EXPECT_EQ(steps.back(), 12344);
  for (size_t i = 2; i + 1 < steps.size(); ++i)
    EXPECT_EQ(steps[i] - steps[i - 1], steps[1] - steps[0]);
  EXPECT_EQ(log().State().runs[0].tags[0].values, 12345);
}

TEST_F(EventLogTest, ReplacesWhatARestartLogsAgain) {
  {
    const auto writer = Open("r");
    for (int64_t step = 0; step < 10; ++step)
      ASSERT_TRUE(writer->AddScalar("loss", 1, step).ok());
    ASSERT_TRUE(writer->AddScalar("other", 1, 9).ok());
    ASSERT_TRUE(writer->Close().ok());
  }
  log().Refresh();
  EXPECT_EQ(Steps("r", "loss").size(), 10u);
  const auto writer = Open("r");
  ASSERT_TRUE(writer->AddScalar("loss", 2, 4).ok());
  ASSERT_TRUE(writer->AddScalar("loss", 2, 5).ok());
  ASSERT_TRUE(writer->Flush().ok());
  log().Refresh();
  EXPECT_THAT(Steps("r", "loss"), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_EQ(log().Scalars("r", "loss")->at(4).value, 2);
  EXPECT_THAT(Steps("r", "other"), ElementsAre(9));  // Not logged again.
  ASSERT_TRUE(writer->AddSession(SessionEvent::kStart, "", 3).ok());
  ASSERT_TRUE(writer->Flush().ok());
  log().Refresh();
  EXPECT_THAT(Steps("r", "loss"), ElementsAre(0, 1, 2));
  EXPECT_THAT(Steps("r", "other"), ElementsAre());
}

TEST_F(EventLogTest, KeepsStepsThatOneFileHasOutOfOrder) {
  const auto writer = Open("r");
  for (const int64_t step : {5, 3, 4})
    ASSERT_TRUE(writer->AddScalar("loss", 1, step).ok());
  ASSERT_TRUE(writer->Close().ok());
  log().Refresh();
  EXPECT_THAT(Steps("r", "loss"), ElementsAre(5, 3, 4));
}

TEST_F(EventLogTest, NamesACorruptFileAndReadsTheOthers) {
  std::string path;
  {
    const auto bad = Open("bad");
    for (int64_t step = 0; step < 3; ++step)
      ASSERT_TRUE(bad->AddScalar("loss", 1, step).ok());
    ASSERT_TRUE(bad->Close().ok());
    path = bad->path();
  }
  const auto good = Open("good");
  ASSERT_TRUE(good->AddScalar("loss", 1, 1).ok());
  ASSERT_TRUE(good->Close().ok());
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-6, std::ios::end);  // In the last event.
  file.put('\x55');
  file.close();
  log().Refresh();
  EXPECT_THAT(Steps("bad", "loss"), ElementsAre(0, 1));
  EXPECT_THAT(Steps("good", "loss"), ElementsAre(1));
  const LogState state = log().State();
  ASSERT_EQ(state.runs[0].problems.size(), 1u);
  EXPECT_THAT(state.runs[0].problems[0], HasSubstr(path));
  EXPECT_THAT(state.runs[0].problems[0], HasSubstr("checksum"));
  EXPECT_TRUE(state.runs[1].problems.empty());
}

TEST_F(EventLogTest, WaitsForTheRestOfAnEvent) {
  std::string path, bytes;
  {
    const auto writer = Open("r");
    ASSERT_TRUE(writer->AddScalar("loss", 1, 1).ok());
    ASSERT_TRUE(writer->Close().ok());
    path = writer->path();
  }
  std::ifstream in(path, std::ios::binary);
  bytes.assign(std::istreambuf_iterator<char>(in), {});
  std::filesystem::resize_file(path, bytes.size() - 5);
  log().Refresh();
  EXPECT_FALSE(log().Scalars("r", "loss").ok());
  EXPECT_TRUE(log().State().runs[0].problems.empty());
  std::ofstream(path, std::ios::binary) << bytes;
  log().Refresh();
  EXPECT_THAT(Steps("r", "loss"), ElementsAre(1));
}

TEST_F(EventLogTest, ForgetsRunsWhoseFilesAreRemoved) {
  const auto writer = Open("r");
  ASSERT_TRUE(writer->AddScalar("loss", 1, 1).ok());
  ASSERT_TRUE(writer->Close().ok());
  log().Refresh();
  ASSERT_EQ(log().State().runs.size(), 1u);
  std::filesystem::remove_all(folder_ + "/r");
  log().Refresh();
  EXPECT_TRUE(log().State().runs.empty());
}

TEST_F(EventLogTest, KeepsRunsThatAStoppedRefreshDoesNotSee) {
  const auto writer = Open("r");
  ASSERT_TRUE(writer->AddScalar("loss", 1, 1).ok());
  ASSERT_TRUE(writer->Close().ok());
  log().Refresh();
  log().Stop();
  log().Refresh();
  EXPECT_THAT(Steps("r", "loss"), ElementsAre(1));
}

TEST_F(EventLogTest, KeepsRunsWhileOtherFoldersComeAndGo) {
  for (const char* run : {"a", "b/c", "d"}) {
    const auto writer = Open(run);
    ASSERT_TRUE(writer->AddScalar("loss", 1, 1).ok());
    ASSERT_TRUE(writer->Close().ok());
  }
  log().Refresh();
  const uint64_t before = log().version();
  const std::jthread saver([this](const std::stop_token& done) {
    while (!done.stop_requested())
      for (const bool there : {true, false})
        for (int i = 0; i < 300; ++i) {
          const std::string part = folder_ + "/b/part" + std::to_string(i);
          if (there)
            std::filesystem::create_directory(part);
          else
            std::filesystem::remove(part);
        }
  });
  for (int i = 0; i < 300; ++i) {
    log().Refresh();
    ASSERT_EQ(log().version(), before) << log().State().problem;
  }
}

TEST_F(EventLogTest, SaysWhyThereIsNothing) {
  EventLog none(folder_ + "/none");
  none.Refresh();
  EXPECT_THAT(none.State().problem, HasSubstr("none'"));
  EXPECT_THAT(none.State().problem, HasSubstr("found nothing"));
  std::ofstream(folder_ + "/file") << "text";
  EventLog file(folder_ + "/file");
  file.Refresh();
  EXPECT_THAT(file.State().problem, HasSubstr("found a file"));
  log().Refresh();
  EXPECT_EQ(log().State().problem, "");
  EXPECT_FALSE(log().State().loading);
}

TEST_F(EventLogTest, LeavesOutTagsBeyondTheLimit) {
  limits_.tags_per_run = 5;
  const auto writer = Open("r");
  for (int i = 0; i < 8; ++i)
    ASSERT_TRUE(writer->AddScalar("tag" + std::to_string(i), 1, 1).ok());
  ASSERT_TRUE(writer->Close().ok());
  log().Refresh();
  const RunState run = log().State().runs[0];
  EXPECT_EQ(run.tags.size(), 5u);
  ASSERT_EQ(run.problems.size(), 1u);
  EXPECT_THAT(run.problems[0], HasSubstr("at most 5 tags"));
}

TEST_F(EventLogTest, CanBeReadWhileItIsRefreshed) {
  const auto writer = Open("r");
  EventLog& shared = log();
  const std::jthread reader([&shared](const std::stop_token& done) {
    while (!done.stop_requested()) {
      shared.State();
      if (const auto points = shared.Scalars("r", "loss"); points.ok()) {
        for (size_t i = 0; i < points->size(); ++i)
          ASSERT_EQ((*points)[i].step, static_cast<int64_t>(i));
      }
    }
  });
  for (int64_t step = 0; step < 2000; ++step) {
    ASSERT_TRUE(writer->AddScalar("loss", 1, step).ok());
    if (step % 100 == 0) {
      ASSERT_TRUE(writer->Flush().ok());
      shared.Refresh();
    }
  }
}

TEST_F(EventLogTest, SpreadsHistogramsOverTheSameBuckets) {
  const auto writer = Open("r");
  ASSERT_TRUE(
      writer->AddHistogram("h", Tensor::Vector({0.0f, 0.0f, 1.0f}), 1).ok());
  ASSERT_TRUE(writer->AddHistogram("h", Tensor::Vector({-3.0f, 3.0f}), 2).ok());
  ASSERT_TRUE(writer->Close().ok());
  log().Refresh();
  const auto h = HistogramsJson(log(), "r", "h");
  ASSERT_TRUE(h.ok()) << h.status();
  EXPECT_DOUBLE_EQ((*h)["low"].get<double>(), -3);
  EXPECT_DOUBLE_EQ((*h)["high"].get<double>(), 3);
  ASSERT_EQ((*h)["rows"].size(), 2u);
  for (int row = 0; row < 2; ++row) {
    double sum = 0;
    for (const auto& c : (*h)["rows"][row]["counts"]) sum += c.get<double>();
    EXPECT_NEAR(sum, row == 0 ? 3 : 2, 1e-6);
  }
  // Nothing of the first row is below -1 or above 2.
  const auto& first = (*h)["rows"][0]["counts"];
  for (size_t i = 0; i < first.size(); ++i) {
    const double x = -3 + 6.0 * static_cast<double>(i) / 60;
    if (x < -1 || x > 2) {
      EXPECT_EQ(first[i].get<double>(), 0) << x;
    }
  }
}

// Writes a histogram of two values and returns the board's.
nlohmann::json HistogramOf(EventWriter* writer, EventLog* log, double low,
                           double high) {
  proto::Summary summary;
  proto::Summary::Value* v = summary.add_value();
  v->set_tag("h");
  proto::HistogramProto* h = v->mutable_histo();
  h->set_min(low);
  h->set_max(high);
  for (const double limit : {low, high}) {
    h->add_bucket_limit(limit);
    h->add_bucket(1);
  }
  EXPECT_TRUE(writer->AddSummary(summary.SerializeAsString(), 1).ok());
  EXPECT_TRUE(writer->Close().ok());
  log->Refresh();
  const auto got = HistogramsJson(*log, "r", "h");
  EXPECT_TRUE(got.ok()) << got.status();
  return got.ok() ? *got : nlohmann::json();
}

TEST_F(EventLogTest, SpreadsHistogramsWhoseRangeOverflows) {
  const nlohmann::json h =
      HistogramOf(Open("r").get(), &log(), -1.5e308, 1.5e308);
  const auto& counts = h["rows"][0]["counts"];
  ASSERT_EQ(counts.size(), 60u);
  EXPECT_NEAR(counts[0].get<double>(), 1 + 1.0 / 60, 1e-9);
  for (size_t i = 1; i < 60; ++i)
    EXPECT_NEAR(counts[i].get<double>(), 1.0 / 60, 1e-9) << i;
}

TEST_F(EventLogTest, SpreadsHistogramsWhoseWidthUnderflows) {
  const nlohmann::json h = HistogramOf(Open("r").get(), &log(), 0, 5e-324);
  double sum = 0;
  for (const auto& c : h["rows"][0]["counts"]) sum += c.get<double>();
  EXPECT_NEAR(sum, 2, 1e-9);
}

TEST_F(EventLogTest, RejectsTensorsThatAreFarLargerThanTheirRecords) {
  const auto writer = Open("r");
  const auto add = [&](const char* tag, const char* plugin,
                       proto::DataType type, std::vector<int64_t> dims) {
    proto::Summary summary;
    proto::Summary::Value* v = summary.add_value();
    v->set_tag(tag);
    v->mutable_metadata()->mutable_plugin_data()->set_plugin_name(plugin);
    v->mutable_tensor()->set_dtype(type);
    for (const int64_t dim : dims)
      v->mutable_tensor()->mutable_tensor_shape()->add_dim()->set_size(dim);
    ASSERT_TRUE(writer->AddSummary(summary.SerializeAsString(), 1).ok());
  };
  add("s", "scalars", proto::DT_FLOAT, {1 << 26});
  add("h", "histograms", proto::DT_DOUBLE, {1 << 22, 3});
  add("i", "images", proto::DT_STRING, {1 << 22});
  add("t", "text", proto::DT_STRING, {1 << 22});
  add("p", "projector", proto::DT_FLOAT, {1 << 23, 3});
  ASSERT_TRUE(writer->Close().ok());
  Allocator::Cpu()->ResetPeak();
  const int64_t before = Allocator::Cpu()->stats().peak_bytes;
  log().Refresh();
  EXPECT_TRUE(std::isnan(log().Scalars("r", "s")->at(0).value));
  for (const auto& answer :
       {HistogramsJson(log(), "r", "h"), TextJson(log(), "r", "t"),
        ValuesJson(log(), TagKind::kImages, "r", "i"),
        ProjectionJson(log(), "r", "p", 0)})
    EXPECT_EQ(answer.status().code(), StatusCode::kResourceExhausted)
        << answer.status();
  EXPECT_EQ(BlobOf(log(), TagKind::kImages, "r", "i", 0, 0).status().code(),
            StatusCode::kResourceExhausted);
  EXPECT_LT(Allocator::Cpu()->stats().peak_bytes - before, 1 << 20);
}

TEST_F(EventLogTest, GivesNumbersThatJsonLacksAsStrings) {
  const auto writer = Open("r");
  const double inf = HUGE_VAL;
  for (const double v : {1.0, std::nan(""), inf, -inf})
    ASSERT_TRUE(writer->AddScalar("loss", v, 1).ok());
  ASSERT_TRUE(writer->Close().ok());
  log().Refresh();
  const auto s = ScalarsJson(log(), "loss", {"r", "absent"});
  ASSERT_TRUE(s.ok()) << s.status();
  EXPECT_EQ((*s)["runs"]["r"]["value"].dump(),
            R"([1.0,"NaN","Infinity","-Infinity"])");
}

TEST(Thinned, GoesOnAfterPointsWereDropped) {
  Thinned<Scalar> t(8);
  for (int64_t i = 0; i < 21; ++i) t.Add({i, 0, 0});
  EXPECT_EQ(t.Points().back().step, 20);
  t.DropFrom(9);
  EXPECT_LT(t.Points().back().step, 9);
  const size_t n = t.Points().size();
  t.Add({9, 0, 0});
  EXPECT_EQ(t.Points().back().step, 9);
  EXPECT_EQ(t.Points().size(), n + 1);
  t.DropFrom(0);
  EXPECT_TRUE(t.Points().empty());
  EXPECT_EQ(t.last(), nullptr);
  for (int64_t i = 0; i < 5; ++i) t.Add({i, 0, 0});
  EXPECT_EQ(t.Points().size(), 5u);  // As if it were new.
}

// ---- Projections ------------------------------------------------------------

TEST(Projection, FindsTheDirectionsOfTheMostVariance) {
  // Points on a line in three dimensions, and a little across it.
  Tensor m(DType::kDouble, {40, 3});
  for (int64_t i = 0; i < 40; ++i) {
    const double along = static_cast<double>(i) - 19.5;
    const double across = i % 2 == 0 ? 0.5 : -0.5;
    m.flat<double>()[3 * i] = 100 + 0.6 * along - 0.8 * across;
    m.flat<double>()[3 * i + 1] = -7 + 0.8 * along + 0.6 * across;
    m.flat<double>()[3 * i + 2] = 4;
  }
  const auto p = ProjectRows(m);
  ASSERT_TRUE(p.ok()) << p.status();
  for (size_t i = 0; i < 40; ++i)
    EXPECT_NEAR(p->x[i], static_cast<double>(i) - 19.5, 0.02);
  EXPECT_NEAR(std::abs(p->y[7]), 0.5, 0.05);
  EXPECT_NEAR(p->x_variance + p->y_variance, 1, 1e-9);
  EXPECT_GT(p->x_variance, 0.99);
}

TEST(Projection, TakesWhatHasNoVariance) {
  for (const auto& dims : std::vector<std::vector<int64_t>>{
           {0, 3}, {3, 0}, {1, 1}, {5, 1}, {1, 5}}) {
    const auto p = ProjectRows(*Tensor::Zeros(DType::kFloat, Shape(dims)));
    ASSERT_TRUE(p.ok()) << p.status();
    EXPECT_EQ(p->x, std::vector<double>(static_cast<size_t>(dims[0]), 0));
  }
}

TEST(Projection, RejectsWhatIsNoFiniteMatrix) {
  Tensor m = *Tensor::Zeros(DType::kFloat, {3, 2});
  m.flat<float>()[4] = NAN;
  EXPECT_THAT(std::string(ProjectRows(m).status().message()),
              HasSubstr("in row 2"));
  EXPECT_FALSE(ProjectRows(Tensor(DType::kFloat, {3})).ok());
  EXPECT_FALSE(ProjectRows(Tensor(DType::kInt32, {3, 2})).ok());
}

// ---- Timelines --------------------------------------------------------------

std::string RunMetadataOf(const proto::StepStats& stats) {
  const std::string bytes = stats.SerializeAsString();
  EXPECT_LT(bytes.size(), 128u * 128);
  std::string out = "\x0a";
  out += static_cast<char>((bytes.size() & 127) | 128);
  out += static_cast<char>(bytes.size() >> 7);
  return out + bytes;
}

TEST(Timeline, HasARowForEachThreadAndForWhatOverlaps) {
  proto::StepStats stats;
  auto* device = stats.add_dev_stats();
  device->set_device("/device:CPU:0");
  const auto add = [&](const char* name, int64_t start, int64_t us,
                       uint32_t thread) {
    auto* n = device->add_node_stats();
    n->set_node_name(name);
    n->set_timeline_label(std::string(name) + " = MatMul(a, b)");
    n->set_all_start_micros(1000 + start);
    n->set_all_end_rel_micros(us);
    n->set_thread_id(thread);
  };
  add("late", 50, 10, 1);
  add("early", 0, 20, 1);
  add("within", 5, 5, 1);
  add("other", 7, 100, 2);
  const auto t = TimelineOf(RunMetadataOf(stats));
  ASSERT_TRUE(t.ok()) << t.status();
  EXPECT_EQ(t->us, 107);
  ASSERT_EQ(t->rows.size(), 3u);
  ASSERT_EQ(t->rows[0].bars.size(), 2u);
  EXPECT_EQ(t->rows[0].bars[0].node, "early");
  EXPECT_EQ(t->rows[0].bars[1].start_us, 50);
  EXPECT_EQ(t->rows[0].bars[1].op, "MatMul");
  EXPECT_EQ(t->rows[1].bars[0].node, "within");
  EXPECT_EQ(t->rows[1].thread, "thread 1");
  EXPECT_EQ(t->rows[2].bars[0].node, "other");
  EXPECT_EQ(TimelineOf(RunMetadataOf(stats), 3)->left_out, 1);
}

TEST(Timeline, TakesTimesAndSizesNearTheLimitsOf64Bits) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  proto::StepStats stats;
  auto* device = stats.add_dev_stats();
  const auto add = [&](int64_t start, int64_t us) {
    auto* n = device->add_node_stats();
    n->set_all_start_micros(start);
    n->set_all_end_rel_micros(us);
    for (int i = 0; i < 2; ++i)
      n->add_output()
          ->mutable_tensor_description()
          ->mutable_allocation_description()
          ->set_requested_bytes(kMost - 1);
  };
  add(-kMost, kMost);
  add(kMost, kMost);
  const auto t = TimelineOf(RunMetadataOf(stats));
  ASSERT_TRUE(t.ok()) << t.status();
  EXPECT_DOUBLE_EQ(t->us, 3 * std::ldexp(1, 63));
  ASSERT_EQ(t->rows.size(), 1u);
  ASSERT_EQ(t->rows[0].bars.size(), 2u);
  EXPECT_EQ(t->rows[0].bars[0].start_us, 0);
  EXPECT_DOUBLE_EQ(t->rows[0].bars[0].us, std::ldexp(1, 63));
  EXPECT_DOUBLE_EQ(t->rows[0].bars[1].start_us, std::ldexp(1, 64));
  EXPECT_EQ(t->rows[0].bars[1].output_bytes, kMost);
}

TEST(Timeline, RejectsWhatHasNoTimes) {
  EXPECT_EQ(TimelineOf("").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(TimelineOf("\x0a\x05xx").status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(TimelineOf(std::string("\x0a\x02\xff\xff", 4)).status().code(),
            StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace sluice::board
