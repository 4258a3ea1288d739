// Savers: what is saved is restored, what differs is named, what is old is
// deleted, and whatever goes wrong leaves the checkpoint before.
#include "train/saver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <random>
#include <thread>

#include "base/failpoint.h"
#include "checkpoint/bundle_writer.h"
#include "checkpoint/state.h"
#include "client/nn/embedding.h"
#include "client/nn/optimizers.h"
#include "client/operators.h"
#include "client/partitioned_variables.h"
#include "io/file.h"
#include "sluice/ops.h"
#include "train/run_lock.h"
#include "train/testing/other_run_test_util.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class SaverTest : public ::testing::Test {
 protected:
  SaverTest()
      : folder_(std::filesystem::temp_directory_path() /
                ("sluice_saver_" + std::to_string(getpid()))),
        use_(g_) {
    std::filesystem::create_directories(folder_);
  }
  ~SaverTest() override {
    DisableFailpoints();
    std::filesystem::remove_all(folder_);
  }
  std::string Path(const std::string& name) const {
    return (folder_ / name).string();
  }
  // Names in the folder, without the lock's.
  std::vector<std::string> Files() const {
    std::vector<std::string> out;
    for (const auto& e : std::filesystem::directory_iterator(folder_))
      if (e.path().filename() != ".run.lock")
        out.push_back(e.path().filename().string());
    std::sort(out.begin(), out.end());
    return out;
  }
  std::vector<std::string> Indices() const {
    std::vector<std::string> out;
    for (const std::string& f : Files())
      if (f.ends_with(".index")) out.push_back(f);
    return out;
  }

  const std::filesystem::path folder_;
  Graph g_;
  WithGraph use_;
};

Output Floats(const std::vector<float>& values) {
  return Constant(Tensor::Vector<float>(values));
}

TEST_F(SaverTest, WhatIsSavedIsRestored) {
  for (const bool reference : {false, true})
    for (const bool sharded : {false, true}) {
      SCOPED_TRACE(absl::StrCat(reference, sharded));
      Graph g;
      const WithGraph use(g);
      const Var a(Floats({1, 2}), "a", {.reference = reference});
      const Var b(Constant(Tensor::Scalar<int64_t>(7)), "scope/b",
                  {.reference = reference});
      Saver saver({.sharded = sharded});
      ASSERT_TRUE(saver.status().ok()) << saver.status();
      Node* const change = a.Assign(Floats({5, 6}));
      Node* const init = GlobalVariablesInitializer();
      Session session(g);
      ASSERT_TRUE(session.RunTargets({init}).ok());
      const auto path = saver.Save(session, Path("m"), 3);
      ASSERT_TRUE(path.ok()) << path.status();
      EXPECT_EQ(*path, Path("m-3"));
      EXPECT_EQ(*LatestCheckpoint(folder_.string()), Path("m-3"));
      ASSERT_TRUE(session.RunTargets({change}).ok());
      const Status s = saver.Restore(session, *path);
      ASSERT_TRUE(s.ok()) << s;
      EXPECT_THAT(session.Run(a)->ToVector<float>(), ElementsAre(1, 2));
      // Without having been initialised.
      Session other(g);
      ASSERT_TRUE(saver.Restore(other, *path).ok());
      EXPECT_EQ(other.Run(b)->scalar<int64_t>(), 7);
    }
}

