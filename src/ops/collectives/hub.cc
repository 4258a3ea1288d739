#include "ops/collectives/hub.h"

#include <algorithm>
#include <cctype>
#include <deque>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "exec/core/drive_queue.h"
#include "ops/collectives/epoch.h"

namespace sluice::collectives {
namespace {

// Joins and epochs that are remembered as over.
constexpr size_t kOverKept = 65536;
constexpr size_t kMaxGroups = 65536;

// Orders "task:2" before "task:10".
bool NaturalLess(std::string_view a, std::string_view b) {
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (digit(a[i]) && digit(b[j])) {
      size_t x = i, y = j;
      while (x < a.size() && digit(a[x])) ++x;
      while (y < b.size() && digit(b[y])) ++y;
      if (x - i != y - j) return x - i < y - j;
      const int c = a.substr(i, x - i).compare(b.substr(j, y - j));
      if (c != 0) return c < 0;
      i = x;
      j = y;
    } else if (a[i] != b[j]) {
      return a[i] < b[j];
    } else {
      ++i;
      ++j;
    }
  }
  return a.size() - i < b.size() - j;
}

uint64_t Hash64(uint64_t h, std::string_view s) {
  for (const char c : s) h = (h ^ static_cast<uint8_t>(c)) * 1099511628211u;
  return h;
}

// Why a formed group is over when a member that is not in it, or no longer,
// wants to form it.
Status Changed(int64_t key, const std::string& member) {
  return Aborted(GroupName(key), "expected its members to stay, got '", member,
                 "', which has joined anew");
}

// `why` names it.
Status LostATask(int64_t key, const Status& why) {
  return Status(StatusCode::kUnavailable,
                absl::StrCat(GroupName(key), "lost a task: ", why.message()));
}

}  // namespace

Hub::Hub(std::unique_ptr<Network> network)
    : network_(std::move(network)), random_([] {
        std::random_device device;
        return uint64_t{device()} << 32 | device();
      }()) {}

Result<std::shared_ptr<Hub>> Hub::Of(const KernelContext& ctx) {
  ResourceManager* const manager = ctx.step().resources;
  if (manager == nullptr)
    return FailedPrecondition(
        "collective: expected a session that keeps resources, got none");
  return manager->LookupOrCreate<Hub>(
      kContainer, kName, [] { return std::make_shared<Hub>(nullptr); });
}

std::string Hub::Here() const {
  return network_ == nullptr ? "this process"
                             : absl::StrCat("task '", network_->task(), "'");
}

std::string Hub::NameOfMember(const CallSpec& spec) const {
  std::string name =
      network_ == nullptr ? "" : absl::StrCat(network_->task(), " ");
  absl::StrAppend(&name, spec.device);
  if (spec.rank >= 0) absl::StrAppend(&name, " rank ", spec.rank);
  return name;
}

void Hub::Start(KernelContext& ctx, std::shared_ptr<Call> call) {
  // The step, and with it its Cancellation, may end in Do: before that this
  // lets go of what refers to it.
  Result<std::shared_ptr<StepUse>> use =
      ctx.step().step_resources->LookupOrCreate<StepUse>(
          "collectives", "step", [this, &ctx] {
            return std::make_shared<StepUse>(
                shared_from_this(),
                network_ == nullptr ? 0
                                    : network_->SessionOf(ctx.step().step_id));
          });
  Later later;
  if (!use.ok()) {
    later.fail.emplace_back(call, use.status());
    return Do(std::move(later));
  }
  (*use)->Watch(ctx.step().cancellation);
  const bool cancelled = (*use)->cancelled_at_once();
  const std::string member = NameOfMember(call->spec());
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (member.size() > kMaxNoteText) {
      later.fail.emplace_back(
          call, InvalidArgument("collective: expected a device of at most ",
                                kMaxNoteText, " bytes, got '",
                                member.substr(0, 64), "...'"));
    } else if (cancelled || (*use)->cancelled) {
      later.fail.emplace_back(call,
                              Cancelled("collective operation was cancelled"));
    } else {
      auto& calls = (*use)->calls;
      std::erase_if(calls, [](const auto& c) { return c.expired(); });
      calls.push_back(call);
      Enter({call, *use}, member, &later);
    }
    use = Cancelled("");
  }
  Do(std::move(later));
}

