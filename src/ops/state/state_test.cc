// Variables and the other state of a session, through whole steps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "base/sanitizers.h"
#include "graph/builder.h"
#include "session/session.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Tensor Vec(std::initializer_list<float> v) { return Tensor::Vector<float>(v); }
Tensor Mat(const Shape& s, std::initializer_list<float> v) {
  return Tensor::Of<float>(s, v);
}
Tensor Idx(std::initializer_list<int32_t> v) {
  return Tensor::Vector<int32_t>(v);
}

// A variable of either kind, with the operations that tests use.
class VarUnderTest {
 public:
  VarUnderTest(bool resource, const std::string& name, DType dtype,
               PartialShape shape)
      : resource_(resource), dtype_(dtype) {
    handle = Build(resource ? "VarHandleOp" : "VariableV2", {},
                   {{"dtype", dtype}, {"shape", shape}}, name);
  }
  Node* Assign(Output value, AttrMap attrs = {}) const {
    return BuildNode(resource_ ? "AssignVariableOp" : "Assign", {handle, value},
                     std::move(attrs));
  }
  Node* Change(const std::string& op, Output value) const {
    return BuildNode(resource_ ? op + "VariableOp" : op, {handle, value});
  }
  Node* Scatter(const std::string& op, Tensor indices, Tensor updates) const {
    return BuildNode((resource_ ? "Resource" : "") + op,
                     {handle, Constant(indices), Constant(updates)});
  }
  Output Read() const {
    return resource_ ? Build("ReadVariableOp", {handle}, {{"dtype", dtype_}})
                     : Build("Identity", {handle});
  }
  Output IsInitialized() const {
    return Build(resource_ ? "VarIsInitializedOp" : "IsVariableInitialized",
                 {handle});
  }
  Output handle;

 private:
  bool resource_;
  DType dtype_;
};

// Runs with variables by handle and by reference.
class State : public ::testing::TestWithParam<bool> {
 protected:
  State() : use_(graph_) {}
  VarUnderTest MakeVar(const std::string& name, Shape shape,
                       DType dtype = DType::kFloat) {
    return VarUnderTest(GetParam(), name, dtype, shape);
  }
  void Do(Session& s, Node* n) {
    ASSERT_TRUE(graph_.status().ok()) << graph_.status();
    const Status done = s.RunTargets({n});
    ASSERT_TRUE(done.ok()) << done;
  }
  std::vector<float> Get(Session& s, const VarUnderTest& v) {
    const Result<Tensor> t = s.Run(v.Read());
    EXPECT_TRUE(t.ok()) << t.status();
    return t.ok() ? t->ToVector<float>() : std::vector<float>();
  }

  Graph graph_;
  WithGraph use_;
};

INSTANTIATE_TEST_SUITE_P(Kinds, State, ::testing::Bool(), [](const auto& info) {
  return info.param ? "ByHandle" : "ByReference";
});

TEST_P(State, KeepsItsValueBetweenSteps) {
  const VarUnderTest v = MakeVar("v", {2});
  Node* init = v.Assign(Constant(Vec({1, 2})));
  Node* add = v.Change("AssignAdd", Constant(Vec({10, 20})));
  Node* sub = v.Change("AssignSub", Constant(Vec({1, 1})));
  Session s;
  Do(s, init);
  EXPECT_THAT(Get(s, v), ElementsAre(1, 2));
  Do(s, add);
  Do(s, add);
  Do(s, sub);
  EXPECT_THAT(Get(s, v), ElementsAre(20, 41));
}

TEST_P(State, ReadingAnUninitialisedVariableNamesIt) {
  const VarUnderTest v = MakeVar("weights", {2});
  Node* add = v.Change("AssignAdd", Constant(Vec({1, 1})));
  const Output read = v.Read(), known = v.IsInitialized();
  Session s;
  const Status of_read = s.Run(read).status(), of_add = s.RunTargets({add});
  EXPECT_EQ(of_read.code(), StatusCode::kFailedPrecondition) << of_read;
  EXPECT_EQ(of_add.code(), GetParam() ? StatusCode::kNotFound
                                      : StatusCode::kFailedPrecondition)
      << of_add;
  for (const Status& e : {of_read, of_add})
    EXPECT_THAT(std::string(e.message()), HasSubstr("weights"));
  EXPECT_FALSE(s.Run(known)->scalar<bool>());
  Do(s, v.Assign(Constant(Vec({1, 2}))));
  EXPECT_TRUE(s.Run(known)->scalar<bool>());
}

