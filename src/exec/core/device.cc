#include "exec/core/device.h"

#include <map>
#include <mutex>

#include "exec/core/checked_kernel.h"

namespace sluice {
namespace {

struct DeviceTypes {
  std::mutex mu;
  std::map<std::string, KernelCheck> checks;  // GUARDED_BY(mu)
};
DeviceTypes& AllDeviceTypes() {
  static auto* const all = new DeviceTypes;  // Never destroyed.
  return *all;
}

}  // namespace

Status CpuDevice::MakeKernel(const Node& node, Kernel* kernel) {
  return MakeDeclaredKernel(node, kernel);
}

void RegisterDeviceType(const std::string& type, KernelCheck has_kernel) {
  DeviceTypes& all = AllDeviceTypes();
  std::lock_guard<std::mutex> lock(all.mu);
  all.checks[type] = has_kernel;
}

Status HasKernel(const std::string& type, const Node& node) {
  KernelCheck check = nullptr;
  {
    DeviceTypes& all = AllDeviceTypes();
    std::lock_guard<std::mutex> lock(all.mu);
    const auto it = all.checks.find(type);
    if (it != all.checks.end()) check = it->second;
  }
  if (check != nullptr) return check(node);
  static CpuDevice* const cpu = new CpuDevice(DeviceName());
  Kernel kernel;
  return cpu->MakeKernel(node, &kernel);
}

std::vector<std::shared_ptr<Device>> CpuDevices(int count) {
  std::vector<std::shared_ptr<Device>> devices;
  for (int i = 0; i < count; ++i)
    devices.push_back(
        std::make_shared<CpuDevice>(DeviceName{"localhost", 0, 0, "CPU", i}));
  return devices;
}

}  // namespace sluice
