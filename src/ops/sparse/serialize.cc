// Sparse tensors as elements of dense ones (three parts as strings or
// variants), and stored in a map under handles.
#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "graph/op_def.h"
#include "graph/tensor_proto.h"
#include "ops/common/tensor_bytes.h"
#include "ops/sparse/sparse_tensor.h"

namespace sluice {
namespace {

using sparse::Entries;

// ---- Parts ------------------------------------------------------------------

// The three tensors of one sparse tensor.
struct SparseParts {
  Tensor indices, values, shape;
};

// Takes the inputs of a kernel, for storing.
Result<SparseParts> TakeParts(KernelContext& ctx) {
  SparseParts p;
  SLUICE_ASSIGN_OR_RETURN(p.indices, ctx.TakeToKeep(0));
  SLUICE_ASSIGN_OR_RETURN(p.values, ctx.TakeToKeep(1));
  SLUICE_ASSIGN_OR_RETURN(p.shape, ctx.TakeToKeep(2));
  return p;
}

// A tensor as an element of another.
struct TensorValue : Variant::Value {
  explicit TensorValue(Tensor t) : tensor(std::move(t)) {}
  std::string TypeName() const override { return "Tensor"; }
  const Tensor tensor;
};

Status PutPart(const Tensor& part, int64_t at, Tensor* out) {
  if (out->dtype() == DType::kVariant) {
    out->raw<Variant>()[at] =
        Variant(std::make_shared<const TensorValue>(part));
    return OkStatus();
  }
  SLUICE_ASSIGN_OR_RETURN(out->raw<std::string>()[at],
                          TensorContentProto(part));
  return OkStatus();
}

Status PutParts(const SparseParts& p, int64_t row, Tensor* out) {
  SLUICE_RETURN_IF_ERROR(PutPart(p.indices, 3 * row, out));
  SLUICE_RETURN_IF_ERROR(PutPart(p.values, 3 * row + 1, out));
  return PutPart(p.shape, 3 * row + 2, out);
}

Result<Tensor> GetPart(const Tensor& in, int64_t at, DType want) {
  Tensor t;
  if (in.dtype() == DType::kVariant) {
    const auto* value = in.raw<Variant>()[at].get<TensorValue>();
    if (value == nullptr)
      return InvalidArgument(
          "serialized_sparse: expected parts of a sparse tensor, got another "
          "variant");
    t = value->tensor;
  } else {
    SLUICE_ASSIGN_OR_RETURN(t, ParseTensorProto(in.raw<std::string>()[at]));
  }
  if (t.dtype() != want)
    return InvalidArgument("serialized_sparse: expected ", DTypeName(want),
                           " at place ", at, ", got ", DTypeName(t.dtype()));
  return t;
}

// The entries [begin, end) of a batch, without their first index.
Result<SparseParts> RowParts(const Entries& e, int64_t begin, int64_t end) {
  SparseParts p;
  SLUICE_ASSIGN_OR_RETURN(
      p.indices, Tensor::Make(DType::kInt64, Shape({end - begin, e.rank - 1})));
  SLUICE_ASSIGN_OR_RETURN(
      p.values, Tensor::Make(e.values->dtype(), Shape({end - begin})));
  int64_t* to = p.indices.raw<int64_t>();
  for (int64_t i = begin; i < end; ++i) {
    to = std::copy_n(e.row(i) + 1, e.rank - 1, to);
    sparse::CopyValue(*e.values, i, &p.values, i - begin);
  }
  Dims shape(e.shape.begin() + 1, e.shape.end());
  p.shape = sparse::VectorOf(shape);
  return p;
}

// Every row of a batch costs three tensors, even an empty one: a shape must not
// claim an unlimited number of rows.
Status CheckRows(const Entries& e) {
  constexpr int64_t kMax = int64_t{1} << 24;
  if (e.rank < 2)
    return InvalidArgument("sparse_shape: expected rank 2 or more, got ",
                           e.rank);
  if (e.shape[0] > kMax)
    return InvalidArgument("sparse_shape: expected at most ", kMax,
                           " rows, got ", e.shape[0]);
  return OkStatus();
}

// Calls put(row, parts) for each row of a batch, whose entries must be sorted
// by row. REQUIRES: CheckRows.
template <typename F>
Status ForEachRow(const Entries& e, F&& put) {
  SLUICE_RETURN_IF_ERROR(sparse::CheckBounds(e));
  int64_t at = 0;
  for (int64_t row = 0; row < e.shape[0]; ++row) {
    const int64_t begin = at;
    while (at < e.n && e.row(at)[0] == row) ++at;
    SLUICE_ASSIGN_OR_RETURN(const SparseParts p, RowParts(e, begin, at));
    SLUICE_RETURN_IF_ERROR(put(row, p));
  }
  if (at < e.n)
    return InvalidArgument("sparse_indices: expected the order of rows, got ",
                           e.row(at)[0], " after ", e.row(at - 1)[0]);
  return OkStatus();
}

// Combines `parts`, the rows of a batch of shape `lead`, into one sparse tensor
// with the maximum of their dimensions.
Status StackParts(KernelContext& ctx, const std::vector<SparseParts>& parts,
                  const Dims& lead, DType type) {
  if (parts.empty())
    return InvalidArgument("expected one sparse tensor or more, got none");
  int64_t n = 0;
  Dims shape = lead;
  std::vector<Entries> all;
  for (const SparseParts& p : parts) {
    SLUICE_ASSIGN_OR_RETURN(Entries e,
                            sparse::View(p.indices, &p.values, p.shape));
    if (all.empty()) shape.insert(shape.end(), e.shape.begin(), e.shape.end());
    if (!all.empty() && e.rank != all[0].rank)
      return InvalidArgument("expected sparse tensors of one rank, got ",
                             all[0].rank, " and ", e.rank);
    for (size_t d = 0; d < e.shape.size(); ++d)
      shape[lead.size() + d] = std::max(shape[lead.size() + d], e.shape[d]);
    n += e.n;
    all.push_back(std::move(e));
  }
  SLUICE_RETURN_IF_ERROR(sparse::AllocateSparse(ctx, 0, n, type, shape));
  int64_t* to = ctx.output(0).raw<int64_t>();
  int64_t at = 0;
  for (size_t k = 0; k < all.size(); ++k)
    for (int64_t i = 0; i < all[k].n; ++i) {
      auto rest = static_cast<int64_t>(k);
      for (size_t d = lead.size(); d-- > 0; rest /= lead[d])
        to[d] = rest % lead[d];
      to = std::copy_n(all[k].row(i), all[k].rank, to + lead.size());
      sparse::CopyValue(*all[k].values, i, &ctx.output(1), at++);
    }
  return OkStatus();
}

// ---- Serialize --------------------------------------------------------------

class SerializeSparseKernel {
 public:
  explicit SerializeSparseKernel(const Node& n)
      : type_(n.TypeAttr("out_type")),
        many_(n.op_name() == "SerializeManySparse") {}

