// Frames: which loop, function or neither each node of a graph runs in, found
// from its Enters, Exits and calls. Plans, partitions, regions and the recovery
// of control flow all build on this one analysis.
#ifndef SLUICE_GRAPH_FRAMES_H_
#define SLUICE_GRAPH_FRAMES_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "graph/node.h"

namespace sluice {

// ---- Questions about single nodes and edges ---------------------------------

// True for the edge that closes a loop: from a NextIteration into a Merge.
bool IsBackEdge(const Node& from, const Node& to);
// True for the Enter of a loop constant, whose value every iteration sees.
bool IsConstantEnter(const Node& n);
// True for a constant without control inputs. It belongs to no frame: nodes of
// any frame may read it.
bool IsFloatingConstant(const Node& n);
// True if consumers may read the node's input instead of its output: the node
// passes its only input on and has no control inputs.
bool IsAlias(const Node& n);
// The output behind `o`, past all aliases.
Output ResolveAlias(Output o);
// The name of the function whose body an _Arg, _Retval or _Function belongs to,
// or that a _Call runs; "" for any other node.
std::string FunctionOf(const Node& n);

// ---- Frames of a graph ------------------------------------------------------

// One loop, wherever it is entered; one function, wherever it is called; or the
// root.
struct GraphFrame {
  enum class Kind : uint8_t { kRoot, kLoop, kFunction };

  Kind kind = Kind::kRoot;
  std::string name;  // A loop's frame_name or a function's name.
  int parent = -1;   // The frame in which a loop's Enters run; else -1.
  int depth = 0;     // The number of loops around it and itself.
  // A loop's first Enter, or the first node that names the function.
  const Node* first = nullptr;
  int64_t parallel_iterations = 1;  // As the first Enter says.

  std::vector<const Node*> nodes;   // Those that run in it, in the given order.
  std::vector<const Node*> enters;  // Into it. They run in the parent.
  std::vector<const Node*> exits;
  std::vector<const Node*> next_iterations;
  std::vector<const Node*> loop_conds;
  std::vector<const Node*> returns;  // A function's _Retvals.

  // False for a loop that runs one iteration only.
  bool repeats() const { return !next_iterations.empty(); }
  bool is_loop() const { return kind == Kind::kLoop; }
  bool is_function() const { return kind == Kind::kFunction; }
  // The predicate's node, if there is exactly one.
  const Node* loop_cond() const {
    return loop_conds.size() == 1 ? loop_conds[0] : nullptr;
  }
};

// The frames of one graph. Frame 0 is the root; a loop has a higher number than
// the frame around it. Immutable; the graph must outlive it and must not lose
// nodes meanwhile.
class Frames {
 public:
  // `order`: all nodes of the graph in topological order. Inputs that are not
  // connected yet are skipped. InvalidArgument, naming the node, for inputs
  // from different frames and for an Exit or NextIteration outside any loop.
  static Result<Frames> Of(const Graph& graph, const std::vector<Node*>& order);

  // InvalidArgument if an input is not connected, or if a NextIteration and the
  // Merge that it feeds are in different frames.
  Status CheckBackEdges(const std::vector<Node*>& order) const;

  int size() const { return static_cast<int>(frames_.size()); }
  const std::vector<GraphFrame>& all() const { return frames_; }
  const GraphFrame& operator[](int f) const {
    return frames_[static_cast<size_t>(f)];
  }
  // The frame in which the node runs: an Enter runs in the one around its loop,
  // an Exit in its loop.
  int frame_of(const Node* n) const { return place(n).frame; }
  // The frame in which the node's consumers run.
  int output_frame(const Node* n) const { return place(n).output_frame; }
  // -1 if no node belongs to or calls the function.
  int function_frame(const std::string& name) const;
  // For messages: "the root", "frame 'loop' (entered at 'Enter') in frame
  // 'outer' (entered at 'Enter_1')". Loops may share a name, so that says
  // where.
  std::string Describe(int f) const;

 private:
  struct Place {
    int frame = 0;
    int output_frame = 0;
  };
  explicit Frames(size_t nodes) : places_(nodes) {}
  const Place& place(const Node* n) const {
    return places_[static_cast<size_t>(n->id())];
  }
  GraphFrame& mutable_frame(int f) { return frames_[static_cast<size_t>(f)]; }
  Status Assign(const Node& n);
  Result<int> FrameOfInputs(const Node& n);
  int FunctionFrame(const Node& n);
  Result<int> LoopFrame(const Node& enter, int parent);

  std::vector<GraphFrame> frames_;
  std::vector<Place> places_;  // By node id.
  // By parent (-1 for functions) and name.
  std::map<std::pair<int, std::string>, int> ids_;
};

}  // namespace sluice

#endif  // SLUICE_GRAPH_FRAMES_H_
