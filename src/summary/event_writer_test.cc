#include "summary/event_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <random>
#include <thread>

#include "io/file.h"
#include "io/records.h"
#include "summary/event_reader.h"
#include "summary/histogram.h"
#include "summary/proto/summary.pb.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

std::vector<proto::Event> ReadEvents(const std::string& path) {
  std::vector<proto::Event> events;
  EventReader file(path);
  std::string_view record;
  while (file.Read(&record).ok())
    EXPECT_TRUE(events.emplace_back().ParseFromArray(
        record.data(), static_cast<int>(record.size())));
  return events;
}

// A folder that is removed again.
class EventWriterTest : public ::testing::Test {
 protected:
  EventWriterTest()
      : folder_((std::filesystem::temp_directory_path() /
                 ("sluice_events_" + std::to_string(getpid())))
                    .string()) {}
  ~EventWriterTest() override { std::filesystem::remove_all(folder_); }
  std::unique_ptr<EventWriter> Open(const EventWriterOptions& options = {}) {
    auto writer = EventWriter::Open(folder_, options);
    EXPECT_TRUE(writer.ok()) << writer.status();
    return *std::move(writer);
  }
  const std::string folder_;
};

TEST_F(EventWriterTest, BeginsWithTheVersionThatReadersExpect) {
  const auto writer = Open({.suffix = ".v2"});
  const auto events = ReadEvents(writer->path());
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].file_version(), "brain.Event:2");
  EXPECT_THAT(writer->path(), HasSubstr("/events.out.tfevents."));
  EXPECT_TRUE(writer->path().ends_with(".v2"));
}

TEST_F(EventWriterTest, WritesWhatWasAddedInItsOrder) {
  const auto writer = Open();
  EXPECT_TRUE(writer->AddScalar("loss", 0.5, 3).ok());
  EXPECT_TRUE(writer->AddHistogram("h", Tensor::Vector({1.0f, 2.0f}), 4).ok());
  EXPECT_TRUE(
      writer->AddImages("i", Tensor(DType::kUint8, {1, 2, 2, 3}), 5).ok());
  EXPECT_TRUE(
      writer->AddAudio("a", Tensor(DType::kFloat, {1, 4}), 8000, 6).ok());
  EXPECT_TRUE(writer->AddText("t", Tensor::Scalar<std::string>("hi"), 7).ok());
  EXPECT_TRUE(writer->AddGraph("graph").ok());
  EXPECT_TRUE(writer->AddMetaGraph("meta").ok());
  EXPECT_TRUE(writer->AddRunMetadata("run", "metadata", 8).ok());
  EXPECT_TRUE(writer->AddSession(SessionEvent::kCheckpoint, "model", 9).ok());
  EXPECT_TRUE(writer->Flush().ok());
  const auto events = ReadEvents(writer->path());
  ASSERT_EQ(events.size(), 10u);
  EXPECT_EQ(events[1].step(), 3);
  EXPECT_EQ(events[1].summary().value(0).simple_value(), 0.5f);
  EXPECT_EQ(events[2].summary().value(0).histo().num(), 2);
  EXPECT_EQ(events[3].summary().value(0).image().width(), 2);
  EXPECT_EQ(events[4].summary().value(0).audio().length_frames(), 4);
  EXPECT_EQ(events[5].summary().value(0).tensor().string_val(0), "hi");
  EXPECT_EQ(events[6].graph_def(), "graph");
  EXPECT_EQ(events[7].meta_graph_def(), "meta");
  EXPECT_EQ(events[8].tagged_run_metadata().run_metadata(), "metadata");
  EXPECT_EQ(events[9].session_log().status(), proto::SessionLog::CHECKPOINT);
}

TEST_F(EventWriterTest, DescribesATagOnce) {
  const auto writer = Open();
  const Tensor text = Tensor::Scalar<std::string>("hi");
  for (int64_t step = 0; step < 3; ++step)
    EXPECT_TRUE(writer->AddText("t", text, step).ok());
  EXPECT_TRUE(writer->Close().ok());
  const auto events = ReadEvents(writer->path());
  ASSERT_EQ(events.size(), 4u);
  EXPECT_TRUE(events[1].summary().value(0).has_metadata());
  EXPECT_FALSE(events[2].summary().value(0).has_metadata());
  EXPECT_FALSE(events[3].summary().value(0).has_metadata());
}

TEST_F(EventWriterTest, KeepsTheEventsOfManyThreads) {
  const auto writer = Open({.max_pending_bytes = 1 << 16});
  constexpr int kThreads = 4, kEach = 2000;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t)
      threads.emplace_back([&, t] {
        for (int i = 0; i < kEach; ++i) {
          EXPECT_TRUE(writer->AddScalar(std::to_string(t), i, i).ok());
          if (i % 500 == 0) {
            EXPECT_TRUE(writer->Flush().ok());
          }
        }
      });
  }
  EXPECT_TRUE(writer->Close().ok());
  std::vector<int64_t> next(kThreads, 0);
  for (const proto::Event& e : ReadEvents(writer->path())) {
    if (!e.has_summary()) continue;
    const auto t = static_cast<size_t>(std::stoi(e.summary().value(0).tag()));
    EXPECT_EQ(e.step(), next[t]++);
  }
  EXPECT_THAT(next, ::testing::Each(kEach));
}

