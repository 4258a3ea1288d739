#include "graph/graphdef.h"

#include <random>
#include <set>

#include "base/sanitizers.h"
#include "gmock/gmock.h"
#include "graph/graph.h"
#include "graph/graphdef_messages.h"
#include "graph/shape_context.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

SLUICE_OP(TestValue)
    .Output("output: dtype")
    .Attr("value: tensor")
    .Attr("dtype: type")
    .NoGradient("a test's")
    .Doc("A constant.");
SLUICE_OP(TestAdd)
    .Input("x: T")
    .Input("y: T")
    .Output("z: T")
    .Attr("T: {float, int32}")
    .Attr("note: string = 'none'")
    .Attr("scale: float = 2.5")
    .Attr("sizes: list(int) = [1, 2]")
    .NoGradient("a test's")
    .Doc("A sum.");
SLUICE_OP(TestPair)
    .Input("x: N * T")
    .Output("first: T")
    .Output("second: int32")
    .Attr("N: int >= 1")
    .Attr("T: type")
    .NoGradient("a test's")
    .Doc("Two outputs.");
SLUICE_OP(TestSplit)
    .Output("parts: n * float")
    .Attr("n: int >= 1")
    .NoGradient("a test's")
    .Doc("Any number of outputs.");
SLUICE_OP(TestVariable)
    .Output("ref: Ref(dtype)")
    .Attr("dtype: type")
    .Attr("shape: shape")
    .Stateful()
    .NoGradient("a test's")
    .Doc("A reference.");
SLUICE_OP(TestCall)
    .Input("args: Tin")
    .Output("results: Tout")
    .Attr("Tin: list(type) >= 0")
    .Attr("Tout: list(type) >= 0")
    .Attr("f: func")
    .NoGradient("a test's")
    .Doc("A call.");

std::string Value(const std::string& name) {
  return absl::StrCat(
      "node { name: '", name, "' op: 'TestValue' ",
      "attr { key: 'dtype' value { type: DT_FLOAT } } ",
      "attr { key: 'value' value { tensor { dtype: DT_FLOAT tensor_shape { "
      "dim { size: 2 } } float_val: 3 } } } }\n");
}

std::string Add(const std::string& name, const std::string& x,
                const std::string& y, const std::string& rest = "") {
  return absl::StrCat(
      "node { name: '", name, "' op: 'TestAdd' input: '", x, "' input: '", y,
      "' attr { key: 'T' value { type: DT_FLOAT } } ", rest, " }\n");
}

// A counting loop, with consumers before producers.
std::string Loop() {
  const std::string t = " attr { key: 'T' value { type: DT_INT32 } } ";
  return absl::StrCat(
      "node { name: 'exit' op: 'Exit' input: 'switch'", t, "}",
      "node { name: 'next' op: 'NextIteration' input: 'switch:1'", t, "}",
      "node { name: 'switch' op: 'Switch' input: 'merge' input: 'cond'", t, "}",
      "node { name: 'cond' op: 'LoopCond' input: 'go' }",
      "node { name: 'merge' op: 'Merge' input: 'enter' input: 'next'",
      " attr { key: 'N' value { i: 2 } }", t, "}",
      "node { name: 'enter' op: 'Enter' input: 'start'", t,
      "attr { key: 'frame_name' value { s: 'loop' } } }",
      "node { name: 'start' op: 'TestValue' ",
      "attr { key: 'dtype' value { type: DT_INT32 } } ",
      "attr { key: 'value' value { tensor { dtype: DT_INT32 } } } }",
      "node { name: 'go' op: 'TestValue' ",
      "attr { key: 'dtype' value { type: DT_BOOL } } ",
      "attr { key: 'value' value { tensor { dtype: DT_BOOL } } } }");
}

Status Import(const std::string& text, Graph& g,
              const ImportOptions& options = {},
              ImportResults* results = nullptr) {
  SLUICE_ASSIGN_OR_RETURN(const std::string bytes, ParseTextGraphDef(text));
  return ImportGraphDef(bytes, g, options, results);
}

