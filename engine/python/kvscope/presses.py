"""Every press of kvpress as a policy of this engine: declared from its arguments, run by its own code.

What a press does to the cache is observed by press_pass.py.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
import sys
import typing
from dataclasses import replace
from typing import Any

from .errors import KvscopeError, one_line
from .methods import parameter_of
from .policies import Parameter, Policy

PREFIX = "hf.kvpress."
INNER = (
    "SnapKVPress",
    "KnormPress",
    "ExpectedAttentionPress",
    "TOVAPress",
    "ObservedAttentionPress",
    "KeyDiffPress",
    "StreamingLLMPress",
    "LagKVPress",
    "RandomPress",
)
"""Presses that a press round another one may take."""
_ANY_LENGTH = ("DecodingPress", "CompressionRatioDecodingPress", "DMSPress", "PrefillDecodingPress")
"""Presses that score single tokens too, so that the press within must not need a window of queries."""

REFUSED = {
    "BasePress": "it is the base of the others",
    "ScorerPress": "it is the base of the others",
    "ComposedPress": "it needs a list of presses, which no parameter can name",
    "PerLayerCompressionPress": "it needs a list of ratios, one per layer, which no parameter can name",
    "ThinKPress": "it prunes channels of keys and not tokens, so no token has a lifetime",
    "MergingPress": "it merges evicted tokens into others, which a lifetime cannot express",
    "CAMPress": "it merges evicted tokens into others, which a lifetime cannot express",
    "KVComposePress": "it reads context and question from its own pipeline",
    "FinchPress": "it needs a delimiter token in the prompt, which its own pipeline inserts",
}


def _docs(press: type) -> str:
    text = (inspect.getdoc(press) or "").split("Parameters\n")[0]
    return " ".join(text.split())[:900] or press.__name__


def _is_press(annotation: Any) -> bool:
    return "Press" in str(annotation)


def _ratio() -> Parameter:
    return Parameter("compression_ratio", "real", 0.5, 0, 0.99, "Share of the tokens that are evicted.")


_DECLARED = {name: f"{name}_tokens" for name in ("budget", "sinks", "window")}
"""Names that mean something to the program, which an argument of a press may not mean."""
_ARGUMENT = {declared: name for name, declared in _DECLARED.items()}


def _parameter(press: type, name: str, default: Any, annotation: Any) -> Parameter | None:
    """None for an argument that keeps its default."""
    if _is_press(annotation):
        first = INNER.index("KnormPress" if press.__name__ in _ANY_LENGTH else "SnapKVPress")
        return Parameter(name, "choice", first, 0, len(INNER) - 1, "The press that scores tokens.", choices=INNER)
    if name == "compression_ratio":
        return _ratio()
    if default is None and float in typing.get_args(annotation):
        default = 0.0
    if not isinstance(default, (bool, int, float)) and typing.get_origin(annotation) is not typing.Literal:
        return None
    limits = (0, 1 << 24) if isinstance(default, int) and not isinstance(default, bool) and default >= 0 else None
    try:
        return parameter_of(press.__name__, name, default, annotation, limits, f"Argument {name} of {press.__name__}.")
    except KvscopeError:
        return None


class Press:
    """One class of kvpress as it is declared."""

    def __init__(self, press: type):
        self.press, hints = press, typing.get_type_hints(press)
        hints.update(typing.get_type_hints(press.__init__))  # type: ignore[misc]
        arguments = [a for a in inspect.signature(press).parameters.values() if not a.name.startswith("_")]
        found = {a.name: _parameter(press, a.name, a.default, hints.get(a.name)) for a in arguments}
        missing = [a.name for a in arguments if found[a.name] is None and a.default is inspect.Parameter.empty]
        self.refusal = REFUSED.get(press.__name__, "")
        if not self.refusal and missing:
            self.refusal = f"it needs {', '.join(missing)}, which no parameter can name"
        self._inner = {name: hints.get(name) for name, p in found.items() if p is not None and p.choices == INNER}
        self._own = set(found)
        parameters = {name: replace(p, name=_DECLARED.get(name, name)) for name, p in found.items() if p is not None}
        if (
            self._inner
            and press.__name__ != "DMSPress"
            and isinstance(inspect.getattr_static(press, "compression_ratio", None), property)
        ):
            parameters.setdefault("compression_ratio", _ratio())
        if press.__name__ == "PrefillDecodingPress":  # a press of the prompt, and a DecodingPress round another
            parameters.update(
                compression_ratio=_ratio(),
                compression_interval=Parameter(
                    "compression_interval", "count", 512, 1, 1 << 24, "Steps between two compressions of the answer."
                ),
                target_size=Parameter("target_size", "count", 2048, 1, 1 << 24, "Tokens that remain after one."),
            )
        short = press.__name__.removesuffix("Press")
        self.policy = Policy(
            PREFIX + press.__name__,
            f"{short} (kvpress)"[:60],
            _docs(press),
            tuple(parameters.values())[:32],
            prompt="dense",
            evicted=f"{press.__name__} of kvpress did not choose it when it compressed the cache",
            kept=f"{press.__name__} of kvpress has kept it at every compression",
        )

    def make(self, values: dict[str, float]) -> Any:
        """The press itself. Raises KvscopeError with what kvpress says of a value."""
        if self.refusal:
            raise KvscopeError(f"{self.press.__name__} cannot run here: {self.refusal}", file="kvpress")
        try:
            kwargs = {p.name: self._value(p, values.get(p.name, p.default)) for p in self.policy.parameters}
            return self._make({_ARGUMENT.get(name, name): value for name, value in kwargs.items()})
        except Exception as error:
            raise KvscopeError(one_line(error), file="kvpress", where=self.press.__name__) from None

    def _make(self, kwargs: dict[str, Any]) -> Any:
        if self.press.__name__ == "PrefillDecodingPress":
            kvpress = importlib.import_module("kvpress")
            kwargs["prefilling_press"].compression_ratio = kwargs["compression_ratio"]
            kwargs["decoding_press"] = kvpress.DecodingPress(
                kwargs["decoding_press"],
                compression_interval=kwargs.pop("compression_interval"),
                target_size=kwargs.pop("target_size"),
            )
            del kwargs["compression_ratio"]
        press = self.press(**{name: value for name, value in kwargs.items() if name in self._own})
        for name in kwargs.keys() - self._own:
            setattr(press, name, kwargs[name])
        return press

    def _value(self, parameter: Parameter, value: float) -> Any:
        if parameter.name in self._inner:
            return getattr(importlib.import_module("kvpress"), INNER[int(value)])()
        if parameter.choices:
            text = parameter.choices[int(value)]
            return text == "true" if parameter.choices == ("false", "true") else text
        return float(value) if parameter.kind == "real" else int(value)


def find_presses() -> list[Press]:
    """All presses of the kvpress that is installed; none without it."""
    try:
        kvpress = importlib.import_module("kvpress")
    except ModuleNotFoundError as error:
        if error.name != "kvpress":
            print(f"kvpress cannot be imported: {one_line(error)}", file=sys.stderr)
        return []
    except Exception as error:  # of one of the many packages that it imports
        print(f"kvpress cannot be imported: {one_line(error)}", file=sys.stderr)
        return []
    classes = {name: getattr(kvpress, name) for name in kvpress.__all__}
    base = kvpress.BasePress
    return [Press(c) for name, c in sorted(classes.items()) if inspect.isclass(c) and issubclass(c, base)]


def kvpress_version() -> str:
    try:
        return importlib.metadata.version("kvpress")
    except importlib.metadata.PackageNotFoundError:
        return ""
