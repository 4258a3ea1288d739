// For any input bytes, the ops that parse text and encoded strings return
// values that agree with the input, or an error: lines of comma-separated
// values, Examples in JSON, base64, compressed strings, tensors, and the text
// files of tables.
//
// The first byte chooses the op and its attributes. Seeds are in
// tests/fuzz/text_fuzz.
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "graph/builder.h"
#include "graph/graph.h"
#include "io/example.h"
#include "session/session.h"
#include "sluice/ops.h"

namespace {

using sluice::AttrValue;
using sluice::Build;
using sluice::BuildNode;
using sluice::DType;
using sluice::Output;
using sluice::Result;
using sluice::Session;
using sluice::Tensor;

void Require(bool ok) {
  if (!ok) std::abort();
}

// The values, unless the step ended with an error that an input may cause.
std::vector<Tensor> ValuesOf(const Result<std::vector<Tensor>>& step) {
  if (step.ok()) return *step;
  Require(step.status().code() != sluice::StatusCode::kInternal);
  return {};
}

// Ops of one string, each with a step of its own.
class Parsers {
 public:
  Parsers() {
    const sluice::WithGraph use(graph_);
    text_ =
        sluice::ops::Placeholder(DType::kString, {.shape = sluice::Shape()});
    for (const char* const delimiter : {",", "\t"})
      for (const bool quotes : {true, false}) {
        sluice::Node* const csv = BuildNode(
            "DecodeCSV",
            {text_, sluice::Constant(1.5f),
             sluice::Constant(Tensor(DType::kInt64, sluice::Shape({0}))),
             sluice::Constant(Tensor::Scalar<std::string>("none"))},
            {{"OUT_TYPE",
              AttrValue::Types{DType::kFloat, DType::kInt64, DType::kString}},
             {"field_delim", delimiter},
             {"use_quote_delim", quotes}});
        csv_.push_back(
            StepOf({Output(csv, 0), Output(csv, 1), Output(csv, 2)}));
      }
    json_ = StepOf({Build("DecodeJSONExample", {text_})});
    base64_ = StepOf({Build("DecodeBase64", {text_})});
    for (const bool pad : {false, true})
      base64_again_.push_back(StepOf({Build(
          "DecodeBase64", {Build("EncodeBase64", {text_}, {{"pad", pad}})})}));
    for (const char* const type : {"", "ZLIB", "GZIP"})
      inflate_.push_back(StepOf(
          {Build("DecodeCompressed", {text_}, {{"compression_type", type}})}));
    for (const DType type : {DType::kFloat, DType::kString}) {
      const AttrValue out(type);
      const Output parsed = Build("ParseTensor", {text_}, {{"out_type", out}});
      tensor_.push_back(StepOf(
          {parsed, Build("ParseTensor", {Build("SerializeTensor", {parsed})},
                         {{"out_type", out}})}));
    }
  }

  void Try(uint8_t choice, const std::string& text) {
    const size_t variant = choice / 5;
    switch (choice % 5) {
      case 0:
        for (const Tensor& t : Run(csv_[variant % csv_.size()], text))
          Require(t.rank() == 0);
        break;
      case 1:
        for (const Tensor& t : Run(json_, text)) RequireExample(t);
        break;
      case 2: {
        for (const Tensor& t : Run(base64_, text))
          Require(t.scalar<std::string>().size() <= text.size());
        const auto same =
            Run(base64_again_[variant % base64_again_.size()], text);
        Require(same.size() == 1 && same[0].scalar<std::string>() == text);
        break;
      }
      case 3: {
        const size_t type = variant % inflate_.size();
        for (const Tensor& t : Run(inflate_[type], text))
          Require(type != 0 || t.scalar<std::string>() == text);
        break;
      }
      default:
        const auto values = Run(tensor_[variant % tensor_.size()], text);
        if (values.empty()) break;
        Require(values[0].shape() == values[1].shape());
        if (values[0].dtype() == DType::kString)
          Require(std::ranges::equal(values[0].raw_flat<std::string>(),
                                     values[1].raw_flat<std::string>()));
        else
          Require(std::memcmp(values[0].raw(), values[1].raw(),
                              values[0].bytes()) == 0);
    }
  }

 private:
  Session::Callable StepOf(const std::vector<Output>& fetches) {
    auto step = session_.MakeCallable({text_}, fetches);
    Require(step.ok());
    return *std::move(step);
  }
  static std::vector<Tensor> Run(const Session::Callable& step,
                                 const std::string& text) {
    return ValuesOf(step.Run({Tensor::Scalar(text)}));
  }
  // Any Example is one without features that are asked for.
  static void RequireExample(const Tensor& serialized) {
    Require(ParseExamples(serialized,
                          Tensor(DType::kString, sluice::Shape({0})), {})
                .ok());
  }

  sluice::Graph graph_;
  Session session_{graph_};
  Output text_;
  std::vector<Session::Callable> csv_, base64_again_, inflate_, tensor_;
  Session::Callable json_, base64_;
};

// Tables that are filled from a file. Each run has tables of its own, those of
// a new session.
class Vocabularies {
 public:
  Vocabularies()
      : path_((std::filesystem::temp_directory_path() /
               ("sluice_text_fuzz_" + std::to_string(getpid())))
                  .string()) {
    const sluice::WithGraph use(graph_);
    // Lines to their numbers; and two columns, the first as the key.
    Add(DType::kString, -2, -1);
    Add(DType::kInt64, 0, 1);
  }
  ~Vocabularies() { std::filesystem::remove(path_); }

  void Try(uint8_t choice, const std::string& text) {
    std::ofstream(path_, std::ios::binary) << text;
    const Table& table = tables_[choice % tables_.size()];
    Session session(graph_);
    const sluice::Status filled = session.RunTargets({table.fill});
    if (!filled.ok()) {
      Require(filled.code() != sluice::StatusCode::kInternal);
      return;
    }
    const auto size = session.Run(table.size);
    Require(size.ok() && size->scalar<int64_t>() > 0 &&
            size->scalar<int64_t>() <=
                std::count(text.begin(), text.end(), '\n') + 1);
  }

 private:
  struct Table {
    sluice::Node* fill;
    Output size;
  };

  void Add(DType keys, int64_t key_index, int64_t value_index) {
    const Output table =
        Build("HashTableV2", {},
              {{"key_dtype", keys}, {"value_dtype", DType::kInt64}});
    tables_.push_back(
        {BuildNode("InitializeTableFromTextFileV2",
                   {table, sluice::Constant(Tensor::Scalar(path_))},
                   {{"key_index", key_index}, {"value_index", value_index}}),
         Build("LookupTableSizeV2", {table})});
  }

  const std::string path_;
  sluice::Graph graph_;
  std::vector<Table> tables_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static Parsers parsers;
  static Vocabularies vocabularies;
  if (size == 0) return 0;
  const uint8_t choice = data[0];
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  // (A table needs a session, which takes longer than the other ops.)
  if (choice % 8 == 7)
    vocabularies.Try(choice / 8, text);
  else
    parsers.Try(choice, text);
  return 0;
}
