// Decoding of label sequences from the activations of a network trained with
// CTCLoss: the best class of each step, or a beam search for the most probable
// sequences.
#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/parallel.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "ops/common/dispatch.h"
#include "ops/nn/ctc_labels.h"

namespace sluice {
namespace {

using Decoded = std::vector<int64_t>;

// ---- Shared by both decoders ------------------------------------------------

Status DecoderShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const PartialShape inputs, c.WithRank(0, 3));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape lengths, c.WithRank(1, 1));
  SLUICE_ASSIGN_OR_RETURN(const int64_t batch,
                          MergeDim(inputs.dim(1), lengths.dim(0)));
  const int paths = (c.num_outputs() - 1) / 3;
  for (int p = 0; p < paths; ++p) {
    c.set_output(p, PartialShape({-1, 2}));
    c.set_output(paths + p, PartialShape({-1}));
    c.set_output(2 * paths + p, PartialShape({2}));
  }
  c.set_output(3 * paths, PartialShape({batch, paths}));
  return OkStatus();
}

Status CheckDecoderInputs(const Tensor& inputs, const Tensor& lengths) {
  if (inputs.rank() != 3 || inputs.num_elements() == 0 ||
      inputs.dim(2) > std::numeric_limits<int>::max())
    return InvalidArgument(
        "inputs: expected a shape [time, batch, classes] without zeros, got ",
        inputs.shape().ToString());
  if (lengths.rank() != 1 || lengths.dim(0) != inputs.dim(1))
    return InvalidArgument("sequence_length: expected shape [", inputs.dim(1),
                           "], got ", lengths.shape().ToString());
  for (int64_t b = 0; b < lengths.dim(0); ++b)
    if (lengths.raw<int32_t>()[b] > inputs.dim(0))
      return InvalidArgument("sequence_length: expected at most ",
                             inputs.dim(0), ", got ", lengths.raw<int32_t>()[b],
                             " at ", b);
  return OkStatus();
}

// Stores path p of `paths` as the three tensors of a sparse matrix. found[b]:
// the labels of batch element b.
Status StorePath(KernelContext& ctx, int p, int paths,
                 const std::vector<const Decoded*>& found) {
  int64_t count = 0, longest = 0;
  for (const Decoded* l : found) {
    count += static_cast<int64_t>(l->size());
    longest = std::max(longest, static_cast<int64_t>(l->size()));
  }
  SLUICE_RETURN_IF_ERROR(ctx.Allocate(p, DType::kInt64, Shape({count, 2})));
  SLUICE_RETURN_IF_ERROR(
      ctx.Allocate(paths + p, DType::kInt64, Shape({count})));
  ctx.set_output(
      2 * paths + p,
      Tensor::Vector<int64_t>({static_cast<int64_t>(found.size()), longest}));
  int64_t* index = ctx.output(p).raw<int64_t>();
  int64_t* value = ctx.output(paths + p).raw<int64_t>();
  for (size_t b = 0; b < found.size(); ++b) {
    for (size_t i = 0; i < found[b]->size(); ++i) {
      *index++ = static_cast<int64_t>(b);
      *index++ = static_cast<int64_t>(i);
      *value++ = (*found[b])[i];
    }
  }
  return OkStatus();
}

// ---- CTCGreedyDecoder -------------------------------------------------------

template <typename T>
class GreedyDecoder {
 public:
  explicit GreedyDecoder(const Node& n)
      : merge_(n.BoolAttr("merge_repeated")),
        blank_(n.IntAttr("blank_index")) {}

