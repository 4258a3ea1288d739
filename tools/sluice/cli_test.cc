#include "tools/sluice/cli.h"

#include <unistd.h>

#include <filesystem>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "io/file.h"
#include "io/npy.h"
#include "sluice/sluice.h"
#include "tools/sluice/replay_case.h"

namespace sluice::cli {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

struct Outcome {
  int code;
  std::string out, err;
};

Outcome Sluice(std::vector<std::string> args) {
  args.insert(args.begin(), "sluice");
  std::vector<char*> argv;
  for (std::string& a : args) argv.push_back(a.data());
  argv.push_back(nullptr);
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  const int code = Main(static_cast<int>(args.size()), argv.data());
  std::fflush(stdout);
  std::string out = ::testing::internal::GetCapturedStdout();
  return {code, out, ::testing::internal::GetCapturedStderr()};
}

// Each test has its own folder.
class Command : public ::testing::Test {
 protected:
  Command() { std::filesystem::create_directories(dir_); }
  ~Command() override {
    std::error_code ignored;
    std::filesystem::remove_all(dir_, ignored);
  }
  std::string Write(const std::string& name, const std::string& bytes) {
    const std::string path = dir_ + "/" + name;
    EXPECT_TRUE(WriteFile(path, bytes).ok());
    return path;
  }
  void ExpectMistake(const std::vector<std::string>& args,
                     const std::string& part) {
    const Outcome o = Sluice(args);
    EXPECT_EQ(o.code, 2) << o.err;
    EXPECT_EQ(o.out, "");
    EXPECT_THAT(o.err, StartsWith("sluice: "));
    EXPECT_THAT(o.err, HasSubstr(part));
    EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), 1) << o.err;
  }
  const std::string dir_ =
      ::testing::TempDir() + "sluice_cli_" + std::to_string(getpid()) + "_" +
      ::testing::UnitTest::GetInstance()->current_test_info()->name();
};

// y = -x for a vector of floats.
constexpr char kNegate[] = R"(
node { name: "x" op: "Placeholder"
       attr { key: "dtype" value { type: DT_FLOAT } } }
node { name: "scope/y" op: "Neg" input: "x"
       attr { key: "T" value { type: DT_FLOAT } } })";

// while (i < n) i = cond(i < 3, i + 1, i + 2), as a text GraphDef.
constexpr char kLoop[] = R"(
node { name: "zero" op: "Const" attr { key: "dtype" value { type: DT_INT32 } }
       attr { key: "value" value { tensor { dtype: DT_INT32 tensor_shape {}
                                            int_val: 0 } } } }
node { name: "n" op: "Placeholder"
       attr { key: "dtype" value { type: DT_INT32 } }
       attr { key: "shape" value { shape {} } } }
node { name: "enter" op: "Enter" input: "zero"
       attr { key: "T" value { type: DT_INT32 } }
       attr { key: "frame_name" value { s: "count" } } }
node { name: "limit" op: "Enter" input: "n"
       attr { key: "T" value { type: DT_INT32 } }
       attr { key: "frame_name" value { s: "count" } }
       attr { key: "is_constant" value { b: true } } }
node { name: "i" op: "Merge" input: "enter" input: "next"
       attr { key: "T" value { type: DT_INT32 } } attr { key: "N" value { i: 2 } } }
node { name: "less" op: "Less" input: "i" input: "limit"
       attr { key: "T" value { type: DT_INT32 } } }
node { name: "go" op: "LoopCond" input: "less" }
node { name: "switch" op: "Switch" input: "i" input: "go"
       attr { key: "T" value { type: DT_INT32 } } }
node { name: "small" op: "Less" input: "switch:1" input: "limit"
       attr { key: "T" value { type: DT_INT32 } } }
node { name: "branch" op: "Switch" input: "switch:1" input: "small"
       attr { key: "T" value { type: DT_INT32 } } }
node { name: "twice" op: "AddV2" input: "branch:1" input: "branch:1"
       attr { key: "T" value { type: DT_INT32 } } }
node { name: "square" op: "Mul" input: "branch" input: "branch"
       attr { key: "T" value { type: DT_INT32 } } }
node { name: "merge" op: "Merge" input: "square" input: "twice"
       attr { key: "T" value { type: DT_INT32 } } attr { key: "N" value { i: 2 } } }
node { name: "next" op: "NextIteration" input: "merge"
       attr { key: "T" value { type: DT_INT32 } } }
node { name: "exit" op: "Exit" input: "switch"
       attr { key: "T" value { type: DT_INT32 } } })";

