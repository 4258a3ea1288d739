#include "exec/core/agenda.h"

#include <utility>

#include "exec/core/executor.h"

namespace sluice {
namespace {

thread_local Agenda* agenda = nullptr;

}  // namespace

std::unique_lock<std::mutex> Agenda::Lock() {
  return access_ == kAnyThread ? std::unique_lock<std::mutex>(mu_)
                               : std::unique_lock<std::mutex>();
}
void Agenda::Add(Execution* e) {
  const auto lock = Lock();
  turns_.push_back(e);
}
Execution* Agenda::Next() {
  const auto lock = Lock();
  if (turns_.empty()) return nullptr;
  Execution* const next = turns_.front();
  turns_.erase(turns_.begin());
  return next;
}
bool Agenda::empty() {
  const auto lock = Lock();
  return turns_.empty();
}

FreshAgenda::FreshAgenda() : saved_(std::exchange(agenda, nullptr)) {}
FreshAgenda::~FreshAgenda() { agenda = saved_; }

HeldAgenda::HeldAgenda(Agenda* here) : outermost_(agenda == nullptr) {
  if (outermost_) agenda = here;
}
HeldAgenda::~HeldAgenda() {
  if (!outermost_) return;
  while (Execution* const next = agenda->Next()) next->DriveThis();
  agenda = nullptr;
}

bool OthersWait() { return agenda != nullptr && !agenda->empty(); }
void WaitForTurn(Execution* e) { agenda->Add(e); }

}  // namespace sluice
