// The one resource of a ResourceManager that is not the user's.
#ifndef SLUICE_EXEC_CORE_RUNTIME_RESOURCE_H_
#define SLUICE_EXEC_CORE_RUNTIME_RESOURCE_H_

namespace sluice {

// ResourceManager::Clear and ClearContainer keep the resource of this container
// and name: the hub of collective operations, which in a task has the network.
// A hub that a step made in its place would wait for members in vain.
inline constexpr char kRuntimeContainer[] = "_collectives";
inline constexpr char kRuntimeResource[] = "hub";

}  // namespace sluice

#endif  // SLUICE_EXEC_CORE_RUNTIME_RESOURCE_H_
