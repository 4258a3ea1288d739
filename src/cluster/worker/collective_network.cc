#include "cluster/worker/collective_network.h"

#include "cluster/common/messages.h"

namespace sluice {
namespace {

using collectives::Note;

class TransportNetwork final : public collectives::Network {
 public:
  TransportNetwork(std::string task, Transport* transport)
      : task_(std::move(task)), transport_(transport) {}

  std::string task() const override { return task_; }
  uint64_t IncarnationOf(collectives::Peer peer) const override {
    return transport_->IncarnationOf(peer);
  }
  Status WhyLost(collectives::Peer peer) const override {
    return transport_->Lost(peer);
  }
  uint64_t SessionOf(int64_t step) const override {
    return CollectiveSession(static_cast<uint64_t>(step));
  }
  void SendNote(collectives::Peer to, const Note& note) override {
    proto::CollectiveNote p;
    NoteToProto(note, &p);
    // (An error means that the peer is lost, of which the hub is told.)
    (void)transport_->SendControl(
        to, static_cast<uint8_t>(StepMessage::kCollective),
        p.SerializeAsString());
  }
  Status SendTokens(collectives::Peer to, uint64_t epoch,
                    std::span<TokenMessage> batch) override {
    return transport_->SendTokens(to, epoch, kCollectivePartition, batch);
  }

 private:
  const std::string task_;
  Transport* const transport_;
};

}  // namespace

std::unique_ptr<collectives::Network> MakeCollectiveNetwork(
    std::string task, Transport* transport) {
  return std::make_unique<TransportNetwork>(std::move(task), transport);
}

void NoteToProto(const Note& note, proto::CollectiveNote* p) {
  p->set_kind(static_cast<uint32_t>(note.kind));
  p->set_group(note.group);
  p->set_member(note.member);
  p->set_size(note.size);
  p->set_rank(note.rank);
  p->set_nonce(note.nonce);
  p->set_epoch(note.epoch);
  for (const uint64_t n : note.nonces) p->add_nonces(n);
  if (!note.why.ok()) StatusToProto(note.why, p->mutable_why());
  p->set_instance(note.instance);
  p->set_call(note.call);
  p->set_hash(note.hash);
  p->set_root(note.root);
  p->set_description(note.description.substr(0, collectives::kMaxNoteText));
  p->set_changed(note.changed);
  p->set_lost(note.lost);
  for (const auto& [instance, calls] : note.calls) {
    p->add_left_instance(instance);
    p->add_left_calls(calls);
  }
}

Result<Note> NoteFromProto(const proto::CollectiveNote& p) {
  Note note;
  if (p.kind() < static_cast<uint32_t>(Note::Kind::kJoin) ||
      p.kind() > static_cast<uint32_t>(Note::Kind::kLeave))
    return InvalidArgument("note: expected kind 1 to 4, got ", p.kind());
  if (p.member().size() > collectives::kMaxNoteText ||
      p.description().size() > collectives::kMaxNoteText)
    return InvalidArgument("note: expected at most ", collectives::kMaxNoteText,
                           " bytes of text, got ", p.member().size(), " and ",
                           p.description().size());
  if (p.nonces_size() > collectives::kMaxMembers)
    return InvalidArgument("note: expected at most ", collectives::kMaxMembers,
                           " members, got ", p.nonces_size());
  if (p.left_instance_size() != p.left_calls_size() ||
      p.left_calls_size() > collectives::kMaxNoteCalls)
    return InvalidArgument(
        "note: expected at most ", collectives::kMaxNoteCalls,
        " instances and their calls, got ", p.left_instance_size(), " and ",
        p.left_calls_size());
  note.kind = static_cast<Note::Kind>(p.kind());
  note.group = p.group();
  note.member = p.member();
  note.size = p.size();
  note.rank = p.rank();
  note.nonce = p.nonce();
  note.epoch = p.epoch();
  if (note.kind == Note::Kind::kAbort) {
    note.nonces.assign(p.nonces().begin(), p.nonces().end());
    note.why = StatusFromProto(p.why());
    note.changed = p.changed();
    note.lost = p.lost();
  }
  if (note.kind == Note::Kind::kAbort && note.why.ok())
    note.why = Aborted("group: expected a reason, got none");
  note.instance = p.instance();
  note.call = p.call();
  note.hash = p.hash();
  note.root = p.root();
  note.description = p.description();
  for (int i = 0; i < p.left_calls_size(); ++i)
    note.calls.emplace_back(p.left_instance(i), p.left_calls(i));
  return note;
}

}  // namespace sluice
