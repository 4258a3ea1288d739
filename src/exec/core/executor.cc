#include "exec/core/executor.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_join.h"
#include "base/parallel.h"
#include "exec/core/error_attribution.h"
#include "graph/hidden_attributes.h"

// Functions on the per-node path, which are inlined into one.
#define SLUICE_HOT [[gnu::always_inline]] inline

namespace sluice {
namespace {

// A kernel that took longer than this on average goes to the pool when other
// nodes are ready: several times the cost of the hand-over.
constexpr uint32_t kOffloadNs = 30'000;
// The same where nodes are held to run together (ready_stage.h): while a kernel
// is on its way, what waits for it is missing in the next group.
constexpr uint32_t kOffloadBesideStageNs = 500'000;
// A step that was woken and whose turns take longer than this on average is
// driven by its own thread: several times the cost of waking that, and of the
// core that it may take from a kernel of the other step.
constexpr uint32_t kLongTurnNs = 60'000;
// After a kernel that took this long the deadline is checked at once.
constexpr uint32_t kLongNs = 1'000'000;
// How many nodes the driver runs between checks of the clock.
constexpr uint32_t kClockTicks = 256;

// Adds a run to a kernel's moving average. Any thread.
void AddToAverage(std::atomic<uint32_t>* cost, int64_t ns) {
  auto took = static_cast<uint32_t>(std::min<int64_t>(ns, UINT32_MAX / 2));
  const uint32_t old = cost->load(std::memory_order_relaxed);
  // (One run that another program interrupted says little.)
  if (old != 0 && old < UINT32_MAX / 8) took = std::min(took, 8 * old);
  cost->store(old == 0 ? took : old - old / 4 + took / 4,
              std::memory_order_relaxed);
}

// The maximum number of frames, and of waiting nodes, that an error names.
constexpr int kMaxWaiting = 16;

// The error of a region that was stopped in the middle of a loop.
bool IsEndFromOutside(const Status& s) {
  return s.code() == StatusCode::kDeadlineExceeded ||
         s.code() == StatusCode::kCancelled;
}

// The node that a message names: for a _Retval, the fetched node.
const Node& NodeToName(const PlanNode& n) {
  return n.role == OpRole::kRetval ? *n.node->input(0).node : *n.node;
}

}  // namespace

Status PastDeadline() {
  return DeadlineExceeded("step: expected to end before its deadline");
}

Status StuckOn(const std::vector<std::string>& needs) {
  constexpr size_t kMost = 16;
  std::string text;
  for (size_t i = 0; i < std::min(needs.size(), kMost); ++i)
    absl::StrAppend(&text, i == 0 ? "" : "; ", needs[i]);
  if (needs.size() > kMost)
    absl::StrAppend(&text, "; and ", needs.size() - kMost, " more");
  return FailedPrecondition(
      "step: expected that some node provides what the others wait for, got a "
      "deadlock, no other node runs: ",
      text);
}

// A kernel that runs outside of the driver, with its own copies of its state.
// Reused: from the second time on, starting a kernel allocates nothing here.
struct Execution::Async {
  Execution* execution;
  Ready ready;
  KernelContext ctx;
  std::vector<Tensor> locals;
  Status status;
  int64_t start_ns = 0;  // If the step is traced.
  size_t index = 0;      // In running_.
};

// A stage in progress. Lives in RunStage.
struct Execution::Stage {
  std::span<const uint32_t> awaited;
  const std::function<Status()>& collect;
  std::optional<Status> outcome;  // Set when it is over.
};

Execution::Execution(std::shared_ptr<const Plan> plan)
    : plan_(std::move(plan)),
      tokens_(*plan_),
      stage_(plan_->stage == nullptr ? nullptr : plan_->stage->Make(*plan_)) {
  results_.resize(plan_->retvals.size());
  dead_results_.resize(plan_->retvals.size());
}

Execution::~Execution() = default;

void Execution::Start(const ExecuteOptions& options) {
  options_ = options;
  step_ = options.step;
  step_.step_resources = &step_resources_;
  step_.deadline = options.deadline;
  status_ = OkStatus();
  heap_size_ = 0;
  ticks_ = 0;
  times_turn_ = false;
  if (options.scheduler_seed != 0) random_.seed(options.scheduler_seed);
  picks_ = options.scheduler_seed != 0 || options.oldest_first;
  tokens_.Start(options.max_call_depth,
                stage_ == nullptr ? INT_MAX : options.most_frames);
  if (stage_ != nullptr) stage_->Start(options.scheduler_seed);
  // (Without other partitions, no other thread looks before started_.)
  std::unique_lock<std::mutex> lock(mu_, std::defer_lock);
  if (options_.outbox != nullptr) lock.lock();
  alone_ = false;
  // (A Cancel of an earlier step may still be running.)
  if (cancellation_ == nullptr || cancellation_.use_count() > 1 ||
      cancellation_->cancelled())
    cancellation_ = std::make_shared<Cancellation>();
  step_.cancellation = cancellation_.get();
  staged_ = false;
  received_ = 0;
  started_.store(true, std::memory_order_release);
}

void Execution::Begin(std::span<const uint32_t> args,
                      std::span<const Tensor> values) {
  for (size_t i = 0; i < args.size(); ++i)
    if (args[i] < plan_->args.size() && plan_->args[args[i]] != nullptr)
      tokens_.Feed(args[i], values[i]);
}

void Execution::RunAsync(std::span<const uint32_t> args,
                         std::span<const Tensor> values,
                         std::function<void(Status)> quiet) {
  {
    std::lock_guard<std::mutex> lock(mu_);
    driving_ = true;
    quiet_ = false;
    on_quiet_ = std::move(quiet);
  }
  Begin(args, values);
  Drive();
}

Status Execution::Run(std::span<const uint32_t> args,
                      std::span<const Tensor> values) {
  {
    // (Without other partitions, no other thread looks before a kernel starts.)
    std::unique_lock<std::mutex> lock(mu_, std::defer_lock);
    if (options_.outbox != nullptr) lock.lock();
    alone_ = options_.outbox == nullptr && stage_ == nullptr;
    driving_ = true;
    quiet_ = false;
  }
  Begin(args, values);
  if (DriveThis()) return status_;
  DriveWaiting();
  std::unique_lock<std::mutex> lock(mu_);
  while (!quiet_) {
    caller_sleeps_ = true;
    Await(lock, options_.deadline, [this] { return quiet_ || called_; });
    caller_sleeps_ = false;
    if (!std::exchange(called_, false)) continue;
    lock.unlock();
    DriveThis();
    DriveWaiting();
    lock.lock();
  }
  return status_;
}

template <typename Holds>
void Execution::Await(std::unique_lock<std::mutex>& lock, Deadline deadline,
                      Holds holds) {
  if (deadline && !quiet_cv_.wait_until(lock, *deadline, holds)) {
    CancelAndUnlock(PastDeadline(), std::move(lock));
    DriveWaiting();  // What that has woken, if it was left to this thread.
    lock = std::unique_lock<std::mutex>(mu_);
  }
  quiet_cv_.wait(lock, holds);
}

Status Execution::RunStage(std::span<const uint32_t> args,
                           std::span<const Tensor> values,
                           std::span<const uint32_t> awaited, Deadline deadline,
                           const std::function<Status()>& collect) {
  Stage stage{awaited, collect, std::nullopt};
  DriveWaiting();
  std::unique_lock<std::mutex> lock(mu_);
  // (A kernel that waited may have completed since the last stage; then the
  // thread that completed it drives until the step is quiet again.)
  Await(lock, deadline, [this] { return quiet_; });
  if (!status_.ok()) return status_;
  options_.deadline = step_.deadline = deadline;
  staged_ = true;
  run_stage_ = &stage;
  driving_ = true;
  quiet_ = false;
  lock.unlock();
  Begin(args, values);
  DriveThis();
  DriveWaiting();
  lock.lock();
  Await(lock, deadline, [&stage] { return stage.outcome.has_value(); });
  return *stage.outcome;
}

void Execution::Stop(const Status& why) {
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (NothingRuns()) return;
  }
  Cancel(why);
  AwaitEnd();
}

