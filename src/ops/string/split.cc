// Splitting and joining strings: split, join along axes or by segment, n-grams.
#include <algorithm>
#include <cstring>
#include <string>
#include <unordered_set>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/string_view.h"
#include "exec/core/kernel.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "ops/common/elements.h"

namespace sluice {
namespace {

using array::IntAt;

// ---- Split ------------------------------------------------------------------

using StringParts = std::vector<absl::string_view>;

// Splits at each character in `delimiters`; between all characters if it is
// empty.
void SplitAtAny(absl::string_view text, absl::string_view delimiters,
                bool skip_empty, StringParts* out) {
  if (text.empty()) return;
  if (delimiters.empty()) {
    for (size_t i = 0; i < text.size(); ++i) out->push_back(text.substr(i, 1));
    return;
  }
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end =
        std::min(text.find_first_of(delimiters, begin), text.size());
    if (end > begin || !skip_empty)
      out->push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
}

// Splits at the whole separator, or at runs of white space if it is empty; at
// most `most` times if that is positive.
void SplitAtAll(absl::string_view text, absl::string_view separator,
                int64_t most, StringParts* out) {
  if (most == 0) {
    out->push_back(text);
    return;
  }
  int64_t done = 0;
  if (separator.empty()) {
    text = absl::StripLeadingAsciiWhitespace(text);
    while (!text.empty()) {
      const auto* end =
          std::find_if(text.begin(), text.end(), absl::ascii_isspace);
      const size_t n = static_cast<size_t>(end - text.begin());
      out->push_back(text.substr(0, n));
      text = absl::StripLeadingAsciiWhitespace(text.substr(n));
      if (++done == most) {
        out->push_back(text);
        return;
      }
    }
    return;
  }
  size_t at = 0;
  while (done != most && (at = text.find(separator)) != text.npos) {
    out->push_back(text.substr(0, at));
    text.remove_prefix(at + separator.size());
    ++done;
  }
  out->push_back(text);
}

class StringSplitKernel {
 public:
  explicit StringSplitKernel(const Node& n)
      : any_(n.op_name() == "StringSplit"),
        skip_empty_(any_ && n.BoolAttr("skip_empty")),
        most_(n.AttrOr<int64_t>("maxsplit", -1)) {}

  Status Run(KernelContext& ctx) const {
    const Tensor& in = ctx.input(0);
    const Tensor& separator = ctx.input(1);
    if (in.rank() != 1)
      return InvalidArgument("input: expected a vector, got shape ",
                             in.shape().ToString());
    if (separator.rank() != 0)
      return InvalidArgument(any_ ? "delimiter" : "sep",
                             ": expected a scalar, got shape ",
                             separator.shape().ToString());
    StringParts parts;
    std::vector<size_t> ends;
    size_t longest = 0;
    for (const std::string& s : in.raw_flat<std::string>()) {
      const size_t before = parts.size();
      if (any_)
        SplitAtAny(s, separator.raw_scalar<std::string>(), skip_empty_, &parts);
      else
        SplitAtAll(s, separator.raw_scalar<std::string>(), most_, &parts);
      ends.push_back(parts.size());
      longest = std::max(longest, parts.size() - before);
    }
    const auto n = static_cast<int64_t>(parts.size());
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DType::kInt64, Shape({n, 2})));
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(1, DType::kString, Shape({n})));
    int64_t* indices = ctx.output(0).raw<int64_t>();
    std::string* values = ctx.output(1).raw<std::string>();
    size_t k = 0;
    for (size_t row = 0; row < ends.size(); ++row)
      for (size_t begin = k; k < ends[row]; ++k) {
        *indices++ = static_cast<int64_t>(row);
        *indices++ = static_cast<int64_t>(k - begin);
        values[k] = std::string(parts[k]);
      }
    ctx.set_output(
        2, Tensor::Vector<int64_t>({in.dim(0), static_cast<int64_t>(longest)}));
    return OkStatus();
  }

 private:
  const bool any_, skip_empty_;
  const int64_t most_;
};

Status StringSplitShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.WithRank(0, 1).status());
  SLUICE_RETURN_IF_ERROR(c.RequireScalar(1));
  c.set_output(0, PartialShape({-1, 2}));
  c.set_output(1, PartialShape({-1}));
  c.set_output(2, PartialShape({2}));
  return OkStatus();
}