  Status Run(KernelContext& ctx) const {
    const Tensor &inputs = ctx.input(0), &lengths = ctx.input(1);
    SLUICE_RETURN_IF_ERROR(CheckDecoderInputs(inputs, lengths));
    const int64_t batch = inputs.dim(1), classes = inputs.dim(2);
    if (blank_ < -classes || blank_ >= classes)
      return InvalidArgument("blank_index: expected a value in [", -classes,
                             ", ", classes, "), got ", blank_);
    const int64_t blank = blank_ < 0 ? blank_ + classes : blank_;
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(3, DTypeOf<T>(), Shape({batch, 1})));
    std::vector<Decoded> found(static_cast<size_t>(batch));
    for (int64_t b = 0; b < batch; ++b) {
      T score = 0;
      int64_t before = -1;
      for (int64_t t = 0; t < lengths.raw<int32_t>()[b]; ++t) {
        const T* row = inputs.raw<T>() + (t * batch + b) * classes;
        int64_t best = 0;
        for (int64_t i = 1; i < classes; ++i)
          if (row[i] > row[best]) best = i;
        score -= row[best];
        if (best != blank && !(merge_ && best == before))
          found[static_cast<size_t>(b)].push_back(best);
        before = best;
      }
      ctx.output(3).template raw<T>()[b] = score;
    }
    std::vector<const Decoded*> each;
    for (const Decoded& l : found) each.push_back(&l);
    return StorePath(ctx, 0, 1, each);
  }

 private:
  const bool merge_;
  const int64_t blank_;
};

// ---- The beam ---------------------------------------------------------------

// Log-probabilities of a sequence: ending in a blank, ending in its last label,
// and both together.
template <typename T>
struct PathLogs {
  T total = kLogZero<T>, blank = kLogZero<T>, label = kLogZero<T>;
};

// A sequence: its last label, appended to its parent's labels. Owned by the
// search.
template <typename T>
struct Prefix {
  Prefix* parent = nullptr;
  int64_t label = -1;
  PathLogs<T> before, now;
  std::map<int64_t, Prefix*> children;

  bool alive() const { return now.total != kLogZero<T>; }
};

// The `limit` most probable prefixes. Which of equal ones are kept, and their
// order, follow TensorFlow's container: an unordered list with the least
// probable in front after Least, and a heap (of limit + 1) once the limit was
// exceeded.
template <typename T>
class Beam {
 public:
  explicit Beam(size_t limit) : limit_(limit) {}

  size_t size() const { return std::min(items_.size(), limit_); }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.begin() + static_cast<ptrdiff_t>(size()); }

  void Push(Prefix<T>* p) {
    if (heap_) {
      if (!More(p, items_.front())) return;
      items_.back() = p;
      std::push_heap(items_.begin(), items_.end(), More);
      std::pop_heap(items_.begin(), items_.end(), More);
      return;
    }
    items_.push_back(p);
    if (least_in_front_ && !More(p, items_.front()))
      std::swap(items_.front(), items_.back());
    if (items_.size() > limit_) {
      std::make_heap(items_.begin(), items_.end(), More);
      std::pop_heap(items_.begin(), items_.end(), More);
      heap_ = true;
    }
  }

  // REQUIRES: size() > 0.
  Prefix<T>* Least() {
    if (!heap_ && !least_in_front_) {
      size_t least = 0;
      for (size_t i = 1; i < items_.size(); ++i)
        if (More(items_[least], items_[i])) least = i;
      std::swap(items_[0], items_[least]);
      least_in_front_ = true;
    }
    return items_.front();
  }

  // Empties the beam; the most probable prefixes come first.
  std::vector<Prefix<T>*> Take() {
    std::vector<Prefix<T>*> all = std::move(items_);
    if (heap_) {
      all.pop_back();
      std::sort_heap(all.begin(), all.end(), More);
    } else {
      std::sort(all.begin(), all.end(), More);
    }
    Clear();
    return all;
  }

  void Clear() {
    items_.clear();
    heap_ = least_in_front_ = false;
  }

 private:
  static bool More(const Prefix<T>* a, const Prefix<T>* b) {
    return a->now.total > b->now.total;
  }

  const size_t limit_;
  std::vector<Prefix<T>*> items_;
  bool heap_ = false, least_in_front_ = false;
};

