#include "checkpoint/pending_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <random>

#include "base/failpoint.h"
#include "io/file.h"

namespace sluice {
namespace {

constexpr size_t kBufferBytes = 256 << 10;
constexpr size_t kWrittenBytes = 8 << 20;  // At most, by one call.
// The disk begins with the first bytes while the last are being copied, so that
// a flush has less to wait for.
constexpr int64_t kAnnouncedBytes = 16 << 20;

}  // namespace

std::string FolderOf(const std::string& path) {
  return std::filesystem::path(path).parent_path().string();
}

Result<std::unique_ptr<PendingFile>> PendingFile::Create(
    const std::string& given, bool sync) {
  const std::string path = LocalPath(given);
  const std::string folder = FolderOf(path);
  // (If it cannot be made, opening the file fails and says so.)
  std::error_code ignored;
  if (!folder.empty()) std::filesystem::create_directories(folder, ignored);
  std::random_device random;
  for (;;) {
    const std::string temporary =
        absl::StrCat(path, ".tempstate", (uint64_t{random()} << 32) | random());
    const int file =
        open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file < 0 && errno == EEXIST) continue;
    if (file < 0) return FileError("writing", path);
    return std::unique_ptr<PendingFile>(
        new PendingFile(file, temporary, path, sync));
  }
}

PendingFile::~PendingFile() {
  if (file_ >= 0) close(file_);
  if (!committed_) unlink(temporary_.c_str());
}

Status PendingFile::WriteOut(std::string_view bytes) {
  SLUICE_RETURN_IF_ERROR(SLUICE_FAILPOINT("checkpoint.write").error);
  while (!bytes.empty()) {
    const ssize_t n =
        write(file_, bytes.data(), std::min(bytes.size(), kWrittenBytes));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return FileError("writing", path_);
    bytes.remove_prefix(static_cast<size_t>(n));
    written_ += n;
    if (!sync_ || written_ - announced_ < kAnnouncedBytes) continue;
    // (Only a hint: Flush reports what goes wrong.)
    (void)sync_file_range(file_, announced_, written_ - announced_,
                          SYNC_FILE_RANGE_WRITE);
    announced_ = written_;
  }
  return OkStatus();
}

Status PendingFile::Append(std::string_view bytes) {
  if (file_ < 0)
    return FailedPrecondition("writing '", path_,
                              "': expected an open file, got a flushed one");
  size_ += static_cast<int64_t>(bytes.size());
  if (buffer_.size() + bytes.size() < kBufferBytes) {
    buffer_.append(bytes);
    return OkStatus();
  }
  SLUICE_RETURN_IF_ERROR(WriteOut(buffer_));
  buffer_.clear();
  return WriteOut(bytes);
}

Status PendingFile::Flush() {
  SLUICE_RETURN_IF_ERROR(Append({}));
  SLUICE_RETURN_IF_ERROR(WriteOut(buffer_));
  buffer_.clear();
  SLUICE_RETURN_IF_ERROR(SLUICE_FAILPOINT("checkpoint.flush").error);
  if (sync_ && fsync(file_) != 0) return FileError("flushing", path_);
  const int closed = close(file_);
  file_ = -1;
  return closed == 0 ? OkStatus() : FileError("writing", path_);
}

Status PendingFile::CommitTo(const std::string& given) {
  const std::string path = LocalPath(given);
  SLUICE_RETURN_IF_ERROR(SLUICE_FAILPOINT("checkpoint.rename").error);
  if (rename(temporary_.c_str(), path.c_str()) != 0)
    return FileError("renaming a new file to", path);
  committed_ = true;
  return OkStatus();
}

Status SyncFolderOf(const std::string& path) {
  SLUICE_RETURN_IF_ERROR(SLUICE_FAILPOINT("checkpoint.flush_folder").error);
  std::string folder = FolderOf(LocalPath(path));
  if (folder.empty()) folder = ".";
  const int file = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) return FileError("flushing folder", folder);
  // (EINVAL: a file system that has no such operation.)
  const bool failed = fsync(file) != 0 && errno != EINVAL;
  const Status s = failed ? FileError("flushing folder", folder) : OkStatus();
  close(file);
  return s;
}

Status ReplaceFile(const std::string& path, std::string_view bytes, bool sync) {
  SLUICE_ASSIGN_OR_RETURN(const auto file, PendingFile::Create(path, sync));
  SLUICE_RETURN_IF_ERROR(file->Append(bytes));
  SLUICE_RETURN_IF_ERROR(file->Flush());
  SLUICE_RETURN_IF_ERROR(file->CommitTo(path));
  return sync ? SyncFolderOf(path) : OkStatus();
}

}  // namespace sluice
