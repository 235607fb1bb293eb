#!/usr/bin/env python3
"""Writes unicode_exceptions.inc: where the `tokenizers` package and libutf8proc disagree about a character.

The package has several versions of Unicode at once: 16.0 for letters, numbers and words, 17.0 for what Digits cuts off, 9.0
for normal form C. utf8proc has the version of its package: 15.0 on Debian 12, 15.1 on Debian 13. The ids of a text must not
depend on that, so whatever any of the given libraries has otherwise than the package is in the tables. Give the oldest and the
newest that you can find. Needs `pip install tokenizers`; takes two minutes.

    python3 engine/core/files/tokenizer/make_unicode_exceptions.py LIBUTF8PROC.so...
"""
import ctypes
import pathlib
import sys

import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

EVERY = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
LETTER, NUMBER, SPACE, WORD, NEWER_NUMBER, HEAD, TAIL = 1, 2, 3, 4, 8, 16, 32  # of unicode.cpp
CASED = [HEAD, TAIL, HEAD, HEAD | TAIL, HEAD | TAIL]  # Lu, Ll, Lt, Lm, Lo
OF_CATEGORY = [0] + [LETTER | WORD | case for case in CASED] + [WORD | HEAD | TAIL] * 3 + [NUMBER | WORD] * 2 + [NUMBER] + [WORD] + [0] * 10 + [SPACE] * 3 + [0] * 4
NFC, NFD = normalizers.NFC().normalize_str, normalizers.NFD().normalize_str


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


def classes():
    """By code point, as the package has them."""
    letter, number, space, newer = matched(r"\p{L}"), matched(r"\p{N}"), matched(r"\s"), numeric()
    assert not letter & number and not letter & space and not number & space
    assert space == stripped(), "lstrip and rstrip would need a class of their own"
    assert number <= newer, "Digits would need a class of its own"
    head, tail = matched(r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"), matched(r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]")
    word, bits = word_characters(), [0] * 0x110000
    for c in EVERY:
        bits[c] = LETTER if c in letter else NUMBER if c in number else SPACE if c in space else 0
        bits[c] |= (WORD if c in word else 0) | (NEWER_NUMBER if c in newer - number else 0)
        bits[c] |= (HEAD if c in head else 0) | (TAIL if c in tail else 0)
    return bits


class Library:
    def __init__(self, path):
        self.lib = ctypes.CDLL(path)
        self.lib.utf8proc_get_property.restype = ctypes.POINTER(ctypes.c_int16 * 2)  # category, combining class
        self.lib.utf8proc_unicode_version.restype = ctypes.c_char_p
        self.version = self.lib.utf8proc_unicode_version().decode()
        properties = [tuple(self.lib.utf8proc_get_property(c)[0]) for c in range(0x110000)]
        self.bits = [OF_CATEGORY[category] for category, _ in properties]
        self.marks = {c for c in EVERY if properties[c][1]}

    def decomposed(self, c):
        parts, bound = (ctypes.c_int32 * 8)(), ctypes.c_int()
        return "".join(map(chr, parts[: self.lib.utf8proc_decompose_char(c, parts, 8, 1 << 4, ctypes.byref(bound))]))


def joined(points, may_cover):
    """Closed ranges of the points, joined where every point between them may be covered too."""
    out = []
    for c in sorted(points):
        if out and all(may_cover(out[-1][1], between) for between in range(out[-1][1] + 1, c + 1)):
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def class_ranges(libraries):
    bits = classes()
    differ = [c for c in EVERY if any(library.bits[c] != bits[c] for library in libraries)]
    return [(*r, bits[r[0]]) for r in joined(differ, lambda last, c: bits[c] == bits[last])]


def past_nfc(libraries):
    """What a library's normal form changes, orders or composes and the package's does not."""
    parts = {c: NFD(chr(c)) for c in EVERY if NFD(chr(c)) != chr(c)}
    used = set(parts) | {ord(part) for all_parts in parts.values() for part in all_parts}
    used |= {c for c in EVERY if NFD(chr(c)) == chr(c) and  # marks: U+0334 has the lowest class, U+0345 the highest
             (NFD("\u0345" + chr(c)) == chr(c) + "\u0345" or NFD(chr(c) + "\u0334") == "\u0334" + chr(c))}
    newer = set()
    for library in libraries:
        for c in set(EVERY) - used:
            decomposed = library.decomposed(c)
            if c in library.marks or decomposed != chr(c):
                newer |= {c, *map(ord, decomposed[:1])} | ({ord(decomposed[-1])} - used)
        assert all(library.decomposed(c) == parts[c] for c in parts), library.version
    assert not newer & used, [hex(c) for c in newer & used]
    return joined(newer, lambda _, c: c not in used)


def main():
    libraries = [Library(path) for path in sys.argv[1:]]
    versions = ", ".join(library.version for library in libraries)
    lines = [f"// Made by make_unicode_exceptions.py with tokenizers {tokenizers.__version__} and utf8proc of Unicode {versions} - "
             "do not edit."]
    for declaration, comment, rows in (
            ("ClassRange kClassRanges", "first, last, class", class_ranges(libraries)),
            ("CodePointRange kPastNfc", "first, last: newer than the normal form", past_nfc(libraries))):
        lines.append(f"constexpr {declaration}[] = {{  // {comment}")
        line = ""
        for row in rows:
            item = "{" + ",".join(f"0x{n:X}" if n > 15 else str(n) for n in row) + "},"
            if len(line) + len(item) > 118:
                lines.append(line)
                line = ""
            line += item
        lines += [line, "};"]
    (pathlib.Path(__file__).parent / "unicode_exceptions.inc").write_text("\n".join(lines) + "\n")


main()
