#include "passes/partition_properties.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "graph/frames.h"
#include "graph/liveness.h"

namespace sluice {
namespace {

// The same loop or function in different graphs: its name and those of the
// frames around it, the innermost first. (The root has the name "", so a loop
// and a function of one name differ.)
using FramePath = std::vector<std::string>;

FramePath PathOf(const Frames& frames, int f) {
  FramePath path;
  for (; f >= 0; f = frames[f].parent) path.push_back(frames[f].name);
  return path;
}

// Checks one set of partitions. Lives for one call, on one thread.
class PartitionChecker {
 public:
  PartitionChecker(const Graph& whole,
                   const std::vector<std::unique_ptr<Graph>>& graphs,
                   const std::vector<std::string>& devices)
      : whole_(whole), graphs_(graphs), devices_(devices) {}

  Status CheckComplete() const {
    std::vector<int> copies(whole_.nodes().size(), 0);  // By id.
    for (size_t p = 0; p < graphs_.size(); ++p)
      for (const auto& copy : graphs_[p]->nodes()) {
        const Node* n = whole_.FindNode(copy->name());
        if (n == nullptr) continue;  // New.
        ++copies[static_cast<size_t>(n->id())];
        if (n->op().role == OpRole::kCompute && devices_[p] != n->device())
          return Internal("complete: expected the node on ", n->device(),
                          ", got it on ", devices_[p], "; ", n->Describe());
      }
    for (const auto& n : whole_.nodes())
      if (const int c = copies[static_cast<size_t>(n->id())];
          c == 0 || (c > 1 && n->op().role == OpRole::kCompute))
        return Internal("complete: expected the node in ", c == 0 ? "a" : "one",
                        " partition, got it in ", c, "; ", n->Describe());
    return OkStatus();
  }

  // Fills sends_ and recvs_.
  Status CheckPaired() {
    std::map<Key, int> leaders;  // By destination and group.
    for (size_t p = 0; p < graphs_.size(); ++p)
      for (const auto& n : graphs_[p]->nodes()) {
        if (n->op().role == OpRole::kSend) {
          const int64_t to = n->IntAttr("destination");
          SLUICE_RETURN_IF_ERROR(
              AddEnd({to, n->IntAttr("edge")}, *n, p, &sends_));
          leaders[{to, n->IntAttr("group")}] += n->BoolAttr("leads_group");
        } else if (n->op().role == OpRole::kRecv) {
          SLUICE_RETURN_IF_ERROR(AddEnd(
              {static_cast<int64_t>(p), n->IntAttr("edge")}, *n, p, &recvs_));
        }
      }
    for (const auto& [key, recv] : recvs_)
      if (!sends_.contains(key))
        return Internal("paired: expected a _Send of edge ", key.second, " to ",
                        devices_[recv.part], ", got none; ",
                        recv.node->Describe());
    for (const auto& [key, send] : sends_) {
      const auto recv = recvs_.find(key);
      if (recv == recvs_.end())
        return Internal("paired: expected a _Recv of edge ", key.second,
                        " in partition ", key.first, ", got none; ",
                        send.node->Describe());
      SLUICE_RETURN_IF_ERROR(CheckAlike(send, recv->second));
      const int leading = leaders[{key.first, send.node->IntAttr("group")}];
      if (leading != 1)
        return Internal("paired: expected one _Send that leads its group, got ",
                        leading, "; ", send.node->Describe());
    }
    return OkStatus();
  }

  // Needed by the checks below; the graphs must be connected.
  Status FindFrames() {
    for (const auto& g : graphs_) {
      SLUICE_ASSIGN_OR_RETURN(const std::vector<Node*> order,
                              TopologicalOrder(*g));
      SLUICE_ASSIGN_OR_RETURN(Frames frames, Frames::Of(*g, order));
      SLUICE_RETURN_IF_ERROR(frames.CheckBackEdges(order));
      frames_.push_back(std::make_unique<const Frames>(std::move(frames)));
      liveness_.push_back(Liveness::Of(*g, order, *frames_.back()));
      const size_t p = frames_.size() - 1;
      for (int f = 1; f < frames_[p]->size(); ++f)
        shared_[PathOf(*frames_[p], f)].emplace_back(p, &(*frames_[p])[f]);
    }
    return OkStatus();
  }

