#!/usr/bin/env python3
"""Writes golden/losses.json: what the trainer's losses, targets and networks are by the papers' formulas, one number at a time.

    make_golden_losses.py > golden/losses.json

Plain Python in double precision, no library. Equations: KVpop arXiv 2607.05061, SP-KV arXiv 2605.14037; METHODS as in
docs/reference/training.md. Inputs are not stored: element i of tensor `seed` is numbers(seed)[i], which train_losses_test.cpp makes again.
"""
import json
import math


def number(seed, i):
    return math.sin(0.7 * (i + 1) + 1.3 * seed)


def tensor(seed, *shape, scale=1.0):
    """Nested lists, filled in row-major order."""
    count = 0

    def fill(axes):
        nonlocal count
        if not axes:
            count += 1
            return scale * number(seed, count - 1)
        return [fill(axes[1:]) for _ in range(axes[0])]

    return fill(shape)


def dot(a, b):
    return math.fsum(x * y for x, y in zip(a, b))


def softmax(x):
    top = max(x)
    e = [math.exp(v - top) for v in x]
    return [v / math.fsum(e) for v in e]


def log_softmax(x):
    top = max(x)
    total = top + math.log(math.fsum(math.exp(v - top) for v in x))
    return [v - total for v in x]


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def silu(x):
    return x * sigmoid(x)


def gelu(x):
    return 0.5 * x * (1 + math.erf(x / math.sqrt(2)))


def softplus(x):
    return math.log1p(math.exp(-abs(x))) + max(x, 0)


def mean(x):
    return math.fsum(x) / len(x)


def flat(x):
    return [v for part in x for v in flat(part)] if isinstance(x, list) else [x]


