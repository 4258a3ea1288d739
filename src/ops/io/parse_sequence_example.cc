// SequenceExamples, from their serialised form to columns.
#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "exec/core/kernel.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "io/example.h"

namespace sluice {
namespace {

// What a node reads, except the defaults.
struct SequenceLayout {
  ExampleSpec context;
  SequenceSpec lists;
};

Status CheckCount(const char* what, size_t got, const Node& n,
                  const char* number) {
  if (static_cast<int64_t>(got) == n.IntAttr(number)) return OkStatus();
  return InvalidArgument(what, ": expected ", n.IntAttr(number), " elements (",
                         number, "), got ", got);
}

// The types and shapes; the keys are those of attributes or inputs.
Result<SequenceLayout> SequenceLayoutOf(const Node& n) {
  SequenceLayout out;
  const auto types = [&n](const char* a) {
    return n.AttrOr<AttrValue::Types>(a, {});
  };
  const auto shapes = [&n](const char* a) {
    return n.AttrOr<AttrValue::Shapes>(a, {});
  };
  const auto context_sparse = types("context_sparse_types");
  const auto context_dense = types("Tcontext_dense");
  const auto context_shapes = shapes("context_dense_shapes");
  const auto list_sparse = types("feature_list_sparse_types");
  const auto list_dense = types("feature_list_dense_types");
  const auto list_shapes = shapes("feature_list_dense_shapes");
  const struct {
    const char* what;
    size_t got;
    const char* number;
  } counts[] = {
      {"context_sparse_types", context_sparse.size(), "Ncontext_sparse"},
      {"Tcontext_dense", context_dense.size(), "Ncontext_dense"},
      {"context_dense_shapes", context_shapes.size(), "Ncontext_dense"},
      {"feature_list_sparse_types", list_sparse.size(), "Nfeature_list_sparse"},
      {"feature_list_dense_types", list_dense.size(), "Nfeature_list_dense"},
      {"feature_list_dense_shapes", list_shapes.size(), "Nfeature_list_dense"}};
  for (const auto& c : counts)
    SLUICE_RETURN_IF_ERROR(CheckCount(c.what, c.got, n, c.number));
  for (const DType t : context_sparse) out.context.sparse.push_back({"", t});
  for (size_t i = 0; i < context_dense.size(); ++i) {
    SLUICE_RETURN_IF_ERROR(
        Annotate(context_shapes[i].ToShape().status(), "context_dense_shapes"));
    out.context.dense.push_back(
        {"", context_dense[i], context_shapes[i], Tensor()});
  }
  for (const DType t : list_sparse) out.lists.sparse.push_back({"", t});
  for (size_t i = 0; i < list_dense.size(); ++i) {
    const Result<Shape> shape = list_shapes[i].ToShape();
    SLUICE_RETURN_IF_ERROR(
        Annotate(shape.status(), "feature_list_dense_shapes"));
    out.lists.dense.push_back({"", list_dense[i], *shape, false});
  }
  return out;
}

// Calls set(attribute, number, features) for each kind of feature: its keys are
// the attribute or the inputs of that name, and there are `number` of them.
template <typename Set>
Status ForEachKind(SequenceLayout* layout, Set&& set) {
  SLUICE_RETURN_IF_ERROR(
      set("context_sparse_keys", "Ncontext_sparse", layout->context.sparse));
  SLUICE_RETURN_IF_ERROR(
      set("context_dense_keys", "Ncontext_dense", layout->context.dense));
  SLUICE_RETURN_IF_ERROR(set("feature_list_sparse_keys", "Nfeature_list_sparse",
                             layout->lists.sparse));
  return set("feature_list_dense_keys", "Nfeature_list_dense",
             layout->lists.dense);
}

void SetMayBeMissing(std::span<const std::string> keys, SequenceSpec* lists) {
  for (auto& f : lists->dense)
    f.may_be_missing = std::find(keys.begin(), keys.end(), f.key) != keys.end();
}

// Reads; the outputs after the last that the op has are dropped.
Status RunParse(KernelContext& ctx, SequenceLayout layout, int first_default,
                const Tensor& names) {
  for (auto& f : layout.context.dense)
    f.default_value = ctx.input(first_default++);
  SLUICE_ASSIGN_OR_RETURN(ExampleColumns columns,
                          ParseExamples(ctx.input(0), names, layout.context));
  SLUICE_ASSIGN_OR_RETURN(SequenceColumns lists,
                          ParseSequences(ctx.input(0), names, layout.lists));
  int i = 0;
  for (auto* list :
       {&columns.sparse_indices, &columns.sparse_values, &columns.sparse_shapes,
        &columns.dense_values, &lists.sparse_indices, &lists.sparse_values,
        &lists.sparse_shapes, &lists.dense_values, &lists.dense_lengths})
    for (Tensor& t : *list)
      if (i < ctx.num_outputs()) ctx.set_output(i++, std::move(t));
  return OkStatus();
}

class ParseSequenceExampleKernel {
 public:
  static Result<std::shared_ptr<ParseSequenceExampleKernel>> Make(
      const Node& n) {
    auto k = std::make_shared<ParseSequenceExampleKernel>();
    SLUICE_ASSIGN_OR_RETURN(k->layout_, SequenceLayoutOf(n));
    SLUICE_RETURN_IF_ERROR(ForEachKind(
        &k->layout_, [&](const char* attr, const char* number, auto& features) {
          const auto keys = n.AttrOr<AttrValue::Strings>(attr, {});
          SLUICE_RETURN_IF_ERROR(CheckCount(attr, keys.size(), n, number));
          for (size_t i = 0; i < keys.size(); ++i) features[i].key = keys[i];
          return OkStatus();
        }));
    SetMayBeMissing(n.AttrOr<AttrValue::Strings>(
                        "feature_list_dense_missing_assumed_empty", {}),
                    &k->layout_.lists);
    return k;
  }
  Status Run(KernelContext& ctx) const {
    return RunParse(ctx, layout_, 2, ctx.input(1));
  }

