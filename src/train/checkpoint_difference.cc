#include "train/checkpoint_difference.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_join.h"
#include "checkpoint/object_graph.h"
#include "graph/op_def.h"

namespace sluice {

namespace {

// Appends line(each) of the first ones, and how many more there are.
template <typename T, typename Line>
void AppendLines(const std::vector<T>& from, const char* what, const Line& line,
                 std::string* to) {
  const size_t listed = std::min(from.size(), CheckpointDifference::kListed);
  for (size_t i = 0; i < listed; ++i)
    absl::StrAppend(to, "  ", line(from[i]), "\n");
  if (listed < from.size())
    absl::StrAppend(to, "  and ", from.size() - listed, " more ", what, "\n");
}

}  // namespace

std::string CheckpointDifference::ToString() const {
  std::string out;
  AppendLines(
      missing, "that are not in the checkpoint",
      [](const Missing& m) {
        std::string line =
            absl::StrCat("'", m.name, "' is not in the checkpoint");
        if (!m.nearest.empty())
          absl::StrAppend(&line, "; nearest: '",
                          absl::StrJoin(m.nearest, "', '"), "'");
        return line;
      },
      &out);
  AppendLines(
      other, "of another type or shape",
      [](const Other& o) {
        return absl::StrCat("'", o.name, "': expected ",
                            DTypeName(o.wanted_dtype),
                            o.wanted_shape.ToString(), ", got ",
                            DTypeName(o.saved_dtype), o.saved_shape.ToString());
      },
      &out);
  AppendLines(
      surplus, "that are only in the checkpoint",
      [](const std::string& name) {
        return absl::StrCat("'", name, "' is only in the checkpoint");
      },
      &out);
  return out;
}

CheckpointDifference CompareCheckpoint(const CheckpointReader& reader,
                                       const std::vector<WantedTensor>& wanted,
                                       bool reshape) {
  CheckpointDifference out;
  std::set<std::string> wanted_names, wanted_keys;
  std::vector<std::string> saved_names;
  for (const auto& [name, tensor] : reader.tensors())
    saved_names.push_back(name);
  // (If the objects cannot be read, what is sought among them is missing.)
  const Result<std::map<std::string, std::string>> objects = reader.FullNames();
  const auto full_names =
      objects.ok() ? *objects : std::map<std::string, std::string>();
  std::vector<std::string> known_names = saved_names;
  for (const auto& [name, key] : full_names) known_names.push_back(name);
  for (const WantedTensor& want : wanted) {
    if (!wanted_names.insert(want.name).second) continue;
    auto it = reader.tensors().find(want.name);
    if (it == reader.tensors().end())
      if (const auto named = full_names.find(want.name);
          named != full_names.end()) {
        it = reader.tensors().find(named->second);
        out.renamed.push_back({want.name, named->second});
      }
    if (it == reader.tensors().end()) {
      out.missing.push_back({want.name, {}});
      if (out.missing.size() <= CheckpointDifference::kListed)
        out.missing.back().nearest = NearestNames(want.name, known_names);
      continue;
    }
    wanted_keys.insert(it->first);
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
    if (wanted_keys.count(name) == 0 && name != kObjectGraphKey)
      out.surplus.push_back(name);
  return out;
}

}  // namespace sluice
