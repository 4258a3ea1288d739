// `sluice inspect` on checkpoints of TensorFlow and of ours.
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "checkpoint/bundle_writer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "io/file.h"
#include "summary/event_writer.h"
#include "tools/sluice/cli.h"

namespace sluice::cli {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

struct Inspected {
  int code;
  std::string out, err;
};

Inspected Inspect(std::vector<std::string> args) {
  args.insert(args.begin(), {"sluice", "inspect"});
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

class InspectCommand : public ::testing::Test {
 protected:
  InspectCommand()
      : folder_(std::filesystem::temp_directory_path() /
                ("sluice_inspect_" + std::to_string(getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~InspectCommand() override { std::filesystem::remove_all(folder_); }
  std::string Save(const std::string& name,
                   const std::vector<std::pair<std::string, Tensor>>& tensors) {
    const std::string path = (folder_ / name).string();
    auto writer = *BundleWriter::Open(path);
    for (const auto& [n, t] : tensors) EXPECT_TRUE(writer->Add(n, t).ok());
    EXPECT_TRUE(writer->Finish().ok());
    return path;
  }
  const std::filesystem::path folder_;
};

TEST_F(InspectCommand, ListsTypesShapesAndStatistics) {
  const std::string path =
      Save("m", {{"good", Tensor::Vector<float>({1, 2, 6})},
                 {"bad", Tensor::Vector<float>({1, NAN, INFINITY, NAN})},
                 {"words", Tensor::Vector<std::string>({"one", "three"})}});
  for (const std::string& name :
       {path, path + ".index", path + ".data-00000-of-00001"}) {
    const Inspected o = Inspect({name});
    EXPECT_EQ(o.code, 0) << o.err;
    EXPECT_THAT(o.out,
                ContainsRegex("good +float\\[3\\] +min 1  max 6  mean 3"));
    EXPECT_THAT(o.out, ContainsRegex("bad +float\\[4\\].*NaN 2  infinite 1"));
    EXPECT_THAT(o.out, ContainsRegex("words +string\\[2\\] +8 bytes"));
    EXPECT_THAT(o.out, HasSubstr("3 tensors, 9 elements, version 2"));
  }
}

TEST_F(InspectCommand, GivesTheDeviationOfNumbersFarFromZero) {
  const std::string path =
      Save("m", {{"far", Tensor::Vector<double>({1e8 - 1, 1e8 + 1})},
                 {"farther", Tensor::Vector<double>({1e15, 1e15 + 4})}});
  const Inspected o = Inspect({path});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.out,
              ContainsRegex("far +double\\[2\\].* mean 1e\\+08  dev 1\n"));
  EXPECT_THAT(o.out, ContainsRegex("farther .* mean 1e\\+15  dev 2\n"));
}

TEST_F(InspectCommand, ReadsTensorFlowsOfBothVersions) {
  const Inspected types = Inspect({"tests/checkpoints/types"});
  EXPECT_EQ(types.code, 0) << types.err;
  EXPECT_THAT(types.out, ContainsRegex("bfloat16 +bfloat16\\[2,3\\] +min 1"));
  EXPECT_THAT(types.out, HasSubstr("20 tensors"));
  const Inspected parts = Inspect({"tests/checkpoints/old_parts"});
  EXPECT_EQ(parts.code, 0) << parts.err;
  EXPECT_THAT(parts.out, ContainsRegex("matrix +float\\[5,4\\] +4 parts"));
  EXPECT_THAT(parts.out, HasSubstr("version 1"));
}

TEST_F(InspectCommand, NamesTheVariablesOfObjects) {
  const Inspected o = Inspect({"tests/checkpoints/objects"});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.out,
              ContainsRegex("\ndense/kernel +float\\[2,3\\] +min 1.* at "
                            "model/kernel/.ATTRIBUTES/VARIABLE_VALUE\n"));
  // Two variables have this name.
  EXPECT_THAT(o.out,
              ContainsRegex("\nmodel/first/.ATTRIBUTES/VARIABLE_VALUE +float"));
}

TEST_F(InspectCommand, ComparesTwo) {
  const std::string a = Save("a", {{"same", Tensor::Scalar(1.f)},
                                   {"moved", Tensor::Vector<float>({1, 2, 3})},
                                   {"shape", Tensor::Vector<float>({1})},
                                   {"gone", Tensor::Scalar(1.f)}});
  const std::string b =
      Save("b", {{"same", Tensor::Scalar(1.f)},
                 {"moved", Tensor::Vector<float>({1, 2.5, 3})},
                 {"shape", Tensor::Vector<double>({1, 2})},
                 {"fresh", Tensor::Scalar(1.f)}});
  const Inspected o = Inspect({a, b});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.out, HasSubstr("moved: 1 of 3 differ, by up to 0.5\n"));
  EXPECT_THAT(o.out, HasSubstr("shape: float[1] and double[2]\n"));
  EXPECT_THAT(o.out, HasSubstr("gone: only in " + a));
  EXPECT_THAT(o.out, HasSubstr("fresh: only in " + b));
  EXPECT_THAT(o.out, HasSubstr("1 tensor the same, 4 not\n"));
}

TEST_F(InspectCommand, FindsDifferencesThatDoublesLack) {
  const int64_t big = int64_t{1} << 53;
  const std::string a = Save(
      "a", {{"integers", Tensor::Vector<int64_t>({big, -big, 1, INT64_MIN})},
            {"unsigned", Tensor::Vector<uint64_t>({UINT64_MAX, 5})},
            {"complex", Tensor::Vector<complex64>({{1, 2}, {3, 4}})},
            {"zeros", Tensor::Vector<float>({0.f, NAN})}});
  const std::string b = Save(
      "b",
      {{"integers", Tensor::Vector<int64_t>({big + 1, -big, 1, INT64_MIN})},
       {"unsigned", Tensor::Vector<uint64_t>({UINT64_MAX - 2, 5})},
       {"complex", Tensor::Vector<complex64>({{1.5, 4}, {3, 4}})},
       {"zeros", Tensor::Vector<float>({-0.f, NAN})}});
  const Inspected o = Inspect({a, b});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.out, HasSubstr("integers: 1 of 4 differ, by up to 1\n"));
  EXPECT_THAT(o.out, HasSubstr("unsigned: 1 of 2 differ, by up to 2\n"));
  EXPECT_THAT(o.out, HasSubstr("complex: 1 of 2 differ, by up to 2\n"));
  EXPECT_THAT(o.out, HasSubstr("zeros: 1 of 2 differ, by up to 0\n"));
}

TEST_F(InspectCommand, SaysWhyAFolderHasNoLatestCheckpoint) {
  const std::string state = (folder_ / "checkpoint").string();
  ASSERT_TRUE(WriteFile(state, "not a state").ok());
  const Inspected corrupt = Inspect({folder_.string()});
  EXPECT_EQ(corrupt.code, 1);
  EXPECT_THAT(corrupt.err, HasSubstr("'" + state + "': expected the state"));
  ASSERT_TRUE(WriteFile(state, "model_checkpoint_path: \"gone\"").ok());
  const std::string good = Save("good", {{"x", Tensor::Scalar(1.f)}});
  for (const auto& args : std::vector<std::vector<std::string>>{
           {folder_.string()}, {good, folder_.string()}}) {
    const Inspected missing = Inspect(args);
    EXPECT_EQ(missing.code, 1);
    EXPECT_THAT(missing.err, HasSubstr("gone', of which there are no files"));
  }
  // The path of a checkpoint may be that of a folder too.
  std::filesystem::create_directories(good);
  EXPECT_EQ(Inspect({good}).code, 0);
}

TEST_F(InspectCommand, DamagedTensorsAreNamedAndTheOthersListed) {
  const std::string path = Save("m", {{"first", Tensor::Vector<float>({1, 2})},
                                      {"second", Tensor::Scalar<int64_t>(4)}});
  std::string data = *ReadFile(path + ".data-00000-of-00001");
  data[0] ^= 1;
  ASSERT_TRUE(WriteFile(path + ".data-00000-of-00001", data).ok());
  const Inspected o = Inspect({path});
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.err, HasSubstr("'first'"));
  EXPECT_THAT(o.out, ContainsRegex("second +int64\\[\\] +min 4"));
  EXPECT_EQ(Inspect({(folder_ / "none").string()}).code, 1);
  EXPECT_EQ(Inspect({}).code, 2);
}

