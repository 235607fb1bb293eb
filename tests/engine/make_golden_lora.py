"""Writes golden/lora.json.gz: logits of a small random Llama model under LoRA adapters, computed by PEFT, with the adapter_config.json and the
tensors' names that PEFT writes.

Weights and adapters are not stored: both sides compute them from names and indices (make_golden_logits.py's formula).
Usage: python3 tests/engine/make_golden_lora.py        needs torch, transformers and peft; the versions used are written beside.
"""
import gzip
import json
import pathlib
import tempfile

import peft
import safetensors.torch
import torch
import transformers

from make_golden_logits import formula

FOLDER = pathlib.Path(__file__).resolve().parent
SEED = 7
CONFIG = dict(architectures=['LlamaForCausalLM'], vocab_size=4096, hidden_size=64, intermediate_size=96, num_hidden_layers=2,
              num_attention_heads=4, num_key_value_heads=2, head_dim=16, max_position_embeddings=512, rms_norm_eps=1e-6,
              rope_theta=10000.0, tie_word_embeddings=True)
ADAPTERS = [dict(r=4, lora_alpha=6, target_modules=['q_proj', 'v_proj', 'o_proj', 'down_proj']),
            dict(r=3, lora_alpha=5, target_modules='all-linear', use_rslora=True)]
IDS = [(37 * i * i + 11 * i + 5) % 4096 for i in range(24)]


def with_formula(tensors):
    return {name: torch.from_numpy(formula(name, tuple(t.shape), SEED)) for name, t in tensors.items()}


def main():
    adapters = []
    for options in ADAPTERS:
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**CONFIG, attn_implementation='eager')).eval()
        model.load_state_dict(with_formula({k: v for k, v in model.state_dict().items() if k != 'lm_head.weight'}), strict=False)
        adapted = peft.get_peft_model(model, peft.LoraConfig(task_type='CAUSAL_LM', **options)).eval()
        with tempfile.TemporaryDirectory() as folder:
            adapted.save_pretrained(folder)
            config = json.loads((pathlib.Path(folder) / 'adapter_config.json').read_text())
            names = safetensors.torch.load_file(str(pathlib.Path(folder) / 'adapter_model.safetensors'))
            tensors = with_formula(names)
            safetensors.torch.save_file(tensors, str(pathlib.Path(folder) / 'adapter_model.safetensors'))
            fresh = transformers.LlamaForCausalLM(transformers.LlamaConfig(**CONFIG, attn_implementation='eager')).eval()
            fresh.load_state_dict(model_weights(), strict=False)
            again = peft.PeftModel.from_pretrained(fresh, folder).eval()
            with torch.no_grad():
                logits = again(torch.tensor([IDS])).logits[0, -1]
        config['target_modules'] = sorted(config['target_modules'])  # PEFT keeps a set
        adapters.append(dict(adapter_config=config, tensors={k: list(v.shape) for k, v in sorted(tensors.items())},
                             # Compared within 1e-4 of the largest, 15. A quarter of the vocabulary: 1024 sums of the same 64 hidden values.
                             logits=[round(x, 4) for x in logits.tolist()[::4]]))
    versions = dict(torch=torch.__version__, transformers=transformers.__version__, peft=peft.__version__)
    out = dict(versions=versions, seed=SEED, config=CONFIG, ids=IDS, adapters=adapters)
    text = json.dumps(out, separators=(',', ':')) + '\n'
    (FOLDER / 'golden' / 'lora.json.gz').write_bytes(gzip.compress(text.encode(), mtime=0))


def model_weights():
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**CONFIG))
    return with_formula({k: v for k, v in model.state_dict().items() if k != 'lm_head.weight'})


if __name__ == '__main__':
    main()
