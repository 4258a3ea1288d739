// Declarations of ops in C, and the interface of their shape functions.
#include "tensorflow/c/ops.h"

#include <limits>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "capi/attributes.h"
#include "capi/c_ops.h"
#include "capi/handles.h"
#include "graph/graphdef_op.h"
#include "graph/op_library.h"
#include "graph/shape_context.h"
#include "tensorflow/c/tf_shape.h"

namespace {

using ShapeFunction = void (*)(TF_ShapeInferenceContext*, TF_Status*);

}  // namespace

struct TF_OpDefinitionBuilder {
  std::string name;
  std::vector<std::string> inputs, outputs, attrs;
  bool commutative = false, aggregate = false, stateful = false;
  bool allows_uninitialized_input = false;
  ShapeFunction shape = nullptr;
  int deprecated_in = 0;  // 0: it is not.
  std::string deprecated_why;
};
struct TF_ShapeInferenceContext {
  sluice::ShapeContext& context;
};
struct TF_ShapeHandle {
  sluice::PartialShape shape;
};
struct TF_DimensionHandle {
  int64_t size = -1;
};
struct TF_Shape {
  sluice::PartialShape shape;
};

using namespace sluice;        // NOLINT
using namespace sluice::capi;  // NOLINT

namespace {

// The ops of the process that were declared in C, by name. The registry's
// declarations point into them, so that they stay; those of a library that
// could not be loaded are removed.
struct OpsInC {
  std::mutex mu;
  std::map<std::string, std::unique_ptr<TF_OpDefinitionBuilder>> ops;
  static OpsInC& All() {
    static auto* all = new OpsInC;
    return *all;
  }
  // Null if there is none.
  const TF_OpDefinitionBuilder* Find(const std::string& name) {
    std::lock_guard<std::mutex> lock(mu);
    const auto it = ops.find(name);
    return it == ops.end() ? nullptr : it->second.get();
  }
  bool Add(std::unique_ptr<TF_OpDefinitionBuilder> op) {
    std::lock_guard<std::mutex> lock(mu);
    const std::string& name = op->name;
    return ops.emplace(name, std::move(op)).second;
  }
  void Remove(const std::string& name) {
    std::lock_guard<std::mutex> lock(mu);
    ops.erase(name);
  }
};

// The shape function of all ops in C, which calls the op's.
Status ShapeInC(ShapeContext& c) {
  const TF_OpDefinitionBuilder* op = OpsInC::All().Find(c.node().op_name());
  if (op == nullptr || op->shape == nullptr) return UnknownShape(c);
  TF_ShapeInferenceContext context{c};
  TF_Status status;
  op->shape(&context, &status);
  SLUICE_RETURN_IF_ERROR(FromC(status));
  for (const PartialShape& s : c.outputs()) SLUICE_RETURN_IF_ERROR(s.status());
  return OkStatus();
}

bool IsOpName(const std::string& s) {
  return !s.empty() && absl::ascii_isupper(static_cast<unsigned char>(s[0])) &&
         std::all_of(s.begin(), s.end(), [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
                  c == '_';
         });
}

OpDefBuilder Declaration(const TF_OpDefinitionBuilder& op) {
  OpDefBuilder d(op.name.c_str());
  for (const std::string& a : op.attrs) d.Attr(a.c_str());
  for (const std::string& in : op.inputs) d.Input(in.c_str());
  for (const std::string& out : op.outputs) d.Output(out.c_str());
  if (op.commutative) d.Commutative();
  if (op.stateful) d.Stateful();
  if (op.allows_uninitialized_input) d.AllowsUninitializedInput();
  return d.Shape(ShapeInC).Kernel(MakeKernelInC).Family("declared in C");
}

Status Declare(std::unique_ptr<TF_OpDefinitionBuilder> op) {
  SLUICE_RETURN_IF_ERROR(Given(op.get(), "declaration of an op"));
  if (!IsOpName(op->name))
    return InvalidArgument(
        "op: expected a name of letters, digits and '_' that starts with a "
        "capital letter, got '",
        op->name, "'");
  OpDefBuilder declaration = Declaration(*op);
  const Result<OpDef> def = declaration.Finish();
  if (!def.ok())
    return InvalidArgument("op '", op->name, "': ", def.status().message());
  for (const ArgDef& out : def->outputs)
    if (out.is_ref)
      return InvalidArgument(
          "op '", op->name, "': expected outputs that are values, got '",
          out.name, "', a reference, which kernels in C cannot make");
  const std::string name = op->name;
  if (OpRegistry::Global()->Find(name) != nullptr ||
      !OpsInC::All().Add(std::move(op)))
    return AlreadyExists("op '", name,
                         "': expected one declaration, got two; hint: give "
                         "one another name");
  (void)sluice::internal::UndoUnlessLoaded(
      [name] { OpsInC::All().Remove(name); });
  OpRegistry::Global()->Register(std::move(declaration));
  return OkStatus();
}

// Copies the text of a part of a declaration.
void AddText(TF_OpDefinitionBuilder* builder,
             std::vector<std::string> TF_OpDefinitionBuilder::*list,
             const char* text) {
  if (builder != nullptr) (builder->*list).push_back(View(text));
}

// ---- Shapes -----------------------------------------------------------------

// Calls fn if the handles are there, and stores the shape that it returns.
template <typename Fn>
void MakeShape(TF_ShapeInferenceContext* ctx, const TF_ShapeHandle* from,
               TF_ShapeHandle* result, TF_Status* status, Fn&& fn) {
  Report(status, "shape", [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(Given(ctx, "context"));
    SLUICE_RETURN_IF_ERROR(Given(from, "shape"));
    SLUICE_RETURN_IF_ERROR(Given(result, "room for a shape"));
    SLUICE_ASSIGN_OR_RETURN(PartialShape made, fn(from->shape));
    SLUICE_RETURN_IF_ERROR(made.status());
    result->shape = std::move(made);
    return OkStatus();
  });
}

Status OtherRank(const char* least, int64_t rank, const PartialShape& s) {
  return InvalidArgument("shape: expected rank ", least, rank, ", got ",
                         s.ToString());
}

Result<PartialShape> Subshape(const PartialShape& s, int64_t start,
                              int64_t end) {
  if (!s.rank_known()) return PartialShape::Unknown();
  const int64_t rank = s.rank();
  const auto place = [rank](int64_t i) {
    return i < 0 ? i + rank : std::min(i, rank);
  };
  const int64_t from = place(start), to = place(end);
  if (from < 0 || to < from)
    return InvalidArgument("shape: expected a range of ", s.ToString(),
                           ", got [", start, ", ", end, ")");
  return PartialShape::Make(
      {s.dims().data() + from, static_cast<size_t>(to - from)});
}

}  // namespace

