// Sessions may do nothing in a task beyond running steps on their own data,
// unless the task was started to allow it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "cluster/testing/cluster_test_util.h"
#include "graph/op_def.h"
#include "sluice/sluice.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Two tasks with the permissions that the test sets.
class PermissionsTest : public ::testing::Test {
 protected:
  PermissionsTest() : use_(graph_) {
    path_ = ::testing::TempDir() + "permissions" + std::to_string(getpid());
    const float values[] = {1, 2, 3};
    std::ofstream(path_, std::ios::binary)
        .write(reinterpret_cast<const char*>(values), sizeof(values));
  }
  ~PermissionsTest() override { unlink(path_.c_str()); }

  std::unique_ptr<TestCluster> Start(
      const std::function<void(ServerOptions*)>& adjust) {
    return std::make_unique<TestCluster>(
        std::vector<std::pair<std::string, int>>{{"ps", 1}, {"worker", 1}},
        [](TransportOptions o) {
          return std::make_unique<LocalTransport>(std::move(o));
        },
        [adjust](ServerOptions* o) {
          o->allow_host_access = false;
          o->allow_reset = false;
          adjust(o);
        });
  }
  // On the ps.
  Output FileConst(const std::string& name) {
    DeviceScope on("/job:ps/task:0");
    return {BuildNode("ImmutableConst", {},
                      {{"dtype", DType::kFloat},
                       {"shape", PartialShape({3})},
                       {"memory_region_name", path_}},
                      name, SourceLoc{__FILE__, __LINE__}),
            0};
  }

  std::string path_;
  Graph graph_;
  WithGraph use_;
};

TEST_F(PermissionsTest, PeerMayNotReadTaskFiles) {
  auto cluster = Start([](ServerOptions*) {});
  Output file = FileConst("secret");
  Session session(cluster->target("worker", 0), graph_);
  // (Neither there nor, for constant folding, where steps are compiled.)
  for (Output fetch : {file, file * 2.0f}) {
    const Status s = session.Run(fetch).status();
    EXPECT_EQ(s.code(), StatusCode::kPermissionDenied) << s;
    EXPECT_THAT(
        std::string(s.message()),
        AllOf(HasSubstr("/job:ps/replica:0/task:0"), HasSubstr("reads a file"),
              HasSubstr("--allow-host-access"), HasSubstr("'secret'"),
              HasSubstr("ImmutableConst"), HasSubstr("permissions_test.cc:")));
  }
}

TEST_F(PermissionsTest, PeerMayReadFilesWithHostAccess) {
  // (The master need not allow it.)
  auto cluster =
      Start([](ServerOptions* o) { o->allow_host_access = o->job == "ps"; });
  Session session(cluster->target("worker", 0), graph_);
  const auto got = session.Run(FileConst("file") * 2.0f);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->ToString(), "float[3] 2 4 6");
}

TEST_F(PermissionsTest, FileReadDuringPlacementIsRefused) {
  auto cluster = Start([](ServerOptions*) {});
  Session session(cluster->target("worker", 0), graph_);
  Node* const sample = BuildNode("FixedUnigramCandidateSampler",
                                 {Constant(Tensor::Of<int64_t>({1, 1}, {0}))},
                                 {{"num_true", 1},
                                  {"num_sampled", 1},
                                  {"unique", true},
                                  {"range_max", 3},
                                  {"vocab_file", path_}},
                                 "sample");
  const Status s = session.Run(Output{sample, 0}).status();
  EXPECT_EQ(s.code(), StatusCode::kPermissionDenied) << s;
  EXPECT_THAT(std::string(s.message()), HasSubstr("'sample'"));
}

