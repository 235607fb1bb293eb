"""A context round any generation loop that records what its cache kept.

    with kvscope.record(model, "a.kvs", tokenizer=tokenizer, method=METHOD) as recorder:
        model.generate(**inputs, max_new_tokens=64)

It listens to the model's calls and to its cache, and changes neither. After each call it compares the rows of every
cache layer with those that have gone in: what is no longer there has left. So it does not matter what dropped them: a
press of kvpress, a Cache subclass that drops in update(), or code of the loop itself.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch

from .errors import KvscopeError
from .passes import logprobs_of
from .pieces import Pieces
from .policies import Policy
from .press_pass import match_rows, row_codes
from .recording import Recording
from .wire import NEVER


class _CacheLayer:
    """What one layer's cache has been given, and which of it is there. codes [Hk, m], slots [Hk, rows] positions."""

    def __init__(self, model_layer: int, n_kv_heads: int):
        self.model_layer, self.n_kv_heads = model_layer, n_kv_heads
        self.codes = [np.empty((n_kv_heads, 0), np.int64) for _ in range(2)]  # of keys, of values
        self.gone: list[dict[int, int]] = [{} for _ in range(n_kv_heads)]
        self.slots = np.empty((n_kv_heads, 0), np.int64)
        self.n = 0  # tokens that have gone in

    def add(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        self.codes = [np.concatenate([old, row_codes(x)], axis=1) for old, x in zip(self.codes, (keys, values))]
        n = keys.shape[1]
        new = np.broadcast_to(np.arange(self.n, self.n + n), (self.n_kv_heads, n))
        self.slots = np.concatenate([self.slots, new], axis=1)
        self.n += n

    def compare(self, keys: torch.Tensor, values: torch.Tensor, masked: Any, end: int) -> None:
        """The rows that are there after a call; what is missing cannot be seen from query `end` on."""
        if keys.shape[1] != self.slots.shape[1]:
            self._match(keys, values, end)
        if masked is not None:
            for head, row in zip(masked[1].tolist(), masked[2].tolist()):
                self.gone[head].setdefault(int(self.slots[head, row]), end)

    def _match(self, keys: torch.Tensor, values: torch.Tensor, end: int) -> None:
        now = (row_codes(keys), row_codes(values))
        was = [np.take_along_axis(codes, self.slots, axis=1) for codes in self.codes]
        for before, after in ((was[0] * 31 + was[1], now[0] * 31 + now[1]), (was[1], now[1]), (was[0], now[0])):
            rows = [match_rows(before[head], after[head]) for head in range(self.n_kv_heads)]
            if all(row is not None for row in rows):
                break
        else:
            raise KvscopeError(
                f"rows of layer {self.model_layer} that never went in",
                file="recorder",
                expected="a cache that keeps or drops whole tokens",
            )
        kept = np.take_along_axis(self.slots, np.stack(rows), axis=1)  # type: ignore[arg-type]
        for head in range(self.n_kv_heads):
            for token in np.setdiff1d(self.slots[head], kept[head]).tolist():
                self.gone[head].setdefault(token, end)
        self.slots = kept


class Recorder:
    """What record() gives: `recording()` is the run as it is now."""

    def __init__(
        self, model: Any, tokenizer: Any, method: Policy | Mapping[str, Any] | str, policy: str, recorder: str
    ):
        self.model, self.tokenizer = model, tokenizer
        self.method, self.policy, self.recorder = method, policy, recorder
        self.ids: list[int] = []
        self.prompt_len = 0
        self.masses: dict[str, np.ndarray] = {}
        self._logprobs: list[np.ndarray] = [np.array([np.nan], np.float32)]
        self._last: torch.Tensor | None = None
        self._layers: dict[int, _CacheLayer] = {}
        self._cache: Any = None
        self._masks: dict[int, torch.nn.Module] = {
            m.layer_idx: m for m in model.modules() if isinstance(getattr(m, "layer_idx", None), int)
        }

    def before(self, module: torch.nn.Module, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
        ids = kwargs.get("input_ids", args[0] if args else None)
        if ids is None or ids.shape[0] != 1:
            raise KvscopeError("a call without input_ids of one text", file="recorder", expected="input_ids [1, n]")
        if kwargs.get("past_key_values") is None:
            from transformers import DynamicCache

            kwargs = {**kwargs, "past_key_values": DynamicCache(), "use_cache": True}
        cache = kwargs["past_key_values"]
        if cache is not self._cache:
            if self._cache is not None:
                raise KvscopeError("another cache", file="recorder", expected="one run within one record()")
            self._cache, update = cache, cache.update

            def listen(
                key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, *more: Any, **named: Any
            ) -> Any:
                layer = self._layers.setdefault(layer_idx, _CacheLayer(layer_idx, key_states.shape[1]))
                layer.add(key_states[0].detach(), value_states[0].detach())
                return update(key_states, value_states, layer_idx, *more, **named)

            cache.update = listen
        new = ids[0].tolist()
        if self._last is not None:
            self._logprobs.append(logprobs_of(self._last, new[:1]))
        self.ids += new
        self.prompt_len = self.prompt_len or len(new)
        return args, kwargs

    def after(self, module: torch.nn.Module, args: tuple, kwargs: dict, output: Any) -> None:
        logits = output.logits[0].detach().float()
        n = len((kwargs["input_ids"] if "input_ids" in kwargs else args[0])[0])
        if len(logits) == n:
            self._logprobs.append(logprobs_of(logits[:-1], self.ids[len(self.ids) - n + 1 :]))
        else:  # the loop asked for the last logits alone
            self._logprobs.append(np.full(n - 1, np.nan, np.float32))
        self._last = logits[-1:]
        for index, layer in self._layers.items():
            rows = self._cache.layers[index]
            masked = getattr(self._masks.get(index), "masked_key_indices", None)
            layer.compare(rows.keys[0].detach(), rows.values[0].detach(), masked, len(self.ids))

    def add_oracle(self, window: int = 64, spec: str = "") -> None:
        """Measures the oracle by one more pass of the model with a full cache. window: queries from t + window
        count."""
        from . import attention, models
        from .oracle import OracleSpec, Teacher

        attention.register()
        before = self.model.config._attn_implementation
        self.model.set_attn_implementation(attention.NAME)
        try:
            wrapped = models.wrap(self.model, self.tokenizer)
            teacher = Teacher(wrapped, len(self.ids), window, OracleSpec.parse(spec))
            teacher.absorb(self.ids)
            self.masses, self.window = teacher.masses(), window
        finally:
            self.model.set_attn_implementation(before)

    window = 64

    def recording(self) -> Recording:
        """The run up to now, as plain arrays. Raises KvscopeError if nothing was recorded."""
        if not self._layers:
            raise KvscopeError("no call of the model", file="recorder", expected="a loop that runs it")
        n, order = len(self.ids), sorted(self._layers)
        gone = np.full((len(order), self._layers[order[0]].n_kv_heads, n), NEVER, np.int32)
        for i, index in enumerate(order):
            for head, lost in enumerate(self._layers[index].gone):
                for token, at in lost.items():
                    gone[i, head, token] = at if at <= n else NEVER
        config = self.model.config.get_text_config()
        info = {
            "name": str(getattr(config, "name_or_path", "") or type(self.model).__name__).rstrip("/").split("/")[-1],
            "architecture": type(self.model).__name__,
            "dtype": str(self.model.dtype).removeprefix("torch."),
            "device": str(self.model.device),
            "n_heads": int(config.num_attention_heads),
            "head_dim": int(getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads),
            "vocab_size": int(config.vocab_size),
            "n_parameters": sum(p.numel() for p in self.model.parameters()),
            "max_positions": max(n, int(getattr(config, "max_position_embeddings", 0) or 0)),
        }
        pieces = None if self.tokenizer is None else Pieces(self.tokenizer).all(self.ids)
        return Recording(
            self.ids,
            self.prompt_len,
            gone,
            self.recorder,
            self.method,
            self.policy,
            pieces,
            np.concatenate(self._logprobs)[:n],
            None,
            self.masses,
            self.window,
            info,
            order if order != list(range(len(order))) else None,
            n,
        )


@contextlib.contextmanager
def record(
    model: Any,
    path: str = "",
    *,
    tokenizer: Any = None,
    method: Policy | Mapping[str, Any] | str = "full",
    policy: str = "",
    recorder: str = "",
    oracle: bool = False,
) -> Iterator[Recorder]:
    """Records the one run that happens within. path: where it is written at the end, .kvs or .npz; empty: nowhere.

    method, policy and recorder are those of Recording: name the method that really decides. oracle: also measures the
    future attention, by one more pass at the end. Raises KvscopeError for a cache that it cannot follow.
    """
    import transformers

    from . import __version__

    name = recorder or f"kvscope.record {__version__}, transformers {transformers.__version__}"
    found = Recorder(model, tokenizer, method, policy, name)
    hooks = [
        model.register_forward_pre_hook(found.before, with_kwargs=True),
        model.register_forward_hook(found.after, with_kwargs=True),
    ]
    try:
        yield found
    finally:
        for hook in hooks:
            hook.remove()
        if found._cache is not None:
            del found._cache.update
    if oracle:
        found.add_oracle()
    if path:
        found.recording().save(path)
