"""One run: prompt, answer, and what happens to every token on the way, as the events of the protocol."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .catalog import Catalog, head_rules
from .errors import Cancelled, KvscopeError, usage
from .models import Model
from .oracle import Teacher, oracle_event
from .output_error import output_error_event
from .passes import Reader, logprobs_of, never
from .press_pass import PressPass
from .request import Request, StopTexts
from .rules import Facts, Geometry
from .sampling import Sampler
from .wire import f32, i32, pool

ORACLE_STRIDE = 16
"""New tokens between two looks at the recall so far."""
MOST_NUMBERS = 1 << 24
"""Most numbers of facts in one step; a long prompt's are sent in several."""

MOST_LOGITS = 1 << 29
"""Most logits of a dense prompt, 2 GB: the tokens of a longer one have no log-probabilities, except by `score`."""

Send = Callable[[dict], None]


@dataclass
class Hooks:
    """How a run talks while it goes on. next_policy gives the text of a policy that the user has asked for, or None."""

    send: Send
    cancelled: Callable[[], bool] = never
    next_policy: Callable[[], str | None] = lambda: None


class Run:
    """A run under way. `execute()` goes through it and sends its events; the last is for the caller to send."""

    def __init__(self, model: Model, catalog: Catalog, request: Request, hooks: Hooks):
        self.model, self.catalog, self.request, self.hooks = model, catalog, request, hooks
        self.ids, self.prompt_len = list(request.ids), len(request.ids)
        self.n_positions = min(self.prompt_len + request.max_tokens, model.info["max_positions"])
        if request.answer and self.prompt_len + len(request.answer) > self.n_positions:
            raise usage(
                f"{len(request.answer)} tokens",
                file="answer",
                expected=f"at most {self.n_positions - self.prompt_len}, the number of new tokens",
            )
        self.spec = catalog.parse(request.policy)
        self.geometry = Geometry.of(self.spec, self.n_positions)
        self.state = catalog.make(self.spec, model, self.n_positions, max(1, request.chunk), hooks.cancelled)
        if request.chunk and isinstance(self.state, PressPass):
            raise usage("a press on a text in chunks", file="chunk", expected="a prompt, or prompt_len")
        self.reader = Reader(model, self.state)
        self.sampler, self.stops = Sampler(request.sampling), StopTexts(request.stop)
        self.at_end, self.n_changed = False, 0
        self.timings = {"load_s": 0.0, "prefill_s": 0.0, "decode_s": 0.0, "decode_steps": 0, "instrumented": True}
        self.teacher = self._teacher()
        self.has_looked = False
        self._next: np.ndarray | None = None  # logits of the next token

    def _teacher(self) -> Teacher | None:
        spec = self.request.oracle
        return Teacher(self.model, self.n_positions, self.geometry.window, spec, self.hooks.cancelled) if spec else None

    def started(self) -> dict:
        method = self.catalog.method_of(self.spec)
        event = {
            "type": "started",
            "n_positions": self.n_positions,
            "prompt_len": self.prompt_len,
            "ids": i32(self.ids),
            "pieces": pool(self.model.bytes_of(self.ids)),
            "policy": self.spec.text(),
            "scorer": f"{method.policy.title}, in Python" if method else "",
            "scorer_kind": "python" if method else "",
            "scorer_delay": 0 if method else -1,
            "scorer_gate": method.policy.name if method else "",
            "chunk": self.request.chunk,
        }
        heads = head_rules(self.model, self.geometry, self.spec.values.get("threshold", 0.0))
        if heads is not None:
            event["heads"] = heads
        if self.request.oracle is not None:
            event["oracle_spec"] = self.request.oracle.text()
        return event

    def execute(self) -> dict:
        """Sends started, step, oracle, policy and output_error events. Returns the fields of `done`."""
        opened = isinstance(self.state, PressPass)
        if opened:
            self.state.open()  # type: ignore[union-attr]
        try:
            self.hooks.send(self.started())
            complete = self._decode()
        except Cancelled:
            complete = False
        finally:
            if opened:
                self.state.close()  # type: ignore[union-attr]
        if complete and self.request.output_error:
            try:
                self.hooks.send(
                    output_error_event(self.model, self.ids[: self.reader.n], self.state.evict_at, self.hooks.cancelled)
                )
            except Cancelled:
                complete = False
            except KvscopeError as error:  # the run itself is whole
                self.hooks.send({"type": "log", "text": error.line()})
        return {"status": "complete" if complete else "cancelled", "timings": self.timings, "text": self.stops.text()}

    def _decode(self) -> bool:
        self._prefill()
        while not self._is_over():
            if self.hooks.cancelled():
                return self._stop()
            self._change_policies()
            self._step(self._choose())
            if self._look_is_due() and not self._is_over() and not self._look(final=False):
                return self._stop()
        return self.teacher is None or self._look(final=True)

    def _prefill(self) -> None:
        start, logprobs = time.perf_counter(), [np.array([math.nan], np.float32)]
        chunk = 1 << 30 if self.state.dense_prompt else None
        if self.state.dense_prompt and self.prompt_len > 0:
            many = self.prompt_len * self.model.info["vocab_size"] > MOST_LOGITS
            if many:
                logprobs.append(np.full(self.prompt_len - 1, np.nan, np.float32))
            parts = [(self.prompt_len - 1 if many else 0, self.reader.read(self.ids, "last" if many else "all"))]
        else:
            parts = self.reader.read_all(self.ids, "all", chunk, self._progress)  # type: ignore[assignment]
        for first, logits in parts:
            logprobs.append(logprobs_of(logits, self.ids[first + 1 : first + 1 + len(logits)]))
            self._next = logits[-1].cpu().numpy()
        self.timings["prefill_s"] = time.perf_counter() - start
        self._tell([], 0, np.concatenate(logprobs)[: self.prompt_len], self.timings["prefill_s"])

    def _progress(self, value: int, most: int) -> None:
        self.hooks.send({"type": "progress", "phase": "prefill", "value": value, "max": most, "text": ""})

    def _tell(self, new: list[int], logprobs_from: int, logprobs: Any, seconds: float) -> None:
        for fields in _steps(self.state.take_facts()):
            self.hooks.send(
                {
                    "type": "step",
                    "n_tokens": self.reader.n,
                    "ids": i32(new),
                    "pieces": pool(self.model.bytes_of(new, at_start=False)),
                    "logprobs_from": logprobs_from,
                    "logprobs": f32(logprobs),
                    "seconds": seconds,
                    **fields,
                }
            )
            new, logprobs_from, logprobs, seconds = [], self.reader.n, [], 0.0

    def _answered(self) -> int:
        return len(self.ids) - self.prompt_len

    def _given(self) -> bool:
        return self.request.answer is not None and self._answered() < len(self.request.answer)

    def _is_over(self) -> bool:
        if self._given():
            return False
        draws = self.request.chunk == 0 and (self.request.answer is None or self.request.draw_on)
        return not draws or self.at_end or self.stops.at is not None or len(self.ids) >= self.n_positions

    def _choose(self) -> int:
        given = self.request.answer[self._answered()] if self._given() else None  # type: ignore[index]
        if given is not None and not self.request.draw_on:
            return given
        drawn = self.sampler.next(self._next, self.ids)  # type: ignore[arg-type]
        return drawn if given is None else given

    def _step(self, token: int) -> None:
        start = time.perf_counter()
        logits = self._next
        assert logits is not None
        greatest = float(logits.max())
        logprob = float(logits[token]) - greatest - math.log(np.exp(logits.astype(np.float64) - greatest).sum())
        position = len(self.ids)
        self.ids.append(token)
        self._next = self.reader.read([token])[0].cpu().numpy()
        self.at_end = self.request.stop_at_end and token in self.model.end_ids
        if not self.at_end:
            self.stops.push(self.model.bytes_of([token], at_start=False)[0])
        seconds = time.perf_counter() - start
        self.timings["decode_s"] += seconds
        self.timings["decode_steps"] += 1
        self._tell([token], position, [min(logprob, 0.0)], seconds)

    def _look_is_due(self) -> bool:
        if self.teacher is None or self.model.is_hybrid:  # a hybrid's states cannot go on from where they were
            return False
        return self.teacher.horizon == 0 or len(self.ids) >= self.teacher.horizon + ORACLE_STRIDE

    def _look(self, final: bool) -> bool:
        assert self.teacher is not None
        try:
            self.teacher.absorb(self.ids[self.teacher.horizon :], self.state.evict_at)
        except Cancelled:
            return False
        self.has_looked = True
        self.hooks.send(oracle_event(self.teacher, self.state.evict_at, self.geometry, final))
        return True

    def _stop(self) -> bool:
        """The run was cancelled: what the oracle has seen is sent."""
        if self.teacher is not None and self.has_looked:
            self.teacher.cancelled = never
            self._look(final=True)
        return False

    def _change_policies(self) -> None:
        q = len(self.ids)
        for at, text in self.request.changes:
            if max(at, self.prompt_len) == q:
                self._change(text)
        while (asked := self.hooks.next_policy()) is not None:
            try:
                self._change(asked)
            except KvscopeError as error:
                self.hooks.send({"type": "log", "text": error.line()})

    def _change(self, text: str) -> None:
        spec = self.catalog.parse(text)
        geometry = Geometry.of(spec, self.n_positions)
        same = (geometry.sinks, geometry.window) == (self.geometry.sinks, self.geometry.window)
        own = {name: value for name, value in spec.values.items() if name not in ("threshold", "budget")}
        if (
            isinstance(self.state, PressPass)
            or spec.policy is not self.spec.policy
            or not same
            or geometry.top_k > self.geometry.top_k
            or any(self.spec.values[n] != v for n, v in own.items())
        ):
            raise usage(
                spec.text(),
                file=f"policy {self.spec.text()}",
                hint="stop the run and start it again",
                expected="another threshold, or a smaller budget, of the same policy of scores",
            )
        self.spec, self.geometry = spec, geometry
        self.state.rule.change(geometry, spec.values.get("threshold", 0.0), len(self.ids))
        self.hooks.send({"type": "policy", "q": len(self.ids), "policy": spec.text()})
        if self.state.rule.facts.size():
            self._tell([], len(self.ids), [], 0.0)


def _steps(facts: Facts) -> list[dict]:
    """The fields of one step, or of several if they are many."""
    if facts.size() <= MOST_NUMBERS:
        return [facts.fields()]
    whole, out = facts.fields(), []
    n = -(-facts.size() // MOST_NUMBERS)
    widths = {"lifetimes": 16, "score_index": 12, "score_value": 4, "contests": 32}
    for i in range(n):
        part = {}
        for name, width in widths.items():
            rows = len(whole[name]) // width
            part[name] = whole[name][rows * i // n * width : rows * (i + 1) // n * width]
        out.append(part)
    return out
