// ReadRecords: a block of records of a file, from an offset on. Loops read
// files with it: what they have read is a number that they carry.
#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "exec/core/kernel.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "io/records.h"
#include "ops/common/elements.h"

namespace sluice {
namespace {

// Keeps the files open whose next block is likely to be asked for. Thread-safe;
// different blocks are read concurrently.
class ReadRecordsKernel {
 public:
  static Result<std::shared_ptr<ReadRecordsKernel>> Make(const Node& n) {
    auto k = std::make_shared<ReadRecordsKernel>(n);
    if (k->max_records_ < 1)
      return InvalidArgument("max_records: expected at least 1, got ",
                             k->max_records_);
    SLUICE_ASSIGN_OR_RETURN(
        k->options_.compression,
        ParseRecordCompression(n.AttrOr<std::string>("compression_type", "")));
    return k;
  }
  explicit ReadRecordsKernel(const Node& n)
      : max_records_(n.IntAttr("max_records")),
        ignore_errors_(n.BoolAttr("ignore_errors")) {}

  Status Run(KernelContext& ctx) {
    if (ctx.input(0).rank() != 0)
      return InvalidArgument("filename: expected a scalar, got shape ",
                             ctx.input(0).shape().ToString());
    const auto& name = ctx.input(0).raw_scalar<std::string>();
    SLUICE_ASSIGN_OR_RETURN(const int64_t offset,
                            array::IntScalar(ctx.input(1), "offset"));
    std::vector<std::string> records;
    Result<int64_t> next = Read(name, offset, &records);
    if (!next.ok()) {
      if (!ignore_errors_ || next.status().code() != StatusCode::kDataLoss)
        return next.status();
      next = kEnd;
    }
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(
        0, DType::kString, Shape({static_cast<int64_t>(records.size())})));
    std::move(records.begin(), records.end(),
              ctx.output(0).raw_flat<std::string>().begin());
    ctx.set_output(1, Tensor::Scalar<int64_t>(*next));
    return OkStatus();
  }

 private:
  static constexpr int64_t kEnd = -1;
  using Place = std::pair<std::string, int64_t>;

  // Appends the records from `offset` on, and returns the offset of the next.
  // After an error, those before it have been appended.
  Result<int64_t> Read(const std::string& name, int64_t offset,
                       std::vector<std::string>* records) {
    if (offset < 0)
      return InvalidArgument("offset: expected >= 0, got ", offset);
    std::unique_ptr<RecordReader> reader = Take({name, offset});
    if (reader == nullptr) {
      SLUICE_ASSIGN_OR_RETURN(reader, RecordReader::Open(name, options_));
      SLUICE_RETURN_IF_ERROR(reader->SkipTo(offset));
    }
    int64_t bytes = 0;
    constexpr int64_t kBytes = int64_t{4} << 20;
    while (static_cast<int64_t>(records->size()) < max_records_ &&
           bytes < kBytes) {
      std::string_view record;
      const Status s = reader->Read(&record);
      if (s.code() == StatusCode::kOutOfRange) return kEnd;
      SLUICE_RETURN_IF_ERROR(s);
      records->emplace_back(record);
      bytes += static_cast<int64_t>(record.size());
    }
    const int64_t next = reader->offset();
    Keep({name, next}, std::move(reader));
    return next;
  }
  std::unique_ptr<RecordReader> Take(const Place& place) {
    const std::lock_guard<std::mutex> lock(mu_);
    const auto it = open_.find(place);
    if (it == open_.end()) return nullptr;
    std::unique_ptr<RecordReader> reader = std::move(it->second);
    open_.erase(it);
    return reader;
  }
  void Keep(Place place, std::unique_ptr<RecordReader> reader) {
    constexpr size_t kMaxOpen = 64;
    const std::lock_guard<std::mutex> lock(mu_);
    if (open_.size() >= kMaxOpen) open_.erase(open_.begin());
    open_.insert_or_assign(std::move(place), std::move(reader));
  }

  const int64_t max_records_;
  const bool ignore_errors_;
  RecordOptions options_;
  std::mutex mu_;
  std::map<Place, std::unique_ptr<RecordReader>> open_;  // GUARDED_BY(mu_)
};

Status ReadRecordsShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.RequireScalar(0));
  SLUICE_RETURN_IF_ERROR(c.RequireScalar(1));
  c.set_output(0, PartialShape({-1}));
  c.set_output(1, PartialShape::Scalar());
  return OkStatus();
}

SLUICE_OP(ReadRecords)
    .Input("filename: string")
    .Input("offset: int64")
    .Output("records: string")
    .Output("next_offset: int64")
    .Attr("max_records: int = 64")
    .Attr("compression_type: string = ''")
    .Attr("ignore_errors: bool = false")
    .Stateful()
    .Family("io")
    .ReachesHost([](const Node&) -> std::string { return "reads a file"; })
    .Shape(ReadRecordsShape)
    .Kernel(CpuState<ReadRecordsKernel>(/*expensive=*/true))
    .NoGradient("strings have no derivative")
    .Doc(
        "Returns up to max_records records of a TFRecord file, from an offset "
        "(in the decompressed bytes; 0: the first) on, and the offset of the "
        "next record: -1 if there is none. If ignore_errors, a file ends at "
        "its first corrupt record.");

}  // namespace
}  // namespace sluice