TEST_P(State, ValueReadBeforeUpdateIsUnchanged) {
  const VarUnderTest v = MakeVar("v", {3});
  Session s;
  Do(s, v.Assign(Constant(Vec({1, 2, 3}))));
  const Tensor before = *s.Run(v.Read());
  Do(s, v.Change("AssignAdd", Constant(Vec({5, 5, 5}))));
  EXPECT_THAT(before.ToVector<float>(), ElementsAre(1, 2, 3));
  EXPECT_THAT(Get(s, v), ElementsAre(6, 7, 8));
}

TEST_P(State, UpdateDoesNotChangeTheAssignedTensor) {
  const VarUnderTest v = MakeVar("v", {3});
  const Output fed = Build("Placeholder", {}, {{"dtype", DType::kFloat}});
  Node* assign = v.Assign(fed);
  Session s;
  const Tensor mine = Vec({1, 2, 3});
  ASSERT_TRUE(s.RunTargets({assign}, {{fed, mine}}).ok());
  Do(s, v.Change("AssignAdd", Constant(Vec({5, 5, 5}))));
  EXPECT_THAT(mine.ToVector<float>(), ElementsAre(1, 2, 3));
}

TEST_P(State, UpdatesInPlaceIfBufferIsUnshared) {
  const VarUnderTest v = MakeVar("v", {64});
  Session s;
  Node* init =
      v.Assign(Constant(Tensor::Vector<float>(std::vector<float>(64, 1))));
  Do(s, init);
  Node* add = v.Change(
      "AssignAdd", Constant(Tensor::Vector<float>(std::vector<float>(64, 2))));
  const Output read = v.Read();
  Do(s, add);  // May copy: the initial value may belong to a constant.
  const void* at = s.Run(read)->raw();
  Do(s, add);
  EXPECT_EQ(s.Run(read)->raw(), at);
  EXPECT_EQ(s.Run(read)->flat<float>()[63], 5);
}

TEST_P(State, SameNameIsTheSameVariable) {
  const std::string op = GetParam() ? "VarHandleOp" : "VariableV2";
  const AttrMap attrs = {{"dtype", DType::kFloat},
                         {"shape", PartialShape({1})},
                         {"shared_name", "shared"}};
  const VarUnderTest v(GetParam(), "shared", DType::kFloat, PartialShape({1}));
  const Output other = Build(op, {}, attrs, "other");
  Session s;
  Do(s, v.Assign(Constant(Vec({7}))));
  const Output read =
      GetParam() ? Build("ReadVariableOp", {other}, {{"dtype", DType::kFloat}})
                 : Build("Identity", {other});
  EXPECT_THAT(s.Run(read)->ToVector<float>(), ElementsAre(7));
}

TEST_P(State, ContainersSeparateVariables) {
  const std::string op = GetParam() ? "VarHandleOp" : "VariableV2";
  AttrMap attrs = {{"dtype", DType::kFloat},
                   {"shape", PartialShape({1})},
                   {"shared_name", "v"}};
  const VarUnderTest v(GetParam(), "v", DType::kFloat, PartialShape({1}));
  attrs["container"] = "elsewhere";
  VarUnderTest other = v;
  other.handle = Build(op, {}, attrs, "w");
  const Output known = other.IsInitialized();
  Session s;
  Do(s, v.Assign(Constant(Vec({7}))));
  EXPECT_FALSE(s.Run(known)->scalar<bool>());
  Do(s, other.Assign(Constant(Vec({8}))));
  EXPECT_THAT(Get(s, v), ElementsAre(7));
  s.resources().ClearContainer("elsewhere");
  EXPECT_FALSE(s.Run(known)->scalar<bool>());
  EXPECT_THAT(Get(s, v), ElementsAre(7));
}

TEST_P(State, SessionsShareOnlyOnRequest) {
  const VarUnderTest v = MakeVar("v", {1});
  Node* init = v.Assign(Constant(Vec({7})));
  const Output known = v.IsInitialized();
  SessionOptions together;
  together.resources = std::make_shared<ResourceManager>();
  Session a, b, c(graph_, together), d(graph_, together);
  Do(a, init);
  EXPECT_FALSE(b.Run(known)->scalar<bool>());
  Do(c, init);
  EXPECT_TRUE(d.Run(known)->scalar<bool>());
}

