// SequenceExamples, from their serialised form to columns.
#include <algorithm>
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

Result<SequenceLayout> SequenceLayoutOf(const Node& n) {
  SequenceLayout out;
  const auto strings = [&n](const char* a) {
    return n.AttrOr<AttrValue::Strings>(a, {});
  };
  const auto types = [&n](const char* a) {
    return n.AttrOr<AttrValue::Types>(a, {});
  };
  const auto shapes = [&n](const char* a) {
    return n.AttrOr<AttrValue::Shapes>(a, {});
  };
  const auto missing = strings("feature_list_dense_missing_assumed_empty");
  const auto context_sparse = strings("context_sparse_keys");
  const auto context_sparse_types = types("context_sparse_types");
  const auto context_dense = strings("context_dense_keys");
  const auto context_dense_types = types("Tcontext_dense");
  const auto context_dense_shapes = shapes("context_dense_shapes");
  const auto list_sparse = strings("feature_list_sparse_keys");
  const auto list_sparse_types = types("feature_list_sparse_types");
  const auto list_dense = strings("feature_list_dense_keys");
  const auto list_dense_types = types("feature_list_dense_types");
  const auto list_dense_shapes = shapes("feature_list_dense_shapes");
  const struct {
    const char* what;
    size_t got;
    const char* number;
  } counts[] = {
      {"context_sparse_keys", context_sparse.size(), "Ncontext_sparse"},
      {"context_sparse_types", context_sparse_types.size(), "Ncontext_sparse"},
      {"context_dense_keys", context_dense.size(), "Ncontext_dense"},
      {"Tcontext_dense", context_dense_types.size(), "Ncontext_dense"},
      {"context_dense_shapes", context_dense_shapes.size(), "Ncontext_dense"},
      {"feature_list_sparse_keys", list_sparse.size(), "Nfeature_list_sparse"},
      {"feature_list_sparse_types", list_sparse_types.size(),
       "Nfeature_list_sparse"},
      {"feature_list_dense_keys", list_dense.size(), "Nfeature_list_dense"},
      {"feature_list_dense_types", list_dense_types.size(),
       "Nfeature_list_dense"},
      {"feature_list_dense_shapes", list_dense_shapes.size(),
       "Nfeature_list_dense"}};
  for (const auto& c : counts)
    SLUICE_RETURN_IF_ERROR(CheckCount(c.what, c.got, n, c.number));
  for (size_t i = 0; i < context_sparse.size(); ++i)
    out.context.sparse.push_back({context_sparse[i], context_sparse_types[i]});
  for (size_t i = 0; i < context_dense.size(); ++i) {
    SLUICE_RETURN_IF_ERROR(Annotate(context_dense_shapes[i].ToShape().status(),
                                    "context_dense_shapes"));
    out.context.dense.push_back({context_dense[i], context_dense_types[i],
                                 context_dense_shapes[i], Tensor()});
  }
  for (size_t i = 0; i < list_sparse.size(); ++i)
    out.lists.sparse.push_back({list_sparse[i], list_sparse_types[i]});
  for (size_t i = 0; i < list_dense.size(); ++i) {
    const Result<Shape> shape = list_dense_shapes[i].ToShape();
    SLUICE_RETURN_IF_ERROR(
        Annotate(shape.status(), "feature_list_dense_shapes"));
    out.lists.dense.push_back({list_dense[i], list_dense_types[i], *shape,
                               std::find(missing.begin(), missing.end(),
                                         list_dense[i]) != missing.end()});
  }
  return out;
}

class ParseSequenceExampleKernel {
 public:
  static Result<std::shared_ptr<ParseSequenceExampleKernel>> Make(
      const Node& n) {
    auto k = std::make_shared<ParseSequenceExampleKernel>();
    SLUICE_ASSIGN_OR_RETURN(k->layout_, SequenceLayoutOf(n));
    return k;
  }

  Status Run(KernelContext& ctx) const {
    ExampleSpec context = layout_.context;
    int in = 2;
    for (auto& f : context.dense) f.default_value = ctx.input(in++);
    SLUICE_ASSIGN_OR_RETURN(ExampleColumns columns,
                            ParseExamples(ctx.input(0), ctx.input(1), context));
    SLUICE_ASSIGN_OR_RETURN(
        SequenceColumns lists,
        ParseSequences(ctx.input(0), ctx.input(1), layout_.lists));
    int i = 0;
    for (auto* list :
         {&columns.sparse_indices, &columns.sparse_values,
          &columns.sparse_shapes, &columns.dense_values, &lists.sparse_indices,
          &lists.sparse_values, &lists.sparse_shapes, &lists.dense_values,
          &lists.dense_lengths})
      for (Tensor& t : *list) ctx.set_output(i++, std::move(t));
    return OkStatus();
  }

 private:
  SequenceLayout layout_;
};

Status ParseSequenceExampleShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const SequenceLayout layout,
                          SequenceLayoutOf(c.node()));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape batch, c.WithRankAtMost(0, 1));
  SLUICE_RETURN_IF_ERROR(c.WithRankAtMost(1, 1).status());
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
  for (size_t k = 0; k < layout.lists.dense.size(); ++k)
    c.set_output(i++, batch);
  return OkStatus();
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

}  // namespace
}  // namespace sluice
