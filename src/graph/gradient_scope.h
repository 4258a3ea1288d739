// The call of Gradients that this thread is building nodes for.
#ifndef SLUICE_GRAPH_GRADIENT_SCOPE_H_
#define SLUICE_GRAPH_GRADIENT_SCOPE_H_

#include <string>

namespace sluice {

// RAII scope in which gradient functions that this thread calls belong to the
// gradients of that name, which is unique in the graph. TensorArrays use it to
// keep the gradients of different calls apart. Scopes nest; make them local
// variables.
class GradientScope {
 public:
  explicit GradientScope(std::string name);
  ~GradientScope();
  GradientScope(const GradientScope&) = delete;

 private:
  std::string saved_;
};

// The innermost one's name; "gradients" outside of any.
const std::string& CurrentGradientScope();

}  // namespace sluice

#endif  // SLUICE_GRAPH_GRADIENT_SCOPE_H_
