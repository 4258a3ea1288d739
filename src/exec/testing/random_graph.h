// Converts bytes to a small random graph with conditionals and loops of raw
// primitives, for tests of the executor. Any bytes result in a valid graph.
#ifndef SLUICE_EXEC_TESTING_RANDOM_GRAPH_H_
#define SLUICE_EXEC_TESTING_RANDOM_GRAPH_H_

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graph/builder.h"
#include "graph/graph.h"

namespace sluice {

// A node that adds to the counter, and the LoopConds of the loops around it,
// outermost first.
struct CounterAdd {
  Node* node;
  std::vector<Node*> loops;
};

struct RandomGraph {
  Graph graph;
  std::vector<std::pair<Output, Tensor>> feeds;
  std::vector<Output> fetches;  // In the outermost frame; some may be dead.
  std::vector<CounterAdd> adds;
  Node* init_counter = nullptr;
  Output counter;  // Reads it.
};

// Draws a program from bytes (zeros after the last one) and builds it. Used
// once, on one thread.
class RandomGraphMaker {
 public:
  RandomGraphMaker(const uint8_t* bytes, size_t size, RandomGraph* out)
      : bytes_(bytes), end_(bytes + size), out_(*out) {}

  void Make() {
    WithGraph use(out_.graph);
    rows_ = Draw(3);
    columns_ = 1 + Draw(3) % 3;
    if (Draw(8) == 0) columns_ = 0;
    handle_ = Build("VarHandleOp", {},
                    {{"dtype", DType::kInt32},
                     {"shape", PartialShape::Scalar()},
                     {"shared_name", std::string("counter")}});
    out_.init_counter =
        BuildNode("AssignVariableOp", {handle_, Constant<int32_t>(0)});
    out_.counter =
        Build("ReadVariableOp", {handle_}, {{"dtype", DType::kInt32}});
    Block root;
    root.handle = handle_;
    for (DType t : {DType::kInt32, DType::kFloat, DType::kBool})
      for (int shape : {0, Draw(5)}) {
        const Tensor value = DrawTensor(t, shape);
        const Output x =
            Build("Placeholder", {},
                  {{"dtype", t}, {"shape", Known(value, Draw(2))}});
        out_.feeds.emplace_back(x, value);
        root.pool.push_back({x, t, shape == 0});
      }
    Fill(&root, 3 + Draw(14));
    for (const Value& v : root.pool) out_.fetches.push_back(v.output);
  }

 private:
  struct Value {
    Output output;
    DType type;
    bool scalar;
    bool sure = true;  // Alive when its block is.
  };
  // A block under construction: the root, a branch or a loop's body.
  struct Block {
    std::vector<Value> pool;
    Node* pivot = nullptr;  // Alive exactly when the block is; null: root.
    Output handle;          // The counter's handle in this frame.
    std::vector<Node*> loops;
    int depth = 0;
  };

  int Draw(int n) { return bytes_ == end_ ? 0 : *bytes_++ % n; }
  bool Chance() { return Draw(2) == 1; }

  // All shapes of a program broadcast with each other.
  Shape ShapeOf(int which) const {
    const int64_t r = rows_, c = columns_;
    switch (which) {
      case 1:
        return Shape({c});
      case 2:
        return Shape({1});
      case 3:
        return Shape({r, 1});
      case 4:
        return Shape({r, c});
      default:
        return Shape();
    }
  }
  static PartialShape Known(const Tensor& t, bool known) {
    return known ? PartialShape(t.shape()) : PartialShape::Unknown();
  }
  Tensor DrawTensor(DType type, int which) {
    Tensor t(type, ShapeOf(which));
    for (int64_t i = 0; i < t.num_elements(); ++i) {
      const int v = Draw(256) - 128;
      if (type == DType::kInt32)
        t.raw<int32_t>()[i] = v > 120 ? INT32_MAX : v / 8;
      else if (type == DType::kFloat)
        t.raw<float>()[i] = static_cast<float>(v) / 8;
      else
        t.raw<bool>()[i] = v > 0;
    }
    return t;
  }

  // Any value of the block for which the conditions hold; null if none.
  std::optional<Value> Pick(const Block& b, DType type, bool scalar = false) {
    std::vector<Value> fit;
    for (const Value& v : b.pool)
      if ((type == DType::kInvalid || v.type == type) && (v.scalar || !scalar))
        fit.push_back(v);
    if (fit.empty()) return std::nullopt;
    return fit[static_cast<size_t>(Draw(static_cast<int>(fit.size())))];
  }
  Value Any(const Block& b) { return *Pick(b, DType::kInvalid); }
  // For loop variables: if one were dead in some iteration, the next iteration
  // would wait for it forever.
  Value AnySure(const Block& b) {
    const Value v = Any(b);
    return v.sure ? v : b.pool[0];
  }

