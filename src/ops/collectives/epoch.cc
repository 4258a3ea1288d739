// The calls of a formed group, and its end. (hub.cc forms groups.)
#include "ops/collectives/epoch.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace sluice::collectives {

void Hub::Bind(const Waiting& waiting, const std::shared_ptr<Epoch>& epoch,
               Later* later) {
  waiting.use->epochs[epoch->key] = epoch;
  Launch(waiting, epoch, later);
}

void Hub::Launch(const Waiting& waiting, const std::shared_ptr<Epoch>& epoch,
                 Later* later) {
  const std::shared_ptr<Call>& call = waiting.call;
  const CallSpec& spec = call->spec();
  const std::string name = NameOfMember(spec);
  if (epoch->dead) {
    Told(waiting.use->session, epoch->key, name, epoch->lost);
    later->fail.emplace_back(call, epoch->why);
    return;
  }
  // (A step may use a group once with one member or size, then with another.)
  const auto& all = epoch->members;
  const auto me = std::find_if(all.begin(), all.end(), [&](const Member& m) {
    return m.name == name && m.peer == kHere;
  });
  if (me == all.end() || static_cast<int64_t>(all.size()) != spec.size) {
    const Status why = InvalidArgument(
        GroupName(spec.group), "expected one of its ", all.size(),
        " members, got '", name, "' with group size ", spec.size);
    later->fail.emplace_back(call, why);
    Kill(epoch, why, true, later);
    return Reported(epoch->key, name, waiting.use->session);
  }
  const int rank = static_cast<int>(me - all.begin());
  epoch->sessions[rank].insert(waiting.use->session);
  if (!epoch->left.empty()) Owe(*epoch, rank);
  const auto instance = static_cast<uint32_t>(spec.instance);
  Epoch::Turn& turn = epoch->turns[{instance, rank}];
  if (const Status gone = NeedsOneWhoLeft(*epoch, instance, turn.next);
      !gone.ok()) {
    later->fail.emplace_back(call, gone);
    Kill(epoch, gone, true, later);
    return Reported(epoch->key, name, waiting.use->session);
  }
  if (turn.running != nullptr) {
    const Status why = InvalidArgument(
        GroupName(spec.group), "expected member '", name, "' to run instance ",
        spec.instance,
        " once at a time, got it again (in two nodes, or in two steps)");
    later->fail.emplace_back(call, why);
    return Kill(epoch, why, true, later);
  }
  turn.running = call;
  turn.begun = false;
  turn.session = waiting.use->session;
  const uint32_t number = turn.next++;
  Note note;
  note.kind = Note::Kind::kCall;
  note.group = spec.group;
  note.epoch = epoch->id;
  note.rank = rank;
  note.instance = spec.instance;
  note.call = number;
  note.hash = call->hash();
  note.root = spec.root;
  note.description = call->description();
  const auto known = epoch->records.find({instance, rank});
  if (known == epoch->records.end() || known->second.hash != note.hash ||
      known->second.root != note.root) {
    for (const Member& m : epoch->members)
      if (m.peer != kHere) later->notes.emplace_back(m.peer, note);
    Record(epoch, note, later);
  }
  if (!epoch->dead) TryBegin(epoch, instance, rank, later);
}

Status Hub::Mismatch(const Epoch& epoch, const Call& call, int other) const {
  const auto known =
      epoch.records.find({static_cast<uint32_t>(call.spec().instance), other});
  return InvalidArgument(
      GroupName(epoch.key), "instance ", call.spec().instance,
      ": expected the same of all members, got ", call.description(), " in '",
      NameOfMember(call.spec()), "' and ",
      known == epoch.records.end() ? "another operation"
                                   : known->second.description,
      " in '", epoch.members[static_cast<size_t>(other)].name, "'");
}