 private:
  SequenceLayout layout_;
};

// The keys are inputs.
class ParseSingleSequenceExampleKernel {
 public:
  static Result<std::shared_ptr<ParseSingleSequenceExampleKernel>> Make(
      const Node& n) {
    auto k = std::make_shared<ParseSingleSequenceExampleKernel>();
    SLUICE_ASSIGN_OR_RETURN(k->layout_, SequenceLayoutOf(n));
    return k;
  }
  Status Run(KernelContext& ctx) const {
    const Tensor& missing = ctx.input(1);
    const Tensor& name = ctx.input(ctx.num_inputs() - 1);
    if (ctx.input(0).rank() != 0 || missing.rank() != 1 || name.rank() != 0)
      return InvalidArgument(
          "serialized, feature_list_dense_missing_assumed_empty, debug_name: "
          "expected a scalar, a vector and a scalar, got shapes ",
          ctx.input(0).shape().ToString(), ", ", missing.shape().ToString(),
          " and ", name.shape().ToString());
    SequenceLayout layout = layout_;
    int in = 2;
    SLUICE_RETURN_IF_ERROR(ForEachKind(
        &layout, [&](const char* input, const char*, auto& features) {
          for (auto& f : features) {
            const Tensor& key = ctx.input(in++);
            if (key.rank() != 0)
              return InvalidArgument(input, ": expected scalars, got shape ",
                                     key.shape().ToString());
            f.key = key.raw_scalar<std::string>();
          }
          return OkStatus();
        }));
    SetMayBeMissing(missing.raw_flat<std::string>(), &layout.lists);
    return RunParse(ctx, std::move(layout), in, name);
  }

