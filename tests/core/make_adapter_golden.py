"""Writes golden/adapters.json.gz: variants of adapter_config.json and of the tensors beside it, and what PEFT makes of each.

    python3 tests/core/make_adapter_golden.py [SEED [COUNT [FILE]]]        needs torch, transformers and peft

Each variant starts from a plain adapter of a small random Llama and changes some keys, or some tensors. PEFT loads the
folder, and for each module with an adapter the weight that it computes with, read off by unit vectors in two places of a
sequence, is compared with W + s B A. A variant is `plain` if that holds for one s for each module; then `scales` has it.
Modules whose change is zero are left out. Otherwise `why` says what PEFT did. `harmless`: nothing was changed, or only
what has no say in what the adapter computes: the reader must take it. Values of tensors are not stored: the reader
needs shapes alone. Weights of the base are those before PEFT saw the model.
"""
import gzip
import json
import os
import pathlib
import random
import sys
import tempfile
import warnings

os.environ.setdefault('HF_HUB_OFFLINE', '1')
warnings.filterwarnings('ignore')

import peft
import safetensors.torch
import torch
import transformers

FOLDER = pathlib.Path(__file__).resolve().parent
CONFIG = dict(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4,
              num_key_value_heads=2, head_dim=8, max_position_embeddings=64, tie_word_embeddings=False)
NAMES = ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj']
BEFORE = 'base_model.model.'
torch.manual_seed(0)
BASE = {k: v.clone() for k, v in transformers.LlamaForCausalLM(transformers.LlamaConfig(**CONFIG)).state_dict().items()}


def model():
    made = transformers.LlamaForCausalLM(transformers.LlamaConfig(**CONFIG, attn_implementation='eager')).eval()
    made.load_state_dict(BASE)
    return made


def plain_adapter(options, rng):
    """The config that PEFT writes, and random tensors of the names and shapes that it writes."""
    adapted = peft.get_peft_model(model(), peft.LoraConfig(task_type='CAUSAL_LM', **options))
    with tempfile.TemporaryDirectory() as folder:
        adapted.save_pretrained(folder)
        config = json.loads((pathlib.Path(folder) / 'adapter_config.json').read_text())
        names = safetensors.torch.load_file(str(pathlib.Path(folder) / 'adapter_model.safetensors'))
    for key, value in config.items():
        if key in ('target_modules', 'exclude_modules') and isinstance(value, list):
            config[key] = sorted(value)  # PEFT keeps a set
    generator = torch.Generator().manual_seed(rng.randrange(1 << 30))
    return config, {k: torch.randn(v.shape, generator=generator) * 0.1 for k, v in names.items()}


def some(rng, least=1):
    return sorted(rng.sample(NAMES, rng.randint(least, 4)))


PATTERNS = ['.*\\.(q_proj|v_proj)', '.*q_proj', 'model\\.layers\\.[0-1]\\.self_attn\\.(q|k|v)_proj', '.*self_attn.*proj',
            '(?:.*?(?:self_attn|mlp).*?(?:q_proj|down_proj))', '.*\\.\\d+\\.mlp\\.(up|down)_proj$', '^model.layers.2.*_proj',
            '(?!.*mlp).*(?:q_proj|k_proj)', '.*layers\\.[\\d]{1,}\\.self_attn\\.o_proj', 'all-linear', 'ALL-LINEAR',
            'model.layers.(0|2).mlp.(gate|up)_proj']


