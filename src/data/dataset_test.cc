// Datasets: what elements a pipeline gives, in which order, and how it ends.
#include "data/dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "client/control/control_flow.h"
#include "client/operators.h"
#include "client/variables.h"
#include "data/coordinator.h"
#include "io/file.h"
#include "io/records.h"
#include "session/session.h"
#include "sluice/ops.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Ints = std::vector<int64_t>;

class DatasetTest : public ::testing::Test {
 protected:
  DatasetTest() : use_(graph_) {}

  // The first components of all elements, flattened, and the status at the end.
  Ints All(const Dataset& dataset, Status* end = nullptr,
           const Feeds& feeds = {}) {
    DatasetIterator it = dataset.MakeIterator();
    return AllOfIterator(it, end, feeds);
  }
  Ints AllOfIterator(DatasetIterator& it, Status* end = nullptr,
                     const Feeds& feeds = {}) {
    const std::vector<Output> next = it.Next();
    Session session(graph_);
    const Status started = it.Start(session, feeds);
    Ints all;
    Status status = started;
    while (status.ok() && all.size() < 100'000) {
      Result<std::vector<Tensor>> x = session.Run(next);
      status = x.status();
      if (x.ok()) {
        const std::vector<int64_t> v = (*x)[0].ToVector<int64_t>();
        all.insert(all.end(), v.begin(), v.end());
        sizes_.push_back(v.size());
      }
    }
    if (end != nullptr)
      *end = status;
    else
      EXPECT_EQ(status.code(), StatusCode::kOutOfRange) << status;
    it.Stop();
    return all;
  }

  Graph graph_;
  const WithGraph use_;
  std::vector<size_t> sizes_;  // Of the elements.
};

StatusCode CodeOf(Session& session, const Output& next) {
  return session.Run(next).status().code();
}

