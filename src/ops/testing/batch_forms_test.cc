// Every BatchForm, that of elementwise ops included, for every sample and type:
// the kernel's result on the inputs of several instances, put together as the
// form says, is the results of the instances.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "exec/batching/batch_form.h"
#include "graph/graph.h"
#include "ops/testing/op_instances_test_util.h"

namespace sluice {
namespace {

using namespace op_instances;  // NOLINT: a part of this file.

constexpr int64_t kInstances = 4;

// The same elements in another order.
Tensor Shuffled(const Tensor& t, std::mt19937* random) {
  Tensor out = *t.Clone();
  const size_t size = DTypeSize(t.dtype());
  char* const data = out.raw<char>();
  for (int64_t i = t.num_elements() - 1; i > 0; --i) {
    const auto j =
        static_cast<int64_t>((*random)() % static_cast<uint32_t>(i + 1));
    std::swap_ranges(data + static_cast<size_t>(i) * size,
                     data + static_cast<size_t>(i + 1) * size,
                     data + static_cast<size_t>(j) * size);
  }
  return out;
}

// As BatchForm says.
std::optional<Tensor> Together(const std::vector<Tensor>& parts,
                               const BatchForm& form, int rank) {
  std::vector<int64_t> dims(parts[0].shape().dims().begin(),
                            parts[0].shape().dims().end());
  if (form.axis == BatchForm::kRows) {
    if (dims.empty()) return std::nullopt;
    dims[0] *= kInstances;
  } else {
    if (form.broadcasts)
      dims.insert(dims.begin(), static_cast<size_t>(rank - parts[0].rank()), 1);
    dims.insert(dims.begin(), kInstances);
  }
  Tensor all(parts[0].dtype(), *Shape::Make(dims));
  char* to = all.raw<char>();
  for (const Tensor& part : parts) {
    if (part.bytes() > 0) std::memcpy(to, part.raw(), part.bytes());
    to += part.bytes();
  }
  return all;
}

// Part i of the result, in the shape of the instance's own.
Tensor PartOf(const Tensor& all, int64_t i, const Shape& shape) {
  Tensor part(all.dtype(), shape);
  if (part.bytes() > 0)
    std::memcpy(part.raw(),
                all.raw<char>() + part.bytes() * static_cast<size_t>(i),
                part.bytes());
  return part;
}

double NumberAt(const Tensor& t, size_t i) {
  switch (t.dtype()) {
    case DType::kFloat:
      return t.raw<float>()[i];
    case DType::kDouble:
      return t.raw<double>()[i];
    case DType::kHalf:
      return static_cast<float>(t.raw<half>()[i]);
    default:
      return static_cast<float>(t.raw<bfloat16>()[i]);
  }
}

void ExpectSame(const Tensor& got, const Tensor& want) {
  if (!IsFloating(want.dtype())) {
    if (IsComplex(want.dtype())) return;  // (Rounded as the real types are.)
    EXPECT_TRUE(got.Identical(want))
        << got.ToString() << " for " << want.ToString();
    return;
  }
  const double rounding = want.dtype() == DType::kDouble     ? 1e-12
                          : want.dtype() == DType::kFloat    ? 1e-5
                          : want.dtype() == DType::kBfloat16 ? 2e-2
                                                             : 2e-3;
  for (size_t i = 0; i < static_cast<size_t>(want.num_elements()); ++i) {
    const double w = NumberAt(want, i), g = NumberAt(got, i);
    if (std::isnan(w) ? !std::isnan(g)
                      : w != g && !(std::abs(g - w) <=
                                    rounding * std::max(1.0, std::abs(w)))) {
      ADD_FAILURE() << "element " << i << ": " << g << " for " << w;
      return;
    }
  }
}

class BatchFormsTest : public ::testing::Test {
 protected:
  // True if the form took the inputs, so that the results were compared.
  bool Check(const Instance& in) {
    Graph g;
    WithGraph use(g);
    std::vector<Output> fed;
    for (const Tensor& t : in.inputs) fed.push_back(InputNode(t, false));
    Node* const n = BuildNode(in.op->name, fed, in.attrs);
    if (n == nullptr || !n->op().kernel) return false;
    Kernel kernel;
    if (!n->op().kernel(*n, &kernel).ok() || kernel.run == nullptr)
      return false;
    const std::optional<BatchForm> form = FindBatchForm(*n, kernel);
    if (!form) return false;
    const auto is_shared = [&](size_t i) {
      return (form->shared >> i & 1) != 0;
    };
    for (size_t i = 0; i < in.inputs.size(); ++i)
      if (!is_shared(i) &&
          (!IsPlain(in.inputs[i].dtype()) || in.inputs[i].num_elements() == 0))
        return false;  // (The stage runs them one by one.)

    for (int o = 0; o < n->num_outputs(); ++o)
      if (!IsPlain(n->output_type(o))) return false;

    std::mt19937 random(kInstanceSeed);
    std::vector<std::vector<Tensor>> inputs, want;  // By instance.
    for (int64_t k = 0; k < kInstances; ++k) {
      std::vector<Tensor> own = in.inputs;
      for (size_t i = 0; k > 0 && i < own.size(); ++i)
        if (!is_shared(i)) own[i] = Shuffled(own[i], &random);
      Result<std::vector<Tensor>> out = RunKernel(*n, own);
      if (!out.ok()) {  // (For example, of a matrix that is now singular.)
        own = in.inputs;
        out = RunKernel(*n, own);
      }
      if (!out.ok()) return false;
      inputs.push_back(std::move(own));
      want.push_back(*std::move(out));
    }

    std::vector<Tensor> together = in.inputs;
    if (form->accepts != nullptr && !form->accepts(together)) return false;
    int rank = 0;
    for (const Tensor& t : in.inputs) rank = std::max(rank, t.rank());
    for (size_t i = 0; i < together.size(); ++i) {
      if (is_shared(i)) continue;
      std::vector<Tensor> parts;
      for (const std::vector<Tensor>& own : inputs) parts.push_back(own[i]);
      const std::optional<Tensor> all = Together(parts, *form, rank);
      if (!all) return false;
      together[i] = *all;
    }
    const Result<std::vector<Tensor>> got = RunKernel(*n, together);
    EXPECT_TRUE(got.ok()) << got.status();
    if (!got.ok()) return true;
    for (size_t o = 0; o < got->size(); ++o) {
      SCOPED_TRACE("output " + std::to_string(o));
      const Tensor &all = (*got)[o], &one = want[0][o];
      std::vector<int64_t> dims(one.shape().dims().begin(),
                                one.shape().dims().end());
      if (form->axis == BatchForm::kRows) {
        EXPECT_FALSE(dims.empty());
        if (!dims.empty()) dims[0] *= kInstances;
      } else {
        dims.insert(dims.begin(), kInstances);
      }
      EXPECT_TRUE(all.shape() == *Shape::Make(dims))
          << all.shape().ToString() << " of parts " << one.shape().ToString();
      if (!(all.shape() == *Shape::Make(dims))) return true;
      for (int64_t k = 0; k < kInstances; ++k) {
        SCOPED_TRACE("instance " + std::to_string(k));
        ExpectSame(PartOf(all, k, one.shape()),
                   want[static_cast<size_t>(k)][o]);
      }
    }
    return true;
  }

