// Reverse-mode gradients: adds the nodes that compute d(sum of ys) / dx.
//
//   Output g = Grad(loss, w);
//   Result<std::vector<Gradient>> gs =
//       Gradients({loss}, {w, b}, {.stop_gradients = {h}});
#ifndef SLUICE_CLIENT_GRADIENTS_H_
#define SLUICE_CLIENT_GRADIENTS_H_

#include <functional>
#include <string>
#include <vector>

#include "client/variables.h"
#include "graph/grad.h"

namespace sluice {

// What to differentiate with respect to: an output, or a variable (all of its
// reads).
struct GradTarget {
  GradTarget(Output o) : output(o) {}               // NOLINT
  GradTarget(const Var& v) : output(v.handle()) {}  // NOLINT
  Output output;
};

// What an x gets that no y depends on.
enum class Unconnected : uint8_t { kNone, kZero };

struct GradientOptions {
  // The gradients of the ys; null or missing ones are ones.
  std::vector<Gradient> grad_ys = {};
  // Nothing flows back beyond these.
  std::vector<Output> stop_gradients = {};
  Unconnected unconnected = Unconnected::kNone;
  // Puts an op's gradients on the op's device.
  bool colocate = false;
  // Makes every op's gradients ready together: no update of a reference
  // variable starts while one of them may still read it.
  bool gate_ops = false;
  std::string name = "gradients";
};

// One gradient per x: none, dense, or sparse where an op gave slices and
// nothing on the way to x needed them dense. Fails if a node on the way has no
// gradient; nodes added by then stay, unused. xs and ys may depend on each
// other; gradients have gradients in turn. Errors name the line of the call;
// the nodes have the lines of those that they are the gradients of.
Result<std::vector<Gradient>> Gradients(const std::vector<Output>& ys,
                                        const std::vector<GradTarget>& xs,
                                        const GradientOptions& options = {},
                                        SourceLoc loc = CallerLoc());

// The same in the manner of builders: dense, null where there is none; errors
// are recorded in the graph.
std::vector<Output> Grad(const std::vector<Output>& ys,
                         const std::vector<GradTarget>& xs,
                         const GradientOptions& options = {},
                         SourceLoc loc = CallerLoc());
Output Grad(Output y, const GradTarget& x, const GradientOptions& options = {},
            SourceLoc loc = CallerLoc());

// A dense tensor of the same value; `like` (the tensor or variable that it is
// the gradient of) tells how many rows where the slices do not. Null for none.
Output Densify(const Gradient& g, Output like = {});
// The sum: sparse if all are.
Gradient SumGradients(const std::vector<Gradient>& gs, Output like = {});

// ---- Gradients of the user's own --------------------------------------------

using UserGradient = std::function<Status(GradContext&)>;

// For ops that have none of their own, or under a name for GradientOverride
// and the attribute _gradient_op_type. AlreadyExists if the name is taken.
// Thread-safe, for the whole process.
Status RegisterGradient(const std::string& op_or_name, UserGradient fn);

// The function for a node: as the attribute _gradient_op_type says, else the
// user's, else the op's. NotFound if there is none; null if the op passes no
// gradients on, by nature.
Result<UserGradient> FindGradient(const Node& node);

}  // namespace sluice

#endif  // SLUICE_CLIENT_GRADIENTS_H_
