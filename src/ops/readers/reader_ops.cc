// Ops on readers, in both spellings: with handles that are references to
// strings and with resources (docs/design/033-readers.md).
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "ops/common/elements.h"
#include "ops/queues/queue.h"
#include "ops/queues/queue_kernels.h"
#include "ops/readers/reader.h"
#include "ops/state/lookup.h"

namespace sluice {
namespace {

using queues::Queue;
using readers::FileFormat;
using readers::Reader;
using readers::ReaderOptions;

// ---- Making readers ---------------------------------------------------------

struct ReaderKind {
  const char* name;
  std::unique_ptr<FileFormat> (*make)(const ReaderOptions&);
};
constexpr ReaderKind kWholeFile = {"WholeFileReader", [](const ReaderOptions&) {
                                     return readers::MakeWholeFileFormat();
                                   }};
constexpr ReaderKind kIdentityReader = {
    "IdentityReader",
    [](const ReaderOptions&) { return readers::MakeIdentityFormat(); }};
constexpr ReaderKind kTextLine = {"TextLineReader",
                                  readers::MakeTextLineFormat};
constexpr ReaderKind kFixedLength = {"FixedLengthRecordReader",
                                     readers::MakeFixedLengthFormat};
constexpr ReaderKind kTFRecord = {"TFRecordReader",
                                  readers::MakeTFRecordFormat};

template <const ReaderKind& kind>
class MakeReaderKernel {
 public:
  static Result<std::shared_ptr<MakeReaderKernel>> Make(const Node& n) {
    auto k = std::make_shared<MakeReaderKernel>(n);
    ReaderOptions& o = k->options_;
    const struct {
      const char* name;
      int64_t least;
      int64_t* value;
    } numbers[] = {{"skip_header_lines", 0, &o.skip_header_lines},
                   {"header_bytes", 0, &o.header_bytes},
                   {"record_bytes", 1, &o.record_bytes},
                   {"footer_bytes", 0, &o.footer_bytes},
                   {"hop_bytes", 0, &o.hop_bytes}};
    for (const auto& number : numbers) {
      if (n.FindAttr(number.name) == nullptr) continue;
      *number.value = n.IntAttr(number.name);
      if (*number.value < number.least)
        return InvalidArgument(number.name, " must be >= ", number.least,
                               " not ", *number.value);
      if (*number.value > ReaderOptions::kMaxNumber)
        return InvalidArgument(number.name, ": expected at most ",
                               ReaderOptions::kMaxNumber, ", got ",
                               *number.value);
    }
    for (const char* name : {"encoding", "compression_type"})
      if (n.FindAttr(name) != nullptr) {
        SLUICE_ASSIGN_OR_RETURN(
            o.compression,
            ParseRecordCompression(n.AttrOr<std::string>(name, ""), name));
      }
    return k;
  }
  explicit MakeReaderKernel(const Node& n) : handle_(n) {
    options_.name = handle_.name();
    options_.kind = kind.name;
  }
  Status Run(KernelContext& ctx) {
    SLUICE_ASSIGN_OR_RETURN(
        ctx.output(0),
        handle_.Get(
            ctx,
            [this] {
              return std::make_shared<Reader>(options_, kind.make(options_));
            },
            [this](const Reader& r) { return CheckSame(r.options()); }));
    return OkStatus();
  }

 private:
  // Steps and sessions that share a reader must declare the same one.
  Status CheckSame(const ReaderOptions& o) const {
    if (std::string_view(o.kind) != options_.kind)
      return InvalidArgument("Expected ", options_.kind, ", found ", o.kind,
                             " '", options_.name, "'");
    const struct {
      const char* name;
      int64_t has, wanted;
    } numbers[] = {
        {"skip_header_lines", o.skip_header_lines, options_.skip_header_lines},
        {"header_bytes", o.header_bytes, options_.header_bytes},
        {"record_bytes", o.record_bytes, options_.record_bytes},
        {"footer_bytes", o.footer_bytes, options_.footer_bytes},
        {"hop_bytes", o.hop_bytes, options_.hop_bytes},
        {"compression", static_cast<int64_t>(o.compression),
         static_cast<int64_t>(options_.compression)}};
    for (const auto& n : numbers)
      if (n.has != n.wanted)
        return InvalidArgument("Shared reader '", options_.name, "' has ",
                               n.name, " ", n.has, " but requested ", n.name,
                               " ", n.wanted);
    return OkStatus();
  }

