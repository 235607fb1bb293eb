#!/usr/bin/env python3
"""keep_engine.py serve SOCKET -- ENGINE COMMAND...    starts an engine once, for many conversations, one at a time
keep_engine.py connect SOCKET                      is that engine, for the length of one conversation

An engine that imports torch takes long to start, and a test has dozens of conversations. Each one begins with the
engine's greeting and ends with quit, or when the other side closes; what still runs then is cancelled.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "engine" / "python"))

PATIENCE = 300  # seconds for a request that was cancelled
CANCEL_ID = 1 << 30  # ids of the program are small


class Kept:
    """The engine, the conversation that it has, and the requests of that which have not ended."""

    def __init__(self, command: list[str]):
        from kvscope.wire import Channel

        engine = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.engine = Channel(engine.stdout, engine.stdin)
        self.hello = self.engine.read()
        self.client, self.open = None, set()
        self.changed = threading.Condition()
        threading.Thread(target=self.pass_events, daemon=True).start()

    def pass_events(self) -> None:
        while (event := self.engine.read()) is not None:
            client = self.client
            try:
                if client is not None:
                    client.send(event)
            except OSError:
                self.client = None
            if event["type"] in ("done", "error"):
                with self.changed:
                    self.open.discard(event.get("id"))
                    self.changed.notify_all()
        os._exit(3)  # nothing can be asked any more

    def converse(self, connection: socket.socket) -> None:
        from kvscope.wire import Channel

        channel = Channel(connection.makefile("rb"), connection.makefile("wb"))
        try:
            channel.send(self.hello)
            self.client = channel
            while (message := channel.read()) is not None and message["type"] != "quit":
                if message["type"] not in ("cancel", "policy"):
                    self.open.add(message.get("id"))
                self.engine.send(message)
        except OSError:
            pass
        self.client = None
        for request in list(self.open):
            self.engine.send({"type": "cancel", "id": CANCEL_ID, "target": request})
        with self.changed:
            self.changed.wait_for(lambda: not self.open, PATIENCE)


def serve(path: str, command: list[str]) -> None:
    kept, listener = Kept(command), socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    while True:
        connection, _ = listener.accept()
        with connection:
            kept.converse(connection)
            connection.shutdown(socket.SHUT_RDWR)


def connect(path: str) -> None:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)

    def pass_requests() -> None:
        while data := os.read(0, 1 << 16):
            connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)

    threading.Thread(target=pass_requests, daemon=True).start()
    while data := connection.recv(1 << 16):
        view = memoryview(data)
        while view:
            view = view[os.write(1, view) :]
    os._exit(0)  # a thread still reads standard input


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2], sys.argv[4:])
    else:
        connect(sys.argv[2])
