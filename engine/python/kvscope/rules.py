"""Lifetimes of every head from scores: full cache, streaming, threshold, running top-k.

evict_at[layer, head, token] is the first query that cannot see the token. The window of query q is t > q - window, so
token t leaves it at q = t + window, and it is then that its fate is decided:

    full        it stays
    streaming   it goes, unless it is a sink (t < sinks)
    threshold   it stays if score >= threshold; a NaN goes
    top_k       while fewer than k are kept it stays; then it meets the weakest of the kept, and the lower score goes.
                Of equal scores the older token stays; a NaN is the lowest of all
"""

from __future__ import annotations

import heapq
import math
from array import array
from dataclasses import dataclass

import numpy as np

from .policies import DEFAULT_WINDOW, PolicySpec
from .policy_text import check_budget
from .wire import NEVER


@dataclass
class Geometry:
    """What a head always keeps: sinks and the newest `window` tokens; `top_k` places for the others."""

    sinks: int
    window: int
    top_k: int

    @staticmethod
    def of(spec: PolicySpec, n_positions: int) -> "Geometry":
        """Raises KvscopeError for a budget that has no room for sinks and window."""
        sinks = spec.tokens("sinks", n_positions)
        window = spec.tokens("window", n_positions, DEFAULT_WINDOW)
        if spec.policy.budget:
            return Geometry(sinks, window, check_budget(spec, n_positions, sinks, window))
        return Geometry(sinks, window, 0 if spec.policy.name == "streaming" else max(0, n_positions - sinks - window))


class Facts:
    """What has happened since the last step was sent, in the order of the wire."""

    def __init__(self) -> None:
        self.lifetimes = array("i")  # layer, head, token, evict_at
        self.score_index = array("i")  # layer, head, token
        self.score_value = array("f")
        self.contests = array("i")  # q, layer, head, newcomer, boundary, evicted
        self.contest_scores = array("f")  # newcomer, boundary

    def lose(self, layer: int, head: int, token: int, q: int) -> None:
        self.lifetimes.extend((layer, head, token, q))

    def note_scores(self, layer: int, first: int, scores: np.ndarray) -> None:
        """scores [Hk, n] of tokens first ..."""
        n_kv, n = scores.shape
        index = np.empty((n_kv, n, 3), np.int32)
        index[..., 0] = layer
        index[..., 1] = np.arange(n_kv)[:, None]
        index[..., 2] = np.arange(first, first + n)
        self.score_index.frombytes(index.tobytes())
        self.score_value.frombytes(np.ascontiguousarray(scores, np.float32).tobytes())

    def fields(self, first_scores: int = 0, n_scores: int | None = None) -> dict:
        """All of it as the fields of a step."""
        contests = np.asarray(self.contests, np.int32).reshape(-1, 6)
        bits = np.asarray(self.contest_scores, np.float32).view(np.int32).reshape(-1, 2)
        return {
            "lifetimes": self.lifetimes.tobytes(),
            "score_index": self.score_index.tobytes(),
            "score_value": self.score_value.tobytes(),
            "contests": np.concatenate([contests, bits], axis=1).astype("<i4").tobytes(),
        }

    def size(self) -> int:
        """Numbers that it holds."""
        return len(self.lifetimes) + len(self.score_index) + len(self.contests)


