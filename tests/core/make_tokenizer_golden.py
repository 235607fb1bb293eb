#!/usr/bin/env python3
"""Writes golden/tokenizer_{qwen2,llama3,gpt2,smollm2,runs,tekken,o200k,llama2,mistral,gemma}.json.gz: tokenizers of these forms, trained here,
and what the `tokenizers` package makes of difficult texts. Needs `pip install tokenizers`; takes two minutes.

    python3 tests/core/make_tokenizer_golden.py [FAMILY...]
    python3 tests/core/make_tokenizer_golden.py --real NAME FOLDER    # golden/tokenizer_NAME_real.json.gz, of its tokenizer.json

Each file holds `tokenizer` (a tokenizer.json), `cases` (text, ids with special tokens parsed, ids with them left as text,
ids with the post-processor's, the latter two where they differ, and in the files of characters what they decode to), `random` (seeded random texts, each
with a hash of its ids), `blocks` (for every 4096 code points a hash of the ids of each one alone, between letters and
after an apostrophe) and `megabyte`: of 1 MB of random Unicode, which the test makes for itself from the same seed, for
each block of 4096 draws a hash of its ids and one of the text that decoding them gives, and a hash of the ids of all of
it at once. Hashes are FNV-1a 64 over the ids as little-endian 32-bit numbers, or over the text's bytes. `variants` are
changes of the tokenizer (RFC 7386), each with a hash of the ids of all cases and random texts.

The tokenizers of Qwen2 and Llama 3 have 2,500 tokens, learnt from Python's standard library and from made-up words of
many scripts; the others have 600 to 900, and that of GPT-2 added tokens with every flag. SmolLM2's lacks the same 21
bytes as the model's own. The real ones of SmolLM2 (NAME smollm2) and Gemma 3 (gemma3) are too large to keep, so only hashes of
their ids are, and for Gemma 3 of the blocks of code points and of the megabyte too.
"""
import gzip
import json
import pathlib
import random
import sys
import sysconfig

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

QWEN2 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = QWEN2.replace(r"|\p{N}|", r"|\p{N}{1,3}|")

HEAD, TAIL = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
OTHERS = r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
TEKKEN = rf"[^\r\n\p{{L}}\p{{N}}]?{HEAD}*{TAIL}+|[^\r\n\p{{L}}\p{{N}}]?{HEAD}+{TAIL}*|\p{{N}}|{OTHERS}"
ENDING = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
O200K = (rf"[^\r\n\p{{L}}\p{{N}}]?{HEAD}*{TAIL}+{ENDING}|[^\r\n\p{{L}}\p{{N}}]?{HEAD}+{TAIL}*{ENDING}|\p{{N}}{{1,3}}|{OTHERS}")

CORPUS = [
    "The cache keeps what the model will read again, and forgets the rest. It's a budget: you'll see what they've kept,",
    "what we're dropping, and why I'd rather not. The window slides; the sinks stay. Each head has its own memory.",
    "In 2026 the 128 heads of 36 layers held 4096 tokens, 1,048,576 entries and 0.25 of the bytes.\n\n  - one\n  - two\n",
    "def attend(q, k, v):\n    for t in range(len(k)):\n        score = q @ k[t]  # a dot product\n    return softmax(score)\n",
    "Größe, Führer, déjà vu, naïve, Việt Nam, Cửa Việt, señor, Łódź, smörgåsbord. Привет, мир! Память модели.",
    "ключ и значение. 缓存保留模型将再次读取的内容。记忆と忘却。기억과 망각. शब्द और स्मृति। ذاكرة النموذج. זיכרון המודל.",
    "if (x != 0) { return x->y; } // fine\t\t\tint main() { return 0; }\r\n\r\n\"quoted\" 'single' `code` ... --- === ###",
]

# Words of mixed case, for the patterns that look at it.
CASED = [
    "camelCase", "XMLHttpRequest", "ABCdef", "ABC def", "aB", "Ab", "AB", "aBC", "ABc's", "ABC'S", "abc'LLx", "ABC'll", "don'T've", "A's'b", "ÉCOLEÉcole", "ǅabc", "aǅb",
    "ǅ", "ʰAʰ", "AʰB", "Aʰb", "ªAB", "ABª", "AB字CD", "字AB", "ABC字", "A\u0301B\u0301c", "\u0301AB", "!\u0301AB", "\u0301\u0301", " \u0301A", "-ABc", "--ABc", " ABc", "\tABc", "\nABc",
    "//\n//a", "a//\r\n/b", "/\n/\n/", "://x", " /\n", "ABC1abc", "1ABc", "हिन्दीABC", "ABCहि", "ʼABC", "İi", "ΑΒΓαβγ", "АБВабв'Ре", "AB" * 50 + "c", "A" * 99, "A" * 40 + "字" + "A" * 40,
]

