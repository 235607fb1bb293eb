#!/usr/bin/env python3
"""Makes docs/records/gallery.md and its pictures: every preset of `kvscope figure`, from data that it makes with kvscope itself.

    samples/recipes/gallery.py WORK_FOLDER [--figures]      (Python's standard library alone; build/release/bin/kvscope, or
                                                             $KVSCOPE; --figures makes no data, only pictures of what is there)

What a step has written to WORK_FOLDER stays there and is not made again, so that the script can be stopped and a figure's
look tried again in seconds. A figure without data keeps the picture and the text that it has. All on one CPU: half an hour on two free cores. The pictures are PNG with a palette of 96 colours.
"""
import json
import os
import re
import shlex
import shutil
import struct
import subprocess
import sys
import zlib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("KVSCOPE", str(ROOT / "build/release/bin/kvscope"))
TINY = "samples/models/kvscope-tiny"
TEXT = "samples/prompts/heldout.txt"
DPI = 110

# What each step writes, and how: lines of the shell without a shell.
TASK_POLICIES = ";".join(
    [f"streaming:window={w}" for w in (60, 240, 380)]
    + [f"kvpop:budget={b},window=64" for b in (96, 160, 288, 384)]
    + [f"wg-kv:threshold={t}" for t in (0.01, 0.1, 0.9)])
READ_POLICIES = ";".join(f"quest:read={r};wg-kv:read={r}" for r in (32, 128, 384))
JOINT_POLICIES = "wg-kv:threshold=0.1;wg-kv:threshold=0.9;h2o:keep=25%,window=64;wg-kv:threshold=0.1,pool=96"
SWEEP_POLICIES = ";".join(
    [f"sp-kv:threshold={t}" for t in (0.02, 0.1, 0.3, 0.5, 0.7, 0.9)]
    + [f"wg-kv:threshold={t}" for t in (0.01, 0.1, 0.3, 0.6, 0.9)]
    + [f"streaming:window={w}" for w in (64, 128, 256)])
GATE_OVERRIDES = '{"data": {"length": 512, "facts_share": 0}, "gate": {"window": 64, "batch": 1, "log_every": 4, "stages": %s}}'
SCORER_OVERRIDES = ('{"data": {"length": 512, "facts_share": 0}, "scorer": {"steps": 80, "batch": 1, "window": 64, "top_k": [60, 124], '
                    '"queries": 64, "log_every": 4, "heldout_sequences": 2, "accuracy_sequences": 8, "immediate": %s}}')
WG_KV_OVERRIDES = ('{"data": {"length": 512, "facts_share": 0}, "gate": {"window": 64, "batch": 1, "log_every": 4, "heldout_sequences": 4, '
                   '"thresholds": [0.01, 0.03, 0.1, 0.3, 0.6, 0.9], "stages": [{"weight": 0.01, "steps": 160}, '
                   '{"weight": 0.05, "steps": 60}, {"weight": 0.2, "steps": 60}]}}')
