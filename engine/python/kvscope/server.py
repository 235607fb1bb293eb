"""The engine's side of the conversation: one request at a time, and a thread that listens meanwhile.

A cancel, a change of policy and the end of the stream therefore act in the middle of a run.
"""

from __future__ import annotations

import collections
import contextlib
import os
import threading
import time
from collections.abc import Callable
from typing import Any

import torch

from .catalog import Catalog
from .errors import INTERNAL, RESOURCE, Cancelled, KvscopeError, one_line, usage
from .generation import Hooks, Run
from .models import Model, check_path, load
from .request import Request
from .score import method_scores, score
from .token_attention import token_attention
from .wire import Channel


class Inbox:
    """Requests as they come. A thread reads them; cancels and policies for the request at work are kept apart."""

    def __init__(self, channel: Channel):
        self._channel, self._waiting = channel, collections.deque[dict]()
        self._changed = threading.Condition()
        self._ended, self._target = False, None
        self._cancelled, self._policies = False, collections.deque[str]()
        self._withdrawn: set[int] = set()
        self.error: KvscopeError | None = None
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        try:
            while (message := self._channel.read()) is not None and self._take(message):
                pass
        except KvscopeError as error:
            self.error = error
        except OSError:
            pass
        with self._changed:
            self._ended = self._cancelled = True
            self._changed.notify_all()

    def _take(self, message: dict) -> bool:
        """False for the last message."""
        kind = message["type"]
        with self._changed:
            if kind == "quit":
                return False
            if kind == "cancel":
                if message.get("target") == self._target:
                    self._cancelled = True
                elif any(waiting.get("id") == message.get("target") for waiting in self._waiting):
                    self._withdrawn.add(message["target"])
            elif kind == "policy":
                if message.get("target") == self._target:
                    self._policies.append(str(message.get("policy", "")))
            else:
                self._waiting.append(message)
                self._changed.notify_all()
        return True

    def next(self) -> dict | None:
        """The next request, or None at the end. Cancels and policies are for it from now on."""
        with self._changed:
            self._target = None
            self._changed.wait_for(lambda: self._waiting or self._ended)
            if not self._waiting:
                return None
            message = self._waiting.popleft()
            self._target = message.get("id", -1)
            self._cancelled = self._ended or self._target in self._withdrawn
            self._withdrawn.discard(self._target)
            self._policies.clear()
            return message

    def cancelled(self) -> bool:
        return self._cancelled

    def next_policy(self) -> str | None:
        with self._changed:
            return self._policies.popleft() if self._policies else None


