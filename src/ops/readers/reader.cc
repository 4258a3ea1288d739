#include "ops/readers/reader.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace sluice::readers {
namespace {

using queues::Element;
using queues::Queue;

// How many records a read takes between looks at the cancellation.
constexpr size_t kRecordsBetweenLooks = 256;
// Numbers in a state, so that they can be added to.
constexpr int64_t kMaxStateNumber = int64_t{1} << 62;

}  // namespace

class Reader::ReadAttempt final : public queues::Attempt {
 public:
  ReadAttempt(Reader* reader, std::shared_ptr<Queue> queue, int64_t count,
              Cancellation* cancellation, Done done)
      : Attempt(cancellation),
        reader_(reader),
        queue_(std::move(queue)),
        count_(count),
        step_(cancellation),
        done_(std::move(done)) {}

  const std::shared_ptr<Queue>& queue() const { return queue_; }
  bool cancelled() const { return step_ != nullptr && step_->cancelled(); }
  size_t wanted() const {
    return static_cast<size_t>(count_) - records_.keys.size();
  }
  Records& records() { return records_; }
  // The dequeue for this read failed.
  void Fail(Status error) { error_ = std::move(error); }
  const Status& error() const { return error_; }
  static Status CancelledRead() {
    return Cancelled("Read operation was cancelled");
  }

 private:
  bool Try() override {
    const Result<bool> over = reader_->ReadSome(this);
    if (over.ok() && !*over) return false;
    reader_->Abandon(this);
    End(over.status());
    return true;
  }
  Status Withdraw() override {
    reader_->Abandon(this);
    return CancelledRead();
  }
  void Complete(Status status) override {
    reader_->StopIdleFetch();
    reader_->FetchWork();
    if (status.ok()) return done_(std::move(records_));
    done_(std::move(status));
  }

  Reader* const reader_;
  const std::shared_ptr<Queue> queue_;
  const int64_t count_;
  Cancellation* const step_;
  Records records_;
  Status error_;
  const Done done_;
};

// A dequeue for the first read. Shared by the reader and the queue's callback.
struct Reader::Fetch {
  ReadAttempt* attempt = nullptr;  // GUARDED_BY(mu_); null: it is over.
  std::shared_ptr<Queue> queue;
  Cancellation cancellation;
  bool starting = true;  // GUARDED_BY(mu_): Queue::Dequeue has not returned.
  std::optional<Result<std::vector<Element>>> got;  // GUARDED_BY(mu_)
};

void Reader::Read(std::shared_ptr<Queue> queue, int64_t count,
                  Cancellation* cancellation, Done done) {
  const std::vector<DType>& types = queue->options().types;
  if (types.size() != 1 || types[0] != DType::kString)
    return done(InvalidArgument(
        options_.kind, " '", options_.name,
        "': Expected queue with single string component, got ",
        queue->options().kind, " '", queue->options().name, "' with ",
        types.size(), types.size() == 1 ? " component of type " : " components",
        types.size() == 1 ? DTypeName(types[0]) : ""));
  Begin(0, std::make_shared<ReadAttempt>(this, std::move(queue), count,
                                         cancellation, std::move(done)));
  FetchWork();
}

// ---- Files ------------------------------------------------------------------

Result<bool> Reader::ReadSome(ReadAttempt* attempt) {
  while (attempt->wanted() > 0) {
    SLUICE_RETURN_IF_ERROR(attempt->error());
    if (!in_progress() && !next_work_) {
      needs_work_ = attempt;
      return false;
    }
    if (!open_) SLUICE_RETURN_IF_ERROR(OpenWork());
    const FilePosition before = format_->position();
    Records& records = attempt->records();
    auto outcome = FileFormat::Outcome::kRecord;
    for (size_t n = 1; outcome == FileFormat::Outcome::kRecord; ++n) {
      if (attempt->wanted() == 0) break;
      if (n % kRecordsBetweenLooks == 0 && attempt->cancelled()) {
        format_->Close();
        open_ = false;
        state_.position = before;
        return ReadAttempt::CancelledRead();
      }
      std::string key, value;
      const Result<FileFormat::Outcome> next = format_->Next(&key, &value);
      if (!next.ok()) {
        // With records: the next read meets the error.
        if (!records.keys.empty()) break;
        FinishWork();
        return next.status();
      }
      outcome = *next;
      if (outcome == FileFormat::Outcome::kEnd) break;
      records.keys.push_back(std::move(key));
      records.values.push_back(std::move(value));
    }
    if (outcome != FileFormat::Outcome::kRecord) FinishWork();
    state_.records_produced += static_cast<int64_t>(records.keys.size());
    if (!records.keys.empty()) return true;
  }
  return true;
}

// Opens the work item in progress, or begins the next. One that cannot be
// opened is not counted if it is not in progress, as in TensorFlow.
Status Reader::OpenWork() {
  if (in_progress()) {
    const Status s = format_->Open(state_.current_work,
                                   state_.position.value_or(FilePosition()));
    if (!s.ok()) FinishWork();
    open_ = s.ok();
    return s;
  }
  state_.current_work = *std::exchange(next_work_, std::nullopt);
  const Status s = format_->Open(state_.current_work, {});
  if (!s.ok()) {
    format_->Close();
    return s;
  }
  ++state_.work_started;
  open_ = true;
  return OkStatus();
}

