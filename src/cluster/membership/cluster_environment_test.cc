// Clusters from recorded environments of schedulers, each with its expected
// result (tests/environments).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "absl/strings/str_split.h"
#include "cluster/membership/cluster_resolver.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

struct Recorded {
  std::map<std::string, std::string> environment;
  std::string source, self, tasks, bind, error;
  std::vector<std::string> task;
};

Recorded ReadRecorded(const std::filesystem::path& path) {
  Recorded r;
  std::ifstream file(path);
  std::map<std::string, std::string*> said = {{"source", &r.source},
                                              {"self", &r.self},
                                              {"tasks", &r.tasks},
                                              {"bind", &r.bind},
                                              {"error", &r.error}};
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("#! ", 0) == 0) {
      const size_t space = line.find(' ', 3);
      const std::string what = line.substr(3, space - 3);
      const std::string value = line.substr(space + 1);
      if (what == "task")
        r.task.push_back(value);
      else if (said.contains(what))
        *said[what] = value;
      else
        ADD_FAILURE() << path << ": " << line;
    } else if (const size_t equals = line.find('=');
               equals != std::string::npos) {
      r.environment[line.substr(0, equals)] = line.substr(equals + 1);
    }
  }
  return r;
}

std::string Shown(const ClusterTask& t) { return t.name() + " " + t.address; }

TEST(ClusterEnvironments, ResolveToRecordedClusters) {
  int files = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator("tests/environments")) {
    if (entry.path().extension() != ".env") continue;
    SCOPED_TRACE(entry.path());
    ++files;
    const Recorded r = ReadRecorded(entry.path());
    ResolverOptions options;
    options.environment =
        [&r](const std::string& name) -> std::optional<std::string> {
      const auto it = r.environment.find(name);
      if (it == r.environment.end()) return std::nullopt;
      return it->second;
    };
    const auto resolver = MakeClusterResolver(r.source, options);
    if (!r.error.empty()) {
      EXPECT_FALSE(resolver.ok());
      EXPECT_THAT(std::string(resolver.status().message()), HasSubstr(r.error));
      continue;
    }
    ASSERT_TRUE(resolver.ok()) << resolver.status();
    const auto self = (*resolver)->Self();
    ASSERT_TRUE(self.ok()) << self.status();
    EXPECT_EQ(Shown(*self), r.self);
    const auto cluster = (*resolver)->Cluster();
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    EXPECT_EQ(std::to_string(cluster->tasks().size()), r.tasks);
    std::vector<std::string> all;
    for (const ClusterTask& t : cluster->tasks()) all.push_back(Shown(t));
    for (const std::string& t : r.task) EXPECT_THAT(all, testing::Contains(t));
    EXPECT_THAT(all, testing::Contains(r.self));
    EXPECT_EQ((*resolver)->Bind(), r.bind);
  }
  EXPECT_GE(files, 25);
}

TEST(ClusterSource, ParsesAllForms) {
  struct Case {
    const char* text;
    const char* scheme;
    const char* rest;
    size_t jobs;
  };
  for (const Case& c :
       {Case{"cluster.json", "file", "cluster.json", 0},
        Case{"file:///etc/c.json", "file", "/etc/c.json", 0},
        Case{R"({"ps": ["h:1"]})", "json", R"({"ps": ["h:1"]})", 0},
        Case{"slurm", "slurm", "", 0}, Case{"slurm://", "slurm", "", 0},
        Case{"slurm?ps=1&worker=2&port=9", "slurm", "", 2},
        Case{"mpi://?hosts=a:1,b:2", "mpi", "", 0},
        Case{"kubernetes?worker=3", "kubernetes", "", 1},
        Case{"etcd://h:1,g:2/n?ps=1&lease=3", "etcd", "h:1,g:2/n", 1}}) {
    const auto s = ClusterSource::Parse(c.text);
    ASSERT_TRUE(s.ok()) << c.text << s.status();
    EXPECT_EQ(s->scheme, c.scheme) << c.text;
    EXPECT_EQ(s->rest, c.rest) << c.text;
    EXPECT_EQ(s->Jobs()->size(), c.jobs) << c.text;
  }
  for (const auto& [text, what] : {std::pair("", "a file"),
                                   {"file://", "a file"},
                                   {"zoo://h:1/n", "etcd"},
                                   {"etcd://", "etcd://host:port/name"},
                                   {"slurm://host", "alone"},
                                   {"slurm?worker=0", "JOB=COUNT"},
                                   {"slurm?worker", "JOB=COUNT"},
                                   {"mpi?worker=1&worker=2", "once"},
                                   {"slurm?lease=2s", "JOB=COUNT"}}) {
    const auto s = ClusterSource::Parse(text);
    ASSERT_FALSE(s.ok()) << text;
    EXPECT_THAT(std::string(s.status().message()), HasSubstr(what)) << text;
  }
  for (const char* text :
       {"etcd://h/n", "etcd://h:1", "etcd://h:1/", "etcd:///n",
        "etcd://h:1/a/b", "etcd://h:1/n?lease=x"})
    EXPECT_FALSE(MakeClusterResolver(text).ok()) << text;
}

TEST(ClusterFiles, GiveOwnTaskAndMaster) {
  const std::string path = ::testing::TempDir() + "resolver_cluster" +
                           std::to_string(getpid()) + ".json";
  std::ofstream(path)
      << R"({"ps": ["a:1"], "worker": {"3": "c:1", "1": "b:1"}})";
  ResolverOptions options;
  options.job = "worker";
  options.task = 3;
  auto r = MakeClusterResolver(path, options);
  ASSERT_TRUE(r.ok()) << r.status();
  EXPECT_EQ((*r)->Self()->address, "c:1");
  EXPECT_EQ(*(*r)->Master(), "grpc://b:1");
  options.task = 2;
  EXPECT_THAT(
      std::string(MakeClusterResolver(path, options).status().message()),
      HasSubstr("/job:worker/replica:0/task:1"));
  const auto client = MakeClusterResolver("file://" + path);
  ASSERT_TRUE(client.ok()) << client.status();
  EXPECT_EQ((*client)->Self().status().code(), StatusCode::kFailedPrecondition);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace sluice
