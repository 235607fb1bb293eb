"""What eviction did to the output of each layer's attention.

One more pass reads the tokens under the recorded lifetimes. Every layer passes on the output that it had in the run, so
queries, keys and values are the run's. Beside it each query attends to what it had lost:

    d_h = o_full,h - o_kept,h      D_g = sum over h in g of d_h W_o^h      D = sum over g of D_g
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch

from .attention import Block, Call, log_sum_exp
from .errors import KvscopeError
from .models import Model
from .passes import Pass, Reader, never
from .wire import f32


class Damage(Pass):
    """The norms [layers, KV heads, n] of D_g and [layers, n] of D and of o_full W_o. NaN where nothing is lost."""

    def __init__(self, model: Model, evict_at: np.ndarray, n: int, cancelled: Callable[[], bool] = never):
        super().__init__(model, cancelled)
        if not model.can_measure_output_error:
            raise KvscopeError(
                "no output projection that can be read",
                file=model.info["architecture"],
                where="output error",
                expected="attention layers that all end in a plain matrix o_proj",
            )
        self._gone = evict_at
        self.group = np.full((model.n_layers, model.n_kv_heads, n), np.nan, np.float32)
        self.layer_damage = np.full((model.n_layers, n), np.nan, np.float32)
        self.output = np.full((model.n_layers, n), np.nan, np.float32)

    def attend(self, call: Call) -> torch.Tensor:
        layer = self.layer(call)
        q_pos, k_pos = self.positions(call)
        assert layer.output is not None
        weight = layer.output.float().reshape(-1, layer.n_heads, layer.value_dim)  # [hidden, H, Dv]
        first_key = int(k_pos[0])
        gone = torch.as_tensor(self._gone[layer.index, :, first_key : first_key + len(k_pos)]).to(call.q.device)
        return call.attend(
            q_pos,
            k_pos,
            None if layer.window else gone,
            visit=lambda block: self._note(block, call, layer.index, weight),
        )

    def _note(self, block: Block, call: Call, layer: int, weight: torch.Tensor) -> None:
        n_kv, group, n, _ = block.o.shape
        sinks = call.scores.sinks
        lse = log_sum_exp(block.logits, None if sinks is None else sinks.float().reshape(n_kv, group))
        full = torch.matmul(torch.exp(block.logits - lse.unsqueeze(-1)), call.v.float().unsqueeze(1))
        weight = weight.reshape(weight.shape[0], n_kv, group, -1)
        parts = torch.einsum("ogkd,gknd->gno", weight, full - block.o)
        whole = torch.einsum("ogkd,gknd->no", weight, full)
        lost = ((block.logits > -torch.inf).any(1) & ~block.seen).any(-1)  # [Hk, n]
        rows = slice(self.start + block.first, self.start + block.first + n)
        none = torch.tensor(torch.nan, device=parts.device)
        self.group[layer, :, rows] = torch.where(lost, parts.norm(dim=-1), none).cpu().numpy()
        self.layer_damage[layer, rows] = torch.where(lost.any(0), parts.sum(0).norm(dim=-1), none).cpu().numpy()
        self.output[layer, rows] = whole.norm(dim=-1).cpu().numpy()


def output_error_event(
    model: Model, ids: Sequence[int], evict_at: np.ndarray, cancelled: Callable[[], bool] = never
) -> dict:
    """The `output_error` event of these tokens, without its id. Raises Cancelled, or KvscopeError for a model whose
    output projection cannot be read."""
    damage = Damage(model, evict_at, len(ids), cancelled)
    for _ in Reader(model, damage).read_all(ids, "last"):
        pass
    nothing = f32(np.full_like(damage.group, np.nan))  # pages are read by no policy here
    return {
        "type": "output_error",
        "n_queries": len(ids),
        "group_damage": f32(damage.group),
        "layer_damage": f32(damage.layer_damage),
        "layer_output": f32(damage.output),
        "read_mass": nothing,
        "best_read_mass": nothing,
    }
