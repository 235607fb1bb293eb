"""Policies as the program knows them: declarations, and the text NAME:key=value,key=value.

A declaration says everything that the program shows of a policy: its name, title, definition, parameters with unit,
default and range. KVScope's own policies (full, streaming, top-k, threshold) have no dot in their names; those of this
engine have a prefix, so that neither can be taken for the other.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .errors import usage

MAX_TOKENS = 1 << 24
MAX_COMPRESSION = 1e6
DEFAULT_WINDOW = 64
_NAME = re.compile(r"[a-z][a-z0-9]*\.[A-Za-z0-9_.-]+\Z")
_PARAMETER = re.compile(r"[a-z][a-z0-9_]*\Z")
_NUMBER = re.compile(r"-?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\Z")
KINDS = ("real", "count", "tokens", "choice")


@dataclass(frozen=True)
class Parameter:
    """A parameter. The value of a choice is the choice's index, as `default` is."""

    name: str
    kind: str
    default: float
    min: float
    max: float
    definition: str
    unit: str = ""
    choices: tuple[str, ...] = ()
    share: bool = False

    def check(self) -> None:
        """Raises ValueError for a declaration that the program would refuse."""
        if not _PARAMETER.match(self.name) or self.kind not in KINDS:
            raise ValueError(f"parameter {self.name!r} of kind {self.kind!r}")
        if not (math.isfinite(self.default) and self.min <= self.default <= self.max):
            raise ValueError(f"parameter {self.name}: default {self.default} is not in {self.min} to {self.max}")
        if (self.kind == "choice") != bool(self.choices):
            raise ValueError(f"parameter {self.name}: choices belong to a choice")

    def declaration(self) -> dict:
        out: dict[str, Any] = {
            "name": self.name,
            "kind": self.kind,
            "unit": self.unit,
            "default": float(self.default),
            "min": float(self.min),
            "max": float(self.max),
            "definition": self.definition,
        }
        if self.choices:
            out["choices"] = list(self.choices)
        if self.share:
            out["share"] = True
        return out

    def text(self, value: float) -> str:
        return self.choices[int(value)] if self.choices else number_text(value)

    def parse(self, policy: str, text: str) -> float:
        """The value that a text means. Raises KvscopeError that names policy, key, value and range."""
        if self.choices:
            if text in self.choices:
                return self.choices.index(text)
            raise usage(
                f'"{text}"', file=f"policy {policy}", where=self.name, expected="one of " + ", ".join(self.choices)
            )
        share = self.share and text.endswith("%")
        value = read_number(text[:-1]) if share else read_number(text)
        value = value / 100 if share and value is not None else value
        if value is not None and self.share and 0 < value < 1:
            return value
        whole = self.kind != "real"
        if value is None or share or not self.min <= value <= self.max or (whole and value != int(value)):
            raise usage(
                f'"{text}"',
                file=f"policy {policy}",
                where=self.name,
                expected=f"{'a whole number' if whole else 'a number'} from {number_text(self.min)} to "
                f"{number_text(self.max)}" + (", or a share of the run" if self.share else ""),
            )
        return value


@dataclass(frozen=True)
class Policy:
    """A policy as it is declared. `rule` says whether scores decide every eviction ("top_k", "threshold") or not
    ("none"); `quiet` are parameters of KVScope's own policy that this engine runs at their default only, and `order` is
    that of the canonical text, which has some of them; empty: that of `parameters`. `revision` names the method's code,
    so that a changed method is not taken for the same."""

    name: str
    title: str
    definition: str
    parameters: tuple[Parameter, ...] = ()
    budget: bool = False
    rule: str = "none"
    prompt: str = "sparse"
    evicted: str = ""
    kept: str = ""
    quiet: Mapping[str, str] = field(default_factory=dict)
    order: tuple[str, ...] = ()
    revision: str = ""

    def check(self) -> None:
        """Raises ValueError for a declaration that the program would refuse."""
        if not _NAME.match(self.name) or len(self.name) > 80:
            raise ValueError(f"policy name {self.name!r}: expected PREFIX.NAME of at most 80 characters")
        if len(self.title) > 60 or len(self.definition.encode()) > 2000 or len(self.parameters) > 32:
            raise ValueError(
                f"policy {self.name}: a title over 60 characters, a definition over 2,000 bytes or more "
                "than 32 parameters"
            )
        if self.rule not in ("top_k", "threshold", "none") or self.prompt not in ("dense", "sparse"):
            raise ValueError(f"policy {self.name}: rule {self.rule!r}, prompt {self.prompt!r}")
        names = [parameter.name for parameter in self.parameters]
        if len(set(names)) != len(names) or self.budget != ("budget" in names):
            raise ValueError(f"policy {self.name}: parameters {names}")
        for parameter in self.parameters:
            parameter.check()
            is_count = parameter.kind == "tokens" and not parameter.share
            if parameter.name in ("budget", "sinks", "window") and not is_count:
                raise ValueError(f"policy {self.name}: {parameter.name} of kind {parameter.kind}, not tokens")

    def declaration(self) -> dict:
        """The policy as the greeting has it."""
        out: dict[str, Any] = {
            "name": self.name,
            "title": self.title,
            "definition": self.definition,
            "budget": self.budget,
            "rule": self.rule,
            "prompt": self.prompt,
            "parameters": [parameter.declaration() for parameter in self.parameters],
        }
        if self.evicted:
            out["evicted"] = self.evicted
        if self.kept:
            out["kept"] = self.kept
        if self.revision:
            out["revision"] = self.revision
        return out

    def parameter(self, name: str) -> Parameter | None:
        return next((parameter for parameter in self.parameters if parameter.name == name), None)


