#!/usr/bin/env python3
"""lying_engine.py LIE -- ENGINE COMMAND...: an engine that tells exactly one lie.

It starts the engine and passes messages both ways. The lie changes, adds or withholds some of them. `kvscope doctor
--conformance` must report each lie; lies_test.py checks that. `lying_engine.py --list` prints the lies. The lie `none`
changes nothing.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading

from lies import LIES, Lie

from kvscope.wire import frame, read_frame


class Talk:
    """The two pipes, and what a lie remembers. `requests` has every request by its id."""

    def __init__(self, engine: subprocess.Popen, lie: Lie):
        self.engine, self.lie = engine, lie
        self.requests: dict[int, dict] = {}
        self.count: dict[str, int] = {}  # how often count_of() was called with a word
        self.kept: dict = {}
        self._locks = threading.Lock(), threading.Lock()

    def say(self, event: dict) -> None:
        """To the program."""
        self._write(sys.stdout.buffer, event, self._locks[0])

    def ask(self, message: dict) -> None:
        """To the engine."""
        self._write(self.engine.stdin, message, self._locks[1])

    def _write(self, stream, message: dict, lock) -> None:
        with lock:
            stream.write(frame(message))
            stream.flush()

    def count_of(self, word: str) -> int:
        """1, 2, 3 ... by calls with the same word."""
        self.count[word] = self.count.get(word, 0) + 1
        return self.count[word]

    def asked(self, event: dict) -> dict:
        """The request that an event belongs to."""
        return self.requests.get(event.get("id", -1), {})

    def pass_requests(self) -> None:
        with contextlib.suppress(OSError):  # an engine that has ended
            while (message := read_frame(sys.stdin.buffer)) is not None:
                self.requests[message.get("id", -1)] = message
                told = self.lie.asked.get(message["type"])
                for one in _outcome(told, self, message):
                    self.ask(one)
            self.engine.stdin.close()

    def pass_events(self) -> None:
        while (event := read_frame(self.engine.stdout)) is not None:
            told = self.lie.events.get(event["type"])
            for one in _outcome(told, self, event):
                self.say(one)


def _outcome(change, talk: Talk, message: dict) -> list:
    instead = change(talk, message) if change else None
    return [message] if instead is None else instead


def main() -> int:
    if sys.argv[1:] == ["--list"]:
        for name, lie in LIES.items():
            print(f"{name}: {lie.sentence}")
        return 0
    if len(sys.argv) < 4 or sys.argv[1] not in LIES or sys.argv[2] != "--":
        print(__doc__, file=sys.stderr)
        return 1
    engine = subprocess.Popen(sys.argv[3:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    talk = Talk(engine, LIES[sys.argv[1]])
    threading.Thread(target=talk.pass_requests, daemon=True).start()
    talk.pass_events()
    code = engine.wait()
    sys.stdout.buffer.flush()
    os._exit(talk.kept.get("code", code if code >= 0 else 3))  # a thread still reads standard input


if __name__ == "__main__":
    sys.exit(main())
