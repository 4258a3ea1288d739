// Hostile calls of variables in parts, embeddings and losses of many classes.
#include <climits>
#include <limits>

#include "tests/hostile_calls_test_util.h"

namespace sluice {
namespace {

std::vector<EmbeddingTable> HostileTables() {
  const Var numbers(Tensor::Of<float>({2, 1}, {1, 2}), "numbers");
  const Var scalar(1.0f, "scalar"), text("text", "text");
  return {Var(),
          std::vector<Var>{},
          std::vector<Var>{Var(), numbers},
          std::vector<Var>{numbers, scalar},
          std::vector<Var>{numbers, text},
          PartitionedVar(),
          PartitionedVar({numbers}),
          scalar,
          text,
          Var::FromHandle(Elsewhere()),
          numbers};
}

HOSTILE(PartitionersOfNothing,
        "FixedSizePartitioner VariableAxisSizePartitioner "
        "MinMaxVariablePartitioner GetPartitionedVariable") {
  constexpr int64_t kNumbers[] = {INT64_MIN, -1, 0, 1, INT64_MAX};
  std::vector<VariablePartitioner> partitioners = {
      nullptr, [](const Shape&, DType) { return std::vector<int64_t>(); },
      [](const Shape&, DType) { return std::vector<int64_t>(9, kHuge); }};
  for (const int64_t a : kNumbers)
    for (const int axis : {INT_MIN, -1, 0, 1, INT_MAX}) {
      partitioners.push_back(FixedSizePartitioner(a, axis));
      for (const int64_t b : kNumbers) {
        partitioners.push_back(VariableAxisSizePartitioner(a, axis, b, b));
        partitioners.push_back(MinMaxVariablePartitioner(a, axis, b, b));
      }
    }
  const Shape shapes[] = {Shape(), Shape({0}), Shape({3, 0}), Shape({2, 3}),
                          Shape({-1, 2})};
  for (const VariablePartitioner& partitioner : partitioners)
    for (const Shape& shape : shapes)
      for (const DType t : {DType::kFloat, DType::kString, DType::kInvalid}) {
        if (partitioner != nullptr) {
          for (const int64_t n : partitioner(shape, t)) (void)n;
        }
        (void)RecordedBy([&] {
          (void)GetPartitionedVariable("v", shape, partitioner, init::Zeros(),
                                       t);
        });
      }
  ExpectRecorded("expected a partitioner, got none", [] {
    EXPECT_NULL(GetPartitionedVariable("v", {2}, nullptr));
  });
  EXPECT_TRUE(GetPartitionedVariable("v", {2}, FixedSizePartitioner(2), nullptr)
                  .valid());
  (void)RecordedBy([] {
    EXPECT_NULL(GetPartitionedVariable("v", {2}, FixedSizePartitioner(2),
                                       init::Zeros(), DType::kFloat,
                                       {.devices = {"garbage"}}));
    (void)GetPartitionedVariable("a b", {2}, FixedSizePartitioner(2));
    (void)GetPartitionedVariable("", {2}, FixedSizePartitioner(2));
  });
}

HOSTILE(PartsOfNothing,
        "PartitionedVar::PartitionedVar PartitionedVar::valid "
        "PartitionedVar::name PartitionedVar::dtype PartitionedVar::shape "
        "PartitionedVar::axis PartitionedVar::parts PartitionedVar::offsets "
        "PartitionedVar::Read PartitionedVar::Assign PartitionedVar::AssignAdd "
        "PartitionedVar::AssignSub PartitionedVar::initializer "
        "VariablePart::ShapeAndSlice PartOf SetPartOf SetPartLike") {
  (void)RecordedBy([] {
    for (const PartitionedVar& v :
         {PartitionedVar(), PartitionedVar(std::vector<Var>{}),
          PartitionedVar({Var()}),
          PartitionedVar({Var(1.0f, "v"), Var(1.0f, "w")})}) {
      EXPECT_FALSE(v.valid());
      EXPECT_EQ(v.name(), "");
      EXPECT_EQ(v.dtype(), DType::kInvalid);
      EXPECT_EQ(v.axis(), 0);
      EXPECT_EQ(v.shape().rank(), 0);
      EXPECT_LE(v.parts().size(), 1u);
      (void)v.offsets();
      EXPECT_NULL(v.Read());
      EXPECT_EQ(v.Assign(1.0f), nullptr);
      EXPECT_EQ(v.AssignAdd(Elsewhere()), nullptr);
      EXPECT_EQ(v.AssignSub(Tensor()), nullptr);
      EXPECT_EQ(v.initializer(), nullptr);
    }
  });
  ExpectRecorded("expected a value of shape [4], got [3]", [] {
    const PartitionedVar v = GetPartitionedVariable(
        "v", {4}, FixedSizePartitioner(2), init::Zeros());
    EXPECT_EQ(v.Assign(Tensor::Vector<float>({1, 2, 3})), nullptr);
  });
  (void)RecordedBy([] {
    const Var v(Tensor::Vector<float>({1, 2}), "v");
    EXPECT_FALSE(PartOf(Var()).has_value());
    EXPECT_FALSE(PartOf(v).has_value());
    const VariablePart hostile[] = {
        {},
        {"", Shape({4}), {0}, Shape({2})},
        {"w", Shape({-4}), {0}, Shape({2})},
        {"w", Shape({4}), {}, Shape({2})},
        {"w", Shape({4}), {INT64_MAX}, Shape({2})},
        {"w", Shape({4}), {INT64_MIN}, Shape({2})},
        {"w", Shape({4, 4}), {0, 0}, Shape({2})},
        {"w", Shape({4}), {3}, Shape({2})},
        {"w", Shape({1}), {0}, Shape({2})},
    };
    for (const VariablePart& part : hostile) {
      EXPECT_FALSE(SetPartOf(v, part).ok());
      EXPECT_FALSE(SetPartOf(Var(), part).ok());
    }
    (void)VariablePart().ShapeAndSlice();
    EXPECT_TRUE(SetPartLike(Var(), v).ok());  // Not a part: nothing to do.
    EXPECT_TRUE(SetPartOf(v, {"w", Shape({4}), {2}, Shape({2})}).ok());
    EXPECT_FALSE(SetPartLike(Var(), v).ok());
    EXPECT_FALSE(SetPartLike(Var(1.0f, "other"), v).ok());
    EXPECT_FALSE(SetPartLike(Var(1.0f, "v/slot"), v).ok());
  });
  // What an imported graph says.
  Graph g;
  const WithGraph use(g);
  const Var v(Tensor::Vector<float>({1, 2}), "v");
  g.SetAttr(v.handle().node, "_part_of", std::string("w"));
  EXPECT_FALSE(PartOf(v).has_value());
  g.SetAttr(v.handle().node, "_part_whole", AttrValue::Ints{INT64_MIN});
  g.SetAttr(v.handle().node, "_part_offset", AttrValue::Ints{INT64_MAX});
  EXPECT_FALSE(PartOf(v).has_value());
  EXPECT_FALSE(Saver().status().code() == StatusCode::kInternal);
}

HOSTILE(EmbeddingsOfNothing,
        "EmbeddingTable::EmbeddingTable EmbeddingTable::parts "
        "EmbeddingTable::name EmbeddingTable::rows EmbeddingTable::axis "
        "EmbeddingLookup EmbeddingLookupSparse SafeEmbeddingLookupSparse") {
  (void)RecordedBy([] {
    const Output ids = Constant(Tensor::Vector<int64_t>({0, kHuge, -kHuge}));
    const SparseOutput sparse[] = {
        {},
        {ids, ids, ids},
        {Elsewhere(), Elsewhere(), Elsewhere()},
        {Constant(Tensor::Of<int64_t>({1, 2}, {0, 0})), ids, Output()},
        {Constant(Tensor::Of<int64_t>({1, 2}, {0, 0})),
         Constant(Tensor::Scalar<std::string>("text")), ids}};
    for (const EmbeddingTable& table : HostileTables()) {
      EXPECT_LE(table.parts().size(), 2u);
      EXPECT_LE(table.rows(), 3);
      EXPECT_EQ(table.axis(), 0);
      (void)table.name();
      for (const double norm :
           {-1.0, 0.0, std::numeric_limits<double>::quiet_NaN()}) {
        (void)EmbeddingLookup(table, ids, {.max_norm = norm});
        (void)EmbeddingLookup(table, Placeholder<int32_t>(),
                              {.max_norm = norm});
      }
      EXPECT_NULL(EmbeddingLookup(table, Output()));
      EXPECT_NULL(EmbeddingLookup(table, Elsewhere()));
      EXPECT_NULL(EmbeddingLookup(table, Tensor()));
      EXPECT_NULL(EmbeddingLookup(table, "text"));
      EXPECT_NULL(EmbeddingLookup(table, 1.5));
      for (const SparseOutput& s : sparse) {
        EXPECT_NULL(EmbeddingLookupSparse(table, s));
        EXPECT_NULL(EmbeddingLookupSparse(
            table, s, s, {.combiner = static_cast<Combiner>(77)}));
        EXPECT_NULL(SafeEmbeddingLookupSparse(table, s));
        EXPECT_NULL(SafeEmbeddingLookupSparse(
            table, s, s, {.combiner = static_cast<Combiner>(77)}));
      }
    }
    const Var table(Tensor::Of<float>({2, 1}, {1, 2}), "table");
    (void)EmbeddingLookup(
        table, ids,
        {.strategy = static_cast<PartitionStrategy>(77), .name = "a b"});
    (void)EmbeddingLookup(table, ids, {.name = ""});
  });
}

HOSTILE(LossesOfNoClasses,
        "SampledSoftmaxLoss NceLoss FullSoftmaxLoss UniformClassSampler "
        "LogUniformClassSampler LearnedUnigramClassSampler "
        "FixedUnigramClassSampler AllClasses") {
  (void)RecordedBy([] {
    for (const EmbeddingTable& table : HostileTables()) {
      EXPECT_NULL(SampledSoftmaxLoss(table, table, Output(), Output(), 3));
      EXPECT_NULL(NceLoss(table, table, Elsewhere(), Elsewhere(), 3));
      EXPECT_NULL(FullSoftmaxLoss(table, table, Tensor(), "text"));
    }
  });
  const std::vector<ClassSampler> samplers = {
      nullptr,
      UniformClassSampler({.seed = INT64_MIN}),
      LogUniformClassSampler(),
      LearnedUnigramClassSampler({.unique = false}),
      FixedUnigramClassSampler({}),
      FixedUnigramClassSampler({.unigrams = {-1, 0}, .distortion = -3}),
      FixedUnigramClassSampler({.unigrams = {1, 2}, .reserved = INT64_MIN}),
      FixedUnigramClassSampler({.vocab_file = "/no/such", .shards = 0}),
      AllClasses(),
      [](const Output&, int64_t, int64_t) { return SampledClasses(); },
      [](const Output&, int64_t, int64_t) {
        return SampledClasses{Elsewhere(), Elsewhere(), Elsewhere()};
      }};
  for (const ClassSampler& sampler : samplers)
    for (const int64_t n : {INT64_MIN, int64_t{-1}, int64_t{0}, INT64_MAX}) {
      Graph g;
      const WithGraph use(g);
      const Var w(Tensor::Of<float>({2, 1}, {1, 2}), "w");
      const Var b(Tensor::Vector<float>({1, 2}), "b");
      const Tensor h = Tensor::Of<float>({1, 1}, {1});
      for (const auto loss : {SampledSoftmaxLoss, NceLoss}) {
        const Output y = loss(w, b, Tensor::Vector<int64_t>({5}), h, n,
                              {.sampler = sampler}, CallerLoc());
        (void)loss(w, b, Tensor(), "text", n, {.sampler = sampler},
                   CallerLoc());
        EXPECT_NULL(loss(w, b, Tensor::Vector<int64_t>({0}), h, 1,
                         {.sampler = sampler, .classes = n}, CallerLoc())
                        .valid() &&
                    n != 0);
        if (!y.valid()) continue;
        Session session(g);
        (void)session.RunTargets({w.initializer(), b.initializer()});
        EXPECT_FALSE(session.Run(y).ok());  // There is no class 5.
      }
    }
  (void)AllClasses()(Output(), INT64_MIN, INT64_MIN);
}

}  // namespace
}  // namespace sluice
