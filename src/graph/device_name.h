// Full and partial device names: "/job:ps/replica:0/task:1/device:CPU:0".
#ifndef SLUICE_GRAPH_DEVICE_NAME_H_
#define SLUICE_GRAPH_DEVICE_NAME_H_

#include <string>
#include <string_view>

#include "base/status.h"

namespace sluice {

// A parsed device name; missing parts match anything. As a constraint it stands
// for all devices for which Matches is true.
struct DeviceName {
  std::string job;   // "": any; likewise type.
  int replica = -1;  // -1: any; likewise task and number.
  int task = -1;
  std::string type;  // Upper case: "CPU", "GPU", "EMU".
  int number = -1;

  // Accepts TensorFlow's spellings: parts in any order, "*" for any,
  // "/device:GPU:*", "/gpu:0", "/cpu". InvalidArgument names the part that is
  // wrong.
  static Result<DeviceName> Parse(std::string_view name);
  // In canonical order, without the missing parts; "" if all are missing.
  std::string ToString() const;
  bool complete() const {
    return !job.empty() && replica >= 0 && task >= 0 && !type.empty() &&
           number >= 0;
  }
  // `device` has every part that this has, with the same value.
  bool Matches(const DeviceName& device) const;
  // Some device matches both.
  bool CompatibleWith(const DeviceName& other) const;
  // This, with missing parts taken from `other`.
  DeviceName WithDefaults(const DeviceName& other) const;
  // The task: job, replica and task alone.
  DeviceName Task() const;
  bool operator==(const DeviceName&) const = default;
};

}  // namespace sluice

#endif  // SLUICE_GRAPH_DEVICE_NAME_H_
