"""From logits to the next token, as KVScope's own engine does it: the same seed draws the same tokens.

    l_i <- l_i / r if l_i >= 0, else l_i r     repetition penalty r, for every id of prompt and answer
    l_i <- l_i / temperature
    top_k   keeps the k greatest, and all that equal the last of them
    top_p   of these the fewest, greatest first, whose softmax probabilities reach p; of equal ones the lower ids
    min_p   of these the ones whose probability is at least p times the greatest

and then a draw from the softmax of what is left. Temperature 0: the greatest l, of equal ones the lower id.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .errors import KvscopeError, usage

_MASK = (1 << 64) - 1


class Mersenne64:
    """mt19937_64 (Matsumoto and Nishimura), as the C++ standard fixes it."""

    _N, _M = 312, 156

    def __init__(self, seed: int):
        state = [seed & _MASK]
        for i in range(1, self._N):
            last = state[-1]
            state.append((6364136223846793005 * (last ^ (last >> 62)) + i) & _MASK)
        self._state, self._at = state, self._N

    def _twist(self) -> None:
        state, n, m = self._state, self._N, self._M
        for i in range(n):
            x = (state[i] & 0xFFFFFFFF80000000) | (state[(i + 1) % n] & 0x7FFFFFFF)
            state[i] = state[(i + m) % n] ^ (x >> 1) ^ (0xB5026F5AA96619E9 if x & 1 else 0)
        self._at = 0

    def next(self) -> int:
        """64 random bits."""
        if self._at == self._N:
            self._twist()
        x = self._state[self._at]
        self._at += 1
        x ^= (x >> 29) & 0x5555555555555555
        x ^= (x << 17) & 0x71D67FFFEDA60000
        x ^= (x << 37) & 0xFFF7EEE000000000
        return x ^ (x >> 43)

    def unit(self) -> float:
        """A number in [0, 1) of 53 random bits."""
        return (self.next() >> 11) * 2.0**-53


@dataclass(frozen=True)
class SamplingSpec:
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    seed: int = 0

    @staticmethod
    def of(message: dict) -> "SamplingSpec":
        """From a request. Raises KvscopeError for a value out of range."""
        ranges = {
            "temperature": (0, 100),
            "top_k": (0, 1 << 24),
            "top_p": (0, 1),
            "min_p": (0, 1),
            "repetition_penalty": (0.01, 100),
            "seed": (0, _MASK),
        }
        values = {}
        for name, (low, high) in ranges.items():
            value = message.get(name, getattr(SamplingSpec, name))
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
                raise usage(str(value), file="sampling", where=name, expected=f"{low} to {high}")
            values[name] = int(value) if name in ("top_k", "seed") else float(value)
        return SamplingSpec(**values)  # type: ignore[arg-type]


class Sampler:
    """Draws the tokens of one answer."""

    def __init__(self, spec: SamplingSpec):
        self.spec, self._random = spec, Mersenne64(spec.seed)

    def next(self, logits: np.ndarray, so_far: Sequence[int] = ()) -> int:
        """The next token's id. logits: [vocabulary] float32. Raises KvscopeError if no logit is a number."""
        scores = self._penalised(np.asarray(logits, np.float32), so_far)
        if not np.isfinite(scores).any():
            raise KvscopeError("logits without a finite number", file="model")
        scores = np.where(np.isnan(scores), np.float32(-np.inf), scores)
        if self.spec.temperature == 0:
            return int(scores.argmax())
        ids, weights = self.candidates(scores)
        left = self._random.unit() * float(weights.sum(dtype=np.float64))
        sums = np.cumsum(weights, dtype=np.float64)
        return int(ids[min(int(np.searchsorted(sums, left, side="right")), len(ids) - 1)])

    def candidates(self, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Ids, ascending, and their weights: the probability is the weight over the sum. Temperature above 0."""
        spec = self.spec
        temperature = np.float32(max(spec.temperature, 1e-30))
        with np.errstate(over="ignore", under="ignore"):
            weights = np.exp((scores - scores.max()) / temperature, dtype=np.float32)
        weights[weights < 1.7e-38] = 0
        kept = weights > 0
        if 0 < spec.top_k < len(scores):
            kept &= scores >= np.partition(scores, -spec.top_k)[-spec.top_k]
        ids = np.flatnonzero(kept)
        if spec.top_p < 1:
            ids = self._top_p(ids, scores, weights)
        if spec.min_p > 0:
            ids = ids[weights[ids] >= np.float32(spec.min_p)]
        return ids, weights[ids]

    def _top_p(self, ids: np.ndarray, scores: np.ndarray, weights: np.ndarray) -> np.ndarray:
        order = ids[np.lexsort((ids, -scores[ids]))]
        mass = np.cumsum(weights[order], dtype=np.float64)
        n = int(np.searchsorted(mass, self.spec.top_p * mass[-1], side="left")) + 1
        return np.sort(order[: max(1, n)])

    def _penalised(self, logits: np.ndarray, so_far: Sequence[int]) -> np.ndarray:
        penalty = np.float32(self.spec.repetition_penalty)
        if penalty == 1 or len(so_far) == 0:
            return logits
        seen = np.unique(np.asarray(so_far, np.int64))
        seen = seen[(seen >= 0) & (seen < len(logits))]
        logits = logits.copy()
        logits[seen] = np.where(logits[seen] < 0, logits[seen] * penalty, logits[seen] / penalty)
        return logits
