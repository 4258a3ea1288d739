#include "exec/core/rendezvous.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace sluice {

Rendezvous::Outcome Rendezvous::Arrive(uint32_t edge, TokenMessage& message,
                                       Ready* ready) {
  auto [it, fresh] = table_.try_emplace(Key{edge, message.tag});
  Entry& e = it->second;
  if (fresh) {
    e.dead = message.dead;
    e.value = std::move(message.value);
    return Outcome::kStored;
  }
  if (e.ready.node == nullptr) return Outcome::kRepeated;
  *ready = e.ready;
  table_.erase(it);
  --waiting_;
  return Outcome::kMatched;
}

Rendezvous::Outcome Rendezvous::Await(uint32_t edge, const TokenTag& tag,
                                      Ready ready, TokenMessage* message) {
  auto [it, fresh] = table_.try_emplace(Key{edge, tag});
  Entry& e = it->second;
  if (fresh) {
    e.ready = ready;
    ++waiting_;
    return Outcome::kStored;
  }
  if (e.ready.node != nullptr) return Outcome::kRepeated;
  message->dead = e.dead;
  message->value = std::move(e.value);
  table_.erase(it);
  return Outcome::kMatched;
}

void Rendezvous::Clear() {
  table_.clear();
  waiting_ = 0;
}

std::string Rendezvous::Describe(int most) const {
  std::string out;
  for (const auto& [key, e] : table_) {
    if (e.ready.node == nullptr) continue;
    if (--most < 0) break;
    absl::StrAppend(
        &out, out.empty() ? "" : "; ", e.ready.node->node->Describe(),
        Tokens::Where(*e.ready.iteration), " waits for '",
        e.ready.node->node->AttrOr<std::string>("tensor_name", ""), "' from ",
        e.ready.node->node->AttrOr<std::string>("send_device", ""));
  }
  return out;
}

}  // namespace sluice
