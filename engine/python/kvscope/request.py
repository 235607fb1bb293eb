"""What a run is asked for, read and checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .errors import KvscopeError, usage
from .models import Model
from .oracle import OracleSpec
from .sampling import SamplingSpec
from .wire import read_i32


@dataclass
class StopTexts:
    """Texts that end an answer. push() takes a token's bytes and returns whether one was found."""

    texts: Sequence[str] = ()
    answer: bytes = b""
    at: int | None = None

    def __post_init__(self) -> None:
        self._bytes = [text.encode() for text in self.texts]
        if any(not text or len(text) > 4096 for text in self._bytes) or len(self._bytes) > 64:
            raise usage("an empty text, one over 4096 bytes, or more than 64", file="stop", expected="texts")

    def push(self, piece: bytes) -> bool:
        before = len(self.answer)
        self.answer += piece
        longest = max((len(text) for text in self._bytes), default=0)
        found = [self.answer.find(text, max(0, before - longest + 1)) for text in self._bytes]
        found = [at for at in found if at >= 0]
        if self.at is None and found:
            self.at = min(found)
        return self.at is not None

    def text(self) -> str:
        return self.answer[: self.at].decode("utf-8", "replace")


@dataclass
class Request:
    """What a `run` asks for."""

    ids: list[int]
    policy: str
    max_tokens: int
    sampling: SamplingSpec
    oracle: OracleSpec | None
    output_error: bool = False
    stop_at_end: bool = True
    stop: Sequence[str] = ()
    changes: list[tuple[int, str]] = field(default_factory=list)
    answer: list[int] | None = None
    draw_on: bool = False
    chunk: int = 0

    @staticmethod
    def of(message: dict, model: Model) -> "Request":
        """From a message. Raises KvscopeError for what this engine cannot do, or what the model cannot read."""
        for name in ("thresholds", "budgets"):
            if message.get(name):
                raise usage(
                    f"{name} of heads", file="run", where=name, expected="none: this engine has one rule for all"
                )
        answer = read_i32(message, "answer_ids").tolist() if "answer_ids" in message else None
        request = Request(
            prompt_ids(message, model),
            _field(message, "policy", str),
            _field(message, "max_tokens", int),
            SamplingSpec.of(message.get("sampling") or {}),
            OracleSpec.parse(message.get("oracle_spec", "")) if message.get("oracle") else None,
            bool(message.get("output_error")),
            bool(message.get("stop_at_eos", True)),
            message.get("stop") or (),
            [(int(c["q"]), str(c["policy"])) for c in message.get("changes") or []],
            answer,
            bool(message.get("draw_on")),
            int(message.get("chunk") or 0),
        )
        check_ids(request.ids, model, "prompt")
        check_ids(answer or [0], model, "answer")
        if request.max_tokens < 0:
            raise usage(str(request.max_tokens), file="max_tokens", expected="0 or more")
        return request


def _field(message: dict, name: str, kind: type) -> Any:
    value = message.get(name)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise KvscopeError(
            "missing or of another type", file=f"message {message.get('type')}", where=name, expected=kind.__name__
        )
    return value


def prompt_ids(message: dict, model: Model) -> list[int]:
    """The prompt's tokens, whichever way the request has it."""
    if "prompt_ids" in message:
        return read_i32(message, "prompt_ids").tolist()
    if message.get("raw", True):
        return model.encode(_field(message, "prompt", str))
    messages = message.get("messages") or [{"role": "user", "content": _field(message, "prompt", str)}]
    return model.encode_chat(messages, message.get("thinking"), message.get("date", ""))


def check_ids(ids: Sequence[int], model: Model, what: str) -> None:
    if not ids:
        raise KvscopeError("no token", file=what, expected="at least one")
    wrong = [i for i in (min(ids), max(ids)) if not 0 <= i < model.info["vocab_size"]]
    if wrong:
        raise KvscopeError(f"token id {wrong[0]}", file=what, expected=f"0 to {model.info['vocab_size'] - 1}")
    if len(ids) > model.info["max_positions"]:
        raise KvscopeError(
            f"{len(ids)} tokens",
            file=what,
            hint="shorten the prompt",
            expected=f"at most {model.info['max_positions']}, the model's context",
        )
