#include "tools/sluice/show_devices.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/cluster_library.h"
#include "cluster/cluster_watch.h"
#include "exec/core/device.h"
#include "graph/device_name.h"
#include "passes/place.h"

namespace sluice::cli {
namespace {

struct Hue {
  const char* fill;
  const char* line;
};
constexpr Hue kHues[] = {{"#dbeafe", "#2563eb"}, {"#fef3c7", "#d97706"},
                         {"#dcfce7", "#16a34a"}, {"#fce7f3", "#db2777"},
                         {"#ede9fe", "#7c3aed"}, {"#cffafe", "#0891b2"},
                         {"#fee2e2", "#dc2626"}, {"#ecfccb", "#65a30d"}};
constexpr Hue kNoDevice = {"#ffffff", "#6b7280"};

// Further colours: rotate the hue by the golden angle, so that consecutive ones
// differ.
std::string FarHue(size_t i, bool fill) {
  const double turns = static_cast<double>(i) * 0.6180339887;
  return absl::StrFormat("%.3f %s", turns - std::floor(turns),
                         fill ? "0.14 1.0" : "0.80 0.72");
}

std::string ByteText(int64_t b) {
  if (b < 1000) return absl::StrCat(b, " B");
  const char* const units[] = {"kB", "MB", "GB", "TB"};
  double v = static_cast<double>(b) / 1000;
  size_t u = 0;
  while (v >= 999.5 && u + 1 < std::size(units)) {
    v /= 1000;
    ++u;
  }
  return v < 99.95 ? absl::StrFormat("%.3g %s", v, units[u])
                   : absl::StrFormat("%.0f %s", v, units[u]);
}

// The size of one transfer, -1 if unknown.
int64_t BytesOf(const Output& o) {
  const DType type = RemoveRef(o.dtype());
  if (!IsPlain(type) || !o.shape().fully_known()) return -1;
  const Result<Shape> shape = o.shape().ToShape();
  return shape.ok()
             ? shape->num_elements() * static_cast<int64_t>(DTypeSize(type))
             : -1;
}

// Parses "gpu=3" into "gpu" and 3; errors quote all of `text`.
Status ParseCount(absl::string_view text, DeviceName* device, int* count) {
  const std::pair<std::string, std::string> kv =
      absl::StrSplit(text, absl::MaxSplits('=', 1));
  // (Known types have a short form.)
  const Result<DeviceName> type = DeviceName::Parse("/" + kv.first + ":0");
  if (!type.ok() || type->type.empty() || type->number != 0 ||
      !absl::SimpleAtoi(kv.second, count) || *count < 1 || *count > 1024)
    return InvalidArgument(
        "--devices: expected TYPE=COUNT, of cpu, gpu, tpu and emu, got '", text,
        "'");
  device->type = type->type;
  return OkStatus();
}

std::string EscapeHtml(const std::string& s) {
  return absl::StrReplaceAll(s, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}});
}

}  // namespace

Result<std::vector<PlaceableDevice>> DevicesForShow(
    const std::string& cluster, const std::string& devices) {
  std::vector<std::string> tasks = {"/job:localhost/replica:0/task:0"};
  if (!cluster.empty()) {
    SLUICE_ASSIGN_OR_RETURN(void* const found,
                            DistSymbol("sluice_cluster_tasks"));
    tasks.clear();
    std::string error;
    if (!reinterpret_cast<decltype(&sluice_cluster_tasks)>(found)(
            &cluster, &tasks, &error))
      return InvalidArgument(error);
  }
  // (A plain number counts CPUs, as in other commands.)
  int cpus = 0;
  const std::string list =
      absl::SimpleAtoi(devices, &cpus) ? "cpu=" + devices : devices;
  std::vector<PlaceableDevice> all;
  for (const std::string& task : tasks) {
    std::set<std::string> types;
    for (const absl::string_view part : absl::StrSplit(list, ',')) {
      int count = 0;
      SLUICE_ASSIGN_OR_RETURN(DeviceName name, DeviceName::Parse(task));
      SLUICE_RETURN_IF_ERROR(ParseCount(part, &name, &count));
      if (!types.insert(name.type).second)
        return InvalidArgument("--devices: expected each type once, got '",
                               part, "' too");
      for (name.number = 0; name.number < count; ++name.number)
        all.push_back(
            {.name = name, .has_kernel = [type = name.type](const Node& n) {
               return HasKernel(type, n);
             }});
    }
  }
  return all;
}

Status PlaceForShow(std::vector<PlaceableDevice> devices, Graph* graph) {
  PlacementOptions options;
  options.default_device = devices[0].name.Task();
  options.devices = std::move(devices);
  return sluice::Place(graph, options);
}

std::string DescribeCrossing(const Crossing& c) {
  if (c.index < 0) return "";
  const Output o(const_cast<Node*>(c.node), c.index);
  return absl::StrCat(DTypeName(RemoveRef(o.dtype())),
                      o.shape().rank_known() ? o.shape().ToString() : "",
                      c.bytes < 0 ? "" : " " + ByteText(c.bytes));
}

