// Credentials for gRPC connections: TLS, or plain within this machine.
#ifndef SLUICE_CLUSTER_TRANSPORT_GRPC_CREDENTIALS_H_
#define SLUICE_CLUSTER_TRANSPORT_GRPC_CREDENTIALS_H_

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>

#include <memory>
#include <string>

#include "base/status.h"

namespace sluice {

// Files in PEM format; all three or none. If set, connections are encrypted and
// both sides must present a certificate signed by the authority.
struct TlsFiles {
  std::string authority;
  std::string certificate;
  std::string key;
  // The name in the tasks' certificates, if it is not the host name.
  std::string server_name;
  bool enabled() const {
    return !authority.empty() || !certificate.empty() || !key.empty();
  }
};

Result<std::shared_ptr<grpc::ServerCredentials>> MakeServerCredentials(
    const TlsFiles& tls);
Result<std::shared_ptr<grpc::ChannelCredentials>> MakeChannelCredentials(
    const TlsFiles& tls);

// InvalidArgument if other machines could connect to `listen` ("host:port")
// without TLS, unless `plain_beyond_loopback` is set.
Status CheckListenAddress(const std::string& listen, const TlsFiles& tls,
                          bool plain_beyond_loopback);

}  // namespace sluice

#endif  // SLUICE_CLUSTER_TRANSPORT_GRPC_CREDENTIALS_H_
