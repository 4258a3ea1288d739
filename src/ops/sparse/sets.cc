// Set operations: the last dimension contains sets, the others identify them.
#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "graph/op_def.h"
#include "ops/sparse/sparse_tensor.h"

namespace sluice {
namespace {

using sparse::Entries;

constexpr char kSetTypes[] =
    "T: {int8, int16, int32, int64, uint8, uint16, string}";

// Sets by group: the index without its last component. V is int64_t for all
// integer types, or std::string.
template <typename V>
using SetGroups = std::map<std::vector<int64_t>, std::set<V>>;

template <typename V>
V SetElement(const Tensor& t, int64_t i) {
  if constexpr (std::is_same_v<V, std::string>)
    return t.raw<std::string>()[i];
  else
    return array::IntAt(t, i);
}

template <typename V>
SetGroups<V> SparseGroups(const Entries& e) {
  SetGroups<V> out;
  for (int64_t i = 0; i < e.n; ++i)
    out[{e.row(i), e.row(i) + e.rank - 1}].insert(SetElement<V>(*e.values, i));
  return out;
}

template <typename V>
SetGroups<V> DenseGroups(const Tensor& t) {
  SetGroups<V> out;
  if (t.num_elements() == 0) return out;
  const int last = t.rank() - 1;
  std::vector<int64_t> group(static_cast<size_t>(last));
  for (int64_t i = 0; i < t.num_elements(); i += t.dim(last)) {
    std::set<V>& s = out[group];
    for (int64_t k = 0; k < t.dim(last); ++k) s.insert(SetElement<V>(t, i + k));
    for (int d = last; d-- > 0; group[static_cast<size_t>(d)] = 0)
      if (++group[static_cast<size_t>(d)] < t.dim(d)) break;
  }
  return out;
}

// One of the two operands: a dense tensor, or three inputs.
struct SetOperand {
  const Tensor* dense = nullptr;
  Entries entries;
  Dims groups;  // The shape without its last dimension.

  template <typename V>
  SetGroups<V> Groups() const {
    return dense != nullptr ? DenseGroups<V>(*dense) : SparseGroups<V>(entries);
  }
};

Result<SetOperand> DenseOperand(const Tensor& t) {
  if (t.rank() < 2)
    return InvalidArgument("set: expected rank 2 or more, got shape ",
                           t.shape().ToString());
  SetOperand out;
  out.dense = &t;
  out.groups = array::DimsOf(t.shape());
  out.groups.pop_back();
  return out;
}

Result<SetOperand> SparseOperand(const KernelContext& ctx, int first,
                                 bool validate) {
  SetOperand out;
  SLUICE_ASSIGN_OR_RETURN(out.entries, sparse::InputAt(ctx, first, "set_"));
  if (out.entries.rank < 2)
    return InvalidArgument("set_shape: expected rank 2 or more, got ",
                           out.entries.rank);
  SLUICE_RETURN_IF_ERROR(sparse::CheckBounds(out.entries));
  if (validate) SLUICE_RETURN_IF_ERROR(sparse::CheckOrder(out.entries));
  out.groups = out.entries.shape;
  out.groups.pop_back();
  return out;
}

class SetOperationKernel {
 public:
  static Result<std::shared_ptr<SetOperationKernel>> Make(const Node& n) {
    auto k = std::make_shared<SetOperationKernel>();
    const std::string op =
        absl::AsciiStrToLower(n.AttrOr<std::string>("set_operation", ""));
    k->validate_ = n.BoolAttr("validate_indices");
    k->first_dense_ = n.op_name().rfind("DenseTo", 0) == 0;
    k->second_dense_ = n.op_name() == "DenseToDenseSetOperation";
    for (size_t i = 0; i < std::size(kNames); ++i)
      if (op == kNames[i]) {
        k->operation_ = static_cast<int>(i);
        return k;
      }
    return InvalidArgument(
        "set_operation: expected 'a-b', 'b-a', 'intersection' or 'union', got "
        "'",
        op, "'");
  }

