#include "tools/sluice/launch_processes.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"

namespace sluice::cli {
namespace {

using Clock = std::chrono::steady_clock;

// For a remote process that was killed to end its connection.
constexpr std::chrono::seconds kConnectionEnds{5};

std::chrono::nanoseconds Seconds(double s) {
  return std::chrono::nanoseconds(static_cast<int64_t>(s * 1e9));
}

const char* SignalName(int signal) {
  switch (signal) {
    case SIGINT:
      return "INT";
    case SIGKILL:
      return "KILL";
    default:
      return "TERM";
  }
}

// Writes whole lines; those of others do not come in between.
void WriteLine(int fd, const std::string& name, const std::string& text) {
  const std::string line = absl::StrCat(name, ": ", text, "\n");
  size_t done = 0;
  while (done < line.size()) {
    const ssize_t n = write(fd, line.data() + done, line.size() - done);
    if (n <= 0 && errno != EINTR) return;
    if (n > 0) done += static_cast<size_t>(n);
  }
}

// One process with the pipes to it.
class Child {
 public:
  explicit Child(LaunchedProcess what) : what_(std::move(what)) {}
  ~Child() { CloseAll(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  bool Start();
  void Signal(int signal);
  // Of a remote process: of what brings it signals, which may be stuck.
  void KillConnection() {
    kill_connection_at = Clock::time_point::max();
    if (running()) kill(pid_, SIGKILL);
  }
  // Takes its end. `status`: of waitpid.
  void Ended(int status);
  // Passes on the output that has come; a line without an end at the end.
  void PassOn(int which, bool all);

  const LaunchedProcess& what() const { return what_; }
  pid_t pid() const { return pid_; }
  bool running() const { return pid_ > 0; }
  // The exit code of the last run, 128 + the signal.
  int code() const { return code_; }
  int output(int which) const { return out_[which]; }
  std::string How() const {
    return code_ >= 128 ? absl::StrCat("signal ", code_ - 128)
                        : absl::StrCat("exit code ", code_);
  }

  int restarts = 0;
  Clock::time_point restart_at = Clock::time_point::max();
  Clock::time_point kill_connection_at = Clock::time_point::max();

 private:
  void CloseAll() {
    for (int* fd : {&in_, &out_[0], &out_[1]})
      if (*fd >= 0) close(std::exchange(*fd, -1));
  }
  const LaunchedProcess what_;
  pid_t pid_ = 0;
  int code_ = 0;
  int in_ = -1, out_[2] = {-1, -1};
  std::string partial_[2];
};

bool Child::Start() {
  CloseAll();
  int in[2] = {-1, -1}, out[2] = {-1, -1}, err[2] = {-1, -1};
  if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0 ||
      pipe2(err, O_CLOEXEC) != 0) {
    std::fprintf(stderr, "sluice launch: %s: expected pipes, got: %s\n",
                 what_.name.c_str(), std::strerror(errno));
    for (const int fd : {in[0], in[1], out[0], out[1], err[0], err[1]})
      if (fd >= 0) close(fd);
    code_ = 1;
    return false;
  }
  // (Before fork: the child must not allocate.)
  Words command = what_.command, environment;
  for (char** e = environ; *e != nullptr; ++e) {
    const std::string entry = *e;
    const std::string name = entry.substr(0, entry.find('='));
    if (std::none_of(what_.environment.begin(), what_.environment.end(),
                     [&name](const auto& v) { return v.first == name; }))
      environment.push_back(entry);
  }
  for (const auto& [name, value] : what_.environment)
    environment.push_back(absl::StrCat(name, "=", value));
  std::vector<char*> argv, envp;
  for (std::string& w : command) argv.push_back(w.data());
  for (std::string& e : environment) envp.push_back(e.data());
  argv.push_back(nullptr);
  envp.push_back(nullptr);
  const pid_t launcher = getpid();
  pid_ = fork();
  if (pid_ == 0) {
    // Who is killed cannot send signals. (The thread that forks is the main
    // one; what is remote ends with its standard input.)
    if (!what_.remote) {
      prctl(PR_SET_PDEATHSIG, SIGTERM);
      if (getppid() != launcher) _exit(128 + SIGTERM);
    }
    // Ctrl-C in a terminal comes to us only, which send it on.
    setpgid(0, 0);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    dup2(in[0], STDIN_FILENO);
    dup2(out[1], STDOUT_FILENO);
    dup2(err[1], STDERR_FILENO);
    execvpe(argv[0], argv.data(), envp.data());
    dprintf(STDERR_FILENO, "expected a program to run, got '%s': %s\n", argv[0],
            std::strerror(errno));
    _exit(127);
  }
  close(in[0]);
  close(out[1]);
  close(err[1]);
  in_ = in[1];
  out_[0] = out[0];
  out_[1] = err[0];
  for (const int fd : {in_, out_[0], out_[1]}) fcntl(fd, F_SETFL, O_NONBLOCK);
  if (!what_.remote) close(std::exchange(in_, -1));
  if (pid_ < 0) {
    code_ = 1;
    return false;
  }
  return true;
}

void Child::Signal(int signal) {
  if (!running()) return;
  if (!what_.remote) {
    kill(pid_, signal);
    return;
  }
  const std::string line = absl::StrCat(SignalName(signal), "\n");
  if (write(in_, line.data(), line.size()) < 0 && errno != EAGAIN)
    kill(pid_, signal);  // (Nobody listens: ssh itself does not answer.)
  if (signal == SIGKILL) {
    close(std::exchange(in_, -1));
    kill_connection_at = Clock::now() + kConnectionEnds;
  }
}

void Child::Ended(int status) {
  pid_ = 0;
  kill_connection_at = Clock::time_point::max();
  code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  for (const int which : {0, 1}) PassOn(which, /*all=*/true);
  CloseAll();
}

void Child::PassOn(int which, bool all) {
  constexpr size_t kLongestLine = 64 << 10;
  char some[16384];
  std::string& text = partial_[which];
  for (;;) {
    if (out_[which] < 0) break;
    const ssize_t n = read(out_[which], some, sizeof(some));
    if (n < 0 && errno == EINTR) continue;
    if (n == 0) close(std::exchange(out_[which], -1));
    if (n <= 0) break;
    text.append(some, static_cast<size_t>(n));
    size_t begin = 0;
    for (size_t end; (end = text.find('\n', begin)) != std::string::npos;
         begin = end + 1)
      WriteLine(which + 1, what_.name, text.substr(begin, end - begin));
    text.erase(0, begin);
    if (text.size() > kLongestLine)
      WriteLine(which + 1, what_.name, std::exchange(text, ""));
  }
  if (all && !text.empty())
    WriteLine(which + 1, what_.name, std::exchange(text, ""));
}

// The loop over all of them.
class Launched {
 public:
  Launched(const std::vector<LaunchedProcess>& tasks,
           const LaunchedProcess& program, const LaunchPolicy& policy)
      : policy_(policy) {
    for (const LaunchedProcess& t : tasks)
      children_.push_back(std::make_unique<Child>(t));
    if (!program.command.empty()) {
      children_.push_back(std::make_unique<Child>(program));
      program_ = children_.back().get();
    }
  }
  int Run();