SPEEDS = [(n, p) for n in (384, 768, 1536) for p in ("full", "kvpop:keep=25%")]
DECODE = [f"decode-{n}-{p.split(':')[0]}.h5" for n, p in SPEEDS]
# One sequence, as WG-KV measures.
LATENCIES = [(of, n, p) for of in ("prefill", "decode") for n in (384, 768, 1536) for p in ("full", "wg-kv:threshold=0.9")]
LATENCY = [f"{of}-{n}-{p.split(':')[0]}-alone.h5" for of, n, p in LATENCIES]
ON_TEXT = f"eval {TINY} --tasks fact_recall --questions 1 --texts {TEXT} --pieces 3 --length 768 --chunk 16"
STAGES = '[{"price": 0.02, "steps": 160}, {"price": 0.1, "steps": 60}, {"price": 0.3, "steps": 60}]'
ON_SMOLLM2 = "capture smollm2-135m %s.jsonl -o %s.h5 --policy %s --max-tokens 2 --raw"
STEPS = [
    (["sweep.h5"], [f"{ON_TEXT} --policies '{SWEEP_POLICIES}' -o sweep.h5"]),
    (["gates"], [f"train samples/recipes/smollm2-sp-kv.json --base {TINY} --data {TEXT} -o gates --device cpu "
                 f"--overrides '{GATE_OVERRIDES % STAGES}'"]),
] + [([f"sp-kv-{w}.h5"], [f"{ON_TEXT} --gate gates/sp-kv-{w} --policies "
                           f"'{';'.join(f'sp-kv:threshold={t}' for t in (0.1, 0.5, 0.8))}' -o sp-kv-{w}.h5"])
     for w in ("0.02", "0.1", "0.3")] + [
    (["maths.h5"], ["run smollm2-135m --prompt-file maths.txt --max-tokens 16 --gate kvpop-mlstm --policy kvpop:keep=25% --trace maths.h5"]),
    (["spkv.h5"], [ON_SMOLLM2 % ("prompts", "spkv", "sp-kv") + " --output-error"]),
    (["tasks.h5"], [f"eval {TINY} --questions 6 --length 768 --policies '{TASK_POLICIES}' -o tasks.h5"]),
    (["read.h5"], [f"eval {TINY} --questions 6 --length 768 --policies '{READ_POLICIES}' -o read.h5"]),
    (["joint.h5"], [f"eval {TINY} --questions 6 --length 768 --policies '{JOINT_POLICIES}' -o joint.h5"]),
    (["prose.h5"], [ON_SMOLLM2 % ("prose", "prose", "wg-kv") + " --gate wg-kv-0.01 --no-oracle"]),
    (["code.h5"], [ON_SMOLLM2 % ("code", "code", "wg-kv") + " --gate wg-kv-0.01 --no-oracle"]),
    (["dms.h5"], [ON_SMOLLM2 % ("prompts", "dms", "dms") + " --no-oracle"]),
    (["delayed"], [f"train samples/recipes/smollm2-kvpop.json --base {TINY} --data {TEXT} -o delayed --device cpu "
                   f"--overrides '{SCORER_OVERRIDES % 'false'}'"]),
    (["immediate"], [f"train samples/recipes/smollm2-kvpop.json --base {TINY} --data {TEXT} -o immediate --device cpu "
                     f"--overrides '{SCORER_OVERRIDES % 'true'}'"]),
    (DECODE, [f"bench decode --model {TINY} --batch 4 --prompt-tokens {n} --max-tokens 24 --repeats 3 "
              f"--policy {p} --device cpu -o {o}" for o, (n, p) in zip(DECODE, SPEEDS)]),
    (LATENCY, [f"bench {of} --model {TINY} --prompt-tokens {n} {'--max-tokens 24 ' if of == 'decode' else ''}--repeats 3 "
               f"--policy {p} --device cpu -o {o}" for o, (of, n, p) in zip(LATENCY, LATENCIES)]),
    (["wg-kv-gates"], [f"train samples/recipes/smollm2-wg-kv.json --base {TINY} --data {TEXT} -o wg-kv-gates --device cpu "
                       f"--overrides '{WG_KV_OVERRIDES}'"]),
    (["attention.json"], ["score smollm2-135m --text-file prose.txt --attention 8:98 --no-dense --json > attention.json"]),
    (["hybrid.h5"], [f"hybrid {TINY} --texts {TEXT} --gate sp-kv-0.02 --policy sp-kv --pieces 4 --length 384 --shares 10%,25%,40%,60% -o hybrid.h5"]),
] + [([f"palindrome-{of}"], [f"train samples/recipes/palindrome-{of}.json --data samples/recipes/palindrome "
                             f"-o palindrome-{of} --device cpu --threads 1"]) for of in ("full", "sliding-window", "sp-kv")]

# What more figures need first.
ORDER = ["sweep.h5", "gates", "hybrid.h5", "maths.h5", "joint.h5", "spkv.h5", "tasks.h5", "prose.h5", "code.h5"]
STEPS.sort(key=lambda step: ORDER.index(step[0][0]) if step[0][0] in ORDER else len(ORDER))

PALINDROMES = ("palindrome-full/full-joint_loss.h5 palindrome-sliding-window/sliding-window-joint_loss.h5 "
               "palindrome-sp-kv/sp-kv-joint_loss.h5 palindrome-sp-kv/sp-kv-joint-0.02_loss.h5")
