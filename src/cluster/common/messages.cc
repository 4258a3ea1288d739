#include "cluster/common/messages.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "graph/tensor_proto.h"

namespace sluice {
namespace {

// Omits invalid values.
TraceOutput TraceOutputFromProto(const proto::TraceOutputProto& p) {
  TraceOutput o;
  if (auto dtype = DTypeFromProto(p.dtype()); dtype.ok()) o.dtype = *dtype;
  const std::vector<int64_t> dims(p.dim().begin(), p.dim().end());
  if (auto shape = Shape::Make(dims); shape.ok()) o.shape = *std::move(shape);
  o.bytes = p.bytes();
  o.alias = std::max(p.alias(), 0) - 1;
  return o;
}

}  // namespace

void TraceToProto(const std::vector<TraceEvent>& events, proto::TaskStats* p) {
  for (const TraceEvent& e : events) {
    proto::TraceEventProto* q = p->add_event();
    // (Names of nodes may be any bytes in C, and frames are named after them.)
    q->set_node(ValidUtf8(e.node));
    q->set_op(ValidUtf8(e.op));
    for (const TraceOutput& o : e.outputs) {
      proto::TraceOutputProto* out = q->add_output();
      out->set_dtype(static_cast<int>(o.dtype));
      for (int i = 0; i < o.shape.rank(); ++i) out->add_dim(o.shape.dim(i));
      out->set_bytes(o.bytes);
      out->set_alias(o.alias + 1);
    }
    q->set_thread(e.thread);
    q->set_start_ns(e.start_ns);
    q->set_end_ns(e.end_ns);
    q->set_allocated_bytes(e.allocated_bytes);
    q->set_iteration(e.iteration);
    q->set_frame(ValidUtf8(e.frame));
    q->set_device(ValidUtf8(e.device));
    q->set_tensor(ValidUtf8(e.tensor));  // (Of decisions too.)
    q->set_peer(ValidUtf8(e.peer));
    if (e.kind == TraceEvent::kKernel) continue;
    q->set_kind(e.kind);
    q->set_transfer(e.transfer);
  }
}

std::vector<TraceEvent> TraceFromProto(const proto::TaskStats& p) {
  std::vector<TraceEvent> events;
  events.reserve(static_cast<size_t>(p.event_size()));
  for (const proto::TraceEventProto& q : p.event()) {
    TraceEvent e;
    e.node = q.node();
    e.op = q.op();
    for (const proto::TraceOutputProto& o : q.output())
      e.outputs.push_back(TraceOutputFromProto(o));
    e.thread = q.thread();
    e.start_ns = q.start_ns() + p.clock_offset_ns();
    e.end_ns = q.end_ns() + p.clock_offset_ns();
    e.allocated_bytes = q.allocated_bytes();
    e.iteration = q.iteration();
    e.frame = q.frame();
    e.device = q.device();
    if (q.kind() == TraceEvent::kSend || q.kind() == TraceEvent::kReceive)
      e.kind = static_cast<TraceEvent::Kind>(q.kind());
    e.transfer = q.transfer();
    e.tensor = q.tensor();
    e.peer = q.peer();
    events.push_back(std::move(e));
  }
  return events;
}

TraceTask TraceTaskFromProto(const proto::TaskStats& p) {
  TraceTask t;
  t.name = p.task();
  t.start_ns = p.start_ns() + p.clock_offset_ns();
  t.end_ns = p.end_ns() + p.clock_offset_ns();
  t.clock_offset_ns = p.clock_offset_ns();
  t.clock_error_ns = p.clock_error_ns();
  t.events_left_out = p.events_left_out();
  return t;
}

void FitTrace(size_t max_bytes, size_t others, proto::TaskStats* p) {
  size_t bytes = others;
  int keep = 0;
  while (keep < p->event_size() && bytes < max_bytes)
    bytes += p->event(keep++).ByteSizeLong() + 8;
  if (bytes >= max_bytes && keep > 0) --keep;
  const int left_out = p->event_size() - keep;
  if (left_out == 0) return;
  p->set_events_left_out(p->events_left_out() + left_out);
  p->mutable_event()->DeleteSubrange(keep, left_out);
}

Status CheckMessage(const char* what, const google::protobuf::Message& m) {
  constexpr size_t kMax = INT32_MAX - (1 << 20);  // The rest is small.
  const size_t bytes = m.ByteSizeLong();
  if (bytes <= kMax) return OkStatus();
  return ResourceExhausted(what, ": expected at most ", kMax,
                           " bytes to or from a cluster at once, got ", bytes);
}

std::string ValidUtf8(std::string_view text) {
  std::string valid;
  for (size_t i = 0; i < text.size();) {
    const auto at = [&](size_t k) {
      return i + k < text.size() ? static_cast<unsigned char>(text[i + k]) : 0;
    };
    const int first = at(0), second = at(1);
    size_t size = 0;
    if (first < 0x80)
      size = 1;
    else if (first >= 0xc2 && first < 0xe0)
      size = 2;
    else if (first >= 0xe0 && first < 0xf0)
      size = 3;
    else if (first >= 0xf0 && first < 0xf5)
      size = 4;
    for (size_t k = 1; k < size; ++k)
      if ((at(k) & 0xc0) != 0x80) size = 0;
    // (Too long for their characters, surrogates, beyond U+10FFFF.)
    if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
        (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f))
      size = 0;
    valid += size > 0 ? text.substr(i, size) : "\xef\xbf\xbd";
    i += std::max<size_t>(size, 1);
  }
  return valid;
}

StepLog BoundedLog(StepLog log) {
  if (!log) return nullptr;
  constexpr int64_t kMax = 8 << 20;
  constexpr int64_t kEach = 64;  // The overhead of a line.
  return [log = std::move(log), left = std::make_shared<std::atomic<int64_t>>(
                                    kMax)](const std::string& text) {
    const auto size = static_cast<int64_t>(text.size()) + kEach;
    const int64_t had = left->fetch_sub(size);
    if (had < 0) return;
    log(had >= size ? text : "(further output of the step is left out)\n");
  };
}

}  // namespace sluice
