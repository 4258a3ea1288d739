// Device lists on command lines.
#ifndef SLUICE_EXEC_DEVICES_DEVICE_LIST_H_
#define SLUICE_EXEC_DEVICES_DEVICE_LIST_H_

#include <memory>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "exec/core/device.h"
#include "exec/devices/emulated_device.h"

namespace sluice {

struct DeviceList {
  int cpus = 1;
  int emulated = 0;
  EmulatedDeviceOptions how;  // For the emulated devices.

  // The devices for a session, "/job:localhost/replica:0/task:0/...".
  std::vector<std::shared_ptr<Device>> Make() const;
};

// Parses "cpu=2,emu=8(memory=1G,kernel_us=20)", each at most once and both
// optional; "2" means 2 CPUs. See ParseEmulatedDevice for the parentheses.
// Errors begin with "--devices: ".
Result<DeviceList> ParseDeviceList(std::string_view text);

}  // namespace sluice

#endif  // SLUICE_EXEC_DEVICES_DEVICE_LIST_H_