# Preset, its files, further options, what the paper's own figure has that this one has not.
FIGURES = [
    ("kvpop-fig4", " ".join(DECODE), "", "The paper uses Qwen3-8B on a GPU with up to 131 thousand tokens. Here: the sample model on a CPU, batch 4. Peak memory is that of the process, weights included."),
    ("kvpop-fig5", "delayed/scorer_loss.h5 immediate/scorer_loss.h5", "", "As in the paper: token accuracy of the student under eviction. Here: on 8 held-out sequences, and the scorers alone are trained, for 80 steps: the difference is less than the noise."),
    ("kvpop-fig6", "maths.h5", "", "As in the paper: the last 112 evictable tokens, rows are layers, colour counts heads."),
    ("kvpop-fig7", "maths.h5", "", "As in the paper, plus the line of chance."),
    ("kvpop-fig8", "dms.h5", "", "As in the paper: 0 is dense, 1 is the window alone. The median is over 3 texts; the paper's is over 100."),
    ("kvpop-fig9", "maths.h5", "", "The paper shows more sequences. Here: more of one sequence, in several lines."),
    ("spkv-fig2", "samples/recipes/spkv-table7.csv", "", "The points are the paper's Table 7: full attention. The paper has no table of its own models' losses, and none were trained here; another family goes into the same file."),
    ("spkv-fig3", "sweep.h5", "--set 'where=[\"item=heldout.txt\"]'", "In the paper, training for this policy lowers the curve. Here, the gates were trained with a frozen base."),
    ("spkv-fig3-latency", " ".join(DECODE), "", "The paper has one line per density, at batch 16 on a GPU."),
    ("spkv-fig4", "spkv.h5", "", "As in the paper: mean density of each head, rows are layers."),
    ("density-spread", "spkv.h5", "", "Not in the papers: how far a head's density differs from text to text."),
    ("spkv-fig4-strategies", "hybrid.h5", "", "As in the paper: coverage and NLL of the strategies, at several shares."),
    ("spkv-fig5", "gates/sp-kv-0.02_loss.h5", "", "As in the paper: median, quartiles, deciles and all heads; 24 heads instead of 190."),
    ("spkv-fig6", "sp-kv-0.02.h5 sp-kv-0.1.h5 sp-kv-0.3.h5", "--set 'where=[\"item=heldout.txt\"]'", "As in the paper: one line per weight of the density loss, with the thresholds along it."),
    ("spkv-fig7", "", "", "As in the paper, from its Tables 7 and 8 and eq. 15."),
    ("spkv-fig8", PALINDROMES, "", "As in the paper. Of the models without a gate, full attention has a utility of 1 and the window has 0. sp-kv continues with a price of 0.02."),
    ("wgkv-fig1", " ".join(f for f in LATENCY if "full" in f), "", "The paper has up to 500 thousand tokens of Llama-3.1-8B on a GPU. Here: the sample model on a CPU."),
    ("wgkv-fig3", "prose.h5 attention.json", "", "The paper shows two tokens in two heads. Here: one token in one head, and when the gate drops it; `--set kv_head=N` chooses another."),
    ("wgkv-fig7", "tasks.h5", "", "The paper has 14 tasks of HELMET. Here: the tasks that the sample model can do."),
    ("wgkv-fig8", " ".join(LATENCY), "--set 'y=[\"attention_s+rest_s\",\"attention_ms+rest_ms\",\"cache_bytes+weight_bytes\"]'", "As in the paper: attention and the rest, of prompt and steps. Without --set, the third panel is peak memory, which on a CPU is that of the process."),
    ("wgkv-fig9", "read.h5", "", "As in the paper: Quest alone and Quest after the gate, against the tokens that a query reads."),
    ("wgkv-fig10", "joint.h5", "", "The paper counts evictions on AIME25. Here: accuracy against the size of the cache, on the sample model's tasks."),
    ("wgkv-fig11", "wg-kv-gates/wg-kv-0.01-thresholds_loss.h5 wg-kv-gates/wg-kv-0.05-thresholds_loss.h5 wg-kv-gates/wg-kv-0.2-thresholds_loss.h5", "--set 'y_label=Distillation loss'", "As in the paper: a line for each lambda, with the thresholds along it, on held-out text. Here: 4 sequences of 512 tokens, a window of 64."),
    ("wgkv-fig13-tasks", "prose.h5 code.h5", "--set name_a=Prose --set name_b=Code", "As in the paper: two tasks on one scale. We added the difference."),
    ("wgkv-fig16", "joint.h5", "", "The paper has one bar per lambda. Here: one bar per combination. Triggers are queries at which some head drops a token, so that a gate, which drops what it does not admit, has many."),
    ("output-error-by-layer", "spkv.h5", "", "Not in the papers: what eviction does to each layer's output."),
    ("hybrid-nll", "hybrid.h5", "", "Not in the papers: NLL of each strategy against its share."),
    ("hybrid-turnover", "hybrid.h5", "", "Not in the papers: how stable the choice of heads is."),
]


