"""Starts KVScope's program with what the wheel brings: fonts, and X11's library where the system has none."""
import ctypes
import os
import sys
from pathlib import Path

HERE = Path(__file__).parent


def main():
    fonts = HERE / "share/kvscope/fonts"
    os.environ.setdefault("KVSCOPE_FONTS", str(fonts))
    os.environ.setdefault("FONTCONFIG_FILE", str(fonts / "fonts.conf"))
    try:
        ctypes.CDLL("libX11.so.6")
    except OSError:  # no display here; commands work without one, but the program does not load without the library
        paths = [str(HERE / "lib/x11"), os.environ.get("LD_LIBRARY_PATH")]
        os.environ["LD_LIBRARY_PATH"] = os.pathsep.join(path for path in paths if path)
    os.execv(HERE / "bin/kvscope", ["kvscope", *sys.argv[1:]])


if __name__ == "__main__":
    main()
