#!/usr/bin/env python3
"""lies_test.py [--needs MODULE,...] [--only LIE,...] KVSCOPE MODEL -- ENGINE COMMAND...: `kvscope doctor --conformance`
passes for the engine, and reports each lie that lying_engine.py tells with it.

A lie is reported if a line that fails has the lie's words. Exit code 4 if the engine needs a module that is not
installed: a skipped test.
"""

import argparse
import concurrent.futures
import importlib.util
import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

from lies import LIES

SKIPPED = 4
PATIENCE, SHORT_PATIENCE = "60", "15"  # seconds; the short one is for lies that a time limit reports
MOST_SECONDS = 600  # of one run of the suite


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--needs", default="", help="modules, separated by commas")
    parser.add_argument("--only", default="", help="lies, separated by commas")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 1) // 2))
    parser.add_argument("kvscope")
    parser.add_argument("model")
    parser.add_argument("engine", nargs=argparse.REMAINDER)
    found = parser.parse_args()
    found.engine = found.engine[1:] if found.engine[:1] == ["--"] else found.engine
    return found


def suite(asked, lie):
    """The lines of the suite as they come, and at last its exit code."""
    proxy = [sys.executable, str(Path(__file__).parent / "lying_engine.py"), lie, "--", *asked.engine]
    command = [asked.kvscope, "doctor", "--conformance", "--model", asked.model, "--engine", shlex.join(proxy)]
    patience = SHORT_PATIENCE if LIES[lie].waits else PATIENCE
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        errors="replace",
        env={**os.environ, "KVSCOPE_ENGINE_TIMEOUT": patience},
    )
    try:
        yield from process.stdout
        yield process.wait(MOST_SECONDS)
    finally:
        process.stdout.close()
        process.terminate()
        process.wait()


def check_honest(asked):
    """What is wrong with the report on the engine as it is; empty: nothing."""
    *lines, code = suite(asked, "none")
    print("".join(lines), end="")
    bad = [line for line in lines if line.startswith("fails")]
    return "" if code == 0 and not bad else f"exit code {code}, {len(bad)} checks fail"


def check_lie(asked, name):
    """What is wrong with the report on a lie; empty: nothing. The suite is stopped when it has reported it."""
    failed, code = [], None
    for line in suite(asked, name):
        if isinstance(line, int):
            code = line
        elif line.startswith("fails"):
            failed.append(line)
            if re.search(LIES[name].told, line):
                return "", line
    wanted = f"expected a failing line with /{LIES[name].told}/; exit code {code}, {len(failed)} checks fail:\n"
    return wanted + "".join(failed), ""


def main():
    asked = arguments()
    missing = [name for name in asked.needs.split(",") if name and importlib.util.find_spec(name) is None]
    if missing:
        print(f"skipped: {sys.executable} has no {', '.join(missing)}")
        return SKIPPED
    names = [name for name in asked.only.split(",") if name] or [name for name in LIES if name != "none"]
    start, problems = time.monotonic(), 0
    why = "" if asked.only else check_honest(asked)
    if why:
        print(f"the honest engine: {why}")
        return 1
    with concurrent.futures.ThreadPoolExecutor(asked.jobs) as pool:
        for name, (why, line) in zip(names, pool.map(lambda name: check_lie(asked, name), names)):
            problems += bool(why)
            print(f"{'NOT REPORTED' if why else 'reported'}  {name}: {LIES[name].sentence}\n    {why or line.strip()}")
            sys.stdout.flush()
    print(f"{len(names)} lies, {problems} not reported, {time.monotonic() - start:.0f} s")
    return int(problems > 0)


if __name__ == "__main__":
    sys.exit(main())
