"""A model reading tokens: in chunks, with its own cache, while an observer decides what its attention sees."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from . import attention
from .attention import Call
from .errors import Cancelled
from .layers import Layer
from .methods import Scorer
from .models import Model
from .rules import Facts, LifetimeRule


def never() -> bool:
    return False


class Pass:
    """What all observers share: which layer a module is, and where the call's queries are in the text."""

    def __init__(self, model: Model, cancelled: Callable[[], bool] = never):
        self.model, self.cancelled, self.start = model, cancelled, 0
        self._layer_of = {id(layer.module): layer for layer in model.layers}

    def layer(self, call: Call) -> Layer:
        if self.cancelled():
            raise Cancelled
        return self._layer_of[id(call.module)]

    def attend(self, call: Call) -> Any:
        """The output [H, n, Dv] of the layer's attention, and attention weights [1, H, n, m] if a press reads them."""
        raise NotImplementedError

    def positions(self, call: Call) -> tuple[torch.Tensor, torch.Tensor]:
        """Of the queries [n] and of the keys [m], which are the newest m positions."""
        n, m = call.q.shape[1], call.k.shape[1]
        k_pos = torch.arange(self.start + n - m, self.start + n, device=call.q.device)
        return k_pos[m - n :], k_pos

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Everything that must be in place while the model reads."""
        yield

    def new_cache(self) -> Any:
        """The cache to begin with; None: the model makes its own."""
        return None

    def after(self, cache: Any, end: int) -> None:
        """The model has read the tokens before position `end`."""


class Dense(Pass):
    """A full cache."""

    def attend(self, call: Call) -> torch.Tensor:
        self.layer(call)
        q_pos, k_pos = self.positions(call)
        return call.attend(q_pos, k_pos)


class RulePass(Pass):
    """Attention under a LifetimeRule: every query sees what the rule has left it. The rule acts in the prompt too."""

    dense_prompt = False

    def __init__(self, model: Model, rule: LifetimeRule, scorer: Scorer | None, cancelled: Callable[[], bool] = never):
        super().__init__(model, cancelled)
        self.rule, self.scorer = rule, scorer if rule.needs_scores else None
        self._hidden: dict[int, torch.Tensor] = {}

    @property
    def evict_at(self) -> np.ndarray:
        return self.rule.evict_at

    def take_facts(self) -> Facts:
        return self.rule.take_facts()

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        hooks = []
        if self.scorer is not None and "hidden" in self.scorer.inputs:
            for layer in self.model.layers:
                hooks.append(layer.module.register_forward_pre_hook(self._note_hidden, with_kwargs=True))
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def _note_hidden(self, module: torch.nn.Module, args: tuple, kwargs: dict) -> None:
        hidden = kwargs["hidden_states"] if "hidden_states" in kwargs else args[0]
        self._hidden[id(module)] = hidden[0]

    def scores(self, call: Call, layer: Layer, q_pos: torch.Tensor) -> np.ndarray | None:
        """[Hk, n] of the call's new tokens."""
        if self.scorer is None or layer.window:
            return None
        n = call.q.shape[1]
        return self.scorer.score(
            layer.n_kv_heads,
            n,
            {
                "layer": layer.index,
                "keys": call.k[:, -n:],
                "values": call.v[:, -n:],
                "queries": call.q,
                "hidden": self._hidden.get(id(call.module)),
                "positions": q_pos,
                "keys_so_far": call.k,
                "values_so_far": call.v,
                "module": call.module,
            },
        )

    def attend(self, call: Call) -> torch.Tensor:
        layer = self.layer(call)
        q_pos, k_pos = self.positions(call)
        n, first_key = call.q.shape[1], self.start + call.q.shape[1] - call.k.shape[1]
        self.rule.absorb(layer.index, self.start, n, self.scores(call, layer, q_pos))
        evict_at = self.rule.evict_at[layer.index, :, first_key : self.start + n]
        gone = (
            None
            if layer.window or int(evict_at.min()) >= self.start + n
            else torch.as_tensor(evict_at).to(call.q.device)
        )
        return call.attend(q_pos, k_pos, gone)


class Reader:
    """Feeds tokens to a model. `n` tokens have been read."""

    def __init__(self, model: Model, observer: Pass):
        self.model, self.observer, self.cache, self.n = model, observer, observer.new_cache(), 0
        known = inspect.signature(model.model.forward).parameters
        self._takes_cache_position = "cache_position" in known
        self._takes_logits_to_keep = "logits_to_keep" in known

    @property
    def chunk(self) -> int:
        """Tokens that the model reads at once. A hybrid's states begin with a call, so it reads all at once."""
        if self.model.is_hybrid:
            return 1 << 30
        return 1024 if self.model.device.type == "cuda" else 256

    @torch.no_grad()
    def read(self, ids: Sequence[int], logits: str = "all") -> torch.Tensor:
        """Reads tokens in one call. Returns their logits [n, vocabulary] float32; with logits="last" [1,
        vocabulary]."""
        n, device = len(ids), self.model.device
        positions = torch.arange(self.n, self.n + n, device=device)
        kwargs: dict[str, Any] = {
            "input_ids": torch.tensor([list(ids)], device=device),
            "use_cache": True,
            "past_key_values": self.cache,
            "position_ids": positions.unsqueeze(0),
        }
        if self._takes_cache_position:
            kwargs["cache_position"] = positions
        if self._takes_logits_to_keep and logits == "last":
            kwargs["logits_to_keep"] = 1
        self.observer.start = self.n
        with self.observer.installed(), attention.observe(self.observer):
            out = self.model.model(**kwargs)
        self.cache = out.past_key_values
        self.n += n
        self.observer.after(self.cache, self.n)
        found = out.logits[0] if logits == "all" else out.logits[0, -1:]
        return found.float()

    def read_all(
        self,
        ids: Sequence[int],
        logits: str = "all",
        chunk: int | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Iterator[tuple[int, torch.Tensor]]:
        """Reads tokens chunk by chunk: (first, logits) of each. Raises Cancelled between two chunks."""
        chunk = min(chunk or self.chunk, self.chunk)
        for first in range(0, len(ids), chunk):
            if self.observer.cancelled():
                raise Cancelled
            if progress is not None:
                progress(first, len(ids))
            yield first, self.read(ids[first : first + chunk], logits)


def logprobs_of(logits: torch.Tensor, following: Sequence[int]) -> np.ndarray:
    """[n] natural log-probability of each following token, from the logits [n, vocabulary] before it."""
    if len(following) == 0:
        return np.empty(0, np.float32)
    rows = logits[: len(following)].log_softmax(-1)
    index = torch.tensor(list(following), device=rows.device).unsqueeze(1)
    return rows.gather(1, index).squeeze(1).cpu().numpy()
