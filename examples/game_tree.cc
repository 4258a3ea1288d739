// Game-tree search with a value network, for noughts and crosses.
//
// The search is a function that calls itself for the position after each move
// (negamax), to a depth that depends on the values: where the network is not
// sure who wins, the search looks further. The calls for the moves of one
// position run in parallel, and those of all positions of a step; the program
// never thinks about batches. The network learns from games of random players,
// and the moves of the search are compared with those of perfect players.
#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <random>
#include <vector>

#include "sluice/sluice.h"

using namespace sluice;

// A position as the player to move sees it: 1 own, -1 the other's, 0 free.
using Board = std::array<float, 9>;

constexpr int kLines[8][3] = {{0, 1, 2}, {3, 4, 5}, {6, 7, 8}, {0, 3, 6},
                              {1, 4, 7}, {2, 5, 8}, {0, 4, 8}, {2, 4, 6}};
constexpr int kGames = 3000, kSteps = 400, kBatch = 256, kHidden = 32;
constexpr float kUnclear = 0.5f;  // Where the network says less, look further.

// ---- The rules, for the games that it learns from and for perfect players
// ----

bool HasLost(const Board& b) {
  return std::any_of(std::begin(kLines), std::end(kLines), [&](const auto& l) {
    return b[l[0]] + b[l[1]] + b[l[2]] == -3;
  });
}
std::vector<size_t> Moves(const Board& b) {
  std::vector<size_t> moves;
  for (size_t i = 0; i < 9; ++i)
    if (b[i] == 0) moves.push_back(i);
  return moves;
}
Board After(Board b, size_t move) {
  b[move] = 1;
  for (float& v : b) v = v == 0 ? 0 : -v;
  return b;
}
// The value under perfect play: 1, 0 or -1.
float Perfect(const Board& b) {
  static std::map<Board, float> known;
  const auto found = known.find(b);
  if (found != known.end()) return found->second;
  float best = HasLost(b) ? -1 : Moves(b).empty() ? 0 : -2;
  if (best == -2)
    for (const size_t m : Moves(b))
      best = std::max(best, -Perfect(After(b, m)));
  return known[b] = best;
}

// ---- The search ------------------------------------------------------------

struct ValueNetwork {
  Var w1 = GetVariable("w1", {9, kHidden}), b1 = GetVariable("b1", {kHidden});
  Var w2 = GetVariable("w2", {kHidden, 1});

  // Of rows of positions, [n]: who will win, from -1 to 1.
  Output operator()(Output rows) const {
    return ops::Tanh(
        ops::Squeeze(ops::MatMul(ops::Tanh(ops::MatMul(rows, w1) + b1), w2),
                     {.squeeze_dims = {1}}));
  }
};

// search({position, depth}): its value, and the number of positions seen.
Function Search(const ValueNetwork& network) {
  std::vector<float> in_line(9 * 8);
  for (size_t l = 0; l < 8; ++l)
    for (const int i : kLines[l]) in_line[static_cast<size_t>(i) * 8 + l] = 1;
  Output lines = Constant(Tensor::Of<float>({9, 8}, in_line));
  return DefineFunction(
      "search", {DType::kFloat, DType::kInt32}, {DType::kFloat, DType::kInt32},
      [&](const Function& self, const std::vector<Output>& args) {
        Output board = args[0], depth = args[1];
        Output row = ops::ExpandDims(board, 0);
        Output lost = ops::Min(ops::MatMul(row, lines), {0, 1}) <= -3.0f;
        Output full = ops::All(ops::NotEqual(board, 0.0f), 0);
        const auto [value, seen] = Case<std::pair<Output, Output>>(
            {{lost,
              [] {
                return std::pair{Constant(-1.0f), Constant(1)};
              }},
             {full,
              [] {
                return std::pair{Constant(0.0f), Constant(1)};
              }}},
            [&] {
              Output guess = ops::Squeeze(network(row));
              Output clear = ops::Abs(guess) > kUnclear;
              return Cond(
                  ops::LogicalOr(depth <= -2,
                                 ops::LogicalAnd(depth <= 0, clear)),
                  [&] {
                    return std::pair{guess, Constant(1)};
                  },
                  [&] {
                    Output free =
                        ops::Squeeze(ops::Where(ops::Equal(board, 0.0f)),
                                     {.squeeze_dims = {1}});
                    const auto [values, seen] = MapFn(
                        [&](Output move) {
                          const auto r =
                              self({-(board + ops::OneHot(move, 9, 1.0f, 0.0f)),
                                    depth - 1});
                          return std::pair{-r[0], r[1]};
                        },
                        free);
                    return std::pair{ops::Max(values, 0),
                                     ops::Sum(seen, 0) + 1};
                  });
            });
        return std::vector{value, seen};
      },
      {.arg_shapes = {{9}, {}}, .result_shapes = {{}, {}}});
}