// The beam search for one batch element.
template <typename T>
class BeamSearch {
 public:
  BeamSearch(int64_t classes, size_t width)
      : classes_(classes), width_(width), beam_(width) {
    Prefix<T>& root = prefixes_.emplace_back();
    root.now.total = root.now.blank = 0;
    beam_.Push(&root);
  }

  // Processes one step; logits[classes - 1] is the blank.
  void Step(const T* logits) {
    // The normaliser that makes the logits of this step log-probabilities.
    const T most = *std::max_element(logits, logits + classes_);
    T sum = 0;
    for (int64_t i = 0; i < classes_; ++i) sum += std::exp(logits[i] - most);
    const T offset = most + std::log(sum);

    const std::vector<Prefix<T>*> old = beam_.Take();
    for (Prefix<T>* p : old) p->before = p->now;
    for (Prefix<T>* p : old) {
      if (p->parent != nullptr) {
        if (p->parent->alive()) {
          const PathLogs<T>& from = p->parent->before;
          p->now.label =
              LogSum(p->now.label,
                     p->label == p->parent->label ? from.blank : from.total);
        }
        p->now.label += logits[p->label] - offset;
      }
      p->now.blank = p->before.total + logits[classes_ - 1] - offset;
      p->now.total = LogSum(p->now.blank, p->now.label);
      beam_.Push(p);
    }
    for (Prefix<T>* p : old) {
      if (!Promising(p->before)) continue;
      for (int64_t label = 0; label < classes_ - 1; ++label) {
        Prefix<T>* child = Child(p, label);
        if (child->alive()) continue;
        child->now.blank = kLogZero<T>;
        child->now.label =
            logits[label] - offset +
            (label == p->label ? p->before.blank : p->before.total);
        child->now.total = child->now.label;
        if (!Promising(child->now)) {
          child->before = child->now = {};
          continue;
        }
        if (beam_.size() == width_) beam_.Least()->now = {};
        beam_.Push(child);
      }
    }
  }

  // The `n` best sequences; fewer if there are fewer.
  std::vector<std::pair<Decoded, T>> Best(size_t n, bool merge_repeated) const {
    Beam<T> top(n);
    for (Prefix<T>* p : beam_) top.Push(p);
    std::vector<std::pair<Decoded, T>> best;
    for (Prefix<T>* p : top.Take())
      best.emplace_back(Sequence(p, merge_repeated), p->now.total);
    return best;
  }

 private:
  bool Promising(const PathLogs<T>& p) {
    return p.total > kLogZero<T> &&
           (beam_.size() < width_ || p.total > beam_.Least()->now.total);
  }
  Prefix<T>* Child(Prefix<T>* p, int64_t label) {
    Prefix<T>*& child = p->children[label];
    if (child == nullptr) {
      child = &prefixes_.emplace_back();
      child->parent = p;
      child->label = label;
    }
    return child;
  }
  static Decoded Sequence(const Prefix<T>* p, bool merge_repeated) {
    Decoded labels;
    int64_t after = -1;
    for (; p->parent != nullptr; p = p->parent) {
      if (!merge_repeated || p->label != after) labels.push_back(p->label);
      after = p->label;
    }
    std::reverse(labels.begin(), labels.end());
    return labels;
  }

  const int64_t classes_;
  const size_t width_;
  std::deque<Prefix<T>> prefixes_;  // Never moved.
  Beam<T> beam_;
};

template <typename T>
class BeamSearchDecoder {
 public:
  explicit BeamSearchDecoder(const Node& n)
      : width_(static_cast<size_t>(n.IntAttr("beam_width"))),
        paths_(static_cast<int>(n.IntAttr("top_paths"))),
        merge_(n.BoolAttr("merge_repeated")) {}

