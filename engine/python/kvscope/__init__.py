"""KVScope for Python: an engine over transformers, and recordings of any other code. See README.md."""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_LAZY = {"KvscopeError": "errors", "Recording": "recording", "record": "recorder", "open": "traces"}
__all__ = ["__version__", *_LAZY]


def __getattr__(name: str) -> Any:
    """torch, transformers and h5py are imported when they are first needed."""
    if name not in _LAZY:
        raise AttributeError(f"module 'kvscope' has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_LAZY[name]}", __name__), name)
