"""Game-tree search with a value network, for noughts and crosses.

The search is a function that calls itself for the position after each move
(negamax), to a depth that depends on the values: where the network is not sure
who wins, the search looks further. The calls for the moves of one position run
in parallel, and those of all positions of a step; the program never thinks about
batches. The network learns from games of random players, and the moves of the
search are compared with those of perfect players.

  python3 game_tree.py
"""

import functools

import numpy as np

import sluice.compat.v1 as tf

GAMES, STEPS, BATCH, HIDDEN, TESTED = 2000, 400, 256, 32, 60
UNCLEAR = 0.5  # Where the network says less, look further.
LINES = np.array([[0, 1, 2], [3, 4, 5], [6, 7, 8], [0, 3, 6],
                  [1, 4, 7], [2, 5, 8], [0, 4, 8], [2, 4, 6]])


# The rules. A position is as the player to move sees it: 1 own, -1 the other's,
# 0 free.
def has_lost(board):
    return (np.array(board)[LINES].sum(1) == -3).any()


def next_positions(board):
    return [tuple(-1 if i == move else -v for i, v in enumerate(board))
            for move in range(9) if board[move] == 0]


@functools.lru_cache(None)
def perfect(board):
    """Returns the value under perfect play: 1, 0 or -1."""
    if has_lost(board):
        return -1
    return max([-perfect(b) for b in next_positions(board)], default=0)


tf.set_random_seed(1)
w1 = tf.get_variable("w1", [9, HIDDEN])
b1 = tf.get_variable("b1", [HIDDEN])
w2 = tf.get_variable("w2", [HIDDEN, 1])


def network(rows):
    """Returns for rows of positions who will win, from -1 to 1."""
    hidden = tf.tanh(tf.matmul(rows, w1) + b1)
    return tf.tanh(tf.squeeze(tf.matmul(hidden, w2), 1))


in_line = np.zeros([9, len(LINES)], np.float32)
in_line[LINES.T, np.arange(len(LINES))] = 1

# The function is declared first, because its body calls it.
search = tf.Declare("search", [("board", tf.float32), ("depth", tf.int32)],
                    [("value", tf.float32), ("seen", tf.int32)])


@tf.Defun(tf.float32, tf.int32, func_name="search", out_names=["value", "seen"])
def define_search(board, depth):
    """Returns the value of a position, and how many positions were seen."""
    board.set_shape([9])
    depth.set_shape([])
    row = tf.expand_dims(board, 0)

    def play():
        def after(move):
            value, seen = search(-(board + tf.one_hot(move, 9)), depth - 1)
            value.set_shape([])
            seen.set_shape([])
            return -value, seen

        free = tf.squeeze(tf.where(tf.equal(board, 0)), 1)
        values, seen = tf.map_fn(after, free, (tf.float32, tf.int32))
        return tf.reduce_max(values), tf.reduce_sum(seen) + 1

    def guess_or_play():
        guess = tf.squeeze(network(row))
        enough = (depth <= -2) | ((depth <= 0) & (tf.abs(guess) > UNCLEAR))
        return tf.cond(enough, lambda: (guess, 1), play)

    lost = tf.reduce_min(tf.matmul(row, in_line)) <= -3
    full = tf.reduce_all(tf.not_equal(board, 0))
    return tf.case([(lost, lambda: (-1.0, 1)), (full, lambda: (0.0, 1))],
                   guess_or_play)


boards = tf.placeholder(tf.float32, [None, 9])
won = tf.placeholder(tf.float32, [None])
loss = tf.losses.mean_squared_error(won, network(boards))
train = tf.train.AdamOptimizer(0.01).minimize(loss)
plies = tf.placeholder(tf.int32, [])
searched = tf.map_fn(lambda board: define_search(board, plies), boards,
                     (tf.float32, tf.int32), parallel_iterations=1000)

# Positions of random games, and how these end for the player to move.
rng = np.random.RandomState(1)
played, ends = [], []
for _ in range(GAMES):
    game = [(0,) * 9]
    while not has_lost(game[-1]) and 0 in game[-1]:
        after = next_positions(game[-1])
        game.append(after[rng.randint(len(after))])
    lost = -1.0 if has_lost(game[-1]) else 0.0
    played += game
    ends += [lost * (-1) ** (len(game) - 1 - i) for i in range(len(game))]
played_rows, ends = np.array(played), np.array(ends)

# Positions, after some moves, in which not every move is as good as any other.
tested = [b for b in played[::7] if b.count(0) <= 6 and not has_lost(b) and
          len({perfect(a) for a in next_positions(b)}) > 1][:TESTED]
choices = [next_positions(b) for b in tested]

with tf.Session(config=tf.ConfigProto(batch_frames=True)) as sess:
    sess.run(tf.global_variables_initializer())
    for step in range(STEPS + 1):
        some = rng.randint(len(played), size=BATCH)
        value, _ = sess.run([loss, train], {boards: played_rows[some],
                                            won: ends[some]})
        if step % 200 == 0:
            print("step %3d: loss %.3f" % (step, value))
    for depth in -2, 0, 2, 9:
        values, seen = sess.run(searched, {boards: np.concatenate(choices),
                                           plies: depth})
        begins = np.cumsum([len(c) for c in choices])[:-1]
        chosen = [c[np.argmin(v)]
                  for c, v in zip(choices, np.split(values, begins))]
        right = np.mean([-perfect(c) == perfect(b)
                         for c, b in zip(chosen, tested)])
        print("depth %d: %d%% of the moves are perfect, %d positions" % (
            depth, 100 * right, seen.sum()))
