// Queues as objects: their attempts, all interleavings of small programs, and
// many threads.
#include "ops/queues/queue.h"

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <optional>
#include <random>
#include <set>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/queues/batch.h"

namespace sluice::queues {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

bool FullTest() { return std::getenv("SLUICE_TEST_FULL") != nullptr; }

QueueOptions NumbersOptions(int64_t capacity) {
  QueueOptions o;
  o.name = "q";
  o.kind = "FIFOQueue";
  o.types = {DType::kInt64};
  o.shapes = {PartialShape(Shape())};
  o.capacity = capacity;
  return o;
}

std::shared_ptr<Queue> NumberQueue(int64_t capacity) {
  return std::make_shared<Queue>(NumbersOptions(capacity), MakeFifoStore());
}

std::vector<Element> NumberElements(const std::vector<int64_t>& values) {
  std::vector<Element> elements;
  for (const int64_t v : values) elements.push_back({Tensor::Scalar(v)});
  return elements;
}

// One operation of a test: what it asks for and how it ended.
struct Operation {
  enum class What { kEnqueue, kDequeue, kClose };
  What what = What::kEnqueue;
  std::vector<int64_t> values;  // To enter.
  int64_t count = 0;            // To take.
  bool flag = false;            // Up to; cancelling what waits.

  Cancellation cancellation;
  bool over = false;
  StatusCode code = StatusCode::kOk;
  std::string message;
  std::vector<int64_t> taken;

