#include "client/partitioned_variables.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "client/initial_part.h"
#include "client/variable_scope.h"
#include "graph/device_scope.h"
#include "graph/exact_line.h"
#include "graph/graph.h"

namespace sluice {
namespace {

// Attributes of the node that makes a part. (Savers of TensorFlow ignore them:
// its graphs have this in the definitions of their variables.)
constexpr const char* kPartOf = "_part_of";
constexpr const char* kPartWhole = "_part_whole";
constexpr const char* kPartOffset = "_part_offset";

thread_local const InitialPart* current_part = nullptr;

std::vector<int64_t> DimsOf(const Shape& s) {
  return {s.dims().begin(), s.dims().end()};
}

Status CheckPart(const VariablePart& part) {
  const auto refuse = [&](const char* rule) {
    return InvalidArgument("part of variable '", part.name, "': expected ",
                           rule, ", got shape ", part.shape.ToString(), " at [",
                           absl::StrJoin(part.offset, ","), "] of ",
                           part.whole.ToString());
  };
  SLUICE_RETURN_IF_ERROR(part.whole.status());
  SLUICE_RETURN_IF_ERROR(part.shape.status());
  const int rank = part.whole.rank();
  if (part.shape.rank() != rank ||
      part.offset.size() != static_cast<size_t>(rank))
    return refuse("a part of the same rank");
  for (int i = 0; i < rank; ++i) {
    const int64_t at = part.offset[static_cast<size_t>(i)];
    if (at < 0 || part.shape.dim(i) > part.whole.dim(i) ||
        at > part.whole.dim(i) - part.shape.dim(i))
      return refuse("a part within the whole");
  }
  return OkStatus();
}

// The dimension along which a part is shorter than the whole; -1 if there are
// several, 0 if there is none.
int CutAxis(const VariablePart& part) {
  int axis = -1;
  for (int i = 0; i < part.whole.rank(); ++i) {
    if (part.shape.dim(i) == part.whole.dim(i)) continue;
    if (axis >= 0) return -1;
    axis = i;
  }
  return std::max(axis, 0);
}

// The numbers of parts: `parts` along the axis, 1 along all others. (Given
// another rank, the caller reports the error.)
std::vector<int64_t> Along(const Shape& shape, int axis, int64_t parts) {
  std::vector<int64_t> all(static_cast<size_t>(shape.rank()), 1);
  if (axis < 0 || axis >= shape.rank()) return {};
  // (A dimension of 0 is one empty part.)
  all[static_cast<size_t>(axis)] =
      std::min(parts, std::max<int64_t>(1, shape.dim(axis)));
  return all;
}

double BytesEach(DType dtype, int64_t per_string) {
  return dtype == DType::kString ? static_cast<double>(per_string)
                                 : static_cast<double>(DTypeSize(dtype));
}

int64_t DivideUp(double a, double b) {
  // (Such numbers are limited by the dimension.)
  return static_cast<int64_t>(std::min(std::ceil(a / b), 0x1p62));
}

struct Cut {
  int axis = 0;
  int64_t parts = 1;
};

Result<Cut> CutOf(const Shape& shape, DType dtype,
                  const VariablePartitioner& partitioner) {
  SLUICE_RETURN_IF_ERROR(shape.status());
  if (partitioner == nullptr)
    return InvalidArgument("expected a partitioner, got none");
  if (shape.rank() == 0)
    return InvalidArgument("expected a shape that can be cut, got a scalar");
  const std::vector<int64_t> counts = partitioner(shape, dtype);
  const auto refuse = [&](const std::string& rule) {
    return InvalidArgument("partitioner: expected ", rule, ", got [",
                           absl::StrJoin(counts, ","), "] for shape ",
                           shape.ToString());
  };
  if (counts.size() != static_cast<size_t>(shape.rank()))
    return refuse("a number of parts for each dimension");
  Cut cut;
  bool is_cut = false;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] < 1) return refuse("at least one part");
    if (counts[i] == 1) continue;
    if (is_cut) return refuse("parts along one dimension");
    is_cut = true;
    cut = {static_cast<int>(i), counts[i]};
    if (cut.parts > shape.dim(cut.axis))
      return refuse("at most as many parts as elements");
  }
  return cut;
}

std::string PartName(const std::string& name, int64_t i) {
  return absl::StrCat(name, "/part_", i);
}

}  // namespace

InitialPart::InitialPart(Shape whole, std::vector<int64_t> offset)
    : whole_(std::move(whole)),
      offset_(std::move(offset)),
      outer_(std::exchange(current_part, this)) {}
InitialPart::~InitialPart() { current_part = outer_; }
const InitialPart* InitialPart::Current() { return current_part; }
const InitialPart* InitialPart::CurrentOf(const Shape& own) {
  const InitialPart* const part = current_part;
  if (part == nullptr || !own.valid()) return nullptr;
  return CheckPart({"", part->whole_, part->offset_, own}).ok() ? part
                                                                : nullptr;
}