  // Constants of a branch or body are alive when it is.
  Output BlockConstant(const Block& b, const Tensor& t) {
    ControlDependencies after(b.pivot == nullptr ? std::vector<Node*>()
                                                 : std::vector<Node*>{b.pivot});
    return Constant(t);
  }

  void Fill(Block* b, int statements) {
    for (int i = 0; i < statements && budget_ > 0; ++i) {
      --budget_;
      switch (Draw(8)) {
        case 0:
          AddConstant(b);
          break;
        case 1:
          AddConditional(b);
          break;
        case 2:
          AddLoop(b);
          break;
        case 3:
          AddCount(b);
          break;
        default:
          AddCompute(b);
      }
    }
  }

  void AddConstant(Block* b) {
    const DType t = kTypes[Draw(3)];
    const int shape = Draw(5);
    b->pool.push_back({BlockConstant(*b, DrawTensor(t, shape)), t, shape == 0});
  }

  void AddCount(Block* b) {
    const auto by = Pick(*b, DType::kInt32, true);
    if (!by || !b->handle.valid()) return;
    Node* n = BuildNode("AssignAddVariableOp", {b->handle, by->output});
    out_.adds.push_back({n, b->loops});
  }

  void AddCompute(Block* b) {
    static const std::vector<const char*> kBinary = {"AddV2", "Sub", "Mul",
                                                     "Maximum", "Minimum"};
    static const std::vector<const char*> kUnary = {"Neg", "Square",
                                                    "Identity"};
    static const std::vector<const char*> kCompare = {"Less", "GreaterEqual",
                                                      "Equal"};
    static const std::vector<const char*> kLogical = {"LogicalAnd",
                                                      "LogicalOr"};
    const auto choose = [this](const std::vector<const char*>& names) {
      return names[static_cast<size_t>(Draw(static_cast<int>(names.size())))];
    };
    std::vector<Node*> after;
    bool sure = true;
    if (Draw(4) == 0) {
      const Value v = Any(*b);
      after.push_back(v.output.node);
      sure = v.sure;
    }
    ControlDependencies order(after);
    const Value x = Any(*b);
    const Value y = *Pick(*b, x.type);
    sure = sure && x.sure && y.sure;
    const bool scalar = x.scalar && y.scalar;
    const bool is_bool = x.type == DType::kBool;
    switch (Draw(5)) {
      case 0:
        Push(b, Build(is_bool ? "LogicalNot" : choose(kUnary), {x.output}),
             x.type, x.scalar, sure);
        break;
      case 1:
        if (!is_bool)
          Push(b, Build(choose(kCompare), {x.output, y.output}), DType::kBool,
               scalar, sure);
        break;
      case 2:
        if (const auto c = Pick(*b, DType::kBool)) {
          sure = sure && c->sure;
          Push(b, Build("SelectV2", {c->output, x.output, y.output}), x.type,
               scalar && c->scalar, sure);
        }
        break;
      case 3:
        if (const DType to = kTypes[Draw(2)]; x.type != DType::kFloat)
          Push(b, Build("Cast", {x.output}, {{"DstT", to}}), to, x.scalar,
               sure);
        break;
      default:
        Push(b,
             Build(is_bool ? choose(kLogical) : choose(kBinary),
                   {x.output, y.output}),
             x.type, scalar, sure);
    }
  }
  void Push(Block* b, Output o, DType type, bool scalar, bool sure) {
    if (o.valid()) b->pool.push_back({o, type, scalar, sure});
  }

  // Two branches: their inputs come through Switches, or directly from outside
  // with the branch ordered after its pivot.
  void AddConditional(Block* b) {
    const auto pred = Pick(*b, DType::kBool, true);
    if (b->depth >= 3 || !pred) return;
    std::vector<Value> taken;
    for (int i = 1 + Draw(3); i > 0; --i) taken.push_back(Any(*b));
    Node* which = BuildNode("Switch", {pred->output, pred->output});
    std::vector<Node*> switches;
    for (const Value& v : taken)
      switches.push_back(BuildNode("Switch", {v.output, pred->output}));
    Block branches[2];
    for (int side = 0; side < 2; ++side) {
      Block& branch = branches[side];
      branch.handle = b->handle;
      branch.loops = b->loops;
      branch.depth = b->depth + 1;
      const Output pivot = Build("Identity", {Output(which, side)});
      branch.pivot = pivot.node;
      const bool by_control = Draw(4) == 0;
      ControlDependencies order(by_control ? std::vector<Node*>{branch.pivot}
                                           : std::vector<Node*>());
      branch.pool.push_back({pivot, DType::kBool, true});
      for (size_t i = 0; i < taken.size(); ++i) {
        const Output in = by_control ? Build("Identity", {taken[i].output})
                                     : Output(switches[i], side);
        branch.pool.push_back(
            {in, taken[i].type, taken[i].scalar, taken[i].sure});
      }
      Fill(&branch, Draw(5));
    }
    for (int i = 1 + Draw(2); i > 0; --i) {
      const Value no = Any(branches[0]);
      const auto yes = Pick(branches[1], no.type);
      if (!yes) continue;
      Node* merge = BuildNode("Merge", {no.output, yes->output});
      const bool sure = pred->sure && no.sure && yes->sure;
      Push(b, {merge, 0}, no.type, no.scalar && yes->scalar, sure);
      if (Chance()) Push(b, {merge, 1}, DType::kInt32, true, sure);
    }
    // A value that leaves its branch unmerged is dead if the branch is.
    if (Draw(4) == 0) {
      b->pool.push_back(Any(branches[Draw(2)]));
      b->pool.back().sure = false;
    }
  }

