#!/usr/bin/env python3
"""Writes unicode_tables.inc and nfc_tables.inc: what the `tokenizers` package takes for a letter, a number, white space,
a word character, and how its normal form C decomposes, orders and composes.

These belong to the package, not to a version of Unicode that a library here may have (its normal form is that of an
older Unicode than its letters), so the package itself is asked about every code point. Needs `pip install tokenizers`.
Takes half a minute.

    python3 engine/core/files/tokenizer/make_unicode_tables.py
"""
import bisect
import pathlib

import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

EVERY = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def matched(pattern):
    """Code points that a Split pattern matches: those that removing the matches takes away."""
    split = pre_tokenizers.Split(Regex(pattern), behavior="removed")
    text = "".join(map(chr, EVERY))
    left = {ord(c) for piece, _ in split.pre_tokenize_str(text) for c in piece}
    return set(EVERY) - left


def added_token_places(token, texts):
    """Where the token is found in each text, or None; a model without a vocabulary gives no other ids."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.add_tokens([token])
    for at in range(0, len(texts), 20000):
        for encoding in tokenizer.encode_batch(texts[at : at + 20000], add_special_tokens=False):
            yield encoding.offsets[0] if encoding.ids else None


def word_characters():
    """Added tokens with single_word use another engine's \\w: a token right after one of those is not found."""
    found = added_token_places(AddedToken("TOK", single_word=True, normalized=False), [chr(c) + "TOK" for c in EVERY])
    return {c for c, place in zip(EVERY, found) if place is None}


def stripped():
    """Likewise lstrip's \\s: the token's span then begins at the white space before it."""
    found = added_token_places(AddedToken("TOK", lstrip=True, normalized=False), [chr(c) + "TOK" for c in EVERY])
    return {c for c, place in zip(EVERY, found) if place == (0, 4)}


def numeric():
    """What Digits takes for a number: those that it cuts off from the letters around them."""
    text = "a" + "".join(chr(c) + "a" for c in EVERY)
    pieces = pre_tokenizers.Digits(individual_digits=True).pre_tokenize_str(text)
    return {ord(text[start]) for _, (start, stop) in pieces if stop == start + 1 and start % 2}


def ranges(points):
    out = []
    for c in sorted(points):
        if out and out[-1][1] + 1 == c:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


HANGUL = range(0xAC00, 0xD7A4)  # composed by arithmetic
NFC, NFD = normalizers.NFC().normalize_str, normalizers.NFD().normalize_str


def combining_classes():
    """Code point -> class, numbered from 1, from the order in which NFD leaves pairs of marks: only that order matters."""
    def swaps(a, b):  # class of b below class of a, both above 0
        return NFD(a + b) == b + a

    def is_mark(c):  # U+0334 has the lowest class, U+0345 the highest
        return NFD(c) == c and (swaps("\u0345", c) or swaps(c, "\u0334"))

    groups = []  # lists of marks of one class, in rising order of class
    for c in filter(is_mark, map(chr, EVERY)):
        at = bisect.bisect_left(groups, 1, key=lambda group: 0 if swaps(c, group[0]) else 1)
        if at < len(groups) and not swaps(groups[at][0], c):
            groups[at].append(c)
        else:
            groups.insert(at, [c])
    return {ord(c): k for k, group in enumerate(groups, 1) for c in group}


def compositions(decompositions):
    """(first, second) -> composed, where the package composes at all."""
    pairs = {}
    for c, parts in decompositions.items():
        if NFC(chr(c)) == chr(c) and len(parts) > 1:
            first, second = NFC(parts[:-1]), parts[-1]
            assert len(first) == 1 and NFC(first + second) == chr(c), hex(c)
            pairs[ord(first), ord(second)] = c
    return pairs


def write(path, blocks):
    lines = [f"// Made by make_unicode_tables.py with tokenizers {tokenizers.__version__} - do not edit."]
    for declaration, comment, rows in blocks:
        lines.append(f"constexpr {declaration}[] = {{  // {comment}")
        line = ""  # decimal, without blanks: half the bytes, and nobody reads them
        for row in rows:
            item = "{" + ",".join(str(n) for n in row) + "},"
            if len(line) + len(item) > 118:
                lines.append(line)
                line = ""
            line += item
        lines += [line, "};"]
    path.write_text("\n".join(lines) + "\n")


def main():
    here = pathlib.Path(__file__).parent
    letter, number, space = matched(r"\p{L}"), matched(r"\p{N}"), matched(r"\s")
    assert not letter & number and not letter & space and not number & space
    assert space == stripped(), "lstrip and rstrip would need a table of their own"
    assert number <= numeric(), "Digits would need a table of its own"
    classes = (("Letter", letter), ("Number", number), ("Space", space), ("Word", word_characters()),
               ("NewerNumber", numeric() - number))
    write(here / "unicode_tables.inc",
          [(f"CodePointRange k{name}Ranges", f"{len(points)} code points; closed ranges", ranges(points))
           for name, points in classes])

    order = combining_classes()
    by_class = sorted((*r, k) for k in set(order.values()) for r in ranges(c for c in order if order[c] == k))
    decompositions = {c: NFD(chr(c)) for c in EVERY if c not in HANGUL and NFD(chr(c)) != chr(c)}
    rows = [(c, *map(ord, parts.ljust(4, "\0"))) for c, parts in decompositions.items()]
    assert all(len(row) == 5 for row in rows)
    pairs = sorted((*pair, c) for pair, c in compositions(decompositions).items())
    write(here / "nfc_tables.inc",
          [("CombiningRange kCombiningRanges", f"{len(order)} code points; first, last, class", by_class),
           ("Decomposition kDecompositions", "code point, full canonical decomposition; sorted", rows),
           ("Composition kCompositions", "first, second, composed; sorted", pairs)])


main()