def kvscope(words, work, stdout=None):
    """Runs kvscope in the work folder, with the repository's paths made absolute."""
    if ">" in words:
        with open(work / words[-1], "wb") as file:
            return kvscope(words[:-2], work, file)
    words = [str(ROOT / w) if w.startswith("samples/") else w for w in words]
    return subprocess.run([PROGRAM, *words, *([] if words[0] == "figure" else ["--quiet"])], cwd=work, stdout=stdout)


def inputs(work):
    """Prompts of the captures: pieces of the held-out text, and Python code of the standard library."""
    text = (ROOT / TEXT).read_text()
    lines = lambda prompts: "".join(json.dumps({"prompt": p}) + "\n" for p in prompts)
    (work / "prompts.jsonl").write_text(lines(text[i * 60000:i * 60000 + 2000] for i in range(1, 4)))
    (work / "prose.txt").write_text(text[200000:202000])
    (work / "prose.jsonl").write_text(lines([text[200000:202000]]))
    (work / "code.jsonl").write_text(lines([Path(json.__file__).with_name("decoder.py").read_text()[1200:3000]]))
    sums = [f"{a} plus {b} is {a + b}, because {a} and {b} together are {a + b}." for a, b in
            zip(range(12, 72, 4), range(31, 91, 4))]
    (work / "maths.txt").write_text("Step by step. " + " ".join(sums) + " Thus the next sum,")


def is_done(path):
    """A training's folder says so itself; all else has its name when it is whole."""
    return (path / "training.json").exists() if path.is_dir() else path.exists()


def make_data(work):
    for outputs, commands in STEPS:
        if all(is_done(work / o) for o in outputs):
            continue
        for o in outputs:
            shutil.rmtree(work / o, ignore_errors=True)
            (work / o).unlink(missing_ok=True)
        print(outputs[0], flush=True)
        ok = all(kvscope(shlex.split(command), work, subprocess.DEVNULL).returncode == 0 for command in commands)
        if not ok:
            print(f"  {outputs[0]} could not be made; its figures are left out", flush=True)


