#include "ops/queues/queue.h"

#include <algorithm>
#include <utility>

#include "absl/strings/strip.h"

namespace sluice::queues {

// ---- Checks -----------------------------------------------------------------

Status Queue::CheckTypes(const Element& components) const {
  if (components.size() != options_.types.size())
    return InvalidArgument(options_.kind, " '", options_.name, "': expected ",
                           options_.types.size(), " components, got ",
                           components.size());
  for (size_t i = 0; i < components.size(); ++i)
    if (components[i].dtype() != options_.types[i])
      return InvalidArgument(options_.kind, " '", options_.name,
                             "': expected component ", i, " of type ",
                             DTypeName(options_.types[i]), ", got ",
                             DTypeName(components[i].dtype()));
  return OkStatus();
}

Status Queue::Check(const Element& element) const {
  SLUICE_RETURN_IF_ERROR(CheckTypes(element));
  for (size_t i = 0; i < options_.shapes.size(); ++i)
    if (!options_.shapes[i].CompatibleWith(PartialShape(element[i].shape())))
      return InvalidArgument("Shape mismatch in tuple component ", i,
                             ". Expected ", options_.shapes[i].ToString(),
                             ", got ", element[i].shape().ToString());
  return OkStatus();
}

Status Queue::CheckBatch(const Element& batch) const {
  SLUICE_RETURN_IF_ERROR(CheckTypes(batch));
  for (size_t i = 0; i < batch.size(); ++i)
    if (batch[i].rank() == 0)
      return InvalidArgument("component ", i,
                             ": expected a first dimension of elements, got a "
                             "scalar");
  const int64_t count = batch[0].dim(0);
  for (size_t i = 0; i < batch.size(); ++i) {
    const Shape& shape = batch[i].shape();
    if (i < options_.shapes.size() && options_.shapes[i].rank_known()) {
      PartialShape expected({count});
      for (int d = 0; d < options_.shapes[i].rank(); ++d)
        expected.add_dim(options_.shapes[i].dim(d));
      if (!expected.CompatibleWith(PartialShape(shape)))
        return InvalidArgument("Shape mismatch in tuple component ", i,
                               ". Expected ", expected.ToString(), ", got ",
                               shape.ToString());
    } else if (shape.dim(0) != count) {
      return InvalidArgument(
          "All input tensors must have the same size in the 0th dimension. "
          "Component ",
          i, " has ", shape.dim(0), ", and should have ", count);
    }
  }
  return OkStatus();
}

// ---- Enqueue ----------------------------------------------------------------

class Queue::EnqueueAttempt final : public Attempt {
 public:
  EnqueueAttempt(Queue* queue, std::vector<Element> elements,
                 Cancellation* cancellation, Done done)
      : Attempt(cancellation),
        queue_(queue),
        elements_(std::move(elements)),
        done_(std::move(done)) {}

 private:
  bool Try() override {
    if (queue_->closed_) {
      End(!queue_->failure_.ok()
              ? queue_->failure_
              : Cancelled(queue_->options_.kind, " '", queue_->options_.name,
                          "' is closed."));
      return false;
    }
    if (queue_->skipping_) {
      End(OkStatus());
      return false;
    }
    const size_t before = next_;
    for (int64_t room = queue_->Room(); next_ < elements_.size() && room > 0;
         --room)
      queue_->store_->Push(std::move(elements_[next_++]));
    queue_->entered_ += static_cast<int64_t>(next_ - before);
    if (next_ == elements_.size()) End(OkStatus());
    return next_ > before;
  }
  Status Withdraw() override {
    return Cancelled("Enqueue operation was cancelled");
  }
  void Complete(Status status) override { done_(std::move(status)); }

  Queue* const queue_;
  std::vector<Element> elements_;
  size_t next_ = 0;  // The first of `elements_` that has not entered.
  const Done done_;
};

void Queue::Enqueue(std::vector<Element> elements, Cancellation* cancellation,
                    Done done) {
  if (elements.empty()) return done(OkStatus());
  Begin(kEnqueues,
        std::make_shared<EnqueueAttempt>(this, std::move(elements),
                                         cancellation, std::move(done)));
}

// ---- Dequeue ----------------------------------------------------------------

class Queue::DequeueAttempt final : public Attempt {
 public:
  DequeueAttempt(Queue* queue, int64_t count, bool up_to,
                 Cancellation* cancellation, Dequeued done)
      : Attempt(cancellation),
        queue_(queue),
        count_(count),
        up_to_(up_to),
        done_(std::move(done)) {}

