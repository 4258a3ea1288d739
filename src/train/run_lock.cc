#include "train/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <filesystem>
#include <map>
#include <mutex>

#include "io/file.h"

namespace sluice {

// Closing the file gives the lock back.
class RunLock::Held {
 public:
  explicit Held(int file) : file_(file) {}
  ~Held() { close(file_); }

 private:
  const int file_;
};

Result<RunLock> RunLock::Take(const std::string& given,
                              const std::function<void()>& newly_taken) {
  const std::string folder = LocalPath(given);
  static std::mutex mu;
  static auto* const all = new std::map<std::string, std::weak_ptr<Held>>();
  std::error_code failed;
  const std::filesystem::path path = folder.empty() ? "." : folder;
  std::filesystem::create_directories(path, failed);
  const std::string name = (path / ".run.lock").string();
  const std::string key = std::filesystem::weakly_canonical(name, failed);
  const std::lock_guard<std::mutex> lock(mu);
  if (std::shared_ptr<Held> held = (*all)[key].lock())
    return RunLock(std::move(held));
  int file = open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  // (The file may be another user's, who may lock it but not change it.)
  if (file < 0 && errno == EACCES)
    file = open(name.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return FileError("opening", name);
  auto held = std::make_shared<Held>(file);
  const bool locked = flock(file, LOCK_EX | LOCK_NB) == 0;
  if (!locked && errno == EWOULDBLOCK) {
    char owner[256] = {};
    const ssize_t n = pread(file, owner, sizeof(owner) - 1, 0);
    std::string text(owner, n > 0 ? static_cast<size_t>(n) : 0);
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return FailedPrecondition("folder '", path.string(),
                              "': expected no other run in it, got ",
                              text.empty() ? "one of another process" : text,
                              " (give each run a folder of its own)");
  }
  char host[128] = {};
  if (gethostname(host, sizeof(host) - 1) != 0) host[0] = '\0';
  char when[64] = {};
  const std::time_t now = std::time(nullptr);
  std::tm parts = {};
  if (localtime_r(&now, &parts) != nullptr)
    std::strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", &parts);
  const std::string line =
      absl::StrCat("process ", getpid(), " on ", host, " since ", when, "\n");
  // (For messages only.)
  if (ftruncate(file, 0) == 0) (void)!pwrite(file, line.data(), line.size(), 0);
  if (locked && newly_taken) newly_taken();
  (*all)[key] = held;
  return RunLock(std::move(held));
}

}  // namespace sluice
