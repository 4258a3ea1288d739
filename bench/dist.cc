// Steps over the tasks of a cluster on this machine, each a process of its own:
// the workloads of the peers' script tf_dist.py.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "bench.h"
#include "device_loops.h"

namespace sluice::bench {
namespace {

// A port that was free a moment ago.
int FreePort() {
  const int s = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in a = {};
  a.sin_family = AF_INET;
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(a);
  int port = 0;
  if (bind(s, reinterpret_cast<sockaddr*>(&a), size) == 0 &&
      getsockname(s, reinterpret_cast<sockaddr*>(&a), &size) == 0)
    port = ntohs(a.sin_port);
  close(s);
  return port;
}

// `n` processes `sluice worker` on loopback; they end with the object.
class Cluster {
 public:
  static Result<std::unique_ptr<Cluster>> Start(int n,
                                                const std::string& transport) {
    std::unique_ptr<Cluster> c(new Cluster);
    char path[] = "/tmp/sluice-bench-XXXXXX";
    const int fd = mkstemp(path);
    if (fd < 0) return Unavailable("bench: expected a temporary file, got none");
    close(fd);
    c->file_ = path;
    std::string tasks;
    for (int i = 0; i < n; ++i) {
      const std::string address = "127.0.0.1:" + std::to_string(FreePort());
      if (i == 0) c->target_ = "grpc://" + address;
      absl::StrAppend(&tasks, i > 0 ? ", " : "", "\"", address, "\"");
    }
    std::ofstream(c->file_) << "{\"worker\": [" << tasks << "]}\n";
    for (int i = 0; i < n; ++i) {
      const std::string task = std::to_string(i);
      const pid_t pid = fork();
      if (pid < 0) return Unavailable("bench: fork failed");
      if (pid == 0) {
        const int null = open("/dev/null", O_WRONLY);
        dup2(null, 1);
        dup2(null, 2);
        execl("/proc/self/exe", "sluice", "worker", "--cluster",
              c->file_.c_str(), "--job", "worker", "--task", task.c_str(),
              "--transport", transport.c_str(), nullptr);
        _exit(127);
      }
      c->pids_.push_back(pid);
    }
    return c;
  }
  ~Cluster() {
    for (const pid_t p : pids_) kill(p, SIGKILL);
    for (const pid_t p : pids_) waitpid(p, nullptr, 0);
    unlink(file_.c_str());
  }
  const std::string& target() const { return target_; }

 private:
  Cluster() = default;
  std::string file_, target_;
  std::vector<pid_t> pids_;
};

std::vector<std::string> Tasks(int n) {
  std::vector<std::string> names;
  for (int i = 0; i < n; ++i)
    names.push_back("/job:worker/task:" + std::to_string(i));
  return names;
}

Result<double> Loop(int tasks, const std::string& transport, bool barrier) {
  constexpr int kIterations = 500;  // As the peers' script.
  SLUICE_ASSIGN_OR_RETURN(auto cluster, Cluster::Start(tasks, transport));
  LoopOverDevices loop;
  BuildLoop(Tasks(tasks), kIterations, barrier, &loop);
  Session session(cluster->target(), loop.graph);
  return LoopItersPerS(session, loop, kIterations);
}

// A step that does nothing but read: a scalar from each of the other tasks, or
// 100 MB in all.
Result<double> NullMs(int tasks, const std::string& transport, bool dense) {
  SLUICE_ASSIGN_OR_RETURN(auto cluster, Cluster::Start(tasks, transport));
  Graph g;
  WithGraph use(g);
  const std::vector<std::string> names = Tasks(tasks);
  const int64_t holders = std::max(1, tasks - 1);
  std::vector<Node*> init;
  std::vector<Output> read;
  for (int i = std::min(1, tasks - 1); i < tasks; ++i) {
    Output variable;
    const Shape shape =
        dense ? Shape({25 * 1000 * 1000 / holders}) : Shape({});
    {
      DeviceScope there(names[static_cast<size_t>(i)]);
      variable = Build("VariableV2", {},
                       {{"shape", PartialShape(shape)}, {"dtype", DType::kFloat}},
                       absl::StrCat("v", i));
      const Output zero =
          dense ? ops::Fill(IntVector({static_cast<int32_t>(shape.num_elements())}),
                            0.0f)
                : Constant(0.0f);
      init.push_back(Build("Assign", {variable, zero}).node);
    }
    DeviceScope here(names[0]);
    const Output value = Build("Identity", {variable});
    read.push_back(dense ? ops::GatherV2(value, IntVector({0}), 0) : value + 0.0f);
  }
  Output sum;
  {
    DeviceScope here(names[0]);
    sum = ops::AddN(read);
  }
  Session session(cluster->target(), g);
  SLUICE_RETURN_IF_ERROR(session.RunTargets(init));
  SLUICE_ASSIGN_OR_RETURN(Session::Callable step,
                          session.MakeCallable({}, {}, {sum.node}));
  SLUICE_ASSIGN_OR_RETURN(
      const double s,
      Best(dense ? 4 : 20, [&] { return step.Run().status(); }));
  return s * 1e3;
}

#define SLUICE_DIST_BENCHES(n, prefix, transport)              \
  SLUICE_BENCH(prefix ".null_scalar.ms") {                     \
    return NullMs(n, transport, false);                        \
  }                                                            \
  SLUICE_BENCH(prefix ".null_dense100MB.ms") {                 \
    return NullMs(n, transport, true);                         \
  }                                                            \
  SLUICE_BENCH(prefix ".loop_independent.iters_per_s") {       \
    return Loop(n, transport, false);                          \
  }                                                            \
  SLUICE_BENCH(prefix ".loop_barrier.iters_per_s") {           \
    return Loop(n, transport, true);                           \
  }
SLUICE_DIST_BENCHES(2, "dist2", "grpc")
SLUICE_DIST_BENCHES(4, "dist4", "grpc")
SLUICE_DIST_BENCHES(8, "dist8", "grpc")
SLUICE_DIST_BENCHES(2, "dist2.ucx", "ucx")
SLUICE_DIST_BENCHES(4, "dist4.ucx", "ucx")
SLUICE_DIST_BENCHES(8, "dist8.ucx", "ucx")
#undef SLUICE_DIST_BENCHES

}  // namespace
}  // namespace sluice::bench
