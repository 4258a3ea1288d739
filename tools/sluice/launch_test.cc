// `sluice launch`: the program, with stand-ins for ssh, srun and mpirun on PATH
// that run processes on this machine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "io/file.h"
#include "tools/sluice/launch_spec.h"
#include "tools/sluice/launch_text.h"
#include "tools/sluice/tasks_test_util.h"

namespace sluice::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string LaunchError(const std::string& text) {
  const auto spec = LaunchSpec::Read(text);
  EXPECT_FALSE(spec.ok()) << text;
  return std::string(spec.status().message());
}

TEST(LaunchSpecTest, ReadsCountsOrJson) {
  const auto counts = LaunchSpec::Read("ps=1,worker=3");
  ASSERT_TRUE(counts.ok()) << counts.status();
  EXPECT_EQ(counts->Counts(), "ps=1&worker=3");
  EXPECT_EQ(counts->num_tasks(), 4);
  const auto json = LaunchSpec::Read(
      R"({"name": "x", "jobs": {"w": {"count": 2, "flags": ["--metrics=:9"]}},
          "flags": ["--drain-seconds", "3"], "environment": {"A": "b"},
          "program": ["p"]})");
  ASSERT_TRUE(json.ok()) << json.status();
  EXPECT_EQ(json->Flag(json->jobs[0], "--metrics"), ":9");
  EXPECT_EQ(json->Flag(json->jobs[0], "--drain-seconds"), "3");
  EXPECT_EQ(EndSeconds(*json, json->jobs[0]), 8);
  EXPECT_EQ(json->program, Words{"p"});
}

TEST(LaunchSpecTest, ErrorsSayWhatIsWrong) {
  EXPECT_THAT(LaunchError("no such file"), HasSubstr("no such file"));
  EXPECT_THAT(LaunchError("{"), HasSubstr("expected JSON"));
  EXPECT_THAT(LaunchError("{}"), HasSubstr("at least one job"));
  EXPECT_THAT(LaunchError("ps=0"), HasSubstr("1 to 10000"));
  EXPECT_THAT(LaunchError("ps=1,ps=2"), HasSubstr("'ps' again"));
  EXPECT_THAT(LaunchError(R"({"jobs": {"a-b": 1}})"), HasSubstr("'a-b'"));
  EXPECT_THAT(LaunchError(R"({"jobs": {"a": 1e9}})"),
              HasSubstr("1000000000.0"));
  EXPECT_THAT(LaunchError(R"({"jobs": {"a": 99999999999}})"),
              HasSubstr("99999999999"));
  EXPECT_THAT(LaunchError(R"({"jobs": {"a": {"cuont": 1}}})"),
              HasSubstr("'cuont'"));
  EXPECT_THAT(LaunchError(R"({"jobs": {"a": 1}, "flags": "x"})"),
              HasSubstr("list of strings as flags"));
  EXPECT_THAT(LaunchError(R"({"jobs": {"a": 1}, "program": [1]})"),
              HasSubstr("got 1"));
  EXPECT_THAT(LaunchError(R"({"jobs": {"a": 1}, "environment": {"a=b": ""}})"),
              HasSubstr("'a=b'"));
  for (const char* name : {"_;x", "_ x", "_\n- x", "1x", ""})
    EXPECT_THAT(LaunchError(nlohmann::json{{"jobs", {{"a", 1}}},
                                           {"environment", {{name, "v"}}}}
                                .dump()),
                HasSubstr("name of a variable"));
  EXPECT_TRUE(
      LaunchSpec::Read(R"({"jobs": {"a": 1}, "environment": {"_x1": "v"}})")
          .ok());
  EXPECT_THAT(LaunchError(R"({"jobs": {"a": -4294967291}})"),
              HasSubstr("got -4294967291"));
  EXPECT_THAT(LaunchError(R"({"jobs": {"a": 1}, "name": "x/y"})"),
              HasSubstr("'x/y'"));
}

