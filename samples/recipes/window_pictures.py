#!/usr/bin/env python3
"""Makes the pictures of the window in README and docs/, of the real model, each by a script of commands.

    samples/recipes/window_pictures.py [NAME ...]     (all; Python's standard library, xvfb-run, build/release/bin/kvscope or $KVSCOPE)

They are looked at, not compared: what the model answers may differ from one machine to another. Two minutes on two cores.
"""
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from gallery import PROGRAM, ROOT, read_png, write_png

COLOURS = 110
NEEDLE = "The secret code of the amber falcon is 48213."
QUESTION = {"path": "samples/prompts/chat/1-question.txt", "chat": True}


def needle_prompt():
    """Half a page of documentation with a code in it, and the question for it behind."""
    lines = (ROOT / "samples/prompts/heldout.txt").read_text().splitlines()[39:84]
    return "\n".join([*lines[:27], NEEDLE, "", *lines[27:], "", "What is the secret code of the amber falcon?"])


def ready(**more):
    return {"query": "wait", "until": {"/model": {"not": None}, "/engine": "ready", **more}, "timeout": 300}


def done(run):
    return {"query": "wait", "until": {f"/{run}/status": "complete", "/running": False}, "timeout": 600}


def command(name, **arguments):
    return {"command": name, "args": arguments}


def answered(prompt, policy, metric, layer, kv_head, token, length=64, **gate):
    return [ready(), command("prompt.set", **prompt), command("run.max_tokens", n=length),
            command("policy.set", policy=policy, **gate), ready(), command("run.start"), done("a"), ready(),
            command("view.metric", metric=metric),
            command("selection.set", layer=layer, kv_head=kv_head, token=token)]


def narrow(steps):
    """Without the inspector."""
    return [*steps, command("view.right")]


POOLED = {"gate": "kvpop-pooled"}
FALCON = {"text": needle_prompt(), "chat": True}
# falcon.txt of docs/tutorial.md
TUTORIAL = {"text": needle_prompt().replace(NEEDLE + "\n", NEEDLE) + "\n", "chat": True}
# name -> size of the window, what is done
PARTS = {"head-board": (6, 369, 1394, 735)}  # left, top, right, bottom, of the main row
PICTURES = {
    "tutorial": ("1440x900", answered(TUTORIAL, "full", "density", 8, 0, 363, 24) + [
        command("policy.set", policy="h2o:keep=25%,window=32"), ready(), command("run.replay"), done("b"), ready(),
        command("run.swap"), command("view.colour_oracle"),
        command("selection.set", layer=8, kv_head=0, token=363), ready()]),
    "window": ("1440x900", [*answered(FALCON, "kvpop:keep=25%", "recall", 8, 0, 363, **POOLED), ready(),
                            command("selection.set", token=352), ready(), command("selection.set", token=363), ready()]),
    "smollm2-streaming": ("1100x900", narrow(answered(QUESTION, "streaming:sinks=4,window=54", "recall", 12, 1, 70))),
    "smollm2-h2o": ("1100x900", narrow(answered(QUESTION, "h2o:keep=25%,window=32", "recall", 12, 1, 70))),
    "smollm2-snapkv": ("1100x900", narrow(answered(QUESTION, "snapkv:keep=25%,window=16", "recall", 12, 1, 70))),
    "smollm2-kvpop": ("1100x900", answered(FALCON, "kvpop:keep=25%", "density", 20, 1, 361, **POOLED)),
    "smollm2-sp-kv": ("1100x900", narrow(answered(FALCON, "sp-kv", "density", 12, 1, 200))),
    "smollm2-wg-kv": ("1100x900", narrow(answered(FALCON, "wg-kv", "density", 12, 1, 200))),
    "smollm2-dms": ("1100x900", narrow(answered(FALCON, "dms", "density", 12, 1, 200))),
    "head-board": ("1400x900", answered(FALCON, "sp-kv", "density", 12, 1, 200, 40) + [
        command("layout.allocate"), command("view.left"),
        command("board.d", share=0.25), command("board.measure"),
        {"query": "wait", "until": {"/b/status": "complete", "/running": False}, "timeout": 600}, ready()]),
}
# name -> centres of the circles with 1, 2, 3, which the text under the picture explains
CALLOUTS = {"window": [(720, 89), (640, 394), (1260, 89)]}
DIGITS = ["00100 01100 00100 00100 00100 00100 01110", "01110 10001 00001 00010 00100 01000 11111",
          "11110 00001 00001 01110 00001 00001 11110"]


def draw_callout(rows, digit, x0, y0, radius=12, orange=(240, 165, 40), dark=(20, 20, 20)):
    for y in range(-radius, radius + 1):
        for x in range(-radius, radius + 1):
            if x * x + y * y <= radius * radius:
                rows[y0 + y][x0 + x] = orange
    for y, line in enumerate(digit.split()):
        for x, bit in enumerate(line):
            for dy, dx in [(0, 0), (0, 1), (1, 0), (1, 1)] if bit == "1" else []:
                rows[y0 - 7 + 2 * y + dy][x0 - 5 + 2 * x + dx] = dark


def make(name, folder):
    size, steps = PICTURES[name]
    picture = folder / f"{name}.png"
    script = folder / f"{name}.json"
    script.write_text(json.dumps([*steps, command("app.screenshot", path=str(picture))]))
    home = {f"XDG_{kind}_HOME": str(folder / name / kind.lower()) for kind in ("CONFIG", "STATE")}
    subprocess.run(["xvfb-run", "-a", "-s", "-screen 0 1600x1000x24", PROGRAM, "--size", size, "--script", str(script), "--exit"],
                   cwd=ROOT, env={**os.environ, **home}, check=True)
    rows = read_png(picture.read_bytes())
    for digit, (x, y) in zip(DIGITS, CALLOUTS.get(name, [])):
        draw_callout(rows, digit, x, y)
    if name in PARTS:
        left, top, right, bottom = PARTS[name]
        rows = [row[left:right] for row in rows[top:bottom]]
    write_png(ROOT / "docs" / f"{name}.png", rows, COLOURS)


def main():
    names = sys.argv[1:] or list(PICTURES)
    if unknown := [name for name in names if name not in PICTURES]:
        sys.exit(f"window_pictures: {unknown[0]} is none of {', '.join(PICTURES)}")
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            print(name, flush=True)
            make(name, Path(folder))


if __name__ == "__main__":
    main()
