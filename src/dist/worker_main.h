// What `sluice worker` does.
#ifndef SLUICE_DIST_WORKER_MAIN_H_
#define SLUICE_DIST_WORKER_MAIN_H_

#include <cstdint>
#include <string>

namespace sluice {

struct WorkerFlags {
  std::string cluster;  // A file, or another source (dist/cluster_resolver.h).
  std::string job;      // "": the environment says.
  int task = 0;
  std::string bind;     // With etcd port 0 is any that is free.
  std::string address;  // Where others reach it, if not there; with etcd.
  std::string devices = "cpu=1";
  std::string transport = "grpc";
  int64_t peer_timeout_ms = 5000;
  std::string tls_authority, tls_certificate, tls_key;
  bool plain_beyond_loopback = false;
};

}  // namespace sluice

// Runs a task until SIGINT or SIGTERM. 0, or 1 if it cannot run, or 2 for a
// mistake in the flags, with what is wrong in `*error`. Found by its name
// (base/dist_library.h).
extern "C" int sluice_worker_main(const sluice::WorkerFlags* flags,
                                  std::string* error);

#endif  // SLUICE_DIST_WORKER_MAIN_H_