TORTURE = [
    "", " ", "  ", "   ", "a", " a", "  a", "   a", "a ", "a  ", "\n", "\n\n", " \n", "\n ", " \n ", "\r\n\r\n  x", "\r", "\r \n \r a",
    "\t", "\t\t", "\ta", "\t a", " \ta", "\n\tx", "\n\x0b  ", "\x0b\x0c", "a\n", "a\n\nb", "a \n\n  b", "a  \n", "x\u0085y", "\u0085\u0085",
    "\u00a0", "a\u00a0b", "\u00a0a", "\u1680x", "\u180ex", "\u200bx", "\u200b \u200b", "\u2028x\u2029", "\u3000x", "\ufeffx", "\u2003 \u2003x",
    "\x1c\x1d\x1e\x1f", "a\x1cb", "\x00", "a\x00b", "\x7f\x80\x9f", "\x1b[31mred\x1b[0m",
    "'s", "'S", "'\u017f", "it's", "IT'S", "It'\u017f", "'t'T", "'re'RE'Re'rE", "'ve'VE'vE", "'m'M", "'ll'LL'lL'Ll", "'d'D", "'sa", "'lla",
    "'l", "'r", "'v", "'", "''", "''s", "'''s", " 's", "x 's", "\u2019s", "can't've", "'rE'", "'\u212a", "'\ufb06", "'L\u0131", "y'all'd've",
    "1", "12", "123", "1234", "12345", "123456789012", "1 23 456", "a1b22c333", "1,000,000.00", "\u00bd", "\u2165", "\u00b2", "\u0663\u0664\u0665\u0666",
    "x\u00b2+y\u00b2", "\u2460\u2461", "\U0001d7d8\U0001d7d9", "\u3007\u4e00", "\u0be7\u0be8\u0be9\u0bea", "3.14e-10", "0x1F", " 12", "  12",
    "!", "!!", " !!", "  !!", "!\n", "!\r\n\n", "! \n", "?!\n\n\nx", "a!b", "(a)", " (a", "((a", "--a", "#include <x>\n", "a_b", "__init__", "@x", "$100",
    "\u20ac5", "\u00a9\u00ae", "...", "\u2026", " \u2e4e", "\u2014a", "~~~\n~~~\n", "a/b\\c", "https://example.org/a?b=c&d=%20#e",
    "\u00e9", "e\u0301", "e\u0301\u0323", "e\u0323\u0301", "q\u0307\u0323", "\u1ee9", "u\u031b\u0301", "u\u0301\u031b", "\u212b", "A\u030a", "\u2126", "\u0344", "\u0958",
    "\u0301", " \u0301", "a\u0301\u0301\u0301", "\u0301a", "a\u200d\u0301", "\u07fda\u0301\u07fd", "\u1e9b\u0323", "\ufb1d", "\u0f73", "\u0dddx", "\u09c7\u09be",
    "\u1112\u1161\u11ab", "\u1100\u1161", "\uac00\u11a8", "\uac01\u11a8", "\u1100\u1100\u1161", "\uac00\u11a7", "\u1161\u1161", "\ud55c\uae00", "\uac00\u0300",
    "\ua3e4", "\uffff", "\ufdd0", "\U0010ffff", "\ue000\U000f0000", "\u0378\u0379", "\U0001f9ff\U0001fae0", "\U0002ebf0", "\u9ffd", "\U000e0041",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f1e9\U0001f1ea", "\U0001f44d\U0001f3fd", "\u2764\ufe0f", "a\U0001f600b", " \U0001f600", "\U0001f600\n",
    "Vi\u1ec7t", "Vie\u0323\u0302t", "F\u00fchrer", "Fu\u0308hrer", "C\u1eeda Vi\u1ec7t", "\u0130stanbul", "\u00df\u1e9e", "\ufb01n", "\u01c5", "\u02b0\u02b1", "\u00aa\u00ba",
    "\u0645\u0631\u062d\u0628\u0627 \u0628\u0643", "\u05e9\u05dc\u05d5\u05dd", "\u202eabc\u202c", "\u200f\u200e", "\u0627\u0651\u064e", "\u05e9\u05c1\u05bc",
    "\u4f60\u597d\u4e16\u754c", "\u4f60\u597d, world", "\u3053\u3093\u306b\u3061\u306f", "\u304b\u3099", "\u30cf\u309a", "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35", "\u0928\u092e\u0938\u094d\u0924\u0947", "\u1019\u103c\u1014\u103a\u1019\u102c",
    "<|im_end|>", "<|im_end", "|im_end|>", "<|im_end|><|im_start|>system", "a<|im_end|>b", " <|im_end|> ", "<|im_start|>user\nhi<|im_end|>\n",
    "<|endoftext|><|endoftext|>", "<|im_<|im_end|>", "<|IM_END|>", "<s>a", "<a<ab>", "<ab>", "<abc>", "<a", "<a<a<ab>", "<think>\nx\n</think>\n",
    " \n<lst>  x", "a \t<lst>b", "<rst> \n x", "<rst><rst>  <lst>", "<rst>  <lst>", "x<sw>y", "x <sw> y", "<sw>", "_<sw>", "\u00e9<sw>", "-<sw>-", "<sw><sw>", "\u0301<sw>", "<sw>\u200d",
    "ca\u0301fe", "c\u00e1fe", "xc\u00e1fey", "cauldron", " cauldron", "cauldrons", "  cauldron\n", "The cauldron's",
    "def f(x):\n    return x\n\n\n\ndef g():\n\tpass\n", "{\"a\": [1, 2.5, null]}", "SELECT * FROM t WHERE a='b';", "<html>\n  <b>x</b>\n</html>",
    "The \u7f13\u5b58 keeps \u043a\u043b\u044e\u0447\u0438 and \u0645\u0641\u0627\u062a\u064a\u062d, \u6587\u5b57\u5316\u3051 \U0001f914\u2026 naïve coöperation №5", "a\u0430\u03b1\u0251\uff41", "\u0915\u094d\u0937\u0924\u094d\u0930\u093f\u092f",
    "\u1100\u1100\u1161\u11a8\u11a8 \u115f\u1160 \u3131\uffa1", "\ua960\ud7b0", "\u1112\u1161\u11ab\u1100\u1173\u11af \ud55c\uae00", "\u202d\u2067\u0627\u0628\u062c\u2069 (abc) \u06f1\u06f2\u06f3",
    "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f", "\U0001f468\U0001f3fb\u200d\U0001f4bb\U0001f469\U0001f3ff\u200d\u2764\ufe0f\u200d\U0001f48b\u200d\U0001f468", "1\ufe0f\u20e3#\ufe0f\u20e3", "\u26a0\ufe0e\u26a0\ufe0f",
    "\u0669\u06f9\u096f\u0e59\u1049\u17e9\uff19\U0001d7ff", "\u2167\u216b\u2188 \u3021\u3029 \u4e94\u5341 \u00bc\u00be\u2153 \u2080\u2089 \u2474\u24ff", "1\u00a0000\u202f000", "12\u066b5\u066c6", "007 0 00 000 0000",
    "I'M SURE HE'LL'VE SAID \"DON'T\", WE'D'VE; THEY'RE'NT", "o'clock 'tis 'twas rock'n'roll", "\u02bcs \uff07s `s \u00b4s", "'\u017fx 'S\u017f' 'sT", "don't\u2019t don\u2019t",
    "\x00\x01\x02\x03\x04\x05\x06\x07\x08\x0e\x0f\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a", "a\x08b\x0cc\x1dd", "\u0080\u0084\u0085\u0086\u009f", "\ufff9a\ufffab\ufffb\ufffc\ufffd", "\ufe00\ufe0f\u034f\u061c\u2060\u2064",
    "class A(B):\n\n    def __init__(self, x: int = 0x_FF) -> None:\n        self.x = x  # TODO\n\n\n        return\n", "for(int i=0;i<n;++i){a[i]+=b[i]*c;}//\r\n\r\n\t}", "\\begin{align}\n  x &= \\frac{1}{2} \\\\\n\\end{align}", "$ git log --oneline | head -n 20 && echo \"$HOME\"", "x='a'*3;y=f\"{x!r:>10}\"",
    "\u0378 \u0e3a\u0e5c \u2065 \U0001fbfa \U0003ffff\U00040000 \U000effff", "\u0870\u088f\u1c89\u1c8a\ua7cb\ua7da", "\U00010d40\U00010d4a\U00011380\U00016100\U0001ccf0", "\U00013460\U0001e5d0\U0002ebe0\U00031350", "\ufdd0\ufdef\ufffe\U0001ffff",
    "<|start_header_id|>user<|end_header_id|>\n\nhi<|eot_id|>", "<|begin_of_text|><|begin_of_text|>", "<|eot_id", "<tool_call>\n{}\n</tool_call>", "</think></think>", "< |im_end|>", "<|im_end|>\n\n<|im_start|>", "  <|lr|>  x", "a<|lr|>\n\n\tb <|lr|>", "A\u030ax \u00c5x a\u00c5x \u00c5xb \u212bx",
    " \u3000\u2003\u00a0 x", "\u2029\u2028\n\u2028", "\t \t \n \t", "x \u0085\n y", "\r\r\n\n\r x", " \r\n \r\n", "\u00a0\n\u00a0a", " " * 33 + "\t" * 5 + "\n" * 3 + " " * 7 + "x", "\u3000" * 40 + "\u4e00",
    "word " * 20, "a" * 200, " " * 200, "\n" * 200, "9" * 200, "'" * 200, "\u4e00" * 100, "\u0301" * 100, "ab" * 100, "\r\n" * 50, "the" * 70, " the" * 70,
    " " * 65 + "x", "\n" * 64 + " x", "!" * 100 + "\n" * 3, "aA" * 60, "supercalifragilisticexpialidocious" * 4,
]

