#include "io/file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

namespace sluice {
namespace {

struct Close {
  void operator()(std::FILE* f) const { std::fclose(f); }
};
using File = std::unique_ptr<std::FILE, Close>;

}  // namespace

std::string LocalPath(const std::string& path) {
  for (const std::string_view start : {"file:///", "file://localhost/"})
    if (path.starts_with(start)) return path.substr(start.size() - 1);
  return path;
}

Status FileError(const char* what, const std::string& path) {
  const int code = errno;
  const std::string message =
      absl::StrCat(what, " '", path, "': ", std::strerror(code));
  if (code == ENOENT) return NotFound(message);
  if (code == EACCES || code == EPERM)
    return Status(StatusCode::kPermissionDenied, message);
  return FailedPrecondition(message);
}

Result<std::string> ReadFile(const std::string& path, int64_t max_bytes) {
  const File file(std::fopen(LocalPath(path).c_str(), "rb"));
  if (file == nullptr) return FileError("reading", path);
  std::string bytes;
  char chunk[1 << 16];
  while (const size_t n = std::fread(chunk, 1, sizeof(chunk), file.get())) {
    bytes.append(chunk, n);
    if (static_cast<int64_t>(bytes.size()) > max_bytes)
      return ResourceExhausted("reading '", path, "': expected at most ",
                               max_bytes, " bytes, got more");
  }
  if (std::ferror(file.get())) return FileError("reading", path);
  return bytes;
}

Status WriteFile(const std::string& path, std::string_view bytes) {
  File file(std::fopen(LocalPath(path).c_str(), "wb"));
  if (file == nullptr) return FileError("writing", path);
  if (std::fwrite(bytes.data(), 1, bytes.size(), file.get()) != bytes.size())
    return FileError("writing", path);
  if (std::fclose(file.release()) != 0) return FileError("writing", path);
  return OkStatus();
}

}  // namespace sluice
