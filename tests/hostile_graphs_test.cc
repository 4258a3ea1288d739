// Hostile calls of the functions for building graphs: nodes, builders and their
// scopes, declarations of ops, import and export.
#include <limits>

#include "sluice/op.h"
#include "tests/hostile_calls_test_util.h"

namespace sluice {
namespace {

std::string Rubbish(size_t n) {
  std::string bytes;
  for (size_t i = 0; i < n; ++i)
    bytes.push_back(static_cast<char>((i * 2654435761u) >> 7));
  return bytes;
}

// ---- Outputs and nodes ------------------------------------------------------

HOSTILE(OutputsOfNothing,
        "Output::Output Output::dtype Output::shape Output::name Output::graph "
        "Output::SameAs Output::valid Output::error Output::reason "
        "Output::Failed Output::None SameOutput::operator() IndexOf Contains "
        "OutputHash::operator() SourceLoc::known "
        "SourceLoc::ToString CallerLoc") {
  Graph g;
  const WithGraph use(g);
  const Output one = Constant(1.0f);
  const Output none, null(nullptr, 3), beyond(one.node, 7),
      before(one.node, -1);
  for (const Output& o : {none, null, beyond, before}) {
    EXPECT_EQ(o.dtype(), DType::kInvalid);
    EXPECT_FALSE(o.shape().rank_known());
    EXPECT_FALSE(o.name().empty());
    EXPECT_EQ(o.graph(), o.node == nullptr ? nullptr : &g);
    EXPECT_TRUE(o.SameAs(o));
    EXPECT_EQ(OutputHash()(o), OutputHash()(Output(o)));
    EXPECT_TRUE(SameOutput()(o, o));
    EXPECT_EQ(o.valid(), o.node != nullptr);
    EXPECT_EQ(o.error(), -1);
    EXPECT_EQ(o.reason(), -1);
    EXPECT_EQ(IndexOf({}, o), 0u);
    EXPECT_TRUE(Contains({one, o}, o));
  }
  for (const int number : {0, 7, INT_MAX / 2}) {
    EXPECT_EQ(Output::Failed(number).error(), number);
    EXPECT_EQ(Output::Failed(number).reason(), -1);
    EXPECT_EQ(Output::None(number).reason(), number);
    EXPECT_EQ(Output::None(number).error(), -1);
  }
  EXPECT_FALSE(SourceLoc().known());
  EXPECT_EQ(SourceLoc().ToString(), "");
  EXPECT_EQ(SourceLoc({"a.cc", -3}).ToString(), "");
  EXPECT_TRUE(CallerLoc().known());
}

HOSTILE(FailuresThatNobodyRecorded,
        "Graph::errors Graph::ErrorOf Graph::Failure Graph::PropagateFailure "
        "Graph::ClearErrors Graph::CountNullNode Graph::ErrorsOfNullNodes "
        "Graph::alive OrFailure") {
  Graph g;
  const WithGraph use(g);
  EXPECT_NULL(g.Failure());
  EXPECT_NULL(OrFailure(nullptr));
  for (const bool take_back : {true, false}) g.CountNullNode(take_back);
  EXPECT_TRUE(g.ErrorsOfNullNodes().empty());
  for (const Output& null : {Output(), Output::Failed(0), Output::Failed(99),
                             Output::None(99), Output(nullptr, INT_MIN)})
    EXPECT_EQ(g.ErrorOf(null), nullptr);
  g.PropagateFailure(Output::Failed(99), InvalidArgument("unknown"));
  EXPECT_EQ(g.errors().size(), 1u);
  EXPECT_NE(g.ErrorOf(g.Failure()), nullptr);
  for (size_t i = 0; i < 2 * Graph::kMaxErrors; ++i)
    g.RecordError(InvalidArgument("one more"));
  EXPECT_EQ(g.errors().size(), Graph::kMaxErrors);
  EXPECT_NE(g.ErrorOf(g.Failure()), nullptr);
  g.CountNullNode(false);
  EXPECT_EQ(g.ErrorsOfNullNodes()[0], *g.ErrorOf(g.Failure()));
  g.CountNullNode(true);
  EXPECT_EQ(g.ErrorsOfNullNodes().size(), Graph::kMaxErrors);
  const Output stale = g.Failure();
  g.ClearErrors();
  EXPECT_EQ(g.ErrorOf(stale), nullptr);
  EXPECT_NULL(ops::Neg(stale));
  EXPECT_EQ(g.errors().size(), 1u);
  EXPECT_FALSE(g.alive().expired());
}

HOSTILE(PartsOfNodesThatAreNotThere,
        "Node::input Node::input_type Node::output_type Node::output_shape "
        "Node::InputRange Node::OutputRange Node::FindAttr Node::Attr "
        "Node::AttrOr Node::TypeAttr Node::BoolAttr Node::IntAttr Node::id "
        "Node::name Node::op Node::op_name Node::kind Node::graph Node::device "
        "Node::loc "
        "Node::num_inputs Node::inputs Node::control_inputs Node::num_outputs "
        "Node::attrs Node::SharesAttrs Node::Describe Node::built_as") {
  Graph g;
  const WithGraph use(g);
  const Node* const n = BuildNode("NoOp", {});
  ASSERT_NE(n, nullptr);
  const Node* const sum =
      ops::Sum(Constant(Tensor::Vector<float>({1})), 0).node;
  ASSERT_NE(sum, nullptr);
  for (const int i : {-1, 2, 100, INT_MAX, INT_MIN}) {
    for (const Node* node : {n, sum}) {
      EXPECT_NULL(node->input(i));
      EXPECT_EQ(node->input_type(i), DType::kInvalid);
      EXPECT_EQ(node->output_type(i), DType::kInvalid);
      EXPECT_FALSE(node->output_shape(i).rank_known());
      EXPECT_EQ(node->InputRange(i).first, node->InputRange(i).second);
      EXPECT_EQ(node->OutputRange(i).first, node->OutputRange(i).second);
    }
  }
  EXPECT_EQ(n->FindAttr(""), nullptr);
  ExpectRefused(sum->Attr<int64_t>("keep_dims"), "keep_dims");
  EXPECT_FALSE(sum->Attr<bool>("no_such").ok());
  EXPECT_EQ(sum->AttrOr<int64_t>("T", 7), 7);
  EXPECT_EQ(sum->TypeAttr("keep_dims"), DType::kInvalid);
  EXPECT_NULL(sum->BoolAttr("T"));
  EXPECT_EQ(sum->IntAttr("T"), 0);
  EXPECT_NULL(n->SharesAttrs(*sum));
  EXPECT_EQ(n->kind(), OpKind::kOther);
  EXPECT_EQ(n->name() + n->op_name() + n->op().name, "NoOpNoOpNoOp");
  EXPECT_TRUE(n->graph() == &g && n->id() == 0 && n->device().empty());
  EXPECT_EQ(n->num_inputs() + n->num_outputs(), 0);
  EXPECT_TRUE(n->inputs().empty() && n->control_inputs().empty());
  EXPECT_TRUE(n->attrs().empty() && !n->loc().known());
  EXPECT_FALSE(n->Describe().empty());
}

HOSTILE(PlaceholdersOfAttributes,
        "Node::has_placeholders Node::CheckNoPlaceholders") {
  Graph g;
  const WithGraph use(g);
  const Output x = Constant(Tensor::Vector<float>({1, 2}));
  const auto add = [&](const std::string& op, const std::string& attr,
                       const std::string& name) {
    NodeSpec spec;
    spec.op = op;
    spec.inputs = {x};
    if (op == "Pack") spec.inputs.push_back(x);
    spec.attrs[attr] = AttrValue::Placeholder{name};
    return g.AddNode(spec);
  };
  // Types and functions are known, and placeholders have names.
  ExpectRefused(add("Neg", "T", "T"), "types of inputs or outputs depend");
  ExpectRefused(add("Pack", "N", "n"), "'N'");
  ExpectRefused(add("PartitionedCall", "f", "f"), "expected a function");
  ExpectRefused(add("Pack", "axis", ""), "name of a function's attribute");
  EXPECT_FALSE(x.node->has_placeholders());
  EXPECT_TRUE(x.node->CheckNoPlaceholders().ok());
  const Result<Node*> n = add("Pack", "axis", "axis");
  ASSERT_TRUE(n.ok()) << n.status().message();
  EXPECT_TRUE((*n)->has_placeholders());
  ExpectRefused((*n)->CheckNoPlaceholders(), "got the placeholder $axis");
  EXPECT_FALSE((*n)->output_shape(0).rank_known());
  EXPECT_FALSE(ConstantValue(Output(*n)).has_value());
  ExpectRefused(Gradients({Output(*n)}, {x}), "$axis");
  Session session(g);
  ExpectRefused(session.Run({Output(*n)}), "$axis");
  // With a value it is a node like any other.
  g.SetAttr(*n, "axis", AttrValue(1));
  EXPECT_FALSE((*n)->has_placeholders());
  EXPECT_TRUE(session.Run({Output(*n)}).ok());
}

HOSTILE(
    NodesThatCannotBe,
    "Graph::Graph Graph::AddNode Graph::SetBackEdge Graph::AddControlEdge "
    "Graph::SetShape Graph::FindNode "
    "Graph::LookupNode Graph::FindOutput Graph::UniqueName "
    "Graph::UniqueScope Graph::Intern Graph::RecordError Graph::ClearErrors "
    "Graph::status Graph::nodes Graph::num_nodes Graph::mutex "
    "TopologicalOrder") {
  Graph g;
  const WithGraph use(g);
  const Output one = Constant(1.0f);
  const auto add = [&](const std::string& op, std::vector<Output> inputs,
                       const std::string& name = "") {
    NodeSpec spec;
    spec.op = op;
    spec.inputs = std::move(inputs);
    spec.name = name;
    return g.AddNode(spec);
  };
  ExpectRefused(add("", {}), "");
  ExpectRefused(add("NoSuchOp", {}), "NoSuchOp");
  ExpectRefused(add("Neg", {}), "");
  ExpectRefused(add("Neg", {one, one}), "");
  ExpectRefused(add("Neg", {Output()}), "got none");
  ExpectRefused(add("Neg", {Elsewhere()}), "of another");
  ExpectRefused(add("Neg", {Output(one.node, 1)}), "expected output 0");
  ExpectRefused(add("Neg", {Output(one.node, -1)}), "expected output 0");
  ExpectRefused(add("Neg", {one}, "a b"), "name");
  ExpectRefused(add("Neg", {one}, Rubbish(100)), "name");
  ExpectRefused(add("Neg", {one}, one.node->name()), "exists");
  NodeSpec waits;
  waits.op = "NoOp";
  for (Node* control : {static_cast<Node*>(nullptr), Elsewhere().node}) {
    waits.control_inputs = {control};
    ExpectRefused(g.AddNode(waits), "control input");
  }
  Node* const node = *add("Neg", {one});
  const auto refused = [](const Status& s) { EXPECT_FALSE(s.ok()); };
  refused(g.SetBackEdge(node, 0, one));
  refused(g.SetBackEdge(node, 9, one));
  refused(g.SetBackEdge(nullptr, 0, one));
  refused(g.SetBackEdge(node, 0, Output()));
  refused(g.AddControlEdge(nullptr, node));
  refused(g.AddControlEdge(node, nullptr));
  refused(g.AddControlEdge(Elsewhere().node, node));
  refused(g.AddControlEdge(node, Elsewhere().node));
  refused(g.SetShape(Output(), PartialShape({1})));
  refused(g.SetShape(Output(node, 3), PartialShape({1})));
  refused(g.SetShape(Elsewhere(), PartialShape({1})));
  refused(g.SetShape(Output(node), PartialShape({4, 5})));
  EXPECT_EQ(g.FindNode(""), nullptr);
  EXPECT_EQ(g.FindNode(Rubbish(1000)), nullptr);
  ExpectRefused(g.LookupNode(""), "");
  for (const char* name : {"", ":", "Neg:", "Neg:x", "Neg:1", "Neg:-1",
                           "Neg:99999999999999999999", "^Neg", "Nge:0"})
    EXPECT_FALSE(g.FindOutput(name).ok()) << name;
  (void)g.UniqueName("");
  (void)g.UniqueName(Rubbish(100));
  (void)g.UniqueScope("");
  EXPECT_STREQ(g.Intern(""), "");
  g.RecordError(OkStatus());
  EXPECT_TRUE(g.status().ok());
  g.RecordError(NotFound("first"));
  g.RecordError(NotFound("second"));
  EXPECT_EQ(g.status().message(), "first");
  g.ClearErrors();
  EXPECT_TRUE(TopologicalOrder(g).ok());
  EXPECT_EQ(static_cast<size_t>(g.num_nodes()), g.nodes().size());
  const std::vector<uint8_t> short_marks(1, 1);
  EXPECT_TRUE(TopologicalOrder(Graph()).ok());
  const std::lock_guard<std::recursive_mutex> lock(g.mutex());
}

HOSTILE(EveryOpWithRubbish, "Build BuildNode OpRegistry::All") {
  for (const OpDef* op : OpRegistry::Global()->All()) {
    Graph g;
    const WithGraph use(g);
    const Output one = Constant(1.0f);
    const std::vector<std::vector<Output>> inputs = {
        {},
        {Output()},
        {one},
        {one, one, one, one, one, one},
        {Elsewhere()},
        {Output(one.node, 5), Output(one.node, -5)}};
    std::vector<AttrMap> attrs(1);
    for (const AttrValue& v : std::vector<AttrValue>{
             AttrValue(), INT64_MAX, INT64_MIN, -1.0, "", DType::kInvalid,
             static_cast<DType>(123), PartialShape({-9}), Shape({-1}), Tensor(),
             AttrValue::Ints{INT64_MIN}, AttrValue::Types{DType::kInvalid},
             AttrValue::Types(40, DType::kFloat), AttrValue::Strings{""},
             AttrValue::Tensors{Tensor()}, FunctionRef{}}) {
      attrs.emplace_back();
      for (const AttrDef& def : op->attrs) attrs.back()[def.name] = v;
    }
    for (const auto& in : inputs)
      for (const AttrMap& with : attrs) {
        Node* const made = BuildNode(op->name, in, with);
        if (made == nullptr) continue;
        for (int i = 0; i < made->num_outputs(); ++i)
          EXPECT_TRUE(IsValidDType(static_cast<int>(made->output_type(i))))
              << made->Describe();
      }
    EXPECT_NE(g.status().code(), StatusCode::kInternal)
        << op->name << ": " << g.status();
  }
}

// ---- Builders ---------------------------------------------------------------

HOSTILE(OperandsThatCannotBe,
        "Operand::Operand Operand::Get Constant ScalarOf IntVector "
        "ScalarTensor BuildError Build BuildNode") {
  ExpectRecorded("expected a value, got none",
                 [] { EXPECT_NULL(Constant(Tensor())); });
  ExpectRecorded("got [-1,2]", [] {
    EXPECT_NULL(Constant(Tensor(DType::kFloat, {-1, 2})));
  });
  ExpectRecorded("got 3", [] {
    EXPECT_NULL(ops::Neg(Tensor::Of<float>({2, 2}, {1, 2, 3})));
  });
  ExpectRecorded("expected a value, got none",
                 [] { EXPECT_NULL(Operand(Tensor()).Get(DType::kFloat)); });
  EXPECT_TRUE(RecordedBy([] {
                EXPECT_NULL(Operand(Output()).Get());
                EXPECT_NULL(Operand(static_cast<Node*>(nullptr)).Get());
                EXPECT_TRUE(
                    Operand(static_cast<const char*>(nullptr)).Get().valid());
                EXPECT_TRUE(IntVector(std::vector<int32_t>()).valid());
              }).ok());
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const DType t : {DType::kInvalid, DType::kResource, DType::kVariant,
                        MakeRef(DType::kFloat), static_cast<DType>(99)}) {
    (void)RecordedBy([&] { EXPECT_NULL(ScalarOf(t, 1) && !IsRef(t)); });
    EXPECT_TRUE(IsRef(t) || !ScalarTensor(t, 1).ok());
  }
  for (const double v : {nan, 1e300, -1e300, 0.5, 300.0})
    for (int t = 1; t < 24; ++t)
      (void)ScalarTensor(static_cast<DType>(t), v).status();
  ExpectRecorded("", [] { (void)Operand(1.5).Get(DType::kInt32); });
  ExpectRecorded("", [] { (void)Operand(300).Get(DType::kUint8); });
  ExpectRecorded("no such", [] {
    EXPECT_NULL(BuildError(NotFound("no such")));
    EXPECT_NULL(BuildError(OkStatus()));
  });
  ExpectRecorded("", [] { EXPECT_EQ(BuildNode("", {}), nullptr); });
  ExpectRecorded("of another", [] { EXPECT_NULL(ops::Neg(Elsewhere())); });
}

HOSTILE(ScopesOfRubbish,
        "WithGraph::WithGraph NameScope::NameScope NameScope::prefix "
        "CurrentNamePrefix DeviceScope::DeviceScope ColocateWith::ColocateWith "
        "ControlDependencies::ControlDependencies CurrentControlDependencies "
        "NoControlDependencies::NoControlDependencies AtLine::AtLine "
        "GradientOverride::GradientOverride ContextScope::ContextScope "
        "CurrentContext InLoopCondition CurrentGraph MergeDevices "
        "DeviceFunctionScope::DeviceFunctionScope DeviceOfNewNode "
        "ApplyDeviceScopes NoDeviceScope::NoDeviceScope") {
  const auto builds = [] { return Constant(1.0f); };
  for (const char* name : {"a b", "\n", "/", "//", "_", "", "^", ":0"})
    (void)RecordedBy([&] {
      const NameScope scope(name);
      const Output o = builds();
      (void)scope.prefix();
      (void)CurrentNamePrefix();
      EXPECT_EQ(o.valid(), CurrentGraph().status().ok());
    });
  for (const char* device :
       {"garbage", "/job:", "/device:CPU:x", "/task:-1",
        "/task:99999999999999999999", "/cpu:0/cpu:1/gpu", "/job:a b"}) {
    ExpectRecorded("device", [&] {
      const DeviceScope scope(device);
      (void)builds();
    });
    EXPECT_FALSE(MergeDevices(device, "").ok()) << device;
    EXPECT_FALSE(MergeDevices("", device).ok()) << device;
    ExpectRecorded("device", [&] {
      const DeviceFunctionScope scope(
          [&](Node*) { return std::string(device); });
      (void)builds();
    });
  }
  ExpectRecorded("expected a function, got none", [&] {
    const DeviceFunctionScope scope(nullptr);
    EXPECT_TRUE(builds().valid());
    EXPECT_TRUE(DeviceOfNewNode().ok());
  });
  ExpectRecorded("", [&] {
    const ControlDependencies scope({Elsewhere().node});
    EXPECT_NULL(builds());
  });
  (void)RecordedBy([&] {
    const ControlDependencies scope({nullptr});
    (void)builds();
    const NoControlDependencies none;
    EXPECT_TRUE(CurrentControlDependencies().empty());
  });
  (void)RecordedBy([&] {
    const ColocateWith scope(nullptr);
    EXPECT_TRUE(builds().valid());
  });
  (void)RecordedBy([&] {
    const ColocateWith scope(Elsewhere().node);
    (void)builds();
  });
  (void)RecordedBy([&] {
    const GradientOverride scope("", "");
    const ContextScope context(nullptr, true);
    const NoDeviceScope devices;
    const AtLine line(SourceLoc{});
    EXPECT_TRUE(builds().valid());
    EXPECT_EQ(CurrentContext(), nullptr);
    (void)InLoopCondition();
  });
  {
    Graph g;
    const WithGraph use(g);
    const Output o = builds();
    const DeviceScope bad("garbage");
    EXPECT_FALSE(g.status().ok());
    (void)ApplyDeviceScopes(o.node).code();
    (void)DeviceOfNewNode().status();
  }
}

HOSTILE(DeviceNames,
        "DeviceName::Parse DeviceName::ToString DeviceName::WithDefaults "
        "DeviceName::Matches DeviceName::CompatibleWith DeviceName::Task "
        "DeviceName::complete") {
  for (const std::string& text :
       {std::string("garbage"), std::string("/job:"), Rubbish(50),
        std::string("/task:2147483648"), std::string("/device:CPU:-2")})
    EXPECT_FALSE(DeviceName::Parse(text).ok()) << text;
  const DeviceName none;
  EXPECT_EQ(none.ToString(), "");
  EXPECT_NULL(none.complete());
  EXPECT_EQ(none.WithDefaults(none).ToString(), "");
  EXPECT_TRUE(none.CompatibleWith(none));
  EXPECT_TRUE(none.Matches(none));
  (void)none.Task();
}

// ---- Import and export ------------------------------------------------------

HOSTILE(GraphDefsOfRubbish,
        "ImportGraphDef ExportGraphDef ExportNodeDef ParseTextGraphDef "
        "PrintTextGraphDef FunctionDefName") {
  for (const std::string& bytes :
       {Rubbish(10), Rubbish(1000), std::string("{"), std::string(1, '\0')}) {
    Graph g;
    ImportResults results;
    EXPECT_FALSE(ImportGraphDef(bytes, g, {}, &results).ok());
    EXPECT_FALSE(PrintTextGraphDef(bytes).ok());
    EXPECT_FALSE(FunctionDefName(bytes).ok());
    EXPECT_FALSE(ParseTensorProto(bytes).ok());
    EXPECT_FALSE(ParseTextGraphDef(bytes).ok());
  }
  Graph g;
  const WithGraph use(g);
  const Output one = Constant(1.0f, CallerLoc());
  const std::string bytes = *ExportGraphDef(g);
  using O = ImportOptions;
  const auto import = [&](const std::function<void(O*)>& set) {
    Graph into;
    ImportOptions options;
    set(&options);
    return ImportGraphDef(bytes, into, options);
  };
  ExpectRefused(import([&](O* o) { o->return_elements = {"no_such"}; }),
                "no_such");
  ExpectRefused(import([&](O* o) { o->return_elements = {"Const:7"}; }),
                "Const:7");
  EXPECT_FALSE(import([&](O* o) { o->return_elements = {""}; }).ok());
  EXPECT_FALSE(import([&](O* o) { o->return_elements = {":"}; }).ok());
  (void)import([&](O* o) { o->prefix = "a b"; }).code();
  (void)import([&](O* o) { o->input_map = {{"", Output()}}; }).code();
  (void)import([&](O* o) { o->input_map = {{"Const", Elsewhere()}}; }).code();
  (void)import([&](O* o) {
    o->input_map = {{"Const:x", Output(one.node, 9)}};
  }).code();
  (void)import([&](O* o) {
    o->control_input_map = {{"Const", nullptr}};
  }).code();
  EXPECT_FALSE(import([&](O* o) { o->control_dependencies = {nullptr}; }).ok());
  EXPECT_FALSE(
      import([&](O* o) { o->control_dependencies = {one.node}; }).ok());
  (void)import([&](O* o) { o->default_device = "garbage"; }).code();
  EXPECT_TRUE(ExportNodeDef(*one.node).ok());
  EXPECT_FALSE(SerializeTensorProto(Tensor()).ok());
  EXPECT_FALSE(SerializeTensorProto(Tensor(DType::kFloat, {-1})).ok());
  Graph open;
  {
    const WithGraph there(open);
    (void)OpenMerge(ops::Enter(0, "loop"));
  }
  EXPECT_EQ(ExportGraphDef(open).status().code(),
            StatusCode::kFailedPrecondition);
}

// ---- Custom ops -------------------------------------------------------------

HOSTILE(DeclarationsOfRubbish,
        "OpDefBuilder::OpDefBuilder OpDefBuilder::Input OpDefBuilder::Output "
        "OpDefBuilder::Attr OpDefBuilder::Finish OpDefBuilder::Role "
        "OpDefBuilder::ReachesHost OpDefBuilder::Stateful "
        "OpDefBuilder::Commutative OpDefBuilder::Kind OpDefBuilder::Waits "
        "OpDefBuilder::HostInput OpDefBuilder::HostOnly "
        "OpDefBuilder::TouchesNoElements OpFacts::pure ReadsOnlyShapes "
        "IsContainer "
        "OpDefBuilder::AllowsUninitializedInput OpDefBuilder::Shape "
        "OpDefBuilder::Kernel OpDefBuilder::Grad OpDefBuilder::NoGradient "
        "OpDefBuilder::Sample OpDefBuilder::Doc OpDefBuilder::Family "
        "OpDefBuilder::name OpDef::FindAttr OpDef::Signature "
        "OpRegistry::Global OpRegistry::Find OpRegistry::Lookup "
        "OpRegistry::All NearestNames TypesOf LoadOpLibrary") {
  for (const char* spec : {"", ":", "x", "x:", ": T", "x: nothing", "x: N *",
                           "x: Ref(", "x y: float", "T: {float", "T: type = 3",
                           "T: int >= x", "T: {'a', = 'b'", "x: 99 * float"}) {
    EXPECT_FALSE(OpDefBuilder("Hostile").Input(spec).Finish().ok()) << spec;
    EXPECT_FALSE(OpDefBuilder("Hostile").Output(spec).Finish().ok()) << spec;
    EXPECT_FALSE(OpDefBuilder("Hostile").Attr(spec).Finish().ok()) << spec;
  }
  for (const char* name : {"", "y", "x: float", ":"})
    EXPECT_FALSE(
        OpDefBuilder("Hostile").Input("x: float").HostInput(name).Finish().ok())
        << name;
  for (const auto kind : {OpKind::kOther, static_cast<OpKind>(255)})
    EXPECT_FALSE(ReadsOnlyShapes(kind) || IsContainer(kind));
  const Result<OpDef> empty = OpDefBuilder("")
                                  .Role(OpRole::kCompute)
                                  .Stateful()
                                  .ReachesHost(nullptr)
                                  .Kind(static_cast<OpKind>(255))
                                  .Waits()
                                  .HostOnly()
                                  .TouchesNoElements()
                                  .Commutative()
                                  .AllowsUninitializedInput()
                                  .Shape(nullptr)
                                  .Kernel(nullptr)
                                  .Grad(nullptr)
                                  .NoGradient("")
                                  .Sample({})
                                  .Doc("")
                                  .Family("")
                                  .Finish();
  EXPECT_EQ(OpDefBuilder("").name(), "");
  if (empty.ok()) {
    EXPECT_EQ(empty->FindAttr(""), nullptr);
    EXPECT_FALSE(empty->facts.pure());
    (void)empty->Signature();
  }
  EXPECT_EQ(OpRegistry::Global()->Find(""), nullptr);
  ExpectRefused(OpRegistry::Global()->Lookup(""), "");
  ExpectRefused(OpRegistry::Global()->Lookup(Rubbish(500)), "");
  EXPECT_TRUE(NearestNames("", {}).empty());
  EXPECT_EQ(NearestNames("", {"a"}, 0).size(), 0u);
  ArgDef list;
  list.type_list_attr = "T";
  EXPECT_FALSE(TypesOf({list}, {}).ok());
  list = ArgDef();
  list.number_attr = "N";
  EXPECT_FALSE(TypesOf({list}, {{"N", -1}}).ok());
  EXPECT_FALSE(TypesOf({list}, {{"N", INT64_MAX}}).ok());
  list = ArgDef();
  list.type_attr = "T";
  EXPECT_FALSE(TypesOf({list}, {{"T", 3}}).ok());
  for (const char* path : {"", "/", "/no/such.so", "/dev/null"})
    EXPECT_FALSE(LoadOpLibrary(path).ok()) << path;
}

HOSTILE(ShapeFunctionsThatAskForMore,
        "ShapeContext::ShapeContext ShapeContext::input ShapeContext::constant "
        "ShapeContext::ConstantInt ShapeContext::InputAsShape "
        "ShapeContext::ResourceShape ShapeContext::ResourceType "
        "ShapeContext::set_output "
        "ShapeContext::set_all_outputs ShapeContext::outputs "
        "ShapeContext::WithRank ShapeContext::WithRankAtLeast "
        "ShapeContext::WithRankAtMost ShapeContext::RequireScalar "
        "ShapeContext::node ShapeContext::num_inputs ShapeContext::num_outputs "
        "ShapeContext::producer_version "
        "MergeDim CanonicalAxis BroadcastShapes WindowOutputSize UnknownShape "
        "UnchangedShape ScalarShape NoOutputs BroadcastBinaryShape "
        "MergeBothShape ReductionShape ConstantValue ConstantAsShape "
        "VariableShape VariableDType") {
  Graph g;
  const WithGraph use(g);
  Node* const none = BuildNode("NoOp", {});
  Node* const one = Constant(1.0f).node;
  for (const Node* node : {none, one}) {
    ShapeContext c(*node);
    for (const int i : {-1, 0, 1, 77, INT_MAX, INT_MIN}) {
      EXPECT_FALSE(c.input(i).rank_known());
      EXPECT_EQ(c.constant(i), nullptr);
      EXPECT_EQ(c.ConstantInt(i), std::nullopt);
      EXPECT_FALSE(c.InputAsShape(i)->rank_known());
      EXPECT_FALSE(c.ResourceShape(i).rank_known());
      EXPECT_EQ(c.ResourceType(i), DType::kInvalid);
      EXPECT_TRUE(c.RequireScalar(i).ok());
      for (const int rank : {-1, 0, 9, INT_MAX})
        if (rank < 10) {
          (void)c.WithRank(i, rank).status();
          (void)c.WithRankAtLeast(i, rank).status();
          (void)c.WithRankAtMost(i, rank).status();
        }
      if (i != 0) c.set_output(i, PartialShape({i}));
    }
    c.set_all_outputs(PartialShape({-4}));
    EXPECT_EQ(c.outputs().size(), static_cast<size_t>(c.num_outputs()));
    EXPECT_EQ(c.num_inputs(), 0);
    EXPECT_EQ(c.producer_version(), 0);
    EXPECT_EQ(&c.node(), node);
    for (Status (*fn)(ShapeContext&) :
         {UnknownShape, UnchangedShape, ScalarShape, NoOutputs,
          BroadcastBinaryShape, MergeBothShape, ReductionShape})
      (void)fn(c).code();
  }
  ExpectRefused(MergeDim(2, 3), "2 and 3");
  EXPECT_TRUE(MergeDim(INT64_MIN, -1).ok());
  for (const int64_t axis : {INT64_MIN, int64_t{-3}, int64_t{2}, INT64_MAX})
    ExpectRefused(CanonicalAxis(axis, 2), "axis");
  EXPECT_FALSE(CanonicalAxis(0, 0).ok());
  EXPECT_FALSE(BroadcastShapes({2}, {3}).ok());
  int64_t before = -5, after = -5;
  for (const int64_t v : {INT64_MIN, int64_t{-1}, int64_t{0}}) {
    EXPECT_FALSE(WindowOutputSize(4, 2, 1, v, "SAME", &before, &after).ok());
    EXPECT_FALSE(WindowOutputSize(4, 2, v, 1, "SAME", &before, &after).ok());
  }
  for (const int64_t in : {INT64_MAX, int64_t{4}})
    for (const int64_t window : {INT64_MIN, int64_t{0}, INT64_MAX})
      for (const char* padding : {"", "SAME", "VALID", "EXPLICIT", "none"}) {
        before = after = INT64_MAX;
        (void)WindowOutputSize(in, window, INT64_MAX, 1, padding, &before,
                               &after)
            .status();
      }
  EXPECT_EQ(ConstantValue(Output()), std::nullopt);
  EXPECT_EQ(ConstantValue(Output(one, 3)), std::nullopt);
  EXPECT_FALSE(ConstantAsShape(Output())->rank_known());
  (void)ConstantAsShape(Output(one, -3)).status();
  (void)ConstantAsShape(Output(one)).status();
  EXPECT_FALSE(VariableShape(Output()).rank_known());
  EXPECT_EQ(VariableDType(Output()), DType::kInvalid);
  EXPECT_EQ(VariableDType(Output(one)), DType::kInvalid);
  EXPECT_FALSE(VariableShape(Output(one)).rank_known());
}

HOSTILE(GradientsOfNothingByHand,
        "GradContext::input GradContext::output GradContext::DyOrZeros "
        "Gradient::Gradient Gradient::Slices Gradient::is_sparse "
        "grad::Undefined grad::HasGradient grad::TypeOf grad::Number grad::Add "
        "grad::Sub grad::Mul grad::Div grad::Neg grad::Square grad::Select "
        "grad::Conj grad::Cast grad::ShapeOf grad::RankOf grad::SizeOf "
        "grad::ZerosLike grad::OnesLike grad::ReshapeTo grad::ReshapeLike "
        "grad::ExpandDims grad::Transpose grad::SumAxes grad::SumOver "
        "grad::SumToShape grad::BroadcastAxes grad::SumToShapeOf") {
  (void)RecordedBy([] {
    const Output none;
    EXPECT_EQ(grad::TypeOf(none), DType::kInvalid);
    for (const Output& o : {grad::Number(none, 1),
                            grad::Add(none, none),
                            grad::Sub(none, none),
                            grad::Mul(none, none),
                            grad::Div(none, none),
                            grad::Neg(none),
                            grad::Square(none),
                            grad::Select(none, none, none),
                            grad::Conj(none),
                            grad::Cast(none, DType::kFloat),
                            grad::ShapeOf(none),
                            grad::RankOf(none),
                            grad::SizeOf(none),
                            grad::ZerosLike(none),
                            grad::OnesLike(none),
                            grad::ReshapeTo(none, none),
                            grad::ReshapeLike(none, none),
                            grad::ExpandDims(none, 3),
                            grad::Transpose(none, {}),
                            grad::SumAxes(none, {-7}),
                            grad::SumOver(none, none),
                            grad::SumToShape(none, none, none),
                            grad::SumToShapeOf(none, none)})
      EXPECT_NULL(o);
  });
  Graph g;
  const WithGraph use(g);
  const Output one = Constant(1.0f);
  GradContext c;
  c.op = one.node;
  for (const int i : {-1, 0, 3}) {
    EXPECT_NULL(c.input(i));
    (void)c.output(i);
    (void)c.DyOrZeros(i);
  }
  EXPECT_FALSE(grad::Undefined(c).ok());
  EXPECT_NULL(grad::HasGradient(OpDef()));
  EXPECT_NULL(Gradient());
  EXPECT_NULL(Gradient::Slices(Output(), Output(), Output()).is_sparse());
  EXPECT_NULL(grad::BroadcastAxes(PartialShape(), PartialShape()).has_value());
  (void)grad::Cast(one, DType::kInvalid);
  (void)grad::Transpose(one, {5, 5});
  (void)grad::ExpandDims(one, INT_MIN);
  EXPECT_FALSE(g.status().ok());
}

HOSTILE(KernelsThatCannotRun, "RunKernel Located IsLocated NoKernelFor") {
  Graph g;
  const WithGraph use(g);
  const Output x = Placeholder<float>({-1});
  const Node* const neg = ops::Neg(x).node;
  const std::vector<std::vector<Tensor>> inputs = {
      {},
      {Tensor()},
      {Tensor::Scalar<int32_t>(1)},
      {Tensor::Scalar(1.0f), Tensor::Scalar(1.0f)},
      {Tensor(DType::kFloat, {-1})}};
  for (const auto& in : inputs) EXPECT_FALSE(RunKernel(*neg, in).ok());
  EXPECT_FALSE(RunKernel(*x.node, {}).ok());
  EXPECT_FALSE(NoKernelFor(*neg, DType::kInvalid).ok());
  EXPECT_NULL(IsLocated(OkStatus()));
  EXPECT_TRUE(IsLocated(Located(NotFound("x"))));
  EXPECT_TRUE(Located(OkStatus()).ok());
}

}  // namespace
}  // namespace sluice