class LifetimeRule:
    """The rule of all heads of a run, with what it remembers.

    kind: "full", "streaming", "threshold" or "top_k". windows [n_layers]: of layers that are local by design, 0 for the
    others; no rule acts there, and a token leaves such a layer's window for good. chunk: decisions take effect at the
    next query that is a multiple of it.
    """

    def __init__(
        self,
        kind: str,
        geometry: Geometry,
        n_layers: int,
        n_kv_heads: int,
        n_positions: int,
        windows: list[int] | None = None,
        threshold: float = 0.0,
        chunk: int = 1,
    ):
        self.kind, self.geometry, self.threshold, self.chunk = kind, geometry, threshold, max(1, chunk)
        self.windows = windows or [0] * n_layers
        self.n_positions = n_positions
        self.evict_at = np.full((n_layers, n_kv_heads, n_positions), NEVER, np.int32)
        self.scores = np.full((n_layers, n_kv_heads, n_positions), np.nan, np.float32)
        self._heaps: list[list[list[tuple[float, int]]]] = [[[] for _ in range(n_kv_heads)] for _ in range(n_layers)]
        self.facts = Facts()

    @property
    def needs_scores(self) -> bool:
        return self.kind in ("threshold", "top_k")

    def take_facts(self) -> Facts:
        facts, self.facts = self.facts, Facts()
        return facts

    def absorb(self, layer: int, first: int, n: int, scores: np.ndarray | None) -> None:
        """Queries first ... first + n - 1 of a layer begin. scores [Hk, n] of the tokens at these positions."""
        if self.windows[layer]:
            self._drop(layer, first, n, self.windows[layer], 0)
            return
        if scores is not None:
            self.scores[layer, :, first : first + n] = scores
            self.facts.note_scores(layer, first, scores)
        window, sinks = self.geometry.window, self.geometry.sinks
        if self.kind == "streaming" or (self.kind == "top_k" and self.geometry.top_k == 0):
            self._drop(layer, first, n, window, sinks)
        elif self.kind == "threshold":
            begin, end = max(sinks, first - window), max(sinks, first + n - window)
            heads, tokens = np.nonzero(~(self.scores[layer, :, begin:end] >= np.float32(self.threshold)))
            self._lose_all(layer, heads, tokens + begin, tokens + begin + window)
        elif self.kind == "top_k":
            begin, end = max(sinks, first - window), max(sinks, first + n - window)
            for head in range(self.evict_at.shape[1] if end > begin else 0):
                self._contests(layer, head, begin, end)

    def _effective(self, q: int) -> int:
        """The first query at which a decision of query q takes effect."""
        at = -(-q // self.chunk) * self.chunk
        return at if at <= self.n_positions else NEVER

    def _lose_all(self, layer: int, heads: np.ndarray, tokens: np.ndarray, queries: np.ndarray) -> None:
        at = -(-queries // self.chunk) * self.chunk
        kept = at <= self.n_positions
        heads, tokens, at = heads[kept], tokens[kept], at[kept]
        self.evict_at[layer, heads, tokens] = at
        rows = np.stack([np.full_like(heads, layer), heads, tokens, at], axis=1).astype(np.int32)
        self.facts.lifetimes.frombytes(rows.tobytes())

    def _drop(self, layer: int, first: int, n: int, window: int, sinks: int) -> None:
        tokens = np.arange(max(sinks, first - window, 0), max(sinks, first + n - window, 0))
        heads = np.repeat(np.arange(self.evict_at.shape[1]), len(tokens))
        tokens = np.tile(tokens, self.evict_at.shape[1])
        self._lose_all(layer, heads, tokens, tokens + window)

    def _contests(self, layer: int, head: int, begin: int, end: int) -> None:
        heap, k, window = self._heaps[layer][head], self.geometry.top_k, self.geometry.window
        facts, row = self.facts, self.evict_at[layer, head]
        for t, score in enumerate(self.scores[layer, head, begin:end].tolist(), begin):
            if math.isnan(score):
                score = -math.inf
            if len(heap) < k:
                heapq.heappush(heap, (score, -t))
                continue
            weakest, boundary = heap[0][0], -heap[0][1]
            evicted = t
            if score > weakest:
                heapq.heapreplace(heap, (score, -t))
                evicted = boundary
            q = t + window
            facts.contests.extend((q, layer, head, t, boundary, evicted))
            facts.contest_scores.extend((score, weakest))
            at = self._effective(q)
            if at != NEVER:
                row[evicted] = at
                facts.lose(layer, head, evicted, at)

    def change(self, geometry: Geometry, threshold: float, q: int) -> None:
        """Other parameters from query q on. A smaller budget evicts the weakest at once."""
        self.geometry, self.threshold = geometry, threshold
        if self.kind != "top_k":
            return
        for layer, heaps in enumerate(self._heaps):
            for head, heap in enumerate(heaps):
                while len(heap) > geometry.top_k:
                    token = -heapq.heappop(heap)[1]
                    self.evict_at[layer, head, token] = q
                    self.facts.lose(layer, head, token, q)
