#include "dist/worker_main.h"

#include <malloc.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <memory>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "dist/server.h"
#include "exec/emulated_device.h"

namespace sluice {
namespace {

// "cpu=2,emu=8(memory=1G,kernel_us=20)": how many of which type, and what the
// emulated ones are like.
Status ParseDevices(absl::string_view text, ServerOptions* options) {
  while (!text.empty()) {
    size_t end = std::min(text.find(','), text.size());
    absl::string_view details;
    if (const size_t open = text.find('('); open < end) {
      const size_t close = text.find(')', open);
      if (close == absl::string_view::npos)
        return InvalidArgument("--devices: expected ')', got '", text, "'");
      details = text.substr(open + 1, close - open - 1);
      end = open;
    }
    const absl::string_view part = text.substr(0, end);
    const std::pair<std::string, std::string> kv = absl::StrSplit(part, '=');
    int count = 0;
    if ((kv.first != "cpu" && kv.first != "emu") ||
        (kv.first == "cpu" && !details.empty()) ||
        !absl::SimpleAtoi(kv.second, &count) || count < 1 || count > 1024)
      return InvalidArgument("--devices: expected cpu=N or emu=N(how), got '",
                             part, "'");
    if (!details.empty()) end += details.size() + 2;
    text.remove_prefix(end);
    if (!text.empty() && text[0] != ',')
      return InvalidArgument("--devices: expected ',', got '", text, "'");
    if (!text.empty()) text.remove_prefix(1);
    if (kv.first == "cpu") {
      options->cpu_devices = count;
      continue;
    }
    SLUICE_ASSIGN_OR_RETURN(
        const EmulatedDeviceOptions emulated,
        ParseEmulatedDevice({details.data(), details.size()}));
    options->more_devices = [count, emulated](
                                DeviceName name,
                                std::vector<std::unique_ptr<Device>>* devices) {
      name.type = "EMU";
      for (name.number = 0; name.number < count; ++name.number)
        devices->push_back(std::make_unique<EmulatedDevice>(name, emulated));
      return OkStatus();
    };
  }
  return OkStatus();
}

Status Prepare(const WorkerFlags& flags, ServerOptions* options) {
  SLUICE_ASSIGN_OR_RETURN(options->cluster, ClusterSpec::Load(flags.cluster));
  SLUICE_RETURN_IF_ERROR(options->cluster.Find(flags.job, flags.task).status());
  options->job = flags.job;
  options->task = flags.task;
  options->bind = flags.bind;
  options->transport = flags.transport;
  options->peer_timeout = std::chrono::milliseconds(flags.peer_timeout_ms);
  options->tls = {flags.tls_authority, flags.tls_certificate, flags.tls_key,
                  ""};
  options->plain_beyond_loopback = flags.plain_beyond_loopback;
  return ParseDevices(flags.devices, options);
}

}  // namespace
}  // namespace sluice

extern "C" int sluice_worker_main(const sluice::WorkerFlags* flags,
                                  std::string* error) {
  // These end the task in good order: all threads leave them to sigwait.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  // What large values are read into is given back and taken again for each;
  // page faults would cost more than the copies.
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
  sluice::ServerOptions options;
  if (const sluice::Status s = sluice::Prepare(*flags, &options); !s.ok()) {
    *error = std::string(s.message());
    return 2;
  }
  auto server = sluice::Server::Start(options);
  if (!server.ok()) {
    *error = std::string(server.status().message());
    return 1;
  }
  std::printf("%s at %s\n", (*server)->worker().task().c_str(),
              (*server)->target().c_str());
  std::fflush(stdout);
  int signal = 0;
  sigwait(&signals, &signal);
  (*server)->Stop();
  return 0;
}