SLUICE_OP(StringSplit)
    .Input("input: string")
    .Input("delimiter: string")
    .Output("indices: int64")
    .Output("values: string")
    .Output("shape: int64")
    .Attr("skip_empty: bool = true")
    .Family("string")
    .Shape(StringSplitShape)
    .Kernel(CpuState<StringSplitKernel>())
    .NoGradient("strings have no derivative")
    .Sample({{.shape = {3}, .values = {1.5, -2.25, 0}}, {.values = {2}}})
    .Doc(
        "Splits each string at characters of `delimiter` into a row of a "
        "sparse matrix.");

SLUICE_OP(StringSplitV2)
    .Input("input: string")
    .Input("sep: string")
    .Output("indices: int64")
    .Output("values: string")
    .Output("shape: int64")
    .Attr("maxsplit: int = -1")
    .Family("string")
    .Shape(StringSplitShape)
    .Kernel(CpuState<StringSplitKernel>())
    .NoGradient("strings have no derivative")
    .Sample({{.shape = {3}, .values = {1.5, -2.25, 0}}, {.values = {2}}})
    .Doc(
        "Splits each string at occurrences of `sep` (at white space if it is "
        "empty) into a row of a sparse matrix.");

// ---- Joins ------------------------------------------------------------------

class ReduceJoinKernel {
 public:
  explicit ReduceJoinKernel(const Node& n)
      : keep_(n.BoolAttr("keep_dims")),
        separator_(n.AttrOr<std::string>("separator", "")) {}

  Status Run(KernelContext& ctx) const {
    const Tensor& in = ctx.input(0);
    const Tensor& axes = ctx.input(1);
    const int rank = in.rank();
    const Dims strides = array::DenseStrides(in.shape().dims());
    std::vector<bool> reduced(static_cast<size_t>(rank));
    // The joined dimensions (the first listed changes fastest) and the kept
    // ones.
    Dims join_dims, join_strides, keep_dims, keep_strides, shape;
    for (int64_t i = 0; i < axes.num_elements(); ++i) {
      const Result<int> canonical = CanonicalAxis(IntAt(axes, i), rank);
      if (!canonical.ok()) return OutOfRange(canonical.status().message());
      const int axis = *canonical;
      const auto a = static_cast<size_t>(axis);
      if (reduced[a])
        return InvalidArgument(
            "reduction_indices: expected different axes, got axis ", axis,
            " twice");
      reduced[a] = true;
      join_dims.push_back(in.dim(axis));
      join_strides.push_back(strides[a]);
    }
    std::reverse(join_dims.begin(), join_dims.end());
    std::reverse(join_strides.begin(), join_strides.end());
    for (int d = 0; d < rank; ++d) {
      const auto at = static_cast<size_t>(d);
      if (reduced[at]) {
        if (keep_) shape.push_back(1);
        continue;
      }
      shape.push_back(in.dim(d));
      keep_dims.push_back(in.dim(d));
      keep_strides.push_back(strides[at]);
    }
    SLUICE_ASSIGN_OR_RETURN(const Shape out_shape, array::MakeShape(shape));
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DType::kString, out_shape));
    // An empty input: nothing to join.
    if (in.num_elements() == 0) return OkStatus();
    int64_t many = 1;
    for (int64_t d : join_dims) many *= d;
    const std::string* from = in.raw<std::string>();
    std::string* out = ctx.output(0).raw<std::string>();
    for (int64_t o = 0; o < out_shape.num_elements(); ++o) {
      const std::string* row = from + Offset(o, keep_dims, keep_strides);
      for (int64_t k = 0; k < many; ++k) {
        if (k > 0) out[o] += separator_;
        out[o] += row[Offset(k, join_dims, join_strides)];
      }
    }
    return OkStatus();
  }

 private:
  static int64_t Offset(int64_t linear, const Dims& dims, const Dims& strides) {
    int64_t offset = 0;
    for (size_t d = dims.size(); d-- > 0; linear /= dims[d])
      offset += linear % dims[d] * strides[d];
    return offset;
  }

  const bool keep_;
  const std::string separator_;
};

