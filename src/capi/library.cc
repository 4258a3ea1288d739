// What the process has: ops, kernels, op libraries, servers; and versions.
#include <condition_variable>
#include <map>
#include <mutex>

#include "base/cluster_library.h"
#include "capi/c_ops.h"
#include "capi/handles.h"
#include "cluster/worker_main.h"
#include "exec/core/kernel.h"
#include "graph/graphdef_messages.h"
#include "graph/op_library.h"
#include "graph/proto/meta_graph.pb.h"
#include "session/proto/config.pb.h"
#include "session/session_config.h"

struct TF_Library {
  std::string op_list;
};

// A task of a cluster. Thread-safe.
struct TF_Server {
  sluice::TaskServerOptions options;
  std::string target;
  std::mutex mu;
  std::condition_variable stopped_cv;
  bool stopped = false;
  std::shared_ptr<void> task;  // While it runs.
};

using namespace sluice;        // NOLINT
using namespace sluice::capi;  // NOLINT

namespace {

Result<std::string> OpListOf(const std::vector<const OpDef*>& ops) {
  proto::OpList list;
  for (const OpDef* op : ops)
    SLUICE_RETURN_IF_ERROR(ToOpDef(*op, list.add_op()));
  return SerializeProto(list);
}

Status ReadServer(const void* bytes, size_t len, TF_Server* server) {
  if (len > 0) SLUICE_RETURN_IF_ERROR(Given(bytes, "ServerDef"));
  proto::ServerDef def;
  SLUICE_RETURN_IF_ERROR(
      ParseMessage({static_cast<const char*>(bytes), len}, "ServerDef", &def));
  TaskServerOptions& o = server->options;
  SLUICE_ASSIGN_OR_RETURN(o.cluster, ClusterText(def.cluster()));
  o.job = def.job_name();
  o.task = def.task_index();
  if (!def.protocol().empty()) o.transport = def.protocol();
  const auto& counts = def.default_session_config().device_count();
  if (const auto it = counts.find("CPU"); it != counts.end() && it->second > 1)
    o.devices = absl::StrCat("cpu=", it->second);
  for (const proto::JobDef& job : def.cluster().job())
    if (job.name() == o.job)
      if (const auto it = job.tasks().find(o.task); it != job.tasks().end())
        server->target = "grpc://" + it->second;
  if (server->target.empty())
    return InvalidArgument("ServerDef: expected a cluster with task ", o.task,
                           " of job '", o.job, "', got one without");
  return OkStatus();
}

}  // namespace

extern "C" {

const char* TF_Version(void) { return "2.6.0 (Sluice " SLUICE_VERSION ")"; }

TF_Library* TF_LoadLibrary(const char* library_filename, TF_Status* status) {
  TF_Library* made = nullptr;
  Report(status, "library", [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(Given(library_filename, "name of a library"));
    SLUICE_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                            LoadOpLibrary(library_filename));
    std::vector<const OpDef*> ops;
    for (const std::string& name : names) {
      SLUICE_ASSIGN_OR_RETURN(ops.emplace_back(),
                              OpRegistry::Global()->Lookup(name));
    }
    SLUICE_ASSIGN_OR_RETURN(std::string list, OpListOf(ops));
    made = new TF_Library{std::move(list)};
    return OkStatus();
  });
  return made;
}

TF_Buffer TF_GetOpList(TF_Library* lib_handle) {
  return {lib_handle->op_list.data(), lib_handle->op_list.size(), nullptr};
}
void TF_DeleteLibraryHandle(TF_Library* lib_handle) { delete lib_handle; }

TF_Buffer* TF_GetAllOpList(void) {
  TF_Buffer* made = nullptr;
  Report(nullptr, "ops", [&]() -> Status {
    SLUICE_ASSIGN_OR_RETURN(const std::string list,
                            OpListOf(OpRegistry::Global()->All()));
    made = TF_NewBufferFromString(list.data(), list.size());
    return OkStatus();
  });
  return made;
}

TF_Server* TF_NewServer(const void* proto, size_t proto_len,
                        TF_Status* status) {
  auto server = std::make_unique<TF_Server>();
  const bool ok = Report(status, "server", [&] {
    return ReadServer(proto, proto_len, server.get());
  });
  return ok ? server.release() : nullptr;
}

void TF_ServerStart(TF_Server* server, TF_Status* status) {
  Report(status, "server", [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(Given(server, "server"));
    std::lock_guard<std::mutex> lock(server->mu);
    if (server->stopped)
      return FailedPrecondition(
          "server: expected one that was not stopped, got one that was");
    if (server->task != nullptr) return OkStatus();
    SLUICE_ASSIGN_OR_RETURN(void* const start, DistSymbol("sluice_start_task"));
    Status started;
    reinterpret_cast<decltype(&sluice_start_task)>(start)(
        &server->options, &server->task, &started);
    return started;
  });
}

void TF_ServerStop(TF_Server* server, TF_Status* status) {
  Report(status, "server", [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(Given(server, "server"));
    std::shared_ptr<void> task;
    {
      std::lock_guard<std::mutex> lock(server->mu);
      server->stopped = true;
      task = std::move(server->task);
    }
    task.reset();
    server->stopped_cv.notify_all();
    return OkStatus();
  });
}

void TF_ServerJoin(TF_Server* server, TF_Status* status) {
  Report(status, "server", [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(Given(server, "server"));
    std::unique_lock<std::mutex> lock(server->mu);
    if (server->task == nullptr && !server->stopped)
      return FailedPrecondition(
          "server: expected one that runs, got one that "
          "was not started");
    server->stopped_cv.wait(lock, [server] { return server->stopped; });
    return OkStatus();
  });
}

const char* TF_ServerTarget(TF_Server* server) {
  return server->target.c_str();
}
void TF_DeleteServer(TF_Server* server) {
  if (server != nullptr) TF_ServerStop(server, nullptr);
  delete server;
}

void TF_RegisterLogListener(void (* /*listener*/)(const char*)) {}

void TF_RegisterFilesystemPlugin(const char* /*plugin_filename*/,
                                 TF_Status* status) {
  SetStatus(status,
            Unimplemented("filesystem plugin: expected none, since files "
                          "are the system's, got one"));
}

}  // extern "C"