void Execution::AwaitEnd() {
  DriveWaiting();
  std::unique_lock<std::mutex> lock(mu_);
  quiet_cv_.wait(lock, [this] { return NothingRuns(); });
}

void Execution::Finish() {
  tokens_.Clear(status_.ok());
  if (!status_.ok()) locals_.clear();
  for (Tensor& t : results_)
    if (t.valid()) t = Tensor();
  for (uint8_t& d : dead_results_) d = 0;
  step_resources_.Clear();
  rendezvous_.Clear();
  std::lock_guard<std::mutex> lock(mu_);  // Cancel may be called at any time.
  started_.store(false, std::memory_order_relaxed);
  mailbox_.clear();
  inbox_.clear();
  cancelled_ = OkStatus();
  attention_.store(false, std::memory_order_relaxed);
}

void Execution::Cancel(const Status& why) {
  CancelAndUnlock(why, std::unique_lock<std::mutex>(mu_));
}

void Execution::CancelAndUnlock(const Status& why,
                                std::unique_lock<std::mutex> lock) {
  // A step that has started but does not run yet, or is idle between the stages
  // of a partial run, checks this when it runs.
  if (!started_.load(std::memory_order_acquire)) return;
  if (cancelled_.ok()) cancelled_ = why;
  attention_.store(true, std::memory_order_release);
  const std::shared_ptr<Cancellation> cancellation = cancellation_;
  // An execution that waits for other partitions has no kernel that would wake
  // it.
  const bool drive = options_.outbox != nullptr && !quiet_ && !driving_;
  if (drive) driving_ = true;
  lock.unlock();
  // Wakes blocked kernels; their completions are handled by the driver, or by
  // their own thread as the new driver.
  cancellation->Cancel();
  if (drive) Drive();
}

