"""The methods that KVScope and kvpress both have: the press, our policies, and why their choices differ."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import kvpress
import numpy as np
from kvpress.presses.kvzap_press import KVzapModel

KVZAP_WINDOW, SINKS = 32, 4
ZAP = """
import os
from safetensors.torch import load_file


class Linear:
    "A linear KVzap as a method of one's own."

    rule = "threshold"

    def start(self, model):
        self.weights = load_file(os.path.join(os.environ["KVZAP_FOLDER"], "model.safetensors"))

    def score(self, layer, hidden):
        return (hidden @ self.weights[f"layers.{layer}.weight"].T + self.weights[f"layers.{layer}.bias"]).T
"""


@dataclass(frozen=True)
class Setting:
    """One comparison: a prompt of n tokens, a budget in tokens, and the folder of a gate."""

    n: int
    budget: int
    folder: Path | None = None
    threshold: float = 0.0
    alpha: np.ndarray | None = None

    @property
    def ratio(self) -> float:
        """kvpress' compression ratio that leaves `budget` tokens."""
        return 1 - self.budget / self.n


@dataclass(frozen=True)
class Case:
    """A method. engine and python are policies with fields that policy() fills; empty: that engine cannot run it.

    from_first_answer: what is kept counts at the first query of the answer, when all that is evicted after the prompt
    has gone. If false, it counts at the last query of the prompt, for policies that evict at each query.
    """

    title: str
    press: Callable[[Setting], Any]
    press_text: str
    engine: str
    python: str
    reason: str
    from_first_answer: bool = True
    attention: str = "sdpa"
    gate: str = ""

    def policy(self, text: str, at: Setting) -> str:
        return text.format(
            budget=at.budget,
            window=at.budget - SINKS,
            ratio=at.ratio,
            threshold=at.threshold,
            zap_window=KVZAP_WINDOW,
            next_window=KVZAP_WINDOW + 1,
        )


class DuoFolder(kvpress.DuoAttentionPress):
    """kvpress reads DuoAttention's patterns from a URL, of six models. This one is handed its table."""

    def __init__(self, alpha: np.ndarray, sinks: int, recent: int):
        super().__init__(head_compression_ratio=0.5)
        self._pattern = sinks, recent, alpha

    def load_attention_pattern(self, model: Any) -> tuple[int, int, np.ndarray]:  # type: ignore[override]
        return self._pattern


def _kvzap(at: Setting) -> Any:
    class Local(kvpress.KVzapPress):
        def post_init_from_model(self, model: Any) -> None:
            self.kvzap_model = KVzapModel.from_pretrained(at.folder)

    return kvpress.DMSPress(Local(model_type="linear"), threshold=at.threshold, sliding_window_size=KVZAP_WINDOW)


CASES = (
    Case(
        "StreamingLLM",
        lambda at: kvpress.StreamingLLMPress(at.ratio, SINKS),
        "StreamingLLMPress",
        "streaming:sinks=4,window={window}",
        "streaming:sinks=4,window={window}",
        "Same rule at the last query of the prompt. At the next query KVScope's window has moved on by one token. "
        "kvpress compresses once, and its cache then grows.",
        from_first_answer=False,
    ),
    Case(
        "SnapKV",
        lambda at: kvpress.SnapKVPress(at.ratio),
        "SnapKVPress",
        "snapkv:budget={budget}",
        "hf.kvpress.SnapKVPress:compression_ratio={ratio}",
        "Same rule: the attention of the last 64 queries, its mean over queries, over 5 neighbours and over the query "
        "heads of a group (`snapkv_press.py`; `engine/decode/eviction/observed_attention.cpp`).",
    ),
    Case(
        "TOVA",
        lambda at: kvpress.TOVAPress(at.ratio),
        "TOVAPress",
        "tova:budget={budget},protect=1",
        "hf.kvpress.TOVAPress:compression_ratio={ratio}",
        "Same rule with `protect=1`: kvpress always keeps the newest token (`tova_press.py`). The paper, and KVScope "
        "by default, may evict it.",
    ),
    Case(
        "Expected Attention",
        lambda at: kvpress.ExpectedAttentionPress(at.ratio),
        "ExpectedAttentionPress",
        "expected-attention:budget={budget},interval=0",
        "hf.kvpress.ExpectedAttentionPress:compression_ratio={ratio}",
        "Same rule with `interval=0`, which compresses once, after the prompt.",
    ),
    Case(
        "H2O, observed attention",
        lambda at: kvpress.ObservedAttentionPress(at.ratio),
        "ObservedAttentionPress",
        "h2o:budget={budget},window=1,normalise=mean",
        "hf.kvpress.ObservedAttentionPress:compression_ratio={ratio}",
        "Same rule with `normalise=mean`: kvpress divides the attention that a token received by the number of queries "
        "that could see the token (`observed_attention_press.py`). The H2O paper, and KVScope by default, add it up. "
        "KVScope also keeps the newest token always. The second row compares with kvpress' scores, the newest token "
        "kept.",
        attention="eager",
    ),
    Case(
        "Key norm",
        lambda at: kvpress.KnormPress(at.ratio),
        "KnormPress",
        "top-k:budget={budget},sinks=0,window=1",
        "hf.knorm:budget={budget},sinks=0,window=1",
        "Same score, another moment. KVScope's rule acts at every query of the prompt, so from layer 1 on the keys "
        "are those of a model that has already lost tokens. kvpress reads the prompt with a full cache and evicts "
        "after it. KVScope also keeps the newest token, its window. The second row undoes both: layer 0, whose keys "
        "no eviction changes, with the newest token kept.",
        from_first_answer=False,
        gate="knorm",
    ),
    Case(
        "KeyDiff",
        lambda at: kvpress.KeyDiffPress(at.ratio),
        "KeyDiffPress",
        "top-k:budget={budget},sinks=0,window=1",
        "hf.keydiff:budget={budget},sinks=0,window=1",
        "Another anchor. KVScope scores a token when it arrives, against the mean of the keys up to it. kvpress scores "
        "all tokens after the prompt, against the mean of all its keys (`keydiff_press.py`). The rest of the difference "
        "is that of the key norm.",
        from_first_answer=False,
        gate="keydiff",
    ),
    Case(
        "KVzap",
        _kvzap,
        "DMSPress(KVzapPress)",
        "kvzap:threshold={threshold},window={next_window},prefill=dense",
        "my.Linear:threshold={threshold},sinks=0,window={next_window}",
        "Same rule with `prefill=dense`: kvpress reads the prompt with a full cache (`dms_press.py` calls this dense "
        "prefill). What is kept counts at the first query of the answer, so the window is one token larger than that of "
        "kvpress. The rules of the Python engine evict while they read the prompt. So there layer 0 is the same, and the "
        "layers above it have other scores.",
        gate="kvzap",
    ),
    Case(
        "DuoAttention",
        lambda at: DuoFolder(at.alpha, SINKS, at.budget - SINKS),  # type: ignore[arg-type]
        "DuoAttentionPress",
        "duo:full=0.5",
        "",
        "Same rule at the last query of the prompt. The budget is that of a local head; the other half of the heads "
        "keep all tokens. The press of kvpress reads its table from a URL, so here it is handed ours, and the Python "
        "engine does not run it.",
        from_first_answer=False,
        gate="duo",
    ),
)
