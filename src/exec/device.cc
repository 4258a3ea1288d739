#include "exec/device.h"

namespace sluice {

Status CpuDevice::MakeKernel(const Node& node, Kernel* kernel) {
  if (!node.op().kernel) return Unimplemented("no kernel: ", node.op_name());
  return node.op().kernel(node, kernel);
}

std::vector<std::shared_ptr<Device>> CpuDevices(int count) {
  std::vector<std::shared_ptr<Device>> devices;
  for (int i = 0; i < count; ++i)
    devices.push_back(std::make_shared<CpuDevice>(
        DeviceName{"localhost", 0, 0, "CPU", i}));
  return devices;
}

}  // namespace sluice
