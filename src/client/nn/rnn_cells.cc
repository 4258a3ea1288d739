#include "client/nn/rnn_cells.h"

#include <algorithm>

#include "client/operators.h"
#include "client/variable_scope.h"
#include "graph/graph.h"
#include "sluice/ops.h"

namespace sluice {
namespace {

using Lock = std::lock_guard<std::recursive_mutex>;

Output Axis(int32_t axis) { return Constant(Tensor::Scalar<int32_t>(axis)); }

std::vector<Output> SplitColumns(Output x, int n) {
  return ops::Split(Axis(1), x, n);
}

// The first `rows` rows of a kernel, and the others.
std::pair<Output, Output> SplitRows(Output kernel, int64_t rows, int64_t rest) {
  const std::vector<Output> parts = ops::SplitV(
      kernel,
      IntVector({static_cast<int32_t>(rows), static_cast<int32_t>(rest)}),
      Axis(0), 2);
  return {parts[0], parts[1]};
}

Output Columns(Output a, Output b) { return ops::ConcatV2({a, b}, Axis(1)); }

Output Activate(const Activation& fn, Output x) {
  return fn ? fn(x) : ops::Tanh(x);
}

Output Clip(Output x, double limit) {
  return ops::ClipByValue(x, -limit, limit);
}

// Weights that every step of a loop multiplies by. The gradient loop multiplies
// by their transpose, which is computed once if the product's type has an op
// for it.
class Recurrent {
 public:
  explicit Recurrent(Output weights) : weights_(weights) {
    const DType t = RemoveRef(weights.dtype());
    if (t == DType::kFloat || t == DType::kDouble)
      transposed_ = ops::Transpose(weights, IntVector({1, 0}));
  }
  Output operator()(Output h) const {
    return transposed_.valid() ? ops::MatMulBothWays(h, weights_, transposed_)
                               : ops::MatMul(h, weights_);
  }