TEST_F(Command, ShowPrintsLoopsAndBranchesAsNestedBoxes) {
  const Outcome o = Sluice({"show", Write("g.pbtxt", kLoop)});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.out, HasSubstr("n = Placeholder()  int32[]\n"));
  EXPECT_THAT(o.out, HasSubstr("\n┌ while count"));
  EXPECT_THAT(o.out, HasSubstr("\n│ ┌ if small:0"));
  EXPECT_THAT(o.out, HasSubstr("\n│ │ twice = AddV2(branch:1, branch:1)"));
  EXPECT_THAT(o.out, HasSubstr("\n│ ┌ if not small:0"));
  EXPECT_THAT(o.out, HasSubstr("\n│ │ square = Mul(branch, branch)"));
  EXPECT_THAT(o.out, HasSubstr("\n│ merge = Merge(square, twice)"));
}

TEST_F(Command, ShowPrintsShapesOfLoopVariables) {
  const Outcome o = Sluice({"show", Write("g.pbtxt", kLoop)});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.out, HasSubstr("┌ while count   (parallel_iterations 10)  "
                               "enter int32[]\n"));
  EXPECT_THAT(o.out, HasSubstr("│ i = Merge(enter, next)  int32[], int32[]\n"));
  EXPECT_THAT(o.out, HasSubstr("│ exit = Exit(switch)  int32[]\n"));
  EXPECT_THAT(o.out, Not(HasSubstr("<unknown>")));
}

TEST_F(Command, ShowDrawsClustersForGraphviz) {
  const Outcome o =
      Sluice({"show", Write("g.pbtxt", kLoop), "--format", "dot"});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.out, StartsWith("digraph sluice {"));
  EXPECT_THAT(o.out, HasSubstr("subgraph cluster_2"));
  ExpectMistake({"show", Write("h.pbtxt", kLoop), "--format", "png"},
                "--format");
}

TEST_F(Command, ShowChoosesFormatByFileName) {
  const std::string graph = Write("g.pbtxt", kLoop);
  const std::string dot = dir_ + "/g.dot", text = dir_ + "/text.dot";
  EXPECT_EQ(Sluice({"show", graph, "-o", dot}).code, 0);
  EXPECT_THAT(ReadFile(dot).value_or(""), StartsWith("digraph sluice {"));
  EXPECT_EQ(Sluice({"show", graph, "-o", text, "--format", "text"}).code, 0);
  EXPECT_THAT(ReadFile(text).value_or(""), HasSubstr("\n┌ while count"));
}

TEST_F(Command, RunPrintsFetches) {
  const std::string graph = Write("g.pbtxt", kNegate);
  ASSERT_TRUE(WriteNpy(dir_ + "/x.npy", Tensor::Vector<float>({1, -2})).ok());
  const Outcome o = Sluice(
      {"run", graph, "--feed", "x=" + dir_ + "/x.npy", "--fetch", "scope/y:0"});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(o.out, "scope/y:0: float[2] -1 2\n");
}

TEST_F(Command, RunWritesFilesAndATrace) {
  const std::string graph = Write("g.pbtxt", kNegate);
  ASSERT_TRUE(WriteNpy(dir_ + "/x.npy", Tensor::Vector<float>({3})).ok());
  const Outcome o =
      Sluice({"run", graph, "--feed", "x=" + dir_ + "/x.npy", "--fetch",
              "scope/y", "--out", dir_, "--trace", dir_ + "/trace.json"});
  EXPECT_EQ(o.code, 0) << o.err;
  const Result<Tensor> y = ReadNpy(dir_ + "/scope_y.npy");
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_TRUE(y->Identical(Tensor::Vector<float>({-3})));
  const Result<std::string> trace = ReadFile(dir_ + "/trace.json");
  ASSERT_TRUE(trace.ok());
  EXPECT_THAT(*trace, HasSubstr("scope/y"));
}

TEST_F(Command, RunAcceptsLiteralFeedValues) {
  const std::string graph = Write("g.pbtxt", kNegate);
  const Outcome o = Sluice(
      {"run", graph, "--feed", "x=[[1, 2], [inf, 4]]", "--fetch", "scope/y"});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(o.out, "scope/y: float[2,2] -1 -2 -inf -4\n");
}

TEST_F(Command, RunPlacesNodesOnLocalDevices) {
  std::string text = kNegate;
  const std::string there = "name: \"scope/y\" device: \"/device:";
  const auto on = [&](const std::string& device) {
    std::string t = text;
    t.replace(t.find("name: \"scope/y\""), 15, there + device + "\"");
    return Write("d.pbtxt", t);
  };
  const auto run = [&](const std::string& graph,
                       std::vector<std::string> more = {}) {
    std::vector<std::string> args = {"run",     graph,     "--feed",
                                     "x=[1,2]", "--fetch", "scope/y"};
    args.insert(args.end(), more.begin(), more.end());
    return Sluice(args);
  };
  const std::string second = on("CPU:1");
  EXPECT_EQ(run(second).code, 1);
  for (const char* devices : {"2", "cpu=2", "cpu=3,emu=1"})
    EXPECT_EQ(run(second, {"--devices", devices}).out,
              "scope/y: float[2] -1 -2\n");
  const std::string emulated = on("EMU:0");
  EXPECT_EQ(run(emulated, {"--devices", "2"}).code, 1);
  EXPECT_EQ(run(emulated, {"--devices", "emu=1(kernel_us=1)"}).out,
            "scope/y: float[2] -1 -2\n");
}

