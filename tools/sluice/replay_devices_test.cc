// Recorded cases give the same results on several devices and on the tasks of a
// cluster.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/sanitizers.h"
#include "tools/sluice/tasks_test_util.h"

namespace sluice::cli {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

class ReplayOverDevices : public ::testing::Test {
 protected:
  ReplayOverDevices() { std::filesystem::create_directories(dir_); }
  ~ReplayOverDevices() override {
    std::error_code ignored;
    std::filesystem::remove_all(dir_, ignored);
  }
  // All of them, or the last under sanitizers.
  static std::vector<std::string> Few(std::vector<std::string> all) {
    return kSanitized ? std::vector{all.back()} : all;
  }
  // Runs `sluice replay` on the project's own cases; returns its exit code.
  int Replay(std::vector<std::string> options) {
    options.insert(options.begin(), {"replay", "--quiet"});
    options.push_back("tests/cases");
    ChildProcess replay(SluicePath(), options, {}, dir_ + "/out");
    const int code = replay.Wait();
    said_ = ReadFile(dir_ + "/out").value_or("");
    return code;
  }

  const std::string dir_ =
      ::testing::TempDir() + "sluice_replay_test_" + std::to_string(getpid());
  std::string said_;
};

TEST_F(ReplayOverDevices, CasesPassOnOneTask) {
  for (const std::string& devices : Few({"2", "3"}))
    EXPECT_EQ(Replay({"--devices", devices, "--seed", devices}), 0) << said_;
  EXPECT_THAT(said_, EndsWith(" cases pass\n"));
}

TEST_F(ReplayOverDevices, CasesPassOnTwoTasksWithOneOrTwoDevices) {
  // (Some cases write the files that they read.)
  Tasks tasks({"worker"}, dir_, {"--devices", "cpu=2", "--allow-host-access"});
  for (const std::string& devices : Few({"2", "4"}))
    EXPECT_EQ(Replay({"--target", tasks.targets().at("worker:0"), "--devices",
                      devices, "--seed", devices}),
              0)
        << said_;
}

TEST_F(ReplayOverDevices, MoreDevicesThanAvailableIsAnError) {
  Tasks tasks({"worker"}, dir_);
  EXPECT_EQ(Replay({"--target", tasks.targets().at("worker:0"), "--devices",
                    "3", "--filter", "^colocation$"}),
            1);
  EXPECT_THAT(said_, HasSubstr("--devices: expected at most the 2"));
}

}  // namespace
}  // namespace sluice::cli