TEST_F(SaverTest, CheckpointsOfObjectsAreRestoredByFullNamesAndLogged) {
  const std::string objects = "tests/checkpoints/objects";  // TensorFlow 2's.
  const Var kernel(Constant(Tensor(DType::kFloat, Shape({2, 3}))),
                   "dense/kernel");
  const Var bias(Floats({0, 0, 0}), "dense/bias", {.reference = true});
  const Var step(Constant(Tensor::Scalar<int64_t>(0)), "global_step");
  std::vector<std::string> log;
  Saver saver({.log = [&](const std::string& line) { log.push_back(line); }});
  Session session(g_);
  const Status s = saver.Restore(session, objects);
  ASSERT_TRUE(s.ok()) << s;
  EXPECT_THAT(session.Run(kernel)->ToVector<float>(),
              ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(session.Run(bias)->ToVector<float>(), ElementsAre(1, 2, 3));
  EXPECT_EQ(session.Run(step)->scalar<int64_t>(), 7);
  ASSERT_EQ(log.size(), 1u);
  EXPECT_THAT(log[0], HasSubstr("restoring 3 of 3 variables by their full"));

  // A missing one is named with the nearest full name; nothing is assigned.
  const Var other(Floats({0, 0, 0}), "dense/biases");
  Saver more({.name = "more"});
  Session fresh(g_);
  const Status missing = more.Restore(fresh, objects);
  EXPECT_THAT(missing.message(),
              HasSubstr("'dense/biases' is not in the "
                        "checkpoint; nearest: 'dense/bias'"));
  EXPECT_FALSE(fresh.Run(kernel).ok());
}

TEST_F(SaverTest, FileUrlsArePaths) {
  const Var a(Floats({1, 2}), "a");
  for (const bool sharded : {false, true}) {
    Saver saver({.name = "of", .sharded = sharded});
    Session session(g_);
    ASSERT_TRUE(session.RunTargets({a.initializer()}).ok());
    const std::string url = "file://" + Path(sharded ? "sharded" : "whole");
    const auto saved = saver.Save(session, url + "/m", 1);
    ASSERT_TRUE(saved.ok()) << saved.status();
    EXPECT_EQ(*saved, Path(sharded ? "sharded/m-1" : "whole/m-1"));
    EXPECT_TRUE(CheckpointExists(url + "/m-1"));
    EXPECT_EQ(*LatestCheckpoint(url), *saved);
    Session other(g_);
    EXPECT_TRUE(saver.Restore(other, url + "/m-1").ok());
    EXPECT_THAT(other.Run(a)->ToVector<float>(), ElementsAre(1, 2));
    ASSERT_TRUE(saver.SaveAsync(session, url + "/n", 2).ok());
    EXPECT_TRUE(saver.WaitForSaves().ok());
    EXPECT_TRUE(DeleteCheckpoint(url + "/m-1").ok());
    EXPECT_FALSE(CheckpointExists(*saved));
  }
  EXPECT_EQ(Files(), (std::vector<std::string>{"sharded", "whole"}));
}

TEST_F(SaverTest, PartsOfAVariableAreSlicesOfOneTensor) {
  // A model whose table is in `parts` parts, and its optimizer's slots.
  struct Model {
    explicit Model(int64_t parts) {
      const WithGraph use(g);
      table =
          GetPartitionedVariable("table", {7, 2}, FixedSizePartitioner(parts),
                                 init::RandomUniform(-1, 1, /*seed=*/1));
      const Output loss =
          ops::Sum(ops::Square(EmbeddingLookup(
                       table, Constant(Tensor::Vector<int32_t>({0, 3, 6, 3})))),
                   {0, 1});
      train = adagrad.Minimize(loss);
      init = GlobalVariablesInitializer();
      std::vector<Var> slots;
      for (const Var& v : table.parts())
        slots.push_back(adagrad.GetSlot(v, "accumulator"));
      accumulator = PartitionedVar(slots);
      values = ops::Pack({table, accumulator});
      saver = std::make_unique<Saver>();
    }
    Graph g;
    AdagradOptimizer adagrad{0.5};
    PartitionedVar table, accumulator;
    Node *train = nullptr, *init = nullptr;
    Output values;
    std::unique_ptr<Saver> saver;
  };
  Model three(3);
  ASSERT_TRUE(three.saver->status().ok()) << three.saver->status();
  Session session(three.g);
  ASSERT_TRUE(session.RunTargets({three.init}).ok());
  ASSERT_TRUE(session.RunTargets({three.train}).ok());
  const auto path = three.saver->Save(session, Path("m"), 1);
  ASSERT_TRUE(path.ok()) << path.status();
  const Result<Tensor> want = session.Run(three.values);
  ASSERT_TRUE(want.ok()) << want.status();
  // The files hold whole tensors, under the names of the wholes.
  const auto reader = CheckpointReader::Open(*path);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_TRUE(reader->Has("table"));
  EXPECT_TRUE(reader->Has("table/Adagrad"));
  EXPECT_FALSE(reader->Has("table/part_0"));
  for (const int64_t parts : {1, 2, 7}) {
    Model other(parts);
    Session elsewhere(other.g);
    const Status restored = other.saver->Restore(elsewhere, *path);
    ASSERT_TRUE(restored.ok()) << restored;
    EXPECT_EQ(elsewhere.Run(other.values)->ToVector<float>(),
              want->ToVector<float>());
  }
  // A model without parts, and one with parts that restores what it saved.
  Graph g;
  const WithGraph use(g);
  const Var whole(Zeros({7, 2}), "table");
  Saver saver;
  Session plain(g);
  ASSERT_TRUE(saver.Restore(plain, *path).ok());
  const auto again = saver.Save(plain, Path("n"), 1);
  ASSERT_TRUE(again.ok()) << again.status();
  Model two(2);
  Session split(two.g);
  {
    const WithGraph in_two(two.g);
    std::vector<SavedVariable> some;
    for (const Var& v : two.table.parts())
      some.push_back({"table", v, PartOf(v)->ShapeAndSlice()});
    Saver only({.variables = some});
    const Status s = only.Restore(split, *again);
    ASSERT_TRUE(s.ok()) << s;
    EXPECT_EQ(split.Run(Output(ops::Identity(two.table)))->ToVector<float>(),
              plain.Run(whole)->ToVector<float>());
  }
}

TEST_F(SaverTest, TheNodesHaveTensorFlowsNames) {
  const Var a(Floats({1}), "a", {.reference = true});
  const Var b(Floats({1}), "b", {.reference = true});
  const Saver saver;
  EXPECT_EQ(saver.filename().name(), "save/Const:0");
  EXPECT_EQ(saver.save_tensor().name(), "save/control_dependency:0");
  EXPECT_EQ(saver.restore_op()->name(), "save/restore_all");
  for (const char* const name :
       {"save/filename/input", "save/filename", "save/SaveV2",
        "save/SaveV2/tensor_names", "save/SaveV2/shape_and_slices",
        "save/RestoreV2", "save/RestoreV2/tensor_names",
        "save/RestoreV2/shape_and_slices", "save/Assign", "save/Assign_1"})
    EXPECT_NE(g_.FindNode(name), nullptr) << name;
  const Saver second({.sharded = true});
  for (const char* const name :
       {"save_1/StringJoin", "save_1/num_shards", "save_1/ShardedFilename",
        "save_1/SaveV2", "save_1/control_dependency",
        "save_1/MergeV2Checkpoints/checkpoint_prefixes",
        "save_1/MergeV2Checkpoints", "save_1/Identity", "save_1/restore_shard",
        "save_1/restore_all"})
    EXPECT_NE(g_.FindNode(name), nullptr) << name;
}

TEST_F(SaverTest, ACheckpointOfAnotherModelIsDescribed) {
  {
    auto writer = *BundleWriter::Open(Path("m"));
    ASSERT_TRUE(
        writer->Add("dense/kernel", Tensor(DType::kDouble, Shape({2}))).ok());
    ASSERT_TRUE(
        writer->Add("dense/weights", Tensor(DType::kFloat, Shape({3}))).ok());
    ASSERT_TRUE(writer->Add("same", Tensor(DType::kFloat, Shape({1}))).ok());
    ASSERT_TRUE(writer->Finish().ok());
  }
  const Var a(Floats({1, 2}), "dense/kernel");
  const Var b(Floats({1, 2}), "dense/weight");
  const Var c(Floats({4}), "same");
  Saver saver;
  Session session(g_);
  ASSERT_TRUE(session.RunTargets({GlobalVariablesInitializer()}).ok());
  const Status s = saver.Restore(session, Path("m"));
  EXPECT_EQ(s.code(), StatusCode::kInvalidArgument);
  const std::string text(s.message());
  EXPECT_THAT(text, HasSubstr("'dense/weight' is not in the checkpoint; "
                              "nearest: 'dense/weights'"));
  EXPECT_THAT(text, HasSubstr("'dense/kernel': expected float[2], got "
                              "double[2]"));
  EXPECT_THAT(text, HasSubstr("'dense/weights' is only in the checkpoint"));
  // Nothing was assigned.
  EXPECT_EQ(session.Run(c)->data<float>()[0], 4);
  EXPECT_EQ(saver.Restore(session, Path("none")).code(), StatusCode::kNotFound);
}

TEST_F(SaverTest, RenamedAndReshapedSubsetsAreRestored) {
  {
    auto writer = *BundleWriter::Open(Path("m"));
    ASSERT_TRUE(writer->Add("old", Tensor::Vector<float>({1, 2, 3, 4})).ok());
    ASSERT_TRUE(writer->Add("more", Tensor::Scalar(1.f)).ok());
    ASSERT_TRUE(writer->Finish().ok());
  }
  const Var a(Constant(Tensor(DType::kFloat, Shape({2, 2}))), "fresh");
  const Var b(Floats({9}), "untouched");
  Session session(g_);
  ASSERT_TRUE(session.RunTargets({GlobalVariablesInitializer()}).ok());
  Saver strict({.variables = {{"old", a}}});
  EXPECT_THAT(std::string(strict.Restore(session, Path("m")).message()),
              HasSubstr("'old': expected float[2,2], got float[4]"));
  Saver saver({.variables = {{"old", a}}, .reshape = true});
  const Status s = saver.Restore(session, Path("m"));
  ASSERT_TRUE(s.ok()) << s;
  EXPECT_THAT(session.Run(a)->ToVector<float>(), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(session.Run(b)->data<float>()[0], 9);
}

TEST_F(SaverTest, PartsOfAVariableAreSavedAsOne) {
  const Var top(Floats({1, 2, 3}), "w/part_0");
  const Var bottom(Floats({4, 5}), "w/part_1");
  Saver saver({.variables = {{"w", top, "5 0,3"}, {"w", bottom, "5 3,2"}}});
  Session session(g_);
  ASSERT_TRUE(session.RunTargets({GlobalVariablesInitializer()}).ok());
  ASSERT_TRUE(saver.Save(session, Path("m")).ok());
  EXPECT_THAT(CheckpointReader::Open(Path("m"))->Read("w")->ToVector<float>(),
              ElementsAre(1, 2, 3, 4, 5));
  // Divided otherwise.
  Graph g;
  const WithGraph use(g);
  const Var first(Floats({0}), "first");
  const Var rest(Floats({0, 0, 0, 0}), "rest");
  Saver other({.variables = {{"w", first, "5 0,1"}, {"w", rest, "5 1,4"}}});
  Session session2(g);
  const Status s = other.Restore(session2, Path("m"));
  ASSERT_TRUE(s.ok()) << s;
  EXPECT_THAT(session2.Run(rest)->ToVector<float>(), ElementsAre(2, 3, 4, 5));
}

TEST_F(SaverTest, OldCheckpointsAreDeletedAndSomeAreKept) {
  double now = 1000;
  const Var a(Floats({1}), "a");
  Saver saver(
      {.max_to_keep = 2, .keep_every_n_hours = 1, .keep_best = 1, .clock = [&] {
         return now;
       }});
  Session session(g_);
  ASSERT_TRUE(session.RunTargets({GlobalVariablesInitializer()}).ok());
  const double metrics[] = {5, 1, 3, 4, 2, 6};
  for (int i = 0; i < 6; ++i) {
    now += 1500;
    const auto path = saver.Save(session, Path("m"),
                                 SaveOptions{.step = i, .metric = metrics[i]});
    ASSERT_TRUE(path.ok()) << path.status();
  }
  // 4 and 5 are the latest, 1 the best, 2 was the first after an hour.
  EXPECT_THAT(Indices(),
              ElementsAre("m-1.index", "m-2.index", "m-4.index", "m-5.index"));
  EXPECT_THAT(saver.last_checkpoints(), ElementsAre(Path("m-4"), Path("m-5")));
  // A saver of a later run goes on with these.
  Saver next({.max_to_keep = 2, .keep_best = 1, .clock = [&] { return now; }});
  ASSERT_TRUE(next.RecoverLastCheckpoints(folder_.string()).ok());
  ASSERT_TRUE(
      next.Save(session, Path("m"), SaveOptions{.step = 6, .metric = 0.5})
          .ok());
  EXPECT_THAT(Indices(), ElementsAre("m-2.index", "m-5.index", "m-6.index"));
}

TEST_F(SaverTest, WhatIsKeptForGoodStaysWhenOthersAreBetter) {
  const Var a(Floats({1}), "a");
  Session session(g_);
  ASSERT_TRUE(session.RunTargets({GlobalVariablesInitializer()}).ok());
  double now = 0;
  const auto options = [&] {
    return SaverOptions{.max_to_keep = 1,
                        .keep_every_n_hours = 1,
                        .keep_best = 1,
                        .clock = [&] { return now; }};
  };
  const auto save = [&](Saver& saver, const std::string& name, int step,
                        double time, double metric) {
    now = time;
    const auto path = saver.Save(session, Path(name),
                                 SaveOptions{.step = step, .metric = metric});
    EXPECT_TRUE(path.ok()) << path.status();
  };
  // It leaves the latest, and then, also in a later run, the best.
  for (const bool later_run : {false, true}) {
    const std::string folder = later_run ? "later/" : "same/";
    now = 0;
    Saver first(options());
    save(first, folder + "m", 0, 3960, 1);
    save(first, folder + "m", 1, 7200, 5);
    Saver second(options());
    if (later_run) {
      ASSERT_TRUE(second.RecoverLastCheckpoints(Path(folder)).ok());
    }
    save(later_run ? second : first, folder + "m", 2, 7300, 0.5);
    for (int i = 0; i < 3; ++i)
      EXPECT_EQ(CheckpointExists(Path(absl::StrCat(folder, "m-", i))), i != 1)
          << folder << i;
  }
  // It leaves both at once.
  now = 0;
  Saver saver(options());
  save(saver, "m", 0, 3960, 1);
  save(saver, "m", 1, 7200, 0.5);
  EXPECT_THAT(Indices(), ElementsAre("m-0.index", "m-1.index"));
}

TEST_F(SaverTest, WhatCouldNotBeDeletedIsDeletedLater) {
  const Var a(Floats({1}), "a");
  Saver saver({.max_to_keep = 1});
  Session session(g_);
  ASSERT_TRUE(session.RunTargets({GlobalVariablesInitializer()}).ok());
  ASSERT_TRUE(saver.Save(session, Path("m"), 0).ok());
  // (After those of the data, the index and the list of what is to be deleted
  // the state file is renamed.)
  ASSERT_TRUE(EnableFailpoints("checkpoint.rename=error(full)@3*1").ok());
  EXPECT_FALSE(saver.Save(session, Path("m"), 1).ok());
  DisableFailpoints();
  EXPECT_THAT(Indices(), ElementsAre("m-0.index", "m-1.index"));
  ASSERT_TRUE(saver.Save(session, Path("m"), 2).ok());
  EXPECT_THAT(Indices(), ElementsAre("m-2.index"));
  // A folder that is not empty cannot be removed as a file.
  std::filesystem::create_directories(Path("m-2.meta/more"));
  EXPECT_FALSE(saver.Save(session, Path("m"), 3).ok());
  EXPECT_TRUE(std::filesystem::exists(Path("m-2.meta")));
  std::filesystem::remove(Path("m-2.meta/more"));
  ASSERT_TRUE(saver.Save(session, Path("m"), 4).ok());
  EXPECT_FALSE(std::filesystem::exists(Path("m-2.meta")));
  EXPECT_THAT(Indices(), ElementsAre("m-4.index"));
}

// Also by another process, which recovers: but never what a list names again,
// and nothing for a list that is cut off.
TEST_F(SaverTest, WhatCouldNotBeDeletedIsDeletedByTheNextRun) {
  const Var a(Floats({1}), "a");
  Session session(g_);
  ASSERT_TRUE(session.RunTargets({GlobalVariablesInitializer()}).ok());
  const std::string list = Path("checkpoint.obsolete");
  {
    Saver saver({.max_to_keep = 1});
    ASSERT_TRUE(saver.Save(session, Path("m"), 0).ok());
    EXPECT_FALSE(std::filesystem::exists(list));
    // A folder that is not empty cannot be removed as a file.
    std::filesystem::create_directories(Path("m-0.meta/more"));
    EXPECT_FALSE(saver.Save(session, Path("m"), 1).ok());
    EXPECT_EQ(*ReadFile(list), "m-0\n");
  }
  std::filesystem::remove(Path("m-0.meta/more"));
  // (As if the process had been killed between the index and the data.)
  ASSERT_TRUE(WriteFile(Path("m-0.data-00000-of-00001"), "x").ok());
  ASSERT_TRUE(WriteFile(list, "m-0\nm-1\n" + Path("m-1") + "\nm-7").ok());
  ASSERT_TRUE(WriteFile(Path("m-7.index"), "x").ok());
  Saver saver({.max_to_keep = 2});
  ASSERT_TRUE(saver.RecoverLastCheckpoints(folder_.string()).ok());
  ASSERT_TRUE(saver.Save(session, Path("m"), 2).ok());
  EXPECT_FALSE(std::filesystem::exists(Path("m-0.meta")));
  EXPECT_FALSE(std::filesystem::exists(Path("m-0.data-00000-of-00001")));
  EXPECT_FALSE(std::filesystem::exists(list));
  EXPECT_THAT(Indices(), ElementsAre("m-1.index", "m-2.index", "m-7.index"));
}

TEST_F(SaverTest, LongDifferencesAreCutOff) {
  {
    auto writer = *BundleWriter::Open(Path("m"));
    for (int i = 0; i < 25; ++i)
      ASSERT_TRUE(
          writer->Add(absl::StrCat("saved_name_", i), Tensor::Scalar(1.f))
              .ok());
    ASSERT_TRUE(writer->Finish().ok());
  }
  std::vector<WantedTensor> wanted;
  for (int i = 0; i < 22; ++i)
    wanted.push_back({absl::StrCat("saved_nam_", i), DType::kFloat});
  const CheckpointDifference difference =
      CompareCheckpoint(*CheckpointReader::Open(Path("m")), wanted);
  ASSERT_EQ(difference.missing.size(), 22u);
  EXPECT_EQ(difference.surplus.size(), 25u);
  EXPECT_FALSE(difference.missing[19].nearest.empty());
  EXPECT_TRUE(difference.missing[20].nearest.empty());
  const std::string text = difference.ToString();
  EXPECT_THAT(text, HasSubstr("'saved_nam_19' is not"));
  EXPECT_THAT(text, Not(HasSubstr("'saved_nam_20' is not")));
  EXPECT_THAT(text, HasSubstr("and 2 more that are not in the checkpoint\n"));
  EXPECT_THAT(text, HasSubstr("and 5 more that are only in the checkpoint\n"));
}

TEST_F(SaverTest, TheStateFileIsTensorFlows) {
  const Var a(Floats({1}), "a");
  Saver saver({.relative_paths = true, .clock = [] { return 1.5; }});
  Session session(g_);
  ASSERT_TRUE(session.RunTargets({GlobalVariablesInitializer()}).ok());
  ASSERT_TRUE(saver.Save(session, Path("m"), 1).ok());
  ASSERT_TRUE(saver.Save(session, Path("m"), 2).ok());
  EXPECT_EQ(*ReadFile(Path("checkpoint")),
            "model_checkpoint_path: \"m-2\"\n"
            "all_model_checkpoint_paths: \"m-1\"\n"
            "all_model_checkpoint_paths: \"m-2\"\n"
            "all_model_checkpoint_timestamps: 1.5\n"
            "all_model_checkpoint_timestamps: 1.5\n"
            "last_preserved_timestamp: 1.5\n");
  ASSERT_TRUE(WriteFile(Path("checkpoint"), "model_checkpoint_path: 3").ok());
  EXPECT_EQ(LatestCheckpoint(folder_.string()).status().code(),
            StatusCode::kDataLoss);
  ASSERT_TRUE(
      WriteFile(Path("checkpoint"), "model_checkpoint_path: \"gone\"").ok());
  EXPECT_EQ(LatestCheckpoint(folder_.string()).status().code(),
            StatusCode::kNotFound);
}

TEST_F(SaverTest, MisuseIsAnError) {
  EXPECT_EQ(Saver().status().code(), StatusCode::kInvalidArgument);
  const Var a(Floats({1}), "a");
  EXPECT_FALSE(Saver({.variables = {{"x", Var()}}}).status().ok());
  EXPECT_FALSE(Saver({.variables = {{"", a}}}).status().ok());
  EXPECT_FALSE(Saver({.variables = {{"x", a}, {"x", a}}}).status().ok());
  EXPECT_FALSE(Saver({.variables = {{"x", a, "what"}}}).status().ok());
  EXPECT_FALSE(Saver({.max_to_keep = -1}).status().ok());
  EXPECT_FALSE(Saver({.keep_every_n_hours = 0}).status().ok());
  Saver saver;
  Session session(g_);
  ASSERT_TRUE(session.RunTargets({GlobalVariablesInitializer()}).ok());
  for (const char* const path : {"", "/", "a/..", "."})
    EXPECT_EQ(saver.Save(session, path).status().code(),
              StatusCode::kInvalidArgument)
        << path;
  EXPECT_EQ(saver.Save(session, Path("m"), -1).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(saver.Save(session, Path("checkpoint")).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(saver.WaitForSaves().status().code(),
            StatusCode::kFailedPrecondition);
  Session fresh(g_);
  EXPECT_THAT(std::string(saver.Save(fresh, Path("m")).status().message()),
              HasSubstr("'a'"));
  EXPECT_FALSE(saver.SaveAsync(fresh, Path("m")).ok());
  EXPECT_THAT(Files(), ElementsAre());
}

// ---- Beside training --------------------------------------------------------

TEST_F(SaverTest, ASnapshotIsOfTheTimeWhenItWasTaken) {
  const Var a(Constant(Tensor(DType::kFloat, Shape({1000}))), "a");
  Node* const fill =
      a.Assign(Constant(*Tensor::Zeros(DType::kFloat, Shape({1000}))));
  Node* const add = a.AssignAdd(ops::Fill({1000}, 1.f));
  std::atomic<int> reported{0};
  Saver saver({.on_saved = [&](const Result<std::string>& path) {
    reported += path.ok() ? 1 : 100;
  }});
  Session session(g_);
  ASSERT_TRUE(session.RunTargets({fill}).ok());
  // (Each save is slow: training goes on meanwhile.)
  ASSERT_TRUE(EnableFailpoints("checkpoint.flush=delay(30)").ok());
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(saver.SaveAsync(session, Path("m"), i).ok());
    for (int k = 0; k < 10; ++k) ASSERT_TRUE(session.RunTargets({add}).ok());
  }
  const auto latest = saver.WaitForSaves();
  ASSERT_TRUE(latest.ok()) << latest.status();
  EXPECT_EQ(*latest, Path("m-2"));
  EXPECT_EQ(reported, 3);
  for (int i = 0; i < 3; ++i) {
    const auto read =
        CheckpointReader::Open(Path(absl::StrCat("m-", i)))->Read("a");
    for (const float x : read->flat<float>()) ASSERT_EQ(x, 10 * i);
  }
}

TEST_F(SaverTest, TheThreadThatReportsASaveCannotWaitForIt) {
  const Var a(Floats({1}), "a");
  Session session(g_);
  ASSERT_TRUE(session.RunTargets({GlobalVariablesInitializer()}).ok());
  std::vector<Status> got;
  Saver* self = nullptr;
  Saver saver({.on_saved = [&](const Result<std::string>&) {
    got.push_back(self->WaitForSaves().status());
    got.push_back(self->SaveAsync(session, Path("m"), 2));
  }});
  self = &saver;
  ASSERT_TRUE(saver.SaveAsync(session, Path("m"), 1).ok());
  const auto latest = saver.WaitForSaves();
  ASSERT_TRUE(latest.ok()) << latest.status();
  EXPECT_EQ(*latest, Path("m-1"));
  ASSERT_EQ(got.size(), 2u);
  for (const Status& s : got)
    EXPECT_EQ(s.code(), StatusCode::kFailedPrecondition) << s;
}

TEST_F(SaverTest, SnapshotsBetweenUpdatesAreConsistent) {
  const Var a(Floats({0}), "a");
  const Var b(Floats({0}), "b");
  Node* const add_a = a.AssignAdd(Floats({1}));
  Node* add_b = nullptr;
  {
    const ControlDependencies after({add_a});
    add_b = b.AssignAdd(Floats({1}));
  }
  std::shared_mutex updates;
  Saver saver({.updates = &updates});
  Session session(g_);
  ASSERT_TRUE(session.RunTargets({GlobalVariablesInitializer()}).ok());
  std::atomic<bool> stop{false};
  std::thread trainer([&] {
    while (!stop) {
      const std::shared_lock<std::shared_mutex> lock(updates);
      EXPECT_TRUE(session.RunTargets({add_b}).ok());
    }
  });
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(saver.SaveAsync(session, Path("m")).ok());
    ASSERT_TRUE(saver.WaitForSaves().ok());
    const auto reader = CheckpointReader::Open(Path("m"));
    EXPECT_EQ(reader->Read("a")->data<float>()[0],
              reader->Read("b")->data<float>()[0]);
  }
  stop = true;
  trainer.join();
}

TEST_F(SaverTest, AFailedSaveHurtsNeitherTrainingNorTheCheckpointBefore) {
  const Var a(Floats({1}), "a");
  Node* const add = a.AssignAdd(Floats({1}));
  for (const bool sharded : {false, true}) {
    Saver saver({.sharded = sharded});
    Session session(g_);
    ASSERT_TRUE(session.RunTargets({GlobalVariablesInitializer()}).ok());
    ASSERT_TRUE(saver.Save(session, Path("m"), 1).ok());
    const auto before = Files();
    for (const char* const point :
         {"checkpoint.write", "checkpoint.flush", "checkpoint.rename"}) {
      ASSERT_TRUE(
          EnableFailpoints(absl::StrCat(point, "=error(no room)*1")).ok());
      EXPECT_THAT(
          std::string(saver.Save(session, Path("m"), 2).status().message()),
          HasSubstr("no room"));
      ASSERT_TRUE(
          EnableFailpoints(absl::StrCat(point, "=error(no room)*1")).ok());
      ASSERT_TRUE(saver.SaveAsync(session, Path("m"), 2).ok());
      ASSERT_TRUE(session.RunTargets({add}).ok());
      EXPECT_THAT(std::string(saver.WaitForSaves().status().message()),
                  HasSubstr("no room"));
      DisableFailpoints();
      EXPECT_EQ(Files(), before) << point;
      EXPECT_EQ(*LatestCheckpoint(folder_.string()), Path("m-1"));
    }
    ASSERT_TRUE(saver.SaveAsync(session, Path("m"), 1).ok());
    EXPECT_TRUE(saver.WaitForSaves().ok());
  }
}

// ---- Other processes --------------------------------------------------------

TEST_F(SaverTest, TwoRunsInAFolderAreDetected) {
  OtherRun other(folder_.string());
  const Var a(Floats({1}), "a");
  Saver saver;
  Session session(g_);
  ASSERT_TRUE(session.RunTargets({GlobalVariablesInitializer()}).ok());
  const Status s = saver.Save(session, Path("m")).status();
  EXPECT_EQ(s.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(s.message()),
              HasSubstr(absl::StrCat("process ", other.pid(), " on ")));
  other.Kill();
  EXPECT_TRUE(saver.Save(session, Path("m")).ok());
}

// What a dead run left is removed, but no file of another name, and none once
// this process saves to the folder.
TEST_F(SaverTest, OnlyLeftoversOfDeadRunsAreRemoved) {
  const std::string hex(32, 'a');
  const std::vector<std::string> own = {"m.index.tempstate1",
                                        "m-7.data-00000-of-00001.tempstate23",
                                        "m-7_temp_" + hex,
                                        "m_temp_" + hex,
                                        "checkpoint.tempstate1",
                                        "checkpoint.best.tempstate1",
                                        "checkpoint.obsolete.tempstate1"};
  const std::vector<std::string> others = {"m_b-1.index.tempstate1",
                                           "m-b.index.tempstate1",
                                           "m2.index.tempstate1",
                                           "m-7.index.tempstate",
                                           "m_temp_ab",
                                           "m.tempstate1.txt",
                                           "checkpoint2.tempstate1"};
  const auto create = [&](const std::vector<std::string>& names) {
    for (const std::string& name : names)
      ASSERT_TRUE(WriteFile(Path(name), "x").ok());
  };
  create(own);
  create(others);
  const Var a(Floats({1}), "a");
  Session session(g_);
  ASSERT_TRUE(session.RunTargets({GlobalVariablesInitializer()}).ok());
  Saver first, second;
  ASSERT_TRUE(first.Save(session, Path("m")).ok());
  for (const std::string& name : own)
    EXPECT_FALSE(std::filesystem::exists(Path(name))) << name;
  for (const std::string& name : others)
    EXPECT_TRUE(std::filesystem::exists(Path(name))) << name;
  // Now they may be of the first saver.
  create(own);
  ASSERT_TRUE(second.Save(session, Path("m")).ok());
  for (const std::string& name : own)
    EXPECT_TRUE(std::filesystem::exists(Path(name))) << name;
}

// Kills a process that saves, at 40 seeded instants after its first save: the
// checkpoint that the state file names is always whole, and what the dead
// process left is removed.
TEST_F(SaverTest, TheLatestCheckpointIsWholeAfterAnyKill) {
  constexpr uint64_t kSeed = 20;
  std::mt19937_64 random(kSeed);
  for (int round = 0; round < 40; ++round) {
    int saved[2];
    ASSERT_EQ(pipe(saved), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      close(saved[0]);
      // (Steps of one thread: the child has no others.)
      Graph g;
      const WithGraph use(g);
      const Var a(ops::Fill({30'000}, 0.f), "a");
      const Var b(ops::Fill({30'000}, 0.f), "b");
      Node* const add_a = a.AssignAdd(ops::Fill({30'000}, 1.f));
      Node* const add_b = b.AssignAdd(ops::Fill({30'000}, 1.f));
      Saver saver({.sharded = round % 2 == 1, .max_to_keep = 2});
      SessionOptions one_thread;
      one_thread.inter_op_threads = 0;
      one_thread.intra_op_threads = 1;
      Session session(g, one_thread);
      Node* const init = GlobalVariablesInitializer();
      const auto latest = LatestCheckpoint(folder_.string());
      const Status s = latest.ok() ? saver.Restore(session, *latest)
                                   : session.RunTargets({init});
      if (!s.ok()) _exit(3);
      if (latest.ok() && !saver.RecoverLastCheckpoints(folder_.string()).ok())
        _exit(4);
      for (bool first = true;; first = false) {
        if (!session.RunTargets({add_a, add_b}).ok()) _exit(5);
        const auto step = session.Run(a);
        // The same two paths again and again, and new ones.
        const auto n = static_cast<int64_t>(step->data<float>()[0]);
        if (!saver.Save(session, Path("m"), round % 3 == 0 ? n % 2 : n).ok())
          _exit(6);
        if (first && write(saved[1], "s", 1) != 1) _exit(7);
      }
    }
    // (Read ends too if the child does.)
    close(saved[1]);
    char byte = 0;
    const ssize_t got = read(saved[0], &byte, 1);
    close(saved[0]);
    usleep(static_cast<useconds_t>(random() % 60'000));
    kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status))
        << "exit " << WEXITSTATUS(status) << ", seed " << kSeed << ", round "
        << round;
    ASSERT_EQ(got, 1);
    const auto latest = LatestCheckpoint(folder_.string());
    ASSERT_TRUE(latest.ok())
        << latest.status() << ", seed " << kSeed << ", round " << round;
    const auto reader = CheckpointReader::Open(*latest);
    ASSERT_TRUE(reader.ok()) << reader.status();
    const auto read = reader->ReadMany({{.name = "a"}, {.name = "b"}});
    ASSERT_TRUE(read.ok()) << read.status() << ", seed " << kSeed << ", round "
                           << round;
    const float value = (*read)[0].data<float>()[0];
    for (const Tensor& t : *read)
      for (const float x : t.flat<float>()) ASSERT_EQ(x, value);
  }
  // A run that ends well leaves none of the dead ones' files.
  const Var a(Floats({1}), "a");
  Saver saver;
  Session session(g_);
  ASSERT_TRUE(session.RunTargets({GlobalVariablesInitializer()}).ok());
  ASSERT_TRUE(saver.Save(session, Path("m"), 1'000'000).ok());
  for (const std::string& f : Files()) {
    EXPECT_THAT(f, Not(HasSubstr("tempstate")));
    EXPECT_THAT(f, Not(HasSubstr("_temp_")));
  }
}

TEST_F(SaverTest, AFinishedSaveIsNotTakenForTheNextOne) {
  const Var v(Constant(1.f), "v");
  std::atomic<bool> go = true;
  SaverOptions options;
  options.on_saved = [&](const Result<std::string>&) {
    while (!go) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  Saver saver(options);
  Session session(g_);
  ASSERT_TRUE(session.RunTargets({GlobalVariablesInitializer()}).ok());
  ASSERT_TRUE(saver.SaveAsync(session, Path("m"), 1).ok());
  ASSERT_TRUE(saver.WaitForSaves().ok());
  go = false;
  ASSERT_TRUE(saver.SaveAsync(session, Path("m"), 2).ok());
  EXPECT_FALSE(saver.FinishedSave().has_value());
  go = true;
  EXPECT_EQ(*saver.WaitForSaves(), Path("m-2"));
  EXPECT_EQ(**saver.FinishedSave(), Path("m-2"));
}

}  // namespace
}  // namespace sluice
