"""What chosen tokens get from every query of a full cache, in one layer."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from .attention import Block, Call
from .errors import KvscopeError, usage
from .models import Model
from .passes import Pass, Reader, never
from .request import check_ids
from .wire import f32, i32, read_i32

MOST_TOKENS = 16


class _Enough(Exception):
    """The layer has been read: the layers above it are not needed."""


class Columns(Pass):
    """[tokens, query heads, n] probability of the chosen tokens in one layer. NaN before a token."""

    def __init__(self, model: Model, layer: int, tokens: list[int], n: int, cancelled: Callable[[], bool] = never):
        super().__init__(model, cancelled)
        self.wanted, self.tokens, self.n = layer, tokens, n
        self.probability = np.full((len(tokens), model.layers[layer].n_heads, n), np.nan, np.float32)

    def attend(self, call: Call) -> torch.Tensor:
        layer = self.layer(call)
        q_pos, k_pos = self.positions(call)
        wanted = layer.index == self.wanted
        out = call.attend(q_pos, k_pos, visit=(lambda block: self._note(block, int(k_pos[0]))) if wanted else None)
        if wanted:
            raise _Enough
        return out

    def _note(self, block: Block, first_key: int) -> None:
        p = block.p.flatten(0, 1)  # [H, n, m]
        begin = self.start + block.first
        for i, token in enumerate(self.tokens):
            inside = max(0, token - begin)
            if inside >= p.shape[1]:
                continue
            column = p[:, inside:, token - first_key] if token >= first_key else torch.zeros_like(p[:, inside:, 0])
            self.probability[i, :, begin + inside : begin + p.shape[1]] = column.cpu().numpy()


def token_attention(message: dict, model: Model, cancelled: Callable[[], bool] = never) -> dict:
    """The fields of `done` of an `attention` request. Raises KvscopeError for a token or layer that is not there."""
    ids, tokens = read_i32(message, "ids").tolist(), read_i32(message, "tokens").tolist()
    layer = message.get("layer")
    check_ids(ids, model, "attention")
    if not isinstance(layer, int) or not 0 <= layer < model.n_layers:
        raise usage(str(layer), file="attention", where="layer", expected=f"0 to {model.n_layers - 1}")
    if not 1 <= len(tokens) <= MOST_TOKENS or len(set(tokens)) != len(tokens):
        raise usage(
            f"{len(tokens)} tokens", file="attention", where="tokens", expected=f"1 to {MOST_TOKENS}, each once"
        )
    if min(tokens) < 0 or max(tokens) >= len(ids):
        raise usage(str(tokens), file="attention", where="tokens", expected=f"0 to {len(ids) - 1}")
    columns = Columns(model, layer, tokens, len(ids), cancelled)
    try:  # all at once: a chunk would stop before the layers above have read it
        Reader(model, columns).read(ids, "last")
    except _Enough:
        pass
    if np.isnan(columns.probability[:, :, -1]).any():
        raise KvscopeError("no attention of this layer", file=model.info["path"], where=f"layer {layer}")
    return {
        "layer": layer,
        "n_heads": columns.probability.shape[1],
        "n_queries": len(ids),
        "tokens": i32(tokens),
        "probability": f32(columns.probability),
    }