VariablePartitioner FixedSizePartitioner(int64_t parts, int axis) {
  return [=](const Shape& shape, DType) { return Along(shape, axis, parts); };
}

VariablePartitioner VariableAxisSizePartitioner(int64_t max_bytes, int axis,
                                                int64_t bytes_per_string,
                                                int64_t max_parts) {
  return [=](const Shape& shape, DType dtype) -> std::vector<int64_t> {
    const int64_t length = shape.dim(axis);
    if (max_bytes < 1 || bytes_per_string < 1 || max_parts < 0 || length < 0)
      return {};
    if (length == 0) return Along(shape, axis, 1);
    const double slice = static_cast<double>(shape.num_elements() / length) *
                         BytesEach(dtype, bytes_per_string);
    const double per_part = std::max(
        1.0,
        std::floor(static_cast<double>(max_bytes) / std::max(slice, 1e-300)));
    const int64_t parts = DivideUp(static_cast<double>(length), per_part);
    return Along(shape, axis,
                 max_parts == 0 ? parts : std::min(parts, max_parts));
  };
}

VariablePartitioner MinMaxVariablePartitioner(int64_t max_parts, int axis,
                                              int64_t min_bytes,
                                              int64_t bytes_per_string) {
  return [=](const Shape& shape, DType dtype) -> std::vector<int64_t> {
    if (max_parts < 1 || min_bytes < 1 || bytes_per_string < 1) return {};
    const double total = static_cast<double>(shape.num_elements()) *
                         BytesEach(dtype, bytes_per_string);
    const int64_t parts = DivideUp(total, static_cast<double>(min_bytes));
    return Along(shape, axis, std::max<int64_t>(1, std::min(parts, max_parts)));
  };
}

std::string VariablePart::ShapeAndSlice() const {
  std::vector<std::string> extents;
  for (int i = 0; i < whole.rank(); ++i)
    extents.push_back(
        shape.dim(i) == whole.dim(i)
            ? "-"
            : absl::StrCat(offset[static_cast<size_t>(i)], ",", shape.dim(i)));
  return absl::StrCat(absl::StrJoin(whole.dims(), " "), " ",
                      absl::StrJoin(extents, ":"));
}

std::optional<VariablePart> PartOf(const Var& variable) {
  if (!variable.valid()) return std::nullopt;
  const Node& n = *variable.handle().node;
  const AttrValue* const name = n.FindAttr(kPartOf);
  if (name == nullptr || name->get<std::string>() == nullptr)
    return std::nullopt;
  const Result<Shape> shape = variable.shape().ToShape();
  if (!shape.ok()) return std::nullopt;
  VariablePart part;
  part.name = *name->get<std::string>();
  // (An imported graph may have anything here.)
  const auto whole = n.AttrOr<AttrValue::Ints>(kPartWhole, {});
  const auto offset = n.AttrOr<AttrValue::Ints>(kPartOffset, {});
  part.whole = Shape(std::span<const int64_t>(whole.data(), whole.size()));
  part.offset.assign(offset.begin(), offset.end());
  part.shape = *shape;
  if (!CheckPart(part).ok()) return std::nullopt;
  return part;
}

Status SetPartOf(const Var& variable, const VariablePart& part) {
  if (!variable.valid())
    return InvalidArgument("part of variable '", part.name,
                           "': expected a variable, got none");
  SLUICE_RETURN_IF_ERROR(CheckPart(part));
  if (part.name.empty())
    return InvalidArgument("part '", variable.name(),
                           "': expected the name of the whole, got ''");
  if (!(variable.shape() == PartialShape(part.shape)))
    return InvalidArgument("part '", variable.name(), "': expected the shape ",
                           variable.shape().ToString(), ", got ",
                           part.shape.ToString());
  const Output handle = variable.handle();
  Graph& g = *handle.graph();
  std::lock_guard<std::recursive_mutex> lock(g.mutex());
  g.SetAttr(handle.node, kPartOf, part.name);
  const std::vector<int64_t> whole = DimsOf(part.whole);
  g.SetAttr(handle.node, kPartWhole,
            AttrValue::Ints(whole.begin(), whole.end()));
  g.SetAttr(handle.node, kPartOffset,
            AttrValue::Ints(part.offset.begin(), part.offset.end()));
  return OkStatus();
}

Status SetPartLike(const Var& slot, const Var& variable) {
  std::optional<VariablePart> part = PartOf(variable);
  if (!part.has_value()) return OkStatus();
  absl::string_view suffix = slot.name();
  if (!absl::ConsumePrefix(&suffix, variable.name()))
    return InvalidArgument("part '", slot.name(),
                           "': expected a name that begins with '",
                           variable.name(), "', got '", slot.name(), "'");
  absl::StrAppend(&part->name, suffix);
  return SetPartOf(slot, *part);
}