void Hub::Record(const std::shared_ptr<Epoch>& epoch, const Note& note,
                 Later* later) {
  const auto instance = static_cast<uint32_t>(note.instance);
  const int rank = static_cast<int>(note.rank);
  Note& record = epoch->records[{instance, rank}];
  if (!epoch->IsLocal(rank)) {
    const size_t before = record.epoch == 0 ? 0 : BytesOf(record);
    const size_t bytes = BytesOf(note);
    if (early_bytes_ - before + bytes > kEarlyBytes)
      return Kill(epoch, TooMuch(Here()), true, later);
    early_bytes_ += bytes - before;
    epoch->early_bytes += bytes - before;
  }
  record = note;
  const int n = static_cast<int>(epoch->members.size());
  for (int r = 0; r < n && !epoch->dead; ++r) {
    const auto turn = epoch->turns.find({instance, r});
    if (turn == epoch->turns.end() || turn->second.running == nullptr) continue;
    const Call& call = *turn->second.running;
    if (turn->second.next - 1 == note.call && call.hash() != note.hash)
      return Kill(epoch, Mismatch(*epoch, call, rank), true, later);
    if (!turn->second.begun && r != rank) TryBegin(epoch, instance, r, later);
  }
}

void Hub::TryBegin(const std::shared_ptr<Epoch>& epoch, uint32_t instance,
                   int rank, Later* later) {
  Epoch::Turn& turn = epoch->turns[{instance, rank}];
  const std::shared_ptr<Call> call = turn.running;
  const CallSpec& spec = call->spec();
  const uint32_t number = turn.next - 1;
  const int n = static_cast<int>(epoch->members.size());
  int root = -1, records = 0;
  for (int r = 0; r < n; ++r) {
    const auto known = epoch->records.find({instance, r});
    if (known == epoch->records.end()) continue;
    ++records;
    const Note& note = known->second;
    if (note.call == number && note.hash != call->hash())
      return Kill(epoch, Mismatch(*epoch, *call, r), true, later);
    if (!note.root) continue;
    if (root >= 0)
      return Kill(epoch,
                  InvalidArgument(
                      GroupName(epoch->key), "instance ", instance,
                      ": expected one member that sends, got '",
                      epoch->members[static_cast<size_t>(root)].name, "' and '",
                      epoch->members[static_cast<size_t>(r)].name, "'"),
                  true, later);
    root = r;
  }
  if (spec.operation == Operation::kBroadcast && root < 0) {
    if (records == n)
      Kill(epoch,
           InvalidArgument(GroupName(epoch->key), "instance ", instance,
                           ": expected one member that sends, got none"),
           true, later);
    return;  // Until the root is known.
  }
  turn.begun = true;
  call->Prepare(rank, n, std::max(root, 0), number,
                [hub = shared_from_this(), epoch](std::vector<Outgoing>* out) {
                  hub->Send(epoch, out);
                });
  later->begin.emplace_back(epoch, call);
  const auto early = turn.early.find(number);
  if (early == turn.early.end()) return;
  std::vector<TokenMessage> messages = std::move(early->second);
  turn.early.erase(early);
  for (TokenMessage& m : messages) {
    const DataKey key = DataKey::Of(m.tag);
    if (!epoch->IsLocal(key.from)) {
      epoch->early_bytes -= BytesOf(m);
      early_bytes_ -= BytesOf(m);
    }
    if (m.edge != call->hash())
      return Kill(epoch, Mismatch(*epoch, *call, static_cast<int>(key.from)),
                  true, later);
    later->arrivals.push_back({epoch, call, key, std::move(m.value)});
  }
}

