// Two processes on this machine: the one-way latency of small messages and the
// throughput of large tensors.
//   cluster_benchmark --benchmark_filter=Grpc
#include <benchmark/benchmark.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "cluster/transport/grpc/transport.h"
#include "cluster/transport/ucx/transport.h"

extern char** environ;

namespace sluice {
namespace {

std::unique_ptr<Transport> Make(const std::string& kind,
                                const std::string& task) {
  if (kind == "grpc") {
    GrpcTransportOptions options;
    options.task = task;
    return std::make_unique<GrpcTransport>(options);
  }
  UcxTransportOptions options;
  options.task = task;
  if (kind == "ucx_tcp") options.tls = "tcp,self";
  return MakeUcxTransport(options);
}

// The child echoes small tokens; it acknowledges large ones.
class Echo final : public TransportHandler {
 public:
  Transport* transport = nullptr;
  void OnTokens(PeerId from, uint64_t step, uint32_t partition,
                std::span<TokenMessage> batch) override {
    for (TokenMessage& m : batch)
      if (m.value.bytes() > 4096) m.value = Tensor::Scalar(1.0f);
    (void)transport->SendTokens(from, step, partition, batch);
  }
  void OnControl(PeerId, uint8_t, std::string_view) override {}
  void OnPeerLost(PeerId, const Status&) override { _exit(0); }
};

const bool child = [] {
  const char* kind = std::getenv("SLUICE_BENCHMARK_CHILD");
  if (kind == nullptr) return false;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  Echo echo;
  const auto transport = Make(kind, "/job:b/task:1");
  echo.transport = transport.get();
  if (!transport->Start(&echo).ok()) _exit(1);
  const std::string address = transport->address();
  const uint64_t size[] = {transport->incarnation(), address.size()};
  if (write(3, size, sizeof(size)) < 0 ||
      write(3, address.data(), address.size()) < 0)
    _exit(1);
  while (true) pause();
}();

class Pinger final : public TransportHandler {
 public:
  explicit Pinger(const std::string& kind)
      : transport_(Make(kind, "/job:b/task:0")) {
    setenv("SLUICE_BENCHMARK_CHILD", kind.c_str(), 1);
    int ends[2];
    if (pipe(ends) != 0) std::abort();
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 3);
    std::string self = "/proc/self/exe";
    char* argv[] = {self.data(), nullptr};
    if (posix_spawn(&pid_, self.c_str(), &actions, nullptr, argv, environ) != 0)
      std::abort();
    unsetenv("SLUICE_BENCHMARK_CHILD");
    close(ends[1]);
    uint64_t size[2] = {};
    if (read(ends[0], size, sizeof(size)) != sizeof(size)) std::abort();
    std::string address(size[1], '\0');
    if (read(ends[0], address.data(), size[1]) != static_cast<ssize_t>(size[1]))
      std::abort();
    close(ends[0]);
    if (!transport_->Start(this).ok()) std::abort();
    peer_ = *transport_->Connect({"/job:b/task:1", address, size[0]});
  }
  ~Pinger() override {
    transport_->Shutdown();
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  void Send(const Tensor& value, uint32_t edge) {
    TokenMessage m;
    m.edge = edge;
    m.tag = {5, 6};
    m.value = value;
    (void)transport_->SendTokens(peer_, 1, 0, {&m, 1});
  }
  // `n` round trips, sent from the handler, as an execution does.
  void PingPong(const Tensor& value, int n) {
    std::unique_lock<std::mutex> lock(mu_);
    left_ = n;
    value_ = value;
    Send(value, 0);
    done_.wait(lock, [&] { return left_ == 0; });
  }
  void OnTokens(PeerId, uint64_t, uint32_t,
                std::span<TokenMessage> batch) override {
    std::lock_guard<std::mutex> lock(mu_);
    for (size_t i = 0; i < batch.size(); ++i) {
      if (--left_ > 0) {
        Send(value_, 0);
      } else {
        done_.notify_one();
      }
    }
  }
  void OnControl(PeerId, uint8_t, std::string_view) override {}
  void OnPeerLost(PeerId, const Status& why) override {
    std::fprintf(stderr, "%s\n", std::string(why.message()).c_str());
    std::abort();
  }

 private:
  const std::unique_ptr<Transport> transport_;
  pid_t pid_ = 0;
  PeerId peer_ = 0;
  std::mutex mu_;
  std::condition_variable done_;
  Tensor value_;
  int left_ = 0;
};

void BM_OneWay64Bytes(benchmark::State& state, const char* kind) {
  Pinger pinger(kind);
  const Tensor value(DType::kFloat, Shape({16}));
  pinger.PingPong(value, 10);
  constexpr int kTrips = 200;
  for (auto _ : state) pinger.PingPong(value, kTrips);
  // A round trip is two one-way trips.
  state.counters["one_way"] = benchmark::Counter(
      2.0 * kTrips * static_cast<double>(state.iterations()),
      benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void BM_Bytes100MB(benchmark::State& state, const char* kind) {
  Pinger pinger(kind);
  Tensor value(DType::kFloat, Shape({25'000'000}));
  std::memset(value.raw(), 1, value.bytes());
  pinger.PingPong(value, 1);
  for (auto _ : state) pinger.PingPong(value, 1);
  state.SetBytesProcessed(state.iterations() *
                          static_cast<int64_t>(value.bytes()));
}

#define SLUICE_FOR(kind)                                           \
  BENCHMARK_CAPTURE(BM_OneWay64Bytes, kind, #kind)->UseRealTime(); \
  BENCHMARK_CAPTURE(BM_Bytes100MB, kind, #kind)                    \
      ->UseRealTime()                                              \
      ->Unit(benchmark::kMillisecond)
SLUICE_FOR(grpc);
SLUICE_FOR(ucx);
SLUICE_FOR(ucx_tcp);

}  // namespace
}  // namespace sluice
