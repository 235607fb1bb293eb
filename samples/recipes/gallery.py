#!/usr/bin/env python3
"""Makes docs/records/gallery.md and its pictures: every preset of `kvscope figure`, from data that it makes with kvscope itself.

    samples/recipes/gallery.py WORK_FOLDER [--device cpu] [--gpu] [--at-once 1] [--only REGEX] [--data-only | --figures]

Needs Python's standard library and build/release/bin/kvscope, or the program that $KVSCOPE names. Without a GPU: an hour on two
free cores. --gpu makes the figures of speed with the shape of Qwen3-8B and random weights on a GPU, in about three minutes of one
H200; the other data are made on --device. --at-once makes so many data at a time; times are measured alone, first. --only makes
the data whose name matches, such as --only gpu-.

Data can be made on another machine: --data-only there, then copy WORK_FOLDER here and draw with --figures. Give both --gpu, or
neither.

What a step has written to WORK_FOLDER stays and is not made again unless its command or recipe has changed, so that the script
can be stopped and a figure's look tried again in seconds; WORK_FOLDER/made has the commands. A step that fails does not stop the
others: they are listed at the end. A figure without data keeps the picture and the text that it has. The pictures are PNG with a
palette of 96 colours.
"""
import argparse
import concurrent.futures
import dataclasses
import hashlib
import json
import os
import re
import shlex
import shutil
import struct
import subprocess
import sys
import time
import zlib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("KVSCOPE", str(ROOT / "build/release/bin/kvscope"))
if os.sep in PROGRAM:
    PROGRAM = str(Path(PROGRAM).resolve())  # steps run in WORK_FOLDER
TINY = "samples/models/kvscope-tiny"
TEXT = "samples/prompts/heldout.txt"
DPI = 110


@dataclasses.dataclass(frozen=True)
class Step:
    output: str          # a file or folder in WORK_FOLDER
    command: str         # a line of the shell without a shell, after "kvscope"
    needs: tuple = ()    # outputs of other steps
    alone: bool = False  # what it measures is time
    group: str = ""      # the page shows the first command of a group


@dataclasses.dataclass(frozen=True)
class Figure:
    name: str
    files: str     # outputs of steps, or paths in the repository
    options: str
    note: str      # what the paper's own figure has that this one has not
    preset: str = ""


def policies(*texts):
    return ";".join(texts)


# Windows are alike where a figure's axis leaves the window out; the gates of the sample model have 64.
TASK_POLICIES = policies(*[f"streaming:window={w}" for w in (60, 240, 380)],
                         *[f"kvpop:budget={b},window=64" for b in (96, 160, 288, 384)],
                         *[f"wg-kv:threshold={t}" for t in (0.01, 0.1, 0.9)])
READ_POLICIES = policies(*[f"quest:read={r};wg-kv:read={r}" for r in (32, 128, 384)])
SWEEP_POLICIES = policies(*[f"sp-kv:threshold={t}" for t in (0.02, 0.1, 0.3, 0.5, 0.7, 0.9)],
                          *[f"wg-kv:threshold={t}" for t in (0.01, 0.1, 0.3, 0.6, 0.9)],
                          "streaming:window=64")
SHORT_TEXT = {"length": 512, "facts_share": 0}
SP_KV = {"window": 64, "batch": 1, "log_every": 4,
         "stages": [{"price": 0.02, "steps": 160}, {"price": 0.1, "steps": 60}, {"price": 0.3, "steps": 60}]}
PROBED = {"data": SHORT_TEXT, "probe": {"tokens": 160, "every": 5},
          "gate": {"window": 64, "batch": 1, "log_every": 10, "stages": [{"weight": 0.05, "steps": 120}]}}
WG_KV = {"window": 64, "batch": 1, "log_every": 4, "heldout_sequences": 4, "thresholds": [0.01, 0.03, 0.1, 0.3, 0.6, 0.9],
         "stages": [{"weight": 0.01, "steps": 160}, {"weight": 0.05, "steps": 60}, {"weight": 0.2, "steps": 60}]}
SCORER = {"steps": 80, "batch": 1, "window": 64, "top_k": [60, 124], "queries": 64, "log_every": 4, "heldout_sequences": 2,
          "accuracy_sequences": 8}
