// The ops that TensorFlow's own tests of graph building are written with:
// signatures of every kind, most without a kernel. Not part of sluice._core:
// `tensorflow.python.framework.test_ops` loads them
// (sluice/compat/testing/test_ops.py).
#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "sluice/op.h"

using namespace sluice;

namespace {

// The kernel that a node asks for by the attribute "_kernel".
Status RunLabel(KernelContext& ctx) {
  const auto label = ctx.node().AttrOr<std::string>("_kernel", "");
  ctx.set_output(0, Tensor::Scalar<std::string>(
                        "My label is: " + (label.empty() ? "default" : label)));
  return OkStatus();
}

class Stub : public Resource {
 public:
  std::string TypeName() const override { return "Stub"; }
  std::atomic<bool> created{false};
};

// A handle of a Stub that is there, created or not.
Status RunStubHandle(KernelContext& ctx) {
  const Node& n = ctx.node();
  ResourceHandle handle;
  handle.container = n.AttrOr<std::string>("container", "");
  handle.name = n.AttrOr<std::string>("shared_name", "");
  if (handle.name.empty()) handle.name = n.name();
  SLUICE_ASSIGN_OR_RETURN(handle.resource,
                          ctx.step().resources->LookupOrCreate<Stub>(
                              handle.container, handle.name,
                              [] { return std::make_shared<Stub>(); }));
  ctx.set_output(0, Tensor::Scalar<ResourceHandle>(std::move(handle)));
  return OkStatus();
}

Status RunStubCreate(KernelContext& ctx) {
  SLUICE_ASSIGN_OR_RETURN(const std::shared_ptr<Stub> stub,
                          ctx.resource<Stub>(0));
  if (stub->created.exchange(true))
    return AlreadyExists(
        "resource: expected one that is to be created, got "
        "one that is there");
  return OkStatus();
}

Status RunStubUse(KernelContext& ctx) {
  SLUICE_ASSIGN_OR_RETURN(const std::shared_ptr<Stub> stub,
                          ctx.resource<Stub>(0));
  if (!stub->created)
    return NotFound("resource: expected one that was created, got none");
  return OkStatus();
}

Status RunStubInitialized(KernelContext& ctx) {
  SLUICE_ASSIGN_OR_RETURN(const std::shared_ptr<Stub> stub,
                          ctx.resource<Stub>(0));
  ctx.set_output(0, Tensor::Scalar<bool>(stub->created.load()));
  return OkStatus();
}

Status RunNothing(KernelContext&) { return OkStatus(); }

}  // namespace

SLUICE_OP(KernelLabel)
    .Output("result: string")
    .Shape(ScalarShape)
    .Kernel(Cpu(RunLabel))
    .Doc("Says which kernel runs.");

SLUICE_OP(Old).Shape(UnknownShape).Kernel(Cpu(RunNothing)).Doc("Does nothing.");

SLUICE_OP(StubResourceHandleOp)
    .Output("resource: resource")
    .Attr("container: string = ''")
    .Attr("shared_name: string = ''")
    .Stateful(kOwnsState)
    .Shape(ScalarShape)
    .Kernel(Cpu(RunStubHandle))
    .Doc("A handle of a resource that does nothing.");

SLUICE_OP(ResourceInitializedOp)
    .Input("resource: resource")
    .Output("initialized: bool")
    .Stateful()
    .Shape(ScalarShape)
    .Kernel(Cpu(RunStubInitialized))
    .Doc("Whether the resource was created.");

SLUICE_OP(ResourceCreateOp)
    .Input("resource: resource")
    .Stateful()
    .Shape(NoOutputs)
    .Kernel(Cpu(RunStubCreate))
    .Doc("Creates the resource, which must not be there.");

SLUICE_OP(ResourceUsingOp)
    .Input("resource: resource")
    .Stateful()
    .Shape(NoOutputs)
    .Kernel(Cpu(RunStubUse))
    .Doc("Asks for the resource to be there.");

// The others are for building graphs only.
#define GRAPH_OP(Name) SLUICE_OP(Name).Shape(UnknownShape)

GRAPH_OP(TestStringOutput)
    .Input("input: float")
    .Output("output1: float")
    .Output("output2: string");
GRAPH_OP(TestAttr).Output("out: T").Attr("T: {float, double}");
GRAPH_OP(A).Output("out: float32");
GRAPH_OP(B).Output("out: float32");
GRAPH_OP(Foo1)
    .Input("a: float32")
    .Input("b: int32")
    .Input("c: int32")
    .Output("d: float32")
    .Output("e: int32");
GRAPH_OP(Foo2)
    .Input("a: float32")
    .Input("b: string")
    .Input("c: string")
    .Output("d: float32")
    .Output("e: int32");