# --- KVpop: the target (eq. 2, 3, 8) and its other masses -------------------------------------------------------------------
def future_target(kind, T=12, heads=4, kv_heads=2, dim=4, window=3, scale=0.5, weight=lambda h, t: 1.0):
    q, k = tensor(1, T, heads, dim, scale=2), tensor(2, T, kv_heads, dim, scale=2)
    group = heads // kv_heads
    p = {}
    for h in range(heads):
        for i in range(T):
            row = softmax([scale * dot(q[i][h], k[t][h // group]) for t in range(i + 1)])
            for t in range(i + 1):
                p[h, i, t] = row[t]

    def mass(h, t):
        later = [p[h, i, t] for i in range(t + window, T)]
        n = max(1, T - (t + window))
        return {"mean": lambda: math.fsum(later) / n, "sum": lambda: math.fsum(later),
                "rms": lambda: math.sqrt(math.fsum(v * v for v in later) / n), "max": lambda: max(later, default=0)}[kind]()

    return [[max(math.log(1e-6 + weight(h, t) * mass(h, t)) for h in range(g * group, (g + 1) * group)) for t in range(T)] for g in range(kv_heads)]


def target_weight(kind, T=12, heads=4, kv_heads=2, dim=4, hidden=5):
    v, projection = tensor(35, T, kv_heads, dim), tensor(36, hidden, heads * dim)
    length = lambda x: math.sqrt(math.fsum(a * a for a in x))
    value = lambda h, t: v[t][h * kv_heads // heads]
    through_output = lambda h, t: [dot(projection[i][h * dim:(h + 1) * dim], value(h, t)) for i in range(hidden)]
    if kind == "value":
        weight = [[[length(v[t][g]) for t in range(T)]] for g in range(kv_heads)]
    else:
        weight = [[[length(through_output(g * heads // kv_heads + i, t)) for t in range(T)] for i in range(heads // kv_heads)]
                  for g in range(kv_heads)]
    of_head = lambda h, t: length(value(h, t) if kind == "value" else through_output(h, t))
    return {"weight": weight, "rms": future_target("rms", weight=of_head)}


# --- KVpop: the loss at the boundary (eq. 7), weighed by margin (eq. 23) and balance (eq. 24) ----------------------------------
def boundary_loss(margin, kv_heads=2, batch=2, T=16, sinks=1, window=3, top_k=3, queries=(10, 12, 15, 9), temperature=0.7,
                  omega_min=0.1, tau=0.8, c_min=0.5, c_max=25):
    target, score = tensor(3, kv_heads, batch, T, scale=3), tensor(4, kv_heads, batch, T)
    contests = []  # (head, y, gap, score difference)
    for h in range(kv_heads):
        for b in range(batch):
            for q in queries:
                new = q - window
                ranked = sorted(range(sinks, new + 1), key=lambda t: -target[h][b][t])
                last = ranked[top_k - 1]
                if last == new:
                    continue  # one token: nothing to decide
                gap = target[h][b][new] - target[h][b][last]
                contests.append((h, 1 if gap >= 0 else -1, abs(gap), score[h][b][new] - score[h][b][last]))
    clip = lambda x: min(max(x, c_min), c_max)
    weight = []
    for h in range(kv_heads):
        mine = [c for c in contests if c[0] == h]
        rho = mean([c[1] > 0 for c in mine])
        balance = [clip(0.5 / max(rho if y > 0 else 1 - rho, 1e-6)) for _, y, _, _ in mine]
        weight += [v / mean(balance) for v in balance]
    gaps = mean([c[2] for c in contests])
    of_margin = {"none": lambda gap: 1, "sigmoid": lambda gap: omega_min + (1 - omega_min) * sigmoid(gap / tau),
                 "proportional": lambda gap: min(gap / (gaps + 1e-6), 4)}[margin]
    return {"contests": len(contests), "kept": sum(c[1] > 0 for c in contests),
            "loss": mean([w * of_margin(gap) * softplus(-y * difference / temperature)
                          for w, (_, y, gap, difference) in zip(weight, contests)])}


# --- KVpop: the delayed mLSTM scorer (E.3), as a recurrence --------------------------------------------------------------------
def phi(z):
    return softmax(z) + softmax([-v for v in z])


def through(x, weight):  # x [in], weight [in][out]
    return [math.fsum(x[i] * weight[i][j] for i in range(len(x))) for j in range(len(weight[0]))]


def layer_norm(x, gain, eps=1e-6):
    centre = mean(x)
    size = math.sqrt(mean([(v - centre) ** 2 for v in x]) + eps)
    return [(v - centre) / size * g for v, g in zip(x, gain)]


def mlstm_scores(T=10, D=4, delay=3, cap=0, softmax_map=False, head_norm=False, cached_values=False, skip=True):
    x = [k + v for k, v in zip(tensor(5, T, D), tensor(6, T, D))]
    width, features = (D, softmax) if softmax_map else (D // 2, phi)
    wq, wk, wv = tensor(7, 2 * D, width), tensor(8, 2 * D, width), tensor(9, 2 * D, D)
    gi, gf, out, gain = tensor(10, 2 * D), tensor(11, 2 * D), tensor(12, 3 * D if skip else D), tensor(16, D)
    bi, bf, b = number(13, 0), number(14, 0), number(15, 0)
    memory, norm, states = [[0.0] * D for _ in range(D)], [0.0] * D, []
    for t in range(T):
        soft = lambda a: cap * math.tanh(a / cap) if cap else a
        forget, take = sigmoid(soft(dot(x[t], gf) + bf)), math.exp(soft(dot(x[t], gi) + bi))
        key, value = features(through(x[t], wk)), x[t][D:] if cached_values else through(x[t], wv)
        memory = [[forget * memory[i][j] + take * key[i] * value[j] for j in range(D)] for i in range(D)]
        norm = [forget * norm[i] + take * key[i] for i in range(D)]
        states.append((memory, norm))
    scores = []
    for t in range(T):
        memory, norm = states[min(t + delay, T - 1)]
        query = features(through(x[t], wq))
        h = [v / dot(query, norm) for v in through(query, memory)]
        h = layer_norm(h, gain) if head_norm else h
        scores.append(dot([silu(v) for v in h], out[:D]) + (dot(x[t], out[D:]) if skip else 0) + b)
    return scores


# --- KVpop: the scorers without a memory (E.2), and the order under a decay (eq. 20 and 21) -------------------------------------
def kvpop_scores(kind, T=6, D=4, hidden=3, least=0.8, most=0.99):
    x = [k + v for k, v in zip(tensor(5, T, D), tensor(6, T, D))]
    if kind == "mlp":
        w1, b1, w2 = tensor(30, hidden, 2 * D), tensor(31, hidden), tensor(32, hidden)
        network = lambda row: dot(w2, [silu(dot(w, row) + b) for w, b in zip(w1, b1)])
    else:
        w2 = tensor(32, 2 * D)
        network = lambda row: dot(w2, row)
    scores = [network(row) + number(33, 0) for row in x]
    log_gamma = math.log(least) + sigmoid(number(34, 0)) * (math.log(most) - math.log(least))
    return {"scores": scores, "priorities": [r - t * log_gamma for t, r in enumerate(scores)]}


# --- the gates' networks, before scale, offset and sigmoid ----------------------------------------------------------------------
def rms_norm(x, gain, eps):
    size = math.sqrt(mean([v * v for v in x]) + eps)
    return [v / size * g for v, g in zip(x, gain)]


def wg_kv_output(T=5, kv_heads=2, D=4, M=3, eps=1e-6):
    before, after = tensor(16, T, kv_heads, D), tensor(17, T, kv_heads, D)
    w1, b1, w2, b2 = tensor(18, kv_heads, M, 2 * D), tensor(19, kv_heads, M), tensor(20, kv_heads, M), tensor(21, kv_heads)
    pre, post = tensor(22, D), tensor(23, D)
    return [[dot(w2[h], [gelu(dot(w1[h][m], rms_norm(before[t][h], pre, eps) + rms_norm(after[t][h], post, eps)) + b1[h][m])
                         for m in range(M)]) + b2[h] for t in range(T)] for h in range(kv_heads)]


def sp_kv_output(T=5, kv_heads=2, F=6, M=3):
    x, w1, b1, w2, b2 = tensor(24, T, F), tensor(18, M, F), tensor(19, M), tensor(20, kv_heads, M), tensor(21, kv_heads)
    return [[dot(w2[h], [silu(dot(w1[m], x[t]) + b1[m]) for m in range(M)]) + b2[h] for t in range(T)] for h in range(kv_heads)]


def sp_kv_bidirectional_output(T=5, kv_heads=2, F=6, M=3, K=3):
    """App. C.4 with one filter of K taps a hidden unit; zeros before the first token and behind the last."""
    x, w1, b1, w2, b2 = tensor(24, T, F), tensor(18, M, F), tensor(19, M), tensor(20, kv_heads, M), tensor(21, kv_heads)
    conv = tensor(29, M, K)
    a = [[silu(dot(w1[m], x[t]) + b1[m]) for m in range(M)] for t in range(T)]
    c = [[math.fsum(conv[m][j] * a[t - K // 2 + j][m] for j in range(K) if 0 <= t - K // 2 + j < T) for m in range(M)]
         for t in range(T)]
    return [[dot(w2[h], c[t]) + b2[h] for t in range(T)] for h in range(kv_heads)]


def dms_output(T=5, kv_heads=2, F=6, eps=1e-6):
    x, norm, w2, b2 = tensor(24, T, F), tensor(22, F), tensor(20, kv_heads, F), tensor(21, kv_heads)
    return [[dot(w2[h], rms_norm(x[t], norm, eps)) + b2[h] for t in range(T)] for h in range(kv_heads)]


# --- what the gates are trained by -----------------------------------------------------------------------------------------------
def gate_losses(B=2, T=5, F=6, V=7, layers=2, kv_heads=2, weight=0.9, progress=0.9):
    student, teacher = tensor(25, B * T, F), tensor(26, B * T, F)
    output, gates = tensor(27, V, F, scale=2), [0.5 + 0.4 * v for v in flat(tensor(28, layers * B * kv_heads * T))]
    following = [(3 * i + 1) % V for i in range(B * T)]
    logits = lambda hidden: [log_softmax([dot(row, w) for w in output]) for row in hidden]
    of_student, of_teacher = logits(student), logits(teacher)
    nll = mean([-row[t] for row, t in zip(of_student, following)])
    kl = mean([math.fsum(math.exp(p) * (p - q) for p, q in zip(dense, gated)) for dense, gated in zip(of_teacher, of_student)])
    distance = mean([(a - b) ** 2 for a, b in zip(flat(student), flat(teacher))]) / mean([b * b for b in flat(teacher)])
    return {"wg-kv": [distance + weight * mean([g + g * (1 - g) for g in gates]), distance],
            "sp-kv": [nll + weight * mean(gates), nll],  # eq. 6, with a price on the mean utility
            "streaming": [kl, kl],  # over the likeliest 256 tokens, which is all of a vocabulary of 7
            "dms": [kl + max(0, progress * weight - (1 - mean(gates))), kl]}


print(json.dumps({
    "future_target": {kind: future_target(kind) for kind in ("mean", "sum", "rms", "max")},
    "boundary_loss": {margin: boundary_loss(margin) for margin in ("none", "sigmoid", "proportional")},
    "mlstm_scores": {"delayed": mlstm_scores(), "immediate": mlstm_scores(delay=0), "delayed capped": mlstm_scores(cap=0.8),
                     "immediate capped": mlstm_scores(delay=0, cap=0.8),
                     "softmax": mlstm_scores(softmax_map=True), "norm": mlstm_scores(head_norm=True),
                     "cached": mlstm_scores(cached_values=True), "no skip": mlstm_scores(skip=False),
                     "all": mlstm_scores(softmax_map=True, head_norm=True, cached_values=True, skip=False)},
    "kvpop_scores": {kind: kvpop_scores(kind) for kind in ("mlp", "linear")},
    "target_weight": {kind: target_weight(kind) for kind in ("value", "output")},
    "outputs": {"wg-kv": wg_kv_output(), "sp-kv": sp_kv_output(), "sp-kv bidirectional": sp_kv_bidirectional_output(),
                "dms": dms_output()},
    "losses": gate_losses(),
}, separators=(",", ":")))