Ints Upto(int64_t n) {
  Ints all(static_cast<size_t>(n));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

TEST_F(DatasetTest, RangeCounts) {
  EXPECT_THAT(All(Dataset::Range(5)), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(All(Dataset::Range(0)), IsEmpty());
}

TEST_F(DatasetTest, RowsOfTensors) {
  const Dataset rows =
      Dataset::FromTensors({Tensor::Of<int64_t>({3, 2}, {1, 2, 3, 4, 5, 6}),
                            Tensor::Vector<int64_t>({10, 20, 30})});
  EXPECT_THAT(All(rows), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(
      All(rows.Map([](Output a, Output b) { return ops::Sum(a, {0}) * b; })),
      ElementsAre(30, 140, 330));
}

TEST_F(DatasetTest, TensorsOfDifferentSizesAreAnError) {
  Status end;
  All(Dataset::FromTensors({Tensor::Vector<int64_t>({1, 2}),
                            Tensor::Vector<int64_t>({1, 2, 3})}),
      &end);
  EXPECT_THAT(end.message(), HasSubstr("the same first dimension"));
}

TEST_F(DatasetTest, MapsInOrderHoweverManyAtOnce) {
  for (const int parallel : {1, 3, 64})
    EXPECT_THAT(All(Dataset::Range(300).Map([](Output x) { return x * x; },
                                            {.parallel = parallel})),
                ElementsAreArray([] {
                  Ints all = Upto(300);
                  for (int64_t& x : all) x *= x;
                  return all;
                }()));
}

TEST_F(DatasetTest, CallsAMapOfOneInTurn) {
  // Counts in a variable, without a lock.
  Var count(int64_t{0}, "count");
  const Dataset counted =
      Dataset::Range(200)
          .Map([](Output x) { return x + int64_t{1}; }, {.parallel = 32})
          .Map(
              [&](Output) {
                const Output before = ops::Identity(count.Read());
                const ControlDependencies read({before.node});
                const ControlDependencies written(
                    {count.Assign(before + int64_t{1})});
                return count.Read();
              },
              {.parallel = 1});
  DatasetIterator it = counted.MakeIterator();
  const Output next = it.Next()[0];
  Session session(graph_);
  ASSERT_TRUE(session.RunTargets({GlobalVariablesInitializer()}).ok());
  ASSERT_TRUE(it.Start(session).ok());
  for (int64_t i = 1; i <= 200; ++i)
    ASSERT_EQ(session.Run(next)->scalar<int64_t>(), i);
}

TEST_F(DatasetTest, KeepsPartlyKnownShapes) {
  const Dataset rows =
      Dataset::FromTensors({Tensor::Of<int64_t>({3, 2}, {1, 2, 3, 4, 5, 6})});
  EXPECT_EQ(rows.Batch(2).MakeIterator().Next()[0].shape().ToString(), "[?,2]");
  EXPECT_THAT(All(rows.Batch(2)), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST_F(DatasetTest, AShuffleOfOneKeepsTheOrder) {
  EXPECT_EQ(All(Dataset::Range(50).Shuffle(1)), Upto(50));
}

TEST_F(DatasetTest, FiltersAndMapsAgain) {
  EXPECT_THAT(
      All(Dataset::Range(10)
              .Filter([](Output x) { return ops::Equal(x % 3, int64_t{1}); })
              .Map([](Output x) { return x + 100; })),
      ElementsAre(101, 104, 107));
}

TEST_F(DatasetTest, TakesAndSkips) {
  EXPECT_THAT(All(Dataset::Range(10).Take(3)), ElementsAre(0, 1, 2));
  EXPECT_THAT(All(Dataset::Range(10).Take(0)), IsEmpty());
  EXPECT_THAT(All(Dataset::Range(10).Skip(7)), ElementsAre(7, 8, 9));
  EXPECT_THAT(All(Dataset::Range(10).Skip(20)), IsEmpty());
  EXPECT_THAT(All(Dataset::Range(10).Skip(2).Take(3).Skip(1)),
              ElementsAre(3, 4));
  EXPECT_THAT(All(Dataset::Range(10).Take(5).Take(2)), ElementsAre(0, 1));
  EXPECT_THAT(All(Dataset::Range(10).Take(2).Take(5)), ElementsAre(0, 1));
  EXPECT_THAT(
      All(Dataset::Range(100)
              .Filter([](Output x) { return ops::Equal(x % 10, int64_t{0}); })
              .Take(3)),
      ElementsAre(0, 10, 20));
}

TEST_F(DatasetTest, TakesWhileAPredicateHolds) {
  const auto below = [](int64_t n) {
    return [n](Output x) { return x % int64_t{10} < n; };
  };
  EXPECT_THAT(All(Dataset::Range(20).TakeWhile(below(4))),
              ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(All(Dataset::Range(3).TakeWhile(below(5))), ElementsAre(0, 1, 2));
  EXPECT_THAT(All(Dataset::Range(20).TakeWhile(below(0))), IsEmpty());
  EXPECT_THAT(All(Dataset::Range(20).TakeWhile(below(4)).Take(2).Repeat(2)),
              ElementsAre(0, 1, 0, 1));
  EXPECT_THAT(All(Dataset::Range(20).Prefetch(2).TakeWhile(below(2)).Repeat(2)),
              ElementsAre(0, 1, 0, 1));
}

TEST_F(DatasetTest, TakesOfAnEndlessOne) {
  EXPECT_THAT(All(Dataset::Range(3).Repeat().Take(7)),
              ElementsAre(0, 1, 2, 0, 1, 2, 0));
  EXPECT_THAT(All(Dataset::Range(3).Prefetch(2).Repeat().Prefetch(1).Take(7)),
              ElementsAre(0, 1, 2, 0, 1, 2, 0));
}

TEST_F(DatasetTest, RepeatsWithStagesBeforeIt) {
  EXPECT_THAT(All(Dataset::Range(3).Repeat(2)), ElementsAre(0, 1, 2, 0, 1, 2));
  EXPECT_THAT(All(Dataset::Range(3).Repeat(0)), IsEmpty());
  EXPECT_THAT(All(Dataset::Range(0).Repeat()), IsEmpty());
  EXPECT_THAT(
      All(Dataset::Range(2).Prefetch(1).Repeat(2).Prefetch(3).Repeat(2)),
      ElementsAre(0, 1, 0, 1, 0, 1, 0, 1));
  // The last batch of an epoch is smaller.
  sizes_.clear();
  EXPECT_THAT(All(Dataset::Range(3).Batch(2).Repeat(2)),
              ElementsAre(0, 1, 2, 0, 1, 2));
  EXPECT_THAT(sizes_, ElementsAre(2, 1, 2, 1));
}

TEST_F(DatasetTest, RepeatsWhatEndsEarly) {
  EXPECT_THAT(All(Dataset::Range(5).Prefetch(2).Take(2).Repeat(3)),
              ElementsAre(0, 1, 0, 1, 0, 1));
  EXPECT_THAT(All(Dataset::Range(50).Prefetch(2).Prefetch(2).Take(2).Repeat(3)),
              ElementsAre(0, 1, 0, 1, 0, 1));
  EXPECT_THAT(All(Dataset::Range(3).Repeat().Prefetch(2).Take(4).Repeat(2)),
              ElementsAre(0, 1, 2, 0, 0, 1, 2, 0));
  EXPECT_THAT(
      All(Dataset::Range(9).Batch(2).Take(2).Repeat(2).Take(3).Repeat(2)),
      ElementsAre(0, 1, 2, 3, 0, 1, 0, 1, 2, 3, 0, 1));
}

TEST_F(DatasetTest, BatchesAndTheirRemainder) {
  EXPECT_THAT(All(Dataset::Range(5).Batch(2)), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(sizes_, ElementsAre(2, 2, 1));
  const Dataset full = Dataset::Range(5).Batch(2, {.drop_remainder = true});
  EXPECT_THAT(All(full), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(full.MakeIterator().Next()[0].shape().ToString(), "[2]");
  EXPECT_THAT(All(Dataset::Range(8).Batch(2).Batch(2)),
              ElementsAreArray(Upto(8)));
}

TEST_F(DatasetTest, PadsElementsOfDifferentShapes) {
  const Dataset ragged = Dataset::Range(4).Map(
      [](Output x) { return ops::Fill(ops::Reshape(x, {1}), x); });
  EXPECT_THAT(All(ragged.Batch(2, {.padded = true})),
              ElementsAre(0, 1, 2, 2, 0, 3, 3, 3));
  Status end;
  All(ragged.Batch(2), &end);
  EXPECT_THAT(end.message(),
              HasSubstr("expected elements of shape [0], got [1]"));
}

TEST_F(DatasetTest, ShufflesEachEpochInAnotherOrder) {
  const Ints got = All(Dataset::Range(100).Shuffle(20, 7).Repeat(2));
  ASSERT_EQ(got.size(), 200);
  Ints first(got.begin(), got.begin() + 100),
      second(got.begin() + 100, got.end());
  EXPECT_NE(first, second);
  EXPECT_NE(first, Upto(100));
  std::sort(first.begin(), first.end());
  std::sort(second.begin(), second.end());
  EXPECT_EQ(first, Upto(100));
  EXPECT_EQ(second, Upto(100));
}

TEST_F(DatasetTest, ConcatenatesZipsAndEnumerates) {
  const Dataset a = Dataset::Range(3), b = Dataset::Range(5).Skip(3);
  EXPECT_THAT(All(a.Concatenate(b)), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(All(a.Concatenate(b).Take(4)), ElementsAre(0, 1, 2, 3));
  const auto both = [](Output x, Output y) { return x * int64_t{10} + y; };
  EXPECT_THAT(All(Dataset::Zip(a, b).Map(both)), ElementsAre(3, 14));
  EXPECT_THAT(All(Dataset::Zip(b, a).Map(both)), ElementsAre(30, 41));
  EXPECT_THAT(All(Dataset::Zip(b, a).Repeat(2).Map(both)),
              ElementsAre(30, 41, 30, 41));
  EXPECT_THAT(All(b.Enumerate().Map(both)), ElementsAre(3, 14));
}

TEST_F(DatasetTest, ConcatenatesElementsOfOtherShapes) {
  const auto rows = [](int64_t n) {
    return Dataset::Range(2).Map([n](Output x) {
      return ops::Fill(Tensor::Vector<int32_t>({static_cast<int32_t>(n)}), x);
    });
  };
  DatasetIterator both = rows(1).Concatenate(rows(3)).MakeIterator();
  EXPECT_EQ(both.Next()[0].shape(), PartialShape({-1}));
  EXPECT_THAT(AllOfIterator(both), ElementsAre(0, 1, 0, 0, 0, 1, 1, 1));
  const Dataset scalar = Dataset::Range(1).Concatenate(rows(2));
  EXPECT_FALSE(scalar.MakeIterator().Next()[0].shape().rank_known());
  EXPECT_THAT(All(rows(2).Concatenate(rows(1)).Batch(3, {.padded = true})),
              ElementsAre(0, 0, 1, 1, 0, 0, 1));
  EXPECT_THAT(All(rows(2).Concatenate(rows(1)).Shuffle(1)),
              ElementsAre(0, 0, 1, 1, 0, 1));
  const auto length = [](Output x) { return ops::Size(x); };
  EXPECT_THAT(All(rows(1).Concatenate(rows(3)).BucketByLength(length, {}, {3})),
              ElementsAre(0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 1, 1));
}

TEST_F(DatasetTest, ScansWithAState) {
  EXPECT_THAT(All(Dataset::Range(5).Scan(
                  {Constant(int64_t{0})},
                  [](const Dataset::Element& sum, const Dataset::Element& x) {
                    const Output s = sum[0] + x[0];
                    return std::pair{Dataset::Element{s}, Dataset::Element{s}};
                  })),
              ElementsAre(0, 1, 3, 6, 10));
}

TEST_F(DatasetTest, FlattensDatasetsOfElements) {
  const auto upto = [](Output x) { return Dataset::Range(x); };
  EXPECT_THAT(All(Dataset::Range(4).FlatMap(upto)),
              ElementsAre(0, 0, 1, 0, 1, 2));
  EXPECT_THAT(All(Dataset::Range(4).FlatMap(upto).Take(4)),
              ElementsAre(0, 0, 1, 0));
  Status end;
  All(Dataset::Range(4).FlatMap(
          [](Output x) { return Dataset::Range(x).Batch(2); }),
      &end);
  EXPECT_THAT(end.message(), HasSubstr("no stages with queues of their own"));
}

TEST_F(DatasetTest, InterleavesInAnyOrderButEachInItsOwn) {
  for (const int cycle : {1, 3}) {
    const Ints got = All(Dataset::Range(6)
                             .Interleave(
                                 [](Output x) {
                                   return Dataset::Range(50).Map([x](Output y) {
                                     return x * int64_t{100} + y;
                                   });
                                 },
                                 cycle)
                             .Repeat(2));
    std::vector<Ints> of(6);
    for (const int64_t v : got)
      of[static_cast<size_t>(v / 100)].push_back(v % 100);
    for (const Ints& one : of) {
      Ints twice = Upto(50);
      twice.insert(twice.end(), twice.begin(), twice.end());
      ASSERT_EQ(one.size(), 100);
      EXPECT_TRUE(std::is_sorted(one.begin(), one.begin() + 50));
      EXPECT_TRUE(std::is_sorted(one.begin() + 50, one.end()));
    }
  }
}

TEST_F(DatasetTest, BucketsByLength) {
  // Lengths 0 to 5, in rows of as many equal values.
  const Dataset ragged =
      Dataset::FromTensors({Tensor::Vector<int64_t>({1, 4, 2, 5, 1, 3})})
          .Map([](Output x) { return ops::Fill(ops::Reshape(x, {1}), x); });
  const auto length = [](Output x) { return ops::Size(x); };
  EXPECT_THAT(All(ragged.BucketByLength(length, {3}, {2, 2})),
              ElementsAre(1, 0, 2, 2,                    // 1 and 2
                          4, 4, 4, 4, 0, 5, 5, 5, 5, 5,  // 4 and 5
                          1, 3, 3, 3));
  EXPECT_THAT(
      All(ragged.Take(3).BucketByLength(length, {3}, {2, 2}, true).Repeat(2)),
      ElementsAre(1, 0, 2, 2, 1, 0, 2, 2));
  EXPECT_THAT(All(ragged.BucketByLength(length, {3}, {2, 2}, true)),
              ElementsAre(1, 0, 2, 2, 4, 4, 4, 4, 0, 5, 5, 5, 5, 5));
}

// ---- Errors and ends --------------------------------------------------------

Output FailsAt(Output x, int64_t at) {
  Node* check = ops::Assert(ops::NotEqual(x, at),
                            {Constant(Tensor::Scalar<std::string>("bad one"))});
  const ControlDependencies after({check});
  return ops::Identity(x);
}

bool BeginsWith(const Ints& all, const Ints& first) {
  return first.size() <= all.size() &&
         std::equal(first.begin(), first.end(), all.begin());
}

TEST_F(DatasetTest, AnErrorComesAfterElementsBeforeIt) {
  Status end;
  const Dataset fails =
      Dataset::Range(100).Map([](Output x) { return FailsAt(x, 50); });
  EXPECT_PRED2(BeginsWith, Upto(50), All(fails, &end));
  EXPECT_EQ(end.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(end.message(),
              AllOf(HasSubstr("bad one"), HasSubstr("dataset_test.cc")));
  // Also through further stages.
  EXPECT_PRED2(BeginsWith, Upto(50),
               All(fails.Prefetch(3).Batch(5).Prefetch(2), &end));
  EXPECT_THAT(end.message(), HasSubstr("bad one"));
}

TEST_F(DatasetTest, AnOutOfRangeOfAFunctionIsNotTheEnd) {
  Queue closed = Queue::Fifo({{DType::kInt64, {}}});
  Status end;
  All(Dataset::Range(3).Map([&](Output x) {
    const ControlDependencies after({closed.Close()});
    return closed.Dequeue()[0] + x;
  }),
      &end);
  EXPECT_EQ(end.code(), StatusCode::kInvalidArgument) << end;
}

TEST_F(DatasetTest, IgnoresElementsWithErrors) {
  DatasetIterator it = Dataset::Range(6)
                           .Map([](Output x) { return FailsAt(x, 2); })
                           .Map([](Output x) { return FailsAt(x, 4) + 1; })
                           .IgnoreErrors()
                           .Repeat(2)
                           .MakeIterator();
  EXPECT_THAT(AllOfIterator(it), ElementsAre(1, 2, 4, 6, 1, 2, 4, 6));
  EXPECT_EQ(it.ignored_errors(), 4);
}

TEST_F(DatasetTest, ErrorsBeforeTheIgnoredOnesAreReported) {
  Status end;
  EXPECT_PRED2(BeginsWith, Upto(3),
               All(Dataset::Range(6)
                       .Map([](Output x) { return FailsAt(x, 3); })
                       .Prefetch(1)
                       .Map([](Output x) { return x; })
                       .IgnoreErrors(),
                   &end));
  EXPECT_THAT(end.message(), HasSubstr("bad one"));
}

// What the elements of a pipeline that could not be built say, for two tensors.
std::vector<std::string> FailedPair(const Dataset& dataset) {
  DatasetIterator it = dataset.MakeIterator();
  const Queue::Maybe maybe = it.TryNext();
  EXPECT_EQ(maybe.element.size(), 2);
  std::vector<std::string> says;
  for (const Output& o : it.Next())
    says.emplace_back(Session().Run(o).status().message());
  return says;
}

TEST_F(DatasetTest, AFunctionThatFailsIsTheErrorOfEachTensor) {
  const auto wrong = [](Output x) {
    return std::tuple{x, ops::MatMul(Zeros({2, 3}), Zeros({2, 3}))};
  };
  const Dataset fails = Dataset::Range(6).Map(wrong);
  const auto inner = HasSubstr("expected inner dimensions that agree");
  EXPECT_THAT(FailedPair(fails), ElementsAre(inner, inner));
  EXPECT_THAT(FailedPair(fails.Shuffle(4, 1)
                             .Map([](Output x, Output y) {
                               return std::tuple{x, y + 1};
                             })
                             .Batch(2)
                             .Repeat(2)
                             .Prefetch(1)),
              ElementsAre(inner, inner));
  const auto length = [](Output x, Output) { return ops::Size(x); };
  EXPECT_THAT(FailedPair(fails.BucketByLength(length, {2}, {1, 1})),
              ElementsAre(inner, inner));
  EXPECT_THAT(
      FailedPair(Dataset::Range(6).Map([](Output x) {
        return std::tuple{x, Output()};
      })),
      Each(HasSubstr("element of a pipeline: expected tensors, got none")));
  const std::vector<Output> next = Dataset::Range(3)
                                       .Map([](Output, Output y) { return y; })
                                       .MakeIterator()
                                       .Next();
  ASSERT_EQ(next.size(), 1);
  EXPECT_THAT(Session().Run(next[0]).status().message(),
              HasSubstr("expected to take 1 tensors, got one that takes 2"));
}

TEST_F(DatasetTest, AnArgumentThatIsTooSmallIsTheErrorOfEachTensor) {
  const Dataset pairs = Dataset::Range(6).Map([](Output x) {
    return std::tuple{x, x};
  });
  const auto length = [](Output x, Output) { return ops::Size(x); };
  const std::pair<Dataset, std::string> wrongs[] = {
      {pairs.Batch(0), "Batch: size: expected at least 1, got 0"},
      {pairs.Shuffle(-5), "Shuffle: buffer: expected at least 1, got -5"},
      {pairs.Prefetch(0), "Prefetch: count: expected at least 1, got 0"},
      {pairs.Map(
           [](Output x, Output y) {
             return std::tuple{x, y};
           },
           {.parallel = 0}),
       "Map: parallel: expected at least 1, got 0"},
      {pairs.BucketByLength(length, {2, 1}, {1, 1, 1}),
       "BucketByLength: a boundary after another: expected at least 2, got 1"},
      {pairs.BucketByLength(length, {2}, {1, 0}),
       "BucketByLength: batch_sizes: expected at least 1, got 0"},
      {pairs.BucketByLength(length, {2}, {1}),
       "BucketByLength: expected 2 batch sizes for 1 boundaries, got 1"},
  };
  for (const auto& [dataset, says] : wrongs)
    EXPECT_THAT(FailedPair(dataset),
                ElementsAre(AllOf(HasSubstr(says), HasSubstr("dataset_test")),
                            HasSubstr(says)));
}

TEST_F(DatasetTest, StopsWhileItsConsumerWaits) {
  Queue never = Queue::Fifo({{DType::kInt64, {}}});
  DatasetIterator it = Dataset::FromQueue(never).Batch(2).MakeIterator();
  const Output next = it.Next()[0];
  Session session(graph_);
  ASSERT_TRUE(it.Start(session).ok());
  Coordinator coordinator;
  ASSERT_TRUE(
      coordinator.Start([&] { return session.Run(next).status(); }).ok());
  it.Stop();
  EXPECT_EQ(coordinator.Join().code(), StatusCode::kCancelled);
}

TEST_F(DatasetTest, StartsAgainFromItsBeginningWithOtherFeeds) {
  const Output limit = ops::Placeholder(DType::kInt64, {.shape = Shape()});
  DatasetIterator it =
      Dataset::Range(limit).Batch(2).Prefetch(4).MakeIterator();
  const Output next = it.Next()[0];
  Session session(graph_);
  for (const int64_t n : {3, 5}) {
    ASSERT_TRUE(it.Start(session, {{limit, Tensor::Scalar(n)}}).ok());
    EXPECT_EQ(session.Run(next)->ToVector<int64_t>(), (Ints{0, 1}));
  }
  EXPECT_EQ(session.Run(next)->ToVector<int64_t>(), (Ints{2, 3}));
  EXPECT_EQ(session.Run(next)->ToVector<int64_t>(), (Ints{4}));
  EXPECT_EQ(session.Run(next).status().code(), StatusCode::kOutOfRange);
  EXPECT_TRUE(it.Join().ok());
}

TEST_F(DatasetTest, RunsInSeveralSessionsWithElementsForEach) {
  DatasetIterator it = Dataset::Range(1000).Prefetch(2).MakeIterator();
  const Output next = it.Next()[0];
  auto first = std::make_unique<Session>(graph_);
  Session second(graph_);
  const auto take = [&](Session& session) {
    return session.Run(next)->scalar<int64_t>();
  };
  ASSERT_TRUE(it.Start(*first).ok());
  EXPECT_EQ(take(*first), 0);
  ASSERT_TRUE(it.Start(second).ok());
  EXPECT_EQ(take(second), 0);
  EXPECT_EQ(take(*first), 1);
  // A session with the same state starts it again there.
  Session same(graph_, first->options());
  ASSERT_TRUE(it.Start(same).ok());
  EXPECT_EQ(take(*first), 0);
  EXPECT_EQ(take(same), 1);
  EXPECT_EQ(take(second), 1);
  EXPECT_TRUE(it.Running(*first));
  it.Stop(*first);
  EXPECT_FALSE(it.Running(same));
  EXPECT_TRUE(it.Running(second));
  StatusCode end = StatusCode::kOk;  // (After those that are ready.)
  while (end == StatusCode::kOk) end = CodeOf(*first, next);
  EXPECT_EQ(end, StatusCode::kCancelled);
  first.reset();
  for (int64_t i = 2; i < 1000; ++i) ASSERT_EQ(take(second), i);
  EXPECT_EQ(CodeOf(second, next), StatusCode::kOutOfRange);
  EXPECT_TRUE(it.Join().ok());
  EXPECT_FALSE(it.Running(second));
}

TEST_F(DatasetTest, FeedsALoopOfTheGraph) {
  DatasetIterator it = Dataset::Range(1000).MakeIterator();
  const Queue::Maybe first = it.TryNext();
  const auto sum = While(
      std::tuple{first.has_value, first.element[0], Constant(int64_t{0})},
      [](Output more, Output, Output) { return more; },
      [&](Output, Output x, Output sum) {
        const Queue::Maybe next = it.TryNext();
        return std::tuple{next.has_value, next.element[0], sum + x};
      });
  Session session(graph_);
  ASSERT_TRUE(it.Start(session).ok());
  const auto got = session.Run(std::get<2>(sum));
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->scalar<int64_t>(), 999 * 1000 / 2);
}

TEST_F(DatasetTest, StagesSayWhatHoldsThemUp) {
  DatasetIterator it =
      Dataset::Range(1000).Prefetch(4).Batch(2).Prefetch(3).MakeIterator();
  Session session(graph_);
  const Output next = it.Next()[0];
  ASSERT_TRUE(it.Start(session).ok());
  ASSERT_TRUE(session.Run(next).ok());
  std::vector<StageStatus> stages;
  // The stages answer one after the other, and each counts from the question
  // before (the first answers 0): elements may still move when all say that
  // they are full, and none do when all say so twice in a row.
  const auto at_rest = [](const StageStatus& s) {
    return s.full && s.per_second == 0;
  };
  stages = *it.Stages(session);
  for (int times = 0; times < 2;) {
    stages = *it.Stages(session);
    const bool all = std::all_of(stages.begin(), stages.end(), at_rest);
    times = all ? times + 1 : 0;
  }
  EXPECT_EQ(stages[2].elements, 4);
  EXPECT_EQ(stages[2].ready, 3);
  // Nobody takes any: since the question before, all have waited for room.
  stages = *it.Stages(session);
  for (const StageStatus& s : stages) {
    EXPECT_EQ(s.per_second, 0) << s.name;
    EXPECT_GT(s.full_share, 0) << s.name;
    EXPECT_EQ(s.starving_share, 0) << s.name;
    EXPECT_FALSE(s.slowest) << s.name;
  }
  // (Where the question itself takes most of the time, nothing is known.)
  std::string line;
  do line = it.StatusLine(session);
  while (!absl::StrContains(line, "slowest"));
  EXPECT_THAT(line, HasSubstr(" > prefetch 4 at 0.0/s (3/3 full) > slowest: "
                              "the steps that take elements"));
  // Elements count per second.
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(session.Run(next).ok());
  stages = *it.Stages(session);
  EXPECT_GT(stages[2].per_second, 0);
}

TEST_F(DatasetTest, AStageThatMakesNothingIsTheSlowest) {
  const Queue none = Queue::Fifo({{DType::kInt64, {}}});
  DatasetIterator it = Dataset::FromQueue(none)
                           .Prefetch(4)
                           .Map([](Output x) { return x + int64_t{1}; })
                           .Batch(2)
                           .Prefetch(3)
                           .MakeIterator();
  Session session(graph_);
  const Output next = it.Next()[0];
  ASSERT_TRUE(it.Start(session).ok());
  std::thread taker([&] { EXPECT_FALSE(session.Run(next).ok()); });
  std::vector<StageStatus> stages;
  do stages = *it.Stages(session);
  while (!std::all_of(stages.begin(), stages.end(),
                      [](const StageStatus& s) { return s.starving; }));
  do stages = *it.Stages(session);
  while (!stages[0].slowest);
  for (size_t i = 1; i < stages.size(); ++i) EXPECT_FALSE(stages[i].slowest);
  EXPECT_GT(stages[0].starving_share, stages[0].full_share);
  EXPECT_EQ(stages[0].per_second, 0);
  std::string line;
  do line = it.StatusLine(session);
  while (!absl::StrContains(line, "slowest"));
  EXPECT_THAT(line, HasSubstr("0/4 starving, slowest) > "));
  it.Stop();
  taker.join();
}

// (The benchmarks queue.ten_million and pipeline.ten_million count the memory
// of the process, over more elements.)
TEST_F(DatasetTest, MemoryStaysFlatHoweverManyElements) {
  const Output limit = ops::Placeholder(DType::kInt64, {.shape = Shape()});
  DatasetIterator it = Dataset::Range(limit)
                           .Map([](Output x) { return x * int64_t{2}; })
                           .Shuffle(50, /*seed=*/3)
                           .Batch(10)
                           .MakeIterator();
  const Output next = it.Next()[0];
  const Queue queue = Queue::Fifo({{DType::kInt64, {-1}}}, {.capacity = 4});
  const Output x = ops::Placeholder(DType::kInt64);
  Node* const put = queue.Enqueue({x});
  const Output took = queue.Dequeue()[0];
  Session session(graph_);
  const auto live_after = [&](int64_t elements) {
    EXPECT_TRUE(it.Start(session, {{limit, Tensor::Scalar(elements)}}).ok());
    for (int64_t i = 0; i < elements / 10; ++i) {
      const auto batch = session.Run(next);
      EXPECT_TRUE(batch.ok()) << batch.status();
      EXPECT_TRUE(session.RunTargets({put}, {{x, *batch}}).ok());
      EXPECT_EQ(session.Run(took)->num_elements(), 10);
    }
    EXPECT_EQ(CodeOf(session, next), StatusCode::kOutOfRange);
    EXPECT_TRUE(it.Join().ok());
    return Allocator::Cpu()->stats().live_bytes;
  };
  const int64_t before = live_after(1000);
  EXPECT_EQ(live_after(5000), before);
}

// ---- Files ------------------------------------------------------------------

class DatasetFilesTest : public DatasetTest {
 protected:
  DatasetFilesTest()
      : folder_(
            ::testing::TempDir() + "/dataset_files_" +
            ::testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::filesystem::create_directories(folder_);
  }
  ~DatasetFilesTest() override { std::filesystem::remove_all(folder_); }
  void Write(const std::string& name, int64_t begin, int64_t end,
             RecordCompression compression = RecordCompression::kNone) {
    RecordOptions options;
    options.compression = compression;
    auto writer = *RecordWriter::Open(folder_ + "/" + name, options);
    for (int64_t i = begin; i < end; ++i)
      ASSERT_TRUE(writer->Write(std::to_string(i)).ok());
    ASSERT_TRUE(writer->Close().ok());
  }
  static Output Number(Output text) {
    return ops::StringToNumber(text, {.out_type = DType::kInt64});
  }

  const std::string folder_;
};

TEST_F(DatasetFilesTest, ReadsRecordsOfSeveralFiles) {
  for (const bool zlib : {false, true}) {
    const auto c = zlib ? RecordCompression::kZlib : RecordCompression::kNone;
    Write("a", 0, 100, c);
    Write("b", 100, 100, c);
    Write("c", 100, 164, c);  // One block exactly.
    const auto records = [&](Output file) {
      return Dataset::TfRecords(file, {.compression = zlib ? "ZLIB" : ""});
    };
    const Dataset files = Dataset::FromFiles((folder_ + "/*").c_str());
    EXPECT_EQ(All(files.FlatMap(records).Map(Number)), Upto(164));
    Ints any = All(files.Interleave(records).Map(Number));
    std::sort(any.begin(), any.end());
    EXPECT_EQ(any, Upto(164));
    EXPECT_EQ(All(files.FlatMap(records).Map(Number).Take(70)), Upto(70));
  }
}

TEST_F(DatasetFilesTest, ReadsLinesAndRecordsOfFixedLength) {
  std::string lines = "a header\n";
  for (int i = 0; i < 200; ++i) lines += std::to_string(i) + "\n";
  ASSERT_TRUE(WriteFile(folder_ + "/lines", lines).ok());
  EXPECT_EQ(
      All(Dataset::TextLines((folder_ + "/lines").c_str(), 1).Map(Number)),
      Upto(200));
  std::string records = "head";
  for (int i = 0; i < 200; ++i) records += std::to_string(1000 + i);
  ASSERT_TRUE(WriteFile(folder_ + "/records", records + "end").ok());
  EXPECT_EQ(
      All(Dataset::FixedLengthRecords((folder_ + "/records").c_str(), 4,
                                      {.header_bytes = 4, .footer_bytes = 3})
              .Map([](Output x) { return Number(x) - int64_t{1000}; })),
      Upto(200));
  Status end;
  All(Dataset::FixedLengthRecords("x", 0).Map(Number), &end);
  EXPECT_THAT(end.message(), HasSubstr("record_bytes: expected at least 1"));
  ASSERT_TRUE(WriteFile(folder_ + "/records", records + "12end").ok());
  All(Dataset::FixedLengthRecords((folder_ + "/records").c_str(), 4,
                                  {.header_bytes = 4, .footer_bytes = 3})
          .Map(Number),
      &end);
  EXPECT_THAT(end.message(),
              HasSubstr("expected a multiple of 4 bytes, got 802"));
}

TEST_F(DatasetFilesTest, NamesMissingFilesAndPatternsWithoutFiles) {
  Status end;
  All(Dataset::TfRecords((folder_ + "/none").c_str()).Map(Number), &end);
  EXPECT_EQ(end.code(), StatusCode::kNotFound) << end;
  EXPECT_THAT(end.message(), HasSubstr(folder_ + "/none"));
  All(Dataset::FromFiles((folder_ + "/none*").c_str()).Map(Number), &end);
  EXPECT_THAT(end.message(), HasSubstr("none*"));
}

TEST_F(DatasetFilesTest, ACorruptRecordFailsOrEndsItsFile) {
  Write("a", 0, 100);
  Write("b", 100, 200);
  std::string bytes = *ReadFile(folder_ + "/a");
  bytes[bytes.size() / 2] ^= 1;
  ASSERT_TRUE(WriteFile(folder_ + "/a", bytes).ok());
  const auto read = [&](bool ignore) {
    return Dataset::FromFiles((folder_ + "/*").c_str())
        .FlatMap([ignore](Output file) {
          return Dataset::TfRecords(file, {.ignore_errors = ignore});
        })
        .Map(Number);
  };
  Status end;
  All(read(false), &end);
  EXPECT_EQ(end.code(), StatusCode::kDataLoss) << end;
  EXPECT_THAT(end.message(), HasSubstr(folder_ + "/a"));
  const Ints got = All(read(true));
  EXPECT_GT(got.size(), 140);
  EXPECT_EQ(got.back(), 199);
  EXPECT_EQ(
      std::count_if(got.begin(), got.end(), [](int64_t x) { return x >= 100; }),
      100);
}

}  // namespace
}  // namespace sluice
