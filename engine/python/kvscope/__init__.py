"""KVScope for Python: an engine over transformers, recordings of any other code, and traces as arrays. See README.md.

Importing the package needs nothing but Python. What a name needs is imported when the name is first used.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.2.0"

_LAZY = {
    "KvscopeError": "errors",
    "Recording": "recording",
    "record": "recorder",
    "open": "traces",
}
_EXTRA = {"numpy": "notebook", "torch": "torch", "transformers": "torch"}
__all__ = ["__version__", *_LAZY]


def __getattr__(name: str) -> Any:
    """Raises KvscopeError with the extra to install if a package is missing."""
    if name not in _LAZY:
        raise AttributeError(f"module 'kvscope' has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(f".{_LAZY[name]}", __name__), name)
    except ModuleNotFoundError as error:
        if error.name not in _EXTRA:
            raise
        from .errors import KvscopeError

        hint = f"pip install 'kvscope[{_EXTRA[error.name]}]'"
        raise KvscopeError(f"{error.name} is not installed", file=f"kvscope.{name}", hint=hint) from None
