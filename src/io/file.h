// Reading and writing whole files.
#ifndef SLUICE_IO_FILE_H_
#define SLUICE_IO_FILE_H_

#include <string>
#include <string_view>

#include "base/status.h"

namespace sluice {

// What a path means on this machine: "/a/b" of "file:///a/b" or
// "file://localhost/a/b", as TensorFlow's programs may write it; other paths
// are returned as they are. Whatever opens files of a user's paths calls this
// first, or gives them to what does. Messages of the functions below, and of
// what reads and writes records, name the path as it was given.
std::string LocalPath(const std::string& path);

// NotFound if the file does not exist; also fails for a folder, an unreadable
// file and a file of more than `max_bytes`.
Result<std::string> ReadFile(const std::string& path,
                             int64_t max_bytes = int64_t{1} << 40);

// Replaces or creates the file, but does not create its folder.
Status WriteFile(const std::string& path, std::string_view bytes);

// The error of a system call that failed with errno: "reading 'x': No such file
// or directory".
Status FileError(const char* what, const std::string& path);

}  // namespace sluice

#endif  // SLUICE_IO_FILE_H_