TEST_F(PermissionsTest, PeerMayNotWriteFilesOrCallPythonFunctions) {
  auto cluster = Start([](ServerOptions*) {});
  Session session(cluster->target("worker", 0), graph_);
  Node* const print =
      BuildNode("PrintV2", {Constant(Tensor::Scalar<std::string>("x"))},
                {{"output_stream", "file://" + path_}});
  std::vector<Node*> nodes = {print};
  for (const char* op : {"PyFunc", "PyFuncStateless", "EagerPyFunc"})
    nodes.push_back(BuildNode(op, {},
                              {{"token", "f"},
                               {"Tin", AttrValue::Types{}},
                               {"Tout", AttrValue::Types{DType::kFloat}}}));
  for (Node* n : nodes) {
    const Status s = session.RunTargets({n});
    EXPECT_EQ(s.code(), StatusCode::kPermissionDenied) << s;
  }
  // Printing in other tasks remains allowed.
  EXPECT_TRUE(session
                  .RunTargets({BuildNode(
                      "PrintV2", {Constant(Tensor::Scalar<std::string>("x"))},
                      {{"output_stream", "stdout"}})})
                  .ok());
}

TEST_F(PermissionsTest, LocalSessionMayReadFiles) {
  Session session(graph_);
  Output file{BuildNode("ImmutableConst", {},
                        {{"dtype", DType::kFloat},
                         {"shape", PartialShape({3})},
                         {"memory_region_name", path_}}),
              0};
  EXPECT_EQ(session.Run(file)->ToString(), "float[3] 1 2 3");
}

TEST_F(PermissionsTest, OpsThatTakeFilesOrFunctionsDeclareHostReach) {
  // (Whether other ops access the host is for their authors to declare.)
  for (const OpDef* op : OpRegistry::Global()->All()) {
    for (const AttrDef& attr : op->attrs) {
      const bool names_one = attr.name.find("file") != std::string::npos ||
                             attr.name == "memory_region_name" ||
                             attr.name == "token";
      if (attr.kind == AttrKind::kString && !attr.is_list && names_one) {
        EXPECT_NE(op->host_reach, nullptr) << op->name << " " << attr.name;
      }
    }
  }
}

TEST_F(PermissionsTest, ClientMayNotResetSharedContainers) {
  auto cluster = Start([](ServerOptions*) {});
  DeviceScope on("/job:ps/task:0");
  Var v(Constant(1.0f), "v");
  Session session(cluster->target("worker", 0), graph_);
  ASSERT_TRUE(session.RunTargets({v.initializer()}).ok());
  Session other(cluster->target("worker", 0), graph_);
  for (const std::vector<std::string>& containers :
       {std::vector<std::string>{}, {""}, {"localhost"}, {"mine", ""}}) {
    const Status s = other.Reset(containers);
    EXPECT_EQ(s.code(), StatusCode::kPermissionDenied) << s;
    EXPECT_THAT(std::string(s.message()), HasSubstr("--allow-reset"));
  }
  EXPECT_TRUE(session.Run(v.value()).ok());
}

TEST_F(PermissionsTest, ClientMayResetNamedContainers) {
  auto cluster = Start([](ServerOptions*) {});
  const auto variable = [](const std::string& container) {
    return BuildNode("VarHandleOp", {},
                     {{"container", container},
                      {"shared_name", "v"},
                      {"dtype", DType::kFloat},
                      {"shape", PartialShape({})}});
  };
  Node* const mine = variable("mine");
  Node* const shared = variable("");
  const auto set = [](Node* v) {
    return BuildNode("AssignVariableOp", {{v, 0}, Constant(1.0f)},
                     {{"dtype", DType::kFloat}});
  };
  const auto get = [](Node* v) {
    return Output{
        BuildNode("ReadVariableOp", {{v, 0}}, {{"dtype", DType::kFloat}}), 0};
  };
  Session session(cluster->target("worker", 0), graph_);
  ASSERT_TRUE(session.RunTargets({set(mine), set(shared)}).ok());
  ASSERT_TRUE(session.Reset({"mine"}).ok());
  EXPECT_FALSE(session.Run(get(mine)).ok());
  EXPECT_TRUE(session.Run(get(shared)).ok());
}

TEST_F(PermissionsTest, IsolatedSessionMayResetItsState) {
  auto cluster = Start([](ServerOptions*) {});
  Var v(Constant(1.0f), "v");
  SessionOptions options;
  options.isolated = true;
  Session session(cluster->target("worker", 0), graph_, options);
  ASSERT_TRUE(session.RunTargets({v.initializer()}).ok());
  ASSERT_TRUE(session.Reset().ok());
  EXPECT_FALSE(session.Run(v.value()).ok());
}

}  // namespace
}  // namespace sluice