  void Start(Queue* queue) {
    const auto done = [this](const Status& s) {
      EXPECT_FALSE(over);
      over = true;
      code = s.code();
      message = std::string(s.message());
    };
    switch (what) {
      case What::kEnqueue:
        return queue->Enqueue(NumberElements(values), &cancellation, done);
      case What::kDequeue:
        return queue->Dequeue(
            count, flag, &cancellation,
            [this, done](const Result<std::vector<Element>>& r) {
              done(r.status());
              for (size_t i = 0; r.ok() && i < r->size(); ++i)
                taken.push_back((*r)[i][0].scalar<int64_t>());
            });
      case What::kClose:
        return queue->Close(flag, &cancellation, done);
    }
  }
};
using OperationPtr = std::shared_ptr<Operation>;

OperationPtr EnqueueOf(std::vector<int64_t> values) {
  auto o = std::make_shared<Operation>();
  o->values = std::move(values);
  return o;
}
OperationPtr DequeueOf(int64_t count, bool up_to = false) {
  auto o = std::make_shared<Operation>();
  o->what = Operation::What::kDequeue;
  o->count = count;
  o->flag = up_to;
  return o;
}
OperationPtr CloseOf(bool cancel_pending = false) {
  auto o = std::make_shared<Operation>();
  o->what = Operation::What::kClose;
  o->flag = cancel_pending;
  return o;
}
OperationPtr Started(OperationPtr o, const std::shared_ptr<Queue>& queue) {
  o->Start(queue.get());
  return o;
}

TEST(QueueTest, AnElementLeavesInTheOrderInWhichItCame) {
  const auto q = NumberQueue(10);
  EXPECT_TRUE(Started(EnqueueOf({1, 2, 3}), q)->over);
  EXPECT_EQ(q->size(), 3);
  EXPECT_THAT(Started(DequeueOf(1), q)->taken, ElementsAre(1));
  EXPECT_THAT(Started(DequeueOf(2), q)->taken, ElementsAre(2, 3));
  EXPECT_EQ(q->size(), 0);
}

TEST(QueueTest, AFullQueueMakesEnqueuesWait) {
  const auto q = NumberQueue(2);
  const auto first = Started(EnqueueOf({1, 2, 3}), q);
  const auto second = Started(EnqueueOf({4}), q);
  EXPECT_FALSE(first->over);
  EXPECT_THAT(Started(DequeueOf(1), q)->taken, ElementsAre(1));
  EXPECT_TRUE(first->over);
  EXPECT_FALSE(second->over);
  EXPECT_THAT(Started(DequeueOf(1), q)->taken, ElementsAre(2));
  EXPECT_TRUE(second->over);
  EXPECT_THAT(Started(DequeueOf(2), q)->taken, ElementsAre(3, 4));
}

TEST(QueueTest, ADequeueOfMoreThanTheCapacityTakesThemAsTheyCome) {
  const auto q = NumberQueue(2);
  const auto take = Started(DequeueOf(5), q);
  EXPECT_TRUE(Started(EnqueueOf({1, 2, 3, 4}), q)->over);
  EXPECT_FALSE(take->over);
  EXPECT_TRUE(Started(EnqueueOf({5, 6}), q)->over);
  EXPECT_THAT(take->taken, ElementsAre(1, 2, 3, 4, 5));
  EXPECT_EQ(q->size(), 1);
}

TEST(QueueTest, DequeuesAreServedInTheOrderInWhichTheyCame) {
  const auto q = NumberQueue(-1);
  const auto many = Started(DequeueOf(3), q);
  const auto one = Started(DequeueOf(1), q);
  Started(EnqueueOf({1, 2}), q);
  EXPECT_FALSE(many->over);
  EXPECT_FALSE(one->over);
  Started(EnqueueOf({3, 4}), q);
  EXPECT_THAT(many->taken, ElementsAre(1, 2, 3));
  EXPECT_THAT(one->taken, ElementsAre(4));
}

TEST(QueueTest, ACancelledDequeueGivesBackWhatItTook) {
  const auto q = NumberQueue(2);
  const auto many = Started(DequeueOf(5), q);
  const auto next = Started(DequeueOf(2), q);
  Started(EnqueueOf({1, 2, 3}), q);
  many->cancellation.Cancel();
  EXPECT_EQ(many->code, StatusCode::kCancelled);
  EXPECT_EQ(many->message, "Dequeue operation was cancelled");
  EXPECT_THAT(next->taken, ElementsAre(1, 2));
  EXPECT_THAT(Started(DequeueOf(1), q)->taken, ElementsAre(3));
}

TEST(QueueTest, ACancelledEnqueueLeavesWhatHasEntered) {
  const auto q = NumberQueue(2);
  const auto put = Started(EnqueueOf({1, 2, 3}), q);
  put->cancellation.Cancel();
  EXPECT_EQ(put->code, StatusCode::kCancelled);
  EXPECT_EQ(put->message, "Enqueue operation was cancelled");
  EXPECT_EQ(q->size(), 2);
  EXPECT_THAT(Started(DequeueOf(2), q)->taken, ElementsAre(1, 2));
}

TEST(QueueTest, AnOperationOfACancelledStepDoesNotWait) {
  const auto q = NumberQueue(2);
  auto take = DequeueOf(1);
  take->cancellation.Cancel();
  take->Start(q.get());
  EXPECT_EQ(take->code, StatusCode::kCancelled);
  Started(EnqueueOf({1}), q);
  EXPECT_EQ(q->size(), 1);
}

TEST(QueueTest, AClosedQueueRefusesElementsAndEndsDequeues) {
  const auto q = NumberQueue(-1);
  Started(EnqueueOf({1, 2}), q);
  const auto waits = Started(DequeueOf(3), q);
  EXPECT_TRUE(Started(CloseOf(), q)->over);
  EXPECT_EQ(waits->code, StatusCode::kOutOfRange);
  EXPECT_EQ(waits->message,
            "FIFOQueue 'q' is closed and has insufficient elements (requested "
            "3, current size 2)");
  const auto put = Started(EnqueueOf({3}), q);
  EXPECT_EQ(put->code, StatusCode::kCancelled);
  EXPECT_EQ(put->message, "FIFOQueue 'q' is closed.");
  EXPECT_THAT(Started(DequeueOf(1), q)->taken, ElementsAre(1));
  EXPECT_THAT(Started(DequeueOf(4, true), q)->taken, ElementsAre(2));
  EXPECT_EQ(Started(DequeueOf(4, true), q)->code, StatusCode::kOutOfRange);
  EXPECT_THAT(Started(DequeueOf(0), q)->message, IsEmpty());
  const auto again = Started(CloseOf(), q);
  EXPECT_EQ(again->code, StatusCode::kCancelled);
  EXPECT_EQ(again->message, "Queue 'q' is already closed.");
  EXPECT_EQ(Started(CloseOf(true), q)->code, StatusCode::kOk);
}

TEST(QueueTest, AQueueIsClosedWhenTheEnqueuesBeforeHaveEntered) {
  const auto q = NumberQueue(1);
  const auto put = Started(EnqueueOf({1, 2}), q);
  const auto close = Started(CloseOf(), q);
  const auto late = Started(EnqueueOf({3}), q);
  EXPECT_FALSE(close->over);
  EXPECT_FALSE(q->closed());
  EXPECT_THAT(Started(DequeueOf(1), q)->taken, ElementsAre(1));
  EXPECT_EQ(put->code, StatusCode::kOk);
  EXPECT_EQ(close->code, StatusCode::kOk);
  EXPECT_TRUE(q->closed());
  EXPECT_EQ(late->code, StatusCode::kCancelled);
  EXPECT_THAT(Started(DequeueOf(1), q)->taken, ElementsAre(2));
}

TEST(QueueTest, ACancellingCloseEndsTheEnqueuesAndClosesThatWait) {
  const auto q = NumberQueue(1);
  const auto put = Started(EnqueueOf({1, 2}), q);
  const auto close = Started(CloseOf(), q);
  EXPECT_EQ(Started(CloseOf(true), q)->code, StatusCode::kOk);
  for (const auto& o : {put, close}) {
    EXPECT_EQ(o->code, StatusCode::kCancelled);
    EXPECT_EQ(o->message, "Enqueue operation was cancelled");
  }
  EXPECT_THAT(Started(DequeueOf(9, true), q)->taken, ElementsAre(1));
}

TEST(QueueTest, ACompletionMayUseTheQueue) {
  const auto q = NumberQueue(1);
  std::vector<int64_t> seen;
  std::function<void()> take = [&] {
    q->Dequeue(1, false, nullptr, [&](Result<std::vector<Element>> r) {
      ASSERT_TRUE(r.ok());
      seen.push_back((*r)[0][0].scalar<int64_t>());
      if (seen.size() < 3) take();
    });
  };
  take();
  q->Enqueue(NumberElements({1, 2, 3}), nullptr, [](const Status&) {});
  EXPECT_THAT(seen, ElementsAre(1, 2, 3));
}

TEST(QueueTest, ElementsMustHaveTheComponentsTypesAndShapes) {
  const auto q = NumberQueue(1);
  const auto text = [&](const Element& e) {
    return std::string(q->Check(e).message());
  };
  EXPECT_EQ(text({}), "FIFOQueue 'q': expected 1 components, got 0");
  EXPECT_EQ(text({Tensor::Scalar<float>(1)}),
            "FIFOQueue 'q': expected component 0 of type int64, got float");
  EXPECT_EQ(text({Tensor::Vector<int64_t>({1, 2})}),
            "Shape mismatch in tuple component 0. Expected [], got [2]");
  EXPECT_TRUE(q->Check({Tensor::Scalar<int64_t>(1)}).ok());
  const auto batch = [&](const Element& e) {
    return std::string(q->CheckBatch(e).message());
  };
  EXPECT_THAT(batch({Tensor::Scalar<int64_t>(1)}), HasSubstr("got a scalar"));
  EXPECT_EQ(batch({Tensor::Of<int64_t>({2, 1}, {1, 2})}),
            "Shape mismatch in tuple component 0. Expected [2], got [2,1]");
  EXPECT_TRUE(q->CheckBatch({Tensor::Vector<int64_t>({})}).ok());
}

TEST(QueueTest, SeveralByPriorityAreTheLeastOnesAtCompletion) {
  const auto make = [](int64_t capacity) {
    return std::make_shared<Queue>(NumbersOptions(capacity),
                                   MakePriorityStore());
  };
  for (const bool up_to : {false, true}) {
    const auto q = make(10);
    const auto three = Started(DequeueOf(3, up_to), q);
    Started(EnqueueOf({30, 20}), q);
    EXPECT_EQ(q->size(), 2);  // They can still be overtaken.
    Started(EnqueueOf({5, 10}), q);
    EXPECT_THAT(three->taken, ElementsAre(5, 10, 20));
    EXPECT_EQ(q->size(), 1);
  }
  // More than there is room for: what fits is taken at a time.
  const auto small = make(2);
  const auto five = Started(DequeueOf(5), small);
  Started(EnqueueOf({4, 3, 2, 1, 0, 9}), small);
  EXPECT_THAT(five->taken, ElementsAre(3, 4, 1, 2, 0));
  // At the end the rest will do.
  const auto closed = make(-1);
  const auto rest = Started(DequeueOf(3, true), closed);
  Started(EnqueueOf({2, 1}), closed);
  Started(CloseOf(), closed);
  EXPECT_THAT(rest->taken, ElementsAre(1, 2));
}

// ---- Batches ----------------------------------------------------------------

// 64 rows of 512 bytes: row i has i.
Tensor Rows64() {
  Tensor t(DType::kInt64, Shape({64, 64}));
  for (int64_t i = 0; i < t.num_elements(); ++i) t.data<int64_t>()[i] = i / 64;
  return t;
}

Tensor Joined(const std::vector<Element>& rows) {
  return JoinComponent(rows, 0, DType::kInt64, PartialShape({64}), false,
                       Allocator::Cpu())
      .value();
}

TEST(QueueBatchTest, RowsThatLeaveInOrderAreJoinedWithoutACopy) {
  const Tensor batch = Rows64();
  const std::vector<Element> rows = SplitBatch({batch}, true).value();
  const Tensor all = Joined(rows);
  EXPECT_TRUE(all.SharesBufferWith(batch));
  EXPECT_TRUE(all.Identical(batch));
  // Not if the result would keep much more memory alive, or has another order.
  const Tensor few = Joined({rows.begin() + 8, rows.begin() + 24});
  EXPECT_FALSE(few.SharesBufferWith(batch));
  EXPECT_TRUE(few.Identical(batch.Rows(8, 24)));
  std::vector<Element> swapped = rows;
  std::swap(swapped[62], swapped[63]);
  const Tensor other = Joined(swapped);
  EXPECT_FALSE(other.SharesBufferWith(batch));
  EXPECT_EQ(other.data<int64_t>()[62 * 64], 63);
}

TEST(QueueBatchTest, ARowAloneDoesNotKeepItsBatch) {
  const Tensor batch = Rows64();
  Tensor row = SplitBatch({batch}, true).value()[5][0];
  EXPECT_TRUE(row.SharesBufferWith(batch));
  ASSERT_TRUE(DetachRow(&row).ok());
  EXPECT_FALSE(row.SharesBufferWith(batch));
  EXPECT_TRUE(row.Identical(*batch.Rows(5, 6).Reshaped(Shape({64}))));
  // Those that may stay long, and those of a part of a larger tensor, are
  // copies from the start.
  EXPECT_FALSE(
      SplitBatch({batch}, false).value()[5][0].SharesBufferWith(batch));
  EXPECT_FALSE(SplitBatch({batch.Rows(0, 8)}, true)
                   .value()[5][0]
                   .SharesBufferWith(batch));
}

// ---- Orders -----------------------------------------------------------------

std::vector<int64_t> Popped(ElementStore* store, int n) {
  std::vector<int64_t> v;
  for (int i = 0; i < n; ++i) v.push_back(store->Pop()[0].scalar<int64_t>());
  return v;
}

TEST(QueueStoreTest, WhatIsPutBackLeavesFirst) {
  const auto store = MakeFifoStore();
  for (Element& e : NumberElements({1, 2, 3, 4})) store->Push(std::move(e));
  std::vector<Element> taken = {store->Pop(), store->Pop()};
  store->PutBack(std::move(taken));
  EXPECT_THAT(Popped(store.get(), 4), ElementsAre(1, 2, 3, 4));
}

TEST(QueueStoreTest, TheLeastPriorityLeavesFirstAndAmongEqualsTheOldest) {
  const auto store = MakePriorityStore();
  const auto push = [&](int64_t priority, int64_t value) {
    store->Push({Tensor::Scalar(priority), Tensor::Scalar(value)});
  };
  const auto pop = [&] { return store->Pop()[1].scalar<int64_t>(); };
  for (int64_t i = 0; i < 20; ++i) push(i % 2, i);
  EXPECT_EQ(pop(), 0);
  std::vector<Element> taken = {store->Pop(), store->Pop()};  // 2 and 4.
  push(0, 100);
  store->PutBack(std::move(taken));
  push(-1, 200);
  EXPECT_EQ(pop(), 200);
  for (int64_t i = 2; i < 20; i += 2) EXPECT_EQ(pop(), i);
  EXPECT_EQ(pop(), 100);
  for (int64_t i = 1; i < 20; i += 2) EXPECT_EQ(pop(), i);
}

// The order in which TensorFlow's queue gives the elements for these seeds:
// four and three of 12 with 2 kept back, three more after five have entered,
// and the rest when it is closed.
TEST(QueueStoreTest, ShuffledElementsLeaveInTensorFlowsOrder) {
  const auto order = [](int64_t seed, int64_t seed2, int64_t keep) {
    QueueOptions o = NumbersOptions(-1);
    const auto q =
        std::make_shared<Queue>(o, MakeShuffleStore(keep, seed, seed2));
    std::vector<int64_t> all, first(12);
    for (size_t i = 0; i < 12; ++i) first[i] = static_cast<int64_t>(i);
    Started(EnqueueOf(first), q);
    const auto take = [&](int64_t n, bool up_to = false) {
      const auto o = Started(DequeueOf(n, up_to), q);
      all.insert(all.end(), o->taken.begin(), o->taken.end());
    };
    take(4);
    for (int i = 0; i < 3; ++i) take(1);
    Started(EnqueueOf({20, 21, 22, 23, 24}), q);
    for (int i = 0; i < 3; ++i) take(1);
    Started(CloseOf(), q);
    take(100, true);
    return all;
  };
  EXPECT_THAT(order(1, 2, 2), ElementsAre(11, 5, 2, 8, 3, 10, 1, 7, 9, 24, 20,
                                          21, 22, 4, 6, 0, 23));
  EXPECT_THAT(order(87654321, 0, 0), ElementsAre(9, 8, 10, 2, 1, 7, 5, 21, 0,
                                                 20, 22, 23, 3, 11, 24, 4, 6));
  EXPECT_THAT(order(0, 7, 1), ElementsAre(5, 11, 10, 9, 8, 4, 0, 6, 23, 3, 20,
                                          24, 7, 1, 21, 22, 2));
}

TEST(QueueStoreTest, ADequeueThatFailsDrawsAsTensorFlow) {
  const auto make = [] {
    const auto q =
        std::make_shared<Queue>(NumbersOptions(-1), MakeShuffleStore(2, 3, 5));
    Started(EnqueueOf({0, 1, 2, 3, 4, 5, 6, 7}), q);
    return q;
  };
  {  // Six are taken, given back when the queue is closed, and drawn again.
    const auto q = make();
    const auto take = Started(DequeueOf(10, true), q);
    Started(CloseOf(), q);
    EXPECT_THAT(take->taken, ElementsAre(0, 7, 2, 1, 5, 6, 4, 3));
  }
  {
    const auto q = make();
    const auto take = Started(DequeueOf(10), q);
    Started(CloseOf(), q);
    EXPECT_EQ(take->code, StatusCode::kOutOfRange);
    EXPECT_THAT(Started(DequeueOf(8), q)->taken,
                ElementsAre(0, 7, 2, 1, 5, 6, 4, 3));
  }
  {  // None is drawn for a dequeue that cannot be satisfied.
    const auto q = make();
    Started(CloseOf(), q);
    EXPECT_EQ(Started(DequeueOf(10), q)->code, StatusCode::kOutOfRange);
    EXPECT_THAT(Started(DequeueOf(8), q)->taken,
                ElementsAre(3, 2, 0, 6, 5, 4, 1, 7));
  }
}

TEST(QueueStoreTest, ShuffledElementsAreKeptBackUntilTheQueueIsClosed) {
  const auto q =
      std::make_shared<Queue>(NumbersOptions(-1), MakeShuffleStore(2, 1, 1));
  Started(EnqueueOf({1, 2, 3}), q);
  EXPECT_TRUE(Started(DequeueOf(1), q)->over);
  const auto waits = Started(DequeueOf(1), q);
  EXPECT_FALSE(waits->over);
  Started(CloseOf(), q);
  EXPECT_EQ(waits->code, StatusCode::kOk);
  EXPECT_EQ(q->size(), 1);
}

// ---- All interleavings ------------------------------------------------------

// What a FIFO queue does, in the simplest form: one element moves at a time,
// in any order, until none can; only then a closed queue ends dequeues.
class QueueModel {
 public:
  struct Op {
    Operation::What what;
    std::deque<int64_t> values;
    int64_t count = 0;
    bool flag = false;
    bool over = false;
    StatusCode code = StatusCode::kOk;
    std::vector<int64_t> taken;
  };
  QueueModel(int64_t capacity, std::mt19937* rng)
      : capacity_(capacity), rng_(rng) {}