# By folder. The first two are KVpop Fig. 5, all are Fig. 3 of its first version.
SCORERS = {"delayed": {}, "immediate": {"immediate": True}, "softmax": {"feature_map": "softmax"}, "head-norm": {"head_norm": True},
           "cached-values": {"cached_values": True}}
PALINDROMES = ("palindrome-full/full-joint_loss.h5 palindrome-sliding-window/sliding-window-joint_loss.h5 "
               "palindrome-sp-kv/sp-kv-joint_loss.h5 palindrome-sp-kv/sp-kv-joint-0.02_loss.h5")
THRESHOLDS = " ".join(f"wg-kv-gates/wg-kv-{w}-thresholds_loss.h5" for w in (0.01, 0.05, 0.2))


@dataclasses.dataclass(frozen=True)
class Speed:
    """What the figures of speed measure, and how. `random` keeps a random share of the tokens, as fast as a gate that keeps as
    many."""
    prefix: str
    model: str
    lengths: tuple        # of one sequence
    batch_lengths: tuple  # of `batch` sequences
    batch: int
    policies: tuple       # of one sequence: the full cache, KVpop, a threshold rule of KVpop Fig. 4, a random quarter
    window: int
    steps: str
    batch_steps: str

    def files(self, what):
        return [f"{self.prefix}{what}-{n}.h5" for n in (self.batch_lengths if what == "batch" else self.lengths)]


ON_CPU = Speed("", f"--model {TINY} --device %s", (384, 768, 1536), (384, 768, 1536), 4,
               ("full", "kvpop:keep=25%", "dms", "random:admit=0.25,sinks=4,window=64"), 64,
               "--max-tokens 24 --repeats 3", "--max-tokens 24 --repeats 3")
ON_GPU = Speed("gpu-", "--shape qwen3-8b --device cuda", (8192, 32768, 131072), (2048, 8192, 16384), 16,
               ("full", "kvpop:budget=4096,sinks=4,window=256", "random:admit=0.25,sinks=4,window=256"), 128,
               "--max-tokens 16 --repeats 2", "--max-tokens 8 --repeats 2")


def speed_steps(speed, device):
    model = speed.model % device if "%s" in speed.model else speed.model
    text = lambda names: " ".join(f"--policy {p}" for p in names)
    alone = ("full", speed.policies[-1])
    batch = ("full", *(f"random:admit={share},sinks=4,window={speed.window}" for share in (0.5, 0.3, 0.1)))
    add = lambda what, file, line: Step(file, f"bench {line} -o {file}", alone=True, group=what)
    # A prompt is read once before it is timed: of the longest on a GPU that takes as long as all the others.
    repeats = lambda n: 3 if speed is ON_CPU else 1 if n > 100000 else 2
    return ([add("decode", f, f"decode {model} --prompt-tokens {n} {speed.steps} {text(speed.policies)}")
             for f, n in zip(speed.files("decode"), speed.lengths)]
            + [add("batch", f, f"decode {model} --batch {speed.batch} --prompt-tokens {n} {speed.batch_steps} {text(batch)}")
               for f, n in zip(speed.files("batch"), speed.batch_lengths)]
            + [add("prefill", f, f"prefill {model} --prompt-tokens {n} --repeats {repeats(n)} {text(alone)}")
               for f, n in zip(speed.files("prefill"), speed.lengths)])


