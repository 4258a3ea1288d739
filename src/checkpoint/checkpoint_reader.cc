#include "checkpoint/checkpoint_reader.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <numeric>
#include <optional>
#include <thread>

#include "absl/strings/str_join.h"
#include "base/parallel.h"
#include "checkpoint/bundle_writer.h"
#include "checkpoint/object_graph.h"
#include "checkpoint/saved_parts.h"
#include "checkpoint/stored_slice.h"
#include "graph/op_def.h"
#include "io/crc32c.h"
#include "io/file.h"
#include "io/glob.h"

namespace sluice {
namespace {

// What a thread reads and checks at a time: it is in the processor's cache when
// it is checked.
constexpr int64_t kReadBytes = 256 << 10;
// What a thread takes over at a time.
constexpr int64_t kUnitBytes = 4 << 20;
// Threads cost more than they save for less.
constexpr int64_t kParallelBytes = 1 << 20;

}  // namespace

Status AddTensor(const std::string& file, const std::string& name,
                 SavedTensor tensor, std::vector<SavedPart> parts,
                 SavedParts* to) {
  const auto wrong = [&](const TensorSlice& slice, const std::string& what) {
    return DataLoss("file '", file, "', tensor '", name, "', slice '",
                    slice.ToString(), "': expected ", what,
                    " (corrupted checkpoint)");
  };
  for (size_t i = 0; i < parts.size(); ++i) {
    const Result<Shape> shape = tensor.slices[i].ShapeOf(tensor.shape);
    if (!shape.ok() || !(parts[i].shape == *shape))
      return wrong(
          tensor.slices[i],
          absl::StrCat("a part of shape ", tensor.shape.ToString(),
                       ", got one of shape ", parts[i].shape.ToString()));
  }
  // Two slices with a common element have common rows: sorted by their first
  // row, each is compared with those that begin within it.
  if (parts.size() > 1 && tensor.shape.rank() > 0) {
    std::vector<size_t> order(parts.size());
    std::iota(order.begin(), order.end(), size_t{0});
    const auto start = [&](size_t i) {
      return tensor.slices[i].extents()[0].start;
    };
    std::sort(order.begin(), order.end(),
              [&](size_t a, size_t b) { return start(a) < start(b); });
    for (size_t i = 0; i < order.size(); ++i) {
      const int64_t end = start(order[i]) + parts[order[i]].shape.dim(0);
      for (size_t k = i + 1; k < order.size() && start(order[k]) < end; ++k)
        if (SharedElements(tensor.shape, tensor.slices[order[i]],
                           tensor.slices[order[k]]) > 0)
          return wrong(tensor.slices[order[k]],
                       "slices without a common element, got two");
    }
  } else if (parts.size() > 1) {
    return wrong(tensor.slices[1], "one slice of a scalar, got several");
  }
  to->tensors[name] = std::move(tensor);
  to->parts[name] = std::move(parts);
  return OkStatus();
}

class CheckpointReader::Impl {
 public:
  explicit Impl(std::string prefix) : prefix_(std::move(prefix)) {}
  Status Open();

  const std::string& prefix() const { return prefix_; }
  int version() const { return version_; }
  const std::map<std::string, SavedTensor>& tensors() const {
    return found_.tensors;
  }
  // A tensor and its key.
  using Entry = std::map<std::string, SavedTensor>::value_type;
  Result<const Entry*> Find(const std::string& name) const;
  bool Has(const std::string& name) const {
    if (found_.tensors.count(name) != 0) return true;
    if (!Objects().ok()) return false;
    const auto named = Objects()->find(name);
    return named != Objects()->end() && named->second.size() == 1;
  }
  Result<std::map<std::string, std::string>> FullNames() const;
  Result<std::vector<Tensor>> ReadMany(const std::vector<Request>& requests,
                                       int threads) const;
  Status ForEachPiece(const std::string& name,
                      absl::FunctionRef<Status(std::string_view)> fn) const;

 private:
  // A part of which something is read, and where that goes.
  struct Job {
    const std::string* name = nullptr;
    const SavedTensor* tensor = nullptr;
    const SavedPart* part = nullptr;
    const TensorSlice* stored = nullptr;
    TensorSlice wanted;
    Tensor* to = nullptr;
    char* straight = nullptr;  // Where all its bytes go, one after the other.
    size_t first_unit = 0;     // Into the checksums.
  };
  // What a thread does at a time: bytes of a part that go straight to their
  // place, or a whole job.
  struct Unit {
    size_t job = 0;
    int64_t begin = 0, end = 0;
    uint32_t crc = 0;
  };
  Status Plan(const Request& request, Tensor* to, std::vector<Job>* jobs,
              std::vector<Unit>* units) const;
  Status Run(const Job& job, Unit* unit) const;
  // Calls fn with the part's bytes in order, then checks them.
  Status ForEachChunk(const std::string& name, const SavedPart& part,
                      int64_t bytes,
                      absl::FunctionRef<Status(std::string_view)> fn) const;
  Status CopyShared(const Job& job) const;
  Status CheckCrc(const std::string& name, const SavedPart& part,
                  uint32_t crc) const;