void Hub::Enter(Waiting waiting, const std::string& member, Later* later) {
  const CallSpec& spec = waiting.call->spec();
  const uint64_t session = waiting.use->session;
  waiting.use->members.emplace(spec.group, member);
  const auto bound = waiting.use->epochs.find(spec.group);
  if (bound != waiting.use->epochs.end()) {
    Reported(spec.group, member, session);
    return Launch(waiting, bound->second, later);
  }
  Group& group = groups_[spec.group];
  if (group.live != nullptr) NoticeLost(PeersOf(group), later);
  if (group.live == nullptr)
    for (const auto& epoch : EpochsOf(spec.group))
      if (MayEnter(*epoch, member, waiting)) return Bind(waiting, epoch, later);
  if (const auto owed = group.owed.find(member);
      owed != group.owed.end() && owed->second.sessions.contains(session)) {
    Told(session, spec.group, member, owed->second.lost);
    later->fail.emplace_back(waiting.call, owed->second.why);
    return Reported(spec.group, member, session);
  }
  if (group.live != nullptr) {
    const auto& all = group.live->members;
    const bool in = std::any_of(all.begin(), all.end(), [&](const Member& m) {
      return m.name == member && m.peer == kHere;
    });
    if (in && static_cast<int64_t>(all.size()) == spec.size)
      return Bind(waiting, group.live, later);
    if (!group.live->idle()) {
      later->fail.emplace_back(
          waiting.call,
          InvalidArgument(GroupName(spec.group), "expected one of its ",
                          all.size(), " members, got '", member,
                          "' with group size ", spec.size));
      return;
    }
    Kill(group.live, Changed(spec.group, member), true, later, true);
  }
  NoticeLost(std::vector<Peer>(peers_.begin(), peers_.end()), later);
  if (const Status lost = TakeLoss(session, spec.group, member); !lost.ok()) {
    later->fail.emplace_back(waiting.call, lost);
    return;
  }
  group.waiting[member].push_back(waiting);
  Join(group, spec, member, later);
}

Note Hub::JoinNote(int64_t group, const Member& member) const {
  Note note;
  note.kind = Note::Kind::kJoin;
  note.group = group;
  note.member = member.name;
  note.size = member.size;
  note.rank = member.rank;
  note.nonce = member.nonce;
  return note;
}

void Hub::Join(Group& group, const CallSpec& spec, const std::string& member,
               Later* later) {
  const auto known = group.joined.find(member);
  if (known != group.joined.end() && known->second.peer == kHere &&
      known->second.size == spec.size)
    return;
  Member m;
  m.name = member;
  m.size = spec.size;
  m.rank = spec.rank;
  m.nonce = random_() | 1;
  group.told[member] = peers_;
  TellAll(JoinNote(spec.group, m), later);
  Add(spec.group, std::move(m), later);
}

void Hub::TellAll(const Note& note, Later* later) {
  for (const Peer p : peers_) later->notes.emplace_back(p, note);
}

