#include "ops/queues/attempts.h"

namespace sluice::queues {

void Shared::Begin(size_t lane, AttemptPtr attempt) {
  Ended ended;
  {
    std::lock_guard<std::mutex> lock(mu_);
    lanes_[lane].waiting.push_back(attempt);
    Serve(&ended);
    if (!attempt->over_ && attempt->cancellation_ != nullptr) {
      // (Under the lock: who completes the attempt knows the callback.)
      attempt->callback_ = attempt->cancellation_->Register(
          [self = shared_from_this(), weak = std::weak_ptr<Attempt>(attempt)] {
            if (const AttemptPtr a = weak.lock()) self->Cancel(a);
          });
      if (attempt->callback_ < 0) Remove(attempt, &ended);
    }
  }
  Complete(ended);
}

void Shared::Cancel(const AttemptPtr& attempt) {
  Ended ended;
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (attempt->over_) return;
    Remove(attempt, &ended);
  }
  Complete(ended);
}

void Shared::Remove(const AttemptPtr& attempt, Ended* ended) {
  for (Lane& lane : lanes_) lane.waiting.remove(attempt);
  attempt->End(attempt->Withdraw());
  ended->push_back(attempt);
  Serve(ended);
}

void Shared::EndAll(size_t lane, const Status& status, Ended* ended) {
  for (AttemptPtr& a : lanes_[lane].waiting) {
    a->End(status);
    ended->push_back(std::move(a));
  }
  lanes_[lane].waiting.clear();
}

void Shared::Complete(const Ended& ended) {
  for (const AttemptPtr& a : ended) {
    if (a->callback_ >= 0) a->cancellation_->Deregister(a->callback_);
    a->Complete(std::move(a->status_));
  }
}

void Shared::Serve(Ended* ended) {
  for (bool progress = true; progress;) {
    progress = false;
    for (Lane& lane : lanes_) progress = ServeLane(&lane, ended) || progress;
  }
  NoteWaiting();
}

// (The clock is read only when a lane begins or ceases to be empty.)
void Shared::NoteWaiting() {
  for (Lane& lane : lanes_) {
    if (lane.waiting.empty() == (lane.since_ns == 0)) continue;
    const int64_t now = NowNs();
    if (lane.waiting.empty()) {
      lane.waited_ns += now - std::exchange(lane.since_ns, 0);
    } else {
      lane.since_ns = now;
    }
  }
}

// Returns whether an attempt changed the state.
bool Shared::ServeLane(Lane* lane, Ended* ended) {
  bool progress = false;
  for (auto a = lane->waiting.begin(); a != lane->waiting.end();) {
    progress = (*a)->Try() || progress;
    if ((*a)->over_) {
      ended->push_back(std::move(*a));
      a = lane->waiting.erase(a);
    } else if (lane->in_order) {
      break;
    } else {
      ++a;
    }
  }
  return progress;
}

}  // namespace sluice::queues
