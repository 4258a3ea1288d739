#include "train/signal_stop.h"

#include <signal.h>

#include <atomic>

namespace sluice {
namespace {

// What the handler knows. (Atomics without locks are safe in handlers.)
std::atomic<int> stop_signal{0};
std::atomic<bool> stop_installed{false};
static_assert(std::atomic<int>::is_always_lock_free);

void NoteSignal(int number) {
  // An impatient user's second Ctrl-C: the default action, when this returns.
  if (stop_signal.exchange(number) == SIGINT && number == SIGINT) {
    signal(SIGINT, SIG_DFL);
    raise(SIGINT);
  }
}

}  // namespace

struct SignalStop::Former {
  struct sigaction terminate, interrupt;
};

Result<std::unique_ptr<SignalStop>> SignalStop::Install() {
  if (stop_installed.exchange(true))
    return FailedPrecondition(
        "signal stop: expected none in this process, got another");
  stop_signal = 0;
  auto former = std::make_unique<Former>();
  struct sigaction action = {};
  action.sa_handler = NoteSignal;
  // (Calls of the system that a signal interrupts go on.)
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGTERM, &action, &former->terminate);
  sigaction(SIGINT, &action, &former->interrupt);
  return std::unique_ptr<SignalStop>(new SignalStop(std::move(former)));
}

SignalStop::SignalStop(std::unique_ptr<Former> former)
    : former_(std::move(former)) {}

SignalStop::~SignalStop() {
  sigaction(SIGTERM, &former_->terminate, nullptr);
  sigaction(SIGINT, &former_->interrupt, nullptr);
  stop_installed = false;
}

int SignalStop::received() const { return stop_signal; }

std::string SignalStop::name() const {
  switch (received()) {
    case 0:
      return "";
    case SIGTERM:
      return "SIGTERM";
    default:
      return "SIGINT";
  }
}

}  // namespace sluice