@dataclass(frozen=True)
class PolicySpec:
    """A policy and the value of every parameter; of a budget ("tokens" | "keep" | "compression", value)."""

    policy: Policy
    values: Mapping[str, float]
    budget: tuple[str, float] | None = None

    def text(self) -> str:
        """The canonical text: parse_policy() of it gives the same."""
        parts = []
        for name in self.policy.order or [parameter.name for parameter in self.policy.parameters]:
            parameter = self.policy.parameter(name)
            if parameter is None:
                parts.append(f"{name}={self.policy.quiet[name]}")
            elif parameter.name == "budget" and self.budget is not None:
                kind, value = self.budget
                parts.append(
                    {"tokens": "budget=%s", "keep": "keep=%s", "compression": "compression=%sx"}[kind]
                    % number_text(value)
                )
            else:
                parts.append(f"{parameter.name}={parameter.text(self.values[parameter.name])}")
        return self.policy.name + (":" + ",".join(parts) if parts else "")

    def budget_tokens(self, n_positions: int) -> int:
        """The budget in tokens of a run of n_positions; 0 if the policy has none."""
        if self.budget is None:
            return 0
        kind, value = self.budget
        tokens = value if kind == "tokens" else value * n_positions if kind == "keep" else n_positions / value
        return math.floor(tokens + 1e-6)

    def tokens(self, name: str, n_positions: int, otherwise: int = 0) -> int:
        """A parameter that counts tokens; a share of the run counts at least one."""
        value = self.values.get(name)
        if value is None:
            return otherwise
        return max(1, math.floor(value * n_positions + 1e-6)) if 0 < value < 1 else int(value)


def number_text(value: float) -> str:
    """The shortest text that reads back as the same number."""
    value = float(value)
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)


def read_number(text: str) -> float | None:
    text = text.strip()
    value = float(text) if _NUMBER.match(text) else math.nan
    return value if math.isfinite(value) else None


def tokens(name: str, default: float, definition: str, least: float = 0, share: bool = False) -> Parameter:
    """A parameter that counts tokens."""
    return Parameter(name, "tokens", default, least, MAX_TOKENS, definition, "tokens", share=share)


BUDGET = tokens(
    "budget",
    512,
    "Tokens that a head may hold: sinks + window + the best others. Also written keep=25% or "
    "compression=4x, relative to the run's positions.",
    1,
)
SINKS = tokens("sinks", 4, "First tokens of the text that always stay.")
WINDOW = tokens(
    "window",
    DEFAULT_WINDOW,
    "Newest tokens, the query's own included, that always stay: query q sees t > q - window.",
    1,
)
_THRESHOLD = Parameter("threshold", "real", 0, -1e6, 1e6, "A token stays if its score is at least this.")

BUILTIN = (
    Policy("full", "Full cache", "Nothing is ever evicted.", rule="none"),
    Policy("streaming", "StreamingLLM", "Keeps sinks and window only.", (SINKS, WINDOW), rule="none"),
    Policy(
        "top-k",
        "Running top-k of any score",
        "The token that leaves the window competes by its score.",
        (BUDGET, SINKS, WINDOW),
        budget=True,
        rule="top_k",
        quiet={
            "decay": "1",
            "stride": "1",
            "capacity": "head",
            "interval": "0",
            "allocation": "uniform",
            "beta": "20",
            "safeguard": "0.2",
        },
        order=("budget", "sinks", "window", "decay", "stride"),
    ),
    Policy(
        "threshold",
        "Score threshold",
        "A token that leaves the window stays if its score is at least the threshold.",
        (_THRESHOLD, SINKS, WINDOW),
        rule="threshold",
        quiet={
            "density": "none",
            "density_over": "model",
            "strict": "0",
            "read": "0",
            "pool": "0",
            "drop": "0.1",
            "observe": "256",
        },
        order=("threshold", "strict", "sinks", "window", "read", "pool", "drop", "observe"),
    ),
)
"""Those of KVScope's own policies that this engine runs. Their declarations are the program's."""