def random_options(rng):
    """What a person trains with."""
    options = dict(r=rng.choice([1, 2, 4, 8]), lora_alpha=rng.choice([1, 4, 6, 16, 0.5]), target_modules=some(rng),
                   use_rslora=rng.random() < 0.3, lora_dropout=rng.choice([0.0, 0.05]))
    kind = rng.randrange(8)
    if kind == 0:
        options['target_modules'] = rng.choice(PATTERNS)
    elif kind == 1:
        options['layers_to_transform'] = rng.choice([0, 2, [1], [0, 2], []])
        if rng.random() < 0.5:
            options['layers_pattern'] = rng.choice(['layers', ['layers'], ['h', 'layers']])
            if options['layers_to_transform'] == []:
                del options['layers_pattern']
    elif kind == 2:
        options['exclude_modules'] = rng.choice([[options['target_modules'][0], '0.self_attn.q_proj'], '.*\\.1\\..*', ['lm_head']])
        options['target_modules'] = sorted(set(options['target_modules']) | {'up_proj', 'q_proj'})
    elif kind == 3:
        options['rank_pattern'] = rng.choice([{options['target_modules'][0]: 3}, {'layers.1.*': 5}, {'^model.layers.0.*q_proj': 2},
                                              {'self_attn.q_proj': 2, 'mlp.*': 7}])
    elif kind == 4:
        options['alpha_pattern'] = rng.choice([{options['target_modules'][0]: 3}, {'.*\\.2\\..*': 5.5}, {'down_proj': 0}])
    elif kind == 5:
        options['target_modules'] = rng.choice(['all-linear', ['lm_head', 'q_proj'], ['model.layers.1.mlp.up_proj', 'q_proj'],
                                                ['1.self_attn.v_proj', 'k_proj'], ['q_proj', 'c_attn']])
    elif kind == 6:
        options['init_lora_weights'] = rng.choice([True, False, 'gaussian', 'orthogonal', 'eva'])
        if options['init_lora_weights'] == 'orthogonal':
            options['r'] = 4
    return options


HARMLESS = [('inference_mode', False), ('inference_mode', None), ('task_type', None), ('task_type', 'SEQ_CLS'), ('task_type', 'TOKEN_CLS'),
            ('revision', 'main'), ('peft_version', '0.99.0'), ('base_model_name_or_path', 'org/other'), ('base_model_name_or_path', None),
            ('auto_mapping', {'base_model_class': 'LlamaForCausalLM', 'parent_library': 'transformers'}), ('lora_dropout', 0.5),
            ('qalora_group_size', 32), ('megatron_core', 'megatron'), ('megatron_core', None), ('ensure_weight_tying', True),
            ('eva_config', {'rho': 2.0, 'tau': 0.99}), ('runtime_config', {'ephemeral_gpu_offload': True}),
            ('use_dora', None), ('modules_to_save', []), ('loftq_config', None), ('rank_pattern', {}), ('alpha_pattern', {}),
            ('lora_bias', None), ('new_key', None), ('new_key', {}), ('new_flag', False), ('init_lora_weights', None),
            ('init_lora_weights', False), ('init_lora_weights', 'gaussian'), ('init_lora_weights', 'eva'), ('lora_alpha', 0),
            ('lora_alpha', 2.5), ('use_rslora', None), ('exclude_modules', []), ('layers_pattern', []), ('layers_to_transform', [])]