TEST_P(State, ValuesOfAnotherShapeAreRefused) {
  const VarUnderTest v = MakeVar("v", {2});
  const Output fed = Build("Placeholder", {}, {{"dtype", DType::kFloat}});
  Node* assign = v.Assign(fed, {{"validate_shape", true}});
  Node* add = v.Change("AssignAdd", fed);
  Session s;
  EXPECT_EQ(s.RunTargets({assign}, {{fed, Vec({1})}}).code(),
            StatusCode::kInvalidArgument);
  ASSERT_TRUE(s.RunTargets({assign}, {{fed, Vec({1, 2})}}).ok());
  EXPECT_EQ(s.RunTargets({assign}, {{fed, Vec({1})}}).code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(s.RunTargets({add}, {{fed, Vec({1})}}).code(),
            StatusCode::kInvalidArgument);
  EXPECT_THAT(Get(s, v), ElementsAre(1, 2));
}

TEST_P(State, HoldsAnyType) {
  const VarUnderTest v = MakeVar("v", {2}, DType::kString);
  Session s;
  Do(s, v.Assign(Constant(Tensor::Vector<std::string>({"a", "b"}))));
  Do(s,
     v.Scatter("ScatterUpdate", Idx({1}), Tensor::Vector<std::string>({"c"})));
  EXPECT_THAT(s.Run(v.Read())->ToVector<std::string>(), ElementsAre("a", "c"));
}

TEST_P(State, ScatterUpdatesRows) {
  const VarUnderTest v = MakeVar("v", {3, 2});
  Session s;
  const auto after = [&](const std::string& op, Tensor indices,
                         Tensor updates) {
    Do(s, v.Assign(Constant(Mat({3, 2}, {1, 2, 3, 4, 5, 6}))));
    Do(s, v.Scatter(op, std::move(indices), std::move(updates)));
    return Get(s, v);
  };
  const Tensor u = Mat({2, 2}, {10, 20, 2, 5});
  EXPECT_THAT(after("ScatterUpdate", Idx({2, 0}), u),
              ElementsAre(2, 5, 3, 4, 10, 20));
  EXPECT_THAT(after("ScatterAdd", Idx({1, 1}), u),
              ElementsAre(1, 2, 15, 29, 5, 6));
  EXPECT_THAT(after("ScatterSub", Idx({2, 0}), u),
              ElementsAre(-1, -3, 3, 4, -5, -14));
  EXPECT_THAT(after("ScatterMul", Idx({2, 0}), u),
              ElementsAre(2, 10, 3, 4, 50, 120));
  EXPECT_THAT(after("ScatterDiv", Idx({2, 0}), Mat({2, 2}, {5, 2, 1, 2})),
              ElementsAre(1, 1, 3, 4, 1, 3));
  EXPECT_THAT(after("ScatterMin", Idx({2, 0}), u),
              ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(after("ScatterMax", Idx({2, 0}), u),
              ElementsAre(2, 5, 3, 4, 10, 20));
  EXPECT_THAT(after("ScatterAdd", Idx({0}), Tensor::Scalar<float>(1)),
              ElementsAre(2, 3, 3, 4, 5, 6));
  EXPECT_THAT(after("ScatterAdd", Idx({}), Tensor(DType::kFloat, {0, 2})),
              ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST_P(State, ScatterOutOfRangeChangesNothing) {
  const VarUnderTest v = MakeVar("v", {4});
  Session s;
  Do(s, v.Assign(Constant(Vec({1, 2, 3, 4}))));
  const Status e =
      s.RunTargets({v.Scatter("ScatterAdd", Idx({0, 7}), Vec({1, 1}))});
  EXPECT_EQ(e.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(e.message()),
              HasSubstr("indices[1] = 7 is not in [0, 4)"));
  EXPECT_THAT(Get(s, v), ElementsAre(1, 2, 3, 4));
}

TEST_P(State, ScatterNdUpdatesSlices) {
  const VarUnderTest v = MakeVar("v", {2, 2});
  Session s;
  const auto after = [&](const std::string& op, Tensor indices,
                         Tensor updates) {
    Do(s, v.Assign(Constant(Mat({2, 2}, {1, 2, 3, 4}))));
    Do(s, v.Scatter(op, std::move(indices), std::move(updates)));
    return Get(s, v);
  };
  const Tensor places = Tensor::Of<int32_t>(Shape({2, 2}), {1, 0, 0, 1});
  EXPECT_THAT(after("ScatterNdUpdate", places, Vec({7, 8})),
              ElementsAre(1, 8, 7, 4));
  EXPECT_THAT(after("ScatterNdAdd", places, Vec({7, 8})),
              ElementsAre(1, 10, 10, 4));
  EXPECT_THAT(after("ScatterNdSub", Tensor::Of<int32_t>(Shape({1, 1}), {1}),
                    Mat({1, 2}, {1, 1})),
              ElementsAre(1, 2, 2, 3));
  EXPECT_EQ(s.RunTargets({v.Scatter("ScatterNdAdd",
                                    Tensor::Of<int32_t>(Shape({1, 2}), {2, 0}),
                                    Vec({1}))})
                .code(),
            StatusCode::kInvalidArgument);
}

TEST_P(State, StridedSliceAssignUpdatesSlice) {
  const VarUnderTest v = MakeVar("v", {5});
  Node* write = BuildNode(
      GetParam() ? "ResourceStridedSliceAssign" : "StridedSliceAssign",
      {v.handle, Constant(Idx({0})), Constant(Idx({5})), Constant(Idx({2})),
       Constant(Vec({-1, -2, -3}))});
  Session s;
  Do(s, v.Assign(Constant(Vec({1, 2, 3, 4, 5}))));
  Do(s, write);
  EXPECT_THAT(Get(s, v), ElementsAre(-1, 2, -2, 4, -3));
}

TEST_P(State, CountUpToStopsAtItsLimit) {
  const VarUnderTest v = MakeVar("v", {}, DType::kInt32);
  Session s;
  Do(s, v.Assign(Constant(Tensor::Scalar<int32_t>(1))));
  AttrMap attrs = {{"limit", 3}};
  if (GetParam()) attrs["T"] = DType::kInt32;
  const Output next =
      Build(GetParam() ? "ResourceCountUpTo" : "CountUpTo", {v.handle}, attrs);
  EXPECT_EQ(s.Run(next)->scalar<int32_t>(), 1);
  EXPECT_EQ(s.Run(next)->scalar<int32_t>(), 2);
  EXPECT_EQ(s.Run(next).status().code(), StatusCode::kOutOfRange);
}

TEST_P(State, ReadersNeverSeePartialUpdates) {
  constexpr int kSize = 20000;
  const VarUnderTest v = MakeVar("v", {kSize});
  const auto filled = [](float x) {
    return Constant(Tensor::Vector<float>(std::vector<float>(kSize, x)));
  };
  Node* init = v.Assign(filled(0));
  Node* add = v.Change("AssignAdd", filled(1));
  Node* reset = v.Assign(filled(0));
  const Output read = v.Read();
  Session s;
  Do(s, init);
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 60; ++i)
        EXPECT_TRUE(s.RunTargets({i % 10 == 9 && t == 0 ? reset : add}).ok());
      stop = true;
    });
  threads.emplace_back([&] {
    while (!stop) {
      const Result<Tensor> now = s.Run(read);
      ASSERT_TRUE(now.ok()) << now.status();
      for (float x : now->flat<float>()) ASSERT_EQ(x, now->flat<float>()[0]);
    }
  });
  for (std::thread& t : threads) t.join();
}

// ---- By handle only ---------------------------------------------------------

class Resources : public ::testing::Test {
 protected:
  Resources() : use_(graph_) {}
  Output Read(Output v, DType t = DType::kFloat) {
    return Build("ReadVariableOp", {v}, {{"dtype", t}});
  }
  Graph graph_;
  WithGraph use_;
};

TEST_F(Resources, GatherReadsRows) {
  const VarUnderTest v(true, "v", DType::kFloat, PartialShape({3, 2}));
  Node* init = v.Assign(Constant(Mat({3, 2}, {1, 2, 3, 4, 5, 6})));
  const AttrMap attrs = {{"dtype", DType::kFloat}};
  const Output rows =
      Build("ResourceGather", {v.handle, Constant(Idx({2, 0}))}, attrs);
  const Output places = Build(
      "ResourceGatherNd",
      {v.handle, Constant(Tensor::Of<int32_t>(Shape({2, 2}), {2, 1, 0, 0}))},
      attrs);
  const Output bad =
      Build("ResourceGather", {v.handle, Constant(Idx({0, 3}))}, attrs);
  EXPECT_EQ(rows.shape(), PartialShape({2, 2}));
  EXPECT_EQ(places.shape(), PartialShape({2}));
  Session s;
  ASSERT_TRUE(s.RunTargets({init}).ok());
  EXPECT_THAT(s.Run(rows)->ToVector<float>(), ElementsAre(5, 6, 1, 2));
  EXPECT_THAT(s.Run(places)->ToVector<float>(), ElementsAre(6, 1));
  EXPECT_THAT(std::string(s.Run(bad).status().message()),
              HasSubstr("indices[1]"));
}

TEST_F(Resources, VariableShapeReturnsShapeOfValue) {
  const VarUnderTest v(true, "v", DType::kFloat, PartialShape::Unknown());
  Node* init = v.Assign(Constant(Mat({3, 1}, {1, 2, 3})));
  const Output shape = Build("VariableShape", {v.handle});
  Session s;
  ASSERT_TRUE(s.RunTargets({init}).ok());
  EXPECT_THAT(s.Run(shape)->ToVector<int32_t>(), ElementsAre(3, 1));
}

TEST_F(Resources, DestroyedVariableIsUninitialized) {
  const VarUnderTest v(true, "v", DType::kFloat, PartialShape({1}));
  Node* init = v.Assign(Constant(Vec({1})));
  Node* destroy = BuildNode("DestroyResourceOp", {v.handle});
  const Output known = v.IsInitialized(), read = v.Read();
  Node* add = BuildNode("AssignAddVariableOp", {v.handle, Constant(Vec({1}))});
  const Output shape = Build("VariableShape", {v.handle});
  const Output row = Build("ResourceGather", {v.handle, Constant<int32_t>(0)},
                           {{"dtype", DType::kFloat}});
  Session s;
  ASSERT_TRUE(s.RunTargets({init}).ok());
  ASSERT_TRUE(s.RunTargets({destroy}).ok());
  EXPECT_FALSE(s.Run(known)->scalar<bool>());
  EXPECT_EQ(s.Run(read).status().code(), StatusCode::kFailedPrecondition);
  for (Node* use : {add, shape.node, row.node})
    EXPECT_EQ(s.RunTargets({use}).code(), StatusCode::kNotFound)
        << use->op_name();
  ASSERT_TRUE(s.RunTargets({init}).ok());
  EXPECT_TRUE(s.Run(known)->scalar<bool>());
}

TEST_F(Resources, ReadingAsAnotherTypeIsAnError) {
  const VarUnderTest v(true, "v", DType::kFloat, PartialShape({1}));
  Node* init = v.Assign(Constant(Vec({1})));
  const Output read = Read(v.handle, DType::kInt32);
  Session s;
  ASSERT_TRUE(s.RunTargets({init}).ok());
  EXPECT_EQ(s.Run(read).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(Resources, SessionHandlesKeepTensors) {
  const Output handle = Build("GetSessionHandle", {Constant(Vec({1, 2}))});
  const Output fed = Build("Placeholder", {}, {{"dtype", DType::kString}});
  const Output back =
      Build("GetSessionTensor", {fed}, {{"dtype", DType::kFloat}});
  Node* forget = BuildNode("DeleteSessionTensor", {fed});
  Session s;
  const Result<Tensor> h = s.Run(handle);
  ASSERT_TRUE(h.ok()) << h.status();
  EXPECT_THAT(s.Run(Feeds{{fed, *h}}, back)->ToVector<float>(),
              ElementsAre(1, 2));
  ASSERT_TRUE(s.RunTargets({forget}, {{fed, *h}}).ok());
  EXPECT_EQ(s.Run(Feeds{{fed, *h}}, back).status().code(),
            StatusCode::kInvalidArgument);
}

TEST_F(Resources, DestroyTemporaryVariableReturnsItsValue) {
  const Output t = Build("TemporaryVariable", {},
                         {{"dtype", DType::kFloat},
                          {"shape", PartialShape({2})},
                          {"var_name", "scratch"}});
  const Output set = Build("Assign", {t, Constant(Vec({1, 2}))});
  const Output sum = Build("AssignAdd", {set, Constant(Vec({1, 1}))});
  const Output last =
      Build("DestroyTemporaryVariable", {sum}, {{"var_name", "scratch"}});
  Session s;
  for (int i = 0; i < 2; ++i) {
    const Result<Tensor> r = s.Run(last);
    ASSERT_TRUE(r.ok()) << r.status();
    EXPECT_THAT(r->ToVector<float>(), ElementsAre(2, 3));
  }
}

TEST_F(Resources, MutexIsHeldByOneStepAtATime) {
  const Output mutex = Build("MutexV2", {});
  const Output lock = Build("MutexLock", {mutex});
  const VarUnderTest v(true, "v", DType::kInt32, PartialShape({}));
  Node* init = v.Assign(Constant(Tensor::Scalar<int32_t>(0)));
  // Separate reads and writes, which lose updates unless steps take turns.
  Node* write = nullptr;
  {
    ControlDependencies after({lock.node});
    const Output now = v.Read();
    write = v.Assign(Build("AddV2", {now, Constant(int32_t{1})}));
  }
  Node* unlock = nullptr;
  {
    ControlDependencies after({write});
    unlock = BuildNode("ConsumeMutexLock", {lock});
  }
  Session s;
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  ASSERT_TRUE(s.RunTargets({init}).ok());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 25; ++i) {
        const Status done = s.RunTargets({unlock});
        EXPECT_TRUE(done.ok()) << done;
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(s.Run(v.Read())->scalar<int32_t>(), 100);
}

TEST_F(Resources, MutexWaitEndsWithItsStep) {
  const Output mutex = Build("MutexV2", {});
  const Output first = Build("MutexLock", {mutex});
  Node* second = nullptr;
  {
    ControlDependencies after({first.node});
    second = BuildNode("MutexLock", {mutex});
  }
  Node* both = nullptr;
  {
    ControlDependencies after({second});
    both = BuildNode("ConsumeMutexLock", {first});
  }
  Session s;
  RunOptions options;
  options.timeout_ms = 50;
  const auto r = s.Run({}, {}, {both}, options);
  EXPECT_EQ(r.status().code(), StatusCode::kDeadlineExceeded) << r.status();
  // The mutex is free again.
  Node* unlock = BuildNode("ConsumeMutexLock", {first});
  options.timeout_ms = 10000;
  EXPECT_TRUE(s.Run({}, {}, {unlock}, options).ok());
}

TEST_F(Resources, MutexSkipsManyCancelledWaits) {
  const Output mutex = Build("MutexV2", {});
  const Output first = Build("MutexLock", {mutex});
  std::vector<Node*> waits;
  {
    ControlDependencies after({first.node});
    for (int i = 0; i < (kSanitized ? 20'000 : 100'000); ++i)
      waits.push_back(BuildNode("MutexLock", {mutex}));
  }
  Session s;
  RunOptions options;
  options.timeout_ms = 500;
  // A fetched lock is held until the step has ended.
  const auto r = s.Run({}, {first}, waits, options);
  EXPECT_EQ(r.status().code(), StatusCode::kDeadlineExceeded) << r.status();
  options.timeout_ms = 10000;  // The mutex is free again.
  EXPECT_TRUE(s.Run({}, {first}, {}, options).ok());
}

TEST_F(Resources, AssertErrorShowsItsData) {
  const Output fed = Build("Placeholder", {}, {{"dtype", DType::kBool}});
  Node* check =
      BuildNode("Assert", {fed, Constant(Mat({2, 2}, {1, 2, 3, 4})),
                           Constant(Tensor::Vector<int32_t>({1, 2, 3, 4})),
                           Constant(Tensor::Scalar<std::string>("why"))});
  Session s;
  EXPECT_TRUE(s.RunTargets({check}, {{fed, Tensor::Scalar<bool>(true)}}).ok());
  const Status e = s.RunTargets({check}, {{fed, Tensor::Scalar<bool>(false)}});
  EXPECT_EQ(e.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(e.message()),
              HasSubstr("assertion failed: [[1 2][3...]...] [1 2 3...] [why]"));
}

TEST_F(Resources, PrintWritesItsDataToTheLog) {
  const Output x = Constant(Vec({1, 2}));
  const Output y = Build("Print", {x, Constant(Tensor::Scalar<int32_t>(5))},
                         {{"message", "x: "}, {"first_n", 1}});
  Node* line =
      BuildNode("PrintV2", {Constant(Tensor::Scalar<std::string>("hi"))});
  Session s;
  std::string log;
  RunOptions options;
  options.log = [&log](const std::string& text) { log += text; };
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(s.Run({}, {y}, {}, options).ok());
  EXPECT_EQ(log, "x: [5]\n");
  ASSERT_TRUE(s.Run({}, {}, {line}, options).ok());
  EXPECT_EQ(log, "x: [5]\nhi\n");
}

}  // namespace
}  // namespace sluice
