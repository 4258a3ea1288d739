// Sums of products in Einstein notation, with one or two operands.
#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "kernels/dnn/matmul.h"
#include "kernels/simd/move.h"
#include "kernels/simd/reduce.h"
#include "ops/common/dispatch.h"
#include "ops/common/grad_nodes.h"

namespace sluice {
namespace {

// A dimension's name: a letter, or for the dimensions of an ellipsis their
// distance from its end, as a negative number.
using Label = int;
using Labels = std::vector<Label>;
using Sizes = std::map<Label, int64_t>;

// "ab,bc->ac", as parsed: labels, with kDots for an ellipsis.
constexpr Label kDots = 0;
struct Equation {
  std::vector<Labels> inputs;
  Labels output;

  static Result<Equation> Parse(const std::string& text, int inputs) {
    const std::vector<std::string> sides = absl::StrSplit(text, "->");
    if (sides.size() != 2)
      return InvalidArgument("equation: expected 'inputs->output', got '", text,
                             "'");
    Equation e;
    for (const std::string& side :
         std::vector<std::string>(absl::StrSplit(sides[0], ','))) {
      SLUICE_ASSIGN_OR_RETURN(Labels labels, Side(side));
      e.inputs.push_back(std::move(labels));
    }
    SLUICE_ASSIGN_OR_RETURN(e.output, Side(sides[1]));
    if (static_cast<int>(e.inputs.size()) != inputs || inputs > 2)
      return InvalidArgument("equation: expected ", inputs,
                             " inputs, of 1 or 2, got '", text, "'");
    for (Label l : e.output) {
      const bool known =
          std::any_of(e.inputs.begin(), e.inputs.end(), [l](const Labels& in) {
            return std::find(in.begin(), in.end(), l) != in.end();
          });
      if (!known && l != kDots)
        return InvalidArgument("equation: expected output labels of an input, ",
                               "got '", std::string(1, static_cast<char>(l)),
                               "' in '", text, "'");
    }
    return e;
  }

  static Result<Labels> Side(absl::string_view text) {
    Labels out;
    while (!text.empty()) {
      if (absl::ConsumePrefix(&text, "...")) {
        if (std::find(out.begin(), out.end(), kDots) != out.end())
          return InvalidArgument("equation: expected one ellipsis at most");
        out.push_back(kDots);
        continue;
      }
      const char c = text[0];
      text.remove_prefix(1);
      if (c == ' ') continue;
      if ((c < 'a' || c > 'z') && (c < 'A' || c > 'Z'))
        return InvalidArgument("equation: expected letters, got '",
                               std::string(1, c), "'");
      out.push_back(c);
    }
    return out;
  }
};

// The labels of an input of this rank, with its ellipsis expanded.
Result<Labels> Expand(const Labels& labels, int rank) {
  const bool dots =
      std::find(labels.begin(), labels.end(), kDots) != labels.end();
  const int named = static_cast<int>(labels.size()) - (dots ? 1 : 0);
  if (dots ? rank < named : rank != named)
    return InvalidArgument("einsum: expected an input of rank ", named,
                           dots ? " or more" : "", ", got ", rank);
  Labels out;
  for (Label l : labels) {
    if (l != kDots) {
      out.push_back(l);
      continue;
    }
    for (int i = rank - named; i > 0; --i) out.push_back(-i);
  }
  return out;
}

Labels ExpandOutput(const Labels& labels, int dots) {
  Labels out;
  for (Label l : labels) {
    if (l != kDots) {
      out.push_back(l);
      continue;
    }
    for (int i = dots; i > 0; --i) out.push_back(-i);
  }
  return out;
}

bool Has(const Labels& labels, Label l) {
  return std::find(labels.begin(), labels.end(), l) != labels.end();
}

Labels Join(std::initializer_list<const Labels*> parts) {
  Labels all;
  for (const Labels* p : parts) all.insert(all.end(), p->begin(), p->end());
  return all;
}

// An equation of two operands that lie in memory as the matrices, or transposed
// matrices, of one product for each of their common first labels, and so does
// the result.
struct PlainProduct {
  bool swapped = false;  // The second operand is the left factor.
  dnn::Trans left = dnn::Trans::kNone, right = dnn::Trans::kNone;
  size_t batch = 0, rows = 0, inner = 0, columns = 0;  // Numbers of labels.

