#!/usr/bin/env python3
"""Does a model that our trainer wrote answer in transformers as it does in KVScope?

    python3 tests/engine/check_checkpoint.py [samples/models/kvscope-tiny] [--questions 20]

Loads the folder with transformers (so file names, tensor names, shapes, config and tokenizer are all as that package
expects them), states a fact and a list of numbers, goes on with held-out text, asks, and decodes greedily. Exit status 1 if
fewer than nine in ten answers are exact, 77 (skipped) if torch or transformers cannot be imported.
"""
import argparse
import pathlib
import random
import sys

try:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
except ImportError as problem:
    print(f'skipped: {problem}')
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[2]
THINGS = ['amber falcon', 'quiet harbor', 'velvet saddle', 'copper mirror', 'silver orchard']


def ask(model, tokenizer, text, rng):
    """One document with both tasks: (expected, written) twice."""
    def filler(n):
        start = rng.randrange(len(text) - 5 * n)
        return text[start:start + 5 * n]  # about five bytes a token
    code, numbers = str(rng.randint(1000, 9999)), [f'{rng.randint(0, 99):02d}' for _ in range(rng.randint(8, 16))]
    thing = rng.choice(THINGS)
    said = (filler(150) + f'\nThe code of the {thing} is {code}.\n' + filler(150) + '\nNumbers: ' + ' '.join(numbers)
            + '.\n' + filler(600))
    for question, answer in ((f'\nWhat is the code of the {thing}?', f' {code}.\n'),
                             ('\nReversed:', ' ' + ' '.join(reversed(numbers)) + '.\n')):
        expected = tokenizer(answer, add_special_tokens=False).input_ids
        ids = torch.tensor([tokenizer(said + question, add_special_tokens=False).input_ids])
        with torch.no_grad():
            out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=len(expected), do_sample=False)
        yield answer, tokenizer.decode(out[0, ids.shape[1]:])


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument('model', nargs='?', type=pathlib.Path, default=ROOT / 'samples/models/kvscope-tiny')
    arguments.add_argument('--questions', type=int, default=20)
    options = arguments.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(options.model)
    model = AutoModelForCausalLM.from_pretrained(options.model, dtype=torch.float32)
    text = (ROOT / 'samples/prompts/heldout.txt').read_text(encoding='utf-8')
    rng, right, asked = random.Random(5), 0, 0
    while asked < options.questions:
        for expected, written in ask(model, tokenizer, text, rng):
            asked += 1
            right += written == expected
            if written != expected:
                print(f'expected {expected!r}, written {written!r}')
    print(f'{right} of {asked} answers exact')
    return 0 if right >= 0.9 * asked else 1


if __name__ == '__main__':
    sys.exit(main())
