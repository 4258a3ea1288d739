// Saved models of TensorFlow and of ours.
#include "deploy/saved_model.h"

#include <unistd.h>

#include <filesystem>
#include <random>
#include <set>
#include <sstream>
#include <tuple>

#include "absl/strings/str_replace.h"
#include "client/autodiff/gradients.h"
#include "client/control/control_flow.h"
#include "client/control/tensor_store.h"
#include "client/initializers.h"
#include "client/operators.h"
#include "client/partitioned_variables.h"
#include "data/hash_table.h"
#include "deploy/quantize.h"
#include "deploy/saved_model_builder.h"
#include "gmock/gmock.h"
#include "graph/control_flow.h"
#include "graph/proto/control_flow.pb.h"
#include "graph/proto/meta_graph.pb.h"
#include "gtest/gtest.h"
#include "io/file.h"
#include "sluice/ops.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

const char kRecorded[] = "tests/saved_models/";

class SavedModels : public ::testing::Test {
 protected:
  SavedModels()
      : folder_(fs::temp_directory_path() /
                ("sluice_saved_model_" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
  }
  ~SavedModels() override { fs::remove_all(folder_); }
  std::string In(const std::string& name) const {
    return (folder_ / name).string();
  }
  const fs::path folder_;
};

std::vector<float> Floats(const Tensor& t) {
  const auto flat = t.flat<float>();
  return {flat.begin(), flat.end()};
}
std::vector<int64_t> Ints(const Tensor& t) {
  const auto flat = t.flat<int64_t>();
  return {flat.begin(), flat.end()};
}

Tensor Row(float a, float b) {
  return *Tensor::Vector<float>({a, b}).Reshaped(Shape({1, 2}));
}

// A model with both kinds of variables and a table that a file fills.
Status Build(Graph* g, const std::string& folder, const std::string& words,
             bool text = false) {
  SLUICE_RETURN_IF_ERROR(WriteFile(words, "one\ntwo\nthree\n"));
  const WithGraph use(*g);
  const Output x = Placeholder<float>({-1, 2}, "x");
  const Var w(Constant(Tensor::Vector<float>({1, 2})), "w");
  const Var b(Constant(Tensor::Vector<float>({10, 20})), "b",
              {.reference = true});
  const Output y = ops::Identity(x * w + b);
  const Output file = Constant(Tensor::Scalar(words), "words");
  const HashTable table = HashTable::FromTextFile(file);
  const Output keys = Placeholder<std::string>({-1}, "keys");
  const Output ids = table.Lookup(keys, int64_t{-1});
  Session session(*g);
  SLUICE_RETURN_IF_ERROR(session.RunTargets({GlobalVariablesInitializer()}));
  SLUICE_RETURN_IF_ERROR(
      session.RunTargets({w.Assign(Tensor::Vector<float>({3, 4}))}));
  SLUICE_ASSIGN_OR_RETURN(const Signature predict,
                          PredictSignature({{"x", x}}, {{"y", y}}));
  SLUICE_ASSIGN_OR_RETURN(const Signature look_up,
                          PredictSignature({{"keys", keys}}, {{"ids", ids}}));
  SavedModelBuilder builder(folder);
  SLUICE_RETURN_IF_ERROR(builder.AddMetaGraphAndVariables(
      session, {.tags = {kServeTag},
                .signatures = {{kDefaultSignature, predict}, {"ids", look_up}},
                .assets = {file},
                .initializer = table.initializer(),
                .options = {.strip_default_attrs = true}}));
  SLUICE_RETURN_IF_ERROR(
      builder.AddMetaGraph(*g, {.tags = {kEvalTag, kGpuTag}}));
  return builder.Save(text).status();
}

TEST_F(SavedModels, OfTensorFlow1AreRunByTheirSignatures) {
  for (const char* name : {"v1", "v1_text"}) {
    const Result<SavedModel> model =
        SavedModel::Load(std::string(kRecorded) + name);
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_EQ(model->signatures().size(), 2u);
    const auto y = model->Run({{"x", Row(1, 2)}});
    ASSERT_TRUE(y.ok()) << y.status();
    EXPECT_THAT(Floats(y->at("y")), ElementsAre(19, 32, 45));
    const auto ids = model->Run(
        {{"keys", Tensor::Vector<std::string>({"two", "x"})}}, "ids");
    ASSERT_TRUE(ids.ok()) << ids.status();
    EXPECT_THAT(Ints(ids->at("ids")), ElementsAre(1, -1));
  }
}

TEST_F(SavedModels, OfTensorFlow2AreRunByTheirSignatures) {
  const Result<SavedModel> model =
      SavedModel::Load(std::string(kRecorded) + "v2");
  ASSERT_TRUE(model.ok()) << model.status();
  // [1 2] w^2, and half of [1 2] w^3, since its sum is above 100.
  auto y = model->Run({{"x", Row(1, 2)}, {"n", Tensor::Scalar<int32_t>(2)}},
                      "powers");
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_THAT(Floats(y->at("y")), ElementsAre(37, 54));
  y = model->Run({{"x", Row(1, 2)}, {"n", Tensor::Scalar<int32_t>(3)}},
                 "powers");
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_THAT(Floats(y->at("y")), ElementsAre(99.5, 145));
  const auto ids = model->Run(
      {{"keys", Tensor::Vector<std::string>({"three", "x"})}}, "ids");
  ASSERT_TRUE(ids.ok()) << ids.status();
  EXPECT_THAT(Ints(ids->at("ids")), ElementsAre(2, -1));
}

TEST_F(SavedModels, SparseValuesAreGivenAndReturnedByTheirTensors) {
  const Result<SavedModel> model =
      SavedModel::Load(std::string(kRecorded) + "sparse");
  ASSERT_TRUE(model.ok()) << model.status();
  // [0 1 0 2] and [3 0 0 0].
  const Tensor indices = Tensor::Of<int64_t>(Shape({3, 2}), {0, 1, 0, 3, 1, 0});
  const Tensor shape = Tensor::Vector<int64_t>({2, 4});
  const auto out = model->Run({{"x/values", Tensor::Vector<float>({1, 2, 3})},
                               {"x/indices", indices},
                               {"x/dense_shape", shape}});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ(out->size(), 4u);
  EXPECT_THAT(Floats(out->at("twice/values")), ElementsAre(2, 4, 6));
  EXPECT_TRUE(out->at("twice/indices").Identical(indices));
  EXPECT_TRUE(out->at("twice/dense_shape").Identical(shape));
  EXPECT_THAT(Floats(out->at("total")), ElementsAre(3, 3));
  EXPECT_THAT(
      model->Run({{"x/values", Tensor::Vector<float>({1, 2, 3})}})
          .status()
          .message(),
      HasSubstr("'x/indices' int64[?,?], 'x/dense_shape' int64[?], got none "
                "for 'x/indices'"));
  // Through another file, as any model.
  const auto bytes =
      FindMetaGraph(std::string(kRecorded) + "sparse", {"serve"});
  ASSERT_TRUE(bytes.ok());
  Graph g;
  const auto about = ImportMetaGraph(*bytes, g);
  ASSERT_TRUE(about.ok()) << about.status();
  const auto again = ExportMetaGraph(g, *about);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(ReadMetaGraph(*again)
                  ->signatures.at("serving_default")
                  .inputs.at("x")
                  .sparse.has_value());
}

TEST_F(SavedModels, RaggedValuesAreReturnedByTheirTensors) {
  const std::string folder = std::string(kRecorded) + "composites";
  const Result<SavedModel> model = SavedModel::Load(folder);
  ASSERT_TRUE(model.ok()) << model.status();
  // TensorFlow 2 lists the tensors of such inputs one by one.
  const Tensor outer = Tensor::Vector<int64_t>({0, 1, 2}),
               inner = Tensor::Vector<int64_t>({0, 2, 3}),
               indices = Tensor::Of<int64_t>(Shape({1, 2}), {0, 1}),
               shape = Tensor::Vector<int64_t>({2, 4});
  const auto out = model->Run({{"r", Tensor::Vector<float>({1, 2, 3})},
                               {"r_1", outer},
                               {"r_2", inner},
                               {"s", indices},
                               {"s_1", Tensor::Vector<float>({5})},
                               {"s_2", shape}});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ(out->size(), 6u);
  EXPECT_THAT(Floats(out->at("ragged/values")), ElementsAre(2, 4, 6));
  EXPECT_TRUE(out->at("ragged/row_splits_0").Identical(outer));
  EXPECT_TRUE(out->at("ragged/row_splits_1").Identical(inner));
  EXPECT_THAT(Floats(out->at("sparse/values")), ElementsAre(15));
  EXPECT_TRUE(out->at("sparse/indices").Identical(indices));
  const TensorInfo& ragged =
      model->signatures().at("serving_default").outputs.at("ragged");
  EXPECT_THAT(ragged.ToString(), HasSubstr("row_splits_1 int64[?] "));
  // The meta graph keeps what kind of value it is.
  Graph g;
  const auto bytes = FindMetaGraph(folder, {"serve"});
  ASSERT_TRUE(bytes.ok());
  const auto about = ImportMetaGraph(*bytes, g);
  ASSERT_TRUE(about.ok()) << about.status();
  const auto again = ExportMetaGraph(g, *about);
  ASSERT_TRUE(again.ok()) << again.status();
  const auto read = ReadMetaGraph(*again);
  ASSERT_TRUE(read.ok()) << read.status();
  const TensorInfo& kept =
      read->signatures.at("serving_default").outputs.at("ragged");
  EXPECT_EQ(kept.ToString(), ragged.ToString());
  EXPECT_EQ(kept.composite->type_spec, ragged.composite->type_spec);
  EXPECT_FALSE(kept.composite->type_spec.empty());
}

TEST_F(SavedModels, AreFoundByFileUrls) {
  const std::string url =
      "file://" + fs::absolute(std::string(kRecorded) + "v1").string();
  EXPECT_TRUE(IsSavedModel(url));
  const Result<SavedModel> model = SavedModel::Load(url);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_TRUE(model->Run({{"x", Row(1, 2)}}).ok());
  Graph g;
  const Status built = Build(&g, "file://" + In("m"), "file://" + In("words"));
  ASSERT_TRUE(built.ok()) << built;
  EXPECT_TRUE(SavedModel::Load(In("m")).ok());
}

TEST_F(SavedModels, GoThroughAFolderAndKeepNothingOfTheFilesOutside) {
  for (const bool text : {false, true}) {
    const std::string to = In(text ? "text" : "binary");
    Graph g;
    const Status built = Build(&g, to, In("words.txt"), text);
    ASSERT_TRUE(built.ok()) << built;
    fs::remove(In("words.txt"));
    const Result<SavedModel> model = SavedModel::Load(to);
    ASSERT_TRUE(model.ok()) << model.status();
    const auto y = model->Run({{"x", Row(1, 2)}});
    ASSERT_TRUE(y.ok()) << y.status();
    EXPECT_THAT(Floats(y->at("y")), ElementsAre(13, 28));
    const auto ids = model->Run(
        {{"keys", Tensor::Vector<std::string>({"two", "x"})}}, "ids");
    ASSERT_TRUE(ids.ok()) << ids.status();
    EXPECT_THAT(Ints(ids->at("ids")), ElementsAre(1, -1));
    const auto all = ReadSavedModel(to);
    ASSERT_TRUE(all.ok());
    EXPECT_THAT((*all)[1].tags, ElementsAre("eval", "gpu"));
  }
}

TEST_F(SavedModels, AreNotOverwrittenAndLeaveNothingWhenNotSaved) {
  Graph g;
  ASSERT_TRUE(Build(&g, In("m"), In("words.txt")).ok());
  Graph again;
  const Status s = Build(&again, In("m"), In("words.txt"));
  EXPECT_EQ(s.code(), StatusCode::kAlreadyExists) << s;
  {
    SavedModelBuilder builder(In("other"));
    EXPECT_TRUE(builder.AddAsset(In("words.txt")).ok());
  }
  int left = 0;
  for (const auto& entry : fs::directory_iterator(folder_)) {
    EXPECT_THAT(entry.path().filename(), ::testing::AnyOf("m", "words.txt"));
    ++left;
  }
  EXPECT_EQ(left, 2);
}

TEST_F(SavedModels, WrongCallsNameWhatThereIs) {
  Graph g;
  ASSERT_TRUE(Build(&g, In("m"), In("words.txt")).ok());
  const Status tags = SavedModel::Load(In("m"), {"train"}).status();
  EXPECT_EQ(tags.code(), StatusCode::kNotFound);
  EXPECT_THAT(tags.message(), HasSubstr("{train}, got only {serve}, {eval, "
                                        "gpu}"));
  const Status none = SavedModel::Load(In("none")).status();
  EXPECT_EQ(none.code(), StatusCode::kNotFound);
  const Result<SavedModel> model = SavedModel::Load(In("m"));
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT(model->Run({}, "scores").status().message(),
              HasSubstr("one of ids, serving_default, got 'scores'"));
  EXPECT_THAT(model->Run({}).status().message(),
              HasSubstr("'x' float[?,2], got none for 'x'"));
  EXPECT_THAT(model->Run({{"x", Tensor::Scalar(1.0f)}}).status().message(),
              HasSubstr("got float[] for 'x'"));
  EXPECT_THAT(
      model->Run({{"x", Row(1, 2)}, {"z", Row(1, 2)}}).status().message(),
      HasSubstr("got 'z'"));
}

TEST_F(SavedModels, MissingFilesAreNamed) {
  Graph g;
  ASSERT_TRUE(Build(&g, In("m"), In("words.txt")).ok());
  fs::remove(In("m/assets/words.txt"));
  const Status asset = SavedModel::Load(In("m")).status();
  EXPECT_EQ(asset.code(), StatusCode::kNotFound);
  EXPECT_THAT(asset.message(), HasSubstr("asset 'words.txt'"));
  ASSERT_TRUE(WriteFile(In("m/assets/words.txt"), "one\n").ok());
  fs::remove(In("m/variables/variables.index"));
  const Status variables = SavedModel::Load(In("m")).status();
  EXPECT_EQ(variables.code(), StatusCode::kNotFound);
  EXPECT_THAT(variables.message(), HasSubstr("expected a checkpoint"));
}

// As text, so that a test can take away what a model need not have.
void Edit(const std::string& file,
          const std::vector<std::pair<std::string, std::string>>& changes) {
  std::string text = *ReadFile(file);
  for (const auto& [from, to] : changes) {
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
  }
  ASSERT_TRUE(WriteFile(file, text).ok());
}

// x + x, with nodes beside it that the signature does not need.
void SaveDouble(const std::string& to) {
  Graph g;
  const WithGraph use(g);
  const Output x = Placeholder<float>({-1, 2}, "x");
  const Output y = ops::Add(x, x, {.name = "y"});
  const Output other = ops::Square(x, {.name = "other"});
  const Output after = ops::Neg(other, {.name = "after"});
  ops::Exp(x, {.name = "apart"});
  SavedModelBuilder builder(to);
  Session session(g);
  ASSERT_TRUE(
      builder
          .AddMetaGraphAndVariables(
              session,
              {.tags = {kServeTag},
               .signatures = {{kDefaultSignature,
                               *PredictSignature({{"x", x}}, {{"y", y}})},
                              {"__saved_model_train_op",
                               *PredictSignature({{"x", x}},
                                                 {{"after", after}})}}})
          .ok());
  ASSERT_TRUE(builder.Save(/*text=*/true).ok());
}

TEST_F(SavedModels, MayLeaveShapesTypesAndFilesOfNoVariablesOut) {
  SaveDouble(In("m"));
  const std::string file = In("m/saved_model.pbtxt");
  std::string text = *ReadFile(file);
  // The signature has nothing but names.
  const size_t at = text.find("key: \"serving_default\"");
  ASSERT_NE(at, std::string::npos);
  for (const std::string start : {"dtype: ", "tensor_shape {"})
    for (size_t from = text.find(start, at); from != text.npos;
         from = text.find(start, at)) {
      size_t end = text.find('\n', from);
      if (start.ends_with("{")) {
        int open = 1;
        for (end = from + start.size(); open > 0; ++end)
          open += text[end] == '{' ? 1 : text[end] == '}' ? -1 : 0;
      }
      text.erase(from, end - from);
    }
  // A saver, but no variables and no files of them.
  text.replace(text.find("meta_graphs {"), 13,
               "meta_graphs {\nsaver_def { filename_tensor_name: \"x:0\" "
               "save_tensor_name: \"x:0\" restore_op_name: \"y\" }\n");
  ASSERT_TRUE(WriteFile(file, text).ok());
  const Result<SavedModel> model = SavedModel::Load(In("m"));
  ASSERT_TRUE(model.ok()) << model.status();
  const auto y = model->Run({{"x", Row(1, 2)}});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_THAT(Floats(y->at("y")), ElementsAre(2, 4));
}

TEST_F(SavedModels, OnlyNodesOfUnknownOpsAreLeftOut) {
  SaveDouble(In("m"));
  Edit(In("m/saved_model.pbtxt"), {{"op: \"Square\"", "op: \"NoSuchOp\""}});
  const Result<SavedModel> model = SavedModel::Load(In("m"));
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT(model->about().unknown_ops, ElementsAre("NoSuchOp"));
  EXPECT_EQ(model->graph().FindNode("other"), nullptr);
  EXPECT_EQ(model->graph().FindNode("after"), nullptr);
  EXPECT_NE(model->graph().FindNode("apart"), nullptr);
  EXPECT_TRUE(model->Run({{"x", Row(1, 2)}}).ok());
  SaveDouble(In("needed"));
  Edit(In("needed/saved_model.pbtxt"), {{"op: \"Add\"", "op: \"NoSuchOp\""}});
  const Status s = SavedModel::Load(In("needed")).status();
  EXPECT_EQ(s.code(), StatusCode::kNotFound);
  EXPECT_THAT(s.message(), HasSubstr("NoSuchOp"));
}

// The write is on no path to the signature's output.
TEST_F(SavedModels, WritesThatReadsNeedAreNotLeftOutWithUnknownOps) {
  const auto save = [&](const std::string& folder) {
    Graph g;
    const WithGraph use(g);
    const Output x = Placeholder<float>({2}, "x");
    const TensorStore store(DType::kFloat);
    const Output y = ops::Identity(store.Read(3), {.name = "y"});
    store.Write(3, ops::Add(x, x, {.name = "twice"}));
    ops::Square(x, {.name = "other"});
    Session session(g);
    SavedModelBuilder builder(folder);
    EXPECT_TRUE(
        builder
            .AddMetaGraphAndVariables(
                session,
                {.tags = {kServeTag},
                 .signatures = {{kDefaultSignature,
                                 *PredictSignature({{"x", x}}, {{"y", y}})}}})
            .ok());
    EXPECT_TRUE(builder.Save(/*text=*/true).ok());
  };
  save(In("m"));
  Edit(In("m/saved_model.pbtxt"), {{"op: \"Square\"", "op: \"NoSuchOp\""}});
  const Result<SavedModel> model = SavedModel::Load(In("m"));
  ASSERT_TRUE(model.ok()) << model.status();
  const auto y = model->Run({{"x", Tensor::Vector<float>({1, 2})}});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_THAT(Floats(y->at("y")), ElementsAre(2, 4));
  // A write that depends on an unknown op.
  save(In("needed"));
  Edit(In("needed/saved_model.pbtxt"), {{"op: \"Add\"", "op: \"NoSuchOp\""}});
  EXPECT_THAT(std::string(SavedModel::Load(In("needed")).status().message()),
              HasSubstr("NoSuchOp"));
}

TEST_F(SavedModels, DamagedFilesAreErrorsOrModels) {
  Graph g;
  ASSERT_TRUE(Build(&g, In("m"), In("words.txt")).ok());
  const std::string path = In("m/saved_model.pb");
  const std::string whole = *ReadFile(path);
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  std::mt19937 random(seed);
  for (int i = 0; i < 60; ++i) {
    std::string bytes = whole;
    const size_t at = random() % bytes.size();
    if (i % 3 == 0)
      bytes.resize(at);
    else
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
    ASSERT_TRUE(WriteFile(path, bytes).ok());
    const Result<SavedModel> model = SavedModel::Load(In("m"));
    if (!model.ok()) {
      EXPECT_FALSE(model.status().message().empty());
      continue;
    }
    for (const auto& [name, s] : model->signatures())
      static_cast<void>(model->Run({{"x", Row(1, 2)}}, name).status());
  }
}

TEST_F(SavedModels, AreFrozen) {
  const Result<SavedModel> model =
      SavedModel::Load(std::string(kRecorded) + "v1");
  ASSERT_TRUE(model.ok()) << model.status();
  const auto frozen = Freeze(model->session(), {model->Inputs()->at("x")},
                             {model->Outputs()->at("y")});
  ASSERT_TRUE(frozen.ok()) << frozen.status();
  Session session(*frozen->graph);
  const auto y =
      session.Run({{frozen->feeds[0], Row(1, 2)}}, frozen->fetches[0]);
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_THAT(Floats(*y), ElementsAre(19, 32, 45));
}

TEST_F(SavedModels, AreWrittenThroughALinkToAnEmptyFolder) {
  fs::create_directories(In("target"));
  fs::create_directory_symlink(In("target"), In("link"));
  { SavedModelBuilder unsaved(In("link")); }
  {
    SavedModelBuilder unsaved(In("link"));
    ASSERT_TRUE(WriteFile(In("words.txt"), "x").ok());
    EXPECT_TRUE(unsaved.AddAsset(In("words.txt")).ok());
  }
  EXPECT_TRUE(fs::is_empty(In("target")));
  Graph g;
  const Status s = Build(&g, In("link"), In("words.txt"));
  ASSERT_TRUE(s.ok()) << s;
  EXPECT_TRUE(fs::is_symlink(In("link")));
  EXPECT_TRUE(SavedModel::Load(In("target")).ok());
}

TEST_F(SavedModels, CanBeAddedAfterAnErrorOfTheirNames) {
  Graph g;
  const WithGraph use(g);
  const Var w(Constant(2.0f), "w");
  Session session(g);
  ASSERT_TRUE(session.RunTargets({GlobalVariablesInitializer()}).ok());
  SavedModelBuilder builder(In("m"));
  Signature wrong;
  wrong.outputs["y"].name = "nothing:0";
  EXPECT_EQ(
      builder.AddMetaGraphAndVariables(session, {.signatures = {{"f", wrong}}})
          .code(),
      StatusCode::kNotFound);
  const Status s =
      builder.AddMetaGraphAndVariables(session, {.tags = {kServeTag}});
  EXPECT_TRUE(s.ok()) << s;
  EXPECT_TRUE(builder.Save().ok());
}

TEST_F(SavedModels, OfTensorFlow2CanBeExportedAgain) {
  const Result<SavedModel> model =
      SavedModel::Load(std::string(kRecorded) + "v2");
  ASSERT_TRUE(model.ok()) << model.status();
  const auto again = ExportMetaGraph(model->graph(), model->about());
  EXPECT_TRUE(again.ok()) << again.status();
}

TEST_F(SavedModels, HaveEachSetOfTagsOnce) {
  Graph g;
  const WithGraph use(g);
  SavedModelBuilder builder(In("m"));
  EXPECT_TRUE(builder.AddMetaGraph(g, {.tags = {"a", "b"}}).ok());
  EXPECT_EQ(builder.AddMetaGraph(g, {.tags = {"b", "a"}}).code(),
            StatusCode::kAlreadyExists);
}

// ---- Meta graphs

TEST(MetaGraphs, OfTensorFlowAreDifferentiated) {
  for (const std::string name : {"loops", "conditionals"})
    for (const char* prefix : {"", "model"}) {
      const Result<std::string> bytes =
          ReadMetaGraphFile(kRecorded + name + ".meta");
      ASSERT_TRUE(bytes.ok()) << bytes.status();
      Graph g;
      const Result<MetaGraph> about =
          ImportMetaGraph(*bytes, g, {.prefix = prefix});
      ASSERT_TRUE(about.ok()) << about.status();
      const std::string p = *prefix == '\0' ? "" : "model/";
      const Output x = *g.FindOutput(p + "x:0"), z = *g.FindOutput(p + "z:0");
      int swapping = 0, limited = 0;
      for (const WhileContext* loop : g.control_flow().loops()) {
        swapping += loop->swap_memory ? 1 : 0;
        limited += loop->maximum_iterations.valid() ? 1 : 0;
      }
      EXPECT_EQ(swapping, name == "loops" ? 1 : 0);
      EXPECT_EQ(limited, name == "loops" ? 1 : 0);
      const WithGraph use(g);
      const Output slope = Grad(z, x);
      Session session(g);
      const std::string lines = *ReadFile(kRecorded + name + ".txt");
      std::istringstream values(lines);
      float at, value, gradient;
      int count = 0;
      for (; values >> at >> value >> gradient; ++count) {
        const auto got = session.Run({{x, Tensor::Scalar(at)}}, {z, slope});
        ASSERT_TRUE(got.ok()) << got.status();
        EXPECT_NEAR((*got)[0].scalar<float>(), value, 1e-5f * std::abs(value));
        EXPECT_NEAR((*got)[1].scalar<float>(), gradient,
                    1e-5f * std::abs(gradient));
      }
      EXPECT_EQ(count, 3);
    }
}

// The definitions of contexts in a meta graph, without the prefix of their
// names.
std::multiset<std::string> ContextsOf(const std::string& meta_graph,
                                      const std::string& prefix) {
  proto::MetaGraphDef def;
  EXPECT_TRUE(def.ParseFromString(meta_graph));
  std::multiset<std::string> found;
  const auto add = [&](auto context, const std::string& bytes) {
    EXPECT_TRUE(context.ParseFromString(bytes));
    found.insert(absl::StrReplaceAll(context.DebugString(),
                                     {{absl::StrCat("\"", prefix), "\""}}));
  };
  for (const auto& [key, collection] : def.collection_def())
    for (const std::string& bytes : collection.bytes_list().value()) {
      if (key == "while_context") add(proto::WhileContextDef(), bytes);
      if (key == "cond_context") add(proto::CondContextDef(), bytes);
    }
  return found;
}

// Also where conditionals have the same predicate, and after a second journey.
TEST(MetaGraphs, KeepTheContextsThatTensorFlowWrote) {
  for (const char* name : {"loops.meta", "conditionals.meta"})
    for (const std::string prefix : {"", "model"}) {
      const std::string p = prefix.empty() ? "" : "model/";
      const Result<std::string> bytes =
          ReadMetaGraphFile(std::string(kRecorded) + name);
      ASSERT_TRUE(bytes.ok()) << bytes.status();
      Graph g, again;
      ASSERT_TRUE(ImportMetaGraph(*bytes, g, {.prefix = prefix}).ok());
      const Result<std::string> ours = ExportMetaGraph(g);
      ASSERT_TRUE(ours.ok()) << ours.status();
      EXPECT_EQ(ContextsOf(*ours, p), ContextsOf(*bytes, "")) << name;
      ASSERT_TRUE(ImportMetaGraph(*ours, again).ok());
      EXPECT_EQ(ContextsOf(*ExportMetaGraph(again), p), ContextsOf(*bytes, ""))
          << name;
    }
}

TEST(MetaGraphs, KeepCollectionsSaverAndSignatures) {
  Graph g;
  std::string bytes;
  {
    const WithGraph use(g);
    const Output x = Placeholder<float>({-1}, "x");
    const Var w(Constant(2.0f), "w");
    const Var count(Constant(int64_t{0}), "count", {.trainable = false});
    const Output y = x * w;
    Saver saver;
    MetaGraph about;
    about.saver = SaverInfo::Of(saver);
    about.signatures["f"] = *PredictSignature({{"x", x}}, {{"y", y}});
    about.signatures["f"].defaults["x"] = Tensor::Vector<float>({1});
    about.collections["losses"].nodes = {y.name()};
    about.collections["sizes"].ints = {3, 4};
    about.collections["rates"].floats = {0.5f};
    about.collections["notes"].bytes = {"a", std::string("\0b", 2)};
    const Result<std::string> made = ExportMetaGraph(g, about);
    ASSERT_TRUE(made.ok()) << made.status();
    bytes = *made;
  }
  Graph copy;
  const Result<MetaGraph> read = ImportMetaGraph(bytes, copy);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->saver->restore_op, "save/restore_all");
  EXPECT_EQ(read->signatures.at("f").inputs.at("x").ToString(), "float[?] x:0");
  EXPECT_EQ(Floats(read->signatures.at("f").defaults.at("x"))[0], 1);
  EXPECT_THAT(read->collections.at("sizes").ints, ElementsAre(3, 4));
  EXPECT_THAT(read->collections.at("rates").floats, ElementsAre(0.5f));
  EXPECT_THAT(read->collections.at("notes").bytes,
              ElementsAre("a", std::string("\0b", 2)));
  const WithGraph use(copy);
  ASSERT_EQ(GlobalVariables().size(), 2u);
  EXPECT_EQ(TrainableVariables().size(), 1u);
  EXPECT_EQ(copy.collections().at("losses").size(), 1u);
  Session session(copy);
  ASSERT_TRUE(session.RunTargets({GlobalVariablesInitializer()}).ok());
  EXPECT_EQ(session.Run(GlobalVariables()[0].value())->scalar<float>(), 2);
}