 private:
  SequenceLayout layout_;
};

// The shapes of all columns that the op has; `batch`: that of `serialized`.
Status SetSequenceShapes(ShapeContext& c, const PartialShape& batch) {
  SLUICE_ASSIGN_OR_RETURN(const SequenceLayout layout,
                          SequenceLayoutOf(c.node()));
  const bool known = batch.rank_known();
  int i = 0;
  const auto sparse = [&](size_t n, int inner) {
    const int64_t rank = known ? batch.rank() + inner : -1;
    for (size_t k = 0; k < n; ++k) c.set_output(i++, PartialShape({-1, rank}));
    for (size_t k = 0; k < n; ++k) c.set_output(i++, PartialShape({-1}));
    for (size_t k = 0; k < n; ++k) c.set_output(i++, PartialShape({rank}));
  };
  const auto dense = [&](bool frames, std::span<const int64_t> dims) {
    if (!known) return c.set_output(i++, PartialShape());
    Dims all = batch.dims();
    if (frames) all.push_back(-1);
    all.insert(all.end(), dims.begin(), dims.end());
    c.set_output(
        i++, PartialShape(std::span<const int64_t>(all.data(), all.size())));
  };
  sparse(layout.context.sparse.size(), 1);
  for (const auto& f : layout.context.dense)
    dense(false, {f.shape.dims().data(), f.shape.dims().size()});
  sparse(layout.lists.sparse.size(), 2);
  for (const auto& f : layout.lists.dense) dense(true, f.shape.dims());
  while (i < c.num_outputs()) c.set_output(i++, batch);  // The lengths.
  return OkStatus();
}

Status ParseSequenceExampleShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const PartialShape batch, c.WithRankAtMost(0, 1));
  SLUICE_RETURN_IF_ERROR(c.WithRankAtMost(1, 1).status());
  return SetSequenceShapes(c, batch);
}

Status ParseSingleSequenceExampleShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.RequireScalar(0));
  SLUICE_RETURN_IF_ERROR(c.WithRank(1, 1).status());
  return SetSequenceShapes(c, PartialShape::Scalar());
}

SLUICE_OP(ParseSequenceExample)
    .Input("serialized: string")
    .Input("debug_name: string")
    .Input("context_dense_defaults: Tcontext_dense")
    .Output("context_sparse_indices: Ncontext_sparse * int64")
    .Output("context_sparse_values: context_sparse_types")
    .Output("context_sparse_shapes: Ncontext_sparse * int64")
    .Output("context_dense_values: Tcontext_dense")
    .Output("feature_list_sparse_indices: Nfeature_list_sparse * int64")
    .Output("feature_list_sparse_values: feature_list_sparse_types")
    .Output("feature_list_sparse_shapes: Nfeature_list_sparse * int64")
    .Output("feature_list_dense_values: feature_list_dense_types")
    .Output("feature_list_dense_lengths: Nfeature_list_dense * int64")
    .Attr("feature_list_dense_missing_assumed_empty: list(string) >= 0")
    .Attr("context_sparse_keys: list(string) >= 0")
    .Attr("context_dense_keys: list(string) >= 0")
    .Attr("feature_list_sparse_keys: list(string) >= 0")
    .Attr("feature_list_dense_keys: list(string) >= 0")
    .Attr("Ncontext_sparse: int >= 0 = 0")
    .Attr("Ncontext_dense: int >= 0 = 0")
    .Attr("Nfeature_list_sparse: int >= 0 = 0")
    .Attr("Nfeature_list_dense: int >= 0 = 0")
    .Attr("context_sparse_types: list({float, int64, string}) >= 0 = []")
    .Attr("Tcontext_dense: list({float, int64, string}) >= 0 = []")
    .Attr("feature_list_dense_types: list({float, int64, string}) >= 0 = []")
    .Attr("context_dense_shapes: list(shape) >= 0 = []")
    .Attr("feature_list_sparse_types: list({float, int64, string}) >= 0 = []")
    .Attr("feature_list_dense_shapes: list(shape) >= 0 = []")
    .Family("io")
    .Shape(ParseSequenceExampleShape)
    .Kernel(CpuState<ParseSequenceExampleKernel>())
    .NoGradient("it reads text or bytes")
    .Sample({{.shape = {0}, .dtype = DType::kString},
             {.shape = {0}, .dtype = DType::kString}},
            {{"feature_list_dense_missing_assumed_empty", AttrValue::Strings{}},
             {"context_sparse_keys", AttrValue::Strings{"a"}},
             {"context_dense_keys", AttrValue::Strings{}},
             {"feature_list_sparse_keys", AttrValue::Strings{"b"}},
             {"feature_list_dense_keys", AttrValue::Strings{"c"}},
             {"Ncontext_sparse", 1},
             {"Nfeature_list_sparse", 1},
             {"Nfeature_list_dense", 1},
             {"context_sparse_types", AttrValue::Types{DType::kFloat}},
             {"feature_list_sparse_types", AttrValue::Types{DType::kInt64}},
             {"feature_list_dense_types", AttrValue::Types{DType::kString}},
             {"feature_list_dense_shapes",
              AttrValue::Shapes{PartialShape({2})}}})
    .Doc(
        "Reads the context and the feature lists of serialised "
        "SequenceExamples, a batch or one, into tensors.");

