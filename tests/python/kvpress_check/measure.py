"""The measurements: every case on every model, and both engines under one rule."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from alone import Alone
from cases import CASES, KVZAP_WINDOW, SINKS, ZAP, Case, Setting
from compare import Overlap, overlap, stack
from models import Subject, duo_pattern, kvzap_gate

import kvscope
from kvscope.client import Engine
from kvscope.errors import KvscopeError
from kvscope.recording import Recording

SAME_RULE = (
    "streaming:sinks={sinks},window={window}",
    "top-k:budget={budget},sinks={sinks},window={zap_window}",
    "threshold:threshold={threshold},sinks={sinks},window={zap_window}",
)
"""Policies of both engines. Their scores are those of the linear KVzap."""


@dataclass
class Row:
    """A line of the table. ours, python: None if that engine does not run it, with the reason."""

    title: str
    budget: int
    ours: Overlap | None
    python: Overlap | None
    refusals: list[str] = field(default_factory=list)  # what an engine says that cannot run it


@dataclass
class SameRule:
    """A policy in both engines: heads with equal lifetimes, tokens with different ones, and the greatest difference of
    the log-probabilities of the prompt's tokens. gap: of tokens with different lifetimes in one head, the greatest
    relative difference of their scores; NaN without any."""

    policy: str
    identical: int
    heads: int
    tokens: int
    of_tokens: int
    logprobs: float
    gap: float = float("nan")


def kept_by(run: Recording, n: int, case: Case) -> np.ndarray:
    """[layers, KV heads, n] bool: what the case compares."""
    return np.asarray(run.evict_at)[:, :, :n] > (n if case.from_first_answer else n - 1)


@contextlib.contextmanager
def engines(own: str, folder: Path) -> Iterator[dict[str, Engine]]:
    """KVScope's engine, if `own` names it, and the one in Python, whose first method is the KVzap in `folder`/kvzap."""
    (folder / "kvzap.py").write_text(ZAP)
    command = [sys.executable, "-m", "kvscope.engine", "--threads", "1", "--device", "cpu"]
    command += ["--method", f"{folder / 'kvzap.py'}:Linear"]
    path = {"PYTHONPATH": str(Path(kvscope.__file__).parents[1]), "KVZAP_FOLDER": str(folder / "kvzap")}
    with contextlib.ExitStack() as stack:
        out = {"python": stack.enter_context(Engine(command, path))}
        if own:
            out["ours"] = stack.enter_context(Engine([own]))
        yield out


def threshold_for(scores: np.ndarray, budget: int, n: int) -> float:
    """The threshold under which the heads keep `budget` tokens on average, the window included. scores [..., n]."""
    outside = np.sort(scores[..., : n - KVZAP_WINDOW], axis=None)
    share = min(1.0, max(0.0, (budget - KVZAP_WINDOW) / (n - KVZAP_WINDOW)))
    return round(float(outside[int(len(outside) * (1 - share))]), 6)


