#include "train/checkpoint_difference.h"

#include <set>

#include "absl/strings/str_join.h"
#include "graph/op_def.h"

namespace sluice {

std::string CheckpointDifference::ToString() const {
  std::string out;
  for (const Missing& m : missing) {
    absl::StrAppend(&out, "  '", m.name, "' is not in the checkpoint");
    if (!m.nearest.empty())
      absl::StrAppend(&out, "; nearest: '", absl::StrJoin(m.nearest, "', '"),
                      "'");
    out += '\n';
  }
  for (const Other& o : other)
    absl::StrAppend(&out, "  '", o.name, "': expected ",
                    DTypeName(o.wanted_dtype), o.wanted_shape.ToString(),
                    ", got ", DTypeName(o.saved_dtype),
                    o.saved_shape.ToString(), "\n");
  for (const std::string& name : surplus)
    absl::StrAppend(&out, "  '", name, "' is only in the checkpoint\n");
  return out;
}

CheckpointDifference CompareCheckpoint(const CheckpointReader& reader,
                                       const std::vector<WantedTensor>& wanted,
                                       bool reshape) {
  CheckpointDifference out;
  std::set<std::string> wanted_names;
  std::vector<std::string> saved_names;
  for (const auto& [name, tensor] : reader.tensors())
    saved_names.push_back(name);
  for (const WantedTensor& want : wanted) {
    if (!wanted_names.insert(want.name).second) continue;
    const auto it = reader.tensors().find(want.name);
    if (it == reader.tensors().end()) {
      out.missing.push_back({want.name, NearestNames(want.name, saved_names)});
      continue;
    }
    const SavedTensor& saved = it->second;
    const bool fits =
        reshape && want.shape.fully_known()
            ? want.shape.num_elements() == saved.shape.num_elements()
            : want.shape.CompatibleWith(saved.shape);
    if (saved.dtype != want.dtype || !fits)
      out.other.push_back(
          {want.name, want.dtype, saved.dtype, want.shape, saved.shape});
  }
  for (const std::string& name : saved_names)
    if (wanted_names.count(name) == 0) out.surplus.push_back(name);
  return out;
}

}  // namespace sluice
