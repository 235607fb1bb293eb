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
import queue
import re
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from lies import LIES

HERE = Path(__file__).parent
SKIPPED = 4
PATIENCE = 300  # seconds between two events, on a busy machine too
SHORT_PATIENCE = 15  # at least, for lies that a time limit reports: several times what the greeting took
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


def suite(asked, engine, lie, patience):
    """The lines of the suite as they come, and at last its exit code. engine: the command of the honest engine."""
    proxy = [sys.executable, str(HERE / "lying_engine.py"), lie, "--", *engine]
    command = [asked.kvscope, "doctor", "--conformance", "--model", asked.model, "--engine", shlex.join(proxy)]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        errors="replace",
        env={**os.environ, "KVSCOPE_ENGINE_TIMEOUT": str(patience)},
    )
    try:
        yield from process.stdout
        yield process.wait(MOST_SECONDS)
    finally:
        process.stdout.close()
        process.terminate()
        process.wait()


def check_honest(asked):
    """What is wrong with the report on the engine as it is (empty: nothing), and how many seconds its greeting took."""
    start, greeted, bad, code = time.monotonic(), 0.0, [], None
    for line in suite(asked, asked.engine, "none", PATIENCE):
        greeted = greeted or time.monotonic() - start
        if isinstance(line, int):
            code = line
            continue
        print(line, end="", flush=True)
        bad += [line] if line.startswith("fails") else []
    return ("" if code == 0 and not bad else f"exit code {code}, {len(bad)} checks fail"), greeted


def kept_engines(asked, folder):
    """A queue of commands, each of an engine that serves one conversation after the other; and their processes."""
    commands, processes = queue.Queue(), []
    for i in range(asked.jobs):
        path, keeper = os.path.join(folder, str(i)), [sys.executable, str(HERE / "keep_engine.py")]
        processes.append(subprocess.Popen([*keeper, "serve", path, "--", *asked.engine], stdin=subprocess.DEVNULL))
        while not os.path.exists(path):
            if processes[-1].poll() is not None:
                sys.exit("the engine did not start")
            time.sleep(0.1)
        commands.put([*keeper, "connect", path])
    return commands, processes


def check_lie(asked, engines, name, short_patience):
    """What is wrong with the report on a lie (empty: nothing), and the line that reports it. Then the suite ends."""
    failed, code, engine = [], None, engines.get()
    try:
        for line in suite(asked, engine, name, short_patience if LIES[name].waits else PATIENCE):
            if isinstance(line, int):
                code = line
            elif line.startswith("fails"):
                failed.append(line)
                if re.search(LIES[name].told, line):
                    return "", line
    finally:
        engines.put(engine)
    wanted = f"expected a failing line with /{LIES[name].told}/; exit code {code}, {len(failed)} checks fail:\n"
    return wanted + "".join(failed), ""


def check_lies(asked, names, patience):
    """How many lies are not reported."""
    problems = 0
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(asked.jobs) as pool:
        engines, processes = kept_engines(asked, folder)
        try:
            found = pool.map(lambda name: check_lie(asked, engines, name, patience), names)
            for name, (why, line) in zip(names, found):
                problems += bool(why)
                print(f"{'NOT REPORTED' if why else 'reported'}  {name}: {LIES[name].sentence}")
                print(f"    {why or line.strip()}", flush=True)
        finally:
            for process in processes:
                process.terminate()
    return problems


def main():
    asked = arguments()
    missing = [name for name in asked.needs.split(",") if name and importlib.util.find_spec(name) is None]
    if missing:
        print(f"skipped: {sys.executable} has no {', '.join(missing)}")
        return SKIPPED
    names = [name for name in asked.only.split(",") if name] or [name for name in LIES if name != "none"]
    start = time.monotonic()
    why, greeted = check_honest(asked)
    if why:
        print(f"the honest engine: {why}")
        return 1
    problems = check_lies(asked, names, max(SHORT_PATIENCE, round(4 * greeted)))
    print(f"{len(names)} lies, {problems} not reported, {time.monotonic() - start:.0f} s")
    return int(problems > 0)


if __name__ == "__main__":
    sys.exit(main())