def all_steps(device, gpu):
    """What more figures need comes first."""
    on = f"--device {device}"
    over = lambda section, keys: shlex.quote(json.dumps({"data": SHORT_TEXT, section: keys}))
    on_text = f"eval {TINY} --tasks fact_recall --questions 1 --texts {TEXT} --pieces 3 --length 768 --chunk 16 {on}"
    on_tasks = f"eval {TINY} --questions 6 --length 768 {on}"
    train = lambda recipe, out: f"train samples/recipes/{recipe}.json --base {TINY} --data {TEXT} -o {out} {on}"
    capture = lambda prompts, out, policy: (f"capture smollm2-135m {prompts}.jsonl -o {out}.h5 --policy {policy} --max-tokens 2 --raw {on}")
    threads = " --threads 1" if device == "cpu" else ""
    return speed_steps(ON_GPU if gpu else ON_CPU, device) + [
        Step("sweep.h5", f"{on_text} --policies '{SWEEP_POLICIES}' -o sweep.h5"),
        Step("gates", f"{train('smollm2-sp-kv', 'gates')} --overrides {over('gate', SP_KV)}"),
        Step("probed", f"{train('smollm2-wg-kv', 'probed')} --overrides {shlex.quote(json.dumps(PROBED))}"),
        Step("hybrid.h5", f"hybrid {TINY} --texts {TEXT} --gate sp-kv-0.02 --policy sp-kv --pieces 4 --length 384 --shares 10%,25%,40%,60% {on} "
                          "-o hybrid.h5"),
        Step("maths.h5", f"run smollm2-135m --prompt-file maths.txt --max-tokens 16 --gate kvpop-mlstm --policy kvpop:keep=25% {on} --trace maths.h5"),
        Step("maths-h2o.h5", f"run smollm2-135m --prompt-file maths.txt --max-tokens 16 --policy h2o:keep=25%,window=64 {on} --trace maths-h2o.h5"),
        Step("joint.h5", "sweep samples/recipes/sweep-joint.json -o joint.h5"),
        Step("spkv.h5", capture("prompts", "spkv", "sp-kv") + " --output-error"),
        Step("tasks.h5", f"{on_tasks} --policies '{TASK_POLICIES}' -o tasks.h5"),
        Step("prose.h5", capture("prose", "prose", "wg-kv") + " --gate wg-kv-0.01 --no-oracle"),
        Step("code.h5", capture("code", "code", "wg-kv") + " --gate wg-kv-0.01 --no-oracle"),
        Step("wg-kv-gates", f"{train('smollm2-wg-kv', 'wg-kv-gates')} --overrides {over('gate', WG_KV)}"),
        Step("wg-kv-no-window", f"{train('smollm2-wg-kv', 'wg-kv-no-window')} --overrides {over('gate', {**WG_KV, 'window': 1})}"),
        *(Step(name, f"{train('smollm2-kvpop', name)} --overrides {over('scorer', {**SCORER, **keys})}", group="scorers" if keys else "")
          for name, keys in SCORERS.items()),
        Step("read.h5", f"{on_tasks} --policies '{READ_POLICIES}' -o read.h5"),
        Step("dms.h5", capture("prompts", "dms", "dms") + " --no-oracle"),
        Step("attention.json", f"score smollm2-135m --text-file prose.txt --attention 8:98 --no-dense {on} --json > attention.json"),
        *(Step(f"palindrome-{of}", f"train samples/recipes/palindrome-{of}.json --data samples/recipes/palindrome -o palindrome-{of} {on}{threads}")
          for of in ("full", "sliding-window", "sp-kv")),
        *(Step(f"sp-kv-{w}.h5", f"{on_text} --gate gates/sp-kv-{w} --policies '{policies(*[f'sp-kv:threshold={t}' for t in (0.1, 0.5, 0.8)])}' "
                                f"-o sp-kv-{w}.h5", needs=("gates",)) for w in (0.02, 0.1, 0.3)),
    ]


def speed_figures(gpu):
    speed = ON_GPU if gpu else ON_CPU
    files = {what: " ".join(speed.files(what)) for what in ("decode", "batch", "prefill")}
    both = f"{files['prefill']} {files['decode']}"
    where = lambda *methods: f"--set 'where=[\"method={'|'.join(methods)}\"]'"
    parts = "--set 'y=[\"attention_s+rest_s\",\"attention_ms+rest_ms\",\"cache_bytes+weight_bytes\"]'"
    here = "Here: one H200, random weights of Qwen3-8B's shape" if gpu else "Here: the sample model on a CPU"
    quarter = ("`random` keeps a random quarter of the tokens outside sinks and window, in each head others: speed depends on how many are kept, "
               "not on which")
    return {
        "kvpop-fig4": Figure(
            "kvpop-fig4", files["decode"], "" if gpu else where("full", "kvpop", "dms") + " --set 'y=[\"ms_per_step\",\"cache_bytes\"]'",
            f"The paper has Qwen3-8B on a GPU, up to 131 thousand tokens, with its trained scorers and DMS. {here}, one sequence. "
            + (f"KVpop holds 4,096 tokens; in the place of DMS, {quarter}. Peak memory includes that of the prompt." if gpu else
               "The right panel is the cache alone: peak memory on a CPU is that of the process.")),
        "spkv-fig3-latency": Figure(
            "spkv-fig3-latency", files["batch"], "",
            f"The paper has one line for each density, at batch 16 on a GPU. {here}, batch {speed.batch}, and policies that keep a random half, "
            "three tenths and a tenth of the tokens outside sinks and window."),
        "wgkv-fig1": Figure(
            "wgkv-fig1", both, "", f"The paper has up to 500 thousand tokens of Llama-3.1-8B on a GPU. {here}, up to {max(speed.lengths):,} tokens."),
        "wgkv-fig8": Figure(
            "wgkv-fig8", both, f"{where('full', 'random')} {parts}",
            f"As in the paper: attention and the rest, of prompt and steps, at a sparsity of 75 % by a random mask. {here}; {quarter}. The third "
            "panel is cache and weights; without --set y it is peak memory. WG-KV 15 is this figure for Qwen3-4B-2507."),
    }


