"""Compares KVScope with kvpress on three models and writes docs/kvpress.md.

    python tests/python/kvpress_check --engine build/release/bin/kvscope-engine

It needs kvpress, the SmolLM2 that ./setup fetches, and kvscope-tiny, which the build unpacks.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_DATASETS_OFFLINE", "1")
ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "engine/python"))


def main() -> None:
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    parser = argparse.ArgumentParser(prog="python tests/python/kvpress_check", description=__doc__.split("\n")[0])
    parser.add_argument("--engine", default=str(ROOT / "build/release/bin/kvscope-engine"), help="KVScope's own engine")
    parser.add_argument("--smollm2", type=Path, default=cache / "kvscope/models/smollm2-135m", help="its folder")
    parser.add_argument("--tokens", type=int, default=384, help="length of each prompt")
    parser.add_argument("--budgets", default="96,192,288", help="in tokens")
    parser.add_argument("-o", type=Path, default=ROOT / "docs/kvpress.md", help="the page to write")
    arguments = parser.parse_args()

    import torch
    import transformers

    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    from measure import Check, engines
    from models import TINY, random_llama, subject
    from page import page
    from presses import ANSWER, try_presses

    started, n = time.perf_counter(), arguments.tokens
    budgets = [int(text) for text in arguments.budgets.split(",")]
    tables, same = {}, {}
    with tempfile.TemporaryDirectory() as name, engines(arguments.engine, Path(name)) as both:
        folder, starts = Path(name), [0, 4000, 9000]
        llama = random_llama(folder / "random-llama")
        subjects = [
            subject("SmolLM2-135M-Instruct", "Llama", arguments.smollm2, starts, n),
            subject("kvscope-tiny", "Qwen3", TINY, starts, n),
            subject("Random Llama", "Llama, random weights (seed 0)", llama, starts, n),
        ]
        for one in subjects:
            check = Check(one, budgets, both, folder)
            tables[one.name] = check.rows()
            same[one.name] = check.same_rule(budgets[0], ANSWER)
            print(f"{one.name}: {time.perf_counter() - started:.0f} s", file=sys.stderr)
        presses = try_presses(subjects[1], both["python"])
        names = [both[name].name for name in ("ours", "python")]
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    seconds = sum(one.ru_utime + one.ru_stime for one in used)
    text = page(subjects, budgets, n, tables, same, presses, names, seconds)
    arguments.o.write_text(text)
    print(f"{arguments.o}: {time.perf_counter() - started:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