namespace sluice::capi {

bool IsDeclaredInC(const std::string& op) {
  return OpsInC::All().Find(op) != nullptr;
}

Status ToOpDef(const OpDef& op, proto::OpDef* p) {
  SLUICE_ASSIGN_OR_RETURN(const std::string bytes, ExportOpDef(op));
  SLUICE_RETURN_IF_ERROR(ParseMessage(bytes, "OpDef", p));
  const TF_OpDefinitionBuilder* in_c = OpsInC::All().Find(op.name);
  if (in_c == nullptr) return OkStatus();
  p->set_is_aggregate(in_c->aggregate);
  if (in_c->deprecated_in != 0) {
    p->mutable_deprecation()->set_version(in_c->deprecated_in);
    p->mutable_deprecation()->set_explanation(in_c->deprecated_why);
  }
  return OkStatus();
}

}  // namespace sluice::capi

extern "C" {

TF_OpDefinitionBuilder* TF_NewOpDefinitionBuilder(const char* op_name) {
  auto* builder = new TF_OpDefinitionBuilder;
  builder->name = View(op_name);
  return builder;
}

void TF_RegisterOpDefinition(TF_OpDefinitionBuilder* builder,
                             TF_Status* status) {
  Report(status, "op", [builder] {
    const Status s = Declare(std::unique_ptr<TF_OpDefinitionBuilder>(builder));
    if (!s.ok()) (void)sluice::internal::FailLoad(s);
    return s;
  });
}

void TF_DeleteOpDefinitionBuilder(TF_OpDefinitionBuilder* builder) {
  delete builder;
}

void TF_OpDefinitionBuilderAddAttr(TF_OpDefinitionBuilder* builder,
                                   const char* attr_spec) {
  AddText(builder, &TF_OpDefinitionBuilder::attrs, attr_spec);
}
void TF_OpDefinitionBuilderAddInput(TF_OpDefinitionBuilder* builder,
                                    const char* input_spec) {
  AddText(builder, &TF_OpDefinitionBuilder::inputs, input_spec);
}
void TF_OpDefinitionBuilderAddOutput(TF_OpDefinitionBuilder* builder,
                                     const char* output_spec) {
  AddText(builder, &TF_OpDefinitionBuilder::outputs, output_spec);
}
void TF_OpDefinitionBuilderSetIsCommutative(TF_OpDefinitionBuilder* builder,
                                            bool is_commutative) {
  if (builder != nullptr) builder->commutative = is_commutative;
}
void TF_OpDefinitionBuilderSetIsAggregate(TF_OpDefinitionBuilder* builder,
                                          bool is_aggregate) {
  if (builder != nullptr) builder->aggregate = is_aggregate;
}
void TF_OpDefinitionBuilderSetIsStateful(TF_OpDefinitionBuilder* builder,
                                         bool is_stateful) {
  if (builder != nullptr) builder->stateful = is_stateful;
}
void TF_OpDefinitionBuilderSetAllowsUninitializedInput(
    TF_OpDefinitionBuilder* builder, bool allows_uninitialized_input) {
  if (builder != nullptr)
    builder->allows_uninitialized_input = allows_uninitialized_input;
}
void TF_OpDefinitionBuilderDeprecated(TF_OpDefinitionBuilder* builder,
                                      int version, const char* explanation) {
  if (builder == nullptr) return;
  builder->deprecated_in = version;
  builder->deprecated_why = View(explanation);
}
void TF_OpDefinitionBuilderSetShapeInferenceFunction(
    TF_OpDefinitionBuilder* builder,
    void (*shape_inference_func)(TF_ShapeInferenceContext* ctx,
                                 TF_Status* status)) {
  if (builder != nullptr) builder->shape = shape_inference_func;
}

int64_t TF_ShapeInferenceContextNumInputs(TF_ShapeInferenceContext* ctx) {
  return ctx == nullptr ? 0 : ctx->context.num_inputs();
}

TF_Shape* TF_NewShape(void) { return new TF_Shape; }
void TF_DeleteShape(TF_Shape* shape) { delete shape; }
int TF_ShapeDims(const TF_Shape* shape) {
  return shape != nullptr && shape->shape.rank_known() ? shape->shape.rank()
                                                       : -1;
}
int64_t TF_ShapeDimSize(const TF_Shape* shape, int d) {
  return d >= 0 && d < TF_ShapeDims(shape) ? shape->shape.dim(d) : -1;
}

TF_ShapeHandle* TF_NewShapeHandle(void) { return new TF_ShapeHandle; }

void TF_ShapeInferenceContextGetInput(TF_ShapeInferenceContext* ctx, int i,
                                      TF_ShapeHandle* handle,
                                      TF_Status* status) {
  MakeShape(ctx, handle, handle, status,
            [&](const PartialShape&) -> Result<PartialShape> {
              if (i < 0 || i >= ctx->context.num_inputs())
                return InvalidArgument("input: expected one of ",
                                       ctx->context.num_inputs(), ", got ", i);
              return ctx->context.input(i);
            });
}

void TF_ShapeInferenceContextSetOutput(TF_ShapeInferenceContext* ctx, int i,
                                       TF_ShapeHandle* handle,
                                       TF_Status* status) {
  Report(status, "shape", [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(Given(ctx, "context"));
    SLUICE_RETURN_IF_ERROR(Given(handle, "shape"));
    if (i < 0 || i >= ctx->context.num_outputs())
      return InvalidArgument("output: expected one of ",
                             ctx->context.num_outputs(), ", got ", i);
    ctx->context.set_output(i, handle->shape);
    return OkStatus();
  });
}

TF_ShapeHandle* TF_ShapeInferenceContextScalar(
    TF_ShapeInferenceContext* /*ctx*/) {
  return new TF_ShapeHandle{PartialShape::Scalar()};
}

TF_ShapeHandle* TF_ShapeInferenceContextVectorFromSize(
    TF_ShapeInferenceContext* /*ctx*/, size_t size) {
  const bool fits =
      size <= static_cast<size_t>(std::numeric_limits<int64_t>::max());
  return new TF_ShapeHandle{
      PartialShape({fits ? static_cast<int64_t>(size) : -1})};
}

TF_DimensionHandle* TF_NewDimensionHandle(void) {
  return new TF_DimensionHandle;
}

void TF_ShapeInferenceContext_GetAttrType(TF_ShapeInferenceContext* ctx,
                                          const char* attr_name,
                                          TF_DataType* val, TF_Status* status) {
  Report(status, "attribute", [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(Given(ctx, "context"));
    return WithAttributeOf(ctx->context.node(), attr_name,
                           [val](const AttrValue& v) {
                             return StoreOne<DType>(v, "a type", val);
                           });
  });
}

int64_t TF_ShapeInferenceContextRank(TF_ShapeInferenceContext* /*ctx*/,
                                     TF_ShapeHandle* handle) {
  return handle == nullptr ? -1 : handle->shape.rank();
}

int TF_ShapeInferenceContextRankKnown(TF_ShapeInferenceContext* /*ctx*/,
                                      TF_ShapeHandle* handle) {
  return handle != nullptr && handle->shape.rank_known() ? 1 : 0;
}

void TF_ShapeInferenceContextWithRank(TF_ShapeInferenceContext* ctx,
                                      TF_ShapeHandle* handle, int64_t rank,
                                      TF_ShapeHandle* result,
                                      TF_Status* status) {
  MakeShape(
      ctx, handle, result, status,
      [rank](const PartialShape& s) -> Result<PartialShape> {
        if (rank < 0 || rank > kMaxRank || (s.rank_known() && s.rank() != rank))
          return OtherRank("", rank, s);
        return s.rank_known() ? s
                              : PartialShape::OfRank(static_cast<int>(rank));
      });
}

void TF_ShapeInferenceContextWithRankAtLeast(TF_ShapeInferenceContext* ctx,
                                             TF_ShapeHandle* handle,
                                             int64_t rank,
                                             TF_ShapeHandle* result,
                                             TF_Status* status) {
  MakeShape(ctx, handle, result, status,
            [rank](const PartialShape& s) -> Result<PartialShape> {
              if (rank > kMaxRank || (s.rank_known() && s.rank() < rank))
                return OtherRank("at least ", rank, s);
              return s;
            });
}

void TF_ShapeInferenceContextWithRankAtMost(TF_ShapeInferenceContext* ctx,
                                            TF_ShapeHandle* handle,
                                            int64_t rank,
                                            TF_ShapeHandle* result,
                                            TF_Status* status) {
  MakeShape(ctx, handle, result, status,
            [rank](const PartialShape& s) -> Result<PartialShape> {
              if (rank < 0 || (s.rank_known() && s.rank() > rank))
                return OtherRank("at most ", rank, s);
              return s;
            });
}

void TF_ShapeInferenceContextDim(TF_ShapeInferenceContext* /*ctx*/,
                                 TF_ShapeHandle* shape_handle, int64_t i,
                                 TF_DimensionHandle* result) {
  if (result == nullptr) return;
  result->size = -1;
  if (shape_handle == nullptr) return;
  const int64_t rank = shape_handle->shape.rank();
  if (i >= -rank && i < rank)
    result->size =
        shape_handle->shape.dim(static_cast<int>(i < 0 ? i + rank : i));
}

void TF_ShapeInferenceContextSubshape(TF_ShapeInferenceContext* ctx,
                                      TF_ShapeHandle* shape_handle,
                                      int64_t start, int64_t end,
                                      TF_ShapeHandle* result,
                                      TF_Status* status) {
  MakeShape(ctx, shape_handle, result, status,
            [&](const PartialShape& s) { return Subshape(s, start, end); });
}

void TF_ShapeInferenceContextSetUnknownShape(TF_ShapeInferenceContext* ctx,
                                             TF_Status* status) {
  Report(status, "shape", [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(Given(ctx, "context"));
    return UnknownShape(ctx->context);
  });
}

int TF_DimensionHandleValueKnown(TF_DimensionHandle* dim_handle) {
  return dim_handle != nullptr && dim_handle->size >= 0 ? 1 : 0;
}
int64_t TF_DimensionHandleValue(TF_DimensionHandle* dim_handle) {
  return dim_handle == nullptr ? -1 : dim_handle->size;
}

void TF_ShapeInferenceContextConcatenateShapes(TF_ShapeInferenceContext* ctx,
                                               TF_ShapeHandle* first,
                                               TF_ShapeHandle* second,
                                               TF_ShapeHandle* result,
                                               TF_Status* status) {
  MakeShape(ctx, first, result, status,
            [second](const PartialShape& a) -> Result<PartialShape> {
              SLUICE_RETURN_IF_ERROR(Given(second, "shape"));
              const PartialShape& b = second->shape;
              if (!a.rank_known() || !b.rank_known())
                return PartialShape::Unknown();
              Dims dims = a.dims();
              dims.insert(dims.end(), b.dims().begin(), b.dims().end());
              return PartialShape::Make({dims.data(), dims.size()});
            });
}

void TF_DeleteShapeHandle(TF_ShapeHandle* handle) { delete handle; }
void TF_DeleteDimensionHandle(TF_DimensionHandle* handle) { delete handle; }

}  // extern "C"
