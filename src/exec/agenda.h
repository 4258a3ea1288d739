// What a thread drives next: the turns that executions take on it.
#ifndef SLUICE_EXEC_AGENDA_H_
#define SLUICE_EXEC_AGENDA_H_

#include <mutex>
#include <vector>

namespace sluice {

class Execution;

// The executions that wait for their turn on a thread: what a token makes ready
// is driven after what the thread drives already, not within it. Owned by
// whoever reads messages, or by the first Drive on a thread (exec/executor.h).
class Agenda {
 public:
  enum Access { kOneThread, kAnyThread };
  explicit Agenda(Access access) : access_(access) {}
  Agenda(const Agenda&) = delete;

  void Add(Execution* e);
  // The one that has waited longest, which no longer does; null if none waits.
  Execution* Next();
  bool empty();

 private:
  std::unique_lock<std::mutex> Lock();

  const Access access_;
  std::mutex mu_;
  std::vector<Execution*> turns_;  // GUARDED_BY(mu_) if access_ is kAnyThread.
};

// While one lives, the executions that this thread comes to drive do not wait
// for those that it drives already: for whoever waits for them.
class FreshAgenda {
 public:
  FreshAgenda();
  ~FreshAgenda();
  FreshAgenda(const FreshAgenda&) = delete;

 private:
  Agenda* saved_;
};

// While one lives, the executions that this thread comes to drive wait for its
// end, which drives them: for whoever has more to deliver first. Within
// another, or on a thread that drives already, it changes nothing.
class HeldAgenda {
 public:
  HeldAgenda() : HeldAgenda(&own_) {}
  // They wait there, and with them those that do already.
  explicit HeldAgenda(Agenda* here);
  ~HeldAgenda();
  HeldAgenda(const HeldAgenda&) = delete;

 private:
  Agenda own_{Agenda::kOneThread};
  const bool outermost_;
};

// Whether there are executions that this thread is to drive next.
bool OthersWait();
// Lets `e` wait for its turn on this thread. REQUIRES: within a HeldAgenda.
void WaitForTurn(Execution* e);

}  // namespace sluice

#endif  // SLUICE_EXEC_AGENDA_H_
