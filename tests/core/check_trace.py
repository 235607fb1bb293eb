#!/usr/bin/env python3
"""Reads traces with stock h5py, as a user would, and compares them with what their seed says.

    check_trace.py {FILE SEED LEAST}...   every committed run i of FILE equals formula_run(SEED + i), at least LEAST of them
    check_trace.py --merged FILE SEED N   run i of FILE, of N, is formula_run(SEED + i) but for its prompt_index, which is i
    check_trace.py --beginning FILE WHOLE LEAST   FILE has at least LEAST committed runs, none twice, each as WHOLE has it, times
                                          and checksums aside
    check_trace.py --packed FILE          FILE is complete, compressed, and its default plot can be found by NeXus rules

formula_run() stands in trace_support.cpp; this is its second, independent statement. Exit 0, or a line that says what
is wrong.
"""
import json
import sys

import h5py
import numpy as np

LAYERS, HEADS, POSITIONS = 3, 2, 64
NEVER, UNDECIDED = 2**31 - 1, 2**31 - 2


def split_mix(x):
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def cell(seed, series, index):
    return split_mix(np.atleast_1d(np.asarray(index, np.uint64)) + np.uint64(seed * 1000003 + series * 500009))


def lifetime(token, h):
    token = token.astype(np.uint64)
    left = token + np.uint64(1) + h % (np.uint64(POSITIONS) - token)
    return np.where(h % 5 == 0, NEVER, np.where(h % 5 == 1, UNDECIDED, left)).astype(np.int32)