TEST_F(Command, UsageErrorsPrintOneLineAndExitWithTwo) {
  const std::string graph = Write("g.pbtxt", kNegate);
  ExpectMistake({}, "subcommand is required");
  ExpectMistake({"rnu"}, "did you mean 'run'?");
  ExpectMistake({"run"}, "GRAPH is required");
  ExpectMistake({"run", "no/such/graph.pb"}, "no/such/graph.pb");
  ExpectMistake({"run", graph}, "--fetch or --target");
  ExpectMistake({"run", graph, "--fetch", "scope/z"}, "nearest: scope/y");
  ExpectMistake({"run", graph, "--fetch", "x", "--feed", "x"}, "NAME=VALUE");
  ExpectMistake({"run", graph, "--fetch", "x", "--feed", "x=none.npy"},
                "none.npy");
  ExpectMistake({"run", graph, "--what"}, "--what");
  ExpectMistake({"run", dir_, "--fetch", "x"}, "', a folder");
  ExpectMistake({"show", dir_}, "expected a file with a GraphDef");
  ExpectMistake({"quantize", dir_, "--feed", "x=1", "--fetch", "y", "--out",
                 dir_ + "/q.pb"},
                "expected a file with a GraphDef");
  ExpectMistake({"run", graph, "--fetch", "x", "--feed", "x=[1,[2]]"},
                "--feed x:0 (float): expected");
  ExpectMistake(
      {"run", graph, "--fetch", "x", "--feed", "x=[1]", "--feed", "x:0=[1]"},
      "expected one value for 'x:0'");
  for (const char* devices : {"", "0", "x", "cpu=0", "gpu=1", "cpu=1,cpu=2",
                              "emu=1(memory=x)", "cpu=1,"})
    ExpectMistake({"run", graph, "--fetch", "x", "--devices", devices},
                  "--devices");
  for (const char* range : {"", "0", "0,x", "0,nan", "0,1,2"})
    ExpectMistake({"run", graph, "--fetch", "x", "--image-range", range},
                  "--image-range");
  ExpectMistake({"replay", graph}, "g.pbtxt', a file");
  ExpectMistake({"replay", dir_ + "/none"}, "does not exist");
  ExpectMistake({"top"}, "TARGET is required");
  ExpectMistake({"top", "grpc://localhost:1", "--interval", "0"}, "--interval");
  ExpectMistake({"top", "grpc://localhost:1", "--interval", "nan"},
                "--interval");
  ExpectMistake({"top", "grpc://localhost"}, "grpc://host:port");
  ExpectMistake({"top", "no/such/cluster.json"}, "no/such/cluster.json");
  for (const char* devices : {"bogus=2", "cpu=0", "cpu=1,cpu=2", ""})
    ExpectMistake({"show", graph, "--devices", devices}, "--devices");
  ExpectMistake({"show", graph, "-o", dir_ + "/g.png"},
                "--out: expected a name that ends in .svg");
  ExpectMistake({"run", graph, "--feed", "y=1", "--fetch", "x"},
                "--feed: expected a node of the graph, got 'y'");
  ExpectMistake({"run", graph, "--fetch", "y"}, "--fetch: expected a node");
  ExpectMistake({"run", graph, "--target", "y"}, "--target: expected a node");
  ExpectMistake({"run", graph, "--target", "x", "--init", "y"},
                "--init: expected a node");
  ExpectMistake({"show", graph, "--cluster", "no/such/cluster.json"},
                "no/such/cluster.json");
  ExpectMistake({"run", graph, "--fetch", "x", "--seed", "-1"}, "--seed");
  ExpectMistake({"run", graph, "--fetch", "x", "--timeout-ms", "-1"},
                "--timeout-ms");
  ExpectMistake({"replay", dir_, "--seed", "-1"}, "--seed");
  ExpectMistake({"demo-cluster", "--worker", "localhost:1"},
                "grpc://host:port");
  for (const char* option : {"--ps", "--steps"})
    ExpectMistake({"demo-cluster", "--worker", "grpc://h:1", option, "-1"},
                  option);
  ExpectMistake({"ops", "MatMull"}, "nearest: MatMul");
  ExpectMistake({"ops", "no such thing at all"}, "no such thing at all");
  ExpectMistake({"replay", dir_}, "expected a case");
  ExpectMistake({"bench", "--list", "--filter", "("}, "regular expression");
}

