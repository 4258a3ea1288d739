// Cells made of other cells, or of a function.
#include "client/nn/layer_scope.h"
#include "client/nn/rnn_cells.h"
#include "client/operators.h"
#include "graph/device_scope.h"
#include "graph/exact_line.h"
#include "graph/graph.h"
#include "sluice/ops.h"

namespace sluice {
namespace {

// ---- Layers -----------------------------------------------------------------

class MultiKind final : public RnnCell::Kind {
 public:
  explicit MultiKind(std::vector<RnnCell> cells)
      : Kind("multi_rnn_cell"), cells_(std::move(cells)) {}

  int64_t output_size() const override {
    return cells_.empty() ? 0 : cells_.back().output_size();
  }
  std::vector<int64_t> state_sizes() const override {
    std::vector<int64_t> sizes;
    for (const RnnCell& cell : cells_)
      for (const int64_t size : cell.state_sizes()) sizes.push_back(size);
    return sizes;
  }
  bool IsMemory(size_t i) const override {
    for (const RnnCell& cell : cells_) {
      const size_t n = cell.state_sizes().size();
      if (i < n) return cell.IsMemory(i);
      i -= n;
    }
    return false;
  }
  std::vector<Var> variables() const override {
    std::vector<Var> vars;
    for (const RnnCell& cell : cells_)
      for (const Var& v : cell.variables()) vars.push_back(v);
    return vars;
  }

  std::optional<RnnStepper> Open(int64_t depth, DType dtype, bool project,
                                 SourceLoc loc) override {
    if (cells_.empty()) {
      BuildError(InvalidArgument("MultiRnnCell: expected a cell, got none"),
                 loc);
      return std::nullopt;
    }
    std::vector<RnnStepper> steppers;
    const bool first_use = prefix_.empty();
    std::optional<WeightScope> scope;
    if (first_use) prefix_ = scope.emplace(name(), /*unique=*/true).prefix();
    for (size_t i = 0; i < cells_.size(); ++i) {
      std::optional<WeightScope> layer;
      if (first_use) layer.emplace(absl::StrCat("cell_", i), /*unique=*/false);
      std::optional<RnnStepper> s =
          cells_[i].Open(depth, dtype, project && i == 0, loc);
      if (!s.has_value()) return std::nullopt;
      steppers.push_back(*std::move(s));
      depth = cells_[i].output_size();
    }
    RnnStepper stepper;
    stepper.project = steppers[0].project;
    stepper.step = [steppers, cells = cells_](Output x, const RnnState& state) {
      RnnStep all;
      auto from = state.begin();
      for (size_t i = 0; i < steppers.size(); ++i) {
        const auto to =
            from + static_cast<std::ptrdiff_t>(cells[i].state_sizes().size());
        const RnnStep one = steppers[i].step(x, RnnState(from, to));
        all.state.insert(all.state.end(), one.state.begin(), one.state.end());
        x = one.output;
        from = to;
      }
      all.output = x;
      return all;
    };
    return stepper;
  }

 private:
  const std::vector<RnnCell> cells_;
  std::string prefix_;
};

// ---- Dropout ----------------------------------------------------------------

// A cell that changes what goes into another cell or comes out of it.
class WrapperKind : public RnnCell::Kind {
 public:
  WrapperKind(std::string name, const RnnCell& cell)
      : Kind(std::move(name)), cell_(cell) {}

  int64_t output_size() const override { return cell_.output_size(); }
  std::vector<int64_t> state_sizes() const override {
    return cell_.state_sizes();
  }
  bool IsMemory(size_t i) const override { return cell_.IsMemory(i); }
  std::vector<Var> variables() const override { return cell_.variables(); }

 protected:
  const RnnCell cell_;
};

// Null if every element is kept.
Output KeepOf(const Operand& keep, const char* what) {
  const Output k = keep.Get(DType::kFloat);
  if (keep.output.valid() || !keep.literal.valid()) return k;
  const double p =
      k.valid() && keep.weak && keep.literal.dtype() == DType::kDouble
          ? keep.literal.raw_scalar<double>()
          : 1.0;
  if (!(p > 0 && p <= 1))
    return BuildError(
        InvalidArgument("DropoutWrapper: ", what,
                        ": expected a probability above 0 and up to 1, got ",
                        p),
        keep.loc);
  return p == 1 ? Output() : k;
}

Output Dropout(Output x, Output keep, const std::optional<int64_t>& seed) {
  if (!keep.valid()) return x;
  const DType t = RemoveRef(x.dtype());
  const std::pair<int64_t, int64_t> seeds = SeedsFor(seed);
  const Output p = keep.dtype() == t ? keep : ops::Cast(keep, t);
  const Output uniform = ops::RandomUniform(
      ops::Shape(x), t, {.seed = seeds.first, .seed2 = seeds.second});
  return ops::Select(uniform < p, x / p, ops::ZerosLike(x));
}

class DropoutKind final : public WrapperKind {
 public:
  DropoutKind(const RnnCell& cell, const DropoutOptions& options)
      : WrapperKind("dropout", cell), options_(options) {}