# For the forms that came later: numbers of all scripts, SmolLM2's missing bytes, blanks and the mark that stands for one.
MORE = [
    "1a2b3", "12 34  56", " 1", "1 ", "\n1\n", "'1s", "1's", "a1'll", "2026-11-22T05:45:36Z", "v1.2.3", "\u06601\u0967\u09e8\u0e51\uff11", "\u00b2\u00b3\u00b9\u00bc", "\u2160\u2161 \u3007",
    "\U00011de0\U00011de9a", "x\U00016ff4\U00016ff5 7", "\U00011de11\U00011de2", " \U00011de0", "\U0001d7ce\U0001d7e2", "\u4e00\u4e8c\u4e09 1\u4e8c3", "1\u03012", "\u0ed0\u1b50\ua620\U00010140\U0001ccf0",
    "\x04", "a\x04b", "\x04\x06\x13", "\x04 \x06", "\x04\x05\x06", "\x13\x14\x16\x1d x", "1\x042", "\U00040000", "\U00080000\x04", "\U00040000\U00040001 \U00080000", "\U000c0000", "a\U00100000b",
    "\u2581", "\u2581a", " \u2581 a", "\u2581\u2581", "a\u2581", "a \u2581b", "\u2581 ", " \u2581\u2581 \u2581x", "  ", "    x    y", " a ", "a  b   c    d", "   ", " <s> a", "<s>", "<s> ", "<s>a</s>b", "</s> a", "a </s>  b",
    "<unk>", "a<unk>b", "<0x41>", "<0x0A><0x0a>", "a<0xE4><0xBD>", "<0xZZ>", "\r\na\r\n", "\u05d0\u05d1 \u05d2", "\u0627\u0644 \u0639", "e\u0301 \u0301", "\U0001f600 \U0001f600\U0001f600",
    "\x00\x00", " " * 300, "\u2581" * 100, "x " * 150, "1" * 300, "\x04" * 70, "\U00040000" * 40, "a" * 100 + " " + "b" * 100, "\u4f60" * 90, " \n \n", "\t a", "a\u00a0b\u3000c", "the cache keeps", "The model will read again",
    "<|im_start|>user\n12<|im_end|>", "x<file>y", " <file>  y", "<file><file> <pad>", "a<pad> b", " <pad>", "naïve  <pad>\u2581", "<sw>a <sw> a", "z\u2581z", "\u2581<file>", "<file>\u2581",
]

