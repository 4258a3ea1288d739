// Ctrl-C while the main thread is in a step.
//
// Python only notes a signal; its handler runs when the main thread is back in
// Python. So that the step ends first, our handler stands before Python's and
// wakes a thread, which cancels what the main thread is in: if the handler is
// the one that raises KeyboardInterrupt. A program's own (which may want to
// finish the epoch) runs after the step.
#ifndef SLUICE_PYTHON_INTERRUPT_H_
#define SLUICE_PYTHON_INTERRUPT_H_

#include <cstdint>
#include <memory>

#include "exec/core/cancellation.h"
#include "py.h"

namespace sluice::python {

// Lives while this thread is about to run a step, runs it, and looks at its
// end; with the interpreter's lock at both ends. On other threads it does
// nothing.
class MainThreadStep {
 public:
  // Raises what has been signalled already.
  MainThreadStep();
  ~MainThreadStep();
  MainThreadStep(const MainThreadStep&) = delete;

  // Null on other threads.
  Cancellation* cancellation() const { return cancellation_.get(); }
  // Raises KeyboardInterrupt if that is why the step ended.
  void Check() const;

 private:
  // What our thread does; `told`: how many signals it knows of.
  static void Watch(uint32_t told);
  void Leave();

  std::shared_ptr<Cancellation> cancellation_;
  MainThreadStep* outer_ = nullptr;  // Which this one is within.
  uint32_t since_ = 0;  // How many signals there were when it began.
};

void AddInterrupts(py::module_& m);

}  // namespace sluice::python

#endif  // SLUICE_PYTHON_INTERRUPT_H_
