// The function library: signatures, bodies and their errors.
#include "graph/function.h"

#include "gmock/gmock.h"
#include "graph/graphdef.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Types = std::vector<DType>;

// Functions as text, in the syntax of a GraphDef's library.
class FunctionTest : public ::testing::Test {
 protected:
  void Define(const std::string& functions) {
    const Result<std::string> bytes =
        ParseTextGraphDef("library { " + functions + " }");
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    const Status s = ImportGraphDef(*bytes, graph_);
    ASSERT_TRUE(s.ok()) << s;
  }
  static FunctionRef Ref(const std::string& name, AttrMap attrs = {}) {
    return {name, attrs.empty() ? nullptr
                                : std::make_shared<AttrMap>(std::move(attrs))};
  }
  FunctionLibrary& library() { return graph_.function_library(); }
  std::string ErrorOf(const FunctionRef& ref) {
    return std::string(library().Instantiate(ref).status().message());
  }

  Graph graph_;
};

constexpr char kPoly[] =
    "function { signature { name: 'Poly' input_arg { name: 'xs' type_attr: 'T' "
    "number_attr: 'N' } input_arg { name: 'y' type_attr: 'T' } output_arg { "
    "name: 'total' type_attr: 'T' } output_arg { name: 'all' type_attr: 'T' "
    "number_attr: 'N' } attr { name: 'T' type: 'type' } attr { name: 'N' type: "
    "'int' default_value { i: 2 } } } "
    "node_def { name: 'later' op: 'AddV2' input: 'sum:sum:0' input: 'y' attr { "
    "key: 'T' value { placeholder: 'T' } } } "
    "node_def { name: 'sum' op: 'AddN' input: 'xs' attr { key: 'N' value { "
    "placeholder: 'N' } } attr { key: 'T' value { placeholder: 'T' } } } "
    "ret { key: 'total' value: 'later:z:0' } ret { key: 'all' value: 'xs' } }";

TEST_F(FunctionTest, BodyIsInstantiatedForEachChoiceOfAttributes) {
  Define(kPoly);
  const auto three =
      library().Instantiate(Ref("Poly", {{"T", DType::kInt32}, {"N", 3}}));
  ASSERT_TRUE(three.ok()) << three.status();
  EXPECT_EQ((*three)->arg_types(), Types(4, DType::kInt32));
  EXPECT_EQ((*three)->result_types(), Types(4, DType::kInt32));
  EXPECT_EQ((*three)->graph->FindNode("sum")->num_inputs(), 3);
  EXPECT_EQ((*three)->results[2].node, (*three)->args[1]);
  // The default of N; and cached.
  const auto two = library().Instantiate(Ref("Poly", {{"T", DType::kFloat}}));
  ASSERT_TRUE(two.ok()) << two.status();
  EXPECT_EQ((*two)->arg_types(), Types(3, DType::kFloat));
  EXPECT_EQ(*two, *library().Instantiate(Ref("Poly", {{"T", DType::kFloat}})));
  EXPECT_THAT(ErrorOf(Ref("Poly")),
              HasSubstr("'T': expected a value, got none"));
}

TEST_F(FunctionTest, TheSignatureIsAnOp) {
  Define(kPoly);
  const OpDef* op = library().FindOp("Poly");
  ASSERT_NE(op, nullptr);
  EXPECT_EQ(op->inputs.size(), 2u);
  EXPECT_EQ(op->role, OpRole::kFunctional);
  EXPECT_EQ(library().FindOp("Polly"), nullptr);
  Types args, results;
  ASSERT_TRUE(library()
                  .Signature(Ref("Poly", {{"T", DType::kHalf}, {"N", 1}}),
                             &args, &results)
                  .ok());
  EXPECT_EQ(args, Types(2, DType::kHalf));
  EXPECT_EQ(results, Types(2, DType::kHalf));
}

TEST_F(FunctionTest, OpCanBeUsedAsFunction) {
  const auto body = library().Instantiate(Ref("Neg", {{"T", DType::kFloat}}));
  ASSERT_TRUE(body.ok()) << body.status();
  EXPECT_EQ((*body)->arg_types(), Types{DType::kFloat});
  EXPECT_EQ((*body)->results[0].node->op_name(), "Neg");
}

TEST_F(FunctionTest, ResultShapesFollowArgumentShapes) {
  Define(kPoly);
  const FunctionRef f = Ref("Poly", {{"T", DType::kFloat}});
  const auto shapes = library().ResultShapes(
      f,
      {PartialShape(Shape({2, 3})), PartialShape(Shape({2, 3})),
       PartialShape(Shape({3}))},
      3);
  EXPECT_EQ(shapes[0].ToString(), "[2,3]");
  EXPECT_EQ(shapes[2].ToString(), "[2,3]");
}

