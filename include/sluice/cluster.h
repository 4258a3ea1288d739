// What programs that use clusters need beside sluice/sluice.h; they link
// Sluice::dist.
#ifndef SLUICE_CLUSTER_H_
#define SLUICE_CLUSTER_H_

#include "client/device_placement.h"  // ReplicaDeviceSetter
#include "dist/local_cluster.h"       // LocalCluster
#include "dist/task_server.h"         // TaskServer

#endif  // SLUICE_CLUSTER_H_
