"""Attention of one layer, in blocks of queries, and the hook through which a model's layers arrive here.

transformers calls the function that is registered as "kvscope" for every attention layer of a model that was loaded
with `attn_implementation="kvscope"`. What happens then is up to the observer that is active: see `observe()`. Without
one the layer gets plain causal attention.

For query head h of KV head g, query q, key t:

    z(q, t) = cap(scale q . k_t)        cap(x) = c tanh(x / c) if the model has a soft cap
    p(q, t) = exp(z(q, t)) / (exp(sink_h) + sum over visible t of exp z(q, t))       without sinks: no exp(sink_h)
    visible(q, t)  <=>  t <= q < evict_at[g, t]  and  q - t < window of the layer, if it has one

Memory: one block of queries against all keys, at most BLOCK_NUMBERS numbers. Nothing of size S x S exists.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import torch

NAME = "kvscope"
BLOCK_NUMBERS = {"cpu": 1 << 22, "cuda": 1 << 27}
"""Most numbers (query heads x queries x keys) of a block's logits: what a CPU's caches like, 512 MB in float32 on a
GPU."""


@dataclass
class Scores:
    """How a layer makes its logits. `sinks` [H] is an extra logit of each query head, `window` 0 means none."""

    scale: float
    window: int = 0
    softcap: float = 0.0
    sinks: torch.Tensor | None = None


@dataclass
class Block:
    """A block of queries, for those that look at attention itself.

    logits [Hk, G, n, m] float32 of all causal keys in the layer's window (others -inf), `first` the row of the block's
    first query among all queries of the call, q_pos [n], seen [Hk or 1, n, m] bool: keys that the query may see.
    lse [Hk, G, n] of what is seen, sink included; p [Hk, G, n, m] over what is seen; o [Hk, G, n, Dv].
    """

    first: int
    logits: torch.Tensor
    q_pos: torch.Tensor
    seen: torch.Tensor
    lse: torch.Tensor
    p: torch.Tensor
    o: torch.Tensor


def log_sum_exp(logits: torch.Tensor, sinks: torch.Tensor | None) -> torch.Tensor:
    """[Hk, G, n] over keys, with the sink [Hk, G] if there is one. -inf over nothing."""
    lse = logits.logsumexp(-1)
    return lse if sinks is None else torch.logaddexp(lse, sinks.unsqueeze(-1).expand_as(lse))


@dataclass
class Call:
    """What an attention layer hands over: batch of one. q [H, n, D], k [Hk, m, D], v [Hk, m, Dv], after RoPE; H is a
    multiple of Hk."""

    module: torch.nn.Module
    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    scores: Scores

    def attend(
        self,
        q_pos: torch.Tensor,
        k_pos: torch.Tensor,
        evict_at: torch.Tensor | None = None,
        hidden: torch.Tensor | None = None,
        visit: Callable[[Block], None] | None = None,
    ) -> torch.Tensor:
        """Attention of n queries over m keys.

        q_pos [n] and k_pos [m] or [Hk, m] are positions in the text. evict_at [Hk, m]: the first query position that
        cannot see the key; None: none leaves. hidden [Hk, m] bool: keys that no query sees. visit is called for every
        block. Returns [H, n, Dv] in q's dtype.
        """
        q, k, v, scores = self.q, self.k, self.v, self.scores
        n_heads, n, _ = q.shape
        n_kv, m, dim_v = v.shape
        group = n_heads // n_kv
        keys, values = k.float(), v.float()
        grouped = q.reshape(n_kv, group, n, -1)
        sinks = None if scores.sinks is None else scores.sinks.float().reshape(n_kv, group)
        k_pos = k_pos.reshape(1, 1, m) if k_pos.dim() == 1 else k_pos.reshape(n_kv, 1, m)
        out = torch.empty((n_kv, group, n, dim_v), dtype=q.dtype, device=q.device)
        most = BLOCK_NUMBERS.get(q.device.type, BLOCK_NUMBERS["cpu"])
        rows = max(1, min(n, most // max(1, n_heads * m)))
        fused = visit is None and sinks is None and not scores.softcap and not q.requires_grad
        for first in range(0, n, rows):
            at = q_pos[first : first + rows].reshape(1, -1, 1)
            causal = k_pos <= at
            if scores.window:
                causal = causal & (at - k_pos < scores.window)
            seen = causal
            if evict_at is not None:
                seen = seen & (at < evict_at.unsqueeze(1))
            if hidden is not None:
                seen = seen & ~hidden.unsqueeze(1)
            if fused:
                rows_q = grouped[:, :, first : first + rows]
                mask = seen.expand(n_kv, -1, -1).unsqueeze(1).expand(-1, group, -1, -1).reshape(1, n_kv, -1, m)
                o = torch.nn.functional.scaled_dot_product_attention(
                    rows_q.reshape(1, n_kv, -1, rows_q.shape[-1]).float(),
                    keys[None],
                    values[None],
                    mask,
                    scale=scores.scale,
                )
                out[:, :, first : first + rows] = o.nan_to_num(0.0).reshape(n_kv, group, -1, dim_v)
                continue
            logits = torch.matmul(grouped[:, :, first : first + rows].float(), keys.unsqueeze(1).transpose(-1, -2))
            logits = logits * scores.scale
            if scores.softcap:
                logits = torch.tanh(logits / scores.softcap) * scores.softcap
            visible = logits.masked_fill(~seen.unsqueeze(1), -torch.inf)
            lse = log_sum_exp(visible, sinks)
            p = torch.exp(visible - lse.unsqueeze(-1)).nan_to_num(0.0)  # a query that sees nothing gets nothing
            o = torch.matmul(p, values.unsqueeze(1))
            out[:, :, first : first + rows] = o
            if visit is not None:
                visit(
                    Block(first, logits.masked_fill(~causal.unsqueeze(1), -torch.inf), at.reshape(-1), seen, lse, p, o)
                )
        return out.reshape(n_heads, n, dim_v)


class Observer(Protocol):
    """What becomes of a layer's attention. Returns the output [H, n, Dv], and attention weights if some are wanted."""

    def attend(self, call: Call) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]: ...


