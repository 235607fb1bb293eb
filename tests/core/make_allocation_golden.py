"""Writes golden/allocation.json.gz: budgets by the formulas of PyramidKV and AdaKV, in plain loops.

Usage: python3 tests/core/make_allocation_golden.py        needs nothing but Python.

PyramidKV (Cai et al., 2024): layer budgets on a line from most to least whose mean is the budget, least = budget / beta.
AdaKV (Feng et al., 2024), algorithm 1: as many places as a head has tokens among the best of its layer, mixed with an even
share by the safeguard. Both are in whole places: the papers' real numbers are here too, and each budget lies within one of them.
"""
import gzip
import json
import math
import pathlib
import random


def pyramid(layers, places, beta, limit):
    least = math.floor(places / beta)
    most = 2 * places - least
    if most > limit:
        most = max(limit, places)
        least = 2 * places - most
    if layers == 1:
        return [places]
    step = (most - least) // (layers - 1)
    return [most - step * layer for layer in range(layers)]


def pyramid_real(layers, places, beta):
    least = places / beta
    most = 2 * places - least
    return [most - (most - least) * layer / (layers - 1) for layer in range(layers)]


def ada_real(worth, places, safeguard):
    ranked = sorted((-value, head, i) for head, row in enumerate(worth) for i, value in enumerate(row))
    best = ranked[:len(worth) * places]
    return [safeguard * places + (1 - safeguard) * sum(head == h for _, h, _ in best) for head in range(len(worth))]


def ada(worth, places, safeguard):
    if all(len(row) <= places for row in worth):
        return [places] * len(worth)
    real = ada_real(worth, places, safeguard)
    whole = [math.floor(x + 1e-9) for x in real]
    left = len(worth) * places - sum(whole)
    order = sorted(range(len(worth)), key=lambda h: (-round(max(0, real[h] - whole[h]), 9), h))
    for i in range(left):
        whole[order[i % len(order)]] += 1
    return whole


def main():
    rng = random.Random(43)
    pyramids, adas = [], []
    for layers, places, beta, limit in [(32, 64, 20, 4000), (24, 448, 20, 8000), (32, 2048 - 8, 20, 100000), (1, 64, 20, 500),
                                        (2, 7, 3, 30), (12, 100, 1, 1000), (16, 300, 20, 400), (6, 0, 20, 100)]:
        case = {'layers': layers, 'places': places, 'beta': beta, 'limit': limit,
                'expected': pyramid(layers, places, beta, limit)}
        if layers > 1 and 2 * places <= limit:
            case['real'] = pyramid_real(layers, places, beta)
        pyramids.append(case)
    for _ in range(60):
        heads, n = rng.randint(1, 8), rng.randint(1, 60)
        kind = rng.choice(['wide', 'ties', 'one'])
        worth = [[rng.choice([0.25, 0.5, 0.75]) if kind == 'ties' else rng.random() * (10 if kind == 'one' and h == 0 else 1)
                  for _ in range(n)] for h in range(heads)]
        worth = [[round(x * 4096) / 4096 for x in row] for row in worth]  # the same number as a float
        places, safeguard = rng.randint(0, n + 2), rng.choice([0, 0.1, 0.2, 0.5, 1])
        case = {'worth': worth, 'places': places, 'safeguard': safeguard, 'expected': ada(worth, places, safeguard)}
        if n > places:
            case['real'] = ada_real(worth, places, safeguard)
        adas.append(case)
    path = pathlib.Path(__file__).parent / 'golden' / 'allocation.json.gz'
    path.write_bytes(gzip.compress(json.dumps({'pyramid': pyramids, 'ada': adas}).encode(), mtime=0))


if __name__ == '__main__':
    main()
