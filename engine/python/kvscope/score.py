"""A text that is read under a policy and not written: log-probabilities, density; and what every method says of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from .attention import Call
from .catalog import Catalog
from .errors import usage
from .generation import Hooks
from .methods import Scorer
from .models import Model
from .passes import Reader, RulePass, logprobs_of, never
from .press_pass import PressPass
from .request import check_ids
from .rules import Geometry, LifetimeRule
from .wire import f32, i32, read_i32


def density_of(evict_at: np.ndarray, geometry: Geometry, windows: list[int], n: int) -> np.ndarray:
    """[layers, KV heads]: of the tokens that have left the window at query n - 1, the share that is kept. NaN without
    any."""
    out = np.full(evict_at.shape[:2], np.nan, np.float32)
    for layer, window in enumerate(windows):
        end = n - 1 - (window or geometry.window) + 1
        if end > 0:
            out[layer] = (evict_at[layer, :, :end] > n - 1).mean(-1)
    return out


def score(message: dict, model: Model, catalog: Catalog, hooks: Hooks) -> dict:
    """The fields of `done` of a `score` request.

    The policy acts from the first token on, after every `chunk` tokens; or with prompt_len that many tokens pass as a
    run's prompt and the others one by one. Raises KvscopeError for a policy that cannot read a text so.
    """
    ids = read_i32(message, "ids").tolist() if "ids" in message else model.encode(str(message.get("text", "")))
    check_ids(ids, model, "score")
    if message.get("changes") or message.get("thresholds") or message.get("budgets"):
        raise usage(
            "changes, thresholds or budgets", file="score", expected="none: this engine does not serve them here"
        )
    n, prompt_len = len(ids), int(message.get("prompt_len") or 0)
    n_positions = int(message.get("n_positions") or n)
    chunk = 0 if prompt_len else int(message.get("chunk") or 1)
    spec = catalog.parse(message.get("policy") or "full")
    geometry = Geometry.of(spec, n_positions)
    state = catalog.make(spec, model, n_positions, max(1, chunk), hooks.cancelled)
    if isinstance(state, PressPass) and not prompt_len:
        raise usage(
            spec.text(),
            file="score",
            where="prompt_len",
            hint="name how many tokens are the prompt",
            expected="a length, because a press acts at the end of a prompt",
        )
    if message.get("oracle") or message.get("output_error"):
        hooks.send({"type": "log", "text": "This engine measures recall and output error in runs, and not in score."})
    logprobs, greedy = _read(ids, prompt_len, model, state, hooks)
    gone = state.evict_at
    fields: dict[str, Any] = {
        "ids": i32(ids),
        "logprobs": f32(logprobs),
        "nll": -float(np.mean(logprobs[1:])) if n > 1 else math.nan,
        "density": f32(density_of(gone, geometry, [layer.window for layer in model.layers], n)),
        "dense": not bool((gone[[not layer.window for layer in model.layers], :, :n] < n).any()),
        "policy": spec.text(),
        "prompt_len": prompt_len,
        "chunk": chunk,
    }
    if message.get("choices"):
        fields["greedy"] = i32(greedy)
    return fields


def _read(
    ids: list[int], prompt_len: int, model: Model, state: RulePass | PressPass, hooks: Hooks
) -> tuple[np.ndarray, list[int]]:
    """Log-probability [n] of each token (NaN for the first), and the likeliest [n] (-1 for the first)."""
    reader, logprobs, greedy = Reader(model, state), [np.array([math.nan], np.float32)], [-1]

    def note(first: int, logits: torch.Tensor) -> None:
        logprobs.append(logprobs_of(logits, ids[first + 1 : first + 1 + len(logits)]))
        greedy.extend(logits.argmax(-1).tolist())

    def progress(value: int, most: int) -> None:
        hooks.send({"type": "progress", "phase": "score", "value": value, "max": most, "text": ""})

    if isinstance(state, PressPass):
        state.open()
        try:
            note(0, reader.read(ids[:prompt_len]))
            for position in range(prompt_len, len(ids)):
                note(position, reader.read(ids[position : position + 1]))
        finally:
            state.close()
    else:
        for first, logits in reader.read_all(ids, progress=progress):
            note(first, logits)
    return np.concatenate(logprobs)[: len(ids)], greedy[: len(ids)]


class _Listen(RulePass):
    """A full cache beside which every method says its scores."""

    def __init__(self, model: Model, scorers: list[Scorer], n: int, cancelled: Callable[[], bool] = never):
        rule = LifetimeRule(
            "full", Geometry(0, n + 1, 0), model.n_layers, model.n_kv_heads, n, [layer.window for layer in model.layers]
        )
        super().__init__(model, rule, None, cancelled)
        self.scorers = scorers
        self.values = np.full((len(scorers), model.n_layers, model.n_kv_heads, n), np.nan, np.float32)

    def attend(self, call: Call) -> torch.Tensor:
        layer = self.layer(call)
        q_pos, k_pos = self.positions(call)
        n = call.q.shape[1]
        for i, scorer in enumerate(self.scorers):
            self.scorer = scorer
            found = self.scores(call, layer, q_pos)
            if found is not None:
                self.values[i, layer.index, :, self.start : self.start + n] = found
        return call.attend(q_pos, k_pos)


def method_scores(message: dict, model: Model, catalog: Catalog, hooks: Hooks) -> dict:
    """The fields of `done` of a `gate_scores` request: what the session's first method says of a text under a full
    cache. It is the one whose scores `top-k` and `threshold` read."""
    ids = read_i32(message, "ids").tolist()
    check_ids(ids, model, "gate_scores")
    methods = catalog.methods[:1]
    scorers = [method.make({}, model.model) for method in methods]
    listen = _Listen(model, scorers, len(ids), hooks.cancelled)
    listen.scorer = next((scorer for scorer in scorers if "hidden" in scorer.inputs), None)
    for _ in Reader(model, listen).read_all(ids, "last"):
        pass
    return {
        "n_tokens": len(ids),
        "scorers": [
            {
                "kind": "python",
                "delay": 0,
                "text": f"{method.policy.title}, in Python",
                "name": method.policy.name,
                "log_gamma": b"",
                "scores": f32(values),
            }
            for method, values in zip(methods, listen.values)
        ],
    }
