#include "client/nn/embedding.h"

#include <algorithm>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sluice/sluice.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kRows = 12, kWidth = 3;

// Row r of the table.
float TableValue(int64_t r, int64_t c) {
  return 0.1f * static_cast<float>((r * kWidth + c) * 7 % 13 - 6);
}

class EmbeddingTest : public ::testing::Test {
 protected:
  // The table in `count` parts, whose ids are those of the strategy.
  static std::vector<Var> Parts(int64_t count, PartitionStrategy strategy,
                                bool reference = false) {
    std::vector<Var> parts;
    for (int64_t p = 0; p < count; ++p) {
      std::vector<float> values;
      for (int64_t r = 0; r < kRows; ++r) {
        const bool mine = strategy == PartitionStrategy::kMod
                              ? r % count == p
                              : r * count / kRows == p;  // (Evenly divided.)
        for (int64_t c = 0; mine && c < kWidth; ++c)
          values.push_back(TableValue(r, c));
      }
      const auto rows = static_cast<int64_t>(values.size()) / kWidth;
      parts.emplace_back(Constant(Tensor::Of<float>({rows, kWidth}, values)),
                         "table", VarOptions{.reference = reference});
    }
    return parts;
  }

  Tensor Run(const Output& y, const Feeds& feeds = {}) {
    Session session(graph_);
    EXPECT_TRUE(session.RunTargets({GlobalVariablesInitializer()}).ok());
    Result<Tensor> out = session.Run(feeds, y);
    EXPECT_TRUE(out.ok()) << out.status();
    return out.ok() ? *out : Tensor();
  }
  std::string ErrorOf(const Output& y) {
    Session session(graph_);
    EXPECT_TRUE(session.RunTargets({GlobalVariablesInitializer()}).ok());
    return session.Run({}, y).status().ToString();
  }
  static void ExpectNear(const Tensor& got, const std::vector<float>& want) {
    ASSERT_EQ(got.num_elements(), static_cast<int64_t>(want.size()));
    for (size_t i = 0; i < want.size(); ++i)
      EXPECT_NEAR(got.flat<float>()[i], want[i], 1e-6f) << i;
  }

  Graph graph_;
  const WithGraph use_{graph_};
};

TEST_F(EmbeddingTest, RowsOfAllIdsWhateverTheParts) {
  const Tensor ids = Tensor::Of<int64_t>({2, 3}, {0, 11, 5, 5, 3, 10});
  for (const PartitionStrategy strategy :
       {PartitionStrategy::kDiv, PartitionStrategy::kMod})
    for (const int64_t count : {1, 2, 3, 4, 12})
      for (const bool reference : {false, true})
        for (const bool narrow : {false, true}) {
          SCOPED_TRACE(count);
          const Output rows = EmbeddingLookup(
              Parts(count, strategy, reference),
              narrow ? ops::Cast(ids, DType::kInt32) : Constant(ids),
              {.strategy = strategy});
          ASSERT_TRUE(rows.valid()) << graph_.status();
          EXPECT_EQ(rows.shape(), PartialShape({2, 3, kWidth}));
          EXPECT_EQ(EmbeddingLookup(Parts(count, strategy, reference),
                                    Tensor::Vector<int32_t>({1, 2}),
                                    {.strategy = strategy})
                        .shape(),
                    PartialShape({2, kWidth}));
          const Tensor got = Run(rows);
          for (int64_t i = 0; i < 6; ++i)
            for (int64_t c = 0; c < kWidth; ++c)
              EXPECT_EQ(
                  got.flat<float>()[static_cast<size_t>(i * kWidth + c)],
                  TableValue(ids.flat<int64_t>()[static_cast<size_t>(i)], c));
        }
}

TEST_F(EmbeddingTest, UnevenPartsOfAPartitionedVariable) {
  std::vector<float> values;
  for (int64_t r = 0; r < kRows; ++r)
    for (int64_t c = 0; c < kWidth; ++c) values.push_back(TableValue(r, c));
  const PartitionedVar table = GetPartitionedVariable(
      "t", {kRows - 1, kWidth}, FixedSizePartitioner(4), init::Zeros());
  values.resize(static_cast<size_t>((kRows - 1) * kWidth));
  Node* const assign =
      table.Assign(Tensor::Of<float>({kRows - 1, kWidth}, values));
  const Output all = EmbeddingLookup(table, ops::Range(0, 11, 1));
  Session session(graph_);
  ASSERT_TRUE(session.RunTargets({assign}).ok());
  const Result<Tensor> got = session.Run({}, all);
  ASSERT_TRUE(got.ok()) << got.status();
  ExpectNear(*got, values);
}