def expected(seed):
    n = 20 + int(cell(seed, 0, 0)[0] % 40)
    t = np.arange(n)
    grid = np.arange(LAYERS * HEADS * n)
    shape = (LAYERS, HEADS, n)
    logprob = -(cell(seed, 2, t) % 1000).astype(np.float32) / 64
    logprob[0] = np.nan
    s = cell(seed, 6, grid)
    score = ((s % 2001).astype(np.float32) - 1000) / 128
    score[s % 11 == 0] = np.nan
    pieces = [bytes((cell(seed, 4, 8 * i + np.arange(k)) % 256).astype(np.uint8)) if k else b""
              for i, k in enumerate((cell(seed, 3, t) % 5).astype(int))]
    c = cell(seed, 9, t)[4:]
    return n, pieces, {
        "tokens/id": (cell(seed, 1, t) % 4096).astype(np.int32),
        "tokens/logprob": logprob,
        "heads/evict_at": lifetime(grid % n, cell(seed, 5, grid)).reshape(shape),
        "heads/score": score.reshape(shape),
        "heads/future_mass": ((cell(seed, 7, grid) % 1024).astype(np.float32) / 1024).reshape(shape),
        "heads/future_rms": ((cell(seed, 8, grid) % 1024).astype(np.float32) / 1024).reshape(shape),
    }, {
        "q": t[4:],
        "layer": c % LAYERS,
        "kv_head": c // 8 % HEADS,
        "newcomer": t[4:] - 4,
        "boundary": t[4:] - (c // 64 % 4).astype(int),
        "newcomer_effective": (c // 1024 % 100).astype(np.float32) / 8,
        "boundary_effective": (c // 131072 % 100).astype(np.float32) / 8,
        "evicted": np.where(c % 2 == 1, t[4:] - 4, -1),
    }


def expected_output_error(seed, n):
    """None in three runs of four: then the file has NaN."""
    if seed % 4 != 3:
        nothing = np.float32(np.nan)
        return 0, {"heads/group_damage": np.full((LAYERS, HEADS, n), nothing), "layers/damage": np.full((LAYERS, n), nothing),
                   "layers/output": np.full((LAYERS, n), nothing), "heads/read_mass": np.full((LAYERS, HEADS, n), nothing),
                   "heads/best_read_mass": np.full((LAYERS, HEADS, n), nothing)}
    series = {}
    for kind, name, shape in ((14, "heads/group_damage", (LAYERS, HEADS, n)), (15, "layers/damage", (LAYERS, n)),
                              (16, "layers/output", (LAYERS, n)), (17, "heads/read_mass", (LAYERS, HEADS, n)),
                              (18, "heads/best_read_mass", (LAYERS, HEADS, n))):
        h = cell(seed, kind, np.arange(np.prod(shape)))
        series[name] = np.where(h % 7 == 0, np.nan, (h % 4096).astype(np.float32) / (512 if kind < 17 else 4096)).astype(np.float32).reshape(shape)
    return n, series


def expected_reads(seed, n):
    if seed % 3 == 1:
        return {"q": [], "layer": [], "kv_head": []}, [], ""
    t = np.arange(4, n)
    h = cell(seed, 11, t)
    pages = [5 * np.arange(k) + (cell(seed, 12, 4 * q + np.arange(k)) % 5).astype(int) if k else np.arange(0)
             for q, k in zip(t, (h // 64 % 4).astype(int))]
    changes = "".join(f"{10 + i}\tstreaming:sinks=2,window={4 + int(cell(seed, 13, 1 + i)[0] % 9)}\n"
                      for i in range(1 + int(cell(seed, 13, 0)[0] % 3)))
    return {"q": t, "layer": h % LAYERS, "kv_head": h // 8 % HEADS}, pages, changes


def text_of(f, i, name):
    begin, end = f[f"runs/{name}_span"][i]
    return bytes(f["runs/text"][begin:end]).decode()


def same(got, want, what):
    want = np.asarray(want).astype(got.dtype)
    if got.shape != want.shape or not np.array_equal(got, want, equal_nan=got.dtype.kind == "f"):
        raise SystemExit(f"{what}: other values than were written")


def check_run(f, path, i, seed, prompt_index=None):
    n, pieces, series, contests = expected(seed)
    what = f"{path} run {i}"
    a, b = f["runs/token_span"][i]
    if b - a != n:
        raise SystemExit(f"{what}: {b - a} tokens, not {n}")
    for name, want in series.items():
        same(f[name][..., a:b], want, f"{what} {name}")
    n_measured, series = expected_output_error(seed, n)
    same(f["runs/output_error_queries"][i], n_measured, f"{what} runs/output_error_queries")
    for name, want in series.items():
        same(f[name][..., a:b], want, f"{what} {name}")
    pool = f["tokens/piece_bytes"]
    for (begin, end), want in zip(f["tokens/piece_span"][a:b], pieces):
        if bytes(pool[begin:end]) != want:
            raise SystemExit(f"{what}: other pieces than were written")
    c, d = f["runs/contest_span"][i]
    for name, want in contests.items():
        same(f["contests/" + name][c:d], want, f"{what} contests/{name}")
    reads, pages, changes = expected_reads(seed, n)
    c, d = f["runs/read_span"][i]
    for name, want in reads.items():
        same(f["reads/" + name][c:d], want, f"{what} reads/{name}")
    for (begin, end), want in zip(f["reads/page_span"][c:d], pages):
        same(f["reads/page"][begin:end], want, f"{what} reads/page")
    c, d = f["runs/read_page_span"][i]
    same(f["reads/page"][c:d], np.concatenate([[], *pages]), f"{what} reads/page")
    policy = json.loads(text_of(f, i, "policy_json"))
    if (text_of(f, i, "changes") != changes or text_of(f, i, "scorer") != (f"scorer {seed}" if seed % 2 else "")
            or text_of(f, i, "oracle") != f"agg=max,mass=mean,lse=dense,ahead={seed % 5}"
            or policy["name"] != "kvpop" or policy["budget"] != {"tokens": 16, "kept_fraction": 0.25, "compression_factor": 4}
            or policy["geometry"] != {"n_sink": 2, "window": 4, "top_k": 10}):
        raise SystemExit(f"{what}: another policy, oracle or scorer, or other changes, than were written")
    for name in ("recall", "mass_recall"):
        metric = f["runs/" + name][i]
        if metric.shape != (LAYERS, HEADS) or not np.nanmin(metric) >= 0:
            raise SystemExit(f"{what}: no {name}")
    if (text_of(f, i, "prompt_text") != f"prompt {seed}" or f["runs/seed"][i] != seed or f["runs/status"][i] != 1
            or f["runs/chunk"][i] != seed % 3
            or f["runs/prompt_index"][i] != (cell(seed, 10, 0)[0] % 1000 if prompt_index is None else prompt_index)):
        raise SystemExit(f"{what}: other texts or scalars than were written")


def check_packed(path):
    with h5py.File(path, "r") as f:
        assert f.attrs["status"] == b"complete" and f["committed"][()] == len(f["runs/status"])
        node = f
        while "default" in node.attrs:
            node = node[node.attrs["default"].decode()]
        assert node.attrs["NX_class"] == b"NXdata", "no default plot"
        signal = node[node.attrs["signal"].decode()]
        axes = [node[name.decode()] for name in node.attrs["axes"]]
        assert signal.shape == tuple(len(axis) for axis in axes), "axes do not fit the signal"
        assert np.isfinite(signal[:]).all() and (0 <= signal[:]).all() and (signal[:] <= 1).all()
        want = np.nanmean(f["runs/density"][:], axis=0)
        assert np.allclose(signal[:], want, atol=1e-6), "the summary is not the mean of the runs"
        heads = f["heads"]
        assert heads["score"].compression == "gzip" and heads["score"].shuffle
        for name in [heads.attrs["signal"], *heads.attrs["auxiliary_signals"]]:
            assert heads[name.decode()].shape == heads["score"].shape
        seen = []
        f.visititems(lambda name, node: seen.append(name) if isinstance(node, h5py.Dataset) and name.count("/") == 1
                     and "meaning" not in node.attrs and "long_name" not in node.attrs else None)
        assert not seen, f"undocumented datasets: {seen}"
        # The README's own example must run as it stands.
        text = f["README"][()].decode()
    lines = [line[4:] for line in text.splitlines() if line.startswith("    ")]
    assert lines[0] == "import h5py" and len(lines) <= 10, "README has no ten-line example"
    exec("\n".join(lines).replace('"trace.h5"', repr(path)), {"print": lambda *shown: None})


def check_merged(path, seed, n):
    with h5py.File(path, "r") as f:
        assert f["heads/score"].is_virtual and not f["runs/token_span"].is_virtual
        assert f.attrs["status"] == b"merged" and f["committed"][()] == len(f["runs/status"]) == n
        for i in range(n):
            check_run(f, path, i, seed + i, i)
        assert np.allclose(f["summary/density/density"][:], np.nanmean(f["runs/density"][:], axis=0), atol=1e-6)


def run_of(f, i):
    """Everything that the file says of run i and that is the same whenever it is made."""
    spans = {name: f["runs/" + name][i] for name in f["runs"] if name.endswith("_span")}
    own = lambda name, data: data[slice(*spans[name])]
    got = {name: f["runs/" + name][i] for name in f["runs"]
           if name not in spans and name not in ("text", "load_s", "prefill_s", "decode_s", "checksum")}
    for name in spans:
        if name not in ("token_span", "contest_span", "piece_bytes_span", "read_span", "read_page_span", "started_utc_span"):
            got[name] = own(name, f["runs/text"])
    asked = json.loads(bytes(got["asked_span"]))
    asked.pop("key")  # which the moment is part of
    got["asked_span"] = np.frombuffer(json.dumps(asked).encode(), np.uint8)
    a, b = spans["token_span"]
    for name in ("evict_at", "score", "future_mass", "future_rms"):
        got[name] = f["heads/" + name][:, :, a:b]
    got.update({name: f[name][..., a:b] for name in ("heads/group_damage", "layers/damage", "layers/output")})
    got["id"], got["logprob"] = f["tokens/id"][a:b], f["tokens/logprob"][a:b]
    got["piece_span"] = f["tokens/piece_span"][a:b] - spans["piece_bytes_span"][0]
    got["pieces"] = own("piece_bytes_span", f["tokens/piece_bytes"])
    got.update({"contest " + name: own("contest_span", f["contests/" + name]) for name in f["contests"]})
    got["page_span"] = f["reads/page_span"][slice(*spans["read_span"])] - spans["read_page_span"][0]
    got["pages"] = own("read_page_span", f["reads/page"])
    got.update({"read " + name: own("read_span", f["reads/" + name]) for name in ("q", "layer", "kv_head")})
    return got


def check_beginning(path, whole_path, least):
    with h5py.File(path, "r") as f, h5py.File(whole_path, "r") as whole:
        place = {int(index): i for i, index in enumerate(whole["runs/prompt_index"][:])}
        committed = int(f["committed"][()])
        indices = [int(index) for index in f["runs/prompt_index"][:committed]]
        if committed < least or len(set(indices)) != committed:
            raise SystemExit(f"{path}: prompts {indices}, at least {least} were committed")
        for i, index in enumerate(indices):
            got, want = run_of(f, i), run_of(whole, place[index])
            for name in want:
                if got[name].dtype != want[name].dtype:
                    raise SystemExit(f"{path} run {i} {name}: another type")
                same(np.asarray(got[name]), want[name], f"{path} run {i} {name}")
    return 0


def main(arguments):
    np.seterr(over="ignore")
    if arguments[:1] == ["--packed"]:
        return check_packed(arguments[1])
    if arguments[:1] == ["--beginning"]:
        return check_beginning(arguments[1], arguments[2], int(arguments[3]))
    if arguments[:1] == ["--merged"]:
        return check_merged(arguments[1], int(arguments[2]), int(arguments[3]))
    for path, seed, least in zip(arguments[0::3], arguments[1::3], arguments[2::3]):
        with h5py.File(path, "r") as f:
            committed = int(f["committed"][()])
            if committed < int(least):
                raise SystemExit(f"{path}: {committed} runs committed, {least} were acknowledged")
            for i in range(committed):
                check_run(f, path, i, int(seed) + i)


if __name__ == "__main__":
    main(sys.argv[1:])
