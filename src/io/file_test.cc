#include "io/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "io/byte_source.h"
#include "io/glob.h"
#include "io/records.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;

class FileTest : public ::testing::Test {
 protected:
  FileTest()
      : folder_(std::filesystem::temp_directory_path() /
                ("sluice_file_" + std::to_string(getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~FileTest() override { std::filesystem::remove_all(folder_); }
  const std::filesystem::path folder_;
};

TEST_F(FileTest, LocalPathsAreThoseOfUrlsOfThisMachine) {
  EXPECT_EQ(LocalPath("file:///a/b"), "/a/b");
  EXPECT_EQ(LocalPath("file://localhost/a/b"), "/a/b");
  for (const char* const other :
       {"", "a/b", "/a/b", "file:/a", "file://elsewhere/a", "file://",
        "http:///a", "x/file:///a"})
    EXPECT_EQ(LocalPath(other), other);
}

TEST_F(FileTest, UrlsAreReadWrittenAndMatched) {
  const std::string folder = folder_.string(), url = "file://" + folder;
  ASSERT_TRUE(WriteFile(url + "/text", "abc").ok());
  EXPECT_EQ(*ReadFile(folder + "/text"), "abc");
  EXPECT_EQ(*ReadFile(url + "/text"), "abc");
  const auto source = OpenFileSource(url + "/text");
  ASSERT_TRUE(source.ok()) << source.status();
  char bytes[4] = {};
  EXPECT_EQ(*(*source)->Read(bytes, 3), 3u);
  EXPECT_STREQ(bytes, "abc");
  const auto writer = RecordWriter::Open(url + "/records");
  ASSERT_TRUE(writer.ok()) << writer.status();
  ASSERT_TRUE((*writer)->Write("record").ok());
  ASSERT_TRUE((*writer)->Close().ok());
  // As in TensorFlow, what matches a URL is a URL.
  EXPECT_THAT(*MatchingFiles(url + "/*"),
              ElementsAre(url + "/records", url + "/text"));
  EXPECT_THAT(*MatchingFiles(url + "/text"), ElementsAre(url + "/text"));
}

}  // namespace
}  // namespace sluice