void Hub::Add(int64_t key, Member member, Later* later) {
  if (over_.contains(member.nonce)) return;
  Group& group = groups_[key];
  if (group.live != nullptr) NoticeLost(PeersOf(group), later);
  if (group.live != nullptr) {
    const auto& all = group.live->members;
    const auto old = std::find_if(all.begin(), all.end(), [&](const Member& m) {
      return m.name == member.name;
    });
    if (old == all.end() && !group.live->idle()) {
      Note no;
      no.kind = Note::Kind::kAbort;
      no.group = key;
      no.nonces = {member.nonce};
      no.why =
          InvalidArgument(GroupName(key), "expected one of its ", all.size(),
                          " members, got '", member.name, "' as another");
      if (member.peer != kHere) later->notes.emplace_back(member.peer, no);
      return;
    }
    if (old != all.end() && old->nonce == member.nonce) return;
    // (Not from a member: the name is that of one of this task.)
    if (old != all.end() && old->peer == kHere && member.peer != kHere) return;
    Kill(group.live, Changed(key, member.name), true, later, true);
  }
  const auto same = group.joined.find(member.name);
  if (same != group.joined.end()) {
    if (same->second.nonce == member.nonce) return;
    if (same->second.peer == kHere && member.peer != kHere) return;
    Void(same->second.nonce);
    group.joined.erase(same);
  }
  Status wrong;
  for (const auto& [name, other] : group.joined) {
    if (other.size != member.size)
      wrong = InvalidArgument(GroupName(key),
                              "expected members that agree on its size, got ",
                              other.size, " from '", name, "' and ",
                              member.size, " from '", member.name, "'");
    else if ((other.rank < 0) != (member.rank < 0))
      wrong = InvalidArgument(GroupName(key),
                              "expected a rank of all members or of none, got ",
                              other.rank, " from '", name, "' and ",
                              member.rank, " from '", member.name, "'");
    else if (member.rank >= 0 && other.rank == member.rank)
      wrong = InvalidArgument(
          GroupName(key), "expected members of distinct ranks, got rank ",
          member.rank, " from '", name, "' and from '", member.name, "'");
  }
  std::string name = member.name;
  group.joined.emplace(std::move(name), std::move(member));
  // (The tasks of the others see it too, and end their own attempts.)
  if (!wrong.ok()) return GiveUp(key, wrong, /*all=*/false, later);
  TryForm(key, later);
}

void Hub::TryForm(int64_t key, Later* later) {
  Group& group = groups_[key];
  NoticeLost(PeersOf(group), later);
  if (group.joined.empty() || static_cast<int64_t>(group.joined.size()) <
                                  group.joined.begin()->second.size)
    return;
  const int64_t members = group.joined.begin()->second.size;
  // (Without members here it may have heard of some that do not agree.)
  if (std::any_of(group.joined.begin(), group.joined.end(),
                  [&](const auto& j) { return j.second.size != members; }))
    return;
  if (std::none_of(group.joined.begin(), group.joined.end(),
                   [](const auto& j) { return j.second.peer == kHere; })) {
    // Formed by others. This task is not told how long it lasts, so that these
    // joins must not be in the way of later ones.
    group.joined.clear();
    return;
  }
  if (static_cast<int64_t>(group.joined.size()) > members)
    return GiveUp(key,
                  InvalidArgument(GroupName(key), "expected ", members,
                                  " members, got ", group.joined.size()),
                  /*all=*/true, later);
  auto epoch = std::make_shared<Epoch>();
  epoch->key = key;
  for (const auto& [name, member] : group.joined)
    epoch->members.push_back(member);
  std::sort(epoch->members.begin(), epoch->members.end(),
            [](const Member& a, const Member& b) {
              return a.rank != b.rank ? a.rank < b.rank
                                      : NaturalLess(a.name, b.name);
            });
  uint64_t id = 14695981039346656037u;
  for (const Member& m : epoch->members)
    id = Hash64(id, absl::StrCat(m.name, "\n", m.nonce, "\n"));
  epoch->id = id | 1;
  group.live = epoch;
  epochs_[epoch->id] = epoch;
  group.joined.clear();
  group.told.clear();
  std::map<std::string, std::vector<Waiting>> waiting;
  waiting.swap(group.waiting);
  for (const auto& [name, calls] : waiting)
    for (const Waiting& w : calls) Bind(w, epoch, later);
  const auto early = early_.find(epoch->id);
  if (early == early_.end()) return;
  Early got = std::move(early->second);
  early_bytes_ -= got.bytes;
  early_.erase(early);
  for (const auto& [from, note] : got.notes) {
    const auto rank = static_cast<size_t>(note.rank);
    if (rank < epoch->members.size() &&
        epoch->members[rank].incarnation == from) {
      if (note.kind == Note::Kind::kLeave)
        Leave(epoch, static_cast<int>(rank), note.calls, later);
      else if (!epoch->dead)
        Record(epoch, note, later);
    }
  }
  for (auto& [from, message] : got.tokens)
    Deliver(epoch, from, std::move(message), later);
}

