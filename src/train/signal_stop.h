// Ends a run when the process is asked to end.
//
//   Result<std::unique_ptr<SignalStop>> asked = SignalStop::Install();
//   if (!asked.ok()) return asked.status();
//   while ((*asked)->received() == 0) Work();
#ifndef SLUICE_TRAIN_SIGNAL_STOP_H_
#define SLUICE_TRAIN_SIGNAL_STOP_H_

#include <memory>
#include <string>

#include "base/status.h"

namespace sluice {

// While one exists, SIGTERM and SIGINT do not end the process: they are noted.
// (A second SIGINT, of a user who does not want to wait, ends the process.) The
// destructor puts the former handlers back. The handler does nothing but store
// a number, which is safe at any instant. At most one exists at a time in a
// process; Install and the destructor are not to run beside other code that
// changes handlers.
class SignalStop {
 public:
  // FailedPrecondition if there is one.
  static Result<std::unique_ptr<SignalStop>> Install();
  ~SignalStop();
  SignalStop(const SignalStop&) = delete;

  // The signal that came since Install, the last one; 0: none.
  int received() const;
  // "SIGTERM"; "" if none.
  std::string name() const;

 private:
  struct Former;
  explicit SignalStop(std::unique_ptr<Former> former);
  const std::unique_ptr<Former> former_;
};

}  // namespace sluice

#endif  // SLUICE_TRAIN_SIGNAL_STOP_H_
