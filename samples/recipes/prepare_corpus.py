#!/usr/bin/env python3
"""Make the training corpus of the sample model from Debian's documentation packages.

    python3 samples/recipes/prepare_corpus.py OUT [--tokenizer FILE | --plain] [--cache DIR] [--max-tokens N] [--heldout FILE
                                                       [--heldout-bytes N] [--heldout-packages NAME...]]

Needs `apt-get` and `dpkg` (nothing is installed: packages are downloaded and unpacked into the cache folder) and the
Python packages `tokenizers` and `numpy`. Writes into OUT:

    tokenizer.json  byte-level BPE, 4096 entries, trained on the same text; with --tokenizer a copy of that file
                    (of at most 65536 entries): a corpus for gates of the model that it belongs to
    text.u16        tokens, uint16 little-endian, documents separated by <|endoftext|> (id 0); the trainer keeps the
                    last 2 % for its own held-out sequences
    corpus.json     packages and versions, counts, sha256 of every file written

With --plain: text.txt, the documents themselves, in place of the first two. `kvscope train --base` makes tokens of them, also for
a model of more than 65536 tokens.

and, with --heldout, the text that no training file contains: the tutorial and the HOWTOs of Python's documentation, and
all pages of --heldout-packages (then in a seeded order).
The same packages give the same bytes: files are sorted by path before they are shuffled with a fixed seed.
"""
import argparse
import gzip
import hashlib
import html
import json
import random
import re
import subprocess
import sys
from pathlib import Path

PACKAGES = ['python3.11-doc', 'debian-policy', 'debian-handbook', 'developers-reference', 'git-doc',
            'postgresql-doc-15', 'linux-doc-6.1']
VOCABULARY = 4096
SPECIAL_TOKENS = ['<|endoftext|>', '<|im_start|>', '<|im_end|>']
# Qwen's split: contractions, words with one leading mark, single digits, runs of punctuation, line ends, blanks.
SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
         r"|\s+(?!\S)|\s+")
# Documents that only evaluation may read. Paths contain the package's name first.
HELDOUT = re.compile(r'^python3\.11-doc/.*/html/(tutorial|howto)/[^/]+\.html$')
# _sources and _downloads repeat the pages (the held-out ones too); translations and indices are not English prose.
UNUSED = re.compile(r'/_sources/|/_downloads/|/translations/|/devicetree/|genindex|searchindex|/debian-handbook/html/(?!en-US/)')
SEED = 20261121
TOKENIZER_DOCUMENTS = 3000


def unpack(cache, packages):
    """Download and unpack what the cache lacks. -> {package: version}"""
    cache.mkdir(parents=True, exist_ok=True)
    versions = {}
    for package in packages:
        if not any(cache.glob(f'{package}_*.deb')):
            subprocess.run(['apt-get', 'download', '-q', package], cwd=cache, check=True, stdout=subprocess.DEVNULL)
        deb = sorted(cache.glob(f'{package}_*.deb'))[-1]
        versions[package] = subprocess.run(['dpkg-deb', '-f', deb, 'Version'], check=True, capture_output=True,
                                           text=True).stdout.strip()
        folder = cache / 'files' / package
        if not folder.exists():
            part = cache / 'files' / (package + '.part')  # a cut-off unpacking is not taken for a whole one
            part.mkdir(parents=True, exist_ok=True)
            subprocess.run(['dpkg', '-x', deb, part], check=True)
            part.rename(folder)
    return versions


def pages(folder):
    """Documentation pages in the order of their paths: (path relative to folder, path)."""
    found = []
    for path in folder.rglob('*'):
        name = path.relative_to(folder).as_posix()
        if (re.search(r'\.(html|txt|rst)(\.gz)?$', name) and not UNUSED.search('/' + name) and not path.is_symlink()
                and path.is_file()):
            found.append((name, path))
    return sorted(found)


def english(path):
    """The prose of a page: no markup, no code, no tables. '' if little is left."""
    raw = gzip.decompress(path.read_bytes()) if path.suffix == '.gz' else path.read_bytes()
    try:
        text = raw.decode('utf-8')
    except UnicodeDecodeError:
        return ''
    if '.html' in path.name:
        text = re.sub(r'(?s)<(script|style|head|nav)\b.*?</\1>', ' ', text)
        text = html.unescape(re.sub(r'(?s)<[^>]+>', '', text))
    text = text.replace('\u00b6', '').replace('\u00a0', ' ').replace('\r', '')
    text = re.sub(r'[ \t]+', ' ', text)
    kept = []
    for line in text.split('\n'):
        line = line.strip()
        prose = len(line) > 40 and sum(c.isascii() and (c.isalpha() or c == ' ') for c in line) / len(line) > 0.85
        if not line or prose:
            kept.append(line)
    text = re.sub(r'\n\n+', '\n\n', '\n'.join(kept)).strip()
    return text if len(text) > 500 else ''