HELD_OUT = "--set 'where=[\"item=heldout.txt\"]'"


def all_figures(gpu):
    speed = speed_figures(gpu)
    return [
        speed["kvpop-fig4"],
        Figure("kvpop-fig5", "delayed/scorer_loss.h5 immediate/scorer_loss.h5", "", "As in the paper: token accuracy of the student under eviction. Here: on 8 held-out sequences, and the scorers alone are trained, for 80 steps: the difference is less than the noise."),
        Figure("kvpop-fig5-variants", " ".join(f"{name}/scorer_loss.h5" for name in SCORERS), "", "Fig. 3 of KVpop's first version: the same for variants of the scorer. The paper's trainings are far longer. Here: the feature map, a norm in each head and cached values, 80 steps, too few to put them in order. `samples/recipes/tables/kvpop-ablations.json` trains ten variants on kvscope-reasoner ([results](reasoner.md)); give their `scorer_loss.h5` to the same command.", "kvpop-fig5"),
        Figure("kvpop-fig6", "maths.h5", "", "As in the paper: the last 112 evictable tokens, rows are layers, colour counts heads."),
        Figure("kvpop-fig7", "maths.h5", "", "As in the paper, plus the line of chance."),
        Figure("kvpop-fig8", "dms.h5", "", "As in the paper: 0 is dense, 1 is the window alone. The median is over 3 texts; the paper's is over 100."),
        Figure("kvpop-fig9", "maths.h5", "", "The paper shows more sequences. Here: more of one sequence, in several lines."),
        Figure("spkv-fig2", "samples/recipes/spkv-table7.csv", "", "The points are the paper's Table 7: full attention. The paper has no table of its own models' losses, and none were trained here; another family goes into the same file."),
        Figure("spkv-fig3", "sweep.h5", HELD_OUT, "In the paper, training for this policy lowers the curve, and a 3:1 hybrid is drawn beside it. Here, the gates were trained with a frozen base, and there is no hybrid. All windows are 64 tokens, so density compares the policies."),
        speed["spkv-fig3-latency"],
        Figure("spkv-fig4", "spkv.h5", "", "As in the paper: mean density of each head, rows are layers."),
        Figure("density-spread", "spkv.h5", "", "Not in the papers: how far a head's density differs from text to text."),
        Figure("spkv-fig4-strategies", "hybrid.h5", "", "As in the paper: coverage and NLL of the strategies, at several shares."),
        Figure("spkv-fig5", "gates/sp-kv-0.02_loss.h5", "", "As in the paper: median, quartiles, deciles and all heads; 24 heads instead of 190."),
        Figure("spkv-fig6", "sp-kv-0.02.h5 sp-kv-0.1.h5 sp-kv-0.3.h5", HELD_OUT, "The paper's lines are weights of its regulariser (eq. 13), which keeps density up. Here: prices, which push it down; so short a training prunes nothing without one. The thresholds lie along each line, as in the paper."),
        Figure("spkv-fig7", "", "", "As in the paper, from its Tables 7 and 8 and eq. 15."),
        Figure("spkv-fig8", PALINDROMES, "", "As in the paper. Of the models without a gate, full attention has a utility of 1 and the window has 0. sp-kv continues with a price of 0.02: a second training, whose steps begin at 0 again on the same axis."),
        speed["wgkv-fig1"],
        Figure("wgkv-fig3", "prose.h5 attention.json", "", "The paper shows two tokens in two heads. Here: one token in one head, and when the gate drops it; `--set kv_head=N` chooses another."),
        Figure("wgkv-fig7", "tasks.h5", "", "The paper has a gate for each lambda at tau = 0.1, local attention and DuoAttention, and 14 tasks of HELMET. Here: thresholds of one gate, KVpop, and `streaming` as local attention, on the tasks that the sample model can do; DuoAttention has no head file for this model. WG-KV 14 is this figure for Qwen3-4B-2507."),
        speed["wgkv-fig8"],
        Figure("wgkv-fig9", "read.h5", "", "As in the paper: Quest alone and Quest after the gate, against the tokens that a query reads."),
        Figure("wgkv-fig10", "joint.h5", "", "As in the paper: admission by lambda, SnapKV under a pool, and the gates under a pool. The paper has AIME25; here it is two kinds of problems that kvscope-reasoner solves, 6 of each, with a window of 32."),
        Figure("wgkv-fig11", THRESHOLDS, "--set 'y_label=Distillation loss'", "As in the paper: a line for each lambda, with the thresholds along it, on held-out text. Here: 4 sequences of 512 tokens, a window of 64."),
        Figure("wgkv-fig12", f"{THRESHOLDS} {THRESHOLDS.replace('wg-kv-gates', 'wg-kv-no-window')}", "--set 'y_label=Distillation loss'", "As in the paper: gates with and without a local cache, by the size of the whole cache. Here: a window of 64 and one of 1, three lambdas each, on 4 sequences of 512 tokens."),
        Figure("wgkv-fig13", "prose.h5", "", "As in the paper: each head's share of the cache, window included. The text has 454 tokens: a window of 256 alone is 0.56."),
        Figure("wgkv-fig13-tasks", "prose.h5 code.h5", "--set name_a=Prose --set name_b=Code", "As in the paper: two tasks on one scale. We added the difference. Texts of 454 and 500 tokens: a window of 256 alone is 0.51 to 0.56."),
        Figure("wgkv-fig16", "joint.h5", "--set x=gate --set series=policy --set 'where=[\"item=reason-machine\"]'", "As in the paper: for each lambda, the gate alone and with a pool, and how often the full pool evicts. The bars without a gate's name are SnapKV under three pools. One kind of problem, 6 questions."),
        Figure("recall-map", "spkv.h5", "", "Not in the papers: KVpop 7 as a map, a cell for each head."),
        Figure("output-error-map", "spkv.h5", "", "Not in the papers: what eviction does to the output of each head's group."),
        Figure("output-error-by-layer", "spkv.h5", "", "Not in the papers: what eviction does to each layer's output."),
        Figure("cache-timeline", "maths.h5", "--layer 8 --kv-head 1", "Not in the papers: when each token enters and leaves one head's cache."),
        Figure("nll-curve", "maths.h5", "", "Not in the papers: how well the model predicts each token of the run."),
        Figure("cache-curve", "spkv.h5", "", "Not in the papers: how the cache grows under a gate, over the heads."),
        Figure("run-card", "maths.h5", "", "Not in the papers: one picture of a run for a talk or a post."),
        Figure("run-lifetimes", "maths.h5", "--layer 8 --kv-head 1", "Not in the papers: how long one head keeps each token, and the oracle's verdict."),
        Figure("run-fingerprints", "maths.h5", "--set profile=class --set order=cluster", "Not in the papers: what each head keeps, by the class of the token."),
        Figure("methods-by-cache-size", "maths.h5 maths-h2o.h5", "--set cells=tokens", "Not in the papers: methods beside each other, by the size of their caches."),
        Figure("run-difference", "maths.h5 maths-h2o.h5", "", "Not in the papers: where two answers to one prompt part, and what each cache had lost there."),
        Figure("gates-in-training", "probed", "--set step=50", "Not in the papers: a gate of WG-KV that closes while it trains; the last layer keeps more than the others."),
        Figure("hybrid-nll", "hybrid.h5", "", "Not in the papers: NLL of each strategy against its share."),
        Figure("hybrid-turnover", "hybrid.h5", "", "Not in the papers: how stable the choice of heads is."),
    ]


