#!/usr/bin/env python3
"""Compares programs whose structure depends on their data with PyTorch's eager
mode, on this machine: a Graph-LSTM and a beam search. (bench/tree_peers.py has
the Tree-LSTM.)

    bench/structure_peers.py [--sluice build/release/bin/sluice] [--turns 3]
                             [--filter beam] [--threads 1]

The models of bench/graph_lstm.cc and bench/beam_search.cc.
Neither side says anything about batches: Sluice batches what is ready together.
Needs a Python with PyTorch. Both alternate, `turns` times, in separate
processes; a turn is the best of four steps, each on other structures. The
columns are graphs or words a second, medians of the turns. (Words, since random
weights say how long a sentence becomes.)
"""
import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import time

UNITS, WORDS = 128, 1000
os.environ["CUDA_VISIBLE_DEVICES"] = ""


def cell(torch, gates, old):
    i, u, o = gates.chunk(3, -1)
    c = torch.sigmoid(i) * torch.tanh(u) + old
    return torch.sigmoid(o) * torch.tanh(c), c


def graph_lstm(torch, train, count=16, nodes=30, most=3):
    table = torch.randn(WORDS, UNITS) * 0.1
    w, b = torch.randn(2 * UNITS, 3 * UNITS) * 0.1, torch.zeros(3 * UNITS)
    w_f, u_f = (torch.randn(UNITS, UNITS) * 0.1 for _ in range(2))
    for p in (table, w, b, w_f, u_f):
        p.requires_grad_(train)

    def step():
        loss = 0
        for _ in range(count):
            hs, cs = [], []
            for i in range(nodes):
                before = [random.randrange(i)
                          for _ in range(min(i, 1 + random.randrange(most)))]
                word = random.randrange(WORDS)
                x = table[word:word + 1]
                if before:
                    h = torch.cat([hs[k] for k in before])
                    c = torch.cat([cs[k] for k in before])
                    kept = (torch.sigmoid(h @ u_f + x @ w_f) * c).sum(
                        0, keepdim=True)
                    total = h.sum(0, keepdim=True)
                else:
                    kept = total = torch.zeros(1, UNITS)
                h, c = cell(torch, torch.cat([x, total], 1) @ w + b, kept)
                hs.append(h)
                cs.append(c)
            loss = loss + hs[-1].sum()
        if train:
            loss.backward()
        return count
    return step


def beam_search(torch, train, count=32, width=4, most=20):
    table = torch.randn(WORDS, UNITS) * 0.5
    w, b = torch.randn(2 * UNITS, UNITS) * 0.15, torch.zeros(UNITS)
    out = torch.randn(UNITS, WORDS) * 0.3

    def step():
        done = 0
        for _ in range(count):
            h = torch.randn(1, UNITS).repeat(width, 1)
            best = torch.tensor([[0.0]] + [[-1e9]] * (width - 1))
            words = torch.ones(width, dtype=torch.long)
            n = 0
            while n < most and words[0] != 0:
                h = torch.tanh(torch.cat([table[words], h], 1) @ w + b)
                scores = torch.log_softmax(h @ out, 1) + best
                best, top = scores.reshape(-1).topk(width)
                best, words = best[:, None], top % WORDS
                h = h[top // WORDS]
                n += 1
            done += n
        return done
    return step


FIGURES = {
    "graphlstm.N30.U128.B16.graphs_per_s": (graph_lstm, True),
    "graphlstm.N30.U128.B16.fwd.graphs_per_s": (graph_lstm, False),
    "beam_search.U128.V1000.K4.B32.words_per_s": (beam_search, False),
}


def torch_per_second(model, train):
    import torch
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    torch.manual_seed(1)
    random.seed(1)
    with torch.set_grad_enabled(train):
        step = model(torch, train)
        best = 0
        for turn in range(5):
            start = time.perf_counter()
            done = step()
            if turn > 0:
                best = max(best, done / (time.perf_counter() - start))
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--sluice", default="build/release/bin/sluice")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--filter", default="", help="part of a figure's name")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--one", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(torch_per_second(*FIGURES[args.one]))
        return

    # (Sluice's sessions use all cores unless OpenMP has fewer threads.)
    os.environ["OMP_NUM_THREADS"] = os.environ["OMP_THREAD_LIMIT"] = str(
        args.threads)

    def ours(name):
        text = subprocess.run(
            [args.sluice, "bench", "--json", "--filter",
             "^sluice." + name.replace(".", "[.]") + "$"],
            check=True, capture_output=True, text=True).stdout
        return json.loads(text)["value"]

    print(f"{'a second':48}{'Sluice':>9}{'by one':>9}{'PyTorch':>9}"
          f"{'times':>7}")
    for name in FIGURES:
        if args.filter not in name:
            continue
        unit = name.split(".")[-1]
        alone = name[:-len(unit)] + "one_by_one." + unit
        columns = []
        for _ in range(args.turns):
            theirs = subprocess.run(
                [sys.executable, __file__, "--one", name], check=True,
                capture_output=True, text=True).stdout.split()[-1]
            columns.append((ours(name), ours(alone), float(theirs)))
        mine, single, peer = map(statistics.median, zip(*columns))
        print(f"{name:48}{mine:9.0f}{single:9.0f}{peer:9.0f}"
              f"{mine / peer:7.1f}", flush=True)


if __name__ == "__main__":
    main()
