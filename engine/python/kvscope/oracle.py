"""The oracle: how much attention each token gets from later queries of a full cache.

For token t of a run of S queries, with p_{q->t} of query head h and N_t queries q in [t + window, min(S, t + window +
ahead + 1)) (ahead 0: to S):

    mean = 1 / N_t sum_q p      rms = sqrt(1 / N_t sum_q p^2)      max = max_q p
    effect_t = agg over the query heads of the group of mass_t weight_t
    weight   1, |v_t|, or |W_o^(h) v_t| over the layer's mean |o W_o|

One pass adds all of them up; its memory is [query heads, tokens] a layer. Layers that are local by design have none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from .attention import Block, Call, log_sum_exp
from .errors import usage
from .models import Model
from .passes import Pass, Reader, never
from .rules import Geometry
from .wire import f32

EPSILON = 1e-6
_CHOICES = {
    "agg": ("max", "mean", "logmean"),
    "mass": ("mean", "sum", "rms", "max"),
    "weight": ("mass", "value", "output"),
    "capacity": ("head", "pooled"),
    "lse": ("dense", "sparse"),
    "kinds": ("all", "one"),
}


@dataclass(frozen=True)
class OracleSpec:
    agg: str = "max"
    mass: str = "mean"
    weight: str = "mass"
    capacity: str = "head"
    lse: str = "dense"
    kinds: str = "all"
    ahead: int = 0
    budget: str = "match"

    @staticmethod
    def parse(text: str) -> "OracleSpec":
        """Reads agg=max,mass=rms,... Raises KvscopeError that lists what there is."""
        values: dict = {}
        for pair in text.split(",") if text else []:
            key, equals, value = pair.partition("=")
            if key in _CHOICES and value in _CHOICES[key]:
                values[key] = value
            elif key == "ahead" and value.isdigit() and int(value) <= 1 << 24:
                values[key] = int(value)
            elif key == "budget" and value:
                values[key] = value
            else:
                raise usage(
                    f'"{pair}"',
                    file="oracle",
                    expected="; ".join(f"{name}={'|'.join(of)}" for name, of in _CHOICES.items())
                    + "; ahead=N; budget=match|N|P%",
                )
        return OracleSpec(**values)

    def text(self) -> str:
        """The canonical text: parse() of it gives the same."""
        text = f"agg={self.agg},mass={self.mass},lse={self.lse},ahead={self.ahead}"
        for name in ("weight", "capacity", "budget", "kinds"):
            if getattr(self, name) != getattr(OracleSpec, name):
                text += f",{name}={getattr(self, name)}"
        return text


class Teacher(Pass):
    """Dense attention with the masses added up on the way. `horizon` tokens have been read."""

    def __init__(
        self, model: Model, capacity: int, window: int, spec: OracleSpec, cancelled: Callable[[], bool] = never
    ):
        super().__init__(model, cancelled)
        self.spec, self.window, self.capacity = spec, window, capacity
        shape = (model.layers[0].n_heads, capacity)
        wants_all = spec.kinds == "all"
        self.with_kinds = wants_all or spec.mass in ("rms", "max")
        self.with_value = wants_all or spec.weight == "value"
        self.with_output = (
            (wants_all or spec.weight == "output")
            and not model.is_hybrid
            and all(layer.output is not None for layer in model.layers if not layer.window)
        )
        self._sums: list[dict[str, torch.Tensor]] = []
        for layer in model.layers:
            device = next(layer.module.parameters()).device
            names = ["sum"] + (["square", "most"] if self.with_kinds else []) + (["output"] if self.with_output else [])
            sums = {name: torch.zeros(shape, device=device) for name in names}
            sums["value"] = torch.zeros((model.n_kv_heads, capacity), device=device)
            sums["outputs"] = torch.zeros((), dtype=torch.float64, device=device)
            self._sums.append(sums)
        self._grams: dict[int, torch.Tensor] = {}
        self._reader = Reader(model, self)
        self._kept: np.ndarray | None = None

    @property
    def horizon(self) -> int:
        return self._reader.n

    def absorb(self, ids: Sequence[int], kept: np.ndarray | None = None) -> None:
        """Reads tokens that follow those read before. kept: evict_at of the policy, for lse=sparse. Raises
        Cancelled."""
        self._kept = kept
        for _ in self._reader.read_all(ids, "last"):
            pass

    def attend(self, call: Call) -> torch.Tensor:
        layer = self.layer(call)
        q_pos, k_pos = self.positions(call)
        if layer.window:  # no policy decides here
            return call.attend(q_pos, k_pos)
        sums = self._sums[layer.index]
        out = call.attend(q_pos, k_pos, visit=lambda block: self._add(block, call, layer.index, k_pos, sums))
        self._weigh(call, layer.index, out, sums)
        return out

    def _add(self, block: Block, call: Call, layer: int, k_pos: torch.Tensor, sums: dict[str, torch.Tensor]) -> None:
        age = block.q_pos[:, None] - k_pos[None]
        counted = age >= self.window
        if self.spec.ahead:
            counted &= age <= self.window + self.spec.ahead
        p = block.p
        if self.spec.lse == "sparse" and self._kept is not None:
            gone = torch.as_tensor(self._kept[layer, :, : len(k_pos)]).to(k_pos.device)
            seen = (block.q_pos[:, None] < gone[:, None]).unsqueeze(1)
            sinks = call.scores.sinks
            lse = log_sum_exp(
                block.logits.masked_fill(~seen, -torch.inf),
                None if sinks is None else sinks.float().reshape(p.shape[:2]),
            )
            p = torch.exp(block.logits - lse.unsqueeze(-1))
        p = (p * counted).flatten(0, 1)  # [H, n, m]
        m = p.shape[-1]
        sums["sum"][:, :m] += p.sum(1)
        if self.with_kinds:
            sums["square"][:, :m] += (p * p).sum(1)
            sums["most"][:, :m] = torch.maximum(sums["most"][:, :m], p.amax(1))

    def _weigh(self, call: Call, layer: int, out: torch.Tensor, sums: dict[str, torch.Tensor]) -> None:
        n = call.q.shape[1]
        rows = slice(self.start, self.start + n)
        values = call.v[:, -n:].float()
        sums["value"][:, rows] = values.norm(dim=-1)
        weight = self.model.layers[layer].output
        if not self.with_output or weight is None:
            return
        weight = weight.float()
        if layer not in self._grams:  # |W_h v|^2 = v^T (W_h^T W_h) v
            by_head = weight.reshape(weight.shape[0], call.q.shape[0], -1).transpose(0, 1)
            self._grams[layer] = by_head.transpose(1, 2) @ by_head
        of_head = values.repeat_interleave(call.q.shape[0] // values.shape[0], 0)
        squares = ((of_head @ self._grams[layer]) * of_head).sum(-1)
        sums["output"][:, rows] = squares.clamp_min(0).sqrt()
        output = out.float().transpose(0, 1).reshape(n, -1) @ weight.T
        sums["outputs"] += output.norm(dim=-1).sum(dtype=torch.float64)

    def counts(self) -> np.ndarray:
        """[horizon] queries that look at each token after it left the window, 0 while there are none."""
        n = np.maximum(0, self.horizon - (np.arange(self.horizon) + self.window))
        return np.minimum(n, self.spec.ahead + 1) if self.spec.ahead else n

    def _aggregate(self, by_head: torch.Tensor) -> torch.Tensor:
        grouped = by_head.reshape(self.model.n_kv_heads, -1, by_head.shape[-1])
        if self.spec.agg == "max":
            return grouped.amax(1)
        if self.spec.agg == "mean":
            return grouped.mean(1)
        return ((grouped + EPSILON).log().mean(1).exp() - EPSILON).clamp_min(0)

    def masses(self) -> dict[str, np.ndarray]:
        """Each [layers, KV heads, horizon] float32, by the name that the wire has: future_mass, and as far as the spec
        asks for them future_rms, future_max, value_norm, output_mean, output_rms, output_max. NaN without later queries
        and in local layers."""
        n, counts = self.horizon, self.counts()
        out: dict[str, list[np.ndarray]] = {}
        for layer, sums in zip(self.model.layers, self._sums):
            for name, found in self._of_layer(sums, np.maximum(counts, 1), n).items():
                values = found.cpu().numpy().astype(np.float32)
                if layer.window:
                    values = np.full_like(values, np.nan)
                elif name != "value_norm":
                    values[:, counts == 0] = np.nan
                out.setdefault(name, []).append(values)
        return {name: np.stack(rows) for name, rows in out.items()}

    def _of_layer(self, sums: dict[str, torch.Tensor], counts: np.ndarray, n: int) -> dict[str, torch.Tensor]:
        number = torch.as_tensor(counts, dtype=torch.float32).to(sums["sum"].device)
        kinds = {"mean": sums["sum"][:, :n] / number}
        if self.with_kinds:
            kinds["rms"] = (sums["square"][:, :n] / number).sqrt()
            kinds["max"] = sums["most"][:, :n]
        out = {
            ("future_mass" if name == "mean" else f"future_{name}"): self._aggregate(values)
            for name, values in kinds.items()
        }
        if self.with_value:
            out["value_norm"] = sums["value"][:, :n]
        if self.with_output:
            scale = (n / sums["outputs"]).float() if n else 1.0
            for name, values in kinds.items():
                out[f"output_{name}"] = self._aggregate(values * sums["output"][:, :n] * scale)
        return out


def target_of(masses: dict[str, np.ndarray], spec: OracleSpec, counts: np.ndarray) -> np.ndarray | None:
    """[layers, KV heads, horizon]: what the spec ranks tokens by. None if the model gives no such weight."""
    kind = "mean" if spec.mass == "sum" else spec.mass
    name = f"output_{kind}" if spec.weight == "output" else "future_mass" if kind == "mean" else f"future_{kind}"
    if name not in masses:
        return None
    target = masses[name] * masses["value_norm"] if spec.weight == "value" else masses[name]
    return target * counts if spec.mass == "sum" else target


def recall_at(target: np.ndarray, evict_at: np.ndarray, geometry: Geometry, q: int) -> np.ndarray:
    """[layers, KV heads]: the share of the tokens that a head keeps at query q which the oracle, holding as many, keeps
    too. NaN where nothing was chosen: all or none of the eligible tokens sinks <= t <= q - window are kept."""
    n_layers, n_kv = target.shape[:2]
    recall = np.full((n_layers, n_kv), np.nan, np.float32)
    begin, end = geometry.sinks, q - geometry.window + 1
    if end <= begin:
        return recall
    kept = evict_at[:, :, begin:end] > q
    count = kept.sum(-1)
    for layer, head in zip(*np.nonzero((count > 0) & (count < end - begin))):
        values = target[layer, head, begin:end]
        if np.isnan(values).all():
            continue
        best = np.argsort(-np.nan_to_num(values, nan=-np.inf), kind="stable")[: count[layer, head]]
        recall[layer, head] = kept[layer, head, best].sum() / count[layer, head]
    return recall


def oracle_event(teacher: Teacher, evict_at: np.ndarray, geometry: Geometry, final: bool) -> dict:
    """The `oracle` event, without its id: recall of the newest query, and when final every mass."""
    masses = teacher.masses()
    target = target_of(masses, teacher.spec, teacher.counts())
    recall = np.full(evict_at.shape[:2], np.nan, np.float32)
    if target is not None and teacher.spec.budget == "match" and teacher.spec.capacity == "head":
        recall = recall_at(target, evict_at[:, :, : teacher.horizon], geometry, teacher.horizon - 1)
    event = {"type": "oracle", "horizon": teacher.horizon, "recall": f32(recall), "final": final}
    if final:
        event.update({name: f32(values) for name, values in masses.items()})
    return event
