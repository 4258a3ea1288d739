// The `sluice` program and a cluster of its tasks, for tests of commands.
#ifndef SLUICE_TOOLS_SLUICE_TASKS_TEST_UTIL_H_
#define SLUICE_TOOLS_SLUICE_TASKS_TEST_UTIL_H_

#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cluster/testing/child_process_test_util.h"
#include "io/file.h"

namespace sluice::cli {

// It is in the same folder as this program.
inline std::string SluicePath() {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/exe", ignored)
             .parent_path() /
         "sluice";
}

// Processes of `sluice worker`, two for each job, which the destructor ends.
class Tasks {
 public:
  // `dir`: an existing folder for files.
  Tasks(const std::vector<std::string>& jobs, const std::string& dir,
        const std::vector<std::string>& options = {})
      : file_(dir + "/cluster.json") {
    nlohmann::json cluster;
    for (const std::string& job : jobs)
      for (int task = 0; task < 2; ++task) {
        const std::string address = absl::StrCat("127.0.0.1:", UnusedPort());
        cluster[job].push_back(address);
        targets_[absl::StrCat(job, ":", task)] = "grpc://" + address;
      }
    EXPECT_TRUE(WriteFile(file_, cluster.dump()).ok());
    for (const auto& [name, target] : targets_) {
      std::vector<std::string> arguments = {"worker",
                                            "--cluster",
                                            file_,
                                            "--job",
                                            name.substr(0, name.size() - 2),
                                            "--task",
                                            name.substr(name.size() - 1)};
      arguments.insert(arguments.end(), options.begin(), options.end());
      processes_[name] = std::make_unique<ChildProcess>(
          SluicePath(), arguments, std::vector<std::string>(),
          absl::StrCat(dir, "/", name));
    }
  }

  // By "ps:0".
  const std::map<std::string, std::string>& targets() const { return targets_; }
  const std::string& file() const { return file_; }
  void Signal(const std::string& task, int signal) {
    processes_.at(task)->Signal(signal);
  }
  void End() { processes_.clear(); }

 private:
  const std::string file_;
  std::map<std::string, std::string> targets_;
  std::map<std::string, std::unique_ptr<ChildProcess>> processes_;
};

}  // namespace sluice::cli

#endif  // SLUICE_TOOLS_SLUICE_TASKS_TEST_UTIL_H_