TEST_F(InspectCommand, ListsWhatASavedModelHas) {
  const Inspected o = Inspect({"tests/saved_models/v1"});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.out, HasSubstr("tags serve\n"));
  EXPECT_THAT(o.out, HasSubstr("tags eval, gpu\n"));
  EXPECT_THAT(o.out, HasSubstr("input  x  float[?,2] x:0\n"));
  EXPECT_THAT(o.out, HasSubstr("output ids  int64[?] ids:0\n"));
  EXPECT_THAT(o.out, HasSubstr("asset words.txt  words:0\n"));
  EXPECT_THAT(o.out, ContainsRegex("w +float\\[2,3\\] +min 1  max 6"));
  EXPECT_THAT(o.out, HasSubstr("2 tensors, 9 elements"));
}

TEST_F(InspectCommand, ComparesSavedModels) {
  const Inspected same =
      Inspect({"tests/saved_models/v1", "tests/saved_models/v1_text"});
  EXPECT_EQ(same.code, 0) << same.err;
  EXPECT_THAT(same.out, HasSubstr("are the same\n"));
  EXPECT_THAT(same.out, HasSubstr("2 tensors the same, 0 not\n"));
  const Inspected other =
      Inspect({"tests/saved_models/v1", "tests/saved_models/v2"});
  EXPECT_EQ(other.code, 0) << other.err;
  EXPECT_THAT(other.out,
              HasSubstr("tags eval, gpu: only in tests/saved_models/v1\n"));
  EXPECT_THAT(other.out, HasSubstr("signature ids output ids: int64[?] ids:0 "
                                   "and int64[?] StatefulPartitionedCall:0"));
  EXPECT_EQ(Inspect({"tests/saved_models/v1", Save("m", {})}).code, kUsage);
}

