// Sampled softmax: sampled candidates instead of all classes.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "exec/core/kernel.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "io/file.h"
#include "kernels/random/distributions.h"
#include "ops/random/generator.h"

namespace sluice {
namespace {

// State: num_true.
Status RunAccidentalHits(KernelContext& ctx) {
  const Tensor& classes = ctx.input(0);
  const Tensor& sampled = ctx.input(1);
  const int64_t num_true = ctx.state<int64_t>();
  if (classes.rank() != 2 || classes.dim(1) != num_true)
    return InvalidArgument("true_classes: expected shape [?,", num_true,
                           "], got ", classes.shape().ToString());
  if (sampled.rank() != 1)
    return InvalidArgument("sampled_candidates: expected a vector, got shape ",
                           sampled.shape().ToString());
  std::unordered_map<int64_t, int64_t> place;  // The last of equal ones.
  for (int64_t i = 0; i < sampled.num_elements(); ++i)
    place[sampled.raw<int64_t>()[i]] = i;
  std::vector<int32_t> indices;
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < classes.num_elements(); ++i) {
    auto it = place.find(classes.raw<int64_t>()[i]);
    if (it == place.end()) continue;
    indices.push_back(static_cast<int32_t>(i / num_true));
    ids.push_back(it->second);
  }
  // Added to the logits of the hits, this removes them from the softmax.
  const std::vector<float> weights(indices.size(),
                                   -std::numeric_limits<float>::max());
  SLUICE_ASSIGN_OR_RETURN(ctx.output(0), Tensor::MakeVector<int32_t>(indices));
  SLUICE_ASSIGN_OR_RETURN(ctx.output(1), Tensor::MakeVector<int64_t>(ids));
  SLUICE_ASSIGN_OR_RETURN(ctx.output(2), Tensor::MakeVector<float>(weights));
  return OkStatus();
}

Status MakeAccidentalHits(const Node& n, Kernel* k) {
  k->state = std::make_shared<int64_t>(n.IntAttr("num_true"));
  k->run = RunAccidentalHits;
  return OkStatus();
}

Status AccidentalHitsShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const PartialShape classes, c.WithRank(0, 2));
  SLUICE_RETURN_IF_ERROR(
      MergeDim(classes.dim(1), c.node().IntAttr("num_true")).status());
  SLUICE_RETURN_IF_ERROR(c.WithRank(1, 1).status());
  c.set_all_outputs(PartialShape({-1}));
  return OkStatus();
}

SLUICE_OP(ComputeAccidentalHits)
    .Input("true_classes: int64")
    .Input("sampled_candidates: int64")
    .Output("indices: int32")
    .Output("ids: int64")
    .Output("weights: float")
    .Attr("num_true: int")
    .Attr("seed: int = 0")
    .Attr("seed2: int = 0")
    .Family("random")
    .Shape(AccidentalHitsShape)
    .Kernel(MakeAccidentalHits)
    .NoGradient("its outputs are integers")
    .Sample({{.shape = {2, 2}, .values = {1, 2, 3, 4}},
             {.shape = {3}, .values = {4, 9, 1}}},
            {{"num_true", 2}})
    .Doc(
        "Finds sampled candidates that are true classes: the row, the index "
        "of the candidate, and the weight that masks it.");

// ---- Classes at random ------------------------------------------------------

// Draws numbers from a stream, one word after the other.
class Words {
 public:
  explicit Words(random::Philox* gen) : next_(gen) {}
  uint32_t Next32() { return next_(); }
  uint64_t Next64() {
    const uint32_t low = next_();
    return random::Join64(low, next_());
  }
  float NextFloat() { return random::UniformFloat(next_()); }
  double NextDouble() {
    const uint32_t high = next_();
    return random::UniformDouble(high, next_());
  }
  // Uniform below n > 0: words that would introduce a bias are skipped.
  uint32_t Below32(uint32_t n) {
    if ((n & (n - 1)) == 0) return Next32() & (n - 1);
    const uint32_t least = std::numeric_limits<uint32_t>::max() % n + 1;
    while (true)
      if (const uint32_t x = Next32(); x >= least) return x % n;
  }
  uint64_t Below64(uint64_t n) {
    if ((n & (n - 1)) == 0) return Next64() & (n - 1);
    const uint64_t least = std::numeric_limits<uint64_t>::max() % n + 1;
    while (true)
      if (const uint64_t x = Next64(); x >= least) return x % n;
  }