ShowDevices::ShowDevices(const Graph& graph, bool constants) {
  const auto shown = [&](const Node* n) {
    return n != nullptr && (constants || n->op().role != OpRole::kConst);
  };
  std::set<std::string> tasks;
  bool any = false;
  for (const auto& n : graph.nodes()) {
    if (!shown(n.get())) continue;
    ++nodes_[n->device()];
    any |= !n->device().empty();
    if (!n->device().empty())
      tasks.insert(n->device().substr(0, n->device().find("/device:")));
  }
  if (!any) return;
  one_task_ = tasks.size() == 1;
  for (const auto& [name, count] : nodes_)
    if (!name.empty()) names_.push_back(name);
  if (nodes_.contains("")) names_.push_back("");
  for (const auto& n : graph.nodes()) {
    if (!shown(n.get())) continue;
    const auto add = [&](const Node* from, int index) {
      if (!shown(from) || !Crosses(from, n.get())) return;
      const auto [it, fresh] = by_output_.try_emplace(
          {{from->id(), index}, n->device()}, crossings_.size());
      if (fresh) {
        Crossing c{from, index, n->device(), 0, -1};
        if (index >= 0)
          c.bytes = BytesOf(Output(const_cast<Node*>(from), index));
        crossings_.push_back(std::move(c));
      }
      ++crossings_[it->second].readers;
    };
    for (const Output& in : n->inputs())
      if (in.valid()) add(in.node, in.index);
    for (const Node* c : n->control_inputs()) add(c, -1);
  }
}

size_t ShowDevices::NumberOf(const std::string& device) const {
  return static_cast<size_t>(std::find(names_.begin(), names_.end(), device) -
                             names_.begin());
}

std::string ShowDevices::ShortName(const std::string& device) const {
  if (device.empty()) return "no device";
  const Result<DeviceName> name = DeviceName::Parse(device);
  if (!name.ok()) return device;
  std::string kind = name->type;
  if (!kind.empty() && name->number >= 0)
    absl::StrAppend(&kind, ":", name->number);
  std::string task = name->job;
  if (!task.empty() && name->task >= 0) absl::StrAppend(&task, ":", name->task);
  if (one_task_ && !kind.empty()) return kind;
  if (task.empty() && kind.empty()) return device;
  if (task.empty() || kind.empty()) return task + kind;
  return absl::StrCat(task, " ", kind);
}

std::string ShowDevices::Fill(const Node& n) const {
  if (n.device().empty()) return kNoDevice.fill;
  const size_t i = NumberOf(n.device());
  return i < std::size(kHues) ? kHues[i].fill : FarHue(i, true);
}

std::string ShowDevices::Line(const Node& n) const {
  if (n.device().empty()) return kNoDevice.line;
  const size_t i = NumberOf(n.device());
  return i < std::size(kHues) ? kHues[i].line : FarHue(i, false);
}

const Crossing* ShowDevices::Find(const Node* node, int index,
                                  const Node* reader) const {
  const auto it = by_output_.find({{node->id(), index}, reader->device()});
  return it == by_output_.end() ? nullptr : &crossings_[it->second];
}

// "7 values (1.2 kB known, 2 of unknown size), 1 signal"
std::string ShowDevices::Total() const {
  int64_t values = 0, signals = 0, bytes = 0, unknown = 0;
  for (const Crossing& c : crossings_) {
    ++(c.index < 0 ? signals : values);
    if (c.bytes >= 0)
      bytes += c.bytes;
    else if (c.index >= 0)
      ++unknown;
  }
  std::string out = absl::StrCat(values, values == 1 ? " value" : " values");
  if (values > unknown) absl::StrAppend(&out, ", ", ByteText(bytes));
  if (unknown > 0)
    absl::StrAppend(&out, values > unknown ? " and " : ", ", unknown,
                    " of unknown size");
  if (signals > 0)
    absl::StrAppend(&out, "; ", signals, signals == 1 ? " signal" : " signals");
  return out;
}

std::string ShowDevices::Legend() const {
  std::string rows;
  for (const std::string& name : names_) {
    const size_t i = NumberOf(name);
    const std::string fill = name.empty()           ? kNoDevice.fill
                             : i < std::size(kHues) ? kHues[i].fill
                                                    : FarHue(i, true);
    const std::string line = name.empty()           ? kNoDevice.line
                             : i < std::size(kHues) ? kHues[i].line
                                                    : FarHue(i, false);
    const int count = nodes_.at(name);
    absl::StrAppend(&rows, "<tr><td bgcolor=\"", fill, "\" color=\"", line,
                    "\" border=\"2\" width=\"26\"></td><td align=\"left\"><b>",
                    EscapeHtml(ShortName(name)), "</b>  ", count,
                    count == 1 ? " node" : " nodes", "</td></tr>");
  }
  return absl::StrCat(
      "<<table border=\"0\" cellborder=\"0\" cellspacing=\"4\">", rows,
      "<tr><td></td><td align=\"left\"><font color=\"#4b5563\">bold: crosses "
      "devices (",
      EscapeHtml(Total()), ")</font></td></tr></table>>");
}

std::string ShowDevices::Table() const {
  std::string out = "\ndevices\n";
  size_t width = 0;
  for (const std::string& name : names_)
    width = std::max(width, ShortName(name).size());
  for (const std::string& name : names_)
    absl::StrAppendFormat(&out, "  %-*s  %d nodes\n", static_cast<int>(width),
                          ShortName(name), nodes_.at(name));
  absl::StrAppend(&out, "crossing: ", Total(), "\n");
  for (const Crossing& c : crossings_) {
    const std::string what =
        c.index < 0 ? "^" + c.node->name()
                    : Output(const_cast<Node*>(c.node), c.index).name();
    const std::string described = DescribeCrossing(c);
    absl::StrAppend(&out, "  ", what, described.empty() ? "" : "  ", described,
                    "  ", ShortName(c.node->device()), " -> ", ShortName(c.to));
    if (c.readers > 1) absl::StrAppend(&out, "  (", c.readers, " readers)");
    out += "\n";
  }
  return out;
}

}  // namespace sluice::cli
