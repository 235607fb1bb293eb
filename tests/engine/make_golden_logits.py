"""Writes golden/logits.json.gz (logits of small random Qwen3, Qwen2 and Llama models in transformers) and golden/score.json.gz
(log-probabilities of a text under one model of each family whose files hold float16, bfloat16 or float32).

Everything is float32, eager attention, CPU, but for `bf16_error`: how far transformers in bfloat16, on the CPU too, is from
that; the root mean square of the differences of all kept logits over that of the logits. `bf16_median_error`, of models with
experts: the median of the same of each kept position. Rounding can send a token to another expert whose probability is close;
a few tokens of 100 err several times as much for that, in transformers as here, and which ones is a matter of luck.
The weights are not stored: all sides compute them from names and indices (formula_source in engine/model/weights.h,
tests/support/model_folder.h).
Usage: python3 tests/engine/make_golden_logits.py        needs torch, transformers and tokenizers; the versions used are
written beside.
"""
import gzip
import json
import math
import pathlib

import numpy as np
import torch
import transformers
from tokenizers import Tokenizer
from transformers import (Gemma3ForCausalLM, Gemma3TextConfig, GptOssConfig, GptOssForCausalLM, LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM,
                          Olmo2Config, Olmo2ForCausalLM, Olmo3Config, Olmo3ForCausalLM, Phi3Config, Phi3ForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM,
                          Qwen3MoeConfig, Qwen3MoeForCausalLM, SmolLM3Config, SmolLM3ForCausalLM)

FOLDER = pathlib.Path(__file__).resolve().parent
SAMPLE = FOLDER.parents[1] / 'samples' / 'models' / 'kvscope-tiny'
CLASSES = {'Qwen3ForCausalLM': (Qwen3Config, Qwen3ForCausalLM), 'Qwen2ForCausalLM': (Qwen2Config, Qwen2ForCausalLM),
           'LlamaForCausalLM': (LlamaConfig, LlamaForCausalLM)}
OTHERS = {'MistralForCausalLM': (MistralConfig, MistralForCausalLM), 'SmolLM3ForCausalLM': (SmolLM3Config, SmolLM3ForCausalLM),
          'Phi3ForCausalLM': (Phi3Config, Phi3ForCausalLM), 'Gemma3ForCausalLM': (Gemma3TextConfig, Gemma3ForCausalLM),
          'Qwen3MoeForCausalLM': (Qwen3MoeConfig, Qwen3MoeForCausalLM), 'Olmo2ForCausalLM': (Olmo2Config, Olmo2ForCausalLM),
          'Olmo3ForCausalLM': (Olmo3Config, Olmo3ForCausalLM), 'GptOssForCausalLM': (GptOssConfig, GptOssForCausalLM)}
TOKENS = 142
POSITIONS = [0, 16, 63, 64, 127, 128, TOKENS - 1]  # whose logits are kept: beside the borders of pages and tiles
# The original contexts are so short that the scaling matters within TOKENS.
SCALINGS = {'default': None,
            'linear': dict(rope_type='linear', factor=2.5),
            'llama3': dict(rope_type='llama3', factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                           original_max_position_embeddings=64),
            'yarn': dict(rope_type='yarn', factor=4.0, original_max_position_embeddings=32)}


def fnv1a64(text):
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = ((value ^ byte) * 0x100000001B3) % 2**64
    return value


def splitmix64(x):
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def formula(name, shape, seed):
    """u in [-1, 1); matrix: u sqrt(3 / columns), embedding and bias: u, norm: 1 + u / 10."""
    start = np.uint64((fnv1a64(name) + seed) % 2**64)
    with np.errstate(over='ignore'):
        bits = splitmix64(start + np.arange(int(np.prod(shape)), dtype=np.uint64)) >> np.uint64(40)
    u = (bits.astype(np.float32) * np.float32(2.0**-23) - np.float32(1)).reshape(shape)
    if len(shape) == 1 and not name.endswith('bias'):
        return np.float32(1) + np.float32(0.1) * u
    unscaled = len(shape) == 1 or name == 'model.embed_tokens.weight'
    return u if unscaled else np.float32(np.sqrt(3.0 / shape[-1])) * u


