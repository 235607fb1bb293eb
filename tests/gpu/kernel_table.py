"""Where the time of a device goes, from the records of kernel_trace.cpp.

    tests/gpu/kernel_table.py TRACE [--last SECONDS] [--graph] [--top 14]

--last      looks at the last SECONDS alone, as a repetition of `bench prefill` takes
--graph     looks at the graph that ran longest alone, as the steps of `bench decode` do; pauses of a millisecond or more are not counted

A row is a kernel: launches, busy time, *critical* time (from the end of one kernel, or its own start if that is later, to its end; kernels
that run beside a longer one have none), and its share of the span. What no kernel covers is "nothing runs".
"""

import argparse
import re
import subprocess
from collections import defaultdict


def read(path):
    with open(path) as lines:
        rows = [line.rstrip("\n").split(" ", 3) for line in lines]
    return sorted((int(start), int(end), int(graph), name) for start, end, graph, name in rows)


def short(name):
    """`void kvscope::kernels::attend<64, 4>(float*)` -> `attend<64, 4>`"""
    name = name.replace("(anonymous namespace)::", "")
    depth, end = 0, len(name)
    for at, letter in enumerate(name):  # arguments begin at the first "(" outside of <>
        depth += (letter == "<") - (letter == ">")
        if letter == "(" and depth == 0:
            end = at
            break
    name = name[:end].removeprefix("void ")
    return re.sub(r"^(?:\w+::)+", "", name)[:72]


def table(rows, top, longest_pause):
    begin, until = rows[0][0], max(end for _, end, _, _ in rows)
    span, done, idle = until - begin, begin, 0
    kinds = defaultdict(lambda: [0, 0, 0])
    for start, end, _, name in rows:
        pause = max(0, start - done)
        counted = pause < longest_pause
        idle += pause if counted else 0
        span -= 0 if counted else pause
        kind = kinds[name]
        kind[0] += 1
        kind[1] += end - start
        kind[2] += max(0, end - max(start, done))
        done = max(done, end)
    print(f"{span / 1e6:.3f} ms, {len(rows)} kernels, device busy {100 * (1 - idle / span):.1f} %")
    print(f"{'launches':>9} {'busy ms':>10} {'critical':>10} {'us each':>9} {'share':>7}  kernel")
    for name, (n, busy, critical) in sorted(kinds.items(), key=lambda item: -item[1][2])[:top]:
        print(f"{n:9d} {busy / 1e6:10.3f} {critical / 1e6:10.3f} {busy / n / 1e3:9.2f} {100 * critical / span:6.1f}%  {name}")
    print(f"{'':9} {'':10} {idle / 1e6:10.3f} {'':9} {100 * idle / span:6.1f}%  nothing runs")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace")
    parser.add_argument("--last", type=float)
    parser.add_argument("--graph", action="store_true")
    parser.add_argument("--top", type=int, default=14)
    args = parser.parse_args()
    rows = read(args.trace)
    if args.graph:
        time_of = defaultdict(int)
        for start, end, graph, _ in rows:
            time_of[graph] += end - start if graph else 0
        longest = max(time_of, key=time_of.get)
        rows = [row for row in rows if row[2] == longest]
    if args.last:
        until = max(row[1] for row in rows)
        rows = [row for row in rows if row[0] >= until - args.last * 1e9]
    names = sorted({row[3] for row in rows})
    plain = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True).stdout.split("\n")
    known = {name: short(text) for name, text in zip(names, plain)}
    table([(start, end, graph, known[name]) for start, end, graph, name in rows], args.top, 1e6 if args.graph else 1e18)


main()