TEST_F(EmbeddingTest, ErrorsNameTheIdTheTableAndTheLine) {
  for (const PartitionStrategy strategy :
       {PartitionStrategy::kDiv, PartitionStrategy::kMod})
    for (const int64_t count : {1, 4})
      for (const bool reference : {false, true})
        for (const int64_t bad : {-1, -14, 12, 55}) {
          SCOPED_TRACE(count);
          const std::vector<Var> parts = Parts(count, strategy, reference);
          const Output rows =
              EmbeddingLookup(parts, Tensor::Vector<int64_t>({3, bad, 2}),
                              {.strategy = strategy});
          const std::string error = ErrorOf(rows);
          EXPECT_THAT(error, HasSubstr(absl::StrCat(
                                 "ids: expected ids of table '",
                                 parts[0].name(), "' in [0, 12), got ", bad)));
          EXPECT_THAT(error, HasSubstr("embedding_test.cc:"));
        }
}

TEST_F(EmbeddingTest, StepsUpdateOnlyTheRowsThatTheyRead) {
  for (const PartitionStrategy strategy :
       {PartitionStrategy::kDiv, PartitionStrategy::kMod})
    for (const int64_t count : {1, 4}) {
      Graph g;
      const WithGraph use(g);
      const std::vector<Var> parts = Parts(count, strategy);
      const Output rows = EmbeddingLookup(
          parts, Tensor::Vector<int32_t>({7, 2, 7}), {.strategy = strategy});
      GradientDescentOptimizer sgd(0.5);
      Node* const train = sgd.Minimize(ops::Sum(rows, {0, 1}));
      ASSERT_NE(train, nullptr) << g.status();
      for (const Var& p : parts) {
        const Result<std::vector<Gradient>> grad =
            Gradients({ops::Sum(rows, {0, 1})}, {p});
        ASSERT_TRUE(grad.ok()) << grad.status();
        EXPECT_TRUE((*grad)[0].is_sparse());
      }
      const Output all =
          EmbeddingLookup(parts, ops::Range(0, 12, 1), {.strategy = strategy});
      Session session(g);
      ASSERT_TRUE(session.RunTargets({GlobalVariablesInitializer()}).ok());
      ASSERT_TRUE(session.RunTargets({train}).ok());
      const Result<Tensor> got = session.Run({}, all);
      ASSERT_TRUE(got.ok()) << got.status();
      for (int64_t r = 0; r < kRows; ++r)
        for (int64_t c = 0; c < kWidth; ++c)
          EXPECT_FLOAT_EQ(
              got->flat<float>()[static_cast<size_t>(r * kWidth + c)],
              TableValue(r, c) - (r == 7   ? 1.0f
                                  : r == 2 ? 0.5f
                                           : 0.0f));
    }
}

TEST_F(EmbeddingTest, LongRowsAreScaledToTheMaximumNorm) {
  for (const int64_t count : {1, 3}) {
    const Output rows =
        EmbeddingLookup(Parts(count, PartitionStrategy::kDiv),
                        Tensor::Of<int32_t>({2, 1}, {5, 0}), {.max_norm = .5});
    // Row 5 is (-.5, .2, -.4), of norm .67; row 0 (-.6, .1, -.5), of .787.
    EXPECT_EQ(rows.shape(), PartialShape({2, 1, kWidth}));
    ExpectNear(Run(rows), {-.37267801f, .1490712f, -.2981424f, -.38100041f,
                           .06350007f, -.31750035f});
  }
}

TEST_F(EmbeddingTest, ParallelPartsInAFunctionsBody) {
  const std::vector<Var> parts = Parts(3, PartitionStrategy::kDiv);
  const Function f = DefineFunction(
      "f", {DType::kInt32},
      [&](const auto& args) { return EmbeddingLookup(parts, args[0]); });
  const Output rows = f({Constant(Tensor::Vector<int>({11}))})[0];
  ASSERT_TRUE(rows.valid()) << graph_.status();
  ExpectNear(Run(rows),
             {TableValue(11, 0), TableValue(11, 1), TableValue(11, 2)});
}

// ---- Sparse ids -------------------------------------------------------------

struct SparseCase {
  Combiner combiner;
  bool weights;
  std::optional<double> max_norm;
  std::vector<float> want;
};

