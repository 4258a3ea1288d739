// Cells of recurrent networks: the computation for one element of a sequence.
//
//   RnnCell cell = LstmCell(256);
//   RnnResult r = DynamicRnn(cell, inputs);              // client/nn/rnn.h
//   auto [y, next] = cell(x, cell.ZeroState(batch));     // one step by hand
//
// Formulas, names and layouts of the weights are TensorFlow's: a kernel is
// [inputs + units, gates * units], an LSTM's gates come in the order i, j, f, o
// and a GRU's in the order r, u.
#ifndef SLUICE_CLIENT_NN_RNN_CELLS_H_
#define SLUICE_CLIENT_NN_RNN_CELLS_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/nn/activation.h"
#include "client/variables.h"
#include "graph/builder.h"

namespace sluice {

// The state that a cell passes to the next step: outputs of shape [batch,
// size].
using RnnState = std::vector<Output>;

struct RnnStep {
  Output output;  // [batch, output size].
  RnnState state;
};

// A cell whose weights have been read, for the steps of one loop (or for one
// step).
struct RnnStepper {
  // The part of a step that depends only on its input, for any number of rows
  // at once: [rows, depth] to [rows, n]. If set, `step` takes rows of its
  // result.
  std::function<Output(Output rows)> project = nullptr;
  std::function<RnnStep(Output x, const RnnState& state)> step = nullptr;
};

// A light handle: copies refer to the same cell with the same weights. The
// weights are created when the cell is first used, in the ambient graph and
// variable scope (else name scope) of that use. Null by default. Belongs to the
// thread that builds the graph.
class RnnCell {
 public:
  class Kind;

  RnnCell() = default;
  explicit RnnCell(std::shared_ptr<Kind> kind) : kind_(std::move(kind)) {}
  explicit operator bool() const { return kind_ != nullptr; }

  int64_t output_size() const;
  std::vector<int64_t> state_sizes() const;
  // Whether state i is memory that dropout does not affect (an LSTM's c).
  bool IsMemory(size_t i) const;
  // Empty until the cell is used.
  std::vector<Var> variables() const;

  // One step. x: [batch, depth], where depth must be known. On error, which is
  // recorded in the graph, all outputs are null.
  RnnStep operator()(const Operand& x, const RnnState& state,
                     SourceLoc loc = CallerLoc()) const;
  // `batch`: an int32 scalar.
  RnnState ZeroState(const Operand& batch, DType dtype = DType::kFloat,
                     SourceLoc loc = CallerLoc()) const;

  // For loops over steps: creates the weights if necessary, for inputs [rows,
  // depth] (-1: unknown), and reads them in the current context. With
  // `project`, the stepper has that function if the cell can be split. nullopt
  // after an error.
  std::optional<RnnStepper> Open(int64_t depth, DType dtype, bool project,
                                 SourceLoc loc = CallerLoc()) const;

 private:
  std::shared_ptr<Kind> kind_;
};

// The implementation of a cell. Derive from it for a custom cell with weights
// or inner cells; FunctionCell is shorter.
class RnnCell::Kind {
 public:
  explicit Kind(std::string name) : name_(std::move(name)) {}
  virtual ~Kind() = default;
  Kind(const Kind&) = delete;

  virtual int64_t output_size() const = 0;
  virtual std::vector<int64_t> state_sizes() const = 0;
  virtual bool IsMemory(size_t) const { return false; }
  // See RnnCell::Open.
  virtual std::optional<RnnStepper> Open(int64_t depth, DType dtype,
                                         bool project, SourceLoc loc) = 0;
  virtual std::vector<Var> variables() const;
  const std::string& name() const { return name_; }

 protected:
  // The weight `name` of this cell, created on first use; its value, read here.
  Output Weight(const std::string& name, const Shape& shape, DType dtype,
                const InitializerFn& initializer, SourceLoc loc);
  // False, with an error recorded, if depth is not known.
  bool KnowsDepth(int64_t depth, SourceLoc loc) const;

 private:
  const std::string name_;
  std::string prefix_;  // Of the weights' names; set with the first weight.
  std::vector<std::pair<std::string, Var>> weights_;
};

// ---- Cells ------------------------------------------------------------------

struct RnnCellOptions {
  Activation activation = nullptr;  // Null: tanh.
  InitializerFn initializer = init::GlorotUniform();
  std::string name = "";  // "basic_rnn_cell", "gru_cell".
};

// output = state = activation([x, state] kernel + bias).
RnnCell BasicRnnCell(int64_t units, const RnnCellOptions& options = {});

// r, u = sigmoid([x, h] gates/kernel + gates/bias);
// c = activation([x, r * h] candidate/kernel + candidate/bias);
// output = state = u * h + (1 - u) * c.
RnnCell GruCell(int64_t units, const RnnCellOptions& options = {});

struct LstmCellOptions {
  double forget_bias = 1;
  // The gates also depend on the memory, with one weight per unit.
  bool peepholes = false;
  // c is clipped to [-cell_clip, cell_clip].
  std::optional<double> cell_clip = {};
  // The output is h projection/kernel, of this size (0: h itself), clipped.
  int64_t projection = 0;
  std::optional<double> projection_clip = {};
  Activation activation = nullptr;
  InitializerFn initializer = init::GlorotUniform();
  std::string name = "lstm_cell";
};

// i, j, f, o = [x, h] kernel + bias;
// c' = sigmoid(f + forget_bias) * c + sigmoid(i) * activation(j);
// h' = sigmoid(o) * activation(c'). The state is {c, h}, the output h.
RnnCell LstmCell(int64_t units, const LstmCellOptions& options = {});

// Stacked layers: each cell's output is the next one's input. The state
// contains the states of all cells.
RnnCell MultiRnnCell(std::vector<RnnCell> cells);

struct DropoutOptions {
  // The probability that an element is kept (and divided by this): scalars.
  Operand input_keep = 1.0;
  Operand output_keep = 1.0;
  Operand state_keep = 1.0;  // Does not apply to an LSTM's c.
  std::optional<int64_t> seed = {};
};
RnnCell DropoutWrapper(const RnnCell& cell, const DropoutOptions& options);

// The cell with its weights and computation on a device (a DeviceScope). Layers
// on different devices run concurrently, each one iteration behind the previous
// one.
RnnCell DeviceWrapper(const RnnCell& cell, const std::string& device);

// A cell defined by a function, which is called once for each loop.
RnnCell FunctionCell(
    int64_t output_size, std::vector<int64_t> state_sizes,
    std::function<RnnStep(Output x, const RnnState& state)> fn);

}  // namespace sluice

#endif  // SLUICE_CLIENT_NN_RNN_CELLS_H_
