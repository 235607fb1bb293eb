"""Kept sets against each other, head by head."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Overlap:
    """Of all heads and prompts. A head's overlap: tokens that both keep, divided by the mean number that each keeps.

    gap: of tokens that only one of the two keeps, the greatest relative difference of kvpress' scores; NaN without any.
    """

    mean: float
    least: float
    identical: int
    heads: int
    gap: float

    @property
    def all(self) -> bool:
        return self.identical == self.heads


def _gap(scores: np.ndarray, ours: np.ndarray, theirs: np.ndarray) -> float:
    """Of one head: [tokens] each."""
    added, missing = scores[ours & ~theirs], scores[theirs & ~ours]
    if len(added) == 0 or len(missing) == 0:
        return np.inf if len(added) != len(missing) else 0.0
    return float(abs(missing.max() - added.min()) / max(abs(missing.max()), 1e-30))


def overlap(ours: np.ndarray, theirs: np.ndarray, scores: np.ndarray | None = None) -> Overlap:
    """ours, theirs: [prompts, layers, KV heads, tokens] bool. scores: the same shape, kvpress'."""
    both = (ours & theirs).sum(-1)
    share = both / np.maximum((ours.sum(-1) + theirs.sum(-1)) / 2, 1e-9)
    same = (ours == theirs).all(-1)
    gaps = [_gap(scores[at], ours[at], theirs[at]) for at in zip(*np.nonzero(~same))] if scores is not None else []
    return Overlap(
        float(share.mean()),
        float(share.min()),
        int(same.sum()),
        same.size,
        max(gaps, default=np.nan),
    )


def stack(sets: Sequence[np.ndarray | None]) -> np.ndarray | None:
    """[prompts, ...], or None if one is missing."""
    found = [rows for rows in sets if rows is not None]
    return np.stack(found) if found and len(found) == len(sets) else None