# For Gemma's: a merge across a blank, tokens of blanks, line ends and tags, and the marks of turns.
MARKUP = [
    "<b> </b>", "> </", "x> </b> </b>", "<i> </i>", "a > </ b", ">  </", "> > </", ">\u2581</", ">\u2581\u2581</", "<b>x</b> </b>", "/ </", "b </b", "b </", "/ x", "\u00bf </",
    "<table> <tr> <td> x </td> </tr> </table>", "<table>\n  <tr>\n    <td>x</td>\n  </tr>\n</table>\n", "<p> </p>\n\n<p> </p>", "</b", "<b", "<b<b>", "</tr></tr>",
    "a\n\nb", "a\n \nb", "\n" * 9, "\n" * 30 + "x", "\n" * 32, " \n  \n   \n", "\t\t\tx", "\t" * 40, "x\t y\t\tz", "  x", "   x", " " * 31, " " * 32, " " * 33, "a" + " " * 9 + "b",
    "<start_of_turn>user\nhello<end_of_turn>\n<start_of_turn>model\n", "<bos><start_of_turn>user\n\nhello  <end_of_turn>", "<start_of_turn> user", "<unused0><unused1>", "[multimodal] x",
    "<mask><mask>", "<bos>", "a<eos>", "<start_of_turn", "start_of_turn>", "\u2581\u2581\u2581x", "x\u2581\u2581", " \u2581", "\u2581 ", "\u2581\u2581 \u2581", "1234 5678", "3.14", "0" * 40,
    "for i in range(10):\n    print(i)\n\n\n", "The cauldron's cauldron  cauldron", "\u4f60\u597d \u4e16\u754c", "e\u0301\u0301 \u00e9", "\r\n\r\n", "> </" * 200, "a> </b" * 50,
]

START = 0xCBF29CE484222325


