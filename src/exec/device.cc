#include "exec/device.h"

namespace sluice {

Status CpuDevice::MakeKernel(const Node& node, Kernel* kernel) {
  if (!node.op().kernel) return Unimplemented("no kernel: ", node.op_name());
  return node.op().kernel(node, kernel);
}

}  // namespace sluice
