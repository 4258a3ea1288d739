// Readers: work items, such as names of files, in; records out. Steps share
// them (docs/design/033-readers.md).
#ifndef SLUICE_OPS_READERS_READER_H_
#define SLUICE_OPS_READERS_READER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ops/queues/attempts.h"
#include "ops/queues/queue.h"
#include "ops/readers/formats.h"
#include "ops/readers/reader_state.h"

namespace sluice::readers {

// Takes work items from queues, one at a time, and reads the records of each
// until it is finished. Owned by the resource manager of its task.
//
// Thread-safe. Reads are served in the order in which they came. One that needs
// a work item while the queue is empty waits without a thread, and so do those
// behind it; blocks of files are read under the lock, by the thread that starts
// the read or that enqueues what it waits for.
//
// A read that ends early loses nothing: the records that it had read are read
// again, and a work item that came for it too late is the next read's. An error
// in a file is the read's that meets it, without the records before it, which
// are an earlier read's; the file is given up, and the next read goes on with
// the next work item.
class Reader : public queues::Shared {
 public:
  struct Records {
    std::vector<std::string> keys, values;
  };
  using Done = std::function<void(Result<Records>)>;

  Reader(ReaderOptions options, std::unique_ptr<FileFormat> format)
      : Shared({true}),
        options_(std::move(options)),
        format_(std::move(format)) {}
  std::string TypeName() const override { return options_.kind; }
  const ReaderOptions& options() const { return options_; }

  // Reads up to `count` records, all of one work item, at least one, and calls
  // `done` once: with OutOfRange if the queue is closed and empty, Cancelled if
  // `cancellation` is cancelled. InvalidArgument unless the queue's elements
  // are single strings. REQUIRES: count >= 0.
  void Read(std::shared_ptr<queues::Queue> queue, int64_t count,
            Cancellation* cancellation, Done done);

  int64_t records_produced() const;
  // Work items that were read to their end or given up.
  int64_t work_units_completed() const;
  // As when it was made. A read that waits goes on waiting.
  void Reset();
  // Between two records, also in the middle of a file.
  std::string SerializeState() const;
  // InvalidArgument, and the reader is reset, if the bytes are no state of a
  // reader of this kind. Files are opened by the next read.
  Status RestoreState(std::string_view bytes);

 private:
  class ReadAttempt;
  struct Fetch;

  // For these, mu_ is held.
  // Whether the read is over; else it needs a work item.
  Result<bool> ReadSome(ReadAttempt* attempt);
  bool in_progress() const {
    return state_.work_started > state_.work_finished;
  }
  Status OpenWork();
  void FinishWork();
  void Abandon(ReadAttempt* attempt);
  void Deliver(queues::Shared::Ended* ended);
  void ResetNow();
  Status Restore(ReaderState state);

  // Without the lock.
  // Gets the work items that reads need.
  void FetchWork();
  void Fetched(const std::shared_ptr<Fetch>& fetch,
               Result<std::vector<queues::Element>> got);
  // Ends a dequeue that was made for a read that is over.
  void StopIdleFetch();

  const ReaderOptions options_;
  // All below is GUARDED_BY(mu_).
  const std::unique_ptr<FileFormat> format_;
  // The position is that at which the work item is to be opened, if one is in
  // progress and it is not open.
  ReaderState state_;
  bool open_ = false;
  std::optional<std::string> next_work_;  // Taken from a queue, not begun.
  ReadAttempt* needs_work_ = nullptr;     // The first, if it waits for work.
  std::shared_ptr<Fetch> fetch_;          // The dequeue in progress.
};

}  // namespace sluice::readers

#endif  // SLUICE_OPS_READERS_READER_H_
