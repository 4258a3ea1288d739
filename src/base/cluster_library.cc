#include "base/cluster_library.h"

#include <dlfcn.h>

#include <string>

namespace sluice {
namespace {
constexpr char kName[] = "libsluice_cluster.so.0";

const char* LastError() {
  const char* message = dlerror();
  return message != nullptr ? message : "unknown reason";
}
}  // namespace

void* OpenOwnLibrary(const char* path) {
  // Try the directory of this library first: it may be outside of the search
  // path.
  Dl_info self;
  if (dladdr(reinterpret_cast<const void*>(&DistSymbol), &self) != 0 &&
      self.dli_fname != nullptr) {
    const std::string own = self.dli_fname;
    const size_t slash = own.rfind('/');
    if (slash != own.npos) {
      const std::string beside = own.substr(0, slash + 1) + path;
      if (void* handle = dlopen(beside.c_str(), RTLD_NOW | RTLD_GLOBAL))
        return handle;
    }
  }
  return dlopen(path, RTLD_NOW | RTLD_GLOBAL);
}

Result<void*> DistSymbol(const char* name) {
  static void* const library = OpenOwnLibrary(kName);
  if (library == nullptr)
    return Unimplemented("clusters: expected ", kName,
                         " beside libsluice, got ", LastError());
  void* const symbol = dlsym(library, name);
  if (symbol == nullptr)
    return Unimplemented("clusters: expected '", name, "' in ", kName, ", got ",
                         LastError());
  return symbol;
}

}  // namespace sluice
