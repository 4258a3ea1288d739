#include "simulate/place_by_cost.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <numeric>
#include <random>
#include <utility>

#include "graph/frames.h"

namespace sluice {
namespace {

// The nodes of one step of the user's graph, in groups. Lives for one call.
class PlacementSearch {
 public:
  PlacementSearch(Graph* graph, const StepSignature& signature,
                  const ClusterModel& cluster,
                  const PlaceByCostOptions& options)
      : graph_(graph),
        signature_(signature),
        cluster_(cluster),
        options_(options),
        devices_(options.devices) {
    if (devices_.empty()) {
      devices_.resize(cluster.devices.size());
      std::iota(devices_.begin(), devices_.end(), 0);
    }
  }

  Result<CostPlacement> Run();

 private:
  struct Group {
    std::vector<Node*> nodes;  // That have no device of their own.
    std::vector<double> ns;    // By device: its kernels.
    double bytes = 0;          // Of memory.
    double weight = 0;         // Its longest time.
  };

  Status FindNodes();
  Status FindGroups();
  void FindBounds();
  std::vector<int> ListSchedule() const;
  bool Fits(const std::vector<int>& place) const;
  void Apply(const std::vector<int>& place);
  Result<double> Predict(const std::vector<int>& place);
  Status Improve(std::vector<int>* place, double* ns);

  int Root(int id) {
    while (root_[static_cast<size_t>(id)] != id)
      id = root_[static_cast<size_t>(id)] =
          root_[static_cast<size_t>(root_[static_cast<size_t>(id)])];
    return id;
  }
  void Join(const Node* a, const Node* b) {
    root_[static_cast<size_t>(Root(a->id()))] = Root(b->id());
  }
  double NsOf(const Node* n, int device) const {
    const DeviceModel& d = cluster_.devices[static_cast<size_t>(device)];
    return work_[static_cast<size_t>(n->id())].NsOn(d) + d.launch_ns +
           cluster_.costs.kernel_ns;
  }
  double TransferNs(double bytes, int from, int to) const;