def outputs_of(figure):
    """Of the steps that the figure's data are from, each once."""
    names = [f.split("/")[0] for f in figure.files.split() if not f.startswith("samples/")]
    return list(dict.fromkeys(names))


def note_of_step(step, work):
    """Where it is written down that the step was begun, or is done, and with which command."""
    return work / "made" / f"{step.output}.json"


def key_of(step):
    """What decides the data: the command, wherever it is computed, and the recipes that it reads."""
    recipes = [w for w in shlex.split(step.command) if w.startswith("samples/recipes/") and w.endswith(".json")]
    hashes = [hashlib.sha256((ROOT / w).read_bytes()).hexdigest()[:16] for w in recipes]
    return " ".join([re.sub(r" --device \S+| --threads \S+", "", step.command), *hashes])


def read_note(step, work):
    path = note_of_step(step, work)
    return json.loads(path.read_text()) if path.exists() else {}


def write_note(step, work, done):
    path = note_of_step(step, work)
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"key": key_of(step), "command": step.command, "done": done}, indent=1) + "\n")


def is_made(step, work):
    note = read_note(step, work)
    return note.get("done", False) and note["key"] == key_of(step) and (work / step.output).exists()


def clear(step, work):
    """Takes away what is left of a step that was stopped, or had another command. Answers and checkpoints of the same command stay:
    the program continues from them."""
    is_same = read_note(step, work).get("key") == key_of(step)
    path = work / step.output
    if path.is_dir() and not is_same:
        shutil.rmtree(path)
    if path.is_file():
        path.unlink()
    if not is_same:
        for left in work.glob(f"{step.output}.*"):
            left.unlink()
    path.with_suffix(".csv").unlink(missing_ok=True)


