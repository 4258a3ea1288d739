#!/usr/bin/env python3
"""Compares all-reduce between processes of this machine with PyTorch's Gloo.

    bench/all_reduce_peers.py [--sluice build/release/bin/sluice] [--turns 3]

As bench/all_reduce.cc: 100 MB and 1 kB of floats, by 2 and 4 processes, the
maximum of all members, one operation after the other. The programs alternate,
`turns` times; the columns are medians of each one's best run. Needs a Python
with PyTorch.
"""
import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import time

CASES = {"100MB.ms": (25_000_000, 10, 1e3), "1kB.us": (250, 1000, 1e6)}


def torch_member(rank, members, port, count, times):
    """One process; member 0 prints the seconds of one operation."""
    import torch
    import torch.distributed as dist
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank,
        world_size=members)
    x = torch.ones(count)
    best = float("inf")
    for turn in range(4):
        dist.barrier()
        begin = time.perf_counter()
        for _ in range(times):
            dist.all_reduce(x, op=dist.ReduceOp.MAX)
        if turn > 0:
            best = min(best, (time.perf_counter() - begin) / times)
    dist.barrier()
    if rank == 0:
        print(json.dumps(best))


def torch_seconds(members, count, times):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    tasks = [subprocess.Popen(
        [sys.executable, __file__, "--member",
         json.dumps([rank, members, port, count, times])],
        stdout=subprocess.PIPE, text=True) for rank in range(members)]
    out = [t.communicate()[0] for t in tasks]
    return json.loads(out[0])


def sluice_value(sluice, name):
    out = subprocess.run([sluice, "bench", "--json", "--filter", name],
                         check=True, stdout=subprocess.PIPE, text=True).stdout
    return float(json.loads(out.splitlines()[-1])["value"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sluice", default="build/release/bin/sluice")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--member", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.member:
        return torch_member(*json.loads(args.member))
    print(f"{'':24}{'sluice':>10}{'gloo':>10}{'ratio':>8}")
    for members in (2, 4):
        for case, (count, times, unit) in CASES.items():
            name = f"allreduce{members}.{case}"
            ours, theirs = [], []
            for _ in range(args.turns):
                ours.append(sluice_value(args.sluice, name))
                theirs.append(torch_seconds(members, count, times) * unit)
            a, b = statistics.median(ours), statistics.median(theirs)
            print(f"{name:24}{a:10.1f}{b:10.1f}{b / a:8.2f}", flush=True)


if __name__ == "__main__":
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    main()