Status ReduceJoinShape(ShapeContext& c) {
  const PartialShape& in = c.input(0);
  const Tensor* axes = c.constant(1);
  if (!in.rank_known() || axes == nullptr) return OkStatus();
  std::vector<bool> reduced(static_cast<size_t>(in.rank()));
  for (int64_t i = 0; i < axes->num_elements(); ++i) {
    SLUICE_ASSIGN_OR_RETURN(const int axis,
                            CanonicalAxis(IntAt(*axes, i), in.rank()));
    reduced[static_cast<size_t>(axis)] = true;
  }
  PartialShape out = PartialShape::Scalar();
  for (int d = 0; d < in.rank(); ++d) {
    if (!reduced[static_cast<size_t>(d)])
      out.add_dim(in.dim(d));
    else if (c.node().BoolAttr("keep_dims"))
      out.add_dim(1);
  }
  c.set_output(0, out);
  return OkStatus();
}

SLUICE_OP(ReduceJoin)
    .Input("inputs: string")
    .Input("reduction_indices: int32")
    .Output("output: string")
    .Attr("keep_dims: bool = false")
    .Attr("separator: string = ''")
    .Family("string")
    .Shape(ReduceJoinShape)
    .Kernel(CpuState<ReduceJoinKernel>())
    .NoGradient("strings have no derivative")
    .Sample({{.shape = {2, 3}}, {.shape = {1}, .values = {1}}})
    .Sample({{.shape = {2, 3, 2}}, {.shape = {2}, .values = {-1, 0}}},
            {{"keep_dims", true}, {"separator", "+"}})
    .Doc("Joins the strings along some axes.");

class UnsortedSegmentJoinKernel {
 public:
  explicit UnsortedSegmentJoinKernel(const Node& n)
      : separator_(n.AttrOr<std::string>("separator", "")) {}

  Status Run(KernelContext& ctx) const {
    const Tensor& in = ctx.input(0);
    const Tensor& ids = ctx.input(1);
    if (ctx.input(2).rank() != 0)
      return InvalidArgument("num_segments: expected a scalar, got shape ",
                             ctx.input(2).shape().ToString());
    const int64_t segments = IntAt(ctx.input(2), 0);
    if (segments < 0)
      return InvalidArgument("num_segments: expected a value >= 0, got ",
                             segments);
    bool prefix = ids.rank() >= 1 && ids.rank() <= in.rank();
    for (int d = 0; prefix && d < ids.rank(); ++d)
      prefix = ids.dim(d) == in.dim(d);
    if (!prefix)
      return InvalidArgument(
          "segment_ids: expected the first dimensions of inputs, ",
          in.shape().ToString(), ", got shape ", ids.shape().ToString());
    Dims shape = {segments};
    for (int d = ids.rank(); d < in.rank(); ++d) shape.push_back(in.dim(d));
    SLUICE_ASSIGN_OR_RETURN(const Shape out_shape, array::MakeShape(shape));
    const int64_t n = ids.num_elements();
    for (int64_t i = 0; i < n; ++i)
      if (IntAt(ids, i) < 0 || IntAt(ids, i) >= segments)
        return InvalidArgument("segment_ids: expected ids in [0, ", segments,
                               "), got ", IntAt(ids, i));
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DType::kString, out_shape));
    if (n == 0) return OkStatus();
    const int64_t width = in.num_elements() / n;
    std::unordered_set<int64_t> begun;
    std::string* out = ctx.output(0).raw<std::string>();
    for (int64_t i = 0; i < n; ++i) {
      const int64_t id = IntAt(ids, i);
      const bool first = begun.insert(id).second;
      for (int64_t k = 0; k < width; ++k) {
        if (!first) out[id * width + k] += separator_;
        out[id * width + k] += in.raw<std::string>()[i * width + k];
      }
    }
    return OkStatus();
  }

 private:
  const std::string separator_;
};

Status UnsortedSegmentJoinShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.RequireScalar(2));
  const PartialShape& in = c.input(0);
  const PartialShape& ids = c.input(1);
  const std::optional<int64_t> segments = c.ConstantInt(2);
  if (segments.has_value() && *segments < 0)
    return InvalidArgument("num_segments: expected a value >= 0, got ",
                           *segments);
  if (!in.rank_known() || !ids.rank_known()) return OkStatus();
  if (ids.rank() < 1 || ids.rank() > in.rank())
    return InvalidArgument("segment_ids: expected rank 1 to ", in.rank(),
                           ", got shape ", ids.ToString());
  SLUICE_RETURN_IF_ERROR(
      ids.MergeWith(array::SubShape(in, 0, ids.rank())).status());
  c.set_output(0,
               array::JoinShapes(PartialShape({segments.value_or(-1)}),
                                 array::SubShape(in, ids.rank(), in.rank())));
  return OkStatus();
}