 private:
  random::SingleSamples next_;
};

// A distribution of the classes [0, range). Used by one thread at a time.
class ClassSampler {
 public:
  explicit ClassSampler(int64_t range) : range_(range) {}
  virtual ~ClassSampler() = default;
  int64_t range() const { return range_; }
  // The number of classes that can be drawn.
  virtual int64_t possible() const { return range_; }
  virtual int64_t Draw(Words* words) = 0;
  virtual float Probability(int64_t c) const = 0;
  // Learns from the true classes of a step.
  virtual void Learn(std::span<const int64_t>) {}

 private:
  const int64_t range_;
};

class UniformClasses : public ClassSampler {
 public:
  using ClassSampler::ClassSampler;
  int64_t Draw(Words* words) override {
    return static_cast<int64_t>(words->Below64(static_cast<uint64_t>(range())));
  }
  float Probability(int64_t) const override {
    return static_cast<float>(1.0 / static_cast<double>(range()));
  }
};

// Class c with probability log((c + 2) / (c + 1)) / log(range + 1).
class LogUniformClasses : public ClassSampler {
 public:
  explicit LogUniformClasses(int64_t range)
      : ClassSampler(range), log_range_(std::log1p(range)) {}
  int64_t Draw(Words* words) override {
    const double x = std::exp(words->NextDouble() * log_range_);
    // (2^62 exceeds any possible number of classes.)
    return (static_cast<int64_t>(std::min(x, 0x1p62)) - 1) % range();
  }
  float Probability(int64_t c) const override {
    const auto x = static_cast<double>(c);
    return static_cast<float>(std::log((x + 2) / (x + 1)) / log_range_);
  }

 private:
  const double log_range_;
};

// Weights are one more than the number of times a class was true so far. Sums
// over a binary tree of classes, storing only what differs from the start.
class LearnedClasses : public ClassSampler {
 public:
  explicit LearnedClasses(int64_t range) : ClassSampler(range), total_(range) {
    while ((int64_t{1} << levels_) < range) ++levels_;
  }
  int64_t Draw(Words* words) override {
    auto position =
        static_cast<int64_t>(words->Below32(static_cast<uint32_t>(total_)));
    int64_t node = 0;
    for (int level = 1; level <= levels_; ++level) {
      node *= 2;
      if (const int64_t left = Sum(level, node); position >= left) {
        position -= left;
        ++node;
      }
    }
    return node;
  }
  float Probability(int64_t c) const override {
    return static_cast<float>(Sum(levels_, c)) / static_cast<float>(total_);
  }
  void Learn(std::span<const int64_t> classes) override {
    for (int64_t c : classes) {
      if (total_ == std::numeric_limits<int32_t>::max()) return;
      ++total_;
      for (int level = levels_; level > 0; --level, c /= 2)
        ++more_[(int64_t{1} << level) + c];
    }
  }

 private:
  // The sum over the classes below a node.
  int64_t Sum(int level, int64_t node) const {
    const int64_t size = int64_t{1} << (levels_ - level);
    const int64_t first = std::min(node * size, range());
    const int64_t count = std::min(first + size, range()) - first;
    const auto more = more_.find((int64_t{1} << level) + node);
    return count + (more == more_.end() ? 0 : more->second);
  }

  int levels_ = 0;
  int64_t total_;
  std::unordered_map<int64_t, int64_t> more_;
};

// Given weights (Walker's alias method; the order of pairing affects bits).
class WeightedClasses : public ClassSampler {
 public:
  WeightedClasses(const std::vector<float>& weights, float total)
      : ClassSampler(static_cast<int64_t>(weights.size())),
        weights_(weights),
        total_(total) {
    const size_t n = weights.size();
    double sum = 0;
    for (float w : weights) {
      sum += static_cast<double>(w);
      possible_ += w > 0;
    }
    std::vector<double> part(n);
    std::vector<size_t> low, high;
    for (size_t i = 0; i < n; ++i) {
      part[i] = static_cast<double>(weights[i] * static_cast<float>(n)) / sum;
      (part[i] < 1.0 ? low : high).push_back(i);
    }
    other_.resize(n);
    for (size_t i = 0; i < n; ++i) other_[i] = static_cast<int64_t>(i);
    while (!low.empty() && !high.empty()) {
      const size_t l = low.back(), h = high.back();
      low.pop_back();
      high.pop_back();
      other_[l] = static_cast<int64_t>(h);
      part[h] -= 1.0 - part[l];
      (part[h] < 1.0 ? low : high).push_back(h);
    }
    stay_.assign(part.begin(), part.end());
    for (const auto& rest : {low, high})
      for (size_t i : rest) {
        stay_[i] = 1;
        other_[i] = static_cast<int64_t>(i);
      }
  }
  int64_t possible() const override { return possible_; }
  int64_t Draw(Words* words) override {
    const float x = words->NextFloat();
    const auto i = words->Below32(static_cast<uint32_t>(range()));
    return x < stay_[i] ? i : other_[i];
  }
  float Probability(int64_t c) const override {
    return weights_[static_cast<size_t>(c)] / total_;
  }