  state::SharedHandle<Reader> handle_;
  ReaderOptions options_;
};

// ---- Operations -------------------------------------------------------------

Result<std::shared_ptr<Reader>> ReaderInput(const KernelContext& ctx) {
  return ctx.resource<Reader>(0);
}

template <bool many>
struct ReaderReadKernel {
  explicit ReaderReadKernel(const Node&) {}
  Status Start(KernelContext& ctx, const DoneFn& done) const {
    SLUICE_ASSIGN_OR_RETURN(const std::shared_ptr<Reader> reader,
                            ReaderInput(ctx));
    SLUICE_ASSIGN_OR_RETURN(std::shared_ptr<Queue> queue,
                            ctx.resource<Queue>(1));
    int64_t count = 1;
    if constexpr (many) {
      SLUICE_ASSIGN_OR_RETURN(count,
                              array::IntScalar(ctx.input(2), "num_records"));
      if (count < 0)
        return InvalidArgument("num_records: expected >= 0, got ", count);
    }
    reader->Read(std::move(queue), count, ctx.step().cancellation,
                 [ctx = &ctx, done, reader](Result<Reader::Records> read) {
                   if (!read.ok()) return done(read.status());
                   done(SetOutputs(ctx, *std::move(read)));
                 });
    return OkStatus();
  }

 private:
  static Status SetOutputs(KernelContext* ctx, Reader::Records records) {
    int i = 0;
    for (std::vector<std::string>* column : {&records.keys, &records.values}) {
      if constexpr (many) {
        const auto n = static_cast<int64_t>(column->size());
        SLUICE_RETURN_IF_ERROR(ctx->Allocate(i, DType::kString, Shape({n})));
        std::move(column->begin(), column->end(),
                  ctx->output(i).raw_flat<std::string>().begin());
      } else {
        ctx->set_output(i, Tensor::Scalar(std::move((*column)[0])));
      }
      ++i;
    }
    return OkStatus();
  }
};

Status RunRecordsProduced(KernelContext& ctx) {
  SLUICE_ASSIGN_OR_RETURN(const auto reader, ReaderInput(ctx));
  ctx.set_output(0, Tensor::Scalar<int64_t>(reader->records_produced()));
  return OkStatus();
}

Status RunWorkUnitsCompleted(KernelContext& ctx) {
  SLUICE_ASSIGN_OR_RETURN(const auto reader, ReaderInput(ctx));
  ctx.set_output(0, Tensor::Scalar<int64_t>(reader->work_units_completed()));
  return OkStatus();
}

Status RunReaderReset(KernelContext& ctx) {
  SLUICE_ASSIGN_OR_RETURN(const auto reader, ReaderInput(ctx));
  reader->Reset();
  return OkStatus();
}

Status RunSerializeState(KernelContext& ctx) {
  SLUICE_ASSIGN_OR_RETURN(const auto reader, ReaderInput(ctx));
  ctx.set_output(0, Tensor::Scalar(reader->SerializeState()));
  return OkStatus();
}

Status RunRestoreState(KernelContext& ctx) {
  SLUICE_ASSIGN_OR_RETURN(const auto reader, ReaderInput(ctx));
  if (ctx.input(1).rank() != 0)
    return InvalidArgument("Reader state must be scalar, but had shape: ",
                           ctx.input(1).shape().ToString());
  return reader->RestoreState(ctx.input(1).raw_scalar<std::string>());
}

// ---- Shapes -----------------------------------------------------------------

Status ReadShape(ShapeContext& c) {
  c.set_all_outputs(PartialShape::Scalar());
  return OkStatus();
}

Status ReadUpToShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.RequireScalar(2));
  c.set_all_outputs(PartialShape({-1}));
  return OkStatus();
}

Status RestoreStateShape(ShapeContext& c) { return c.RequireScalar(1); }

// ---- Declarations -----------------------------------------------------------

constexpr const char* kReads = "strings have no derivative";

std::string ReadsFiles(const Node&) { return "reads files"; }

