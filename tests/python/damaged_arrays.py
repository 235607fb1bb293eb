"""Damaged recordings as arrays, each imported by the program: one line and no trace, or a whole run.

KVSCOPE=build/release/bin/kvscope python tests/python/damaged_arrays.py [COUNT]
"""

from __future__ import annotations

import io
import os
import random
import subprocess
import sys
import tempfile
import zipfile

import tiny  # finds the package

from kvscope import program


def damage(data: bytes, dice: random.Random) -> bytes:
    """Half of the time in the archive's own bytes, else in those of an array, whose checksum is then right."""
    if dice.random() < 0.5:
        bad = bytearray(data[: dice.choice([len(data), dice.randrange(len(data))])])
        for _ in range(3):
            if bad:
                bad[dice.randrange(len(bad))] ^= 1 << dice.randrange(8)
        return bytes(bad)
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as archive, zipfile.ZipFile(out, "w") as copy:
        names = archive.namelist()
        hit = dice.choice(names)
        for name in names:
            member = bytearray(archive.read(name))
            if name == hit:
                end = len(member) if dice.random() < 0.5 else min(len(member), 128)  # 128: the header alone
                for _ in range(dice.randrange(1, 4)):
                    member[dice.randrange(end)] = dice.randrange(256)
                member = member[: dice.choice([len(member), len(member), dice.randrange(len(member))])]
            if name != hit or dice.random() < 0.9:
                copy.writestr(name, bytes(member))
    return out.getvalue()


def check(good: bytes, count: int, seed: int = 3) -> int:
    """How many of `count` damaged copies were refused. Raises AssertionError for one that was not refused properly."""
    dice, refused = random.Random(seed), 0
    environment = {**program.environment(), "KVSCOPE_PYTHON": sys.executable}
    with tempfile.TemporaryDirectory() as folder:
        source, target = os.path.join(folder, "a.npz"), os.path.join(folder, "a.h5")
        for number in range(count):
            with open(source, "wb") as file:
                file.write(damage(good, dice))
            command = [program.find(), "import", source, "-o", target, "--quiet"]
            found = subprocess.run(command, capture_output=True, text=True, env=environment)
            lines, files = found.stderr.splitlines(), sorted(os.listdir(folder))
            if found.returncode == 0:
                assert files == ["a.h5", "a.npz"] and not lines, (number, files, lines)
                os.unlink(target)
                continue
            refused += 1
            assert found.returncode == 2, (number, found.returncode, lines)
            assert len(lines) == 1 and lines[0].startswith("error: "), (number, lines)
            assert "a.npz" in lines[0] and len(lines[0]) <= 400, (number, lines)
            assert files == ["a.npz"] and not found.stdout, (number, files)
    return refused


def main() -> None:
    from test_recording import example

    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "good.npz")
        example().save(path)
        with open(path, "rb") as file:
            good = file.read()
    print(f"Done: {count} damaged files, {check(good, count)} refused in one line, the others whole runs")


assert tiny  # imported for what it does

if __name__ == "__main__":
    main()
