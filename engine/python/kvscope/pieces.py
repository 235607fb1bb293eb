"""The exact bytes of each token. A piece may be part of a character, so it is bytes and not text."""

from __future__ import annotations

import json
import re
from typing import Any

_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>\Z")


def byte_alphabet() -> dict[str, int]:
    """The characters with which byte-level tokenizers write bytes: the visible Latin-1 characters are themselves, and
    all other bytes are U+0100 and on, in order."""
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    alphabet = {chr(byte): byte for byte in visible}
    hidden = (byte for byte in range(256) if byte not in set(visible))
    alphabet.update({chr(0x100 + i): byte for i, byte in enumerate(hidden)})
    return alphabet


def _decoder_steps(tokenizer: Any) -> list[dict]:
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return []
    decoder = json.loads(backend.to_str()).get("decoder") or {}
    return decoder.get("decoders", []) if decoder.get("type") == "Sequence" else [decoder] if decoder else []


class Pieces:
    """Bytes of a tokenizer's tokens."""

    def __init__(self, tokenizer: Any):
        self._tokenizer = tokenizer
        steps = _decoder_steps(tokenizer)
        kinds = {step.get("type") for step in steps}
        self._alphabet = byte_alphabet() if "ByteLevel" in kinds else None
        self._blank = next(
            (s["pattern"].get("String", "") for s in steps if s.get("type") == "Replace" and s.get("content") == " "),
            "",
        )
        if "Metaspace" in kinds:
            self._blank = next(s.get("replacement", "\u2581") for s in steps if s.get("type") == "Metaspace")
        self._strips_first = "Metaspace" in kinds or any(
            s.get("type") == "Strip" and s.get("content") == " " and s.get("start", 0) > 0 for s in steps
        )
        added = getattr(tokenizer, "added_tokens_decoder", {}) or {}
        self._added = {int(i): getattr(t, "content", str(t)) for i, t in added.items()}
        self._cache: dict[int, bytes] = {}

    def piece(self, token: int) -> bytes:
        """The bytes of a token within a text. Empty for an id without a token."""
        found = self._cache.get(token)
        if found is None:
            found = self._cache[token] = self._make(token)
        return found

    def all(self, tokens: list[int], at_start: bool = True) -> list[bytes]:
        """The bytes of these tokens. at_start: they begin a text, so that the decoder may drop a blank."""
        pieces = [self.piece(token) for token in tokens]
        if at_start and pieces and self._strips_first and pieces[0].startswith(b" "):
            pieces[0] = pieces[0][1:]
        return pieces

    def _make(self, token: int) -> bytes:
        if token in self._added:
            return self._added[token].encode()
        text = self._tokenizer.convert_ids_to_tokens(token)
        if text is None:
            return b""
        if self._alphabet is not None:
            if all(character in self._alphabet for character in text):
                return bytes(self._alphabet[character] for character in text)
            return text.encode()
        byte = _BYTE_TOKEN.match(text)
        if byte:
            return bytes([int(byte.group(1), 16)])
        if self._blank:
            return text.replace(self._blank, " ").encode()
        return self._tokenizer.decode([token]).encode()