// Both spellings of an op, which differ in the handles.
#define SLUICE_READER(Name, kind, attrs, more, doc)                           \
  SLUICE_OP(Name)                                                             \
      .Output("reader_handle: Ref(string)") attrs.Shape(state::HandleShape)   \
      .Kernel(CpuState<MakeReaderKernel<kind>>())                             \
      .Stateful(kOwnsState)                                                   \
      .HostOnly()                                                             \
      .Family("io")                                                           \
      .NoGradient(kReads)                                                     \
      .Doc(doc);                                                              \
  SLUICE_OP(Name##V2)                                                         \
      .Output("reader_handle: resource") attrs more.Shape(state::HandleShape) \
      .Kernel(CpuState<MakeReaderKernel<kind>>())                             \
      .Stateful(kOwnsState)                                                   \
      .HostOnly()                                                             \
      .Family("io")                                                           \
      .NoGradient(kReads)                                                     \
      .Doc(doc)
#define SLUICE_READER_OP(Name, declaration)                    \
  SLUICE_OP(Name)                                              \
      .Input("reader_handle: Ref(string)")                     \
          declaration.AllowsUninitializedInput()               \
      .Stateful()                                              \
      .HostOnly()                                              \
      .Family("io")                                            \
      .NoGradient(kReads);                                     \
  SLUICE_OP(Name##V2)                                          \
      .Input("reader_handle: resource") declaration.Stateful() \
      .HostOnly()                                              \
      .Family("io")                                            \
      .NoGradient(kReads)
#define SLUICE_READ_OP(Name, declaration)                     \
  SLUICE_OP(Name)                                             \
      .Input("reader_handle: Ref(string)")                    \
      .Input("queue_handle: Ref(string)")                     \
          declaration.AllowsUninitializedInput()              \
      .Stateful()                                             \
      .Waits()                                                \
      .HostOnly()                                             \
      .ReachesHost(ReadsFiles)                                \
      .Family("io")                                           \
      .NoGradient(kReads);                                    \
  SLUICE_OP(Name##V2)                                         \
      .Input("reader_handle: resource")                       \
      .Input("queue_handle: resource") declaration.Stateful() \
      .Waits()                                                \
      .HostOnly()                                             \
      .ReachesHost(ReadsFiles)                                \
      .Family("io")                                           \
      .NoGradient(kReads)
#define SLUICE_NAMED \
  .Attr("container: string = ''").Attr("shared_name: string = ''")

SLUICE_READER(WholeFileReader, kWholeFile, SLUICE_NAMED, ,
              "Returns a reader whose records are the contents of the files "
              "that a queue names.");

SLUICE_READER(IdentityReader, kIdentityReader, SLUICE_NAMED, ,
              "Returns a reader whose records are the elements of a queue.");

SLUICE_READER(TextLineReader, kTextLine,
              .Attr("skip_header_lines: int = 0") SLUICE_NAMED, ,
              "Returns a reader whose records are the lines of the files that "
              "a queue names.");

SLUICE_READER(FixedLengthRecordReader, kFixedLength,
              .Attr("header_bytes: int = 0")
                  .Attr("record_bytes: int")
                  .Attr("footer_bytes: int = 0")
                  .Attr("hop_bytes: int = 0") SLUICE_NAMED,
              .Attr("encoding: string = ''"),
              "Returns a reader whose records are pieces of one size of the "
              "files that a queue names.");

SLUICE_READER(TFRecordReader, kTFRecord,
              SLUICE_NAMED.Attr("compression_type: string = ''"), ,
              "Returns a reader whose records are those of the TFRecord files "
              "that a queue names.");

SLUICE_READ_OP(ReaderRead,
               .Output("key: string")
                   .Output("value: string")
                   .Shape(ReadShape)
                   .Kernel(queues::WaitingKernel<ReaderReadKernel<false>>(
                       /*expensive=*/true))
                   .Doc("Takes the next record of a reader, which takes the "
                        "next work item of the queue when it needs one; waits "
                        "until there is one."));

SLUICE_READ_OP(ReaderReadUpTo,
               .Input("num_records: int64")
                   .Output("keys: string")
                   .Output("values: string")
                   .Shape(ReadUpToShape)
                   .Kernel(queues::WaitingKernel<ReaderReadKernel<true>>(
                       /*expensive=*/true))
                   .Doc("Takes up to num_records records of a reader, fewer at "
                        "the end of a work item."));

SLUICE_READER_OP(ReaderNumRecordsProduced,
                 .Output("records_produced: int64")
                     .Shape(ScalarShape)
                     .Kernel(Cpu(RunRecordsProduced))
                     .Doc("The number of records that a reader has read."));

SLUICE_READER_OP(ReaderNumWorkUnitsCompleted,
                 .Output("units_completed: int64")
                     .Shape(ScalarShape)
                     .Kernel(Cpu(RunWorkUnitsCompleted))
                     .Doc("The number of work items that a reader has "
                          "finished."));

SLUICE_READER_OP(ReaderReset, .Shape(NoOutputs)
                                  .Kernel(Cpu(RunReaderReset))
                                  .Doc("Returns a reader to its first state."));

SLUICE_READER_OP(ReaderSerializeState,
                 .Output("state: string")
                     .Shape(ScalarShape)
                     .Kernel(Cpu(RunSerializeState))
                     .Doc("The state of a reader, for ReaderRestoreState."));

SLUICE_READER_OP(ReaderRestoreState,
                 .Input("state: string")
                     .Shape(RestoreStateShape)
                     .Kernel(Cpu(RunRestoreState))
                     .Doc("Sets a reader to a state that "
                          "ReaderSerializeState returned."));

#undef SLUICE_READER
#undef SLUICE_READER_OP
#undef SLUICE_READ_OP
#undef SLUICE_NAMED

}  // namespace
}  // namespace sluice