  // A loop of at most five iterations over a counter and up to three values.
  void AddLoop(Block* b) {
    if (b->depth >= 3) return;
    const std::string frame = out_.graph.UniqueScope("loop");
    const int64_t parallel = 1 + Draw(4);
    const auto enter = [&](Output o, bool constant) {
      return Build("Enter", {o},
                   {{"frame_name", frame},
                    {"is_constant", constant},
                    {"parallel_iterations", parallel}});
    };
    Output limit = BlockConstant(*b, Tensor::Scalar<int32_t>(Draw(6)));
    const auto given = Pick(*b, DType::kInt32, true);
    if (given && given->sure && Chance())
      limit = Build("Minimum", {limit, given->output});
    std::vector<Value> vars = {
        {BlockConstant(*b, Tensor::Scalar<int32_t>(0)), DType::kInt32, true}};
    for (int i = Draw(4); i > 0; --i) vars.push_back(AnySure(*b));
    std::vector<Value> constants;
    for (int i = Draw(3); i > 0; --i) constants.push_back(AnySure(*b));
    for (Value& v : vars) v.output = enter(v.output, false);
    for (Value& v : constants) v.output = enter(v.output, true);
    limit = enter(limit, true);
    Block body;
    if (b->handle.valid()) body.handle = enter(b->handle, true);

    NoControlDependencies inside;
    std::vector<Node*> merges;
    for (const Value& v : vars) {
      NodeSpec merge;
      merge.op = "Merge";
      merge.name = out_.graph.UniqueName(frame + "/Merge");
      merge.inputs = {v.output, Output()};
      merge.attrs = {{"N", int64_t{2}}, {"T", v.type}};
      merge.pending_input_types = {DType::kInvalid, v.type};
      merges.push_back(*out_.graph.AddNode(std::move(merge)));
    }
    Output go = Build("Less", {Output(merges[0]), limit});
    for (size_t i = 1; i < vars.size(); ++i)
      if (vars[i].type == DType::kBool && vars[i].scalar && Chance())
        go = Build("LogicalAnd", {go, Output(merges[i])});
    go = Build("LoopCond", {go});
    body.loops = b->loops;
    body.loops.push_back(go.node);
    body.depth = b->depth + 1;
    std::vector<Node*> switches;
    for (Node* m : merges)
      switches.push_back(BuildNode("Switch", {Output(m), go}));
    const Output i = Build("Identity", {Output(switches[0], 1)});
    body.pivot = i.node;
    body.pool.push_back({i, DType::kInt32, true});
    for (size_t k = 1; k < vars.size(); ++k)
      body.pool.push_back(
          {Output(switches[k], 1), vars[k].type, vars[k].scalar});
    {
      ControlDependencies order({body.pivot});
      for (const Value& v : constants)
        body.pool.push_back({Build("Identity", {v.output}), v.type, v.scalar});
    }
    const std::vector<Value> own = body.pool;
    Fill(&body, Draw(6));
    for (size_t k = 0; k < vars.size(); ++k) {
      Output next = own[k].output;
      if (k == 0) {
        next = Build("AddV2",
                     {i, BlockConstant(body, Tensor::Scalar<int32_t>(1))});
      } else if (const auto v = Pick(body, vars[k].type, vars[k].scalar)) {
        next = v->sure ? v->output : next;
      }
      const Output back = Build("NextIteration", {next});
      (void)out_.graph.SetBackEdge(merges[k], 1, back);
    }
    for (size_t k = 0; k < vars.size(); ++k)
      Push(b, Build("Exit", {Output(switches[k], 0)}), vars[k].type,
           vars[k].scalar, true);
  }

  static constexpr DType kTypes[3] = {DType::kInt32, DType::kFloat,
                                      DType::kBool};
  const uint8_t* bytes_;
  const uint8_t* const end_;
  RandomGraph& out_;
  Output handle_;
  int rows_ = 0, columns_ = 0;
  int budget_ = 60;  // Statements left in the whole program.
};

}  // namespace sluice

#endif  // SLUICE_EXEC_TESTING_RANDOM_GRAPH_H_