void ExpectImportError(const std::string& text, StatusCode code,
                       const std::string& part) {
  Graph g;
  const Status s = Import(text, g);
  EXPECT_EQ(s.code(), code) << s;
  EXPECT_THAT(std::string(s.message()), HasSubstr(part));
}

TEST(ImportGraphDef, AcceptsAnyOrderDefaultsAndUnknownAttributes) {
  Graph g;
  const Status s =
      Import(Add("c", "b", "a:0",
                 "device: '/cpu:0' input: '^a' "
                 "attr { key: '_class' value { list { s: 'loc:@a' } } } "
                 "attr { key: '_unknown' value { i: 42 } }"
                 "attr { key: 'new_in_2030' value { b: true } }") +
                 Value("b") + Value("a") +
                 "versions { producer: 2474 min_consumer: 12 }",
             g);
  ASSERT_TRUE(s.ok()) << s;
  const Node* c = g.FindNode("c");
  ASSERT_NE(c, nullptr);
  EXPECT_TRUE(c->input(0).SameAs(Output(g.FindNode("b"))));
  EXPECT_TRUE(c->input(1).SameAs(Output(g.FindNode("a"))));
  EXPECT_THAT(c->control_inputs(), ElementsAre(g.FindNode("a")));
  EXPECT_EQ(c->device(), "/cpu:0");
  EXPECT_EQ(c->AttrOr<std::string>("note", ""), "none");
  EXPECT_EQ(c->AttrOr<float>("scale", 0), 2.5f);
  EXPECT_THAT(c->AttrOr<AttrValue::Ints>("sizes", {}), ElementsAre(1, 2));
  EXPECT_EQ(c->IntAttr("_unknown"), 42);
  EXPECT_TRUE(c->BoolAttr("new_in_2030"));
  EXPECT_THAT(c->AttrOr<AttrValue::Strings>("_class", {}),
              ElementsAre("loc:@a"));
  EXPECT_EQ(g.producer_version, 2474);
  EXPECT_TRUE(g.FindNode("a")->Attr<Tensor>("value")->Identical(
      Tensor::Vector<float>({3, 3})));
}

TEST(ImportGraphDef, ConnectsBackEdges) {
  Graph g;
  const Status s = Import(Loop(), g);
  ASSERT_TRUE(s.ok()) << s;
  EXPECT_TRUE(g.FindNode("merge")->input(1).SameAs(Output(g.FindNode("next"))));
  const Result<std::vector<Node*>> order = TopologicalOrder(g);
  ASSERT_TRUE(order.ok()) << order.status();
  EXPECT_EQ(order->size(), 8u);
}

TEST(ImportGraphDef, SupportsPrefixInputMapAndReturnElements) {
  Graph g;
  ASSERT_TRUE(Import(Value("outer") + Value("first"), g).ok());
  ImportOptions options;
  options.prefix = "copy/1";
  options.input_map = {{"a", Output(g.FindNode("outer"))},
                       {"nobody:0", Output(g.FindNode("outer"))}};
  options.control_input_map = {{"b", g.FindNode("first")}};
  options.return_elements = {"sum", "sum:0"};
  options.control_dependencies = {g.FindNode("first")};
  options.default_device = "/cpu:1";
  ImportResults r;
  const Status s = Import(
      Value("a") + Value("b") +
          Add("sum", "a", "b",
              "input: '^b' attr { key: '_class' value { list { s: 'loc:@b' } "
              "} }"),
      g, options, &r);
  ASSERT_TRUE(s.ok()) << s;
  Node* sum = g.FindNode("copy/1/sum");
  ASSERT_NE(sum, nullptr);
  EXPECT_TRUE(sum->input(0).SameAs(Output(g.FindNode("outer"))));
  EXPECT_TRUE(sum->input(1).SameAs(Output(g.FindNode("copy/1/b"))));
  EXPECT_THAT(sum->control_inputs(), ElementsAre(g.FindNode("first")));
  EXPECT_THAT(g.FindNode("copy/1/b")->control_inputs(),
              ElementsAre(g.FindNode("first")));
  EXPECT_THAT(sum->AttrOr<AttrValue::Strings>("_class", {}),
              ElementsAre("loc:@copy/1/b"));
  EXPECT_EQ(sum->device(), "/cpu:1");
  EXPECT_THAT(r.return_nodes, ElementsAre(sum));
  ASSERT_EQ(r.return_outputs.size(), 1u);
  EXPECT_TRUE(r.return_outputs[0].SameAs(Output(sum)));
  EXPECT_THAT(r.unused_input_map_keys, ElementsAre("nobody:0"));
  EXPECT_EQ(r.nodes.size(), 3u);
}