void Hub::Void(uint64_t nonce) {
  if (nonce == 0 || !over_.insert(nonce).second) return;
  over_order_.push_back(nonce);
  if (over_order_.size() > kOverKept) {
    over_.erase(over_order_.front());
    over_order_.pop_front();
  }
}

void Hub::GiveUp(int64_t key, const Status& why, bool all, Later* later) {
  Group& group = groups_[key];
  Note note;
  note.kind = Note::Kind::kAbort;
  note.group = key;
  note.why = why;
  // (A task without members has no attempt to end: what it has heard of may be
  // a group that runs.)
  all =
      all && std::any_of(group.joined.begin(), group.joined.end(),
                         [](const auto& j) { return j.second.peer == kHere; });
  for (auto j = group.joined.begin(); j != group.joined.end();) {
    if (!all && j->second.peer != kHere) {
      ++j;
      continue;
    }
    Void(j->second.nonce);
    note.nonces.push_back(j->second.nonce);
    j = group.joined.erase(j);
  }
  group.told.clear();
  for (const auto& [name, calls] : group.waiting)
    for (const Waiting& w : calls) later->fail.emplace_back(w.call, why);
  group.waiting.clear();
  if (!note.nonces.empty()) TellAll(note, later);
}

void Hub::Refuse(Peer from, uint64_t epoch, Later* later) const {
  Note no;
  no.kind = Note::Kind::kAbort;
  no.epoch = epoch;
  no.why = TooMuch(Here());
  later->notes.emplace_back(from, no);
}

void Hub::OpenSession(uint64_t session, std::span<const Peer> peers) {
  Later later;
  {
    std::lock_guard<std::mutex> lock(mu_);
    Session& s = sessions_[session];
    for (const Peer p : peers) {
      if (p == kHere) continue;
      // (Of such a peer OnPeerLost may have told already.)
      if (const Status why = network_->WhyLost(p); !why.ok()) {
        s.lost.emplace(network_->IncarnationOf(p), why);
        continue;
      }
      s.peers.insert(p);
      if (!peers_.insert(p).second) continue;
      for (auto& [key, group] : groups_)
        for (auto& [name, told] : group.told)
          if (const auto j = group.joined.find(name);
              j != group.joined.end() && told.insert(p).second)
            later.notes.emplace_back(p, JoinNote(key, j->second));
    }
  }
  Do(std::move(later));
}

void Hub::CloseSession(uint64_t session) {
  Later later;
  {
    std::lock_guard<std::mutex> lock(mu_);
    sessions_.erase(session);
    const auto epochs = epochs_;  // (Leave may end one.)
    for (const auto& [id, epoch] : epochs) {
      std::vector<int> leave;
      for (auto& [rank, sessions] : epoch->sessions)
        if (sessions.erase(session) > 0 && sessions.empty())
          leave.push_back(rank);
      for (const int rank : leave) {
        Note note;
        note.kind = Note::Kind::kLeave;
        note.group = epoch->key;
        note.epoch = id;
        note.rank = rank;
        for (const auto& [at, turn] : epoch->turns)
          if (at.second == rank) note.calls.emplace_back(at.first, turn.next);
        // (Over all connections to the others, so that it comes before a join.)
        for (const Peer p : peers_)
          if (std::any_of(epoch->members.begin(), epoch->members.end(),
                          [at = network_->IncarnationOf(p)](const Member& m) {
                            return m.peer != kHere && m.incarnation == at;
                          }))
            later.notes.emplace_back(p, note);
        Leave(epoch, rank, note.calls, &later);
      }
    }
  }
  Do(std::move(later));
}

void Hub::Told(uint64_t session, int64_t key, const std::string& member,
               uint64_t lost) {
  if (lost == 0) return;
  if (const auto s = sessions_.find(session); s != sessions_.end())
    s->second.told[{key, member}].insert(lost);
}

Status Hub::TakeLoss(uint64_t session, int64_t key, const std::string& member) {
  const auto s = sessions_.find(session);
  if (s == sessions_.end() || s->second.lost.empty()) return OkStatus();
  Status first;
  std::set<uint64_t>& told = s->second.told[{key, member}];
  for (const auto& [incarnation, why] : s->second.lost)
    if (told.insert(incarnation).second && first.ok())
      first = LostATask(key, why);
  return first;
}

