// Options of sessions from TensorFlow's ConfigProto: the one place that says
// what its fields mean here, for the C API and Python.
#ifndef SLUICE_SESSION_SESSION_CONFIG_H_
#define SLUICE_SESSION_SESSION_CONFIG_H_

#include <string>
#include <string_view>

#include "session/session.h"

namespace sluice {

namespace proto {
class ClusterDef;
}

struct ConfiguredSession {
  SessionOptions options;
  // Of steps that have no timeout of their own; 0: none.
  int64_t operation_timeout_ms = 0;
};

// `defaults`, changed as a serialised ConfigProto (session/proto/config.proto)
// says. Fields without an equivalent here have no effect. InvalidArgument if
// the bytes are malformed, more than 1024 devices of a kind are asked for, the
// description of emulated devices is wrong, or a name or address of the cluster
// has characters that its text cannot hold.
Result<ConfiguredSession> SessionFromConfig(std::string_view config,
                                            SessionOptions defaults = {});

// A cluster as SessionOptions::cluster has it: {"worker": {"0": "host:1"}}.
Result<std::string> ClusterText(const proto::ClusterDef& cluster);

}  // namespace sluice

#endif  // SLUICE_SESSION_SESSION_CONFIG_H_
