// What the bodies of functions that are being built captured. Internal.
#ifndef SLUICE_CLIENT_BODY_CAPTURES_H_
#define SLUICE_CLIENT_BODY_CAPTURES_H_

#include <vector>

#include "graph/node.h"

namespace sluice {

// The outer values that one body uses, and the arguments that stand for them.
// Owned by what builds the body; others find it by the body's graph, from any
// thread, as long as it exists. The values are guarded by the graph's mutex.
class BodyCaptures {
 public:
  // `outside` is the graph that defines the function; possibly a body itself.
  BodyCaptures(Graph* body, Graph* outside);
  ~BodyCaptures();
  BodyCaptures(const BodyCaptures&) = delete;

  // Null if the graph is no body, or a complete one.
  static const BodyCaptures* Of(const Graph* body);

  struct Value {
    Output outside;  // Of outside().
    Output inside;   // An argument of the body.
  };
  Graph* outside() const { return outside_; }
  const std::vector<Value>& values() const { return values_; }
  void Add(const Output& outside, const Output& inside) {
    values_.push_back({outside, inside});
  }
  // The value that an argument of the body stands for; null if it is another.
  Output Outside(const Output& inside) const;
  // The argument that stands for an outer value; null if there is none yet.
  Output Inside(const Output& outside) const;

 private:
  const Graph* const body_;
  Graph* const outside_;
  std::vector<Value> values_;
};

}  // namespace sluice

#endif  // SLUICE_CLIENT_BODY_CAPTURES_H_
