// `sluice top` in real use: the program, on tasks in processes, in a terminal
// and in a pipe.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "io/file.h"
#include "sluice/sluice.h"
#include "tools/sluice/tasks_test_util.h"

namespace sluice::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// The program in a terminal of 24 lines and 100 columns.
class Terminal {
 public:
  explicit Terminal(const std::vector<std::string>& arguments) {
    std::vector<std::string> words = arguments;
    words.insert(words.begin(), SluicePath());
    std::vector<char*> argv;
    for (std::string& w : words) argv.push_back(w.data());
    argv.push_back(nullptr);
    winsize size{};
    size.ws_row = 24;
    size.ws_col = 100;
    pid_ = forkpty(&master_, nullptr, nullptr, &size);
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      sigset_t none;
      sigemptyset(&none);
      sigprocmask(SIG_SETMASK, &none, nullptr);
      signal(SIGINT, SIG_DFL);  // (A shell's background jobs ignore it.)
      execv(argv[0], argv.data());
      _exit(127);
    }
  }
  ~Terminal() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    close(master_);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  // The output after the next time the screen is cleared; "" if it is not.
  std::string NextScreen() {
    const std::string clear = "\x1b[H\x1b[2J";
    const auto limit = std::chrono::steady_clock::now() + Seconds(20);
    while (std::chrono::steady_clock::now() < limit) {
      // (Each screen is written at once, followed by a pause.)
      const size_t start = text_.find(clear);
      pollfd ready{master_, POLLIN, 0};
      const bool more = poll(&ready, 1, 50) > 0;
      if (!more && start != std::string::npos) {
        std::string screen = text_.substr(text_.rfind(clear) + clear.size());
        text_.clear();
        return screen;
      }
      if (!more) continue;
      char bytes[4096];
      const ssize_t n = read(master_, bytes, sizeof(bytes));
      if (n <= 0) break;
      text_.append(bytes, static_cast<size_t>(n));
    }
    ADD_FAILURE() << "no further screen; what came: " << text_;
    return "";
  }
  // The first screen for which `what` returns true: each screen is expected
  // soon after the one before, whichever task dies.
  std::string ScreenWhere(const std::function<bool(const std::string&)>& what) {
    std::string screen;
    for (int i = 0; i < 40; ++i) {
      const auto start = std::chrono::steady_clock::now();
      screen = NextScreen();
      EXPECT_LT(std::chrono::steady_clock::now() - start, Seconds(20));
      if (screen.empty() || what(screen)) return screen;
    }
    ADD_FAILURE() << "never so; at last:\n" << screen;
    return screen;
  }
  // Simulates a key press.
  void Press(char key) { EXPECT_EQ(write(master_, &key, 1), 1); }
  // The signal that ended it.
  int Wait() {
    int status = 0;
    BecomesTrue([&] {
      if (pid_ > 0 && waitpid(pid_, &status, WNOHANG) == pid_) pid_ = 0;
      return pid_ == 0;
    });
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  }

 private:
  using Seconds = std::chrono::duration<double>;
  pid_t pid_ = 0;
  int master_ = -1;
  std::string text_;
};

// The cells of a task's line, by title; none if there is no such line.
std::map<std::string, std::string> Line(const std::string& table,
                                        const std::string& task) {
  std::map<std::string, std::string> cells;
  const size_t head = table.find("TASK "), line = table.find(task + " ");
  if (head == std::string::npos || line == std::string::npos) return cells;
  const std::string titles =
      table.substr(head, table.find_first_of("\x1b\r\n", head) - head);
  const std::string text =
      table.substr(line, table.find_first_of("\x1b\r\n", line) - line);
  const std::vector<std::string> names =
      absl::StrSplit(titles, ' ', absl::SkipEmpty());
  std::vector<std::string> words =
      absl::StrSplit(text, "  ", absl::SkipWhitespace());
  for (size_t i = 0; i < std::min(names.size(), words.size()); ++i)
    cells[names[i]] = std::string(absl::StripAsciiWhitespace(words[i]));
  return cells;
}

