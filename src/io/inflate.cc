#include "io/inflate.h"

#include <zlib.h>

#include <algorithm>
#include <limits>

namespace sluice {

Result<std::string> InflateStream(std::string_view in, StreamFormat format,
                                  size_t max_bytes) {
  const bool gzip = format == StreamFormat::kGzip;
  z_stream z = {};
  if (inflateInit2(&z, MAX_WBITS + (gzip ? 16 : 0)) != Z_OK)
    return ResourceExhausted("inflating: no memory");
  struct End {
    z_stream* z;
    ~End() { inflateEnd(z); }
  } end{&z};
  std::string out;
  char block[16 * 1024];
  // zlib counts in 32 bits and never writes to its input.
  auto* from = reinterpret_cast<Bytef*>(const_cast<char*>(in.data()));
  size_t left = in.size();
  for (;;) {
    if (z.avail_in == 0) {
      z.next_in = from;
      z.avail_in = static_cast<uInt>(
          std::min<size_t>(left, std::numeric_limits<uInt>::max()));
      from += z.avail_in;
      left -= z.avail_in;
    }
    z.next_out = reinterpret_cast<Bytef*>(block);
    z.avail_out = sizeof(block);
    const int code = inflate(&z, Z_NO_FLUSH);
    const size_t made = sizeof(block) - z.avail_out;
    if (made > max_bytes - out.size())
      return ResourceExhausted("inflating: expected at most ", max_bytes,
                               " bytes, got more");
    out.append(block, made);
    if (code == Z_STREAM_END) {
      if (!gzip || (z.avail_in == 0 && left == 0)) return out;
      if (inflateReset(&z) != Z_OK)
        return DataLoss("inflating: cannot begin the next member");
      continue;
    }
    if (code == Z_BUF_ERROR ||
        (code == Z_OK && made == 0 && z.avail_in == 0 && left == 0))
      return out;
    if (code != Z_OK)
      return DataLoss("inflating: expected ", gzip ? "gzip's" : "zlib's",
                      " format, got ",
                      z.msg != nullptr ? z.msg : "something else");
  }
}

}  // namespace sluice