class Check:
    """All cases on one model."""

    def __init__(
        self,
        subject: Subject,
        budgets: Sequence[int],
        engines: Mapping[str, Engine],
        folder: Path,
        cases: Sequence[Case] = CASES,
    ):
        """engines: as of engines(), with the same folder."""
        self.subject, self.budgets, self.cases, self.alone = subject, budgets, cases, Alone(str(subject.folder))
        self.engines, self.folder = engines, folder
        kvzap_gate(subject, folder / "kvzap")
        self._loaded: dict[str, list[str]] = {}
        self._zap_scores: dict[int, np.ndarray] = {}

    def _load(self, gate: str) -> None:
        for name, engine in self.engines.items():
            path = self.folder / gate
            gates = [str(path) if path.exists() else gate] if gate and name == "ours" else []
            if self._loaded.get(name) != gates:
                engine.load(str(self.subject.folder), gates)
                self._loaded[name] = gates

    def _setting(self, case: Case, budget: int, prompt: int) -> Setting:
        n = len(self.subject.prompts[prompt])
        at = Setting(n, budget)
        if case.gate == "kvzap":
            if prompt not in self._zap_scores:
                zap = dataclasses.replace(at, folder=self.folder / "kvzap", threshold=-1e9)
                scores = self.alone.kept(case.press(zap), self.subject.prompts[prompt])[1]
                assert scores is not None
                self._zap_scores[prompt] = scores
            threshold = threshold_for(self._zap_scores[prompt], budget, n)
            at = dataclasses.replace(at, folder=self.folder / "kvzap", threshold=threshold)
        if case.gate == "duo":
            alpha = duo_pattern(self.subject, self.folder / f"duo-{budget}", SINKS, budget - SINKS)
            at = dataclasses.replace(at, alpha=alpha)
        return at

    def rows(self) -> list[Row]:
        """The table of this model."""
        out: list[Row] = []
        for case in self.cases:
            for budget in self.budgets:
                out += self._row(case, budget)
        return out

    def _row(self, case: Case, budget: int) -> list[Row]:
        self._load(f"duo-{budget}" if case.gate == "duo" and self._setting(case, budget, 0) else case.gate)
        theirs, scores, ours, python, after, refusals = [], [], [], [], [], []
        for prompt, ids in enumerate(self.subject.prompts):
            at, n = self._setting(case, budget, prompt), len(ids)
            kept, found = self.alone.kept(case.press(at), ids, case.attention)
            theirs.append(kept)
            scores.append(found)
            for name, text, into in (("ours", case.engine, ours), ("python", case.python, python)):
                try:
                    run = self.engines[name].run(ids, case.policy(text, at)) if text and name in self.engines else None
                except KvscopeError as error:
                    run = None
                    if error.line() not in refusals:
                        refusals.append(error.line())
                into.append(None if run is None else kept_by(run, n, case))
                if run is not None and name == "ours":
                    after.append(np.asarray(run.evict_at)[:, :, :n] > n)
        all_theirs, all_scores = np.stack(theirs), stack(scores)

        def against(sets: list, other: np.ndarray = all_theirs, layers: slice = slice(None)) -> Overlap | None:
            found = stack(sets)
            if found is None:
                return None
            return overlap(found[:, layers], other[:, layers], None if all_scores is None else all_scores[:, layers])

        rows = [Row(case.title, budget, against(ours), against(python), refusals)]
        first = slice(0, 1)
        if case.title == "StreamingLLM":
            rows.append(Row("- at the next query", budget, against(after), None))
        if case.attention == "eager":
            rows.append(Row("- newest token kept", budget, against(ours, best(all_scores, budget)), None))
        if case.title == "Key norm":
            other = best(all_scores, budget)
            rows.append(
                Row("- layer 0, newest token kept", budget, against(ours, other, first), against(python, other, first))
            )
        if case.title == "KVzap":
            rows.append(Row("- layer 0", budget, against(ours, layers=first), against(python, layers=first)))
        return rows

    def same_rule(self, budget: int, answer: int) -> list[SameRule]:
        """Both engines under the policies of SAME_RULE, on the first prompt and an answer."""
        self._load("kvzap")
        ids = self.subject.prompts[0]
        at = self._setting(next(case for case in CASES if case.gate == "kvzap"), budget, 0)
        out = []
        for text in SAME_RULE:
            policy = text.format(
                sinks=SINKS, window=budget - SINKS, budget=budget, zap_window=KVZAP_WINDOW, threshold=at.threshold
            )
            runs = [self.engines[name].run(ids, policy, answer) for name in ("ours", "python")]
            n = next((i for i, (a, b) in enumerate(zip(runs[0].ids, runs[1].ids)) if a != b), len(runs[0].ids))
            first, second = (np.minimum(np.asarray(run.evict_at)[:, :, :n], n) for run in runs)
            logprobs = [np.asarray(run.logprobs)[1 : len(ids)] for run in runs]
            same = (first == second).all(-1)
            out.append(
                SameRule(
                    policy,
                    int(same.sum()),
                    same.size,
                    int((first != second).sum()),
                    first.size,
                    float(np.abs(logprobs[0] - logprobs[1]).max()),
                    spread(runs[0].scores, first != second),
                )
            )
        return out


def spread(scores: np.ndarray | None, chosen: np.ndarray) -> float:
    """The greatest over heads of (max - min) / max |score| of the chosen tokens; NaN if none is chosen. scores [layers,
    KV heads, tokens or more], chosen [layers, KV heads, tokens]."""
    out = float("nan")
    for layer, head in zip(*np.nonzero(chosen.any(-1))):
        if scores is None:
            return float("inf")
        found = np.asarray(scores)[layer, head, : chosen.shape[-1]][chosen[layer, head]]
        out = float(np.fmax(out, (found.max() - found.min()) / np.abs(found).max()))
    return out


def best(scores: np.ndarray | None, budget: int) -> np.ndarray:
    """[prompts, layers, KV heads, n] bool: the newest token, and the `budget` - 1 others with the greatest scores."""
    assert scores is not None
    values = scores.copy()
    values[..., -1] = np.inf
    kept = np.zeros(values.shape, bool)
    np.put_along_axis(kept, np.argsort(-values, axis=-1, kind="stable")[..., :budget], True, axis=-1)
    return kept