def write_heldout(file, found, max_bytes, packages):
    """Whole pages, as many as fit."""
    held = [(name, path) for name, path in found if HELDOUT.match(name) or name.split('/')[0] in packages]
    if packages:
        random.Random(SEED).shuffle(held)
    text, size, seen = [], 0, set()
    for _, path in held:
        page = english(path)
        if page and page not in seen and size + len(page.encode()) < max_bytes:
            seen.add(page)
            text.append(page)
            size += len(page.encode()) + 2
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text('\n\n'.join(text) + '\n', encoding='utf-8')


def train_tokenizer(documents):
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(SPLIT), 'isolated'),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(documents, trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=SPECIAL_TOKENS,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    return tokenizer


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def write_text(options, documents):
    """text.txt, about as much as `max_tokens` tokens of English are. -> facts for corpus.json"""
    used, size = [], 0
    for document in documents:
        if size >= 4 * options.max_tokens:
            break
        used.append(document)
        size += len(document)
    path = options.out / 'text.txt'
    path.write_text('\n\n'.join(used) + '\n', encoding='utf-8')
    return {'documents': len(used), 'bytes': path.stat().st_size, 'sha256': {path.name: sha256(path)}}


def write_tokens(options, documents):
    """text.u16 and tokenizer.json. -> facts for corpus.json"""
    import numpy as np
    from tokenizers import Tokenizer

    if options.tokenizer:
        tokenizer = Tokenizer.from_file(str(options.tokenizer))
        if tokenizer.get_vocab_size() > 65536:
            sys.exit(f'{options.tokenizer}: {tokenizer.get_vocab_size()} entries; text.u16 holds 65536')
        (options.out / 'tokenizer.json').write_bytes(options.tokenizer.read_bytes())
    else:
        tokenizer = train_tokenizer(documents[:TOKENIZER_DOCUMENTS])
        tokenizer.save(str(options.out / 'tokenizer.json'))
    end = tokenizer.token_to_id('<|endoftext|>')
    if end is None:
        sys.exit('the tokenizer has no <|endoftext|> to stand between documents')
    parts, n_tokens, n_used = [], 0, 0
    for first in range(0, len(documents), 256):
        for encoding in tokenizer.encode_batch(documents[first:first + 256], add_special_tokens=False):
            ids = np.array(encoding.ids + [end], dtype='<u2')
            if n_tokens < options.max_tokens:
                parts.append(ids)
                n_tokens += len(ids)
                n_used += 1
        if n_tokens >= options.max_tokens:
            break
    np.concatenate(parts)[:options.max_tokens].tofile(options.out / 'text.u16')
    n_tokens = min(n_tokens, options.max_tokens)
    return {'documents': n_used, 'tokens': n_tokens, 'vocabulary': tokenizer.get_vocab_size(),
            'sha256': {name: sha256(options.out / name) for name in ('text.u16', 'tokenizer.json')}}


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument('out', type=Path)
    arguments.add_argument('--tokenizer', type=Path, help='tokenizer.json of a model, in place of one trained here')
    arguments.add_argument('--plain', action='store_true', help='write text, not tokens')
    arguments.add_argument('--cache', type=Path, default=Path.home() / '.cache' / 'kvscope' / 'corpus')
    arguments.add_argument('--max-tokens', type=int, default=13_400_000)
    arguments.add_argument('--heldout', type=Path, help='also write the held-out text to this file')
    arguments.add_argument('--heldout-bytes', type=int, default=360_000)
    arguments.add_argument('--heldout-packages', nargs='*', default=[], help='further packages, of which no page is trained on')
    options = arguments.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.tokenizer and options.plain:
        arguments.error('--plain has no tokens: leave --tokenizer out')
    if not options.plain:
        import numpy, tokenizers  # noqa: E401, F401  both here, before minutes of work

    versions = unpack(options.cache, PACKAGES + options.heldout_packages)
    used = set(PACKAGES + options.heldout_packages)
    found = [(name, path) for name, path in pages(options.cache / 'files') if name.split('/')[0] in used]
    training = [(name, path) for name, path in found
                if not HELDOUT.match(name) and name.split('/')[0] not in options.heldout_packages]
    random.Random(SEED).shuffle(training)
    seen, documents = set(), []
    for _, path in training:
        text = english(path)
        digest = hashlib.sha256(text.encode()).digest()  # some pages stand in two places
        if text and digest not in seen:
            seen.add(digest)
            documents.append(text)
    print(f'{len(documents)} documents, {sum(map(len, documents)) / 1e6:.1f} MB of text', file=sys.stderr)

    written = write_text(options, documents) if options.plain else write_tokens(options, documents)
    facts = {'packages': versions, 'pages': len(found), 'seed': SEED, 'heldout_pages': HELDOUT.pattern, **written}
    if options.heldout:
        write_heldout(options.heldout, found, options.heldout_bytes, options.heldout_packages)
        facts['sha256'][options.heldout.name] = sha256(options.heldout)
    (options.out / 'corpus.json').write_text(json.dumps(facts, indent=2) + '\n')
    print(json.dumps(facts, indent=2))


if __name__ == '__main__':
    main()
