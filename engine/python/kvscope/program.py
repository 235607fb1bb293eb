"""The program `kvscope`: where it is, and how Python starts it.

The wheel of the program has it in `kvscope/bin`, with fonts and X11's library in `share` and `lib` next to it. The pure
wheel has the modules only; it uses a program that is installed another way.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

from .errors import KvscopeError

PACKAGE = Path(__file__).parent


def find(package: Path = PACKAGE) -> str:
    """The path of the program: what KVSCOPE names, else the wheel's own, else the first in PATH. Raises KvscopeError if
    there is none."""
    named = os.environ.get("KVSCOPE")
    if named:
        return shutil.which(named) or named
    own = package / "bin/kvscope"
    if own.exists():
        return str(own)
    for folder in os.get_exec_path():
        found = shutil.which("kvscope", path=folder)
        # The console script of the program's wheel starts these modules. Where a checkout hides those of the wheel,
        # the script would start itself for ever.
        if found and os.path.realpath(found) != os.path.realpath(sys.argv[0]):
            return found
    raise KvscopeError(
        "the program is neither in this package nor in PATH",
        file="kvscope",
        hint="install the wheel that has it (docs/install.md), or set KVSCOPE to where it is",
    )


def environment(package: Path = PACKAGE) -> dict[str, str]:
    """The variables with which the program starts: those of this process, this Python for `--engine hf` and `.npz` files,
    and where the wheel's fonts and X11 are."""
    out, fonts = dict(os.environ), package / "share/kvscope/fonts"
    if sys.executable:
        out.setdefault("KVSCOPE_PYTHON", sys.executable)
    if fonts.exists():
        out.setdefault("KVSCOPE_FONTS", str(fonts))
        out.setdefault("FONTCONFIG_FILE", str(fonts / "fonts.conf"))
    x11 = package / "lib/x11"
    if x11.exists():
        try:
            ctypes.CDLL("libX11.so.6")
        except OSError:  # no display here; commands work without one, but the program does not load without the library
            paths = [str(x11), out.get("LD_LIBRARY_PATH")]
            out["LD_LIBRARY_PATH"] = os.pathsep.join(path for path in paths if path)
    return out


def run(*arguments: str) -> str:
    """Runs a command of the program and returns what it prints. Raises KvscopeError with the program's own line."""
    path = find()
    try:
        out = subprocess.run([path, *arguments], capture_output=True, text=True, env=environment())
    except OSError as error:
        raise KvscopeError(f"{path}: {error.strerror}", file="kvscope", hint="KVSCOPE names the program") from None
    if out.returncode != 0:
        lines = [line for line in out.stderr.splitlines() if line.strip()] or [f"exit code {out.returncode}"]
        raise KvscopeError(lines[-1].removeprefix("error: "), file="kvscope " + arguments[0])
    return out.stdout


def main() -> int:
    """Becomes the program. Returns an exit code only if there is none."""
    try:
        path = find()
        os.execve(path, ["kvscope", *sys.argv[1:]], environment())
    except KvscopeError as error:
        print(f"error: {error.line()}", file=sys.stderr)
    except OSError as error:
        print(f"error: kvscope: {path}: {error.strerror}; hint: KVSCOPE names the program", file=sys.stderr)
    return 3
