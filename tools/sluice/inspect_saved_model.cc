// sluice inspect: what is in a saved model, and what differs between two.
#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "checkpoint/checkpoint_reader.h"
#include "deploy/saved_model.h"
#include "tools/sluice/cli.h"
#include "tools/sluice/inspect.h"

namespace sluice::cli {
namespace {

std::string TagsOf(const MetaGraph& m) {
  std::vector<std::string> tags = m.tags;
  std::sort(tags.begin(), tags.end());
  return tags.empty() ? "none" : absl::StrJoin(tags, ", ");
}

// A line for each thing that a meta graph says, by its name.
std::map<std::string, std::string> FactsOf(const MetaGraph& m) {
  std::map<std::string, std::string> facts;
  for (const auto& [name, s] : m.signatures) {
    const std::string which = absl::StrCat("signature ", name);
    facts[which] = s.method;
    for (const auto& [key, info] : s.inputs)
      facts[absl::StrCat(which, " input ", key)] = info.ToString();
    for (const auto& [key, info] : s.outputs)
      facts[absl::StrCat(which, " output ", key)] = info.ToString();
  }
  for (const AssetInfo& a : m.assets)
    facts[absl::StrCat("asset ", a.filename)] = a.tensor;
  for (const std::string& op : m.unknown_ops)
    facts[absl::StrCat("op ", op)] = "not available";
  return facts;
}

void Print(const MetaGraph& m) {
  std::printf("tags %s\n", TagsOf(m).c_str());
  if (!m.version.empty())
    std::printf("  TensorFlow version %s%s\n", m.version.c_str(),
                m.stripped_default_attrs ? ", without default attributes" : "");
  for (const auto& [name, s] : m.signatures) {
    std::printf("  signature %s  %s\n", name.c_str(), s.method.c_str());
    for (const auto& [key, info] : s.inputs)
      std::printf("    input  %s  %s%s\n", key.c_str(), info.ToString().c_str(),
                  s.defaults.count(key) > 0 ? " (has a default)" : "");
    for (const auto& [key, info] : s.outputs)
      std::printf("    output %s  %s\n", key.c_str(), info.ToString().c_str());
  }
  for (const AssetInfo& a : m.assets)
    std::printf("  asset %s  %s\n", a.filename.c_str(), a.tensor.c_str());
  for (const auto& [key, c] : m.collections) {
    const size_t n =
        c.nodes.size() + c.bytes.size() + c.ints.size() + c.floats.size();
    std::printf("  collection %s  %s\n", key.c_str(),
                Counted(static_cast<int64_t>(n), "item").c_str());
  }
  for (const std::string& op : m.unknown_ops)
    std::printf("  op %s is not available\n", op.c_str());
}

// By their tags.
Result<std::map<std::string, MetaGraph>> MetaGraphsOf(
    const std::string& folder) {
  SLUICE_ASSIGN_OR_RETURN(const std::vector<MetaGraph> all,
                          ReadSavedModel(folder));
  std::map<std::string, MetaGraph> by_tags;
  for (const MetaGraph& m : all) by_tags[TagsOf(m)] = m;
  return by_tags;
}

// Prints a line for each difference; returns how many there are.
int PrintDifferences(const std::map<std::string, std::string>& a,
                     const std::map<std::string, std::string>& b,
                     const std::string& first, const std::string& second) {
  std::set<std::string> names;
  for (const auto& [name, value] : a) names.insert(name);
  for (const auto& [name, value] : b) names.insert(name);
  int count = 0;
  for (const std::string& name : names) {
    const auto x = a.find(name), y = b.find(name);
    if (x == a.end())
      std::printf("  %s: only in %s\n", name.c_str(), second.c_str());
    else if (y == b.end())
      std::printf("  %s: only in %s\n", name.c_str(), first.c_str());
    else if (x->second != y->second)
      std::printf("  %s: %s and %s\n", name.c_str(), x->second.c_str(),
                  y->second.c_str());
    else
      continue;
    ++count;
  }
  return count;
}

}  // namespace

int InspectSavedModel(const std::string& folder) {
  const Result<std::vector<MetaGraph>> all = ReadSavedModel(folder);
  if (!all.ok()) return Fail(kRunFailed, all.status());
  for (const MetaGraph& m : *all) Print(m);
  const std::string variables = SavedVariablesPath(folder);
  if (!CheckpointExists(variables)) {
    std::printf("no variables\n");
    return 0;
  }
  return InspectCheckpoint(variables);
}

int CompareSavedModels(const std::string& first, const std::string& second) {
  const auto a = MetaGraphsOf(first);
  if (!a.ok()) return Fail(kRunFailed, a.status());
  const auto b = MetaGraphsOf(second);
  if (!b.ok()) return Fail(kRunFailed, b.status());
  for (const auto& [tags, m] : *a) {
    const auto other = b->find(tags);
    if (other == b->end()) {
      std::printf("tags %s: only in %s\n", tags.c_str(), first.c_str());
      continue;
    }
    std::printf("tags %s\n", tags.c_str());
    if (PrintDifferences(FactsOf(m), FactsOf(other->second), first, second) ==
        0)
      std::printf("  signatures, assets and missing ops are the same\n");
  }
  for (const auto& [tags, m] : *b)
    if (a->count(tags) == 0)
      std::printf("tags %s: only in %s\n", tags.c_str(), second.c_str());
  const std::string x = SavedVariablesPath(first),
                    y = SavedVariablesPath(second);
  const bool has_x = CheckpointExists(x), has_y = CheckpointExists(y);
  if (has_x && has_y) return CompareCheckpoints(x, y);
  if (has_x != has_y)
    std::printf("variables: only in %s\n", (has_x ? first : second).c_str());
  return 0;
}

}  // namespace sluice::cli