  Status Run(KernelContext& ctx) const {
    SLUICE_ASSIGN_OR_RETURN(const Entries e,
                            sparse::InputAt(ctx, 0, "sparse_"));
    if (!many_) {
      SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, type_, Shape({3})));
      SLUICE_ASSIGN_OR_RETURN(const SparseParts p, TakeParts(ctx));
      return PutParts(p, 0, &ctx.output(0));
    }
    SLUICE_RETURN_IF_ERROR(CheckRows(e));
    SLUICE_ASSIGN_OR_RETURN(const Shape shape,
                            array::MakeShape({e.shape[0], 3}));
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, type_, shape));
    return ForEachRow(e, [&](int64_t row, const SparseParts& p) {
      return PutParts(p, row, &ctx.output(0));
    });
  }

 private:
  const DType type_;
  const bool many_;
};

Status SerializeSparseShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(sparse::CheckShapes(c, 0).status());
  if (c.node().op_name() == "SerializeSparse") {
    c.set_output(0, PartialShape({3}));
    return OkStatus();
  }
  SLUICE_ASSIGN_OR_RETURN(const PartialShape shape, c.InputAsShape(2));
  c.set_output(0, PartialShape({shape.rank() > 0 ? shape.dim(0) : -1, 3}));
  return OkStatus();
}