Status Execution::MissingResult(uint32_t index) const {
  const Node& retval = *plan_->retvals[index]->node;
  const Output read = retval.input(0);  // (For example, a region.)
  const auto fetched = retval.AttrOr<std::string>(kFetchedAttr, read.name());
  if (dead_results_[index] != 0)
    return InvalidArgument(
        "fetch: expected a value, got none from '", fetched,
        "', which lies in a branch that was not taken; ",
        retval.AttrOr<std::string>(kFetchedNodeAttr, read.node->Describe()));
  const std::string waiting = DescribeWaiting();
  return Internal("fetch: expected a value of '", fetched,
                  "', got none: no more nodes can run; ",
                  waiting.empty() ? "no node waits" : waiting);
}

// ---- Running kernels --------------------------------------------------------

// Reads the current values of reference inputs.
Status Execution::FillReads(Ready r, Tensor* locals) {
  for (uint32_t i = 0; i < r.node->num_reads; ++i) {
    const InputRef ref = plan_->reads[r.node->first_read + i];
    const Tensor& t = r.iteration->tables[ref.table][ref.index];
    const auto* handle = t.dtype() == DType::kResource && t.num_elements() == 1
                             ? t.raw<ResourceHandle>()
                             : nullptr;
    Variable* const variable =
        handle == nullptr ? nullptr : AsVariable(handle->resource.get());
    if (variable != nullptr) {
      SLUICE_ASSIGN_OR_RETURN(locals[i], variable->Read());
      continue;
    }
    if (handle == nullptr)
      return Internal("reference: expected a handle, got ", t.ToString());
    // Of a queue, a reader or a table: its container and name, as in
    // TensorFlow.
    locals[i] = Tensor::Vector<std::string>(
        {handle->container.empty() ? "localhost" : handle->container,
         handle->name});
  }
  return OkStatus();
}

SLUICE_HOT void Execution::SetUp(Ready r, Tensor* locals, uint32_t* uses,
                                 KernelContext* ctx) {
  const PlanNode& n = *r.node;
  ctx->refs_ = plan_->inputs.data() + n.first_input;
  for (int t = 0; t < 3; ++t) ctx->tables_[t] = r.iteration->tables[t];
  ctx->tables_[InputRef::kLocal] = locals;
  ctx->outputs_ = Tokens::OutputSlots(r);
  ctx->state_ = n.state;
  ctx->step_ = &step_;
  ctx->node_ = n.node;
  ctx->uses_ = uses;
  ctx->moved_ = 0;
  ctx->num_inputs_ = static_cast<int>(n.num_inputs);
  ctx->num_outputs_ = static_cast<int>(n.num_outputs);
}

SLUICE_HOT Status Execution::Invoke(Ready r, KernelContext& ctx) {
  return options_.trace == nullptr ? r.node->run(ctx) : InvokeTraced(r, ctx);
}

Status Execution::InvokeTraced(Ready r, KernelContext& ctx) {
  // (Afterwards the inputs may have been moved.)
  std::vector<InputMemory> inputs;
  for (int i = 0; i < ctx.num_inputs(); ++i) {
    const Tensor& t = ctx.input(i);
    if (t.has_buffer())
      inputs.push_back({i, static_cast<const std::byte*>(t.raw()), t.bytes()});
  }
  const int64_t bytes = ThreadAllocatedBytes();
  const int64_t start = NowNs();
  Status s = r.node->run(ctx);
  AddEvent(r, start, ThreadAllocatedBytes() - bytes, inputs);
  return s;
}