GRAPH_OP(Foo3)
    .Input("a: float32")
    .Input("b: string")
    .Input("c: float32")
    .Output("d: float32")
    .Output("e: int32");
GRAPH_OP(CopyOp).Input("a: T").Output("b: T").Attr("T: type");
GRAPH_OP(None);
GRAPH_OP(IntOutput).Output("a: int32");
GRAPH_OP(Int64Output).Output("out: int64");
GRAPH_OP(RefOutput).Output("a: Ref(int32)");
GRAPH_OP(FloatOutput).Output("a: float32");
GRAPH_OP(TwoFloatOutputs).Output("a: float32").Output("b: float32");
GRAPH_OP(FiveFloatOutputs)
    .Output("a: float32")
    .Output("b: float32")
    .Output("c: float32")
    .Output("d: float32")
    .Output("e: float32");
GRAPH_OP(RefOutputFloatOutput).Output("a: Ref(float32)").Output("b: float32");
GRAPH_OP(RefInputFloatInput).Input("a: Ref(float)").Input("b: float");
GRAPH_OP(IntInput).Input("a: int32");
GRAPH_OP(IntInputIntOutput).Input("a: int32").Output("b: int32");
GRAPH_OP(FloatInput).Input("a: float32");
GRAPH_OP(TwoIntOutputs).Output("a: int32").Output("b: int32");
GRAPH_OP(IntOutputFloatOutput).Output("a: int32").Output("b: float32");
GRAPH_OP(FloatOutputStringOutput).Output("a: float32").Output("b: string");
GRAPH_OP(TwoIntInputs).Input("a: int32").Input("b: int32");
GRAPH_OP(TwoFloatInputs).Input("a: float32").Input("b: float32");
GRAPH_OP(IntInputFloatInput).Input("a: int32").Input("b: float32");
GRAPH_OP(RefInputIntInput).Input("a: Ref(int32)").Input("b: int32");
GRAPH_OP(TwoFloatInputsFloatOutput)
    .Input("a: float32")
    .Input("b: float32")
    .Output("c: float32");
GRAPH_OP(TwoFloatInputsIntOutput)
    .Input("a: float32")
    .Input("b: float32")
    .Output("c: int32");
GRAPH_OP(RefInputFloatInputIntOutput)
    .Input("a: Ref(float32)")
    .Input("b: float32")
    .Output("c: int32");
GRAPH_OP(ListInput).Input("a: N * T").Attr("N: int >= 1").Attr("T: type");
GRAPH_OP(ListOutput).Output("a: T").Attr("T: list(type) >= 1");
GRAPH_OP(Unary).Input("a: T").Output("b: T").Attr("T: type");
GRAPH_OP(OpWithDefaultAttr)
    .Output("a: int32")
    .Attr("default_float: float = 123.0");
GRAPH_OP(OpWithFutureDefaultAttr);
GRAPH_OP(IntAttr).Output("out: int64").Attr("foo: int = 1");
GRAPH_OP(StringListAttr).Attr("a: list(string)").Attr("b: string");
GRAPH_OP(DefaultAttrs)
    .Attr("string_val: string = 'abc'")
    .Attr("string_list_val: list(string) = ['abc', '']")
    .Attr("int_val: int = 123")
    .Attr("int_list_val: list(int) = [1, 2, 3]")
    .Attr("float_val: float = 10.0")
    .Attr("float_list_val: list(float) = [10.0]")
    .Attr("bool_val: bool = true")
    .Attr("bool_list_val: list(bool) = [true, false]")
    .Attr("type_val: type = DT_INT32")
    .Attr("type_list_val: list(type) = [DT_INT32, DT_FLOAT]")
    .Attr("shape_val: shape = [2,1]")
    .Attr("shape_list_val: list(shape) = [{}, [1]]");