SLUICE_OP(UnsortedSegmentJoin)
    .Input("inputs: string")
    .Input("segment_ids: Tindices")
    .Input("num_segments: Tnumsegments")
    .Output("output: string")
    .Attr("separator: string = ''")
    .Attr("Tindices: {int32, int64}")
    .Attr("Tnumsegments: {int32, int64} = DT_INT32")
    .Family("string")
    .Shape(UnsortedSegmentJoinShape)
    .Kernel(CpuState<UnsortedSegmentJoinKernel>())
    .NoGradient("strings have no derivative")
    .Sample({{.shape = {3, 2}},
             {.shape = {3}, .values = {1, 0, 1}},
             {.values = {2}}},
            {{"separator", ":"}})
    .Doc("Joins the rows of each segment element by element.");

// ---- N-grams ----------------------------------------------------------------

class StringNGramsKernel {
 public:
  static Result<std::shared_ptr<StringNGramsKernel>> Make(const Node& n) {
    auto k = std::make_shared<StringNGramsKernel>();
    k->separator_ = n.AttrOr<std::string>("separator", "");
    k->left_ = n.AttrOr<std::string>("left_pad", "");
    k->right_ = n.AttrOr<std::string>("right_pad", "");
    k->pad_ = n.AttrOr<int64_t>("pad_width", -1);
    k->keep_short_ = n.BoolAttr("preserve_short_sequences");
    k->widths_ = n.AttrOr<AttrValue::Ints>("ngram_widths", {});
    // Keeps every sum below in an int64.
    constexpr int64_t kMax = int64_t{1} << 40;
    for (int64_t& w : k->widths_) {
      if (w <= 0)
        return InvalidArgument("ngram_widths: expected widths > 0, got ", w);
      w = std::min(w, kMax);
    }
    if (k->pad_ > kMax)
      return InvalidArgument("pad_width: expected at most ", kMax, ", got ",
                             k->pad_);
    return k;
  }

