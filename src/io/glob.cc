#include "io/glob.h"

#include <fnmatch.h>

#include <algorithm>
#include <filesystem>

#include "absl/strings/str_format.h"
#include "io/file.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

bool HasWildcard(const std::string& part) {
  return part.find_first_of("*?[\\") != std::string::npos;
}

// The names in a folder; none if it is no folder or cannot be read.
std::vector<std::string> NamesIn(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder.empty() ? "." : folder, error), end;
       !error && it != end; it.increment(error))
    names.push_back(it->path().filename().string());
  return names;
}

bool Exists(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error);
}

}  // namespace

Result<std::vector<std::string>> MatchingFiles(const std::string& pattern,
                                               size_t max_paths) {
  if (const std::string local = LocalPath(pattern); local != pattern) {
    SLUICE_ASSIGN_OR_RETURN(std::vector<std::string> found,
                            MatchingFiles(local, max_paths));
    const std::string host = pattern.substr(0, pattern.size() - local.size());
    for (std::string& path : found) path.insert(0, host);
    return found;
  }
  if (!HasWildcard(pattern)) {
    if (pattern.empty() || !Exists(pattern)) return std::vector<std::string>();
    return std::vector<std::string>{pattern};
  }
  // The part before the first wildcard is kept as it is written; from there on
  // the parts are matched folder by folder.
  const size_t wildcard = pattern.find_first_of("*?[\\");
  const size_t slash = pattern.rfind('/', wildcard);
  const size_t start = slash == std::string::npos ? 0 : slash + 1;
  std::vector<std::string> found = {start == 0 ? std::string("./")
                                               : pattern.substr(0, start)};
  for (size_t begin = start; begin < pattern.size();) {
    const size_t end = std::min(pattern.find('/', begin), pattern.size());
    const std::string part = pattern.substr(begin, end - begin);
    std::vector<std::string> next;
    for (const std::string& folder : found) {
      const std::string prefix =
          folder.back() == '/' ? folder : absl::StrCat(folder, "/");
      if (!HasWildcard(part)) {
        if (Exists(prefix + part)) next.push_back(prefix + part);
        continue;
      }
      for (const std::string& name : NamesIn(prefix))
        if (fnmatch(part.c_str(), name.c_str(), FNM_PATHNAME) == 0)
          next.push_back(prefix + name);
      if (next.size() > max_paths)
        return ResourceExhausted("pattern '", pattern, "': expected at most ",
                                 max_paths, " paths, got more");
    }
    found = std::move(next);
    begin = end + 1;
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::string ShardedFilename(const std::string& base, int shard,
                            int num_shards) {
  return absl::StrFormat("%s-%05d-of-%05d", base, shard, num_shards);
}

std::string ShardedFilespec(const std::string& base, int num_shards) {
  return absl::StrFormat("%s-\?\?\?\?\?-of-%05d", base, num_shards);
}

}  // namespace sluice
