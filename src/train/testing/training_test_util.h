// What tests of training runs share.
#ifndef SLUICE_TRAIN_TESTING_TRAINING_TEST_UTIL_H_
#define SLUICE_TRAIN_TESTING_TRAINING_TEST_UTIL_H_

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "base/failpoint.h"
#include "checkpoint/checkpoint_reader.h"
#include "train/training_session.h"

namespace sluice {

// A model with a number and a global step, both of which `add` increments.
struct Counter {
  Counter()
      : value(Constant(0.f), "value"),
        step(Constant(Tensor::Scalar<int64_t>(0)), "global_step",
             {.trainable = false}),
        add(Group({value.AssignAdd(Constant(1.f)),
                   step.AssignAdd(Constant(Tensor::Scalar<int64_t>(1)))})) {}
  const Var value, step;
  Node* const add;
};

// An ambient graph, a folder that is removed, and the lines of the log.
class TrainingTest : public ::testing::Test {
 protected:
  TrainingTest()
      : folder_(std::filesystem::temp_directory_path() /
                ("sluice_training_" + std::to_string(getpid()))),
        use_(g_) {
    std::filesystem::create_directories(folder_);
  }
  ~TrainingTest() override {
    DisableFailpoints();
    std::filesystem::remove_all(folder_);
  }
  std::string Path(const std::string& name) const {
    return (folder_ / name).string();
  }
  TrainingOptions Options(TrainingOptions options) {
    options.folder = folder_.string();
    options.retry_seconds = 0;
    options.log = [this](const std::string& line) { lines_.push_back(line); };
    return options;
  }
  // A scalar of a checkpoint.
  static float Saved(const std::string& path, const std::string& name) {
    const auto reader = CheckpointReader::Open(path);
    EXPECT_TRUE(reader.ok()) << reader.status();
    if (!reader.ok()) return -1;
    const auto value = reader->Read(name);
    EXPECT_TRUE(value.ok()) << value.status();
    return value.ok() ? value->data<float>()[0] : -1;
  }
  // Waits for what another thread writes; false after 20 seconds.
  bool WaitForFile(const std::string& name) const {
    for (int i = 0; i < 2000; ++i) {
      if (std::filesystem::exists(folder_ / name)) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }

  const std::filesystem::path folder_;
  std::vector<std::string> lines_;
  Graph g_, other_;
  WithGraph use_;
};

}  // namespace sluice

#endif  // SLUICE_TRAIN_TESTING_TRAINING_TEST_UTIL_H_
