// How the members of collective groups in different tasks reach each other:
// over the task's transport.
#ifndef SLUICE_CLUSTER_WORKER_COLLECTIVE_NETWORK_H_
#define SLUICE_CLUSTER_WORKER_COLLECTIVE_NETWORK_H_

#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "cluster/common/messages.h"
#include "cluster/proto/cluster.pb.h"
#include "cluster/transport/transport.h"
#include "ops/collectives/network.h"

namespace sluice {

// `transport` outlives it. Peers are those of the transport.
std::unique_ptr<collectives::Network> MakeCollectiveNetwork(
    std::string task, Transport* transport);

// The number of a session in collectives::Hub. (A step's number is that of its
// run, without its highest bit.)
inline uint64_t CollectiveSession(uint64_t session_or_step) {
  return SessionPart(session_or_step & INT64_MAX);
}

void NoteToProto(const collectives::Note& note, proto::CollectiveNote* p);
// InvalidArgument for a kind that does not exist, and for more text or members
// than a note has.
Result<collectives::Note> NoteFromProto(const proto::CollectiveNote& p);

}  // namespace sluice

#endif  // SLUICE_CLUSTER_WORKER_COLLECTIVE_NETWORK_H_