def fnv_bytes(data, h=START):
    for byte in data:
        h = (h ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return h


def fnv(ids, h=START):
    return fnv_bytes(b"".join(i.to_bytes(4, "little") for i in ids), h)


RANGES = [(0x20, 0x7F), (0x20, 0x7F), (0x20, 0x7F), (0x61, 0x7B), (0x61, 0x7B), (0x09, 0x0E), (0x20, 0x28), (0x30, 0x3A),
          (0x80, 0x250), (0x300, 0x370), (0x370, 0x1200), (0x1100, 0x1200), (0x1E00, 0x3000), (0x3000, 0xD7A4),
          (0xAC00, 0xD7A4), (0xE000, 0x110000)]


def megabyte():
    """Blocks of 4096 draws: a range, a character of it, now and then again and again. SplitMix64."""
    state, blocks, size = 20261121, [], 0
    while size < 1 << 20:
        text = []
        for _ in range(4096):
            state = (state + 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
            r = state
            r = (r ^ r >> 30) * 0xBF58476D1CE4E5B9 & 0xFFFFFFFFFFFFFFFF
            r = (r ^ r >> 27) * 0x94D049BB133111EB & 0xFFFFFFFFFFFFFFFF
            r ^= r >> 31
            first, last = RANGES[r % 16]
            again = (r >> 48) % 20 if (r >> 40) % 32 == 0 else 0
            text.append(chr(first + (r >> 8 & 0xFFFFFFFF) % (last - first)) * (1 + again))
        blocks.append("".join(text))
        size += len(blocks[-1].encode())
    return blocks


def library_text(limit=3_000_000):
    """Sources of Python's standard library: English and code."""
    size = 0
    for path in sorted(pathlib.Path(sysconfig.get_path("stdlib")).glob("*.py")):
        text = path.read_text(encoding="utf-8")
        yield text
        size += len(text)
        if size > limit:
            return


def made_up_text():
    """Words of many scripts, the r-th of each as often as 1 / r: nothing but sequences of letters to learn merges from."""
    rng = random.Random(7)
    scripts = [(0xE0, 0x180), (0x430, 0x450), (0x3B1, 0x3CA), (0x5D0, 0x5EB), (0x620, 0x64B), (0x905, 0x93A), (0xE01, 0xE2F),
               (0x1100, 0x1113), (0x3041, 0x3097), (0x30A1, 0x30FB), (0x4E00, 0x4F00), (0xAC00, 0xAD00), (0x1EA0, 0x1EF9),
               (0x1F600, 0x1F640), (0x2190, 0x2200), (0x660, 0x66A), (0x300, 0x310)]
    for first, last in scripts:
        words = ["".join(chr(rng.randrange(first, last)) for _ in range(rng.randint(1, 6))) for _ in range(800)]
        weights = [1 / (r + 1) for r in range(len(words))]
        for _ in range(200):
            yield " ".join(rng.choices(words, weights, k=60)) + ".\n"


def trained(split, use_regex, add_prefix_space, size=2500):
    level = pre_tokenizers.ByteLevel(add_prefix_space=add_prefix_space, use_regex=use_regex)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = level if use_regex else pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(split), behavior="isolated"), level])
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    texts = CORPUS * 2 if size < 1000 else [*CORPUS * 2, *library_text(), *made_up_text()]
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=size, initial_alphabet=alphabet, show_progress=False, min_frequency=2))
    return tokenizer


def qwen2():
    tokenizer = trained(QWEN2, False, False)
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    tokenizer.add_tokens([AddedToken(t, normalized=False) for t in ("<tool_call>", "</tool_call>", "<think>", "</think>")])
    tokenizer.add_tokens([AddedToken("ca\u0301fe", normalized=True), AddedToken("A\u030ax", normalized=True, single_word=True)])
    tokenizer.add_special_tokens([AddedToken("<|lr|>", normalized=False, lstrip=True, rstrip=True)])
    return json.loads(tokenizer.to_str())


def llama3():
    data = json.loads(trained(LLAMA3, False, False).to_str())
    # Whole words that no merge reaches: only ignore_merges finds them. Before the added tokens, which the package numbers
    # from the size of the vocabulary on.
    data["model"]["ignore_merges"] = True
    for word in "\u0120cauldron", "cauldron", "Vi\u00e1\u00bb\u0129t", "123":
        data["model"]["vocab"].setdefault(word, len(data["model"]["vocab"]))
    tokenizer = Tokenizer.from_str(json.dumps(data))
    tokenizer.add_special_tokens(["<|begin_of_text|>", "<|end_of_text|>", "<|im_end|>", "<|start_header_id|>",
                                  "<|end_header_id|>", "<|eot_id|>", "<|eom_id|>", "<|python_tag|>"])
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(
            single="<|begin_of_text|> $A <|end_of_text|>",
            pair="<|begin_of_text|> $A <|end_of_text|> $B",
            special_tokens=[(t, tokenizer.token_to_id(t)) for t in ("<|begin_of_text|>", "<|end_of_text|>")])])
    return json.loads(tokenizer.to_str())


