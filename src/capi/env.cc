// Files, clocks and threads of the C API (tensorflow/c/env.h).
#include "tensorflow/c/env.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <new>
#include <string>
#include <system_error>
#include <vector>

#include "absl/time/time.h"
#include "capi/handles.h"
#include "io/file.h"

namespace fs = std::filesystem;

struct TF_WritableFileHandle {
  std::FILE* file;
  std::string path;  // As it was given, for messages.
};

struct TF_StringStream {
  std::vector<std::string> strings;
  size_t next = 0;
};

struct TF_Thread {
  pthread_t thread;
  std::string name;
  void (*work)(void*);
  void* param;
};

namespace sluice::capi {
namespace {

Status SystemError(int code, const char* what, const std::string& path) {
  return absl::ErrnoToStatus(code, absl::StrCat(what, " '", path, "'"));
}
// Of a system call that returns 0 unless it fails with errno.
Status CheckCall(int returned, const char* what, const std::string& path) {
  return returned == 0 ? OkStatus() : SystemError(errno, what, path);
}

// What TF_DeleteRecursively has left.
struct Left {
  int64_t files = 0, folders = 0;
  Status first;
  void Add(int64_t& count, Status s) {
    ++count;
    if (first.ok()) first = std::move(s);
  }
};

// (As in TensorFlow, a link that replaces a folder while this runs is
// followed.)
void DeleteTree(const fs::path& path, Left& left) {
  std::error_code error;
  const fs::file_status status = fs::symlink_status(path, error);
  if (!fs::exists(status)) {
    left.Add(left.folders, SystemError(error ? error.value() : ENOENT,
                                       "deleting", path.native()));
    return;
  }
  if (!fs::is_directory(status)) {
    const Status s = CheckCall(unlink(path.c_str()), "deleting", path.native());
    if (!s.ok()) left.Add(left.files, s);
    return;
  }
  std::vector<fs::path> children;
  for (fs::directory_iterator it(path, error), end; !error && it != end;
       it.increment(error))
    children.push_back(it->path());
  for (const fs::path& child : children) DeleteTree(child, left);
  const Status s =
      error ? SystemError(error.value(), "reading", path.native())
            : CheckCall(rmdir(path.c_str()), "deleting", path.native());
  if (!s.ok()) left.Add(left.folders, s);
}

// Calls fn with the path on this machine of one that is given.
template <typename Fn>
void WithPath(const char* path, TF_Status* status, const char* what, Fn&& fn) {
  Report(status, what, [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(Given(path, "path"));
    return fn(LocalPath(path));
  });
}
// Calls fn with the file of a handle.
template <typename Fn>
void WithFile(TF_WritableFileHandle* handle, TF_Status* status,
              const char* what, Fn&& fn) {
  Report(status, what, [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(Given(handle, "file"));
    return fn(handle->file);
  });
}

template <typename Unit>
uint64_t Now() {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<Unit>(
          std::chrono::system_clock::now().time_since_epoch())
          .count());
}

void* RunThread(void* argument) {
  const auto* t = static_cast<const TF_Thread*>(argument);
  pthread_setname_np(pthread_self(), t->name.c_str());
  t->work(t->param);
  return nullptr;
}

// 0 or an errno.
int Start(const TF_ThreadOptions* options, TF_Thread& t) {
  pthread_attr_t attributes;
  int error = pthread_attr_init(&attributes);
  if (error != 0) return error;
  if (options != nullptr && options->stack_size != 0)
    error = pthread_attr_setstacksize(&attributes, options->stack_size);
  if (error == 0 && options != nullptr && options->guard_size != 0)
    error = pthread_attr_setguardsize(&attributes, options->guard_size);
  if (error == 0) error = pthread_create(&t.thread, &attributes, RunThread, &t);
  pthread_attr_destroy(&attributes);
  return error;
}

}  // namespace
}  // namespace sluice::capi

using namespace sluice;        // NOLINT
using namespace sluice::capi;  // NOLINT

