// Positions of pipelines: what a pipeline gives after it was stopped anywhere
// and started from its saved position.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "base/sanitizers.h"
#include "client/operators.h"
#include "client/variables.h"
#include "data/dataset.h"
#include "graph/graphdef.h"
#include "session/session.h"
#include "sluice/ops.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Ints = std::vector<int64_t>;

Output FailsAtThree(Output x) {
  Node* check = ops::Assert(ops::NotEqual(x, int64_t{3}),
                            {Constant(Tensor::Scalar<std::string>("bad"))});
  const ControlDependencies after({check});
  return ops::Identity(x);
}

struct Pipeline {
  const char* name;
  std::function<Dataset()> make;
};

const Pipeline kPipelines[] = {
    {"RangeAlone", [] { return Dataset::Range(23); }},
    {"ShuffledBatchesOfEpochs",
     [] { return Dataset::Range(23).Shuffle(8, 3).Repeat(4).Batch(5); }},
    {"ShuffledEpochsOfBatches",
     [] {
       return Dataset::Range(23).Shuffle(8, 3).Batch(5).Repeat(3).Prefetch(2);
     }},
    {"ShufflesLast", [] { return Dataset::Range(9).Repeat(3).Shuffle(7, 1); }},
    {"MapsAndBatchesOfBatches",
     [] {
       return Dataset::Range(23)
           .Shuffle(5, 9)
           .Repeat(3)
           .Map([](Output x) { return x * int64_t{2}; })
           .Batch(2, {.drop_remainder = true})
           .Map([](Output x) { return x + int64_t{1}; }, {.parallel = 1})
           .Batch(3);
     }},
    {"NestedEpochs",
     [] {
       return Dataset::Range(4).Shuffle(3, 1).Repeat(2).Shuffle(3, 2).Repeat(3);
     }},
    {"EpochsThatEndEarly",
     [] { return Dataset::Range(9).Shuffle(4, 2).Take(5).Repeat(4); }},
    {"EpochsOfDifferentLengths",
     [] {
       return Dataset::Range(12)
           .Shuffle(4, 5)
           .TakeWhile([](Output x) { return x < int64_t{9}; })
           .Repeat(6);
     }},
    {"InterleavedInTurn",
     [] {
       return Dataset::Range(5)
           .Shuffle(5, 4)
           .Interleave(
               [](Output x) {
                 return Dataset::Range(x + int64_t{2}).Map([x](Output y) {
                   return x * int64_t{10} + y;
                 });
               },
               3)
           .Shuffle(4, 8)
           .Repeat(3)
           .Batch(3);
     }},
    {"ZippedConcatenatedAndFiltered",
     [] {
       return Dataset::Zip(Dataset::Range(6).Shuffle(6, 1),
                           Dataset::Range(9).Shuffle(4, 2))
           .Map([](Output x, Output y) { return x * int64_t{10} + y; })
           .Filter([](Output x) { return x > int64_t{12}; })
           .Concatenate(Dataset::Range(2))
           .Repeat(3);
     }},
    {"BucketsAndScan",
     [] {
       return Dataset::Range(7)
           .Map([](Output x) { return ops::Fill(ops::Reshape(x, {1}), x); })
           .Shuffle(4, 6)
           .BucketByLength([](Output x) { return ops::Size(x); }, {4}, {2, 2})
           .Repeat(3);
     }},
    {"IgnoredErrors",
     [] {
       return Dataset::Range(6)
           .Map(FailsAtThree)
           .IgnoreErrors()
           .Shuffle(3, 1)
           .Repeat(3);
     }},
};

class PipelinePositionTest : public ::testing::TestWithParam<Pipeline> {
 protected:
  PipelinePositionTest() : use_(graph_) {}

  void Build(const Dataset& dataset) {
    it_ = dataset.MakeIterator("input", {.saved = true});
    next_ = it_.Next();
    init_ = GlobalVariablesInitializer();
    for (const Var& v : GlobalVariables()) {
      reads_.push_back(v.Read());
      values_.push_back(Placeholder(DType::kInt64, reads_.back().shape()));
      restores_.push_back(v.Assign(values_.back()));
    }
  }
  // Up to `count` elements, after each of which there is a -1.
  Ints Take(Session& session, int64_t count, bool* ended = nullptr) {
    Ints got;
    for (; count > 0; --count) {
      const Result<std::vector<Tensor>> x = session.Run(next_);
      if (!x.ok()) {
        EXPECT_EQ(x.status().code(), StatusCode::kOutOfRange) << x.status();
        if (ended != nullptr) *ended = true;
        break;
      }
      const Ints v = (*x)[0].ToVector<int64_t>();
      got.insert(got.end(), v.begin(), v.end());
      got.push_back(-1);
    }
    return got;
  }
  std::vector<Tensor> Save(Session& session) {
    Result<std::vector<Tensor>> values = session.Run(reads_);
    EXPECT_TRUE(values.ok()) << values.status();
    return std::move(values).value();
  }
  void Restore(Session& session, const std::vector<Tensor>& saved) {
    Feeds feeds;
    for (size_t i = 0; i < saved.size(); ++i)
      feeds.push_back({values_[i], saved[i]});
    const auto status = session.Run(feeds, {}, restores_).status();
    ASSERT_TRUE(status.ok()) << status;
  }

