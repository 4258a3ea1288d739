// What every op of the registry must do, checked from its declaration and its
// samples: nothing here names an op but the lists of exceptions, each with its
// reason. A kernel that is listed as missing and is not fails too.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>

#include "absl/strings/str_join.h"
#include "client/gradients.h"
#include "exec/kernel.h"
#include "graph/builder.h"
#include "graph/graphdef.h"
#include "ops/op_instances_test_util.h"
#include "session/session.h"

namespace sluice {
namespace {

using namespace op_instances;  // NOLINT: a part of this file.

constexpr uint32_t kSeed = 20240117;

// ---- Exceptions -------------------------------------------------------------

// Declared types without a kernel, by group of ops; each op has each type.
struct Missing {
  std::vector<const char*> ops, types;
  const char* why;
};
const std::vector<Missing>& MissingKernels() {
  static const auto* m = new std::vector<Missing>{
      {{"Angle", "ComplexAbs", "Imag", "Real"},
       {"complex128"},
       "it comes with Tout = double, which the samples leave at its default"},
      {{"Complex"}, {"double"}, "it comes with Tout = complex128"},
      {{"ApproximateEqual", "ClipByValue", "FloorDiv", "ListDiff", "Round",
        "TruncateDiv", "Unique", "UniqueV2", "UniqueWithCounts",
        "UniqueWithCountsV2"},
       {"complex64", "complex128"},
       "TensorFlow declares complex numbers here and has no kernel for them"},
      {{"LowerBound", "UpperBound", "TensorScatterMax", "TensorScatterMin"},
       {"bool", "complex64", "complex128", "string"},
       "T is declared as any type, and the op needs numbers with an order"},
      {{"InplaceAdd", "InplaceSub", "MirrorPadGrad", "SparseFillEmptyRowsGrad",
        "SparseTensorDenseMatMul", "TensorScatterSub", "TileGrad"},
       {"bool", "string"},
       "T is declared as any type, and the op needs numbers"},
      {{"Inv", "Reciprocal"},
       {"int8", "int16", "int32", "int64"},
       "the inverse of an integer is no integer"},
      {{"RealDiv"},
       {"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
        "uint64"},
       "the real quotient of integers is no integer"},
      {{"Cholesky", "CholeskyGrad", "LogMatrixDeterminant", "Lu",
        "MatrixDeterminant", "MatrixExponential", "MatrixSolve",
        "MatrixSolveLs", "MatrixTriangularSolve", "SelfAdjointEigV2", "Svd"},
       {"half"},
       "TensorFlow declares it and has no kernel for it on CPUs"},
      {{"MatrixTriangularSolve", "ParameterizedTruncatedNormal"},
       {"bfloat16"},
       "TensorFlow declares it and has no kernel for it on CPUs"},
      {{"BatchNormWithGlobalNormalization"},
       {"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
        "uint64", "complex64", "complex128"},
       "normalising needs square roots"},
      {{"MaxPool3DGrad"},
       {"half", "bfloat16"},
       "they come with a TInput of their own type"},
      {{"MaxPoolWithArgmax", "MaxPoolGradWithArgmax"},
       {"uint32", "uint64"},
       "TensorFlow has no kernel for them either"}};
  return *m;
}

// Ops whose gradient cannot be checked by differences, or "Op:input" where one
// input has none -> why.
const std::map<std::string, std::string>& NotDifferenced() {
  static const auto* m = new std::map<std::string, std::string>{
      {"Complex", "complex128 out of doubles: see MissingKernels"},
      {"Cholesky", "symmetric, though one triangle is read: linalg_test.cc"},
      {"CholeskyGrad", "TensorFlow gives none"},
      {"Lu", "TensorFlow gives none"},
      {"MatrixSolveLs:2", "TensorFlow gives none for l2_regularizer"},
      {"RandomGamma", "samples are not differentiated through"},
      {"Unique", "has none: repeats are one value"},
      {"UniqueV2", "has none: repeats are one value"},
      {"UniqueWithCounts", "has none: repeats are one value"},
      {"UniqueWithCountsV2", "has none: repeats are one value"},
      {"ListDiff", "a difference changes what is left"},
      {"CTCLoss", "its second output is the gradient of the first"},
      {"Dilation2DBackpropFilter", "TensorFlow gives none"},
      {"Dilation2DBackpropInput", "TensorFlow gives none"},
      {"FractionalAvgPoolGrad", "TensorFlow gives none"},
      {"FractionalMaxPoolGrad", "TensorFlow gives none"},
      {"QuantizeAndDequantizeV2", "gradients pass as if nothing were rounded"},
      {"QuantizeAndDequantizeV3", "gradients pass as if nothing were rounded"},
      {"QuantizeAndDequantizeV4", "gradients pass as if nothing were rounded"},
      {"MaxPool3DGradGrad", "its gradient takes no double, like TensorFlow's"},
      {"Betainc:0", "TensorFlow gives none for a"},
      {"Betainc:1", "TensorFlow gives none for b"},
      {"Polygamma:0", "defined at whole orders only"},
      {"Zeta:0", "TensorFlow gives none for x"},
      {"PadV2:2", "TensorFlow gives none for the padding value"},
      {"MatrixDiagV2:4", "TensorFlow gives none for the padding value"},
      {"MatrixDiagV3:4", "TensorFlow gives none for the padding value"},
      {"MatrixDiagPartV2:2", "TensorFlow gives none for the padding value"},
      {"MatrixDiagPartV3:2", "TensorFlow gives none for the padding value"},
  };
  return *m;
}

// Types that TensorFlow's lists of number types include, though hardly any of
// its kernels takes them, and object types: an op need not compute them.
bool Optional(DType t) {
  return IsQuantized(t) || t == DType::kResource || t == DType::kVariant;
}

// ---- Building ---------------------------------------------------------------

bool IsData(const Tensor& t) {
  return IsFloating(t.dtype()) || IsComplex(t.dtype());
}

// The node of an instance. Data comes from placeholders; integers (axes, sizes)
// are constants, as in most graphs, unless `constants` says otherwise.
Node* BuildInstance(const Instance& in, bool constants) {
  std::vector<Output> inputs;
  for (const Tensor& t : in.inputs)
    inputs.push_back(InputNode(t, constants && !IsData(t)));
  return BuildNode(in.op->name, inputs, in.attrs);
}

// (What begins with an underscore is made when a step is compiled, and gets its
// kernel then.)
bool NeedsNoKernel(const OpDef& op) {
  return op.role != OpRole::kCompute || op.name[0] == '_';
}

// ---- Declarations -----------------------------------------------------------

TEST(Conformance, EveryDeclarationIsComplete) {
  for (const OpDef* op : OpRegistry::Global()->All()) {
    SCOPED_TRACE(op->name);
    EXPECT_FALSE(op->doc.empty()) << "no sentence of documentation";
    EXPECT_FALSE(op->family.empty()) << "no family";
    EXPECT_NE(op->shape, nullptr) << "no shape function";
    EXPECT_NE(op->grad == nullptr, op->no_grad_reason.empty())
        << "expected a gradient or a reason why there is none";
    EXPECT_TRUE(NeedsNoKernel(*op) || op->kernel) << "no kernel";
    for (const OpSample& s : op->samples)
      EXPECT_EQ(ArgsOf(*op, s).size(), s.inputs.size()) << "a sample's inputs";
    for (const ArgDef& a : op->inputs)
      EXPECT_TRUE(a.type != DType::kInvalid || !a.type_attr.empty() ||
                  !a.type_list_attr.empty())
          << a.name;
  }
}

// ---- Kernels and shapes -----------------------------------------------------

TEST(Conformance, KernelsGiveWhatSignatureAndShapeFunctionSay) {
  std::set<std::string> missing;
  for (const OpDef* op : OpRegistry::Global()->All()) {
    for (const Instance& in : InstancesOf(*op)) {
      for (bool constants : {true, false}) {
        SCOPED_TRACE(in.Name());
        Graph g;
        WithGraph use(g);
        Node* n = BuildInstance(in, constants);
        EXPECT_NE(n, nullptr) << g.status();
        if (n == nullptr || NeedsNoKernel(*op)) continue;
        const Result<std::vector<Tensor>> out = RunKernel(*n, in.inputs);
        if (out.status().code() == StatusCode::kUnimplemented) {
          if (!Optional(in.type)) missing.insert(in.Name());
          continue;
        }
        EXPECT_TRUE(out.ok()) << out.status();
        if (!out.ok()) continue;
        ASSERT_EQ(static_cast<int>(out->size()), n->num_outputs());
        for (int i = 0; i < n->num_outputs(); ++i) {
          const Tensor& t = (*out)[static_cast<size_t>(i)];
          EXPECT_EQ(DTypeName(t.dtype()), DTypeName(n->output_type(i)))
              << "output " << i;
          EXPECT_TRUE(n->output_shape(i).CompatibleWith(t.shape()))
              << "output " << i << ": inferred "
              << n->output_shape(i).ToString() << ", computed "
              << t.shape().ToString();
        }
      }
    }
  }
  std::set<std::string> unexpected = missing;
  for (const Missing& m : MissingKernels())
    for (const char* op : m.ops)
      for (const char* type : m.types) {
        const std::string name = absl::StrCat(op, ":", type);
        EXPECT_TRUE(missing.count(name))
            << name << " has a kernel now: it is no exception any more ("
            << m.why << ")";
        unexpected.erase(name);
      }
  EXPECT_TRUE(unexpected.empty())
      << "declared types without kernels: " << absl::StrJoin(unexpected, " ");
}

// ---- Hostile inputs ---------------------------------------------------------

// Other shapes for the inputs of an instance: whatever comes of it is an error
// or a result that keeps the promises above.
void TryShapes(const Instance& in, const std::vector<Shape>& shapes) {
  Graph g;
  WithGraph use(g);
  Instance other = in;
  for (size_t i = 0; i < shapes.size(); ++i) {
    std::vector<double> values(static_cast<size_t>(shapes[i].num_elements()),
                               1);
    if (!FromNumbers(in.inputs[i].dtype(), shapes[i], values, &other.inputs[i]))
      return;
  }
  std::vector<Output> inputs;
  for (const Tensor& t : other.inputs)
    inputs.push_back(
        Build("Placeholder", {},
              {{"dtype", t.dtype()}, {"shape", PartialShape::Unknown()}}));
  Node* n = BuildNode(in.op->name, inputs, in.attrs);
  if (n == nullptr) return;
  const Result<std::vector<Tensor>> out = RunKernel(*n, other.inputs);
  if (!out.ok()) {
    EXPECT_NE(out.status().code(), StatusCode::kInternal) << out.status();
    return;
  }
  for (int i = 0; i < n->num_outputs(); ++i)
    EXPECT_EQ(DTypeName((*out)[static_cast<size_t>(i)].dtype()),
              DTypeName(n->output_type(i)));
}

TEST(Conformance, EmptyScalarAndOddShapesAreResultsOrErrors) {
  for (const OpDef* op : OpRegistry::Global()->All()) {
    if (NeedsNoKernel(*op)) continue;
    for (const OpSample& s : op->samples) {
      const std::vector<std::string> open = OpenTypes(s, ArgsOf(*op, s));
      const std::optional<Instance> in = Make(
          *op, s, open.empty() ? "" : open[0],
          open.empty() ? DType::kInvalid : PickType(*op->FindAttr(open[0])));
      if (!in) continue;
      SCOPED_TRACE(in->Name());
      const size_t n = in->inputs.size();
      std::vector<Shape> own;
      for (const Tensor& t : in->inputs) own.push_back(t.shape());
      // One input at a time, and all at once.
      for (size_t i = 0; i <= n; ++i) {
        for (const Shape& odd :
             {Shape(), Shape({0}), Shape({1}), Shape({3}), Shape({0, 2}),
              Shape({2, 3}), Shape({2, 0, 2}), Shape({1, 2, 1, 2}),
              Shape({1, 1, 1, 1, 1, 1, 1, 2})}) {
          std::vector<Shape> shapes = own;
          for (size_t k = 0; k < n; ++k)
            if (k == i || i == n) shapes[k] = odd;
          TryShapes(*in, shapes);
        }
        // Its own shape without elements.
        std::vector<Shape> shapes = own;
        for (size_t k = 0; k < n; ++k) {
          if ((k != i && i != n) || own[k].rank() == 0) continue;
          Dims dims(own[k].dims().begin(), own[k].dims().end());
          dims[0] = 0;
          shapes[k] = Shape({dims.data(), dims.size()});
        }
        TryShapes(*in, shapes);
      }
    }
  }
}

// Not large ones: a size that memory could hold would be allocated.
TEST(Conformance, OddIntegersAreResultsOrErrors) {
  for (const OpDef* op : OpRegistry::Global()->All()) {
    if (NeedsNoKernel(*op)) continue;
    for (const Instance& in : InstancesOf(*op)) {
      SCOPED_TRACE(in.Name());
      for (size_t i = 0; i < in.inputs.size(); ++i) {
        const DType t = in.inputs[i].dtype();
        if (t != DType::kInt32 && t != DType::kInt64) continue;
        for (double v : {-1.0, 0.0, -7.0}) {
          Instance other = in;
          const std::vector<double> values(
              static_cast<size_t>(in.inputs[i].num_elements()), v);
          FromNumbers(t, in.inputs[i].shape(), values, &other.inputs[i]);
          for (bool constants : {true, false}) {
            Graph g;
            WithGraph use(g);
            Node* n = BuildInstance(other, constants);
            if (n == nullptr) continue;
            const auto out = RunKernel(*n, other.inputs);
            EXPECT_NE(out.status().code(), StatusCode::kInternal)
                << out.status();
          }
        }
      }
    }
  }
}

// ---- Wrong use --------------------------------------------------------------

TEST(Conformance, WrongTypesAndNumbersOfInputsAreRefused) {
  for (const OpDef* op : OpRegistry::Global()->All()) {
    const std::vector<Instance> all = InstancesOf(*op);
    if (all.empty()) continue;
    const Instance& in = all[0];
    SCOPED_TRACE(in.Name());
    Graph g;
    WithGraph use(g);
    std::vector<Output> inputs;
    for (const Tensor& t : in.inputs) inputs.push_back(InputNode(t, false));
    std::vector<Output> more = inputs;
    more.push_back(Constant(Tensor::Scalar<float>(1)));
    const bool variadic =
        std::any_of(op->inputs.begin(), op->inputs.end(), [](const ArgDef& a) {
          return !a.number_attr.empty() || !a.type_list_attr.empty();
        });
    if (!variadic) {
      EXPECT_EQ(BuildNode(op->name, more, in.attrs), nullptr);
      EXPECT_FALSE(g.status().ok());
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      const ArgDef* a = ArgsOf(*op, op->samples[0])[i];
      if (a->type == DType::kInvalid) continue;
      std::vector<Output> wrong = inputs;
      wrong[i] = Constant(a->type == DType::kString
                              ? Tensor::Scalar<float>(1)
                              : Tensor::Scalar<std::string>("x"));
      EXPECT_EQ(BuildNode(op->name, wrong, in.attrs), nullptr) << a->name;
    }
    for (const AttrDef& a : op->attrs) {
      if (a.kind != AttrKind::kType || a.is_list || a.allowed_types.empty())
        continue;
      if (std::count(a.allowed_types.begin(), a.allowed_types.end(),
                     DType::kString))
        continue;
      AttrMap attrs = in.attrs;
      attrs[a.name] = DType::kString;
      EXPECT_EQ(BuildNode(op->name, inputs, attrs), nullptr) << a.name;
    }
  }
}

// ---- GraphDef ---------------------------------------------------------------

TEST(Conformance, OneNodeGraphsGoOutAndComeBackTheSame) {
  for (const OpDef* op : OpRegistry::Global()->All()) {
    for (const Instance& in : InstancesOf(*op)) {
      SCOPED_TRACE(in.Name());
      Graph g, back;
      {
        WithGraph use(g);
        EXPECT_NE(BuildInstance(in, true), nullptr) << g.status();
      }
      if (!g.status().ok()) continue;
      const Result<std::string> out = ExportGraphDef(g);
      ASSERT_TRUE(out.ok()) << out.status();
      const Status read = ImportGraphDef(*out, back);
      ASSERT_TRUE(read.ok()) << read;
      ASSERT_EQ(back.num_nodes(), g.num_nodes());
      const Result<std::string> again = ExportGraphDef(back);
      ASSERT_TRUE(again.ok()) << again.status();
      EXPECT_EQ(*out, *again);
    }
  }
}

// ---- Gradients --------------------------------------------------------------

// Sum of the double outputs, each element times its weight.
Result<double> Weighted(const Node& n, const std::vector<Tensor>& inputs,
                        const std::vector<Tensor>& weights) {
  SLUICE_ASSIGN_OR_RETURN(const std::vector<Tensor> out, RunKernel(n, inputs));
  double sum = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    if (!weights[i].valid()) continue;
    for (int64_t k = 0; k < out[i].num_elements(); ++k)
      sum += out[i].data<double>()[k] * weights[i].data<double>()[k];
  }
  return sum;
}

// The op's gradient in double against central differences of random
// projections of its outputs.
void CheckGradient(const Instance& in) {
  Graph g;
  WithGraph use(g);
  std::vector<Output> inputs;
  Feeds feeds;
  std::vector<GradTarget> xs;
  std::vector<size_t> which;
  for (size_t i = 0; i < in.inputs.size(); ++i) {
    const Tensor& t = in.inputs[i];
    const bool data =
        t.dtype() == DType::kDouble &&
        !NotDifferenced().count(absl::StrCat(in.op->name, ":", i));
    inputs.push_back(InputNode(t, !data));
    if (!data) continue;
    feeds.emplace_back(inputs.back(), t);
    xs.emplace_back(inputs.back());
    which.push_back(i);
  }
  Node* n = BuildNode(in.op->name, inputs, in.attrs);
  ASSERT_NE(n, nullptr) << g.status();
  const Result<std::vector<Tensor>> out = RunKernel(*n, in.inputs);
  ASSERT_TRUE(out.ok()) << out.status();
  std::mt19937 rng(kSeed);
  std::uniform_real_distribution<double> draw(-1, 1);
  std::vector<Tensor> weights(out->size());
  std::vector<Output> ys;
  GradientOptions options;
  for (size_t i = 0; i < out->size(); ++i) {
    if ((*out)[i].dtype() != DType::kDouble) continue;
    weights[i] = Tensor(DType::kDouble, (*out)[i].shape());
    for (double& w : weights[i].flat<double>()) w = draw(rng);
    ys.emplace_back(n, static_cast<int>(i));
    options.grad_ys.push_back(Constant(weights[i]));
  }
  if (ys.empty() || xs.empty()) return;
  const Result<std::vector<Gradient>> grads = Gradients(ys, xs, options);
  ASSERT_TRUE(grads.ok()) << grads.status();
  Session session(g);
  for (size_t x = 0; x < xs.size(); ++x) {
    const Tensor& at = in.inputs[which[x]];
    Tensor got = *Tensor::Zeros(DType::kDouble, at.shape());
    if ((*grads)[x]) {
      const Output dense = Densify((*grads)[x], xs[x].output);
      ASSERT_TRUE(dense) << g.status();
      const Result<Tensor> r = session.Run(feeds, dense);
      ASSERT_TRUE(r.ok()) << r.status();
      got = *r;
      ASSERT_EQ(got.shape(), at.shape()) << "input " << which[x];
    }
    for (int64_t k = 0; k < at.num_elements(); ++k) {
      const double value = at.data<double>()[k];
      const double h = 1e-5 * std::max(1.0, std::abs(value));
      double side[2];
      for (int s = 0; s < 2; ++s) {
        std::vector<Tensor> moved = in.inputs;
        moved[which[x]] = *at.Clone();
        moved[which[x]].data<double>()[k] = value + (s == 0 ? h : -h);
        const Result<double> f = Weighted(*n, moved, weights);
        ASSERT_TRUE(f.ok()) << f.status();
        side[s] = *f;
      }
      const double want = (side[0] - side[1]) / (2 * h);
      EXPECT_NEAR(got.data<double>()[k], want,
                  1e-5 * std::max(1.0, std::abs(want)))
          << "input " << which[x] << ", element " << k;
    }
  }
}

TEST(Conformance, GradientsAgreeWithDifferences) {
  for (const OpDef* op : OpRegistry::Global()->All()) {
    if (op->grad == nullptr || NeedsNoKernel(*op) ||
        NotDifferenced().count(op->name))
      continue;
    for (const OpSample& s : op->samples) {
      const std::vector<std::string> open = OpenTypes(s, ArgsOf(*op, s));
      if (open.empty()) continue;
      const AttrDef* a = op->FindAttr(open[0]);
      if (!a->allowed_types.empty() &&
          !std::count(a->allowed_types.begin(), a->allowed_types.end(),
                      DType::kDouble))
        continue;
      const std::optional<Instance> in = Make(*op, s, open[0], DType::kDouble);
      if (!in) continue;
      SCOPED_TRACE(in->Name());
      CheckGradient(*in);
    }
  }
}

}  // namespace
}  // namespace sluice