 private:
  Output weights_, transposed_;
};

// The same gate kernel, split or not: `at_once` applies to the rows, `step` to
// x (or its projection) and h together.
struct Affine {
  std::function<Output(Output)> project;
  std::function<Output(Output x, Output h)> apply;
};

Affine MakeAffine(Output kernel, Output bias, int64_t depth, int64_t hidden,
                  bool project) {
  if (!project)
    return {nullptr, [=](Output x, Output h) {
              return ops::BiasAdd(ops::MatMul(Columns(x, h), kernel), bias);
            }};
  const std::pair<Output, Output> parts = SplitRows(kernel, depth, hidden);
  const Output of_x = parts.first;
  const Recurrent of_h(parts.second);
  return {
      [=](Output rows) { return ops::BiasAdd(ops::MatMul(rows, of_x), bias); },
      [=](Output x, Output h) { return x + of_h(h); }};
}

// Products of sizes are int32 tensors in some places.
constexpr int64_t kMaxUnits = INT32_MAX / 4;

bool SizesFit(const RnnCell::Kind& kind, SourceLoc loc) {
  std::vector<int64_t> sizes = kind.state_sizes();
  sizes.push_back(kind.output_size());
  for (const int64_t size : sizes) {
    if (size >= 0 && size <= kMaxUnits) continue;
    BuildError(
        InvalidArgument("cell '", kind.name(), "': expected sizes from 0 to ",
                        kMaxUnits, ", got ", size),
        loc);
    return false;
  }
  return true;
}

}  // namespace

// ---- Handles ----------------------------------------------------------------

int64_t RnnCell::output_size() const {
  return kind_ == nullptr ? 0 : kind_->output_size();
}

std::vector<int64_t> RnnCell::state_sizes() const {
  return kind_ == nullptr ? std::vector<int64_t>() : kind_->state_sizes();
}

bool RnnCell::IsMemory(size_t i) const {
  return kind_ != nullptr && kind_->IsMemory(i);
}

std::vector<Var> RnnCell::variables() const {
  return kind_ == nullptr ? std::vector<Var>() : kind_->variables();
}

std::optional<RnnStepper> RnnCell::Open(int64_t depth, DType dtype,
                                        bool project, SourceLoc loc) const {
  if (kind_ == nullptr) {
    BuildError(InvalidArgument("RNN: expected a cell, got none"), loc);
    return std::nullopt;
  }
  const Lock lock(CurrentGraph().mutex());
  const AtLine at(loc);
  if (!SizesFit(*kind_, loc)) return std::nullopt;
  if (depth > kMaxUnits) {
    BuildError(InvalidArgument("cell '", kind_->name(),
                               "': expected inputs of at most ", kMaxUnits,
                               " columns, got ", depth),
               loc);
    return std::nullopt;
  }
  std::optional<RnnStepper> stepper = kind_->Open(depth, dtype, project, loc);
  if (!stepper.has_value()) return stepper;
  if (stepper->step == nullptr) {
    BuildError(InvalidArgument("cell '", kind_->name(),
                               "': expected a stepper with a step, got none"),
               loc);
    return std::nullopt;
  }
  // (Cells access their states by position.)
  stepper->step = [step = std::move(stepper->step), name = kind_->name(),
                   states = kind_->state_sizes().size(),
                   loc](Output x, const RnnState& state) -> RnnStep {
    if (state.size() == states) return step(x, state);
    BuildError(InvalidArgument("cell '", name, "': expected ", states,
                               " states, got ", state.size()),
               loc);
    return {Output(), RnnState(states)};
  };
  return stepper;
}

RnnStep RnnCell::operator()(const Operand& x, const RnnState& state,
                            SourceLoc loc) const {
  const Lock lock(CurrentGraph().mutex());
  RnnStep none;
  none.state.resize(state_sizes().size());
  const Output in = x.Get(DType::kFloat);
  if (!in.valid()) return none;
  const PartialShape& shape = in.shape();
  const int64_t depth =
      shape.rank_known() && shape.rank() > 0 ? shape.dim(shape.rank() - 1) : -1;
  const DType dtype = state.empty() || !state[0].valid()
                          ? RemoveRef(in.dtype())
                          : RemoveRef(state[0].dtype());
  const std::optional<RnnStepper> stepper = Open(depth, dtype, false, loc);
  if (!stepper.has_value()) return none;
  const AtLine at(loc);
  return stepper->step(in, state);
}

RnnState RnnCell::ZeroState(const Operand& batch, DType dtype,
                            SourceLoc loc) const {
  const Lock lock(CurrentGraph().mutex());
  const AtLine at(loc);
  const NameScope scope("zero_state");
  RnnState state;
  const Output rows = batch.Get(DType::kInt32);
  if (kind_ != nullptr && !SizesFit(*kind_, loc))
    return RnnState(state_sizes().size());
  const Output zero = ScalarOf(dtype, 0, loc);
  for (const int64_t size : state_sizes())
    state.push_back(ops::Fill(
        ops::Pack({rows, Constant(static_cast<int32_t>(size))}), zero));
  return state;
}

std::vector<Var> RnnCell::Kind::variables() const {
  std::vector<Var> vars;
  for (const auto& [name, var] : weights_) vars.push_back(var);
  return vars;
}

Output RnnCell::Kind::Weight(const std::string& name, const Shape& shape,
                             DType dtype, const InitializerFn& initializer,
                             SourceLoc loc) {
  for (const auto& [existing, var] : weights_) {
    if (existing != name) continue;
    if (var.shape() == PartialShape(shape) && var.dtype() == dtype)
      return var.Read(loc);
    return BuildError(
        InvalidArgument("weight '", var.name(), "': expected ",
                        DTypeName(var.dtype()), var.shape().ToString(),
                        " as in the cell's first use, got ", DTypeName(dtype),
                        shape.ToString(),
                        "; hint: a cell that shares nothing "
                        "is another cell"),
        loc);
  }
  Var var;
  // The scope of the first weight determines the names of the others.
  const bool first = prefix_.empty();
  if (const VariableScope* around = CurrentVariableScope(); around != nullptr) {
    std::string local = first ? name_ : prefix_.substr(0, prefix_.size() - 1);
    if (!first && !around->name().empty() &&
        local.starts_with(around->name() + "/"))
      local.erase(0, around->name().size() + 1);
    const VariableScope scope(local, {.unique = first});
    prefix_ = scope.name() + "/";
    var = GetVariable(name, shape, initializer, dtype, {}, loc);
  } else if (first) {
    const NameScope scope(name_);
    prefix_ = CurrentNamePrefix();
    var = GetVariable(name, shape, initializer, dtype, {}, loc);
  } else {
    const std::string& outer = CurrentNamePrefix();
    const bool inside = prefix_.rfind(outer, 0) == 0;
    var = GetVariable((inside ? prefix_.substr(outer.size()) : prefix_) + name,
                      shape, initializer, dtype, {}, loc);
  }
  if (!var.valid()) return CurrentGraph().Failure();
  weights_.emplace_back(name, var);
  return var.Read(loc);
}

bool RnnCell::Kind::KnowsDepth(int64_t depth, SourceLoc loc) const {
  if (depth >= 0) return true;
  BuildError(InvalidArgument("cell '", name_,
                             "': expected an input [batch, depth] at each step "
                             "of a sequence, with a depth that is known when "
                             "the graph is built, got one without"),
             loc);
  return false;
}

// ---- Basic ------------------------------------------------------------------

namespace {

// A cell whose output is its state.
class OneStateKind : public RnnCell::Kind {
 public:
  OneStateKind(const char* preset_name, int64_t units,
               const RnnCellOptions& options)
      : Kind(options.name.empty() ? preset_name : options.name),
        units_(units),
        options_(options) {}