TEST_F(EventWriterTest, FlushesInTime) {
  const auto writer = Open({.flush_ms = 1});
  EXPECT_TRUE(writer->AddScalar("loss", 1, 1).ok());
  while (ReadEvents(writer->path()).size() < 2)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

TEST_F(EventWriterTest, OpensTwoFilesInOneSecond) {
  const auto a = Open(), b = Open();
  EXPECT_NE(a->path(), b->path());
}

TEST(EventReaderTest, GoesOnWhereTheFileEndedWhenItGrows) {
  const std::string path = (std::filesystem::temp_directory_path() /
                            ("sluice_growing_" + std::to_string(getpid())))
                               .string();
  std::string whole;
  {
    auto file = RecordWriter::Open(path);
    ASSERT_TRUE(file.ok());
    for (const char* record : {"one", "two", "three"})
      EXPECT_TRUE((*file)->Write(record).ok());
    EXPECT_TRUE((*file)->Close().ok());
    whole = *ReadFile(path);
  }
  std::vector<std::string> got;
  std::string_view record;
  EventReader reader(path);
  for (size_t size = 0; size <= whole.size(); ++size) {
    ASSERT_TRUE(WriteFile(path, whole.substr(0, size)).ok());
    Status s;
    while ((s = reader.Read(&record)).ok()) got.emplace_back(record);
    EXPECT_EQ(s.code(), StatusCode::kOutOfRange) << s;
  }
  EXPECT_THAT(got, ::testing::ElementsAre("one", "two", "three"));
  std::filesystem::remove(path);
}

TEST(EventReaderTest, ACorruptRecordEndsTheFile) {
  const std::string path = (std::filesystem::temp_directory_path() /
                            ("sluice_corrupt_" + std::to_string(getpid())))
                               .string();
  ASSERT_TRUE(WriteFile(path, std::string(64, 'x')).ok());
  EventReader reader(path);
  std::string_view record;
  EXPECT_EQ(reader.Read(&record).code(), StatusCode::kDataLoss);
  EXPECT_EQ(reader.Read(&record).code(), StatusCode::kDataLoss);
  std::filesystem::remove(path);
  EXPECT_EQ(EventReader(path).Read(&record).code(), StatusCode::kNotFound);
}

// Files of this process cannot grow beyond a size, as on a full disk.
class WithFileLimit {
 public:
  explicit WithFileLimit(rlim_t bytes) {
    getrlimit(RLIMIT_FSIZE, &before_);
    // (Otherwise the write ends the process.)
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~WithFileLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_ = {};
  void (*handler_)(int) = nullptr;
};

TEST_F(EventWriterTest, AFullDiskIsAnErrorOfThisCallAndAllLaterOnes) {
  const auto writer = Open();
  Status flushed;
  {
    const WithFileLimit limit(4096);
    for (int64_t i = 0; i < 1000; ++i) (void)writer->AddScalar("loss", 1, i);
    flushed = writer->Flush();
  }
  EXPECT_THAT(std::string(flushed.message()), HasSubstr(writer->path()));
  EXPECT_EQ(writer->AddScalar("loss", 1, 1001), flushed);
  EXPECT_EQ(writer->Flush(), flushed);
  EXPECT_EQ(writer->Close(), flushed);
}

TEST_F(EventWriterTest, RefusesWhatIsMalformedOrLate) {
  const auto writer = Open();
  EXPECT_THAT(std::string(writer->AddSummary("\x03", 1).message()),
              HasSubstr("summary: expected a serialised message"));
  EXPECT_THAT(std::string(writer->AddEvent("\x03").message()),
              HasSubstr("event: expected a serialised message"));
  EXPECT_THAT(
      std::string(writer->AddHistogram("h", Tensor::Scalar(std::nanf("")), 1)
                      .message()),
      HasSubstr("expected finite numbers, got NaN"));
  EXPECT_TRUE(writer->Close().ok());
  EXPECT_EQ(writer->Close().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(writer->Flush().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(writer->AddScalar("loss", 1, 1).code(),
            StatusCode::kFailedPrecondition);
  EXPECT_FALSE(EventWriter::Open("/dev/null/folder").ok());
}

TEST(HistogramTest, FindsTheBucketThatASearchFinds) {
  const std::vector<double>& limits = Histogram::Limits();
  const auto expect = [&](double v) {
    const auto found = static_cast<size_t>(
        std::upper_bound(limits.begin(), limits.end(), v) - limits.begin());
    EXPECT_EQ(Histogram::BucketOf(v), std::min(found, limits.size() - 1)) << v;
  };
  std::vector<double> values = limits;
  const uint32_t seed = 20261127;
  std::mt19937 rng(seed);
  std::uniform_real_distribution<double> exponent(-330, 308), mantissa(1, 10);
  for (int i = 0; i < 20000; ++i)
    values.push_back(mantissa(rng) * std::pow(10, exponent(rng)));
  for (const double v : values) {
    if (!std::isfinite(v)) continue;
    for (const double near :
         {v, std::nextafter(v, 0), std::nextafter(v, 1e300)}) {
      expect(near);
      expect(-near);
    }
  }
}

}  // namespace
}  // namespace sluice
