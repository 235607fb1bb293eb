#!/usr/bin/env python3
"""Makes one of the papers' tables: trains what it compares, then measures all of it in one sweep.

    python3 samples/recipes/make_table.py TABLE.json OUT [--data TEXT] [--device cuda] [--at-once 1] [--jobs 1]
                                          [--only REGEX] [--train-only] [--kvscope ./run]

TABLE.json is a sweep's recipe (docs/reference/studies.md) with one more key:

    "train": {"linear": {"recipe": "../smollm2-sp-kv.json", "base": "smollm2-135m", "overrides": {...}}, ...}

Each entry is trained into OUT/NAME by `kvscope train`. Without "base", it is a model; "base": "train:model" trains a gate for
the entry "model". "data" names a text next to TABLE.json; without it, --data is read. In the sweep, "train:NAME/GATE" is the
gate or model folder GATE in OUT/NAME. Other paths are next to TABLE.json.

Repeat the command to continue after a stop: finished trainings and answers are not made again. The study is OUT/table.h5, its
table OUT/table.csv. `--at-once N` trains N entries at a time on one device, and `--jobs N` measures with N engines. On one GPU,
first start NVIDIA's MPS (`nvidia-cuda-mps-control -d`), so that small models share it well; on a machine with several GPUs, also
set CUDA_VISIBLE_DEVICES=0 for this command, as the programs under MPS see one GPU. Do not kill a training under MPS: the other
programs on that GPU then fail too. Needs nothing but Python.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRAINED = 'train:'


class Failed(Exception):
    pass


def fail(message):
    sys.exit(f'make_table: {message}')


class Table:
    def __init__(self, path, out):
        self.folder, self.out = path.resolve().parent, out.resolve()
        try:
            self.sweep = json.loads(path.read_text())
        except (OSError, ValueError) as error:
            fail(f'{path}: {error}')
        self.train = self.sweep.pop('train', {})
        for name, entry in self.train.items():
            base = entry.get('base', '')
            if base.startswith(TRAINED) and base[len(TRAINED):].split('/')[0] not in self.train:
                fail(f'{path}: train.{name}: base {base!r} is none of its entries')

    def place(self, text):
        """A path or name of TABLE.json as a command can use it from anywhere."""
        if text.startswith(TRAINED):
            return str(self.out / text[len(TRAINED):])
        beside = self.folder / text
        return str(beside.resolve()) if beside.exists() else text

    def placed(self, value, key=''):
        """The sweep with every path of "model", "gates", "texts" and "filler" in place."""
        if isinstance(value, dict):
            return {k: self.placed(v, k) for k, v in value.items()}
        if isinstance(value, list):
            return [self.placed(v, key) for v in value]
        if not isinstance(value, str):
            return value
        if key == 'gates' and value.startswith(TRAINED):
            return value[len(TRAINED):]  # next to OUT/sweep.json, so that the table has short names
        return self.place(value) if key in ('model', 'gates', 'texts', 'filler') else value


def run(words):
    done = subprocess.run(words, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise Failed(f'{" ".join(words[:3])} ended with exit code {done.returncode}')


def train(table, name, options):
    entry = table.train[name]
    data = table.place(entry['data']) if 'data' in entry else options.data
    if data is None:
        raise Failed(f'train.{name} needs a text: give --data')
    words = [options.kvscope, 'train', table.place(entry['recipe']), '--data', data, '-o', str(table.out / name), '--resume',
             '--device', options.device]
    if 'base' in entry:
        words += ['--base', table.place(entry['base'])]
    if 'overrides' in entry:
        words += ['--overrides', json.dumps(entry['overrides'])]
    if options.at_once > 1:
        words += ['--quiet']
    print(f'make_table: {name}', file=sys.stderr)
    run(words)


def train_all(table, options):
    """Those whose base is trained too come last. One that fails does not stop the others."""
    wanted = [name for name in table.train if re.search(options.only, name)]
    later = [name for name in wanted if table.train[name].get('base', '').startswith(TRAINED)]
    failures = []
    for names in ([name for name in wanted if name not in later], later):
        with concurrent.futures.ThreadPoolExecutor(options.at_once) as pool:
            for work in [pool.submit(train, table, name, options) for name in names]:
                try:
                    work.result()
                except Failed as error:
                    failures.append(str(error))
        if failures:
            fail('; '.join(failures))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('table', type=pathlib.Path)
    parser.add_argument('out', type=pathlib.Path)
    parser.add_argument('--data', help='text or folder to train on, where the table names none')
    parser.add_argument('--device', default='cuda')
    parser.add_argument('--at-once', type=int, default=1, help='trainings at a time')
    parser.add_argument('--jobs', type=int, default=1, help='engines that measure at a time')
    parser.add_argument('--only', default='', help='train only entries whose name has this in it')
    parser.add_argument('--train-only', action='store_true', help='do not measure')
    parser.add_argument('--kvscope', default=str(ROOT / 'run'))
    options = parser.parse_args()
    table = Table(options.table, options.out)
    options.out.mkdir(parents=True, exist_ok=True)
    train_all(table, options)
    if options.train_only:
        return
    recipe = options.out / 'sweep.json'
    recipe.write_text(json.dumps({**table.placed(table.sweep), 'device': options.device}, indent=1) + '\n')
    os.execvp(options.kvscope, [options.kvscope, 'sweep', str(recipe), '-o', str(options.out / 'table.h5'), '--overwrite',
                               '--jobs', str(options.jobs)])


if __name__ == '__main__':
    main()