  void Start(Op* op) {
    if (op->what == Operation::What::kClose && op->flag) {
      closed_ = true;
      for (Op* o : puts_) Finish(o, StatusCode::kCancelled);
      puts_.clear();
      Finish(op, StatusCode::kOk);
    } else {
      (op->what == Operation::What::kDequeue ? takes_ : puts_).push_back(op);
    }
    Settle();
  }
  void Cancel(Op* op) {
    if (op->over) return;
    std::erase(puts_, op);
    std::erase(takes_, op);
    items_.insert(items_.begin(), op->taken.begin(), op->taken.end());
    op->taken.clear();
    Finish(op, StatusCode::kCancelled);
    Settle();
  }
  size_t size() const { return items_.size(); }
  bool closed() const { return closed_; }

 private:
  static void Finish(Op* op, StatusCode code) {
    op->over = true;
    op->code = code;
  }
  bool MovePut() {
    if (puts_.empty()) return false;
    Op* const op = puts_[0];
    if (op->what == Operation::What::kClose || closed_) {
      Finish(op, closed_ ? StatusCode::kCancelled : StatusCode::kOk);
      closed_ = closed_ || op->what == Operation::What::kClose;
    } else if (static_cast<int64_t>(items_.size()) < capacity_) {
      items_.push_back(op->values.front());
      op->values.pop_front();
      if (op->values.empty()) Finish(op, StatusCode::kOk);
    } else {
      return false;
    }
    if (op->over) puts_.erase(puts_.begin());
    return true;
  }
  bool MoveTake() {
    if (takes_.empty() || items_.empty()) return false;
    Op* const op = takes_[0];
    op->taken.push_back(items_.front());
    items_.pop_front();
    if (static_cast<int64_t>(op->taken.size()) == op->count) {
      Finish(op, StatusCode::kOk);
      takes_.erase(takes_.begin());
    }
    return true;
  }
  void Settle() {
    for (;;) {
      const bool put_first = (*rng_)() % 2 != 0;
      if (put_first ? MovePut() || MoveTake() : MoveTake() || MovePut())
        continue;
      if (!closed_ || takes_.empty()) return;
      Op* const op = takes_[0];
      takes_.erase(takes_.begin());
      if (op->flag && !op->taken.empty()) {
        Finish(op, StatusCode::kOk);
        continue;
      }
      items_.insert(items_.begin(), op->taken.begin(), op->taken.end());
      op->taken.clear();
      Finish(op, StatusCode::kOutOfRange);
    }
  }

