// ReadRecords: a block of records of a file, from an offset on. Loops read
// files with it: what they have read is a number that they carry.
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "exec/core/kernel.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "ops/common/elements.h"
#include "ops/readers/formats.h"

namespace sluice {
namespace {

using readers::FileFormat;

// Keeps the files open whose next block is likely to be asked for. Thread-safe;
// different blocks are read concurrently.
class ReadRecordsKernel {
 public:
  static Result<std::shared_ptr<ReadRecordsKernel>> Make(const Node& n) {
    auto k = std::make_shared<ReadRecordsKernel>(n);
    if (k->max_records_ < 1)
      return InvalidArgument("max_records: expected at least 1, got ",
                             k->max_records_);
    readers::ReaderOptions& o = k->options_;
    const struct {
      const char* name;
      int64_t value, least;
    } sizes[] = {
        {"skip_header_lines", o.skip_header_lines, 0},
        {"header_bytes", o.header_bytes, 0},
        {"record_bytes", o.record_bytes, k->format_ == "fixed" ? 1 : 0},
        {"footer_bytes", o.footer_bytes, 0}};
    for (const auto& s : sizes)
      if (s.value < s.least || s.value > o.kMaxNumber)
        return InvalidArgument(s.name, ": expected at least ", s.least,
                               " and at most ", o.kMaxNumber, ", got ",
                               s.value);
    SLUICE_ASSIGN_OR_RETURN(
        o.compression,
        ParseRecordCompression(n.AttrOr<std::string>("compression_type", "")));
    if (k->format_ == "text" && o.compression != RecordCompression::kNone)
      return InvalidArgument("compression_type: expected '' for lines, got '",
                             n.AttrOr<std::string>("compression_type", ""),
                             "'");
    return k;
  }
  explicit ReadRecordsKernel(const Node& n)
      : format_(n.AttrOr<std::string>("format", "")),
        max_records_(n.IntAttr("max_records")),
        ignore_errors_(n.BoolAttr("ignore_errors")) {
    options_.name = n.name();
    options_.kind = "ReadRecords";
    options_.exact = true;
    options_.skip_header_lines = n.IntAttr("skip_header_lines");
    options_.header_bytes = n.IntAttr("header_bytes");
    options_.record_bytes = n.IntAttr("record_bytes");
    options_.footer_bytes = n.IntAttr("footer_bytes");
  }

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
    std::unique_ptr<FileFormat> file = Take({name, offset});
    if (file == nullptr) {
      file = MakeFormat();
      // (Nobody sees the numbers of records. Later lines are no headers.)
      SLUICE_RETURN_IF_ERROR(file->Open(
          name,
          {.offset = offset, .number = offset > 0 ? int64_t{1} << 62 : 0}));
    }
    int64_t bytes = 0;
    constexpr int64_t kBytes = int64_t{4} << 20;
    std::string key;
    while (static_cast<int64_t>(records->size()) < max_records_ &&
           bytes < kBytes) {
      std::string record;
      SLUICE_ASSIGN_OR_RETURN(const FileFormat::Outcome outcome,
                              file->Next(&key, &record));
      if (outcome == FileFormat::Outcome::kEnd) return kEnd;
      bytes += static_cast<int64_t>(record.size());
      records->push_back(std::move(record));
      if (outcome == FileFormat::Outcome::kLastRecord) return kEnd;
    }
    const int64_t next = file->position().offset;
    Keep({name, next}, std::move(file));
    return next;
  }
  std::unique_ptr<FileFormat> MakeFormat() const {
    if (format_ == "text") return readers::MakeTextLineFormat(options_);
    if (format_ == "fixed") return readers::MakeFixedLengthFormat(options_);
    return readers::MakeTFRecordFormat(options_);
  }
  std::unique_ptr<FileFormat> Take(const Place& place) {
    const std::lock_guard<std::mutex> lock(mu_);
    const auto it = open_.find(place);
    if (it == open_.end()) return nullptr;
    std::unique_ptr<FileFormat> file = std::move(it->second);
    open_.erase(it);
    return file;
  }
  void Keep(Place place, std::unique_ptr<FileFormat> file) {
    constexpr size_t kMaxOpen = 64;
    const std::lock_guard<std::mutex> lock(mu_);
    if (open_.size() >= kMaxOpen) open_.erase(open_.begin());
    open_.insert_or_assign(std::move(place), std::move(file));
  }

  const std::string format_;
  const int64_t max_records_;
  const bool ignore_errors_;
  readers::ReaderOptions options_;
  std::mutex mu_;
  std::map<Place, std::unique_ptr<FileFormat>> open_;  // GUARDED_BY(mu_)
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
    .Attr("format: {'tfrecord','text','fixed'} = 'tfrecord'")
    .Attr("max_records: int = 64")
    .Attr("compression_type: string = ''")
    .Attr("skip_header_lines: int = 0")
    .Attr("header_bytes: int = 0")
    .Attr("record_bytes: int = 0")
    .Attr("footer_bytes: int = 0")
    .Attr("ignore_errors: bool = false")
    .Stateful()
    .Family("io")
    .ReachesHost([](const Node&) -> std::string { return "reads a file"; })
    .Shape(ReadRecordsShape)
    .Kernel(CpuState<ReadRecordsKernel>(/*expensive=*/true))
    .NoGradient("strings have no derivative")
    .Doc(
        "Returns up to max_records records of a file from an offset (in the "
        "decompressed bytes; 0: the first) on, and the offset of the next "
        "record: -1 if there is none. The file has TFRecords, lines or records "
        "of record_bytes. If ignore_errors, it ends at its first corrupt "
        "record.");

}  // namespace
}  // namespace sluice
