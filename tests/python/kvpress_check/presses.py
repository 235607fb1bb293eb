"""Every press of kvpress, tried on a model by the Python engine."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from models import Subject

from kvscope.client import Engine
from kvscope.errors import KvscopeError
from kvscope.presses import find_presses

ANSWER = 16
PARAMETERS = {
    "CompressionRatioDecodingPress": "compression_interval=4",
    "DMSPress": "press=KnormPress,threshold=-12,sliding_window_size=32,decoding=true",
    "DecodingPress": "compression_interval=4,target_size=192",
    "PrefillDecodingPress": "compression_interval=4,target_size=192",
    "SimLayerKVPress": "lazy_threshold=0.7,n_recent=64",
}
"""Presses that would not act within so short a run. All others keep their defaults, and a ratio of 0.5."""
NEEDS = {
    "DuoAttentionPress": "it needs a table of heads; kvpress has those of six models and downloads them",
    "ExpectedAttentionStatsPress": "it needs statistics of the model's queries, which kvpress downloads",
    "FastKVzipPress": "it needs trained gates, which kvpress downloads",
    "KVzapPress": "it needs trained weights, which kvpress downloads",
    "LUKVPress": "it needs budget curves, which kvpress has for other models",
    "QFilterPress": "it needs filters for the model, which kvpress downloads",
    "RestoreKVPress": "it needs trained weights, which kvpress downloads",
}
"""Why a press does not run on a model that kvpress has no files for. Used only if it did not run."""


@dataclass(frozen=True)
class Tried:
    """What a press did. kept: share of the prompt that the heads keep at the first query of the answer, mean over
    heads; lost: tokens that a head loses at later queries, mean over heads. reason: why it did not run."""

    name: str
    kept: float = float("nan")
    lost: float = 0.0
    reason: str = ""


def plain(line: str, name: str) -> str:
    """kvpress' own line without what the engine adds in front, and without the paths of this machine."""
    line = line.removeprefix("kvpress: ").removeprefix(f"{name} on ").removeprefix(name + ": ")
    line = re.sub(r"(/[\w.@~-]+){2,}", "...", line)
    return line if len(line) <= 160 else line[:157] + "..."


def try_presses(subject: Subject, engine: Engine, answer: int = ANSWER) -> list[Tried]:
    """Runs every press on the first prompt of a model. engine: the one in Python."""
    out, ids = [], subject.prompts[0]
    engine.load(str(subject.folder))
    for press in find_presses():
        name = press.press.__name__
        if name in ("BasePress", "ScorerPress"):
            continue
        if press.refusal:
            out.append(Tried(name, reason=press.refusal))
            continue
        policy = press.policy.name + (":" + PARAMETERS[name] if name in PARAMETERS else "")
        try:
            run = engine.run(ids, policy, answer)
        except KvscopeError as error:
            out.append(Tried(name, reason=NEEDS.get(name, plain(error.line(), name))))
            continue
        gone, n = np.asarray(run.evict_at), len(ids)
        later = (gone > n) & (gone <= len(run.ids))
        out.append(Tried(name, float((gone[:, :, :n] > n).mean()), float(later.sum(-1).mean())))
    return out