def gpt2():
    tokenizer = trained(None, True, True, 600)
    tokenizer.add_special_tokens(["<|endoftext|>", "<s>"])
    tokenizer.add_tokens([
        AddedToken("<lst>", lstrip=True), AddedToken("<rst>", rstrip=True), AddedToken("<sw>", single_word=True),
        AddedToken("<ab>"), AddedToken("<a<ab>"), AddedToken("<a")])
    tokenizer.post_processor = processors.ByteLevel()
    data = json.loads(tokenizer.to_str())
    data["model"]["merges"] = [" ".join(pair) for pair in data["model"]["merges"]]
    return data


SMOLLM2_LACKS = [0x04, 0x06, 0x13, 0x14, 0x16, 0x1D, 0xC0, 0xC1, 0xF1, 0xF2, *range(0xF5, 0x100)]


def byte_chars():
    """ByteLevel's character of each byte."""
    own = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [b for b in range(256) if b not in own]
    return {b: chr(b) for b in own} | {b: chr(256 + i) for i, b in enumerate(others)}


def smollm2(individual=True, fuse=False):
    data = json.loads(trained(None, True, False, 600).to_str())
    lacks = {byte_chars()[b] for b in SMOLLM2_LACKS}
    model = data["model"]
    kept = [t for t in sorted(model["vocab"], key=model["vocab"].get) if t not in lacks]
    assert not any(lacks & set(a + b) for a, b in model["merges"])
    model["vocab"] = {t: i for i, t in enumerate(["<|endoftext|>", "<|im_start|>", "<|im_end|>", *kept])}
    model["unk_token"], model["fuse_unk"] = "<|endoftext|>", fuse
    data["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [
        {"type": "Digits", "individual_digits": individual}, data["pre_tokenizer"]]}
    tokenizer = Tokenizer.from_str(json.dumps(data))
    tokenizer.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    tokenizer.add_tokens([AddedToken("<file>", normalized=False, lstrip=True), "<pad>"])
    return json.loads(tokenizer.to_str())


def runs():
    return smollm2(False, True)


def tekken():
    tokenizer = trained(TEKKEN, False, False, 600)
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>", "[INST]", "[/INST]", "<|im_end|>"])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", tokenizer.token_to_id("<s>"))])
    return json.loads(tokenizer.to_str())


def o200k():
    tokenizer = trained(O200K, False, False, 600)
    tokenizer.add_special_tokens(["<|startoftext|>", "<|endoftext|>", "<|start|>", "<|end|>", "<|message|>", "<|im_end|>"])
    return json.loads(tokenizer.to_str())


