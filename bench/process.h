// A process that runs part of a workload.
#ifndef SLUICE_BENCH_PROCESS_H_
#define SLUICE_BENCH_PROCESS_H_

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status.h"

namespace sluice::bench {

// Runs a ProcessMain (bench.h). The two sides exchange lines through its
// standard input and output. The destructor closes its input and waits for its
// end. Used by one thread.
class Process {
 public:
  static Result<std::unique_ptr<Process>> Start(
      const std::string& name, const std::vector<std::string>& arguments) {
    int to[2], from[2];
    if (pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0)
      return Unavailable("bench: pipe2 failed");
    std::vector<std::string> words = {"sluice", "bench", "--process", name};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<char*> argv;
    for (std::string& w : words) argv.push_back(w.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, to[0], 0);
    posix_spawn_file_actions_adddup2(&actions, from[1], 1);
    std::unique_ptr<Process> p(new Process);
    const int error = posix_spawn(&p->pid_, "/proc/self/exe", &actions, nullptr,
                                  argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    close(to[0]);
    close(from[1]);
    p->in_ = fdopen(to[1], "w");
    p->out_ = fdopen(from[0], "r");
    if (error != 0) return Unavailable("bench: posix_spawn failed: ", error);
    return p;
  }
  ~Process() {
    std::fclose(in_);
    if (pid_ > 0) waitpid(pid_, nullptr, 0);
    std::fclose(out_);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void Send(const std::string& line) {
    std::fprintf(in_, "%s\n", line.c_str());
    std::fflush(in_);
  }
  // Unavailable once the process has ended.
  Result<std::string> Receive() {
    char* line = nullptr;
    size_t size = 0;
    const ssize_t read = getline(&line, &size, out_);
    const std::unique_ptr<char, void (*)(void*)> owner(line, std::free);
    if (read < 0)
      return Unavailable("bench: a process ended; its error is above");
    return std::string(absl::StripSuffix(line, "\n"));
  }

 private:
  Process() = default;
  pid_t pid_ = 0;
  std::FILE *in_ = nullptr, *out_ = nullptr;
};

}  // namespace sluice::bench

#endif  // SLUICE_BENCH_PROCESS_H_