  static std::optional<PlainProduct> Of(const Equation& e) {
    if (e.inputs.size() != 2) return std::nullopt;
    for (const Labels* side : {&e.inputs[0], &e.inputs[1], &e.output}) {
      if (Has(*side, kDots)) return std::nullopt;
      for (Label l : *side)
        if (std::count(side->begin(), side->end(), l) > 1) return std::nullopt;
    }
    for (const bool swapped : {false, true})
      if (const auto p = Of(e.inputs[swapped ? 1 : 0],
                            e.inputs[swapped ? 0 : 1], e.output))
        return PlainProduct{swapped, p->left,  p->right,  p->batch,
                            p->rows, p->inner, p->columns};
    return std::nullopt;
  }

 private:
  static std::optional<PlainProduct> Of(const Labels& a, const Labels& b,
                                        const Labels& output) {
    Labels batch, rows, inner, columns;
    for (Label l : output)
      (!Has(a, l) ? columns : Has(b, l) ? batch : rows).push_back(l);
    for (Label l : a)
      if (!Has(output, l)) inner.push_back(l);
    if (output != Join({&batch, &rows, &columns})) return std::nullopt;
    const bool a_turned = a == Join({&batch, &inner, &rows});
    const bool b_turned = b == Join({&batch, &columns, &inner});
    if ((!a_turned && a != Join({&batch, &rows, &inner})) ||
        (!b_turned && b != Join({&batch, &inner, &columns})))
      return std::nullopt;
    return PlainProduct{false,
                        a_turned ? dnn::Trans::kTranspose : dnn::Trans::kNone,
                        b_turned ? dnn::Trans::kTranspose : dnn::Trans::kNone,
                        batch.size(),
                        rows.size(),
                        inner.size(),
                        columns.size()};
  }
};

// Records the size of each label; sizes of 1 in an ellipsis broadcast. -1:
// unknown.
Status Measure(const Labels& labels, std::span<const int64_t> dims,
               Sizes* sizes) {
  for (size_t i = 0; i < labels.size(); ++i) {
    auto [at, is_new] = sizes->emplace(labels[i], dims[i]);
    if (is_new || at->second == dims[i]) continue;
    if (labels[i] < 0 && (at->second == 1 || dims[i] == 1)) {
      if (at->second == 1) at->second = dims[i];
      continue;
    }
    if (at->second < 0 || dims[i] < 0) {
      at->second = labels[i] < 0 ? -1 : std::max(at->second, dims[i]);
      continue;
    }
    return InvalidArgument("einsum: expected one size for a label, got ",
                           at->second, " and ", dims[i]);
  }
  return OkStatus();
}

std::vector<int64_t> DenseStrides(std::span<const int64_t> dims) {
  std::vector<int64_t> strides(dims.size());
  int64_t s = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    strides[i] = s;
    s *= dims[i];
  }
  return strides;
}

// ---- The kernel -------------------------------------------------------------

// A dense array whose dimensions have distinct labels.
struct Labelled {
  Tensor data;
  Labels labels;
  int64_t dim(Label l) const {
    const auto at = std::find(labels.begin(), labels.end(), l);
    return at == labels.end() ? 1
                              : data.dim(static_cast<int>(at - labels.begin()));
  }
};

template <typename T>
class Einsum {
 public:
  static Result<std::shared_ptr<Einsum>> Make(const Node& n) {
    auto k = std::make_shared<Einsum>();
    SLUICE_ASSIGN_OR_RETURN(
        k->equation_,
        Equation::Parse(n.AttrOr<std::string>("equation", ""), n.num_inputs()));
    k->plain_ = PlainProduct::Of(k->equation_);
    return k;
  }