// Two ps tasks and two workers, with steps that run on the first of each.
class TopCommand : public ::testing::Test {
 protected:
  TopCommand() {
    load_ = std::thread([this] { Load(); });
    EXPECT_TRUE(BecomesTrue([this] { return loaded_.load(); }));
  }
  ~TopCommand() override {
    stop_ = true;
    load_.join();
    tasks_.End();
    std::error_code ignored;
    std::filesystem::remove_all(dir_, ignored);
  }

  // 40 kB in each direction.
  void Load() {
    Graph graph;
    WithGraph use(graph);
    const Output x = Placeholder<float>({}, "x");
    Output y;
    {
      DeviceScope on("/job:worker/task:0");
      y = ops::Fill(Constant(Tensor::Vector<int32_t>({10000})), x);
    }
    {
      DeviceScope on("/job:ps/task:0");
      y = ops::Neg(y);
    }
    {
      DeviceScope on("/job:worker/task:0");
      y = ops::Sum(y, 0);
    }
    Session session(Target("worker:0"), graph);
    // (With pauses, so that other tests have the processors, too.)
    while (!stop_ && session.Run({{x, Tensor::Scalar<float>(1)}}, y).ok()) {
      loaded_ = true;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  std::string Target(const std::string& task) const {
    return tasks_.targets().at(task);
  }
  // Runs `sluice top` to its end; returns its output.
  std::string Top(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "top");
    const std::string out = dir_ + "/out";
    ChildProcess top(SluicePath(), arguments, {}, out);
    code_ = top.Wait();
    return ReadFile(out).value_or("");
  }

  const std::string dir_ = [] {
    const std::string dir =
        ::testing::TempDir() + "sluice_top_" + std::to_string(getpid());
    std::filesystem::create_directories(dir);
    return dir;
  }();
  Tasks tasks_{{"ps", "worker"}, dir_};
  std::atomic<bool> stop_{false}, loaded_{false};
  std::thread load_;
  int code_ = 0;
};

TEST_F(TopCommand, OncePrintsTableWithRates) {
  const std::string table = Top({Target("worker:1"), "--once"});
  EXPECT_EQ(code_, 0) << table;
  EXPECT_THAT(table, Not(HasSubstr("\x1b")));
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 5) << table;
  for (const auto& [task, target] : tasks_.targets())
    EXPECT_EQ(Line(table, task)["STATE"], "up") << table;
  EXPECT_GT(std::atof(Line(table, "worker:0")["STEPS/S"].c_str()), 1) << table;
  EXPECT_EQ(Line(table, "worker:1")["STEPS/S"], "0.0") << table;

  tasks_.Signal("ps:1", SIGKILL);
  const auto json = nlohmann::json::parse(
      Top({tasks_.file(), "--once", "--json"}), nullptr, false);
  EXPECT_EQ(code_, 0);
  ASSERT_EQ(json["tasks"].size(), 4u) << json;
  EXPECT_EQ(json["tasks"][1]["state"], "lost");
  const auto &ps = json["tasks"][0], &worker = json["tasks"][2];
  EXPECT_GT(ps["steps_per_s"], 1);
  // (Each step moves 40 kB to the ps and 40 kB back.)
  const double bytes = worker["steps_per_s"].get<double>() * 40e3;
  for (const auto& rate :
       {ps["received_bytes_per_s"], ps["sent_bytes_per_s"],
        worker["received_bytes_per_s"], worker["sent_bytes_per_s"]}) {
    EXPECT_GT(rate.get<double>(), 0.5 * bytes) << json;
    EXPECT_LT(rate.get<double>(), 2 * bytes) << json;
  }
}

TEST_F(TopCommand, ShowsWhereThePipelineOfATaskIsHeldUp) {
  Graph graph;
  const WithGraph use(graph);
  DatasetIterator input;
  {
    const DeviceScope on("/job:worker/task:1");
    const NameScope scope("digits");
    input =
        Dataset::Range(1000).Prefetch(4).Batch(2).Prefetch(3).MakeIterator();
  }
  Session session(Target("worker:1"), graph);
  ASSERT_TRUE(input.Start(session).ok());
  std::string table;
  EXPECT_TRUE(BecomesTrue([&] {
    table = Top({Target("ps:0"), "--once", "--pipelines"});
    return absl::StrContains(table, "] 3/3");
  })) << table;
  EXPECT_THAT(table, testing::StartsWith("PIPELINE "));
  EXPECT_THAT(table, HasSubstr("digits/pipeline  worker:1  prefetch_1 "));
  EXPECT_THAT(Top({Target("ps:0"), "--once", "--pipelines"}),
              HasSubstr("slowest: what takes these\n"));
  // With the tasks.
  table = Top({Target("ps:0"), "--once"});
  EXPECT_THAT(table, testing::StartsWith("TASK "));
  EXPECT_THAT(table, HasSubstr("\n\nPIPELINE "));
  input.Stop();
}