def of_characters():
    """Like Llama 2's: <unk>, <s>, </s>, the bytes, then what was learnt; every way to merge a token is a merge."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.train_from_iterator(CORPUS * 2, trainers.BpeTrainer(vocab_size=500, show_progress=False, min_frequency=2))
    learnt = json.loads(tokenizer.to_str())["model"]
    tokens = sorted(learnt["vocab"], key=learnt["vocab"].get)
    tokens += [t for t in ("\u2581\u2581", "\u2581" * 4, "\u2581" * 3, "\n\n", "...", "\u2581x", "e\u0301") if t not in tokens]
    tokens += [c for c in "x\n.\u0301\u00e9" if c not in tokens]
    known, merges = set(tokens), []
    for token in sorted(tokens, key=lambda t: (len(t), tokens.index(t))):
        merges += [[token[:i], token[i:]] for i in range(1, len(token)) if token[:i] in known and token[i:] in known]
    # The last four are for variants: the package numbers added tokens anew where the vocabulary has another size.
    vocab = ["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256)), *tokens, "e\u2581", "x\u2581y", "\u2581cauldron", "\u2581a\u2581"]
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None, "pre_tokenizer": None,
            "post_processor": None,
            "decoder": {"type": "Sequence", "decoders": [
                {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
                {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
            "model": {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None,
                      "end_of_word_suffix": None, "fuse_unk": True, "byte_fallback": True, "ignore_merges": False,
                      "vocab": {t: i for i, t in enumerate(vocab)}, "merges": merges}}


def with_added(data):
    tokenizer = Tokenizer.from_str(json.dumps(data))
    tokenizer.add_special_tokens([AddedToken(t, normalized=False) for t in ("<unk>", "<s>", "</s>", "<|im_end|>")])
    tokenizer.add_tokens([AddedToken("<file>", normalized=False, lstrip=True, rstrip=True), AddedToken("<pad>", normalized=True),
                          AddedToken("<sw>", normalized=False, single_word=True)])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)])
    return json.loads(tokenizer.to_str())


def llama2():
    data = of_characters()
    data["normalizer"] = {"type": "Sequence", "normalizers": [
        {"type": "Prepend", "prepend": "\u2581"}, {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]}
    return with_added(data)


def mistral():
    data = of_characters()
    data["pre_tokenizer"] = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": False}
    return with_added(data)


# Gemma's: the tokens that templates write, and those that it takes before all merges.
CONTROLS = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "<unused0>", "<unused1>", "<start_of_turn>", "<end_of_turn>"]
USER_DEFINED = ["[multimodal]", *("\n" * n for n in range(1, 8)), *(" " * n for n in range(2, 9)), "\t", "\t\t", "<b>", "</b>", "<table>", "</tr>"]


def gemma():
    """In the form that samples/models/gemma3_270m.py gives the real one: by scores, of tokens learnt here."""
    sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "samples" / "models"))
    import gemma3_270m
    vocab = of_characters()["model"]["vocab"]
    learnt = [t for t in sorted(vocab, key=vocab.get)[259:-4] if t.strip("\u2581\n")]
    words = [t for t in learnt if len(t) > 1] + ["</", "\u2581<", "\u2581</", ">\u2581</", "\u2581cauldron"]  # ">" joins the next word
    chars = ["\u2581", *(t for t in learnt if len(t) == 1), *(c for c in "<>/b" if c not in learnt)]
    parts = [(CONTROLS, 3), (USER_DEFINED, 4), ([f"<0x{b:02X}>" for b in range(256)], 6), (words + chars, 1)]
    tokens, types = [t for some, _ in parts for t in some], [kind for some, kind in parts for _ in some]
    scores = [-1000.0 if kind in (3, 4) else 0.0 if kind == 6 else -float(i) for i, kind in enumerate(types)]
    facts = {"tokenizer.ggml.bos_token_id": 2, "tokenizer.ggml.unknown_token_id": 3}
    data = gemma3_270m.tokenizer_json(tokens, scores, types, facts.get)
    return json.loads(Tokenizer.from_str(json.dumps(data)).to_str())


def variants(family, data):
    """Changes whose ids differ, as merge patches."""
    if family == "gemma":
        ids = data["model"]["vocab"]
        yield {"pre_tokenizer": None}
        yield {"pre_tokenizer": {"behavior": "Isolated"}}
        yield {"model": {"merges": [m for m in data["model"]["merges"] if m != [">", "\u2581</"]]}}
        yield {"model": {"merges": [*data["model"]["merges"], ["b", "\u2581</"], ["/", "\u2581"]],
                         "vocab": {"<0x01>": None, "<0x02>": None, "b\u2581</": ids["<0x01>"], "/\u2581": ids["<0x02>"]}}}
        yield {"model": {"ignore_merges": True}}
        yield {"model": {"byte_fallback": False}}
        yield {"model": {"byte_fallback": False, "fuse_unk": False}}
    if family in ("llama2", "mistral"):
        # One merge across a blank, and the text cannot be cut there.
        yield {"model": {"merges": [["e", "\u2581"], *data["model"]["merges"]]}}
        yield {"model": {"byte_fallback": False}}
        yield {"model": {"byte_fallback": False, "fuse_unk": False}}
        ids = data["model"]["vocab"]
        yield {"model": {"vocab": {"<0x01>": None, "<0xF0>": None, "\ue001": ids["<0x01>"], "\ue002": ids["<0xF0>"]}}}
        yield {"model": {"ignore_merges": True}}
        yield {"normalizer": {"type": "NFC"}} if family == "mistral" else {
            "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581", "normalizers": None}}
    if family == "mistral":
        for scheme in "first", "always", "never":
            for split in True, False:
                yield {"pre_tokenizer": {"prepend_scheme": scheme, "split": split}}
        yield {"pre_tokenizer": {"split": True}, "model": {"ignore_merges": True}}
    if family in ("smollm2", "runs"):
        yield {"model": {"fuse_unk": family == "smollm2"}}


def merge_patch(data, patch):
    if not isinstance(patch, dict):
        return patch
    out = dict(data) if isinstance(data, dict) else {}
    for key, value in patch.items():
        if value is None:
            out.pop(key, None)
        else:
            out[key] = merge_patch(out.get(key), value)
    return out


def random_texts(added, n=500):
    rng = random.Random(20261121)
    ranges = [(0x20, 0x7F)] * 8 + [(0x30, 0x3A)] * 2 + [(0x80, 0x300), (0x300, 0x370), (0x370, 0x800), (0x800, 0x3000),
              (0x1100, 0x1200), (0xAC00, 0xD7A4), (0x3000, 0xA000), (0xE000, 0x10000), (0x10000, 0x20000), (0x20000, 0x110000)]
    texts = []
    for _ in range(n):
        text = ""
        for _ in range(rng.choice([1, 2, 5, 20, 60])):
            kind = rng.random()
            text += (rng.choice(added) if kind < 0.02 else rng.choice(" \n\r\t\u0085\u00a0\u3000'") if kind < 0.2
                     else rng.choice("sStTrReEvVmMlLdD\u017f") if kind < 0.3 else chr(rng.randrange(*rng.choice(ranges))))
        texts.append(text)
    return texts


def decoded(data, tokenizer, text):
    """What decoding gives: the text as normalised. (GPT-2's has a blank before it, and after every added token.)"""
    back = tokenizer.decode(tokenizer.encode(text, add_special_tokens=False).ids, skip_special_tokens=False)
    normal = tokenizer.normalizer.normalize_str(text) if tokenizer.normalizer else text
    later = data["model"]["unk_token"] is not None
    assert back == normal or later or data["pre_tokenizer"].get("add_prefix_space")
    return back


def write(name, data):
    path = pathlib.Path(__file__).parent / "golden" / f"tokenizer_{name}.json.gz"
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":")) + "\n"
    path.write_bytes(gzip.compress(text.encode(), mtime=0))
    print(path.name, path.stat().st_size, "bytes,", len(data["cases"]), "cases")


