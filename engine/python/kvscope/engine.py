"""python -m kvscope.engine: an engine for the `kvscope` program over transformers.

    kvscope run MODEL --engine "python -m kvscope.engine" --policy top-k:budget=128 --prompt "..."
    kvscope MODEL     --engine "python -m kvscope.engine --method my.py:Mine"

It speaks the protocol over standard input and output. What models and methods print goes to standard error.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m kvscope.engine", description="KVScope engine over transformers, for kvscope --engine COMMAND"
    )
    parser.add_argument(
        "--method",
        action="append",
        default=[],
        metavar="FILE.py:NAME",
        help="your own score: a function, a class or a torch module; may be given several times",
    )
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:N, or map: spread over all devices")
    parser.add_argument("--dtype", default="auto", help="auto (float32 on the CPU), float32, bfloat16 or float16")
    parser.add_argument("--threads", type=int, default=0, metavar="N", help="CPU threads (default: torch's own choice)")
    parser.add_argument("--no-kvpress", action="store_true", help="do not import kvpress")
    parser.add_argument(
        "--presses", action="store_true", help="list kvpress' presses, and why some cannot run, and exit"
    )
    return parser.parse_args(argv)


def _take_stdout() -> tuple:
    """The two streams of the conversation. Prints of other code go to standard error from here on."""
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    source = os.fdopen(os.dup(0), "rb", buffering=0)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    return source, sink


def _list_presses() -> int:
    from .presses import find_presses

    for press in find_presses():
        print(f"{press.policy.name}: {press.refusal or 'runs'}")
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code: 0 at the end of the conversation, 1 for arguments that cannot be used."""
    arguments = _arguments(argv)
    if arguments.presses:
        return _list_presses()
    source, sink = _take_stdout()
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    try:
        import torch
        import transformers
    except ImportError as error:
        print(f"error: {error}; hint: pip install 'kvscope[torch]'", file=sys.stderr)
        return 1
    from . import __version__, attention
    from .catalog import Catalog
    from .errors import KvscopeError
    from .methods import load_method
    from .server import Server
    from .wire import PROTOCOL_VERSION, Channel

    if arguments.threads > 0:
        torch.set_num_threads(arguments.threads)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    try:
        catalog = Catalog([load_method(text) for text in arguments.method], [] if arguments.no_kvpress else None)
    except KvscopeError as error:
        print(f"error: {error.line()}", file=sys.stderr)
        return 1
    attention.register()
    channel, cuda = Channel(source, sink), torch.cuda.is_available()
    channel.send(
        {
            "type": "hello",
            "version": PROTOCOL_VERSION,
            "engine": __version__,
            "torch": torch.__version__,
            "cuda": cuda,
            "device": f"cuda:0 {torch.cuda.get_device_name(0)}" if cuda else "cpu",
            "gpus": torch.cuda.device_count() if cuda else 0,
            **catalog.describe(),
        }
    )
    code = Server(channel, catalog, arguments.device, arguments.dtype).serve()
    sys.stderr.flush()
    os._exit(code)  # threads of libraries must not keep the process


if __name__ == "__main__":
    sys.exit(main())