_active: list[Observer] = []


@contextlib.contextmanager
def observe(observer: Observer) -> Iterator[None]:
    """Every attention layer that runs within goes to this observer. Observers nest; the last one is asked."""
    _active.append(observer)
    try:
        yield
    finally:
        _active.pop()


class Plain:
    """Causal attention of a full cache, whose last row is the last query's own."""

    def attend(self, call: Call) -> torch.Tensor:
        n, m = call.q.shape[1], call.k.shape[1]
        k_pos = torch.arange(m, device=call.q.device)
        return call.attend(k_pos[m - n :], k_pos)


def _forward(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: Any,
    dropout: float = 0.0,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, Any]:
    """The function of transformers' AttentionInterface: [1, H, n, D] -> [1, n, H, Dv] and weights or None."""
    if query.shape[0] != 1:
        raise ValueError("kvscope looks at one text at a time: expected a batch of 1")
    window = kwargs.get("sliding_window") or 0
    sinks = kwargs.get("s_aux")
    scores = Scores(
        scale=query.shape[-1] ** -0.5 if scaling is None else float(scaling),
        window=int(window),
        softcap=float(kwargs.get("softcap") or 0.0),
        sinks=sinks,
    )
    call = Call(module, query[0], key[0], value[0], scores)
    out = (_active[-1] if _active else Plain()).attend(call)
    output, weights = out if isinstance(out, tuple) else (out, None)
    return output.transpose(0, 1).unsqueeze(0).contiguous(), weights


def register() -> None:
    """Makes attn_implementation="kvscope" known to transformers. May be called again."""
    from transformers import AttentionInterface

    AttentionInterface.register(NAME, _forward)