  int64_t output_size() const override { return units_; }
  std::vector<int64_t> state_sizes() const override { return {units_}; }

 protected:
  const int64_t units_;
  const RnnCellOptions options_;
};

class BasicKind final : public OneStateKind {
 public:
  BasicKind(int64_t units, const RnnCellOptions& options)
      : OneStateKind("basic_rnn_cell", units, options) {}

  std::optional<RnnStepper> Open(int64_t depth, DType dtype, bool project,
                                 SourceLoc loc) override {
    if (!KnowsDepth(depth, loc)) return std::nullopt;
    const Output kernel = Weight("kernel", {depth + units_, units_}, dtype,
                                 options_.initializer, loc);
    const Output bias = Weight("bias", {units_}, dtype, init::Zeros(), loc);
    if (!kernel.valid() || !bias.valid()) return std::nullopt;
    const Affine affine = MakeAffine(kernel, bias, depth, units_, project);
    return RnnStepper{
        affine.project, [affine, activation = options_.activation](
                            Output x, const RnnState& state) {
          const Output h = Activate(activation, affine.apply(x, state[0]));
          return RnnStep{h, {h}};
        }};
  }
};

// ---- GRU --------------------------------------------------------------------

class GruKind final : public OneStateKind {
 public:
  GruKind(int64_t units, const RnnCellOptions& options)
      : OneStateKind("gru_cell", units, options) {}

  std::optional<RnnStepper> Open(int64_t depth, DType dtype, bool project,
                                 SourceLoc loc) override {
    if (!KnowsDepth(depth, loc)) return std::nullopt;
    const int64_t rows = depth + units_;
    const Output gates = Weight("gates/kernel", {rows, 2 * units_}, dtype,
                                options_.initializer, loc);
    const Output gates_bias =
        Weight("gates/bias", {2 * units_}, dtype, init::Ones(), loc);
    const Output candidate = Weight("candidate/kernel", {rows, units_}, dtype,
                                    options_.initializer, loc);
    const Output candidate_bias =
        Weight("candidate/bias", {units_}, dtype, init::Zeros(), loc);
    if (!gates.valid() || !gates_bias.valid() || !candidate.valid() ||
        !candidate_bias.valid())
      return std::nullopt;
    const Activation activation = options_.activation;
    const auto finish = [activation](Output gate_inputs, Output h,
                                     const auto& candidate_of) {
      const std::vector<Output> ru = SplitColumns(ops::Sigmoid(gate_inputs), 2);
      const Output c = Activate(activation, candidate_of(ru[0] * h));
      const Output next = ru[1] * h + (1 - ru[1]) * c;
      return RnnStep{next, {next}};
    };
    if (!project) {
      const Affine g = MakeAffine(gates, gates_bias, depth, units_, false);
      const Affine k =
          MakeAffine(candidate, candidate_bias, depth, units_, false);
      return RnnStepper{nullptr, [=](Output x, const RnnState& state) {
                          return finish(
                              g.apply(x, state[0]), state[0],
                              [&](Output rh) { return k.apply(x, rh); });
                        }};
    }
    const std::pair<Output, Output> g = SplitRows(gates, depth, units_);
    const std::pair<Output, Output> k = SplitRows(candidate, depth, units_);
    const Output of_x = Columns(g.first, k.first);
    const Output bias = ops::ConcatV2({gates_bias, candidate_bias}, Axis(0));
    const Recurrent of_h(g.second), of_rh(k.second);
    const Output widths = IntVector(
        {static_cast<int32_t>(2 * units_), static_cast<int32_t>(units_)});
    return RnnStepper{
        [=](Output x) { return ops::BiasAdd(ops::MatMul(x, of_x), bias); },
        [=](Output x, const RnnState& state) {
          const std::vector<Output> parts = ops::SplitV(x, widths, Axis(1), 2);
          return finish(parts[0] + of_h(state[0]), state[0],
                        [&](Output rh) { return parts[1] + of_rh(rh); });
        }};
  }
};

// ---- LSTM -------------------------------------------------------------------

class LstmKind final : public RnnCell::Kind {
 public:
  LstmKind(int64_t units, const LstmCellOptions& options)
      : Kind(options.name.empty() ? "lstm_cell" : options.name),
        units_(units),
        options_(options) {}

