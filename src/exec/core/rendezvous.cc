#include "exec/core/rendezvous.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace sluice {

bool Rendezvous::Arrive(uint32_t edge, TokenMessage& message, Ready* ready) {
  auto [it, fresh] = table_.try_emplace(Key{edge, message.tag});
  Entry& e = it->second;
  if (!fresh && e.ready.node != nullptr) {
    *ready = e.ready;
    table_.erase(it);
    --waiting_;
    return true;
  }
  // (A second token with the same tag, which Sluice's partitions never send, is
  // dropped.)
  if (fresh) {
    e.dead = message.dead;
    e.value = std::move(message.value);
  }
  return false;
}

bool Rendezvous::Await(uint32_t edge, const TokenTag& tag, Ready ready,
                       TokenMessage* message) {
  auto [it, fresh] = table_.try_emplace(Key{edge, tag});
  if (fresh) {
    it->second.ready = ready;
    ++waiting_;
    return false;
  }
  message->dead = it->second.dead;
  message->value = std::move(it->second.value);
  table_.erase(it);
  return true;
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