  Status Run(KernelContext& ctx) const {
    const Tensor &inputs = ctx.input(0), &lengths = ctx.input(1);
    SLUICE_RETURN_IF_ERROR(CheckDecoderInputs(inputs, lengths));
    const int64_t batch = inputs.dim(1), classes = inputs.dim(2);
    const auto paths = static_cast<size_t>(paths_);
    if (paths > width_)
      return InvalidArgument("top_paths: expected at most the beam_width of ",
                             width_, ", got ", paths);
    std::vector<std::vector<std::pair<Decoded, T>>> found(
        static_cast<size_t>(batch));
    SLUICE_RETURN_IF_ERROR(
        ctx.Allocate(3 * paths_, DTypeOf<T>(), Shape({batch, paths_})));
    ParallelFor(batch, 1, [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) {
        BeamSearch<T> search(classes, width_);
        for (int64_t t = 0; t < lengths.raw<int32_t>()[b]; ++t) {
          if (ctx.cancelled()) return;
          search.Step(inputs.raw<T>() + (t * batch + b) * classes);
        }
        found[static_cast<size_t>(b)] = search.Best(paths, merge_);
      }
    });
    if (ctx.cancelled()) return Cancelled("the step was cancelled");
    for (int64_t b = 0; b < batch; ++b) {
      const auto& best = found[static_cast<size_t>(b)];
      if (best.size() < paths)
        return InvalidArgument("top_paths: expected at most ", best.size(),
                               ", as many as were found, got ", paths);
      for (size_t p = 0; p < paths; ++p)
        ctx.output(3 * paths_)
            .template raw<T>()[static_cast<size_t>(b) * paths + p] =
            best[p].second;
    }
    for (int p = 0; p < paths_; ++p) {
      std::vector<const Decoded*> each;
      for (const auto& best : found)
        each.push_back(&best[static_cast<size_t>(p)].first);
      SLUICE_RETURN_IF_ERROR(StorePath(ctx, p, paths_, each));
    }
    return OkStatus();
  }

 private:
  const size_t width_;
  const int paths_;
  const bool merge_;
};

// ---- Declarations -----------------------------------------------------------

SLUICE_OP(CTCGreedyDecoder)
    .Input("inputs: T")
    .Input("sequence_length: int32")
    .Output("decoded_indices: int64")
    .Output("decoded_values: int64")
    .Output("decoded_shape: int64")
    .Output("log_probability: T")
    .Attr("merge_repeated: bool = false")
    .Attr("blank_index: int = -1")
    .Attr("T: {float, double} = DT_FLOAT")
    .Family("nn")
    .Shape(DecoderShape)
    .Kernel(CpuStateFor<GreedyDecoder, float, double>("T"))
    .NoGradient("its outputs are integers")
    .Sample({{.shape = {4, 2, 3}}, {.shape = {2}, .values = {4, 3}}})
    .Doc("Decodes by taking the best class of each step and removing blanks.");

SLUICE_OP(CTCBeamSearchDecoder)
    .Input("inputs: T")
    .Input("sequence_length: int32")
    .Output("decoded_indices: top_paths * int64")
    .Output("decoded_values: top_paths * int64")
    .Output("decoded_shape: top_paths * int64")
    .Output("log_probability: T")
    .Attr("beam_width: int >= 1")
    .Attr("top_paths: int >= 1")
    .Attr("merge_repeated: bool = true")
    .Attr("T: {float, double} = DT_FLOAT")
    .Family("nn")
    .Shape(DecoderShape)
    .Kernel(CpuStateFor<BeamSearchDecoder, float, double>("T",
                                                          /*expensive=*/true))
    .NoGradient("its outputs are integers")
    .Sample({{.shape = {4, 2, 3}}, {.shape = {2}, .values = {4, 3}}},
            {{"beam_width", 4}, {"top_paths", 2}, {"merge_repeated", false}})
    .Doc(
        "Decodes by a beam search: the most probable label sequences that it "
        "finds with beam_width prefixes.");

}  // namespace
}  // namespace sluice