TEST(LaunchSpecTest, TasksArePlacedInOrder) {
  const auto spec = LaunchSpec::Read("ps=1,worker=3");
  const auto places = [&spec](const Words& hosts) {
    const auto tasks = PlaceTasks(*spec, hosts, 10);
    return tasks.ok() ? ClusterJson(*tasks)
                      : std::string(tasks.status().message());
  };
  EXPECT_EQ(places({"a", "me@b"}),
            R"({"ps":["a:10"],"worker":["a:11","b:10","b:11"]})");
  EXPECT_EQ(places({"a:1", "b:1", "a:2"}),
            R"({"ps":["a:10"],"worker":["b:10","a:11","a:12"]})");
  EXPECT_THAT(places({"a:1"}), HasSubstr("room for 4"));
  EXPECT_THAT(places({"-oProxyCommand=x"}), HasSubstr("name of a host"));
  EXPECT_THAT(places({"a:0"}), HasSubstr("HOST:COUNT"));
  EXPECT_THAT(places({}), HasSubstr("at least one host"));
}

TEST(LaunchSpecTest, WhatOneStarterCannotDoIsAnError) {
  const auto flags = LaunchSpec::Read(
      R"({"jobs": {"ps": {"count": 1, "flags": ["--devices", "cpu=2"]}}})");
  const auto command =
      LaunchSpec::Read(R"({"jobs": {"ps": {"count": 1, "command": ["x"]}}})");
  for (const auto* spec : {&flags, &command}) {
    ASSERT_TRUE(spec->ok());
    EXPECT_EQ(SlurmScript(**spec, "s", 1, {}).status().code(),
              StatusCode::kUnimplemented);
    EXPECT_EQ(MpiCommand(**spec, "m", "s", 1, {}).status().code(),
              StatusCode::kUnimplemented);
  }
  KubernetesOptions options;
  options.image = "i";
  const auto upper = LaunchSpec::Read("Ps=1");
  EXPECT_THAT(
      std::string(KubernetesManifests(*upper, options).status().message()),
      HasSubstr("'sluice-Ps'"));
}

// Commands on a folder of its own, with stand-ins first on PATH.
class LaunchTest : public ::testing::Test {
 protected:
  LaunchTest() {
    std::string pattern = ::testing::TempDir() + "sluice_launch_XXXXXX";
    folder_ = mkdtemp(pattern.data());
    // Options, the host, and what the remote shell gets.
    Script("ssh",
           "while :; do case $1 in -o) shift 2;; -*) shift;; *) break;;"
           " esac; done\n"
           "echo \"$1\" >> " +
               folder_ +
               "/hosts\nshift\n"
               "exec sh -c \"$*\"\n");
  }
  ~LaunchTest() override {
    launch_.reset();
    std::filesystem::remove_all(folder_);
  }
  void Script(const std::string& name, const std::string& text) {
    const std::string path = folder_ + "/" + name;
    ASSERT_TRUE(WriteFile(path, "#!/bin/bash\n" + text).ok());
    chmod(path.c_str(), 0755);
  }
  void Start(Words arguments) {
    arguments.insert(arguments.begin(), "launch");
    unlink((folder_ + "/output").c_str());
    launch_ = std::make_unique<ChildProcess>(
        SluicePath(), arguments,
        Words{"PATH=" + folder_ + ":" + std::getenv("PATH")},
        folder_ + "/output");
  }
  int Run(const Words& arguments) {
    Start(arguments);
    EXPECT_TRUE(BecomesTrue([this] { return launch_->Ended(); })) << Output();
    return launch_->Wait();
  }
  std::string Output() const {
    const auto text = ReadFile(folder_ + "/output");
    return text.ok() ? *text : "";
  }
  bool Says(const std::string& text) const {
    return BecomesTrue(
        [&] { return Output().find(text) != std::string::npos; });
  }
  // Two tasks "a" on a remote host that run a shell script.
  static std::string Shells(const std::string& script, const Words& more = {}) {
    nlohmann::json spec;
    Words command = {"sh", "-c", script, "sh"};
    command.insert(command.end(), more.begin(), more.end());
    spec["jobs"]["a"] = {{"count", 2}, {"command", command}};
    spec["environment"]["ODD"] = kOdd;
    return spec.dump();
  }