class Server:
    """Answers requests until the stream ends."""

    def __init__(self, channel: Channel, catalog: Catalog, device: str = "auto", dtype: str = "auto"):
        self.channel, self.catalog, self._device, self._dtype = channel, catalog, device, dtype
        self.model: Model | None = None
        self._loaded: tuple = ()
        self._answers: dict[str, Callable[[dict, Hooks], dict]] = {
            "load": self._load,
            "run": self._run,
            "doctor": self._doctor,
            "score": lambda m, h: score(m, self._model(), self.catalog, h),
            "attention": lambda m, h: token_attention(m, self._model(), h.cancelled),
            "gate_scores": lambda m, h: method_scores(m, self._model(), self.catalog, h),
        }

    def serve(self) -> int:
        """The exit code of the process."""
        inbox = Inbox(self.channel)
        while (message := inbox.next()) is not None:
            self._answer(message, inbox)
        if inbox.error is not None:
            self.channel.send(inbox.error.event(-1))
            return inbox.error.code
        return 0

    def _answer(self, message: dict, inbox: Inbox) -> None:
        found = message.get("id", -1)
        request_id = found if isinstance(found, int) and not isinstance(found, bool) else -1

        def send(event: dict) -> None:
            self.channel.send({"id": request_id, **event})

        hooks = Hooks(send, inbox.cancelled, inbox.next_policy)
        try:
            if inbox.cancelled():
                raise Cancelled
            answer = self._answers.get(message["type"])
            if answer is None:
                raise usage(
                    f"a request {message['type'][:40]}",
                    file="request",
                    expected=", ".join(self._answers) + ": this engine serves no others",
                )
            with torch.no_grad():
                send({"type": "done", **answer(message, hooks)})
        except Cancelled:
            send({"type": "done", "status": "cancelled"})
        except BrokenPipeError:
            os._exit(0)  # the program has gone
        except KvscopeError as error:
            self.channel.send(error.event(request_id))
        except Exception as error:
            self.channel.send(self._unexpected(error).event(request_id))

    @staticmethod
    def _unexpected(error: Exception) -> KvscopeError:
        import traceback

        traceback.print_exc()
        memory = isinstance(error, (MemoryError, torch.cuda.OutOfMemoryError)) or "out of memory" in str(error)
        if memory:
            with contextlib.suppress(Exception):
                torch.cuda.empty_cache()
            return KvscopeError(
                one_line(error), file="memory", code=RESOURCE, hint="use a shorter prompt, or a device with more memory"
            )
        return KvscopeError(one_line(error), file="engine", hint="the log has the lines of the error", code=INTERNAL)

    def _model(self) -> Model:
        if self.model is None:
            raise usage("no model is loaded", file="request", expected="load first")
        return self.model

    def _load(self, message: dict, hooks: Hooks) -> dict:
        start = time.perf_counter()
        path = message.get("model")
        if not isinstance(path, str) or not path:
            raise usage("no path", file="load", where="model", expected="a folder, or a name of the Hugging Face cache")
        if message.get("gates"):
            raise usage(
                str(message["gates"][0]),
                file="--gate",
                expected="none: this engine takes methods by --method FILE.py:NAME",
                hint='--engine "python -m kvscope.engine --method FILE.py:NAME"',
            )
        device, dtype = message.get("device", "auto"), message.get("dtype", "auto")
        wanted = (path, self._device if device == "auto" else device, self._dtype if dtype == "auto" else dtype)
        if self.model is None or self._loaded != wanted:
            check_path(path)  # a wrong one must not cost the model that is there
            self.model = None  # a device may not hold both
            self.model = load(
                *wanted,
                progress=lambda value, most: hooks.send(
                    {"type": "progress", "phase": "load", "value": value, "max": most, "text": ""}
                ),
            )
            self._loaded = wanted
        model = self.model
        for line in model.warnings:
            hooks.send({"type": "warning", "text": line})
        method = self.catalog.methods[0]
        described = {k: v for k, v in self.catalog.describe().items() if k != "name"}
        if not model.can_measure_output_error:
            described["serves"] = [name for name in described["serves"] if name != "output_error"]
        return {
            "model": {**model.info, "scorer": f"{method.policy.title}, in Python"},
            "load_s": time.perf_counter() - start,
            "gates": {"scorers": [{"kind": "python", "delay": 0}]},
            "local_layers": [{"layer": layer.index, "window": layer.window} for layer in model.layers if layer.window],
            "model_layers": [layer.model_layer for layer in model.layers],
            **described,
        }

    def _run(self, message: dict, hooks: Hooks) -> dict:
        model = self._model()
        return Run(model, self.catalog, Request.of(message, model), hooks).execute()

    def _doctor(self, message: dict, hooks: Hooks) -> dict:
        checks: list[dict[str, Any]] = [
            {"name": "engine", "ok": True, "text": self.catalog.describe()["name"], "hint": ""},
            {
                "name": "device",
                "ok": True,
                "hint": "",
                "text": f"{torch.cuda.device_count()} CUDA devices" if torch.cuda.is_available() else "cpu",
            },
            {
                "name": "kvpress",
                "ok": bool(self.catalog.presses),
                "hint": "" if self.catalog.presses else "pip install kvpress",
                "text": f"{sum(not p.refusal for p in self.catalog.presses)} presses",
            },
        ]
        return {"checks": checks}
