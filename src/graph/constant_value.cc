// Values that are known before a step runs: constants, and integer arithmetic
// on shapes.
#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "graph/function.h"
#include "graph/shape_context.h"

namespace sluice {
namespace {

// What is known about an integer tensor before a step: its shape, and the
// elements that follow from constants and from known dimensions. Knowing single
// elements propagates [batch?, 784] through Shape, slices and Pack.
struct PartialInts {
  using Element = std::optional<int64_t>;
  Shape shape;
  std::vector<Element> values;

  bool complete() const {
    return std::all_of(values.begin(), values.end(),
                       [](const Element& e) { return e.has_value(); });
  }
};

// Larger integer tensors are data, not shapes.
constexpr int64_t kMaxElements = 256;
// Bounds of one query: the maximum depth, and the maximum number of visits for
// a graph that fans out (x = x * x, repeatedly).
constexpr int kMaxDepth = 64;
constexpr int kMaxVisits = 1024;

enum class Fold {
  kConst,
  kIdentity,
  kShape,
  kShapeN,
  kVariableShape,
  kSize,
  kRank,
  kPack,
  kUnpack,
  kConcat,
  kSlice,
  kStridedSlice,
  kCast,
  kReshape,
  kAdd,
  kSub,
  kMul,
  kFloorDiv,
  kFloorMod,
  kMaximum,
  kMinimum,
  kNeg,
  kProd,
  kSum,
  kMax,
  kMin,
  kFill,
  kRange,
  kZeros,
  kOnes,
  kGather,
  kSparseConcat,
};

std::optional<Fold> FoldOf(const Node& node) {
  if (node.has_placeholders()) return std::nullopt;
  switch (node.op().role) {
    case OpRole::kConst:
      return Fold::kConst;
    case OpRole::kEnter:  // They forward their input.
    case OpRole::kSwitch:
      return Fold::kIdentity;
    default:
      break;
  }
  switch (node.kind()) {
    case OpKind::kIdentity:
    case OpKind::kSameValue:
      return Fold::kIdentity;
    case OpKind::kShape:
      return Fold::kShape;
    case OpKind::kShapeN:
      return Fold::kShapeN;
    case OpKind::kVariableShape:
      return Fold::kVariableShape;
    case OpKind::kSize:
      return Fold::kSize;
    case OpKind::kRank:
      return Fold::kRank;
    case OpKind::kPack:
      return Fold::kPack;
    case OpKind::kUnpack:
      return Fold::kUnpack;
    case OpKind::kConcat:
      return Fold::kConcat;
    case OpKind::kSlice:
      return Fold::kSlice;
    case OpKind::kStridedSlice:
      return Fold::kStridedSlice;
    case OpKind::kCast:
      return Fold::kCast;
    case OpKind::kExpandDims:
    case OpKind::kSqueeze:
    case OpKind::kReshape:
      return Fold::kReshape;
    case OpKind::kAdd:
      return Fold::kAdd;
    case OpKind::kSub:
      return Fold::kSub;
    case OpKind::kMul:
      return Fold::kMul;
    case OpKind::kFloorDiv:
      return Fold::kFloorDiv;
    case OpKind::kFloorMod:
      return Fold::kFloorMod;
    case OpKind::kMaximum:
      return Fold::kMaximum;
    case OpKind::kMinimum:
      return Fold::kMinimum;
    case OpKind::kNeg:
      return Fold::kNeg;
    case OpKind::kProd:
      return Fold::kProd;
    case OpKind::kSum:
      return Fold::kSum;
    case OpKind::kMax:
      return Fold::kMax;
    case OpKind::kMin:
      return Fold::kMin;
    case OpKind::kFill:
      return Fold::kFill;
    case OpKind::kRange:
      return Fold::kRange;
    case OpKind::kZerosLike:
      return Fold::kZeros;
    case OpKind::kOnesLike:
      return Fold::kOnes;
    case OpKind::kGather:
      return Fold::kGather;
    case OpKind::kSparseConcat:
      return Fold::kSparseConcat;
    default:
      return std::nullopt;
  }
}

bool IsIndexType(DType t) { return t == DType::kInt32 || t == DType::kInt64; }

int64_t FloorDivide(int64_t a, int64_t b) {
  const int64_t q = a / b;
  return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;
}

// Evaluates one query; never fails: nullopt means unknown. Anything that would
// be an error at run time is unknown here: the kernel reports it.
class Folder {
 public:
  std::optional<PartialInts> Eval(const Output& o, int depth = 0);

