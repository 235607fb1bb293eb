#!/usr/bin/env python3
"""Packs a model of this recipe for the repository: MODEL, a folder of `kvscope train`, becomes OUT-weights.tar.xz.

    python3 samples/recipes/reasoner/pack.py MODEL samples/models/kvscope-reasoner

Its problems contain a few hundred of the tokenizer's 4,096 tokens. Training moved the embeddings of all others together, so each of them
becomes the row in their middle. No problem reads such a row, and the model has learned never to write one. Needs nothing but Python.
"""
import array
import io
import json
import lzma
import pathlib
import struct
import sys
import tarfile

EMBEDDING = 'model.embed_tokens.weight'
NEAR = 0.5  # rows of the problems' tokens are 1.5 or more from the middle row, all others 0.3 or less
# Weights of 2 bytes: the second byte, sign and exponent, depends on the one two before. 5 % smaller than xz -9e.
FILTERS = [{'id': lzma.FILTER_LZMA2, 'preset': 9 | lzma.PRESET_EXTREME, 'lc': 3, 'lp': 1, 'pb': 1}]


def numbers(data):
    """float32 values of bfloat16 bits."""
    halves = array.array('H', data)
    return array.array('f', struct.pack(f'<{len(halves)}I', *(bits << 16 for bits in halves)))


def merge_unused(blob):
    """The file with one row for all tokens that no problem contains, and how many these are."""
    head = struct.unpack('<Q', blob[:8])[0]
    entry = json.loads(blob[8:8 + head])[EMBEDDING]
    rows, width = entry['shape']
    begin = 8 + head + entry['data_offsets'][0]
    values = numbers(blob[begin:begin + 2 * rows * width])
    table = [values[i * width:(i + 1) * width] for i in range(rows)]
    middle = [sorted(row[c] for row in table)[rows // 2] for c in range(width)]
    far = [sum((x - m) ** 2 for x, m in zip(row, middle)) ** 0.5 for row in table]
    unused = [i for i in range(rows) if far[i] < NEAR]
    if any(NEAR <= distance < 2 * NEAR for distance in far):
        sys.exit('pack: some rows are neither near the middle nor far from it; look at them first')
    nearest = min(unused, key=lambda i: far[i])
    bits = blob[begin + 2 * nearest * width:begin + 2 * (nearest + 1) * width]
    out = bytearray(blob)
    for i in unused:
        out[begin + 2 * i * width:begin + 2 * (i + 1) * width] = bits
    return bytes(out), len(unused)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    model, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    blob, unused = merge_unused((model / 'model.safetensors').read_bytes())
    packed = pathlib.Path(f'{out}-weights.tar.xz')
    member = tarfile.TarInfo('model.safetensors')
    member.size, member.mode = len(blob), 0o644
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode='w', format=tarfile.USTAR_FORMAT) as archive:
        archive.addfile(member, io.BytesIO(blob))
    packed.write_bytes(lzma.compress(plain.getvalue(), filters=FILTERS))
    print(f'{packed}: {packed.stat().st_size} bytes; {unused} rows of the embedding are one')


if __name__ == '__main__':
    main()