Tensor Rows(const std::vector<Board>& boards) {
  Tensor t(DType::kFloat, {static_cast<int64_t>(boards.size()), 9});
  for (size_t i = 0; i < boards.size(); ++i)
    std::copy(boards[i].begin(), boards[i].end(), t.data<float>() + 9 * i);
  return t;
}

Status Run() {
  SetRandomSeed(1);
  const ValueNetwork network;
  Output boards = Placeholder<float>({-1, 9}), won = Placeholder<float>({-1});
  Output error = network(boards) - won;
  Output loss = ops::Mean(error * error, 0);
  Node* train = AdamOptimizer(0.01f).Minimize(loss);
  const Function search = Search(network);
  Output depth = Placeholder<int32_t>({});
  const auto [values, seen] = MapFn(
      [&](Output board) {
        const auto r = search({board, depth});
        return std::pair{r[0], r[1]};
      },
      boards, {.parallel_iterations = 1000});

  SessionOptions options;
  options.batch_frames = true;
  Session session(CurrentGraph(), options);
  SLUICE_RETURN_IF_ERROR(session.RunTargets({GlobalVariablesInitializer()}));
  // Positions of random games, and how these end for the player to move.
  std::mt19937 random(1);
  std::vector<Board> played;
  std::vector<float> result;
  for (int game = 0; game < kGames; ++game) {
    const size_t begin = played.size();
    Board b = {};
    for (;;) {
      played.push_back(b);
      const auto moves = Moves(b);
      if (HasLost(b) || moves.empty()) break;
      b = After(b, moves[random() % moves.size()]);
    }
    float value = HasLost(b) ? -1.0f : 0.0f;
    result.resize(played.size());
    for (size_t i = played.size(); i-- > begin; value = -value)
      result[i] = value;
  }
  for (int step = 0; step <= kSteps; ++step) {
    std::vector<Board> some(kBatch);
    std::vector<float> ends(kBatch);
    for (size_t i = 0; i < kBatch; ++i) {
      const size_t n = random() % played.size();
      some[i] = played[n];
      ends[i] = result[n];
    }
    SLUICE_ASSIGN_OR_RETURN(
        const Tensor value,
        session.Run({{boards, Rows(some)}, {won, Tensor::Vector<float>(ends)}},
                    loss, {train}));
    if (step % 200 == 0)
      std::printf("step %3d: loss %.3f\n", step, value.scalar<float>());
  }

  // Positions in which not every move is as good as any other.
  std::vector<Board> tested, next;
  std::vector<size_t> first;
  for (size_t i = 0; tested.size() < 100; i += 7) {
    const Board& b = played[i % played.size()];
    float worst = 1, best = -1;
    if (HasLost(b) || Moves(b).size() > 6) continue;
    for (const size_t m : Moves(b)) {
      worst = std::min(worst, -Perfect(After(b, m)));
      best = std::max(best, -Perfect(After(b, m)));
    }
    if (worst >= best) continue;
    tested.push_back(b);
    first.push_back(next.size());
    for (const size_t m : Moves(b)) next.push_back(After(b, m));
  }
  first.push_back(next.size());
  for (const int plies : {-2, 0, 2, 9}) {
    SLUICE_ASSIGN_OR_RETURN(
        const std::vector<Tensor> out,
        session.Run({{boards, Rows(next)}, {depth, Tensor::Scalar(plies)}},
                    {values, seen}));
    const auto v = out[0].flat<float>();
    int right = 0;
    for (size_t t = 0; t < tested.size(); ++t) {
      const auto chosen = static_cast<size_t>(
          std::min_element(v.begin() + first[t], v.begin() + first[t + 1]) -
          v.begin());
      right += -Perfect(next[chosen]) == Perfect(tested[t]);
    }
    int64_t positions = 0;
    for (const int32_t n : out[1].flat<int32_t>()) positions += n;
    std::printf("depth %d: %d%% of the moves are perfect, %lld positions\n",
                plies, right, static_cast<long long>(positions));
  }
  return OkStatus();
}

int main() {
  const Status status = Run();
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