 private:
  using Element = PartialInts::Element;

  std::optional<PartialInts> EvalOp(const Output& o, Fold fold, int depth);
  std::optional<PartialInts> Binary(const Node& n, Fold fold, int depth);
  std::optional<PartialInts> Reduce(const Node& n, Fold fold, int depth);
  std::optional<PartialInts> Concat(const Node& n, int depth);
  std::optional<PartialInts> SliceOf(const Node& n, int depth);
  std::optional<PartialInts> StridedSliceOf(const Node& n, int depth);
  std::optional<PartialInts> RangeOf(const Node& n, int depth);
  std::optional<PartialInts> GatherOf(const Node& n, int depth);
  std::optional<PartialInts> SparseConcatOf(const Node& n, int depth);
  // The single element of input i.
  Element Scalar(const Node& n, int i, int depth);

  int visits_ = 0;
};

std::optional<PartialInts> FromTensor(const Tensor& t) {
  if (!IsIndexType(t.dtype()) || t.num_elements() > kMaxElements)
    return std::nullopt;
  PartialInts p;
  p.shape = t.shape();
  for (int64_t i = 0; i < t.num_elements(); ++i)
    p.values.push_back(t.dtype() == DType::kInt32 ? t.raw<int32_t>()[i]
                                                  : t.raw<int64_t>()[i]);
  return p;
}

Tensor ToTensor(const PartialInts& p, DType dtype) {
  Tensor t(dtype, p.shape);
  for (size_t i = 0; i < p.values.size(); ++i) {
    if (dtype == DType::kInt32)
      t.raw<int32_t>()[i] = static_cast<int32_t>(*p.values[i]);
    else
      t.raw<int64_t>()[i] = *p.values[i];
  }
  return t;
}

PartialInts VectorOf(std::vector<PartialInts::Element> values) {
  PartialInts p;
  p.shape = Shape({static_cast<int64_t>(values.size())});
  p.values = std::move(values);
  return p;
}

PartialInts ScalarOfElement(PartialInts::Element e) {
  PartialInts p;
  p.values = {e};
  return p;
}

// All elements are unknown; their number may be known.
std::optional<PartialInts> ShapeOnly(const PartialShape& shape) {
  const int64_t n = shape.num_elements();
  if (n < 0 || n > kMaxElements) return std::nullopt;
  Result<Shape> full = shape.ToShape();
  if (!full.ok()) return std::nullopt;
  PartialInts p;
  p.shape = *std::move(full);
  p.values.resize(static_cast<size_t>(n));
  return p;
}

std::optional<PartialInts> ShapeVector(const PartialShape& shape) {
  if (!shape.rank_known()) return std::nullopt;
  std::vector<PartialInts::Element> values;
  for (int64_t d : shape.dims())
    values.push_back(d < 0 ? PartialInts::Element() : d);
  return VectorOf(std::move(values));
}

std::optional<PartialInts> Folder::Eval(const Output& o, int depth) {
  if (!o.valid() || !IsIndexType(o.dtype()) || depth > kMaxDepth ||
      ++visits_ > kMaxVisits)
    return std::nullopt;
  std::optional<PartialInts> p;
  const std::optional<Fold> fold = FoldOf(*o.node);
  if (fold) p = EvalOp(o, *fold, depth + 1);
  if (!p) return ShapeOnly(o.shape());
  if (static_cast<int64_t>(p->values.size()) > kMaxElements)
    return std::nullopt;
  if (o.dtype() != DType::kInt32) return p;
  // A size that does not fit is reported by the kernel; sums wrap as in
  // kernels.
  const bool size = fold == Fold::kShape || fold == Fold::kShapeN ||
                    fold == Fold::kVariableShape || fold == Fold::kSize;
  for (Element& e : p->values)
    if (e && *e != static_cast<int32_t>(*e))
      e = size ? Element() : static_cast<int32_t>(*e);
  return p;
}

std::optional<PartialInts> Folder::EvalOp(const Output& o, Fold fold,
                                          int depth) {
  const Node& n = *o.node;
  switch (fold) {
    case Fold::kConst: {
      const AttrValue* v = n.FindAttr("value");
      const Tensor* t = v == nullptr ? nullptr : v->get<Tensor>();
      return t == nullptr ? std::nullopt : FromTensor(*t);
    }
    case Fold::kIdentity:
      return Eval(n.input(0), depth);
    case Fold::kCast:
      // Other integer types and floats would need their own rounding.
      return Eval(n.input(0), depth);
    case Fold::kShape:
    case Fold::kShapeN: {
      const Output& in = n.input(fold == Fold::kShape ? 0 : o.index);
      return in.valid() ? ShapeVector(in.shape()) : std::nullopt;
    }
    case Fold::kVariableShape:
      return ShapeVector(VariableShape(n.input(0)));
    case Fold::kSize: {
      if (!n.input(0).valid()) return std::nullopt;
      const int64_t size = n.input(0).shape().num_elements();
      return ScalarOfElement(size < 0 ? Element() : size);
    }
    case Fold::kRank: {
      if (!n.input(0).valid()) return std::nullopt;
      const PartialShape& s = n.input(0).shape();
      return ScalarOfElement(s.rank_known() ? Element(s.rank()) : Element());
    }
    case Fold::kPack: {
      std::vector<Element> values;
      for (int i = 0; i < n.num_inputs(); ++i) {
        std::optional<PartialInts> p = Eval(n.input(i), depth);
        if (p && p->shape.rank() != 0) return std::nullopt;
        values.push_back(p ? p->values[0] : Element());
      }
      if (!o.shape().rank_known() || o.shape().rank() != 1) return std::nullopt;
      return VectorOf(std::move(values));
    }
    case Fold::kUnpack: {
      std::optional<PartialInts> p = Eval(n.input(0), depth);
      if (!p || p->shape.rank() != 1 ||
          p->values.size() != static_cast<size_t>(n.num_outputs()))
        return std::nullopt;
      return ScalarOfElement(p->values[static_cast<size_t>(o.index)]);
    }
    case Fold::kConcat:
      return Concat(n, depth);
    case Fold::kSlice:
      return SliceOf(n, depth);
    case Fold::kStridedSlice:
      return StridedSliceOf(n, depth);
    case Fold::kReshape: {
      std::optional<PartialInts> p = Eval(n.input(0), depth);
      if (!p) return std::nullopt;
      std::optional<PartialInts> out = ShapeOnly(o.shape());
      if (!out || out->values.size() != p->values.size()) return std::nullopt;
      p->shape = out->shape;
      return p;
    }
    case Fold::kAdd:
    case Fold::kSub:
    case Fold::kMul:
    case Fold::kFloorDiv:
    case Fold::kFloorMod:
    case Fold::kMaximum:
    case Fold::kMinimum:
      return Binary(n, fold, depth);
    case Fold::kNeg: {
      std::optional<PartialInts> p = Eval(n.input(0), depth);
      if (!p) return std::nullopt;
      for (Element& e : p->values)
        if (e) e = static_cast<int64_t>(-static_cast<uint64_t>(*e));
      return p;
    }
    case Fold::kProd:
    case Fold::kSum:
    case Fold::kMax:
    case Fold::kMin:
      return Reduce(n, fold, depth);
    case Fold::kFill: {
      std::optional<PartialInts> out = ShapeOnly(o.shape());
      if (!out) return std::nullopt;
      const Element value = Scalar(n, 1, depth);
      for (Element& e : out->values) e = value;
      return out;
    }
    case Fold::kRange:
      return RangeOf(n, depth);
    case Fold::kZeros:
    case Fold::kOnes: {
      std::optional<PartialInts> out = ShapeOnly(o.shape());
      if (!out) return std::nullopt;
      for (Element& e : out->values) e = fold == Fold::kOnes ? 1 : 0;
      return out;
    }
    case Fold::kGather:
      return GatherOf(n, depth);
    case Fold::kSparseConcat:
      return o.index == 2 ? SparseConcatOf(n, depth) : std::nullopt;
  }
  return std::nullopt;
}

PartialInts::Element Folder::Scalar(const Node& n, int i, int depth) {
  std::optional<PartialInts> p = Eval(n.input(i), depth);
  if (!p || p->values.size() != 1) return std::nullopt;
  return p->values[0];
}

PartialInts::Element Apply(Fold fold, int64_t a, int64_t b) {
  const auto ua = static_cast<uint64_t>(a), ub = static_cast<uint64_t>(b);
  switch (fold) {
    case Fold::kAdd:
    case Fold::kSum:
      return static_cast<int64_t>(ua + ub);
    case Fold::kSub:
      return static_cast<int64_t>(ua - ub);
    case Fold::kMul:
    case Fold::kProd:
      return static_cast<int64_t>(ua * ub);
    case Fold::kMaximum:
    case Fold::kMax:
      return std::max(a, b);
    case Fold::kMinimum:
    case Fold::kMin:
      return std::min(a, b);
    case Fold::kFloorDiv:
      if (b == 0 || (a == INT64_MIN && b == -1)) return std::nullopt;
      return FloorDivide(a, b);
    case Fold::kFloorMod:
      if (b == 0 || b == -1) return b == 0 ? PartialInts::Element() : 0;
      return a - FloorDivide(a, b) * b;
    default:
      return std::nullopt;
  }
}

std::optional<PartialInts> Folder::Binary(const Node& n, Fold fold, int depth) {
  std::optional<PartialInts> a = Eval(n.input(0), depth);
  if (!a) return std::nullopt;
  std::optional<PartialInts> b = Eval(n.input(1), depth);
  if (!b) return std::nullopt;
  const bool spread_a =
      a->values.size() == 1 && a->shape.rank() <= b->shape.rank();
  const bool spread_b =
      b->values.size() == 1 && b->shape.rank() <= a->shape.rank();
  if (!(a->shape == b->shape) && !spread_a && !spread_b) return std::nullopt;
  PartialInts out;
  out.shape = spread_b ? a->shape : b->shape;
  out.values.resize(static_cast<size_t>(out.shape.num_elements()));
  for (size_t i = 0; i < out.values.size(); ++i) {
    const Element& x = a->values[a->values.size() == 1 ? 0 : i];
    const Element& y = b->values[b->values.size() == 1 ? 0 : i];
    // 0 times anything is 0: an empty batch stays known.
    if (fold == Fold::kMul && ((x && *x == 0) || (y && *y == 0)))
      out.values[i] = 0;
    else if (x && y)
      out.values[i] = Apply(fold, *x, *y);
  }
  return out;
}

// Reductions of whole vectors only, which is what shapes use.
std::optional<PartialInts> Folder::Reduce(const Node& n, Fold fold, int depth) {
  std::optional<PartialInts> in = Eval(n.input(0), depth);
  std::optional<PartialInts> axes = Eval(n.input(1), depth);
  if (!in || !axes || !axes->complete() || in->shape.rank() > 1 ||
      n.BoolAttr("keep_dims"))
    return std::nullopt;
  if (axes->values.empty()) return in;
  if (axes->values.size() != 1 || in->shape.rank() != 1 ||
      (*axes->values[0] != 0 && *axes->values[0] != -1))
    return std::nullopt;
  if (in->values.empty()) {
    if (fold == Fold::kProd) return ScalarOfElement(1);
    if (fold == Fold::kSum) return ScalarOfElement(0);
    return std::nullopt;
  }
  Element sum = in->values[0];
  for (size_t i = 1; i < in->values.size(); ++i)
    sum = sum && in->values[i] ? Apply(fold, *sum, *in->values[i]) : Element();
  return ScalarOfElement(sum);
}

std::optional<PartialInts> Folder::Concat(const Node& n, int depth) {
  std::vector<Element> values;
  for (int i = 0; i + 1 < n.num_inputs(); ++i) {
    std::optional<PartialInts> p = Eval(n.input(i), depth);
    if (!p || p->shape.rank() != 1) return std::nullopt;
    values.insert(values.end(), p->values.begin(), p->values.end());
    if (static_cast<int64_t>(values.size()) > kMaxElements) return std::nullopt;
  }
  return VectorOf(std::move(values));
}

std::optional<PartialInts> Folder::SliceOf(const Node& n, int depth) {
  std::optional<PartialInts> in = Eval(n.input(0), depth);
  const Element begin = Scalar(n, 1, depth), size = Scalar(n, 2, depth);
  if (!in || in->shape.rank() != 1 || !begin || !size) return std::nullopt;
  const int64_t length = in->shape.dim(0);
  if (*begin < 0 || *begin > length) return std::nullopt;
  const int64_t count = *size == -1 ? length - *begin : *size;
  if (count < 0 || count > length - *begin) return std::nullopt;
  return VectorOf(
      {in->values.begin() + *begin, in->values.begin() + *begin + count});
}

std::optional<PartialInts> Folder::StridedSliceOf(const Node& n, int depth) {
  std::optional<PartialInts> in = Eval(n.input(0), depth);
  if (!in || in->shape.rank() != 1) return std::nullopt;
  // Only x[i] and x[a:b:c]: no ellipsis, no new axis.
  if (n.IntAttr("ellipsis_mask") != 0 || n.IntAttr("new_axis_mask") != 0)
    return std::nullopt;
  const Element begin = Scalar(n, 1, depth), end = Scalar(n, 2, depth),
                stride = Scalar(n, 3, depth);
  const int64_t length = in->shape.dim(0);
  if (n.IntAttr("shrink_axis_mask") & 1) {
    if (!begin) return ScalarOfElement(std::nullopt);
    const int64_t i = *begin < 0 ? *begin + length : *begin;
    if (i < 0 || i >= length) return std::nullopt;
    return ScalarOfElement(in->values[static_cast<size_t>(i)]);
  }
  const bool from_start = n.IntAttr("begin_mask") & 1;
  const bool to_end = n.IntAttr("end_mask") & 1;
  if (!stride || *stride == 0 || (!begin && !from_start) || (!end && !to_end))
    return std::nullopt;
  const int64_t low = *stride > 0 ? 0 : -1;
  const int64_t high = *stride > 0 ? length : length - 1;
  const auto clamp = [&](int64_t i) {
    return std::clamp(i < 0 ? i + length : i, low, high);
  };
  const int64_t from = from_start ? (*stride > 0 ? low : high) : clamp(*begin);
  const int64_t to = to_end ? (*stride > 0 ? high : low) : clamp(*end);
  std::vector<Element> values;
  if (*stride > 0) {
    for (int64_t i = from; i < to; i += std::min(*stride, length + 1))
      values.push_back(in->values[static_cast<size_t>(i)]);
  } else {
    for (int64_t i = from; i > to; i += std::max(*stride, -(length + 1)))
      values.push_back(in->values[static_cast<size_t>(i)]);
  }
  return VectorOf(std::move(values));
}

std::optional<PartialInts> Folder::RangeOf(const Node& n, int depth) {
  const Element start = Scalar(n, 0, depth), limit = Scalar(n, 1, depth),
                delta = Scalar(n, 2, depth);
  if (!start || !limit || !delta || *delta == 0) return std::nullopt;
  std::vector<Element> values;
  for (int64_t i = *start; *delta > 0 ? i < *limit : i > *limit;) {
    if (static_cast<int64_t>(values.size()) >= kMaxElements)
      return std::nullopt;
    values.push_back(i);
    if (__builtin_add_overflow(i, *delta, &i)) break;
  }
  return VectorOf(std::move(values));
}

// The shape of concatenated sparse tensors, whose shapes agree in all but one
// dimension.
std::optional<PartialInts> Folder::SparseConcatOf(const Node& n, int depth) {
  const int many = n.num_inputs() / 3;
  std::optional<PartialInts> joined;
  for (int i = 2 * many; i < n.num_inputs(); ++i) {
    const std::optional<PartialInts> part = Eval(n.input(i), depth);
    if (!part || part->shape.rank() != 1) return std::nullopt;
    if (!joined) {
      joined = part;
      continue;
    }
    const int64_t rank = part->shape.dim(0);
    const int64_t given = n.AttrOr<int64_t>("concat_dim", 0);
    const int64_t axis = given < 0 ? given + rank : given;
    if (joined->shape.dim(0) != rank || axis < 0 || axis >= rank)
      return std::nullopt;
    for (int64_t d = 0; d < rank; ++d) {
      Element& to = joined->values[static_cast<size_t>(d)];
      const Element& from = part->values[static_cast<size_t>(d)];
      int64_t sum;
      if (d != axis)
        to = to ? to : from;
      else if (!to || !from || __builtin_add_overflow(*to, *from, &sum))
        to.reset();
      else
        to = sum;
    }
  }
  return joined;
}

std::optional<PartialInts> Folder::GatherOf(const Node& n, int depth) {
  std::optional<PartialInts> in = Eval(n.input(0), depth);
  std::optional<PartialInts> at = Eval(n.input(1), depth);
  if (!in || !at || in->shape.rank() != 1 || n.IntAttr("batch_dims") != 0)
    return std::nullopt;
  PartialInts out;
  out.shape = at->shape;
  for (const Element& i : at->values) {
    if (i && (*i < 0 || *i >= in->shape.dim(0))) return std::nullopt;
    out.values.push_back(i ? in->values[static_cast<size_t>(*i)] : Element());
  }
  return out;
}

// The Const behind `o`, through ops that forward values unchanged.
const Tensor* ConstBehind(const Output& o) {
  const Output* at = &o;
  for (int depth = 0; depth < kMaxDepth && (*at).valid(); ++depth) {
    const std::optional<Fold> fold = FoldOf(*at->node);
    if (fold == Fold::kConst) {
      const AttrValue* v = at->node->FindAttr("value");
      return v == nullptr ? nullptr : v->get<Tensor>();
    }
    if (fold != Fold::kIdentity) return nullptr;
    at = &at->node->input(0);
  }
  return nullptr;
}

}  // namespace

std::optional<Tensor> ConstantValue(const Output& o) {
  if (o.dtype() == DType::kInvalid) return std::nullopt;  // No such output.
  if (const Tensor* t = ConstBehind(o)) return *t;
  std::optional<PartialInts> p = Folder().Eval(o);
  if (!p || !p->complete()) return std::nullopt;
  return ToTensor(*p, o.dtype());
}

Result<PartialShape> ConstantAsShape(const Output& o) {
  if (!o.valid()) return PartialShape();
  if (!IsIndexType(o.dtype()))
    return InvalidArgument("shape: expected a vector of int32 or int64, got ",
                           DTypeName(o.dtype()));
  const PartialShape& known = o.shape();
  if (known.rank_known() && known.rank() > 1)
    return InvalidArgument("shape: expected a vector of dimensions, got shape ",
                           known.ToString());
  std::optional<PartialInts> p = Folder().Eval(o);
  if (known.rank_known() && known.rank() == 0) {
    // A scalar -1 stands for a shape of unknown rank.
    if (!p || !p->values[0] || *p->values[0] == -1) return PartialShape();
    return InvalidArgument(
        "shape: expected a vector of dimensions, or a scalar -1, got scalar ",
        *p->values[0]);
  }
  if (!p || p->shape.rank() != 1) {
    // The length of an unknown vector still determines the rank.
    const int64_t length = known.rank() == 1 ? known.dim(0) : -1;
    if (length < 0 || length > kMaxRank) return PartialShape();
    return PartialShape::OfRank(static_cast<int>(length));
  }
  PartialShape out = PartialShape::Scalar();
  for (const PartialInts::Element& e : p->values) {
    if (e && *e < -1)
      return InvalidArgument("shape: expected dimensions >= -1, got ", *e);
    out.add_dim(e.value_or(-1));
  }
  return out;
}

namespace {

// The node that made a handle, or the function argument that holds it; null if
// unknown.
const Node* VariableOrigin(const Output& handle) {
  const Output* at = &handle;
  for (int depth = 0; depth < kMaxDepth && (*at).valid(); ++depth) {
    const Node& n = *at->node;
    if (n.kind() == OpKind::kVarHandle || n.op().role == OpRole::kArg)
      return &n;
    if (n.kind() != OpKind::kIdentity && n.op().role != OpRole::kEnter &&
        n.op().role != OpRole::kSwitch)
      break;
    at = &n.input(0);
  }
  return nullptr;
}

}  // namespace

PartialShape VariableShape(const Output& handle) {
  const Node* const n = VariableOrigin(handle);
  if (n == nullptr) return PartialShape();
  return n->op().role == OpRole::kArg
             ? ToldVariableShape(*n)
             : n->AttrOr<PartialShape>("shape", PartialShape());
}

DType VariableDType(const Output& handle) {
  const Node* const n = VariableOrigin(handle);
  if (n == nullptr) return DType::kInvalid;
  return n->op().role == OpRole::kArg ? ToldVariableType(*n)
                                      : n->TypeAttr("dtype");
}

}  // namespace sluice
