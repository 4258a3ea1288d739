#include "client/nn/rnn.h"

#include <algorithm>
#include <tuple>

#include "client/control/control_flow.h"
#include "client/control/tensor_array.h"
#include "client/nn/layer_scope.h"
#include "client/operators.h"
#include "client/types_and_shapes.h"
#include "graph/exact_line.h"
#include "graph/graph.h"
#include "sluice/ops.h"

namespace sluice {
namespace {

using Lock = std::lock_guard<std::recursive_mutex>;

Output Int(int64_t v) { return Constant(static_cast<int32_t>(v)); }

// Swaps the first two dimensions.
Output Swapped(const Output& x) {
  std::vector<int32_t> order = {1, 0};
  for (int i = 2; i < x.shape().rank(); ++i) order.push_back(i);
  return ops::Transpose(x, IntVector(order));
}

bool AllThere(const RnnState& state) {
  return std::all_of(state.begin(), state.end(),
                     [](const Output& o) { return o.valid(); });
}

// Shared by both kinds of network: the state of one call.
class Network {
 public:
  Network(const RnnCell& cell, const RnnOptions& options, SourceLoc loc)
      : cell_(cell),
        options_(options),
        loc_(loc),
        at_(loc),
        scope_(options.scope.empty() ? "rnn" : options.scope,
               /*unique=*/options.scope.empty()),
        what_(absl::StrCat("RNN '", scope_.prefix(), "'")) {}

 protected:
  bool Fail(const Status& s) const {
    BuildError(s, loc_);
    return false;
  }

  // Starts from one [batch, ...] (at dimension `axis`) of the inputs.
  bool Begin(const Output& x, int axis) {
    if (!cell_)
      return Fail(InvalidArgument(what_, ": expected a cell, got none"));
    batch_known_ = KnownDim(x, axis);
    batch_ = DimOf(x, axis, loc_);
    const RnnState& given = options_.initial_state;
    const std::vector<int64_t> sizes = cell_.state_sizes();
    dtype_ = RemoveRef(x.dtype());
    if (!IsFloating(dtype_)) dtype_ = DType::kFloat;
    if (given.empty()) {
      state_ = cell_.ZeroState(batch_, dtype_, loc_);
    } else {
      if (given.size() != sizes.size())
        return Fail(InvalidArgument(what_, ": expected ", sizes.size(),
                                    " initial states, got ", given.size()));
      if (!AllThere(given))
        return Fail(InvalidArgument(what_,
                                    ": expected initial states, got "
                                    "none for some"));
      for (size_t i = 0; i < given.size(); ++i) {
        const PartialShape want = {batch_known_, sizes[i]};
        if (!given[i].shape().CompatibleWith(want))
          return Fail(InvalidArgument(what_, ": expected initial state ", i,
                                      " of shape ", want.ToString(), ", got ",
                                      given[i].shape().ToString()));
      }
      state_ = given;
      if (!state_.empty()) dtype_ = RemoveRef(state_[0].dtype());
    }
    return AllThere(state_) && Lengths();
  }

  // Checks and converts the sequences' lengths.
  bool Lengths() {
    if (!options_.sequence_length.has_value()) return true;
    Output n = options_.sequence_length->Get(DType::kInt32);
    if (!n.valid()) return false;
    const PartialShape want = {batch_known_};
    const DType t = RemoveRef(n.dtype());
    if ((t != DType::kInt32 && t != DType::kInt64) ||
        !n.shape().CompatibleWith(want))
      return Fail(InvalidArgument(
          what_, ": expected sequence lengths that are integers of shape ",
          want.ToString(), ", got ", DTypeName(n.dtype()), " of shape ",
          n.shape().ToString()));
    if (t != DType::kInt32) n = ops::Cast(n, DType::kInt32);
    if (!n.shape().fully_known() || batch_known_ < 0) {
      const Output shape = ops::Shape(n), wanted = ops::Pack({batch_});
      Node* check = ops::Assert(
          ops::All(ops::Equal(shape, wanted), IntVector({0})),
          {Constant(Tensor::Scalar<std::string>(
               absl::StrCat(what_, ": expected sequence lengths of shape"))),
           wanted, Constant(Tensor::Scalar<std::string>(", got ")), shape});
      const ControlDependencies checked({check});
      n = ops::Identity(n, {.name = "sequence_length"});
    }
    lengths_ = n;
    longest_ = ops::Max(n, IntVector({0}));
    zero_output_ = ops::Fill(ops::Pack({batch_, Int(cell_.output_size())}),
                             ScalarOf(dtype_, 0, loc_));
    return true;
  }

