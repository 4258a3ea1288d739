#include "exec/devices/emulated_device.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "base/sanitizers.h"
#include "exec/devices/late_memory.h"
#include "exec/scheduling/parameter_cache.h"
#include "exec/scheduling/scheduler.h"

namespace sluice {
namespace {

// (Under sanitizers nothing is kept, so that they see every use after free.)
constexpr int64_t kMaxCached = kSanitized ? 0 : int64_t{256} << 20;

EmulatedDeviceOptions WithClock(EmulatedDeviceOptions o) {
  if (o.clock == nullptr) o.clock = EmulatedClock::RealTime();
  return o;
}

int64_t Ns(double seconds) {
  return static_cast<int64_t>(std::clamp(seconds * 1e9, 0.0, 1e18));
}

// Parses "5", "1.5K", "2M", "4G" as bytes.
bool ParseBytes(absl::string_view text, int64_t* bytes) {
  double unit = 1;
  if (!text.empty()) {
    const size_t u = std::string_view("KMGT").find(text.back());
    if (u != std::string_view::npos) {
      for (size_t i = 0; i <= u; ++i) unit *= 1024;
      text.remove_suffix(1);
    }
  }
  double number = 0;
  if (!absl::SimpleAtod(text, &number) || !(number * unit >= 1) ||
      !(number * unit < 1e15))
    return false;
  *bytes = static_cast<int64_t>(number * unit);
  return true;
}

}  // namespace

// The data pointers of live host copies of swapped-out values.
struct EmulatedDevice::HostCopies {
  std::mutex mu;
  std::set<const void*> data;  // GUARDED_BY(mu)
};

EmulatedDevice::EmulatedDevice(DeviceName name, EmulatedDeviceOptions options)
    : Device(std::move(name)),
      options_(WithClock(std::move(options))),
      host_copies_(std::make_shared<HostCopies>()),
      number_([] {
        static std::atomic<int64_t> made{0};
        return made++;
      }()) {
  std::unique_ptr<Allocator> raw;
  if (options_.late) {
    auto late = std::make_unique<LateMemory>(INT64_MAX);
    late_memory_ = late.get();
    raw = std::move(late);
  } else {
    raw = std::make_unique<HostAllocator>(INT64_MAX, 0);
  }
  const auto memory = std::make_shared<StreamMemory>(
      std::move(raw), options_.memory_bytes, kMaxCached);
  if (this->name().complete())
    SetBodyMemory(ScheduledDeviceNumber(this->name().ToString()),
                  std::min(options_.parameter_bytes,
                           options_.memory_bytes - options_.memory_bytes / 4));
  // (The memory may outlive the device, but not be asked for more then.)
  memory->set_reclaim([this](int64_t bytes) { return DropParameters(bytes); });
  for (Queue& q : streams_) {
    q.stream = std::make_shared<EmulatedStream>(options_.clock);
    q.allocator = std::make_unique<StreamAllocator>(memory, q.stream);
  }
}

EmulatedDevice::~EmulatedDevice() {
  DropParameters(INT64_MAX);
  allocator()->ReleaseCache();
}

bool EmulatedDevice::CanCopyFrom(const Device& from) const {
  const auto* const other = dynamic_cast<const EmulatedDevice*>(&from);
  return other != nullptr && other->options_.clock == options_.clock &&
         options_.peer_bytes_per_s > 0;
}

// ---- Streams ----------------------------------------------------------------

EmulatedStream::Span EmulatedDevice::Issue(StreamKind kind, const Node& node,
                                           int64_t ns, int64_t bytes) {
  const EmulatedStream::Span span = stream(kind)->Enqueue(ns);
  if (options_.record && ns > 0) {
    std::lock_guard<std::mutex> lock(mu_);
    timeline_.push_back({kind, node.name(), span.start_ns, span.end_ns, bytes});
  }
  return span;
}

EmulatedStream::Span EmulatedDevice::IssueCopy(StreamKind kind,
                                               const Node& node, int64_t ns,
                                               const Tensor& to) {
  const EmulatedStream::Span span =
      Issue(kind, node, ns, static_cast<int64_t>(to.bytes()));
  if (StreamBuffer* const b = StreamBuffer::Of(to)) {
    b->set_written(stream(kind)->Record());
    b->HandTo(stream(kCompute));
  }
  return span;
}

std::shared_ptr<Event> EmulatedDevice::Written(const Tensor& t) const {
  const StreamBuffer* const b = StreamBuffer::Of(t);
  return b != nullptr ? b->written() : stream(kCompute)->Record();
}

std::vector<StreamEvent> EmulatedDevice::Timeline() {
  std::lock_guard<std::mutex> lock(mu_);
  return std::exchange(timeline_, {});
}

int64_t EmulatedDevice::CopyNs(int64_t bytes) const {
  return options_.copy_ns +
         Ns(static_cast<double>(bytes) / options_.copy_bytes_per_s);
}

int64_t EmulatedDevice::PeerNs(int64_t bytes) const {
  return options_.peer_ns +
         Ns(static_cast<double>(bytes) / options_.peer_bytes_per_s);
}

int64_t EmulatedDevice::KernelNs(double flops, double bytes) const {
  return options_.kernel_ns + Ns(std::max(flops / options_.flops_per_s,
                                          bytes / options_.bytes_per_s));
}

// ---- Memory -----------------------------------------------------------------

bool EmulatedDevice::ShouldSwap(const Tensor& value) const {
  // (A copy that would be inline has no address to recognise it by.)
  const int64_t least = std::max<int64_t>(9, options_.swap_min_bytes);
  return !value.in_host_memory() &&
         static_cast<int64_t>(value.bytes()) >= least &&
         static_cast<double>(allocator(kCompute)->stats().live_bytes) >=
             options_.swap_above * static_cast<double>(options_.memory_bytes);
}

Result<Tensor> EmulatedDevice::SwapOut(const Tensor& value) {
  SLUICE_ASSIGN_OR_RETURN(Tensor copy,
                          Tensor::Make(value.dtype(), value.shape()));
  std::memcpy(copy.raw(), value.raw(), value.bytes());
  void* const data = copy.raw();
  const size_t bytes = copy.bytes();
  {
    std::lock_guard<std::mutex> lock(host_copies_->mu);
    host_copies_->data.insert(data);
  }
  const DType dtype = copy.dtype();
  const Shape shape = copy.shape();
  auto release = [known = host_copies_, data,
                  copy = std::move(copy)]() mutable {
    // Remove it from the set first: afterwards the memory may be reused by
    // another copy.
    std::lock_guard<std::mutex> lock(known->mu);
    known->data.erase(data);
  };
  return Tensor(dtype, shape,
                new ForeignBuffer(data, bytes, std::move(release)), data);
}

bool EmulatedDevice::IsSwappedOut(const Tensor& value) const {
  if (!value.has_buffer()) return false;
  std::lock_guard<std::mutex> lock(host_copies_->mu);
  return host_copies_->data.contains(value.raw());
}

Result<std::shared_ptr<ParameterCache>> EmulatedDevice::Parameters(
    ResourceManager* resources) {
  const std::string device = name().ToString();
  bool made = false;
  SLUICE_ASSIGN_OR_RETURN(
      std::shared_ptr<ParameterCache> cache,
      resources->LookupOrCreate<ParameterCache>(
          "", ParameterCache::NameFor(device, number_), [&] {
            made = true;
            return std::make_shared<ParameterCache>(options_.parameter_bytes);
          }));
  if (!made) return cache;
  {
    std::lock_guard<std::mutex> lock(mu_);
    std::erase_if(parameters_, [](const auto& c) { return c.expired(); });
    parameters_.push_back(cache);
  }
  SLUICE_ASSIGN_OR_RETURN(const std::shared_ptr<Scheduler> scheduler,
                          Scheduler::Of(resources));
  scheduler->SetCache(ScheduledDeviceNumber(device), cache);
  return cache;
}

bool EmulatedDevice::DropParameters(int64_t bytes) {
  std::vector<std::shared_ptr<ParameterCache>> caches;
  {
    std::lock_guard<std::mutex> lock(mu_);
    for (const auto& c : parameters_)
      if (auto cache = c.lock()) caches.push_back(std::move(cache));
  }
  int64_t freed = 0;
  for (const auto& cache : caches)
    if (freed < bytes) freed += cache->Evict(bytes - freed);
  return freed > 0;
}

Status EmulatedDevice::Explain(Status s) const {
  if (s.code() != StatusCode::kResourceExhausted) return s;
  const AllocatorStats memory = allocator(kCompute)->stats();
  return Status(s.code(),
                absl::StrCat(s.message(), "; device ", name().ToString(),
                             " has ", options_.memory_bytes - memory.live_bytes,
                             " of ", options_.memory_bytes, " bytes free"));
}

// ---- Making them ------------------------------------------------------------

Result<EmulatedDeviceOptions> ParseEmulatedDevice(std::string_view text) {
  EmulatedDeviceOptions o;
  for (absl::string_view part :
       absl::StrSplit(absl::string_view(text.data(), text.size()), ',',
                      absl::SkipEmpty())) {
    const std::pair<std::string, std::string> kv =
        absl::StrSplit(part, absl::MaxSplits('=', 1));
    double number = 0;
    const bool positive =
        absl::SimpleAtod(kv.second, &number) && number > 0 && number < 1e9;
    if (!positive) number = 0;  // Rejected below; NaN is not an integer.
    const std::string& key = kv.first;
    bool good = positive;
    if (key == "memory") {
      good = ParseBytes(kv.second, &o.memory_bytes);
    } else if (key == "parameters") {
      good = ParseBytes(kv.second, &o.parameter_bytes);
    } else if (key == "tflops") {
      o.flops_per_s = number * 1e12;
    } else if (key == "gbytes_per_s") {
      o.bytes_per_s = number * 1e9;
    } else if (key == "copy_gbytes_per_s") {
      o.copy_bytes_per_s = number * 1e9;
    } else if (key == "peer_gbytes_per_s") {
      good = positive || kv.second == "0";
      o.peer_bytes_per_s = number * 1e9;
    } else if (key == "peer_us") {
      o.peer_ns = static_cast<int64_t>(number * 1e3);
    } else if (key == "kernel_us") {
      o.kernel_ns = static_cast<int64_t>(number * 1e3);
    } else if (key == "copy_us") {
      o.copy_ns = static_cast<int64_t>(number * 1e3);
    } else if (key.size() > 3 && key.ends_with("_us")) {
      o.op_ns[key.substr(0, key.size() - 3)] =
          static_cast<int64_t>(number * 1e3);
    } else {
      good = false;
    }
    if (!good)
      return InvalidArgument(
          "emulated device: expected memory=, tflops=, gbytes_per_s=, "
          "kernel_us=, copy_us=, copy_gbytes_per_s=, peer_us=, "
          "peer_gbytes_per_s=, parameters= or OP_us= and a positive number, "
          "got '",
          part, "'");
  }
  return o;
}

std::vector<std::shared_ptr<Device>> EmulatedDevices(
    int count, const EmulatedDeviceOptions& options) {
  std::vector<std::shared_ptr<Device>> devices = CpuDevices(1);
  for (int i = 0; i < count; ++i)
    devices.push_back(std::make_shared<EmulatedDevice>(
        DeviceName{"localhost", 0, 0, "EMU", i}, options));
  return devices;
}

}  // namespace sluice
