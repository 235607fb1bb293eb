#!/usr/bin/env python3
"""The held-out table of a model (SmolLM2-135M): every policy and gate, on text that no training saw and on questions.

    python3 samples/recipes/heldout_table.py OUT --text FILE [--gates FOLDER] [--pieces 150] [--questions 400] [--rows REGEX]
                                             [--gpus 1] [--first-gpu 0] [--at-once 4] [--kvscope ./run] [--table-only]

Each row group is a `kvscope eval` for the text and one for the questions, OUT/text-GROUP.h5 and OUT/task-GROUP.h5. Their
answers are saved at once (OUT/text-GROUP.h5.answers), so repeat the command to continue after a stop. `--at-once` evaluations share
a GPU. FILE is what `prepare_corpus.py --heldout` wrote; FOLDER has a folder for each trained variant of KVpop
("mlp/kvpop-mlp/gate.json"; with "w256" in its name: of a window of 256, with "pooled": under one budget for all heads). For another
model, give --model and --shipped, a folder of its gates under the names that SmolLM2's have; rows of absent gates are left out.
Prints, as Markdown, paired differences to the dense model with their standard error, and Wilson's 95 % intervals. Needs nothing but
Python.
"""
import argparse
import collections
import json
import math
import os
import pathlib
import re
import statistics
import subprocess
import sys
import threading

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHIPPED = ROOT / 'samples/gates/smollm2-135m'
# Questions in the forms that the gates are trained on, then in forms that no training has.
TRAINED_FORMS = ('trained-forms',)
HELD_OUT_FORMS = ('needle', 'birthplace', 'passkey', 'needle-keys', 'needle-values', 'key-values', 'variables', 'common-words')
TASKS = TRAINED_FORMS + HELD_OUT_FORMS
SHARES = ('50%', '25%', '12.5%')
FORM = 'window=64,sinks=4'
# What goes by scores is read in one pass, exactly as token by token. The others act after every CHUNK tokens.
STEPWISE = ('tova', 'h2o', 'snapkv', 'expected-attention')
CHUNK = 64
POOLED = 'capacity=pooled,interval=32'  # cut as often as its scorers learned it, in prompts and texts alike
ORACLES = {'rms': 'rms', 'max': 'max', 'by-output': 'rms,weight=output', 'pooled': f'rms,weight=output,{POOLED}'}


def window_of(share, length):
    return int(float(share[:-1]) / 100 * length) - 4


def groups(length, gates, shipped):
    """-> {name: (gate or None, policies)}"""
    found = {
        'window': (None, [f'streaming:sinks=4,window={window_of(s, length)}' for s in SHARES]),
        'random': (None, [f'random:keep={s},{FORM}' for s in SHARES]),
        'oracle': (None, [f'oracle:keep={s},{FORM}' for s in SHARES]),
        'kvpop': (shipped / 'kvpop-mlstm', [f'kvpop:keep={s},{FORM}' for s in SHARES]),
        'sp-kv': (shipped / 'sp-kv-0.05', ['sp-kv', 'sp-kv:threshold=0.3', 'sp-kv:threshold=0.7']),
        'sp-kv-joint': (shipped / 'sp-kv-joint-0.05', ['sp-kv', 'sp-kv:threshold=0.3', 'sp-kv:threshold=0.7']),
        'dms': (shipped / 'dms-0.7', ['dms']),
    }
    for more in ORACLES:
        found[f'oracle-{more}'] = (None, [f'oracle:keep=25%,{FORM},mass={ORACLES[more]}'])
    found['pooled'] = (shipped / 'kvpop-pooled', [f'kvpop:keep={s},{FORM},{POOLED}' for s in SHARES])
    found['pooled-w256'] = (shipped / 'kvpop-w256', [f'kvpop:keep=25%,window=256,sinks=4,{POOLED}'])
    found['joint'] = (shipped / 'kvpop-joint', [f'kvpop:keep=25%,window=256,sinks=4,{POOLED}'])
    for price in ('0.003', '0.01', '0.03'):
        found[f'wg-kv-{price}'] = (shipped / f'wg-kv-{price}', ['wg-kv'])
    # Whatever its price, one gate can be asked for a density: a fifth outside its window is a quarter of all.
    found['wg-kv-at-20'] = (shipped / 'wg-kv-0.003', ['wg-kv:density=20%'])
    for name in STEPWISE:
        more = ',window=64' if name == 'h2o' else ''
        found[name] = (None, [f'{name}:keep={s}{more}' for s in SHARES])
    for gate in sorted(gates.glob('*/*/gate.json')) if gates else ():
        name = gate.parent.parent.name
        form = ('window=256,sinks=4' if 'w256' in name else FORM) + (f',{POOLED}' if 'pooled' in name else '')
        found[f'kvpop-{name}'] = (gate.parent, [f'kvpop:keep=25%,{form}'])
    return {name: group for name, group in found.items() if group[0] is None or group[0].exists()}


def command(options, kind, name, gate, policies):
    words = [options.kvscope, 'eval', options.model, '--device', options.device, '--policies', ';'.join(policies), '--quiet',
             '-o', str(options.out / f'{kind}-{name}.h5')]
    if kind == 'text':
        words += ['--texts', str(options.text), '--tasks', '', '--pieces', str(options.pieces), '--length', str(options.length),
                  '--chunk', str(CHUNK) if name in STEPWISE else '1', '--oracle', '--output-error']
    else:
        words += ['--tasks', ','.join(TASKS), '--questions', str(options.questions), '--length', str(options.question_length)]
    return words + (['--gate', str(gate)] if gate else [])


