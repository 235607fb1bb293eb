"""samples/recipes/reasoner/pack.py: which rows of an embedding become one, and what the archive has."""

import json
import struct
import subprocess
import sys
import tarfile
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "samples/recipes/reasoner/pack.py"
WIDTH, NAME = 8, "model.embed_tokens.weight"


def half(value):
    """bfloat16 bits of a number that has them exactly."""
    return struct.unpack("<I", struct.pack("<f", value))[0] >> 16


def weights(rows):
    """A file of one embedding and one other tensor."""
    data = b"".join(struct.pack(f"<{WIDTH}H", *map(half, row)) for row in rows)
    other = struct.pack("<4H", *map(half, (1, 2, 3, 4)))
    entry = {"dtype": "BF16", "shape": [len(rows), WIDTH], "data_offsets": [0, len(data)]}
    rest = {"dtype": "BF16", "shape": [4], "data_offsets": [len(data), len(data) + len(other)]}
    head = json.dumps({NAME: entry, "other": rest}).encode()
    return struct.pack("<Q", len(head)) + head + data + other, len(head) + 8


# Tokens 0 and 3 are used; the others moved together, 5 farther than the rest.
ROWS = [[4] * WIDTH] + [[0.5 + 0.0078125 * i] * WIDTH for i in range(2)] + [[-3] * WIDTH] + [[0.5] * WIDTH, [0.625] * WIDTH, [0.5] * WIDTH]


class Pack(unittest.TestCase):
    def pack(self, rows):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = Path(folder.name)
        blob, begin = weights(rows)
        (path / "model").mkdir()
        (path / "model/model.safetensors").write_bytes(blob)
        done = subprocess.run([sys.executable, str(SCRIPT), str(path / "model"), str(path / "m")], capture_output=True, text=True)
        return done, path / "m-weights.tar.xz", blob, begin

    def test_unused_rows_become_the_middle_one_and_all_else_stays(self):
        done, packed, blob, begin = self.pack(ROWS)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("5 rows of the embedding are one", done.stdout)
        with tarfile.open(packed) as archive:
            self.assertEqual(archive.getnames(), ["model.safetensors"])
            found = archive.extractfile("model.safetensors").read()
        row = lambda data, i: data[begin + 2 * WIDTH * i : begin + 2 * WIDTH * (i + 1)]
        middle = struct.pack(f"<{WIDTH}H", *[half(0.5)] * WIDTH)
        for i in range(len(ROWS)):
            self.assertEqual(row(found, i), row(blob, i) if i in (0, 3) else middle, i)
        self.assertEqual(found[:begin], blob[:begin])
        self.assertEqual(found[begin + 2 * WIDTH * len(ROWS) :], blob[begin + 2 * WIDTH * len(ROWS) :])

    def test_a_row_that_is_neither_near_nor_far_is_an_error(self):
        done, packed, *_ = self.pack(ROWS + [[0.75] * WIDTH])  # 0.7 from the middle
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("neither near the middle nor far from it", done.stderr)
        self.assertFalse(packed.exists())


if __name__ == "__main__":
    unittest.main()
