// UcxTransport: the data plane over UCX: shared memory within a machine, TCP or
// RDMA beyond it.
#ifndef SLUICE_DIST_UCX_TRANSPORT_H_
#define SLUICE_DIST_UCX_TRANSPORT_H_

#include <memory>
#include <string>

#include "dist/transport.h"

namespace sluice {

struct UcxTransportOptions : TransportOptions {
  // As UCX_TLS: which ways UCX may choose from. "": its environment variable,
  // or else shared memory and TCP.
  std::string tls;
  // Networks. UCX does not know who connects and encrypts nothing, so it is
  // loopback alone unless asked otherwise: "eth0", or "all" that its
  // environment variable UCX_NET_DEVICES lets it have.
  std::string devices = "lo";
  // How long the thread that reads looks for messages before it sleeps. It
  // yields as it does where there are few cores.
  std::chrono::microseconds spin{50};
};

// False if this build has no UCX.
bool HaveUcx();
// Null without it. Addresses are bytes that only UCX reads; they travel by the
// control plane.
std::unique_ptr<Transport> MakeUcxTransport(UcxTransportOptions options);

}  // namespace sluice

#endif  // SLUICE_DIST_UCX_TRANSPORT_H_
