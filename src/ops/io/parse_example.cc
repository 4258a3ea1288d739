// Examples, from their serialised form to columns.
#include <string>
#include <vector>

#include "exec/core/kernel.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "io/example.h"

namespace sluice {
namespace {

// ---- Specifications ---------------------------------------------------------

// The attributes that all versions have, under the same names.
struct ParseAttrs {
  explicit ParseAttrs(const Node& n)
      : sparse_types(n.AttrOr<AttrValue::Types>("sparse_types", {})),
        dense_types(n.AttrOr<AttrValue::Types>("Tdense", {})),
        dense_shapes(n.AttrOr<AttrValue::Shapes>("dense_shapes", {})),
        ragged_types(n.AttrOr<AttrValue::Types>("ragged_value_types", {})),
        split_types(n.AttrOr<AttrValue::Types>("ragged_split_types", {})) {}

  // InvalidArgument unless the lists fit to each other.
  Status Check(const Node& n) const {
    const char* const num_sparse =
        n.FindAttr("Nsparse") != nullptr ? "Nsparse" : "num_sparse";
    if (static_cast<int64_t>(sparse_types.size()) != n.IntAttr(num_sparse))
      return InvalidArgument("sparse_types: expected ", n.IntAttr(num_sparse),
                             " types (", num_sparse, "), got ",
                             sparse_types.size());
    if (dense_shapes.size() != dense_types.size())
      return InvalidArgument("dense_shapes: expected ", dense_types.size(),
                             " shapes, one for each type of Tdense, got ",
                             dense_shapes.size());
    if (split_types.size() != ragged_types.size())
      return InvalidArgument(
          "ragged_split_types: expected ", ragged_types.size(),
          " types, as ragged_value_types, got ", split_types.size());
    for (const PartialShape& s : dense_shapes) {
      if (!s.rank_known())
        return InvalidArgument("dense_shapes: expected known ranks, got ",
                               s.ToString());
      for (int d = 1; d < s.rank(); ++d)
        if (s.dim(d) < 0)
          return InvalidArgument(
              "dense_shapes: expected only the first dimension to be unknown, "
              "got ",
              s.ToString());
    }
    return OkStatus();
  }

  // A specification without keys and defaults.
  ExampleSpec Spec() const {
    ExampleSpec spec;
    for (const DType t : sparse_types) spec.sparse.push_back({"", t});
    for (size_t i = 0; i < dense_types.size(); ++i)
      spec.dense.push_back({"", dense_types[i], dense_shapes[i], Tensor()});
    for (size_t i = 0; i < ragged_types.size(); ++i)
      spec.ragged.push_back({"", ragged_types[i], split_types[i]});
    return spec;
  }

  const AttrValue::Types sparse_types, dense_types;
  const AttrValue::Shapes dense_shapes;
  const AttrValue::Types ragged_types, split_types;
};

// ---- Kernels ----------------------------------------------------------------

void SetColumns(KernelContext& ctx, ExampleColumns columns) {
  int i = 0;
  for (auto* list :
       {&columns.sparse_indices, &columns.sparse_values, &columns.sparse_shapes,
        &columns.dense_values, &columns.ragged_values, &columns.ragged_splits})
    for (Tensor& t : *list) ctx.set_output(i++, std::move(t));
}

// A kernel K whose keys are inputs.
template <typename K>
class KeysAreInputs {
 public:
  static Result<std::shared_ptr<K>> Make(const Node& n) {
    auto k = std::make_shared<K>(n);
    SLUICE_RETURN_IF_ERROR(k->attrs_.Check(n));
    return k;
  }
  explicit KeysAreInputs(const Node& n) : attrs_(n) {}

 protected:
  const ParseAttrs attrs_;
};

// ParseExample: each key is an input of its own.
class ParseExampleKernel : public KeysAreInputs<ParseExampleKernel> {
 public:
  using KeysAreInputs::KeysAreInputs;
  Status Run(KernelContext& ctx) const {
    if (ctx.input(0).rank() != 1)
      return InvalidArgument("serialized: expected a vector, got shape ",
                             ctx.input(0).shape().ToString());
    ExampleSpec spec = attrs_.Spec();
    int i = 2;
    for (auto& f : spec.sparse)
      SLUICE_RETURN_IF_ERROR(Key(ctx.input(i++), "sparse_keys", &f.key));
    for (auto& f : spec.dense)
      SLUICE_RETURN_IF_ERROR(Key(ctx.input(i++), "dense_keys", &f.key));
    for (auto& f : spec.dense) f.default_value = ctx.input(i++);
    SLUICE_ASSIGN_OR_RETURN(ExampleColumns columns,
                            ParseExamples(ctx.input(0), ctx.input(1), spec));
    SetColumns(ctx, std::move(columns));
    return OkStatus();
  }