MORE = [('init_lora_weights', 'pissa'), ('init_lora_weights', 'pissa_niter_4'), ('init_lora_weights', 'olora'),
        ('init_lora_weights', 'corda'), ('init_lora_weights', 'loftq'), ('init_lora_weights', 'lora_ga'), ('init_lora_weights', 'mica'),
        ('init_lora_weights', 'something'), ('init_lora_weights', 1), ('init_lora_weights', 'PISSA'), ('init_lora_weights', 'OLoRA'),
        ('alora_invocation_tokens', [5]), ('alora_invocation_tokens', []), ('use_dora', True), ('use_dora', 1), ('lora_bias', True),
        ('use_bdlora', {'target_modules_bd_a': ['q_proj'], 'target_modules_bd_b': [], 'nblocks': 2, 'match_strict': False}),
        ('use_bdlora', {}), ('use_bdlora', True), ('arrow_config', {'top_k': 1}), ('arrow_config', {}), ('kasa_config', {}),
        ('kasa_config', {'beta': 0.1}), ('velora_config', {}), ('velora_config', {'num_groups': 4}), ('monteclora_config', {}),
        ('use_qalora', True), ('fan_in_fan_out', True), ('bias', 'all'), ('bias', 'lora_only'), ('bias', None), ('bias', ''),
        ('modules_to_save', ['lm_head']), ('modules_to_save', ['embed_tokens']), ('layer_replication', [[0, 2], [1, 3]]),
        ('layer_replication', []), ('trainable_token_indices', [1, 2]), ('trainable_token_indices', {'embed_tokens': [3]}),
        ('trainable_token_indices', []), ('target_parameters', ['self_attn.q_proj.weight']), ('target_parameters', []),
        ('megatron_config', {'a': 1}), ('corda_config', {}), ('lora_ga_config', {}), ('loftq_config', {'loftq_bits': 4}),
        ('peft_type', 'LOHA'), ('peft_type', 'ADALORA'), ('peft_type', 'IA3'), ('peft_type', 'lora'), ('peft_type', None),
        ('task_type', 'CHAT'), ('lora_alpha', None), ('lora_alpha', '16'), ('lora_alpha', -4), ('lora_alpha', True), ('r', None),
        ('r', 0), ('r', -4), ('r', '4'), ('r', 4.0), ('r', True), ('lora_dropout', 'x'), ('lora_dropout', 2), ('lora_dropout', None),
        ('use_rslora', 'no'), ('use_rslora', 1), ('use_rslora', True), ('rank_pattern', {'q_proj': 16}), ('rank_pattern', [1]),
        ('alpha_pattern', {'(q|v)_proj': '3'}), ('alpha_pattern', {'.*': 32}), ('target_modules', None), ('target_modules', []),
        ('target_modules', ['nothing']), ('target_modules', 'q_proj'), ('target_modules', ['self_attn', 'q_proj']),
        ('target_modules', '(?i).*Q_PROJ|.*'), ('target_modules', '.*'), ('target_modules', ['input_layernorm', 'q_proj']),
        ('target_modules', 'model.layers.0.*(q_proj|v_proj)'), ('layers_to_transform', 1), ('layers_to_transform', [7]),
        ('layers_pattern', ['h']), ('layers_pattern', 'layers'), ('exclude_modules', ['q_proj']), ('exclude_modules', '.*v_proj'),
        ('new_key', 3), ('new_key', {'a': 1}), ('use_new_lora', True), ('new_config', 'x'), ('eva_config', {'rho': 0.5}),
        ('eva_config', 'x'), ('revision', 5), ('auto_mapping', 'x'), ('base_model_name_or_path', ['x'])]


