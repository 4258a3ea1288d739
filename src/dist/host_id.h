// HostId: which machine this is, as far as its processes see one another.
#ifndef SLUICE_DIST_HOST_ID_H_
#define SLUICE_DIST_HOST_ID_H_

#include <cstdint>
#include <initializer_list>
#include <string_view>

namespace sluice {

// Against mistakes, not malice.
uint64_t Checksum(std::string_view s);
// The same in two processes if this machine has not been started again between
// them and they share these namespaces ("net", "ipc", "pid").
uint64_t HostId(std::initializer_list<const char*> namespaces);

}  // namespace sluice

#endif  // SLUICE_DIST_HOST_ID_H_