TEST(ImportGraphDef, UniqueNamesRenamesExistingNames) {
  Graph g;
  const std::string text =
      Value("a") + Value("a_1") +
      Add("sum", "a", "a_1",
          "attr { key: '_class' value { list { s: 'loc:@a' } } }");
  ASSERT_TRUE(Import(text, g).ok());
  EXPECT_FALSE(Import(text, g).ok());
  ImportOptions options;
  options.unique_names = true;
  options.return_elements = {"sum"};
  ImportResults r;
  const Status s = Import(text, g, options, &r);
  ASSERT_TRUE(s.ok()) << s;
  Node* const sum = r.return_nodes.at(0);
  EXPECT_EQ(sum->name(), "sum_1");
  EXPECT_EQ(sum->input(0).node->name(), "a_2");  // (a_1 is another node.)
  EXPECT_EQ(sum->input(1).node->name(), "a_1_1");
  EXPECT_THAT(sum->AttrOr<AttrValue::Strings>("_class", {}),
              ElementsAre("loc:@a_2"));
}

TEST(ImportGraphDef, RenamedLoopsHaveTheirOwnFrames) {
  Graph g;
  ASSERT_TRUE(Import(Loop(), g).ok());
  ImportOptions options;
  options.unique_names = true;
  ImportResults r;
  const Status s = Import(Loop(), g, options, &r);
  ASSERT_TRUE(s.ok()) << s;
  std::set<std::string> frames;
  for (const auto& node : g.nodes())
    if (const AttrValue* frame = node->FindAttr("frame_name"))
      frames.insert(*frame->get<std::string>());
  EXPECT_EQ(frames.size(), 2u);
}

TEST(ImportGraphDef, ReturnElementsFollowInputMap) {
  Graph g;
  ASSERT_TRUE(Import(Value("outer"), g).ok());
  ImportOptions options;
  options.prefix = "copy";
  options.input_map = {{"a", Output(g.FindNode("outer"))}};
  options.return_elements = {"a:0", "a"};
  ImportResults r;
  ASSERT_TRUE(Import(Value("a"), g, options, &r).ok());
  ASSERT_EQ(r.return_outputs.size(), 1u);
  EXPECT_TRUE(r.return_outputs[0].SameAs(g.FindNode("outer")));
  EXPECT_THAT(r.return_nodes, ElementsAre(g.FindNode("copy/a")));
  EXPECT_TRUE(r.unused_input_map_keys.empty());
}

TEST(ImportGraphDef, KeepsFunctionsAndTheirGradients) {
  const std::string text =
      Value("a") +
      "node { name: 'call' op: 'TestCall' input: 'a' "
      "attr { key: 'Tin' value { list { type: DT_FLOAT } } } "
      "attr { key: 'Tout' value { list { } } } "
      "attr { key: 'f' value { func { name: 'body' attr { key: 'T' value { "
      "type: DT_FLOAT } } } } } } "
      "library { function { signature { name: 'body' input_arg { name: 'x' "
      "type_attr: 'T' } attr { name: 'T' type: 'type' } } node_def { name: 'y' "
      "op: 'NotRegistered' input: 'x' attr { key: 'T' value { placeholder: "
      "'T' } } } ret { key: 'y' value: 'y:z:0' } } "
      "gradient { function_name: 'body' gradient_func: 'body_grad' } }";
  Graph g;
  ASSERT_TRUE(Import(text, g).ok()) << Import(text, g);
  ASSERT_EQ(g.functions().count("body"), 1u);
  EXPECT_EQ(*FunctionDefName(g.functions().at("body")), "body");
  EXPECT_EQ(g.function_gradients().at("body"), "body_grad");
  const auto f = g.FindNode("call")->Attr<FunctionRef>("f");
  ASSERT_TRUE(f.ok());
  EXPECT_EQ(f->name, "body");
  EXPECT_EQ(*f->attrs->at("T").get<DType>(), DType::kFloat);

  Graph again;
  ASSERT_TRUE(ImportGraphDef(*ExportGraphDef(g), again).ok());
  EXPECT_EQ(again.functions(), g.functions());
  EXPECT_EQ(again.function_gradients(), g.function_gradients());
}