  Status CheckSameFrame() const {
    for (const auto& [key, send] : sends_) {
      const End& recv = recvs_.at(key);
      const int from = FrameOf(send), to = FrameOf(recv);
      if (PathOf(*frames_[send.part], from) != PathOf(*frames_[recv.part], to))
        return Internal(
            "same frame: expected the _Recv in ",
            frames_[send.part]->Describe(from), " as its _Send is, got it in ",
            frames_[recv.part]->Describe(to), "; ", recv.node->Describe());
    }
    return OkStatus();
  }

  Status CheckInStep() const {
    // By function and partition; those of all partitions are the last.
    std::map<std::string, std::vector<std::set<std::string>>> calls;
    for (size_t p = 0; p < graphs_.size(); ++p)
      for (const auto& n : graphs_[p]->nodes()) {
        if (n->op().role != OpRole::kCall) continue;
        std::vector<std::set<std::string>>& of = calls[FunctionOf(*n)];
        of.resize(graphs_.size() + 1);
        of[p].insert(n->name());
        of.back().insert(n->name());
      }
    for (const auto& [path, parts] : shared_) {
      if (!parts[0].second->is_function()) {
        SLUICE_RETURN_IF_ERROR(CheckPredicate(path, parts));
      } else if (const auto of = calls.find(path[0]); of != calls.end()) {
        SLUICE_RETURN_IF_ERROR(CheckCalls(path[0], parts, of->second));
      }
    }
    return OkStatus();
  }

  Status CheckWindowed() const {
    // By loop: the partitions that send in each iteration, by destination.
    std::map<FramePath, std::map<size_t, std::vector<size_t>>> senders;
    for (const auto& [key, send] : sends_)
      if (const int f = FrameOf(send);
          f != 0 && !liveness_[send.part].once(send.node))
        senders[PathOf(*frames_[send.part], f)][static_cast<size_t>(key.first)]
            .push_back(send.part);
    for (const auto& [path, parts] : shared_) {
      const std::optional<size_t> owner = Owner(parts);
      if (!Repeats(parts) || !owner.has_value()) continue;
      std::set<size_t> heard = {*owner};
      std::vector<size_t> open = {*owner};
      while (!open.empty()) {
        const size_t at = open.back();
        open.pop_back();
        for (const size_t from : senders[path][at])
          if (heard.insert(from).second) open.push_back(from);
      }
      for (const auto& [p, frame] : parts)
        if (!heard.contains(p))
          return Internal("windowed: expected ", devices_[p],
                          " to send something to ", devices_[*owner],
                          " in each iteration of loop '", frame->name,
                          "', got nothing; ", frame->first->Describe());
    }
    return OkStatus();
  }

 private:
  struct End {
    const Node* node;
    size_t part;
  };
  using Key = std::pair<int64_t, int64_t>;  // Destination, edge.
  // The partitions with a part of one frame.
  using FrameParts = std::vector<std::pair<size_t, const GraphFrame*>>;

  static Status AddEnd(const Key& key, const Node& n, size_t p,
                       std::map<Key, End>* ends) {
    const auto [it, fresh] = ends->try_emplace(key, End{&n, p});
    if (fresh) return OkStatus();
    return Internal("paired: expected one ", n.op_name(), " of edge ",
                    key.second, " to partition ", key.first, ", got '",
                    it->second.node->name(), "' and '", n.name(), "'; ",
                    n.Describe());
  }

  Status CheckAlike(const End& send, const End& recv) const {
    const Node &s = *send.node, &r = *recv.node;
    const auto differs = [&](const char* what) {
      return Internal("paired: expected the ", what, " of its _Send '",
                      s.name(), "', got another; ", r.Describe());
    };
    if ((s.num_inputs() == 0) != (r.num_outputs() == 0)) return differs("kind");
    if (s.TypeAttr("T") != r.TypeAttr("T")) return differs("type");
    if (s.IntAttr("group") != r.IntAttr("group")) return differs("group");
    for (const Node* n : {&s, &r})
      if (n->AttrOr<std::string>("send_device", "") != devices_[send.part] ||
          n->AttrOr<std::string>("recv_device", "") != devices_[recv.part])
        return Internal("paired: expected a transfer from ",
                        devices_[send.part], " to ", devices_[recv.part],
                        ", got other devices; ", n->Describe());
    return OkStatus();
  }