 private:
  const std::vector<float> weights_;
  const float total_;
  int64_t possible_ = 0;
  std::vector<float> stay_;
  std::vector<int64_t> other_;
};

// ---- The ops ----------------------------------------------------------------

// The state of a node: its stream and its distribution. Shared by all steps,
// which take turns.
class CandidateKernel {
 public:
  static Result<std::shared_ptr<CandidateKernel>> Make(const Node& n) {
    auto k = std::make_shared<CandidateKernel>(n);
    if (k->num_sampled_ > std::numeric_limits<int32_t>::max())
      return InvalidArgument("num_sampled: expected at most ",
                             std::numeric_limits<int32_t>::max(), ", got ",
                             k->num_sampled_);
    const std::string& op = n.op_name();
    if (op == "AllCandidateSampler") return k;
    const int64_t range = n.IntAttr("range_max");
    if (op == "UniformCandidateSampler") {
      k->sampler_ = std::make_unique<UniformClasses>(range);
    } else if (op == "LogUniformCandidateSampler") {
      k->sampler_ = std::make_unique<LogUniformClasses>(range);
    } else if (op == "FixedUnigramCandidateSampler") {
      SLUICE_RETURN_IF_ERROR(k->ReadWeights(n, range));
    } else {
      if (range >= std::numeric_limits<int32_t>::max())
        return InvalidArgument("range_max: expected less than ",
                               std::numeric_limits<int32_t>::max(), ", got ",
                               range);
      k->sampler_ = std::make_unique<LearnedClasses>(range);
    }
    return k;
  }
  explicit CandidateKernel(const Node& n)
      : num_true_(n.IntAttr("num_true")),
        num_sampled_(n.IntAttr("num_sampled")),
        unique_(n.BoolAttr("unique")),
        generator_(n.IntAttr("seed"), n.IntAttr("seed2")) {}