TEST(ExportGraphDef, RoundTrips) {
  Graph g, again;
  ASSERT_TRUE(
      Import(Loop() + Value("a") +
                 "node { name: 'pair' op: 'TestPair' input: 'a' input: 'a' "
                 "attr { key: 'N' value { i: 2 } } "
                 "attr { key: 'T' value { type: DT_FLOAT } } }"
                 "node { name: 'use' op: 'TestAdd' input: 'pair:1' input: "
                 "'pair:1' input: '^a' input: '^merge' "
                 "attr { key: 'T' value { type: DT_INT32 } } "
                 "attr { key: '_l' value { list { shape { dim { size: -1 } } "
                 "shape { unknown_rank: true } } } } }"
                 "node { name: 'v' op: 'TestVariable' "
                 "attr { key: 'dtype' value { type: DT_FLOAT } } "
                 "attr { key: 'shape' value { shape { dim { size: 3 } } } } }"
                 "versions { producer: 21 }",
             g)
          .ok());
  const Result<std::string> bytes = ExportGraphDef(g);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  ASSERT_TRUE(ImportGraphDef(*bytes, again).ok());
  EXPECT_EQ(again.producer_version, 21);
  ASSERT_EQ(again.num_nodes(), g.num_nodes());
  for (const auto& n : g.nodes()) {
    const Node* m = again.FindNode(n->name());
    ASSERT_NE(m, nullptr) << n->name();
    EXPECT_EQ(m->op_name(), n->op_name());
    EXPECT_EQ(m->attrs(), n->attrs()) << n->name();
    EXPECT_EQ(m->num_inputs(), n->num_inputs());
    for (int i = 0; i < n->num_inputs(); ++i)
      EXPECT_EQ(m->input(i).name(), n->input(i).name());
    EXPECT_EQ(m->control_inputs().size(), n->control_inputs().size());
  }
  // The same as text.
  const Result<std::string> text = ExportGraphDef(again, true);
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(*PrintTextGraphDef(*ParseTextGraphDef(*text)), *text);
}

TEST(ImportGraphDef, UnknownOpsAreListedWithTheNearestNames) {
  ExpectImportError(Value("a") +
                        "node { name: 'n' op: 'TestAd' } "
                        "node { name: 'm' op: 'QuiteUnknown' }",
                    StatusCode::kNotFound, "got 'TestAd'; nearest: TestAdd");
  ExpectImportError(Value("a") +
                        "node { name: 'n' op: 'TestAd' } "
                        "node { name: 'm' op: 'QuiteUnknown' }",
                    StatusCode::kNotFound,
                    "other unknown ops: QuiteUnknown; node 'n' (TestAd)");
}

