#include "client/body_captures.h"

#include <mutex>
#include <unordered_map>

namespace sluice {
namespace {

struct Bodies {
  std::mutex mu;
  std::unordered_map<const Graph*, const BodyCaptures*> by_graph;
};
Bodies& TheBodies() {
  static Bodies* const bodies = new Bodies();
  return *bodies;
}

}  // namespace

BodyCaptures::BodyCaptures(Graph* body, Graph* outside)
    : body_(body), outside_(outside) {
  Bodies& all = TheBodies();
  const std::lock_guard<std::mutex> lock(all.mu);
  all.by_graph[body_] = this;
}

BodyCaptures::~BodyCaptures() {
  Bodies& all = TheBodies();
  const std::lock_guard<std::mutex> lock(all.mu);
  all.by_graph.erase(body_);
}

const BodyCaptures* BodyCaptures::Of(const Graph* body) {
  Bodies& all = TheBodies();
  const std::lock_guard<std::mutex> lock(all.mu);
  const auto it = all.by_graph.find(body);
  return it == all.by_graph.end() ? nullptr : it->second;
}

Output BodyCaptures::Outside(const Output& inside) const {
  for (const Value& v : values_)
    if (v.inside.SameAs(inside)) return v.outside;
  return Output();
}

Output BodyCaptures::Inside(const Output& outside) const {
  for (const Value& v : values_)
    if (v.outside.SameAs(outside)) return v.inside;
  return Output();
}

}  // namespace sluice
