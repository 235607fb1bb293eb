#!/usr/bin/env python3
"""Writes golden/wg_kv_parameters.pt and golden/wg_kv_state_dict_bf16.pt as torch.save writes them, without torch:

    python3 tests/core/make_gate_golden.py tests/core/golden

The layout is that of torch 2.x: stored entries whose sizes follow the data (flags 0x0808), an extra field of id 0x4246
that pads data to 64 bytes, zip64 end records in the smallest file, a pickle of protocol 2 with storages outside of it.
Values are value(tensor's number, element's number), exact in bfloat16.
"""

import collections
import io
import pathlib
import pickle
import struct
import sys
import types
import zlib

N_LAYERS, N_KV_HEADS, HEAD_DIM, N_HIDDEN = 2, 2, 4, 6
PREDICTOR = "model.layers.{}.self_attn.g_predictors."
SHAPES = {
    "pre_key_norm.weight": (HEAD_DIM,),
    "post_key_norm.weight": (HEAD_DIM,),
    "conv1.weight": (N_KV_HEADS * N_HIDDEN, 2 * HEAD_DIM, 1),
    "conv1.bias": (N_KV_HEADS * N_HIDDEN,),
    "conv2.weight": (N_KV_HEADS, N_HIDDEN, 1),
    "conv2.bias": (N_KV_HEADS,),
}


def value(tensor, element):
    return ((tensor * 37 + element * 11) % 255 - 127) / 64


def module(name, **members):
    made = types.ModuleType(name)
    for key, member in members.items():
        member.__module__ = name
        setattr(made, key, member)
    sys.modules[name] = made
    return made


def _rebuild_tensor_v2(*_):
    raise NotImplementedError


def _rebuild_parameter(*_):
    raise NotImplementedError


UTILS = module("torch._utils", _rebuild_tensor_v2=_rebuild_tensor_v2, _rebuild_parameter=_rebuild_parameter)
TORCH = module("torch", FloatStorage=type("FloatStorage", (), {}), BFloat16Storage=type("BFloat16Storage", (), {}))
TORCH._utils = UTILS


class Storage:
    def __init__(self, kind, key, values):
        self.id = ("storage", getattr(TORCH, kind), key, "cpu", len(values))
        floats = struct.pack(f"<{len(values)}f", *values)
        halves = b"".join(floats[i + 2 : i + 4] for i in range(0, len(floats), 4))  # exact: the rest is zero
        self.data = floats if kind == "FloatStorage" else halves


class Tensor:
    def __init__(self, storage, shape):
        stride, step = [], 1
        for size in reversed(shape):
            stride.insert(0, step)
            step *= size
        # A tuple of its own: the pickler would refer back to one that it has seen.
        self.arguments = (storage, 0, tuple(list(shape)), tuple(stride), False, collections.OrderedDict())

    def __reduce_ex__(self, _):
        return UTILS._rebuild_tensor_v2, self.arguments


class Parameter:
    def __init__(self, tensor):
        self.tensor = tensor

    def __reduce_ex__(self, _):
        return UTILS._rebuild_parameter, (self.tensor, True, collections.OrderedDict())


class Pickler(pickle.Pickler):
    def persistent_id(self, item):
        return item.id if isinstance(item, Storage) else None


def pickled(tensors):
    buffer = io.BytesIO()
    Pickler(buffer, 2).dump(tensors)
    return buffer.getvalue()


def archive(root, entries):
    out, directory = bytearray(), bytearray()
    for name, data in entries:
        path = f"{root}/{name}".encode()
        offset = len(out)
        padding = -(offset + 30 + len(path) + 4) % 64
        extra = b"FB" + struct.pack("<H", padding) + b"Z" * padding
        out += struct.pack("<4s5H3I2H", b"PK\3\4", 0, 0x0808, 0, 0, 0, 0, 0, 0, len(path), len(extra)) + path + extra
        out += data + struct.pack("<4s3I", b"PK\7\x08", zlib.crc32(data), len(data), len(data))
        directory += struct.pack("<4s6H3I5H2I", b"PK\1\2", 0, 0, 0x0808, 0, 0, 0, zlib.crc32(data), len(data), len(data),
                                 len(path), 0, 0, 0, 0, 0, offset) + path
    begin, n = len(out), len(entries)
    out += directory
    wide = len(out)
    out += struct.pack("<4sQ2H2I4Q", b"PK\6\6", 44, 798, 45, 0, 0, n, n, len(directory), begin)
    out += struct.pack("<4sIQI", b"PK\6\7", 0, wide, 1)
    out += struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, n, n, len(directory), begin, 0)
    return bytes(out)


def write(path, kind, as_state_dict):
    tensors = collections.OrderedDict() if as_state_dict else {}
    storages = []
    for layer in range(N_LAYERS):
        for part, shape in SHAPES.items():
            count = 1
            for size in shape:
                count *= size
            number = len(storages)
            storages.append(Storage(kind, str(number), [value(number, i) for i in range(count)]))
            tensor = Tensor(storages[-1], shape)
            tensors[PREDICTOR.format(layer) + part] = tensor if as_state_dict else Parameter(tensor)
    if as_state_dict:
        tensors._metadata = collections.OrderedDict([("", {"version": 1}), ("model", {"version": 1})])
    entries = [("data.pkl", pickled(tensors)), (".format_version", b"1"), (".storage_alignment", b"64"),
               ("byteorder", b"little")]
    entries += [(f"data/{i}", storage.data) for i, storage in enumerate(storages)]
    entries += [("version", b"3\n"), (".data/serialization_id", b"0" * 40)]
    path.write_bytes(archive(path.stem, entries))


folder = pathlib.Path(sys.argv[1])
write(folder / "wg_kv_parameters.pt", "FloatStorage", False)
write(folder / "wg_kv_state_dict_bf16.pt", "BFloat16Storage", True)