  // Of ops whose samples have other attributes.
  static std::vector<Instance> MoreInstances() {
    const auto of = [](const char* op, std::vector<Tensor> inputs,
                       AttrMap attrs) {
      Instance in;
      in.op = *OpRegistry::Global()->Lookup(op);
      in.inputs = std::move(inputs);
      in.attrs = std::move(attrs);
      return in;
    };
    const auto numbers = [](std::initializer_list<int64_t> dims) {
      Tensor t(DType::kFloat, Shape(dims));
      float next = 0;
      for (float& f : t.flat<float>()) f = std::sin(next += 1);
      return t;
    };
    const auto ints = [](std::initializer_list<int32_t> v) {
      return Tensor::Vector<int32_t>(std::vector<int32_t>(v));
    };
    const auto one = [](int32_t v) { return Tensor::Scalar<int32_t>(v); };
    std::vector<Instance> all = {
        of("Pack", {numbers({3, 2}), numbers({3, 2})},
           {{"N", int64_t{2}}, {"axis", int64_t{1}}}),
        of("Pack", {numbers({3, 2}), numbers({3, 2})},
           {{"N", int64_t{2}}, {"axis", int64_t{2}}}),
        of("Unpack", {numbers({3, 2})},
           {{"num", int64_t{2}}, {"axis", int64_t{1}}}),
        of("StridedSlice",
           {numbers({3, 4}), ints({0, 1}), ints({0, 3}), ints({1, 1})},
           {{"begin_mask", int64_t{1}}, {"end_mask", int64_t{1}}}),
        of("StridedSlice",
           {numbers({3, 4}), ints({0, 2}), ints({0, 3}), ints({1, 1})},
           {{"begin_mask", int64_t{1}},
            {"end_mask", int64_t{1}},
            {"shrink_axis_mask", int64_t{2}}}),
        of("Select",
           {Tensor::Of<bool>({3}, {true, false, true}), numbers({3, 4}),
            numbers({3, 4})},
           {}),
        of("Transpose", {numbers({2, 3, 4}), ints({2, 0, 1})}, {}),
        of("BatchMatMulV2", {numbers({2, 3, 4}), numbers({4, 5})}, {}),
        of("Softmax", {numbers({5})}, {}),
        of("TopKV2", {numbers({7}), one(3)}, {}),
        of("TopKV2", {numbers({2, 7}), one(3)}, {}),
        of("ConcatV2", {numbers({3}), numbers({2}), one(0)},
           {{"N", int64_t{2}}}),
        of("Slice", {numbers({3, 4}), ints({1, 2}), ints({2, -1})}, {}),
    };
    for (const char* op : {"Sum", "Mean", "Prod", "Max", "Min"}) {
      for (const bool keep : {false, true}) {
        all.push_back(
            of(op, {numbers({3, 4}), ints({0})}, {{"keep_dims", keep}}));
        all.push_back(
            of(op, {numbers({3, 4}), ints({0, -1})}, {{"keep_dims", keep}}));
      }
    }
    for (const int32_t axis : {0, 1, -1, -2}) {
      all.push_back(of("ArgMax", {numbers({3, 4}), one(axis)}, {}));
      all.push_back(of("Cumsum", {numbers({3, 4}), one(axis)}, {}));
      all.push_back(of("ReverseV2", {numbers({3, 4}), ints({axis})}, {}));
    }
    return all;
  }
};

TEST_F(BatchFormsTest, ResultsAreThoseOfTheInstances) {
  std::set<std::string> checked;
  const auto check = [&](const Instance& in) {
    SCOPED_TRACE(in.Name() + ", seed " + std::to_string(kInstanceSeed));
    if (Check(in)) checked.insert(in.op->name);
  };
  for (const OpDef* op : OpRegistry::Global()->All()) {
    if (NeedsNoKernel(*op)) continue;
    for (const Instance& in : InstancesOf(*op)) check(in);
  }
  for (const Instance& in : MoreInstances()) {
    const size_t before = checked.count(in.op->name);
    checked.erase(in.op->name);
    check(in);
    EXPECT_EQ(checked.count(in.op->name), 1u)
        << in.Name() << " (checked before: " << before << ")";
  }
  for (const std::string& op : OpsWithBatchForm())
    EXPECT_EQ(checked.count(op), 1u) << op << ": no sample fits its form";
  // Elementwise ops have theirs from their kernels.
  for (const char* op : {"Add", "Mul", "Tanh", "AddN", "SelectV2", "BiasAdd"})
    EXPECT_EQ(checked.count(op), 1u) << op;
}

// What is an error for an instance must not become a result of the batch.
TEST_F(BatchFormsTest, InvalidAxesAreRefused) {
  for (const int32_t axis : {-3, 2}) {
    Tensor t = Tensor::Scalar<int32_t>(axis);
    EXPECT_FALSE(MoveAxes(&t, 2)) << axis;
  }
  Tensor axes = Tensor::Vector<int64_t>({0, -1, 1, -2});
  EXPECT_TRUE(MoveAxes(&axes, 2));
  EXPECT_TRUE(axes.Identical(Tensor::Vector<int64_t>({1, -1, 2, -2})));
  Tensor rows = Tensor::Of<int32_t>({1, 2}, {3, 4});
  EXPECT_TRUE(PutFirst(&rows, 0));
  EXPECT_TRUE(rows.Identical(Tensor::Of<int32_t>({2, 2}, {0, 0, 3, 4})));
  Tensor scalar = Tensor::Scalar<int32_t>(1);
  EXPECT_FALSE(PutFirst(&scalar, 0));
}

}  // namespace
}  // namespace sluice
