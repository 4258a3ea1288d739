// HostId: an identifier of this machine and of the namespaces that limit which
// of its processes can share memory or sockets.
#ifndef SLUICE_CLUSTER_TRANSPORT_HOST_ID_H_
#define SLUICE_CLUSTER_TRANSPORT_HOST_ID_H_

#include <cstdint>
#include <initializer_list>
#include <string_view>

namespace sluice {

// Detects accidental changes, not deliberate ones.
uint64_t Checksum(std::string_view s);
// Equal in two processes if they run on the same boot of the same machine and
// share these namespaces ("net", "ipc", "pid").
uint64_t HostId(std::initializer_list<const char*> namespaces);

}  // namespace sluice

#endif  // SLUICE_CLUSTER_TRANSPORT_HOST_ID_H_
