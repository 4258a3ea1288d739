// Files by pattern.
#ifndef SLUICE_IO_GLOB_H_
#define SLUICE_IO_GLOB_H_

#include <string>
#include <vector>

#include "base/status.h"

namespace sluice {

// The existing files and folders whose paths match the pattern, sorted. *, ?
// and [...] match within one part of a path, also at its beginning and in the
// names of folders; a backslash makes the next character plain. Paths that
// match a relative pattern whose first part has such a character begin with
// "./", as in TensorFlow; those that match a "file://" URL are URLs. Empty if
// nothing matches. ResourceExhausted for more than `max_paths`.
Result<std::vector<std::string>> MatchingFiles(const std::string& pattern,
                                               size_t max_paths = 1 << 24);

// TensorFlow's names of the parts of a file that is stored in several:
// "base-00003-of-00010".
std::string ShardedFilename(const std::string& base, int shard, int num_shards);
// The pattern of all of them: "base-?????-of-00010".
std::string ShardedFilespec(const std::string& base, int num_shards);

}  // namespace sluice

#endif  // SLUICE_IO_GLOB_H_
