// RecordInput: batches of records of many files, in random order.
#include <algorithm>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "exec/core/kernel.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "io/glob.h"
#include "io/records.h"

namespace sluice {
namespace {

// The records of all files, epoch after epoch: each is drawn once in an epoch,
// at random from a buffer, which is filled from several files in turn. The same
// seed gives the same order (TensorFlow's depends on its threads). Steps take
// turns.
class RecordInputKernel {
 public:
  static Result<std::shared_ptr<RecordInputKernel>> Make(const Node& n) {
    auto k = std::make_shared<RecordInputKernel>(n);
    const struct {
      const char* name;
      int64_t value, max;
    } positive[] = {{"batch_size", k->batch_, int64_t{1} << 24},
                    {"file_buffer_size", k->buffer_size_, int64_t{1} << 40},
                    {"file_parallelism", k->parallelism_, 1 << 16}};
    for (const auto& p : positive)
      if (p.value < 1 || p.value > p.max)
        return InvalidArgument(p.name, ": expected 1 to ", p.max, ", got ",
                               p.value);
    if (!(k->shift_ >= 0 && k->shift_ <= 1))
      return InvalidArgument("file_shuffle_shift_ratio: expected 0 to 1, got ",
                             k->shift_);
    SLUICE_ASSIGN_OR_RETURN(
        k->options_.compression,
        ParseRecordCompression(n.AttrOr<std::string>("compression_type", "")));
    return k;
  }
  explicit RecordInputKernel(const Node& n)
      : pattern_(n.AttrOr<std::string>("file_pattern", "")),
        batch_(n.IntAttr("batch_size")),
        buffer_size_(n.IntAttr("file_buffer_size")),
        parallelism_(n.IntAttr("file_parallelism")),
        shift_(n.AttrOr<float>("file_shuffle_shift_ratio", 0)),
        random_(static_cast<uint64_t>(n.IntAttr("file_random_seed"))) {}

  Status Run(KernelContext& ctx) {
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DType::kString, Shape({batch_})));
    const std::lock_guard<std::mutex> lock(mu_);
    for (std::string& record : ctx.output(0).raw_flat<std::string>()) {
      if (ctx.cancelled()) return Cancelled("the step was cancelled");
      SLUICE_RETURN_IF_ERROR(Draw(&record));
    }
    return OkStatus();
  }

 private:
  Status Draw(std::string* record) {
    SLUICE_RETURN_IF_ERROR(FillBuffer());
    if (buffer_.empty()) {
      SLUICE_RETURN_IF_ERROR(BeginEpoch());
      SLUICE_RETURN_IF_ERROR(FillBuffer());
    }
    if (buffer_.empty())
      return OutOfRange("file_pattern '", pattern_,
                        "': expected files with records, got only empty ones");
    std::swap(buffer_[random_() % buffer_.size()], buffer_.back());
    *record = std::move(buffer_.back());
    buffer_.pop_back();
    return OkStatus();
  }

  Status BeginEpoch() {
    if (files_.empty()) {
      SLUICE_ASSIGN_OR_RETURN(files_, MatchingFiles(pattern_));
      if (files_.empty())
        return NotFound("file_pattern: expected a pattern of existing files, ",
                        "got '", pattern_, "'");
    }
    waiting_ = files_;
    std::shuffle(waiting_.begin(), waiting_.end(), random_);
    const auto by = static_cast<std::ptrdiff_t>(
        static_cast<double>(shift_) * static_cast<double>(waiting_.size()) *
        static_cast<double>(epoch_++));
    std::rotate(
        waiting_.begin(),
        waiting_.begin() + by % static_cast<std::ptrdiff_t>(waiting_.size()),
        waiting_.end());
    return OkStatus();
  }

  // Takes a record of each open file in turn until the buffer is full or the
  // epoch has no more.
  Status FillBuffer() {
    while (static_cast<int64_t>(buffer_.size()) < buffer_size_) {
      while (static_cast<int64_t>(open_.size()) < parallelism_ &&
             !waiting_.empty()) {
        const std::string name = std::move(waiting_.back());
        waiting_.pop_back();
        SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<RecordReader> reader,
                                RecordReader::Open(name, options_));
        open_.push_back(std::move(reader));
      }
      if (open_.empty()) return OkStatus();
      next_ = next_ < open_.size() ? next_ : 0;
      std::string_view record;
      const Status s = open_[next_]->Read(&record);
      if (s.ok()) {
        buffer_.emplace_back(record);
        ++next_;
        continue;
      }
      // A corrupt file fails this step; later ones go on without it.
      open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(next_));
      if (s.code() != StatusCode::kOutOfRange) return s;
    }
    return OkStatus();
  }

  const std::string pattern_;
  const int64_t batch_, buffer_size_, parallelism_;
  const float shift_;
  RecordOptions options_;
  std::mutex mu_;  // Guards all below.
  std::mt19937_64 random_;
  std::vector<std::string> files_;    // Empty before the first epoch.
  std::vector<std::string> waiting_;  // Of this epoch, not opened yet.
  std::vector<std::unique_ptr<RecordReader>> open_;
  size_t next_ = 0;  // Of open_.
  std::vector<std::string> buffer_;
  int64_t epoch_ = 0;
};

Status RecordInputShape(ShapeContext& c) {
  const int64_t batch = c.node().IntAttr("batch_size");
  if (batch < 1)
    return InvalidArgument("batch_size: expected at least 1, got ", batch);
  c.set_output(0, PartialShape({batch}));
  return OkStatus();
}

SLUICE_OP(RecordInput)
    .Output("records: string")
    .Attr("file_pattern: string")
    .Attr("file_random_seed: int = 301")
    .Attr("file_shuffle_shift_ratio: float = 0")
    .Attr("file_buffer_size: int = 10000")
    .Attr("file_parallelism: int = 16")
    .Attr("batch_size: int = 32")
    .Attr("compression_type: string = ''")
    .Stateful()
    .Family("data_flow")
    .ReachesHost([](const Node&) -> std::string { return "reads files"; })
    .Shape(RecordInputShape)
    .Kernel(CpuState<RecordInputKernel>(/*expensive=*/true))
    .NoGradient("strings have no derivative")
    .Doc(
        "Returns a batch of records of many files in random order, each once "
        "in an epoch.");

}  // namespace
}  // namespace sluice