 private:
  static Status Key(const Tensor& t, const char* what, std::string* key) {
    if (t.rank() != 0)
      return InvalidArgument(what, ": expected scalars, got shape ",
                             t.shape().ToString());
    *key = t.raw_scalar<std::string>();
    return OkStatus();
  }
};

// ParseExampleV2: the keys of a kind are one vector.
class ParseExampleV2Kernel : public KeysAreInputs<ParseExampleV2Kernel> {
 public:
  using KeysAreInputs::KeysAreInputs;
  Status Run(KernelContext& ctx) const {
    ExampleSpec spec = attrs_.Spec();
    SLUICE_RETURN_IF_ERROR(Keys(ctx.input(2), "sparse_keys", &spec.sparse));
    SLUICE_RETURN_IF_ERROR(Keys(ctx.input(3), "dense_keys", &spec.dense));
    SLUICE_RETURN_IF_ERROR(Keys(ctx.input(4), "ragged_keys", &spec.ragged));
    int i = 5;
    for (auto& f : spec.dense) f.default_value = ctx.input(i++);
    SLUICE_ASSIGN_OR_RETURN(ExampleColumns columns,
                            ParseExamples(ctx.input(0), ctx.input(1), spec));
    SetColumns(ctx, std::move(columns));
    return OkStatus();
  }

 private:
  template <typename Features>
  static Status Keys(const Tensor& t, const char* what, Features* features) {
    if (t.rank() != 1 || t.dim(0) != static_cast<int64_t>(features->size()))
      return InvalidArgument(what, ": expected a vector of ", features->size(),
                             " keys, got shape ", t.shape().ToString());
    const std::string* key = t.raw<std::string>();
    for (auto& f : *features) f.key = *key++;
    return OkStatus();
  }
};

// ParseSingleExample: the keys are attributes.
class ParseSingleExampleKernel {
 public:
  static Result<std::shared_ptr<ParseSingleExampleKernel>> Make(const Node& n) {
    auto k = std::make_shared<ParseSingleExampleKernel>();
    const ParseAttrs attrs(n);
    SLUICE_RETURN_IF_ERROR(attrs.Check(n));
    k->spec_ = attrs.Spec();
    SLUICE_RETURN_IF_ERROR(Keys(n, "sparse_keys", &k->spec_.sparse));
    SLUICE_RETURN_IF_ERROR(Keys(n, "dense_keys", &k->spec_.dense));
    return k;
  }

  Status Run(KernelContext& ctx) const {
    if (ctx.input(0).rank() != 0)
      return InvalidArgument("serialized: expected a scalar, got shape ",
                             ctx.input(0).shape().ToString());
    ExampleSpec spec = spec_;
    int i = 1;
    for (auto& f : spec.dense) f.default_value = ctx.input(i++);
    const Tensor no_names(DType::kString, Shape({0}));
    SLUICE_ASSIGN_OR_RETURN(ExampleColumns columns,
                            ParseExamples(ctx.input(0), no_names, spec));
    SetColumns(ctx, std::move(columns));
    return OkStatus();
  }

 private:
  template <typename Features>
  static Status Keys(const Node& n, const char* what, Features* features) {
    const auto keys = n.AttrOr<AttrValue::Strings>(what, {});
    if (keys.size() != features->size())
      return InvalidArgument(what, ": expected ", features->size(),
                             " keys, got ", keys.size());
    for (size_t i = 0; i < keys.size(); ++i) (*features)[i].key = keys[i];
    return OkStatus();
  }

  ExampleSpec spec_;
};

// ---- Shapes -----------------------------------------------------------------

// The shapes of all columns; `batch`: the shape of `serialized`.
Status SetColumnShapes(ShapeContext& c, const PartialShape& batch) {
  const ParseAttrs attrs(c.node());
  const bool known = batch.rank_known();
  const int64_t rank = known ? batch.rank() + 1 : -1;
  int i = 0;
  for (size_t k = 0; k < attrs.sparse_types.size(); ++k)
    c.set_output(i++, PartialShape({-1, rank}));
  for (size_t k = 0; k < attrs.sparse_types.size(); ++k)
    c.set_output(i++, PartialShape({-1}));
  for (size_t k = 0; k < attrs.sparse_types.size(); ++k)
    c.set_output(i++, PartialShape({rank}));
  for (const PartialShape& s : attrs.dense_shapes) {
    PartialShape out;
    if (known) {
      out = batch;
      for (int d = 0; d < s.rank(); ++d) out.add_dim(s.dim(d));
      // (Shape() of rank 0 must stay known.)
      if (batch.rank() + s.rank() == 0) out = PartialShape::Scalar();
    }
    c.set_output(i++, out);
  }
  for (size_t k = 0; k < attrs.ragged_types.size(); ++k)
    c.set_output(i++, PartialShape({-1}));
  for (size_t k = 0; k < attrs.ragged_types.size(); ++k) {
    const int64_t n = !known              ? -1
                      : batch.rank() == 0 ? 0
                      : batch.dim(0) < 0  ? -1
                                          : batch.dim(0) + 1;
    c.set_output(i++, PartialShape({n}));
  }
  return OkStatus();
}

Status ParseExampleShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(ParseAttrs(c.node()).Check(c.node()));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape batch, c.WithRank(0, 1));
  SLUICE_RETURN_IF_ERROR(c.WithRank(1, 1).status());
  return SetColumnShapes(c, batch);
}