  static constexpr char kOdd[] = "it's \"$HOME\" `x` \\ *";
  static constexpr char kHost[] = "me@127.0.0.1";
  // Whose tasks end with the signal that they get.
  static constexpr char kWaits[] =
      "trap 'echo got TERM; exit 0' TERM; trap 'echo got INT; exit 0' INT; "
      "echo ready $$; while :; do sleep 0.05; done";
  std::string folder_;
  std::unique_ptr<ChildProcess> launch_;
};

TEST_F(LaunchTest, WordsAndEnvironmentComeThroughRemoteShells) {
  const std::string script =
      "printf '<%s>' \"$@\" \"$ODD\"; echo; echo \"$TF_CONFIG\" >&2";
  EXPECT_EQ(Run({"hosts", Shells(script, {"a b", "", kOdd, "-n"}), "--hosts",
                 kHost, "--port", "1234"}),
            0)
      << Output();
  for (const char* task : {"a/0", "a/1"})
    EXPECT_THAT(Output(), HasSubstr(absl::StrCat(task, ": <a b><><", kOdd,
                                                 "><-n><", kOdd, ">\n")));
  EXPECT_THAT(
      Output(),
      HasSubstr(
          "a/1: {\"cluster\": {\"a\":[\"127.0.0.1:1234\",\"127.0.0.1:1235\"]}, "
          "\"task\": {\"type\": \"a\", \"index\": 1}}\n"));
  EXPECT_EQ(*ReadFile(folder_ + "/hosts"),
            absl::StrCat(kHost, "\n", kHost, "\n"));
}

TEST_F(LaunchTest, RemoteFolderAndMissingProgramsAreReported) {
  EXPECT_EQ(
      Run({"hosts", Shells("pwd"), "--hosts", kHost, "--folder", folder_}), 0);
  EXPECT_THAT(Output(), HasSubstr("a/0: " + folder_ + "\n"));
  EXPECT_EQ(Run({"hosts", Shells("pwd"), "--hosts", kHost, "--folder",
                 folder_ + "/none"}),
            126);
  EXPECT_EQ(
      Run({"hosts", R"({"jobs": {"a": {"count": 1, "command": ["no-x"]}}})",
           "--hosts", "127.0.0.1"}),
      127);
  EXPECT_THAT(Output(), HasSubstr("'no-x'"));
}

TEST_F(LaunchTest, DeadTaskEndsTheOthersWithItsCode) {
  for (const std::string host : {kHost, "127.0.0.1"}) {
    SCOPED_TRACE(host);
    const std::string once = absl::StrCat(
        "case $TF_CONFIG in *'index\": 1'*) sleep 0.3; exit 7;; esac; ",
        kWaits);
    EXPECT_EQ(Run({"hosts", Shells(once), "--hosts", host}), 7) << Output();
    EXPECT_THAT(Output(),
                HasSubstr("task a/1 on " + host + " ended with exit code 7"));
    EXPECT_THAT(Output(), HasSubstr("a/0: got TERM"));
    EXPECT_EQ(Run({"hosts", Shells("kill -9 $$"), "--hosts", host}), 128 + 9);
    EXPECT_THAT(Output(), HasSubstr("signal 9"));
  }
}

TEST_F(LaunchTest, DeadTaskIsStartedAgainIfAsked) {
  const std::string script =
      absl::StrCat("echo run >> ", folder_, "/runs; [ $(wc -l < ", folder_,
                   "/runs) -ge 4 ] || exit 3; echo good");
  EXPECT_EQ(Run({"hosts", Shells(script), "--hosts", kHost, "--restart", "5"}),
            0)
      << Output();
  EXPECT_THAT(Output(), HasSubstr("exit code 3: starting it again"));
  EXPECT_THAT(Output(), HasSubstr("good"));
}

