#include "io/file.h"
#include "io/npy.h"
#include "io/zip.h"

namespace sluice {

Result<std::map<std::string, Tensor>> ParseNpz(std::string_view bytes) {
  SLUICE_ASSIGN_OR_RETURN(const ZipMembers members, ReadZip(bytes));
  std::map<std::string, Tensor> arrays;
  for (const auto& [file, contents] : members) {
    std::string name = file;
    if (name.ends_with(".npy")) name.resize(name.size() - 4);
    Result<Tensor> t = ParseNpy(contents);
    if (!t.ok()) return Annotate(t.status(), absl::StrCat("'", file, "'"));
    if (!arrays.emplace(name, *std::move(t)).second)
      return InvalidArgument("npz: expected each name once, got '", name,
                             "' again");
  }
  return arrays;
}

Result<std::map<std::string, Tensor>> ReadNpz(const std::string& path) {
  SLUICE_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path));
  Result<std::map<std::string, Tensor>> arrays = ParseNpz(bytes);
  if (!arrays.ok())
    return Annotate(arrays.status(), absl::StrCat("reading '", path, "'"));
  return arrays;
}

Result<std::string> SerializeNpz(const NamedTensors& arrays, bool compress) {
  ZipMembers members;
  std::map<std::string, int> names;
  for (const auto& [name, tensor] : arrays) {
    if (++names[name] > 1)
      return InvalidArgument("npz: expected each name once, got '", name,
                             "' again");
    Result<std::string> bytes = SerializeNpy(tensor);
    if (!bytes.ok())
      return Annotate(bytes.status(), absl::StrCat("'", name, "'"));
    members.emplace_back(name + ".npy", *std::move(bytes));
  }
  return WriteZip(members, compress);
}

Status WriteNpz(const std::string& path, const NamedTensors& arrays,
                bool compress) {
  SLUICE_ASSIGN_OR_RETURN(const std::string bytes,
                          SerializeNpz(arrays, compress));
  return WriteFile(path, bytes);
}

}  // namespace sluice