  Status Run(KernelContext& ctx) const {
    const auto one = [&](bool dense, int first) {
      return dense ? DenseOperand(ctx.input(first))
                   : SparseOperand(ctx, first, validate_);
    };
    SLUICE_ASSIGN_OR_RETURN(const SetOperand a, one(first_dense_, 0));
    SLUICE_ASSIGN_OR_RETURN(const SetOperand b,
                            one(second_dense_, first_dense_ ? 1 : 3));
    if (a.groups != b.groups)
      return InvalidArgument(
          "set1, set2: expected shapes that differ in the last dimension "
          "alone, got others");
    return ctx.input(first_dense_ ? 0 : 1).dtype() == DType::kString
               ? Combine<std::string>(ctx, a, b)
               : Combine<int64_t>(ctx, a, b);
  }

 private:
  static constexpr const char* kNames[] = {"a-b", "b-a", "intersection",
                                           "union"};

  template <typename V>
  std::vector<V> Apply(const std::set<V>& a, const std::set<V>& b) const {
    std::vector<V> out;
    const auto to = std::back_inserter(out);
    if (operation_ == 0)
      std::set_difference(a.begin(), a.end(), b.begin(), b.end(), to);
    else if (operation_ == 1)
      std::set_difference(b.begin(), b.end(), a.begin(), a.end(), to);
    else if (operation_ == 2)
      std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), to);
    else
      std::set_union(a.begin(), a.end(), b.begin(), b.end(), to);
    return out;
  }

  template <typename V>
  Status Combine(KernelContext& ctx, const SetOperand& a,
                 const SetOperand& b) const {
    SetGroups<V> of_a = a.Groups<V>(), of_b = b.Groups<V>();
    // (All groups of either side, in order.)
    for (const auto& group : of_b) of_a.try_emplace(group.first);
    std::vector<std::pair<const std::vector<int64_t>*, std::vector<V>>> made;
    int64_t n = 0, most = 0;
    for (const auto& [group, set] : of_a) {
      std::vector<V> result = Apply(set, of_b[group]);
      if (result.empty()) continue;
      const auto size = static_cast<int64_t>(result.size());
      n += size;
      most = std::max(most, size);
      made.emplace_back(&group, std::move(result));
    }
    Dims shape = a.groups;
    shape.push_back(most);
    const DType type = ctx.input(first_dense_ ? 0 : 1).dtype();
    SLUICE_RETURN_IF_ERROR(sparse::AllocateSparse(ctx, 0, n, type, shape));
    int64_t* row = ctx.output(0).raw<int64_t>();
    int64_t at = 0;
    for (const auto& [group, values] : made)
      for (size_t k = 0; k < values.size(); ++k) {
        row = std::copy(group->begin(), group->end(), row);
        *row++ = static_cast<int64_t>(k);
        Put(values[k], at++, &ctx.output(1));
      }
    return OkStatus();
  }

  static void Put(const std::string& v, int64_t at, Tensor* out) {
    out->raw<std::string>()[at] = v;
  }
  static void Put(int64_t v, int64_t at, Tensor* out) {
    array::ByNumber(out->dtype(), [&]<typename T>(array::Tag<T>) {
      if constexpr (std::is_integral_v<T>)
        out->raw<T>()[at] = static_cast<T>(v);
    });
  }

  int operation_ = 0;
  bool validate_ = true, first_dense_ = false, second_dense_ = false;
};

Status SetOperationShape(ShapeContext& c) {
  int64_t rank = -1;
  for (int i = 0; i < c.num_inputs();) {
    // (Dense operands come first; the remaining ones are sparse.)
    const bool dense = i == 0 ? c.num_inputs() != 6 : c.num_inputs() == 2;
    int64_t own = -1;
    if (dense) {
      SLUICE_ASSIGN_OR_RETURN(const PartialShape s, c.WithRankAtLeast(i, 2));
      own = s.rank();
    } else {
      SLUICE_ASSIGN_OR_RETURN(own, sparse::CheckShapes(c, i));
    }
    SLUICE_ASSIGN_OR_RETURN(rank, MergeDim(rank, own));
    i += dense ? 1 : 3;
  }
  c.set_output(0, PartialShape({-1, rank}));
  c.set_output(1, PartialShape({-1}));
  c.set_output(2, PartialShape({rank}));
  return OkStatus();
}