TEST_F(TopCommand, TerminalShowsLostTasksAndUpdatesOthers) {
  Terminal terminal({"top", Target("worker:0"), "--interval", "0.5"});
  const auto state = [](const std::string& screen, const char* task) {
    return Line(screen, task)["STATE"];
  };
  const auto moves = [](const std::string& screen, const char* task) {
    return std::atof(Line(screen, task)["STEPS/S"].c_str()) > 0;
  };
  std::string screen = terminal.ScreenWhere([&](auto& s) {
    for (const auto& [task, target] : tasks_.targets())
      if (state(s, task.c_str()) != "up") return false;
    return true;
  });
  EXPECT_THAT(screen, HasSubstr(Target("worker:0")));
  terminal.ScreenWhere([&](auto& s) { return moves(s, "ps:0"); });

  tasks_.Signal("worker:1", SIGKILL);
  tasks_.Signal("ps:1", SIGSTOP);
  // (On a busy machine other tasks may miss a table.)
  terminal.ScreenWhere([&](auto& s) {
    return state(s, "worker:1") == "lost" && state(s, "ps:1") == "lost" &&
           moves(s, "worker:0") && moves(s, "ps:0");
  });
  tasks_.Signal("ps:1", SIGCONT);
  terminal.ScreenWhere([&](auto& s) { return state(s, "ps:1") == "up"; });

  // The task that is asked.
  tasks_.Signal("worker:0", SIGKILL);
  terminal.ScreenWhere([&](auto& s) {
    return state(s, "worker:0") == "lost" && state(s, "ps:0") == "up";
  });

  // All of them: an error stays on the screen as long as it holds.
  tasks_.Signal("ps:0", SIGKILL);
  tasks_.Signal("ps:1", SIGKILL);
  for (int i = 0; i < 2; ++i) {
    screen = terminal.ScreenWhere([&](auto& s) {
      return state(s, "ps:0") == "lost" && state(s, "ps:1") == "lost";
    });
    EXPECT_THAT(screen, HasSubstr("\x1b[31mgrpc://127.0.0.1:")) << screen;
    EXPECT_EQ(state(screen, "worker:0"), "lost") << screen;
  }
  terminal.Press('\x03');  // Ctrl-C.
  EXPECT_EQ(terminal.Wait(), SIGINT);
}

TEST_F(TopCommand, PipeReceivesTablesUntilClosed) {
  const std::string out = dir_ + "/tables";
  {
    ChildProcess top(SluicePath(), {"top", Target("ps:0"), "--interval", "0.2"},
                     {}, out);
    EXPECT_TRUE(BecomesTrue([&] {
      return absl::StrContains(ReadFile(out).value_or(""), "\n\nTASK ");
    }));
    top.Signal(SIGINT);
    EXPECT_EQ(top.Wait(), -1);
  }
  EXPECT_THAT(ReadFile(out).value_or(""), Not(HasSubstr("\x1b")));
  EXPECT_EQ(
      std::system(absl::StrCat("timeout 20 sh -c '", SluicePath(), " top ",
                               Target("ps:0"),
                               " --interval 0.1 --json | head -n 2' >", out)
                      .c_str()),
      0);
  const std::string lines = ReadFile(out).value_or("");
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 2) << lines;
}

TEST_F(TopCommand, ErrorBeforeFirstTableExits) {
  tasks_.End();
  const std::string said = Top({Target("ps:0"), "--interval", "0.5"});
  EXPECT_EQ(code_, 1) << said;
  EXPECT_THAT(said, HasSubstr("sluice: grpc://127.0.0.1:"));
}

}  // namespace
}  // namespace sluice::cli
