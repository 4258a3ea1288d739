#include "exec/devices/device_list.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace sluice {
namespace {

bool ParseCount(absl::string_view text, int* count) {
  return absl::SimpleAtoi(text, count) && *count >= 1 && *count <= 1024;
}

}  // namespace

std::vector<std::shared_ptr<Device>> DeviceList::Make() const {
  std::vector<std::shared_ptr<Device>> devices = CpuDevices(cpus);
  // (The first one is a CPU.)
  const auto more = EmulatedDevices(emulated, how);
  devices.insert(devices.end(), more.begin() + 1, more.end());
  return devices;
}

Result<DeviceList> ParseDeviceList(std::string_view list) {
  absl::string_view text(list.data(), list.size());
  DeviceList devices;
  if (ParseCount(text, &devices.cpus)) return devices;
  devices.cpus = 1;
  if (text.empty())
    return InvalidArgument(
        "--devices: expected N, cpu=N or emu=N(how), got ''");
  std::set<std::string> types;
  while (!text.empty()) {
    size_t end = std::min(text.find(','), text.size());
    absl::string_view details;
    if (const size_t open = text.find('('); open < end) {
      const size_t close = text.find(')', open);
      if (close == absl::string_view::npos)
        return InvalidArgument("--devices: expected ')', got '", text, "'");
      details = text.substr(open + 1, close - open - 1);
      end = open;
    }
    const absl::string_view part = text.substr(0, end);
    const std::pair<std::string, std::string> kv =
        absl::StrSplit(part, absl::MaxSplits('=', 1));
    int count = 0;
    if ((kv.first != "cpu" && kv.first != "emu") ||
        (kv.first == "cpu" && !details.empty()) ||
        !ParseCount(kv.second, &count))
      return InvalidArgument(
          "--devices: expected N, cpu=N or emu=N(how), got '", part, "'");
    if (!types.insert(kv.first).second)
      return InvalidArgument("--devices: expected each type once, got '",
                             kv.first, "' again");
    if (!details.empty()) end += details.size() + 2;
    text.remove_prefix(end);
    if (!text.empty() && text[0] != ',')
      return InvalidArgument("--devices: expected ',', got '", text, "'");
    if (text == ",")
      return InvalidArgument("--devices: expected a type after ',', got '",
                             std::string(list), "'");
    if (!text.empty()) text.remove_prefix(1);
    if (kv.first == "cpu") {
      devices.cpus = count;
      continue;
    }
    devices.emulated = count;
    SLUICE_ASSIGN_OR_RETURN(
        devices.how, ParseEmulatedDevice({details.data(), details.size()}));
  }
  return devices;
}

}  // namespace sluice
