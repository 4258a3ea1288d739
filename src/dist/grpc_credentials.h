// Who may connect over gRPC, and how it is checked.
#ifndef SLUICE_DIST_GRPC_CREDENTIALS_H_
#define SLUICE_DIST_GRPC_CREDENTIALS_H_

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>

#include <memory>
#include <string>

#include "base/status.h"

namespace sluice {

// Files in PEM format; all three or none. With them both sides of a connection
// show a certificate that the authority has signed, and all is encrypted.
struct TlsFiles {
  std::string authority;
  std::string certificate;
  std::string key;
  // The name that certificates of tasks bear, if it is not their host's.
  std::string server_name;
  bool enabled() const {
    return !authority.empty() || !certificate.empty() || !key.empty();
  }
};

Result<std::shared_ptr<grpc::ServerCredentials>> MakeServerCredentials(
    const TlsFiles& tls);
Result<std::shared_ptr<grpc::ChannelCredentials>> MakeChannelCredentials(
    const TlsFiles& tls);

// InvalidArgument if others than this machine could connect to `listen`
// ("host:port") without TLS, unless that was asked for.
Status CheckListenAddress(const std::string& listen, const TlsFiles& tls,
                          bool plain_beyond_loopback);

}  // namespace sluice

#endif  // SLUICE_DIST_GRPC_CREDENTIALS_H_