def change_tensors(tensors, rng):
    """One change of the file of tensors; returns its name."""
    kind = rng.choice(['drop_layer', 'drop_a', 'drop_b', 'drop_name', 'magnitude', 'embedding', 'bias', 'save', 'adapter_name',
                       'two_adapters', 'no_prefix', 'base_layer', 'other_module', 'rank', 'cross', 'double_prefix', 'diag'])
    names = sorted(tensors)
    a = rng.choice([n for n in names if '.lora_A.' in n])
    b, module = a.replace('lora_A', 'lora_B'), a.split('.lora_A.')[0]
    if kind == 'drop_layer':
        for n in [n for n in names if '.1.' in n and len(tensors) > 2]:
            del tensors[n]
    elif kind in ('drop_a', 'drop_b'):
        del tensors[a if kind == 'drop_a' else b]
    elif kind == 'drop_name':
        for n in [n for n in names if module.rsplit('.', 1)[1] in n and len(tensors) > 2]:
            del tensors[n]
    elif kind == 'magnitude':
        tensors[module + '.lora_magnitude_vector'] = torch.ones(tensors[b].shape[0])
    elif kind == 'embedding':
        tensors[BEFORE + 'model.embed_tokens.lora_embedding_A'] = torch.ones(4, 64)
        tensors[BEFORE + 'model.embed_tokens.lora_embedding_B'] = torch.ones(32, 4)
    elif kind == 'bias':
        tensors[b.replace('.weight', '.bias')] = torch.ones(tensors[b].shape[0])
    elif kind == 'save':
        tensors[BEFORE + 'lm_head.modules_to_save.weight'] = torch.ones(64, 32)
    elif kind == 'adapter_name':
        for n in names:
            tensors[n.replace('.weight', '.default.weight')] = tensors.pop(n)
    elif kind == 'two_adapters':
        tensors[a.replace('.weight', '.other.weight')] = tensors[a].clone()
    elif kind == 'no_prefix':
        for n in names:
            tensors[n.removeprefix(BEFORE)] = tensors.pop(n)
    elif kind == 'base_layer':
        tensors[module + '.base_layer.weight'] = torch.ones(4, 4)
    elif kind == 'other_module':
        other = rng.choice([n for n in NAMES if n not in module])
        block = 'self_attn' if other[0] in 'qkvo' else 'mlp'
        tensors[f'{BEFORE}model.layers.0.{block}.{other}.lora_A.weight'] = torch.ones(tensors[a].shape)
        tensors[f'{BEFORE}model.layers.0.{block}.{other}.lora_B.weight'] = torch.ones(tensors[b].shape)
    elif kind == 'rank':
        tensors[a] = torch.cat([tensors[a], tensors[a]])
        tensors[b] = torch.cat([tensors[b], tensors[b]], dim=1)
    elif kind == 'cross':
        tensors[a] = tensors[a].T.contiguous()
    elif kind == 'double_prefix':
        for n in names:
            tensors['base_model.model.' + n] = tensors.pop(n)
    elif kind == 'diag':
        tensors[module + '.lora_diag'] = torch.ones(tensors[a].shape[0])
    return kind


def used_weight(module, width):
    """The matrix that this layer multiplies by, at the first and at the last place of a sequence."""
    found = []
    with torch.no_grad():
        for place in (0, 1):
            x = torch.zeros(width, 2, width)
            x[:, place] = torch.eye(width)
            found.append(module(x)[:, place].T - module(torch.zeros(1, 2, width))[0, place][:, None])
    return found


def judge(folder, tensors):
    """What PEFT does with the adapter."""
    try:
        adapted = peft.PeftModel.from_pretrained(model(), folder).eval()
    except Exception as error:
        return dict(why=f'PEFT refuses: {type(error).__name__}: {str(error)[:90]}')
    scales = {}
    changed = {n.removeprefix(BEFORE) for n, m in adapted.named_modules() if hasattr(m, 'base_layer')}
    if adapted.base_model.model.config.num_hidden_layers != 3 or len(adapted.base_model.model.model.layers) != 3:
        return dict(why='another number of layers')
    state = {k.replace('.base_layer', '').removeprefix(BEFORE): v for k, v in adapted.state_dict().items()}
    for name, weight in BASE.items():
        module = name.removesuffix('.weight')
        if module in changed:
            continue
        if not torch.equal(state[name], weight):
            return dict(why=f'another {name}')
    for name, part in adapted.named_modules():
        if not hasattr(part, 'base_layer'):
            continue
        module = name.removeprefix(BEFORE)
        if not isinstance(part, peft.tuners.lora.Linear):
            return dict(why=f'{module}: a {type(part).__name__}')
        weight = BASE[module + '.weight']
        try:
            here, there = used_weight(part, weight.shape[1])
        except Exception as error:
            return dict(why=f'{module}: cannot be computed: {type(error).__name__}')
        if (here - there).abs().max() > 1e-5:
            return dict(why=f'{module}: depends on the place')
        change = here - weight
        a, b = (tensors.get(f'{BEFORE}{module}.lora_{half}.weight') for half in 'AB')
        sum_ = b @ a if a is not None and b is not None and a.shape[0] == b.shape[1] else torch.zeros_like(weight)
        if sum_.shape != weight.shape:
            return dict(why=f'{module}: another shape')
        scale = (change * sum_).sum().item() / max((sum_ * sum_).sum().item(), 1e-30)
        if (change - scale * sum_).abs().max() > 1e-4 * (1 + abs(scale)):
            return dict(why=f'{module}: not W + s B A')
        if abs(scale) > 1e-4:
            scales[module] = round(scale, 4)
    tokens = torch.arange(1, 21)[None]
    merged = model()
    with torch.no_grad():
        for module, scale in scales.items():
            a, b = (tensors[f'{BEFORE}{module}.lora_{half}.weight'] for half in 'AB')
            merged.get_submodule(module).weight += scale * b @ a
        try:
            logits = adapted(input_ids=tokens).logits
        except Exception as error:
            return dict(why=f'the model cannot be computed: {type(error).__name__}')
        if logits.shape != (1, 20, 64):
            return dict(scales=scales)  # a head of another task; the weights are what counts
        if (logits - merged(tokens).logits).abs().max() > 1e-3:
            return dict(why='another forward pass')
    return dict(scales=scales)