  std::optional<RnnStepper> Open(int64_t depth, DType dtype, bool project,
                                 SourceLoc loc) override {
    const std::optional<RnnStepper> inner =
        cell_.Open(depth, dtype, project, loc);
    if (!inner.has_value()) return std::nullopt;
    const Output in = KeepOf(options_.input_keep, "input_keep");
    const Output out = KeepOf(options_.output_keep, "output_keep");
    const Output kept = KeepOf(options_.state_keep, "state_keep");
    for (const Output& keep : {in, out, kept})
      if (CurrentGraph().ErrorOf(keep) != nullptr) return std::nullopt;
    // (Each position gets its own seed, derived from the given one.)
    const auto seed = [given = options_.seed](int64_t place) {
      return given.has_value() ? std::optional<int64_t>(*given * 8 + place)
                               : std::nullopt;
    };
    RnnStepper stepper;
    const bool early = inner->project != nullptr;
    if (early)
      stepper.project = [=, project = inner->project](Output rows) {
        return project(Dropout(rows, in, seed(0)));
      };
    stepper.step = [=, cell = cell_, step = inner->step](
                       Output x, const RnnState& state) {
      RnnStep s = step(early ? x : Dropout(x, in, seed(0)), state);
      for (size_t i = 0; i < s.state.size(); ++i)
        if (!cell.IsMemory(i))
          s.state[i] =
              Dropout(s.state[i], kept, seed(2 + static_cast<int64_t>(i)));
      s.output = Dropout(s.output, out, seed(1));
      return s;
    };
    return stepper;
  }

 private:
  const DropoutOptions options_;
};

// ---- Devices ----------------------------------------------------------------

class DeviceKind final : public WrapperKind {
 public:
  DeviceKind(const RnnCell& cell, const std::string& device)
      : WrapperKind("device", cell), device_(device) {}

  std::optional<RnnStepper> Open(int64_t depth, DType dtype, bool project,
                                 SourceLoc loc) override {
    const DeviceScope on(device_);
    std::optional<RnnStepper> inner = cell_.Open(depth, dtype, project, loc);
    if (!inner.has_value()) return std::nullopt;
    RnnStepper stepper;
    if (inner->project != nullptr)
      stepper.project = [there = device_, project = inner->project](Output x) {
        const DeviceScope scope(there);
        return project(x);
      };
    stepper.step = [there = device_, step = inner->step](
                       Output x, const RnnState& state) {
      const DeviceScope scope(there);
      return step(x, state);
    };
    return stepper;
  }

 private:
  const std::string device_;
};

// ---- Functions --------------------------------------------------------------

class FunctionKind final : public RnnCell::Kind {
 public:
  FunctionKind(int64_t output_size, std::vector<int64_t> state_sizes,
               std::function<RnnStep(Output, const RnnState&)> fn)
      : Kind("function_cell"),
        outside_(CurrentLine()),
        output_size_(output_size),
        state_sizes_(std::move(state_sizes)),
        fn_(std::move(fn)) {}

  int64_t output_size() const override { return output_size_; }
  std::vector<int64_t> state_sizes() const override { return state_sizes_; }
  std::optional<RnnStepper> Open(int64_t, DType, bool, SourceLoc loc) override {
    if (fn_ == nullptr) {
      BuildError(InvalidArgument("FunctionCell: expected a function, got none"),
                 loc);
      return std::nullopt;
    }
    return RnnStepper{nullptr, [fn = fn_, outside = outside_](
                                   Output x, const RnnState& state) {
                        const ExactLine callers(outside);
                        return fn(x, state);
                      }};
  }

 private:
  const SourceLoc outside_;
  const int64_t output_size_;
  const std::vector<int64_t> state_sizes_;
  const std::function<RnnStep(Output, const RnnState&)> fn_;
};

}  // namespace

RnnCell MultiRnnCell(std::vector<RnnCell> cells) {
  return RnnCell(std::make_shared<MultiKind>(std::move(cells)));
}
RnnCell DropoutWrapper(const RnnCell& cell, const DropoutOptions& options) {
  return RnnCell(std::make_shared<DropoutKind>(cell, options));
}
RnnCell DeviceWrapper(const RnnCell& cell, const std::string& device) {
  return RnnCell(std::make_shared<DeviceKind>(cell, device));
}
RnnCell FunctionCell(int64_t output_size, std::vector<int64_t> state_sizes,
                     std::function<RnnStep(Output, const RnnState&)> fn) {
  return RnnCell(std::make_shared<FunctionKind>(
      output_size, std::move(state_sizes), std::move(fn)));
}

}  // namespace sluice
