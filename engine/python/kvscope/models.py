"""Loading any decoder of transformers, and what the program wants to know of it."""

from __future__ import annotations

import glob
import os
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from . import attention
from .channels import MARK, as_parts
from .errors import KvscopeError, one_line, usage
from .layers import Layer, find_layers
from .pieces import Pieces


@dataclass
class Model:
    """A model that is loaded, with its tokenizer (None: it has none) and its attention layers."""

    model: Any
    tokenizer: Any
    layers: list[Layer]
    info: dict
    pieces: Pieces | None = None
    end_ids: frozenset[int] = frozenset()
    warnings: list[str] = field(default_factory=list)

    @property
    def device(self) -> torch.device:
        return self.model.get_input_embeddings().weight.device

    @property
    def n_layers(self) -> int:
        return len(self.layers)

    @property
    def n_kv_heads(self) -> int:
        return self.layers[0].n_kv_heads

    @property
    def is_hybrid(self) -> bool:
        """Whether some layers keep a state instead of keys and values. A state cannot be continued from a chunk, so
        such a model reads a prompt at once."""
        return len(self.layers) < (self.model.config.get_text_config().num_hidden_layers or 0)

    @property
    def can_measure_output_error(self) -> bool:
        """Whether every attention layer ends in a plain output projection. A hybrid's passes a gate before it."""
        return not self.is_hybrid and all(layer.output is not None for layer in self.layers)

    def bytes_of(self, ids: Sequence[int], at_start: bool = True) -> list[bytes]:
        if self.pieces is None:
            return [f" {token}".encode() for token in ids]
        return self.pieces.all(list(ids), at_start)

    def encode(self, text: str) -> list[int]:
        """Ids of a text, with those that the tokenizer puts around it."""
        return [int(i) for i in self._tokens()(text)["input_ids"]]

    def encode_chat(self, messages: list[dict], thinking: bool | None = None, date: str = "") -> list[int]:
        """Ids of a chat as the model's own template writes it, up to where the answer begins."""
        tokenizer = self._tokens()
        if not getattr(tokenizer, "chat_template", None):
            raise KvscopeError("no chat template", file=self.info["path"], hint="use --raw, or a chat model")
        extra: dict[str, Any] = {}
        if thinking is not None:
            extra.update(enable_thinking=thinking, thinking=thinking)
        if date:
            extra["date_string"] = date
        if MARK in str(tokenizer.chat_template):
            messages = [as_parts(message) for message in messages]
        try:
            out = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=True, **extra)
        except Exception as error:  # the template is the model's program
            raise KvscopeError(one_line(error), file=self.info["path"], where="chat template") from None
        return [int(i) for i in out["input_ids"]]

    def _tokens(self) -> Any:
        if self.tokenizer is None:
            raise KvscopeError("no tokenizer", file=self.info["path"], expected="tokenizer.json beside the weights")
        return self.tokenizer


def _dtype(name: str, device: str) -> Any:
    if name == "auto":
        return torch.float32 if device == "cpu" else "auto"
    found = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}.get(name)
    if found is None:
        raise usage(name, file="dtype", expected="auto, float32, bfloat16 or float16")
    return found


def _place(device: str) -> tuple[str, Any]:
    """The kind of device ("cpu", "cuda") and transformers' device_map."""
    n = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if device == "auto":
        device = "cpu" if n == 0 else "cuda" if n == 1 else "map"
    if device == "cpu":
        return "cpu", None
    if device == "map":
        return ("cuda" if n else "cpu"), "auto"
    if device.startswith("cuda"):
        if n == 0:
            raise usage(device, file="device", expected="cpu, because this machine has no CUDA device")
        return "cuda", {"": device if ":" in device else "cuda:0"}
    raise usage(device, file="device", expected="auto, cpu, cuda, cuda:N or map (spread over all devices)")


def _fnv1a64(data: bytes, value: int = 0xCBF29CE484222325) -> int:
    for byte in data:
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return value


def weights_hash(folder: str) -> str:
    """16 hex digits over the safetensors headers and file sizes of a folder; zeros if there are none."""
    value, files = 0xCBF29CE484222325, sorted(glob.glob(os.path.join(folder, "*.safetensors")))
    for name in files:
        with open(name, "rb") as file:
            size = struct.unpack("<Q", file.read(8))[0]
            value = _fnv1a64(file.read(min(size, 64 << 20)), value)
        value = _fnv1a64(struct.pack("<Q", os.path.getsize(name)), value)
    return f"{value:016x}" if files else "0" * 16


