#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "checkpoint/bundle_writer.h"
#include "checkpoint/checkpoint_reader.h"
#include "graph/builder.h"
#include "io/file.h"
#include "session/session.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CheckpointOpsTest : public ::testing::Test {
 protected:
  CheckpointOpsTest()
      : folder_(std::filesystem::temp_directory_path() /
                ("sluice_checkpoint_ops_" + std::to_string(getpid()))),
        use_(g_) {
    std::filesystem::create_directories(folder_);
  }
  ~CheckpointOpsTest() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const {
    return (folder_ / name).string();
  }
  static Output String(const std::string& s) {
    return Constant(Tensor::Scalar(s));
  }
  static Output Strings(const std::vector<std::string>& s) {
    return Constant(Tensor::Vector<std::string>(s));
  }
  static Output Floats(const std::vector<float>& v) {
    return Constant(Tensor::Vector<float>(v));
  }
  static Output Ints(const std::vector<int64_t>& v) {
    return Constant(Tensor::Vector<int64_t>(v));
  }
  Status Run(Node* node) { return Session(g_).RunTargets({node}); }
  // Saves by an op of version 1 or 2.
  Status SaveAs(const std::string& op, const std::string& path,
                const std::vector<std::string>& names,
                const std::vector<std::string>& slices,
                const std::vector<Output>& values) {
    std::vector<Output> inputs = {String(path), Strings(names)};
    if (op != "Save") inputs.push_back(Strings(slices));
    std::vector<DType> types;
    for (const Output& v : values) {
      inputs.push_back(v);
      types.push_back(v.dtype());
    }
    Node* const node =
        BuildNode(op, inputs, {{op == "SaveV2" ? "dtypes" : "T", types}});
    if (node == nullptr) return *g_.ErrorOf(g_.Failure());
    return Run(node);
  }
  Output RestoreV2(const std::string& path, const std::string& name,
                   const std::string& slice, DType dtype) {
    return Build("RestoreV2", {String(path), Strings({name}), Strings({slice})},
                 {{"dtypes", std::vector<DType>{dtype}}});
  }
  std::string MessageOf(const Output& o) {
    if (!o.valid()) return std::string(g_.ErrorOf(o)->message());
    return std::string(Session(g_).Run(o).status().message());
  }

  const std::filesystem::path folder_;
  Graph g_;
  WithGraph use_;
};

TEST_F(CheckpointOpsTest, WhatAnyOpSavesAnyOpRestores) {
  const Output words = Strings({"one", ""});
  for (const char* const op : {"SaveV2", "SaveSlices", "Save"}) {
    SCOPED_TRACE(op);
    const Status s = SaveAs(op, Path(op), {"a", "words"}, {"", ""},
                            {Floats({1, 2, 3}), words});
    ASSERT_TRUE(s.ok()) << s;
    Session session(g_);
    EXPECT_THAT(session.Run(RestoreV2(Path(op), "a", "", DType::kFloat))
                    ->ToVector<float>(),
                ElementsAre(1, 2, 3));
    EXPECT_THAT(session.Run(RestoreV2(Path(op), "a", "3 1,2", DType::kFloat))
                    ->ToVector<float>(),
                ElementsAre(2, 3));
    EXPECT_THAT(session
                    .Run(Build("Restore", {String(Path(op)), String("words")},
                               {{"dt", DType::kString}}))
                    ->ToVector<std::string>(),
                ElementsAre("one", ""));
    EXPECT_THAT(session
                    .Run(Build("RestoreSlice",
                               {String(Path(op)), String("a"), String("3 0,1")},
                               {{"dt", DType::kFloat}}))
                    ->ToVector<float>(),
                ElementsAre(1));
  }
}

TEST_F(CheckpointOpsTest, SlicesAreSavedAndShapesInferred) {
  for (const char* const op : {"SaveV2", "SaveSlices"}) {
    const Status s = SaveAs(op, Path(op), {"v", "v"}, {"5 0,2", "5 2,3"},
                            {Floats({1, 2}), Floats({3, 4, 5})});
    ASSERT_TRUE(s.ok()) << s;
    const Output all = RestoreV2(Path(op), "v", "", DType::kFloat);
    EXPECT_FALSE(all.shape().rank_known());
    EXPECT_THAT(Session(g_).Run(all)->ToVector<float>(),
                ElementsAre(1, 2, 3, 4, 5));
    const Output middle = RestoreV2(Path(op), "v", "5 1,3", DType::kFloat);
    EXPECT_EQ(middle.shape(), PartialShape({3}));
    EXPECT_THAT(Session(g_).Run(middle)->ToVector<float>(),
                ElementsAre(2, 3, 4));
  }
}

