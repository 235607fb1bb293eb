"""docs/kvpress.md from the measurements."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import textwrap
import time
from collections.abc import Mapping, Sequence

from cases import CASES, KVZAP_WINDOW
from compare import Overlap
from measure import Row, SameRule
from models import Subject
from presses import ANSWER, PARAMETERS, Tried

INTRO = """\
# KVScope and kvpress

KVScope and kvpress share nine methods. This page compares what they keep, head by head. One command measured every \
figure and wrote the page:

    python tests/python/kvpress_check --engine build/release/bin/kvscope-engine

It needs {packages}, the SmolLM2 that `./setup` fetches, and kvscope-tiny, which the build unpacks. \
This run, of {date}, took {minutes} of \
processor time, on one thread, in float32, with {engines}.

## What is compared

- **Prompts**: {n_prompts} pieces of {n} tokens of `samples/prompts/heldout.txt`. **Budgets**: {budgets} tokens.
- **kvpress**: the press alone, in transformers. The rows that it leaves in the cache are found by their bits.
- **KVScope's engine**: `kvscope-engine`, over its protocol.
- **Python engine**: [`kvscope.engine`](../engine/python/README.md), over the same protocol. It runs KVScope's rule \
where it has one (StreamingLLM, key norm, KeyDiff, KVzap), else the press itself.
- **Overlap** of a head: tokens that both keep, divided by the mean number of tokens that each keeps. A cell has the \
mean over all heads and prompts, the least, and the number of heads with identical sets. Where only near-ties differ, \
it also has the difference of their scores.
- KVzap's weights and DuoAttention's table are random (seed 0), because neither was trained for these models. KVzap's \
window has {zap_window} tokens, and its threshold is the one that keeps the budget on average.