TEST(ImportGraphDef, NodeErrorsNameTheNode) {
  const StatusCode bad = StatusCode::kInvalidArgument;
  ExpectImportError(Value("a") + Value("a"), bad, "duplicate node");
  ExpectImportError(Add("s", "a", "b"), bad, "got 'a'");
  ExpectImportError(Value("weight") + Add("s", "weight", "weigth"), bad,
                    "nearest: weight");
  ExpectImportError(Value("a") + Add("s", "a", "a:1"), bad, "got 1; node 's'");
  ExpectImportError(Value("a") + Add("s", "a", "a:x"), bad, "got 'a:x'");
  ExpectImportError(Value("a") + Add("s", "a", "a:99999999999"), bad, "input");
  ExpectImportError(Value("a") + Add("s", "a", "^a"), bad, "node 's'");
  ExpectImportError(Value("a") + Add("s", "a", "a", "input: '^a' input: 'a'"),
                    bad, "control inputs after all others");
  ExpectImportError(Value("a") + Add("s", "a", "a", "input: 'a'"), bad,
                    "node 's'");
  ExpectImportError(Value("a") +
                        "node { name: 's' op: 'TestAdd' input: 'a' "
                        "input: 'a' }",
                    bad, "'T': expected a value, got none");
  ExpectImportError(Value("a") +
                        "node { name: 's' op: 'TestAdd' input: 'a' input: 'a' "
                        "attr { key: 'T' value { type: DT_INT32 } } }",
                    bad, "expected int32, got float");
  ExpectImportError(Value("a") +
                        "node { name: 's' op: 'TestAdd' input: 'a' input: 'a' "
                        "attr { key: 'T' value { i: 1 } } }",
                    bad, "'T': expected type, got 1");
  ExpectImportError(Value("a") +
                        "node { name: 's' op: 'TestAdd' input: 'a' input: 'a' "
                        "attr { key: 'T' value { } } }",
                    bad, "'T'");
  ExpectImportError(
      "node { name: 'v' op: 'TestVariable' attr { key: 'dtype' value { type: "
      "DT_FLOAT_REF } } attr { key: 'shape' value { shape { } } } }",
      bad, "expected value types");
  ExpectImportError(
      "node { name: 'v' op: 'TestVariable' attr { key: 'dtype' value { type: "
      "DT_FLOAT } } attr { key: 'shape' value { shape { dim { size: -7 } } } } "
      "}",
      bad, "got -7; node 'v' (TestVariable)");
  ExpectImportError(
      "node { name: 'a' op: 'TestValue' attr { key: 'dtype' value { type: "
      "DT_FLOAT } } attr { key: 'value' value { tensor { dtype: DT_FLOAT "
      "tensor_shape { dim { size: 2 } } tensor_content: 'abc' } } } }",
      bad, "expected 8 bytes, got 3; node 'a'");
  ExpectImportError("node { op: 'TestValue' }", bad, "expected a name");
  std::string deep = "a";
  for (int i = 0; i <= 1000; ++i) deep += "/a";
  ExpectImportError(Value(deep), bad, "at most 1000 scopes");
  ExpectImportError("node { name: '^x' op: 'TestValue' }", bad, "node '^x'");
  ExpectImportError(
      "node { name: 'v' op: 'TestVariable' attr { key: 'l' value { list { i: 1 "
      "f: 2 } } } }",
      bad, "elements of one kind");
}

TEST(ImportGraphDef, OutputCountIsLimited) {
  ExpectImportError(
      "node { name: 's' op: 'TestSplit' attr { key: 'n' value { i: 9999999 } } "
      "}",
      StatusCode::kInvalidArgument, "got 9999999; node 's' (TestSplit)");
}

TEST(ImportGraphDef, CyclesWithoutNextIterationAreErrors) {
  const StatusCode bad = StatusCode::kInvalidArgument;
  ExpectImportError(Value("a") + Add("s", "a", "s"), bad, "got s -> s");
  ExpectImportError(
      Value("a") + Add("s", "a", "t") + Add("t", "s", "u") + Add("u", "a", "t"),
      bad, "t -> u -> t");
  ExpectImportError(Value("a") + Add("s", "a", "a", "input: '^s'"), bad,
                    "cycle");
  ExpectImportError(
      Value("a") +
          "node { name: 'm' op: 'Merge' input: 'a' input: 'm' "
          "attr { key: 'N' value { i: 2 } } attr { key: 'T' value { "
          "type: DT_FLOAT } } }",
      bad, "m -> m");
}