  // One step, which only affects sequences that have not ended yet.
  RnnStep Step(const RnnStepper& stepper, Output time, Output x,
               const RnnState& state) const {
    RnnStep s = stepper.step(x, state);
    if (!s.output.valid() || s.state.size() != state.size() ||
        !AllThere(s.state)) {
      const auto null =
          std::find_if(s.state.begin(), s.state.end(),
                       [](const Output& o) { return !o.valid(); });
      CurrentGraph().PropagateFailure(
          !s.output.valid() || null == s.state.end() ? s.output : *null,
          WithLine(InvalidArgument(
                       what_, ": expected an output and ", state.size(),
                       " states from the cell, got ",
                       s.output.valid() ? "" : "no output and ", s.state.size(),
                       AllThere(s.state) ? "" : ", some of them null"),
                   loc_));
      return {CurrentGraph().Failure(), {}};
    }
    if (!lengths_.valid()) return s;
    const Output ended = ops::GreaterEqual(time, lengths_);
    s.output = ops::Select(ended, zero_output_, s.output);
    for (size_t i = 0; i < state.size(); ++i)
      s.state[i] = ops::Select(ended, state[i], s.state[i]);
    return s;
  }

  const RnnCell& cell_;
  const RnnOptions& options_;
  const SourceLoc loc_;
  const AtLine at_;
  const WeightScope scope_;
  const std::string what_;
  DType dtype_ = DType::kFloat;  // The type of states and outputs.
  int64_t batch_known_ = -1;
  Output batch_;
  RnnState state_;
  Output lengths_, longest_, zero_output_;  // Null without lengths.
};

class Dynamic : public Network {
 public:
  using Network::Network;

  bool Run(const Operand& inputs, RnnResult* result) {
    Output x = inputs.Get(DType::kFloat);
    if (!x.valid()) return false;
    if (IsRef(x.dtype())) x = ops::Identity(x);
    const int rank = x.shape().rank();
    if (rank < 2)
      return Fail(InvalidArgument(
          what_, ": expected inputs [batch, time, ...], got shape ",
          x.shape().ToString()));
    if (!options_.time_major) x = Swapped(x);
    if (!x.valid() || !Begin(x, 1)) return false;
    steps_ = DimOf(x, 0, loc_);
    steps_known_ = KnownDim(x, 0);
    bound_ = lengths_.valid() ? ops::Minimum(steps_, ops::Maximum(longest_, 1))
                              : steps_;
    std::optional<RnnStepper> stepper = cell_.Open(
        rank == 2 ? -1 : KnownDim(x, rank - 1), dtype_, rank == 3, loc_);
    if (!stepper.has_value()) return false;
    const bool fits = rank == 3 && RemoveRef(x.dtype()) == dtype_;
    if (stepper->project && fits) {
      x = Projected(x, *stepper);
    } else if (stepper->project) {
      return Fail(InvalidArgument(what_,
                                  ": expected inputs of the state's "
                                  "type ",
                                  DTypeName(dtype_), ", got ",
                                  DTypeName(x.dtype())));
    }
    if (!x.valid()) return false;
    return Loop(x, *stepper, result);
  }

 private:
  // Projects all rows at once, up to the end of the longest sequence.
  Output Projected(Output x, const RnnStepper& stepper) {
    const int64_t depth = KnownDim(x, 2);
    if (lengths_.valid())
      x = ops::Slice(x, IntVector({0, 0, 0}),
                     ops::Pack({bound_, Int(-1), Int(-1)}));
    const int64_t steps = KnownDim(x, 0);
    const bool known = steps >= 0 && batch_known_ >= 0;
    const Output rows =
        known ? Int(steps * batch_known_) : DimOf(x, 0, loc_) * batch_;
    const Output p =
        stepper.project(ops::Reshape(x, ops::Pack({rows, Int(depth)})));
    if (!p.valid()) return p;
    const int64_t width = KnownDim(p, 1);
    return Shaped(ops::Reshape(p, ops::Pack({DimOf(x, 0, loc_), batch_,
                                             width < 0 ? DimOf(p, 1, loc_)
                                                       : Int(width)})),
                  {steps, batch_known_, width}, loc_);
  }

  bool Loop(Output x, const RnnStepper& stepper, RnnResult* result) {
    PartialShape row = PartialShape::Scalar();
    for (int i = 1; i < x.shape().rank(); ++i) row.add_dim(x.shape().dim(i));
    const TensorArray in =
        TensorArray(RemoveRef(x.dtype()), DimOf(x, 0, loc_),
                    {.element_shape = row, .name = "input"}, loc_)
            .Unstack(x, loc_);
    const TensorArray out(dtype_, steps_,
                          {.element_shape = {batch_known_, cell_.output_size()},
                           .name = "output"},
                          loc_);
    if (!in || !out) return false;
    WhileOptions loop;
    loop.parallel_iterations = options_.parallel_iterations;
    loop.swap_memory = options_.swap_memory;
    const auto last = While(
        std::tuple{Int(0), out, state_},
        [&](Output time, const TensorArray&, const RnnState&) {
          return time < bound_;
        },
        [&](Output time, const TensorArray& so_far, const RnnState& state) {
          const RnnStep s = Step(stepper, time, in.Read(time, loc_), state);
          if (!s.output.valid())
            return std::tuple{s.output, TensorArray(), RnnState(state.size())};
          return std::tuple{time + 1, so_far.Write(time, s.output, loc_),
                            s.state};
        },
        loop, loc_);
    const TensorArray filled = std::get<1>(last);
    if (!filled) return false;
    Output y = Shaped(filled.Stack(loc_),
                      {steps_known_, batch_known_, cell_.output_size()}, loc_);
    if (y.valid() && !options_.time_major) y = Swapped(y);
    if (!y.valid()) return false;
    result->outputs = y;
    result->state = std::get<2>(last);
    return true;
  }