// Adds the event of a kernel that has just finished on this thread.
void Execution::AddEvent(Ready r, int64_t start_ns, int64_t allocated_bytes,
                         const std::vector<InputMemory>& inputs,
                         int64_t instances) {
  const PlanNode& n = *r.node;
  TraceEvent e;
  e.start_ns = start_ns;
  e.end_ns = NowNs();
  e.allocated_bytes = allocated_bytes;
  e.node = n.node->name();
  e.op = n.node->op_name();
  e.device = n.node->device();
  e.thread = TraceThreadId();
  e.frame = r.iteration->frame->plan->name;
  e.iteration = r.iteration->index;
  e.instances = instances;
  for (uint32_t i = 0; i < n.num_outputs; ++i) {
    const Tensor& t = Tokens::OutputSlots(r)[i];
    TraceOutput& out = e.outputs.emplace_back();
    out.dtype = t.dtype();
    if (!t.valid()) continue;  // Dead, or the kernel failed.
    out.shape = t.shape();
    out.bytes = static_cast<int64_t>(t.bytes());
    if (!t.has_buffer()) continue;
    const auto* const at = static_cast<const std::byte*>(t.raw());
    for (const InputMemory& in : inputs)
      if (at >= in.begin && at < in.begin + in.bytes) out.alias = in.input;
  }
  if ((n.flags & PlanNode::kHeld) != 0) stage_->Describe(r, &e);
  options_.trace->Add(std::move(e));
}

SLUICE_HOT Status Execution::InvokeInline(Ready r) {
  const PlanNode& n = *r.node;
  if (n.num_reads > 0) {
    locals_.resize(std::max<size_t>(locals_.size(), n.num_reads));
    SLUICE_RETURN_IF_ERROR(FillReads(r, locals_.data()));
  }
  KernelContext ctx;
  SetUp(r, locals_.data(), r.iteration->uses.data(), &ctx);
  Status s = (n.flags & PlanNode::kExpensive) == 0 ? Invoke(r, ctx)
                                                   : InvokeMeasured(r, ctx);
  r.iteration->held -= ctx.moved_;
  for (uint32_t i = 0; i < n.num_reads; ++i) locals_[i] = Tensor();
  return s;
}

Status Execution::InvokeMeasured(Ready r, KernelContext& ctx) {
  // It may use every core if it runs alone, else one.
  const bool alone = NoneRuns() && (stage_ == nullptr || !stage_->running());
  ScopedIntraOpThreads threads(alone ? options_.intra_op_threads : 1);
  const int64_t start = NowNs();
  Status s = Invoke(r, ctx);
  AddCost(*r.node, NowNs() - start);
  return s;
}

void Execution::AddCost(const PlanNode& n, int64_t ns) {
  // After a long kernel the driver checks the clock at once.
  if (ns > kLongNs) ticks_ = kClockTicks - 1;
  AddToAverage(&CostOf(n), ns);
}

SLUICE_HOT bool Execution::Done(Ready r, const Status& s) {
  if (!s.ok()) [[unlikely]]
    return Fail(&r, s);
  tokens_.Complete(r);
  return true;
}

SLUICE_HOT bool Execution::RunKernel(Ready r) {
  const PlanNode& n = *r.node;
  constexpr int kUnusual =
      PlanNode::kAsync | PlanNode::kExpensive | PlanNode::kHeld;
  if ((n.flags & kUnusual) == 0) [[likely]]
    return Done(r, InvokeInline(r));
  if ((n.flags & PlanNode::kHeld) != 0 && stage_->Hold(r)) return true;
  if ((n.flags & PlanNode::kAsync) != 0)
    return (n.flags & PlanNode::kExpensive) == 0 ? StartAsync(r)
                                                 : StartLongAsync(r);
  if (options_.outbox != nullptr) options_.outbox->Flush();
  const uint32_t long_ns =
      stage_ == nullptr ? kOffloadNs : kOffloadBesideStageNs;
  if (options_.pool != nullptr && CostOf(n) > long_ns) {
    if (OthersAreReady() || OthersWait()) return Offload(r);
    if (!running_.empty() || rendezvous_.waiting() > 0) return RunUnattended(r);
  }
  return Done(r, InvokeInline(r));
}