TEST(ImportGraphDef, IncompatibleVersionsAreErrors) {
  ExpectImportError("versions { producer: 9999 min_consumer: 9999 }",
                    StatusCode::kInvalidArgument, "9999");
  ExpectImportError("versions { producer: 1 bad_consumers: 2474 }",
                    StatusCode::kInvalidArgument, "2474");
}

TEST(ImportGraphDef, OptionsThatNameUnknownNodesAreErrors) {
  Graph g, other;
  ASSERT_TRUE(Import(Value("a"), other).ok());
  ImportOptions options;
  options.input_map = {{"a", Output(other.FindNode("a"))}};
  EXPECT_FALSE(Import(Value("a"), g, options).ok());
  options = {};
  options.return_elements = {"b"};
  EXPECT_EQ(Import(Value("a"), g, options).code(), StatusCode::kNotFound);
  options.return_elements = {"a:3"};
  EXPECT_EQ(Import(Value("a"), g, options).code(), StatusCode::kNotFound);
}

TEST(ParseTextGraphDef, ErrorNamesLineAndColumn) {
  const Status s =
      ParseTextGraphDef("node {\n  name: 'a'\n  opp: 'b' }").status();
  EXPECT_EQ(s.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(s.message()), HasSubstr("line 3"));
}

// A function attribute inside a function attribute, and so on.
std::string Nested(int depth) {
  std::string text = "node { name: 'n' op: 'TestCall' attr { key: 'f' value { ";
  for (int i = 0; i < depth; ++i)
    text += "func { name: 'g' attr { key: 'f' value { ";
  for (int i = 0; i < depth; ++i) text += "} } } ";
  return text + "} } }";
}

TEST(ImportGraphDef, DeepNestingIsAnError) {
  EXPECT_TRUE(ParseTextGraphDef(Nested(10)).ok());
  EXPECT_FALSE(ParseTextGraphDef(Nested(5000)).ok());
  // In binary: field 10 (func) of field 2 (value) of field 2 (attr), over and
  // over, built from the inside out.
  std::string inner;
  auto wrap = [&inner](char tag) {
    std::string size;
    for (size_t n = inner.size();; n >>= 7) {
      size += static_cast<char>((n & 0x7f) | (n > 0x7f ? 0x80 : 0));
      if (n <= 0x7f) break;
    }
    inner = tag + size + inner;
  };
  for (int i = 0; i < 5000; ++i) {
    wrap(0x52);                     // AttrValue.func
    wrap(0x12);                     // AttrEntry.value
    wrap(i == 4999 ? 0x2a : 0x12);  // NodeDef.attr, NameAttrList.attr
  }
  wrap(0x0a);  // GraphDef.node
  Graph g;
  EXPECT_EQ(ImportGraphDef(inner, g).code(), StatusCode::kInvalidArgument);
}

TEST(ImportGraphDef, CorruptBytesGiveGraphOrError) {
  const unsigned seed = 11;
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  std::mt19937 random(seed);
  const std::string good =
      *ParseTextGraphDef(Loop() + Value("a") + Add("s", "a", "a"));
  int imported = 0;
  // (The fuzzer of graphs tries more of them under AddressSanitizer.)
  for (int i = 0; i < (kSanitized ? 4000 : 20000); ++i) {
    std::string bytes =
        i % 3 == 0 ? good.substr(0, random() % good.size()) : good;
    for (size_t k = random() % 6; k > 0 && !bytes.empty(); --k)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    Graph g;
    ImportOptions options;
    options.tensor_limits.expansion_bytes = 1 << 20;
    if (!ImportGraphDef(bytes, g, options).ok()) continue;
    ++imported;
    EXPECT_TRUE(ExportGraphDef(g).ok());
  }
  EXPECT_GT(imported, 0);
  std::string noise(4096, '\0');
  for (int i = 0; i < (kSanitized ? 400 : 2000); ++i) {
    for (char& c : noise) c = static_cast<char>(random());
    Graph g;
    EXPECT_FALSE(ImportGraphDef(noise, g).ok());
  }
}

}  // namespace
}  // namespace sluice