  using KeysByName = std::map<std::string, std::vector<std::string>>;
  // Reads the objects when they are asked for first; none: empty.
  const Result<KeysByName>& Objects() const;

  const std::string prefix_;
  int version_ = 2;
  SavedParts found_;
  std::unique_ptr<SavedFiles> files_;
  mutable std::once_flag objects_read_;
  mutable Result<KeysByName> objects_ = KeysByName();  // By objects_read_.
};

Status CheckpointReader::Impl::Open() {
  std::error_code ignored;
  if (std::filesystem::exists(BundleIndexName(prefix_), ignored)) {
    SLUICE_ASSIGN_OR_RETURN(files_, OpenBundle(prefix_, &found_));
    return OkStatus();
  }
  version_ = 1;
  std::vector<std::string> paths;
  if (std::filesystem::exists(prefix_, ignored)) {
    paths.push_back(prefix_);
  } else {
    SLUICE_ASSIGN_OR_RETURN(paths, MatchingFiles(prefix_));
  }
  if (paths.empty())
    return NotFound("checkpoint '", prefix_, "': expected a file '",
                    BundleIndexName(prefix_),
                    "', or files of version 1 that "
                    "match '",
                    prefix_, "', got none");
  SLUICE_ASSIGN_OR_RETURN(files_, OpenVersion1(paths, &found_));
  return OkStatus();
}

const Result<CheckpointReader::Impl::KeysByName>&
CheckpointReader::Impl::Objects() const {
  std::call_once(objects_read_, [&] {
    const auto it = found_.tensors.find(kObjectGraphKey);
    if (it == found_.tensors.end()) return;
    objects_ = [&]() -> Result<KeysByName> {
      if (it->second.dtype != DType::kString || it->second.shape.rank() != 0)
        return DataLoss(
            "tensor '", kObjectGraphKey, "': expected a scalar string, got ",
            DTypeName(it->second.dtype), it->second.shape.ToString());
      SLUICE_ASSIGN_OR_RETURN(const std::vector<Tensor> bytes,
                              ReadMany({{.name = kObjectGraphKey}}, 1));
      SLUICE_ASSIGN_OR_RETURN(
          KeysByName keys, KeysByFullName(bytes[0].raw_scalar<std::string>()));
      // (An object that was not saved has a name but no tensor.)
      for (auto& [name, of] : keys)
        std::erase_if(of, [&](const std::string& key) {
          return found_.tensors.count(key) == 0;
        });
      std::erase_if(keys,
                    [](const auto& named) { return named.second.empty(); });
      return keys;
    }();
    if (!objects_.ok())
      objects_ = Annotate(objects_.status(),
                          absl::StrCat("checkpoint '", prefix_, "'"));
  });
  return objects_;
}

Result<std::map<std::string, std::string>> CheckpointReader::Impl::FullNames()
    const {
  SLUICE_RETURN_IF_ERROR(Objects().status());
  std::map<std::string, std::string> names;
  for (const auto& [name, keys] : *Objects())
    if (keys.size() == 1) names[name] = keys[0];
  return names;
}

Result<const CheckpointReader::Impl::Entry*> CheckpointReader::Impl::Find(
    const std::string& name) const {
  const auto it = found_.tensors.find(name);
  if (it != found_.tensors.end()) return &*it;
  SLUICE_RETURN_IF_ERROR(Objects().status());
  const auto named = Objects()->find(name);
  if (named != Objects()->end()) {
    const std::vector<std::string>& keys = named->second;
    if (keys.size() == 1) return &*found_.tensors.find(keys[0]);
    return InvalidArgument("checkpoint '", prefix_,
                           "': expected a name that one variable has, ",
                           "got '", name, "', which ", keys.size(), " have: '",
                           absl::StrJoin(keys, "', '"), "'");
  }
  std::vector<std::string> names;
  names.reserve(found_.tensors.size());
  for (const auto& [known, tensor] : found_.tensors) names.push_back(known);
  for (const auto& [known, keys] : *Objects()) names.push_back(known);
  std::string nearest;
  for (const std::string& n : NearestNames(name, names))
    absl::StrAppend(&nearest, nearest.empty() ? "; nearest: '" : ", '", n, "'");
  return NotFound("Key ", name, " not found in checkpoint '", prefix_, "'",
                  nearest);
}

Status CheckpointReader::Impl::CheckCrc(const std::string& name,
                                        const SavedPart& part,
                                        uint32_t crc) const {
  if (MaskCrc(crc) == part.masked_crc) return OkStatus();
  return DataLoss("file '", files_->FileOf(part), "', tensor '", name,
                  "' at byte ", part.offset,
                  ": expected bytes with the index's checksum, got another "
                  "(corrupted checkpoint)");
}

Status CheckpointReader::Impl::Plan(const Request& request, Tensor* to,
                                    std::vector<Job>* jobs,
                                    std::vector<Unit>* units) const {
  SLUICE_ASSIGN_OR_RETURN(const Entry* entry, Find(request.name));
  const auto& [name, parts] = *found_.parts.find(entry->first);
  const SavedTensor* const tensor = &entry->second;
  const TensorSlice wanted =
      request.whole ? TensorSlice(tensor->shape.rank()) : request.slice;
  const Result<Shape> shape = wanted.ShapeOf(tensor->shape);
  SLUICE_RETURN_IF_ERROR(
      Annotate(shape.status(), absl::StrCat("tensor '", name, "'")));
  int64_t covered = 0;
  const bool bytes = files_->HasBytes(tensor->dtype);
  for (size_t i = 0; i < parts.size(); ++i) {
    const int64_t shared =
        SharedElements(tensor->shape, tensor->slices[i], wanted);
    covered += shared;
    // (Of a file that is too short nothing is allocated.)
    if (shared > 0) SLUICE_RETURN_IF_ERROR(files_->CheckPart(name, parts[i]));
  }
  if (covered != shape->num_elements())
    return InvalidArgument(
        "Does not have sufficient slices for partitioned tensor ", name,
        " to restore in slice_spec: ", wanted.ToString(), ": checkpoint '",
        prefix_, "' has ", covered, " of ", shape->num_elements(), " elements");
  SLUICE_ASSIGN_OR_RETURN(
      *to, IsPlain(tensor->dtype) || tensor->dtype == DType::kString
               ? Tensor::Make(tensor->dtype, *shape)
               : Result<Tensor>(Unimplemented(
                     "tensor '", name,
                     "': expected a type whose elements "
                     "have a meaning outside of the process that wrote them, "
                     "got ",
                     DTypeName(tensor->dtype))));
  for (size_t i = 0; i < parts.size(); ++i) {
    const int64_t shared =
        SharedElements(tensor->shape, tensor->slices[i], wanted);
    // (Of an empty part the checksum is checked too.)
    if (shared == 0 && !(request.whole && parts.size() == 1)) continue;
    Job job{.name = &name,
            .tensor = tensor,
            .part = &parts[i],
            .stored = &tensor->slices[i],
            .wanted = wanted,
            .to = to,
            .first_unit = units->size()};
    if (bytes && shared == parts[i].shape.num_elements()) {
      if (shared == 0) job.straight = to->raw<char>();
      ForEachSharedRun(
          tensor->shape, *job.stored, wanted, [&](const SliceRun& run) {
            if (run.count == shared)
              job.straight = to->raw<char>() + static_cast<size_t>(run.to) *
                                                   DTypeSize(tensor->dtype);
            return false;
          });
    }
    const size_t at = jobs->size();
    if (job.straight == nullptr) {
      units->push_back({at, 0, parts[i].size});
    } else {
      for (int64_t b = 0; b == 0 || b < parts[i].size; b += kUnitBytes)
        units->push_back({at, b, std::min(b + kUnitBytes, parts[i].size)});
    }
    jobs->push_back(std::move(job));
  }
  return OkStatus();
}

Status CheckpointReader::Impl::ForEachChunk(
    const std::string& name, const SavedPart& part, int64_t bytes,
    absl::FunctionRef<Status(std::string_view)> fn) const {
  std::string chunk(static_cast<size_t>(std::min(bytes, kReadBytes)), '\0');
  uint32_t crc = 0;
  for (int64_t at = 0; at < bytes; at += kReadBytes) {
    const auto n = static_cast<size_t>(std::min(bytes - at, kReadBytes));
    SLUICE_RETURN_IF_ERROR(files_->ReadBytes(name, part, at, n, chunk.data()));
    crc = Crc32c({chunk.data(), n}, crc);
    SLUICE_RETURN_IF_ERROR(fn({chunk.data(), n}));
  }
  return CheckCrc(name, part, crc);
}

// Elements that do not go straight to their place: of a part that is only
// needed in part, is to be put between others, or can only be read as a tensor.
Status CheckpointReader::Impl::CopyShared(const Job& job) const {
  const Shape& shape = job.tensor->shape;
  if (!files_->HasBytes(job.tensor->dtype)) {
    SLUICE_ASSIGN_OR_RETURN(
        const Tensor read,
        files_->ReadPart(*job.name, job.tensor->dtype, *job.part));
    ForEachSharedRun(shape, *job.stored, job.wanted, [&](const SliceRun& run) {
      const auto from = static_cast<size_t>(run.from);
      const auto to = static_cast<size_t>(run.to);
      const auto count = static_cast<size_t>(run.count);
      if (read.dtype() == DType::kString) {
        std::copy_n(read.raw<std::string>() + from, count,
                    job.to->raw<std::string>() + to);
      } else {
        const size_t size = DTypeSize(read.dtype());
        std::memcpy(job.to->raw<char>() + to * size,
                    read.raw<char>() + from * size, count * size);
      }
      return true;
    });
    return OkStatus();
  }
  // The runs in the order of the part, of which each piece needs the next few.
  const auto size = static_cast<int64_t>(DTypeSize(job.tensor->dtype));
  std::vector<SliceRun> runs;
  ForEachSharedRun(shape, *job.stored, job.wanted, [&](const SliceRun& run) {
    runs.push_back(run);
    return true;
  });
  size_t next = 0;
  int64_t at = 0;  // Of the piece in the part, in bytes.
  return ForEachChunk(
      *job.name, *job.part, job.part->size, [&](std::string_view piece) {
        const int64_t end = at + static_cast<int64_t>(piece.size());
        for (; next < runs.size() && runs[next].from * size < end; ++next) {
          const SliceRun& run = runs[next];
          const int64_t begin = std::max(run.from * size, at);
          const int64_t upto = std::min((run.from + run.count) * size, end);
          std::memcpy(
              job.to->raw<char>() + run.to * size + (begin - run.from * size),
              piece.data() + (begin - at), static_cast<size_t>(upto - begin));
          if ((run.from + run.count) * size > end) break;
        }
        at = end;
        return OkStatus();
      });
}

Status CheckpointReader::Impl::Run(const Job& job, Unit* unit) const {
  if (job.straight == nullptr) return CopyShared(job);
  for (int64_t at = unit->begin; at < unit->end; at += kReadBytes) {
    const auto n = static_cast<size_t>(std::min(unit->end - at, kReadBytes));
    SLUICE_RETURN_IF_ERROR(
        files_->ReadBytes(*job.name, *job.part, at, n, job.straight + at));
    unit->crc = Crc32c({job.straight + at, n}, unit->crc);
  }
  return OkStatus();
}

Result<std::vector<Tensor>> CheckpointReader::Impl::ReadMany(
    const std::vector<Request>& requests, int threads) const {
  std::vector<Tensor> out(requests.size());
  std::vector<Job> jobs;
  std::vector<Unit> units;
  for (size_t i = 0; i < requests.size(); ++i)
    SLUICE_RETURN_IF_ERROR(Plan(requests[i], &out[i], &jobs, &units));
  int64_t bytes = 0;
  for (const Unit& u : units) bytes += u.end - u.begin;
  if (threads <= 0)
    threads = static_cast<int>(std::thread::hardware_concurrency());
  threads = static_cast<int>(std::clamp<int64_t>(
      std::min<int64_t>(threads, bytes / kParallelBytes), 1, 64));
  std::atomic<size_t> next{0};
  std::mutex mu;
  size_t failed_unit = units.size();  // The first, whatever thread found it.
  Status failed;
  const auto work = [&](int64_t, int64_t) {
    for (;;) {
      const size_t i = next.fetch_add(1);
      if (i >= units.size()) return;
      const Status s = Run(jobs[units[i].job], &units[i]);
      if (s.ok()) continue;
      const std::lock_guard<std::mutex> lock(mu);
      if (i < failed_unit) {
        failed_unit = i;
        failed = s;
      }
      next = units.size();
    }
  };
  if (threads == 1) {
    work(0, 1);
  } else {
    const ScopedIntraOpThreads use(threads);
    ParallelFor(threads, 1, work);
  }
  SLUICE_RETURN_IF_ERROR(failed);
  for (size_t j = 0; j < jobs.size(); ++j) {
    if (jobs[j].straight == nullptr) continue;
    uint32_t crc = 0;
    for (size_t i = jobs[j].first_unit; i < units.size() && units[i].job == j;
         ++i)
      crc = JoinCrc32c(crc, units[i].crc,
                       static_cast<uint64_t>(units[i].end - units[i].begin));
    SLUICE_RETURN_IF_ERROR(CheckCrc(*jobs[j].name, *jobs[j].part, crc));
  }
  return out;
}

Status CheckpointReader::Impl::ForEachPiece(
    const std::string& name,
    absl::FunctionRef<Status(std::string_view)> fn) const {
  SLUICE_ASSIGN_OR_RETURN(const Entry* entry, Find(name));
  const SavedTensor* const tensor = &entry->second;
  if (!IsPlain(tensor->dtype))
    return InvalidArgument("tensor '", name, "': expected plain elements, got ",
                           DTypeName(tensor->dtype));
  for (const SavedPart& part : found_.parts.find(entry->first)->second) {
    if (files_->HasBytes(tensor->dtype)) {
      SLUICE_RETURN_IF_ERROR(ForEachChunk(name, part, part.size, fn));
      continue;
    }
    SLUICE_ASSIGN_OR_RETURN(const Tensor read,
                            files_->ReadPart(name, tensor->dtype, part));
    SLUICE_RETURN_IF_ERROR(fn({read.raw<char>(), read.bytes()}));
  }
  return OkStatus();
}

CheckpointReader::CheckpointReader(std::shared_ptr<const Impl> impl)
    : impl_(std::move(impl)) {}
CheckpointReader::CheckpointReader(const CheckpointReader&) = default;
CheckpointReader& CheckpointReader::operator=(const CheckpointReader&) =
    default;
CheckpointReader::~CheckpointReader() = default;

Result<CheckpointReader> CheckpointReader::Open(const std::string& prefix) {
  if (prefix.empty())
    return InvalidArgument("checkpoint: expected a path, got \"\"");
  auto impl = std::make_shared<Impl>(LocalPath(prefix));
  SLUICE_RETURN_IF_ERROR(impl->Open());
  return CheckpointReader(std::move(impl));
}

const std::string& CheckpointReader::prefix() const { return impl_->prefix(); }
int CheckpointReader::version() const { return impl_->version(); }
const std::map<std::string, SavedTensor>& CheckpointReader::tensors() const {
  return impl_->tensors();
}
bool CheckpointReader::Has(const std::string& name) const {
  return impl_->Has(name);
}
Result<std::map<std::string, std::string>> CheckpointReader::FullNames() const {
  return impl_->FullNames();
}
Result<const SavedTensor*> CheckpointReader::Find(
    const std::string& name) const {
  SLUICE_ASSIGN_OR_RETURN(const Impl::Entry* entry, impl_->Find(name));
  return &entry->second;
}
Result<std::vector<Tensor>> CheckpointReader::ReadMany(
    const std::vector<Request>& requests, int threads) const {
  return impl_->ReadMany(requests, threads);
}
Result<Tensor> CheckpointReader::Read(const std::string& name) const {
  SLUICE_ASSIGN_OR_RETURN(std::vector<Tensor> out, ReadMany({{.name = name}}));
  return std::move(out[0]);
}
Result<Tensor> CheckpointReader::ReadSlice(const std::string& name,
                                           const TensorSlice& slice) const {
  SLUICE_ASSIGN_OR_RETURN(
      std::vector<Tensor> out,
      ReadMany({{.name = name, .slice = slice, .whole = false}}));
  return std::move(out[0]);
}
Status CheckpointReader::ForEachPiece(
    const std::string& name,
    absl::FunctionRef<Status(std::string_view)> fn) const {
  return impl_->ForEachPiece(name, fn);
}
Status CheckpointReader::Verify() const {
  for (const auto& [name, tensor] : tensors()) {
    if (tensor.dtype == DType::kString)
      SLUICE_RETURN_IF_ERROR(Read(name).status());
    else
      SLUICE_RETURN_IF_ERROR(
          ForEachPiece(name, [](std::string_view) { return OkStatus(); }));
  }
  return OkStatus();
}

bool CheckpointExists(const std::string& path) {
  const std::string prefix = LocalPath(path);
  std::error_code ignored;
  const auto is_file = [&](const std::string& file) {
    return std::filesystem::is_regular_file(file, ignored);
  };
  if (is_file(BundleIndexName(prefix)) || is_file(prefix)) return true;
  const auto found = MatchingFiles(prefix);
  return found.ok() && std::any_of(found->begin(), found->end(), is_file);
}

}  // namespace sluice