TEST_F(InspectCommand, SummarisesEvents) {
  std::string path;
  {
    auto writer = *EventWriter::Open(folder_.string());
    for (int step = 1; step <= 4; ++step)
      EXPECT_TRUE(
          writer->AddScalar("loss", step == 3 ? NAN : 1.0f / step, step).ok());
    EXPECT_TRUE(
        writer->AddHistogram("w", Tensor::Vector<float>({1, 2}), 7).ok());
    EXPECT_TRUE(writer->Close().ok());
    path = writer->path();
  }
  for (const std::string& name : {path, folder_.string()}) {
    const Inspected o = Inspect({name});
    EXPECT_EQ(o.code, 0) << o.err;
    EXPECT_THAT(o.out, ContainsRegex("loss +scalar +4  steps 1 to 4  min 0.25  "
                                     "max 1  last 0.25  NaN 1\n"));
    EXPECT_THAT(o.out, ContainsRegex("w +histogram +1  steps 7 to 7\n"));
    EXPECT_THAT(o.out, ContainsRegex("6 events, .* UTC"));
  }
  std::string bytes = *ReadFile(path);
  bytes[bytes.size() / 2] ^= 1;
  ASSERT_TRUE(WriteFile(path, bytes).ok());
  const Inspected damaged = Inspect({path});
  EXPECT_EQ(damaged.code, kRunFailed);
  EXPECT_THAT(damaged.err, ContainsRegex("at byte [0-9]+: expected"));
  ASSERT_TRUE(WriteFile(path, bytes.substr(0, 20)).ok());
  const Inspected cut = Inspect({path});
  EXPECT_EQ(cut.code, 0) << cut.err;
  EXPECT_THAT(cut.out, HasSubstr("ends within a record at byte 0\n"));
}

TEST_F(InspectCommand, FreezesSavedModelsIntoGraphsThatRun) {
  const std::string out = (folder_ / "frozen.pb").string();
  std::vector<std::string> args = {"sluice", "freeze", "tests/saved_models/v1",
                                   out};
  std::vector<char*> argv;
  for (std::string& a : args) argv.push_back(a.data());
  argv.push_back(nullptr);
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(Main(static_cast<int>(args.size()), argv.data()), 0);
  std::fflush(stdout);
  EXPECT_THAT(::testing::internal::GetCapturedStdout(),
              HasSubstr("feed   x:0  float[?,2]"));
  Graph g;
  ASSERT_TRUE(ImportGraphDefFile(out, g).ok());
  Session session(g);
  const auto y = session.RunByName(
      {{"x", *Tensor::Vector<float>({1, 2}).Reshaped(Shape({1, 2}))}}, {"y"});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_EQ((*y)[0].data<float>()[2], 45);
}

TEST_F(InspectCommand, ShowsTagsWithoutControlCharactersAndWideColumns) {
  std::string path;
  {
    auto events = *EventWriter::Open(folder_.string());
    path = events->path();
    ASSERT_TRUE(events->AddScalar("a\x1b[2Jb", 1, 1).ok());
    ASSERT_TRUE(events->AddScalar(std::string(100'000, 'x'), 1, 1).ok());
    ASSERT_TRUE(events->Close().ok());
  }
  const Inspected o = Inspect({path});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.out, HasSubstr("a\\033[2Jb"));
  EXPECT_EQ(o.out.find('\x1b'), std::string::npos);
  EXPECT_LT(o.out.size(), 2000u);
}

TEST_F(InspectCommand, APathOfNothingIsToldFromAnotherKind) {
  const Inspected o = Inspect({"tests/saved_models/v1", "/nonexistent/model"});
  EXPECT_NE(o.code, 0);
  EXPECT_THAT(o.err, HasSubstr("at '/nonexistent/model', got neither"));
}

}  // namespace
}  // namespace sluice::cli