std::vector<std::shared_ptr<Hub::Epoch>> Hub::EpochsOf(int64_t key) const {
  std::vector<std::shared_ptr<Epoch>> all;
  for (const auto& [id, epoch] : epochs_)
    if (epoch->key == key) all.push_back(epoch);
  return all;
}

std::vector<Peer> Hub::PeersOf(const Group& group) {
  std::vector<Peer> peers;
  const auto add = [&](const Member& m) {
    if (m.peer != kHere) peers.push_back(m.peer);
  };
  if (group.live != nullptr)
    for (const Member& m : group.live->members) add(m);
  for (const auto& [name, member] : group.joined) add(member);
  return peers;
}

Peer Hub::ConnectionTo(uint64_t incarnation) const {
  if (incarnation == 0) return kHere;
  for (const Peer p : peers_)
    if (network_->IncarnationOf(p) == incarnation && network_->WhyLost(p).ok())
      return p;
  return kHere;
}

void Hub::NoticeLost(std::span<const Peer> peers, Later* later) {
  for (const Peer p : peers)
    if (const Status why = network_->WhyLost(p); !why.ok()) Lose(p, why, later);
}

void Hub::OnNote(Peer from, const Note& note) {
  Later later;
  const uint64_t incarnation = network_->IncarnationOf(from);
  {
    std::lock_guard<std::mutex> lock(mu_);
    // (Lose has dropped what it sent, or will.)
    if (!network_->WhyLost(from).ok()) return;
    peers_.insert(from);
    if (!groups_.contains(note.group) && groups_.size() >= kMaxGroups) return;
    switch (note.kind) {
      case Note::Kind::kJoin: {
        if (note.size < 2 || note.size > kMaxMembers ||
            note.rank >= note.size || note.nonce == 0)
          break;
        Group& group = groups_[note.group];
        // (More than a group can have: not from members.)
        if (static_cast<int64_t>(group.joined.size()) >= kMaxMembers) break;
        for (auto& [name, told] : group.told)
          if (const auto j = group.joined.find(name);
              j != group.joined.end() && told.insert(from).second)
            later.notes.emplace_back(from, JoinNote(note.group, j->second));
        Add(note.group,
            {note.member, note.size, note.rank, note.nonce, from, incarnation},
            &later);
        break;
      }
      case Note::Kind::kAbort: {
        Group& group = groups_[note.group];
        if (note.epoch != 0) {
          if (const auto epoch = epochs_.find(note.epoch);
              epoch != epochs_.end()) {
            const std::shared_ptr<Epoch> e = epoch->second;
            // (Without joins it comes from a task that does not know them.)
            Kill(e, note.why, note.nonces.empty(), &later, note.changed,
                 note.lost);
          }
          Void(note.epoch);
          if (const auto early = early_.find(note.epoch);
              early != early_.end()) {
            early_bytes_ -= early->second.bytes;
            early_.erase(early);
          }
        }
        const auto epochs = EpochsOf(note.group);
        for (const uint64_t nonce : note.nonces) {
          Void(nonce);
          for (const auto& e : epochs)
            if (std::any_of(e->members.begin(), e->members.end(),
                            [&](const Member& m) { return m.nonce == nonce; }))
              // (Without an epoch it comes from a task that has not formed it,
              // and so does not tell those that have.)
              Kill(e, note.why, note.epoch == 0, &later, note.changed,
                   note.lost);
          const auto joined = std::find_if(
              group.joined.begin(), group.joined.end(),
              [&](const auto& j) { return j.second.nonce == nonce; });
          if (joined == group.joined.end()) continue;
          const auto waiting = group.waiting.find(joined->first);
          if (joined->second.peer == kHere && waiting != group.waiting.end()) {
            for (const Waiting& w : waiting->second)
              later.fail.emplace_back(w.call, note.why);
            group.waiting.erase(waiting);
          }
          group.told.erase(joined->first);
          group.joined.erase(joined);
        }
        // (Those that are left may be a group that others have formed.)
        TryForm(note.group, &later);
        break;
      }
      case Note::Kind::kCall:
      case Note::Kind::kLeave: {
        const auto epoch = epochs_.find(note.epoch);
        if (epoch != epochs_.end()) {
          const auto rank = static_cast<size_t>(note.rank);
          const std::shared_ptr<Epoch> e = epoch->second;
          if (note.rank < 0 || rank >= e->members.size() ||
              e->members[rank].incarnation != incarnation)
            break;
          if (note.kind == Note::Kind::kLeave)
            Leave(e, static_cast<int>(rank), note.calls, &later);
          else
            Record(e, note, &later);
        } else if (!over_.contains(note.epoch)) {
          const size_t bytes = BytesOf(note);
          if (early_bytes_ + bytes > kEarlyBytes) {
            Refuse(from, note.epoch, &later);
            break;
          }
          Early& early = early_[note.epoch];
          early.notes.emplace_back(incarnation, note);
          early.bytes += bytes;
          early_bytes_ += bytes;
        }
        break;
      }
    }
  }
  Do(std::move(later));
}

