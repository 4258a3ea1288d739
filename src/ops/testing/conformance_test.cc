// Requirements for every op of the registry, checked from its declaration and
// its samples: no op is named here except in the lists of exceptions, each with
// its reason. A kernel that is listed as missing but exists is an error too.
#include <gtest/gtest.h>

#include <set>

#include "absl/strings/str_join.h"
#include "base/sanitizers.h"
#include "exec/core/kernel.h"
#include "graph/builder.h"
#include "graph/graph.h"
#include "graph/graphdef.h"
#include "ops/testing/op_instances_test_util.h"

namespace sluice {
namespace {

using namespace op_instances;  // NOLINT: a part of this file.

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
       "they come with a TInput of their own type"}};
  return *m;
}

// Types that TensorFlow's lists of number types include but hardly any of its
// kernels supports, and object types: an op need not support them.
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

TEST(Conformance, KernelsMatchSignatureAndShapeFunction) {
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

// Other shapes for the inputs of an instance: the result is an error or
// satisfies the requirements above.
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

TEST(Conformance, UnusualShapesGiveResultsOrErrors) {
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
TEST(Conformance, UnusualIntegersGiveResultsOrErrors) {
  for (const OpDef* op : OpRegistry::Global()->All()) {
    if (NeedsNoKernel(*op)) continue;
    int number = 0;
    for (const Instance& in : InstancesOf(*op)) {
      // (Sanitizers are slow, and integers are used in the same way whatever
      // the type of the data: they try every fourth.)
      if (kSanitized && number++ % 4 != 0) continue;
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

// ---- Errors of use ----------------------------------------------------------

TEST(Conformance, WrongInputTypesAndCountsAreRefused) {
  for (const OpDef* op : OpRegistry::Global()->All()) {
    const std::vector<Instance> all = InstancesOf(*op, 1);
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

TEST(Conformance, OneNodeGraphsRoundTrip) {
  for (const OpDef* op : OpRegistry::Global()->All()) {
    int number = 0;
    for (const Instance& in : InstancesOf(*op)) {
      if (kSanitized && number++ % 4 != 0) continue;
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

}  // namespace
}  // namespace sluice
