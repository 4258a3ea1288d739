#include "cluster/transport/host_id.h"

#include <unistd.h>

#include <fstream>
#include <random>
#include <string>

namespace sluice {

uint64_t Checksum(std::string_view s) {
  uint64_t h = 0xcbf29ce484222325u;
  for (const char c : s)
    h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return h;
}

uint64_t HostId(std::initializer_list<const char*> namespaces) {
  std::string text;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> text;
  for (const char* space : namespaces) {
    const std::string path = std::string("/proc/self/ns/") + space;
    char name[64] = {};
    if (readlink(path.c_str(), name, sizeof(name) - 1) > 0) {
      text += name;
    } else {  // Unknown: assume nothing is shared.
      std::random_device random;
      text += std::to_string(random()) + "," + std::to_string(random());
    }
  }
  return Checksum(text);
}

}  // namespace sluice