extern "C" {

void TF_CreateDir(const char* dirname, TF_Status* status) {
  WithPath(dirname, status, "TF_CreateDir", [&](const std::string& path) {
    return CheckCall(mkdir(path.c_str(), 0777), "creating", dirname);
  });
}

void TF_DeleteDir(const char* dirname, TF_Status* status) {
  WithPath(dirname, status, "TF_DeleteDir", [&](const std::string& path) {
    return CheckCall(rmdir(path.c_str()), "deleting", dirname);
  });
}

void TF_DeleteRecursively(const char* dirname, int64_t* undeleted_file_count,
                          int64_t* undeleted_dir_count, TF_Status* status) {
  Left left;
  WithPath(dirname, status, "TF_DeleteRecursively",
           [&](const std::string& path) {
             DeleteTree(path, left);
             return left.first;
           });
  if (undeleted_file_count != nullptr) *undeleted_file_count = left.files;
  if (undeleted_dir_count != nullptr) *undeleted_dir_count = left.folders;
}

void TF_DeleteFile(const char* filename, TF_Status* status) {
  WithPath(filename, status, "TF_DeleteFile", [&](const std::string& path) {
    return CheckCall(unlink(path.c_str()), "deleting", filename);
  });
}

void TF_FileStat(const char* filename, TF_FileStatistics* stats,
                 TF_Status* status) {
  WithPath(filename, status, "TF_FileStat", [&](const std::string& path) {
    SLUICE_RETURN_IF_ERROR(Given(stats, "stats"));
    struct stat found;
    SLUICE_RETURN_IF_ERROR(
        CheckCall(stat(path.c_str(), &found), "reading", filename));
    *stats = {found.st_size,
              absl::ToUnixNanos(absl::TimeFromTimespec(found.st_mtim)),
              S_ISDIR(found.st_mode)};
    return OkStatus();
  });
}

TF_StringStream* TF_GetChildren(const char* filename, TF_Status* status) {
  auto names = std::make_unique<TF_StringStream>();
  WithPath(filename, status, "TF_GetChildren", [&](const std::string& path) {
    std::error_code error;
    for (fs::directory_iterator it(path, error), end; !error && it != end;
         it.increment(error))
      names->strings.push_back(it->path().filename().native());
    if (error) {
      names->strings.clear();
      return SystemError(error.value(), "reading", filename);
    }
    std::sort(names->strings.begin(), names->strings.end());
    return OkStatus();
  });
  return names.release();
}

TF_StringStream* TF_GetLocalTempDirectories(void) {
  auto folders = std::make_unique<TF_StringStream>();
  std::error_code error;
  const auto add = [&](const char* folder) {
    if (folder == nullptr || *folder == 0) return false;
    if (fs::is_directory(folder, error)) folders->strings.push_back(folder);
    return true;
  };
  add(std::getenv("TEST_TMPDIR")) || add(std::getenv("TMPDIR")) ||
      add(std::getenv("TMP"));
  if (std::find(folders->strings.begin(), folders->strings.end(), "/tmp") ==
      folders->strings.end())
    add("/tmp");
  return folders.release();
}

bool TF_StringStreamNext(TF_StringStream* list, const char** result) {
  const bool more = list != nullptr && list->next < list->strings.size();
  if (result != nullptr)
    *result = more ? list->strings[list->next].c_str() : nullptr;
  if (more) ++list->next;
  return more;
}

void TF_StringStreamDone(TF_StringStream* list) { delete list; }

void TF_NewWritableFile(const char* filename, TF_WritableFileHandle** handle,
                        TF_Status* status) {
  WithPath(filename, status, "TF_NewWritableFile",
           [&](const std::string& path) {
             SLUICE_RETURN_IF_ERROR(Given(handle, "handle"));
             std::FILE* file = std::fopen(path.c_str(), "wbe");
             if (file == nullptr)
               return SystemError(errno, "creating", filename);
             *handle = new TF_WritableFileHandle{file, filename};
             return OkStatus();
           });
}

void TF_AppendWritableFile(TF_WritableFileHandle* handle, const char* data,
                           size_t length, TF_Status* status) {
  WithFile(handle, status, "TF_AppendWritableFile", [&](std::FILE* file) {
    if (length == 0) return OkStatus();
    SLUICE_RETURN_IF_ERROR(Given(data, "data"));
    return std::fwrite(data, 1, length, file) == length
               ? OkStatus()
               : SystemError(errno, "writing", handle->path);
  });
}

void TF_FlushWritableFile(TF_WritableFileHandle* handle, TF_Status* status) {
  WithFile(handle, status, "TF_FlushWritableFile", [&](std::FILE* file) {
    return CheckCall(std::fflush(file), "writing", handle->path);
  });
}

void TF_SyncWritableFile(TF_WritableFileHandle* handle, TF_Status* status) {
  WithFile(handle, status, "TF_SyncWritableFile", [&](std::FILE* file) {
    SLUICE_RETURN_IF_ERROR(
        CheckCall(std::fflush(file), "writing", handle->path));
    return CheckCall(fsync(fileno(file)), "writing", handle->path);
  });
}

void TF_CloseWritableFile(TF_WritableFileHandle* handle, TF_Status* status) {
  WithFile(handle, status, "TF_CloseWritableFile", [&](std::FILE* file) {
    const std::unique_ptr<TF_WritableFileHandle> owned(handle);
    return CheckCall(std::fclose(file), "writing", owned->path);
  });
}

uint64_t TF_NowNanos(void) { return Now<std::chrono::nanoseconds>(); }
uint64_t TF_NowMicros(void) { return Now<std::chrono::microseconds>(); }
uint64_t TF_NowSeconds(void) { return Now<std::chrono::seconds>(); }

void TF_DefaultThreadOptions(TF_ThreadOptions* options) {
  if (options != nullptr) *options = {0, 0, -1};
}

TF_Thread* TF_StartThread(const TF_ThreadOptions* options,
                          const char* thread_name, void (*work_func)(void*),
                          void* param) {
  if (work_func == nullptr) return nullptr;
  auto thread = std::make_unique<TF_Thread>();
  thread->name = View(thread_name).substr(0, 15);
  thread->work = work_func;
  thread->param = param;
  return Start(options, *thread) == 0 ? thread.release() : nullptr;
}

void TF_JoinThread(TF_Thread* thread) {
  if (thread == nullptr) return;
  pthread_join(thread->thread, nullptr);
  delete thread;
}

}  // extern "C"
