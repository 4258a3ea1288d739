// Decompression of zlib and gzip streams of unknown size.
#ifndef SLUICE_IO_INFLATE_H_
#define SLUICE_IO_INFLATE_H_

#include <string>
#include <string_view>

#include "base/status.h"

namespace sluice {

enum class StreamFormat { kZlib, kGzip };

// Returns the decompressed contents of `in`: all members of a gzip file one
// after the other, or the first zlib stream. A truncated stream gives the data
// up to that point. DataLoss if `in` is not such a stream, ResourceExhausted
// for more than `max_bytes` bytes.
Result<std::string> InflateStream(std::string_view in, StreamFormat format,
                                  size_t max_bytes);

}  // namespace sluice

#endif  // SLUICE_IO_INFLATE_H_
