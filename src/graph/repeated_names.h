// The names that variables get in a part of a program that is built several
// times, and that is to share the variables of the first time.
#ifndef SLUICE_GRAPH_REPEATED_NAMES_H_
#define SLUICE_GRAPH_REPEATED_NAMES_H_

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace sluice {

// What the scopes were called when the part was built first. (Nodes have new
// names each time: those of frames, for example, must be unique.) Owned by what
// builds the part, used by its thread.
class RepeatedNames {
 public:
  // RAII scope in which the part is built once; the first one records names,
  // the others repeat them. Those of one thread nest. Make it a local variable.
  class Building {
   public:
    // `graph`: that of the part.
    Building(RepeatedNames* names, const Graph* graph);
    ~Building();
    Building(const Building&) = delete;

   private:
    friend class RepeatedNames;
    RepeatedNames* const names_;
    const Graph* const graph_;
    const Building* const outer_;
    // How often each key was asked for.
    mutable std::map<std::string, size_t> asked_;
  };

  // A name that `make` makes unique, in this thread; within a part that was
  // built before, the one that it had for this use of `key` then.
  static std::string Get(const std::string& key,
                         const std::function<std::string()>& make);
  // A name scope of the graph was opened in the prefix "outer/" or "", as
  // `name`, and is called `scope`.
  static void Opened(const Graph* graph, const std::string& prefix,
                     const std::string& name, const std::string& scope);
  // What the prefix "outer/name/" of nodes was called the first time.
  static std::string First(const std::string& prefix);
  // Whether this thread builds a part that was built before.
  static bool Repeating();

 private:
  // As Get, in the innermost of these parts that is of the graph, if it is not
  // null.
  static std::string GetIn(const Building* in, const Graph* graph,
                           const std::string& key,
                           const std::function<std::string()>& make);

  std::map<std::string, std::vector<std::string>> names_;  // By key, in order.
  std::map<std::string, std::string> first_;  // Of scopes that were repeated.
  int built_ = 0;                             // How many were begun.
};

}  // namespace sluice

#endif  // SLUICE_GRAPH_REPEATED_NAMES_H_
