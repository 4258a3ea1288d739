// Which call of Gradients this thread is building for.
#ifndef SLUICE_GRAPH_GRADIENT_SCOPE_H_
#define SLUICE_GRAPH_GRADIENT_SCOPE_H_

#include <string>

namespace sluice {

// While one lives, gradient functions that this thread calls belong to the
// gradients of that name, unique in their graph. TensorArrays keep the
// gradients of different calls apart by it. They nest; be local variables.
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
