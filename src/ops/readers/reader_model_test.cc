// Readers compared with a model: small programs of several scripts, in all
// interleavings of their operations.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/sanitizers.h"
#include "ops/readers/reader.h"

namespace sluice::readers {
namespace {

using queues::Queue;

// Work item "f:3" is a file of three records, "f:0" to "f:2".
class NumberedFormat final : public FileFormat {
 public:
  Status Open(const std::string& file, const FilePosition& at) override {
    file_ = file;
    count_ = std::stol(file.substr(file.find(':') + 1));
    at_ = at.number;
    return OkStatus();
  }
  Result<Outcome> Next(std::string* key, std::string* value) override {
    if (at_ == count_) return Outcome::kEnd;
    *key = *value = absl::StrCat(file_, ":", at_++);
    return Outcome::kRecord;
  }
  void Close() override {}
  FilePosition position() const override { return {0, at_}; }
  bool resumes() const override { return true; }

 private:
  std::string file_;
  int64_t count_ = 0, at_ = 0;
};

struct Event {
  // kPut: of a file of n records. kRead: of up to n. kCancel: of the read that
  // the script has begun last. kRestore: of what was saved last, by any script.
  enum Kind { kPut, kRead, kCancel, kClose, kReset, kSave, kRestore } kind;
  int64_t n = 0;
};
using Script = std::vector<Event>;

std::string Text(const Event& e) {
  const char* const names[] = {"put",   "read", "cancel", "close",
                               "reset", "save", "restore"};
  return absl::StrCat(names[e.kind], "(", e.n, ") ");
}

struct ReadState {
  bool over = false;
  StatusCode code = StatusCode::kOk;
  std::vector<std::string> records;
};

// One record at a time, with nothing in between two operations.
class ReaderModel {
 public:
  struct State {
    std::string file;  // "": none in progress.
    int64_t count = 0, at = 0;
    int64_t produced = 0, completed = 0;
  };

  void Put(const std::string& file, int64_t count) {
    if (!closed_) work_.push_back({file, count});
    Serve();
  }
  void Close() {
    closed_ = true;
    Serve();
  }
  void Read(int64_t count, ReadState* read) {
    waiting_.push_back({count, read});
    Serve();
  }
  void Cancel(ReadState* read) {
    const auto it =
        std::find_if(waiting_.begin(), waiting_.end(),
                     [read](const auto& w) { return w.second == read; });
    if (it == waiting_.end()) return;
    *read = {true, StatusCode::kCancelled, {}};
    waiting_.erase(it);
  }
  void Reset() { state_ = State(); }
  State Save() const { return state_; }
  void Restore(State state) {
    state_ = std::move(state);
    Serve();
  }

  size_t work_left() const { return work_.size(); }
  const State& state() const { return state_; }

 private:
  // The first read is over, or waits for work.
  void Serve() {
    while (!waiting_.empty()) {
      auto& [count, read] = waiting_.front();
      if (state_.file.empty()) {
        if (work_.empty() && !closed_) return;
        if (work_.empty()) {
          *read = {true, StatusCode::kOutOfRange, {}};
          waiting_.pop_front();
          continue;
        }
        state_.file = work_.front().first;
        state_.count = work_.front().second;
        state_.at = 0;
        work_.pop_front();
      }
      while (state_.at < state_.count &&
             static_cast<int64_t>(read->records.size()) < count) {
        read->records.push_back(absl::StrCat(state_.file, ":", state_.at++));
        ++state_.produced;
      }
      const bool all = static_cast<int64_t>(read->records.size()) == count;
      if (!all) {
        state_.file.clear();
        ++state_.completed;
      }
      if (!all && read->records.empty()) continue;
      read->over = true;
      waiting_.pop_front();
    }
  }