def run_all(options, wanted):
    """`at_once` evaluations a GPU; the last line of an error is printed, and the others go on."""
    jobs = collections.deque(wanted)
    failed = []

    def work(gpu):
        while True:
            try:
                kind, name, gate, policies = jobs.popleft()
            except IndexError:
                return
            environment = dict(os.environ, CUDA_VISIBLE_DEVICES=str(gpu), OMP_NUM_THREADS='1')
            done = subprocess.run(command(options, kind, name, gate, policies), env=environment, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE, text=True)
            if done.returncode != 0:
                failed.append(f'{kind} {name}: {(done.stderr.strip().splitlines() or ["no word"])[-1]}')
            print(f'{kind} {name}: exit code {done.returncode}', file=sys.stderr)

    gpus = range(options.first_gpu, options.first_gpu + options.gpus)
    threads = [threading.Thread(target=work, args=(gpu,)) for gpu in gpus for _ in range(options.at_once)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failed


def answers(path):
    """Answers of a file that an evaluation may still be writing."""
    found = []
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            answer = json.loads(line)
        except ValueError:
            continue
        if 'index' in answer:
            found.append(answer)
    return found


def mean_and_error(values):
    error = f' ± {statistics.stdev(values) / math.sqrt(len(values)):.4f}' if len(values) > 1 else ''
    return statistics.fmean(values), error


def wilson(right, n, z=1.959964):
    if n == 0:
        return 0.0, 1.0
    p, d = right / n, 1 + z * z / n
    half = z * math.sqrt(p * (1 - p) / n + z * z / 4 / n / n)
    return max(0.0, (p + z * z / 2 / n - half) / d), min(1.0, (p + z * z / 2 / n + half) / d)


def text_cells(found, policy):
    """NLL against dense on the same pieces, what was kept, recall and output error."""
    dense = {a['index']: a['nll'] for a in found if a['is_dense']}
    own = [a for a in found if a['policy'] == policy and a['index'] in dense]
    if not own:
        return [''] * 6
    difference, error = mean_and_error([a['nll'] - dense[a['index']] for a in own])
    cells = [f'{difference:+.4f}{error} ({100 * difference / statistics.fmean(dense.values()):+.2f} %, n = {len(own)})']
    for key in ('cache_size', 'density', 'recall', 'mass_recall', 'output_error'):
        values = [a[key] for a in own if a.get(key) is not None]
        cells.append(f'{statistics.fmean(values):.3f}' if values else '')
    return cells


def task_cells(found, policy):
    cells = []
    for task in TASKS:
        own = [a for a in found if a['policy'] == policy and a['item'] == task]
        right = sum(a['is_right'] for a in own)
        low, high = wilson(right, len(own))
        cells.append(f'{right} of {len(own)} ({low:.2f} to {high:.2f})' if own else '')
    return cells


def table(options, rows):
    tasks = [f'{task} (trained form)' for task in TRAINED_FORMS] + [f'{task} (held-out form)' for task in HELD_OUT_FORMS]
    print('| gate | policy | NLL against dense | cache size | density | recall | mass recall | output error | ' + ' | '.join(tasks) + ' |')
    print('|---|---|---|---|---|---|---|---|' + '---|' * len(tasks))
    for name, (_, policies) in rows.items():
        text, task = answers(options.out / f'text-{name}.h5.answers'), answers(options.out / f'task-{name}.h5.answers')
        for policy in (['full'] if name == 'window' else []) + policies:
            print(f'| {name} | `{policy}` | ' + ' | '.join(text_cells(text, policy) + task_cells(task, policy)) + ' |')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('out', type=pathlib.Path)
    parser.add_argument('--text', type=pathlib.Path, help='held-out text')
    parser.add_argument('--gates', type=pathlib.Path, help='folder of trained variants')
    parser.add_argument('--shipped', type=pathlib.Path, default=SHIPPED, help='folder of gates by their shipped names')
    parser.add_argument('--model', default='smollm2-135m')
    parser.add_argument('--device', default='cuda')
    parser.add_argument('--pieces', type=int, default=150)
    parser.add_argument('--length', type=int, default=4096)
    parser.add_argument('--questions', type=int, default=400)
    parser.add_argument('--question-length', type=int, default=2048)
    parser.add_argument('--rows', default='', help='only groups whose name has this in it')
    parser.add_argument('--gpus', type=int, default=1)
    parser.add_argument('--first-gpu', type=int, default=0)
    parser.add_argument('--at-once', type=int, default=4)
    parser.add_argument('--kvscope', default=str(ROOT / 'run'))
    parser.add_argument('--table-only', action='store_true', help='of the answers that are there')
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    rows = {name: group for name, group in groups(options.length, options.gates, options.shipped).items() if re.search(options.rows, name)}
    if not rows:
        sys.exit(f'heldout_table: no group like {options.rows!r}')
    failed = []
    if not options.table_only:
        if options.text is None:
            parser.error('--text FILE is needed, or --table-only')
        kinds = [kind for kind, n in (('text', options.pieces), ('task', options.questions)) if n > 0]
        failed = run_all(options, [(kind, name, *group) for kind in kinds for name, group in rows.items()])
    table(options, rows)
    for line in failed:
        print(line, file=sys.stderr)
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