def _device_text(model: Any) -> str:
    devices = sorted({str(p.device) for p in model.parameters()})
    names = [f"{d} {torch.cuda.get_device_name(d)}" if d.startswith("cuda") else d for d in devices]
    return ", ".join(names) + " (transformers)"


def _end_ids(model: Any) -> frozenset[int]:
    ids: set[int] = set()
    for config in (getattr(model, "generation_config", None), model.config, model.config.get_text_config()):
        found = getattr(config, "eos_token_id", None)
        ids.update(found if isinstance(found, (list, tuple)) else [] if found is None else [found])
    return frozenset(int(i) for i in ids)


def _info(model: Any, path: str, layers: list[Layer], tokenizer: Any) -> dict:
    config = model.config.get_text_config()
    name = os.path.basename(os.path.normpath(path)) or path
    vocabulary = (
        model.get_output_embeddings().weight.shape[0]
        if model.get_output_embeddings() is not None
        else config.vocab_size
    )
    return {
        "name": name,
        "path": path,
        "architecture": type(model).__name__,
        "dtype": str(next(model.parameters()).dtype).removeprefix("torch."),
        "device": _device_text(model),
        "weights_hash": weights_hash(path) if os.path.isdir(path) else "0" * 16,
        "scorer": "",
        "n_layers": len(layers),
        "n_heads": layers[0].n_heads,
        "n_kv_heads": layers[0].n_kv_heads,
        "head_dim": layers[0].head_dim,
        "vocab_size": int(vocabulary),
        "max_positions": int(getattr(config, "max_position_embeddings", 0) or 1 << 20),
        "n_parameters": sum(p.numel() for p in model.parameters()),
    }


def check_path(path: str) -> None:
    """Raises KvscopeError unless the path is a model folder, or a name whose config can be had."""
    from transformers import AutoConfig

    if os.path.isabs(path) and not os.path.isdir(path):
        raise KvscopeError("no such folder", file=path, expected="a model folder of transformers, or OWNER/NAME")
    try:
        AutoConfig.from_pretrained(path)
    except Exception as error:
        raise KvscopeError(
            one_line(error), file=path, expected="a model folder of transformers, or OWNER/NAME"
        ) from None


def load(
    path: str, device: str = "auto", dtype: str = "auto", progress: Callable[[float, float], None] | None = None
) -> Model:
    """Loads a folder, or a name of the user's Hugging Face cache. device: auto, cpu, cuda, cuda:N, or map, which
    spreads the layers over all devices. Raises KvscopeError in one line for whatever cannot be loaded."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    attention.register()
    kind, device_map = _place(device)
    wanted = _dtype(dtype, kind)
    if progress is not None:
        progress(0, 0)
    try:
        model = AutoModelForCausalLM.from_pretrained(
            path, dtype=wanted, device_map=device_map, attn_implementation=attention.NAME
        )
    except Exception as error:  # many kinds, from many libraries
        raise KvscopeError(one_line(error), file=path, expected="a decoder model of transformers") from None
    model.eval().requires_grad_(False)
    warnings = []
    try:
        tokenizer = AutoTokenizer.from_pretrained(path)
    except Exception as error:
        tokenizer = None
        warnings.append(f"no tokenizer: {one_line(error, 160)}; tokens are shown as numbers")
    return wrap(model, tokenizer, path, warnings)


def wrap(model: Any, tokenizer: Any, path: str = "", warnings: Sequence[str] = ()) -> Model:
    """A Model of one that is in memory. Its attn_implementation must be "kvscope"."""
    device = model.get_input_embeddings().weight.device
    layers = find_layers(model, device)
    if model.dtype in (torch.bfloat16, torch.float16) and device.type == "cuda":
        torch.backends.cuda.matmul.allow_tf32 = True  # exact for products of these, with sums in float32
    return Model(
        model,
        tokenizer,
        layers,
        _info(model, path or "model", layers, tokenizer),
        Pieces(tokenizer) if tokenizer is not None else None,
        _end_ids(model),
        list(warnings),
    )