SLUICE_OP(ParseSingleSequenceExample)
    .Input("serialized: string")
    .Input("feature_list_dense_missing_assumed_empty: string")
    .Input("context_sparse_keys: Ncontext_sparse * string")
    .Input("context_dense_keys: Ncontext_dense * string")
    .Input("feature_list_sparse_keys: Nfeature_list_sparse * string")
    .Input("feature_list_dense_keys: Nfeature_list_dense * string")
    .Input("context_dense_defaults: Tcontext_dense")
    .Input("debug_name: string")
    .Output("context_sparse_indices: Ncontext_sparse * int64")
    .Output("context_sparse_values: context_sparse_types")
    .Output("context_sparse_shapes: Ncontext_sparse * int64")
    .Output("context_dense_values: Tcontext_dense")
    .Output("feature_list_sparse_indices: Nfeature_list_sparse * int64")
    .Output("feature_list_sparse_values: feature_list_sparse_types")
    .Output("feature_list_sparse_shapes: Nfeature_list_sparse * int64")
    .Output("feature_list_dense_values: feature_list_dense_types")
    .Attr("Ncontext_sparse: int >= 0 = 0")
    .Attr("Ncontext_dense: int >= 0 = 0")
    .Attr("Nfeature_list_sparse: int >= 0 = 0")
    .Attr("Nfeature_list_dense: int >= 0 = 0")
    .Attr("context_sparse_types: list({float, int64, string}) >= 0 = []")
    .Attr("Tcontext_dense: list({float, int64, string}) >= 0 = []")
    .Attr("feature_list_dense_types: list({float, int64, string}) >= 0 = []")
    .Attr("context_dense_shapes: list(shape) >= 0 = []")
    .Attr("feature_list_sparse_types: list({float, int64, string}) >= 0 = []")
    .Attr("feature_list_dense_shapes: list(shape) >= 0 = []")
    .Family("io")
    .Shape(ParseSingleSequenceExampleShape)
    .Kernel(CpuState<ParseSingleSequenceExampleKernel>())
    .NoGradient("it reads text or bytes")
    // (The text of the first number is a message of unknown fields.)
    .Sample({{.shape = {}, .values = {123456789}, .dtype = DType::kString},
             {.shape = {1}, .values = {1}, .dtype = DType::kString},
             {.shape = {}, .values = {2}, .dtype = DType::kString},
             {.shape = {}, .values = {1}, .dtype = DType::kString},
             {.shape = {}, .values = {3}, .dtype = DType::kString}},
            {{"Ncontext_sparse", 1},
             {"Ncontext_dense", 0},
             {"Nfeature_list_sparse", 0},
             {"Nfeature_list_dense", 1},
             {"context_sparse_types", AttrValue::Types{DType::kFloat}},
             {"Tcontext_dense", AttrValue::Types{}},
             {"feature_list_dense_types", AttrValue::Types{DType::kString}},
             {"feature_list_dense_shapes",
              AttrValue::Shapes{PartialShape({2})}}})
    .Doc(
        "Reads the context and the feature lists of one serialised "
        "SequenceExample into tensors.");

}  // namespace
}  // namespace sluice
