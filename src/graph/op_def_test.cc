// What declarations of ops may say. (How their mistakes reach a user:
// session/own_ops_test.cc.)
#include "graph/op_def.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice {
namespace {

using ::testing::HasSubstr;

// What is wrong with the declaration; "" if nothing is.
std::string MistakeIn(const OpDefBuilder& op) {
  const Result<OpDef> def = op.Finish();
  return def.ok() ? "" : std::string(def.status().message());
}
std::string MistakeInAttr(const char* spec) {
  return MistakeIn(OpDefBuilder("TestOp").Attr(spec));
}

// The default of an attribute.
AttrValue DefaultOf(const char* spec) {
  const Result<OpDef> def = OpDefBuilder("TestOp").Attr(spec).Finish();
  EXPECT_TRUE(def.ok()) << spec << ": " << def.status();
  if (!def.ok()) return AttrValue();
  return def->attrs.at(0).default_value.value_or(AttrValue());
}

TEST(OpDeclarations, AnArgumentsTypeIsAnAttributeThatIsOne) {
  for (const char* attr : {"k: int", "k: string = 'a'", "k: bool", "k: shape",
                           "k: list(int)", "k: {'a', 'b'}", "k: func"})
    for (const char* arg : {"x: k", "x: Ref(k)", "x: N * k"}) {
      const OpDefBuilder op =
          OpDefBuilder("TestOp").Attr("N: int >= 1").Attr(attr);
      for (const OpDefBuilder& one :
           {OpDefBuilder(op).Input(arg), OpDefBuilder(op).Output(arg)})
        EXPECT_THAT(MistakeIn(one),
                    HasSubstr("expected an attribute that is a type"))
            << attr << ", " << arg;
    }
  for (const char* arg : {"x: k", "x: Ref(k)", "x: N * k"})
    EXPECT_EQ(MistakeIn(OpDefBuilder("TestOp")
                            .Attr("N: int >= 1")
                            .Attr("k: {float, int32}")
                            .Output(arg)),
              "");
  const OpDefBuilder list = OpDefBuilder("TestOp").Attr("k: list(type)");
  EXPECT_EQ(MistakeIn(OpDefBuilder(list).Output("x: k")), "");
  EXPECT_THAT(
      MistakeIn(OpDefBuilder(list).Attr("N: int >= 1").Output("x: N * k")),
      HasSubstr("got one of a list"));
  EXPECT_THAT(MistakeIn(OpDefBuilder("TestOp").Output("x: float_ref")),
              HasSubstr("expected Ref(<type>)"));
}

TEST(OpDeclarations, DefaultsAreOfTheirKind) {
  for (const auto& [spec, words] :
       std::vector<std::pair<const char*, const char*>>{
           {"x: bool = True", "expected true or false, got 'True'"},
           {"x: bool = 1", "expected true or false"},
           {"x: bool = yes", "expected true or false"},
           {"x: bool =", "expected true or false"},
           {"x: list(bool) = [true, no]", "expected true or false"},
           {"x: string = abc", "expected a string in quotes, got abc"},
           {"x: string = 'abc", "expected a string in quotes"},
           {"x: string = '", "expected a string in quotes"},
           {"x: string = 'a' 'b'", "expected a string in quotes"},
           {"x: string =", "expected a string in quotes"},
           {"x: func =", "expected a function"},
           {"x: list(int) = 1, 2", "expected values in brackets"},
           {"x: list(int) = [1, 2", "expected values in brackets"},
           {"x: list(int) = [1, 2}", "expected values in brackets"},
           {"x: list(int) = [1] 2", "expected values in brackets"},
           {"x: list(int) = [1,, 2]", "a value is missing"},
           {"x: list(string) = ['a, b]", "expected values in brackets"},
           {"x: shape = 5", "expected values in brackets"},
           {"x: shape = { unknown_rank: false }", "bad dimension"},
           {"x: shape = [-5]", "default: attribute 'x'"},
       })
    EXPECT_THAT(MistakeInAttr(spec), HasSubstr(words)) << spec;

  EXPECT_EQ(DefaultOf("x: bool = true"), AttrValue(true));
  EXPECT_EQ(DefaultOf("x: bool=false "), AttrValue(false));
  EXPECT_EQ(DefaultOf("x: string = \"it's\""), AttrValue("it's"));
  EXPECT_EQ(DefaultOf("x: string = ''"), AttrValue(""));
  EXPECT_EQ(DefaultOf("x: list(string) = ['a, b', \"c]'\", ')']"),
            AttrValue(AttrValue::Strings{"a, b", "c]'", ")"}));
  EXPECT_EQ(DefaultOf("x: list(string) = []"), AttrValue(AttrValue::Strings{}));
  EXPECT_EQ(DefaultOf("x: list(int) = [1, -2,]"),
            AttrValue(AttrValue::Ints{1, -2}));
  EXPECT_EQ(
      DefaultOf("x: list(shape) = [[2, -1], {}, {unknown_rank: true}]"),
      AttrValue(AttrValue::Shapes{PartialShape({2, -1}), PartialShape::Scalar(),
                                  PartialShape::Unknown()}));
  EXPECT_EQ(DefaultOf("x: list(func) = [f, 'g']"),
            AttrValue(AttrValue::Functions{{"f", nullptr}, {"g", nullptr}}));
  EXPECT_EQ(DefaultOf("x: list(tensor) = [uint8 [1, 2]]"),
            AttrValue(AttrValue::Tensors{Tensor::Vector<uint8_t>({1, 2})}));
}

TEST(OpDeclarations, DefaultsAreAllowedValues) {
  for (const auto& [spec, words] :
       std::vector<std::pair<const char*, const char*>>{
           {"x: {'a', 'b'} = 'c'", "expected one of {a,b}, got 'c'"},
           {"x: list({'a', 'b'}) = ['a', 'c']", "got 'c'"},
           {"x: {float, int32} = DT_STRING", "got string"},
           {"x: list(numbertype) = [DT_BOOL]", "got bool"},
           {"x: int >= 2 = 1", "expected at least 2, got 1"},
           {"x: list(int) >= 2 = [1]", "expected at least 2, got 1"},
       })
    EXPECT_THAT(MistakeInAttr(spec), HasSubstr(words)) << spec;
  EXPECT_EQ(DefaultOf("x: {'a', 'b'} = 'b'"), AttrValue("b"));
  EXPECT_EQ(DefaultOf("x: {'a,b', '}'} = '}'"), AttrValue("}"));
  EXPECT_EQ(DefaultOf("x: realnumbertype = DT_INT8"), AttrValue(DType::kInt8));
  EXPECT_EQ(DefaultOf("x: int >= -3 = -3"), AttrValue(-3));
  EXPECT_EQ(DefaultOf("x: list(int) >= 2 = [7, 8]"),
            AttrValue(AttrValue::Ints{7, 8}));
}

TEST(OpDeclarations, LimitsAreOfTheirKind) {
  for (const auto& [spec, words] :
       std::vector<std::pair<const char*, const char*>>{
           {"x: {}", "expected allowed values, got none"},
           {"x: {'a', float}", "expected a string in quotes, got float"},
           {"x: {float, 'a'}", "bad allowed type"},
           {"x: float >= 1", "expected a minimum of an int"},
           {"x: string >= 1", "expected a minimum of an int"},
           {"x: list(int >= 2)", "expected a kind in list()"},
           {"x: list(int = 2)", "expected a kind in list()"},
           {"x: list(list(int))", "expected a kind in list()"},
       })
    EXPECT_THAT(MistakeInAttr(spec), HasSubstr(words)) << spec;
}

TEST(OpDeclarations, NamesDiffer) {
  const OpDefBuilder op =
      OpDefBuilder("TestOp").Attr("a: int").Input("x: int8");
  EXPECT_EQ(MistakeIn(OpDefBuilder(op).Output("y: float")), "");
  for (const OpDefBuilder& twice :
       {OpDefBuilder(op).Attr("a: float"), OpDefBuilder(op).Input("a: float"),
        OpDefBuilder(op).Output("a: float"), OpDefBuilder(op).Input("x: int8"),
        OpDefBuilder(op).Output("x: float")})
    EXPECT_THAT(MistakeIn(twice), HasSubstr("got several '"));
}

TEST(OpDeclarations, ACommutativeOpHasInputsOfOneType) {
  const auto mistake = [](const std::vector<const char*>& inputs) {
    OpDefBuilder op("TestOp");
    op.Attr("N: int").Attr("T: type").Attr("U: type").Attr("L: list(type)");
    for (const char* in : inputs) op.Input(in);
    EXPECT_EQ(MistakeIn(op), "");
    return MistakeIn(op.Commutative());
  };
  EXPECT_EQ(mistake({"x: T", "y: T"}), "");
  EXPECT_EQ(mistake({"x: float", "y: float"}), "");
  EXPECT_EQ(mistake({"x: N * T"}), "");
  EXPECT_EQ(mistake({}), "");
  for (const std::vector<const char*>& inputs :
       std::vector<std::vector<const char*>>{{"x: T", "y: U"},
                                             {"x: float", "y: int32"},
                                             {"x: float", "y: Ref(float)"},
                                             {"x: T", "y: T", "k: T"},
                                             {"x: N * T", "y: N * T"},
                                             {"x: L"}})
    EXPECT_THAT(mistake(inputs), HasSubstr("of a commutative op"))
        << inputs.size() << " " << inputs[0];
}

}  // namespace
}  // namespace sluice