// Nothing else is ready: runs the next group of held nodes, or goes on with the
// one that is running on several threads. What it makes ready runs, or is held,
// before the next group.
void Execution::RunHeld() {
  if (attention_.load(std::memory_order_acquire)) {
    HandleMail();
    return;
  }
  if (options_.outbox != nullptr) options_.outbox->Flush();
  ticks_ = kClockTicks - 1;  // (It may take long.)
  std::span<const Ready> group;
  if (!stage_->running()) group = stage_->Next();
  if (group.empty() || stage_->RunsTogether(group.size())) {
    // (More threads gain little on the rows of cheap kernels, and lose much if
    // another program has their core.)
    const bool alone = NoneRuns() && !group.empty() &&
                       (group[0].node->flags & PlanNode::kExpensive) != 0;
    ScopedIntraOpThreads threads(alone ? options_.intra_op_threads : 1);
    const int64_t bytes = ThreadAllocatedBytes();
    const int64_t start = options_.trace == nullptr ? 0 : NowNs();
    const auto ran = stage_->RunTogether(&step_);
    if (ran.ok()) {
      if (options_.trace != nullptr && stage_->OfOneNode())
        AddEvent(ran->front(), start, ThreadAllocatedBytes() - bytes, {},
                 static_cast<int64_t>(ran->size()));
      else if (options_.trace != nullptr)
        for (const Ready r : *ran) AddEvent(r, start, 0, {});
      for (const Ready r : *ran) tokens_.Complete(r);
      return;
    }
    if (const Ready r = stage_->failed(); r.node != nullptr) {
      Fail(&r, ran.status());
      return;
    }
  }
  for (const Ready r : group)
    if (status_.ok()) Done(r, InvokeInline(r));
}

// Nothing else can run: goes on with calls that wait for frames to end.
void Execution::StartPostponed() {
  if (attention_.load(std::memory_order_acquire)) {
    HandleMail();
    return;
  }
  Ready at;
  if (Status s = tokens_.StartPostponed(&at); !s.ok()) Fail(&at, s);
}

// Runs one node. False if this thread is no longer the driver.
SLUICE_HOT bool Execution::Process(Ready r) {
  const PlanNode& n = *r.node;
  const bool dead = Tokens::IsDead(r);
  if (n.role == OpRole::kCompute) {
    if (!dead) return RunKernel(r);
    tokens_.CompleteDead(r);
    return true;
  }
  const Tensor* read = nullptr;
  if (n.num_reads > 0 && !dead) {
    locals_.resize(std::max<size_t>(locals_.size(), n.num_reads));
    if (Status s = FillReads(r, locals_.data()); !s.ok()) return Fail(&r, s);
    read = locals_.data();
  }
  if (n.role == OpRole::kRecv) return Recv(r);
  if (n.role == OpRole::kSend) {
    Send(r, dead, read);
  } else if (n.role == OpRole::kRetval) {
    dead_results_[n.aux] = dead;
    if (!dead) results_[n.aux] = tokens_.Input(r, 0, read);
    tokens_.Complete(r);
  } else if (Status s = tokens_.Move(r, read); !s.ok()) {
    return Fail(&r, s);
  }
  if (read != nullptr)
    for (uint32_t i = 0; i < n.num_reads; ++i) locals_[i] = Tensor();
  return true;
}

std::string Execution::DescribeWaiting() const {
  std::string out = rendezvous_.Describe(kMaxWaiting);
  std::vector<Ready> running;
  for (const Async* a : running_) running.push_back(a->ready);
  const std::string tokens = tokens_.DescribeWaiting(kMaxWaiting, running);
  if (!tokens.empty()) absl::StrAppend(&out, out.empty() ? "" : "; ", tokens);
  return out;
}

// ---- The driver -------------------------------------------------------------

// Moves the node that is to run next to the end of the list. For oldest_first
// the list is a heap, to which the nodes that became ready since are added.
void Execution::PickReady() {
  ReadyList& ready = tokens_.ready();
  if (options_.scheduler_seed != 0) {
    std::swap(ready[random_() % ready.size()], ready.back());
    return;
  }
  const auto runs_later = [](const Ready& a, const Ready& b) {
    return a.iteration->index != b.iteration->index
               ? a.iteration->index > b.iteration->index
               : a.node > b.node;
  };
  Ready* const begin = &ready[0];
  for (size_t i = std::min(heap_size_, ready.size()); i < ready.size(); ++i)
    std::push_heap(begin, begin + i + 1, runs_later);
  std::pop_heap(begin, begin + ready.size(), runs_later);
  heap_size_ = ready.size() - 1;
}

SLUICE_HOT Ready Execution::PopReady() {
  ReadyList& ready = tokens_.ready();
  if (picks_) [[unlikely]]
    PickReady();
  const Ready r = ready.back();
  ready.pop_back();
  return r;
}