TEST_F(LaunchTest, SignalsGoToAllTasks) {
  for (const std::string host : {kHost, "127.0.0.1"})
    for (const auto& [signal, name] :
         {std::pair{SIGTERM, "TERM"}, std::pair{SIGINT, "INT"}}) {
      SCOPED_TRACE(host + " " + name);
      Start({"hosts", Shells(kWaits), "--hosts", host});
      ASSERT_TRUE(Says("a/0: ready") && Says("a/1: ready")) << Output();
      launch_->Signal(signal);
      ASSERT_TRUE(BecomesTrue([this] { return launch_->Ended(); }));
      EXPECT_EQ(launch_->Wait(), 0) << Output();
      for (const char* task : {"a/0", "a/1"})
        EXPECT_THAT(Output(), HasSubstr(absl::StrCat(task, ": got ", name)));
    }
}

TEST_F(LaunchTest, SecondSignalKillsWhatDoesNotEnd) {
  for (const std::string host : {kHost, "127.0.0.1"}) {
    SCOPED_TRACE(host);
    Start({"hosts",
           Shells("trap '' TERM; echo ready; while :; do sleep 0.05; done"),
           "--hosts", host});
    ASSERT_TRUE(Says("a/0: ready") && Says("a/1: ready")) << Output();
    launch_->Signal(SIGTERM);
    ASSERT_TRUE(Says("sent on to all"));
    EXPECT_FALSE(launch_->Ended());
    launch_->Signal(SIGTERM);
    ASSERT_TRUE(BecomesTrue([this] { return launch_->Ended(); }));
    EXPECT_EQ(launch_->Wait(), 128 + 9) << Output();
  }
}

TEST_F(LaunchTest, TasksEndWithTheirLauncher) {
  for (const std::string host : {kHost, "127.0.0.1"}) {
    SCOPED_TRACE(host);
    Start({"hosts", Shells(kWaits), "--hosts", host});
    ASSERT_TRUE(Says("a/0: ready") && Says("a/1: ready")) << Output();
    std::vector<pid_t> tasks;
    for (const auto& line : absl::StrSplit(Output(), '\n')) {
      const size_t at = line.find("ready ");
      if (at != std::string_view::npos)
        tasks.push_back(std::stoi(std::string(line.substr(at + 6))));
    }
    ASSERT_EQ(tasks.size(), 2u);
    launch_.reset();  // SIGKILL.
    for (const pid_t task : tasks)
      EXPECT_TRUE(BecomesTrue([task] { return kill(task, 0) != 0; }));
  }
}

TEST_F(LaunchTest, ConnectionThatIsStuckIsKilled) {
  Script("ssh", "trap '' TERM\necho ready\nwhile :; do sleep 0.05; done\n");
  Start({"hosts", R"({"jobs": {"a": 1}, "flags": ["--drain-seconds", "0"]})",
         "--hosts", kHost});
  ASSERT_TRUE(Says("a/0: ready")) << Output();
  // (A second signal would be sent to ssh itself, once nobody reads from it.)
  launch_->Signal(SIGTERM);
  ASSERT_TRUE(BecomesTrue([this] { return launch_->Ended(); })) << Output();
  EXPECT_EQ(launch_->Wait(), 128 + 9) << Output();
}

// As one that saves its state when it is asked to end.
TEST_F(LaunchTest, ProgramHasItsClusterAfterASignal) {
  const std::string port = absl::StrCat(UnusedPort());
  const std::string looks =
      absl::StrCat(SluicePath(), " top \"$SLUICE_TARGET\" --once > ", folder_,
                   "/top && ! grep -q lost ", folder_, "/top");
  const std::string program = absl::StrCat(
      "saves() { sleep 1; if ", looks, "; then echo saved; exit 6; fi; exit 9;",
      " }; until ", looks, "; do sleep 0.1; done; trap saves TERM INT; ",
      "echo up; while :; do sleep 0.05; done");
  for (const int signal : {SIGTERM, SIGINT}) {
    SCOPED_TRACE(signal);
    Start({"hosts", "ps=1,worker=1", "--hosts", "127.0.0.1", "--port", port,
           "--sluice", SluicePath(), "--", "sh", "-c", program});
    ASSERT_TRUE(Says("program: up")) << Output();
    launch_->Signal(signal);
    ASSERT_TRUE(BecomesTrue([this] { return launch_->Ended(); })) << Output();
    EXPECT_EQ(launch_->Wait(), 6) << Output();
    EXPECT_THAT(Output(), HasSubstr("program: saved"));
  }
}