TEST_F(Command, TaskOptionsAreCheckedBeforeStart) {
  const std::string cluster =
      Write("cluster.json", R"({"ps": ["127.0.0.1:4440"]})");
  const auto mistake = [&](std::vector<std::string> options,
                           const std::string& part) {
    options.insert(options.begin(), {"worker", "--cluster", cluster});
    ExpectMistake(options, part);
  };
  mistake({}, "expected a job");
  mistake({"--task", "1"}, "--task: expected a --job with it");
  mistake({"--job", "sp"}, "/job:sp");
  mistake({"--job", "ps", "--task", "-1"}, "--task");
  mistake({"--job", "ps", "--task", "1"}, "task:1");
  for (const char* address : {"127.0.0.1", "127.0.0.1:", "127.0.0.1:99999",
                              "127.0.0.1:-5", "127.0.0.1:x", ":1"})
    mistake({"--job", "ps", "--bind", address}, "--bind: expected host:port");
  mistake({"--job", "ps", "--address", "h:1"}, "--address: expected with etcd");
  for (const char* devices :
       {"bogus=1", "cpu=0", "cpu=2=3", "emu=1(memory=-1)"})
    mistake({"--job", "ps", "--devices", devices}, "expected");
  for (const char* devices : {"cpu=2,cpu=3", "emu=1,emu=2(kernel_us=1)"})
    mistake({"--job", "ps", "--devices", devices}, "each type once");
  mistake({"--job", "ps", "--transport", "bogus"}, "'grpc' or 'ucx'");
  mistake({"--job", "ps", "--tls-key", "key.pem"}, "got only some");
  for (const char* option : {"--peer-timeout-ms", "--max-message-mb"})
    for (const char* value : {"0", "-1", "x"})
      mistake({"--job", "ps", option, value}, option);
  for (const char* address : {"h", "h:0"})
    ExpectMistake({"worker", "--cluster", "etcd://h:1/c?ps=1", "--job", "ps",
                   "--bind", "h:0", "--address", address},
                  "--address: expected host:port");
}

TEST_F(Command, RuntimeErrorsExitWithOne) {
  const std::string graph = Write("g.pb", "these bytes are no graph");
  const Outcome bad = Sluice({"run", graph, "--fetch", "x"});
  EXPECT_EQ(bad.code, 1);
  EXPECT_THAT(bad.err, HasSubstr("expected a GraphDef, binary or text"));
  // (That comes before what is missing on the command line.)
  const Outcome page =
      Sluice({"run", Write("README.md", "# Some page\n\nSome text.\n")});
  EXPECT_EQ(page.code, 1);
  EXPECT_THAT(page.err, HasSubstr("expected a GraphDef, binary or text"));
  const Outcome unfed =
      Sluice({"run", Write("g.pbtxt", kNegate), "--fetch", "scope/y"});
  EXPECT_EQ(unfed.code, 1);
  EXPECT_THAT(unfed.err, HasSubstr("'x'"));
}

TEST_F(Command, OpsListsAndDescribesOps) {
  const Outcome names = Sluice({"ops", "--names"});
  EXPECT_EQ(names.code, 0);
  EXPECT_THAT(names.out, HasSubstr("\nNeg\n"));
  const Outcome one = Sluice({"ops", "Neg"});
  EXPECT_EQ(one.code, 0);
  EXPECT_THAT(one.out, HasSubstr("input     x: T"));
  EXPECT_THAT(one.out, HasSubstr("gradient  yes"));
  EXPECT_THAT(Sluice({"ops", "Lu"}).out, HasSubstr("gradient  none"));
  const Outcome all = Sluice({"ops"});
  EXPECT_EQ(all.code, 0);
  EXPECT_THAT(all.out, EndsWith(" ops\n"));
}