PartitionedVar::PartitionedVar(std::vector<Var> parts, SourceLoc loc) {
  for (const Var& v : parts) {
    if (v.valid() || CurrentGraph().ErrorOf(v.handle()) == nullptr) continue;
    parts_ = {v};
    return;
  }
  const Status s = Set(std::move(parts));
  if (!s.ok()) parts_ = {Var::FromHandle(BuildError(s, loc))};
}

Status PartitionedVar::Set(std::vector<Var> parts) {
  if (parts.empty())
    return InvalidArgument("partitioned variable: expected parts, got none");
  struct Piece {
    Var var;
    VariablePart part;
  };
  std::vector<Piece> pieces;
  for (const Var& v : parts) {
    const std::optional<VariablePart> part = PartOf(v);
    if (!part.has_value())
      return InvalidArgument(
          "partitioned variable: expected parts of a variable, got ",
          v.valid() ? absl::StrCat("'", v.name(), "'") : "none");
    pieces.push_back({v, *part});
  }
  const VariablePart& first = pieces[0].part;
  int axis = 0;
  for (const Piece& p : pieces) {
    if (p.part.name != first.name || !(p.part.whole == first.whole) ||
        p.var.dtype() != pieces[0].var.dtype() ||
        p.var.handle().graph() != pieces[0].var.handle().graph())
      return InvalidArgument("partitioned variable: expected parts of '",
                             first.name, "' ", first.whole.ToString(),
                             ", got '", p.var.name(), "' of '", p.part.name,
                             "' ", p.part.whole.ToString());
    const int cut = CutAxis(p.part);
    if (cut < 0)
      return InvalidArgument("partitioned variable '", first.name,
                             "': expected parts along one dimension, got '",
                             p.var.name(), "' ", p.part.ShapeAndSlice());
    axis = std::max(axis, cut);
  }
  if (first.whole.rank() == 0 && pieces.size() > 1)
    return InvalidArgument("partitioned variable '", first.name,
                           "': expected one part of a scalar, got ",
                           pieces.size());
  const auto at = static_cast<size_t>(axis);
  if (first.whole.rank() > 0)
    std::sort(pieces.begin(), pieces.end(), [&](const auto& a, const auto& b) {
      return a.part.offset[at] < b.part.offset[at];
    });
  int64_t covered = 0;
  for (const Piece& p : pieces) {
    if (first.whole.rank() == 0) break;
    if (p.part.offset[at] != covered)
      return InvalidArgument("partitioned variable '", first.name,
                             "': expected a part from ", covered, " on, got '",
                             p.var.name(), "' ", p.part.ShapeAndSlice());
    covered += p.part.shape.dim(axis);
  }
  if (first.whole.rank() > 0 && covered != first.whole.dim(axis))
    return InvalidArgument("partitioned variable '", first.name,
                           "': expected parts of all ", first.whole.dim(axis),
                           " elements of dimension ", axis, ", got those of ",
                           covered);
  name_ = first.name;
  shape_ = first.whole;
  axis_ = axis;
  for (const Piece& p : pieces) parts_.push_back(p.var);
  return OkStatus();
}

DType PartitionedVar::dtype() const {
  return valid() ? parts_[0].dtype() : DType::kInvalid;
}

std::vector<int64_t> PartitionedVar::offsets() const {
  std::vector<int64_t> at;
  int64_t end = 0;
  for (const Var& p : parts_) {
    at.push_back(end);
    end += p.shape().dim(axis_);
  }
  at.push_back(end);
  return at;
}

Output PartitionedVar::Read(SourceLoc loc) const {
  if (parts_.empty())
    return BuildError(
        InvalidArgument("partitioned variable: expected one, got none"), loc);
  if (parts_.size() == 1) return parts_[0].Read(loc);
  std::vector<Output> values;
  for (const Var& p : parts_) values.push_back(p.Read(loc));
  values.push_back(Constant(Tensor::Scalar(axis_), "", loc));
  return Build("ConcatV2", values, {{"N", static_cast<int64_t>(parts_.size())}},
               "", loc);
}