TEST_F(LaunchTest, ProgramRunsOnACluster) {
  const std::string port = absl::StrCat(UnusedPort());
  // `sluice top` of the target, when all tasks are there.
  const std::string program =
      absl::StrCat("until ", SluicePath(), " top \"$SLUICE_TARGET\" --once > ",
                   folder_, "/top && ! grep -q lost ", folder_,
                   "/top; do sleep 0.1; done; cat ", folder_, "/top; exit 5");
  for (const std::string host : {kHost, "127.0.0.1"}) {
    SCOPED_TRACE(host);
    EXPECT_EQ(Run({"hosts", "ps=1,worker=2", "--hosts", host, "--port", port,
                   "--sluice", SluicePath(), "--", "sh", "-c", program}),
              5)
        << Output();
    for (const char* task : {"ps/replica:0/task:0", "worker/replica:0/task:1"})
      EXPECT_THAT(Output(), HasSubstr(absl::StrCat("/job:", task)));
    EXPECT_THAT(Output(), HasSubstr("program: "));
    EXPECT_THAT(Output(), HasSubstr("worker/1: /job:worker"));
  }
}

TEST_F(LaunchTest, SlurmScriptRunsTasksAndProgram) {
  // As srun does: N processes with their numbers.
  Script("srun",
         "n=${1#--ntasks=}; shift 2\n"
         "trap 'kill -s TERM $(jobs -p)' TERM\n"
         "for ((i = 0; i < n; ++i)); do SLURM_STEP_NODELIST=localhost "
         "SLURM_STEP_TASKS_PER_NODE=$n SLURM_PROCID=$i SLURM_LOCALID=$i \"$@\" "
         "& done\n"
         "wait; wait\n");
  const std::string port = absl::StrCat(UnusedPort());
  const std::string program =
      absl::StrCat("until ", SluicePath(), " top \"$SLUICE_TARGET\" --once > ",
                   folder_, "/top && ! grep -q lost ", folder_,
                   "/top; do sleep 0.1; done; cat ", folder_, "/top; exit 5");
  ASSERT_EQ(Run({"slurm", "ps=1,worker=2", "--port", port, "--sluice",
                 SluicePath(), "--sbatch=--time=10:00", "-o", folder_ + "/job",
                 "--", "sh", "-c", program}),
            0)
      << Output();
  EXPECT_THAT(*ReadFile(folder_ + "/job"),
              HasSubstr("#SBATCH --ntasks=3\n#SBATCH --signal=B:TERM@30\n"
                        "#SBATCH --time=10:00\n"));
  ChildProcess job(
      "env",
      {"PATH=" + folder_ + ":" + std::getenv("PATH"),
       "SLURM_JOB_NODELIST=localhost", "SLURM_TASKS_PER_NODE=3",
       "SLURM_PROCID=0", "SLURM_LOCALID=0", "bash", folder_ + "/job"},
      {}, folder_ + "/output");
  ASSERT_TRUE(BecomesTrue([&] { return job.Ended(); })) << Output();
  EXPECT_EQ(job.Wait(), 5) << Output();
  EXPECT_THAT(Output(), HasSubstr("/job:worker/replica:0/task:1"));
  // Without a program, what ends in order after SIGTERM has ended well.
  Script("srun",
         "trap 'sleep 0.3; exit 0' TERM; echo srun ready\n"
         "while :; do sleep 0.05; done\n");
  ASSERT_EQ(Run({"slurm", "ps=1", "-o", folder_ + "/job"}), 0) << Output();
  unlink((folder_ + "/output").c_str());
  ChildProcess tasks(
      "env",
      {"PATH=" + folder_ + ":" + std::getenv("PATH"), "bash", folder_ + "/job"},
      {}, folder_ + "/output");
  ASSERT_TRUE(Says("srun ready")) << Output();
  tasks.Signal(SIGTERM);
  ASSERT_TRUE(BecomesTrue([&] { return tasks.Ended(); })) << Output();
  EXPECT_EQ(tasks.Wait(), 0) << Output();
}

