// Reverse-mode gradients: adds the nodes that compute d(sum of ys) / dx.
//
//   Output g = Grad(loss, w);
//   Result<std::vector<Gradient>> gs =
//       Gradients({loss}, {w, b}, {.stop_gradients = {h}});
#ifndef SLUICE_CLIENT_AUTODIFF_GRADIENTS_H_
#define SLUICE_CLIENT_AUTODIFF_GRADIENTS_H_

#include <functional>
#include <string>
#include <vector>

#include "client/variables.h"
#include "graph/grad.h"

namespace sluice {

// What to differentiate with respect to: an output, or a variable (all its
// reads).
struct GradTarget {
  GradTarget(Output o) : output(o) {}               // NOLINT
  GradTarget(const Var& v) : output(v.handle()) {}  // NOLINT
  Output output;
};

// The gradient of an x that no y depends on.
enum class Unconnected : uint8_t { kNone, kZero };

struct GradientOptions {
  // The gradients of the ys; null or missing ones count as ones.
  std::vector<Gradient> grad_ys = {};
  // Gradients do not flow back past these outputs.
  std::vector<Output> stop_gradients = {};
  Unconnected unconnected = Unconnected::kNone;
  // Places the gradients of an op on the op's device.
  bool colocate = false;
  // Makes all gradients of one op ready together: no update of a reference
  // variable starts while one of them may still read it.
  bool gate_ops = false;
  std::string name = "gradients";
  // The nodes for each op get a scope of their own within `name`: "<op>_grad".
  bool op_scopes = true;
  // If a y or an x is an integer, gradients flow through integers, as they do
  // in TensorFlow's C++ and C clients: by the same rules, in the arithmetic of
  // the type. (Not through calls that are not inlined: Unimplemented.)
  bool integers = false;
};

// Returns one gradient per x: none, dense, or sparse if an op produced slices
// and no op between there and x needed them dense. Fails if a node on the path
// has no gradient; nodes added before the failure remain in the graph, unused.
// xs and ys may depend on each other, and gradients can be differentiated in
// turn. Errors name the line of the call; the new nodes have the source lines
// of the nodes that they differentiate.
Result<std::vector<Gradient>> Gradients(const std::vector<Output>& ys,
                                        const std::vector<GradTarget>& xs,
                                        const GradientOptions& options = {},
                                        SourceLoc loc = CallerLoc());

// The same in the style of builders: dense, null where there is no gradient;
// errors are recorded in the graph.
std::vector<Output> Grad(const std::vector<Output>& ys,
                         const std::vector<GradTarget>& xs,
                         const GradientOptions& options = {},
                         SourceLoc loc = CallerLoc());
Output Grad(Output y, const GradTarget& x, const GradientOptions& options = {},
            SourceLoc loc = CallerLoc());

// A dense tensor of the same value. `like` (the tensor or variable that it is
// the gradient of) provides the number of rows if the slices do not. Null if
// there is no gradient.
Output Densify(const Gradient& g, Output like = {});
// The sum of the gradients: sparse if all of them are sparse.
Gradient SumGradients(const std::vector<Gradient>& gs, Output like = {});

// ---- User-defined gradients -------------------------------------------------

using UserGradient = std::function<Status(GradContext&)>;

// Registers a gradient for an op without one, or under a name for
// GradientOverride and the attribute _gradient_op_type. AlreadyExists if the
// name is taken. Thread-safe, process-wide.
Status RegisterGradient(const std::string& op_or_name, UserGradient fn);

// Returns the gradient function of a node: that of the attribute
// _gradient_op_type, else the user's, else the op's. NotFound if there is none;
// null if the op by definition passes no gradient on.
Result<UserGradient> FindGradient(const Node& node);

}  // namespace sluice

#endif  // SLUICE_CLIENT_AUTODIFF_GRADIENTS_H_
