"""One's own method: a function or a class in a file, with its parameters, under one of KVScope's rules.

    # my.py
    def mine(layer, keys, values, alpha: float = 0.5):
        "Keeps tokens whose value is long and whose key is short."
        return alpha * values.norm(dim=-1) - (1 - alpha) * keys.norm(dim=-1)

    kvscope run MODEL --engine "python -m kvscope.engine --method my.py:mine" --policy my.mine:budget=128,alpha=0.7

The method gives the tokens of a call their scores, [KV heads, n]; higher is kept. The arguments it may name are in
INPUTS. Every other argument must have a default, a number, a bool, or a Literal of texts: it becomes a parameter of the
policy. A class takes its parameters in __init__ (or as dataclass fields) and has a method `score`; an object that is a
torch module is called. A class is made anew for every run, so it may remember what it has seen. Optional attributes of
either: rule = "top_k" | "threshold", title, definition, evicted, kept, ranges = {"alpha": (0, 1)}.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.util
import inspect
import math
import os
import re
import sys
import typing
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from . import scores
from .errors import KvscopeError, one_line, usage
from .policies import BUDGET, SINKS, WINDOW, Parameter, Policy

INPUTS = {
    "layer": "index of the attention layer, from 0",
    "keys": "[KV heads, n, D] of the new tokens, after RoPE, as they are cached",
    "values": "[KV heads, n, D] of the new tokens",
    "queries": "[query heads, n, D] of the new tokens, after RoPE",
    "hidden": "[n, hidden size] input of the attention layer",
    "positions": "[n] positions of the new tokens in the text",
    "keys_so_far": "[KV heads, m, D] of all tokens up to these, evicted ones included",
    "values_so_far": "[KV heads, m, D] likewise",
    "module": "the model's attention module",
}
_RESERVED = {"budget", "keep", "compression", "sinks", "window", "threshold"}


class Method:
    """A method as it is declared, and how to make it for a run."""

    def __init__(self, name: str, target: Any, title: str = "", revision: str = ""):
        self.target, self.is_class = target, inspect.isclass(target)
        call = _score_of(target, name)
        made = target if self.is_class else None
        own = call if made is None else made
        try:
            arguments = inspect.signature(call).parameters
        except (TypeError, ValueError) as error:
            raise KvscopeError(one_line(error), file=name, expected="a function with named arguments") from None
        names = [n for n in arguments if n != "self"]
        self.inputs = [n for n in names if n in INPUTS]
        ranges = getattr(own, "ranges", None) or {}
        parameters = _parameters(name, call, [n for n in names if n not in INPUTS], ranges)
        if made is not None:
            parameters += _parameters(name, made, list(inspect.signature(made).parameters), ranges)
        self.own = tuple(parameters)
        self._types = {p.name: _python_type(call, made, p.name) for p in parameters}
        self._of_call = {n for n in names if n not in INPUTS}
        rule = getattr(own, "rule", "top_k")
        if rule not in ("top_k", "threshold"):
            raise KvscopeError(f"rule {rule!r}", file=name, where="rule", expected="top_k or threshold")
        self.rule = rule
        shared = (
            (BUDGET, SINKS, WINDOW)
            if rule == "top_k"
            else (
                Parameter(
                    "threshold",
                    "real",
                    float(getattr(own, "threshold", 0.0)),
                    -1e6,
                    1e6,
                    "A token stays if its score is at least this.",
                ),
                SINKS,
                WINDOW,
            )
        )
        short = name.split(".")[-1]
        text = getattr(own, "definition", "") or inspect.getdoc(own) or f"The score of {short}."
        self.policy = Policy(
            name,
            (title or getattr(own, "title", "") or short)[:60],
            " ".join(text.split())[:1800],
            shared + self.own,
            budget=rule == "top_k",
            rule=rule,
            prompt="sparse",
            evicted=getattr(own, "evicted", "") or f"its score by {short} was too low",
            kept=getattr(own, "kept", "") or f"its score by {short} is high enough",
            revision=revision,
        )
        try:
            self.policy.check()
        except ValueError as error:
            raise KvscopeError(str(error), file=name) from None

    def make(self, values: Mapping[str, float], model: Any) -> "Scorer":
        """The method for one run, with the parameters' values. Raises KvscopeError for what the method raises."""
        typed = {p.name: self._typed(p, values.get(p.name, p.default)) for p in self.own}
        of_call = {n: v for n, v in typed.items() if n in self._of_call}
        target = self.target
        try:
            if self.is_class:
                target = target(**{n: v for n, v in typed.items() if n not in of_call})
            if isinstance(target, torch.nn.Module):
                target = target.to(next(model.parameters()).device).eval()
            if hasattr(target, "start"):
                target.start(model)
        except Exception as error:
            raise KvscopeError(one_line(error), file=self.policy.name, where="start") from None
        return Scorer(self.policy.name, _bound(target), self.inputs, of_call)

    def _typed(self, parameter: Parameter, value: float) -> Any:
        kind = self._types.get(parameter.name)
        if parameter.choices:
            text = parameter.choices[int(value)]
            return text == "true" if kind is bool else text
        return int(value) if kind is int else float(value)