 private:
  int64_t wanted() const {
    return count_ - static_cast<int64_t>(taken_.size());
  }
  bool Try() override {
    if (!queue_->options_.pipeline.empty() && !queue_->opened_) {
      // (Nobody would ever end the wait, if the graph comes from a file.)
      End(FailedPrecondition(
          "pipeline '", queue_->options_.pipeline,
          "': expected it to be started (DatasetIterator::Start) before an "
          "element is taken, got none that runs here; hint: a graph that was "
          "loaded has no iterator that starts it: feed its elements"));
      return false;
    }
    ElementStore& store = *queue_->store_;
    bool moved = false;
    // (Enqueues do not wait in a closed queue.)
    const bool ended = queue_->ended();
    if (ended && store.size() + (up_to_ ? 0 : queue_->to_come()) < wanted()) {
      moved = GiveBack();
      if (!up_to_ || store.size() == 0) {
        End(queue_->failure_.ok() ? queue_->Insufficient(count_)
                                  : queue_->failure_);
        // (An epoch ends for one dequeue.)
        return std::exchange(queue_->epoch_ended_, false) || moved;
      }
      count_ = store.size();
    }
    int64_t n = std::min(store.available(ended), wanted());
    const int64_t capacity = queue_->options_.capacity;
    if (store.by_priority() && n < wanted() && (capacity < 0 || n < capacity))
      n = 0;  // Better ones may come.
    if (n > 0) {
      const size_t need = taken_.size() + static_cast<size_t>(n);
      if (taken_.capacity() < need)
        taken_.reserve(std::max(need, 2 * taken_.size()));
      store.PopTo(n, &taken_);
      moved = true;
    }
    if (wanted() == 0) {
      queue_->left_ += count_;
      End(OkStatus());
    }
    return moved;
  }
  Status Withdraw() override {
    GiveBack();
    return Cancelled("Dequeue operation was cancelled");
  }
  bool GiveBack() {
    if (taken_.empty()) return false;
    queue_->store_->PutBack(std::exchange(taken_, {}));
    return true;
  }
  void Complete(Status status) override {
    if (status.ok()) return done_(std::move(taken_));
    done_(std::move(status));
  }

  Queue* const queue_;
  int64_t count_;
  const bool up_to_;
  std::vector<Element> taken_;
  const Dequeued done_;
};

void Queue::Dequeue(int64_t count, bool up_to, Cancellation* cancellation,
                    Dequeued done) {
  if (count == 0) return done(std::vector<Element>());
  Begin(kDequeues, std::make_shared<DequeueAttempt>(
                       this, count, up_to, cancellation, std::move(done)));
}

// ---- Close ------------------------------------------------------------------

class Queue::CloseAttempt final : public Attempt {
 public:
  CloseAttempt(Queue* queue, Cancellation* cancellation, Done done)
      : Attempt(cancellation), queue_(queue), done_(std::move(done)) {}

 private:
  bool Try() override {
    const bool was = std::exchange(queue_->closed_, true);
    End(was ? Cancelled("Queue '", queue_->options_.name,
                        "' is already closed.")
            : OkStatus());
    return !was;
  }
  Status Withdraw() override {
    return Cancelled("Enqueue operation was cancelled");
  }
  void Complete(Status status) override { done_(std::move(status)); }

  Queue* const queue_;
  const Done done_;
};

void Queue::Close(bool cancel_pending, Cancellation* cancellation, Done done) {
  if (!cancel_pending)
    return Begin(kEnqueues, std::make_shared<CloseAttempt>(this, cancellation,
                                                           std::move(done)));
  Update([this](Ended* ended) {
    closed_ = true;
    EndAll(kEnqueues, Cancelled("Enqueue operation was cancelled"), ended);
  });
  done(OkStatus());
}

void Queue::Fail(const Status& error) {
  Update([&](Ended* ended) {
    closed_ = true;
    if (failure_.ok()) failure_ = error;
    EndAll(kEnqueues, failure_, ended);
  });
}

// ---- Epochs -----------------------------------------------------------------

class Queue::EndEpochAttempt final : public Attempt {
 public:
  EndEpochAttempt(Queue* queue, Cancellation* cancellation, Done done)
      : Attempt(cancellation), queue_(queue), done_(std::move(done)) {}

