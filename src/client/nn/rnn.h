// Recurrent networks: a cell applied along sequences, as a loop inside the
// graph or unrolled.
//
//   RnnResult r = DynamicRnn(LstmCell(256), inputs,
//                            {.sequence_length = Operand(lengths)});
//   Output all = r.outputs;    // [batch, time, 256]
//   Output last = r.state[1];  // The h of {c, h} after each sequence's end.
#ifndef SLUICE_CLIENT_NN_RNN_H_
#define SLUICE_CLIENT_NN_RNN_H_

#include <optional>
#include <string>
#include <vector>

#include "client/nn/rnn_cells.h"

namespace sluice {

struct RnnOptions {
  // The length of each sequence: integers [batch]. Past its end a sequence's
  // outputs are zero and its state does not change; nothing is computed beyond
  // the longest sequence. None: all sequences are as long as the inputs.
  std::optional<Operand> sequence_length = std::nullopt;
  // Empty: zeros.
  RnnState initial_state = {};
  // Inputs and outputs are [time, batch, ...] instead of [batch, time, ...];
  // this saves two transpositions.
  bool time_major = false;
  // As for While.
  int parallel_iterations = 32;
  bool swap_memory = false;
  // Prefix of the names of nodes and weights.
  std::string scope = "rnn";
};

struct RnnResult {
  Output outputs;  // [batch, time, output size], or time-major.
  RnnState state;  // The state after the last element of each sequence.
};

// A While over the elements of `inputs`, [batch, time, depth] (depth must be
// known before the step). The part of each step that depends only on its input
// (the products with the input weights) is computed before the loop, for all
// elements at once. On error, which is recorded in the graph, the outputs are
// null.
RnnResult DynamicRnn(const RnnCell& cell, const Operand& inputs,
                     const RnnOptions& options = {},
                     SourceLoc loc = CallerLoc());

struct BidirectionalRnnOptions {
  std::optional<Operand> sequence_length = std::nullopt;
  RnnState initial_state_forward = {}, initial_state_backward = {};
  bool time_major = false;
  int parallel_iterations = 32;
  bool swap_memory = false;
  std::string scope = "bidirectional_rnn";
};

struct BidirectionalRnnResult {
  RnnResult forward, backward;
};

// Two cells, one applied forwards along each sequence and one backwards from
// its last element. Row t of both outputs belongs to element t.
BidirectionalRnnResult BidirectionalDynamicRnn(
    const RnnCell& forward, const RnnCell& backward, const Operand& inputs,
    const BidirectionalRnnOptions& options = {}, SourceLoc loc = CallerLoc());

struct StaticRnnResult {
  std::vector<Output> outputs;  // One [batch, output size] per input.
  RnnState state;
};

// Applies the cell once per element, without a loop: for sequences of one short
// length. Each input is [batch, depth]. (Loop options and time_major are
// ignored.)
StaticRnnResult StaticRnn(const RnnCell& cell,
                          const std::vector<Output>& inputs,
                          const RnnOptions& options = {},
                          SourceLoc loc = CallerLoc());

}  // namespace sluice

#endif  // SLUICE_CLIENT_NN_RNN_H_