def real(name, folder):
    tokenizer = Tokenizer.from_file(str(pathlib.Path(folder) / "tokenizer.json"))
    of_gemma = name == "gemma3"
    texts = TORTURE + CASED * of_gemma + MORE + MARKUP * of_gemma
    out = {"cases": [[t, f"{fnv(tokenizer.encode(t, add_special_tokens=False).ids):016x}"] for t in texts]}
    if of_gemma:
        blocks = megabyte()
        out |= {"blocks": code_points(tokenizer), "megabyte": {
            "blocks": [f"{fnv(tokenizer.encode(t, add_special_tokens=False).ids):016x}" for t in blocks],
            "at_once": f"{fnv(tokenizer.encode(''.join(blocks), add_special_tokens=False).ids):016x}"}}
    write(f"{name}_real", out)


def code_points(tokenizer):
    """For every 4096 code points a hash of the ids of each one alone, between letters and after an apostrophe."""
    blocks = []
    for start in range(0, 0x110000, 4096):
        points = [chr(c) for c in range(start, start + 4096) if not 0xD800 <= c < 0xE000]
        h = START
        batch = [text for c in points for text in (c, f"a{c}b", f"'{c}")]
        for encoding in tokenizer.encode_batch(batch, add_special_tokens=False):
            h = fnv(encoding.ids, h)
        blocks.append(f"{h:016x}")
    return blocks


def main():
    if sys.argv[1:2] == ["--real"]:
        return real(*sys.argv[2:])
    makers = (qwen2, llama3, gpt2, smollm2, runs, tekken, o200k, llama2, mistral, gemma)
    for make in [make for make in makers if make.__name__ in sys.argv[1:] or len(sys.argv) == 1]:
        data = make()
        tokenizer = Tokenizer.from_str(json.dumps(data))
        later = data["model"]["unk_token"] is not None

        def encode(text, parse_special=True, add_special=False):
            tokenizer.encode_special_tokens = not parse_special
            return tokenizer.encode(text, add_special_tokens=add_special).ids

        def case(text):
            of_text = {"text": text, "ids": encode(text)}
            others = {"as_text": encode(text, False), "whole": encode(text, True, True)}
            of_text |= {key: ids for key, ids in others.items() if ids != of_text["ids"]}
            return of_text | ({"decoded": tokenizer.decode(of_text["ids"], skip_special_tokens=False)} if later else {})

        cased = make in (tekken, o200k)
        cases = [case(t) for t in TORTURE + CASED * cased + MORE * later + MARKUP * (make is gemma)]
        texts = random_texts([t["content"] for t in data["added_tokens"]])
        tokenizer.encode_special_tokens = False
        blocks = code_points(tokenizer)
        million = megabyte()
        whole = [[f"{fnv(encode(t)):016x}", f"{fnv_bytes(decoded(data, tokenizer, t).encode()):016x}"] for t in million]
        out = {"tokenizer": data, "cases": cases, "random": [[t, f"{fnv(encode(t)):016x}"] for t in texts], "blocks": blocks,
               "megabyte": {"blocks": whole, "at_once": f"{fnv(encode(''.join(million))):016x}"}}
        for patch in variants(make.__name__, data):
            other, h = Tokenizer.from_str(json.dumps(merge_patch(data, patch))), START
            for encoding in other.encode_batch([c["text"] for c in cases] + texts, add_special_tokens=False):
                h = fnv(encoding.ids, h)
            out.setdefault("variants", []).append([patch, f"{h:016x}"])
        write(make.__name__, out)


main()