  Status Run(KernelContext& ctx) const {
    if (plain_.has_value()) {
      SLUICE_ASSIGN_OR_RETURN(const bool done, RunPlain(ctx));
      if (done) return OkStatus();
    }
    Sizes sizes;
    std::vector<Labels> labels;
    int dots = 0;
    for (int i = 0; i < ctx.num_inputs(); ++i) {
      const Tensor& t = ctx.input(i);
      const Labels& written = equation_.inputs[static_cast<size_t>(i)];
      SLUICE_ASSIGN_OR_RETURN(Labels l, Expand(written, t.rank()));
      if (Has(written, kDots))
        dots = std::max(dots, t.rank() - static_cast<int>(written.size()) + 1);
      SLUICE_RETURN_IF_ERROR(Measure(l, t.shape().dims(), &sizes));
      labels.push_back(std::move(l));
    }
    const Labels output = ExpandOutput(equation_.output, dots);

    // Prepare each input separately: take diagonals, and sum over labels that
    // no other operand has.
    std::vector<Labelled> parts;
    for (size_t i = 0; i < labels.size(); ++i) {
      Labels wanted = output;
      if (labels.size() == 2)
        wanted.insert(wanted.end(), labels[1 - i].begin(), labels[1 - i].end());
      SLUICE_ASSIGN_OR_RETURN(
          Labelled part,
          Prepare(ctx, ctx.input(static_cast<int>(i)), labels[i], wanted));
      parts.push_back(std::move(part));
    }
    if (parts.size() == 2) {
      SLUICE_ASSIGN_OR_RETURN(parts[0],
                              Multiply(ctx, parts[0], parts[1], output));
    }
    return Deliver(ctx, parts[0], output, sizes);
  }