  const int64_t capacity_;
  std::mt19937* const rng_;
  std::deque<int64_t> items_;
  std::vector<Op*> puts_, takes_;
  bool closed_ = false;
};

// A program: for each thread, operations that it starts one after the other.
struct QueueProgram {
  int64_t capacity = 1;
  std::vector<std::vector<std::string>> threads;  // "E2", "D1", "U3", "C", "X".
  int cancels = 1;  // How many operations that wait may be cancelled.
  std::string ToString() const {
    std::string s = absl::StrCat("capacity ", capacity, ":");
    for (const auto& t : threads) {
      for (const std::string& op : t) absl::StrAppend(&s, " ", op);
      s += " |";
    }
    return s;
  }
};

// The choices of one run. Runs are enumerated in the order of their choices.
class QueueChoices {
 public:
  // A number in [0, n).
  size_t Choose(size_t n) {
    if (at_ == taken_.size()) taken_.push_back({0, n});
    return taken_[at_++].first;
  }
  // The next run; false if there is none.
  bool Next() {
    at_ = 0;
    while (!taken_.empty() && ++taken_.back().first == taken_.back().second)
      taken_.pop_back();
    return !taken_.empty();
  }

 private:
  std::vector<std::pair<size_t, size_t>> taken_;
  size_t at_ = 0;
};

// Runs one interleaving and compares with the model after each event.
void RunInterleaving(const QueueProgram& program, QueueChoices* choices,
                     std::mt19937* rng) {
  const auto queue = NumberQueue(program.capacity);
  QueueModel model(program.capacity, rng);
  struct Pair {
    OperationPtr real;
    std::unique_ptr<QueueModel::Op> want;
  };
  std::vector<Pair> started;
  std::vector<size_t> next(program.threads.size());
  std::vector<int> last(program.threads.size(), -1);  // In `started`.
  int64_t number = 0;
  int cancels = program.cancels;
  std::string log;
  for (;;) {
    // Threads that may go on, and then operations to cancel.
    std::vector<size_t> ready, waiting;
    for (size_t t = 0; t < program.threads.size(); ++t) {
      const bool waits = last[t] >= 0 && !started[size_t(last[t])].real->over;
      if (waits && cancels > 0) waiting.push_back(size_t(last[t]));
      if (!waits && next[t] < program.threads[t].size()) ready.push_back(t);
    }
    if (ready.empty() && waiting.empty()) break;
    const size_t c = choices->Choose(ready.size() + waiting.size());
    if (c >= ready.size()) {
      const Pair& p = started[waiting[c - ready.size()]];
      absl::StrAppend(&log, " cancel", waiting[c - ready.size()]);
      p.real->cancellation.Cancel();
      model.Cancel(p.want.get());
      --cancels;
    } else {
      const size_t t = ready[c];
      const std::string& op = program.threads[t][next[t]++];
      absl::StrAppend(&log, " ", t, ":", op);
      const int64_t n = op.size() > 1 ? op[1] - '0' : 0;
      std::vector<int64_t> values;
      for (int64_t i = 0; op[0] == 'E' && i < n; ++i)
        values.push_back(number++);
      OperationPtr real = op[0] == 'E'   ? EnqueueOf(values)
                          : op[0] == 'D' ? DequeueOf(n)
                          : op[0] == 'U' ? DequeueOf(n, true)
                                         : CloseOf(op[0] == 'X');
      auto want = std::make_unique<QueueModel::Op>();
      want->what = real->what;
      want->values.assign(values.begin(), values.end());
      want->count = n;
      want->flag = real->flag;
      last[t] = static_cast<int>(started.size());
      started.push_back({real, std::move(want)});
      real->Start(queue.get());
      model.Start(started.back().want.get());
    }
    for (size_t i = 0; i < started.size(); ++i) {
      const Pair& p = started[i];
      ASSERT_EQ(p.real->over, p.want->over) << i << " of" << log;
      if (!p.real->over) continue;
      ASSERT_EQ(p.real->code, p.want->code) << i << " of" << log;
      ASSERT_EQ(p.real->taken, p.want->taken) << i << " of" << log;
    }
    ASSERT_EQ(queue->size(), static_cast<int64_t>(model.size())) << log;
    ASSERT_EQ(queue->closed(), model.closed()) << log;
  }
  // (What still waits ends, so that nothing keeps the queue.)
  for (const Pair& p : started) p.real->cancellation.Cancel();
}

int64_t RunAllInterleavings(const QueueProgram& program, std::mt19937* rng) {
  QueueChoices choices;
  int64_t runs = 0;
  do {
    RunInterleaving(program, &choices, rng);
    ++runs;
  } while (!::testing::Test::HasFatalFailure() && choices.Next());
  return runs;
}

TEST(QueueModelTest, SmallProgramsDoWhatTheModelDoesInAllInterleavings) {
  std::mt19937 rng(1);
  const std::vector<QueueProgram> programs = {
      {1, {{"E1", "E1"}, {"D1", "D1"}}},
      {1, {{"E2"}, {"E1"}, {"D2", "D1"}}, 2},
      {2, {{"E3", "C"}, {"D2", "D2"}}, 2},
      {2, {{"E2", "C"}, {"D3"}, {"U3"}}},
      {1, {{"E2", "E1"}, {"D1", "X"}, {"U2", "D1"}}},
      {9, {{"E1", "E2"}, {"D2", "D1"}, {"C", "E1"}}},
      {2, {{"E3", "E1"}, {"D4", "D1"}, {"U2", "C"}}},
      {1, {{"E1", "C"}, {"E2", "C"}, {"U9", "U9"}}, 2},
      {1, {{"E2", "D1", "E1"}, {"D2", "E1", "D1"}}, 3}};
  int64_t runs = 0;
  for (const QueueProgram& p : programs) {
    runs += RunAllInterleavings(p, &rng);
    ASSERT_FALSE(HasFatalFailure()) << p.ToString();
  }
  EXPECT_GT(runs, 1000);
}

TEST(QueueModelTest, RandomProgramsDoWhatTheModelDoesInAllInterleavings) {
  std::mt19937 rng(7);
  const int programs = FullTest() ? 1000 : 100;
  for (int i = 0; i < programs; ++i) {
    QueueProgram p;
    p.capacity = int64_t{1} << rng() % 3;
    const size_t threads = 2 + rng() % 2;
    for (size_t t = 0; t < threads; ++t) {
      p.threads.emplace_back();
      const size_t ops = 2 + (threads == 2 ? rng() % 2 : 0);
      for (size_t o = 0; o < ops; ++o) {
        const char what = "EEEDDDUCX"[rng() % 9];
        p.threads.back().push_back(
            what == 'C' || what == 'X'
                ? std::string(1, what)
                : absl::StrCat(std::string(1, what), 1 + rng() % 3));
      }
    }
    RunAllInterleavings(p, &rng);
    ASSERT_FALSE(HasFatalFailure()) << p.ToString();
  }
}

// ---- Threads ----------------------------------------------------------------

// An operation that its thread awaits and another may cancel.
class AwaitedOperation {
 public:
  template <typename Start>
  Status Run(Start&& start) {
    {
      std::lock_guard<std::mutex> lock(mu_);
      cancellation_ = std::make_unique<Cancellation>();
      status_.reset();
    }
    start(cancellation_.get(), [this](Status s) {
      std::lock_guard<std::mutex> lock(mu_);
      status_ = std::move(s);
      changed_.notify_all();
    });
    std::unique_lock<std::mutex> lock(mu_);
    changed_.wait(lock, [this] { return status_.has_value(); });
    return *status_;
  }
  void Cancel() {
    std::shared_ptr<Cancellation> c;
    {
      std::lock_guard<std::mutex> lock(mu_);
      c = cancellation_;
    }
    if (c != nullptr) c->Cancel();
  }