  Status Run(KernelContext& ctx) {
    const Tensor& classes = ctx.input(0);
    if (classes.rank() != 2 || classes.dim(1) != num_true_)
      return InvalidArgument("true_classes: expected shape [?,", num_true_,
                             "], got ", classes.shape().ToString());
    const int64_t range = sampler_ ? sampler_->range() : num_sampled_;
    const auto given = classes.raw_flat<int64_t>();
    for (int64_t c : given)
      if (c < 0 || c >= range)
        return InvalidArgument("true_classes: expected classes in [0, ", range,
                               "), got ", c);
    const int64_t possible = sampler_ ? sampler_->possible() : range;
    if (unique_ && num_sampled_ > possible)
      return InvalidArgument("num_sampled: expected at most ", possible,
                             " where samples are unique, got ", num_sampled_);
    SLUICE_RETURN_IF_ERROR(
        ctx.Allocate(0, DType::kInt64, Shape({num_sampled_})));
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(1, DType::kFloat, classes.shape()));
    SLUICE_RETURN_IF_ERROR(
        ctx.Allocate(2, DType::kFloat, Shape({num_sampled_})));
    const auto sampled = ctx.output(0).raw_flat<int64_t>();
    const auto of_true = ctx.output(1).raw_flat<float>();
    const auto of_sampled = ctx.output(2).raw_flat<float>();
    const std::lock_guard<std::mutex> lock(mutex_);
    // (TensorFlow's reservation; rejections may exceed it.)
    random::Philox gen = generator_.ReserveWords(2048 * num_sampled_);
    if (!sampler_) {
      for (size_t i = 0; i < sampled.size(); ++i)
        sampled[i] = static_cast<int64_t>(i);
      std::fill(of_true.begin(), of_true.end(), 1.0f);
      std::fill(of_sampled.begin(), of_sampled.end(), 1.0f);
      return OkStatus();
    }
    Words words(&gen);
    int64_t tries = num_sampled_;
    if (unique_) {
      SLUICE_ASSIGN_OR_RETURN(tries, DrawUnique(ctx, &words, sampled));
    } else {
      for (int64_t& c : sampled) c = sampler_->Draw(&words);
    }
    for (size_t i = 0; i < sampled.size(); ++i)
      of_sampled[i] = ExpectedCount(sampler_->Probability(sampled[i]), tries);
    for (size_t i = 0; i < given.size(); ++i)
      of_true[i] = ExpectedCount(sampler_->Probability(given[i]), tries);
    sampler_->Learn(given);
    return OkStatus();
  }

 private:
  // Reads the weights for this shard from the node's attributes or a file.
  Status ReadWeights(const Node& n, int64_t range) {
    constexpr int64_t kMaxClasses = int64_t{1} << 28;
    const auto file = n.AttrOr<std::string>("vocab_file", "");
    const auto unigrams = n.AttrOr<AttrValue::Floats>("unigrams", {});
    if (file.empty() == unigrams.empty())
      return InvalidArgument(
          "vocab_file and unigrams: expected one of them, got ",
          file.empty() ? "none" : "both");
    if (range > kMaxClasses)
      return InvalidArgument("range_max: expected at most ", kMaxClasses,
                             ", got ", range);
    const int64_t shards = n.IntAttr("num_shards"), shard = n.IntAttr("shard");
    const float distortion = n.AttrOr<float>("distortion", 1.0f);
    const int64_t reserved = n.IntAttr("num_reserved_ids");
    const int64_t mine =
        reserved <= shard ? 0 : (reserved - shard - 1) / shards + 1;
    if (mine > range)
      return InvalidArgument("num_reserved_ids: expected at most ", range,
                             " of this shard, got ", mine);
    std::vector<float> weights(shard < shards ? static_cast<size_t>(mine) : 0);
    // (The index counts this shard's weights only, as in TensorFlow.)
    auto id = static_cast<int64_t>(weights.size());
    float total = 0;
    const auto add = [&](float weight) {
      if (id++ % shards != shard) return;
      weights.push_back(std::pow(weight, distortion));
      total += weights.back();
    };
    for (float w : unigrams) add(w);
    if (!file.empty()) {
      SLUICE_ASSIGN_OR_RETURN(const std::string text, ReadFile(file));
      for (absl::string_view line :
           absl::StrSplit(text, '\n', absl::SkipEmpty())) {
        const size_t comma = line.rfind(',');
        float w = 0;
        if (!absl::SimpleAtof(
                comma == line.npos ? line : line.substr(comma + 1), &w))
          return InvalidArgument(
              "vocab_file: expected a weight after the last comma of a line, "
              "got '",
              std::string(line), "'");
        add(w);
      }
    }
    if (static_cast<int64_t>(weights.size()) != range)
      return InvalidArgument("range_max: expected the number of weights, ",
                             weights.size(), ", got ", range);
    if (!(total > 0) || !std::isfinite(total) ||
        std::any_of(weights.begin(), weights.end(),
                    [](float w) { return !(w >= 0); }))
      return InvalidArgument(
          "unigrams: expected weights of at least 0 with a finite sum above "
          "0, got the sum ",
          total);
    sampler_ = std::make_unique<WeightedClasses>(weights, total);
    return OkStatus();
  }

  // Returns the number of tries.
  Result<int64_t> DrawUnique(const KernelContext& ctx, Words* words,
                             std::span<int64_t> sampled) {
    constexpr int64_t kTriesPerLook = 4096;
    // After this many tries only classes with negligible weight remain.
    const int64_t most =
        std::max(int64_t{1} << 22, 1000 * int64_t{num_sampled_});
    std::unordered_set<int64_t> used;
    int64_t tries = 0;
    for (int64_t& c : sampled) {
      do {
        if (++tries == most)
          return InvalidArgument("num_sampled: expected ", num_sampled_,
                                 " classes that can be drawn in ", tries,
                                 " tries, got ", used.size());
        // Drawing a very unlikely class may take minutes.
        if (tries % kTriesPerLook == 0 && ctx.cancelled())
          return Cancelled("the step was cancelled");
        c = sampler_->Draw(words);
      } while (!used.insert(c).second);
    }
    return tries;
  }

  // Treats the number of tries as fixed.
  float ExpectedCount(float p, int64_t tries) const {
    if (tries == num_sampled_) return p * static_cast<float>(num_sampled_);
    return -std::expm1(static_cast<float>(tries) * std::log1p(-p));
  }

  const int64_t num_true_, num_sampled_;
  const bool unique_;
  random::GuardedPhilox generator_;
  std::unique_ptr<ClassSampler> sampler_;  // Null: all classes.
  std::mutex mutex_;                       // Guards the sampler's state.
};

