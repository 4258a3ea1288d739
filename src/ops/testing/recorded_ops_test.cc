// Compares ops with what TensorFlow computed for the same inputs:
// tests/cases/*_ops.txt, made by the scripts there.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>
#include <type_traits>

#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "ops/array/test_util.h"
#include "ops/testing/plain_reference_test_util.h"
#include "session/session.h"

namespace sluice {
namespace {

// The tolerance for elements, relative to themselves, or to the largest element
// of the tensor if sums of products cancel.
struct Tolerance {
  double error = 0;
  bool of_largest = false;
  // Instead of `error`: this many times the distance between 1 and the next
  // number of the type.
  double ulps = 0;
};

// The type in which numbers are compared.
template <typename T>
using Wide = std::conditional_t<std::is_same_v<T, complex64> ||
                                    std::is_same_v<T, complex128>,
                                complex128, double>;

bool SamePart(double a, double b) {
  return a == b || (std::isnan(a) && std::isnan(b));
}

template <typename T>
bool NearlyEqual(const Tensor& want, const Tensor& got, double error,
                 const Tolerance& t) {
  const auto least = static_cast<double>(plain::LeastNormal<T>());
  // (TensorFlow's threads flush denormal numbers to zero.)
  const double tiny = std::is_same_v<T, half> ? 0 : least;
  double largest = 0;
  if (t.ulps > 0) {
    error = t.ulps * static_cast<double>(plain::Epsilon<T>());
    largest = least;
  }
  for (int64_t i = 0; i < want.num_elements(); ++i) {
    const double w = std::abs(static_cast<Wide<T>>(want.data<T>()[i]));
    if (t.of_largest && std::isfinite(w)) largest = std::max(largest, w);
  }
  for (int64_t i = 0; i < want.num_elements(); ++i) {
    const auto w = static_cast<Wide<T>>(want.data<T>()[i]);
    const auto g = static_cast<Wide<T>>(got.data<T>()[i]);
    if (SamePart(std::real(w), std::real(g)) &&
        SamePart(std::imag(w), std::imag(g)))
      continue;
    if (std::abs(w) < tiny && std::abs(g) < tiny) continue;
    if (!(std::abs(w - g) <= error * std::max(largest, std::abs(w))))
      return false;
  }
  return true;
}

// Equal, except for a different order of summation.
bool EqualTensors(const Tensor& want, const Tensor& got, Tolerance t) {
  if (want.dtype() != got.dtype() || !(want.shape() == got.shape()))
    return false;
  switch (want.dtype()) {
    case DType::kFloat:
      return NearlyEqual<float>(want, got, t.error, t);
    case DType::kDouble:
      return NearlyEqual<double>(want, got, t.error, t);
    case DType::kComplex64:
      return NearlyEqual<complex64>(want, got, t.error, t);
    case DType::kComplex128:
      return NearlyEqual<complex128>(want, got, t.error, t);
    case DType::kHalf:
      return NearlyEqual<half>(want, got, 8e3 * t.error, t);
    case DType::kBfloat16:
      return NearlyEqual<bfloat16>(want, got, 6e4 * t.error, t);
    default:
      return want.Identical(got);
  }
}

// The outputs of an op whose first inputs are variables, except references to
// these, followed by the variables.
Result<std::vector<Tensor>> RunOnVariables(const RecordedCase& c) {
  Graph g;
  WithGraph use(g);
  SLUICE_ASSIGN_OR_RETURN(const OpDef* op, OpRegistry::Global()->Lookup(c.op));
  std::vector<Output> inputs, reads;
  std::vector<Node*> starts;
  for (const Tensor& t : c.variables) {
    const AttrMap attrs = {{"dtype", t.dtype()},
                           {"shape", PartialShape(t.shape())},
                           {"shared_name", absl::StrCat("v", inputs.size())}};
    const bool ref = op->inputs[inputs.size()].is_ref;
    const Output v = Build(ref ? "VariableV2" : "VarHandleOp", {}, attrs);
    starts.push_back(
        BuildNode(ref ? "Assign" : "AssignVariableOp", {v, Constant(t)}));
    reads.push_back(ref ? Build("Identity", {v})
                        : Build("ReadVariableOp", {v}, {{"dtype", t.dtype()}}));
    inputs.push_back(v);
  }
  for (const Tensor& t : c.inputs) inputs.push_back(Constant(t));
  Node* node = BuildNode(c.op, inputs, c.attrs);
  SLUICE_RETURN_IF_ERROR(g.status());
  std::vector<Output> outputs;
  for (int i = 0; i < node->num_outputs(); ++i)
    if (!IsRef(node->output_type(i))) outputs.push_back(Output(node, i));
  Session session(g);
  SLUICE_RETURN_IF_ERROR(session.RunTargets(starts));
  SLUICE_ASSIGN_OR_RETURN(std::vector<Tensor> out,
                          session.Run({}, outputs, {node}));
  SLUICE_ASSIGN_OR_RETURN(const std::vector<Tensor> after, session.Run(reads));
  out.insert(out.end(), after.begin(), after.end());
  return out;
}

// Factors for larger tolerances: where terms cancel near a root, and where
// another method is equally exact.
double Leeway(const std::string& op) {
  return op == "Digamma" ? 16 : op == "MatrixExponential" ? 64 : 1;
}

// Runs all cases of a record. `min`: how many there are at least.
void CompareWithRecord(const std::string& path, size_t min,
                       Tolerance tolerance) {
  const std::vector<RecordedCase> cases = ReadCases(path);
  ASSERT_GT(cases.size(), min);
  for (const RecordedCase& c : cases) {
    const std::string where = absl::StrCat(path, ":", c.line, ": ", c.op);
    const Result<std::vector<Tensor>> got =
        c.variables.empty() ? RunRecorded(c.op, c.inputs, c.attrs)
                            : RunOnVariables(c);
    if (c.error) {
      EXPECT_FALSE(got.ok())
          << where << ": TensorFlow refuses this; got " << (*got)[0].ToString();
      EXPECT_NE(got.status().code(), StatusCode::kInternal)
          << where << ": " << got.status();
      continue;
    }
    if (!got.ok()) {
      ADD_FAILURE() << where << ": " << got.status();
      continue;
    }
    Tolerance t = tolerance;
    t.ulps *= Leeway(c.op);
    std::vector<Tensor> want = c.outputs;
    want.insert(want.end(), c.variables_after.begin(), c.variables_after.end());
    ASSERT_EQ(got->size(), want.size()) << where;
    for (size_t i = 0; i < want.size(); ++i)
      EXPECT_TRUE(EqualTensors(want[i], (*got)[i], t))
          << where << ": output " << i << ": expected " << want[i].ToString(40)
          << ", got " << (*got)[i].ToString(40);
  }
}

TEST(RecordedOps, StringsAndEncodingsMatchTensorFlow) {
  CompareWithRecord("tests/cases/string_ops.txt", 600, {});
}

TEST(RecordedOps, ParsedExamplesMatchTensorFlow) {
  CompareWithRecord("tests/cases/parse_ops.txt", 120, {});
}

TEST(RecordedOps, SparseTensorsMatchTensorFlow) {
  CompareWithRecord("tests/cases/sparse_ops.txt", 500, {2e-7});
}

TEST(RecordedOps, NeuralNetworksMatchTensorFlow) {
  CompareWithRecord("tests/cases/nn_ops.txt", 450, {1e-6, true});
}

TEST(RecordedOps, QuantizedArithmeticMatchesTensorFlow) {
  CompareWithRecord("tests/cases/quantized_ops.txt", 1150, {4e-7});
}

TEST(RecordedOps, DistancesAndSamplesMatchTensorFlow) {
  CompareWithRecord("tests/cases/misc_ops.txt", 150, {2e-6});
}

TEST(RecordedOps, ImagesMatchTensorFlow) {
  CompareWithRecord("tests/cases/image_ops.txt", 600, {2e-6, true});
}

TEST(RecordedOps, ImageFilesMatchTensorFlow) {
  CompareWithRecord("tests/cases/image_file_ops.txt", 550, {2e-7});
}

TEST(RecordedOps, ArithmeticAndWindowsMatchTensorFlow) {
  CompareWithRecord("tests/cases/math_ops.txt", 500, {2e-6, true});
}

TEST(RecordedOps, ElementwiseFunctionsMatchTensorFlow) {
  CompareWithRecord("tests/cases/elementwise_ops.txt", 1000, {.ulps = 4});
}

TEST(RecordedOps, ReductionsAndProductsMatchTensorFlow) {
  CompareWithRecord("tests/cases/reduction_ops.txt", 1000, {.ulps = 4});
}

TEST(RecordedOps, CommonNetworksMatchTensorFlow) {
  CompareWithRecord("tests/cases/network_ops.txt", 1000,
                    {.of_largest = true, .ulps = 4});
}

TEST(RecordedOps, VariableUpdatesMatchTensorFlow) {
  CompareWithRecord("tests/cases/variable_ops.txt", 1000,
                    {.of_largest = true, .ulps = 4});
}

// Converts float to bfloat16.
Tensor Shortened(const Tensor& t) {
  if (t.dtype() != DType::kFloat) return t;
  Tensor out(DType::kBfloat16, t.shape());
  for (int64_t i = 0; i < t.num_elements(); ++i)
    out.data<bfloat16>()[i] = bfloat16(t.data<float>()[i]);
  return out;
}

// (TensorFlow has no bfloat16 kernel for some of them.)
TEST(RecordedOps, EveryOptimizerSupportsBfloat16) {
  for (RecordedCase c : ReadCases("tests/cases/variable_ops.txt")) {
    if (c.op.find("Apply") == std::string::npos ||
        c.variables[0].dtype() != DType::kFloat)
      continue;
    for (Tensor& t : c.variables) t = Shortened(t);
    for (Tensor& t : c.inputs) t = Shortened(t);
    const Result<std::vector<Tensor>> got = RunOnVariables(c);
    ASSERT_TRUE(got.ok()) << c.op << ": " << got.status();
    for (size_t i = 0; i < got->size(); ++i)
      EXPECT_TRUE(EqualTensors(Shortened(c.variables_after[i]), (*got)[i],
                               {.of_largest = true, .ulps = 4}))
          << c.op << ": variable " << i << ": expected "
          << c.variables_after[i].ToString(40) << ", got "
          << (*got)[i].ToString(40);
  }
}

// ---- Exceptions -------------------------------------------------------------

struct Unrecorded {
  std::vector<const char*> ops;
  const char* why;
};
const std::vector<Unrecorded>& UnrecordedOps() {
  static const auto* ops = new std::vector<Unrecorded>{
      {{"LayerNorm", "LayerNormGrad", "LstmGates", "LstmGatesGrad", "MatMulAdd",
        "MatMulBothWays"},
       "TensorFlow has no such op: gradients, cells and layers here build "
       "it"},
      {{"DeferredAdd", "DeferredColumnSum", "DeferredNone", "DeferredProduct",
        "DeferredSegmentSum", "DeferredSum", "DeferredValue"},
       "TensorFlow has no such op: gradients of calls build it "
       "(deferred_sums_test.cc)"},
      {{"SavedGradient", "SavingCall", "StatefulSavingCall"},
       "TensorFlow has no such op: gradients of recursive calls build it"},
      {{"ResourceSparseApplyAdam", "SparseApplyAdam"},
       "TensorFlow has no such op: AdamOptimizer builds it for gradients of "
       "some rows (training_test.cc, client/nn/optimizer_numbers_test.cc)"},
      {{"QuantizedReluX", "TileGrad", "TopK"},
       "TensorFlow has no kernel for it on CPUs, or one that never fits"},
      {{"QuantizedConv2DWithBiasAndReluAndRequantize",
        "QuantizedConv2DWithBiasAndRequantize",
        "QuantizedMatMulWithBiasAndDequantize",
        "QuantizedMatMulWithBiasAndReluAndRequantize",
        "QuantizedMatMulWithBiasAndRequantize"},
       "TensorFlow has them for its rewriting of graphs to oneDNN alone"},
      {{"DeleteSessionTensor", "GetSessionHandle", "GetSessionHandleV2",
        "GetSessionTensor"},
       "a handle is a name that each session chooses"},
      {{"ImmutableConst", "InitializeTableFromTextFile",
        "InitializeTableFromTextFileV2", "MatchingFiles", "ReadFile",
        "ReadRecords", "RecordInput", "Skipgram"},
       "it uses files"},
      {{"GenerateVocabRemapping", "LoadAndRemapMatrix", "MergeV2Checkpoints",
        "Restore", "RestoreSlice", "RestoreV2", "Save", "SaveSlices", "SaveV2"},
       "it uses files (checkpoint/recorded_test.cc has TensorFlow's)"},
      {{"QueueEndEpoch", "QueueFail", "QueueNext", "QueueNextBatch",
        "QueueReopen", "QueueSkipEpoch", "QueueStats", "QueueWanted"},
       "TensorFlow has no such op: what pipelines do with queues "
       "(data/dataset_test.cc)"},
      {{"TensorStore", "TensorStoreAdd", "TensorStoreExpect", "TensorStoreGrad",
        "TensorStoreGradLike", "TensorStoreHas", "TensorStoreKeys",
        "TensorStoreRead", "TensorStoreReadMany", "TensorStoreSize",
        "TensorStoreSum", "TensorStoreWrite"},
       "TensorFlow has no such op (client/control/tensor_store_test.cc)"},
      {{"Schedule", "ScheduleDone"},
       "TensorFlow has no such op (client/control/scheduled_test.cc)"},
      {{"CollectiveBcastRecv", "CollectiveBcastSend", "CollectiveGather",
        "CollectiveReduce", "CollectiveReduceScatter"},
       "TensorFlow's need several devices or tasks (session/"
       "collectives_test.cc, cluster/testing/collective_steps_test.cc)"},
      {{"FixedLengthRecordReader"},
       "TensorFlow's kernel demands an attribute that only V2 has"},
      {{"EagerPyFunc", "PyFunc", "PyFuncStateless"},
       "it calls a function of the process"},
      {{"Abort", "Timestamp"}, "it gives nothing that stays the same"},
      {{"FakeParam", "PlaceholderV2"}, "it has no value"}};
  return *ops;
}

// The ops of all recordings: of single ops, and of graphs.
std::set<std::string> RecordedNames() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("tests/cases")) {
    const bool graph = entry.is_directory();
    if (!graph && entry.path().extension() != ".txt") continue;
    std::ifstream file(graph ? entry.path() / "meta.json" : entry.path());
    std::string word;
    if (graph) {
      while (file >> word && word != "\"ops\":") continue;
      while (file >> word && word[0] != ']')
        if (word[0] == '"') names.insert(word.substr(1, word.rfind('"') - 1));
    }
    for (std::string line; !graph && std::getline(file, line);)
      if (line.starts_with("case "))
        names.insert(line.substr(5, line.find(' ', 5) - 5));
  }
  return names;
}

TEST(RecordedOps, EveryOpIsRecordedOrHasAReason) {
  const std::set<std::string> recorded = RecordedNames();
  std::set<std::string> missing;
  for (const OpDef* op : OpRegistry::Global()->All())
    // (Ops whose names begin with an underscore are created when a step is
    // compiled.)
    if (op->name[0] != '_' && !recorded.count(op->name))
      missing.insert(op->name);
  for (const Unrecorded& u : UnrecordedOps())
    for (const char* op : u.ops)
      EXPECT_TRUE(missing.erase(op))
          << op << ": expected no recording (" << u.why << "), got one";
  EXPECT_TRUE(missing.empty())
      << "ops without a recording: " << absl::StrJoin(missing, " ");
}

}  // namespace
}  // namespace sluice
