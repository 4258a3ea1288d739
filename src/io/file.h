// Whole files as strings.
#ifndef SLUICE_IO_FILE_H_
#define SLUICE_IO_FILE_H_

#include <string>
#include <string_view>

#include "base/status.h"

namespace sluice {

// NotFound if there is no such file; a folder, a file that cannot be read and
// one above `max_bytes` are errors too.
Result<std::string> ReadFile(const std::string& path,
                             int64_t max_bytes = int64_t{1} << 40);

// Replaces the file, or makes it; not the folders it is in.
Status WriteFile(const std::string& path, std::string_view bytes);

}  // namespace sluice

#endif  // SLUICE_IO_FILE_H_