 private:
  // False if the sizes do not fit.
  Result<bool> RunPlain(KernelContext& ctx) const {
    const PlainProduct& p = *plain_;
    const Tensor& a = ctx.input(p.swapped ? 1 : 0);
    const Tensor& b = ctx.input(p.swapped ? 0 : 1);
    const std::span<const int64_t> da = a.shape().dims(), db = b.shape().dims();
    if (da.size() != p.batch + p.rows + p.inner ||
        db.size() != p.batch + p.inner + p.columns)
      return false;
    const bool a_turned = p.left == dnn::Trans::kTranspose;
    const bool b_turned = p.right == dnn::Trans::kTranspose;
    const auto rows = da.subspan(p.batch + (a_turned ? p.inner : 0), p.rows);
    const auto inner = da.subspan(p.batch + (a_turned ? 0 : p.rows), p.inner);
    const auto columns =
        db.subspan(p.batch + (b_turned ? 0 : p.inner), p.columns);
    const auto inner_of_b =
        db.subspan(p.batch + (b_turned ? p.columns : 0), p.inner);
    const auto batch = da.first(p.batch);
    if (!std::ranges::equal(batch, db.first(p.batch)) ||
        !std::ranges::equal(inner, inner_of_b))
      return false;
    const auto count = [](std::span<const int64_t> dims) {
      int64_t n = 1;
      for (int64_t d : dims) n *= d;
      return n;
    };
    const int64_t m = count(rows), k = count(inner), n = count(columns);
    const int64_t a_dims[] = {count(batch), a_turned ? k : m, a_turned ? m : k};
    const int64_t b_dims[] = {a_dims[0], b_turned ? n : k, b_turned ? k : n};
    SLUICE_ASSIGN_OR_RETURN(
        const dnn::BatchMatMulShape s,
        dnn::BatchMatMulShape::Make(a_dims, 3, b_dims, 3, p.left, p.right));
    Dims dims;
    for (const auto part : {batch, rows, columns})
      dims.insert(dims.end(), part.begin(), part.end());
    SLUICE_ASSIGN_OR_RETURN(const Shape shape,
                            Shape::Make({dims.data(), dims.size()}));
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DTypeOf<T>(), shape));
    dnn::BatchMatMul<T>(s, a.template raw<T>(), b.template raw<T>(),
                        ctx.output(0).template raw<T>());
    return true;
  }

  // `in` as a dense array with distinct labels, summed over those not in
  // `wanted`.
  static Result<Labelled> Prepare(KernelContext& ctx, const Tensor& in,
                                  const Labels& labels, const Labels& wanted) {
    const std::vector<int64_t> strides = DenseStrides(in.shape().dims());
    Labelled out;
    std::vector<int64_t> dims, from;
    for (size_t i = 0; i < labels.size(); ++i) {
      const auto at =
          std::find(out.labels.begin(), out.labels.end(), labels[i]);
      if (at != out.labels.end()) {  // A diagonal.
        from[static_cast<size_t>(at - out.labels.begin())] += strides[i];
        continue;
      }
      out.labels.push_back(labels[i]);
      dims.push_back(in.dim(static_cast<int>(i)));
      from.push_back(strides[i]);
    }
    out.data = in;
    if (out.labels.size() != labels.size()) {
      SLUICE_ASSIGN_OR_RETURN(out.data, Gather(ctx, in, dims, from));
    }
    std::vector<int64_t> kept;
    Labels kept_labels;
    bool reduced[kMaxRank] = {};
    for (size_t i = 0; i < out.labels.size(); ++i) {
      reduced[i] = !Has(wanted, out.labels[i]);
      if (reduced[i]) continue;
      kept.push_back(dims[i]);
      kept_labels.push_back(out.labels[i]);
    }
    if (kept.size() == dims.size()) return out;
    SLUICE_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(kept));
    SLUICE_ASSIGN_OR_RETURN(Tensor sum, ctx.AllocateTemp(in.dtype(), shape));
    simd::Reduce(simd::ReduceOp::kSum, in.dtype(), dims,
                 absl::MakeConstSpan(reduced, dims.size()),
                 std::as_const(out.data).raw(), sum.raw());
    return Labelled{std::move(sum), std::move(kept_labels)};
  }

  // A dense copy of the elements at these strides.
  static Result<Tensor> Gather(KernelContext& ctx, const Tensor& in,
                               const std::vector<int64_t>& dims,
                               const std::vector<int64_t>& strides) {
    SLUICE_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
    SLUICE_ASSIGN_OR_RETURN(Tensor out, ctx.AllocateTemp(in.dtype(), shape));
    if (shape.num_elements() > 0)
      simd::StridedCopy(sizeof(T), dims, in.raw(), strides, out.raw(),
                        DenseStrides(dims));
    return out;
  }

  // x with its dimensions in the order of `labels`, with size 1 for missing
  // ones, viewed as an array of shape `shape`.
  static Result<Tensor> Arrange(KernelContext& ctx, const Labelled& x,
                                const Labels& labels, const Shape& shape) {
    const std::vector<int64_t> strides = DenseStrides(x.data.shape().dims());
    std::vector<int64_t> dims, from;
    for (Label l : labels) {
      const auto at = std::find(x.labels.begin(), x.labels.end(), l);
      dims.push_back(x.dim(l));
      from.push_back(at == x.labels.end()
                         ? 0
                         : strides[static_cast<size_t>(at - x.labels.begin())]);
    }
    if (labels == x.labels) return x.data.Reshaped(shape);
    if (dims.size() > static_cast<size_t>(kMaxRank))
      return Unimplemented("einsum: expected at most ", kMaxRank,
                           " labels together, got ", dims.size());
    SLUICE_ASSIGN_OR_RETURN(Tensor t, Gather(ctx, x.data, dims, from));
    return t.Reshaped(shape);
  }

  // The product of matrices [batch, rows, inner] and [batch, inner, columns].
  static Result<Labelled> Multiply(KernelContext& ctx, const Labelled& a,
                                   const Labelled& b, const Labels& output) {
    Labels batch, rows, inner, columns;
    for (Label l : a.labels)
      (!Has(b.labels, l) ? rows : Has(output, l) ? batch : inner).push_back(l);
    for (Label l : b.labels)
      if (!Has(a.labels, l)) columns.push_back(l);
    // Dimensions of an ellipsis broadcast: they stay in the batch.
    const auto count = [](const Labelled& x, const Labels& labels) {
      int64_t n = 1;
      for (Label l : labels) n *= x.dim(l);
      return n;
    };
    for (Label l : inner)
      if (a.dim(l) != b.dim(l))
        return Unimplemented(
            "einsum: expected summed dimensions that do not broadcast, got ",
            a.dim(l), " and ", b.dim(l));
    std::vector<int64_t> a_dims, b_dims, out_dims;
    for (Label l : batch) {
      a_dims.push_back(a.dim(l));
      b_dims.push_back(b.dim(l));
      out_dims.push_back(a.dim(l) == 1 ? b.dim(l) : a.dim(l));
    }
    const int64_t m = count(a, rows), k = count(a, inner),
                  n = count(b, columns);
    // (A factor that lies as a transposed matrix is read as one.)
    const Labels a_turned = Join({&batch, &inner, &rows});
    const Labels b_turned = Join({&batch, &columns, &inner});
    const bool turn_a = a.labels == a_turned, turn_b = b.labels == b_turned;
    a_dims.insert(a_dims.end(), {turn_a ? k : m, turn_a ? m : k});
    b_dims.insert(b_dims.end(), {turn_b ? n : k, turn_b ? k : n});
    SLUICE_ASSIGN_OR_RETURN(const Shape a_shape, Shape::Make(a_dims));
    SLUICE_ASSIGN_OR_RETURN(const Shape b_shape, Shape::Make(b_dims));
    SLUICE_ASSIGN_OR_RETURN(
        const Tensor left,
        Arrange(ctx, a, turn_a ? a_turned : Join({&batch, &rows, &inner}),
                a_shape));
    SLUICE_ASSIGN_OR_RETURN(
        const Tensor right,
        Arrange(ctx, b, turn_b ? b_turned : Join({&batch, &inner, &columns}),
                b_shape));
    SLUICE_ASSIGN_OR_RETURN(
        const dnn::BatchMatMulShape s,
        dnn::BatchMatMulShape::Make(
            a_dims.data(), static_cast<int>(a_dims.size()), b_dims.data(),
            static_cast<int>(b_dims.size()),
            turn_a ? dnn::Trans::kTranspose : dnn::Trans::kNone,
            turn_b ? dnn::Trans::kTranspose : dnn::Trans::kNone));
    for (Label l : rows) out_dims.push_back(a.dim(l));
    for (Label l : columns) out_dims.push_back(b.dim(l));
    SLUICE_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(out_dims));
    SLUICE_ASSIGN_OR_RETURN(Tensor product,
                            ctx.AllocateTemp(DTypeOf<T>(), shape));
    dnn::BatchMatMul<T>(s, left.template raw<T>(), right.template raw<T>(),
                        product.raw<T>());
    return Labelled{std::move(product), Join({&batch, &rows, &columns})};
  }

  // Output 0: x with its dimensions in order, written to the diagonal of
  // repeated labels.
  static Status Deliver(KernelContext& ctx, const Labelled& x,
                        const Labels& output, const Sizes& sizes) {
    std::vector<int64_t> dims;
    for (Label l : output) dims.push_back(sizes.at(l));
    SLUICE_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
    if (output == x.labels) {
      SLUICE_ASSIGN_OR_RETURN(ctx.output(0), x.data.Reshaped(shape));
      return OkStatus();
    }
    const std::vector<int64_t> all = DenseStrides(dims);
    const std::vector<int64_t> own = DenseStrides(x.data.shape().dims());
    std::vector<int64_t> from_dims, to;
    for (Label l : x.labels) {
      from_dims.push_back(x.dim(l));
      to.push_back(0);
      for (size_t i = 0; i < output.size(); ++i)
        if (output[i] == l) to.back() += all[i];
    }
    if (output.size() == x.labels.size()) {
      SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DTypeOf<T>(), shape));
    } else {
      SLUICE_ASSIGN_OR_RETURN(ctx.output(0),
                              Tensor::Zeros(DTypeOf<T>(), shape));
    }
    if (x.data.num_elements() > 0)
      simd::StridedCopy(sizeof(T), from_dims, x.data.raw(), own,
                        ctx.output(0).raw(), to);
    return OkStatus();
  }

  Equation equation_;
  std::optional<PlainProduct> plain_;
};

