#include "graph/repeated_names.h"

namespace sluice {
namespace {

thread_local const RepeatedNames::Building* innermost_building = nullptr;

}  // namespace

RepeatedNames::Building::Building(RepeatedNames* names, const Graph* graph)
    : names_(names), graph_(graph), outer_(innermost_building) {
  ++names_->built_;
  innermost_building = this;
}
RepeatedNames::Building::~Building() { innermost_building = outer_; }

std::string RepeatedNames::Get(const std::string& key,
                               const std::function<std::string()>& make) {
  return GetIn(innermost_building, nullptr, key, make);
}

std::string RepeatedNames::GetIn(const Building* in, const Graph* graph,
                                 const std::string& key,
                                 const std::function<std::string()>& make) {
  while (in != nullptr && graph != nullptr && graph != in->graph_)
    in = in->outer_;
  if (in == nullptr) return make();
  std::vector<std::string>& names = in->names_->names_[key];
  const size_t i = in->asked_[key]++;
  // (The parts around may have recorded what this one asks for first.)
  if (i >= names.size()) names.push_back(GetIn(in->outer_, graph, key, make));
  return names[i];
}

void RepeatedNames::Opened(const Graph* graph, const std::string& prefix,
                           const std::string& name, const std::string& scope) {
  if (innermost_building == nullptr) return;
  const std::string first =
      GetIn(innermost_building, graph, "scope " + First(prefix) + name,
            [&] { return scope; });
  if (first != scope) innermost_building->names_->first_[scope] = first;
}

std::string RepeatedNames::First(const std::string& prefix) {
  if (prefix.empty()) return prefix;
  const std::string scope = prefix.substr(0, prefix.size() - 1);
  for (const Building* b = innermost_building; b != nullptr; b = b->outer_)
    if (const auto it = b->names_->first_.find(scope);
        it != b->names_->first_.end())
      return it->second + "/";
  return prefix;
}

bool RepeatedNames::Repeating() {
  for (const Building* b = innermost_building; b != nullptr; b = b->outer_)
    if (b->names_->built_ > 1) return true;
  return false;
}

}  // namespace sluice
