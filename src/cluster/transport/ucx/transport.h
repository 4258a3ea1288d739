// UcxTransport: the data plane over UCX, which uses shared memory within a
// machine and TCP or RDMA between machines.
#ifndef SLUICE_CLUSTER_TRANSPORT_UCX_TRANSPORT_H_
#define SLUICE_CLUSTER_TRANSPORT_UCX_TRANSPORT_H_

#include <memory>
#include <string>

#include "cluster/transport/transport.h"

namespace sluice {

struct UcxTransportOptions : TransportOptions {
  // As UCX_TLS: the transports that UCX may choose from. "": its environment
  // variable, or else shared memory and TCP.
  std::string tls;
  // Networks. UCX does not authenticate peers or encrypt, so the default is
  // loopback only. Others: "eth0", or "all" that the environment variable
  // UCX_NET_DEVICES allows.
  std::string devices = "lo";
  // How long the reading thread polls for messages before it sleeps. On
  // machines with few cores it yields between polls.
  std::chrono::microseconds spin{50};
};

// False if this build has no UCX.
bool HaveUcx();
// Null without UCX. Addresses are opaque bytes of UCX; the control plane passes
// them on.
std::unique_ptr<Transport> MakeUcxTransport(UcxTransportOptions options);

}  // namespace sluice

#endif  // SLUICE_CLUSTER_TRANSPORT_UCX_TRANSPORT_H_
