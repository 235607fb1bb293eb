"""A model under kvpress and nothing of KVScope's: which positions each head keeps of a prompt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM, DynamicCache

from kvscope.press_pass import match_rows, row_codes


class Alone:
    """A model of transformers in float32. The prompt is read in one call, as kvpress needs it."""

    def __init__(self, folder: str):
        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        self.layers = [layer.self_attn for layer in self.model.model.layers]
        self._dense: dict[tuple, list[np.ndarray]] = {}

    def _read(self, ids: Sequence[int], attention: str) -> DynamicCache:
        self.model.set_attn_implementation(attention)
        cache = DynamicCache()
        with torch.no_grad():
            self.model(input_ids=torch.tensor([list(ids)]), past_key_values=cache, logits_to_keep=1)
        return cache

    def _codes(self, cache: DynamicCache) -> list[np.ndarray]:
        """[layers] of [KV heads, rows]: one number for the key and the value of a row."""
        return [row_codes(layer.keys[0]) * 31 + row_codes(layer.values[0]) for layer in cache.layers]

    def kept(self, press: Any, ids: Sequence[int], attention: str = "sdpa") -> tuple[np.ndarray, np.ndarray | None]:
        """What the press keeps, [layers, KV heads, tokens] bool, and its scores, of the same shape, if it has some.

        attention: "eager" for a press that reads attention weights. The rows that are left are found in the cache of
        the same model without a press, by their bits.
        """
        key = (tuple(ids), attention)
        if key not in self._dense:
            self._dense[key] = self._codes(self._read(ids, attention))
        scorer, scores = getattr(press, "press", press), {}
        if hasattr(scorer, "score"):
            score = scorer.score

            def noted(module: torch.nn.Module, *arguments: Any, **named: Any) -> torch.Tensor:
                out = score(module, *arguments, **named)
                scores[module.layer_idx] = out[0].float().numpy()
                return out

            scorer.score = noted
        for layer in self.layers:
            layer.masked_key_indices = None
        with press(self.model):
            left = self._codes(self._read(ids, attention))
        heads = left[0].shape[0]
        kept = np.zeros((len(left), heads, len(ids)), bool)
        for index, (before, after) in enumerate(zip(self._dense[key], left)):
            for head in range(heads):
                rows = match_rows(before[head], after[head])
                assert rows is not None, f"layer {index} head {head}: a row that was not in the cache"
                kept[index, head, rows] = True
            masked = self.layers[index].masked_key_indices
            if masked is not None:
                kept[index, masked[1].numpy(), masked[2].numpy()] = False
            self.layers[index].masked_key_indices = None
        return kept, np.stack([scores[i] for i in sorted(scores)]) if scores else None