  std::deque<std::pair<std::string, int64_t>> work_;
  bool closed_ = false;
  State state_;
  std::deque<std::pair<int64_t, ReadState*>> waiting_;
};

// Runs the scripts in one order (the number of the script of each event), and
// compares all that can be observed after each event.
void RunInOrder(const std::vector<Script>& scripts,
                const std::vector<size_t>& order) {
  struct Pair {
    Cancellation cancellation;
    ReadState real, model;
    size_t script = 0;
  };
  std::deque<Pair> reads;  // (They must live until the reader is gone.)
  queues::QueueOptions queue_options;
  queue_options.name = "q";
  queue_options.kind = "FIFOQueue";
  queue_options.types = {DType::kString};
  const auto queue =
      std::make_shared<Queue>(queue_options, queues::MakeFifoStore());
  ReaderOptions options;
  options.name = "r";
  options.kind = "TestReader";
  const auto reader =
      std::make_shared<Reader>(options, std::make_unique<NumberedFormat>());
  ReaderModel model;
  std::optional<std::pair<std::string, ReaderModel::State>> saved;
  std::vector<size_t> next(scripts.size());
  std::string log;
  int files = 0;
  for (const size_t s : order) {
    const Event& e = scripts[s][next[s]++];
    absl::StrAppend(&log, s, ":", Text(e));
    switch (e.kind) {
      case Event::kPut: {
        const std::string file = absl::StrCat("f", files++, ":", e.n);
        model.Put(file, e.n);
        queue->Enqueue({{Tensor::Scalar(file)}}, nullptr, [](const Status&) {});
        break;
      }
      case Event::kRead: {
        Pair& p = reads.emplace_back();
        p.script = s;
        model.Read(e.n, &p.model);
        reader->Read(queue, e.n, &p.cancellation,
                     [&p](Result<Reader::Records> got) {
                       EXPECT_FALSE(p.real.over);
                       p.real.over = true;
                       p.real.code = got.status().code();
                       if (got.ok()) p.real.records = std::move(got->values);
                     });
        break;
      }
      case Event::kCancel: {
        const auto p =
            std::find_if(reads.rbegin(), reads.rend(),
                         [s](const Pair& x) { return x.script == s; });
        if (p == reads.rend()) break;
        model.Cancel(&p->model);
        p->cancellation.Cancel();
        break;
      }
      case Event::kClose:
        model.Close();
        queue->Close(false, nullptr, [](const Status&) {});
        break;
      case Event::kReset:
        model.Reset();
        reader->Reset();
        break;
      case Event::kSave:
        saved = {reader->SerializeState(), model.Save()};
        break;
      case Event::kRestore:
        // (A state of nothing read is empty, which is no state.)
        if (!saved || saved->first.empty()) break;
        model.Restore(saved->second);
        ASSERT_TRUE(reader->RestoreState(saved->first).ok()) << log;
        break;
    }
    for (const Pair& p : reads) {
      ASSERT_EQ(p.real.over, p.model.over) << log;
      ASSERT_EQ(p.real.code, p.model.code) << log;
      if (p.real.over) {
        ASSERT_EQ(p.real.records, p.model.records) << log;
      }
    }
    ASSERT_EQ(queue->size(), static_cast<int64_t>(model.work_left())) << log;
    ASSERT_EQ(reader->records_produced(), model.state().produced) << log;
    ASSERT_EQ(reader->work_units_completed(), model.state().completed) << log;
  }
  for (Pair& p : reads) p.cancellation.Cancel();
}

// Runs the scripts in all orders that keep each script's own; in at most
// `most`, drawn at random, if there are more.
void RunInAllOrders(const std::vector<Script>& scripts, int most,
                    std::mt19937* random) {
  std::vector<size_t> order;
  for (size_t s = 0; s < scripts.size(); ++s)
    order.insert(order.end(), scripts[s].size(), s);
  int runs = 0;
  do {
    RunInOrder(scripts, order);
    if (testing::Test::HasFatalFailure()) return;
  } while (++runs < most && std::next_permutation(order.begin(), order.end()));
  for (int i = 0; runs == most && i < most; ++i) {
    std::shuffle(order.begin(), order.end(), *random);
    RunInOrder(scripts, order);
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(ReaderModelTest, SmallProgramsDoWhatTheModelDoesInAllInterleavings) {
  using E = Event;
  std::mt19937 random(1);
  const std::vector<Script> programs[] = {
      {{{E::kPut, 2}, {E::kPut, 0}, {E::kPut, 1}, {E::kClose}},
       {{E::kRead, 1}, {E::kRead, 1}, {E::kRead, 1}},
       {{E::kRead, 5}}},
      {{{E::kPut, 3}, {E::kPut, 2}},
       {{E::kRead, 2}, {E::kCancel}, {E::kRead, 2}},
       {{E::kRead, 1}, {E::kCancel}}},
      {{{E::kPut, 3}, {E::kPut, 1}, {E::kClose}},
       {{E::kRead, 2}, {E::kSave}, {E::kRead, 1}, {E::kRestore}},
       {{E::kRead, 4}, {E::kReset}}},
      {{{E::kRead, 1}, {E::kSave}, {E::kReset}, {E::kRestore}},
       {{E::kRead, 1}, {E::kCancel}, {E::kRestore}},
       {{E::kPut, 2}, {E::kPut, 1}}}};
  for (const auto& program : programs)
    ASSERT_NO_FATAL_FAILURE(RunInAllOrders(program, 10'000, &random));
}

TEST(ReaderModelTest, RandomProgramsDoWhatTheModelDoes) {
  for (unsigned seed = 0; seed < 200; seed += kSanitized ? 8 : 1) {
    std::mt19937 random(seed);
    const auto below = [&](unsigned n) { return random() % n; };
    std::vector<Script> scripts(2 + below(2));
    for (Script& script : scripts)
      for (unsigned i = 2 + below(3); i > 0; --i) {
        const auto kind = static_cast<Event::Kind>(
            below(2) == 0 ? below(2) : below(Event::kRestore + 1));
        const int64_t n = kind == Event::kRead ? 1 + below(3) : below(4);
        script.push_back({kind, n});
      }
    ASSERT_NO_FATAL_FAILURE(RunInAllOrders(scripts, 100, &random))
        << "seed " << seed;
  }
}

}  // namespace
}  // namespace sluice::readers
