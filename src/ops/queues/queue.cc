#include "ops/queues/queue.h"

#include <utility>

namespace sluice::queues {

// ---- Checks -----------------------------------------------------------------

Status Queue::Check(const Element& element) const {
  if (element.size() != options_.types.size())
    return InvalidArgument(options_.kind, " '", options_.name, "': expected ",
                           options_.types.size(), " components, got ",
                           element.size());
  for (size_t i = 0; i < element.size(); ++i) {
    const Tensor& t = element[i];
    if (t.dtype() != options_.types[i])
      return InvalidArgument(options_.kind, " '", options_.name,
                             "': expected component ", i, " of type ",
                             DTypeName(options_.types[i]), ", got ",
                             DTypeName(t.dtype()));
    if (i < options_.shapes.size() &&
        !options_.shapes[i].CompatibleWith(PartialShape(t.shape())))
      return InvalidArgument(options_.kind, " '", options_.name,
                             "': expected component ", i, " of shape ",
                             options_.shapes[i].ToString(), ", got ",
                             t.shape().ToString());
  }
  return OkStatus();
}

// ---- Operations -------------------------------------------------------------

void Queue::Enqueue(std::vector<Element> elements, Cancellation* cancellation,
                    Done done) {
  if (elements.empty()) return done(OkStatus());
  auto a = std::make_shared<Attempt>();
  a->what = Attempt::What::kEnqueue;
  a->wanted = static_cast<int64_t>(elements.size());
  a->elements = std::move(elements);
  a->done = std::move(done);
  a->cancellation = cancellation;
  Begin(std::move(a));
}

void Queue::Dequeue(int64_t count, bool up_to, Cancellation* cancellation,
                    Dequeued done) {
  if (count == 0) return done(std::vector<Element>());
  auto a = std::make_shared<Attempt>();
  a->what = Attempt::What::kDequeue;
  a->up_to = up_to;
  a->wanted = count;
  a->dequeued = std::move(done);
  a->cancellation = cancellation;
  Begin(std::move(a));
}

void Queue::Close(bool cancel_pending, Cancellation* cancellation, Done done) {
  if (!cancel_pending) {
    auto a = std::make_shared<Attempt>();
    a->what = Attempt::What::kClose;
    a->done = std::move(done);
    a->cancellation = cancellation;
    return Begin(std::move(a));
  }
  std::vector<AttemptPtr> completed;
  {
    std::lock_guard<std::mutex> lock(mu_);
    closed_ = true;
    for (AttemptPtr& a : enqueues_) {
      End(a.get(), a->what == Attempt::What::kClose
                       ? OkStatus()
                       : Cancelled("Enqueue operation was cancelled"));
      completed.push_back(std::move(a));
    }
    enqueues_.clear();
    Serve(&completed);
  }
  done(OkStatus());
  Complete(completed);
}

int64_t Queue::size() const {
  std::lock_guard<std::mutex> lock(mu_);
  return store_->size();
}

bool Queue::closed() const {
  std::lock_guard<std::mutex> lock(mu_);
  return closed_;
}

// ---- Attempts ---------------------------------------------------------------

void Queue::Begin(AttemptPtr attempt) {
  std::vector<AttemptPtr> completed;
  {
    std::lock_guard<std::mutex> lock(mu_);
    SideOf(*attempt).push_back(attempt);
    Serve(&completed);
    if (!attempt->over && attempt->cancellation != nullptr) {
      // (Under the lock: who completes the attempt knows the callback.)
      attempt->callback = attempt->cancellation->Register(
          [self = shared_from_this(), weak = std::weak_ptr<Attempt>(attempt)] {
            if (const AttemptPtr a = weak.lock()) self->Cancel(a);
          });
      if (attempt->callback < 0) Withdraw(attempt, &completed);
    }
  }
  Complete(completed);
}

void Queue::Cancel(const AttemptPtr& attempt) {
  std::vector<AttemptPtr> completed;
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (attempt->over) return;
    Withdraw(attempt, &completed);
  }
  Complete(completed);
}

void Queue::Withdraw(const AttemptPtr& attempt,
                     std::vector<AttemptPtr>* completed) {
  SideOf(*attempt).remove(attempt);
  const bool dequeue = attempt->what == Attempt::What::kDequeue;
  if (dequeue) store_->PutBack(std::exchange(attempt->elements, {}));
  End(attempt.get(),
      Cancelled(dequeue ? "Dequeue" : "Enqueue", " operation was cancelled"));
  completed->push_back(attempt);
  Serve(completed);
}

void Queue::Complete(const std::vector<AttemptPtr>& completed) {
  for (const AttemptPtr& a : completed) {
    if (a->callback >= 0) a->cancellation->Deregister(a->callback);
    if (a->what != Attempt::What::kDequeue) {
      a->done(std::move(a->status));
    } else if (!a->status.ok()) {
      a->dequeued(std::move(a->status));
    } else {
      a->dequeued(std::move(a->elements));
    }
  }
}

// ---- Serving ----------------------------------------------------------------

void Queue::Serve(std::vector<AttemptPtr>* completed) {
  for (bool progress = true; progress;) {
    progress = ServeFirst(&enqueues_, completed);
    progress = ServeFirst(&dequeues_, completed) || progress;
  }
}

// Serves the first attempts of a side as far as possible. Returns whether an
// element moved or an attempt ended.
bool Queue::ServeFirst(Attempts* side, std::vector<AttemptPtr>* completed) {
  bool progress = false;
  while (!side->empty()) {
    Attempt* const a = side->front().get();
    switch (a->what) {
      case Attempt::What::kEnqueue:
        progress = TryEnqueue(a) || progress;
        break;
      case Attempt::What::kDequeue:
        progress = TryDequeue(a) || progress;
        break;
      case Attempt::What::kClose:
        progress = TryClose(a) || progress;
        break;
    }
    if (!a->over) break;
    completed->push_back(std::move(side->front()));
    side->pop_front();
  }
  return progress;
}

bool Queue::TryEnqueue(Attempt* a) {
  if (closed_) {
    End(a, Cancelled(options_.kind, " '", options_.name, "' is closed."));
    return true;
  }
  bool progress = false;
  for (; a->wanted > 0 && HasRoom(); --a->wanted, progress = true)
    store_->Push(std::move(a->elements[a->next++]));
  if (a->wanted > 0) return progress;
  End(a, OkStatus());
  return true;
}

bool Queue::TryDequeue(Attempt* a) {
  bool progress = false;
  for (; a->wanted > 0 && store_->available(closed_) > 0;
       --a->wanted, progress = true)
    a->elements.push_back(store_->Pop());
  if (a->wanted > 0) {
    // (Enqueues that wait end with an error in a closed queue, so no more
    // elements come.)
    if (!closed_) return progress;
    if (!a->up_to || a->elements.empty()) {
      const auto taken = static_cast<int64_t>(a->elements.size());
      store_->PutBack(std::exchange(a->elements, {}));
      End(a, OutOfRange(options_.kind, " '", options_.name,
                        "' is closed and has insufficient elements (requested ",
                        a->wanted + taken, ", current size ", store_->size(),
                        ")"));
      return true;
    }
  }
  End(a, OkStatus());
  return true;
}

bool Queue::TryClose(Attempt* a) {
  const bool was = std::exchange(closed_, true);
  End(a, was ? Cancelled(options_.kind, " '", options_.name,
                         "' is already closed.")
             : OkStatus());
  return true;
}

void Queue::End(Attempt* a, Status status) {
  a->over = true;
  a->status = std::move(status);
}

}  // namespace sluice::queues