Status ParseExampleV2Shape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(ParseAttrs(c.node()).Check(c.node()));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape batch, c.WithRankAtMost(0, 1));
  SLUICE_RETURN_IF_ERROR(c.WithRankAtMost(1, 1).status());
  for (const int i : {2, 3, 4})
    SLUICE_RETURN_IF_ERROR(c.WithRank(i, 1).status());
  return SetColumnShapes(c, batch);
}

Status ParseSingleExampleShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(ParseAttrs(c.node()).Check(c.node()));
  SLUICE_RETURN_IF_ERROR(c.RequireScalar(0));
  return SetColumnShapes(c, PartialShape::Scalar());
}

// ---- Declarations -----------------------------------------------------------

constexpr const char* kParsed = "it reads text or bytes";

SLUICE_OP(ParseExample)
    .Input("serialized: string")
    .Input("names: string")
    .Input("sparse_keys: Nsparse * string")
    .Input("dense_keys: Ndense * string")
    .Input("dense_defaults: Tdense")
    .Output("sparse_indices: Nsparse * int64")
    .Output("sparse_values: sparse_types")
    .Output("sparse_shapes: Nsparse * int64")
    .Output("dense_values: Tdense")
    .Attr("Nsparse: int >= 0")
    .Attr("Ndense: int >= 0")
    .Attr("sparse_types: list({float, int64, string}) >= 0")
    .Attr("Tdense: list({float, int64, string}) >= 0")
    .Attr("dense_shapes: list(shape) >= 0")
    .Family("io")
    .Shape(ParseExampleShape)
    .Kernel(CpuState<ParseExampleKernel>(/*expensive=*/true))
    .NoGradient(kParsed)
    .Doc(
        "Reads features of a batch of serialised Examples into dense and "
        "sparse tensors.");

SLUICE_OP(ParseExampleV2)
    .Input("serialized: string")
    .Input("names: string")
    .Input("sparse_keys: string")
    .Input("dense_keys: string")
    .Input("ragged_keys: string")
    .Input("dense_defaults: Tdense")
    .Output("sparse_indices: num_sparse * int64")
    .Output("sparse_values: sparse_types")
    .Output("sparse_shapes: num_sparse * int64")
    .Output("dense_values: Tdense")
    .Output("ragged_values: ragged_value_types")
    .Output("ragged_row_splits: ragged_split_types")
    .Attr("Tdense: list({float, int64, string}) >= 0")
    .Attr("num_sparse: int >= 0")
    .Attr("sparse_types: list({float, int64, string}) >= 0")
    .Attr("ragged_value_types: list({float, int64, string}) >= 0")
    .Attr("ragged_split_types: list({int32, int64}) >= 0")
    .Attr("dense_shapes: list(shape) >= 0")
    .Family("io")
    .Shape(ParseExampleV2Shape)
    .Kernel(CpuState<ParseExampleV2Kernel>(/*expensive=*/true))
    .NoGradient(kParsed)
    .Sample({{.shape = {0}, .dtype = DType::kString},
             {.shape = {0}, .dtype = DType::kString},
             {.shape = {1}, .dtype = DType::kString},
             {.shape = {1}, .values = {7}, .dtype = DType::kString},
             {.shape = {0}, .dtype = DType::kString},
             {.shape = {2}, .dtype = DType::kFloat}},
            {{"Tdense", AttrValue::Types{DType::kFloat}},
             {"num_sparse", 1},
             {"sparse_types", AttrValue::Types{DType::kInt64}},
             {"ragged_value_types", AttrValue::Types{}},
             {"ragged_split_types", AttrValue::Types{}},
             {"dense_shapes", AttrValue::Shapes{PartialShape({2})}}})
    .Doc(
        "Reads features of serialised Examples, a batch or one, into dense, "
        "sparse and ragged tensors.");

SLUICE_OP(ParseSingleExample)
    .Input("serialized: string")
    .Input("dense_defaults: Tdense")
    .Output("sparse_indices: num_sparse * int64")
    .Output("sparse_values: sparse_types")
    .Output("sparse_shapes: num_sparse * int64")
    .Output("dense_values: Tdense")
    .Attr("num_sparse: int >= 0")
    .Attr("sparse_keys: list(string) >= 0")
    .Attr("dense_keys: list(string) >= 0")
    .Attr("sparse_types: list({float, int64, string}) >= 0")
    .Attr("Tdense: list({float, int64, string}) >= 0")
    .Attr("dense_shapes: list(shape) >= 0")
    .Family("io")
    .Shape(ParseSingleExampleShape)
    .Kernel(CpuState<ParseSingleExampleKernel>())
    .NoGradient(kParsed)
    .Doc("Reads features of one serialised Example into tensors.");

}  // namespace
}  // namespace sluice
