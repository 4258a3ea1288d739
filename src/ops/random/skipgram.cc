// Skipgram: pairs of words that are near each other in a text file, for
// training word2vec.
#include <algorithm>
#include <array>
#include <cmath>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/strings/str_split.h"
#include "exec/core/kernel.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "io/file.h"
#include "kernels/random/distributions.h"
#include "kernels/random/philox.h"

namespace sluice {
namespace {

// The text as word numbers, and a reader's position in it. Prepared by the
// first step; steps take turns. The same pairs come in the same order in every
// run (TensorFlow's differ from run to run: the op has no seed).
class SkipgramKernel {
 public:
  explicit SkipgramKernel(const Node& n)
      : file_(n.AttrOr<std::string>("filename", "")),
        batch_(n.IntAttr("batch_size")),
        window_(n.IntAttr("window_size")),
        min_count_(n.IntAttr("min_count")),
        subsample_(n.AttrOr<float>("subsample", 0)),
        words_(&generator_) {}

  Status Run(KernelContext& ctx) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (batch_ < 0 || window_ <= 0 || window_ > kMaxWindow)
      return InvalidArgument(
          "batch_size and window_size: expected at least 0, and 1 to ",
          kMaxWindow, ", got ", batch_, " and ", window_);
    if (corpus_.empty()) SLUICE_RETURN_IF_ERROR(Read());
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(5, DType::kInt32, Shape({batch_})));
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(6, DType::kInt32, Shape({batch_})));
    for (int64_t i = 0; i < batch_; ++i) {
      if (i % 65536 == 65535 && ctx.cancelled())
        return Cancelled("the step was cancelled");
      SLUICE_RETURN_IF_ERROR(Next(ctx, &ctx.output(5).raw<int32_t>()[i],
                                  &ctx.output(6).raw<int32_t>()[i]));
    }
    ctx.set_output(0, words_of_ids_);
    ctx.set_output(1, frequencies_);
    ctx.set_output(2, Tensor::Scalar(static_cast<int64_t>(corpus_.size())));
    ctx.set_output(3, Tensor::Scalar(epoch_));
    ctx.set_output(4, Tensor::Scalar(processed_));
    return OkStatus();
  }

 private:
  static constexpr int64_t kSentence = 1000;
  static constexpr int64_t kMaxWindow = 1 << 20;

  // Numbers the words by descending frequency; 0 stands for all rare words.
  Status Read() {
    SLUICE_ASSIGN_OR_RETURN(const std::string text, ReadFile(file_));
    const std::vector<std::string> words =
        absl::StrSplit(text, absl::ByAnyChar(" \t\n\v\f\r"), absl::SkipEmpty());
    if (static_cast<int64_t>(words.size()) < window_ * 10)
      return InvalidArgument("filename: expected a text of at least ",
                             window_ * 10, " words, got ", words.size(),
                             " in '", file_, "'");
    std::unordered_map<std::string, int32_t> count;
    for (const std::string& w : words) ++count[w];
    std::vector<std::pair<std::string, int32_t>> common;
    for (const auto& entry : count)
      if (entry.second >= min_count_) common.push_back(entry);
    std::sort(common.begin(), common.end(), [](const auto& a, const auto& b) {
      return a.second != b.second ? a.second > b.second : a.first < b.first;
    });
    std::vector<std::string> names = {"UNK"};
    std::vector<int32_t> frequencies = {static_cast<int32_t>(words.size())};
    std::unordered_map<std::string, int32_t> id;
    for (const auto& [word, n] : common) {
      id[word] = static_cast<int32_t>(names.size());
      names.push_back(word);
      frequencies.push_back(n);
      frequencies[0] -= n;
    }
    SLUICE_ASSIGN_OR_RETURN(words_of_ids_,
                            Tensor::MakeVector<std::string>(names));
    SLUICE_ASSIGN_OR_RETURN(frequencies_,
                            Tensor::MakeVector<int32_t>(frequencies));
    for (const std::string& w : words) {
      const auto it = id.find(w);
      corpus_.push_back(it == id.end() ? 0 : it->second);
    }
    position_ = corpus_.size();
    return OkStatus();
  }

  // Returns a pair: a word, and one of the words within a random distance, up
  // to the window size, in the subsampled text.
  Status Next(const KernelContext& ctx, int32_t* example, int32_t* label) {
    while (label_ >= label_limit_ || label_ == center_) {
      if (label_ < label_limit_) {
        ++label_;
        continue;
      }
      ++processed_;
      if (++center_ >= kSentence) {
        center_ = 0;
        SLUICE_RETURN_IF_ERROR(FillSentence(ctx));
      }
      const int64_t reach = 1 + words_() % static_cast<uint32_t>(window_);
      label_ = std::max<int64_t>(0, center_ - reach);
      label_limit_ = std::min<int64_t>(kSentence, center_ + reach + 1);
    }
    *example = sentence_[static_cast<size_t>(center_)];
    *label = sentence_[static_cast<size_t>(label_++)];
    return OkStatus();
  }

  // The next thousand subsampled words: frequent words are dropped at random
  // (Mikolov et al., arXiv:1310.4546, equation 5, as in word2vec).
  Status FillSentence(const KernelContext& ctx) {
    const float rare = subsample_ * static_cast<float>(corpus_.size());
    int64_t seen = 0;
    for (size_t kept = 0; kept < sentence_.size();) {
      if (++seen % 65536 == 0 && ctx.cancelled())
        return Cancelled("the step was cancelled");
      if (position_ >= corpus_.size()) {
        position_ = 0;
        ++epoch_;
      }
      const int32_t word = corpus_[position_++];
      if (subsample_ > 0) {
        const auto n = static_cast<float>(frequencies_.raw<int32_t>()[word]);
        const float keep = (std::sqrt(n / rare) + 1) * rare / n;
        if (random::UniformFloat(words_()) > keep) continue;
      }
      sentence_[kept++] = word;
    }
    return OkStatus();
  }

  const std::string file_;
  const int64_t batch_, window_, min_count_;
  const float subsample_;
  std::mutex mutex_;  // Guards all below.
  random::Philox generator_{1, 0};
  random::SingleSamples words_;
  Tensor words_of_ids_, frequencies_;
  std::vector<int32_t> corpus_;  // Empty: not read yet.
  std::array<int32_t, kSentence> sentence_{};
  size_t position_ = 0;  // In the corpus.
  int64_t center_ = kSentence, label_ = 0, label_limit_ = 0;
  int32_t epoch_ = -1;  // (TensorFlow counts the first as 0.)
  int64_t processed_ = 0;
};