// ---- Shape ------------------------------------------------------------------

Status EinsumShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(
      const Equation e,
      Equation::Parse(c.node().AttrOr<std::string>("equation", ""),
                      c.num_inputs()));
  Sizes sizes;
  int dots = 0;
  for (int i = 0; i < c.num_inputs(); ++i) {
    const PartialShape& s = c.input(i);
    if (!s.rank_known()) return OkStatus();
    const Labels& written = e.inputs[static_cast<size_t>(i)];
    SLUICE_ASSIGN_OR_RETURN(const Labels l, Expand(written, s.rank()));
    if (Has(written, kDots))
      dots = std::max(dots, s.rank() - static_cast<int>(written.size()) + 1);
    SLUICE_RETURN_IF_ERROR(
        Measure(l, {s.dims().data(), s.dims().size()}, &sizes));
  }
  PartialShape out = PartialShape::Scalar();
  for (Label l : ExpandOutput(e.output, dots)) out.add_dim(sizes.at(l));
  c.set_output(0, std::move(out));
  return OkStatus();
}

// ---- Gradient ---------------------------------------------------------------

std::string Text(const Labels& labels) {
  std::string out;
  for (Label l : labels)
    out +=
        l == kDots ? std::string("...") : std::string(1, static_cast<char>(l));
  return out;
}

