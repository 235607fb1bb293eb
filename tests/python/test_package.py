"""The distribution: what `import kvscope` needs, how the program is found, and what the two wheels have."""

import email
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import numpy as np
import tiny  # noqa: F401  (the path)

import kvscope
from kvscope import program
from kvscope.errors import KvscopeError

ROOT = Path(__file__).resolve().parents[2]
MODULES = {file.name for file in (ROOT / "engine/python/kvscope").glob("*.py")} | {"py.typed"}
STUB = """#!/bin/sh
echo "program $*"
echo "fonts $KVSCOPE_FONTS $FONTCONFIG_FILE"
echo "python $KVSCOPE_PYTHON"
[ "$1" != fail ] || { echo "a note" >&2; echo "error: nothing works" >&2; exit 2; }
"""


def build_wheel():
    """cmake/wheel/build_wheel.py as a module."""
    spec = importlib.util.spec_from_file_location("build_wheel", ROOT / "cmake/wheel/build_wheel.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def stub(path):
    """A program that prints how it was started."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(STUB)
    path.chmod(0o755)
    return str(path)


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)


class Import(unittest.TestCase):
    def bare(self, code):
        """What Python prints without any installed package: no torch, no NumPy, no h5py."""
        command = [
            sys.executable,
            "-S",
            "-c",
            f"import sys; sys.path.insert(0, {str(program.PACKAGE.parent)!r}); {code}",
        ]
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout.strip()

    def test_needs_nothing(self):
        self.assertEqual(self.bare("import kvscope; print(kvscope.__version__)"), kvscope.__version__)
        self.assertEqual(self.bare("import kvscope.program, kvscope.__main__; print('torch' in sys.modules)"), "False")

    def test_a_missing_package_is_one_line(self):
        for name, extra in (("record", "torch"), ("open", "notebook"), ("Recording", "notebook")):
            code = f"import kvscope\ntry: kvscope.{name}\nexcept kvscope.KvscopeError as error: print(error.line())"
            line = self.bare(f"exec({code!r})")
            self.assertRegex(line, rf"^kvscope.{name}: (torch|numpy) is not installed; hint: pip install 'kvscope\[")
            self.assertIn("numpy" if extra == "notebook" else "", line)
            self.assertNotIn("\n", line)

    def test_one_version(self):
        built = re.search(r"project\(kvscope VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())[1]
        self.assertEqual(kvscope.__version__, built)


class Program(Folder):
    def find(self, path="", named="", package=None):
        environment = {"PATH": str(path), **({"KVSCOPE": named} if named else {})}
        with mock.patch.dict(os.environ, environment, clear=True):
            return program.find(package or self.folder / "none")

    def test_order(self):
        own, other = stub(self.folder / "kvscope/bin/kvscope"), stub(self.folder / "path/kvscope")
        package = self.folder / "kvscope"
        self.assertEqual(self.find(self.folder / "path", package=package), own)
        self.assertEqual(self.find(self.folder / "path"), other)
        self.assertEqual(self.find(self.folder / "path", named="/x/kvscope", package=package), "/x/kvscope")
        with self.assertRaises(KvscopeError) as caught:
            self.find(self.folder / "kvscope")
        self.assertIn("KVSCOPE", caught.exception.line())

    def test_the_console_script_does_not_start_itself(self):
        script, other = stub(self.folder / "a/kvscope"), stub(self.folder / "b/kvscope")
        with mock.patch.object(sys, "argv", [script]):
            self.assertEqual(self.find(f"{self.folder / 'a'}:{self.folder / 'b'}"), other)

    def test_run(self):
        with mock.patch.dict(os.environ, KVSCOPE=stub(self.folder / "kvscope")):
            self.assertEqual(program.run("a", "b c").splitlines()[0], "program a b c")
            with self.assertRaises(KvscopeError) as caught:
                program.run("fail")
            self.assertEqual(caught.exception.line(), "kvscope fail: nothing works")
        with mock.patch.dict(os.environ, KVSCOPE=str(self.folder / "gone")):
            with self.assertRaises(KvscopeError) as caught:
                program.run("a")
            self.assertIn("gone", caught.exception.line())


class ProgramWheel(Folder):
    """cmake/wheel: the modules with the program. The build itself is not made here."""

    def test_modules_and_program(self):
        package = self.folder / "kvscope"
        build_wheel().copy_modules(package)
        self.assertEqual({file.name for file in package.iterdir()}, MODULES)
        stub(package / "bin/kvscope")
        fonts = package / "share/kvscope/fonts"
        fonts.mkdir(parents=True)
        environment = {"PATH": "", "PYTHONPATH": str(self.folder)}
        out = subprocess.run(
            [sys.executable, "-m", "kvscope", "a", "b"], capture_output=True, text=True, check=True, env=environment
        ).stdout
        started = ["program a b", f"fonts {fonts} {fonts / 'fonts.conf'}", f"python {sys.executable}"]
        self.assertEqual(out.splitlines(), started)
        code = "import kvscope.program as p; print(p.run('figure'))"
        out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
        self.assertIn("program figure", out.stdout)

    def test_without_the_program(self):
        build_wheel().copy_modules(self.folder / "kvscope")
        environment = {"PATH": "", "PYTHONPATH": str(self.folder)}
        out = subprocess.run([sys.executable, "-m", "kvscope"], capture_output=True, text=True, env=environment)
        self.assertEqual((out.returncode, out.stdout, out.stderr.count("\n")), (3, "", 1))
        self.assertIn("docs/install.md", out.stderr)

    def test_metadata(self):
        found = email.message_from_string(build_wheel().metadata("1.2.3", "2.11"))
        self.assertEqual((found["Name"], found["Version"], found["Requires-Python"]), ("kvscope", "1.2.3", ">=3.10"))
        extras = found.get_all("Provides-Extra")
        self.assertEqual(extras, ["engine", "torch", "kvpress", "notebook"])
        needs = found.get_all("Requires-Dist")
        self.assertIn('torch==2.11.*; extra == "engine"', needs)
        for name in ("torch", "transformers"):
            self.assertTrue(any(need.startswith(name + ">=") and need.endswith('"torch"') for need in needs), needs)
        self.assertTrue(all("; extra ==" in need for need in needs), "the viewer installs without a network")

    def test_console_scripts(self):
        lines = build_wheel().entry_points().splitlines()
        self.assertEqual(lines[:2], ["[console_scripts]", "kvscope = kvscope.program:main"])
        for line in lines[1:]:
            module, function = line.split(" = ")[1].split(":")
            self.assertTrue(callable(getattr(importlib.import_module(module), function)))


@unittest.skipUnless(importlib.util.find_spec("setuptools"), "needs setuptools")
class PureWheel(Folder):
    """engine/python/pyproject.toml: the modules alone, built as pip builds them, but not packed."""

    def test_modules(self):
        source = self.folder / "python"  # setuptools writes next to the sources
        build_wheel().copy_modules(source / "kvscope")
        for name in ("pyproject.toml", "README.md"):
            (source / name).write_bytes((ROOT / "engine/python" / name).read_bytes())
        command = [sys.executable, "-c", "import setuptools; setuptools.setup()", "--quiet"]
        command += ["build", "--build-lib", "lib", "egg_info"]
        subprocess.run(command, cwd=source, check=True, capture_output=True)
        self.assertEqual({file.name for file in (source / "lib/kvscope").iterdir()}, MODULES)
        info = source / "kvscope.egg-info"
        facts = email.message_from_string((info / "PKG-INFO").read_text())
        self.assertEqual((facts["Name"], facts["Version"]), ("kvscope", kvscope.__version__))
        scripts = (info / "entry_points.txt").read_text()
        self.assertIn("kvscope.engine:main", scripts)
        self.assertNotRegex(scripts, r"(?m)^kvscope\s*=")  # it would hide the program of another installation


@unittest.skipUnless(importlib.util.find_spec("h5py"), "needs h5py")
class Traces(unittest.TestCase):
    def setUp(self):
        try:
            path = program.find()
        except KvscopeError:
            self.skipTest("needs the program: KVSCOPE names it")
        with mock.patch.dict(os.environ, KVSCOPE=path):
            self.trace = kvscope.open(ROOT / "tests/core/golden/trace-v7.h5")
        self.addCleanup(self.trace.close)

    def test_a_figure_of_the_program(self):
        figure = self.trace.figure("spkv-fig4")
        self.assertIn("<svg", figure._repr_svg_())
        self.assertGreater(len(figure.svg), 1000)
        self.assertIn("runs", self.trace.inspect())

    def test_neither_trace_nor_study(self):
        with tempfile.TemporaryDirectory() as folder:
            import h5py

            path = os.path.join(folder, "a.h5")
            h5py.File(path, "w").close()
            for name, why in ((path, "neither"), (__file__, "expected a trace"), (path + "x", "no such file")):
                with self.assertRaises(KvscopeError) as caught:
                    kvscope.open(name)
                self.assertIn(why, caught.exception.line())

    def test_no_such_figure(self):
        with self.assertRaises(KvscopeError) as caught:
            self.trace.figure("no-such-figure")
        self.assertIn("no-such-figure", caught.exception.line())


@unittest.skipUnless(importlib.util.find_spec("h5py"), "needs h5py")
class Studies(Folder):
    """A study as kvscope writes one (docs/reference/studies.md)."""

    def test_study(self):
        import h5py

        path = self.folder / "s.h5"
        with h5py.File(path, "w", track_order=True) as file:
            file.attrs.update(format=np.bytes_("kvscope-study"), version=1, kind=np.bytes_("sweep"))
            file["request"], file["facts"] = np.bytes_('{"a": 1}'), np.bytes_('{"program": "kvscope"}')
            points = file.create_group("point", track_order=True)
            points["policy"] = np.array([b"full", b"streaming"])
            points["nll"] = np.array([2.5, np.nan])
            points["nll"].attrs.update(units=np.bytes_("nats/token"), meaning=np.bytes_("mean"))
            file["array/piece_nll"] = np.arange(6.0).reshape(2, 3)
            file["array/piece_nll"].attrs["axes"] = np.array([b"point", b"piece"])
        with kvscope.open(path) as study:
            self.assertEqual((study.kind, len(study), study.columns), ("sweep", 2, ["policy", "nll"]))
            self.assertEqual((study.request, study.facts["program"]), ({"a": 1}, "kvscope"))
            self.assertEqual(study.meaning("nll"), "mean (nats/token)")
            self.assertEqual(study.axes("piece_nll"), ["point", "piece"])
            self.assertEqual(study.array("piece_nll").shape, (2, 3))
            with self.assertRaises(KvscopeError) as caught:
                study.column("x")
            self.assertIn("policy, nll, piece_nll", caught.exception.line())
            if importlib.util.find_spec("pandas"):
                table = study.to_pandas()
                self.assertEqual((list(table.columns), table.policy[1]), (["policy", "nll"], "streaming"))


if __name__ == "__main__":
    unittest.main()