TEST(MetaGraphs, KeepPartsOfVariables) {
  Graph g;
  std::string bytes;
  {
    const WithGraph use(g);
    GetPartitionedVariable("table", {4, 2}, FixedSizePartitioner(2),
                           init::Zeros(), DType::kFloat);
    bytes = *ExportMetaGraph(g);
  }
  Graph copy;
  const auto read = ImportMetaGraph(bytes, copy, {.prefix = "again"});
  ASSERT_TRUE(read.ok()) << read.status();
  const WithGraph use(copy);
  ASSERT_EQ(GlobalVariables().size(), 2u);
  const auto part = PartOf(GlobalVariables()[1]);
  ASSERT_TRUE(part.has_value());
  EXPECT_EQ(part->name, "again/table");
  EXPECT_EQ(part->ShapeAndSlice(), "4 2 2,2:-");
}

TEST(MetaGraphs, KeepVariablesThatFollowAnUnknownOne) {
  Graph g;
  std::string text;
  {
    const WithGraph use(g);
    const Var a(Constant(1.0f), "a"), b(Constant(2.0f), "b");
    MetaGraph about;
    const auto bytes = ExportMetaGraph(g);
    // The first names nothing: a variable of an op that was left out.
    about.collections["variables"].bytes =
        ReadMetaGraph(*bytes)->collections.at("variables").bytes;
    std::string& first = about.collections["variables"].bytes.at(0);
    const size_t at = first.find("a");
    ASSERT_NE(at, std::string::npos);
    first[at] = 'z';
    text = *ExportMetaGraph(g, about);
  }
  Graph copy;
  ASSERT_TRUE(ImportMetaGraph(text, copy).ok());
  const WithGraph use(copy);
  ASSERT_EQ(GlobalVariables().size(), 1u);
  EXPECT_EQ(GlobalVariables()[0].name(), "b");
}