GRAPH_OP(FuncAttr).Attr("f: func");
GRAPH_OP(FuncListAttr).Attr("f: list(func)");
GRAPH_OP(Simple).Input("a: int32").Output("out: float");
GRAPH_OP(OutT).Output("a: T").Attr("T: type");
GRAPH_OP(ReservedInput).Input("input: int32");
GRAPH_OP(Polymorphic).Input("a: T").Output("out: T").Attr("T: type");
GRAPH_OP(PolymorphicOut).Output("out: T").Attr("T: type");
GRAPH_OP(PolymorphicDefaultOut).Output("out: T").Attr("T: type = DT_STRING");
GRAPH_OP(Binary).Input("a: T").Input("b: T").Output("out: T").Attr("T: type");
GRAPH_OP(Restrict).Input("a: T").Output("out: T").Attr("T: {string, bool}");
GRAPH_OP(TypeList).Input("a: T").Attr("T: list(type) >= 0");
GRAPH_OP(TypeListTwice).Input("a: T").Input("b: T").Attr("T: list(type) >= 0");
GRAPH_OP(OutTypeList).Output("out: T").Attr("T: list(type) >= 0");
GRAPH_OP(TypeListRestrict).Input("a: T").Attr("T: list({string, bool})");
GRAPH_OP(OutTypeListRestrict).Output("out: t").Attr("t: list({string, bool})");
GRAPH_OP(Attr).Attr("a: int");
GRAPH_OP(AttrFloat).Attr("a: float");
GRAPH_OP(AttrBool).Attr("a: bool");
GRAPH_OP(AttrBoolList).Attr("a: list(bool)");
GRAPH_OP(AttrMin).Attr("a: int >= 5");
GRAPH_OP(AttrListMin).Attr("a: list(int) >= 2");
GRAPH_OP(AttrEnum).Attr("a: {'apples', 'oranges'}");
GRAPH_OP(AttrEnumList).Attr("a: list({'apples', 'oranges'})");
GRAPH_OP(AttrShape).Attr("a: shape");
GRAPH_OP(AttrShapeList).Attr("a: list(shape)");
GRAPH_OP(AttrPartialShape).Attr("a: shape");
GRAPH_OP(AttrPartialShapeList).Attr("a: list(shape)");
GRAPH_OP(AttrDefault).Attr("a: string = 'banana'");
GRAPH_OP(AttrListDefault).Attr("a: list(int) = [5, 15]");
GRAPH_OP(AttrEmptyListDefault).Attr("a: list(float) = []");
GRAPH_OP(ReservedAttr).Attr("range: int");
GRAPH_OP(AttrTypeDefault).Input("a: T").Attr("T: type = DT_INT32");
GRAPH_OP(AttrListTypeDefault)
    .Input("a: N * T")
    .Input("b: N * T")
    .Attr("T: type = DT_INT32")
    .Attr("N: int");
GRAPH_OP(NIntsIn).Input("a: N * int32").Attr("N: int >= 2");
GRAPH_OP(NPolymorphicIn).Input("a: N * T").Attr("T: type").Attr("N: int >= 2");
GRAPH_OP(NPolymorphicRestrictIn)
    .Input("a: N * T")
    .Attr("T: {string, bool}")
    .Attr("N: int >= 2");
GRAPH_OP(NInTwice)
    .Input("a: N * int32")
    .Input("b: N * string")
    .Attr("N: int >= 0");
GRAPH_OP(NInPolymorphicTwice)
    .Input("a: N * T")
    .Input("b: N * T")
    .Attr("T: type")
    .Attr("N: int >= 0");
GRAPH_OP(NInTwoTypeVariables)
    .Input("a: N * S")
    .Input("b: N * T")
    .Attr("S: type")
    .Attr("T: type")
    .Attr("N: int >= 0");
GRAPH_OP(InPolymorphicTwice)
    .Input("a: N * T")
    .Input("b: M * T")
    .Attr("T: type")
    .Attr("N: int >= 0")
    .Attr("M: int >= 0");
GRAPH_OP(NIntsOut).Output("a: N * int32").Attr("N: int >= 2");
GRAPH_OP(NIntsOutDefault).Output("a: N * int32").Attr("N: int >= 2 = 3");
GRAPH_OP(NPolymorphicOut)
    .Output("a: N * T")
    .Attr("T: type")
    .Attr("N: int >= 2");
GRAPH_OP(NPolymorphicOutDefault)
    .Output("a: N * T")
    .Attr("T: type = DT_BOOL")
    .Attr("N: int >= 2 = 2");
GRAPH_OP(NPolymorphicRestrictOut)
    .Output("a: N * T")
    .Attr("T: {string, bool}")
    .Attr("N: int >= 2");
GRAPH_OP(RefIn).Input("a: Ref(T)").Attr("T: type");
GRAPH_OP(TwoRefsIn).Input("a: Ref(T)").Input("b: Ref(T)").Attr("T: type");
GRAPH_OP(RefOut).Output("a: Ref(T)").Attr("T: type");
GRAPH_OP(SimpleStruct).Output("a: n_a * int32").Attr("n_a: int >= 0");
GRAPH_OP(MixedStruct)
    .Output("a: n_a * int32")
    .Output("b: float")
    .Attr("n_a: int >= 0");
GRAPH_OP(ComplexStruct)
    .Output("a: n_a * int32")
    .Output("b: n_b * int64")
    .Output("c: t_c")
    .Attr("n_a: int >= 0")
    .Attr("n_b: int >= 0")
    .Attr("t_c: list(type) >= 0");
