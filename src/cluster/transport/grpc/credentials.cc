#include "cluster/transport/grpc/credentials.h"

#include <arpa/inet.h>

#include <fstream>
#include <sstream>

namespace sluice {
namespace {

struct Pem {
  std::string authority, certificate, key;
};

Result<Pem> Read(const TlsFiles& tls) {
  Pem pem;
  const std::pair<const std::string*, std::string*> files[] = {
      {&tls.authority, &pem.authority},
      {&tls.certificate, &pem.certificate},
      {&tls.key, &pem.key}};
  for (const auto& [path, text] : files) {
    if (path->empty())
      return InvalidArgument(
          "TLS: expected files of the authority, the "
          "certificate and the key, got only some");
    std::ifstream in(*path);
    std::ostringstream out;
    out << in.rdbuf();
    *text = out.str();
    if (!in || text->find("-----BEGIN") == std::string::npos)
      return InvalidArgument("TLS: expected a file in PEM format, got '", *path,
                             "'");
  }
  return pem;
}

// Numeric addresses only: others may control how a name resolves.
bool IsLoopback(const std::string& host) {
  if (host == "localhost" || host == "[::1]") return true;
  in_addr address = {};
  return inet_pton(AF_INET, host.c_str(), &address) == 1 &&
         ntohl(address.s_addr) >> 24 == 127;
}

}  // namespace

Result<std::shared_ptr<grpc::ServerCredentials>> MakeServerCredentials(
    const TlsFiles& tls) {
  if (!tls.enabled()) return grpc::InsecureServerCredentials();
  SLUICE_ASSIGN_OR_RETURN(Pem pem, Read(tls));
  grpc::SslServerCredentialsOptions options(
      GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = pem.authority;
  options.pem_key_cert_pairs.push_back({pem.key, pem.certificate});
  return grpc::SslServerCredentials(options);
}

Result<std::shared_ptr<grpc::ChannelCredentials>> MakeChannelCredentials(
    const TlsFiles& tls) {
  if (!tls.enabled()) return grpc::InsecureChannelCredentials();
  SLUICE_ASSIGN_OR_RETURN(Pem pem, Read(tls));
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = pem.authority;
  options.pem_private_key = pem.key;
  options.pem_cert_chain = pem.certificate;
  return grpc::SslCredentials(options);
}

Status CheckListenAddress(const std::string& listen, const TlsFiles& tls,
                          bool plain_beyond_loopback) {
  if (tls.enabled() || plain_beyond_loopback) return OkStatus();
  if (IsLoopback(listen.substr(0, listen.rfind(':'))) ||
      listen.starts_with("unix:"))
    return OkStatus();
  return InvalidArgument(
      "listening address: expected a loopback address, or TLS, or the "
      "option "
      "for plain text beyond this machine, got '",
      listen, "'");
}

}  // namespace sluice