// REQUIRES: this thread is the driver (driving_). Drives now, or, if the thread
// is driving another execution in turn, after that.
void Execution::Drive() {
  const HeldDriveScope drives_others_at_its_end;
  if (drives_others_at_its_end.outermost()) {
    DriveThis();
  } else {
    WaitForTurn(this);
  }
}

// Runs the nodes that are ready, and those that they make ready. False if this
// thread is no longer the driver.
SLUICE_HOT bool Execution::RunReady() {
  while (!tokens_.ready().empty()) {
    if (attention_.load(std::memory_order_acquire)) [[unlikely]] {
      HandleMail();
    } else if (++ticks_ % kClockTicks == 0) [[unlikely]] {
      if (options_.deadline &&
          std::chrono::steady_clock::now() > *options_.deadline) {
        Fail(nullptr, PastDeadline());
      } else if (options_.outbox != nullptr && OthersWait()) {
        options_.outbox->Flush();
        WaitForTurn(this);  // Other executions are next.
        return false;
      }
    } else if (!Process(PopReady())) {
      return false;
    }
  }
  return true;
}

// Gives up the driver's role before it returns. From then on the execution may
// have been destroyed, or is in a DriveQueue.
bool Execution::DriveThis() {
  const int64_t start_ns = times_turn_ ? NowNs() : 0;
  for (;;) {
    if (!RunReady()) return false;
    if (stage_ != nullptr && !stage_->empty()) {
      RunHeld();
      continue;
    }
    if (tokens_.has_postponed()) [[unlikely]] {
      StartPostponed();
      continue;
    }
    if (alone_ && !attention_.load(std::memory_order_acquire) && IsQuiet()) {
      driving_ = false;
      quiet_ = true;
      return true;
    }
    if (options_.outbox != nullptr) options_.outbox->Flush();
    std::unique_lock<std::mutex> lock(mu_);
    if (!mailbox_.empty() || !inbox_.empty() || !cancelled_.ok()) {
      lock.unlock();
      HandleMail();
    } else if (!GoesOn(lock)) {
      if (std::exchange(times_turn_, false) && start_ns != 0)
        AddToAverage(&turn_ns_, NowNs() - start_ns);
      return Rest(std::move(lock));
    }
  }
}

// Nothing is ready, held or postponed, and there is no mail. What the driver
// can still do by itself: fail a step that is stuck, or let go what the stage
// kept. False if there is nothing; `lock`, on mu_, is then held.
bool Execution::GoesOn(std::unique_lock<std::mutex>& lock) {
  std::vector<std::string> needs;
  if (waiting_ > 0 && options_.outbox == nullptr && status_.ok() &&
      NoneRuns() && !IsQuiet() && AddNeeds(&needs)) {
    lock.unlock();
    Fail(nullptr, StuckOn(needs));
    return true;
  }
  if (stage_ == nullptr || !running_.empty() || rendezvous_.waiting() > 0 ||
      !stage_->Release())
    return false;
  lock.unlock();
  return true;
}

// Gives up the driver's role: the step waits for other threads, or it, or its
// stage, is over. `lock` is on mu_.
bool Execution::Rest(std::unique_lock<std::mutex> lock) {
  driving_ = false;
  if (!IsQuiet()) {
    Outbox* const outbox = options_.outbox;
    if (outbox != nullptr && NoneRuns() && outbox->BeginCheck()) {
      lock.unlock();
      outbox->EndCheck();  // (The step may be over now.)
    }
    return false;
  }
  quiet_ = true;
  if (run_stage_ != nullptr) {
    run_stage_->outcome = status_.ok() ? run_stage_->collect() : status_;
    run_stage_ = nullptr;
    options_.deadline = step_.deadline = std::nullopt;
  }
  if (on_quiet_ == nullptr) {
    quiet_cv_.notify_all();
    return true;
  }
  const auto on_quiet = std::exchange(on_quiet_, nullptr);
  const Status status = status_;
  lock.unlock();
  on_quiet(status);
  return true;
}

bool Execution::AddNeeds(std::vector<std::string>* needs) const {
  // (First without text: the driver is idle often, and there may be many.)
  for (const Async* a : running_)
    if ((a->ready.node->flags & PlanNode::kWaitsInStep) == 0) return false;
  for (const Async* a : running_) {
    const PlanNode& n = *a->ready.node;
    const auto needs_of = plan_->waiting_kernels[n.aux]->needs;
    std::string what = needs_of == nullptr ? "" : needs_of(a->ctx);
    if (what.empty()) return false;
    const Iteration& it = *a->ready.iteration;
    needs->push_back(absl::StrCat(n.node->Describe(), Tokens::Where(it),
                                  " waits for ", what));
  }
  return true;
}