// The words of TensorFlow 2.21.
TEST_F(CheckpointOpsTest, ErrorsNameTheTensor) {
  ASSERT_TRUE(SaveAs("SaveV2", Path("m"), {"a"}, {""}, {Floats({1, 2})}).ok());
  EXPECT_THAT(MessageOf(RestoreV2(Path("m"), "b", "", DType::kFloat)),
              HasSubstr("Key b not found in checkpoint"));
  EXPECT_THAT(MessageOf(RestoreV2(Path("m"), "a", "", DType::kInt32)),
              HasSubstr("tensor_name = a; expected dtype int32 does not equal "
                        "original dtype float"));
  EXPECT_THAT(
      MessageOf(RestoreV2(Path("m"), "a", "3 0,2", DType::kFloat)),
      HasSubstr("tensor_name = a; shape in shape_and_slice spec [3] does not "
                "match the shape stored in checkpoint: [2]"));
  EXPECT_THAT(MessageOf(RestoreV2(Path("m"), "a", "2 x", DType::kFloat)),
              HasSubstr("Expected a pair of numbers or '-' but got 'x'"));
  EXPECT_THAT(MessageOf(RestoreV2(Path("none"), "a", "", DType::kFloat)),
              HasSubstr(Path("none")));
  EXPECT_THAT(
      std::string(
          SaveAs("SaveV2", Path("m"), {"a"}, {"4 0,3"}, {Floats({1, 2})})
              .message()),
      HasSubstr("Slice in shape_and_slice specification does not match the "
                "shape of the tensor to save: 4 0,3, tensor: [2]"));
  EXPECT_THAT(std::string(SaveAs("SaveV2", Path("m"), {"a", "a"}, {"", ""},
                                 {Floats({1}), Floats({1})})
                              .message()),
              HasSubstr("Adding duplicate key: a"));
  EXPECT_FALSE(
      SaveAs("SaveV2", Path("m"), {"a", "b"}, {""}, {Floats({1})}).ok());
  EXPECT_FALSE(SaveAs("SaveV2", "", {"a"}, {""}, {Floats({1})}).ok());
  // What was there before these is still there.
  EXPECT_EQ(CheckpointReader::Open(Path("m"))->Read("a")->num_elements(), 2);
}

TEST_F(CheckpointOpsTest, PartsAreMergedAndTheirFolderRemoved) {
  for (const char* const part : {"t/p0", "t/p1"})
    ASSERT_TRUE(
        SaveAs("SaveV2", Path(part), {part}, {""}, {Floats({1, 2})}).ok());
  Node* const merge =
      BuildNode("MergeV2Checkpoints",
                {Strings({Path("t/p0"), Path("t/p1")}), String(Path("m"))});
  ASSERT_TRUE(Run(merge).ok());
  EXPECT_EQ(CheckpointReader::Open(Path("m"))->tensors().size(), 2u);
  EXPECT_TRUE(std::filesystem::exists(Path("m.data-00001-of-00002")));
  EXPECT_FALSE(std::filesystem::exists(Path("t")));
  EXPECT_EQ(Run(merge).code(), StatusCode::kNotFound);
  // Without a single part the checkpoint that is there stays.
  Node* const lenient = BuildNode("MergeV2Checkpoints",
                                  {Strings({Path("t/p0")}), String(Path("m"))},
                                  {{"allow_missing_files", true}});
  const Status none = Run(lenient);
  EXPECT_EQ(none.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(none.message()),
              HasSubstr("At least one prefix checkpoint file must exist, but "
                        "none existed"));
  const auto reader = CheckpointReader::Open(Path("m"));
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_THAT(reader->Read("t/p1")->ToVector<float>(), ElementsAre(1, 2));
}

