// Hostile calls of meta graphs, signatures and saved models.
#include <unistd.h>

#include <filesystem>

#include "io/file.h"
#include "tests/hostile_calls_test_util.h"

namespace sluice {
namespace {

// A folder that is removed again.
class SavedModelScratch {
 public:
  SavedModelScratch()
      : path_(std::filesystem::temp_directory_path() /
              ("sluice_hostile_saved_models_" + std::to_string(getpid()))) {
    std::filesystem::create_directories(path_);
  }
  ~SavedModelScratch() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string& name) const {
    return (path_ / name).string();
  }

 private:
  const std::filesystem::path path_;
};

HOSTILE(Signatures,
        "PredictSignature ClassifySignature RegressSignature CheckSignature "
        "TensorInfo::Of TensorInfo::ToString TensorInfo::Parts") {
  const Output x = Placeholder<float>({-1}, "x");
  const Output none, wrong(x.node, 7), before(x.node, -3);
  for (const Output& bad : {none, wrong, before}) {
    ExpectRefused(PredictSignature({{"x", bad}}, {{"y", x}}), "signature");
    ExpectRefused(PredictSignature({{"x", x}}, {{"", bad}}), "signature");
    ExpectRefused(ClassifySignature(bad, bad, bad), "signature");
    ExpectRefused(RegressSignature(bad, x), "signature");
    EXPECT_FALSE(TensorInfo::Of(bad).ToString().empty());
  }
  ExpectRefused(PredictSignature({}, {}), "signature");
  ExpectRefused(ClassifySignature(x, x, x), "signature");
  TensorInfo info;
  EXPECT_EQ(info.Parts().size(), 1u);
  info.composite = TensorInfo::Composite{"\xff", {TensorInfo::Part{}}};
  EXPECT_EQ(info.Parts().size(), 1u);
  EXPECT_FALSE(info.ToString().empty());
  {
    // A type that is no message is not written, a tensor of no name refused.
    MetaGraph about;
    about.signatures["s"].inputs["x"] = info;
    ExpectRefused(ExportMetaGraph(CurrentGraph(), about), "signature 's'");
  }
  Signature odd;
  EXPECT_FALSE(CheckSignature(odd).ok());
  odd.method = "";
  EXPECT_TRUE(CheckSignature(odd).ok());
  odd.method = kClassifyMethod;
  odd.inputs["\n"].sparse = TensorInfo::Sparse{};
  EXPECT_FALSE(CheckSignature(odd).ok());
}

HOSTILE(MetaGraphs,
        "ExportMetaGraph ImportMetaGraph ReadMetaGraph ReadMetaGraphFile "
        "PrintTextMetaGraph SaverInfo::Of") {
  const SavedModelScratch scratch;
  Graph g;
  const WithGraph use(g);
  Placeholder<float>({-1}, "x");
  const Saver empty;  // There are no variables.
  EXPECT_TRUE(SaverInfo::Of(empty).save_tensor.empty());
  MetaGraph about;
  about.saver = SaverInfo{};
  ExpectRefused(ExportMetaGraph(g, about), "saver");
  about.saver.reset();
  about.assets = {{"x:99999999999", "../x"}};
  ExpectRefused(ExportMetaGraph(g, about), "asset");
  about.assets = {{"", ""}};
  ExpectRefused(ExportMetaGraph(g, about), "asset");
  about.assets.clear();
  about.collections[""] = {.nodes = {"x"}, .ints = {1}};
  ExpectRefused(ExportMetaGraph(g, about), "collection");
  for (const std::string& bad :
       {std::string("\xff\xff\xff"), std::string("x"), std::string(100, '\n'),
        std::string(1 << 16, '\x0a')}) {
    Graph other;
    ExpectRefused(ImportMetaGraph(bad, other), "MetaGraphDef");
    ExpectRefused(ReadMetaGraph(bad), "MetaGraphDef");
    ExpectRefused(PrintTextMetaGraph(bad), "MetaGraphDef");
    // (A file may be text, and blank lines are an empty message.)
    if (bad[0] == '\n') continue;
    ASSERT_TRUE(WriteFile(scratch / "bad", bad).ok());
    ExpectRefused(ReadMetaGraphFile(scratch / "bad"), "MetaGraphDef");
  }
  ExpectRefused(ReadMetaGraphFile(scratch / "none"), "none");
  ExpectRefused(ReadMetaGraphFile(scratch / ""), "");
  // A name that is taken.
  const Result<std::string> bytes = ExportMetaGraph(g);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  ExpectRefused(ImportMetaGraph(*bytes, g), "x");
  Graph copy;
  ExpectRefused(ImportMetaGraph(*bytes, copy, {.prefix = "a b"}), "");
}

HOSTILE(SavedModels,
        "IsSavedModel ReadSavedModel FindMetaGraph SavedVariablesPath "
        "LoadSavedModel SavedModel::Load SavedModel::SavedModel "
        "SavedModel::signatures SavedModel::about SavedModel::graph "
        "SavedModel::session SavedModel::Run SavedModel::Inputs "
        "SavedModel::Outputs") {
  const SavedModelScratch scratch;
  for (const std::string& bad :
       {std::string(), scratch / "none", std::string("/dev/null"),
        std::string(1 << 16, 'x'), std::string("\0", 1)}) {
    EXPECT_FALSE(IsSavedModel(bad));
    ExpectRefused(ReadSavedModel(bad), "saved model");
    ExpectRefused(FindMetaGraph(bad, {}), "saved model");
    ExpectRefused(SavedModel::Load(bad), "saved model");
    EXPECT_FALSE(SavedVariablesPath(bad).empty());
  }
  std::filesystem::create_directories(scratch / "m");
  for (const std::string& bad : {std::string(), std::string("\xff\xff\xff")}) {
    ASSERT_TRUE(WriteFile(scratch / "m/saved_model.pb", bad).ok());
    ExpectRefused(ReadSavedModel(scratch / "m"), "saved_model.pb");
  }
  const std::string model = "tests/saved_models/v1";
  ExpectRefused(FindMetaGraph(model, {"", "serve"}), "serve");
  Graph g;
  Session session(g);
  ExpectRefused(LoadSavedModel(session, model, {}), "serve");
  ExpectRefused(LoadSavedModel(session, model, {"serve"}, {.prefix = "a b"}),
                "");
  Result<SavedModel> loaded = SavedModel::Load(model);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const SavedModel moved = *std::move(loaded);
  EXPECT_EQ(moved.signatures().size(), 2u);
  EXPECT_FALSE(moved.about().tags.empty());
  EXPECT_GT(moved.graph().num_nodes(), 0);
  ExpectRefused(moved.Run({}, ""), "signature");
  ExpectRefused(moved.Run({{"x", Tensor()}}), "x");
  ExpectRefused(moved.Run({{"", Tensor::Scalar(1)}}), "x");
  ExpectRefused(moved.Run({{"x", Tensor::Scalar<std::string>("text")}}), "x");
  ExpectRefused(moved.Inputs("\n"), "signature");
  ExpectRefused(moved.Outputs(""), "signature");
  EXPECT_TRUE(moved.session().Close().ok());
  ExpectRefused(
      moved.Run(
          {{"x", *Tensor::Vector<float>({1, 2}).Reshaped(Shape({1, 2}))}}),
      "");
}

HOSTILE(SavedModelBuilders,
        "SavedModelBuilder::SavedModelBuilder "
        "SavedModelBuilder::AddMetaGraphAndVariables "
        "SavedModelBuilder::AddMetaGraph SavedModelBuilder::Save "
        "SavedModelBuilder::VariablesPath SavedModelBuilder::AddAsset "
        "SavedModelBuilder::AddMetaGraphDef") {
  const SavedModelScratch scratch;
  Graph g;
  const WithGraph use(g);
  Session session(g);
  const Output x = Placeholder<std::string>({}, "x");
  for (const std::string& taken :
       {std::string(), scratch / ".", std::string("/dev/null")}) {
    ASSERT_TRUE(WriteFile(scratch / "file", "x").ok());
    SavedModelBuilder builder(taken);
    ExpectRefused(builder.AddMetaGraph(g, {}), "saved model");
    ExpectRefused(builder.VariablesPath(), "saved model");
    ExpectRefused(builder.AddAsset(scratch / "file"), "saved model");
    ExpectRefused(builder.Save(), "saved model");
  }
  SavedModelBuilder builder(scratch / "m");
  ExpectRefused(builder.Save(), "meta graph");
  ExpectRefused(builder.AddMetaGraphDef("\xff\xff"), "MetaGraphDef");
  ExpectRefused(builder.AddAsset(""), "asset");
  ExpectRefused(builder.AddAsset(scratch / "none"), "asset");
  ExpectRefused(builder.AddAsset(scratch / "."), "asset");
  ExpectRefused(builder.AddMetaGraph(g, {.tags = {}, .assets = {Output()}}),
                "asset");
  ExpectRefused(builder.AddMetaGraph(g, {.tags = {}, .assets = {x}}), "asset");
  Graph other;
  Node* elsewhere = nullptr;
  {
    const WithGraph use(other);
    elsewhere = Group({});
  }
  ExpectRefused(builder.AddMetaGraph(g, {.tags = {}, .initializer = elsewhere}),
                "initializer");
  ASSERT_TRUE(builder.AddMetaGraphAndVariables(session, {.tags = {""}}).ok());
  ExpectRefused(builder.AddMetaGraphAndVariables(session, {.tags = {"a"}}),
                "once");
  ExpectRefused(builder.AddMetaGraph(g, {.tags = {""}}), "twice");
  // Something got there first.
  std::filesystem::create_directories(scratch / "m");
  ASSERT_TRUE(WriteFile(scratch / "m/file", "x").ok());
  ExpectRefused(builder.Save(), "saved model");
}

}  // namespace
}  // namespace sluice