  Output steps_, bound_;  // Input length, and number of steps.
  int64_t steps_known_ = -1;
};

class Static : public Network {
 public:
  using Network::Network;

  bool Run(std::vector<Output> inputs, StaticRnnResult* result) {
    if (inputs.empty())
      return Fail(
          InvalidArgument(what_, ": expected at least one input, got none"));
    for (const Output& x : inputs)
      if (!x.valid() || x.shape().rank() == 0)
        return Fail(InvalidArgument(what_,
                                    ": expected inputs [batch, depth], "
                                    "got ",
                                    x.valid() ? x.shape().ToString() : "none"));
    const Output first = inputs[0];
    if (!Begin(first, 0)) return false;
    const int rank = first.shape().rank();
    std::optional<RnnStepper> stepper = cell_.Open(
        rank < 1 ? -1 : KnownDim(first, rank - 1), dtype_, rank == 2, loc_);
    if (!stepper.has_value()) return false;
    if (stepper->project) {
      // One product for all of them.
      const Output rows = inputs.size() == 1 ? first : ops::ConcatV2(inputs, 0);
      inputs = ops::Split(0, stepper->project(rows),
                          static_cast<int64_t>(inputs.size()));
    }
    for (size_t t = 0; t < inputs.size(); ++t) {
      const RnnStep s =
          Step(*stepper, Int(static_cast<int64_t>(t)), inputs[t], state_);
      if (!s.output.valid()) return false;
      result->outputs[t] = s.output;
      state_ = s.state;
    }
    result->state = state_;
    return true;
  }
};

}  // namespace

RnnResult DynamicRnn(const RnnCell& cell, const Operand& inputs,
                     const RnnOptions& options, SourceLoc loc) {
  const Lock lock(CurrentGraph().mutex());
  RnnResult result;
  if (Dynamic(cell, options, loc).Run(inputs, &result)) return result;
  const Output failed = CurrentGraph().Failure();
  return {failed, RnnState(cell.state_sizes().size(), failed)};
}

StaticRnnResult StaticRnn(const RnnCell& cell,
                          const std::vector<Output>& inputs,
                          const RnnOptions& options, SourceLoc loc) {
  const Lock lock(CurrentGraph().mutex());
  StaticRnnResult result;
  result.outputs.resize(inputs.size());
  if (Static(cell, options, loc).Run(inputs, &result)) return result;
  const Output failed = CurrentGraph().Failure();
  return {std::vector<Output>(inputs.size(), failed),
          RnnState(cell.state_sizes().size(), failed)};
}

BidirectionalRnnResult BidirectionalDynamicRnn(
    const RnnCell& forward, const RnnCell& backward, const Operand& inputs,
    const BidirectionalRnnOptions& options, SourceLoc loc) {
  const Lock lock(CurrentGraph().mutex());
  const AtLine at(loc);
  const WeightScope scope(
      options.scope.empty() ? "bidirectional_rnn" : options.scope,
      /*unique=*/options.scope.empty());
  BidirectionalRnnResult result;
  const Output x = inputs.Get(DType::kFloat);
  std::optional<Operand> lengths;
  if (options.sequence_length.has_value())
    lengths = Operand(options.sequence_length->Get(DType::kInt32));
  const auto direction = [&](const RnnCell& cell, const RnnState& state,
                             const char* name, Output in) {
    RnnOptions o;
    o.sequence_length = lengths;
    o.initial_state = state;
    o.time_major = options.time_major;
    o.parallel_iterations = options.parallel_iterations;
    o.swap_memory = options.swap_memory;
    o.scope = name;
    return DynamicRnn(cell, in, o, loc);
  };
  // Reverses the elements of each sequence; padding stays at the end.
  const auto reversed = [&](Output v) {
    const int time = options.time_major ? 0 : 1;
    if (!v.valid()) return v;
    if (!lengths.has_value()) return ops::ReverseV2(v, IntVector({time}));
    return ops::ReverseSequence(v, *lengths, time, {.batch_dim = 1 - time});
  };
  result.forward = direction(forward, options.initial_state_forward, "fw", x);
  result.backward =
      direction(backward, options.initial_state_backward, "bw", reversed(x));
  result.backward.outputs = reversed(result.backward.outputs);
  return result;
}

}  // namespace sluice
