#!/usr/bin/env python3
"""Compares Sluice's Tree-LSTM with PyTorch's and DyNet's, in trees a second, on
this machine.

    bench/tree_peers.py [--sluice build/release/bin/sluice] [--turns 3]
                        [--threads 1] [--dynet-python PYTHON]

The workload of bench/tree_lstm.cc: 32 random binary trees of 20 leaves, 128
units, training steps (the gradients of all parameters) and the forward pass
alone, with other trees in each step. PyTorch runs eagerly, one node at a time,
and batched by hand, by the depth of the nodes; the time to make the indices for
that counts, as it does for every new tree. DyNet builds a graph for each step
and batches it automatically (its wheel may need another Python than PyTorch's).
Peers that are missing are skipped. All alternate, `turns` times, in separate
processes; a turn is the best of 20 steps after a first one, and the columns are
the medians of the turns. DyNet uses one thread always.
"""
import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import time

UNITS, TREES, LEAVES, WORDS, STEPS = 128, 32, 20, 1000, 20


def grow(leaves):
    """Returns a random tree: the word of a leaf, or a pair of trees."""
    if leaves == 1:
        return random.randrange(WORDS)
    first = random.randint(1, leaves - 1)
    return grow(first), grow(leaves - first)


def best(step):
    """Returns trees/s of the best of some steps, each on its own trees."""
    times = []
    for _ in range(STEPS + 1):
        trees = [grow(LEAVES) for _ in range(TREES)]
        start = time.perf_counter()
        step(trees)
        times.append(time.perf_counter() - start)
    return TREES / min(times[1:])


def torch_steps(threads):
    import torch
    torch.set_num_threads(threads)
    torch.manual_seed(0)

    def parameter(*shape):
        return (torch.randn(*shape) * 0.1).requires_grad_()
    table, w = parameter(WORDS, UNITS), parameter(2 * UNITS, 5 * UNITS)
    b, leaf = parameter(5 * UNITS), parameter(UNITS, 2 * UNITS)
    parameters = [table, w, b, leaf]

    def compose(l, r):
        i, fl, fr, o, g = (torch.cat([l[1], r[1]], -1) @ w + b).chunk(5, -1)
        c = (l[0] * torch.sigmoid(fl) + r[0] * torch.sigmoid(fr) +
             torch.sigmoid(i) * torch.tanh(g))
        return c, torch.tanh(c) * torch.sigmoid(o)

    def leaves(words):
        c, o = (table[words] @ leaf).chunk(2, -1)
        return c, torch.tanh(c) * torch.sigmoid(o)

    def eager(trees):
        def visit(t):
            if isinstance(t, int):
                return leaves(slice(t, t + 1))
            return compose(visit(t[0]), visit(t[1]))
        return sum(visit(t)[1].sum() for t in trees)

    def by_hand(trees):
        words, levels = [], []

        def visit(t):
            if isinstance(t, int):
                words.append(t)
                return 0, len(words) - 1
            left, right = visit(t[0]), visit(t[1])
            depth = max(left[0], right[0]) + 1
            if len(levels) < depth:
                levels.append([])
            levels[depth - 1].append((left, right))
            return depth, len(levels[depth - 1]) - 1
        roots = [visit(t) for t in trees]
        c, h = leaves(torch.tensor(words))
        begins = [0, len(words)]
        for level in levels:
            l = torch.tensor([begins[d] + i for (d, i), _ in level])
            r = torch.tensor([begins[d] + i for _, (d, i) in level])
            new_c, new_h = compose((c[l], h[l]), (c[r], h[r]))
            c, h = torch.cat([c, new_c]), torch.cat([h, new_h])
            begins.append(begins[-1] + len(level))
        return h[torch.tensor([begins[d] + i for d, i in roots])].sum()

    def training(forward):
        def step(trees):
            for p in parameters:
                p.grad = None
            forward(trees).backward()
        return step

    def inference(forward):
        def step(trees):
            with torch.no_grad():
                return forward(trees).item()
        return step
    return {("train", "torch eager"): training(eager),
            ("train", "torch by hand"): training(by_hand),
            ("forward", "torch eager"): inference(eager),
            ("forward", "torch by hand"): inference(by_hand)}