 private:
  // It is first in its lane, so all earlier enqueues have entered; it stays
  // there, and keeps later ones back, until a dequeue has seen the end.
  bool Try() override {
    if (std::exchange(queue_->skipping_, false)) {
      queue_->BeginEpoch(queue_->epoch_ + 1);
      End(OkStatus());
      return false;
    }
    if (!marked_ && !queue_->closed_)
      return marked_ = queue_->epoch_ended_ = true;
    if (!queue_->epoch_ended_ && !queue_->closed_)
      queue_->BeginEpoch(queue_->epoch_ + 1);
    if (!queue_->epoch_ended_ || queue_->closed_) End(OkStatus());
    return false;
  }
  Status Withdraw() override {
    if (marked_) queue_->epoch_ended_ = false;
    return Cancelled("Enqueue operation was cancelled");
  }
  void Complete(Status status) override { done_(std::move(status)); }

  Queue* const queue_;
  bool marked_ = false;
  const Done done_;
};

void Queue::EndEpoch(Cancellation* cancellation, Done done) {
  Begin(kEnqueues,
        std::make_shared<EndEpochAttempt>(this, cancellation, std::move(done)));
}

void Queue::Clear() {
  while (store_->size() > 0) store_->Pop();
}

void Queue::BeginEpoch(int64_t number) {
  epoch_ = number;
  if (store_->size() == 0) store_->BeginEpoch(number);
}

void Queue::SkipEpoch() {
  Update([this](Ended*) {
    Clear();
    skipping_ = !std::exchange(epoch_ended_, false) && !closed_;
  });
}

bool Queue::wanted() const {
  std::lock_guard<std::mutex> lock(mu_);
  return !skipping_;
}

void Queue::Reopen() {
  Update([this](Ended* ended) {
    EndAll(kEnqueues, Cancelled("Enqueue operation was cancelled"), ended);
    Clear();
    closed_ = epoch_ended_ = skipping_ = false;
    opened_ = true;
    failure_ = OkStatus();
    BeginEpoch(0);
  });
}

Status Queue::Insufficient(int64_t requested) const {
  return OutOfRange(options_.kind, " '", options_.name,
                    "' is closed and has insufficient elements (requested ",
                    requested, ", current size ", store_->size(), ")");
}

// ---- State ------------------------------------------------------------------

int64_t Queue::size() const {
  std::lock_guard<std::mutex> lock(mu_);
  return store_->size();
}

bool Queue::closed() const {
  std::lock_guard<std::mutex> lock(mu_);
  return closed_;
}

Queue::Stats Queue::stats() const {
  std::lock_guard<std::mutex> lock(mu_);
  return {store_->size(),
          options_.capacity,
          entered_,
          left_,
          waiting(kEnqueues),
          waiting(kDequeues),
          waited_ns(kEnqueues),
          waited_ns(kDequeues)};
}

bool Queue::Count(StageCounters* counters) const {
  if (options_.stage.empty()) return false;
  const Stats s = stats();
  // The queue of stage "map" of pipeline "input" is "input/map/...queue".
  absl::string_view stage = options_.name;
  absl::ConsumePrefix(&stage, options_.pipeline);
  absl::ConsumePrefix(&stage, "/");
  stage = stage.substr(0, stage.find('/'));
  *counters = {.pipeline = options_.pipeline,
               .stage = std::string(stage),
               .number = options_.stage[0],
               .inputs = {options_.stage.begin() + 1, options_.stage.end()},
               .elements = s.entered,
               .ready = s.size,
               .capacity = s.capacity,
               .full_ns = s.full_ns,
               .starving_ns = s.starving_ns};
  return true;
}

}  // namespace sluice::queues