bool Execution::IsIdle() const {
  if (quiet_) return true;
  return !driving_ && mailbox_.empty() && inbox_.empty() && cancelled_.ok() &&
         status_.ok() && NoneRuns();
}

// Whether the step, or its current stage, is over, now that nothing is ready
// and there is no mail. REQUIRES: mu_ held by the last driver.
bool Execution::IsQuiet() const {
  if (running_.empty()) return rendezvous_.waiting() == 0 || !status_.ok();
  if (!staged_ || !status_.ok() || !NoneRuns()) return false;
  return run_stage_ == nullptr ||
         std::all_of(run_stage_->awaited.begin(), run_stage_->awaited.end(),
                     [this](uint32_t i) {
                       return results_[i].valid() || dead_results_[i] != 0;
                     });
}

// ---- Outside of the driver --------------------------------------------------

// Counts the node as running. Null after an error, which fails the step.
Execution::Async* Execution::BeginAsync(Ready r) {
  alone_ = false;
  if (idle_.empty()) {
    asyncs_.push_back(std::make_unique<Async>());
    asyncs_.back()->execution = this;
    idle_.push_back(asyncs_.back().get());
  }
  Async* const async = idle_.back();
  async->ready = r;
  async->locals.resize(r.node->num_reads);
  if (Status s = FillReads(r, async->locals.data()); !s.ok()) {
    async->locals.clear();
    Fail(&r, s);
    return nullptr;
  }
  idle_.pop_back();
  // Reader counts change while it runs, so it forwards no buffer.
  async->ctx = KernelContext();
  SetUp(r, async->locals.data(), nullptr, &async->ctx);
  async->index = running_.size();
  running_.push_back(async);
  waiting_ += (r.node->flags & PlanNode::kWaits) != 0;
  return async;
}

void Execution::EndAsync(Async* async) {
  running_[async->index] = running_.back();
  running_[async->index]->index = async->index;
  running_.pop_back();
  waiting_ -= (async->ready.node->flags & PlanNode::kWaits) != 0;
  async->locals.clear();
  async->status = OkStatus();
  idle_.push_back(async);
}

Status Execution::InvokeAsync(Async& async, int threads) {
  ScopedIntraOpThreads scope(threads);
  // (Else a kernel whose first run took long, by what it sets up, would never
  // come back from the pool.)
  const int64_t start = NowNs();
  Status s = Invoke(async.ready, async.ctx);
  AddToAverage(&CostOf(*async.ready.node), NowNs() - start);
  async.locals.clear();
  return s;
}

bool Execution::Offload(Ready r) {
  if (Async* const async = BeginAsync(r))
    options_.pool->Schedule([async] {
      async->execution->Post(async, async->execution->InvokeAsync(*async, 1));
    });
  return true;
}

bool Execution::StartAsync(Ready r) {
  if ((r.node->flags & PlanNode::kWaitsInStep) != 0 && r.node->num_reads == 0 &&
      options_.trace == nullptr) {
    const auto try_run = plan_->waiting_kernels[r.node->aux]->try_run;
    KernelContext ctx;
    SetUp(r, nullptr, nullptr, &ctx);
    Status status;
    if (try_run != nullptr && try_run(ctx, &status)) return Done(r, status);
  }
  if (Async* const async = BeginAsync(r)) Launch(async);
  return true;
}

// Any thread may call this; the kernel may have completed, and the step ended,
// when it returns.
void Execution::Launch(Async* async) {
  if (async->execution->options_.trace != nullptr) async->start_ns = NowNs();
  async->ready.node->run_async(async->ctx, [async](Status s) {
    Execution& execution = *async->execution;
    async->locals.clear();
    // From its start to its end, including waits; its allocations, on any
    // threads, are unknown. Must be before Post, after which the step may be
    // over.
    if (execution.options_.trace != nullptr)
      execution.AddEvent(async->ready, async->start_ns, 0, {});
    execution.Post(async, std::move(s));
  });
}

// An async kernel that may take long before it returns or waits. (Not in
// stages: a stage must know whether it completes at once.)
bool Execution::StartLongAsync(Ready r) {
  if (options_.outbox != nullptr) options_.outbox->Flush();
  if (options_.pool == nullptr || staged_) return StartAsync(r);
  if (CostOf(*r.node) > kOffloadNs &&
      (OthersAreReady() || OthersWait() || !running_.empty() ||
       rendezvous_.waiting() > 0)) {
    Async* const async = BeginAsync(r);
    if (async == nullptr) return true;
    options_.pool->Schedule([async] { Launch(async); });
    return true;
  }
  const int64_t start = NowNs();
  StartAsync(r);
  AddCost(*r.node, NowNs() - start);
  return true;
}

