#include "exec/core/trace.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace sluice {
namespace {

std::string Quote(std::string_view s) {
  std::string out = "\"";
  for (char c : s) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      absl::StrAppendFormat(&out, "\\u%04x", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out + "\"";
}

// Splits "/job:a/replica:0/task:0/device:CPU:1" into the task ("" if missing)
// and the rest.
std::pair<std::string, std::string> TaskAndDevice(const std::string& device) {
  const size_t at = device.find("/device:");
  if (at == std::string::npos) return {device, "/device:CPU:0"};
  return {device.substr(0, at), device.substr(at)};
}

// Writes one trace. Used once.
class Writer {
 public:
  explicit Writer(const std::vector<TraceTask>& tasks) : tasks_(tasks) {
    for (const TraceTask& t : tasks) ProcessOf(t.name);
  }

  std::string Write(const std::vector<TraceEvent>& events) {
    for (const TraceEvent& e : events) origin_ = std::min(origin_, e.start_ns);
    for (const TraceTask& t : tasks_)
      if (t.end_ns > 0) origin_ = std::min(origin_, t.start_ns);
    for (const TraceTask& t : tasks_)
      if (t.end_ns > 0) AddStep(t);
    std::vector<const TraceEvent*> order;
    for (const TraceEvent& e : events) order.push_back(&e);
    // (The longer first if two begin at the same time.)
    std::stable_sort(order.begin(), order.end(), [](auto* a, auto* b) {
      return a->start_ns != b->start_ns ? a->start_ns < b->start_ns
                                        : a->end_ns > b->end_ns;
    });
    for (const TraceEvent* e : order) AddEvent(*e);
    for (const auto& [number, ends] : transfers_) AddArrow(ends);
    return Document();
  }

 private:
  struct Place {
    int process = 0, thread = 0;
  };
  struct Ends {
    const TraceEvent* send = nullptr;
    const TraceEvent* receive = nullptr;
    Place from, to;
  };
  // A lane of a device, with the time until which it is busy.
  struct Lane {
    int64_t end_ns = 0;
    int thread = 0;
  };

  int ProcessOf(const std::string& task) {
    const auto [it, fresh] =
        processes_.try_emplace(task, static_cast<int>(processes_.size()) + 1);
    if (!fresh) return it->second;
    Meta(
        it->second, 0, "process_name",
        absl::StrCat("\"name\":", Quote(task.empty() ? "this process" : task)));
    Meta(it->second, 0, "process_sort_index",
         absl::StrCat("\"sort_index\":", it->second));
    return it->second;
  }
  int NewThread(int process, const std::string& name) {
    const int thread = ++threads_;
    Meta(process, thread, "thread_name",
         absl::StrCat("\"name\":", Quote(name)));
    Meta(process, thread, "thread_sort_index",
         absl::StrCat("\"sort_index\":", thread));
    return thread;
  }
  // Slices of one thread must not overlap: concurrent ones go to further lanes.
  Place PlaceOf(const TraceEvent& e) {
    const auto [task, device] = TaskAndDevice(e.device);
    Place p;
    p.process = ProcessOf(task);
    std::vector<Lane>& lanes = lanes_[e.device];
    size_t i = 0;
    while (i < lanes.size() && lanes[i].end_ns > e.start_ns) ++i;
    if (i == lanes.size())
      lanes.push_back(
          {0, NewThread(p.process, i == 0 ? device
                                          : absl::StrCat(device, " (beside ", i,
                                                         " others)"))});
    lanes[i].end_ns = std::max(e.end_ns, e.start_ns + 1);
    p.thread = lanes[i].thread;
    return p;
  }

  void Meta(int process, int thread, const char* what,
            const std::string& args) {
    absl::StrAppendFormat(
        &meta_,
        "%s{\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"name\":\"%s\",\"args\":{%s}}",
        meta_.empty() ? "" : ",\n", process, thread, what, args);
  }
  // The beginning of a line, without the closing brace.
  std::string Line(const char* phase, Place p, int64_t at_ns,
                   std::string_view name) const {
    return absl::StrFormat(
        "{\"ph\":\"%s\",\"pid\":%d,\"tid\":%d,\"ts\":%.3f,\"name\":%s", phase,
        p.process, p.thread, static_cast<double>(at_ns - origin_) / 1e3,
        Quote(name));
  }
  void Slice(Place p, int64_t start_ns, int64_t end_ns, const std::string& name,
             const char* category, const std::string& args) {
    lines_.emplace_back(
        start_ns,
        absl::StrFormat(
            "%s,\"cat\":\"%s\",\"dur\":%.3f,\"args\":{%s}}",
            Line("X", p, start_ns, name), category,
            static_cast<double>(std::max(end_ns, start_ns + 1) - start_ns) /
                1e3,
            args));
  }

  void AddStep(const TraceTask& t) {
    const int process = ProcessOf(t.name);
    const Place p{process, NewThread(process, "step")};
    Slice(p, t.start_ns, t.end_ns, "step", "step",
          absl::StrCat("\"clock_offset_ns\":", t.clock_offset_ns,
                       ",\"clock_error_ns\":", t.clock_error_ns,
                       ",\"events_left_out\":", t.events_left_out));
    Meta(process, 0, "process_labels",
         absl::StrFormat("\"labels\":\"clock %+.1f us, to within %.1f us\"",
                         static_cast<double>(t.clock_offset_ns) / 1e3,
                         static_cast<double>(t.clock_error_ns) / 1e3));
  }

  void AddEvent(const TraceEvent& e) {
    const Place p = PlaceOf(e);
    std::string args =
        absl::StrCat("\"node\":", Quote(e.node), ",\"os_thread\":", e.thread);
    if (!e.frame.empty())
      absl::StrAppend(&args, ",\"frame\":", Quote(e.frame),
                      ",\"iteration\":", e.iteration);
    if (e.instances != 1)
      absl::StrAppend(&args, ",\"instances\":", e.instances);
    if (e.kind == TraceEvent::kKernel) {
      absl::StrAppend(&args, ",\"outputs\":", Quote(e.Shapes()),
                      ",\"allocated_bytes\":", e.allocated_bytes);
      Slice(p, e.start_ns, e.end_ns, e.op, "kernel", args);
      return;
    }
    const bool sends = e.kind == TraceEvent::kSend;
    absl::StrAppend(&args, ",\"tensor\":", Quote(e.tensor),
                    ",\"value\":", Quote(e.Shapes()),
                    ",\"bytes\":", e.OutputBytes(),
                    sends ? ",\"to\":" : ",\"from\":", Quote(e.peer));
    Slice(p, e.start_ns, e.end_ns,
          absl::StrCat(sends ? "send " : "receive ", e.tensor),
          sends ? "send" : "receive", args);
    Ends& ends = transfers_[e.transfer];
    (sends ? ends.send : ends.receive) = &e;
    (sends ? ends.from : ends.to) = p;
  }

  // From the beginning of one slice to the end of the other, within both, so
  // that it never goes back in time except for clock errors.
  void AddArrow(const Ends& ends) {
    if (ends.send == nullptr || ends.receive == nullptr) return;
    const TraceEvent& e = *ends.send;
    const std::string rest = absl::StrFormat(
        ",\"cat\":\"transfer\",\"id\":%d,\"args\":{\"tensor\":%s,\"value\":%s,"
        "\"bytes\":%d}}",
        ++arrows_, Quote(e.tensor), Quote(e.Shapes()), e.OutputBytes());
    const std::string name = absl::StrCat("transfer ", e.tensor);
    lines_.emplace_back(e.start_ns,
                        Line("s", ends.from, e.start_ns, name) + rest);
    const int64_t end =
        std::max(ends.receive->start_ns, ends.receive->end_ns - 1);
    lines_.emplace_back(end, absl::StrCat(Line("f", ends.to, end, name),
                                          ",\"bp\":\"e\"", rest));
  }

  std::string Document() {
    std::stable_sort(lines_.begin(), lines_.end(),
                     [](auto& a, auto& b) { return a.first < b.first; });
    std::string out = "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"clocks\":{";
    for (const TraceTask& t : tasks_)
      absl::StrAppend(&out, &t == tasks_.data() ? "" : ",", Quote(t.name),
                      ":{\"offset_ns\":", t.clock_offset_ns,
                      ",\"error_ns\":", t.clock_error_ns, "}");
    absl::StrAppend(&out, "}},\"traceEvents\":[\n", meta_);
    for (const auto& [at, line] : lines_)
      absl::StrAppend(&out, out.back() == '\n' ? "" : ",\n", line);
    return out + "\n]}\n";
  }

  const std::vector<TraceTask>& tasks_;
  int64_t origin_ = INT64_MAX;
  std::map<std::string, int> processes_;            // By task.
  std::map<std::string, std::vector<Lane>> lanes_;  // By device.
  std::map<uint64_t, Ends> transfers_;
  int threads_ = 0, arrows_ = 0;
  std::string meta_;
  std::vector<std::pair<int64_t, std::string>> lines_;  // Sorted at the end.
};

}  // namespace

std::string TraceEvent::Shapes() const {
  std::string text;
  for (const TraceOutput& o : outputs)
    absl::StrAppend(&text, text.empty() ? "" : " ", DTypeName(o.dtype),
                    o.shape.ToString());
  return text;
}

int64_t TraceEvent::OutputBytes() const {
  int64_t bytes = 0;
  for (const TraceOutput& o : outputs) bytes += o.bytes;
  return bytes;
}

int TraceThreadId() {
  static std::atomic<int> next{0};
  thread_local const int id = next.fetch_add(1);
  return id;
}

uint64_t TransferNumber(std::string_view to_device, uint32_t edge,
                        absl::uint128 frame, int64_t iteration) {
  // (absl::Hash differs from process to process.)
  uint64_t h = 0xcbf29ce484222325;
  for (const char c : to_device)
    h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  for (const uint64_t v :
       {uint64_t{edge}, absl::Uint128High64(frame), absl::Uint128Low64(frame),
        static_cast<uint64_t>(iteration)}) {
    h ^= v + 0x9e3779b97f4a7c15 + (h << 6) + (h >> 2);
    h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9;
    h = (h ^ (h >> 27)) * 0x94d049bb133111eb;
    h ^= h >> 31;
  }
  return h;
}

std::string ChromeTrace(const std::vector<TraceEvent>& events,
                        const std::vector<TraceTask>& tasks) {
  return Writer(tasks).Write(events);
}

}  // namespace sluice
