"""The attention layers of a model, found by watching it read two tokens.

Nothing here knows a model family: a layer is what calls the attention function. Layers without a KV cache (the gated
delta layers of Qwen3-Next, Mamba) never do, so the layers of a hybrid are its attention layers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import torch

from .attention import Call, Plain, observe
from .errors import KvscopeError


@dataclass
class Layer:
    """One attention layer. `index` counts attention layers from 0, `model_layer` all layers of the model."""

    index: int
    model_layer: int
    module: torch.nn.Module
    n_heads: int
    n_kv_heads: int
    head_dim: int
    value_dim: int
    window: int
    """Queries see the newest `window` positions alone; 0: all."""
    output: torch.Tensor | None = None
    """The output projection [hidden, H * Dv], or None if the model has none that can be read as a plain matrix."""


class _Watch(Plain):
    def __init__(self) -> None:
        self.calls: list[Call] = []

    def attend(self, call: Call) -> torch.Tensor:
        self.calls.append(call)
        return super().attend(call)


def _model_layer(module: torch.nn.Module, names: dict[int, str], otherwise: int) -> int:
    index = getattr(module, "layer_idx", None)
    if isinstance(index, int):
        return index
    numbers = re.findall(r"\d+", names.get(id(module), ""))
    return int(numbers[-1]) if numbers else otherwise


def _output_projection(module: torch.nn.Module, width: int) -> torch.Tensor | None:
    for name in ("o_proj", "out_proj", "dense", "c_proj"):
        child = getattr(module, name, None)
        weight = getattr(child, "weight", None)
        if type(child) is torch.nn.Linear and weight is not None and weight.shape[1] == width:
            return weight
    return None


def find_layers(model: Any, device: torch.device) -> list[Layer]:
    """The attention layers in the order in which they run. Raises KvscopeError if there are none, or if they differ in
    heads: a trace has as many KV heads in every layer."""
    watch = _Watch()
    with torch.no_grad(), observe(watch):
        model(input_ids=torch.zeros((1, 2), dtype=torch.long, device=device), use_cache=False)
    names = {id(module): name for name, module in model.named_modules()}
    layers = []
    for i, call in enumerate(watch.calls):
        n_heads, _, dim = call.q.shape
        layers.append(
            Layer(
                i,
                _model_layer(call.module, names, i),
                call.module,
                n_heads,
                call.k.shape[0],
                dim,
                call.v.shape[-1],
                call.scores.window,
                _output_projection(call.module, n_heads * call.v.shape[-1]),
            )
        )
    if not layers:
        raise KvscopeError(
            "no layer uses the attention interface",
            file=type(model).__name__,
            expected="a model of transformers whose layers call AttentionInterface functions",
        )
    if len({id(layer.module) for layer in layers}) != len(layers):
        raise KvscopeError(
            "a layer that runs twice for one text", file=type(model).__name__, expected="each attention layer once"
        )
    _check_windows(model, layers)
    shapes = {(layer.n_heads, layer.n_kv_heads) for layer in layers}
    if len(shapes) > 1:
        raise KvscopeError(
            "layers of different heads: " + ", ".join(f"{h} query and {g} KV" for h, g in sorted(shapes)),
            file=type(model).__name__,
            expected="as many heads in every attention layer",
        )
    return layers


def _check_windows(model: Any, layers: list[Layer]) -> None:
    """A layer that is local by its config must have handed its window over: its mask never arrives here."""
    kinds = getattr(model.config.get_text_config(), "layer_types", None) or []
    for layer in layers:
        kind = kinds[layer.model_layer] if layer.model_layer < len(kinds) else "full_attention"
        if kind == "chunked_attention" or (kind == "sliding_attention" and layer.window == 0):
            raise KvscopeError(
                f"{kind} without a window",
                file=type(model).__name__,
                where=f"layer {layer.model_layer}",
                expected="full or sliding attention",
            )
