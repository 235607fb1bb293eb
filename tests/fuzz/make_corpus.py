#!/usr/bin/env python3
"""Makes what the fuzzers start from, corpus/FORMAT/ in tests/fuzz/corpus.tar.xz, out of the samples and the golden files of
the tests.

    tests/fuzz/make_corpus.py build/release/bin [FOUND/FORMAT/found-NAME ...]

needs h5py and the built programs (the fake engine answers runs, and kvscope writes traces of them). What the fuzzers have
found lies there too, as found-*, and stays; further findings are added. Traces are mostly zeros: an archive of a tenth of
their size is what every build unpacks beside itself.
"""
import gzip, io, json, pathlib, random, struct, subprocess, sys, tarfile, tempfile, zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
ARCHIVE = ROOT / "tests/fuzz/corpus.tar.xz"
CORPUS = {}  # name in the archive -> bytes
GOLDEN, SAMPLE = ROOT / "tests/core/golden", ROOT / "samples/models/kvscope-tiny"
BIN = pathlib.Path(sys.argv[1]).resolve()
DRAW = random.Random(20261122)


def put(kind, name, data):
    CORPUS[f"corpus/{kind}/{name}"] = data if isinstance(data, bytes) else data.encode()


def keep_found(paths):
    with tarfile.open(ARCHIVE) as archive:
        for entry in archive:
            if pathlib.Path(entry.name).name.startswith("found-"):
                CORPUS[entry.name] = archive.extractfile(entry).read()
    for path in map(pathlib.Path, paths):
        put(path.parent.name, path.name, path.read_bytes())


def write_archive():
    """Sorted and without times, so that the same files are the same bytes."""
    with tarfile.open(ARCHIVE, "w:xz", format=tarfile.USTAR_FORMAT, preset=9) as archive:
        for name, data in sorted(CORPUS.items()):
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))


def golden(name):
    return json.loads(gzip.decompress((GOLDEN / f"{name}.json.gz").read_bytes()))


def floats(n):
    return struct.pack(f"<{n}f", *(DRAW.gauss(0, 1) for _ in range(n)))


def safetensors(tensors, metadata=None, pad=0):
    """tensors: name -> (dtype, shape); the data are drawn, 4 bytes an element of F32, 2 of the others."""
    header, data = ({"__metadata__": metadata} if metadata else {}), b""
    for name, (kind, shape) in tensors.items():
        n = 1
        for size in shape:
            n *= size
        part = floats(n) if kind == "F32" else DRAW.randbytes(2 * n)
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(data), len(data) + len(part)]}
        data += part
    text = json.dumps(header).encode() + b" " * pad
    return struct.pack("<Q", len(text)) + text + data


def make_safetensors():
    put("safetensors", "small", safetensors({"a": ("F32", [2, 3]), "b.weight": ("BF16", [4])}, {"format": "pt"}))
    put("safetensors", "empty", safetensors({}))
    put("safetensors", "rank0-zero", safetensors({"x": ("F16", []), "y": ("F32", [0, 7]), "z": ("I16", [1])}, pad=5))
    put("safetensors", "many", safetensors({f"model.layers.{i}.w": ("BF16", [i % 3]) for i in range(40)}))


def make_tokenizers():
    for family in ("gpt2", "llama2", "smollm2"):
        spec = golden(f"tokenizer_{family}")["tokenizer"]
        put("tokenizer", family, json.dumps(spec, ensure_ascii=False))
    tiny = json.loads((SAMPLE / "tokenizer.json").read_text())
    keep = {t for t, i in tiny["model"]["vocab"].items() if i < 300 or len(t) < 2}
    merges = [m if isinstance(m, list) else m.split(" ") for m in tiny["model"]["merges"]]
    merges = [m for m in merges if m[0] in keep and m[1] in keep and "".join(m) in keep]
    tiny["model"]["vocab"] = {t: i for t, i in tiny["model"]["vocab"].items() if t in keep}
    tiny["model"]["merges"] = merges
    put("tokenizer", "tiny", json.dumps(tiny, ensure_ascii=False))


def make_chat_templates():
    for template in golden("chat")["templates"]:
        put("chat_template", template["name"].replace(" ", "_"), template["text"])
    put("chat_template", "config", json.dumps({"bos_token": {"content": "<s>"}, "chat_template": [
        {"name": "default", "template": "{% for m in messages %}{{ m['content'] }}{% endfor %}"}]}))
    put("chat_template", "tiny", (SAMPLE / "tokenizer_config.json").read_bytes())


