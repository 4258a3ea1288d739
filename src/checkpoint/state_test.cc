#include "checkpoint/state.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "checkpoint/pending_file.h"
#include "checkpoint/proto/checkpoint.pb.h"
#include "google/protobuf/text_format.h"
#include "io/file.h"

namespace sluice {
namespace {

class CheckpointStateTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "checkpoint_state_test";
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  Result<CheckpointFolderState> ReadText(const std::string& text) {
    SLUICE_RETURN_IF_ERROR(ReplaceFile(folder_ + "/checkpoint", text));
    return ReadCheckpointState(folder_);
  }

  std::string folder_;
};

TEST_F(CheckpointStateTest, WhatIsWrittenIsReadByProtobufAndBack) {
  // (A quote, a backslash, a line break and letters outside ASCII.)
  const std::string odd = folder_ + "/m \"'\\\n\xc3\xa4-2";
  CheckpointFolderState state;
  state.latest = odd;
  state.all = {folder_ + "/m-1", odd};
  state.times = {1764353652.125, 0.1};
  state.last_preserved = 1.0 / 3;
  ASSERT_TRUE(WriteCheckpointState(folder_, state).ok());

  const auto text = ReadFile(folder_ + "/checkpoint", 1 << 20);
  ASSERT_TRUE(text.ok());
  proto::CheckpointState message;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(*text, &message));
  EXPECT_EQ(message.model_checkpoint_path(), odd);
  ASSERT_EQ(message.all_model_checkpoint_timestamps_size(), 2);
  EXPECT_EQ(message.all_model_checkpoint_timestamps(0), 1764353652.125);
  EXPECT_EQ(message.all_model_checkpoint_timestamps(1), 0.1);
  EXPECT_EQ(message.last_preserved_timestamp(), 1.0 / 3);

  // It is what protobuf prints.
  std::string printed;
  ASSERT_TRUE(google::protobuf::TextFormat::PrintToString(message, &printed));
  EXPECT_EQ(*text, printed);
  const auto read = ReadText(printed);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->latest, odd);
  EXPECT_EQ(read->all, state.all);
  EXPECT_EQ(read->times, state.times);
  EXPECT_EQ(read->last_preserved, state.last_preserved);
}

// The expected values are protobuf's.
TEST_F(CheckpointStateTest, ReadsTextsAsProtobufDoes) {
  for (const char* text : {
           "model_checkpoint_path: \"m\"\r\n"
           "# A comment.\r\n"
           "all_model_checkpoint_paths: \"l\"\r\n"
           "all_model_checkpoint_timestamps: 1.5\r\n",
           "model_checkpoint_path: \"\\x41B\\x4a4\\x4z\\x7\"",
           "model_checkpoint_path: \"\\\\x41\\x5cn\\1012\\t\\?\\'\"",
           "model_checkpoint_path: 'm' all_model_checkpoint_paths: "
           "['a', \"b\" 'c' , 'd'] all_model_checkpoint_paths: 'e'\n"
           "all_model_checkpoint_timestamps: [ 1,-2.5 ,3e2, 4];",
           "model_checkpoint_path: 'm' all_model_checkpoint_paths: []",
       }) {
    proto::CheckpointState want;
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &want))
        << text;
    const auto got = ReadText(text);
    ASSERT_TRUE(got.ok()) << text << '\n' << got.status();
    EXPECT_EQ(got->latest, folder_ + "/" + want.model_checkpoint_path())
        << text;
    std::vector<std::string> all;
    for (const std::string& p : want.all_model_checkpoint_paths())
      all.push_back(folder_ + "/" + p);
    EXPECT_EQ(got->all, all) << text;
    const auto& times = want.all_model_checkpoint_timestamps();
    EXPECT_EQ(got->times, (std::vector<double>(times.begin(), times.end())))
        << text;
  }
}

TEST_F(CheckpointStateTest, ReadsWhatPeopleWrite) {
  const auto state = ReadText(
      "# By hand.\n"
      "model_checkpoint_path : 'm-' \"2\"  # The last one.\n"
      "all_model_checkpoint_paths:\"m-1\"; all_model_checkpoint_paths: 'm-2',\n"
      "all_model_checkpoint_timestamps: -1.5e3 "
      "all_model_checkpoint_timestamps: 7");
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(state->latest, folder_ + "/m-2");
  EXPECT_EQ(state->all,
            (std::vector<std::string>{folder_ + "/m-1", folder_ + "/m-2"}));
  EXPECT_EQ(state->times, (std::vector<double>{-1500, 7}));
}

TEST_F(CheckpointStateTest, MistakesAreDataLossWithTheirLine) {
  const struct {
    const char* text;
    const char* error;
  } cases[] = {
      {"", "no model_checkpoint_path"},
      {"model_checkpoint_path: \"\"", "no model_checkpoint_path"},
      {"\nmodel_checkpoint_path \"m\"", "line 2: expected ':'"},
      {"model_checkpoint_path: m", "line 1: expected a quoted text"},
      {"model_checkpoint_path: \"m", "line 1: expected a quoted text"},
      {"model_checkpoint_path: \"m'", "line 1: expected a quoted text"},
      {"model_checkpoint_path: \"m\\", "line 1: expected a quoted text"},
      {"model_checkpoint_path: \"\\q\"", "line 1: expected a quoted text"},
      {"model_checkpoint_path: \"\\x\"", "line 1: expected a quoted text"},
      {"model_checkpoint_path: ['m']", "line 1: expected a quoted text"},
      {"all_model_checkpoint_paths: ['m',\n]", "line 2: expected a quoted"},
      {"all_model_checkpoint_paths: ['m'\n'n' o",
       "line 2: expected ',' or ']'"},
      {"all_model_checkpoint_paths: [", "line 1: expected a quoted text"},
      {"all_model_checkpoint_timestamps: ['m']", "line 1: expected a number"},
      {"model_checkpoint_path: \"m\" \xff", "line 1: expected the name"},
      {"last_preserved_timestamp: now", "line 1: expected a number"},
      {"last_preserved_timestamp:", "line 1: expected a number"},
      {"latest: \"m\"", "line 1: expected a field of CheckpointState"},
  };
  for (const auto& c : cases) {
    const auto state = ReadText(c.text);
    EXPECT_EQ(state.status().code(), StatusCode::kDataLoss) << c.text;
    EXPECT_NE(std::string(state.status().message()).find(c.error),
              std::string::npos)
        << state.status();
  }
}

}  // namespace
}  // namespace sluice