void Hub::Deliver(const std::shared_ptr<Epoch>& epoch, uint64_t incarnation,
                  TokenMessage message, Later* later) {
  if (epoch->dead || !message.value.valid()) return;
  const DataKey key = DataKey::Of(message.tag);
  const auto n = static_cast<uint32_t>(epoch->members.size());
  // (What no member sends is ignored.)
  if (key.to >= n || key.from >= n || epoch->members[key.to].peer != kHere ||
      epoch->members[key.from].incarnation != incarnation)
    return;
  Epoch::Turn& turn = epoch->turns[{key.instance, static_cast<int>(key.to)}];
  const bool current = turn.running != nullptr && key.call == turn.next - 1;
  if (current && turn.begun) {
    if (message.edge != turn.running->hash())
      return Kill(epoch,
                  Mismatch(*epoch, *turn.running, static_cast<int>(key.from)),
                  true, later);
    later->arrivals.push_back(
        {epoch, turn.running, key, std::move(message.value)});
    return;
  }
  if (!current && key.call < turn.next) return;
  if (!epoch->IsLocal(key.from)) {
    const size_t bytes = BytesOf(message);
    if (early_bytes_ + bytes > kEarlyBytes)
      return Kill(epoch, TooMuch(Here()), true, later);
    early_bytes_ += bytes;
    epoch->early_bytes += bytes;
  }
  turn.early[key.call].push_back(std::move(message));
}

void Hub::Kill(const std::shared_ptr<Epoch> epoch, const Status& why, bool tell,
               Later* later, bool changed, uint64_t lost) {
  if (epoch->dead) return;
  epoch->dead = true;
  epoch->why = why;
  epoch->lost = lost;
  epochs_.erase(epoch->id);
  Void(epoch->id);
  Group& group = groups_[epoch->key];
  if (group.live == epoch) group.live = nullptr;
  Note note;
  note.kind = Note::Kind::kAbort;
  note.group = epoch->key;
  note.epoch = epoch->id;
  note.why = why;
  note.changed = changed;
  note.lost = lost;
  for (const Member& m : epoch->members) {
    Void(m.nonce);
    note.nonces.push_back(m.nonce);
  }
  if (!changed)
    for (const auto& [rank, sessions] : epoch->sessions)
      if (!sessions.empty())
        group.owed[epoch->members[static_cast<size_t>(rank)].name] = {why, lost,
                                                                      sessions};
  for (auto& [at, turn] : epoch->turns) {
    if (turn.running == nullptr) continue;
    const std::string& name =
        epoch->members[static_cast<size_t>(at.second)].name;
    // (One that has done its part but not yet called Finish does not report
    // it.)
    bool ended = false;
    if (turn.running->Fail(why, &ended)) {
      Reported(epoch->key, name, turn.session);
      Told(turn.session, epoch->key, name, lost);
    }
    if (ended) later->complete.push_back(std::move(turn.running));
  }
  epoch->turns.clear();
  epoch->records.clear();
  epoch->sessions.clear();
  early_bytes_ -= epoch->early_bytes;
  epoch->early_bytes = 0;
  if (tell) TellAll(note, later);
}

void Hub::Leave(const std::shared_ptr<Epoch>& epoch, int rank,
                const std::vector<std::pair<uint32_t, uint32_t>>& calls,
                Later* later) {
  if (epoch->dead || epoch->left.contains(rank)) return;
  epoch->left[rank].insert(calls.begin(), calls.end());
  Group& group = groups_[epoch->key];
  if (group.live == epoch) group.live = nullptr;
  for (const auto& [other, sessions] : epoch->sessions) Owe(*epoch, other);
  for (const auto& [at, turn] : epoch->turns)
    if (turn.running != nullptr)
      if (const Status gone = NeedsOneWhoLeft(*epoch, at.first, turn.next - 1);
          !gone.ok())
        return Kill(epoch, gone, true, later);
  EndIfLeft(epoch, later);
}

void Hub::EndIfLeft(const std::shared_ptr<Epoch>& epoch, Later* later) {
  if (epoch->dead || epoch->left.empty() || !epoch->idle()) return;
  const auto& [first, calls] = *epoch->left.begin();
  for (size_t r = 0; r < epoch->members.size(); ++r) {
    const int rank = static_cast<int>(r);
    if (!epoch->IsLocal(rank) || epoch->left.contains(rank)) continue;
    for (const auto& [instance, made] : calls) {
      const auto turn = epoch->turns.find({instance, rank});
      if (turn == epoch->turns.end() || turn->second.next < made) return;
    }
  }
  // (Its members owe the error since it was left.)
  epoch->sessions.clear();
  const auto rank = static_cast<size_t>(first);
  Kill(epoch, HasLeft(epoch->key, epoch->members[rank].name), false, later);
}

