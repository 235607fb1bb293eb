"""Executes the cells of a notebook in this process, without Jupyter, and writes their outputs into it.

    python tests/python/notebook.py docs/notebooks/own-method.ipynb

It needs the program (KVSCOPE, or in PATH), torch, transformers, kvpress, and what kvscope[notebook] brings. Files that
the cells write go into a temporary folder.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

FORMATS = (("image/svg+xml", "_repr_svg_"), ("text/html", "_repr_html_"))
MOST_HTML = 20_000
"""Longer HTML stays out: a notebook in a repository must be small."""


def lines(text: str) -> list[str]:
    """A text as notebooks store it."""
    return text.splitlines(keepends=True)


def shown(value: Any) -> dict[str, list[str]]:
    """What a notebook shows of a value: its picture, its table, and its repr()."""
    out = {"text/plain": lines(repr(value))}
    for kind, method in FORMATS:
        text = getattr(value, method, lambda: None)()
        if text and (kind != "text/html" or len(text) <= MOST_HTML):
            out[kind] = lines(text)
    return out


def run_cell(source: str, names: dict[str, Any], number: int) -> list[dict]:
    """The outputs of a cell: what it prints, and the value of its last line if that is an expression."""
    tree, printed, outputs = ast.parse(source, f"cell {number}"), io.StringIO(), []
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, f"cell {number}", "exec"), names)
        value = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), names) if last is not None else None
    if printed.getvalue():
        outputs.append({"output_type": "stream", "name": "stdout", "text": lines(printed.getvalue())})
    if value is not None:
        data = {"output_type": "execute_result", "execution_count": number, "metadata": {}, "data": shown(value)}
        outputs.append(data)
    return outputs


def execute(notebook: dict) -> dict:
    """The notebook with the outputs of all its code cells. Raises what a cell raises."""
    names: dict[str, Any] = {"__name__": "__main__"}
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            for number, cell in enumerate((c for c in notebook["cells"] if c["cell_type"] == "code"), 1):
                cell["outputs"] = run_cell("".join(cell["source"]), names, number)
                cell["execution_count"] = number
        finally:
            os.chdir(before)
    return notebook


def main() -> None:
    path = Path(sys.argv[1])
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "engine/python"))
    os.environ["PYTHONPATH"] = os.pathsep.join([sys.path[0], os.environ.get("PYTHONPATH", "")])
    notebook = execute(json.loads(path.read_text(encoding="utf-8")))
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
