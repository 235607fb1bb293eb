"""Writes golden/smollm2_logits.json.gz: logits of transformers reading the same GGUF as samples/models/smollm2_135m.py converts.

Its weights are rounded to bfloat16, as the conversion rounds them, and computed with in float32 (eager attention, CPU). Every
STRIDE-th entry of the vocabulary is kept. Usage: make_smollm2_golden.py GGUF TOKENIZER_JSON
Needs torch, transformers with gguf and accelerate, tokenizers.
"""
import gzip
import json
import pathlib
import sys

import torch
import transformers
from tokenizers import Tokenizer

STRIDE = 32  # 1536 sums of the same 576 hidden values at each position
TEXT = ('<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n<|im_start|>user\n'
        'In 1969 two men walked on the Moon. What did they bring home? Answer in 12 words.<|im_end|>\n<|im_start|>assistant\n'
        'They brought home 21.5 kg of rocks and dust, and a flag stayed behind.')

if __name__ == '__main__':
    gguf, tokenizer = pathlib.Path(sys.argv[1]), sys.argv[2]
    ids = Tokenizer.from_file(tokenizer).encode(TEXT, add_special_tokens=False).ids
    model = transformers.AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32,
                                                              attn_implementation='eager').eval()
    for parameter in model.parameters():  # not model.to(): that rounds the frequencies of the rotation too
        parameter.data = parameter.data.bfloat16().float()
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0].double().numpy()
    positions = [0, len(ids) // 2, len(ids) - 1]
    out = dict(script='tests/engine/make_smollm2_golden.py', torch=torch.__version__, transformers=transformers.__version__,
               text=TEXT, ids=ids, positions=positions, stride=STRIDE,
               logits=[[float(f'{x:.6g}') for x in logits[p][::STRIDE]] for p in positions])
    path = pathlib.Path(__file__).parent / 'golden' / 'smollm2_logits.json.gz'
    path.write_bytes(gzip.compress((json.dumps(out, separators=(',', ':')) + '\n').encode(), mtime=0))
    print(path, path.stat().st_size, 'bytes', len(ids), 'tokens')