// Nothing else is ready, but kernels are in flight: gives up the driver's role,
// so that a thread that completes a kernel can drive while this thread runs a
// long one.
bool Execution::RunUnattended(Ready r) {
  const bool alone = NoneRuns() && rendezvous_.waiting() == 0;
  Async* const async = BeginAsync(r);
  if (async == nullptr) return true;
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (!mailbox_.empty()) {  // Mail first: it may make other nodes ready.
      EndAsync(async);
      tokens_.ready().push_back(r);
      return true;
    }
    driving_ = false;
  }
  async->status = InvokeAsync(*async, alone ? options_.intra_op_threads : 1);
  std::lock_guard<std::mutex> lock(mu_);
  mailbox_.push_back(async);
  attention_.store(true, std::memory_order_release);
  return !std::exchange(driving_, true);
}

// A kernel that ran outside of the driver is done. Called by any thread,
// including the driver's (an async kernel may finish before it returns). After
// the lock is released the step may end at any moment, unless this thread has
// become the driver. What ends a wait is often the work of another step, which
// this thread drives: it does not also do the work of this one, if that is long
// and has a thread of its own.
void Execution::Post(Async* async, Status s) {
  async->status = std::move(s);
  const bool waited = (async->ready.node->flags & PlanNode::kWaits) != 0;
  {
    std::lock_guard<std::mutex> lock(mu_);
    mailbox_.push_back(async);
    attention_.store(true, std::memory_order_release);
    if (driving_) return;
    driving_ = true;
    quiet_ = false;  // (It is quiet between the stages of a partial run.)
    times_turn_ = waited;
    if (waited && caller_sleeps_ &&
        turn_ns_.load(std::memory_order_relaxed) > kLongTurnNs) {
      // (Under the lock: the caller may wake without it, and end the step.)
      called_ = true;
      quiet_cv_.notify_all();
      return;
    }
  }
  Drive();
}

// Handles completions and cancellations since the last call.
void Execution::HandleMail() {
  Status why;
  {
    std::lock_guard<std::mutex> lock(mu_);
    attention_.store(false, std::memory_order_relaxed);
    completed_.swap(mailbox_);
    arrived_.swap(inbox_);
    std::swap(why, cancelled_);
  }
  if (!why.ok()) Fail(nullptr, why);
  for (Async* const async : completed_) {
    if (status_.ok()) Done(async->ready, async->status);
    EndAsync(async);
  }
  completed_.clear();
  for (TokenMessage& m : arrived_)
    if (status_.ok()) Arrived(m);
  arrived_.clear();
}

// Fails the step. `r` names the node, or is null for an external cause.
bool Execution::Fail(const Ready* r, Status s) {
  if (status_.ok()) {
    if (s.code() == StatusCode::kCancelled && r != nullptr) {
      // A kernel that noticed a cancellation before the driver: the cause of
      // the cancellation is the step's error. A region adds the loops it was
      // in.
      std::lock_guard<std::mutex> lock(mu_);
      if (!cancelled_.ok() && IsLocated(s)) {
        s = Located(Status(cancelled_.code(), absl::StrCat(cancelled_.message(),
                                                           "; ", s.message())));
      } else if (!cancelled_.ok()) {
        s = cancelled_;
        r = nullptr;
      }
    }
    std::string where;
    const bool located = IsLocated(s);
    if (r != nullptr && !located)
      where = absl::StrCat("; ", DescribeAttributed(s, NodeToName(*r->node)));
    const bool in_region = r != nullptr && located && IsEndFromOutside(s);
    if (r != nullptr && (!located || in_region)) {
      const std::string frame = Tokens::Where(*r->iteration);
      if (!frame.empty())
        absl::StrAppend(&where, in_region ? " within " : ", ", frame.substr(2));
    }
    if (r == nullptr || in_region) {
      const std::string waiting = DescribeWaiting();
      if (!waiting.empty()) absl::StrAppend(&where, "; ", waiting);
    }
    status_ = Status(s.code(), absl::StrCat(s.message(), where));
    cancellation_->Cancel();
  }
  tokens_.ready().clear();
  tokens_.DropPostponed();
  if (stage_ != nullptr) stage_->Clear();
  heap_size_ = 0;
  return true;
}

}  // namespace sluice
