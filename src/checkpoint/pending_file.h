// Files that are written aside and get their name when they are whole.
#ifndef SLUICE_CHECKPOINT_PENDING_FILE_H_
#define SLUICE_CHECKPOINT_PENDING_FILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"

namespace sluice {

// A file beside `path`, named "<path>.tempstate<number>", until CommitTo gives
// it its name. Whatever ends the process before that leaves a file of the name
// as it was. Not thread-safe. The failpoints checkpoint.write, checkpoint.flush
// and checkpoint.rename are in its functions.
class PendingFile {
 public:
  // Creates the file, and the folders it is in. With `sync`, Flush waits until
  // the disk has the contents.
  static Result<std::unique_ptr<PendingFile>> Create(const std::string& path,
                                                     bool sync);
  // Removes the file, if it was not committed.
  ~PendingFile();
  PendingFile(const PendingFile&) = delete;

  // FailedPrecondition if the disk is full, as for all other errors of the
  // system but missing permissions.
  Status Append(std::string_view bytes);
  int64_t size() const { return size_; }
  // Ends the file; nothing can be appended any more.
  Status Flush();
  // Renames the file, replacing any file of that name. REQUIRES: Flush was OK.
  Status CommitTo(const std::string& path);

 private:
  PendingFile(int file, std::string temporary, std::string path, bool sync)
      : file_(file),
        sync_(sync),
        temporary_(std::move(temporary)),
        path_(std::move(path)) {}
  Status WriteOut(std::string_view bytes);

  int file_;  // -1: flushed.
  const bool sync_;
  bool committed_ = false;
  const std::string temporary_, path_;
  std::string buffer_;     // Of short pieces.
  int64_t size_ = 0;       // With the buffer.
  int64_t written_ = 0;    // Without it.
  int64_t announced_ = 0;  // Bytes that the system was asked to write to disk.
};

// Waits until the disk knows the names of the files in the folder that `path`
// is in. Failpoint checkpoint.flush_folder.
Status SyncFolderOf(const std::string& path);

// The whole file by the same steps: a reader sees the old or the new contents.
Status ReplaceFile(const std::string& path, std::string_view bytes,
                   bool sync = true);

// "a/b" of "a/b/c"; "" of "c".
std::string FolderOf(const std::string& path);

}  // namespace sluice

#endif  // SLUICE_CHECKPOINT_PENDING_FILE_H_
