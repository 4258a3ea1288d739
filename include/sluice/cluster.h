// What programs that use clusters need in addition to sluice/sluice.h. They
// link Sluice::cluster.
//
//   #include "sluice/cluster.h"
//
//   SLUICE_ASSIGN_OR_RETURN(auto cluster,
//                           LocalCluster::Start({{"worker", 2}}));
//   Session session(cluster->target("worker", 0), graph);
#ifndef SLUICE_CLUSTER_H_
#define SLUICE_CLUSTER_H_

#include "client/device_placement.h"  // ReplicaDeviceSetter
#include "cluster/local_cluster.h"    // LocalCluster
#include "cluster/task_server.h"      // TaskServer

#endif  // SLUICE_CLUSTER_H_
