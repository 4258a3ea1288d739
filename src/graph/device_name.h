// Names of devices, whole and in part: "/job:ps/replica:0/task:1/device:CPU:0".
#ifndef SLUICE_GRAPH_DEVICE_NAME_H_
#define SLUICE_GRAPH_DEVICE_NAME_H_

#include <string>
#include <string_view>

#include "base/status.h"

namespace sluice {

// What a name says; a part that it leaves out may be anything. As a constraint
// it stands for all devices that Matches.
struct DeviceName {
  std::string job;   // "": any; so for type.
  int replica = -1;  // -1: any; so for task and number.
  int task = -1;
  std::string type;  // Upper case: "CPU", "GPU", "EMU".
  int number = -1;

  // Accepts TensorFlow's spellings: parts in any order, "*" for any,
  // "/device:GPU:*", "/gpu:0", "/cpu". InvalidArgument says which part is
  // wrong.
  static Result<DeviceName> Parse(std::string_view name);
  // In canonical order, without what is not said; "" if nothing is.
  std::string ToString() const;
  bool complete() const {
    return !job.empty() && replica >= 0 && task >= 0 && !type.empty() &&
           number >= 0;
  }
  // Every part that this says, `device` says too.
  bool Matches(const DeviceName& device) const;
  // Both can be true of one device.
  bool CompatibleWith(const DeviceName& other) const;
  // This, with what it leaves out taken from `other`.
  DeviceName WithDefaults(const DeviceName& other) const;
  // The task: job, replica and task alone.
  DeviceName Task() const;
  bool operator==(const DeviceName&) const = default;
};

}  // namespace sluice

#endif  // SLUICE_GRAPH_DEVICE_NAME_H_
