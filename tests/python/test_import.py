"""kvscope import of a recording as arrays: the trace of its messages, and one line for all that is wrong."""

import io
import json
import os
import stat
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path
from unittest import mock

import damaged_arrays
import numpy as np
from test_recording import example

from kvscope import program, recording_arrays
from kvscope.errors import KvscopeError
from kvscope.recording import UNDECIDED, Recording


def has_program():
    try:
        program.find()
    except KvscopeError:
        return False
    return True


class Folder(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def write(self, change, name="a.npz"):
        """The example's arrays, as `change` left them."""
        example().save(self.path("good.npz"))
        with zipfile.ZipFile(self.path("good.npz")) as archive:
            members = {one: archive.read(one) for one in archive.namelist()}
        change(members)
        with zipfile.ZipFile(self.path(name), "w") as archive:
            for one, data in members.items():
                archive.writestr(one, data)
        return self.path(name)


class Arrays(Folder):
    def line(self, change):
        with self.assertRaises(KvscopeError) as caught:
            Recording.load(self.write(change))
        return caught.exception.line()

    @staticmethod
    def npy(array, **more):
        out = io.BytesIO()
        np.lib.format.write_array(out, np.asanyarray(array), **more)
        return out.getvalue()

    def meta(self, **more):
        def change(members):
            meta = json.loads(str(np.load(io.BytesIO(members["meta.npy"]))))
            members["meta.npy"] = self.npy(json.dumps({**meta, **more}))

        return change

    def test_a_file_of_a_stranger_is_refused_by_the_name_of_its_array(self):
        big = self.npy(np.zeros(4, np.float32)).replace(b"(4,), }", b"(1099511627776,), }"[:20])
        for change, why in (
            (lambda m: m.pop("ids.npy"), "ids: no such array"),
            (lambda m: m.update({"score.npy": m["scores.npy"]}), "score: an array of this name"),
            (lambda m: m.update({"ids.npy": self.npy(np.arange(30) + 0.5)}), "ids: an array of float64"),
            (lambda m: m.update({"ids.npy": self.npy(np.array([{}], object))}), "ids: an array of object"),
            (lambda m: m.update({"ids.npy": m["ids.npy"][:-4]}), "ids: 116 bytes"),
            (lambda m: m.update({"scores.npy": big}), "scores: "),
            (lambda m: m.update({"ids.npy": self.npy(np.zeros((5, 6), int))}), "ids: shape (5, 6)"),
            (lambda m: m.update({"piece_ends.npy": self.npy(np.arange(30)[::-1])}), "piece_ends"),
            (self.meta(version=2), "meta"),
            (self.meta(prompt_len="20"), 'meta.prompt_len: "20"; expected int'),
            (self.meta(layers=7), "meta.layers: 7"),
        ):
            with self.subTest(why):
                self.assertIn(why, self.line(change))

    def test_more_than_the_limit_is_not_unpacked(self):
        with mock.patch.object(recording_arrays, "MOST_BYTES", 1000):
            self.assertIn("at most 1000", self.line(lambda members: None))

    def test_a_pickle_is_not_loaded(self):
        out = self.npy(np.array([{}], object), allow_pickle=True)
        self.assertIn("an array of object", self.line(lambda members: members.update({"meta.npy": out})))

    def test_either_file_becomes_the_other(self):
        for name in ("a.kvs", "a.npz"):
            example().save(self.path(name))
        command = [sys.executable, "-m", "kvscope.recording_files"]
        environment = {**os.environ, "PYTHONPATH": str(Path(program.__file__).parents[1])}
        subprocess.run([*command, self.path("a.npz"), self.path("b.kvs")], check=True, env=environment)
        subprocess.run([*command, self.path("a.kvs"), self.path("b.npz")], check=True, env=environment)
        shown = subprocess.run([*command, self.path("b.npz"), "-"], check=True, env=environment, capture_output=True)
        messages = Path(self.path("a.kvs")).read_bytes()
        self.assertEqual(Path(self.path("b.kvs")).read_bytes(), messages)
        self.assertGreater(len(shown.stdout), len(messages) - 1000)  # the model of a .kvs file has all its fields


@unittest.skipUnless(has_program(), "needs the program: KVSCOPE names it")
class Import(Folder):
    def run_import(self, name, python=sys.executable):
        command = [program.find(), "import", self.path(name), "-o", self.path(name + ".h5")]
        environment = {**program.environment(), "KVSCOPE_PYTHON": python}
        return subprocess.run(command, capture_output=True, text=True, env=environment)

    def test_arrays_give_the_trace_of_the_messages(self):
        try:
            import h5py
        except ImportError:
            self.skipTest("needs h5py")
        for name in ("a.kvs", "a.npz"):
            example().save(self.path(name))
            found = self.run_import(name)
            self.assertEqual((found.returncode, found.stdout), (0, ""), found.stderr)
            self.assertIn("30 tokens, 2 layers of 3 KV heads, recorded by test 1", found.stderr)
        with h5py.File(self.path("a.kvs.h5")) as messages, h5py.File(self.path("a.npz.h5")) as arrays:
            names = self.names(messages)
            self.assertEqual(self.names(arrays), names)
            for name in names:
                np.testing.assert_array_equal(arrays[name][()], messages[name][()], name)
            found = arrays["heads/evict_at"][()]
        np.testing.assert_array_equal(np.minimum(found, UNDECIDED), np.minimum(example().evict_at, UNDECIDED))

    @staticmethod
    def names(file):
        """Those of its arrays."""
        found = []
        file.visititems(lambda name, item: found.append(name) if hasattr(item, "shape") else None)
        return found

    def test_what_is_missing_is_one_line(self):
        example().save(self.path("a.npz"))
        python = self.path("python")
        lines = "Traceback (most recent call last):\n  File x\nModuleNotFoundError: No module named 'numpy'"
        for script, why in (
            (None, "No such file"),
            (
                f'echo "{lines}" >&2; exit 1',
                "a.npz: ModuleNotFoundError: No module named 'numpy'; hint: KVSCOPE_PYTHON",
            ),
            ("kill -9 $$", "a.npz: Python ended: killed by signal 9"),
        ):
            if script is not None:
                Path(python).write_text(f"#!/bin/sh\n{script}\n")
                os.chmod(python, stat.S_IRWXU)
            found = self.run_import("a.npz", python)
            self.assertEqual((found.returncode, found.stderr.count("\n")), (3, 1), found.stderr)
            self.assertIn(why, found.stderr)
            self.assertNotIn("a.npz.h5", os.listdir(self.folder.name))

    def test_a_file_that_is_not_there_or_no_archive_is_one_line(self):
        Path(self.path("b.npz")).write_text("some notes")
        for name, why in (("none.npz", "none.npz: "), ("b.npz", "b.npz: BadZipFile: File is not a zip file")):
            found = self.run_import(name)
            self.assertEqual((found.returncode, found.stderr.count("\n")), (2, 1), found.stderr)
            self.assertIn(why, found.stderr)

    def test_damaged_arrays_are_refused_in_one_line(self):
        example().save(self.path("a.npz"))
        refused = damaged_arrays.check(Path(self.path("a.npz")).read_bytes(), 20)
        self.assertGreater(refused, 10)


if __name__ == "__main__":
    unittest.main()
