"""The notebook of the documentation: it has outputs, is small, and its cells run."""

import ast
import importlib.util
import json
import os
import re
import unittest
from pathlib import Path
from unittest import mock

import notebook
import tiny

from kvscope import program
from kvscope.errors import KvscopeError

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "samples/models/kvscope-tiny"
PACKAGES = ("h5py", "xarray", "pandas")


def code_cells(content):
    return [cell for cell in content["cells"] if cell["cell_type"] == "code"]


def why_not():
    """What the cells need and this machine has not."""
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if not tiny.HAS_KVPRESS or missing:
        return "needs torch, transformers, kvpress, " + ", ".join(PACKAGES)
    try:
        path = Path(program.find())
    except KvscopeError:
        return "needs the program: KVSCOPE names it"
    if not (path.parent / "kvscope-engine").exists():
        return "needs kvscope-engine next to the program"
    return "" if (MODEL / "model.safetensors").exists() else "needs kvscope-tiny, which the build unpacks"


class Notebook(unittest.TestCase):
    def setUp(self):
        self.text = (ROOT / "docs/notebooks/own-method.ipynb").read_text(encoding="utf-8")
        self.content = json.loads(self.text)

    def test_outputs(self):
        self.assertEqual(self.content["nbformat"], 4)
        self.assertLess(len(self.text.encode()), 300_000)
        self.assertIsNone(re.search(r"/(root|home|tmp|work)/", self.text), "a path of some machine")
        for number, cell in enumerate(code_cells(self.content), 1):
            last = ast.parse("".join(cell["source"])).body[-1]
            shows = isinstance(last, ast.Expr) or "print(" in "".join(cell["source"])
            self.assertEqual(bool(cell["outputs"]), shows, f"cell {number}")
            self.assertEqual(cell["execution_count"], number)
        kinds = [kind for cell in code_cells(self.content) for out in cell["outputs"] for kind in out.get("data", {})]
        self.assertEqual(kinds.count("image/svg+xml"), 2)

    def test_cells_run(self):
        if reason := why_not():
            self.skipTest(reason)
        path = os.pathsep.join([tiny.sys.path[0], os.environ.get("PYTHONPATH", "")])
        more = {"KVSCOPE_MODEL": str(MODEL), "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
        with mock.patch.dict(os.environ, more):
            found = code_cells(notebook.execute(json.loads(self.text)))
        for number, (cell, committed) in enumerate(zip(found, code_cells(self.content)), 1):
            kinds = [sorted(out.get("data", ["stream"])) for out in cell["outputs"]]
            self.assertEqual(kinds, [sorted(out.get("data", ["stream"])) for out in committed["outputs"]], number)

    def test_runner(self):
        class Picture:
            def _repr_svg_(self):
                return "<svg/>"

        names = {"Picture": Picture}
        self.assertEqual(notebook.run_cell("x = 1", names, 1), [])
        out = notebook.run_cell("print(x)\nx + 1", names, 2)
        self.assertEqual([one["output_type"] for one in out], ["stream", "execute_result"])
        self.assertEqual((out[0]["text"], out[1]["data"]["text/plain"]), (["1\n"], ["2"]))
        self.assertEqual(notebook.run_cell("Picture()", names, 3)[0]["data"]["image/svg+xml"], ["<svg/>"])
        with self.assertRaises(ZeroDivisionError):
            notebook.execute({"cells": [{"cell_type": "code", "source": ["1 / 0"]}]})


if __name__ == "__main__":
    unittest.main()