TEST_F(FunctionTest, RecursiveFunctionsAreDetected) {
  const auto function = [](const std::string& name, const std::string& calls) {
    return "function { signature { name: '" + name +
           "' } node_def { name: 'n' op: 'PartitionedCall' attr { key: 'Tin' "
           "value { list { } } } attr { key: 'Tout' value { list { } } } attr "
           "{ "
           "key: 'f' value { func { name: '" +
           calls + "' } } } } } ";
  };
  Define(function("a", "b") + function("b", "c") + function("c", "b") +
         function("alone", "alone"));
  EXPECT_FALSE(library().IsRecursive("a"));
  EXPECT_TRUE(library().IsRecursive("b"));
  EXPECT_TRUE(library().IsRecursive("c"));
  EXPECT_TRUE(library().IsRecursive("alone"));
  EXPECT_FALSE(library().IsRecursive("nobody"));
}

TEST_F(FunctionTest, MalformedBodiesFailWhenUsed) {
  const auto one = [](const std::string& name, const std::string& node,
                      const std::string& ret) {
    return "function { signature { name: '" + name +
           "' input_arg { name: 'x' type: DT_FLOAT } output_arg { name: 'y' "
           "type: DT_FLOAT } } " +
           node + ret + "} ";
  };
  const std::string neg =
      "node_def { name: 'n' op: 'Neg' input: 'x' attr { key: 'T' value { type: "
      "DT_FLOAT } } } ";
  Define(
      one("NoRet", neg, "") +
      one("BadRet", neg,
          "ret { key: 'y' value: 'n:y' } ret { key: 'z' value: "
          "'n:y:0' } ") +
      one("NoOutput", neg, "ret { key: 'y' value: 'n:z:0' } ") +
      one("BadType",
          "node_def { name: 'n' op: 'Const' attr { key: 'dtype' value { type: "
          "DT_INT32 } } attr { key: 'value' value { tensor { dtype: DT_INT32 "
          "tensor_shape { } int_val: 1 } } } } ",
          "ret { key: 'y' value: 'n:output:0' } ") +
      one("NoInput",
          "node_def { name: 'n' op: 'Neg' input: 'z' attr { key: 'T' value { "
          "type: DT_FLOAT } } } ",
          "ret { key: 'y' value: 'n:y:0' } ") +
      one("BadOp", "node_def { name: 'n' op: 'Nega' input: 'x' } ",
          "ret { key: 'y' value: 'n:y:0' } ") +
      one("Internal", "node_def { name: 'n' op: '_Call' input: 'x' } ",
          "ret { key: 'y' value: 'x' } ") +
      one("Cycle",
          "node_def { name: 'n' op: 'Neg' input: 'm:y:0' attr { key: 'T' value "
          "{ type: DT_FLOAT } } } node_def { name: 'm' op: 'Neg' input: "
          "'n:y:0' attr { key: 'T' value { type: DT_FLOAT } } } ",
          "ret { key: 'y' value: 'n:y:0' } "));
  EXPECT_THAT(ErrorOf(Ref("NoRet")),
              HasSubstr("result 'y': expected the name of an output"));
  EXPECT_EQ(ErrorOf(Ref("BadRet")), "");  // All of one output; a spare result.
  EXPECT_THAT(ErrorOf(Ref("NoOutput")), HasSubstr("got 'n:z:0'"));
  EXPECT_THAT(ErrorOf(Ref("BadType")),
              HasSubstr("result 'y': expected float, got int32"));
  EXPECT_THAT(ErrorOf(Ref("NoInput")),
              HasSubstr("expected an argument or 'node:output:index', got 'z'; "
                        "node 'n' (Neg)"));
  EXPECT_THAT(ErrorOf(Ref("BadOp")), HasSubstr("unknown op"));
  EXPECT_THAT(ErrorOf(Ref("Internal")), HasSubstr("internal"));
  EXPECT_THAT(ErrorOf(Ref("Cycle")), HasSubstr("cycle"));
  EXPECT_THAT(ErrorOf(Ref("NoRed")), HasSubstr("got 'NoRed'; nearest: NoRet"));
}

TEST_F(FunctionTest, SecondDefinitionMustBeIdentical) {
  Define(kPoly);
  const std::string same = graph_.functions().at("Poly");
  EXPECT_TRUE(library().Define("Poly", same).ok());
  EXPECT_FALSE(library().Define("Poly", same + "x").ok());
  EXPECT_FALSE(library().Define("", same).ok());
}

}  // namespace
}  // namespace sluice
