#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "graph/builder.h"
#include "io/file.h"
#include "io/records.h"
#include "session/session.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

// Three files of records 0 to 11, in a folder that is removed again.
class RecordInputTest : public ::testing::Test {
 protected:
  RecordInputTest()
      : folder_(std::filesystem::temp_directory_path() /
                ("sluice_record_input_" + std::to_string(getpid()))),
        use_(g_) {
    std::filesystem::create_directories(folder_);
    for (int f = 0; f < 3; ++f) {
      const auto writer =
          *RecordWriter::Open((folder_ / std::to_string(f)).string(),
                              {.compression = RecordCompression::kGzip});
      for (int i = 0; i < 4; ++i) {
        all_.push_back(std::to_string(4 * f + i));
        EXPECT_TRUE(writer->Write(all_.back()).ok());
      }
      EXPECT_TRUE(writer->Close().ok());
    }
    std::sort(all_.begin(), all_.end());
  }
  ~RecordInputTest() override { std::filesystem::remove_all(folder_); }

  Output Make(const std::string& pattern, AttrMap attrs = {}) {
    attrs["file_pattern"] = (folder_ / pattern).string();
    attrs.try_emplace("batch_size", 6);
    attrs.try_emplace("file_buffer_size", 5);
    attrs.try_emplace("file_parallelism", 2);
    attrs.try_emplace("compression_type", "GZIP");
    return Build("RecordInput", {}, attrs);
  }

  const std::filesystem::path folder_;
  std::vector<std::string> all_;
  Graph g_;
  WithGraph use_;
};

TEST_F(RecordInputTest, EveryRecordComesOnceInAnEpoch) {
  const Output records = Make("*");
  EXPECT_EQ(records.shape().ToString(), "[6]");
  Session session(g_);
  std::vector<std::vector<std::string>> epochs;
  for (int epoch = 0; epoch < 3; ++epoch) {
    std::vector<std::string> got;
    for (int step = 0; step < 2; ++step) {
      const auto batch = session.Run(records);
      ASSERT_TRUE(batch.ok()) << batch.status();
      for (const std::string& r : batch->flat<std::string>()) got.push_back(r);
    }
    epochs.push_back(got);
    std::sort(got.begin(), got.end());
    EXPECT_EQ(got, all_);
  }
  EXPECT_NE(epochs[0], epochs[1]);
  // The same seed, the same order.
  Session again(g_);
  const auto first = again.Run(records)->ToVector<std::string>();
  EXPECT_TRUE(std::equal(first.begin(), first.end(), epochs[0].begin()));
}

TEST_F(RecordInputTest, WrongFilesAreErrors) {
  EXPECT_EQ(Session(g_).Run(Make("nope*")).status().code(),
            StatusCode::kNotFound);
  ASSERT_TRUE(WriteFile((folder_ / "broken").string(), "no gzip").ok());
  const Status s = Session(g_).Run(Make("broken")).status();
  EXPECT_EQ(s.code(), StatusCode::kDataLoss);
  EXPECT_THAT(std::string(s.message()), HasSubstr("broken"));
  ASSERT_TRUE(WriteFile((folder_ / "empty").string(), "").ok());
  EXPECT_EQ(Session(g_).Run(Make("empty")).status().code(),
            StatusCode::kOutOfRange);
  EXPECT_EQ(
      Session(g_).Run(Make("*", {{"compression_type", "LZ4"}})).status().code(),
      StatusCode::kInvalidArgument);
  EXPECT_FALSE(Make("*", {{"batch_size", 0}}).valid());
}

}  // namespace
}  // namespace sluice