Node* PartitionedVar::Update(Node* (Var::*update)(const Operand&, SourceLoc)
                                 const,
                             const Operand& value, const char* what,
                             SourceLoc loc) const {
  if (!valid())  // The error.
    return ((parts_.empty() ? Var() : parts_[0]).*update)(value, loc);
  const AtLine at(loc);
  const Output whole = value.Get(dtype());
  if (!whole.valid()) return nullptr;
  if (!whole.shape().CompatibleWith(shape_)) {
    BuildError(
        InvalidArgument(what, ": expected a value of shape ", shape_.ToString(),
                        ", got ", whole.shape().ToString(), "; variable '",
                        name_, "'"),
        loc);
    return nullptr;
  }
  std::vector<Output> values = {whole};
  if (parts_.size() > 1) {
    std::vector<int64_t> sizes;
    for (const Var& p : parts_) sizes.push_back(p.shape().dim(axis_));
    Node* const split =
        BuildNode("SplitV",
                  {whole, Constant(Tensor::Vector<int64_t>(sizes)),
                   Constant(Tensor::Scalar(axis_))},
                  {{"num_split", static_cast<int64_t>(sizes.size())}}, "");
    if (split == nullptr) return nullptr;
    values.clear();
    for (size_t i = 0; i < sizes.size(); ++i)
      values.emplace_back(split, static_cast<int>(i));
  }
  std::vector<Node*> nodes;
  for (size_t i = 0; i < parts_.size(); ++i) {
    nodes.push_back((parts_[i].*update)(values[i], loc));
    if (nodes.back() == nullptr) return nullptr;
  }
  return nodes.size() == 1 ? nodes[0] : Group(nodes, what, loc);
}

Node* PartitionedVar::Assign(const Operand& value, SourceLoc loc) const {
  return Update(&Var::Assign, value, "Assign", loc);
}
Node* PartitionedVar::AssignAdd(const Operand& delta, SourceLoc loc) const {
  return Update(&Var::AssignAdd, delta, "AssignAdd", loc);
}
Node* PartitionedVar::AssignSub(const Operand& delta, SourceLoc loc) const {
  return Update(&Var::AssignSub, delta, "AssignSub", loc);
}
Node* PartitionedVar::initializer(SourceLoc loc) const {
  return VariablesInitializer(parts_.empty() ? std::vector<Var>(1) : parts_,
                              "init", loc);
}

PartitionedVar GetPartitionedVariable(
    const std::string& name, const Shape& shape,
    const VariablePartitioner& partitioner, const InitializerFn& initializer,
    DType dtype, const PartitionedVarOptions& options, SourceLoc loc) {
  const auto fail = [&](const Status& s) {
    const Status error = Annotate(s, absl::StrCat("variable '", name, "'"));
    return PartitionedVar({Var::FromHandle(BuildError(error, loc))});
  };
  // The type matters here only for the size in bytes.
  const VariableScope* scope = CurrentVariableScope();
  VariableRequest request = {name, shape, initializer, dtype, {}};
  if (scope != nullptr) scope->FillIn(&request);
  const Result<Cut> cut = CutOf(
      shape, request.dtype == DType::kInvalid ? DType::kFloat : request.dtype,
      partitioner == nullptr && scope != nullptr ? scope->partitioner()
                                                 : partitioner);
  if (!cut.ok()) return fail(cut.status());
  Graph& g = CurrentGraph();
  std::lock_guard<std::recursive_mutex> lock(g.mutex());
  const auto axis = static_cast<size_t>(cut->axis);
  const int64_t length = shape.dim(cut->axis);
  std::vector<Var> parts;
  std::string whole_name;
  std::vector<int64_t> offset(static_cast<size_t>(shape.rank()), 0);
  for (int64_t i = 0; i < cut->parts; ++i) {
    std::vector<int64_t> dims = DimsOf(shape);
    dims[axis] = length / cut->parts + (i < length % cut->parts ? 1 : 0);
    const Shape own{std::span<const int64_t>(dims)};
    Var var;
    {
      std::optional<DeviceScope> device;
      if (!options.devices.empty())
        device.emplace(
            options.devices[static_cast<size_t>(i) % options.devices.size()]);
      // (Only the initializer makes the part: a getter of the scope may make
      // other variables.)
      const InitializerFn of_part = [shape, offset,
                                     whole = request.initializer](
                                        const Shape& s, DType t) {
        const InitialPart initial(shape, offset);
        return (whole == nullptr ? DefaultInitializer(t) : whole)(s, t);
      };
      var = GetVariable(PartName(name, i), own, of_part, dtype,
                        options.variable, loc);
    }
    if (!var.valid()) return PartitionedVar({var}, loc);  // Recorded.
    if (i == 0)
      whole_name = std::string(absl::StripSuffix(var.name(), "/part_0"));
    const VariablePart part = {whole_name, shape, offset, own};
    if (const std::optional<VariablePart> made = PartOf(var);
        made.has_value() && made->ShapeAndSlice() != part.ShapeAndSlice())
      return fail(InvalidArgument("expected parts as they were made, '",
                                  var.name(), "' being ", made->ShapeAndSlice(),
                                  ", got ", part.ShapeAndSlice()));
    if (const Status s = SetPartOf(var, part); !s.ok()) return fail(s);
    parts.push_back(std::move(var));
    offset[axis] += dims[axis];
  }
  return PartitionedVar(std::move(parts), loc);
}

}  // namespace sluice
