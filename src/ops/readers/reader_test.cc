#include "ops/readers/reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"

namespace sluice::readers {
namespace {

using queues::Element;
using queues::Queue;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Work item "f:3" is a file of three records, "f:0" to "f:2".
class CountingFormat final : public FileFormat {
 public:
  // `before`: called before each record.
  explicit CountingFormat(std::function<void(int64_t)> before = nullptr)
      : before_(std::move(before)) {}
  Status Open(const std::string& file, const FilePosition& at) override {
    file_ = file.substr(0, file.find(':'));
    count_ = std::stol(file.substr(file.find(':') + 1));
    at_ = at.number;
    return OkStatus();
  }
  Result<Outcome> Next(std::string* key, std::string* value) override {
    if (before_) before_(at_);
    if (at_ == count_) return Outcome::kEnd;
    *key = *value = absl::StrCat(file_, ":", at_++);
    return Outcome::kRecord;
  }
  void Close() override {}
  FilePosition position() const override { return {0, at_}; }
  bool resumes() const override { return true; }

 private:
  const std::function<void(int64_t)> before_;
  std::string file_;
  int64_t count_ = 0, at_ = 0;
};

std::shared_ptr<Reader> MakeReader(
    std::function<void(int64_t)> before = nullptr) {
  ReaderOptions options;
  options.name = "r";
  options.kind = "TestReader";
  return std::make_shared<Reader>(
      std::move(options), std::make_unique<CountingFormat>(std::move(before)));
}

std::shared_ptr<Queue> MakeQueue() {
  queues::QueueOptions options;
  options.name = "q";
  options.kind = "FIFOQueue";
  options.types = {DType::kString};
  return std::make_shared<Queue>(std::move(options), queues::MakeFifoStore());
}

void PutWork(Queue* queue, const std::vector<std::string>& items) {
  std::vector<Element> elements;
  for (const std::string& item : items)
    elements.push_back({Tensor::Scalar(item)});
  queue->Enqueue(std::move(elements), nullptr,
                 [](const Status& s) { EXPECT_TRUE(s.ok()) << s; });
}

// The outcome of a read. It must live until the read is over.
struct Outcome {
  Cancellation cancellation;
  bool over = false;
  Status status;
  std::vector<std::string> records;
};
void StartRead(Reader* reader, const std::shared_ptr<Queue>& queue,
               int64_t count, Outcome* outcome) {
  reader->Read(queue, count, &outcome->cancellation,
               [outcome](Result<Reader::Records> got) {
                 EXPECT_FALSE(outcome->over);
                 outcome->over = true;
                 outcome->status = got.status();
                 if (got.ok()) outcome->records = std::move(got->values);
               });
}

TEST(ReaderTest, RecordsOfAReadThatIsCancelledAreReadAgain) {
  Outcome first, second;
  const auto reader = MakeReader([&](int64_t at) {
    if (at == 700) first.cancellation.Cancel();
  });
  const auto queue = MakeQueue();
  PutWork(queue.get(), {"a:1000"});
  StartRead(reader.get(), queue, 1, &second);
  EXPECT_THAT(second.records, ElementsAre("a:0"));
  StartRead(reader.get(), queue, 5000, &first);
  ASSERT_TRUE(first.over);
  EXPECT_EQ(first.status.code(), StatusCode::kCancelled) << first.status;
  EXPECT_EQ(reader->records_produced(), 1);
  Outcome rest;
  StartRead(reader.get(), queue, 5000, &rest);
  ASSERT_TRUE(rest.status.ok()) << rest.status;
  ASSERT_EQ(rest.records.size(), 999u);
  EXPECT_EQ(rest.records[0], "a:1");
  EXPECT_EQ(rest.records.back(), "a:999");
  EXPECT_EQ(reader->records_produced(), 1000);
  EXPECT_EQ(reader->work_units_completed(), 1);
}

// The work item has left the queue when the read that it is for is cancelled.
TEST(ReaderTest, WorkThatComesTooLateIsTheNextReads) {
  const auto reader = MakeReader();
  const auto queue = MakeQueue();
  Outcome late, next;
  queue->Dequeue(1, false, nullptr, [&](const auto& got) {
    EXPECT_TRUE(got.ok());
    late.cancellation.Cancel();
  });
  StartRead(reader.get(), queue, 1, &late);
  EXPECT_FALSE(late.over);
  PutWork(queue.get(), {"first:1", "a:2"});
  EXPECT_EQ(late.status.code(), StatusCode::kCancelled) << late.status;
  EXPECT_EQ(queue->size(), 0);
  EXPECT_EQ(reader->SerializeState(), "");  // It has not begun.
  reader->Reset();
  StartRead(reader.get(), queue, 1, &next);
  EXPECT_THAT(next.records, ElementsAre("a:0"));
}

TEST(ReaderTest, AReadBehindACancelledOneKeepsItsTurnInTheQueue) {
  const auto reader = MakeReader();
  const auto queue = MakeQueue();
  Outcome first, second;
  bool other = false;
  StartRead(reader.get(), queue, 1, &first);
  StartRead(reader.get(), queue, 1, &second);
  queue->Dequeue(1, false, nullptr, [&](const auto&) { other = true; });
  first.cancellation.Cancel();
  EXPECT_TRUE(first.over);
  PutWork(queue.get(), {"a:2"});
  EXPECT_THAT(second.records, ElementsAre("a:0"));
  EXPECT_FALSE(other);
  PutWork(queue.get(), {"b:2"});
  EXPECT_TRUE(other);
}

TEST(ReaderTest, ReadsOfDifferentQueuesAreServedInOrder) {
  const auto reader = MakeReader();
  const auto one = MakeQueue(), two = MakeQueue();
  Outcome first, second, third;
  StartRead(reader.get(), one, 1, &first);
  StartRead(reader.get(), two, 1, &second);
  StartRead(reader.get(), one, 1, &third);
  PutWork(two.get(), {"b:1"});
  EXPECT_FALSE(second.over);
  EXPECT_EQ(two->size(), 1);
  PutWork(one.get(), {"a:1"});
  EXPECT_THAT(first.records, ElementsAre("a:0"));
  EXPECT_THAT(second.records, ElementsAre("b:0"));
  EXPECT_FALSE(third.over);
  one->Close(false, nullptr, [](const Status&) {});
  EXPECT_EQ(third.status.code(), StatusCode::kOutOfRange) << third.status;
  EXPECT_THAT(third.records, IsEmpty());
}

// The dequeue that waits for a read ends with it.
TEST(ReaderTest, AReadThatWasServedOtherwiseLeavesTheQueue) {
  const auto reader = MakeReader();
  const auto queue = MakeQueue(), empty = MakeQueue();
  Outcome one, waits;
  PutWork(queue.get(), {"a:3"});
  StartRead(reader.get(), queue, 1, &one);
  const std::string state = reader->SerializeState();
  reader->Reset();
  StartRead(reader.get(), empty, 1, &waits);
  EXPECT_FALSE(waits.over);
  ASSERT_TRUE(reader->RestoreState(state).ok());
  EXPECT_THAT(waits.records, ElementsAre("a:1"));
  PutWork(empty.get(), {"b:1"});
  EXPECT_EQ(empty->size(), 1);
}

// Reads, enqueues and cancellations on several threads.
TEST(ReaderTest, EachRecordArrivesOnceWhateverIsCancelled) {
  constexpr int kFiles = 300, kRecords = 7, kThreads = 3;
  for (unsigned seed = 0; seed < 6; ++seed) {
    SCOPED_TRACE(seed);
    const auto reader = MakeReader();
    const auto queue = MakeQueue();
    std::mutex mu;
    std::vector<std::string> records;
    // All that began; they live until all threads have ended.
    std::deque<Outcome> outcomes;
    const auto read_and_cancel = [&](unsigned thread) {
      std::mt19937 rng(10 * seed + thread);
      for (int i = 0; i < 400; ++i) {
        Outcome *mine = nullptr, *cancelled = nullptr;
        {
          std::lock_guard<std::mutex> lock(mu);
          mine = &outcomes.emplace_back();
        }
        reader->Read(queue, 1 + static_cast<int64_t>(rng() % 9),
                     &mine->cancellation,
                     [&, mine](Result<Reader::Records> got) {
                       std::lock_guard<std::mutex> lock(mu);
                       EXPECT_FALSE(mine->over);
                       mine->over = true;
                       if (got.ok())
                         records.insert(records.end(), got->values.begin(),
                                        got->values.end());
                     });
        if (rng() % 2 == 0) {
          std::lock_guard<std::mutex> lock(mu);
          const size_t back = rng() % std::min<size_t>(outcomes.size(), 6);
          cancelled = &outcomes[outcomes.size() - 1 - back];
        }
        if (cancelled != nullptr) cancelled->cancellation.Cancel();
      }
    };
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < kThreads; ++t)
      threads.emplace_back(read_and_cancel, t);
    for (int f = 0; f < kFiles; ++f) {
      PutWork(queue.get(), {absl::StrCat(f, ":", kRecords)});
      if (f % 16 == 0) std::this_thread::yield();
    }
    for (std::thread& t : threads) t.join();
    queue->Close(false, nullptr, [](const Status&) {});
    for (const Outcome& o : outcomes) EXPECT_TRUE(o.over);
    for (bool more = true; more;) {
      Outcome rest;
      StartRead(reader.get(), queue, 100, &rest);
      ASSERT_TRUE(rest.over);
      more = rest.status.ok();
      records.insert(records.end(), rest.records.begin(), rest.records.end());
    }
    EXPECT_EQ(records.size(), static_cast<size_t>(kFiles * kRecords));
    std::sort(records.begin(), records.end());
    EXPECT_EQ(std::unique(records.begin(), records.end()), records.end());
    EXPECT_EQ(reader->work_units_completed(), kFiles);
  }
}

}  // namespace
}  // namespace sluice::readers
