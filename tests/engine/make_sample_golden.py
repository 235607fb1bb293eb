"""Writes golden/sample_logits.json.gz: logits of transformers (float32, eager attention, CPU) for the shipped sample model.

To be run again whenever samples/models/kvscope-tiny is trained anew; the test says so when the weights are others.
Usage: python3 tests/engine/make_sample_golden.py        needs torch, transformers and tokenizers
"""
import gzip
import json
import pathlib

import torch
import transformers
from tokenizers import Tokenizer

ROOT = pathlib.Path(__file__).resolve().parents[2]
SAMPLE = ROOT / 'samples' / 'models' / 'kvscope-tiny'
TEXT = ('The code of the amber falcon is 4821.\n' + 'Every house in the street has a garden with an old wall around it. ' * 20 +
        '\nWhat is the code of the amber falcon? 48')

if __name__ == '__main__':
    ids = Tokenizer.from_file(str(SAMPLE / 'tokenizer.json')).encode(TEXT, add_special_tokens=False).ids
    model = transformers.AutoModelForCausalLM.from_pretrained(SAMPLE, dtype=torch.float32, attn_implementation='eager').eval()
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0].double().numpy()
    positions = [0, len(ids) // 2, len(ids) - 1]
    out = dict(script='tests/engine/make_sample_golden.py', torch=torch.__version__, transformers=transformers.__version__,
               text=TEXT, ids=ids, positions=positions,
               logits=[[round(float(x), 4) for x in logits[p]] for p in positions])  # compared within 1e-4 of the largest
    path = pathlib.Path(__file__).parent / 'golden' / 'sample_logits.json.gz'
    path.write_bytes(gzip.compress((json.dumps(out, separators=(',', ':')) + '\n').encode(), mtime=0))
    print(path, path.stat().st_size, 'bytes', len(ids), 'tokens')