  int64_t output_size() const override {
    return options_.projection > 0 ? options_.projection : units_;
  }
  std::vector<int64_t> state_sizes() const override {
    return {units_, output_size()};
  }
  bool IsMemory(size_t i) const override { return i == 0; }

  std::optional<RnnStepper> Open(int64_t depth, DType dtype, bool project,
                                 SourceLoc loc) override {
    if (!KnowsDepth(depth, loc)) return std::nullopt;
    const InitializerFn& initializer = options_.initializer;
    const int64_t hidden = output_size();
    const Output kernel =
        Weight("kernel", {depth + hidden, 4 * units_}, dtype, initializer, loc);
    const Output bias = Weight("bias", {4 * units_}, dtype, init::Zeros(), loc);
    Weights w;
    bool made = kernel.valid() && bias.valid();
    if (options_.peepholes) {
      w.f = Weight("w_f_diag", {units_}, dtype, initializer, loc);
      w.i = Weight("w_i_diag", {units_}, dtype, initializer, loc);
      w.o = Weight("w_o_diag", {units_}, dtype, initializer, loc);
      made = made && w.f.valid() && w.i.valid() && w.o.valid();
    }
    if (options_.projection > 0) {
      w.projection = Weight("projection/kernel", {units_, hidden}, dtype,
                            initializer, loc);
      made = made && w.projection.valid();
    }
    if (!made) return std::nullopt;
    // The elementwise part of the plain cell is one node.
    const bool plain = !options_.peepholes && !options_.cell_clip.has_value() &&
                       !options_.activation &&
                       (dtype == DType::kFloat || dtype == DType::kDouble);
    const LstmCellOptions o = options_;
    const auto finish = [o, w, plain](Output a, Output b,
                                      const RnnState& state) {
      std::pair<Output, Output> ch =
          plain ? Fused(o, a, b, state[0]) : Plainly(o, w, a, b, state[0]);
      Output h = ch.second;
      if (w.projection.valid()) {
        h = ops::MatMul(h, w.projection);
        if (o.projection_clip.has_value()) h = Clip(h, *o.projection_clip);
      }
      return RnnStep{h, {ch.first, h}};
    };
    if (!project)
      return RnnStepper{nullptr, [=](Output x, const RnnState& state) {
                          return finish(
                              ops::MatMul(Columns(x, state[1]), kernel), bias,
                              state);
                        }};
    const std::pair<Output, Output> parts = SplitRows(kernel, depth, hidden);
    const Output of_x = parts.first;
    const Recurrent of_h(parts.second);
    return RnnStepper{
        [=](Output x) { return ops::BiasAdd(ops::MatMul(x, of_x), bias); },
        [=](Output x, const RnnState& state) {
          return finish(of_h(state[1]), x, state);
        }};
  }

 private:
  // Weights that only some cells have.
  struct Weights {
    Output f, i, o, projection;
  };

  static std::pair<Output, Output> Fused(const LstmCellOptions& o, Output a,
                                         Output b, Output c) {
    Node* n = BuildNode("LstmGates", {a, b, c},
                        {{"forget_bias", static_cast<float>(o.forget_bias)}});
    if (n == nullptr) return {CurrentGraph().Failure(), Output()};
    return {Output(n, 1), Output(n, 2)};
  }

  static std::pair<Output, Output> Plainly(const LstmCellOptions& o,
                                           const Weights& w, Output a, Output b,
                                           Output c) {
    const std::vector<Output> z = SplitColumns(a + b, 4);
    Output zi = z[0], zf = z[2] + o.forget_bias, zo = z[3];
    if (w.i.valid()) zi = zi + w.i * c;
    if (w.f.valid()) zf = zf + w.f * c;
    Output next =
        ops::Sigmoid(zf) * c + ops::Sigmoid(zi) * Activate(o.activation, z[1]);
    if (o.cell_clip.has_value()) next = Clip(next, *o.cell_clip);
    if (w.o.valid()) zo = zo + w.o * next;
    return {next, ops::Sigmoid(zo) * Activate(o.activation, next)};
  }

  const int64_t units_;
  const LstmCellOptions options_;
};

}  // namespace

RnnCell BasicRnnCell(int64_t units, const RnnCellOptions& options) {
  return RnnCell(std::make_shared<BasicKind>(units, options));
}
RnnCell GruCell(int64_t units, const RnnCellOptions& options) {
  return RnnCell(std::make_shared<GruKind>(units, options));
}
RnnCell LstmCell(int64_t units, const LstmCellOptions& options) {
  return RnnCell(std::make_shared<LstmKind>(units, options));
}

}  // namespace sluice