def kvscope(words, work, device="", stdout=subprocess.DEVNULL):
    """Runs kvscope in the work folder, with the repository's paths made absolute. Returns what went wrong, or nothing."""
    if ">" in words:
        with open(work / words[-1], "wb") as file:
            return kvscope(words[:-2], work, device, file)
    words = [str(ROOT / w) if w.startswith("samples/") else w for w in words]
    environment = dict(os.environ)
    if device == "cpu" and "cuda" not in words:
        environment["CUDA_VISIBLE_DEVICES"] = ""  # for what finds its device itself
    if words[0] == "train":
        words.append("--resume")
    if words[0] != "figure":
        words.append("--quiet")
    done = subprocess.run([PROGRAM, *words], cwd=work, env=environment, stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE, text=True)
    if done.returncode == 0:
        return ""
    return " ".join(done.stderr.split("\n")[-4:]).strip() or f"exit code {done.returncode}"


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


class Data:
    """Makes what is not there yet, and remembers what could not be made."""

    def __init__(self, steps, work, device):
        self.steps, self.work, self.device = {s.output: s for s in steps}, work, device
        self.failed, self.n_done, self.n_all = {}, 0, 0

    def make(self, step):
        start = time.monotonic()
        missing = [n for n in step.needs if not is_made(self.steps[n], self.work)]
        problem = f"needs {', '.join(missing)}" if missing else self.run(step)
        self.n_done += 1
        if problem:
            self.failed[step.output] = problem
        print(f"[{self.n_done}/{self.n_all}] {step.output}: {problem or f'{time.monotonic() - start:.0f} s'}", flush=True)

    def run(self, step):
        clear(step, self.work)
        write_note(step, self.work, False)
        words = shlex.split(step.command)
        problem = kvscope(words, self.work, self.device)
        if not problem and not (self.work / step.output).exists():
            problem = "it was not written"
        if not problem:
            write_note(step, self.work, True)
        return problem

    def make_all(self, only, at_once):
        wanted = [s for s in self.steps.values() if re.search(only, s.output)]
        left = [s for s in wanted if not is_made(s, self.work)]
        self.n_all = len(left)
        print(f"{len(wanted) - len(left)} of {len(wanted)} data are there", flush=True)
        for step in left:
            if step.alone:
                self.make(step)
        rest = [s for s in left if not s.alone]
        for wave in ([s for s in rest if not s.needs], [s for s in rest if s.needs]):
            with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
                list(pool.map(self.make, wave))


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