TEST_F(LaunchTest, MpirunStartsTasks) {
  Script("mpirun",
         "[ \"$1\" = -n ] || exit 9; n=$2; shift 2\n"
         "trap 'kill -s TERM $(jobs -p)' TERM\n"
         "for ((i = 0; i < n; ++i)); do OMPI_COMM_WORLD_RANK=$i "
         "OMPI_COMM_WORLD_SIZE=$n OMPI_COMM_WORLD_LOCAL_RANK=$i "
         "OMPI_COMM_WORLD_LOCAL_SIZE=$n \"$@\" & done\nwait; wait\n");
  const std::string port = absl::StrCat(UnusedPort());
  const std::string program =
      absl::StrCat("until ", SluicePath(), " top \"$SLUICE_TARGET\" --once > ",
                   folder_, "/top && ! grep -q lost ", folder_,
                   "/top; do sleep 0.1; done; cat ", folder_, "/top; exit 5");
  EXPECT_EQ(Run({"mpi", "ps=1,worker=2", "--port", port, "--sluice",
                 SluicePath(), "--", "sh", "-c", program}),
            5)
      << Output();
  EXPECT_THAT(Output(), HasSubstr("/job:worker/replica:0/task:1"));
}

TEST_F(LaunchTest, KubernetesManifestsAreYaml) {
  if (std::system("python3 -c 'import yaml' 2>/dev/null") != 0)
    GTEST_SKIP() << "expected Python's module yaml (Debian's python3-yaml)";
  const std::string spec =
      R"json({"name": "mnist", "jobs": {"ps": 1, "worker": {"count": 2,
          "flags": ["--metrics", "0.0.0.0:9100"]}, "chief": {"count": 1,
          "command": ["python3", "train.py", "it's $(HOME) $$ $$(A)"]}},
          "flags": ["--drain-seconds", "30.5"],
          "environment": {"A": "\"x\": # $(B) $$", "NO": "1"},
          "program": ["python3", "-c", "print('a: b')"]})json";
  ASSERT_EQ(Run({"kubernetes", spec, "--image", "me/x:1", "--namespace", "lab",
                 "-o", folder_ + "/k.yaml"}),
            0)
      << Output();
  Script("check", R"check(exec python3 - "$@" << 'END'
import re, subprocess, sys, yaml, json
def expand(text):  # As Kubernetes does.
    def one(match):
        assert match[0] == "$$", f"a reference: {match[0]}"
        return "$"
    return re.sub(r"\$\$|\$\([^)]*\)", one, text)
service, *sets, job = list(yaml.safe_load_all(open(sys.argv[1])))
assert [s["kind"] for s in (service, job)] == ["Service", "Job"]
assert service["spec"]["clusterIP"] == "None"
assert [s["metadata"]["name"] for s in sets] == [
    "mnist-ps", "mnist-worker", "mnist-chief"]
assert [s["spec"]["replicas"] for s in sets] == [1, 2, 1]
for s in sets:
    spec = s["spec"]
    assert spec["serviceName"] == service["metadata"]["name"] == "mnist"
    assert s["metadata"]["namespace"] == "lab"
    labels = spec["template"]["metadata"]["labels"]
    assert spec["selector"]["matchLabels"] == labels
    assert service["spec"]["selector"].items() <= labels.items()
    pod = spec["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] == 36
    task, = pod["containers"]
    assert task["image"] == "me/x:1"
    assert [(e["name"], expand(e["value"])) for e in task["env"][1:]] == [
        ("A", '"x": # $(B) $$'), ("NO", "1")]
    probes = {"grpc": {"port": 4440}}
    if s is sets[2]:
        probes = {"tcpSocket": {"port": 4440}}
    for probe in ("readinessProbe", "livenessProbe"):
        assert probes.items() <= task[probe].items(), task[probe]
task = sets[1]["spec"]["template"]["spec"]["containers"][0]
assert task["command"] == [
    "sluice", "worker", "--cluster",
    "kubernetes?ps=1&worker=2&chief=1&service=mnist", "--drain-seconds",
    "30.5", "--plain-beyond-loopback", "--metrics", "0.0.0.0:9100"], task
assert sets[1]["spec"]["template"]["metadata"]["annotations"] == {
    "prometheus.io/scrape": "true", "prometheus.io/path": "/metrics",
    "prometheus.io/port": "9100"}
assert "annotations" not in sets[0]["spec"]["template"]["metadata"]
# A job's own command is told which task it is.
chief = sets[2]["spec"]["template"]["spec"]["containers"][0]["command"]
shell = [expand(w) for w in chief]
shell[2] = shell[2].replace("exec ", "exec printf '%s\\n' \"$TF_CONFIG\" ")
said = subprocess.run(shell, env={"HOSTNAME": "mnist-chief-3"},
                      capture_output=True, text=True, check=True).stdout
config, *words = said.splitlines()
config = json.loads(config)
assert config["task"] == {"type": "chief", "index": 3}, config
assert config["cluster"]["worker"] == [
    "mnist-worker-0.mnist:4440", "mnist-worker-1.mnist:4440"]
assert words == ["python3", "train.py", "it's $(HOME) $$ $$(A)"], words
pod = job["spec"]["template"]
program = pod["spec"]["containers"][0]
assert program["command"] == ["python3", "-c", "print('a: b')"]
assert program["env"][0] == {"name": "SLUICE_TARGET",
                             "value": "grpc://mnist-chief-0.mnist:4440"}
assert not service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
END
)check");
  ChildProcess check(folder_ + "/check", {folder_ + "/k.yaml"}, {},
                     folder_ + "/output");
  EXPECT_EQ(check.Wait(), 0) << Output();
  // Names that YAML reads as other than strings.
  ASSERT_EQ(
      Run({"kubernetes",
           R"({"name": "no", "jobs": {"on": 1}, "program": ["true"]})",
           "--image", "i", "--namespace", "null", "-o", folder_ + "/k.yaml"}),
      0)
      << Output();
  Script("strings", R"check(exec python3 - "$@" << 'END'
import sys, yaml
def names(value, key=""):
    if isinstance(value, dict):
        for k, v in value.items():
            yield from names(v, k)
    elif isinstance(value, list):
        for v in value:
            yield from names(v, key)
    elif key in ("name", "namespace", "serviceName") or "kubernetes.io" in key:
        yield value
found = list(names(list(yaml.safe_load_all(open(sys.argv[1])))))
assert all(isinstance(n, str) for n in found), found
assert {"no", "on", "null", "no-on"} <= set(found), found
END
)check");
  ChildProcess strings(folder_ + "/strings", {folder_ + "/k.yaml"}, {},
                       folder_ + "/output");
  EXPECT_EQ(strings.Wait(), 0) << Output();
}

TEST_F(LaunchTest, MistakesEndWithCode2) {
  EXPECT_EQ(Run({"hosts", "ps=x", "--hosts", "a"}), 2);
  EXPECT_EQ(Run({"hosts", "ps=1"}), 2);
  EXPECT_EQ(Run({"kubernetes", "ps=1"}), 2);
  EXPECT_EQ(Run({"hosts", "ps=3", "--hosts", "a:1"}), 2);
  EXPECT_THAT(Output(), HasSubstr("room for 3"));
  EXPECT_EQ(Run({"slurm", "ps=1", "--sbatch", "a\nb"}), 2);
}

}  // namespace
}  // namespace sluice::cli