def read_png(data):
    """8-bit RGB rows of a PNG as Cairo writes it."""
    at, body = 8, b""
    while at < len(data):
        n, kind = struct.unpack(">I4s", data[at:at + 8])
        if kind == b"IHDR":
            width, height, _, colour = struct.unpack(">IIBB", data[at + 8:at + 18])
        if kind == b"IDAT":
            body += data[at + 8:at + 8 + n]
        at += 12 + n
    size = {2: 3, 6: 4}[colour]
    raw, rows, before = zlib.decompress(body), [], bytearray(width * size)
    for y in range(height):
        start = y * (width * size + 1)
        how, row = raw[start], bytearray(raw[start + 1:start + 1 + width * size])
        for i in range(len(row)):
            left = row[i - size] if i >= size else 0
            up, corner = before[i], before[i - size] if i >= size else 0
            if how == 1:
                row[i] = (row[i] + left) & 255
            elif how == 2:
                row[i] = (row[i] + up) & 255
            elif how == 3:
                row[i] = (row[i] + (left + up) // 2) & 255
            elif how == 4:
                p = left + up - corner
                nearest = min((abs(p - left), 0, left), (abs(p - up), 1, up), (abs(p - corner), 2, corner))[2]
                row[i] = (row[i] + nearest) & 255
        rows.append([tuple(row[x:x + 3]) for x in range(0, len(row), size)])
        before = row
    return rows


def write_png(path, rows, colours=96):
    """With a palette: again and again the colour that is farthest from those it has, common ones first."""
    counts = Counter(p for row in rows for p in row)
    palette = [counts.most_common(1)[0][0]]
    far, nearest = {c: 1 << 30 for c in counts}, dict.fromkeys(counts, 0)
    while True:
        r, g, b = palette[-1]
        for c, d in far.items():
            new = (c[0] - r) ** 2 + (c[1] - g) ** 2 + (c[2] - b) ** 2
            if new < d:
                far[c], nearest[c] = new, len(palette) - 1
        if len(palette) == min(colours, len(counts)):
            break
        palette.append(max(far, key=lambda c: far[c] * counts[c] ** 0.5))
    body = b"".join(b"\0" + bytes(nearest[p] for p in row) for row in rows)
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 3, 0, 0, 0))
                     + chunk(b"PLTE", b"".join(map(bytes, palette))) + chunk(b"IDAT", zlib.compress(body, 9)) + chunk(b"IEND", b""))


def make_figures(work, folder):
    made = []
    folder.mkdir(exist_ok=True)
    for preset, files, options, note in FIGURES:
        if not all(f.startswith("samples/") or (work / f).exists() and is_done(work / f.split("/")[0]) for f in files.split()):
            print(f"{preset}: no data")
            continue
        command = f"figure --preset {preset} {files} {options}".strip()
        if kvscope([*shlex.split(command), "-o", f"{preset}.png", "--dpi", str(DPI), "--overwrite"], work,
                   subprocess.DEVNULL).returncode:
            print(f"{preset}: refused")
            continue
        write_png(folder / f"{preset}.png", read_png((work / f"{preset}.png").read_bytes()))
        caption = json.loads((work / f"{preset}.json").read_text())["caption"]
        made.append((preset, command, note, re.sub(r"(?<!`)\*", "\\*", caption)))
    return made


def main():
    words = [w for w in sys.argv[1:] if w != "--figures"]
    if len(words) != 1:
        sys.exit(__doc__)
    work = Path(words[0]).resolve()
    work.mkdir(parents=True, exist_ok=True)
    inputs(work)
    if "--figures" not in sys.argv:
        make_data(work)
    made = make_figures(work, ROOT / "docs/records/gallery")
    page, old = (ROOT / "docs/records/gallery.md").read_text().split("<!-- made by samples/recipes/gallery.py -->")
    page += "<!-- made by samples/recipes/gallery.py -->\n\n"
    kept = {section.split("\n")[0]: section.rstrip() for section in old.split("### ")[1:]}
    made = {preset: rest for preset, *rest in made}
    for preset in (preset for preset, *_ in FIGURES):
        if preset not in made:
            page += f"### {kept[preset]}\n\n" if preset in kept else ""
            continue
        command, note, caption = made[preset]
        files = [f.split("/")[0] for f in command.split()]
        sources = sorted((s for s in STEPS if s[0][0] in files), key=lambda s: files.index(s[0][0]))
        lines, more = [c[0] for _, c in sources], sum(len(c) - 1 for _, c in sources)
        page += f"### {preset}\n\n![{preset}](gallery/{preset}.png)\n\n```\n"
        page += "".join(f"kvscope {line}\n" for line in lines) + (f"# ... and {more} more of other lengths and policies\n" if more else "")
        page += f"kvscope {command} -o {preset}.pdf\n```\n\n{note}\n\n> {caption}\n\n"
    (ROOT / "docs/records/gallery.md").write_text(page.rstrip() + "\n")
    size = sum(p.stat().st_size for p in (ROOT / "docs/records/gallery").iterdir())
    print(f"{len(made)} figures, {size / 1024:.0f} KB")


if __name__ == "__main__":
    main()