def dynet_steps(_threads):
    import dynet_config
    dynet_config.set(autobatch=1, mem=2048, random_seed=1)
    import dynet as dy
    model = dy.ParameterCollection()
    normal = dy.NormalInitializer(0, 0.01)
    table = model.add_lookup_parameters((WORDS, UNITS), init=normal)
    w = model.add_parameters((5 * UNITS, 2 * UNITS), init=normal)
    b = model.add_parameters(5 * UNITS, init=0)
    leaf = model.add_parameters((2 * UNITS, UNITS), init=normal)

    def forward(trees):
        dy.renew_cg()

        def part(x, i):
            return dy.pick_range(x, i * UNITS, (i + 1) * UNITS)

        def visit(t):
            if isinstance(t, int):
                x = leaf * table[t]
                c = part(x, 0)
                return c, dy.cmult(dy.tanh(c), dy.logistic(part(x, 1)))
            l, r = visit(t[0]), visit(t[1])
            x = dy.affine_transform([b, w, dy.concatenate([l[1], r[1]])])
            c = (dy.cmult(l[0], dy.logistic(part(x, 1))) +
                 dy.cmult(r[0], dy.logistic(part(x, 2))) +
                 dy.cmult(dy.logistic(part(x, 0)), dy.tanh(part(x, 4))))
            return c, dy.cmult(dy.tanh(c), dy.logistic(part(x, 3)))
        return dy.esum([dy.sum_elems(visit(t)[1]) for t in trees])

    def train(trees):
        loss = forward(trees)
        loss.forward()
        loss.backward()
    return {("train", "dynet"): train,
            ("forward", "dynet"): lambda trees: forward(trees).value()}


PEERS = {"torch": torch_steps, "dynet": dynet_steps}


def measure_peer(peer, threads):
    """The body of a peer's process: prints its figures as JSON."""
    random.seed(1)
    sys.setrecursionlimit(10000)
    steps = PEERS[peer](threads)
    print(json.dumps([[*key, best(step)] for key, step in steps.items()]))


def measure_sluice(program, threads):
    names = {f"sluice.treelstm.L20.U128.B32.{part}trees_per_s": key
             for part, key in (
                 ("", ("train", "sluice")),
                 ("one_by_one.", ("train", "sluice one by one")),
                 ("fwd.", ("forward", "sluice")),
                 ("fwd.one_by_one.", ("forward", "sluice one by one")))}
    made = subprocess.run(
        [program, "bench", "--json", "--filter", "treelstm"],
        capture_output=True, text=True, check=True,
        # (Sessions use all cores unless OpenMP has fewer threads.)
        env={**os.environ, "OMP_NUM_THREADS": str(threads),
             "OMP_THREAD_LIMIT": str(threads)})
    for line in made.stdout.splitlines():
        figure = json.loads(line)
        if figure["name"] in names:
            yield [*names[figure["name"]], figure["value"]]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--sluice", default="build/release/bin/sluice")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--dynet-python", default=sys.executable)
    parser.add_argument("--peer", choices=sorted(PEERS), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.peer:
        measure_peer(args.peer, args.threads)
        return
    turns = {}
    for _ in range(args.turns):
        figures = list(measure_sluice(args.sluice, args.threads))
        for peer, python in (("torch", sys.executable),
                             ("dynet", args.dynet_python)):
            made = subprocess.run(
                [python, __file__, "--peer", peer, "--threads",
                 str(args.threads)], capture_output=True, text=True)
            if made.returncode != 0:
                print(f"{peer}: skipped: {made.stderr.strip()[-200:]}",
                      file=sys.stderr)
                continue
            figures += json.loads(made.stdout.splitlines()[-1])
        for kind, who, value in figures:
            turns.setdefault((kind, who), []).append(value)
    for (kind, who), values in sorted(turns.items()):
        mine = turns[kind, "sluice"]
        times = statistics.median(m / v for m, v in zip(mine, values))
        print(f"{kind:8} {who:14} {statistics.median(values):9.1f} trees/s"
              f"  sluice is {times:.2f} times as fast")


if __name__ == "__main__":
    main()
