// Writing and reading the numbers of the wire format.
#ifndef SLUICE_CLUSTER_TRANSPORT_WIRE_BYTES_H_
#define SLUICE_CLUSTER_TRANSPORT_WIRE_BYTES_H_

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/status.h"

namespace sluice {

template <typename T>
void Put(std::string& out, T v) {
  static_assert(std::is_integral_v<T>);
  char raw[sizeof(T)];
  std::memcpy(raw, &v, sizeof(T));
  out.append(raw, sizeof(T));
}

// Reads numbers; after the end every number is 0 and good() is false.
class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : rest_(bytes) {}
  template <typename T>
  T Get() {
    T v = 0;
    const std::string_view raw = Bytes(sizeof(T));
    if (good_) std::memcpy(&v, raw.data(), sizeof(T));
    return v;
  }
  std::string_view Bytes(uint64_t n) {
    if (n > rest_.size()) {
      good_ = false;
      return rest_ = std::string_view();
    }
    const std::string_view out = rest_.substr(0, n);
    rest_.remove_prefix(n);
    return out;
  }
  bool good() const { return good_; }
  bool empty() const { return rest_.empty(); }
  size_t left() const { return rest_.size(); }

 private:
  std::string_view rest_;
  bool good_ = true;
};

inline Status Truncated(const char* what) {
  return InvalidArgument(what,
                         " on the wire: expected more bytes, got the end");
}

}  // namespace sluice

#endif  // SLUICE_CLUSTER_TRANSPORT_WIRE_BYTES_H_