 private:
  void OnSignal(int signal);
  void Reap();
  void OnEnd(Child* child);
  void End(int code);
  void KillAll();
  void SignalAll(int signal) {
    for (const auto& c : children_) c->Signal(signal);
  }
  void Note(int code) {
    if (code_ == 0) code_ = code;
  }

  const LaunchPolicy policy_;
  std::vector<std::unique_ptr<Child>> children_;
  Child* program_ = nullptr;
  bool asked_ = false;  // By a signal.
  bool ending_ = false, killed_ = false;
  bool ended_by_us_ = false;  // Not by a signal.
  int code_ = 0;              // The result so far.
  Clock::time_point kill_at_ = Clock::time_point::max();
};

int Launched::Run() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int s : {SIGTERM, SIGINT, SIGHUP, SIGCHLD}) sigaddset(&signals, s);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  const int from_signals = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
  if (from_signals < 0) return 1;
  for (const auto& c : children_)
    if (!c->Start()) OnEnd(c.get());
  for (;;) {
    const auto now = Clock::now();
    auto next = std::min(kill_at_, now + std::chrono::seconds(60));
    bool any = false;
    for (const auto& c : children_) {
      any = any || c->running() || c->restart_at != Clock::time_point::max();
      if (c->restart_at <= now) {
        c->restart_at = Clock::time_point::max();
        if (!ending_ && !c->Start()) OnEnd(c.get());
      }
      if (c->kill_connection_at <= now) c->KillConnection();
      next = std::min({next, c->restart_at, c->kill_connection_at});
    }
    if (!any) break;
    if (kill_at_ <= now) {
      kill_at_ = Clock::time_point::max();
      std::fprintf(stderr,
                   "sluice launch: expected all to end within %g s, got some "
                   "that did not: killing them\n",
                   ending_ ? policy_.end_seconds : 2 * policy_.end_seconds);
      KillAll();
    }
    std::vector<pollfd> polled = {{from_signals, POLLIN, 0}};
    std::vector<std::pair<Child*, int>> of;
    for (const auto& c : children_)
      for (const int which : {0, 1})
        if (c->output(which) >= 0) {
          polled.push_back({c->output(which), POLLIN, 0});
          of.emplace_back(c.get(), which);
        }
    const auto wait = std::chrono::ceil<std::chrono::milliseconds>(
        std::max(next - now, Clock::duration(0)));
    (void)poll(polled.data(), polled.size(), static_cast<int>(wait.count()));
    for (size_t i = 0; i < of.size(); ++i)
      if (polled[i + 1].revents != 0)
        of[i].first->PassOn(of[i].second, /*all=*/false);
    signalfd_siginfo info;
    while (read(from_signals, &info, sizeof(info)) ==
           static_cast<ssize_t>(sizeof(info)))
      if (info.ssi_signo != SIGCHLD) OnSignal(static_cast<int>(info.ssi_signo));
    Reap();
  }
  close(from_signals);
  return code_;
}

void Launched::OnSignal(int signal) {
  if (signal == SIGHUP) signal = SIGTERM;
  if (ending_ || asked_) {
    if (!std::exchange(killed_, true))
      std::fprintf(stderr, "sluice launch: a second signal: killing all\n");
    KillAll();
    return;
  }
  asked_ = true;
  // The program needs the tasks for its last steps, such as a checkpoint. Its
  // end ends them.
  if (program_ != nullptr && program_->running()) {
    std::fprintf(stderr,
                 "sluice launch: SIG%s: sent on to the program, whose end ends "
                 "the tasks\n",
                 SignalName(signal));
    kill_at_ = Clock::now() + 2 * Seconds(policy_.end_seconds);
    program_->Signal(signal);
    return;
  }
  std::fprintf(stderr, "sluice launch: SIG%s: sent on to all\n",
               SignalName(signal));
  ending_ = true;
  kill_at_ = Clock::now() + Seconds(policy_.end_seconds);
  SignalAll(signal);
}

void Launched::KillAll() {
  ending_ = true;
  for (const auto& c : children_) c->restart_at = Clock::time_point::max();
  SignalAll(SIGKILL);
}

void Launched::Reap() {
  for (const auto& c : children_) {
    int status = 0;
    if (!c->running() || waitpid(c->pid(), &status, WNOHANG) != c->pid())
      continue;
    c->Ended(status);
    OnEnd(c.get());
  }
}

void Launched::OnEnd(Child* child) {
  if (ending_) {
    if (!ended_by_us_) Note(child->code());
    return;
  }
  if (child == program_) {
    if (child->code() != 0)
      std::fprintf(stderr, "sluice launch: %s ended with %s\n",
                   child->what().name.c_str(), child->How().c_str());
    return End(child->code());
  }
  const bool others = std::any_of(children_.begin(), children_.end(),
                                  [](const auto& c) { return c->running(); });
  if (child->code() == 0 && program_ == nullptr) return;  // It is done.
  const bool again = child->restarts < policy_.restarts;
  std::fprintf(stderr, "sluice launch: task %s%s%s ended with %s%s\n",
               child->what().name.c_str(),
               child->what().where.empty() ? "" : " ",
               child->what().where.c_str(), child->How().c_str(),
               again    ? ": starting it again"
               : others ? ": ending the others"
                        : "");
  if (again) {
    ++child->restarts;
    child->restart_at = Clock::now() + Seconds(policy_.restart_seconds);
    return;
  }
  End(child->code() == 0 ? 1 : child->code());
}

// The codes of those that we end do not matter.
void Launched::End(int code) {
  code_ = code;
  ending_ = true;
  kill_at_ = Clock::now() + Seconds(policy_.end_seconds);
  for (const auto& c : children_) c->restart_at = Clock::time_point::max();
  SignalAll(SIGTERM);
  ended_by_us_ = true;
}

}  // namespace

int RunProcesses(const std::vector<LaunchedProcess>& tasks,
                 const LaunchedProcess& program, const LaunchPolicy& policy) {
  return Launched(tasks, program, policy).Run();
}

std::string RemoteCommand(
    const Words& command,
    const std::vector<std::pair<std::string, std::string>>& environment,
    const std::string& folder) {
  Words words = {"env"};
  for (const auto& [name, value] : environment)
    words.push_back(absl::StrCat(name, "=", value));
  words.insert(words.end(), command.begin(), command.end());
  // The shell becomes the command, so that its exit code is ours and signals
  // have their usual effect; a child of it reads the signals. (A shell that
  // ignores SIGINT, as for background commands, would pass that on.)
  const std::string script = absl::StrCat(
      folder.empty()
          ? std::string("exec 3<&0")
          : absl::StrCat("cd ", ShellQuoted(folder), " || exit 126; exec 3<&0"),
      "; p=$$; (while read -r s <&3; do kill -s \"$s\" $p || exit; done; "
      "kill -s TERM $p) </dev/null >/dev/null 2>&1 & exec ",
      ShellLine(words), " </dev/null 3<&-");
  return ShellLine({"sh", "-c", script});
}

}  // namespace sluice::cli