Status CandidatesShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const PartialShape classes, c.WithRank(0, 2));
  const int64_t num_true = c.node().IntAttr("num_true");
  SLUICE_RETURN_IF_ERROR(MergeDim(classes.dim(1), num_true).status());
  const int64_t sampled = c.node().IntAttr("num_sampled");
  c.set_output(0, PartialShape({sampled}));
  c.set_output(1, PartialShape({classes.dim(0), num_true}));
  c.set_output(2, PartialShape({sampled}));
  return OkStatus();
}

OpDefBuilder Candidates(const char* name, const char* doc) {
  OpDefBuilder b(name);
  b.Input("true_classes: int64")
      .Output("sampled_candidates: int64")
      .Output("true_expected_count: float")
      .Output("sampled_expected_count: float")
      .Attr("num_true: int >= 1")
      .Attr("num_sampled: int >= 1")
      .Attr("unique: bool")
      .Stateful(kOwnsState)
      .Family("random")
      .Shape(CandidatesShape)
      .Kernel(CpuState<CandidateKernel>(true))
      .NoGradient(random::kNoGradient)
      .Doc(doc);
  return b;
}

OpDefBuilder RangeCandidates(const char* name, const char* doc) {
  OpDefBuilder b = Candidates(name, doc);
  b.Attr("range_max: int >= 1").Attr("seed: int = 0").Attr("seed2: int = 0");
  b.Sample({{.shape = {2, 2}, .values = {1, 2, 3, 4}}}, {{"num_true", 2},
                                                         {"num_sampled", 3},
                                                         {"unique", true},
                                                         {"range_max", 9},
                                                         {"seed", 7}});
  return b;
}

const OpRegistrar kCandidates[] = {
    RangeCandidates("UniformCandidateSampler", "Samples classes uniformly."),
    RangeCandidates("LogUniformCandidateSampler",
                    "Samples classes from the log-uniform distribution, which "
                    "suits words sorted by descending frequency."),
    RangeCandidates("LearnedUnigramCandidateSampler",
                    "Samples classes by their frequency among the true classes "
                    "of earlier steps."),
    RangeCandidates("ThreadUnsafeUnigramCandidateSampler",
                    "The same as LearnedUnigramCandidateSampler."),
    std::move(
        Candidates("AllCandidateSampler", "Returns all classes, in order.")
            .Attr("seed: int = 0")
            .Attr("seed2: int = 0")
            .Sample({{.shape = {2, 1}, .values = {1, 2}}},
                    {{"num_true", 1}, {"num_sampled", 3}, {"unique", true}})),
    std::move(Candidates("FixedUnigramCandidateSampler",
                         "Samples classes by weights that are given, or read "
                         "from the last column of a file.")
                  .Attr("range_max: int >= 1")
                  .Attr("vocab_file: string = ''")
                  .ReachesHost([](const Node& n) -> std::string {
                    return n.AttrOr<std::string>("vocab_file", "").empty()
                               ? ""
                               : "reads a file";
                  })
                  .Attr("distortion: float = 1.0")
                  .Attr("num_reserved_ids: int = 0")
                  .Attr("num_shards: int >= 1 = 1")
                  .Attr("shard: int >= 0 = 0")
                  .Attr("unigrams: list(float) = []")
                  .Attr("seed: int = 0")
                  .Attr("seed2: int = 0")
                  .Sample({{.shape = {2, 1}, .values = {1, 2}}},
                          {{"num_true", 1},
                           {"num_sampled", 2},
                           {"unique", true},
                           {"range_max", 3},
                           {"unigrams", AttrValue::Floats{1, 2, 3}},
                           {"seed", 7}})),
};

}  // namespace
}  // namespace sluice