def make_config(architecture, group, kv_heads, head_dim, tied, scaling, index, vocab=160, implied=False):
    """A config.json. `implied`: without head_dim, as Qwen2's are."""
    heads = group * kv_heads
    step = math.lcm(heads, 16)
    config = dict(architectures=[architecture], vocab_size=vocab, num_hidden_layers=2, num_attention_heads=heads,
                  num_key_value_heads=kv_heads, intermediate_size=160 + 16 * (index % 5),
                  hidden_size=heads * head_dim if implied else step * max(1, 144 // step),
                  max_position_embeddings=4096, rms_norm_eps=1e-5 if index % 2 else 1e-6, tie_word_embeddings=tied,
                  rope_theta=[1e4, 5e5, 1e6][index % 3])
    if not implied:
        config['head_dim'] = head_dim
    if SCALINGS[scaling]:
        config['rope_scaling'] = SCALINGS[scaling]
    return config


def shapes():
    for family, architecture in enumerate(CLASSES):
        for i in range(8):
            group = [1, 2, 4, 8][i % 4]
            yield make_config(architecture, group, kv_heads=[3, 2, 2, 1][i % 4], head_dim=[64, 80, 128][(i + family) % 3],
                              tied=(i + i // 4 + family) % 2 == 0, scaling=list(SCALINGS)[(i + i // 4) % 4], index=i,
                              implied=(architecture != 'Qwen3ForCausalLM' and i == 1))
    # groups of published models that are no power of two
    yield make_config('LlamaForCausalLM', 3, 2, 128, True, 'llama3', 0)  # Llama-3.2-3B
    yield make_config('Qwen3ForCausalLM', 5, 2, 128, False, 'default', 1)  # Qwen3-14B
    yield make_config('Qwen2ForCausalLM', 6, 1, 128, True, 'default', 2)  # Qwen2.5-1.5B
    yield make_config('Qwen2ForCausalLM', 7, 1, 64, True, 'yarn', 3)  # Qwen2.5-0.5B


def local_shapes():
    """A window on every other layer, by layer_types and by max_window_layers, shorter and longer than tiles of attention."""
    types = ['sliding_attention', 'full_attention']
    for i, (window, kinds) in enumerate([(24, types), (65, types[::-1]), (1, types)]):
        yield make_config('Qwen3ForCausalLM', 2, 2, 64, True, 'default', i) | dict(
            use_sliding_window=True, sliding_window=window, layer_types=kinds)
    yield make_config('Qwen2ForCausalLM', 7, 1, 64, False, 'yarn', 4) | dict(
        use_sliding_window=True, sliding_window=40, max_window_layers=1)


def family_shapes():
    """Two models of each further family: one as its config.json usually is, and one with what only it has."""
    yield make_config('MistralForCausalLM', 4, 2, 64, False, 'default', 0) | dict(sliding_window=None)
    yield make_config('MistralForCausalLM', 2, 2, 128, True, 'yarn', 1) | dict(sliding_window=4096)
    yield make_config('SmolLM3ForCausalLM', 4, 1, 64, True, 'default', 2) | dict(
        num_hidden_layers=4, no_rope_layer_interval=4, pad_token_id=0)
    yield make_config('SmolLM3ForCausalLM', 2, 2, 128, False, 'llama3', 3) | dict(
        pad_token_id=0, no_rope_layers=[0, 1], use_sliding_window=True, sliding_window=40, layer_types=['sliding_attention', 'full_attention'])
    yield make_config('Phi3ForCausalLM', 1, 3, 80, False, 'default', 4, implied=True) | dict(sliding_window=None, pad_token_id=0)
    pairs = 128 * 3 // 4 // 2
    yield make_config('Phi3ForCausalLM', 4, 2, 128, True, 'default', 5, implied=True) | dict(
        sliding_window=None, pad_token_id=0, partial_rotary_factor=0.75, max_position_embeddings=256, original_max_position_embeddings=64,
        rope_scaling=dict(type='longrope', short_factor=[1.0] * pairs, long_factor=[1 + i / 8 for i in range(pairs)]))
    yield make_config('Gemma3ForCausalLM', 2, 1, 128, True, 'linear', 6) | dict(
        num_hidden_layers=3, sliding_window=24, sliding_window_pattern=3, rope_local_base_freq=1e4, query_pre_attn_scalar=100)
    yield make_config('Gemma3ForCausalLM', 4, 1, 256, False, 'default', 7) | dict(
        sliding_window=65, layer_types=['full_attention', 'sliding_attention'], attn_logit_softcapping=None,
        rope_parameters=dict(full_attention=dict(rope_type='default', rope_theta=2e5),
                             sliding_attention=dict(rope_type='default', rope_theta=5e3)))
    yield make_config('Olmo2ForCausalLM', 1, 3, 80, True, 'default', 8)
    yield make_config('Olmo2ForCausalLM', 4, 2, 64, False, 'llama3', 9, implied=True)
    yield make_config('Olmo3ForCausalLM', 2, 2, 64, False, 'yarn', 10) | dict(num_hidden_layers=4, sliding_window=24)
    yield make_config('Olmo3ForCausalLM', 5, 1, 128, False, 'default', 11, implied=True) | dict(
        sliding_window=65, layer_types=['full_attention', 'sliding_attention'])


def expert_shapes():
    """Eight of sixteen experts; one of four with the weight of its softmax, in the layers that are not dense; other numbers of
    both, as transformers writes them."""
    yield make_config('Qwen3MoeForCausalLM', 2, 2, 64, True, 'default', 0) | dict(
        num_experts=16, num_experts_per_tok=8, moe_intermediate_size=48, norm_topk_prob=True)
    yield make_config('Qwen3MoeForCausalLM', 4, 1, 128, False, 'yarn', 1) | dict(
        num_hidden_layers=5, decoder_sparse_step=2, mlp_only_layers=[3], num_experts=4, num_experts_per_tok=1,
        moe_intermediate_size=40, norm_topk_prob=False)
    yield make_config('Qwen3MoeForCausalLM', 2, 2, 64, False, 'default', 2) | dict(
        num_hidden_layers=3, mlp_only_layers=[0], num_local_experts=33, num_experts_per_tok=5, moe_intermediate_size=24,
        norm_topk_prob=False)
    # Experts so narrow that the formula's weights are large: many gates and factors pass the limit of 7.
    yield make_config('GptOssForCausalLM', 4, 2, 64, False, 'default', 3) | dict(
        num_hidden_layers=3, sliding_window=24, num_local_experts=16, num_experts_per_tok=4, intermediate_size=8,
        rope_scaling=dict(rope_type='yarn', factor=8.0, original_max_position_embeddings=32, truncate=False))
    yield make_config('GptOssForCausalLM', 2, 1, 128, True, 'default', 4) | dict(
        sliding_window=65, layer_types=['full_attention', 'sliding_attention'], num_local_experts=5, num_experts_per_tok=2,
        intermediate_size=96)


def expert_formula(name, shape, seed):
    """transformers' one tensor of all experts, of the tensors that published files have for each."""
    prefix, part = name.rsplit('.', 1)
    parts = ['gate_proj', 'up_proj'] if part == 'gate_up_proj' else [part]
    one = (shape[1] // len(parts), shape[2])
    return np.stack([np.concatenate([formula(f'{prefix}.{i}.{p}.weight', one, seed) for p in parts]) for i in range(shape[0])])


def unscale_local_layers(model, config_class, config):
    """OLMo 3 was trained with scaled rotations in its full layers alone. transformers 5.2 scales those of all layers by mistake;
    4.57 did not, and huggingface/transformers#46911 repairs it."""
    plain = config_class(**json.loads(json.dumps({key: value for key, value in config.items() if key != 'rope_scaling'})))
    rotary = type(model.model.rotary_emb)(plain)

    def rotate(_, args, arguments):
        positions = arguments['position_ids'].expand(args[0].shape[0], -1)
        return args, arguments | dict(position_embeddings=rotary(args[0], positions))

    for layer, kind in zip(model.model.layers, model.config.layer_types):
        if kind == 'sliding_attention':
            layer.register_forward_pre_hook(rotate, with_kwargs=True)


def make_model(config, seed, weights_dtype=torch.float32):
    """The weights are rounded to weights_dtype and computed with in float32."""
    config_class, model_class = (CLASSES | OTHERS)[config['architectures'][0]]
    # A copy: transformers writes into the sections that it is given.
    made = config_class(**json.loads(json.dumps(config)))
    made._attn_implementation = 'eager'
    model = model_class(made).float().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            apart = '.experts.' in name and model_class is Qwen3MoeForCausalLM
            values = (expert_formula if apart else formula)(name, tuple(parameter.shape), seed)
            parameter.copy_(torch.from_numpy(values).to(weights_dtype))
    if model_class is Olmo3ForCausalLM:
        unscale_local_layers(model, config_class, config)
    return model


def logits_of(model, ids):
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0].double().numpy()


def rounded(values, digits=6):
    return [float(f'{x:.{digits}g}') for x in values]


def golden_logits(seed, config):
    ids = (splitmix64(np.arange(TOKENS, dtype=np.uint64) + np.uint64(seed)) % np.uint64(config['vocab_size'])).astype(int)
    ids = ids.tolist()
    model = make_model(config, seed)
    logits = logits_of(model, ids)[POSITIONS]
    # Not model.bfloat16(), which rounds the rotary frequencies too: transformers keeps them in float32 when it loads.
    rotary = model.model.rotary_emb
    frequencies = {name: buffer.clone() for name, buffer in rotary.named_buffers()}
    model = model.to(torch.bfloat16)
    for name, buffer in frequencies.items():
        setattr(rotary, name, buffer)
    error = logits_of(model, ids)[POSITIONS] - logits
    median = np.median(np.sqrt((error**2).mean(-1) / (logits**2).mean(-1)))
    experts = dict(bf16_median_error=float(f'{median:.4g}')) if 'num_experts_per_tok' in config else {}
    return dict(seed=seed, config=config, ids=ids, positions=POSITIONS, **experts,
                bf16_error=float(f'{np.sqrt((error**2).mean() / (logits**2).mean()):.4g}'),
                logits=[rounded(row, 5) for row in logits])  # half of the 1e-4 they are compared within


TEXT = ('The code of the amber falcon is 4821.\n' + 'Every house in the street has a garden with an old wall around it. ' * 6 +
        '\n<|endoftext|>What is the code of the amber falcon? 48')


def golden_score(seed, config, dtype):
    ids = Tokenizer.from_file(str(SAMPLE / 'tokenizer.json')).encode(TEXT).ids
    logprobs = torch.from_numpy(logits_of(make_model(config, seed, getattr(torch, dtype)), ids)).log_softmax(-1)
    chosen = [float(logprobs[i, id]) for i, id in enumerate(ids[1:])]
    return dict(seed=seed, config=config | dict(torch_dtype=dtype), ids=ids, logprobs=rounded(chosen),
                nll=float(f'{-np.mean(chosen):.9g}'))


def golden_mxfp4():
    """Every code under every scale, as transformers unpacks it: numbers of 32 codes a scale, as the bits of bfloat16."""
    from transformers.integrations.mxfp4 import convert_moe_packed_tensors
    blocks = torch.tensor([i | (i * 5 + 3) % 16 << 4 for i in range(16)], dtype=torch.uint8).expand(1, 256, 1, 16)
    scales = torch.arange(256, dtype=torch.uint8).view(1, 256, 1)
    numbers = convert_moe_packed_tensors(blocks.contiguous(), scales)  # [1, 32, 256]
    bits = numbers[0].t().contiguous().view(torch.int16).to(torch.int32) & 0xFFFF
    return dict(block=blocks[0, 0, 0].tolist(), bits=bits.tolist())


def write(name, **content):
    out = dict(script='tests/engine/make_golden_logits.py', torch=torch.__version__, transformers=transformers.__version__)
    path = FOLDER / 'golden' / name
    text = json.dumps(out | content, separators=(',', ':')).replace('{"seed"', '\n{"seed"').replace('"logits"', '\n"logits"')
    path.write_bytes(gzip.compress((text + '\n').encode(), mtime=0))
    print(path, path.stat().st_size, 'bytes')


if __name__ == '__main__':
    torch.manual_seed(0)
    transformers.logging.set_verbosity_error()
    write('logits.json.gz', models=[golden_logits(seed, config) for seed, config in enumerate(shapes(), start=1)])
    write('local_logits.json.gz', models=[golden_logits(seed, config) for seed, config in enumerate(local_shapes(), start=201)])
    write('family_logits.json.gz', models=[golden_logits(seed, config) for seed, config in enumerate(family_shapes(), start=301)])
    write('expert_logits.json.gz', models=[golden_logits(seed, config) for seed, config in enumerate(expert_shapes(), start=401)])
    write('mxfp4.json.gz', **golden_mxfp4())
    write('score.json.gz', text=TEXT, models=[
        golden_score(101, make_config('Qwen3ForCausalLM', 2, 2, 64, True, 'yarn', 0, vocab=4096), 'bfloat16'),
        golden_score(102, make_config('Qwen2ForCausalLM', 7, 1, 64, False, 'default', 1, vocab=4096), 'float16'),
        golden_score(103, make_config('LlamaForCausalLM', 4, 1, 64, True, 'llama3', 2, vocab=4096), 'float32')])