// Recorded from tf.nn.embedding_lookup_sparse 2.21.
const SparseCase kSparseCases[] = {
    {Combiner::kMean,
     false,
     {},
     {-0.15000001f, -0.1f, -0.049999997f, -0.5f, 0.2f, -0.40000001f, 0, 0, 0, 0,
      -0.16666667f, 0.10000001f}},
    {Combiner::kMean,
     false,
     0.5,
     {-0.093491346f, -0.11115972f, -0.009799704f, -0.37267801f, 0.1490712f,
      -0.2981424f, 0, 0, 0, 0.034279108f, -0.15232059f, 0.11124022f}},
    {Combiner::kMean,
     true,
     {},
     {-0.26666668f, 0, -0.16666667f, -0.5f, 0.2f, -0.40000001f, 0, 0, 0,
      -0.95555562f, 0.17777778f, -0.85555553f}},
    {Combiner::kMean,
     true,
     0.5,
     {-0.18655355f, -0.02441608f, -0.10591394f, -0.37267801f, 0.1490712f,
      -0.2981424f, 0, 0, 0, -0.61987549f, 0.10965499f, -0.55801916f}},
    {Combiner::kSum,
     false,
     {},
     {-0.30000001f, -0.2f, -0.099999994f, -0.5f, 0.2f, -0.40000001f, 0, 0, 0, 0,
      -0.5f, 0.30000001f}},
    {Combiner::kSum,
     false,
     0.5,
     {-0.18698269f, -0.22231944f, -0.019599408f, -0.37267801f, 0.1490712f,
      -0.2981424f, 0, 0, 0, 0.10283732f, -0.45696178f, 0.33372065f}},
    {Combiner::kSum,
     true,
     {},
     {-0.80000001f, 0, -0.5f, -0.25f, 0.1f, -0.2f, 0, 0, 0, -2.1500001f,
      0.40000001f, -1.925f}},
    {Combiner::kSum,
     true,
     0.5,
     {-0.55966067f, -0.073248237f, -0.31774181f, -0.18633901f, 0.074535601f,
      -0.1490712f, 0, 0, 0, -1.3947198f, 0.24672373f, -1.2555431f}},
    {Combiner::kSqrtN,
     false,
     {},
     {-0.21213204f, -0.14142136f, -0.070710674f, -0.5f, 0.2f, -0.40000001f, 0,
      0, 0, 0, -0.28867513f, 0.17320508f}},
    {Combiner::kSqrtN,
     false,
     0.5,
     {-0.13221672f, -0.15720358f, -0.013858874f, -0.37267801f, 0.1490712f,
      -0.2981424f, 0, 0, 0, 0.059373155f, -0.263827f, 0.19267371f}},
    {Combiner::kSqrtN,
     true,
     {},
     {-0.35777089f, 0, -0.2236068f, -0.5f, 0.2f, -0.40000001f, 0, 0, 0,
      -0.67777497f, 0.12609766f, -0.60684502f}},
    {Combiner::kSqrtN,
     true,
     0.5,
     {-0.25028786f, -0.032757606f, -0.14209846f, -0.37267801f, 0.1490712f,
      -0.2981424f, 0, 0, 0, -0.4396773f, 0.077778213f, -0.39580265f}},
};

SparseOutput SparseIds() {
  return {Constant(Tensor::Of<int64_t>({6, 2},
                                       {0, 0, 0, 2, 1, 1, 3, 0, 3, 1, 3, 3})),
          Constant(Tensor::Vector<int64_t>({1, 5, 5, 11, 0, 1})),
          Constant(Tensor::Vector<int64_t>({4, 4}))};
}
SparseOutput SparseWeights() {
  SparseOutput weights = SparseIds();
  weights.values = Constant(Tensor::Vector<float>({1, 2, .5, -1, 3, .25}));
  return weights;
}

TEST_F(EmbeddingTest, SparseLookupsHaveTensorFlowsNumbers) {
  for (const SparseCase& c : kSparseCases)
    for (const int64_t count : {1, 3}) {
      const Output got = EmbeddingLookupSparse(
          Parts(count, PartitionStrategy::kDiv), SparseIds(),
          c.weights ? std::optional(SparseWeights()) : std::nullopt,
          {.combiner = c.combiner, .max_norm = c.max_norm});
      ASSERT_TRUE(got.valid()) << graph_.status();
      ExpectNear(Run(got), c.want);
    }
}

TEST_F(EmbeddingTest, GradientsOfSparseLookupsAreThoseOfTheSum) {
  // Of the mean with weights: d/drow = w / sum(w).
  const std::vector<Var> parts = Parts(1, PartitionStrategy::kDiv);
  const Output got = EmbeddingLookupSparse(parts, SparseIds(), SparseWeights());
  const Output grad = Grad(ops::Sum(got, {0, 1}), parts[0]);
  const Tensor dense = Run(grad);
  // Rows 1, 5, 11, 0 of the table; the others have none.
  std::vector<float> want(static_cast<size_t>(kRows * kWidth), 0.0f);
  const auto add = [&](size_t row, float g) {
    for (size_t c = 0; c < kWidth; ++c) want[row * kWidth + c] += g;
  };
  add(1, 1 / 3.0f);
  add(5, 2 / 3.0f);
  add(5, 1);
  add(11, -1 / 2.25f);
  add(0, 3 / 2.25f);
  add(1, .25f / 2.25f);
  ExpectNear(dense, want);
}

