"""Scores that need no training. Each is a method as a user would write it: higher is kept."""

from __future__ import annotations

import torch


def knorm(keys: torch.Tensor) -> torch.Tensor:
    """A key of small norm is kept (Devoto et al., 2024): score = -|k|."""
    return -keys.float().norm(dim=-1)


def vnorm(values: torch.Tensor) -> torch.Tensor:
    """A value of large norm is kept: score = |v|."""
    return values.float().norm(dim=-1)


def keydiff(keys: torch.Tensor, keys_so_far: torch.Tensor) -> torch.Tensor:
    """A key unlike the others is kept (KeyDiff): score = -cos(k, mean of all normalised keys read before and with
    it)."""
    unit = torch.nn.functional.normalize(keys_so_far.float(), dim=-1)
    n = keys.shape[1]
    count = torch.arange(1, unit.shape[1] + 1, device=unit.device).reshape(1, -1, 1)
    mean = (unit.cumsum(1) / count)[:, -n:]
    return -torch.nn.functional.cosine_similarity(keys.float(), mean, dim=-1)


def recency(positions: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
    """The newer token is kept: score = position."""
    return positions.float().expand(keys.shape[0], -1)
