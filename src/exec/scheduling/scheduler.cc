#include "exec/scheduling/scheduler.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/without_throwing.h"
#include "exec/core/trace.h"
#include "graph/device_name.h"

namespace sluice {
namespace {

constexpr const char* kSchedulerName = "_scheduler";
constexpr const char* kStepName = "_scheduled";

// What a row is taken to cost before one was measured.
constexpr double kUnknownNsPerRow = 1000;

int BodyNumber(const std::string& name) {
  // (A namespace of its own among the parameters' names.)
  return ParameterNumber("body " + name);
}

Status CheckRate(const char* what, double rate, bool may_be_zero) {
  if (std::isfinite(rate) && (rate > 0 || (may_be_zero && rate == 0)))
    return OkStatus();
  return InvalidArgument(
      what, ": expected a ",
      may_be_zero ? "finite number of at least 0" : "finite positive rate",
      ", got ", rate);
}

}  // namespace

Result<std::shared_ptr<ScheduledBody>> ScheduledBody::Make(const Node& node) {
  auto b = std::make_shared<ScheduledBody>();
  b->name = node.AttrOr<std::string>("body", "");
  b->number = BodyNumber(b->name);
  b->devices = node.AttrOr<AttrValue::Strings>("devices", {});
  // (Devices know themselves by their full names.)
  SLUICE_ASSIGN_OR_RETURN(const DeviceName home,
                          DeviceName::Parse(node.device()));
  for (const std::string& d : b->devices) {
    SLUICE_ASSIGN_OR_RETURN(const DeviceName name, DeviceName::Parse(d));
    b->device_numbers.push_back(
        ScheduledDeviceNumber(name.WithDefaults(home.Task()).ToString()));
  }
  b->policy_name = node.AttrOr<std::string>("policy", "");
  SLUICE_ASSIGN_OR_RETURN(b->policy, FindSchedulePolicy(b->policy_name));
  b->element_bytes = node.AttrOr<AttrValue::Ints>("element_bytes", {});
  const int64_t n = node.num_inputs();
  if (static_cast<int64_t>(b->element_bytes.size()) != n)
    return InvalidArgument("element_bytes: expected ", n,
                           " numbers, one for each input, got ",
                           b->element_bytes.size());
  for (const std::string& p : node.AttrOr<AttrValue::Strings>("parameters", {}))
    b->parameters.push_back(ParameterNumber(p));
  b->parameter_bytes = node.AttrOr<int64_t>("parameter_bytes", 0);
  b->limited = node.AttrOr<bool>("limited", true);
  b->ns_per_row = node.AttrOr<float>("ns_per_row", 0);
  b->bytes_per_s = node.AttrOr<float>("bytes_per_s", 0);
  SLUICE_RETURN_IF_ERROR(CheckRate("ns_per_row", b->ns_per_row, true));
  SLUICE_RETURN_IF_ERROR(CheckRate("bytes_per_s", b->bytes_per_s, false));
  return b;
}

Status Decision::ReadShapes(std::span<const Tensor* const> shapes) {
  rows = 1;
  input_bytes = 0;
  for (size_t i = 0; i < shapes.size(); ++i) {
    const Tensor& t = *shapes[i];
    if (t.dtype() != DType::kInt32 || t.rank() > 1)
      return InvalidArgument("shape ", i, ": expected a vector of int32, got ",
                             t.ToString());
    const auto* const dims = t.raw<int32_t>();
    const int64_t rank = t.num_elements();
    double bytes = static_cast<double>(body->element_bytes[i]);
    for (int64_t d = 0; d < rank; ++d) bytes *= dims[d];
    input_bytes += static_cast<int64_t>(std::clamp(bytes, 0.0, 1e18));
    if (i == 0 && rank > 0) rows = std::max(dims[0], 0);
  }
  return OkStatus();
}

std::string Decision::Reason() const {
  return absl::StrFormat(
      "%s: %d rows, work %.0f us, load %.0f us, parameters %d of %d bytes",
      body->policy_name, rows, work_ns / 1e3, load_ns / 1e3, parameter_bytes,
      body->parameter_bytes);
}

// ---- The scheduler ----------------------------------------------------------

Result<std::shared_ptr<Scheduler>> Scheduler::Of(ResourceManager* resources) {
  return resources->LookupOrCreate<Scheduler>(
      "", kSchedulerName, [] { return std::make_shared<Scheduler>(); });
}

Result<std::shared_ptr<Scheduler::Step>> Scheduler::OfStep(StepContext* step) {
  if (Result<std::shared_ptr<Step>> known =
          step->step_resources->Lookup<Step>("", kStepName);
      known.ok())
    return known;
  SLUICE_ASSIGN_OR_RETURN(std::shared_ptr<Scheduler> scheduler,
                          Of(step->resources));
  return step->step_resources->LookupOrCreate<Step>(
      "", kStepName,
      [&scheduler] { return std::make_shared<Step>(std::move(scheduler)); });
}

Scheduler::OfDevice& Scheduler::Device(int number) {
  const auto n = static_cast<size_t>(number);
  if (n >= devices_.size()) devices_.resize(n + 1);
  return devices_[n];
}

void Scheduler::Measured::Add(double more_ns, double more_rows) {
  constexpr double kKept = 0.75;
  ns = ns * kKept + more_ns;
  rows = rows * kKept + more_rows;
}

double Scheduler::NsPerRow(int body) const {
  const auto n = static_cast<size_t>(body);
  if (n < measured_.size() && measured_[n].rows > 0)
    return measured_[n].ns / measured_[n].rows;
  return all_measured_.rows > 0 ? all_measured_.ns / all_measured_.rows
                                : kUnknownNsPerRow;
}

void Scheduler::SetCache(int device_number,
                         std::shared_ptr<ParameterCache> cache) {
  std::lock_guard<std::mutex> lock(mu_);
  Device(device_number).cache = std::move(cache);
}

std::shared_ptr<ParameterCache> Scheduler::Cache(int device_number) const {
  std::lock_guard<std::mutex> lock(mu_);
  const auto n = static_cast<size_t>(device_number);
  return n < devices_.size() ? devices_[n].cache : nullptr;
}

std::shared_ptr<const Tensor> Scheduler::HeldValue(int parameter,
                                                   const Tensor& value) {
  std::lock_guard<std::mutex> lock(mu_);
  const auto p = static_cast<size_t>(parameter);
  if (p >= held_.size()) held_.resize(p + 1);
  std::shared_ptr<const Tensor> held = held_[p].lock();
  if (held == nullptr || !held->SharesBufferWith(value) ||
      held->raw() != value.raw() || !(held->shape() == value.shape())) {
    held = std::make_shared<const Tensor>(value);
    held_[p] = held;
  }
  return held;
}

double Scheduler::LoadNs(int device_number) const {
  std::lock_guard<std::mutex> lock(mu_);
  const auto n = static_cast<size_t>(device_number);
  return n < devices_.size() ? devices_[n].load_ns : 0;
}

Status Scheduler::Decide(std::span<Decision> decisions, const Step* step,
                         bool all) {
  const int64_t now = NowNs();
  std::lock_guard<std::mutex> lock(mu_);
  for (Decision& d : decisions) {
    const double per_row =
        d.body->ns_per_row > 0 ? d.body->ns_per_row : NsPerRow(d.body->number);
    d.work_ns = per_row * static_cast<double>(d.rows);
  }
  if (decisions.size() == 1) return DecideOne(&decisions[0], step, now, all);
  order_.resize(decisions.size());
  std::iota(order_.begin(), order_.end(), 0u);
  std::stable_sort(order_.begin(), order_.end(), [&](uint32_t a, uint32_t b) {
    return decisions[a].work_ns > decisions[b].work_ns;
  });
  for (const uint32_t i : order_)
    SLUICE_RETURN_IF_ERROR(DecideOne(&decisions[i], step, now, all));
  return OkStatus();
}

Scheduler::OfDevice::Running* Scheduler::FindRunning(OfDevice* device,
                                                     const Step* step,
                                                     int body) {
  for (OfDevice::Running& r : device->running)
    if (r.step == step && r.body == body) return &r;
  return nullptr;
}

// A body that needs nothing, or is alone of its step, always has.
bool Scheduler::HasRoom(const OfDevice& device, int number, const Decision& d,
                        const Step* step) const {
  if (!d.body->limited) return true;
  bool alone = true, parameters = false;
  for (const OfDevice::Running& r : device.running) {
    alone = alone && r.step != step;
    parameters = parameters || (r.step == step && r.body == d.body->number);
  }
  if (alone) return true;
  const int64_t needs =
      d.input_bytes + (parameters ? 0 : d.body->parameter_bytes);
  return needs == 0 || device.bytes + needs <= BodyMemory(number);
}

Status Scheduler::DecideOne(Decision* d, const Step* step, int64_t now_ns,
                            bool all) {
  const ScheduledBody& b = *d->body;
  candidates_.resize(b.devices.size());
  for (size_t i = 0; i < b.devices.size(); ++i) {
    const OfDevice& device = Device(b.device_numbers[i]);
    candidates_[i] = {b.devices[i], device.load_ns, device.bodies,
                      device.cache == nullptr || b.parameters.empty()
                          ? 0
                          : device.cache->BytesOf(b.parameters)};
  }
  const int n = static_cast<int>(candidates_.size());
  d->choice = 0;
  if (n > 1)
    SLUICE_RETURN_IF_ERROR(Annotate(
        WithoutThrowing("function",
                        [&] {
                          d->choice = (*b.policy)(
                              {b.name, candidates_, d->rows, d->input_bytes,
                               b.parameter_bytes, d->work_ns, b.bytes_per_s});
                          return OkStatus();
                        }),
        absl::StrCat("schedule policy '", b.policy_name, "'")));
  if (d->choice < 0 || d->choice >= n)
    return InvalidArgument("schedule policy '", b.policy_name,
                           "': expected a candidate in [0, ", n, "), got ",
                           d->choice);
  const auto chosen = static_cast<size_t>(d->choice);
  const int number = b.device_numbers[chosen];
  if (!all && !HasRoom(Device(number), number, *d, step)) {
    d->choice = -1;
    return OkStatus();
  }
  d->load_ns = candidates_[chosen].load_ns;
  d->parameter_bytes = candidates_[chosen].parameter_bytes;
  const int64_t missing =
      std::max<int64_t>(0, b.parameter_bytes - d->parameter_bytes);
  d->copy_ns =
      static_cast<double>(missing + d->input_bytes) / b.bytes_per_s * 1e9;
  OfDevice& device = Device(number);
  device.load_ns += d->work_ns;
  if (b.limited) {
    device.bytes += d->input_bytes;
    if (OfDevice::Running* const r = FindRunning(&device, step, b.number)) {
      ++r->times;
    } else {
      device.running.push_back({step, b.number, 1});
      device.bytes += b.parameter_bytes;
    }
  }
  ++device.bodies;
  if (free_.empty()) {
    free_.push_back(static_cast<uint32_t>(open_.size()));
    open_.emplace_back();
  }
  const uint32_t at = free_.back();
  free_.pop_back();
  Open& open = open_[at];
  open.step = step;
  open.at_of_step = static_cast<uint32_t>(step->open_.size());
  step->open_.push_back(at);
  open.device = number;
  open.limited = b.limited;
  open.input_bytes = d->input_bytes;
  open.parameter_bytes = b.parameter_bytes;
  open.body = b.number;
  open.rows = d->rows;
  open.since_ns = now_ns;
  open.work_ns = d->work_ns;
  open.copy_ns = d->copy_ns;
  d->ticket = static_cast<int64_t>(uint64_t{open.generation} << 32 | at);
  return OkStatus();
}

void Scheduler::End(Open* open) {
  OfDevice& device = Device(open->device);
  --device.bodies;
  open->step->done_.fetch_add(1, std::memory_order_relaxed);
  if (open->limited) {
    device.bytes -= open->input_bytes;
    OfDevice::Running* const r = FindRunning(&device, open->step, open->body);
    if (--r->times == 0) {
      device.bytes -= open->parameter_bytes;
      *r = device.running.back();
      device.running.pop_back();
    }
  }
  // (Rounding must not leave a load behind.)
  device.load_ns =
      device.bodies == 0 ? 0 : std::max(0.0, device.load_ns - open->work_ns);
  // (The last of the list takes its place.)
  std::vector<uint32_t>& of_step = open->step->open_;
  open_[of_step.back()].at_of_step = open->at_of_step;
  of_step[open->at_of_step] = of_step.back();
  of_step.pop_back();
  open->step = nullptr;
  open->generation = (open->generation + 1) & 0x7fffffff;
  free_.push_back(static_cast<uint32_t>(open - open_.data()));
}

Result<int64_t> Scheduler::Done(int64_t ticket, const Step* step) {
  const auto at = static_cast<size_t>(ticket & 0xffffffff);
  const auto generation = static_cast<uint32_t>(ticket >> 32);
  const int64_t now = NowNs();
  std::lock_guard<std::mutex> lock(mu_);
  if (at >= open_.size() || open_[at].step != step ||
      open_[at].generation != generation)
    return FailedPrecondition(
        "ticket: expected that of a body of this step that runs, got ", ticket);
  Open& open = open_[at];
  OfDevice& device = Device(open.device);
  if (open.rows > 0) {
    // A device runs its bodies one after the other, so this one began when the
    // one before was done, and when what it needs was there.
    const double began =
        std::max(static_cast<double>(open.since_ns) + open.copy_ns,
                 static_cast<double>(device.last_done_ns));
    const double took = std::max(static_cast<double>(now) - began, 1.0);
    const auto rows = static_cast<double>(open.rows);
    const auto body = static_cast<size_t>(open.body);
    if (body >= measured_.size()) measured_.resize(body + 1);
    measured_[body].Add(took, rows);
    all_measured_.Add(took, rows);
  }
  device.last_done_ns = now;
  const int64_t rows = open.rows;
  End(&open);
  return rows;
}

void Scheduler::Abandon(const Step* step) {
  std::lock_guard<std::mutex> lock(mu_);
  while (!step->open_.empty()) End(&open_[step->open_.back()]);
}

// ---- Kernels ----------------------------------------------------------------

Status RunSchedule(KernelContext& ctx) {
  Decision d;
  d.body = &ctx.state<ScheduledBody>();
  std::vector<const Tensor*> shapes;
  for (int i = 0; i < ctx.num_inputs(); ++i) shapes.push_back(&ctx.input(i));
  SLUICE_RETURN_IF_ERROR(d.ReadShapes(shapes));
  SLUICE_ASSIGN_OR_RETURN(const std::shared_ptr<Scheduler::Step> step,
                          Scheduler::OfStep(&ctx.step()));
  SLUICE_RETURN_IF_ERROR(
      step->scheduler().Decide({&d, 1}, step.get(), /*all=*/true));
  ctx.set_output(0, Tensor::Scalar<int32_t>(d.choice));
  ctx.set_output(1, Tensor::Scalar<int64_t>(d.ticket));
  return OkStatus();
}

Status RunScheduleDone(KernelContext& ctx) {
  const Tensor& ticket = ctx.input(0);
  if (ticket.dtype() != DType::kInt64 || ticket.num_elements() != 1)
    return InvalidArgument("ticket: expected an int64 scalar, got ",
                           ticket.ToString());
  SLUICE_ASSIGN_OR_RETURN(const std::shared_ptr<Scheduler::Step> step,
                          Scheduler::OfStep(&ctx.step()));
  SLUICE_ASSIGN_OR_RETURN(
      const int64_t rows,
      step->scheduler().Done(ticket.raw_scalar<int64_t>(), step.get()));
  const bool have_rows = ctx.state<ScheduledResults>().have_rows;
  for (int i = 0; i < ctx.num_outputs(); ++i) {
    const Tensor& result = ctx.input(i + 1);
    if (have_rows && (result.rank() == 0 || result.dim(0) != rows))
      return InvalidArgument("result ", i, ": expected the ", rows,
                             " rows of the part of the inputs, got shape ",
                             result.shape().ToString());
    ctx.set_output(i, ctx.TakeInput(i + 1));
  }
  return OkStatus();
}

}  // namespace sluice
