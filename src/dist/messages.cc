#include "dist/messages.h"

namespace sluice {

void TraceToProto(const std::vector<TraceEvent>& events, proto::TaskStats* p) {
  for (const TraceEvent& e : events) {
    proto::TraceEventProto* q = p->add_event();
    q->set_node(e.node);
    q->set_op(e.op);
    q->set_shapes(e.shapes);
    q->set_thread(e.thread);
    q->set_start_ns(e.start_ns);
    q->set_end_ns(e.end_ns);
    q->set_allocated_bytes(e.allocated_bytes);
    q->set_iteration(e.iteration);
    q->set_frame(e.frame);
  }
}

std::vector<TraceEvent> TraceFromProto(const proto::TaskStats& p) {
  std::vector<TraceEvent> events;
  events.reserve(static_cast<size_t>(p.event_size()));
  for (const proto::TraceEventProto& q : p.event()) {
    TraceEvent e;
    e.node = q.node();
    e.op = q.op();
    e.shapes = q.shapes();
    e.thread = q.thread();
    e.start_ns = q.start_ns() + p.clock_offset_ns();
    e.end_ns = q.end_ns() + p.clock_offset_ns();
    e.allocated_bytes = q.allocated_bytes();
    e.iteration = q.iteration();
    e.frame = q.frame();
    events.push_back(std::move(e));
  }
  return events;
}

}  // namespace sluice