TEST_F(Command, OpsSearchesNamesAndDescriptions) {
  const Outcome adam = Sluice({"ops", "adam"});
  EXPECT_EQ(adam.code, 0) << adam.err;
  EXPECT_THAT(adam.out, StartsWith("ApplyAdaMax "));
  EXPECT_THAT(adam.out, HasSubstr("\nApplyAdam "));
  EXPECT_THAT(adam.out, HasSubstr("\nResourceApplyAdam "));
  EXPECT_THAT(adam.out, Not(HasSubstr("\nMatMul ")));
  EXPECT_THAT(adam.out, EndsWith(" ops with 'adam' in name or description\n"));
  // Matches in descriptions follow matches in names.
  const Outcome described = Sluice({"ops", "USE_NESTEROV"});
  EXPECT_EQ(described.code, 0) << described.err;
  EXPECT_THAT(described.out, HasSubstr("ApplyAdam "));
  // All words, in any order, in the name or the description.
  for (const char* words :
       {"softmax cross", "cross  SOFTMAX", "labels softmax"}) {
    const Outcome cross = Sluice({"ops", words});
    EXPECT_EQ(cross.code, 0) << cross.err;
    EXPECT_THAT(cross.out, HasSubstr("SoftmaxCrossEntropyWithLogits"));
    EXPECT_THAT(cross.out, Not(HasSubstr("\nLogSoftmax ")));
  }
  // A single match is described in full.
  const Outcome one = Sluice({"ops", "applyadamax"});
  EXPECT_THAT(one.out, HasSubstr("ApplyAdaMax"));
  EXPECT_THAT(Sluice({"ops", "Neg"}).out, StartsWith("Neg: "));
}

TEST_F(Command, HelpAndVersionSucceed) {
  for (const char* sub : {"run", "ops", "replay", "bench"}) {
    const Outcome o = Sluice({sub, "--help"});
    EXPECT_EQ(o.code, 0);
    EXPECT_THAT(o.out, HasSubstr("Usage"));
  }
  EXPECT_THAT(Sluice({"--version"}).out, StartsWith("sluice 0."));
}

// A case that runs kNegate on [1, 2] and expects `want`.
std::string MakeCase(const std::string& dir, const std::vector<float>& want,
                     const std::string& error = "") {
  std::filesystem::create_directories(dir);
  const std::string desc =
      R"({"key": "a", "dtype": "float32", "shape": [2], "rtol": 1e-3,
          "atol": 0})";
  EXPECT_TRUE(
      WriteFile(dir + "/meta.json",
                R"({"name": "c", "steps": [{"run": ["scope/y:0"],
        "feeds": {"x:0": )" +
                    desc + "}, \"expect\": [" + desc + "]" +
                    (error.empty() ? "" : ", \"error\": \"" + error + "\"") +
                    "}]}")
          .ok());
  EXPECT_TRUE(
      WriteNpz(dir + "/feeds.npz", {{"a", Tensor::Vector<float>({1, 2})}})
          .ok());
  EXPECT_TRUE(
      WriteNpz(dir + "/expected.npz", {{"a", Tensor::Vector<float>(want)}})
          .ok());
  const Result<std::string> graph =
      WriteFile(dir + "/graph.pbtxt", kNegate).ok()
          ? ReadGraphDefFile(dir + "/graph.pbtxt")
          : Result<std::string>(Internal(""));
  EXPECT_TRUE(graph.ok() && WriteFile(dir + "/graph.pb", *graph).ok());
  return dir;
}

TEST_F(Command, ReplayDistinguishesMatchesFromDifferences) {
  MakeCase(dir_ + "/good", {-1, -2.001f});
  MakeCase(dir_ + "/off", {-1, -2.5f});
  MakeCase(dir_ + "/quiet", {-1, -2}, "InvalidArgumentError");
  const Outcome o = Sluice({"replay", dir_, "--jobs", "2", "--seed", "3"});
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.out, HasSubstr("pass  good"));
  EXPECT_THAT(o.out, HasSubstr("FAIL  off: step 0: scope/y:0: differs by up to "
                               "0.5, 200 times the tolerance"));
  EXPECT_THAT(o.out,
              HasSubstr("FAIL  quiet: step 0: want InvalidArgumentError, got "
                        "no error"));
  EXPECT_THAT(o.out, EndsWith("1 of 3 cases pass\n"));
  EXPECT_EQ(Sluice({"replay", dir_, "--filter", "^good$"}).code, 0);
}

TEST_F(Command, ReplayFailsDamagedCases) {
  const std::string dir = MakeCase(dir_ + "/c", {-1, -2});
  for (const char* meta :
       {"", "{", "[]", R"({"steps": [{}]})", R"({"steps": [{"run": 3}]})",
        R"({"steps": [{"run": ["x:0"], "feeds": {}, "expect": []}]})",
        R"({"steps": [], "writes_checkpoint": {"tmp": "m", "after_step": 0,
            "equals_fetches_of_step": 1, "names": []}})",
        R"({"steps": [], "saved_model": {"dir": "m"}})",
        R"({"steps": [], "saved_model": {"dir": "m", "tags": [],
            "signature": "s", "inputs": {}, "outputs": {},
            "expected_like_step": 0}})"}) {
    ASSERT_TRUE(WriteFile(dir + "/meta.json", meta).ok());
    const Outcome o = Sluice({"replay", dir});
    EXPECT_EQ(o.code, 1) << meta;
    EXPECT_THAT(o.out, HasSubstr("meta.json")) << meta;
  }
}