// Each label once, with the ellipsis first: broadcast dimensions are then the
// leading ones.
Labels Unique(const Labels& labels) {
  Labels out;
  if (Has(labels, kDots)) out.push_back(kDots);
  for (Label l : labels)
    if (!Has(out, l)) out.push_back(l);
  return out;
}

// A vector of the sizes in x (labels `own`) of some of its labels, excluding
// ellipses.
Output SizesOf(Output x, const Labels& own, const Labels& labels) {
  const Output shape = grad::ShapeOf(x);
  const auto dots = std::find(own.begin(), own.end(), kDots);
  std::vector<Output> sizes;
  for (Label l : labels) {
    const auto place = std::find(own.begin(), own.end(), l);
    // After an ellipsis they are counted from the end.
    const int i =
        static_cast<int>(place - (place < dots ? own.begin() : own.end()));
    sizes.push_back(
        Build("StridedSlice",
              {shape, IntVector({i}), IntVector({i + 1}), IntVector({1})},
              {{"shrink_axis_mask", 1}}));
  }
  return Build("Pack", sizes);
}

Output EinsumOf(std::vector<Output> inputs, const std::string& equation) {
  const int n = static_cast<int>(inputs.size());
  return Build("Einsum", std::move(inputs), {{"equation", equation}, {"N", n}});
}