  Graph graph_;
  const WithGraph use_;
  DatasetIterator it_;
  std::vector<Output> next_, reads_, values_;
  std::vector<Node*> restores_;
  Node* init_ = nullptr;
};

TEST_P(PipelinePositionTest, GoesOnWhereItWasWhereverItStops) {
  Build(GetParam().make());
  Ints whole;
  {
    Session session(graph_);
    ASSERT_TRUE(session.RunTargets({init_}).ok());
    ASSERT_TRUE(it_.Start(session).ok());
    whole = Take(session, 1000);
    it_.Stop();
  }
  const int64_t elements = std::count(whole.begin(), whole.end(), -1);
  ASSERT_GT(elements, 3);
  // (With sanitizers after every fifth element and at the end.)
  std::vector<int64_t> cuts;
  for (int64_t cut = 0; cut < elements; cut += kSanitized ? 5 : 1)
    cuts.push_back(cut);
  cuts.push_back(elements);
  std::vector<Tensor> saved;
  for (const int64_t cut : cuts) {
    Ints all;
    {
      Session session(graph_);
      ASSERT_TRUE(session.RunTargets({init_}).ok());
      ASSERT_TRUE(it_.Start(session).ok());
      all = Take(session, cut);
      saved = Save(session);
      it_.Stop();
    }
    Session session(graph_);  // Of another state.
    Restore(session, saved);
    ASSERT_TRUE(it_.Start(session).ok());
    // And again in the midst of the rest, in the same state.
    const Ints more = Take(session, (elements - cut) / 2);
    all.insert(all.end(), more.begin(), more.end());
    ASSERT_TRUE(it_.Start(session).ok());
    const Ints rest = Take(session, 1000);
    all.insert(all.end(), rest.begin(), rest.end());
    EXPECT_EQ(all, whole) << "after " << cut << " of " << elements;
    it_.Stop();
  }
}

INSTANTIATE_TEST_SUITE_P(Pipelines, PipelinePositionTest,
                         ::testing::ValuesIn(kPipelines), [](const auto& p) {
                           return std::string(p.param.name);
                         });

using SavedPipelineTest = PipelinePositionTest;

TEST_F(SavedPipelineTest, DoesNotMakeWholeEpochsAgain) {
  Build(Dataset::Range(1000).Shuffle(10, 3).Repeat().Batch(10));
  Session first(graph_);
  ASSERT_TRUE(first.RunTargets({init_}).ok());
  ASSERT_TRUE(it_.Start(first).ok());
  Take(first, 705);
  const std::vector<Tensor> saved = Save(first);
  const Ints after = Take(first, 1);
  it_.Stop();
  Session second(graph_);
  Restore(second, saved);
  ASSERT_TRUE(it_.Start(second).ok());
  EXPECT_EQ(Take(second, 1), after);
  const auto stages = it_.Stages(second);
  ASSERT_TRUE(stages.ok()) << stages.status();
  EXPECT_LT((*stages)[0].elements, 1000);
  it_.Stop();
}

// The fifth epoch has eight elements, and those before it seven.
TEST_F(SavedPipelineTest, LeavesOutNoEpochWhoseEndWasNotSeen) {
  Build(Dataset::Range(12)
            .Shuffle(4, 5)
            .TakeWhile([](Output x) { return x < int64_t{9}; })
            .Repeat(6));
  Session session(graph_);
  const auto rest = [&](int64_t taken, int64_t ended) {
    Restore(session, {Tensor::Scalar<int64_t>(taken),
                      Tensor::Vector<int64_t>({7, ended})});
    EXPECT_TRUE(it_.Start(session).ok());
    const Ints got = Take(session, 1000);
    return std::count(got.begin(), got.end(), -1);
  };
  EXPECT_EQ(rest(28, 4), 15);
  EXPECT_EQ(rest(28, 3), 15);
  EXPECT_EQ(rest(35, 4), 8);
  it_.Stop();
}

