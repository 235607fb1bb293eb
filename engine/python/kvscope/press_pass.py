"""A model under a press of kvpress: which rows of the cache it drops, and when.

A press drops rows of the cache, or names rows of a head that are no longer read (`masked_key_indices`). Both are found
after each pass of the model, by comparing rows before and after, so a lifetime is what the press really did.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from . import attention
from .attention import Call
from .errors import Cancelled, KvscopeError, one_line
from .layers import Layer
from .models import Model
from .passes import Pass, never
from .rules import Facts
from .wire import NEVER

MOST_WEIGHTS = 1 << 28
"""Most attention weights (query heads x queries x keys) that a press which reads them may ask for: 1 GB a layer."""


def _reads_weights(press: Any) -> bool:
    """Whether it, or a press within it, scores by the attention weights themselves."""
    if type(press).__name__ in ("ObservedAttentionPress", "KVComposePress"):
        return True
    return any(_reads_weights(v) for v in vars(press).values() if hasattr(v, "forward_hook"))


def row_codes(x: torch.Tensor) -> np.ndarray:
    """[Hk, m] int64: equal for rows [Hk, m, D] of equal bits, and in practice for no others."""
    bits = x.contiguous().view({2: torch.int16, 4: torch.int32, 8: torch.int64}[x.element_size()]).to(torch.int64)
    weights = torch.arange(1, bits.shape[-1] + 1, device=x.device, dtype=torch.int64) * 0x5851F42D4C957F2D | 1
    mixed = (bits + 0x14057B7EF767814F) * weights
    return ((mixed ^ (mixed >> 29)) * 0x2545F4914F6CDD1D).sum(-1).cpu().numpy()


def match_rows(before: np.ndarray, after: np.ndarray) -> np.ndarray | None:
    """[r]: the row of `before` [m] that each row of `after` [r] is; of equal ones the first that is free. None if one
    of them is new."""
    places: dict[int, list[int]] = {}
    for i in range(len(before) - 1, -1, -1):
        places.setdefault(int(before[i]), []).append(i)
    out = np.empty(len(after), np.int64)
    for j, code in enumerate(after.tolist()):
        free = places.get(code)
        if not free:
            return None
        out[j] = free.pop()
    return out


class PressPass(Pass):
    """A model under a press. The prompt is dense; what the press drops after it, or after a step, later queries
    miss."""

    dense_prompt = True

    def __init__(self, model: Model, press: Any, n_positions: int, cancelled: Callable[[], bool] = never):
        super().__init__(model, cancelled)
        self.press, self.facts = press, Facts()
        self.n_positions = n_positions
        self.evict_at = np.full((model.n_layers, model.n_kv_heads, n_positions), NEVER, np.int32)
        self._slots = [np.empty((model.n_kv_heads, 0), np.int32) for _ in model.layers]
        self._rows: list[tuple[torch.Tensor, torch.Tensor] | None] = [None] * model.n_layers
        self._weights = _reads_weights(press)
        self._context = contextlib.ExitStack()

    def take_facts(self) -> Facts:
        facts, self.facts = self.facts, Facts()
        return facts

    def open(self) -> None:
        """Puts the press on the model. close() takes it off. Raises KvscopeError for a model that it cannot run on."""
        if self.model.is_hybrid:
            raise self._error(TypeError("a hybrid's cache has no layers that kvpress can compress"))
        for layer in self.model.layers:
            setattr(layer.module, "masked_key_indices", None)  # noqa: B010  (kvpress reads it)
        if self._reads_prompt_again():
            return  # installed() puts it on while the prompt is read
        try:
            self.press.post_init_from_model(self.model.model)
            rotary = [m for name, m in self.model.model.named_modules() if name.split(".")[-1] == "rotary_emb"]
            for layer in self.model.layers:
                if layer.window:
                    continue
                if rotary and not hasattr(layer.module, "rotary_emb"):
                    layer.module.rotary_emb = rotary[0]
                hook = layer.module.register_forward_hook(self.press.forward_hook, with_kwargs=True)
                self._context.callback(hook.remove)
        except Exception as error:
            self.close()
            raise self._error(error) from None

    def close(self) -> None:
        self._context.close()
        if hasattr(self.press, "reset"):
            self.press.reset()
        for layer in self.model.layers:
            setattr(layer.module, "masked_key_indices", None)  # noqa: B010  (kvpress reads it)

    def _reads_prompt_again(self) -> bool:
        """Whether it compresses when its context ends, after more passes over the prompt (KVzip and its kin)."""
        return any("_perform_kvzip_compression" in vars(base) for base in type(self.press).__mro__)

    def _error(self, error: Exception) -> KvscopeError:
        return (
            error
            if isinstance(error, KvscopeError)
            else KvscopeError(
                one_line(error),
                file="kvpress",
                where=f"{type(self.press).__name__} on {self.model.info['architecture']}",
            )
        )

    def attend(self, call: Call) -> Any:
        layer = self.layer(call)
        n, m = call.q.shape[1], call.k.shape[1]
        new = np.broadcast_to(np.arange(self.start, self.start + n, dtype=np.int32), (layer.n_kv_heads, n))
        slots = np.concatenate([self._slots[layer.index], new], axis=1)[:, -m:]
        if slots.shape[1] != m:
            raise KvscopeError(
                f"{m} rows in the cache of layer {layer.index}",
                file="kvpress",
                where=type(self.press).__name__,
                expected=f"{slots.shape[1]}: the press has changed the cache in a way that lifetimes cannot express",
            )
        self._slots[layer.index] = slots
        self._rows[layer.index] = (call.k, call.v)
        device = call.q.device
        q_pos = torch.arange(self.start, self.start + n, device=device)
        k_pos = torch.as_tensor(slots).to(device)
        out = call.attend(q_pos, k_pos, hidden=self._masked(call.module, m))
        if not self._weights:
            return out
        return out, self._all_weights(call, q_pos, k_pos)

    def _masked(self, module: torch.nn.Module, m: int) -> torch.Tensor | None:
        """[Hk, m] rows that the press has hidden from their head."""
        indices = getattr(module, "masked_key_indices", None)
        if self.start == 0 or indices is None:
            return None
        hidden = torch.zeros((self.model.n_kv_heads, m), dtype=torch.bool, device=indices[1].device)
        hidden[indices[1], indices[2]] = True
        return hidden

    def _all_weights(self, call: Call, q_pos: torch.Tensor, k_pos: torch.Tensor) -> torch.Tensor:
        """[1, H, n, m], for a press that reads them."""
        n_heads, n, m = call.q.shape[0], call.q.shape[1], call.k.shape[1]
        if n_heads * n * m > MOST_WEIGHTS:
            raise KvscopeError(
                f"a prompt of {n} tokens",
                file="kvpress",
                where=type(self.press).__name__,
                expected=f"at most {int((MOST_WEIGHTS / n_heads) ** 0.5)}: this press reads all attention "
                "weights of a layer at once",
            )
        weights = torch.empty((n_heads, n, m), dtype=call.q.dtype, device=call.q.device)

        def note(block: attention.Block) -> None:
            weights[:, block.first : block.first + block.p.shape[2]] = block.p.flatten(0, 1)

        call.attend(q_pos, k_pos, visit=note)
        return weights.unsqueeze(0)

    def after(self, cache: Any, end: int) -> None:
        for layer in self.model.layers:
            if layer.window:
                self._lose_window(layer, end)
            else:
                self._compare(layer, cache, end)

    def _lose_window(self, layer: Layer, end: int) -> None:
        begin = max(0, self.start - layer.window)
        for token in range(begin, max(begin, end - layer.window)):
            for head in range(layer.n_kv_heads):
                self._lose(layer.index, head, token, token + layer.window)

    def _lose(self, layer: int, head: int, token: int, q: int) -> None:
        if self.evict_at[layer, head, token] == NEVER and q <= self.n_positions:
            self.evict_at[layer, head, token] = q
            self.facts.lose(layer, head, token, q)

    def _compare(self, layer: Layer, cache: Any, end: int) -> None:
        slots, before = self._slots[layer.index], self._rows[layer.index]
        rows = cache.layers[layer.model_layer]
        keys, values = rows.keys[0], rows.values[0]
        if keys.shape[1] != slots.shape[1]:
            assert before is not None
            kept = self._kept(before, (keys, values), layer)
            for head in range(layer.n_kv_heads):
                gone = np.ones(slots.shape[1], bool)
                gone[kept[head]] = False
                for token in np.sort(slots[head][gone]).tolist():
                    self._lose(layer.index, head, token, end)
            self._slots[layer.index] = np.take_along_axis(slots, kept, axis=1)
        indices = getattr(layer.module, "masked_key_indices", None)
        if indices is not None:
            for head, row in zip(indices[1].tolist(), indices[2].tolist()):
                self._lose(layer.index, head, int(self._slots[layer.index][head, row]), end)
        self._rows[layer.index] = None

    def _kept(
        self, before: tuple[torch.Tensor, torch.Tensor], after: tuple[torch.Tensor, torch.Tensor], layer: Layer
    ) -> np.ndarray:
        """[Hk, r] row of `before` that each row of `after` is: by key and value, or by the one that the press has
        left."""
        codes = [(row_codes(b), row_codes(a)) for b, a in zip(before, after)]
        ways = [(codes[0][0] * 31 + codes[1][0], codes[0][1] * 31 + codes[1][1]), codes[1], codes[0]]
        for was, now in ways:
            rows = [match_rows(was[head], now[head]) for head in range(layer.n_kv_heads)]
            if all(row is not None for row in rows):
                return np.stack(rows)  # type: ignore[arg-type]
        raise KvscopeError(
            f"rows of layer {layer.index} that were not in the cache before",
            file="kvpress",
            where=type(self.press).__name__,
            expected="a press that keeps or drops whole tokens",
        )

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        again = self.start == 0 and self._reads_prompt_again()
        try:
            with self.press(self.model.model) if again else contextlib.nullcontext():
                yield
        except (KvscopeError, Cancelled):
            raise
        except Exception as error:
            raise self._error(error) from None

    def new_cache(self) -> Any:
        """A cache that keeps the rows of local layers too, so that only the press drops some. None: the model's own."""
        from transformers import DynamicCache

        return None if self.model.is_hybrid else DynamicCache()