void Reader::FinishWork() {
  format_->Close();
  open_ = false;
  state_.position.reset();
  state_.work_finished = state_.work_started;
}

// ---- Work -------------------------------------------------------------------

// Forgets a read that is over.
void Reader::Abandon(ReadAttempt* attempt) {
  if (needs_work_ == attempt) needs_work_ = nullptr;
  if (fetch_ != nullptr && fetch_->attempt == attempt)
    fetch_->attempt = nullptr;
}

// (In a loop, not by recursion: the queue may have work for all that wait.)
void Reader::FetchWork() {
  Ended ended;
  std::unique_lock<std::mutex> lock(mu_);
  for (;;) {
    if (fetch_ != nullptr && !fetch_->starting && fetch_->got) {
      Deliver(&ended);
      continue;
    }
    if (fetch_ != nullptr || needs_work_ == nullptr) break;
    const auto fetch = fetch_ = std::make_shared<Fetch>();
    fetch->attempt = std::exchange(needs_work_, nullptr);
    fetch->queue = fetch->attempt->queue();
    lock.unlock();
    fetch->queue->Dequeue(
        1, /*up_to=*/false, &fetch->cancellation,
        [self = shared_from_this(), fetch](Result<std::vector<Element>> got) {
          static_cast<Reader*>(self.get())->Fetched(fetch, std::move(got));
        });
    lock.lock();
    fetch->starting = false;
  }
  lock.unlock();
  Complete(ended);
}

void Reader::Fetched(const std::shared_ptr<Fetch>& fetch,
                     Result<std::vector<Element>> got) {
  {
    std::lock_guard<std::mutex> lock(mu_);
    fetch->got = std::move(got);
    if (fetch->starting) return;
  }
  FetchWork();
}

void Reader::Deliver(Ended* ended) {
  const std::shared_ptr<Fetch> fetch = std::exchange(fetch_, nullptr);
  ReadAttempt* const attempt = fetch->attempt;
  const Result<std::vector<Element>>& got = *fetch->got;
  if (got.ok()) {
    const Tensor& item = (*got)[0][0];
    if (item.num_elements() == 1) {
      next_work_ = item.raw_flat<std::string>()[0];
    } else if (attempt != nullptr) {
      attempt->Fail(InvalidArgument(
          options_.kind, " '", options_.name,
          "': Expected to dequeue a one-element string tensor, got shape ",
          item.shape().ToString()));
    }
  } else if (attempt != nullptr) {
    attempt->Fail(got.status());
  }
  Serve(ended);
}

void Reader::StopIdleFetch() {
  std::shared_ptr<Fetch> fetch;
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (fetch_ == nullptr || fetch_->attempt != nullptr || fetch_->got) return;
    if (needs_work_ != nullptr && needs_work_->queue() == fetch_->queue) {
      // It is for the next read then, and keeps its turn in the queue.
      fetch_->attempt = std::exchange(needs_work_, nullptr);
      return;
    }
    fetch = fetch_;
  }
  fetch->cancellation.Cancel();
}

// ---- State ------------------------------------------------------------------

int64_t Reader::records_produced() const {
  std::lock_guard<std::mutex> lock(mu_);
  return state_.records_produced;
}
int64_t Reader::work_units_completed() const {
  std::lock_guard<std::mutex> lock(mu_);
  return state_.work_finished;
}

void Reader::ResetNow() {
  format_->Close();
  open_ = false;
  state_ = ReaderState();
}
void Reader::Reset() {
  std::lock_guard<std::mutex> lock(mu_);
  ResetNow();
}

std::string Reader::SerializeState() const {
  std::lock_guard<std::mutex> lock(mu_);
  ReaderState state = state_;
  if (open_) state.position = format_->position();
  return state.Serialize();
}

Status Reader::RestoreState(std::string_view bytes) {
  Status status;
  Update([&](Ended*) {
    ResetNow();
    std::optional<ReaderState> state = ReaderState::Parse(bytes);
    status = state
                 ? Restore(*std::move(state))
                 : InvalidArgument(
                       "Could not parse state for ", options_.kind, " '",
                       options_.name,
                       "': ", absl::CEscape(std::string(bytes.substr(0, 100))));
  });
  return status;
}

Status Reader::Restore(ReaderState state) {
  const FilePosition at = state.position.value_or(FilePosition());
  for (const int64_t n : {state.work_started, state.work_finished,
                          state.records_produced, at.offset, at.number})
    if (n < 0 || n > kMaxStateNumber)
      return InvalidArgument("Unexpected ", n < 0 ? "negative" : "large",
                             " value when restoring in ", options_.kind, " '",
                             options_.name, "': ", n);
  const bool in_the_middle = state.work_started > state.work_finished;
  if (in_the_middle && (!format_->resumes() || !state.position))
    return InvalidArgument(
        "Inconsistent work started vs. finished when restoring in ",
        options_.kind, " '", options_.name, "': expected ",
        format_->resumes() ? "the position of the work in progress"
                           : "no work in progress",
        ", got ", state.work_started, " started, ", state.work_finished,
        " finished");
  if (!in_the_middle) state.position.reset();
  state_ = std::move(state);
  return OkStatus();
}

}  // namespace sluice::readers
