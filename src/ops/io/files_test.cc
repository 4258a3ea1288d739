#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "graph/builder.h"
#include "io/file.h"
#include "io/glob.h"
#include "session/session.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A folder that is removed again.
class FilesTest : public ::testing::Test {
 protected:
  FilesTest()
      : folder_(std::filesystem::temp_directory_path() /
                ("sluice_files_" + std::to_string(getpid()))),
        use_(g_) {
    std::filesystem::create_directories(folder_);
  }
  ~FilesTest() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const {
    return (folder_ / name).string();
  }
  // The matches of a pattern below the folder, without it.
  std::vector<std::string> Matches(const std::string& pattern) const {
    std::vector<std::string> out;
    const auto found = MatchingFiles(Path(pattern));
    EXPECT_TRUE(found.ok()) << found.status();
    for (const std::string& path : *found)
      out.push_back(path.substr(folder_.string().size() + 1));
    return out;
  }
  static Output String(const std::string& s) {
    return Constant(Tensor::Scalar(s));
  }

  const std::filesystem::path folder_;
  Graph g_;
  WithGraph use_;
};

TEST_F(FilesTest, WhatIsWrittenIsRead) {
  const std::string contents("a\0b\n\xff", 5);
  Node* const write =
      BuildNode("WriteFile", {String(Path("new/x/y")), String(contents)}, {});
  const Output read = Build("ReadFile", {String(Path("new/x/y"))});
  Session session(g_);
  EXPECT_EQ(session.Run(read).status().code(), StatusCode::kNotFound);
  ASSERT_TRUE(session.RunTargets({write}).ok());
  EXPECT_EQ(session.Run(read)->scalar<std::string>(), contents);
}

TEST_F(FilesTest, FoldersAreNoFiles) {
  Session session(g_);
  EXPECT_EQ(session.Run(Build("ReadFile", {String(folder_.string())}))
                .status()
                .code(),
            StatusCode::kFailedPrecondition);
  ASSERT_TRUE(WriteFile(Path("file"), "").ok());
  for (const std::string& path : {folder_.string(), Path("file/x")})
    EXPECT_EQ(session
                  .RunTargets(
                      {BuildNode("WriteFile", {String(path), String("")}, {})})
                  .code(),
              StatusCode::kFailedPrecondition)
        << path;
  const Output names = Constant(Tensor::Vector<std::string>({"a", "b"}));
  EXPECT_FALSE(Build("ReadFile", {names}).valid());
}

TEST_F(FilesTest, PatternsMatchPartByPart) {
  for (const char* name : {"a.txt", "b.txt", ".h.txt", "q[1].txt", "d1/a.txt",
                           "d1/c.txt", "d1/e/x.txt", "d2/a.txt"}) {
    std::filesystem::create_directories((folder_ / name).parent_path());
    ASSERT_TRUE(WriteFile(Path(name), "").ok());
  }
  // As TensorFlow's.
  EXPECT_THAT(Matches("*"),
              ElementsAre(".h.txt", "a.txt", "b.txt", "d1", "d2", "q[1].txt"));
  EXPECT_THAT(Matches("[!a].txt"), ElementsAre("b.txt"));
  EXPECT_THAT(Matches("q[[]1].txt"), ElementsAre("q[1].txt"));
  EXPECT_THAT(Matches("q\\[1].txt"), ElementsAre("q[1].txt"));
  EXPECT_THAT(Matches("d?/a.txt"), ElementsAre("d1/a.txt", "d2/a.txt"));
  EXPECT_THAT(Matches("*/*/*"), ElementsAre("d1/e/x.txt"));
  EXPECT_THAT(Matches("d1/../b*"), ElementsAre("d1/../b.txt"));
  EXPECT_THAT(Matches("d1"), ElementsAre("d1"));
  EXPECT_THAT(Matches("{a,b}.txt"), IsEmpty());
  EXPECT_THAT(Matches("nope/*"), IsEmpty());
  EXPECT_THAT(Matches("nope"), IsEmpty());
  EXPECT_THAT(Matches("a.txt/*"), IsEmpty());
  EXPECT_THAT(*MatchingFiles(""), IsEmpty());
  EXPECT_EQ(MatchingFiles(Path("*"), 3).status().code(),
            StatusCode::kResourceExhausted);
  const Output found = Build(
      "MatchingFiles",
      {Constant(Tensor::Vector<std::string>({Path("d2/*"), Path("a*")}))});
  EXPECT_THAT(Session(g_).Run(found)->ToVector<std::string>(),
              ElementsAre(Path("a.txt"), Path("d2/a.txt")));
}

TEST_F(FilesTest, PartsAreNumbered) {
  EXPECT_EQ(ShardedFilename("m", 3, 123456), "m-00003-of-123456");
  EXPECT_EQ(ShardedFilespec("m", 7), "m-\?\?\?\?\?-of-00007");
}

TEST_F(FilesTest, TheOpsReachTheHost) {
  for (const char* op : {"ReadFile", "WriteFile", "MatchingFiles",
                         "InitializeTableFromTextFileV2"})
    EXPECT_NE((*OpRegistry::Global()->Lookup(op))->host_reach, nullptr) << op;
}

}  // namespace
}  // namespace sluice
