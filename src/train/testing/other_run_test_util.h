// Another process that has a folder's lock.
#ifndef SLUICE_TRAIN_TESTING_OTHER_RUN_TEST_UTIL_H_
#define SLUICE_TRAIN_TESTING_OTHER_RUN_TEST_UTIL_H_

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>

#include "train/run_lock.h"

namespace sluice {

// Takes the lock of the folder in a child process, and keeps it until the
// process is killed.
class OtherRun {
 public:
  explicit OtherRun(const std::string& folder) {
    int ready[2];
    EXPECT_EQ(pipe(ready), 0);
    pid_ = fork();
    EXPECT_GE(pid_, 0);
    if (pid_ == 0) {
      const auto lock = RunLock::Take(folder);
      const char taken = lock.ok() ? 'y' : 'n';
      (void)!write(ready[1], &taken, 1);
      while (true) pause();
    }
    close(ready[1]);
    char taken = 0;
    EXPECT_EQ(read(ready[0], &taken, 1), 1);
    EXPECT_EQ(taken, 'y');
    close(ready[0]);
  }
  ~OtherRun() { Kill(); }
  OtherRun(const OtherRun&) = delete;

  pid_t pid() const { return pid_; }
  void Kill() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  pid_t pid_ = -1;
};

}  // namespace sluice

#endif  // SLUICE_TRAIN_TESTING_OTHER_RUN_TEST_UTIL_H_
