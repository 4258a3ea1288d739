// Hostile calls of the parts of tensors: types, shapes, memory, attributes.
#include <limits>
#include <type_traits>

#include "io/npy.h"
#include "io/treebank.h"
#include "tests/hostile_calls_test_util.h"

namespace sluice {
namespace {

Tensor TwoByTwo() { return Tensor::Of<double>({2, 2}, {1, 2, 3, 4}); }

// ---- Types ------------------------------------------------------------------

HOSTILE(TypesThatDoNotExist,
        "DTypeName DTypeSize ParseDType IsValidDType IsRef MakeRef RemoveRef "
        "IsFloating IsComplex IsInteger IsQuantized IsPlain DTypeOf") {
  for (int i = -1; i < 300; ++i) {
    const auto t = static_cast<DType>(i);
    const bool none = DTypeName(t) == "invalid";
    EXPECT_EQ(none, !IsValidDType(static_cast<uint8_t>(i))) << i;
    EXPECT_TRUE(none || RemoveRef(MakeRef(t)) == RemoveRef(t));
    EXPECT_EQ(IsPlain(t), DTypeSize(t) > 0);
    EXPECT_TRUE(!IsRef(t) || DTypeSize(t) == 0);
    EXPECT_FALSE(none && (IsFloating(t) || IsComplex(t) || IsInteger(t) ||
                          IsQuantized(t) || t == DTypeOf<float>()));
  }
  for (const char* name : {"", "_ref", "flot", "DT_", "float_ref_ref"})
    EXPECT_EQ(ParseDType(name), std::nullopt) << name;
}

HOSTILE(HalvesOfWhatTheyCannotHold, "half::half bfloat16::bfloat16") {
  for (const float v : {1e30f, -1e30f, std::numeric_limits<float>::quiet_NaN(),
                        std::numeric_limits<float>::infinity()}) {
    EXPECT_FALSE(std::isfinite(static_cast<float>(half(v))));
    EXPECT_EQ(std::isfinite(static_cast<float>(bfloat16(v))), std::isfinite(v));
  }
}

// ---- Files ------------------------------------------------------------------

HOSTILE(ArraysInFilesThatAreNone,
        "ParseNpy ParseNpz ReadNpy ReadNpz SerializeNpy SerializeNpz WriteNpy "
        "WriteNpz") {
  const std::string none = "/no/such/folder/a.npy";
  const std::string folder = testing::TempDir();
  for (const std::string& bytes :
       {std::string(), std::string("\x93NUMPY"), std::string(100, '\xff'),
        std::string("PK\x03\x04"), std::string(1000, '\0')}) {
    EXPECT_FALSE(ParseNpy(bytes).ok());
    EXPECT_FALSE(ParseNpz(bytes).ok());
  }
  for (const std::string& path : {none, folder, std::string()}) {
    EXPECT_FALSE(ReadNpy(path).ok()) << path;
    EXPECT_FALSE(ReadNpz(path).ok()) << path;
    EXPECT_FALSE(WriteNpy(path, TwoByTwo()).ok()) << path;
    EXPECT_FALSE(WriteNpz(path, {{"a", TwoByTwo()}}).ok()) << path;
  }
  for (const Tensor& bad : {Tensor(), Tensor(DType::kFloat, {-1})}) {
    EXPECT_FALSE(SerializeNpy(bad).ok());
    EXPECT_FALSE(SerializeNpz({{"a", bad}}).ok());
  }
}

HOSTILE(TreesInFilesThatAreNone, "ParseTreebank ReadTreebank") {
  for (const std::string& text :
       {std::string("("), std::string(")"), std::string("(2"),
        std::string("(2)"), std::string("(7 a)"), std::string("(2 (2 a))"),
        std::string("(2 a b)"), std::string(1000, '\xff'),
        std::string(1000, '\0'), std::string(100000, '(')})
    ExpectRefused(ParseTreebank(text), "treebank:1:");
  TreebankOptions options;
  options.labels = -1;
  ExpectRefused(ParseTreebank("(2 a)", options), "labels: expected at least 1");
  options = {.vocabulary = {"a", "a"}};
  ExpectRefused(ParseTreebank("(2 a)", options), "'a' twice");
  for (const std::string& path :
       {std::string("/no/such/file"), testing::TempDir(), std::string()})
    EXPECT_FALSE(ReadTreebank(path).ok()) << path;
}

// ---- Shapes -----------------------------------------------------------------

HOSTILE(ShapesThatNoTensorHas,
        "Shape::Shape Shape::Make Shape::valid Shape::status Shape::rank "
        "Shape::dim Shape::operator[] Shape::dims Shape::num_elements "
        "Shape::operator== Shape::ToString Shape::MakeScalar") {
  const std::vector<std::pair<std::vector<int64_t>, std::string>> cases = {
      {{-1, 2}, "expected dimensions >= 0, got [-1,2]"},
      {{3, INT64_MIN}, "expected dimensions >= 0"},
      {{kHuge, 4}, "expected fewer than 2^63 elements"},
      {{0, kHuge, 4}, "expected fewer than 2^63 elements"},
      {std::vector<int64_t>(9, 1), "at most 8 dimensions, got "},
      {std::vector<int64_t>(1000, 1), "at most 8 dimensions"}};
  for (const auto& [dims, message] : cases) {
    ExpectRefused(Shape::Make(dims), message);
    Shape s(dims);
    EXPECT_FALSE(s.valid());
    ExpectRefused(s.status(), message);
    EXPECT_EQ(s.num_elements(), 0);
    EXPECT_EQ(s.dims().size(), static_cast<size_t>(s.rank()));
    EXPECT_EQ(s.dim(0), dims[0]);
    Shape copy = s, moved = std::move(copy), assigned;
    assigned = moved;
    EXPECT_TRUE(assigned == s);
    EXPECT_EQ(assigned.ToString(), s.ToString());
    assigned = Shape({2});
    EXPECT_TRUE(assigned.valid());
    moved.MakeScalar();
    EXPECT_TRUE(moved.valid());
    EXPECT_EQ(moved.num_elements(), 1);
  }
  EXPECT_EQ(Shape({-1, 2}).ToString(), "[-1,2]");
}

HOSTILE(DimensionsThatAreNotThere, "Shape::dim Shape::operator[] Tensor::dim") {
  const Shape s({2, 3});
  for (const int i : {-1, 2, 5, INT_MAX, INT_MIN}) {
    EXPECT_EQ(s.dim(i), -1);
    EXPECT_EQ(s[i], -1);
    EXPECT_EQ(TwoByTwo().dim(i), -1);
    EXPECT_EQ(Tensor().dim(i), -1);
  }
}

HOSTILE(PartialShapesThatNothingFits,
        "PartialShape::PartialShape PartialShape::Make PartialShape::OfRank "
        "PartialShape::valid PartialShape::status PartialShape::dim "
        "PartialShape::set_dim PartialShape::add_dim PartialShape::ToShape "
        "PartialShape::num_elements PartialShape::dims PartialShape::rank "
        "PartialShape::rank_known PartialShape::fully_known "
        "PartialShape::CompatibleWith PartialShape::MergeWith "
        "PartialShape::Union PartialShape::operator== PartialShape::ToString "
        "PartialShape::Unknown PartialShape::Scalar MultiplyOrNegative") {
  const std::vector<int64_t> below = {-2, 2}, many(9, 1);
  ExpectRefused(PartialShape::Make(below), "or -1 for an unknown one");
  ExpectRefused(PartialShape::Make(many), "at most 8 dimensions, got 9");
  ExpectRefused(PartialShape(Shape({-1, 2})).status(), "got [-1,2]");
  ExpectRefused(PartialShape(Shape(many)).status(), "at most 8 dimensions");
  ExpectRefused(PartialShape(Shape({kHuge, 4})).status(), "expected one that");
  EXPECT_FALSE(PartialShape::OfRank(-1).valid());
  EXPECT_FALSE(PartialShape::OfRank(9).valid());
  EXPECT_TRUE(PartialShape({-1, 2}).valid());
  PartialShape s = {2, 3};
  for (const int i : {-1, 2, INT_MAX, INT_MIN}) {
    EXPECT_EQ(s.dim(i), -1);
    EXPECT_EQ(PartialShape::Unknown().dim(i), -1);
    PartialShape changed = s;
    changed.set_dim(i, 4);
    EXPECT_FALSE(changed.valid());
  }
  s.add_dim(-7);
  EXPECT_FALSE(s.valid());
  ExpectRefused(PartialShape::Unknown().ToShape(), "a fully known one");
  ExpectRefused(PartialShape({-1}).ToShape(), "a fully known one, got [?]");
  ExpectRefused(PartialShape({kHuge, 4}).ToShape(), "2^63");
  ExpectRefused(PartialShape(many).ToShape(), "at most 8");
  EXPECT_EQ(PartialShape({kHuge, 4}).num_elements(), -1);
  EXPECT_EQ(MultiplyOrNegative(kHuge, 4), -1);
  // Operations on them do not affect others.
  const PartialShape bad(below), unknown;
  EXPECT_TRUE(bad.CompatibleWith(unknown));
  EXPECT_FALSE(bad.CompatibleWith(PartialShape::Scalar()));
  ExpectRefused(bad.MergeWith(PartialShape({1, 2, 3})), "not compatible");
  EXPECT_FALSE(bad.Union(PartialShape::Scalar()).rank_known());
  EXPECT_FALSE(bad == unknown);
  EXPECT_FALSE(bad.fully_known());
  EXPECT_EQ(bad.rank(), 2);
  EXPECT_EQ(bad.dims().size(), 2u);
  EXPECT_EQ(bad.ToString(), "[?,2]");
}

// ---- Tensors ----------------------------------------------------------------

HOSTILE(TensorsThatCannotBe,
        "Tensor::Tensor Tensor::Make Tensor::Zeros Tensor::Of Tensor::MakeOf "
        "Tensor::Vector Tensor::MakeVector Tensor::Invalid Tensor::valid "
        "Tensor::status Tensor::MakeView ForeignBuffer::ForeignBuffer") {
  ExpectRefused(Tensor(DType::kFloat, {-1, 2}).status(),
                "expected dimensions >= 0, got [-1,2]; at ");
  ExpectRefused(Tensor::Make(DType::kFloat, {-1, 2}), "got [-1,2]");
  ExpectRefused(Tensor::Zeros(DType::kString, {-1, 2}), "got [-1,2]");
  ExpectRefused(Tensor(DType::kFloat, {kHuge}).status(), "2^63 bytes");
  ExpectRefused(Tensor(DType::kString, {kHuge}).status(), "2^36 objects");
  ExpectRefused(Tensor(DType::kFloat, {kHuge / 8}).status(), "allocation");
  for (const auto t : {DType::kInvalid, MakeRef(DType::kFloat),
                       static_cast<DType>(99), static_cast<DType>(255)}) {
    ExpectRefused(Tensor::Make(t, {2}), "expected an element type");
    ExpectRefused(Tensor::Make(t, {0}), "expected an element type");
    ExpectRefused(Tensor(t, {2}).status(), "expected an element type");
    ExpectRefused(Tensor::Zeros(t, {2}), "expected an element type");
  }
  const std::vector<float> many(64, 1.0f);
  ExpectRefused(Tensor::Of<float>({2, 2}, many).status(),
                "expected 4 values for the shape [2,2], got 64; at ");
  ExpectRefused(Tensor::Of<float>({100}, {1, 2}).status(),
                "expected 100 values for the shape [100], got 2");
  ExpectRefused(Tensor::Of<std::string>({0}, {"a"}).status(), "got 1");
  ExpectRefused(Tensor::Of<float>({-1}, {}).status(), "dimensions >= 0");
  ExpectRefused(Tensor::MakeOf<float>({2, 2}, many), "got 64");
  EXPECT_EQ(Tensor::MakeVector<float>({})->num_elements(), 0);
  EXPECT_EQ(Tensor::Vector<std::string>({}).num_elements(), 0);
  ExpectRefused(Tensor::Invalid(NotFound("gone")).status(), "gone");
  EXPECT_FALSE(Tensor::Invalid(OkStatus()).status().ok());
  ExpectRefused(Tensor().status(), "got none");

  int released = 0;
  const auto buffer = [&](void* data, size_t bytes) {
    return new ForeignBuffer(data, bytes, [&released] { ++released; });
  };
  float data[4] = {};
  ExpectRefused(
      Tensor::MakeView(DType::kFloat, {5}, buffer(data, sizeof(data)), data),
      "holds a float[5], got 16 bytes");
  ExpectRefused(Tensor::MakeView(DType::kFloat, {4}, buffer(data, sizeof(data)),
                                 data + 1),
                "expected a buffer");
  ExpectRefused(Tensor::MakeView(DType::kFloat, {4},
                                 buffer(data + 1, sizeof(float)), data),
                "expected a buffer");
  ExpectRefused(
      Tensor::MakeView(DType::kFloat, {-4}, buffer(data, sizeof(data)), data),
      "dimensions >= 0");
  ExpectRefused(Tensor::MakeView(DType::kFloat, {kHuge},
                                 buffer(data, sizeof(data)), data),
                "expected a buffer");
  ExpectRefused(
      Tensor::MakeView(DType::kInvalid, {1}, buffer(data, sizeof(data)), data),
      "element type");
  EXPECT_EQ(released, 6);
  ExpectRefused(Tensor::MakeView(DType::kFloat, {4}, nullptr, nullptr),
                "got 0 bytes");
  ExpectRefused(Tensor(DType::kFloat, {4}, nullptr, data).status(),
                "got 0 bytes");
}

// Every query of an invalid tensor has a defined result.
HOSTILE(WhatInvalidTensorsAreAsked,
        "Tensor::dtype Tensor::shape Tensor::rank Tensor::num_elements "
        "Tensor::bytes Tensor::unique Tensor::has_buffer Tensor::borrowed "
        "Tensor::buffer Tensor::in_host_memory "
        "Tensor::SharesBufferWith Tensor::Reshaped Tensor::Rows "
        "Tensor::BitcastTo Tensor::Clone Tensor::Identical Tensor::ToString "
        "Tensor::Summarize Tensor::TryFlat Tensor::TryScalar "
        "Tensor::TryToVector Tensor::SetScalar") {
  const Tensor made(DType::kFloat, {-1, 2});
  Tensor from = Tensor::Scalar(1.0f);
  const Tensor moved = std::move(from);
  for (const Tensor& t : {Tensor(), made, from}) {  // NOLINT: moved from.
    EXPECT_EQ(t.dtype(), DType::kInvalid);
    EXPECT_EQ(t.bytes(), 0u);
    EXPECT_EQ(t.dim(0), t.rank() > 0 ? 0 : -1);
    EXPECT_EQ(t.shape().rank(), t.rank());
    EXPECT_LE(t.num_elements(), 1);
    EXPECT_TRUE(t.Identical(t));
    EXPECT_FALSE(t.Identical(TwoByTwo()) || TwoByTwo().SharesBufferWith(t));
    EXPECT_EQ(t.ToString().substr(0, 7), "invalid");
    EXPECT_LE(t.Summarize(-1).size(), 1u);
    EXPECT_FALSE(t.borrowed());
    ExpectRefused(t.Reshaped({1}), "");
    ExpectRefused(t.Clone(), "");
    ExpectRefused(t.Rows(0, 1).status(), "");
    ExpectRefused(t.BitcastTo(DType::kFloat).status(), "");
    ExpectRefused(t.TryFlat<float>(), "expected one of float, got an invalid");
    ExpectRefused(t.TryScalar<float>(), "got an invalid one");
    ExpectRefused(t.TryToVector<float>(), "got an invalid one");
    Tensor copy = t;
    EXPECT_EQ(copy.unique(), !t.has_buffer());
    copy.SetScalar<int32_t>(7);
    EXPECT_EQ(copy.scalar<int32_t>(), 7);
  }
}

HOSTILE(PartsOfTensorsThatAreNotThere,
        "Tensor::Rows Tensor::BitcastTo Tensor::Reshaped Tensor::Summarize "
        "Tensor::ToString Tensor::Clone Tensor::Identical") {
  const Tensor t = TwoByTwo(), scalar = Tensor::Scalar(1.0);
  using Range = std::pair<int64_t, int64_t>;
  for (const auto& [begin, end] :
       {Range{-1, 1}, {0, 3}, {2, 1}, {3, 3}, {INT64_MIN, INT64_MAX}})
    ExpectRefused(t.Rows(begin, end).status(),
                  "rows: expected 0 <= begin <= end <= 2 for double[2,2]");
  ExpectRefused(scalar.Rows(0, 0).status(), "rank >= 1, got double[]");
  EXPECT_EQ(t.Rows(2, 2).num_elements(), 0);
  ExpectRefused(t.BitcastTo(DType::kFloat).status(), "of the size of double");
  ExpectRefused(t.BitcastTo(DType::kString).status(), "got string");
  ExpectRefused(t.BitcastTo(DType::kInvalid).status(), "got invalid");
  ExpectRefused(
      Tensor::Scalar<std::string>("a").BitcastTo(DType::kResource).status(),
      "got resource");
  EXPECT_EQ(t.BitcastTo(DType::kInt64).dtype(), DType::kInt64);
  ExpectRefused(t.Reshaped({5}), "expected 4 elements");
  ExpectRefused(t.Reshaped({-2, -2}), "");
  ExpectRefused(Tensor(DType::kFloat, {0}).Reshaped({-1}), "dimensions >= 0");
  EXPECT_EQ(t.ToString(-5), "double[2,2] 1 2 3 4");
  EXPECT_EQ(t.Summarize(0), "...");
}

HOSTILE(ElementsOfAnotherType,
        "Tensor::TryFlat Tensor::TryScalar Tensor::TryToVector") {
  ExpectRefused(TwoByTwo().TryScalar<float>(),
                "expected one of float, got double[2,2]");
  ExpectRefused(TwoByTwo().TryFlat<int64_t>(),
                "expected one of int64, got double[2,2]");
  ExpectRefused(TwoByTwo().TryToVector<std::string>(),
                "expected one of string");
  ExpectRefused(Tensor(DType::kString, {0}).TryScalar<std::string>(),
                "expected an element, got none in string[0]");
  EXPECT_EQ(TwoByTwo().TryScalar<double>().value(), 1);
  EXPECT_EQ(TwoByTwo().TryFlat<double>()->size(), 4u);
  EXPECT_EQ(TwoByTwo().TryToVector<double>()->back(), 4);
}

// These cannot return a status: the program aborts with a message.
HOSTILE(AccessorsThatEndTheProgram,
        "Tensor::scalar Tensor::flat Tensor::data Tensor::ToVector "
        "Tensor::Scalar") {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Tensor t = TwoByTwo();
  const Tensor& constant = t;
  EXPECT_DEATH((void)t.scalar<float>(),
               "Tensor::scalar: tensor: expected one of float, got "
               "double\\[2,2\\]; at .*hostile_values_test.cc:[0-9]+");
  EXPECT_DEATH((void)t.flat<float>(), "Tensor::flat: .*got double");
  EXPECT_DEATH((void)constant.flat<float>(), "Tensor::flat: .*got double");
  EXPECT_DEATH((void)t.data<float>(), "Tensor::data: .*got double");
  EXPECT_DEATH((void)constant.data<float>(), "Tensor::data: .*got double");
  EXPECT_DEATH((void)t.ToVector<int8_t>(), "Tensor::ToVector: .*got double");
  EXPECT_DEATH((void)Tensor(DType::kInt8, {0}).scalar<int8_t>(),
               "Tensor::scalar: .*an element, got none in int8\\[0\\]");
  EXPECT_DEATH((void)Tensor(DType::kFloat, {-1, 2}).flat<float>(),
               "an invalid one: .*got \\[-1,2\\]; at ");
  EXPECT_EQ(Tensor::Scalar<complex128>({1, 2}).scalar<complex128>().imag(), 2);
}

HOSTILE(MemoryThatIsNotThere,
        "HostAllocator::HostAllocator HostAllocator::Allocate "
        "HostAllocator::set_max_bytes HostAllocator::stats "
        "HostAllocator::ResetPeak HostAllocator::ReleaseCache "
        "HostAllocator::Rounded Allocator::Allocate Allocator::set_max_bytes "
        "Allocator::stats Allocator::ResetPeak Allocator::ReleaseCache "
        "Allocator::host_memory Allocator::Cpu ThreadAllocatedBytes "
        "Buffer::Ref Buffer::Unref Buffer::unique Buffer::borrowed "
        "Buffer::host_memory Buffer::data Buffer::bytes") {
  HostAllocator none(/*max_bytes=*/0), negative(-1, -1), some(1 << 20, 0);
  ExpectRefused(none.Allocate(1 << 16), "");
  ExpectRefused(negative.Allocate(1 << 16), "");
  for (const size_t bytes : {SIZE_MAX, SIZE_MAX / 2, size_t{1} << 62})
    for (HostAllocator* a : {&some, Allocator::Cpu()})
      ExpectRefused(a->Allocate(bytes), "");
  const int64_t before = ThreadAllocatedBytes();
  Result<Buffer*> empty = some.Allocate(0);
  if (empty.ok()) {
    (*empty)->Ref();
    EXPECT_FALSE((*empty)->unique() || (*empty)->borrowed());
    EXPECT_LE((*empty)->bytes(), 64u);
    (void)(*empty)->data();
    (*empty)->Unref();
    (*empty)->Unref();
  }
  EXPECT_GE(ThreadAllocatedBytes(), before);
  some.set_max_bytes(-5);
  ExpectRefused(some.Allocate(1 << 16), "");
  some.ResetPeak();
  some.ReleaseCache();
  EXPECT_EQ(some.stats().live_bytes, 0);
}

HOSTILE(ObjectsThatHoldNothing,
        "Variant::Variant Variant::empty Variant::get Variant::value "
        "Variant::unique Variant::Value::TypeName Resource::Resource "
        "Resource::kind Resource::TypeName") {
  struct Value final : Variant::Value {
    std::string TypeName() const override { return "value"; }
  };
  struct Other final : Resource {
    std::string TypeName() const override { return ""; }
  };
  EXPECT_EQ(Other().kind(), Resource::Kind::kOther);
  const Variant none, null(nullptr), some(std::make_shared<Value>());
  EXPECT_TRUE(none.empty() && null.empty() && !none.unique());
  EXPECT_EQ(null.get<Value>(), nullptr);
  EXPECT_EQ(null.value(), nullptr);
  EXPECT_TRUE(some.unique() && some.get<Value>() != nullptr);
  const Tensor variants = Tensor::Of<Variant>({2}, {none, some});
  EXPECT_EQ(variants.ToString(), "variant[2] <empty> <value>");
  const Tensor handles = Tensor::Of<ResourceHandle>(
      {2}, {{}, {"", "n", std::make_shared<Other>()}});
  EXPECT_EQ(handles.ToString(), "resource[2] <resource ''> < 'n'>");
  EXPECT_TRUE(variants.Identical(*variants.Clone()));
  EXPECT_TRUE(handles.Identical(*handles.Clone()));
}

// ---- Attributes -------------------------------------------------------------

HOSTILE(AttributesOfEveryKind,
        "AttrValue::AttrValue AttrValue::get AttrValue::value AttrValue::kind "
        "AttrValue::is_list AttrValue::operator== AttrValue::ToString "
        "EmptyListOf FunctionRef::operator==") {
  const Tensor bad(DType::kFloat, {-1});
  const std::vector<AttrValue> values = {
      AttrValue(),
      1,
      std::numeric_limits<double>::quiet_NaN(),
      1e30,
      "",
      DType::kInvalid,
      static_cast<DType>(200),
      Shape({-1, 2}),
      PartialShape({-3}),
      Tensor(),
      bad,
      FunctionRef{},
      AttrValue::Ints(),
      AttrValue::Tensors{Tensor(), bad},
      AttrValue::Shapes{PartialShape({-5})},
      AttrValue::Functions{FunctionRef{"", nullptr}},
      AttrValue::EmptyList(),
      AttrValue::Placeholder{}};
  for (const AttrValue& v : values) {
    EXPECT_LE(v.ToString().size(), 200u);
    EXPECT_EQ(v.get<AttrValue::Bools>(), nullptr);
    EXPECT_EQ(v.is_list(), AttrValue(v).is_list());
    const bool nan = v.get<float>() != nullptr && *v.get<float>() != 1e30f;
    EXPECT_TRUE(nan || v == AttrValue(v)) << v.ToString();
    // No op accepts a value that is invalid for all; the others are accepted by
    // their own op.
    for (const char* attr : {"dtype", "value", "nobody_declares_this"}) {
      Graph g;
      NodeSpec spec;
      spec.op = "Const";
      spec.attrs = {{"dtype", DType::kFloat}, {"value", Tensor::Scalar(1.0f)}};
      spec.attrs[attr] = v;
      const Result<Node*> made = g.AddNode(spec);
      if (made.ok()) (void)ExportGraphDef(g).status();
    }
  }
  for (int k = -1; k < 12; ++k)
    EXPECT_TRUE(EmptyListOf(static_cast<AttrKind>(k)).kind() ==
                    AttrKind::kNone ||
                k > 0);
  EXPECT_FALSE((FunctionRef{"f", std::make_shared<AttrMap>()} ==
                FunctionRef{"g", nullptr}));
}

HOSTILE(AttributesThatAreRefused, "Build Graph::AddNode AttrValue::AttrValue") {
  const auto with = [](const char* op, const char* attr, AttrValue v) {
    return RecordedBy([&] {
      AttrMap attrs = {{"dtype", DType::kFloat}};
      attrs[attr] = std::move(v);
      EXPECT_FALSE(Build(op, {}, attrs).valid());
    });
  };
  ExpectRefused(with("Const", "value", Tensor()), "attribute 'value'");
  ExpectRefused(with("Const", "value", Tensor(DType::kFloat, {-1, 2})),
                "attribute 'value': shape: expected dimensions >= 0");
  ExpectRefused(with("Placeholder", "shape", PartialShape({-2})),
                "attribute 'shape': shape: expected dimensions >= 0, or -1");
  ExpectRefused(with("Placeholder", "shape", Shape({-1, 2})), "got [-1,2]");
  ExpectRefused(with("Placeholder", "shape", PartialShape::OfRank(20)),
                "at most 8 dimensions, got 20");
  ExpectRefused(with("Placeholder", "dtype", DType::kInvalid), "");
  ExpectRefused(with("Placeholder", "dtype", static_cast<DType>(77)), "");
}

HOSTILE(StatusesOfNothing, "OkStatus Annotate") {
  EXPECT_TRUE(OkStatus().ok());
  EXPECT_TRUE(Annotate(OkStatus(), "reading").ok());
  EXPECT_EQ(Annotate(NotFound("x"), "").message(), ": x");
}

}  // namespace
}  // namespace sluice
