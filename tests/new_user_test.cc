// Whole programs as a new user of the C++ client writes them, from the README
// and the headers alone. Each is checked against a plain computation.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sluice/sluice.h"

namespace sluice {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAreArray;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;

// A graph of its own for each test, and a file to keep values in.
class NewUserTest : public ::testing::Test {
 protected:
  NewUserTest() : use_(graph_) {}
  ~NewUserTest() override {
    std::error_code ignored;
    std::filesystem::remove(file_, ignored);
  }
  Graph graph_;
  WithGraph use_;
  const std::string file_ =
      ::testing::TempDir() + "sluice_new_user_" + std::to_string(getpid()) +
      "_" + ::testing::UnitTest::GetInstance()->current_test_info()->name() +
      ".npz";
};

// ---- Clusters ---------------------------------------------------------------

// Lloyd's algorithm until no centroid moves by more than `tolerance`.
struct Clustering {
  std::vector<float> centroids;  // [k, 2]
  int steps = 0;
};
Clustering PlainKMeans(const std::vector<float>& points,
                       std::vector<float> centroids, float tolerance,
                       int most) {
  const size_t k = centroids.size() / 2;
  Clustering result;
  for (float moved = INFINITY; moved > tolerance && result.steps < most;
       ++result.steps) {
    std::vector<float> sums(2 * k), counts(k);
    for (size_t p = 0; p < points.size(); p += 2) {
      size_t best = 0;
      float least = INFINITY;
      for (size_t c = 0; c < k; ++c) {
        const float dx = points[p] - centroids[2 * c];
        const float dy = points[p + 1] - centroids[2 * c + 1];
        if (dx * dx + dy * dy < least) {
          least = dx * dx + dy * dy;
          best = c;
        }
      }
      sums[2 * best] += points[p];
      sums[2 * best + 1] += points[p + 1];
      ++counts[best];
    }
    moved = 0;
    for (size_t i = 0; i < 2 * k; ++i) {
      if (counts[i / 2] == 0) continue;  // It stays where it is.
      const float next = sums[i] / counts[i / 2];
      moved = std::max(moved, std::abs(next - centroids[i]));
      centroids[i] = next;
    }
  }
  result.centroids = std::move(centroids);
  return result;
}

TEST_F(NewUserTest, ClustersPointsInOneLoopUntilConvergence) {
  constexpr int kClusters = 4, kMax = 50;
  constexpr float kTolerance = 1e-4f;
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  std::vector<float> numbers;
  for (int i = 0; i < 90; ++i) {
    numbers.push_back(static_cast<float>(4 * (i % 3)) + normal(random));
    numbers.push_back(static_cast<float>(i % 2) * 6 + normal(random));
  }
  // The last one is nearest to no point: an empty cluster.
  const std::vector<float> begin = {0, 1, 4, 2, 8, 7, 1000, 1000};

  Output points = Placeholder<float>({-1, 2}, "points");
  Var centroids(Tensor::Of<float>({kClusters, 2}, begin), "centroids",
                {.trainable = false});
  const auto step = [&](Output now) {
    Output apart = ops::ExpandDims(points, 1) - ops::ExpandDims(now, 0);
    Output nearest = ops::ArgMin(ops::Sum(apart * apart, 2), 1,
                                 {.output_type = DType::kInt32});
    Output sums = ops::UnsortedSegmentSum(points, nearest, kClusters);
    Output counts = ops::UnsortedSegmentSum(
        ops::OnesLike(ops::Cast(nearest, DType::kFloat)), nearest, kClusters);
    Output size = ops::ExpandDims(counts, 1);
    return ops::SelectV2(size > 0, sums / ops::Maximum(size, 1), now);
  };
  auto [steps, found, moved] = While(
      std::tuple{0, centroids, INFINITY},
      [&](Output steps, Output, Output moved) {
        return moved > kTolerance && steps < kMax;
      },
      [&](Output steps, Output now, Output) {
        Output next = step(now);
        return std::tuple{steps + 1, next,
                          ops::Max(ops::Abs(next - now), {0, 1})};
      },
      {.back_prop = false, .name = "lloyd"});
  Node* update = centroids.Assign(found);

  Session session;
  ASSERT_TRUE(session.RunTargets({GlobalVariablesInitializer()}).ok());
  const Feeds feeds = {{points, Tensor::Of<float>({90, 2}, numbers)}};
  const auto out = session.Run(feeds, {steps, found, moved}, {update});
  ASSERT_TRUE(out.ok()) << out.status();
  const Clustering plain = PlainKMeans(numbers, begin, kTolerance, kMax);
  EXPECT_GT(plain.steps, 2);
  EXPECT_LT(plain.steps, kMax);
  EXPECT_EQ((*out)[0].scalar<int32_t>(), plain.steps);
  EXPECT_THAT((*out)[1].ToVector<float>(),
              Pointwise(FloatNear(1e-4f), plain.centroids));
  EXPECT_LE((*out)[2].scalar<float>(), kTolerance);

  // From where it ended, one step is enough.
  const auto again = session.Run(feeds, {steps, centroids});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ((*again)[0].scalar<int32_t>(), 1);
  EXPECT_TRUE((*again)[1].Identical((*out)[1]));

  // Centroids outlive the session in a file.
  ASSERT_TRUE(WriteNpz(file_, {{centroids.name(), (*again)[1]}}).ok());
  auto saved = ReadNpz(file_);
  ASSERT_TRUE(saved.ok()) << saved.status();
  Output value = Placeholder<float>({kClusters, 2});
  Node* restore = centroids.Assign(value);
  Session other;
  EXPECT_THAT(other.Run(centroids).status().ToString(), HasSubstr("centroids"));
  ASSERT_TRUE(
      other.RunTargets({restore}, {{value, (*saved)["centroids"]}}).ok());
  const auto restored = other.Run(feeds, steps);
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_EQ(restored->scalar<int32_t>(), 1);
}

// ---- Linear systems ---------------------------------------------------------

// The solution of (a + ridge I) x = b by elimination; `a` is [n, n].
std::vector<double> PlainSolve(std::vector<double> a, std::vector<double> b,
                               double ridge) {
  const size_t n = b.size();
  for (size_t i = 0; i < n; ++i) a[i * n + i] += ridge;
  for (size_t i = 0; i < n; ++i)
    for (size_t r = i + 1; r < n; ++r) {
      const double by = a[r * n + i] / a[i * n + i];
      for (size_t c = i; c < n; ++c) a[r * n + c] -= by * a[i * n + c];
      b[r] -= by * b[i];
    }
  for (size_t i = n; i-- > 0;) {
    for (size_t c = i + 1; c < n; ++c) b[i] -= a[i * n + c] * b[c];
    b[i] /= a[i * n + i];
  }
  return b;
}

TEST_F(NewUserTest, SolvesALinearSystemInAFunctionAndTrainsThroughIt) {
  constexpr int64_t kSize = 6;
  std::mt19937 random(11);
  std::normal_distribution<double> normal;
  std::vector<double> root(kSize * kSize), symmetric(kSize * kSize);
  for (double& v : root) v = normal(random);
  for (int64_t r = 0; r < kSize; ++r)
    for (int64_t c = 0; c < kSize; ++c)
      for (int64_t k = 0; k < kSize; ++k)
        symmetric[r * kSize + c] += root[r * kSize + k] * root[c * kSize + k];
  std::vector<double> right(kSize), wanted(kSize);
  for (double& v : right) v = normal(random);
  wanted = PlainSolve(symmetric, right, 3);

  // Conjugate gradients: the matrix and the ridge are captured.
  Output given = Placeholder<double>({kSize, kSize}, "given");
  Output matrix = (given + ops::Transpose(given, {1, 0})) / 2;
  Var log_ridge(Constant(0.0), "log_ridge");
  const auto dot = [](Output x, Output y) { return ops::Sum(x * y, 0); };
  const auto times = [&](Output x) {
    Output product =
        ops::Reshape(ops::MatMul(matrix, ops::ExpandDims(x, 1)), {-1});
    return product + ops::Exp(log_ridge) * x;
  };
  Function solve = DefineFunction(
      "solve", {DType::kDouble},
      [&](const std::vector<Output>& args) -> FunctionResults {
        Output b = args[0];
        auto [i, x, r, p, rr] = While(
            std::tuple{0, ops::ZerosLike(b), b, b, dot(b, b)},
            [&](Output i, Output, Output, Output, Output rr) {
              return rr > 1e-24 && i < 4 * kSize;
            },
            [&](Output i, Output x, Output r, Output p, Output rr) {
              Output ap = times(p);
              Output alpha = rr / dot(p, ap);
              Output next = r - alpha * ap;
              Output next_rr = dot(next, next);
              return std::tuple{i + 1, x + alpha * p, next,
                                next + next_rr / rr * p, next_rr};
            },
            {.name = "cg"});
        return {x, i};
      },
      {.arg_shapes = {PartialShape({kSize})}});
  EXPECT_EQ(solve.captures().size(), 2u);

  Output b = Placeholder<double>({kSize}, "b"), want = Placeholder<double>();
  CallResults solution = solve({b});
  Output error = solution[0] - want;
  Output loss = dot(error, error);
  std::vector<Output> slopes = Grad({loss}, {log_ridge, b, given});
  Node* train = GradientDescentOptimizer(0.5).Minimize(loss);

  Session session;
  ASSERT_TRUE(session.Run(GlobalVariablesInitializer()).ok());
  const Feeds feeds = {{given, Tensor::Of<double>({kSize, kSize}, symmetric)},
                       {b, Tensor::Vector(right)},
                       {want, Tensor::Vector(wanted)}};
  const auto out = session.Run(
      feeds, {solution[0], solution[1], loss, slopes[0], slopes[1], slopes[2]});
  ASSERT_TRUE(out.ok()) << out.status();
  const auto x = PlainSolve(symmetric, right, 1);
  EXPECT_THAT((*out)[0].ToVector<double>(), Pointwise(DoubleNear(1e-9), x));
  EXPECT_GE((*out)[1].scalar<int32_t>(), kSize - 1);
  EXPECT_LE((*out)[1].scalar<int32_t>(), 2 * kSize);

  // The adjoint: with (a + ridge I) y = 2 (x - want), the gradients are y for
  // b, the symmetric part of -y x' for the matrix and -ridge y'x for the
  // ridge's logarithm.
  std::vector<double> twice(kSize);
  double plain_loss = 0;
  for (int64_t i = 0; i < kSize; ++i) {
    twice[i] = 2 * (x[i] - wanted[i]);
    plain_loss += (x[i] - wanted[i]) * (x[i] - wanted[i]);
  }
  const auto y = PlainSolve(symmetric, twice, 1);
  std::vector<double> of_matrix;
  for (int64_t i = 0; i < kSize; ++i)
    for (int64_t j = 0; j < kSize; ++j)
      of_matrix.push_back(-(y[i] * x[j] + y[j] * x[i]) / 2);
  const double of_ridge =
      -std::inner_product(y.begin(), y.end(), x.begin(), 0.0);
  EXPECT_NEAR((*out)[2].scalar<double>(), plain_loss, 1e-9);
  EXPECT_NEAR((*out)[3].scalar<double>(), of_ridge, 1e-6);
  EXPECT_THAT((*out)[4].ToVector<double>(), Pointwise(DoubleNear(1e-6), y));
  EXPECT_THAT((*out)[5].ToVector<double>(),
              Pointwise(DoubleNear(1e-6), of_matrix));

  // The ridge that `want` was made with is found.
  for (int i = 0; i < 400; ++i) ASSERT_TRUE(session.Run(feeds, train).ok());
  const auto ridge = session.Run(ops::Exp(log_ridge));
  ASSERT_TRUE(ridge.ok()) << ridge.status();
  EXPECT_NEAR(ridge->scalar<double>(), 3, 1e-3);

  // The function travels with the graph, captures and all.
  const auto bytes = ExportGraphDef(graph_);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  Graph copy;
  ASSERT_TRUE(ImportGraphDef(*bytes, copy).ok());
  Session other(copy);
  ASSERT_TRUE(other.RunByName({}, {}, {log_ridge.initializer()->name()}).ok());
  const auto same =
      other.RunByName({{"given", feeds[0].second}, {"b", feeds[1].second}},
                      {solution[0].name()});
  ASSERT_TRUE(same.ok()) << same.status();
  EXPECT_TRUE((*same)[0].Identical((*out)[0]));
}

// ---- Decoding ---------------------------------------------------------------

// A Markov chain of words; word 0 ends a sentence.
struct Chain {
  std::vector<float> first, next;  // Logarithms of probabilities.
};

TEST_F(NewUserTest, DecodesLikeliestSentenceWithBeamSearch) {
  constexpr int kWords = 4, kLongest = 5, kAll = 1024;  // kWords^kLongest.
  std::mt19937 random(2);
  std::uniform_real_distribution<float> uniform(0.05f, 1.0f);
  Chain chain;
  const auto row = [&](std::vector<float>* to) {
    std::vector<float> p(kWords);
    for (float& v : p) v = uniform(random);
    p[0] *= 0.5f;
    const float sum = std::accumulate(p.begin(), p.end(), 0.0f);
    for (float v : p) to->push_back(std::log(v / sum));
  };
  row(&chain.first);
  for (int i = 0; i < kWords; ++i) row(&chain.next);

  // Every sentence, by trying: at most kLongest words, of which only the last
  // may be the end.
  std::pair<float, std::vector<int32_t>> likeliest = {-INFINITY, {}};
  const std::function<void(std::vector<int32_t>, float)> extend =
      [&](std::vector<int32_t> sentence, float score) {
        if (sentence.size() == kLongest ||
            (!sentence.empty() && sentence.back() == 0)) {
          sentence.resize(kLongest, 0);
          likeliest = std::max(likeliest, {score, sentence});
          return;
        }
        for (int32_t w = 0; w < kWords; ++w) {
          std::vector<int32_t> longer = sentence;
          longer.push_back(w);
          extend(longer,
                 score + (sentence.empty()
                              ? chain.first[w]
                              : chain.next[sentence.back() * kWords + w]));
        }
      };
  extend({}, 0);

  // The beam: of every extension of every sentence the best `width` stay, until
  // all of them have ended.
  Output next = Placeholder<float>({kWords, kWords}, "next");
  Output first = Placeholder<float>({kWords}, "first");
  Output width = Placeholder<int32_t>({}, "width");
  constexpr float kNever = -1e9f;
  // After the end there is only the end, at no cost.
  Output stay = Constant(Tensor::Vector<float>({0, kNever, kNever, kNever}));
  auto begin = ops::TopKV2(first, ops::Minimum(width, kWords));
  auto [length, scores, words] = While(
      std::tuple{1, begin.values, ops::ExpandDims(begin.indices, 1)},
      [&](Output length, Output, Output words) {
        Output last = ops::Gather(ops::Transpose(words, {1, 0}), length - 1);
        return length < kLongest && !ops::All(last == 0, 0);
      },
      [&](Output length, Output scores, Output words) {
        Output last = ops::Gather(ops::Transpose(words, {1, 0}), length - 1);
        Output more =
            ops::SelectV2(ops::ExpandDims(last == 0, 1),
                          ops::ExpandDims(stay, 0), ops::Gather(next, last));
        Output all = ops::Reshape(ops::ExpandDims(scores, 1) + more, {-1});
        auto best = ops::TopKV2(all, ops::Minimum(width, ops::Size(all)));
        Output longer =
            ops::ConcatV2({ops::Gather(words, best.indices / kWords),
                           ops::ExpandDims(best.indices % kWords, 1)},
                          1);
        return std::tuple{length + 1, best.values, longer};
      },
      {.shape_invariants = {PartialShape({}), PartialShape({-1}),
                            PartialShape({-1, -1})},
       .name = "beam"});

  const std::vector<Output> decoded = {length, scores, words};
  Session session;
  const auto decode = [&](int32_t beam) {
    return session.Run({{first, Tensor::Vector(chain.first)},
                        {next, Tensor::Of<float>({kWords, kWords}, chain.next)},
                        {width, Tensor::Scalar(beam)}},
                       decoded);
  };
  const auto out = decode(kAll);
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_NEAR((*out)[1].flat<float>()[0], likeliest.first, 1e-5f);
  std::vector<int32_t> sentence = (*out)[2].Rows(0, 1).ToVector<int32_t>();
  sentence.resize(kLongest, 0);
  EXPECT_THAT(sentence, ElementsAreArray(likeliest.second));
  // Of the wide beam all are sentences, each once; all probabilities make 1.
  double total = 0;
  for (float s : (*out)[1].flat<float>())
    if (s > kNever / 2) total += std::exp(s);
  EXPECT_NEAR(total, 1, 1e-4);

  // A beam of one is greedy.
  const auto greedy = decode(1);
  ASSERT_TRUE(greedy.ok()) << greedy.status();
  std::vector<int32_t> plain;
  float score = 0;
  while (plain.size() < kLongest && (plain.empty() || plain.back() != 0)) {
    const float* from =
        plain.empty() ? chain.first.data() : &chain.next[plain.back() * kWords];
    const auto w = std::max_element(from, from + kWords) - from;
    score += from[w];
    plain.push_back(static_cast<int32_t>(w));
  }
  EXPECT_EQ((*greedy)[0].scalar<int32_t>(), static_cast<int32_t>(plain.size()));
  EXPECT_NEAR((*greedy)[1].scalar<float>(), score, 1e-5f);
  EXPECT_THAT((*greedy)[2].ToVector<int32_t>(), ElementsAreArray(plain));
}

// ---- Sequences --------------------------------------------------------------

// A leaky sum of a sequence that an element below zero resets:
//   s = x < 0 ? 0 : decay * s + gain * x.
// Forward, and the derivatives of what it ends with.
struct Leaky {
  double s = 0, by_decay = 0, by_gain = 0;
};
Leaky PlainLeaky(const std::vector<float>& xs, double decay, double gain) {
  Leaky l;
  for (float x : xs)
    l = x < 0 ? Leaky()
              : Leaky{decay * l.s + gain * x, l.s + decay * l.by_decay,
                      x + decay * l.by_gain};
  return l;
}

TEST_F(NewUserTest, TrainsOnSequencesOfDifferentLengths) {
  constexpr int kBatch = 8, kLongest = 7, kSteps = 30;
  constexpr float kRate = 0.05f;
  std::mt19937 random(7);
  std::uniform_real_distribution<float> uniform(0, 1);
  std::vector<std::vector<float>> sequences(kBatch);
  std::vector<float> padded(kBatch * kLongest), wanted;
  std::vector<int32_t> lengths;
  for (int i = 0; i < kBatch; ++i) {
    lengths.push_back(i % (kLongest + 1));  // (One of them is empty.)
    for (int t = 0; t < lengths.back(); ++t) {
      sequences[i].push_back(t == i % 4 + 1 ? -1 : uniform(random));
      padded[i * kLongest + t] = sequences[i].back();
    }
    wanted.push_back(static_cast<float>(PlainLeaky(sequences[i], 0.8, 1.5).s));
  }

  Output xs = Placeholder<float>({-1, kLongest}, "xs");
  Output ns = Placeholder<int32_t>({-1}, "lengths");
  Output want = Placeholder<float>({-1}, "want");
  Var decay(0.2f, "decay"), gain(0.5f, "gain");
  Output ends = MapFn(
      [&](Output x, Output n) {
        auto [t, s] = While(
            std::tuple{0, 0.0f}, [&](Output t, Output) { return t < n; },
            [&](Output t, Output s) {
              Output now = ops::Gather(x, t);
              Output next = Cond(
                  now < 0, [&] { return ops::ZerosLike(s); },
                  [&] { return decay * s + gain * now; }, "reset");
              return std::tuple{t + 1, next};
            },
            {.name = "leaky"});
        return s;
      },
      std::tuple{xs, ns}, {.dtypes = {DType::kFloat}});
  Output error = ends - want;
  Output loss = ops::Mean(error * error, 0);
  Var counter(0, "counter", {.trainable = false});
  Node* train =
      GradientDescentOptimizer(kRate).Minimize(loss, {.global_step = counter});
  Node* init = GlobalVariablesInitializer();

  const Feeds feeds = {{xs, Tensor::Of<float>({kBatch, kLongest}, padded)},
                       {ns, Tensor::Vector(lengths)},
                       {want, Tensor::Vector(wanted)}};
  Session session;
  ASSERT_TRUE(session.Run(init).ok());
  double plain_decay = 0.2, plain_gain = 0.5, first = 0, last = 0;
  for (int step = 0; step < kSteps; ++step) {
    double plain_loss = 0, by_decay = 0, by_gain = 0;
    for (int i = 0; i < kBatch; ++i) {
      const Leaky l = PlainLeaky(sequences[i], plain_decay, plain_gain);
      const double e = l.s - wanted[i];
      plain_loss += e * e / kBatch;
      by_decay += 2 * e * l.by_decay / kBatch;
      by_gain += 2 * e * l.by_gain / kBatch;
    }
    const auto value = session.Run(feeds, loss, {train});
    ASSERT_TRUE(value.ok()) << value.status();
    ASSERT_NEAR(value->scalar<float>(), plain_loss, 1e-5) << step;
    plain_decay -= kRate * by_decay;
    plain_gain -= kRate * by_gain;
    if (step == 0) first = plain_loss;
    last = plain_loss;

    // Halfway, into a file and on in another session.
    if (step != kSteps / 2) continue;
    const std::vector<Var> vars = GlobalVariables();
    ASSERT_EQ(vars.size(), 3u);
    const auto values = session.Run({}, {vars[0], vars[1], vars[2]});
    ASSERT_TRUE(values.ok()) << values.status();
    NamedTensors named;
    for (size_t i = 0; i < vars.size(); ++i)
      named.emplace_back(vars[i].name(), (*values)[i]);
    ASSERT_TRUE(WriteNpz(file_, named).ok());
    ASSERT_TRUE(session.Reset().ok());
    EXPECT_FALSE(session.Run(feeds, loss).ok());
    const auto saved = ReadNpz(file_);
    ASSERT_TRUE(saved.ok()) << saved.status();
    Feeds restored;
    std::vector<Node*> assigns;
    for (const Var& v : vars) {
      Output value = Placeholder(v.dtype(), v.shape());
      restored.emplace_back(value, saved->at(v.name()));
      assigns.push_back(v.Assign(value));
    }
    const Status status = session.Run(restored, Group(assigns)).status();
    ASSERT_TRUE(status.ok()) << status;
  }
  EXPECT_LT(last, 0.5 * first);
  const auto out = session.Run({}, {decay, gain, counter});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_NEAR((*out)[0].scalar<float>(), plain_decay, 1e-4);
  EXPECT_NEAR((*out)[1].scalar<float>(), plain_gain, 1e-4);
  EXPECT_EQ((*out)[2].scalar<int32_t>(), kSteps);
}

}  // namespace
}  // namespace sluice
