#include "tools/sluice/demo_text.h"

#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <random>
#include <tuple>

namespace sluice::demo {
namespace {

constexpr int kBatch = 32, kLength = 40, kSymbols = 128, kWritten = 500;

// The model, written as a user of the library would.
struct TextModel {
  explicit TextModel(int units)
      : embedding(GetVariable("embedding", {kSymbols, 64})),
        w(GetVariable("w", {units, kSymbols})),
        b(GetVariable("b", {kSymbols}, init::Zeros())),
        cell(LstmCell(units)),
        pieces(Placeholder<int32_t>({kBatch, kLength + 1})),
        first(Placeholder<int32_t>(PartialShape::Scalar())),
        count(Placeholder<int32_t>(PartialShape::Scalar())) {
    // Each character is predicted from those before it.
    const Output from = ops::Slice(pieces, {0, 0}, {kBatch, kLength});
    const Output to = ops::Slice(pieces, {0, 1}, {kBatch, kLength});
    const RnnResult rnn = DynamicRnn(cell, ops::GatherV2(embedding, from, 0));
    const Output flat = ops::Reshape(rnn.outputs, {kBatch * kLength, units});
    loss = ops::Mean(ops::SparseSoftmaxCrossEntropyWithLogits(
                         Scores(flat), ops::Reshape(to, {-1}))
                         .loss,
                     0);
    train = AdagradOptimizer(0.1, 1e-5).Minimize(loss);
    BuildWriting();
  }

  Output Scores(Output h) const { return ops::MatMul(h, w) + b; }

  // A loop in the graph: each character is sampled and fed back.
  void BuildWriting() {
    const auto result = While(
        std::tuple{0, ops::Reshape(first, {1}), cell.ZeroState(1),
                   TensorArray(DType::kInt32, count)},
        [&](Output n, auto...) { return n < count; },
        [&](Output n, Output c, const RnnState& state,
            const TensorArray& so_far) {
          const RnnStep step = cell(ops::GatherV2(embedding, c, 0), state);
          // (Sharpens the distribution slightly, which reduces errors.)
          const Output next =
              ops::Reshape(ops::Multinomial(Scores(step.output) / 0.6f, 1,
                                            {.output_dtype = DType::kInt32}),
                           {1});
          return std::tuple{n + 1, next, step.state, so_far.Write(n, next)};
        },
        {.back_prop = false, .name = "write"});
    written = ops::Reshape(std::get<3>(result).Stack(), {-1});
  }

  Var embedding, w, b;
  RnnCell cell;
  Output pieces, first, count;
  Output loss, written;
  Node* train = nullptr;
};

class TextTrainer {
 public:
  TextTrainer(std::string text, const TextOptions& options)
      : text_(std::move(text)),
        options_(options),
        random_(options.seed),
        use_(graph_),
        session_(graph_) {}

  Result<TextTraining> Run() {
    SetRandomSeed(static_cast<int64_t>(options_.seed));
    const TextModel model(options_.units);
    SLUICE_RETURN_IF_ERROR(graph_.status());
    result_.path = options_.path;
    result_.characters = static_cast<int64_t>(text_.size());
    result_.nodes = graph_.num_nodes();
    for (const Var& v : TrainableVariables())
      result_.parameters += static_cast<int>(v.shape().num_elements());
    std::printf("Language model of %s: %d parameters, %d nodes\n",
                options_.path.c_str(), result_.parameters, result_.nodes);
    SLUICE_RETURN_IF_ERROR(session_.RunTargets({GlobalVariablesInitializer()}));
    SLUICE_ASSIGN_OR_RETURN(
        const Session::Callable step,
        session_.MakeCallable({model.pieces}, {model.loss}, {model.train}));
    for (int i = 0; i < options_.steps; ++i) {
      SLUICE_RETURN_IF_ERROR(Step(step, i));
      if (i + 1 == (options_.steps + 9) / 10) {
        SLUICE_ASSIGN_OR_RETURN(result_.first_words, Write(model));
      }
    }
    SLUICE_ASSIGN_OR_RETURN(result_.last_words, Write(model));
    result_.final_bits = result_.bits.back().value;
    result_.step_ms = 1e3 * result_.seconds / options_.steps;
    result_.characters_per_second =
        double{kBatch * kLength} * options_.steps / result_.seconds;
    std::printf(
        "%s  %.2f bits per character; %.0f characters/s, %.1f ms per "
        "step, %.1f s of training\n",
        options_.terminal ? "\r\033[K" : "", result_.final_bits,
        result_.characters_per_second, result_.step_ms, result_.seconds);
    return std::move(result_);
  }

 private:
  Status Step(const Session::Callable& step, int i) {
    const int64_t start = NowNs();
    SLUICE_ASSIGN_OR_RETURN(const std::vector<Tensor> out,
                            step.Run({Pieces()}));
    result_.seconds += static_cast<double>(NowNs() - start) * 1e-9;
    const double bits = out[0].scalar<float>() / std::log(2.0);
    smooth_ = i == 0 ? bits : 0.95 * smooth_ + 0.05 * bits;
    const int done = i + 1, steps = options_.steps;
    if (i == 0 || done % std::max(1, steps / 100) == 0 || done == steps)
      result_.bits.push_back({double(done), smooth_});
    constexpr int kWidth = 30;
    if (options_.terminal) {
      if (done % std::max(1, steps / 100) != 0) return OkStatus();
      const int full = kWidth * done / steps;
      std::printf("\r  step %d/%d [%s%s]  %.2f bits per character \033[K", done,
                  steps, std::string(static_cast<size_t>(full), '=').c_str(),
                  std::string(static_cast<size_t>(kWidth - full), ' ').c_str(),
                  smooth_);
    } else if (done % std::max(1, steps / 4) == 0) {
      std::printf("  step %d/%d  %.2f bits per character\n", done, steps,
                  smooth_);
    }
    std::fflush(stdout);
    return OkStatus();
  }

  // Random pieces of the text.
  Tensor Pieces() {
    Tensor t(DType::kInt32, {kBatch, kLength + 1});
    int32_t* to = t.data<int32_t>();
    for (int i = 0; i < kBatch; ++i) {
      const size_t from = random_() % (text_.size() - kLength);
      for (size_t k = 0; k <= kLength; ++k)
        *to++ = text_[from + k] & (kSymbols - 1);
    }
    return t;
  }

  Result<std::string> Write(const TextModel& model) {
    const int64_t start = NowNs();
    SLUICE_ASSIGN_OR_RETURN(
        const Tensor characters,
        session_.Run({{model.first, Tensor::Scalar<int32_t>('\n')},
                      {model.count, Tensor::Scalar<int32_t>(kWritten)}},
                     model.written));
    result_.written_per_second =
        kWritten / (static_cast<double>(NowNs() - start) * 1e-9);
    std::string s;
    for (const int32_t c : characters.flat<int32_t>())
      s += c >= ' ' || c == '\n' ? static_cast<char>(c) : '?';
    return s;
  }

  const std::string text_;
  const TextOptions& options_;
  std::mt19937_64 random_;
  Graph graph_;
  const WithGraph use_;
  Session session_;
  TextTraining result_;
  double smooth_ = 0;
};

}  // namespace

Result<TextTraining> TrainOnText(const TextOptions& options) {
  std::ifstream file(options.path, std::ios::binary);
  if (!file)
    return NotFound("no text at ", options.path,
                    "; hint: name another with --text");
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (text.size() <= kLength)
    return InvalidArgument("text ", options.path, ": expected more than ",
                           kLength, " characters, got ", text.size());
  return TextTrainer(std::move(text), options).Run();
}

}  // namespace sluice::demo
