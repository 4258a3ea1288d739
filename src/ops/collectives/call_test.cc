// Calls of all members of a group, whose messages arrive in any order, beside
// what one process computes.
#include "ops/collectives/call.h"

#include <cstdlib>
#include <deque>
#include <random>

#include "base/sanitizers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice::collectives {
namespace {

using ::testing::HasSubstr;

// One operation of a group.
struct GroupCase {
  CallSpec spec;
  int members = 2;
  int root = 0;
  DType dtype = DType::kFloat;
  Dims dims;
  std::string Describe() const {
    return spec.Describe(dtype, Shape(dims)) + " root " + std::to_string(root) +
           " members " + std::to_string(members);
  }
};

// Small integers, so that sums are exact in any order; no zero, and few numbers
// other than 1, so that products are too. (A large tensor repeats its first
// values. Their number divides no size of a part or piece.)
void FillInput(std::mt19937* rng, MergeOp op, Tensor* t) {
  const auto draw = [&]() -> int {
    if (op == MergeOp::kMul) return (*rng)() % 8 == 0 ? 2 : 1;
    return static_cast<int>((*rng)() % 9) - 4;
  };
  const int64_t n = t->num_elements();
  std::vector<int> values(static_cast<size_t>(std::min<int64_t>(n, 1'009)));
  for (int& v : values) v = draw();
  for (int64_t i = 0; i < n; ++i) {
    const int v = values[static_cast<size_t>(i) % values.size()];
    switch (t->dtype()) {
      case DType::kHalf:
        t->raw<half>()[i] = static_cast<half>(static_cast<float>(v));
        break;
      case DType::kBfloat16:
        t->raw<bfloat16>()[i] = static_cast<bfloat16>(static_cast<float>(v));
        break;
      case DType::kFloat:
        t->raw<float>()[i] = static_cast<float>(v);
        break;
      case DType::kDouble:
        t->raw<double>()[i] = v;
        break;
      case DType::kInt32:
        t->raw<int32_t>()[i] = v;
        break;
      default:
        t->raw<int64_t>()[i] = v;
    }
  }
}

double ElementOf(const Tensor& t, int64_t i) {
  switch (t.dtype()) {
    case DType::kHalf:
      return static_cast<float>(t.raw<half>()[i]);
    case DType::kBfloat16:
      return static_cast<float>(t.raw<bfloat16>()[i]);
    case DType::kFloat:
      return t.raw<float>()[i];
    case DType::kDouble:
      return t.raw<double>()[i];
    case DType::kInt32:
      return t.raw<int32_t>()[i];
    default:
      return static_cast<double>(t.raw<int64_t>()[i]);
  }
}

double MergedOf(const GroupCase& c, const std::vector<Tensor>& inputs,
                int64_t i) {
  double x = ElementOf(inputs[0], i);
  for (size_t m = 1; m < inputs.size(); ++m) {
    const double y = ElementOf(inputs[m], i);
    switch (c.spec.merge) {
      case MergeOp::kAdd:
        x += y;
        break;
      case MergeOp::kMul:
        x *= y;
        break;
      case MergeOp::kMin:
        x = std::min(x, y);
        break;
      case MergeOp::kMax:
        x = std::max(x, y);
        break;
    }
  }
  if (!c.spec.mean) return x;
  const auto n = static_cast<double>(inputs.size());
  return IsInteger(c.dtype) ? std::trunc(x / n) : x / n;
}

// Runs the calls of all members. Their messages wait in `wire`, from which any
// is taken next.
class Group {
 public:
  Group(const GroupCase& c, std::mt19937* rng) : case_(c), rng_(rng) {
    const auto n = static_cast<size_t>(c.members);
    results_.resize(n, Aborted("not done"));
    for (size_t r = 0; r < n; ++r) {
      inputs_.emplace_back(c.dtype, Shape(c.dims));
      FillInput(rng, c.spec.merge, &inputs_.back());
    }
    for (size_t r = 0; r < n; ++r) {
      CallSpec spec = c.spec;
      spec.size = c.members;
      const bool broadcast = spec.operation == Operation::kBroadcast;
      spec.root = broadcast && static_cast<int>(r) == c.root;
      Dims out = c.dims;
      if (spec.operation == Operation::kGather) out[0] *= c.members;
      calls_.push_back(std::make_shared<Call>(
          spec, broadcast && !spec.root ? Tensor() : inputs_[r],
          spec.root ? Tensor() : Tensor(c.dtype, Shape(out)), c.dtype,
          Shape(c.dims), [this, r](const Call&, Result<Tensor> result) {
            results_[r] = std::move(result);
          }));
      calls_.back()->Prepare(static_cast<int>(r), c.members, c.root, 7,
                             [this](std::vector<Outgoing>* out) {
                               for (Outgoing& o : *out)
                                 wire_.push_back(std::move(o));
                             });
    }
  }

  void Run() {
    std::vector<size_t> idle(calls_.size());
    for (size_t i = 0; i < idle.size(); ++i) idle[i] = i;
    while (!idle.empty() || !wire_.empty()) {
      const size_t pick = (*rng_)() % (idle.size() + wire_.size());
      if (pick < idle.size()) {
        const size_t r = idle[pick];
        idle.erase(idle.begin() + static_cast<ptrdiff_t>(pick));
        if (calls_[r]->Begin()) calls_[r]->Complete();
        continue;
      }
      const size_t at = pick - idle.size();
      Outgoing o = std::move(wire_[at]);
      wire_.erase(wire_.begin() + static_cast<ptrdiff_t>(at));
      const DataKey key = DataKey::Of(o.message.tag);
      EXPECT_EQ(key.to, static_cast<uint32_t>(o.to));
      EXPECT_EQ(key.call, 7u);
      bool ended = false;
      Call& to = *calls_[static_cast<size_t>(o.to)];
      EXPECT_EQ(o.message.edge, to.hash());
      const Status s = to.Arrive(key, std::move(o.message.value), &ended);
      EXPECT_TRUE(s.ok()) << s;
      if (ended) to.Complete();
    }
  }

  void Check() {
    const auto n = static_cast<size_t>(case_.members);
    const int64_t count = inputs_[0].num_elements();
    for (size_t r = 0; r < n; ++r) {
      ASSERT_TRUE(results_[r].ok()) << results_[r].status();
      const Tensor& got = *results_[r];
      // All have the same bits, so the elements of one are compared.
      if (r > 0 && (case_.spec.operation == Operation::kReduce ||
                    case_.spec.operation == Operation::kGather)) {
        ASSERT_TRUE(got.Identical(*results_[0]));
        continue;
      }
      switch (case_.spec.operation) {
        case Operation::kReduce:
        case Operation::kReduceScatter: {
          int64_t begin = 0, end = count;
          if (case_.spec.operation == Operation::kReduceScatter) {
            const int64_t row = case_.dims[0] == 0 ? 0 : count / case_.dims[0];
            const int rank = static_cast<int>(r);
            begin = PartBegin(case_.dims[0], rank, case_.members) * row;
            end = PartBegin(case_.dims[0], rank + 1, case_.members) * row;
          }
          for (int64_t i = begin; i < end; ++i) {
            const double exact = MergedOf(case_, inputs_, i);
            // (A mean is rounded to the type.)
            const double tolerance =
                case_.spec.mean ? 0.01 * (1 + std::abs(exact)) : 0;
            ASSERT_NEAR(ElementOf(got, i), exact, tolerance) << i;
          }
          break;
        }
        case Operation::kBroadcast:
          ASSERT_TRUE(got.Identical(inputs_[static_cast<size_t>(case_.root)]));
          break;
        case Operation::kGather:
          ASSERT_EQ(got.num_elements(), count * case_.members);
          for (int64_t i = 0; i < got.num_elements(); ++i)
            ASSERT_EQ(
                ElementOf(got, i),
                ElementOf(inputs_[static_cast<size_t>(i / count)], i % count));
      }
    }
  }

 private:
  const GroupCase case_;
  std::mt19937* const rng_;
  std::vector<Tensor> inputs_;
  std::vector<std::shared_ptr<Call>> calls_;
  std::vector<Result<Tensor>> results_;
  std::vector<Outgoing> wire_;
};

TEST(CollectiveCallTest, AllMembersGetWhatOneProcessComputes) {
  const DType types[] = {DType::kHalf,   DType::kBfloat16, DType::kFloat,
                         DType::kDouble, DType::kInt32,    DType::kInt64};
  const int runs = std::getenv("SLUICE_TEST_FULL") != nullptr ? 5'000
                   : kSanitized                               ? 60
                                                              : 300;
  for (int seed = 0; seed < runs; ++seed) {
    std::mt19937 rng(static_cast<uint32_t>(seed));
    GroupCase c;
    c.members = 2 + static_cast<int>(rng() % 9);
    c.root = static_cast<int>(rng() % static_cast<unsigned>(c.members));
    c.dtype = types[rng() % 6];
    c.spec.operation = static_cast<Operation>(rng() % 4);
    c.spec.algorithm = static_cast<Algorithm>(rng() % 4);
    c.spec.merge = static_cast<MergeOp>(rng() % 4);
    c.spec.mean = rng() % 3 == 0;
    // Also sizes of several pieces, scalars, and empty ones.
    const int64_t sizes[] = {0, 1, 2, 3, 7, 16, 100, 1'000};
    const bool rows = c.spec.operation == Operation::kGather ||
                      c.spec.operation == Operation::kReduceScatter;
    const size_t rank = rng() % 3;
    for (size_t d = 0; d < rank; ++d) c.dims.push_back(sizes[rng() % 7]);
    if (rows && c.dims.empty()) c.dims.push_back(sizes[rng() % 8]);
    if (seed % 50 == 0) c.dims = {300'001, 2};
    SCOPED_TRACE(testing::Message() << "seed " << seed << ": " << c.Describe());
    Group group(c, &rng);
    group.Run();
    group.Check();
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
}

TEST(CollectiveCallTest, RejectsWhatNoMemberSends) {
  GroupCase c;
  c.dims = {4};
  Tensor output(DType::kFloat, {4});
  Result<Tensor> result = Aborted("not done");
  CallSpec spec;
  spec.size = 2;
  auto call = std::make_shared<Call>(
      spec, Tensor::Vector<float>({1, 2, 3, 4}), output, DType::kFloat,
      Shape({4}),
      [&](const Call&, Result<Tensor> r) { result = std::move(r); });
  call->Prepare(0, 2, 0, 0, [](std::vector<Outgoing>*) {});
  EXPECT_FALSE(call->Begin());
  DataKey key;
  key.from = 1;
  bool ended = false;
  key.lane = 5;
  EXPECT_EQ(call->Arrive(key, Tensor(DType::kFloat, {4}), &ended).code(),
            StatusCode::kInvalidArgument);
  key.lane = 0;
  EXPECT_EQ(call->Arrive(key, Tensor(DType::kDouble, {4}), &ended).code(),
            StatusCode::kInvalidArgument);
  key.from = 2;
  EXPECT_EQ(call->Arrive(key, Tensor(DType::kFloat, {4}), &ended).code(),
            StatusCode::kInvalidArgument);
  EXPECT_FALSE(ended);
  key.from = 1;
  EXPECT_THAT(call->Arrive(key, Tensor(DType::kFloat, {3}), &ended).message(),
              HasSubstr("expected 4 elements"));
  // No schedule receives it.
  key.number = 1;
  EXPECT_THAT(call->Arrive(key, Tensor(DType::kFloat, {4}), &ended).message(),
              HasSubstr("got part 1 from member 1"));
  EXPECT_FALSE(ended);
  key.number = 0;
  EXPECT_TRUE(call->Arrive(key, Tensor(DType::kFloat, {4}), &ended).ok());
  ASSERT_TRUE(ended);
  call->Complete();
  EXPECT_TRUE(result.ok()) << result.status();
}

TEST(CollectiveCallTest, MinimumAndMaximumKeepNan) {
  const float nan = std::nanf("");
  for (const MergeOp op : {MergeOp::kMin, MergeOp::kMax}) {
    const float a[] = {nan, 1, nan}, b[] = {1, nan, nan};
    float to[3];
    Merge(DType::kFloat, op, a, b, to, 3);
    for (const float x : to) EXPECT_TRUE(std::isnan(x));
  }
}

}  // namespace
}  // namespace sluice::collectives
