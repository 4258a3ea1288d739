// Zip archives in memory, to the extent that .npz files use them.
#ifndef SLUICE_IO_ZIP_H_
#define SLUICE_IO_ZIP_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace sluice {

using ZipMembers = std::vector<std::pair<std::string, std::string>>;

// The name and contents of every member, in directory order. Checksums are
// verified. InvalidArgument or DataLoss for malformed archives, whatever sizes
// they claim; Unimplemented for zip64, encrypted members and compression other
// than deflate; ResourceExhausted if the members need more than `max_bytes`.
Result<ZipMembers> ReadZip(std::string_view bytes,
                           int64_t max_bytes = int64_t{4} << 30);

// REQUIRES: distinct names. ResourceExhausted if the archive would need zip64.
Result<std::string> WriteZip(const ZipMembers& members, bool compress);

}  // namespace sluice

#endif  // SLUICE_IO_ZIP_H_