TEST_F(EmbeddingTest, SafeLookupsHaveTensorFlowsNumbers) {
  // Ids of three dimensions, one of them -1, which leaves row [0, 1] empty;
  // [1, 1] is. Recorded from tf.nn.safe_embedding_lookup_sparse 2.21.
  SparseOutput ids = {
      Constant(Tensor::Of<int64_t>(
          {6, 3}, {0, 0, 0, 0, 0, 2, 0, 1, 1, 1, 0, 0, 1, 0, 1, 1, 0, 3})),
      Constant(Tensor::Vector<int64_t>({1, 5, -1, 11, 0, 1})),
      Constant(Tensor::Vector<int64_t>({2, 2, 4}))};
  SparseOutput weights = ids;
  weights.values = Constant(Tensor::Vector<float>({1, 2, .5, -1, 3, .25}));
  struct Case {
    Combiner combiner;
    bool weights;
    std::vector<float> first, third;  // Rows [0, 0] and [1, 0].
  };
  const Case cases[] = {
      {Combiner::kMean, false, {-.15f, -.1f, -.05f}, {0, -.16666667f, .1f}},
      {Combiner::kMean,
       true,
       {-.26666668f, 0, -.16666667f},
       {-.53846157f, .061538465f, -.43846151f}},
      {Combiner::kSum, false, {-.3f, -.2f, -.1f}, {0, -.5f, .3f}},
      {Combiner::kSum, true, {-.8f, 0, -.5f}, {-2.15f, .4f, -1.925f}},
  };
  for (const Case& c : cases)
    for (const bool with_default : {false, true}) {
      const std::vector<float> empty = with_default
                                           ? std::vector<float>{0, -.6f, .1f}
                                           : std::vector<float>{0, 0, 0};
      std::vector<float> want;
      for (const auto& row : {c.first, empty, c.third, empty})
        want.insert(want.end(), row.begin(), row.end());
      const Output got = SafeEmbeddingLookupSparse(
          Parts(3, PartitionStrategy::kDiv), ids,
          c.weights ? std::optional(weights) : std::nullopt,
          {.combiner = c.combiner,
           .default_id =
               with_default ? std::optional<int64_t>(4) : std::nullopt});
      ASSERT_TRUE(got.valid()) << graph_.status();
      const Tensor value = Run(got);
      EXPECT_EQ(value.shape(), Shape({2, 2, kWidth}));
      ExpectNear(value, want);
    }
}

TEST_F(EmbeddingTest, HalfTablesAreSummedAsFloats) {
  const Var table(ops::Cast(Zeros({4, 2}) + 1.0f, DType::kHalf), "half");
  const Output got = EmbeddingLookupSparse(
      table, SparseOutput{Constant(Tensor::Of<int64_t>({1, 2}, {0, 0})),
                          Constant(Tensor::Vector<int64_t>({3})),
                          Constant(Tensor::Vector<int64_t>({1, 1}))});
  EXPECT_EQ(got.dtype(), DType::kFloat);
  ExpectNear(Run(got), {1, 1});
}

TEST_F(EmbeddingTest, PartsThatDoNotFitAreRefused) {
  const Var a(Zeros({4, 2}), "a"), b(Zeros({2, 2}), "b"), c(Zeros({4, 3}), "c"),
      d(Zeros({}), "d");
  const Output ids = Constant(Tensor::Vector<int32_t>({0}));
  EXPECT_FALSE(EmbeddingLookup({{a, b}}, ids).valid());
  EXPECT_THAT(graph_.status().ToString(),
              HasSubstr("table 'a': expected 3 of 6 rows in part 0, got 4 in "
                        "'a'"));
  for (const std::vector<Var>& parts :
       {std::vector<Var>{a, c}, {d}, {a, d}, {}, {a, Var()}})
    EXPECT_FALSE(EmbeddingLookup(parts, ids).valid());
  const PartitionedVar columns = GetPartitionedVariable(
      "columns", {4, 4}, FixedSizePartitioner(2, 1), init::Zeros());
  EXPECT_FALSE(EmbeddingLookup(columns, ids).valid());
}

TEST_F(EmbeddingTest, IdsOfAnotherTypeAreRefused) {
  const Var table = GetVariable("rows", {4, 2});
  const Output ids = Constant(Tensor::Vector<float>({0.5f}));
  EXPECT_FALSE(EmbeddingLookup(table, ids).valid());
  EXPECT_THAT(graph_.status().ToString(),
              HasSubstr("ids: expected type int32 or int64, got float"));
}

}  // namespace
}  // namespace sluice
