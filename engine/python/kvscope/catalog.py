"""Everything that this engine can run: KVScope's own policies, scores, one's own methods, presses."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Sequence

import numpy as np

from .errors import KvscopeError, usage
from .methods import Method, own_methods
from .models import Model
from .passes import RulePass, never
from .policies import BUILTIN, Policy, PolicySpec
from .policy_text import parse_policy
from .press_pass import PressPass
from .presses import PREFIX, Press, find_presses, kvpress_version
from .rules import Geometry, LifetimeRule

_RULES = {"full": "full", "streaming": "streaming", "top-k": "top_k", "threshold": "threshold"}


class Catalog:
    """The policies of a session. The first of `methods` also gives the scores of `top-k` and `threshold`."""

    def __init__(self, methods: Sequence[Method] = (), presses: Sequence[Press] | None = None):
        self.methods = [*methods, *own_methods()]
        self.presses = list(find_presses() if presses is None else presses)
        self._method_of = {method.policy.name: method for method in self.methods}
        self._press_of = {press.policy.name: press for press in self.presses}
        if len(self._method_of) != len(self.methods):
            raise usage("two methods of one name", file="--method")

    @property
    def policies(self) -> list[Policy]:
        """Those that are declared: methods, and presses that can run."""
        return [m.policy for m in self.methods] + [p.policy for p in self.presses if not p.refusal]

    @property
    def default_policy(self) -> str:
        """The policy with which a new run starts: one's own method, else the norm of the key. Small
        enough that a short prompt shows it, and possible at any length."""
        budget = "budget=64," if self.methods[0].rule == "top_k" else ""
        return f"{self.methods[0].policy.name}:{budget}sinks=4,window=16"

    def describe(self) -> dict:
        """The part of the greeting that says what this engine can do."""
        return {
            "name": engine_name(),
            "serves": list(SERVES),
            "policies": [p.declaration() for p in self.policies],
            "builtin_policies": [p.name for p in BUILTIN],
            "default_policy": self.default_policy,
        }

    def parse(self, text: str) -> PolicySpec:
        """A policy's text. Raises KvscopeError in one line, also for a press that cannot run here."""
        name = text.partition(":")[0].strip()
        press = self._press_of.get(name)
        if press is not None and press.refusal:
            raise KvscopeError(f"{press.press.__name__} cannot run here: {press.refusal}", file="policy")
        if name.startswith(PREFIX) and press is None and not self.presses:
            raise KvscopeError("no kvpress that can be imported", file="policy", hint="pip install kvpress")
        return parse_policy(text, [*BUILTIN, *self.policies])

    def method_of(self, spec: PolicySpec) -> Method | None:
        """Whose scores the policy reads; None if it reads none."""
        if spec.policy.rule == "none":
            return None
        return self._method_of.get(spec.policy.name, self.methods[0])

    def make(
        self, spec: PolicySpec, model: Model, n_positions: int, chunk: int = 1, cancelled: Callable[[], bool] = never
    ) -> RulePass | PressPass:
        """The policy at work on a model, for one run. A PressPass must be opened and closed."""
        press = self._press_of.get(spec.policy.name)
        if press is not None:
            return PressPass(model, press.make(dict(spec.values)), n_positions, cancelled)
        method = self.method_of(spec)
        kind = _RULES.get(spec.policy.name) or method.rule  # type: ignore[union-attr]
        rule = LifetimeRule(
            kind,
            Geometry.of(spec, n_positions),
            model.n_layers,
            model.n_kv_heads,
            n_positions,
            [layer.window for layer in model.layers],
            spec.values.get("threshold", 0.0),
            chunk,
        )
        scorer = method.make(spec.values, model.model) if method is not None else None
        return RulePass(model, rule, scorer, cancelled)


SERVES = ("run", "score", "attention", "gate_scores", "doctor", "policy", "oracle", "output_error")


def engine_name() -> str:
    """How people call this engine: "kvscope.engine 0.1.0, transformers 5.2.0, kvpress 0.5.5"."""
    from . import __version__

    parts = [f"kvscope.engine {__version__}", f"transformers {importlib.metadata.version('transformers')}"]
    if kvpress_version():
        parts.append(f"kvpress {kvpress_version()}")
    return ", ".join(parts)


def head_rules(model: Model, geometry: Geometry, threshold: float = 0.0) -> dict | None:
    """The table of heads of `started`: None where all heads have the policy's one rule. A layer that is local by design
    has locality 2, its own window and nothing else."""
    if not any(layer.window for layer in model.layers):
        return None
    rows = []
    for layer in model.layers:
        row = (0, layer.window, 0, 2) if layer.window else (geometry.sinks, geometry.window, geometry.top_k, 0)
        rows += [row] * model.n_kv_heads
    table = np.array(rows, "<i4")
    n = len(rows)
    return {
        "n_sink": table[:, 0].tobytes(),
        "window": table[:, 1].tobytes(),
        "top_k": table[:, 2].tobytes(),
        "locality": table[:, 3].tobytes(),
        "log_gamma": np.zeros(n, "<f4").tobytes(),
        "threshold": np.full(n, threshold, "<f4").tobytes(),
    }