// What compares nothing would pass, whatever is computed.
TEST_F(Command, ReplayRefusesChecksThatCompareNothing) {
  const std::string dir = MakeCase(dir_ + "/c", {-1, -2});
  const std::string result =
      R"({"key": "a", "dtype": "float32", "shape": [2]})";
  const std::string checkpoint = R"("writes_checkpoint": {"tmp": "m",
      "after_step": 0, "equals_fetches_of_step": 0, "names": ["n"]})";
  const auto model = [](const std::string& outputs) {
    return R"("saved_model": {"dir": "m", "tags": [], "signature": "s",
        "inputs": {}, "expected_like_step": 0, "outputs": {)" +
           outputs + "}}";
  };
  const struct {
    std::string expect, check, error;
  } cases[] = {
      {"[null]", checkpoint, "writes_checkpoint: expected a step with results"},
      {"[" + result + R"(], "error": "NotFoundError")", checkpoint,
       "writes_checkpoint: expected a step with results"},
      {"[" + result + "]", model(""), "saved_model: expected outputs of which"},
      {"[" + result + "]", model(R"("y": "other:0")"), "saved_model: expected"},
      {"[null]", model(R"("y": "scope/y:0")"), "saved_model: expected outputs"},
      {"[" + result + R"(], "error": "NotFoundError")",
       model(R"("y": "scope/y:0")"), "saved_model: expected outputs of which"},
  };
  for (const auto& c : cases) {
    ASSERT_TRUE(WriteFile(dir + "/meta.json",
                          R"({"steps": [{"run": ["scope/y:0"], "feeds": {},
                              "expect": )" +
                              c.expect + "}], " + c.check + "}")
                    .ok());
    const Outcome o = Sluice({"replay", dir});
    EXPECT_EQ(o.code, 1) << c.check;
    EXPECT_THAT(o.out, HasSubstr("FAIL  c: ")) << c.check;
    EXPECT_THAT(o.out, HasSubstr("meta.json: " + c.error)) << c.check;
  }
}

// A case that saves the tensor `saves` and expects [1, -2] in the
// checkpoint, as `name`.
void MakeSavingCase(const std::string& dir, const std::string& saves,
                    const std::string& name) {
  const std::string graph = std::string(R"(
node { name: "w" op: "Const" attr { key: "dtype" value { type: DT_FLOAT } }
       attr { key: "value" value { tensor { dtype: DT_FLOAT
         tensor_shape { dim { size: 2 } } float_val: 1 float_val: -2 } } } }
node { name: "y" op: "Neg" input: "w"
       attr { key: "T" value { type: DT_FLOAT } } }
node { name: "prefix" op: "Placeholder"
       attr { key: "dtype" value { type: DT_STRING } } }
node { name: "names" op: "Const" attr { key: "dtype" value { type: DT_STRING } }
       attr { key: "value" value { tensor { dtype: DT_STRING
         tensor_shape { dim { size: 1 } } string_val: "saved" } } } }
node { name: "slices" op: "Const"
       attr { key: "dtype" value { type: DT_STRING } }
       attr { key: "value" value { tensor { dtype: DT_STRING
         tensor_shape { dim { size: 1 } } string_val: "" } } } }
node { name: "save" op: "SaveV2" input: "prefix" input: "names"
       input: "slices" input: ")") +
                            saves + R"("
       attr { key: "dtypes" value { list { type: DT_FLOAT } } } })";
  MakeCase(dir, {1, -2});
  ASSERT_TRUE(WriteFile(dir + "/graph.pbtxt", graph).ok());
  const Result<std::string> bytes = ReadGraphDefFile(dir + "/graph.pbtxt");
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  ASSERT_TRUE(WriteFile(dir + "/graph.pb", *bytes).ok());
  ASSERT_TRUE(WriteFile(dir + "/meta.json", R"({"steps": [
      {"run": ["save"], "feeds": {"prefix:0": {"$tmp": "a/m"}},
       "expect": [null]},
      {"run": ["w:0"], "feeds": {}, "expect":
        [{"key": "a", "dtype": "float32", "shape": [2], "rtol": 0, "atol": 0}]}
    ], "writes_checkpoint": {"tmp": "a/m", "after_step": 0,
      "equals_fetches_of_step": 1, "names": [")" +
                                                name + "\"]}}")
                  .ok());
}

