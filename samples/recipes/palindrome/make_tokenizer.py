#!/usr/bin/env python3
"""Make the tokenizer of the palindrome recipes: python3 make_tokenizer.py > tokenizer.json

Byte-level BPE with Llama 3's split. A two-digit number is one token and the blank before it another, as in SP-KV's App. G,
whose chance level is ln(100) / 2 a token; every word of the task's text is one token (engine/jobs/tasks/palindrome.cpp has
the text; a word that is not here is read as bytes).
"""
import json

TEXT = ("Numbers Reversed Read the list of numbers above once more and keep every one of them in mind with its place in the list "
        "Then write the same numbers again in the opposite order begin with the last one go on with the one before it and end "
        "with the first Leave a single blank between two numbers leave none of them out and close the line with a full stop")
SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
         r"|\s+(?!\S)|\s+")
SPECIAL = ['<|endoftext|>', '<|im_start|>', '<|im_end|>']


def byte_alphabet():
    """GPT-2's printable stand-ins for the 256 bytes, in the order of the bytes."""
    printable = [*range(ord('!'), ord('~') + 1), *range(0xa1, 0xad), *range(0xae, 0x100)]
    others = [b for b in range(256) if b not in printable]
    return [chr(b) if b in printable else chr(256 + others.index(b)) for b in range(256)]


def main():
    merges = [(a, b) for a in '0123456789' for b in '0123456789']
    for word in TEXT.split():
        # A word at the beginning of a line stands alone, one inside has its blank with it.
        pieces = ['\u0120' + word] + ([word] if word[0].isupper() else [])
        merges += [(piece[:i], piece[i]) for piece in pieces for i in range(1, len(piece))]
    merges = list(dict.fromkeys(merges))
    tokens = SPECIAL + byte_alphabet() + [a + b for a, b in merges]
    special = [{'id': i, 'content': text, 'single_word': False, 'lstrip': False, 'rstrip': False, 'normalized': False,
                'special': True} for i, text in enumerate(SPECIAL)]
    byte_level = {'type': 'ByteLevel', 'add_prefix_space': False, 'trim_offsets': True, 'use_regex': False}
    split = {'type': 'Split', 'pattern': {'Regex': SPLIT}, 'behavior': 'Isolated', 'invert': False}
    print(json.dumps({
        'version': '1.0', 'truncation': None, 'padding': None, 'added_tokens': special, 'normalizer': {'type': 'NFC'},
        'pre_tokenizer': {'type': 'Sequence', 'pretokenizers': [split, byte_level]}, 'post_processor': None,
        'decoder': {**byte_level, 'add_prefix_space': True, 'use_regex': True},
        'model': {'type': 'BPE', 'dropout': None, 'unk_token': None, 'continuing_subword_prefix': None,
                  'end_of_word_suffix': None, 'fuse_unk': False, 'byte_fallback': False, 'ignore_merges': False,
                  'vocab': {token: i for i, token in enumerate(tokens)}, 'merges': [list(pair) for pair in merges]}},
        ensure_ascii=False, separators=(',', ':')))


if __name__ == '__main__':
    main()