TEST(MetaGraphs, RefuseNamesThatTheGraphDoesNotHave) {
  Graph g;
  MetaGraph about;
  about.signatures["f"].inputs["x"].name = "x:0";
  const Status s = ExportMetaGraph(g, about).status();
  EXPECT_THAT(s.message(), HasSubstr("signature 'f', 'x'"));
  MetaGraph mixed;
  mixed.collections["c"].ints = {1};
  mixed.collections["c"].floats = {1};
  EXPECT_EQ(ExportMetaGraph(g, mixed).status().code(),
            StatusCode::kInvalidArgument);
}

TEST(MetaGraphs, OfOurLoopsDivideSwitchesAmongBranchesAndComputeTheSame) {
  Graph g;
  std::string bytes;
  Output x, z;
  {
    const WithGraph use(g);
    x = Placeholder<float>({}, "x");
    z = ops::Identity(Cond(
        x > 1.0f, [&]() -> Output { return x * 3.0f; },
        [&]() -> Output { return x * x; }));
    const Result<std::string> made = ExportMetaGraph(g);
    ASSERT_TRUE(made.ok()) << made.status();
    bytes = *made;
  }
  const auto switches = [](const Graph& of) {
    int count = 0;
    for (const auto& n : of.nodes())
      count += n->op().role == OpRole::kSwitch && n->input(0).name() == "x:0";
    return count;
  };
  EXPECT_EQ(switches(g), 1);
  Graph copy;
  const Result<MetaGraph> about = ImportMetaGraph(bytes, copy);
  ASSERT_TRUE(about.ok()) << about.status();
  EXPECT_EQ(switches(copy), 2);
  EXPECT_EQ(about->collections.at("cond_context").bytes.size(), 2u);
  const WithGraph use(copy);
  const Output x2 = *copy.FindOutput("x:0");
  const Output z2 = *copy.FindOutput(z.name());
  const Output slope = Grad(z2, x2);
  Session session(copy);
  for (const auto& [at, value, gradient] :
       {std::tuple(2.0f, 6.0f, 3.0f), std::tuple(0.5f, 0.25f, 1.0f)}) {
    const auto got = session.Run({{x2, Tensor::Scalar(at)}}, {z2, slope});
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ((*got)[0].scalar<float>(), value);
    EXPECT_EQ((*got)[1].scalar<float>(), gradient);
  }
}

