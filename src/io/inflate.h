// Streams of zlib and gzip, of unknown size.
#ifndef SLUICE_IO_INFLATE_H_
#define SLUICE_IO_INFLATE_H_

#include <string>
#include <string_view>

#include "base/status.h"

namespace sluice {

enum class StreamFormat { kZlib, kGzip };

// What `in` holds: of gzip every member after the other, of zlib the first
// stream. What is cut off gives what there is. DataLoss if it is no such
// stream, ResourceExhausted for more than `most` bytes.
Result<std::string> InflateStream(std::string_view in, StreamFormat format,
                                  size_t most);

}  // namespace sluice

#endif  // SLUICE_IO_INFLATE_H_