  int FrameOf(const End& end) const {
    return frames_[end.part]->frame_of(end.node);
  }

  // The partition with the only LoopCond of a loop.
  static std::optional<size_t> Owner(const FrameParts& parts) {
    std::optional<size_t> owner;
    for (const auto& [p, frame] : parts) {
      if (frame->loop_conds.empty()) continue;
      if (frame->loop_conds.size() > 1 || owner.has_value())
        return std::nullopt;
      owner = p;
    }
    return owner;
  }

  static bool Repeats(const FrameParts& parts) {
    return std::any_of(parts.begin(), parts.end(),
                       [](const auto& part) { return part.second->repeats(); });
  }

  Status CheckPredicate(const FramePath& path, const FrameParts& parts) const {
    if (parts.size() < 2 || !Repeats(parts)) return OkStatus();
    const std::optional<size_t> owner = Owner(parts);
    if (!owner.has_value())
      return Internal("in step: expected one LoopCond in loop '", path[0],
                      "', got another number; ",
                      parts[0].second->first->Describe());
    std::set<size_t> told = {*owner};
    for (const auto& [key, send] : sends_)
      if (send.part == *owner && send.node->num_inputs() == 1 &&
          send.node->input(0).node->op().role == OpRole::kLoopCond &&
          PathOf(*frames_[send.part], FrameOf(send)) == path)
        told.insert(static_cast<size_t>(key.first));
    for (const auto& [p, frame] : parts)
      if (!told.contains(p) || !frame->repeats())
        return Internal("in step: expected a control loop of '", path[0],
                        "' on ", devices_[p], ", got ",
                        frame->repeats() ? "one that does not receive the "
                                           "predicate"
                                         : "none",
                        "; ", frame->first->Describe());
    return OkStatus();
  }

  Status CheckCalls(const std::string& function, const FrameParts& parts,
                    const std::vector<std::set<std::string>>& calls) const {
    for (const auto& [p, frame] : parts)
      if (calls[p] != calls.back())
        return Internal("in step: expected all ", calls.back().size(),
                        " calls of function '", function, "' on ", devices_[p],
                        ", which runs a part of it, got ", calls[p].size(),
                        "; ", frame->first->Describe());
    return OkStatus();
  }

  const Graph& whole_;
  const std::vector<std::unique_ptr<Graph>>& graphs_;
  const std::vector<std::string>& devices_;
  std::map<Key, End> sends_, recvs_;
  // By partition. (Liveness refers to its frames.)
  std::vector<std::unique_ptr<const Frames>> frames_;
  std::vector<Liveness> liveness_;
  std::map<FramePath, FrameParts> shared_;
};

}  // namespace

Status CheckPartitions(const Graph& whole,
                       const std::vector<std::unique_ptr<Graph>>& graphs,
                       const std::vector<std::string>& devices,
                       PartitionProperties properties) {
  PartitionChecker checker(whole, graphs, devices);
  if ((properties & kComplete) != 0)
    SLUICE_RETURN_IF_ERROR(checker.CheckComplete());
  if ((properties & (kPaired | kSameFrame | kInStep | kWindowed)) != 0)
    SLUICE_RETURN_IF_ERROR(checker.CheckPaired());
  if ((properties & (kSameFrame | kInStep | kWindowed)) != 0)
    SLUICE_RETURN_IF_ERROR(checker.FindFrames());
  if ((properties & kSameFrame) != 0)
    SLUICE_RETURN_IF_ERROR(checker.CheckSameFrame());
  if ((properties & kInStep) != 0)
    SLUICE_RETURN_IF_ERROR(checker.CheckInStep());
  if ((properties & kWindowed) != 0)
    SLUICE_RETURN_IF_ERROR(checker.CheckWindowed());
  return OkStatus();
}

}  // namespace sluice