TEST(MetaGraphs, OfImportedConditionalsAreExportedWithoutNewNodes) {
  Graph g;
  std::string bytes;
  {
    const WithGraph use(g);
    const Output x = Placeholder<float>({}, "x");
    ops::Identity(Cond(
        x > 1.0f, [&]() -> Output { return x * 3.0f; },
        [&]() -> Output { return x * x; }));
    bytes = *ExportMetaGraph(g);
  }
  Graph first, second;
  ASSERT_TRUE(ImportMetaGraph(bytes, first).ok());
  const auto again = ExportMetaGraph(first);
  ASSERT_TRUE(again.ok()) << again.status();
  const auto about = ImportMetaGraph(*again, second);
  ASSERT_TRUE(about.ok()) << about.status();
  std::vector<std::string> before, after;
  for (const auto& n : first.nodes()) before.push_back(n->name());
  for (const auto& n : second.nodes()) after.push_back(n->name());
  EXPECT_EQ(after, before);
  EXPECT_EQ(about->collections.at("cond_context").bytes.size(), 2u);
}

// ---- Signatures

TEST(Signatures, HaveTheTypesOfTheirMethods) {
  Graph g;
  const WithGraph use(g);
  const Output text = Placeholder<std::string>({-1}, "text");
  const Output number = Placeholder<float>({-1}, "number");
  EXPECT_TRUE(ClassifySignature(text, text, number).ok());
  EXPECT_TRUE(CheckSignature(*ClassifySignature(text, Output(), number)).ok());
  EXPECT_FALSE(ClassifySignature(text, Output(), Output()).ok());
  EXPECT_FALSE(ClassifySignature(number, text, number).ok());
  EXPECT_FALSE(ClassifySignature(text, number, number).ok());
  EXPECT_TRUE(CheckSignature(*RegressSignature(text, number)).ok());
  EXPECT_FALSE(RegressSignature(text, text).ok());
  EXPECT_FALSE(PredictSignature({}, {{"y", number}}).ok());
  EXPECT_FALSE(PredictSignature({{"x", Output()}}, {{"y", number}}).ok());
  Signature other = *PredictSignature({{"x", number}}, {{"y", number}});
  other.method = kClassifyMethod;
  EXPECT_THAT(CheckSignature(other).message(),
              HasSubstr("expected as inputs 'inputs' of type string"));
}

}  // namespace
}  // namespace sluice