void Hub::OnTokens(Peer from, uint64_t id, std::span<TokenMessage> batch) {
  Later later;
  const uint64_t incarnation = network_->IncarnationOf(from);
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (!network_->WhyLost(from).ok()) return;
    const auto known = epochs_.find(id);
    if (known != epochs_.end()) {
      const std::shared_ptr<Epoch> epoch = known->second;
      for (TokenMessage& m : batch)
        Deliver(epoch, incarnation, std::move(m), &later);
    } else if (!over_.contains(id)) {
      for (TokenMessage& m : batch) {
        const size_t bytes = BytesOf(m);
        if (early_bytes_ + bytes > kEarlyBytes) {
          // Its members would wait forever for what is dropped.
          Refuse(from, id, &later);
          break;
        }
        Early& early = early_[id];
        early.tokens.emplace_back(incarnation, std::move(m));
        early.bytes += bytes;
        early_bytes_ += bytes;
      }
    }
  }
  Do(std::move(later));
}

void Hub::OnPeerLost(Peer peer, const Status& why) {
  Later later;
  {
    std::lock_guard<std::mutex> lock(mu_);
    Lose(peer, why, &later);
  }
  Do(std::move(later));
}

void Hub::Lose(Peer peer, const Status& why, Later* later) {
  const uint64_t incarnation = network_->IncarnationOf(peer);
  peers_.erase(peer);
  const Peer other = ConnectionTo(incarnation);
  std::set<uint64_t> suffer;  // Sessions.
  for (auto& [number, session] : sessions_)
    if (session.peers.erase(peer) > 0) {
      session.lost.emplace(incarnation, why);
      suffer.insert(number);
    }
  const auto epochs = epochs_;
  for (const auto& [id, epoch] : epochs)
    if (std::any_of(epoch->members.begin(), epoch->members.end(),
                    [&](const Member& m) { return m.peer == peer; }))
      Kill(epoch, LostATask(epoch->key, why), true, later, false, incarnation);
  for (auto& [number, group] : groups_) {
    const int64_t key = number;  // (Lambdas capture no structured bindings.)
    const Status error = LostATask(key, why);
    for (auto j = group.joined.begin(); j != group.joined.end();) {
      if (j->second.peer != peer) {
        ++j;
      } else if (other != kHere) {
        // (Its task announces it over all of its connections.)
        (j++)->second.peer = other;
      } else {
        Void(j->second.nonce);
        j = group.joined.erase(j);
      }
    }
    // Those that may be waiting for just this task.
    Note note;
    note.kind = Note::Kind::kAbort;
    note.group = key;
    note.why = error;
    note.lost = incarnation;
    for (auto w = group.waiting.begin(); w != group.waiting.end();) {
      std::erase_if(w->second, [&](const Waiting& waiting) {
        if (!suffer.contains(waiting.use->session)) return false;
        Told(waiting.use->session, key, w->first, incarnation);
        later->fail.emplace_back(waiting.call, error);
        return true;
      });
      if (!w->second.empty()) {
        ++w;
        continue;
      }
      if (const auto j = group.joined.find(w->first);
          j != group.joined.end() && j->second.peer == kHere) {
        Void(j->second.nonce);
        note.nonces.push_back(j->second.nonce);
        group.joined.erase(j);
      }
      group.told.erase(w->first);
      w = group.waiting.erase(w);
    }
    if (!note.nonces.empty()) TellAll(note, later);
  }
  if (other != kHere) return;
  for (auto e = early_.begin(); e != early_.end();) {
    const auto of_peer = [&](const auto& m) { return m.first == incarnation; };
    if (std::any_of(e->second.notes.begin(), e->second.notes.end(), of_peer) ||
        std::any_of(e->second.tokens.begin(), e->second.tokens.end(),
                    of_peer)) {
      early_bytes_ -= e->second.bytes;
      e = early_.erase(e);
    } else {
      ++e;
    }
  }
}