## What they keep
"""


def wrapped(text: str) -> str:
    """Paragraphs and list items of at most 138 characters a line; code and headings as they are."""
    out = []
    for line in text.split("\n"):
        indent = "  " if line.startswith("- ") else ""
        keep = line.startswith(("    ", "#", "|")) or not line
        out.append(
            line
            if keep
            else textwrap.fill(line, 138, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
        )
    return "\n".join(out)


TIES = (
    "A difference of scores is relative. So close a pair is a near-tie: the engines add up in another order, and rank "
    "the two tokens differently."
)


def number(value: float) -> str:
    """Four digits, never rounded up to 1."""
    return "1" if value >= 1 else f"{min(value, 0.9999):.4f}"


def cell(found: Overlap | None) -> str:
    if found is None:
        return "-"
    if found.all:
        return f"identical in all {found.heads}"
    line = f"{number(found.mean)}, least {number(found.least)}, {found.identical} of {found.heads} identical"
    if found.gap < 1e-4:  # float32 sums of another order: a near-tie
        line += f"; the scores of the other tokens differ by at most {found.gap:.0e} of their value"
    return line


def budgets_of(rows: Sequence[Row]) -> list[tuple[str, Row]]:
    """Rows of one method, with their budgets as text. One row has all of them if all heads are identical."""

    def total(found: Sequence[Overlap | None]) -> Overlap | None:
        heads = sum(one.heads for one in found if one is not None)
        return dataclasses.replace(found[0], heads=heads, identical=heads) if found[0] is not None else None

    sides = [[row.ours for row in rows], [row.python for row in rows]]
    if all(one is None or one.all for side in sides for one in side):
        text = ", ".join(str(row.budget) for row in rows)
        return [(text, dataclasses.replace(rows[0], ours=total(sides[0]), python=total(sides[1])))]
    return [(str(row.budget), row) for row in rows]


def models_table(subject: Subject, rows: Sequence[Row]) -> str:
    layers, heads, _ = subject.shape
    out = [
        f"### {subject.name}",
        "",
        f"{subject.what}; {layers} layers, {heads} KV heads; {layers * heads * len(subject.prompts)} heads in all "
        "prompts.",
        "",
        "| method | budget | KVScope's engine and kvpress | Python engine and kvpress |",
        "|---|---|---|---|",
    ]
    for title in dict.fromkeys(row.title for row in rows):
        for budget, row in budgets_of([row for row in rows if row.title == title]):
            out.append(f"| {title} | {budget} | {cell(row.ours)} | {cell(row.python)} |")
    return "\n".join(out) + "\n"


def reasons(rows: Sequence[Row]) -> str:
    out = ["## Why they differ", ""]
    for case in CASES:
        own = case.engine.replace("{next_window}", str(KVZAP_WINDOW + 1)).replace("{", "").replace("}", "")
        own = own.replace("window=window", "window=budget-4").replace("budget=budget", "budget=...")
        own = own.replace("threshold=threshold", "threshold=...")
        gate = f" with `--gate {case.gate}`" if case.gate in ("knorm", "keydiff") else ""
        text = f"**{case.title}** (`{own}`{gate}; `{case.press_text}`). {case.reason}"
        refused = {line.split(";")[0] for row in rows if row.title == case.title for line in row.refusals}
        for line in sorted(refused):
            text += f" KVScope's engine refused its policy, so its column is empty: `{line}`."
        out += [wrapped(text), ""]
    return "\n".join(out)


def same_table(same: Mapping[str, Sequence[SameRule]], answer: int) -> str:
    out = [
        "## One rule in both engines",
        "",
        wrapped(
            f"The same policy, model and prompt, and {answer} tokens of answer, in KVScope's engine and in the Python "
            "engine. The scores are those of the random KVzap. A lifetime is the first query that no longer sees a "
            "token. The last column has the greatest difference of the log-probabilities of the prompt's tokens, in "
            "nats."
        ),
        "",
        "| model | policy | heads with equal lifetimes | tokens with other lifetimes | log-probabilities |",
        "|---|---|---|---|---|",
    ]
    ties = False
    for name, rows in same.items():
        for row in rows:
            tokens = f"{row.tokens} of {row.of_tokens}"
            if row.tokens:
                ties = ties or row.gap < 1e-4
                tokens += f"; their scores differ by {row.gap:.0e}"
            line = f"| {name} | `{row.policy}` | {row.identical} of {row.heads} | {tokens} | {row.logprobs:.0e} |"
            out.append(line)
    if ties:
        out += ["", wrapped(TIES)]
    return "\n".join(out) + "\n"


def presses_table(subject: Subject, tried: Sequence[Tried], n: int) -> str:
    ran = [press for press in tried if not press.reason]
    out = [
        "## Every press",
        "",
        wrapped(
            f"Each press of kvpress on {subject.name}, run by the Python engine as `hf.kvpress.NAME` with {n} tokens "
            f"of prompt and {ANSWER} of answer: {len(ran)} of {len(tried)} run. Parameters are kvpress' defaults and "
            "`compression_ratio=0.5`, or as written. *Kept* is the share of the prompt that the heads keep at the "
            "first query of the answer, mean over heads; *lost later*, the tokens that a head loses during the "
            "answer."
        ),
        "",
        "| press | kept | lost later | why it does not run |",
        "|---|---|---|---|",
    ]
    for press in tried:
        name = press.name + (f" (`{PARAMETERS[press.name]}`)" if press.name in PARAMETERS else "")
        if press.reason:
            out.append(f"| {name} | - | - | {press.reason.replace('|', '/')} |")
        else:
            out.append(f"| {name} | {100 * press.kept:.1f} % | {press.lost:.1f} | |")
    note = "On a hybrid model no press runs: its cache has no layers that kvpress can compress."
    return "\n".join(out) + "\n\n" + note + "\n"


def page(
    subjects: Sequence[Subject],
    budgets: Sequence[int],
    n: int,
    tables: Mapping[str, Sequence[Row]],
    same: Mapping[str, Sequence[SameRule]],
    presses: Sequence[Tried],
    engines: Sequence[str],
    seconds: float,
) -> str:
    """The whole page. tables and same: by the subject's name. seconds: of processor time."""
    packages = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("kvpress", "transformers", "torch"))
    minutes = seconds / 60
    intro = INTRO.format(
        packages=packages,
        date=time.strftime("%d %B %Y").lstrip("0"),
        minutes=f"{minutes:.0f} minutes" if minutes >= 1.5 else "a minute",
        engines=engines[0] + " and " + engines[1].split(",")[0],
        n_prompts=len(subjects[0].prompts),
        n=n,
        budgets=", ".join(map(str, budgets)),
        zap_window=KVZAP_WINDOW,
    )
    parts = [wrapped(intro)]
    parts += [models_table(subject, tables[subject.name]) for subject in subjects]
    parts.append(reasons([row for rows in tables.values() for row in rows]))
    parts += [same_table(same, ANSWER), presses_table(subjects[1], presses, n)]
    return "\n".join(parts)
