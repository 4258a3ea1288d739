#include "absl/strings/str_join.h"
#include "graph/op_def.h"
#include "train/saver.h"

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

}  // namespace sluice