  Graph* const graph_;
  const StepSignature& signature_;
  const ClusterModel& cluster_;
  const PlaceByCostOptions& options_;
  std::vector<int> devices_;
  std::vector<Node*> order_;  // The nodes of the step, in topological order.
  std::vector<int> root_, group_of_;  // By node id; group -1: it has a device.
  std::vector<int> fixed_;            // By node id; -1: free.
  std::vector<OpWork> work_;          // By node id.
  std::vector<Group> groups_;
  CostPlacement result_;
};

Status PlacementSearch::FindNodes() {
  std::vector<uint8_t> needed(static_cast<size_t>(graph_->num_nodes()), 0);
  std::vector<Node*> open;
  const auto need = [&](Node* n) {
    if (n != nullptr && !std::exchange(needed[static_cast<size_t>(n->id())], 1))
      open.push_back(n);
  };
  std::vector<uint8_t> fed(needed.size(), 0);
  for (const Output& f : signature_.feeds)
    if (f.valid()) fed[static_cast<size_t>(f.node->id())] = 1;
  for (const Output& o : signature_.fetches) need(o.node);
  for (Node* n : signature_.targets) need(n);
  while (!open.empty()) {
    Node* const n = open.back();
    open.pop_back();
    if (fed[static_cast<size_t>(n->id())] != 0) continue;
    for (const Output& in : n->inputs()) need(in.node);
    for (Node* c : n->control_inputs()) need(c);
  }
  SLUICE_ASSIGN_OR_RETURN(order_, TopologicalOrder(*graph_, &needed));
  if (order_.empty())
    return InvalidArgument("placement: expected a fetch or a target, got none");
  work_.resize(needed.size());
  for (const Node* n : order_)
    work_[static_cast<size_t>(n->id())] = WorkOf(*n, options_.measured);
  return OkStatus();
}

Status PlacementSearch::FindGroups() {
  root_.resize(static_cast<size_t>(graph_->num_nodes()));
  std::iota(root_.begin(), root_.end(), 0);
  fixed_.assign(root_.size(), -1);
  group_of_.assign(root_.size(), -1);
  SLUICE_ASSIGN_OR_RETURN(const std::vector<Node*> all,
                          TopologicalOrder(*graph_));
  SLUICE_ASSIGN_OR_RETURN(const Frames frames, Frames::Of(*graph_, all));
  std::map<int, const Node*> first_of_frame;
  for (const Node* n : order_) {
    for (const Output& in : n->inputs()) {
      if (in.node == nullptr) continue;
      const DType t = in.dtype();
      if (IsRef(t) || t == DType::kResource || t == DType::kVariant)
        Join(n, in.node);
    }
    // A loop with all that is in it.
    const int frame = frames.frame_of(n);
    if (frame > 0) {
      const auto [it, fresh] = first_of_frame.try_emplace(frame, n);
      if (!fresh) Join(n, it->second);
      if (frames[frame].parent > 0)
        if (const auto outer = first_of_frame.find(frames[frame].parent);
            outer != first_of_frame.end())
          Join(n, outer->second);
    }
  }
  const auto device_of = [&](const Node* n) {
    const Result<DeviceName> asked = DeviceName::Parse(n->device());
    if (!asked.ok()) return -1;
    for (const int d : devices_)
      if (asked->Matches(cluster_.devices[static_cast<size_t>(d)].name))
        return d;
    return -1;
  };
  std::map<int, int> numbers, fixed_roots;
  for (const Node* n : order_)
    if (!n->device().empty()) fixed_roots.emplace(Root(n->id()), device_of(n));
  for (Node* n : order_) {
    const auto id = static_cast<size_t>(n->id());
    const int root = Root(n->id());
    if (const auto it = fixed_roots.find(root); it != fixed_roots.end()) {
      fixed_[id] = it->second < 0 ? devices_[0] : it->second;
      continue;
    }
    const auto [it, fresh] =
        numbers.try_emplace(root, static_cast<int>(groups_.size()));
    if (fresh) {
      groups_.emplace_back();
      groups_.back().ns.assign(cluster_.devices.size(), 0);
    }
    group_of_[id] = it->second;
    Group& g = groups_[static_cast<size_t>(it->second)];
    g.nodes.push_back(n);
    bool known = true;
    for (int i = 0; i < n->num_outputs(); ++i)
      if (n->op().role == OpRole::kCompute)
        g.bytes += StaticBytes(Output(n, i), &known);
    if (n->op().role != OpRole::kCompute) continue;
    for (const int d : devices_) {
      double& ns = g.ns[static_cast<size_t>(d)];
      ns += NsOf(n, d);
      g.weight = std::max(g.weight, ns);
    }
  }
  result_.groups = static_cast<int>(groups_.size());
  return OkStatus();
}

void PlacementSearch::FindBounds() {
  std::vector<double> ends(root_.size(), 0);
  double rate = 0;  // Work that all devices do in the time of one.
  double total = 0;
  for (const Node* n : order_) {
    double start = 0, fastest = 0;
    for (const Output& in : n->inputs())
      if (in.node != nullptr && !IsBackEdge(*in.node, *n))
        start = std::max(start, ends[static_cast<size_t>(in.node->id())]);
    for (const Node* c : n->control_inputs())
      start = std::max(start, ends[static_cast<size_t>(c->id())]);
    if (n->op().role == OpRole::kCompute) {
      fastest = 1e300;
      for (const int d : devices_)
        fastest =
            std::min(fastest, work_[static_cast<size_t>(n->id())].NsOn(
                                  cluster_.devices[static_cast<size_t>(d)]));
    }
    total += fastest;
    ends[static_cast<size_t>(n->id())] = start + fastest;
    result_.path_bound_ns = std::max(result_.path_bound_ns, start + fastest);
  }
  // (A CPU is as many devices as its machine has cores.)
  std::map<int, int> cores;
  for (const int d : devices_) {
    const DeviceModel& device = cluster_.devices[static_cast<size_t>(d)];
    const int machine =
        cluster_.tasks[static_cast<size_t>(device.task)].machine;
    if (device.is_cpu())
      cores[machine] = cluster_.machines[static_cast<size_t>(machine)].cores;
    else
      rate += 1;
  }
  for (const auto& [machine, count] : cores) rate += count;
  result_.work_bound_ns = total / std::max(rate, 1.0);
}

double PlacementSearch::TransferNs(double bytes, int from, int to) const {
  if (from == to) return 0;
  const DeviceModel& a = cluster_.devices[static_cast<size_t>(from)];
  const DeviceModel& b = cluster_.devices[static_cast<size_t>(to)];
  const RuntimeCosts& c = cluster_.costs;
  double ns = 2 * c.token_ns;
  if (!a.is_cpu()) ns += bytes / a.peer_bytes_per_s * 1e9;
  if (!b.is_cpu()) ns += bytes / b.peer_bytes_per_s * 1e9;
  if (a.task == b.task) return ns;
  const int m = cluster_.tasks[static_cast<size_t>(a.task)].machine;
  const int n = cluster_.tasks[static_cast<size_t>(b.task)].machine;
  ns += c.send_ns + c.receive_ns + c.hop_ns +
        2 * bytes / c.copy_bytes_per_s * 1e9;
  if (m != n)
    ns += cluster_.machines[static_cast<size_t>(m)].latency_ns +
          bytes / cluster_.machines[static_cast<size_t>(m)].bytes_per_s * 1e9;
  return ns;
}

// By group: its device.
std::vector<int> PlacementSearch::ListSchedule() const {
  // Upward ranks, with the mean times of kernels and transfers.
  std::vector<double> rank(root_.size(), 0);
  const int one = devices_[0], other = devices_.back();
  const auto mean = [&](const Node* n) {
    if (n->op().role != OpRole::kCompute) return 0.0;
    double sum = 0;
    for (const int d : devices_) sum += NsOf(n, d);
    return sum / static_cast<double>(devices_.size());
  };
  for (auto it = order_.rbegin(); it != order_.rend(); ++it) {
    const Node* n = *it;
    double& r = rank[static_cast<size_t>(n->id())];
    r += mean(n);  // (So far the longest way from here.)
    for (const Output& in : n->inputs()) {
      if (in.node == nullptr || IsBackEdge(*in.node, *n)) continue;
      bool known = true;
      double& before = rank[static_cast<size_t>(in.node->id())];
      before = std::max(
          before, r + TransferNs(StaticBytes(in, &known), one, other) * 0.5);
    }
    for (const Node* c : n->control_inputs()) {
      double& before = rank[static_cast<size_t>(c->id())];
      before = std::max(before, r);
    }
  }
  std::vector<int> place(groups_.size(), -1);
  std::vector<double> used(cluster_.devices.size(), 0),
      free_at(cluster_.devices.size(), 0), ends(root_.size(), 0);
  std::vector<const Node*> by_rank(order_.begin(), order_.end());
  std::vector<int> position(root_.size(), 0);
  for (size_t i = 0; i < order_.size(); ++i)
    position[static_cast<size_t>(order_[i]->id())] = static_cast<int>(i);
  std::stable_sort(by_rank.begin(), by_rank.end(),
                   [&](const Node* a, const Node* b) {
                     return rank[static_cast<size_t>(a->id())] >
                            rank[static_cast<size_t>(b->id())];
                   });
  std::vector<int> device_of(root_.size(), one);
  for (const Node* n : by_rank) {
    const auto id = static_cast<size_t>(n->id());
    const auto end_on = [&](int d) {
      double ready = 0;
      for (const Output& in : n->inputs()) {
        if (in.node == nullptr || IsBackEdge(*in.node, *n)) continue;
        const auto from = static_cast<size_t>(in.node->id());
        bool known = true;
        ready = std::max(ready, ends[from] + TransferNs(StaticBytes(in, &known),
                                                        device_of[from], d));
      }
      if (n->op().role != OpRole::kCompute) return ready;
      return std::max(ready, free_at[static_cast<size_t>(d)]) + NsOf(n, d);
    };
    int chosen = fixed_[id];
    const int group = group_of_[id];
    if (chosen < 0) chosen = place[static_cast<size_t>(group)];
    if (chosen < 0) {
      const Group& g = groups_[static_cast<size_t>(group)];
      double best = 1e300;
      for (const int d : devices_) {
        const auto limit = static_cast<double>(
            cluster_.devices[static_cast<size_t>(d)].memory_bytes);
        if (limit > 0 && used[static_cast<size_t>(d)] + g.bytes > limit)
          continue;
        if (const double end = end_on(d); end < best) {
          best = end;
          chosen = d;
        }
      }
      if (chosen < 0) chosen = one;  // Fits fails.
      place[static_cast<size_t>(group)] = chosen;
      used[static_cast<size_t>(chosen)] += g.bytes;
    }
    device_of[id] = chosen;
    ends[id] = end_on(chosen);
    if (n->op().role == OpRole::kCompute)
      free_at[static_cast<size_t>(chosen)] = ends[id];
  }
  return place;
}

bool PlacementSearch::Fits(const std::vector<int>& place) const {
  std::vector<double> used(cluster_.devices.size(), 0);
  for (size_t g = 0; g < groups_.size(); ++g)
    used[static_cast<size_t>(place[g])] += groups_[g].bytes;
  for (size_t d = 0; d < used.size(); ++d)
    if (cluster_.devices[d].memory_bytes > 0 &&
        used[d] > static_cast<double>(cluster_.devices[d].memory_bytes))
      return false;
  return true;
}

void PlacementSearch::Apply(const std::vector<int>& place) {
  for (size_t g = 0; g < groups_.size(); ++g)
    for (Node* n : groups_[g].nodes)
      graph_->SetDevice(n, place.empty()
                               ? ""
                               : cluster_.devices[static_cast<size_t>(place[g])]
                                     .name.ToString());
}

Result<double> PlacementSearch::Predict(const std::vector<int>& place) {
  Apply(place);
  ++result_.simulations;
  SimulateOptions simulate;
  simulate.measured = options_.measured;
  simulate.unknown = options_.unknown;
  simulate.default_device = devices_[0];
  SLUICE_ASSIGN_OR_RETURN(
      const StepPrediction p,
      SimulateStep(*graph_, signature_, cluster_, simulate));
  return p.step_ns;
}

// Moves of one group, the heavy ones more often, until the simulations are used
// up.
Status PlacementSearch::Improve(std::vector<int>* place, double* ns) {
  if (devices_.size() < 2 || groups_.empty()) return OkStatus();
  std::vector<double> weights;
  for (const Group& g : groups_) weights.push_back(g.weight + 1);
  std::discrete_distribution<size_t> draw(weights.begin(), weights.end());
  std::mt19937_64 random(options_.seed);
  while (result_.simulations < options_.simulations) {
    std::vector<int> next = *place;
    const size_t g = draw(random);
    next[g] = devices_[random() % devices_.size()];
    if (random() % 3 == 0) next[draw(random)] = (*place)[g];  // A swap.
    if (next == *place || !Fits(next)) {
      ++result_.simulations;  // (So that it ends.)
      continue;
    }
    SLUICE_ASSIGN_OR_RETURN(const double got, Predict(next));
    if (got >= *ns) continue;
    *ns = got;
    *place = std::move(next);
  }
  return OkStatus();
}

Result<CostPlacement> PlacementSearch::Run() {
  SLUICE_RETURN_IF_ERROR(FindNodes());
  SLUICE_RETURN_IF_ERROR(FindGroups());
  FindBounds();
  std::vector<int> place;
  const auto search = [&]() -> Status {
    place = ListSchedule();
    const std::vector<int> one(groups_.size(), devices_[0]);
    const bool one_fits = Fits(one);
    if (!Fits(place) && !one_fits)
      return ResourceExhausted("placement: expected devices with memory for ",
                               groups_.size(),
                               " groups of nodes, got too little");
    double ns = 1e300;
    if (Fits(place)) {
      SLUICE_ASSIGN_OR_RETURN(result_.list_ns, Predict(place));
      ns = result_.list_ns;
    }
    result_.one_device_ns = -1;
    if (one_fits) {
      SLUICE_ASSIGN_OR_RETURN(result_.one_device_ns, Predict(one));
      if (result_.one_device_ns < ns) {
        ns = result_.one_device_ns;
        place = one;
      }
    }
    SLUICE_RETURN_IF_ERROR(Improve(&place, &ns));
    result_.step_ns = ns;
    return OkStatus();
  };
  const Status s = search();
  Apply(s.ok() ? place : std::vector<int>());
  if (!s.ok()) return s;
  return result_;
}

}  // namespace

Result<CostPlacement> PlaceByCost(Graph* graph, const StepSignature& signature,
                                  const ClusterModel& cluster,
                                  const PlaceByCostOptions& options) {
  if (graph == nullptr)
    return InvalidArgument("placement: expected a graph, got null");
  SLUICE_RETURN_IF_ERROR(cluster.Check());
  if (options.simulations < 2)
    return InvalidArgument("placement: expected at least 2 simulations, got ",
                           options.simulations);
  for (const int d : options.devices)
    if (d < 0 || d >= static_cast<int>(cluster.devices.size()))
      return InvalidArgument("placement: expected one of ",
                             cluster.devices.size(), " devices, got ", d);
  const std::lock_guard<std::recursive_mutex> lock(graph->mutex());
  return PlacementSearch(graph, signature, cluster, options).Run();
}

}  // namespace sluice