bool Hub::MayEnter(const Epoch& epoch, const std::string& member,
                   const Waiting& waiting) {
  const CallSpec& spec = waiting.call->spec();
  const auto& all = epoch.members;
  const auto me = std::find_if(all.begin(), all.end(), [&](const Member& m) {
    return m.name == member && m.peer == kHere;
  });
  if (me == all.end() || static_cast<int64_t>(all.size()) != spec.size)
    return false;
  const int rank = static_cast<int>(me - all.begin());
  const auto sessions = epoch.sessions.find(rank);
  if (epoch.left.contains(rank) || sessions == epoch.sessions.end() ||
      !sessions->second.contains(waiting.use->session))
    return false;
  const auto instance = static_cast<uint32_t>(spec.instance);
  const auto turn = epoch.turns.find({instance, rank});
  return NeedsOneWhoLeft(epoch, instance,
                         turn == epoch.turns.end() ? 0 : turn->second.next)
      .ok();
}

Status Hub::NeedsOneWhoLeft(const Epoch& epoch, uint32_t instance,
                            uint32_t number) {
  for (const auto& [rank, calls] : epoch.left) {
    const auto made = calls.find(instance);
    if (made == calls.end() || number >= made->second)
      return HasLeft(epoch.key, epoch.members[static_cast<size_t>(rank)].name);
  }
  return OkStatus();
}

void Hub::Owe(const Epoch& epoch, int rank) {
  const auto name = [&](int r) -> const std::string& {
    return epoch.members[static_cast<size_t>(r)].name;
  };
  const std::set<uint64_t>& sessions = epoch.sessions.find(rank)->second;
  if (!sessions.empty())
    groups_[epoch.key].owed[name(rank)] = {
        HasLeft(epoch.key, name(epoch.left.begin()->first)), 0, sessions};
}

void Hub::Reported(int64_t key, const std::string& member, uint64_t session) {
  auto& all = groups_[key].owed;
  const auto owed = all.find(member);
  if (owed == all.end()) return;
  owed->second.sessions.erase(session);
  if (owed->second.sessions.empty()) all.erase(owed);
}

void Hub::Send(const std::shared_ptr<Epoch>& epoch,
               std::vector<Outgoing>* out) {
  Later later;
  std::map<Peer, std::vector<TokenMessage>> remote;
  {
    std::unique_lock<std::mutex> lock(mu_, std::defer_lock);
    for (Outgoing& o : *out) {
      const Peer peer = epoch->members[static_cast<size_t>(o.to)].peer;
      if (peer != kHere) {
        remote[peer].push_back(std::move(o.message));
        continue;
      }
      if (!lock.owns_lock()) lock.lock();
      Deliver(epoch, 0, std::move(o.message), &later);
    }
  }
  for (auto& [peer, messages] : remote) {
    const Status sent = network_->SendTokens(peer, epoch->id, messages);
    if (sent.ok()) continue;
    std::lock_guard<std::mutex> lock(mu_);
    NoticeLost({&peer, 1}, &later);
    Kill(epoch,
         Status(sent.code(),
                absl::StrCat(GroupName(epoch->key), sent.message())),
         true, &later);
  }
  Do(std::move(later));
}

void Hub::Finish(const std::shared_ptr<Epoch>& epoch,
                 const std::shared_ptr<Call>& call) {
  Later later;
  {
    std::lock_guard<std::mutex> lock(mu_);
    const auto turn = epoch->turns.find(
        {static_cast<uint32_t>(call->spec().instance), call->rank()});
    if (turn != epoch->turns.end() && turn->second.running == call)
      turn->second.running = nullptr;
    if (!call->status().ok())
      Kill(
          epoch,
          Status(call->status().code(),
                 absl::StrCat(GroupName(epoch->key), call->status().message())),
          true, &later);
    EndIfLeft(epoch, &later);
  }
  call->Complete();
  Do(std::move(later));
}

}  // namespace sluice::collectives
