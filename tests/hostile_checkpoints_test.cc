// Hostile calls of savers, checkpoints and what is stored beside them.
#include <unistd.h>

#include <filesystem>

#include "io/file.h"
#include "tests/hostile_calls_test_util.h"

namespace sluice {
namespace {

// A folder that is removed again.
class CheckpointScratch {
 public:
  CheckpointScratch()
      : path_(std::filesystem::temp_directory_path() /
              ("sluice_hostile_checkpoints_" + std::to_string(getpid()))) {
    std::filesystem::create_directories(path_);
  }
  ~CheckpointScratch() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string& name) const {
    return (path_ / name).string();
  }

 private:
  const std::filesystem::path path_;
};

HOSTILE(Slices,
        "TensorSlice::TensorSlice TensorSlice::Parse TensorSlice::ToString "
        "TensorSlice::rank TensorSlice::extents TensorSlice::Resolved "
        "TensorSlice::ShapeOf TensorSlice::Covers ParseShapeAndSlice") {
  for (const int rank : {-1, 9, 1 << 30, INT32_MIN}) {
    const TensorSlice slice(rank);
    EXPECT_LE(slice.rank(), 9);
    EXPECT_FALSE(slice.Covers(Shape({2})));
  }
  for (const char* const bad : {":", "1", "1,2,3", "-1,2", "1,0", "x,y", "--",
                                "9223372036854775808,1", "1,-1", " "})
    ExpectRefused(TensorSlice::Parse(bad), "slice");
  const TensorSlice::Extent extents[] = {{-1, 2},
                                         {0, -2},
                                         {3, TensorSlice::kFull},
                                         {kHuge, kHuge},
                                         {INT64_MAX, INT64_MAX},
                                         {INT64_MIN, INT64_MIN},
                                         {1, 3}};
  for (const TensorSlice::Extent& e : extents) {
    const TensorSlice slice(std::vector<TensorSlice::Extent>{e});
    ExpectRefused(slice.ShapeOf(Shape({3})), "slice");
    ExpectRefused(slice.Resolved(Shape({3})), "slice");
    EXPECT_FALSE(slice.Covers(Shape({3})));
    EXPECT_FALSE(slice.ToString().empty());
    EXPECT_EQ(slice.extents().size(), 1u);
  }
  ExpectRefused(TensorSlice(1).ShapeOf(Shape()), "rank");
  ExpectRefused(TensorSlice(1).ShapeOf(Shape({-3})), "");
  ExpectRefused(ParseShapeAndSlice(""), "shape_and_slice");
  ExpectRefused(ParseShapeAndSlice("9223372036854775807 9 -:-"), "");
  ExpectRefused(ParseShapeAndSlice("1 1 1 1 1 1 1 1 1 -:-:-:-:-:-:-:-:-"), "");
}

HOSTILE(CheckpointReaders,
        "CheckpointReader::CheckpointReader CheckpointReader::Open "
        "CheckpointReader::prefix CheckpointReader::version "
        "CheckpointReader::tensors CheckpointReader::Has "
        "CheckpointReader::FullNames "
        "CheckpointReader::Find CheckpointReader::Read "
        "CheckpointReader::ReadSlice CheckpointReader::ReadMany "
        "CheckpointReader::ForEachPiece CheckpointReader::Verify "
        "CheckpointExists") {
  const CheckpointScratch folder;
  for (const std::string& path :
       {std::string(), std::string("/"), folder / "", folder / "none",
        std::string("[") + std::string(5000, 'x'), std::string("a\0b", 3)}) {
    ExpectRefused(CheckpointReader::Open(path), "");
  }
  EXPECT_FALSE(CheckpointExists(""));
  EXPECT_FALSE(CheckpointExists(folder / "none"));
  ASSERT_TRUE(WriteFile(folder / "text", "not a checkpoint").ok());
  ExpectRefused(CheckpointReader::Open(folder / "text"), "text");
  ASSERT_TRUE(WriteFile(folder / "t.index", std::string(100, 'x')).ok());
  ExpectRefused(CheckpointReader::Open(folder / "t"), "t.index");
  std::filesystem::create_directories(folder / "d.index");
  ExpectRefused(CheckpointReader::Open(folder / "d"), "d.index");

  const auto opened = CheckpointReader::Open("tests/checkpoints/types");
  ASSERT_TRUE(opened.ok()) << opened.status();
  const CheckpointReader reader = *opened;  // A copy.
  EXPECT_EQ(reader.version(), 2);
  EXPECT_EQ(reader.prefix(), "tests/checkpoints/types");
  EXPECT_FALSE(reader.tensors().empty());
  EXPECT_FALSE(reader.Has(""));
  EXPECT_TRUE(reader.FullNames()->empty());
  ExpectRefused(reader.Find(""), "not found");
  ExpectRefused(reader.Read(std::string(100'000, 'x')), "not found");
  ExpectRefused(reader.ReadSlice("int32", TensorSlice(7)), "int32");
  ExpectRefused(
      reader.ReadSlice("int32", TensorSlice(std::vector<TensorSlice::Extent>{
                                    {3, TensorSlice::kFull}, {0, 1}})),
      "int32");
  ExpectRefused(
      reader.ReadSlice("int32", TensorSlice(std::vector<TensorSlice::Extent>{
                                    {INT64_MAX, INT64_MAX}, {-5, -5}})),
      "int32");
  EXPECT_TRUE(reader.ReadMany({}, -5)->empty());
  EXPECT_TRUE(reader.ReadMany({{.name = "int32"}}, 1 << 30).ok());
  ExpectRefused(reader.ForEachPiece(
                    "strings", [](std::string_view) { return OkStatus(); }),
                "strings");
  ExpectRefused(
      reader.ForEachPiece(
          "int32", [](std::string_view) { return InvalidArgument("enough"); }),
      "enough");
  EXPECT_TRUE(reader.Verify().ok());
}

HOSTILE(CheckpointStates,
        "ReadCheckpointState WriteCheckpointState LatestCheckpoint "
        "DeleteCheckpoint RunLock::Take") {
  const CheckpointScratch folder;
  ExpectRefused(ReadCheckpointState(folder / "none"), "none");
  ExpectRefused(ReadCheckpointState(folder / "", ""), "");
  ExpectRefused(LatestCheckpoint(folder / "none"), "none");
  ExpectRefused(WriteCheckpointState(folder / "", {}), "state");
  ExpectRefused(
      WriteCheckpointState(folder / "",
                           {.latest = "a", .all = {"a", "b"}, .times = {1.0}}),
      "times");
  ASSERT_TRUE(WriteFile(folder / "file", "").ok());
  ExpectRefused(WriteCheckpointState(folder / "file", {.latest = "a"}), "file");
  ExpectRefused(RunLock::Take(folder / "file"), "file");
  EXPECT_TRUE(DeleteCheckpoint(folder / "none").ok());
}

HOSTILE(WarmStarts, "WarmStart SavedValue") {
  const auto refused = [](const char* message, const VocabularyChange& change,
                          const Shape& shape = Shape({3, 2})) {
    ExpectRecorded(message, [&] {
      const Var v(Zeros(shape), "v");
      EXPECT_EQ(WarmStart("", {{v, "\n", change}}), nullptr);
    });
  };
  refused("axis 0 or 1", {.new_size = 3, .axis = INT_MIN});
  refused("new_size", {.new_size = INT64_MIN});
  refused("old_size", {.new_size = 3, .old_size = INT64_MIN});
  refused("oov_rows", {.new_size = 3, .oov_rows = -1});
  refused("rows for a vocabulary of", {.new_size = INT64_MAX});
  refused("rows for a vocabulary of", {.new_size = 1, .oov_rows = INT64_MAX});
  refused("float matrix", {.new_size = 3}, Shape({3}));
  refused("", {.new_size = 3,
               .other_values = [](const Shape&, DType) { return Output(); }});
  ExpectRecorded("expected a variable", [] {
    EXPECT_EQ(WarmStart("x", {{Var()}}), nullptr);
    EXPECT_NULL(SavedValue("x", Var(), "x"));
  });
  ExpectRecorded("", [] {
    const Var v(Zeros({3, 2}), "v");
    EXPECT_NULL(
        SavedValue("x", v, "v", "nonsense", VocabularyChange{.new_size = 3}));
  });
  Graph g;
  const WithGraph use(g);
  const Var v(Zeros({2}), "v");
  Node* const start = WarmStart("none", {{v}});
  ASSERT_NE(start, nullptr) << g.status();
  Session session(g);
  ExpectRefused(session.RunTargets({start}), "none");
}

HOSTILE(Savers,
        "Saver::Saver Saver::status Saver::Save Saver::SaveAsync "
        "Saver::WaitForSaves Saver::FinishedSave Saver::Restore Saver::Compare "
        "Saver::last_checkpoints Saver::set_last_checkpoints "
        "Saver::RecoverLastCheckpoints Saver::filename Saver::save_tensor "
        "Saver::restore_op CheckpointDifference::ToString "
        "CheckpointDifference::restorable CompareCheckpoint") {
  const CheckpointScratch folder;
  ExpectRecorded("expected variables, got none", [] { Saver saver; });
  ExpectRecorded("of another", [] {
    Graph other;
    Var elsewhere;
    {
      const WithGraph use(other);
      elsewhere = Var(Constant(1.0f), "v");
    }
    Saver saver({.variables = {{"v", elsewhere}}});
  });
  EXPECT_TRUE(CheckpointDifference().restorable());
  EXPECT_TRUE(CheckpointDifference().ToString().empty());
  const CheckpointReader types =
      *CheckpointReader::Open("tests/checkpoints/types");
  EXPECT_TRUE(CompareCheckpoint(types, {}).restorable());
  const CheckpointDifference odd = CompareCheckpoint(
      types, {{""}, {""}, {"int32", DType::kInvalid}, {"int32", DType::kInt32}},
      true);
  EXPECT_EQ(odd.missing.size(), 1u);
  EXPECT_EQ(odd.other.size(), 1u);
  Graph g;
  const WithGraph use(g);
  {
    Saver failed;
    Session session(g);
    EXPECT_FALSE(failed.status().ok());
    EXPECT_NULL(failed.filename());
    EXPECT_NULL(failed.save_tensor());
    EXPECT_NULL(failed.restore_op());
    ExpectRefused(failed.Save(session, folder / "m"), "expected variables");
    ExpectRefused(failed.SaveAsync(session, folder / "m"),
                  "expected variables");
    ExpectRefused(failed.Restore(session, folder / "m"), "expected variables");
    ExpectRefused(
        failed.Compare(*CheckpointReader::Open("tests/checkpoints/types")),
        "expected variables");
  }
  Graph good;
  const WithGraph use_good(good);
  const Var v(Constant(1.0f), "v");
  Saver saver;
  ASSERT_TRUE(saver.status().ok()) << saver.status();
  Session session(good);
  ExpectRefused(saver.WaitForSaves(), "SaveAsync");
  EXPECT_FALSE(saver.FinishedSave().has_value());
  ExpectRefused(saver.Save(session, ""), "path");
  ExpectRefused(saver.Save(session, folder / "m", INT64_MIN), "step");
  ExpectRefused(saver.SaveAsync(session, "/"), "path");
  ExpectRefused(saver.Save(session, folder / "m"), "'v'");  // No value yet.
  ExpectRefused(saver.Restore(session, ""), "path");
  ExpectRefused(saver.Restore(session, "tests/checkpoints/types"),
                "'v' is not in the checkpoint");
  ExpectRefused(saver.RecoverLastCheckpoints(folder / "none"), "none");
  saver.set_last_checkpoints({"", "x"});
  EXPECT_EQ(saver.last_checkpoints().size(), 2u);
  Graph another;
  Session elsewhere(another);
  ExpectRefused(saver.Save(elsewhere, folder / "m"), "");
  ExpectRefused(saver.SaveAsync(elsewhere, folder / "m"), "");
}

}  // namespace
}  // namespace sluice
