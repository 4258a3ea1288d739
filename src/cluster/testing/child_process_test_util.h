// Child processes of a test (this program or another one), which are killed
// when the test ends, however it ends.
#ifndef SLUICE_CLUSTER_TESTING_CHILD_PROCESS_TEST_UTIL_H_
#define SLUICE_CLUSTER_TESTING_CHILD_PROCESS_TEST_UTIL_H_

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/sanitizers.h"

namespace sluice {

// A port with no listener, outside the ephemeral range, so that it is unlikely
// to be taken before the test uses it.
inline int UnusedPort() {
  static std::mt19937 random{std::random_device{}()};
  for (int attempt = 0; attempt < 1000; ++attempt) {
    const int port = std::uniform_int_distribution<int>(10240, 32000)(random);
    const int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in a{};
    a.sin_family = AF_INET;
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    a.sin_port = htons(static_cast<uint16_t>(port));
    const bool free = bind(s, reinterpret_cast<sockaddr*>(&a), sizeof(a)) == 0;
    close(s);
    if (free) return port;
  }
  ADD_FAILURE() << "no free port";
  return 0;
}

// Waits until `what` returns true; false after 30 seconds (90 under
// sanitizers).
inline bool BecomesTrue(const std::function<bool()>& what) {
  for (int i = 0; i < (kSanitized ? 9000 : 3000); ++i) {
    if (what()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

// Killed by the destructor, and by the kernel if the thread that started it
// dies.
class ChildProcess {
 public:
  // `program`: a path, or a name to look up in PATH. `extra`: variables added
  // to this process's environment. `output`: the file for stdout and stderr, ""
  // to inherit ours.
  ChildProcess(const std::string& program,
               const std::vector<std::string>& arguments,
               const std::vector<std::string>& extra = {},
               const std::string& output = "") {
    // (Before fork: the child must not allocate.)
    std::vector<std::string> words = {program}, environment = extra;
    words.insert(words.end(), arguments.begin(), arguments.end());
    for (char** e = environ; *e != nullptr; ++e) environment.push_back(*e);
    std::vector<char*> argv, envp;
    for (std::string& w : words) argv.push_back(w.data());
    for (std::string& e : environment) envp.push_back(e.data());
    argv.push_back(nullptr);
    envp.push_back(nullptr);
    const pid_t parent = getpid();
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(127);
      sigset_t none;
      sigemptyset(&none);
      sigprocmask(SIG_SETMASK, &none, nullptr);
      signal(SIGINT, SIG_DFL);  // (A shell's background jobs ignore it.)
      if (!output.empty()) {
        const int file =
            open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
        if (file < 0 || dup2(file, STDOUT_FILENO) < 0 ||
            dup2(file, STDERR_FILENO) < 0)
          _exit(127);
      }
      execvpe(program.c_str(), argv.data(), envp.data());
      _exit(127);
    }
    EXPECT_GT(pid_, 0);
  }
  ~ChildProcess() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  void Signal(int signal) { EXPECT_EQ(kill(pid_, signal), 0); }
  bool Ended() {
    if (pid_ > 0 && waitpid(pid_, &status_, WNOHANG) == pid_) pid_ = 0;
    return pid_ <= 0;
  }
  // Waits; returns the exit code, -1 if it was killed.
  int Wait() {
    if (pid_ > 0) waitpid(pid_, &status_, 0);
    pid_ = 0;
    return WIFEXITED(status_) ? WEXITSTATUS(status_) : -1;
  }

 private:
  pid_t pid_ = 0;
  int status_ = 0;
};

}  // namespace sluice

#endif  // SLUICE_CLUSTER_TESTING_CHILD_PROCESS_TEST_UTIL_H_