 private:
  std::mutex mu_;
  std::condition_variable changed_;
  std::shared_ptr<Cancellation> cancellation_;  // GUARDED_BY(mu_)
  std::optional<Status> status_;                // GUARDED_BY(mu_)
};

TEST(QueueThreadsTest, ManyOperationsAndCancellationsKeepEachElement) {
  constexpr int kThreads = 8;
  constexpr int64_t kStride = int64_t{1} << 32;
  const int64_t operations = FullTest() ? 100000 : 8000;
  const auto seed = static_cast<uint32_t>(std::random_device()());
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  const auto queue = NumberQueue(5);
  AwaitedOperation awaited[kThreads];
  std::vector<std::vector<int64_t>> entered(kThreads), taken(kThreads);
  // Of enqueues that were cancelled: some first ones have entered.
  std::vector<std::vector<std::vector<int64_t>>> partly(kThreads);
  std::atomic<bool> stop{false};

  const auto work = [&](int t) {
    std::mt19937 rng(seed + static_cast<uint32_t>(t));
    int64_t next = t * kStride;
    const auto me = static_cast<size_t>(t);
    for (int64_t i = 0; i < operations / kThreads; ++i) {
      if (rng() % 2 == 0) {
        std::vector<int64_t> values(1 + rng() % 4);
        for (int64_t& v : values) v = next++;
        const Status s = awaited[t].Run([&](Cancellation* c, auto done) {
          queue->Enqueue(NumberElements(values), c, done);
        });
        if (s.ok()) {
          entered[me].insert(entered[me].end(), values.begin(), values.end());
        } else {
          EXPECT_EQ(s.code(), StatusCode::kCancelled);
          partly[me].push_back(values);
        }
      } else {
        const int64_t n = 1 + rng() % 7;
        const Status s = awaited[t].Run([&](Cancellation* c, auto done) {
          queue->Dequeue(n, rng() % 2 == 0, c,
                         [&, done](const Result<std::vector<Element>>& r) {
                           for (size_t e = 0; r.ok() && e < r->size(); ++e)
                             taken[me].push_back((*r)[e][0].scalar<int64_t>());
                           done(r.status());
                         });
        });
        if (!s.ok()) {
          EXPECT_EQ(s.code(), StatusCode::kCancelled);
        }
      }
    }
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) threads.emplace_back(work, t);
  // Without it all threads could wait for elements.
  std::thread canceller([&] {
    std::mt19937 rng(seed + 99);
    while (!stop) {
      for (AwaitedOperation& a : awaited)
        if (rng() % 2 == 0) a.Cancel();
      std::this_thread::yield();
    }
  });
  for (std::thread& t : threads) t.join();
  stop = true;
  canceller.join();

  queue->Close(true, nullptr, [](const Status& s) { EXPECT_TRUE(s.ok()); });
  const auto rest = Started(DequeueOf(1 << 20, true), queue);
  std::multiset<int64_t> left;  // Taken.
  taken.push_back(rest->taken);
  for (const auto& some : taken) {
    // The elements of one thread reach another in their order.
    std::vector<int64_t> newest(kThreads, -1);
    for (const int64_t v : some) {
      int64_t& n = newest[static_cast<size_t>(v / kStride)];
      EXPECT_LT(n, v) << "out of order";
      n = v;
      left.insert(v);
    }
  }
  for (const auto& some : entered)
    for (const int64_t v : some) EXPECT_EQ(left.erase(v), 1u) << v;
  for (const auto& enqueues : partly) {
    for (const auto& values : enqueues) {
      bool in = true;
      for (const int64_t v : values) {
        const size_t n = left.erase(v);
        EXPECT_LE(n, in ? 1u : 0u) << v;
        in = n == 1;
      }
    }
  }
  EXPECT_THAT(left, IsEmpty());
}

}  // namespace
}  // namespace sluice::queues
