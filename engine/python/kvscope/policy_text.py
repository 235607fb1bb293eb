"""Policies as people write them: NAME:key=value,key=value."""

from __future__ import annotations

from collections.abc import Iterable

from .errors import usage
from .policies import BUDGET, MAX_COMPRESSION, Policy, PolicySpec, read_number


def _budget(policy: str, key: str, text: str) -> tuple[str, float]:
    if key == "budget":
        return "tokens", BUDGET.parse(policy, text)
    if key == "keep":
        percent = text.endswith("%")
        value = read_number(text[:-1] if percent else text)
        value = value / 100 if percent and value is not None else value
        if value is None or not 0 < value <= 1:
            raise usage(
                f'"{text}"',
                file=f"policy {policy}",
                where=key,
                expected="a fraction above 0 and at most 1, or a percentage above 0% and at most 100%",
            )
        return "keep", value
    value = read_number(text.removesuffix("x"))
    if value is None or not 1 <= value <= MAX_COMPRESSION:
        raise usage(f'"{text}"', file=f"policy {policy}", where=key, expected="a factor from 1 to 1e6, such as 4 or 4x")
    return "compression", value


def parse_policy(text: str, policies: Iterable[Policy]) -> PolicySpec:
    """Reads NAME:key=value,... Raises KvscopeError that lists what there is, or names key, value and range."""
    name, colon, rest = text.partition(":")
    name, known = name.strip(), {policy.name: policy for policy in policies}
    if name not in known:
        raise usage(f'no policy is named "{name}"', file="policy", expected="one of " + ", ".join(known))
    policy = known[name]
    values = {parameter.name: float(parameter.default) for parameter in policy.parameters}
    budget = ("tokens", values["budget"]) if policy.budget else None
    seen: set[str] = set()
    for pair in rest.split(",") if colon else []:
        key, equals, value = (part.strip() for part in pair.partition("="))
        if key in seen:
            raise usage("given twice", file=f"policy {name}", where=key)
        if not equals:
            raise usage(f'"{pair}"', file=f"policy {name}", expected="key=value")
        seen.add(key)
        if policy.budget and key in ("budget", "keep", "compression"):
            budget = _budget(name, key, value)
        elif (parameter := policy.parameter(key)) is not None:
            values[key] = parameter.parse(name, value)
        elif key in policy.quiet:
            if value != policy.quiet[key]:
                raise usage(
                    f"{key}={value}",
                    file=f"policy {name}",
                    where=key,
                    expected=f"{key}={policy.quiet[key]}, the only value that this engine runs",
                )
        else:
            raise usage(
                f'no key named "{key}"',
                file=f"policy {name}",
                expected="one of " + (", ".join(values) or "none: this policy has no parameters"),
            )
    if len(seen & {"budget", "keep", "compression"}) > 1:
        raise usage(
            "more than one of budget, keep and compression",
            file=f"policy {name}",
            where="budget",
            expected="one of them",
        )
    return PolicySpec(policy, values, budget)


def check_budget(spec: PolicySpec, n_positions: int, sinks: int, window: int) -> int:
    """The places beside sinks and window. Raises KvscopeError if the budget is less than those."""
    budget = spec.budget_tokens(n_positions)
    if budget < sinks + window:
        raise usage(
            f"a budget of {budget} tokens",
            file=f"policy {spec.policy.name}",
            where="budget",
            expected=f"at least sinks {sinks} + window {window} = {sinks + window} tokens",
            hint="raise the budget, or make the window smaller",
        )
    return budget - sinks - window