def variants(seed, count):
    rng = random.Random(seed)
    single = [(('key', pair), pair) for pair in HARMLESS + MORE]
    for number in range(count):
        options = random_options(rng)
        try:
            config, tensors = plain_adapter(options, rng)
        except Exception:
            options = dict(r=4, lora_alpha=6, target_modules=['q_proj', 'down_proj'])
            config, tensors = plain_adapter(options, rng)
        if options['target_modules'] in ('all-linear', 'ALL-LINEAR') or isinstance(options['target_modules'], str):
            config['target_modules'] = options['target_modules'] if rng.random() < 0.7 else config['target_modules']
        what = []
        if number < len(single):
            key, value = single[number][1]
            config[key] = value
            what.append(key)
        elif number % 3 == 0:
            what.append(change_tensors(tensors, rng))
        elif number % 3 == 1:
            for key, value in rng.sample(HARMLESS, rng.randint(1, 3)):
                config[key] = value
                what.append(key)
            if rng.random() < 0.3:
                key = rng.choice(sorted(config))
                if key not in ('peft_type', 'target_modules', 'task_type'):
                    del config[key]
        else:
            for key, value in rng.sample(MORE, 1) + rng.sample(HARMLESS, 1):
                config[key] = value
                what.append(key)
        harmless = all(any(key == k and config.get(key) == v for k, v in HARMLESS) for key in what)
        yield what, harmless, config, tensors


def main():
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 240
    out = sys.argv[3] if len(sys.argv) > 3 else FOLDER / 'golden' / 'adapters.json.gz'
    cases = []
    for what, harmless, config, tensors in variants(seed, count):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / 'adapter_config.json').write_text(json.dumps(config))
            safetensors.torch.save_file(tensors, str(pathlib.Path(folder) / 'adapter_model.safetensors'))
            verdict = judge(folder, tensors)
        short = {k: v for k, v in config.items() if v is not None or k in what}
        cases.append(dict(what=what, harmless=harmless, config=short, tensors={k: list(v.shape) for k, v in sorted(tensors.items())}, **verdict))
    versions = dict(torch=torch.__version__, transformers=transformers.__version__, peft=peft.__version__)
    text = json.dumps(dict(versions=versions, seed=seed, cases=cases), separators=(',', ':')) + '\n'
    pathlib.Path(out).write_bytes(gzip.compress(text.encode(), mtime=0))
    print(len(cases), 'variants,', sum('scales' in c for c in cases), 'plain,', pathlib.Path(out).stat().st_size, 'bytes')


if __name__ == '__main__':
    main()