TEST_F(SavedPipelineTest, RewindsToTheBeginning) {
  Build(Dataset::Range(4));
  Session session(graph_);
  ASSERT_TRUE(session.RunTargets({init_}).ok());
  ASSERT_TRUE(it_.Start(session).ok());
  EXPECT_THAT(Take(session, 9), ElementsAre(0, -1, 1, -1, 2, -1, 3, -1));
  // It is at its end.
  ASSERT_TRUE(it_.Start(session).ok());
  EXPECT_THAT(Take(session, 9), ElementsAre());
  ASSERT_TRUE(it_.Rewind(session).ok());
  ASSERT_TRUE(it_.Start(session).ok());
  EXPECT_THAT(Take(session, 2), ElementsAre(0, -1, 1, -1));
  EXPECT_EQ(session.Run(it_.position().taken.Read())->scalar<int64_t>(), 2);
  it_.Stop();
}

TEST_F(SavedPipelineTest, CountsWhatTryNextTakes) {
  Build(Dataset::Range(3));
  const Queue::Maybe next = it_.TryNext();
  Session session(graph_);
  ASSERT_TRUE(session.RunTargets({init_}).ok());
  ASSERT_TRUE(it_.Start(session).ok());
  for (int i = 0; i < 5; ++i) {
    const auto x = session.Run({next.has_value, next.element[0]});
    ASSERT_TRUE(x.ok()) << x.status();
    EXPECT_EQ((*x)[0].scalar<bool>(), i < 3);
  }
  EXPECT_EQ(session.Run(it_.position().taken.Read())->scalar<int64_t>(), 3);
  it_.Stop();
}

TEST_F(SavedPipelineTest, NeedsAValueOfItsPosition) {
  Build(Dataset::Range(3));
  Session session(graph_);
  EXPECT_THAT(it_.Start(session).message(), HasSubstr("input/position"));
}

TEST_F(SavedPipelineTest, StartsAtTheBeginningFromSenselessPositions) {
  Build(Dataset::Range(3).Repeat(2));
  Session session(graph_);
  for (const auto& [taken, elements, ended] :
       {std::tuple<int64_t, int64_t, int64_t>{-5, 3, 0},
        {-1, -7, INT64_MAX},
        {0, INT64_MIN, INT64_MIN},
        {0, 3, -1}}) {
    Restore(session, {Tensor::Scalar<int64_t>(taken),
                      Tensor::Vector<int64_t>({elements, ended})});
    ASSERT_TRUE(it_.Start(session).ok());
    EXPECT_THAT(Take(session, 2), ElementsAre(0, -1, 1, -1));
  }
  Restore(session, {Tensor::Scalar<int64_t>(INT64_MAX),
                    Tensor::Vector<int64_t>({3, 2})});
  ASSERT_TRUE(it_.Start(session).ok());
  EXPECT_THAT(Take(session, 2), ElementsAre());
  it_.Stop();
}

TEST_F(SavedPipelineTest, RefusesPositionsThatNoStartWouldReach) {
  Build(Dataset::Range(3).Shuffle(3, 1).Repeat());
  Session session(graph_);
  const auto start_at = [&](int64_t taken, int64_t elements) {
    Restore(session, {Tensor::Scalar<int64_t>(taken),
                      Tensor::Vector<int64_t>({elements, INT64_MAX})});
    return it_.Start(session);
  };
  // The shuffling stage would go through the epochs before.
  for (const int64_t taken : {INT64_MAX - 1, int64_t{300'000'003}}) {
    const Status status = start_at(taken, 3);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(),
                AllOf(HasSubstr("expected at most 100000000 epochs"),
                      HasSubstr(std::to_string(taken))));
    // No step waits for what does not run.
    EXPECT_THAT(session.Run(next_).status().message(),
                HasSubstr("epochs to leave out"));
  }
  // All elements before would be made again.
  EXPECT_THAT(start_at(INT64_MAX - 1, 0).message(),
              HasSubstr("elements to make again"));
  // (It is as good as new.)
  ASSERT_TRUE(start_at(3000, 3).ok());
  EXPECT_EQ(Take(session, 4).size(), 8u);
  it_.Stop();
}

TEST_F(SavedPipelineTest, RefusesPositionsForInnerStagesThatRunOftener) {
  Build(Dataset::Range(3).Shuffle(3, 1).Repeat(1000).Shuffle(2, 1).Repeat());
  Session session(graph_);
  Restore(session, {Tensor::Scalar<int64_t>(INT64_MAX - 1),
                    Tensor::Vector<int64_t>({3000, INT64_MAX})});
  EXPECT_THAT(it_.Start(session).message(),
              HasSubstr("expected at most 100000 epochs"));
  it_.Stop();
}

