#include "checkpoint/bundle_writer.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "base/failpoint.h"
#include "base/parallel.h"
#include "checkpoint/proto/checkpoint.pb.h"
#include "checkpoint/stored_slice.h"
#include "checkpoint/table.h"
#include "graph/tensor_proto.h"
#include "io/crc32c.h"
#include "io/file.h"
#include "io/glob.h"

namespace sluice {
namespace {

// A chunk's checksum is computed right before it is copied, while it is in the
// processor's cache.
constexpr size_t kCopiedBytes = 256 << 10;
// From here on a second thread is worth its while.
constexpr size_t kSharedBytes = 4 << 20;
// TensorFlow's number of the format.
constexpr int kBundleVersion = 1;

std::string HeaderOf(int shards) {
  proto::BundleHeaderProto header;
  header.set_num_shards(shards);
  header.set_endianness(std::endian::native == std::endian::little
                            ? proto::BundleHeaderProto::LITTLE
                            : proto::BundleHeaderProto::BIG);
  header.mutable_version()->set_producer(kBundleVersion);
  return header.SerializeAsString();
}

void AppendVarint(uint64_t value, std::string* to) {
  for (; value >= 0x80; value >>= 7)
    to->push_back(static_cast<char>(value | 0x80));
  to->push_back(static_cast<char>(value));
}

// Characters with a meaning in patterns, made plain.
std::string Escaped(const std::string& path) {
  std::string out;
  for (const char c : path) {
    if (std::strchr("*?[\\", c) != nullptr) out.push_back('\\');
    out.push_back(c);
  }
  return out;
}

Result<std::vector<std::string>> DataFiles(const std::string& prefix) {
  return MatchingFiles(
      absl::StrCat(Escaped(prefix), ".data-\?\?\?\?\?-of-\?\?\?\?\?"));
}

// What the names of the data files end in, if the bundle has so many.
std::string EndingOf(int shards) { return absl::StrFormat("-of-%05d", shards); }

// How many data files the bundle at `prefix` has; 0 if there is no index.
// DataLoss if the index is corrupt.
Result<int> LiveShards(const std::string& prefix) {
  const auto table = Table::Open(BundleIndexName(prefix));
  if (table.status().code() == StatusCode::kNotFound) return 0;
  SLUICE_RETURN_IF_ERROR(table.status());
  SLUICE_ASSIGN_OR_RETURN(const auto value, (*table)->Lookup(""));
  proto::BundleHeaderProto header;
  if (!value.has_value() || !header.ParseFromString(*value) ||
      header.num_shards() < 1 || header.num_shards() > kMaxBundleShards)
    return DataLoss("file '", BundleIndexName(prefix),
                    "': expected a header, got something else");
  return header.num_shards();
}

// At least so many data files, and not as many as the bundle has that is to be
// replaced: then none of them has the name of one of its files. (Those that are
// not needed are empty.) An error means that this cannot be known, and that
// nothing may be renamed.
Result<int> FreeShards(const std::string& prefix, int at_least) {
  const Result<int> live = LiveShards(prefix);
  if (live.ok()) return *live == at_least ? at_least + 1 : at_least;
  if (live.status().code() != StatusCode::kDataLoss) return live.status();
  // Nobody knows which files a corrupt index refers to: all are left alone.
  SLUICE_ASSIGN_OR_RETURN(const auto files, DataFiles(prefix));
  int shards = at_least;
  while (std::any_of(files.begin(), files.end(), [&](const std::string& path) {
    return absl::EndsWith(path, EndingOf(shards));
  }))
    ++shards;
  return shards;
}

// Gives the bundle its index, after its data files are complete under their
// names, and removes what the index before referred to.
Status CommitIndex(const std::string& prefix, int used, int shards,
                   std::map<std::string, std::string> entries, bool sync) {
  for (int i = used; i < shards; ++i)
    SLUICE_RETURN_IF_ERROR(
        ReplaceFile(BundleDataName(prefix, i, shards), "", sync));
  entries[""] = HeaderOf(shards);
  SLUICE_ASSIGN_OR_RETURN(const std::string table,
                          MakeTable(entries, TableCompression::kNone));
  if (sync) SLUICE_RETURN_IF_ERROR(SyncFolderOf(prefix));
  SLUICE_RETURN_IF_ERROR(ReplaceFile(BundleIndexName(prefix), table, sync));
  SLUICE_ASSIGN_OR_RETURN(const auto files, DataFiles(prefix));
  for (const std::string& path : files)
    if (!absl::EndsWith(path, EndingOf(shards))) unlink(path.c_str());
  return OkStatus();
}

// After an error: whether it is certain that the index with so many data files
// was not written.
bool NotLive(const std::string& prefix, int shards) {
  const Result<int> live = LiveShards(prefix);
  return live.ok() && *live != shards;
}

// Removes the data files of an index that was not written.
void RemoveDataFiles(const std::string& prefix, int shards) {
  for (int i = 0; i < shards; ++i)
    unlink(BundleDataName(prefix, i, shards).c_str());
}

}  // namespace

std::string BundleIndexName(const std::string& prefix) {
  return prefix + ".index";
}
std::string BundleDataName(const std::string& prefix, int shard, int shards) {
  return ShardedFilename(prefix + ".data", shard, shards);
}

Result<std::vector<std::string>> CheckpointFiles(const std::string& path) {
  const std::string prefix = LocalPath(path);
  SLUICE_ASSIGN_OR_RETURN(std::vector<std::string> files, DataFiles(prefix));
  std::error_code ignored;
  for (const std::string& file : {BundleIndexName(prefix), prefix})
    if (std::filesystem::is_regular_file(file, ignored)) files.push_back(file);
  // Parts of version 1.
  SLUICE_ASSIGN_OR_RETURN(const auto parts,
                          MatchingFiles(absl::StrCat(
                              Escaped(prefix), "-\?\?\?\?\?-of-\?\?\?\?\?")));
  files.insert(files.end(), parts.begin(), parts.end());
  std::sort(files.begin(), files.end());
  return files;
}

Result<std::unique_ptr<BundleWriter>> BundleWriter::Open(
    const std::string& path, const BundleWriterOptions& options) {
  const std::string prefix = LocalPath(path);
  if (prefix.empty())
    return InvalidArgument("checkpoint: expected a path, got \"\"");
  SLUICE_ASSIGN_OR_RETURN(
      std::unique_ptr<PendingFile> data,
      PendingFile::Create(BundleDataName(prefix, 0, 1), options.sync));
  return std::unique_ptr<BundleWriter>(
      new BundleWriter(prefix, options, std::move(data)));
}

BundleWriter::BundleWriter(std::string prefix,
                           const BundleWriterOptions& options,
                           std::unique_ptr<PendingFile> data)
    : prefix_(std::move(prefix)), options_(options), data_(std::move(data)) {}
BundleWriter::~BundleWriter() = default;

Status BundleWriter::CheckOpen() const {
  if (finished_)
    return FailedPrecondition("writing '", prefix_,
                              "': expected an open writer, got a finished one");
  if (begun_ != nullptr)
    return FailedPrecondition("writing '", prefix_, "': expected the end of '",
                              begun_->key, "', got something else");
  return OkStatus();
}

Status BundleWriter::CheckKey(const std::string& key) const {
  SLUICE_RETURN_IF_ERROR(CheckOpen());
  if (key.empty())
    return InvalidArgument("key: expected the name of a tensor, got \"\"");
  if (entries_.count(key) != 0 || divided_.count(key) != 0)
    return InvalidArgument("Adding duplicate key: ", key);
  return OkStatus();
}

void BundleWriter::AddEntry(const std::string& key, DType dtype,
                            const Shape& shape, int64_t offset, uint32_t crc) {
  proto::BundleEntryProto entry;
  entry.set_dtype(static_cast<proto::DataType>(dtype));
  ShapeToProto(shape, entry.mutable_shape());
  entry.set_offset(offset);
  entry.set_size(data_->size() - offset);
  entry.set_crc32c(MaskCrc(crc));
  entries_[key] = entry.SerializeAsString();
}

// The lengths, the checksum of them as words, and the strings. The checksum of
// the tensor is over the words, that checksum and the strings.
Status BundleWriter::WriteStrings(const Tensor& tensor, uint32_t* crc) {
  std::string lengths;
  for (const std::string& s : tensor.raw_flat<std::string>()) {
    AppendVarint(s.size(), &lengths);
    const uint64_t length = s.size();
    const size_t bytes = length <= UINT32_MAX ? 4 : 8;
    *crc = Crc32c({reinterpret_cast<const char*>(&length), bytes}, *crc);
  }
  const uint32_t of_lengths = MaskCrc(*crc);
  const std::string_view word(reinterpret_cast<const char*>(&of_lengths), 4);
  *crc = Crc32c(word, *crc);
  lengths.append(word);
  SLUICE_RETURN_IF_ERROR(data_->Append(lengths));
  for (const std::string& s : tensor.raw_flat<std::string>()) {
    *crc = Crc32c(s, *crc);
    SLUICE_RETURN_IF_ERROR(data_->Append(s));
  }
  return OkStatus();
}

Status BundleWriter::Add(const std::string& key, const Tensor& tensor) {
  if (!tensor.valid())
    return Keep([&] { return Annotate(tensor.status(), key); });
  if (tensor.dtype() != DType::kString) {
    SLUICE_RETURN_IF_ERROR(BeginTensor(key, tensor.dtype(), tensor.shape()));
    if (!tensor.in_host_memory())
      return Keep([&] {
        return InvalidArgument("tensor '", key,
                               "': expected one in host "
                               "memory, got a device's");
      });
    SLUICE_RETURN_IF_ERROR(AppendBytes({tensor.raw<char>(), tensor.bytes()}));
    return EndTensor();
  }
  return Keep([&]() -> Status {
    SLUICE_RETURN_IF_ERROR(CheckKey(key));
    const int64_t offset = data_->size();
    uint32_t crc = 0;
    SLUICE_RETURN_IF_ERROR(WriteStrings(tensor, &crc));
    AddEntry(key, tensor.dtype(), tensor.shape(), offset, crc);
    return OkStatus();
  });
}

Status BundleWriter::BeginTensor(const std::string& key, DType dtype,
                                 const Shape& shape) {
  return Keep([&]() -> Status {
    SLUICE_RETURN_IF_ERROR(CheckKey(key));
    if (!IsPlain(dtype))
      return Unimplemented("tensor '", key,
                           "': expected a type whose elements "
                           "have a meaning outside of this process, got ",
                           DTypeName(dtype));
    SLUICE_RETURN_IF_ERROR(shape.status());
    int64_t bytes = 0;
    if (__builtin_mul_overflow(shape.num_elements(),
                               static_cast<int64_t>(DTypeSize(dtype)), &bytes))
      return InvalidArgument("tensor '", key,
                             "': expected a shape of less "
                             "than 2^63 bytes, got ",
                             shape.ToString());
    begun_ = std::make_unique<Begun>(
        Begun{key, dtype, shape, data_->size(), bytes, 0});
    return OkStatus();
  });
}

Status BundleWriter::AppendBytes(std::string_view bytes) {
  return Keep([&]() -> Status {
    if (begun_ == nullptr)
      return FailedPrecondition("writing '", prefix_,
                                "': expected BeginTensor before its bytes");
    if (static_cast<int64_t>(bytes.size()) > begun_->left)
      return InvalidArgument("tensor '", begun_->key, "': expected ",
                             begun_->left, " more bytes, got ", bytes.size());
    begun_->left -= static_cast<int64_t>(bytes.size());
    const int threads =
        options_.threads > 0 ? options_.threads : IntraOpThreads();
    if (threads > 1 && bytes.size() >= kSharedBytes) {
      Status written;
      const ScopedIntraOpThreads use(2);
      ParallelFor(2, 1, [&](int64_t begin, int64_t end) {
        for (int64_t task = begin; task < end; ++task) {
          if (task == 0)
            written = data_->Append(bytes);
          else
            begun_->crc = Crc32c(bytes, begun_->crc);
        }
      });
      return written;
    }
    while (!bytes.empty()) {
      const std::string_view chunk = bytes.substr(0, kCopiedBytes);
      begun_->crc = Crc32c(chunk, begun_->crc);
      SLUICE_RETURN_IF_ERROR(data_->Append(chunk));
      bytes.remove_prefix(chunk.size());
    }
    return OkStatus();
  });
}

Status BundleWriter::EndTensor() {
  return Keep([&]() -> Status {
    if (begun_ == nullptr)
      return FailedPrecondition("writing '", prefix_,
                                "': expected BeginTensor before its end");
    if (begun_->left != 0)
      return InvalidArgument("tensor '", begun_->key, "': expected ",
                             begun_->left, " more bytes, got its end");
    AddEntry(begun_->key, begun_->dtype, begun_->shape, begun_->offset,
             begun_->crc);
    begun_ = nullptr;
    return OkStatus();
  });
}

Status BundleWriter::AddSlice(const std::string& key, const Shape& shape,
                              const TensorSlice& slice, const Tensor& part) {
  const Result<Shape> fits = slice.ShapeOf(shape);
  const Status wrong = Keep([&]() -> Status {
    SLUICE_RETURN_IF_ERROR(
        Annotate(fits.status(), absl::StrCat("tensor '", key, "'")));
    if (!(part.shape() == *fits))
      return InvalidArgument("tensor '", key, "', slice '", slice.ToString(),
                             "': expected shape ", fits->ToString(), ", got ",
                             part.shape().ToString());
    return part.status();
  });
  SLUICE_RETURN_IF_ERROR(wrong);
  if (slice.Covers(shape)) return Add(key, part);
  SLUICE_RETURN_IF_ERROR(Keep([&]() -> Status {
    if (entries_.count(key) != 0)
      return InvalidArgument("Adding duplicate key: ", key);
    std::unique_ptr<proto::BundleEntryProto>& whole = divided_[key];
    const auto dtype = static_cast<proto::DataType>(part.dtype());
    if (whole == nullptr) {
      whole = std::make_unique<proto::BundleEntryProto>();
      whole->set_dtype(dtype);
      ShapeToProto(shape, whole->mutable_shape());
    }
    SLUICE_ASSIGN_OR_RETURN(const PartialShape known,
                            ShapeFromProto(whole->shape()));
    if (whole->dtype() != dtype || !(known == PartialShape(shape)))
      return InvalidArgument(
          "tensor '", key, "', slice '", slice.ToString(),
          "': expected the type and shape of the other slices, ",
          DTypeName(static_cast<DType>(whole->dtype())), known.ToString(),
          ", got ", DTypeName(part.dtype()), shape.ToString());
    SliceToProto(slice, whole->add_slices());
    return OkStatus();
  }));
  return Add(SliceKey(key, slice), part);
}

Status BundleWriter::Finish() {
  return Keep([&]() -> Status {
    SLUICE_RETURN_IF_ERROR(CheckOpen());
    finished_ = true;
    for (const auto& [key, entry] : divided_)
      entries_[key] = entry->SerializeAsString();
    SLUICE_RETURN_IF_ERROR(data_->Flush());
    SLUICE_ASSIGN_OR_RETURN(const int shards, FreeShards(prefix_, 1));
    SLUICE_RETURN_IF_ERROR(data_->CommitTo(BundleDataName(prefix_, 0, shards)));
    const Status s =
        CommitIndex(prefix_, 1, shards, std::move(entries_), options_.sync);
    if (!s.ok() && NotLive(prefix_, shards)) RemoveDataFiles(prefix_, shards);
    return s;
  });
}

Status MergeBundles(const std::vector<std::string>& parts,
                    const std::string& destination, bool allow_missing,
                    const BundleWriterOptions& options) {
  const std::string merged = LocalPath(destination);
  if (merged.empty())
    return InvalidArgument("checkpoint: expected a path, got \"\"");
  std::map<std::string, proto::BundleEntryProto> entries;
  struct Move {
    std::string from;
    int to;
  };
  std::vector<Move> moves;
  std::vector<std::string> indices;
  for (const std::string& part : parts) {
    const std::string prefix = LocalPath(part);
    auto opened = Table::Open(BundleIndexName(prefix));
    if (allow_missing && opened.status().code() == StatusCode::kNotFound)
      continue;
    SLUICE_RETURN_IF_ERROR(opened.status());
    indices.push_back(BundleIndexName(prefix));
    const auto first = static_cast<int>(moves.size());
    int shards = 0;
    SLUICE_RETURN_IF_ERROR((*opened)->ForEach(
        [&](std::string_view key, std::string_view value) -> Status {
          const std::string at =
              absl::StrCat("file '", BundleIndexName(prefix), "'");
          if (key.empty()) {
            proto::BundleHeaderProto header;
            if (!header.ParseFromArray(value.data(),
                                       static_cast<int>(value.size())) ||
                header.num_shards() < 1 ||
                header.num_shards() > kMaxBundleShards)
              return DataLoss(at, ": expected a header, got something else");
            shards = header.num_shards();
            return OkStatus();
          }
          proto::BundleEntryProto entry;
          if (!entry.ParseFromArray(value.data(),
                                    static_cast<int>(value.size())) ||
              entry.shard_id() < 0 || entry.shard_id() >= shards)
            return DataLoss(at, ": expected an entry of tensor '",
                            std::string(key), "', got something else");
          const auto [it, is_new] = entries.try_emplace(std::string(key));
          if (is_new) {
            if (entry.slices().empty())
              entry.set_shard_id(first + entry.shard_id());
            it->second = std::move(entry);
          } else if (entry.slices().empty() || it->second.slices().empty()) {
            return InvalidArgument(
                "Duplicate tensor keyed by ", std::string(key),
                " encountered, when merging prefix: ", prefix);
          } else {
            if (entry.dtype() != it->second.dtype() ||
                entry.shape().SerializeAsString() !=
                    it->second.shape().SerializeAsString())
              return InvalidArgument("tensor '", std::string(key),
                                     "': expected parts of the same type and "
                                     "shape, got others when merging prefix ",
                                     prefix);
            it->second.mutable_slices()->MergeFrom(entry.slices());
          }
          return OkStatus();
        }));
    for (int i = 0; i < shards; ++i)
      moves.push_back({BundleDataName(prefix, i, shards), first + i});
    // (One more may be needed, see FreeShards.)
    if (moves.size() >= kMaxBundleShards)
      return InvalidArgument("checkpoint '", merged, "': expected less than ",
                             kMaxBundleShards, " data files to merge, got ",
                             moves.size());
  }
  if (indices.empty())
    return InvalidArgument(
        "At least one prefix checkpoint file must exist, but none existed, "
        "when merging into '",
        merged, "'");
  const auto used = static_cast<int>(moves.size());
  SLUICE_ASSIGN_OR_RETURN(const int shards,
                          FreeShards(merged, std::max(used, 1)));
  const auto name_of = [&](const Move& move) {
    return BundleDataName(merged, move.to, shards);
  };
  size_t moved = 0;
  const Status s = [&]() -> Status {
    for (; moved < moves.size(); ++moved) {
      SLUICE_RETURN_IF_ERROR(SLUICE_FAILPOINT("checkpoint.rename").error);
      const std::string& from = moves[moved].from;
      if (rename(from.c_str(), name_of(moves[moved]).c_str()) != 0)
        return FileError("renaming to the parts of a checkpoint", from);
    }
    std::map<std::string, std::string> serialized;
    for (const auto& [key, entry] : entries)
      serialized[key] = entry.SerializeAsString();
    return CommitIndex(merged, used, shards, std::move(serialized),
                       options.sync);
  }();
  if (!s.ok()) {
    // The parts get their files back, so that merging can be tried again.
    if (moved < moves.size() || NotLive(merged, shards)) {
      while (moved > 0) {
        const Move& move = moves[--moved];
        (void)rename(name_of(move).c_str(), move.from.c_str());
      }
      for (int i = used; i < shards; ++i)
        unlink(BundleDataName(merged, i, shards).c_str());
    }
    return s;
  }
  for (const std::string& index : indices)
    if (index != BundleIndexName(merged)) unlink(index.c_str());
  return OkStatus();
}

}  // namespace sluice