TEST_F(Command, ReplayComparesTheCheckpointThatACaseWrites) {
  MakeSavingCase(dir_ + "/good", "w", "saved");
  MakeSavingCase(dir_ + "/off", "y", "saved");
  MakeSavingCase(dir_ + "/other", "w", "other");
  const Outcome o = Sluice({"replay", dir_});
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.out, HasSubstr("pass  good"));
  EXPECT_THAT(o.out, HasSubstr("FAIL  off: step 0: saved in the checkpoint: "
                               "differs by up to 4"));
  EXPECT_THAT(o.out, HasSubstr("FAIL  other: step 0: checkpoint 'a/m': "));
  EXPECT_THAT(o.out, EndsWith("1 of 3 cases pass\n"));
}

// The model's y of [[1, 2]] is [[19, 32, 45]].
TEST_F(Command, ReplayRunsTheSavedModelOfACase) {
  const auto make = [&](const std::string& name, float last,
                        const std::string& output) {
    const std::string dir = MakeCase(dir_ + "/" + name, {});
    std::filesystem::copy("tests/saved_models/v1", dir + "/model",
                          std::filesystem::copy_options::recursive);
    const std::string graph = R"(
node { name: "x" op: "Placeholder"
       attr { key: "dtype" value { type: DT_FLOAT } } }
node { name: "out" op: "Placeholder"
       attr { key: "dtype" value { type: DT_FLOAT } } })";
    ASSERT_TRUE(WriteFile(dir + "/graph.pbtxt", graph).ok());
    const Result<std::string> bytes = ReadGraphDefFile(dir + "/graph.pbtxt");
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    ASSERT_TRUE(WriteFile(dir + "/graph.pb", *bytes).ok());
    const NamedTensors arrays = {
        {"x", Tensor::Of<float>({1, 2}, {1, 2})},
        {"y", Tensor::Of<float>({1, 3}, {19, 32, last})}};
    ASSERT_TRUE(WriteNpz(dir + "/feeds.npz", arrays).ok());
    ASSERT_TRUE(WriteNpz(dir + "/expected.npz", arrays).ok());
    // (A fetched placeholder is what it is fed.)
    ASSERT_TRUE(WriteFile(dir + "/meta.json", R"({"steps": [
      {"run": ["out:0"], "feeds": {
         "x:0": {"key": "x", "dtype": "float32", "shape": [1, 2]},
         "out:0": {"key": "y", "dtype": "float32", "shape": [1, 3]}},
       "expect": [{"key": "y", "dtype": "float32", "shape": [1, 3],
                   "rtol": 1e-5, "atol": 0}]}],
      "saved_model": {"dir": "model", "tags": ["serve"],
        "signature": "serving_default", "inputs": {"x": "x:0"},
        "outputs": {")" + output + R"(": "out:0"}, "expected_like_step": 0}})")
                    .ok());
  };
  make("good", 45, "y");
  make("off", 46, "y");
  make("other", 45, "z");
  const Outcome o = Sluice({"replay", dir_});
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.out, HasSubstr("pass  good"));
  EXPECT_THAT(o.out,
              HasSubstr("FAIL  off: saved model: y: differs by up to 1"));
  EXPECT_THAT(o.out, HasSubstr("FAIL  other: saved model: output 'z': "));
  EXPECT_THAT(o.out, EndsWith("1 of 3 cases pass\n"));
}

// y = softmax(relu(x * w + b) * v), x: [?,8], and 64 examples of x.
class QuantizeCommand : public Command {
 protected:
  QuantizeCommand() {
    Graph g;
    const WithGraph use(g);
    std::mt19937_64 random(3);
    std::normal_distribution<float> normal;
    const auto draw = [&](Shape shape) {
      Tensor t(DType::kFloat, shape);
      for (float& v : t.flat<float>()) v = normal(random);
      return t;
    };
    const Output x = Placeholder<float>({-1, 8}, "x");
    const Output h = ops::Relu(
        ops::BiasAdd(ops::MatMul(x, Constant(draw({8, 16})), {.name = "first"}),
                     Constant(draw({16}))));
    ops::Softmax(ops::MatMul(h, Constant(draw({16, 4})), {.name = "second"}),
                 {.name = "y"});
    const auto bytes = ExportGraphDef(g);
    EXPECT_TRUE(bytes.ok()) << bytes.status().ToString();
    graph_ = Write("model.pb", bytes.ok() ? *bytes : "");
    examples_ = dir_ + "/x.npy";
    EXPECT_TRUE(WriteNpy(examples_, draw({64, 8})).ok());
  }

  std::vector<std::string> Args(const std::vector<std::string>& more = {}) {
    std::vector<std::string> args = {
        "quantize", graph_,  "--feed", "x=" + examples_, "--fetch",
        "y",        "--out", out_,     "--batch",        "24"};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }

  std::string graph_, examples_, out_ = dir_ + "/int8.pb";
};