// What the three ops share besides their inputs.
OpDefBuilder SetOperationOp(const char* name,
                            std::initializer_list<const char*> inputs) {
  OpDefBuilder b(name);
  for (const char* arg : inputs) b.Input(arg);
  b.Output("result_indices: int64")
      .Output("result_values: T")
      .Output("result_shape: int64")
      .Attr("set_operation: string")
      .Attr("validate_indices: bool = true")
      .Attr(kSetTypes)
      .Family("sparse")
      .Shape(SetOperationShape)
      .Kernel(CpuState<SetOperationKernel>())
      .NoGradient("sets have no derivative");
  return b;
}

const OpRegistrar kSetOperations[] = {
    SetOperationOp("DenseToDenseSetOperation", {"set1: T", "set2: T"})
        .Sample({{.shape = {2, 3}}, {.shape = {2, 2}}},
                {{"set_operation", "a-b"}})
        .Doc("The difference, intersection or union of the sets in the last "
             "dimensions of two tensors."),
    SetOperationOp("DenseToSparseSetOperation",
                   {"set1: T", "set2_indices: int64", "set2_values: T",
                    "set2_shape: int64"})
        .Sample({{.shape = {2, 3}},
                 {.shape = {3, 2}, .values = {0, 1, 1, 0, 1, 2}},
                 {.shape = {3}},
                 {.shape = {2}, .values = {2, 3}}},
                {{"set_operation", "union"}})
        .Doc("Like DenseToDenseSetOperation, with a sparse second operand."),
    SetOperationOp(
        "SparseToSparseSetOperation",
        {"set1_indices: int64", "set1_values: T", "set1_shape: int64",
         "set2_indices: int64", "set2_values: T", "set2_shape: int64"})
        .Sample({{.shape = {3, 2}, .values = {0, 1, 1, 0, 1, 2}},
                 {.shape = {3}},
                 {.shape = {2}, .values = {2, 3}},
                 {.shape = {3, 2}, .values = {0, 1, 1, 0, 1, 2}},
                 {.shape = {3}},
                 {.shape = {2}, .values = {2, 3}}},
                {{"set_operation", "intersection"}})
        .Doc("Like DenseToDenseSetOperation, with two sparse operands."),
};

// ---- SetSize ----------------------------------------------------------------

class SetSizeKernel {
 public:
  explicit SetSizeKernel(const Node& n)
      : validate_(n.BoolAttr("validate_indices")) {}

  Status Run(KernelContext& ctx) const {
    SLUICE_ASSIGN_OR_RETURN(const SetOperand s,
                            SparseOperand(ctx, 0, validate_));
    SLUICE_ASSIGN_OR_RETURN(const Shape shape, array::MakeShape(s.groups));
    SLUICE_ASSIGN_OR_RETURN(
        ctx.output(0),
        array::MakeZeros(DType::kInt32, shape, ctx.step().allocator));
    if (ctx.input(1).dtype() == DType::kString)
      Count<std::string>(s, &ctx.output(0));
    else
      Count<int64_t>(s, &ctx.output(0));
    return OkStatus();
  }

 private:
  template <typename V>
  static void Count(const SetOperand& s, Tensor* out) {
    for (const auto& [group, set] : s.Groups<V>()) {
      int64_t at = 0;
      for (size_t d = 0; d < group.size(); ++d)
        at = at * s.groups[d] + group[d];
      out->raw<int32_t>()[at] = static_cast<int32_t>(set.size());
    }
  }

  const bool validate_;
};

Status SetSizeShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(sparse::CheckShapes(c, 0).status());
  SLUICE_ASSIGN_OR_RETURN(const PartialShape shape, c.InputAsShape(2));
  if (shape.rank() >= 1)
    c.set_output(0, array::SubShape(shape, 0, shape.rank() - 1));
  return OkStatus();
}

SLUICE_OP(SetSize)
    .Input("set_indices: int64")
    .Input("set_values: T")
    .Input("set_shape: int64")
    .Output("size: int32")
    .Attr("validate_indices: bool = true")
    .Attr(kSetTypes)
    .Family("sparse")
    .Shape(SetSizeShape)
    .Kernel(CpuState<SetSizeKernel>())
    .NoGradient("sets have no derivative")
    .Sample({{.shape = {3, 2}, .values = {0, 1, 1, 0, 1, 2}},
             {.shape = {3}},
             {.shape = {2}, .values = {2, 3}}})
    .Doc("Counts the distinct values of each set.");

}  // namespace
}  // namespace sluice