SLUICE_OP(SerializeSparse)
    .Input("sparse_indices: int64")
    .Input("sparse_values: T")
    .Input("sparse_shape: int64")
    .Output("serialized_sparse: out_type")
    .Attr("T: type")
    .Attr("out_type: {string, variant} = DT_STRING")
    .Family("sparse")
    .Shape(SerializeSparseShape)
    .Kernel(CpuState<SerializeSparseKernel>())
    .NoGradient("bytes have no derivative")
    .Sample({{.shape = {3, 2}, .values = {0, 1, 1, 0, 1, 2}},
             {.shape = {3}},
             {.shape = {2}, .values = {2, 3}}})
    .Doc("Serialises a sparse tensor as a vector of its three parts.");

SLUICE_OP(SerializeManySparse)
    .Input("sparse_indices: int64")
    .Input("sparse_values: T")
    .Input("sparse_shape: int64")
    .Output("serialized_sparse: out_type")
    .Attr("T: type")
    .Attr("out_type: {string, variant} = DT_STRING")
    .Family("sparse")
    .Shape(SerializeSparseShape)
    .Kernel(CpuState<SerializeSparseKernel>())
    .NoGradient("bytes have no derivative")
    .Sample({{.shape = {3, 2}, .values = {0, 1, 1, 0, 1, 2}},
             {.shape = {3}},
             {.shape = {2}, .values = {2, 3}}})
    .Doc(
        "Serialises each row of a sparse tensor as a vector of its three "
        "parts.");

class DeserializeSparseKernel {
 public:
  explicit DeserializeSparseKernel(const Node& n)
      : type_(n.TypeAttr("dtype")) {}

  Status Run(KernelContext& ctx) const {
    const Tensor& in = ctx.input(0);
    if (in.rank() < 1 || in.dim(in.rank() - 1) != 3)
      return InvalidArgument(
          "serialized_sparse: expected a tensor whose last dimension is 3, got "
          "shape ",
          in.shape().ToString());
    std::vector<SparseParts> parts;
    for (int64_t k = 0; k < in.num_elements(); k += 3) {
      SparseParts p;
      SLUICE_ASSIGN_OR_RETURN(p.indices, GetPart(in, k, DType::kInt64));
      SLUICE_ASSIGN_OR_RETURN(p.values, GetPart(in, k + 1, type_));
      SLUICE_ASSIGN_OR_RETURN(p.shape, GetPart(in, k + 2, DType::kInt64));
      parts.push_back(std::move(p));
    }
    Dims lead = array::DimsOf(in.shape());
    lead.pop_back();
    return Annotate(StackParts(ctx, parts, lead, type_), "serialized_sparse");
  }

 private:
  const DType type_;
};

Status DeserializeSparseShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const PartialShape in, c.WithRankAtLeast(0, 1));
  if (in.rank_known())
    SLUICE_RETURN_IF_ERROR(MergeDim(in.dim(in.rank() - 1), 3).status());
  c.set_output(0, PartialShape({-1, -1}));
  c.set_output(1, PartialShape({-1}));
  c.set_output(2, PartialShape({-1}));
  return OkStatus();
}