// As in TensorFlow's load_and_remap_matrix_op test.
TEST_F(CheckpointOpsTest, MatricesAreRemapped) {
  const auto matrix = [&](const std::string& name, bool divided) {
    auto writer = *BundleWriter::Open(Path(name));
    Tensor t(DType::kFloat, Shape({5, 4}));
    for (int i = 0; i < 20; ++i) t.data<float>()[i] = static_cast<float>(i);
    if (!divided) {
      EXPECT_TRUE(writer->Add("w", t).ok());
    } else {
      for (const int64_t row : {0, 2})
        EXPECT_TRUE(writer
                        ->AddSlice("w", Shape({5, 4}),
                                   *TensorSlice::Parse(absl::StrCat(
                                       row, ",", row == 0 ? 2 : 3, ":-")),
                                   t.Rows(row, row == 0 ? 2 : 5))
                        .ok());
    }
    EXPECT_TRUE(writer->Finish().ok());
  };
  matrix("whole", false);
  matrix("parts", true);
  const auto remap = [&](const std::string& path,
                         const std::vector<int64_t>& rows,
                         const std::vector<int64_t>& cols,
                         const std::vector<float>& initial, int64_t num_cols) {
    return Build("LoadAndRemapMatrix",
                 {String(Path(path)), String("w"), Ints(rows), Ints(cols),
                  Floats(initial)},
                 {{"num_rows", static_cast<int64_t>(rows.size())},
                  {"num_cols", num_cols}});
  };
  for (const char* const path : {"whole", "parts"}) {
    const Output permuted = remap(path, {4, 0}, {}, {}, 4);
    EXPECT_EQ(permuted.shape(), PartialShape({2, 4}));
    EXPECT_THAT(Session(g_).Run(permuted)->ToVector<float>(),
                ElementsAre(16, 17, 18, 19, 0, 1, 2, 3));
    EXPECT_THAT(
        Session(g_)
            .Run(remap(path, {1, -1, 3}, {2, -1, 0}, {41, 42, 43, 44, 45}, 3))
            ->ToVector<float>(),
        ElementsAre(6, 41, 4, 42, 43, 44, 14, 45, 12));
    EXPECT_THAT(Session(g_)
                    .Run(remap(path, {-1}, {}, {1, 2, 3, 4}, 4))
                    ->ToVector<float>(),
                ElementsAre(1, 2, 3, 4));
  }
  EXPECT_THAT(MessageOf(remap("whole", {0, 0}, {}, {}, 4)),
              HasSubstr("Old ID 0 is mapped to both new ID 0 and 1"));
  EXPECT_THAT(MessageOf(remap("whole", {-1}, {}, {1}, 4)),
              HasSubstr("initializing_values contained 1 elements, but more "
                        "missing values remain."));
  EXPECT_THAT(MessageOf(remap("whole", {0}, {}, {1}, 4)),
              HasSubstr("initializing_values contained 1 elements, but only 0 "
                        "elements were used to fill in missing values."));
  EXPECT_THAT(MessageOf(remap("whole", {5}, {}, {}, 4)),
              HasSubstr("row_remapping: expected ids below 5"));
  EXPECT_THAT(MessageOf(remap("whole", {0}, {}, {}, 3)),
              HasSubstr("instead of being equal to num_cols=3"));
}

TEST_F(CheckpointOpsTest, VocabulariesAreRemapped) {
  ASSERT_TRUE(WriteFile(Path("old"), "knitting\neminem\nMISSING").ok());
  ASSERT_TRUE(WriteFile(Path("new"), "MISSING\nknitting\nflask\n").ok());
  const auto remap = [&](int64_t offset, int64_t count, int64_t old_size) {
    return BuildNode("GenerateVocabRemapping",
                     {String(Path("new")), String(Path("old"))},
                     {{"new_vocab_offset", offset},
                      {"num_new_vocab", count},
                      {"old_vocab_size", old_size}});
  };
  const auto run = [&](Node* node) {
    auto out = Session(g_).Run({Output(node), Output(node, 1)});
    EXPECT_TRUE(out.ok()) << out.status();
    return std::pair((*out)[0].ToVector<int64_t>(),
                     (*out)[1].scalar<int32_t>());
  };
  EXPECT_EQ(run(remap(0, 3, -1)), std::pair(std::vector<int64_t>{2, 0, -1}, 2));
  EXPECT_EQ(run(remap(1, 2, -1)), std::pair(std::vector<int64_t>{0, -1}, 1));
  EXPECT_EQ(run(remap(0, 3, 2)), std::pair(std::vector<int64_t>{-1, 0, -1}, 1));
  EXPECT_EQ(run(remap(0, 0, -1)), std::pair(std::vector<int64_t>{}, 0));
  EXPECT_THAT(MessageOf(Output(remap(2, 2, -1))),
              HasSubstr("lookup table size must be larger than the last new "
                        "vocab entry's line"));
  EXPECT_THAT(MessageOf(Output(remap(0, 1, 9))),
              HasSubstr("expected old_vocab_size=9 lines, got 3"));
}

TEST_F(CheckpointOpsTest, TheOpsReachTheHost) {
  for (const char* op :
       {"SaveV2", "Save", "SaveSlices", "RestoreV2", "Restore", "RestoreSlice",
        "MergeV2Checkpoints", "LoadAndRemapMatrix", "GenerateVocabRemapping"})
    EXPECT_NE((*OpRegistry::Global()->Lookup(op))->host_reach, nullptr) << op;
}

}  // namespace
}  // namespace sluice
