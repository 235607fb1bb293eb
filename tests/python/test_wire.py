"""Messages: every value comes back, and nothing else is read."""

import io
import math
import random
import unittest

import numpy as np
import tiny  # noqa: F401  (the path)

from kvscope import cbor, wire
from kvscope.errors import KvscopeError


class Cbor(unittest.TestCase):
    def test_round_trip(self):
        values = [
            0,
            23,
            24,
            255,
            256,
            65535,
            65536,
            2**32,
            2**64 - 1,
            -1,
            -24,
            -(2**63),
            0.5,
            -1e300,
            True,
            False,
            None,
            "",
            "ä\u2581",
            b"",
            b"\x00\xff",
            [],
            {},
            {"a": [1, {"b": b"c"}]},
        ]
        for value in values:
            self.assertEqual(cbor.loads(cbor.dumps(value)), value)
        self.assertTrue(math.isnan(cbor.loads(cbor.dumps(math.nan))))

    def test_known_bytes(self):
        self.assertEqual(cbor.dumps({"a": 1, "b": [2, 3]}).hex(), "a26161016162820203")  # RFC 8949, appendix A
        self.assertEqual(cbor.loads(bytes.fromhex("f93c00")), 1.0)
        self.assertEqual(cbor.loads(bytes.fromhex("fa47c35000")), 100000.0)

    def test_refused(self):
        for text, why in (
            ("", "ends"),
            ("a1", "ends"),
            ("5f4100ff", "definite"),
            ("c001", "tag"),
            ("0000", "after its"),
            ("a2616101616102", "twice"),
            ("a10102", "key"),
            ("61ff", "UTF-8"),
            ("f7", "simple"),
            ("81" * 40 + "00", "deeper"),
            ("9b00000001" + "00" * 4, "ends"),
            ("1c", "definite"),
        ):
            with self.assertRaises(KvscopeError) as caught:
                cbor.loads(bytes.fromhex(text))
            self.assertIn(why, caught.exception.line(), text)

    def test_any_text(self):
        half = bytes.fromhex("61e2")
        self.assertEqual(cbor.loads(half, any_text=True), "\ufffd")
        self.assertEqual(cbor.loads(bytes.fromhex("63e282ac"), any_text=True), "\u20ac")

    def test_damaged(self):
        good, dice = wire.frame({"type": "x", "a": [1, 2.5, {"b": b"abc", "c": "d"}], "n": -7}), random.Random(1)
        for _ in range(2000):
            bad = bytearray(good)
            for _ in range(dice.randint(1, 3)):
                bad[dice.randrange(len(bad))] = dice.randrange(256)
            try:
                wire.read_frame(io.BytesIO(bytes(bad)))
            except KvscopeError:
                pass


class Frames(unittest.TestCase):
    def test_stream(self):
        data = wire.frame({"type": "a", "x": wire.f32([1, math.nan])}) + wire.frame({"type": "b"})
        stream = io.BytesIO(data)
        first = wire.read_frame(stream)
        np.testing.assert_array_equal(wire.read_f32(first, "x"), np.float32([1, np.nan]))
        self.assertEqual(wire.read_frame(stream), {"type": "b"})
        self.assertIsNone(wire.read_frame(stream))
        for cut in (2, 6, len(data) - 1):
            stream = io.BytesIO(data[:cut])
            with self.assertRaises(KvscopeError):
                while wire.read_frame(stream) is not None:
                    pass

    def test_pool(self):
        pieces = [b"a", b"", b"\xff\xfe"]
        self.assertEqual(wire.unpool(wire.pool(pieces)), pieces)
        self.assertEqual(wire.unpool(wire.pool([])), [])


if __name__ == "__main__":
    unittest.main()
