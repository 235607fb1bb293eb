"""Writes golden/gemma3_logits.json.gz: logits of transformers reading the same GGUF as samples/models/gemma3_270m.py converts.

Its weights are rounded to bfloat16, as the conversion rounds them, and computed with in float32 (eager attention, CPU). Every
STRIDE-th entry of the vocabulary is kept, at positions before and past the windows of 512 tokens. Before that, the script checks
that transformers reads the converted folder with the same weights and the same logits, and its tokenizer with the same ids as
transformers' own class makes of it. Usage: make_gemma3_golden.py GGUF FOLDER
Needs torch, transformers with gguf and accelerate, tokenizers.
"""
import gzip
import json
import pathlib
import sys

import torch
import transformers
from tokenizers import Tokenizer

STRIDE = 256  # 1024 sums of the same 640 hidden values at each position
HELDOUT = pathlib.Path(__file__).parents[2] / 'samples' / 'prompts' / 'heldout.txt'
N_TOKENS, POSITIONS = 700, (0, 1, 300, 511, 512, 699)


def model_of(*where, **more):
    return transformers.AutoModelForCausalLM.from_pretrained(*where, dtype=torch.float32, attn_implementation='eager', **more).eval()


def logits_of(model, ids):
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0].double()


def check_weights(from_gguf, from_folder):
    """The weights of the GGUF, rounded, are those of the folder, bit for bit."""
    wanted, found = from_gguf.state_dict(), from_folder.state_dict()
    assert wanted.keys() == found.keys()
    for name, weight in wanted.items():
        assert torch.equal(weight, found[name]), name
    return sum(weight.numel() for weight in from_folder.parameters())


if __name__ == '__main__':
    gguf, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    text = HELDOUT.read_text()[:8000]
    ids = Tokenizer.from_file(str(folder / 'tokenizer.json')).encode(text).ids[:N_TOKENS]
    assert ids == transformers.AutoTokenizer.from_pretrained(folder)(text).input_ids[:N_TOKENS]
    from_gguf, from_folder = model_of(gguf.parent, gguf_file=gguf.name), model_of(folder)
    for parameter in from_gguf.parameters():  # not model.to(): that rounds the frequencies of the rotation too
        parameter.data = parameter.data.bfloat16().float()
    n_weights = check_weights(from_gguf, from_folder)
    logits = logits_of(from_gguf, ids)
    assert torch.equal(logits, logits_of(from_folder, ids))
    out = dict(script='tests/engine/make_gemma3_golden.py', torch=torch.__version__, transformers=transformers.__version__,
               ids=ids, positions=POSITIONS, stride=STRIDE,
               logits=[[float(f'{x:.6g}') for x in logits[p][::STRIDE].tolist()] for p in POSITIONS])
    path = pathlib.Path(__file__).parent / 'golden' / 'gemma3_logits.json.gz'
    path.write_bytes(gzip.compress((json.dumps(out, separators=(',', ':')) + '\n').encode(), mtime=0))
    print(path, path.stat().st_size, 'bytes', len(ids), 'tokens', n_weights, 'weights and', logits.numel(), 'logits are the same')
