"""Answers in channels, as gpt-oss writes them; engine/core/files/tokenizer/channels.h does the same."""

from __future__ import annotations

import re

MARK = "<|channel|>"
_PART = re.compile(r"<\|channel\|>(.*?)<\|message\|>(.*?)(?=<\|(?:end|return|call|start)\|>|\Z)", re.DOTALL)


def as_parts(message: dict) -> dict:
    """An earlier answer in channels as the fields that a template reads: content (final) and thinking (the others)."""
    content = message.get("content")
    if message.get("role") != "assistant" or not isinstance(content, str) or not content.startswith(MARK):
        return message
    parts: dict[bool, list[str]] = {True: [], False: []}
    for channel, text in _PART.findall(content):
        if text:
            parts[channel.startswith("final")].append(text)
    out = {**message, "content": "\n".join(parts[True])}
    if parts[False]:
        out["thinking"] = "\n".join(parts[False])
    return out