def make_figures(figures, steps, work, folder):
    """-> {name: (command, caption)} of what was drawn, and {name: reason} of what was not."""
    made, left_out = {}, {}
    folder.mkdir(exist_ok=True)
    for figure in figures:
        missing = [n for n in outputs_of(figure) if not is_made(steps[n], work)]
        missing += [f for f in figure.files.split() if not f.startswith("samples/") and not missing and not (work / f).exists()]
        if missing:
            left_out[figure.name] = "no " + ", ".join(missing)
            continue
        command = f"figure --preset {figure.preset or figure.name} {figure.files} {figure.options}"
        command = " ".join(command.split())
        problem = kvscope([*shlex.split(command), "-o", f"{figure.name}.png", "--dpi", str(DPI), "--overwrite"], work)
        if problem:
            left_out[figure.name] = problem
            continue
        write_png(folder / f"{figure.name}.png", read_png((work / f"{figure.name}.png").read_bytes()))
        caption = json.loads((work / f"{figure.name}.json").read_text()).get("caption", "")
        made[figure.name] = (command, re.sub(r"(?<!`)\*", "\\*", caption))
    return made, left_out


def commands_of(figure, steps, work):
    """How its data were made: the first command of each group, and how many more there are."""
    lines, shown, more = [], set(), Counter()
    for step in (steps[n] for n in outputs_of(figure)):
        if step.group and step.group in shown:
            more[step.group] += 1
            continue
        shown.add(step.group)
        lines.append((step.group, "kvscope " + read_note(step, work)["command"]))
    for group, line in lines:
        yield line
        if more[group]:
            yield f"# ... and {more[group]} more of other " + ("kinds" if group == "scorers" else "lengths")


def section(figure, command, caption, steps, work):
    lines = "".join(f"{line}\n" for line in commands_of(figure, steps, work))
    return (f"### {figure.name}\n\n![{figure.name}](gallery/{figure.name}.png)\n\n```\n{lines}kvscope {command} -o {figure.name}.pdf\n```\n\n"
            f"{figure.note}\n\n> {caption}\n\n")


def write_page(figures, made, steps, work):
    marker = "<!-- made by samples/recipes/gallery.py -->"
    path = ROOT / "docs/records/gallery.md"
    page, old = path.read_text().split(marker)
    kept = {part.split("\n")[0]: part.rstrip() for part in old.split("\n### ")[1:]}
    page += f"{marker}\n\n"
    for figure in figures:
        if figure.name in made:
            page += section(figure, *made[figure.name], steps, work)
        elif figure.name in kept:
            page += f"### {kept[figure.name]}\n\n"
    path.write_text(page.rstrip() + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path, metavar="WORK_FOLDER")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where data are made, those of --gpu apart (cpu)")
    parser.add_argument("--gpu", action="store_true", help="figures of speed from a GPU, with random weights of Qwen3-8B's shape")
    parser.add_argument("--at-once", type=int, default=1, metavar="N", help="data to make at a time (1)")
    parser.add_argument("--only", default="", metavar="REGEX", help="make only data whose name matches")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--data-only", action="store_true", help="draw nothing, write nothing outside WORK_FOLDER")
    what.add_argument("--figures", action="store_true", help="draw what there is, make no data")
    options = parser.parse_args()
    work = options.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    inputs(work)
    data = Data(all_steps(options.device, options.gpu), work, options.device)
    if not options.figures:
        data.make_all(options.only, options.at_once)
    left_out = {}
    if not options.data_only:
        figures = all_figures(options.gpu)
        folder = ROOT / "docs/records/gallery"
        made, left_out = make_figures(figures, data.steps, work, folder)
        write_page(figures, made, data.steps, work)
        print(f"{len(made)} of {len(figures)} figures, {sum(p.stat().st_size for p in folder.iterdir()) / 1024:.0f} KB")
    for title, problems in (("data", data.failed), ("figures", left_out)):
        for name, problem in problems.items():
            print(f"not made, {title}: {name}: {problem}")
    return 1 if data.failed or left_out else 0


if __name__ == "__main__":
    sys.exit(main())