Status SkipgramShape(ShapeContext& c) {
  const int64_t batch = c.node().IntAttr("batch_size");
  c.set_output(0, PartialShape({-1}));
  c.set_output(1, PartialShape({-1}));
  for (const int i : {2, 3, 4}) c.set_output(i, PartialShape::Scalar());
  for (const int i : {5, 6})
    c.set_output(i, PartialShape({std::max<int64_t>(batch, -1)}));
  return OkStatus();
}

SLUICE_OP(Skipgram)
    .Output("vocab_word: string")
    .Output("vocab_freq: int32")
    .Output("words_per_epoch: int64")
    .Output("current_epoch: int32")
    .Output("total_words_processed: int64")
    .Output("examples: int32")
    .Output("labels: int32")
    .Attr("filename: string")
    .Attr("batch_size: int")
    .Attr("window_size: int = 5")
    .Attr("min_count: int = 5")
    .Attr("subsample: float = 1e-3")
    .Stateful(kOwnsState)
    .Family("random")
    .ReachesHost([](const Node&) -> std::string { return "reads a file"; })
    .Shape(SkipgramShape)
    .Kernel(CpuState<SkipgramKernel>(true))
    .NoGradient("its outputs are words")
    .Doc("Returns pairs of words that are near each other in a text file.");

}  // namespace
}  // namespace sluice