SLUICE_OP(DeserializeSparse)
    .Input("serialized_sparse: Tserialized")
    .Output("sparse_indices: int64")
    .Output("sparse_values: dtype")
    .Output("sparse_shape: int64")
    .Attr("dtype: type")
    .Attr("Tserialized: {string, variant} = DT_STRING")
    .Family("sparse")
    .Shape(DeserializeSparseShape)
    .Kernel(CpuState<DeserializeSparseKernel>())
    .NoGradient("bytes have no derivative")
    .Doc(
        "Restores tensors serialised by SerializeSparse and stacks them into "
        "one sparse tensor.");

SLUICE_OP(DeserializeManySparse)
    .Input("serialized_sparse: string")
    .Output("sparse_indices: int64")
    .Output("sparse_values: dtype")
    .Output("sparse_shape: int64")
    .Attr("dtype: type")
    .Family("sparse")
    .Shape(DeserializeSparseShape)
    .Kernel(CpuState<DeserializeSparseKernel>())
    .NoGradient("bytes have no derivative")
    .Doc("Restores the sparse tensor serialised by SerializeManySparse.");

// ---- Maps -------------------------------------------------------------------

// Sparse tensors stored under handles, between the op that adds them and the
// one that takes them. Owned by the resource manager; shared by all steps.
class SparseTensorsMap : public Resource {
 public:
  std::string TypeName() const override { return "SparseTensorsMap"; }

  int64_t Add(SparseParts parts) {
    std::lock_guard<std::mutex> lock(mu_);
    parts_[next_] = std::move(parts);
    return next_++;
  }
  // Takes all of them or none.
  Result<std::vector<SparseParts>> Take(std::span<const int64_t> handles) {
    std::lock_guard<std::mutex> lock(mu_);
    std::vector<SparseParts> out;
    for (int64_t h : handles) {
      auto it = parts_.find(h);
      if (it == parts_.end())
        return InvalidArgument(
            "sparse_handles: expected handles that were added and not yet "
            "taken, got ",
            h);
      out.push_back(it->second);
    }
    for (int64_t h : handles) parts_.erase(h);
    return out;
  }

 private:
  std::mutex mu_;
  std::map<int64_t, SparseParts> parts_;  // GUARDED_BY(mu_)
  int64_t next_ = 0;                      // GUARDED_BY(mu_)
};

class SparseTensorsMapKernel {
 public:
  explicit SparseTensorsMapKernel(const Node& n)
      : container_(n.AttrOr<std::string>("container", "")),
        name_(n.AttrOr<std::string>("shared_name", "")),
        takes_(n.op_name() == "TakeManySparseFromTensorsMap"),
        many_(n.op_name() == "AddManySparseToTensorsMap"),
        type_(takes_ ? n.TypeAttr("dtype") : DType::kInvalid) {
    if (name_.empty()) name_ = n.name();
  }