class Scorer:
    """A method at work in one run."""

    def __init__(self, name: str, call: Callable, inputs: list[str], values: Mapping[str, Any]):
        self.name, self._call, self.inputs, self._values = name, call, inputs, dict(values)

    def score(self, n_kv_heads: int, n: int, inputs: Mapping[str, Any]) -> np.ndarray:
        """[Hk, n] float32. Raises KvscopeError if the method raises, or gives something else."""
        try:
            out = self._call(**{name: inputs[name] for name in self.inputs}, **self._values)
        except Exception as error:
            raise KvscopeError(one_line(error), file=self.name, where=f"layer {inputs['layer']}") from None
        out = out.detach().float().cpu().numpy() if isinstance(out, torch.Tensor) else np.asarray(out, np.float32)
        if out.shape != (n_kv_heads, n):
            raise KvscopeError(
                f"scores of shape {tuple(out.shape)}",
                file=self.name,
                where=f"layer {inputs['layer']}",
                expected=f"({n_kv_heads}, {n}), one per KV head and token",
            )
        return out


def _score_of(target: Any, name: str) -> Callable:
    if inspect.isclass(target) or not inspect.isfunction(target):
        for attribute in ("score", "forward"):
            if callable(getattr(target, attribute, None)):
                return getattr(target, attribute)
        raise KvscopeError(
            f"no method score in {target!r}"[:200], file=name, expected="def score(self, layer, keys, values)"
        )
    return target


def _bound(target: Any) -> Callable:
    return target if inspect.isfunction(target) else getattr(target, "score", None) or target


def _annotation(call: Any, name: str) -> Any:
    owner = call.__init__ if inspect.isclass(call) and not dataclasses.is_dataclass(call) else call
    try:
        return typing.get_type_hints(owner).get(name)
    except Exception:  # an annotation that only a type checker understands
        return None


def _python_type(call: Any, made: Any, name: str) -> type:
    for owner in (call, made):
        if owner is None:
            continue
        found = inspect.signature(owner).parameters.get(name)
        if found is not None:
            return type(found.default)
    return float


def _parameters(name: str, call: Any, names: list[str], ranges: Mapping[str, Any]) -> list[Parameter]:
    out = []
    for parameter in names:
        found = inspect.signature(call).parameters[parameter]
        if found.kind in (found.VAR_KEYWORD, found.VAR_POSITIONAL):
            continue
        if parameter in _RESERVED:
            raise KvscopeError(
                f"an argument named {parameter}", file=name, expected="another name: the rule has this one"
            )
        out.append(parameter_of(name, parameter, found.default, _annotation(call, parameter), ranges.get(parameter)))
    return out


def parameter_of(
    owner: str, name: str, default: Any, annotation: Any = None, limits: Any = None, definition: str = ""
) -> Parameter:
    """A parameter as a policy declares it, from a Python argument. Raises KvscopeError for one that has no place."""
    definition = definition or f"Argument {name} of {owner.split('.')[-1]}."
    if not re.match(r"[a-z][a-z0-9_]*\Z", name):
        raise KvscopeError(f"an argument named {name}", file=owner, expected="a name of the form [a-z][a-z0-9_]*")
    choices = typing.get_args(annotation) if typing.get_origin(annotation) is typing.Literal else ()
    if isinstance(default, bool):
        return Parameter(name, "choice", int(default), 0, 1, definition, choices=("false", "true"))
    if choices and default in choices:
        texts = tuple(str(choice) for choice in choices)
        return Parameter(name, "choice", choices.index(default), 0, len(texts) - 1, definition, choices=texts)
    if isinstance(default, (int, float)) and math.isfinite(default):
        whole = isinstance(default, int)
        low, high = limits or (
            (min(0, default), max(1 << 24, default)) if whole else (min(-1e6, default), max(1e6, default))
        )
        return Parameter(name, "count" if whole else "real", default, low, high, definition)
    raise KvscopeError(
        f"argument {name} without a default that is a number, a bool or a choice",
        file=owner,
        expected="a default, or one of " + ", ".join(INPUTS),
    )


def load_method(text: str) -> Method:
    """The method that FILE.py:NAME names. Raises KvscopeError in one line for whatever is wrong with the file."""
    path, colon, name = text.rpartition(":")
    if not colon or not path or not name.isidentifier():
        raise usage(f'"{text}"', file="--method", expected="FILE.py:NAME")
    if not os.path.isfile(path):
        raise usage("no such file", file=path)
    with open(path, "rb") as file:
        source = file.read()
    module_name = "kvscope_method_" + re.sub(r"\W", "_", os.path.splitext(os.path.basename(path))[0])
    spec = importlib.util.spec_from_file_location(module_name, path)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module  # dataclasses look their module up
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    try:
        exec(compile(source, path, "exec"), module.__dict__)  # what the revision names, and no cached bytecode
    except Exception as error:
        raise KvscopeError(one_line(error), file=path) from None
    finally:
        sys.path.pop(0)
    if not hasattr(module, name):
        raise KvscopeError(f"no {name}", file=path, expected="a function, a class or a torch module of that name")
    return Method(f"my.{name}", getattr(module, name), revision=hashlib.sha256(source).hexdigest()[:12])


def own_methods() -> list[Method]:
    """The scores that come with the package."""
    return [
        Method("hf.knorm", scores.knorm, "Norm of the key"),
        Method("hf.vnorm", scores.vnorm, "Norm of the value"),
        Method("hf.keydiff", scores.keydiff, "KeyDiff"),
        Method("hf.recency", scores.recency, "Recency"),
    ]