def make_configs():
    tiny = json.loads((SAMPLE / "config.json").read_text())
    put("config", "tiny", json.dumps(tiny) + "\0" + (SAMPLE / "generation_config.json").read_text())
    llama = tiny | {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "max_position_embeddings": 131072,
                    "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                     "original_max_position_embeddings": 8192}}
    put("config", "llama3", json.dumps(llama) + '\0{"temperature": 0.6, "top_p": 0.9, "top_k": 20, "eos_token_id": [1, 2]}')
    yarn = tiny | {"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048}}
    put("config", "yarn", json.dumps(yarn))
    put("config", "qwen2", json.dumps(tiny | {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2",
                                              "layer_types": ["full_attention"] * tiny["num_hidden_layers"]}))
    put("config", "qwen3_moe", json.dumps(tiny | {"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe",
                                                  "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 64,
                                                  "norm_topk_prob": True, "decoder_sparse_step": 2, "mlp_only_layers": [1]}))
    scaled = yarn["rope_scaling"] | {"rope_theta": 5e5}
    put("config", "olmo3", json.dumps(tiny | {"architectures": ["Olmo3ForCausalLM"], "model_type": "olmo3", "sliding_window": 64,
                                              "rope_parameters": {"full_attention": scaled, "sliding_attention": {"rope_theta": 5e5}}}))


def make_archives():
    for name in ("wg_kv_parameters", "wg_kv_state_dict_bf16"):
        path = GOLDEN / f"{name}.pt"
        put("zip", name, path.read_bytes())
        put("gate", name, b"p" + path.read_bytes())
        with zipfile.ZipFile(path) as archive:
            put("pickle", name, archive.read(f"{name}/data.pkl"))
    put("pickle", "empty-dict", b"\x80\x02}q\x00.")
    put("pickle", "texts", b"\x80\x02}(X\x01\x00\x00\x00aK\x01X\x01\x00\x00\x00b\x8a\x02\xff\x7fu.")
    put("zip", "empty", b"PK\5\6" + bytes(18))
    put("zip", "cut", (GOLDEN / "wg_kv_parameters.pt").read_bytes()[:-30])


def cbor(value):
    def head(major, n):
        for size, form in ((24, None), (1 << 8, ">B"), (1 << 16, ">H"), (1 << 32, ">I"), (1 << 64, ">Q")):
            if n < size:
                if form is None:
                    return bytes([major << 5 | n])
                return bytes([major << 5 | {">B": 24, ">H": 25, ">I": 26, ">Q": 27}[form]]) + struct.pack(form, n)
    if isinstance(value, bool):
        return b"\xf5" if value else b"\xf4"
    if isinstance(value, int):
        return head(0, value) if value >= 0 else head(1, -1 - value)
    if isinstance(value, float):
        return b"\xfb" + struct.pack(">d", value)
    if isinstance(value, bytes):
        return head(2, len(value)) + value
    if isinstance(value, str):
        return head(3, len(value.encode())) + value.encode()
    if isinstance(value, list):
        return head(4, len(value)) + b"".join(map(cbor, value))
    return head(5, len(value)) + b"".join(cbor(k) + cbor(v) for k, v in value.items())


def message(**fields):
    body = cbor(fields)
    return struct.pack("<I", len(body)) + body


def conversation(name, *words):
    """What kvscope and the fake engine say to each other, as answers-NAME and asked-NAME."""
    with tempfile.TemporaryDirectory() as folder:
        asked, told = pathlib.Path(folder, "asked"), pathlib.Path(folder, "told")
        engine = f"tee {asked} | {BIN}/kvscope-fake-engine --gate sp_kv,0.5,4 | tee {told}"
        subprocess.run([BIN / "kvscope", *words, "--engine", engine], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                       timeout=60, check=name != "doctor")  # which may find something
        put("cbor", f"asked-{name}", asked.read_bytes())
        put("cbor", f"answers-{name}", told.read_bytes())


def make_messages():
    requests = {
        "load": message(type="load", id=1, model="m", device="cpu", dtype="auto", gates=[]),
        "doctor": message(type="doctor", id=4),
        "policy": message(type="policy", id=5, target=2, policy="full"),
        "quit": message(type="quit", id=6),
    }
    put("cbor", "requests", b"".join(requests.values()))
    prompt = ("--prompt", "one two three four five six seven eight nine ten eleven twelve", "--max-tokens", "6")
    conversation("run", "run", SAMPLE, *prompt, "--policy", "kvpop:budget=8,sinks=2,window=4", "--ignore-eos")
    conversation("gate", "run", SAMPLE, *prompt, "--policy", "sp-kv", "--output-error", "--change", "14:sp-kv:threshold=0.7")
    conversation("read", "run", SAMPLE, *prompt, "--policy", "quest:read=16", "--oracle", "mass=rms,budget=8")
    conversation("score", "score", SAMPLE, "--text", "one two three four", "--policy", "streaming:sinks=1,window=2")
    conversation("doctor", "doctor")


def make_traces():
    with tempfile.TemporaryDirectory() as folder:
        prompts = pathlib.Path(folder, "p.jsonl")
        prompts.write_text('{"prompt": "one two three four"}\n{"prompt": "five"}\n')
        common = ["--engine", BIN / "kvscope-fake-engine", "--max-tokens", "4", "--quiet"]
        for name, policy in (("kvpop", "kvpop:budget=12,sinks=2,window=4"),):
            path = pathlib.Path(folder, f"{name}.h5")
            subprocess.run([BIN / "kvscope", "run", SAMPLE, "--prompt", "one two three", "--policy", policy, "--trace", path,
                            *common], check=True, stdout=subprocess.DEVNULL)
            put("trace", name, path.read_bytes())
        path = pathlib.Path(folder, "capture.h5")
        subprocess.run([BIN / "kvscope", "capture", SAMPLE, prompts, "-o", path, *common], check=True,
                       stdout=subprocess.DEVNULL)
        put("trace", "capture", path.read_bytes())
        put("trace", "cut", path.read_bytes()[:2048])


def make_recipes():
    for path in (ROOT / "samples/recipes").glob("*.json"):
        put("recipe", path.stem, path.read_bytes())
    for figure in ("layer_head_map", "token_strip", "timeline"):
        put("recipe", figure, json.dumps({"figure": figure, "trace": "run.h5", "run": 0, "venue": "icml:column"}))
    put("recipe", "preset", json.dumps({"preset": "kvpop-fig6", "traces": ["a.h5"], "width_mm": 80}))


def make_gates():
    layers, heads, features = 3, 2, 10
    linear = {"w2": ("F32", [layers, heads, features]), "b2": ("F32", [layers, heads])}
    put("gate", "sp_kv", b"g" + json.dumps({"format": "kvscope-gate", "version": 1, "kind": "sp_kv", "threshold": 0.5,
                                            "window": 8}).encode() + b"\0" + safetensors(linear))
    mapping = {"format": "kvscope-gate-mapping", "version": 1, "kind": "sp_kv", "files": ["a.safetensors"],
               "tensors": {"w2": "blocks.{layer}.down"}}
    put("gate", "mapping", b"m" + json.dumps(mapping).encode() + b"\0" + safetensors(
        {f"blocks.{i}.down": ("F32", [heads, features]) for i in range(layers)}))
    scorer = json.loads((SAMPLE / "kvpop_scorer.json").read_text())
    d = 4
    shapes = {"wq": [2 * d, d // 2], "wk": [2 * d, d // 2], "wv": [2 * d, d], "gi": [2 * d, 1], "gf": [2 * d, 1], "bi": [1],
              "bf": [1], "out": [3 * d], "b": []}
    put("gate", "kvpop", b"k" + json.dumps(scorer).encode() + b"\0" + safetensors(
        {name: ("F32", [layers, heads] + shape) for name, shape in shapes.items()}))
    put("gate", "duo", b"d" + b'{"sink_size": 4, "recent_size": 8}\0' + b"0.5\t1\n0\t0.25\n1\t1\n")
    dms = {"model_type": "qwen3", "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
           "hidden_size": 10, "head_dim": 4, "rms_norm_eps": 1e-5, "dms_window_size": 512, "dms_alpha_scale": 100.0,
           "dms_initial_alpha_offset": 5.0, "dms_cr": 8}
    put("gate", "dms", b"s" + json.dumps(dms).encode() + b'\0{"dms_window_size": 16}')
    kvzap = {"model_type": "kvzap", "input_dim": 10, "output_dim": 2, "n_modules": 3, "hidden_dim": None}
    modules = {f"layers.{i}.{what}": ("F32", shape) for i in range(3) for what, shape in (("weight", [2, 10]), ("bias", [2]))}
    put("gate", "kvzap", b"z" + json.dumps(kvzap).encode() + b"\0" + safetensors(modules))
    put("gate", "wg_kv", b"w" + safetensors({"g_predictors.0.w": ("F32", [4])}))


keep_found(sys.argv[2:])
for make in (make_safetensors, make_tokenizers, make_chat_templates, make_configs, make_archives, make_messages, make_traces,
             make_recipes, make_gates):
    make()
write_archive()
total = sum(map(len, CORPUS.values()))
print(f"{total} bytes in {len(CORPUS)} files, {ARCHIVE.stat().st_size} in {ARCHIVE}")
assert total < 1_000_000