  Status Run(KernelContext& ctx) const {
    if (takes_) return Take(ctx);
    SLUICE_ASSIGN_OR_RETURN(const Entries e,
                            sparse::InputAt(ctx, 0, "sparse_"));
    SLUICE_ASSIGN_OR_RETURN(
        const std::shared_ptr<SparseTensorsMap> map,
        ctx.step().resources->LookupOrCreate<SparseTensorsMap>(
            container_, name_,
            [] { return std::make_shared<SparseTensorsMap>(); }));
    if (!many_) {
      SLUICE_ASSIGN_OR_RETURN(SparseParts p, TakeParts(ctx));
      ctx.set_output(0, Tensor::Scalar<int64_t>(map->Add(std::move(p))));
      return OkStatus();
    }
    SLUICE_RETURN_IF_ERROR(CheckRows(e));
    SLUICE_ASSIGN_OR_RETURN(const Shape shape, array::MakeShape({e.shape[0]}));
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DType::kInt64, shape));
    std::vector<SparseParts> rows;
    SLUICE_RETURN_IF_ERROR(
        ForEachRow(e, [&](int64_t, const SparseParts& p) -> Status {
          rows.push_back(p);
          return OkStatus();
        }));
    for (size_t i = 0; i < rows.size(); ++i)
      ctx.output(0).raw<int64_t>()[i] = map->Add(std::move(rows[i]));
    return OkStatus();
  }

 private:
  Status Take(KernelContext& ctx) const {
    const Tensor& handles = ctx.input(0);
    if (handles.rank() != 1)
      return InvalidArgument("sparse_handles: expected a vector, got shape ",
                             handles.shape().ToString());
    SLUICE_ASSIGN_OR_RETURN(
        const std::shared_ptr<SparseTensorsMap> map,
        ctx.step().resources->Lookup<SparseTensorsMap>(container_, name_));
    SLUICE_ASSIGN_OR_RETURN(const std::vector<SparseParts> parts,
                            map->Take(handles.raw_flat<int64_t>()));
    for (const SparseParts& p : parts)
      if (p.values.dtype() != type_)
        return InvalidArgument("dtype: expected that of the sparse tensors, ",
                               DTypeName(p.values.dtype()), ", got ",
                               DTypeName(type_));
    return Annotate(StackParts(ctx, parts, {handles.dim(0)}, type_),
                    "sparse_handles");
  }

  const std::string container_;
  std::string name_;
  const bool takes_, many_;
  const DType type_;
};

Status AddToMapShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(sparse::CheckShapes(c, 0).status());
  if (c.node().op_name() == "AddSparseToTensorsMap") {
    c.set_output(0, PartialShape::Scalar());
    return OkStatus();
  }
  SLUICE_ASSIGN_OR_RETURN(const PartialShape shape, c.InputAsShape(2));
  c.set_output(0, PartialShape({shape.rank() > 0 ? shape.dim(0) : -1}));
  return OkStatus();
}

Status TakeFromMapShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.WithRank(0, 1).status());
  c.set_output(0, PartialShape({-1, -1}));
  c.set_output(1, PartialShape({-1}));
  c.set_output(2, PartialShape({-1}));
  return OkStatus();
}

SLUICE_OP(AddSparseToTensorsMap)
    .Input("sparse_indices: int64")
    .Input("sparse_values: T")
    .Input("sparse_shape: int64")
    .Output("sparse_handle: int64")
    .Attr("T: type")
    .Attr("container: string = ''")
    .Attr("shared_name: string = ''")
    .Family("sparse")
    .Stateful()
    .Shape(AddToMapShape)
    .Kernel(CpuState<SparseTensorsMapKernel>())
    .NoGradient("a handle has no derivative")
    .Doc("Stores a sparse tensor under a handle until it is taken.");

SLUICE_OP(AddManySparseToTensorsMap)
    .Input("sparse_indices: int64")
    .Input("sparse_values: T")
    .Input("sparse_shape: int64")
    .Output("sparse_handles: int64")
    .Attr("T: type")
    .Attr("container: string = ''")
    .Attr("shared_name: string = ''")
    .Family("sparse")
    .Stateful()
    .Shape(AddToMapShape)
    .Kernel(CpuState<SparseTensorsMapKernel>())
    .NoGradient("a handle has no derivative")
    .Doc("Stores each row of a sparse tensor under its own handle.");

SLUICE_OP(TakeManySparseFromTensorsMap)
    .Input("sparse_handles: int64")
    .Output("sparse_indices: int64")
    .Output("sparse_values: dtype")
    .Output("sparse_shape: int64")
    .Attr("dtype: type")
    .Attr("container: string = ''")
    .Attr("shared_name: string = ''")
    .Family("sparse")
    .Stateful()
    .Shape(TakeFromMapShape)
    .Kernel(CpuState<SparseTensorsMapKernel>())
    .NoGradient("a handle has no derivative")
    .Doc(
        "Takes the sparse tensors stored under these handles and stacks them "
        "into one.");

}  // namespace
}  // namespace sluice
