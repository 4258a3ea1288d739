// Helpers shared by the tests of transports.
#ifndef SLUICE_CLUSTER_TESTING_TRANSPORT_TEST_UTIL_H_
#define SLUICE_CLUSTER_TESTING_TRANSPORT_TEST_UTIL_H_

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "cluster/transport/transport.h"

namespace sluice {

inline TokenMessage TokenOf(uint32_t edge, Tensor value,
                            int64_t iteration = 0) {
  TokenMessage m;
  m.edge = edge;
  m.tag.iteration = iteration;
  if (iteration > 0) m.tag.frame = absl::MakeUint128(7, 77);
  m.value = std::move(value);
  return m;
}

// Records everything it receives.
class RecordingHandler : public TransportHandler {
 public:
  struct Got {
    PeerId from;
    uint64_t step;
    uint32_t partition;
    TokenMessage token;
  };
  void OnTokens(PeerId from, uint64_t step, uint32_t partition,
                std::span<TokenMessage> batch) override {
    std::unique_lock<std::mutex> lock(mu);
    if (const auto call = on_tokens) {
      lock.unlock();
      call(from, step, partition, batch);
      lock.lock();
    }
    for (TokenMessage& m : batch) {
      log.push_back("t" + std::to_string(m.edge));
      tokens.push_back({from, step, partition, std::move(m)});
    }
    changed.notify_all();
  }
  void OnControl(PeerId from, uint8_t kind, std::string_view bytes) override {
    std::unique_lock<std::mutex> lock(mu);
    if (const auto call = on_control) {
      lock.unlock();
      call(from, kind, bytes);
      lock.lock();
    }
    log.push_back("c" + std::to_string(kind));
    controls.emplace_back(kind, std::string(bytes));
    changed.notify_all();
  }
  void OnPeerLost(PeerId peer, const Status& why) override {
    std::lock_guard<std::mutex> lock(mu);
    lost.emplace_back(peer, why);
    changed.notify_all();
  }
  // Waits for at most 30 seconds.
  bool Await(const std::function<bool()>& what) {
    std::unique_lock<std::mutex> lock(mu);
    return changed.wait_for(lock, std::chrono::seconds(30), what);
  }
  bool AwaitTokens(size_t n) {
    return Await([&] { return tokens.size() >= n; });
  }
  bool AwaitControls(size_t n) {
    return Await([&] { return controls.size() >= n; });
  }
  bool AwaitLost(size_t n) {
    return Await([&] { return lost.size() >= n; });
  }

  size_t losses() {
    std::lock_guard<std::mutex> lock(mu);
    return lost.size();
  }

  // Set these with the lock held if a peer may already be sending.
  std::function<void(PeerId, uint64_t, uint32_t, std::span<TokenMessage>)>
      on_tokens;
  std::function<void(PeerId, uint8_t, std::string_view)> on_control;
  std::mutex mu;
  std::condition_variable changed;
  std::vector<Got> tokens;
  std::vector<std::pair<uint8_t, std::string>> controls;
  std::vector<std::pair<PeerId, Status>> lost;
  std::vector<std::string> log;
};

}  // namespace sluice

#endif  // SLUICE_CLUSTER_TESTING_TRANSPORT_TEST_UTIL_H_