// The gradient for x (labels `own`): dy times the other input, summed over
// labels that x lacks, repeated along labels that only x has, and placed on the
// diagonal of labels that occur twice in x.
Output EinsumGradFor(Output x, Output dy, Output other, const Labels& own,
                     const Labels& output, const Labels* other_labels) {
  const Labels unique = Unique(own);
  Labels reachable, only_here;
  for (Label l : unique)
    (Has(output, l) || (other_labels != nullptr && Has(*other_labels, l))
         ? reachable
         : only_here)
        .push_back(l);
  // A diagonal in the output is read as a diagonal.
  Output d = other_labels == nullptr
                 ? EinsumOf({dy}, Text(output) + "->" + Text(reachable))
                 : EinsumOf({dy, grad::Conj(other)},
                            Text(output) + "," + Text(*other_labels) + "->" +
                                Text(reachable));
  if (!only_here.empty()) {
    const Output ones =
        Build("Fill", {SizesOf(x, own, only_here), grad::Number(dy, 1)});
    d = EinsumOf({d, ones},
                 Text(reachable) + "," + Text(only_here) + "->" + Text(unique));
  }
  if (other_labels != nullptr && Has(own, kDots)) {
    const Output like =
        unique == own ? x : EinsumOf({x}, Text(own) + "->" + Text(unique));
    if (d.valid() && like.valid() &&
        !(d.shape().fully_known() && d.shape() == like.shape()))
      d = grad::SumToShapeOf(d, like);
  }
  return unique == own ? d : EinsumOf({d}, Text(unique) + "->" + Text(own));
}

Status EinsumGrad(GradContext& c) {
  SLUICE_ASSIGN_OR_RETURN(
      const Equation e,
      Equation::Parse(c.op->AttrOr<std::string>("equation", ""),
                      c.op->num_inputs()));
  const bool two = e.inputs.size() == 2;
  for (int i = 0; i < c.op->num_inputs(); ++i) {
    const size_t self = static_cast<size_t>(i);
    const Labels& own = e.inputs[self];
    const Labels* other_labels = two ? &e.inputs[1 - self] : nullptr;
    const Output x = c.input(i);
    const bool only_here =
        Has(own, kDots) && !Has(e.output, kDots) &&
        (other_labels == nullptr || !Has(*other_labels, kDots));
    if (only_here)
      return Unimplemented(
          "gradient of Einsum: expected an ellipsis that the output has too");
    c.grads[self] = EinsumGradFor(x, c.dy[0], two ? c.input(1 - i) : Output(),
                                  own, e.output, other_labels);
  }
  return OkStatus();
}

SLUICE_OP(Einsum)
    .Input("inputs: N * T")
    .Output("output: T")
    .Attr("equation: string")
    .Attr("N: int >= 1")
    .Attr("T: type")
    .Family("math")
    .Shape(EinsumShape)
    .Kernel(CpuStateFor<Einsum, float, double, half, bfloat16, int32_t, int64_t,
                        complex64, complex128>("T", /*expensive=*/true))
    .Grad(EinsumGrad)
    .Sample({{.shape = {2, 3}, .dtype = DType::kFloat},
             {.shape = {3, 4}, .dtype = DType::kFloat}},
            {{"equation", "ab,bc->ca"}, {"N", 2}})
    .Sample({{.shape = {3, 2, 3}, .dtype = DType::kFloat}},
            {{"equation", "aba->ab"}, {"N", 1}})
    .Sample({{.shape = {2, 3, 4}, .dtype = DType::kFloat},
             {.shape = {4, 2}, .dtype = DType::kFloat}},
            {{"equation", "...ij,jk->...ik"}, {"N", 2}})
    .Sample({{.shape = {2, 3}, .dtype = DType::kFloat},
             {.shape = {2, 3}, .dtype = DType::kFloat}},
            {{"equation", "i...,...->i..."}, {"N", 2}})
    .Sample({{.shape = {3, 4, 2, 2}, .dtype = DType::kFloat},
             {.shape = {2, 1, 2}, .dtype = DType::kFloat}},
            {{"equation", "j...k,i...->...ik"}, {"N", 2}})
    .Sample({{.shape = {3, 4, 2, 3}, .dtype = DType::kFloat}},
            {{"equation", "i...i->..."}, {"N", 1}})
    .Sample({{.shape = {3, 2, 4}, .dtype = DType::kFloat}},
            {{"equation", "i...j->...j"}, {"N", 1}})
    .Doc(
        "Sums products of elements according to an equation in Einstein "
        "notation.");

}  // namespace
}  // namespace sluice