void Hub::OnStepCancelled(const std::shared_ptr<StepUse>& use) {
  use->Unwatch();
  Later later;
  {
    std::lock_guard<std::mutex> lock(mu_);
    use->cancelled = true;
    const Status cancelled = Cancelled("collective operation was cancelled");
    for (const auto& weak : use->calls)
      if (auto call = weak.lock())
        later.fail.emplace_back(std::move(call), cancelled);
    const auto why = [this](int64_t key) {
      return Aborted(GroupName(key),
                     "expected every member to finish its step, got one of ",
                     Here(), " that failed or was cancelled");
    };
    for (const auto& [key, epoch] : use->epochs)
      Kill(epoch, why(key), true, &later);
    for (const auto& [key, member] : use->members)
      Reported(key, member, use->session);
    std::vector<int64_t> waits;
    for (auto& [key, group] : groups_)
      for (auto& [name, calls] : group.waiting)
        if (std::any_of(calls.begin(), calls.end(),
                        [&](const Waiting& w) { return w.use == use; })) {
          waits.push_back(key);
          break;
        }
    for (const int64_t key : waits) GiveUp(key, why(key), /*all=*/true, &later);
  }
  Do(std::move(later));
}

size_t Hub::num_waiting() {
  std::lock_guard<std::mutex> lock(mu_);
  size_t n = 0;
  for (const auto& [key, group] : groups_)
    for (const auto& [name, calls] : group.waiting) n += calls.size();
  for (const auto& [id, epoch] : epochs_)
    for (const auto& [at, turn] : epoch->turns)
      n += turn.running != nullptr ? 1 : 0;
  return n;
}

void Hub::Do(Later later) {
  // What this thread has to do, of any hub; not null while it does it: what a
  // call sends to a member in this process is done after it, not within it.
  static thread_local std::deque<std::pair<std::shared_ptr<Hub>, Later>>* ours =
      nullptr;
  if (ours != nullptr) {
    ours->emplace_back(shared_from_this(), std::move(later));
    return;
  }
  // The executions that calls complete are driven after all that.
  const HeldDriveScope hold;
  std::deque<std::pair<std::shared_ptr<Hub>, Later>> queue;
  queue.emplace_back(shared_from_this(), std::move(later));
  ours = &queue;
  while (!queue.empty()) {
    auto [hub, now] = std::move(queue.front());
    queue.pop_front();
    hub->Perform(std::move(now));
  }
  ours = nullptr;
}

void Hub::Perform(Later later) {
  for (const auto& [peer, note] : later.notes) network_->SendNote(peer, note);
  for (const auto& [call, why] : later.fail)
    if (bool ended = false; call->Fail(why, &ended), ended) call->Complete();
  for (const auto& call : later.complete) call->Complete();
  for (const auto& [epoch, call] : later.begin)
    if (call->Begin()) Finish(epoch, call);
  for (Later::Arrival& a : later.arrivals) {
    bool ended = false;
    const Status s = a.call->Arrive(a.key, std::move(a.value), &ended);
    if (ended) Finish(a.epoch, a.call);
    if (s.ok()) continue;
    Later more;
    {
      std::lock_guard<std::mutex> lock(mu_);
      Kill(a.epoch,
           Status(s.code(), absl::StrCat(GroupName(a.epoch->key), s.message())),
           true, &more);
    }
    Do(std::move(more));
  }
}

}  // namespace sluice::collectives