  Status Run(KernelContext& ctx) const {
    const Tensor& data = ctx.input(0);
    const Tensor& splits = ctx.input(1);
    const int64_t n = data.num_elements(), rows = splits.num_elements() - 1;
    if (data.rank() != 1)
      return InvalidArgument("data: expected a vector, got shape ",
                             data.shape().ToString());
    SLUICE_RETURN_IF_ERROR(CheckSplits(splits, n));
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(1, splits.dtype(), splits.shape()));
    if (rows < 0) {
      SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DType::kString, Shape({0})));
      return OkStatus();
    }
    // A limit for the number of strings: padding with a huge width is an error.
    constexpr int64_t kMax = int64_t{1} << 28;
    int64_t total = 0, pieces = 0;
    SetSplit(&ctx.output(1), 0, 0);
    if (n == 0) {
      for (int64_t i = 0; i < rows; ++i) SetSplit(&ctx.output(1), i + 1, 0);
      SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DType::kString, Shape({0})));
      return OkStatus();
    }
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t length = IntAt(splits, i + 1) - IntAt(splits, i);
      int64_t made = 0;
      for (int64_t w : widths_) {
        const int64_t many = Count(length, w);
        made += many;
        if (many == 0) continue;
        if (many > kMax || w > kMax || made > kMax ||
            (pieces += many * w) > kMax)
          return TooMany();
      }
      if (keep_short_ && made == 0 && length > 0) {
        if (pad_ < 0)
          return InvalidArgument(
              "pad_width: expected a value >= 0 where short sequences are kept "
              "and there are no widths, got ",
              pad_);
        made = 1;
        if ((pieces += length + 2 * pad_) > kMax) return TooMany();
      }
      if ((total += made) > kMax) return TooMany();
      SetSplit(&ctx.output(1), i + 1, total);
    }
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DType::kString, Shape({total})));
    std::string* out = ctx.output(0).raw<std::string>();
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t begin = IntAt(splits, i), end = IntAt(splits, i + 1);
      const std::string* row = data.raw<std::string>() + begin;
      const std::string* const before = out;
      for (int64_t w : widths_)
        for (int64_t k = 0; k < Count(end - begin, w); ++k)
          *out++ = Gram(row, end - begin, k - Pad(w), w);
      if (keep_short_ && out == before && end > begin)
        *out++ = Gram(row, end - begin, -pad_, end - begin + 2 * pad_);
    }
    return OkStatus();
  }

 private:
  int64_t Pad(int64_t width) const {
    return pad_ < 0 ? width - 1 : std::min(pad_, width - 1);
  }
  int64_t Count(int64_t length, int64_t width) const {
    // (2 * pad - width + 1 is below width, so this cannot overflow.)
    return std::max<int64_t>(0,
                             length + (Pad(width) - (width - 1)) + Pad(width));
  }
  static Status TooMany() {
    return ResourceExhausted(
        "ngram_widths, pad_width: expected n-grams of at most 2^28 pieces in "
        "all, got more");
  }
  static void SetSplit(Tensor* t, int64_t i, int64_t v) {
    if (t->dtype() == DType::kInt32)
      t->raw<int32_t>()[i] = static_cast<int32_t>(v);
    else
      t->raw<int64_t>()[i] = v;
  }
  static Status CheckSplits(const Tensor& splits, int64_t n) {
    if (splits.rank() != 1)
      return InvalidArgument("data_splits: expected a vector, got shape ",
                             splits.shape().ToString());
    for (int64_t i = 0; i < splits.num_elements(); ++i) {
      const int64_t least = i > 0 ? IntAt(splits, i - 1) : 0;
      const int64_t most = i > 0 ? n : 0, got = IntAt(splits, i);
      if (got < least || got > most)
        return InvalidArgument("data_splits: expected a value in [", least,
                               ", ", most, "] at place ", i, ", got ", got);
    }
    const int64_t last = splits.num_elements() - 1;
    if (last >= 0 && IntAt(splits, last) != n)
      return InvalidArgument("data_splits: expected ", n,
                             ", the number of strings, at the end, got ",
                             IntAt(splits, last));
    return OkStatus();
  }
  // `width` pieces starting at position `from`; positions outside the row are
  // padding.
  std::string Gram(const std::string* row, int64_t length, int64_t from,
                   int64_t width) const {
    std::string out;
    for (int64_t i = from; i < from + width; ++i) {
      if (i > from) out += separator_;
      out += i < 0 ? left_ : i >= length ? right_ : row[i];
    }
    return out;
  }

  std::string separator_, left_, right_;
  int64_t pad_ = -1;
  bool keep_short_ = false;
  AttrValue::Ints widths_;
};

Status StringNGramsShape(ShapeContext& c) {
  c.set_output(0, PartialShape({-1}));
  SLUICE_RETURN_IF_ERROR(c.WithRank(0, 1).status());
  SLUICE_ASSIGN_OR_RETURN(const PartialShape splits, c.WithRank(1, 1));
  c.set_output(1, splits);
  return OkStatus();
}

SLUICE_OP(StringNGrams)
    .Input("data: string")
    .Input("data_splits: Tsplits")
    .Output("ngrams: string")
    .Output("ngrams_splits: Tsplits")
    .Attr("separator: string")
    .Attr("ngram_widths: list(int) >= 0")
    .Attr("left_pad: string")
    .Attr("right_pad: string")
    .Attr("pad_width: int")
    .Attr("preserve_short_sequences: bool")
    .Attr("Tsplits: {int32, int64} = DT_INT64")
    .Family("string")
    .Shape(StringNGramsShape)
    .Kernel(CpuState<StringNGramsKernel>())
    .NoGradient("strings have no derivative")
    .Sample({{.shape = {5}}, {.shape = {3}, .values = {0, 3, 5}}},
            {{"separator", " "},
             {"ngram_widths", AttrValue::Ints{2, 3}},
             {"left_pad", "<"},
             {"right_pad", ">"},
             {"pad_width", -1},
             {"preserve_short_sequences", false}})
    .Doc(
        "Joins runs of consecutive strings in each row; the rows are given by "
        "their start and end offsets.");

}  // namespace
}  // namespace sluice