TEST_F(QuantizeCommand, WritesInt8GraphWithSimilarResults) {
  const Outcome o = Sluice(Args());
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.out, HasSubstr("int8   first\n"));
  EXPECT_THAT(o.out, HasSubstr("int8   second\n"));
  EXPECT_THAT(o.out, HasSubstr("fetch  y -> y"));
  for (const std::string& graph : {graph_, out_}) {
    const std::string to = graph + ".values";
    std::filesystem::create_directories(to);
    const Outcome run = Sluice({"run", graph, "--feed", "x=" + examples_,
                                "--fetch", "y", "--out", to});
    ASSERT_EQ(run.code, 0) << run.err;
  }
  const auto want = ReadNpy(graph_ + ".values/y.npy");
  const auto got = ReadNpy(out_ + ".values/y.npy");
  ASSERT_TRUE(want.ok() && got.ok());
  ASSERT_EQ(got->shape(), want->shape());
  double apart = 0;
  for (int64_t i = 0; i < want->num_elements(); ++i)
    apart = std::max<double>(
        apart, std::abs(want->data<float>()[i] - got->data<float>()[i]));
  EXPECT_GT(apart, 0);  // (Quantization loses precision.)
  EXPECT_LT(apart, 0.1);
}

TEST_F(QuantizeCommand, KeepFloatLeavesLayersUnchanged) {
  const Outcome o = Sluice(Args({"--keep-float", "first"}));
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.out, HasSubstr("float  first: "));
  EXPECT_THAT(o.out, HasSubstr("int8   second\n"));
}

TEST_F(QuantizeCommand, ErrorsNameTheWrongOption) {
  ExpectMistake(Args({"--fetch", "nothing"}), "nothing");
  ExpectMistake(Args({"--keep-float", "frist"}), "first");
  ExpectMistake(Args({"--feed", "x"}), "NAME=VALUE");
  ExpectMistake(Args({"--percentile", "2"}), "--percentile");
  ASSERT_TRUE(WriteNpy(dir_ + "/s.npy", Tensor::Scalar(1.0f)).ok());
  ExpectMistake({"quantize", graph_, "--feed", "x=" + dir_ + "/s.npy",
                 "--fetch", "y", "--out", out_},
                "examples along the first dimension");
}

ArrayDesc Close(double rtol, double atol, const Tensor& t) {
  ArrayDesc d;
  d.key = "k";
  d.dtype = t.dtype();
  d.shape = t.shape();
  d.exact = false;
  d.rtol = rtol;
  d.atol = atol;
  return d;
}

TEST(ReplayTolerance, IsRelativeToTheLargestValue) {
  const Tensor want = Tensor::Vector<float>({100, 0});
  const ArrayDesc d = Close(1e-3, 0, want);
  EXPECT_EQ(Difference(d, Tensor::Vector<float>({100.09f, 0.009f}), want), "");
  EXPECT_NE(Difference(d, Tensor::Vector<float>({100, 0.011f}), want), "");
  EXPECT_NE(Difference(d, Tensor::Vector<float>({100.2f, 0}), want), "");
}

TEST(ReplayTolerance, NonFiniteValuesMustMatchByPosition) {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor want = Tensor::Vector<float>({inf, nan, 1});
  const ArrayDesc d = Close(1e-3, 1e-3, want);
  EXPECT_EQ(Difference(d, want, want), "");
  EXPECT_NE(Difference(d, Tensor::Vector<float>({-inf, nan, 1}), want), "");
  EXPECT_NE(Difference(d, Tensor::Vector<float>({inf, 1, 1}), want), "");
  EXPECT_NE(Difference(d, Tensor::Vector<float>({inf, nan, nan}), want), "");
}

TEST(ReplayTolerance, ShapesAndTypesMustBeEqual) {
  const Tensor want = Tensor::Vector<float>({1, 2});
  const ArrayDesc d = Close(1, 1, want);
  EXPECT_THAT(Difference(d, Tensor::Of<float>(Shape({2, 1}), {1, 2}), want),
              HasSubstr("shape [2,1], want [2]"));
  EXPECT_THAT(Difference(d, Tensor::Vector<double>({1, 2}), want),
              HasSubstr("dtype double, want float"));
}

TEST_F(Command, BoardNamesWhatItCannotServe) {
  ExpectMistake({"board"}, "LOGDIR");
  ExpectMistake({"board", dir_, "--port", "65536"}, "--port");
  const Outcome o = Sluice({"board", dir_, "--host", "192.0.2.1"});
  EXPECT_EQ(o.code, 1);
  EXPECT_EQ(o.out, "");
  // (Built without the HTTP library, it says that.)
  EXPECT_THAT(o.err, ::testing::AnyOf(HasSubstr("--host: expected an address"),
                                      HasSubstr("libcpp-httplib-dev")));
}

}  // namespace
}  // namespace sluice::cli