TEST_F(SavedPipelineTest, WhereToBeginIsReadOnceNoOldElementCanBeTaken) {
  Build(Dataset::Range(30).Prefetch(4));
  // What is ready when `begin` runs.
  Var ready(Constant(Tensor::Vector<int64_t>(std::vector<int64_t>(8, -1))),
            "ready", {.trainable = false});
  Node* const init = GlobalVariablesInitializer();
  for (int i = 0; i < graph_.num_nodes(); ++i) {
    Node& n = *graph_.nodes()[static_cast<size_t>(i)];
    if (n.op().name != "QueueStats") continue;
    Node* const note = ready.Assign(Output{&n, 0});
    ASSERT_TRUE(graph_.AddControlEdge(note, it_.position().begin).ok());
    break;
  }
  Session session(graph_);
  ASSERT_TRUE(session.RunTargets({init}).ok());
  ASSERT_TRUE(it_.Start(session).ok());
  Take(session, 3);
  it_.Stop(session);
  // (More were ready.)
  ASSERT_TRUE(it_.Start(session).ok());
  EXPECT_EQ(session.Run(ready.Read())->data<int64_t>()[0], 0);
  EXPECT_THAT(Take(session, 2), ElementsAre(3, -1, 4, -1));
  it_.Stop();
}

TEST_F(SavedPipelineTest, RefusesWhatWouldNotBeTheSameAgain) {
  const std::pair<const char*, std::function<Dataset()>> refused[] = {
      {"Shuffle: expected a seed",
       [] { return Dataset::Range(3).Shuffle(2).Batch(2); }},
      {"FromQueue: expected a pipeline whose position is not saved",
       [] {
         return Dataset::FromQueue(Queue::Fifo({{DType::kInt64, {}}}));
       }},
      {"RandomUniform", [] {
         return Dataset::Range(3).Map([](Output) {
           return ops::RandomUniform(Tensor::Vector<int32_t>({2}),
                                     DType::kFloat, {.seed = 3});
         });
       }}};
  for (const auto& [message, make] : refused) {
    Graph g;
    const WithGraph use(g);
    make().MakeIterator("input", {.saved = true});
    EXPECT_THAT(
        std::string(g.status().message()),
        AllOf(HasSubstr(message), HasSubstr("pipeline_position_test.cc")));
  }
  // In a pipeline whose position is not saved they are as ever.
  EXPECT_FALSE(Dataset::Range(3).MakeIterator().position().taken.valid());
}

TEST_F(SavedPipelineTest, ElementsOfAPipelineThatNobodyStartedAreAnError) {
  DatasetIterator it = Dataset::Range(3).Batch(2).MakeIterator("numbers");
  const Output next = it.Next()[0];
  Session session(graph_);
  const Status status = session.Run(next).status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(),
              HasSubstr("pipeline 'numbers': expected it to be started"));
  // As well in a graph that was exported and imported.
  const auto bytes = ExportGraphDef(graph_);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  Graph loaded;
  ASSERT_TRUE(ImportGraphDef(*bytes, loaded).ok());
  Session other(loaded);
  Node* const node = loaded.FindNode(next.node->name());
  ASSERT_NE(node, nullptr);
  EXPECT_EQ(other.Run(Output{node, 0}).status().code(),
            StatusCode::kFailedPrecondition);
}

TEST_F(SavedPipelineTest, BucketsAreEmptyAtEachStart) {
  DatasetIterator it =
      Dataset::Range(7)
          .BucketByLength([](Output x) { return x; }, {4}, {3, 3})
          .MakeIterator();
  const Output next = it.Next()[0];
  Session session(graph_);
  for (int run = 0; run < 3; ++run) {
    ASSERT_TRUE(it.Start(session).ok());
    // (The next elements are in their bucket, or soon.)
    EXPECT_THAT(session.Run(next)->ToVector<int64_t>(), ElementsAre(0, 1, 2));
  }
  it.Stop();
}

TEST_F(SavedPipelineTest, AShuffleWithASeedGivesTheSameOrderAtEachStart) {
  constexpr int64_t kElements = kSanitized ? 300 : 3000;
  const DatasetIterator plain =
      Dataset::Range(kElements)
          .Shuffle(100, 3)
          .Map([](Output x) { return x + int64_t{1}; })
          .Repeat(2)
          .MakeIterator();
  DatasetIterator it = plain;
  const Output next = it.Next()[0];
  Session session(graph_);
  Ints first;
  for (int run = 0; run < 5; ++run) {
    ASSERT_TRUE(it.Start(session).ok());
    Ints all;
    for (auto x = session.Run(next); x.ok(); x = session.Run(next))
      all.push_back(x->scalar<int64_t>());
    ASSERT_EQ(all.size(), size_t{2 * kElements});
    if (run == 0) first = all;
    EXPECT_EQ(all, first);
  }
  EXPECT_NE(Ints(first.begin(), first.begin() + kElements),
            Ints(first.begin() + kElements, first.end()));
  it.Stop();
}

}  // namespace
}  // namespace sluice
